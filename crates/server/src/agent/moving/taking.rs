//! Messages that are asked for, taken, and given back.
//!
//! Requests go out in one go and are answered in their order: the broker hears the next one when it has answered the last.
//! Invariant: messages up to the last one that is held go back by one nack, as those that went were acknowledged.

use super::placing::Fate;
use crate::agent::{Agent, CHANNEL, unexpected};
use amqp091::method::{BasicGet, BasicPick};
use amqp091::{Event, Method};
use management::Trouble;
use std::collections::VecDeque;

/// A message that was taken.
pub(super) struct Taken {
    pub(super) tag: u64,
    pub(super) properties: Vec<u8>,
    pub(super) body: Vec<u8>,
}

/// The answer to a request for a message.
pub(super) struct Answer {
    /// The position that was asked for; none: the first message was.
    pub(super) position: Option<u64>,
    /// None where no message is ready there.
    pub(super) taken: Option<Taken>,
}

/// The messages that an agent takes from a queue.
pub(super) struct Taking<'q> {
    queue: &'q [u8],
    /// Positions that are asked for, without an answer; none: the first message is.
    asked: VecDeque<Option<u64>>,
    /// The last message that stays, of those whose fate is known.
    stays: Option<u64>,
    /// The last message that came behind those.
    came: Option<u64>,
}

impl<'q> Taking<'q> {
    pub(super) fn new(queue: &'q [u8]) -> Taking<'q> {
        Taking { queue, asked: VecDeque::new(), stays: None, came: None }
    }

    /// Nothing that was asked for is without an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// Asks for the message at a position, or else for the first one.
    pub(super) fn ask(&mut self, agent: &mut Agent<'_>, position: Option<u64>) {
        agent.ask(self.queue, position);
        self.asked.push_back(position);
    }

    /// Waits for the answers, or as many as have so many bytes; where the first message was asked for, up to the answer that
    /// there is none.
    pub(super) fn answers(
        &mut self,
        agent: &mut Agent<'_>,
        bytes_max: usize,
    ) -> Result<Vec<Answer>, Trouble> {
        let Taking { asked, came, .. } = self;
        let (mut answers, mut bytes) = (Vec::with_capacity(asked.len()), 0);
        if asked.is_empty() {
            return Ok(answers);
        }
        agent.wait(|_, _, event| {
            let taken = match &event {
                Event::GetOk { get_ok, properties, body, .. } => {
                    *came = Some(get_ok.delivery_tag);
                    bytes += properties.raw().len() + body.len();
                    Some(Taken {
                        tag: get_ok.delivery_tag,
                        properties: properties.raw().to_vec(),
                        body: body.to_vec(),
                    })
                }
                Event::Method { method: Method::BasicGetEmpty(_), .. } => None,
                Event::Method { .. } => return Ok(None),
                _ => return Err(unexpected(&event)),
            };
            let position = asked.pop_front().ok_or_else(|| unexpected(&event))?;
            let is_end = taken.is_none() && position.is_none();
            answers.push(Answer { position, taken });
            Ok((is_end || asked.is_empty() || bytes >= bytes_max).then_some(()))
        })?;
        Ok(answers)
    }

    /// The fates of messages that came, in their order: those with a copy that is safe are acknowledged.
    pub(super) fn settle(&mut self, agent: &mut Agent<'_>, fates: impl IntoIterator<Item = (u64, Fate)>) {
        self.came = None;
        let mut all_up_to = None;
        for (tag, fate) in fates {
            match fate {
                Fate::Safe if self.stays.is_none() => all_up_to = Some(tag),
                Fate::Safe => agent.connection.ack(CHANNEL, tag, false),
                Fate::Untried | Fate::UnderWay | Fate::Unplaced => self.stays = Some(tag),
            }
        }
        if let Some(tag) = all_up_to {
            agent.connection.ack(CHANNEL, tag, true);
        }
    }

    /// Gives back all that is held, what is on its way too. After a trouble of the taking only what had come: no answer comes any
    /// more.
    pub(super) fn give_back(mut self, agent: &mut Agent<'_>, is_in_trouble: bool) {
        while !is_in_trouble && !self.is_idle() {
            // A queue that is gone, or a broker, holds nothing for anybody.
            if self.answers(agent, super::window::BYTES_MAX).is_err() {
                break;
            }
        }
        // On a channel that the broker has closed nothing is heard.
        if let Some(last) = self.came.max(self.stays).filter(|_| !agent.is_over) {
            agent.connection.nack(CHANNEL, last, true, true);
        }
    }
}

impl Agent<'_> {
    /// Asks for the message at a position, or else for the first one.
    pub(in crate::agent) fn ask(&mut self, queue: &[u8], position: Option<u64>) {
        match position {
            Some(position) => {
                self.connection.send(CHANNEL, &BasicPick { queue, position, ..BasicPick::default() });
            }
            None => self.connection.send(CHANNEL, &BasicGet { queue, no_ack: false, ..BasicGet::default() }),
        }
    }
}
