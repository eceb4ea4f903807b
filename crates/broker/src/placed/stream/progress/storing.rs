//! The streams of a log note how far consumers have come, and store it.

use super::Settled;
use crate::log::{Brings, Commons};
use crate::placed::Machines;
use crate::placed::stream::Streams;
use base::Now;
use base::id::QueueId;
use message::record::Track;
use std::sync::Arc;

impl Streams {
    /// A consumer has come so far; it is stored at the end of the turn, once for all it settled in it.
    pub(in crate::placed::stream) fn note_progress(&mut self, stream: QueueId, settled: Settled) {
        let is_its =
            |(of, known): &&mut (QueueId, Settled)| *of == stream && Arc::ptr_eq(&known.name, &settled.name);
        match self.progress.iter_mut().find(is_its) {
            Some((_, last)) => last.upto = settled.upto,
            None => self.progress.push((stream, settled)),
        }
    }

    /// Stores how far consumers have come.
    #[cold]
    pub(in crate::placed::stream) fn store_progress(
        &mut self,
        commons: &mut Commons,
        machines: &mut Machines,
        now: Now,
        most: usize,
    ) {
        for (stream, Settled { name, owner, upto: offset }) in std::mem::take(&mut self.progress) {
            if let Some(slot) = machines.owned_slot(stream)
                && let Some(owned) = machines.stream_mut(slot)
            {
                owned.tell(&name, offset, most);
                let track =
                    Track { stream, at_ms: now.wall_ms, offset, owner: Some(owner), reference: &name };
                commons.pipeline.append(now, Brings::NOTHING, |records| track.write(records));
            }
        }
    }
}
