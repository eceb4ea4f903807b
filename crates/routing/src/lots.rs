//! Destinations of which each message gets one: by its key, or by lot.
//!
//! Every binding is a lot of its own, so that a destination that is bound twice is drawn twice as often. Changing a
//! binding costs time in proportion to how many there are, routing none.

use crate::keyed::Keyed;
use crate::matches::Destination;
use crate::value::Arguments;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub(crate) struct Lots {
    keyed: Keyed,
    /// One for each binding: exchanges, then queues, the oldest first.
    lots: Vec<Destination>,
}

/// Exchanges come before queues.
fn order(destination: &Destination) -> (bool, u64) {
    match destination {
        Destination::Exchange(id) => (false, id.0),
        Destination::Queue(id) => (true, id.0),
    }
}

impl Lots {
    pub(crate) fn keyed(&self) -> &Keyed {
        &self.keyed
    }

    /// The one a number falls on, by the remainder of its division.
    pub(crate) fn by_remainder(&self, number: u32) -> Option<Destination> {
        let len = u32::try_from(self.lots.len()).unwrap_or(u32::MAX);
        self.lots.get(number.checked_rem(len)? as usize).copied()
    }

    /// The one a roll of 64 random bits falls on.
    pub(crate) fn by_roll(&self, roll: u64) -> Option<Destination> {
        let at = (u128::from(roll) * self.lots.len() as u128) >> 64;
        self.lots.get(at as usize).copied()
    }

    pub(crate) fn bind(&mut self, key: Arc<[u8]>, arguments: Arguments, destination: Destination) -> bool {
        let is_new = self.keyed.bind(key, arguments, destination);
        if is_new {
            let at = self.lots.partition_point(|lot| order(lot) <= order(&destination));
            self.lots.insert(at, destination);
        }
        is_new
    }

    pub(crate) fn unbind(&mut self, key: &[u8], arguments: &Arguments, destination: Destination) -> bool {
        let existed = self.keyed.unbind(key, arguments, destination);
        if existed {
            let at = self.lots.partition_point(|lot| order(lot) < order(&destination));
            self.lots.remove(at);
            if self.lots.len() < self.lots.capacity() / 4 {
                self.lots.shrink_to(self.lots.len() * 2);
            }
        }
        existed
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.keyed.heap_bytes() + self.lots.capacity() * size_of::<Destination>()
    }
}
