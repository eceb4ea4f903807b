//! Senders whose queue is deleted, and messages that cannot be addressed.
//!
//! As in RabbitMQ a session hears of the end of the queues it has to do with: those it has sent to by their addresses,
//! and those it receives from. Then all its senders' links to them are detached. A sender that has not sent yet hears
//! nothing, and its messages are released.
//! Those queues are in the session's [`Watched`].

use super::Adapter;
use super::link::{End, Link};
use super::refused::{Refused, named};
use super::session::Session;
use super::watched::{Watched, watch};
use crate::context::{Context, Gravity};
use ::amqp10::{Error, LinkId, Outcome, SessionId, Transfer, condition};
use base::id::QueueId;
use message::amqp10::Map;

impl Adapter {
    /// A link was attached: a queue the session both sends to and receives from is one it hears of at once.
    pub(super) fn watch_shared(&mut self, context: &mut Context<'_>, id: SessionId, queue: QueueId) {
        let Some(name) = context.shard.catalog().queue(queue).map(|queue| queue.name.clone()) else { return };
        let consumers = &self.consumers;
        let Some(session) = self.sessions.get_mut(id) else { return };
        let is_source = |link: &Link| match link.end {
            End::Source { consumer, .. } => {
                consumers.get(consumer).and_then(|it| it.at).is_some_and(|at| at.queue == queue)
            }
            _ => false,
        };
        let Session { handle, links, watched, .. } = session;
        if links.iter().any(is_source) && links.iter().any(|link| link.sends_to(&name)) {
            watch(context, *handle, watched, queue, &name);
        }
    }

    /// A queue is deleted: the links that send to it are detached.
    pub(super) fn queue_deleted(&mut self, context: &mut Context<'_>, session: u32, queue: QueueId) {
        let Some(session) = self.sessions.of_publisher(session) else { return };
        let Some(Watched(list)) = session.watched.as_deref_mut() else { return };
        let Some(at) = list.iter().position(|(watched, _)| *watched == queue) else { return };
        let (_, name) = list.swap_remove(at);
        if list.is_empty() {
            session.watched = None;
        }
        let id = session.id;
        let links: Vec<LinkId> =
            session.links.iter().filter(|link| link.sends_to(&name)).map(|link| link.id).collect();
        for link in links {
            // Without a description, as RabbitMQ.
            let error = Error { description: None, ..Error::new(condition::RESOURCE_DELETED, "") };
            self.machine.detach(id, link, Some(error), true);
            self.drop_link(context, id, link);
        }
    }

    /// A link that sent to a queue is gone: when it was the last, the session no longer wants to hear of it.
    pub(super) fn unwatch(&mut self, context: &mut Context<'_>, id: SessionId, queue: &str) {
        let Some(session) = self.session(id) else { return };
        let Some(Watched(list)) = session.watched.as_deref_mut() else { return };
        if session.links.iter().any(|link| link.sends_to(queue)) {
            return;
        }
        for (queue, _) in list.extract_if(.., |(_, name)| **name == *queue) {
            context.shard.unwatch_queue(context.port, queue, session.handle);
        }
        if list.is_empty() {
            session.watched = None;
        }
    }

    /// The connection is gone.
    pub(super) fn unwatch_all(&mut self, context: &mut Context<'_>) {
        for session in self.sessions.iter_mut() {
            for (queue, _) in session.watched.take().into_iter().flat_map(|watched| watched.0) {
                context.shard.unwatch_queue(context.port, queue, session.handle);
            }
        }
    }

    /// The connection leaves its shard, and hears of the queues elsewhere.
    pub(super) fn watch_elsewhere(&mut self, context: &mut Context<'_>) {
        for session in self.sessions.iter() {
            for (queue, _) in session.watched.iter().flat_map(|watched| &watched.0) {
                context.shard.unwatch_queue(context.port, *queue, session.handle);
            }
        }
    }

    /// The connection has come to a shard: it hears of the queues there, and at once of those that were deleted meanwhile.
    pub(super) fn watch_here(&mut self, context: &mut Context<'_>) {
        let mut deleted = Vec::new();
        for session in self.sessions.iter() {
            for (queue, _) in session.watched.iter().flat_map(|watched| &watched.0) {
                match context.shard.catalog().queue(*queue) {
                    Some(_) => context.shard.watch_queue(context.port, *queue, session.handle),
                    None => deleted.push((session.handle, *queue)),
                }
            }
        }
        for (session, queue) in deleted {
            self.queue_deleted(context, session, queue);
        }
    }

    /// A message leads nowhere that could be told of as unroutable. A link of an address ends with it; over the anonymous
    /// terminus the message alone is rejected, or the link ends where rejecting cannot be told. Either names the message.
    #[cold]
    pub(super) fn unaddressed(
        &mut self,
        context: &mut Context<'_>,
        transfer: &Transfer<'_>,
        is_anonymous: bool,
        refused: &Refused,
    ) {
        if !is_anonymous {
            self.tell(transfer, &Outcome::Released);
            return self.end_link(context, transfer, refused);
        }
        if transfer.settled || !self.takes_rejected(transfer.session, transfer.link) {
            return self.end_anonymous(context, transfer, refused);
        }
        self.is_due = true;
        let info = named(transfer);
        let error = Error { info: Map::new(2, &info), ..Error::new(refused.condition, &refused.text) };
        self.tell(transfer, &Outcome::Rejected(Some(error)));
    }

    /// A link of the anonymous terminus ends with a message that cannot be rejected.
    pub(super) fn end_anonymous(
        &mut self,
        context: &mut Context<'_>,
        transfer: &Transfer<'_>,
        refused: &Refused,
    ) {
        let Refused { condition, text, .. } = refused;
        self.note(context, Gravity::Error, format!("a link ends: {condition}: {text}"));
        let info = named(transfer);
        let error = Error { info: Map::new(2, &info), ..Error::new(condition, text) };
        self.machine.detach(transfer.session, transfer.link, Some(error), true);
        self.drop_link(context, transfer.session, transfer.link);
    }
}
