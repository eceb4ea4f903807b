//! Queues.

use crate::body::Body;
use crate::call::Call;
use crate::channels;
use crate::history::Whose;
use crate::list::{Columns, Listed};
use crate::node::{Action, Node, Which};
use crate::request::{Method, Request};
use crate::response::{Answer, Response};
use crate::{json, list, stats, trail};
use base::id::QueueId;
use broker::access::Access;
use broker::catalog::{QueueDefinition, QueueType, VhostId};
use broker::{QueueRow, QuorumRow, process_id};
use filter::Counts;
use routing::Arguments;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The argument that names a queue's type.
const TYPE: &str = "x-queue-type";

/// The columns that queues are ordered by.
const ORDER: &[&str] = &["vhost", "name"];

/// Columns that are estimated by some of a queue's messages.
const SAMPLED: &[&str] = &[
    "message_bytes",
    "message_bytes_ready",
    "message_bytes_unacknowledged",
    "message_bytes_persistent",
    "message_bytes_ram",
    "message_bytes_dlx",
    "head_message_timestamp",
];

/// The column that the connections of consumers are asked for.
const ACTIVE: &str = "single_active_consumer_tag";

/// Columns that come of policies.
const GOVERNED: &[&str] = &["policy", "operator_policy", "effective_policy_definition"];

/// Columns that tell how a queue's lengths grow.
const GROWING: &[&str] = &["messages_details", "messages_ready_details", "messages_unacknowledged_details"];

/// The policies of a queue, and the definition that they come to.
#[derive(Clone, Default)]
struct Policies {
    user: Option<Box<str>>,
    operator: Option<Box<str>>,
    definition: Arguments,
}

/// `GET /api/queues[/VHOST]`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>, vhost: Option<&str>) -> Answer {
    let which = vhost.map(|vhost| call.caller.vhost(vhost)).transpose()?.map_or(Which::All, Which::Of);
    if list::is_page_by_name(call.request) {
        let names = call.node.queue_names()?;
        return named(call, seen(call, &names, vhost));
    }
    if let Some(column) = list::page_column(call.request).filter(|_| !call.caller.login.is_own) {
        list::check(call.request, &call.node.about().limits)?;
        let order = call.node.queue_order(column, || by_column(call, column))?;
        return ordered(call, &order, vhost);
    }
    let mut rows = call.node.queues(which, list::wants(call.request, SAMPLED))?;
    rows.retain(|row| call.caller.sees(&row.definition.vhost_name));
    answer(call, rows)
}

fn answer<N: Node>(call: &Call<'_, N>, rows: Vec<QueueRow>) -> Answer {
    let active_tags = active_tags(call, &rows)?;
    let show = |rows: &[QueueRow]| shown(call, rows, &active_tags);
    list::of(rows, call.request, &call.node.about().limits, ORDER, show)
}

/// All queues by a column, whoever sees them; those that share a value by virtual host and name.
fn by_column<N: Node>(call: &Call<'_, N>, column: &str) -> Result<Vec<Arc<QueueDefinition>>, Response> {
    let query = ["columns", "sort"].map(|key| (key.to_owned(), column.to_owned()));
    let request = Request { query: query.into(), ..call.request.clone() };
    let by = Call { node: call.node, request: &request, caller: call.caller.clone() };
    let mut rows = call.node.queues(Which::All, list::wants(&request, SAMPLED))?;
    base::brief::sort_by(&mut rows, |a, b| {
        let (a, b) = (&a.definition, &b.definition);
        (&a.vhost_name, &a.name).cmp(&(&b.vhost_name, &b.name))
    });
    let active_tags = active_tags(&by, &rows)?;
    let rows = list::sorted(rows, &request, ORDER, |rows: &[QueueRow]| shown(&by, rows, &active_tags))?;
    Ok(rows.into_iter().map(|row| row.definition).collect())
}

/// A page of queues that are in its order: they are shown as they are now, at the places that they had a moment ago.
fn ordered<N: Node>(call: &Call<'_, N>, order: &[Arc<QueueDefinition>], only: Option<&str>) -> Answer {
    let visible = call.caller.visible().filter(|(vhost, _)| only.is_none_or(|only| *vhost == only));
    let visible: BTreeSet<VhostId> = base::brief::collect(visible.map(|(_, id)| id));
    let names: Vec<&Arc<QueueDefinition>> =
        order.iter().filter(|queue| visible.contains(&queue.vhost)).collect();
    let show = |names: &[&Arc<QueueDefinition>]| {
        let names: Vec<_> = names.iter().map(|queue| (*queue).clone()).collect();
        let rows = call.node.rows_of(&names)?;
        shown(call, &rows, &active_tags(call, &rows)?)
    };
    list::of_ordered(names, call.request, &call.node.about().limits, show)
}

