//! Ranges of constants on a line, and which of them hold a value.
//!
//! They are kept by the binary order of their length, and those of one order by their begin. A range of less than
//! 2^n that holds a value begins less than 2^n before it, so that of each order one stretch is looked at, more than half of
//! which are hits where ranges are spread evenly. That is simpler than a tree with the ends of what is below each node,
//! no less exact, and what is looked at lies side by side.

use super::filter::Entry;

/// Ranges that lie side by side at most.
const BLOCK: usize = 128;

/// Numbers of a line.
pub(super) trait Line: Copy + Ord {
    const LEAST: Self;
    const MOST: Self;

    /// The fewest bits that hold the distance to a number that is not less.
    fn order(self, most: Self) -> u8;

    /// The number that is before this one by less than this order, the farthest.
    fn before(self, order: u8) -> Self;
}

macro_rules! line {
    ($number:ty) => {
        impl Line for $number {
            const LEAST: $number = <$number>::MIN;
            const MOST: $number = <$number>::MAX;

            #[inline]
            fn order(self, most: $number) -> u8 {
                (<$number>::BITS - (most - self).leading_zeros()) as u8
            }

            #[inline]
            fn before(self, order: u8) -> $number {
                match (1 as $number).checked_shl(order.into()) {
                    Some(length) => self.saturating_sub(length - 1),
                    None => <$number>::MIN,
                }
            }
        }
    };
}

line!(u64);
line!(u128);

/// Ranges, both ends counted, each of a filter.
#[derive(Clone, Debug)]
pub(super) struct Spans<L> {
    /// By begin, of each order of length that there is.
    closed: Vec<(u8, Rows<L>)>,
    /// Ranges without a begin, by end.
    below: Rows<L>,
}

impl<L: Line> Default for Spans<L> {
    fn default() -> Spans<L> {
        Spans { closed: Vec::new(), below: Rows::default() }
    }
}

impl<L: Line> Spans<L> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.below.blocks.is_empty()
    }

    pub(super) fn insert(&mut self, [least, most]: [L; 2], entry: Entry) {
        if least == L::LEAST {
            return self.below.insert(Row { at: most, end: most, entry });
        }
        let order = least.order(most);
        let place = self.closed.partition_point(|(other, _)| *other < order);
        if self.closed.get(place).is_none_or(|(other, _)| *other != order) {
            self.closed.insert(place, (order, Rows::default()));
        }
        self.closed[place].1.insert(Row { at: least, end: most, entry });
    }

    pub(super) fn remove(&mut self, [least, most]: [L; 2], filter: u32) {
        if least == L::LEAST {
            return self.below.remove((most, most, filter));
        }
        let order = least.order(most);
        if let Ok(place) = self.closed.binary_search_by_key(&order, |(other, _)| *other) {
            self.closed[place].1.remove((least, most, filter));
            if self.closed[place].1.blocks.is_empty() {
                self.closed.remove(place);
            }
        }
    }

    /// Each range that has something in common with another one, and whether all of that lies within it, ends apart.
    #[inline]
    pub(super) fn each(&self, [from, to]: [L; 2], mut see: impl FnMut(Entry, bool)) {
        if !self.below.blocks.is_empty() {
            // An empty text is where the line begins, and may be an end too.
            self.below.each(from, L::MOST, |row| see(row.entry, from > L::LEAST && to < row.at));
        }
        for (order, rows) in &self.closed {
            rows.each(from.before(*order), to, |row| {
                if row.end >= from {
                    see(row.entry, row.at < from && to < row.end);
                }
            });
        }
    }

    /// Bytes it keeps on the heap.
    pub(super) fn memory(&self) -> usize {
        self.closed.capacity() * size_of::<(u8, Rows<L>)>()
            + self.closed.iter().map(|(_, rows)| rows.memory()).sum::<usize>()
            + self.below.memory()
    }
}

/// A range, where it is filed: by its begin, or by its end if it has none.
#[derive(Clone, Copy, Debug)]
struct Row<L> {
    at: L,
    end: L,
    entry: Entry,
}

impl<L: Line> Row<L> {
    fn key(&self) -> (L, L, u32) {
        (self.at, self.end, self.entry.filter)
    }
}

