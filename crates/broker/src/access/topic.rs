//! Permissions of a user on a topic exchange: two patterns over routing keys, besides the permissions over names.
//!
//! A pattern may hold variables: `{username}` and `{vhost}` stand for what they say, letter by letter, whatever they
//! mean in a regular expression. Braces that repeat nothing are themselves.

use super::pattern::{BadPattern, Pattern};
use super::permissions::Access;
use crate::catalog::{Object, Reason, Refusal};

/// The two patterns of a user on an exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicPermissions {
    write: Pattern,
    read: Pattern,
}

impl TopicPermissions {
    /// Compiles the patterns for a user in a virtual host.
    ///
    /// # Errors
    /// One of them is none: see [`Pattern::new`], with its variables replaced.
    pub fn new(write: &str, read: &str, user: &str, vhost: &str) -> Result<TopicPermissions, BadPattern> {
        let compiled = |source: &str| Pattern::new(&expanded(source, user, vhost));
        Ok(TopicPermissions { write: compiled(write)?, read: compiled(read)? })
    }

    /// Those that allow the empty key alone.
    pub(crate) fn nothing() -> TopicPermissions {
        TopicPermissions::new("", "", "", "").expect("these are patterns")
    }

    /// Whether they allow it: publishing is to write, binding to read. To configure is not asked for.
    pub fn allow(&self, access: Access, routing_key: &[u8]) -> bool {
        let key = String::from_utf8_lossy(routing_key);
        match access {
            Access::Configure => true,
            Access::Write => self.write.matches(&key),
            Access::Read => self.read.matches(&key),
        }
    }
}

/// The no that follows from topic permissions.
pub(crate) fn topic_refused(access: Access, key: &[u8], exchange: &str, vhost: &str, user: &str) -> Refusal {
    let text = format!(
        "{} access to topic '{}' in exchange '{exchange}' in vhost '{vhost}' refused for user '{user}'",
        access.name(),
        String::from_utf8_lossy(key),
    );
    Refusal::access(Reason::Permission(Object::Topic), text)
}

/// The pattern with its variables replaced.
fn expanded(source: &str, user: &str, vhost: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find(['\\', '{']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = if let Some(after) = rest.strip_prefix('\\') {
            let mut taken = 1 + after.chars().next().map_or(0, char::len_utf8);
            // \x{2e} and the like.
            if after.starts_with(['x', 'p', 'P', 'u', 'k', 'g']) && after[1..].starts_with('{') {
                taken += after[1..].find('}').map_or(0, |end| end + 1);
            }
            out.push_str(&rest[..taken]);
            taken
        } else if rest.starts_with("{username}") {
            escape(user, &mut out);
            "{username}".len()
        } else if rest.starts_with("{vhost}") {
            escape(vhost, &mut out);
            "{vhost}".len()
        } else {
            out.push_str(if repeats(rest) { "{" } else { "\\{" });
            1
        };
        rest = &rest[taken..];
    }
    out + rest
}

/// Whether a brace begins `{2}`, `{2,}` or `{2,3}`.
fn repeats(text: &str) -> bool {
    let Some((inside, _)) = text[1..].split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && is_number(least) && is_number(most)
}

/// Appends text that means itself.
fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        if "\\^$.|?*+()[]{}-".contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_matched_by_both_patterns() {
        let check = |pattern: &str, key: &str, expected: bool| {
            let permissions = TopicPermissions::new(pattern, "^r$", "a.b", "v/(1)").unwrap();
            assert_eq!(permissions.allow(Access::Write, key.as_bytes()), expected, "{pattern} on {key}");
            assert!(permissions.allow(Access::Read, b"r") && !permissions.allow(Access::Read, b"w"));
        };
        check(".*", "any.key", true);
        check("", "any.key", false);
        check("", "", true);
        check("^$", "k", false);
        check("^allowed", "allowed.key", true);
        check("^allowed", "not.allowed", false);
        check("^{username}$", "a.b", true);
        check("^{username}$", "axb", false);
        check("^{vhost}-{username}", "v/(1)-a.b.c", true);
        check("^[{username}]+$", "a.b", true);
        check("^{client_id}$", "{client_id}", true);
        check("^x{2,3}$", "xxx", true);
        check("^x{2}$", "xxx", false);
        check("^x\\{2}$", "x{2}", true);
        check("^x\\x{2e}$", "x.", true);
        check("{", "{", true);
        check("^(?!secret\\.).*$", "public.a", true);
        check("^(?!secret\\.).*$", "secret.a", false);
        check("^(?!{username})", "a.b.c", false);
        check("^(?!{username})", "axb", true);
        check("^(a|b)\\.\\g{1}$", "a.a", true);
        check("^(a|b)\\.\\g{1}$", "a.b", false);
        check("(?<={vhost}-)x", "v/(1)-x", true);
        check("a\\\\", "a\\", true);
    }

    #[test]
    fn keys_need_not_be_text() {
        let permissions = TopicPermissions::new(".*", "^a", "u", "/").unwrap();
        assert!(permissions.allow(Access::Write, b"\xFF") && permissions.allow(Access::Read, b"a\xFF"));
        assert!(!permissions.allow(Access::Read, b"\xFFa"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for pattern in ["[", "(", "a\\", &"{username}".repeat(500)] {
            assert!(TopicPermissions::new(pattern, "", &"u".repeat(20), "/").is_err(), "{pattern}");
        }
    }
}
