//! The command line of `leveret bench`.

use crate::scenario::Scenario;
use crate::uri::Uri;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// A client protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// AMQP 0-9-1.
    Amqp091,
    /// AMQP 1.0.
    Amqp10,
    /// The stream protocol.
    Stream,
}

/// A queue type, as `x-queue-type` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueType {
    /// A classic queue.
    Classic,
    /// A quorum queue.
    Quorum,
    /// A stream.
    Stream,
}

impl QueueType {
    /// The value of `x-queue-type`.
    pub fn name(self) -> &'static str {
        match self {
            QueueType::Classic => "classic",
            QueueType::Quorum => "quorum",
            QueueType::Stream => "stream",
        }
    }
}

/// The transport of a connection's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// TLS.
    Tls,
    /// WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
    /// TCP, on the port of the stream protocol.
    #[value(skip)]
    Stream,
}

impl Transport {
    /// All that carry AMQP.
    pub const ALL: [Transport; 4] = [Transport::Tcp, Transport::Ws, Transport::Tls, Transport::Wss];

    /// Whether there is TLS in it.
    pub fn is_secure(self) -> bool {
        matches!(self, Transport::Tls | Transport::Wss)
    }

    /// Whether there is WebSocket in it.
    pub fn is_web(self) -> bool {
        matches!(self, Transport::Ws | Transport::Wss)
    }

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "TCP",
            Transport::Tls => "TLS",
            Transport::Ws => "WebSocket",
            Transport::Wss => "WebSocket over TLS",
            Transport::Stream => "stream",
        }
    }
}

/// Where the parties' connections land in a broker that hands them to its shards in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// As they come.
    Any,
    /// Publisher, queue and consumer on one shard: idle connections are opened in between.
    Same,
    /// Queue, publisher and consumer on successive shards.
    Spread,
}

/// The value of a queue's argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A whole number.
    Number(i64),
    /// Yes or no.
    Bool(bool),
    /// Anything else.
    Text(String),
}

fn argument(text: &str) -> Result<(String, Argument), String> {
    let (key, value) = text.split_once('=').ok_or("it has no '='")?;
    if key.is_empty() || key.len() > 255 {
        return Err("its name has 1 to 255 bytes".to_owned());
    }
    let value = match (value.parse(), value) {
        (Ok(number), _) => Argument::Number(number),
        (_, "true") => Argument::Bool(true),
        (_, "false") => Argument::Bool(false),
        _ => Argument::Text(value.to_owned()),
    };
    Ok((key.to_owned(), value))
}

