//! Messages in, confirms out.

use super::confirms::Ack;
use super::tables::MessageHeaders;
use super::{Adapter, code};
use crate::connection::{Context, Gravity};
use ::amqp091::method::{BasicPublish, MethodId};
use ::amqp091::{Body, Outgoing, ReplyCode};
use broker::catalog::Refusal;
use broker::{Publish, Published};
use message::amqp091::Properties;
use message::record::Format;

/// basic.publish.
const PUBLISH: MethodId = MethodId { class: 60, method: 40 };

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
        let ttl_ms = match properties.expiration() {
            None => None,
            Some(_) => match properties.expiration_ms() {
                Ok(ttl_ms) => ttl_ms,
                Err(error) => {
                    let refusal =
                        Refusal::new(broker::catalog::ReplyCode::PreconditionFailed, error.to_string());
                    return self.refuse(context, number, &refusal, PUBLISH);
                }
            },
        };
        let message = Publish {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            more_keys: &[],
            headers: &MessageHeaders(properties),
            format: Format::Amqp091,
            durable: properties.is_persistent(),
            priority: properties.priority(),
            ttl_ms,
            head: &[properties.raw()],
            body: &[body],
            confirm: channel.confirms.is_some(),
        };
        let seq = channel.publisher.next_seq();
        match context.shard.publish(context.now, &mut channel.publisher, &message) {
            Ok(Published::Waiting) => {
                channel.unconfirmed += 1;
                self.is_full |= channel.unconfirmed >= context.settings.unconfirmed_max;
            }
            Ok(Published::Done) => self.safe(number, seq),
            Ok(Published::Unroutable) => {
                if publish.mandatory {
                    let message = Outgoing {
                        exchange: publish.exchange,
                        routing_key: publish.routing_key,
                        head: properties.raw(),
                        body: Body::Bytes(body),
                    };
                    self.machine.return_message(number, ReplyCode::NoRoute, &message);
                }
                self.safe(number, seq);
            }
            Err(refusal) => {
                let text = format!("channel {number} error: {}", refusal.reply_text());
                if refusal.code.is_hard() {
                    return self.close(context, &refusal, PUBLISH);
                }
                self.note(context, Gravity::Error, text);
                self.drop_channel(context, number);
                self.machine.close_channel(number, code(&refusal), &refusal.reply_text(), PUBLISH);
            }
        }
    }

    /// A publish is safe without waiting.
    fn safe(&mut self, number: u16, seq: u64) {
        if let Some(channel) = self.channels.get(number)
            && let Some(confirms) = &mut channel.confirms
        {
            confirms.safe(seq, seq);
            channel.is_due = true;
            self.is_due = true;
        }
    }

    /// The broker confirmed publishes of a channel: publishers are named after their channels.
    #[inline]
    pub(super) fn confirmed(&mut self, publisher: u32, first: u64, last: u64) {
        let Some(channel) = u16::try_from(publisher).ok().and_then(|number| self.channels.get(number)) else {
            return;
        };
        if let Some(confirms) = &mut channel.confirms {
            let mut count = 0;
            channel.publisher.confirmed(first, last, |first, last| {
                count += last - first + 1;
                confirms.safe(first, last);
            });
            channel.unconfirmed = channel.unconfirmed.saturating_sub(count);
            channel.is_due = true;
            self.is_due = true;
        }
    }

    /// Whether a channel has as many publishes waiting as it may.
    pub(super) fn see_whether_full(&mut self, context: &Context<'_>) {
        let most = context.settings.unconfirmed_max;
        self.is_full = self.channels.iter().any(|channel| channel.unconfirmed >= most);
    }

    pub(super) fn tell_confirms(&mut self) {
        let machine = &mut self.machine;
        self.channels.each(|channel| {
            let number = channel.number;
            if std::mem::take(&mut channel.is_due)
                && let Some(confirms) = &mut channel.confirms
            {
                confirms.tell(|Ack { tag, multiple }| machine.ack(number, tag, multiple));
            }
        });
    }
}
