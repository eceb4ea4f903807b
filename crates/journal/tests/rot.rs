//! Torn tails, cut files, rotten bits, unreadable sectors: nothing wrong is ever handed out, and what is lost is named.

mod suite;

use base::Random;
use base::memory::BLOCK;
use journal::faulty::{Call, SECTOR, Temper};
use journal::*;
use std::io::IoSlice;
use suite::used::{Written, end, key, limits, used_disk};
use suite::{START, batch, reopen, small};

/// The bytes of a group that was just written, and the disk from before.
fn tail(packed: bool) -> (FaultyDisk, Start, Vec<Written>, Vec<Written>, FileName, u64, Vec<u8>) {
    let (disk, mut journal, start, committed) = used_disk(limits(packed));
    let before = disk.fork();
    let (name, from) = end(&journal);
    let batches = [batch(3, 0, 30_000), batch(1, 192, 8), batch(2, 2_400, 29_000)];
    journal.write(&disk, &batches, &mut Vec::new()).unwrap();
    let mut bytes = vec![0; (end(&journal).1 - from) as usize];
    assert!(bytes.len() > 56 << 10, "about 64 KiB: {}", bytes.len());
    disk.read_at(name, from, &mut bytes).unwrap();
    (before, start, committed, batches.iter().map(key).collect(), name, from, bytes)
}

fn every_byte_may_be_the_last_of(packed: bool) {
    let (disk, start, committed, torn, name, from, bytes) = tail(packed);
    let whole: Vec<Written> = committed.iter().chain(&torn).copied().collect();
    for (at, byte) in bytes.iter().enumerate() {
        disk.write_at(name, from + at as u64, &[IoSlice::new(&[*byte])]).unwrap();
        disk.sync(name).unwrap();
        let (_, recovered, visited) = reopen(&disk.fork(), limits(packed), start);
        assert_eq!(recovered.damages, vec![], "torn at {at}");
        assert!(visited == committed || visited == whole, "torn at {at}: {visited:?}");
        assert!(visited == committed || at + BLOCK > bytes.len(), "torn at {at}: cannot be whole");
    }
    assert_eq!(reopen(&disk, limits(packed), start).2, whole);
}

#[test]
fn every_byte_may_be_the_last_of_a_spread_group() {
    every_byte_may_be_the_last_of(false);
}

#[test]
fn every_byte_may_be_the_last_of_a_packed_group() {
    every_byte_may_be_the_last_of(true);
}

#[test]
fn a_file_may_be_cut_anywhere_in_its_tail() {
    let (disk, start, committed, torn, name, from, bytes) = tail(false);
    disk.write_at(name, from, &[IoSlice::new(&bytes)]).unwrap();
    disk.sync(name).unwrap();
    let whole: Vec<Written> = committed.iter().chain(&torn).copied().collect();
    assert_eq!(reopen(&disk, limits(false), start).2, whole);
    for at in (0..bytes.len() as u64).rev().step_by(5) {
        let cut = disk.fork();
        cut.truncate(name, from + at);
        let (mut journal, recovered, visited) = reopen(&cut, limits(false), start);
        assert_eq!(recovered.damages, vec![], "cut at {at}");
        assert_eq!(visited, committed, "cut at {at}");
        if at % 4 == 0 {
            let more = batch(7, 0, 24);
            journal.write(&cut, &[more], &mut Vec::new()).unwrap();
            let visited = reopen(&cut, limits(false), start).2;
            assert_eq!(visited, [&committed[..], &[(7, 0, 24)]].concat(), "cut at {at}");
        }
    }
}

/// A group that was written where `committed` ended.
struct Torn {
    limits: Limits,
    start: Start,
    committed: Vec<Written>,
    name: FileName,
    from: u64,
    bytes: Vec<u8>,
}

impl Torn {
    /// Puts all of it on disk but the sectors `lost`, lets a node start, and then has those sectors arrive too: as they do
    /// where the next group has the same bytes there, and is torn in its turn.
    fn check_it_stays_torn(&self, disk: &FaultyDisk, lost: &[usize]) {
        let put = |is_due: &dyn Fn(&usize) -> bool| {
            for (at, sector) in self.bytes.chunks(SECTOR).enumerate().filter(|(at, _)| is_due(at)) {
                disk.write_at(self.name, self.from + (at * SECTOR) as u64, &[IoSlice::new(sector)]).unwrap();
            }
            disk.sync(self.name).unwrap();
        };
        let open = |committed: &[Written], when: &str| {
            let (journal, recovered, visited) = reopen(disk, self.limits, self.start);
            assert_eq!((&recovered.damages[..], &visited[..]), (&[][..], committed), "{when} {lost:?}");
            journal
        };
        put(&|at| !lost.contains(at));
        open(&self.committed, "without");
        put(&|at| lost.contains(at));
        let mut journal = open(&self.committed, "with");
        journal.write(disk, &[batch(7, 0, 24)], &mut Vec::new()).unwrap();
        open(&[&self.committed[..], &[(7, 0, 24)]].concat(), "behind");
    }
}

