//! Removals that have parts left: each is planned again and again until nothing of it is there.
//!
//! A turn has room for so many bindings and objects that go ([`Limits::removed_at_once_max`]). Requests that come in it take
//! from that, the first part of each at once, so that what is little is gone before anything that is asked for next.
//! Removals that wait have the rest, one part each in their turn.

use crate::catalog::{Actor, Op, Removed};
use crate::limits::Limits;
use crate::mail::Answering;
use crate::peers::Asked;
use crate::request::Reply;
use std::collections::VecDeque;

/// A request for a change, of which part may have been made.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) actor: Actor,
    /// Given when nothing is left.
    pub(crate) answer: Option<Answering>,
    /// The node's wish that it is, where nodes agree; then nobody here waits for the answer.
    pub(crate) asked: Option<Box<Asked>>,
    pub(crate) op: Op,
    /// It follows from what was asked for: where it is refused now, what was asked for is done all the same.
    pub(crate) goes_along: bool,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    waiting: VecDeque<Departure>,
    /// Bindings and objects that went in this turn.
    gone: usize,
}

impl Departure {
    /// Somebody waits for the answer.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.answer.is_some() || self.asked.as_ref().is_some_and(|asked| asked.is_asked)
    }
}

impl Departures {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Something went in this turn, or is to go.
    #[inline]
    pub(crate) fn is_at_work(&self) -> bool {
        self.gone > 0 || !self.waiting.is_empty()
    }

    /// The bindings and objects that may go by the next plan of a turn.
    pub(crate) fn room(&self, limits: &Limits) -> usize {
        limits.removed_at_once_max.saturating_sub(self.gone).max(limits.removed_by_each_min)
    }

    /// Bindings and objects that went in this turn.
    pub(crate) fn gone(&self) -> usize {
        self.gone
    }

    /// A plan for a request was made. What it leaves is planned later, and answered then; the request comes back when that is
    /// nothing.
    pub(crate) fn go_on(&mut self, request: Departure, removed: Removed) -> Option<Departure> {
        self.gone += removed.count;
        if !removed.is_more && removed.exchanges.is_empty() {
            return Some(request);
        }
        let Departure { actor, answer, asked, op, goes_along } = request;
        let by_broker = Actor::internal(actor.vhost, actor.port);
        let exchanges = removed.exchanges.into_iter();
        self.waiting.extend(exchanges.map(|op| Departure {
            actor: by_broker.clone(),
            answer: None,
            asked: None,
            op,
            goes_along: true,
        }));
        if removed.is_more {
            self.waiting.push_back(Departure { actor, answer: None, asked: None, op, goes_along });
        }
        let last = self.waiting.back_mut().expect("something is left");
        // It was there, whoever takes the last of it away.
        last.answer =
            answer.map(|answer| Answering { instead: answer.instead.or(Some(Reply::Done)), ..answer });
        last.asked = asked.map(|asked| Box::new(Asked { has_begun: true, ..*asked }));
        None
    }

    /// The removal whose turn it is.
    pub(crate) fn next(&mut self) -> Option<Departure> {
        self.waiting.pop_front()
    }

    /// A turn is over.
    pub(crate) fn end_turn(&mut self) {
        self.gone = 0;
    }
}
