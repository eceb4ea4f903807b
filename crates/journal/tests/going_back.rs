//! Tails that are taken back and written anew: with later writing over earlier, what is read is what a model of words says, and
//! the files that are let go of are those nothing needs.

mod suite;

use base::id::{LogId, LogIndex};
use base::{Buffer, Random};
use journal::faulty::Call;
use journal::*;
use std::collections::BTreeMap;
use suite::{START, cover, small};

const LOGS: u32 = 3;

/// A batch as it is written: its words are those of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    log: u32,
    /// In words, as is `len`.
    base: usize,
    len: usize,
    term: u64,
    is_marked: bool,
}

impl Written {
    fn sealed(&self) -> Sealed {
        let base = LogIndex(self.base as u64 * 8);
        let mut batch = Batch::new(LogId(self.log), base, Buffer::default());
        for at in self.base..self.base + self.len {
            batch.records().extend(&self.word(at));
        }
        let mut mark = [7; Mark::LEN];
        mark[..8].copy_from_slice(&self.term.to_le_bytes());
        Sealed { mark: self.is_marked.then_some(Mark(mark)), ..batch.seal(self.term) }
    }

    fn word(&self, at: usize) -> [u8; 8] {
        (self.term << 32 | at as u64).to_le_bytes()
    }

    /// The batch that this one was; its words are those of its term.
    fn of(found: &RecoveredBatch) -> Written {
        let written = Written {
            log: found.log.0,
            base: found.base.0 as usize / 8,
            len: found.records.len() / 8,
            term: found.committed_at_ms,
            is_marked: found.mark.is_some(),
        };
        let sealed = written.sealed();
        assert_eq!((&found.memory[found.records.clone()], found.mark), (sealed.records(), sealed.mark));
        written
    }
}

/// Words of a log, from `base` up to `end`, that were written at once.
#[derive(Clone, Debug)]
struct Piece {
    base: usize,
    end: usize,
    term: u64,
    file: FileId,
}

/// A log as it is when all that is void has gone: its words, and the marks without words.
#[derive(Clone, Debug, Default)]
struct Log {
    pieces: Vec<Piece>,
    marks: Vec<(usize, FileId)>,
    /// No batch goes back behind this.
    agreed: usize,
}

impl Log {
    fn end(&self) -> usize {
        self.pieces.last().map_or(0, |piece| piece.end)
    }

    /// Later writing goes over earlier. Whether the batch goes back.
    fn take(&mut self, batch: &Written, file: FileId) -> bool {
        let Written { base, len, term, .. } = *batch;
        let goes_back = base < self.end();
        if goes_back {
            self.pieces.retain(|piece| piece.base < base);
            self.pieces.iter_mut().for_each(|piece| piece.end = piece.end.min(base));
            self.marks.retain(|(at, _)| *at < base);
        }
        match len {
            0 => self.marks.push((base, file)),
            _ => self.pieces.push(Piece { base, end: base + len, term, file }),
        }
        goes_back
    }

    /// The term of each word from `first` on.
    fn terms(&self, first: usize) -> Vec<u64> {
        let words = |piece: &Piece| piece.end.saturating_sub(piece.base.max(first));
        self.pieces.iter().flat_map(|piece| std::iter::repeat_n(piece.term, words(piece))).collect()
    }

    /// The part of it that lies in `file`.
    fn span(&self, log: u32, file: FileId) -> Option<LogSpan> {
        let pieces = self.pieces.iter().filter(|piece| piece.file == file);
        let marks = self.marks.iter().filter(|(_, at)| *at == file).map(|(at, _)| (*at, *at));
        let both = pieces.map(|piece| (piece.base, piece.end)).chain(marks);
        let (first, end) = both.reduce(|one, two| (one.0.min(two.0), one.1.max(two.1)))?;
        let index = |at: usize| LogIndex(at as u64 * 8);
        Some(LogSpan { log: LogId(log), first: index(first), end: index(end) })
    }
}

