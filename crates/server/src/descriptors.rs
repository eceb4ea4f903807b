//! The files a node may have open: a share for itself, and the places that are left for connections.
//!
//! A node that cannot open a file of its journal ends, so clients that open sockets, which takes no password, must not
//! get at the files that it opens itself. A connection holds a place until its socket is closed. Where all are taken, one
//! that has not logged in goes for one that comes: the oldest of the address that has most of them. Where all have
//! logged in, one that comes waits in the queue of the listening socket, as with RabbitMQ where it has no descriptors
//! left. The management API, metrics and the tools have shares of their own, so that an operator gets in
//! also then.

use crate::leftovers::WAITING_MAX;
use crate::log::Logger;
use crate::log::level::Level;
use management::{PlaceId, PlaceLimits, Places as Table, PoolRow};
use mio::event::Source;
use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Files of the data folder that are kept open, at most and at least: each may be opened whenever it is needed.
const FILES_MAX: usize = 256;
const FILES_MIN: usize = 16;

/// Connections of the management API, of metrics, and of listeners to events that there may be however few files are.
const API_MIN: usize = 8;
const METRICS_MIN: usize = 4;
const LISTENERS_MIN: usize = 4;

/// Descriptors that are open for a moment: files that the cache has let go while they are read, folders, looks into
/// /proc, and those of the tools and the management API, three sockets for each request that publishes or gets
/// messages.
const MOMENTARY: usize = 96;

/// Connections there may be where the limit leaves room for none at all.
const PLACES_MIN: usize = 8;

/// Connections that went for others and are not closed yet, at most and at least.
const LEAVING_MAX: usize = 64;
const LEAVING_MIN: usize = 4;

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
    /// Connections of the management API that listen to events.
    pub listeners: usize,
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
            listeners: (limit / 128).max(LISTENERS_MIN).min(usual.event_streams_max),
        }
    }

    /// How many files are kept for the node itself, of which `open` are there already.
    fn kept(&self, open: usize) -> usize {
        let usual = management::Limits::default();
        // Those that were given up for others and are not closed yet.
        let leaving = usual.leaving_of(self.api) + usual.leaving_of(self.metrics);
        let leaving = leaving + self::leaving(self.limit);
        open + self.files + self.removed + self.api + self.metrics + leaving + self.listeners + MOMENTARY
    }

    /// About so many places are left for connections.
    pub fn connections(&self) -> usize {
        self.limit.saturating_sub(self.kept(MOMENTARY)).max(PLACES_MIN)
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

/// Connections that may be open beside all places since they went for others, under a limit of open files.
fn leaving(limit: usize) -> usize {
    (limit / 128).clamp(LEAVING_MIN, LEAVING_MAX)
}

/// The places of connections: how many there may be, and who has them.
#[derive(Debug)]
pub struct Places {
    count: usize,
    limit: usize,
    /// Of each connection that has not logged in, its socket.
    table: Mutex<Table<Weak<Held>>>,
    began: Instant,
    told_at: Mutex<[Option<Instant>; 2]>,
}

/// Whether somebody may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is a place, or one that has not logged in goes for it.
    Here,
    /// In a moment: some that went for others are not closed yet.
    Soon,
    /// No.
    None,
}

