//! Things that need somebody: `GET /api/x/advice`.
//!
//! Each line is one thing that is wrong, or soon will be, with the object it is about. Queues with messages are looked at in
//! brief, and their limits where they are among the longest; of each kind the first twenty are told.

use crate::call::Call;
use crate::counters::MESSAGES;
use crate::dead_letters;
use crate::history::{History, Whose};
use crate::node::{Condition, Node};
use crate::response::{Answer, Response};
use base::id::QueueId;
use base::time::NS_PER_MS;
use broker::catalog::{Catalog, QueueDefinition};
use broker::{Count, Standing};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// Lines of one kind.
const EACH: usize = 20;

/// Queues whose limits are looked at: the longest.
const LIMITED: usize = 200;

/// Milliseconds over which a queue that grows is told of, and messages by which it grew at least.
const GROWING_MS: u64 = 300_000;
const GROWN: u64 = 100;

/// Milliseconds for which a message is held before that is told.
const HELD_MS: u64 = 600_000;

/// Seconds before a certificate ends in which that is told.
const CERTIFICATE_S: u64 = 30 * 86_400;

/// The first user, and its password.
const GUEST: &str = "guest";

/// Percents of what there may be of something, from which on that is told; of queues, of their limits.
const NEAR: u64 = 80;
const NEAR_LIMIT: u64 = 90;

/// The lines, gathered.
#[derive(Default)]
struct Lines(Vec<Value>);

impl Lines {
    /// Something about the node, or about nothing that has a page.
    fn add(&mut self, kind: &str, severity: &str, value: impl Into<Value>, limit: impl Into<Value>) {
        let (value, limit) = (value.into(), limit.into());
        self.0.push(json!({ "kind": kind, "severity": severity, "value": value, "limit": limit }));
    }

    /// Something about a queue.
    fn of_queue(
        &mut self,
        kind: &str,
        severity: &str,
        queue: &QueueDefinition,
        value: u64,
        limit: impl Into<Value>,
    ) {
        let object = json!({ "kind": "queue", "vhost": *queue.vhost_name, "name": *queue.name });
        let limit = limit.into();
        self.0.push(json!({
            "kind": kind, "severity": severity, "value": value, "limit": limit, "object": object,
        }));
    }
}

/// See the module.
pub(crate) fn advice<N: Node>(call: &Call<'_, N>) -> Answer {
    let mut lines = Lines::default();
    if call.caller.is_monitor() {
        of_node(&mut lines, &call.node.condition());
        certificates(call, &mut lines);
        unroutable(call, &mut lines);
    }
    if call.caller.is_administrator() {
        default_password(call, &mut lines)?;
    }
    queues(call, &mut lines)?;
    let order = |line: &Value| match line["severity"].as_str() {
        Some("bad") => 0,
        Some("warn") => 1,
        _ => 2,
    };
    base::brief::sort_by_key(&mut lines.0, order);
    Ok(Response::ok(&lines.0.into()))
}

/// Alarms, and what is near one.
fn of_node(lines: &mut Lines, now: &Condition) {
    if now.is_memory_alarm {
        lines.add("memory_alarm", "bad", now.memory_used, now.memory_limit);
    } else if is_near(now.memory_used, now.memory_limit, NEAR) {
        lines.add("memory_near", "warn", now.memory_used, now.memory_limit);
    }
    if now.is_disk_alarm {
        lines.add("disk_alarm", "bad", now.disk_free, now.disk_limit);
    } else if is_near(now.disk_limit, now.disk_free, NEAR) {
        lines.add("disk_near", "warn", now.disk_free, now.disk_limit);
    }
    if is_near(now.files[0], now.files[1], NEAR) {
        lines.add("files_near", "warn", now.files[0], now.files[1]);
    }
}

/// Whether a value is so many percents of a bound, or more.
fn is_near(value: u64, bound: u64, percents: u64) -> bool {
    bound > 0 && u128::from(value) * 100 >= u128::from(bound) * u128::from(percents)
}

fn certificates<N: Node>(call: &Call<'_, N>, lines: &mut Lines) {
    let now_s = call.node.now_s();
    let first = call.node.certificate_ends_s().into_iter().min();
    if let Some(ends_s) = first.filter(|ends_s| *ends_s < now_s + CERTIFICATE_S) {
        let severity = if ends_s <= now_s { "bad" } else { "warn" };
        lines.add("certificate_ends", severity, ends_s * 1000, Value::Null);
    }
}

/// Messages that lead nowhere, by what came in the last seconds.
fn unroutable<N: Node>(call: &Call<'_, N>, lines: &mut Lines) {
    let rate = call.node.history(|history| {
        let growth = history.of(Whose::Node);
        growth.rate(Count::DropUnroutable as usize) + growth.rate(Count::ReturnUnroutable as usize)
    });
    if rate > 0.0 {
        lines.add("unroutable", "warn", rate, Value::Null);
    }
}

