//! What is asked and what is answered: one line of JSON each.
//!
//! The rows have the names that RabbitMQ's tools print.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Whether the node answers at all: its name, its process, the version clients are told, and whether it serves.
    Ping,
    /// The node is to end: an empty answer, once it has heard.
    Stop,
    /// All of the node but its process is to stop: an empty answer, once it has heard.
    StopApp,
    /// What was stopped so is to go on: an empty answer, once it has heard.
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
    /// The last lines of the log, as a list.
    LogTail {
        /// At most so many.
        lines: u32,
    },
    /// The lines of the log that were written since: `lines`, and as `next` from where the following are.
    LogSince {
        /// What the last answer had as `next`; without it none but those to come.
        next: Option<u64>,
    },
    /// What the node was told: a list of [`SettingRow`].
    Environment,
    /// Memory that is not needed goes back to the system: an empty answer.
    Trim,
    /// A [`Status`].
    Status,
    /// A list of objects, one a queue, with the columns that are asked for; of a virtual host that is not there, none.
    ListQueues {
        /// The virtual host.
        vhost: String,
        /// Some of [`QUEUE_COLUMNS`]. Each is told of every queue, so nothing else is.
        columns: Vec<String>,
    },
    /// A list of [`DelayedRow`]; those that are due first come first.
    ListDelayedMessages {
        /// The virtual host.
        vhost: String,
        /// The queue.
        queue: String,
        /// At most so many.
        limit: u32,
    },
    /// How many messages were there to be thrown away.
    CancelDelayedMessages {
        /// The virtual host.
        vhost: String,
        /// The queue.
        queue: String,
        /// The numbers of the messages ([`DelayedRow::id`]).
        ids: Vec<u64>,
    },
    /// The first offset of a stream once its beginning is gone, and that is on disk.
    TruncateStream {
        /// The virtual host.
        vhost: String,
        /// The stream.
        stream: String,
        /// Offsets below it are to go.
        before: u64,
    },
    /// A stream is to remember that a consumer has read nothing of it: true once that is on disk, false where it remembers
    /// nothing of that consumer, null where there is no such stream.
    ResetOffset {
        /// The virtual host.
        vhost: String,
        /// The stream.
        stream: String,
        /// What the consumer is called.
        reference: String,
    },
    /// Who publishes to a stream or reads it over the stream protocol is to come again: true once all have been told, false where
    /// there is no such stream.
    RestartStream {
        /// The virtual host.
        vhost: String,
        /// The stream.
        stream: String,
    },
    /// What there is to see of the node now: [`crate::top::Overview`].
    Top {
        /// Of what.
        asked: crate::top::Asked,
    },
    /// A [`Memory`].
    MemoryBreakdown,
    /// A list of [`ExchangeRow`].
    ListExchanges {
        /// The virtual host.
        vhost: String,
    },
    /// A list of [`PolicyRow`]; those that count less come first.
    ListPolicies {
        /// The virtual host.
        vhost: String,
        /// The operator's instead of the users'.
        is_operator: bool,
    },
    /// A list of [`PolicyRow`]: the users' whose patterns match, those that count most first; null where there is no such queue
    /// or exchange.
    MatchingPolicies {
        /// The virtual host.
        vhost: String,
        /// The name.
        name: String,
        /// It is an exchange's and no queue's.
        is_exchange: bool,
    },
    /// A list of [`LimitsRow`].
    ListUserLimits {
        /// The user; none: all who have any.
        user: Option<String>,
    },
    /// A list of [`LimitsRow`].
    ListVhostLimits {
        /// The virtual host; none: all that have any.
        vhost: Option<String>,
    },
    /// A list of [`UserRow`].
    ListUsers,
    /// A list of [`VhostRow`].
    ListVhosts,
    /// A list of [`PermissionRow`]: of a virtual host's users.
    ListPermissions {
        /// The virtual host.
        vhost: String,
    },
    /// A list of [`PermissionRow`]: of a user's virtual hosts.
    ListUserPermissions {
        /// The user.
        user: String,
    },
    /// A list of [`TopicPermissionRow`]: of a virtual host's users.
    ListTopicPermissions {
        /// The virtual host.
        vhost: String,
    },
    /// A list of [`TopicPermissionRow`]: of a user's virtual hosts.
    ListUserTopicPermissions {
        /// The user.
        user: String,
    },
    /// What the management HTTP API answers, asked in the node's own name: a [`Response`].
    Api {
        /// `GET`, `PUT`, ...
        method: String,
        /// The path, with its segments escaped, and perhaps a query: `/api/queues/%2F`.
        target: String,
        /// The body; empty: none.
        #[serde(default)]
        body: String,
        /// Why something is to end; what a client that is closed is told.
        #[serde(default)]
        reason: Option<String>,
    },
    /// An empty answer once it is so, and on disk.
    Change {
        /// What is to be.
        change: Change,
    },
}

