//! Handing out: the next ready positions to whose turn it is.

use crate::command::{ConsumerId, Credit};
use crate::consumers::Audience;
use crate::delivery::Delivery;
use crate::effect::{Effect, Effects};
use crate::fifo::Fifo;
use base::ranges::Range;
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
        let Some(mut audience) = self.audience.take() else { return (0, true) };
        let mut given = 0;
        // What is settled as it is delivered: one record, whoever got it.
        let mut settled: Option<Range> = None;
        while given < budget {
            let Some((id, alone)) = audience.turn() else { break };
            let Some(consumer) = audience.get_mut(id) else { break };
            let count_max = if alone { consumer.room().min(budget - given) } else { 1 };
            let Some(ready) = self.next_ready(u64::from(count_max)) else { break };
            let count = ready.range.len() as u32;
            effects.list.push(ready.to(id));
            if let Credit::Link(credit) = &mut consumer.credit {
                *credit -= count;
            }
            if consumer.settled {
                match &mut settled {
                    Some(range) if range.last + 1 == ready.range.first => range.last = ready.range.last,
                    _ => settled.replace(ready.range).into_iter().for_each(|range| {
                        effects.append(Kind::Settle, Outcome::Accepted, range);
                    }),
                }
            } else {
                consumer.unsettled.insert(ready.range);
                self.unsettled += u64::from(count);
            }
            given += count;
            audience.took(id);
        }
        if let Some(range) = settled {
            effects.append(Kind::Settle, Outcome::Accepted, range);
        }
        if !audience.draining.is_empty() {
            self.drain(&mut audience, effects);
        }
        self.audience = Some(audience);
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
        let audience = self.audience.as_mut().and_then(|audience| audience.get(id));
        assert!(audience.is_some(), "{id:?} was not added");
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
        } else if let Some(audience) = &mut self.audience
            && let Some(consumer) = audience.get_mut(id)
        {
            consumer.unsettled.insert(ready.range);
            self.unsettled += 1;
            audience.got(id);
        }
        true
    }

    /// Takes up to `count_max` positions that are ready and alike.
    #[inline(always)]
    fn next_ready(&mut self, count_max: u64) -> Option<Delivery> {
        if self.features.is_some() { self.next_featured(count_max) } else { self.line.next(count_max) }
    }

    /// Draining consumers whose credit is used up, or for whom nothing is ready, are done draining.
    #[cold]
    fn drain(&mut self, audience: &mut Audience, effects: &mut Effects) {
        audience.drain(self.ready() == 0, false, effects);
    }
}

impl Audience {
    /// Draining consumers whose credit is used up are done draining; where nothing is ready, all; where all were `asked`, those
    /// who could have taken something.
    #[cold]
    pub(crate) fn drain(&mut self, is_empty: bool, asked: bool, effects: &mut Effects) {
        let mut draining = std::mem::take(&mut self.draining);
        draining.retain(|id| {
            let Some(consumer) = self.get_mut(*id) else { return false };
            let Credit::Link(unused) = consumer.credit else { return false };
            // Who waits to become the active one, or is late, has nothing coming.
            let is_over = is_empty || asked && consumer.receives && consumer.held_up == 0;
            if !is_over && unused > 0 && !consumer.waits() && !consumer.is_late() {
                return true;
            }
            consumer.credit = Credit::Link(0);
            consumer.drain = false;
            effects.list.push(Effect::Drained { consumer: *id, unused });
            self.refresh(*id);
            false
        });
        self.draining = draining;
    }
}
