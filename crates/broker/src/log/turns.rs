//! A log's part in a turn: its queues hand out what is ready, batches are given out and come back from the disk, timers
//! go off, reads end.

use super::{Commons, Due, Log};
use crate::catalog::QueueDefinition;
use crate::limits::Limits;
use crate::placed::queue::dead_letters::{DeadLetter, Found};
use crate::reading::{ReadBytes, ReadRequest, ReadWhat};
use crate::turn::Turn;
use base::Now;
use base::id::LogIndex;
use journal::{Place, Sealed};
use std::sync::Arc;

impl Log {
    /// Ends the turn: applies what nobody waits for, and closes the open batch if it is to be written. Batches go to `out`;
    /// the caller writes them in order and reports with [`Log::written`].
    pub(crate) fn end_turn(&mut self, turn: &mut Turn<'_>, out: &mut Vec<Sealed>) {
        if self.commons.pipeline.may_run_ahead() {
            // Messages that came back go to the front before anything else is handed out.
            self.apply_rest(turn.limits);
        }
        if let Some(streams) = self.streams.get_mut() {
            streams.begin_share(turn.now, turn.limits);
        }
        self.dispatch(turn);
        match self.commons.pipeline.due(turn.now, turn.limits) {
            Due::Nothing => return,
            Due::Write => {
                return self.commons.pipeline.give_out(turn.now, &mut self.commons.store.batches.spare, out);
            }
            Due::Messages => {
                let closed = self.commons.pipeline.close(turn.now, &mut self.commons.store.batches.spare);
                self.apply_closed(turn, &closed, None);
                let spare = &mut self.commons.store.batches.spare;
                self.commons.pipeline.give_out_applied(closed, spare, turn.limits.spare_buffers_max, out);
            }
            Due::Rest => {
                self.apply_rest(turn.limits);
                self.dispatch(turn);
                if self.commons.pipeline.is_rest_over(turn.now, turn.limits) {
                    // Handing out appends what it settles at once, and what is closed counts as applied.
                    self.apply_rest(turn.limits);
                    let spare = &mut self.commons.store.batches.spare;
                    let closed = self.commons.pipeline.close(turn.now, spare);
                    self.commons.pipeline.give_out_applied(closed, spare, turn.limits.spare_buffers_max, out);
                }
            }
        }
        if self.commons.pipeline.is_due_again() {
            self.commons.pipeline.give_out(turn.now, &mut self.commons.store.batches.spare, out);
        }
    }

