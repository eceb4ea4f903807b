//! Messages handed out, taken one by one, settled and purged.

use super::*;
use queue::scattered;

impl Bench {
    /// The way in which the next message is handed out.
    fn model_hand_out(&mut self, slot: u32, settled: bool) -> Option<(u32, u64, bool, u32)> {
        let mut ready = self.ready.iter().map(|(_, seq)| *seq);
        let bar = self.bar();
        let seq = ready.find(|seq| *seq < bar && self.may_have(slot, *seq))?;
        Some(self.model_take(seq, slot, settled))
    }

    /// A message is handed out.
    pub(super) fn model_take(&mut self, seq: u64, slot: u32, settled: bool) -> (u32, u64, bool, u32) {
        self.kept_apart += u64::from(self.ready.first().is_some_and(|(_, first)| *first != seq));
        self.turn_to(seq, if settled { State::Away } else { State::Held(slot) });
        if !settled {
            self.model_out(seq, slot);
        }
        let message = &mut self.messages[seq as usize];
        let redelivered = std::mem::replace(&mut message.was_delivered, true) || message.is_tried;
        message.came_back = false;
        (slot, seq, redelivered, message.failed)
    }

    pub(super) fn dispatch(&mut self) {
        let budget = if self.dice.one_in(4) { 1000 } else { self.dice.below(30) as u32 };
        self.dispatch_up_to(budget);
    }

    pub(super) fn dispatch_up_to(&mut self, budget: u32) {
        self.now_ms += if self.is_featured { self.dice.below(30) } else { 0 };
        self.elect();
        self.model_due();
        let rooms: BTreeMap<u32, u64> = self.consumers.keys().map(|slot| (*slot, self.room(*slot))).collect();
        let given = self.fifo.dispatch(self.now_ms, budget, &mut self.effects);
        // The model hands out one by one.
        let mut rooms = rooms;
        let mut settled = Vec::new();
        let mut expected = self.model_barrier(budget, &mut rooms, &mut settled);
        while expected.len() < budget as usize {
            // The consumer that is next, and those that are asked if there is nothing for it.
            let next = self.asked().into_iter().find_map(|(at, slot)| {
                let is_settled = self.consumers[&slot].settled;
                if !is_settled && self.is_capped() {
                    return None;
                }
                let out = match self.consumers[&slot].selector {
                    Some(selector) => self.model_choose(slot, selector, is_settled),
                    None => self.model_hand_out(slot, is_settled),
                };
                Some((at, slot, out?))
            });
            let Some((at, slot, out)) = next else { break };
            let consumer = self.consumers[&slot].clone();
            expected.push(out);
            if consumer.settled {
                settled.push((Kind::Settle, Outcome::Accepted, out.1));
            }
            let room = rooms.get_mut(&slot).unwrap();
            *room = room.saturating_sub(u64::from(*room != u64::MAX));
            if let Credit::Link(credit) = &mut self.consumers.get_mut(&slot).unwrap().credit {
                *credit -= 1;
            }
            self.turn += 1;
            self.consumers.get_mut(&slot).unwrap().turn = self.turn;
            self.out_of_turn += u64::from(at > 0 && self.rules.fairness != Fairness::RoundRobin);
            self.model_served(consumer.selector);
            let line = self.turns.get_mut(&self.ring(slot)).unwrap();
            line.rotate_left(at);
            line.pop_front();
            if *room > 0 {
                line.push_back(slot);
            }
        }
        assert_eq!(given as usize, expected.len());
        let mut drained = Vec::new();
        let is_empty = self.ready.is_empty();
        for slot in std::mem::take(&mut self.draining) {
            let is_behind = self.consumers[&slot].selector.is_some_and(|selector| self.is_behind(selector));
            let is_late = self.is_late(slot);
            let consumer = self.consumers.get_mut(&slot).unwrap();
            let Credit::Link(unused) = consumer.credit else { panic!("prefetch does not drain") };
            if is_empty
                || unused == 0
                || given < budget && !is_behind && !consumer.paused && consumer.receives
                || consumer.is_consumer && !consumer.receives
                || is_late
            {
                consumer.credit = Credit::Link(0);
                consumer.drain = false;
                drained.push((slot, unused));
                self.line_up(slot);
            } else {
                self.draining.push(slot);
            }
        }
        self.appends.extend(settled);
        if given < budget || budget == 0 {
            self.offered_below = self.messages.len();
            self.model_expire(self.offered_below);
            self.model_drop_over();
            let next_ms = self.fifo.next_deadline_ms();
            assert!(next_ms.is_none_or(|next_ms| next_ms > self.now_ms), "due and not done");
        }
        self.compare_out(&expected, &drained);
        assert_eq!(self.fifo.active().map(|id| id.0), self.active.filter(|_| self.rules.single_active));
    }

