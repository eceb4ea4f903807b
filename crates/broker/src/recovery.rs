//! From disk to a log and back: its snapshot, and the replay of what the journal holds behind it.
//!
//! A log knows its machines by its own snapshot and records. The catalog says which of them are owned: at the end of the
//! replay those that it does not name are closed, and those that the log does not know are opened ([`Log::agree_with_catalog`]).

use crate::limits::Limits;
use crate::log::{Brings, Log, Origins};
use crate::placed::Recovering;
use crate::shard::CATALOG_LOG;
use crate::turn::Turn;
use base::id::{LogId, LogIndex};
use base::{Pieces, Short};
use journal::Place;
use message::record::{self, Kind, Outcome, Positions};
use std::collections::{BTreeMap, BTreeSet};

/// The section of a snapshot that holds the machines of a log, or the catalog.
pub const SECTION: u32 = 1;

/// Why a snapshot or a batch cannot be taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryError {
    /// The snapshot of this log is not what any version of ours wrote.
    Snapshot(LogId),
    /// A batch of this log holds something that is no record.
    Record(LogId),
    /// Records of this log are missing: see [`crate::Shard::stop_log`].
    Gap(LogId),
}

impl From<Short> for RecoveryError {
    fn from(_: Short) -> RecoveryError {
        RecoveryError::Snapshot(CATALOG_LOG)
    }
}

/// The state of a log to be written as a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSnapshot {
    /// The log.
    pub log: LogId,
    /// Everything before this is in it.
    pub covered: LogIndex,
    /// The content of section [`SECTION`].
    pub bytes: Pieces,
}

impl Log {
    /// The recorded state of all machines.
    pub(crate) fn write_snapshot(&self, is_clean: bool, bytes: &mut Pieces) {
        self.commons.origins.write_part(bytes);
        self.machines.write_snapshot(is_clean, &self.streams, bytes);
    }

    pub(crate) fn restore(&mut self, covered: LogIndex, bytes: &[u8]) -> Result<(), RecoveryError> {
        let Log { commons, machines, streams, recovering, .. } = self;
        let recovering = recovering.as_mut().expect("snapshots come before the end of the replay");
        let id = commons.id;
        let split = Origins::split(bytes).map_err(|_| RecoveryError::Snapshot(id))?;
        commons.origins = split.0;
        let restored = machines.restore(split.1, (commons, streams), recovering);
        restored.map_err(|_| RecoveryError::Snapshot(id))?;
        commons.pipeline.begin_at(covered);
        Ok(())
    }

    /// Between the snapshots and the replay: the streams go on with the files there are, by segment and their bytes. The
    /// segments that are anybody's; none: there never was a stream.
    pub(crate) fn recover_streams(&mut self, lengths: &BTreeMap<u64, u64>) -> Option<BTreeSet<u64>> {
        let Log { machines, streams, .. } = self;
        let streams = streams.get_mut()?;
        streams.recover(machines, lengths);
        Some(streams.segments(machines).into_keys().collect())
    }

    /// Takes in a batch of the journal: records that the snapshot does not cover are applied, the rest are known to be
    /// there. In a log that others have to agree on a batch may be taken back by one that comes later: nothing is applied
    /// before [`Log::end_replay`].
    /// False: something before it is missing, and it was not applied: positions would no longer mean what they did.
    pub(crate) fn replay(&mut self, base: LogIndex, records: &[u8], place: Place, limits: &Limits) -> bool {
        let applied = self.commons.pipeline.applied();
        if let Some(recovering) = &mut self.recovering
            && self.commons.pipeline.is_agreed_on()
        {
            return recovering.keep(applied, Kept { base, records: records.to_vec(), place });
        }
        self.replay_at_once(base, records, place, limits)
    }

    /// Takes in where records are that the snapshot covers: messages of them may live.
    pub(crate) fn replay_covered(&mut self, base: LogIndex, place: Place) {
        self.commons.store.batches.push(base, place.len as u32, None, Some(place), 0);
    }

    /// The journal is read to its end: batches that might have been taken back are applied.
    pub(crate) fn end_replay(&mut self, limits: &Limits) {
        let kept = self.recovering.as_mut().map(|recovering| std::mem::take(&mut recovering.kept));
        for Kept { base, records, place } in kept.unwrap_or_default() {
            let is_next = self.replay_at_once(base, &records, place, limits);
            assert!(is_next, "batches that are kept follow on each other");
        }
    }

    fn replay_at_once(&mut self, base: LogIndex, records: &[u8], place: Place, limits: &Limits) -> bool {
        if base > self.commons.pipeline.applied() {
            return false;
        }
        let next = LogIndex(base.0 + records.len() as u64);
        self.commons.store.batches.push(base, records.len() as u32, None, Some(place), 0);
        if next > self.commons.pipeline.applied() {
            let covered = self.commons.pipeline.applied().0.saturating_sub(base.0) as usize;
            if let Some(recovering) = &mut self.recovering {
                recovering.has_replayed = true;
            }
            self.apply_records(LogIndex(base.0 + covered as u64), &records[covered..], limits);
            self.commons.effects.left.clear();
            self.commons.pipeline.begin_at(next);
        }
        true
    }

    /// The replay is over: machines begin, and batches without a live message are forgotten. False: the records of a live
    /// message are in no batch, and the log must be stopped.
    pub(crate) fn finish_recovery(&mut self, turn: &mut Turn<'_>) -> bool {
        let Some(recovering) = self.recovering.take() else { return true };
        self.streams.end_replay();
        if let Some(streams) = self.streams.get_mut() {
            streams.finish(&mut self.machines, &mut self.commons, turn);
        }
        let mut batches = std::mem::take(&mut self.commons.store.batches);
        let (mut has_undelivered, mut is_whole) = (false, true);
        for slot in self.machines.slots() {
            let recovered = self.at(slot).recover(turn, &recovering, &mut batches);
            has_undelivered |= recovered.has_undelivered;
            is_whole &= recovered.is_whole;
        }
        batches.settle_counts();
        self.commons.store.batches = batches;
        if !is_whole {
            // Nothing is written of what recovery itself would have told, and no segment is let go of.
            self.commons.pipeline.begin_at(self.commons.pipeline.whole_batches_end());
            self.commons.effects.runs_left.clear();
        } else if has_undelivered {
            // From here on something may be delivered, which costs no record: the snapshot of the clean end must not be
            // taken for the last word by whoever starts after a crash.
            self.commons.pipeline.append(turn.now, Brings::FLUSH, |records| {
                // It changes nothing: a purge of nothing from no queue.
                let (nobody, outcome) = (record::NOBODY, Outcome::Released);
                Positions::write(Kind::Purge, nobody, outcome, turn.now.wall_ms, 0, &[], records);
            });
        }
        is_whole
    }
}

/// A batch of the journal that a later one may take back.
#[derive(Debug)]
pub(crate) struct Kept {
    base: LogIndex,
    records: Vec<u8>,
    place: Place,
}

impl Kept {
    fn end(&self) -> LogIndex {
        LogIndex(self.base.0 + self.records.len() as u64)
    }
}

impl Recovering {
    /// Keeps a batch of a log of which everything before `applied` is applied, in place of those from its base on. One
    /// without records takes those away and no more. False: something before it is missing.
    fn keep(&mut self, applied: LogIndex, batch: Kept) -> bool {
        while self.kept.pop_back_if(|kept| kept.base >= batch.base).is_some() {}
        let end = self.kept.back().map_or(applied, |kept| kept.end().max(applied));
        let follows = batch.base <= end;
        if follows && !batch.records.is_empty() {
            self.kept.push_back(batch);
        }
        follows
    }
}
