//! Records that may not go into a log as they are: those for queues that refuse what is too much, which are asked first, and those
//! for a log that is stopped.

use super::Logs;
use crate::catalog::{Overflow, Refusal};
use crate::event::Event;
use crate::mail::{Fate, Waiter};
use crate::placed::queue::dead_letters::DeadLetter;
use crate::post::Post;
use base::hash::SetById;
use base::id::{LogId, PortId};
use base::{Buffer, Now};
use message::record::{self, DeathReason, Enqueue, Kind, leave_out};

impl Logs {
    /// Takes in records that another shard sent for a log of this one.
    pub(crate) fn take_in(
        &mut self,
        (now, post): (Now, &mut Post),
        log: LogId,
        records: &[u8],
        waiters: &[Waiter],
        needs_flush: bool,
    ) {
        if self.is_stopped(log) {
            drop_stopped(post, log, records, waiters);
        } else if let Some(log) = self.get_mut(log) {
            log.commons.append_records(now, records, waiters, needs_flush);
        }
    }

    /// As [`Logs::take_in`], for one message that some queues may refuse.
    pub(crate) fn take_in_asking(
        &mut self,
        (now, post): (Now, &mut Post),
        log: LogId,
        record: Buffer,
        waiter: Option<Waiter>,
        needs_flush: bool,
    ) {
        match self.is_stopped(log) {
            true => drop_stopped(post, log, record.bytes(), waiter.as_slice()),
            false => self.admit((now, post), log, record, waiter, needs_flush),
        }
    }

    /// Appends a message to a log of this shard, for those of its queues that have room for it. Who waits is told at once
    /// if any has not.
    pub(super) fn admit(
        &mut self,
        (now, post): (Now, &mut Post),
        log: LogId,
        mut record: Buffer,
        waiter: Option<Waiter>,
        needs_flush: bool,
    ) {
        let Some(slot) = self.slot(log) else { return };
        let message = Enqueue::read(record.bytes()).expect("a shard sends whole records");
        let full = self.all[slot].machines.ask(&message);
        let is_for_some = full.len() < message.queues().len();
        for id in &full {
            let Some((_, queue)) = self.all[slot].machines.find_queue(*id) else { continue };
            let Some(features) = &queue.features else { continue };
            if features.rules.overflow == Overflow::RejectPublishDeadLetter
                && let Some(rule) = features.rules.takes_dead()
            {
                let dead = DeadLetter {
                    queue: queue.definition().clone(),
                    rule: rule.clone(),
                    position: None,
                    tenure: self.all[slot].commons.pipeline.tenure(),
                    reason: DeathReason::MaxLength,
                    failures: 0,
                    memory: copy_of(record.bytes()),
                    offset: 0,
                };
                self.refused.push(dead);
            }
        }
        full.iter().for_each(|id| leave_out(record.bytes_mut(), *id));
        let is_refused = !full.is_empty();
        if let (Some(queue), Some(waiter)) = (full.first(), &waiter) {
            post.refuse(waiter, *queue);
        }
        if is_for_some {
            let waiters = waiter.filter(|_| !is_refused);
            self.all[slot].commons.append_records(now, record.bytes(), waiters.as_slice(), needs_flush);
        }
    }
}

/// Records that another shard sent for a log before it knew that the log is stopped go nowhere: a start does not replay so far. They
/// are reported, as nobody else hears of those that nobody waits for.
#[cold]
fn drop_stopped(post: &mut Post, log: LogId, records: &[u8], waiters: &[Waiter]) {
    post.damages.note_dropped(log, publishes_in(records));
    refuse_stopped(post, log, waiters);
}

/// Publishers that wait for records in a log that is stopped, or on their way to it, are told as those that publish to it afterwards,
/// which closes connections; messages of the broker's own stay where they were.
#[cold]
pub(super) fn refuse_stopped(post: &mut Post, log: LogId, waiters: &[Waiter]) {
    let mut closed = SetById::<PortId>::default();
    for waiter in waiters {
        if waiter.is_own() {
            post.answer(waiter, Fate::Stopped);
        } else if closed.insert(waiter.port) {
            post.event(waiter.port, Event::Close { refusal: Refusal::log_stopped(log) });
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
