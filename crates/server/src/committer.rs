//! The hand-in of batches by shards: when they are flushed, and by which thread.
//!
//! Decisions are made by values: [`node::commit`] says whether a shard writes inside its own turn, [`node::space`]
//! which writers stop as the disk fills. Here these values are shared by all shards, the writer thread and the
//! housekeeper.

use crate::flushes::Flushes;
use crate::pauses::Pauses;
use base::id::ShardId;
use journal::{Counters, Disk, DiskError, FileName, Journal, Place, Sealed, Spare, SpareMaker, WriteError};
use node::commit::{self, ALONE_NS, Line, Moment, Written};
use node::space::{Signs, Space};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Milliseconds between two attempts while there is no space.
const RETRY_MS: u64 = 200;

/// The outcome of handing in batches.
#[derive(Debug, PartialEq, Eq)]
pub enum Handed {
    /// They are on disk: see the list given.
    Written,
    /// Those not in the list given will be reported later, so many.
    Queued(usize),
    /// The device failed; the node must stop.
    Failed(String),
}

/// Tells shards what was written for them, and the node that it must stop.
pub trait Report: Send + Sync {
    /// Batches of this shard are on disk, in order.
    fn written(&self, shard: ShardId, written: Vec<Written>);
    /// The device failed.
    fn failed(&self, why: String);
}

/// The journal, and how much space there is for it.
struct Books {
    journal: Journal,
    space: Space,
}

/// The state of [`Space`], for threads that do not wait for the journal. Changed while that is locked.
#[derive(Default)]
struct Shown {
    is_out: AtomicBool,
    is_short: AtomicBool,
    is_nearly_full: AtomicBool,
    shortages: AtomicU64,
}

