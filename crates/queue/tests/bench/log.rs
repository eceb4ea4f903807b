//! The log as it is written and as the machine sees it: records, in order, some of them twice.
//!
//! The model changes here as each record is seen; how, is in `model`.

use super::groups::{group_key, group_number};
use super::*;

impl Bench {
    pub(super) fn publish(&mut self) {
        let transient_too = self.dice.one_in(4);
        // Now and then a long stretch of one priority.
        let alike = self.dice.one_in(30).then(|| self.dice.below(9) as u8);
        for _ in 0..if alike.is_some() { 260 } else { self.dice.between(1, 40) } {
            self.next_place += 8 * self.dice.between(1, 40);
            if self.dice.one_in(5000) {
                self.next_place += 5 << 30;
            }
            let place = LogIndex(self.next_place);
            let transient = transient_too && self.dice.one_in(3);
            let record = match self.is_featured {
                false => Record::Enqueue { place, transient },
                true => Record::Arrive { place, arrival: self.arrival(transient, alike) },
            };
            self.log.push_back(record);
        }
    }

    fn arrival(&mut self, transient: bool, alike: Option<u8>) -> Arrival {
        let dice = &mut self.dice;
        let expires_at_ms = if dice.one_in(3) { self.now_ms + dice.below(2000) } else { 0 };
        Arrival {
            transient,
            priority: alike.or_else(|| dice.one_in(2).then(|| dice.below(9) as u8)),
            received_at_ms: self.now_ms,
            expires_at_ms,
            due_at_ms: if dice.one_in(4) { self.now_ms + dice.below(600) } else { 0 },
            bytes: dice.below(1000) as u32,
            failures: if dice.one_in(5) { dice.below(4) as u16 } else { 0 },
            group: (self.is_grouped && !dice.one_in(4)).then(|| group_key(1 + dice.below(5) as u32)),
            barrier: self.is_barred && dice.one_in(12),
        }
    }

    pub(super) fn configure(&mut self) {
        let dice = &mut self.dice;
        let priorities = match dice.below(4) {
            0 | 1 if self.counts && !self.is_barred => Priorities::Strict,
            _ if self.is_barred => Priorities::UpTo(0),
            0 => Priorities::None,
            _ => Priorities::UpTo(dice.below(8) as u8),
        };
        let ttl_ms = dice.one_in(3).then(|| dice.below(3) * 400);
        let sizes =
            [SizesKept::None, SizesKept::Coming, SizesKept::All, SizesKept::All][dice.below(4) as usize];
        let settings = Settings { counts: self.counts, ttl_ms, priorities, sizes };
        self.log.push_back(Record::Configure { settings });
    }

    pub(super) fn commit(&mut self) {
        let count = self.dice.between(1, 60) as usize;
        self.commit_some(count);
    }

    pub(super) fn commit_some(&mut self, count: usize) {
        for _ in 0..count.min(self.log.len()) {
            let record = self.log.pop_front().unwrap();
            self.see(record.clone());
            // Records may come twice; an enqueue does not, its place in the log tells.
            let is_once =
                matches!(record, Record::Enqueue { .. } | Record::Arrive { .. } | Record::Return { .. });
            let is_once = is_once || matches!(record, Record::Postpone { .. });
            if !is_once && self.dice.one_in(10) {
                self.see(record);
            }
        }
    }

    /// The record as its owner gives it to the machine: one that may come the plain way does, now and then.
    fn plainly(&mut self, record: Record) -> Record {
        match record {
            Record::Arrive { place, arrival }
                if self.fifo.takes_plain()
                    && arrival.priority.is_none()
                    && arrival.expires_at_ms == 0
                    && arrival.due_at_ms == 0
                    && arrival.failures == 0
                    && arrival.group.is_none()
                    && !arrival.barrier
                    && self.dice.one_in(2) =>
            {
                Record::Enqueue { place, transient: arrival.transient }
            }
            other => other,
        }
    }

