//! The steps of a round, each of which leaves everything so that another one, or none, may follow.

use super::{Asked, Errand, Finding, GIVES_MAX, House, Keeper};
use crate::fetch::Gift;
use crate::snapped::{Given, Snapped};
use base::id::{LogId, LogIndex, ShardId};
use broker::{MoveJob, Moved};
use journal::{DiskError, FileKind, FileName};
use stream_files::StreamJob;

/// See the module.
#[derive(Debug)]
pub(super) enum Step {
    /// The messages of a log that live before an index are asked for, until all were moved.
    List(LogId, LogIndex),
    /// It is copied to segments.
    Copy(MoveJob),
    /// The shard that has a log is sent on an errand.
    Send(Errand),
    /// The chunks of streams that the snapshot counts on are made durable.
    Streams(Box<Snapped>, Vec<StreamJob>),
    /// The journal gets time to write the records that the snapshot knows.
    Await(Box<Snapped>),
    /// The snapshot is written.
    Write(Box<Snapped>),
    /// The messages of a state for another node that are in no segment are copied to some, and it may have the state.
    Give(Box<Given>),
    /// Segments that were dead before the snapshots before these go.
    RemoveDead,
    /// Segments that died since are asked for.
    AskDead(ShardId),
    /// Files that nothing needs are let go of.
    Release,
}

impl Step {
    /// It is done whatever becomes of the round: what it tells is known nowhere else.
    pub(super) fn is_owed(&self) -> bool {
        match self {
            Step::Send(Errand::Point(_) | Errand::Streamed(_) | Errand::Kept(_) | Errand::Installed(_)) => {
                true
            }
            Step::Write(snapshot) => snapshot.is_installed,
            _ => false,
        }
    }
}

impl Keeper {
    /// Does a step, which may ask a shard something.
    pub(super) fn carry_out(
        &mut self,
        house: &mut dyn House,
        step: Step,
    ) -> Result<Option<(ShardId, Errand)>, DiskError> {
        match step {
            Step::List(log, bound) if self.has_moved(log, bound) => {}
            Step::List(log, bound) => return Ok(Some(self.ask(Errand::List(log, bound)))),
            Step::Copy(job) => {
                let moved = self.copy(house, &job)?;
                self.steps.push(Step::Send(Errand::Point(moved)));
            }
            Step::Send(errand) => {
                self.note_file(house);
                return Ok(Some(self.ask(errand)));
            }
            Step::Streams(snapshot, jobs) => self.write_streams(house, snapshot, jobs)?,
            Step::Await(snapshot) => {
                let next = if house.has_waited_for_writes() { Step::Write } else { Step::Await };
                self.steps.push(next(snapshot));
            }
            Step::Write(snapshot) => self.write_step(house, snapshot)?,
            Step::Give(given) => self.give(house, *given)?,
            Step::RemoveDead => self.remove_dead(house)?,
            Step::AskDead(shard) => {
                self.asked = Some(Asked::Dead);
                return Ok(Some((shard, Errand::Dead)));
            }
            Step::Release => {
                let snapshots = &self.snapshots;
                let mut owes_round = false;
                house.with_journal(&mut |journal| {
                    if let Some(through) = snapshots.releasable(journal) {
                        journal.release(through);
                    }
                    owes_round = snapshots.releasable_next(journal).is_some();
                });
                self.owes_round = owes_round;
            }
        }
        Ok(None)
    }

    fn copy(&mut self, house: &mut dyn House, job: &MoveJob) -> Result<Moved, DiskError> {
        let room = house.room_to_move()?;
        let next_segment = &mut self.next_segment;
        let moved = job.carry_out(house.disk(), room, || {
            *next_segment += 1;
            *next_segment - 1
        })?;
        for base in &moved.damaged {
            house.note(Finding::Damaged(moved.log, *base));
        }
        Ok(moved)
    }

    /// Puts on disk the chunks of streams that a snapshot counts on, and tells the shard. Where some of it could not be
    /// written, the snapshot is not to be either. No space for it is no reason to end the round: other logs may have
    /// less to write.
    fn write_streams(
        &mut self,
        house: &mut dyn House,
        snapshot: Box<Snapped>,
        jobs: Vec<StreamJob>,
    ) -> Result<(), DiskError> {
        let (mut is_durable, mut lacks_space) = (true, false);
        let mut told = Vec::new();
        for job in jobs {
            let done = job.carry_out(house.disk());
            if let Some(error) = done.failure() {
                return Err(error);
            }
            is_durable &= done.is_durable();
            lacks_space |= done.lacks_space();
            told.push(Step::Send(Errand::Streamed(Box::new(done))));
        }
        self.lacks_space |= lacks_space;
        if is_durable && !lacks_space {
            self.steps.push(Step::Await(snapshot));
        }
        self.steps.extend(told);
        Ok(())
    }

    /// Writes a snapshot, and has the shard hear of it. One that was put in place is written once there is space for it.
    fn write_step(&mut self, house: &mut dyn House, snapshot: Box<Snapped>) -> Result<(), DiskError> {
        let (log, is_installed) = (snapshot.log(), snapshot.is_installed);
        if is_installed {
            // All before it is in segments.
            self.moved.insert(log, snapshot.state.covered);
        }
        match self.write(house, &snapshot) {
            Ok(()) if is_installed => {
                let segments = self.takings.arrived(log);
                self.dead.iter_mut().for_each(|dead| dead.retain(|segment| !segments.contains(segment)));
                self.steps.push(Step::Send(Errand::Installed(log)));
            }
            Ok(()) => self.steps.push(Step::Send(Errand::Kept(log))),
            Err(error) => {
                self.steps.extend(is_installed.then_some(Step::Write(snapshot)));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Has another node have a state, all messages of which are in segments afterwards; or first most of them, and another
    /// state is asked for.
    fn give(&mut self, house: &mut dyn House, given: Given) -> Result<(), DiskError> {
        let log = given.state.log;
        if !given.is_whole() {
            self.gives += 1;
            self.steps.extend((self.gives < GIVES_MAX).then_some(Step::Send(Errand::Give(log))));
            self.steps.push(Step::Copy(given.job));
            return Ok(());
        }
        let moved = self.copy(house, &given.job)?;
        if moved.damaged.is_empty() {
            let mut segments = given.segments;
            let moved = moved.segments();
            segments.extend(&moved);
            let lens = segments.into_iter().map(|segment| {
                let len = house.disk().len(FileName::new(FileKind::Segment, segment))?;
                Ok((segment, len))
            });
            let segments = lens.collect::<Result<_, DiskError>>()?;
            let state: Vec<u8> = given.state.bytes.iter().flatten().copied().collect();
            let gift = Gift {
                number: 0,
                name: given.name,
                len: state.len() as u64,
                segments,
                moved: moved.into_iter().collect(),
            };
            self.giving.keep(self.now, log, gift, state);
        }
        self.steps.push(Step::Send(Errand::Point(moved)));
        Ok(())
    }

    /// A segment goes when both kept snapshots of its log are younger than its last message's end.
    fn remove_dead(&mut self, house: &mut dyn House) -> Result<(), DiskError> {
        let pinned = self.pinned();
        let (stay, go) = self.dead[1].drain(..).partition(|segment| pinned.contains(segment));
        let (mut stay, go): (Vec<u64>, Vec<u64>) = (stay, go);
        self.dead[0].append(&mut stay);
        for file in go {
            // One that died while the node came up was in nobody's use at the start, and went then.
            match house.disk().remove(FileName::new(FileKind::Segment, file)) {
                Ok(()) | Err(DiskError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        self.dead.swap(0, 1);
        Ok(())
    }
}
