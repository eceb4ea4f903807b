//! How many connections there are of each listener of the stream protocol, known to all shards, and whether one too many is.
//!
//! As in RabbitMQ, clients that have not opened their connection yet count too, and one that opens is refused while
//! there are more than there may be, itself among them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Connections of one listener; none: any number, and nobody counts them.
    most: Option<u32>,
    /// By the listener's port.
    counts: Mutex<BTreeMap<u16, u32>>,
}

/// A connection that is counted, for as long as it is there.
#[derive(Debug)]
pub(super) struct Arrival {
    arrivals: Arc<Arrivals>,
    port: u16,
}

impl Arrivals {
    /// Counts them, where each listener may have so many.
    pub fn new(most: Option<u32>) -> Arrivals {
        Arrivals { most, counts: Mutex::default() }
    }

    /// A connection came to the listener at this port.
    pub(super) fn came(self: &Arc<Arrivals>, port: u16) -> Option<Arrival> {
        self.most?;
        *self.counts().entry(port).or_default() += 1;
        Some(Arrival { arrivals: self.clone(), port })
    }

    /// No state here is broken by a thread that panicked.
    fn counts(&self) -> MutexGuard<'_, BTreeMap<u16, u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrival {
    /// How many connections its listener may have, if it has more.
    pub(super) fn too_many(&self) -> Option<u32> {
        let count = self.arrivals.counts().get(&self.port).copied().unwrap_or(0);
        self.arrivals.most.filter(|most| count > *most)
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if let Some(count) = self.arrivals.counts().get_mut(&self.port) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_has_its_own() {
        let arrivals = Arc::new(Arrivals::new(Some(1)));
        let (first, other) = (arrivals.came(5552).unwrap(), arrivals.came(5551).unwrap());
        assert_eq!((first.too_many(), other.too_many()), (None, None));
        let second = arrivals.came(5552).unwrap();
        assert_eq!((first.too_many(), second.too_many(), other.too_many()), (Some(1), Some(1), None));
        drop(first);
        assert_eq!(second.too_many(), None);
        let none = Arc::new(Arrivals::new(Some(0)));
        assert_eq!(none.came(5552).unwrap().too_many(), Some(0));
        assert!(Arc::new(Arrivals::default()).came(5552).is_none(), "nobody counts");
    }
}
