//! When a round begins, and how it ends.

use super::steps::Step;
use super::{Answer, Asked, Errand, Finding, House, Keeper, Next, RESTING_FILES, WAITS_MAX, bounds};
use base::id::{LogId, LogIndex, ShardId};
use journal::DiskError;

impl Keeper {
    /// Begins a round if there is one to be done: the work since the last roll, if there was one, or the work that
    /// found no space the last time, and where space `is_tight`, all that can be done: publishers wait for it, and so
    /// there may be no roll. A round that was given up because a shard did not answer is done again as soon as that
    /// has.
    pub fn begin(&mut self, house: &mut dyn House, is_tight: bool) -> bool {
        if self.is_late || !self.is_idle() {
            return false;
        }
        // Wants of other nodes and the node's own house take turns.
        if !std::mem::take(&mut self.was_between) && self.begin_between_nodes() {
            return true;
        }
        let (mut has_rolled, mut groups) = (false, 0);
        house.with_journal(&mut |journal| {
            (has_rolled, groups) = (!journal.take_rolled().is_empty(), journal.counters().groups);
        });
        let has_changed = groups != self.groups || !self.dead.iter().all(Vec::is_empty);
        self.waited += 1;
        let has_waited = self.waited >= WAITS_MAX;
        let is_due = match self.is_behind {
            true => has_changed || has_waited,
            false => has_rolled || (is_tight && (has_changed || (self.owes_round && has_waited))),
        };
        if !is_due && !self.is_unfinished {
            return self.begin_between_nodes();
        }
        self.groups = groups;
        self.waited = 0;
        self.gave_up_spare = false;
        self.is_running = true;
        let kept = if is_tight || self.is_behind { 0 } else { RESTING_FILES };
        self.plan(house, kept);
        true
    }

    /// Begins to put a state in place that came from another node, or to make one for another.
    fn begin_between_nodes(&mut self) -> bool {
        let arrived = self.takings.take_arrived().map(Errand::Install);
        let errand = arrived.or_else(|| self.giving.take_wanted().map(Errand::Give));
        let begins = errand.is_some();
        self.is_running |= begins;
        self.was_between = begins;
        self.gives = 0;
        self.steps.extend(errand.map(Step::Send));
        begins
    }

    /// The steps of a round. Of the files that were left, the last `kept` rest.
    fn plan(&mut self, house: &mut dyn House, kept: usize) {
        let logs = self.homes.len() as u32;
        self.lacks_space = false;
        let owed = self.drop_steps();
        self.steps.push(Step::Release);
        self.steps.extend((0..self.shards).rev().map(|shard| Step::AskDead(ShardId(shard))));
        self.steps.push(Step::RemoveDead);
        self.steps.extend((0..logs).rev().map(|log| Step::Send(Errand::Snapshot(LogId(log)))));
        let mut ends = Vec::new();
        house.with_journal(&mut |journal| ends.extend(bounds(journal, kept)));
        // A log that is not of this node's any more has nobody to ask.
        let ends = ends.into_iter().rev().filter(|(log, _)| log.0 < logs);
        self.steps.extend(ends.map(|(log, bound)| Step::List(log, bound)));
        self.steps.extend(owed);
    }

    /// Gives up the steps that are left of a round, but for those that are owed whatever becomes of it.
    fn drop_steps(&mut self) -> Vec<Step> {
        self.steps.drain(..).filter(Step::is_owed).collect()
    }

    /// Does the next step of the round that is under way. Where there is no space for it, a file that was prepared is given up
    /// for it first, and the round begins anew.
    ///
    /// # Errors
    /// The device's error: the node must stop.
    pub fn step(&mut self, house: &mut dyn House) -> Result<Next, DiskError> {
        assert!(self.asked.is_none(), "the shard's answer comes first");
        let outcome = match self.steps.pop() {
            Some(step) => self.carry_out(house, step),
            None if self.lacks_space => Err(DiskError::NoSpace),
            None => {
                self.end(house, true);
                return Ok(Next::Over);
            }
        };
        match outcome {
            Ok(None) => Ok(Next::Step),
            Ok(Some((shard, errand))) => Ok(Next::Ask(shard, errand)),
            Err(DiskError::NoSpace) if !self.gave_up_spare && house.give_up_spare() => {
                self.gave_up_spare = true;
                self.plan(house, 0);
                Ok(Next::Step)
            }
            Err(DiskError::NoSpace) => {
                self.end(house, false);
                Ok(Next::Over)
            }
            Err(error) => Err(error),
        }
    }

