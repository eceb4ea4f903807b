//! The duties of every disk towards the journal, and of the journal on it. Runs on the double and on the real one.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod used;

use base::id::{LogId, LogIndex};
use base::{Buffer, Secrets};
use journal::*;
use std::io::{IoSlice, IoSliceMut};

/// A journal small enough to roll often.
pub fn small() -> Limits {
    Limits {
        file_bytes: 128 << 10,
        first_file_bytes: 64 << 10,
        packed_bytes_max: 4 << 10,
        inline_bytes_max: 48 << 10,
        bulk_bytes_max: 512 << 10,
        prepare_bytes: 32 << 10,
        window_bytes: 64 << 10,
        ..Limits::default()
    }
}

pub const START: Start = Start { secret: 0x1EAF, from: FileId(0), keep: FileId(0) };

/// A batch of `len` bytes (a multiple of eight) that depend on where they are.
pub fn batch(log: u32, base: u64, len: usize) -> Sealed {
    let mut batch = Batch::new(LogId(log), LogIndex(base), Buffer::default());
    for at in 0..len / 8 {
        batch.records().extend(&word(log, base + 8 * at as u64));
    }
    batch.seal(1_000 + base)
}

/// As [`batch`], with a mark that depends on where it is; without records if `len` is 0.
pub fn marked(log: u32, base: u64, len: usize) -> Sealed {
    Sealed { mark: Some(mark(log, base)), ..batch(log, base, len) }
}

fn mark(log: u32, base: u64) -> Mark {
    let words = [word(log, base), word(log, !base), word(!log, base)];
    Mark(*words.as_flattened().first_chunk().unwrap())
}

fn word(log: u32, at: u64) -> [u8; 8] {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(log)).to_le_bytes()
}

/// The bytes of a recovered batch are those that [`batch`] or [`marked`] made.
pub fn is_right(found: &RecoveredBatch) -> bool {
    let records = &found.memory[found.records.clone()];
    let words = records.as_chunks::<8>().0;
    found.records.start.is_multiple_of(8)
        && found.records.len() == words.len() * 8
        && found.place.len == records.len() as u64
        && found.committed_at_ms == 1_000 + found.base.0
        && found.mark.is_none_or(|found_mark| found_mark == mark(found.log.0, found.base.0))
        && words.iter().zip(0..).all(|(bytes, at)| *bytes == word(found.log.0, found.base.0 + 8 * at))
}

/// Removes files that nobody needs any more and makes those that are wanted, as a node does beside its commits.
pub fn keep_house(journal: &mut Journal, disk: &dyn Disk) {
    for name in journal.take_unneeded() {
        assert!(matches!(disk.remove(name), Ok(()) | Err(DiskError::NotFound)), "{name:?} stays");
    }
    while let Some(maker) = journal.wanted_spare() {
        journal.add_spare(maker.finish(disk).unwrap());
    }
}

/// Opens and returns what was visited as (log, base, length).
pub fn reopen(disk: &dyn Disk, limits: Limits, start: Start) -> (Journal, Recovered, Vec<(u32, u64, usize)>) {
    let mut visited = Vec::new();
    let (journal, recovered) = Journal::open(disk, limits, start, &mut |found| {
        assert!(is_right(&found), "wrong bytes at {:?}", found.place);
        let again = found.place.read(disk).unwrap().expect("it was just read");
        assert_eq!(again[..], found.memory[found.records.clone()]);
        visited.push((found.log.0, found.base.0, found.records.len()));
    })
    .unwrap();
    (journal, recovered, visited)
}

/// Everything below, on an empty disk each.
pub fn all(mut disk: impl FnMut() -> Box<dyn Disk>) {
    files_are_what_was_written(&*disk());
    files_grow(&*disk());
    pieces_are_read_one_behind_the_other(&*disk());
    names_move(&*disk());
    batches_come_back(&*disk());
    files_roll_and_are_used_again(&*disk());
    big_batches_have_files_of_their_own(&*disk());
    large_groups_are_split(&*disk());
    marks_come_back(&*disk());
    spares_are_prepared(&*disk());
    an_identity_stays(&*disk());
    snapshots_come_back_newest_first(&*disk());
    files_are_releasable_once_snapshots_cover_them(&*disk());
    segments_give_records_by_position(&*disk());
}

