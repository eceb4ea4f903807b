//! Batches of a log are sealed, given out to be written, and applied once they are committed.

use super::Log;
use crate::commit::CommitRule;
use crate::limits::Limits;
use crate::mail::Waiter;
use crate::post::Post;
use base::id::LogIndex;
use base::{Buffer, Now};
use journal::{Batch, Place, Sealed};

/// A batch that was closed and is not committed yet.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) sealed: Sealed,
    /// Bytes of its records that were applied before it was sealed.
    pub(super) applied: usize,
    pub(super) waiters: Vec<Waiter>,
    /// When its first record came, monotonic nanoseconds.
    pub(super) since: u64,
    pub(super) is_written: Option<Place>,
    pub(super) is_agreed: bool,
}

impl Log {
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

    /// Takes all who wait for something that is not committed: nobody hears of it when it is.
    pub(crate) fn take_waiting(&mut self) -> Vec<Waiter> {
        let in_flight = self.in_flight.iter_mut().flat_map(|batch| batch.waiters.drain(..));
        in_flight.chain(self.waiters.drain(..)).collect()
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

    #[cold]
    pub(super) fn close_full(&mut self, now: Now) {
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
}
