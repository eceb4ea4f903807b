//! Looks at messages of a queue.
//!
//! Messages that are looked at come with their positions in a header, which is taken out again.

use super::{Agent, CHANNEL, Code, delivered, refused, unexpected};
use amqp091::Event;
use amqp091::method::{BasicConsume, BasicQos};
use management::{Got, Outcome, Trouble};
use message::amqp091::{TableWriter, Value, take_position};
use std::time::{Duration, Instant};

/// How long a browser that was promised more waits for it: somebody else may have taken it.
const PAUSE: Duration = Duration::from_secs(1);

impl Agent<'_> {
    /// Shows messages and takes none: `count` behind the first `skip` from position `from` on, once the queue has so many; both together are at most
    /// 65,535. Refused where those in front take longer than `ms_max` milliseconds; then no more than are there by that time.
    pub(super) fn peek(
        &mut self,
        queue: &[u8],
        (from, skip): (u64, u32),
        count: u32,
        bytes_max: usize,
        ms_max: u64,
    ) -> Result<Outcome, Trouble> {
        let arguments = TableWriter::fields(|table| {
            table.put(b"x-browse", Value::Bool(true));
            table.put(b"x-leveret-from", Value::I64(from as i64));
            table.put(b"x-leveret-position", Value::Bool(true));
        });
        let arguments = super::table(&arguments)?;
        let all = skip.saturating_add(count);
        // 0 would be no bound at all.
        let prefetch_count = u16::try_from(all).unwrap_or(u16::MAX);
        self.connection.send(CHANNEL, &BasicQos { prefetch_count, ..BasicQos::default() });
        self.connection.send(CHANNEL, &BasicConsume { queue, arguments, ..BasicConsume::default() });
        let mut messages: Vec<Got> = Vec::new();
        let (mut seen, mut size) = (0, 0);
        let begin = Instant::now();
        let is_late = || begin.elapsed() >= Duration::from_millis(ms_max);
        while seen < all && !self.is_stopping() && (messages.is_empty() || (size < bytes_max && !is_late())) {
            let shown = self.wait_for(Some(PAUSE), |_, _, event| match event {
                Event::Deliver { deliver, properties, body, .. } => {
                    seen += 1;
                    if seen <= skip {
                        return if is_late() { Err(late(skip, ms_max)) } else { Ok(None) };
                    }
                    let found = take_position(&properties);
                    let position = found.as_ref().map(|(position, _)| *position);
                    let properties = found.map_or_else(|| properties.raw().to_vec(), |(_, without)| without);
                    Ok(Some(delivered(&deliver, position, properties, body)))
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
}

fn late(skip: u32, ms_max: u64) -> Trouble {
    let text = format!("passing over {skip} messages takes longer than {ms_max} ms");
    refused(Code::PreconditionFailed, &text)
}
