//! Lanes between this node and the others of its cluster.
//!
//! One thread has all sockets, and drives the values that know what is said on them ([`cluster::Lane`]). The loops of
//! shards have none of it: a shard gives words away and gets letters, as from any other thread, so that votes and
//! heartbeats of a node do not wait behind the turn of a shard for its clients, and a node that is alone pays nothing.
//!
//! A node dials one lane for each of its shards to each other node, and a pulse; it sends words on the lanes that it dialed, and
//! gets those of others on the lanes that it accepted. Words may be lost: one that finds no open lane, or too much that
//! waits, is dropped and counted, as those who agree ask again.

mod exchange;
mod limits;
mod lookup;
mod news;
mod peers;
mod wire;
mod words;

pub use exchange::{Opened, warning};
pub use limits::Limits;
pub use news::Met;

use crate::mailbox::{Mailbox, Sleeper};
use base::id::{NodeNo, ShardId};
use news::News;
use node::fetch::Fetch;
use node::replicas::Wanting;
use node::word::Word;
use serde::Serialize;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A word that a shard gives away.
#[derive(Debug)]
struct Posted {
    shard: ShardId,
    to: NodeNo,
    word: Word,
    weight: usize,
}

/// A lane that this node dials, as tools show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneRow {
    /// The other node.
    pub node: String,
    /// Its use: `pulse`, or `lane of shard 0`.
    pub purpose: String,
    /// It is open.
    pub is_open: bool,
}

/// Words that were dropped, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The lane was not open.
    pub no_lane: u64,
    /// Too much waited for the lanes, or for the window of one.
    pub outbound: u64,
    /// Too much waited for a shard, or no shard has the log.
    pub inbound: u64,
}

/// News for the keeper about states of logs.
#[derive(Debug, Default)]
pub struct States {
    /// Words of other nodes.
    pub heard: Vec<(NodeNo, Box<Fetch>)>,
    /// States that replicas here lack.
    pub wanted: Vec<Wanting>,
}

/// The other side of the thread: for shards, and for those who look.
pub struct Lanes {
    post: Mailbox<Posted>,
    sleeper: Arc<Sleeper>,
    /// Bytes of words that wait for the thread, and for each shard.
    outbound: AtomicUsize,
    inbound: Box<[AtomicUsize]>,
    outbound_max: usize,
    inbound_max: usize,
    dropped: [AtomicU64; 3],
    states: Mutex<States>,
    states_max: usize,
    call_keeper: Box<dyn Fn() + Send + Sync>,
    rows: Mutex<Vec<LaneRow>>,
    /// The other nodes.
    others: Vec<(NodeNo, String)>,
    news: News,
    news_max: usize,
    is_stopping: AtomicBool,
}

/// The purpose of a pulse in [`LaneRow`].
const PULSE: &str = "pulse";

/// Indexes of [`Lanes::dropped`].
const NO_LANE: usize = 0;
const OUTBOUND: usize = 1;
const INBOUND: usize = 2;

impl Lanes {
    /// Those of a node with so many shards, whose thread is woken by `sleeper`, and its keeper by `call_keeper`.
    fn new(
        sleeper: Arc<Sleeper>,
        shards: usize,
        limits: &Limits,
        others: Vec<(NodeNo, String)>,
        call_keeper: Box<dyn Fn() + Send + Sync>,
    ) -> Lanes {
        Lanes {
            post: Mailbox::new(sleeper.clone()),
            sleeper,
            outbound: AtomicUsize::new(0),
            inbound: (0..shards).map(|_| AtomicUsize::new(0)).collect(),
            outbound_max: limits.outbound_bytes_max,
            inbound_max: limits.inbound_bytes_max,
            dropped: Default::default(),
            states: Mutex::default(),
            states_max: limits.states_max,
            call_keeper,
            rows: Mutex::default(),
            others,
            news: News::default(),
            news_max: limits.news_bytes_max,
            is_stopping: AtomicBool::new(false),
        }
    }

    /// A shard gives words to other nodes, leaving none.
    pub fn post(&self, shard: ShardId, words: &mut Vec<(NodeNo, Word)>) {
        let mut posted = Vec::with_capacity(words.len());
        for (to, word) in words.drain(..) {
            let weight = words::weight(&word);
            match admits(&self.outbound, weight, self.outbound_max) {
                true => posted.push(Posted { shard, to, word, weight }),
                false => self.drop_one(OUTBOUND),
            }
        }
        self.post.put_all(&mut posted);
    }

    /// A word of another node is to wait for a shard: whether there is room for it.
    fn admit(&self, shard: ShardId, weight: usize) -> bool {
        let is_admitted = admits(&self.inbound[usize::from(shard.0)], weight, self.inbound_max);
        if !is_admitted {
            self.drop_one(INBOUND);
        }
        is_admitted
    }

