//! Consumers: opened, watched for messages that they hold too long, paused, cancelled and closed.

use super::*;

impl Bench {
    /// Deliveries of a consumer whose leases were over, and that it may settle yet.
    fn over(&self, slot: u32) -> u64 {
        self.consumers[&slot].watch.over.values().sum()
    }

    /// It is given nothing until it has settled something that is no longer its own.
    pub(super) fn is_late(&self, slot: u32) -> bool {
        let Consumer { watch, credit, .. } = &self.consumers[&slot];
        let is_stuck = matches!(*credit, Credit::Prefetch(1..) if self.over(slot) >= self.prefetch(slot));
        !watch.late.is_empty() || is_stuck
    }

    fn prefetch(&self, slot: u32) -> u64 {
        match self.consumers[&slot].credit {
            Credit::Prefetch(prefetch) => prefetch.into(),
            Credit::Link(_) => u64::MAX,
        }
    }

    pub(super) fn room(&self, slot: u32) -> u64 {
        let consumer = &self.consumers[&slot];
        match consumer.credit {
            _ if consumer.paused || !consumer.receives || self.is_late(slot) => 0,
            Credit::Prefetch(0) => u64::MAX,
            Credit::Prefetch(_) if consumer.settled => u64::MAX,
            Credit::Prefetch(prefetch) => {
                u64::from(prefetch).saturating_sub(self.held(slot).len() as u64 + self.over(slot))
            }
            Credit::Link(credit) => u64::from(credit),
        }
    }

    pub(super) fn held(&self, slot: u32) -> Vec<u64> {
        let ranges = self.fifo.held(ConsumerId(slot));
        ranges.flat_map(|range| range.first.0..=range.last.0).collect()
    }

    /// As the machine should: in line exactly while there is room.
    pub(super) fn line_up(&mut self, slot: u32) {
        let key = self.ring(slot);
        let can_take = self.room(slot) > 0;
        let line = self.turns.entry(key).or_default();
        let at = line.iter().position(|have| *have == slot);
        match (at, can_take) {
            (None, true) => line.push_back(slot),
            (Some(at), false) => drop(line.remove(at)),
            _ => {}
        }
    }

    /// Consumers that could take something, the next one first, each with its place in the line of its priority.
    pub(super) fn asked(&self) -> Vec<(usize, u32)> {
        let mut lines: Vec<_> = self.turns.iter().collect();
        // Of one priority, those behind the selector that was served last are next.
        lines.sort_by_key(|((priority, selector), _)| {
            (Reverse(*priority), *selector <= self.choice.served, *selector)
        });
        let in_turn = lines.into_iter().flat_map(|(_, line)| line.iter().copied().enumerate());
        let mut asked: Vec<(usize, u32)> = in_turn.collect();
        let of = |slot: &u32| &self.consumers[slot];
        match self.rules.fairness {
            Fairness::RoundRobin => {}
            Fairness::Fast => asked.sort_by_key(|(_, slot)| (Reverse(of(slot).priority), of(slot).joined)),
            Fairness::Proportional => asked.sort_by(|(_, one), (_, other)| {
                let (held, window) = self.share(*one);
                let (held_of_other, window_of_other) = self.share(*other);
                let (one, other) = (of(one), of(other));
                let by_share = (held * window_of_other).cmp(&(held_of_other * window));
                other.priority.cmp(&one.priority).then(by_share).then(one.turn.cmp(&other.turn))
            }),
        }
        asked
    }

    /// How many messages it holds, of how many it may hold.
    fn share(&self, slot: u32) -> (u64, u64) {
        let held = self.messages.iter().filter(|message| message.state == State::Held(slot)).count() as u64;
        match self.consumers[&slot].credit {
            Credit::Prefetch(0) => (held, 2000),
            Credit::Prefetch(prefetch) => (held, u64::from(prefetch).saturating_sub(self.over(slot)).max(1)),
            Credit::Link(credit) => (held, held + u64::from(credit)),
        }
    }

