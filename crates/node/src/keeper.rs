//! Keeps house beside the shards: when a journal file is full, the messages that live in it are moved to segments,
//! snapshots are written, and the file is released.
//!
//! A keeper is a value that does one step at a time: everything else can happen between any two of them. It gives out a
//! request to a shard as an [`Errand`], and goes on with the [`Answer`]; copying and writing happen in its own steps,
//! over the disk it is given. One round after the other; nothing is released before every log has snapshots beyond it. Where
//! logs have replicas on other nodes, it makes states of logs for those, and has such from them.

mod giving;
mod round;
mod steps;
mod taking;

use crate::fetch::{Fetch, What};
use crate::snapped::{Arrival, Given, Snapped};
use crate::word::Word;
use base::Now;
use base::brief;
use base::id::{LogId, LogIndex, NodeNo, ShardId};
use broker::{LogSnapshot, MoveJob, Moved, Placement, SECTION};
use consensus::{EntryId, standing};
use giving::{Giving, Heard};
use journal::{Cover, Disk, DiskError, FileId, FileKind, FileName, Journal, Section, Snapshots, segment};
use std::collections::{BTreeMap, BTreeSet};
use steps::Step;
use stream_files::{StreamDone, StreamJob};
use taking::Takings;

/// Journal files that were left last and rest for one roll more, while there is space: most of the messages in them are
/// about to be settled, and need not be moved then.
const RESTING_FILES: usize = 1;

/// Times the keeper is asked for a round before it looks whether there is space now though nobody has written anything.
const WAITS_MAX: u32 = 10;

/// Words of other nodes that wait to be looked at; those that come beyond are said again.
const HEARD_MAX: usize = 256;

/// Times a state for another node is asked for in one round: each time all that lived then is moved, or 131,072 messages of it.
/// Where publishers outrun that the other node asks again.
const GIVES_MAX: u32 = 256;

/// A request of the keeper to a shard.
#[derive(Debug)]
pub enum Errand {
    /// List the messages of a log that live before an index.
    List(LogId, LogIndex),
    /// Point to where it is now.
    Point(Moved),
    /// Give a log's recorded state, and the jobs that put on disk the chunks of streams it counts on.
    Snapshot(LogId),
    /// Hear the outcome of something that was done for a stream.
    Streamed(Box<StreamDone>),
    /// Hear that the snapshot of a log that was asked for last is on disk.
    Kept(LogId),
    /// Say which segments hold nothing any more.
    Dead,
    /// Give the state of a log that another node wants, and list those of its messages that are in no segment.
    Give(LogId),
    /// Put the state of a log in place that came from another node, when its replica is ready for that.
    Install(Box<Arrival>),
    /// Hear that the snapshot of the state that was put in place is on disk.
    Installed(LogId),
}

impl Errand {
    /// The log that it is about, if it is about one.
    pub fn log(&self) -> Option<LogId> {
        match self {
            Errand::List(log, _)
            | Errand::Snapshot(log)
            | Errand::Kept(log)
            | Errand::Give(log)
            | Errand::Installed(log) => Some(*log),
            Errand::Install(arrival) => Some(arrival.log),
            Errand::Point(moved) => Some(moved.log),
            Errand::Streamed(done) => Some(done.log),
            Errand::Dead => None,
        }
    }
}

/// A shard's answer to an [`Errand`] of the same name.
#[derive(Debug)]
pub enum Answer {
    /// The messages to be moved; `None`: the log is stopped.
    Listed(Option<MoveJob>),
    /// It points there, or has heard.
    Done,
    /// `None`: there is no snapshot now.
    Snapshot(Option<(Box<Snapped>, Vec<StreamJob>)>),
    /// `None`: there is none to be given now.
    Given(Option<Box<Given>>),
    /// It is in place, and is to be written; `None`: it was not wanted any more.
    Installed(Option<Box<Snapped>>),
    /// The segments.
    Dead(Vec<u64>),
    /// The log is at this shard now, which is to be sent on the same errand.
    Elsewhere(ShardId, Errand),
}

/// News for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The batch at this index reads wrong: its messages are lost. The log is stopped.
    Damaged(LogId, LogIndex),
    /// There is no space to move the messages that are left in journal files.
    NoSpace,
}

