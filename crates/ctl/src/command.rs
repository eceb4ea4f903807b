//! The words of the command line, as `rabbitmqctl` and `rabbitmq-diagnostics` have them.

use crate::change::{ChangeWord, change, said};
use crate::client::{SOCKET_NAME, ask};
use crate::request::{Answer, Refusal, Request};
use crate::show::{self, Formatter, Show};
use crate::{Limits, exit};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names the binary may be called by that mean this command line.
pub const NAMES: &[&str] = &[
    "rabbitmqctl",
    "rabbitmq-diagnostics",
    "rabbitmq-queues",
    "rabbitmq-streams",
    "rabbitmq-plugins",
    "rabbitmq-upgrade",
];

/// Asks a running node, or tells it what to do.
#[derive(Debug, Parser)]
#[command(disable_help_subcommand = true, version)]
pub struct Ctl {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    word: Word,
}

#[derive(Debug, Args)]
struct Common {
    /// The folder of the node's data; its socket is in it
    #[arg(long, global = true, env = "LEVERET_DATA_DIR", default_value = "leveret-data")]
    data_dir: PathBuf,
    /// The node's socket, where it is not in the data folder
    #[arg(long, global = true)]
    socket: Option<PathBuf>,
    /// The node's name; the one that answers must have it
    #[arg(short, long, global = true)]
    node: Option<String>,
    /// Seconds to wait for an answer
    #[arg(short, long, global = true)]
    timeout: Option<u32>,
    /// How the answer is shown
    #[arg(long, global = true)]
    formatter: Option<Formatter>,
    /// No words around the answer
    #[arg(short, long, global = true)]
    quiet: bool,
    /// No words around the answer and no names of columns
    #[arg(short, long, global = true)]
    silent: bool,
    /// No names of columns
    #[arg(long, global = true)]
    no_table_headers: bool,
}

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
enum Word {
    /// Whether the node answers
    Ping,
    /// Condition of the node
    Status {
        /// Unit of memory and disk sizes
        #[arg(long, default_value = "gb", value_parser = show::unit)]
        unit: show::Unit,
    },
    /// Queues of a virtual host and their properties
    ListQueues {
        /// The virtual host
        #[arg(short = 'p', long, default_value = "/")]
        vhost: String,
        /// What to show of each: name, messages, consumers, ...
        columns: Vec<String>,
    },
    /// Messages of a queue that wait for their time
    ListDelayedMessages {
        /// The virtual host
        #[arg(short = 'p', long, default_value = "/")]
        vhost: String,
        queue: String,
        /// At most so many, those that are due first
        #[arg(long, default_value_t = 1000)]
        limit: u32,
    },
    /// Throws delayed messages of a queue away
    CancelDelayedMessage {
        /// The virtual host
        #[arg(short = 'p', long, default_value = "/")]
        vhost: String,
        queue: String,
        /// The ids of the messages, as they are listed
        #[arg(required = true)]
        ids: Vec<u64>,
    },
    /// Lets go of a stream's beginning, for good: the segments without an offset from that one on
    TruncateStream {
        /// The virtual host
        #[arg(short = 'p', long, default_value = "/")]
        vhost: String,
        stream: String,
        /// Offsets below it are to go
        before: u64,
    },
    /// Connections to the node and their properties
    ListConnections {
        /// What to show of each: user, peer_host, state, ...
        columns: Vec<String>,
    },
    #[command(flatten)]
    Change(ChangeWord),
    /// Users and their tags
    ListUsers,
    /// What users may do in a virtual host
    ListPermissions {
        /// The virtual host
        #[arg(short = 'p', long, default_value = "/")]
        vhost: String,
    },
    /// Which topics users may publish to and bind in a virtual host
    ListTopicPermissions {
        /// The virtual host
        #[arg(short = 'p', long, default_value = "/")]
        vhost: String,
    },
    /// Which topics a user may publish to and bind in each virtual host
    ListUserTopicPermissions { username: String },
    /// What a user may do in each virtual host
    ListUserPermissions { username: String },
    /// Virtual hosts and their properties
    ListVhosts {
        /// What to show of each: name, description, tags, ...
        columns: Vec<String>,
    },
    /// Exchanges of a virtual host and their properties
    ListExchanges {
        /// The virtual host
        #[arg(short = 'p', long, default_value = "/")]
        vhost: String,
        /// What to show of each: name, type, policy, ...
        columns: Vec<String>,
    },
    /// Policies of a virtual host
    ListPolicies {
        /// The virtual host
        #[arg(short = 'p', long, default_value = "/")]
        vhost: String,
    },
    /// The operator's policies of a virtual host
    ListOperatorPolicies {
        /// The virtual host
        #[arg(short = 'p', long, default_value = "/")]
        vhost: String,
    },
    /// Limits of a user, or of all
    ListUserLimits {
        /// The user
        #[arg(long, default_value = "guest")]
        user: String,
        /// All users that have any
        #[arg(long)]
        global: bool,
    },
    /// Limits of a virtual host, or of all
    ListVhostLimits {
        /// The virtual host
        #[arg(short = 'p', long, default_value = "/")]
        vhost: String,
        /// All virtual hosts that have any
        #[arg(long)]
        global: bool,
    },
    /// Memory of the node by what it is for
    MemoryBreakdown {
        /// Unit of sizes
        #[arg(long, default_value = "gb", value_parser = show::unit)]
        unit: show::Unit,
    },
}

