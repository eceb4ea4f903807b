//! States of logs that this node has from others, piece by piece: segments go to the disk as they come, the state stays in
//! memory until all is there.
//!
//! All states on their way together have at most [`STATE_BYTES_MAX`]. One piece is asked for at a time, and asked for again
//! when it does not come. A segment counts once all of it was read back and found sound; one that is here already, and
//! sound, is not asked for.

use crate::fetch::{Fetch, Gift, Part, STATE_BYTES_MAX, What};
use crate::snapped::Arrival;
use base::Now;
use base::brief;
use base::id::{LogId, NodeNo};
use broker::Moved;
use consensus::EntryId;
use journal::{BlockPlace, Disk, DiskError, FileKind, FileName, segment};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;

/// Milliseconds after which a question is asked again.
const AGAIN_MS: u64 = 200;

/// Milliseconds without an answer after which a state is not waited for any more.
const PATIENCE_MS: u64 = 10_000;

/// A state on its way.
#[derive(Debug)]
struct Taking {
    from: NodeNo,
    /// It is to cover this entry.
    least: EntryId,
    gift: Option<Gift>,
    /// The state, as far as it came.
    state: Vec<u8>,
    /// How many segments are here, and how many bytes of the next.
    done: (usize, u64),
    /// Segments that came with it: nothing else needs them before it is in place.
    written: BTreeSet<u64>,
    /// The blocks of those with messages that the state has in no segment.
    blocks: Vec<(u64, Vec<BlockPlace>)>,
    /// When something is asked next, and when anything came last; monotonic nanoseconds.
    ask_at: u64,
    heard_at: u64,
    /// All is here, and was handed on.
    is_handed_on: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Takings {
    logs: BTreeMap<LogId, Taking>,
    /// Segments that came with a state that is not to be had, which are to be removed.
    pub(super) left: Vec<u64>,
}

fn name(segment: u64) -> FileName {
    FileName::new(FileKind::Segment, segment)
}

impl Takings {
    /// A leader on another node has let go of entries up to `least`, which are missing here.
    pub(super) fn offered(&mut self, now: Now, log: LogId, from: NodeNo, least: EntryId) {
        if let Some(taking) = self.logs.get_mut(&log) {
            // The one on its way serves, if the leader goes on with entries behind it, or else the next one will.
            taking.least = taking.least.max(least);
            return;
        }
        self.logs.insert(
            log,
            Taking {
                from,
                least,
                gift: None,
                state: Vec::new(),
                done: (0, 0),
                written: BTreeSet::new(),
                blocks: Vec::new(),
                ask_at: 0,
                heard_at: now.mono_ns,
                is_handed_on: false,
            },
        );
    }

    /// Segments that a state on its way needs.
    pub(super) fn segments(&self) -> BTreeSet<u64> {
        let gifts = self.logs.values().filter_map(|taking| taking.gift.as_ref());
        brief::collect(gifts.flat_map(|gift| gift.segments.iter().map(|(number, _)| *number)))
    }

    /// Asks for what comes next, where that is due.
    pub(super) fn ask(&mut self, now: Now, out: &mut Vec<(NodeNo, Fetch)>) {
        let is_late =
            |taking: &Taking| now.mono_ns >= Now { mono_ns: taking.heard_at, ..now }.after_ms(PATIENCE_MS);
        let late = self
            .logs
            .iter()
            .filter(|(_, taking)| is_late(taking) && !taking.is_handed_on && !taking.is_here());
        let late: Vec<LogId> = late.map(|(log, _)| *log).collect();
        late.into_iter().for_each(|log| self.give_up(log));
        for (log, taking) in &mut self.logs {
            if taking.ask_at <= now.mono_ns
                && let Some(what) = taking.next()
            {
                taking.ask_at = now.after_ms(AGAIN_MS);
                out.push((taking.from, Fetch { log: *log, what }));
            }
        }
    }

