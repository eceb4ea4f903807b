//! Methods that ask for something, and their answers.
//!
//! Requests that only the broker can answer leave a [`Pending`] until [`Adapter::answered`].

use super::channel::Channel;
use super::confirms::Confirms;
use super::consumer::Kind;
use super::direct_reply::Use;
use super::pending::{BrokerRequest, News, Pending};
use super::{Adapter, tables};
use crate::context::{Context, Gravity};
use crate::handles::numbered;
use ::amqp091::DeliverPrefix;
use ::amqp091::method::*;
use base::id::QueueSeq;
use broker::access::{Access, AccessCache};
use broker::catalog::{Object, Op, QueueDefinition, Reason, Refusal, ReplyCode};
use broker::{
    Count, Credit, Events, Held, NewConsumer, Occurrence, Publisher, QueueCommand, REPLY_TO, Reply, Selector,
};
use message::record::Outcome;
use std::mem::discriminant;
use std::sync::Arc;

/// channel.open.
const OPEN_CHANNEL: MethodId = MethodId { class: 20, method: 10 };

/// RabbitMQ's words about a feature that its operator has denied.
const TRANSIENT_FORBIDDEN: &str = "Feature `transient_nonexcl_queues` is deprecated.\n\
    Its use is not permitted per the configuration (overriding the default, which is permitted):\n    \
    \"deprecated_features.permit.transient_nonexcl_queues = false\"\n\
    Its use will not be permitted by default in a future minor RabbitMQ version and the feature will be removed from a \
    future major RabbitMQ version; actual versions to be determined.";

fn text(bytes: &[u8]) -> Result<Box<str>, Refusal> {
    let name = str::from_utf8(bytes).map_err(|_| {
        let shown = String::from_utf8_lossy(bytes);
        // The machine lets no such name in.
        Refusal::precondition(Reason::Invalid(Object::Queue), format!("name '{shown}' is not valid UTF-8"))
    })?;
    Ok(name.into())
}

impl Adapter {
    pub(super) fn open_channel(&mut self, context: &mut Context<'_>, number: u16) {
        let token = self.requests.wait(number, OPEN_CHANNEL, false, BrokerRequest::OpenChannel);
        if !context.shard.ask_channel(context.port, token) {
            self.requests.give_up();
            self.add_channel(context, number, false);
        }
    }

    fn add_channel(&mut self, context: &mut Context<'_>, number: u16, is_counted: bool) {
        let Some(actor) = &self.actor else { return };
        let access = AccessCache::new(actor.clone());
        let handle = numbered(&mut self.next_channel, number);
        let publisher = Publisher::new(context.port, handle, access);
        let mut channel = Channel::new(number, publisher, context.settings.default_prefetch);
        channel.does_more = context.settings.stamps.is_some();
        self.channels.add(Channel { is_counted, ..channel });
        context.shard.tallies().channel_came();
        self.machine.channel_open_ok(number);
        let (port, name) = (context.port, &*self.peer.name);
        context.shard.announce(context.now, &Occurrence::ChannelOpened { port, name, channel: number });
    }

    /// A channel may have one consumer more.
    pub(super) fn check_consumers(&self, context: &Context<'_>, number: u16) -> Result<(), Refusal> {
        let Some(most) = context.settings.channel_consumers_max else { return Ok(()) };
        let theirs = self.consumers.iter().filter(|(_, consumer)| {
            consumer.channel == number && !consumer.is_getter() && !consumer.is_cancelled
        });
        if theirs.count() < most as usize {
            return Ok(());
        }
        let text = format!("reached maximum ({most}) of consumers per channel");
        Err(Refusal::new(ReplyCode::NotAllowed, Reason::LimitReached(Object::Consumer), text))
    }

    /// Methods that are no part of the protocol are for this node's own connections.
    pub(super) fn check_agent(&self, method: MethodId) -> Result<(), Refusal> {
        if self.peer.is_agent() {
            return Ok(());
        }
        let text = format!("method {{{},{}}} is for the node itself", method.class, method.method);
        Err(Refusal::not_served(text))
    }

    /// Where the operator has forbidden them: no queue that is neither durable nor exclusive is made.
    fn check_permitted(&self, context: &Context<'_>, declare: &QueueDeclare<'_>) -> Result<(), Refusal> {
        let is_other = declare.durable || declare.exclusive || declare.passive;
        if is_other || context.settings.permits_transient_queues {
            return Ok(());
        }
        let Some(actor) = &self.actor else { return Ok(()) };
        if context.shard.catalog().queue_by_name(actor.vhost, declare.queue).is_some() {
            return Ok(());
        }
        Err(Refusal::new(ReplyCode::InternalError, Reason::NotPermitted, TRANSIENT_FORBIDDEN))
    }