fn files_are_what_was_written(disk: &dyn Disk) {
    let name = FileName::new(FileKind::Journal, 5);
    let mut bytes = [7; 5];
    assert_eq!(disk.read_at(name, 0, &mut bytes), Err(DiskError::NotFound));
    assert_eq!(disk.len(name), Err(DiskError::NotFound));
    disk.create(name, 10_000).unwrap();
    assert_eq!(disk.create(name, 10_000), Err(DiskError::Exists));
    assert_eq!(disk.len(name), Ok(10_000));
    assert_eq!((disk.read_at(name, 9_998, &mut bytes), bytes), (Ok(2), [0, 0, 7, 7, 7]));
    disk.write_at(name, 4_095, &[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"c")]).unwrap();
    assert_eq!((disk.read_at(name, 4_094, &mut bytes), &bytes), (Ok(5), b"\0abc\0"));
    let mut block = Buffer::default();
    block.extend(&[9; 8192]);
    disk.write_at(name, 8192, &[IoSlice::new(block.bytes()), IoSlice::new(block.bytes())]).unwrap();
    assert_eq!(disk.len(name), Ok(8192 * 3));
    assert_eq!((disk.read_at(name, 8_190, &mut bytes), bytes), (Ok(5), [0, 0, 9, 9, 9]));
    let many: Vec<IoSlice<'_>> = (0..3000).map(|_| IoSlice::new(b"xyz")).collect();
    disk.write_at(name, 1, &many).unwrap();
    assert_eq!((disk.read_at(name, 8_998, &mut bytes), &bytes), (Ok(5), b"xyz\x09\x09"));
    disk.sync(name).unwrap();
    disk.sync_folder(FileKind::Journal).unwrap();
    assert!(disk.free_bytes().unwrap() > 0);
}

/// As files of streams do: made empty, written behind their end, and both kinds in one folder.
fn files_grow(disk: &dyn Disk) {
    let name = FileName::of_log(FileKind::Stream, LogId(2), 9);
    let index = FileName { kind: FileKind::StreamIndex, ..name };
    disk.create(name, 0).unwrap();
    disk.create(index, 0).unwrap();
    assert_eq!(disk.len(name), Ok(0));
    disk.write_at(name, 0, &[IoSlice::new(b"head")]).unwrap();
    disk.write_at(name, 4, &[IoSlice::new(b"chunk"), IoSlice::new(b"chunk")]).unwrap();
    disk.write_at(name, 9, &[IoSlice::new(b"chunk, longer")]).unwrap();
    let mut bytes = [0; 30];
    assert_eq!(disk.read_at(name, 0, &mut bytes), Ok(22));
    assert_eq!(&bytes[..22], b"headchunkchunk, longer");
    assert_eq!(disk.list(FileKind::Stream), Ok(vec![name]));
    assert_eq!(disk.list(FileKind::StreamIndex), Ok(vec![index]));
    disk.sync(name).unwrap();
    disk.sync_folder(FileKind::Stream).unwrap();
    disk.remove(name).unwrap();
    assert_eq!((disk.len(name), disk.len(index)), (Err(DiskError::NotFound), Ok(0)));
}

/// More pieces than any one system call takes, empty ones among them; and the end of the file at every place in a piece.
fn pieces_are_read_one_behind_the_other(disk: &dyn Disk) {
    let name = FileName::new(FileKind::Segment, 7);
    let bytes: Vec<u8> = (0..30_000u32).map(|at| (at % 251) as u8).collect();
    disk.create(name, 0).unwrap();
    disk.write_at(name, 0, &[IoSlice::new(&bytes)]).unwrap();
    let check = |offset: usize, lens: &[usize]| {
        let mut memory = vec![0xEE; lens.iter().sum()];
        let mut rest = &mut memory[..];
        let mut pieces = Vec::new();
        for len in lens {
            let (piece, others) = std::mem::take(&mut rest).split_at_mut(*len);
            pieces.push(IoSliceMut::new(piece));
            rest = others;
        }
        let read = disk.read_pieces_at(name, offset as u64, &mut pieces).unwrap();
        let there = &bytes[offset.min(bytes.len())..];
        let expected = there.len().min(memory.len());
        assert_eq!(read, expected, "{} pieces at {offset}", lens.len());
        assert_eq!(memory[..read], there[..expected]);
        assert!(memory[read..].iter().all(|byte| *byte == 0xEE), "bytes behind the end");
    };
    let many: Vec<usize> = (0..2500).map(|at| at % 11).collect();
    for offset in [0, 1, 4096, 20_000] {
        check(offset, &[]);
        check(offset, &[0]);
        check(offset, &[5000]);
        check(offset, &[1, 0, 4096, 4096]);
        check(offset, &many);
    }
    let absent = FileName::new(FileKind::Segment, 8);
    let mut byte = [0];
    assert!(disk.read_pieces_at(absent, 0, &mut [IoSliceMut::new(&mut byte)]).is_err());
    for end in 29_980..30_010 {
        check(end - 20, &[7, 0, 7, 20]);
        check(end, &[1]);
    }
}

