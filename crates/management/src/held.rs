//! Messages of a queue that consumers hold, and who holds each: `GET /api/x/queues/VHOST/NAME/unacked`.

use crate::call::Call;
use crate::channels::channel_name;
use crate::node::Node;
use crate::peek;
use crate::response::{Answer, Response};
use base::hash::MapById;
use base::id::QueueSeq;
use base::time::NS_PER_MS;
use broker::access::Access;
use broker::{HeldRow, Opened};
use serde_json::{Map, Value, json};

/// The messages that are held from a position on, lowest first.
///
/// Of a message it is told since when it is held where somebody looks: at all messages of consumers with a timeout, and of
/// others at one message a queue.
pub(crate) fn unacked<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let (from, count) = (QueueSeq(peek::position(call)?), peek::count(call, "count")?);
    call.check_access(vhost, Access::Read, name)?;
    let held = call.node.held(call.caller.vhost(vhost)?, name, from, count as usize + 1)?;
    let mut held = held.ok_or_else(Response::not_found)?;
    let next = (held.len() > count as usize).then(|| held.pop()).flatten();
    let holders = if held.is_empty() { Vec::new() } else { call.node.opened()? };
    let holders: MapById<_, &Opened> = holders
        .iter()
        .filter(|(_, opened)| call.caller.sees_connection(&opened.user, &opened.vhost))
        .map(|(shard, opened)| ((*shard, opened.port), opened))
        .collect();
    let now_ns = call.node.now().mono_ns;
    let rows = held.iter().map(|row| {
        let holder = holders.get(&(row.port.shard.0, (row.port.slot, row.port.generation)));
        told(row, holder.copied(), now_ns)
    });
    Ok(Response::ok(&json!({
        "messages": rows.collect::<Vec<Value>>(),
        "next_position": next.map(|next| next.position),
    })))
}

fn told(row: &HeldRow, holder: Option<&Opened>, now_ns: u64) -> Value {
    let mut told = Map::new();
    told.insert("position".to_owned(), row.position.into());
    told.insert("redelivered".to_owned(), row.redelivered.into());
    let held_ms = row.since_ns.map(|since_ns| now_ns.saturating_sub(since_ns) / NS_PER_MS);
    told.insert("held_ms".to_owned(), held_ms.into());
    let Some(holder) = holder else { return told.into() };
    told.insert("connection".to_owned(), holder.connection.as_str().into());
    told.insert("user".to_owned(), holder.user.as_str().into());
    // It got the message, or has cancelled its consumer since.
    let Some(consumer) = holder.consumers.iter().find(|own| own.handle == row.handle) else {
        return told.into();
    };
    told.insert("consumer_tag".to_owned(), consumer.tag.as_str().into());
    told.insert("channel".to_owned(), channel_name(holder, consumer.channel).into());
    told.into()
}
