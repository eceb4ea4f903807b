//! Consumers of a queue: their slots, their credit, and the order of their turns.
//!
//! Consumers that could take a message stand in a ring per priority; only rings with somebody in them exist. So finding
//! the next in turn costs O(1), however many consumers are idle or blocked.
//! Where fairness is more than turns, they stand in a ranking instead (`crate::ranking`).
//! Knows nothing of positions but those that each consumer holds. Where one consumer at a time is active, that one
//! stands in `crate::active`.
//!
//! Invariants: a consumer is in the ring of its priority, or in the ranking, exactly while [`Consumer::can_take`];
//! `unsettled` is how many positions all of them hold.

use crate::active::Active;
use crate::command::{Consume, ConsumerId, Credit, Refused};
use crate::consumer_timeout::Watch;
use crate::effect::{Accepted, Effect, Effects};
use crate::priority_blocks::Block;
use crate::ranking::Ranking;
use crate::selector_sets::{SelectorId, SelectorSet};
use crate::settings::Fairness;
use crate::timeout_rounds::Rounds;
use base::RangeSet;
use base::ranges::Range;

/// A consumer, or the rest of it while it holds something.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) unsettled: RangeSet,
    pub(crate) credit: Credit,
    pub(crate) priority: i32,
    /// It wants only messages of which this is true.
    pub(crate) selector: Option<SelectorId>,
    /// How many came before it, at least.
    pub(crate) joined: u32,
    next: u32,
    previous: u32,
    role: Role,
    /// Deliveries to it are settled at once.
    pub(crate) settled: bool,
    /// Why it is given nothing though it has room: [`PAUSED`], [`LATE`], [`FULL`].
    pub(crate) held_up: u8,
    pub(crate) drain: bool,
    /// It is a consumer, and not one that waits to become the active one.
    pub(crate) receives: bool,
    standing: Standing,
    /// It is watched, and no look is at it: it held nothing at the last.
    pub(crate) is_unmarked: bool,
    /// How long it has held its messages, where that has an end.
    pub(crate) watch: Option<Box<Watch>>,
}

/// Its connection cannot take more for now.
const PAUSED: u8 = 1;

/// It has not settled messages that were taken back from it.
pub(crate) const LATE: u8 = 2;

/// Its node has not heard of much that it was told.
const FULL: u8 = 4;

/// Where a consumer stands. The numbers are such that one comparison tells whether that is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Standing {
    /// Nowhere: it can take nothing.
    Out = 0,
    InRing = 1,
    /// In the ranking, which depends on all that changes.
    Ranked = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Consumer,
    Exclusive,
    /// Holds the messages it was given and is given none by itself: stands for gets, or was cancelled.
    Holder,
}

impl Consumer {
    /// Messages it may be given now.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        match self.credit {
            Credit::Prefetch(0) => u32::MAX,
            Credit::Prefetch(_) if self.settled => u32::MAX,
            Credit::Prefetch(prefetch) => {
                u64::from(prefetch).saturating_sub(self.unsettled.count()).try_into().unwrap_or(u32::MAX)
            }
            Credit::Link(credit) => credit,
        }
    }

    pub(crate) fn is_consumer(&self) -> bool {
        self.role != Role::Holder
    }

    /// It is a consumer with this selector.
    pub(crate) fn wants(&self, id: SelectorId) -> bool {
        self.is_consumer() && self.selector == Some(id)
    }

    /// It is a consumer, and another one is active.
    pub(crate) fn waits(&self) -> bool {
        self.is_consumer() && !self.receives
    }

    pub(crate) fn is_late(&self) -> bool {
        self.held_up & LATE != 0
    }

    fn key(&self) -> RingKey {
        (self.priority, self.selector)
    }

    #[inline]
    pub(crate) fn can_take(&self) -> bool {
        self.held_up == 0 && self.receives && self.room() > 0
    }
}

/// The ring of one priority, and of those of one selector or of none.
#[derive(Debug)]
struct Ring {
    key: RingKey,
    /// The consumer that is next.
    turn: u32,
}

/// Rings of a higher priority go first; among those of one priority the ones with selectors take turns.
type RingKey = (i32, Option<SelectorId>);