/// Columns there are, and those shown unasked.
struct Columns {
    known: &'static [&'static str],
    usual: &'static [&'static str],
}

const QUEUE: Columns = Columns {
    known: &[
        "name",
        "vhost",
        "type",
        "durable",
        "auto_delete",
        "exclusive",
        "arguments",
        "policy",
        "operator_policy",
        "effective_policy_definition",
        "state",
        "node",
        "pid",
        "owner_pid",
        "messages",
        "messages_ready",
        "messages_unacknowledged",
        "messages_delayed",
        "consumers",
        "memory",
    ],
    usual: &["name", "messages"],
};

const EXCHANGE: Columns = Columns {
    known: &["name", "type", "durable", "auto_delete", "internal", "arguments", "policy"],
    usual: &["name", "type"],
};

const VHOST: Columns = Columns {
    known: &[
        "name",
        "description",
        "tags",
        "default_queue_type",
        "protected_from_deletion",
        "tracing",
        "metadata",
    ],
    usual: &["name"],
};

const POLICY: [&str; 6] = ["vhost", "name", "pattern", "apply-to", "definition", "priority"];

const CONNECTION: Columns = Columns {
    known: &[
        "pid",
        "name",
        "host",
        "port",
        "peer_host",
        "peer_port",
        "ssl",
        "ssl_protocol",
        "ssl_key_exchange",
        "ssl_cipher",
        "ssl_hash",
        "peer_cert_subject",
        "peer_cert_issuer",
        "peer_cert_validity",
        "protocol",
        "user",
        "vhost",
        "channels",
        "recv_oct",
        "send_oct",
        "state",
        "connected_at",
        "node",
    ],
    usual: &["user", "peer_host", "peer_port", "state"],
};

impl Columns {
    fn choose(&self, asked: &[String]) -> Result<Vec<String>, Refusal> {
        // Commas between columns are taken as spaces are.
        let words = asked.iter().flat_map(|word| word.split(',')).filter(|word| !word.is_empty());
        let asked: Vec<&str> = words.collect();
        let unknown: Vec<&str> =
            asked.iter().copied().filter(|column| !self.known.contains(column)).collect();
        if !unknown.is_empty() {
            let message = format!(
                "Error (argument validation): Info key(s) {} are not supported; known: {}",
                unknown.join(", "),
                self.known.join(", ")
            );
            return Err(Refusal { code: exit::USAGE, message });
        }
        let chosen = if asked.is_empty() { self.usual } else { &asked };
        Ok(chosen.iter().map(|column| (*column).to_owned()).collect())
    }
}

