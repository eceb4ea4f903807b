//! Events of the channels and consumers of a connection, while somebody hears.

use super::Adapter;
use super::pending::News;
use crate::context::Context;
use broker::catalog::QueueDefinition;
use broker::{Arrived, Occurrence};

impl Adapter {
    fn tag_of(&self, handle: u32) -> Option<String> {
        Some(String::from_utf8_lossy(self.prefix_of(handle)?.consumer_tag()).into_owned())
    }

    pub(super) fn announce_consumer(&self, context: &mut Context<'_>, handle: u32, news: &News) {
        let (Some(consumer), Some(tag)) = (self.consumers.get(handle), self.tag_of(handle)) else { return };
        let arrived = Arrived {
            channel: consumer.channel,
            tag: &tag,
            queue: consumer.at.queue,
            exclusive: news.exclusive,
            settles: !consumer.no_ack,
            prefetch: consumer.prefetch,
            arguments: &news.arguments,
        };
        let occurrence = Occurrence::ConsumerCame { port: context.port, consumer: &arrived };
        context.shard.announce(context.now, &occurrence);
    }

    /// A consumer goes, cancelled by the client or with its channel; `queue`: its queue, if that is gone already.
    pub(super) fn announce_end(
        &self,
        context: &mut Context<'_>,
        handle: u32,
        queue: Option<&QueueDefinition>,
    ) {
        let Some(consumer) = self.consumers.get(handle) else { return };
        if consumer.is_cancelled || consumer.is_reply() || !context.shard.is_heard() {
            return;
        }
        // Without a tag it stands for a channel's gets.
        let Some(tag) = self.tag_of(handle) else { return };
        let (port, channel) = (context.port, consumer.channel);
        let found = context.shard.catalog().queue(consumer.at.queue).cloned();
        if let Some(queue) = queue.or(found.as_deref()) {
            let occurrence = Occurrence::ConsumerWent { port, channel, tag: &tag, queue };
            context.shard.announce(context.now, &occurrence);
        }
    }

    /// A channel goes, and its consumers before it.
    pub(super) fn announce_channel_end(&self, context: &mut Context<'_>, number: u16) {
        if self.channels.find(number).is_none() || !context.shard.is_heard() {
            return;
        }
        let consumers = self.consumers.iter().filter(|(_, consumer)| consumer.channel == number);
        let handles: Vec<u32> = consumers.map(|(handle, _)| handle).collect();
        handles.into_iter().for_each(|handle| self.announce_end(context, handle, None));
        let occurrence = Occurrence::ChannelClosed { port: context.port, channel: number };
        context.shard.announce(context.now, &occurrence);
    }

    /// All channels go with the socket.
    pub(super) fn announce_ends(&self, context: &mut Context<'_>) {
        let numbers: Vec<u16> = self.channels.iter().map(|channel| channel.number).collect();
        numbers.into_iter().for_each(|number| self.announce_channel_end(context, number));
    }
}