    pub(super) fn method(&mut self, context: &mut Context<'_>, number: u16, method: &Method<'_>) {
        // The commonest first.
        match method {
            Method::BasicAck(ack) => {
                let BasicAck { delivery_tag, multiple } = *ack;
                self.settle(context, number, delivery_tag, multiple, Outcome::Accepted, method.id());
            }
            Method::BasicNack(nack) => {
                let BasicNack { delivery_tag, multiple, requeue } = *nack;
                let outcome = if requeue { Outcome::Released } else { Outcome::Undeliverable };
                self.settle(context, number, delivery_tag, multiple, outcome, method.id());
            }
            Method::BasicReject(reject) => {
                let BasicReject { delivery_tag, requeue } = *reject;
                // A rejected message counts as a failed delivery, whether it goes back or dies; one that is nacked does not.
                let outcome = if requeue { Outcome::Failed } else { Outcome::Rejected };
                self.settle(context, number, delivery_tag, false, outcome, method.id());
            }
            _ => {
                self.pass_on_settled(context);
                // No answer is heard before those to earlier frames.
                self.tell_confirms();
                if let Err(refusal) = self.ask(context, number, method)
                    && !self.waits_to_look(context, number, method, &refusal)
                {
                    self.refuse(context, number, &refusal, method.id());
                }
            }
        }
    }

    fn request(
        &mut self,
        context: &mut Context<'_>,
        (channel, method): (u16, MethodId),
        nowait: bool,
        request: BrokerRequest,
        op: Op,
    ) {
        let token = self.requests.wait(channel, method, nowait, request);
        context.shard.request(context.now, context.port, token, op);
    }

    /// The name, or the channel's last queue where it is empty.
    fn queue_name(&mut self, number: u16, name: &[u8]) -> Result<Box<str>, Refusal> {
        if !name.is_empty() {
            return text(name);
        }
        let last = self.channels.get(number).map(|channel| channel.last_queue.clone()).unwrap_or_default();
        if last.is_empty() {
            let reason = Reason::NotFound(Object::Queue);
            return Err(Refusal::new(ReplyCode::NotFound, reason, "no previously declared queue"));
        }
        Ok(last)
    }

    pub(super) fn queue(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        access: Access,
        name: &[u8],
    ) -> Result<Arc<QueueDefinition>, Refusal> {
        let name = self.queue_name(number, name)?;
        let Some(channel) = self.channels.get(number) else {
            let reason = Reason::NotFound(Object::Channel);
            return Err(Refusal::new(ReplyCode::InternalError, reason, "no such channel"));
        };
        channel.publisher.access().queue(context.shard.catalog(), access, &name).cloned()
    }

