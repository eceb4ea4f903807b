//! Nodes that addresses of the first version name, see [`super::address_v1`].
//!
//! As in RabbitMQ a queue that is named and not there is made, durable if the terminus is, and stays; a receiver of an
//! exchange gets a queue of its own, bound to it, which stays as well. Only where the operator permits such addresses.

use super::Adapter;
use super::address::Destination;
use super::address_v1::{Named, named};
use super::link::Aim;
use super::pending::{Sending, Step, Waiting};
use super::receiving::Receiving;
use super::refused::Refused;
use super::selecting::Selecting;
use crate::asking::Client;
use crate::context::Context;
use ::amqp10::{Attach, LinkId, ReceiverSettleMode, Role, SessionId, Source, Target, condition};
use broker::Reply;
use broker::access::{Access, Resource};
use broker::catalog::{Object, Op, QueueDefinition, Refusal};
use routing::Arguments;
use std::sync::Arc;

impl Adapter {
    /// The peer wants to send to an address of the first version.
    pub(super) fn attach_old_target(
        &mut self,
        context: &mut Context<'_>,
        (id, link): (SessionId, LinkId),
        attach: &Attach<'_>,
        address: &str,
    ) -> Result<(), Refused> {
        let named = named(address, true).map_err(|text| Refused::new(condition::INVALID_FIELD, text))?;
        let target = attach.target.unwrap_or_default();
        let aim = match named {
            Named::Exchange(exchange, Some(key)) => Aim::To(Destination { exchange, key }),
            Named::Exchange(exchange, None) => Aim::Subject(exchange),
            Named::Queues => Aim::Subject("".into()),
            Named::Existing(queue) => {
                self.find(context, id, &queue)?;
                Aim::To(Destination { exchange: "".into(), key: queue })
            }
            Named::Queue(queue) => {
                self.may_declare(context, id, &queue)?;
                if self.find(context, id, &queue).is_err() {
                    let sending = Sending {
                        name: attach.name.into(),
                        source: attach.source.map(|source| source.to_bytes()).unwrap_or_default().into(),
                        target: target.to_bytes().into(),
                        sender_settle_mode: attach.sender_settle_mode,
                        queue: queue.clone(),
                    };
                    let step = Step::Send(sending);
                    return self.declare_old(context, (id, link), queue, target.durable != 0, step);
                }
                Aim::To(Destination { exchange: "".into(), key: queue })
            }
        };
        let answer = Attach {
            sender_settle_mode: attach.sender_settle_mode,
            source: attach.source,
            target: Some(target),
            ..Attach::new(attach.name, Role::Receiver)
        };
        self.open_old_target(context, (id, link), aim, answer)
    }

    fn open_old_target(
        &mut self,
        context: &mut Context<'_>,
        (id, link): (SessionId, LinkId),
        aim: Aim,
        answer: Attach<'_>,
    ) -> Result<(), Refused> {
        self.may_send(context, id, &aim)?;
        let answer = Attach {
            receiver_settle_mode: ReceiverSettleMode::First,
            max_message_size: Some(context.limits10.message_bytes_max),
            ..answer
        };
        self.open_target(context, id, link, aim, &answer);
        Ok(())
    }

    /// The peer wants to receive from an address of the first version.
    pub(super) fn attach_old_source(
        &mut self,
        context: &mut Context<'_>,
        (id, link): (SessionId, LinkId),
        attach: &Attach<'_>,
        address: &str,
    ) -> Result<(), Refused> {
        let named = named(address, false).map_err(|text| Refused::new(condition::INVALID_FIELD, text))?;
        let source = attach.source.unwrap_or_default();
        let receiving = Receiving::new(attach, &source, Selecting::of(&source, &self.client(context))?);
        let durable = source.durable != 0;
        match named {
            Named::Existing(queue) => {
                let queue = self.find(context, id, &queue)?;
                let receiving = self.receiving(context, attach, &source, &queue)?;
                self.receive(context, (id, link), &queue, receiving)
            }
            Named::Queue(name) => {
                self.may_declare(context, id, &name)?;
                match self.find(context, id, &name) {
                    Ok(queue) => {
                        let receiving = self.receiving(context, attach, &source, &queue)?;
                        self.receive(context, (id, link), &queue, receiving)
                    }
                    Err(_) => self.declare_old(context, (id, link), name, durable, Step::Receive(receiving)),
                }
            }
            Named::Exchange(exchange, key) => {
                let catalog = context.shard.catalog();
                let Some(actor) = &self.actor else { return Ok(()) };
                if catalog.exchange(actor.vhost, exchange.as_bytes()).is_none() {
                    let vhost = catalog.vhost_definition(actor.vhost).map_or("", |vhost| &vhost.name);
                    return Err(Refusal::missing(Object::Exchange, &exchange, vhost).into());
                }
                let step = Step::Bind(receiving, exchange, key.unwrap_or_default());
                self.declare_old(context, (id, link), "".into(), durable, step)
            }
            Named::Queues => Err(Refused::new(condition::INVALID_FIELD, "only senders go by subjects")),
        }
    }

