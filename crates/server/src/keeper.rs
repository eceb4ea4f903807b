//! Keeps house beside the shards: when a journal file is full, what still lives in it is moved to segments, snapshots
//! are written, and the file is released.
//!
//! Runs on a thread of its own. The shards list and point ([`broker::MoveJob`]); copying and writing happen here. One
//! round after the other; nothing is released before every log has snapshots beyond it.

use crate::committer::Committer;
use crate::config::Level;
use crate::door::{Door, Letter};
use crate::gentle::Gentle;
use crate::log::Logger;
use base::id::{LogId, LogIndex};
use broker::{LogSnapshot, MoveJob, Moved, Placement, SECTION};
use journal::{Cover, Disk, DiskError, FileId, FileKind, FileName, Journal, Snapshots};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;
use stream_files::StreamJob;

/// How long a shard may take to answer before the round is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a snapshot waits for the journal to have what it knows.
const WRITTEN_PATIENCE: Duration = Duration::from_secs(1);

/// Journal files that were left last and rest for one roll more, while there is space: most of what lives in them is about
/// to be settled, and need not be moved then.
const RESTING_FILES: usize = 1;

/// Times the keeper is asked for a round before it looks whether there is space now though nobody has written anything.
const WAITS_MAX: u32 = 10;

/// What the keeper asks of a shard.
pub enum Errand {
    /// List what lives of a log before an index.
    List(LogId, LogIndex, Sender<Option<MoveJob>>),
    /// Point to where it is now.
    Point(Moved, Sender<()>),
    /// Say what a log's recorded state is, and what of its streams must be on disk before that is.
    Snapshot(LogId, Sender<Option<(LogSnapshot, Vec<StreamJob>)>>),
    /// Say which segments hold nothing any more.
    Dead(Sender<Vec<u64>>),
}

/// An answer that did not come while the keeper waited for it. What is in it is nowhere else.
enum Late {
    Listed(Receiver<Option<MoveJob>>),
    Pointed(LogId, LogIndex, Receiver<()>),
    Snapshot(LogId, Receiver<Option<(LogSnapshot, Vec<StreamJob>)>>),
    Dead(Receiver<Vec<u64>>),
}

/// The keeper's value.
pub struct Keeper {
    committer: Arc<Committer>,
    doors: Arc<[Door]>,
    logger: Logger,
    placement: Placement,
    snapshots: Snapshots,
    next_segment: u64,
    /// Everything of a log before this was moved.
    moved: BTreeMap<LogId, LogIndex>,
    /// Segments without life, by how many rounds of snapshots they have seen.
    dead: [Vec<u64>; 2],
    /// The last round found no space for all it had to do.
    is_behind: bool,
    /// One more round lets go of files, though nothing more is written: the older of two snapshots keeps them.
    owes_round: bool,
    /// Groups in the journal when the last round began.
    groups: u64,
    /// Times it was asked for a round since the last one.
    waited: u32,
    /// How long a shard may take to answer.
    patience: Duration,
    /// What ended the last round: nobody is asked anything before it has come.
    late: Option<Late>,
    /// The last round was given up for want of an answer, and is to be done again.
    is_unfinished: bool,
}

/// Why a round could not be finished.
#[derive(Debug)]
enum Trouble {
    /// There is no space: later, perhaps.
    NoSpace,
    /// A shard does not answer: the node stops, or something holds that shard up.
    Silence,
    /// The device failed: the node must stop.
    Failed(DiskError),
}

impl From<DiskError> for Trouble {
    fn from(error: DiskError) -> Trouble {
        match error {
            DiskError::NoSpace => Trouble::NoSpace,
            other => Trouble::Failed(other),
        }
    }
}

impl Keeper {
    /// One that goes on from these snapshots. Segments not `in_use` are what a node that was killed could not remove
    /// any more; without that list (something is damaged, and who knows what it used) all are kept.
    ///
    /// # Errors
    /// What the device said.
    pub fn new(
        committer: Arc<Committer>,
        doors: Arc<[Door]>,
        logger: Logger,
        placement: Placement,
        snapshots: Snapshots,
        in_use: Option<&BTreeSet<u64>>,
    ) -> Result<Keeper, DiskError> {
        let segments = committer.disk().list(FileKind::Segment)?;
        let next_segment = segments.iter().map(|name| name.number + 1).max().unwrap_or(1);
        let is_needless = |name: &&FileName| in_use.is_some_and(|in_use| !in_use.contains(&name.number));
        for name in segments.iter().filter(is_needless) {
            committer.disk().remove(*name)?;
        }
        let moved = |log| committer.with_journal(|journal| (log, snapshots.moved(journal, log)));
        let moved = (0..placement.logs).map(LogId).map(moved).collect();
        let dead = [Vec::new(), Vec::new()];
        Ok(Keeper {
            committer,
            doors,
            logger,
            placement,
            snapshots,
            next_segment,
            moved,
            dead,
            is_behind: false,
            owes_round: false,
            groups: 0,
            waited: 0,
            patience: PATIENCE,
            late: None,
            is_unfinished: false,
        })
    }

