//! Messages in, confirms out.

use super::Adapter;
use super::channel::Channels;
use super::confirms::Ack;
use super::publish_options::PublishOptions;
use crate::context::Context;
use crate::transaction::HeldPublish;
use ::amqp091::method::{BasicNack, BasicPublish, MethodId};
use ::amqp091::{Body, Connection, Error, Outgoing, ReplyCode};
use broker::catalog::{Reason, Refusal};
use broker::fields::{Fields091, Unstamped};
use broker::ledger::Kind;
use broker::{Count, Publish, Published};
use message::amqp091::Properties;
use message::record::Format;
use message::stamps::Stamped;

/// basic.publish.
pub(super) const PUBLISH: MethodId = MethodId { class: 60, method: 40 };

/// The properties of a message that comes now, with the node's stamps; `None`: it writes none.
pub(super) fn stamped(context: &Context<'_>, properties: &Properties<'_>) -> Option<Stamped> {
    context.settings.stamps.as_ref()?.on_amqp091(properties, context.now.wall_ms)
}

impl Adapter {
    #[inline]
    pub(super) fn publish(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        publish: &BasicPublish<'_>,
        properties: &Properties<'_>,
        body: &[u8],
    ) {
        if !self.has_published {
            self.has_published = true;
            self.tell_blocked();
        }
        let Some(channel) = self.channels.get(number) else { return };
        if properties.has_wishes() || channel.does_more {
            return self.publish_with_wishes(context, number, publish, properties, body);
        }
        let message = Publish {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            more: None,
            headers: &Fields091(properties),
            format: Format::Amqp091,
            durable: properties.is_persistent(),
            priority: properties.priority(),
            ttl_ms: None,
            head: &[properties.raw()],
            body: &[body],
            confirm: channel.confirms.is_some(),
        };
        let seq = channel.publisher.next_seq();
        let published = context.shard.publish(context.now, &mut channel.publisher, &message);
        if published == Ok(Published::Waiting) {
            channel.unconfirmed += 1;
            self.is_full |= channel.unconfirmed >= context.settings.unconfirmed_max;
            return;
        }
        self.published(context, number, seq, published, &message, publish.mandatory);
    }

    /// A message whose properties may ask something of the broker, that belongs to a transaction, or that the node
    /// writes stamps on.
    fn publish_with_wishes(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        publish: &BasicPublish<'_>,
        properties: &Properties<'_>,
        body: &[u8],
    ) {
        let Some(channel) = self.channels.get(number) else { return };
        // Of a transaction's messages that waits for the commit: until then they have not come.
        let stamped = if channel.transaction.is_some() { None } else { stamped(context, properties) };
        let read = stamped.as_ref().and_then(|stamped| Properties::read(&stamped.head).ok());
        let properties = read.as_ref().unwrap_or(properties);
        let reply = channel.reply.as_ref().map(|reply| &*reply.name);
        let mut options = match PublishOptions::read(properties, reply) {
            Ok(options) => options,
            Err(refusal) => {
                // A fault of the exchange comes first.
                let (access, catalog) = (channel.publisher.access(), context.shard.catalog());
                let found = access.check_publish(catalog, publish.exchange, [publish.routing_key], None);
                let refusal = found.err().unwrap_or(refusal);
                return self.refuse(context, number, &refusal, PUBLISH);
            }
        };
        options.more.stamped = stamped.as_ref().is_some_and(|stamped| stamped.has_time);
        let head = options.head.as_deref().unwrap_or(properties.raw());
        if let Some(transaction) = &mut channel.transaction {
            let held = HeldPublish {
                exchange: publish.exchange,
                routing_key: publish.routing_key,
                more: options.more,
                format: Format::Amqp091,
                durable: properties.is_persistent(),
                priority: properties.priority(),
                ttl_ms: options.ttl_ms,
                head,
                body,
                mark: 0,
            };
            let access = channel.publisher.access();
            if let Err(refusal) = transaction.hold_publish(context, access, &held, publish.mandatory) {
                self.refuse(context, number, &refusal, PUBLISH);
            }
            return;
        }
        let fields = Fields091(properties);
        let unstamped = Unstamped(&fields);
        let message = Publish {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            more: options.more.some(),
            headers: if options.more.stamped { &unstamped } else { &fields },
            format: Format::Amqp091,
            durable: properties.is_persistent(),
            priority: properties.priority(),
            ttl_ms: options.ttl_ms,
            head: &[head],
            body: &[body],
            confirm: channel.confirms.is_some(),
        };
        let Some(channel) = self.channels.get(number) else { return };
        let seq = channel.publisher.next_seq();
        let published = context.shard.publish_rare(context.now, &mut channel.publisher, &message);
        self.published(context, number, seq, published, &message, publish.mandatory);
    }

