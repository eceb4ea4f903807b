//! Where shards hand in batches to be committed, and when who flushes.
//!
//! While one shard alone commits and flushes are quick, it flushes inside its own turn: no hand-over, no wake-up.
//! Otherwise a writer thread takes all that has gathered while the last flush ran, so a slow disk makes larger groups.
//! Invariant: a shard's batches are written in the order it handed them in; one with batches at the writer hands later
//! ones there too.

use crate::flushes::Flushes;
use crate::pauses::Pauses;
use base::id::{LogId, LogIndex, ShardId};
use journal::{Counters, Disk, DiskError, Journal, Place, Sealed, Spare, SpareMaker, WriteError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Nanoseconds without another shard's commit after which a shard counts as alone.
const ALONE_NS: u64 = 2_000_000;

/// Milliseconds between two attempts while there is no space.
const RETRY_MS: u64 = 200;

/// Nanoseconds after which publishers that had to stop have stopped: every shard has had a turn, and handed in what it had.
const STILL_NS: u64 = 500_000_000;

/// Full journal files from which on whoever moves what lives in them does so as fast as it can.
const FULL_FILES_MANY: usize = 8;

/// A batch that is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its log.
    pub log: LogId,
    /// Its first record's index.
    pub base: LogIndex,
    /// Where it lies.
    pub place: Place,
}

/// What became of batches handed in.
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

/// See the module. Shared by all shards and the writer thread.
pub struct Committer {
    disk: Arc<dyn Disk>,
    journal: Mutex<Journal>,
    queue: Mutex<Queue>,
    has_queued: Condvar,
    /// The writer thread has ended a round.
    has_written: Condvar,
    /// A file was left for the next: time to keep house.
    rolls: AtomicU64,
    has_rolled: Mutex<()>,
    roll_signal: Condvar,
    is_out_of_space: AtomicBool,
    /// There is no space for what lies ahead: the next file, or what must be moved before files can be used again.
    /// Changed while the journal is locked, so that it always tells of the journal as it is.
    is_short: AtomicBool,
    /// Little of the last file is left. Changed as `is_short` is.
    is_nearly_full: AtomicBool,
    /// When it was last found to be short, nanoseconds since `started`.
    short_at_ns: AtomicU64,
    /// How often it came to lack space.
    shortages: AtomicU64,
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
    jobs: Vec<(ShardId, Vec<Sealed>)>,
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
            journal: Mutex::new(journal),
            queue: Mutex::default(),
            has_queued: Condvar::new(),
            has_written: Condvar::new(),
            rolls: AtomicU64::new(0),
            has_rolled: Mutex::new(()),
            roll_signal: Condvar::new(),
            is_out_of_space: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            is_nearly_full: AtomicBool::new(false),
            short_at_ns: AtomicU64::new(0),
            shortages: AtomicU64::new(0),
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
    /// `written` is cleared and then given those that were written at once.
    pub fn commit(
        &self,
        shard: ShardId,
        outstanding: usize,
        batches: &mut Vec<Sealed>,
        places: &mut Vec<Place>,
        written: &mut Vec<Written>,
    ) -> Handed {
        written.clear();
        let is_alone = self.note_shard(shard);
        let is_quick = self.flush_ns.load(Ordering::Relaxed) < self.flush_inline_max_ns;
        if is_alone && is_quick && outstanding == 0 && !self.is_out_of_space() {
            // Somebody in there means not alone after all.
            if let Ok(mut journal) = self.journal.try_lock() {
                let result = self.write(&mut journal, batches, places);
                drop(journal);
                written.extend(batches.iter().zip(places.iter()).map(report));
                // The memory must be the shard's alone again before it hears of it, or it cannot be reused.
                batches.drain(..places.len());
                match result {
                    Ok(()) => return Handed::Written,
                    Err(WriteError::NoSpace) => self.set_out_of_space(true),
                    Err(error) => return Handed::Failed(error.to_string()),
                }
            }
        }
        let count = batches.len();
        let mut queue = lock(&self.queue);
        queue.jobs.push((shard, std::mem::take(batches)));
        let is_waiting = !queue.is_writing;
        drop(queue);
        if is_waiting {
            self.has_queued.notify_one();
        }
        Handed::Queued(count)
    }

