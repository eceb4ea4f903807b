//! The visit of this node with the one that leads a log: what waits in the [`Outbox`] is brought there, and again where it was
//! lost on the way; events for this node's connections come from there.
//!
//! What is brought stays in the outbox until it is done. Positions along the visit are dense: where something was done with
//! before it came, nothing is brought in its place. In front of all are claims. A visit begins anew with each leader, and
//! where the leader does not know of it any more.
//! Not here: the other side ([`super::guests`]).

use super::outbox::{Outbox, Parcel};
use crate::event::Events;
use crate::limits::Limits;
use crate::word::{Item, LogWord, Said, Tenure};
use base::Now;
use base::id::{LogId, LogIndex, NodeNo};
use std::sync::Arc;

/// How far a visit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is none.
    Away,
    /// It was said that it begins.
    Coming,
    /// It has begun.
    There(Tenure),
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Visit {
    log: LogId,
    leader: Option<NodeNo>,
    number: u64,
    stage: Stage,
    /// A visit is to begin though there is nothing to be brought: the leader wants to know who consumes.
    is_wanted: bool,
    /// The items that are brought first.
    claims: Vec<Item>,
    /// The position of what is brought next.
    next: u64,
    /// Everything up to this position has come to the leader.
    taken: u64,
    /// When something is said again, monotonic nanoseconds.
    due: u64,
    /// It went back to this position, and does not again before that time: the other says so until it has come.
    back: (u64, u64),
    /// The last events that came.
    heard: u64,
    /// The leader is to hear which events came.
    owes: bool,
    /// Events came out of turn.
    has_gap: bool,
    /// When the leader is told that this node is there, monotonic nanoseconds.
    alive_at: u64,
    /// How far this node's copy of the catalog is in its log.
    catalog: LogIndex,
}

impl Visit {
    /// None so far: the first is to tell the leader that this node begins a life.
    pub(crate) fn new(log: LogId) -> Visit {
        Visit {
            log,
            leader: None,
            number: 0,
            stage: Stage::Away,
            is_wanted: true,
            claims: Vec::new(),
            next: 1,
            taken: 0,
            due: 0,
            back: (0, 0),
            heard: 0,
            owes: false,
            has_gap: false,
            alive_at: 0,
            catalog: LogIndex(0),
        }
    }

    /// This node's copy of the catalog is that of all of its log before this.
    pub(crate) fn heed_catalog(&mut self, at: LogIndex) {
        self.catalog = at;
    }

    /// Another node leads the log, as far as is known here; none: nobody, or this one. Until another is known to lead, the one
    /// that did may do so yet, and the visit with it goes on.
    pub(crate) fn heed_leader(&mut self, leader: Option<NodeNo>) {
        if leader.is_some() && self.leader != leader {
            (self.leader, self.stage) = (leader, Stage::Away);
        }
    }

    /// This node leads: the visit is over.
    pub(crate) fn end(&mut self) {
        (self.leader, self.stage) = (None, Stage::Away);
    }

