//! Going to the shard of the queue it uses, see [`crate::following`].
//!
//! A connection that is to go reads nothing further, as one that waits for an answer. It goes when all that was published is
//! confirmed. A consumer it was asked for is opened when it has come.

use super::Adapter;
use super::methods::BrokerRequest;
use crate::context::Context;
use crate::following::common_home;
use ::amqp091::method::{BasicConsume, Method, MethodId};
use base::id::ShardId;
use broker::catalog::QueueDefinition;
use message::amqp091::Table;

/// A consumer that is opened elsewhere.
#[derive(Debug)]
pub(super) struct Parked {
    channel: u16,
    queue: Box<[u8]>,
    consumer_tag: Box<[u8]>,
    arguments: Box<[u8]>,
    no_local: bool,
    no_ack: bool,
    exclusive: bool,
    nowait: bool,
}

impl Parked {
    fn new(channel: u16, consume: &BasicConsume<'_>) -> Parked {
        let BasicConsume { ticket: _, queue, consumer_tag, no_local, no_ack, exclusive, nowait, arguments } =
            *consume;
        let (queue, consumer_tag) = (queue.into(), consumer_tag.into());
        let arguments = arguments.bytes().into();
        Parked { channel, queue, consumer_tag, arguments, no_local, no_ack, exclusive, nowait }
    }

    fn consume(&self) -> BasicConsume<'_> {
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

impl Adapter {
    /// Nothing is here of it but itself and publishes that wait to be confirmed.
    fn is_light(&self) -> bool {
        let is_light = |channel: &super::channel::Channel| {
            channel.transaction.is_none() && channel.reply.is_none() && channel.unacked.len() == 0
        };
        let is_alone = self.consumers.iter().next().is_none() && !self.deals;
        is_alone && self.machine.is_open() && self.channels.iter().all(is_light)
    }

    fn may_go(&self, context: &Context<'_>, to: ShardId) -> bool {
        let following = context.settings.following.as_ref();
        self.is_light()
            && context.shard.may_leave(context.port)
            && following.is_some_and(|following| following.has_room(to))
    }

    fn park(&mut self, to: ShardId, consume: Option<Parked>) {
        self.roaming.end();
        let channel = consume.as_ref().map_or(0, |parked| parked.channel);
        self.wait(channel, MethodId::NONE, false, BrokerRequest::Go { to, consume: consume.map(Box::new) });
    }

    /// A turn ends in which it may have published: after some of them it is seen, once, where to.
    #[cold]
    pub(super) fn look_for_home(&mut self, context: &Context<'_>) {
        if self.pending.is_some() || !self.roaming.is_due() {
            return;
        }
        let home = {
            let publishers = self.channels.iter().map(|channel| &channel.publisher);
            common_home(context.shard, publishers)
        };
        if let Some(to) = home.filter(|to| self.may_go(context, *to)) {
            self.park(to, None);
        }
    }

    /// A consumer is asked for; true: it is opened once the connection is at the queue's shard.
    pub(super) fn goes_to_consume(
        &mut self,
        context: &Context<'_>,
        channel: u16,
        queue: &QueueDefinition,
        consume: &BasicConsume<'_>,
    ) -> bool {
        let to = context.shard.other_owner(queue.log).filter(|_| self.roaming.may_go());
        let Some(to) = to.filter(|to| self.may_go(context, *to)) else { return false };
        self.park(to, Some(Parked::new(channel, consume)));
        true
    }

    /// Where it is to go, once nothing of it is under way.
    pub(crate) fn goal(&self) -> Option<ShardId> {
        let BrokerRequest::Go { to, .. } = &self.pending.as_ref()?.request else { return None };
        let is_still = self.channels.iter().all(|channel| channel.unconfirmed == 0 && !channel.is_due);
        (is_still && self.settling.is_none() && self.is_light()).then_some(*to)
    }

    /// It is at home at another shard from now on, by another port.
    pub(crate) fn arrive(&mut self, context: &mut Context<'_>) {
        if let Some(actor) = &mut self.actor {
            actor.port = context.port;
        }
        self.channels.each(|channel| channel.publisher.move_to(context.port));
        if let Some(pending) =
            self.pending.take_if(|pending| matches!(pending.request, BrokerRequest::Go { .. }))
            && let BrokerRequest::Go { consume: Some(parked), .. } = pending.request
        {
            self.method(context, parked.channel, &Method::BasicConsume(parked.consume()));
        }
    }
}
