//! The state that the machines of a log share: its pipeline, the places of its records, their reads, the agenda of its
//! queues.
//!
//! A machine changes itself and this, and sees no other machine: see [`crate::placed::At`]. Not here: the machines
//! ([`crate::placed`]), and what those of one kind share.

use super::foreign::Records;
use super::origins::Origins;
use super::peers::Peers;
use super::pipeline::{Brings, Pipeline};
use crate::batches::Batches;
use crate::commit::CommitRule;
use crate::latency::Latencies;
use crate::limits::Limits;
use crate::mail::Waiter;
use crate::placed::queue::selectors::Pool;
use crate::reading::{Loaded, Reading};
use crate::referred::Referred;
use crate::request::QueueCommand;
use crate::tally::Ends;
use crate::timers::Timers;
use base::hash::MapById;
use base::id::{LogId, LogIndex, PortId, QueueId};
use base::{Buffer, Now};
use message::record::{NewEnqueue, Sizes, Stamp};
use queue::{Effect, Effects};
use std::collections::VecDeque;

/// An id that is never given out; marks the look-up cache as empty.
pub(crate) const NO_QUEUE: QueueId = QueueId(u64::MAX);

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Commons {
    pub(crate) id: LogId,
    /// It is damaged: its machines do nothing any more, whatever is due.
    pub(crate) is_stopped: bool,
    pub(crate) pipeline: Pipeline,
    /// Whose records are in it, and how far.
    pub(crate) origins: Origins,
    /// The same log on other nodes, where they have it too.
    pub(crate) peers: Option<Box<Peers>>,
    pub(crate) store: Store,
    pub(crate) reads: Reads,
    pub(crate) agenda: Agenda,
    pub(crate) effects: Effects,
    pub(crate) figures: Figures,
    /// Bytes of the selectors of its queues.
    pub(crate) selectors: Pool,
    /// Changes of the catalog that nodes agree on, with where their records end: agreed on, and to be applied.
    pub(crate) changes: Vec<(LogIndex, Box<[u8]>)>,
}

/// Where the messages of a log are.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) batches: Batches,
    /// Segments with blocks of this log's queues, and in how many of them something lives.
    pub(crate) segments: MapById<u64, u32>,
    /// Messages that were delayed when they came, once per queue, of the batch that is being applied.
    pub(crate) delayed: u32,
    /// Messages came since something was last dropped from memory to a queue that has messages of several priorities.
    pub(crate) has_levels: bool,
}

/// Reads of a log's messages that are not in memory.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    pub(crate) reading: Reading,
    pub(crate) loaded: Loaded,
    /// Messages that lie in segments of streams.
    pub(crate) referred: Referred,
}

/// Work that is due in a log's queues, by their slots.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// Queues that may hand out something.
    pub(crate) dirty: VecDeque<u32>,
    /// Queues with messages that are to be asked which selectors are true of them.
    pub(crate) choosing: VecDeque<u32>,
    /// Queues with dead letters.
    pub(crate) dying: VecDeque<u32>,
    pub(crate) timers: Timers,
    /// Commands that wait for messages under way, in the order of those messages.
    pub(crate) parked: VecDeque<Parked>,
    /// Effects of machines to which records were applied, carried out the next time something is handed out.
    pub(crate) set_aside: Vec<(QueueId, Vec<Effect>)>,
}

impl Agenda {
    /// Commands of a connection for a queue that wait are given up.
    pub(crate) fn give_up(&mut self, port: PortId, queue: QueueId, is_it: impl Fn(&QueueCommand) -> bool) {
        self.parked.retain(|parked| (parked.port, parked.queue) != (port, queue) || !is_it(&parked.command));
    }
}

/// A command that would miss messages which its connection published before it and which are not in the queue yet: it
/// is carried out when they are. Each connection has at most one that waits for its answer, and each of its consumers one that
/// drains.
#[derive(Debug)]
pub(crate) struct Parked {
    /// All records before this are to be applied first.
    pub(crate) until: LogIndex,
    pub(crate) queue: QueueId,
    pub(crate) port: PortId,
    pub(crate) command: QueueCommand,
}

