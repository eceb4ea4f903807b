//! Mail between shards: a whole turn's worth at once, in order, never a message alone.

use crate::catalog::{Actor, Change, Op, Refusal};
use crate::connection_limits::Unit;
use crate::dead_lettering::DeadLettering;
use crate::event::Events;
use crate::event_exchange::Announcement;
use crate::reading::{ReadBytes, ReadRequest};
use crate::reply::{Replies, ReplyAddress};
use crate::request::{QueueCommand, Reply};
use base::Buffer;
use base::id::{LogId, LogIndex, PortId, QueueId, ShardId};
use routing::ExchangeId;
use std::any::Any;
use std::sync::Arc;
use stream_files::StreamDone;

/// Publishes `first..=last` of one publisher, which wait for records of a batch to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The publisher's connection.
    pub port: PortId,
    /// The publisher's handle.
    pub publisher: u32,
    /// The first publish.
    pub first: u64,
    /// The last publish.
    pub last: u64,
}

impl Waiter {
    /// The waiter of a single publish.
    #[inline]
    pub(crate) fn one((port, publisher, seq): (PortId, u32, u64)) -> Waiter {
        Waiter { port, publisher, first: seq, last: seq }
    }

    /// A shard itself waits.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.port.slot == OWN_SLOT
    }
}

/// The slot of the port under which a shard itself publishes; no connection has it.
const OWN_SLOT: u32 = u32::MAX;

/// The port under which `shard` publishes.
pub(crate) fn own_port(shard: ShardId) -> PortId {
    PortId::here(shard, OWN_SLOT, 0)
}

/// Adds a waiter to those of a batch; one that continues the last is merged with it.
#[inline]
pub(crate) fn wait(waiters: &mut Vec<Waiter>, waiter: Waiter) {
    if let Some(last) = waiters.last_mut()
        && last.last + 1 == waiter.first
        && last.publisher == waiter.publisher
        && last.port == waiter.port
    {
        last.last = waiter.last;
        return;
    }
    waiters.push(waiter);
}

/// The address of the answer to a request.
#[derive(Clone, Debug)]
pub struct Answering {
    /// The connection.
    pub port: PortId,
    /// The token it gave.
    pub token: u32,
    /// The reply, where the planner cannot know it.
    pub instead: Option<Reply>,
}

/// Bytes that a connection is charged for, or that are given back to it, as they wait for other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// How many more, or fewer.
    pub bytes: i64,
    /// Commands of its are among them: its publishes wait where there is too much, and those do not.
    pub is_asked: bool,
}

/// The outcome of a publish of the broker's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is on disk.
    Safe,
    /// A queue was full for it.
    Refused,
    /// Its log was stopped while it was on its way.
    Stopped,
}

/// The word of a log about publishes `first..=last` of the shard's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) fate: Fate,
}

/// A log on its way to another shard. Mail knows it as a box: what a log is made of is above it.
#[derive(Debug)]
pub struct Handed(Box<dyn Any + Send>);

impl Handed {
    /// Something on its way, which is to be opened as what it is.
    pub(crate) fn seal<T: Any + Send>(what: Box<T>) -> Handed {
        Handed(what)
    }

    /// The log that [`Handed::seal`] was given.
    ///
    /// # Panics
    /// When it was something else.
    pub(crate) fn open<T: Any>(self) -> Box<T> {
        self.0.downcast().expect("it is opened as what it is")
    }
}

