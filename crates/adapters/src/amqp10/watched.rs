//! The queues whose end a session wants to hear of.
//!
//! Invariant: the broker is asked for news of exactly these.

use super::address::Destination;
use crate::context::Context;
use base::id::QueueId;
use broker::{Publisher, ReplyAddress};

/// The queues a session wants to hear of, with their names.
#[derive(Debug, Default)]
pub(super) struct Watched(pub(super) Vec<(QueueId, Box<str>)>);

impl Watched {
    /// Bytes of memory it holds.
    pub(super) fn heap_bytes(&self) -> usize {
        let names: usize = self.0.iter().map(|(_, name)| name.len()).sum();
        size_of::<Watched>() + self.0.capacity() * size_of::<(QueueId, Box<str>)>() + names
    }
}

/// Something is sent over a link for the first time; false: ask again, its queue is not there.
#[cold]
#[inline(never)]
pub(super) fn first_sent(
    context: &mut Context<'_>,
    session: u32,
    publisher: &mut Publisher,
    watched: &mut Option<Box<Watched>>,
    destination: Option<&Destination>,
) -> bool {
    let Some(Destination { key, .. }) = destination.filter(|to| to.exchange.is_empty()) else { return true };
    let vhost = publisher.access().vhost();
    let Some(queue) = context.shard.catalog().queue_by_name(vhost, key.as_bytes()).map(|queue| queue.id)
    else {
        // Where replies go is no queue.
        return ReplyAddress::read(key.as_bytes(), vhost).is_some();
    };
    watch(context, session, watched, queue, key);
    true
}

/// The session wants to hear of the end of this queue.
pub(super) fn watch(
    context: &mut Context<'_>,
    session: u32,
    watched: &mut Option<Box<Watched>>,
    queue: QueueId,
    name: &str,
) {
    let list = &mut watched.get_or_insert_default().0;
    if list.iter().all(|(watched, _)| *watched != queue) {
        list.push((queue, name.into()));
        context.shard.watch_queue(context.port, queue, session);
    }
}
