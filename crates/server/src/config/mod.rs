//! The configuration of the node: from `rabbitmq.conf`, `advanced.config`, the environment and the command line, later
//! ones winning, in one typed value.
//!
//! Reads nothing by itself: the environment and the files come in as functions, so that every rule is a row of a test.

mod absent;
mod advanced;
mod backends;
pub mod cluster;
pub mod defaults;
mod draft;
mod environment;
mod gate;
pub mod keys;
mod load;
pub mod log;
mod lookup;
pub mod network;
mod places;
mod secret;
pub mod stream;
pub mod syntax;
pub mod terms;
pub mod value;
mod verdict;

pub use draft::Draft;
pub use load::{Loaded, Sources, load};

use crate::allotment;
use crate::http::Files;
use broker::access::{Hashing, PasswordHash};
use broker::catalog::VhostDefaults;
use broker::ledger::LedgerLimits;
use cluster::Cluster;
use defaults::Defaults;
use log::LogOptions;
use management::{BrowsersSee, GateRules, WebSessionLimits};
use network::{ListenerKind, Network};
use std::path::PathBuf;
use stream::StreamOptions;
use syntax::{Origin, Setting};
use value::Address;

/// The port of AMQP without TLS.
const PORT: u16 = 5672;

/// The port of the stream protocol without TLS.
const PORT_STREAM: u16 = 5552;

/// The port of the management HTTP API.
const PORT_HTTP: u16 = 15672;

/// The port of the management HTTP API over TLS, where only an address was named.
const PORT_HTTP_TLS: u16 = 15671;

/// The port of metrics.
const PORT_METRICS: u16 = 15692;

/// The port of metrics over TLS, where only an address was named.
const PORT_METRICS_TLS: u16 = 15691;

/// The ports of WebSocket without TLS and with it, where only an address was named.
const PORT_WEB: u16 = 15678;
const PORT_WEB_TLS: u16 = 15677;

/// An amount, outright or as a share of the memory there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Bytes.
    Bytes(u64),
    /// A share of the machine's (or the container's) memory.
    Share(f64),
}

impl Limit {
    /// The bytes this is where there are `total` bytes of memory.
    pub fn of(self, total: u64) -> u64 {
        match self {
            Limit::Bytes(bytes) => bytes,
            Limit::Share(share) => (total as f64 * share) as u64,
        }
    }
}

/// Options of every accepted socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Connections the kernel keeps until they are accepted.
    pub backlog: u32,
    /// Whether the kernel probes silent peers.
    pub keepalive: bool,
    /// Bytes of the kernel's send buffer; `None`: as it likes.
    pub send_bytes: Option<u64>,
    /// Bytes of the kernel's receive buffer; `None`: as it likes.
    pub receive_bytes: Option<u64>,
}

/// The user that an empty node begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultUser {
    /// Its name.
    pub name: String,
    /// Its password, in the clear.
    pub password: String,
    /// The virtual host that is made with it.
    pub vhost: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Expression over the names it may configure.
    pub configure: String,
    /// Expression over the names it may write to.
    pub write: String,
    /// Expression over the names it may read from.
    pub read: String,
}

/// Caps on what is otherwise measured, from `advanced.config`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreditCaps {
    /// `max_incoming_window`: transfers a session may send ahead.
    pub incoming_window: Option<u32>,
    /// `max_link_credit`: transfers a sender's link may send ahead.
    pub link: Option<u32>,
}

/// Annotations that are written on incoming messages. None: not written; true: also over one of the publisher's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interceptors {
    /// The time at which they came.
    pub time: Option<bool>,
    /// The node's name.
    pub node: Option<bool>,
}

