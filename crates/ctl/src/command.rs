//! The words of the command line, as `rabbitmqctl` and `rabbitmq-diagnostics` have them.

use crate::change::{self, ChangeWord};
use crate::check::CheckWord;
use crate::columns::WhereWords;
use crate::diagnose::DiagnoseWord;
use crate::former::FormerWord;
use crate::groups::GroupWord;
use crate::lifecycle::LifeWord;
use crate::listing::{ListWord, asking, choose, items, words};
use crate::objects::ObjectWord;
use crate::options::Common;
use crate::plugins::PluginWord;
use crate::queues::{ClusterWord, QueueWord};
use crate::reports::ReportWord;
use crate::request::{Refusal, Request};
use crate::secrets::SecretWord;
use crate::session::{Session, bad_word};
use crate::show::{self, Formatter};
use crate::streaming::StreamingWord;
use crate::{
    check, columns, delayed, diagnose, exit, former, groups, help, lifecycle, listing, objects, plugins,
    queues, reports, secrets, shells, streaming, users, vhosts,
};
use clap::{CommandFactory, Parser, Subcommand};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

/// Names the binary may be called by that mean this command line.
pub const NAMES: &[&str] = &[
    "rabbitmqctl",
    "rabbitmq-diagnostics",
    "rabbitmq-queues",
    "rabbitmq-streams",
    "rabbitmq-plugins",
    "rabbitmq-upgrade",
];

/// Asks a running node, or gives it orders.
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

/// The binary's own name, with the word behind which these are.
const OWN_NAME: &str = "leveret ctl";

/// The name the plugins' words are said to.
const PLUGINS_NAME: &str = "rabbitmq-plugins";

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
        #[command(flatten)]
        at: WhereWords,
        /// Columns to show: name, messages, consumers, ...
        columns: Vec<String>,
    },
    /// Delayed messages of a queue
    ListDelayedMessages {
        queue: String,
        /// The most that are listed, by due time
        #[arg(long, default_value_t = 1000)]
        limit: u32,
    },
    /// Removes delayed messages from a queue
    CancelDelayedMessage {
        queue: String,
        /// The ids of the messages, as they are listed
        #[arg(required = true)]
        ids: Vec<u64>,
    },
    /// Deletes the beginning of a stream: whole segments with smaller offsets alone
    TruncateStream {
        stream: String,
        /// The first offset to keep
        before: u64,
    },
    /// The meaning of a filter: its normal form, what it reads, and what it says of a body that is given
    CheckFilter {
        /// The expression
        filter: String,
        /// A body that it is asked of
        #[arg(long)]
        payload: Option<String>,
    },
    /// Connections to the node and their properties
    ListConnections {
        /// Columns to show: user, peer_host, state, held_back, ...
        columns: Vec<String>,
    },
    /// Users, what each takes of what all share, and how often each was held back
    ListTenants {
        /// Columns to show: name, held_back, work_units, ...
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
    Report(ReportWord),
    #[command(flatten)]
    Streaming(StreamingWord),
    #[command(flatten)]
    Secret(SecretWord),
    #[command(flatten)]
    Former(FormerWord),
    #[command(flatten)]
    Cluster(ClusterWord),
    /// Status, listeners, queues, connections and more in one answer, for support
    #[command(name = "report")]
    WholeReport,
    /// Plugins: all are part of the broker
    #[command(name = "plugins", subcommand)]
    Plugins(PluginWord),
    /// Turns on a feature of this version; all are on
    EnableFeatureFlag {
        /// Its name, or all
        name: String,
    },
    /// All commands, or one command with its options
    Help { word: Option<String> },
    /// A script that completes command lines of this tool in a shell
    Completions { shell: shells::Shell },
    /// Commands and options with this beginning, for completions of RabbitMQ
    Autocomplete {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Users and their tags
    ListUsers,
    /// Permissions of users in a virtual host
    ListPermissions,
    /// Which topics users may publish to and bind in a virtual host
    ListTopicPermissions,
    /// Which topics a user may publish to and bind in each virtual host
    ListUserTopicPermissions { username: String },
    /// Permissions of a user in each virtual host
    ListUserPermissions { username: String },
    /// Virtual hosts and their properties
    ListVhosts {
        /// Columns to show: name, description, tags, ...
        columns: Vec<String>,
    },
    /// Exchanges of a virtual host and their properties
    ListExchanges {
        /// Columns to show: name, type, policy, ...
        columns: Vec<String>,
    },
    /// Policies of a virtual host
    ListPolicies,
    /// The operator's policies of a virtual host
    ListOperatorPolicies,
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
        /// All virtual hosts that have any
        #[arg(long)]
        global: bool,
    },
    /// Memory of the node by its uses
    MemoryBreakdown {
        /// Unit of sizes
        #[arg(long, default_value = "gb", value_parser = show::unit)]
        unit: show::Unit,
    },
}