/// The surroundings of a keeper.
pub trait House {
    /// The disk for housekeeping.
    fn disk(&self) -> &dyn Disk;
    /// Calls `work` with the journal, which nobody else uses meanwhile: for work that is quick and does not flush.
    fn with_journal(&mut self, work: &mut dyn FnMut(&mut Journal));
    /// Tells people something.
    fn note(&mut self, finding: Finding);
    /// Bytes that may be taken to move live messages: see [`crate::space::Space::room_to_move`].
    ///
    /// # Errors
    /// The device's error.
    fn room_to_move(&mut self) -> Result<u64, DiskError>;
    /// Removes a file that was prepared. False: none can be spared.
    fn give_up_spare(&mut self) -> bool;
    /// Whether the wait is over for the batches that were handed in when it began: all are written, or there is no use
    /// in waiting. False: ask again later. It may take its time to answer.
    fn has_waited_for_writes(&mut self) -> bool;
}

/// The next thing to do.
#[derive(Debug)]
pub enum Next {
    /// This shard is asked: [`Keeper::answer`] takes its answer.
    Ask(ShardId, Errand),
    /// A step was done; the round goes on with the next.
    Step,
    /// The round is over.
    Over,
}

/// The request that is not answered yet.
#[derive(Clone, Copy, Debug)]
enum Asked {
    List(LogId, LogIndex),
    Point(LogId, LogIndex),
    Snapshot,
    Hear,
    Dead,
    Give,
    Install(LogId),
}

/// See the module.
#[derive(Debug)]
pub struct Keeper {
    /// Shards of the node.
    shards: u16,
    /// The shard that has each log, as far as it has heard.
    homes: Vec<ShardId>,
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
    /// A round is under way.
    is_running: bool,
    /// The steps that are left of this round, the last first.
    steps: Vec<Step>,
    asked: Option<Asked>,
    /// The journal file that was written to when a shard was asked last.
    asked_at: FileId,
    /// The last question was given up: nobody is asked anything before its answer has come, as the jobs in that are
    /// nowhere else.
    is_late: bool,
    /// The last round was given up for want of an answer, and is to be done again.
    is_unfinished: bool,
    /// Some log's streams or snapshot found no space in this round.
    lacks_space: bool,
    /// A prepared file was given up in this round.
    gave_up_spare: bool,
    /// Words of other nodes that were not looked at so far.
    heard: Vec<Heard>,
    giving: Giving,
    takings: Takings,
    /// The last round was for other nodes.
    was_between: bool,
    /// Times a state was asked for in this round.
    gives: u32,
    /// When it talked last.
    now: Now,
}

impl Keeper {
    /// One that goes on from these snapshots. Segments not `in_use` are remains that a node that was killed could not
    /// remove; without that list (something is damaged, and its segments are not known) all are kept.
    ///
    /// # Errors
    /// The device's error.
    pub fn new(
        disk: &dyn Disk,
        journal: &Journal,
        placement: Placement,
        snapshots: Snapshots,
        in_use: Option<&BTreeSet<u64>>,
        node: NodeNo,
    ) -> Result<Keeper, DiskError> {
        let segments = disk.list(FileKind::Segment)?;
        let own = segment::numbers(node);
        let taken = segments.iter().map(|name| name.number).filter(|number| own.contains(number));
        let next_segment = taken.max().map_or(*own.start(), |last| last + 1);
        let is_needless = |name: &&FileName| in_use.is_some_and(|in_use| !in_use.contains(&name.number));
        for name in segments.iter().filter(is_needless) {
            disk.remove(*name)?;
        }
        let moved =
            brief::collect((0..placement.logs).map(LogId).map(|log| (log, snapshots.moved(journal, log))));
        Ok(Keeper {
            shards: placement.shards,
            homes: (0..placement.logs).map(|log| placement.owner_at_start(LogId(log))).collect(),
            snapshots,
            next_segment,
            moved,
            dead: [Vec::new(), Vec::new()],
            is_behind: false,
            owes_round: false,
            groups: 0,
            waited: 0,
            is_running: false,
            steps: Vec::new(),
            asked: None,
            asked_at: FileId(0),
            is_late: false,
            is_unfinished: false,
            lacks_space: false,
            gave_up_spare: false,
            heard: Vec::new(),
            giving: Giving::default(),
            takings: Takings::default(),
            was_between: false,
            gives: 0,
            now: Now::default(),
        })
    }

    /// The last round found no space for all it had to do.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// No round is under way.
    pub fn is_idle(&self) -> bool {
        !self.is_running && self.asked.is_none()
    }

