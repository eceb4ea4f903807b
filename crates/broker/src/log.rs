//! A log and the queues placed on it: records go in, are committed, are applied in order, and move messages.
//!
//! Records go through the log's [`Pipeline`], which says when they are written, and which of them are committed.
//! Not here: files (the batch goes out as data), connections (events go to the turn's [`crate::post::Post`]), the catalog.
//! Invariant: records are applied in log order, each once; what is applied never passes the first unwritten record that
//! somebody waits for.

mod append;
mod apply;
mod commit;
mod pipeline;

use crate::batches::Batches;
use crate::catalog::{QueueDefinition, QueueRules};
use crate::commit::CommitRule;
use crate::latency::Latencies;
use crate::limits::Limits;
use crate::owned::OwnedQueue;
use crate::queue_commands::Parked;
use crate::reading::{Loaded, Reading};
use crate::referred::Referred;
use crate::streams::Streams;
use crate::tally::Ends;
use crate::timers::Timers;
use crate::turn::Turn;
use base::id::{LogId, LogIndex, QueueId, QueueSeq};
use message::record::{DeathReason, SeqRange};
use queue::{Effect, Effects, Fifo};
use rustc_hash::FxHashMap;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) use pipeline::Brings;
use pipeline::{Closed, Due, Pipeline};

/// No queue and no stream has it: who was looked up last where nobody was.
pub(crate) const NO_QUEUE: QueueId = QueueId(u64::MAX);

/// What a log keeps while the node comes up.
#[derive(Debug, Default)]
pub(crate) struct Recovering {
    /// Queues a snapshot held that the catalog has not named yet, and how far delivery had come if that is known.
    pub(crate) restored: FxHashMap<QueueId, (Fifo, Option<QueueSeq>)>,
    /// How far delivery had come in each queue.
    pub(crate) cursors: FxHashMap<u32, QueueSeq>,
    /// Something was replayed: the node had not stopped in order.
    pub(crate) has_replayed: bool,
}

/// Messages of a deleted queue that are counted off at once: what bounds the memory of deleting a long one.
const PLACES_AT_ONCE: usize = 4096;

/// A log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) id: LogId,
    pub(crate) pipeline: Pipeline,
    pub(crate) batches: Batches,
    pub(crate) queues: Slab<OwnedQueue>,
    by_id: FxHashMap<QueueId, u32>,
    last_lookup: (QueueId, u32),
    /// Only until the replay is over.
    pub(crate) recovering: Option<Box<Recovering>>,
    /// Segments with blocks of this log's queues, and in how many of them something lives.
    pub(crate) segments: FxHashMap<u64, u32>,
    pub(crate) dirty: VecDeque<u32>,
    /// Queues with dead letters.
    pub(crate) dying: VecDeque<u32>,
    pub(crate) timers: Timers,
    pub(crate) effects: Effects,
    /// What machines asked for when records were applied to them, for the next time something is handed out.
    set_aside: Vec<(QueueId, Vec<Effect>)>,
    /// Commands that wait for messages under way, in the order of what they wait for.
    pub(crate) parked: VecDeque<Parked>,
    /// Messages that were delayed when they came, once per queue, of the batch that is being applied.
    delayed: u32,
    /// Messages came since something was last dropped from memory to a queue that has messages of several priorities.
    has_levels: bool,
    pub(crate) reading: Reading,
    pub(crate) loaded: Loaded,
    /// Messages that lie in segments of streams.
    pub(crate) referred: Referred,
    /// The streams, once there is one.
    pub(crate) streams: Option<Box<Streams>>,
    /// No queue is filled from a stream for now.
    pub(crate) feeds_wait: bool,
    /// Messages that ended otherwise than by being settled.
    pub(crate) ends: Ends,
    /// How long messages took.
    pub(crate) latencies: Latencies,
}

impl Log {
    pub(crate) fn new(id: LogId, rule: CommitRule, next: LogIndex) -> Log {
        Log {
            id,
            pipeline: Pipeline::new(id, rule, next),
            batches: Batches::default(),
            queues: Slab::new(),
            by_id: FxHashMap::default(),
            last_lookup: (NO_QUEUE, 0),
            recovering: Some(Box::default()),
            segments: FxHashMap::default(),
            dirty: VecDeque::new(),
            dying: VecDeque::new(),
            timers: Timers::default(),
            effects: Effects::default(),
            set_aside: Vec::new(),
            parked: VecDeque::new(),
            delayed: 0,
            has_levels: false,
            reading: Reading::default(),
            loaded: Loaded::default(),
            referred: Referred::default(),
            streams: None,
            feeds_wait: false,
            ends: Ends::default(),
            latencies: Latencies::default(),
        }
    }

    // ---- queues

    /// A queue was declared; what a snapshot held of it is given back to it.
    pub(crate) fn create_queue(&mut self, definition: Arc<QueueDefinition>, declared: &QueueRules) {
        if let Some(rules) = &declared.stream {
            return self.create_stream(definition, rules);
        }
        let id = definition.id;
        let settings = declared.settings(&definition);
        let restored = self.recovering.as_mut().and_then(|recovering| recovering.restored.remove(&id));
        let (fifo, cursor) = restored.unwrap_or_else(|| {
            let mut fifo = Fifo::new(settings);
            // Another shard may have sent messages for it already: no record would come before them.
            declared.window.into_iter().for_each(|window| fifo.deduplicate(window));
            (fifo, Some(QueueSeq(0)))
        });
        let slot = self.queues.insert(OwnedQueue::new(definition, fifo)) as u32;
        self.by_id.insert(id, slot);
        if let Some(recovering) = &mut self.recovering {
            // The slot may have had another queue, which the replay deleted.
            match cursor {
                Some(cursor) => recovering.cursors.insert(slot, cursor),
                None => recovering.cursors.remove(&slot),
            };
        }
    }