    /// When [`Log::end_turn`] has something to do though nothing more came; monotonic nanoseconds.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<u64> {
        let written = self.commons.pipeline.deadline(limits);
        if self.commons.is_stopped {
            return written;
        }
        let retry = self.streams.get().and_then(|streams| streams.deadline());
        let Commons { pipeline, peers, .. } = &self.commons;
        let said = peers.as_ref().and_then(|peers| peers.deadline(pipeline, limits));
        [written, self.commons.agenda.timers.first(), retry, said].into_iter().flatten().min()
    }

    /// Lets go of the buffers that were not needed lately.
    pub(crate) fn forget_spares(&mut self) {
        self.commons.store.batches.spare.forget_unused();
        self.commons.reads.referred.forget_made();
        if self.commons.store.batches.spare.is_empty() {
            self.commons.pipeline.forget_spare();
        }
    }

    /// A batch that [`Log::end_turn`] gave out is on disk, at `place`.
    pub(crate) fn written(&mut self, turn: &mut Turn<'_>, base: LogIndex, place: Place) {
        if self.commons.pipeline.written(base, place) {
            let most = turn.limits.resident_bytes_max + self.commons.loaded_beyond(turn.limits);
            return self.commons.store.batches.placed(base, place, most, turn.limits.spare_buffers_max);
        }
        self.commit(turn);
    }

    /// Under [`crate::CommitRule::Quorum`]: all records before `end` are agreed on.
    pub(crate) fn agreed(&mut self, turn: &mut Turn<'_>, end: LogIndex) {
        self.commons.pipeline.agreed(end);
        self.commit(turn);
    }

    /// Applies the batches at the front that are committed.
    fn commit(&mut self, turn: &mut Turn<'_>) {
        while let Some((closed, place)) = self.commons.pipeline.take_committed() {
            let messages = self.apply_closed(turn, &closed, Some(place));
            let took_ns = turn.now.mono_ns.saturating_sub(closed.since);
            self.commons.figures.latencies.publish_to_commit.add(took_ns, messages);
            self.commons.pipeline.put_waiters(closed.waiters);
            // Where memory is full it was dropped already, and nobody else has it.
            self.commons.store.batches.spare.put(closed.sealed.memory, turn.limits.spare_buffers_max);
            if !self.commons.pipeline.outbox().is_empty() {
                self.confirm_recorded(turn.post);
            }
        }
    }

    // ---- what machines do

    /// Hands out ready messages to consumers with credit, for every machine something happened to. A queue that could
    /// hand out more than the limit stays on the list. A stopped log hands out nothing.
    pub(crate) fn dispatch(&mut self, turn: &mut Turn<'_>) {
        if self.commons.is_stopped {
            return;
        }
        if !self.commons.agenda.set_aside.is_empty() {
            self.carry_out_set_aside(turn);
        }
        if let Some(streams) = self.streams.get_mut() {
            streams.hand_out_all(&mut self.commons, &mut self.machines, turn);
        }
        if !self.commons.pipeline.leads() {
            return;
        }
        for _ in 0..self.commons.agenda.dirty.len() {
            let Some(slot) = self.commons.agenda.dirty.pop_front() else { break };
            self.at(slot).hand_out(turn);
        }
        if !self.commons.agenda.choosing.is_empty() {
            self.choose(turn);
        }
    }

    /// Asks messages of queues whose consumers choose, in turn, as many as a turn has work for.
    #[cold]
    #[inline(never)]
    fn choose(&mut self, turn: &mut Turn<'_>) {
        let mut left = turn.limits.choosing_work_max;
        while left > 0
            && let Some(slot) = self.commons.agenda.choosing.pop_front()
        {
            if let Some(mut at) = self.queue_at(slot) {
                left = left.saturating_sub(at.choose_some(turn.now).max(1));
            }
        }
    }

    /// Carries out the effects that were set aside when records were applied, but for queues that are gone.
    #[cold]
    #[inline(never)]
    fn carry_out_set_aside(&mut self, turn: &mut Turn<'_>) {
        for (queue, list) in std::mem::take(&mut self.commons.agenda.set_aside) {
            if let Some(slot) = self.machines.slot(queue)
                && let Some(mut at) = self.queue_at(slot)
            {
                at.commons.effects.list = list;
                at.carry_out(turn, None);
            }
        }
    }

    /// Rings the timers that are due. Queues that were unused for too long are added to `ended`: they are to be
    /// deleted. With `most` of them it stops, for the next turn.
    pub(crate) fn ring(&mut self, now: Now, ended: &mut Vec<Arc<QueueDefinition>>, most: usize) {
        while ended.len() < most
            && let Some(slot) = self.commons.agenda.timers.take_due(now.mono_ns)
        {
            self.at(slot).ring(now, ended);
        }
    }

    /// Looks at the messages that consumers hold, where that is due, and takes back those they hold for too long.
    pub(crate) fn look(&mut self, turn: &mut Turn<'_>) {
        while let Some((at, slot)) = self.commons.agenda.timers.take_look(turn.now.mono_ns) {
            // The queue, or all its consumers, may have gone, and others come.
            if let Some(mut queue) = self.queue_at(slot).filter(|found| found.queue.looks_at() == Some(at)) {
                queue.look(turn);
            }
        }
    }

    /// The next of the dead, if its bytes are in memory; else they are asked for. Where the queue's rules send the dead nowhere
    /// any more, they leave it at once.
    pub(crate) fn next_dead_letter(&mut self, turn: &mut Turn<'_>) -> Option<DeadLetter> {
        if self.commons.is_stopped {
            return None;
        }
        while let Some(slot) = self.commons.agenda.dying.front().copied() {
            let Some(mut at) = self.queue_at(slot) else {
                self.commons.agenda.dying.pop_front();
                continue;
            };
            match at.dead_letter_of(turn.limits) {
                Found::DeadLetter(dead) => {
                    // Queues take turns.
                    self.commons.agenda.dying.rotate_left(1);
                    return Some(dead);
                }
                Found::Nobody(range) => at.end_dead(turn, range),
                Found::Gone => {}
                Found::Later => {
                    if let Some(features) = &mut at.queue.features {
                        features.is_listed = false;
                    }
                    self.commons.agenda.dying.pop_front();
                }
            }
        }
        None
    }

    /// Moves the reads that deliveries wait for into `into`, as many as may be under way at once.
    #[inline]
    pub(crate) fn take_reads(&mut self, limits: &Limits, into: &mut Vec<ReadRequest>) {
        self.commons.take_reads(&self.machines, limits, into);
    }

    /// A read ended. Messages in parts that are not what was written, or could not be read, cannot be delivered.
    pub(crate) fn read_done(
        &mut self,
        turn: &mut Turn<'_>,
        request: ReadRequest,
        brought: Vec<Option<ReadBytes>>,
    ) {
        assert!(brought.len() == request.parts.len(), "a read answers for each of its parts");
        let bytes = request.bytes();
        let keeping = self.commons.reads.reading.keeping(request.reader);
        for (what, brought) in request.parts.into_iter().zip(brought) {
            if let Some(bytes) = brought {
                self.commons.keep_loaded(what, bytes, keeping, turn.limits);
                self.part_done(turn, what, false);
            } else {
                self.part_done(turn, what, true);
            }
        }
        // Parts that were taken along nobody asked for by name.
        if let Some(mut at) = self.queue_at(request.reader.slot)
            && at.queue.is_waiting()
            && at.queue.is_chosen_from()
        {
            at.deliver_waiting(turn);
            at.mark_dirty();
            self.dispatch(turn);
        }
        let queue = self.machines.queue(request.reader.slot);
        self.commons.read_came_back(request.reader, queue, bytes, turn.limits);
    }

    fn part_done(&mut self, turn: &mut Turn<'_>, what: ReadWhat, is_damaged: bool) {
        let slots = self.commons.reads.reading.take_asked(what);
        if slots.is_empty() {
            return;
        }
        for slot in slots {
            if let Some(mut at) = self.queue_at(slot) {
                at.read_done(turn, what, is_damaged);
            }
        }
        self.dispatch(turn);
    }
}