#[test]
fn a_torn_group_does_not_come_back() {
    let (disk, start, committed, _, name, from, bytes) = tail(false);
    let torn = Torn { limits: limits(false), start, committed, name, from, bytes };
    // Both copies of the header are in the first sector: whatever has the same bytes there is this group.
    let records: Vec<usize> = (BLOCK / SECTOR..torn.bytes.len() / SECTOR).collect();
    for sector in records.iter().copied().step_by(3) {
        let is_padding = torn.bytes[sector * SECTOR..][..SECTOR].iter().all(|byte| *byte == 0);
        if !is_padding {
            torn.check_it_stays_torn(&disk.fork(), &[sector]);
        }
    }
    torn.check_it_stays_torn(&disk, &records);
}

#[test]
fn neither_copy_of_a_long_header_brings_a_torn_group_back() {
    let limits = Limits { file_bytes: 4 << 20, ..limits(true) };
    let (before, mut journal, start, committed) = used_disk(limits);
    let disk = before.fork();
    let (name, from) = end(&journal);
    let many: Vec<Sealed> = (0..400).map(|log| batch(100 + log, 0, 80)).collect();
    journal.write(&disk, &many, &mut Vec::new()).unwrap();
    let mut bytes = vec![0; (end(&journal).1 - from) as usize];
    disk.read_at(name, from, &mut bytes).unwrap();
    let copies: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"LVGR")).map(|at| at / SECTOR).collect();
    let [0, second] = copies[..] else { panic!("one group, whose header stands twice: {copies:?}") };
    assert!(second > BLOCK / SECTOR, "in another block: {second}");
    let torn = Torn { limits, start, committed, name, from, bytes };
    let record = second * 2 + 8;
    for lost in [vec![record], vec![0, record], vec![second, record], vec![1, second + 1]] {
        torn.check_it_stays_torn(&before.fork(), &lost);
    }
}

#[test]
fn a_copy_of_a_header_that_begins_at_the_end_of_a_sector_does_not_bring_a_torn_group_back() {
    let limits = Limits { file_bytes: 4 << 20, ..limits(true) };
    for count in [19, 51, 83, 105, 137] {
        let (before, mut journal, start, committed) = used_disk(limits);
        let disk = before.fork();
        let (name, from) = end(&journal);
        let many: Vec<Sealed> = (0..count).map(|log| batch(100 + log, 0, 80)).collect();
        journal.write(&disk, &many, &mut Vec::new()).unwrap();
        let mut bytes = vec![0; (end(&journal).1 - from) as usize];
        disk.read_at(name, from, &mut bytes).unwrap();
        let second = 64 + 48 * count as usize;
        assert!(bytes[second..].starts_with(b"LVGR") && second % SECTOR > SECTOR - 64, "{count}");
        let torn = Torn { limits, start, committed, name, from, bytes };
        let next = second / SECTOR + 1;
        let record = (2 * second) / SECTOR + 1;
        for lost in [vec![0, next], vec![0, next, record], vec![next, record], vec![0, record]] {
            torn.check_it_stays_torn(&before.fork(), &lost);
        }
    }
}

