//! The streams of a log let go of segments that no queue needs any more.

use super::{References, Run};
use crate::log::Commons;
use crate::placed::Machines;
use crate::placed::stream::Streams;
use base::id::{LogIndex, QueueId};
use message::record;
use queue::stream::{Remove, Work};
use stream_files::StreamJob;

impl Streams {
    /// Has the files of doomed segments removed that nothing holds any more.
    fn remove_doomed(&mut self) {
        let References { doomed, held, is_replaying, .. } = &mut self.references;
        if *is_replaying {
            return;
        }
        let segments: Vec<u64> = doomed.extract_if(.., |segment| !held.contains_key(segment)).collect();
        if !segments.is_empty() {
            let work = Work::Remove(Remove { segments });
            self.jobs.push(StreamJob { log: self.log, stream: record::NOBODY, work });
        }
    }

    /// A snapshot of the log is being written.
    pub(crate) fn note_snapshot(&mut self) {
        self.references.known_to_next = self.common.next_file();
    }

    /// The snapshot that was made last is on disk.
    pub(crate) fn snapshot_written(&mut self) {
        let next_file = self.references.known_to_next;
        self.references.has_snapshot(next_file);
    }

    /// Ends the runs of which nothing is left: those that the queues' heads have passed, or where `looks_within` all.
    #[inline]
    pub(crate) fn end_runs(&mut self, commons: &Commons, machines: &mut Machines, looks_within: bool) {
        if !self.references.is_idle() {
            self.end_some_runs(commons, machines, looks_within);
        }
    }

    #[cold]
    #[inline(never)]
    fn end_some_runs(&mut self, commons: &Commons, machines: &mut Machines, looks_within: bool) {
        let pipeline = &commons.pipeline;
        let at = pipeline.next();
        let References { runs, fading, .. } = &mut self.references;
        let mut end = |run: &Run| fading.push_back((at, run.segment));
        runs.retain(|queue, runs| {
            // One that is not there may still be named by the catalog's replay.
            let Some((_, queue)) = machines.find_queue(*queue) else { return true };
            while let Some(first) = runs.pop_front_if(|first| first.range.last < queue.fifo.head()) {
                end(&first);
            }
            if looks_within {
                runs.retain(|run| {
                    let is_live = queue.fifo.live_within(run.range).next().is_some();
                    if !is_live {
                        end(run);
                    }
                    is_live
                });
            }
            queue.refers = !runs.is_empty();
            !runs.is_empty()
        });
        let is_on_disk = |until: LogIndex| !pipeline.is_durable() || until <= pipeline.committed();
        let references = &mut self.references;
        while let Some((_, segment)) = references.fading.pop_front_if(|(until, _)| is_on_disk(*until)) {
            references.let_go(segment);
        }
        self.remove_doomed();
    }

    /// The replay is over: queues that are not there hold nothing, and files may go.
    pub(in crate::placed::stream) fn finish_references(
        &mut self,
        commons: &Commons,
        machines: &mut Machines,
    ) {
        let at = commons.pipeline.next();
        let ids: Vec<QueueId> = self.references.runs.keys().copied().collect();
        for id in ids {
            match machines.find_queue(id) {
                Some((_, queue)) => queue.refers = true,
                None => self.references.forget(id, at),
            }
        }
        self.references.is_replaying = false;
        self.end_runs(commons, machines, false);
    }
}
