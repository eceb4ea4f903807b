//! Events of a connection, told to it by its shard: answers, confirms, deliveries.
//!
//! Events of one turn for the connections of one shard travel together in an [`Events`]: a list in the order in which
//! things happened, with the deliveries' particulars in flat side vectors, so that a delivery costs sixteen bytes and no
//! allocation, and the memory it is sent from is referenced once per run of messages.

use crate::catalog::{QueueDefinition, Refusal};
use crate::request::Reply;
use base::Memory;
use base::id::{PortId, QueueId, QueueSeq};
use message::record::{Enqueue, SeqRange};
use std::ops::Range;
use std::sync::Arc;

/// An event of one connection. Handles are those the connection chose.
#[derive(Clone, Debug)]
pub enum Event {
    /// The answer to the request with this token.
    Reply {
        /// The token given with the request.
        token: u32,
        /// The answer.
        reply: Result<Reply, Refusal>,
    },
    /// Publishes `first..=last` of this publisher are on disk, for one more of the logs each was written to.
    /// Pass it to [`crate::Publisher::confirmed`].
    Confirmed {
        /// The publisher's handle.
        publisher: u32,
        /// The first publish.
        first: u64,
        /// The last publish.
        last: u64,
    },
    /// Publishes `first..=last` of this publisher were refused by a queue that is full, whatever other queues say.
    /// Pass it to [`crate::Publisher::refused`].
    Refused {
        /// The publisher's handle.
        publisher: u32,
        /// The first publish.
        first: u64,
        /// The last publish.
        last: u64,
        /// The queue, one of them if there are several.
        queue: QueueId,
    },
    /// Of the consumers of a queue that has one active at a time, this one is it now, or is it no more.
    Active {
        /// The consumer's handle.
        consumer: u32,
        /// It is.
        active: bool,
    },
    /// Messages of the connection's virtual host are traced: it is to [`crate::Shard::introduce`] itself.
    Introduce,
    /// Messages for a consumer.
    Deliver {
        /// The consumer's handle, with [`TRACED`] where each is to be told of with [`crate::Shard::trace_delivery`], and with
        /// [`LEASED`] where each is leased.
        consumer: u32,
        /// Which of [`Events::memories`] holds them.
        memory: u32,
        /// Which of [`Events::items`] they are.
        items: Range<u32>,
    },
    /// A chunk of a stream for a subscription to it, as it is stored: header, Bloom filter, data, trailer.
    Chunk {
        /// The subscription's handle.
        subscription: u32,
        /// Which of [`Events::memories`] holds it.
        memory: u32,
        /// Where in it.
        bytes: Range<u32>,
        /// The id of the last chunk that is on disk.
        committed_chunk_id: u64,
        /// It is the last before the connection says that it can take more, by [`crate::QueueCommand::Pause`] with `paused` false.
        asks: bool,
    },
    /// A `basic.get` took this message; it is unsettled by the consumer that stands for the channel's gets.
    Got {
        /// The token given with the request.
        token: u32,
        /// The handle given with the request, with marks as in [`Event::Deliver`].
        consumer: u32,
        /// Which of [`Events::memories`] holds it.
        memory: u32,
        /// Which of [`Events::items`] it is.
        item: u32,
        /// Ready messages left in the queue.
        ready: u64,
    },
    /// A barrier of a queue: a message that every consumer is given. It is settled already, and what the consumer says of it is to go
    /// nowhere.
    Barrier {
        /// The consumer's handle, with marks as in [`Event::Deliver`]; it is not leased, whatever they say.
        consumer: u32,
        /// Which of [`Events::memories`] holds it.
        memory: u32,
        /// Which of [`Events::items`] it is.
        item: u32,
    },
    /// A message that a consumer holds, for a browser that is shown those too ([`crate::Browse::held`]).
    Shown {
        /// The browser's handle.
        consumer: u32,
        /// Which of [`Events::memories`] has it.
        memory: u32,
        /// Which of [`Events::items`] it is.
        item: u32,
    },
    /// The consumer had asked to drain and nothing is left to send: its credit is 0 now.
    Drained {
        /// The consumer's handle.
        consumer: u32,
        /// The credit that was not used.
        unused: u32,
    },
    /// The answer to [`crate::QueueCommand::Credit`]; it comes behind the deliveries that the credit led to.
    Available {
        /// The consumer's handle.
        consumer: u32,
        /// Ready messages in its queue.
        ready: u64,
    },
    /// The consumer held these for too long: they are the queue's again, though not settled by the consumer. It is given
    /// nothing more until it has settled them all.
    TimedOut {
        /// The consumer's handle, or that under which a `basic.get` is unsettled.
        consumer: u32,
        /// Their positions.
        range: SeqRange,
        /// There are others, told of next.
        has_more: bool,
    },
    /// From now on messages for the consumer are leased to it for so long, and its deliveries are marked ([`LEASED`]); none:
    /// no longer.
    Leased {
        /// The consumer's handle, or that under which a `basic.get` is unsettled.
        consumer: u32,
        /// Milliseconds.
        lease_ms: Option<u64>,
    },
    /// The leases of these are over. The connection is to answer with [`crate::QueueCommand::LeaseOver`]; until then the messages
    /// are the consumer's. Or they were settled for it ([`crate::QueueCommand::SettleAt`]): the same answer is passed over.
    LeaseOver {
        /// The consumer's handle, or that under which a `basic.get` is unsettled.
        consumer: u32,
        /// Their positions, lowest first.
        ranges: Box<[SeqRange]>,
    },
    /// The consumer is gone because its queue is.
    Cancelled {
        /// The consumer's handle.
        consumer: u32,
        /// The queue as it was.
        queue: Arc<QueueDefinition>,
    },
    /// A queue is deleted that [`crate::Shard::watch_queue`] was called for; nothing more is told of it.
    QueueDeleted {
        /// The number given with the watch.
        watcher: u32,
        /// The queue.
        queue: QueueId,
    },
    /// A stream that [`crate::Shard::watch_queue`] was called for is restarted: it is there, and its publishers and
    /// readers over the stream protocol are to come again.
    StreamRestarted {
        /// The stream.
        queue: QueueId,
    },
    /// The connection must close: an operator or a resource says so.
    Close {
        /// Why, for the peer.
        refusal: Refusal,
    },
}

