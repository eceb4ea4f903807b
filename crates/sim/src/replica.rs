//! A replica of the logs that others agree on: it follows, and owns nothing.
//!
//! Now and then it begins anew, as a node does that comes up: with the snapshots that it kept last, its files of streams, and
//! all that was agreed on, of which the snapshots cover a part.

use crate::double::{LOGS_MAX, agreed_on};
use crate::oracle::Check;
use base::id::{LogId, LogIndex, QueueId, ShardId};
use base::{Now, Secrets};
use broker::access::AccessRules;
use broker::{CommitRule, Limits, LogSnapshot, Placement, Shard, ShardSettings};
use journal::{FaultyDisk, FileId, FileKind, FileName, Place};
use std::collections::BTreeMap;
use std::sync::Arc;
use stream_files::{StreamJob, stream_files};

/// A batch of a log.
#[derive(Debug)]
pub struct Proposal {
    /// Where it begins.
    pub base: LogIndex,
    /// Its records.
    pub records: Vec<u8>,
}

impl Proposal {
    /// Where it ends.
    pub fn end(&self) -> LogIndex {
        LogIndex(self.base.0 + self.records.len() as u64)
    }

    /// Its place on the disk of the replica, which nobody reads.
    fn place(&self) -> Place {
        Place {
            file: FileId(1),
            name: FileName::new(FileKind::Journal, 1),
            offset: self.base.0,
            len: self.records.len() as u64,
            crc: 0,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Replica {
    shard: Shard,
    limits: Limits,
    /// The files of streams.
    disk: FaultyDisk,
    /// All that was applied.
    applied: BTreeMap<LogId, Vec<Proposal>>,
    snapshots: BTreeMap<LogId, LogSnapshot>,
}

impl Replica {
    /// That of a node whose logs are never more than [`LOGS_MAX`].
    pub fn new(limits: Limits, now: Now) -> Replica {
        let mut shard = empty(limits);
        let missing = shard.finish_recovery(now);
        assert!(missing.is_empty(), "a new log misses nothing");
        let disk = FaultyDisk::new(1);
        Replica { shard, limits, disk, applied: BTreeMap::new(), snapshots: BTreeMap::new() }
    }

    /// Everything of a log before this is applied.
    pub fn applied(&self, log: LogId) -> Option<LogIndex> {
        self.shard.logs().applied(log)
    }

    /// The state of a log that is the same in each replica, from there on with the places of messages.
    pub fn canonical(&self, log: LogId, from: LogIndex) -> BTreeMap<QueueId, Vec<u8>> {
        self.shard.logs().canonical(log, from)
    }

    /// Applies the next batch of a log.
    pub fn follow(&mut self, now: Now, log: LogId, batch: Proposal) {
        self.shard.apply_agreed(now, log, batch.base, &batch.records, batch.place());
        self.applied.entry(log).or_default().push(batch);
        self.carry_out_streams(now);
    }

    /// Keeps a snapshot of a log, and puts on disk the chunks of streams that it counts on.
    pub fn keep(&mut self, now: Now, log: LogId) {
        if let Some(snapshot) = self.shard.snapshot(log, false) {
            let jobs = self.shard.logs_mut().take_stream_syncs(log);
            self.carry_out(now, jobs);
            self.snapshots.insert(log, snapshot);
        }
    }

    /// Begins anew.
    ///
    /// # Errors
    /// It does not come to where it was.
    pub fn begin_anew(&mut self, now: Now) -> Check {
        let before = std::mem::replace(&mut self.shard, empty(self.limits));
        for LogSnapshot { log, covered, bytes } in self.snapshots.values() {
            let bytes: Vec<u8> = bytes.iter().flatten().copied().collect();
            let restored = self.shard.restore(*log, *covered, &bytes);
            restored.map_err(|error| format!("a snapshot of the replica's: {error:?}"))?;
        }
        for log in agreed_on(LOGS_MAX) {
            let lengths = stream_files(&self.disk, log).map_err(|error| error.to_string())?;
            self.shard.logs_mut().recover_streams(log, &lengths);
        }
        let applied = std::mem::take(&mut self.applied);
        for (log, batches) in &applied {
            for batch in batches {
                let replayed = self.shard.replay(*log, batch.base, &batch.records, batch.place());
                replayed.map_err(|error| format!("{log:?} of the replica at {:?}: {error:?}", batch.base))?;
                self.carry_out_streams(now);
            }
        }
        self.applied = applied;
        self.shard.end_replay();
        self.carry_out_streams(now);
        let missing = self.shard.finish_recovery(now);
        if !missing.is_empty() {
            return Err(format!("the replica misses records of {missing:?}"));
        }
        for log in agreed_on(LOGS_MAX) {
            let (was, is) = (before.logs().applied(log), self.applied(log));
            if was != is {
                return Err(format!(
                    "{log:?} of the replica was at {was:?}, and is at {is:?} when it is up again"
                ));
            }
            let from = LogIndex(0);
            if before.logs().canonical(log, from) != self.canonical(log, from) {
                return Err(format!("{log:?} of the replica is not what it was when it is up again"));
            }
        }
        Ok(())
    }

    fn carry_out_streams(&mut self, now: Now) {
        let mut jobs = Vec::new();
        self.shard.take_stream_jobs(&mut jobs);
        self.carry_out(now, jobs);
    }

    fn carry_out(&mut self, now: Now, jobs: Vec<StreamJob>) {
        jobs.into_iter().for_each(|job| self.shard.stream_done(now, job.carry_out(&self.disk)));
    }
}

/// A shard with nothing in it.
fn empty(limits: Limits) -> Shard {
    let settings = ShardSettings {
        id: ShardId(0),
        placement: Placement { shards: 1, logs: LOGS_MAX },
        limits,
        rules: Arc::new(AccessRules::default()),
        node: "rabbit@replica".into(),
        relaxes_types: false,
        ledger: Arc::default(),
        seed: 1,
    };
    let mut shard = Shard::new(settings, Secrets::simulated(1));
    agreed_on(LOGS_MAX).for_each(|log| shard.logs_mut().set_commit_rule(log, CommitRule::Quorum));
    shard
}
