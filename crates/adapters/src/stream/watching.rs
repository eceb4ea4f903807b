//! Streams that a connection publishes to or reads: it hears of their end.

use crate::context::Context;
use base::id::QueueId;
use broker::catalog::QueueDefinition;
use std::sync::Arc;

/// Each stream once, with how many publishers and subscriptions it has here. Empty, it holds no memory.
#[derive(Debug, Default)]
pub(super) struct Watched {
    streams: Vec<(Arc<QueueDefinition>, u32)>,
}

impl Watched {
    pub(super) fn add(&mut self, context: &mut Context<'_>, stream: &Arc<QueueDefinition>) {
        match self.streams.iter_mut().find(|(own, _)| own.id == stream.id) {
            Some((_, uses)) => *uses += 1,
            None => {
                context.shard.watch_queue(context.port, stream.id, 0);
                self.streams.push((stream.clone(), 1));
            }
        }
    }

    pub(super) fn remove(&mut self, context: &mut Context<'_>, stream: QueueId) {
        let Some(at) = self.streams.iter().position(|(own, _)| own.id == stream) else { return };
        self.streams[at].1 -= 1;
        if self.streams[at].1 == 0 {
            context.shard.unwatch_queue(context.port, stream, 0);
            self.forget(at);
        }
    }

    /// A stream is gone: its definition, if it was watched.
    pub(super) fn take(&mut self, stream: QueueId) -> Option<Arc<QueueDefinition>> {
        let at = self.streams.iter().position(|(own, _)| own.id == stream)?;
        Some(self.forget(at))
    }

    /// Nothing is left of a stream's publishers and subscriptions here.
    pub(super) fn forget_all_of(&mut self, context: &mut Context<'_>, stream: QueueId) {
        if self.take(stream).is_some() {
            context.shard.unwatch_queue(context.port, stream, 0);
        }
    }

    fn forget(&mut self, at: usize) -> Arc<QueueDefinition> {
        let (stream, _) = self.streams.swap_remove(at);
        if self.streams.is_empty() {
            self.streams = Vec::new();
        }
        stream
    }

    /// Those that it is to hear of.
    pub(super) fn streams(&self) -> impl Iterator<Item = &Arc<QueueDefinition>> {
        self.streams.iter().map(|(stream, _)| stream)
    }

    pub(super) fn clear(&mut self, context: &mut Context<'_>) {
        for (stream, _) in std::mem::take(&mut self.streams) {
            context.shard.unwatch_queue(context.port, stream.id, 0);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.streams.capacity() * size_of::<(Arc<QueueDefinition>, u32)>()
    }
}
