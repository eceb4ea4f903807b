//! Messages of a queue that are looked at, and messages that move to where they are wanted.
//!
//! A message that moves is taken as a consumer takes it, published with what it had, and acknowledged when its copy is
//! safe. When the node dies in between it is in both places: nothing is lost, something may come twice.

use super::{Agent, CHANNEL, unexpected};
use amqp091::method::{BasicConsume, BasicGet, BasicQos, ConfirmSelect};
use amqp091::{Body, Event, Method, PublishPrefix};
use management::{Goal, Got, Outcome, Trouble};
use message::amqp091::{Properties, Table, TableWriter, Value};
use std::time::{Duration, Instant};

/// How long a browser that was promised more waits for it: somebody else may have taken it.
const PAUSE: Duration = Duration::from_secs(1);

/// Messages that cannot be placed before it is given up.
const UNPLACED_MAX: usize = 100;

/// The header that says where a message died first.
const ORIGIN: &[u8] = b"x-first-death-queue";

/// What headers of deaths begin with, or are.
const DEATHS: [&[u8]; 3] = [b"x-first-death-", b"x-last-death-", b"x-death"];

/// A message that was taken.
struct Taken {
    tag: u64,
    properties: Vec<u8>,
    body: Vec<u8>,
}

impl Agent {
    /// Shows messages and takes none: `count` behind the first `skip`, once the queue has so many.
    pub(super) fn peek(
        &mut self,
        queue: &[u8],
        skip: u32,
        count: u32,
        bytes_max: usize,
    ) -> Result<Outcome, Trouble> {
        let mut arguments = Vec::new();
        Value::Bool(true).write(&mut arguments);
        let arguments = TableWriter::fields(|table| table.encoding(b"x-browse", &arguments));
        let arguments = super::table(&arguments)?;
        let all = skip.saturating_add(count);
        let prefetch_count = u16::try_from(all).unwrap_or(0);
        self.connection.send(CHANNEL, &BasicQos { prefetch_count, ..BasicQos::default() });
        self.connection.send(CHANNEL, &BasicConsume { queue, arguments, ..BasicConsume::default() });
        let mut messages: Vec<Got> = Vec::new();
        let (mut seen, mut size) = (0, 0);
        while seen < all && (messages.is_empty() || size < bytes_max) {
            let shown = self.wait_for(Some(PAUSE), |_, _, event| match event {
                Event::Deliver { deliver, properties, body, .. } => {
                    seen += 1;
                    if seen <= skip {
                        return Ok(None);
                    }
                    Ok(Some(Got {
                        redelivered: deliver.redelivered,
                        exchange: String::from_utf8_lossy(deliver.exchange).into_owned(),
                        key: String::from_utf8_lossy(deliver.routing_key).into_owned(),
                        left: 0,
                        properties: properties.raw().to_vec(),
                        body: body.to_vec(),
                    }))
                }
                Event::Method { .. } => Ok(None),
                other => Err(unexpected(&other)),
            })?;
            let Some(shown) = shown else { break };
            size += shown.body.len() + shown.properties.len();
            messages.push(shown);
        }
        Ok(Outcome::Got(messages))
    }

    /// Moves up to `count` messages, so many a second (0: as fast as can be) and for so long.
    pub(super) fn move_all(
        &mut self,
        queue: &[u8],
        goal: &Goal,
        count: u32,
        per_second: u32,
        ms_max: u64,
    ) -> Result<Outcome, Trouble> {
        self.connection.send(CHANNEL, &ConfirmSelect { nowait: false });
        let begin = Instant::now();
        let mut unplaced: Vec<u64> = Vec::new();
        let (mut moved, mut is_over) = (0, false);
        while moved < count && unplaced.len() < UNPLACED_MAX {
            if begin.elapsed() >= Duration::from_millis(ms_max) {
                break;
            }
            let Some(taken) = self.take(queue)? else {
                is_over = true;
                break;
            };
            match self.place(goal, &taken)? {
                true => {
                    self.connection.ack(CHANNEL, taken.tag, false);
                    moved += 1;
                }
                false => unplaced.push(taken.tag),
            }
            if per_second > 0 {
                let due = Duration::from_secs_f64(f64::from(moved) / f64::from(per_second));
                std::thread::sleep(due.saturating_sub(begin.elapsed()));
            }
        }
        for tag in &unplaced {
            self.connection.nack(CHANNEL, *tag, false, true);
        }
        let is_over = is_over || moved == count;
        Ok(Outcome::Moved { moved, unplaced: unplaced.len() as u32, is_over })
    }

