//! Sectors the device does not return: what they may have held is told and left as it is, and everything else is found.

mod suite;

use base::memory::BLOCK;
use journal::faulty::SECTOR;
use journal::*;
use std::io::IoSlice;
use suite::used::{Written, end, key, limits, used_disk};
use suite::{START, batch, reopen};

/// The content of a file from `from` up to `to`, sector by sector; `None`: cannot be read.
fn sectors(disk: &FaultyDisk, name: FileName, from: u64, to: u64) -> Vec<Option<Vec<u8>>> {
    let read = |at| {
        let mut sector = vec![0; SECTOR];
        disk.read_at(name, at, &mut sector).ok().map(|_| sector)
    };
    (from..to).step_by(SECTOR).map(read).collect()
}

/// Opens: everything of `committed` is visited or named by a damage, and nothing else is.
fn check_told(
    disk: &FaultyDisk,
    limits: Limits,
    start: Start,
    committed: &[Written],
    context: &str,
) -> (Journal, Vec<Damage>, Vec<Written>) {
    let (journal, recovered, visited) = reopen(disk, limits, start);
    let mut rest = visited.iter().peekable();
    for batch in committed {
        let is_named = |damage: &Damage| damage.log.is_none_or(|found| found.0 == batch.0);
        let is_visited = rest.next_if_eq(&batch).is_some();
        assert!(is_visited || recovered.damages.iter().any(is_named), "{context}: lost silently: {batch:?}");
    }
    assert_eq!(rest.next(), None, "{context}: not committed, or out of order");
    (journal, recovered.damages, visited)
}

/// A group of 100 batches, whose header is longer than a block, and `behind` it others; one sector of it or behind it cannot
/// be read, as far as the longest header might reach.
fn check_long_group(behind: &[&[Sealed]]) {
    let limits = Limits { file_bytes: 512 << 10, ..limits(true) };
    let (disk, mut journal, start, mut committed) = used_disk(limits);
    let (name, from) = end(&journal);
    let many: Vec<Sealed> = (0..100).map(|log| batch(100 + log, 0, 80)).collect();
    journal.write(&disk, &many, &mut Vec::new()).unwrap();
    let to = end(&journal).1;
    assert!(to - from > 4 * BLOCK as u64);
    for batches in behind {
        journal.write(&disk, batches, &mut Vec::new()).unwrap();
    }
    committed.extend(many.iter().chain(behind.iter().copied().flatten()).map(key));
    for sector in 0..240 {
        let context = format!("sector {sector}");
        let disk = disk.fork();
        disk.ruin(name, from + sector * SECTOR as u64);
        let before = sectors(&disk, name, from, to);
        let check = || check_told(&disk, limits, start, &committed, &context);
        let (_, damages, visited) = check();
        let (mut journal, damages_again, visited_again) = check();
        assert_eq!((damages, &visited), (damages_again, &visited_again), "{context}");
        journal.write(&disk, &[batch(7, 0, 24)], &mut Vec::new()).unwrap();
        assert!(sectors(&disk, name, from, to) == before, "{context}: written over");
        let visited_then = reopen(&disk, limits, start).2;
        assert_eq!(visited_then, [&visited[..], &[(7, 0, 24)]].concat(), "{context}");
    }
}

#[test]
fn a_long_group_does_not_vanish_for_a_sector_in_it_or_behind_it() {
    check_long_group(&[]);
}

#[test]
fn a_long_group_in_front_of_another_does_not_vanish_either() {
    check_long_group(&[&[]]);
    check_long_group(&[&[batch(8, 0, 80)], &[]]);
}

#[test]
fn rot_is_told_from_a_torn_write_though_what_proves_it_lies_before_an_unreadable_sector() {
    let many: Vec<Sealed> = (0..100).map(|log| batch(100 + log, 0, 80)).collect();
    for behind in [&[][..], &many] {
        let limits = Limits { file_bytes: 512 << 10, ..limits(true) };
        let (disk, mut journal, start, mut committed) = used_disk(limits);
        let (name, from) = end(&journal);
        journal.write(&disk, &[batch(3, 0, 80)], &mut Vec::new()).unwrap();
        let proof = end(&journal).1;
        journal.write(&disk, behind, &mut Vec::new()).unwrap();
        committed.push((3, 0, 80));
        committed.extend(behind.iter().map(key));
        disk.rot(name, from + 300, 0);
        // A group whose first block cannot be read proves nothing.
        for sector in (BLOCK / SECTOR) as u64..240 {
            let disk = disk.fork();
            disk.ruin(name, proof + sector * SECTOR as u64);
            let (_, damages, _) = check_told(&disk, limits, start, &committed, &format!("sector {sector}"));
            let is_first = |damage: &Damage| (damage.offset, damage.file) == (from, start.from);
            assert!(damages.iter().any(is_first), "sector {sector}: {damages:?}");
        }
    }
}

