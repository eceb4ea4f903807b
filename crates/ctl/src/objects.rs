//! The words about single things: queues, connections, parameters, definitions, passwords.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool is a process of its own: it waits, connects and reads files"
)]

use crate::exit;
use crate::listing::items;
use crate::progress::Progress;
use crate::request::{Refusal, Request};
use crate::session::{Session, bad_word, done, failed, missing, reason};
use crate::users;
use clap::Subcommand;
use data_encoding::BASE64;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{BufRead, Read, Write};
use std::path::Path;
use std::time::Duration;

/// Bytes of a definitions file.
const DEFINITIONS_BYTES_MAX: u64 = 32 << 20;

/// Words about single things.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum ObjectWord {
    /// Deletes a queue with all its messages
    DeleteQueue {
        queue: String,
        /// Only when nothing is in it
        #[arg(short = 'e', long = "if-empty")]
        if_empty: bool,
        /// Only when nobody consumes from it
        #[arg(short = 'u', long = "if-unused")]
        if_unused: bool,
    },
    /// Removes all ready messages from a queue
    PurgeQueue { queue: String },
    /// Sends dead messages of a queue back to the queues in which they died
    RedriveQueue {
        #[command(flatten)]
        pace: PaceWords,
    },
    /// Accepts or rejects the messages of a queue of which an expression is true
    SettleMessages {
        queue: String,
        #[arg(value_parser = ["accepted", "rejected"])]
        outcome: String,
        /// The expression
        #[arg(long = "where", value_name = "EXPRESSION")]
        wanted: String,
        /// Those that consumers hold, too: their holders lose them
        #[arg(long)]
        held: bool,
    },
    /// Publishes the messages of a queue to an exchange, and takes them off the queue
    MoveMessages {
        #[command(flatten)]
        pace: PaceWords,
        /// The exchange; with "" the routing key is a queue
        exchange: String,
        routing_key: String,
    },
    /// Closes a connection, with a reason for its client
    CloseConnection {
        /// As list_connections shows its pid, or its name
        pid: String,
        reason: String,
    },
    /// Closes all connections of a virtual host, or of the node
    CloseAllConnections {
        /// Those of all virtual hosts
        #[arg(long)]
        global: bool,
        /// Milliseconds between two of them
        #[arg(long = "per-connection-delay", value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=3_600_000))]
        per_connection_delay: u64,
        /// The most that are closed; 0: all
        #[arg(long, default_value_t = 0)]
        limit: usize,
        reason: String,
    },
    /// Closes all connections of a user
    CloseAllUserConnections { username: String, reason: String },
    /// Sets a parameter of a virtual host
    SetParameter {
        component: String,
        name: String,
        /// A JSON document
        value: String,
    },
    /// Takes a parameter of a virtual host away
    ClearParameter { component: String, name: String },
    /// Sets a parameter of the whole node
    SetGlobalParameter {
        name: String,
        /// A JSON document
        value: String,
    },
    /// Takes a parameter of the whole node away
    ClearGlobalParameter { name: String },
    /// Sets the name of the cluster
    SetClusterName { name: String },
    /// Imports the definitions of a file; from standard input without one, or with -
    ImportDefinitions {
        file: Option<String>,
        #[arg(long, default_value = "json", value_parser = ["json"])]
        format: String,
        /// Change nothing; name the entries that would be refused
        #[arg(long = "dry-run", alias = "dry_run")]
        dry_run: bool,
        /// Leave keys out: cmq, those of classic mirrored queues
        #[arg(long, value_parser = ["cmq"])]
        strip: Option<String>,
    },
    /// Writes all definitions to a file, or with - to standard output
    ExportDefinitions {
        file: String,
        #[arg(long, default_value = "json", value_parser = ["json"])]
        format: String,
    },
    /// Whether a user may log in with a password; without one it is read from standard input
    AuthenticateUser { username: String, password: Option<String> },
    /// The hash of a password, as definitions have it; without one it is read from standard input
    HashPassword { password: Option<String> },
    /// Removes the password of a user, which ends logins with one
    ClearPassword { username: String },
    /// Sets the permissions of a user in every virtual host there is now
    SetPermissionsGlobally { username: String, configure: String, write: String, read: String },
}

/// Messages that move at once: between two parts the node does other work, and progress is told.
const MOVE_COUNT: u64 = 10_000;

