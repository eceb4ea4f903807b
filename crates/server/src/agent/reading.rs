//! Looks at messages of a stream.
//!
//! It is read as any client reads it: what is looked at stays, and no offset is stored.

use super::{Agent, CHANNEL, delivered, unexpected};
use amqp091::Event;
use amqp091::method::{BasicConsume, BasicQos};
use management::{Got, Outcome, ReadFrom, Trouble};
use message::amqp091::{Properties, TableWriter, Value};
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
        // 0 would be no bound at all.
        let prefetch_count = u16::try_from(count).unwrap_or(u16::MAX);
        self.connection.send(CHANNEL, &BasicQos { prefetch_count, ..BasicQos::default() });
        self.read_from(stream, from)?;
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
                    Ok(Some(delivered(&deliver, offset(&properties), properties.raw().to_vec(), body)))
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

    /// Has messages of a stream come from there.
    pub(super) fn read_from(&mut self, stream: &[u8], from: &ReadFrom) -> Result<(), Trouble> {
        let from = match from {
            ReadFrom::Offset(offset) => Value::I64(*offset as i64),
            ReadFrom::Last => Value::Text(b"last"),
            ReadFrom::Time(seconds) => Value::Timestamp(*seconds),
            ReadFrom::Age(age) => Value::Text(age.as_bytes()),
        };
        let arguments = TableWriter::fields(|table| table.put(OFFSET, from));
        let (queue, arguments) = (stream, super::table(&arguments)?);
        self.connection.send(CHANNEL, &BasicConsume { queue, arguments, ..BasicConsume::default() });
        Ok(())
    }
}

/// The offset of a message that came from a stream.
pub(super) fn offset(properties: &Properties<'_>) -> Option<u64> {
    let offset = properties.headers()?.get(OFFSET)?.as_i64()?;
    Some(offset as u64)
}
