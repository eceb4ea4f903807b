//! Committed batches are there after anything that may happen to a disk, in order, and nothing else is.

mod suite;

use base::Random;
use journal::faulty::{Call, Temper};
use journal::*;
use std::collections::BTreeMap;
use suite::{START, batch, marked, reopen, small};

/// A batch as (log, base, length, has a mark).
type Written = (u32, u64, usize, bool);

/// One run: a journal on a bad disk, and what must be found on it.
struct Run {
    seed: u64,
    dice: Random,
    disk: FaultyDisk,
    journal: Journal,
    limits: Limits,
    committed: Vec<(FileId, Written)>,
    /// Offered in the writes since the last that succeeded, and not committed: the next start may find a front of one.
    doubtful: Vec<Vec<Written>>,
    next: BTreeMap<u32, u64>,
    start: Start,
    /// The next start is told from where: every log has a snapshot.
    tells_start: bool,
    /// Every log has an older snapshot too, which needs these files.
    keeps: bool,
    kept: Vec<FileId>,
    /// Batches of files released since the last start: as long as no group says so on disk, they are visited again.
    released: Vec<(FileId, Written)>,
    /// Files nobody needs any more, and one that is being prepared.
    unneeded: Vec<FileName>,
    making: Option<SpareMaker>,
    crashes: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut dice = Random::new(seed);
        let disk = FaultyDisk::new(dice.bits());
        let limits = Limits {
            packed_bytes_max: [0, 4 << 10, 64 << 10][dice.below(3) as usize],
            spare_files: dice.below(3) as usize,
            spare_files_max: 1 + dice.below(3) as usize,
            window_bytes: [4 << 10, 64 << 10, 1 << 20][dice.below(3) as usize],
            ..small()
        };
        let (journal, ..) = reopen(&disk, limits, START);
        Run {
            seed,
            dice,
            disk,
            journal,
            limits,
            committed: Vec::new(),
            doubtful: Vec::new(),
            next: BTreeMap::new(),
            start: START,
            tells_start: seed.is_multiple_of(2),
            keeps: seed.is_multiple_of(4),
            kept: Vec::new(),
            released: Vec::new(),
            unneeded: Vec::new(),
            making: None,
            crashes: 0,
        }
    }

    fn go(&mut self, steps: u32) {
        for _ in 0..steps {
            match self.dice.below(40) {
                0 => self.crash(),
                1 => {
                    let nth = self.dice.between(1, 12);
                    self.disk.power_off(nth);
                }
                2 => {
                    let call = [Call::Write, Call::Sync, Call::SyncFolder, Call::Create]
                        [self.dice.below(4) as usize];
                    let nth = self.dice.between(1, 10);
                    self.disk.fail(call, nth, DiskError::Io(5));
                }
                3 => {
                    let nth = self.dice.between(1, 3);
                    self.disk.fail(Call::Write, nth, DiskError::NoSpace);
                }
                4 => {
                    let room = self.dice.below(300 << 10);
                    self.disk.set_capacity(self.disk.used_bytes() + room);
                }
                5 => self.disk.set_capacity(u64::MAX),
                6 => self.journal.roll(),
                7..=10 => self.prepare(),
                11..=13 => self.release(),
                _ => self.write(),
            }
        }
        self.crash();
    }

    /// Removes a file that nobody needs any more, or makes a part of one that is wanted. A failure is tried again later.
    fn prepare(&mut self) {
        if self.unneeded.is_empty() {
            self.unneeded = self.journal.take_unneeded();
        }
        if let Some(name) = self.unneeded.pop() {
            let _ = self.disk.remove(name);
            return;
        }
        let Some(mut maker) = self.making.take().or_else(|| self.journal.wanted_spare()) else { return };
        match maker.step(&self.disk) {
            Ok(Some(spare)) => self.journal.add_spare(spare),
            Ok(None) => self.making = Some(maker),
            Err(_) => self.journal.spare_failed(),
        }
    }

    fn batches(&mut self) -> Vec<Sealed> {
        let count = [0, 1, 1, 1, 2, 3, 9][self.dice.below(7) as usize];
        let mut next = self.next.clone();
        (0..count)
            .map(|_| {
                let log = self.dice.below(5) as u32;
                let has_mark = self.dice.one_in(3);
                let words = match self.dice.below(20) {
                    0 => self.dice.between(6_000, 9_000),
                    1..=4 => self.dice.between(500, 3_000),
                    5..=7 if has_mark => 0,
                    _ => self.dice.between(1, 60),
                };
                let base = next.entry(log).or_default();
                let make = if has_mark { marked } else { batch };
                let made = make(log, *base, words as usize * 8);
                *base += made.len as u64;
                made
            })
            .collect()
    }

    fn write(&mut self) {
        let batches = self.batches();
        let mut places = Vec::new();
        let outcome = self.journal.write(&self.disk, &batches, &mut places);
        let mut written =
            batches.iter().map(|batch| (batch.log.0, batch.base.0, batch.len, batch.mark.is_some()));
        if !places.is_empty() {
            self.doubtful.clear();
        }
        for (place, batch) in places.iter().zip(written.by_ref()) {
            self.committed.push((place.file, batch));
            self.next.insert(batch.0, batch.1 + batch.2 as u64);
        }
        match outcome {
            Ok(()) => {
                assert_eq!(places.len(), batches.len());
                self.doubtful.clear();
            }
            Err(error) => {
                self.doubtful.push(written.collect());
                match error {
                    WriteError::NoSpace => assert_eq!(self.journal.fatal(), None),
                    WriteError::Fatal(_) => {
                        let again = self.journal.write(&self.disk, &[batch(0, 0, 8)], &mut places);
                        assert!(matches!(again, Err(WriteError::Fatal(_))) && places.is_empty());
                        self.crash();
                    }
                }
            }
        }
    }

    /// As if every log had a durable snapshot behind some file.
    fn release(&mut self) {
        let files: Vec<FileId> = self.journal.files().map(|file| file.id).collect();
        if files.len() > 1 {
            let through = files[self.dice.below(files.len() as u64 - 1) as usize];
            let (mut through, mut releases) = (through, through);
            if self.tells_start {
                let from = self.start.from;
                self.start.from = FileId(through.0 + 1).max(from);
                through = FileId(self.start.from.0 - 1);
                self.start.keep = if self.keeps { from } else { self.start.from };
                releases = FileId(self.start.keep.0.saturating_sub(1));
            }
            self.kept =
                files.into_iter().filter(|file| (releases.0 + 1..=through.0).contains(&file.0)).collect();
            self.journal.release(releases);
            let count = self.committed.iter().take_while(|(file, _)| *file <= through).count();
            self.released.extend(self.committed.drain(..count));
        }
    }

    fn crash(&mut self) {
        self.crashes += 1;
        let temper = self.disk.crash();
        self.disk.set_capacity(u64::MAX);
        // The next start finds what is left of them, and may need what was not needed.
        (self.making, self.unneeded) = (None, Vec::new());
        let mut files = Vec::new();
        let context = format!("seed {}, crash {} ({temper:?})", self.seed, self.crashes);
        let opened = Journal::open(&self.disk, self.limits, self.start, &mut |found| {
            assert!(suite::is_right(&found), "seed {}: wrong bytes", self.seed);
            let Place { file, len, .. } = found.place;
            files.push((file, (found.log.0, found.base.0, len as usize, found.mark.is_some())));
        });
        let (journal, recovered) = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(recovered.damages, vec![], "{context}");
        // Files that the last group says were released are not visited; those that were released later count again.
        let oldest = journal.files().next().map_or(FileId(0), |file| file.id).max(self.start.from);
        self.released.retain(|(file, _)| *file >= oldest);
        assert!(self.released.is_empty() || !self.tells_start, "{context}: visited what was released");
        let is_kept = |file: &FileId| journal.files().any(|live| live.id == *file);
        assert!(self.kept.iter().all(is_kept), "{context}: {:?} are to be kept", self.kept);
        let expected = self.released.iter().chain(&self.committed);
        let committed: Vec<Written> = expected.map(|(_, batch)| *batch).collect();
        let visited: Vec<Written> = files.iter().map(|(_, batch)| *batch).collect();
        assert!(visited.len() >= committed.len(), "{context}: lost {:?}", &committed[visited.len()..]);
        let (kept, more) = visited.split_at(committed.len());
        assert_eq!(kept, committed, "{context}");
        let is_doubtful = more.is_empty() || self.doubtful.iter().any(|offered| offered.starts_with(more));
        assert!(is_doubtful, "{context}: invented {more:?}, not of {:?}", self.doubtful);
        self.committed = files;
        self.released.clear();
        self.doubtful.clear();
        for (log, base, len, _) in more {
            self.next.insert(*log, base + *len as u64);
        }
        self.journal = journal;
    }
}

