//! A queue of a log at work: it, and the state that it shares with the other machines of the log.
//!
//! It sees no other machine. What it does is in the files beside this one.

use super::owned::OwnedQueue;
use crate::log::Commons;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct AtQueue<'a> {
    pub(crate) slot: u32,
    pub(crate) queue: &'a mut OwnedQueue,
    pub(crate) commons: &'a mut Commons,
}

impl AtQueue<'_> {
    /// It may hand out something, where it has an owner.
    #[inline]
    pub(crate) fn mark_dirty(&mut self) {
        if !self.queue.is_dirty && self.queue.is_owned() {
            self.queue.is_dirty = true;
            self.commons.agenda.dirty.push_back(self.slot);
        }
    }
}
