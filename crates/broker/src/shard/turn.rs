//! A shard's turn: mail comes in, logs end what they began, batches, reads, events and mail go out.

use super::{CATALOG_LOG, Shard};
use crate::dead_letters::{Heard, own_port};
use crate::event::Events;
use crate::log::Log;
use crate::mail::Mail;
use crate::planner::Planner;
use crate::queue_commands::Done;
use crate::reading::{ReadBytes, ReadRequest};
use crate::turn::Turn;
use base::id::{LogId, LogIndex, ShardId};
use base::{Buffer, Now};
use journal::{Place, Sealed};

/// Parcels of another shard that came and are not acknowledged yet.
#[derive(Debug, Default)]
pub(super) struct Unacknowledged {
    /// Bytes of records.
    bytes: usize,
    /// The memory the last of them came in, emptied.
    buffer: Option<Buffer>,
}

impl Shard {
    /// Takes in what another shard sent. Events in it are for the connections: they are appended to `events`.
    pub fn receive(&mut self, now: Now, mail: Mail) -> Option<Box<Events>> {
        match mail {
            Mail::Append { from, log, mut records, waiters, needs_flush } => {
                if self.stopped.contains(&log) {
                    self.drop_stopped(log, records.bytes(), &waiters);
                } else if let Some(log) = self.log_mut(log) {
                    log.commons.append_records(now, records.bytes(), &waiters, needs_flush);
                }
                let unacknowledged = &mut self.unacknowledged[from.0 as usize];
                unacknowledged.bytes += records.len();
                records.truncate(0);
                unacknowledged.buffer = Some(records);
            }
            Mail::Ask { from, log, record, waiter, needs_flush } => {
                self.unacknowledged[from.0 as usize].bytes += record.len();
                match self.stopped.contains(&log) {
                    true => self.drop_stopped(log, record.bytes(), waiter.as_slice()),
                    false => self.admit(now, log, record, waiter, needs_flush),
                }
            }
            Mail::Remember { from, exchanges, record } => {
                self.unacknowledged[from.0 as usize].bytes += record.len();
                self.remember(now, &exchanges, record.bytes());
            }
            Mail::Announce(announcement) => self.publish_announcement(now, &announcement),
            Mail::Replies { from, replies } => {
                self.unacknowledged[from.0 as usize].bytes += replies.records.len();
                self.replies.deliver(replies, &self.settings.limits, &mut self.post);
            }
            Mail::ReplyAsked { port, token, address, missing } => {
                self.answer_whether_there(port, token, address, *missing);
            }
            mail @ (Mail::Came { .. } | Mail::Left { .. }) => self.count(mail),
            Mail::Taken { bytes, buffer } => {
                self.under_way -= bytes;
                if let Some(buffer) = buffer {
                    self.parcels.put_empty(buffer, self.settings.limits.spare_buffers_max);
                }
            }
            Mail::Queue { log, queue, port, command } => self.at_queue(now, log, queue, port, command),
            Mail::Plan { actor, answer, op } => self.plan(now, actor, answer, *op),
            Mail::Changes { number, changes } => {
                changes.iter().for_each(|change| self.apply_change(Some(now), change));
                let planner = self.settings.placement.owner(CATALOG_LOG);
                self.post.send(planner, Mail::ChangesSeen { number });
            }
            Mail::ChangesSeen { number } => {
                if let Some(planner) = &mut self.planner {
                    planner.seen(number);
                }
            }
            Mail::Answered { first, last, fate } => {
                self.post.heard.push(Heard { first, last, fate });
            }
            Mail::Stopped { log } => self.stop_log(log),
            Mail::Events(events) => return Some(events),
        }
        None
    }

    /// Ends the turn: what nobody waits for is applied, what somebody waits for is sealed. The batches in `out` are to
    /// be written, in order, in one group, and reported with [`Shard::written`].
    pub fn end_turn(&mut self, now: Now, out: &mut Vec<Sealed>) {
        let limits = self.settings.limits;
        self.replies.end_turn(&limits, &mut self.post);
        if self.has_dead() {
            self.publish_dead_letters(now);
        }
        // The catalog's log comes first, in every group: a queue is on disk before anything in it.
        for slot in 0..self.logs.len() {
            self.logs[slot].end_turn(&mut Turn::new(now, &limits, &mut self.post), out);
            self.carry_parked(now, slot);
            self.logs[slot].take_reads(&limits, &mut self.reads);
            if self.logs[slot].commons.agenda.timers.first().is_some_and(|at| at <= now.mono_ns) {
                self.ring(now, slot);
            }
        }
        if let Some(planner) = &mut self.planner {
            let slot = self.log_slots[&CATALOG_LOG];
            planner.close_wave(Some(self.logs[slot as usize].commons.pipeline.next()));
        }
        self.advance_waves(now);
        self.tell_taken();
        if self.spares_at <= now.mono_ns {
            self.forget_spares(now);
        }
    }

    /// Lets go of the buffers that no log needed lately.
    #[cold]
    #[inline(never)]
    fn forget_spares(&mut self, now: Now) {
        self.spares_at = now.after_ms(self.settings.limits.spare_ms_max);
        self.logs.iter_mut().for_each(Log::forget_spares);
        self.parcels.forget_unused();
    }

    /// Does what is due in the queues of a log.
    #[cold]
    fn ring(&mut self, now: Now, slot: usize) {
        let mut ended = Vec::new();
        let limits = self.settings.limits;
        self.logs[slot].look(&mut Turn::new(now, &limits, &mut self.post));
        self.logs[slot].ring(now, &mut ended);
        for definition in ended {
            let port = own_port(self.settings.id);
            self.finish(now, port, Done::Delete { definition, token: None, messages: 0 });
        }
    }