    /// Does what is to be done since the last roll, if there was one, or what there was no space for the last time, and
    /// where space is tight, whatever can be done at all: publishers wait for it, and so there may be no roll. A round that was
    /// given up because a shard did not answer is done again as soon as that has.
    /// False: there was no space for it; a file that was prepared is given up for it first.
    ///
    /// # Errors
    /// The text of one that must stop the node.
    pub fn round(&mut self, is_tight: bool) -> Result<bool, String> {
        if !self.take_late() {
            return Ok(!self.is_behind);
        }
        let (rolled, groups) =
            self.committer.with_journal(|journal| (journal.take_rolled(), journal.counters().groups));
        let has_changed = groups != self.groups || !self.dead.iter().all(Vec::is_empty);
        self.waited += 1;
        let is_due = match self.is_behind {
            true => has_changed || self.waited >= WAITS_MAX,
            false => {
                !rolled.is_empty()
                    || (is_tight && (has_changed || (self.owes_round && self.waited >= WAITS_MAX)))
            }
        };
        if !is_due && !self.is_unfinished {
            return Ok(!self.is_behind);
        }
        self.groups = groups;
        self.waited = 0;
        let kept = if is_tight || self.is_behind { 0 } else { RESTING_FILES };
        let mut outcome = self.move_gently(kept);
        if matches!(outcome, Err(Trouble::NoSpace)) && self.committer.give_up_spare() {
            outcome = self.move_gently(0);
        }
        let was_behind = self.is_behind;
        self.is_unfinished = matches!(outcome, Err(Trouble::Silence));
        match outcome {
            Ok(()) => self.is_behind = false,
            // It did not find out whether there is space now.
            Err(Trouble::Silence) => {}
            Err(Trouble::NoSpace) => {
                self.is_behind = true;
                let text = "journal files cannot be released: there is no space for what is left in them elsewhere; make \
                            room on the disk, or let consumers take messages";
                if !was_behind {
                    self.logger.log(Level::Warning, text);
                }
            }
            Err(Trouble::Failed(error)) => {
                return Err(format!("moving messages out of the journal failed: {error}"));
            }
        }
        Ok(!self.is_behind)
    }

    /// As [`Keeper::move_and_release`]. A sync that failed counts, also where something else ended the work before it was told.
    fn move_gently(&mut self, kept: usize) -> Result<(), Trouble> {
        let committer = self.committer.clone();
        let in_hurry = || committer.is_in_hurry();
        let disk = Gentle::new(&**committer.disk(), &in_hurry);
        let outcome = self.move_and_release(&disk, kept);
        disk.failure().map_or(outcome, |error| Err(error.into()))
    }

    /// Of the files that were left, the last `kept` rest.
    fn move_and_release(&mut self, disk: &dyn Disk, kept: usize) -> Result<(), Trouble> {
        for (log, bound) in self.committer.with_journal(|journal| bounds(journal, kept)) {
            // A log that is not of this node's any more has nobody to ask.
            if log.0 >= self.placement.logs {
                continue;
            }
            while self.moved.get(&log).is_none_or(|moved| *moved < bound) {
                if !self.move_some(disk, log, bound)? {
                    break;
                }
            }
        }
        let mut lacks_space = false;
        for log in (0..self.placement.logs).map(LogId) {
            let late = |answer| Late::Snapshot(log, answer);
            if let Some((snapshot, jobs)) = self.ask(log, |answer| Errand::Snapshot(log, answer), late)? {
                match self.write_streams(disk, log, jobs) {
                    Ok(true) => {
                        // Where there is no space for it files must be let go all the same.
                        let _ = self.committer.wait_written(WRITTEN_PATIENCE);
                        self.write(disk, &snapshot)?;
                        self.tell(log, Letter::Snapshot(log));
                    }
                    Ok(false) => {}
                    // Other logs may have less to write.
                    Err(Trouble::NoSpace) => lacks_space = true,
                    Err(trouble) => return Err(trouble),
                }
            }
        }
        self.collect_dead()?;
        let Keeper { committer, snapshots, .. } = self;
        self.owes_round = committer.with_journal(|journal| {
            if let Some(through) = snapshots.releasable(journal) {
                journal.release(through);
            }
            snapshots.releasable_next(journal).is_some()
        });
        if lacks_space { Err(Trouble::NoSpace) } else { Ok(()) }
    }

