//! A log and the queues placed on it: records go in, are committed, are applied in order, and move messages.
//!
//! A turn's records gather in the open batch. When somebody waits for one of them the batch is sealed and written;
//! [`Log::committed`] then applies it. Records nobody waits for (settles, transient messages) are applied as soon as
//! everything before them is, and written with the next batch or after a while.
//! Not here: files (the batch goes out as data), connections (events go to the [`Post`]), the catalog.
//! Invariant: records are applied in log order, each once; `applied` never passes the first unwritten record that
//! somebody waits for.

use crate::batches::Batches;
use crate::catalog::{QueueDefinition, QueueRules};
use crate::commit::CommitRule;
use crate::desk::Parked;
use crate::latency::Latencies;
use crate::limits::Limits;
use crate::mail::{Waiter, wait};
use crate::owned::OwnedQueue;
use crate::post::Post;
use crate::reading::{Loaded, Reading};
use crate::referred::Referred;
use crate::streams::Streams;
use crate::tally::Ends;
use crate::timers::Timers;
use base::id::{LogId, LogIndex, PortId, QueueId, QueueSeq};
use base::{Buffer, Now};
use journal::{Batch, Place, Sealed};
use message::record::{
    self, DeathReason, Enqueue, Kind, NewEnqueue, Outcome, Positions, Refer, SeqRange, Sizes, flag,
};
use queue::{Effect, Effects, Fifo, Record};
use rustc_hash::FxHashMap;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;

/// No queue and no stream has it: who was looked up last where nobody was.
pub(crate) const NO_QUEUE: QueueId = QueueId(u64::MAX);

#[derive(Debug)]
struct InFlight {
    sealed: Sealed,
    /// Bytes of its records that were applied before it was sealed.
    applied: usize,
    waiters: Vec<Waiter>,
    /// When its first record came, monotonic nanoseconds.
    since: u64,
    is_written: Option<Place>,
    is_agreed: bool,
}

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

/// Bytes of records after which a batch is closed although the turn goes on; a larger record has a batch of its own.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Messages of a deleted queue that are counted off at once: what bounds the memory of deleting a long one.
const PLACES_AT_ONCE: usize = 4096;

/// The record of positions that left without being settled.
#[cold]
fn rare(kind: Kind, range: SeqRange) -> Record {
    match kind {
        Kind::Expire => Record::Expire { range },
        Kind::Drop => Record::Drop { range },
        Kind::DeadLetter => Record::DeadLetter { range },
        _ => Record::Purge { range },
    }
}

