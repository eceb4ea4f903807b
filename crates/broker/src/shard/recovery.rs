//! From disk to a running shard and back: snapshots of logs, and the replay of what the journal holds behind them.
//!
//! Order: [`Shard::restore`] for each snapshot, [`Shard::replay`] for each batch of the journal in the order it was
//! written (the catalog's batches go to every shard), then [`Shard::end_replay`], [`Shard::go_by_policies`] and
//! [`Shard::finish_recovery`] once.

use super::{CATALOG_LOG, Shard};
use crate::catalog::{Catalog, Change};
use crate::recovery::{LogSnapshot, RecoveryError};
use crate::turn::Turn;
use base::brief;
use base::cursor::Reader;
use base::id::{LogId, LogIndex};
use base::{Now, Pieces, Sink};
use journal::Place;
use message::record::{self, Kind};
use std::collections::BTreeSet;

impl Shard {
    /// Whether these bytes are the state of the catalog's log, as [`Shard::restore`] takes it in.
    pub fn is_catalog(bytes: &[u8]) -> bool {
        let mut reader = Reader::new(bytes);
        let catalog = reader.u32_le().and_then(|len| reader.take(len as usize));
        catalog.is_ok_and(|catalog| Catalog::read_snapshot(catalog).is_ok())
    }

    /// Takes in the snapshot of a log: of this shard's, or of the catalog's.
    pub fn restore(&mut self, log: LogId, covered: LogIndex, bytes: &[u8]) -> Result<(), RecoveryError> {
        if log == CATALOG_LOG {
            let mut reader = Reader::new(bytes);
            let catalog_len = reader.u32_le()? as usize;
            let catalog = reader.take(catalog_len)?;
            let home = self.catalog.home();
            self.catalog = Catalog::read_snapshot(catalog).map_err(|_| RecoveryError::Snapshot(log))?;
            self.catalog.set_home(home);
            if !self.settings.plans() {
                self.catalog.forget_messages();
            }
            let queues: Vec<_> = self.catalog.queues().cloned().collect();
            for queue in queues {
                if self.logs.slot(queue.log).is_some() {
                    self.logs.claim(None, &queue);
                }
            }
            let rest = reader.rest();
            if let Some(log) = self.logs.get_mut(CATALOG_LOG) {
                return log.restore(covered, rest);
            }
            self.catalog_covered = covered;
            return Ok(());
        }
        match self.logs.get_mut(log) {
            Some(log) => log.restore(covered, bytes),
            None => Ok(()),
        }
    }

    /// Takes in a batch of the journal, if it is of a log of this shard or of the catalog's.
    pub fn replay(
        &mut self,
        log: LogId,
        base: LogIndex,
        records: &[u8],
        place: Place,
    ) -> Result<(), RecoveryError> {
        if self.logs.is_stopped(log) {
            return Ok(());
        }
        if log == CATALOG_LOG {
            self.replay_catalog(base, records)?;
        }
        if let Some(found) = self.logs.get_mut(log)
            && !found.replay(base, records, place, &self.settings.limits)
        {
            return Err(RecoveryError::Gap(log));
        }
        Ok(())
    }

    /// The snapshot of a log of this shard covers records of the journal that are at this place: before what [`Shard::replay`]
    /// takes in, in order.
    pub fn replay_covered(&mut self, log: LogId, base: LogIndex, place: Place) {
        if let Some(log) = self.logs.get_mut(log) {
            log.replay_covered(base, place);
        }
    }

    /// The journal is read to its end: batches are applied that might have been taken back. Before
    /// [`Shard::finish_recovery`].
    pub fn end_replay(&mut self) {
        let Shard { logs, settings, .. } = self;
        logs.all.iter_mut().for_each(|log| log.end_replay(&settings.limits));
    }

