//! Housekeeping in small steps, so that everything else can happen between any two of them: when a journal file was left,
//! its live remains are moved to segments, snapshots are written, and it is released.
//!
//! The order of the steps is the server's; a change there is to be made here too.

use crate::home::{Home, Letter};
use crate::node::Stop;
use crate::plan::Tally;
use base::id::{LogId, LogIndex};
use broker::{LogSnapshot, MoveJob, Moved, Placement, SECTION};
use journal::{Cover, Disk, DiskError, FaultyDisk, FileId, FileKind, FileName, Journal, Snapshots};
use std::collections::{BTreeMap, BTreeSet};
use stream_files::StreamJob;

/// What is done next.
#[derive(Debug)]
enum Step {
    List(LogId, LogIndex),
    Copy(MoveJob),
    Point(Moved),
    Ask(LogId),
    Write(LogSnapshot, Vec<StreamJob>),
    CollectDead,
    Release,
}

/// The housekeeper.
#[derive(Debug)]
pub struct Keeper {
    placement: Placement,
    snapshots: Snapshots,
    next_segment: u64,
    moved: BTreeMap<LogId, LogIndex>,
    dead: [Vec<u64>; 2],
    /// In the order they are done: the last first.
    steps: Vec<Step>,
    /// Logs of which something was found damaged while it was moved.
    pub damaged: Vec<LogId>,
}

impl Keeper {
    /// One that goes on from these snapshots. Segments not `in_use` are let go of, as the server does.
    pub fn new(
        disk: &FaultyDisk,
        journal: &Journal,
        placement: Placement,
        snapshots: Snapshots,
        in_use: Option<&BTreeSet<u64>>,
    ) -> Result<Keeper, DiskError> {
        let segments = disk.list(FileKind::Segment)?;
        let next_segment = segments.iter().map(|name| name.number + 1).max().unwrap_or(1);
        let is_needless = |name: &&FileName| in_use.is_some_and(|in_use| !in_use.contains(&name.number));
        for name in segments.iter().filter(is_needless) {
            disk.remove(*name)?;
        }
        let moved = (0..placement.logs).map(LogId).map(|log| (log, snapshots.moved(journal, log))).collect();
        Ok(Keeper {
            placement,
            snapshots,
            next_segment,
            moved,
            dead: [Vec::new(), Vec::new()],
            steps: Vec::new(),
            damaged: Vec::new(),
        })
    }

    /// Nothing is to be done.
    pub fn is_idle(&self) -> bool {
        self.steps.is_empty()
    }

    /// Does one step, or begins a round where there was a roll. A round that finds no space is given up.
    pub fn step(
        &mut self,
        disk: &FaultyDisk,
        homes: &mut [Home],
        journal: &mut Journal,
        tally: &mut Tally,
    ) -> Result<(), Stop> {
        let Some(step) = self.steps.pop() else {
            if !journal.take_rolled().is_empty() {
                self.plan(journal);
            }
            return Ok(());
        };
        match self.carry_out(step, disk, homes, journal, tally) {
            Ok(()) => Ok(()),
            Err(DiskError::NoSpace) => {
                self.steps.clear();
                Ok(())
            }
            Err(error) => Err(Stop(format!("housekeeping failed: {error}"))),
        }
    }

    fn plan(&mut self, journal: &Journal) {
        let logs = self.placement.logs;
        self.steps.extend([Step::Release, Step::CollectDead]);
        self.steps.extend((0..logs).rev().map(|log| Step::Ask(LogId(log))));
        let known = bounds(journal).into_iter().rev().filter(|(log, _)| log.0 < logs);
        self.steps.extend(known.map(|(log, bound)| Step::List(log, bound)));
    }

    fn carry_out(
        &mut self,
        step: Step,
        disk: &FaultyDisk,
        homes: &mut [Home],
        journal: &mut Journal,
        tally: &mut Tally,
    ) -> Result<(), DiskError> {
        let owner = |log| self.placement.owner(log).0 as usize;
        match step {
            Step::List(log, bound) => {
                let is_moved = self.moved.get(&log).is_some_and(|moved| *moved >= bound);
                if let Some(job) = homes[owner(log)].shard.begin_move(log, bound).filter(|_| !is_moved) {
                    // What is listed may be the first part only: then the rest is asked for again.
                    self.steps.extend([Step::List(log, bound), Step::Copy(job)]);
                }
            }
            Step::Copy(job) => {
                let next_segment = &mut self.next_segment;
                let moved = job.carry_out(disk, u64::MAX, || {
                    *next_segment += 1;
                    *next_segment - 1
                })?;
                tally.moves += u64::from(!job.is_empty());
                self.damaged.extend(moved.damaged.iter().map(|_| moved.log));
                self.steps.push(Step::Point(moved));
            }
            Step::Point(moved) => {
                homes[owner(moved.log)].shard.finish_move(&moved);
                self.moved.insert(moved.log, moved.bound);
            }
            Step::Ask(log) => {
                let shard = &mut homes[owner(log)].shard;
                if let Some(snapshot) = shard.snapshot(log, false) {
                    let jobs = shard.take_stream_syncs(log);
                    self.steps.push(Step::Write(snapshot, jobs));
                }
            }
            Step::Write(snapshot, jobs) => {
                let mut is_durable = true;
                for job in jobs {
                    let done = job.carry_out(disk);
                    if let Some(error) = done.failure() {
                        return Err(error);
                    }
                    is_durable &= done.is_durable();
                    homes[owner(snapshot.log)].letters.push_back(Letter::Streamed(Box::new(done)));
                }
                if is_durable {
                    let at = owner(snapshot.log);
                    self.write(disk, journal, &snapshot)?;
                    homes[at].shard.snapshot_written(snapshot.log);
                }
            }
            Step::CollectDead => {
                for file in self.dead[1].drain(..) {
                    // As the server does: one that died while the node came up went at the start.
                    match disk.remove(FileName::new(FileKind::Segment, file)) {
                        Ok(()) | Err(DiskError::NotFound) => {}
                        Err(error) => return Err(error),
                    }
                }
                self.dead.swap(0, 1);
                for home in homes {
                    self.dead[0].append(&mut home.shard.take_dead_segments());
                }
            }
            Step::Release => {
                if let Some(through) = self.snapshots.releasable(journal) {
                    journal.release(through);
                }
            }
        }
        Ok(())
    }

    /// Writes a snapshot. Replay starts at the first file that holds what was not moved.
    pub fn write(
        &mut self,
        disk: &FaultyDisk,
        journal: &Journal,
        snapshot: &LogSnapshot,
    ) -> Result<(), DiskError> {
        let LogSnapshot { log, covered, bytes } = snapshot;
        let moved = self.moved.get(log).copied().unwrap_or(LogIndex(0));
        let from_file = first_file(journal, *log, moved);
        let cover = Cover { log: *log, covered: *covered, from_file, from_offset: 0 };
        let pieces: Vec<&[u8]> = bytes.iter().collect();
        self.snapshots.write(disk, cover, &[(SECTION, &pieces)])
    }
}

/// How far the files that were left go, of each log.
fn bounds(journal: &Journal) -> BTreeMap<LogId, LogIndex> {
    let mut bounds = BTreeMap::new();
    let left = journal.files().len().saturating_sub(1);
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