    /// Counts, confirms or returns `message`, the channel's publish number `seq`, by its outcome.
    fn published(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        seq: u64,
        published: Result<Published, Refusal>,
        message: &Publish<'_>,
        mandatory: bool,
    ) {
        match published {
            Ok(Published::Waiting) => {
                let Some(channel) = self.channels.get(number) else { return };
                channel.unconfirmed += 1;
                self.is_full |= channel.unconfirmed >= context.settings.unconfirmed_max;
            }
            Ok(Published::Done) => self.safe(context, number, seq),
            Ok(Published::Unroutable) => {
                let what = if mandatory { Count::ReturnUnroutable } else { Count::DropUnroutable };
                if let Some(channel) = self.channels.get(number) {
                    let vhost = channel.publisher.vhost();
                    context.shard.note_unroutable(vhost, message.exchange, mandatory);
                    channel.note(context, None, what, 1);
                    channel.note_unroutable(message.exchange, mandatory);
                }
                if mandatory && let ([head], [body]) = (message.head, message.body) {
                    self.send_back(number, message.exchange, message.routing_key, head, body);
                }
                self.safe(context, number, seq);
            }
            Err(refusal) => self.refuse(context, number, &refusal, PUBLISH),
        }
    }

    /// More is kept of messages that are not whole.
    #[cold]
    pub(super) fn gather(&mut self, context: &mut Context<'_>, bytes: usize) {
        match context.shard.take(context.port, Kind::Bodies, bytes) {
            Ok(()) => self.machine.grant(bytes),
            Err(full) => {
                let what = format!("{bytes} bytes more of message bodies");
                self.close(context, &full.refuse(broker::catalog::ReplyCode::ResourceError, &what), PUBLISH);
            }
        }
    }

    /// basic.return of a message that is routed nowhere.
    pub(super) fn send_back(
        &mut self,
        number: u16,
        exchange: &[u8],
        routing_key: &[u8],
        head: &[u8],
        body: &[u8],
    ) {
        let message = Outgoing { exchange, routing_key, head, body: Body::Bytes(body) };
        self.machine.return_message(number, ReplyCode::NoRoute, &message);
    }

    /// Publishes a message that a transaction held back.
    pub(super) fn publish_held(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        held: &HeldPublish<'_>,
    ) -> Result<Published, Refusal> {
        let Some(channel) = self.channels.get(number) else { return Ok(Published::Done) };
        let properties = Properties::read(held.head).expect("it was read when it came");
        let stamped = stamped(context, &properties);
        let read = stamped.as_ref().and_then(|stamped| Properties::read(&stamped.head).ok());
        let properties = read.unwrap_or(properties);
        let fields = Fields091(&properties);
        let unstamped = Unstamped(&fields);
        let mut more = held.more.clone();
        more.stamped = stamped.as_ref().is_some_and(|stamped| stamped.has_time);
        let message = Publish {
            exchange: held.exchange,
            routing_key: held.routing_key,
            more: more.some(),
            headers: if more.stamped { &unstamped } else { &fields },
            format: held.format,
            durable: held.durable,
            priority: held.priority,
            ttl_ms: held.ttl_ms,
            head: &[properties.raw()],
            body: &[held.body],
            confirm: true,
        };
        context.shard.publish_rare(context.now, &mut channel.publisher, &message)
    }