impl Event {
    /// The handle of the consumer that it is for, without marks; none: for none, or for one that a get has just made.
    pub(crate) fn consumer(&self) -> Option<u32> {
        match self {
            Event::Deliver { consumer, .. }
            | Event::Barrier { consumer, .. }
            | Event::Shown { consumer, .. }
            | Event::Drained { consumer, .. }
            | Event::Available { consumer, .. }
            | Event::Active { consumer, .. }
            | Event::TimedOut { consumer, .. }
            | Event::LeaseOver { consumer, .. }
            | Event::Cancelled { consumer, .. } => Some(*consumer & !(TRACED | LEASED)),
            _ => None,
        }
    }
}

/// One delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its position in the queue: what a settle names.
    pub seq: QueueSeq,
    /// Where its record begins in the memory.
    pub offset: u32,
    /// See [`Item::delivery_count`], [`Item::acquired_count`] and [`Item::is_redelivered`], lowest first.
    pub marks: u32,
}

/// The bit of a consumer's handle that says that its deliveries are traced. It is part of no handle, so that a look-up
/// of the consumer as ever finds nobody.
pub const TRACED: u32 = 1 << 31;

/// The bit of a consumer's handle that says that its deliveries are leased ([`Event::Leased`]); no part of it either.
pub const LEASED: u32 = 1 << 30;

/// The bit of [`Item::marks`] that says the message was delivered before.
pub const REDELIVERED: u32 = 1 << 31;

/// Bits of [`Item::marks`] that hold the failed deliveries.
const FAILED_BITS: u32 = 16;

/// More failures are told as this many.
const FAILED_MAX: u32 = (1 << FAILED_BITS) - 1;

/// More acquisitions are told as this many.
const ACQUIRED_MAX: u32 = (1 << (31 - FAILED_BITS)) - 1;

impl Item {
    #[inline]
    pub(crate) fn marks_of(redelivered: bool, delivery_count: u32, acquired_count: u32) -> u32 {
        let redelivered = if redelivered { REDELIVERED } else { 0 };
        redelivered | acquired_count.min(ACQUIRED_MAX) << FAILED_BITS | delivery_count.min(FAILED_MAX)
    }

    /// It was, or may have been, delivered before.
    #[inline]
    pub fn is_redelivered(&self) -> bool {
        self.marks & REDELIVERED != 0
    }

    /// Failed deliveries before this one, up to 65,535.
    #[inline]
    pub fn delivery_count(&self) -> u32 {
        self.marks & FAILED_MAX
    }