#[test]
fn nothing_committed_is_lost_and_nothing_invented() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(300);
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mut crashes = 0;
    for seed in first..first + seeds {
        let mut run = Run::new(seed);
        run.go(300);
        crashes += run.crashes;
    }
    println!("{seeds} seeds, {crashes} crashes");
}

/// A start gives spare files their names anew. It may be cut short in their midst, and what the next one then does with the
/// folder may fail to be synced, halves of renames among it.
#[test]
fn a_spare_file_has_one_name_whatever_becomes_of_starts() {
    let limits = Limits { spare_files_max: 2, ..small() };
    let before = FaultyDisk::new(1);
    let (mut journal, ..) = reopen(&before, limits, START);
    for round in 0..4 {
        journal.roll();
        journal.write(&before, &[batch(1, round * 8, 8)], &mut Vec::new()).unwrap();
    }
    let from = journal.files().next_back().unwrap().id;
    let start = Start { from, keep: from, ..START };
    let mut cut_short = 0;
    for call in 1.. {
        let disk = before.fork();
        disk.power_off(call);
        let is_cut_short = Journal::open(&disk, limits, start, &mut |_| {}).is_err();
        cut_short += u64::from(is_cut_short);
        for next in 1..3 {
            disk.crash_as(Temper::Kill);
            disk.fail(Call::SyncFolder, next, DiskError::Io(5));
            let _failed = Journal::open(&disk, limits, start, &mut |_| {});
        }
        disk.crash_as(Temper::Kill);
        let (journal, ..) = reopen(&disk, limits, start);
        assert_eq!(journal.spares(), 2, "cut short in call {call}");
        disk.crash_as(Temper::LoseAll);
        let (mut journal, ..) = reopen(&disk, limits, start);
        for base in [32, 40] {
            journal.roll();
            assert_eq!(journal.write(&disk, &[batch(1, base, 8)], &mut Vec::new()), Ok(()));
        }
        let (journal, recovered, visited) = reopen(&disk, limits, start);
        assert_eq!((journal.spares(), recovered.damages), (0, vec![]), "cut short in call {call}");
        assert_eq!(visited, [(1, 24, 8), (1, 32, 8), (1, 40, 8)], "cut short in call {call}");
        if !is_cut_short {
            break;
        }
    }
    assert!(cut_short > 4, "two spare files: {cut_short}");
}