    fn end(&mut self, house: &mut dyn House, had_space: bool) {
        self.steps = self.drop_steps();
        self.is_running = false;
        self.is_unfinished = false;
        if !had_space && !self.is_behind {
            house.note(Finding::NoSpace);
        }
        self.is_behind = !had_space;
    }

    /// Takes in a shard's answer, also to a question that was given up.
    pub fn answer(&mut self, answer: Answer) {
        let Some(asked) = self.asked.take() else { return };
        let is_late = std::mem::take(&mut self.is_late);
        match (asked, answer) {
            (Asked::List(log, bound), Answer::Listed(Some(job))) if !is_late => {
                // The list may be of the first part only: then the rest is asked for again.
                if self.moved.get(&log).is_none_or(|moved| *moved < job.bound) {
                    self.steps.extend([Step::List(log, bound), Step::Copy(job)]);
                }
            }
            (Asked::Point(log, bound), Answer::Done) => _ = self.moved.insert(log, bound),
            (Asked::Hear, Answer::Done) => {}
            (Asked::Snapshot, Answer::Snapshot(Some((snapshot, jobs)))) if !is_late => {
                self.steps.push(Step::Streams(snapshot, jobs));
            }
            (Asked::Give, Answer::Given(Some(given))) if !is_late => self.steps.push(Step::Give(given)),
            // It is in place, whether or not anybody waited for that.
            (Asked::Install(_), Answer::Installed(Some(snapshot))) => self.steps.push(Step::Write(snapshot)),
            (Asked::Install(log), Answer::Installed(None)) => self.takings.give_up(log),
            (Asked::Snapshot, Answer::Snapshot(Some((_, jobs)))) => {
                // It is an old one by now. Its work on streams is asked for again with the next.
                let given_up = jobs.into_iter().map(|job| Errand::Streamed(Box::new(job.give_up())));
                self.steps.extend(given_up.map(Step::Send));
            }
            (_, Answer::Elsewhere(shard, errand)) => {
                if let Some(log) = errand.log() {
                    self.homes[log.0 as usize] = shard;
                }
                let step = Step::Send(errand);
                self.steps.extend(Some(step).filter(|step| !is_late || step.is_owed()));
            }
            (Asked::Dead, Answer::Dead(mut dead)) => self.dead[0].append(&mut dead),
            // There is nothing to be done.
            (Asked::List(..), Answer::Listed(_))
            | (Asked::Snapshot, Answer::Snapshot(None))
            | (Asked::Give, Answer::Given(_)) => {}
            (asked, answer) => panic!("{answer:?} is no answer to {asked:?}"),
        }
    }

    /// The shard asked last does not answer: the node stops, or something holds that shard up. The round is given up; there is
    /// no other before [`Keeper::answer`] or [`Keeper::forget`].
    pub fn give_up(&mut self) {
        self.steps = self.drop_steps();
        self.is_running = false;
        self.is_late = self.asked.is_some();
        // Whether there is space now it did not find out.
        self.is_unfinished = true;
    }

    /// It has given up on the shard asked last.
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// The shard asked last is gone and will never answer.
    pub fn forget(&mut self) {
        if let Some(Asked::Install(log)) = self.asked.take() {
            self.takings.give_up(log);
        }
        self.is_late = false;
    }

    /// Notes a request to the shard that has this log, and gives it out.
    pub(super) fn ask(&mut self, errand: Errand) -> (ShardId, Errand) {
        let log = errand.log().expect("each shard is asked for its dead segments by its number");
        let to = self.homes[log.0 as usize];
        self.asked = Some(match &errand {
            Errand::List(log, bound) => Asked::List(*log, *bound),
            Errand::Point(moved) => Asked::Point(moved.log, moved.bound),
            Errand::Snapshot(_) => Asked::Snapshot,
            Errand::Streamed(_) | Errand::Kept(_) | Errand::Installed(_) => Asked::Hear,
            Errand::Give(_) => Asked::Give,
            Errand::Install(arrival) => Asked::Install(arrival.log),
            Errand::Dead => Asked::Dead,
        });
        (to, errand)
    }

    /// Everything of `log` before `bound` was moved.
    pub(super) fn has_moved(&self, log: LogId, bound: LogIndex) -> bool {
        self.moved.get(&log).is_some_and(|moved| *moved >= bound)
    }
}
