//! Messages for consumers that choose: their classes, and what each is given next.

use super::Features;
use crate::browse::next_ready;
use crate::delivery::Delivery;
use crate::line::Line;
use crate::selector_sets::{SelectorId, SelectorSet};
use base::ranges::Range;

impl Features {
    /// A live message has this class.
    pub(crate) fn classify(&mut self, seq: u64, class: SelectorSet, line: &Line) {
        let one = Range { first: seq, last: seq };
        let mut ready_at = None;
        if !class.is_empty() && self.is_ready(seq, line) {
            self.levels.by_level(one, self.settings.priorities.usual(), |level, _| ready_at = Some(level));
        }
        if let Some(selectors) = &mut self.selectors {
            selectors.classify(seq, class, ready_at);
        }
    }

    /// Whether a consumer with this selector, or without, could be given something.
    pub(crate) fn has_for(&self, selector: Option<SelectorId>, line: &Line) -> bool {
        match (selector, &self.selectors) {
            (Some(id), Some(selectors)) => selectors.next(id, line.live.head(), self.bar()).is_some(),
            _ if self.barriers.is_some() => {
                next_ready(line, Some(self), 0).is_some_and(|first| first < self.bar())
            }
            _ => self.ready_count(line) > 0,
        }
    }

    /// Takes up to `count_max` positions that are alike and that a consumer with this selector, or without, may have.
    pub(crate) fn next_by(
        &mut self,
        selector: Option<SelectorId>,
        line: &mut Line,
        count_max: u64,
    ) -> Option<Delivery> {
        match selector {
            Some(id) => self.next_selected(id, line, count_max),
            None => self.next_unbarred(line, count_max),
        }
    }

    fn next_selected(&mut self, id: SelectorId, line: &mut Line, count_max: u64) -> Option<Delivery> {
        let range = self.selectors.as_ref()?.next(id, line.live.head(), self.bar())?;
        let was_out = |seq: u64| line.ready.returned().contains(seq) || self.came_back(seq);
        let came_back = was_out(range.first);
        let last = range.last.min(range.first.saturating_add(count_max - 1));
        let alike = (range.first + 1..=last).take_while(|seq| was_out(*seq) == came_back);
        let range = Range { last: range.first + alike.count() as u64, ..range };
        let delivery = if came_back { line.again(range) } else { line.fresh(range) };
        self.hand_out_chosen(delivery.range, line);
        Some(delivery)
    }
}
