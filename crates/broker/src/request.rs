//! Requests of a connection to queues, wherever they live, and the answers to all requests.

use crate::catalog::QueueDefinition;
use crate::placed::queue::modified::Modified;
use crate::placed::stream::{StreamCommand, StreamReply};
use crate::selector::Selector;
use base::id::{LogId, QueueId, QueueSeq, ShardId};
use message::record::{Outcome, SeqRange};
use std::sync::Arc;

/// How logs are spread over shards when a node starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Shards of this node, at least 1.
    pub shards: u16,
    /// Logs of this node, the catalog's included, at least 1.
    pub logs: u32,
}

impl Placement {
    /// The log in memory of `shard`: where its transient queues are. Its number follows those on disk.
    pub fn memory_log(&self, shard: ShardId) -> LogId {
        LogId(self.logs + u32::from(shard.0))
    }

    /// The shard that has `log` at first.
    pub fn owner_at_start(&self, log: LogId) -> ShardId {
        if log.0 >= self.logs {
            return ShardId((log.0 - self.logs) as u16);
        }
        ShardId((log.0 % u32::from(self.shards)) as u16)
    }

    /// The logs on disk that `shard` has at first.
    pub fn logs_at_start(&self, shard: ShardId) -> impl Iterator<Item = LogId> + use<> {
        (u32::from(shard.0)..self.logs).step_by(self.shards as usize).map(LogId)
    }
}

/// A connection's reference to a consumer it opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerRef {
    /// The log its queue is placed on.
    pub log: LogId,
    /// Its queue.
    pub queue: QueueId,
    /// The handle the connection chose; unique among its consumers.
    pub handle: u32,
}

/// How a consumer gets its credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credit {
    /// At most so many unsettled at once; 0: any number (AMQP 0-9-1 prefetch).
    Prefetch(u32),
    /// As granted by [`QueueCommand::Credit`] (AMQP 1.0 link credit), none at first.
    Link,
}

impl Credit {
    /// The credit that a machine begins with.
    pub(crate) fn at_first(self) -> queue::Credit {
        match self {
            Credit::Prefetch(prefetch) => queue::Credit::Prefetch(prefetch),
            Credit::Link => queue::Credit::Link(0),
        }
    }
}

/// A consumer to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewConsumer {
    /// How it gets credit.
    pub credit: Credit,
    /// Deliveries are settled at once.
    pub settled: bool,
    /// Nobody else may consume from the queue.
    pub exclusive: bool,
    /// Higher goes first.
    pub priority: i32,
    /// It is shown what is in the queue and takes nothing: it counts as no consumer, and minds none.
    pub browses: Option<Browse>,
    /// How long it may hold a message of a quorum queue, milliseconds; without, as the queue or the node says.
    pub timeout_ms: Option<u64>,
}

/// The part of a queue that a browser is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Browse {
    /// Messages from this position on.
    pub from: QueueSeq,
    /// Ready ones, and those that consumers hold ([`crate::Event::Shown`]).
    pub held: bool,
}

impl From<QueueSeq> for Browse {
    /// Ready messages from there on.
    fn from(from: QueueSeq) -> Browse {
        Browse { from, held: false }
    }
}

/// Messages that are settled for their holders, or where they are ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleAt {
    /// For the answer.
    pub token: u32,
    /// Where they are in the queue, each once.
    pub positions: Box<[QueueSeq]>,
    /// They are rejected, and die; else they are accepted, and gone.
    pub rejects: bool,
}

/// How a connection answers when leases of a consumer's messages are over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOver {
    /// The consumer's handle.
    pub handle: u32,
    /// The positions that [`crate::Event::LeaseOver`] named. Those that are not `over` were settled meanwhile, or will be when a
    /// transaction is committed: their leases begin anew.
    pub asked: Box<[SeqRange]>,
    /// Those of them that it has sent and that are not settled: they come back.
    pub over: Box<[SeqRange]>,
    /// The client may settle those yet, by [`QueueCommand::SettleOver`]; else it was told that they are over.
    pub is_late: bool,
}

/// The fate of the messages a consumer holds when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// They stay with it, to be settled later (AMQP 0-9-1 basic.cancel).
    Kept,
    /// They go back as failed deliveries (its channel is gone).
    Fails,
    /// They go back; a quorum queue does not count that, a classic queue does (AMQP 1.0 detach, as RabbitMQ).
    GoesBack,
}

