//! Barriers: messages that wait until all before them is gone, go once to every consumer, and hold back all behind them
//! until that is done.
//!
//! Recorded are the positions that are barriers. Volatile is how far the first of them has come: its turn is when it is the
//! head of the queue. A barrier stays ready while it is handed out, so that it may expire, be dropped or be purged as any
//! other message; each consumer is given it settled in advance, so none holds it. Once all have it, its end is recorded, and
//! the rest goes on when that record comes back.
//!
//! A consumer without room is waited for, [`BARRIER_WAIT_MS_MAX`] at most from when there was somebody to hand the barrier
//! to; then it is passed over. A barrier that nobody has yet waits for one that takes it, however long.
//! Not with groups or priorities: the owner sees to that.
//!
//! Invariant: a mark is live.

use crate::command::ConsumerId;
use crate::consumers::{Consumer, Consumers};
use crate::delivery::{Counts, Delivery};
use crate::effect::{Effect, Effects};
use crate::features::Features;
use crate::line::Line;
use base::RangeSet;
use base::id::QueueSeq;
use base::ranges::Range;
use message::record::{Kind, Outcome};
use std::collections::BTreeSet;

/// How long a barrier waits for consumers that have no room, milliseconds.
pub const BARRIER_WAIT_MS_MAX: u64 = 30_000;

/// A consumer: its slot, and how many came before it, which tells it from the next to have that slot.
type Taker = (ConsumerId, u32);

/// The barrier that is the head of the queue.
#[derive(Debug, Default)]
struct Turn {
    seq: u64,
    /// Since when there are consumers to hand it to, milliseconds since 1970.
    since_ms: Option<u64>,
    /// Those that have it.
    given: BTreeSet<Taker>,
    /// How many were given it, be they there or not.
    sent: u64,
    /// When consumers that have no room are passed over, if there are any, milliseconds since 1970.
    deadline_ms: Option<u64>,
    /// All have it: its end is to be recorded.
    is_over: bool,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    /// Recorded.
    marks: RangeSet,
    /// Volatile.
    turn: Option<Box<Turn>>,
}

impl Barriers {
    pub(crate) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.marks.count()
    }

    pub(crate) fn marks(&self) -> &RangeSet {
        &self.marks
    }

    /// A message that just arrived is one.
    pub(crate) fn mark(&mut self, seq: u64) {
        self.marks.insert(Range { first: seq, last: seq });
    }

    /// Live positions that are barriers, as read.
    pub(crate) fn fill(&mut self, marks: RangeSet) {
        self.marks = marks;
    }

    /// Nothing from this position on is handed out.
    #[inline]
    pub(crate) fn first(&self) -> u64 {
        self.marks.first().map_or(u64::MAX, |range| range.first)
    }

    /// Positions are gone.
    pub(crate) fn leave(&mut self, part: Range) {
        if self.marks.remove(part, |_| {}) > 0 {
            self.turn.take_if(|turn| (part.first..=part.last).contains(&turn.seq));
        }
    }

    /// Another owner begins.
    pub(crate) fn forget(&mut self) {
        self.turn = None;
    }

    /// No consumer is there any more: slots, and how many came before, begin anew.
    pub(crate) fn forget_consumers(&mut self) {
        self.turn.iter_mut().for_each(|turn| turn.given.clear());
    }

    /// When consumers are passed over.
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        self.turn.as_ref()?.deadline_ms
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let turn = self.turn.as_ref();
        let given = |turn: &Turn| size_of::<Turn>() + turn.given.len() * size_of::<Taker>() * 3 / 2;
        self.marks.heap_bytes() + turn.map_or(0, |turn| given(turn))
    }
}

/// The work that there is for a barrier.
struct Round {
    /// Consumers that are given it now.
    takers: Vec<Taker>,
    /// Others could be given it as well.
    has_more: bool,
    /// Those that have no room.
    missing: u32,
}

impl Turn {
    /// Looks at the consumers that do not have it, of which at most so many may be given it.
    fn round(&self, consumers: Option<&Consumers>, budget: u32) -> Round {
        let mut round = Round { takers: Vec::new(), has_more: false, missing: 0 };
        let receivers = consumers.into_iter().flat_map(|all| all.iter());
        let receivers = receivers.filter(|(_, consumer)| consumer.receives);
        for (id, consumer) in receivers {
            let taker = taker(id, consumer);
            match self.given.contains(&taker) {
                true => {}
                false if !consumer.can_take() => round.missing += 1,
                false if round.takers.len() < budget as usize => round.takers.push(taker),
                false => round.has_more = true,
            }
        }
        round
    }
}

fn taker(id: ConsumerId, consumer: &Consumer) -> Taker {
    (id, consumer.joined)
}

