//! A shard's pace: the work that a turn has.

use crate::limits::Limits;
use base::Work;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Work on the input of connections.
    pub(crate) work: Work,
    /// Units of it that a turn has.
    pub(super) units: u32,
}

impl Pace {
    /// As it begins.
    pub(super) fn new(limits: &Limits) -> Pace {
        Pace { work: Work::default(), units: limits.turn_work_max.max(1) }
    }

    /// Units of work on dead letters that a turn has: in proportion to those on the input of connections.
    pub(super) fn of_dead_letters(&self, limits: &Limits) -> u32 {
        let units = u64::from(limits.dead_lettering_work_max) * u64::from(self.units);
        u32::try_from(units / u64::from(limits.turn_work_max.max(1))).unwrap_or(u32::MAX).max(1)
    }
}