/// The configuration of the node; see the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// As in `rabbit@host`.
    pub node_name: String,
    /// The name of the cluster; `None`: the node's name.
    pub cluster_name: Option<String>,
    /// The cluster that it is a node of; `None`: it is alone.
    pub cluster: Option<Box<Cluster>>,
    /// Where it listens, and what is spoken there.
    pub listeners: Vec<(ListenerKind, Address)>,
    /// Where to listen though nobody asked for it: when that cannot be, the node goes without.
    pub if_free: Vec<(ListenerKind, Address)>,
    /// Bytes of the body of an HTTP request.
    pub http_body_bytes_max: u64,
    /// The origins, names and path of requests that the HTTP API lets in.
    pub gate: GateRules,
    /// Metrics tell of each object where nothing else is asked for.
    pub metrics_each: bool,
    /// The path of metrics, in its parts; none: `metrics`.
    pub metrics_path: Vec<String>,
    /// Settings of the stream protocol.
    pub stream: StreamOptions,
    /// Settings of TLS and WebSocket.
    pub network: Network,
    /// Options of every accepted socket.
    pub socket: SocketOptions,
    /// Milliseconds from connecting to an opened connection.
    pub handshake_timeout_ms: u64,
    /// The algorithm for passwords of users that name none.
    pub hashing: Hashing,
    /// Refused logins of one account that are tried in a second; none: any number.
    pub guesses_per_account: Option<u32>,
    /// The same from one address.
    pub guesses_per_address: Option<u32>,
    /// Seconds, offered to AMQP 0-9-1 clients; 0: none.
    pub heartbeat_s: u16,
    /// Bytes of a frame.
    pub frame_max: u32,
    /// Channels of an AMQP 0-9-1 connection.
    pub channel_max: u16,
    /// Connections open at once; none: any number.
    pub connection_max: Option<u32>,
    /// AMQP 0-9-1 channels open at once; none: any number.
    pub node_channels_max: Option<u32>,
    /// Virtual hosts; none: any number.
    pub vhosts_max: Option<u32>,
    /// Exchanges of all virtual hosts; none: any number.
    pub exchanges_max: Option<u32>,
    /// Queues of all virtual hosts; none: any number.
    pub queues_max: Option<u32>,
    /// Bytes of the compiled patterns of a virtual host's policies of a kind; none: any number.
    pub policy_patterns_bytes_max: Option<u32>,
    /// While the memory alarm holds, nothing is made that would be kept.
    pub alarm_refuses_growth: bool,
    /// A quorum queue may be declared again as a classic one.
    pub relaxes_types: bool,
    /// Consumers of one 0-9-1 channel; none: any number.
    pub channel_consumers_max: Option<u32>,
    /// How long a consumer of a quorum queue may hold a message, milliseconds, where nothing else says so.
    pub consumer_timeout_ms: u64,
    /// Queues that are neither durable nor exclusive may be declared over 0-9-1.
    pub permits_transient_queues: bool,
    /// A prefetch may be shared by the consumers of a 0-9-1 channel.
    pub permits_global_qos: bool,
    /// Addresses of the first version may be used over AMQP 1.0.
    pub permits_address_v1: bool,
    /// Sessions of an AMQP 1.0 connection.
    pub session_max: u16,
    /// Links of an AMQP 1.0 session.
    pub link_max: u32,
    /// Bytes of a message.
    pub message_bytes_max: u64,
    /// The user that an empty node begins with.
    pub default_user: DefaultUser,
    /// Defaults of new virtual hosts, the first included.
    pub vhost_defaults: Defaults,
    /// Users that may only connect from this machine.
    pub loopback_users: Vec<String>,
    /// SASL mechanisms that are offered.
    pub mechanisms: Vec<&'static str>,
    /// The user of clients that log in with ANONYMOUS; `None`: it is not offered.
    pub anonymous_user: Option<String>,
    /// The configuration says so: then it may be a user with tags.
    pub names_anonymous: bool,
    /// The password of that user, which must be right.
    pub anonymous_password: String,
    /// Memory in use from which publishers are blocked.
    pub memory_limit: Limit,
    /// Bytes of memory to count as all there is; `None`: ask the kernel.
    pub memory_total_bytes: Option<u64>,
    /// Free disk space below which publishers are blocked.
    pub disk_limit: Limit,
    /// Milliseconds between two looks at memory and disk.
    pub sample_interval_ms: u64,
    /// Where lines of the log go, and how they look.
    pub log: LogOptions,
    /// Whether a core file may be written when the node fails: messages, passwords and keys are in it.
    pub dumps_core: bool,
    /// Threads with connections and queues; `None`: one per core.
    pub shards: Option<u16>,
    /// Connections go to the shard of the queue they use.
    pub follows_queues: bool,
    /// Addresses and users have shares of what the HTTP API has.
    pub http_shares: bool,
    /// Where the files of the web interface come from.
    pub ui: Files,
    /// Bounds of the logins of browsers.
    pub web_sessions: WebSessionLimits,
    /// Parts of messages that browsers are shown.
    pub browsers_see: BrowsersSee,
    /// The part of the places for connections that one user may have; 1: all.
    pub user_connection_share: f64,
    /// Bytes of memory that a connection may hold: none said, or any number, or so many.
    pub connection_memory_max: Option<Option<u64>>,
    /// The part of the memory watermark that a user may hold beside others; `None`: any.
    pub user_memory_share: Option<f64>,
    /// The part of the memory watermark that a user may hold while no other is connected; `None`: any.
    pub lone_user_memory_share: Option<f64>,
    /// The part of the memory watermark that a virtual host may hold; `None`: any.
    pub vhost_memory_share: Option<f64>,
    /// Bytes of output that the clients of a user may leave unread together; `None`: any number.
    pub user_unread_max: Option<u64>,
    /// Logs of a new data folder; `None`: by the cores.
    pub logs: Option<u32>,
    /// Bytes of a journal file; `None`: the journal's default.
    pub journal_file_bytes: Option<u64>,
    /// Microseconds a flush may take to be done inside a shard's loop; 0: never.
    pub inline_flush_us: u64,
    /// Arguments of one object; inner none: any number; none: the broker's own bound.
    pub arguments_max: Option<Option<u32>>,
    /// Bytes of arguments of one object; inner none: any number; none: the broker's own bound.
    pub arguments_bytes_max: Option<Option<u64>>,
    /// Words of a topic exchange's pattern; inner none: any number; none: the broker's own bound.
    pub topic_words_max: Option<Option<u32>>,
    /// Different filters of the bindings of an exchange; inner none: any number; none: the broker's own bound.
    pub exchange_filters_max: Option<Option<u32>>,
    /// Bytes of them on each shard; inner none: any number; none: the broker's own bound.
    pub exchange_filters_bytes_max: Option<Option<u64>>,
    /// Bytes of the name of an AMQP 1.0 link; inner none: as many as a frame has; none: the protocol's own bound.
    pub link_name_bytes_max: Option<Option<u64>>,
    /// Steps that routing one message may take; `None`: the broker's default.
    pub route_steps_max: Option<u32>,
    /// Units of work of one turn for one transaction; `None`: the adapters' default.
    pub transaction_work_max: Option<u32>,
    /// Units of work that a turn of a shard has at most for commands that are dear; `u32::MAX`: any number.
    pub turn_work_max: u32,
    /// Bytes of files the data folder is made to have room for; for tests of full disks. `None`: what the device has.
    pub test_disk_bytes: Option<u64>,
    /// Microseconds every read for a delivery is made to take longer; for measurements of slow disks.
    pub test_read_delay_us: u64,
    /// Microseconds every sync is made to take; for measurements of slow disks.
    pub test_sync_delay_us: u64,
    /// Caps on adaptive credit.
    pub credit: CreditCaps,
    /// Annotations that are written on incoming messages.
    pub interceptors: Interceptors,
    /// The settings that have an effect, as they came; of several of one key the last counts.
    pub settings: Vec<(String, String)>,
    /// Files it was read from.
    pub files: Vec<PathBuf>,
    /// Where to write the process id.
    pub pid_file: Option<PathBuf>,
    /// Warnings of settings that were accepted without effect, for the log.
    pub warnings: Vec<String>,
    /// Every setting that was read, in the order of reading; a later one of a key wins.
    pub shown: Vec<ShownSetting>,
    /// Definitions to be imported before any client is served.
    pub definitions: Definitions,
}

