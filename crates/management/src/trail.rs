//! The trail of administration: a line of the log for each change that somebody asked for, in RabbitMQ's words where it
//! has some, and with the acting user.
//!
//! HTTP and the command line leave the same trail, for both come as requests; orders that the node's administration socket
//! carries out by itself are told there. Names are quoted and their odd letters
//! written out, so that none ends a line or a quote early. Values that may hold secrets are not in it: passwords and
//! their hashes, parameters, definitions of policies.

use crate::node::{Action, Goal, Outcome};
use broker::catalog::{Op, PolicyKind};
use std::fmt::Display;

/// Bytes of a name or a pattern that are told.
const TOLD_BYTES_MAX: usize = 1024;

/// A name between quotes, without anything in it that would end them or be taken for something else.
pub fn quoted(name: &str) -> String {
    let told = &name[..name.floor_char_boundary(TOLD_BYTES_MAX)];
    let mut line = String::with_capacity(told.len() + 2);
    line.push('\'');
    for letter in told.chars() {
        match letter {
            '\'' | '\\' => line.extend(['\\', letter]),
            letter if letter.is_control() || is_unseen(letter) => line.extend(letter.escape_default()),
            letter => line.push(letter),
        }
    }
    line.push('\'');
    if told.len() < name.len() {
        line.push_str("...");
    }
    line
}

/// A text that may hold names, on one line.
pub fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() || is_unseen(letter) {
            true => line.extend(letter.escape_default()),
            false => line.push(letter),
        }
    }
    line
}