    /// Remembers who commits; whether nobody else did lately.
    fn note_shard(&self, shard: ShardId) -> bool {
        let shard = u64::from(shard.0);
        let last = self.last_shard.load(Ordering::Relaxed);
        if last != shard {
            self.last_shard.store(shard, Ordering::Relaxed);
            if last != u64::MAX {
                let now = self.started.elapsed().as_nanos() as u64;
                self.last_change_ns.store(now, Ordering::Relaxed);
                return false;
            }
        }
        let changed = self.last_change_ns.load(Ordering::Relaxed);
        changed == 0 || self.started.elapsed().as_nanos() as u64 - changed > ALONE_NS
    }

    fn write(
        &self,
        journal: &mut Journal,
        batches: &[Sealed],
        places: &mut Vec<Place>,
    ) -> Result<(), WriteError> {
        let started = Instant::now();
        let before_it = journal.counters();
        let result = journal.write(&*self.disk, batches, places);
        let took = started.elapsed().as_nanos() as u64;
        // Eight flushes back count for a third; one stall alone does not change the way.
        let before = self.flush_ns.load(Ordering::Relaxed);
        let smoothed = if before == 0 { took } else { before - before / 8 + took.min(before * 4) / 8 };
        self.flush_ns.store(smoothed.max(1), Ordering::Relaxed);
        let counters = journal.counters();
        if counters.groups != before_it.groups {
            self.flushes.add(took, counters.record_bytes - before_it.record_bytes);
        }
        if counters.rolls != before_it.rolls {
            self.rolls.fetch_add(1, Ordering::Relaxed);
            self.roll_signal.notify_all();
        }
        // What is on its way needs the room of the file just begun: publishers must hear now that it is the last.
        self.note_last_file(journal);
        self.note_room(journal);
        result
    }

