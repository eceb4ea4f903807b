//! A basic.consume that is kept until the connection has come to the queue's shard.

use ::amqp091::method::BasicConsume;
use message::amqp091::Table;

/// A consumer that is opened elsewhere.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) channel: u16,
    queue: Box<[u8]>,
    consumer_tag: Box<[u8]>,
    arguments: Box<[u8]>,
    no_local: bool,
    no_ack: bool,
    exclusive: bool,
    nowait: bool,
}

impl Parked {
    pub(super) fn new(channel: u16, consume: &BasicConsume<'_>) -> Parked {
        let BasicConsume { ticket: _, queue, consumer_tag, no_local, no_ack, exclusive, nowait, arguments } =
            *consume;
        let (queue, consumer_tag) = (queue.into(), consumer_tag.into());
        let arguments = arguments.bytes().into();
        Parked { channel, queue, consumer_tag, arguments, no_local, no_ack, exclusive, nowait }
    }

    /// As it was asked for.
    pub(super) fn consume(&self) -> BasicConsume<'_> {
        let Parked { queue, consumer_tag, arguments, no_local, no_ack, exclusive, nowait, .. } = self;
        BasicConsume {
            ticket: 0,
            queue,
            consumer_tag,
            no_local: *no_local,
            no_ack: *no_ack,
            exclusive: *exclusive,
            nowait: *nowait,
            arguments: Table::new(arguments).expect("it was read before"),
        }
    }
}