fn names_move(disk: &dyn Disk) {
    let name = |number| FileName::new(FileKind::Segment, number);
    for number in [2, 1, 3] {
        disk.create(name(number), number).unwrap();
    }
    disk.rename(name(3), name(1)).unwrap();
    assert_eq!(disk.list(FileKind::Segment), Ok(vec![name(1), name(2)]));
    assert_eq!(disk.len(name(1)), Ok(3));
    disk.remove(name(2)).unwrap();
    assert_eq!(disk.remove(name(2)), Err(DiskError::NotFound));
    assert_eq!(disk.rename(name(2), name(1)), Err(DiskError::NotFound));
    assert_eq!(disk.list(FileKind::Segment), Ok(vec![name(1)]));
    assert_eq!(disk.list(FileKind::Bulk), Ok(vec![]));
}

fn batches_come_back(disk: &dyn Disk) {
    let (mut journal, recovered, visited) = reopen(disk, small(), START);
    assert_eq!((recovered, visited), (Recovered::default(), vec![]));
    let mut places = Vec::new();
    journal.write(disk, &[batch(1, 0, 64)], &mut places).unwrap();
    journal.write(disk, &[batch(2, 0, 8), batch(1, 64, 16_000)], &mut places).unwrap();
    journal.write(disk, &[], &mut places).unwrap();
    assert_eq!(places, vec![]);
    let expected = vec![(1, 0, 64), (2, 0, 8), (1, 64, 16_000)];
    for _ in 0..2 {
        let (_, recovered, visited) = reopen(disk, small(), START);
        assert_eq!((recovered.damages.len(), recovered.batches, recovered.torn_bytes), (0, 3, 0));
        assert_eq!(visited, expected);
    }
    let (mut journal, ..) = reopen(disk, small(), START);
    journal.write(disk, &[batch(1, 16_064, 8)], &mut places).unwrap();
    let (_, _, visited) = reopen(disk, small(), START);
    assert_eq!(visited, [expected, vec![(1, 16_064, 8)]].concat());
}

fn files_roll_and_are_used_again(disk: &dyn Disk) {
    let (mut journal, ..) = reopen(disk, small(), START);
    let mut places = Vec::new();
    let mut released = FileId(0);
    let mut kept = Vec::new();
    for round in 0..200 {
        journal.write(disk, &[batch(1, round * 8_000, 8_000)], &mut places).unwrap();
        kept.push((places[0].file, (1, round * 8_000, 8_000)));
        for file in journal.take_rolled() {
            released = FileId(file.0.saturating_sub(1));
            journal.release(released);
            keep_house(&mut journal, disk);
        }
    }
    kept.retain(|(file, _)| *file > released);
    assert!(released.0 > 10);
    assert!(disk.list(FileKind::Journal).unwrap().len() <= 8);
    let from = FileId(released.0 + 1);
    let start = Start { from, keep: from, ..START };
    let (journal, recovered, visited) = reopen(disk, small(), start);
    assert_eq!(recovered.damages, vec![]);
    assert_eq!(visited, kept.iter().map(|(_, batch)| *batch).collect::<Vec<_>>());
    let spans: Vec<_> = journal.files().map(|file| (file.id, file.logs[0].first.0)).collect();
    assert!(spans.windows(2).all(|pair| pair[0] < pair[1]) && spans[0].0.0 == released.0 + 1, "{spans:?}");
}

