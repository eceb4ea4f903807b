//! Telling a publisher which publishes are safe: publish numbers become delivery tags, as few acks as possible.

/// An ack that is due: a tag, and whether with all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) tag: u64,
    pub(super) multiple: bool,
}

/// The confirms of one channel. Numbers are those of the publisher less `base`.
#[derive(Debug)]
pub(super) struct Confirms {
    /// The publisher's number before the first publish that counts.
    base: u64,
    /// All tags up to this are confirmed and told.
    told: u64,
    /// Safe and not told yet.
    safe: base::RangeSet,
    /// Told one by one, because something before was not safe.
    singly: base::RangeSet,
}

impl Confirms {
    /// Counts from here: the next publish gets the publisher's number `next`.
    pub(super) fn new(next: u64) -> Confirms {
        Confirms { base: next - 1, told: 0, safe: Default::default(), singly: Default::default() }
    }

    /// The publishes `first..=last` are safe.
    #[inline]
    pub(super) fn safe(&mut self, first: u64, last: u64) {
        if last > self.base {
            let first = first.max(self.base + 1) - self.base;
            self.safe.insert(base::ranges::Range { first, last: last - self.base });
        }
    }

    /// The publish is not safe and will not be: its tag, to be told at once; `None` where it does not count.
    pub(super) fn refused(&mut self, seq: u64) -> Option<u64> {
        let tag = seq.checked_sub(self.base).filter(|tag| *tag > 0)?;
        self.singly.insert(base::ranges::Range { first: tag, last: tag });
        self.told = self.skip_singly(self.told);
        Some(tag)
    }

    /// Tells all that is safe; afterwards nothing is due.
    pub(super) fn tell(&mut self, mut ack: impl FnMut(Ack)) {
        // The last safe number of those that follow on the told ones, and the numbers told with it.
        let (mut safe, mut upto) = (self.told, self.told);
        for range in std::mem::take(&mut self.safe).iter() {
            if range.first == upto + 1 {
                safe = range.last;
                upto = self.skip_singly(range.last);
                continue;
            }
            self.tell_upto(safe, upto, &mut ack);
            for tag in range.first..=range.last {
                ack(Ack { tag, multiple: false });
            }
            self.singly.insert(range);
        }
        self.tell_upto(safe, upto, &mut ack);
    }

    fn tell_upto(&mut self, safe: u64, upto: u64, ack: &mut impl FnMut(Ack)) {
        if safe > self.told {
            ack(Ack { tag: safe, multiple: safe - self.told > 1 });
            self.told = upto;
        }
    }

    /// Tags that were told singly right behind `upto` belong to the range up to now.
    fn skip_singly(&mut self, upto: u64) -> u64 {
        let mut upto = upto;
        while let Some(range) = self.singly.first().filter(|range| range.first == upto + 1) {
            upto = range.last;
            self.singly.remove(range, |_| ());
        }
        upto
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(confirms: &mut Confirms) -> Vec<(u64, bool)> {
        let mut acks = Vec::new();
        confirms.tell(|Ack { tag, multiple }| acks.push((tag, multiple)));
        acks
    }

    #[test]
    fn in_order_is_one_ack() {
        let mut confirms = Confirms::new(1);
        confirms.safe(1, 1);
        assert_eq!(told(&mut confirms), [(1, false)]);
        confirms.safe(2, 50);
        confirms.safe(51, 60);
        assert_eq!(told(&mut confirms), [(60, true)]);
        assert_eq!(told(&mut confirms), []);
    }

    #[test]
    fn out_of_order_is_told_singly_and_once() {
        let mut confirms = Confirms::new(11);
        confirms.safe(13, 14);
        assert_eq!(told(&mut confirms), [(3, false), (4, false)]);
        confirms.safe(11, 12);
        assert_eq!(told(&mut confirms), [(2, true)]);
        confirms.safe(15, 15);
        assert_eq!(told(&mut confirms), [(5, false)]);
    }

    #[test]
    fn what_is_refused_is_told_once_and_acked_never() {
        let mut confirms = Confirms::new(11);
        assert_eq!(confirms.refused(10), None);
        assert_eq!(confirms.refused(12), Some(2));
        confirms.safe(11, 11);
        assert_eq!(told(&mut confirms), [(1, false)]);
        confirms.safe(13, 14);
        assert_eq!(told(&mut confirms), [(4, true)]);
        assert_eq!(confirms.refused(15), Some(5));
        confirms.safe(16, 16);
        assert_eq!(told(&mut confirms), [(6, false)]);
    }

    #[test]
    fn publishes_before_confirm_select_do_not_count() {
        let mut confirms = Confirms::new(11);
        confirms.safe(9, 11);
        assert_eq!(told(&mut confirms), [(1, false)]);
    }
}
