//! Destinations that were bound to exchanges that remember, and have yet to get what those remembered then: piece by piece, so
//! that others have their turns.

use crate::catalog::{Binding, Catalog, Destination};
use crate::limits::Limits;
use base::hash::MapByBytes;
use routing::ExchangeId;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Messages that one destination is given before another's turn.
const AT_ONCE: usize = 500;

/// Bytes of messages beyond which nothing more is given in a turn.
const TURN_BYTES: usize = 1 << 20;

/// An exchange that remembers, and a destination of it.
type Pair = (ExchangeId, Destination);

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Recalls {
    waiting: VecDeque<Pair>,
    /// The numbers of the messages that each of them has yet to get.
    left: MapByBytes<Pair, RangeInclusive<u64>>,
    /// Units of work that may still be done in this turn; below 0: that were too many, and are taken off the next ones.
    units: i64,
    /// Bytes of messages that may still be given in this turn.
    bytes: usize,
}

impl Recalls {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A turn ends, and there is room for the next one.
    pub(crate) fn begin(&mut self, limits: &Limits) {
        self.units = self.units.min(0) + i64::from(limits.recalling_work_max);
        self.bytes = TURN_BYTES;
    }

    /// A binding was made: its destination is to get what the exchange remembers. One that has not got all yet begins again.
    pub(crate) fn add(&mut self, catalog: &Catalog, binding: &Binding) {
        let pair = (binding.source, binding.destination);
        if let Some(numbers) = catalog.remembered_numbers(binding.source)
            && self.left.insert(pair, numbers).is_none()
        {
            self.waiting.push_back(pair);
        }
    }

    /// Gives as much with `give`, which says how many units that took, as the turn has room for, to one after the other.
    pub(crate) fn go_on(&mut self, catalog: &Catalog, mut give: impl FnMut(Pair, &[u8]) -> u32) {
        while self.units > 0
            && self.bytes > 0
            && let Some(pair) = self.waiting.pop_front()
        {
            let Some(numbers) = self.left.remove(&pair) else { continue };
            let (source, destination) = pair;
            if !catalog.has_destination(destination) {
                continue;
            }
            let found = catalog.remembered(source, numbers.clone(), AT_ONCE);
            let mut next = found.last().map_or(u64::MAX, |(number, _)| number + 1);
            for (number, record) in found {
                if self.units <= 0 || self.bytes == 0 {
                    next = number;
                    break;
                }
                self.units -= i64::from(give(pair, &record));
                self.bytes = self.bytes.saturating_sub(record.len());
            }
            if next <= *numbers.end() {
                self.left.insert(pair, next..=*numbers.end());
                self.waiting.push_back(pair);
            }
        }
    }
}
