//! Things that were begun and are not known to be done: so many at once that they share the waiting that each would do
//! alone.
//!
//! Outcomes are asked in the order in which the work was begun, so that the first failure is the one that is told.
//! Invariant: after a failure nothing is under way, for it was waited for, and a caller that heard of it begins
//! nothing.

use crate::node::{Begun, Trouble};
use std::collections::VecDeque;

/// See the module.
pub(crate) struct Underway<'n> {
    begun: VecDeque<Begun<'n>>,
    most: usize,
}

impl<'n> Underway<'n> {
    /// Nothing yet, and at most `most`.
    pub(crate) fn new(most: usize) -> Underway<'n> {
        Underway { begun: VecDeque::with_capacity(most), most }
    }

    /// There is room for one more, or there is now that the oldest is done.
    ///
    /// # Errors
    /// The failure of the oldest.
    pub(crate) fn make_room(&mut self) -> Result<(), Trouble> {
        if self.begun.len() < self.most { Ok(()) } else { self.wait_for_oldest() }
    }

    /// Something was begun.
    pub(crate) fn add(&mut self, begun: Begun<'n>) {
        self.begun.push_back(begun);
    }

    /// Waits until all is done.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn finish(&mut self) -> Result<(), Trouble> {
        while !self.begun.is_empty() {
            self.wait_for_oldest()?;
        }
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<(), Trouble> {
        let Some(oldest) = self.begun.pop_front() else { return Ok(()) };
        oldest().inspect_err(|_| {
            // A node that does not answer is not waited for once more for each.
            let _: Vec<_> = self.begun.drain(..).map_while(|own| is_answered(&own())).collect();
        })
    }
}

fn is_answered(done: &Result<(), Trouble>) -> Option<()> {
    (!matches!(done, Err(Trouble::Broken(_)))).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Begins things that end as told, at most `most` at once; those that were done by the first failure, and the
    /// failure.
    fn check(most: usize, fates: &[Option<&str>], expected: (&[usize], Option<&str>)) {
        let done = RefCell::new(Vec::new());
        let mut underway = Underway::new(most);
        let mut begin_all = || {
            for (at, fate) in fates.iter().enumerate() {
                underway.make_room()?;
                let fate = fate.map(str::to_owned);
                let done = &done;
                underway.add(Box::new(move || {
                    done.borrow_mut().push(at);
                    fate.map_or(Ok(()), |why| Err(Trouble::Held(why)))
                }));
                assert!(underway.begun.len() <= most);
            }
            underway.finish()
        };
        let failed = match begin_all() {
            Err(Trouble::Held(why)) => Some(why),
            other => other.err().map(|trouble| format!("{trouble:?}")),
        };
        assert_eq!((&done.borrow()[..], failed.as_deref()), expected, "{most} {fates:?}");
    }

    #[test]
    fn the_first_failure_is_told_and_what_was_under_way_is_waited_for() {
        check(2, &[None; 5], (&[0, 1, 2, 3, 4], None));
        check(9, &[None; 3], (&[0, 1, 2], None));
        check(1, &[None, Some("b"), None], (&[0, 1], Some("b")));
        check(3, &[None, Some("b"), None, Some("d"), None, None], (&[0, 1, 2, 3], Some("b")));
        check(9, &[None, Some("b"), Some("c")], (&[0, 1, 2], Some("b")));
    }

    #[test]
    fn who_does_not_answer_is_waited_for_twice_at_most() {
        let waited = RefCell::new(0);
        let mut underway = Underway::new(10);
        for _ in 0..10 {
            underway.add(Box::new(|| {
                *waited.borrow_mut() += 1;
                Err(Trouble::Broken(String::new()))
            }));
        }
        assert!(underway.finish().is_err());
        assert_eq!(*waited.borrow(), 2);
        assert!(underway.finish().is_ok(), "nothing is under way");
    }
}