/// The place of settings of `--set`.
const COMMAND_LINE: &str = "command line";

/// A setting that was read, as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSetting {
    /// As in `rabbitmq.conf`.
    pub key: String,
    /// The value; stars for a secret.
    pub value: String,
    /// Where.
    pub from: String,
}

impl ShownSetting {
    fn new(setting: &Setting) -> ShownSetting {
        let is_secret = ["pass", "secret", "token"].iter().any(|word| setting.key.contains(word))
            && !setting.key.starts_with("password_hashing");
        let is_secret = is_secret || setting.is_secret || setting.key == cluster::COOKIE;
        let value = if is_secret { "********".to_owned() } else { setting.value.clone() };
        let from = match &setting.origin {
            Origin::CommandLine => COMMAND_LINE.to_owned(),
            origin => origin.place(&setting.key),
        };
        ShownSetting { key: setting.key.clone(), value, from }
    }

    /// A complaint about it, with its place.
    pub fn placed(&self, why: &str) -> String {
        match self.from == COMMAND_LINE {
            true => format!("--set {}: {why}", self.key),
            false => format!("{}: {why}", self.from),
        }
    }
}

/// Definitions that are imported when the node starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    /// Files of JSON, and folders of such files.
    pub paths: Vec<PathBuf>,
    /// Files that this node has imported before, byte for byte the same, are not imported again.
    pub skips_unchanged: bool,
}

impl Config {
    /// The name of the cluster: the one that was given, or that of its first node, as RabbitMQ has it.
    pub fn cluster_called(&self) -> &str {
        let first = || self.cluster.as_deref().and_then(|cluster| cluster.members.first());
        let given = self.cluster_name.as_deref();
        given.or_else(|| first().map(|(name, _)| name.as_str())).unwrap_or(&self.node_name)
    }

