//! Handles, a connection's numbers for its consumers: they come to mean another only after a long while.
//!
//! The broker names a consumer by the handle its connection chose, and an event for it may be under way from another
//! shard while the connection closes that consumer and opens the next. So a handle is a slot and a count of tenants: an
//! event that comes late for an earlier tenant finds nobody.

use message::record::SeqRange;
use slab::Slab;

/// Leases that are over, by consumer, until the turn ends. Boxed, so that a connection without has eight bytes for it.
#[derive(Debug, Default)]
pub(crate) struct LeasesOver(pub(crate) Vec<(u32, Box<[SeqRange]>)>);

/// Consumers one connection may have at once. The highest slot stays free, so that `u32::MAX` is never a handle.
pub(crate) const HANDLES_MAX: usize = 0xFFFF;

const SLOT: u32 = 0xFFFF;

/// The marks of events for a consumer, none of which is part of a handle.
const MARKS: u32 = broker::TRACED | broker::LEASED;

/// The count of tenants goes round beyond this: the highest bits of a handle are the broker's ([`MARKS`]).
const TENANTS: u16 = 0x3FFF;

/// The handle without its marks, if it has any.
pub(crate) fn unmarked(handle: u32) -> Option<u32> {
    (handle & MARKS != 0).then_some(handle & !MARKS)
}

/// Events for a consumer are told of.
pub(crate) fn is_traced(handle: u32) -> bool {
    handle & broker::TRACED != 0
}

/// Deliveries to a consumer are leased.
pub(crate) fn is_leased(handle: u32) -> bool {
    handle & broker::LEASED != 0
}

/// The next number for a publisher: its channel in the lower half, and in the upper a count, so that an event that
/// comes late for an earlier publisher of that channel finds nobody.
pub(crate) fn numbered(next: &mut u16, channel: u16) -> u32 {
    *next = next.wrapping_add(1);
    u32::from(*next) << 16 | u32::from(channel)
}

/// Things by handle. Empty, it holds no memory.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    slots: Slab<(u32, T)>,
    tenants: u16,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles { slots: Slab::new(), tenants: 0 }
    }
}

impl<T> Handles<T> {
    /// Adds the item that `make` makes for its handle; `None`: there are [`HANDLES_MAX`] already.
    pub(crate) fn add(&mut self, make: impl FnOnce(u32) -> T) -> Option<u32> {
        if self.slots.len() >= HANDLES_MAX {
            return None;
        }
        self.tenants = self.tenants.wrapping_add(1) & TENANTS;
        let entry = self.slots.vacant_entry();
        let handle = u32::from(self.tenants) << 16 | entry.key() as u32;
        entry.insert((handle, make(handle)));
        Some(handle)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many there are, and a number that is another one after each that came.
    #[inline]
    pub(crate) fn version(&self) -> (usize, u16) {
        (self.slots.len(), self.tenants)
    }

    #[inline]
    pub(crate) fn get(&self, handle: u32) -> Option<&T> {
        let (is, found) = self.slots.get((handle & SLOT) as usize)?;
        (*is == handle).then_some(found)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        let (is, found) = self.slots.get_mut((handle & SLOT) as usize)?;
        (*is == handle).then_some(found)
    }

    pub(crate) fn remove(&mut self, handle: u32) -> Option<T> {
        self.get(handle)?;
        let (_, removed) = self.slots.remove((handle & SLOT) as usize);
        if self.slots.is_empty() {
            self.slots = Slab::new();
        }
        Some(removed)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().map(|(_, (handle, thing))| (*handle, thing))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().map(|(_, (_, thing))| thing)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // Besides the thing and its handle, a slot knows whether it is taken.
        self.slots.capacity() * (size_of::<(u32, T)>() + size_of::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_handle_finds_nobody() {
        let mut handles = Handles::default();
        let first = handles.add(|_| 'a').unwrap();
        let other = handles.add(|_| 'b').unwrap();
        assert_eq!(handles.remove(first), Some('a'));
        let next = handles.add(|_| 'c').unwrap();
        assert_eq!(first & SLOT, next & SLOT);
        assert_eq!(handles.get(first), None);
        assert_eq!(handles.get_mut(first), None);
        assert_eq!(handles.remove(first), None);
        assert_eq!((handles.get(next), handles.get(other)), (Some(&'c'), Some(&'b')));
        assert_eq!(handles.iter().map(|(handle, _)| handle).collect::<Vec<_>>(), [next, other]);
    }

    #[test]
    fn there_is_an_end_of_handles() {
        let mut handles = Handles::default();
        (0..HANDLES_MAX).for_each(|_| assert!(handles.add(|_| ()).is_some_and(|handle| handle != u32::MAX)));
        assert_eq!(handles.add(|_| ()), None);
    }

    #[test]
    fn no_handle_says_that_it_is_told_of() {
        let mut handles = Handles::default();
        for _ in 0..0x1_0001 {
            let handle = handles.add(|_| ()).unwrap();
            assert_eq!(handle & MARKS, 0);
            handles.remove(handle);
        }
    }

    #[test]
    fn empty_it_holds_nothing() {
        let mut handles = Handles::default();
        let handle = handles.add(|handle| handle).unwrap();
        assert!(handles.heap_bytes() > 0 && handles.remove(handle) == Some(handle));
        assert_eq!(handles.heap_bytes(), 0);
    }
}
