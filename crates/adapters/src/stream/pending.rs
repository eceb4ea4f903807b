//! The request of a client that waits for the broker, one at a time: nothing further is read until it is answered.

use crate::tokens::Tokens;
use broker::Reply;
use broker::catalog::{Actor, QueueDefinition, Refusal, ReplyCode};
use std::sync::Arc;

/// A request that waits for the broker.
#[derive(Debug)]
pub(super) struct Pending {
    /// The number that the answer carries.
    pub(super) correlation_id: u32,
    /// The tokens that are out: `tokens` of them, from this on.
    first_token: u32,
    tokens: u32,
    /// How many of them are not answered.
    left: u32,
    /// The refusal, of several the one of the request that came first; and its place among them.
    pub(super) failed: Option<(u32, Refusal)>,
    pub(super) request: BrokerRequest,
    /// Streams that went by it, to be told of behind the answer.
    pub(super) gone: Vec<Arc<QueueDefinition>>,
}

/// A request to the broker, with the values that its answer to the client needs.
#[derive(Debug)]
pub(super) enum BrokerRequest {
    /// No shard was asked: the password of a login, or of the renewal of one, is compared elsewhere.
    LogIn {
        mechanism: Box<str>,
    },
    Open {
        actor: Actor,
    },
    Create,
    Delete,
    Subscribe {
        handle: u32,
    },
    Sequence,
    QueryOffset,
    Stats,
    Resolve,
    MakeSuperStream,
    DeleteSuperStream,
}

/// The request under way, and the tokens that the broker's answers carry.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pending: Option<Box<Pending>>,
    tokens: Tokens,
}

impl Requests {
    /// A request waits for its answer.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.pending.is_some()
    }

    /// The next token.
    pub(super) fn token(&mut self) -> u32 {
        self.tokens.next()
    }

    /// Waits for answers to so many tokens from the next one on: that one.
    pub(super) fn wait(&mut self, correlation_id: u32, tokens: u32, request: BrokerRequest) -> u32 {
        let first_token = self.tokens.next_of(tokens);
        let gone = self.pending.take().map(|pending| pending.gone).unwrap_or_default();
        let left = tokens;
        let pending = Pending { correlation_id, first_token, tokens, left, failed: None, request, gone };
        self.pending = Some(Box::new(pending));
        first_token
    }

    /// The request under way is for the subscription of this handle.
    pub(super) fn name_subscription(&mut self, new: u32) {
        if let Some(Pending { request: BrokerRequest::Subscribe { handle }, .. }) =
            self.pending.as_deref_mut()
        {
            *handle = new;
        }
    }

    /// The login that waits, and the number that its answer carries.
    pub(super) fn take_login(&mut self) -> Option<(u32, Box<str>)> {
        let is_login = |pending: &mut Box<Pending>| matches!(pending.request, BrokerRequest::LogIn { .. });
        let Pending { correlation_id, request, .. } = *self.pending.take_if(is_login)?;
        let BrokerRequest::LogIn { mechanism } = request else { return None };
        Some((correlation_id, mechanism))
    }

    /// No answer is waited for any more.
    pub(super) fn give_up(&mut self) {
        self.pending = None;
    }

    /// A stream is gone. If streams are to go by the request under way, it is kept for behind the answer; else it is given back.
    pub(super) fn keep_gone(&mut self, stream: Arc<QueueDefinition>) -> Option<Arc<QueueDefinition>> {
        let deletes = |request: &BrokerRequest| {
            matches!(request, BrokerRequest::Delete | BrokerRequest::DeleteSuperStream)
        };
        match self.pending.as_deref_mut().filter(|pending| deletes(&pending.request)) {
            Some(pending) => {
                pending.gone.push(stream);
                None
            }
            None => Some(stream),
        }
    }

    /// The broker has answered a token: the request with the answer to its last token, when all are answered.
    pub(super) fn answered(
        &mut self,
        token: u32,
        reply: Result<Reply, Refusal>,
    ) -> Option<(Pending, Result<Reply, Refusal>)> {
        let pending = self.pending.as_deref_mut()?;
        let at = token.wrapping_sub(pending.first_token);
        if at >= pending.tokens {
            return None;
        }
        pending.left -= 1;
        let is_last = pending.left == 0;
        let reply = match (reply, &pending.request) {
            // Partitions that others deleted meanwhile are gone as was asked.
            (Err(refusal), BrokerRequest::DeleteSuperStream) if refusal.code == ReplyCode::NotFound => {
                Ok(Reply::Unchanged)
            }
            (reply, _) => reply,
        };
        // Answers come in any order: the client's answer must not depend on it.
        if let Err(refusal) = &reply
            && pending.failed.as_ref().is_none_or(|(first, _)| at < *first)
        {
            pending.failed = Some((at, refusal.clone()));
        }
        let pending = self.pending.take_if(|_| is_last)?;
        Some((*pending, reply))
    }
}