    fn see(&mut self, record: Record) {
        let record = self.plainly(record);
        self.tail.push(Entry::Record(record.clone()));
        self.history.push(Entry::Record(record.clone()));
        self.fifo.record(record.clone(), &mut self.effects);
        let usual = if self.settings.priorities == Priorities::Strict { 4 } else { 0 };
        match record {
            Record::Enqueue { place, transient } => {
                let size = (place.0 % 1000) as u32;
                self.model_new(place, transient, usual, None, size, None);
            }
            Record::Arrive { place, arrival } => {
                let group = arrival.group.map(group_number);
                let level = match self.settings.priorities {
                    _ if group.is_some() => usual,
                    Priorities::None => usual,
                    Priorities::UpTo(max) => arrival.priority.unwrap_or(usual).min(max),
                    Priorities::Strict => arrival.priority.unwrap_or(usual).min(31),
                };
                let from_ms = arrival.received_at_ms.max(arrival.due_at_ms);
                let deadlines = [
                    (arrival.expires_at_ms > 0).then_some(arrival.expires_at_ms),
                    self.settings.ttl_ms.map(|ttl_ms| from_ms + ttl_ms),
                ];
                let deadline_ms = deadlines.into_iter().flatten().min();
                self.model_new(place, arrival.transient, level, deadline_ms, arrival.bytes, group);
                self.model_tried(arrival.failures);
                let seq = self.messages.len() as u64 - 1;
                self.messages[seq as usize].is_barrier = arrival.barrier;
                if arrival.due_at_ms > arrival.received_at_ms {
                    self.messages[seq as usize].is_barrier = false;
                    self.messages[seq as usize].due_ms = Some(arrival.due_at_ms);
                    self.turn_to(seq, State::Delayed);
                }
            }
            Record::Postpone { range, outcome, due_at_ms } => {
                let mut killed = Vec::new();
                for seq in range.first.0..=range.last.0 {
                    let message = &mut self.messages[seq as usize];
                    if message.state == State::Gone {
                        continue;
                    }
                    if self.counts {
                        message.is_tried = false;
                        message.acquired += 1;
                        message.failed += u32::from(outcome == Outcome::Failed);
                    }
                    (message.due_ms, message.is_postponed) = (Some(due_at_ms), true);
                    if std::mem::take(&mut message.is_postponing) {
                        match self.came_too_often(seq) {
                            true => killed.push(seq),
                            false => self.turn_to(seq, State::Delayed),
                        }
                    }
                }
                killed.into_iter().for_each(|seq| self.model_die(seq, DeathReason::DeliveryLimit));
                self.expect_left(&[]);
            }
            Record::Settle { range } => self.model_gone("settled", range),
            Record::Purge { range } => self.model_gone("purged", range),
            Record::Expire { range } => self.model_gone("expired", range),
            Record::Drop { range } => self.model_gone("dropped", range),
            Record::DeadLetter { range } => self.model_gone("dead-lettered", range),
            Record::Configure { settings } => {
                let before = self.settings.sizes;
                let is_fixed = self.counts && !self.messages.is_empty();
                let priorities = match settings.priorities {
                    _ if is_fixed => self.settings.priorities,
                    Priorities::None if self.counts => Priorities::Strict,
                    priorities => priorities,
                };
                self.settings = Settings { counts: self.counts, priorities, ..settings };
                self.model_sizes_kept(before, settings.sizes);
                assert_eq!(self.fifo.settings(), self.settings);
                self.expect_left(&[]);
            }
            Record::Weigh { range, sizes } => self.model_weigh(range, &sizes),
            Record::Annotate { range, annotations } => {
                for seq in range.first.0..=range.last.0 {
                    let message = &mut self.messages[seq as usize];
                    if message.state != State::Gone {
                        message.annotations = Some(annotations[0]);
                    }
                }
                self.expect_left(&[]);
            }
            Record::Return { range, outcome } => {
                let mut killed = Vec::new();
                for seq in range.first.0..=range.last.0 {
                    let message = &mut self.messages[seq as usize];
                    if message.state != State::Gone {
                        message.is_tried = false;
                        message.acquired += 1;
                        message.failed += u32::from(outcome == Outcome::Failed);
                    }
                    if std::mem::take(&mut message.is_returning) {
                        match self.came_too_often(seq) {
                            true => killed.push(seq),
                            false => self.model_ready_again(seq),
                        }
                    }
                }
                killed.into_iter().for_each(|seq| self.model_die(seq, DeathReason::DeliveryLimit));
                self.expect_left(&[]);
            }
        }
        self.write(&[]);
    }
}
