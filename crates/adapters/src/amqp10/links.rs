//! Links: the addresses a peer attaches to, and the ends they get.

use super::address::{self, Destination};
use super::credit::Credit;
use super::link::{Activity, Aim, ConsumerAt, End, Link, Particulars};
use super::management;
use super::pending::{Pending, Waiting};
use super::receiving::Receiving;
use super::refused::Refused;
use super::streams::{CAPABILITIES, ReadOptions};
use super::{Adapter, termini};
use crate::asking::Client;
use crate::context::Context;
use ::amqp10::{
    Attach, Error, LinkId, ReceiverSettleMode, Role, SenderSettleMode, SessionId, Source, Symbols, Target,
    condition,
};
use base::id::QueueSeq;
use broker::access::{Access, Resource};
use broker::catalog::{Object, QueueDefinition, Refusal};
use broker::{ConsumerRef, Held, NewConsumer, QueueCommand, Reply, ReplyAddress, Selector, StreamCommand};
use message::record::{Format, Owner};

impl Adapter {
    pub(super) fn attach(
        &mut self,
        context: &mut Context<'_>,
        session: SessionId,
        link: LinkId,
        attach: &Attach<'_>,
    ) {
        if let Err(refused) = self.attached(context, session, link, attach)
            && !self.waits_to_look(context, (session, link), attach, &refused)
        {
            self.refuse(context, (session, link), attach.name, attach.role.other(), &refused);
        }
    }

    /// The link gets its end, or waits for that.
    pub(super) fn attached(
        &mut self,
        context: &mut Context<'_>,
        session: SessionId,
        link: LinkId,
        attach: &Attach<'_>,
    ) -> Result<(), Refused> {
        termini::check(attach)?;
        match attach.role {
            _ if management::is_wanted(attach) => self.attach_management(context, session, link, attach),
            Role::Sender => self.attach_target(context, session, link, attach),
            Role::Receiver => self.attach_source(context, session, link, attach),
        }
    }

    /// The peer wants to send.
    fn attach_target(
        &mut self,
        context: &mut Context<'_>,
        id: SessionId,
        link: LinkId,
        attach: &Attach<'_>,
    ) -> Result<(), Refused> {
        let target = attach.target.unwrap_or_default();
        if target.is_coordinator {
            return self.attach_coordinator(context, id, link, attach);
        }
        if target.dynamic {
            return self.attach_dynamic_target(context, id, link, attach);
        }
        let destination = match target.address {
            None => None,
            Some(address) if context.settings.permits_address_v1 && !address::is_for_sender(address) => {
                return self.attach_old_target(context, (id, link), attach, address);
            }
            Some(address) => Some(
                address::destination(address).map_err(|text| Refused::new(condition::INVALID_FIELD, text))?,
            ),
        };
        if let Some(Destination { exchange, key }) = &destination
            && exchange.is_empty()
            && let Some(actor) = &self.actor
            && let Some(reply) = ReplyAddress::read(key.as_bytes(), actor.vhost)
        {
            return self.ask_reply(context, (id, link), attach, (reply, key.clone()));
        }
        let Some(session) = self.session(id) else { return Ok(()) };
        if let Some(Destination { exchange, key }) = &destination {
            let catalog = context.shard.catalog();
            let access = session.publisher.access();
            // As in RabbitMQ, a queue must be there before permissions for it are checked.
            // One that another connection has for itself can be sent to.
            let vhost = access.vhost();
            if exchange.is_empty() && catalog.queue_by_name(vhost, key.as_bytes()).is_none() {
                let vhost = catalog.vhost_definition(vhost).map_or("", |vhost| &vhost.name);
                return Err(Refusal::missing(Object::Queue, key, vhost).into());
            }
            // Topics are looked at message by message.
            access.check_publish(catalog, exchange.as_bytes(), [], None)?;
        }
        let answer = Attach {
            sender_settle_mode: attach.sender_settle_mode,
            receiver_settle_mode: ReceiverSettleMode::First,
            source: attach.source,
            target: Some(target),
            max_message_size: Some(context.limits10.message_bytes_max),
            ..Attach::new(attach.name, Role::Receiver)
        };
        let aim = destination.map_or(Aim::Each, Aim::To);
        self.open_target(context, id, link, aim, &answer);
        Ok(())
    }

