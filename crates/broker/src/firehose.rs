//! The firehose: in a virtual host that is traced, each publish and each delivery is told of at `amq.rabbitmq.trace`, by a copy
//! of the message whose headers say who did what with it.
//!
//! As RabbitMQ 4.3.6 tells it: the routing key is `publish.EXCHANGE` or `deliver.QUEUE`, the body is the message's in AMQP 0-9-1's
//! terms, its properties stand in a header. What is told is lost with a crash, nobody waits for it, and of it nothing is told in
//! turn. Not here: which virtual hosts are traced ([`crate::catalog::Catalog::is_traced`]).
//!
//! A connection is told of by its name, which it has to say first; nothing is told of what it did before, in the turn in which
//! its virtual host begins to be traced.
//!
//! The firehose costs nothing while nothing is traced: the routes of a traced virtual host are never kept, so each of
//! its publishes goes the way of messages that are routed alone; and its queues call consumers by handles that nobody
//! has ([`crate::TRACED`]).

use crate::catalog::VhostId;
use crate::content::Content;
use crate::fields::Fields;
use crate::ports::{Ports, Told};
use crate::publisher::{OwnPublisher, Publish};
use base::id::{PortId, QueueId};
use message::amqp10::Message;
use message::amqp091::{NewProperties, Properties, Table, TableWriter, Value};
use message::convert::Amqp091;
use message::deaths::routing_keys;
use message::record::{Enqueue, Format};
use routing::{Envelope, Matches};

/// Where it is told.
const EXCHANGE: &[u8] = b"amq.rabbitmq.trace";

/// A message that something happens to.
struct Subject<'a> {
    exchange: &'a [u8],
    keys: &'a [&'a [u8]],
    format: Format,
    head: &'a [u8],
    body: &'a [u8],
}

/// A publish or a delivery, and the channel and user that do it.
struct Deed<'a> {
    /// `publish.EXCHANGE`, `deliver.QUEUE`.
    key: Vec<u8>,
    vhost: VhostId,
    connection: &'a str,
    user: &'a str,
    channel: u16,
}

/// The properties as fields, without those in `left_out`; the last first, as RabbitMQ has them.
fn put_properties(fields: &mut TableWriter<'_>, properties: &Properties<'_>, has_headers: bool) {
    let text = |fields: &mut TableWriter<'_>, name: &str, text: Option<&[u8]>| {
        if let Some(text) = text {
            fields.put(name.as_bytes(), Value::Text(text));
        }
    };
    // RabbitMQ writes whole numbers in 32 bits, whatever becomes of them.
    let number = |fields: &mut TableWriter<'_>, name: &str, number: Option<u64>| {
        if let Some(number) = number {
            fields.put(name.as_bytes(), Value::I32(number as i32));
        }
    };
    text(fields, "cluster_id", properties.cluster_id());
    text(fields, "app_id", properties.app_id());
    text(fields, "user_id", properties.user_id());
    text(fields, "type", properties.message_type());
    number(fields, "timestamp", properties.timestamp());
    text(fields, "message_id", properties.message_id());
    text(fields, "expiration", properties.expiration());
    text(fields, "reply_to", properties.reply_to());
    text(fields, "correlation_id", properties.correlation_id());
    number(fields, "priority", properties.priority().map(u64::from));
    number(fields, "delivery_mode", properties.delivery_mode().map(u64::from));
    if let Some(headers) = properties.headers().filter(|_| has_headers) {
        fields.put(b"headers", Value::Table(headers));
    }
    text(fields, "content_encoding", properties.content_encoding());
    text(fields, "content_type", properties.content_type());
}

/// Tells of a publish that goes to these queues. `by`: connection, publisher and number of the publish.
#[cold]
#[inline(never)]
pub(crate) fn tell_publish<'q>(
    own: &mut OwnPublisher<'_>,
    ports: &Ports,
    by: (PortId, u32, u64),
    publish: &Publish<'_>,
    queues: impl Iterator<Item = &'q QueueId>,
) {
    let (port, publisher, _) = by;
    let queues: Vec<_> = queues.filter_map(|id| own.catalog.queue(*id).cloned()).collect();
    let keys: Vec<&[u8]> = [publish.routing_key]
        .into_iter()
        .chain(publish.more.iter().flat_map(|more| more.keys.iter().copied()))
        .collect();
    let (head, body) = (publish.head.concat(), publish.body.concat());
    let (exchange, format) = (publish.exchange, publish.format);
    let subject = Subject { exchange, keys: &keys, format, head: &head, body: &body };
    // Publishers are named after their channels, in the lower half.
    let doer = (port, publisher as u16);
    tell(own, ports, doer, [b"publish", publish.exchange], &subject, |fields| {
        // Keys are queues to the default exchange, as RabbitMQ has it, whether they are there or not.
        let routed: Vec<&[u8]> = match exchange {
            b"" => keys.clone(),
            _ => queues.iter().map(|queue| queue.name.as_bytes()).collect(),
        };
        fields.array(b"routed_queues", routed.into_iter().map(Value::Text));
    });
}

