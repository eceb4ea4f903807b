//! The engine's way to other replicas: questions out, answers in.

use crate::engine::{
    Snapshot, TheirSnapshot, TheirVote, Types, from_append, from_candidacy, from_snapshot, from_transfer,
    to_appended, to_transferred, to_vote, to_voted,
};
use crate::entry::{EntryId, ReplicaId};
use crate::executor::Executor;
use crate::message::{Answer, Appended, Body, Message, Request};
use crate::runtime::Runtime;
use base::id::LogId;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{AnyError, AsyncRuntime, EmptyNode};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::oneshot;

/// Messages of all replicas of a shard.
#[derive(Debug)]
pub(crate) struct Post {
    /// To be sent.
    pub(crate) out: Vec<Message>,
    /// Questions without an answer.
    waiting: BTreeMap<u64, (LogId, ReplicaId, oneshot::Sender<Answer>)>,
    /// The number of the last question. The first is one of chance: an answer to a question before a restart is for nobody.
    last_call: u64,
}

impl Post {
    /// One without messages.
    pub(crate) fn new(executor: &Executor) -> Rc<RefCell<Post>> {
        Rc::new(RefCell::new(Post {
            out: Vec::new(),
            waiting: BTreeMap::new(),
            last_call: executor.bits() >> 1,
        }))
    }

    /// An answer came.
    pub(crate) fn answered(&mut self, log: LogId, from: ReplicaId, call: u64, answer: Answer) {
        let is_of = |asked: &(LogId, ReplicaId, _)| asked.0 == log && asked.1 == from;
        if self.waiting.get(&call).is_some_and(is_of)
            && let Some((_, _, waiter)) = self.waiting.remove(&call)
        {
            let _nobody_may_wait = waiter.send(answer);
        }
    }
}

/// Forgets a question that is given up.
struct Asked {
    post: Rc<RefCell<Post>>,
    call: u64,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.post.borrow_mut().waiting.remove(&self.call);
    }
}

/// The way from one replica to another.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) post: Rc<RefCell<Post>>,
    pub(crate) log: LogId,
    pub(crate) from: ReplicaId,
    pub(crate) to: ReplicaId,
    pub(crate) retry_ms: [u64; 3],
    pub(crate) answer_ms: u64,
}

impl Way {
    /// Asks; none: there is no answer, or not in time.
    async fn ask(&self, request: Request, within: Duration) -> Option<Answer> {
        let (waiter, answer) = oneshot::channel();
        let asked = {
            let mut post = self.post.borrow_mut();
            post.last_call += 1;
            let call = post.last_call;
            post.waiting.insert(call, (self.log, self.to, waiter));
            let Way { log, from, to, .. } = *self;
            post.out.push(Message { log, from, to, call, body: Body::Ask(request) });
            Asked { post: Rc::clone(&self.post), call }
        };
        let answer = Runtime::timeout(within, answer).await;
        drop(asked);
        answer.ok()?.ok()
    }
}

/// Whether a replica answers so to entries behind the first place, up to the last if there are any. The engine ends
/// over a conflict with nothing, and believes whatever is said to be on disk.
fn is_answer_to((before, last): (Option<EntryId>, Option<EntryId>), appended: Appended) -> bool {
    match appended {
        Appended::All | Appended::HigherVote(_) => true,
        Appended::Conflict => before.is_some(),
        Appended::UpTo(upto) => before <= upto && upto <= last.or(before),
    }
}

fn unreachable() -> Unreachable<Types> {
    Unreachable::new(&AnyError::error("no answer"))
}

fn no_answer() -> RPCError<Types> {
    RPCError::Unreachable(unreachable())
}

impl RaftNetworkFactory<Types> for Way {
    type Network = Way;

    async fn new_client(&mut self, to: ReplicaId, _node: &EmptyNode) -> Way {
        Way { to, ..self.clone() }
    }
}

impl RaftNetworkV2<Types> for Way {
    type SnapshotData = Snapshot;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        // The engine would have it in the time of a heartbeat, which a slow disk does not keep.
        let within = Duration::from_millis(self.answer_ms);
        let request = from_append(request);
        let places = (request.before, request.entries.last().map(|entry| entry.id));
        match self.ask(Request::Append(request), within).await {
            Some(Answer::Append(appended)) if is_answer_to(places, appended) => Ok(to_appended(appended)),
            _ => Err(no_answer()),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        match self.ask(Request::Vote(from_candidacy(&request)), option.hard_ttl()).await {
            Some(Answer::Vote(voted)) => Ok(to_voted(voted)),
            _ => Err(no_answer()),
        }
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        match self.ask(Request::PreVote(from_candidacy(&request)), option.hard_ttl()).await {
            Some(Answer::Vote(voted)) => Ok(to_voted(voted)),
            _ => Err(no_answer()),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        match self.ask(Request::Transfer(from_transfer(&request)), option.hard_ttl()).await {
            Some(Answer::Transfer(result)) => Ok(to_transferred(result)),
            _ => Err(no_answer()),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: TheirVote,
        snapshot: TheirSnapshot,
        cancel: impl Future<Output = ReplicationClosed> + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let request = Request::Install(from_snapshot(&vote, snapshot));
        let mut asked = pin!(self.ask(request, option.hard_ttl()));
        let mut cancel = pin!(cancel);
        let answer = std::future::poll_fn(|context| match cancel.as_mut().poll(context) {
            Poll::Ready(closed) => Poll::Ready(Err(StreamingError::Closed(closed))),
            Poll::Pending => asked.as_mut().poll(context).map(Ok),
        });
        match answer.await? {
            Some(Answer::Installed(vote)) => Ok(SnapshotResponse::new(to_vote(vote))),
            _ => Err(StreamingError::Unreachable(unreachable())),
        }
    }

    fn backoff(&self) -> Option<Backoff> {
        let [first, second, then] = self.retry_ms.map(Duration::from_millis);
        Some(Backoff::new([first, second].into_iter().chain(std::iter::repeat(then))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Vote;

    #[test]
    fn answers_to_other_questions_are_none() {
        let id = |index| Some(EntryId { term: 3, index });
        let check = |before, last, appended, expected| {
            assert_eq!(is_answer_to((before, last), appended), expected, "{before:?} {last:?} {appended:?}");
        };
        check(None, None, Appended::All, true);
        check(None, None, Appended::HigherVote(Vote::default()), true);
        check(None, id(4), Appended::Conflict, false);
        check(id(2), id(4), Appended::Conflict, true);
        check(id(2), None, Appended::Conflict, true);
        check(id(2), id(4), Appended::UpTo(id(1)), false);
        check(id(2), id(4), Appended::UpTo(id(2)), true);
        check(id(2), id(4), Appended::UpTo(id(4)), true);
        check(id(2), id(4), Appended::UpTo(id(5)), false);
        check(id(2), None, Appended::UpTo(id(3)), false);
        check(None, id(4), Appended::UpTo(None), true);
    }
}
