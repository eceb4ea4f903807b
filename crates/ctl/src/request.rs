//! Requests and answers: one line of JSON each.
//!
//! The rows have the names that RabbitMQ's tools print.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A request of a tool to the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Whether the node answers at all: its name, its process, the version clients are told, and whether it serves.
    Ping,
    /// The node is to end: an empty answer, once it has heard.
    Stop,
    /// All of the node but its process is to stop: an empty answer, once it has heard.
    StopApp,
    /// A node that was stopped so is to go on: an empty answer, once it has heard.
    StartApp,
    /// All that is stored is to go, of a node that was stopped so: an empty answer, once it is gone.
    Reset,
    /// Whether a user may log in with a password: an empty answer, or a refusal.
    Authenticate {
        /// The name.
        user: String,
        /// In the clear.
        password: String,
    },
    /// How much the log says from now on: an empty answer.
    SetLogLevel {
        /// As `log.level` has it.
        level: String,
    },
    /// A log is to be at a shard: an empty answer, when it is there.
    MoveLog {
        /// The number of the log.
        log: u32,
        /// The number of the shard.
        shard: u16,
    },
    /// The replicas of logs that this node has with others, its lanes to them, and words that were dropped: `replicas`,
    /// `lanes`, `dropped`.
    Replicas,
    /// Another node is to lead a log that this one leads. Whether this one led it.
    GiveLead {
        /// The number of the log.
        log: u32,
        /// The number of the node.
        node: u16,
    },
    /// The last lines of the log, as a list.
    LogTail {
        /// At most so many.
        lines: u32,
    },
    /// The lines of the log that were written since: `lines`, and as `next` from where the following are.
    LogSince {
        /// The `next` of the last answer; without it none but those to come.
        next: Option<u64>,
    },
    /// The node's settings: a list of [`SettingRow`].
    Environment,
    /// Memory that is not needed goes back to the system: an empty answer.
    Trim,
    /// A [`Status`].
    Status,
    /// The state of the node now: [`crate::top::Overview`].
    Top {
        /// The list and the page.
        asked: crate::top::Asked,
    },
    /// A [`Memory`].
    MemoryBreakdown,
    /// A request to the management HTTP API, in the node's own name: a [`Response`].
    Api {
        /// `GET`, `PUT`, ...
        method: String,
        /// The path, with its segments escaped, and perhaps a query: `/api/queues/%2F`.
        target: String,
        /// The body; empty: none.
        #[serde(default)]
        body: String,
        /// The reason for an end, for the client that is closed.
        #[serde(default)]
        reason: Option<String>,
    },
    /// From how much memory publishers wait, until the node stops: an empty answer.
    SetMemoryLimit {
        /// A share of the memory there is, or `absolute` and bytes, with a unit or without.
        limit: String,
    },
    /// Below how much free disk publishers wait, until the node stops: an empty answer.
    SetDiskLimit {
        /// Bytes, with a unit or without, or `mem_relative` and a share of the memory there is.
        limit: String,
    },
}

/// A response of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// As in HTTP.
    pub status: u16,
    /// Mostly JSON; empty where there is nothing to say.
    pub body: String,
}

/// The answer to a request: the JSON that [`Request`] promises, or a refusal.
pub type Answer = Result<serde_json::Value, Refusal>;

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The exit code of the tool, one of [`crate::exit`].
    pub code: u8,
    /// For people.
    pub message: String,
}

/// A node's condition, in the shape of `rabbitmqctl status --formatter json`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// As in `rabbit@host`.
    #[serde(rename = "node")]
    pub node_name: String,
    /// The process.
    pub pid: u32,
    /// The operating system.
    pub os: String,
    /// The version that clients are told.
    pub rabbitmq_version: String,
    /// The product's own name.
    pub product_name: String,
    /// And its version.
    pub product_version: String,
    /// Kept for tools that print it.
    pub erlang_version: String,
    /// Seconds since the node started.
    pub uptime: u64,
    /// Alarms that hold: `memory`, `disk`.
    pub alarms: Vec<String>,
    /// Where it listens.
    pub listeners: Vec<Listener>,
    /// Files its configuration was read from.
    pub config_files: Vec<String>,
    /// Where it keeps everything.
    pub data_directory: String,
    /// Where it logs to.
    pub log_files: Vec<String>,
    /// Bytes by their uses.
    pub memory: Memory,
    /// Bytes from which publishers are blocked.
    pub vm_memory_high_watermark_limit: u64,
    /// The setting that came from.
    pub vm_memory_high_watermark_setting: BTreeMap<String, f64>,
    /// Bytes of free disk below which publishers are blocked.
    pub disk_free_limit: u64,
    /// Bytes of free disk.
    pub disk_free: u64,
    /// Counts of objects.
    pub totals: Totals,
}

/// A port somebody may connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Listener {
    /// The node's name.
    pub node: String,
    /// The address it is bound to.
    pub interface: String,
    /// The port.
    pub port: u16,
    /// As RabbitMQ names it: `amqp`.
    pub protocol: String,
    /// For people.
    pub purpose: String,
}

/// Counts of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Open connections.
    pub connection_count: u64,
    /// Queues of all virtual hosts.
    pub queue_count: u64,
    /// Virtual hosts.
    pub virtual_host_count: u64,
}

/// Bytes of memory by their uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Everything: `rss`, as the kernel sees it; `erlang` and `allocated`, the pools' bytes without and with the free
    /// parts of heaps.
    pub total: BTreeMap<String, u64>,
    /// Each pool.
    #[serde(flatten)]
    pub pools: BTreeMap<String, u64>,
}

/// A setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SettingRow {
    /// As in `rabbitmq.conf`.
    pub key: String,
    /// Its value; secrets are not told.
    pub value: String,
    /// Where that is said.
    pub from: String,
}

/// Reads a request's line.
///
/// # Errors
/// A refusal to send back.
pub fn read(line: &[u8]) -> Result<Request, Refusal> {
    serde_json::from_slice(line)
        .map_err(|error| Refusal { code: crate::exit::USAGE, message: format!("not a request: {error}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_one_line_and_come_back() {
        let check = |request: Request, line: &str| {
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
            assert_eq!(read(line.as_bytes()), Ok(request));
        };
        check(Request::Ping, r#"{"request":"ping"}"#);
        check(Request::GiveLead { log: 5, node: 2 }, r#"{"request":"give_lead","log":5,"node":2}"#);
        check(Request::MoveLog { log: 5, shard: 1 }, r#"{"request":"move_log","log":5,"shard":1}"#);
        check(Request::LogTail { lines: 5 }, r#"{"request":"log_tail","lines":5}"#);
        let limit = "2GB".to_owned();
        check(Request::SetDiskLimit { limit }, r#"{"request":"set_disk_limit","limit":"2GB"}"#);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Err(refusal) = read(&bytes) {
                prop_assert_eq!(refusal.code, crate::exit::USAGE);
            }
        }
    }
}
