//! The plain model: one thing known per message, found by searching, and the requests that the machine should make
//! because of it.

use super::*;

impl Bench {
    pub(super) fn model_new(
        &mut self,
        place: LogIndex,
        transient: bool,
        level: u8,
        deadline_ms: Option<u64>,
        size: u32,
        group: Option<u32>,
    ) {
        let bytes = if self.settings.sizes == SizesKept::None { 0 } else { size };
        self.messages.push(Message {
            state: State::Away,
            place: Where::Log(place),
            transient,
            was_delivered: false,
            is_returning: false,
            came_back: false,
            is_in_line: false,
            failed: 0,
            acquired: 0,
            level,
            deadline_ms,
            bytes,
            size,
            due_ms: None,
            is_postponed: false,
            is_postponing: false,
            behind: None,
            annotations: None,
            is_tried: false,
            group,
            is_barrier: false,
            class: None,
        });
        self.turn_to(self.messages.len() as u64 - 1, State::Ready);
        self.expect_left(&[]);
    }

    /// The newest message failed so often before it came: a queue that counts goes on from there.
    pub(super) fn model_tried(&mut self, failures: u16) {
        let counts = self.counts;
        let message = self.messages.last_mut().unwrap();
        message.is_tried = failures > 0;
        message.failed = if counts { failures.into() } else { 0 };
    }

    /// Where it stands in line, by level: messages that came back are before all others where priorities are strict,
    /// else before those of their level; unless they were chosen before their turn.
    fn rank(&self, seq: u64) -> (Rank, u64) {
        let message = &self.messages[seq as usize];
        if message.group.is_some() {
            // In order of position, at any fate before.
            return ((256 + 255 - u16::from(message.level), true, (seq, true, 0)), seq);
        }
        let rank = match (self.settings.priorities == Priorities::Strict, message.came_back, message.behind) {
            (true, true, _) if !message.is_in_line => (255 - u16::from(message.level), false, (seq, true, 0)),
            (false, true, _) if !message.is_in_line => {
                (256 + 255 - u16::from(message.level), false, (seq, true, 0))
            }
            (_, true, _) => (256 + 255 - u16::from(message.level), true, (seq, true, 0)),
            (_, _, Some((behind, order))) => {
                (256 + 255 - u16::from(message.level), true, (behind, false, order))
            }
            _ => (256 + 255 - u16::from(message.level), true, (seq, true, 0)),
        };
        (rank, seq)
    }

    pub(super) fn turn_to(&mut self, seq: u64, state: State) {
        if self.messages[seq as usize].state == State::Ready {
            assert!(self.ready.remove(&self.rank(seq)));
        }
        self.messages[seq as usize].state = state;
        if matches!(state, State::Ready | State::Dying | State::Gone) {
            self.model_in(seq);
        }
        if state == State::Ready {
            self.ready.insert(self.rank(seq));
        }
    }

    pub(super) fn model_ready_again(&mut self, seq: u64) {
        let message = &mut self.messages[seq as usize];
        message.came_back = true;
        // It depends on how far the machine has come.
        message.is_in_line = self.fifo.comes_back_in_line(QueueSeq(seq));
        self.turn_to(seq, State::Ready);
    }

    pub(super) fn model_die(&mut self, seq: u64, reason: DeathReason) {
        if self.rules.takes_dead {
            self.turn_to(seq, State::Dying);
            self.deaths.push((reason, seq));
            self.died += 1;
            return;
        }
        self.turn_to(seq, State::Away);
        self.model_in(seq);
        self.appends.push(match reason {
            DeathReason::Rejected | DeathReason::Undeliverable => (Kind::Settle, Outcome::Rejected, seq),
            DeathReason::Expired => (Kind::Expire, Outcome::Released, seq),
            DeathReason::MaxLength => (Kind::Drop, Outcome::Released, seq),
            DeathReason::DeliveryLimit => (Kind::Drop, Outcome::Failed, seq),
        });
    }

    /// Ready messages below `below` that are past their time.
    pub(super) fn model_expire(&mut self, below: usize) {
        let mut due: Vec<u64> = self.ready.iter().map(|(_, seq)| *seq).collect();
        due.retain(|seq| {
            let deadline_ms = self.messages[*seq as usize].deadline_ms;
            *seq < below as u64 && deadline_ms.is_some_and(|deadline_ms| deadline_ms <= self.now_ms)
        });
        due.sort_unstable();
        due.into_iter().for_each(|seq| self.model_die(seq, DeathReason::Expired));
    }

