//! Metrics of exchanges, channels, connections and subscriptions to streams.

use super::facts::{Detail, Facts, of_connection};
use super::text::{Kind, Text};
use crate::node::Node;
use crate::response::Response;
use Kind::{Counter, Gauge};
use base::id::QueueId;
use broker::catalog::QueueDefinition;
use broker::{ChannelRow, ChannelSums, ConnectionSums, Count, Opened, Tally};
use std::collections::BTreeMap;

pub(super) fn exchange<N: Node>(node: &N, facts: &Facts, text: &mut Text) -> Result<(), Response> {
    let ids: Vec<_> = facts.survey.exchanges.keys().copied().collect();
    let names = node.look(move |catalog| {
        let named = ids.into_iter().filter_map(|id| {
            let exchange = &catalog.exchange_by_id(id)?.definition;
            let vhost = catalog.vhost_definition(exchange.vhost)?;
            Some((id, vhost.name.to_string(), exchange.name.to_string()))
        });
        named.collect::<Vec<_>>()
    })?;
    let mut each = |name, help, of: &dyn Fn(&broker::ExchangeTally) -> u64| {
        text.family(name, Counter, help);
        if facts.detail == Detail::Sums {
            return text.sample(&[], facts.survey.exchanges.values().map(of).sum::<u64>());
        }
        for (id, vhost, exchange) in &names {
            text.sample(&[("vhost", vhost), ("exchange", exchange)], of(&facts.survey.exchanges[id]));
        }
    };
    each(
        "exchange_messages_published_total",
        "Total number of messages published into an exchange",
        &|own| own.publish_in,
    );
    for (name, help, of) in [
        (
            "exchange_messages_confirmed_total",
            "Total number of messages published into an exchange and confirmed",
            (|own| own.confirmed) as fn(&broker::ExchangeTally) -> u64,
        ),
        (
            "exchange_messages_unroutable_returned_total",
            "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
            |own| own.returned,
        ),
        (
            "exchange_messages_unroutable_dropped_total",
            "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
            |own| own.dropped,
        ),
        (
            "leveret_exchange_filter_messages_total",
            "Messages published into an exchange that filters of bindings were asked of",
            |own| own.filtered.messages,
        ),
        (
            "leveret_exchange_filter_evaluations_total",
            "Filters of bindings that were looked at for them; those that an index passed over are not among them",
            |own| own.filtered.evaluations,
        ),
        (
            "leveret_exchange_filter_unreadable_total",
            "Of those messages, the ones whose body could not be read as far as was needed",
            |own| own.filtered.unreadable,
        ),
    ] {
        each(name, help, &of);
    }
    Ok(())
}

/// A metric of channels: of each, or of all together.
fn of_channels(
    facts: &Facts,
    text: &mut Text,
    name: &'static str,
    kind: Kind,
    help: &str,
    of: impl Fn(&ChannelSums) -> u64,
) {
    text.family(name, kind, help);
    let channels =
        facts.opened.iter().flat_map(|(_, opened)| opened.channels.iter().map(move |row| (opened, row)));
    match facts.detail {
        Detail::Sums => text.sample(&[], of(&facts.sums.open.channels)),
        Detail::Each => channels.for_each(|(opened, row)| {
            let channel = format!("{} ({})", opened.connection, row.number);
            text.sample(&[("channel", &channel)], of(&ChannelSums::of(row)));
        }),
    }
}

