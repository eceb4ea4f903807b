//! The other nodes of a quorum, and nothing of them but their word: when they agree on the batches of a log, and how far;
//! and that they take back what they have not agreed on. One replica follows, without an owner, and begins
//! anew now and then.
//!
//! Agreement comes late and in pieces, before a batch is on the node's disk or after. Where a log loses its leader, all that
//! is not agreed on leaves the journal, and the same node leads again some time later.
//! Invariants looked at: nothing is applied that is not agreed on; where the replica has applied as much as the leader has
//! committed, the canonical bytes of both are the same.

use crate::machine::Machine;
use crate::oracle::Check;
use crate::replica::{Proposal, Replica};
use base::id::{LogId, LogIndex};
use base::{Buffer, Now, Random};
use broker::{Limits, Shard};
use journal::{Batch, Mark, Sealed};
use node::Stop;
use std::collections::{BTreeMap, VecDeque};

/// Logs a data folder may come to have.
pub const LOGS_MAX: u32 = 12;

/// The meaning of a mark is the business of those that agree.
const TAKEN_BACK: Mark = Mark([1; Mark::LEN]);

/// A log that others agree on.
#[derive(Debug, Default)]
struct Known {
    /// Proposed, and not applied by the replica.
    batches: VecDeque<Proposal>,
    /// Everything before this is agreed on.
    agreed: LogIndex,
    /// So much of that the log was told on its way between two shards: it knows once it has applied it.
    told_on_its_way: LogIndex,
    /// Proposed, and taken back: the others may have them, and agree on them as long as no other batch comes.
    doubtful: VecDeque<Sealed>,
    /// The replica cannot follow: records are on the node's disk that it never saw, or damage lost some.
    is_lost: bool,
}