/// All consumers of a queue.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    pub(crate) slots: Vec<Option<Consumer>>,
    /// Lowest key first; none is empty.
    rings: Vec<Ring>,
    /// The selector, or none, of the one that was given something last where some have one.
    served: Option<SelectorId>,
    /// In place of the rings, where consumers do not take turns.
    ranking: Option<Box<Ranking>>,
    /// Those asked to drain.
    draining: Vec<ConsumerId>,
    /// Positions they hold, all of them together.
    pub(crate) unsettled: u64,
    consumers: u32,
    /// How many of them settle what they are given at once.
    settling: u32,
    joined: u32,
    has_exclusive: bool,
    pub(crate) active: Active,
    /// When consumers are looked at, where holding has an end.
    pub(crate) rounds: Option<Box<Rounds>>,
}

impl Consumers {
    /// Consumers; cancelled ones and those that stand for gets do not count.
    pub(crate) fn consumers(&self) -> u32 {
        self.consumers
    }

    /// Somebody could take a message.
    pub(crate) fn has_taker(&self) -> bool {
        !self.rings.is_empty() || self.ranking.as_ref().is_some_and(|ranking| !ranking.is_empty())
    }

    /// From now on the next consumer is found so.
    pub(crate) fn set_fairness(&mut self, fairness: Fairness) {
        if self.ranking.as_ref().map_or(Fairness::RoundRobin, |ranking| ranking.fairness()) == fairness {
            return;
        }
        let mut all: Vec<(u32, ConsumerId)> = Vec::new();
        all.extend(self.iter().map(|(id, consumer)| (consumer.joined, id)));
        all.sort_unstable_by_key(|(joined, _)| *joined);
        for (_, id) in &all {
            self.leave_standing(*id);
        }
        self.ranking = match fairness {
            Fairness::RoundRobin => None,
            fairness => Some(Box::new(Ranking::new(fairness))),
        };
        for (_, id) in all {
            self.ranking.iter_mut().for_each(|ranking| ranking.join(id));
            self.refresh(id);
        }
    }

    /// Some consumer settles what it is given at once.
    pub(crate) fn has_settling(&self) -> bool {
        self.settling > 0
    }

    /// Deliveries to it are settled at once.
    pub(crate) fn settles(&self, id: ConsumerId) -> bool {
        self.get(id).is_some_and(|consumer| consumer.settled)
    }

    /// Messages its consumers could take now, counted until there are `most`.
    pub(crate) fn room(&self, most: u64) -> u64 {
        let mut sum = 0;
        let takers = self.slots.iter().flatten().filter(|consumer| consumer.can_take());
        for consumer in takers {
            sum += u64::from(consumer.room());
            if sum >= most {
                return most;
            }
        }
        sum
    }

