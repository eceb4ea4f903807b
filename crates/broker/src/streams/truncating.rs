//! Truncation on demand: whoever asks has a record written, and is answered when it is applied.

use super::Streams;
use super::request::StreamReply;
use crate::catalog::Refusal;
use crate::log::{Brings, Commons};
use crate::post::Post;
use crate::request::Reply;
use base::Now;
use base::id::{PortId, QueueId};
use message::record::Truncate;

/// Who waits for a truncation, each with the connection's token.
#[derive(Debug, Default)]
pub(super) struct Truncations {
    /// Their records are not applied.
    asked: Vec<(Truncate, PortId, u32)>,
    /// To be told, with what is the stream's first offset.
    done: Vec<(PortId, u32, u64)>,
}

impl Truncations {
    pub(super) fn has_answers(&self) -> bool {
        !self.done.is_empty()
    }

    /// The stream is gone.
    pub(super) fn refuse(&mut self, stream: QueueId, post: &mut Post) {
        for (_, port, token) in self.asked.extract_if(.., |(truncate, ..)| truncate.stream == stream) {
            post.reply(port, token, Err(Refusal::queue_gone()));
        }
    }

    pub(super) fn answer(&mut self, post: &mut Post) {
        for (port, token, first_offset) in self.done.drain(..) {
            post.reply(port, token, Ok(Reply::Stream(StreamReply::Truncated(first_offset))));
        }
    }
}

impl Streams {
    pub(super) fn truncate(&mut self, truncate: &Truncate) {
        let Some(slot) = self.slot(truncate.stream) else { return };
        let Streams { owned, common, effects, .. } = self;
        let at_ms = i64::try_from(truncate.at_ms).unwrap_or(i64::MAX);
        let machine = &mut owned[slot as usize].machine;
        machine.truncate(at_ms, truncate.before, common, effects);
        let first_offset = machine.first_offset();
        self.sort(slot);
        self.count(slot);
        let Truncations { asked, done } = &mut self.truncations;
        // Those alike have the same answer.
        let theirs = asked.extract_if(.., |(waits, ..)| waits == truncate);
        done.extend(theirs.map(|(_, port, token)| (port, token, first_offset)));
    }
}

impl Streams {
    /// Has the beginning of a stream let go of; who asked is answered when that is on disk.
    pub(super) fn append_truncate(
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
