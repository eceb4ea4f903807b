//! A log's turn ends, and its batches come back from the disk: what the pipeline says is due is done.

use super::{Due, Log};
use crate::limits::Limits;
use crate::turn::Turn;
use base::id::LogIndex;
use journal::{Place, Sealed};

impl Log {
    /// Ends the turn: applies what nobody waits for, and closes the open batch if it is to be written. Batches go to `out`;
    /// the caller writes them in order and reports with [`Log::written`].
    pub(crate) fn end_turn(&mut self, turn: &mut Turn<'_>, out: &mut Vec<Sealed>) {
        if self.pipeline.may_run_ahead() {
            // What came back goes to the front before anything else is handed out.
            self.apply_rest(turn.limits);
        }
        if self.streams.is_some() {
            self.begin_share(turn.now, turn.limits);
        }
        self.dispatch(turn);
        match self.pipeline.due(turn.now, turn.limits) {
            Due::Nothing => return,
            Due::Write => return self.pipeline.give_out(turn.now, &mut self.batches.spare, out),
            Due::Messages => {
                let closed = self.pipeline.close(turn.now, &mut self.batches.spare);
                self.apply_closed(turn, &closed, None);
                let spare = &mut self.batches.spare;
                self.pipeline.give_out_applied(closed, spare, turn.limits.spare_buffers_max, out);
            }
            Due::Rest => {
                self.apply_rest(turn.limits);
                self.dispatch(turn);
                if self.pipeline.is_rest_over(turn.now, turn.limits) {
                    // Handing out appends what it settles at once, and what is closed counts as applied.
                    self.apply_rest(turn.limits);
                    let spare = &mut self.batches.spare;
                    let closed = self.pipeline.close(turn.now, spare);
                    self.pipeline.give_out_applied(closed, spare, turn.limits.spare_buffers_max, out);
                }
            }
        }
        if self.pipeline.is_due_again() {
            self.pipeline.give_out(turn.now, &mut self.batches.spare, out);
        }
    }

    /// When [`Log::end_turn`] has something to do though nothing more came; monotonic nanoseconds.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<u64> {
        let retry = self.streams.as_ref().and_then(|streams| streams.deadline());
        [self.pipeline.deadline(limits), self.timers.first(), retry].into_iter().flatten().min()
    }

    /// Lets go of the buffers that were not needed lately.
    pub(crate) fn forget_spares(&mut self) {
        self.batches.spare.forget_unused();
        self.referred.forget_made();
        if self.batches.spare.is_empty() {
            self.pipeline.forget_spare();
        }
    }

    /// A batch that [`Log::end_turn`] gave out is on disk, at `place`.
    pub(crate) fn written(&mut self, turn: &mut Turn<'_>, base: LogIndex, place: Place) {
        if self.pipeline.written(base, place) {
            let most = turn.limits.resident_bytes_max + self.loaded_beyond(turn.limits);
            return self.batches.placed(base, place, most, turn.limits.spare_buffers_max);
        }
        self.commit(turn);
    }

    /// Under [`crate::CommitRule::Quorum`]: all records before `end` are agreed on.
    pub(crate) fn agreed(&mut self, turn: &mut Turn<'_>, end: LogIndex) {
        self.pipeline.agreed(end);
        self.commit(turn);
    }

    /// Applies the batches at the front that are committed.
    fn commit(&mut self, turn: &mut Turn<'_>) {
        while let Some((closed, place)) = self.pipeline.take_committed() {
            let messages = self.apply_closed(turn, &closed, Some(place));
            let took_ns = turn.now.mono_ns.saturating_sub(closed.since);
            self.latencies.publish_to_commit.add(took_ns, messages);
            self.pipeline.put_waiters(closed.waiters);
            // Where memory is full it was dropped already, and nobody else has it.
            self.batches.spare.put(closed.sealed.memory, turn.limits.spare_buffers_max);
        }
    }
}