#[test]
fn a_group_whose_file_was_not_begun_does_not_come_back() {
    let (disk, mut journal, start, committed) = used_disk(limits(false));
    journal.roll();
    let before = disk.fork();
    journal.write(&disk, &[batch(3, 0, 30_000)], &mut Vec::new()).unwrap();
    let (name, end) = end(&journal);
    assert!(before.len(name).is_ok(), "a slot that is used again");
    let mut bytes = vec![0; end as usize];
    disk.read_at(name, 0, &mut bytes).unwrap();
    let torn = Torn { limits: limits(false), start, committed, name, from: 0, bytes };
    torn.check_it_stays_torn(&before.fork(), &[0]);
    // Nor where a start whose sync fails has cut it in the page cache alone, for the next start to find it cut.
    let sectors = torn.bytes.chunks(SECTOR).enumerate();
    for (at, sector) in sectors.clone().skip(1) {
        before.write_at(name, (at * SECTOR) as u64, &[IoSlice::new(sector)]).unwrap();
    }
    before.sync(name).unwrap();
    let mut failed = 0;
    for nth in 1..6 {
        let disk = before.fork();
        disk.fail(Call::Sync, nth, DiskError::Io(5));
        failed += u32::from(Journal::open(&disk, torn.limits, start, &mut |_| {}).is_err());
        disk.crash_as(Temper::Kill);
        assert_eq!(reopen(&disk, torn.limits, start).2, torn.committed, "sync {nth}");
        disk.crash_as(Temper::LoseAll);
        disk.write_at(name, 0, &[IoSlice::new(&torn.bytes[..SECTOR])]).unwrap();
        disk.sync(name).unwrap();
        let (_, recovered, visited) = reopen(&disk, torn.limits, start);
        assert_eq!((recovered.damages, visited), (vec![], torn.committed.clone()), "sync {nth}");
    }
    assert!(failed > 1);
}

/// The last group is in the page cache alone, and a torn one lies behind it; starts fail to sync what they write.
#[test]
fn what_a_start_visits_is_durable_though_starts_before_it_failed_to_sync() {
    let (disk, start, mut committed, _, name, from, bytes) = tail(false);
    let (mut journal, ..) = reopen(&disk, limits(false), start);
    disk.fail(Call::Sync, 1, DiskError::Io(5));
    assert!(journal.write(&disk, &[batch(4, 0, 800)], &mut Vec::new()).is_err());
    committed.push((4, 0, 800));
    // Any group will do as the torn one: its header's first sector is there, and no more.
    let (lost, torn) = (disk.fork(), disk.fork());
    lost.crash_as(Temper::Kill);
    let (mut journal, ..) = reopen(&lost, limits(false), start);
    let (_, behind) = end(&journal);
    journal.write(&lost, &[batch(5, 0, 30_000)], &mut Vec::new()).unwrap();
    let mut head = [0; SECTOR];
    lost.read_at(name, behind, &mut head).unwrap();
    torn.write_at(name, behind, &[IoSlice::new(&head)]).unwrap();
    assert!(behind > from && behind < from + bytes.len() as u64);
    for failures in [&[1][..], &[1, 1], &[1, 2], &[2, 1], &[2, 2], &[1, 2, 1], &[3]] {
        let disk = torn.fork();
        disk.crash_as(Temper::Kill);
        for nth in failures {
            disk.fail(Call::Sync, *nth, DiskError::Io(5));
            let _may_fail = Journal::open(&disk, limits(false), start, &mut |_| {});
            disk.crash_as(Temper::Kill);
        }
        for when in ["before", "after"] {
            let (_, recovered, visited) = reopen(&disk, limits(false), start);
            assert_eq!((recovered.damages, visited), (vec![], committed.clone()), "{failures:?} {when}");
            disk.crash_as(Temper::LoseAll);
        }
    }
}

#[test]
fn rot_in_front_of_a_torn_group_is_told_and_writing_goes_on() {
    for is_ruined in [false, true] {
        let (disk, start, mut committed, _, name, from, bytes) = tail(false);
        for (at, sector) in bytes.chunks(SECTOR).enumerate().filter(|(at, _)| *at != 2 * BLOCK / SECTOR) {
            disk.write_at(name, from + (at * SECTOR) as u64, &[IoSlice::new(sector)]).unwrap();
        }
        disk.sync(name).unwrap();
        // The group before is one block: its header's two copies, a batch of log 1, one of log 2.
        let last = from - BLOCK as u64;
        let cause = match is_ruined {
            false => DamageCause::Checksum,
            true => DamageCause::Io(5),
        };
        if is_ruined {
            disk.ruin(name, last);
        } else {
            assert!(disk.rot(name, last + 2 * (64 + 2 * 48) + 8, 0));
        }
        committed.retain(|batch| *batch != (1, 128, 64) && (!is_ruined || *batch != (2, 1_600, 800)));
        for more in 0..3u64 {
            let (mut journal, recovered, visited) = reopen(&disk, limits(false), start);
            let damages: Vec<_> =
                recovered.damages.iter().map(|damage| (damage.offset, damage.cause)).collect();
            assert_eq!((damages, &visited), (vec![(last, cause)], &committed), "start {more}");
            let next = batch(7, more * 24, 24);
            committed.push(key(&next));
            journal.write(&disk, &[next], &mut Vec::new()).unwrap();
        }
    }
}