/// Tells of a delivery: see [`crate::Shard::trace_delivery`].
pub(crate) fn tell_delivery(
    own: &mut OwnPublisher<'_>,
    ports: &Ports,
    doer: (PortId, u16),
    queue: QueueId,
    message: &Enqueue<'_>,
    is_redelivered: bool,
) {
    let Some(queue) = own.catalog.queue(queue).cloned() else { return };
    let keys = routing_keys(message);
    let Enqueue { exchange, format, head, body, .. } = *message;
    let subject = Subject { exchange, keys: &keys, format, head, body };
    tell(own, ports, doer, [b"deliver", queue.name.as_bytes()], &subject, |fields| {
        fields.put(b"redelivered", Value::I32(is_redelivered.into()));
    });
}

/// `what`: `publish` and the exchange, `deliver` and the queue; `more`: what is told of such a deed alone.
fn tell(
    own: &mut OwnPublisher<'_>,
    ports: &Ports,
    (port, channel): (PortId, u16),
    [verb, object]: [&[u8]; 2],
    subject: &Subject<'_>,
    more: impl Fn(&mut TableWriter<'_>),
) {
    let Some(state) = ports.get(port) else { return };
    let (vhost, Some(Told { name: connection, .. })) = (state.actor.vhost, state.told.as_deref()) else {
        return;
    };
    let exchange = own.catalog.exchange(vhost, EXCHANGE);
    let Some(exchange) = exchange.filter(|entry| !entry.exchange.is_unused()) else { return };
    if subject.exchange == EXCHANGE || !own.catalog.is_traced(vhost) {
        return;
    }
    let id = exchange.definition.id;
    let deed =
        Deed { key: [verb, b".", object].concat(), vhost, connection, user: &state.actor.user, channel };
    let mut converted = Amqp091::default();
    let Some((head, body)) = worded(own, &deed, subject, &mut converted, more) else { return };
    let keys = [&*deed.key];
    let headers = &Fields::read(Format::Amqp091, &head, body);
    let (head, body) = ([&*head], [body]);
    let content = &Content::new((Format::Amqp091, 0), (EXCHANGE, &deed.key), (&head, &body));
    let now_ms = own.now.wall_ms;
    let envelope = Envelope { keys: &keys, headers, roll: now_ms, content, now_ms };
    let mut matches = Matches::within(own.settings.limits.route_steps_max);
    own.catalog.route_from(id, &envelope, &mut matches);
    let message = own.message((EXCHANGE, &deed.key), &head, &body);
    own.publish(&message, &matches);
}

/// Head and body of the copy; none of a message that cannot be read.
fn worded<'a>(
    own: &OwnPublisher<'_>,
    deed: &Deed<'_>,
    subject: &Subject<'a>,
    converted: &'a mut Amqp091,
    more: impl Fn(&mut TableWriter<'_>),
) -> Option<(Vec<u8>, &'a [u8])> {
    let (properties, body) = match subject.format {
        Format::Amqp091 => (Properties::read(subject.head).ok()?, subject.body),
        Format::Amqp10 => {
            let message = Message::read_parts(subject.head, subject.body).ok()?;
            let body = converted.convert(&message);
            let converted = &*converted;
            (Properties::read(&converted.properties).ok()?, converted.body(body))
        }
    };
    let vhost = own.catalog.vhost_definition(deed.vhost)?;
    let fields = |has_headers: bool| {
        TableWriter::fields(|fields| {
            fields.put(b"exchange_name", Value::Text(subject.exchange));
            fields.array(b"routing_keys", subject.keys.iter().map(|key| Value::Text(key)));
            fields.table(b"properties", |fields| put_properties(fields, &properties, has_headers));
            fields.put(b"node", Value::Text(own.settings.node.as_bytes()));
            more(fields);
            fields.put(b"vhost", Value::Text(vhost.name.as_bytes()));
            fields.put(b"connection", Value::Text(deed.connection.as_bytes()));
            fields.put(b"channel", Value::I32(deed.channel.into()));
            fields.put(b"user", Value::Text(deed.user.as_bytes()));
        })
    };
    let mut fields_bytes = fields(true);
    if Table::new(&fields_bytes).is_err() {
        // Its headers are nested as deep as may be: one level more is too deep.
        fields_bytes = fields(false);
    }
    let headers = Some(Table::new(&fields_bytes).expect("fields that were written as a table's"));
    let mut head = Vec::new();
    NewProperties { headers, ..NewProperties::default() }.write(&mut head);
    Some((head, body))
}