struct Run {
    dice: Random,
    disk: FaultyDisk,
    journal: Journal,
    snapshots: Snapshots,
    limits: Limits,
    /// Everything that was written, with its file, in order.
    written: Vec<(FileId, Written)>,
    logs: BTreeMap<u32, Log>,
    term: u64,
    context: String,
    went_back: u64,
    released: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut dice = Random::new(seed);
        let disk = FaultyDisk::new(dice.bits());
        let packed_bytes_max = [0, 4 << 10, 64 << 10][dice.below(3) as usize];
        let limits = Limits { packed_bytes_max, spare_files: 1, ..small() };
        let (journal, _) = Journal::open(&disk, limits, START, &mut |_| {}).unwrap();
        let mut snapshots = Snapshots::default();
        for log in 0..LOGS {
            // As a folder begins: without one, a log has all of the journal read for it.
            snapshots.write(&disk, cover(log, 0, 0), &[]).unwrap();
        }
        let (written, logs) = (Vec::new(), (0..LOGS).map(|log| (log, Log::default())).collect());
        let context = format!("seed {seed}");
        let (term, went_back, released) = (1, 0, 0);
        Run { dice, disk, journal, snapshots, limits, written, logs, term, context, went_back, released }
    }

    fn go(&mut self) {
        for _ in 0..150 {
            match self.dice.below(24) {
                0 => self.crash(),
                1 => self.disk.power_off(self.dice.between(1, 12)),
                2 => {
                    let call = [Call::Write, Call::Sync][self.dice.below(2) as usize];
                    self.disk.fail(call, self.dice.between(1, 5), DiskError::Io(5));
                }
                3 => self.journal.roll(),
                4..=6 => self.agree(),
                7..=8 => (0..LOGS).for_each(|log| self.snapshot(log)),
                9..=11 => self.release(),
                _ => self.write(),
            }
            self.check_files();
        }
        self.crash();
        self.check_files();
    }

    /// Batches that follow, and such as go back as far as nothing is agreed on. They come under one term each.
    fn write(&mut self) {
        let mut ends: BTreeMap<u32, usize> =
            self.logs.iter().map(|(log, model)| (*log, model.end())).collect();
        let batches: Vec<Written> = (0..self.dice.between(1, 4))
            .map(|_| {
                let log = self.dice.below(u64::from(LOGS)) as u32;
                let end = ends[&log];
                let goes_back = self.dice.one_in(4);
                let agreed = self.logs[&log].agreed as u64;
                let base = if goes_back { self.dice.between(agreed, end as u64) as usize } else { end };
                let is_marked = goes_back || self.dice.one_in(3);
                let len = match self.dice.below(32) {
                    0 => self.dice.between(6_200, 6_500),
                    1..=6 => self.dice.between(100, 1_500),
                    7..=14 if is_marked => 0,
                    _ => self.dice.between(1, 60),
                } as usize;
                ends.insert(log, base + len);
                self.term += 1;
                Written { log, base, len, term: self.term, is_marked }
            })
            .collect();
        let sealed: Vec<Sealed> = batches.iter().map(Written::sealed).collect();
        let mut places = Vec::new();
        let outcome = self.journal.write(&self.disk, &sealed, &mut places);
        let mut batches = batches.into_iter();
        for (place, batch) in places.iter().zip(batches.by_ref()) {
            self.take(batch, place.file);
        }
        if outcome.is_err() {
            self.crash_with(batches.collect());
        }
    }

    fn take(&mut self, batch: Written, file: FileId) {
        let model = self.logs.get_mut(&batch.log).unwrap();
        self.went_back += u64::from(model.take(&batch, file));
        self.written.push((file, batch));
    }

    /// A number between two, and often the second.
    fn up_to(&mut self, first: usize, last: usize) -> usize {
        if self.dice.one_in(2) { last } else { self.dice.between(first as u64, last as u64) as usize }
    }

    /// More of a log is never taken back.
    fn agree(&mut self) {
        let log = self.dice.below(u64::from(LOGS)) as u32;
        let (agreed, end) = (self.logs[&log].agreed, self.logs[&log].end());
        self.logs.get_mut(&log).unwrap().agreed = self.up_to(agreed, end);
    }

    /// A snapshot of some of what is agreed on, of which some was moved out of the journal. As a keeper would, it finds the file to
    /// replay from by what the files say of themselves.
    fn snapshot(&mut self, log: u32) {
        let newest = self.snapshots.newest(LogId(log)).unwrap();
        let covered = self.up_to(newest.covered.0 as usize / 8, self.logs[&log].agreed);
        let moved = self.up_to(0, covered) as u64 * 8;
        let moved = moved.max(self.snapshots.moved(&self.journal, LogId(log)).0);
        let needs = |file: &&LiveFile| file.logs.iter().any(|span| span.log.0 == log && span.end.0 > moved);
        let from = self.journal.files().find(needs).map_or(self.journal.end().0, |file| file.id);
        let cover = cover(log, covered as u64 * 8, from.0.max(newest.from_file.0));
        if self.snapshots.write(&self.disk, cover, &[]).is_err() {
            self.crash();
        }
    }

    /// The file up to which nothing is needed by the model: neither by what is covered nor by where replay begins.
    fn needless(&self) -> Option<FileId> {
        let is_needless = |file: &&LiveFile| {
            self.logs.iter().all(|(log, model)| {
                let cover = self.snapshots.oldest(LogId(*log)).unwrap();
                let is_beyond = |span: LogSpan| cover.covered >= span.end && cover.from_file > file.id;
                // Of marks the file says where they are; that it does is tested by itself.
                let has_marks = file.marked.contains(&LogId(*log));
                model.span(*log, file.id).is_none_or(is_beyond) && !(has_marks && cover.from_file <= file.id)
            })
        };
        let files = self.journal.files();
        let left = files.len().saturating_sub(1);
        files.take(left).take_while(is_needless).last().map(|file| file.id)
    }

    fn release(&mut self) {
        if let Some(through) = self.snapshots.releasable(&self.journal) {
            self.journal.release(through);
            self.released += 1;
        }
        for name in self.journal.take_unneeded() {
            let _found_by_the_next_start = self.disk.remove(name);
        }
        if let Some(maker) = self.journal.wanted_spare() {
            match maker.finish(&self.disk) {
                Ok(spare) => self.journal.add_spare(spare),
                Err(_) => self.journal.spare_failed(),
            }
        }
    }

    /// The books by log and index say what the model does.
    fn check_files(&self) {
        for file in self.journal.files() {
            let spans: Vec<LogSpan> =
                self.logs.iter().filter_map(|(log, model)| model.span(*log, file.id)).collect();
            assert_eq!(file.logs, spans, "{}: file {}", self.context, file.id);
        }
        assert_eq!(self.snapshots.releasable(&self.journal), self.needless(), "{}", self.context);
        for (log, model) in &self.logs {
            let from = self.snapshots.newest(LogId(*log)).unwrap().from_file;
            let before = self.journal.files().take_while(|file| file.id < from);
            let ends = before.filter_map(|file| model.span(*log, file.id)).map(|span| span.end);
            let moved = ends.max().unwrap_or_default();
            assert_eq!(
                self.snapshots.moved(&self.journal, LogId(*log)),
                moved,
                "{}: log {log}",
                self.context
            );
        }
    }

    fn crash(&mut self) {
        self.crash_with(Vec::new());
    }

    /// The power goes, or the process, and a front of what was offered last may be found.
    fn crash_with(&mut self, offered: Vec<Written>) {
        let temper = self.disk.crash();
        self.context += &format!(", {temper:?}");
        let (snapshots, _, bad) = Snapshots::load(&self.disk).unwrap();
        assert_eq!(bad, vec![], "{}", self.context);
        let start = snapshots.start(START.secret, (0..LOGS).map(LogId));
        let mut visited = Vec::new();
        let opened = Journal::open(&self.disk, self.limits, start, &mut |found| {
            visited.push((found.place.file, Written::of(&found), found.void_to));
        });
        let (journal, recovered) = opened.unwrap_or_else(|error| panic!("{}: {error}", self.context));
        assert_eq!(recovered.damages, vec![], "{}", self.context);
        let oldest = journal.files().next().map_or(FileId(0), |file| file.id).max(start.from);
        let known = self.written.iter().filter(|(file, _)| *file >= oldest).count();
        assert!(visited.len() >= known, "{}: lost {}", self.context, known - visited.len());
        let (mut more, mut offered) = (visited[known..].iter(), offered.into_iter());
        for ((file, found, _), batch) in more.by_ref().zip(offered.by_ref()) {
            assert_eq!(*found, batch, "{}: invented", self.context);
            self.take(batch, *file);
        }
        assert_eq!(more.next(), None, "{}: invented", self.context);
        (self.journal, self.snapshots) = (journal, snapshots);
        self.check_read(&visited, oldest);
    }

    /// A reader that begins with the snapshots, and takes back what a batch replaces, ends with the model.
    fn check_read(&self, visited: &[(FileId, Written, Option<LogIndex>)], oldest: FileId) {
        let expected = self.written.iter().filter(|(file, _)| *file >= oldest);
        let found = visited.iter().map(|(file, batch, _)| (file, batch));
        assert!(found.eq(expected.map(|(file, batch)| (file, batch))), "{}: out of order", self.context);
        for (log, model) in &self.logs {
            let covered = self.snapshots.newest(LogId(*log)).unwrap().covered.0 as usize / 8;
            // The first word that is read, and the terms from there on: the snapshot has what is before.
            let mut read: Option<(usize, Vec<u64>)> = None;
            for (_, batch, void_to) in visited.iter().filter(|(_, batch, _)| batch.log == *log) {
                let goes_on = read.is_some();
                let (first, terms) = read.get_or_insert_with(|| (batch.base, Vec::new()));
                let end = *first + terms.len();
                if goes_on {
                    let goes_back = (batch.base < end).then_some(LogIndex(end as u64 * 8));
                    assert_eq!(*void_to, goes_back, "{}: log {log} at {}", self.context, batch.base);
                }
                assert!(batch.base <= end, "{}: a gap in log {log}", self.context);
                terms.truncate(batch.base.saturating_sub(*first));
                *first = batch.base.min(*first);
                terms.extend(std::iter::repeat_n(batch.term, batch.len));
            }
            let (first, terms) = read.unwrap_or((covered, Vec::new()));
            assert!(first <= covered, "{}: log {log} misses {covered}..{first}", self.context);
            assert_eq!(terms, model.terms(first), "{}: log {log} from {first} on", self.context);
        }
    }
}

#[test]
fn later_writing_goes_over_earlier() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(200);
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let (mut went_back, mut released) = (0, 0);
    for seed in first..first + seeds {
        let mut run = Run::new(seed);
        run.go();
        went_back += run.went_back;
        released += run.released;
    }
    assert!(went_back > seeds && released > seeds, "{went_back} batches went back, {released} releases");
}
