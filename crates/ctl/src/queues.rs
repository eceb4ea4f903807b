//! The words about quorum queues and streams, and about nodes they live on, as `rabbitmq-queues`, `rabbitmq-streams` and
//! `rabbitmq-upgrade` have them.
//!
//! There is one node, and it has the one member of every queue. Words that ask for other members are refused; those
//! that ask whether the members suffice are answered.

use crate::listing::words;
use crate::request::{Refusal, Response};
use crate::session::{Session, bad_word, done, failed, missing, reason};
use crate::show::Formatter;
use crate::{exit, groups};
use clap::Subcommand;
use serde_json::{Value, json};

/// Bytes of a message's body that are shown.
const PEEK_BYTES: usize = 64;

/// Words about queues and streams.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum QueueWord {
    /// Members of a quorum queue: one, on this node
    QuorumStatus { queue: String },
    /// Shows the message at a position of a queue, counted from 1, and leaves it there
    Peek {
        queue: String,
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        position: u32,
    },
    /// Has a stream elect its writer anew: the one member it has
    RestartStream {
        stream: String,
        /// The node that is to write
        #[arg(long = "preferred-leader-node", value_name = "NODE")]
        preferred_leader_node: Option<String>,
    },
    /// Members of a stream: one, on this node
    StreamStatus {
        stream: String,
        /// Its offsets of consumers and numbers of publishers instead
        #[arg(long)]
        tracking: bool,
    },
    /// Offsets of consumers and numbers of publishers that a stream keeps
    ListStreamTracking {
        stream: String,
        /// Offsets of consumers alone
        #[arg(long)]
        offset: bool,
        /// Publishing ids of publishers alone
        #[arg(long)]
        writer: bool,
    },
    /// Makes an exchange and the streams behind it, one for each key
    AddSuperStream {
        name: String,
        /// How many streams; 3 where neither they nor keys are named
        #[arg(long, conflicts_with = "binding_keys")]
        partitions: Option<u32>,
        /// The keys: one,two
        #[arg(long = "binding-keys", value_name = "KEYS")]
        binding_keys: Option<String>,
        /// Bytes of each stream: 20gb
        #[arg(long = "max-length-bytes", value_name = "SIZE")]
        max_length_bytes: Option<String>,
        /// How long each stream keeps its messages: PT10M, P1D
        #[arg(long = "max-age", value_name = "DURATION")]
        max_age: Option<String>,
        /// Bytes of a segment: 500mb
        #[arg(long = "stream-max-segment-size-bytes", value_name = "SIZE")]
        stream_max_segment_size_bytes: Option<String>,
    },
    /// Deletes an exchange and the streams behind it
    DeleteSuperStream { name: String },
    /// Spreads leaders of queues over nodes; with one node there is nothing to do
    Rebalance {
        /// all, quorum or stream
        kind: String,
    },
    /// Waits until every queue has a member more than it needs; with one node there is nothing to wait for
    AwaitOnlineQuorumPlusOne,
    /// The work after an upgrade: none here
    PostUpgrade,
}