    /// Nobody is left, not even to hold something.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let of_each = |consumer: &Consumer| {
            let watch = consumer.watch.as_ref().map_or(0, |watch| size_of::<Watch>() + watch.heap_bytes());
            consumer.unsettled.heap_bytes() + watch
        };
        let held: usize = self.iter().map(|(_, consumer)| of_each(consumer)).sum();
        held + self.slots.capacity() * size_of::<Option<Consumer>>()
            + self.rings.capacity() * size_of::<Ring>()
            + self.ranking.as_ref().map_or(0, |ranking| size_of::<Ranking>() + ranking.heap_bytes())
            + self.draining.capacity() * size_of::<ConsumerId>()
            + self.rounds.as_ref().map_or(0, |rounds| size_of::<Rounds>() + rounds.heap_bytes())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConsumerId, &Consumer)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, consumer)| Some((ConsumerId(slot as u32), consumer.as_ref()?)))
    }

    #[inline]
    pub(crate) fn get(&self, id: ConsumerId) -> Option<&Consumer> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// To change a value that credit depends on, call [`Consumers::refresh`] afterwards.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    /// Whether a new consumer is admitted.
    pub(crate) fn admit(&self, exclusive: bool) -> Result<(), Refused> {
        match () {
            () if self.has_exclusive => Err(Refused::Exclusive),
            () if exclusive && self.consumers > 0 => Err(Refused::InUse),
            () => Ok(()),
        }
    }

    /// Adds a consumer that was admitted. Panics where the slot is taken.
    pub(crate) fn consume(&mut self, new: Consume) {
        let Consume { consumer, credit, settled, exclusive, priority, selector } = new;
        let role = if exclusive { Role::Exclusive } else { Role::Consumer };
        self.consumers += 1;
        self.settling += u32::from(settled);
        self.has_exclusive |= exclusive;
        self.active.is_open = true;
        self.add(consumer, credit, settled, (priority, selector), role);
        self.refresh(consumer);
    }

    /// Adds one that only holds. Panics where the slot is taken.
    pub(crate) fn add_holder(&mut self, id: ConsumerId) {
        self.add(id, Credit::Link(0), false, (0, None), Role::Holder);
    }

    fn add(&mut self, id: ConsumerId, credit: Credit, settled: bool, key: RingKey, role: Role) {
        let slot = id.0 as usize;
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        assert!(self.slots[slot].is_none(), "slot {slot} is taken");
        let unsettled = RangeSet::new();
        let (next, previous) = (id.0, id.0);
        let drain = false;
        let receives = role != Role::Holder;
        let (priority, selector) = key;
        let joined = self.joined;
        self.joined = joined.wrapping_add(1);
        self.slots[slot] = Some(Consumer {
            unsettled,
            credit,
            priority,
            selector,
            joined,
            next,
            previous,
            role,
            settled,
            held_up: 0,
            drain,
            receives,
            standing: Standing::Out,
            is_unmarked: false,
            watch: None,
        });
        self.ranking.iter_mut().for_each(|ranking| ranking.join(id));
    }

    /// It is given nothing more, but stays to hold its messages.
    pub(crate) fn cancel(&mut self, id: ConsumerId) {
        let Some(consumer) = self.get_mut(id) else { return };
        let role = std::mem::replace(&mut consumer.role, Role::Holder);
        let settled = consumer.settled;
        consumer.drain = false;
        consumer.receives = false;
        self.active.leave(id);
        self.consumers -= u32::from(role != Role::Holder);
        self.settling -= u32::from(role != Role::Holder && settled);
        self.has_exclusive &= role != Role::Exclusive;
        self.draining.retain(|draining| *draining != id);
        self.refresh(id);
    }

    /// Takes it away: the positions that it holds.
    pub(crate) fn remove(&mut self, id: ConsumerId) -> RangeSet {
        self.cancel(id);
        self.end_watch(id);
        let removed = self.slots.get_mut(id.0 as usize).and_then(Option::take);
        while let Some(None) = self.slots.last() {
            self.slots.pop();
        }
        let held = removed.map(|consumer| consumer.unsettled).unwrap_or_default();
        self.unsettled -= held.count();
        held
    }

    /// Sets its link credit.
    pub(crate) fn credit(&mut self, id: ConsumerId, credit: u32, drain: bool) {
        let Some(consumer) = self.get_mut(id) else { return };
        consumer.credit = Credit::Link(credit);
        let was_draining = std::mem::replace(&mut consumer.drain, drain);
        match (was_draining, drain) {
            (false, true) => self.draining.push(id),
            (true, false) => self.draining.retain(|draining| *draining != id),
            _ => {}
        }
        self.refresh(id);
        self.set_prefetch(id, None);
    }

    /// Sets its prefetch.
    pub(crate) fn prefetch(&mut self, id: ConsumerId, prefetch: u32) {
        let Some(consumer) = self.get_mut(id) else { return };
        consumer.credit = Credit::Prefetch(prefetch);
        if std::mem::take(&mut consumer.drain) {
            self.draining.retain(|draining| *draining != id);
        }
        self.refresh(id);
        self.set_prefetch(id, Some(prefetch));
    }

    /// Its connection cannot take more for now, or can again.
    pub(crate) fn pause(&mut self, id: ConsumerId, paused: bool) {
        if let Some(consumer) = self.get_mut(id) {
            consumer.held_up = (consumer.held_up & !PAUSED) | if paused { PAUSED } else { 0 };
            self.refresh(id);
        }
    }

    /// Its node cannot take more, or can again.
    pub(crate) fn hold_up(&mut self, id: ConsumerId, held_up: bool) {
        if let Some(consumer) = self.get_mut(id) {
            consumer.held_up = (consumer.held_up & !FULL) | if held_up { FULL } else { 0 };
            self.refresh(id);
        }
    }

    /// Positions of `range` that it holds are settled or refused, of which `part` is told: how many.
    #[inline]
    pub(crate) fn let_go(&mut self, id: ConsumerId, range: Range, part: impl FnMut(Range)) -> u64 {
        let Some(consumer) = self.get_mut(id) else { return 0 };
        let count = consumer.unsettled.remove(range, part);
        self.unsettled -= count;
        self.refresh(id);
        count
    }

    /// As [`Consumers::let_go`], of some positions of the block that begins at `block`: which they were.
    pub(crate) fn let_go_bits(&mut self, id: ConsumerId, block: u64, bits: u64) -> u64 {
        let Some(consumer) = self.get_mut(id) else { return 0 };
        let taken = consumer.unsettled.remove_bits(block, bits);
        self.unsettled -= u64::from(taken.count_ones());
        self.refresh(id);
        taken
    }

    /// Positions of `range` that it holds come back from it: which they are.
    pub(crate) fn give_back(&mut self, id: ConsumerId, range: Range) -> RangeSet {
        let mut parts = RangeSet::new();
        self.let_go(id, range, |part| _ = parts.insert(part));
        if let Some(watch) = self.get_mut(id).and_then(|consumer| consumer.watch.as_mut()) {
            watch.forget(range);
        }
        parts
    }

    /// Puts it into the ring or takes it out, as it can or cannot take messages.
    #[inline]
    pub(crate) fn refresh(&mut self, id: ConsumerId) {
        let Some(consumer) = self.get(id) else { return };
        if consumer.standing as u8 != u8::from(consumer.can_take()) {
            self.change_standing(id);
        }
    }

    fn change_standing(&mut self, id: ConsumerId) {
        let can_take = self.get(id).is_some_and(Consumer::can_take);
        if self.ranking.is_some() {
            return self.rank(id, can_take);
        }
        match can_take {
            true => self.enter(id.0),
            false => self.leave(id.0),
        }
    }

    /// Gives it its place in the ranking, or none.
    fn rank(&mut self, id: ConsumerId, can_take: bool) {
        let Consumers { slots, ranking: Some(ranking), .. } = self else { return };
        let Some(consumer) = slots.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        if can_take {
            consumer.standing = Standing::Ranked;
            ranking.place(id, consumer);
        } else {
            consumer.standing = Standing::Out;
            ranking.remove(id);
        }
    }

    /// It is neither in a ring nor in the ranking.
    fn leave_standing(&mut self, id: ConsumerId) {
        match self.consumer(id.0).standing {
            Standing::Out => {}
            Standing::InRing => self.leave(id.0),
            Standing::Ranked => self.rank(id, false),
        }
    }

    /// The consumer that is next, and how many it may be given now: one, unless the ring is its alone.
    #[inline(always)]
    pub(crate) fn turn(&self) -> Option<(ConsumerId, u32)> {
        let turn = self.rings.last()?.turn;
        let consumer = self.consumer(turn);
        let count_max = if consumer.next == turn { consumer.room() } else { 1 };
        Some((ConsumerId(turn), count_max))
    }

    /// As [`Consumers::turn`], of those whose selector, or want of one, `has` something: of the highest priority that has any
    /// of them, the ones behind those that were given something last.
    pub(crate) fn turn_among(
        &self,
        has: impl Fn(Option<SelectorId>) -> bool,
    ) -> Option<(ConsumerId, u32, Option<SelectorId>)> {
        let mut end = self.rings.len();
        while end > 0 {
            let (first, behind) = self.rings_of_last(end);
            let mut rings = self.rings[behind..end].iter().chain(&self.rings[first..behind]);
            if let Some(ring) = rings.find(|ring| has(ring.key.1)) {
                let consumer = self.consumer(ring.turn);
                let is_alone = consumer.next == ring.turn && first + 1 == end;
                let count_max = if is_alone { consumer.room() } else { 1 };
                return Some((ConsumerId(ring.turn), count_max, ring.key.1));
            }
            end = first;
        }
        None
    }

    /// Of the rings below `end` the first one of the priority of the last, and the first of those behind the one whose consumer was
    /// given something last.
    fn rings_of_last(&self, end: usize) -> (usize, usize) {
        let rings = &self.rings[..end];
        let priority = rings[end - 1].key.0;
        let first = rings.partition_point(|ring| ring.key.0 < priority);
        (first, rings.partition_point(|ring| ring.key <= (priority, self.served)))
    }

    /// All that could take something, in turn: a step for each.
    pub(crate) fn takers(&self) -> Vec<ConsumerId> {
        if let Some(ranking) = &self.ranking {
            return ranking.in_order();
        }
        let mut takers = Vec::new();
        let mut end = self.rings.len();
        while end > 0 {
            let (first, behind) = self.rings_of_last(end);
            for ring in self.rings[behind..end].iter().chain(&self.rings[first..behind]) {
                let others = std::iter::successors(Some(ring.turn), |slot| {
                    Some(self.consumer(*slot).next).filter(|next| *next != ring.turn)
                });
                takers.extend(others.map(ConsumerId));
            }
            end = first;
        }
        takers
    }

    /// One with this selector, or without, was given something.
    pub(crate) fn served(&mut self, selector: Option<SelectorId>) {
        self.served = selector;
    }

    /// The selector of a consumer that has one.
    pub(crate) fn selector(&self, id: ConsumerId) -> Option<SelectorId> {
        self.get(id)?.selector
    }

    /// The selectors of all that are consumers; none where one of them wants everything.
    pub(crate) fn selectors(&self) -> Option<SelectorSet> {
        let mut set = SelectorSet::default();
        for (_, consumer) in self.iter().filter(|(_, consumer)| consumer.is_consumer()) {
            set.insert(consumer.selector?);
        }
        Some(set)
    }

    /// As [`Consumers::turn`], in the ranking too.
    pub(crate) fn next_taker(&self) -> Option<(ConsumerId, u32)> {
        let Some(ranking) = &self.ranking else { return self.turn() };
        let (id, takes_all) = ranking.first()?;
        Some((id, if takes_all { self.consumer(id.0).room() } else { 1 }))
    }

    /// All behind the one that is next that could take something, in order. It costs a step for each, and in the ranking
    /// as many as the logarithm of their number.
    pub(crate) fn takers_behind(&self, first: ConsumerId) -> Vec<ConsumerId> {
        if let Some(ranking) = &self.ranking {
            return ranking.in_order().split_off(1);
        }
        std::iter::successors(self.after(first), |id| self.after(*id)).collect()
    }

    /// Gives it positions: true, it holds them; false, they are settled at once.
    #[inline(always)]
    pub(crate) fn give(
        &mut self,
        id: ConsumerId,
        range: Range,
        accepted: &mut Accepted,
        effects: &mut Effects,
    ) -> bool {
        let consumer = self.consumer_mut(id.0);
        let count = range.len() as u32;
        if let Credit::Link(credit) = &mut consumer.credit {
            *credit -= count;
        }
        if consumer.settled {
            accepted.add(range, effects);
            return false;
        }
        consumer.unsettled.insert(range);
        self.unsettled += u64::from(count);
        true
    }

    /// As [`Consumers::give`], of some positions of the block that begins at `block`.
    pub(crate) fn give_bits(
        &mut self,
        id: ConsumerId,
        block: u64,
        bits: u64,
        accepted: &mut Accepted,
        effects: &mut Effects,
    ) {
        let consumer = self.consumer_mut(id.0);
        if let Credit::Link(credit) = &mut consumer.credit {
            *credit -= bits.count_ones();
        }
        if consumer.settled {
            Block::runs_of(block, bits, &mut |range| accepted.add(range, effects));
        } else {
            consumer.unsettled.insert_bits(block, bits);
            self.unsettled += u64::from(bits.count_ones());
        }
    }

    /// It is given a message out of turn that it never holds: of its link's credit one is used up.
    pub(crate) fn pass(&mut self, id: ConsumerId) {
        if let Some(Consumer { credit: Credit::Link(credit), .. }) = self.get_mut(id) {
            *credit -= 1;
        }
        self.refresh(id);
    }

    /// Gives it positions to hold, out of turn and at any credit; [`Consumers::got`] is to follow.
    pub(crate) fn hold(&mut self, id: ConsumerId, range: Range) {
        if let Some(consumer) = self.get_mut(id) {
            self.unsettled += consumer.unsettled.insert(range);
        }
    }

    /// The consumer in turn got something: the next is on, if there is one.
    #[inline]
    pub(crate) fn took(&mut self, id: ConsumerId) {
        let consumer = self.consumer(id.0);
        let (next, stays, is_unmarked) = (consumer.next, consumer.can_take(), consumer.is_unmarked);
        if is_unmarked {
            self.mark(id);
        }
        if stays {
            if let Some(ring) = self.rings.last_mut() {
                ring.turn = next;
            }
        } else {
            self.leave(id.0);
        }
    }

    /// The consumer behind one that has nothing to take.
    pub(crate) fn after(&self, id: ConsumerId) -> Option<ConsumerId> {
        let consumer = self.consumer(id.0);
        let (next, at) = (consumer.next, self.ring(consumer.key()).ok()?);
        if next != self.rings[at].turn {
            return Some(ConsumerId(next));
        }
        Some(ConsumerId(self.rings[at.checked_sub(1)?].turn))
    }

    /// It got something, though it may not have been its turn: the consumer behind it is on.
    pub(crate) fn took_before(&mut self, id: ConsumerId) {
        let consumer = self.consumer(id.0);
        let (next, key) = (consumer.next, consumer.key());
        if let Ok(at) = self.ring(key) {
            self.rings[at].turn = next;
        }
        self.got(id);
    }

    /// As [`Consumers::took_before`], in the ranking too.
    pub(crate) fn took_any(&mut self, id: ConsumerId) {
        match &mut self.ranking {
            Some(ranking) => {
                ranking.took(id);
                self.got(id);
            }
            None => self.took_before(id),
        }
    }

    /// It was given something to hold, out of turn.
    #[inline]
    pub(crate) fn got(&mut self, id: ConsumerId) {
        if self.get(id).is_some_and(|consumer| consumer.is_unmarked) {
            self.mark(id);
        }
        self.refresh(id);
    }

    #[inline]
    fn consumer(&self, slot: u32) -> &Consumer {
        self.slots[slot as usize].as_ref().expect("rings hold only consumers that are there")
    }

    #[inline]
    fn consumer_mut(&mut self, slot: u32) -> &mut Consumer {
        self.slots[slot as usize].as_mut().expect("rings hold only consumers that are there")
    }

    /// Somebody is asked to drain.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        !self.draining.is_empty()
    }

    /// Draining consumers whose credit is used up are done draining; where nothing is ready, all; where all were
    /// `asked`, those that could have taken something, and whose selector is not `behind`.
    #[cold]
    pub(crate) fn drain(
        &mut self,
        is_empty: bool,
        asked: bool,
        is_behind: impl Fn(SelectorId) -> bool,
        effects: &mut Effects,
    ) {
        let mut draining = std::mem::take(&mut self.draining);
        draining.retain(|id| {
            let Some(consumer) = self.get_mut(*id) else { return false };
            let Credit::Link(unused) = consumer.credit else { return false };
            // A consumer that waits to become the active one, or is late, has nothing coming.
            let was_asked = asked && !consumer.selector.is_some_and(&is_behind);
            let is_over = is_empty || was_asked && consumer.receives && consumer.held_up == 0;
            if !is_over && unused > 0 && !consumer.waits() && !consumer.is_late() {
                return true;
            }
            consumer.credit = Credit::Link(0);
            consumer.drain = false;
            effects.list.push(Effect::Drained { consumer: *id, unused });
            self.refresh(*id);
            false
        });
        self.draining = draining;
    }

    fn ring(&self, key: RingKey) -> Result<usize, usize> {
        self.rings.binary_search_by_key(&key, |ring| ring.key)
    }

    /// Joins its ring behind everybody else.
    fn enter(&mut self, slot: u32) {
        let key = self.consumer(slot).key();
        self.consumer_mut(slot).standing = Standing::InRing;
        match self.ring(key) {
            Ok(at) => {
                let turn = self.rings[at].turn;
                let last = self.consumer(turn).previous;
                self.consumer_mut(turn).previous = slot;
                self.consumer_mut(last).next = slot;
                let consumer = self.consumer_mut(slot);
                (consumer.previous, consumer.next) = (last, turn);
            }
            Err(at) => {
                let consumer = self.consumer_mut(slot);
                (consumer.previous, consumer.next) = (slot, slot);
                self.rings.insert(at, Ring { key, turn: slot });
            }
        }
    }

    fn leave(&mut self, slot: u32) {
        let consumer = self.consumer_mut(slot);
        consumer.standing = Standing::Out;
        let (previous, next, key) = (consumer.previous, consumer.next, consumer.key());
        self.consumer_mut(previous).next = next;
        self.consumer_mut(next).previous = previous;
        if let Ok(at) = self.ring(key) {
            if next == slot {
                self.rings.remove(at);
            } else if self.rings[at].turn == slot {
                self.rings[at].turn = next;
            }
        }
    }
}