pub(super) fn channel(facts: &Facts, text: &mut Text) {
    type Of = fn(&ChannelSums) -> u64;
    let all: [(&'static str, &str, Of); 7] = [
        ("channel_consumers", "Consumers on a channel", |own| own.consumers),
        ("channel_messages_unacked", "Delivered but not yet acknowledged messages", |own| own.unacknowledged),
        ("channel_messages_unconfirmed", "Published but not yet confirmed messages", |own| own.unconfirmed),
        ("channel_messages_uncommitted", "Messages received in a transaction but not yet committed", |own| {
            own.uncommitted
        }),
        ("channel_acks_uncommitted", "Message acknowledgements in a transaction not yet committed", |own| {
            own.uncommitted_acks
        }),
        ("consumer_prefetch", "Limit of unacknowledged messages for each consumer", |own| own.prefetch),
        (
            "channel_prefetch",
            "Total limit of unacknowledged messages for all consumers on a channel",
            |own| own.shared_prefetch,
        ),
    ];
    for (name, help, of) in all {
        of_channels(facts, text, name, Gauge, help, of);
    }
}

/// A metric of channels that counts, its line of help, and its counter.
type Counted = (&'static str, &'static str, Count);

const PUBLISHING: [Counted; 4] = [
    (
        "channel_messages_published_total",
        "Total number of messages published into an exchange on a channel",
        Count::Publish,
    ),
    (
        "channel_messages_confirmed_total",
        "Total number of messages published into an exchange and confirmed on the channel",
        Count::Confirm,
    ),
    (
        "channel_messages_unroutable_returned_total",
        "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
        Count::ReturnUnroutable,
    ),
    (
        "channel_messages_unroutable_dropped_total",
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
        Count::DropUnroutable,
    ),
];

const DELIVERING: [Counted; 7] = [
    (
        "channel_get_ack_total",
        "Total number of messages fetched with basic.get in manual acknowledgement mode",
        Count::Get,
    ),
    (
        "channel_get_total",
        "Total number of messages fetched with basic.get in automatic acknowledgement mode",
        Count::GetNoAck,
    ),
    (
        "channel_messages_delivered_ack_total",
        "Total number of messages delivered to consumers in manual acknowledgement mode",
        Count::Deliver,
    ),
    (
        "channel_messages_delivered_total",
        "Total number of messages delivered to consumers in automatic acknowledgement mode",
        Count::DeliverNoAck,
    ),
    (
        "channel_messages_redelivered_total",
        "Total number of messages redelivered to consumers",
        Count::Redeliver,
    ),
    ("channel_messages_acked_total", "Total number of messages acknowledged by consumers", Count::Ack),
    (
        "channel_get_empty_total",
        "Total number of times basic.get operations fetched no message",
        Count::GetEmpty,
    ),
];

/// All channels, each with its connection and its name.
fn channels(facts: &Facts) -> Vec<(&Opened, &ChannelRow, String)> {
    let rows = facts.opened.iter().flat_map(|(_, own)| own.channels.iter().map(move |row| (own, row)));
    rows.map(|(own, row)| (own, row, format!("{} ({})", own.connection, row.number))).collect()
}

/// A channel's publishes by exchange. Confirms are told of channels alone: messages that are not confirmed yet count as
/// published to the exchanges that come first.
fn by_exchange(row: &ChannelRow) -> Vec<(&str, Tally)> {
    let mut unconfirmed = row.unconfirmed;
    let tally = |(exchange, messages): &'_ (Box<str>, u64)| {
        let mut tally = Tally::default();
        tally.add(Count::Publish, *messages);
        if row.confirm {
            let open = unconfirmed.min(*messages);
            unconfirmed -= open;
            tally.add(Count::Confirm, messages - open);
        }
        if let Some((_, [returned, dropped])) = row.unroutable.iter().find(|(name, _)| name == exchange) {
            tally.add(Count::ReturnUnroutable, *returned);
            tally.add(Count::DropUnroutable, *dropped);
        }
        tally
    };
    let tallies: Vec<Tally> = row.publishes.iter().map(tally).collect();
    row.publishes.iter().map(|(exchange, _)| &**exchange).zip(tallies).collect()
}

pub(super) fn channel_exchange(facts: &Facts, text: &mut Text) {
    if facts.detail == Detail::Sums {
        return channel_sums(facts, text, &PUBLISHING);
    }
    let channels = channels(facts);
    let counted: Vec<_> = channels
        .iter()
        .flat_map(|(own, row, name)| by_exchange(row).into_iter().map(move |of| (own, name, of)))
        .collect();
    for (name, help, count) in PUBLISHING {
        text.family(name, Counter, help);
        for (own, channel, (exchange, tally)) in &counted {
            let labels = [("channel", channel.as_str()), ("vhost", &own.vhost), ("exchange", exchange)];
            text.sample(&labels, tally.get(count));
        }
    }
}

pub(super) fn channel_queue(facts: &Facts, text: &mut Text) {
    if facts.detail == Detail::Sums {
        return channel_sums(facts, text, &DELIVERING);
    }
    let channels = channels(facts);
    for (name, help, count) in DELIVERING {
        text.family(name, Counter, help);
        for (_, row, channel) in &channels {
            for (queue, tally) in &row.deliveries {
                let labels =
                    [("channel", channel.as_str()), ("vhost", &*queue.vhost_name), ("queue", &*queue.name)];
                text.sample(&labels, tally.get(count));
            }
        }
    }
}

fn channel_sums(facts: &Facts, text: &mut Text, counted: &[Counted]) {
    for (name, help, count) in counted {
        of_channels(facts, text, name, Counter, help, |own| own.tally.get(*count));
    }
}

pub(super) fn channel_process(facts: &Facts, text: &mut Text) {
    of_channels(
        facts,
        text,
        "channel_process_reductions_total",
        Counter,
        "Nothing: Erlang's unit of work",
        |_| 0,
    );
}

/// Messages that an open channel published to a queue, through an exchange, as far as it remembers.
struct Routed<'a> {
    channel: String,
    exchange: &'a str,
    queue: &'a QueueDefinition,
    messages: u64,
}

