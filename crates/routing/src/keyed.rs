//! Bindings found by their whole key: the table of direct, fanout and headers exchanges.

use crate::bounds::Bounds;
use crate::matches::{Destination, Matches};
use crate::value::Arguments;
use base::sample::sum_of;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Bindings by key. Never iterated where order shows: callers that list them sort.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyed {
    /// The keys are shared with those who bound them.
    keys: FxHashMap<Arc<[u8]>, Bounds>,
}

impl Keyed {
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Bounds> {
        self.keys.get(key)
    }

    /// All keys with the destinations bound under them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Bounds)> {
        self.keys.iter().map(|(key, bounds)| (&key[..], bounds))
    }

    /// All destinations, under all keys.
    #[inline]
    pub(crate) fn route_all(&self, out: &mut Matches) {
        self.keys.values().for_each(|bounds| bounds.route(out));
    }

    pub(crate) fn bind(&mut self, key: Arc<[u8]>, arguments: Arguments, destination: Destination) -> bool {
        match self.keys.get_mut(&key) {
            Some(bounds) => bounds.bind(destination, arguments),
            None => {
                self.keys.insert(key, Bounds::new(destination, arguments));
                true
            }
        }
    }

    pub(crate) fn unbind(&mut self, key: &[u8], arguments: &Arguments, destination: Destination) -> bool {
        let Some(bounds) = self.keys.get_mut(key) else { return false };
        let (existed, is_left) = bounds.unbind(destination, arguments);
        if !is_left {
            self.keys.remove(key);
            self.shrink();
        }
        existed
    }

    /// Gives memory back when most of it is unused; amortized O(1) a removal.
    fn shrink(&mut self) {
        if self.keys.is_empty() {
            self.keys = FxHashMap::default();
        } else if self.keys.capacity() > 32 && self.keys.len() < self.keys.capacity() / 8 {
            self.keys.shrink_to(self.keys.len() * 2);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // Keys are those of the bindings.
        sum_of(self.keys.len(), self.keys.values(), |bounds| bounds.heap_bytes())
            + self.keys.capacity() * 8 / 7 * (size_of::<(Arc<[u8]>, Bounds)>() + 1)
    }
}
