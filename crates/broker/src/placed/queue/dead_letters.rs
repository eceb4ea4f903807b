//! Dead letters of a queue: messages that died in it and are to be published anew where it sends its dead.
//!
//! A queue's machine names the dead ([`queue::Effect::DeadLetter`]); its log hands them out with their bytes as
//! [`DeadLetter`]s, in the order in which they died and only so many at once. Each stays in its queue until the copy is safe. Not
//! here: publishing them ([`crate::dead_letterings`]).

use crate::catalog::{DeadLetterRule, QueueDefinition};
use crate::limits::Limits;
use crate::placed::queue::at::AtQueue;
use crate::placed::queue::delivery::Site;
use crate::placed::queue::features::Features;
use crate::reading::ReadWhat;
use crate::turn::Turn;
use base::id::QueueSeq;
use base::{Memory, Now};
use message::record::{DeathReason, Enqueue, SeqRange};
use queue::Command;
use std::sync::Arc;

/// A message that died, with its bytes.
#[derive(Debug)]
pub(crate) struct DeadLetter {
    pub(crate) queue: Arc<QueueDefinition>,
    pub(crate) rule: Arc<DeadLetterRule>,
    /// Its position; none: the queue refused it.
    pub(crate) position: Option<QueueSeq>,
    /// The number of the time for which its queue is owned.
    pub(crate) tenure: u32,
    pub(crate) reason: DeathReason,
    /// How often its delivery failed in the queue.
    pub(crate) failures: u32,
    pub(crate) memory: Memory,
    /// Where its record begins.
    pub(crate) offset: u32,
}

impl DeadLetter {
    /// How often deliveries of it failed in all, its refusal included where that counts. A queue that counts went on from
    /// what it came with.
    pub(crate) fn failures_of(&self, message: &Enqueue<'_>) -> u16 {
        let before = if self.queue.is_quorum() && self.position.is_some() { 0 } else { message.failures() };
        let refused = u32::from(self.reason == DeathReason::Rejected);
        let all = self.failures.saturating_add(before.into()).saturating_add(refused);
        all.try_into().unwrap_or(u16::MAX)
    }
}

impl AtQueue<'_> {
    /// Positions of a queue died: they are to be published anew.
    pub(crate) fn died(&mut self, range: SeqRange, reason: DeathReason) {
        self.count_dead(range, reason);
        if let Some(features) = &mut self.queue.features {
            match features.dying.back_mut() {
                Some((before, of)) if *of == reason && before.last.0 + 1 == range.first.0 => {
                    before.last = range.last;
                }
                _ => features.dying.push_back((range, reason)),
            }
            self.list_dying();
        }
    }

    /// A queue has dead letters.
    pub(crate) fn list_dying(&mut self) {
        if let Some(features) = &mut self.queue.features
            && !features.dying.is_empty()
            && !std::mem::replace(&mut features.is_listed, true)
        {
            self.commons.agenda.dying.push_back(self.slot);
        }
    }

    pub(crate) fn dead_letter_of(&mut self, limits: &Limits) -> Found {
        let Some(features) = &mut self.queue.features else { return Found::Later };
        let Some((range, reason)) = features.dying.front_mut() else { return Found::Later };
        // Those that could not be placed count: the ones behind them would fare no better, and are not tried each time.
        if features.dead_lettering + features.unplaced.len() >= limits.dead_letterings_max {
            return Found::Later;
        }
        let (seq, reason) = (range.first, *reason);
        let Some(rule) = features.rules.dead_letter.clone() else {
            let range = *range;
            features.dying.pop_front();
            return Found::Nobody(range);
        };
        let (memory, offset) = match self.locate(seq) {
            Site::Here(memory, offset) => (memory.clone(), offset),
            Site::Away(what) => {
                self.commons.reads.reading.wait(what, self.slot, None);
                return Found::Later;
            }
            Site::Gone => {
                self.pop_dying();
                return Found::Gone;
            }
        };
        self.pop_dying();
        let (memory, offset) = self.with_annotations(seq, (memory, offset));
        let queue = &mut *self.queue;
        if let Some(features) = &mut queue.features {
            features.dead_lettering += 1;
        }
        let failures = queue.fifo.failed(seq);
        let (queue, position) = (queue.definition().clone(), Some(seq));
        let tenure = self.commons.pipeline.tenure();
        Found::DeadLetter(DeadLetter { queue, rule, position, tenure, reason, failures, memory, offset })
    }

    /// Takes the first position off the dying.
    fn pop_dying(&mut self) {
        let Some(features) = &mut self.queue.features else { return };
        let Some((range, _)) = features.dying.front_mut() else { return };
        if range.first == range.last {
            features.dying.pop_front();
        } else {
            range.first.0 += 1;
        }
    }

    /// The bytes of the first dying message are damaged: it stays where it is, and those behind it go on.
    pub(crate) fn pass_over_dying(&mut self, what: ReadWhat) {
        while let Some(seq) = self.first_dying()
            && matches!(self.locate(seq), Site::Away(found) if found == what)
        {
            self.pop_dying();
        }
    }

    fn first_dying(&self) -> Option<QueueSeq> {
        let features = self.queue.features.as_ref()?;
        features.dying.front().map(|(range, _)| range.first)
    }

    /// Positions have been published anew, or go nowhere: they leave the queue.
    pub(crate) fn end_dead(&mut self, turn: &mut Turn<'_>, range: SeqRange) {
        let queue = &mut *self.queue;
        if let Some(last_words) = queue.features.as_mut().and_then(|features| features.last_words.as_mut()) {
            last_words.forget(range);
        }
        queue.fifo.apply(Command::DeadLettered { range }, &mut self.commons.effects);
        self.carry_out(turn, None);
    }
}

/// The outcome of looking for a queue's next dead letter.
pub(crate) enum Found {
    DeadLetter(DeadLetter),
    /// These were to be dead-lettered, but the rules send them nowhere any more.
    Nobody(SeqRange),
    /// It left meanwhile.
    Gone,
    /// None, or not now.
    Later,
}

impl Features {
    /// The message could not be placed: it is tried again later.
    pub(crate) fn hold_back(&mut self, now: Now, range: SeqRange, reason: DeathReason, limits: &Limits) {
        if self.unplaced.is_empty() {
            self.retry_at_ms = now.wall_ms.saturating_add(limits.dead_lettering_retry_ms);
        }
        self.unplaced.push((range, reason));
    }

    /// Messages that could not be placed before are tried again, if it is time.
    pub(crate) fn try_again(&mut self, now: Now) {
        if !self.unplaced.is_empty() && self.retry_at_ms <= now.wall_ms {
            for entry in self.unplaced.drain(..).rev() {
                self.dying.push_front(entry);
            }
        }
    }
}
