//! Going to the shard of the queue it uses, see [`crate::following`].
//!
//! A connection that is to go reads nothing further, as one that waits for an answer. It goes when all that was sent has its
//! outcome. A receiver that was attached gets its consumer when the connection has come.

use super::Adapter;
use super::pending::{Going, Waiting};
use super::receiving::Receiving;
use super::refused::Refused;
use crate::context::Context;
use crate::following::common_home;
use ::amqp10::{LinkId, Role, SessionId};
use base::id::ShardId;
use broker::catalog::QueueDefinition;

impl Adapter {
    fn may_go(&self, context: &Context<'_>, to: ShardId) -> bool {
        let following = context.settings.following.as_ref();
        self.is_light()
            && context.shard.may_leave(context.port)
            && following.is_some_and(|following| following.has_room(to))
    }

    /// Nothing is here of it but itself and messages that wait for their outcome.
    fn is_light(&self) -> bool {
        self.consumers.iter().next().is_none()
            && self.nodes.is_none()
            && self.transactions.is_none()
            && self.machine.is_open()
    }

    fn park(&mut self, at: (SessionId, LinkId), to: ShardId, consume: Option<(Box<str>, Receiving)>) {
        self.roaming.end();
        let waiting = Waiting::Go(Going { to, consume });
        // No answer has this token.
        self.requests.wait(0, at, waiting);
    }

    /// A turn ends in which it may have published: after some of them it is seen, once, where to.
    #[cold]
    pub(super) fn look_for_home(&mut self, context: &Context<'_>) {
        if self.requests.is_waiting() || !self.roaming.is_due() {
            return;
        }
        let home = {
            let publishers = self.sessions.iter().map(|session| &session.publisher);
            common_home(context.shard, publishers)
        };
        if let Some(to) = home.filter(|to| self.may_go(context, *to)) {
            self.park((SessionId::default(), LinkId(u16::MAX)), to, None);
        }
    }

    /// It does not go: it must not wait for that.
    #[cold]
    pub(super) fn stay(&mut self) {
        self.roaming.end();
        self.requests.take_if(|pending| matches!(pending.waiting, Waiting::Go(_)));
    }

    /// A receiver is attached; answers `receiving`, unless it is to wait until the connection is at the queue's shard.
    pub(super) fn goes_to_consume(
        &mut self,
        context: &Context<'_>,
        at: (SessionId, LinkId),
        queue: &QueueDefinition,
        receiving: Receiving,
    ) -> Option<Receiving> {
        let to = context.shard.other_owner(queue.log).filter(|_| self.roaming.may_go());
        let Some(to) = to.filter(|to| self.may_go(context, *to)) else { return Some(receiving) };
        self.park(at, to, Some((queue.name.clone(), receiving)));
        None
    }

    /// Where it is to go, once nothing of it is under way.
    pub(crate) fn goal(&self) -> Option<ShardId> {
        let Waiting::Go(going) = self.requests.waiting()? else { return None };
        let is_still = self.sessions.iter().all(|session| session.unconfirmed.is_empty());
        (is_still && self.is_light()).then_some(going.to)
    }

    /// It leaves its shard.
    pub(crate) fn depart(&mut self, context: &mut Context<'_>) {
        self.watch_elsewhere(context);
    }

    /// It is at home at another shard from now on, by another port.
    pub(crate) fn arrive(&mut self, context: &mut Context<'_>) {
        if let Some(actor) = &mut self.actor {
            actor.port = context.port;
        }
        self.sessions.iter_mut().for_each(|session| session.publisher.move_to(context.port));
        self.watch_here(context);
        let Some(pending) = self.requests.take_if(|pending| matches!(pending.waiting, Waiting::Go(_))) else {
            return;
        };
        let at = (pending.session, pending.link);
        if let Waiting::Go(Going { consume: Some((name, receiving)), .. }) = pending.waiting
            && let Some(session) = self.session(at.0)
        {
            // It may have been deleted on the way.
            let access = session.publisher.access();
            let queue = context.shard.catalog().open_queue(access.actor(), &name).cloned();
            let opened = queue
                .map_err(Refused::at_source)
                .and_then(|queue| self.consume(context, at.0, at.1, &queue, receiving));
            if let Err(refused) = opened {
                self.refuse(context, at, "", Role::Sender, &refused);
            }
        }
    }
}
