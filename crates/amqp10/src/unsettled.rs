//! Deliveries we sent and the peer has not settled: from delivery-id to link and the caller's token, without a search
//! and without an allocation per delivery.
//!
//! Delivery-ids of a session are dense, so this is a ring indexed by id. A few deliveries that stay unsettled while
//! thousands after them are settled would keep the ring long: they move to a short sorted list aside, and the ring begins
//! after them. All arithmetic on ids wraps at 2^32 (§2.8.10).

use std::collections::VecDeque;

/// The token and the link of a delivery.
#[derive(Clone, Copy, Debug)]
struct Entry {
    token: u64,
    /// The link, or [`GONE`].
    link: u16,
}

/// A place in the ring whose delivery is settled.
const GONE: u16 = u16::MAX;

/// The ring is looked through for stragglers when it is at least this long.
const RING_MIN: usize = 512;

/// Settled deliveries of one link whose tokens follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The link, by our handle.
    pub link: u16,
    /// The first delivery-id.
    pub delivery_id: u32,
    /// The first token; the others are the next numbers.
    pub token: u64,
    /// Deliveries.
    pub count: u32,
}

/// The unsettled deliveries of a session.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    /// The id of the ring's first place.
    base: u32,
    ring: VecDeque<Entry>,
    /// Places of the ring that are not [`GONE`].
    live: usize,
    /// Older than the ring, in order of id. Allocated when first needed.
    stragglers: Vec<(u32, Entry)>,
}

impl Unsettled {
    pub fn new(first_delivery_id: u32) -> Unsettled {
        Unsettled { base: first_delivery_id, ..Unsettled::default() }
    }

    /// Deliveries in it.
    pub fn len(&self) -> usize {
        self.live + self.stragglers.len()
    }

    /// The id the next delivery gets.
    #[inline]
    pub fn next_id(&self) -> u32 {
        self.base.wrapping_add(self.ring.len() as u32)
    }

    /// A delivery was sent; answers its id.
    #[inline]
    pub fn push(&mut self, link: u16, token: u64) -> u32 {
        if self.ring.len() >= RING_MIN && self.ring.len() == self.ring.capacity() {
            self.put_stragglers_aside();
        }
        let id = self.next_id();
        self.ring.push_back(Entry { token, link });
        self.live += 1;
        id
    }

    /// A delivery was sent settled; answers its id.
    #[inline]
    pub fn skip(&mut self) -> u32 {
        let id = self.next_id();
        if self.ring.is_empty() {
            self.base = self.base.wrapping_add(1);
        } else {
            self.push(GONE, 0);
            self.live -= 1;
        }
        id
    }

    /// Whether there may be one more, be it settled or not, and an id for it: none only when the oldest delivery is half the number
    /// space old.
    #[inline]
    pub fn has_room(&self, settled: bool, most: usize) -> bool {
        (settled || self.len() < most) && self.span() < 1 << 31
    }