    /// Consumers hold as many messages as they may together.
    fn is_capped(&self) -> bool {
        let held =
            self.messages.iter().filter(|message| matches!(message.state, State::Held(_))).count() as u64;
        self.rules.unsettled_max.is_some_and(|max| held >= max)
    }

    pub(super) fn compare_out(&mut self, expected: &[(u32, u64, bool, u32)], drained: &[(u32, u32)]) {
        let mut delivered = Vec::new();
        let (mut told, mut passed_over) = (Vec::new(), 0);
        let messages = &self.messages;
        self.effects.list.retain(|effect| {
            match *effect {
                Effect::Deliver { consumer, first, count, redelivered, delivery_count, .. }
                | Effect::DeliverAnnotated { consumer, first, count, redelivered, delivery_count, .. } => {
                    let out = (first.0..).take(count as usize);
                    let is_annotated = matches!(effect, Effect::DeliverAnnotated { .. });
                    let mut whether = out.clone().map(|seq| messages[seq as usize].annotations.is_some());
                    assert!(whether.all(|annotated| annotated == is_annotated), "{effect:?}");
                    delivered.extend(out.map(|seq| (consumer.0, seq, redelivered, delivery_count)));
                }
                Effect::DeliverScattered { consumer, block, bits } => {
                    assert!(bits.count_ones() > 1 && block.0.is_multiple_of(64), "{effect:?}");
                    for seq in scattered(block, bits) {
                        assert!(messages[seq.0 as usize].annotations.is_none(), "{effect:?}");
                        delivered.push((consumer.0, seq.0, false, 0));
                    }
                }
                Effect::DeliverBarrier { consumer, seq, redelivered, delivery_count, .. } => {
                    assert!(messages[seq.0 as usize].is_barrier);
                    delivered.push((consumer.0, seq.0, redelivered, delivery_count));
                }
                Effect::PassedOver { consumers } => passed_over += consumers,
                Effect::Drained { consumer, unused } => told.push((consumer.0, unused)),
                _ => return true,
            }
            false
        });
        self.delivered += delivered.len() as u64;
        assert_eq!(delivered, expected);
        assert_eq!(told, drained);
        assert_eq!(passed_over, std::mem::take(&mut self.barrier.passed_over));
        self.write(&[]);
    }

    pub(super) fn take(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let settled = self.dice.one_in(2);
        self.elect();
        self.model_due();
        let taken = self.fifo.take(ConsumerId(slot), settled, self.now_ms, &mut self.effects);
        let barrier = self.model_barrier_to_get();
        let expected = match barrier {
            Some(seq) => {
                self.messages[seq as usize].was_delivered |= self.barrier.was_given(seq);
                Some(self.model_take(seq, slot, settled))
            }
            None => self.model_hand_out(slot, settled),
        };
        assert_eq!(taken, expected.is_some());
        match expected {
            Some(out) => {
                if settled {
                    self.appends.push((Kind::Settle, Outcome::Accepted, out.1));
                }
                self.compare_out(&[out], &[]);
                self.line_up(slot);
            }
            None => {
                let last = self.effects.list.pop();
                assert_eq!(last, Some(Effect::Empty { consumer: ConsumerId(slot) }));
                self.write(&[]);
            }
        }
    }