fn big_batches_have_files_of_their_own(disk: &dyn Disk) {
    let (mut journal, ..) = reopen(disk, small(), START);
    let mut places = Vec::new();
    let batches = [batch(1, 0, 8), batch(2, 0, 400_000), batch(1, 8, 8)];
    journal.write(disk, &batches, &mut places).unwrap();
    assert_eq!(places[1].name.kind, FileKind::Bulk);
    assert_eq!(disk.list(FileKind::Bulk).unwrap(), vec![places[1].name]);
    journal.write(disk, &[batch(2, 400_000, 200_000)], &mut places).unwrap();
    journal.write(disk, &[batch(1, 16, 8)], &mut places).unwrap();
    assert_eq!(journal.take_rolled(), vec![FileId(1)], "bulk bytes count");
    let (mut journal, recovered, visited) = reopen(disk, small(), START);
    assert_eq!(recovered.damages, vec![]);
    assert_eq!(visited, [(1, 0, 8), (2, 0, 400_000), (1, 8, 8), (2, 400_000, 200_000), (1, 16, 8)]);
    journal.release(FileId(1));
    assert_eq!(journal.take_unneeded(), vec![], "until a group says so");
    journal.write(disk, &[batch(1, 24, 8)], &mut places).unwrap();
    keep_house(&mut journal, disk);
    assert_eq!(disk.list(FileKind::Bulk).unwrap(), vec![]);
    let (_, recovered, visited) = reopen(disk, small(), START);
    assert_eq!((recovered.damages, visited), (vec![], vec![(1, 16, 8), (1, 24, 8)]));
}

fn large_groups_are_split(disk: &dyn Disk) {
    let (mut journal, ..) = reopen(disk, small(), START);
    let mut places = Vec::new();
    let batches: Vec<Sealed> = (0..40).map(|log| batch(log, 0, 20_000)).collect();
    journal.write(disk, &batches, &mut places).unwrap();
    assert_eq!(places.len(), 40);
    assert!(journal.counters().groups >= 7);
    let many: Vec<Sealed> = (0..1500).map(|log| batch(log, 20_000, 8)).collect();
    journal.write(disk, &many, &mut places).unwrap();
    assert_eq!(places.len(), 1500);
    let (_, recovered, visited) = reopen(disk, small(), START);
    assert_eq!((recovered.damages, visited.len()), (vec![], 1540));
}

/// Marks of packed and spread batches, of those with files of their own, and without records, in groups of all sizes.
fn marks_come_back(disk: &dyn Disk) {
    let (mut journal, ..) = reopen(disk, small(), START);
    let (mut places, mut expected) = (Vec::new(), Vec::new());
    let mut write = |journal: &mut Journal, batches: &[Sealed]| {
        journal.write(disk, batches, &mut places).unwrap();
        assert_eq!(places.len(), batches.len());
        expected.extend(batches.iter().map(|batch| (batch.log.0, batch.base.0, batch.len, batch.mark)));
    };
    write(&mut journal, &[marked(1, 0, 64), batch(2, 0, 8), marked(3, 0, 0)]);
    write(&mut journal, &[marked(1, 64, 0)]);
    write(&mut journal, &[batch(2, 8, 9_000), marked(1, 64, 9_000), marked(3, 0, 0)]);
    write(&mut journal, &[marked(3, 0, 400_000), batch(2, 9_008, 400_000)]);
    let many: Vec<Sealed> = (10..1_510).map(|log| marked(log, 0, 8 * (log as usize % 2))).collect();
    write(&mut journal, &many);
    let mut found = Vec::new();
    let opened = Journal::open(disk, small(), START, &mut |batch| {
        assert!(is_right(&batch) && batch.void_to.is_none());
        found.push((batch.log.0, batch.base.0, batch.records.len(), batch.mark));
    });
    assert_eq!(opened.unwrap().1.damages, vec![]);
    assert_eq!(found, expected);
}

fn spares_are_prepared(disk: &dyn Disk) {
    let (mut journal, ..) = reopen(disk, small(), START);
    let maker = journal.wanted_spare().unwrap();
    let spare = maker.finish(disk).unwrap();
    journal.add_spare(spare);
    assert!(journal.wanted_spare().is_none(), "the first file is a spare too");
    let mut places = Vec::new();
    journal.write(disk, &[batch(1, 0, 8)], &mut places).unwrap();
    keep_house(&mut journal, disk);
    for round in 0..2 {
        journal.roll();
        journal.write(disk, &[batch(1, 8 + 8 * round, 8)], &mut places).unwrap();
    }
    assert_eq!((journal.counters().rolls, journal.counters().unprepared_rolls), (3, 0));
    let (_, recovered, visited) = reopen(disk, small(), START);
    assert_eq!((recovered.damages, visited.len()), (vec![], 3));
}