/// Three files of groups of all kinds, closed as by a clean stop.
fn filled_disk() -> (FaultyDisk, Vec<Written>) {
    let disk = FaultyDisk::new(2);
    let (mut journal, ..) = reopen(&disk, small(), START);
    let mut committed = Vec::new();
    let mut places = Vec::new();
    for round in 0..24 {
        let batches = [
            batch(1, round * 640, 640),
            batch(2, round * 12_000, 12_000),
            batch(3 + round as u32, 0, if round % 6 == 5 { 60_000 } else { 64 }),
        ];
        let count = 1 + round as usize % 3;
        journal.write(&disk, &batches[..count], &mut places).unwrap();
        committed.extend(batches[..count].iter().map(key));
    }
    journal.write(&disk, &[], &mut places).unwrap();
    assert!(journal.files().len() >= 2 && disk.list(FileKind::Bulk).unwrap().len() >= 2);
    (disk, committed)
}

/// The rest of `committed` after something happened: in order, nothing else, and a damage for each log that lost
/// something (or one that may be any log's).
fn check_rest(disk: &FaultyDisk, committed: &[Written], context: &str) -> usize {
    let (_, recovered, visited) = reopen(disk, small(), START);
    let mut rest = visited.iter().peekable();
    let lost: Vec<Written> =
        committed.iter().copied().filter(|batch| rest.next_if_eq(&batch).is_none()).collect();
    assert_eq!(rest.next(), None, "{context}: not committed, or out of order");
    for (log, ..) in &lost {
        let is_named = |damage: &Damage| damage.log.is_none_or(|found| found.0 == *log);
        assert!(recovered.damages.iter().any(is_named), "{context}: lost silently: log {log}");
    }
    lost.len()
}

#[test]
fn a_rotten_bit_is_never_handed_out_nor_lost_silently() {
    let (disk, committed) = filled_disk();
    let flips = std::env::var("FLIPS").ok().and_then(|flips| flips.parse().ok()).unwrap_or(3_000);
    let mut dice = Random::new(3);
    let mut files: Vec<FileName> = disk.list(FileKind::Journal).unwrap();
    files.extend(disk.list(FileKind::Bulk).unwrap());
    let mut lossless = 0;
    for flip in 0..flips {
        let name = files[dice.below(files.len() as u64) as usize];
        let byte = dice.below(disk.len(name).unwrap());
        let bit = dice.below(8) as u8;
        let rotten = disk.fork();
        assert!(rotten.rot(name, byte, bit));
        let lost = check_rest(&rotten, &committed, &format!("flip {flip}: {name} byte {byte} bit {bit}"));
        // One bit hits one batch; two of them where it is the header's of a group, but that is there twice.
        assert!(lost <= 1, "flip {flip}: {name} byte {byte} bit {bit}: {lost} batches");
        lossless += usize::from(lost == 0);
    }
    assert!(lossless > 0 && lossless < flips);
}

#[test]
fn headers_survive_any_single_bit() {
    let (disk, committed) = filled_disk();
    let name = disk.list(FileKind::Journal).unwrap()[1];
    // The file's header, and the first group's both copies.
    for bit in (0..64 * 8).chain(BLOCK as u64 * 8..(BLOCK as u64 + 320) * 8) {
        let rotten = disk.fork();
        rotten.rot(name, bit / 8, (bit % 8) as u8);
        assert_eq!(check_rest(&rotten, &committed, &format!("bit {bit}")), 0);
    }
}

#[test]
fn sectors_may_be_unreadable_or_overwritten() {
    let (disk, committed) = filled_disk();
    for name in disk.list(FileKind::Journal).unwrap() {
        for sector in 0..disk.len(name).unwrap() / 512 {
            let ruined = disk.fork();
            ruined.ruin(name, sector * 512);
            let lost = check_rest(&ruined, &committed, &format!("{name} sector {sector}"));
            let overwritten = disk.fork();
            overwritten.write_at(name, sector * 512, &[IoSlice::new(&[0xA5; 512])]).unwrap();
            overwritten.sync(name).unwrap();
            let lost_too =
                check_rest(&overwritten, &committed, &format!("{name} sector {sector}, overwritten"));
            assert!(lost <= 3 && lost_too <= 3, "{name} sector {sector}: {lost}, {lost_too}");
        }
    }
}

