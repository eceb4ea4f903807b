//! Work of a turn, counted in units where its cost has no bound of its own.
//!
//! A unit is one look at something small that is found by way of another: a node of a trie, an argument of a binding, a
//! queue that a message goes to. It has some 60 instructions, within a factor of two (`cargo xtask test` counts them):
//! 5 to 10 ns on a processor of today. Work that grows only with the bytes that came is not counted: those have bounds of
//! their own. Nothing here reads a clock: how many units there are for a turn is the
//! caller's to say.

/// Units that may still be spent, and those that were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    left: u32,
    spent: u64,
}

impl Work {
    /// So many units may be spent from now on; those spent and not [taken](Work::take) stay counted.
    #[inline]
    pub fn allow(&mut self, units: u32) {
        self.left = units;
    }

    /// Units that may still be spent.
    #[inline]
    pub fn left(&self) -> u32 {
        self.left
    }

    /// All that was allowed is spent: what is left to do is for the next turn.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Work was done. The last may take more than was left.
    #[inline]
    pub fn spend(&mut self, units: u32) {
        self.left = self.left.saturating_sub(units);
        self.spent += u64::from(units);
    }

    /// Something was spent that was not [taken](Work::take).
    #[inline]
    pub fn has_spent(&self) -> bool {
        self.spent != 0
    }

    /// Units that were spent and not [taken](Work::take).
    #[inline]
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Units spent since this was last asked.
    #[inline]
    pub fn take(&mut self) -> u64 {
        std::mem::take(&mut self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_counted_beyond_what_was_allowed() {
        let mut work = Work::default();
        assert!(work.is_over() && work.take() == 0);
        work.allow(10);
        work.spend(4);
        assert!(!work.is_over());
        work.spend(u32::MAX);
        assert!(work.is_over());
        work.allow(1);
        assert!(!work.is_over());
        assert_eq!(work.spent(), 4 + u64::from(u32::MAX));
        assert_eq!([work.take(), work.take()], [4 + u64::from(u32::MAX), 0]);
    }
}
