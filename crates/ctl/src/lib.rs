//! Command-line administration: the questions of `leveret ctl`, `rabbitmqctl` and `rabbitmq-diagnostics` to a running
//! node.
//!
//! Both sides of one conversation over a local socket: [`client`] with its words ([`command`]) and its ways to show an
//! answer ([`show`]), and [`server`], which knows no broker: it hands [`Request`]s to a function and sends back that
//! function's answer. Not remote: a user that can open the socket may do everything.

pub mod admin;
mod change;
mod check;
pub mod client;
mod cluster_status;
mod columns;
pub mod command;
mod delayed;
mod diagnose;
mod former;
mod groups;
mod help;
mod lifecycle;
mod limits;
mod listing;
mod objects;
mod options;
mod place;
mod plugins;
mod progress;
mod queues;
mod reports;
pub mod request;
pub mod secret;
mod secrets;
pub mod server;
mod session;
pub mod shells;
pub mod show;
mod streaming;
mod terms;
pub mod top;
mod users;
mod vhosts;

pub use request::{Answer, Listener, Memory, Refusal, Request, Response, SettingRow, Status, Totals};

/// Bounds of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request, line end included.
    pub request_bytes_max: usize,
    /// Bytes of an answer, line end included.
    pub answer_bytes_max: u64,
    /// Milliseconds either side waits for the other's next bytes.
    pub silence_ms_max: u64,
    /// Milliseconds between two signs that an answer is being worked on.
    pub sign_ms: u64,
    /// Conversations at once; further ones wait.
    pub conversations_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request_bytes_max: 64 << 20,
            answer_bytes_max: 1 << 30,
            silence_ms_max: 60_000,
            sign_ms: 5_000,
            conversations_max: 8,
        }
    }
}

/// The state of a node that serves.
pub const RUNNING: &str = "running";

/// The state of a node that was stopped but for its process.
pub const STOPPED: &str = "stopped";

/// The version that the tools give as theirs: the one of RabbitMQ whose tools these are like.
pub(crate) const TOOL_VERSION: &str = base::rabbitmq::VERSION;

/// Exit codes of the tools, after `sysexits.h` as RabbitMQ's are.
pub mod exit {
    /// Done.
    pub const OK: u8 = 0;
    /// The command line cannot be used.
    pub const USAGE: u8 = 64;
    /// The object of the request is not there, or not in order.
    pub const DATA: u8 = 65;
    /// The user is not there.
    pub const NO_USER: u8 = 67;
    /// The node cannot be reached, or a check failed.
    pub const UNAVAILABLE: u8 = 69;
    /// The node's answer makes no sense.
    pub const SOFTWARE: u8 = 70;
    /// It did not happen in time; it may later.
    pub const TEMPORARY: u8 = 75;
}
