//! The part of the planning shard that is there where several nodes agree on the catalog: wishes on their way to the node
//! that leads it, answers that wait for the others, and how far each of them is.
//!
//! What is agreed on comes out of the catalog's log, to each node in one order. Words between nodes are outputs as data, and
//! may be lost: whatever is asked for is asked for again. Not here: what a change is, and what it means for a shard.

mod calls;
mod codec;
mod lead;
mod settling;
mod spread;
mod wishes;
mod word;

pub(crate) use calls::Calls;
pub use codec::BadWord;
pub(crate) use lead::{Asked, Lead};
pub(crate) use settling::{Content, Settling};
pub(crate) use spread::{Spread, Spreading};
pub(crate) use wishes::{Wished, Wishes};
pub use word::{CatalogWord, Outcome, Reign, Wish};

use base::Now;
use base::id::{LogIndex, NodeNo};

/// The place of a node among those that agree on the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The node.
    pub node: NodeNo,
    /// The number of this start: higher than that of every earlier one.
    pub incarnation: u64,
    /// The other nodes.
    pub others: Vec<NodeNo>,
}

/// Another node.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) node: NodeNo,
    /// All its shards have applied everything before this.
    pub(crate) seen: LogIndex,
    /// It had time to say how far it is, and did not: nobody waits for it until it says something.
    pub(crate) is_silent: bool,
    /// When it was silent last, monotonic nanoseconds.
    pub(crate) silent_at: Option<u64>,
    /// When it said something last, monotonic nanoseconds.
    pub(crate) heard_at: u64,
    /// It is to be told once this node has applied everything before this.
    wants: Option<LogIndex>,
    /// It was told last that this node has applied everything before this.
    told: LogIndex,
}

impl Peer {
    pub(crate) fn new(node: NodeNo) -> Peer {
        let (seen, told) = (LogIndex(0), LogIndex(0));
        Peer { node, seen, is_silent: false, silent_at: None, heard_at: 0, wants: None, told }
    }
}

impl Peer {
    /// It says something.
    pub(crate) fn heard(&mut self, now: Now) {
        self.heard_at = now.mono_ns;
        if std::mem::take(&mut self.is_silent) {
            self.silent_at = Some(now.mono_ns);
        }
    }

    /// It was silent at some time since `since`, monotonic nanoseconds.
    pub(crate) fn was_silent(&self, since: u64) -> bool {
        self.is_silent || self.silent_at.is_some_and(|at| at >= since)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) me: NodeNo,
    pub(crate) incarnation: u64,
    pub(crate) others: Vec<Peer>,
    /// The node that leads, as far as is known here.
    pub(crate) led_by: Option<(NodeNo, Reign)>,
    pub(crate) wishes: Wishes,
    pub(crate) settling: Vec<Settling>,
    pub(crate) calls: Calls,
    pub(crate) spread: Spread,
    /// This node leads.
    pub(crate) lead: Option<Lead>,
    /// Counts the times for which it led.
    pub(crate) tenure: u32,
    /// When the others were asked who leads, monotonic nanoseconds, and by which call.
    pub(crate) asked: Option<(u64, u64)>,
    words: Vec<(NodeNo, CatalogWord)>,
}

impl Peers {
    /// Those of a shard beside which the node has `others` more.
    pub(crate) fn new(membership: Membership, shards: u16) -> Peers {
        let Membership { node, incarnation, others } = membership;
        Peers {
            me: node,
            incarnation,
            others: others.into_iter().map(Peer::new).collect(),
            led_by: None,
            wishes: Wishes::new(),
            settling: Vec::new(),
            calls: Calls::default(),
            spread: Spread::new(shards),
            lead: None,
            tenure: 0,
            asked: None,
            words: Vec::new(),
        }
    }

    /// A word goes to another node.
    pub(crate) fn tell(&mut self, to: NodeNo, word: CatalogWord) {
        self.words.push((to, word));
    }

    /// The same word goes to every other node.
    pub(crate) fn tell_all(&mut self, word: &CatalogWord) {
        let Peers { others, words, .. } = self;
        words.extend(others.iter().map(|peer| (peer.node, word.clone())));
    }

    /// Moves the words to other nodes into `into`.
    pub(crate) fn take_words(&mut self, into: &mut Vec<(NodeNo, CatalogWord)>) {
        into.append(&mut self.words);
    }

    pub(crate) fn other(&mut self, node: NodeNo) -> Option<&mut Peer> {
        self.others.iter_mut().find(|peer| peer.node == node)
    }

    /// A node is to be told when this one has applied everything before `at`.
    pub(crate) fn note_want(&mut self, node: NodeNo, at: LogIndex) {
        if let Some(peer) = self.other(node) {
            peer.wants = peer.wants.max(Some(at));
        }
    }

    /// Tells those that want to know how far this node is: all that it has come further, the last time where they want no more.
    pub(crate) fn tell_seen(&mut self) {
        let at = self.spread.seen_at();
        let Peers { others, words, .. } = self;
        for peer in others {
            let Some(wants) = peer.wants else { continue };
            if wants <= at || peer.told < at {
                peer.wants = (wants > at).then_some(wants);
                peer.told = at;
                words.push((peer.node, CatalogWord::Seen { at }));
            }
        }
    }
}