    pub(super) fn ask(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        method: &Method<'_>,
    ) -> Result<(), Refusal> {
        let id = (number, method.id());
        match method {
            Method::ExchangeDeclare(declare) => {
                let op = Op::DeclareExchange {
                    name: text(declare.exchange)?,
                    kind: text(declare.kind)?,
                    passive: declare.passive,
                    durable: declare.durable,
                    auto_delete: declare.auto_delete,
                    internal: declare.internal,
                    arguments: tables::arguments(&declare.arguments),
                };
                self.request(context, id, declare.nowait, BrokerRequest::DeclareExchange, op);
            }
            Method::ExchangeDelete(delete) => {
                let op = Op::DeleteExchange { name: text(delete.exchange)?, if_unused: delete.if_unused };
                self.request(context, id, delete.nowait, BrokerRequest::DeleteExchange, op);
            }
            Method::ExchangeBind(bind) => {
                let op = Op::BindExchange {
                    source: text(bind.source)?,
                    destination: text(bind.destination)?,
                    key: text(bind.routing_key)?,
                    arguments: tables::arguments(&bind.arguments),
                };
                self.request(context, id, bind.nowait, BrokerRequest::BindExchange, op);
            }
            Method::ExchangeUnbind(unbind) => {
                let op = Op::UnbindExchange {
                    source: text(unbind.source)?,
                    destination: text(unbind.destination)?,
                    key: text(unbind.routing_key)?,
                    arguments: tables::arguments(&unbind.arguments),
                };
                self.request(context, id, unbind.nowait, BrokerRequest::UnbindExchange, op);
            }
            Method::QueueDeclare(declare) => self.declare_queue(context, id, declare)?,
            Method::QueueBind(bind) => {
                self.check_no_reply(context, number, bind.queue, Use::Bind)?;
                let queue = self.queue_name(number, bind.queue)?;
                let key = if bind.queue.is_empty() && bind.routing_key.is_empty() {
                    queue.clone()
                } else {
                    text(bind.routing_key)?
                };
                let op = Op::BindQueue {
                    queue,
                    exchange: text(bind.exchange)?,
                    key,
                    arguments: tables::arguments(&bind.arguments),
                };
                self.request(context, id, bind.nowait, BrokerRequest::BindQueue, op);
            }
            Method::QueueUnbind(unbind) => {
                self.check_no_reply(context, number, unbind.queue, Use::Bind)?;
                let queue = self.queue_name(number, unbind.queue)?;
                let key = if unbind.queue.is_empty() && unbind.routing_key.is_empty() {
                    queue.clone()
                } else {
                    text(unbind.routing_key)?
                };
                let op = Op::UnbindQueue {
                    queue,
                    exchange: text(unbind.exchange)?,
                    key,
                    arguments: tables::arguments(&unbind.arguments),
                };
                self.request(context, id, false, BrokerRequest::UnbindQueue, op);
            }
            Method::QueuePurge(purge) => {
                let queue = self.queue(context, number, Access::Read, purge.queue)?;
                let token = self.requests.wait(number, id.1, purge.nowait, BrokerRequest::Purge);
                self.command(context, &queue, QueueCommand::Purge { token });
            }
            Method::QueueDiscard(discard) => {
                self.check_agent(id.1)?;
                let queue = self.queue(context, number, Access::Read, discard.queue)?;
                let token = self.requests.wait(number, id.1, false, BrokerRequest::Purge);
                let position = QueueSeq(discard.position);
                self.command(context, &queue, QueueCommand::Discard { token, position });
            }
            Method::QueueSettle(settle) => self.settle_at(context, id, settle)?,
            Method::QueueDelete(delete) => self.delete_queue(context, id, delete)?,
            Method::BasicConsume(consume) => self.consume(context, id, consume)?,
            Method::BasicCancel(cancel) => self.cancel(context, id, cancel),
            Method::BasicGet(get) => {
                self.check_no_reply(context, number, get.queue, Use::Get)?;
                let queue = self.queue(context, number, Access::Read, get.queue)?;
                let handle = match self.getter(number, &queue) {
                    Some(handle) => handle,
                    None => self.add_consumer(&queue, number, Kind::Getter, false)?,
                };
                let token = self.requests.wait(
                    number,
                    id.1,
                    false,
                    BrokerRequest::Get { no_ack: get.no_ack, of: queue.queue_type },
                );
                let (settled, behind, by_node) = (get.no_ack, self.has_published, self.peer.is_agent());
                let get = QueueCommand::Get { token, handle, settled, behind, by_node };
                self.command(context, &queue, get);
            }
            Method::BasicPick(pick) => {
                self.check_agent(id.1)?;
                let queue = self.queue(context, number, Access::Read, pick.queue)?;
                let handle = match self.getter(number, &queue) {
                    Some(handle) => handle,
                    None => self.add_consumer(&queue, number, Kind::Getter, false)?,
                };
                let token = self.requests.wait(
                    number,
                    id.1,
                    false,
                    BrokerRequest::Get { no_ack: false, of: queue.queue_type },
                );
                let position = QueueSeq(pick.position);
                self.command(context, &queue, QueueCommand::Pick { token, handle, position });
            }
            Method::BasicQos(qos) => {
                if qos.prefetch_size != 0 {
                    let text = format!("prefetch_size!=0 ({})", qos.prefetch_size);
                    return Err(Refusal::not_served(text));
                }
                // Where it is not permitted `global` is answered like any other and the prefetch stays per consumer, as
                // RabbitMQ 4.3 does.
                if qos.global && context.settings.permits_global_qos {
                    self.share(context, number, qos.prefetch_count);
                } else if let Some(channel) = self.channels.get(number) {
                    channel.prefetch = qos.prefetch_count;
                    self.unshare(context, number);
                }
                self.machine.send(number, &BasicQosOk {});
            }
            Method::ConfirmSelect(select) => {
                let channel = self.channels.get(number);
                if channel.as_ref().is_some_and(|channel| channel.transaction.is_some()) {
                    let text = "cannot switch from tx to confirm mode";
                    return Err(Refusal::precondition(Reason::WrongState, text));
                }
                if let Some(channel) = channel.filter(|channel| channel.confirms.is_none()) {
                    let confirms = Confirms::new(channel.publisher.next_seq());
                    channel.confirms = Some(Box::new(confirms));
                }
                if !select.nowait {
                    self.machine.send(number, &ConfirmSelectOk {});
                }
            }
            Method::ChannelFlow(flow) if flow.active => {
                self.machine.send(number, &ChannelFlowOk { active: true });
            }
            Method::ChannelFlow(_) => {
                return Err(Refusal::not_served("active=false"));
            }
            Method::BasicRecover(BasicRecover { requeue: false })
            | Method::BasicRecoverAsync(BasicRecoverAsync { requeue: false }) => {
                return Err(Refusal::not_served("requeue=false"));
            }
            Method::BasicRecover(_) => {
                self.give_back(context, number);
                self.machine.send(number, &BasicRecoverOk {});
            }
            Method::BasicRecoverAsync(_) => self.give_back(context, number),
            Method::TxSelect(_) => self.select_transactions(number)?,
            Method::TxCommit(_) => self.commit(context, number, id.1)?,
            Method::TxRollback(_) => self.roll_back(context, number)?,
            Method::ConnectionUpdateSecret(update) => {
                let reason = String::from_utf8_lossy(update.reason);
                self.note(context, Gravity::Info, format!("secret updated by the client: {reason}"));
                // Nothing is judged by it: as with RabbitMQ's internal users, who keep the permissions they had.
                self.machine.send(0, &ConnectionUpdateSecretOk {});
            }
            Method::AccessRequest(_) => self.machine.send(number, &AccessRequestOk { ticket: 1 }),
            // Answers to the broker's own methods, and methods the machine has dealt with.
            _ => {}
        }
        Ok(())
    }