/// A command of a connection to a queue's owner. Those with a token are answered by an [`crate::Event::Reply`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueCommand {
    /// Open a consumer. Answer: [`Reply::Consuming`].
    Consume {
        /// For the answer.
        token: u32,
        /// The consumer's handle.
        handle: u32,
        /// The consumer.
        consumer: NewConsumer,
    },
    /// Open a consumer that chooses, or a browser that does. Answer: [`Reply::Consuming`].
    Select {
        /// For the answer.
        token: u32,
        /// The consumer's handle.
        handle: u32,
        /// The consumer.
        consumer: NewConsumer,
        /// The expression that it chooses by.
        selector: Selector,
    },
    /// No more deliveries for this consumer. Answer: [`Reply::Cancelled`].
    Cancel {
        /// For the answer; none wanted without.
        token: Option<u32>,
        /// The consumer's handle.
        handle: u32,
        /// The fate of the messages it holds.
        held: Held,
    },
    /// One message now. Answer: [`crate::Event::Got`] or [`Reply::Empty`].
    Get {
        /// For the answer.
        token: u32,
        /// The handle under which it is unsettled afterwards.
        handle: u32,
        /// It is settled at once.
        settled: bool,
        /// The connection has published: what it published comes first, so that it is counted among what is left.
        behind: bool,
        /// The node itself gets it, for a request of a user: [`QueueCommand::SettleAt`] leaves it alone.
        by_node: bool,
    },
    /// The node itself gets the message at this position now, if it is ready; it is to be settled. Answer: [`crate::Event::Got`] or
    /// [`Reply::Empty`].
    Pick {
        /// For the answer.
        token: u32,
        /// The handle under which it is unsettled afterwards.
        handle: u32,
        /// Where it is in the queue.
        position: QueueSeq,
    },
    /// Set a link consumer's credit.
    Credit {
        /// The consumer's handle.
        handle: u32,
        /// Messages it may have been sent in all since it was opened, wrapping: credit and deliveries under way cross
        /// each other, and a bare credit would count those twice.
        limit: u32,
        /// Use the credit up at once, see [`crate::Event::Drained`].
        drain: bool,
        /// Say how much is ready once the credit has been looked at: [`crate::Event::Available`].
        echo: bool,
    },
    /// Change how many may be unsettled at once.
    Prefetch {
        /// The consumer's handle.
        handle: u32,
        /// 0: any number.
        prefetch: u32,
    },
    /// The consumer's connection cannot take more for now, or can again.
    Pause {
        /// The consumer's handle.
        handle: u32,
        /// It cannot.
        paused: bool,
    },
    /// These positions, held by this consumer, are done with.
    Settle {
        /// The consumer's handle.
        handle: u32,
        /// The positions.
        range: SeqRange,
        /// How they ended.
        outcome: Outcome,
    },
    /// These positions, held by this consumer, are accepted: as [`QueueCommand::Settle`] for each, at the price of one.
    Accept {
        /// The consumer's handle.
        handle: u32,
        /// The positions, lowest first.
        ranges: Box<[SeqRange]>,
    },
    /// These positions were delivered to this consumer and not sent on: they go back untouched, and a browser is shown
    /// them again.
    Unsent {
        /// The consumer's handle.
        handle: u32,
        /// The positions.
        range: SeqRange,
    },
    /// The answer to [`crate::Event::LeaseOver`].
    LeaseOver(Box<LeaseOver>),
    /// Positions are settled whose leases were over: of no effect but that there is room for others.
    SettleOver {
        /// The consumer's handle.
        handle: u32,
        /// The positions.
        range: SeqRange,
    },
    /// The leases of these positions begin anew, as far as this consumer holds them and they are not over.
    Renew {
        /// The consumer's handle.
        handle: u32,
        /// The positions.
        range: SeqRange,
    },
    /// These positions, held by this consumer, are done with; where they come back, with annotations.
    Modify(Box<Modified>),
    /// Remove all ready and all delayed messages. Answer: [`Reply::Purged`].
    Purge {
        /// For the answer.
        token: u32,
    },
    /// Remove the message at this position, if it is ready or delayed. Answer: [`Reply::Purged`].
    Discard {
        /// For the answer.
        token: u32,
        /// Where it is in the queue.
        position: QueueSeq,
    },
    /// Settle the messages at some positions, those that are ready and those that consumers hold: their holders are told as where
    /// leases are over. Answer: [`Reply::Settled`].
    SettleAt(Box<SettleAt>),
    /// Delete the queue. Answer: [`Reply::Deleted`].
    Delete {
        /// For the answer.
        token: u32,
        /// Only when it has no consumers.
        if_unused: bool,
        /// Only when it has neither ready nor delayed messages.
        if_empty: bool,
    },
    /// Answer: [`Reply::Declared`].
    Counts {
        /// For the answer.
        token: u32,
    },
    /// A command for streams alone; any other queue refuses it.
    Stream(Box<StreamCommand>),
    /// The connection is gone: all its consumers with it.
    Leave,
}

