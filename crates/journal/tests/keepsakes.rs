//! Snapshots, segments and the identity on a disk that does its worst: what was finished is there after any crash.

mod suite;

use base::id::{LogId, LogIndex};
use base::{Random, Secrets};
use journal::faulty::{Call, Temper};
use journal::snapshot::KEPT;
use journal::*;
use std::collections::BTreeMap;
use suite::{START, batch, cover};

struct Run {
    seed: u64,
    dice: Random,
    disk: FaultyDisk,
    identity: Option<Identity>,
    snapshots: Snapshots,
    /// By log: what the newest durable snapshot covers, and what newer ones that failed would.
    durable: BTreeMap<u32, (u64, Vec<u64>)>,
    segments: Vec<SegmentDone>,
    next_segment: u64,
    covered: u64,
}

fn bytes(covered: u64) -> Vec<u8> {
    let mut bytes = vec![0; covered as usize % 3_000];
    Random::new(covered).fill(&mut bytes);
    bytes
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut dice = Random::new(seed);
        let disk = FaultyDisk::new(dice.bits());
        let snapshots = Snapshots::default();
        let (durable, segments) = (BTreeMap::new(), Vec::new());
        Run { seed, dice, disk, identity: None, snapshots, durable, segments, next_segment: 1, covered: 0 }
    }

    fn go(&mut self) {
        for _ in 0..120 {
            match self.dice.below(16) {
                0 => self.crash(),
                1 => self.disk.power_off(self.dice.between(1, 12)),
                2 => {
                    let calls = [Call::Write, Call::Sync, Call::SyncFolder, Call::Create, Call::Rename];
                    let call = calls[self.dice.below(5) as usize];
                    let error = [DiskError::Io(5), DiskError::NoSpace][self.dice.below(2) as usize];
                    self.disk.fail(call, self.dice.between(1, 5), error);
                }
                3..=5 => self.segment(),
                _ => self.snapshot(),
            }
        }
        self.crash();
    }

    fn snapshot(&mut self) {
        let log = self.dice.below(3) as u32;
        self.covered += self.dice.between(1, 1_000);
        let content = bytes(self.covered);
        let sections: [Section<'_>; 2] = [(1, &[&content]), (2, &[b"end"])];
        let written = self.snapshots.write(&self.disk, cover(log, self.covered, 1), &sections);
        let (durable, doubtful) = self.durable.entry(log).or_default();
        match written {
            Ok(()) => {
                *durable = self.covered;
                doubtful.clear();
            }
            Err(error) => {
                doubtful.push(self.covered);
                if error != DiskError::NoSpace {
                    self.crash();
                }
            }
        }
    }

    fn segment(&mut self) {
        let id = self.next_segment;
        self.next_segment += 1;
        let write = || {
            let mut writer = SegmentWriter::begin(&self.disk, id)?;
            for position in 0..20 {
                writer.push(&self.disk, id % 3, position, &[position as u8; 5_000])?;
            }
            writer.finish(&self.disk)
        };
        match write() {
            Ok(done) => self.segments.push(done),
            Err(DiskError::NoSpace) => {}
            Err(_) => self.crash(),
        }
    }

    fn crash(&mut self) {
        let temper = self.disk.crash();
        let context = format!("seed {} ({temper:?})", self.seed);
        let identity = match (self.identity, Identity::load(&self.disk).unwrap()) {
            (None, found) => found,
            (known, found) => {
                assert_eq!(known, found, "{context}");
                found
            }
        };
        // The folder holds data only after it was given an identity; here nothing orders the two.
        if identity.is_none() && self.snapshots.newest(LogId(0)).is_none() {
            self.identity = Identity::open(&self.disk, &mut Secrets::simulated(self.dice.bits()), 8).ok();
        }
        let (snapshots, found, bad) = Snapshots::load(&self.disk).unwrap();
        assert_eq!(bad, vec![], "{context}");
        for snapshot in &found {
            let covered = snapshot.cover.covered.0;
            assert_eq!(snapshot.section(1), Some(&bytes(covered)[..]), "{context}");
            assert_eq!(snapshot.section(2), Some(&b"end"[..]), "{context}");
        }
        for (log, (durable, doubtful)) in &mut self.durable {
            let newest = snapshots.newest(LogId(*log)).map_or(0, |cover| cover.covered.0);
            assert!(newest == *durable || doubtful.contains(&newest), "{context}: log {log}: {newest}");
            // A snapshot that a start has seen may be built on: it does not go with a later crash.
            *durable = newest;
            doubtful.clear();
        }
        self.snapshots = snapshots;
        for done in &self.segments {
            for place in &done.blocks {
                let block = SegmentBlock::load(&self.disk, done.id, place).unwrap();
                let block = block.unwrap_or_else(|| panic!("{context}: segment {}", done.id));
                assert!(
                    block
                        .iter()
                        .all(|(at, range)| block.memory()[range].iter().all(|byte| *byte == at as u8))
                );
            }
        }
    }
}