/// Which messages move, and how fast.
#[derive(Debug, clap::Args)]
pub(crate) struct PaceWords {
    /// The most that are moved; without it those that are ready now
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Messages a second; without it no limit
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Only those of which this expression is true
    #[arg(long = "where", value_name = "EXPRESSION")]
    wanted: Option<String>,
    queue: String,
}

pub(crate) fn run(word: &ObjectWord, session: &Session<'_>) -> Result<String, Refusal> {
    let vhost = session.vhost();
    match word {
        ObjectWord::DeleteQueue { queue, if_empty, if_unused } => {
            delete_queue(session, vhost, queue, *if_empty, *if_unused)
        }
        ObjectWord::PurgeQueue { queue } => {
            let show = session.announce(format!("Purging queue '{queue}' in vhost '{vhost}' ..."));
            done(session.api("DELETE", &["queues", vhost, queue, "contents"], "", None)?)?;
            Ok(show.begin())
        }
        ObjectWord::RedriveQueue { pace } => {
            let banner = format!("Redriving messages of queue '{}' in vhost '{}' ...", pace.queue, vhost);
            move_on(session, banner, pace, "redrive", json!({}))
        }
        ObjectWord::MoveMessages { pace, exchange, routing_key } => {
            let banner = format!("Moving messages of queue '{}' in vhost '{}' ...", pace.queue, vhost);
            let goal = json!({ "exchange": exchange, "routing_key": routing_key });
            move_on(session, banner, pace, "move", goal)
        }
        ObjectWord::SettleMessages { queue, outcome, wanted, held } => {
            settle(session, (queue, *held), outcome, wanted)
        }
        ObjectWord::CloseConnection { pid, reason } => close_connection(session, pid, reason),
        ObjectWord::CloseAllConnections { global, per_connection_delay, limit, reason } => {
            let count = if *limit == 0 { "all".to_owned() } else { limit.to_string() };
            let banner = match global {
                true => {
                    let node = session.node()?;
                    format!("Closing {count} connections to node {node} (global), reason: {reason}...")
                }
                false => format!("Closing {count} connections in vhost {vhost}, reason: {reason}..."),
            };
            let show = session.announce(banner);
            let pause = Duration::from_millis(*per_connection_delay);
            let limit = if *limit == 0 { usize::MAX } else { *limit };
            let is_meant = |row: &Value| *global || row["vhost"] == **vhost;
            let closed = close_many(session, is_meant, reason, limit, pause)?;
            Ok(show.message(&format!("Closed {closed} connections")))
        }
        ObjectWord::CloseAllUserConnections { username, reason } => {
            let banner = format!("Closing connections of user {username}, reason: {reason}...");
            let show = session.announce(banner);
            close_many(session, |row| row["user"] == **username, reason, usize::MAX, Duration::ZERO)?;
            Ok(show.begin())
        }
        ObjectWord::SetParameter { component, name, value } => {
            let show = session.announce(format!(
                "Setting runtime parameter \"{name}\" for component \"{component}\" to \"{value}\" in vhost \
                 \"{vhost}\" ..."
            ));
            let body = json!({ "value": document(value)? });
            done(session.api("PUT", &["parameters", component, vhost, name], "", Some(&body))?)?;
            Ok(show.begin())
        }
        ObjectWord::ClearParameter { component, name } => {
            let show = session.announce(format!(
                "Clearing runtime parameter \"{name}\" for component \"{component}\" on vhost \"{vhost}\" ..."
            ));
            clear(session, &["parameters", component, vhost, name])?;
            Ok(show.begin())
        }
        ObjectWord::SetGlobalParameter { name, value } => {
            let show =
                session.announce(format!("Setting global runtime parameter \"{name}\" to \"{value}\" ..."));
            let body = json!({ "value": document(value)? });
            done(session.api("PUT", &["global-parameters", name], "", Some(&body))?)?;
            Ok(show.begin())
        }
        ObjectWord::ClearGlobalParameter { name } => {
            let show = session.announce(format!("Clearing global runtime parameter \"{name}\" ..."));
            clear(session, &["global-parameters", name])?;
            Ok(show.begin())
        }
        ObjectWord::SetClusterName { name } => {
            let show = session.announce(format!("Setting cluster name to {name} ..."));
            done(session.api("PUT", &["cluster-name"], "", Some(&json!({ "name": name })))?)?;
            Ok(show.begin())
        }
        ObjectWord::ImportDefinitions { file, dry_run, strip, .. } => {
            import(session, file.as_deref(), *dry_run, strip.as_deref())
        }
        ObjectWord::ExportDefinitions { file, .. } => export(session, file),
        ObjectWord::AuthenticateUser { username, password } => {
            let show = session.announce(format!("Authenticating user \"{username}\" ..."));
            let (user, password) = (username.clone(), given(password.as_deref())?);
            session.ask(&Request::Authenticate { user, password })?;
            Ok(show.message("Success"))
        }
        ObjectWord::HashPassword { password } => {
            let banner = password.as_ref().map(|password| format!("Will hash password {password}"));
            let show = session.announce(banner.unwrap_or_else(|| "Will hash the password".to_owned()));
            Ok(show.message(&hash(&given(password.as_deref())?, random()?)))
        }
        ObjectWord::ClearPassword { username } => {
            let show = session.announce(format!("Clearing password for user \"{username}\" ..."));
            let unknown = |refusal: Refusal| Refusal { code: exit::UNAVAILABLE, ..refusal };
            users::update(session, username, &json!({ "password_hash": "" })).map_err(unknown)?;
            Ok(show.begin())
        }
        ObjectWord::SetPermissionsGlobally { username, configure, write, read } => {
            let show = session
                .announce(format!("Setting permissions for user \"{username}\" in all virtual hosts ..."));
            for vhost in items(session, &["vhosts"], "columns=name")? {
                let vhost = vhost["name"].as_str().unwrap_or_default();
                users::permit(session, vhost, username, [configure, write, read])?;
            }
            Ok(show.begin())
        }
    }
}