    /// The defaults, on a machine of this name.
    pub(crate) fn new(host: &str) -> Config {
        let host = host.split('.').next().filter(|host| !host.is_empty()).unwrap_or("localhost");
        Config {
            data_dir: "leveret-data".into(),
            node_name: format!("rabbit@{host}"),
            cluster_name: None,
            cluster: None,
            listeners: vec![(ListenerKind::Amqp, Address { ip: None, port: PORT })],
            if_free: Vec::new(),
            http_body_bytes_max: management::Limits::default().body_bytes_max as u64,
            gate: GateRules::default(),
            metrics_each: false,
            metrics_path: Vec::new(),
            stream: StreamOptions::default(),
            network: Network::default(),
            socket: SocketOptions { backlog: 128, keepalive: false, send_bytes: None, receive_bytes: None },
            handshake_timeout_ms: 10_000,
            hashing: Hashing::default(),
            guesses_per_account: Some(1),
            guesses_per_address: Some(5),
            heartbeat_s: 60,
            frame_max: 131_072,
            channel_max: 2047,
            connection_max: None,
            node_channels_max: None,
            vhosts_max: None,
            exchanges_max: None,
            queues_max: None,
            policy_patterns_bytes_max: Some(1 << 20),
            alarm_refuses_growth: true,
            relaxes_types: false,
            channel_consumers_max: None,
            consumer_timeout_ms: 1_800_000,
            permits_transient_queues: true,
            permits_global_qos: false,
            permits_address_v1: false,
            session_max: 64,
            link_max: 256,
            message_bytes_max: 16_777_216,
            default_user: DefaultUser {
                name: "guest".into(),
                password: "guest".into(),
                vhost: "/".into(),
                tags: vec!["administrator".into()],
                configure: ".*".into(),
                write: ".*".into(),
                read: ".*".into(),
            },
            vhost_defaults: Defaults::default(),
            loopback_users: vec!["guest".into()],
            mechanisms: vec!["PLAIN", "AMQPLAIN", "ANONYMOUS"],
            anonymous_user: Some("guest".into()),
            names_anonymous: false,
            anonymous_password: "guest".into(),
            memory_limit: Limit::Share(0.6),
            memory_total_bytes: None,
            disk_limit: Limit::Bytes(50_000_000),
            sample_interval_ms: 1000,
            log: LogOptions::default(),
            dumps_core: false,
            shards: None,
            follows_queues: true,
            http_shares: true,
            ui: Files::default(),
            web_sessions: WebSessionLimits::default(),
            browsers_see: BrowsersSee::default(),
            user_connection_share: 0.5,
            connection_memory_max: None,
            user_memory_share: Some(LedgerLimits::USER_SHARE),
            lone_user_memory_share: Some(LedgerLimits::LONE_USER_SHARE),
            vhost_memory_share: None,
            user_unread_max: Some(LedgerLimits::USER_UNREAD_MAX),
            logs: None,
            journal_file_bytes: None,
            inline_flush_us: 200,
            arguments_max: None,
            arguments_bytes_max: None,
            topic_words_max: None,
            exchange_filters_max: None,
            exchange_filters_bytes_max: None,
            link_name_bytes_max: None,
            route_steps_max: None,
            transaction_work_max: None,
            turn_work_max: allotment::MOST,
            test_disk_bytes: None,
            test_read_delay_us: 0,
            test_sync_delay_us: 0,
            credit: CreditCaps::default(),
            interceptors: Interceptors::default(),
            settings: Vec::new(),
            files: Vec::new(),
            pid_file: None,
            warnings: Vec::new(),
            shown: Vec::new(),
            definitions: Definitions::default(),
        }
    }
}

impl Config {
    /// Gives the node a name; without `@` and what follows it is on this machine.
    fn name_node(&mut self, name: &str) {
        let host = self.node_name.split_once('@').map(|(_, host)| host.to_owned()).unwrap_or_default();
        self.node_name = if name.contains('@') { name.to_owned() } else { format!("{name}@{host}") };
    }
}

impl Config {
    /// The file that lines of the log go to.
    pub fn log_file(&self) -> Option<PathBuf> {
        let folder = self.log.folder.clone().unwrap_or_else(|| self.data_dir.join("log"));
        self.log.file.as_ref().map(|file| folder.join(file))
    }

    /// A complaint with the place of the key that it is about: the first that it names, of those that are set, or else one of
    /// these families.
    pub fn placed(&self, why: &str, families: &[&str]) -> String {
        let is_of = |shown: &ShownSetting, key: &str| {
            shown.key.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut named = why.split(' ').filter(|word| word.contains('.')).chain(families.iter().copied());
        let setting = named.find_map(|key| self.shown.iter().rev().find(|shown| is_of(shown, key)));
        setting.map_or_else(|| why.to_owned(), |setting| setting.placed(why))
    }

    /// The defaults of a virtual host of this name. As with RabbitMQ's plugin, events are published in the one that an
    /// empty node begins with, also where definitions make it. `hash` makes one of each password.
    pub fn defaults_of_vhost(&self, name: &str, hash: &mut dyn FnMut(&str) -> PasswordHash) -> VhostDefaults {
        VhostDefaults { tells_events: name == self.default_user.vhost, ..self.vhost_defaults.of(name, hash) }
    }
}

#[cfg(test)]
mod tests;
