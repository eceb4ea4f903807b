//! Changing the catalog: planned on one shard, logged, applied everywhere, then answered.
//!
//! The changes of a turn form a *wave*. A wave with durable changes waits for the catalog log's commit; then it is sent
//! to every shard, and its answers go out when every shard has applied it. Waves finish in order. An answer that needs
//! no change waits for the waves before it: it may rest on what they changed.

use crate::catalog::{Actor, Change, Op, Reason, Refusal};
use crate::connection_limits::Census;
use crate::mail::Answering;
use crate::request::Reply;
use base::id::{LogIndex, PortId, QueueId};
use std::collections::VecDeque;
use std::sync::Arc;

/// A reply, and the connection's port and token it goes to.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) port: PortId,
    pub(crate) token: u32,
    pub(crate) reply: Result<Reply, Refusal>,
}

/// A request to change the catalog: its actor, the address of the answer, the operation.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) actor: Actor,
    pub(crate) answer: Option<Answering>,
    pub(crate) op: Op,
}

#[derive(Debug)]
struct Wave {
    number: u64,
    changes: Arc<[Change]>,
    /// The catalog log must be committed up to here first.
    commit: Option<LogIndex>,
    is_sent: bool,
    /// Shards that have not applied it yet.
    unseen: u16,
    answers: Vec<Answer>,
}

/// The waves under way.
#[derive(Debug)]
pub(crate) struct Planner {
    others: u16,
    next_number: u64,
    changes: Vec<Change>,
    answers: Vec<Answer>,
    waves: VecDeque<Wave>,
    /// The number of the last wave that was sent.
    last_sent: u64,
    /// Queues that are to be filled from streams once the wave of that number is sent.
    unfed: VecDeque<(u64, QueueId)>,
    /// Requests that came since nothing more is planned, in order; `None`: they are planned as they come.
    held: Option<Vec<Asked>>,
    /// The journal has room only for changes that give space back.
    is_short: bool,
    pub(crate) census: Census,
}

impl Planner {
    /// `others`: shards besides this one.
    pub(crate) fn new(others: u16) -> Planner {
        Planner {
            others,
            next_number: 1,
            changes: Vec::new(),
            answers: Vec::new(),
            waves: VecDeque::new(),
            last_sent: 0,
            unfed: VecDeque::new(),
            held: None,
            is_short: false,
            census: Census::default(),
        }
    }

    /// A queue is to be filled from its stream once the change that is being made is sent.
    pub(crate) fn feed_later(&mut self, queue: QueueId) {
        self.unfed.push_back((self.next_number, queue));
    }

    /// Takes the queues that are to be filled from their streams now.
    pub(crate) fn take_unfed(&mut self) -> Vec<QueueId> {
        let due = self.unfed.partition_point(|(wave, _)| *wave <= self.last_sent);
        self.unfed.drain(..due).map(|(_, queue)| queue).collect()
    }

    pub(crate) fn add_change(&mut self, change: Change) {
        self.changes.push(change);
    }

    pub(crate) fn add_answer(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    /// Ends the turn. `commit`: where the catalog log must be committed to, if this turn logged anything.
    pub(crate) fn close_wave(&mut self, commit: Option<LogIndex>) {
        if self.changes.is_empty() {
            match self.waves.back_mut() {
                Some(last) => last.answers.append(&mut self.answers),
                None if !self.answers.is_empty() => self.push_wave(None),
                None => {}
            }
            return;
        }
        self.push_wave(commit);
    }

    fn push_wave(&mut self, commit: Option<LogIndex>) {
        // A wave of answers alone only waits for those before it.
        let is_empty = self.changes.is_empty();
        self.waves.push_back(Wave {
            number: self.next_number,
            changes: std::mem::take(&mut self.changes).into(),
            commit,
            is_sent: is_empty,
            unseen: if is_empty { 0 } else { self.others },
            answers: std::mem::take(&mut self.answers),
        });
        self.next_number += 1;
    }

    /// The next wave to send, now that the catalog log is committed up to `committed`: its number and changes.
    pub(crate) fn next_to_send(&mut self, committed: LogIndex) -> Option<(u64, Arc<[Change]>)> {
        let wave = self.waves.iter_mut().find(|wave| !wave.is_sent)?;
        if wave.commit.is_some_and(|commit| commit > committed) {
            return None;
        }
        wave.is_sent = true;
        self.last_sent = wave.number;
        Some((wave.number, wave.changes.clone()))
    }

    /// One more shard has applied all waves up to `number`.
    pub(crate) fn seen(&mut self, number: u64) {
        for wave in self.waves.iter_mut().filter(|wave| wave.is_sent && wave.number == number) {
            wave.unseen -= 1;
        }
    }

    /// The answers of waves that are finished.
    pub(crate) fn finished(&mut self, mut answer: impl FnMut(Answer)) {
        while self.waves.front().is_some_and(|wave| wave.is_sent && wave.unseen == 0) {
            let wave = self.waves.pop_front().expect("there is a front");
            wave.answers.into_iter().for_each(&mut answer);
        }
    }

    /// Something was asked for since the last turn ended: the next one is to come at once.
    pub(crate) fn has_open_wave(&self) -> bool {
        !self.changes.is_empty() || !self.answers.is_empty()
    }

    /// Plans nothing more: requests wait.
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// The requests that waited, in the order they came; from now on requests are planned as they come.
    pub(crate) fn go_on(&mut self) -> Vec<Asked> {
        self.held.take().unwrap_or_default()
    }

    /// Whether the journal has room only for changes that give space back.
    pub(crate) fn set_short(&mut self, is_short: bool) {
        self.is_short = is_short;
    }

    /// Refuses changes that make something new and lasting while there is no room for them: a change that found no
    /// space would be under way until there is some, and no snapshot is made meanwhile, without which no file of the
    /// journal can be used again.
    pub(crate) fn check_room(&self, changes: &[Change]) -> Result<(), Refusal> {
        if self.is_short && changes.iter().any(Change::is_coming) {
            return Err(Refusal::precondition(
                Reason::NoSpace,
                "no disk space is left for what is newly declared",
            ));
        }
        Ok(())
    }

    /// Keeps a request until it may be planned; gives it back where it may be now.
    pub(crate) fn put_off(&mut self, asked: Asked) -> Option<Asked> {
        match &mut self.held {
            None => Some(asked),
            Some(held) => {
                held.push(asked);
                None
            }
        }
    }

    /// A change was made that is not on disk, where the catalog's log is as far as `committed`.
    pub(crate) fn has_unwritten(&self, committed: LogIndex) -> bool {
        let last = self.waves.iter().rev().find_map(|wave| wave.commit);
        !self.changes.is_empty() || last.is_some_and(|commit| commit > committed)
    }

    /// A change is not known to be on disk everywhere, or its answer is still to come.
    pub(crate) fn is_busy(&self) -> bool {
        !self.waves.is_empty()
            || !self.changes.is_empty()
            || !self.answers.is_empty()
            || self.held.as_ref().is_some_and(|held| !held.is_empty())
    }
}
