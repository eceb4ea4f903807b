//! The method of a client that waits for the broker, one at a time: nothing further is read until it is answered.

use super::parked::Parked;
use crate::tokens::Tokens;
use ::amqp091::DeliverPrefix;
use ::amqp091::method::MethodId;
use base::id::{QueueId, ShardId};
use broker::catalog::{Actor, QueueType};
use routing::Arguments;

/// A request to the broker without an answer yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) token: u32,
    pub(super) channel: u16,
    /// The method, for a refusal.
    pub(super) method: MethodId,
    pub(super) nowait: bool,
    pub(super) request: BrokerRequest,
}

/// A request to the broker, with the values that its answer to the client needs.
#[derive(Debug)]
pub(super) enum BrokerRequest {
    DeclareExchange,
    DeleteExchange,
    BindExchange,
    UnbindExchange,
    DeclareQueue,
    BindQueue,
    UnbindQueue,
    Purge,
    Settle,
    /// `cancels`: of this channel's consumers that went with the queue; told after the answer, as RabbitMQ does: a
    /// client may have ended them on hearing it.
    DeleteQueue {
        queue: QueueId,
        cancels: Vec<DeliverPrefix>,
    },
    Consume {
        handle: u32,
        /// The event that announces it, if somebody hears.
        news: Option<Box<News>>,
    },
    Cancel {
        handle: u32,
        tag: Box<[u8]>,
    },
    Get {
        no_ack: bool,
        /// The queue's type.
        of: QueueType,
    },
    Open {
        actor: Actor,
    },
    OpenChannel,
    FindReply {
        name: Box<str>,
    },
    Commit {
        /// All of it is made, and waits to be safe; else the rest is for later turns.
        is_made: bool,
    },
    /// Whether the copy of the catalog is new enough to say that a queue is not there: the method in bytes, to be looked at again.
    LookAgain(Box<[u8]>),
    /// No shard was asked: the password is compared elsewhere.
    LogIn {
        mechanism: Box<str>,
        wants_close: bool,
    },
    /// Nobody was asked: the connection goes to another shard as soon as it can.
    Go {
        to: ShardId,
        /// The basic.consume it sends first when it is there.
        consume: Option<Box<Parked>>,
    },
}

/// The part of a consumer's event that is not kept with the consumer.
#[derive(Debug)]
pub(super) struct News {
    pub(super) exclusive: bool,
    pub(super) arguments: Arguments,
}

/// The request under way, and the tokens that the broker's answers carry.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pending: Option<Box<Pending>>,
    tokens: Tokens,
}

impl Requests {
    /// An answer is waited for.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.pending.is_some()
    }

    /// The request whose answer is waited for.
    pub(super) fn request(&self) -> Option<&BrokerRequest> {
        self.pending.as_ref().map(|pending| &pending.request)
    }

    /// Leaves word that the broker's answer is awaited: the token it is to carry.
    pub(super) fn wait(
        &mut self,
        channel: u16,
        method: MethodId,
        nowait: bool,
        request: BrokerRequest,
    ) -> u32 {
        let token = self.tokens.next();
        self.pending = Some(Box::new(Pending { token, channel, method, nowait, request }));
        token
    }

    /// A channel's commit is under way.
    pub(super) fn is_committing(&self, channel: u16) -> bool {
        self.request_of(channel).is_some_and(|request| matches!(request, BrokerRequest::Commit { .. }))
    }

    /// A channel's commit is made, and waits to be safe.
    pub(super) fn has_made_commit(&self, channel: u16) -> bool {
        let is_made = |request: &BrokerRequest| matches!(request, BrokerRequest::Commit { is_made: true });
        self.request_of(channel).is_some_and(is_made)
    }

    /// A channel's commit is made.
    pub(super) fn note_made(&mut self, channel: u16) {
        if let Some(Pending { channel: of, request: BrokerRequest::Commit { is_made }, .. }) =
            self.pending.as_deref_mut()
            && *of == channel
        {
            *is_made = true;
        }
    }

    /// A commit of which the rest is to be made: its channel, and the method for a refusal.
    pub(super) fn unfinished(&self) -> Option<(u16, MethodId)> {
        let is_meant =
            |pending: &&Pending| matches!(pending.request, BrokerRequest::Commit { is_made: false });
        self.pending.as_deref().filter(is_meant).map(|pending| (pending.channel, pending.method))
    }

    /// A channel waits for a message that it asked for.
    pub(super) fn is_getting(&self, channel: u16) -> bool {
        self.request_of(channel).is_some_and(|request| matches!(request, BrokerRequest::Get { .. }))
    }

    fn request_of(&self, channel: u16) -> Option<&BrokerRequest> {
        let pending = self.pending.as_ref().filter(|pending| pending.channel == channel)?;
        Some(&pending.request)
    }

    /// The request that this token answers.
    pub(super) fn take(&mut self, token: u32) -> Option<Box<Pending>> {
        self.take_if(|pending| pending.token == token)
    }

    /// The request, if it is such a one.
    pub(super) fn take_if(&mut self, is_meant: impl FnOnce(&Pending) -> bool) -> Option<Box<Pending>> {
        self.pending.take_if(|pending| is_meant(pending))
    }

    /// No answer is waited for any more.
    pub(super) fn give_up(&mut self) {
        self.pending = None;
    }

    /// A channel is gone, and its request with it.
    pub(super) fn drop_channel(&mut self, channel: u16) {
        self.take_if(|pending| pending.channel == channel);
    }

    /// A consumer of the channel went with its queue. If that is deleted by the request under way, the prefix is kept for behind the
    /// answer; else it is given back.
    pub(super) fn keep_cancelled(
        &mut self,
        number: u16,
        of: QueueId,
        prefix: DeliverPrefix,
    ) -> Option<DeliverPrefix> {
        match self.pending.as_deref_mut() {
            Some(Pending { channel, request: BrokerRequest::DeleteQueue { queue, cancels }, .. })
                if (*channel, *queue) == (number, of) =>
            {
                cancels.push(prefix);
                None
            }
            _ => Some(prefix),
        }
    }
}
