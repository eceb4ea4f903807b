//! Units of work that a turn of a shard has, by how long units took before: as many as take some two milliseconds.
//!
//! The broker counts work and reads no clock; here is the clock. A slow machine, or one that is shared with others, gets
//! fewer units a turn, and a fast one more. Invariant: the units are between the bounds.

/// Units of a turn at least: a machine that is held up for a moment does not make dear work stand still.
pub const LEAST: u32 = 50_000;

/// Units of a turn at most, unless configured.
pub const MOST: u32 = 2_000_000;

/// Nanoseconds that the units of a turn are to take.
const GOAL_NS: u64 = 2_000_000;

/// Where units are fewer than this part of what a turn has, other things take the time.
const PART: u64 = 4;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Allotment {
    units: u32,
    least: u32,
    most: u32,
}

impl Allotment {
    /// Turns begin with so many units, and never have more than `most`; `u32::MAX`: they always have so many, which is no
    /// bound.
    pub fn new(units: u32, most: u32) -> Allotment {
        let least = if most == u32::MAX { most } else { LEAST.min(most) };
        Allotment { units: units.clamp(least, most), least, most }
    }

    /// Units of a turn.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// So many units took so many nanoseconds. The units of a turn from now on, if they are others.
    pub fn took(&mut self, units: u64, ns: u64) -> Option<u32> {
        if units < u64::from(self.units) / PART || self.least == self.most {
            return None;
        }
        let fit = units.saturating_mul(GOAL_NS) / ns.max(1);
        let fit = fit.clamp(self.least.into(), self.most.into());
        // A quarter of the way: one turn in which the thread lost its processor says little.
        let next = ((3 * u64::from(self.units) + fit) / 4) as u32;
        (std::mem::replace(&mut self.units, next) != next).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of so many units and microseconds, one after the other, lead to so many units.
    #[track_caller]
    fn check(begins: u32, most: u32, turns: &[(u64, u64)], ends: u32) {
        let mut allotment = Allotment::new(begins, most);
        let mut told = allotment.units();
        for (units, us) in turns {
            told = allotment.took(*units, us * 1000).unwrap_or(told);
        }
        assert_eq!([allotment.units(), told], [ends; 2], "{turns:?}");
    }

    #[test]
    fn units_follow_the_time_they_take() {
        // As they should: nothing changes.
        check(400_000, MOST, &[(400_000, 2_000); 9], 400_000);
        // Slower and faster, a quarter of the way each time.
        check(400_000, MOST, &[(400_000, 4_000)], 350_000);
        check(400_000, MOST, &[(400_000, 1_000)], 500_000);
        check(400_000, MOST, &[(400_000, 1_000), (500_000, 1_250)], 575_000);
        // One that the machine held up for long.
        check(400_000, MOST, &[(400_000, 500_000)], 312_500);
        // Little dear work says nothing, a command beyond what a turn has does.
        check(400_000, MOST, &[(99_999, 4_000), (0, 100_000), (1, 0)], 400_000);
        check(400_000, MOST, &[(1_000_000, 10_000)], 350_000);
    }

    #[test]
    fn units_have_bounds() {
        check(400_000, MOST, &[(400_000, 100_000); 60], 50_000);
        check(400_000, MOST, &[(2_000_000, 0); 60], 1_999_997);
        check(400_000, 300_000, &[(400_000, 1); 9], 300_000);
        check(400_000, 1_000, &[(400_000, 1), (400_000, 1_000_000)], 1_000);
        check(400_000, u32::MAX, &[(400_000, 1), (u64::MAX, 1_000_000)], u32::MAX);
        check(1_000, MOST, &[], LEAST);
    }
}