/// One piece of mail.
#[derive(Debug)]
pub enum Mail {
    /// Records for a log of the addressee's, and the publishes that wait for them.
    Append {
        /// The sender.
        from: ShardId,
        /// The log.
        log: LogId,
        /// Whole records.
        records: Buffer,
        /// The publishes that wait for the commit.
        waiters: Vec<Waiter>,
        /// Somebody waits for the disk.
        needs_flush: bool,
    },
    /// One message for a log of the addressee's, some of whose queues may refuse it.
    Ask {
        /// The sender.
        from: ShardId,
        /// The log.
        log: LogId,
        /// The record.
        record: Buffer,
        /// The publishes that wait for the commit.
        waiter: Option<Waiter>,
        /// Somebody waits for the disk.
        needs_flush: bool,
    },
    /// A message went through exchanges that remember: for the shard that plans.
    Remember {
        /// The sender.
        from: ShardId,
        /// The exchanges.
        exchanges: Vec<ExchangeId>,
        /// The message, as a record for no queue.
        record: Buffer,
    },
    /// Something happened that is to be announced: for the shard that plans.
    Announce(Announcement),
    /// Messages for reply consumers of the addressee's connections.
    Replies {
        /// The sender.
        from: ShardId,
        /// The messages.
        replies: Replies,
    },
    /// A connection asks whether a reply consumer of the addressee's is there.
    ReplyAsked {
        /// The connection.
        port: PortId,
        /// For the answer.
        token: u32,
        /// Which one.
        address: ReplyAddress,
        /// The answer when it is not.
        missing: Box<Refusal>,
    },
    /// A connection or channel opened, or asks whether it may: for the shard that plans.
    Came {
        /// The user and virtual host it counts for.
        actor: Actor,
        /// A connection or a channel.
        unit: Unit,
        /// The port to answer, and the token of the answer; none: it was not held up.
        asked: Option<(PortId, u32)>,
    },
    /// A connection or channel is gone, one that was refused included.
    Left {
        /// The user and virtual host it counts for.
        actor: Actor,
        /// A connection or a channel.
        unit: Unit,
    },
    /// So many bytes of records that the addressee sent are taken in, and more are welcome.
    Taken {
        /// How many.
        bytes: usize,
        /// The memory some of them came in, emptied: the next go in it.
        buffer: Option<Buffer>,
    },
    /// A connection's command for a queue of the addressee's.
    Queue {
        /// The log the queue is placed on.
        log: LogId,
        /// The queue.
        queue: QueueId,
        /// The connection.
        port: PortId,
        /// The command.
        command: QueueCommand,
    },
    /// A connection's request to change the catalog, for the shard that plans.
    Plan {
        /// The actor that asks for it.
        actor: Actor,
        /// The address of the answer, where one is wanted.
        answer: Option<Answering>,
        /// The request.
        op: Box<Op>,
        /// The logs that are led where it comes from, if nodes agree on the catalog.
        led: Box<[LogId]>,
    },
    /// A connection is to be answered once this node's copy of the catalog is no older than the question: for the shard that
    /// plans.
    LookAgain {
        /// The connection.
        port: PortId,
        /// For the answer.
        token: u32,
    },
    /// The answer of a log of the sender's to publishes of the addressee's own.
    Answered {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
        /// Their outcome, the same for all.
        fate: Fate,
    },
    /// Changes of the catalog, in order.
    Changes {
        /// Counts the messages of this kind.
        number: u64,
        /// The catalog's log is applied up to here with them, where nodes agree on it.
        end: LogIndex,
        /// The changes.
        changes: Arc<[Change]>,
    },
    /// The changes of this number, or some of them, have taken effect at the sender, and what follows may rest on them.
    Reached {
        /// The number.
        number: u64,
    },
    /// Connections of the addressee's are charged for what logs of the sender's keep of theirs for other nodes.
    Charges {
        /// Which, and for how much.
        charges: Vec<(PortId, Charge)>,
    },
    /// The changes of this number were applied by the sender.
    ChangesSeen {
        /// The number.
        number: u64,
    },
    /// A log of the sender's holds damage, and nothing is taken from it or put into it any more.
    Stopped {
        /// The log.
        log: LogId,
    },
    /// A read ended for a log that went to the addressee meanwhile.
    Loaded(Box<(ReadRequest, Vec<Option<ReadBytes>>)>),
    /// A job for a stream ended whose log went to the addressee meanwhile.
    Streamed(Box<StreamDone>),
    /// All logs have answered for a dead letter of a queue whose log went to the addressee meanwhile.
    DeadLettered(Box<DeadLettering>),
    /// Others agree on the records of a log, which went to the addressee meanwhile, up to here: see
    /// [`crate::Shard::commit_outside`].
    Agreed {
        /// The log.
        log: LogId,
        /// The end of what is agreed on.
        end: LogIndex,
    },
    /// A log goes to a shard, see [`crate::Shard::move_log`]: from the shard that plans, between two waves of changes.
    Leaves {
        /// The log.
        log: LogId,
        /// The shard.
        to: ShardId,
    },
    /// The sender pens what it has for a log that leaves the addressee: nothing more comes.
    Penned {
        /// The log.
        log: LogId,
    },
    /// A log that goes to the addressee.
    Handed(Handed),
    /// A log has gone to a shard, and all its events so far have been sent; or it stays with the sender.
    Follow {
        /// The log.
        log: LogId,
        /// The shard.
        at: ShardId,
    },
    /// The sender has had all events of a log from the shard that it left, if it left one: what it has for it comes to the
    /// addressee.
    Followed {
        /// The log.
        log: LogId,
    },
    /// A log is at home at the sender's: for the shard that plans.
    Arrived {
        /// The log.
        log: LogId,
        /// The sender.
        at: ShardId,
    },
    /// Events for connections of the addressee's.
    Events(Box<Events>),
}

impl Mail {
    /// The log that it goes into, or asks something of.
    pub(crate) fn log(&self) -> Option<LogId> {
        match self {
            Mail::Append { log, .. }
            | Mail::Ask { log, .. }
            | Mail::Queue { log, .. }
            | Mail::Agreed { log, .. } => Some(*log),
            Mail::Loaded(loaded) => Some(loaded.0.log),
            Mail::Streamed(done) => Some(done.log),
            Mail::DeadLettered(dead_lettering) => Some(dead_lettering.log),
            _ => None,
        }
    }
}
