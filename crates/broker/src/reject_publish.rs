//! Queues that refuse messages when they are full are asked before a message is in their log.

use crate::catalog::{Overflow, Refusal};
use crate::dead_letters::{DeadLetter, is_own};
use crate::event::Event;
use crate::log::Queues;
use crate::mail::{Fate, Waiter};
use crate::owned::OwnedQueue;
use crate::shard::Shard;
use base::id::{LogId, PortId, QueueId};
use base::{Buffer, Now};
use message::record::{self, DeathReason, Enqueue, Kind, Refer, leave_out};
use rustc_hash::FxHashSet;

impl Queues {
    /// The queues of an enqueue record that are too full for it. Those that are not count it as arriving.
    fn ask(&mut self, message: &Enqueue<'_>) -> Vec<QueueId> {
        let mut full = Vec::new();
        for id in message.queues() {
            let Some((_, queue)) = self.get_mut(id) else { continue };
            let bytes = queue.size_of(message);
            let (coming, coming_bytes) = queue.arriving();
            let Some(features) = queue.features.as_mut().filter(|features| features.rules.refuses()) else {
                continue;
            };
            if queue.fifo.is_full(coming, (coming_bytes + bytes).saturating_sub(1)) {
                full.push(id);
            } else {
                features.arriving += 1;
                features.arriving_bytes += bytes;
            }
        }
        full
    }
}

impl OwnedQueue {
    /// Messages and bytes that are under way and fill a queue which refuses what is too much. While somebody takes them as
    /// they come, they fill nothing.
    fn arriving(&self) -> (u64, u64) {
        match &self.features {
            Some(features) if !self.fifo.has_taker() => (features.arriving, features.arriving_bytes),
            _ => (0, 0),
        }
    }

    /// Messages that a queue which refuses them has room for beside those under way; of one that does not, any.
    pub(crate) fn room_beside_arriving(&self) -> u64 {
        let (coming, coming_bytes) = self.arriving();
        self.fifo.vacancy(coming, coming_bytes)
    }

    /// Messages of these records are under way to it, and are not refused: they count as arriving where others might be.
    pub(crate) fn count_arriving(&mut self, mut records: &[u8]) {
        if !self.features.as_ref().is_some_and(|features| features.rules.refuses()) {
            return;
        }
        while let Some((kind, record, rest)) = record::split(records) {
            let bytes = match kind {
                Kind::Enqueue => Enqueue::read(record).map(|message| self.size_of(&message)),
                Kind::Refer => Refer::read(record).map(|refer| self.size_of_referred(&refer)),
                _ => None,
            };
            if let (Some(bytes), Some(features)) = (bytes, &mut self.features) {
                features.arriving += 1;
                features.arriving_bytes += bytes;
            }
            records = rest;
        }
    }
}

impl Shard {
    /// What another shard sent for a log before it knew that the log is stopped goes nowhere: a start does not replay so far. It
    /// is reported, as of what nobody waits for nobody else hears.
    #[cold]
    pub(crate) fn drop_stopped(&mut self, log: LogId, records: &[u8], waiters: &[Waiter]) {
        self.post.damages.note_dropped(log, publishes_in(records));
        self.refuse_stopped(log, waiters);
    }

    /// Who waits for what is in a log that is stopped, or was on its way to it, is told as who publishes to it afterwards, which
    /// closes connections; messages of the broker's own stay where they were.
    #[cold]
    pub(crate) fn refuse_stopped(&mut self, log: LogId, waiters: &[Waiter]) {
        let mut closed = FxHashSet::<PortId>::default();
        for waiter in waiters {
            if is_own(waiter) {
                self.post.answer(waiter, Fate::Stopped);
            } else if closed.insert(waiter.port) {
                self.post.event(waiter.port, Event::Close { refusal: Refusal::log_stopped(log) });
            }
        }
    }

    /// Appends a message to a log of this shard, for those of its queues that have room for it. Who waits is told at once
    /// if any has not.
    pub(crate) fn admit(
        &mut self,
        now: Now,
        log: LogId,
        mut record: Buffer,
        waiter: Option<Waiter>,
        needs_flush: bool,
    ) {
        let Some(slot) = self.log_slots.get(&log).map(|slot| *slot as usize) else { return };
        let message = Enqueue::read(record.bytes()).expect("a shard sends whole records");
        let full = self.logs[slot].queues.ask(&message);
        let is_for_some = full.len() < message.queues().len();
        for id in &full {
            let Some((_, queue)) = self.logs[slot].queues.get_mut(*id) else { continue };
            let Some(features) = &queue.features else { continue };
            if features.rules.overflow == Overflow::RejectPublishDeadLetter
                && let Some(rule) = features.rules.takes_dead()
            {
                let dead = DeadLetter {
                    queue: queue.definition.clone(),
                    rule: rule.clone(),
                    position: None,
                    reason: DeathReason::MaxLength,
                    failures: 0,
                    memory: copy_of(record.bytes()),
                    offset: 0,
                };
                self.dead_letters.push_back(dead);
            }
        }
        full.iter().for_each(|id| leave_out(record.bytes_mut(), *id));
        let is_refused = !full.is_empty();
        if let (Some(queue), Some(waiter)) = (full.first(), &waiter) {
            self.post.refuse(waiter, *queue);
        }
        if is_for_some {
            let waiters = waiter.filter(|_| !is_refused);
            self.logs[slot].commons.append_records(now, record.bytes(), waiters.as_slice(), needs_flush);
        }
    }
}

/// How many publishes came as these records: of a stream's messages one may hold many.
fn publishes_in(mut records: &[u8]) -> u64 {
    let mut count = 0;
    while let Some((kind, _, rest)) = record::split(records) {
        count += u64::from(matches!(kind, Kind::Enqueue | Kind::Append));
        records = rest;
    }
    count
}

/// Bytes that stay when the record goes into the log.
fn copy_of(record: &[u8]) -> base::Memory {
    let mut copy = Buffer::with_capacity(record.len());
    copy.extend(record);
    copy.seal()
}