impl Places {
    /// So many, under such a limit of open files.
    pub fn new(count: usize, limit: usize) -> Places {
        let table = Mutex::new(Table::new(PlaceLimits {
            places_max: count,
            kept: 0,
            // A proxy or a gateway has one address for thousands of clients, which may come at once: what an address
            // may have depends on who else wants places.
            address_max: count,
            user_max: usize::MAX,
            young_ms: 0,
            leaving_max: leaving(limit),
        }));
        Places { count, limit, table, began: Instant::now(), told_at: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table<Weak<Held>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As they are listed; users are told by their connections.
    pub fn row(&self) -> PoolRow {
        let table = self.table();
        let mut row = PoolRow::new(PoolRow::CONNECTIONS, Some(self.count as u64));
        (row.taken, row.refused, row.given_up) = (table.taken() as u64, table.refused(), table.given_up());
        row
    }

    /// Whether somebody may come.
    pub fn room(&self) -> Room {
        let table = self.table();
        match (table.has_room(), table.is_leaving()) {
            (true, _) => Room::Here,
            (false, true) => Room::Soon,
            (false, false) => Room::None,
        }
    }

    /// Gives an accepted socket a place; none where there is none for it. The socket of one that goes for it is shut
    /// down, which its thread hears as it hears of a peer that leaves.
    pub fn seat(self: &Arc<Places>, socket: TcpStream, from: IpAddr) -> Option<Stream> {
        let held = Arc::new(Held {
            socket: Some(socket),
            place: OnceLock::new(),
            is_given_up: AtomicBool::new(false),
        });
        let now_ms = self.began.elapsed().as_millis() as u64;
        let taken = self.table().take(now_ms, from, Arc::downgrade(&held))?;
        if let Some(other) = taken.instead_of.and_then(|other| other.upgrade()) {
            other.is_given_up.store(true, Ordering::Relaxed);
            // A socket that cannot be shut down is on its way out.
            let _ = other.socket().shutdown(Shutdown::Both);
        }
        let place = Place { id: taken.id, places: self.clone() };
        // It has none yet.
        let _ = held.place.set(place);
        Some(Stream::Stranger(held))
    }

    /// The warnings for the log: where `is_full`, that no place is free; and how many connections went for others. None
    /// that was given within `NEWS_GAP`.
    pub fn news(&self, is_full: bool) -> Vec<String> {
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_due = |told_at: &Option<Instant>| told_at.is_none_or(|at| now >= at + NEWS_GAP);
        let Places { count, limit, .. } = self;
        let mut news = Vec::new();
        if is_full && is_due(&told_at[0]) {
            told_at[0] = Some(now);
            news.push(format!(
                "all {count} connections are there that the limit of {limit} open files leaves room for: further ones \
                 wait until others are closed. Raise the limit (ulimit -n, or LimitNOFILE= in systemd)"
            ));
        }
        if is_due(&told_at[1]) {
            let given_up = self.table().take_given_up();
            if given_up > 0 {
                told_at[1] = Some(now);
                news.push(format!(
                    "{given_up} connections that had not logged in were closed for others, since all {count} places \
                     are taken: somebody may be holding places that does not log in"
                ));
            }
        }
        news
    }
}

/// A connection's place; given back when it is dropped.
#[derive(Debug)]
struct Place {
    id: PlaceId,
    places: Arc<Places>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table().give_back(self.id);
    }
}

/// The socket of a connection that has not logged in, and its place.
#[derive(Debug)]
pub struct Held {
    /// Closed before the place is given back. There until it is known.
    socket: Option<TcpStream>,
    place: OnceLock<Place>,
    /// It goes for another.
    is_given_up: AtomicBool,
}

impl Held {
    fn socket(&self) -> &TcpStream {
        self.socket.as_ref().expect("it is taken out as it becomes known, and this with it")
    }
}

/// The socket of a connection that has logged in, and its place.
#[derive(Debug)]
pub struct Own {
    /// Closed before the place is given back.
    socket: TcpStream,
    /// None of the node's own has one.
    _place: Option<Place>,
}

/// A socket that holds a place, unless it is the node's own.
#[derive(Debug)]
pub enum Stream {
    /// The table of places knows it, and shuts it down for another.
    Stranger(Arc<Held>),
    /// It stays. Nobody shares it: there are many, and each has as little memory as it can.
    Known(Own),
}

impl Stream {
    /// Its connection has logged in: it does not go for others any more.
    pub fn know(&mut self) {
        let Stream::Stranger(held) = self else { return };
        let Some(place) = held.place.get() else { return };
        if !place.places.table().know(place.id, None) {
            return;
        }
        // The table has forgotten it, and nobody who took it from there is left: that would have been one that goes.
        if let Some(held) = Arc::get_mut(held)
            && let Some(socket) = held.socket.take()
        {
            *self = Stream::Known(Own { socket, _place: held.place.take() });
        }
    }

    /// It was closed for another connection.
    pub fn is_given_up(&self) -> bool {
        matches!(self, Stream::Stranger(held) if held.is_given_up.load(Ordering::Relaxed))
    }
}

/// One of the node's own.
impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Stream {
        Stream::Known(Own { socket, _place: None })
    }
}

impl Deref for Stream {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        match self {
            Stream::Stranger(held) => held.socket(),
            Stream::Known(own) => &own.socket,
        }
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&**self).read(into)
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&**self).write(bytes)
    }

    #[inline]
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&**self).write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&**self).flush()
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).deregister(registry)
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
        check(1 << 20, (1 << 20) - 2000);
        check(usize::MAX, usize::MAX - 2000);
    }

    /// A connection from an address of this machine's own, and its socket here.
    fn connect(listener: &std::net::TcpListener, from: u8) -> (std::net::TcpStream, TcpStream, IpAddr) {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("is made");
        socket.bind(&std::net::SocketAddr::from(([127, 0, 0, from], 0)).into()).expect("is bound");
        socket.connect(&listener.local_addr().expect("bound").into()).expect("connects");
        let (stream, from) = listener.accept().expect("accepted");
        stream.set_nonblocking(true).expect("set");
        (socket.into(), TcpStream::from_std(stream), from.ip())
    }

    #[test]
    fn places_come_back_and_the_log_hears_once_that_there_are_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
        let places = Arc::new(Places::new(2, 300));
        let mut clients = Vec::new();
        let mut come = |from: u8| {
            let (client, socket, address) = connect(&listener, from);
            clients.push(client);
            places.seat(socket, address)
        };
        let mut first = come(1).expect("a place");
        first.know();
        assert!(matches!(first, Stream::Known(_)));
        let mut second = come(1).expect("a place");
        second.know();
        assert_eq!(places.room(), Room::None);
        assert!(come(2).is_none(), "both have logged in");
        assert!(places.news(true).concat().contains("all 2 connections"));
        assert!(places.news(true).is_empty());
        drop(first);
        assert_eq!(places.room(), Room::Here);
        let third = come(1).expect("the first's");
        drop((second, third));
        assert_eq!(places.table().taken(), 0);
    }

    #[test]
    fn who_has_not_logged_in_goes_for_another() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
        let places = Arc::new(Places::new(4, 300));
        let mut clients = Vec::new();
        let mut come = |from: u8| {
            let (client, socket, address) = connect(&listener, from);
            clients.push(client);
            places.seat(socket, address).expect("a place")
        };
        let mut known = come(9);
        known.know();
        let mut held = vec![come(9), come(9), come(1)];
        let mut came = come(2);
        let given_up = |held: &[Stream]| held.iter().map(Stream::is_given_up).collect::<Vec<_>>();
        assert_eq!((known.is_given_up(), given_up(&held)), (false, vec![true, false, false]));
        assert_eq!(held[0].read(&mut [0]).expect("its end"), 0);
        assert!(came.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        assert!(places.news(false).concat().starts_with("1 connections that had not logged in"));
        drop(held.remove(0));
        assert_eq!(places.table().taken(), 4);
        drop((known, held, came));
        assert_eq!(places.table().taken(), 0);
    }
}