/// `GET /api/users/NAME/queues`: those that the user declared, also a user that is gone.
pub(crate) fn of_user<N: Node>(call: &Call<'_, N>, user: &str) -> Answer {
    let names = call.node.queue_names()?;
    let mut own = seen(call, &names, None);
    own.retain(|queue| queue.declared_by.as_deref() == Some(user));
    named(call, own)
}

/// Of queues by virtual host and name those that the caller sees, or those of them in one virtual host.
fn seen<'q, N: Node>(
    call: &Call<'_, N>,
    names: &'q [Arc<QueueDefinition>],
    only: Option<&str>,
) -> Vec<&'q Arc<QueueDefinition>> {
    let visible = call.caller.visible().filter(|(vhost, _)| only.is_none_or(|only| *vhost == only));
    let each = visible.flat_map(|(vhost, _)| {
        let first = names.partition_point(|queue| *queue.vhost_name < *vhost);
        let len = names[first..].partition_point(|queue| *queue.vhost_name == *vhost);
        &names[first..first + len]
    });
    each.collect()
}

/// Queues as they are asked for, which are in the order of their virtual hosts and names.
fn named<N: Node>(call: &Call<'_, N>, names: Vec<&Arc<QueueDefinition>>) -> Answer {
    let rows_of = |names: &[&Arc<QueueDefinition>]| {
        let names: Vec<_> = names.iter().map(|queue| (*queue).clone()).collect();
        call.node.rows_of(&names)
    };
    if !list::is_page_by_name(call.request) {
        return answer(call, rows_of(&names)?);
    }
    let show = |names: &[&Arc<QueueDefinition>]| {
        let rows = rows_of(names)?;
        shown(call, &rows, &active_tags(call, &rows)?)
    };
    let is_in_one_vhost = names.first().map(|queue| queue.vhost) == names.last().map(|queue| queue.vhost);
    if is_in_one_vhost || !list::is_sorted_by(call.request, "name") {
        return list::of_ordered(names, call.request, &call.node.about().limits, show);
    }
    list::of(names, call.request, &call.node.about().limits, ORDER, show)
}

/// The tags of those consumers that alone are active, where they are asked for: every connection is looked at.
fn active_tags<N: Node>(
    call: &Call<'_, N>,
    rows: &[QueueRow],
) -> Result<BTreeMap<QueueId, String>, Response> {
    match list::wants(call.request, &[ACTIVE]) {
        true => channels::active_tags(call, rows),
        false => Ok(BTreeMap::new()),
    }
}

impl Listed for &Arc<QueueDefinition> {
    fn column(&self, column: &str) -> Option<Cow<'_, str>> {
        match column {
            "vhost" => Some((&*self.vhost_name).into()),
            "name" => Some((&*self.name).into()),
            _ => None,
        }
    }
}

impl Listed for QueueRow {
    fn column(&self, column: &str) -> Option<Cow<'_, str>> {
        match column {
            "vhost" => Some((&*self.definition.vhost_name).into()),
            "name" => Some((&*self.definition.name).into()),
            _ => None,
        }
    }

    fn number(&self, column: &str) -> Option<u64> {
        match column {
            "messages" => Some(self.ready + self.unsettled),
            "messages_ready" => Some(self.ready),
            "messages_unacknowledged" => Some(self.unsettled),
            "messages_delayed" => Some(self.delayed),
            "messages_unmatched" => Some(self.unmatched),
            "consumers" => Some(self.consumers.into()),
            "memory" => Some(self.memory_bytes as u64),
            _ => None,
        }
    }
}

