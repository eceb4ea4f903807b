//! The words of `rabbitmqadmin`, as its first version has them: `declare queue name=orders`, `list queues`.
//!
//! Scripts in containers call it beside the broker, so it asks the node at its socket as the other tools do, where
//! RabbitMQ's asks an HTTP port, of other machines too; an address that is not this machine's is refused.

mod kinds;

use crate::command::end;
use crate::listing::items;
use crate::options::Common;
use crate::place::Place;
use crate::request::{Refusal, Request};
use crate::session::{Session, bad_word, done, failed, missing};
use crate::show::Formatter;
use crate::{exit, help};
use clap::{ArgAction, CommandFactory, Parser, Subcommand};
use data_encoding::BASE64;
use kinds::{Kind, Pairs};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Read;

/// The name it is called by.
pub const NAME: &str = "rabbitmqadmin";

/// Bytes of a payload that is read from the standard input; in its encoding it has to fit a request.
const PAYLOAD_BYTES_MAX: u64 = 32 << 20;

/// Names of this machine.
const HERE: [&str; 4] = ["localhost", "127.0.0.1", "::1", "[::1]"];

/// Declares, lists and deletes objects of a running node, and publishes and gets messages
#[derive(Debug, Parser)]
#[command(name = NAME, disable_help_subcommand = true, disable_version_flag = true, after_help = EXAMPLES)]
pub struct Admin {
    #[command(flatten)]
    place: Place,
    /// The machine of the node: this one
    #[arg(short = 'H', long, global = true, default_value = "localhost")]
    host: String,
    /// Taken, as RabbitMQ's tool takes it: the node is asked at its socket, not at a port
    #[arg(short = 'P', long, global = true, hide = true)]
    port: Option<u16>,
    /// A user, who has to be one; the work is done as an administrator's
    #[arg(short = 'u', long, global = true)]
    username: Option<String>,
    /// The password of that user
    #[arg(short = 'p', long, global = true)]
    password: Option<String>,
    /// The virtual host; lists without one are of all
    #[arg(short = 'V', long, global = true)]
    vhost: Option<String>,
    /// How lists are shown
    #[arg(short = 'f', long, global = true, default_value = "table")]
    format: Format,
    /// No words around the answer
    #[arg(short, long, global = true, action = ArgAction::SetTrue)]
    quiet: bool,
    #[command(subcommand)]
    word: Word,
}

const EXAMPLES: &str = "\
Examples:
  rabbitmqadmin declare queue name=orders durable=true arguments='{\"x-queue-type\":\"quorum\"}'
  rabbitmqadmin declare binding source=amq.topic destination=orders routing_key='order.#'
  rabbitmqadmin list queues name messages
  rabbitmqadmin publish routing_key=orders payload=hello
  rabbitmqadmin get queue=orders ackmode=ack_requeue_false";

/// Ways to show a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Format {
    /// Lines around columns
    Table,
    /// Tabs between columns
    Tsv,
    /// One document
    RawJson,
    /// One document, for people
    PrettyJson,
}

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
enum Word {
    /// Makes an object, or changes it: its kind, and KEY=VALUE of each property
    Declare { kind: String, pairs: Vec<String> },
    /// Removes an object: its kind, and KEY=VALUE of each property that names it
    Delete { kind: String, pairs: Vec<String> },
    /// All objects of a kind: queues, exchanges, bindings, users, ...
    List {
        kind: String,
        /// Columns to show
        columns: Vec<String>,
    },
    /// The overview of the node
    Show {
        #[arg(value_parser = ["overview"])]
        what: String,
        /// Columns to show
        columns: Vec<String>,
    },
    /// Closes a connection: connection name=NAME
    Close { kind: String, pairs: Vec<String> },
    /// Throws away the ready messages of a queue: queue name=NAME
    Purge { kind: String, pairs: Vec<String> },
    /// Publishes a message: routing_key=KEY [payload=TEXT] [exchange=NAME] [properties=JSON]; the payload is the standard
    /// input where none is named
    Publish { pairs: Vec<String> },
    /// Shows messages of a queue: queue=NAME [count=N] [ackmode=MODE]
    Get { pairs: Vec<String> },
}

/// Runs the command line `words`, the first of which is the name it was called by. Returns the exit code.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    match Admin::try_parse_from(words) {
        Ok(admin) => end(run(admin)),
        Err(error) => help::explain(&error, &Admin::command(), NAME),
    }
}

