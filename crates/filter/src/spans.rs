//! Matches of a regular expression in a text: one automaton walks to the end of the first match, another back to its
//! begin. Bytes and new steps are counted: a text may be walked through many times while match after match is looked
//! for.

use crate::automaton::{Automaton, Direction, Room, TooDear};
use crate::steps::Walked;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::{Anchored, Input};
use regex_syntax::hir::Hir;
use std::collections::BTreeSet;
use std::ops::Range;

/// The automata of one expression.
#[derive(Debug)]
pub(crate) struct Spans {
    forward: Automaton,
    backward: Automaton,
}

/// Steps from states that are matches which are remembered as met, of one automaton.
const FROM_MATCHES_MAX: usize = 1024;

/// The steps of both that were met.
#[derive(Debug)]
pub(crate) struct Steps {
    forward: Met,
    backward: Met,
}

/// The steps of an automaton that were met.
#[derive(Debug)]
struct Met {
    cache: Cache,
    /// Those from states that are matches, by the class of their byte: the cache does not tell which of these it has.
    from_matches: BTreeSet<(LazyStateID, u8)>,
    /// How often the cache had been cleared then.
    clears: usize,
}

impl Met {
    fn none(dfa: &DFA) -> Met {
        Met { cache: dfa.create_cache(), from_matches: BTreeSet::new(), clears: 0 }
    }

    /// Notes a step from a match; whether it was met.
    fn has_met(&mut self, state: LazyStateID, class: u8) -> bool {
        let clears = self.cache.clear_count();
        if clears != self.clears || self.from_matches.len() == FROM_MATCHES_MAX {
            self.from_matches.clear();
            self.clears = clears;
        }
        !self.from_matches.insert((state, class))
    }
}

/// Bytes that may still be walked through. A new step counts as many for each state of the automaton.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) left: usize,
    /// The count that passing over a state is.
    pub(crate) bytes_a_state: usize,
}

impl Work {
    fn spend(&mut self, bytes: usize) -> Result<(), TooDear> {
        self.left = self.left.checked_sub(bytes).ok_or(TooDear)?;
        Ok(())
    }
}

impl Spans {
    /// # Errors
    /// In words: it is a very large expression.
    pub(crate) fn new(hir: &Hir, room: Room) -> Result<Spans, String> {
        Ok(Spans {
            forward: Automaton::new(hir, Direction::Forward, room)?,
            backward: Automaton::new(hir, Direction::Backward, room)?,
        })
    }

    /// Bytes it keeps on the heap, steps apart.
    pub(crate) fn memory(&self) -> usize {
        self.forward.dfa.memory_usage() + self.backward.dfa.memory_usage()
    }

    /// The first match at or behind a place, if there is one.
    ///
    /// # Errors
    /// The work is spent.
    pub(crate) fn next(
        &self,
        steps: &mut Steps,
        text: &[u8],
        from: usize,
        work: &mut Work,
    ) -> Result<Option<Range<usize>>, TooDear> {
        // To begin anew takes as long as many known steps.
        work.spend(work.bytes_a_state)?;
        let Some(end) = self.end(&mut steps.forward, text, from, work)? else { return Ok(None) };
        let start = self.start(&mut steps.backward, text, from..end, work)?;
        Ok(start.map(|start| start..end))
    }

    fn end(
        &self,
        met: &mut Met,
        text: &[u8],
        from: usize,
        work: &mut Work,
    ) -> Result<Option<usize>, TooDear> {
        let Automaton { dfa, states } = &self.forward;
        let input = Input::new(text).range(from..);
        let mut state = dfa.start_state_forward(&mut met.cache, &input).map_err(|_| TooDear)?;
        let (mut end, mut at) = (None, from);
        loop {
            let begin = at;
            (state, at) = known(dfa, &met.cache, state, text, at);
            work.spend(at - begin)?;
            let Some(byte) = text.get(at) else { break };
            state = stepped(dfa, met, (state, *byte), *states, work)?;
            // A match is known one byte after its end; a dead state leads to none.
            if state.is_match() {
                end = Some(at);
            } else if state.is_dead() {
                return Ok(end);
            }
            at += 1;
        }
        let last = dfa.next_eoi_state(&mut met.cache, state).map_err(|_| TooDear)?;
        Ok(if last.is_match() { Some(text.len()) } else { end })
    }

    fn start(
        &self,
        met: &mut Met,
        text: &[u8],
        range: Range<usize>,
        work: &mut Work,
    ) -> Result<Option<usize>, TooDear> {
        let Automaton { dfa, states } = &self.backward;
        let input = Input::new(text).range(range.clone()).anchored(Anchored::Yes);
        let mut state = dfa.start_state_reverse(&mut met.cache, &input).map_err(|_| TooDear)?;
        let mut start = None;
        for at in range.clone().rev() {
            state = stepped(dfa, met, (state, text[at]), *states, work)?;
            if state.is_match() {
                start = Some(at + 1);
            } else if state.is_dead() {
                return Ok(start);
            }
        }
        // The byte before it decides whether a word, a line or the text begins.
        let last = match range.start.checked_sub(1) {
            Some(before) => stepped(dfa, met, (state, text[before]), *states, work)?,
            None => dfa.next_eoi_state(&mut met.cache, state).map_err(|_| TooDear)?,
        };
        Ok(if last.is_match() { Some(range.start) } else { start })
    }
}

impl Walked for Spans {
    type Steps = Steps;

    fn steps(&self) -> Steps {
        Steps { forward: Met::none(&self.forward.dfa), backward: Met::none(&self.backward.dfa) }
    }

    fn bytes(Steps { forward, backward }: &Steps) -> usize {
        // A row of an ordered set, with what is empty beside it.
        const ROW: usize = 2 * size_of::<(LazyStateID, u8)>();
        let of = |met: &Met| met.cache.memory_usage() + met.from_matches.len() * ROW;
        size_of::<Steps>() + of(forward) + of(backward)
    }
}

/// Known steps between states that are no matches, which most are: where they end.
#[inline]
fn known(
    dfa: &DFA,
    cache: &Cache,
    mut state: LazyStateID,
    text: &[u8],
    mut at: usize,
) -> (LazyStateID, usize) {
    while let Some(byte) = text.get(at).filter(|_| !state.is_tagged()) {
        let next = dfa.next_state_untagged(cache, state, *byte);
        if next.is_tagged() {
            break;
        }
        (state, at) = (next, at + 1);
    }
    (state, at)
}

#[inline]
fn stepped(
    dfa: &DFA,
    met: &mut Met,
    (state, byte): (LazyStateID, u8),
    states: u64,
    work: &mut Work,
) -> Result<LazyStateID, TooDear> {
    work.spend(1)?;
    let is_met = if state.is_tagged() {
        // To look whether it was met takes as long as many known steps.
        work.spend(work.bytes_a_state)?;
        met.has_met(state, dfa.byte_classes().get(byte))
    } else {
        let next = dfa.next_state_untagged(&met.cache, state, byte);
        if !next.is_unknown() {
            return Ok(next);
        }
        false
    };
    if !is_met {
        let states = usize::try_from(states).unwrap_or(usize::MAX);
        work.spend(states.saturating_mul(work.bytes_a_state))?;
    }
    dfa.next_state(&mut met.cache, state, byte).map_err(|_| TooDear)
}