    /// Deliveries before this one from which it came back, up to 32,767; quorum queues alone count them.
    #[inline]
    pub fn acquired_count(&self) -> u32 {
        self.marks >> FAILED_BITS & ACQUIRED_MAX
    }
}

/// A turn's events for the connections of one shard.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// The events, in order.
    pub list: Vec<(PortId, Event)>,
    /// Particulars of deliveries.
    pub items: Vec<Item>,
    /// The memory that deliveries are read from.
    pub memories: Vec<Memory>,
}

impl Events {
    /// Nothing happened.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forgets everything, keeping the vectors.
    pub fn clear(&mut self) {
        self.list.clear();
        self.items.clear();
        self.memories.clear();
    }

    /// The message an item stands for, and where its record lies in the memory.
    #[inline]
    pub fn message(&self, memory: u32, item: &Item) -> Enqueue<'_> {
        let bytes: &[u8] = &self.memories[memory as usize];
        Enqueue::read(&bytes[item.offset as usize..]).expect("only enqueue records are delivered")
    }

    /// Adds `memory` unless it was the last one added, and says where it is.
    #[inline]
    pub(crate) fn memory(&mut self, memory: &Memory) -> u32 {
        if !self.memories.last().is_some_and(|last| last.same(memory)) {
            self.memories.push(memory.clone());
        }
        self.memories.len() as u32 - 1
    }

    /// Adds one delivery, to the run before it when it continues that.
    #[inline]
    pub(crate) fn deliver(&mut self, port: PortId, consumer: u32, memory: &Memory, item: Item) {
        self.deliver_all(port, consumer, memory, std::iter::once(item));
    }

    /// Adds deliveries from one memory, to the run before them when they continue that.
    #[inline]
    pub(crate) fn deliver_all(
        &mut self,
        port: PortId,
        consumer: u32,
        memory: &Memory,
        items: impl Iterator<Item = Item>,
    ) {
        let memory = self.memory(memory);
        let at = self.items.len() as u32;
        self.items.extend(items);
        let end = self.items.len() as u32;
        if let Some((last_port, Event::Deliver { consumer: c, memory: m, items })) = self.list.last_mut()
            && (*c, *m, items.end) == (consumer, memory, at)
            && *last_port == port
        {
            items.end = end;
            return;
        }
        self.list.push((port, Event::Deliver { consumer, memory, items: at..end }));
    }

    /// Adds an event of a connection, as it is among the events of `others`.
    pub(crate) fn take_over(&mut self, port: PortId, event: &Event, others: &Events) {
        let mut event = event.clone();
        match &mut event {
            Event::Deliver { memory, items, .. } => {
                *memory = self.memory(&others.memories[*memory as usize]);
                let at = self.items.len() as u32;
                self.items.extend_from_slice(&others.items[items.start as usize..items.end as usize]);
                *items = at..self.items.len() as u32;
            }
            Event::Chunk { memory, .. } => *memory = self.memory(&others.memories[*memory as usize]),
            Event::Got { memory, item, .. }
            | Event::Barrier { memory, item, .. }
            | Event::Shown { memory, item, .. } => {
                *memory = self.memory(&others.memories[*memory as usize]);
                self.items.push(others.items[*item as usize]);
                *item = self.items.len() as u32 - 1;
            }
            _ => {}
        }
        self.list.push((port, event));
    }

    /// Adds a refusal, to the one before it when it follows on.
    pub(crate) fn refuse(&mut self, port: PortId, publisher: u32, first: u64, last: u64, queue: QueueId) {
        if let Some((last_port, Event::Refused { publisher: p, last: end, queue: q, .. })) =
            self.list.last_mut()
            && (*last_port, *p, *end + 1, *q) == (port, publisher, first, queue)
        {
            *end = last;
            return;
        }
        self.list.push((port, Event::Refused { publisher, first, last, queue }));
    }

    /// Adds a confirm, to the one before it when it follows on.
    #[inline]
    pub(crate) fn confirm(&mut self, port: PortId, publisher: u32, first: u64, last: u64) {
        if let Some((last_port, Event::Confirmed { publisher: p, last: end, .. })) = self.list.last_mut()
            && *p == publisher
            && *end + 1 == first
            && *last_port == port
        {
            *end = last;
            return;
        }
        self.list.push((port, Event::Confirmed { publisher, first, last }));
    }
}
