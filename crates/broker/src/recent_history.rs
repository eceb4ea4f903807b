//! Exchanges that remember: messages that go through them are told to the shard that plans, and a destination that is
//! bound to one gets those it remembers.
//!
//! Nobody waits for a message to be remembered: a confirm is for the queues alone. What is bound on the same connection
//! after a publish gets the message, since requests and messages reach the planning shard in their order.
//! A destination gets few in the turn in which it is bound, and many piece by piece: others have their turns meanwhile.

use crate::catalog::Destination;
use crate::content::Content;
use crate::fields::Fields;
use crate::mail::Mail;
use crate::publisher::{OwnPublisher, QUEUE_PRICE};
use crate::recalls::Recalls;
use crate::shard::CATALOG_LOG;
use base::Buffer;
use message::amqp10::{Message, Value};
use message::deaths::routing_keys;
use message::record::{Enqueue, Format, NewEnqueue, flag};
use routing::{Envelope, ExchangeId, Field, Headers, Matches};
use std::sync::Arc;

/// The header, or message annotation, of a message that is not to be remembered.
const NO_STORE: &str = "x-recent-history-no-store";

/// Whether a message asks not to be remembered.
fn asks_not_to_be(message: &Enqueue<'_>) -> bool {
    match message.format {
        Format::Amqp091 => {
            let fields = Fields::read(message.format, message.head, message.body);
            matches!(fields.get(NO_STORE.as_bytes()), Some(Field::Bool(true)))
        }
        Format::Amqp10 => {
            let annotations = Message::read_head(message.head).map(|(_, _, annotations)| annotations);
            matches!(annotations.unwrap_or_default().get(NO_STORE), Some(Value::Boolean(true)))
        }
    }
}

/// Tells the planning shard of a message that these exchanges are to remember.
#[cold]
pub(crate) fn have_remembered(
    own: &mut OwnPublisher<'_>,
    exchanges: Vec<ExchangeId>,
    message: &NewEnqueue<'_>,
) {
    if message.record_len(0).is_none() {
        return;
    }
    let mut record = Buffer::default();
    message.write(&[], &mut record);
    if own.settings.plans() {
        return own.post.to_remember.push_back((exchanges, record));
    }
    let bytes = record.len();
    own.post.send_record(CATALOG_LOG, bytes, Mail::Remember { from: own.settings.id, exchanges, record });
}

/// A message that is to be remembered, as a record; none: it asks not to be.
pub(crate) fn rememberable(record: &[u8]) -> Option<Arc<[u8]>> {
    let message = Enqueue::read(record)?;
    (!asks_not_to_be(&message)).then(|| record.into())
}

/// Units of work that giving a message takes, its way and its queues apart.
const RECALL_PRICE: u32 = 40;

/// On the planning shard: destinations that wait for what exchanges remember get as much of it as a turn has room for.
pub(crate) fn recall(own: &mut OwnPublisher<'_>, recalls: &mut Recalls) {
    let catalog = own.catalog;
    recalls.go_on(catalog, |pair, record| {
        let message = Enqueue::read(record).expect("messages alone are remembered");
        recall_one(own, pair, &message)
    });
}

/// Gives a message that an exchange remembers to a destination of it, unless filters of its bindings keep it back; the units of
/// work that took.
fn recall_one(
    own: &mut OwnPublisher<'_>,
    (source, destination): (ExchangeId, Destination),
    message: &Enqueue<'_>,
) -> u32 {
    let mut matches = Matches::within(own.settings.limits.route_steps_max);
    let headers = &Fields::read(message.format, message.head, message.body);
    let keys = routing_keys(message);
    let (head, body) = ([message.head], [message.body]);
    let content = &Content::new(
        (message.format, message.flags),
        (message.exchange, message.routing_key),
        (&head, &body),
    );
    let (roll, now_ms) = (message.received_at_ms, own.now.wall_ms);
    let envelope = Envelope { keys: &keys, headers, roll, content, now_ms };
    if !own.catalog.sends_to(source, destination, &envelope, &mut matches) {
        return RECALL_PRICE.saturating_add(matches.steps());
    }
    match destination {
        Destination::Queue(_) => matches.push(destination),
        Destination::Exchange(id) => _ = own.catalog.route_from(id, &envelope, &mut matches),
    }
    let expires_at_ms = match message.expires_at_ms {
        0 => 0,
        // It begins to live when it comes into the queue.
        at => own.now.wall_ms.saturating_add(at.saturating_sub(message.received_at_ms)).max(1),
    };
    let new = NewEnqueue {
        flags: message.flags & !flag::HIDDEN_KEYS,
        format: message.format,
        priority: message.priority,
        received_at_ms: own.now.wall_ms,
        expires_at_ms,
        due_at_ms: message.due_at_ms,
        keys: None,
        exchange: message.exchange,
        routing_key: message.routing_key,
        head: &[message.head],
        body: &[message.body],
    };
    own.publish(&new, &matches);
    let queues = u32::try_from(matches.queues().count()).unwrap_or(u32::MAX);
    RECALL_PRICE.saturating_add(matches.steps()).saturating_add(queues.saturating_mul(QUEUE_PRICE))
}
