//! A receiver's attach, while its consumer is not there yet.

use super::link::Activity;
use super::refused::Refused;
use super::selecting::Selecting;
use super::streams::ReadOptions;
use super::termini;
use crate::asking::Client;
use ::amqp10::{Attach, ReceiverSettleMode, SenderSettleMode, Source};
use broker::Selector;
use broker::catalog::QueueDefinition;
use message::amqp10::Value;

/// A receiver's attach.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) consumer: u32,
    /// The source it is told of, in bytes.
    pub(super) source: Box<[u8]>,
    pub(super) sender_settle_mode: SenderSettleMode,
    pub(super) receiver_settle_mode: ReceiverSettleMode,
    /// Some deliveries are settled in advance, and others are not: barriers of a queue that has them, where the receiver leaves that
    /// to the sender.
    pub(super) mixes: bool,
    pub(super) priority: i32,
    pub(super) browses: bool,
    /// The expression that it chooses by, of a queue.
    pub(super) selector: Option<Selector>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) activity: Activity,
    /// As it was asked: it is told that this is respected.
    pub(super) max_message_size: Option<u64>,
    /// The options it reads a stream with; none for a queue.
    pub(super) options: Option<ReadOptions>,
    pub(super) is_of_stream: bool,
}

impl Receiving {
    pub(super) fn new(attach: &Attach<'_>, source: &Source<'_>, selecting: Selecting) -> Receiving {
        let priority = match attach.properties.get("rabbitmq:priority") {
            Some(Value::Int(priority)) => priority,
            // Of another type it is passed over, as in RabbitMQ.
            _ => 0,
        };
        let timeout_ms = match attach.properties.get("rabbitmq:consumer-timeout") {
            Some(Value::Uint(timeout_ms)) => Some(u64::from(timeout_ms)),
            _ => None,
        };
        Receiving {
            consumer: 0,
            source: termini::answered(source, &selecting),
            selector: selecting.selector,
            sender_settle_mode: attach.sender_settle_mode,
            receiver_settle_mode: attach.receiver_settle_mode,
            mixes: false,
            priority,
            browses: termini::copies(source),
            timeout_ms,
            activity: Activity::Never,
            max_message_size: attach.max_message_size,
            options: None,
            is_of_stream: false,
        }
    }

    /// As [`Receiving::new`], of this queue.
    ///
    /// # Errors
    /// A filter cannot be read, where that matters.
    pub(super) fn of(
        attach: &Attach<'_>,
        source: &Source<'_>,
        queue: &QueueDefinition,
        client: &Client<'_>,
        now_ms: u64,
    ) -> Result<Receiving, Refused> {
        if !queue.is_stream() {
            let mixes = queue.has_barriers() && attach.sender_settle_mode == SenderSettleMode::Mixed;
            return Ok(Receiving { mixes, ..Receiving::new(attach, source, Selecting::of(source, client)?) });
        }
        let options = ReadOptions::of(source, queue, client, now_ms)?;
        let source = termini::answered_of_stream(source, &options);
        let receiving = Receiving::new(attach, &Source::default(), Selecting::default());
        Ok(Receiving { source, browses: false, options: Some(options), is_of_stream: true, ..receiving })
    }
}
