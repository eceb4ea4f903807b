//! The requests of a stream's consumer: where it begins and which messages it is to see.
//!
//! Rules and texts are RabbitMQ 4.3.6's, seen by consuming through pika.

use super::consumer::Kind;
use super::pending::BrokerRequest;
use super::pending::News;
use super::{Adapter, tables};
use crate::asking::Client;
use crate::context::Context;
use ::amqp091::DeliverPrefix;
use ::amqp091::method::{BasicConsume, MethodId};
use broker::catalog::{QueueDefinition, Reason, Refusal, age_ms};
use broker::{
    CONSUMER_NAME_MAX, Credit, FILTER_VALUES_MAX, NewConsumer, QueueCommand, RATE_MAX, StreamCommand,
    StreamFilter, StreamFrom, Wanted,
};
use message::amqp091::Value;
use message::chunk::Filter;
use message::record::{Format, Owner};
use std::sync::Arc;

/// Arguments that other queues know and streams do not.
const OTHERS: [&str; 2] = ["x-priority", "x-consumer-timeout"];

impl Adapter {
    /// Opens a consumer of a stream.
    #[cold]
    pub(super) fn consume_stream(
        &mut self,
        context: &mut Context<'_>,
        (number, method): (u16, MethodId),
        consume: &BasicConsume<'_>,
        stream: &Arc<QueueDefinition>,
        tag: &[u8],
    ) -> Result<(), Refusal> {
        let prefetch = self.channels.get(number).map_or(0, |channel| channel.prefetch);
        let catalog = context.shard.catalog();
        let client = Client::of(catalog, self.actor.as_ref(), self.peer.given_name());
        let (from, filter, rate, name) =
            read_options(consume, stream, prefetch, &client, context.now.wall_ms)?;
        context.shard.check_filter(context.port, filter.bytes())?;
        // Consumers of streams share no prefetch.
        self.check_shared(number, stream)?;
        let kind = Kind::Plain(DeliverPrefix::new(number, tag));
        let arguments = tables::keep(context, &consume.arguments)?;
        let added = self.add_consumer(stream, number, kind, false);
        let handle = added.inspect_err(|_| tables::give_back(context, arguments.as_deref()))?;
        if let Some(consumer) = self.consumers.get_mut(handle) {
            consumer.prefetch = prefetch;
            consumer.arguments = arguments;
        }
        let consumer = NewConsumer {
            credit: Credit::Prefetch(prefetch.into()),
            settled: false,
            exclusive: consume.exclusive,
            priority: 0,
            browses: None,
            timeout_ms: None,
        };
        let news = context.shard.is_heard().then(|| {
            let arguments = tables::arguments(&consume.arguments);
            Box::new(News { exclusive: consume.exclusive, arguments })
        });
        let token =
            self.requests.wait(number, method, consume.nowait, BrokerRequest::Consume { handle, news });
        let user = self.actor.as_ref().map_or(0, |actor| Owner::user_of(&actor.user));
        let command = StreamCommand::Consume {
            token,
            handle,
            consumer,
            format: Format::Amqp091,
            from,
            filter,
            rate,
            user,
            name,
        };
        self.command(context, stream, QueueCommand::Stream(Box::new(command)));
        if self.is_paused {
            self.command(context, stream, QueueCommand::Pause { handle, paused: true });
        }
        Ok(())
    }
}

/// Where a consumer begins, the messages it is to see, how many a second, and its name.
type ReadOptions = (StreamFrom, StreamFilter, Option<u32>, Option<Box<[u8]>>);