/// The first user has the password that everybody knows, and may come from elsewhere.
fn default_password<N: Node>(call: &Call<'_, N>, lines: &mut Lines) -> Result<(), Response> {
    let is_far = |address: &str| !address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let about = call.node.about();
    let is_kept_near = about.access.loopback_users.iter().any(|user| **user == *GUEST);
    if is_kept_near || !about.listeners.iter().any(|listener| is_far(&listener.address)) {
        return Ok(());
    }
    let guest = call.node.look(|catalog: &Catalog| catalog.user(GUEST).cloned())?;
    let hash = guest.as_ref().and_then(|guest| guest.password.as_ref()).filter(|hash| !hash.is_dear());
    if hash.is_some_and(|hash| hash.matches(GUEST)) {
        lines.add("default_password", "bad", GUEST, Value::Null);
    }
    Ok(())
}

fn queues<N: Node>(call: &Call<'_, N>, lines: &mut Lines) -> Result<(), Response> {
    let mut all = call.node.standings()?;
    all.retain(|one| call.caller.sees(&one.definition.vhost_name));
    base::brief::sort_by_key(&mut all, |one| Reverse(one.ready));
    let targets: BTreeSet<QueueId> = dead_letters::targets(call)?;
    let is_target = |one: &Standing| targets.contains(&one.definition.id);
    let waiting = all.iter().filter(|one| one.consumers == 0 && one.ready > 0);
    for one in waiting.clone().filter(|one| !is_target(one)).take(EACH) {
        lines.of_queue("no_consumer", "warn", &one.definition, one.ready, Value::Null);
    }
    for one in all.iter().filter(|one| is_target(one) && one.ready > 0).take(EACH) {
        lines.of_queue("dead_letters", "info", &one.definition, one.ready, Value::Null);
    }
    let now_ms = call.node.now_ms();
    let growing: Vec<(&Standing, u64)> = call.node.history(|history| {
        let grown = all.iter().filter(|one| !is_target(one));
        grown.filter_map(|one| Some((one, grown_by(history, one, now_ms)?))).take(EACH).collect()
    });
    for (one, grown) in growing {
        lines.of_queue("growing", "warn", &one.definition, grown, one.ready + one.unsettled);
    }
    let now_ns = call.node.now().mono_ns;
    let held_ms = |one: &Standing| one.held_since_ns.map(|since| now_ns.saturating_sub(since) / NS_PER_MS);
    let held = all.iter().filter_map(|one| Some((one, held_ms(one)?))).filter(|(_, ms)| *ms >= HELD_MS);
    for (one, ms) in held.take(EACH) {
        lines.of_queue("held_long", "warn", &one.definition, ms, one.unsettled);
    }
    for (queue, ready, most) in near_limits(call, &all)?.into_iter().take(EACH) {
        lines.of_queue("near_limit", "warn", &queue, ready, most);
    }
    Ok(())
}

/// By how many messages a queue grew in the last minutes, if it never shrank meanwhile.
fn grown_by(history: &History, one: &Standing, now_ms: u64) -> Option<u64> {
    let growth = history.of(Whose::Queue(one.definition.id));
    let length = |ago_ms: u64| {
        let moment = now_ms.saturating_sub(ago_ms);
        if growth.begin_ms() > moment {
            return None;
        }
        Some(growth.at_moment(MESSAGES, moment)? + growth.at_moment(MESSAGES + 1, moment)?)
    };
    let steps: [u64; 4] = [GROWING_MS, GROWING_MS * 2 / 3, GROWING_MS / 3, 0];
    let lengths: Vec<u64> = steps.into_iter().map(length).collect::<Option<_>>()?;
    let grows = lengths.windows(2).all(|pair| pair[0] < pair[1]);
    let grown = lengths.last()?.saturating_sub(*lengths.first()?);
    (grows && grown >= GROWN).then_some(grown)
}

/// A queue, how many of its messages are ready, and how many may be.
type Limited = (Arc<QueueDefinition>, u64, u64);

/// Of the longest queues those that are near the most that they may have.
fn near_limits<N: Node>(call: &Call<'_, N>, all: &[Standing]) -> Result<Vec<Limited>, Response> {
    let longest: Vec<_> = all.iter().take(LIMITED).map(|one| (one.definition.clone(), one.ready)).collect();
    Ok(call.node.look(move |catalog| {
        let near = |(queue, ready): (Arc<QueueDefinition>, u64)| {
            let most = catalog.rules(&queue).length_max?;
            is_near(ready, most, NEAR_LIMIT).then_some((queue, ready, most))
        };
        longest.into_iter().filter_map(near).collect()
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_told_before_it_is_too_much() {
        let check = |value: u64, bound: u64, expected: bool| {
            assert_eq!(is_near(value, bound, 80), expected, "{value} {bound}");
        };
        check(79, 100, false);
        check(80, 100, true);
        check(5, 0, false);
        check(u64::MAX, u64::MAX, true);
        let kinds = |now: &Condition| {
            let mut lines = Lines::default();
            of_node(&mut lines, now);
            lines.0.iter().map(|line| line["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let well = Condition {
            memory_used: 10,
            memory_limit: 100,
            disk_free: 1000,
            disk_limit: 50,
            files: [10, 1000],
            ..Condition::default()
        };
        assert!(kinds(&well).is_empty());
        let near = Condition { memory_used: 90, disk_free: 55, files: [900, 1000], ..well };
        assert_eq!(kinds(&near), ["memory_near", "disk_near", "files_near"]);
        let over = Condition { is_memory_alarm: true, is_disk_alarm: true, ..near };
        assert_eq!(kinds(&over), ["memory_alarm", "disk_alarm", "files_near"]);
    }
}
