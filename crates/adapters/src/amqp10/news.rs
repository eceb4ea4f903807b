//! Announcements of the consumers of a connection's links, while somebody hears.

use super::Adapter;
use super::link::ConsumerAt;
use crate::context::Context;
use broker::catalog::QueueDefinition;
use broker::{Arrived, Occurrence};
use routing::Arguments;

impl Adapter {
    pub(super) fn announce_consumer(&self, context: &mut Context<'_>, consumer: u32, settled: bool) {
        let Some(ConsumerAt { session, link, at: Some(at), .. }) = self.consumers.get(consumer).copied()
        else {
            return;
        };
        let arrived = Arrived {
            channel: session.0,
            tag: &link.0.to_string(),
            queue: at.queue,
            exclusive: false,
            settles: !settled,
            prefetch: 0,
            arguments: &Arguments::default(),
        };
        let occurrence = Occurrence::ConsumerCame { port: context.port, consumer: &arrived };
        context.shard.announce(context.now, &occurrence);
    }

    /// A consumer goes with its link; `queue`: its queue, if that is gone already.
    pub(super) fn announce_end(
        &self,
        context: &mut Context<'_>,
        consumer: u32,
        queue: Option<&QueueDefinition>,
    ) {
        let Some(ConsumerAt { session, link, at: Some(at), .. }) = self.consumers.get(consumer).copied()
        else {
            return;
        };
        if !context.shard.is_heard() {
            return;
        }
        let found = context.shard.catalog().queue(at.queue).cloned();
        if let Some(queue) = queue.or(found.as_deref()) {
            let (port, channel, tag) = (context.port, session.0, &*link.0.to_string());
            context.shard.announce(context.now, &Occurrence::ConsumerWent { port, channel, tag, queue });
        }
    }

    /// All consumers go with the socket.
    pub(super) fn announce_ends(&self, context: &mut Context<'_>) {
        let consumers: Vec<u32> = self.consumers.iter().map(|(consumer, _)| consumer).collect();
        consumers.into_iter().for_each(|consumer| self.announce_end(context, consumer, None));
    }
}
