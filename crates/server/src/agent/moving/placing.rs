//! Copies of messages that are published.

use super::taking::Taken;
use crate::agent::{Agent, CHANNEL, unexpected};
use amqp091::{Body, Event, Method, PublishPrefix};
use management::{Goal, Trouble};
use message::amqp091::{Properties, Table, TableWriter};

/// The header that says where a message died first.
const ORIGIN: &[u8] = b"x-first-death-queue";

/// Prefixes, or whole names, of headers that record deaths.
const DEATHS: [&[u8]; 3] = [b"x-first-death-", b"x-last-death-", b"x-death"];

/// Headers that name further queues: these had their copies when the message was new.
const COPIES: [&[u8]; 2] = [b"CC", b"BCC"];

impl Agent<'_> {
    /// Publishes a copy and waits until it is safe; false: no queue took it, it does not say where it came from, or its properties
    /// are larger than a frame of a client's.
    pub(super) fn place(&mut self, goal: &Goal, taken: &Taken) -> Result<bool, Trouble> {
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
        if !self.is_taken(&fresh) {
            return Ok(false);
        }
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

/// Properties without what tells of deaths or of further queues, and without another's name.
fn anew(properties: &Properties<'_>, user: &str) -> Vec<u8> {
    let is_old = |name: &[u8]| DEATHS.iter().any(|begin| name.starts_with(begin)) || COPIES.contains(&name);
    let headers = properties.headers().map(|headers| {
        TableWriter::fields(|table| {
            for (name, encoding) in headers.encodings().filter(|(name, _)| !is_old(name)) {
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
    use message::amqp091::{NewProperties, Value};

    #[test]
    fn a_message_goes_back_without_its_deaths_and_copies() {
        let headers = TableWriter::fields(|table| {
            table.put(b"a", Value::I64(1));
            table.put(b"BCC", Value::Text(b"orders"));
            table.put(b"CC", Value::Text(b"orders"));
            table.put(b"CCC", Value::Text(b"no queue"));
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
            assert_eq!(names, [b"a".to_vec(), b"CCC".to_vec()]);
            assert_eq!((fresh.user_id(), fresh.message_id()), (user_id, Some(&b"m"[..])));
            assert_eq!((fresh.delivery_mode(), origin(&fresh)), (Some(2), None));
        };
        check("guest", Some(b"guest"));
        check("other", None);
    }
}