    /// Writes the snapshot of a log of a node that ends, and before it the chunks of streams that it counts on. No
    /// message from before `lives_from` lives: the next start need not read that part of the journal.
    ///
    /// # Errors
    /// The device's error.
    pub fn write_last(
        &mut self,
        house: &mut dyn House,
        snapshot: &Snapped,
        lives_from: LogIndex,
        jobs: Vec<StreamJob>,
    ) -> Result<(), DiskError> {
        for job in jobs {
            let done = job.carry_out(house.disk());
            if let Some(error) = done.failure() {
                return Err(error);
            }
            if !done.is_durable() {
                // The journal has it all: the next start goes on from the snapshot before.
                return Ok(());
            }
        }
        let moved = self.moved.entry(snapshot.log()).or_insert(lives_from);
        *moved = lives_from.max(*moved);
        // Nothing is handed in any more.
        self.note_file(house);
        self.write(house, snapshot)
    }

    fn note_file(&mut self, house: &mut dyn House) {
        let asked_at = &mut self.asked_at;
        house.with_journal(&mut |journal| *asked_at = journal.end().0);
    }

    /// Writes a snapshot. Replay starts at the first file with messages that were not moved: live messages are still
    /// read from there, covered or not.
    fn write(&mut self, house: &mut dyn House, snapshot: &Snapped) -> Result<(), DiskError> {
        let Snapped { state: LogSnapshot { log, covered, bytes }, replica, .. } = snapshot;
        let moved = self.moved.get(log).copied().unwrap_or(LogIndex(0));
        let mut from_file = FileId(0);
        house.with_journal(&mut |journal| from_file = first_file(journal, *log, moved));
        let from_file =
            replica.as_ref().map_or(from_file, |part| from_file.min(part.from.unwrap_or(self.asked_at)));
        let cover = Cover { log: *log, covered: *covered, from_file, from_offset: 0 };
        let pieces: Vec<&[u8]> = bytes.iter().collect();
        let replica = replica.as_ref().map(|part| part.standing.write()).unwrap_or_default();
        let sections: [Section<'_>; 2] = [(SECTION, &pieces), (standing::SECTION, &[&replica])];
        let count = if replica.is_empty() { 1 } else { 2 };
        self.snapshots.write(house.disk(), cover, &sections[..count])
    }

    // ---- states of logs between nodes

    /// Another node says something about the state of a log.
    pub fn hear(&mut self, from: NodeNo, fetch: Fetch) {
        if self.heard.len() < HEARD_MAX {
            self.heard.push((from, fetch));
        }
    }

    /// A log's leader is on another node, and has let go of entries up to `least`, which are missing here.
    pub fn offered(&mut self, now: Now, log: LogId, from: NodeNo, least: EntryId) {
        self.takings.offered(now, log, from, least);
    }

    /// Answers what other nodes said, and asks them for what is next. Their words go to `words`.
    ///
    /// # Errors
    /// The device's error.
    pub fn talk(
        &mut self,
        now: Now,
        house: &mut dyn House,
        words: &mut Vec<(NodeNo, Word)>,
    ) -> Result<(), DiskError> {
        self.now = now;
        let mut out = Vec::new();
        for (from, fetch) in std::mem::take(&mut self.heard) {
            match &fetch.what {
                What::Ask { .. } | What::Read { .. } => {
                    let log = fetch.log;
                    let answer = self.giving.hear(now, house.disk(), &fetch);
                    out.extend(answer.map(|what| (from, Fetch { log, what })));
                }
                What::Gift(_) | What::Piece { .. } | What::Gone { .. } => {
                    self.takings.hear(now, house.disk(), from, fetch)?;
                }
            }
        }
        self.giving.forget_idle(now);
        self.takings.ask(now, &mut out);
        for segment in self.takings.left.drain(..) {
            match house.disk().remove(FileName::new(FileKind::Segment, segment)) {
                Ok(()) | Err(DiskError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        words.extend(out.into_iter().map(|(to, fetch)| (to, Word::Fetch(Box::new(fetch)))));
        Ok(())
    }

    /// Segments that stay whatever is dead.
    fn pinned(&self) -> BTreeSet<u64> {
        let mut pinned = self.giving.segments();
        pinned.append(&mut self.takings.segments());
        pinned
    }
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
pub(crate) mod tests;