/// Runs the command line `words`, the first of which is the name it was called by. Returns the exit code.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    let ctl = match Ctl::try_parse_from(words) {
        Ok(ctl) => ctl,
        Err(error) => {
            // Nowhere to report a closed terminal to.
            let _ = error.print();
            return if error.use_stderr() { exit::USAGE } else { exit::OK };
        }
    };
    run(&ctl)
}

/// Runs a command line that was read. Returns the exit code.
pub fn run(ctl: &Ctl) -> u8 {
    let socket = ctl.common.socket.clone().unwrap_or_else(|| ctl.common.data_dir.join(SOCKET_NAME));
    match execute(ctl, &socket) {
        Ok(text) => {
            print!("{text}");
            exit::OK
        }
        Err(refusal) => {
            eprintln!("{}", refusal.message);
            refusal.code
        }
    }
}

fn execute(ctl: &Ctl, socket: &Path) -> Result<String, Refusal> {
    let common = &ctl.common;
    let mut limits = Limits::default();
    if let Some(seconds) = common.timeout {
        limits.silence_ms_max = u64::from(seconds) * 1000;
    }
    let ask = |request: &Request| -> Answer { ask(socket, &limits, request) };
    if let Some(node) = &common.node {
        check_name(node, &ask(&Request::Status)?)?;
    }
    let formatter = |usual: Formatter| common.formatter.unwrap_or(usual);
    let mut show = Show {
        formatter: formatter(Formatter::Table),
        headers: !common.silent && !common.no_table_headers,
        unit: show::GIGABYTE,
        banner: None,
    };
    let banner = |text: String| (!common.quiet && !common.silent).then_some(text);
    match &ctl.word {
        Word::Ping => {
            ask(&Request::Ping)?;
            show.banner = banner("Will ping the node.".into());
            show.formatter = formatter(Formatter::String);
            Ok(show.message("Ping succeeded"))
        }
        Word::Status { unit } => {
            let status = ask(&Request::Status)?;
            let name = status["node"].as_str().unwrap_or_default().to_owned();
            show.banner = banner(format!("Status of node {name} ..."));
            (show.formatter, show.unit) = (formatter(Formatter::String), *unit);
            Ok(show.status(&status))
        }
        Word::ListQueues { vhost, columns } => {
            let columns = QUEUE.choose(columns)?;
            let rows = ask(&Request::ListQueues { vhost: vhost.clone() })?;
            show.banner = banner(format!("Listing queues for vhost {vhost} ..."));
            Ok(show.rows(&columns, &rows))
        }
        Word::ListDelayedMessages { vhost, queue, limit } => {
            let (vhost, queue, limit) = (vhost.clone(), queue.clone(), *limit);
            show.banner =
                banner(format!("Listing delayed messages of queue '{queue}' in vhost '{vhost}' ..."));
            let rows = ask(&Request::ListDelayedMessages { vhost, queue, limit })?;
            Ok(show.rows(&words(&["id", "due_at"]), &rows))
        }
        Word::CancelDelayedMessage { vhost, queue, ids } => {
            let (vhost, queue, ids) = (vhost.clone(), queue.clone(), ids.clone());
            show.banner =
                banner(format!("Cancelling delayed messages of queue '{queue}' in vhost '{vhost}' ..."));
            show.formatter = formatter(Formatter::String);
            let cancelled = ask(&Request::CancelDelayedMessages { vhost, queue, ids })?;
            Ok(show.message(&format!("Cancelled {cancelled}")))
        }
        Word::TruncateStream { vhost, stream, before } => {
            let (vhost, stream, before) = (vhost.clone(), stream.clone(), *before);
            show.banner =
                banner(format!("Truncating stream '{stream}' in vhost '{vhost}' before offset {before} ..."));
            show.formatter = formatter(Formatter::String);
            let first_offset = ask(&Request::TruncateStream { vhost, stream, before })?;
            Ok(show.message(&format!("The first offset is {first_offset}")))
        }
        Word::ListConnections { columns } => {
            let columns = CONNECTION.choose(columns)?;
            let rows = ask(&Request::ListConnections)?;
            show.banner = banner("Listing connections ...".into());
            Ok(show.rows(&columns, &rows))
        }
        Word::Change(word) => {
            let (text, change) = change(word);
            show.banner = banner(text);
            show.formatter = formatter(Formatter::String);
            let text = show.begin();
            // As with RabbitMQ's tools, what is tried is said also when it fails.
            ask(&Request::Change { change }).inspect_err(|_| print!("{text}"))?;
            let said = said(word, text.is_empty());
            Ok(text + &said)
        }
        Word::ListUsers => {
            let rows = ask(&Request::ListUsers)?;
            show.banner = banner("Listing users ...".into());
            Ok(show.rows(&words(&["user", "tags"]), &rows))
        }
        Word::ListVhosts { columns } => {
            let columns = VHOST.choose(columns)?;
            let rows = ask(&Request::ListVhosts)?;
            show.banner = banner("Listing vhosts ...".into());
            Ok(show.rows(&columns, &rows))
        }
        Word::ListExchanges { vhost, columns } => {
            let columns = EXCHANGE.choose(columns)?;
            let rows = ask(&Request::ListExchanges { vhost: vhost.clone() })?;
            show.banner = banner(format!("Listing exchanges for vhost {vhost} ..."));
            Ok(show.rows(&columns, &rows))
        }
        Word::ListPolicies { vhost } => {
            let rows = ask(&Request::ListPolicies { vhost: vhost.clone(), is_operator: false })?;
            show.banner = banner(format!("Listing policies for vhost \"{vhost}\" ..."));
            Ok(show.rows(&words(&POLICY), &rows))
        }
        Word::ListOperatorPolicies { vhost } => {
            let rows = ask(&Request::ListPolicies { vhost: vhost.clone(), is_operator: true })?;
            show.banner = banner(format!("Listing operator policy overrides for vhost \"{vhost}\" ..."));
            Ok(show.rows(&words(&POLICY), &rows))
        }
        Word::ListUserLimits { global: true, .. } => {
            let rows = ask(&Request::ListUserLimits { user: None })?;
            show.banner = banner("Listing limits for all users ...".into());
            Ok(show.rows(&words(&["user", "limits"]), &rows))
        }
        Word::ListUserLimits { user, .. } => {
            let rows = ask(&Request::ListUserLimits { user: Some(user.clone()) })?;
            show.banner = banner(format!("Listing limits for user \"{user}\" ..."));
            show.formatter = formatter(Formatter::String);
            Ok(show.message(rows[0]["limits"].as_str().unwrap_or("{}")))
        }
        Word::ListVhostLimits { global: true, .. } => {
            let rows = ask(&Request::ListVhostLimits { vhost: None })?;
            show.banner = banner("Listing limits for all vhosts ...".into());
            Ok(show.rows(&words(&["vhost", "limits"]), &rows))
        }
        Word::ListVhostLimits { vhost, .. } => {
            let rows = ask(&Request::ListVhostLimits { vhost: Some(vhost.clone()) })?;
            show.banner = banner(format!("Listing limits for vhost \"{vhost}\" ..."));
            show.formatter = formatter(Formatter::String);
            Ok(show.message(rows[0]["limits"].as_str().unwrap_or_default()))
        }
        Word::ListPermissions { vhost } => {
            let rows = ask(&Request::ListPermissions { vhost: vhost.clone() })?;
            show.banner = banner(format!("Listing permissions for vhost \"{vhost}\" ..."));
            Ok(show.rows(&words(&["user", "configure", "write", "read"]), &rows))
        }
        Word::ListUserPermissions { username } => {
            let rows = ask(&Request::ListUserPermissions { user: username.clone() })?;
            show.banner = banner(format!("Listing permissions for user \"{username}\" ..."));
            Ok(show.rows(&words(&["vhost", "configure", "write", "read"]), &rows))
        }
        Word::ListTopicPermissions { vhost } => {
            let rows = ask(&Request::ListTopicPermissions { vhost: vhost.clone() })?;
            show.banner = banner(format!("Listing topic permissions for vhost \"{vhost}\" ..."));
            Ok(show.rows(&words(&["user", "exchange", "write", "read"]), &rows))
        }
        Word::ListUserTopicPermissions { username } => {
            let rows = ask(&Request::ListUserTopicPermissions { user: username.clone() })?;
            show.banner = banner(format!("Listing topic permissions for user \"{username}\" ..."));
            Ok(show.rows(&words(&["vhost", "exchange", "write", "read"]), &rows))
        }
        Word::MemoryBreakdown { unit } => {
            let memory = ask(&Request::MemoryBreakdown)?;
            show.banner = banner("Reporting memory breakdown on the node...".into());
            (show.formatter, show.unit) = (formatter(Formatter::String), *unit);
            Ok(show.memory(&memory))
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn check_name(asked: &str, status: &serde_json::Value) -> Result<(), Refusal> {
    let name = status["node"].as_str().unwrap_or_default();
    if name == asked || name.split('@').next() == Some(asked) {
        return Ok(());
    }
    let message = format!("unable to perform an operation on node '{asked}': the node here is '{name}'");
    Err(Refusal { code: exit::UNAVAILABLE, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_a_field_of_its_row() {
        let has = |columns: &Columns, row: serde_json::Value| {
            let missing = columns.known.iter().filter(|column| row.get(column).is_none());
            assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new());
            assert!(columns.usual.iter().all(|column| columns.known.contains(column)));
        };
        has(&QUEUE, serde_json::to_value(crate::QueueRow::default()).unwrap());
        has(&EXCHANGE, serde_json::to_value(crate::ExchangeRow::default()).unwrap());
        has(&VHOST, serde_json::to_value(crate::VhostRow::default()).unwrap());
        has(&CONNECTION, serde_json::to_value(crate::show::tests::connection()).unwrap());
    }

    #[test]
    fn columns_are_checked() {
        let choose =
            |asked: &[&str]| QUEUE.choose(&asked.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(choose(&[]).unwrap(), ["name", "messages"]);
        assert_eq!(choose(&["consumers", "name,type"]).unwrap(), ["consumers", "name", "type"]);
        let refusal = choose(&["name", "foo"]).unwrap_err();
        assert_eq!(refusal.code, exit::USAGE);
        assert!(
            refusal.message.starts_with("Error (argument validation): Info key(s) foo are not supported")
        );
    }

    #[test]
    fn a_node_that_is_not_there_is_unavailable() {
        let check = |words: &[&str], expected: u8| {
            let code = main(words.iter().map(OsString::from));
            assert_eq!(code, expected, "{words:?}");
        };
        let nowhere = "--socket=/nowhere/at/all.sock";
        check(&["rabbitmqctl", nowhere, "status"], exit::UNAVAILABLE);
        check(&["rabbitmqctl", "status", nowhere, "-t", "1"], exit::UNAVAILABLE);
        check(&["rabbitmqctl", "list_queues", "foo", nowhere], exit::USAGE);
        check(&["rabbitmqctl", "nonsense", nowhere], exit::USAGE);
        check(&["rabbitmqctl", "list_queues", "--bogus", nowhere], exit::USAGE);
        check(&["rabbitmqctl"], exit::USAGE);
        check(&["rabbitmqctl", "--help"], exit::OK);
    }

    #[test]
    fn node_names_are_compared() {
        let status = serde_json::json!({"node": "rabbit@hare"});
        assert!(check_name("rabbit@hare", &status).is_ok());
        assert!(check_name("rabbit", &status).is_ok());
        assert_eq!(check_name("rabbit@cat", &status).unwrap_err().code, exit::UNAVAILABLE);
    }
}
