//! Runs of positions by their time, the next one first, for any number of them: the times of [`crate::deadlines`].
//!
//! The last [`YOUNG_MAX`] that came are a heap. Filled, it is sorted and becomes a *line*: runs in order, each told by how it
//! differs from the one before, which is three to seven bytes where twenty would tell all of it. Runs that come in order
//! make one line longer; others make many lines, of which the short are merged a few at a time, so that no single insertion
//! costs more than [`MERGED_MAX`] runs. So the next run is found among few, everything in order is a merge of few
//! sorted lines, and no memory for a second copy of it all is ever needed.
//! Not a set: a run that is put in twice comes out twice.
//!
//! Invariants: a line is sorted and not empty; `order` names each line once, by its first run.

use base::ranges::Range;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Runs that are kept as they came.
const YOUNG_MAX: usize = 1024;

/// As many lines of a size are merged into one.
const FAN: usize = 8;

/// Lines shorter than these are merged with those like them: the last is as long as a line gets that way.
const SIZES: [usize; 2] = [YOUNG_MAX * FAN, YOUNG_MAX * FAN * FAN / 2];

/// Runs merged in one go: bounds how long that takes.
#[cfg(test)]
const MERGED_MAX: usize = SIZES[1] * FAN;

/// Bytes of one block of a line.
const BLOCK_BYTES: usize = 1024;

/// Bytes a run takes at most in a line: two numbers of ten bytes and one of five.
const RUN_BYTES_MAX: usize = 25;

/// Positions that have the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) at_ms: u64,
    pub(crate) first: u64,
    /// 0: no run at all.
    pub(crate) count: u32,
}

impl Run {
    pub(crate) fn range(self) -> Range {
        Range { first: self.first, last: self.first + u64::from(self.count) - 1 }
    }
}

/// A run in twenty bytes, in the order of time and first position: numbers by halves, the higher first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packed {
    at_ms: [u32; 2],
    first: [u32; 2],
    count: u32,
}

impl Packed {
    fn of(run: Run) -> Packed {
        let halves = |number: u64| [(number >> 32) as u32, number as u32];
        Packed { at_ms: halves(run.at_ms), first: halves(run.first), count: run.count }
    }

    fn run(self) -> Run {
        let whole = |[high, low]: [u32; 2]| u64::from(high) << 32 | u64::from(low);
        Run { at_ms: whole(self.at_ms), first: whole(self.first), count: self.count }
    }
}

/// Runs in order.
#[derive(Debug)]
struct Line {
    /// The next one.
    first: Run,
    /// The last one.
    last: Run,
    /// How many there are.
    len: usize,
    /// All behind the first.
    blocks: VecDeque<Vec<u8>>,
    /// Where in the first block that begins which is behind `first`.
    at: usize,
}

impl Line {
    fn new(run: Run) -> Line {
        Line { first: run, last: run, len: 1, blocks: VecDeque::new(), at: 0 }
    }

    /// Adds a run behind all others.
    fn push(&mut self, run: Run) {
        debug_assert!(self.last <= run, "a line is in order");
        if self.blocks.back().is_none_or(|block| block.len() + RUN_BYTES_MAX > BLOCK_BYTES) {
            self.blocks.push_back(Vec::with_capacity(BLOCK_BYTES));
        }
        let Some(block) = self.blocks.back_mut() else { return };
        write_number(block, run.at_ms - self.last.at_ms);
        let further = run.first.wrapping_sub(self.last.first) as i64;
        write_number(block, (further << 1 ^ further >> 63) as u64);
        write_number(block, u64::from(run.count));
        self.last = run;
        self.len += 1;
    }

    /// The first is taken out; false: it was the last.
    fn advance(&mut self) -> bool {
        self.len -= 1;
        let Some(block) = self.blocks.front().filter(|_| self.len > 0) else { return false };
        self.first = read_run(block, &mut self.at, self.first);
        if self.at == block.len() {
            self.blocks.pop_front();
            self.at = 0;
        }
        true
    }

    fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let mut blocks = self.blocks.iter();
        let (mut block, mut at) = (blocks.next(), self.at);
        let mut run = self.first;
        let behind = std::iter::from_fn(move || {
            if at == block?.len() {
                (block, at) = (blocks.next(), 0);
            }
            run = read_run(block?, &mut at, run);
            Some(run)
        });
        std::iter::once(self.first).chain(behind)
    }

    fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Vec<u8>>() + self.blocks.len() * BLOCK_BYTES
    }
}

/// Seven bits a byte, lowest first, the top bit says that more follow.
fn write_number(block: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        block.push(number as u8 | 0x80);
        number >>= 7;
    }
    block.push(number as u8);
}

fn read_number(block: &[u8], at: &mut usize) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = block[*at];
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

fn read_run(block: &[u8], at: &mut usize, before: Run) -> Run {
    let at_ms = before.at_ms + read_number(block, at);
    let further = read_number(block, at);
    let further = (further >> 1) as i64 ^ -((further & 1) as i64);
    let first = before.first.wrapping_add(further as u64);
    Run { at_ms, first, count: read_number(block, at) as u32 }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    young: BinaryHeap<Reverse<Packed>>,
    lines: Vec<Line>,
    /// The lines by their first runs.
    order: BinaryHeap<Reverse<(Packed, u32)>>,
    len: usize,
}

impl Schedule {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Runs in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts a run in, which is not empty.
    pub(crate) fn push(&mut self, run: Run) {
        self.len += 1;
        self.young.push(Reverse(Packed::of(run)));
        if self.young.len() >= YOUNG_MAX {
            self.line_up();
        }
    }

    /// The next run.
    pub(crate) fn first(&self) -> Option<Run> {
        let young = self.young.peek().map(|Reverse(run)| *run);
        let old = self.order.peek().map(|Reverse((run, _))| *run);
        young.into_iter().chain(old).min().map(Packed::run)
    }

    /// Takes the next run out.
    pub(crate) fn pop(&mut self) -> Option<Run> {
        let first = self.first()?;
        self.len -= 1;
        if self.young.peek().is_some_and(|Reverse(run)| run.run() == first) {
            self.young.pop();
            return Some(first);
        }
        let Reverse((_, at)) = self.order.pop()?;
        let line = &mut self.lines[at as usize];
        if line.advance() {
            self.order.push(Reverse((Packed::of(line.first), at)));
        } else {
            self.lines.remove(at as usize);
            self.put_in_order();
        }
        Some(first)
    }

    /// The young ones become a line, or go on with the last.
    #[cold]
    fn line_up(&mut self) {
        let mut young = std::mem::take(&mut self.young).into_sorted_vec();
        let mut runs = young.iter().rev().map(|Reverse(run)| run.run());
        let goes_on = self
            .lines
            .last_mut()
            .zip(young.last())
            .is_some_and(|(last, Reverse(first))| last.last <= first.run());
        if !goes_on && let Some(first) = runs.next() {
            self.lines.push(Line::new(first));
        }
        if let Some(line) = self.lines.last_mut() {
            runs.for_each(|run| line.push(run));
        }
        young.clear();
        self.young = young.into();
        if !goes_on {
            SIZES.into_iter().for_each(|size| self.merge_shorter(size));
            self.put_in_order();
        }
    }

    /// Merges the lines shorter than `size`, if there are enough of them.
    fn merge_shorter(&mut self, size: usize) {
        if self.lines.iter().filter(|line| line.len < size).count() < FAN {
            return;
        }
        // Those that grew short together are not merged together.
        let mut left = FAN;
        let mut short: Vec<Line> = self
            .lines
            .extract_if(.., |line| {
                line.len < size && left > 0 && {
                    left -= 1;
                    true
                }
            })
            .collect();
        let mut firsts: BinaryHeap<_> =
            short.iter().zip(0..).map(|(line, at)| Reverse((line.first, at))).collect();
        let mut merged: Option<Line> = None;
        while let Some(Reverse((run, at))) = firsts.pop() {
            match &mut merged {
                Some(merged) => merged.push(run),
                None => merged = Some(Line::new(run)),
            }
            let line: &mut Line = &mut short[at];
            if line.advance() {
                firsts.push(Reverse((line.first, at)));
            }
        }
        self.lines.extend(merged);
    }