    pub(super) fn settle(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let outcome = match self.dice.below(10) {
            0..6 => Outcome::Accepted,
            6 if self.dice.one_in(2) => Outcome::Undeliverable,
            6 => Outcome::Rejected,
            7..9 => Outcome::Released,
            _ => Outcome::Failed,
        };
        let held = self.held(slot);
        let positions = match self.dice.below(4) {
            _ if held.is_empty() => {
                let first = self.dice.below(self.messages.len() as u64 + 3);
                range(first, first + self.dice.below(5))
            }
            0 => range(held[0], held[held.len() - 1]),
            1 => {
                let seq = held[self.dice.below(held.len() as u64) as usize];
                range(seq, seq)
            }
            _ => {
                let first = held[self.dice.below(held.len() as u64) as usize];
                range(first.saturating_sub(self.dice.below(4)), first + self.dice.below(12))
            }
        };
        self.settle_range(slot, positions, outcome);
    }

    /// Messages that the consumer holds come back with annotations.
    fn annotate(&mut self, consumer: ConsumerId, positions: SeqRange) {
        let parts: Vec<SeqRange> = self.fifo.held_within(consumer, positions).collect();
        for range in parts {
            let annotations = vec![self.dice.below(3) as u8; 1 + self.dice.below(20) as usize];
            self.fifo.will_annotate(range, annotations.len());
            self.log.push_back(Record::Annotate { range, annotations: annotations.into() });
        }
    }

    pub(super) fn settle_range(&mut self, slot: u32, positions: SeqRange, outcome: Outcome) {
        let mut held = self.held(slot);
        held.retain(|seq| positions.first.0 <= *seq && *seq <= positions.last.0);
        let consumer = ConsumerId(slot);
        if self.counts && matches!(outcome, Outcome::Released | Outcome::Failed) && self.dice.one_in(3) {
            self.annotate(consumer, positions);
        }
        self.fifo.apply(Command::Settle { consumer, range: positions, outcome }, &mut self.effects);
        let ignored = positions.last.0 - positions.first.0 + 1 - held.len() as u64;
        assert_eq!(std::mem::take(&mut self.effects.ignored), ignored);
        for &seq in &held {
            assert!(matches!(self.messages[seq as usize].state, State::Held(by) if by == slot));
            self.consumers.get_mut(&slot).unwrap().watch.since.remove(&seq);
        }
        match outcome {
            Outcome::Rejected | Outcome::Undeliverable if self.rules.takes_dead => {
                let is_failure = outcome == Outcome::Rejected;
                let reason = if is_failure { DeathReason::Rejected } else { DeathReason::Undeliverable };
                held.iter().for_each(|seq| self.model_die(*seq, reason));
                self.write(&[]);
            }
            Outcome::Accepted | Outcome::Rejected | Outcome::Undeliverable => {
                held.iter().for_each(|seq| self.turn_to(*seq, State::Away));
                let is_accepted = outcome == Outcome::Accepted;
                if !is_accepted {
                    held.iter().for_each(|seq| self.model_in(*seq));
                }
                let recorded = if is_accepted { outcome } else { Outcome::Rejected };
                let records: Vec<_> = held.iter().map(|seq| (Kind::Settle, recorded, *seq)).collect();
                self.write(&records);
            }
            Outcome::Released | Outcome::Failed => self.model_back(&held, outcome),
        }
        self.line_up(slot);
    }

    pub(super) fn purge_sometimes(&mut self) {
        if !self.dice.one_in(5) {
            return;
        }
        self.fifo.apply(Command::Purge, &mut self.effects);
        for (_, seq) in self.ready.clone() {
            self.turn_to(seq, State::Away);
            self.messages[seq as usize].came_back = false;
            self.appends.push((Kind::Purge, Outcome::Released, seq));
        }
        for (_, seq) in self.model_delayed() {
            self.turn_to(seq, State::Away);
            self.appends.push((Kind::Purge, Outcome::Released, seq));
        }
        self.write(&[]);
        assert_eq!((self.fifo.ready(), self.fifo.delayed()), (0, 0));
    }
}