    /// Whether the user may send to where a link leads.
    pub(super) fn may_send(
        &mut self,
        context: &Context<'_>,
        id: SessionId,
        aim: &Aim,
    ) -> Result<(), Refused> {
        let (Aim::To(Destination { exchange, .. })
        | Aim::Stamped(Destination { exchange, .. })
        | Aim::Subject(exchange)) = aim
        else {
            return Ok(());
        };
        let Some(session) = self.session(id) else { return Ok(()) };
        let access = session.publisher.access();
        // Topics are looked at message by message.
        Ok(access.check_publish(context.shard.catalog(), exchange.as_bytes(), [], None)?)
    }

    /// A sender's link is attached.
    pub(super) fn open_target(
        &mut self,
        context: &mut Context<'_>,
        id: SessionId,
        link: LinkId,
        aim: Aim,
        answer: &Attach<'_>,
    ) {
        let aim = match aim {
            Aim::To(to) if context.settings.stamps.is_some() => Aim::Stamped(to),
            aim => aim,
        };
        let credit = Credit::new(context.settings.link_credit_min);
        let Some(session) = self.session(id) else { return };
        let vhost = session.publisher.access().vhost();
        let queue = aim.destination().filter(|to| to.exchange.is_empty());
        let queue = queue.and_then(|to| context.shard.catalog().queue_by_name(vhost, to.key.as_bytes()));
        let queue = queue.map(|queue| queue.id);
        let particulars = Particulars::of_target(answer);
        self.add_link(id, Link { id: link, end: End::Target { aim, credit }, particulars });
        if let Some(queue) = queue {
            self.watch_shared(context, id, queue);
        }
        self.machine.answer_attach(id, link, answer);
        if self.is_blocked {
            self.machine.block(id, true);
        }
        self.is_due = true;
    }

    /// The peer wants to receive.
    fn attach_source(
        &mut self,
        context: &mut Context<'_>,
        id: SessionId,
        link: LinkId,
        attach: &Attach<'_>,
    ) -> Result<(), Refused> {
        let source = attach.source.unwrap_or_default();
        if source.dynamic {
            return self.attach_dynamic_source(context, id, link, attach);
        }
        let Some(address) = source.address else {
            return Err(Refused::new(condition::INVALID_FIELD, "a source without an address"));
        };
        if context.settings.permits_address_v1 && !address::is_for_receiver(address) {
            return self.attach_old_source(context, (id, link), attach, address);
        }
        let name = address::queue(address).map_err(|text| Refused::new(condition::INVALID_FIELD, text))?;
        let catalog = context.shard.catalog();
        let Some(session) = self.session(id) else { return Ok(()) };
        let access = session.publisher.access();
        let queue = catalog.open_queue(access.actor(), &name).map_err(Refused::at_source)?.clone();
        access.check(catalog, Access::Read, Resource::Queue(&name))?;
        let client = Client::of(catalog, self.actor.as_ref(), self.container.as_deref());
        let receiving = Receiving::of(attach, &source, &queue, &client, context.now.wall_ms)?;
        match self.goes_to_consume(context, (id, link), &queue, receiving) {
            Some(receiving) => self.consume(context, id, link, &queue, receiving),
            None => Ok(()),
        }
    }

