//! Any bytes may stand where ours should; what we wrote comes back as it was.

mod suite;

use base::Buffer;
use base::id::NodeNo;
use journal::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::IoSlice;
use suite::{START, batch, cover, keep_house, reopen, small};

fn memory(bytes: &[u8]) -> base::Memory {
    let mut buffer = Buffer::default();
    buffer.extend(bytes);
    buffer.seal()
}

/// A journal file with a few groups.
fn written() -> (FaultyDisk, FileName) {
    let disk = FaultyDisk::new(1);
    let (mut journal, ..) = reopen(&disk, small(), START);
    let groups =
        [vec![batch(1, 0, 64), batch(2, 0, 8)], vec![batch(1, 64, 9_000)], vec![batch(3, 0, 60_000)], vec![]];
    for group in groups {
        journal.write(&disk, &group, &mut Vec::new()).unwrap();
    }
    (disk, FileName::new(FileKind::Journal, 0))
}

proptest! {
    #[test]
    fn any_bytes_are_no_block_and_no_snapshot(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(SegmentBlock::read(memory(&bytes), 3, 64).is_none());
        prop_assert!(Snapshot::read(memory(&bytes)).is_err());
    }

    #[test]
    fn any_bytes_in_a_journal_are_refused_or_harmless(
        edits in prop::collection::vec((0u64..28_000, prop::collection::vec(any::<u8>(), 1..600)), 1..4),
    ) {
        let (disk, name) = written();
        for (at, bytes) in &edits {
            disk.write_at(name, *at, &[IoSlice::new(bytes)]).unwrap();
        }
        // It checks every batch it is given.
        let (mut journal, ..) = reopen(&disk, small(), START);
        journal.write(&disk, &[batch(9, 0, 8)], &mut Vec::new()).unwrap();
        let (.., visited) = reopen(&disk, small(), START);
        prop_assert_eq!(visited.last(), Some(&(9, 0, 8)));
    }

    #[test]
    fn segments_give_back_what_they_took(
        records in prop::collection::vec((0u64..3, 1u64..50, 1usize..2_000), 1..60),
    ) {
        let disk = FaultyDisk::new(1);
        let mut writer = SegmentWriter::begin(&disk, 1).unwrap();
        let mut expected = BTreeMap::new();
        let mut position = 0;
        for (key, step, words) in records {
            position += step;
            let record = vec![position as u8; words * 8];
            writer.push(&disk, key, position, &record).unwrap();
            expected.insert((key, position), record);
        }
        let done = writer.finish(&disk).unwrap();
        let mut found = BTreeMap::new();
        for place in &done.blocks {
            let block = SegmentBlock::load(&disk, 1, place).unwrap().unwrap();
            for (position, range) in block.iter() {
                prop_assert_eq!(block.find(position), Some(range.clone()));
                found.insert((place.key, position), block.memory()[range].to_vec());
            }
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn snapshots_give_back_what_they_took(
        sections in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..50)), 0..9),
        covered in any::<u64>(),
        bit in any::<prop::sample::Index>(),
        piece in 1..60usize,
    ) {
        let disk = FaultyDisk::new(1);
        let (mut snapshots, ..) = Snapshots::load(&disk).unwrap();
        let given: Vec<(u32, &[u8])> = sections.iter().map(|(tag, bytes)| (*tag, &bytes[..])).collect();
        // In whatever pieces they are.
        let pieces: Vec<Vec<&[u8]>> = given.iter().map(|(_, bytes)| bytes.chunks(piece).collect()).collect();
        let in_pieces: Vec<Section<'_>> =
            given.iter().zip(&pieces).map(|((tag, _), pieces)| (*tag, &pieces[..])).collect();
        snapshots.write(&disk, cover(7, covered, 3), &in_pieces).unwrap();
        let (_, found, bad) = Snapshots::load(&disk).unwrap();
        prop_assert!(bad.is_empty());
        prop_assert_eq!(found[0].cover, cover(7, covered, 3));
        prop_assert_eq!(&found[0].sections().collect::<Vec<_>>(), &given);
        // Any bit of it may rot, but for the zeros that only fill.
        let name = disk.list(FileKind::Snapshot).unwrap()[0];
        let bit = bit.index(disk.len(name).unwrap() as usize * 8) as u64;
        disk.rot(name, bit / 8, (bit % 8) as u8);
        if let Some(rotten) = Snapshots::load(&disk).unwrap().1.first() {
            prop_assert_eq!(&rotten.sections().collect::<Vec<_>>(), &given);
        }
    }
}

#[test]
fn of_many_released_files_some_are_kept_for_use() {
    let disk = FaultyDisk::new(1);
    let limits = Limits { spare_files: 0, spare_files_max: 2, ..small() };
    let (mut journal, ..) = reopen(&disk, limits, START);
    let mut places = Vec::new();
    for round in 0..6 {
        journal.roll();
        journal.write(&disk, &[batch(1, round * 8, 8)], &mut places).unwrap();
    }
    journal.release(FileId(5));
    // Of five files two are kept for use; the short first one is not.
    journal.write(&disk, &[batch(1, 48, 8)], &mut places).unwrap();
    assert_eq!(journal.take_unneeded().len(), 3);
}

