//! Runs the tasks of the engine: one queue, one clock, one set of dice.
//!
//! Nothing here waits, and nothing is left to chance: tasks run in the order in which they were woken, or in one that the seed
//! says, timers in the order of their time; the clock is what the last [`Executor::run`] was told.
//! Invariant: while a task runs, and wherever the engine's channels are used or its values dropped, the executor is the current
//! one of the thread ([`Executor::enter`]).

use base::Random;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The clock of the engine begins there, nanoseconds: it takes leases from the time, which must not go below nothing.
pub(crate) const EPOCH_NS: u64 = 1_000_000_000_000;

type Work = Pin<Box<dyn Future<Output = ()>>>;
type Ready = Arc<Mutex<VecDeque<u64>>>;

struct TaskWaker {
    task: u64,
    ready: Ready,
    is_queued: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.task);
        }
    }
}

struct Task {
    /// None while it runs.
    work: Option<Work>,
    waker: Arc<TaskWaker>,
}

/// See the module.
pub(crate) struct Executor {
    now: Cell<u64>,
    dice: RefCell<Random>,
    /// Tasks that are ready run in an order of the dice.
    is_shuffled: bool,
    /// Timers ring at multiples of this only, nanoseconds: what is due at about the same time is done at once.
    grid_ns: u64,
    tasks: RefCell<BTreeMap<u64, Task>>,
    ready: Ready,
    timers: RefCell<BTreeMap<(u64, u64), Waker>>,
    last_number: Cell<u64>,
}

thread_local! {
    static CURRENT: RefCell<Vec<Rc<Executor>>> = const { RefCell::new(Vec::new()) };
}

impl Executor {
    /// One whose clock stands at `now_ns`, monotonic nanoseconds.
    pub(crate) fn new(seed: u64, now_ns: u64, grid_ns: u64, is_shuffled: bool) -> Rc<Executor> {
        Rc::new(Executor {
            now: Cell::new(EPOCH_NS.saturating_add(now_ns)),
            dice: RefCell::new(Random::new(seed)),
            is_shuffled,
            grid_ns: grid_ns.max(1),
            tasks: RefCell::default(),
            ready: Ready::default(),
            timers: RefCell::default(),
            last_number: Cell::new(0),
        })
    }

    /// The current one of this thread.
    ///
    /// # Panics
    /// There is none: the engine was called from outside of [`Executor::enter`].
    pub(crate) fn current() -> Rc<Executor> {
        Executor::try_current().expect("the engine runs inside its executor")
    }

    /// As [`Executor::current`]; none: there is none, or the thread ends.
    pub(crate) fn try_current() -> Option<Rc<Executor>> {
        CURRENT.try_with(|current| current.try_borrow().ok()?.last().cloned()).ok().flatten()
    }