/// Columns of exchanges.
const EXCHANGE: [&str; 7] = ["name", "type", "durable", "auto_delete", "internal", "arguments", "policy"];

/// Columns of virtual hosts.
const VHOST: [&str; 8] = [
    "name",
    "description",
    "tags",
    "default_queue_type",
    "protected_from_deletion",
    "tracing",
    "cluster_state",
    "metadata",
];

/// Runs the command line `words`, the first of which is the name it was called by. Returns the exit code.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    let called = words.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
    let called = called.unwrap_or_default().to_owned();
    if called == PLUGINS_NAME {
        return match Plugins::try_parse_from(words) {
            Ok(own) => finish(&own.common, |on| plugins::run(&own.word, on)),
            Err(error) => help::explain(&error, &Plugins::command(), PLUGINS_NAME),
        };
    }
    if help::is_for_all(words.iter().skip(1).filter_map(|word| word.to_str())) {
        print(&help::all(&Ctl::command(), &called));
        return exit::OK;
    }
    match Ctl::try_parse_from(words) {
        Ok(ctl) => match (&ctl.word, tool(&called)) {
            (Word::Completions { shell }, Some(command)) => {
                print(&shells::completions(command, *shell));
                exit::OK
            }
            _ => run_as(&ctl, &called),
        },
        Err(error) => help::explain(&error, &Ctl::command(), &called),
    }
}

/// Prints the error in a command line of the binary's own name, which has these words too, or the help that it asks for;
/// the exit code.
pub fn explain(error: &clap::Error, words: &[OsString]) -> u8 {
    // Behind the binary's name and the word that these stand behind.
    if help::is_for_all(words.iter().skip(2).filter_map(|word| word.to_str())) {
        print(&help::all(&Ctl::command(), OWN_NAME));
        return exit::OK;
    }
    help::explain(error, &Ctl::command(), OWN_NAME)
}

/// The command line of the tool of this name.
pub fn tool(name: &str) -> Option<clap::Command> {
    let name = *NAMES.iter().find(|known| **known == name)?;
    let command = if name == PLUGINS_NAME { Plugins::command() } else { Ctl::command() };
    Some(command.name(name).bin_name(name))
}

/// Runs a command line that was read. Returns the exit code.
pub fn run(ctl: &Ctl) -> u8 {
    run_as(ctl, OWN_NAME)
}

fn run_as(ctl: &Ctl, called: &str) -> u8 {
    if let Word::Help { word } = &ctl.word {
        let told = match word {
            Some(word) => help::one(Ctl::command(), called, word),
            None => Ok(help::all(&Ctl::command(), called)),
        };
        return end(told);
    }
    finish(&ctl.common, |session| execute(&ctl.word, session))
}