#[test]
fn what_was_finished_is_there() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(300);
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first..first + seeds {
        Run::new(seed).go();
    }
}

/// The sync of the folder of `kind` fails after `name` was given, only the process dies, and the next start sees it.
fn check_name_after_failed_sync(
    kind: FileKind,
    give: impl Fn(&FaultyDisk),
    start: impl Fn(&FaultyDisk) -> u64,
) {
    for halfway in 0..4 {
        let disk = FaultyDisk::new(1);
        disk.fail(Call::SyncFolder, 1, DiskError::Io(5));
        give(&disk);
        let names = disk.list(kind).unwrap();
        disk.crash_as(Temper::Kill);
        // Starts that get only so far, and lose the process or nothing but what is not synced.
        if halfway > 0 {
            disk.fail(Call::Rename, halfway, DiskError::Io(5));
            disk.fail(Call::SyncFolder, halfway, DiskError::Io(5));
            let _may_fail = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| start(&disk)));
            disk.crash_as(Temper::Kill);
        }
        let found = start(&disk);
        assert_eq!(disk.list(kind).unwrap(), names, "halfway {halfway}");
        disk.crash_as(Temper::LoseAll);
        assert_eq!(start(&disk), found, "halfway {halfway}");
    }
}

#[test]
fn a_start_makes_the_names_it_sees_durable() {
    let write = |disk: &FaultyDisk| {
        let written = Snapshots::default().write(disk, cover(1, 10, 1), &[]);
        assert_eq!(written, Err(DiskError::Io(5)));
    };
    let load = |disk: &FaultyDisk| {
        let (snapshots, found, bad) = Snapshots::load(disk).unwrap();
        assert_eq!((found.len(), bad), (1, vec![]));
        snapshots.newest(LogId(1)).unwrap().covered.0
    };
    check_name_after_failed_sync(FileKind::Snapshot, write, load);
    let give = |disk: &FaultyDisk| assert!(Identity::open(disk, &mut Secrets::simulated(3), 8).is_err());
    let open = |disk: &FaultyDisk| Identity::open(disk, &mut Secrets::simulated(4), 8).unwrap().secret;
    check_name_after_failed_sync(FileKind::Identity, give, open);
}

/// The power goes in the midst of every call in turn of what is `done`; `check` looks at what then is there.
fn check_power_cuts(
    tempers: &[Temper],
    prepare: impl Fn(&FaultyDisk),
    done: impl Fn(&FaultyDisk) -> bool,
    check: impl Fn(&FaultyDisk, &str),
) {
    for nth in 1.. {
        let mut is_done = true;
        for (seed, temper) in (0..20).flat_map(|seed| tempers.iter().map(move |temper| (seed, *temper))) {
            let disk = FaultyDisk::new(seed);
            prepare(&disk);
            disk.power_off(nth);
            is_done &= done(&disk);
            disk.crash_as(temper);
            check(&disk, &format!("cut at call {nth} ({temper:?}, seed {seed})"));
        }
        if is_done {
            assert!(nth > 2, "what is cut makes calls");
            return;
        }
    }
}

#[test]
fn a_bad_snapshot_is_not_forgotten() {
    let name = FileName::of_log(FileKind::Snapshot, LogId(1), 0);
    let prepare = |disk: &FaultyDisk| {
        Snapshots::default().write(disk, cover(1, 10, 1), &[]).unwrap();
        assert!(disk.rot(name, 30, 0));
    };
    let load = |disk: &FaultyDisk| Snapshots::load(disk).is_ok();
    let check = |disk: &FaultyDisk, context: &str| {
        // By this start, and by those after it.
        for _ in 0..2 {
            let (snapshots, found, bad) = Snapshots::load(disk).unwrap();
            let aside = FileName { kind: FileKind::Quarantined, ..name };
            assert_eq!((found.len(), disk.list(FileKind::Quarantined)), (0, Ok(vec![aside])), "{context}");
            assert!(bad.len() <= 1, "{context}");
            assert!(snapshots.lost().eq([LogId(1)]), "{context}");
        }
    };
    // Not scattered: filesystems keep a rename between two folders whole as well, and only the double does not.
    check_power_cuts(&[Temper::Kill, Temper::LoseAll, Temper::Prefix], prepare, load, check);
}

