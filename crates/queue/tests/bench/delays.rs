//! The model of messages that wait for their time, and of limits meanwhile.

use super::*;
use queue::Retry;

impl Bench {
    /// Messages are due: those that came back are ready, then those past their time end, then those delayed when they came are ready.
    pub(super) fn model_due(&mut self) {
        let began_ms = *self.began_ms.get_or_insert(self.now_ms);
        let mut due = self.model_delayed();
        due.retain(|(due_ms, _)| *due_ms <= self.now_ms);
        let (back, new): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|(_, seq)| self.messages[*seq as usize].is_postponed);
        back.into_iter().for_each(|(_, seq)| self.model_ready_again(seq));
        self.model_expire(self.offered_below);
        for (due_ms, seq) in new {
            let behind = (self.messages.len() as u64, self.grown);
            let usual = if self.settings.priorities == Priorities::Strict { 4 } else { 0 };
            let message = &mut self.messages[seq as usize];
            if message.level == usual && message.group.is_none() {
                self.grown += 1;
                message.behind = Some(behind);
                message.was_delivered &= due_ms <= began_ms;
            }
            self.turn_to(seq, State::Ready);
        }
    }

    /// Messages that wait for their time: when each is due, and which it is.
    pub(super) fn model_delayed(&self) -> Vec<(u64, u64)> {
        let delayed = self.messages.iter().enumerate().filter(|(_, message)| message.state == State::Delayed);
        let mut delayed: Vec<_> =
            delayed.map(|(seq, message)| (message.due_ms.unwrap(), seq as u64)).collect();
        delayed.sort_unstable();
        delayed
    }

    pub(super) fn postpone(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let mut held = self.held(slot);
        let first = self.dice.below(held.len() as u64 + 1) as usize;
        held.drain(..first);
        held.truncate(self.dice.between(1, 12) as usize);
        let Some((first, last)) = held.first().zip(held.last()) else { return };
        let outcome = if self.dice.one_in(2) { Outcome::Failed } else { Outcome::Released };
        let due_ms = self.now_ms + self.dice.below(600);
        self.fifo.postpone(ConsumerId(slot), range(*first, *last), outcome, due_ms, &mut self.effects);
        assert_eq!(std::mem::take(&mut self.effects.ignored), last - first + 1 - held.len() as u64);
        for seq in held {
            self.consumers.get_mut(&slot).unwrap().watch.since.remove(&seq);
            if self.messages[seq as usize].state != State::Gone {
                self.turn_to(seq, State::Away);
                self.model_given_back(seq);
                let message = &mut self.messages[seq as usize];
                message.is_postponing = true;
                if !self.counts && outcome == Outcome::Failed {
                    message.failed = (message.failed + 1).min(100);
                }
                self.postpones.push((outcome, due_ms, seq));
            }
        }
        self.line_up(slot);
        self.write(&[]);
    }

    pub(super) fn cancel_delayed(&mut self) {
        let first = self.dice.below(self.messages.len() as u64 + 1);
        let range = range(first, first + self.dice.below(100));
        let mut delayed: Vec<u64> = self.model_delayed().into_iter().map(|(_, seq)| seq).collect();
        delayed.retain(|seq| (range.first.0..=range.last.0).contains(seq));
        delayed.sort_unstable();
        assert_eq!(self.fifo.delayed_within(range), delayed.len() as u64);
        self.fifo.apply(Command::CancelDelayed { range }, &mut self.effects);
        for seq in delayed {
            self.turn_to(seq, State::Away);
            self.appends.push((Kind::Purge, Outcome::Released, seq));
        }
        self.write(&[]);
    }

    /// How a queue may have messages wait that come back.
    pub(super) fn any_retry(&mut self) -> Option<Retry> {
        let dice = &mut self.dice;
        let (failed, released) = (dice.one_in(2), dice.one_in(2));
        let (min_ms, max_ms) = (1 + dice.below(200), dice.below(500));
        dice.one_in(2).then_some(Retry { failed, released, min_ms, max_ms })
    }

    /// A message came back: it waits where it is to, and is ready, or away, if not.
    pub(super) fn model_wait(&mut self, seq: u64, outcome: Outcome) -> bool {
        let is_failed = outcome == Outcome::Failed;
        let is_to = |retry: &Retry| if is_failed { retry.failed } else { retry.released };
        let Some(retry) = self.rules.retry.filter(is_to) else { return false };
        self.turn_to(seq, State::Away);
        let message = &mut self.messages[seq as usize];
        message.is_postponing = true;
        let times = u64::from(message.failed + u32::from(is_failed)).max(1);
        self.postpones.push((outcome, self.now_ms + (retry.min_ms * times).min(retry.max_ms), seq));
        true
    }

    /// Messages that came back and wait, and their bytes.
    fn model_back_waiting(&self) -> (u64, u64) {
        let is_back = |message: &&Message| message.state == State::Delayed && message.is_postponed;
        let bytes: Vec<u64> = self.messages.iter().filter(is_back).map(|one| u64::from(one.bytes)).collect();
        (bytes.len() as u64, bytes.iter().sum())
    }

    pub(super) fn model_drop_over(&mut self) {
        let Rules { length_max, bytes_max, drops_head, .. } = self.rules;
        if !drops_head || length_max.is_none() && bytes_max.is_none() {
            return;
        }
        let (back, back_bytes) = self.model_back_waiting();
        let is_over = |bench: &Bench| {
            length_max.is_some_and(|max| bench.ready.len() as u64 + back > max)
                || bytes_max.is_some_and(|max| bench.model_ready_bytes() + back_bytes > max)
        };
        while is_over(self)
            && let Some(&(_, seq)) = self.ready.first()
        {
            self.model_die(seq, DeathReason::MaxLength);
        }
    }
}
