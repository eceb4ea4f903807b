//! Messages chosen by position, to be held, to be thrown away, or to be settled whoever holds them.

use super::*;

impl Bench {
    fn any_range(&mut self) -> SeqRange {
        let first = self.dice.below(self.messages.len() as u64 + 3);
        range(first, first + if self.dice.one_in(2) { 0 } else { self.dice.below(40) })
    }

    fn model_ready_within(&self, range: SeqRange) -> Vec<u64> {
        let is_ready = |seq: &u64| self.messages[*seq as usize].state == State::Ready;
        (range.first.0..self.messages.len() as u64)
            .take_while(|seq| *seq <= range.last.0)
            .filter(is_ready)
            .collect()
    }

    pub(super) fn pick(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let chosen = self.any_range();
        self.elect();
        self.model_due();
        let count = self.fifo.pick(ConsumerId(slot), chosen, self.now_ms, &mut self.effects);
        let mut expected = Vec::new();
        for seq in self.model_ready_within(chosen) {
            if !self.is_free_for(slot, seq) {
                continue;
            }
            self.turn_to(seq, State::Held(slot));
            self.model_out(seq, slot);
            let message = &mut self.messages[seq as usize];
            // For delayed messages it is not looked up whether they certainly were never out.
            let was_delivered = message.was_delivered || self.fifo_says_again(seq);
            let message = &mut self.messages[seq as usize];
            message.was_delivered = true;
            message.came_back = false;
            expected.push((slot, seq, was_delivered || message.is_tried, message.failed));
        }
        assert_eq!(count, expected.len() as u64);
        self.picked += count;
        self.compare_out(&expected, &[]);
        self.line_up(slot);
    }

    /// The machine hands out as seen before a message that was delayed, and may have been out.
    pub(super) fn fifo_says_again(&self, seq: u64) -> bool {
        let is_it = |effect: &Effect| match *effect {
            Effect::Deliver { first, count, redelivered, .. }
            | Effect::DeliverAnnotated { first, count, redelivered, .. } => {
                redelivered && first.0 <= seq && seq < first.0 + u64::from(count)
            }
            _ => false,
        };
        self.messages[seq as usize].due_ms.is_some() && self.effects.list.iter().any(is_it)
    }

    pub(super) fn discard(&mut self) {
        let range = self.any_range();
        self.fifo.apply(Command::Discard { range }, &mut self.effects);
        let mut gone = self.model_ready_within(range);
        let delayed = self.model_delayed().into_iter().map(|(_, seq)| seq);
        gone.extend(delayed.filter(|seq| (range.first.0..=range.last.0).contains(seq)));
        for seq in gone {
            self.turn_to(seq, State::Away);
            self.messages[seq as usize].came_back = false;
            self.appends.push((Kind::Purge, Outcome::Released, seq));
        }
        self.write(&[]);
    }

    /// Ready messages of a range are rejected.
    fn reject(&mut self, range: SeqRange) {
        self.fifo.apply(Command::Reject { range }, &mut self.effects);
        let gone = self.model_ready_within(range);
        gone.into_iter().for_each(|seq| self.model_die(seq, DeathReason::Rejected));
        self.write(&[]);
    }

    /// Some positions are settled, whoever holds them; those that are ready are, too, or are left.
    pub(super) fn settle_chosen(&mut self) {
        let is_held = |message: &Message| matches!(message.state, State::Held(_));
        let mut range = self.any_range();
        let all: Vec<u64> =
            (0..).zip(&self.messages).filter(|(_, it)| is_held(it)).map(|(seq, _)| seq).collect();
        if !all.is_empty() && !self.dice.one_in(4) {
            let first = all[self.dice.below(all.len() as u64) as usize];
            range = super::range(first, first + range.last.0 - range.first.0);
        }
        let positions: Vec<QueueSeq> =
            (range.first.0..=range.last.0).filter(|_| !self.dice.one_in(3)).map(QueueSeq).collect();
        let state = |seq: &QueueSeq| self.messages.get(seq.0 as usize).map(|message| message.state);
        let held = positions.iter().filter_map(|seq| match state(seq) {
            Some(State::Held(slot)) => Some((*seq, ConsumerId(slot))),
            _ => None,
        });
        let held: Vec<(QueueSeq, ConsumerId)> = held.collect();
        assert_eq!(self.fifo.held_among(&positions), held);
        assert_eq!(self.fifo.last_held(|_| true), all.last().map(|last| QueueSeq(*last)));
        let outcome = if self.dice.one_in(2) { Outcome::Accepted } else { Outcome::Rejected };
        for (QueueSeq(seq), ConsumerId(slot)) in held {
            self.settle_range(slot, super::range(seq, seq), outcome);
            self.settled_for_others += 1;
        }
        if self.dice.one_in(4) {
            self.reject(range);
        }
    }
}
