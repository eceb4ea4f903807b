//! Metrics of messages by protocol and by type of queue.

use super::facts::{Facts, STRATEGIES, Sums};
use super::text::{Kind, Labels, Real, Text, canonical};
use Kind::{Counter, Gauge, Histogram};
use broker::catalog::QueueType;
use broker::{Count, LATENCY_BOUNDS_US, Protocol, SIZE_BOUNDS, Tally};

pub(super) fn global(facts: &Facts, text: &mut Text) {
    let protocols = &facts.survey.protocols;
    let mut of_protocol = |name, help, of: &dyn Fn(Protocol) -> u64| {
        text.family(name, Counter, help);
        for protocol in Protocol::ALL {
            text.sample(&[("protocol", protocol.label())], Real(of(protocol) as f64));
        }
    };
    let own = |count: Count| move |protocol: Protocol| protocols[protocol as usize].own.get(count);
    of_protocol(
        "global_messages_received_total",
        "Total number of messages received from publishers",
        &|protocol| protocols[protocol as usize].received,
    );
    of_protocol(
        "global_messages_received_confirm_total",
        "Total number of messages received from publishers expecting confirmations",
        &|protocol| protocols[protocol as usize].received_confirm,
    );
    of_protocol(
        "global_messages_routed_total",
        "Total number of messages routed to queues or streams",
        &|protocol| protocols[protocol as usize].routed,
    );
    for (name, help, count) in [
        (
            "global_messages_confirmed_total",
            "Total number of messages confirmed to publishers",
            Count::Confirm,
        ),
        (
            "global_messages_unroutable_returned_total",
            "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
            Count::ReturnUnroutable,
        ),
        (
            "global_messages_unroutable_dropped_total",
            "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
            Count::DropUnroutable,
        ),
    ] {
        of_protocol(name, help, &own(count));
    }
    type Of = fn(&Tally) -> u64;
    let by_type: [(&'static str, &str, Of); 8] = [
        (
            "global_messages_delivered_total",
            "Total number of messages delivered to consumers",
            Tally::deliver_get,
        ),
        (
            "global_messages_delivered_consume_manual_ack_total",
            "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
            |own| own.get(Count::Deliver),
        ),
        (
            "global_messages_delivered_consume_auto_ack_total",
            "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
            |own| own.get(Count::DeliverNoAck),
        ),
        (
            "global_messages_delivered_get_manual_ack_total",
            "Total number of messages delivered to consumers using basic.get with manual acknowledgment",
            |own| own.get(Count::Get),
        ),
        (
            "global_messages_delivered_get_auto_ack_total",
            "Total number of messages delivered to consumers using basic.get with automatic acknowledgment",
            |own| own.get(Count::GetNoAck),
        ),
        (
            "global_messages_get_empty_total",
            "Total number of times basic.get operations fetched no message",
            |own| own.get(Count::GetEmpty),
        ),
        ("global_messages_redelivered_total", "Total number of messages redelivered to consumers", |own| {
            own.get(Count::Redeliver)
        }),
        (
            "global_messages_acknowledged_total",
            "Total number of message acknowledgements received from consumers",
            |own| own.get(Count::Ack),
        ),
    ];
    for (name, help, of) in by_type {
        text.family(name, Counter, help);
        for protocol in Protocol::ALL {
            for (at, queue_type) in QueueType::ALL.iter().enumerate() {
                let value = of(&protocols[protocol as usize].by_type[at]);
                text.sample(
                    &[("protocol", protocol.label()), ("queue_type", queue_type.module())],
                    Real(value as f64),
                );
            }
        }
    }
    let ends = [
        (
            "global_messages_dead_lettered_maxlen_total",
            "Total number of messages dead-lettered due to overflow drop-head or reject-publish-dlx",
        ),
        (
            "global_messages_dead_lettered_expired_total",
            "Total number of messages dead-lettered due to message TTL exceeded",
        ),
        (
            "global_messages_dead_lettered_rejected_total",
            "Total number of messages dead-lettered due to basic.reject or basic.nack",
        ),
        (
            "global_messages_dead_lettered_delivery_limit_total",
            "Total number of messages dead-lettered due to delivery-limit exceeded",
        ),
    ];
    for (end, (name, help)) in ends.into_iter().enumerate() {
        text.family(name, Counter, help);
        for (of, queue_type) in [QueueType::Classic, QueueType::Quorum].iter().enumerate() {
            for (at, strategy) in STRATEGIES.iter().enumerate() {
                let labels: Labels<'_> =
                    &[("queue_type", queue_type.module()), ("dead_letter_strategy", strategy)];
                text.sample(labels, Real(facts.survey.ends[of][at][end] as f64));
            }
        }
    }
    text.family(
        "global_messages_dead_lettered_confirmed_total",
        Counter,
        "Total number of messages dead-lettered and confirmed by target queues",
    );
    let labels: Labels<'_> =
        &[("queue_type", QueueType::Quorum.module()), ("dead_letter_strategy", STRATEGIES[2])];
    text.sample(labels, Real(facts.survey.dead_lettered[1] as f64));
    text.family(
        "leveret_dead_letter_cycles_total",
        Counter,
        "Total number of messages that died and were dropped because they would have gone round for ever",
    );
    for (of, queue_type) in [QueueType::Classic, QueueType::Quorum].iter().enumerate() {
        text.sample(&[("queue_type", queue_type.module())], Real(facts.survey.cycles[of] as f64));
    }
    text.one(
        "leveret_routes_too_dear_total",
        Counter,
        "Total number of messages that were refused or went nowhere because routing them took too many steps",
        facts.survey.too_dear,
    );
    text.one(
        "leveret_stream_offsets_driven_out_total",
        Counter,
        "Total number of offsets stored in streams that were forgotten because others were stored",
        facts.survey.offsets_driven_out,
    );
    text.family("global_publishers", Gauge, "Publishers currently connected");
    let publishers = publishers(facts);
    Protocol::ALL
        .iter()
        .for_each(|own| text.sample(&[("protocol", own.label())], Real(publishers[*own as usize] as f64)));
    text.family("global_consumers", Gauge, "Consumers currently connected");
    let consumers = facts.sums.open.consumers;
    Protocol::ALL
        .iter()
        .for_each(|own| text.sample(&[("protocol", own.label())], Real(consumers[*own as usize] as f64)));
    stream_errors(facts, text);
    text.family("message_size_bytes", Histogram, "Size of messages received from publishers");
    for protocol in Protocol::ALL {
        let own = &protocols[protocol as usize];
        text.buckets(
            &[("protocol", protocol.label())],
            SIZE_BOUNDS.iter().map(|bound| canonical(*bound as f64)),
            &own.sizes,
            own.size_bytes,
        );
    }
}

fn stream_errors(facts: &Facts, text: &mut Text) {
    for (at, name) in broker::STREAM_ERRORS.into_iter().enumerate() {
        text.family(name, Counter, "Total number of errors of the stream protocol, by code");
        text.sample(&[("protocol", Protocol::Stream.label())], Real(facts.survey.stream_errors[at] as f64));
    }
}

/// Channels that have published, and publishers of streams.
fn publishers(facts: &Facts) -> [u64; 3] {
    let open = &facts.sums.open;
    [open.channels.publishing, open.senders, open.stream_publishers]
}

pub(super) fn totals(facts: &Facts, text: &mut Text) {
    let Sums { queues, open, .. } = &facts.sums;
    for (name, help, value) in [
        ("connections", "Connections currently open", open.connections.connections),
        ("channels", "Channels currently open", open.channels.channels),
        ("consumers", "Consumers currently connected", open.consumers.iter().sum()),
        ("queues", "Queues available", *queues as u64),
    ] {
        text.one(name, Gauge, help, value);
    }
}

/// Our own: how long messages take from one step to the next.
pub(super) fn latencies(facts: &Facts, text: &mut Text) {
    let own = &facts.survey.latencies;
    for (name, help, durations) in [
        (
            "leveret_publish_to_commit_seconds",
            "How long messages took from the turn in which their batch was begun to being on disk",
            &own.publish_to_commit,
        ),
        (
            "leveret_commit_to_deliver_seconds",
            "How long messages in memory took from being on disk to being handed to a consumer for the first time",
            &own.commit_to_deliver,
        ),
        (
            "leveret_deliver_to_settle_seconds",
            "How long consumers took to settle, of one delivery of each queue at a time",
            &own.deliver_to_settle,
        ),
    ] {
        text.family(name, Histogram, help);
        let bounds = LATENCY_BOUNDS_US.iter().map(|us| *us as f64 / 1e6);
        text.buckets(&[], bounds, &durations.groups, durations.sum_ns as f64 / 1e9);
    }
}