#[test]
fn a_lost_file_is_missed() {
    let (disk, committed) = filled_disk();
    let names = disk.list(FileKind::Journal).unwrap();
    let (journal, ..) = reopen(&disk, small(), START);
    let files: Vec<(FileId, FileName)> = journal.files().map(|file| (file.id, file.name())).collect();
    assert!(files.len() >= 2 && names.len() >= 2);
    // Not the last one: that nothing comes after it cannot be known.
    for (id, name) in &files[..files.len() - 1] {
        let without = disk.fork();
        without.remove(*name).unwrap();
        let (_, recovered, visited) = reopen(&without, small(), START);
        assert!(visited.len() < committed.len());
        let missed = |damage: &Damage| damage.file == *id && damage.cause == DamageCause::Missing;
        assert!(recovered.damages.iter().any(missed), "{:?}", recovered.damages);
    }
    let bulk = disk.list(FileKind::Bulk).unwrap()[0];
    disk.remove(bulk).unwrap();
    assert_eq!(check_rest(&disk, &committed, "bulk file"), 1);
}

#[test]
fn what_was_damaged_stays_named_while_others_go_on() {
    let (disk, mut journal, start, committed) = used_disk(small());
    let (name, offset) = end(&journal);
    let mut places = Vec::new();
    journal.write(&disk, &[batch(4, 0, 8_000), batch(5, 0, 8_000)], &mut places).unwrap();
    journal.write(&disk, &[batch(5, 8_000, 16)], &mut places).unwrap();
    disk.rot(name, offset + 4096 + 100, 0);
    for more in 0..3u64 {
        let (mut journal, recovered, visited) = reopen(&disk, small(), start);
        let damage = Damage {
            log: Some(base::id::LogId(4)),
            base: Some(base::id::LogIndex(0)),
            file: start.from,
            offset,
            cause: DamageCause::Checksum,
        };
        assert_eq!(recovered.damages, vec![damage]);
        assert_eq!(visited.len(), committed.len() + 2 + more as usize);
        journal.write(&disk, &[batch(5, 8_016 + more * 8, 8)], &mut places).unwrap();
    }
}

#[test]
fn files_of_others_are_left_alone() {
    let (disk, ..) = filled_disk();
    let other = Start { secret: 1, ..START };
    let opened = Journal::open(&disk, small(), other, &mut |_| panic!("not ours"));
    assert!(matches!(opened, Err(OpenError::Foreign(_))));
    let names = disk.list(FileKind::Journal).unwrap();
    let copy = FileName::new(FileKind::Journal, 99);
    let len = disk.len(names[1]).unwrap();
    let mut bytes = vec![0; len as usize];
    disk.read_at(names[1], 0, &mut bytes).unwrap();
    disk.create(copy, len).unwrap();
    disk.write_at(copy, 0, &[IoSlice::new(&bytes)]).unwrap();
    let opened = Journal::open(&disk, small(), START, &mut |_| {});
    assert_eq!(opened.err(), Some(OpenError::Double(copy)));
}

/// The header at `offset` of the file `name` says that it is of this version.
fn set_version(disk: &FaultyDisk, name: FileName, offset: u64, version: u32) {
    let mut header = [0; 64];
    disk.read_at(name, offset, &mut header).unwrap();
    header[8..12].copy_from_slice(&version.to_le_bytes());
    let crc = base::crc::crc32c_append(base::crc::crc32c(&header[..12]), &header[16..]);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    disk.write_at(name, offset, &[IoSlice::new(&header)]).unwrap();
}