fn an_identity_stays(disk: &dyn Disk) {
    assert_eq!(Identity::load(disk), Ok(None));
    let first = Identity::open(disk, &mut Secrets::simulated(1), 8).unwrap();
    assert_eq!(Identity::open(disk, &mut Secrets::simulated(2), 16), Ok(first));
    let more = Identity { logs: 12, ..first };
    more.store(disk).unwrap();
    assert_eq!(Identity::load(disk), Ok(Some(more)));
    let name = FileName::new(FileKind::Identity, 0);
    disk.write_at(name, 20, &[IoSlice::new(b"rot")]).unwrap();
    assert_eq!(Identity::load(disk), Ok(Some(more)));
    disk.write_at(name, 4096 + 20, &[IoSlice::new(b"rot")]).unwrap();
    assert_eq!(Identity::load(disk), Err(IdentityError::Damaged));
    disk.remove(name).unwrap();
    disk.create(FileName::new(FileKind::Segment, 1), 0).unwrap();
    assert_eq!(Identity::open(disk, &mut Secrets::simulated(2), 16), Err(IdentityError::Missing));
}

pub fn cover(log: u32, covered: u64, file: u64) -> Cover {
    Cover { log: LogId(log), covered: LogIndex(covered), from_file: FileId(file), from_offset: 4096 }
}

