//! Messages that are taken, one by one.

use crate::agent::{Agent, CHANNEL, unexpected};
use amqp091::method::{BasicGet, BasicPick};
use amqp091::{Event, Method};
use management::Trouble;

/// A message that was taken.
pub(in crate::agent) struct Taken {
    pub(in crate::agent) tag: u64,
    pub(super) properties: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Agent<'_> {
    /// Takes the message at a position, or else the first one; none where none is ready there.
    pub(in crate::agent) fn take(
        &mut self,
        queue: &[u8],
        position: Option<u64>,
    ) -> Result<Option<Taken>, Trouble> {
        match position {
            Some(position) => {
                self.connection.send(CHANNEL, &BasicPick { queue, position, ..BasicPick::default() });
            }
            None => self.connection.send(CHANNEL, &BasicGet { queue, no_ack: false, ..BasicGet::default() }),
        }
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
}