    /// So many ids lie between the oldest delivery and the next that half of those there can be are used.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.span() >= 1 << 30
    }

    /// Ids from the oldest delivery to the next.
    #[inline]
    fn span(&self) -> u32 {
        let oldest = self.stragglers.first().map_or(self.base, |(id, _)| *id);
        self.next_id().wrapping_sub(oldest)
    }

    /// Removes the unsettled deliveries from `first` to `last` and tells them in runs. Ids that are not there, or a
    /// range that runs backwards, mean nothing.
    #[inline]
    pub fn settle(&mut self, first: u32, last: u32, mut each: impl FnMut(Run)) {
        if (last.wrapping_sub(first) as i32) < 0 {
            return;
        }
        let mut run: Option<Run> = None;
        let mut tell = |id: u32, entry: Entry| match &mut run {
            Some(run)
                if run.link == entry.link && run.token.wrapping_add(run.count.into()) == entry.token =>
            {
                run.count += 1;
            }
            _ => {
                let next = Run { link: entry.link, delivery_id: id, token: entry.token, count: 1 };
                if let Some(done) = run.replace(next) {
                    each(done);
                }
            }
        };
        if !self.stragglers.is_empty() {
            let base = self.base;
            // As ages before the ring's first id, all of these compare without wrapping.
            let age = |id: u32| base.wrapping_sub(id);
            let is_old = (first.wrapping_sub(base) as i32) < 0;
            if is_old {
                let youngest = if (last.wrapping_sub(base) as i32) < 0 { age(last) } else { 1 };
                let from = self.stragglers.partition_point(|(id, _)| age(*id) > age(first));
                let to = self.stragglers.partition_point(|(id, _)| age(*id) >= youngest);
                self.stragglers.drain(from..to.max(from)).for_each(|(id, entry)| tell(id, entry));
            }
        }
        // Where the range cuts the ring.
        let from = match first.wrapping_sub(self.base) as i32 {
            before if before < 0 => 0,
            at => at as usize,
        };
        let to = match last.wrapping_sub(self.base) as i32 {
            before if before < 0 => 0,
            at => (at as usize + 1).min(self.ring.len()),
        };
        if from < to {
            let base = self.base;
            let mut gone = 0;
            for (at, entry) in self.ring.range_mut(from..to).enumerate() {
                if entry.link != GONE {
                    tell(base.wrapping_add((from + at) as u32), *entry);
                    entry.link = GONE;
                    gone += 1;
                }
            }
            self.live -= gone;
            self.drop_front(from, to);
        }
        if let Some(run) = run {
            each(run);
        }
    }

    /// Tells the ids of the deliveries whose link and token are meant, in order, in ranges.
    pub fn find(&self, is_meant: impl Fn(u16, u64) -> bool, mut each: impl FnMut(u32, u32)) {
        let mut run: Option<(u32, u32)> = None;
        for (id, _) in self.iter().filter(|(_, entry)| is_meant(entry.link, entry.token)) {
            match &mut run {
                Some((_, end)) if end.wrapping_add(1) == id => *end = id,
                _ => {
                    if let Some((from, to)) = run.replace((id, id)) {
                        each(from, to);
                    }
                }
            }
        }
        if let Some((from, to)) = run {
            each(from, to);
        }
    }

    /// Tells link and token of those of `first..=last`, in order. It costs a step for each of these ids that is in use, and for
    /// each straggler.
    pub fn look(&self, first: u32, last: u32, mut each: impl FnMut(u16, u64)) {
        let age = last.wrapping_sub(first);
        if age > i32::MAX as u32 {
            return;
        }
        let old = self.stragglers.iter().filter(|(id, _)| id.wrapping_sub(first) <= age);
        old.for_each(|(_, entry)| each(entry.link, entry.token));
        let at = |id: u32| usize::try_from(id.wrapping_sub(self.base) as i32).ok();
        let to = at(last).map_or(0, |at| (at + 1).min(self.ring.len()));
        let from = at(first).unwrap_or(0).min(to);
        let ring = self.ring.range(from..to).filter(|entry| entry.link != GONE);
        ring.for_each(|entry| each(entry.link, entry.token));
    }

    /// All that are not settled, with their ids, in order.
    fn iter(&self) -> impl Iterator<Item = (u32, Entry)> {
        let base = self.base;
        let ring = self.ring.iter().enumerate();
        let ring = ring.map(move |(at, entry)| (base.wrapping_add(at as u32), *entry));
        self.stragglers.iter().copied().chain(ring).filter(|(_, entry)| entry.link != GONE)
    }

    /// Forgets the deliveries of a link.
    pub fn forget_link(&mut self, link: u16) {
        self.stragglers.retain(|(_, entry)| entry.link != link);
        for entry in self.ring.iter_mut().filter(|entry| entry.link == link) {
            entry.link = GONE;
            self.live -= 1;
        }
        self.drop_front(0, 0);
    }

    /// Drops settled places from the front; those in `from..to` are known to be settled.
    #[inline]
    fn drop_front(&mut self, from: usize, to: usize) {
        if self.live == 0 {
            self.base = self.next_id();
            self.ring.clear();
            if self.ring.capacity() > RING_MIN && self.stragglers.is_empty() {
                self.ring.shrink_to(RING_MIN);
            }
            return;
        }
        let mut dropped = if from == 0 { to } else { 0 };
        dropped += self.ring.range(dropped..).take_while(|entry| entry.link == GONE).count();
        self.ring.drain(..dropped);
        self.base = self.base.wrapping_add(dropped as u32);
    }

    /// The ring is full: if little of its front half is left, puts that aside instead of growing.
    #[cold]
    fn put_stragglers_aside(&mut self) {
        let half = self.ring.len() / 2;
        let left = self.ring.range(..half).filter(|entry| entry.link != GONE).count();
        if left > half / 8 {
            return;
        }
        for (at, entry) in self.ring.drain(..half).enumerate() {
            if entry.link != GONE {
                self.stragglers.push((self.base.wrapping_add(at as u32), entry));
            }
        }
        self.live -= left;
        self.base = self.base.wrapping_add(half as u32);
    }

    /// Bytes of memory it holds.
    pub fn capacity_bytes(&self) -> usize {
        self.ring.capacity() * size_of::<Entry>() + self.stragglers.capacity() * size_of::<(u32, Entry)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn runs_are_by_link_and_token() {
        let mut unsettled = Unsettled::new(u32::MAX - 1);
        for (link, token) in [(1, 10), (1, 11), (2, 12), (2, 13), (2, 15)] {
            unsettled.push(link, token);
        }
        let mut runs = Vec::new();
        unsettled.settle(u32::MAX - 5, 1, |run| runs.push(run));
        let run = |link, delivery_id, token, count| Run { link, delivery_id, token, count };
        assert_eq!(runs, [run(1, u32::MAX - 1, 10, 2), run(2, 0, 12, 2)]);
        assert_eq!((unsettled.len(), unsettled.next_id()), (1, 3));
        unsettled.settle(5, 1, |_| panic!("runs backwards"));
        unsettled.settle(0, 1, |_| panic!("twice"));
        unsettled.settle(2, 2, |run| assert_eq!(run.token, 15));
        assert_eq!((unsettled.len(), unsettled.next_id()), (0, 3));
    }

    #[test]
    fn finds_by_link_and_token() {
        let mut unsettled = Unsettled::new(u32::MAX);
        unsettled.push(7, 1000);
        for token in 0..600 {
            unsettled.push(1 + (token % 100 == 50) as u16, token);
        }
        unsettled.settle(1, 590, |_| {});
        unsettled.push(7, 1001);
        let found = |link, first, last| {
            let mut found = Vec::new();
            let is_meant = |of: u16, token: u64| of == link && (first..=last).contains(&token);
            unsettled.find(is_meant, |from, to| found.push((from, to)));
            found
        };
        assert_eq!(found(7, 0, 2000), [(u32::MAX, u32::MAX), (600, 600)]);
        assert_eq!(found(1, 0, 2000), [(0, 0), (591, 599)]);
        assert_eq!(found(1, 595, 596), [(595, 596)]);
        assert_eq!(found(2, 0, 2000), [], "settled");
        let looked = |first, last| {
            let mut looked = Vec::new();
            unsettled.look(first, last, |link, token| looked.push((link, token)));
            looked
        };
        assert_eq!(looked(u32::MAX, 0), [(7, 1000), (1, 0)]);
        assert_eq!(looked(599, 9999), [(1, 599), (7, 1001)]);
        assert_eq!(looked(600, 599), [], "runs backwards");
    }

    #[test]
    fn ids_run_out_where_one_is_never_settled() {
        let after = |span: u32| Unsettled {
            base: 7u32.wrapping_add(span),
            stragglers: vec![(7, Entry { token: 1, link: 0 })],
            ..Unsettled::default()
        };
        for (span, is_long, has_room) in [
            (1, false, true),
            ((1 << 30) - 1, false, true),
            (1 << 30, true, true),
            ((1 << 31) - 1, true, true),
            (1 << 31, true, false),
        ] {
            let mut unsettled = after(span);
            assert_eq!((unsettled.is_long(), unsettled.has_room(true, 1)), (is_long, has_room), "{span}");
            assert!(!unsettled.has_room(false, 1), "one there is");
            unsettled.settle(7, 7, |run| assert_eq!(run.token, 1));
            assert!(!unsettled.is_long() && unsettled.has_room(false, 1), "{span}");
        }
    }

    #[test]
    fn a_straggler_does_not_keep_the_ring() {
        let mut unsettled = Unsettled::new(0);
        unsettled.push(7, 1000);
        for token in 0..1_000_000 {
            let id = unsettled.push(1, token);
            unsettled.settle(id, id, |_| {});
        }
        assert!(unsettled.capacity_bytes() < 40_000, "{}", unsettled.capacity_bytes());
        let mut runs = Vec::new();
        unsettled.settle(0, 1_000_000, |run| runs.push(run));
        assert_eq!(runs, [Run { link: 7, delivery_id: 0, token: 1000, count: 1 }]);
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(
            start in any::<u32>(),
            steps in prop::collection::vec((0u8..6, 0u32..900, 0u32..900), 0..3000),
        ) {
            let mut unsettled = Unsettled::new(start);
            // By distance from the start, which does not wrap.
            let mut model: BTreeMap<u32, (u16, u64)> = BTreeMap::new();
            let mut next = 0u32;
            for (step, a, b) in steps {
                match step {
                    0 => {
                        prop_assert_eq!(unsettled.skip(), start.wrapping_add(next));
                        next += 1;
                    }
                    1 if a < 3 => {
                        unsettled.forget_link(a as u16);
                        model.retain(|_, (link, _)| *link != a as u16);
                    }
                    1 | 2 => {
                        let first = next.saturating_sub(a);
                        let last = first + b / 20;
                        let mut told = Vec::new();
                        unsettled.settle(start.wrapping_add(first), start.wrapping_add(last), |run| {
                            for i in 0..run.count {
                                let id = run.delivery_id;
                                told.push((run.link, run.token + u64::from(i), (i == 0).then_some(id)));
                            }
                        });
                        let expected: Vec<_> = model.range(first..=last).map(|(id, entry)| (*id, *entry)).collect();
                        model.retain(|id, _| !(first..=last).contains(id));
                        prop_assert_eq!(told.len(), expected.len());
                        for ((link, token, id), (at, entry)) in told.iter().zip(&expected) {
                            prop_assert_eq!((*link, *token), *entry);
                            prop_assert!(id.is_none_or(|id| id == start.wrapping_add(*at)));
                        }
                    }
                    _ => {
                        for _ in 0..1 + a % 16 {
                            let (link, token) = ((b % 3) as u16, u64::from(next));
                            prop_assert_eq!(unsettled.push(link, token), start.wrapping_add(next));
                            model.insert(next, (link, token));
                            next += 1;
                        }
                    }
                }
                prop_assert_eq!(unsettled.len(), model.len());
            }
        }
    }
}
