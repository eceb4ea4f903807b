//! How threads hand batches to each other: a vector behind a lock, swapped out whole, and one wake-up a turn.
//!
//! The wake-up is the cost (a system call), so it is made only when the addressee sleeps: it says so before it does
//! ([`Sleeper::going_to_sleep`]) and looks once more; a sender that puts something into a box takes that word back and
//! wakes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A thread that sleeps at times, and how to wake it.
pub struct Sleeper {
    is_asleep: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Sleeper {
    /// A thread, awake, that `wake` wakes.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Sleeper> {
        Arc::new(Sleeper { is_asleep: AtomicBool::new(false), wake: Box::new(wake) })
    }

    /// Said by the thread: it sleeps unless it finds something when it looks once more, which it must.
    pub fn going_to_sleep(&self) {
        self.is_asleep.store(true, Ordering::SeqCst);
    }

    /// Said by the thread: it is awake and will look into its boxes before it sleeps again.
    pub fn is_up(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            (self.wake)();
        }
    }
}

/// A box of `T` for one addressee.
pub struct Mailbox<T> {
    inside: Mutex<Inside<T>>,
    addressee: Arc<Sleeper>,
}

struct Inside<T> {
    mail: Vec<T>,
    /// Nobody empties it any more: mail is dropped, so that a sender that waits for an answer learns that none comes.
    is_closed: bool,
}

impl<T> Mailbox<T> {
    /// An empty box.
    pub fn new(addressee: Arc<Sleeper>) -> Mailbox<T> {
        Mailbox { inside: Mutex::new(Inside { mail: Vec::new(), is_closed: false }), addressee }
    }

    /// No state here is broken by a thread that panicked.
    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts everything of `mail` into the box, leaving it empty.
    pub fn put_all(&self, mail: &mut Vec<T>) {
        if mail.is_empty() {
            return;
        }
        let mut inside = self.lock();
        if inside.is_closed {
            return mail.clear();
        }
        if inside.mail.is_empty() {
            std::mem::swap(&mut inside.mail, mail);
        } else {
            inside.mail.append(mail);
        }
        drop(inside);
        self.addressee.wake();
    }

    /// Puts one thing into the box.
    pub fn put(&self, mail: T) {
        let mut inside = self.lock();
        if inside.is_closed {
            return;
        }
        inside.mail.push(mail);
        drop(inside);
        self.addressee.wake();
    }

    /// Wakes the addressee, with nothing in the box for it.
    pub fn knock(&self) {
        self.addressee.wake();
    }

    /// Said by the addressee when it looks no more: drops the mail inside, and all that is put in from now on.
    pub fn close(&self) {
        let mut inside = self.lock();
        inside.is_closed = true;
        let left = std::mem::take(&mut inside.mail);
        drop(inside);
        drop(left);
    }

    /// Swaps the mail in the box for `empty`, which must be empty and keeps its memory in use.
    pub fn take(&self, empty: &mut Vec<T>) {
        debug_assert!(empty.is_empty());
        std::mem::swap(&mut self.lock().mail, empty);
    }

    /// Nothing is in the box.
    pub fn is_empty(&self) -> bool {
        self.lock().mail.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn wakes_only_who_sleeps_and_once() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = wakes.clone();
        let sleeper = Sleeper::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let mailbox = Mailbox::new(sleeper.clone());
        let check = |expected: usize| assert_eq!(wakes.load(Ordering::Relaxed), expected);
        mailbox.put_all(&mut vec![1, 2]);
        check(0);
        sleeper.going_to_sleep();
        mailbox.put_all(&mut Vec::new());
        check(0);
        mailbox.put(3);
        mailbox.put_all(&mut vec![4]);
        check(1);
        let mut taken = Vec::new();
        mailbox.take(&mut taken);
        assert_eq!(taken, [1, 2, 3, 4]);
        sleeper.going_to_sleep();
        sleeper.is_up();
        mailbox.put(5);
        check(1);
        assert!(!mailbox.is_empty());
    }

    #[test]
    fn who_writes_to_one_that_is_gone_learns_it_at_once() {
        let mailbox = Mailbox::new(Sleeper::new(|| {}));
        let (before, answer_before) = std::sync::mpsc::channel::<()>();
        let (after, answer_after) = std::sync::mpsc::channel::<()>();
        let (among, answer_among) = std::sync::mpsc::channel::<()>();
        mailbox.put(before);
        mailbox.close();
        mailbox.put(after);
        mailbox.put_all(&mut vec![among]);
        for answer in [answer_before, answer_after, answer_among] {
            assert_eq!(answer.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
        }
        assert!(mailbox.is_empty());
    }

    #[test]
    fn nothing_is_lost_and_nobody_sleeps_through() {
        let (wake, woken) = std::sync::mpsc::channel();
        let sleeper = Sleeper::new(move || wake.send(()).unwrap_or_default());
        let mailbox = Mailbox::new(sleeper.clone());
        let mut taken: Vec<(u32, u32)> = Vec::new();
        std::thread::scope(|threads| {
            for sender in 0..4u32 {
                let mailbox = &mailbox;
                threads.spawn(move || {
                    for number in 0..5000u32 {
                        mailbox.put_all(&mut vec![(sender, number)]);
                    }
                });
            }
            while taken.len() < 20_000 {
                sleeper.going_to_sleep();
                if mailbox.is_empty() {
                    woken.recv_timeout(std::time::Duration::from_secs(20)).expect("woken when mail comes");
                }
                sleeper.is_up();
                let mut some = Vec::new();
                mailbox.take(&mut some);
                taken.append(&mut some);
            }
        });
        for sender in 0..4 {
            let numbers: Vec<u32> =
                taken.iter().filter(|(from, _)| *from == sender).map(|(_, n)| *n).collect();
            assert_eq!(numbers, (0..5000).collect::<Vec<_>>());
        }
    }
}
