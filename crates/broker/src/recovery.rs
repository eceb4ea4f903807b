//! From disk to a log and back: its snapshot, and the replay of what the journal holds behind it.
//!
//! A queue's snapshot may be newer than the catalog's: it is kept until the replay of the catalog names the queue, and
//! dropped at the end if it never does.

use crate::batches::Batches;
use crate::log::{Brings, Log, NO_QUEUE};
use crate::shard::CATALOG_LOG;
use crate::turn::Turn;
use base::cursor::Reader;
use base::id::{LogId, LogIndex, QueueId, QueueSeq};
use base::{Pieces, Short, Sink};
use journal::Place;
use message::record::{self, Kind, Outcome, Positions};
use queue::{Fifo, Recovery};

/// The section of a snapshot that holds the queues of a log, or the catalog.
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
    /// The recorded state of all queues.
    ///
    /// ```text
    ///   0         4           12       20           28
    ///   | is clean | queues    | id     | cursor     | length (4) | queue's snapshot | next queue ... | streams
    /// ```
    pub(crate) fn write_snapshot(&self, is_clean: bool, bytes: &mut Pieces) {
        bytes.put(&u32::from(is_clean).to_le_bytes());
        bytes.put(&(self.queues.slab.len() as u64).to_le_bytes());
        for (_, queue) in &self.queues.slab {
            bytes.put(&queue.definition.id.0.to_le_bytes());
            bytes.put(&queue.fifo.cursor().0.to_le_bytes());
            let at = bytes.size();
            bytes.put(&[0; 4]);
            queue.fifo.write_snapshot(bytes);
            let len = (bytes.size() - at - 4) as u32;
            bytes.patch(at, &len.to_le_bytes());
        }
        if let Some(streams) = &self.streams {
            streams.write_snapshot(bytes);
        }
    }

    pub(crate) fn restore(&mut self, covered: LogIndex, bytes: &[u8]) -> Result<(), RecoveryError> {
        let bad = |_| RecoveryError::Snapshot(self.commons.id);
        let mut reader = Reader::new(bytes);
        let is_clean = reader.u32_le().map_err(bad)? == 1;
        let queues = reader.u64_le().map_err(bad)?;
        let mut restored = Vec::new();
        for _ in 0..queues {
            let id = QueueId(reader.u64_le().map_err(bad)?);
            if id == NO_QUEUE {
                return Err(RecoveryError::Snapshot(self.commons.id));
            }
            let cursor = QueueSeq(reader.u64_le().map_err(bad)?);
            let len = reader.u32_le().map_err(bad)? as usize;
            let fifo = Fifo::read_snapshot(reader.take(len).map_err(bad)?);
            restored.push((id, fifo.map_err(|_| RecoveryError::Snapshot(self.commons.id))?, cursor));
        }
        let streams = reader.rest();
        if !streams.is_empty() {
            let id = self.commons.id;
            self.streams_mut().restore(streams).map_err(|_| RecoveryError::Snapshot(id))?;
        }
        self.commons.pipeline.begin_at(covered);
        for (id, fifo, cursor) in restored {
            for run in fifo.runs() {
                *self.commons.store.segments.entry(run.segment).or_insert(0) += 1;
            }
            let cursor = is_clean.then_some(cursor);
            let slot = self.queues.slot(id);
            let recovering = self.recovering.as_mut().expect("snapshots come before the end of the replay");
            let Some(slot) = slot else {
                recovering.restored.insert(id, (fifo, cursor));
                continue;
            };
            match cursor {
                Some(cursor) => recovering.cursors.insert(slot, cursor),
                None => recovering.cursors.remove(&slot),
            };
            self.queues.slab[slot as usize].restore(fifo);
        }
        Ok(())
    }

    /// Takes in a batch of the journal: records that the snapshot does not cover are applied, the rest are known to be
    /// there.
    /// False: something before it is missing, and it was not applied: positions would no longer mean what they did.
    pub(crate) fn replay(&mut self, base: LogIndex, records: &[u8], place: Place) -> bool {
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
            self.apply_records(LogIndex(base.0 + covered as u64), &records[covered..]);
            self.commons.effects.left.clear();
            self.commons.pipeline.begin_at(next);
        }
        true
    }

    /// The replay is over: queues begin, and batches without a live message are forgotten. False: the records of a live
    /// message are in no batch, and the log must be stopped.
    pub(crate) fn finish_recovery(&mut self, turn: &mut Turn<'_>) -> bool {
        let Some(recovering) = self.recovering.take() else { return true };
        if let Some(streams) = &mut self.streams {
            streams.finish(&mut self.commons, &mut self.queues, turn);
        }
        // A queue that a snapshot held and the catalog never named was deleted.
        for (fifo, _) in recovering.restored.into_values() {
            self.commons.effects.runs_left.extend(fifo.runs());
        }
        let slots: Vec<usize> = self.queues.slab.iter().map(|(slot, _)| slot).collect();
        let mut batches = std::mem::take(&mut self.commons.store.batches);
        let (mut has_undelivered, mut is_whole) = (false, true);
        for slot in slots {
            let clean = recovering.cursors.get(&(slot as u32)).filter(|_| !recovering.has_replayed);
            let recovery = clean.map_or(Recovery::Dirty, |cursor| Recovery::Clean(*cursor));
            self.queues.slab[slot].fifo.recover(recovery, &mut self.commons.effects);
            has_undelivered |= clean.is_some() && self.queues.slab[slot].fifo.total() > 0;
            self.commons.effects.left.clear();
            self.at(slot as u32).carry_out(turn, None);
            if self.queues.slab[slot].has_clock() {
                // Handing out sets the timer.
                self.at(slot as u32).mark_dirty();
            }
            is_whole &= count_live(&mut batches, &self.queues.slab[slot].fifo);
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

/// Counts the messages that a queue still holds in each batch; false where one is in none.
fn count_live(batches: &mut Batches, fifo: &Fifo) -> bool {
    fifo.live_below(LogIndex(u64::MAX))
        .fold(true, |is_whole, (_, place)| batches.count_one(place) && is_whole)
}
