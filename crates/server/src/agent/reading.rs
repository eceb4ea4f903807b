//! Looks at messages of a stream.
//!
//! It is read as any client reads it: what is looked at stays, and no offset is stored.

use super::{Agent, CHANNEL, delivered, unexpected};
use amqp091::Event;
use amqp091::method::{BasicConsume, BasicQos};
use management::{Got, Outcome, ReadFrom, Trouble};
use message::amqp091::{TableWriter, Value};
use std::time::{Duration, Instant};

/// The header with a message's offset.
const OFFSET: &[u8] = b"x-stream-offset";

/// How long messages that are there are waited for.
const PAUSE: Duration = Duration::from_secs(1);

impl Agent<'_> {
    /// Shows `count` messages, 1 to 65,535, below offset `end`: no more than are there after `ms_max` milliseconds, or than
    /// make `bytes_max` bytes.
    pub(super) fn read_stream(
        &mut self,
        stream: &[u8],
        from: &ReadFrom,
        (count, end): (u32, u64),
        bytes_max: usize,
        ms_max: u64,
    ) -> Result<Outcome, Trouble> {
        let from = match from {
            ReadFrom::Offset(offset) => Value::I64(*offset as i64),
            ReadFrom::Last => Value::Text(b"last"),
            ReadFrom::Time(seconds) => Value::Timestamp(*seconds),
            ReadFrom::Age(age) => Value::Text(age.as_bytes()),
        };
        let arguments = TableWriter::fields(|table| table.put(OFFSET, from));
        let arguments = super::table(&arguments)?;
        // 0 would be no bound at all.
        let prefetch_count = u16::try_from(count).unwrap_or(u16::MAX);
        self.connection.send(CHANNEL, &BasicQos { prefetch_count, ..BasicQos::default() });
        let queue = stream;
        self.connection.send(CHANNEL, &BasicConsume { queue, arguments, ..BasicConsume::default() });
        let mut messages: Vec<Got> = Vec::new();
        let (mut size, begin) = (0, Instant::now());
        let is_last = |got: &Got| got.position.is_some_and(|offset| offset + 1 >= end);
        while messages.len() < count as usize
            && !messages.last().is_some_and(is_last)
            && !self.is_stopping()
            && (messages.is_empty() || (size < bytes_max && begin.elapsed() < Duration::from_millis(ms_max)))
        {
            let shown = self.wait_for(Some(PAUSE), |_, _, event| match event {
                Event::Deliver { deliver, properties, body, .. } => {
                    let offset = properties.headers().and_then(|headers| headers.get(OFFSET)?.as_i64());
                    let position = offset.map(|offset| offset as u64);
                    Ok(Some(delivered(&deliver, position, properties.raw().to_vec(), body)))
                }
                Event::Method { .. } => Ok(None),
                other => Err(unexpected(&other)),
            })?;
            let Some(shown) = shown else { break };
            size += shown.body.len() + shown.properties.len();
            messages.push(shown);
        }
        // Others came meanwhile.
        messages.retain(|got| got.position.is_none_or(|offset| offset < end));
        Ok(Outcome::Got(messages))
    }
}