fn shown<N: Node>(
    call: &Call<'_, N>,
    rows: &[QueueRow],
    active_tags: &BTreeMap<QueueId, String>,
) -> Result<Vec<Value>, Response> {
    let node = call.node.about().node.as_str();
    let policies = match list::wants(call.request, GOVERNED) {
        true => governed(call.node, rows)?,
        false => vec![Policies::default(); rows.len()],
    };
    let (is_own, is_growing) = (call.caller.login.is_own, list::wants(call.request, GROWING));
    let columns = Columns::asked(call.request);
    let has_stats = columns.has("message_stats");
    let shown = rows.iter().zip(&policies).map(|(row, policies)| {
        let mut item = Item { columns: &columns, fields: Map::new() };
        item.describe(row, policies, node);
        if is_own {
            // The command line names queues so; over HTTP RabbitMQ tells of no process.
            let QueueDefinition { log, id, exclusive, .. } = &*row.definition;
            let owner = || exclusive.map(|port| process_id(port.shard.0, port.slot)).unwrap_or_default();
            item.put("pid", || format!("<0.{log}.{id}>").into());
            item.put("owner_pid", || owner().into());
        }
        if row.active.is_some() || row.quorum.is_some() {
            // A text in any case, as RabbitMQ has it of quorum queues.
            let tag = || active_tags.get(&row.definition.id).map_or("", String::as_str);
            item.put(ACTIVE, || tag().into());
        }
        item.put("messages", || (row.ready + row.unsettled).into());
        item.put("messages_ready", || row.ready.into());
        item.put("messages_unacknowledged", || row.unsettled.into());
        let (mut item, whose) = (Value::Object(item.fields), Whose::Queue(row.definition.id));
        if is_growing {
            let lengths = stats::lengths_span(call.request);
            call.node.history(|history| {
                let growth = (history.of(whose), stats::MESSAGES);
                stats::put_lengths(&mut item, [row.ready, row.unsettled], growth, lengths);
            });
        }
        if has_stats {
            stats::put_messages(call.node, call.request, &mut item, whose, &row.tally, stats::OF_QUEUE);
        }
        item
    });
    Ok(shown.collect())
}

/// The policies of these queues.
fn governed<N: Node>(node: &N, rows: &[QueueRow]) -> Result<Vec<Policies>, Response> {
    let queues: Vec<Arc<QueueDefinition>> = rows.iter().map(|row| row.definition.clone()).collect();
    Ok(node.look(move |catalog| {
        let of = |queue: &Arc<QueueDefinition>| {
            let matched = catalog.queue_policies(queue);
            Policies {
                user: matched.user.map(|policy| policy.name.clone()),
                operator: matched.operator.map(|policy| policy.name.clone()),
                definition: matched.definition(),
            }
        };
        queues.iter().map(of).collect()
    })?)
}

/// A queue as an object; only the fields that the caller wants are worked out.
struct Item<'a> {
    columns: &'a Columns<'a>,
    fields: Map<String, Value>,
}

