//! Files of logs: moves from the journal to segments, jobs of streams, and segments nothing live is left in.

use super::Logs;
use super::replacing::replace;
use crate::log::Log;
use crate::moving::{MoveJob, Moved};
use crate::placed::Placed;
use crate::placed::stream::Streams;
use crate::post::Post;
use crate::recovery::RecoveryError;
use crate::turn::Turn;
use base::id::{LogId, LogIndex};
use std::collections::{BTreeMap, BTreeSet};
use stream_files::{StreamDone, StreamJob};

impl Logs {
    /// Lists what still lives of `log` before `bound`, the end of what the journal files left behind hold of it, or of
    /// the first part of that: the job's own bound says how far it goes. One job of a log at a time.
    pub fn begin_move(&self, log: LogId, bound: LogIndex) -> Option<MoveJob> {
        if self.is_stopped(log) {
            return None;
        }
        self.get(log).map(|log| MoveJob::of(log, bound))
    }

    /// The messages that [`Logs::begin_move`] listed are copied: see [`crate::Shard::finish_move`].
    pub(crate) fn finish_move(&mut self, post: &mut Post, moved: &Moved) {
        if !moved.damaged.is_empty() {
            // A message that cannot be read is in no segment. Nothing is pointed elsewhere, so no file is released.
            return self.stop_everywhere(post, moved.log);
        }
        if let Some(slot) = self.slot(moved.log) {
            moved.finish(&mut self.all[slot], &mut self.dead_segments);
        }
    }

    /// Takes the segments nothing live is left in: they may be deleted once a snapshot of their log was written since.
    pub fn take_dead_segments(&mut self) -> Vec<u64> {
        for log in &mut self.all {
            log.commons.let_segments_go(&mut self.dead_segments);
        }
        std::mem::take(&mut self.dead_segments)
    }

    /// The segments that messages of queues here are in.
    pub fn segments_in_use(&self) -> impl Iterator<Item = u64> + '_ {
        self.all.iter().flat_map(|log| log.commons.store.segments.keys().copied())
    }

    /// The segments that messages of a log that lives here are in.
    pub fn segments_of(&self, log: LogId) -> Option<BTreeSet<u64>> {
        self.get(log).map(|log| log.commons.store.segments.keys().copied().collect())
    }

    /// A log that another node leads goes on from the state `other` comes to: see [`super::replacing`].
    ///
    /// # Errors
    /// It is not to be had.
    pub(crate) fn replace(
        &mut self,
        turn: &mut Turn<'_>,
        other: Log,
        snapshot: (LogIndex, &[u8]),
        moved: &Moved,
    ) -> Result<(), RecoveryError> {
        let id = other.commons.id;
        let Some(slot) = self.slot(id) else { return Err(RecoveryError::Gap(id)) };
        let log = &mut self.all[slot];
        replace(log, other, turn, snapshot, moved, &mut self.dead_segments)?;
        log.machines.iter_mut().for_each(Placed::begin_tally);
        Ok(())
    }

    /// Between the snapshots and the replay: the streams of a log go on with the files there are, by segment and their
    /// bytes. The segments that are anybody's; files of others are [`stream_files::Strays`].
    pub fn recover_streams(&mut self, log: LogId, lengths: &BTreeMap<u64, u64>) -> BTreeSet<u64> {
        let segments = self.get_mut(log).and_then(|log| log.recover_streams(lengths));
        self.has_streams |= segments.is_some();
        segments.unwrap_or_default()
    }

    /// The segments of a log that are anybody's, and how many bytes of each file are; of those that no stream has, all.
    pub fn stream_segments(&self, log: LogId) -> BTreeMap<u64, u64> {
        let Some(log) = self.get(log) else { return BTreeMap::new() };
        let segments = |streams: &Streams| streams.segments(&log.machines);
        log.streams.get().map(segments).unwrap_or_default()
    }

    /// Moves the jobs of streams for disks into `into`. Files of a deleted stream go at once: the deletion is committed, as is
    /// every change of the catalog that takes effect.
    pub(crate) fn take_stream_jobs(&mut self, into: &mut Vec<StreamJob>) {
        if !self.has_streams {
            return;
        }
        for log in &mut self.all {
            let Log { streams, commons, machines, .. } = log;
            let Some(streams) = streams.get_mut() else { continue };
            streams.end_runs(commons, machines, false);
            streams.take_jobs(into);
        }
    }

    /// A job for a stream came back.
    pub(crate) fn stream_done(&mut self, turn: &mut Turn<'_>, done: StreamDone) {
        let Some(log) = self.get_mut(done.log) else { return };
        if let Some(streams) = log.streams.get_mut() {
            streams.done(&mut log.machines, turn.now, done);
        }
        // While the journal is replayed nobody is handed anything.
        if log.recovering.is_none() {
            log.dispatch(turn);
        }
    }

    /// Takes the syncs that must be done before the snapshot of a log is on disk that [`crate::Shard::snapshot`] has
    /// just made. Each is to be answered as others; where one fails, the snapshot is not to be written.
    pub fn take_stream_syncs(&mut self, log: LogId) -> Vec<StreamJob> {
        let Some(Log { streams, commons, machines, .. }) = self.get_mut(log) else { return Vec::new() };
        let Some(streams) = streams.get_mut() else { return Vec::new() };
        streams.end_runs(commons, machines, true);
        streams.note_snapshot();
        streams.syncs(machines)
    }

    /// The snapshot of a log that [`crate::Shard::snapshot`] made last is on disk, and with it what [`Logs::take_stream_syncs`] gave.
    pub fn snapshot_written(&mut self, log: LogId) {
        if let Some(streams) = self.get_mut(log).and_then(|log| log.streams.get_mut()) {
            streams.snapshot_written();
        }
    }
}
