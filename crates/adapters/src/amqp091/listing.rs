//! Channels and consumers as they are listed.

use super::Adapter;
use super::channel::Channel;
use super::consumer::Consumer;
use broker::catalog::Catalog;
use broker::{ChannelRow, ConsumerRow, Count, Depth, Opened, Tally};
use std::borrow::Cow;

impl Adapter {
    /// Rows of the channels and consumers that are open, into `opened`.
    pub(crate) fn list(&self, catalog: &Catalog, depth: Depth, opened: &mut Opened) {
        opened.channels.extend(self.channels.iter().map(|channel| {
            let row = self.channel_row(channel);
            if depth == Depth::Whole { self.with_names(catalog, channel, row) } else { row }
        }));
        let consumers = self.consumers.iter().filter(|(_, consumer)| is_listed(consumer));
        opened.consumers.extend(consumers.filter_map(|(handle, consumer)| {
            let prefix = self.prefix_of(handle)?;
            let is_whole = depth == Depth::Whole;
            let tag = if is_whole { String::from_utf8_lossy(prefix.consumer_tag()) } else { Cow::default() };
            Some(ConsumerRow {
                handle,
                tag: tag.into_owned(),
                queue: catalog.queue(consumer.at.queue)?.clone(),
                channel: consumer.channel,
                settles: !consumer.no_ack,
                exclusive: consumer.exclusive,
                prefetch: consumer.prefetch,
                arguments: consumer.arguments.as_ref().filter(|_| is_whole).cloned(),
            })
        }));
    }

    fn consumers_of(&self, channel: &Channel) -> impl Iterator<Item = &Consumer> {
        let number = channel.number;
        self.consumers.iter().map(|(_, consumer)| consumer).filter(move |own| own.channel == number)
    }

    fn channel_row(&self, channel: &Channel) -> ChannelRow {
        let (uncommitted, uncommitted_acks) =
            channel.transaction.as_ref().map_or((0, 0), |transaction| transaction.held_counts());
        ChannelRow {
            number: channel.number,
            confirm: channel.confirms.is_some(),
            transactional: channel.transaction.is_some(),
            prefetch: channel.prefetch,
            shared_prefetch: channel.shared.as_ref().map_or(0, |shared| shared.most()),
            consumers: self.consumers_of(channel).filter(|consumer| is_listed(consumer)).count() as u32,
            unacknowledged: channel.unacked.len() as u64,
            unconfirmed: if channel.confirms.is_some() { channel.unconfirmed } else { 0 },
            uncommitted,
            uncommitted_acks,
            tally: channel.tally(),
            publishes: Vec::new(),
            unroutable: Vec::new(),
            routes: Vec::new(),
            deliveries: Vec::new(),
        }
    }

    /// The row of a channel with its counts by exchange and queue.
    fn with_names(&self, catalog: &Catalog, channel: &Channel, row: ChannelRow) -> ChannelRow {
        let handing = self.consumers_of(channel).filter(|consumer| consumer.delivered > 0);
        let delivered =
            |consumer: &Consumer| Some((catalog.queue(consumer.at.queue)?.clone(), handed(consumer)));
        ChannelRow {
            publishes: channel.publisher.exchanges(),
            unroutable: channel.unroutable(),
            routes: channel.publisher.routes(),
            deliveries: handing.filter_map(delivered).collect(),
            ..row
        }
    }

    /// The counts of each channel, to `each`.
    pub(crate) fn tallies(&self, mut each: impl FnMut(u16, broker::Tally)) {
        for channel in self.channels.iter() {
            let tally = channel.tally();
            if !tally.is_empty() {
                each(channel.number, tally);
            }
        }
    }
}

/// The counts of a consumer.
fn handed(consumer: &Consumer) -> Tally {
    let mut tally = Tally::default();
    let Consumer { delivered, again, accepted, got_settled, .. } = consumer;
    match (!consumer.is_getter(), consumer.no_ack) {
        (true, true) => tally.add(Count::DeliverNoAck, *delivered),
        (true, false) => tally.add(Count::Deliver, *delivered),
        (false, _) => {
            tally.add(Count::Get, delivered - got_settled);
            tally.add(Count::GetNoAck, *got_settled);
        }
    }
    tally.add(Count::Redeliver, *again);
    tally.add(Count::Ack, *accepted);
    tally
}

/// Whether it is a consumer in listings, and no placeholder for gets.
fn is_listed(consumer: &Consumer) -> bool {
    !consumer.is_getter() && !consumer.is_cancelled && !consumer.is_reply()
}