fn run(admin: Admin) -> Result<String, Refusal> {
    let Admin { place, host, username, password, vhost, format, quiet, word, .. } = admin;
    if !HERE.contains(&host.as_str()) {
        let why = format!("{host}: the node is asked at its socket, on its own machine");
        return Err(bad_word(exit::USAGE, why));
    }
    let formatter = match format {
        Format::Table => Formatter::PrettyTable,
        Format::Tsv => Formatter::Table,
        Format::RawJson | Format::PrettyJson => Formatter::Json,
    };
    let common = Common::of(place, vhost.clone(), formatter);
    let session = Session::new(&common);
    match (username, password) {
        (Some(user), Some(password)) => drop(session.ask(&Request::Authenticate { user, password })?),
        (None, None) => {}
        _ => return Err(bad_word(exit::USAGE, "a user and a password go together")),
    }
    match &word {
        Word::Declare { kind, pairs } => {
            let kind = kinds::find(kind)?;
            let pairs = Pairs::read(pairs, kind.keys)?;
            declare(&session, kind, &pairs)?;
            Ok(say(quiet, &format!("{} declared", kind.name)))
        }
        Word::Delete { kind, pairs } => {
            let kind = kinds::find(kind)?;
            let pairs = Pairs::read(pairs, kind.named_by())?;
            let path = kind.path(&pairs, session.vhost())?;
            done(session.api("DELETE", &segments(&path), "", None)?)?;
            Ok(say(quiet, &format!("{} deleted", kind.name)))
        }
        Word::List { kind, columns } => list(&session, kind, columns, vhost.as_deref(), format),
        Word::Show { columns, .. } => {
            let overview = session.get(&["overview"])?;
            let usual = ["product_name", "product_version", "rabbitmq_version", "cluster_name", "node"];
            Ok(shown(&session, columns, &usual, vec![overview], format))
        }
        Word::Close { kind, pairs } => {
            let name = named(kind, "connection", pairs)?;
            done(session.api("DELETE", &["connections", &name], "", None)?)?;
            Ok(say(quiet, "connection closed"))
        }
        Word::Purge { kind, pairs } => {
            let name = named(kind, "queue", pairs)?;
            done(session.api("DELETE", &["queues", session.vhost(), &name, "contents"], "", None)?)?;
            Ok(say(quiet, "queue purged"))
        }
        Word::Publish { pairs } => publish(&session, &Pairs::read(pairs, kinds::PUBLISH)?, quiet),
        Word::Get { pairs } => get(&session, &Pairs::read(pairs, kinds::GET)?, format),
    }
}

fn say(quiet: bool, text: &str) -> String {
    if quiet { String::new() } else { format!("{text}\n") }
}

