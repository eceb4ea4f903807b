//! Messages that are rejected or thrown away, by their positions.

use super::{Agent, CHANNEL, unexpected};
use amqp091::method::QueueDiscard;
use amqp091::{Event, Method};
use management::{Outcome, Trouble};

impl Agent<'_> {
    /// Throws messages away, and hears of each whether it was there.
    pub(super) fn discard(&mut self, queue: &[u8], positions: &[u64]) -> Result<Outcome, Trouble> {
        let (mut deleted, mut missing) = (0, Vec::new());
        for &position in positions {
            self.connection.send(CHANNEL, &QueueDiscard { queue, position, ..QueueDiscard::default() });
            let count = self.wait(|_, _, event| match event {
                Event::Method { method: Method::QueuePurgeOk(purged), .. } => Ok(Some(purged.message_count)),
                other => Err(unexpected(&other)),
            })?;
            match count {
                0 => missing.push(position),
                _ => deleted += 1,
            }
        }
        Ok(Outcome::Discarded { deleted, missing })
    }

    /// Rejects messages, and hears of each whether it was there.
    pub(super) fn reject(&mut self, queue: &[u8], positions: &[u64]) -> Result<Outcome, Trouble> {
        let (mut deleted, mut missing) = (0, Vec::new());
        for &position in positions {
            match self.take(queue, Some(position))? {
                Some(taken) => {
                    self.connection.reject(CHANNEL, taken.tag, false);
                    deleted += 1;
                }
                None => missing.push(position),
            }
        }
        Ok(Outcome::Discarded { deleted, missing })
    }
}
