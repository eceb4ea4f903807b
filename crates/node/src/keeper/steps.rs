//! The steps of a round, each of which leaves everything so that another one, or none, may follow.

use super::{Asked, Errand, Finding, House, Keeper};
use base::id::{LogId, LogIndex, ShardId};
use broker::{LogSnapshot, MoveJob, Moved};
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
    Streams(LogSnapshot, Vec<StreamJob>),
    /// The journal gets time to write the records that the snapshot knows.
    Await(LogSnapshot),
    /// The snapshot is written.
    Write(LogSnapshot),
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
        matches!(self, Step::Send(Errand::Point(_) | Errand::Streamed(_) | Errand::Kept(_)))
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
            Step::Send(errand) => return Ok(Some(self.ask(errand))),
            Step::Streams(snapshot, jobs) => self.write_streams(house, snapshot, jobs)?,
            Step::Await(snapshot) => {
                let next = if house.has_waited_for_writes() { Step::Write } else { Step::Await };
                self.steps.push(next(snapshot));
            }
            Step::Write(snapshot) => {
                self.write(house, &snapshot)?;
                self.steps.push(Step::Send(Errand::Kept(snapshot.log)));
            }
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
        snapshot: LogSnapshot,
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

    /// A segment goes when both kept snapshots of its log are younger than its last message's end.
    fn remove_dead(&mut self, house: &mut dyn House) -> Result<(), DiskError> {
        for file in self.dead[1].drain(..) {
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