/// Puts a load on a broker and measures it.
///
/// Without --uri it starts a broker of its own on free ports and a temporary folder. Every message is checked: the exit
/// code is 1 when one was lost, doubled or out of order.
#[derive(Args, Clone, Debug)]
pub struct Bench {
    /// Which load.
    pub scenario: Scenario,
    /// The broker to aim at: amqp://user:password@host:port/vhost, or amqps, ws, wss for TLS and WebSocket (at path
    /// /ws; the text behind the port is the virtual host). Certificates are not verified
    #[arg(long)]
    pub uri: Option<Uri>,
    /// The port on which the broker of --uri speaks the stream protocol
    #[arg(long, requires = "uri", default_value_t = 5552)]
    pub stream_port: u16,
    /// The address of `tenants`' tenant at the broker of --uri, with a user of its own, as for --uri over plain TCP
    #[arg(long, requires = "uri")]
    pub tenant: Option<Uri>,
    /// Connections of the tenant of `tenants`
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub tenant_connections: u32,
    /// Process id of the broker (on this machine): adds its CPU time and memory; of all nodes of a cluster, their sum
    #[arg(long, requires = "uri", value_delimiter = ',', value_name = "PID")]
    pub broker_pid: Vec<u32>,
    /// The addresses of the other nodes of the cluster of --uri, for `cluster-quorum`
    #[arg(long, requires = "uri", value_delimiter = ',', value_name = "URI")]
    pub nodes: Vec<Uri>,
    /// How often `cluster-quorum` kills the node that leads the queue: 3 of its own nodes; with --uri none, or once, the process
    /// that --broker-pid names first
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub kills: Option<u32>,
    /// One more setting of the broker that is started, as for `leveret server`
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "uri")]
    pub settings: Vec<String>,
    /// The transports to the broker that is started; several are measured one after the other
    #[arg(long, value_delimiter = ',', conflicts_with = "uri")]
    pub transport: Vec<Transport>,
    /// The binary to start the broker from, instead of this one
    #[arg(long, conflicts_with = "uri")]
    pub broker_binary: Option<PathBuf>,
    /// The folder in which the broker's temporary data folder is made, and which is probed; the system's temporary
    /// folder where not given
    #[arg(long)]
    pub folder: Option<PathBuf>,
    /// Messages to publish, over all publishers; connections to open in `connections`
    #[arg(long, short = 'n')]
    pub messages: Option<u64>,
    /// Bytes of a body, at least 12; several values are measured one after the other
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(12..=64 << 20))]
    pub size: Vec<u32>,
    /// Messages a publisher may have unconfirmed; 0: publish without confirms (0-9-1), as much as the broker gives
    /// credit for (1.0)
    #[arg(long)]
    pub confirm_window: Option<u32>,
    /// AMQP 0-9-1: messages a consumer may have unacknowledged; 0: no bound
    #[arg(long)]
    pub prefetch: Option<u32>,
    /// AMQP 1.0: credit of a consumer's link
    #[arg(long)]
    pub credit: Option<u32>,
    /// Messages settled at a time
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub ack_every: Option<u32>,
    /// Publishing connections; several values are measured one after the other
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub publishers: Vec<u32>,
    /// Consuming connections
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub consumers: Option<u32>,
    /// Messages of a chunk in `stream-small-chunks`; several values are measured one after the other
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub chunks: Vec<u32>,
    /// Bytes of chunks written for each cell of `stream-small-chunks` (32 MiB), for `stream-large` (20 GB) and for
    /// `stream-replay` (4 GB)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub bytes: Option<u64>,
    /// Readers of `stream-fan-out` and `stream-replay`; several values are measured one after the other
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub readers: Vec<u32>,
    /// Queues; several values are measured one after the other
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub queues: Vec<u32>,
    /// Messages published per second, over all publishers
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// Seconds that `flat-memory` lasts (180), of which memory has 20 to settle, that `backlog-drain` builds its backlog
    /// (60), and that each run of `tenants` lasts (30)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: Option<u32>,
    /// One more argument of the queues, as x-message-ttl=600000: a whole number, true, false or else a text
    #[arg(long = "argument", value_name = "KEY=VALUE", value_parser = argument)]
    pub arguments: Vec<(String, Argument)>,
    /// Priorities of messages: 0 up to one less than this, in turn
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub priorities: Option<u32>,
    /// Messages the publishers may be ahead of the consumers; no bound where not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub lead: Option<u64>,
    /// Protocol, in scenarios that do not name theirs
    #[arg(long)]
    pub protocol: Option<Protocol>,
    /// Queue type, in scenarios that do not name theirs
    #[arg(long)]
    pub queue_type: Option<QueueType>,
    /// Measure each case so often; the median by CPU per message (by rate where that is not known) is told
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Runs of each case in front, not counted
    #[arg(long, default_value_t = 0)]
    pub warmup_runs: u32,
    /// Where the connections land
    #[arg(long, value_enum, default_value_t = Placement::Any)]
    pub placement: Placement,
    /// Shards of the broker, for --placement; its default is one per processor
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub shards: Option<u32>,
    /// Publish transient messages, not durable ones
    #[arg(long)]
    pub transient: bool,
    /// Name of the queue, or how the names of the queues begin, instead of leveret-bench. Such a queue may exist: it is
    /// emptied first and left behind
    #[arg(long)]
    pub queue: Option<String>,
    /// Leave the queues, and the started broker's data folder, behind
    #[arg(long)]
    pub keep: bool,
    /// One client thread for publishers and consumers together, instead of one each
    #[arg(long)]
    pub one_thread: bool,
    /// Processes that hold the connections of `connections`; with 1 it is this one
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: u32,
    /// Holds connections for another load generator, which talks over standard input and output
    #[arg(long, hide = true, requires = "uri", requires = "protocol", requires = "messages")]
    pub follow: bool,
    /// Threads of each process that holds connections of `connections`
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub client_threads: u32,
    /// Heartbeat asked for in `connections`, seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub heartbeat: u16,
    /// Seconds the connections of `connections` are held idle
    #[arg(long, default_value_t = 60)]
    pub idle_seconds: u32,
    /// A run without any progress for so many seconds is given up
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub stall_seconds: u32,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

impl Bench {
    /// The folder in which data folders are made.
    pub fn parent(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_a_type_each() {
        let check = |text: &str, key: &str, value: Argument| {
            assert_eq!(argument(text), Ok((key.to_owned(), value)), "{text}");
        };
        check("x-message-ttl=600000", "x-message-ttl", Argument::Number(600_000));
        check("x-single-active-consumer=true", "x-single-active-consumer", Argument::Bool(true));
        check("x-overflow=drop-head", "x-overflow", Argument::Text("drop-head".to_owned()));
        check("a=b=c", "a", Argument::Text("b=c".to_owned()));
        assert!(argument("x-max-priority").is_err());
        assert!(argument("=1").is_err());
    }
}