impl Features {
    /// Hands the barrier that is the head of the queue, if one is, to consumers that do not have it, at most `budget`; how
    /// many it were. Its end is asked for once all have it, or are passed over.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_out_barrier(
        &mut self,
        consumers: Option<&mut Consumers>,
        (now_ms, budget): (u64, u32),
        line: &mut Line,
        effects: &mut Effects,
    ) -> u32 {
        let Some((delivery, mut turn)) = self.take_turn(line) else {
            let turn = self.barriers.as_mut().and_then(|barriers| barriers.turn.as_mut());
            turn.into_iter().for_each(|turn| turn.deadline_ms = None);
            return 0;
        };
        let Round { takers, has_more, missing } = turn.round(consumers.as_deref(), budget);
        turn.deadline_ms = None;
        let is_alone = takers.is_empty() && missing == 0;
        if is_alone && turn.sent == 0 {
            turn.since_ms = None;
            self.put_turn(turn);
            return 0;
        }
        // A clock that was put back prolongs nothing.
        let since_ms = turn.since_ms.map_or(now_ms, |since_ms| since_ms.min(now_ms));
        turn.since_ms = Some(since_ms);
        if let Some(consumers) = consumers {
            for (id, _) in &takers {
                effects.list.push(Effect::DeliverBarrier {
                    consumer: *id,
                    seq: QueueSeq(delivery.range.first),
                    redelivered: delivery.redelivered,
                    delivery_count: delivery.counts.delivery_count,
                    acquired_count: delivery.counts.acquired_count,
                });
                consumers.pass(*id);
            }
        }
        let given = takers.len() as u32;
        turn.sent += u64::from(given);
        turn.given.extend(takers);
        let until_ms = since_ms.saturating_add(BARRIER_WAIT_MS_MAX);
        if missing > 0 && now_ms < until_ms {
            turn.deadline_ms = Some(until_ms);
        } else if turn.sent > 0 && !has_more {
            turn.is_over = true;
        }
        match turn.is_over {
            true => {
                self.hand_out_chosen(delivery.range, line);
                effects.append(Kind::Settle, Outcome::Accepted, delivery.range);
                if missing > 0 {
                    effects.list.push(Effect::PassedOver { consumers: missing });
                }
            }
            false if turn.sent > 0 => self.was_handed(delivery.range),
            false => {}
        }
        self.put_turn(turn);
        given
    }

    /// The barrier that is the head of the queue, where it is ready; it is to be [put back](Features::put_turn).
    fn take_turn(&mut self, line: &Line) -> Option<(Delivery, Box<Turn>)> {
        let seq = self.barriers.as_ref()?.first();
        let delivery = self.barrier_at(seq, line)?;
        let barriers = self.barriers.as_mut()?;
        let turn = barriers.turn.take().filter(|turn| turn.seq == seq);
        Some((delivery, turn.unwrap_or_else(|| Box::new(Turn { seq, ..Turn::default() }))))
    }

    fn put_turn(&mut self, turn: Box<Turn>) {
        if let Some(barriers) = &mut self.barriers {
            barriers.turn = Some(turn);
        }
    }

    /// A barrier as it is handed out, where it is ready and all before it is gone.
    fn barrier_at(&self, seq: u64, line: &Line) -> Option<Delivery> {
        let range = Range { first: seq, last: seq };
        if line.live.head() != seq || self.ready_within(range, line).is_empty() {
            return None;
        }
        let came_back = line.ready.returned().contains(seq) || self.came_back(seq);
        let mut delivery = if came_back { line.again(range) } else { line.fresh(range) };
        if let Some(failures) = self.prior.of(seq) {
            delivery.redelivered = true;
            if line.returns.counts() {
                delivery.counts = Counts::failed_before(failures).shown();
            }
        }
        Some(delivery)
    }

    /// Takes the next position for a get: one in front of the first barrier, or that one where nobody consumes.
    #[cold]
    pub(crate) fn next_barred(&mut self, line: &mut Line, is_consumed: bool) -> Option<Delivery> {
        let first = self.barriers.as_ref()?.first();
        if let Some(delivery) = self.next_below(first, line, 1) {
            return Some(delivery);
        }
        let mut delivery = self.barrier_at(first, line).filter(|_| !is_consumed)?;
        let turn = self.barriers.as_ref().and_then(|barriers| barriers.turn.as_ref());
        delivery.redelivered |= turn.is_some_and(|turn| turn.seq == first && turn.sent > 0);
        self.hand_out_chosen(delivery.range, line);
        Some(delivery)
    }

    /// A barrier was handed to a consumer that was never sent it, and is gone. True: it is over, others were sent it, and its
    /// end is on no record yet.
    #[cold]
    pub(crate) fn barrier_unsent(&mut self, seq: u64, line: &mut Line) -> bool {
        let turn = self.barriers.as_mut().and_then(|barriers| barriers.turn.as_mut());
        let Some(turn) = turn.filter(|turn| turn.seq == seq) else { return false };
        turn.sent = turn.sent.saturating_sub(1);
        if !turn.is_over || turn.sent > 0 {
            return turn.is_over;
        }
        turn.is_over = false;
        self.put_back(Range { first: seq, last: seq }, line);
        false
    }
}