    /// Moves what lives of a log before `bound`, or the first part of that; false: there is nothing more to be moved now,
    /// because the log is nobody's or has not applied so far.
    fn move_some(&mut self, disk: &dyn Disk, log: LogId, bound: LogIndex) -> Result<bool, Trouble> {
        let job = self.ask(log, |answer| Errand::List(log, bound, answer), Late::Listed)?;
        let Some(job) = job else { return Ok(false) };
        let bound = job.bound;
        if self.moved.get(&log).is_some_and(|moved| *moved >= bound) {
            return Ok(false);
        }
        let room = self.committer.room_to_move()?;
        let next_segment = &mut self.next_segment;
        let moved = job.carry_out(disk, room, || {
            *next_segment += 1;
            *next_segment - 1
        })?;
        for base in &moved.damaged {
            let text = format!("log {log}: the batch at {base} is damaged on disk; its messages are lost");
            self.logger.log(Level::Error, text);
        }
        if !moved.damaged.is_empty() {
            self.logger.log(Level::Error, stopped(log));
        }
        let late = |answer| Late::Pointed(log, bound, answer);
        self.ask(log, |answer| Errand::Point(moved, answer), late)?;
        self.moved.insert(log, bound);
        Ok(true)
    }

    /// Writes the snapshot of a log that ends, and before it what it counts on. Nothing in the journal from before `lives_from` lives: the
    /// next start need not read it.
    ///
    /// # Errors
    /// What the device said.
    pub fn write_last(
        &mut self,
        snapshot: &LogSnapshot,
        lives_from: LogIndex,
        jobs: Vec<StreamJob>,
    ) -> Result<(), DiskError> {
        for job in jobs {
            let done = job.carry_out(&**self.committer.disk());
            if let Some(error) = done.failure() {
                return Err(error);
            }
            if !done.is_durable() {
                // The journal has it all: the next start goes on from the snapshot before.
                return Ok(());
            }
        }
        let moved = self.moved.entry(snapshot.log).or_insert(lives_from);
        *moved = lives_from.max(*moved);
        let disk = self.committer.disk().clone();
        self.write(&*disk, snapshot)
    }

    /// Makes durable what a snapshot counts on, and tells the shard. False: some of it could not be written, and the
    /// snapshot is not to be either. No space for it is trouble, which is told once all was tried.
    fn write_streams(&self, disk: &dyn Disk, log: LogId, jobs: Vec<StreamJob>) -> Result<bool, Trouble> {
        let (mut is_durable, mut lacks_space) = (true, false);
        for job in jobs {
            let done = job.carry_out(disk);
            if let Some(error) = done.failure() {
                return Err(error.into());
            }
            is_durable &= done.is_durable();
            lacks_space |= done.lacks_space();
            self.tell(log, Letter::Streamed(Box::new(done)));
        }
        if lacks_space { Err(Trouble::NoSpace) } else { Ok(is_durable) }
    }

    /// Writes a snapshot. Replay starts at the first file that holds what was not moved: live messages are still read
    /// from there, covered or not.
    ///
    /// # Errors
    /// What the device said.
    pub fn write(&mut self, disk: &dyn Disk, snapshot: &LogSnapshot) -> Result<(), DiskError> {
        let LogSnapshot { log, covered, bytes } = snapshot;
        let moved = self.moved.get(log).copied().unwrap_or(LogIndex(0));
        let from_file = self.committer.with_journal(|journal| first_file(journal, *log, moved));
        let cover = Cover { log: *log, covered: *covered, from_file, from_offset: 0 };
        let pieces: Vec<&[u8]> = bytes.iter().collect();
        self.snapshots.write(disk, cover, &[(SECTION, &pieces)])
    }