    pub(super) fn command(
        &mut self,
        context: &mut Context<'_>,
        queue: &QueueDefinition,
        command: QueueCommand,
    ) {
        context.shard.command(context.now, context.port, queue.log, queue.id, command);
    }

    fn declare_queue(
        &mut self,
        context: &mut Context<'_>,
        id: (u16, MethodId),
        declare: &QueueDeclare<'_>,
    ) -> Result<(), Refusal> {
        // Asked for passively, the empty name is a name that no queue has; the last queue is not meant.
        let name = text(declare.queue)?;
        if name.starts_with(REPLY_TO) && self.declare_reply(context, id, &name, declare.nowait)? {
            return Ok(());
        }
        self.check_permitted(context, declare)?;
        let op = Op::DeclareQueue {
            name,
            passive: declare.passive,
            // An exclusive queue is told to be transient over this protocol, even if a durable one was asked for.
            durable: declare.durable && !declare.exclusive,
            exclusive: declare.exclusive,
            auto_delete: declare.auto_delete,
            arguments: tables::arguments(&declare.arguments),
            random: context.shard.secret_bytes(),
        };
        self.request(context, id, declare.nowait, BrokerRequest::DeclareQueue, op);
        Ok(())
    }

    fn delete_queue(
        &mut self,
        context: &mut Context<'_>,
        (number, method): (u16, MethodId),
        delete: &QueueDelete<'_>,
    ) -> Result<(), Refusal> {
        let has_last = self.channels.get(number).is_some_and(|channel| !channel.last_queue.is_empty());
        let is_named = !delete.queue.is_empty() || has_last;
        let queue = match self.queue(context, number, Access::Configure, delete.queue) {
            Ok(queue) => queue,
            // Deleting a queue that is not there is as good as done.
            Err(refusal)
                if refusal.code == ReplyCode::NotFound && is_named && !self.may_look_again(context) =>
            {
                if !delete.nowait {
                    self.machine.send(number, &QueueDeleteOk { message_count: 0 });
                }
                return Ok(());
            }
            Err(refusal) => return Err(refusal),
        };
        let request = BrokerRequest::DeleteQueue { queue: queue.id, cancels: Vec::new() };
        let token = self.requests.wait(number, method, delete.nowait, request);
        let (if_unused, if_empty) = (delete.if_unused, delete.if_empty);
        self.command(context, &queue, QueueCommand::Delete { token, if_unused, if_empty });
        Ok(())
    }

