//! The words of the command line, as `rabbitmqctl` and `rabbitmq-diagnostics` have them.

use crate::change::{self, ChangeWord, change, said};
use crate::check::CheckWord;
use crate::client::SOCKET_NAME;
use crate::diagnose::DiagnoseWord;
use crate::groups::GroupWord;
use crate::lifecycle::LifeWord;
use crate::listing::{ListWord, choose, words};
use crate::objects::ObjectWord;
use crate::plugins::PluginWord;
use crate::queues::{ClusterWord, QueueWord};
use crate::request::{Refusal, Request};
use crate::session::{Session, bad_word};
use crate::show::{self, Formatter};
use crate::{check, diagnose, exit, groups, lifecycle, listing, objects, plugins, queues, shells};
use clap::{Args, CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Seconds that an answer is waited for, where nothing else is said.
const TIMEOUT_S: u32 = 60;

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

/// The same for plugins, whose words are too short to stand among the others.
#[derive(Debug, Parser)]
#[command(disable_help_subcommand = true, version)]
pub struct Plugins {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    word: PluginWord,
}

/// The name the plugins' words are said to.
const PLUGINS_NAME: &str = "rabbitmq-plugins";

/// Where a node is asked.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The folder of the node's data; its socket is in it
    #[arg(long, global = true, env = "LEVERET_DATA_DIR", default_value = "leveret-data")]
    data_dir: PathBuf,
    /// The node's socket, where it is not in the data folder
    #[arg(long, global = true)]
    socket: Option<PathBuf>,
}

impl Place {
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.data_dir.join(SOCKET_NAME))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    place: Place,
    /// The node's name; the one that answers must have it
    #[arg(short, long, global = true)]
    node: Option<String>,
    /// Seconds to wait for an answer
    #[arg(short, long, global = true)]
    pub(crate) timeout: Option<u32>,
    /// How the answer is shown
    #[arg(long, global = true)]
    pub(crate) formatter: Option<Formatter>,
    /// No words around the answer
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// No words around the answer and no names of columns
    #[arg(short, long, global = true)]
    pub(crate) silent: bool,
    /// No names of columns
    #[arg(long, global = true)]
    pub(crate) no_table_headers: bool,
    /// Names of nodes may be long ones; here they may anyway
    #[arg(short, long, global = true)]
    longnames: bool,
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
    #[command(flatten)]
    List(ListWord),
    #[command(flatten)]
    Object(ObjectWord),
    #[command(flatten)]
    Check(CheckWord),
    #[command(flatten)]
    Life(LifeWord),
    #[command(flatten)]
    Queue(QueueWord),
    #[command(flatten)]
    Group(GroupWord),
    #[command(flatten)]
    Diagnose(DiagnoseWord),
    #[command(flatten)]
    Cluster(ClusterWord),
    /// Plugins: what they do is part of the broker
    #[command(name = "plugins", subcommand)]
    Plugins(PluginWord),
    /// Turns on what a node of this version can do; all of it is on
    EnableFeatureFlag {
        /// Its name, or all
        name: String,
    },
    /// A script that completes command lines of this tool in a shell
    Completions { shell: shells::Shell },
    /// Words and options that begin so, as the completions of RabbitMQ ask for them
    Autocomplete {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
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

const QUEUE: Columns = Columns { known: crate::QUEUE_COLUMNS, usual: &["name", "messages"] };

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
        choose(self.known, self.usual, asked)
    }
}

/// Runs the command line `words`, the first of which is the name it was called by. Returns the exit code.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    let called = words.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
    let called = called.unwrap_or_default().to_owned();
    let ran = match called == PLUGINS_NAME {
        true => {
            Plugins::try_parse_from(words).map(|own| finish(&own.common, |on| plugins::run(&own.word, on)))
        }
        false => Ctl::try_parse_from(words).map(|ctl| match (&ctl.word, tool(&called)) {
            (Word::Completions { shell }, Some(command)) => {
                print(&shells::completions(command, *shell));
                exit::OK
            }
            _ => run(&ctl),
        }),
    };
    ran.unwrap_or_else(|error| {
        // Nowhere to report a closed terminal to.
        let _ = error.print();
        if error.use_stderr() { exit::USAGE } else { exit::OK }
    })
}

/// The command line of the tool of this name.
pub fn tool(name: &str) -> Option<clap::Command> {
    let name = *NAMES.iter().find(|known| **known == name)?;
    let command = if name == PLUGINS_NAME { Plugins::command() } else { Ctl::command() };
    Some(command.name(name).bin_name(name))
}

/// Runs a command line that was read. Returns the exit code.
pub fn run(ctl: &Ctl) -> u8 {
    finish(&ctl.common, |session| execute(&ctl.word, session))
}