/// What the HTTP API answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// As in HTTP.
    pub status: u16,
    /// Mostly JSON; empty where there is nothing to say.
    pub body: String,
}

/// What is to be of users, virtual hosts and policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// There is to be a user.
    AddUser {
        /// The name.
        user: String,
        /// In the clear; the socket is local and the user's own.
        password: String,
    },
    /// There is to be no such user.
    DeleteUser {
        /// The name.
        user: String,
    },
    /// A user logs in with another password.
    ChangePassword {
        /// The name.
        user: String,
        /// In the clear.
        password: String,
    },
    /// What a user is.
    SetUserTags {
        /// The name.
        user: String,
        /// All of its tags.
        tags: Vec<String>,
    },
    /// What a user may do in a virtual host.
    SetPermissions {
        /// The user.
        user: String,
        /// The virtual host.
        vhost: String,
        /// Expression over the names it may configure.
        configure: String,
        /// Expression over the names it may write to.
        write: String,
        /// Expression over the names it may read from.
        read: String,
    },
    /// A user may not come into a virtual host.
    ClearPermissions {
        /// The user.
        user: String,
        /// The virtual host.
        vhost: String,
    },
    /// Which topics of an exchange a user may publish to and bind.
    SetTopicPermissions {
        /// The user.
        user: String,
        /// The virtual host.
        vhost: String,
        /// The exchange.
        exchange: String,
        /// Expression over the keys it may publish with.
        write: String,
        /// Expression over the keys it may bind with.
        read: String,
    },
    /// A user may publish to and bind all topics.
    ClearTopicPermissions {
        /// The user.
        user: String,
        /// The virtual host.
        vhost: String,
        /// Of this exchange; none: of all.
        exchange: Option<String>,
    },
    /// There is to be a virtual host.
    AddVhost {
        /// The name.
        vhost: String,
        /// `classic`, `quorum`: the type of queues that are declared without one.
        #[serde(default)]
        default_queue_type: Option<String>,
        /// What it is for.
        #[serde(default)]
        description: String,
        /// Words to find it by.
        #[serde(default)]
        tags: Vec<String>,
    },
    /// Something else is to be said of a virtual host; what is not named stays.
    UpdateVhost {
        /// The name.
        vhost: String,
        /// What it is for.
        #[serde(default)]
        description: Option<String>,
        /// All words to find it by.
        #[serde(default)]
        tags: Option<Vec<String>>,
        /// `classic`, `quorum`: the type of queues that are declared without one.
        #[serde(default)]
        default_queue_type: Option<String>,
        /// It cannot be deleted.
        #[serde(default)]
        protected_from_deletion: Option<bool>,
    },
    /// There is to be no such virtual host.
    DeleteVhost {
        /// The name.
        vhost: String,
    },
    /// What a virtual host may have at most.
    SetVhostLimits {
        /// The name.
        vhost: String,
        /// All its limits, as a JSON object.
        definition: String,
    },
    /// What a user may have at most.
    SetUserLimits {
        /// The name.
        user: String,
        /// Those limits that change, as a JSON object.
        definition: String,
    },
    /// A user may have any number of something.
    ClearUserLimits {
        /// The name.
        user: String,
        /// Of what: `max-connections`, `max-channels`; `all`.
        limit: String,
    },
    /// What is published to and delivered from a virtual host is told at its exchange for that, or no longer.
    Trace {
        /// The virtual host.
        vhost: String,
        /// It is told.
        on: bool,
    },
    /// From how much memory publishers wait, until the node stops.
    SetMemoryLimit {
        /// A share of the memory there is, or `absolute` and bytes, with a unit or without.
        limit: String,
    },
    /// Below how much free disk publishers wait, until the node stops.
    SetDiskLimit {
        /// Bytes, with a unit or without, or `mem_relative` and a share of the memory there is.
        limit: String,
    },
    /// There is to be a policy.
    SetPolicy {
        /// The operator's instead of the users'.
        is_operator: bool,
        /// Its virtual host.
        vhost: String,
        /// Its name.
        name: String,
        /// Expression over the names it is for.
        pattern: String,
        /// `all`, `queues`, ...
        apply_to: String,
        /// Of several the highest counts.
        priority: i64,
        /// Keys and values, as a JSON object.
        definition: String,
    },
    /// There is to be no such policy.
    ClearPolicy {
        /// The operator's instead of the users'.
        is_operator: bool,
        /// Its virtual host.
        vhost: String,
        /// Its name.
        name: String,
    },
}