    /// Opens the consumer of a receiver's link.
    pub(super) fn consume(
        &mut self,
        context: &mut Context<'_>,
        id: SessionId,
        link: LinkId,
        queue: &QueueDefinition,
        mut receiving: Receiving,
    ) -> Result<(), Refused> {
        let (log, queue_id, of) = (queue.log, queue.id, queue.queue_type);
        let settled = receiving.sender_settle_mode == SenderSettleMode::Settled;
        let options_bytes = receiving.options.as_ref().map_or(0, |options| options.filter.bytes());
        let selector_bytes = receiving.selector.as_ref().map_or(0, Selector::bytes);
        context.shard.check_filter(context.port, options_bytes + selector_bytes)?;
        let make = |handle| {
            let at = Some(ConsumerRef { log, queue: queue_id, handle });
            ConsumerAt { session: id, link, at, of, settled, lacks_credit: false }
        };
        let Some(handle) = self.consumers.add(make) else {
            return Err(Refused::new(condition::RESOURCE_LIMIT_EXCEEDED, "too many links to queues"));
        };
        let token = self.tokens.next();
        receiving.consumer = handle;
        let (options, selector) = (receiving.options.take(), receiving.selector.take());
        if queue.is_quorum() && !receiving.browses {
            // Where one is active at a time it is told whether it is the one; else all are.
            let is_single =
                queue.arguments.get(b"x-single-active-consumer") == Some(routing::Argument::Bool(true));
            receiving.activity = Activity::Due(!is_single);
        }
        let consumer = NewConsumer {
            credit: broker::Credit::Link,
            settled,
            exclusive: false,
            priority: receiving.priority,
            browses: receiving.browses.then_some(QueueSeq(0).into()),
            timeout_ms: receiving.timeout_ms,
        };
        let waiting = Waiting::Consume(receiving);
        self.requests.wait(token, (id, link), waiting);
        let consume = match options {
            None => match selector {
                None => QueueCommand::Consume { token, handle, consumer },
                Some(selector) => QueueCommand::Select { token, handle, consumer, selector },
            },
            Some(ReadOptions { from, filter, rate, name, .. }) => {
                let user = self.actor.as_ref().map_or(0, |actor| Owner::user_of(&actor.user));
                let consume = StreamCommand::Consume {
                    token,
                    handle,
                    consumer,
                    format: Format::Amqp10,
                    from,
                    filter,
                    rate,
                    user,
                    name,
                };
                QueueCommand::Stream(Box::new(consume))
            }
        };
        context.shard.command(context.now, context.port, queue.log, queue.id, consume);
        if self.begins_paused(id, settled) {
            let pause = QueueCommand::Pause { handle, paused: true };
            context.shard.command(context.now, context.port, queue.log, queue.id, pause);
        }
        Ok(())
    }

    /// The broker's answer to a pending attach or request.
    pub(super) fn answered(&mut self, context: &mut Context<'_>, token: u32, reply: Result<Reply, Refusal>) {
        let Some(pending) = self.requests.take(token) else { return };
        let at = (pending.session, pending.link);
        match pending.waiting {
            Waiting::Consume(receiving) => self.consuming(context, at, &receiving, reply),
            Waiting::Request(asked) => self.answered_request(context, at, &asked, reply),
            Waiting::Queue(making) => self.made(context, at, making, reply),
            Waiting::LookAgain(attach) => self.look_again(context, at, &attach),
            Waiting::Old(step) => self.old_made(context, at, step, reply),
            Waiting::Reply { name, sender_settle_mode } => {
                self.asked_reply(context, at, (name, sender_settle_mode), reply);
            }
            Waiting::LogIn(_) | Waiting::Open(_) | Waiting::Go(_) => {}
        }
    }