    fn receiving(
        &self,
        context: &Context<'_>,
        attach: &Attach<'_>,
        source: &Source<'_>,
        queue: &QueueDefinition,
    ) -> Result<Receiving, Refused> {
        Receiving::of(attach, source, queue, &self.client(context), context.now.wall_ms)
    }

    /// The client as filters know it.
    pub(super) fn client<'a>(&'a self, context: &'a Context<'_>) -> Client<'a> {
        Client::of(context.shard.catalog(), self.actor.as_ref(), self.container.as_deref())
    }

    /// The queue of this name.
    fn find(
        &self,
        context: &Context<'_>,
        id: SessionId,
        name: &str,
    ) -> Result<Arc<QueueDefinition>, Refused> {
        let catalog = context.shard.catalog();
        let session = self.sessions.get(id);
        let vhost = match (session, &self.actor) {
            (Some(_), Some(actor)) => actor.vhost,
            _ => return Err(Refused::new(condition::ILLEGAL_STATE, "the session is gone")),
        };
        let found = catalog.queue_by_name(vhost, name.as_bytes()).cloned();
        found.ok_or_else(|| {
            let vhost = catalog.vhost_definition(vhost).map_or("", |vhost| &vhost.name);
            Refusal::missing(Object::Queue, name, vhost).into()
        })
    }

    /// Whether the user may make the queue; asked also where it is there, as in RabbitMQ.
    fn may_declare(&mut self, context: &Context<'_>, id: SessionId, queue: &str) -> Result<(), Refused> {
        let Some(session) = self.session(id) else { return Ok(()) };
        let access = session.publisher.access();
        Ok(access.check(context.shard.catalog(), Access::Configure, Resource::Queue(queue))?)
    }

    /// Opens the consumer of a receiver's link.
    fn receive(
        &mut self,
        context: &mut Context<'_>,
        (id, link): (SessionId, LinkId),
        queue: &QueueDefinition,
        receiving: Receiving,
    ) -> Result<(), Refused> {
        let Some(session) = self.session(id) else { return Ok(()) };
        let access = session.publisher.access();
        let catalog = context.shard.catalog();
        catalog.open_queue(access.actor(), &queue.name).map_err(Refused::at_source)?;
        access.check(catalog, Access::Read, Resource::Queue(&queue.name))?;
        self.consume(context, id, link, queue, receiving)
    }

    /// Has a queue made, of the server's naming where `name` is empty.
    fn declare_old(
        &mut self,
        context: &mut Context<'_>,
        (session, link): (SessionId, LinkId),
        name: Box<str>,
        durable: bool,
        step: Step,
    ) -> Result<(), Refused> {
        if !durable && !context.settings.permits_transient_queues {
            let text = format!("Failed to declare queue '{name}': transient queues are not permitted");
            return Err(Refused::new(condition::INTERNAL_ERROR, text));
        }
        let op = Op::DeclareQueue {
            name,
            passive: false,
            durable,
            exclusive: false,
            auto_delete: false,
            arguments: Arguments::default(),
            random: context.shard.secret_bytes(),
        };
        self.ask_old(context, (session, link), op, step);
        Ok(())
    }

    fn ask_old(
        &mut self,
        context: &mut Context<'_>,
        (session, link): (SessionId, LinkId),
        op: Op,
        step: Step,
    ) {
        let token = self.tokens.next();
        self.requests.wait(token, (session, link), Waiting::Old(step));
        context.shard.request(context.now, context.port, token, op);
    }

    /// The broker's answer to a step of attaching to an address of the first version.
    pub(super) fn old_made(
        &mut self,
        context: &mut Context<'_>,
        at: (SessionId, LinkId),
        step: Step,
        reply: Result<Reply, Refusal>,
    ) {
        let (role, outcome) = match (step, reply) {
            (Step::Send(sending), Ok(_)) => {
                let answer = Attach {
                    sender_settle_mode: sending.sender_settle_mode,
                    source: Source::from_bytes(&sending.source),
                    target: Target::from_bytes(&sending.target),
                    ..Attach::new(&sending.name, Role::Receiver)
                };
                let aim = Aim::To(Destination { exchange: "".into(), key: sending.queue.clone() });
                (Role::Receiver, self.open_old_target(context, at, aim, answer))
            }
            (Step::Send(_), Err(refusal)) => (Role::Receiver, Err(refusal.into())),
            (Step::Receive(receiving), Ok(Reply::Declared { queue, .. })) => {
                (Role::Sender, self.receive(context, at, &queue, receiving))
            }
            (Step::Bind(receiving, exchange, key), Ok(Reply::Declared { queue, .. })) => {
                let name = queue.name.clone();
                let op = Op::BindQueue { queue: name, exchange, key, arguments: Arguments::default() };
                self.ask_old(context, at, op, Step::Bound(receiving, queue));
                (Role::Sender, Ok(()))
            }
            (Step::Bound(receiving, queue), Ok(_)) => {
                (Role::Sender, self.receive(context, at, &queue, receiving))
            }
            (Step::Receive(_) | Step::Bind(..), Ok(_)) => (Role::Sender, Ok(())),
            (_, Err(refusal)) => (Role::Sender, Err(refusal.into())),
        };
        if let Err(refused) = outcome {
            self.refuse(context, at, "", role, &refused);
        }
    }
}
