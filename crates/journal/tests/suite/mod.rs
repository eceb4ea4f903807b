//! What every disk must do for the journal, and the journal on it. Runs on the double and on the real one.

#![allow(dead_code, reason = "each test binary uses its part")]

use base::Buffer;
use base::id::{LogId, LogIndex};
use journal::*;
use std::io::IoSlice;

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

pub const START: Start = Start { secret: 0x1EAF, from: FileId(0) };

/// A batch of `len` bytes (a multiple of eight) that depend on where they are.
pub fn batch(log: u32, base: u64, len: usize) -> Sealed {
    let mut batch = Batch::new(LogId(log), LogIndex(base), Buffer::default());
    for at in 0..len / 8 {
        batch.records().extend(&word(log, base + 8 * at as u64));
    }
    batch.seal(1_000 + base)
}

fn word(log: u32, at: u64) -> [u8; 8] {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(log)).to_le_bytes()
}

/// The bytes of a recovered batch are those that [`batch`] made.
pub fn is_right(found: &RecoveredBatch) -> bool {
    let records = &found.memory[found.records.clone()];
    let words = records.as_chunks::<8>().0;
    found.records.start.is_multiple_of(8)
        && found.records.len() == words.len() * 8
        && found.place.len == records.len() as u64
        && found.committed_at_ms == 1_000 + found.base.0
        && words.iter().zip(0..).all(|(bytes, at)| *bytes == word(found.log.0, found.base.0 + 8 * at))
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
    names_move(&*disk());
    batches_come_back(&*disk());
    files_roll_and_are_used_again(&*disk());
    big_batches_have_files_of_their_own(&*disk());
    large_groups_are_split(&*disk());
    spares_are_prepared(&*disk());
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
            while journal.prepare(disk).unwrap() {}
        }
    }
    kept.retain(|(file, _)| *file > released);
    assert!(released.0 > 10);
    assert!(disk.list(FileKind::Journal).unwrap().len() <= 8);
    let start = Start { from: FileId(released.0 + 1), ..START };
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
    while journal.prepare(disk).unwrap() {}
    assert_eq!(disk.list(FileKind::Bulk).unwrap(), vec![]);
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

fn spares_are_prepared(disk: &dyn Disk) {
    let (mut journal, ..) = reopen(disk, small(), START);
    let maker = journal.wanted_spare().unwrap();
    let spare = maker.finish(disk).unwrap();
    journal.add_spare(spare);
    assert!(journal.wanted_spare().is_none(), "the first file is a spare too");
    let mut places = Vec::new();
    journal.write(disk, &[batch(1, 0, 8)], &mut places).unwrap();
    assert!(journal.prepare(disk).unwrap());
    while journal.prepare(disk).unwrap() {}
    for round in 0..2 {
        journal.roll();
        journal.write(disk, &[batch(1, 8 + 8 * round, 8)], &mut places).unwrap();
    }
    assert_eq!((journal.counters().rolls, journal.counters().unprepared_rolls), (3, 0));
    let (_, recovered, visited) = reopen(disk, small(), START);
    assert_eq!((recovered.damages, visited.len()), (vec![], 3));
}