    /// The tag of a consumer to be: the client's, or one made up; it must be new to the channel.
    pub(super) fn tag_for(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        wanted: &[u8],
    ) -> Result<Box<[u8]>, Refusal> {
        if wanted.is_empty() {
            let tag = broker::catalog::generated_name("amq.ctag-", &context.shard.secret_bytes());
            return Ok(tag.into_bytes().into());
        }
        if self.by_tag(number, wanted).is_some() {
            let tag = String::from_utf8_lossy(wanted);
            let text = format!("attempt to reuse consumer tag '{tag}'");
            return Err(Refusal::new(ReplyCode::NotAllowed, Reason::Exists(Object::Consumer), text));
        }
        Ok(wanted.into())
    }

    /// basic.consume-ok.
    pub(super) fn consuming(&mut self, channel: u16, handle: u32) {
        let prefix = self.prefix_of(handle).cloned();
        let tag = prefix.as_ref().map_or(&b""[..], |prefix| prefix.consumer_tag());
        self.machine.send(channel, &BasicConsumeOk { consumer_tag: tag });
    }

    fn consume(
        &mut self,
        context: &mut Context<'_>,
        (number, method): (u16, MethodId),
        consume: &BasicConsume<'_>,
    ) -> Result<(), Refusal> {
        if consume.queue == REPLY_TO.as_bytes() {
            return self.consume_replies(context, number, consume);
        }
        self.check_consumers(context, number)?;
        self.check_no_reply(context, number, consume.queue, Use::Consume)?;
        let queue = self.queue(context, number, Access::Read, consume.queue)?;
        if self.goes_to_consume(context, number, &queue, consume) {
            return Ok(());
        }
        let tag = self.tag_for(context, number, consume.consumer_tag)?;
        if queue.is_stream() {
            return self.consume_stream(context, (number, method), consume, &queue, &tag);
        }
        check_not_of_streams(consume, &queue)?;
        let selector = self.selector(context, consume, &queue)?;
        context.shard.check_filter(context.port, selector.as_ref().map_or(0, Selector::bytes))?;
        let priority = integer(consume, &queue, "x-priority")?;
        let timeout_ms = timeout(consume, &queue)?;
        let is_agent = self.peer.is_agent();
        let shown = if is_agent { tables::shown(&consume.arguments) } else { QueueSeq(0).into() };
        let browses = tables::browses(&consume.arguments, consume.exclusive, &queue)?.then_some(shown);
        let prefetch = self.channels.get(number).map_or(0, |channel| channel.prefetch);
        let first = self.check_shared(number, &queue)?.filter(|_| !consume.no_ack);
        let consumer = NewConsumer {
            credit: Credit::Prefetch(first.unwrap_or(prefetch.into())),
            settled: consume.no_ack,
            exclusive: consume.exclusive,
            priority: priority.map_or(0, |priority| priority.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
            browses,
            timeout_ms,
        };
        let prefix = DeliverPrefix::new(number, &tag);
        let tells = is_agent && tables::tells_positions(&consume.arguments);
        let kind = if tells { Kind::Telling(prefix) } else { Kind::Plain(prefix) };
        let arguments = tables::keep(context, &consume.arguments)?;
        let added = self.add_consumer(&queue, number, kind, consume.no_ack);
        let handle = added.inspect_err(|_| tables::give_back(context, arguments.as_deref()))?;
        if let Some(consumer) = self.consumers.get_mut(handle) {
            consumer.prefetch = prefetch;
            consumer.exclusive = consume.exclusive;
            consumer.arguments = arguments;
        }
        if let Some(first) = first {
            self.join(number, handle, first);
        }
        let news = context.shard.is_heard().then(|| {
            let arguments = tables::arguments(&consume.arguments);
            Box::new(News { exclusive: consume.exclusive, arguments })
        });
        let token =
            self.requests.wait(number, method, consume.nowait, BrokerRequest::Consume { handle, news });
        let command = match selector {
            None => QueueCommand::Consume { token, handle, consumer },
            Some(selector) => QueueCommand::Select { token, handle, consumer, selector },
        };
        self.command(context, &queue, command);
        if self.is_paused {
            self.command(context, &queue, QueueCommand::Pause { handle, paused: true });
        }
        Ok(())
    }

    fn cancel(
        &mut self,
        context: &mut Context<'_>,
        (number, method): (u16, MethodId),
        cancel: &BasicCancel<'_>,
    ) {
        let Some(handle) = self.by_tag(number, cancel.consumer_tag) else {
            // Cancelling a consumer that is not there is as good as done.
            if !cancel.nowait {
                self.machine.send(number, &BasicCancelOk { consumer_tag: cancel.consumer_tag });
            }
            return;
        };
        if self.consumers.get(handle).is_some_and(|consumer| consumer.is_reply()) {
            self.close_consumer(context, handle);
            if let Some(channel) = self.channels.get(number) {
                channel.reply = None;
            }
            if !cancel.nowait {
                self.machine.send(number, &BasicCancelOk { consumer_tag: cancel.consumer_tag });
            }
            return;
        }
        let tag = cancel.consumer_tag.into();
        let token = self.requests.wait(number, method, cancel.nowait, BrokerRequest::Cancel { handle, tag });
        let Some(at) = self.consumers.get(handle).map(|consumer| consumer.at) else { return };
        let command = QueueCommand::Cancel { token: Some(token), handle, held: Held::Kept };
        context.shard.command(context.now, context.port, at.log, at.queue, command);
    }

    /// The broker answered.
    pub(super) fn answered(&mut self, context: &mut Context<'_>, token: u32, reply: Result<Reply, Refusal>) {
        let Some(pending) = self.requests.take(token) else { return };
        let Pending { channel, method, nowait, request, .. } = *pending;
        let reply = match reply {
            Ok(reply) => reply,
            Err(refusal) => {
                match request {
                    BrokerRequest::Consume { handle, .. } => {
                        let gone = self.consumers.remove(handle);
                        tables::give_back(context, gone.and_then(|gone| gone.arguments).as_deref());
                        context.shard.forget_consumer(context.port, handle);
                    }
                    BrokerRequest::Open { .. } => context.shard.close_port(context.now, context.port),
                    _ => {}
                }
                return self.refuse(context, channel, &refusal, method);
            }
        };
        match request {
            BrokerRequest::Open { actor } => self.opened(context, actor),
            BrokerRequest::OpenChannel => self.add_channel(context, channel, true),
            BrokerRequest::LookAgain(bytes) => self.look_again(context, channel, method, &bytes),
            request => self.granted(context, channel, nowait, request, reply),
        }
    }

    fn granted(
        &mut self,
        context: &mut Context<'_>,
        channel: u16,
        nowait: bool,
        request: BrokerRequest,
        reply: Reply,
    ) {
        let count = |messages: u64| u32::try_from(messages).unwrap_or(u32::MAX);
        if let (BrokerRequest::DeclareQueue, Reply::Declared { queue, .. }) = (&request, &reply)
            && let Some(found) = self.channels.get(channel)
        {
            found.last_queue = queue.name.clone();
        }
        if let BrokerRequest::Consume { handle, news: Some(news) } = &request {
            self.announce_consumer(context, *handle, news);
        }
        if let BrokerRequest::Cancel { handle, .. } = request {
            self.announce_end(context, handle, None);
            self.drop_waiting(context, handle, true);
            if let Some(consumer) = self.consumers.get_mut(handle) {
                consumer.is_cancelled = true;
            }
            self.remove_if_idle(context, handle);
        }
        if nowait {
            if let BrokerRequest::DeleteQueue { cancels, .. } = request {
                cancels.iter().for_each(|prefix| self.tell_cancelled(channel, prefix));
            }
            return;
        }
        match (request, reply) {
            (BrokerRequest::DeclareExchange, _) => self.machine.send(channel, &ExchangeDeclareOk {}),
            (BrokerRequest::DeleteExchange, _) => self.machine.send(channel, &ExchangeDeleteOk {}),
            (BrokerRequest::BindExchange, _) => self.machine.send(channel, &ExchangeBindOk {}),
            (BrokerRequest::UnbindExchange, _) => self.machine.send(channel, &ExchangeUnbindOk {}),
            (BrokerRequest::BindQueue, _) => self.machine.send(channel, &QueueBindOk {}),
            (BrokerRequest::UnbindQueue, _) => self.machine.send(channel, &QueueUnbindOk {}),
            (BrokerRequest::DeclareQueue, Reply::Declared { queue, ready, consumers, .. }) => {
                let ok = QueueDeclareOk {
                    queue: queue.name.as_bytes(),
                    message_count: count(ready),
                    consumer_count: consumers,
                };
                self.machine.send(channel, &ok);
            }
            (BrokerRequest::Purge, Reply::Purged { messages }) => {
                self.machine.send(channel, &QueuePurgeOk { message_count: count(messages) });
            }
            (BrokerRequest::Settle, Reply::Settled { missing }) => self.settled_at(channel, &missing),
            (BrokerRequest::DeleteQueue { cancels, .. }, Reply::Deleted { messages }) => {
                self.machine.send(channel, &QueueDeleteOk { message_count: count(messages) });
                cancels.iter().for_each(|prefix| self.tell_cancelled(channel, prefix));
            }
            (BrokerRequest::Consume { handle, .. }, _) => self.consuming(channel, handle),
            (BrokerRequest::FindReply { name }, _) => self.say_declared_reply(channel, &name),
            (BrokerRequest::Cancel { tag, .. }, _) => {
                self.machine.send(channel, &BasicCancelOk { consumer_tag: &tag });
            }
            (BrokerRequest::Get { of, .. }, _) => {
                if let Some(channel) = self.channels.get(channel) {
                    channel.note(context, Some(of), Count::GetEmpty, 1);
                }
                self.machine.send(channel, &BasicGetEmpty { cluster_id: b"" });
            }
            (request, reply) => {
                // Not as they are: a message may be in them.
                panic!(
                    "{:?} of replies does not answer {:?} of requests",
                    discriminant(&reply),
                    discriminant(&request)
                )
            }
        }
    }

    /// A get took a message.
    pub(super) fn got(
        &mut self,
        context: &mut Context<'_>,
        token: u32,
        handle: u32,
        (memory, item): (u32, u32),
        ready: u64,
        events: &Events,
    ) {
        let Some(pending) = self.requests.take(token) else { return };
        let no_ack = matches!(pending.request, BrokerRequest::Get { no_ack: true, .. });
        let item = &events.items[item as usize];
        let handle = self.got_traced(context, handle, (memory, item), events);
        if let Some(getter) = self.consumers.get_mut(handle) {
            // Where it was cancelled with an owner of the queue before, it is not with this one.
            (getter.is_cancelled, getter.newest) = (false, u64::MAX);
        }
        self.send_got(context, pending.channel, handle, no_ack, (memory, item), ready, events);
    }
}

/// An argument of basic.consume that is a whole number of any width.
fn integer(
    consume: &BasicConsume<'_>,
    queue: &QueueDefinition,
    name: &'static str,
) -> Result<Option<i64>, Refusal> {
    let Some(value) = consume.arguments.get(name.as_bytes()) else { return Ok(None) };
    value.as_i64().map(Some).ok_or_else(|| {
        let (named, kind) = (queue.named(), tables::type_name(&value));
        Refusal::invalid_argument(name, &named, &format!(": \"expected integer, got {kind}\""))
    })
}

/// Arguments that readers of streams alone have. RabbitMQ asks for them in this order.
const OF_STREAMS: [&str; 3] = ["x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"];

/// A consumer that names a place in a queue that has none is told so, rather than served from wherever the queue is.
fn check_not_of_streams(consume: &BasicConsume<'_>, queue: &QueueDefinition) -> Result<(), Refusal> {
    let Some(name) = OF_STREAMS.iter().find(|name| consume.arguments.get(name.as_bytes()).is_some()) else {
        return Ok(());
    };
    let of_type = format!(" of queue type {}", queue.queue_type.module());
    Err(Refusal::invalid_argument(name, &queue.named(), &of_type))
}

/// How long a consumer may hold a message, milliseconds, if it says so: of quorum queues alone.
fn timeout(consume: &BasicConsume<'_>, queue: &QueueDefinition) -> Result<Option<u64>, Refusal> {
    let name = "x-consumer-timeout";
    let refuse = |what: &str| Err(Refusal::invalid_argument(name, &queue.named(), what));
    if !queue.is_quorum() {
        return match consume.arguments.get(name.as_bytes()) {
            Some(_) => refuse(" of queue type rabbit_classic_queue"),
            None => Ok(None),
        };
    }
    let Some(timeout_ms) = integer(consume, queue, name)? else { return Ok(None) };
    match u64::try_from(timeout_ms) {
        Ok(timeout_ms) => Ok(Some(timeout_ms)),
        Err(_) => refuse(&format!(": {{value_negative,{timeout_ms}}}")),
    }
}
