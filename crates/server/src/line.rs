//! A line between threads: any thread puts requests in, and whichever of the others is free takes the next, in order.
//!
//! A channel whose end is shared under a lock wakes two threads for one thing: the one that takes it, and one that
//! waits for the lock. Here one is woken, and only where one sleeps.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A new line: where things are put in, and where they are taken. It ends when nobody can put in any more.
pub fn line<T>() -> (Entry<T>, Exit<T>) {
    let inner = Arc::new(Inner {
        state: Mutex::new(State { waiting: VecDeque::new(), idle: 0, is_shut: false }),
        came: Condvar::new(),
    });
    (Entry { last: Arc::new(Shutter(inner.clone())) }, Exit { inner })
}

struct Inner<T> {
    state: Mutex<State<T>>,
    came: Condvar,
}

struct State<T> {
    waiting: VecDeque<T>,
    /// Threads that sleep.
    idle: usize,
    is_shut: bool,
}

impl<T> Inner<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where things are put in.
pub struct Entry<T> {
    last: Arc<Shutter<T>>,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Entry<T> {
        Entry { last: self.last.clone() }
    }
}

impl<T> Entry<T> {
    /// Puts one in; never waits for a taker.
    pub fn put(&self, one: T) {
        let inner = &self.last.0;
        let mut state = inner.state();
        state.waiting.push_back(one);
        let wake = state.idle > 0;
        drop(state);
        if wake {
            inner.came.notify_one();
        }
    }
}

/// Ends the line when the last entry goes.
struct Shutter<T>(Arc<Inner<T>>);

impl<T> Drop for Shutter<T> {
    fn drop(&mut self) {
        self.0.state().is_shut = true;
        self.0.came.notify_all();
    }
}

/// Where things are taken, by any number of threads.
pub struct Exit<T> {
    inner: Arc<Inner<T>>,
}

impl<T> Clone for Exit<T> {
    fn clone(&self) -> Exit<T> {
        Exit { inner: self.inner.clone() }
    }
}

impl<T> Exit<T> {
    /// The next, when there is one; none: all were taken, and nobody can put in any more.
    pub fn take(&self) -> Option<T> {
        let mut state = self.inner.state();
        loop {
            if let Some(one) = state.waiting.pop_front() {
                return Some(one);
            }
            if state.is_shut {
                return None;
            }
            state.idle += 1;
            state = self.inner.came.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn everything_is_taken_once_and_the_line_ends_with_its_last_entry() {
        let (entry, exit) = line();
        let takers: Vec<_> = (0..4)
            .map(|_| {
                let exit = exit.clone();
                std::thread::spawn(move || std::iter::from_fn(|| exit.take()).collect::<Vec<u32>>())
            })
            .collect();
        let putters: Vec<_> = (0..3)
            .map(|of: u32| {
                let entry = entry.clone();
                std::thread::spawn(move || (0..1000).for_each(|number| entry.put(of * 1000 + number)))
            })
            .collect();
        putters.into_iter().for_each(|putter| putter.join().unwrap());
        drop(entry);
        let taken: Vec<Vec<u32>> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
        for one in &taken {
            // One thread takes entries of one sender in their order.
            for of in 0..3 {
                assert!(one.iter().filter(|number| *number / 1000 == of).is_sorted());
            }
        }
        let mut all = taken.concat();
        all.sort_unstable();
        assert_eq!(all, (0..3000).collect::<Vec<u32>>());
        assert_eq!(exit.take(), None);
    }
}
