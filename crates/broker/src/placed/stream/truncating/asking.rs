//! The streams of a log are truncated, and keep the requests to be answered.

use super::Truncations;
use crate::log::{Brings, Commons};
use crate::placed::stream::{AtStream, Streams};
use base::Now;
use base::id::{PortId, QueueId};
use message::record::Truncate;

impl AtStream<'_> {
    pub(in crate::placed::stream) fn truncate(&mut self, truncate: &Truncate) {
        let AtStream { stream, streams: Streams { common, effects, .. }, .. } = self;
        let at_ms = i64::try_from(truncate.at_ms).unwrap_or(i64::MAX);
        stream.machine.truncate(at_ms, truncate.before, common, effects);
        let first_offset = stream.machine.first_offset();
        self.sort();
        self.count();
        let Truncations { asked, done } = &mut self.streams.truncations;
        // Those alike have the same answer.
        let theirs = asked.extract_if(.., |(waits, ..)| waits == truncate);
        done.extend(theirs.map(|(_, port, token)| (port, token, first_offset)));
    }
}

impl Streams {
    /// Has the beginning of a stream let go of; the request is answered when that is on disk.
    pub(in crate::placed::stream) fn append_truncate(
        &mut self,
        commons: &mut Commons,
        now: Now,
        stream: QueueId,
        before: u64,
        (port, token): (PortId, u32),
    ) {
        let truncate = Truncate { stream, at_ms: now.wall_ms, before };
        self.truncations.asked.push((truncate, port, token));
        commons.append(now, 0, Brings::STREAM, |records| truncate.write(records));
    }
}