    /// Another rule says which consumer is next: all line up anew, in the order in which they came.
    pub(super) fn line_up_anew(&mut self) {
        self.turns.clear();
        let mut all: Vec<(u64, u32)> = self.consumers.iter().map(|(slot, it)| (it.joined, *slot)).collect();
        all.sort_unstable();
        for (_, slot) in all {
            self.turn += 1;
            self.consumers.get_mut(&slot).unwrap().turn = self.turn;
            self.line_up(slot);
        }
    }

    pub(super) fn consume(&mut self) {
        let slot = self.dice.below(u64::from(SLOTS)) as u32;
        if self.consumers.contains_key(&slot) {
            return;
        }
        if self.dice.one_in(5) {
            self.fifo.add_getter(ConsumerId(slot));
            let consumer = Consumer {
                credit: Credit::Link(0),
                settled: false,
                exclusive: false,
                priority: 0,
                selector: None,
                paused: false,
                drain: false,
                is_consumer: false,
                receives: false,
                joined: 0,
                turn: 0,
                watch: Watch::default(),
            };
            self.consumers.insert(slot, consumer);
            self.watch(slot);
            return;
        }
        let credit = match self.dice.below(3) {
            0 => Credit::Prefetch(0),
            1 => Credit::Prefetch(self.dice.between(1, 30) as u32),
            _ => Credit::Link(self.dice.below(30) as u32),
        };
        let new = Consume {
            consumer: ConsumerId(slot),
            credit,
            settled: self.dice.one_in(4),
            exclusive: self.dice.one_in(12),
            priority: self.dice.below(3) as i32 - 1,
            selector: self.any_selector(),
        };
        self.open(new);
    }

    pub(super) fn open(&mut self, new: Consume) {
        let mut others = self.consumers.values().filter(|consumer| consumer.is_consumer);
        let is_refused =
            if new.exclusive { others.next().is_some() } else { others.any(|other| other.exclusive) };
        assert_eq!(self.fifo.consume(new).is_err(), is_refused);
        if is_refused {
            return;
        }
        let Consume { consumer, credit, settled, exclusive, priority, selector } = new;
        let (paused, drain, is_consumer, receives) = (false, false, true, true);
        self.joined += 1;
        self.turn += 1;
        let (joined, turn) = (self.joined, self.turn);
        let watch = Watch::default();
        let model = Consumer {
            credit,
            settled,
            exclusive,
            priority,
            selector,
            paused,
            drain,
            is_consumer,
            receives,
            joined,
            turn,
            watch,
        };
        self.consumers.insert(consumer.0, model);
        self.line_up(consumer.0);
        self.watch(consumer.0);
    }

    /// Some may hold their messages for so long.
    fn watch(&mut self, slot: u32) {
        if self.dice.one_in(2) {
            let timeout_ms = self.dice.below(5) * 50;
            self.fifo.watch(ConsumerId(slot), timeout_ms);
            self.consumers.get_mut(&slot).unwrap().watch.timeout_ms = Some(timeout_ms);
        }
    }

    /// Messages that were held for too long are taken back.
    pub(super) fn look(&mut self) {
        self.now_ms += self.dice.below(100);
        let late = self.fifo.look(self.now_ms, &mut self.effects);
        let mut expected = Vec::new();
        for slot in self.consumers.keys().copied().collect::<Vec<_>>() {
            let held = self.held_by(slot);
            let now_ms = self.now_ms;
            let lease_ms = self.lease_ms(slot);
            let watch = &mut self.consumers.get_mut(&slot).unwrap().watch;
            let Some(timeout_ms) = lease_ms.or(watch.timeout_ms) else { continue };
            watch.since.retain(|seq, _| held.contains(seq));
            held.iter().for_each(|seq| _ = watch.since.entry(*seq).or_insert(now_ms));
            let over = watch.since.iter().filter(|(_, since)| **since + timeout_ms <= now_ms);
            let over: Vec<u64> = over.map(|(seq, _)| *seq).collect();
            over.iter().for_each(|seq| _ = watch.since.remove(seq));
            if lease_ms.is_none() {
                watch.late.extend(&over);
            }
            self.taken_back += over.len() as u64;
            self.line_up(slot);
            expected.extend(over.into_iter().map(|seq| (slot, seq)));
        }
        let told = late.iter().flat_map(|late| {
            let all = late.ranges.iter().flat_map(|range| range.first.0..=range.last.0);
            all.map(|seq| (late.consumer.0, seq))
        });
        assert_eq!(told.collect::<Vec<_>>(), expected);
        assert!(late.iter().all(|late| late.is_leased == self.lease_ms(late.consumer.0).is_some()));
        let back = expected.iter().filter(|(slot, _)| self.lease_ms(*slot).is_none());
        let back: Vec<u64> = back.map(|(_, seq)| *seq).collect();
        self.model_back(&back, Outcome::Released);
        late.iter().filter(|late| late.is_leased).for_each(|late| self.answer(late));
    }