fn snapshots_come_back_newest_first(disk: &dyn Disk) {
    let (mut snapshots, found, bad) = Snapshots::load(disk).unwrap();
    assert!(found.is_empty() && bad.is_empty());
    assert_eq!(snapshots.start(1, [LogId(1)]), Start { secret: 1, from: FileId(0), keep: FileId(0) });
    let large = vec![3; 100_001];
    for number in 0..3 {
        let tag = 7 + number as u32;
        let halves = large.split_at(60_001);
        let sections: [Section<'_>; 3] = [(tag, &[b"state"]), (1, &[]), (2, &[halves.0, halves.1])];
        snapshots.write(disk, cover(1, 10 * number, 5 + number), &sections).unwrap();
    }
    snapshots.write(disk, cover(4, 1, 6), &[]).unwrap();
    assert_eq!(disk.list(FileKind::Snapshot).unwrap().len(), 3, "one log keeps two");
    let (mut snapshots, found, bad) = Snapshots::load(disk).unwrap();
    assert!(bad.is_empty());
    assert_eq!((found[0].cover, found[0].number, found[1].cover), (cover(1, 20, 7), 2, cover(4, 1, 6)));
    assert_eq!((found[0].section(9), found[0].section(7)), (Some(&b"state"[..]), None));
    assert_eq!((found[0].section(1), found[0].section(2)), (Some(&b""[..]), Some(&large[..])));
    assert_eq!(found[0].sections().map(|(tag, _)| tag).collect::<Vec<_>>(), [9, 1, 2]);
    let start = |logs: [u32; 2]| {
        let Start { from, keep, .. } = snapshots.start(1, logs.map(LogId));
        (from.0, keep.0)
    };
    assert_eq!((start([1, 1]), start([1, 4])), ((7, 6), (6, 6)));
    assert_eq!(start([1, 2]), (0, 0), "log 2 may have records anywhere");
    // The newest rots: the one before it is taken, the bad one kept aside, its number not given again.
    let name = FileName::of_log(FileKind::Snapshot, LogId(1), 2);
    disk.write_at(name, 70_000, &[IoSlice::new(b"rot")]).unwrap();
    let (_, found, bad) = Snapshots::load(disk).unwrap();
    assert_eq!(bad, vec![BadSnapshot { name, error: None }]);
    assert_eq!((found[0].cover, found[0].number), (cover(1, 10, 6), 1));
    assert_eq!(disk.list(FileKind::Quarantined).unwrap().len(), 1);
    snapshots = Snapshots::load(disk).unwrap().0;
    assert_eq!(snapshots.lost().count(), 0, "an older one is sound");
    snapshots.write(disk, cover(1, 30, 8), &[]).unwrap();
    assert_eq!(Snapshots::load(disk).unwrap().1[0].number, 3);
    snapshots.remove(disk, LogId(1)).unwrap();
    assert_eq!((snapshots.newest(LogId(1)), snapshots.newest(LogId(4))), (None, Some(cover(4, 1, 6))));
    assert_eq!(disk.list(FileKind::Snapshot).unwrap().len(), 1);
}

fn files_are_releasable_once_snapshots_cover_them(disk: &dyn Disk) {
    let (mut journal, ..) = reopen(disk, small(), START);
    let (mut snapshots, ..) = Snapshots::load(disk).unwrap();
    let mut places = Vec::new();
    for round in 0..4 {
        journal.roll();
        journal.write(disk, &[batch(1, round * 8, 8)], &mut places).unwrap();
        if round < 2 {
            journal.write(disk, &[batch(2, round * 8, 8)], &mut places).unwrap();
        }
    }
    let mut check = |log, covered, file, expected: Option<u64>, next: Option<u64>| {
        snapshots.write(disk, cover(log, covered, file), &[]).unwrap();
        assert_eq!(snapshots.releasable(&journal), expected.map(FileId), "{log} {covered} {file}");
        assert_eq!(snapshots.releasable_next(&journal), next.map(FileId), "{log} {covered} {file}");
    };
    check(1, 16, 3, None, None);
    check(2, 16, 3, Some(2), Some(2));
    check(1, 32, 4, Some(2), Some(3));
    // Two are kept of each log, and the older one counts.
    check(1, 32, 5, Some(3), Some(3));
    check(1, 32, 5, Some(3), Some(3));
    check(2, 16, 5, Some(3), Some(3));
}

fn segments_give_records_by_position(disk: &dyn Disk) {
    let record = |position: u64| vec![position as u8; 8 * (1 + position as usize % 40)];
    let mut writer = SegmentWriter::begin(disk, 6).unwrap();
    assert!(writer.is_empty() && SegmentWriter::begin(disk, 6).is_err());
    for position in (0..10_000).filter(|position| position % 1000 != 7) {
        writer.push(disk, 1, position, &record(position)).unwrap();
    }
    writer.push(disk, 2, 5, &vec![9; segment::BLOCK_BYTES_MAX + 8]).unwrap();
    writer.push(disk, 2, 6, &[1; 8]).unwrap();
    writer.push(disk, 2, 3, &[2; 8]).unwrap();
    let done = writer.finish(disk).unwrap();
    assert_eq!(done.len, disk.len(FileName::new(FileKind::Segment, 6)).unwrap());
    let (ones, twos): (Vec<&BlockPlace>, Vec<&BlockPlace>) =
        done.blocks.iter().partition(|place| place.key == 1);
    assert!(ones.len() > 5 && ones.iter().all(|place| place.len < 400 << 10));
    let shape: Vec<_> = twos.iter().map(|place| (place.first, place.last, place.count)).collect();
    assert_eq!(shape, [(5, 5, 1), (6, 6, 1), (3, 3, 1)]);
    for place in &ones {
        let block = SegmentBlock::load(disk, 6, place).unwrap().unwrap();
        assert_eq!(block.iter().len(), place.count as usize);
        for position in place.first..=place.last {
            let found = block.find(position).map(|range| block.memory()[range].to_vec());
            assert_eq!(found, (position % 1000 != 7).then(|| record(position)));
        }
        assert_eq!(
            (block.find(place.last + 1), place.first.checked_sub(1).and_then(|at| block.find(at))),
            (None, None)
        );
    }
    let mut scanned = Vec::new();
    assert_eq!(segment::scan(disk, 6, &mut |block| scanned.push(*block.place())), Ok(true));
    assert_eq!(scanned, done.blocks);
    // Rot in a block: that one is refused, wherever it is.
    let place = *ones[2];
    for at in [0, 5, 20, 60, 70, place.len - 1] {
        let name = FileName::new(FileKind::Segment, 6);
        let mut byte = [0];
        disk.read_at(name, place.offset + at, &mut byte).unwrap();
        disk.write_at(name, place.offset + at, &[IoSlice::new(&[byte[0] ^ 4])]).unwrap();
        assert!(SegmentBlock::load(disk, 6, &place).unwrap().is_none(), "byte {at}");
        assert_eq!(segment::scan(disk, 6, &mut |_| {}), Ok(false));
        disk.write_at(name, place.offset + at, &[IoSlice::new(&byte)]).unwrap();
    }
    assert_eq!(segment::scan(disk, 6, &mut |_| {}), Ok(true));
}