    pub(super) fn model_ready_bytes(&self) -> u64 {
        self.ready.iter().map(|(_, seq)| u64::from(self.messages[*seq as usize].bytes)).sum()
    }

    pub(super) fn set_rules(&mut self) {
        let dice = &mut self.dice;
        let rules = Rules {
            length_max: dice.one_in(3).then(|| dice.below(150)),
            bytes_max: dice.one_in(4).then(|| dice.below(60_000)),
            drops_head: dice.one_in(2),
            delivery_limit: dice.one_in(2).then(|| dice.below(5) as u32).filter(|_| self.counts),
            cancel_limit: dice.one_in(2).then(|| dice.below(6) as u32).filter(|_| self.counts),
            takes_dead: dice.one_in(2),
            single_active: dice.one_in(3),
            retry: None,
            fairness: [Fairness::RoundRobin, Fairness::Fast, Fairness::Proportional][dice.below(3) as usize],
            unsettled_max: dice.one_in(4).then(|| dice.below(40)),
            lease_ms: dice.one_in(4).then(|| 50 * dice.between(2, 8)),
        };
        let rules = Rules { retry: self.any_retry(), ..rules };
        self.go_by(rules);
    }

    pub(super) fn go_by(&mut self, rules: Rules) {
        self.fifo.set_rules(rules, &mut self.effects);
        let before = std::mem::replace(&mut self.rules, rules);
        assert_eq!(self.fifo.rules(), Rules { drops_head: self.fifo.rules().drops_head, ..rules });
        if before.single_active && !rules.single_active {
            self.active = None;
            self.let_receive(|_| true);
        }
        if before.fairness != rules.fairness {
            self.line_up_anew();
        }
        self.model_lease(before.lease_ms);
        let mut over: Vec<u64> = self.ready.iter().map(|(_, seq)| *seq).collect();
        over.retain(|seq| self.came_too_often(*seq));
        over.sort_unstable();
        over.into_iter().for_each(|seq| self.model_die(seq, DeathReason::DeliveryLimit));
        self.model_drop_over();
        self.write(&[]);
    }

    /// It came back, or failed, more often than it may.
    pub(super) fn came_too_often(&self, seq: u64) -> bool {
        let Message { failed, acquired, .. } = self.messages[seq as usize];
        let is_over = |limit: Option<u32>, count| limit.is_some_and(|limit| count > limit);
        let cancelled = acquired.saturating_sub(failed);
        let Rules { delivery_limit, cancel_limit, .. } = self.rules;
        acquired > 0 && (is_over(delivery_limit, failed) || is_over(cancel_limit, cancelled))
    }

    pub(super) fn bury_some(&mut self) {
        let first = self.dice.below(self.messages.len() as u64 + 1);
        let count = self.dice.below(200);
        self.bury(range(first, first + count));
    }

    pub(super) fn bury(&mut self, positions: SeqRange) {
        self.fifo.apply(Command::DeadLettered { range: positions }, &mut self.effects);
        for seq in positions.first.0..=positions.last.0.min(self.messages.len() as u64) {
            if self.messages.get(seq as usize).is_some_and(|message| message.state == State::Dying) {
                self.turn_to(seq, State::Away);
                self.appends.push((Kind::DeadLetter, Outcome::Rejected, seq));
            }
        }
        self.write(&[]);
    }

    pub(super) fn model_gone(&mut self, how: &'static str, range: SeqRange) {
        let mut gone = Vec::new();
        for seq in range.first.0..=range.last.0 {
            if self.messages[seq as usize].state != State::Gone {
                self.turn_to(seq, State::Gone);
                let message = &mut self.messages[seq as usize];
                message.is_returning = false;
                message.is_postponing = false;
                *self.ended.entry(how).or_default() += 1;
                gone.push(message.place);
            }
        }
        self.expect_left(&gone);
    }

    /// The machine told just these as left.
    pub(super) fn expect_left(&mut self, gone: &[Where]) {
        let mut left = Vec::new();
        let mut runs_left = Vec::new();
        for place in gone {
            match *place {
                Where::Log(place) => left.push(place),
                Where::Run(at) => {
                    self.runs[at].1 -= 1;
                    if self.runs[at].1 == 0 {
                        runs_left.push(self.runs[at].0);
                    }
                }
            }
        }
        assert_eq!(self.effects.left, left);
        assert_eq!(self.effects.runs_left, runs_left);
        self.effects.left.clear();
        self.effects.runs_left.clear();
    }

