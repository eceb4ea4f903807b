//! How long turns of a shard's loop take, and how long others look at it in one: what a client may have to wait for.
//!
//! One clock reading more for a turn, whatever it does. The longest is told of the last half minute to minute, so that one long
//! turn does not hide later ones.

use crate::clock::Moment;
use management::TURN_BOUNDS_US;

/// Nanoseconds of which the longest is kept.
const SPAN_NS: u64 = 30_000_000_000;

/// The longest of something, in this span and in the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Longest {
    span: u64,
    now_ns: u64,
    before_ns: u64,
}

impl Longest {
    #[inline]
    fn add(&mut self, at_ns: u64, took_ns: u64) {
        let span = at_ns / SPAN_NS;
        if span != self.span {
            self.before_ns = if span == self.span + 1 { self.now_ns } else { 0 };
            (self.span, self.now_ns) = (span, 0);
        }
        self.now_ns = self.now_ns.max(took_ns);
    }

    fn get(mut self, at_ns: u64) -> u64 {
        self.add(at_ns, 0);
        self.now_ns.max(self.before_ns)
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    groups: [u64; TURN_BOUNDS_US.len() + 1],
    sum_ns: u64,
    longest: Longest,
    longest_look: Longest,
    /// The same of the time that the thread had a processor.
    longest_look_work: Longest,
}

impl Turns {
    /// A turn went from one moment to the other, monotonic nanoseconds.
    #[inline]
    pub fn add(&mut self, from_ns: u64, to_ns: u64) {
        let took_ns = to_ns.saturating_sub(from_ns);
        let is_longer = |bound: &u64| *bound * 1000 < took_ns;
        self.groups[TURN_BOUNDS_US.iter().take_while(|bound| is_longer(bound)).count()] += 1;
        self.sum_ns += took_ns;
        self.longest.add(to_ns, took_ns);
    }

    /// Somebody had a look at the shard from one moment to the other.
    pub fn looked(&mut self, from: Moment, to: Moment) {
        self.longest_look.add(to.mono_ns, to.mono_ns.saturating_sub(from.mono_ns));
        self.longest_look_work.add(to.mono_ns, to.cpu_ns.saturating_sub(from.cpu_ns));
    }

    /// All of it, as it is told.
    pub fn told(&self, now_ns: u64) -> management::Turns {
        management::Turns {
            groups: self.groups,
            sum_ns: self.sum_ns,
            longest_ns: self.longest.get(now_ns),
            longest_look_ns: self.longest_look.get(now_ns),
            longest_look_work_ns: self.longest_look_work.get(now_ns),
            ..management::Turns::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_in_their_groups_and_the_longest_is_forgotten_in_time() {
        let mut turns = Turns::default();
        for (from, took_us) in [(1, 50), (100, 51), (200, 2_000), (300, 200_000)] {
            turns.add(from, from + took_us * 1000);
        }
        turns.looked(Moment::default(), Moment { mono_ns: 7, cpu_ns: 5 });
        let told = turns.told(SPAN_NS);
        assert_eq!((told.groups[0], told.groups[1], told.groups[5], told.groups[10]), (1, 1, 1, 1));
        assert_eq!((told.sum_ns, told.longest_ns), (202_101_000, 200_000_000));
        assert_eq!((told.longest_look_ns, told.longest_look_work_ns), (7, 5));
        let told = turns.told(3 * SPAN_NS);
        assert_eq!((told.groups.iter().sum::<u64>(), told.longest_ns), (4, 0));
        assert_eq!((told.longest_look_ns, told.longest_look_work_ns), (0, 0));
    }
}