fn segments(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

fn declare(session: &Session<'_>, kind: &Kind, pairs: &Pairs) -> Result<(), Refusal> {
    let path = kind.path(pairs, session.vhost())?;
    let method = if kind.is_posted { "POST" } else { "PUT" };
    session.api(method, &segments(&path), "", Some(&kind.body(pairs)))?.changed()
}

/// The name of the only kind of object that a word is about.
fn named(kind: &str, only: &str, pairs: &[String]) -> Result<String, Refusal> {
    if kind != only {
        return Err(bad_word(exit::USAGE, format!("{kind} cannot be; {only} can")));
    }
    Pairs::read(pairs, kinds::NAME)?.text("name")
}

fn list(
    session: &Session<'_>,
    kind: &str,
    columns: &[String],
    vhost: Option<&str>,
    format: Format,
) -> Result<String, Refusal> {
    let Some((_, place, usual)) = kinds::LISTS.iter().find(|(name, ..)| *name == kind) else {
        let known: Vec<&str> = kinds::LISTS.iter().map(|(name, ..)| *name).collect();
        return Err(bad_word(exit::USAGE, format!("no list of {kind}; there are {}", known.join(", "))));
    };
    let is_of_all = kinds::OF_ALL.contains(place);
    let path: Vec<&str> = std::iter::once(*place).chain(vhost.filter(|_| !is_of_all)).collect();
    let mut rows = items(session, &path, "")?;
    if let Some(vhost) = vhost.filter(|_| is_of_all) {
        rows.retain(|row| row.get("vhost").is_none_or(|own| own == vhost));
    }
    Ok(shown(session, columns, usual, rows, format))
}

/// Rows as they are asked for: a document has all of each row unless columns are named.
fn shown(
    session: &Session<'_>,
    columns: &[String],
    usual: &[&str],
    rows: Vec<Value>,
    format: Format,
) -> String {
    let pick = |row: Value| -> Value {
        let own = |column: &String| (column.clone(), row.get(column).cloned().unwrap_or(Value::Null));
        Value::Object(base::brief::collect(columns.iter().map(own)))
    };
    let rows: Vec<Value> = if columns.is_empty() { rows } else { rows.into_iter().map(pick).collect() };
    match format {
        Format::RawJson => return format!("{}\n", Value::from(rows)),
        Format::PrettyJson => return format!("{:#}\n", Value::from(rows)),
        Format::Table | Format::Tsv => {}
    }
    let usual: Vec<String> = usual.iter().map(|column| (*column).to_owned()).collect();
    let columns = if columns.is_empty() { &usual[..] } else { columns };
    session.show(Formatter::PrettyTable, "").rows(columns, &rows.into())
}

fn publish(session: &Session<'_>, pairs: &Pairs, quiet: bool) -> Result<String, Refusal> {
    let (payload, encoding) = payload(pairs)?;
    let body = json!({
        "routing_key": pairs.value("routing_key"), "payload": payload,
        "payload_encoding": encoding, "properties": pairs.value("properties"),
    });
    // The default exchange has no letters of its own to be named by.
    let exchange = Some(pairs.text("exchange")?).filter(|name| !name.is_empty());
    let exchange = exchange.unwrap_or_else(|| "amq.default".to_owned());
    let path = ["exchanges", session.vhost(), &exchange, "publish"];
    let response = done(session.api("POST", &path, "", Some(&body))?)?;
    let answer: Value = serde_json::from_str(&response.body).map_err(|_| missing())?;
    match answer["routed"] == Value::Bool(true) {
        true => Ok(say(quiet, "Message published")),
        false => Ok(say(quiet, "Message published but NOT routed")),
    }
}

/// The payload of a message to publish, and its encoding: as they are named, or the standard input.
fn payload(pairs: &Pairs) -> Result<(Value, Value), Refusal> {
    let (named, encoding) = (pairs.value("payload"), pairs.value("payload_encoding"));
    match (named.is_null(), encoding.is_null()) {
        (false, true) => return Ok((named.clone(), "string".into())),
        (false, false) => return Ok((named.clone(), encoding.clone())),
        (true, false) => {
            let why = "payload_encoding is that of payload=..., which is missing";
            return Err(bad_word(exit::USAGE, why));
        }
        (true, true) => {}
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(PAYLOAD_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed(format!("standard input cannot be read: {error}")))?;
    if bytes.len() as u64 > PAYLOAD_BYTES_MAX {
        return Err(failed(format!("standard input holds more than {PAYLOAD_BYTES_MAX} bytes")));
    }
    Ok((BASE64.encode(&bytes).into(), "base64".into()))
}

fn get(session: &Session<'_>, pairs: &Pairs, format: Format) -> Result<String, Refusal> {
    let body = json!({
        "count": pairs.value("count"), "ackmode": pairs.value("ackmode"), "encoding": pairs.value("encoding"),
    });
    let queue = pairs.text("queue")?;
    let path = ["queues", session.vhost(), &queue, "get"];
    let response = done(session.api("POST", &path, "", Some(&body))?)?;
    let rows: Vec<Value> = serde_json::from_str(&response.body).map_err(|_| missing())?;
    let usual = ["routing_key", "exchange", "message_count", "payload", "payload_bytes", "redelivered"];
    Ok(shown(session, &[], &usual, rows, format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_scripts_are_read() {
        let check = |line: &str, expected: bool| {
            let words = std::iter::once(NAME).chain(line.split(' '));
            let read = Admin::try_parse_from(words);
            assert_eq!(read.is_ok(), expected, "{line}: {read:?}");
        };
        check("declare vhost name=v", true);
        check("--vhost=v declare exchange name=x type=topic arguments={}", true);
        check("declare policy --vhost=v name=p pattern=^q definition={\"max-length\":1}", true);
        check("-u guest -p guest -H localhost -P 15672 list queues name messages", true);
        check("-f tsv -q list users", true);
        check("show overview", true);
        check("show nothing", false);
        check("declare", false);
        check("explode", false);
    }

    #[test]
    fn other_machines_and_half_a_login_are_refused() {
        let check = |line: &str, expected: u8| {
            let words = std::iter::once(NAME).chain(line.split(' ')).map(OsString::from);
            assert_eq!(main(words), expected, "{line}");
        };
        check("-H example.org list queues", exit::USAGE);
        check("-u guest list queues", exit::USAGE);
        check("--socket /nowhere/at/all.sock -u guest -p guest list queues", exit::UNAVAILABLE);
    }
}