fn finish(common: &Common, work: impl FnOnce(&Session<'_>) -> Result<String, Refusal>) -> u8 {
    let session = Session::new(common);
    let check = || match &common.node {
        Some(node) => check_name(node, &session.node()?),
        None => Ok(()),
    };
    let done = check().and_then(|()| work(&session));
    if done.is_err() {
        // As with RabbitMQ's tools, the banner is printed also when the command fails.
        print(&session.take_announced());
    }
    end(done)
}

/// Prints the outcome of a command; the exit code.
pub(crate) fn end(done: Result<String, Refusal>) -> u8 {
    match done {
        Ok(text) => {
            print(&text);
            exit::OK
        }
        Err(refusal) => {
            eprintln!("{}", refusal.message);
            refusal.code
        }
    }
}

/// A reader that closes the pipe early is no error.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn execute(word: &Word, session: &Session<'_>) -> Result<String, Refusal> {
    let ask = |request: &Request| session.ask(request);
    let vhost = session.vhost();
    match word {
        Word::Ping => {
            let node = session.node()?;
            let show = session.announce(format!("Will ping {node}."));
            Ok(show.message("Ping succeeded"))
        }
        Word::Status { unit } => {
            let mut status = ask(&Request::Status)?;
            let name = status["node"].as_str().unwrap_or_default().to_owned();
            if session.is_for_programs() {
                lifecycle::complete_status(session, &name, &mut status)?;
            }
            let mut show = session.announce(format!("Status of node {name} ..."));
            show.unit = *unit;
            Ok(show.status(&status))
        }
        Word::ListQueues { at, columns } => columns::queues(session, columns, *at),
        Word::ListDelayedMessages { queue, limit } => {
            let banner = format!("Listing delayed messages of queue '{queue}' in vhost '{vhost}' ...");
            let show = session.show(Formatter::Table, banner);
            Ok(show.rows(&words(&["id", "due_at"]), &delayed::list(session, queue, *limit)?))
        }
        Word::CancelDelayedMessage { queue, ids } => {
            let banner = format!("Cancelling delayed messages of queue '{queue}' in vhost '{vhost}' ...");
            let show = session.announce(banner);
            Ok(show.message(&format!("Cancelled {}", delayed::cancel(session, queue, ids)?)))
        }
        Word::TruncateStream { stream, before } => truncate(session, stream, *before),
        Word::CheckFilter { filter, payload } => check_filter(session, filter, payload.as_deref()),
        Word::ListConnections { columns } => columns::connections(session, columns),
        Word::ListTenants { columns } => columns::tenants(session, columns),
        Word::Change(word) => change::run(word, session),
        Word::List(word) => listing::run(word, session),
        Word::Object(word) => objects::run(word, session),
        Word::Check(word) => check::run(word, session),
        Word::Life(word) => lifecycle::run(word, session),
        Word::Queue(word) => queues::run(word, session),
        Word::Group(word) => groups::run(word, session),
        Word::Diagnose(word) => diagnose::run(word, session),
        Word::Report(word) => reports::run(word, session),
        Word::Streaming(word) => streaming::run(word, session),
        Word::Secret(word) => secrets::run(word, session),
        Word::Former(word) => former::run(word, session),
        Word::Cluster(word) => Err(queues::refuse(word)),
        Word::WholeReport => report(session),
        Word::Plugins(word) => plugins::run(word, session),
        Word::EnableFeatureFlag { name } => lifecycle::enable_flag(session, name),
        Word::Help { .. } => Err(bad_word(exit::USAGE, "help asks no node")),
        Word::Completions { .. } => {
            Err(bad_word(exit::USAGE, "the completions of all that begins with leveret: leveret completions"))
        }
        Word::Autocomplete { words } => {
            Ok(shells::variants(&Ctl::command(), words).iter().map(|word| format!("{word}\n")).collect())
        }
        Word::ListUsers => {
            let show = session.show(Formatter::Table, "Listing users ...");
            Ok(show.rows(&words(&["user", "tags"]), &users::list(session)?))
        }
        Word::ListVhosts { columns } => {
            let columns = choose(&VHOST, &["name"], columns)?;
            let show = session.show(Formatter::Table, "Listing vhosts ...");
            let rows = items(session, &["vhosts"], &asking(columns.iter().map(String::as_str)))?;
            Ok(show.rows(&columns, &rows.into()))
        }
        Word::ListExchanges { columns } => {
            let columns = choose(&EXCHANGE, &["name", "type"], columns)?;
            let show = session.show(Formatter::Table, format!("Listing exchanges for vhost {vhost} ..."));
            let mut rows =
                items(session, &["exchanges", vhost], &asking(columns.iter().map(String::as_str)))?;
            for row in rows.iter_mut().filter(|row| row["policy"].is_null()) {
                row["policy"] = "".into();
            }
            Ok(show.rows(&columns, &rows.into()))
        }
        Word::ListPolicies => {
            let show = session.show(Formatter::Table, format!("Listing policies for vhost \"{vhost}\" ..."));
            Ok(show.rows(&words(&vhosts::POLICY), &vhosts::list_policies(session, vhost, false)?))
        }
        Word::ListOperatorPolicies => {
            let banner = format!("Listing operator policy overrides for vhost \"{vhost}\" ...");
            let show = session.show(Formatter::Table, banner);
            Ok(show.rows(&words(&vhosts::POLICY), &vhosts::list_policies(session, vhost, true)?))
        }
        Word::ListUserLimits { global: true, .. } => {
            let show = session.show(Formatter::Table, "Listing limits for all users ...");
            Ok(show.rows(&words(&["user", "limits"]), &users::all_limits(session)?))
        }
        Word::ListUserLimits { user, .. } => {
            let show = session.announce(format!("Listing limits for user \"{user}\" ..."));
            Ok(show.message(&users::limits_of(session, user)?))
        }
        Word::ListVhostLimits { global: true, .. } => {
            let show = session.show(Formatter::Table, "Listing limits for all vhosts ...");
            Ok(show.rows(&words(&["vhost", "limits"]), &vhosts::all_limits(session)?))
        }
        Word::ListVhostLimits { .. } => {
            let show = session.announce(format!("Listing limits for vhost \"{vhost}\" ..."));
            let limits = vhosts::limits_of(session, vhost)?;
            match session.is_for_programs() {
                true => {
                    Ok(format!("{}\n", json!({ "result": "ok", "node": session.node()?, "value": limits })))
                }
                false => Ok(show.message(&limits)),
            }
        }
        Word::ListPermissions => {
            let banner = format!("Listing permissions for vhost \"{vhost}\" ...");
            let show = session.show(Formatter::Table, banner);
            let rows = users::permissions_in(session, vhost, "permissions")?;
            Ok(show.rows(&words(&["user", "configure", "write", "read"]), &rows))
        }
        Word::ListUserPermissions { username } => {
            let banner = format!("Listing permissions for user \"{username}\" ...");
            let show = session.show(Formatter::Table, banner);
            let rows = users::permissions_of(session, username, "permissions")?;
            Ok(show.rows(&words(&["vhost", "configure", "write", "read"]), &rows))
        }
        Word::ListTopicPermissions => {
            let banner = format!("Listing topic permissions for vhost \"{vhost}\" ...");
            let show = session.show(Formatter::Table, banner);
            let rows = users::permissions_in(session, vhost, "topic-permissions")?;
            Ok(show.rows(&words(&["user", "exchange", "write", "read"]), &rows))
        }
        Word::ListUserTopicPermissions { username } => {
            let banner = format!("Listing topic permissions for user \"{username}\" ...");
            let show = session.show(Formatter::Table, banner);
            let rows = users::permissions_of(session, username, "topic-permissions")?;
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

/// The answers to the words of a report, one after the other. One that fails says so in its place.
fn report(session: &Session<'_>) -> Result<String, Refusal> {
    let node = session.node()?;
    let mut text = session.announce(format!("Reporting server status of node {node} ...")).begin();
    let mut add = |words: &[&str]| {
        // These are words of ours, each with its own options.
        let ctl = Ctl::try_parse_from(["report"].iter().chain(words))
            .map_err(|error| bad_word(exit::SOFTWARE, error))?;
        let part = session.beside(&ctl.common);
        let told = execute(&ctl.word, &part).unwrap_or_else(|refusal| format!("{}\n", refusal.message));
        text.extend([told.as_str(), "\n"]);
        Ok::<(), Refusal>(())
    };
    reports::REPORT.iter().try_for_each(|words| add(words))?;
    for vhost in reports::vhosts(session)? {
        for words in reports::REPORT_OF_VHOST {
            let line: Vec<&str> = words.iter().copied().chain(["--vhost", vhost.as_str()]).collect();
            add(&line)?;
        }
    }
    Ok(text)
}

/// Lets go of a stream's beginning.
fn truncate(session: &Session<'_>, stream: &str, before: u64) -> Result<String, Refusal> {
    let vhost = session.vhost();
    let banner = format!("Truncating stream '{stream}' in vhost '{vhost}' before offset {before} ...");
    let show = session.announce(banner);
    if !vhosts::has(session, vhost)? {
        return Err(vhosts::missing(vhost));
    }
    let path = ["x", "streams", vhost, stream, "truncate"];
    let response = session.api("POST", &path, "", Some(&json!({ "before": before })))?;
    response.changed().map_err(|refusal| Refusal { code: exit::DATA, ..refusal })?;
    let told: Value = serde_json::from_str(&response.body).unwrap_or_default();
    Ok(show.message(&format!("The first offset is {}", told["first_offset"])))
}

/// Has a filter explained.
fn check_filter(session: &Session<'_>, filter: &str, payload: Option<&str>) -> Result<String, Refusal> {
    let show = session.announce("Checking a filter ...".to_owned());
    let vhost = session.vhost();
    if !vhosts::has(session, vhost)? {
        return Err(vhosts::missing(vhost));
    }
    let asked = json!({ "filter": filter, "payload": payload, "vhost": vhost });
    let response = session.api("POST", &["x", "filter", "check"], "", Some(&asked))?;
    response.changed().map_err(|refusal| Refusal { code: exit::DATA, ..refusal })?;
    let told: Value = serde_json::from_str(&response.body).unwrap_or_default();
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    let reads = told["reads"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut lines = vec![
        format!("filter: {}", text("filter")),
        format!("reads: {}", reads.collect::<Vec<_>>().join(", ")),
        format!("class: {}", text("class")),
    ];
    if payload.is_some() {
        let verdict = told["matches"].as_bool().map_or("unknown", |is| if is { "true" } else { "false" });
        lines.push(format!("of this body: {verdict}"));
    }
    Ok(lines.iter().map(|line| show.message(line)).collect())
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
