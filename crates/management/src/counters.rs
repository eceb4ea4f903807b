//! Counters of one thing at one moment, in an order that stays.
//!
//! Two, as of each connection, are kept in place: blocks of memory of ten thousand connections that come and go with each
//! sample are found by all that share the heap, a shard among them (`docs/decisions/0002-system-allocator.md`).

use broker::COUNTS;
use std::ops::Deref;

/// Where the sum of all deliveries and gets is among counters of messages.
pub(crate) const DELIVER_GET: usize = COUNTS;

/// Counters of messages: those of [`broker::Count`], and the sum of all deliveries and gets.
pub(crate) const MESSAGES: usize = COUNTS + 1;

/// See the module. Made of a slice, or of an iterator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters(Kept);

/// Of two it is always the first kind, so that equal counters are kept in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    Two([u64; 2]),
    More(Box<[u64]>),
}

impl Counters {
    /// Bytes of memory besides its own.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Kept::Two(_) => 0,
            Kept::More(counters) => size_of_val(&**counters),
        }
    }
}

impl Default for Counters {
    fn default() -> Counters {
        Counters(Kept::More(Box::default()))
    }
}

impl Deref for Counters {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match &self.0 {
            Kept::Two(counters) => counters,
            Kept::More(counters) => counters,
        }
    }
}

impl From<&[u64]> for Counters {
    fn from(counters: &[u64]) -> Counters {
        Counters(match counters {
            [first, second] => Kept::Two([*first, *second]),
            more => Kept::More(more.into()),
        })
    }
}

impl<const COUNT: usize> From<[u64; COUNT]> for Counters {
    fn from(counters: [u64; COUNT]) -> Counters {
        counters.as_slice().into()
    }
}

impl FromIterator<u64> for Counters {
    fn from_iter<I: IntoIterator<Item = u64>>(counters: I) -> Counters {
        let counters: Box<[u64]> = counters.into_iter().collect();
        match *counters {
            [first, second] => Counters(Kept::Two([first, second])),
            _ => Counters(Kept::More(counters)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_take_no_block_and_all_are_what_they_were_made_of() {
        for count in 0..5_u64 {
            let counters: Vec<u64> = (0..count).collect();
            let own = Counters::from(counters.as_slice());
            assert_eq!((&*own, &own), (counters.as_slice(), &counters.iter().copied().collect()));
            assert_eq!(own.heap_bytes(), if count == 2 { 0 } else { 8 * count as usize });
        }
        assert_eq!((Counters::from([7, 8]).heap_bytes(), &*Counters::default()), (0, [].as_slice()));
    }
}
