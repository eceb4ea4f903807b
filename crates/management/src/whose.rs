//! The object that counters are of.

use base::id::QueueId;
use broker::ConnectionId;
use broker::catalog::VhostId;
use routing::ExchangeId;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// The node: messages, then churn, then lengths of queues.
    Node,
    /// The node's use of the machine: see [`crate::figures()`].
    Machine,
    /// The node's durations: see [`crate::durations()`].
    Durations,
    /// A virtual host: messages, then bytes, then lengths of queues.
    Vhost(VhostId),
    /// An exchange: messages in and out.
    Exchange(ExchangeId),
    /// A queue: messages, then its lengths.
    Queue(QueueId),
    /// A connection: bytes received and sent.
    Connection(ConnectionId),
    /// A channel: messages.
    Channel(ConnectionId, u16),
}
