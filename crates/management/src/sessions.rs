//! Sessions of connections over AMQP 1.0, with their links.

use crate::call::Call;
use crate::connections;
use crate::list;
use crate::node::Node;
use crate::response::{Answer, Response};
use base::brief;
use broker::{LinkEnd, LinkRow, SessionRow};
use message::amqp10::{Array, Decoder, Descriptor, List, Map, Value};
use serde_json::{Value as Json, json};

/// How deep a filter is looked into: values further in are told as nothing.
const DEPTH_MAX: usize = 16;

/// `GET /api/connections/NAME/sessions`.
pub(crate) fn of_connection<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    // One that goes to another shard between the two questions is not there any more, and is asked for again.
    for _ in 0..2 {
        let row = connections::named(call, name)?;
        if !connections::speaks_amqp10(&row) {
            return Err(Response::bad_request("connection does not use AMQP 1.0"));
        }
        if let Some(rows) = call.node.sessions(row.id)? {
            let items = rows.iter().map(shown).collect();
            return list::whole(items, call.request, &call.node.about().limits, &["channel_number"]);
        }
    }
    Err(Response::not_found())
}

fn shown(row: &SessionRow) -> Json {
    let mut links: Vec<&LinkRow> = row.links.iter().collect();
    brief::sort_by_key(&mut links, |link| (!link.is_management, link.handle));
    let (incoming, outgoing): (Vec<_>, Vec<_>) =
        links.into_iter().partition(|link| matches!(link.end, LinkEnd::Incoming { .. }));
    json!({
        "channel_number": row.channel,
        "handle_max": row.handle_max,
        "next_incoming_id": row.next_incoming_id,
        "incoming_window": row.incoming_window,
        "next_outgoing_id": row.next_outgoing_id,
        "remote_incoming_window": row.remote_incoming_window,
        "remote_outgoing_window": row.remote_outgoing_window,
        "outgoing_unsettled_deliveries": row.unsettled,
        "incoming_links": incoming.into_iter().map(link).collect::<Json>(),
        "outgoing_links": outgoing.into_iter().map(link).collect::<Json>(),
    })
}

fn link(row: &LinkRow) -> Json {
    let bytes_max = row.message_bytes_max.map_or_else(|| Json::from("unlimited"), Json::from);
    match &row.end {
        LinkEnd::Incoming { settles, unconfirmed } => json!({
            "handle": row.handle,
            "link_name": row.name,
            "snd_settle_mode": settles,
            "target_address": row.address,
            "max_message_size": bytes_max,
            "delivery_count": row.delivery_count,
            "credit": row.credit,
            "unconfirmed_messages": unconfirmed,
        }),
        LinkEnd::Outgoing { queue, settled, filter, has_timed_out } => json!({
            "handle": row.handle,
            "link_name": row.name,
            "source_address": row.address,
            "queue_name": queue,
            "send_settled": settled,
            "max_message_size": bytes_max,
            "filter": filters(filter),
            "delivery_count": row.delivery_count,
            "credit": row.credit,
            "consumer_timeout": has_timed_out,
        }),
    }
}

/// The filters of an encoded map, each with its name, its descriptor and its value.
fn filters(encoded: &[u8]) -> Json {
    let Ok(Value::Map(map)) = Decoder::new(encoded).value() else { return json!([]) };
    let described = map.iter().filter_map(|(name, filter)| match (name, filter) {
        (Value::Symbol(name), Value::Described(described)) => Some(json!({
            "name": name,
            "descriptor": match described.descriptor() {
                Descriptor::Code(code) => code.into(),
                Descriptor::Name(name) => name.into(),
                Descriptor::Other => Json::Null,
            },
            "value": value(described.value(), DEPTH_MAX),
        })),
        _ => None,
    });
    described.collect()
}

/// A value as RabbitMQ has it: a map is a list of pairs.
fn value(own: Value<'_>, depth: usize) -> Json {
    let Some(depth) = depth.checked_sub(1) else { return Json::Null };
    let list = |own: List<'_>| own.iter().map(|item| value(item, depth)).collect();
    let array = |own: Array<'_>| own.iter().map(|item| value(item, depth)).collect();
    let pairs = |own: Map<'_>| {
        let pairs = own
            .iter()
            .filter_map(|(key, item)| Some(json!({ "key": key.as_str()?, "value": value(item, depth) })));
        pairs.collect()
    };
    match own {
        Value::Boolean(flag) => flag.into(),
        Value::Float(number) => number.into(),
        Value::Double(number) => number.into(),
        Value::String(text) | Value::Symbol(text) => text.into(),
        Value::Binary(bytes) => String::from_utf8_lossy(bytes).into(),
        Value::Char(code) => code.into(),
        Value::List(own) => list(own),
        Value::Map(own) => pairs(own),
        Value::Array(own) => array(own),
        number => number.as_u64().map(Json::from).or(number.as_i64().map(Json::from)).unwrap_or(Json::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::amqp10::Encoder;

    #[test]
    fn filters_are_told_as_they_are() {
        let mut pairs = Vec::new();
        let mut encoder = Encoder::new(&mut pairs);
        let described = |encoder: &mut Encoder<'_>, name: &str, put: &dyn Fn(&mut Encoder<'_>)| {
            encoder.symbol(name);
            encoder.encoding(&[0x00]);
            encoder.symbol(name);
            put(encoder);
        };
        described(&mut encoder, "offset", &|encoder| encoder.value(Value::Ulong(7)));
        described(&mut encoder, "filter", &|encoder| {
            let mut texts = Vec::new();
            let mut inner = Encoder::new(&mut texts);
            inner.string("a");
            inner.string("b");
            encoder.value(Value::List(List::new(2, &texts)));
        });
        described(&mut encoder, "properties", &|encoder| {
            let mut fields = Vec::new();
            let mut inner = Encoder::new(&mut fields);
            inner.symbol("subject");
            inner.string("s");
            encoder.value(Value::Map(Map::new(2, &fields)));
        });
        // A value that is not described is no filter.
        encoder.symbol("plain");
        encoder.boolean(true);
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes).value(Value::Map(Map::new(8, &pairs)));
        assert_eq!(
            filters(&bytes),
            json!([
                { "name": "offset", "descriptor": "offset", "value": 7 },
                { "name": "filter", "descriptor": "filter", "value": ["a", "b"] },
                { "name": "properties", "descriptor": "properties", "value": [{ "key": "subject", "value": "s" }] },
            ])
        );
        assert_eq!(filters(b""), json!([]));
    }

    #[test]
    fn a_filter_is_not_looked_into_without_end() {
        let mut bytes = Vec::new();
        for _ in 0..DEPTH_MAX + 1 {
            let inner = std::mem::take(&mut bytes);
            Encoder::new(&mut bytes).value(Value::List(List::new(u32::from(!inner.is_empty()), &inner)));
        }
        let mut told = value(Decoder::new(&bytes).value().unwrap(), DEPTH_MAX);
        for _ in 0..DEPTH_MAX {
            told = told[0].take();
        }
        assert_eq!(told, Json::Null);
    }
}
