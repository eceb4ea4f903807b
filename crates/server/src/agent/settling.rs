//! Messages that are rejected, thrown away, or settled for their holders, by their positions.
//!
//! Requests go out many at a time. They are answered in their order, so that each answer is known to be of which position.

use super::moving::requests_max;
use super::{Agent, CHANNEL, unexpected};
use amqp091::method::{QueueDiscard, QueueSettle};
use amqp091::{Connection, Event, Method};
use management::{Outcome, Trouble};

/// Positions of one `queue.settle`: a queue settles them in one go, in less than a millisecond.
const SETTLED_MAX: usize = 256;

impl Agent<'_> {
    /// Throws messages away, and hears of each whether it was there.
    pub(super) fn discard(&mut self, queue: &[u8], positions: &[u64]) -> Result<Outcome, Trouble> {
        let ask = |agent: &mut Agent<'_>, position| {
            agent.connection.send(CHANNEL, &QueueDiscard { queue, position, ..QueueDiscard::default() });
        };
        self.end_all(queue, positions, ask, |_, event| match event {
            Event::Method { method: Method::QueuePurgeOk(purged), .. } => Ok(Some(purged.message_count > 0)),
            other => Err(unexpected(&other)),
        })
    }

    /// Rejects messages, and hears of each whether it was there.
    pub(super) fn reject(&mut self, queue: &[u8], positions: &[u64]) -> Result<Outcome, Trouble> {
        let ask = |agent: &mut Agent<'_>, position| agent.ask(queue, Some(position));
        self.end_all(queue, positions, ask, |connection, event| match event {
            Event::GetOk { get_ok, .. } => {
                connection.reject(CHANNEL, get_ok.delivery_tag, false);
                Ok(Some(true))
            }
            Event::Method { method: Method::BasicGetEmpty(_), .. } => Ok(Some(false)),
            Event::Method { .. } => Ok(None),
            other => Err(unexpected(&other)),
        })
    }

    /// Settles messages that are ready or that consumers hold, and hears where there was none.
    pub(super) fn settle_held(
        &mut self,
        queue: &[u8],
        positions: &[u64],
        rejects: bool,
    ) -> Result<Outcome, Trouble> {
        let mut missing = Vec::new();
        for asked in positions.chunks(SETTLED_MAX) {
            let bytes: Vec<u8> = asked.iter().flat_map(|position| position.to_be_bytes()).collect();
            let settle = QueueSettle { queue, rejects, positions: &bytes, ..QueueSettle::default() };
            self.connection.send(CHANNEL, &settle);
            self.wait(|_, _, event| match event {
                Event::Method { method: Method::QueueSettleOk(settled), .. } => {
                    let (gone, _) = settled.missing.as_chunks();
                    missing.extend(gone.iter().map(|position| u64::from_be_bytes(*position)));
                    Ok(Some(()))
                }
                Event::Method { .. } => Ok(None),
                other => Err(unexpected(&other)),
            })?;
        }
        let deleted = (positions.len() - missing.len()) as u32;
        Ok(Outcome::Discarded { deleted, missing })
    }

    /// Asks for all positions, and reads from the answers whether a message was there.
    fn end_all(
        &mut self,
        queue: &[u8],
        positions: &[u64],
        ask: impl Fn(&mut Agent<'_>, u64),
        was_there: impl Fn(&mut Connection, Event<'_>) -> Result<Option<bool>, Trouble>,
    ) -> Result<Outcome, Trouble> {
        let (mut deleted, mut missing) = (0, Vec::new());
        for asked in positions.chunks(requests_max(queue)) {
            asked.iter().for_each(|position| ask(self, *position));
            let mut left = asked.iter();
            self.wait(|_, connection, event| {
                match was_there(connection, event)? {
                    Some(true) => _ = left.next(),
                    Some(false) => missing.extend(left.next()),
                    None => return Ok(None),
                }
                Ok((left.len() == 0).then_some(()))
            })?;
            deleted += asked.len() as u32;
        }
        deleted -= missing.len() as u32;
        Ok(Outcome::Discarded { deleted, missing })
    }
}