fn delete_queue(
    session: &Session<'_>,
    vhost: &str,
    queue: &str,
    if_empty: bool,
    if_unused: bool,
) -> Result<String, Refusal> {
    let conditions = [(if_empty, "queue is empty"), (if_unused, "queue is unused")];
    let asked: Vec<&str> =
        conditions.iter().filter(|(is_asked, _)| *is_asked).map(|(_, text)| *text).collect();
    let only = if asked.is_empty() { String::new() } else { format!("if {} ", asked.join(" and if ")) };
    let show = session.announce(format!("Deleting queue '{queue}' on vhost '{vhost}' {only}..."));
    let none = || Refusal { code: exit::USAGE, message: "Error:\nNo such queue was found".to_owned() };
    let found = session.find(&["queues", vhost, queue])?.ok_or_else(none)?;
    let query = format!("if-empty={if_empty}&if-unused={if_unused}");
    let response = session.api("DELETE", &["queues", vhost, queue], &query, None)?;
    if response.status == 404 {
        return Err(none());
    }
    done(response)?;
    let ready = found["messages_ready"].as_u64().unwrap_or(0);
    Ok(show.message(&format!("Queue was successfully deleted with {ready} ready messages")))
}

/// Has messages moved, a part at a time, until all that were ready have moved or cannot.
fn move_on(
    session: &Session<'_>,
    banner: String,
    pace: &PaceWords,
    verb: &str,
    mut body: Value,
) -> Result<String, Refusal> {
    let PaceWords { count, rate, wanted, queue } = pace;
    let (show, vhost) = (session.announce(banner), session.vhost());
    let found = session.find(&["queues", vhost, queue])?.ok_or_else(missing)?;
    let ready = found["messages_ready"].as_u64().unwrap_or(0);
    let all = count.unwrap_or(ready).min(ready);
    let progress = Progress::counting("moving messages", all);
    let (mut moved, mut unplaced) = (0, 0);
    if let Some(wanted) = wanted {
        body["where"] = wanted.as_str().into();
    }
    if let Some(rate) = rate {
        body["rate"] = (*rate).into();
    }
    while moved < all {
        // A second's worth where it is to be slow.
        let part = rate.map_or(MOVE_COUNT, u64::from).min(MOVE_COUNT).min(all - moved);
        body["count"] = part.into();
        let response = done(session.api("POST", &["x", "queues", vhost, queue, verb], "", Some(&body))?)?;
        let told: Value = serde_json::from_str(&response.body).unwrap_or_default();
        let more = told["moved"].as_u64().unwrap_or(0);
        moved += more;
        if wanted.is_some() {
            // Those of one request are looked for in one piece of the queue.
            unplaced += told["unplaced"].as_u64().unwrap_or(0);
            progress.set(moved);
            match told["next_position"].as_u64() {
                Some(next) => body["position"] = next.into(),
                None => break,
            }
            continue;
        }
        // Those that cannot be placed are where they were, and are looked at again with the next part.
        unplaced = told["unplaced"].as_u64().unwrap_or(0);
        progress.set(moved);
        if more == 0 || (told["is_over"] == true && more < part) {
            break;
        }
    }
    drop(progress);
    let text = match unplaced {
        0 => format!("Moved {moved} messages"),
        _ => format!("Moved {moved} messages; {unplaced} could not be placed and are where they were"),
    };
    Ok(show.message(&text))
}