/// See the module. Shared by all shards and the writer thread.
pub struct Committer {
    disk: Arc<dyn Disk>,
    /// Fair: the writer, which takes it again at once after a flush, would keep the housekeeper from it.
    books: parking_lot::Mutex<Books>,
    shown: Shown,
    queue: Mutex<Queue>,
    has_queued: Condvar,
    /// The writer thread has ended a round.
    has_written: Condvar,
    /// A file was left for the next: time to keep house.
    rolls: AtomicU64,
    has_rolled: Mutex<()>,
    roll_signal: Condvar,
    /// The housekeeper was called since it looked last.
    is_called: AtomicBool,
    /// Nanoseconds a flush takes, smoothed.
    flush_ns: AtomicU64,
    flushes: Flushes,
    flush_inline_max_ns: u64,
    last_shard: AtomicU64,
    last_change_ns: AtomicU64,
    started: Instant,
    look: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct Queue {
    line: Line,
    is_writing: bool,
    is_stopping: bool,
    /// Times the writer thread took all there was and wrote it, or tried to.
    rounds: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Committer {
    /// One over `journal`; a flush that takes longer than `flush_inline_max_ns` is not done inside a turn.
    pub fn new(disk: Arc<dyn Disk>, journal: Journal, flush_inline_max_ns: u64) -> Committer {
        Committer {
            disk,
            books: parking_lot::Mutex::new(Books { journal, space: Space::default() }),
            shown: Shown::default(),
            queue: Mutex::default(),
            has_queued: Condvar::new(),
            has_written: Condvar::new(),
            rolls: AtomicU64::new(0),
            has_rolled: Mutex::new(()),
            roll_signal: Condvar::new(),
            is_called: AtomicBool::new(false),
            flush_ns: AtomicU64::new(0),
            flushes: Flushes::default(),
            flush_inline_max_ns,
            last_shard: AtomicU64::new(u64::MAX),
            last_change_ns: AtomicU64::new(0),
            started: Instant::now(),
            look: OnceLock::new(),
        }
    }

    /// Commits `batches`, which are left empty, for `shard`, of whose earlier ones `outstanding` are not reported yet.
    /// `written` is given those that were written at once.
    pub fn commit(
        &self,
        shard: ShardId,
        outstanding: usize,
        batches: &mut Vec<Sealed>,
        places: &mut Vec<Place>,
        written: &mut Vec<Written>,
    ) -> Handed {
        let moment = Moment {
            outstanding,
            is_alone: self.note_shard(shard),
            is_quick: self.flush_ns.load(Ordering::Relaxed) < self.flush_inline_max_ns,
            is_out_of_space: self.is_out_of_space(),
        };
        if moment.writes_at_once() {
            // Somebody in there means not alone after all.
            if let Some(mut books) = self.books.try_lock() {
                let result = commit::write_at_once(batches, places, written, |batches, places| {
                    self.write(&mut books, batches, places)
                });
                match result {
                    Ok(()) => return Handed::Written,
                    Err(WriteError::NoSpace) => self.set_out_of_space(&mut books, true),
                    Err(error) => return Handed::Failed(error.to_string()),
                }
            }
        }
        let count = batches.len();
        let mut queue = lock(&self.queue);
        queue.line.push(shard, batches);
        let is_waiting = !queue.is_writing;
        drop(queue);
        if is_waiting {
            self.has_queued.notify_one();
        }
        Handed::Queued(count)
    }

    /// Remembers the shard that commits; whether it is the only one to have done so lately.
    fn note_shard(&self, shard: ShardId) -> bool {
        let shard = u64::from(shard.0);
        let last = self.last_shard.load(Ordering::Relaxed);
        if last != shard {
            self.last_shard.store(shard, Ordering::Relaxed);
            if last != u64::MAX {
                self.last_change_ns.store(self.now_ns(), Ordering::Relaxed);
                return false;
            }
        }
        let changed = self.last_change_ns.load(Ordering::Relaxed);
        changed == 0 || self.now_ns() - changed > ALONE_NS
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn write(
        &self,
        books: &mut Books,
        batches: &[Sealed],
        places: &mut Vec<Place>,
    ) -> Result<(), WriteError> {
        let Books { journal, space } = books;
        let started = Instant::now();
        let before_it = journal.counters();
        let result = journal.write(&*self.disk, batches, places);
        let took = started.elapsed().as_nanos() as u64;
        let before = self.flush_ns.load(Ordering::Relaxed);
        self.flush_ns.store(commit::smoothed_ns(before, took), Ordering::Relaxed);
        let counters = journal.counters();
        if counters.groups != before_it.groups {
            self.flushes.add(took, counters.record_bytes - before_it.record_bytes);
        }
        if counters.rolls != before_it.rolls {
            self.rolls.fetch_add(1, Ordering::Relaxed);
            self.roll_signal.notify_all();
        }
        let is_news = space.wrote(self.now_ns(), journal, &*self.disk);
        self.show(space, is_news);
        result
    }

    /// The writer thread: returns when it was told to stop and nothing is left, or when the device failed.
    pub fn run_writer(&self, to: &dyn Report) {
        let mut line = Line::default();
        let mut done = Vec::new();
        loop {
            let mut queue = lock(&self.queue);
            queue.is_writing = false;
            queue.rounds += 1;
            self.has_written.notify_all();
            while queue.line.is_empty() && line.is_empty() {
                if queue.is_stopping {
                    return;
                }
                queue = self.has_queued.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.is_writing = true;
            line.append(&mut queue.line);
            let is_stopping = queue.is_stopping;
            drop(queue);
            let result = line.write(&mut done, |batches, places| {
                let mut books = self.books.lock();
                let result = self.write(&mut books, batches, places);
                match result {
                    Ok(()) => self.set_out_of_space(&mut books, false),
                    Err(WriteError::NoSpace) => self.set_out_of_space(&mut books, true),
                    Err(_) => {}
                }
                result
            });
            done.drain(..).for_each(|(shard, written)| to.written(shard, written));
            match result {
                Ok(()) => {}
                Err(WriteError::NoSpace) => {
                    if is_stopping {
                        // The batches that are left were never confirmed.
                        return;
                    }
                    self.wait_for_space();
                }
                Err(error) => return to.failed(error.to_string()),
            }
        }
    }

    /// Waits until all is written that was handed in before. False: there is no space for it, or it takes too long.
    pub fn wait_written(&self, patience: Duration) -> bool {
        let mut queue = lock(&self.queue);
        // The round that goes on may have begun before the last was handed in; the one behind it has all of it.
        let (last, until) = (queue.rounds + 2, Instant::now() + patience);
        loop {
            if self.is_out_of_space() {
                return false;
            }
            if (queue.line.is_empty() && !queue.is_writing) || queue.rounds >= last {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let woken = self.has_written.wait_timeout(queue, left);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn wait_for_space(&self) {
        let queue = lock(&self.queue);
        if !queue.is_stopping {
            let pause = Duration::from_millis(RETRY_MS);
            drop(self.has_queued.wait_timeout(queue, pause));
        }
    }

    /// Ends the writer thread once it has written what was handed in.
    pub fn stop(&self) {
        lock(&self.queue).is_stopping = true;
        self.has_queued.notify_all();
        self.roll_signal.notify_all();
    }

    fn is_stopping(&self) -> bool {
        lock(&self.queue).is_stopping
    }

    /// No batch waits to be written.
    fn is_quiet(&self) -> bool {
        let queue = lock(&self.queue);
        queue.line.is_empty() && !queue.is_writing
    }

    // ---- space

    fn set_out_of_space(&self, books: &mut Books, is_out: bool) {
        let is_news = books.space.set_out(is_out);
        self.show(&books.space, is_news);
    }

    /// Shows the state of `space`, and calls the watching thread where that is news.
    fn show(&self, space: &Space, is_news: bool) {
        self.shown.is_out.store(space.is_out(), Ordering::Relaxed);
        self.shown.is_short.store(space.is_short(), Ordering::Relaxed);
        self.shown.is_nearly_full.store(space.signs().is_nearly_full, Ordering::Relaxed);
        self.shown.shortages.store(space.shortages(), Ordering::Relaxed);
        if is_news {
            self.look();
        }
    }

    /// How much space there is.
    pub fn signs(&self) -> Signs {
        Signs {
            lacks_space: self.lacks_space(),
            is_nearly_full: self.shown.is_nearly_full.load(Ordering::Relaxed),
        }
    }

    /// The last write found no space: publishers must wait.
    pub fn is_out_of_space(&self) -> bool {
        self.shown.is_out.load(Ordering::Relaxed)
    }

    /// As in [`Signs`].
    pub fn lacks_space(&self) -> bool {
        self.is_out_of_space() || self.shown.is_short.load(Ordering::Relaxed)
    }

    /// As [`Space::shortages`].
    pub fn shortages(&self) -> u64 {
        self.shown.shortages.load(Ordering::Relaxed)
    }

    /// Calls `work` with the journal, which is locked meanwhile: for what is quick and does not flush.
    pub fn with_journal<T>(&self, work: impl FnOnce(&mut Journal) -> T) -> T {
        work(&mut self.books.lock().journal)
    }

    /// The disk the journal is on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The journal's counters.
    pub fn counters(&self) -> Counters {
        self.with_journal(|journal| journal.counters())
    }

    /// How long commits took, and how large they were.
    pub fn flushes(&self) -> &Flushes {
        &self.flushes
    }

    /// Nanoseconds a flush takes, smoothed; 0: none yet.
    pub fn flush_ns(&self) -> u64 {
        self.flush_ns.load(Ordering::Relaxed)
    }

    /// Writes the group after which rot is told from a torn write. For a node that stops.
    ///
    /// # Errors
    /// The device's error.
    pub fn seal_end(&self) -> Result<(), String> {
        let mut places = Vec::new();
        let result = self.with_journal(|journal| journal.write(&*self.disk, &[], &mut places));
        result.map_err(|error| error.to_string())
    }

    // ---- housekeeping

    /// The housekeeping thread: removes files nobody needs and prepares files ahead, at once and after every roll, and
    /// calls `after` each time, which tells whether it found all the space it needed; while something does not, it tries
    /// again each `interval`. Returns when the committer stops.
    pub fn run_housekeeping(&self, interval: Duration, mut after: impl FnMut() -> bool) {
        let mut seen = u64::MAX;
        while !self.is_stopping() {
            let rolls = self.rolls.load(Ordering::Relaxed);
            let was_short = self.shown.is_short.load(Ordering::Relaxed);
            let has_rolled = rolls != seen;
            if has_rolled || was_short {
                seen = rolls;
                self.prepare();
            }
            self.is_called.store(false, Ordering::SeqCst);
            let had_space = after();
            self.use_released();
            self.judge(had_space, has_rolled);
            let guard = lock(&self.has_rolled);
            let is_called = self.is_called.load(Ordering::SeqCst);
            if self.rolls.load(Ordering::Relaxed) == seen && !is_called && !self.is_stopping() {
                drop(self.roll_signal.wait_timeout(guard, interval));
            }
        }
    }

    /// Has the housekeeper look at once: there is something for it that no roll tells of.
    pub fn call_house(&self) {
        self.is_called.store(true, Ordering::SeqCst);
        let guard = lock(&self.has_rolled);
        drop(guard);
        self.roll_signal.notify_all();
    }

    fn judge(&self, had_space: bool, has_rolled: bool) {
        let mut books = self.books.lock();
        let Books { journal, space } = &mut *books;
        let is_news = space.judge(self.now_ns(), journal, &*self.disk, had_space);
        self.show(space, is_news || has_rolled);
    }

    fn use_released(&self) {
        if self.lacks_space() {
            let mut books = self.books.lock();
            if books.space.wants_group(&books.journal) {
                // A device that failed fails the next commit; and one without space has none.
                let _ = self.write(&mut books, &[], &mut Vec::new());
            }
        }
    }

    fn prepare(&self) {
        for file in self.with_journal(|journal| journal.take_unneeded()) {
            // A file that could not be removed is found again by the next start.
            let _ = self.disk.remove(file);
        }
        while let Some(maker) = self.wanted_spare() {
            match self.make(maker) {
                Ok(spare) => self.with_journal(|journal| journal.add_spare(spare)),
                // Without a spare the next roll makes its file itself.
                Err(_) => return self.with_journal(|journal| journal.spare_failed()),
            }
            if self.is_stopping() {
                return;
            }
        }
    }

    fn wanted_spare(&self) -> Option<SpareMaker> {
        let mut books = self.books.lock();
        let Books { journal, space } = &mut *books;
        space.wanted_spare(journal, &*self.disk)
    }

    /// Makes a file step by step, with pauses in between: each step is on the device when it is over.
    fn make(&self, mut maker: SpareMaker) -> Result<Spare, DiskError> {
        let mut pauses = Pauses::begin();
        loop {
            if let Some(spare) = maker.step(&*self.disk)? {
                return Ok(spare);
            }
            if self.is_in_hurry() {
                pauses = Pauses::begin();
            } else {
                pauses.pause();
            }
        }
    }

    /// As [`Space::is_in_hurry`], or all that is left to be done is housekeeping.
    pub fn is_in_hurry(&self) -> bool {
        self.is_stopping() || {
            let books = self.books.lock();
            books.space.is_in_hurry(&books.journal)
        }
    }

    /// As [`Space::room_to_move`].
    ///
    /// # Errors
    /// The device's error.
    pub fn room_to_move(&self) -> Result<u64, DiskError> {
        let (books, is_quiet) = (self.books.lock(), self.is_quiet());
        books.space.room_to_move(self.now_ns(), &books.journal, &*self.disk, is_quiet)
    }

    /// Removes a file that was prepared: see [`Space::give_up_spare`]. False: none can be spared.
    pub fn give_up_spare(&self) -> bool {
        // One that cannot be removed is found and used again by the next start.
        self.take_spare().is_some_and(|name| self.disk.remove(name).is_ok())
    }

    fn take_spare(&self) -> Option<FileName> {
        let (mut books, is_quiet) = (self.books.lock(), self.is_quiet());
        let Books { journal, space } = &mut *books;
        let (spare, is_news) = space.give_up_spare(self.now_ns(), journal, &*self.disk, is_quiet)?;
        self.show(space, is_news);
        Some(spare)
    }

    /// Sets what is called when it is time to look how much space there is: after every roll, and when that changes which
    /// [`Committer::lacks_space`] tells. Before that, nobody is told.
    pub fn call_to_look(&self, look: impl Fn() + Send + Sync + 'static) {
        // A second one is not needed: there is one node.
        let _ = self.look.set(Box::new(look));
    }

    fn look(&self) {
        if let Some(look) = self.look.get() {
            look();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiskOptions, RealDisk};
    use base::id::{LogId, LogIndex};
    use base::{Buffer, Now, Secrets};
    use broker::access::AccessRules;
    use journal::{Batch, FaultyDisk, FileId, Limits, faulty::Call};
    use node::space::STILL_NS;
    use node::start::{self, Logs, Makeup};
    use std::sync::mpsc::{Receiver, Sender, channel};

    const LIMITS: Limits =
        Limits { file_bytes: 1 << 20, first_file_bytes: 1 << 20, ..limits_of_the_journal() };

    const fn limits_of_the_journal() -> Limits {
        Limits {
            file_bytes: 0,
            first_file_bytes: 0,
            spare_files: 1,
            spare_files_max: 2,
            packed_bytes_max: 16 << 10,
            inline_bytes_max: 512 << 10,
            bulk_bytes_max: 256 << 20,
            prepare_bytes: 1 << 20,
            window_bytes: 1 << 20,
        }
    }

    type Reported = Result<(ShardId, Vec<Written>), String>;

    struct Channel(Mutex<Sender<Reported>>);

    impl Report for Channel {
        fn written(&self, shard: ShardId, written: Vec<Written>) {
            lock(&self.0).send(Ok((shard, written))).expect("heard");
        }

        fn failed(&self, why: String) {
            lock(&self.0).send(Err(why)).expect("heard");
        }
    }

    type Reports = Receiver<Reported>;

    /// The journal of a node that starts on an empty disk.
    fn open(disk: &dyn Disk) -> Journal {
        let logs = Logs { new: 4, least: None };
        let rules = Arc::new(AccessRules::default());
        let makeup = Makeup {
            name: "rabbit@test".into(),
            shards: 1,
            logs,
            journal: LIMITS,
            rules,
            relaxes_types: false,
            ledger: Arc::default(),
        };
        let mut secrets = Secrets::simulated(7);
        let tell = &mut |found| panic!("{found}");
        let identity = start::identity(disk, &mut secrets, logs, tell).expect("opens");
        let shards = start::shards(&makeup, &identity, |_| broker::Limits::default(), &mut secrets, |_| 7);
        let now = || Now { mono_ns: 1, wall_ms: 1 };
        let node =
            start::recover(disk, &identity, LIMITS, &start::ALONE, shards, &now, tell).expect("starts");
        node.journal
    }

    fn committer(disk: &FaultyDisk, flush_inline_max_ns: u64) -> (Committer, Channel, Reports) {
        let journal = open(disk);
        let (sender, receiver) = channel();
        let committer = Committer::new(Arc::new(disk.clone()), journal, flush_inline_max_ns);
        (committer, Channel(Mutex::new(sender)), receiver)
    }

    fn batch(log: u32, base: u64, len: usize) -> Sealed {
        let mut batch = Batch::new(LogId(log), LogIndex(base), Buffer::default());
        batch.records().extend(&vec![log as u8; len]);
        batch.seal(0)
    }

    fn commit(committer: &Committer, shard: u16, outstanding: usize, batch: Sealed) -> (Handed, usize) {
        let mut written = Vec::new();
        let handed =
            committer.commit(ShardId(shard), outstanding, &mut vec![batch], &mut Vec::new(), &mut written);
        (handed, written.len())
    }

    #[test]
    fn who_is_alone_and_has_nothing_outstanding_flushes_at_once() {
        let (committer, _, _) = committer(&FaultyDisk::new(1), u64::MAX);
        assert_eq!(commit(&committer, 0, 0, batch(1, 0, 64)), (Handed::Written, 1));
        assert_eq!(commit(&committer, 0, 1, batch(1, 64, 64)), (Handed::Queued(1), 0));
        assert_eq!(commit(&committer, 1, 0, batch(2, 0, 64)), (Handed::Queued(1), 0));
    }

    #[test]
    fn slow_flushes_go_to_the_writer() {
        let (committer, _, _) = committer(&FaultyDisk::new(1), 0);
        assert_eq!(commit(&committer, 0, 0, batch(1, 0, 64)), (Handed::Queued(1), 0));
    }

    #[test]
    fn the_writer_reports_to_each_shard_in_order_and_all_is_there_afterwards() {
        let disk = FaultyDisk::new(3);
        let (committer, channel, reports) = committer(&disk, 0);
        std::thread::scope(|threads| {
            threads.spawn(|| committer.run_writer(&channel));
            for base in 0..500u64 {
                commit(&committer, 0, 1, batch(1, base * 64, 64));
                commit(&committer, 1, 1, batch(2, base * 64, 64));
            }
            committer.stop();
        });
        drop(channel);
        let (mut seen, mut places) = ([Vec::new(), Vec::new()], Vec::new());
        for report in reports {
            let (shard, written) = report.expect("no failure");
            seen[shard.0 as usize].extend(written.iter().map(|written| written.base.0));
            places.extend(written.iter().map(|written| written.place));
        }
        let expected: Vec<u64> = (0..500).map(|base| base * 64).collect();
        assert_eq!(seen, [expected.clone(), expected]);
        disk.crash();
        assert!(places.iter().all(|place| place.read(&disk).expect("reads").is_some()));
    }

    #[test]
    fn who_waits_for_what_was_handed_in_hears_when_it_is_written_or_that_there_is_no_space() {
        let disk = FaultyDisk::new(5);
        let (committer, channel, _reports) = committer(&disk, 0);
        let long = Duration::from_secs(20);
        let is_over = AtomicBool::new(false);
        assert!(committer.wait_written(long), "nothing was handed in");
        commit(&committer, 0, 1, batch(1, 0, 64));
        assert!(!committer.wait_written(Duration::from_millis(1)), "nobody writes");
        std::thread::scope(|threads| {
            threads.spawn(|| committer.run_writer(&channel));
            assert!(committer.wait_written(long));
            assert_eq!(committer.counters().groups, 1);
            // However much comes behind it.
            threads.spawn(|| {
                for base in 1.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    commit(&committer, 1, 1, batch(2, base * 64, 64));
                    std::thread::yield_now();
                }
            });
            for base in 1..50 {
                commit(&committer, 0, 1, batch(1, base * 64, 64));
                assert!(committer.wait_written(long));
            }
            is_over.store(true, Ordering::Relaxed);
            assert!(committer.wait_written(long));
            disk.set_capacity(disk.used_bytes());
            while !committer.is_out_of_space() {
                commit(&committer, 0, 1, batch(3, 0, 600_000));
                std::thread::yield_now();
            }
            assert!(!committer.wait_written(long));
            committer.stop();
        });
    }

    /// The writer has always something to write; the housekeeper gets at the journal all the same.
    #[test]
    fn the_journal_is_had_after_a_flush_or_two_however_much_is_written() {
        let folder = std::env::temp_dir().join(format!("leveret-committer-{}", std::process::id()));
        let options = DiskOptions { sync_delay_ns: 2_000_000, ..DiskOptions::default() };
        let disk = Arc::new(RealDisk::open(&folder, options).expect("opens"));
        let committer = Committer::new(disk.clone(), open(&*disk), 0);
        let (sender, _receiver) = channel();
        let channel = Channel(Mutex::new(sender));
        let is_over = AtomicBool::new(false);
        let waits = std::thread::scope(|threads| {
            let (committer, is_over) = (&committer, &is_over);
            threads.spawn(|| committer.run_writer(&channel));
            threads.spawn(move || {
                for base in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    commit(committer, 0, 1, batch(1, base * 64, 64));
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
            let waits = (0..100).map(|_| {
                let flushes = || committer.flushes().times().iter().sum::<u64>();
                let before = flushes();
                let waited = committer.with_journal(|_| flushes()) - before;
                std::thread::sleep(Duration::from_millis(1));
                waited
            });
            let mut waits: Vec<u64> = waits.collect();
            is_over.store(true, Ordering::Relaxed);
            committer.stop();
            waits.sort_unstable();
            waits
        });
        std::fs::remove_dir_all(&folder).expect("removed");
        // Some are longer where the thread that asks has no core for a while.
        let usual = waits[waits.len() / 2];
        assert!(usual <= 1, "waited for so many flushes: {waits:?}");
    }

    #[test]
    fn a_failed_flush_is_told_and_nothing_is_written_after_it() {
        let disk = FaultyDisk::new(4);
        let (committer, channel, reports) = committer(&disk, 0);
        disk.fail(Call::Sync, 1, DiskError::Io(5));
        commit(&committer, 0, 1, batch(1, 0, 64));
        committer.run_writer(&channel);
        assert!(reports.recv().expect("a report").is_err());
        let disk = FaultyDisk::new(6);
        let (committer, ..) = self::committer(&disk, u64::MAX);
        disk.fail(Call::Sync, 1, DiskError::Io(5));
        assert!(matches!(commit(&committer, 0, 0, batch(1, 0, 64)).0, Handed::Failed(_)));
    }

    #[test]
    fn without_space_batches_wait_and_are_written_later() {
        let disk = FaultyDisk::new(8);
        let (committer, channel, reports) = committer(&disk, u64::MAX);
        disk.set_capacity(disk.used_bytes());
        // More than the first file takes: a second one is needed.
        for base in 0..4u64 {
            commit(&committer, 0, usize::from(base > 0), batch(1, base * 400_000, 400_000));
        }
        std::thread::scope(|threads| {
            threads.spawn(|| committer.run_writer(&channel));
            let started = Instant::now();
            while !committer.is_out_of_space() {
                assert!(started.elapsed() < Duration::from_secs(20), "the disk is full");
                std::thread::yield_now();
            }
            disk.set_capacity(1 << 30);
            let mut bases = Vec::new();
            while bases.len() < 3 {
                let (_, written) = reports.recv().expect("a report").expect("no failure");
                bases.extend(written.iter().map(|written| written.base.0 / 400_000));
            }
            assert_eq!(bases, [1, 2, 3]);
            committer.stop();
        });
        assert!(!committer.is_out_of_space());
    }

    #[test]
    fn files_are_prepared_before_they_are_needed() {
        let disk = FaultyDisk::new(9);
        let (committer, ..) = committer(&disk, u64::MAX);
        let mut rounds = 0;
        let looks = Arc::new(AtomicU64::new(0));
        let counter = looks.clone();
        committer.call_to_look(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let after = || {
                    rounds += 1;
                    true
                };
                committer.run_housekeeping(Duration::from_millis(1), after);
            });
            for base in 0..20u64 {
                commit(&committer, 0, 0, batch(1, base * 100_000, 100_000));
                std::thread::sleep(Duration::from_millis(2));
            }
            committer.stop();
        });
        let counters = committer.counters();
        assert!(rounds > 0 && counters.rolls > 0, "{counters:?}");
        let looks = looks.load(Ordering::Relaxed);
        assert!(looks > 0 && looks <= counters.rolls + 1, "{looks} of {counters:?}");
        assert_eq!(counters.unprepared_rolls, 0, "{counters:?}");
    }

    #[test]
    fn a_file_that_is_the_next_and_needed_soon_is_made_in_a_hurry() {
        let disk = FaultyDisk::new(12);
        let (committer, ..) = committer(&disk, u64::MAX);
        let is_in_hurry = || committer.is_in_hurry();
        commit(&committer, 0, 0, batch(1, 0, 400_000));
        assert!(!is_in_hurry(), "more than half of the file is left");
        commit(&committer, 0, 0, batch(1, 400_000, 400_000));
        assert!(is_in_hurry());
        committer.prepare();
        assert!(!is_in_hurry(), "there is one in reserve");
    }

    #[test]
    fn who_finds_no_space_for_what_lies_ahead_is_asked_again_and_publishers_wait() {
        let disk = FaultyDisk::new(10);
        let (committer, ..) = committer(&disk, u64::MAX);
        let (answers, asked) = std::sync::mpsc::channel();
        let (looked, looks) = std::sync::mpsc::channel();
        committer.call_to_look(move || looked.send(()).unwrap_or_default());
        std::thread::scope(|threads| {
            let committer = &committer;
            let house = move || {
                let after = || asked.recv().unwrap_or(true);
                committer.run_housekeeping(Duration::from_millis(1), after);
            };
            threads.spawn(house);
            for (had_space, expected) in
                [(true, Some(false)), (true, None), (false, Some(true)), (false, None), (true, Some(false))]
            {
                answers.send(had_space).expect("the house asks");
                if let Some(expected) = expected {
                    looks.recv_timeout(Duration::from_secs(20)).expect("told to look");
                    assert_eq!(committer.lacks_space(), expected);
                }
            }
            committer.stop();
            drop(answers);
        });
        assert!(looks.try_recv().is_err(), "told to look without a change");
    }

    /// One with a spare file, on a device that has no room for a third file.
    fn nearly_full(seed: u64) -> (FaultyDisk, Committer) {
        let disk = FaultyDisk::new(seed);
        let (committer, ..) = committer(&disk, u64::MAX);
        commit(&committer, 0, 0, batch(1, 0, 64));
        committer.prepare();
        let spares = committer.with_journal(|journal| journal.spares());
        assert_eq!(spares, 1);
        disk.set_capacity(disk.used_bytes() + LIMITS.file_bytes);
        (disk, committer)
    }

    #[test]
    fn publishers_hear_at_once_that_the_last_file_was_begun() {
        let (disk, committer) = nearly_full(11);
        for base in 1..=3u64 {
            assert!(!committer.lacks_space(), "there is another file");
            commit(&committer, 0, 0, batch(1, base * 400_000, 400_000));
        }
        assert!(committer.lacks_space());
        assert_eq!(committer.shortages(), 1);
        // A write begun while there was space tells nothing of the space there is now.
        disk.set_capacity(u64::MAX);
        commit(&committer, 0, 0, batch(1, 1_600_000, 64));
        assert!(committer.lacks_space(), "the housekeeper says when it is over");
    }

    #[test]
    fn the_last_quarter_of_the_last_file_is_for_what_makes_room() {
        let (disk, committer) = nearly_full(16);
        let mut base = 64;
        let mut check = |len: usize, expected: bool| {
            commit(&committer, 0, 0, batch(1, base, len));
            base += len as u64;
            assert_eq!(committer.signs().is_nearly_full, expected, "{len} more");
        };
        check(500_000, false);
        // There is another file yet.
        check(400_000, false);
        check(400_000, false);
        check(300_000, false);
        check(100_000, true);
        disk.set_capacity(u64::MAX);
        std::thread::scope(|threads| {
            let committer = &committer;
            threads.spawn(move || committer.run_housekeeping(Duration::from_millis(1), || true));
            let started = Instant::now();
            while committer.signs().is_nearly_full {
                assert!(started.elapsed() < Duration::from_secs(20), "there is room again");
                std::thread::yield_now();
            }
            committer.stop();
        });
    }

    #[test]
    fn what_is_under_way_keeps_its_room() {
        let file = LIMITS.file_bytes;
        let (disk, committer) = nearly_full(12);
        let reserve = committer.with_journal(|journal| journal.limits().reserve_bytes());
        // With a spare file everything but the reserve may be moved to.
        assert_eq!(committer.room_to_move(), Ok(file - reserve));
        commit(&committer, 0, 0, batch(1, 400_000, 400_000));
        assert!(!committer.give_up_spare(), "less than three quarters of the current file are left");
        assert!(!committer.lacks_space());
        commit(&committer, 0, 0, batch(1, 800_000, 400_000));
        commit(&committer, 0, 0, batch(1, 1_200_000, 400_000));
        assert!(committer.lacks_space(), "the spare file is the current one");
        disk.set_capacity(disk.used_bytes() + 2 * file);
        // A file is kept for publishers, until they have stood still for a while.
        assert_eq!(committer.room_to_move(), Ok(file - reserve));
        std::thread::sleep(Duration::from_nanos(STILL_NS));
        assert_eq!(committer.room_to_move(), Ok(2 * file - reserve));
    }

    #[test]
    fn a_spare_file_that_is_given_up_makes_the_current_one_the_last() {
        let (disk, committer) = nearly_full(13);
        disk.set_capacity(disk.used_bytes());
        let spares = || committer.with_journal(|journal| journal.spares());
        assert!(committer.give_up_spare());
        assert_eq!((spares(), committer.lacks_space()), (0, true));
        assert!(!committer.give_up_spare(), "there is none");
    }

    #[test]
    fn what_is_released_is_used_though_nobody_writes() {
        let (_disk, committer) = nearly_full(14);
        for base in 1..=3u64 {
            commit(&committer, 0, 0, batch(1, base * 400_000, 400_000));
        }
        assert!(committer.lacks_space());
        std::thread::scope(|threads| {
            let committer = &committer;
            let after = || {
                let current = committer.with_journal(|journal| journal.end().0);
                committer.with_journal(|journal| journal.release(FileId(current.0 - 1)));
                true
            };
            threads.spawn(move || committer.run_housekeeping(Duration::from_millis(1), after));
            let started = Instant::now();
            while committer.lacks_space() {
                assert!(
                    started.elapsed() < Duration::from_secs(20),
                    "the file that was released is not used"
                );
                std::thread::yield_now();
            }
            committer.stop();
        });
    }
}