    /// A publish is safe without waiting.
    fn safe(&mut self, context: &mut Context<'_>, number: u16, seq: u64) {
        if let Some(channel) = self.channels.get(number)
            && let Some(confirms) = &mut channel.confirms
        {
            confirms.safe(seq, seq);
            channel.is_due = true;
            channel.note(context, None, Count::Confirm, 1);
            self.is_due = true;
        }
    }

    /// The broker confirmed publishes of a channel: publishers are named after their channels, in the lower half.
    #[inline]
    pub(super) fn confirmed(&mut self, context: &mut Context<'_>, publisher: u32, first: u64, last: u64) {
        let channel_number = publisher as u16;
        let Some(channel) = self.channels.get(channel_number) else { return };
        if channel.publisher.handle() != publisher {
            // Of a channel that was closed and had this number.
            return;
        }
        if let Some(confirms) = &mut channel.confirms {
            let mut count = 0;
            channel.publisher.confirmed(first, last, |first, last| {
                count += last - first + 1;
                confirms.safe(first, last);
            });
            channel.unconfirmed = channel.unconfirmed.saturating_sub(count);
            channel.is_due = true;
            channel.note(context, None, Count::Confirm, count);
            self.is_due = true;
        } else if channel.transaction.is_some() {
            let mut count = 0;
            channel.publisher.confirmed(first, last, |first, last| count += last - first + 1);
            channel.unconfirmed = channel.unconfirmed.saturating_sub(count);
            self.see_whether_committed(channel_number);
        }
    }

    /// A queue was full for publishes of a channel: each is nacked. A commit they were part of took effect in part.
    #[cold]
    pub(super) fn publishes_refused(
        &mut self,
        context: &mut Context<'_>,
        publisher: u32,
        first: u64,
        last: u64,
    ) {
        let number = publisher as u16;
        let channel = self.channels.get(number).filter(|channel| channel.publisher.handle() == publisher);
        let Some(channel) = channel else { return };
        let (mut count, mut tags) = (0, Vec::new());
        channel.publisher.refused(first, last, |seq| {
            count += 1;
            tags.extend(channel.confirms.as_mut().and_then(|confirms| confirms.refused(seq)));
        });
        channel.unconfirmed = channel.unconfirmed.saturating_sub(count);
        self.is_due = true;
        for delivery_tag in tags {
            self.machine.send(number, &BasicNack { delivery_tag, multiple: false, requeue: false });
        }
        if self.requests.is_committing(number) {
            let refusal = Refusal::precondition(Reason::Rejected, "partial tx completion");
            self.refuse(context, number, &refusal, MethodId::NONE);
        }
    }

    /// Whether a channel has as many publishes waiting as it may.
    pub(super) fn see_whether_full(&mut self, context: &Context<'_>) {
        let most = context.settings.unconfirmed_max;
        self.is_full = self.channels.iter().any(|channel| channel.unconfirmed >= most);
    }

    /// Sends the confirms that are due, if there are any: at the end of a turn, and before all that would come in front
    /// of them, or instead of them where a channel ends.
    pub(super) fn tell_confirms(&mut self) {
        if std::mem::take(&mut self.is_due) {
            tell_safe(&mut self.channels, &mut self.machine);
        }
    }

    /// As [`Adapter::tell_confirms`], where the machine has sent its close for `error` already.
    pub(super) fn tell_confirms_before(&mut self, error: &Error) {
        if std::mem::take(&mut self.is_due) {
            let channels = &mut self.channels;
            self.machine.before_close(error, |machine| tell_safe(channels, machine));
        }
    }
}

fn tell_safe(channels: &mut Channels, machine: &mut Connection) {
    channels.each(|channel| {
        let number = channel.number;
        if std::mem::take(&mut channel.is_due)
            && let Some(confirms) = &mut channel.confirms
        {
            confirms.tell(|Ack { tag, multiple }| machine.ack(number, tag, multiple));
        }
    });
}