    /// The writer thread: returns when it was told to stop and nothing is left, or when the device failed.
    pub fn run_writer(&self, to: &dyn Report) {
        let mut jobs: Vec<(ShardId, Vec<Sealed>)> = Vec::new();
        let mut places = Vec::new();
        let mut owners: Vec<(ShardId, usize)> = Vec::new();
        let mut batches: Vec<Sealed> = Vec::new();
        loop {
            let mut queue = lock(&self.queue);
            queue.is_writing = false;
            queue.rounds += 1;
            self.has_written.notify_all();
            while queue.jobs.is_empty() && batches.is_empty() {
                if queue.is_stopping {
                    return;
                }
                queue = self.has_queued.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.is_writing = true;
            std::mem::swap(&mut queue.jobs, &mut jobs);
            let is_stopping = queue.is_stopping;
            drop(queue);
            for (shard, mut more) in jobs.drain(..) {
                owners.push((shard, more.len()));
                batches.append(&mut more);
            }
            let result = self.write(&mut lock(&self.journal), &batches, &mut places);
            self.hand_back(to, &mut owners, &mut batches, &places);
            match result {
                Ok(()) => self.set_out_of_space(false),
                Err(WriteError::NoSpace) => {
                    self.set_out_of_space(true);
                    if is_stopping {
                        // What is left was never confirmed.
                        return;
                    }
                    self.wait_for_space();
                }
                Err(error) => return to.failed(error.to_string()),
            }
        }
    }

    /// Reports the batches that have places, in order; the others stay.
    fn hand_back(
        &self,
        to: &dyn Report,
        owners: &mut Vec<(ShardId, usize)>,
        batches: &mut Vec<Sealed>,
        places: &[Place],
    ) {
        let mut done: Vec<(ShardId, Vec<Written>)> = Vec::new();
        let mut reports = batches.iter().zip(places).map(report);
        let mut left = places.len();
        for (shard, count) in owners.iter_mut() {
            let of_shard = (*count).min(left);
            *count -= of_shard;
            left -= of_shard;
            if of_shard > 0 {
                let written = reports.by_ref().take(of_shard);
                match done.iter_mut().find(|(other, _)| other == shard) {
                    Some((_, all)) => all.extend(written),
                    None => done.push((*shard, written.collect())),
                }
            }
        }
        drop(reports);
        owners.retain(|(_, count)| *count > 0);
        // The memory must be the shards' alone again before they hear of it, or it cannot be reused.
        batches.drain(..places.len());
        done.into_iter().for_each(|(shard, written)| to.written(shard, written));
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
            if (queue.jobs.is_empty() && !queue.is_writing) || queue.rounds >= last {
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

    fn set_out_of_space(&self, is_out: bool) {
        if self.is_out_of_space.swap(is_out, Ordering::Relaxed) != is_out {
            self.shortages.fetch_add(u64::from(is_out), Ordering::Relaxed);
            self.look();
        }
    }

    /// Says so where the file that is written to is the last there may be.
    fn note_last_file(&self, journal: &Journal) {
        if !self.is_short.load(Ordering::Relaxed) && self.is_last_file(journal) {
            self.set_short(true);
        }
    }

    /// Only while the journal is locked.
    fn set_short(&self, is_short: bool) {
        if is_short {
            self.short_at_ns.store(self.started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        if self.is_short.swap(is_short, Ordering::Relaxed) != is_short {
            self.shortages.fetch_add(u64::from(is_short), Ordering::Relaxed);
            self.look();
        }
    }

    /// Only while the journal is locked: says so where little is left of the file that is written to, and it is the last.
    fn note_room(&self, journal: &Journal) {
        let is_short = self.is_short.load(Ordering::Relaxed);
        if is_short || self.is_nearly_full.load(Ordering::Relaxed) {
            let is_nearly_full = is_short && journal.spares() == 0 && journal.room() < room_kept(journal);
            self.is_nearly_full.store(is_nearly_full, Ordering::Relaxed);
        }
    }

    /// The last write found no space, or what is left of the last file is for what makes room: nothing that is kept is to be
    /// newly made.
    pub fn is_nearly_full(&self) -> bool {
        self.is_out_of_space() || self.is_nearly_full.load(Ordering::Relaxed)
    }

    /// The last write found no space: publishers must wait.
    pub fn is_out_of_space(&self) -> bool {
        self.is_out_of_space.load(Ordering::Relaxed)
    }

    /// The last write found no space, or what lies ahead will not find any: publishers must wait, so that there is room to
    /// settle messages, which is what makes room.
    pub fn lacks_space(&self) -> bool {
        self.is_out_of_space() || self.is_short.load(Ordering::Relaxed)
    }

    /// How often it came to lack space. Shards see for themselves when space is lacking, long before they are told; who
    /// tells them that it is over must not miss a shortage that came and went in between.
    pub fn shortages(&self) -> u64 {
        self.shortages.load(Ordering::Relaxed)
    }

    /// Calls `work` with the journal, which is locked meanwhile: for what is quick and does not flush.
    pub fn with_journal<T>(&self, work: impl FnOnce(&mut Journal) -> T) -> T {
        work(&mut lock(&self.journal))
    }

    /// The disk the journal is on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// What the journal has done.
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
    /// What the device said.
    pub fn seal_end(&self) -> Result<(), String> {
        let mut places = Vec::new();
        let result = lock(&self.journal).write(&*self.disk, &[], &mut places);
        result.map_err(|error| error.to_string())
    }

    /// The housekeeping thread: removes files nobody needs and prepares files ahead, at once and after every roll, and
    /// calls `after` each time, which tells whether it found all the space it needed; while something does not, it tries
    /// again each `interval`. Returns when the committer stops.
    pub fn run_housekeeping(&self, interval: Duration, mut after: impl FnMut() -> bool) {
        let mut seen = u64::MAX;
        while !self.is_stopping() {
            let rolls = self.rolls.load(Ordering::Relaxed);
            let was_short = self.is_short.load(Ordering::Relaxed);
            let has_rolled = rolls != seen;
            if has_rolled || was_short {
                seen = rolls;
                self.prepare();
            }
            let has_space = after();
            self.use_released();
            self.with_journal(|journal| {
                let is_short = !has_space || self.is_last_file(journal);
                if is_short != self.is_short.load(Ordering::Relaxed) {
                    self.set_short(is_short);
                } else if has_rolled {
                    self.look();
                }
                self.note_room(journal);
            });
            let guard = lock(&self.has_rolled);
            if self.rolls.load(Ordering::Relaxed) == seen && !self.is_stopping() {
                drop(self.roll_signal.wait_timeout(guard, interval));
            }
        }
    }

    /// Released files are used again when a group says on disk that nobody needs them: where space is lacking, publishers
    /// wait for that, and perhaps nobody else writes.
    fn use_released(&self) {
        if self.lacks_space() {
            let mut journal = lock(&self.journal);
            if journal.has_released() {
                // A device that failed fails whoever commits next; and one without space has none.
                let _ = self.write(&mut journal, &[], &mut Vec::new());
            }
        }
    }

    fn prepare(&self) {
        for file in self.with_journal(|journal| journal.take_unneeded()) {
            // What is not removed is found again by the next start.
            let _ = self.disk.remove(file);
        }
        while let Some(maker) = self.with_journal(|journal| {
            // The second one must leave room to move what is left in a file, without which none can be used again.
            let files = if journal.spares() == 0 { 1 } else { 2 };
            if self.has_room(journal, files) { journal.wanted_spare() } else { None }
        }) {
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

    /// Whoever keeps house must not spare those who wait for a flush: they outrun it, or it is all that is left to be done.
    pub fn is_in_hurry(&self) -> bool {
        self.is_stopping() || self.lacks_space() || self.with_journal(|journal| is_pressed(journal))
    }

    /// The device has room for so many more files, and for snapshots.
    fn has_room(&self, journal: &Journal, files: u64) -> bool {
        let wanted = files * journal.limits().file_bytes + journal.limits().reserve_bytes();
        // A device that does not tell is taken at its word when it is written to.
        self.disk.free_bytes().map_or(true, |free| free >= wanted)
    }

    /// There may be no file after this one.
    fn is_last_file(&self, journal: &Journal) -> bool {
        journal.spares() == 0 && !self.has_room(journal, 1)
    }

    /// Bytes of the device that may be taken to move live remains of journal files. The last of the space is for
    /// snapshots; and while publishers run, what they have under way must find a file.
    ///
    /// # Errors
    /// What the device said.
    pub fn room_to_move(&self) -> Result<u64, DiskError> {
        let kept = self.with_journal(|journal| {
            let needs_file = journal.spares() == 0 && journal.room() < self.room_needed(journal);
            journal.limits().reserve_bytes() + if needs_file { journal.limits().file_bytes } else { 0 }
        });
        Ok(self.disk.free_bytes()?.saturating_sub(kept))
    }

    /// Removes a file that was prepared, because its room is needed more for what must be moved or written before files
    /// can be used again. False: none can be spared.
    pub fn give_up_spare(&self) -> bool {
        let spare = self.with_journal(|journal| {
            let spare = journal.give_up_spare(self.room_needed(journal))?;
            self.note_last_file(journal);
            self.note_room(journal);
            Some(spare)
        });
        // One that cannot be removed is found and used again by the next start.
        spare.is_some_and(|name| self.disk.remove(name).is_ok())
    }

    /// Bytes the current file must have left where it may become the last: what publishers may have under way by the time
    /// all have stopped, and a quarter of a file for messages to be settled.
    fn room_needed(&self, journal: &Journal) -> u64 {
        let quarter = room_kept(journal);
        if self.is_still() { quarter } else { 3 * quarter }
    }

    /// Publishers had to stop, and nothing of theirs is under way any more.
    fn is_still(&self) -> bool {
        let since = self.short_at_ns.load(Ordering::Relaxed);
        let now = self.started.elapsed().as_nanos() as u64;
        let queue = lock(&self.queue);
        self.is_short.load(Ordering::Relaxed)
            && now.saturating_sub(since) >= STILL_NS
            && queue.jobs.is_empty()
            && !queue.is_writing
    }

    /// Sets what is called when it is time to look how much space there is: after every roll, and when that changes which
    /// [`Committer::lacks_space`] tells. Before that, nobody is told.
    pub fn call_to_look(&self, look: impl Fn() + Send + Sync + 'static) {
        // Who comes second is not needed: there is one node.
        let _ = self.look.set(Box::new(look));
    }

    fn look(&self) {
        if let Some(look) = self.look.get() {
            look();
        }
    }
}

/// There is no file in reserve and the current one is half full, so that what is being made is the next; or full ones gather.
fn is_pressed(journal: &Journal) -> bool {
    let is_next = journal.spares() == 0 && journal.room() < journal.limits().file_bytes / 2;
    is_next || journal.files().len() > FULL_FILES_MANY
}

/// Bytes of the last file that are for messages to be settled, and for other things that make room.
fn room_kept(journal: &Journal) -> u64 {
    journal.limits().file_bytes / 4
}

fn report((batch, place): (&Sealed, &Place)) -> Written {
    Written { log: batch.log, base: batch.base, place: *place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Buffer;
    use journal::{Batch, FaultyDisk, FileId, Limits, RecoveredBatch, Start, faulty::Call};
    use std::sync::mpsc::{Receiver, Sender, channel};

    const LIMITS: Limits =
        Limits { file_bytes: 1 << 20, first_file_bytes: 1 << 20, ..limits_of_the_journal() };

    const fn limits_of_the_journal() -> Limits {
        Limits {
            file_bytes: 0,
            first_file_bytes: 0,
            spare_files: 1,
            spare_files_max: 2,
            live_files_max: 64,
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

    fn open(disk: &FaultyDisk, visit: &mut dyn FnMut(RecoveredBatch)) -> Journal {
        let start = Start { secret: 7, from: FileId(0), keep: FileId(0) };
        Journal::open(disk, LIMITS, start, visit).expect("opens").0
    }

    fn committer(disk: &FaultyDisk, flush_inline_max_ns: u64) -> (Committer, Channel, Reports) {
        let journal = open(disk, &mut |_| {});
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
        let mut seen = [Vec::new(), Vec::new()];
        for report in reports {
            let (shard, written) = report.expect("no failure");
            seen[shard.0 as usize].extend(written.iter().map(|written| written.base.0));
        }
        let expected: Vec<u64> = (0..500).map(|base| base * 64).collect();
        assert_eq!(seen, [expected.clone(), expected]);
        disk.crash();
        let mut recovered = 0;
        open(&disk, &mut |_| recovered += 1);
        assert_eq!(recovered, 1000);
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
        // What was begun with space at hand says nothing of the space there is now.
        disk.set_capacity(u64::MAX);
        committer.with_journal(|journal| committer.note_last_file(journal));
        assert!(committer.lacks_space(), "the housekeeper says when it is over");
    }

    #[test]
    fn the_last_quarter_of_the_last_file_is_for_what_makes_room() {
        let (disk, committer) = nearly_full(16);
        let mut base = 64;
        let mut check = |len: usize, expected: bool| {
            commit(&committer, 0, 0, batch(1, base, len));
            base += len as u64;
            assert_eq!(committer.is_nearly_full(), expected, "{len} more");
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
            while committer.is_nearly_full() {
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
