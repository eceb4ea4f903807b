//! Turns to be looked at, of consumers that may hold what they are given for some time only.
//!
//! They stand in classes by how often they need a look, each class half as often as the one before. Of a class only
//! those are looked at that are marked: a consumer that is given something is, and stays so until a look finds that it
//! holds nothing.
//! Not here: the messages that they hold, and since when ([`crate::consumer_timeout`]).
//!
//! Invariant: a consumer that is watched and holds something is marked in its class.

use crate::command::ConsumerId;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A timeout is told this much apart from others by the looks at it.
const LOOKS: u64 = 64;

/// Milliseconds between two looks at least.
const LOOK_MS_MIN: u64 = 10;

/// Milliseconds between two looks that this timeout needs.
fn every_ms(timeout_ms: u64) -> u64 {
    (timeout_ms / LOOKS).max(LOOK_MS_MIN)
}

/// All that are watched of a queue. See the module.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The shortest timeout, milliseconds, and how many have it. Mostly it is the only one.
    shortest: (u64, u32),
    /// How many have each longer one; none has nobody.
    longer: BTreeMap<u64, u32>,
    /// Those that are looked at most often first; none is without members.
    classes: Vec<Class>,
    /// How many consumers have not settled messages that were taken back from them.
    pub(crate) late: u32,
}

#[derive(Debug)]
struct Class {
    /// Its members need looks this many milliseconds apart, a power of two, or up to twice as many.
    gap_ms: u64,
    members: u32,
    looked_at_ms: Option<u64>,
    /// A bit for each slot, up to the last of a member at least.
    marks: Vec<u64>,
}

impl Class {
    fn gap_ms(timeout_ms: u64) -> u64 {
        1 << every_ms(timeout_ms).ilog2()
    }
}

impl Rounds {
    /// Somebody is watched from now on. It is not marked.
    pub(crate) fn enter(&mut self, id: ConsumerId, timeout_ms: u64) {
        if self.shortest.1 == 0 {
            self.shortest.0 = timeout_ms;
        } else if timeout_ms < self.shortest.0 {
            let (before_ms, count) = std::mem::replace(&mut self.shortest, (timeout_ms, 0));
            self.longer.insert(before_ms, count);
        }
        match timeout_ms == self.shortest.0 {
            true => self.shortest.1 += 1,
            false => *self.longer.entry(timeout_ms).or_default() += 1,
        }
        let gap_ms = Class::gap_ms(timeout_ms);
        let at = self.classes.binary_search_by_key(&gap_ms, |class| class.gap_ms).unwrap_or_else(|at| {
            // Mostly it stays the only one.
            self.classes.reserve_exact(1);
            self.classes.insert(at, Class { gap_ms, members: 0, looked_at_ms: None, marks: Vec::new() });
            at
        });
        let class = &mut self.classes[at];
        class.members += 1;
        // Room for its mark now: marking is part of handing out.
        let words = id.0 as usize / 64 + 1;
        if class.marks.is_empty() {
            class.marks.reserve_exact(words);
        }
        class.marks.resize(class.marks.len().max(words), 0);
    }

    /// Somebody that entered with this timeout is watched no more.
    pub(crate) fn leave(&mut self, id: ConsumerId, timeout_ms: u64) {
        self.unmark(id, timeout_ms);
        if timeout_ms == self.shortest.0 {
            self.shortest.1 -= 1;
            if self.shortest.1 == 0 {
                self.shortest = self.longer.pop_first().unwrap_or_default();
            }
        } else if let Entry::Occupied(mut count) = self.longer.entry(timeout_ms) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        let gap_ms = Class::gap_ms(timeout_ms);
        if let Ok(at) = self.classes.binary_search_by_key(&gap_ms, |class| class.gap_ms) {
            self.classes[at].members -= 1;
            if self.classes[at].members == 0 {
                self.classes.remove(at);
            }
        }
    }

    /// Nobody is watched.
    pub(crate) fn is_empty(&self) -> bool {
        self.shortest.1 == 0
    }

    /// Somebody that entered with this timeout was given something.
    pub(crate) fn mark(&mut self, id: ConsumerId, timeout_ms: u64) {
        if let Some(marks) = self.marks(timeout_ms) {
            marks[id.0 as usize / 64] |= 1 << (id.0 % 64);
        }
    }

    /// It holds nothing.
    pub(crate) fn unmark(&mut self, id: ConsumerId, timeout_ms: u64) {
        if let Some(marks) = self.marks(timeout_ms) {
            marks[id.0 as usize / 64] &= !(1 << (id.0 % 64));
        }
    }

    fn marks(&mut self, timeout_ms: u64) -> Option<&mut Vec<u64>> {
        let gap_ms = Class::gap_ms(timeout_ms);
        let at = self.classes.binary_search_by_key(&gap_ms, |class| class.gap_ms).ok()?;
        Some(&mut self.classes[at].marks)
    }

    /// How many milliseconds lie between two looks, if anybody is watched.
    pub(crate) fn every_ms(&self) -> Option<u64> {
        (!self.is_empty()).then(|| every_ms(self.shortest.0))
    }

    /// Consumers to be looked at at `now_ms`: those that are marked, of the classes for which the next look would be too late. Lowest slot
    /// first.
    pub(crate) fn begin(&mut self, now_ms: u64) -> Vec<ConsumerId> {
        let next_ms = now_ms.saturating_add(self.every_ms().unwrap_or_default());
        let mut due = Vec::new();
        for class in &mut self.classes {
            if class.looked_at_ms.is_some_and(|before_ms| next_ms < before_ms.saturating_add(class.gap_ms)) {
                continue;
            }
            class.looked_at_ms = Some(now_ms);
            for (word, marks) in class.marks.iter().enumerate() {
                let mut rest = *marks;
                while rest != 0 {
                    due.push(ConsumerId(word as u32 * 64 + rest.trailing_zeros()));
                    rest &= rest - 1;
                }
            }
        }
        due.sort_unstable_by_key(|id| id.0);
        due
    }

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let marks: usize = self.classes.iter().map(|class| class.marks.capacity() * size_of::<u64>()).sum();
        marks + self.classes.capacity() * size_of::<Class>() + self.longer.len() * 32
    }
}
