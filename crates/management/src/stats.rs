//! `message_stats` and the like: counters, each with how it grows.

use crate::counters::Counters;
pub(crate) use crate::counters::{DELIVER_GET, MESSAGES};
use crate::history::{Growth, Span, Whose, put};
use crate::moment;
use crate::node::Node;
use crate::request::Request;
use broker::catalog::QueueDefinition;
use broker::{Count, Tally};
use serde_json::{Map, Value, json};

/// Counters of publishers and consumers of any kind.
pub(crate) const ALL: &[Count] = &Count::ALL;

/// Counters of a queue.
pub(crate) const OF_QUEUE: &[Count] = &[
    Count::Ack,
    Count::Deliver,
    Count::DeliverNoAck,
    Count::Get,
    Count::GetEmpty,
    Count::GetNoAck,
    Count::Publish,
    Count::Redeliver,
];

/// A tally as it is sampled, and the other counters that are sampled with it.
pub fn counters(tally: &Tally, more: &[u64]) -> Counters {
    let own = tally.0.iter().copied().chain([tally.deliver_get()]);
    own.chain(more.iter().copied()).collect()
}

/// Messages that came to a queue and were written to the disk.
pub fn disk_writes(queue: &QueueDefinition, tally: &Tally) -> u64 {
    if queue.is_kept() { tally.get(Count::Publish) } else { 0 }
}

/// As `PREFIX_age` and `PREFIX_incr` of a query say.
fn span(request: &Request, prefix: &str) -> Option<Span> {
    let number = |name: &str| request.asked(&format!("{prefix}_{name}"))?.parse::<u64>().ok();
    Span::new(number("age")?, number("incr")?, request.asked("samples") == Some("known"))
}

/// How fast messages come and go is asked for so.
pub(crate) fn rates_span(request: &Request) -> Option<Span> {
    span(request, "msg_rates")
}

/// How long queues are is asked for so.
pub(crate) fn lengths_span(request: &Request) -> Option<Span> {
    span(request, "lengths")
}

/// A node's figures are asked for so.
pub(crate) fn node_span(request: &Request) -> Option<Span> {
    span(request, "node_stats")
}

/// How much comes and goes over connections is asked for so.
pub(crate) fn data_span(request: &Request) -> Option<Span> {
    span(request, "data_rates")
}

/// `message_stats` with the counters `told`; none where nothing was counted.
pub(crate) fn messages(
    tally: &Tally,
    growth: Growth<'_>,
    told: &[Count],
    span: Option<Span>,
) -> Option<Map<String, Value>> {
    if tally.is_empty() {
        return None;
    }
    let mut stats = Map::new();
    for count in told {
        put(&mut stats, count.name(), tally.get(*count), growth.details(*count as usize, span));
    }
    put(&mut stats, "deliver_get", tally.deliver_get(), growth.details(DELIVER_GET, span));
    Some(stats)
}

/// Adds `messages`, `messages_ready` and `messages_unacknowledged`, with how they grow: lengths are the last of the counters.
pub(crate) fn put_lengths(
    item: &mut Value,
    [ready, unacknowledged]: [u64; 2],
    (growth, first): (Growth<'_>, usize),
    span: Option<Span>,
) {
    let Some(item) = item.as_object_mut() else { return };
    let (of_ready, of_unacknowledged) = (growth.details(first, span), growth.details(first + 1, span));
    put(item, "messages", ready + unacknowledged, sum(&of_ready, &of_unacknowledged));
    put(item, "messages_ready", ready, of_ready);
    put(item, "messages_unacknowledged", unacknowledged, of_unacknowledged);
}

/// The growth of two things together.
fn sum(one: &Value, other: &Value) -> Value {
    let number = |name: &str| one[name].as_f64().unwrap_or(0.0) + other[name].as_f64().unwrap_or(0.0);
    let mut both = json!({ "rate": number("rate") });
    if let (Some(samples), Some(others)) = (one["samples"].as_array(), other["samples"].as_array()) {
        both["avg"] = number("avg").into();
        both["avg_rate"] = number("avg_rate").into();
        let pairs = samples.iter().zip(others);
        both["samples"] = pairs
            .map(|(one, other)| {
                let sample = one["sample"].as_u64().unwrap_or(0) + other["sample"].as_u64().unwrap_or(0);
                json!({ "sample": sample, "timestamp": one["timestamp"] })
            })
            .collect();
    }
    both
}

/// Adds RabbitMQ's figures of the Erlang process behind a thing: here there is none, which does nothing.
pub(crate) fn put_process(item: &mut Value) {
    item["reductions"] = 0.into();
    item["reductions_details"] = json!({ "rate": 0.0 });
}

/// The same with its garbage collector.
pub(crate) fn put_collected(item: &mut Value) {
    put_process(item);
    item["garbage_collection"] = json!({
        "fullsweep_after": 0,
        "max_heap_size": 0,
        "min_bin_vheap_size": 0,
        "min_heap_size": 0,
        "minor_gcs": 0,
    });
}

/// Adds since when nothing was counted of a thing, where that is known and something was before.
pub(crate) fn put_idle<N: Node>(node: &N, item: &mut Value, whose: Whose) {
    if let Some(since_ms) = node.history(|history| history.idle_since_ms(whose)) {
        item["idle_since"] = moment::text(since_ms).into();
    }
}

/// Puts `message_stats` into an object where anything was counted.
pub(crate) fn put_messages<N: Node>(
    node: &N,
    request: &Request,
    item: &mut Value,
    whose: Whose,
    tally: &Tally,
    told: &[Count],
) {
    let span = rates_span(request);
    if let Some(stats) = node.history(|history| messages(tally, history.of(whose), told, span)) {
        item["message_stats"] = Value::Object(stats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_bounded() {
        let asked = |query: &str| {
            let request = Request::new("GET", &format!("/api/x?{query}"), Vec::new(), true).unwrap();
            rates_span(&request)
        };
        assert_eq!(asked("msg_rates_age=60&msg_rates_incr=5"), Span::new(60, 5, false));
        assert_eq!(asked("msg_rates_age=60&msg_rates_incr=5&samples=known"), Span::new(60, 5, true));
        for none in
            ["", "msg_rates_age=60", "msg_rates_age=60&msg_rates_incr=0", "msg_rates_age=x&msg_rates_incr=5"]
        {
            assert_eq!(asked(none), None, "{none}");
        }
        assert_eq!(asked("msg_rates_age=2505&msg_rates_incr=5"), None);
        assert!(asked("msg_rates_age=2500&msg_rates_incr=5").is_some());
    }
}