/// What is answered: the JSON of what [`Request`] promises, or why not.
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
    /// What it really is.
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
    /// Bytes by what they are for.
    pub memory: Memory,
    /// Bytes from which publishers are blocked.
    pub vm_memory_high_watermark_limit: u64,
    /// The setting that came from.
    pub vm_memory_high_watermark_setting: BTreeMap<String, f64>,
    /// Bytes of free disk below which publishers are blocked.
    pub disk_free_limit: u64,
    /// Bytes of free disk.
    pub disk_free: u64,
    /// How many there are of what.
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

/// How many there are of what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Open connections.
    pub connection_count: u64,
    /// Queues of all virtual hosts.
    pub queue_count: u64,
    /// Virtual hosts.
    pub virtual_host_count: u64,
}

/// Bytes of memory by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Everything: `rss`, as the kernel sees it; `erlang` and `allocated`, what pools account for without and with what is free.
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
    /// What it is set to; what is secret is not told.
    pub value: String,
    /// Where that is said.
    pub from: String,
}

/// What there is to tell of a queue, by the names that RabbitMQ's tools have for it.
pub const QUEUE_COLUMNS: &[&str] = &[
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
    "leader",
    "members",
    "online",
    "pid",
    "owner_pid",
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "messages_delayed",
    "consumers",
    "memory",
];

/// One delayed message.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DelayedRow {
    /// Its number in its queue.
    pub id: u64,
    /// When it is due, milliseconds since 1970.
    pub due_at: u64,
}

/// One user.
#[derive(Clone, Debug, Default, Serialize)]
pub struct UserRow {
    /// The name.
    pub user: String,
    /// What it is.
    pub tags: Vec<String>,
}

/// One virtual host.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VhostRow {
    /// The name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The type of queues that are declared without one.
    pub default_queue_type: String,
    /// It cannot be deleted.
    pub protected_from_deletion: bool,
    /// What happens to its messages is told at its exchange for that.
    pub tracing: bool,
    /// What is said of it, once more in one.
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// One exchange.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExchangeRow {
    /// Its name; empty: the default one.
    pub name: String,
    /// `direct`, `topic`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// Survives a restart.
    pub durable: bool,
    /// Goes with the last binding from it.
    pub auto_delete: bool,
    /// Clients may not publish to it.
    pub internal: bool,
    /// Declared with these.
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// The policy it obeys; empty: none.
    pub policy: String,
}

/// One policy.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyRow {
    /// Its virtual host.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// Expression over the names it is for.
    pub pattern: String,
    /// `all`, `queues`, ...
    pub apply_to: String,
    /// Keys and values, as a JSON object.
    pub definition: String,
    /// Of several the highest counts.
    pub priority: i64,
}

/// What a user or a virtual host may have at most.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LimitsRow {
    /// The user; empty for a virtual host's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The virtual host; empty for a user's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vhost: String,
    /// As a JSON object.
    pub limits: String,
}

/// What a user may do in a virtual host.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PermissionRow {
    /// The user.
    pub user: String,
    /// The virtual host.
    pub vhost: String,
    /// Expression over the names it may configure.
    pub configure: String,
    /// Expression over the names it may write to.
    pub write: String,
    /// Expression over the names it may read from.
    pub read: String,
}

/// What a user may do with the topics of an exchange.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TopicPermissionRow {
    /// The user.
    pub user: String,
    /// The virtual host.
    pub vhost: String,
    /// The exchange.
    pub exchange: String,
    /// Expression over the keys it may publish with.
    pub write: String,
    /// Expression over the keys it may bind with.
    pub read: String,
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
        check(
            Request::ListQueues { vhost: "/".into(), columns: vec!["name".into()] },
            r#"{"request":"list_queues","vhost":"/","columns":["name"]}"#,
        );
        let change = Change::DeleteVhost { vhost: "v".into() };
        check(Request::Change { change }, r#"{"request":"change","change":{"delete_vhost":{"vhost":"v"}}}"#);
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