    fn put_in_order(&mut self) {
        let firsts = self.lines.iter().zip(0..).map(|(line, at)| Reverse((Packed::of(line.first), at)));
        self.order = firsts.collect();
    }

    /// Keeps those that `is_kept` says yes to.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(Run) -> bool) {
        let Schedule { young, lines, .. } = std::mem::take(self);
        for mut line in lines {
            loop {
                if is_kept(line.first) {
                    self.push(line.first);
                }
                if !line.advance() {
                    break;
                }
            }
        }
        young
            .into_iter()
            .map(|Reverse(run)| run.run())
            .filter(|run| is_kept(*run))
            .for_each(|run| self.push(run));
    }

    /// Memory of many runs goes when there are few.
    pub(crate) fn shrink(&mut self) {
        if self.young.capacity() > 64 && self.young.len() * 4 < self.young.capacity() {
            self.young.shrink_to(self.young.len() * 2);
        }
        if self.lines.is_empty() {
            (self.lines, self.order) = Default::default();
        }
    }

    /// All runs, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        let young = self.young.iter().map(|Reverse(run)| run.run());
        self.lines.iter().flat_map(Line::runs).chain(young)
    }

    /// All runs and `others`, in order. Costs no more memory than `others` and a little for each line.
    pub(crate) fn in_order(&self, others: impl Iterator<Item = Run>) -> impl Iterator<Item = Run> + '_ {
        let mut young: Vec<Run> = self.young.iter().map(|Reverse(run)| run.run()).chain(others).collect();
        young.sort_unstable();
        let mut young = young.into_iter().peekable();
        let mut lines: Vec<_> = self.lines.iter().map(Line::runs).collect();
        let firsts = lines.iter_mut().zip(0..).filter_map(|(line, at)| Some(Reverse((line.next()?, at))));
        let mut firsts: BinaryHeap<Reverse<(Run, usize)>> = firsts.collect();
        std::iter::from_fn(move || {
            let Some(mut first) = firsts.peek_mut() else { return young.next() };
            let Reverse((run, at)) = *first;
            if let Some(young) = young.next_if(|young| *young <= run) {
                return Some(young);
            }
            match lines[at].next() {
                Some(next) => *first = Reverse((next, at)),
                None => _ = std::collections::binary_heap::PeekMut::pop(first),
            }
            Some(run)
        })
    }

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.young.capacity() * size_of::<Packed>()
            + self.order.capacity() * size_of::<(Packed, u32)>()
            + self.lines.capacity() * size_of::<Line>()
            + self.lines.iter().map(Line::heap_bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::random::Random;

    /// So many runs, with times as `at_ms` says of each.
    fn filled(count: u64, mut at_ms: impl FnMut(u64) -> u64) -> (Schedule, Vec<Run>) {
        let mut schedule = Schedule::default();
        let run = |seq| Run { at_ms: at_ms(seq), first: seq, count: 1 + (seq % 3) as u32 };
        let runs: Vec<Run> = (0..count).map(run).collect();
        runs.iter().for_each(|run| schedule.push(*run));
        (schedule, runs)
    }

    /// Everything comes out in order, in any order of arrival and with anything taken out meanwhile.
    fn check(mut schedule: Schedule, mut runs: Vec<Run>) {
        runs.sort_unstable();
        let mut all: Vec<Run> = schedule.iter().collect();
        all.sort_unstable();
        assert_eq!(all, runs);
        let other = Run { at_ms: 7, first: u64::MAX - 9, count: 4 };
        let mut with_other = runs.clone();
        with_other.insert(runs.partition_point(|run| *run < other), other);
        assert_eq!(schedule.in_order(std::iter::once(other)).collect::<Vec<_>>(), with_other);
        assert_eq!(schedule.in_order(std::iter::empty()).collect::<Vec<_>>(), runs);
        for run in runs {
            assert_eq!((schedule.first(), schedule.pop()), (Some(run), Some(run)));
        }
        assert_eq!((schedule.first(), schedule.pop(), schedule.len()), (None, None, 0));
        schedule.shrink();
        assert!(schedule.is_empty() && schedule.heap_bytes() <= 64 * size_of::<Packed>());
    }

    #[test]
    fn comes_out_in_order() {
        let mut random = Random::new(1);
        for count in [0, 1, 1023, 1024, 1025, 5000, 100_000] {
            let (schedule, runs) = filled(count, |seq| seq);
            check(schedule, runs);
            let (schedule, runs) = filled(count, |seq| count - seq);
            check(schedule, runs);
            let (schedule, runs) = filled(count, |_| 5);
            check(schedule, runs);
            let (schedule, runs) = filled(count, |_| random.below(1_000_000));
            check(schedule, runs);
            let (schedule, runs) = filled(count, |seq| if seq % 2 == 0 { u64::MAX - seq } else { seq });
            check(schedule, runs);
        }
    }

    #[test]
    fn comes_out_in_order_while_more_comes_in() {
        let mut random = Random::new(2);
        let (mut schedule, mut runs) = (Schedule::default(), std::collections::BTreeSet::new());
        for round in 0..300_000u64 {
            let run = Run { at_ms: round / 3 + random.below(200_000), first: random.bits() >> 1, count: 1 };
            schedule.push(run);
            runs.insert(run);
            // Now and then the number of runs goes down to few.
            if round % 50_000 > 30_000 || random.one_in(2) {
                assert_eq!(schedule.pop(), runs.pop_first());
                if round % 50_000 > 30_000 {
                    assert_eq!(schedule.pop(), runs.pop_first());
                }
            }
            assert_eq!(schedule.len(), runs.len());
        }
        check(schedule, runs.into_iter().collect());
    }

    #[test]
    fn keeps_what_it_is_told_to() {
        let mut random = Random::new(3);
        let (mut schedule, mut runs) = filled(50_000, |_| random.below(1 << 40));
        schedule.retain(|run| run.first % 3 == 0);
        runs.retain(|run| run.first % 3 == 0);
        assert_eq!(schedule.len(), runs.len());
        check(schedule, runs);
    }

    #[test]
    fn a_run_costs_a_few_bytes() {
        let mut random = Random::new(4);
        let mut each = |within_ms: u64| {
            let (schedule, runs) =
                filled(1_000_000, |seq| 1_700_000_000_000 + seq / 100 + random.below(within_ms));
            schedule.heap_bytes() as f64 / runs.len() as f64
        };
        let (same, hour, year) = (each(1), each(3_600_000), each(365 * 86_400_000));
        assert!(same < 3.5 && hour < 7.0 && year < 9.0, "{same} {hour} {year}");
    }

    #[test]
    fn lines_are_few_and_merged_a_few_at_a_time() {
        let mut random = Random::new(5);
        let (mut schedule, _) = filled(1_000_000, |_| random.below(1 << 30));
        assert!(schedule.lines.len() < 40, "{}", schedule.lines.len());
        assert!(schedule.lines.iter().all(|line| line.len <= MERGED_MAX));
        // All grow short together: the next lines do not pay for all of them at once.
        while schedule.lines.iter().any(|line| line.len >= SIZES[0]) {
            schedule.pop();
        }
        let (before, lines) = (schedule.len(), schedule.lines.len());
        for seq in 0..YOUNG_MAX as u64 {
            schedule.push(Run { at_ms: 1 << 30, first: seq, count: 1 });
        }
        assert!(schedule.lines.len() + 2 * FAN > lines, "{} of {lines}", schedule.lines.len());
        assert_eq!(schedule.len(), before + YOUNG_MAX);
    }
}