#[test]
fn another_version_is_not_touched() {
    let check = |version: u32, words: &str| {
        let (disk, ..) = filled_disk();
        let name = disk.list(FileKind::Journal).unwrap()[0];
        set_version(&disk, name, 0, version);
        let error = Journal::open(&disk, small(), START, &mut |_| {}).unwrap_err();
        assert_eq!(error, OpenError::Version { name, version });
        assert!(error.to_string().starts_with(&format!("{name} was written by {words}")), "{error}");
        let disk = FaultyDisk::new(1);
        Snapshots::default().write(&disk, suite::cover(1, 10, 1), &[]).unwrap();
        let name = disk.list(FileKind::Snapshot).unwrap()[0];
        set_version(&disk, name, 0, version);
        let error = Snapshots::load(&disk).unwrap_err();
        assert_eq!(error, SnapshotError::Version { name, version });
        assert!(error.to_string().starts_with(&format!("{name} was written by {words}")), "{error}");
        let disk = FaultyDisk::new(1);
        let mut secrets = base::Secrets::simulated(1);
        Identity::open(&disk, &mut secrets, 1).unwrap();
        let name = FileName::new(FileKind::Identity, 0);
        [0, BLOCK as u64].iter().for_each(|offset| set_version(&disk, name, *offset, version));
        let error = Identity::open(&disk, &mut secrets, 1).unwrap_err();
        assert!(error.to_string().starts_with(&format!("the data folder was made by {words}")), "{error}");
    };
    let later = file::VERSION + 1;
    check(later, &format!("a later version of this program (format {later})"));
    // Such a folder is refused with what to do.
    for version in 1..file::VERSION {
        let words = format!(
            "an earlier version of this program (format {version}), which this one (format {}) does not read. Start the",
            file::VERSION
        );
        check(version, &words);
    }
}

/// It was written whole, so it is not cut as a torn one is.
#[test]
fn a_malformed_group_is_named_and_stays() {
    let disk = FaultyDisk::new(1);
    let (mut journal, ..) = reopen(&disk, small(), START);
    journal.write(&disk, &[batch(1, 0, 64)], &mut Vec::new()).unwrap();
    let (name, offset) = end(&journal);
    journal.write(&disk, &[suite::marked(1, 64, 64)], &mut Vec::new()).unwrap();
    // The one mark of its one entry is of a second.
    let mut header = [0; 64 + 48 + 32];
    disk.read_at(name, offset, &mut header).unwrap();
    header[64 + 48] = 1;
    let crc = base::crc::crc32c(&header[8..]);
    header[4..8].copy_from_slice(&crc.to_le_bytes());
    disk.write_at(name, offset, &[IoSlice::new(&header), IoSlice::new(&header)]).unwrap();
    let (mut journal, recovered, visited) = reopen(&disk, small(), START);
    let cause = DamageCause::Malformed(Malformed::Mark);
    let told = Damage { log: None, base: None, file: FileId(1), offset, cause };
    assert_eq!((recovered.damages, visited), (vec![told], vec![(1, 0, 64)]));
    assert!(told.to_string().starts_with("malformed group (a mark of no batch) in journal file 1"), "{told}");
    let mut places = Vec::new();
    journal.write(&disk, &[batch(1, 64, 8)], &mut places).unwrap();
    assert_eq!(places[0].file, FileId(2), "nothing is written over it");
    assert_eq!(reopen(&disk, small(), START).2, [(1, 0, 64), (1, 64, 8)]);
}

/// A publisher who knows the format, the file and the sequence number puts whole groups into a message, to be found
/// when the group that carries them is torn. It cannot know the salt.
#[test]
fn a_group_in_a_message_is_not_one_of_the_journal() {
    let limits = limits(false);
    let (disk, forged_disk) = (FaultyDisk::new(1), FaultyDisk::new(1));
    let (mut journal, ..) = reopen(&disk, limits, START);
    let (mut forger, ..) = reopen(&forged_disk, limits, Start { secret: 2, ..START });
    let mut places = Vec::new();
    // The forger's groups: one block each, from the first on; those that come after the fourth will do.
    for base in 0..12 {
        forger.write(&forged_disk, &[batch(8, base * 8, 8)], &mut places).unwrap();
    }
    let (name, end_of_forgery) = end(&forger);
    for base in 0..3 {
        journal.write(&disk, &[batch(1, base * 8, 8)], &mut places).unwrap();
    }
    let before = disk.fork();
    let (_, from) = end(&journal);
    let at = from as usize + BLOCK;
    let mut payload = vec![0; end_of_forgery as usize - at];
    forged_disk.read_at(name, at as u64, &mut payload).unwrap();
    let mut batch = Batch::new(base::id::LogId(1), base::id::LogIndex(24), base::Buffer::default());
    batch.records().extend(&payload);
    journal.write(&disk, &[batch.seal(1)], &mut places).unwrap();
    assert_eq!(places[0].offset as usize, at, "the forged groups lie where they say");
    // All of the group but its header reached the disk.
    before.write_at(name, at as u64, &[IoSlice::new(&payload)]).unwrap();
    before.sync(name).unwrap();
    let (_, recovered, visited) = reopen(&before, limits, START);
    assert_eq!((recovered.damages, visited), (vec![], vec![(1, 0, 8), (1, 8, 8), (1, 16, 8)]));
}