/// A group is written to a file of its own, of whose two first blocks nothing can be read.
fn check_unknown_file(disk: &FaultyDisk, mut journal: Journal, start: Start, committed: Vec<Written>) {
    let limits = *journal.limits();
    journal.roll();
    journal.write(disk, &[batch(3, 0, 800)], &mut Vec::new()).unwrap();
    let (name, end) = end(&journal);
    let mut heads = vec![0; 2 * BLOCK];
    disk.read_at(name, 0, &mut heads).unwrap();
    disk.ruin(name, 0);
    disk.ruin(name, BLOCK as u64);
    let before = sectors(disk, name, 0, end);
    let told = Damage { log: None, base: None, file: FileId(0), offset: 0, cause: DamageCause::Io(5) };
    let mut expected = committed;
    for more in 0..8u64 {
        let (mut journal, recovered, visited) = reopen(disk, limits, start);
        assert!(recovered.damages.contains(&told), "{:?}", recovered.damages);
        assert_eq!(visited, expected, "start {more}");
        let next = [batch(7, more * 20_000, 20_000), batch(2, 2_400 + more * 8, 8)];
        if more.is_multiple_of(3) {
            journal.roll();
        }
        if more > 0 {
            journal.write(disk, &next, &mut Vec::new()).unwrap();
            expected.extend(next.iter().map(key));
        }
        assert!(!journal.take_unneeded().contains(&name));
        assert!(sectors(disk, name, 0, end) == before, "written over");
    }
    // The device changes its mind: whatever comes of the batch that was told lost, what was committed since is there.
    disk.write_at(name, 0, &[IoSlice::new(&heads)]).unwrap();
    disk.sync(name).unwrap();
    let (_, _, mut visited) = reopen(disk, limits, start);
    visited.retain(|batch| batch.0 != 3);
    expected.retain(|batch| batch.0 != 3);
    assert_eq!(visited, expected);
}

#[test]
fn a_file_that_cannot_be_told_from_a_spare_is_none() {
    // Behind its one group lie those of an earlier use of the slot, or nothing.
    let (disk, journal, start, committed) = used_disk(limits(false));
    check_unknown_file(&disk, journal, start, committed);
    let disk = FaultyDisk::new(1);
    let (mut journal, ..) = reopen(&disk, limits(false), START);
    journal.write(&disk, &[batch(1, 0, 64)], &mut Vec::new()).unwrap();
    check_unknown_file(&disk, journal, START, vec![(1, 0, 64)]);
}

/// From where to where.
type Parts<'a> = &'a [(u64, u64)];

/// A file whose first write found no space was removed and begun again in another slot, and the device brings it back.
#[test]
fn of_two_files_that_should_be_one_that_with_a_group_is_taken() {
    let limits = limits(false);
    let (disk, mut journal, start, committed) = used_disk(limits);
    journal.roll();
    let before = disk.fork();
    journal.write(&disk, &[batch(3, 0, 30_000)], &mut Vec::new()).unwrap();
    let (slot, first) = end(&journal);
    journal.write(&disk, &[batch(3, 30_000, 8_000)], &mut Vec::new()).unwrap();
    let (_, second) = end(&journal);
    let mut bytes = vec![0; second as usize];
    disk.read_at(slot, 0, &mut bytes).unwrap();
    let record = 3 * BLOCK as u64;
    let other = FileName::new(FileKind::Journal, 99);
    let (torn, both) = (vec![(0, record), (record + 512, first)], vec![(0, first), (first, second)]);
    let rotten: Vec<(u64, u64)> = [&torn[..], &both[1..]].concat();
    let one = (3, 0, 30_000);
    let two = (3, 30_000, 8_000);
    let removed = [(0, BLOCK as u64)];
    // The bytes there of the one that is begun again, whether its record cannot be read, what is visited, what is damaged.
    let rows: [(Parts<'_>, bool, &[Written], usize); 6] = [
        (&both, false, &[one, two], 0),
        (&both[..1], false, &[one], 0),
        (&torn, false, &[], 0),
        (&both[..1], true, &[], 1),
        (&rotten, false, &[two], 1),
        (&rotten, true, &[two], 1),
    ];
    for (row, (parts, is_ruined, found, damaged)) in rows.into_iter().enumerate() {
        for (begun, removed_one) in [(slot, other), (other, slot)] {
            let disk = before.fork();
            disk.create(other, disk.len(slot).unwrap()).unwrap();
            disk.sync_folder(FileKind::Journal).unwrap();
            for (name, parts) in [(begun, parts), (removed_one, &removed)] {
                for (from, to) in parts {
                    let part = IoSlice::new(&bytes[*from as usize..*to as usize]);
                    disk.write_at(name, *from, &[part]).unwrap();
                }
                disk.sync(name).unwrap();
            }
            if is_ruined {
                disk.ruin(begun, record);
            }
            let mut expected = [&committed[..], found].concat();
            for more in 0..3 {
                let (mut journal, recovered, visited) = reopen(&disk, limits, start);
                assert_eq!(visited, expected, "row {row}, {begun}, start {more}");
                let is_told = recovered.damages.len() == damaged || more > 1;
                assert!(is_told, "row {row}, {begun}, start {more}: {:?}", recovered.damages);
                if more > 0 {
                    let next = batch(7, more * 24, 24);
                    expected.push(key(&next));
                    journal.write(&disk, &[next], &mut Vec::new()).unwrap();
                }
            }
        }
    }
}
