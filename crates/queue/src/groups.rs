//! Message groups: messages of one group are with one consumer at a time, in order, and others go on beside them.
//!
//! Recorded is the group of each live message that is in one. Volatile is the rest. A message of a group is *out* from
//! when it is handed out, to be settled, until it is gone, dies, or is ready again. Of those that are out some are *held*,
//! by a consumer or by the record that settles them, and some are *back*: given back, and not ready yet. While any
//! message of a group is held, its holder alone is given more of it; behind messages that are back nobody is.
//!
//! Ready messages of groups stay behind the cursor until it comes to them. It passes them on its way to messages that
//! some consumer may have, and from then on they are known by their groups. Messages that were out are known so at
//! once: so a group is in order of position, in any order of returns, and a message that was delayed takes its own
//! place in it. Priorities count for nothing in it.
//!
//! Invariants: a `passed` position is ready, below the cursor, in no other state, and among the `waiting` of its group;
//! `offers` has the first that waits of each group unless a message in front of it is back; a group that is in `groups`
//! has messages that wait or are out.

use crate::ahead::Ahead;
use crate::command::ConsumerId;
use crate::group_numbers::GroupNumbers;
use crate::live::Live;
use crate::ready::Ready;
use crate::settings::GroupKey;
use crate::sizes::Sizes;
use crate::snapshot_fields::{SnapshotError, put, read_digest, read_varint};
use base::cursor::Reader;
use base::put_varint;
use base::ranges::Range;
use base::{RangeSet, Sink};
use std::collections::{BTreeMap, BTreeSet};

/// Stretches of ready messages, each of one group, that the cursor passes at most because no consumer that may have
/// them has room.
pub const PASSED_MAX: usize = 65_536;

/// Messages that are passed and not handed out in one [`crate::Fifo::dispatch`] at most: its work is bounded, and it is
/// due again at once.
pub const PASSED_AT_ONCE_MAX: u32 = 16_384;

/// State of a group some of which is out or was passed.
#[derive(Debug, Default)]
struct Group {
    /// The consumer that has the held messages, or had them last.
    holder: ConsumerId,
    held: RangeSet,
    back: RangeSet,
    waiting: RangeSet,
}

/// The next message of a group, and the one consumer that may have it, if not any.
type Offer = (Option<ConsumerId>, u64);

impl Group {
    fn offer(&self) -> Option<Offer> {
        let first = self.waiting.first()?.first;
        let is_next = self.back.first().is_none_or(|back| first < back.first);
        is_next.then_some(((!self.held.is_empty()).then_some(self.holder), first))
    }

    fn is_idle(&self) -> bool {
        self.held.is_empty() && self.back.is_empty() && self.waiting.is_empty()
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    // Recorded.
    /// The number of its group for each live message that is in one.
    keys: Sizes,
    /// How many these are.
    count: u64,
    // Volatile.
    numbers: GroupNumbers,
    groups: BTreeMap<u32, Group>,
    passed: RangeSet,
    /// Ready ones that were out, and those that were given back in front of the cursor.
    came_back: RangeSet,
    offers: BTreeSet<Offer>,
    /// Stretches of waiting messages, summed up over the groups.
    stretches: usize,
    /// So many may be passed until the end of this handing out.
    passes_left: u32,
    /// The last handing out ended where no more could be passed: there may be something for somebody behind it.
    is_on_the_way: bool,
}

impl Groups {
    /// No live message is in a group.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A message that just arrived is in a group.
    #[cold]
    pub(crate) fn join(&mut self, seq: u64, key: GroupKey, live: &Live) {
        let between = live.count_between(self.keys.end(), seq);
        self.push(seq, key, between);
    }

    /// A position above all others is in a group; `between` of those above the last that is in one are live.
    fn push(&mut self, seq: u64, GroupKey(digest): GroupKey, between: u64) {
        self.keys.push(seq, self.numbers.join(digest), between);
        self.count += 1;
    }

    /// The group of a position.
    pub(crate) fn key(&self, seq: u64) -> Option<GroupKey> {
        self.number(seq).map(|number| GroupKey(self.numbers.digest(number)))
    }

    fn number(&self, seq: u64) -> Option<u32> {
        Some(self.keys.each(Range { first: seq, last: seq }).next()?.1)
    }

    /// Ready positions that were passed.
    pub(crate) fn passed(&self) -> &RangeSet {
        &self.passed
    }

