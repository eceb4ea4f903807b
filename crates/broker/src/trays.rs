//! Events for connections of other nodes, a tray for each node that visits a log here.
//!
//! A connection of a guest is known here under a node of the tray's own, not the guest's: what is for an earlier visit, or another
//! log, is in another tray, or in none.

use crate::event::Events;
use base::id::NodeNo;
use std::collections::BTreeMap;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Trays {
    /// The one that was opened last.
    last: u16,
    open: BTreeMap<NodeNo, Events>,
    /// Events for trays that are closed.
    nowhere: Events,
}

impl Trays {
    /// Opens one.
    ///
    /// # Panics
    /// Where all are open.
    pub(crate) fn open(&mut self) -> NodeNo {
        assert!(self.open.len() < usize::from(u16::MAX), "there are fewer guests than trays");
        loop {
            self.last = self.last.wrapping_add(1);
            let alias = NodeNo(self.last);
            if alias != NodeNo::ONLY && !self.open.contains_key(&alias) {
                self.open.insert(alias, Events::default());
                return alias;
            }
        }
    }

    pub(crate) fn close(&mut self, alias: NodeNo) {
        self.open.remove(&alias);
    }

    /// That of a node.
    #[cold]
    #[inline(never)]
    pub(crate) fn tray(&mut self, alias: NodeNo) -> &mut Events {
        self.nowhere.clear();
        self.open.get_mut(&alias).unwrap_or(&mut self.nowhere)
    }

    /// Something is in one of them.
    pub(crate) fn has_any(&self) -> bool {
        self.open.values().any(|events| !events.is_empty())
    }

    /// Takes what is in it, if anything is.
    pub(crate) fn take(&mut self, alias: NodeNo) -> Option<Events> {
        let events = self.open.get_mut(&alias).filter(|events| !events.is_empty())?;
        Some(std::mem::take(events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use base::id::PortId;

    #[test]
    fn what_is_for_a_closed_tray_goes_nowhere() {
        let mut trays = Trays::default();
        let (one, two) = (trays.open(), trays.open());
        assert!(one != two && one != NodeNo::ONLY && two != NodeNo::ONLY);
        let put = |trays: &mut Trays, alias| {
            trays.tray(alias).list.push((PortId::default(), Event::Introduce));
        };
        put(&mut trays, one);
        assert!(trays.has_any());
        trays.close(one);
        put(&mut trays, one);
        assert!(!trays.has_any() && trays.take(one).is_none() && trays.take(two).is_none());
        put(&mut trays, two);
        assert_eq!(trays.take(two).map(|events| events.list.len()), Some(1));
        assert!(!trays.has_any());
        assert!(trays.open() != one, "a number comes again only after all others");
    }
}