    /// How long a consumer has its messages; what is settled at once is nobody's.
    fn lease_ms(&self, slot: u32) -> Option<u64> {
        self.rules.lease_ms.filter(|_| !self.consumers[&slot].settled)
    }

    /// The connection of a consumer says which of the messages whose leases are over it has not settled.
    fn answer(&mut self, late: &Late) {
        let Late { consumer, ranges, .. } = late;
        let is_late = self.dice.one_in(2);
        let all = ranges.iter().flat_map(|range| range.first.0..=range.last.0);
        let over: Vec<u64> = all.filter(|_| !self.dice.one_in(4)).collect();
        let named: Vec<SeqRange> = over.iter().map(|seq| range(*seq, *seq)).collect();
        let count = self.fifo.lease_over(*consumer, &named, is_late, &mut self.effects);
        self.fifo.lease_on(*consumer, ranges);
        assert_eq!(count, over.len() as u64);
        let watch = &mut self.consumers.get_mut(&consumer.0).unwrap().watch;
        if is_late {
            over.iter().for_each(|seq| *watch.over.entry(*seq).or_default() += 1);
        }
        self.line_up(consumer.0);
        self.model_back(&over, Outcome::Failed);
    }

    /// A consumer settles deliveries whose leases were over, or has others for longer.
    pub(super) fn settle_over(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let first = self.dice.below(self.messages.len() as u64 + 3);
        let positions = range(first, first + self.dice.below(60));
        let within = positions.first.0..=positions.last.0;
        let lease_ms = self.lease_ms(slot);
        let watch = &mut self.consumers.get_mut(&slot).unwrap().watch;
        if self.dice.one_in(3) {
            self.fifo.renew(ConsumerId(slot), positions);
            if lease_ms.is_some() {
                watch.since.retain(|seq, _| !within.contains(seq));
            }
            return;
        }
        self.fifo.settle_over(ConsumerId(slot), positions);
        watch.over.range_mut(within).for_each(|(_, count)| *count -= 1);
        watch.over.retain(|_, count| *count > 0);
        self.line_up(slot);
    }

    /// Messages are leased for another time, or no longer.
    pub(super) fn model_lease(&mut self, before_ms: Option<u64>) {
        if before_ms == self.rules.lease_ms {
            return;
        }
        for slot in self.consumers.keys().copied().collect::<Vec<_>>() {
            let watch = &mut self.consumers.get_mut(&slot).unwrap().watch;
            if self.rules.lease_ms.is_none() {
                watch.over.clear();
                if watch.timeout_ms.is_none() {
                    watch.since.clear();
                }
            }
            self.line_up(slot);
        }
    }

    /// Positions that a consumer holds, as the model has it.
    fn held_by(&self, slot: u32) -> BTreeSet<u64> {
        let all = self.messages.iter().enumerate();
        let held = all.filter(|(_, message)| message.state == State::Held(slot));
        held.map(|(seq, _)| seq as u64).collect()
    }