/// Ranges in order, in blocks of which none is empty.
#[derive(Clone, Debug)]
struct Rows<L> {
    blocks: Vec<Vec<Row<L>>>,
    /// Where the first range of each block is filed.
    firsts: Vec<L>,
}

impl<L> Default for Rows<L> {
    fn default() -> Rows<L> {
        Rows { blocks: Vec::new(), firsts: Vec::new() }
    }
}

impl<L: Line> Rows<L> {
    /// The block that a range belongs to.
    fn block(&self, key: (L, L, u32)) -> usize {
        self.blocks.partition_point(|block| block[0].key() <= key).saturating_sub(1)
    }

    /// Adds a range; one that a filter has twice counts once.
    fn insert(&mut self, row: Row<L>) {
        if self.blocks.is_empty() {
            self.blocks.push(vec![row]);
            self.firsts.push(row.at);
            return;
        }
        let number = self.block(row.key());
        let block = &mut self.blocks[number];
        let Err(place) = block.binary_search_by_key(&row.key(), Row::key) else { return };
        block.insert(place, row);
        if block.len() > BLOCK {
            let rest = block.split_off(BLOCK / 2);
            block.shrink_to(BLOCK);
            self.firsts.insert(number + 1, rest[0].at);
            self.blocks.insert(number + 1, rest);
        }
        self.firsts[number] = self.blocks[number][0].at;
    }

    fn remove(&mut self, key: (L, L, u32)) {
        if self.blocks.is_empty() {
            return;
        }
        let number = self.block(key);
        let block = &mut self.blocks[number];
        let Ok(place) = block.binary_search_by_key(&key, Row::key) else { return };
        block.remove(place);
        match block.first() {
            Some(first) => self.firsts[number] = first.at,
            None => {
                self.blocks.remove(number);
                self.firsts.remove(number);
            }
        }
    }

    /// Each range that is filed from one number to another, both counted.
    #[inline]
    fn each(&self, from: L, to: L, mut see: impl FnMut(&Row<L>)) {
        let number = self.firsts.partition_point(|first| *first < from).saturating_sub(1);
        let mut start = self.blocks.get(number).map_or(0, |block| block.partition_point(|row| row.at < from));
        for block in self.blocks.iter().skip(number) {
            for row in &block[start..] {
                if row.at > to {
                    return;
                }
                see(row);
            }
            start = 0;
        }
    }

    fn memory(&self) -> usize {
        let rows = self.blocks.iter().map(Vec::capacity).sum::<usize>();
        rows * size_of::<Row<L>>()
            + self.blocks.capacity() * size_of::<Vec<Row<L>>>()
            + self.firsts.capacity() * size_of::<L>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simple generator of numbers; the seed is fixed, so that a failure repeats.
    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    #[test]
    fn ranges_are_found_as_by_looking_at_each() {
        let seed = 0x9E37_79B9_7F4A_7C15;
        let mut roll = numbers(seed);
        let (mut spans, mut all) = (Spans::<u64>::default(), Vec::new());
        for step in 0..20_000u32 {
            let least = match roll(8) {
                0 => u64::MIN,
                _ => roll(10_000),
            };
            let most = match roll(8) {
                0 => u64::MAX,
                1 => least + roll(5_000),
                _ => least + roll(40),
            };
            match roll(5) {
                0 if !all.is_empty() => {
                    let (ends, filter) = all.swap_remove(roll(all.len() as u64) as usize);
                    spans.remove(ends, filter);
                }
                1 => {
                    let from = roll(10_100);
                    let to = if roll(2) == 0 { from } else { from + roll(100) };
                    let mut found = Vec::new();
                    spans.each([from, to], |entry, is_inside| found.push((entry.filter, is_inside)));
                    found.sort_unstable();
                    let mut expected: Vec<_> = all
                        .iter()
                        .filter(|([least, most], _)| *least <= to && from <= *most)
                        .map(|([least, most], filter)| (*filter, *least < from && to < *most))
                        .collect();
                    expected.sort_unstable();
                    assert_eq!(found, expected, "{seed} {step}");
                }
                _ => {
                    spans.insert([least, most], Entry { filter: step, guards: [0; 2] });
                    all.push(([least, most], step));
                }
            }
        }
        assert!(all.len() > 8_000, "{}", all.len());
        for (ends, filter) in all {
            spans.remove(ends, filter);
        }
        assert!(spans.is_empty());
    }
}
