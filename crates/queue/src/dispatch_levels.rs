//! Handing out where messages have priorities: what is alike of a block of positions at once.
//!
//! Where priorities take turns, what is handed out next is one position here and one there. To a consumer that can take
//! several go all that a block has of a priority, as bits. What is not that simple (came back, waits in line, is of a long
//! stretch of one priority, or may have been out before) is handed out as in any queue with features.

use crate::command::ConsumerId;
use crate::consumers::Consumers;
use crate::delivery::Delivery;
use crate::effect::{Accepted, Effect, Effects};
use crate::features::Features;
use crate::fifo::Fifo;
use crate::priority_blocks::{BLOCK, Block, block_of};
use base::id::QueueSeq;
use base::ranges::Range;

/// What is handed out at once.
enum Given {
    /// Follows on each other.
    Range(Delivery),
    /// These of the block that begins there.
    Scattered(u64, u64),
}

impl Fifo {
    /// As [`Fifo::dispatch`], which has done what comes before.
    #[cold]
    #[inline(never)]
    pub(crate) fn dispatch_levels(&mut self, now_ms: u64, budget: u32, effects: &mut Effects) -> u32 {
        let mut given = 0;
        if let Some(mut consumers) = self.consumers.take()
            && let Some(mut features) = self.features.take()
        {
            given = self.hand_out_levels(&mut consumers, &mut features, budget, effects);
            self.features = Some(features);
            if consumers.is_draining() {
                consumers.drain(self.ready() == 0, false, effects);
            }
            self.consumers = Some(consumers);
        }
        self.after_dispatch(now_ms, given < budget || budget == 0, effects);
        given
    }

    fn hand_out_levels(
        &mut self,
        consumers: &mut Consumers,
        features: &mut Features,
        budget: u32,
        effects: &mut Effects,
    ) -> u32 {
        // Each of these is told of every message by itself.
        let is_simple = features.sizes.is_empty()
            && features.tried.is_empty()
            && features.annotations.has_none()
            && features.delays.lined.is_empty();
        let mut given = 0;
        let mut accepted = Accepted::default();
        while given < budget {
            let Some((id, count_max)) = consumers.turn() else { break };
            let count_max = count_max.min(budget - given);
            let some =
                if is_simple && count_max > 1 { self.next_scattered(features, count_max) } else { None };
            let next = some.or_else(|| self.next_sized(features, u64::from(count_max)).map(Given::Range));
            let Some(next) = next else { break };
            effects.list.push(tell(id, &next));
            given += match next {
                Given::Range(delivery) => {
                    consumers.give(id, delivery.range, &mut accepted, effects);
                    delivery.range.len() as u32
                }
                Given::Scattered(block, bits) => {
                    consumers.give_bits(id, block, bits, &mut accepted, effects);
                    bits.count_ones()
                }
            };
            consumers.took(id);
        }
        accepted.finish(effects);
        given
    }

    /// Takes up to `count_max` positions of one block and priority that go next, if it is as simple as that.
    fn next_scattered(&mut self, features: &mut Features, count_max: u32) -> Option<Given> {
        if features.levels.has_ready_ranges()
            || !self.line.ready.returned().is_empty()
            || !features.back_ahead.is_empty()
        {
            return None;
        }
        let usual = features.settings.priorities.usual();
        if let Some(given) = self.scattered_of_level(features, count_max, |level| level > usual) {
            return given;
        }
        self.pass_elsewhere(features);
        if self.line.ready.cursor() < self.line.live.next_seq() {
            return self.scattered_of_usual(features, count_max);
        }
        self.scattered_of_level(features, count_max, |level| level < usual)?
    }

    /// Of the highest level that `is_asked` for and has any; within, none where that is not so simple.
    fn scattered_of_level(
        &self,
        features: &mut Features,
        count_max: u32,
        is_asked: impl Fn(u8) -> bool,
    ) -> Option<Option<Given>> {
        let some = features.levels.first_scattered(is_asked)?;
        if some.lowest() < self.line.ready.redelivered_below() {
            return Some(None);
        }
        let bits = lowest(some.bits, count_max);
        let last = features.levels.take_scattered(some, bits);
        features.handed_below = features.handed_below.max(last + 1);
        Some(Some(Given::new(some.block, bits)))
    }

    /// Of what is ready through the cursor, which is at one of those.
    fn scattered_of_usual(&mut self, features: &mut Features, count_max: u32) -> Option<Given> {
        if self.line.ready.cursor() < self.line.ready.redelivered_below() {
            return None;
        }
        let block = block_of(self.line.ready.cursor());
        let mut others = features.levels.bits(block) | self.line.live.settled().bits(block);
        if !features.elsewhere.is_empty() {
            others |= features.elsewhere.bits(block);
        }
        let last = (self.line.live.next_seq() - 1).min(block + (BLOCK - 1));
        let bits = lowest(
            !others & Block::bits_within(block, Range { first: self.line.ready.cursor(), last }),
            count_max,
        );
        let end = block + BLOCK - u64::from(bits.leading_zeros());
        let passed = end - self.line.ready.cursor() - u64::from(bits.count_ones());
        if passed > 0 {
            features.elsewhere.remove(Range { first: self.line.ready.cursor(), last: end - 1 }, |_| {});
            self.line.ready.show(passed);
        }
        self.line.ready.hand_out(end);
        Some(Given::new(block, bits))
    }
}

impl Given {
    fn new(block: u64, bits: u64) -> Given {
        let run = Block::run_of(block, bits);
        if run.len() == u64::from(bits.count_ones()) {
            return Given::Range(Delivery::first_time(run));
        }
        Given::Scattered(block, bits)
    }
}

fn tell(consumer: ConsumerId, given: &Given) -> Effect {
    match *given {
        Given::Range(ready) => ready.to(consumer),
        Given::Scattered(block, bits) => Effect::DeliverScattered { consumer, block: QueueSeq(block), bits },
    }
}

/// The `count_max` lowest of `bits`.
fn lowest(bits: u64, count_max: u32) -> u64 {
    if count_max >= bits.count_ones() {
        return bits;
    }
    bits & !(0..count_max).fold(bits, |rest, _| rest & (rest - 1))
}