fn finish(common: &Common, work: impl FnOnce(&Session<'_>) -> Result<String, Refusal>) -> u8 {
    let socket = common.place.socket();
    let session = Session::new(common, &socket);
    let check = || match &common.node {
        Some(node) => check_name(node, &session.node()?),
        None => Ok(()),
    };
    let (text, code) = match check().and_then(|()| work(&session)) {
        Ok(text) => (text, exit::OK),
        Err(refusal) => {
            // As with RabbitMQ's tools, what is tried is said also when it fails.
            print(&session.take_announced());
            eprintln!("{}", refusal.message);
            return refusal.code;
        }
    };
    print(&text);
    code
}

/// Whoever reads may have enough.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn execute(word: &Word, session: &Session<'_>) -> Result<String, Refusal> {
    let ask = |request: &Request| session.ask(request);
    match word {
        Word::Ping => {
            let node = session.node()?;
            let show = session.announce(format!("Will ping {node}."));
            Ok(show.message("Ping succeeded"))
        }
        Word::Status { unit } => {
            let status = ask(&Request::Status)?;
            let name = status["node"].as_str().unwrap_or_default().to_owned();
            let mut show = session.announce(format!("Status of node {name} ..."));
            show.unit = *unit;
            Ok(show.status(&status))
        }
        Word::ListQueues { vhost, columns } => {
            let columns = QUEUE.choose(columns)?;
            let seconds = session.timeout().unwrap_or(TIMEOUT_S);
            let banner = format!("Timeout: {seconds}.0 seconds ...\nListing queues for vhost {vhost} ...");
            let show = session.show(Formatter::Table, banner);
            let request = Request::ListQueues { vhost: vhost.clone(), columns: columns.clone() };
            Ok(show.rows(&columns, &ask(&request)?))
        }
        Word::ListDelayedMessages { vhost, queue, limit } => {
            let (vhost, queue, limit) = (vhost.clone(), queue.clone(), *limit);
            let banner = format!("Listing delayed messages of queue '{queue}' in vhost '{vhost}' ...");
            let show = session.show(Formatter::Table, banner);
            let rows = ask(&Request::ListDelayedMessages { vhost, queue, limit })?;
            Ok(show.rows(&words(&["id", "due_at"]), &rows))
        }
        Word::CancelDelayedMessage { vhost, queue, ids } => {
            let (vhost, queue, ids) = (vhost.clone(), queue.clone(), ids.clone());
            let banner = format!("Cancelling delayed messages of queue '{queue}' in vhost '{vhost}' ...");
            let show = session.announce(banner);
            let cancelled = ask(&Request::CancelDelayedMessages { vhost, queue, ids })?;
            Ok(show.message(&format!("Cancelled {cancelled}")))
        }
        Word::TruncateStream { vhost, stream, before } => {
            let (vhost, stream, before) = (vhost.clone(), stream.clone(), *before);
            let banner =
                format!("Truncating stream '{stream}' in vhost '{vhost}' before offset {before} ...");
            let show = session.announce(banner);
            let first_offset = ask(&Request::TruncateStream { vhost, stream, before })?;
            Ok(show.message(&format!("The first offset is {first_offset}")))
        }
        Word::ListConnections { columns } => {
            let columns = CONNECTION.choose(columns)?;
            let show = session.show(Formatter::Table, "Listing connections ...");
            Ok(show.rows(&columns, &ask(&Request::ListConnections)?))
        }
        Word::Change(word) => {
            let word = change::complete(word)?;
            let (text, change) = change(&word);
            let show = session.announce(text);
            let text = show.begin();
            ask(&Request::Change { change })?;
            let said = said(&word, text.is_empty());
            Ok(text + &said)
        }
        Word::List(word) => listing::run(word, session),
        Word::Object(word) => objects::run(word, session),
        Word::Check(word) => check::run(word, session),
        Word::Life(word) => lifecycle::run(word, session),
        Word::Queue(word) => queues::run(word, session),
        Word::Group(word) => groups::run(word, session),
        Word::Diagnose(word) => diagnose::run(word, session),
        Word::Cluster(word) => Err(queues::refuse(word)),
        Word::Plugins(word) => plugins::run(word, session),
        Word::EnableFeatureFlag { name } => lifecycle::enable_flag(session, name),
        Word::Completions { .. } => {
            Err(bad_word(exit::USAGE, "the completions of all that begins with leveret: leveret completions"))
        }
        Word::Autocomplete { words } => {
            Ok(shells::variants(&Ctl::command(), words).iter().map(|word| format!("{word}\n")).collect())
        }
        Word::ListUsers => {
            let show = session.show(Formatter::Table, "Listing users ...");
            Ok(show.rows(&words(&["user", "tags"]), &ask(&Request::ListUsers)?))
        }
        Word::ListVhosts { columns } => {
            let columns = VHOST.choose(columns)?;
            let show = session.show(Formatter::Table, "Listing vhosts ...");
            Ok(show.rows(&columns, &ask(&Request::ListVhosts)?))
        }
        Word::ListExchanges { vhost, columns } => {
            let columns = EXCHANGE.choose(columns)?;
            let show = session.show(Formatter::Table, format!("Listing exchanges for vhost {vhost} ..."));
            Ok(show.rows(&columns, &ask(&Request::ListExchanges { vhost: vhost.clone() })?))
        }
        Word::ListPolicies { vhost } => {
            let show = session.show(Formatter::Table, format!("Listing policies for vhost \"{vhost}\" ..."));
            let rows = ask(&Request::ListPolicies { vhost: vhost.clone(), is_operator: false })?;
            Ok(show.rows(&words(&POLICY), &rows))
        }
        Word::ListOperatorPolicies { vhost } => {
            let banner = format!("Listing operator policy overrides for vhost \"{vhost}\" ...");
            let show = session.show(Formatter::Table, banner);
            let rows = ask(&Request::ListPolicies { vhost: vhost.clone(), is_operator: true })?;
            Ok(show.rows(&words(&POLICY), &rows))
        }
        Word::ListUserLimits { global: true, .. } => {
            let show = session.show(Formatter::Table, "Listing limits for all users ...");
            Ok(show.rows(&words(&["user", "limits"]), &ask(&Request::ListUserLimits { user: None })?))
        }
        Word::ListUserLimits { user, .. } => {
            let show = session.announce(format!("Listing limits for user \"{user}\" ..."));
            let rows = ask(&Request::ListUserLimits { user: Some(user.clone()) }).map_err(unknown_user)?;
            Ok(show.message(rows[0]["limits"].as_str().unwrap_or("{}")))
        }
        Word::ListVhostLimits { global: true, .. } => {
            let show = session.show(Formatter::Table, "Listing limits for all vhosts ...");
            Ok(show.rows(&words(&["vhost", "limits"]), &ask(&Request::ListVhostLimits { vhost: None })?))
        }
        Word::ListVhostLimits { vhost, .. } => {
            let show = session.announce(format!("Listing limits for vhost \"{vhost}\" ..."));
            let rows = ask(&Request::ListVhostLimits { vhost: Some(vhost.clone()) })?;
            Ok(show.message(rows[0]["limits"].as_str().unwrap_or_default()))
        }
        Word::ListPermissions { vhost } => {
            let banner = format!("Listing permissions for vhost \"{vhost}\" ...");
            let show = session.show(Formatter::Table, banner);
            let rows = ask(&Request::ListPermissions { vhost: vhost.clone() })?;
            Ok(show.rows(&words(&["user", "configure", "write", "read"]), &rows))
        }
        Word::ListUserPermissions { username } => {
            let banner = format!("Listing permissions for user \"{username}\" ...");
            let show = session.show(Formatter::Table, banner);
            let request = Request::ListUserPermissions { user: username.clone() };
            let rows = ask(&request).map_err(unknown_user)?;
            Ok(show.rows(&words(&["vhost", "configure", "write", "read"]), &rows))
        }
        Word::ListTopicPermissions { vhost } => {
            let banner = format!("Listing topic permissions for vhost \"{vhost}\" ...");
            let show = session.show(Formatter::Table, banner);
            let rows = ask(&Request::ListTopicPermissions { vhost: vhost.clone() })?;
            Ok(show.rows(&words(&["user", "exchange", "write", "read"]), &rows))
        }
        Word::ListUserTopicPermissions { username } => {
            let banner = format!("Listing topic permissions for user \"{username}\" ...");
            let show = session.show(Formatter::Table, banner);
            let request = Request::ListUserTopicPermissions { user: username.clone() };
            let rows = ask(&request).map_err(unknown_user)?;
            Ok(show.rows(&words(&["vhost", "exchange", "write", "read"]), &rows))
        }
        Word::MemoryBreakdown { unit } => {
            let node = session.node()?;
            let mut show = session.announce(format!("Reporting memory breakdown on node {node}..."));
            show.unit = *unit;
            Ok(show.memory(&ask(&Request::MemoryBreakdown)?))
        }
    }
}

/// Where a user is asked about and not changed, RabbitMQ's tool ends as when a node cannot be asked.
fn unknown_user(refusal: Refusal) -> Refusal {
    match refusal.code {
        exit::NO_USER => Refusal { code: exit::UNAVAILABLE, ..refusal },
        _ => refusal,
    }
}

fn check_name(asked: &str, name: &str) -> Result<(), Refusal> {
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
        assert!(check_name("rabbit@hare", "rabbit@hare").is_ok());
        assert!(check_name("rabbit", "rabbit@hare").is_ok());
        assert_eq!(check_name("rabbit@cat", "rabbit@hare").unwrap_err().code, exit::UNAVAILABLE);
    }
}