impl Item<'_> {
    fn put(&mut self, name: &str, value: impl FnOnce() -> Value) {
        if self.columns.has(name) {
            self.fields.insert(name.to_owned(), value());
        }
    }

    fn describe(&mut self, row: &QueueRow, policies: &Policies, node: &str) {
        let queue = &row.definition;
        self.put("name", || (*queue.name).into());
        self.put("vhost", || (*queue.vhost_name).into());
        self.put("type", || queue.queue_type.name().into());
        self.put("durable", || queue.durable.into());
        self.put("auto_delete", || queue.auto_delete.into());
        self.put("exclusive", || queue.exclusive.is_some().into());
        self.put("internal", || false.into());
        self.put("internal_owner", || false.into());
        self.put("arguments", || arguments(queue));
        self.put("node", || node.into());
        self.put("state", || "running".into());
        self.put("policy", || policies.user.as_deref().into());
        self.put("operator_policy", || policies.operator.as_deref().into());
        self.put("effective_policy_definition", || json::object(&policies.definition));
        self.put("messages_delayed", || row.delayed.into());
        if row.selectors > 0 {
            self.put("messages_unmatched", || row.unmatched.into());
            self.put("selectors", || row.selectors.into());
        }
        if let Some(count) = row.leases_over {
            self.put("lease_expiries", || count.into());
        }
        if let Some((count, passed_over)) = row.barriers {
            self.put("barriers", || count.into());
            self.put("barriers_passed_over", || passed_over.into());
        }
        self.put("consumers", || row.consumers.into());
        self.put("memory", || row.memory_bytes.into());
        // Whether it could hand out a new message at once.
        self.put("consumer_capacity", || capacity(row).into());
        self.put("consumer_utilisation", || capacity(row).into());
        match &row.stream {
            Some(stream) => {
                self.put("segments", || stream.segments.into());
                self.put("readers", || json!({ node: stream.readers }));
                // One without messages begins at 0, as RabbitMQ has it.
                let Counts { messages, unreadable, .. } = stream.filtered;
                if messages > 0 {
                    self.put("filter_messages", || messages.into());
                    self.put("filter_unreadable", || unreadable.into());
                }
                self.put("first_timestamp", || stream.first_timestamp_ms.unwrap_or(0).into());
            }
            None => self.put_contents(row),
        }
        if let Some(quorum) = &row.quorum {
            self.put_quorum(row, quorum, node);
        }
        match queue.queue_type {
            QueueType::Classic => {
                self.put("storage_version", || 2.into());
                self.put("head_message_timestamp", || row.sample.head_timestamp_s.into());
            }
            _ => {
                self.put("leader", || node.into());
                self.put("members", || json!([node]));
                self.put("online", || json!([node]));
            }
        }
        self.put("reductions", || 0.into());
        self.put("reductions_details", || json!({ "rate": 0.0 }));
    }

    /// The messages of a queue that are in memory alone. The log holds all others, and memory its latest, of all queues
    /// together: those count here that would be gone after a restart.
    fn put_contents(&mut self, row: &QueueRow) {
        let [persistent, ram] = kept(row);
        self.put("messages_persistent", || persistent.into());
        self.put("messages_ram", || ram.into());
        if row.quorum.is_none() {
            // Which of them are held is not known: those that are ready are thought of first.
            self.put("messages_ready_ram", || ram.min(row.ready).into());
            self.put("messages_unacknowledged_ram", || ram.saturating_sub(row.ready).into());
        }
        if let (Some([ready, unsettled]), Some([persistent, ram])) = (row.bytes(), kept_bytes(row)) {
            self.put("message_bytes", || (ready + unsettled).into());
            self.put("message_bytes_ready", || ready.into());
            self.put("message_bytes_unacknowledged", || unsettled.into());
            self.put("message_bytes_persistent", || persistent.into());
            self.put("message_bytes_ram", || ram.into());
        }
    }

    fn put_quorum(&mut self, row: &QueueRow, quorum: &QuorumRow, node: &str) {
        let QuorumRow { priorities, delivery_limit, retry } = quorum;
        let by_priority = || -> Map<String, Value> {
            priorities.iter().map(|(priority, count)| (priority.to_string(), Value::from(*count))).collect()
        };
        self.put("messages_active_priorities", || priorities.len().into());
        self.put("messages_by_priority", || by_priority().into());
        self.put("messages_ready_returned", || row.returned.into());
        self.put("messages_dlx", || row.dying.into());
        if let Some(mean) = row.sample.bytes_mean.or((row.dying == 0).then_some(0.0)) {
            self.put("message_bytes_dlx", || ((mean * row.dying as f64).round() as u64).into());
        }
        self.put("delivery_limit", || delivery_limit.map_or_else(|| "unlimited".into(), Value::from));
        self.put("delayed_retry", || {
            match retry.map(|retry| (retry.failed, retry.released)) {
                None | Some((false, false)) => "disabled",
                Some((true, true)) => "all",
                Some((true, false)) => "failed",
                Some((false, true)) => "returned",
            }
            .into()
        });
        // Messages are in the log of all queues.
        self.put("open_files", || json!({ node: 0 }));
    }
}

/// The arguments that a queue was declared with, and its type where none was named: as RabbitMQ has it.
fn arguments(queue: &QueueDefinition) -> Value {
    let mut arguments = json::object(&queue.arguments);
    if arguments.get(TYPE).is_none() {
        arguments[TYPE] = queue.queue_type.name().into();
    }
    arguments
}

/// How many messages of a queue survive a restart, and how many do not.
pub(crate) fn kept(row: &QueueRow) -> [u64; 2] {
    let all = row.ready + row.unsettled;
    let lost = if row.definition.is_kept() { row.transient.min(all) } else { all };
    [all - lost, lost]
}

/// The part of bytes of some messages that is of `part` of `all`.
fn share(bytes: u64, part: u64, all: u64) -> u64 {
    match part {
        0 => 0,
        part if part == all => bytes,
        part => (bytes as f64 * part as f64 / all as f64).round() as u64,
    }
}

