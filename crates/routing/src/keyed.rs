//! Bindings found by their whole key: the table of direct, fanout and headers exchanges.

use crate::arguments::Arguments;
use crate::bounds::Bounds;
use crate::matches::{Destination, Matches};
use base::hash::MapByBytes;
use base::sample::sum_of;
use std::sync::Arc;

/// Bindings by key. Never iterated where order shows: callers that list them sort.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyed {
    /// The keys are shared with those who bound them.
    keys: MapByBytes<Arc<[u8]>, Bounds>,
}

impl Keyed {
    #[inline]
    fn get(&self, key: &[u8]) -> Option<&Bounds> {
        self.keys.get(key)
    }

    /// All that is bound under a key; none, too, where looking for it would take too many steps.
    pub(crate) fn find(&self, key: &[u8], out: &mut Matches) -> Option<&Bounds> {
        if out.take_bytes(key) { self.get(key) } else { None }
    }

    /// The destinations of one key.
    #[inline]
    pub(crate) fn route(&self, key: &[u8], out: &mut Matches) {
        if out.take_bytes(key)
            && let Some(bounds) = self.get(key)
        {
            bounds.route(out);
        }
    }

    /// All keys with the destinations bound under them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Bounds)> {
        self.keys.iter().map(|(key, bounds)| (&key[..], bounds))
    }

    /// All destinations, under all keys.
    #[inline]
    pub(crate) fn route_all(&self, out: &mut Matches) {
        for bounds in self.keys.values() {
            if out.is_too_dear() {
                return;
            }
            bounds.route(out);
        }
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
            self.keys = MapByBytes::default();
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
