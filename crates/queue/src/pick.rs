//! Messages that somebody chose one by one: taken as a get takes them, or thrown away, wherever in the queue they are.
//!
//! Nothing is noted about what was chosen, and no record tells of it. What is taken is held as anything that was handed out;
//! what the cursor has not come to is [elsewhere](crate::features) until it does. What comes back while older ones of its priority
//! were never out is at its place again, behind them.
//!
//! A message of a group is taken where nobody else has anything of the group, though others of it are in front: while it is
//! held, its group is its holder's, so that it comes back in order.

use crate::command::ConsumerId;
use crate::effect::Effects;
use crate::fifo::Fifo;
use crate::ranges::numbers;
use base::ranges::Range;
use message::record::{Kind, Outcome, SeqRange};

impl Fifo {
    /// Gives `id` what is ready of `range`, in order of arrival and whatever its credit, to be settled; how many messages. What is
    /// not ready is passed over, and what is of a group that another consumer has. What is due at `now_ms` (since 1970) and was
    /// offered before ends first. Panics where `id` was never added.
    #[cold]
    pub fn pick(&mut self, id: ConsumerId, range: SeqRange, now_ms: u64, effects: &mut Effects) -> u64 {
        let is_there = self.consumers.as_ref().is_some_and(|consumers| consumers.get(id).is_some());
        assert!(is_there, "{id:?} was not added");
        if self.features.is_some() {
            self.before_dispatch(now_ms, effects);
        }
        let Some(range) = numbers(range) else { return 0 };
        let mut count = 0;
        for (part, came_back) in self.choices(id, range) {
            self.withdraw(part);
            let mut first = part.first;
            while first <= part.last {
                let rest = Range { first, last: part.last };
                let ready = if came_back { self.line.again(rest) } else { self.line.fresh(rest) };
                effects.list.push(ready.to(id));
                first = ready.range.last + 1;
            }
            let features = self.features_mut();
            features.handed_below = features.handed_below.max(part.last + 1);
            if let Some(consumers) = &mut self.consumers {
                consumers.hold(id, part);
            }
            self.hold(part, id);
            count += part.len();
        }
        if self.features.is_some() {
            self.mark_tried(effects);
            self.mark_annotated(effects);
            self.tidy_features();
        }
        if let Some(consumers) = &mut self.consumers {
            consumers.got(id);
        }
        count
    }

    /// What of `range` may be given to `id`, lowest first, and whether it came back.
    fn choices(&mut self, id: ConsumerId, range: Range) -> Vec<(Range, bool)> {
        self.features_mut();
        let Some(features) = &self.features else { return Vec::new() };
        let ready = self.ready_within(features, range);
        let groups = features.groups.as_ref();
        let mut choices: Vec<(Range, bool)> = Vec::new();
        for seq in ready.iter().flat_map(|part| part.first..=part.last) {
            if groups.is_some_and(|groups| !groups.is_free_for(seq, id)) {
                continue;
            }
            let came_back = self.line.ready.returned().contains(seq) || features.came_back(seq);
            match choices.last_mut() {
                Some((last, how)) if last.last + 1 == seq && *how == came_back => last.last = seq,
                _ => choices.push((Range { first: seq, last: seq }, came_back)),
            }
        }
        choices
    }

    /// What is ready or delayed of `range` is thrown away.
    #[cold]
    pub(crate) fn discard(&mut self, range: Range, effects: &mut Effects) {
        self.withdraw(range).iter().for_each(|part| effects.append(Kind::Purge, Outcome::Released, part));
        self.cancel_delayed(range, effects);
        self.tidy_features();
    }
}
