//! What the owner of a queue asks: who consumes, who gets what, what is thrown away.

use super::Fifo;
use crate::command::{Command, Consume, ConsumerId, Refused};
use crate::consumer_timeout::Late;
use crate::consumers::Consumers;
use crate::effect::Effects;
use crate::line::Line;
use crate::ranges::{numbers, positions};
use base::RangeSet;
use base::ranges::Range;
use message::record::{DeathReason, Kind, Outcome, SeqRange};

impl Fifo {
    /// Does what the owner asks.
    #[inline]
    pub fn apply(&mut self, command: Command, effects: &mut Effects) {
        match command {
            Command::Cancel { consumer } => self.with_consumers(|all| all.cancel(consumer)),
            Command::Close { consumer } => self.close(consumer, effects),
            Command::Credit { consumer, credit, drain } => {
                self.with_consumers(|all| all.credit(consumer, credit, drain))
            }
            Command::Prefetch { consumer, prefetch } => {
                self.with_consumers(|all| all.prefetch(consumer, prefetch))
            }
            Command::Pause { consumer, paused } => self.with_consumers(|all| all.pause(consumer, paused)),
            Command::Settle { consumer, range, outcome } => self.settle(consumer, range, outcome, effects),
            Command::Purge => self.purge(effects),
            Command::CancelDelayed { range } => {
                if let Some(range) = numbers(range) {
                    self.cancel_delayed(range, effects);
                }
            }
            Command::Discard { range } => {
                if let Some(range) = numbers(range) {
                    self.discard(range, effects);
                }
            }
            Command::Buried { range } => {
                if let Some(range) = numbers(range) {
                    self.buried(range, effects);
                }
            }
        }
    }

    /// Opens a consumer, or says why not. Panics where its slot is taken.
    pub fn consume(&mut self, new: Consume) -> Result<(), Refused> {
        if let Some(consumers) = &self.consumers {
            consumers.admit(new.exclusive)?;
        }
        self.consumers.get_or_insert_default().consume(new);
        Ok(())
    }

    /// Adds one that holds what [`Fifo::take`] and [`Fifo::pick`] give it (AMQP 0-9-1 basic.get); it is no consumer. Panics where its slot
    /// is taken.
    pub fn add_getter(&mut self, id: ConsumerId) {
        self.consumers.get_or_insert_default().add_holder(id);
    }

    #[inline]
    fn with_consumers(&mut self, change: impl FnOnce(&mut Consumers)) {
        if let Some(consumers) = &mut self.consumers {
            change(consumers);
        }
    }

    fn close(&mut self, id: ConsumerId, effects: &mut Effects) {
        let Some(consumers) = &mut self.consumers else { return };
        let held = consumers.remove(id);
        if consumers.is_empty() {
            self.consumers = None;
        }
        for range in held.iter() {
            self.give_back(range, Outcome::Failed, effects);
        }
    }

    #[inline]
    fn settle(&mut self, id: ConsumerId, range: SeqRange, outcome: Outcome, effects: &mut Effects) {
        let Some(range) = numbers(range) else { return };
        let Some(consumers) = &mut self.consumers else {
            effects.ignored += range.len();
            return;
        };
        let count = match outcome {
            Outcome::Rejected | Outcome::Undeliverable if self.features.is_some() => {
                let mut parts = RangeSet::new();
                let count = consumers.let_go(id, range, |part| _ = parts.insert(part));
                let is_failure = outcome == Outcome::Rejected;
                self.reject(
                    &parts,
                    if is_failure { DeathReason::Rejected } else { DeathReason::Undeliverable },
                    effects,
                );
                count
            }
            Outcome::Accepted | Outcome::Rejected | Outcome::Undeliverable => {
                let recorded = if outcome == Outcome::Accepted { outcome } else { Outcome::Rejected };
                consumers.let_go(id, range, |part| effects.append(Kind::Settle, recorded, part))
            }
            Outcome::Released | Outcome::Failed => {
                let parts = consumers.give_back(id, range);
                parts.iter().for_each(|part| self.give_back(part, outcome, effects));
                parts.count()
            }
        };
        effects.ignored += range.len() - count;
    }

    /// What this consumer holds for longer than `timeout_ms` milliseconds is taken back from it ([`Fifo::look`]), until it
    /// is closed. Passed over where there is no such consumer.
    pub fn watch(&mut self, consumer: ConsumerId, timeout_ms: u64) {
        self.with_consumers(|all| all.watch(consumer, timeout_ms));
    }

    /// Takes back what watched consumers hold for too long at `now_ms`, of a clock that never goes back: what that was.
    /// They are given nothing until [`Fifo::settle_late`] has named all of it. It counts as acquired, and not as failed.
    /// Looked at are those who hold something, and of these whose timeouts are longer than others' not at each look.
    #[cold]
    #[inline(never)]
    pub fn look(&mut self, now_ms: u64, effects: &mut Effects) -> Vec<Late> {
        let over = self.consumers.as_mut().map_or_else(Vec::new, |consumers| consumers.look(now_ms));
        for part in over.iter().flat_map(|(_, over)| over.iter()) {
            self.give_back(part, Outcome::Released, effects);
        }
        let late =
            |(consumer, over): (_, RangeSet)| Late { consumer, ranges: over.iter().map(positions).collect() };
        over.into_iter().map(late).collect()
    }

    /// A consumer settles, too late and however, what was taken back from it. Once that is all of it, it is given messages
    /// again. What is not late is passed over.
    #[cold]
    #[inline(never)]
    pub fn settle_late(&mut self, consumer: ConsumerId, range: SeqRange) {
        self.with_consumers(|all| all.settle_late(consumer, range));
    }

    /// What was taken back from a consumer had never been sent to it: its link's credit was not used for so many.
    #[cold]
    #[inline(never)]
    pub fn restore_credit(&mut self, consumer: ConsumerId, count: u32) {
        self.with_consumers(|all| all.restore_credit(consumer, count));
    }

    /// Positions that were handed to one that settles them at once, and that it was never sent, are ready again, or will be when
    /// their record comes back. That they were settled must not be on record.
    pub fn unsent(&mut self, range: SeqRange, effects: &mut Effects) {
        if let Some(range) = numbers(range) {
            self.give_back(range, Outcome::Released, effects);
        }
    }

    /// Positions nobody holds any more are ready again, or will be when their record comes back.
    pub(crate) fn give_back(&mut self, range: Range, outcome: Outcome, effects: &mut Effects) {
        let Some(live) = self.line.live.clip(positions(range)) else { return };
        let parts: Vec<Range> = self.line.live.parts(live).collect();
        for part in parts {
            if self.features.is_some() && self.retry_later(part, outcome, effects) {
                continue;
            }
            if self.line.returns.give_back(part, outcome, effects) {
                self.put_back(part);
            }
        }
    }

    /// Positions nobody holds any more were refused.
    #[cold]
    fn reject(&mut self, parts: &RangeSet, reason: DeathReason, effects: &mut Effects) {
        for part in parts.iter() {
            // What was settled by a record while it was held is gone.
            let live: Vec<Range> = self.line.live.parts(part).collect();
            live.into_iter().for_each(|part| self.die(part, reason, effects));
        }
    }

    fn purge(&mut self, effects: &mut Effects) {
        if self.features.is_some() {
            self.purge_features(effects);
            return;
        }
        let Line { live, ready, .. } = &mut self.line;
        ready.purge(live, effects);
    }
}
