//! The attach or request of a peer that waits for the broker, one at a time: nothing further is read until it is answered.

use super::receiving::Receiving;
use ::amqp10::{LinkId, SenderSettleMode, SessionId};
use base::id::ShardId;
use broker::catalog::{Actor, QueueDefinition};
use std::sync::Arc;

/// Something a peer said on a link that waits for the broker's answer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) token: u32,
    pub(super) session: SessionId,
    pub(super) link: LinkId,
    pub(super) waiting: Waiting,
}

/// The thing that waits.
#[derive(Debug)]
pub(super) enum Waiting {
    /// An attach, for its consumer.
    Consume(Receiving),
    /// A request to the management node.
    Request(Asked),
    /// An attach, for the queue that is made for it.
    Queue(Making),
    /// An attach in bytes, for a copy of the catalog that is new enough.
    LookAgain(Box<[u8]>),
    /// An attach by an address of the first version.
    Old(Step),
    /// A sender's attach, for news of the reply consumer it would send to.
    Reply { name: Box<str>, sender_settle_mode: SenderSettleMode },
    /// The login by this mechanism: the password is compared elsewhere, and no shard was asked.
    LogIn(Box<str>),
    /// The open of a connection of this user: whether one more may be open was asked.
    Open(Actor),
    /// The connection, for the moment at which it can go to another shard; nobody was asked.
    Go(Going),
}

/// A request to the management node that waits for the broker, with the form of its answer.
#[derive(Debug)]
pub(super) struct Asked {
    /// The encoding of the request's message-id.
    pub(super) correlation: Box<[u8]>,
    pub(super) what: Asking,
}

/// The thing that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    DeclareQueue,
    GetQueue,
    DeleteQueue,
    PurgeQueue,
    /// Whether the volatile queue of this name is there, to describe it.
    GetReply(Box<str>),
    /// The same, to purge it, which has nothing to do.
    PurgeReply,
    DeclareExchange,
    DeleteExchange,
    Bind,
    Unbind,
}

/// A link that waits for its queue to be there.
#[derive(Debug)]
pub(super) enum Making {
    Source(Receiving),
    Target { sender_settle_mode: SenderSettleMode },
}

/// The next step when the broker has answered.
#[derive(Debug)]
pub(super) enum Step {
    /// A sender's queue is made; the link can be attached.
    Send(Sending),
    /// A receiver's queue is made; it is to be consumed from.
    Receive(Receiving),
    /// A receiver's queue is made; it is to be bound to this exchange with this key.
    Bind(Receiving, Box<str>, Box<str>),
    /// It is bound.
    Bound(Receiving, Arc<QueueDefinition>),
}

/// A sender's attach, while its queue is not there yet.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) name: Box<str>,
    /// Its termini as they are repeated, in bytes.
    pub(super) source: Box<[u8]>,
    pub(super) target: Box<[u8]>,
    pub(super) sender_settle_mode: SenderSettleMode,
    pub(super) queue: Box<str>,
}

/// Where a connection goes, and the consumer it opens there.
#[derive(Debug)]
pub(super) struct Going {
    pub(super) to: ShardId,
    pub(super) consume: Option<(Box<str>, Receiving)>,
}

/// The request under way.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pending: Option<Box<Pending>>,
}

impl Requests {
    /// An answer is waited for.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.pending.is_some()
    }

    /// The answer with this token is waited for.
    pub(super) fn wait(&mut self, token: u32, (session, link): (SessionId, LinkId), waiting: Waiting) {
        self.pending = Some(Box::new(Pending { token, session, link, waiting }));
    }

    /// The thing that waits.
    pub(super) fn waiting(&self) -> Option<&Waiting> {
        self.pending.as_ref().map(|pending| &pending.waiting)
    }

    /// The request that this token answers.
    pub(super) fn take(&mut self, token: u32) -> Option<Box<Pending>> {
        self.take_if(|pending| pending.token == token)
    }

    /// The request, if it is such a one.
    pub(super) fn take_if(&mut self, is_meant: impl FnOnce(&Pending) -> bool) -> Option<Box<Pending>> {
        self.pending.take_if(|pending| is_meant(pending))
    }
}
