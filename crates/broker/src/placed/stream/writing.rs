//! Jobs of the disks for streams, on their way out and back.

use super::Streams;
use crate::notices::DrivenOut;
use base::Now;
use base::id::QueueId;
use queue::stream::{Done, Effect, Remove, Stream, Work};
use stream_files::{StreamDone, StreamJob};

/// Memory of a stream's chunks that are not written beyond which they are, bytes.
const STREAM_UNWRITTEN_MAX: usize = 1 << 20;

/// As [`STREAM_UNWRITTEN_MAX`], of all streams of a log.
const LOG_UNWRITTEN_MAX: usize = 16 << 20;

/// Milliseconds after which a failed write is tried again.
const RETRY_MS: u64 = 500;

impl Streams {
    /// Counts anew what is not written of a stream.
    pub(super) fn count(&mut self, slot: u32) {
        let stream = &mut self.owned[slot as usize];
        let unwritten = stream.machine.unwritten_bytes();
        self.unwritten = self.unwritten - stream.unwritten + unwritten;
        stream.unwritten = unwritten;
    }

    /// Has a stream written, or all of them, where too much is in memory alone.
    pub(super) fn write_some(&mut self, slot: u32) {
        self.count(slot);
        // A failed write is tried again at its time.
        if self.retry_at.is_some() {
            return;
        }
        if self.owned[slot as usize].unwritten >= STREAM_UNWRITTEN_MAX {
            self.write(slot);
        }
        if self.unwritten >= LOG_UNWRITTEN_MAX {
            self.write_all();
        }
    }

    fn write(&mut self, slot: u32) {
        let stream = &mut self.owned[slot as usize];
        if let Some(work) = stream.machine.take_write() {
            self.jobs.push(StreamJob { log: self.log, stream: stream.definition.id, work });
        }
    }

    fn write_all(&mut self) {
        let slots: Vec<u32> = self.owned.iter().map(|(slot, _)| slot as u32).collect();
        for slot in slots {
            if self.owned[slot as usize].unwritten > 0 {
                self.write(slot);
            }
        }
    }

    /// Tries what could not be written, if it is time.
    pub(crate) fn retry(&mut self, now: Now) {
        if self.retry_at.is_some_and(|at| at <= now.mono_ns) {
            self.retry_at = None;
            self.write_all();
        }
    }

    /// All that must be on disk before a snapshot of the log is.
    pub(crate) fn syncs(&mut self) -> Vec<StreamJob> {
        let mut jobs = Vec::new();
        for (_, stream) in &mut self.owned {
            if let Some(work) = stream.machine.take_sync() {
                jobs.push(StreamJob { log: self.log, stream: stream.definition.id, work });
            }
        }
        jobs
    }

    /// A stream is gone: its files go when nothing is being written to them any more.
    pub(super) fn end(&mut self, id: QueueId, mut machine: Stream) {
        if machine.segments().next().is_none() {
            return;
        }
        let mut effects = Vec::new();
        machine.end(&mut self.common, &mut effects);
        if !self.remove_files(id, effects) {
            self.leaving.insert(id, machine);
        }
    }

    /// Has files removed if a machine asked for that. True: it did.
    fn remove_files(&mut self, id: QueueId, effects: Vec<Effect>) -> bool {
        let mut has_asked = false;
        for effect in effects {
            if let Effect::Work(Work::Remove(Remove { segments })) = effect {
                has_asked = true;
                let segments = self.references.doom(segments);
                if !segments.is_empty() {
                    let work = Work::Remove(Remove { segments });
                    self.removals.push(StreamJob { log: self.log, stream: id, work });
                }
            }
        }
        has_asked
    }

    /// Takes the result of a job.
    pub(crate) fn done(&mut self, now: Now, done: StreamDone) {
        if let Some(mut machine) = self.leaving.remove(&done.stream) {
            let mut effects = Vec::new();
            machine.done(done.done, &mut self.common, &mut effects);
            if !self.remove_files(done.stream, effects) {
                self.leaving.insert(done.stream, machine);
            }
            return;
        }
        let Some(slot) = self.slot(done.stream) else { return };
        let has_failed = match &done.done {
            Done::Written(written) => written.result.is_err(),
            _ => false,
        };
        let was_flushed = matches!(done.done, Done::Synced(_));
        let Streams { owned, common, effects, .. } = self;
        owned[slot as usize].machine.done(done.done, common, effects);
        self.sort(slot);
        if was_flushed {
            self.feed_on(slot);
        }
        if has_failed {
            self.retry_at = Some(now.after_ms(RETRY_MS));
        }
        self.write_some(slot);
    }
}

impl Streams {
    /// Moves the jobs that are to be carried out into `into`, and what is to be removed into `removals`.
    pub(crate) fn take_jobs(&mut self, into: &mut Vec<StreamJob>, removals: &mut Vec<StreamJob>) {
        into.append(&mut self.jobs);
        removals.append(&mut self.removals);
    }

    /// How many stored offsets others took the place of since this was asked last, and the last of them.
    #[inline]
    pub(crate) fn take_driven_out(&mut self) -> Option<(u64, DrivenOut)> {
        let (count, last) = &mut self.driven_out;
        Some((std::mem::take(count), last.take()?))
    }
}