fn routed(facts: &Facts) -> Vec<Routed<'_>> {
    let by_id: BTreeMap<QueueId, &QueueDefinition> =
        base::brief::collect(facts.queues.iter().map(|(queue, _)| (queue.id, &**queue)));
    let mut all: Vec<Routed<'_>> = Vec::new();
    for (_, row, channel) in channels(facts) {
        for (exchange, queue, messages) in &row.routes {
            let Some(queue) = by_id.get(queue) else { continue };
            all.push(Routed { channel: channel.clone(), exchange, queue, messages: *messages });
        }
    }
    all
}

pub(super) fn channel_queue_exchange(facts: &Facts, text: &mut Text) {
    text.family(
        "queue_messages_published_total",
        Counter,
        "Total number of messages published into a queue through an exchange on a channel",
    );
    if facts.detail == Detail::Sums {
        return text.sample(&[], facts.sums.of_queues.tally.get(Count::Publish));
    }
    for own in routed(facts) {
        let labels = [
            ("channel", own.channel.as_str()),
            ("queue_vhost", &own.queue.vhost_name),
            ("queue", &own.queue.name),
            ("exchange_vhost", &own.queue.vhost_name),
            ("exchange", own.exchange),
        ];
        text.sample(&labels, own.messages);
    }
}

/// Of channels that are open; the messages of closed ones are in [`exchange`].
pub(super) fn queue_exchange(facts: &Facts, text: &mut Text) {
    text.family(
        "queue_exchange_messages_published_total",
        Counter,
        "Total number of messages published into a queue through an exchange",
    );
    if facts.detail == Detail::Sums {
        return text.sample(&[], facts.survey.exchanges.values().map(|own| own.publish_out).sum::<u64>());
    }
    let mut sums: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for Routed { exchange, queue, messages, .. } in routed(facts) {
        *sums.entry((&queue.vhost_name, exchange, &queue.name)).or_default() += messages;
    }
    for ((vhost, exchange, queue), messages) in sums {
        text.sample(&[("vhost", vhost), ("exchange", exchange), ("queue", queue)], messages);
    }
}

fn of_connections(
    facts: &Facts,
    text: &mut Text,
    name: &'static str,
    kind: Kind,
    help: &str,
    of: impl Fn(&ConnectionSums) -> u64,
) {
    text.family(name, kind, help);
    match facts.detail {
        Detail::Sums => text.sample(&[], of(&facts.sums.open.connections)),
        Detail::Each => facts
            .connections
            .iter()
            .for_each(|row| text.sample(&[("channel", &row.name)], of(&of_connection(row)))),
    }
}

pub(super) fn connection(facts: &Facts, text: &mut Text) {
    of_connections(
        facts,
        text,
        "connection_incoming_packets_total",
        Counter,
        "Total number of reads of a connection that brought something",
        |own| own.calls[0],
    );
    of_connections(
        facts,
        text,
        "connection_outgoing_packets_total",
        Counter,
        "Total number of writes of a connection that took something",
        |own| own.calls[1],
    );
    of_connections(
        facts,
        text,
        "connection_pending_packets",
        Gauge,
        "Nothing: what waits to be sent is not in packets",
        |_| 0,
    );
    of_connections(facts, text, "connection_channels", Gauge, "Channels on a connection", |own| own.channels);
}

pub(super) fn connection_coarse(facts: &Facts, text: &mut Text) {
    of_connections(
        facts,
        text,
        "connection_incoming_bytes_total",
        Counter,
        "Total number of bytes received on a connection",
        |own| own.received,
    );
    of_connections(
        facts,
        text,
        "connection_outgoing_bytes_total",
        Counter,
        "Total number of bytes sent on a connection",
        |own| own.sent,
    );
    of_connections(
        facts,
        text,
        "connection_process_reductions_total",
        Counter,
        "Nothing: Erlang's unit of work",
        |_| 0,
    );
}

pub(super) fn stream_consumers(facts: &Facts, text: &mut Text) {
    let lag = |stream: QueueId, offset: u64| {
        let end = facts.sums.ends.get(&stream);
        end.map_or(0, |end| end.saturating_sub(1).saturating_sub(offset))
    };
    text.family("stream_consumer_max_offset_lag", Gauge, "Current maximum of offset lag of consumers");
    if facts.detail == Detail::Sums {
        let lags = facts.sums.open.offsets.iter().map(|(stream, offset)| lag(*stream, *offset));
        return text.sample(&[], lags.max().unwrap_or(0));
    }
    let mut lags: Vec<(&str, &str, u64)> = Vec::new();
    for row in facts.opened.iter().flat_map(|(_, opened)| &opened.stream_consumers) {
        let (vhost, name) = (&*row.stream.vhost_name, &*row.stream.name);
        let lag = lag(row.stream.id, row.offset);
        match lags.iter_mut().find(|(of, own, _)| (*of, *own) == (vhost, name)) {
            Some((_, _, most)) => *most = lag.max(*most),
            None => lags.push((vhost, name, lag)),
        }
    }
    lags.iter().for_each(|(vhost, queue, lag)| text.sample(&[("vhost", vhost), ("queue", queue)], lag));
}