/// Statistics of a log's messages.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Messages that ended otherwise than by being settled.
    pub(crate) ends: Ends,
    /// How long messages took.
    pub(crate) latencies: Latencies,
}

impl Commons {
    pub(super) fn new(id: LogId, rule: CommitRule) -> Commons {
        Commons {
            id,
            is_stopped: false,
            pipeline: Pipeline::new(id, rule),
            origins: Origins::default(),
            peers: None,
            store: Store::default(),
            reads: Reads::default(),
            agenda: Agenda::default(),
            effects: Effects::default(),
            figures: Figures::default(),
            selectors: Pool::default(),
            changes: Vec::new(),
        }
    }

    /// Appends the records with messages that `write` writes, of which `bytes` are known to come. What is no message goes into the
    /// pipeline itself, and never has its batch closed.
    #[inline]
    pub(crate) fn append<R>(
        &mut self,
        now: Now,
        bytes: usize,
        brings: Brings,
        write: impl FnOnce(&mut Buffer) -> R,
    ) -> R {
        if self.pipeline.is_full(bytes) {
            self.pipeline.close_full(now, &mut self.store.batches.spare);
        }
        self.pipeline.append(now, brings, write)
    }

    /// Appends a message for `queues` of this log, with its sizes and the length of its record, as
    /// [`NewEnqueue::write_of`] takes them. `waiter`: the publish that waits for it to be committed.
    #[inline]
    pub(crate) fn append_message(
        &mut self,
        now: Now,
        (message, measured): (&NewEnqueue<'_>, (Sizes, usize)),
        queues: &[QueueId],
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        self.append(now, 0, Brings::messages(needs_flush), |records| {
            message.write_of(measured, queues, records)
        });
        if let Some(waiter) = waiter {
            self.pipeline.wait(Waiter::one(waiter));
        }
    }

    /// Appends whole records that another shard made.
    pub(crate) fn append_records(&mut self, now: Now, records: &[u8], waiters: &[Waiter], needs_flush: bool) {
        let brings = Brings::messages(needs_flush);
        self.append(now, records.len(), brings, |into| into.extend(records));
        waiters.iter().for_each(|waiter| self.pipeline.wait(*waiter));
    }

    /// Records of another node come into the log: where they end that are in it once they are.
    pub(crate) fn take_in(&mut self, now: Now, stamp: Stamp, records: Records) -> LogIndex {
        if self.pipeline.is_full(Stamp::LEN + records.range.len()) {
            self.pipeline.close_full(now, &mut self.store.batches.spare);
        }
        self.pipeline.take_in(now, stamp, records)
    }

    /// Keeps the effects of a queue's machine apart from those of others.
    #[cold]
    #[inline(never)]
    pub(crate) fn set_aside(&mut self, queue: QueueId) {
        self.agenda.set_aside.push((queue, std::mem::take(&mut self.effects.list)));
    }

    /// Frees the messages that left the queues since the last time.
    pub(crate) fn let_go(&mut self, limits: &Limits) {
        if !self.effects.left.is_empty() {
            self.store.batches.left(&self.effects.left, limits.spare_buffers_max);
            self.effects.left.clear();
        }
    }

    /// Drops from memory the batches that are needed last.
    #[cold]
    #[inline(never)]
    pub(super) fn evict(&mut self, limits: &Limits) {
        let most = limits.resident_bytes_max + self.loaded_beyond(limits);
        match std::mem::take(&mut self.store.has_levels) {
            true => self.store.batches.evict_oldest(most, limits.spare_buffers_max),
            false => self.store.batches.evict_newest(most),
        }
    }
}

impl Agenda {
    /// The queue in `slot` is gone, for which these two timers are set.
    pub(crate) fn forget(&mut self, slot: u32, timer: Option<u64>, look: Option<u64>) {
        self.dirty.retain(|dirty| *dirty != slot);
        self.choosing.retain(|choosing| *choosing != slot);
        self.dying.retain(|dying| *dying != slot);
        self.timers.forget(slot, timer);
        self.timers.forget_look(slot, look);
    }
}
