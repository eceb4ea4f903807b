//! The state that the threads of one run share: counts for the progress line and the bounded lead, and the word to
//! stop.
//!
//! Written once per turn and thread, never per message.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// A count on a cache line of its own, so that one thread's counting does not slow another's.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `more` and returns the sum.
    #[inline]
    pub fn add(&self, more: u64) -> u64 {
        self.0.fetch_add(more, Ordering::SeqCst) + more
    }

    /// The sum so far.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// One run's shared state.
#[derive(Debug)]
pub struct Meter {
    start: Instant,
    /// Messages given to sockets.
    pub published: Count,
    /// Messages the broker confirmed.
    pub confirmed: Count,
    /// Deliveries that came.
    pub consumed: Count,
    /// When the first message was published, on [`Meter::now`]'s clock; 0: not yet.
    first_ns: AtomicU64,
    /// When the last message went out or was confirmed.
    published_ns: AtomicU64,
    /// When the last delivery came.
    consumed_ns: AtomicU64,
    /// Deliveries that the whole run has to see.
    due: AtomicU64,
    go: AtomicBool,
    enough: AtomicBool,
    stop: AtomicBool,
    is_publisher_waiting: AtomicBool,
    wake: OwnedFd,
}

impl Meter {
    /// A meter whose clock starts now, of a run that has to see `due` deliveries.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(due: u64) -> io::Result<Meter> {
        Ok(Meter {
            start: Instant::now(),
            published: Count::default(),
            confirmed: Count::default(),
            consumed: Count::default(),
            first_ns: AtomicU64::new(0),
            published_ns: AtomicU64::new(0),
            consumed_ns: AtomicU64::new(0),
            due: AtomicU64::new(due),
            go: AtomicBool::new(false),
            enough: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            is_publisher_waiting: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// The moment, on the run's clock.
    #[inline]
    pub fn now(&self) -> base::Now {
        // Only heartbeats and latencies hang on the time, never the wall's.
        base::Now { mono_ns: self.start.elapsed().as_nanos() as u64, wall_ms: 0 }
    }

    /// Something was published or confirmed at `now_ns`.
    #[inline]
    pub fn note_publish(&self, now_ns: u64) {
        self.note_first(now_ns);
        self.published_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// Something was delivered at `now_ns`.
    #[inline]
    pub fn note_delivery(&self, now_ns: u64) {
        self.note_first(now_ns);
        self.consumed_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    #[inline]
    fn note_first(&self, now_ns: u64) {
        if self.first_ns.load(Ordering::Relaxed) == 0 {
            // Another thread may have been first.
            let _ = self.first_ns.compare_exchange(0, now_ns.max(1), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Nanoseconds from the first message to the last publish or confirm.
    pub fn publish_span_ns(&self) -> u64 {
        self.published_ns.load(Ordering::Relaxed).saturating_sub(self.first_ns.load(Ordering::Relaxed))
    }

    /// Nanoseconds from the first message to the last delivery.
    pub fn consume_span_ns(&self) -> u64 {
        self.consumed_ns.load(Ordering::Relaxed).saturating_sub(self.first_ns.load(Ordering::Relaxed))
    }

    /// Lets the publishers begin.
    pub fn go(&self) {
        self.go.store(true, Ordering::SeqCst);
    }

    /// Whether the publishers may publish.
    #[inline]
    pub fn is_started(&self) -> bool {
        self.go.load(Ordering::Relaxed)
    }

    /// Deliveries that the whole run has to see.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due.load(Ordering::SeqCst)
    }

    /// No more will be published: the run has to see the messages so far.
    pub fn no_more_comes(&self) {
        self.due.store(self.published.get(), Ordering::SeqCst);
    }

    /// Tells the publishers that they have published enough, at any quota.
    pub fn enough(&self) {
        self.enough.store(true, Ordering::SeqCst);
    }

    /// Whether the publishers are to publish no more.
    #[inline]
    pub fn is_enough(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    /// Tells all threads to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Whether the threads are to end.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A publisher is about to wait until more was consumed. It looks at the count again after this and before it waits.
    pub fn wait_for_consumers(&self) {
        self.is_publisher_waiting.store(true, Ordering::SeqCst);
    }

    /// Counts `more` deliveries and wakes a publisher that waits for them.
    #[inline]
    pub fn add_consumed(&self, more: u64) -> u64 {
        let consumed = self.consumed.add(more);
        if self.is_publisher_waiting.load(Ordering::SeqCst)
            && self.is_publisher_waiting.swap(false, Ordering::SeqCst)
        {
            // A full counter means that the wake-up is there already.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
        consumed
    }

    /// The descriptor that a waiting publisher polls.
    pub fn wake(&self) -> &OwnedFd {
        &self.wake
    }

    /// Takes the wake-up away again.
    pub fn clear_wake(&self) {
        // Nothing to read means that it was taken already.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }
}
