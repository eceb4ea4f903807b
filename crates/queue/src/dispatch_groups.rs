//! Handing out where messages are in groups: to each the first it may have.
//!
//! Consumers are asked in turn, those of lower priority behind those of higher, until one may have something. That is the first
//! of what came back and is in no group, of what was passed and is of a group it may be given, and of what the cursor comes
//! to; what it may not be given of that is passed.

use crate::command::ConsumerId;
use crate::consumers::Consumers;
use crate::delivery::Delivery;
use crate::effect::{Accepted, Effect, Effects};
use crate::features::Features;
use crate::fifo::Fifo;
use crate::groups::PASSED_AT_ONCE_MAX;
use base::ranges::Range;
use message::record::{Kind, Outcome};

impl Fifo {
    /// As [`Fifo::dispatch`], which has done what comes before.
    #[cold]
    #[inline(never)]
    pub(crate) fn dispatch_groups(&mut self, now_ms: u64, budget: u32, effects: &mut Effects) -> u32 {
        if let Some(groups) = self.groups_mut() {
            // What is handed out is passed before.
            groups.passes_left = PASSED_AT_ONCE_MAX.saturating_add(budget);
            groups.is_on_the_way = false;
        }
        let mut given = 0;
        if let Some(mut consumers) = self.consumers.take() {
            given = self.hand_out_groups(&mut consumers, budget, effects);
            if consumers.is_draining() {
                consumers.drain(self.ready() == 0, given < budget && !self.is_on_the_way(), effects);
            }
            self.consumers = Some(consumers);
        }
        let is_done = (given < budget || budget == 0) && !self.is_on_the_way();
        self.after_dispatch(now_ms, is_done, effects);
        given
    }

    /// It was not seen yet whether there is something for somebody behind what is passed.
    fn is_on_the_way(&self) -> bool {
        let groups = self.features.as_ref().and_then(|features| features.groups.as_ref());
        groups.is_some_and(|groups| groups.is_on_the_way)
    }

    fn hand_out_groups(&mut self, consumers: &mut Consumers, budget: u32, effects: &mut Effects) -> u32 {
        let mut given = 0;
        let mut accepted = Accepted::default();
        while given < budget {
            let mut taker = consumers.turn().map(|(id, _)| id);
            let mut next = None;
            while let Some(id) = taker {
                next = self.next_for(id).map(|ready| (id, ready));
                if next.is_some() {
                    break;
                }
                taker = consumers.after(id);
            }
            let Some((id, ready)) = next else { break };
            effects.list.push(ready.to(id));
            if consumers.give(id, ready.range, &mut accepted, effects) {
                self.hold(ready.range, id);
            }
            given += 1;
            consumers.took_before(id);
        }
        accepted.finish(effects);
        given
    }

    /// As [`Fifo::take`], which has done what comes before.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_of_groups(&mut self, id: ConsumerId, settled: bool, effects: &mut Effects) -> bool {
        let is_there = self.consumers.as_ref().is_some_and(|consumers| consumers.get(id).is_some());
        assert!(is_there, "{id:?} was not added");
        if let Some(groups) = self.groups_mut() {
            // Whether there is something for it is to be said now.
            groups.passes_left = u32::MAX;
        }
        let Some(ready) = self.next_for(id) else {
            effects.list.push(Effect::Empty { consumer: id });
            return false;
        };
        effects.list.push(ready.to(id));
        self.mark_tried(effects);
        self.mark_annotated(effects);
        if settled {
            effects.append(Kind::Settle, Outcome::Accepted, ready.range);
        } else if let Some(consumers) = &mut self.consumers {
            consumers.hold(id, ready.range);
            consumers.got(id);
            self.hold(ready.range, id);
        }
        true
    }

    /// Positions were handed out to be settled; those in groups are of groups that are this consumer's now.
    pub(crate) fn hold(&mut self, range: Range, id: ConsumerId) {
        if let Some(groups) = self.groups_mut() {
            groups.hold(range, id);
        }
    }

    /// Takes the first ready position this consumer may have.
    fn next_for(&mut self, id: ConsumerId) -> Option<Delivery> {
        let mut features = self.features.take()?;
        let ready = self.find_for(&mut features, id);
        if let Some(ready) = &ready
            && !features.sizes.is_empty()
        {
            features.ready_bytes -= features.sizes.sum(ready.range);
        }
        self.features = Some(features);
        ready
    }

    fn find_for(&mut self, features: &mut Features, id: ConsumerId) -> Option<Delivery> {
        if let Some(ready) = self.next_in_front(features, 1) {
            return Some(ready);
        }
        loop {
            let behind = features.delays.next_behind().unwrap_or(u64::MAX);
            let groups = features.groups.as_ref()?;
            if let Some(seq) = groups.first_for(id).filter(|seq| *seq < behind) {
                return self.take_passed(features, seq);
            }
            self.pass_elsewhere(features);
            let is_in_line = behind <= self.line.ready.cursor();
            let groups = features.groups.as_mut()?;
            if is_in_line || groups.key(self.line.ready.cursor()).is_none() {
                return self.next_behind(features, 1);
            }
            if groups.is_full() {
                return None;
            }
            if !groups.pass_another(self.line.ready.cursor()) {
                return None;
            }
            self.line.ready.hand_out(self.line.ready.cursor() + 1);
        }
    }

    /// Takes the first of all that was passed, whoever may have it.
    pub(crate) fn next_passed(&mut self, features: &mut Features) -> Option<Delivery> {
        let behind = features.delays.next_behind().unwrap_or(u64::MAX);
        let first = features.groups.as_ref()?.passed().first()?.first;
        if first < behind { self.take_passed(features, first) } else { None }
    }

    fn take_passed(&mut self, features: &mut Features, seq: u64) -> Option<Delivery> {
        let groups = features.groups.as_mut()?;
        let came_back = groups.came_back(seq);
        let range = Range { first: seq, last: seq };
        groups.withdraw(range);
        Some(if came_back { self.line.again(range) } else { self.line.fresh(range) })
    }
}
