//! When to look at a connection again although it said nothing.
//!
//! A heap of (moment, slot) with lazy removal: setting a later moment writes one number into the slot's row, an earlier
//! one adds an entry. So pushing a heartbeat further away, which every turn with traffic does, costs no heap work.
//! Invariant: a slot with a moment has an entry in the heap that is not later than it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No moment.
const NEVER: u64 = u64::MAX;

/// Moments by slot, in monotonic nanoseconds.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Per slot: the moment wanted, and the earliest entry in the heap.
    rows: Vec<(u64, u64)>,
}

impl Timers {
    /// Bytes of memory.
    pub fn heap_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<(u64, u32)>() + self.rows.capacity() * size_of::<(u64, u64)>()
    }

    /// Sets, moves or (with `None`) forgets the slot's moment.
    pub fn set(&mut self, slot: u32, at: Option<u64>) {
        let index = slot as usize;
        let at = at.unwrap_or(NEVER);
        if index >= self.rows.len() {
            if at == NEVER {
                return;
            }
            self.rows.resize(index + 1, (NEVER, NEVER));
        }
        let (wanted, entry) = &mut self.rows[index];
        *wanted = at;
        if at < *entry {
            *entry = at;
            self.heap.push(Reverse((at, slot)));
        }
    }

    /// The next moment at which [`Timers::due`] has something to look at.
    pub fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes a slot whose moment has come at `now`.
    pub fn due(&mut self, now: u64) -> Option<u32> {
        while let Some(Reverse((at, slot))) = self.heap.peek().copied() {
            if at > now {
                return None;
            }
            self.heap.pop();
            let (wanted, entry) = &mut self.rows[slot as usize];
            if *entry != at {
                // Superseded by an earlier one that was taken since.
                continue;
            }
            *entry = NEVER;
            if *wanted <= now {
                *wanted = NEVER;
                return Some(slot);
            }
            if *wanted != NEVER {
                *entry = *wanted;
                self.heap.push(Reverse((*wanted, slot)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn moments_come_in_order_once() {
        let mut timers = Timers::default();
        timers.set(1, Some(30));
        timers.set(2, Some(10));
        timers.set(3, Some(20));
        timers.set(3, None);
        timers.set(2, Some(40));
        assert_eq!(timers.due(9), None);
        assert_eq!(timers.due(30), Some(1));
        assert_eq!(timers.due(39), None);
        assert_eq!(timers.next(), Some(40));
        assert_eq!(timers.due(40), Some(2));
        assert_eq!((timers.due(1000), timers.next()), (None, None));
    }

    #[test]
    fn a_moment_pushed_away_costs_no_entries() {
        let mut timers = Timers::default();
        for at in 100..10_000 {
            timers.set(0, Some(at));
        }
        assert_eq!(timers.heap.len(), 1);
        assert_eq!(timers.due(9998), None);
        assert_eq!(timers.due(9999), Some(0));
    }

    proptest! {
        #[test]
        fn as_a_plain_table_would(steps in prop::collection::vec((0u32..5, prop::option::of(0u64..50), any::<bool>()), 0..200)) {
            let mut timers = Timers::default();
            let mut table = [NEVER; 5];
            let mut now = 0;
            for (slot, after, is_tick) in steps {
                if is_tick {
                    now += after.unwrap_or(1);
                    let mut due: Vec<u32> = std::iter::from_fn(|| timers.due(now)).collect();
                    due.sort_unstable();
                    let expected: Vec<u32> = (0..5).filter(|slot| table[*slot as usize] <= now).collect();
                    expected.iter().for_each(|slot| table[*slot as usize] = NEVER);
                    prop_assert_eq!(due, expected);
                } else {
                    let at = after.map(|after| now + after);
                    timers.set(slot, at);
                    table[slot as usize] = at.unwrap_or(NEVER);
                }
                let next = table.iter().copied().filter(|at| *at != NEVER).min();
                prop_assert!(next.is_none() || timers.next() <= next);
            }
        }
    }
}
