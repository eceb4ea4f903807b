//! Messages between replicas of a log.

use crate::entry::{Content, Entry, EntryId, Members, ReplicaId, Vote};
use base::id::{LogId, LogIndex};

/// A word of one replica to another. It may be lost, come late, come twice, or overtake another.
#[derive(Clone, Debug)]
pub struct Message {
    /// The log that both are replicas of.
    pub log: LogId,
    /// Its sender.
    pub from: ReplicaId,
    /// To whom.
    pub to: ReplicaId,
    /// Names the question, in the words of who asked.
    pub call: u64,
    /// Its content.
    pub body: Body,
}

/// See [`Message`].
#[derive(Clone, Debug)]
pub enum Body {
    /// A question.
    Ask(Request),
    /// The answer to one.
    Answer(Answer),
}

/// Questions.
#[derive(Clone, Debug)]
pub enum Request {
    /// Take these entries, behind the one named, and know how far all is agreed on. Without entries: the leader lives.
    Append(Append),
    /// Promise me your vote.
    Vote(Candidacy),
    /// Would you, if I asked? Nothing is promised.
    PreVote(Candidacy),
    /// Lead in my place.
    Transfer(Transfer),
    /// The log up to here is that of a snapshot: begin with it.
    Install(Install),
}

/// See [`Request::Append`].
#[derive(Clone, Debug)]
pub struct Append {
    /// The vote that the leader leads by.
    pub vote: Vote,
    /// The entry before the first one; none: they are the first of the log.
    pub before: Option<EntryId>,
    /// Entries, in order.
    pub entries: Vec<Entry>,
    /// All up to this one is agreed on.
    pub agreed: Option<EntryId>,
}

/// Whether a replica asks this of another by what it knows: with its own vote, and of nothing from a later term than
/// that. The engine takes the rest for impossible, and ends with the node.
pub(crate) fn is_sound(from: ReplicaId, request: &Request) -> bool {
    let is_past = |vote: &Vote, id: Option<EntryId>| id.is_none_or(|id| id.term <= vote.term);
    let (vote, is_won, is_past) = match request {
        Request::Append(append) => {
            let Append { vote, before, entries, agreed } = append;
            let last = entries.last().map(|entry| entry.id);
            let are_past = [*before, last, *agreed].into_iter().all(|id| is_past(vote, id));
            (vote, true, are_past && is_dense(append))
        }
        Request::Vote(Candidacy { vote, last, .. }) | Request::PreVote(Candidacy { vote, last, .. }) => {
            (vote, false, is_past(vote, *last))
        }
        Request::Transfer(Transfer { vote, last, .. }) => (vote, true, is_past(vote, *last)),
        Request::Install(Install { vote, snapshot, .. }) => {
            (vote, true, is_past(vote, snapshot.last) && snapshot.members_at <= snapshot.last)
        }
    };
    vote.candidate == from && vote.is_won == is_won && is_past
}

/// Whether the entries of a question follow on each other, and the records of each on those before.
fn is_dense(append: &Append) -> bool {
    let mut index = append.before.map_or(0, |before| before.index.saturating_add(1));
    let mut term = append.before.map_or(0, |before| before.term);
    let mut end = None;
    append.entries.iter().all(|entry| {
        let is_next = entry.id.index == index && entry.id.term >= term;
        index = index.saturating_add(1);
        term = entry.id.term;
        match &entry.content {
            Content::Batch(batch) => is_next && end.replace(batch.next()).is_none_or(|end| end == batch.base),
            Content::Blank | Content::Members(_) => is_next,
        }
    })
}

/// See [`Request::Vote`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidacy {
    /// The vote asked for.
    pub vote: Vote,
    /// The candidate's last entry.
    pub last: Option<EntryId>,
    /// The leader wants it: nobody need wait until its time is over.
    pub is_transfer: bool,
}

/// See [`Request::Transfer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The vote that the leader leads by.
    pub vote: Vote,
    /// The next leader: others wait for that one.
    pub to: ReplicaId,
    /// That one must have all up to this entry.
    pub last: Option<EntryId>,
}

/// See [`Request::Install`].
#[derive(Clone, Debug)]
pub struct Install {
    /// The vote that the leader leads by.
    pub vote: Vote,
    /// The snapshot.
    pub snapshot: SnapshotName,
    /// All that a replica needs to have it: the business of those who make and install snapshots.
    pub manifest: Vec<u8>,
}

/// Up to where a snapshot covers a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotName {
    /// The last entry it covers; none: it is empty.
    pub last: Option<EntryId>,
    /// Where the records behind that one begin.
    pub end: LogIndex,
    /// The members there.
    pub members: Members,
    /// The entry that said so; none: nobody did.
    pub members_at: Option<EntryId>,
}

/// Answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Request::Append`].
    Append(Appended),
    /// To [`Request::Vote`] and [`Request::PreVote`].
    Vote(Voted),
    /// To [`Request::Transfer`].
    Transfer(Result<(), TransferRefused>),
    /// To [`Request::Install`]: the vote of who installed it.
    Installed(Vote),
    /// The question cannot be answered now.
    Unable,
}

/// See [`Answer::Append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// All is on disk.
    All,
    /// On disk up to this entry.
    UpTo(Option<EntryId>),
    /// The entry before the first one is not here.
    Conflict,
    /// Another was promised more.
    HigherVote(Vote),
}

/// See [`Answer::Vote`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Voted {
    /// The vote of who was asked.
    pub vote: Vote,
    /// It is given.
    pub is_granted: bool,
    /// The last entry of who was asked.
    pub last: Option<EntryId>,
}

/// Why somebody does not lead who was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferRefused {
    /// There was another vote meanwhile.
    VoteChanged {
        /// The vote of who asks.
        expected: Vote,
        /// The vote of who was asked.
        actual: Vote,
    },
    /// Its log is not as long on disk.
    NotFlushed {
        /// The last entry of who asks.
        expected: Option<EntryId>,
        /// The last entry on the disk of who was asked.
        actual: Option<EntryId>,
    },
}