    /// A shard has taken a word of this weight.
    pub fn heard(&self, shard: ShardId, weight: usize) {
        self.inbound[usize::from(shard.0)].fetch_sub(weight, Ordering::Relaxed);
    }

    /// Another node says something about the state of a log.
    fn hear_of_state(&self, from: NodeNo, fetch: Box<Fetch>) {
        let mut states = self.states();
        if states.heard.len() >= self.states_max {
            return self.drop_one(INBOUND);
        }
        states.heard.push((from, fetch));
        drop(states);
        (self.call_keeper)();
    }

    /// Replicas here lack states of their logs, which is said again as long as they do.
    pub fn want(&self, wanted: &mut Vec<Wanting>) {
        let mut states = self.states();
        let room = self.states_max.saturating_sub(states.wanted.len());
        states.wanted.extend(wanted.drain(..).take(room));
        drop(states);
        (self.call_keeper)();
    }

    /// Takes the news for the keeper.
    pub fn take_states(&self) -> States {
        std::mem::take(&mut *self.states())
    }

    /// No state here is broken by a thread that panicked.
    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_one(&self, why: usize) {
        self.dropped[why].fetch_add(1, Ordering::Relaxed);
    }

    /// Words that were dropped since the start.
    pub fn dropped(&self) -> Dropped {
        let [no_lane, outbound, inbound] =
            [NO_LANE, OUTBOUND, INBOUND].map(|why| self.dropped[why].load(Ordering::Relaxed));
        Dropped { no_lane, outbound, inbound }
    }

    /// The lanes that this node dials.
    pub fn rows(&self) -> Vec<LaneRow> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The other nodes of the cluster.
    pub fn met(&self) -> Vec<Met> {
        let rows = self.rows();
        let met = |(number, name): &(NodeNo, String)| {
            let own = || rows.iter().filter(|row| row.node == *name);
            let is_reached = own().any(|row| row.is_open && row.purpose == PULSE);
            let lanes = [own().count() as u64, own().filter(|row| row.is_open).count() as u64];
            let news = is_reached.then(|| self.news.of(*number)).flatten();
            let (number, name, bytes) = (*number, name.clone(), self.news.bytes(*number));
            Met { number, name, is_reached, lanes, bytes, news }
        };
        self.others.iter().map(met).collect()
    }

    /// Says to the other nodes how this one is.
    pub fn say(&self, news: &Value) {
        self.news.set(news, self.news_max);
        self.post.knock();
    }

    fn tell(&self, rows: Vec<LaneRow>) {
        *self.rows.lock().unwrap_or_else(PoisonError::into_inner) = rows;
    }

    /// Ends the thread: all lanes are closed.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        // Whether or not it sleeps, it looks before it does.
        self.post.knock();
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }
}

/// Counts so many bytes where there is room for them.
fn admits(waiting: &AtomicUsize, weight: usize, most: usize) -> bool {
    let room = |waiting: usize| (waiting == 0 || waiting + weight <= most).then_some(waiting + weight);
    waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::LogId;
    use consensus::message::Answer;
    use consensus::{Body, Message, ReplicaId};

    fn word() -> (NodeNo, Word) {
        let replica = |node| ReplicaId::new(NodeNo(node), 0);
        let body = Body::Answer(Answer::Unable);
        Word::of_replica(Message { log: LogId(1), from: replica(1), to: replica(2), call: 1, body })
    }

    #[test]
    fn words_beyond_the_bound_are_dropped_and_counted() {
        let weight = words::weight(&word().1);
        let limits =
            Limits { outbound_bytes_max: 2 * weight, inbound_bytes_max: weight, ..Limits::default() };
        let lanes = Lanes::new(Sleeper::new(|| {}), 2, &limits, Vec::new(), Box::new(|| {}));
        lanes.post(ShardId(0), &mut vec![word(), word(), word()]);
        assert_eq!(lanes.dropped(), Dropped { outbound: 1, ..Dropped::default() });
        let mut taken = Vec::new();
        lanes.post.take(&mut taken);
        assert_eq!(taken.len(), 2);
        let admitted = [(0, weight), (0, 1), (1, 10 * weight), (1, 1)]
            .map(|(shard, weight)| lanes.admit(ShardId(shard), weight));
        assert_eq!(admitted, [true, false, true, false], "one finds room whatever its length");
        lanes.heard(ShardId(0), weight);
        assert!(lanes.admit(ShardId(0), weight));
        assert_eq!(lanes.dropped().inbound, 2);
    }
}