/// Accepts or rejects the messages of which an expression is true, a piece of the queue at a time.
fn settle(
    session: &Session<'_>,
    (queue, held): (&str, bool),
    outcome: &str,
    wanted: &str,
) -> Result<String, Refusal> {
    let vhost = session.vhost();
    let show = session.announce(format!("Settling messages of queue '{queue}' in vhost '{vhost}' ..."));
    let mut body = json!({ "outcome": outcome, "where": wanted, "held": held });
    let mut settled = 0;
    loop {
        let path = ["x", "queues", vhost, queue, "settle"];
        let response = done(session.api("POST", &path, "", Some(&body))?)?;
        let told: Value = serde_json::from_str(&response.body).unwrap_or_default();
        settled += told["settled"].as_u64().unwrap_or(0);
        match told["next_position"].as_u64() {
            Some(next) => body["position"] = next.into(),
            None => return Ok(show.message(&format!("{settled} messages were {outcome}"))),
        }
    }
}

fn close_connection(session: &Session<'_>, pid: &str, reason: &str) -> Result<String, Refusal> {
    let show = session.announce(format!("Closing connection {pid}, reason: {reason}..."));
    let is_meant = |row: &Value| row["pid"] == *pid || row["name"] == *pid;
    match close_many(session, is_meant, reason, 1, Duration::ZERO)? {
        0 => Err(failed(format!(
            "there is no connection {pid}; list_connections pid name shows those there are"
        ))),
        _ => Ok(show.begin()),
    }
}

/// How many there were.
fn close_many(
    session: &Session<'_>,
    is_meant: impl Fn(&Value) -> bool,
    why: &str,
    limit: usize,
    pause: Duration,
) -> Result<usize, Refusal> {
    let rows = items(session, &["connections"], "columns=name,pid,user,vhost")?;
    let mut closed = 0;
    for row in rows.iter().filter(|row| is_meant(row)).take(limit) {
        if closed > 0 {
            std::thread::sleep(pause);
        }
        let name = row["name"].as_str().unwrap_or_default();
        let response = session.api_because("DELETE", &["connections", name], "", None, Some(why))?;
        // One that went meanwhile is closed.
        if response.status != 404 {
            done(response)?;
            closed += 1;
        }
    }
    Ok(closed)
}

/// Takes a parameter away.
fn clear(session: &Session<'_>, path: &[&str]) -> Result<(), Refusal> {
    let response = session.api("DELETE", path, "", None)?;
    if response.status == 404 {
        return Err(failed("Parameter does not exist"));
    }
    done(response).map(drop)
}

/// A word of the command line that is a JSON document.
fn document(text: &str) -> Result<Value, Refusal> {
    serde_json::from_str(text).map_err(|error| failed(format!("Could not parse JSON document: {error}")))
}

/// The word of the command line, or a line of standard input.
pub(crate) fn given(word: Option<&str>) -> Result<String, Refusal> {
    if let Some(word) = word {
        return Ok(word.to_owned());
    }
    let mut line = String::new();
    let read = std::io::stdin().lock().take(64 << 10).read_line(&mut line);
    read.map_err(|error| failed(format!("standard input cannot be read: {error}")))?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// The hash of a password as definitions have it: the salt, then SHA-256 over salt and password, in base64.
fn hash(password: &str, salt: [u8; 4]) -> String {
    let digest = Sha256::new().chain_update(salt).chain_update(password).finalize();
    BASE64.encode(&[&salt[..], &digest].concat())
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| failed(format!("the system has no random bytes: {error}")))?;
    Ok(bytes)
}

