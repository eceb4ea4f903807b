//! Looks for messages of which a condition is true.
//!
//! Messages are looked at as a browser or a reader of a stream looks at them: all stay where they are. They come one after
//! the other over the agent's connection, and the condition is asked here.

use super::{Agent, CHANNEL, delivered, refused, unexpected};
use amqp091::Event;
use amqp091::method::{BasicConsume, BasicQos};
use broker::catalog::ReplyCode;
use broker::{Condition, Envelope, Subject};
use management::{Found, Got, ReadFrom, Search, Trouble};
use message::amqp091::{TableWriter, Value, is_held, position_of, take_position};
use std::time::{Duration, Instant};

/// How long messages that are there are waited for.
const PAUSE: Duration = Duration::from_secs(1);

/// Messages of a stream that are under way: it has no readers that settle nothing.
const PREFETCH: u16 = 2000;

/// Messages of a stream that are settled at a time.
const SETTLED: u64 = 500;

impl Agent<'_> {
    /// Looks for messages until there are enough of them, all were looked at, or the time is over.
    pub(super) fn search(&mut self, queue: &[u8], search: &Search) -> Result<Found, Trouble> {
        let Search { is_stream, end, count, bytes_max, now_ms, .. } = *search;
        let mut condition = Condition::read(&search.condition, Condition::known(is_stream))
            .map_err(|fault| refused(ReplyCode::PreconditionFailed, &fault.to_string()))?;
        self.begin_search(queue, search)?;
        let (begin, ms_max) = (Instant::now(), Duration::from_millis(search.ms_max));
        let mut next = if let ReadFrom::Offset(from) = search.from { Some(from) } else { None };
        let mut messages: Vec<Got> = Vec::new();
        let (mut looked_at, mut size, mut is_over) = (0, 0, false);
        self.wait_for(Some(PAUSE), |_, connection, event| match event {
            Event::Deliver { deliver, properties, body, .. } => {
                let place =
                    if is_stream { super::reading::offset(&properties) } else { position_of(&properties) };
                if place.is_some_and(|place| place >= end) {
                    is_over = true;
                    return Ok(Some(()));
                }
                looked_at += 1;
                next = place.map(|place| place + 1).or(next);
                is_over = next.is_some_and(|next| next >= end);
                let envelope = Envelope {
                    exchange: Some(deliver.exchange),
                    routing_key: Some(deliver.routing_key),
                    offset: if is_stream { place } else { None },
                    is_redelivered: Some(deliver.redelivered),
                    state: match is_stream {
                        true => None,
                        false => Some(if is_held(&properties) { "held" } else { "ready" }),
                    },
                    ..Envelope::default()
                };
                if condition.holds(Subject { properties: &properties, body, envelope }, now_ms) {
                    let without = if is_stream { None } else { take_position(&properties) };
                    let properties =
                        without.map_or_else(|| properties.raw().to_vec(), |(_, without)| without);
                    size += body.len() + properties.len();
                    messages.push(delivered(&deliver, place, properties, body));
                }
                if is_stream && looked_at % SETTLED == 0 {
                    connection.ack(CHANNEL, deliver.delivery_tag, true);
                }
                let is_enough = messages.len() >= count as usize || size >= bytes_max;
                Ok((is_over || is_enough || begin.elapsed() >= ms_max).then_some(()))
            }
            Event::Method { .. } => Ok(None),
            other => Err(unexpected(&other)),
        })?;
        Ok(Found { messages, looked_at, next: next.filter(|_| !is_over) })
    }

    /// Has messages come from where the search begins.
    fn begin_search(&mut self, queue: &[u8], search: &Search) -> Result<(), Trouble> {
        if search.is_stream {
            self.connection.send(CHANNEL, &BasicQos { prefetch_count: PREFETCH, ..BasicQos::default() });
            return self.read_from(queue, &search.from);
        }
        let from = if let ReadFrom::Offset(from) = search.from { from } else { 0 };
        let arguments = TableWriter::fields(|table| {
            table.put(b"x-browse", Value::Bool(true));
            table.put(b"x-leveret-from", Value::I64(from as i64));
            table.put(b"x-leveret-position", Value::Bool(true));
            if search.held {
                table.put(b"x-leveret-held", Value::Bool(true));
            }
        });
        let arguments = super::table(&arguments)?;
        self.connection
            .send(CHANNEL, &BasicConsume { queue, arguments, no_ack: true, ..BasicConsume::default() });
        Ok(())
    }
}