/// Bytes of messages of a queue that survive a restart, and of those that do not, where any are known.
pub(crate) fn kept_bytes(row: &QueueRow) -> Option<[u64; 2]> {
    let bytes = row.bytes()?.iter().sum::<u64>();
    let lost = share(bytes, kept(row)[1], row.ready + row.unsettled);
    Some([bytes - lost, lost])
}

/// Whether the queue could hand out a new message at once, as 0 or 1.
pub(crate) fn capacity(row: &QueueRow) -> f64 {
    f64::from(row.consumers > 0 && row.ready == 0)
}

/// The tag of the one consumer of which this holds.
fn tag_of(consumers: &Value, is_it: impl Fn(&Value) -> bool) -> Value {
    let mut found = consumers.as_array().into_iter().flatten().filter(|consumer| is_it(consumer));
    found.next().map_or(Value::Null, |consumer| consumer["consumer_tag"].clone())
}

/// `/api/queues/VHOST/NAME`.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let found = call.node.queues(Which::One(call.caller.vhost(vhost)?, name.to_owned()), true)?;
    let act = |action| call.act(vhost, action);
    match (call.request.method, &found[..]) {
        (Method::Put, found) => {
            let body = Body::read(&call.request.body)?;
            act(declaration(name, &body)?)?;
            Ok(Response::empty(if found.is_empty() { 201 } else { 204 }))
        }
        (_, []) => Err(Response::not_found()),
        (Method::Delete, _) => {
            let (if_unused, if_empty) = (call.request.says("if-unused"), call.request.says("if-empty"));
            act(Action::DeleteQueue { name: name.to_owned(), if_unused, if_empty })?;
            Ok(Response::empty(204))
        }
        (_, found) => {
            let mut shown = shown(call, found, &channels::active_tags(call, found)?)?;
            let mut row = shown.pop().ok_or_else(Response::not_found)?;
            let queue = &found[0].definition;
            let consumers = channels::of_queue(call, queue.id)?;
            row["exclusive_consumer_tag"] = tag_of(&consumers, |own| own["exclusive"] == true);
            if row.get("single_active_consumer_tag").is_none() {
                row["single_active_consumer_tag"] = Value::Null;
            }
            row["consumer_details"] = consumers;
            stats::put_idle(call.node, &mut row, Whose::Queue(queue.id));
            stats::put_collected(&mut row);
            row["incoming"] = json!([]);
            row["deliveries"] = json!([]);
            list::one(row, call.request, &call.node.about().limits)
        }
    }
}

/// A queue as an object says.
pub(crate) fn declaration(name: &str, body: &Body) -> Result<Action, Response> {
    Ok(Action::DeclareQueue {
        name: name.to_owned(),
        durable: body.boolean("durable", false)?,
        auto_delete: body.boolean("auto_delete", false)?,
        arguments: json::table(&body.object("arguments")?),
    })
}

/// `POST /api/queues/VHOST/NAME/actions`: mirrors were told to catch up here; no action is left.
pub(crate) fn act<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let which = Which::One(call.caller.vhost(vhost)?, name.to_owned());
    if call.node.queues(which, false)?.is_empty() {
        return Err(Response::error(404, "not_found", "queue_not_found"));
    }
    let body = Body::read(&call.request.body)?;
    Err(Response::bad_request(json!(["unknown", body.need("action")?])))
}

/// `POST /api/x/streams/VHOST/NAME/truncate`.
pub(crate) fn truncate<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    let before = body.integer("before")?.ok_or_else(|| Response::missing_key("before"))?;
    let Ok(before) = u64::try_from(before) else {
        return Err(Response::bad_request("before is below 0"));
    };
    call.check_access(vhost, Access::Configure, name)?;
    let first_offset = call.node.truncate_stream(vhost, name, before)?;
    let (stream, of) = (trail::quoted(name), trail::quoted(vhost));
    call.tell(&format!("Truncated stream {stream} in virtual host {of}: it begins at offset {first_offset}"));
    Ok(Response::ok(&json!({ "first_offset": first_offset })))
}

/// `DELETE /api/queues/VHOST/NAME/contents`.
pub(crate) fn purge<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let found = call.node.queues(Which::One(call.caller.vhost(vhost)?, name.to_owned()), false)?;
    if found.is_empty() {
        return Err(Response::not_found());
    }
    call.act(vhost, Action::Purge { queue: name.to_owned() })?;
    Ok(Response::empty(204))
}
