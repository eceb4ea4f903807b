//! Queues that came and went lately, for readers that keep a list of all queues and would not gather it again for each.

use super::QueueDefinition;
use std::collections::VecDeque;
use std::sync::Arc;

/// As many of the latest are known.
const KNOWN_MAX: usize = 500;

/// A queue came or went.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueChange {
    /// It is there from now on.
    Came(Arc<QueueDefinition>),
    /// It is gone.
    Went(Arc<QueueDefinition>),
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Comings {
    /// How many there were in all.
    total: u64,
    latest: VecDeque<QueueChange>,
}

impl Comings {
    pub(super) fn add(&mut self, change: QueueChange) {
        self.total += 1;
        if self.latest.len() == KNOWN_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(change);
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Those after the first `known`, in their order; none: there are too many.
    pub(super) fn since(&self, known: u64) -> Option<impl Iterator<Item = &QueueChange>> {
        let news = usize::try_from(self.total.checked_sub(known)?).ok()?;
        Some(self.latest.iter().skip(self.latest.len().checked_sub(news)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::QueueId;

    #[test]
    fn the_latest_are_known_and_no_more() {
        let mut comings = Comings::default();
        let counts = |comings: &Comings, known: u64| comings.since(known).map(Iterator::count);
        assert_eq!([0, 1].map(|known| counts(&comings, known)), [Some(0), None]);
        let many = KNOWN_MAX as u64 + 10;
        for id in 0..many {
            comings.add(QueueChange::Came(Arc::new(QueueDefinition::sample(id))));
        }
        let found = [9, 10, many - 1, many, many + 1].map(|known| counts(&comings, known));
        assert_eq!(found, [None, Some(KNOWN_MAX), Some(1), Some(0), None]);
        let last = comings.since(many - 1).and_then(Iterator::last);
        assert!(matches!(last, Some(QueueChange::Came(queue)) if queue.id == QueueId(many - 1)));
    }
}
