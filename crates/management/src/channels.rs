//! Channels and consumers.

use crate::call::Call;
use crate::history::Whose;
use crate::list::Listed;
use crate::node::{Node, Which};
use crate::response::{Answer, Response};
use crate::{connections, json, list, stats};
use base::brief;
use base::id::QueueId;
use broker::catalog::QueueDefinition;
use broker::{ChannelRow, ConsumerRow, Opened, QueueRow, StreamConsumerRow, Tally};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Milliseconds a consumer may hold a message is of quorum queues alone; of others this is told.
const NO_TIMEOUT: &str = "infinity";

/// Open channels and consumers of the connections that are shown to the user.
fn seen<N: Node>(call: &Call<'_, N>) -> Result<Vec<(u16, Opened)>, Response> {
    let mut all = call.node.opened()?;
    all.retain(|(_, opened)| call.caller.sees_connection(&opened.user, &opened.vhost));
    Ok(all)
}

/// The two ends of `ADDRESS:PORT -> ADDRESS:PORT`: the client's.
fn peer(connection: &str) -> (&str, u64) {
    let (peer, _) = connection.split_once(" -> ").unwrap_or((connection, ""));
    let (host, port) = peer.rsplit_once(':').unwrap_or((peer, ""));
    (host.trim_start_matches('[').trim_end_matches(']'), port.parse().unwrap_or(0))
}

/// `CONNECTION (NUMBER)`.
pub(crate) fn channel_name(opened: &Opened, number: u16) -> String {
    format!("{} ({number})", opened.connection)
}

fn connection_details(opened: &Opened) -> Value {
    let (host, port) = peer(&opened.connection);
    json!({ "name": opened.connection, "peer_host": host, "peer_port": port })
}

fn shown<N: Node>(call: &Call<'_, N>, (shard, opened): &(u16, Opened), row: &ChannelRow) -> Value {
    let whose = Whose::Channel((*shard, opened.port.0, opened.port.1), row.number);
    let mut item = json!({
        "name": channel_name(opened, row.number),
        "number": row.number,
        "node": call.node.about().node,
        "vhost": opened.vhost,
        "user": opened.user,
        "user_who_performed_action": opened.user,
        "connection_details": connection_details(opened),
        "state": "running",
        "confirm": row.confirm,
        "transactional": row.transactional,
        "consumer_count": row.consumers,
        "prefetch_count": row.prefetch,
        "global_prefetch_count": row.shared_prefetch,
        "messages_unacknowledged": row.unacknowledged,
        "messages_unconfirmed": row.unconfirmed,
        "messages_uncommitted": row.uncommitted,
        "acks_uncommitted": row.uncommitted_acks,
        "pending_raft_commands": 0,
        "cached_segments": 0,
    });
    stats::put_messages(call.node, call.request, &mut item, whose, &row.tally, stats::ALL);
    stats::put_idle(call.node, &mut item, whose);
    stats::put_collected(&mut item);
    item
}

/// A channel, with all that its connection has open.
struct Channel<'o> {
    opened: &'o (u16, Opened),
    row: &'o ChannelRow,
}

impl Listed for Channel<'_> {
    fn column(&self, column: &str) -> Option<Cow<'_, str>> {
        let (_, opened) = self.opened;
        match column {
            "vhost" => Some(opened.vhost.as_str().into()),
            "name" => Some(channel_name(opened, self.row.number).into()),
            _ => None,
        }
    }
}

fn channels<N: Node>(call: &Call<'_, N>, wanted: impl Fn(&Opened) -> bool) -> Answer {
    let all = seen(call)?;
    let own = all.iter().filter(|(_, opened)| wanted(opened));
    let each = own.flat_map(|opened| opened.1.channels.iter().map(move |row| Channel { opened, row }));
    let show = |own: &[Channel<'_>]| Ok(own.iter().map(|own| shown(call, own.opened, own.row)).collect());
    list::of(each.collect(), call.request, &call.node.about().limits, &["vhost", "name"], show)
}

/// `GET /api/channels`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>) -> Answer {
    channels(call, |_| true)
}

/// `GET /api/vhosts/VHOST/channels`.
pub(crate) fn of_vhost<N: Node>(call: &Call<'_, N>, vhost: &str) -> Answer {
    channels(call, |opened| opened.vhost == vhost)
}

/// `GET /api/connections/NAME/channels`.
pub(crate) fn of_connection<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    connections::named(call, name)?;
    channels(call, |opened| opened.connection == name)
}