impl Known {
    /// Where the batches end that are proposed and not agreed on.
    fn waiting(&self) -> impl Iterator<Item = LogIndex> {
        self.batches.iter().map(Proposal::end).filter(|end| *end > self.agreed)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Double {
    logs: BTreeMap<LogId, Known>,
    replica: Replica,
    /// Leaders resign in this run.
    takes_back: bool,
    /// How often leader and replica were compared.
    pub compared: u64,
    /// How often a leader resigned.
    pub resigned: u64,
    /// Batches that were taken back and agreed on after all.
    pub after_all: u64,
    /// How often the replica began anew.
    pub begun: u64,
}

/// The logs that others agree on, in a node with so many.
pub fn agreed_on(logs: u32) -> impl Iterator<Item = LogId> {
    (1..logs).map(LogId)
}

impl Double {
    /// That of a node whose logs are never more than [`LOGS_MAX`].
    pub fn new(limits: Limits, now: Now, takes_back: bool) -> Double {
        let logs = agreed_on(LOGS_MAX).map(|log| (log, Known::default())).collect();
        let replica = Replica::new(limits, now);
        Double { logs, replica, takes_back, compared: 0, resigned: 0, after_all: 0, begun: 0 }
    }

    /// The replica does not follow any more: something on the node's disk is not what was written.
    pub fn lose(&mut self) {
        self.logs.values_mut().for_each(|known| known.is_lost = true);
    }

    /// Takes note of what a shard proposes.
    ///
    /// # Errors
    /// Something is applied that is not agreed on.
    pub fn watch(&mut self, shard: &Shard) -> Check {
        for (log, known) in &mut self.logs {
            let is_here = shard.logs().is_agreed_on(*log);
            let Some(applied) = shard.logs().applied(*log).filter(|_| is_here) else { continue };
            if applied > known.agreed {
                return Err(format!("{log:?} is applied to {applied:?}, agreed on to {:?}", known.agreed));
            }
            for (sealed, _) in shard.logs().proposed(*log) {
                let end = known.batches.back().map_or(known.agreed, Proposal::end);
                if sealed.base == end {
                    let (base, records) = (sealed.base, sealed.records().to_vec());
                    known.batches.push_back(Proposal { base, records });
                }
            }
        }
        Ok(())
    }

    /// Some batches are agreed on; or a leader resigns, or leads again.
    pub fn step(&mut self, node: &mut Machine, now: Now, dice: &mut Random) -> Result<Check, Stop> {
        let logs: Vec<LogId> = self.logs.keys().copied().collect();
        let log = logs[dice.below(logs.len() as u64) as usize];
        match dice.below(200) {
            0..10 => self.replica.keep(now, log),
            10..12 => {
                self.begun += 1;
                return Ok(self.replica.begin_anew(now));
            }
            _ => {}
        }
        // A leader that resigns before it has heard would take back what is agreed on.
        let has_heard = node.applied(log) >= Some(self.logs[&log].told_on_its_way);
        if !self.logs[&log].doubtful.is_empty() && dice.one_in(4) {
            return self.agree_after_all(node, now, log);
        }
        let sides = if self.logs[&log].waiting().next().is_some() { 20 } else { 100 };
        if self.takes_back && dice.one_in(sides) && has_heard {
            if node.leads(log) {
                self.take_back(node, now, log)?;
            } else {
                self.logs.entry(log).or_default().doubtful.clear();
                node.lead(now, log);
            }
            return Ok(Ok(()));
        }
        let ends: Vec<LogIndex> = self.logs[&log].waiting().collect();
        if ends.is_empty() {
            return Ok(Ok(()));
        }
        let end = ends[dice.below(ends.len() as u64) as usize];
        Ok(self.agree(node, now, log, end))
    }

    /// Everything is agreed on, and each log has its leader.
    pub fn agree_all(&mut self, node: &mut Machine, now: Now) -> Check {
        let logs: Vec<LogId> = self.logs.keys().copied().collect();
        for log in logs {
            self.logs.entry(log).or_default().doubtful.clear();
            node.lead(now, log);
            if let Some(end) = self.logs[&log].waiting().last() {
                self.agree(node, now, log, end)?;
            }
            self.follow(node, now, log)?;
        }
        Ok(())
    }

    /// Nothing waits for agreement or is still to be proposed, and each log of this node has its leader. What nobody waits
    /// for is proposed after a while: until then it is not applied either.
    pub fn is_idle(&self, node: &Machine) -> bool {
        !node.has_unwritten()
            && self.logs.iter().all(|(log, known)| {
                known.waiting().next().is_none() && (node.leads(*log) || node.applied(*log).is_none())
            })
    }

    fn agree(&mut self, node: &mut Machine, now: Now, log: LogId, end: LogIndex) -> Check {
        let known = self.logs.entry(log).or_default();
        known.agreed = end;
        if !node.commit_outside(now, log, end) {
            known.told_on_its_way = end;
        }
        self.follow(node, now, log)
    }

    /// The replica applies what is agreed on, no further than the node committed: the node may yet lose what its disk has not.
    /// Where the replica has applied as much, the node has applied that and nothing more.
    fn follow(&mut self, node: &Machine, now: Now, log: LogId) -> Check {
        let Double { logs, replica, compared, .. } = self;
        let Some(committed) = node.committed(log) else { return Ok(()) };
        let known = logs.entry(log).or_default();
        let is_due = |batch: &mut Proposal| batch.end() <= known.agreed.min(committed);
        while let Some(batch) = known.batches.pop_front_if(is_due) {
            if known.is_lost {
                continue;
            }
            replica.follow(now, log, batch);
        }
        if known.is_lost || replica.applied(log) != Some(committed) {
            return Ok(());
        }
        *compared += 1;
        let (from, ours) = node.canonical(log);
        let theirs = replica.canonical(log, from);
        if ours == theirs {
            return Ok(());
        }
        let ids = ours.keys().chain(theirs.keys());
        let unlike: Vec<_> = ids.filter(|id| ours.get(id) != theirs.get(id)).collect();
        Err(format!("leader and replica of {log:?} differ at {committed:?} in {unlike:?}"))
    }

    /// The leader of a log resigns: what is not agreed on leaves the journal. Where there is no space to say so, it stays.
    fn take_back(&mut self, node: &mut Machine, now: Now, log: LogId) -> Result<(), Stop> {
        let known = self.logs.entry(log).or_default();
        let base = known.agreed;
        if known.waiting().next().is_some() {
            let nothing = Batch::new(log, base, Buffer::default()).seal(now.wall_ms);
            let proposed = node.proposed(log);
            if node.write_mark(now, Sealed { mark: Some(TAKEN_BACK), ..nothing })?.is_none() {
                return Ok(());
            }
            known.batches.retain(|batch| batch.end() <= base);
            known.doubtful = proposed.into();
        }
        self.resigned += 1;
        node.resign(now, log);
        Ok(())
    }

    /// The first batch that was taken back is agreed on after all: it comes from the others, and is written again.
    fn agree_after_all(&mut self, node: &mut Machine, now: Now, log: LogId) -> Result<Check, Stop> {
        let known = self.logs.entry(log).or_default();
        let is_next = known.doubtful.front().is_some_and(|batch| Some(batch.base) == node.applied(log));
        let Some(batch) = known.doubtful.pop_front().filter(|_| is_next) else { return Ok(Ok(())) };
        let proposal = Proposal { base: batch.base, records: batch.records().to_vec() };
        let Some(place) = node.write_mark(now, batch.clone())? else { return Ok(Ok(())) };
        self.after_all += 1;
        known.agreed = proposal.end();
        known.batches.push_back(proposal);
        if !node.apply_taken_back(now, log, &batch, place) {
            return Ok(Err(format!("{log:?} has nothing that was taken back")));
        }
        Ok(self.follow(node, now, log))
    }

    /// The node has come up again. It has applied all that its journal holds: so much the others agree on.
    ///
    /// # Errors
    /// Something is gone that was agreed on and on its disk.
    pub fn restarted(&mut self, node: &mut Machine, now: Now) -> Check {
        let logs: Vec<LogId> = self.logs.keys().copied().collect();
        for log in logs {
            let Some(applied) = node.applied(log) else { continue };
            let replica = self.replica.applied(log);
            let known = self.logs.entry(log).or_default();
            known.batches.retain(|batch| batch.end() <= applied);
            let end = known.batches.back().map(Proposal::end).or(replica);
            if !known.is_lost && replica > Some(applied) {
                return Err(format!("{log:?} goes to {applied:?}, and the replica to {replica:?}"));
            }
            known.is_lost |= end != Some(applied);
            if known.is_lost {
                known.batches.clear();
            }
            (known.agreed, known.told_on_its_way) = (applied, LogIndex(0));
            known.doubtful.clear();
            self.follow(node, now, log)?;
        }
        Ok(())
    }
}
