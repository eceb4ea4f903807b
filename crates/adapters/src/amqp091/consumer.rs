//! A consumer of a connection, or the placeholder for a channel's gets from a queue.

use ::amqp091::DeliverPrefix;
use broker::ConsumerRef;
use broker::catalog::QueueType;
use routing::Arguments;

/// Kind of a consumer, with the prefix of its deliveries where it has one.
#[derive(Debug)]
pub(super) enum Kind {
    /// Consumer of a queue.
    Plain(DeliverPrefix),
    /// Consumer of direct replies: it is of no queue, and its `at` means nothing.
    Reply(DeliverPrefix),
    /// Consumer whose deliveries say their positions in the queue.
    Telling(DeliverPrefix),
    /// Consumer that shares a prefetch with others of its channel, which keeps its prefix.
    Shared,
    /// Placeholder for a channel's gets from a queue: it is given nothing by itself.
    Getter,
}

/// A consumer of the connection, or the placeholder for a channel's gets from a queue.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) channel: u16,
    pub(super) at: ConsumerRef,
    pub(super) kind: Kind,
    pub(super) no_ack: bool,
    /// Its own prefetch; 0: none.
    pub(super) prefetch: u16,
    /// The client cancelled it; it may still hold something.
    pub(super) is_cancelled: bool,
    /// Once it is cancelled: none of the deliveries it may still hold has a later tag.
    pub(super) newest: u64,
    /// It is the queue's only one.
    pub(super) exclusive: bool,
    /// Its queue's type; none: it takes direct replies.
    pub(super) of: Option<QueueType>,
    /// How long it has its messages, milliseconds, where that has an end.
    pub(super) lease_ms: Option<u64>,
    /// The arguments it was declared with, if any.
    pub(super) arguments: Option<Box<Arguments>>,
    /// Deliveries it was sent.
    pub(super) delivered: u64,
    /// Those of them that it had been handed before, that it accepted, and that it got settled.
    pub(super) again: u64,
    pub(super) accepted: u64,
    pub(super) got_settled: u64,
}

impl Consumer {
    /// See [`Kind::Getter`].
    pub(super) fn is_getter(&self) -> bool {
        matches!(self.kind, Kind::Getter)
    }

    /// See [`Kind::Reply`].
    pub(super) fn is_reply(&self) -> bool {
        matches!(self.kind, Kind::Reply(_))
    }

    /// See [`Kind::Shared`].
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Shared)
    }

    /// A plain consumer shares a prefetch from now on: its prefix, for the channel to keep. Others stay as they are.
    pub(super) fn share(&mut self) -> Option<DeliverPrefix> {
        match std::mem::replace(&mut self.kind, Kind::Shared) {
            Kind::Plain(prefix) => Some(prefix),
            other => {
                self.kind = other;
                None
            }
        }
    }
}