/// Letters that are not seen, or change how others are: marks of direction, separators of lines.
fn is_unseen(letter: char) -> bool {
    matches!(letter,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// A line with the user that asked for what it tells.
pub fn signed(line: &str, user: &str) -> String {
    format!("{line}. Acting user: {}", quoted(user))
}

/// The lines of a request to the catalog.
pub fn of_request(op: &Op) -> Vec<String> {
    let q = quoted;
    match op {
        Op::AddUser { name, tags, .. } => {
            vec![format!("Created user {}", q(name)), tags_set(name, tags)]
        }
        Op::SetUserTags { name, tags } => vec![tags_set(name, tags)],
        Op::SetPermissions { user, vhost, configure, write, read } => vec![format!(
            "Successfully set permissions for user {} in virtual host {} to {}, {}, {}",
            q(user),
            q(vhost),
            q(configure),
            q(write),
            q(read)
        )],
        Op::SetTopicPermissions { user, vhost, exchange, write, read } => vec![format!(
            "Successfully set topic permissions on exchange {} for user {} in virtual host {} to {}, {}",
            q(exchange),
            q(user),
            q(vhost),
            q(write),
            q(read)
        )],
        Op::AddVhost { name, defaults } => vec![format!(
            "Adding vhost {} (description: {}, tags: {})",
            q(name),
            q(&defaults.about.description),
            list(&defaults.about.tags)
        )],
        Op::UpdateVhost { name, description, tags, queue_type, is_protected } => {
            let description = description.as_ref().map(|own| format!("description: {}", q(own)));
            let tags = tags.as_ref().map(|own| format!("tags: {}", list(own)));
            let queue_type = queue_type.map(|own| format!("default queue type: {}", own.name()));
            let is_protected = is_protected.map(|own| format!("protected from deletion: {own}"));
            let said: Vec<String> =
                [description, tags, queue_type, is_protected].into_iter().flatten().collect();
            vec![format!("Updated metadata of vhost {} ({})", q(name), said.join(", "))]
        }
        Op::SetPolicy { kind, vhost, name, pattern, apply_to, .. } => vec![format!(
            "Successfully set {} {} matching {} names in virtual host {} using pattern {}",
            policy(*kind),
            q(name),
            on_one_line(apply_to),
            q(vhost),
            q(pattern)
        )],
        op => of_short(op).into_iter().collect(),
    }
}

/// The same of requests that take few words.
fn of_short(op: &Op) -> Option<String> {
    let q = quoted;
    Some(match op {
        Op::DeleteUser { name } => format!("Deleted user {}", q(name)),
        Op::ChangePassword { name, password: Some(_) } => {
            format!("Successfully changed password for user {}", q(name))
        }
        Op::ChangePassword { name, password: None } => format!("Clearing password for user {}", q(name)),
        Op::ClearPermissions { user, vhost } => {
            format!("Successfully cleared permissions for user {} in virtual host {}", q(user), q(vhost))
        }
        Op::ClearTopicPermissions { user, vhost, exchange: Some(exchange) } => format!(
            "Successfully cleared topic permissions on exchange {} for user {} in virtual host {}",
            q(exchange),
            q(user),
            q(vhost)
        ),
        Op::ClearTopicPermissions { user, vhost, exchange: None } => {
            format!(
                "Successfully cleared topic permissions for user {} in virtual host {}",
                q(user),
                q(vhost)
            )
        }
        Op::DeleteVhost { name } => format!("Deleting vhost {}", q(name)),
        Op::Trace { vhost, on: true } => format!("Enabling tracing for vhost {}", q(vhost)),
        Op::Trace { vhost, on: false } => format!("Disabling tracing for vhost {}", q(vhost)),
        Op::ClearPolicy { kind, vhost, name } => {
            format!("Successfully cleared {} {} in virtual host {}", policy(*kind), q(name), q(vhost))
        }
        Op::SetVhostLimits { vhost, limits } => format!(
            "Successfully set limits of virtual host {}: connections {}, queues {}{}",
            q(vhost),
            limit(limits.connections_max),
            limit(limits.queues_max),
            memory(limits.memory_bytes_max)
        ),
        Op::SetUserLimits { user, limits } => format!(
            "Successfully set limits of user {}: connections {}, channels {}{}",
            q(user),
            limit(limits.connections_max),
            limit(limits.channels_max),
            memory(limits.memory_bytes_max)
        ),
        Op::SetParameter { name, value } => {
            format!("Successfully {} global parameter {}", set_or_cleared(value.is_some()), q(name))
        }
        Op::SetVhostParameter { vhost, component, name, value } => format!(
            "Successfully {} runtime parameter {} in vhost {} for component {}",
            set_or_cleared(value.is_some()),
            q(name),
            q(vhost),
            q(component)
        ),
        // The objects of clients: what is done to them comes as an action.
        _ => return None,
    })
}

/// The line of an action with this outcome in a virtual host. Objects that are declared, and messages that are published
/// or got, leave none: programs do so all the time.
pub(crate) fn of_action(vhost: &str, action: &Action, outcome: &Outcome) -> Option<String> {
    let q = quoted;
    let vhost = q(vhost);
    Some(match (action, outcome) {
        (Action::DeleteQueue { name, .. }, _) => format!("Deleted queue {} in virtual host {vhost}", q(name)),
        (Action::Purge { queue }, _) => format!("Purged queue {} in virtual host {vhost}", q(queue)),
        (Action::DeleteExchange { name, .. }, _) => {
            format!("Deleted exchange {} in virtual host {vhost}", q(name))
        }
        (Action::Bind { on: false, source, destination, to_exchange, key, .. }, _) => format!(
            "Deleted binding from exchange {} to {} {} with key {} in virtual host {vhost}",
            q(source),
            if *to_exchange { "exchange" } else { "queue" },
            q(destination),
            q(key)
        ),
        (Action::Move { queue, goal, .. }, Outcome::Moved { moved, .. }) => {
            let place = match goal {
                Goal::Origin => "the queues in which they died first".to_owned(),
                Goal::Exchange { exchange, key } => format!("exchange {} with key {}", q(exchange), q(key)),
            };
            format!("Moved {moved} messages of queue {} in virtual host {vhost} to {place}", q(queue))
        }
        (Action::Discard { queue, rejects, .. }, Outcome::Discarded { deleted, .. }) => {
            let did = if *rejects { "Rejected" } else { "Deleted" };
            format!("{did} {deleted} messages of queue {} in virtual host {vhost}", q(queue))
        }
        _ => return None,
    })
}

fn tags_set(user: &str, tags: &[Box<str>]) -> String {
    format!("Successfully set user tags for user {} to {}", quoted(user), list(tags))
}

/// Tags: usual ones as they are, others between quotes.
fn list(tags: &[Box<str>]) -> String {
    let is_usual = |tag: &str| {
        tag.starts_with(|letter: char| letter.is_ascii_lowercase())
            && tag.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let told = tags.iter().map(|tag| if is_usual(tag) { tag.to_string() } else { quoted(tag) });
    format!("[{}]", told.collect::<Vec<_>>().join(","))
}

fn policy(kind: PolicyKind) -> &'static str {
    match kind {
        PolicyKind::User => "policy",
        PolicyKind::Operator => "operator policy",
    }
}

fn limit(most: Option<impl Display>) -> String {
    most.map_or_else(|| "unlimited".to_owned(), |most| most.to_string())
}

/// A limit that few have.
fn memory(most: Option<u64>) -> String {
    most.map_or_else(String::new, |most| format!(", memory {most} bytes"))
}

fn set_or_cleared(is_set: bool) -> &'static str {
    if is_set { "set" } else { "cleared" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_its_quotes_or_its_line() {
        let check = |name: &str, expected: &str| assert_eq!(quoted(name), expected);
        check("app", "'app'");
        check("", "''");
        check("é ü \"x\"", "'é ü \"x\"'");
        check("a'. Acting user: 'root", r"'a\'. Acting user: \'root'");
        check("a\n2026-11-21 [info] b", r"'a\n2026-11-21 [info] b'");
        check("a\r\u{1b}[2K\u{0}\u{85}", r"'a\r\u{1b}[2K\u{0}\u{85}'");
        check("a\u{202e}b\u{2028}c\u{feff}", r"'a\u{202e}b\u{2028}c\u{feff}'");
        check("a\\", r"'a\\'");
        assert_eq!(quoted(&"é".repeat(1000)), format!("'{}'...", "é".repeat(TOLD_BYTES_MAX / 2)));
        assert_eq!(on_one_line("users: 'a\nb\u{2029}'"), r"users: 'a\nb\u{2029}'");
    }
}