    pub(super) fn settle_late(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let all: Vec<u64> = self.consumers[&slot].watch.late.iter().copied().collect();
        let first = match all.is_empty() {
            true => self.dice.below(self.messages.len() as u64 + 3),
            false => all[self.dice.below(all.len() as u64) as usize],
        };
        let positions = range(first, first + self.dice.below(60));
        self.fifo.settle_late(ConsumerId(slot), positions);
        let late = &mut self.consumers.get_mut(&slot).unwrap().watch.late;
        late.retain(|seq| !(positions.first.0..=positions.last.0).contains(seq));
        self.line_up(slot);
        assert_eq!(self.fifo.has_late(), self.consumers.keys().any(|slot| self.is_late(*slot)));
    }

    pub(super) fn any_slot(&mut self) -> Option<u32> {
        let at = self.dice.below(self.consumers.len().max(1) as u64) as usize;
        self.consumers.keys().nth(at).copied()
    }

    pub(super) fn cancel_or_close(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        if self.dice.one_in(3) {
            self.fifo.apply(Command::Cancel { consumer: ConsumerId(slot) }, &mut self.effects);
            let consumer = self.consumers.get_mut(&slot).unwrap();
            consumer.is_consumer = false;
            consumer.receives = false;
            self.active = self.active.filter(|active| *active != slot);
            consumer.exclusive = false;
            consumer.drain = false;
            self.draining.retain(|draining| *draining != slot);
            self.line_up(slot);
            self.write(&[]);
        } else {
            self.close(slot);
        }
    }

    pub(super) fn close(&mut self, slot: u32) {
        let held = self.held(slot);
        self.fifo.apply(Command::Close { consumer: ConsumerId(slot) }, &mut self.effects);
        let key = self.ring(slot);
        self.consumers.remove(&slot).unwrap();
        self.model_left();
        self.active = self.active.filter(|active| *active != slot);
        self.turns.entry(key).or_default().retain(|have| *have != slot);
        self.draining.retain(|draining| *draining != slot);
        self.model_back(&held, Outcome::Failed);
    }

    /// Held positions come back: ready at once, or when the record about it does.
    pub(super) fn model_back(&mut self, held: &[u64], outcome: Outcome) {
        let mut expected = Vec::new();
        for &seq in held {
            if self.messages[seq as usize].state == State::Gone {
                continue;
            }
            self.model_given_back(seq);
            if self.counts {
                if self.model_wait(seq, outcome) {
                    continue;
                }
                self.turn_to(seq, State::Away);
                self.messages[seq as usize].is_returning = true;
                expected.push((Kind::Return, outcome, seq));
            } else {
                let message = &mut self.messages[seq as usize];
                // Counted while this owner lasts; a message that failed a hundred times has failed a hundred times.
                message.failed = (message.failed + u32::from(outcome == Outcome::Failed)).min(100);
                self.model_ready_again(seq);
            }
        }
        self.write(&expected);
    }

    pub(super) fn credit(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let consumer = self.consumers.get_mut(&slot).unwrap();
        let id = ConsumerId(slot);
        if self.dice.one_in(3) {
            let prefetch = self.dice.below(20) as u32;
            consumer.credit = Credit::Prefetch(prefetch);
            consumer.drain = false;
            self.draining.retain(|draining| *draining != slot);
            self.fifo.apply(Command::Prefetch { consumer: id, prefetch }, &mut self.effects);
        } else {
            let credit = self.dice.below(40) as u32;
            let drain = self.dice.one_in(3);
            consumer.credit = Credit::Link(credit);
            let was_draining = std::mem::replace(&mut consumer.drain, drain);
            if was_draining && !drain {
                self.draining.retain(|draining| *draining != slot);
            } else if drain && !was_draining {
                self.draining.push(slot);
            }
            self.fifo.apply(Command::Credit { consumer: id, credit, drain }, &mut self.effects);
        }
        self.line_up(slot);
        self.write(&[]);
    }

    pub(super) fn pause(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let paused = self.dice.one_in(3);
        self.consumers.get_mut(&slot).unwrap().paused = paused;
        self.fifo.apply(Command::Pause { consumer: ConsumerId(slot), paused }, &mut self.effects);
        self.line_up(slot);
        self.write(&[]);
    }
}
