//! Jobs of the disks for streams, on their way out and back.

use super::{AtStream, Streams};
use crate::notices::DrivenOut;
use crate::placed::Machines;
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

impl AtStream<'_> {
    /// Counts anew what is not written of the stream.
    pub(super) fn count(&mut self) {
        let AtStream { stream, streams, .. } = self;
        let unwritten = stream.machine.unwritten_bytes();
        streams.unwritten = streams.unwritten - stream.unwritten + unwritten;
        stream.unwritten = unwritten;
    }

    fn write(&mut self) {
        let AtStream { stream, streams, .. } = self;
        if let Some(work) = stream.machine.take_write() {
            streams.jobs.push(StreamJob { log: streams.log, stream: stream.id, work });
        }
    }

    /// A job of the stream came back.
    fn done(&mut self, now: Now, done: Done) {
        let has_failed = match &done {
            Done::Written(written) => written.result.is_err(),
            _ => false,
        };
        let was_flushed = matches!(done, Done::Synced(_));
        let AtStream { stream, streams: Streams { common, effects, .. }, .. } = self;
        stream.machine.done(done, common, effects);
        self.sort();
        if was_flushed {
            self.feed_on();
        }
        if has_failed {
            self.streams.retry_at = Some(now.after_ms(RETRY_MS));
        }
    }
}

impl Streams {
    /// Has a stream written, or all of them, where too much is in memory alone.
    pub(super) fn write_some(&mut self, machines: &mut Machines, slot: u32) {
        let Some(mut at) = self.at(machines, slot) else { return };
        at.count();
        // A failed write is tried again at its time.
        if at.streams.retry_at.is_some() {
            return;
        }
        if at.stream.unwritten >= STREAM_UNWRITTEN_MAX {
            at.write();
        }
        if self.unwritten >= LOG_UNWRITTEN_MAX {
            self.write_all(machines);
        }
    }

    fn write_all(&mut self, machines: &mut Machines) {
        for slot in self.all() {
            if let Some(mut at) = self.at(machines, slot)
                && at.stream.unwritten > 0
            {
                at.write();
            }
        }
    }

    /// Tries what could not be written, if it is time.
    pub(crate) fn retry(&mut self, machines: &mut Machines, now: Now) {
        if self.retry_at.is_some_and(|at| at <= now.mono_ns) {
            self.retry_at = None;
            self.write_all(machines);
        }
    }

    /// All that must be on disk before a snapshot of the log is.
    pub(crate) fn syncs(&self, machines: &mut Machines) -> Vec<StreamJob> {
        let mut jobs = Vec::new();
        for slot in &self.slots {
            if let Some(stream) = machines.stream_mut(*slot)
                && let Some(work) = stream.machine.take_sync()
            {
                jobs.push(StreamJob { log: self.log, stream: stream.id, work });
            }
        }
        jobs
    }

    /// A stream is gone: its files go when nothing is being written to them any more.
    pub(crate) fn end(&mut self, id: QueueId, mut machine: Stream) {
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
                    self.jobs.push(StreamJob { log: self.log, stream: id, work });
                }
            }
        }
        has_asked
    }

    /// Takes the result of a job.
    pub(crate) fn done(&mut self, machines: &mut Machines, now: Now, done: StreamDone) {
        if let Some(mut machine) = self.leaving.remove(&done.stream) {
            let mut effects = Vec::new();
            machine.done(done.done, &mut self.common, &mut effects);
            if !self.remove_files(done.stream, effects) {
                self.leaving.insert(done.stream, machine);
            }
            return;
        }
        let Some(slot) = machines.slot(done.stream) else { return };
        if let Some(mut at) = self.at(machines, slot) {
            at.done(now, done.done);
            self.write_some(machines, slot);
        }
    }

    /// Moves the jobs that are to be carried out into `into`.
    pub(crate) fn take_jobs(&mut self, into: &mut Vec<StreamJob>) {
        into.append(&mut self.jobs);
    }

    /// How many stored offsets others took the place of since this was asked last, and the last of them.
    #[inline]
    pub(crate) fn take_driven_out(&mut self) -> Option<(u64, DrivenOut)> {
        let (count, last) = &mut self.driven_out;
        Some((std::mem::take(count), last.take()?))
    }
}