    fn take(&mut self, queue: &[u8]) -> Result<Option<Taken>, Trouble> {
        self.connection.send(CHANNEL, &BasicGet { queue, no_ack: false, ..BasicGet::default() });
        self.wait(|_, _, event| match event {
            Event::GetOk { get_ok, properties, body, .. } => Ok(Some(Some(Taken {
                tag: get_ok.delivery_tag,
                properties: properties.raw().to_vec(),
                body: body.to_vec(),
            }))),
            Event::Method { method: Method::BasicGetEmpty(_), .. } => Ok(Some(None)),
            Event::Method { .. } => Ok(None),
            other => Err(unexpected(&other)),
        })
    }

    /// Publishes a copy and waits until it is safe; false: no queue took it, or it does not say where it came from.
    fn place(&mut self, goal: &Goal, taken: &Taken) -> Result<bool, Trouble> {
        let properties = Properties::read(&taken.properties).ok();
        let origin = properties.as_ref().and_then(origin);
        let (exchange, key) = match (goal, &origin) {
            (Goal::Exchange { exchange, key }, _) => (exchange.as_bytes(), key.as_bytes()),
            (Goal::Origin, Some(queue)) => (&b""[..], queue.as_slice()),
            (Goal::Origin, None) => return Ok(false),
        };
        if exchange.len() > 255 || key.len() > 255 {
            return Ok(false);
        }
        let fresh = properties.map_or_else(|| taken.properties.clone(), |own| anew(&own, &self.user));
        let prefix = PublishPrefix::new(CHANNEL, exchange, key, true);
        self.connection.publish(&prefix, &fresh, &Body::Bytes(&taken.body));
        let mut is_routed = true;
        self.wait(|_, _, event| match event {
            Event::Method { method: Method::BasicAck(_), .. } => Ok(Some(is_routed)),
            Event::Method { method: Method::BasicNack(_), .. } => Ok(Some(false)),
            Event::Method { .. } => Ok(None),
            Event::Return { .. } => {
                is_routed = false;
                Ok(None)
            }
            other => Err(unexpected(&other)),
        })
    }
}

/// The queue a message died in first.
fn origin(properties: &Properties<'_>) -> Option<Vec<u8>> {
    properties.headers()?.get(ORIGIN)?.as_bytes().map(<[u8]>::to_vec)
}

/// Properties without what tells of deaths, and without another's name.
fn anew(properties: &Properties<'_>, user: &str) -> Vec<u8> {
    let is_of_deaths = |name: &[u8]| DEATHS.iter().any(|begin| name.starts_with(begin));
    let headers = properties.headers().map(|headers| {
        TableWriter::fields(|table| {
            for (name, encoding) in headers.encodings().filter(|(name, _)| !is_of_deaths(name)) {
                table.encoding(name, encoding);
            }
        })
    });
    let mut new = properties.to_new();
    new.headers = headers.as_ref().and_then(|bytes| Table::new(bytes).ok());
    new.user_id = new.user_id.filter(|name| *name == user.as_bytes());
    let mut written = Vec::new();
    new.write(&mut written);
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::amqp091::NewProperties;

    #[test]
    fn a_message_goes_back_without_its_deaths() {
        let headers = TableWriter::fields(|table| {
            table.put(b"a", Value::I64(1));
            table.put(b"x-first-death-queue", Value::Text(b"orders"));
            table.put(b"x-last-death-reason", Value::Text(b"expired"));
            table.tables(b"x-death", [0], |_, table| table.put(b"queue", Value::Text(b"orders")));
        });
        let given = NewProperties {
            headers: Table::new(&headers).ok(),
            user_id: Some(b"guest"),
            message_id: Some(b"m"),
            delivery_mode: Some(2),
            ..NewProperties::default()
        };
        let mut raw = Vec::new();
        given.write(&mut raw);
        let read = Properties::read(&raw).expect("just written");
        assert_eq!(origin(&read), Some(b"orders".to_vec()));
        let check = |user: &str, user_id: Option<&[u8]>| {
            let written = anew(&read, user);
            let fresh = Properties::read(&written).expect("just written");
            let names: Vec<_> =
                fresh.headers().expect("there").iter().map(|(name, _)| name.to_vec()).collect();
            assert_eq!(names, [b"a".to_vec()]);
            assert_eq!((fresh.user_id(), fresh.message_id()), (user_id, Some(&b"m"[..])));
            assert_eq!((fresh.delivery_mode(), origin(&fresh)), (Some(2), None));
        };
        check("guest", Some(b"guest"));
        check("other", None);
    }
}
