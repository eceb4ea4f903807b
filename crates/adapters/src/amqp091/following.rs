//! Going to the shard of the queue it uses, see [`crate::following`].
//!
//! A connection that is to go reads nothing further, as one that waits for an answer. It goes when all that was published is
//! confirmed. A consumer it was asked for is opened when it has come.

use super::Adapter;
use super::parked::Parked;
use super::pending::BrokerRequest;
use crate::context::Context;
use crate::following::common_home;
use ::amqp091::method::{BasicConsume, Method, MethodId};
use base::id::ShardId;
use broker::catalog::QueueDefinition;

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
        let request = BrokerRequest::Go { to, consume: consume.map(Box::new) };
        self.requests.wait(channel, MethodId::NONE, false, request);
    }

    /// A turn ends in which it may have published: after some of them it is seen, once, where to.
    #[cold]
    pub(super) fn look_for_home(&mut self, context: &Context<'_>) {
        if self.requests.is_waiting() || !self.roaming.is_due() {
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
        let BrokerRequest::Go { to, .. } = self.requests.request()? else { return None };
        let is_still = self.channels.iter().all(|channel| channel.unconfirmed == 0 && !channel.is_due);
        (is_still && self.settled.is_empty() && self.is_light()).then_some(*to)
    }

    /// It is at home at another shard from now on, by another port.
    pub(crate) fn arrive(&mut self, context: &mut Context<'_>) {
        if let Some(actor) = &mut self.actor {
            actor.port = context.port;
        }
        self.channels.each(|channel| channel.publisher.move_to(context.port));
        let going = self.requests.take_if(|pending| matches!(pending.request, BrokerRequest::Go { .. }));
        if let Some(pending) = going
            && let BrokerRequest::Go { consume: Some(parked), .. } = pending.request
        {
            self.method(context, parked.channel, &Method::BasicConsume(parked.consume()));
        }
    }
}
