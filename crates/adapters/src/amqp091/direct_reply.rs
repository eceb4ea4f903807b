//! Direct reply-to: consuming from the pseudo-queue, and requests that name it.

use super::Adapter;
use super::channel::ReplyConsumer;
use super::consumer::{Consumer, Kind};
use super::pending::BrokerRequest;
use crate::context::Context;
use ::amqp091::DeliverPrefix;
use ::amqp091::method::{BasicConsume, MethodId, QueueDeclareOk};
use broker::catalog::{Actor, Object, Reason, Refusal, ReplyCode};
use broker::{ConsumerRef, Credit, REPLY_TO, ReplyAddress};

impl Adapter {
    /// basic.consume of the pseudo-queue. No permission is needed.
    pub(super) fn consume_replies(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        consume: &BasicConsume<'_>,
    ) -> Result<(), Refusal> {
        self.check_consumers(context, number)?;
        let tag = self.tag_for(context, number, consume.consumer_tag)?;
        let Some(channel) = self.channels.get(number) else { return Ok(()) };
        if !consume.no_ack {
            let text = "reply consumer cannot acknowledge";
            return Err(Refusal::precondition(Reason::Unsuited(Object::Consumer), text));
        }
        if channel.reply.is_some() {
            let reason = Reason::Exists(Object::Consumer);
            return Err(Refusal::precondition(reason, "reply consumer already set"));
        }
        let kind = Kind::Reply(DeliverPrefix::new(number, &tag));
        let handle = self.add_handle(|handle| Consumer {
            channel: number,
            at: ConsumerRef { log: Default::default(), queue: Default::default(), handle },
            kind,
            no_ack: true,
            prefetch: 0,
            is_cancelled: false,
            newest: u64::MAX,
            exclusive: false,
            of: None,
            lease_ms: None,
            arguments: None,
            delivered: 0,
            again: 0,
            accepted: 0,
            got_settled: 0,
        })?;
        let address = context.shard.open_reply(context.port, handle, Credit::Prefetch(0));
        if self.is_paused {
            context.shard.pause_reply(context.port, handle, true);
        }
        if let Some(channel) = self.channels.get(number) {
            channel.reply = Some(Box::new(ReplyConsumer { name: address.name().into() }));
        }
        if !consume.nowait {
            self.consuming(number, handle);
        }
        Ok(())
    }

    /// queue.declare of the pseudo-queue or of a reply consumer's name; false: it is neither. By this the peer that is
    /// to reply finds out whether the consumer still listens.
    pub(super) fn declare_reply(
        &mut self,
        context: &mut Context<'_>,
        (number, method): (u16, MethodId),
        name: &str,
        nowait: bool,
    ) -> Result<bool, Refusal> {
        if name == REPLY_TO {
            if !nowait {
                self.say_declared_reply(number, name);
            }
            return Ok(true);
        }
        if !is_reply_name(name) {
            return Ok(false);
        }
        let vhost = self.vhost_name(context);
        let missing = Refusal::missing(Object::Queue, name, &vhost);
        let vhost = self.actor.as_ref().map(|actor| actor.vhost);
        match vhost.and_then(|vhost| ReplyAddress::read(name.as_bytes(), vhost)) {
            Some(address) => {
                let request = BrokerRequest::FindReply { name: name.into() };
                let token = self.requests.wait(number, method, nowait, request);
                context.shard.ask_reply(context.port, token, address, missing);
                Ok(true)
            }
            None => Err(missing),
        }
    }

    pub(super) fn say_declared_reply(&mut self, number: u16, name: &str) {
        let ok = QueueDeclareOk { queue: name.as_bytes(), message_count: 0, consumer_count: 1 };
        self.machine.send(number, &ok);
    }

    /// Refuses uses that a reply consumer's name is not for though it stands where a queue's name does.
    pub(super) fn check_no_reply(
        &mut self,
        context: &Context<'_>,
        number: u16,
        name: &[u8],
        what: Use,
    ) -> Result<(), Refusal> {
        let is_reply = |actor: &Actor| ReplyAddress::read(name, actor.vhost).is_some();
        if !name.starts_with(REPLY_TO.as_bytes()) || !self.actor.as_ref().is_some_and(is_reply) {
            return Ok(());
        }
        let named =
            format!("queue '{}' in vhost '{}'", String::from_utf8_lossy(name), self.vhost_name(context));
        Err(match what {
            Use::Bind => Refusal::new(
                ReplyCode::AccessRefused,
                Reason::Unsuited(Object::Queue),
                "cannot bind or unbind to a volatile (direct reply-to) queue",
            ),
            Use::Consume => {
                let own = self.channels.get(number).and_then(|channel| channel.reply.as_ref());
                let is_own = own.is_some_and(|reply| reply.name.as_bytes() == name);
                let rule = if is_own {
                    "multiple consumers are unsupported for"
                } else {
                    "only creator channel may consume from"
                };
                Refusal::precondition(Reason::Unsuited(Object::Queue), format!("{rule} {named}"))
            }
            Use::Get => Refusal::new(
                ReplyCode::NotImplemented,
                Reason::Unsuited(Object::Queue),
                format!("basic.get not supported by volatile {named}"),
            ),
        })
    }

    fn vhost_name(&self, context: &Context<'_>) -> String {
        let actor = self.actor.as_ref();
        let vhost = actor.and_then(|actor| context.shard.catalog().vhost_definition(actor.vhost));
        vhost.map(|vhost| vhost.name.to_string()).unwrap_or_default()
    }
}

/// A use of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Bind,
    Consume,
    Get,
}

fn is_reply_name(name: &str) -> bool {
    name.strip_prefix(REPLY_TO).is_some_and(|rest| rest.starts_with('.'))
}
