//! Things that may go wrong, and how often: rolled once for a run.

use base::Random;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Microseconds a message takes, mostly, and at most where it is late.
    pub delay_us: (u64, u64),
    /// One message in so many is late; 0: none.
    pub late_one_in: u64,
    /// One message in so many is lost; 0: none.
    pub lost_one_in: u64,
    /// One message in so many comes twice; 0: none.
    pub twice_one_in: u64,
    /// Microseconds a flush takes, mostly, and at most where it is slow.
    pub flush_us: (u64, u64),
    /// One flush in so many is slow.
    pub slow_one_in: u64,
    /// Microseconds between faults, about.
    pub every_us: u64,
    /// Members change.
    pub changes: bool,
    /// Microseconds between proposals, about.
    pub propose_us: u64,
    /// Entries kept behind a snapshot.
    pub keep_entries: u64,
    /// Microseconds between snapshots of a log, about; 0: none are made.
    pub snapshot_us: u64,
}

impl Faults {
    /// Those of a run.
    pub fn roll(dice: &mut Random) -> Faults {
        let one_of = |dice: &mut Random, of: &[u64]| of[dice.below(of.len() as u64) as usize];
        Faults {
            delay_us: (one_of(dice, &[50, 200, 2000]), one_of(dice, &[5000, 60_000, 400_000])),
            late_one_in: one_of(dice, &[0, 50, 10]),
            lost_one_in: one_of(dice, &[0, 0, 100, 10, 4]),
            twice_one_in: one_of(dice, &[0, 50, 10]),
            flush_us: (one_of(dice, &[40, 300, 3000]), one_of(dice, &[5000, 100_000, 400_000])),
            slow_one_in: one_of(dice, &[100, 30]),
            every_us: one_of(dice, &[50_000, 200_000, 700_000]),
            changes: dice.one_in(2),
            propose_us: one_of(dice, &[300, 3000, 20_000]),
            keep_entries: one_of(dice, &[0, 10, 100]),
            snapshot_us: one_of(dice, &[0, 100_000, 500_000]),
        }
    }

    /// Few enough writes for a journal in memory.
    pub fn is_journaled(&self) -> bool {
        self.propose_us >= 3000
    }

    /// All is well.
    pub fn end(&mut self) {
        (self.late_one_in, self.lost_one_in, self.twice_one_in, self.slow_one_in) = (0, 0, 0, 0);
        self.delay_us = (200, 200);
        self.flush_us = (300, 300);
        self.changes = false;
    }

    /// Microseconds that a message takes; none: it is lost.
    pub fn message(&self, dice: &mut Random) -> Option<u64> {
        if self.lost_one_in > 0 && dice.one_in(self.lost_one_in) {
            return None;
        }
        let is_late = self.late_one_in > 0 && dice.one_in(self.late_one_in);
        let (mostly, most) = self.delay_us;
        Some(1 + dice.below(if is_late { most } else { mostly }))
    }

    /// Whether a message comes twice.
    pub fn is_twice(&self, dice: &mut Random) -> bool {
        self.twice_one_in > 0 && dice.one_in(self.twice_one_in)
    }

    /// Microseconds that a flush takes.
    pub fn flush(&self, dice: &mut Random) -> u64 {
        let is_slow = self.slow_one_in > 0 && dice.one_in(self.slow_one_in);
        let (mostly, most) = self.flush_us;
        1 + dice.below(if is_slow { most } else { mostly })
    }
}