/// Where a consumer of a stream begins and the messages it is to see.
///
/// # Errors
/// An argument means nothing to a stream or nothing at all, or the consumer has no prefetch, or does not settle.
fn read_options(
    consume: &BasicConsume<'_>,
    stream: &QueueDefinition,
    prefetch: u16,
    client: &Client<'_>,
    now_ms: u64,
) -> Result<ReadOptions, Refusal> {
    let named = stream.named();
    let invalid = |argument, why: String| Err(Refusal::invalid_argument(argument, &named, &why));
    if let Some(name) = OTHERS.iter().find(|name| consume.arguments.get(name.as_bytes()).is_some()) {
        return invalid(name, " of queue type rabbit_stream_queue".to_owned());
    }
    let from = match consume.arguments.get(b"x-stream-offset") {
        None => StreamFrom::Next,
        Some(value) => match from(&value, now_ms) {
            Some(from) => from,
            None => {
                let kind = tables::type_name(&value);
                let shown = match value {
                    Value::Text(text) => format!("<<\"{}\">>", String::from_utf8_lossy(text)),
                    _ => "...".to_owned(),
                };
                let why = format!("{{invalid_stream_offset_arg,{{{kind},{shown}}}}}");
                return invalid("x-stream-offset", format!(": {why}"));
            }
        },
    };
    let rate = match consume.arguments.get(b"x-replay-rate") {
        None => None,
        Some(value) => match value.as_i64().and_then(|rate| u32::try_from(rate).ok()) {
            Some(rate @ 1..=RATE_MAX) => Some(rate),
            _ => {
                let why = format!("it is to be a number of messages a second, 1 to {RATE_MAX}");
                return invalid("x-replay-rate", format!(": {why}"));
            }
        },
    };
    let name = match consume.arguments.get(b"x-stream-consumer-name") {
        None => None,
        Some(Value::Text(name) | Value::Bytes(name)) if (1..=CONSUMER_NAME_MAX).contains(&name.len()) => {
            Some(name.into())
        }
        Some(_) => {
            let why = format!("it is to be a text of 1 to {CONSUMER_NAME_MAX} bytes");
            return invalid("x-stream-consumer-name", format!(": {why}"));
        }
    };
    if let Some(Value::Array(values)) = consume.arguments.get(b"x-stream-filter")
        && values.iter().count() > FILTER_VALUES_MAX
    {
        let why = format!("it has more than {FILTER_VALUES_MAX} values");
        return invalid("x-stream-filter", format!(": {why}"));
    }
    if prefetch == 0 {
        let text = format!("consumer prefetch count is not set for stream {named}");
        return Err(Refusal::precondition(Reason::WrongState, text));
    }
    if consume.no_ack {
        let text = format!("automatic acknowledgement not supported by stream {named}");
        return Err(Refusal::not_served(text));
    }
    let messages = match consume.arguments.get(b"x-filter") {
        None => None,
        Some(Value::Text(text) | Value::Bytes(text)) => {
            match Wanted::parse(text, client.macros, Some(&client.asker)) {
                Ok(wanted) => Some(wanted),
                Err(why) => return invalid("x-filter", format!(": {why}")),
            }
        }
        Some(_) => return invalid("x-filter", ": it is to be an expression".to_owned()),
    };
    Ok((from, StreamFilter { chunks: filter(consume), messages }, rate, name))
}

/// Where `x-stream-offset` says; none where it says nothing.
fn from(value: &Value<'_>, now_ms: u64) -> Option<StreamFrom> {
    Some(match value {
        Value::Text(b"first") | Value::Bytes(b"first") => StreamFrom::First,
        Value::Text(b"last") | Value::Bytes(b"last") => StreamFrom::Last,
        Value::Text(b"next") | Value::Bytes(b"next") => StreamFrom::Next,
        Value::Text(text) => {
            let age_ms = age_ms(str::from_utf8(text).ok()?)?;
            StreamFrom::Timestamp(now_ms.saturating_sub(age_ms) as i64)
        }
        Value::Timestamp(seconds) => {
            StreamFrom::Timestamp(i64::try_from(*seconds).unwrap_or(i64::MAX).saturating_mul(1000))
        }
        // A number below 0 counts from the end; in RabbitMQ it is the beginning.
        value => match value.as_i64()? {
            offset @ 0.. => StreamFrom::Offset(offset.unsigned_abs()),
            count => StreamFrom::LastMessages(count.unsigned_abs()),
        },
    })
}

/// The chunks it is to see: all where it names no filter values. Values that are no text are passed over.
fn filter(consume: &BasicConsume<'_>) -> Option<Filter> {
    let arguments = &consume.arguments;
    let match_unfiltered = matches!(arguments.get(b"x-stream-match-unfiltered"), Some(Value::Bool(true)));
    match arguments.get(b"x-stream-filter")? {
        Value::Text(text) => Some(Filter::new([text], match_unfiltered)),
        Value::Array(values) => {
            let texts = values.iter().filter_map(|value| match value {
                Value::Text(text) => Some(text),
                _ => None,
            });
            Some(Filter::new(texts, match_unfiltered))
        }
        _ => None,
    }
}
