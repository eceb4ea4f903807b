//! The steps that regular expressions met, kept for the next text.
//!
//! They are of the thread that runs the expression, so that nobody waits for them, and those of all expressions that a
//! thread runs have one [bound](STEPS_BYTES_MAX): where it is reached, those that were begun first are forgotten, and
//! begun again when their expression comes next. So what expressions take beside their programs does not grow with
//! their number. An expression that is gone leaves its steps until others need the room.

use base::hash::MapById;
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Bytes of steps that a thread keeps, of all expressions together: some thousand usual ones, or 64 of the largest.
pub const STEPS_BYTES_MAX: usize = 8 << 20;

/// Bytes of a row beside its steps, and what the allocator adds.
const ROW: usize = 128;

/// Bytes of all threads.
static BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// Bytes of steps that all threads of the process keep; each has at most [`STEPS_BYTES_MAX`].
pub fn steps_bytes() -> usize {
    BYTES.load(Relaxed)
}

/// Automata that meet steps.
pub(crate) trait Walked: Send + Sync + 'static {
    /// Those that were met.
    type Steps: 'static;

    /// None yet.
    fn steps(&self) -> Self::Steps;

    /// Bytes that steps take.
    fn bytes(steps: &Self::Steps) -> usize;
}

/// Runs automata with the steps that they met on this thread.
///
/// # Panics
/// Where it is called within a run.
pub(crate) fn with<W: Walked, R>(walked: &Arc<W>, run: impl FnOnce(&mut W::Steps) -> R) -> R {
    KEPT.with_borrow_mut(|kept| kept.run(walked, run))
}

/// The steps of a thread, by the address of their automata.
#[derive(Default)]
struct Kept {
    rows: MapById<usize, Row>,
    /// The addresses, in the order in which steps were begun.
    order: VecDeque<usize>,
    bytes: usize,
}

struct Row {
    /// While this is here, no other automata have the address.
    _walked: Weak<dyn Any + Send + Sync>,
    steps: Box<dyn Any>,
    bytes: usize,
}

impl Kept {
    fn run<W: Walked, R>(&mut self, walked: &Arc<W>, run: impl FnOnce(&mut W::Steps) -> R) -> R {
        let at = Arc::as_ptr(walked).addr();
        let row = self.rows.entry(at).or_insert_with(|| {
            self.order.push_back(at);
            let weak = Arc::downgrade(walked);
            Row { _walked: weak, steps: Box::new(walked.steps()), bytes: 0 }
        });
        let steps = row.steps.downcast_mut::<W::Steps>().expect("the address is of these automata");
        let outcome = run(steps);
        let bytes = ROW + W::bytes(steps);
        if bytes != row.bytes {
            let before = std::mem::replace(&mut row.bytes, bytes);
            self.count(before, bytes);
            self.make_room();
        }
        outcome
    }

    fn count(&mut self, before: usize, now: usize) {
        self.bytes = self.bytes + now - before;
        // It wraps where it gets less.
        BYTES.fetch_add(now.wrapping_sub(before), Relaxed);
    }

    fn make_room(&mut self) {
        while self.bytes > STEPS_BYTES_MAX
            && let Some(at) = self.order.pop_front()
        {
            let gone = self.rows.remove(&at).expect("there is a row for each address");
            self.count(gone.bytes, 0);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found::Room;
    use crate::regexp::Regexp;
    use crate::value::Value;

    fn held() -> (usize, usize) {
        KEPT.with_borrow(|kept| (kept.rows.len(), kept.bytes))
    }

    #[test]
    fn steps_are_bounded_whatever_the_number_of_expressions() {
        let mut dice = 1_u64;
        let text: String = (0..2_000)
            .map(|_| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if dice >> 63 == 0 { 'a' } else { 'b' }
            })
            .collect();
        let expressions: Vec<Regexp> = (0..400)
            .map(|number| Regexp::new(format!("[ab]*a[ab]{{14}}c{number}"), false, 64 << 10).expect("one"))
            .collect();
        let mut most = 0;
        for round in 0..2 {
            for (number, expression) in expressions.iter().enumerate() {
                let with = format!("{text}a{}c{number}", "b".repeat(14));
                for (text, expected) in [(&text, false), (&with, true)] {
                    let matches = expression.matches(Value::Bytes(text.as_bytes()), &Room::default());
                    assert_eq!(matches, Value::Bool(expected), "{round} {number}");
                }
                let (_, bytes) = held();
                assert!(bytes <= STEPS_BYTES_MAX, "{bytes}");
                most = most.max(bytes);
            }
        }
        let (rows, bytes) = held();
        assert!(most > STEPS_BYTES_MAX / 2 && rows < 400 && steps_bytes() >= bytes, "{most} {rows}");
        // Those that are gone leave theirs, as far as there is room.
        drop(expressions);
        assert_eq!(held(), (rows, bytes));
        std::thread::scope(|threads| {
            let other = threads.spawn(|| assert_eq!(held(), (0, 0)));
            other.join().expect("a thread of its own");
        });
    }
}
