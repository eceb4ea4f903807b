//! Words about a log between a node that follows it and the one that leads it. Each may be lost, come late, come twice, or
//! overtake another.
//!
//! A node that has something for a log *visits* the node that leads it. What it brings has dense numbers along the visit
//! ([`Said::Bring`]); the other takes only the next, says how far it has come, and asks to go back where one is missing.
//!
//! ```text
//!   follows                      leads
//!   Come           ->
//!                  <-            Welcome     how far the log has this node's records
//!   Bring 1, 2, 3  ->
//!                  <-            Taken       up to 2; done with 1, as it is recorded
//!                  <-            GoBack      to 3, which did not come
//!                  <-            Stranger    there is no such visit: come anew
//!                  <-            Events 1, 2 for consumers of the visitor's connections
//!   Heard 2        ->
//! ```
//!
//! A node that begins to lead says so ([`Said::Led`]), and every other one comes. What each brings first is what its
//! connections consume and hold ([`Claim`]); only then is something handed out.

pub mod codec;

use crate::event::Events;
use crate::mail::Waiter;
use crate::request::{NewConsumer, QueueCommand};
use crate::selector::Selector;
use base::Memory;
use base::id::{LogId, LogIndex, PortId, QueueId};
use message::record::SeqRange;
use std::ops::Range;
use std::sync::Arc;

/// A time for which a log is led by a node: no other has the same, and of one node's the later one is the higher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenure {
    /// The life of the node that leads.
    pub life: u64,
    /// How often it ceased to lead before.
    pub number: u32,
}

/// A word about a log.
#[derive(Clone, Debug)]
pub struct LogWord {
    /// The log.
    pub log: LogId,
    /// The life of the node that visits.
    pub life: u64,
    /// The number of its visit in that life.
    pub visit: u64,
    /// The time of leading in which the visit is; not in [`Said::Come`].
    pub tenure: Tenure,
    /// Its content.
    pub said: Said,
}

/// The content of a word about a log.
#[derive(Clone, Debug)]
pub enum Said {
    /// The sender leads the log: others are to come.
    Led,
    /// A visit begins.
    Come,
    /// It has begun. The records of the visitor are in the log up to this number.
    Welcome {
        /// The last number; 0: none of this life.
        recorded: u64,
    },
    /// The visitor brings something.
    Bring {
        /// Dense along the visit, from 1.
        at: u64,
        /// It rests on a catalog that is no newer than this place in the catalog's log: a leader that is not so far does not know
        /// the queues that it may be for, and does not take it.
        catalog: LogIndex,
        /// Its content.
        item: Item,
    },
    /// How far the leader has come with what it was brought.
    Taken {
        /// Everything up to here has come.
        taken: u64,
        /// Everything up to here is done, and what had to be recorded is.
        done: u64,
    },
    /// The visitor is to bring everything from here on, once more.
    GoBack {
        /// The first that did not come.
        from: u64,
    },
    /// There is no such visit.
    Stranger,
    /// Events for connections of the visitor.
    Events {
        /// Dense along the visit, from 1.
        number: u64,
        /// Everything up to this position was done before them.
        done: u64,
        /// In the order in which they happened.
        events: Arc<Events>,
    },
    /// Events up to this number came; the visitor is there.
    Heard {
        /// The number; 0: none.
        number: u64,
        /// One came out of turn: those behind are to be told again.
        has_gap: bool,
    },
    /// The log knows of a later life of the visitor.
    Past {
        /// Its number.
        life: u64,
    },
    /// The log is stopped for damage where it is led: nothing is taken.
    Stopped,
}

impl LogWord {
    /// Bytes of memory that it holds beside itself, about: those of records.
    pub fn bytes(&self) -> usize {
        match &self.said {
            Said::Bring { item, .. } => item.bytes(),
            Said::Events { events, .. } => events.memories.iter().map(|memory| memory.len()).sum(),
            _ => 0,
        }
    }
}

/// Something that a visitor brings.
#[derive(Clone, Debug)]
pub enum Item {
    /// Something that was there is not needed any more.
    Nothing,
    /// The state that a consumer is to go on with.
    Claim(Arc<Claim>),
    /// There are no more claims.
    Claimed,
    /// A message that a queue may refuse.
    Ask {
        /// The number that it has in the log.
        number: u64,
        /// Its record.
        memory: Memory,
        /// The publish that waits for it.
        waiter: Option<Waiter>,
        /// Somebody waits for the disk.
        needs_flush: bool,
    },
    /// A command of a connection.
    Command {
        /// The queue.
        queue: QueueId,
        /// The connection, as its own node knows it.
        port: PortId,
        /// The command.
        command: Box<QueueCommand>,
    },
    /// Whole records.
    Records {
        /// The number that they have in the log.
        number: u64,
        /// The memory that holds them.
        memory: Memory,
        /// Where in it.
        range: Range<usize>,
    },
}

impl Item {
    /// Bytes of records.
    pub fn bytes(&self) -> usize {
        match self {
            Item::Nothing | Item::Claimed | Item::Claim(_) | Item::Command { .. } => 0,
            Item::Ask { memory, .. } => memory.len(),
            Item::Records { range, .. } => range.len(),
        }
    }
}

/// A consumer of a connection that goes on at the next leader, and what it holds.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The queue.
    pub queue: QueueId,
    /// The connection, as its own node knows it.
    pub port: PortId,
    /// The consumer's handle.
    pub handle: u32,
    /// As it was asked for; none: it only holds.
    pub consumer: Option<NewConsumer>,
    /// The expression that it chooses by.
    pub selector: Option<Selector>,
    /// The limit of its link's credit, where it has one.
    pub limit: Option<u32>,
    /// How many messages it was delivered since it came, wrapping.
    pub delivered: u32,
    /// Its connection cannot take more for now.
    pub is_paused: bool,
    /// Of the consumers of its queue it is the active one.
    pub is_active: bool,
    /// The positions that it holds.
    pub held: Box<[SeqRange]>,
}
