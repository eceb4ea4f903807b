//! A move of messages under way, in slices: others have their turns between them.
//!
//! Messages that cannot be placed are back in the queue after each slice. Where the first ones move, the next slice
//! passes over them again, and its time begins behind them; those that are named by their positions are not tried twice.

use crate::Limits;
use crate::node::{Goal, Pace};
use crate::response::Response;
use serde_json::{Value, json};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// When it began, milliseconds since the node started.
    began_ms: u64,
    goal: Goal,
    count: u32,
    /// Messages that were in the queue then.
    among: u32,
    per_second: u32,
    /// Positions that are named and were not looked at; none: the first ones move.
    positions: Option<Vec<u64>>,
    /// Positions were named.
    is_named: bool,
    moved: u32,
    unplaced: u32,
    missing: Vec<u64>,
    is_over: bool,
    /// The search that named the positions.
    searched: Option<Searched>,
}

/// How far messages were looked for, of which those that were found are named by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Searched {
    /// Messages that were looked at.
    pub(crate) scanned: u64,
    /// Where the next search begins; none: all that was ready was looked at.
    pub(crate) next: Option<u64>,
}

impl Searched {
    /// Tells of it in an answer.
    pub(crate) fn tell(self, told: &mut Value) {
        told["scanned"] = self.scanned.into();
        told["next_position"] = self.next.into();
    }
}

impl Moving {
    /// One to this place that begins: at most `count` of the first `among` messages, or those at the positions, at most `per_second`
    /// (0: any number) a second.
    pub(crate) fn begin(
        now_ms: u64,
        goal: Goal,
        (count, among): (u32, u32),
        per_second: u32,
        positions: Option<Vec<u64>>,
    ) -> Moving {
        let (moved, unplaced, missing, is_named) = (0, 0, Vec::new(), positions.is_some());
        Moving {
            began_ms: now_ms,
            goal,
            count,
            among,
            per_second,
            positions,
            is_named,
            moved,
            unplaced,
            missing,
            is_over: false,
            searched: None,
        }
    }

    /// The positions were found by a search.
    pub(crate) fn searched(&mut self, searched: Searched) {
        self.searched = Some(searched);
    }

    /// The place that the messages go to.
    pub(crate) fn goal(&self) -> &Goal {
        &self.goal
    }

    /// The positions that are left.
    pub(crate) fn positions(&self) -> Option<Vec<u64>> {
        self.positions.clone()
    }

    /// The pace of the next slice; `is_whole`: of all that is left.
    pub(crate) fn pace(&self, now_ms: u64, is_whole: bool, limits: &Limits) -> Pace {
        let ms_max = limits.move_ms_max.saturating_sub(now_ms.saturating_sub(self.began_ms));
        Pace {
            count: self.count - self.moved,
            among: self.among.saturating_sub(self.moved),
            unplaced_max: limits.move_unplaced_max - if self.is_named { self.unplaced } else { 0 },
            per_second: self.per_second,
            ms_max,
            slice_ms: if is_whole { ms_max } else { limits.move_slice_ms },
            passed: if self.is_named { 0 } else { self.unplaced },
        }
    }

    /// A slice is done: so many were moved, could not be placed, were not there; and nothing is left to move.
    pub(crate) fn add(&mut self, moved: u32, unplaced: u32, missing: Vec<u64>, is_over: bool) {
        let looked_at = (moved + unplaced) as usize + missing.len();
        self.moved += moved;
        self.missing.extend(missing);
        self.is_over = is_over;
        self.unplaced = match &mut self.positions {
            None => unplaced,
            Some(positions) => {
                positions.drain(..looked_at.min(positions.len()));
                self.unplaced + unplaced
            }
        };
    }

    /// Whether another slice is to follow.
    pub(crate) fn goes_on(&self, now_ms: u64, limits: &Limits) -> bool {
        !self.is_over
            && self.moved < self.count
            && self.unplaced < limits.move_unplaced_max
            && now_ms.saturating_sub(self.began_ms) < limits.move_ms_max
    }

    /// The outcome so far.
    pub(crate) fn shown(&self) -> Value {
        let mut shown = json!({ "moved": self.moved, "unplaced": self.unplaced, "is_over": self.is_over });
        if self.is_named {
            shown["missing"] = self.missing.clone().into();
        }
        self.searched.iter().for_each(|searched| searched.tell(&mut shown));
        shown
    }

    /// An error that ends it, with the outcome so far beside it, if there is any: messages that have moved stay where
    /// they are.
    pub(crate) fn told(&self, mut error: Response) -> Response {
        let has_begun = self.moved > 0 || self.unplaced > 0 || !self.missing.is_empty();
        if has_begun
            && let (Ok(Value::Object(mut told)), Value::Object(so_far)) =
                (serde_json::from_slice(&error.body), self.shown())
        {
            so_far.into_iter().for_each(|(name, value)| _ = told.entry(name).or_insert(value));
            error.body = Value::Object(told).to_string().into_bytes();
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { move_ms_max: 5000, move_slice_ms: 1000, move_unplaced_max: 10, ..Limits::default() }
    }

    #[test]
    fn slices_add_up() {
        let mut moving = Moving::begin(100, Goal::Origin, (50, 40), 7, None);
        let pace = moving.pace(100, false, &limits());
        let first = Pace {
            count: 50,
            among: 40,
            unplaced_max: 10,
            per_second: 7,
            ms_max: 5000,
            slice_ms: 1000,
            passed: 0,
        };
        assert_eq!(pace, first);
        moving.add(20, 3, Vec::new(), false);
        assert!(moving.goes_on(1100, &limits()));
        // The three that could not be placed are in front again.
        let pace = moving.pace(1100, false, &limits());
        assert_eq!(pace, Pace { count: 30, among: 20, ms_max: 4000, passed: 3, ..first });
        moving.add(5, 4, Vec::new(), true);
        assert!(!moving.goes_on(1200, &limits()));
        assert_eq!(moving.shown(), json!({ "moved": 25, "unplaced": 4, "is_over": true }));
        assert_eq!(moving.pace(1200, true, &limits()).slice_ms, 3900);
    }

    #[test]
    fn positions_are_looked_at_once() {
        let mut moving = Moving::begin(0, Goal::Origin, (u32::MAX, 9), 0, Some(vec![4, 5, 6, 7, 8]));
        moving.add(1, 1, vec![5], false);
        assert_eq!(moving.positions(), Some(vec![7, 8]));
        assert_eq!(moving.pace(0, false, &limits()).unplaced_max, 9);
        moving.add(0, 1, vec![8], true);
        assert_eq!(moving.shown(), json!({ "moved": 1, "unplaced": 2, "missing": [5, 8], "is_over": true }));
    }

    #[test]
    fn a_move_ends_where_it_may_not_go_on() {
        let check = |moved, unplaced, is_over, now_ms, expected| {
            let mut moving = Moving::begin(0, Goal::Origin, (20, 100), 0, None);
            moving.add(moved, unplaced, Vec::new(), is_over);
            assert_eq!(moving.goes_on(now_ms, &limits()), expected, "{moved} {unplaced} {is_over} {now_ms}");
        };
        check(0, 0, false, 0, true);
        check(19, 9, false, 4999, true);
        check(20, 0, false, 0, false);
        check(0, 10, false, 0, false);
        check(1, 1, true, 0, false);
        check(1, 1, false, 5000, false);
    }
}
