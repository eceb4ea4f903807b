//! Records that may not go into a log as they are: those for queues that refuse what is too much, which are asked first, and those
//! for a log that is stopped.

use super::Logs;
use crate::catalog::Overflow;
use crate::log::{Commons, Records, visiting};
use crate::mail::Waiter;
use crate::placed::queue::dead_letters::DeadLetter;
use crate::post::Post;
use crate::stopped::refuse_stopped;
use base::id::{LogId, LogIndex};
use base::{Buffer, Now};
use message::record::{self, DeathReason, Enqueue, Kind, Stamp, leave_out};

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
        record: Buffer,
        waiter: Option<Waiter>,
        needs_flush: bool,
    ) {
        let Some(slot) = self.slot(log) else { return };
        match visiting::ask_elsewhere(&mut self.all[slot], record, waiter, needs_flush) {
            None => {}
            Some(record) => self.admit_here((now, post), slot, record, waiter, needs_flush, None),
        }
    }

    /// A guest's message that some queues may refuse comes under this number: see [`Logs::admit`]. Where the records end that are
    /// applied once it is done.
    pub(crate) fn admit_of(
        &mut self,
        (now, post): (Now, &mut Post),
        log: LogId,
        record: &[u8],
        waiter: Option<Waiter>,
        stamp: Stamp,
    ) -> LogIndex {
        let Some(slot) = self.slot(log) else { return LogIndex(0) };
        if visiting::is_new(&mut self.all[slot], stamp) {
            let mut copy = Buffer::with_capacity(record.len());
            copy.extend(record);
            self.admit_here((now, post), slot, copy, waiter, true, Some(stamp));
        } else if let Some(waiter) = &waiter {
            // It is in the log. Of several queues one may have refused it.
            let message = Enqueue::read(record).expect("a node sends whole records");
            let Commons { pipeline, origins, .. } = &mut self.all[slot].commons;
            match (message.queues().len(), message.queues().next()) {
                (2.., Some(queue)) => post.refuse(waiter, queue),
                _ if stamp.number <= origins.recorded(stamp.origin) => post.confirm(waiter),
                _ => pipeline.wait(*waiter),
            }
        }
        self.all[slot].commons.pipeline.next()
    }

    fn admit_here(
        &mut self,
        (now, post): (Now, &mut Post),
        slot: usize,
        mut record: Buffer,
        waiter: Option<Waiter>,
        needs_flush: bool,
        stamp: Option<Stamp>,
    ) {
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
            let commons = &mut self.all[slot].commons;
            match stamp {
                None => commons.append_records(now, record.bytes(), waiters.as_slice(), needs_flush),
                Some(stamp) => {
                    let range = 0..record.len();
                    commons.take_in(now, stamp, Records { memory: record.seal(), range });
                    waiters.into_iter().for_each(|waiter| commons.pipeline.wait(waiter));
                }
            }
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