impl QueueCommand {
    /// The token of the answer that is wanted.
    pub fn token(&self) -> Option<u32> {
        match self {
            QueueCommand::Consume { token, .. }
            | QueueCommand::Select { token, .. }
            | QueueCommand::Get { token, .. }
            | QueueCommand::Pick { token, .. }
            | QueueCommand::Purge { token }
            | QueueCommand::Discard { token, .. }
            | QueueCommand::Delete { token, .. }
            | QueueCommand::Counts { token } => Some(*token),
            QueueCommand::Cancel { token, .. } => *token,
            QueueCommand::SettleAt(settle) => Some(settle.token),
            QueueCommand::Stream(command) => command.token(),
            QueueCommand::Credit { .. }
            | QueueCommand::Prefetch { .. }
            | QueueCommand::Pause { .. }
            | QueueCommand::Settle { .. }
            | QueueCommand::Accept { .. }
            | QueueCommand::Unsent { .. }
            | QueueCommand::LeaseOver(_)
            | QueueCommand::SettleOver { .. }
            | QueueCommand::Renew { .. }
            | QueueCommand::Modify(_)
            | QueueCommand::Leave => None,
        }
    }

    /// Bytes that the filter takes of the consumer that it opens.
    pub(crate) fn filter_bytes(&self) -> usize {
        match self {
            QueueCommand::Stream(command) => command.filter_bytes(),
            QueueCommand::Select { selector, .. } => selector.bytes(),
            _ => 0,
        }
    }

    /// The handle under which a single message is to be unsettled.
    pub(crate) fn getter(&self) -> Option<u32> {
        match self {
            QueueCommand::Get { handle, .. } | QueueCommand::Pick { handle, .. } => Some(*handle),
            _ => None,
        }
    }

    /// The consumer that it says the credit of.
    pub(crate) fn credited(&self) -> Option<u32> {
        match self {
            QueueCommand::Credit { handle, .. } => Some(*handle),
            _ => None,
        }
    }

    /// It asks for messages of the queue, now or later.
    pub(crate) fn asks_for_messages(&self) -> bool {
        matches!(
            self,
            QueueCommand::Consume { .. }
                | QueueCommand::Select { .. }
                | QueueCommand::Get { .. }
                | QueueCommand::Pick { .. }
        )
    }

    /// Its answer depends on what is in a queue.
    pub(crate) fn looks_in(&self) -> bool {
        let by_position = matches!(
            self,
            QueueCommand::Pick { .. } | QueueCommand::Discard { .. } | QueueCommand::SettleAt(_)
        );
        by_position || self.looks()
    }

    /// It waits for the messages under way, whatever queue it is for: a publisher that goes on behind the number it is told must
    /// not find its next ones used by them.
    pub(crate) fn follows_arrivals(&self) -> bool {
        let QueueCommand::Stream(command) = self else { return false };
        matches!(**command, StreamCommand::Sequence { .. })
    }

    /// Its answer counts what is under way to the queue, so that it waits for that even where there is a message.
    pub(crate) fn counts_news(&self) -> bool {
        match self {
            QueueCommand::Get { behind, .. } => *behind,
            QueueCommand::Pick { .. } | QueueCommand::SettleAt(_) => false,
            _ => true,
        }
    }

    /// Its answer tells what is in a queue: what died elsewhere before is on its way there first.
    pub(crate) fn looks(&self) -> bool {
        matches!(
            self,
            QueueCommand::Get { .. }
                | QueueCommand::Purge { .. }
                | QueueCommand::Counts { .. }
                | QueueCommand::Delete { .. }
        )
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The exchange, binding, user, ... is as was asked.
    Done,
    /// The exchange, binding, user, ... was as is asked before: nothing changed.
    Unchanged,
    /// The queue is there.
    Declared {
        /// The queue.
        queue: Arc<QueueDefinition>,
        /// It was made for this request.
        is_new: bool,
        /// Ready messages.
        ready: u64,
        /// Consumers.
        consumers: u32,
    },
    /// Ready and delayed messages are gone.
    Purged {
        /// How many.
        messages: u64,
    },
    /// The messages at some positions are settled.
    Settled {
        /// Positions at which none was ready, or held by a consumer.
        missing: Box<[QueueSeq]>,
    },
    /// The queue is gone.
    Deleted {
        /// How many ready and delayed messages went with it.
        messages: u64,
    },
    /// The consumer is open.
    Consuming,
    /// The consumer is gone.
    Cancelled,
    /// Nothing is ready.
    Empty,
    /// A stream's answer.
    Stream(StreamReply),
    /// Of a node that leads the log of a queue to one that asked for a connection of its own: nothing is against deleting it. That
    /// node wants it deleted then; no connection sees this.
    MayDelete {
        /// The queue.
        queue: QueueId,
        /// Ready and delayed messages that go with it.
        messages: u64,
    },
}