/// `GET /api/channels/NAME`.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    let all = call.node.opened()?;
    let found = all.iter().find_map(|opened| {
        let row = opened.1.channels.iter().find(|row| channel_name(&opened.1, row.number) == name)?;
        Some((opened, row))
    });
    let (opened, row) = found.ok_or_else(Response::not_found)?;
    if !call.caller.sees_connection(&opened.1.user, &opened.1.vhost) {
        return Err(Response::not_authorised("User not authorised to access object"));
    }
    let mut item = shown(call, opened, row);
    let consumers = opened.1.consumers.iter().filter(|consumer| consumer.channel == row.number);
    let actives = actives(call)?;
    item["consumer_details"] =
        consumers.map(|consumer| consumer_item(call, opened, consumer, &actives)).collect();
    // How fast each grows is known where it is the only one: it grows as the channel does.
    let stats = |name: &str, count: u64| {
        let mut stats = json!({ name: count });
        if item["message_stats"][name] == count {
            let details = format!("{name}_details");
            stats[&details] = item["message_stats"][&details].clone();
        }
        stats
    };
    let publish = |(exchange, count): &(Box<str>, u64)| {
        json!({
            "exchange": { "name": exchange, "vhost": opened.1.vhost },
            "stats": stats("publish", *count),
        })
    };
    let publishes: Value = row.publishes.iter().map(publish).collect();
    let delivery = |(queue, tally): &(Arc<QueueDefinition>, Tally)| {
        json!({
            "queue": { "name": *queue.name, "vhost": *queue.vhost_name },
            "stats": stats("deliver_get", tally.deliver_get()),
        })
    };
    let told = row.deliveries.iter().filter(|(_, tally)| tally.deliver_get() > 0);
    let deliveries: Value = told.map(delivery).collect();
    item["publishes"] = publishes;
    item["deliveries"] = deliveries;
    list::one(item, call.request, &call.node.about().limits)
}

/// A consumer: the shard, slot and generation of its port, and its handle there.
type Holder = ((u16, u32, u32), u32);

/// Of queues with one active consumer at a time: which that is.
type Actives = BTreeMap<QueueId, Holder>;

fn active(row: &QueueRow) -> Option<(QueueId, Holder)> {
    let (port, handle) = row.active?;
    Some((row.definition.id, ((port.shard.0, port.slot, port.generation), handle)))
}

fn actives<N: Node>(call: &Call<'_, N>) -> Result<Actives, Response> {
    let mut found = Actives::new();
    call.node.each_queue(Which::All, |row| found.extend(active(row)))?;
    Ok(found)
}

fn consumer_item<N: Node>(
    call: &Call<'_, N>,
    (shard, opened): &(u16, Opened),
    row: &ConsumerRow,
    actives: &Actives,
) -> Value {
    let port = (*shard, opened.port.0, opened.port.1);
    let is_single =
        row.queue.arguments.get(b"x-single-active-consumer") == Some(routing::Argument::Bool(true));
    let active = !is_single || actives.get(&row.queue.id) == Some(&(port, row.handle));
    let (host, peer_port) = peer(&opened.connection);
    let timeout = if row.queue.is_quorum() {
        Value::from(call.node.about().consumer_timeout_ms)
    } else {
        NO_TIMEOUT.into()
    };
    json!({
        "consumer_tag": row.tag,
        "queue": { "name": *row.queue.name, "vhost": *row.queue.vhost_name },
        "channel_details": {
            "name": channel_name(opened, row.channel),
            "number": row.channel,
            "node": call.node.about().node,
            "user": opened.user,
            "connection_name": opened.connection,
            "peer_host": host,
            "peer_port": peer_port,
        },
        "ack_required": row.settles,
        "active": active,
        "activity_status": status(is_single, active),
        "exclusive": row.exclusive,
        "prefetch_count": row.prefetch,
        "arguments": row.arguments.as_ref().map_or_else(|| json!({}), |arguments| json::object(arguments)),
        "consumer_timeout": timeout,
    })
}

fn subscription_tag(row: &StreamConsumerRow) -> String {
    format!("stream.subid-{}", row.id)
}

/// A subscription over the stream protocol, as a consumer on no channel of its connection.
fn subscription_item<N: Node>(call: &Call<'_, N>, opened: &Opened, row: &StreamConsumerRow) -> Value {
    let (host, peer_port) = peer(&opened.connection);
    let has_property = |name: &str| row.properties.iter().any(|(own, _)| **own == *name);
    json!({
        "consumer_tag": subscription_tag(row),
        "queue": { "name": *row.stream.name, "vhost": *row.stream.vhost_name },
        "channel_details": {
            "name": opened.connection,
            "number": 0,
            "node": call.node.about().node,
            "user": opened.user,
            "connection_name": opened.connection,
            "peer_host": host,
            "peer_port": peer_port,
        },
        "ack_required": false,
        "active": row.active,
        "activity_status": status(has_property("single-active-consumer"), row.active),
        "exclusive": false,
        "prefetch_count": 0,
        "arguments": brief::collect::<BTreeMap<_, _>, _>(row.properties.iter().map(|(name, value)| (name.to_string(), &**value))),
        "consumer_timeout": NO_TIMEOUT,
    })
}