    /// The broker answered a receiver's attach.
    fn consuming(
        &mut self,
        context: &mut Context<'_>,
        (id, link): (SessionId, LinkId),
        pending: &Receiving,
        reply: Result<Reply, Refusal>,
    ) {
        if let Err(refusal) = reply {
            self.consumers.remove(pending.consumer);
            context.shard.forget_consumer(context.port, pending.consumer);
            self.drop_node(context, id, link);
            return self.refuse(context, (id, link), "", Role::Sender, &refusal.into());
        }
        let settled = pending.sender_settle_mode == SenderSettleMode::Settled;
        let source = Source::from_bytes(&pending.source);
        let particulars = source.as_ref().map(Particulars::of_source).unwrap_or_default();
        if self.session(id).is_none() {
            return;
        }
        let activity = pending.activity;
        let end = End::Source { consumer: pending.consumer, settled, mixes: pending.mixes, tag: 0, activity };
        self.add_link(id, Link { id: link, end, particulars });
        if let Some(at) = self.consumers.get(pending.consumer).and_then(|consumer| consumer.at) {
            self.watch_shared(context, id, at.queue);
        }
        let answer = Attach {
            sender_settle_mode: match settled {
                true => SenderSettleMode::Settled,
                false if pending.mixes => SenderSettleMode::Mixed,
                false => SenderSettleMode::Unsettled,
            },
            receiver_settle_mode: pending.receiver_settle_mode,
            source,
            target: Some(Target::default()),
            max_message_size: pending.max_message_size,
            offered_capabilities: match pending.is_of_stream {
                true => Symbols::Given(&CAPABILITIES),
                false => Symbols::default(),
            },
            ..Attach::new("", Role::Sender)
        };
        self.machine.answer_attach(id, link, &answer);
        self.announce_consumer(context, pending.consumer, settled);
    }

    /// A receiver goes whose attach is not answered yet, if it is one of these: its consumer is cancelled behind the
    /// command that makes it, and a queue that was made for it goes too. Answers to all other requests find no session
    /// when they come.
    pub(super) fn forget_consume(
        &mut self,
        context: &mut Context<'_>,
        goes: impl Fn((SessionId, LinkId)) -> bool,
    ) {
        let is_meant = |pending: &Pending| {
            matches!(pending.waiting, Waiting::Consume(_)) && goes((pending.session, pending.link))
        };
        let Some(pending) = self.requests.take_if(is_meant) else { return };
        if let Waiting::Consume(receiving) = &pending.waiting {
            self.drop_consumer(context, receiving.consumer);
        }
        self.drop_node(context, pending.session, pending.link);
    }

    /// A link is gone, and its consumer with it: the deliveries it held go back to the queue.
    pub(super) fn drop_link(&mut self, context: &mut Context<'_>, id: SessionId, link: LinkId) {
        self.forget_consume(context, |at| at == (id, link));
        let Some(gone) = self.remove_link(id, link) else { return };
        match gone.end {
            End::Target { aim: Aim::To(to) | Aim::Stamped(to), .. } if to.exchange.is_empty() => {
                self.unwatch(context, id, &to.key);
            }
            End::Target { .. } => {}
            End::Source { consumer, .. } => {
                self.announce_end(context, consumer, None);
                self.drop_consumer(context, consumer);
                self.look_at_room(context, id);
            }
            End::Management => self.drop_management(id, link),
            End::Coordinator => self.drop_coordinator(context, id, link),
        }
        self.drop_node(context, id, link);
    }

    fn drop_consumer(&mut self, context: &mut Context<'_>, consumer: u32) {
        let Some(ConsumerAt { at, .. }) = self.consumers.remove(consumer) else { return };
        let Some(at) = at else { return context.shard.close_reply(context.port, consumer) };
        let leave = QueueCommand::Cancel { token: None, handle: at.handle, held: Held::GoesBack };
        context.shard.command(context.now, context.port, at.log, at.queue, leave);
        context.shard.forget_consumer(context.port, at.handle);
    }

    /// A queue is gone: its consumers' links are detached.
    pub(super) fn cancelled(&mut self, context: &mut Context<'_>, consumer: u32, queue: &QueueDefinition) {
        let Some(ConsumerAt { session, link, .. }) = self.consumers.get(consumer).copied() else {
            return;
        };
        self.announce_end(context, consumer, Some(queue));
        // Without a description, as RabbitMQ.
        let error = Error { description: None, ..Error::new(condition::RESOURCE_DELETED, "") };
        self.machine.detach(session, link, Some(error), true);
        self.drop_link(context, session, link);
    }
}