    /// A log of this node, this shard's or another's, holds damage: it is not replayed further, and nothing is taken
    /// from it or put into it. Requests are told so, and so are the waiters of its records that are not committed:
    /// those are still written, but no start replays so far. The other logs go on.
    pub fn stop_log(&mut self, log: LogId) {
        self.logs.stop(&mut self.post, log);
    }

    fn replay_catalog(&mut self, base: LogIndex, records: &[u8]) -> Result<(), RecoveryError> {
        let bad = RecoveryError::Record(CATALOG_LOG);
        let covered = self.logs.get_mut(CATALOG_LOG).map(|log| log.commons.pipeline.applied());
        let covered = covered.unwrap_or(self.catalog_covered);
        let mut at = base;
        let mut rest = records;
        while let Some((kind, record, after)) = record::split(rest) {
            if kind == Kind::Catalog && at >= covered {
                let change = record::read_catalog(record).and_then(|bytes| Change::decode(bytes).ok());
                let change = change.ok_or(bad.clone())?;
                if self.settings.plans() || !matches!(change, Change::Remember { .. }) {
                    self.apply_change(None, &change);
                }
            }
            at.0 += (rest.len() - after.len()) as u64;
            rest = after;
        }
        self.catalog_covered = at.max(covered);
        if rest.is_empty() { Ok(()) } else { Err(bad) }
    }

    /// The policies that count for each queue and exchange, once the journal is read to its end: the same for all shards. One
    /// that does not hear of them before [`Shard::finish_recovery`] works them out once more.
    pub fn policies_in_force(&self) -> Vec<Change> {
        self.catalog.policies_in_force()
    }

    /// Takes in what [`Shard::policies_in_force`] says.
    pub fn go_by_policies(&mut self, in_force: &[Change]) {
        // Queues are asked to go by it at the end of the recovery.
        self.catalog.go_by_policies(in_force);
    }

    /// The journal is read to its end: from now on the shard is open for business. Logs of its own that have messages whose
    /// records are nowhere are stopped here, and returned: stop them in the other shards.
    #[must_use]
    pub fn finish_recovery(&mut self, now: Now) -> Vec<LogId> {
        let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
        let missing = self.logs.finish_recovery(&mut turn);
        if !self.catalog.knows_policies() {
            self.catalog.go_by_policies(&self.catalog.policies_in_force());
        }
        if let Some(planner) = &mut self.planner {
            planner.begin(self.catalog.clone());
        }
        if self.settings.plans() {
            self.tell_ledger_all();
        }
        self.begin_sharing(now);
        let queues: Vec<_> = self.catalog.queues().cloned().collect();
        for queue in &queues {
            if !self.logs.is_stopped(queue.log) && self.logs.leads(queue.log) {
                self.go_by(now, queue);
                self.feed(now, queue);
            }
        }
        let fed: BTreeSet<_> =
            brief::collect(queues.iter().filter(|queue| queue.has_source()).map(|queue| queue.id));
        self.logs.begin_business(now, |queue| fed.contains(&queue));
        missing
    }

    /// The snapshot of a log of this shard. `is_clean`: the shard stops now, and nothing will be delivered any more.
    ///
    /// None for a stopped log: what is on disk stays what it is.
    pub fn snapshot(&self, log: LogId, is_clean: bool) -> Option<LogSnapshot> {
        if self.logs.is_stopped(log) {
            return None;
        }
        let owned = self.logs.get(log)?;
        if !owned.commons.changes.is_empty() {
            // The catalog is not so far as its log.
            return None;
        }
        let mut bytes = Pieces::default();
        if log == CATALOG_LOG {
            let mut catalog = Vec::new();
            self.catalog.write_snapshot(&mut catalog);
            bytes.put(&(catalog.len() as u32).to_le_bytes());
            bytes.put(&catalog);
        }
        owned.write_snapshot(is_clean, &mut bytes);
        Some(LogSnapshot { log, covered: owned.commons.pipeline.applied(), bytes })
    }
}
