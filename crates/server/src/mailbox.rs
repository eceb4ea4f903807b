//! How threads hand batches to each other: a vector behind a lock, swapped out whole, and one wake-up a turn.
//!
//! The wake-up is the cost (a system call), so it is made only when the addressee may sleep: who takes everything marks
//! the box empty, who puts something into an empty box wakes.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A box of `T` for one addressee.
pub struct Mailbox<T> {
    mail: Mutex<Vec<T>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl<T> Mailbox<T> {
    /// An empty box whose addressee `wake` wakes.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Mailbox<T> {
        Mailbox { mail: Mutex::new(Vec::new()), wake: Box::new(wake) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts everything of `mail` into the box, leaving it empty.
    pub fn put_all(&self, mail: &mut Vec<T>) {
        if mail.is_empty() {
            return;
        }
        let mut inside = self.lock();
        let was_empty = inside.is_empty();
        if was_empty {
            std::mem::swap(&mut *inside, mail);
        } else {
            inside.append(mail);
        }
        drop(inside);
        if was_empty {
            (self.wake)();
        }
    }

    /// Puts one thing into the box.
    pub fn put(&self, mail: T) {
        let mut inside = self.lock();
        let was_empty = inside.is_empty();
        inside.push(mail);
        drop(inside);
        if was_empty {
            (self.wake)();
        }
    }

    /// Swaps what is in the box for `empty`, which must be empty and keeps its memory in use.
    pub fn take(&self, empty: &mut Vec<T>) {
        debug_assert!(empty.is_empty());
        std::mem::swap(&mut *self.lock(), empty);
    }
}

#[cfg(test)]
mod tests {
    use super::Mailbox;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn wakes_once_until_it_is_emptied() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = wakes.clone();
        let mailbox = Mailbox::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let check = |expected: usize| assert_eq!(wakes.load(Ordering::Relaxed), expected);
        mailbox.put_all(&mut Vec::new());
        check(0);
        mailbox.put_all(&mut vec![1, 2]);
        mailbox.put(3);
        mailbox.put_all(&mut vec![4]);
        check(1);
        let mut taken = Vec::new();
        mailbox.take(&mut taken);
        assert_eq!(taken, [1, 2, 3, 4]);
        mailbox.put(5);
        check(2);
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let mailbox = Arc::new(Mailbox::new(|| {}));
        let mut taken = Vec::new();
        std::thread::scope(|threads| {
            for sender in 0..4u32 {
                let mailbox = &mailbox;
                threads.spawn(move || {
                    for number in 0..1000u32 {
                        mailbox.put_all(&mut vec![(sender, number)]);
                    }
                });
            }
            while taken.len() < 4000 {
                let mut some = Vec::new();
                mailbox.take(&mut some);
                taken.append(&mut some);
            }
        });
        for sender in 0..4 {
            let numbers: Vec<u32> =
                taken.iter().filter(|(from, _)| *from == sender).map(|(_, n)| *n).collect();
            assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
        }
    }
}