/// A log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) id: LogId,
    rule: CommitRule,
    open: Batch,
    /// Bytes of the open batch's records that are applied already.
    open_applied: usize,
    /// Where the last record of the open batch begins, if it is one of positions.
    open_positions: Option<usize>,
    open_has_messages: bool,
    open_needs_flush: bool,
    /// When the first record of the open batch came, for the lazy deadline; monotonic nanoseconds.
    open_since: u64,
    /// Bytes of the largest batches of late.
    batch_bytes: usize,
    waiters: Vec<Waiter>,
    spare_waiters: Vec<Vec<Waiter>>,
    in_flight: VecDeque<InFlight>,
    /// How many of `in_flight`, the last ones, were not given out yet: they were full before the turn ended.
    not_given_out: usize,
    in_flight_bytes: usize,
    /// Bytes of records of batches that were applied before they were written, and are not known to be.
    early_bytes: usize,
    pub(crate) batches: Batches,
    pub(crate) queues: Slab<OwnedQueue>,
    by_id: FxHashMap<QueueId, u32>,
    last_lookup: (QueueId, u32),
    /// Only until the replay is over.
    pub(crate) recovering: Option<Box<Recovering>>,
    /// Segments with blocks of this log's queues, and in how many of them something lives.
    pub(crate) segments: FxHashMap<u64, u32>,
    pub(crate) dirty: VecDeque<u32>,
    /// Queues with something to bury.
    pub(crate) dying: VecDeque<u32>,
    pub(crate) timers: Timers,
    pub(crate) effects: Effects,
    /// What machines asked for when records were applied to them, for the next time something is handed out.
    set_aside: Vec<(QueueId, Vec<Effect>)>,
    /// Commands that wait for messages under way, in the order of what they wait for.
    pub(crate) parked: VecDeque<Parked>,
    /// All records before this are committed.
    committed: LogIndex,
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
            rule,
            open: Batch::new(id, next, Buffer::default()),
            open_applied: 0,
            open_positions: None,
            open_has_messages: false,
            open_needs_flush: false,
            open_since: 0,
            batch_bytes: 0,
            waiters: Vec::new(),
            spare_waiters: Vec::new(),
            in_flight: VecDeque::new(),
            not_given_out: 0,
            in_flight_bytes: 0,
            early_bytes: 0,
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
            committed: next,
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
    pub(crate) fn go_by(
        &mut self,
        now: Now,
        id: QueueId,
        rules: QueueRules,
        limits: &Limits,
        post: &mut Post,
    ) {
        if let Some(rules) = &rules.stream {
            return self.stream_goes_by(now, id, rules);
        }
        let Some(slot) = self.slot(id) else { return };
        let queue = &mut self.queues[slot as usize];
        let settings = rules.settings(&queue.definition);
        // A record of other settings may be on its way to the machine.
        let asked = queue.features.as_ref().map(|features| features.rules.settings(&queue.definition));
        if settings != queue.fifo.settings() || asked.is_some_and(|asked| asked != settings) {
            self.append_settings(now, id, settings);
        }
        if let Some(window) = rules.window
            && self.queues[slot as usize].fifo.window() != Some(window)
        {
            self.append_window(now, id, window);
        }
        let queue = &mut self.queues[slot as usize];
        if rules == QueueRules::default() && queue.features.is_none() {
            if queue.has_clock() {
                // Messages with a time of their own were found at the start.
                self.mark_dirty(slot);
            }
            return;
        }
        let machine_rules = rules.machine_rules();
        if queue.features.is_some() || !rules.is_usual() {
            let features = queue.features_mut(now);
            if rules.expires_ms.is_some() && features.rules.expires_ms.is_none() {
                features.used_at_ms = now.wall_ms;
            }
            features.rules = rules;
        }
        queue.fifo.set_rules(machine_rules, &mut self.effects);
        self.carry_out(now, slot, None, limits, post);
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

    /// All records before `index` are in the queues' state.
    pub(crate) fn begin_at(&mut self, index: LogIndex) {
        self.open = Batch::new(self.id, index, Buffer::default());
        self.committed = index;
    }

    /// Everything before this is applied.
    pub(crate) fn applied(&self) -> LogIndex {
        match self.in_flight.front() {
            Some(first) => LogIndex(first.sealed.base.0 + first.applied as u64),
            None => LogIndex(self.open.base().0 + self.open_applied as u64),
        }
    }

    /// Where the first batch begins that is not applied as a whole.
    pub(crate) fn whole_batches_end(&self) -> LogIndex {
        self.in_flight.front().map_or(self.open.base(), |first| first.sealed.base)
    }

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

    /// Changes the commit rule. Panics when something was appended already.
    pub(crate) fn set_rule(&mut self, rule: CommitRule) {
        assert!(
            self.open.is_empty() && self.in_flight.is_empty(),
            "a log changes its rule while it is empty"
        );
        self.rule = rule;
    }

    /// It is written to disk.
    pub(crate) fn is_durable(&self) -> bool {
        self.rule != CommitRule::Immediate
    }

    /// Where the next record will be.
    pub(crate) fn next(&self) -> LogIndex {
        self.open.next()
    }

    /// Where the records end among which are messages that are in no queue yet, if there are any.
    pub(crate) fn arrivals_end(&self) -> Option<LogIndex> {
        (self.open_has_messages || !self.in_flight.is_empty()).then(|| self.open.next())
    }

    /// All records before this are committed.
    pub(crate) fn committed(&self) -> LogIndex {
        self.committed
    }

    /// A queue or a stream can hand out more at once.
    pub(crate) fn has_work(&self) -> bool {
        self.has_pressing_work() || self.streams.as_ref().is_some_and(|streams| streams.has_work())
    }

    /// A queue can hand out more at once, or something waits for the disk that was appended after the turn's batch was closed;
    /// whether its dead can be buried is the shard's to say.
    pub(crate) fn has_pressing_work(&self) -> bool {
        !self.dirty.is_empty() || (self.open_needs_flush && self.in_flight.is_empty())
    }

    // ---- appending

    /// Bytes appended and not yet on disk, whether or not anybody waits for them.
    pub(crate) fn bytes_in_flight(&self) -> usize {
        self.open.len() + self.in_flight_bytes + self.early_bytes
    }

    /// Closes the open batch when it is full, or would be with so many bytes more: it is given out at the end of the turn,
    /// with the others. In memory alone a batch may be as large as it likes.
    #[inline]
    fn make_room(&mut self, now: Now, bytes: usize) {
        let is_full = self.open.len() + bytes > BATCH_BYTES_MAX && !self.open.is_empty();
        if is_full && self.rule != CommitRule::Immediate {
            self.close_full(now);
        }
    }

    #[cold]
    fn close_full(&mut self, now: Now) {
        let (sealed, applied) = self.seal(now);
        self.in_flight_bytes += sealed.memory.len();
        let waiters = self.take_waiters();
        let since = self.open_since;
        self.in_flight.push_back(InFlight {
            sealed,
            applied,
            waiters,
            since,
            is_written: None,
            is_agreed: false,
        });
        self.not_given_out += 1;
    }

    #[inline]
    fn touch(&mut self, now: Now) {
        if self.open.is_empty() {
            self.open_since = now.mono_ns;
        }
    }

    /// [`Log::append_message`] for what is rare: it stays where it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn append_message_rare(
        &mut self,
        now: Now,
        message: &NewEnqueue<'_>,
        queues: &[QueueId],
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        self.append_message(now, (message, message.sizes()), queues, waiter, needs_flush);
    }

    /// Appends a message for `queues` of this log. `waiter`: who waits for it to be committed.
    #[inline]
    pub(crate) fn append_message(
        &mut self,
        now: Now,
        (message, sizes): (&NewEnqueue<'_>, Sizes),
        queues: &[QueueId],
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        self.make_room(now, 0);
        self.touch(now);
        message.write_of(sizes, queues, self.open.records());
        self.open_positions = None;
        self.open_has_messages = true;
        self.open_needs_flush |= needs_flush;
        if let Some((port, publisher, seq)) = waiter {
            wait(&mut self.waiters, port, publisher, seq);
        }
    }

    /// Appends whole records that another shard made.
    pub(crate) fn append_records(&mut self, now: Now, records: &[u8], waiters: &[Waiter], needs_flush: bool) {
        self.make_room(now, records.len());
        self.touch(now);
        self.open.records().extend(records);
        self.open_positions = None;
        self.open_has_messages = true;
        self.open_needs_flush |= needs_flush;
        for waiter in waiters {
            Log::add_waiter(&mut self.waiters, *waiter);
        }
    }

    /// Adds who waits to those of a batch, to the one before it when it follows on.
    pub(crate) fn add_waiter(waiters: &mut Vec<Waiter>, waiter: Waiter) {
        match waiters.last_mut() {
            Some(last)
                if last.port == waiter.port
                    && last.publisher == waiter.publisher
                    && last.last + 1 == waiter.first =>
            {
                last.last = waiter.last;
            }
            _ => waiters.push(waiter),
        }
    }

    /// Appends a record for a stream, which `write` writes; it says who waits for it.
    pub(crate) fn append_stream(&mut self, now: Now, write: impl FnOnce(&mut Buffer) -> Option<Waiter>) {
        self.make_room(now, 0);
        self.touch(now);
        let waiter = write(self.open.records());
        self.open_positions = None;
        self.open_has_messages = true;
        self.open_needs_flush = true;
        if let Some(waiter) = waiter {
            Log::add_waiter(&mut self.waiters, waiter);
        }
    }

    /// Appends a change of the catalog.
    pub(crate) fn append_catalog(&mut self, now: Now, change: &[u8]) {
        self.touch(now);
        record::write_catalog(change, self.open.records());
        self.open_positions = None;
        self.open_needs_flush = true;
    }

    /// Appends a change of the catalog that nobody waits for.
    pub(crate) fn append_catalog_lazily(&mut self, now: Now, change: &[u8]) {
        self.touch(now);
        record::write_catalog(change, self.open.records());
        self.open_positions = None;
    }

    /// Appends the record that `write` writes, which is no message, and which nobody waits for.
    #[cold]
    pub(crate) fn append_rare(&mut self, now: Now, write: impl FnOnce(&mut Buffer)) {
        self.touch(now);
        self.open_positions = None;
        write(self.open.records());
    }

    /// Appends a record that changes nothing and shows that the log was opened again: a purge of nothing from no queue.
    pub(crate) fn append_begin(&mut self, now: Now) {
        self.touch(now);
        self.open_positions = None;
        self.open_needs_flush = true;
        let (nobody, outcome) = (record::NOBODY, Outcome::Released);
        Positions::write(Kind::Purge, nobody, outcome, now.wall_ms, 0, &[], self.open.records());
    }

    pub(crate) fn append_positions(
        &mut self,
        now: Now,
        kind: Kind,
        queue: QueueId,
        outcome: Outcome,
        range: SeqRange,
    ) {
        self.touch(now);
        if let Some(at) = self.open_positions
            && at >= self.open_applied
            && (Positions::extend_last(
                &mut self.open.records().bytes_mut()[at..],
                kind,
                queue,
                outcome,
                range,
            ) || Positions::add_range(self.open.records(), at, kind, queue, outcome, range))
        {
            return;
        }
        self.open_positions = Some(self.open.len());
        Positions::write(kind, queue, outcome, now.wall_ms, 0, &[range], self.open.records());
    }

    /// Appends the record that positions came back and are delayed until `due_at_ms`, milliseconds since 1970.
    #[cold]
    pub(crate) fn append_postponed(
        &mut self,
        now: Now,
        queue: QueueId,
        outcome: Outcome,
        range: SeqRange,
        due_at_ms: u64,
    ) {
        self.touch(now);
        self.open_positions = None;
        let kind = Kind::Postpone;
        Positions::write(kind, queue, outcome, now.wall_ms, due_at_ms, &[range], self.open.records());
    }

    /// What was appended goes to disk at the end of the turn, though nobody waits for it.
    pub(crate) fn flush_soon(&mut self) {
        self.open_needs_flush |= !self.open.is_empty();
    }

    // ---- committing

    /// Ends the turn: applies what nobody waits for, and seals the open batch if it is to be written. Sealed batches go
    /// to `out`; the caller writes them in order and reports with [`Log::written`].
    pub(crate) fn end_turn(&mut self, now: Now, limits: &Limits, post: &mut Post, out: &mut Vec<Sealed>) {
        if self.in_flight.is_empty() && !self.open_has_messages && !self.open_needs_flush {
            // What came back goes to the front before anything else is handed out.
            self.apply_rest(limits);
        }
        if self.streams.is_some() {
            self.begin_share(now, limits);
        }
        self.dispatch(now, limits, post);
        if self.open.is_empty() && self.not_given_out == 0 {
            return;
        }
        if self.rule == CommitRule::Immediate {
            if self.open_has_messages {
                let (sealed, applied) = self.seal(now);
                let waiters = self.take_waiters();
                self.apply_sealed(now, (&sealed, applied), None, &waiters, limits, post);
                self.put_waiters(waiters);
                self.batches.spare.put(sealed.memory, limits.spare_buffers_max);
            } else {
                self.apply_open(now, limits, post);
                self.apply_rest(limits);
                let (sealed, _) = self.seal(now);
                self.batches.spare.put(sealed.memory, limits.spare_buffers_max);
            }
            return;
        }
        if self.in_flight.len() > self.not_given_out {
            return;
        }
        if self.open_needs_flush || (self.not_given_out > 0 && !self.open.is_empty()) {
            self.close_full(now);
        }
        if self.not_given_out > 0 {
            return self.give_out(out);
        }
        if self.open_has_messages {
            let (sealed, applied) = self.seal(now);
            let waiters = self.take_waiters();
            self.apply_sealed(now, (&sealed, applied), None, &waiters, limits, post);
            self.put_waiters(waiters);
            self.give_out_early(sealed, out);
        } else {
            self.apply_open(now, limits, post);
            if !self.open_needs_flush && self.is_lazy_due(now, limits) {
                self.apply_rest(limits);
                let (sealed, _) = self.seal(now);
                self.give_out_early(sealed, out);
            }
        }
        // What handing out fed to a queue goes to disk now: no other turn may come.
        if self.open_needs_flush {
            self.close_full(now);
            self.give_out(out);
        }
    }

    /// Gives out what was closed; nothing else is in flight.
    fn give_out(&mut self, out: &mut Vec<Sealed>) {
        out.extend(self.in_flight.iter().map(|batch| batch.sealed.clone()));
        self.not_given_out = 0;
    }

    /// Gives out a batch that was applied already. It counts until it is written: else who publishes what need not be safe would
    /// fill memory, and keep the disk from those who wait for it, as fast as it can send.
    fn give_out_early(&mut self, sealed: Sealed, out: &mut Vec<Sealed>) {
        self.early_bytes += sealed.len;
        out.push(sealed);
    }

    fn is_lazy_due(&self, now: Now, limits: &Limits) -> bool {
        self.open.len() > limits.lazy_batch_bytes_max
            || now.mono_ns >= self.open_since + limits.lazy_batch_ms_max * base::time::NS_PER_MS
    }

    /// When [`Log::end_turn`] has something to do though nothing more came; monotonic nanoseconds.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<u64> {
        let is_lazy = !self.open.is_empty() && self.in_flight.is_empty() && !self.open_needs_flush;
        let lazy = is_lazy.then(|| self.open_since + limits.lazy_batch_ms_max * base::time::NS_PER_MS);
        let retry = self.streams.as_ref().and_then(|streams| streams.deadline());
        [lazy, self.timers.first(), retry].into_iter().flatten().min()
    }

    /// Closes the open batch: it, and how many bytes of its records are applied already.
    fn seal(&mut self, now: Now) -> (Sealed, usize) {
        let applied = self.open_applied;
        // Batches are mostly about as large as those before them.
        self.batch_bytes = self.open.len().max(self.batch_bytes - self.batch_bytes / 8);
        let fresh = Batch::new(self.id, self.open.next(), self.batches.spare.take_like(self.batch_bytes));
        let full = std::mem::replace(&mut self.open, fresh);
        self.open_applied = 0;
        self.open_positions = None;
        self.open_has_messages = false;
        self.open_needs_flush = false;
        (full.seal(now.wall_ms), applied)
    }

    /// Lets go of the buffers that were not needed lately.
    pub(crate) fn forget_spares(&mut self) {
        self.batches.spare.forget_unused();
        self.referred.forget_made();
        if self.open.is_empty() && self.batches.spare.is_empty() {
            *self.open.records() = Buffer::default();
            self.batch_bytes = 0;
        }
    }

    fn take_waiters(&mut self) -> Vec<Waiter> {
        std::mem::replace(&mut self.waiters, self.spare_waiters.pop().unwrap_or_default())
    }

    fn put_waiters(&mut self, mut waiters: Vec<Waiter>) {
        waiters.clear();
        if self.spare_waiters.len() < 2 {
            self.spare_waiters.push(waiters);
        }
    }

    /// A batch that [`Log::end_turn`] gave out is on disk, at `place`.
    pub(crate) fn written(
        &mut self,
        now: Now,
        base: LogIndex,
        place: Place,
        limits: &Limits,
        post: &mut Post,
    ) {
        let Some(at) = self.in_flight.iter().position(|batch| batch.sealed.base == base) else {
            // It was applied before it was written. It is as committed as one that somebody waits for: a change of
            // the catalog that shares the log with queues waits for everything before it.
            self.early_bytes -= place.len as usize;
            let most = limits.resident_bytes_max + self.loaded_beyond(limits);
            self.batches.placed(base, place, most, limits.spare_buffers_max);
            self.committed = self.committed.max(LogIndex(base.0 + place.len));
            return;
        };
        self.in_flight[at].is_written = Some(place);
        self.commit(now, limits, post);
    }

    /// Under [`CommitRule::Quorum`]: all records before `end` are agreed on.
    pub(crate) fn agreed(&mut self, now: Now, end: LogIndex, limits: &Limits, post: &mut Post) {
        for batch in &mut self.in_flight {
            batch.is_agreed |= batch.sealed.next() <= end;
        }
        self.commit(now, limits, post);
    }

    /// Applies the batches at the front that are committed.
    fn commit(&mut self, now: Now, limits: &Limits, post: &mut Post) {
        while let Some(first) = self.in_flight.front()
            && let Some(place) = first.is_written
            && (self.rule != CommitRule::Quorum || first.is_agreed)
        {
            let InFlight { sealed, applied, waiters, since, .. } =
                self.in_flight.pop_front().expect("there is a first");
            self.in_flight_bytes -= sealed.memory.len();
            self.committed = sealed.next();
            let messages = self.apply_sealed(now, (&sealed, applied), Some(place), &waiters, limits, post);
            let took_ns = now.mono_ns.saturating_sub(since);
            self.latencies.publish_to_commit.add(took_ns, messages);
            self.put_waiters(waiters);
            // Where memory is full it was dropped already, and nobody else has it.
            self.batches.spare.put(sealed.memory, limits.spare_buffers_max);
        }
    }

    // ---- applying

    /// How many messages it brought: to queues, or where there are none those that somebody waits for.
    fn apply_sealed(
        &mut self,
        now: Now,
        (sealed, applied): (&Sealed, usize),
        place: Option<Place>,
        waiters: &[Waiter],
        limits: &Limits,
        post: &mut Post,
    ) -> u64 {
        let memory = Some(sealed.memory.clone());
        self.batches.push(sealed.base, sealed.len as u32, memory, place, now.mono_ns);
        let from = LogIndex(sealed.base.0 + applied as u64);
        self.delayed = 0;
        let live = self.apply_records(from, &sealed.records()[applied..]);
        self.batches.came(sealed.base, live, limits.spare_buffers_max);
        self.let_go(limits);
        waiters.iter().for_each(|waiter| post.confirm(waiter));
        self.dispatch(now, limits, post);
        if self.batches.is_over(limits.resident_bytes_max) {
            self.evict(limits);
        } else if live > 0 && self.delayed == live && self.batches.is_over(limits.resident_delayed_bytes_max)
        {
            self.batches.evict_newest(limits.resident_delayed_bytes_max);
        }
        match live {
            0 => waiters.iter().map(|waiter| waiter.last - waiter.first + 1).sum(),
            live => live.into(),
        }
    }

    /// Drops from memory what is needed last.
    #[cold]
    #[inline(never)]
    fn evict(&mut self, limits: &Limits) {
        let most = limits.resident_bytes_max + self.loaded_beyond(limits);
        match std::mem::take(&mut self.has_levels) {
            true => self.batches.evict_oldest(most, limits.spare_buffers_max),
            false => self.batches.evict_newest(most),
        }
    }

    /// Applies records of the open batch, none of which is a message, and hands out what that made ready.
    fn apply_open(&mut self, now: Now, limits: &Limits, post: &mut Post) {
        self.apply_rest(limits);
        self.dispatch(now, limits, post);
    }

    /// Applies what of the open batch is not applied yet. Due again before it is sealed: handing out appends what it
    /// settles at once, and what is sealed counts as applied.
    fn apply_rest(&mut self, limits: &Limits) {
        let instead = Batch::new(self.id, self.open.next(), Buffer::default());
        let open = std::mem::replace(&mut self.open, instead);
        let at = LogIndex(open.base().0 + self.open_applied as u64);
        self.apply_records(at, &open.bytes()[self.open_applied..]);
        self.open_applied = open.len();
        self.open = open;
        self.let_go(limits);
    }

    /// Applies records to their queues and counts the messages that became live, once per queue. Records of queues
    /// that are gone are passed over.
    pub(crate) fn apply_records(&mut self, base: LogIndex, records: &[u8]) -> u32 {
        let mut at = base;
        let mut live = 0;
        let mut rest = records;
        while let Some((kind, record, after)) = record::split(rest) {
            match kind {
                Kind::Enqueue => live += self.apply_enqueue(at, record),
                Kind::Catalog => {}
                Kind::Append => self.apply_append(record),
                Kind::Track => self.apply_track(record),
                Kind::Refer => live += self.apply_refer(at, record),
                Kind::Truncate => self.apply_truncate(record),
                Kind::Configure => self.apply_configure(record),
                Kind::Annotate => self.apply_annotate(record),
                _ => self.apply_positions(kind, record),
            }
            at.0 += (rest.len() - after.len()) as u64;
            rest = after;
        }
        assert!(rest.is_empty(), "a committed batch holds whole records");
        self.close_chunks();
        live
    }

    #[inline]
    fn apply_enqueue(&mut self, at: LogIndex, record: &[u8]) -> u32 {
        let message = Enqueue::read(record).expect("a committed batch holds whole records");
        let asks = message.flags & (flag::PRIORITY | flag::DELAYED | flag::FAILED) != 0
            || message.expires_at_ms != 0;
        let mut live = 0;
        for id in message.queues() {
            let Some(slot) = self.slot(id) else {
                self.apply_to_stream(id, record);
                continue;
            };
            let queue = &mut self.queues[slot as usize];
            let is_transient = !message.is_durable() && !queue.definition.is_quorum();
            if asks || queue.has_features() {
                // The record, not what was read of it, which would have to be kept for this.
                if !queue.arrive(at, record, is_transient) {
                    continue;
                }
                self.has_levels |= queue.fifo.has_levels();
                self.delayed += u32::from(message.flags & flag::DELAYED != 0);
            } else {
                queue.fifo.enqueue(at, is_transient);
            }
            live += 1;
            self.mark_dirty(slot);
        }
        live
    }

    /// A message came that lies in a segment of a stream.
    #[cold]
    #[inline(never)]
    fn apply_refer(&mut self, at: LogIndex, record: &[u8]) -> u32 {
        let refer = Refer::read(record).expect("a committed batch holds whole records");
        let Some(slot) = self.slot(refer.queue) else { return 0 };
        let queue = &mut self.queues[slot as usize];
        let seq = queue.fifo.next_seq();
        queue.arrive_referred(at, &refer);
        queue.refers = true;
        self.has_levels |= queue.fifo.has_levels();
        self.streams_mut().references.add(refer.queue, seq, refer.segment);
        self.mark_dirty(slot);
        1
    }

    fn apply_positions(&mut self, kind: Kind, record: &[u8]) {
        let positions = Positions::read(record).expect("a committed batch holds whole records");
        let Some(slot) = self.slot(positions.queue) else { return };
        let fifo = &mut self.queues[slot as usize].fifo;
        if fifo.has_features() && kind == Kind::Settle {
            fifo.settled_together(positions.ranges(), &mut self.effects);
        } else {
            for range in positions.ranges() {
                match kind {
                    Kind::Settle => fifo.settled(range, &mut self.effects),
                    Kind::Return => fifo.returned(range, positions.outcome, &mut self.effects),
                    Kind::Purge => fifo.purged(range, &mut self.effects),
                    Kind::Postpone => {
                        let due_at_ms = positions.delivered_at_ms;
                        fifo.postponed(range, positions.outcome, due_at_ms, &mut self.effects);
                    }
                    kind => fifo.record(rare(kind, range), &mut self.effects),
                }
            }
        }
        if !self.effects.list.is_empty() {
            self.set_aside(positions.queue);
        }
        self.mark_dirty(slot);
    }

    /// Keeps what a queue's machine has asked for apart from what others ask for.
    #[cold]
    #[inline(never)]
    fn set_aside(&mut self, queue: QueueId) {
        self.set_aside.push((queue, std::mem::take(&mut self.effects.list)));
    }

    /// Does what was asked for when records were applied, but for queues that are gone.
    #[cold]
    #[inline(never)]
    pub(crate) fn carry_out_set_aside(&mut self, now: Now, limits: &Limits, post: &mut Post) {
        for (queue, list) in std::mem::take(&mut self.set_aside) {
            if let Some(slot) = self.slot(queue) {
                self.effects.list = list;
                self.carry_out(now, slot, None, limits, post);
            }
        }
    }

    /// Something was asked for when records were applied.
    #[inline]
    pub(crate) fn has_set_aside(&self) -> bool {
        !self.set_aside.is_empty()
    }

    /// Frees what left the queues since the last time.
    pub(crate) fn let_go(&mut self, limits: &Limits) {
        if !self.effects.left.is_empty() {
            self.batches.left(&self.effects.left, limits.spare_buffers_max);
            self.effects.left.clear();
        }
    }

    #[inline]
    pub(crate) fn mark_dirty(&mut self, slot: u32) {
        let queue = &mut self.queues[slot as usize];
        if !queue.is_dirty {
            queue.is_dirty = true;
            self.dirty.push_back(slot);
        }
    }
}