    /// Something is to be published anew, or what was is answered.
    #[inline]
    pub(super) fn has_dead(&self) -> bool {
        !self.post.heard.is_empty() || !self.dead_letters.is_empty() || self.has_dying()
    }

    /// Queues have dead letters.
    #[inline]
    fn has_dying(&self) -> bool {
        self.logs.iter().any(|log| !log.commons.agenda.dying.is_empty())
    }

    /// Tells other shards that what they sent is taken in, unless too much waits for the disk here: then they hold
    /// their publishers as this shard holds its own.
    fn tell_taken(&mut self) {
        if self.bytes_in_flight() > self.settings.limits.log_bytes_in_flight_max {
            return;
        }
        for (to, unacknowledged) in
            self.unacknowledged.iter_mut().enumerate().filter(|(_, unacknowledged)| unacknowledged.bytes > 0)
        {
            let Unacknowledged { bytes, buffer } = std::mem::take(unacknowledged);
            self.post.send(ShardId(to as u16), Mail::Taken { bytes, buffer });
        }
    }

    /// The batch with this base, given out by [`Shard::end_turn`], is on disk.
    pub fn written(&mut self, now: Now, log: LogId, base: LogIndex, place: Place) {
        let limits = self.settings.limits;
        if let Some(slot) = self.log_slots.get(&log).map(|slot| *slot as usize) {
            self.logs[slot].written(&mut Turn::new(now, &limits, &mut self.post), base, place);
            self.carry_parked(now, slot);
            self.logs[slot].take_reads(&limits, &mut self.reads);
        }
        if log == CATALOG_LOG {
            self.advance_waves(now);
        }
        self.tell_taken();
    }

    /// Under [`CommitRule::Quorum`]: somebody outside says that all records of `log` before `end` are agreed on. What of
    /// them is also on this node's disk is committed now.
    pub fn commit_outside(&mut self, now: Now, log: LogId, end: LogIndex) {
        let limits = self.settings.limits;
        if let Some(slot) = self.log_slots.get(&log).map(|slot| *slot as usize) {
            self.logs[slot].agreed(&mut Turn::new(now, &limits, &mut self.post), end);
            self.carry_parked(now, slot);
            self.logs[slot].take_reads(&limits, &mut self.reads);
        }
    }

    /// Something is left to do at once, without anything more coming in.
    pub fn has_work(&self) -> bool {
        self.has_pressing_work() || self.logs.iter().any(Log::has_work)
    }

    /// As [`Shard::has_work`], but for what readers of streams wait for: who has something to publish comes before them.
    pub fn has_pressing_work(&self) -> bool {
        self.logs.iter().any(Log::has_pressing_work)
            || self.post.has_events()
            || !self.post.heard.is_empty()
            || !self.dead_letters.is_empty()
            || (self.may_dead_letter() && self.has_dying())
            || self.planner.as_ref().is_some_and(Planner::has_open_wave)
    }

    /// When to come back though nothing came in; monotonic nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        let has_spares = !self.parcels.is_empty()
            || self.logs.iter().any(|log| !log.commons.store.batches.spare.is_empty());
        let logs = self.logs.iter().filter_map(|log| log.deadline(&self.settings.limits));
        logs.chain(has_spares.then_some(self.spares_at)).min()
    }

    /// Too much is appended, here or for other shards, and not yet committed: connections that publish are not to be
    /// read for now.
    pub fn is_congested(&self) -> bool {
        self.bytes_in_flight() + self.under_way > self.settings.limits.log_bytes_in_flight_max
            || (self.has_streams && self.unwritten_bytes() > self.settings.limits.stream_unwritten_bytes_max)
    }

    /// Memory of streams' chunks that are not written, bytes.
    fn unwritten_bytes(&self) -> usize {
        let streams = self.logs.iter().filter_map(|log| log.streams.as_ref());
        streams.map(|streams| streams.unwritten_bytes()).sum()
    }

    fn bytes_in_flight(&self) -> usize {
        self.logs.iter().map(|log| log.commons.pipeline.bytes()).sum()
    }

    /// Takes the reads that deliveries wait for; each is to be answered with [`Shard::read_done`].
    pub fn take_reads(&mut self, into: &mut Vec<ReadRequest>) {
        into.append(&mut self.reads);
    }

    /// What a read brought of each of its parts; `None`: the bytes there are not what was written, or cannot be read.
    ///
    /// # Panics
    /// When it brought more or fewer parts than were asked for.
    pub fn read_done(&mut self, now: Now, request: ReadRequest, brought: Vec<Option<ReadBytes>>) {
        let limits = self.settings.limits;
        if let Some(slot) = self.log_slots.get(&request.log).map(|slot| *slot as usize) {
            self.logs[slot].read_done(&mut Turn::new(now, &limits, &mut self.post), request, brought);
            // Now, while it is there: what is read next, for whom ever, may drive it out.
            if self.has_dying() {
                self.publish_dead_letters(now);
            }
            self.logs[slot].take_reads(&limits, &mut self.reads);
        }
    }

    /// Swaps this turn's events for the connections here into `into`, which is emptied first.
    pub fn take_events(&mut self, into: &mut Events) {
        self.post.take_events(into);
    }

    /// Moves the mail for another shard into `into`.
    pub fn take_mail(&mut self, to: ShardId, into: &mut Vec<Mail>) {
        self.post.take_mail(to, into);
    }
}
