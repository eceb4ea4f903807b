//! The files a node may have open: a share for itself, and the places that are left for connections.
//!
//! A node that cannot open a file of its journal ends, so clients that open sockets, which takes no password, must not
//! get at the files that it opens itself. A connection holds a place from before it is accepted until its socket is
//! closed; where there is none, it waits in the queue of the listening socket, as with RabbitMQ where it has no
//! descriptors left. The management API, metrics and the tools have shares of their own, so that an operator gets in
//! also then.

use crate::leftovers::WAITING_MAX;
use crate::log::Logger;
use crate::log::level::Level;
use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Files of the data folder that are kept open, at most and at least: each may be opened whenever it is needed.
const FILES_MAX: usize = 256;
const FILES_MIN: usize = 16;

/// Connections of the management API, and of metrics, that there may be however few files are.
const API_MIN: usize = 8;
const METRICS_MIN: usize = 4;

/// Descriptors that are open for a moment: files that the cache has let go while they are read, folders, looks into
/// /proc, and those of the tools and the management API, three sockets for each request that publishes or gets
/// messages.
const MOMENTARY: usize = 96;

/// Connections there may be where the limit leaves room for none at all.
const PLACES_MIN: usize = 8;

/// Between two lines of the log about places.
const NEWS_GAP: Duration = Duration::from_secs(60);

/// How a limit of open files is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The limit.
    pub limit: usize,
    /// Files of the data folder that are kept open.
    pub files: usize,
    /// Removed files whose space is given back bit by bit.
    pub removed: usize,
    /// Connections of the management API.
    pub api: usize,
    /// Connections for metrics.
    pub metrics: usize,
}

impl Shares {
    /// Of the limit there is, which is raised as far as it may be: every connection is a descriptor, and the inherited
    /// limit is often a tenth of the allowed one.
    pub fn raised(logger: &Logger) -> Shares {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current != maximum
            && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        {
            logger.warning(format!("the limit of open files stays at {current:?}: {error}"));
        }
        let limit = getrlimit(Resource::Nofile).current;
        Shares::of(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX))
    }

    /// Of a limit: of a small one nothing gets more than a small part.
    fn of(limit: usize) -> Shares {
        let usual = management::Limits::default();
        let files = (limit / 32).clamp(FILES_MIN, FILES_MAX);
        Shares {
            limit,
            files,
            removed: (files / 2).min(WAITING_MAX),
            api: (limit / 32).max(API_MIN).min(usual.connections_max),
            metrics: (limit / 64).max(METRICS_MIN).min(usual.metrics_connections_max),
        }
    }

    /// How many files are kept for the node itself, of which `open` are there already.
    fn kept(&self, open: usize) -> usize {
        open + self.files + self.removed + self.api + self.metrics + MOMENTARY
    }

    /// The places that are left for connections; to be asked when all else that stays open is there but for `more`.
    pub fn places(&self, logger: &Logger, more: usize) -> Arc<Places> {
        // Where it cannot be told, there are listeners, a few descriptors for each shard and each other thread.
        let open = std::fs::read_dir("/proc/self/fd").map_or(MOMENTARY, Iterator::count);
        let kept = self.kept(open + more);
        let count = self.limit.saturating_sub(kept);
        let limit = self.limit;
        if count < PLACES_MIN {
            logger.warning(format!(
                "the limit of open files is {limit}, and the node needs {kept} for itself: it may fail when it has \
                 connections. Raise it (ulimit -n, or LimitNOFILE= in systemd)"
            ));
        } else {
            let text = format!(
                "room for {count} connections: {limit} files may be open, {kept} of them the node's own"
            );
            logger.log(Level::Info, text);
        }
        Arc::new(Places::new(count.max(PLACES_MIN), limit))
    }
}

/// How many connections there may be, and are.
#[derive(Debug)]
pub struct Places {
    count: usize,
    limit: usize,
    taken: AtomicUsize,
    told_at: Mutex<Option<Instant>>,
}

impl Places {
    /// So many, under such a limit of open files.
    pub fn new(count: usize, limit: usize) -> Places {
        Places { count, limit, taken: AtomicUsize::new(0), told_at: Mutex::default() }
    }

    /// One, if there is one.
    pub fn take(self: &Arc<Places>) -> Option<Place> {
        let more = |taken| (taken < self.count).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Place(self.clone()))
    }

    /// The warning for the log when no place is free; none if it was given within `NEWS_GAP`.
    pub fn news(&self) -> Option<String> {
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if told_at.is_some_and(|at| now < at + NEWS_GAP) {
            return None;
        }
        *told_at = Some(now);
        let Places { count, limit, .. } = self;
        Some(format!(
            "all {count} connections are there that the limit of {limit} open files leaves room for: further ones wait \
             until others are closed. Raise the limit (ulimit -n, or LimitNOFILE= in systemd)"
        ))
    }
}

/// A connection's place; given back when it is dropped.
#[derive(Debug)]
pub struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A socket that holds a place, unless it is the node's own.
#[derive(Debug)]
pub struct Stream {
    /// Closed before the place is given back.
    socket: TcpStream,
    _place: Option<Place>,
}

impl Stream {
    /// One that was accepted.
    pub fn new(socket: TcpStream, place: Place) -> Stream {
        Stream { socket, _place: Some(place) }
    }
}

/// One of the node's own.
impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Stream {
        Stream { socket, _place: None }
    }
}

impl Deref for Stream {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.socket
    }
}

impl DerefMut for Stream {
    fn deref_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.socket.register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.socket.reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket.deregister(registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node has some forty files open when it has started.
    const OPEN: usize = 40;

    #[test]
    fn most_of_a_limit_is_left_for_connections() {
        let check = |limit: usize, connections: usize| {
            let shares = Shares::of(limit);
            let left = limit - shares.kept(OPEN);
            assert!(left >= connections, "{limit}: {left} are left, {shares:?}");
            assert!(shares.files >= FILES_MIN && shares.api >= API_MIN, "{shares:?}");
        };
        check(300, 100);
        check(1024, 768);
        check(4096, 3072);
        check(20_000, 18_500);
        check(1 << 20, (1 << 20) - 1500);
        check(usize::MAX, usize::MAX - 1500);
    }

    #[test]
    fn places_come_back_and_the_log_hears_once_that_there_are_none() {
        let places = Arc::new(Places::new(2, 300));
        let first = places.take().expect("a place");
        let second = places.take().expect("a place");
        assert!(places.take().is_none());
        assert!(places.news().is_some_and(|text| text.contains("all 2 connections")));
        assert_eq!(places.news(), None);
        drop(first);
        let third = places.take().expect("the first's");
        assert!(places.take().is_none());
        drop((second, third));
        assert_eq!(places.taken.load(Ordering::Relaxed), 0);
    }
}
