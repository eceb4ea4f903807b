//! Rates of now, told each second to clients that listen: `GET /api/x/events`.
//!
//! Each event is a request of its own, asked again with the counters that the one before had [`Seen`]: a user that may
//! not ask any more is told nothing more, and nobody keeps anything for a stream but its last counters. It is a look at
//! counters and at the queues that were named, never at all queues: its cost does not grow with them.

use crate::call::Call;
use crate::counters::Counters;
use crate::node::Node;
use crate::overview::told_to;
use crate::request::Method;
use crate::response::{Answer, Response};
use crate::seen::Seen;
use crate::whose::Whose;
use crate::{figures, latency, stats, tail};
use broker::catalog::VhostId;
use broker::{Count, Pulse};
use serde_json::{Map, Value, json};

/// The counters now, those before, and how many milliseconds lie between.
type Steps<'a> = (&'a [u64], Option<(&'a [u64], u64)>);

/// `GET /api/x/events`: one event, and the counters that the next one starts from.
pub(crate) fn event<N: Node>(call: &Call<'_, N>) -> Answer {
    let (wanted, (names, vhosts)) = (wanted(call, "count")?, named(call)?.into_iter().unzip());
    let (names, vhosts): (Vec<(VhostId, String)>, Vec<&str>) = (names, vhosts);
    let before = call.request.seen.as_deref();
    let survey = call.node.survey()?;
    let churn = survey.churn.named();
    let whole = stats::counters(&told_to(&call.caller, &survey), &churn.map(|(_, count)| count));
    let pulses = if names.is_empty() { Vec::new() } else { call.node.pulses(names.clone())? };
    let at_ms = call.node.uptime_ms();
    let own = |pulse: &Option<Pulse>| pulse.as_ref().map(|own| stats::counters(&own.tally, &[]));
    let queues: Vec<Option<Counters>> = pulses.iter().map(own).collect();
    let gap_ms = before.map(|before| at_ms.saturating_sub(before.at_ms));
    let steps = (&*whole, before.zip(gap_ms).map(|(before, gap_ms)| (&*before.whole, gap_ms)));
    let mut came = Map::new();
    for (at, (name, _)) in churn.iter().enumerate() {
        put(&mut came, name, steps, stats::MESSAGES + at);
    }
    let rows = names.iter().zip(&pulses).enumerate().map(|(at, ((_, name), pulse))| {
        let Some(pulse) = pulse else { return json!({ "name": name, "vhost": vhosts[at], "gone": true }) };
        let now: &[u64] = queues[at].as_deref().unwrap_or_default();
        let last = before.zip(gap_ms).and_then(|(before, gap_ms)| {
            // It may have come since, or be named elsewhere.
            Some((before.queues.get(at)?.as_deref()?, gap_ms))
        });
        json!({
            "name": name,
            "vhost": vhosts[at],
            "messages": pulse.ready + pulse.unsettled,
            "messages_ready": pulse.ready,
            "messages_unacknowledged": pulse.unsettled,
            "consumers": pulse.consumers,
            "message_stats": messages((now, last), stats::OF_QUEUE),
        })
    });
    let mut told = json!({
        "timestamp": call.node.now_ms(),
        "milliseconds": gap_ms,
        "message_stats": messages(steps, stats::ALL),
        "churn_rates": came,
        "queues": rows.collect::<Vec<Value>>(),
    });
    if call.caller.is_monitor() {
        told["node"] = node(call);
    }
    let events = before.map_or(0, |before| before.events) + 1;
    let goes_on = wanted.is_none_or(|wanted| events < wanted) && call.request.method != Method::Head;
    let is_administrator = call.caller.is_administrator();
    Ok(Response {
        headers: tail::headers(),
        body: format!("event: rates\ndata: {told}\n\n").into_bytes(),
        next: goes_on.then(|| Box::new(Seen { at_ms, whole, queues, events, is_administrator, place: 0 })),
        ..Response::empty(200)
    })
}

/// How many events are asked for by a key of the query; none: as many as there are.
pub(crate) fn wanted<N: Node>(call: &Call<'_, N>, key: &str) -> Result<Option<u64>, Response> {
    let Some(text) = call.request.asked(key) else { return Ok(None) };
    let number = text.parse().ok().filter(|number| *number > 0);
    number.map(Some).ok_or_else(|| Response::bad_request(format!("{key} is no number above 0: {text}")))
}

/// The node's use of the machine, for those that may know.
fn node<N: Node>(call: &Call<'_, N>) -> Value {
    let now = call.node.vitals();
    let (files, [flush_p99_us, turn_p99_us]) = call.node.history(|history| {
        let machine = history.newest(Whose::Machine);
        (machine.and_then(|own| own.get(figures::FILES).copied()), latency::lately(history))
    });
    json!({
        "name": call.node.about().node,
        "uptime": call.node.uptime_ms(),
        "mem_used": now.memory_used,
        "mem_limit": now.memory_limit,
        "mem_alarm": now.is_memory_alarm,
        "disk_free": now.disk_free,
        "disk_free_limit": now.disk_limit,
        "disk_free_alarm": now.is_disk_alarm,
        "fd_used": files,
        "fd_total": now.files[1].min(u64::from(u32::MAX)),
        "flush_p99_us": flush_p99_us,
        "turn_p99_us": turn_p99_us,
    })
}

/// A queue to watch: where and which, and the name of its virtual host.
type Watched<'c> = ((VhostId, String), &'c str);

/// The queues that are asked for, in that order: each in the virtual host that is named last before it, or last of all.
fn named<'c, N: Node>(call: &'c Call<'_, N>) -> Result<Vec<Watched<'c>>, Response> {
    let most = call.node.about().limits.event_queues_max;
    let (mut watched, mut before) = (Vec::new(), None);
    for (key, value) in &call.request.query {
        match key.as_str() {
            "vhost" => before = Some(value.as_str()),
            "queue" => {
                let vhost = before.or_else(|| call.request.asked("vhost"));
                let vhost = vhost.ok_or_else(|| Response::missing_key("vhost"))?;
                if !call.caller.sees(vhost) {
                    return Err(Response::not_found());
                }
                watched.push(((call.caller.vhost(vhost)?, value.clone()), vhost));
            }
            _ => {}
        }
    }
    match watched.len() <= most {
        true => Ok(watched),
        false => Err(Response::bad_request(format!("at most {most} queues can be watched at once"))),
    }
}

fn messages(steps: Steps<'_>, told: &[Count]) -> Map<String, Value> {
    let mut stats = Map::new();
    for count in told {
        put(&mut stats, count.name(), steps, *count as usize);
    }
    put(&mut stats, "deliver_get", steps, stats::DELIVER_GET);
    stats
}

/// Adds a counter, and how many a second since the last event.
fn put(into: &mut Map<String, Value>, name: &str, (now, before): Steps<'_>, at: usize) {
    let value = now.get(at).copied().unwrap_or(0);
    let rate = before.filter(|(_, gap_ms)| *gap_ms > 0).map_or(0.0, |(before, gap_ms)| {
        // Counters that begin anew are another thing's.
        let grown = value.saturating_sub(before.get(at).copied().unwrap_or(0));
        grown as f64 * 1000.0 / gap_ms as f64
    });
    crate::history::put(into, name, value, json!({ "rate": rate }));
}