    /// A segment goes when both kept snapshots of its log are younger than its last message's end.
    fn collect_dead(&mut self) -> Result<(), Trouble> {
        for file in self.dead[1].drain(..) {
            // One that died while the node came up was in nobody's use at the start, and went then.
            match self.committer.disk().remove(FileName::new(FileKind::Segment, file)) {
                Ok(()) | Err(DiskError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.dead.swap(0, 1);
        for shard in 0..self.doors.len() {
            let mut dead = self.ask_shard(shard, Errand::Dead, Late::Dead)?;
            self.dead[0].append(&mut dead);
        }
        Ok(())
    }

    /// Takes in the answer that the last round ended without. False: it has still not come.
    fn take_late(&mut self) -> bool {
        let Some(late) = self.late.take() else { return true };
        let outcome = match &late {
            Late::Listed(answer) => answer.try_recv().map(drop),
            Late::Pointed(log, bound, answer) => answer.try_recv().map(|()| {
                self.moved.insert(*log, *bound);
            }),
            Late::Snapshot(log, answer) => answer.try_recv().map(|snapshot| {
                // It is an old one by now. What it counts on is asked for again with the next.
                for job in snapshot.into_iter().flat_map(|(_, jobs)| jobs) {
                    self.tell(*log, Letter::Streamed(Box::new(job.give_up())));
                }
            }),
            Late::Dead(answer) => answer.try_recv().map(|mut dead| self.dead[0].append(&mut dead)),
        };
        let has_come = outcome != Err(TryRecvError::Empty);
        if !has_come {
            self.late = Some(late);
        }
        has_come
    }

    fn tell(&self, log: LogId, letter: Letter) {
        self.doors[self.placement.owner(log).0 as usize].letters.put(letter);
    }

    fn ask<T>(
        &mut self,
        log: LogId,
        errand: impl FnOnce(Sender<T>) -> Errand,
        late: impl FnOnce(Receiver<T>) -> Late,
    ) -> Result<T, Trouble> {
        self.ask_shard(self.placement.owner(log).0 as usize, errand, late)
    }

    fn ask_shard<T>(
        &mut self,
        shard: usize,
        errand: impl FnOnce(Sender<T>) -> Errand,
        late: impl FnOnce(Receiver<T>) -> Late,
    ) -> Result<T, Trouble> {
        let (answer, receiver): (Sender<T>, Receiver<T>) = channel();
        self.doors[shard].letters.put(Letter::Errand(errand(answer)));
        receiver.recv_timeout(self.patience).map_err(|_| {
            self.late = Some(late(receiver));
            Trouble::Silence
        })
    }
}

/// What the log says of one that is stopped.
pub fn stopped(log: LogId) -> String {
    format!(
        "log {log} is stopped: records are missing in it. Its queues refuse everything, to be deleted too, and its files stay \
         as they are: restore the data folder from a copy"
    )
}

/// How far the files that were left go, of each log, but for the last `kept` of them.
fn bounds(journal: &Journal, kept: usize) -> BTreeMap<LogId, LogIndex> {
    let mut bounds = BTreeMap::new();
    let left = journal.files().len().saturating_sub(1 + kept);
    for span in journal.files().take(left).flat_map(|file| &file.logs) {
        let bound = bounds.entry(span.log).or_insert(span.end);
        *bound = (*bound).max(span.end);
    }
    bounds
}

fn first_file(journal: &Journal, log: LogId, moved: LogIndex) -> FileId {
    let needs = |file: &&journal::LiveFile| file.logs.iter().any(|span| span.log == log && span.end > moved);
    journal.files().find(needs).map_or_else(|| journal.end().0, |file| file.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log;
    use crate::mailbox::Sleeper;
    use base::id::QueueId;
    use base::{Buffer, Pieces};
    use journal::{Batch, FaultyDisk, Limits, Start};
    use queue::stream::{Common, Settings, Stream};

    /// One with so many files, a batch in each.
    fn journal_of(disk: &FaultyDisk, files: u64) -> Journal {
        let limits = Limits { file_bytes: 1 << 20, first_file_bytes: 1 << 20, ..Limits::default() };
        let start = Start { secret: 7, from: FileId(0), keep: FileId(0) };
        let mut journal = Journal::open(disk, limits, start, &mut |_| {}).expect("opens").0;
        for number in 0..files {
            let mut batch = Batch::new(LogId(1), LogIndex(number * 64), Buffer::default());
            batch.records().extend(&[1; 64]);
            journal.write(disk, &[batch.seal(0)], &mut Vec::new()).expect("written");
            journal.roll();
        }
        journal
    }

    #[test]
    fn what_lives_in_the_file_left_last_is_not_moved_yet() {
        let disk = FaultyDisk::new(5);
        let journal = journal_of(&disk, 3);
        let check = |kept: usize, expected: Option<u64>| {
            assert_eq!(bounds(&journal, kept).get(&LogId(1)).copied(), expected.map(LogIndex), "{kept} rest");
        };
        check(0, Some(128));
        check(RESTING_FILES, Some(64));
        check(2, None);
        check(9, None);
    }

    const STREAM: QueueId = QueueId(3);

    /// A keeper without patience, and the door of a shard that answers when the test does.
    struct Bench {
        disk: FaultyDisk,
        doors: Arc<[Door]>,
        keeper: Keeper,
    }

    impl Bench {
        fn new(logs: u32) -> Bench {
            let disk = FaultyDisk::new(6);
            let committer = Committer::new(Arc::new(disk.clone()), journal_of(&disk, 2), u64::MAX);
            let committer = Arc::new(committer);
            let doors: Arc<[Door]> = [Door::new(Sleeper::new(|| {}))].into();
            let logger = log::start(Level::Error, std::io::sink()).expect("starts").0;
            let placement = Placement { shards: 1, logs };
            let keeper = Keeper::new(committer, doors.clone(), logger, placement, Snapshots::default(), None);
            let mut keeper = keeper.expect("reads");
            keeper.patience = Duration::from_millis(1);
            Bench { disk, doors, keeper }
        }

        /// What the keeper wrote to the shard in a round, in which nobody answers.
        fn round(&mut self) -> Vec<Letter> {
            assert_eq!(self.keeper.round(false), Ok(true), "it is not for want of space");
            let mut letters = Vec::new();
            self.doors[0].letters.take(&mut letters);
            letters
        }
    }

    #[test]
    fn what_a_shard_gave_too_late_is_given_back_and_asked_for_again() {
        let mut bench = Bench::new(1);
        let (mut stream, mut common) =
            (Stream::new(Settings::default()), Common::new(queue::stream::Limits::default()));
        let mut effects = Vec::new();
        stream.push_message(1, &[b"a"], b"", &mut common, &mut effects);
        stream.close(1, &mut common, &mut effects);
        let letters = bench.round();
        let [Letter::Errand(Errand::Snapshot(log, answer))] = &letters[..] else { panic!("one errand") };
        assert!(bench.round().is_empty(), "a shard that owes an answer is asked nothing");
        let work = stream.take_sync().expect("it is in memory alone");
        let snapshot = LogSnapshot { log: *log, covered: LogIndex(0), bytes: Pieces::default() };
        let jobs = vec![StreamJob { log: *log, stream: STREAM, work }];
        // Whether anybody is there to take it is what is tested.
        let _ = answer.send(Some((snapshot, jobs)));
        stream.end(&mut common, &mut effects);
        assert!(!stream.is_idle(), "its files are kept for the sync");
        let mut letters = bench.round().into_iter();
        let Some(Letter::Streamed(done)) = letters.next() else { panic!("the shard hears of its job") };
        assert_eq!((done.log, done.stream), (*log, STREAM));
        assert!(!done.is_durable() && !done.lacks_space());
        assert_eq!(done.failure(), None);
        stream.done(done.done, &mut common, &mut effects);
        assert!(stream.is_idle(), "its files may go");
        assert!(
            matches!(letters.next(), Some(Letter::Errand(Errand::Snapshot(..)))),
            "the round is done again"
        );
        assert!(letters.next().is_none());
    }

    #[test]
    fn segments_that_a_shard_tells_too_late_are_removed_all_the_same() {
        let mut bench = Bench::new(0);
        let segment = FileName::new(FileKind::Segment, 7);
        bench.disk.create(segment, 4096).expect("made");
        for dead in [vec![7], Vec::new()] {
            let letters = bench.round();
            let [Letter::Errand(Errand::Dead(answer))] = &letters[..] else { panic!("one errand") };
            // Whether anybody is there to take it is what is tested.
            let _ = answer.send(dead);
        }
        assert_eq!(bench.disk.list(FileKind::Segment), Ok(vec![segment]), "a snapshot may still know it");
        bench.round();
        assert_eq!(bench.disk.list(FileKind::Segment), Ok(vec![]));
    }

    #[test]
    fn what_was_found_before_a_shard_was_silent_stays_found() {
        let mut bench = Bench::new(0);
        bench.keeper.is_behind = true;
        bench.keeper.waited = WAITS_MAX;
        assert_eq!(bench.keeper.round(false), Ok(false), "publishers wait until a round comes to its end");
    }
}
