//! Going to the shard of the stream it publishes to, see [`crate::following`].
//!
//! A connection that is to go reads nothing further until it has gone, which it does when all that was published is confirmed.
//! One with subscriptions stays: the readers of a stream together share the work of sending it where they are spread.

use super::Adapter;
use crate::context::Context;
use base::id::ShardId;

impl Adapter {
    /// Nothing is here of it but itself and its publishers.
    fn is_light(&self) -> bool {
        let is_alone = !self.requests.is_waiting() && self.subscriptions.is_empty();
        is_alone && self.machine.is_open() && !self.is_over
    }

    /// A turn ends in which something it published was under way: after some of them it is seen, once, where to.
    #[cold]
    pub(super) fn look_for_home(&mut self, context: &Context<'_>) {
        if !self.is_light() || !self.roaming.is_due() {
            return;
        }
        let mut homes = self.publishers.logs().map(|log| context.shard.other_owner(log));
        let home = homes.next().flatten().filter(|to| homes.all(|home| home == Some(*to)));
        let following = context.settings.following.as_ref();
        self.goes_to = home.filter(|to| {
            context.shard.may_leave(context.port)
                && following.is_some_and(|following| following.has_room(*to))
        });
    }

    /// Where it is to go, once nothing of it is under way.
    pub(crate) fn goal(&self) -> Option<ShardId> {
        self.goes_to.filter(|_| self.is_light() && !self.publishers.is_waiting())
    }

    /// It leaves its shard, and hears of its streams where it comes.
    pub(crate) fn depart(&mut self, context: &mut Context<'_>) {
        for stream in self.watched.streams() {
            context.shard.unwatch_queue(context.port, stream.id, 0);
        }
    }

    /// It is at home at another shard from now on, by another port. Changes of its streams on the way it hears now.
    pub(crate) fn arrive(&mut self, context: &mut Context<'_>) {
        self.goes_to = None;
        self.rights.move_to(context.port);
        let mut gone = Vec::new();
        for stream in self.watched.streams() {
            context.shard.watch_queue(context.port, stream.id, 0);
            if context.shard.catalog().queue(stream.id).is_none() {
                gone.push(stream.id);
            }
        }
        gone.into_iter().for_each(|stream| self.stream_gone(context, stream));
    }
}