/// Words that need a cluster: the words behind them are not looked at.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum ClusterWord {
    /// Needs a cluster
    #[command(hide = true)]
    JoinCluster(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    ForgetClusterNode(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    Grow(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    GrowToCount(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    Shrink(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    AddMember(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    DeleteMember(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    AddReplica(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    DeleteReplica(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    TransferLeadership(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    Drain(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    Revive(Rest),
    /// Not here
    #[command(hide = true)]
    Eval(Rest),
    /// Not here
    #[command(hide = true)]
    SuspendListeners(Rest),
    /// Not here
    #[command(hide = true)]
    ResumeListeners(Rest),
    /// Not here
    #[command(hide = true)]
    SetChannelInterceptorPriorities(Rest),
    /// Not here
    #[command(hide = true)]
    EvalFile(Rest),
    /// Not here
    #[command(hide = true)]
    Exec(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    ForceBoot(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    ForceStandaloneKhepriBoot(Rest),
    /// Needs a cluster
    #[command(hide = true)]
    UpdateClusterNodes(Rest),
    /// Not here
    #[command(hide = true)]
    RotateLogs(Rest),
    /// Not here
    #[command(hide = true)]
    ForceCheckpoint(Rest),
    /// Not here
    #[command(hide = true)]
    CoordinatorStatus(Rest),
    /// Not here
    #[command(hide = true)]
    ErlangVersion(Rest),
    /// Not here
    #[command(hide = true)]
    ErlangCookieHash(Rest),
    /// Not here
    #[command(hide = true)]
    ErlangCookieSources(Rest),
    /// Not here
    #[command(hide = true)]
    RemoteShell(Rest),
    /// Not here
    #[command(hide = true)]
    Observer(Rest),
    /// Not here
    #[command(hide = true)]
    MaybeStuck(Rest),
    /// Not here
    #[command(hide = true)]
    RuntimeThreadStats(Rest),
}

/// Any words behind a word.
#[derive(Debug, clap::Args)]
pub(crate) struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<String>,
}

/// Why a word is refused.
pub(crate) fn refuse(word: &ClusterWord) -> Refusal {
    let alone = "this node is alone: a cluster is not served yet";
    let why = match word {
        ClusterWord::JoinCluster(_) | ClusterWord::ForgetClusterNode(_) => alone,
        ClusterWord::Grow(_)
        | ClusterWord::GrowToCount(_)
        | ClusterWord::Shrink(_)
        | ClusterWord::AddMember(_)
        | ClusterWord::DeleteMember(_)
        | ClusterWord::AddReplica(_)
        | ClusterWord::DeleteReplica(_)
        | ClusterWord::TransferLeadership(_) => {
            "every queue and stream has one member, on this node: a cluster is not served yet"
        }
        ClusterWord::Drain(_) | ClusterWord::Revive(_) => {
            "there is no other node that could serve meanwhile; stop ends the node"
        }
        ClusterWord::Eval(_) | ClusterWord::EvalFile(_) | ClusterWord::Exec(_) => {
            "there is no Erlang here to evaluate"
        }
        ClusterWord::SuspendListeners(_) | ClusterWord::ResumeListeners(_) => {
            "listeners are open for as long as the node runs"
        }
        ClusterWord::SetChannelInterceptorPriorities(_) => "nothing sits between channels and their clients",
        ClusterWord::ForceBoot(_)
        | ClusterWord::ForceStandaloneKhepriBoot(_)
        | ClusterWord::UpdateClusterNodes(_) => alone,
        ClusterWord::ErlangVersion(_)
        | ClusterWord::ErlangCookieHash(_)
        | ClusterWord::ErlangCookieSources(_)
        | ClusterWord::RemoteShell(_)
        | ClusterWord::Observer(_)
        | ClusterWord::MaybeStuck(_)
        | ClusterWord::RuntimeThreadStats(_) => "there is no Erlang here",
        ClusterWord::ForceCheckpoint(_) => {
            "queues have no logs of their own; the node's is cut as it is used"
        }
        ClusterWord::CoordinatorStatus(_) => {
            "streams have no coordinator here: their members are not elected"
        }
        ClusterWord::RotateLogs(_) => "This command does not rotate logs anymore [deprecated]",
    };
    failed(why)
}

pub(crate) fn run(word: &QueueWord, session: &Session<'_>) -> Result<String, Refusal> {
    let vhost = session.vhost();
    match word {
        QueueWord::QuorumStatus { queue } => quorum_status(session, vhost, queue),
        QueueWord::Peek { queue, position } => peek(session, vhost, queue, *position),
        QueueWord::RestartStream { stream, preferred_leader_node } => {
            let node = session.node()?;
            let show = session.announce(format!("Restarting stream {stream}..."));
            let found = session.find(&["queues", vhost, stream])?.ok_or_else(missing)?;
            match found["type"].as_str() {
                Some("stream") => {}
                kind => return Err(failed(format!("Cannot restart a {} queue", kind.unwrap_or_default()))),
            }
            if let Some(wanted) = preferred_leader_node.as_ref().filter(|wanted| **wanted != node) {
                let text = format!("node {wanted} has no member of this stream: its one is on {node}");
                return Err(failed(text));
            }
            done(session.api("POST", &["x", "streams", vhost, stream, "restart"], "", None)?)?;
            Ok(show.message(&node))
        }
        QueueWord::StreamStatus { stream, tracking: true } => {
            let node = session.node()?;
            let banner = format!("Status of stream {stream} on node {node} ...");
            tracking(session, vhost, stream, banner, "", ["type", "reference", "value"])
        }
        QueueWord::StreamStatus { stream, .. } => stream_status(session, vhost, stream),
        QueueWord::ListStreamTracking { stream, offset, writer } => {
            let banner = format!("Listing tracking information for stream {stream} ...");
            let query = match (offset, writer) {
                (true, false) => "type=offset",
                (false, true) => "type=writer",
                _ => "",
            };
            tracking(session, vhost, stream, banner, query, ["type", "name", "tracking_value"])
        }
        QueueWord::AddSuperStream {
            name,
            partitions,
            binding_keys,
            max_length_bytes,
            max_age,
            stream_max_segment_size_bytes,
        } => {
            let show = session.announce("Adding a super stream...");
            let mut arguments = serde_json::Map::new();
            for (key, size) in [
                ("x-max-length-bytes", max_length_bytes),
                ("x-stream-max-segment-size-bytes", stream_max_segment_size_bytes),
            ] {
                if let Some(size) = size {
                    arguments.insert(key.to_owned(), bytes(size)?.into());
                }
            }
            if let Some(age) = max_age {
                arguments.insert("x-max-age".to_owned(), seconds(age)?.into());
            }
            let mut body = json!({ "arguments": arguments });
            match (partitions, binding_keys) {
                (_, Some(keys)) => body["binding-keys"] = keys.as_str().into(),
                (Some(count), None) => body["partitions"] = (*count).into(),
                (None, None) => {}
            }
            let exists = session.find(&["exchanges", vhost, name])?.is_some();
            if exists {
                let message = format!("Error:\nthere is already an exchange named {name}");
                return Err(Refusal { code: exit::SOFTWARE, message });
            }
            put(session.api("PUT", &["stream", "super-streams", vhost, name], "", Some(&body))?)?;
            Ok(show.message(&format!("Super stream {name} has been created")))
        }
        QueueWord::DeleteSuperStream { name } => delete_super_stream(session, vhost, name),
        QueueWord::Rebalance { kind } => {
            if !["all", "quorum", "stream"].contains(&&**kind) {
                let why = format!("type '{kind}' is not supported. Try one of all, quorum, stream.");
                return Err(bad_word(exit::USAGE, why));
            }
            let show =
                session.show(Formatter::PrettyTable, format!("Re-balancing leaders of {kind} queues..."));
            let node = session.node()?;
            let queues = session.get(&["queues"])?;
            let count = |kind: &str| {
                queues.as_array().into_iter().flatten().filter(|queue| queue["type"] == *kind).count()
            };
            let row = json!({
                "Node name": node,
                "Number of quorum queues": count("quorum"),
                "Number of streams": count("stream"),
            });
            let columns = words(&["Node name", "Number of quorum queues", "Number of streams"]);
            Ok(show.rows(&columns, &json!([row])))
        }
        QueueWord::AwaitOnlineQuorumPlusOne => {
            let seconds = session.timeout().unwrap_or(120);
            let show = session.announce(format!(
                "Will wait for a quorum + 1 of nodes to be online for all quorum queues and streams for {seconds} \
                 seconds..."
            ));
            session.node()?;
            Ok(show.message(
                "Target node seems to be the only one in a single node cluster, the command does not apply",
            ))
        }
        QueueWord::PostUpgrade => {
            let show = session.announce("Executing post upgrade tasks...");
            session.node()?;
            Ok(show.begin())
        }
    }
}

fn put(response: Response) -> Result<(), Refusal> {
    match response.status {
        200..=299 => Ok(()),
        _ => Err(Refusal { code: exit::SOFTWARE, message: format!("Error:\n{}", reason(&response)) }),
    }
}

fn quorum_status(session: &Session<'_>, vhost: &str, queue: &str) -> Result<String, Refusal> {
    let node = session.node()?;
    let show = session.show(Formatter::PrettyTable, format!("Status of queue {queue} on node {node} ..."));
    let found = session.find(&["queues", vhost, queue])?.ok_or_else(|| Refusal {
        code: exit::DATA,
        message: format!("queue '{queue}' was not found in virtual host '{vhost}'"),
    })?;
    let kind = found["type"].as_str().unwrap_or_default();
    if kind != "quorum" {
        return Err(failed(format!("'{queue}' is no quorum queue but one of type {kind}")));
    }
    let row = json!({ "Node Name": node, "Raft State": "leader", "Membership": "voter" });
    Ok(show.rows(&words(&["Node Name", "Raft State", "Membership"]), &json!([row])))
}

fn peek(session: &Session<'_>, vhost: &str, queue: &str, position: u32) -> Result<String, Refusal> {
    let node = session.node()?;
    let banner = format!("Peeking at quorum queue {queue} at position {position} on node {node} ...");
    let show = session.show(Formatter::PrettyTable, banner);
    let query = format!("offset={}&count=1&truncate={PEEK_BYTES}", position - 1);
    let response = session.api("GET", &["x", "queues", vhost, queue, "messages"], &query, None)?;
    if response.status == 404 {
        return Err(failed(format!("Target queue was not found in virtual host '{vhost}'")));
    }
    let response = done(response)?;
    let found: Value = serde_json::from_str(&response.body).unwrap_or_default();
    match &found["messages"][0] {
        Value::Null => Err(failed("no_message_at_pos")),
        message => {
            let message = groups::peeked(message);
            if session.is_for_programs() {
                let fields = base::brief::collect::<serde_json::Map<_, _>, _>(message);
                return Ok(format!("{}\n", json!({ "message": fields, "result": "ok" })));
            }
            let row = |(keys, values): (String, Value)| json!({ "keys": keys, "values": values });
            let rows: Value = message.into_iter().map(row).collect();
            Ok(show.rows(&words(&["keys", "values"]), &rows))
        }
    }
}

fn stream_status(session: &Session<'_>, vhost: &str, stream: &str) -> Result<String, Refusal> {
    let node = session.node()?;
    let show = session.show(Formatter::PrettyTable, format!("Status of stream {stream} on node {node} ..."));
    let found = session.find(&["queues", vhost, stream])?.ok_or_else(missing)?;
    if found["type"] != "stream" {
        return Err(failed(format!("'{stream}' is no stream")));
    }
    let row = json!({
        "role": "writer",
        "node": node,
        "messages": found["messages"],
        "readers": found["readers"][&node],
        "segments": found["segments"],
    });
    let columns: Vec<String> = ["role", "node", "messages", "readers", "segments"]
        .iter()
        .filter(|name| !row[**name].is_null())
        .map(|name| (*name).to_owned())
        .collect();
    Ok(show.rows(&columns, &json!([row])))
}

fn tracking(
    session: &Session<'_>,
    vhost: &str,
    stream: &str,
    banner: String,
    query: &str,
    columns: [&str; 3],
) -> Result<String, Refusal> {
    let show = session.show(Formatter::PrettyTable, banner);
    let response = session.api("GET", &["stream", vhost, stream, "tracking"], query, None)?;
    if response.status == 404 {
        return Err(failed("The stream does not exist."));
    }
    let response = done(response)?;
    let all: Value = serde_json::from_str(&response.body).unwrap_or_default();
    let mut rows = Vec::new();
    for (list, kind) in [("offsets", "offset"), ("writers", "writer")] {
        for (name, value) in all[list].as_object().into_iter().flatten() {
            rows.push(json!({ columns[0]: kind, columns[1]: name, columns[2]: value }));
        }
    }
    Ok(show.rows(&words(&columns), &rows.into()))
}

fn delete_super_stream(session: &Session<'_>, vhost: &str, name: &str) -> Result<String, Refusal> {
    let show = session.announce("Deleting a super stream...");
    let none = || Refusal { code: exit::SOFTWARE, message: "Error:\nstream_not_found".to_owned() };
    let exchange = session.find(&["exchanges", vhost, name])?.ok_or_else(none)?;
    if exchange["arguments"]["x-super-stream"] != true {
        return Err(none());
    }
    let bindings = session.get(&["exchanges", vhost, name, "bindings", "source"])?;
    for binding in bindings.as_array().into_iter().flatten() {
        if binding["destination_type"] == "queue"
            && let Some(stream) = binding["destination"].as_str()
        {
            put(session.api("DELETE", &["queues", vhost, stream], "", None)?)?;
        }
    }
    put(session.api("DELETE", &["exchanges", vhost, name], "", None)?)?;
    Ok(show.message(&format!("Super stream {name} has been deleted")))
}

/// Bytes, in the units the tool takes.
fn bytes(text: &str) -> Result<u64, Refusal> {
    let bad = || bad_word(exit::DATA, format!("'{text}' is no size such as 20gb or 500mb"));
    let lower = text.to_ascii_lowercase();
    let split = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(split);
    let factor: u64 = match unit {
        "" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(bad()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(bad)
}

/// A duration of ISO 8601 as the argument `x-max-age` has it: seconds.
fn seconds(text: &str) -> Result<String, Refusal> {
    let bad = || bad_word(exit::DATA, format!("'{text}' is no duration such as PT10M or P1DT12H"));
    let rest = text.strip_prefix('P').ok_or_else(bad)?;
    let (date, time) = rest.split_once('T').unwrap_or((rest, ""));
    let mut total: u64 = 0;
    for (part, units) in [
        (date, &[('Y', 31_536_000), ('M', 2_592_000), ('W', 604_800), ('D', 86_400)][..]),
        (time, &[('H', 3600), ('M', 60), ('S', 1)][..]),
    ] {
        let mut number = String::new();
        for c in part.chars() {
            if c.is_ascii_digit() {
                number.push(c);
                continue;
            }
            let (_, length) = units.iter().find(|(unit, _)| *unit == c).ok_or_else(bad)?;
            let count: u64 = number.parse().map_err(|_| bad())?;
            total = count.checked_mul(*length).and_then(|more| total.checked_add(more)).ok_or_else(bad)?;
            number.clear();
        }
        if !number.is_empty() {
            return Err(bad());
        }
    }
    if total == 0 { Err(bad()) } else { Ok(format!("{total}s")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_read() {
        let size = |text: &str| bytes(text).map_err(|refusal| refusal.code);
        assert_eq!(size("1gb"), Ok(1_000_000_000));
        assert_eq!(size("17"), Ok(17));
        assert_eq!(size("5stones"), Err(exit::DATA));
        assert_eq!(size("99999999999999999tb"), Err(exit::DATA));
        let age = |text: &str| seconds(text).map_err(|refusal| refusal.code);
        assert_eq!(age("PT10M"), Ok("600s".to_owned()));
        assert_eq!(age("P1DT1H"), Ok("90000s".to_owned()));
        for bad in ["", "P", "PT", "10M", "PT10", "P1H", "PT99999999999999999999S"] {
            assert_eq!(age(bad), Err(exit::DATA), "{bad}");
        }
    }
}
