//! The engine's types, and ours in its words.

use crate::entry::{Content, Entry, EntryId, Members, ReplicaId, Vote};
use crate::message::{
    Answer, Append, Appended, Candidacy, Install, SnapshotName, Transfer, TransferRefused, Voted,
};
use crate::runtime::Runtime;
use crate::settings::Settings;
use base::id::LogIndex;
use journal::Sealed;
use openraft::raft::responder::Responder;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest, VoteRequest,
    VoteResponse,
};
use openraft::type_config::alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf, VoteOf};
use openraft::vote::{RaftVote, leader_id_std};
use openraft::{
    Config, EmptyNode, EntryPayload, LogId, Membership, RaftTypeConfig, SnapshotPolicy, StepDownPolicy,
    StoredMembership,
};
use std::fmt;

/// The engine's view of us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Types;

impl RaftTypeConfig for Types {
    type D = Proposal;
    type R = ();
    type NodeId = ReplicaId;
    type Node = EmptyNode;
    type Term = u64;
    type LeaderId = leader_id_std::LeaderId<u64, ReplicaId>;
    type Vote = openraft::impls::Vote<Self::LeaderId>;
    type Payload = EntryPayload<Proposal, ReplicaId, EmptyNode>;
    type Entry = openraft::Entry<leader_id_std::CommittedLeaderId<u64>, Self::Payload>;
    type AsyncRuntime = Runtime;
    type Responder<T>
        = Respond<T>
    where
        T: 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

pub(crate) type TheirId = LogIdOf<Types>;
pub(crate) type TheirVote = VoteOf<Types>;
pub(crate) type TheirEntry = openraft::type_config::alias::EntryOf<Types>;
pub(crate) type TheirMembers = StoredMembershipOf<Types>;
pub(crate) type TheirMeta = SnapshotMetaOf<Types>;
pub(crate) type TheirSnapshot = SnapshotOf<Types, Snapshot>;

/// The data of an entry.
#[derive(Clone)]
pub(crate) struct Proposal {
    pub(crate) batch: Sealed,
    /// It is proposed here, and nobody has looked whether it follows on what is there.
    pub(crate) is_fresh: bool,
}

impl Proposal {
    /// One that is proposed here.
    pub(crate) fn new(batch: Sealed) -> Proposal {
        Proposal { batch, is_fresh: true }
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {}", self.batch.len, self.batch.base)
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A snapshot as the engine moves it about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Where the records behind it begin.
    pub(crate) end: LogIndex,
    /// See [`Install::manifest`].
    pub(crate) manifest: Vec<u8>,
}

/// Called with the result of a request.
pub(crate) struct Respond<T>(pub(crate) Box<dyn FnOnce(T)>);

impl<T: 'static> Responder<Types, T> for Respond<T> {
    fn on_complete(self, result: T) {
        (self.0)(result);
    }
}

/// The engine's settings: all that safety, times and sizes of messages hang on. Its channels and batches are of its own sizes.
pub(crate) fn config(settings: &Settings) -> Config {
    Config {
        cluster_name: String::new(),
        election_timeout_min: settings.election_ms.0,
        election_timeout_max: settings.election_ms.1,
        heartbeat_interval: settings.heartbeat_ms,
        heartbeat_min_interval: Some(settings.heartbeat_ms),
        install_snapshot_timeout: settings.install_ms,
        max_payload_entries: settings.message_entries_max,
        max_append_entries: Some(settings.message_entries_max),
        // Snapshots are made and entries let go when we say so.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: KEPT_FOR_EVER,
        purge_batch_size: 1,
        replication_lag_threshold: settings.lag_entries_max,
        removed_leader_step_down: StepDownPolicy::After(settings.election_ms.0),
        enable_pre_vote: Some(true),
        // A leader that restarts and lost what was not flushed would give one name to two entries.
        enable_leader_restore: Some(settings.restores_leaders),
        allow_log_reversion: Some(false),
        enable_tick: true,
        enable_heartbeat: true,
        enable_elect: true,
        ..Config::default()
    }
}

/// Entries kept behind a snapshot by the engine's own rule: all.
const KEPT_FOR_EVER: u64 = 1 << 48;

// ---- to the engine

pub(crate) fn to_id(id: EntryId) -> TheirId {
    LogId::new_term_index(id.term, id.index)
}

pub(crate) fn to_vote(vote: Vote) -> TheirVote {
    RaftVote::from_leader_id(
        leader_id_std::LeaderId { term: vote.term, voted_for: vote.candidate },
        vote.is_won,
    )
}

fn to_members(members: &Members) -> Membership<ReplicaId, EmptyNode> {
    // A default of nothing is no loss.
    Membership::new_with_defaults(members.voters.clone(), members.all())
}

pub(crate) fn to_entry(entry: &Entry) -> TheirEntry {
    let payload = match &entry.content {
        Content::Blank => EntryPayload::Blank,
        Content::Batch(batch) => EntryPayload::Normal(Proposal { batch: batch.clone(), is_fresh: false }),
        Content::Members(members) => EntryPayload::Membership(to_members(members)),
    };
    openraft::Entry { log_id: to_id(entry.id), payload }
}

pub(crate) fn to_stored_members(name: &SnapshotName) -> TheirMembers {
    StoredMembership::new(name.members_at.map(to_id), to_members(&name.members))
}

pub(crate) fn to_meta(name: &SnapshotName) -> TheirMeta {
    TheirMeta { last_log_id: name.last.map(to_id), last_membership: to_stored_members(name) }
}

pub(crate) fn to_append(append: Append) -> AppendEntriesRequest<Types> {
    AppendEntriesRequest {
        vote: to_vote(append.vote),
        prev_log_id: append.before.map(to_id),
        entries: append.entries.iter().map(to_entry).collect(),
        leader_commit: append.agreed.map(to_id),
    }
}

pub(crate) fn to_candidacy(candidacy: Candidacy) -> VoteRequest<Types> {
    let mut request = VoteRequest::new(to_vote(candidacy.vote), candidacy.last.map(to_id));
    request.leadership_transfer = candidacy.is_transfer;
    request
}

pub(crate) fn to_transfer(transfer: Transfer) -> TransferLeaderRequest<Types> {
    TransferLeaderRequest::new(to_vote(transfer.vote), transfer.to, transfer.last.map(to_id))
}

pub(crate) fn to_snapshot(install: Install) -> TheirSnapshot {
    let Install { snapshot, manifest, .. } = install;
    TheirSnapshot { meta: to_meta(&snapshot), snapshot: Snapshot { end: snapshot.end, manifest } }
}

pub(crate) fn to_appended(appended: Appended) -> AppendEntriesResponse<Types> {
    match appended {
        Appended::All => AppendEntriesResponse::Success,
        Appended::UpTo(last) => AppendEntriesResponse::PartialSuccess(last.map(to_id)),
        Appended::Conflict => AppendEntriesResponse::Conflict,
        Appended::HigherVote(vote) => AppendEntriesResponse::HigherVote(to_vote(vote)),
    }
}

pub(crate) fn to_voted(voted: Voted) -> VoteResponse<Types> {
    VoteResponse::new(to_vote(voted.vote), voted.last.map(to_id), voted.is_granted)
}

pub(crate) fn to_transferred(result: Result<(), TransferRefused>) -> Result<(), TransferLeaderError<Types>> {
    result.map_err(|refused| match refused {
        TransferRefused::VoteChanged { expected, actual } => {
            TransferLeaderError::VoteChanged { expected: to_vote(expected), actual: to_vote(actual) }
        }
        TransferRefused::NotFlushed { expected, actual } => {
            TransferLeaderError::LogNotFlushed { expected: expected.map(to_id), actual: actual.map(to_id) }
        }
    })
}

// ---- from the engine

pub(crate) fn from_id(id: TheirId) -> EntryId {
    EntryId { term: **id.committed_leader_id(), index: id.index }
}

pub(crate) fn from_vote(vote: &TheirVote) -> Vote {
    Vote { term: vote.leader_id.term, candidate: vote.leader_id.voted_for, is_won: vote.committed }
}

fn from_members(members: &Membership<ReplicaId, EmptyNode>) -> Members {
    Members { voters: members.get_joint_config().clone(), learners: members.learner_ids().collect() }
}

pub(crate) fn from_entry(entry: TheirEntry) -> Entry {
    let content = match entry.payload {
        EntryPayload::Blank => Content::Blank,
        EntryPayload::Normal(Proposal { batch, .. }) => Content::Batch(batch),
        EntryPayload::Membership(members) => Content::Members(from_members(&members)),
    };
    Entry { id: from_id(entry.log_id), content }
}

/// The name of a snapshot that ends at `end`.
pub(crate) fn from_meta(meta: &TheirMeta, end: LogIndex) -> SnapshotName {
    SnapshotName {
        last: meta.last_log_id.map(from_id),
        end,
        members: from_members(meta.last_membership.membership()),
        members_at: meta.last_membership.log_id().map(from_id),
    }
}

pub(crate) fn from_append(request: AppendEntriesRequest<Types>) -> Append {
    Append {
        vote: from_vote(&request.vote),
        before: request.prev_log_id.map(from_id),
        entries: request.entries.into_iter().map(from_entry).collect(),
        agreed: request.leader_commit.map(from_id),
    }
}

pub(crate) fn from_candidacy(request: &VoteRequest<Types>) -> Candidacy {
    Candidacy {
        vote: from_vote(&request.vote),
        last: request.last_log_id.map(from_id),
        is_transfer: request.leadership_transfer,
    }
}

pub(crate) fn from_transfer(request: &TransferLeaderRequest<Types>) -> Transfer {
    Transfer {
        vote: from_vote(request.from_leader()),
        to: *request.to_node_id(),
        last: request.last_log_id().copied().map(from_id),
    }
}

pub(crate) fn from_snapshot(vote: &TheirVote, snapshot: TheirSnapshot) -> Install {
    Install {
        vote: from_vote(vote),
        snapshot: from_meta(&snapshot.meta, snapshot.snapshot.end),
        manifest: snapshot.snapshot.manifest,
    }
}

pub(crate) fn from_appended(response: AppendEntriesResponse<Types>) -> Answer {
    Answer::Append(match response {
        AppendEntriesResponse::Success => Appended::All,
        AppendEntriesResponse::PartialSuccess(last) => Appended::UpTo(last.map(from_id)),
        AppendEntriesResponse::Conflict => Appended::Conflict,
        AppendEntriesResponse::HigherVote(vote) => Appended::HigherVote(from_vote(&vote)),
    })
}

pub(crate) fn from_voted(response: &VoteResponse<Types>) -> Answer {
    Answer::Vote(Voted {
        vote: from_vote(&response.vote),
        is_granted: response.vote_granted,
        last: response.last_log_id.map(from_id),
    })
}

pub(crate) fn from_transferred(result: Result<(), TransferLeaderError<Types>>) -> Answer {
    Answer::Transfer(result.map_err(|error| match error {
        TransferLeaderError::VoteChanged { expected, actual } => {
            TransferRefused::VoteChanged { expected: from_vote(&expected), actual: from_vote(&actual) }
        }
        TransferLeaderError::LogNotFlushed { expected, actual } => {
            TransferRefused::NotFlushed { expected: expected.map(from_id), actual: actual.map(from_id) }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_safety_needs_is_set() {
        let config = config(&Settings::default()).validate().unwrap();
        assert_eq!(config.enable_leader_restore, Some(false), "a leader that restarts is none");
        assert_eq!(config.enable_pre_vote, Some(true));
        assert_eq!(config.allow_log_reversion, Some(false));
        assert_eq!(config.snapshot_policy, SnapshotPolicy::Never);
        assert_eq!(config.max_in_snapshot_log_to_keep, KEPT_FOR_EVER);
    }
}
