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
use broker::{LogSnapshot, MoveJob, Moved, Placement, SECTION, StreamJob};
use journal::{Cover, Disk, DiskError, FileId, FileKind, FileName, Journal, Snapshots};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How long a shard may take to answer before the round is given up.
const PATIENCE: Duration = Duration::from_secs(30);

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
}

/// Why a round could not be finished.
#[derive(Debug)]
enum Trouble {
    /// There is no space: later, perhaps.
    NoSpace,
    /// A shard does not answer: the node stops.
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
        })
    }

    /// Does what is to be done since the last roll, if there was one, or what there was no space for the last time, and
    /// where space is tight, whatever can be done at all: publishers wait for it, and so there may be no roll.
    /// False: there was no space for it; a file that was prepared is given up for it first.
    ///
    /// # Errors
    /// The text of one that must stop the node.
    pub fn round(&mut self, is_tight: bool) -> Result<bool, String> {
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
        if !is_due {
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
        self.is_behind = matches!(outcome, Err(Trouble::NoSpace));
        match outcome {
            Ok(()) | Err(Trouble::Silence) => {}
            Err(Trouble::NoSpace) => {
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
            if let Some((snapshot, jobs)) = self.ask(log, |answer| Errand::Snapshot(log, answer))? {
                match self.write_streams(disk, log, jobs) {
                    Ok(true) => {
                        self.write(disk, &snapshot)?;
                        let owner = self.placement.owner(log).0 as usize;
                        self.doors[owner].letters.put(Letter::Snapshot(log));
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
        let job = self.ask(log, |answer| Errand::List(log, bound, answer))?;
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
        self.ask(log, |answer| Errand::Point(moved, answer))?;
        self.moved.insert(log, bound);
        Ok(true)
    }

    /// Writes the snapshot of a log that ends, and before it what it counts on.
    ///
    /// # Errors
    /// What the device said.
    pub fn write_last(&mut self, snapshot: &LogSnapshot, jobs: Vec<StreamJob>) -> Result<(), DiskError> {
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
            let owner = self.placement.owner(log).0 as usize;
            self.doors[owner].letters.put(Letter::Streamed(Box::new(done)));
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
            let mut dead = self.ask_shard(shard, Errand::Dead)?;
            self.dead[0].append(&mut dead);
        }
        Ok(())
    }

    fn ask<T>(&self, log: LogId, errand: impl FnOnce(Sender<T>) -> Errand) -> Result<T, Trouble> {
        self.ask_shard(self.placement.owner(log).0 as usize, errand)
    }

    fn ask_shard<T>(&self, shard: usize, errand: impl FnOnce(Sender<T>) -> Errand) -> Result<T, Trouble> {
        let (answer, receiver): (Sender<T>, Receiver<T>) = channel();
        self.doors[shard].letters.put(Letter::Errand(errand(answer)));
        receiver.recv_timeout(PATIENCE).map_err(|_| Trouble::Silence)
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
    use base::Buffer;
    use journal::{Batch, FaultyDisk, Limits, Start};

    #[test]
    fn what_lives_in_the_file_left_last_is_not_moved_yet() {
        let disk = FaultyDisk::new(5);
        let limits = Limits { file_bytes: 1 << 20, first_file_bytes: 1 << 20, ..Limits::default() };
        let start = Start { secret: 7, from: FileId(0), keep: FileId(0) };
        let mut journal = Journal::open(&disk, limits, start, &mut |_| {}).expect("opens").0;
        for number in 0..3 {
            let mut batch = Batch::new(LogId(1), LogIndex(number * 64), Buffer::default());
            batch.records().extend(&[1; 64]);
            journal.write(&disk, &[batch.seal(0)], &mut Vec::new()).expect("written");
            journal.roll();
        }
        let check = |kept: usize, expected: Option<u64>| {
            assert_eq!(bounds(&journal, kept).get(&LogId(1)).copied(), expected.map(LogIndex), "{kept} rest");
        };
        check(0, Some(128));
        check(RESTING_FILES, Some(64));
        check(2, None);
        check(9, None);
    }
}
