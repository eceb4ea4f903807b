//! Truncation on demand: a request has a record written, and is answered when that is applied.

mod asking;

use super::request::StreamReply;
use crate::catalog::Refusal;
use crate::post::Post;
use crate::request::Reply;
use base::id::{PortId, QueueId};
use message::record::Truncate;

/// Requests for truncations without an answer, each with its connection and the connection's token.
#[derive(Debug, Default)]
pub(super) struct Truncations {
    /// Those with records that are not applied.
    asked: Vec<(Truncate, PortId, u32)>,
    /// Those to be answered, with the stream's first offset.
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