    /// Something came.
    ///
    /// # Errors
    /// The device's error; [`DiskError::NoSpace`] ends what was on its way.
    pub(super) fn hear(
        &mut self,
        now: Now,
        disk: &dyn Disk,
        from: NodeNo,
        Fetch { log, what }: Fetch,
    ) -> Result<(), DiskError> {
        let others: u64 =
            self.logs.iter().filter(|(of, _)| **of != log).map(|(_, taking)| taking.len()).sum();
        let Some(taking) = self.logs.get_mut(&log).filter(|taking| taking.from == from) else {
            return Ok(());
        };
        let outcome = match what {
            What::Gift(gift) if taking.gift.is_none() && gift.is_sound() => {
                // It is asked for again, until there is room for it.
                if others + gift.len > STATE_BYTES_MAX {
                    taking.heard_at = now.mono_ns;
                    return Ok(());
                }
                taking.gift = Some(*gift);
                taking.skip(disk)
            }
            What::Piece { number, part, offset, bytes } => taking.take(disk, (number, part, offset), &bytes),
            What::Gone { number } if taking.gift.as_ref().is_some_and(|gift| gift.number == number) => {
                self.give_up(log);
                return Ok(());
            }
            What::Gift(_) | What::Gone { .. } | What::Ask { .. } | What::Read { .. } => return Ok(()),
        };
        taking.heard_at = now.mono_ns;
        taking.ask_at = now.mono_ns;
        match outcome {
            Ok(true) => Ok(()),
            Ok(false) | Err(DiskError::NoSpace) => {
                self.give_up(log);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// A state that is here, to be put in place; none: none is.
    pub(super) fn take_arrived(&mut self) -> Option<Box<Arrival>> {
        let (log, taking) = self.logs.iter_mut().find(|(_, taking)| taking.is_here())?;
        taking.is_handed_on = true;
        let gift = taking.gift.as_ref()?;
        let state = std::mem::take(&mut taking.state);
        let blocks = std::mem::take(&mut taking.blocks);
        let moved = Moved::of_segments(*log, gift.name.end, &blocks);
        Some(Box::new(Arrival { log: *log, name: gift.name.clone(), state, moved }))
    }

    /// The state is in place. Its segments.
    pub(super) fn arrived(&mut self, log: LogId) -> BTreeSet<u64> {
        let gift = self.logs.remove(&log).and_then(|taking| taking.gift);
        brief::collect(gift.into_iter().flat_map(|gift| gift.segments).map(|(number, _)| number))
    }

    /// The state of a log is not to be had, or not wanted any more.
    pub(super) fn give_up(&mut self, log: LogId) {
        if let Some(taking) = self.logs.remove(&log) {
            self.left.extend(taking.written);
        }
    }
}

impl Taking {
    /// Bytes that its state takes, or is to take.
    fn len(&self) -> u64 {
        self.gift.as_ref().map_or(0, |gift| gift.len)
    }

    /// All of it is here, and was not handed on.
    fn is_here(&self) -> bool {
        let is_all =
            |gift: &Gift| gift.len == self.state.len() as u64 && self.done == (gift.segments.len(), 0);
        !self.is_handed_on && self.gift.as_ref().is_some_and(is_all)
    }

    /// The next question; none: all is here.
    fn next(&self) -> Option<What> {
        let Some(gift) = &self.gift else { return Some(What::Ask { least: self.least }) };
        let number = gift.number;
        let (count, bytes) = self.done;
        if let Some((segment, _)) = gift.segments.get(count) {
            return Some(What::Read { number, part: Part::Segment(*segment), offset: bytes });
        }
        let offset = self.state.len() as u64;
        (offset < gift.len).then_some(What::Read { number, part: Part::State, offset })
    }

    /// A piece came. False: it is not what it should be.
    fn take(
        &mut self,
        disk: &dyn Disk,
        (number, part, offset): (u64, Part, u64),
        bytes: &[u8],
    ) -> Result<bool, DiskError> {
        let Some(gift) = self.gift.as_ref().filter(|gift| gift.number == number) else { return Ok(true) };
        let Some(What::Read { part: next, offset: at, .. }) = self.next() else { return Ok(true) };
        if (part, offset) != (next, at) {
            // It came twice.
            return Ok(true);
        }
        match part {
            Part::State => {
                self.state.extend_from_slice(bytes);
                Ok(!bytes.is_empty() && self.state.len() as u64 <= gift.len)
            }
            Part::Segment(segment) => {
                let (count, len) = (self.done.0, gift.segments[self.done.0].1);
                let end = offset + bytes.len() as u64;
                if bytes.is_empty() || end > len {
                    return Ok(false);
                }
                if offset == 0 {
                    self.written.insert(segment);
                    disk.create(name(segment), len)?;
                }
                disk.write_at(name(segment), offset, &[IoSlice::new(bytes)])?;
                self.done.1 = end;
                if end < len {
                    return Ok(true);
                }
                disk.sync(name(segment))?;
                disk.sync_folder(FileKind::Segment)?;
                self.done = (count + 1, 0);
                Ok(self.look_into(disk, segment) && self.skip(disk)?)
            }
        }
    }

    /// Segments that are here already are not asked for.
    fn skip(&mut self, disk: &dyn Disk) -> Result<bool, DiskError> {
        while let Some((segment, len)) = self.gift.as_ref().and_then(|gift| gift.segments.get(self.done.0)) {
            let (segment, len) = (*segment, *len);
            match disk.len(name(segment)) {
                Ok(found) if found == len && self.look_into(disk, segment) => self.done.0 += 1,
                Ok(_) => {
                    // Left behind half written. What is in use is whole.
                    disk.remove(name(segment))?;
                    return Ok(true);
                }
                Err(DiskError::NotFound) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads a segment. False: it is not sound.
    fn look_into(&mut self, disk: &dyn Disk, segment: u64) -> bool {
        let is_moved = self.gift.as_ref().is_some_and(|gift| gift.moved.binary_search(&segment).is_ok());
        let mut blocks = Vec::new();
        let is_sound =
            segment::scan(disk, segment, &mut |block| blocks.push(*block.place())).unwrap_or(false);
        if is_sound && is_moved {
            self.blocks.push((segment, blocks));
        }
        is_sound
    }
}

#[cfg(test)]
mod tests {
    use super::super::giving::Giving;
    use super::*;
    use base::Random;
    use base::id::LogIndex;
    use consensus::SnapshotName;
    use journal::{FaultyDisk, SegmentWriter};

    const LOG: LogId = LogId(3);
    const GIVER: NodeNo = NodeNo(2);
    const LAST: EntryId = EntryId { term: 4, index: 77 };

    /// A node with a state of so many bytes and three segments.
    fn giver(len: usize) -> (FaultyDisk, Giving, Vec<u8>) {
        let disk = FaultyDisk::new(1);
        let mut segments = Vec::new();
        for number in [5, 6, 9] {
            let mut writer = SegmentWriter::begin(&disk, number).unwrap();
            (0..number).for_each(|at| writer.push(&disk, 11, at, &vec![at as u8; 100_000]).unwrap());
            segments.push((number, writer.finish(&disk).unwrap().len));
        }
        let name = SnapshotName { last: Some(LAST), end: LogIndex(800), ..SnapshotName::default() };
        let gift = Gift { number: 0, name, len: len as u64, segments, moved: vec![6, 9] };
        let state: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let mut giving = Giving::default();
        giving.keep(Now::default(), LOG, gift, state.clone());
        (disk, giving, state)
    }

    /// A node to which the state was offered.
    fn taker() -> (FaultyDisk, Takings) {
        let mut takings = Takings::default();
        takings.offered(Now::default(), LOG, GIVER, LAST);
        (FaultyDisk::new(2), takings)
    }

    /// Both talk for so many milliseconds; `dice` say what is lost and what comes twice.
    fn talk(
        giver: (&FaultyDisk, &mut Giving),
        taker: (&FaultyDisk, &mut Takings),
        ms: u64,
        dice: &mut Random,
    ) {
        for at in (0..ms).step_by(10) {
            let now = Now::at_ms(at);
            let mut words = Vec::new();
            taker.1.ask(now, &mut words);
            for (to, word) in words {
                assert_eq!(to, GIVER);
                for _ in 0..dice.below(3) {
                    if let Some(what) = giver.1.hear(now, giver.0, &word) {
                        let answer = Fetch { log: LOG, what };
                        for _ in 0..dice.below(3) {
                            taker.1.hear(now, taker.0, GIVER, answer.clone()).unwrap();
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_state_comes_whatever_is_lost_or_comes_twice() {
        for seed in 0..20 {
            let mut dice = Random::new(seed);
            let (disk, mut giving, state) = giver(700_000);
            let (to, mut takings) = taker();
            if seed % 2 == 0 {
                // A whole one is there; one of which half came before the node went down is not.
                let mut writer = SegmentWriter::begin(&to, 5).unwrap();
                (0..5).for_each(|at| writer.push(&to, 11, at, &vec![at as u8; 100_000]).unwrap());
                writer.finish(&to).unwrap();
                to.create(name(6), disk.len(name(6)).unwrap()).unwrap();
            }
            talk((&disk, &mut giving), (&to, &mut takings), 60_000, &mut dice);
            let arrival = takings.take_arrived().expect("all came");
            assert!(takings.take_arrived().is_none(), "it is handed on once");
            assert!(arrival.state == state && arrival.name.last == Some(LAST));
            assert_eq!(arrival.moved.segments(), BTreeSet::from([6, 9]));
            assert_eq!(takings.segments(), BTreeSet::from([5, 6, 9]));
            for number in [5, 6, 9] {
                assert_eq!(segment::scan(&to, number, &mut |_| {}), Ok(true), "segment {number}");
            }
            assert_eq!(takings.arrived(LOG), BTreeSet::from([5, 6, 9]));
            assert!(takings.left.is_empty() && takings.segments().is_empty());
        }
    }

    #[test]
    fn a_state_that_does_not_come_leaves_nothing() {
        let (disk, mut giving, _) = giver(10);
        let (to, mut takings) = taker();
        for ms in [0, 10] {
            let mut words = Vec::new();
            takings.ask(Now::at_ms(ms), &mut words);
            let (_, word) = words.pop().unwrap();
            let what = giving.hear(Now::at_ms(ms), &disk, &word).unwrap();
            takings.hear(Now::at_ms(ms), &to, GIVER, Fetch { log: LOG, what }).unwrap();
        }
        assert!(!takings.segments().is_empty() && takings.take_arrived().is_none());
        let now = Now { mono_ns: Now::at_ms(10).after_ms(PATIENCE_MS), wall_ms: 0 };
        takings.ask(now, &mut Vec::new());
        assert!(takings.segments().is_empty());
        for segment in std::mem::take(&mut takings.left) {
            to.remove(name(segment)).unwrap();
        }
        assert_eq!(to.list(FileKind::Segment), Ok(Vec::new()));
        // A gift that nobody reads is forgotten.
        giving.forget_idle(Now::at_ms(10));
        assert!(!giving.segments().is_empty());
        giving.forget_idle(Now::at_ms(10_000_000));
        assert!(giving.segments().is_empty());
    }

    #[test]
    fn states_on_their_way_are_bounded_together() {
        let (to, mut takings) = taker();
        let other = LogId(4);
        takings.offered(Now::default(), other, GIVER, LAST);
        let name = SnapshotName { last: Some(LAST), ..SnapshotName::default() };
        let (len, segments, moved) = (crate::fetch::STATE_BYTES_MAX, Vec::new(), Vec::new());
        let gift = Gift { number: 1, name, len, segments, moved };
        for log in [LOG, other] {
            let what = What::Gift(Box::new(gift.clone()));
            takings.hear(Now::default(), &to, GIVER, Fetch { log, what }).unwrap();
        }
        let asked = |takings: &mut Takings, ms| {
            let mut words = Vec::new();
            takings.ask(Now::at_ms(ms), &mut words);
            words
                .into_iter()
                .map(|(_, fetch)| (fetch.log, matches!(fetch.what, What::Read { .. })))
                .collect::<Vec<_>>()
        };
        assert_eq!(asked(&mut takings, 1000), [(LOG, true), (other, false)], "the other is asked for again");
        takings.give_up(LOG);
        let what = What::Gift(Box::new(gift));
        takings.hear(Now::at_ms(1000), &to, GIVER, Fetch { log: other, what }).unwrap();
        assert_eq!(asked(&mut takings, 2000), [(other, true)]);
    }

    #[test]
    fn what_is_no_gift_or_no_piece_of_it_ends_it() {
        let gift = |change: fn(&mut Gift)| {
            let name = SnapshotName { last: Some(LAST), ..SnapshotName::default() };
            let (segments, moved) = (vec![(5, 300), (6, 300)], vec![6]);
            let mut gift = Gift { number: 1, name, len: 10, segments, moved };
            change(&mut gift);
            gift
        };
        assert!(gift(|_| {}).is_sound());
        let unsound: [fn(&mut Gift); 6] = [
            |gift| gift.name.last = None,
            |gift| gift.len = crate::fetch::STATE_BYTES_MAX + 1,
            |gift| gift.segments.reverse(),
            |gift| gift.segments[1].0 = 5,
            |gift| gift.moved = vec![7],
            |gift| gift.moved = vec![6, 6],
        ];
        for change in unsound {
            assert!(!gift(change).is_sound(), "{:?}", gift(change));
        }
        // The number, the part, the offset and the length of a piece, and whether the state is still waited for.
        let (first, state) = (Part::Segment(5), Part::State);
        let check = |(number, part, offset): (u64, Part, u64), len: usize, is_waited_for: bool| {
            let (to, mut takings) = taker();
            let hear = |takings: &mut Takings, what| {
                takings.hear(Now::default(), &to, GIVER, Fetch { log: LOG, what }).unwrap();
            };
            hear(&mut takings, What::Gift(Box::new(gift(|_| {}))));
            hear(&mut takings, What::Piece { number, part, offset, bytes: vec![0; len] });
            assert_eq!(!takings.logs.is_empty(), is_waited_for, "{number} {part:?} {offset} {len}");
        };
        check((1, first, 0), 299, true);
        check((2, first, 0), 300, true);
        check((1, first, 1), 300, true);
        check((1, state, 0), 10, true);
        check((1, first, 0), 0, false);
        check((1, first, 0), 301, false);
        // As long as it should be, and no segment.
        check((1, first, 0), 300, false);
    }
}
