//! A value that is watched: receivers see the last one, and that there was another. Waiters are woken in the order in which they came:
//! the library's own kind wakes them in one of chance.

use openraft::async_runtime::watch::{RecvError, SendError, Watch, WatchReceiver, WatchSender};
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::task::{Poll, Waker};

struct Shared<T> {
    value: RefCell<T>,
    version: Cell<u64>,
    senders: Cell<usize>,
    receivers: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

impl<T> Shared<T> {
    fn changed(&self) {
        self.version.set(self.version.get() + 1);
        self.wake();
    }

    fn wake(&self) {
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// See [`Watch`].
pub(crate) struct Sender<T>(Rc<Shared<T>>);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.senders.set(self.0.senders.get() + 1);
        Sender(Rc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.senders.set(self.0.senders.get() - 1);
        if self.0.senders.get() == 0 {
            self.0.wake();
        }
    }
}

/// See [`Watch`].
pub(crate) struct Receiver<T> {
    shared: Rc<Shared<T>>,
    seen: u64,
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.shared.receivers.set(self.shared.receivers.get() + 1);
        Receiver { shared: Rc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receivers.set(self.shared.receivers.get() - 1);
    }
}

/// The channel's kind.
pub(crate) struct Watched;

impl Watch for Watched {
    type Sender<T> = Sender<T>;
    type Receiver<T> = Receiver<T>;
    type Ref<'a, T: 'a> = Ref<'a, T>;

    fn channel<T>(first: T) -> (Sender<T>, Receiver<T>) {
        let shared = Rc::new(Shared {
            value: RefCell::new(first),
            version: Cell::new(0),
            senders: Cell::new(1),
            receivers: Cell::new(1),
            waiting: RefCell::default(),
        });
        (Sender(Rc::clone(&shared)), Receiver { shared, seen: 0 })
    }
}

impl<T> WatchSender<Watched, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.0.receivers.get() == 0 {
            return Err(SendError(value));
        }
        *self.0.value.borrow_mut() = value;
        self.0.changed();
        Ok(())
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let is_modified = modify(&mut self.0.value.borrow_mut());
        if is_modified {
            self.0.changed();
        }
        is_modified
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.0.value.borrow()
    }

    fn subscribe(&self) -> Receiver<T> {
        self.0.receivers.set(self.0.receivers.get() + 1);
        Receiver { shared: Rc::clone(&self.0), seen: self.0.version.get() }
    }
}

impl<T> WatchReceiver<Watched, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        std::future::poll_fn(|context| {
            let version = self.shared.version.get();
            if version != self.seen {
                self.seen = version;
                return Poll::Ready(Ok(()));
            }
            if self.shared.senders.get() == 0 {
                return Poll::Ready(Err(RecvError(())));
            }
            let mut waiting = self.shared.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.shared.value.borrow()
    }

    fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.seen = self.shared.version.get();
        self.shared.value.borrow()
    }
}