    /// It has begun, and the leader says what is done.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.stage, Stage::There(_))
    }

    /// A visit could begin.
    pub(crate) fn may_begin(&self) -> bool {
        self.stage == Stage::Away && self.leader.is_some()
    }

    /// A visit is to begin though there is nothing to be brought.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// When something is to be said though nothing comes, monotonic nanoseconds. `consumes`: somebody here does.
    pub(crate) fn deadline(&self, consumes: bool) -> Option<u64> {
        match self.stage {
            Stage::Away => None,
            Stage::Coming => Some(self.due),
            Stage::There(_) => {
                let alive = consumes.then_some(self.alive_at);
                let again = (self.taken + 1 < self.next).then_some(self.due);
                [alive, again].into_iter().flatten().min()
            }
        }
    }

    /// The leader is to hear something.
    pub(crate) fn owes(&self) -> bool {
        self.owes
    }

    /// Says what is to be said. `has_some`: there is something to be brought, in the outbox or soon, or somebody consumes.
    pub(crate) fn turn(
        &mut self,
        now: Now,
        (outbox, has_some): (&mut Outbox, bool),
        limits: &Limits,
        words: &mut Vec<(NodeNo, LogWord)>,
    ) {
        let Some(leader) = self.leader else { return };
        match self.stage {
            Stage::Away if !has_some && !self.is_wanted => {}
            Stage::Away => {
                self.number += 1;
                (self.stage, self.next, self.taken, self.back) = (Stage::Coming, 1, 0, (0, 0));
                (self.heard, self.owes, self.has_gap) = (0, false, false);
                self.claims.clear();
                outbox.unsend();
                self.come(now, leader, outbox, limits, words);
            }
            Stage::Coming if now.mono_ns >= self.due => self.come(now, leader, outbox, limits, words),
            Stage::Coming => {}
            Stage::There(_) => {
                if self.taken + 1 < self.next && now.mono_ns >= self.due {
                    self.bring_again(now, outbox, limits, words);
                }
                self.bring(now, leader, outbox, limits, words);
                if self.owes || (has_some && now.mono_ns >= self.alive_at) {
                    let said = Said::Heard { number: self.heard, has_gap: self.has_gap };
                    (self.owes, self.has_gap) = (false, false);
                    self.alive_at = now.after_ms(limits.visit_alive_ms);
                    words.push((leader, self.word(outbox, said)));
                }
            }
        }
    }

    /// The leader says that it leads. Where it led before, as far as is known here, it has forgotten this visit.
    fn led(&mut self, tenure: Tenure) {
        match self.stage {
            Stage::There(of) if of >= tenure => {}
            Stage::There(_) => (self.stage, self.is_wanted) = (Stage::Away, true),
            Stage::Away => self.is_wanted = true,
            // It did not lead so far, and has not answered.
            Stage::Coming => (self.due, self.is_wanted) = (0, true),
        }
    }

    fn come(
        &mut self,
        now: Now,
        leader: NodeNo,
        outbox: &Outbox,
        limits: &Limits,
        words: &mut Vec<(NodeNo, LogWord)>,
    ) {
        self.due = now.after_ms(limits.visit_again_ms);
        words.push((leader, self.word(outbox, Said::Come)));
    }

    /// Brings what was not brought so far, as much as may be under way.
    fn bring(
        &mut self,
        now: Now,
        leader: NodeNo,
        outbox: &mut Outbox,
        limits: &Limits,
        words: &mut Vec<(NodeNo, LogWord)>,
    ) {
        let mut under_way: usize = outbox.sent(self.taken + 1).map(Parcel::record_bytes).sum();
        while (under_way == 0 || under_way < limits.visit_bytes_max)
            && self.next - self.taken <= limits.visit_items_max
        {
            let claim = self.claims.get(self.next as usize - 1).cloned();
            let Some(item) = claim.or_else(|| outbox.send(self.next)) else { break };
            if self.taken + 1 == self.next {
                self.due = now.after_ms(limits.visit_again_ms);
            }
            under_way += item.bytes();
            words.push((leader, self.word(outbox, self.bring_as(self.next, item))));
            self.next += 1;
        }
    }

    /// Brings again what has not come so far.
    fn bring_again(
        &mut self,
        now: Now,
        outbox: &Outbox,
        limits: &Limits,
        words: &mut Vec<(NodeNo, LogWord)>,
    ) {
        let Some(leader) = self.leader else { return };
        self.due = now.after_ms(limits.visit_again_ms);
        let mut sent = outbox.sent(self.taken + 1).peekable();
        for at in self.taken + 1..self.next {
            let item = match self.claims.get(at as usize - 1) {
                Some(claim) => claim.clone(),
                None => sent.next_if(|parcel| parcel.at == at).map_or(Item::Nothing, Parcel::item),
            };
            words.push((leader, self.word(outbox, self.bring_as(at, item))));
        }
    }

    /// The routes of records, and the queues of commands, are those of a catalog that is no newer than this node's now.
    fn bring_as(&self, at: u64, item: Item) -> Said {
        Said::Bring { at, catalog: self.catalog, item }
    }

    fn word(&self, outbox: &Outbox, said: Said) -> LogWord {
        let tenure = match self.stage {
            Stage::There(tenure) => tenure,
            Stage::Away | Stage::Coming => Tenure::default(),
        };
        LogWord { log: self.log, life: outbox.origin().incarnation, visit: self.number, tenure, said }
    }

    /// A word of a leader's came: what it means here. `claims`: what this node brings first.
    pub(crate) fn hear(
        &mut self,
        now: Now,
        (from, word): (NodeNo, &LogWord),
        (outbox, claims): (&mut Outbox, impl FnOnce() -> Vec<Item>),
        limits: &Limits,
        words: &mut Vec<(NodeNo, LogWord)>,
    ) -> Heard {
        if matches!(word.said, Said::Led) {
            if self.leader == Some(from) {
                self.led(word.tenure);
            }
            return Heard::Nothing;
        }
        let is_meant =
            (self.leader, word.life, word.visit) == (Some(from), outbox.origin().incarnation, self.number);
        if !is_meant {
            return Heard::Nothing;
        }
        match (self.stage, &word.said) {
            (_, Said::Stopped) => Heard::Stopped,
            (Stage::Coming, Said::Welcome { recorded }) => {
                self.stage = Stage::There(word.tenure);
                self.is_wanted = false;
                self.alive_at = now.after_ms(limits.visit_alive_ms);
                self.claims = claims();
                self.claims.push(Item::Claimed);
                Heard::Welcome(*recorded)
            }
            (Stage::Coming, Said::Past { life }) => Heard::Past(*life),
            (Stage::There(tenure), said) if tenure == word.tenure => match said {
                Said::Taken { taken, done } => {
                    if *taken > self.taken && *taken < self.next {
                        self.taken = *taken;
                        self.due = now.after_ms(limits.visit_again_ms);
                    }
                    Heard::Done(*done)
                }
                Said::GoBack { from } if *from > self.taken && *from < self.next => {
                    self.taken = from - 1;
                    if self.back.0 != *from || now.mono_ns >= self.back.1 {
                        self.back = (*from, now.after_ms(limits.visit_again_ms / 4));
                        self.bring_again(now, outbox, limits, words);
                    }
                    Heard::Nothing
                }
                Said::Stranger => {
                    self.stage = Stage::Away;
                    // The leader is to know of messages that are held here.
                    self.is_wanted = true;
                    Heard::Nothing
                }
                Said::Events { number, done, events } => {
                    self.owes = true;
                    self.has_gap |= *number > self.heard + 1;
                    if *number != self.heard + 1 {
                        return Heard::Nothing;
                    }
                    self.heard += 1;
                    Heard::Events(*done, events.clone())
                }
                _ => Heard::Nothing,
            },
            _ => Heard::Nothing,
        }
    }
}

/// The meaning of a leader's word.
#[derive(Debug)]
pub(crate) enum Heard {
    /// None that is more than the visit's.
    Nothing,
    /// A visit with a leader begins, and records up to this number are in the log.
    Welcome(u64),
    /// Everything that was brought up to this position is done.
    Done(u64),
    /// The log knows of this later life.
    Past(u64),
    /// Everything that was brought up to this position is done, and events for connections came behind it.
    Events(u64, Arc<Events>),
    /// The log is damaged there, and nobody serves.
    Stopped,
}
