//! Handing out: the next ready positions to whose turn it is.

use crate::command::ConsumerId;
use crate::delivery::Delivery;
use crate::effect::{Accepted, Effect, Effects};
use crate::fifo::Fifo;
use message::record::{Kind, Outcome};

impl Fifo {
    /// Hands out at most `budget` messages, one each in turn among the consumers of the highest priority that can take
    /// any; how many it were. Then tells draining consumers that there was no more, if so. Before and after, what is due
    /// at `now_ms` (since 1970) ends: nothing does that was not offered once, and after come the limits.
    pub fn dispatch(&mut self, now_ms: u64, budget: u32, effects: &mut Effects) -> u32 {
        if self.features.is_some() {
            self.before_dispatch(now_ms, effects);
            if self.has_groups() {
                return self.dispatch_groups(now_ms, budget, effects);
            }
            // Of the last priority what is left lies scattered as well.
            if self.has_levels() || self.line.ready.has_gone_ahead() {
                return self.dispatch_levels(now_ms, budget, effects);
            }
        }
        let (given, is_done) = self.hand_out(budget, effects);
        if self.features.is_some() {
            self.after_dispatch(now_ms, is_done, effects);
        }
        given
    }

    /// Hands out; how many messages, and whether nobody would have more.
    #[inline(always)]
    fn hand_out(&mut self, budget: u32, effects: &mut Effects) -> (u32, bool) {
        let Some(mut consumers) = self.consumers.take() else { return (0, true) };
        let mut given = 0;
        let mut accepted = Accepted::default();
        while given < budget {
            let Some((id, count_max)) = consumers.turn() else { break };
            let count_max = count_max.min(budget - given);
            let Some(delivery) = self.next_ready(u64::from(count_max)) else { break };
            effects.list.push(delivery.to(id));
            consumers.give(id, delivery.range, &mut accepted, effects);
            given += delivery.range.len() as u32;
            consumers.took(id);
        }
        accepted.finish(effects);
        if consumers.is_draining() {
            consumers.drain(self.ready() == 0, false, effects);
        }
        self.consumers = Some(consumers);
        (given, given < budget || budget == 0)
    }

    /// Gives one message to `id` whatever its credit (AMQP 0-9-1 basic.get), settled at once or held; false, and
    /// [`Effect::Empty`], where none is ready. What is due at `now_ms` (since 1970) and was offered before ends first.
    /// Panics where `id` was never added.
    pub fn take(&mut self, id: ConsumerId, settled: bool, now_ms: u64, effects: &mut Effects) -> bool {
        if self.features.is_some() {
            self.before_dispatch(now_ms, effects);
            if self.has_groups() {
                return self.take_of_groups(id, settled, effects);
            }
        }
        let consumers = self.consumers.as_mut().and_then(|consumers| consumers.get(id));
        assert!(consumers.is_some(), "{id:?} was not added");
        let Some(ready) = self.next_ready(1) else {
            effects.list.push(Effect::Empty { consumer: id });
            return false;
        };
        effects.list.push(ready.to(id));
        if self.features.is_some() {
            self.mark_tried(effects);
            self.mark_annotated(effects);
        }
        if settled {
            effects.append(Kind::Settle, Outcome::Accepted, ready.range);
        } else if let Some(consumers) = &mut self.consumers {
            consumers.hold(id, ready.range);
            consumers.got(id);
        }
        true
    }

    /// Takes up to `count_max` positions that are ready and alike.
    #[inline(always)]
    fn next_ready(&mut self, count_max: u64) -> Option<Delivery> {
        if self.features.is_some() { self.next_featured(count_max) } else { self.line.next(count_max) }
    }
}