    /// Writes the records that the machine asked for, and nothing else was asked or told.
    pub(super) fn write(&mut self, expected: &[(Kind, Outcome, u64)]) {
        let mut wanted = std::mem::take(&mut self.appends);
        wanted.extend(expected);
        let mut asked = Vec::new();
        let mut deaths = Vec::new();
        let mut turns = Vec::new();
        let mut postpones = Vec::new();
        for effect in std::mem::take(&mut self.effects.list) {
            let (kind, range, outcome) = match effect {
                Effect::Append { kind, range, outcome } => (kind, range, outcome),
                Effect::DeadLetter { range, reason } => {
                    deaths.extend((range.first.0..=range.last.0).map(|seq| (reason, seq)));
                    continue;
                }
                Effect::Postpone { range, outcome, due_at_ms } => {
                    postpones.extend((range.first.0..=range.last.0).map(|seq| (outcome, due_at_ms, seq)));
                    self.log.push_back(Record::Postpone { range, outcome, due_at_ms });
                    continue;
                }
                Effect::Retry { range, outcome, after_ms } => {
                    let due_at_ms = self.now_ms + after_ms;
                    postpones.extend((range.first.0..=range.last.0).map(|seq| (outcome, due_at_ms, seq)));
                    self.log.push_back(Record::Postpone { range, outcome, due_at_ms });
                    continue;
                }
                Effect::Active { consumer, active } => {
                    turns.push((consumer.0, active));
                    continue;
                }
                other => panic!("{other:?}"),
            };
            asked.extend((range.first.0..=range.last.0).map(|seq| (kind, outcome, seq)));
            self.log.push_back(match kind {
                Kind::Settle => Record::Settle { range },
                Kind::Return => Record::Return { range, outcome },
                Kind::Purge => Record::Purge { range },
                Kind::Expire => Record::Expire { range },
                Kind::Drop => Record::Drop { range },
                Kind::DeadLetter => Record::DeadLetter { range },
                other => panic!("a queue writes no {other:?}"),
            });
        }
        if wanted.first().is_some_and(|(kind, _, _)| *kind == Kind::Purge) {
            // Purged in any order.
            wanted.sort_unstable_by_key(|(_, _, seq)| *seq);
            asked.sort_unstable_by_key(|(_, _, seq)| *seq);
        }
        assert_eq!(asked, wanted);
        assert_eq!(deaths, std::mem::take(&mut self.deaths));
        assert_eq!(turns, std::mem::take(&mut self.turns_of_active));
        assert_eq!(postpones, std::mem::take(&mut self.postpones));
    }

    /// One consumer at a time: the one that is active now.
    pub(super) fn elect(&mut self) {
        if !self.rules.single_active {
            return;
        }
        let late: BTreeSet<u32> = self.consumers.keys().copied().filter(|slot| self.is_late(*slot)).collect();
        let may_be = |slot: &u32, consumer: &Consumer| consumer.is_consumer && !late.contains(slot);
        let consumers = self.consumers.iter().filter(|(slot, consumer)| may_be(slot, consumer));
        let best = consumers.max_by_key(|(_, consumer)| (consumer.priority, Reverse(consumer.joined)));
        let best = best.map(|(slot, _)| *slot);
        let stays = self.active.filter(|slot| may_be(slot, &self.consumers[slot]));
        let mut next = stays.or(best);
        let mut is_leaving = false;
        if let (true, Some(active), Some(best)) = (self.counts, stays, best)
            && self.consumers[&best].priority > self.consumers[&active].priority
        {
            is_leaving = !self.held(active).is_empty();
            next = if is_leaving { Some(active) } else { Some(best) };
        }
        self.let_receive(|slot| !is_leaving && next == Some(slot));
        if next != self.active {
            self.turns_of_active.extend(self.active.map(|slot| (slot, false)));
            self.turns_of_active.extend(next.map(|slot| (slot, true)));
            self.active = next;
        }
    }

    fn let_receive(&mut self, receives: impl Fn(u32) -> bool) {
        for slot in self.consumers.keys().copied().collect::<Vec<_>>() {
            let consumer = self.consumers.get_mut(&slot).unwrap();
            consumer.receives = consumer.is_consumer && receives(slot);
            self.line_up(slot);
        }
    }
}