#[test]
fn a_spare_is_made_in_bounded_steps() {
    let disk = FaultyDisk::new(1);
    let (mut journal, ..) = reopen(&disk, Limits { spare_files: 2, ..small() }, START);
    let mut maker = journal.wanted_spare().unwrap();
    let steps: Vec<Option<Spare>> = (0..4).map(|_| maker.step(&disk).unwrap()).collect();
    assert_eq!(steps.iter().flatten().count(), 1, "128 KiB in steps of 32: {steps:?}");
    journal.add_spare(steps[3].unwrap());
    assert!(journal.wanted_spare().is_none());
    // Interrupted, it is made anew by the next start.
    let (mut journal, ..) = reopen(&disk, Limits { spare_files: 3, ..small() }, START);
    assert_eq!(journal.wanted_spare().unwrap().step(&disk), Ok(None));
    disk.crash_as(faulty::Temper::Kill);
    let (mut journal, recovered, _) = reopen(&disk, Limits { spare_files: 3, ..small() }, START);
    keep_house(&mut journal, &disk);
    for round in 0..3 {
        journal.roll();
        journal.write(&disk, &[batch(1, round * 8, 8)], &mut Vec::new()).unwrap();
    }
    assert_eq!((journal.counters().unprepared_rolls, recovered.damages), (0, vec![]));
}

#[test]
fn segments_of_every_node_have_numbers_of_their_own() {
    let check = |node, first: &str, last: &str| {
        let numbers = segment::numbers(NodeNo(node));
        let leaf = |number| FileName::new(FileKind::Segment, number).leaf();
        assert_eq!((leaf(*numbers.start()), leaf(*numbers.end())), (first.to_owned(), last.to_owned()));
    };
    check(0, "0000000000000001.segment", "0000ffffffffffff.segment");
    check(1, "0001000000000001.segment", "0001ffffffffffff.segment");
    check(u16::MAX, "ffff000000000001.segment", "ffffffffffffffff.segment");
}

#[test]
fn blocks_are_bounded_in_records() {
    let disk = FaultyDisk::new(1);
    let mut writer = SegmentWriter::begin(&disk, 1).unwrap();
    for position in 0..segment::BLOCK_RECORDS_MAX as u64 + 1 {
        writer.push(&disk, 1, position, &[1; 8]).unwrap();
    }
    let counts: Vec<u32> = writer.finish(&disk).unwrap().blocks.iter().map(|block| block.count).collect();
    assert_eq!(counts, [segment::BLOCK_RECORDS_MAX as u32, 1]);
}

#[test]
fn a_full_disk_passes() {
    let disk = FaultyDisk::new(1);
    let (mut journal, ..) = reopen(&disk, small(), START);
    disk.set_capacity(disk.used_bytes() + (200 << 10));
    let mut places = Vec::new();
    let mut base = 0;
    let mut write = |journal: &mut Journal, len: usize| {
        let outcome = journal.write(&disk, &[batch(1, base, len)], &mut places);
        base += if outcome.is_ok() { len as u64 } else { 0 };
        outcome
    };
    while write(&mut journal, 8_000).is_ok() {}
    // There is none for a bulk file either, and what is small waits for room in a file as well.
    assert_eq!(write(&mut journal, 80_000), Err(WriteError::NoSpace));
    assert_eq!(disk.list(FileKind::Bulk).unwrap(), vec![]);
    assert_eq!(journal.fatal(), None);
    disk.set_capacity(u64::MAX);
    write(&mut journal, 8_000).unwrap();
    write(&mut journal, 80_000).unwrap();
    let (_, recovered, visited) = reopen(&disk, small(), START);
    assert_eq!((recovered.damages, visited.iter().map(|batch| batch.2 as u64).sum::<u64>()), (vec![], base));
}

#[test]
fn a_full_journal_uses_what_was_released() {
    // The last file is filled to the brim in different ways: by groups of one block, of a few, and both.
    for lens in [[100, 100], [8_000, 8_000], [8_000, 100]] {
        let disk = FaultyDisk::new(1);
        let (mut journal, ..) = reopen(&disk, small(), START);
        disk.set_capacity(disk.used_bytes() + (400 << 10));
        let mut places = Vec::new();
        let mut base = 0;
        let mut write = |journal: &mut Journal, len: usize| {
            let outcome = journal.write(&disk, &[batch(1, base, len)], &mut places);
            base += if outcome.is_ok() { len as u64 } else { 0 };
            outcome
        };
        for len in lens {
            while write(&mut journal, len).is_ok() {}
        }
        assert_eq!(write(&mut journal, 100), Err(WriteError::NoSpace), "{lens:?}");
        // The first is shorter than the others, and is not used again.
        let second = journal.files().nth(1).unwrap().id;
        assert!(journal.files().len() > 2, "there are two to be released");
        journal.release(second);
        write(&mut journal, 8_000).unwrap();
        assert_eq!(journal.fatal(), None);
        let (_, recovered, _) = reopen(&disk, small(), START);
        assert_eq!(recovered.damages, vec![]);
    }
}
