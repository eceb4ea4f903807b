//! Messages of queues that lie in segments of streams: found where their records say, and made as they were when they were fed.
//!
//! A consumer gets the same message as if it had been copied. One at a time is made, in memory of its own, when it is
//! to be handed out, shown or published anew; the one that was made last is kept. A record whose message has to be read
//! is kept until then: else, where little is kept of what is read, the reads of both would drive each other out for
//! ever.
//! Not here: the holders of segments (`placed::stream::references`), reading them ([`crate::reading`]).

mod making;

use crate::placed::stream::Converter;
use base::Memory;
use base::id::{QueueId, QueueSeq};

/// Records that are kept before it is looked whether their messages are still there.
const SOUGHT_MAX: usize = 64;

/// Messages that were made, and those that are sought.
#[derive(Debug, Default)]
pub(crate) struct Referred {
    made: Option<Made>,
    sought: Vec<Sought>,
    converter: Option<Box<Converter>>,
}

/// A message that was made.
#[derive(Debug)]
struct Made {
    queue: QueueId,
    seq: QueueSeq,
    memory: Memory,
}

/// The record of a message that has to be read.
#[derive(Debug)]
struct Sought {
    slot: u32,
    queue: QueueId,
    seq: QueueSeq,
    record: Box<[u8]>,
}

impl Referred {
    /// The message that was made last is not kept any longer.
    pub(crate) fn forget_made(&mut self) {
        self.made = None;
    }

    /// Many records are kept: those go whose messages are not in their queues any more, which are looked for by the queue's slot, its
    /// id and the position.
    #[inline]
    pub(crate) fn forget_gone(&mut self, is_there: impl Fn(u32, QueueId, QueueSeq) -> bool) {
        if self.sought.len() > SOUGHT_MAX {
            self.sought.retain(|sought| is_there(sought.slot, sought.queue, sought.seq));
        }
    }

    fn sought(&self, queue: QueueId, seq: QueueSeq) -> Option<usize> {
        self.sought.iter().position(|sought| (sought.queue, sought.seq) == (queue, seq))
    }
}