    /// It is ready, and was out.
    pub(crate) fn came_back(&self, seq: u64) -> bool {
        self.came_back.contains(seq)
    }

    /// How many are ready, and were out.
    pub(crate) fn came_back_count(&self) -> u64 {
        self.came_back.count()
    }

    /// No more may be passed.
    pub(crate) fn is_full(&self) -> bool {
        self.stretches >= PASSED_MAX
    }

    fn change(&mut self, key: u32, change: impl FnOnce(&mut Group)) {
        let group = self.groups.entry(key).or_default();
        let before = group.offer();
        self.stretches -= group.waiting.ranges_count();
        change(group);
        self.stretches += group.waiting.ranges_count();
        let after = group.offer();
        let is_idle = group.is_idle();
        if before != after {
            before.iter().for_each(|before| _ = self.offers.remove(before));
            self.offers.extend(after);
        }
        if is_idle {
            self.groups.remove(&key);
        }
    }

    /// Changes the groups of those of `range` that are in any; tells which positions these are.
    fn change_each(&mut self, range: Range, mut change: impl FnMut(&mut Group, Range)) -> RangeSet {
        let keyed: Vec<(u64, u32)> = self.keys.each(range).collect();
        let one = |seq| Range { first: seq, last: seq };
        keyed.iter().for_each(|(seq, key)| self.change(*key, |group| change(group, one(*seq))));
        keyed.into_iter().map(|(seq, _)| one(seq)).collect()
    }

    /// The first that is passed and that this consumer may have.
    pub(crate) fn first_for(&self, id: ConsumerId) -> Option<u64> {
        let first = |whose| self.offers.range((whose, 0)..=(whose, u64::MAX)).next().map(|(_, seq)| *seq);
        first(None).into_iter().chain(first(Some(id))).min()
    }

    /// The cursor passes another position, if one more may be in this handing out.
    pub(crate) fn pass_another(&mut self, seq: u64) -> bool {
        if self.passes_left == 0 {
            self.is_on_the_way = true;
            return false;
        }
        self.passes_left -= 1;
        self.pass(seq);
        true
    }

    /// A ready position that the cursor has passed.
    pub(crate) fn pass(&mut self, seq: u64) {
        let range = Range { first: seq, last: seq };
        self.passed.insert(range);
        self.change_each(range, |group, part| _ = group.waiting.insert(part));
    }

    /// Nobody but this consumer has anything of its group, if it is in one.
    pub(crate) fn is_free_for(&self, seq: u64, id: ConsumerId) -> bool {
        let group = self.number(seq).and_then(|number| self.groups.get(&number));
        group.is_none_or(|group| group.held.is_empty() || group.holder == id)
    }

    /// Ready positions of `range` are ready no more.
    pub(crate) fn withdraw(&mut self, range: Range) {
        let mut gone = Vec::new();
        self.came_back.remove(range, |_| {});
        self.passed.remove(range, |part| gone.push(part));
        for part in gone {
            self.change_each(part, |group, one| _ = group.waiting.remove(one, |_| {}));
        }
    }

    /// A position was handed out, if it is in a group.
    pub(crate) fn hold(&mut self, range: Range, id: ConsumerId) {
        self.change_each(range, |group, part| {
            group.holder = id;
            group.held.insert(part);
        });
    }

    /// Positions are handed out from here on, as many as `budget`: each is passed before.
    pub(crate) fn begin(&mut self, budget: u32) {
        self.passes_left = PASSED_AT_ONCE_MAX.saturating_add(budget);
        self.is_on_the_way = false;
    }

    /// One position is to be handed out, and whether there is one is to be said now.
    pub(crate) fn begin_one(&mut self) {
        self.passes_left = u32::MAX;
    }

    /// It was not seen yet whether some consumer can be given a message behind those that are passed.
    pub(crate) fn is_on_the_way(&self) -> bool {
        self.is_on_the_way
    }

    /// Held positions of `range` are back.
    pub(crate) fn give_back(&mut self, range: Range) {
        self.change_each(range, |group, part| {
            if group.held.remove(part, |_| {}) > 0 {
                group.back.insert(part);
            }
        });
    }