    /// From now on the queue goes by these rules. What its machine records of that is appended.
    pub(crate) fn go_by(&mut self, turn: &mut Turn<'_>, id: QueueId, rules: QueueRules) {
        if let Some(rules) = &rules.stream {
            return self.stream_goes_by(turn.now, id, rules);
        }
        let Some(slot) = self.slot(id) else { return };
        let queue = &mut self.queues[slot as usize];
        let settings = rules.settings(&queue.definition);
        // A record of other settings may be on its way to the machine.
        let asked = queue.features.as_ref().map(|features| features.rules.settings(&queue.definition));
        if settings != queue.fifo.settings() || asked.is_some_and(|asked| asked != settings) {
            self.append_settings(turn.now, id, settings);
        }
        if let Some(window) = rules.window
            && self.queues[slot as usize].fifo.window() != Some(window)
        {
            self.append_window(turn.now, id, window);
        }
        let queue = &mut self.queues[slot as usize];
        let machine_rules = rules.machine_rules();
        // That no features are kept says little of its machine, which has a delivery limit without any.
        let is_plain = rules == QueueRules::default() && queue.features.is_none();
        if is_plain && machine_rules == queue.fifo.rules() {
            if queue.has_clock() {
                // Messages with a time of their own were found at the start.
                self.mark_dirty(slot);
            }
            return;
        }
        if queue.features.is_some() || !rules.is_usual() {
            let features = queue.features_mut(turn.now);
            if rules.expires_ms.is_some() && features.rules.expires_ms.is_none() {
                features.used_at_ms = turn.now.wall_ms;
            }
            features.rules = rules;
        }
        queue.fifo.set_rules(machine_rules, &mut self.effects);
        self.carry_out(turn, slot, None);
        // Handing out is also when the timer is set.
        self.mark_dirty(slot);
    }

    /// Positions of a queue died: they are to be published anew.
    pub(crate) fn died(&mut self, slot: u32, range: SeqRange, reason: DeathReason) {
        self.count_dead(slot, range, reason);
        if let Some(features) = &mut self.queues[slot as usize].features {
            match features.dying.back_mut() {
                Some((before, of)) if *of == reason && before.last.0 + 1 == range.first.0 => {
                    before.last = range.last;
                }
                _ => features.dying.push_back((range, reason)),
            }
            self.list_dying(slot);
        }
    }

    // ---- recovery: see the module of that name

    /// Takes a queue out; what it held in memory and in segments goes with it.
    pub(crate) fn remove_queue(&mut self, id: QueueId, limits: &Limits) -> Option<OwnedQueue> {
        let slot = self.by_id.remove(&id)?;
        self.last_lookup = (NO_QUEUE, 0);
        let queue = self.queues.remove(slot as usize);
        self.dirty.retain(|dirty| *dirty != slot);
        self.dying.retain(|dying| *dying != slot);
        self.timers.forget(slot, queue.features.as_ref().and_then(|features| features.timer));
        self.timers.forget_look(slot, queue.looks_at());
        self.reading.forget(slot);
        self.forget_references(id);
        self.effects.runs_left.extend(queue.fifo.runs());
        // While the journal is replayed nothing is counted yet: what is left is counted at the end.
        if self.recovering.is_none() {
            let mut places = queue.fifo.live_below(LogIndex(u64::MAX)).map(|(_, place)| place);
            let mut some = Vec::with_capacity(PLACES_AT_ONCE);
            loop {
                some.clear();
                some.extend(places.by_ref().take(PLACES_AT_ONCE));
                if some.is_empty() {
                    break;
                }
                self.batches.left(&some, limits.spare_buffers_max);
            }
        }
        Some(queue)
    }

    #[inline]
    pub(crate) fn slot(&mut self, id: QueueId) -> Option<u32> {
        if self.last_lookup.0 == id {
            return Some(self.last_lookup.1);
        }
        let slot = *self.by_id.get(&id)?;
        self.last_lookup = (id, slot);
        Some(slot)
    }

    /// A queue of this log, for who looks.
    pub(crate) fn queue(&self, id: QueueId) -> Option<&OwnedQueue> {
        self.queues.get(self.slot_of(id)? as usize)
    }

    /// As [`Log::slot`], remembering nothing.
    pub(crate) fn slot_of(&self, id: QueueId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn queue_mut(&mut self, id: QueueId) -> Option<(u32, &mut OwnedQueue)> {
        let slot = self.slot(id)?;
        Some((slot, &mut self.queues[slot as usize]))
    }

    /// A queue or a stream can hand out more at once.
    pub(crate) fn has_work(&self) -> bool {
        self.has_pressing_work() || self.streams.as_ref().is_some_and(|streams| streams.has_work())
    }

    /// A queue can hand out more at once, or something waits for the disk; whether its dead letters can be published is the
    /// shard's to say.
    pub(crate) fn has_pressing_work(&self) -> bool {
        !self.dirty.is_empty() || self.pipeline.is_pressing()
    }
}
