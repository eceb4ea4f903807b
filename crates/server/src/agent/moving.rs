//! Moves of messages to another place.
//!
//! A message that moves is taken as a consumer takes it, published with its properties, and acknowledged when its copy
//! is safe. When the node dies in between it is in both places: nothing is lost, something may come twice.
//!
//! Messages that are named by position are asked for with methods that AMQP does not have and that other connections
//! are refused.
//!
//! It is published over a connection of its own: a refusal closes that one's channel, and an alarm stops the reading of
//! it. Messages that were taken over the other go back by name, which is no failed delivery; with a channel that closes
//! it would be one, and after some of them a quorum queue drops the message.

use super::{Agent, CHANNEL, TICK};
use amqp091::method::ConfirmSelect;
use management::{Goal, Outcome, Pace, Trouble};
use slice::Slice;
use std::time::{Duration, Instant};

mod placing;
mod slice;
mod taking;

impl Agent<'_> {
    /// Moves messages at that pace, those at the `chosen` positions or else the first ones, until the node stops; `publisher` is
    /// another connection of the same user's.
    pub(super) fn move_all(
        &mut self,
        publisher: &mut Agent<'_>,
        queue: &[u8],
        goal: &Goal,
        chosen: Option<&[u64]>,
        pace: &Pace,
    ) -> Result<Outcome, Trouble> {
        publisher.connection.send(CHANNEL, &ConfirmSelect { nowait: false });
        let begin = Instant::now();
        let (mut moved, mut unplaced, mut held) = (0, 0, None);
        let (mut missing, mut rest) = (Vec::new(), chosen.unwrap_or_default().iter());
        let (mut is_over, mut slice) = (false, Slice::new(pace));
        let trouble = loop {
            is_over |= match chosen {
                Some(_) => rest.len() == 0,
                None => moved == pace.count || moved + unplaced == pace.among,
            };
            let looked_at = moved + unplaced + missing.len() as u32;
            let is_late = slice.is_late(begin.elapsed().as_millis() as u64, looked_at);
            if is_over || is_late || unplaced == pace.unplaced_max || self.is_stopping() {
                break None;
            }
            let position = rest.next().copied();
            let taken = match self.take(queue, position) {
                Ok(Some(taken)) => taken,
                Ok(None) => {
                    match position {
                        Some(position) => missing.push(position),
                        None => is_over = true,
                    }
                    continue;
                }
                Err(trouble) => {
                    // Its channel is closed, and holds nothing any more.
                    held = None;
                    break Some(trouble);
                }
            };
            match publisher.place(goal, &taken) {
                Ok(true) => {
                    self.connection.ack(CHANNEL, taken.tag, false);
                    moved += 1;
                }
                Ok(false) => {
                    held = Some(taken.tag);
                    unplaced += 1;
                }
                Err(trouble) => {
                    held = Some(taken.tag);
                    break Some(trouble);
                }
            }
            if pace.per_second > 0 {
                let due = Duration::from_secs_f64(f64::from(moved) / f64::from(pace.per_second));
                // However slow the pace is, the node need not wait for it.
                while !self.is_stopping()
                    && let Some(rest) = due.checked_sub(begin.elapsed()).filter(|rest| !rest.is_zero())
                {
                    std::thread::sleep(rest.min(TICK));
                }
            }
        };
        if let Some(last) = held {
            self.connection.nack(CHANNEL, last, true, true);
        }
        Ok(Outcome::Moved { moved, unplaced, missing, is_over, trouble })
    }
}