    /// Positions of `range` are out no more: which of them are in groups.
    pub(crate) fn let_go(&mut self, range: Range) -> RangeSet {
        self.came_back.remove(range, |_| {});
        self.change_each(range, |group, part| {
            group.held.remove(part, |_| {});
            group.back.remove(part, |_| {});
        })
    }

    /// Positions are ready that were out or waited for their time. Those in no group are told: they have yet to find their
    /// place.
    pub(crate) fn rejoin(
        &mut self,
        range: Range,
        was_out: bool,
        ready: &mut Ready,
        ahead: &mut Ahead,
    ) -> RangeSet {
        let cursor = ready.cursor();
        let keyed = self.let_go(range);
        for seq in keyed.iter().flat_map(|part| part.first..=part.last) {
            let one = Range { first: seq, last: seq };
            if was_out {
                self.came_back.insert(one);
            }
            if seq < cursor {
                self.pass(seq);
            } else {
                // The cursor will come to it.
                ahead.show(one, ready);
            }
        }
        keyed.gaps(range).collect()
    }

    /// Positions are gone.
    pub(crate) fn leave(&mut self, range: Range) {
        self.withdraw(range);
        self.let_go(range);
        for (_, number) in self.keys.each(range) {
            self.numbers.leave(number);
            self.count -= 1;
        }
        self.keys.leave(range);
    }

    /// Everything live is ready, as if it never was out, but for messages that came back and wait for their time.
    pub(crate) fn forget(&mut self, back: impl Iterator<Item = Range>) {
        let (keys, numbers) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.numbers));
        *self = Groups { keys, numbers, count: self.count, ..Groups::default() };
        for range in back {
            self.change_each(range, |group, part| _ = group.back.insert(part));
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let of_group = |group: &Group| {
            // A node has room for eleven; two thirds are in use.
            size_of::<(u32, Group)>() * 3 / 2
                + [&group.held, &group.back, &group.waiting].map(RangeSet::heap_bytes).iter().sum::<usize>()
        };
        self.keys.heap_bytes()
            + self.numbers.heap_bytes()
            + self.passed.heap_bytes()
            + self.came_back.heap_bytes()
            + self.groups.values().map(of_group).sum::<usize>()
            + self.offers.len() * size_of::<Offer>() * 3 / 2
    }

    /// Keys in the order in which they come up, and for every live position which of them it has, counted from 1; 0: none.
    pub(crate) fn write(&self, live: &Live, out: &mut impl Sink) {
        let mut numbers: BTreeMap<u32, u64> = BTreeMap::new();
        let mut keys: Vec<u32> = Vec::new();
        let mut positions: Vec<u8> = Vec::new();
        for part in live.all() {
            let mut next = part.first;
            for (seq, key) in self.keys.each(part) {
                positions.resize(positions.len() + (seq - next) as usize, 0);
                let number = *numbers.entry(key).or_insert_with(|| {
                    keys.push(key);
                    keys.len() as u64
                });
                put_varint(&mut positions, number);
                next = seq + 1;
            }
            positions.resize(positions.len() + (part.last + 1 - next) as usize, 0);
        }
        put(out, keys.len() as u64);
        keys.iter().for_each(|key| out.put(&self.numbers.digest(*key).bytes()));
        out.put(&positions);
    }

    /// Reads the bytes of [`Groups::write`].
    pub(crate) fn read(live: &Live, reader: &mut Reader<'_>) -> Result<Groups, SnapshotError> {
        const PART: &str = "groups";
        let broken = Err(SnapshotError::Broken(PART));
        let mut keys = Vec::new();
        let mut known = BTreeSet::new();
        for _ in 0..reader.u64_le()? {
            let digest = read_digest(reader)?;
            if !known.insert(digest) {
                return broken;
            }
            keys.push(GroupKey(digest));
        }
        let mut groups = Groups::default();
        let (mut seen, mut between) = (0, 0);
        for seq in live.all().flat_map(|part| part.first..=part.last) {
            let number = read_varint(reader, PART)?;
            // Each comes up behind those before it.
            let is_next = number <= seen + 1 && number <= keys.len() as u64;
            match (is_next, number.checked_sub(1)) {
                (false, _) => return broken,
                (true, None) => between += 1,
                (true, Some(at)) => {
                    groups.push(seq, keys[at as usize], std::mem::take(&mut between));
                    seen = seen.max(number);
                }
            }
        }
        if seen == keys.len() as u64 && seen > 0 { Ok(groups) } else { broken }
    }
}
