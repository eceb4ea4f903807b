//! The model of barriers: the first one, who has it, and since when it waits for others.

use super::*;
use queue::BARRIER_WAIT_MS_MAX;

/// A delivery as the machine tells it: to whom, which, again, how many failed.
type Out = (u32, u64, bool, u32);

/// How far a barrier has come.
#[derive(Debug, Default)]
pub struct Turn {
    seq: u64,
    since_ms: Option<u64>,
    given: BTreeSet<u64>,
    sent: u64,
    /// Consumers that the machine should tell as passed over.
    pub passed_over: u32,
}

impl Turn {
    pub fn was_given(&self, seq: u64) -> bool {
        self.seq == seq && self.sent > 0
    }
}

impl Bench {
    /// The first barrier there is.
    pub(super) fn bar(&self) -> u64 {
        let is_barrier = |message: &Message| message.is_barrier && message.state != State::Gone;
        self.messages.iter().position(is_barrier).map_or(u64::MAX, |seq| seq as u64)
    }

    /// It, where it is ready and all before it is gone.
    fn barrier_in_turn(&self) -> Option<u64> {
        let seq = self.bar();
        let message = self.messages.get(seq as usize)?;
        let is_first = self.messages[..seq as usize].iter().all(|before| before.state == State::Gone);
        (is_first && message.state == State::Ready).then_some(seq)
    }

    /// The barrier that a get is given, if one is.
    pub(super) fn model_barrier_to_get(&self) -> Option<u64> {
        let is_consumed = self.consumers.values().any(|consumer| consumer.is_consumer);
        self.barrier_in_turn().filter(|_| !is_consumed)
    }

    /// The barrier whose turn it is goes to those with room that do not have it.
    pub(super) fn model_barrier(
        &mut self,
        budget: u32,
        rooms: &mut BTreeMap<u32, u64>,
        settled: &mut Vec<(Kind, Outcome, u64)>,
    ) -> Vec<Out> {
        let Some(seq) = self.barrier_in_turn() else { return Vec::new() };
        if self.barrier.seq != seq || self.barrier.since_ms.is_none() && self.barrier.sent == 0 {
            self.barrier = Turn { seq, ..Turn::default() };
        }
        let receivers = self.consumers.iter().filter(|(_, consumer)| consumer.receives);
        let asked: Vec<(u32, u64)> = receivers.map(|(slot, consumer)| (*slot, consumer.joined)).collect();
        let asked = asked.into_iter().filter(|(_, joined)| !self.barrier.given.contains(joined));
        let (with_room, without): (Vec<_>, Vec<_>) = asked.partition(|(slot, _)| rooms[slot] > 0);
        if with_room.is_empty() && without.is_empty() && self.barrier.sent == 0 {
            self.barrier.since_ms = None;
            return Vec::new();
        }
        let since_ms = *self.barrier.since_ms.get_or_insert(self.now_ms);
        let mut out = Vec::new();
        let message = self.messages[seq as usize];
        for (slot, joined) in with_room.iter().take(budget as usize) {
            out.push((*slot, seq, message.was_delivered || message.is_tried, message.failed));
            self.barrier.given.insert(*joined);
            self.barrier.sent += 1;
            if let Credit::Link(credit) = &mut self.consumers.get_mut(slot).unwrap().credit {
                *credit -= 1;
                *rooms.get_mut(slot).unwrap() -= 1;
            }
            self.line_up(*slot);
        }
        let is_waiting = !without.is_empty() && self.now_ms < since_ms + BARRIER_WAIT_MS_MAX;
        if !is_waiting && self.barrier.sent > 0 && out.len() == with_room.len() {
            self.turn_to(seq, State::Away);
            self.messages[seq as usize].came_back = false;
            settled.push((Kind::Settle, Outcome::Accepted, seq));
            self.barrier.passed_over = without.len() as u32;
            self.barriers_over += 1;
        }
        out
    }
}