/// The state of a consumer, where one is active at a time and where any number are.
pub(crate) fn status(is_single: bool, is_active: bool) -> &'static str {
    match (is_single, is_active) {
        (true, true) => "single_active",
        (true, false) => "waiting",
        (false, _) => "up",
    }
}

/// A consumer, with all that its connection has open.
enum Consumer<'o> {
    OfQueue(&'o (u16, Opened), &'o ConsumerRow),
    OfStream(&'o Opened, &'o StreamConsumerRow),
}

impl Consumer<'_> {
    fn queue(&self) -> &QueueDefinition {
        match self {
            Consumer::OfQueue(_, row) => &row.queue,
            Consumer::OfStream(_, row) => &row.stream,
        }
    }

    fn shown<N: Node>(&self, call: &Call<'_, N>, actives: &Actives) -> Value {
        match self {
            Consumer::OfQueue(opened, row) => consumer_item(call, opened, row, actives),
            Consumer::OfStream(opened, row) => subscription_item(call, opened, row),
        }
    }
}

impl Listed for Consumer<'_> {
    fn column(&self, column: &str) -> Option<Cow<'_, str>> {
        match (column, self) {
            ("queue.vhost", _) => Some((&*self.queue().vhost_name).into()),
            ("queue.name", _) => Some((&*self.queue().name).into()),
            ("consumer_tag", Consumer::OfQueue(_, row)) => Some(row.tag.as_str().into()),
            ("consumer_tag", Consumer::OfStream(_, row)) => Some(subscription_tag(row).into()),
            _ => None,
        }
    }
}

/// Consumers of queues and streams that are asked for.
fn consumers_of(all: &[(u16, Opened)], wanted: impl Fn(&QueueDefinition) -> bool) -> Vec<Consumer<'_>> {
    let mut found = Vec::new();
    for opened in all {
        found.extend(opened.1.consumers.iter().map(|row| Consumer::OfQueue(opened, row)));
        found.extend(opened.1.stream_consumers.iter().map(|row| Consumer::OfStream(&opened.1, row)));
    }
    found.retain(|consumer| wanted(consumer.queue()));
    found
}

/// `GET /api/consumers[/VHOST]`.
pub(crate) fn consumers<N: Node>(call: &Call<'_, N>, vhost: Option<&str>) -> Answer {
    let is_wanted = |queue: &QueueDefinition| {
        vhost.is_none_or(|vhost| *queue.vhost_name == *vhost) && call.caller.sees(&queue.vhost_name)
    };
    let (all, actives) = (call.node.opened()?, actives(call)?);
    let show = |own: &[Consumer<'_>]| Ok(own.iter().map(|own| own.shown(call, &actives)).collect());
    let order = &["queue.vhost", "queue.name", "consumer_tag"];
    list::of(consumers_of(&all, is_wanted), call.request, &call.node.about().limits, order, show)
}

/// The consumers of a queue.
pub(crate) fn of_queue<N: Node>(call: &Call<'_, N>, queue: QueueId) -> Result<Value, Response> {
    let (all, actives) = (call.node.opened()?, actives(call)?);
    Ok(consumers_of(&all, |own| own.id == queue).iter().map(|own| own.shown(call, &actives)).collect())
}

/// Of queues in which one consumer is active at a time: the tag of that one, where there is one.
pub(crate) fn active_tags<N: Node>(
    call: &Call<'_, N>,
    rows: &[QueueRow],
) -> Result<BTreeMap<QueueId, String>, Response> {
    let actives: Actives = brief::collect(rows.iter().filter_map(active));
    if actives.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut tags = BTreeMap::new();
    for (shard, opened) in call.node.opened()? {
        let port = (shard, opened.port.0, opened.port.1);
        let own = opened.consumers.into_iter();
        let own = own.filter(|row| actives.get(&row.queue.id) == Some(&(port, row.handle)));
        tags.extend(own.map(|row| (row.queue.id, row.tag)));
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::peer;

    #[test]
    fn clients_are_read_out_of_names() {
        assert_eq!(peer("127.0.0.1:48480 -> 127.0.0.1:5672"), ("127.0.0.1", 48480));
        assert_eq!(peer("[::1]:48480 -> [::1]:5672"), ("::1", 48480));
        assert_eq!(peer("x"), ("x", 0));
    }
}
