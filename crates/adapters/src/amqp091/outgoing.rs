//! A stored message in the form in which a client gets it.

use ::amqp091::{Body, Outgoing};
use base::Memory;
use broker::Item;
use message::amqp10::Message;
use message::amqp091::{Value, write_counts, write_header};
use message::convert::Amqp091;
use message::record::{Enqueue, Format};
use std::borrow::Cow;

/// The stored message as the client gets it, converted if it came over another protocol.
#[inline]
pub(super) fn outgoing<'a>(
    message: &Enqueue<'a>,
    memory: &'a Memory,
    converted: &'a mut Amqp091,
) -> Outgoing<'a> {
    let Enqueue { exchange, routing_key, head, body, .. } = *message;
    match message.format {
        Format::Amqp091 => {
            // The body is a slice of the memory: as a range it can go out by reference.
            let start = body.as_ptr() as usize - memory.as_ptr() as usize;
            let body = Body::Memory(memory, start..start + body.len());
            Outgoing { exchange, routing_key, head, body }
        }
        Format::Amqp10 => {
            let read = Message::read_parts(head, body).expect("it was read when it came");
            let body = converted.convert_at(&read, message.received_at_ms);
            let converted = &*converted;
            Outgoing {
                exchange,
                routing_key,
                head: &converted.properties,
                body: Body::Bytes(converted.body(body)),
            }
        }
    }
}

/// Its head, which says how often it was delivered before if the queue counts that.
#[cold]
pub(super) fn counted<'a>(outgoing: &Outgoing<'a>, item: &Item) -> Cow<'a, [u8]> {
    let (delivery_count, acquired_count) = (item.delivery_count(), item.acquired_count());
    if acquired_count == 0 {
        return outgoing.head.into();
    }
    let mut head = Vec::with_capacity(outgoing.head.len() + 64);
    write_counts(outgoing.head, delivery_count, acquired_count, &mut head);
    head.into()
}

/// The header that says until when a leased message is its consumer's.
const LOCKED_UNTIL: &[u8] = b"x-opt-locked-until";

/// A head that says until when its message is leased, milliseconds since 1970.
#[cold]
pub(super) fn locked(head: &[u8], until_ms: u64) -> Vec<u8> {
    let mut locked = Vec::with_capacity(head.len() + 64);
    write_header(head, LOCKED_UNTIL, Value::I64(i64::try_from(until_ms).unwrap_or(i64::MAX)), &mut locked);
    locked
}