    /// Does something while this is the current one.
    pub(crate) fn enter<T>(self: &Rc<Self>, work: impl FnOnce() -> T) -> T {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                CURRENT.with(|current| _ = current.borrow_mut().pop());
            }
        }
        CURRENT.with(|current| current.borrow_mut().push(Rc::clone(self)));
        let _leave = Leave;
        work()
    }

    /// Its clock, nanoseconds from [`EPOCH_NS`] on.
    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    /// A throw of its dice.
    pub(crate) fn bits(&self) -> u64 {
        self.dice.borrow_mut().bits()
    }

    fn number(&self) -> u64 {
        let number = self.last_number.get() + 1;
        self.last_number.set(number);
        number
    }

    /// Adds a task, which is ready.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        let task = self.number();
        let waker =
            Arc::new(TaskWaker { task, ready: Arc::clone(&self.ready), is_queued: AtomicBool::new(true) });
        self.tasks.borrow_mut().insert(task, Task { work: Some(Box::pin(work)), waker });
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(task);
    }

    /// When the next timer rings, monotonic nanoseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let at = self.timers.borrow().first_key_value().map(|((at, _), _)| *at);
        at.map(|at| at.saturating_sub(EPOCH_NS))
    }

    /// Some task is ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Runs all that can run at this time, monotonic nanoseconds; the clock does not go back.
    pub(crate) fn run(self: &Rc<Self>, now_ns: u64) {
        self.now.set(self.now.get().max(EPOCH_NS.saturating_add(now_ns)));
        self.enter(|| {
            loop {
                self.ring();
                let Some(task) = self.next_ready() else { break };
                self.poll(task);
            }
        });
    }

    fn ring(&self) {
        loop {
            let due = {
                let mut timers = self.timers.borrow_mut();
                match timers.first_entry() {
                    Some(first) if first.key().0 <= self.now.get() => first.remove(),
                    _ => break,
                }
            };
            due.wake();
        }
    }

    fn next_ready(&self) -> Option<u64> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_shuffled && ready.len() > 1 {
            let at = self.dice.borrow_mut().below(ready.len() as u64) as usize;
            ready.remove(at)
        } else {
            ready.pop_front()
        }
    }

    fn poll(&self, number: u64) {
        let begun = self.tasks.borrow_mut().get_mut(&number).and_then(|task| {
            let work = task.work.take()?;
            task.waker.is_queued.store(false, Ordering::Relaxed);
            Some((work, Waker::from(Arc::clone(&task.waker))))
        });
        let Some((mut work, waker)) = begun else { return };
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => {
                // Its values may wake others, or end timers.
                drop(work);
                self.tasks.borrow_mut().remove(&number);
            }
            Poll::Pending => {
                if let Some(task) = self.tasks.borrow_mut().get_mut(&number) {
                    task.work = Some(work);
                }
            }
        }
    }

    /// Drops all tasks, in the order in which they came, without running them.
    pub(crate) fn end(&self) {
        loop {
            // One that goes may spawn none, but ends timers and wakes others.
            let task = self.tasks.borrow_mut().pop_first();
            if task.is_none() {
                break;
            }
            drop(task);
        }
    }

    /// Has a waker called at this time of its clock; returns the name of the timer.
    pub(crate) fn set_timer(&self, at: u64, name: Option<u64>, waker: &Waker) -> u64 {
        let name = name.unwrap_or_else(|| self.number());
        self.timers.borrow_mut().insert((at, name), waker.clone());
        name
    }

    /// No timer of this name rings at this time any more.
    pub(crate) fn clear_timer(&self, at: u64, name: u64) {
        self.timers.borrow_mut().remove(&(at, name));
    }

    /// The time at which a timer for `at` rings.
    pub(crate) fn on_grid(&self, at: u64) -> u64 {
        at.checked_next_multiple_of(self.grid_ns).unwrap_or(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Runtime, Time};
    use openraft::AsyncRuntime;
    use std::time::Duration;

    fn order(is_shuffled: bool, seed: u64) -> Vec<u32> {
        let executor = Executor::new(seed, 0, 1, is_shuffled);
        let seen = Rc::new(RefCell::new(Vec::new()));
        for number in 0..20 {
            let seen = Rc::clone(&seen);
            executor.spawn(async move { seen.borrow_mut().push(number) });
        }
        executor.run(0);
        seen.take()
    }

    #[test]
    fn tasks_run_in_order_or_in_one_of_the_seed() {
        assert_eq!(order(false, 1), Vec::from_iter(0..20));
        assert_eq!(order(true, 1), order(true, 1));
        assert_ne!(order(true, 1), order(true, 2));
        assert_ne!(order(true, 1), order(false, 1));
    }

    #[test]
    fn timers_ring_in_their_order_and_on_the_grid() {
        let executor = Executor::new(1, 5, 10, false);
        let seen = Rc::new(RefCell::new(Vec::new()));
        for (number, ns) in [(1, 30), (2, 11), (3, 12), (4, 0)] {
            let seen = Rc::clone(&seen);
            executor.spawn(async move {
                Runtime::sleep(Duration::from_nanos(ns)).await;
                seen.borrow_mut().push((number, Time::now_ns()));
            });
        }
        executor.run(5);
        assert_eq!((seen.borrow().clone(), executor.deadline()), (vec![], Some(10)));
        executor.run(10);
        assert_eq!((seen.borrow().clone(), executor.deadline()), (vec![(4, 10)], Some(20)));
        executor.run(100);
        assert_eq!(seen.take(), [(4, 10), (2, 100), (3, 100), (1, 100)]);
        assert_eq!(executor.deadline(), None);
        // The clock does not go back.
        executor.run(50);
        assert_eq!(executor.now(), EPOCH_NS + 100);
    }

    #[test]
    fn a_timer_that_is_given_up_does_not_ring() {
        let executor = Executor::new(1, 0, 1, false);
        let seen = Rc::new(Cell::new(None));
        let result = Rc::clone(&seen);
        executor.spawn(async move {
            let long = Runtime::sleep(Duration::from_nanos(100));
            let answer = Runtime::timeout(Duration::from_nanos(7), long).await;
            result.set(Some(answer.is_err()));
        });
        executor.run(0);
        assert_eq!(executor.deadline(), Some(7));
        executor.run(7);
        assert_eq!((seen.get(), executor.deadline()), (Some(true), None));
    }
}