fn import(
    session: &Session<'_>,
    file: Option<&str>,
    is_dry_run: bool,
    strip: Option<&str>,
) -> Result<String, Refusal> {
    let mut text = String::new();
    let (from, read) = match file {
        None | Some("-") => {
            let read = std::io::stdin().lock().take(DEFINITIONS_BYTES_MAX + 1).read_to_string(&mut text);
            ("standard input".to_owned(), read)
        }
        Some(file) => {
            if !Path::new(file).exists() {
                let why = format!("Bad argument: File {file} does not exist");
                return Err(bad_word(exit::DATA, why));
            }
            let opened = std::fs::File::open(file);
            let read = opened.and_then(|file| file.take(DEFINITIONS_BYTES_MAX + 1).read_to_string(&mut text));
            (format!("a file at \"{file}\""), read)
        }
    };
    read.map_err(|error| failed(format!("{from} cannot be read: {error}")))?;
    if text.len() as u64 > DEFINITIONS_BYTES_MAX {
        return Err(failed(format!("{from} holds more than {DEFINITIONS_BYTES_MAX} bytes")));
    }
    let show = session.announce(format!("Importing definitions in JSON from {from} ..."));
    // Some editors begin a file with a mark of how its bytes are ordered.
    let body = document(text.strip_prefix('\u{feff}').unwrap_or(&text))?;
    let mut query = "report=true".to_owned();
    if is_dry_run {
        query.push_str("&dry_run=true");
    }
    if let Some(what) = strip {
        query.push_str(&format!("&strip={what}"));
    }
    let progress = Progress::waiting("importing definitions");
    let response = session.api("POST", &["definitions"], &query, Some(&body))?;
    drop(progress);
    match response.status {
        200..=299 => Ok(show.message(&imported(&response.body))),
        _ => Err(failed(reason(&response))),
    }
}

/// The outcome of an import, with a line for each object that differs from the file.
fn imported(report: &str) -> String {
    let report: Value = serde_json::from_str(report).unwrap_or_default();
    let mut text = match report["imported"].as_bool() {
        Some(false) => "The definitions can be imported. Nothing was changed.".to_owned(),
        _ => "Successfully imported definitions.".to_owned(),
    };
    let said = |remark: &Value, key: &str| remark[key].as_str().unwrap_or_default().to_owned();
    for remark in report["remarks"].as_array().into_iter().flatten() {
        let [list, entry, what] = ["list", "entry", "remark"].map(|key| said(remark, key));
        let place = remark["vhost"].as_str().map(|vhost| format!(" in vhost '{vhost}'")).unwrap_or_default();
        text.push_str(&format!("\n{list}: {entry}{place}: {what}"));
    }
    text
}

fn export(session: &Session<'_>, file: &str) -> Result<String, Refusal> {
    let progress = Progress::waiting("asking for definitions");
    let response = done(session.api("GET", &["definitions"], "", None)?)?;
    drop(progress);
    if file == "-" {
        return Ok(response.body + "\n");
    }
    let show = session.announce(format!("Exporting definitions in JSON to a file at \"{file}\" ..."));
    write_private(Path::new(file), response.body.as_bytes())
        .map_err(|error| failed(format!("{file} cannot be written: {error}")))?;
    Ok(show.begin())
}

/// Writes a file that its owner alone may read: hashes of passwords are in it.
///
/// One that is there is replaced, also one that others may read; and when it is whole, so that a program that has it
/// open, or finds it, has all of one or of the other. A path that is no file, such as a pipe, is written to.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return options.write(true).open(path)?.write_all(bytes);
    }
    let mut name = path.file_name().ok_or(std::io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let mut file = options.write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| std::fs::rename(&beside, path));
    if placed.is_err() {
        // The error is told; this could not be mended here.
        let _ = std::fs::remove_file(&beside);
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn passwords_are_hashed_as_rabbitmq_hashes_them() {
        // `GET /api/users/catu` of RabbitMQ 4.3.6 after `PUT` with the password "p".
        assert_eq!(hash("p", [0xdf, 0xa4, 0xe5, 0xef]), "36Tl7wKnaFtQgzsni44HG9/U+ZgxPs/jOIw7S5baP9uY1V/Y");
    }

    #[test]
    fn what_is_exported_is_its_owners_alone() {
        let folder = std::env::temp_dir().join(format!("leveret-export-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("definitions.json");
        let check = |text: &str| {
            write_private(&path, text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        };
        check("one");
        // Anybody may read the one that is there.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        check("other");
        assert!(write_private(&folder.join("none").join("x"), b"x").is_err());
        assert!(write_private(Path::new("/dev/null"), b"x").is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