#[test]
fn a_log_that_is_removed_does_not_come_back_with_an_older_snapshot() {
    let prepare = |disk: &FaultyDisk| {
        let mut snapshots = Snapshots::default();
        for number in 0..KEPT as u64 {
            snapshots.write(disk, cover(1, 10 * number, 1), &[]).unwrap();
        }
    };
    let remove = |disk: &FaultyDisk| {
        let Ok((mut snapshots, ..)) = Snapshots::load(disk) else { return false };
        snapshots.remove(disk, LogId(1)).is_ok()
    };
    let check = |disk: &FaultyDisk, context: &str| {
        let (snapshots, ..) = Snapshots::load(disk).unwrap();
        let newest = snapshots.newest(LogId(1)).map(|cover| cover.covered.0);
        assert!(newest.is_none_or(|covered| covered == 10 * (KEPT as u64 - 1)), "{context}: {newest:?}");
    };
    check_power_cuts(
        &[Temper::Kill, Temper::LoseAll, Temper::Prefix, Temper::Scatter],
        prepare,
        remove,
        check,
    );
}

#[test]
fn a_start_keeps_the_files_that_only_the_older_snapshot_needs() {
    let disk = FaultyDisk::new(1);
    let logs = [LogId(1)];
    let mut places = Vec::new();
    {
        let mut snapshots = Snapshots::default();
        let (mut journal, _) = Journal::open(&disk, suite::small(), START, &mut |_| {}).unwrap();
        for round in 0..4 {
            journal.roll();
            journal.write(&disk, &[batch(1, round * 8, 8)], &mut places).unwrap();
            snapshots.write(&disk, cover(1, round * 8, round + 1), &[]).unwrap();
            if let Some(through) = snapshots.releasable(&journal) {
                journal.release(through);
            }
        }
    }
    let open = |from: u64, kept: u64, visits: u64| {
        let (snapshots, ..) = Snapshots::load(&disk).unwrap();
        let start = snapshots.start(START.secret, logs);
        assert_eq!((start.from, start.keep), (FileId(from), FileId(kept)));
        let mut visited = 0;
        let opened = Journal::open(&disk, suite::small(), start, &mut |_| visited += 1);
        let (mut journal, recovered) = opened.unwrap();
        assert_eq!((visited, recovered.damages), (visits, vec![]));
        let files: Vec<_> = journal.files().map(|file| (file.id.0, file.logs[0].end.0)).collect();
        let expected: Vec<_> = (kept..=4).map(|file| (file, 8 * file)).collect();
        assert_eq!(files, expected);
        let moved = if kept < from { 8 * (from - 1) } else { 0 };
        assert_eq!(snapshots.moved(&journal, LogId(1)), LogIndex(moved));
        assert_eq!(snapshots.releasable(&journal), None);
        // A group that says what is needed makes no difference.
        journal.write(&disk, &[], &mut Vec::new()).unwrap();
    };
    open(4, 3, 1);
    open(4, 3, 1);
    disk.rot(FileName::of_log(FileKind::Snapshot, LogId(1), 3), 30, 0);
    open(3, 3, 2);
}

#[test]
fn an_identity_outlives_any_crash_once_given() {
    for seed in 0..200 {
        let mut dice = Random::new(seed);
        let disk = FaultyDisk::new(dice.bits());
        disk.power_off(dice.between(1, 8));
        let mut secrets = Secrets::simulated(dice.bits());
        let given = Identity::open(&disk, &mut secrets, 8).ok();
        let temper = disk.crash();
        let found = Identity::load(&disk).unwrap();
        assert!(given.is_none() || given == found, "seed {seed} ({temper:?})");
        let again = Identity::open(&disk, &mut secrets, 8).unwrap();
        disk.crash_as(Temper::LoseAll);
        assert_eq!(Identity::load(&disk), Ok(Some(again)), "seed {seed} ({temper:?})");
    }
}
