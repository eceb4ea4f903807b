//! Idle connections held by the threads of this process.
//!
//! Each logs in, opens two sessions or channels, and from then on only keeps its heartbeat.

use crate::end::flush;
use crate::options::Protocol;
use crate::stream::Stream;
use crate::uri::Uri;
use crate::wire::amqp10::Amqp10;
use crate::wire::amqp091::Amqp091;
use crate::wire::stream::Streaming;
use crate::wire::{Happenings, Purpose, Wire};
use base::Now;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Protocol as Transport, SockAddr, Socket, Type};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Connections of one thread that are on their way at a time: enough to hide the round trips, and below the backlog of
/// any listener.
const OPENING_MAX: usize = 64;

/// Kernel buffer asked for in each direction, bytes; the kernel doubles it.
const SOCKET_BUFFER: usize = 2048;

/// Connections of one thread that come from one address of this machine: the more there are, the longer the kernel looks
/// for a free port for the next.
const SOURCE_SHARE: usize = 2048;

/// Bytes read at a time.
const READ: usize = 256 << 10;

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(100);

/// The connections to be held.
#[derive(Clone, Debug)]
pub struct Plan {
    /// By which protocol.
    pub protocol: Protocol,
    /// How many connections.
    pub connections: u64,
    /// On how many threads.
    pub threads: u32,
    /// Heartbeat asked for, seconds.
    pub heartbeat: u16,
    /// Where.
    pub uri: Uri,
}

/// How many are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Opened so far.
    pub open: u64,
    /// Broken so far, or never opened.
    pub dropped: u64,
}

/// The state that the threads share.
struct Shared {
    start: Instant,
    open: AtomicU64,
    dropped: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    fn now(&self) -> Now {
        Now { mono_ns: self.start.elapsed().as_nanos() as u64, wall_ms: 0 }
    }
}

/// Connections being opened and held.
pub struct Hold {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<Option<String>>>>,
}

impl Hold {
    /// Begins to open the connections of `plan`.
    ///
    /// # Errors
    /// The host is not known.
    pub fn start(plan: &Plan) -> Result<Hold, String> {
        match plan.protocol {
            Protocol::Amqp091 => Hold::of::<Amqp091>(plan),
            Protocol::Amqp10 => Hold::of::<Amqp10>(plan),
            Protocol::Stream => Hold::of::<Streaming>(plan),
        }
    }

    fn of<W: Wire + 'static>(plan: &Plan) -> Result<Hold, String> {
        let address = (plan.uri.host.as_str(), plan.uri.port)
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next())
            .ok_or_else(|| format!("{} is not known", plan.uri.host))?;
        let shared = Arc::new(Shared {
            start: Instant::now(),
            open: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let count = u64::from(plan.threads).min(plan.connections).max(1);
        let shares = shares(plan.connections, count);
        let threads = shares
            .map(|share| {
                let holder = Holder::<W> {
                    shared: shared.clone(),
                    uri: plan.uri.clone(),
                    protocol: plan.protocol,
                    address,
                    heartbeat: plan.heartbeat,
                    share: share as usize,
                    links: Vec::new(),
                    opening: 0,
                    why: None,
                };
                thread::spawn(move || holder.run())
            })
            .collect();
        Ok(Hold { shared, threads })
    }

    /// How many are there now.
    pub fn count(&self) -> Count {
        Count {
            open: self.shared.open.load(Ordering::SeqCst),
            dropped: self.shared.dropped.load(Ordering::SeqCst),
        }
    }

    /// Lets all go, and tells the first reason why one broke before.
    ///
    /// # Errors
    /// A thread could not go on.
    pub fn stop(self) -> Result<Option<String>, String> {
        self.shared.stop.store(true, Ordering::SeqCst);
        let mut why = None;
        for thread in self.threads {
            let ended = thread.join().map_err(|_| "a client thread panicked".to_owned())?;
            why = why.or(ended.map_err(|error| format!("waiting for sockets failed: {error}"))?);
        }
        Ok(why)
    }
}

/// `all`, divided among `count`.
pub fn shares(all: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |index| all / count + u64::from(index < all % count))
}

/// One connection.
struct Link<W> {
    stream: Stream<TcpStream>,
    wire: W,
    tail: Vec<u8>,
    is_open: bool,
}

/// One thread's connections.
struct Holder<W> {
    shared: Arc<Shared>,
    uri: Uri,
    protocol: Protocol,
    address: SocketAddr,
    heartbeat: u16,
    /// How many it is to open.
    share: usize,
    /// In the order they were opened; `None` where one broke.
    links: Vec<Option<Link<W>>>,
    opening: usize,
    why: Option<String>,
}

/// Idle connections have nothing to tell.
struct Nothing;

impl Happenings for Nothing {
    fn confirmed(&mut self, _first: u64, _last: u64) {}
    fn confirmed_up_to(&mut self, _last: u64) {}
    fn refused(&mut self, _first: u64, _last: u64, _why: &str) {}
    fn returned(&mut self, _why: &str) {}
    fn delivered(&mut self, _queue: usize, _is_redelivered: bool, _body: &[u8]) {}
}

impl<W: Wire> Holder<W> {
    fn run(mut self) -> io::Result<Option<String>> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; READ];
        let mut ticked_at = Instant::now();
        while !self.shared.stop.load(Ordering::Relaxed) {
            while self.links.len() < self.share && self.opening < OPENING_MAX && self.why.is_none() {
                self.open(&poll)?;
            }
            match poll.poll(&mut events, Some(TICK)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            for event in &events {
                self.serve(event.token().0, &mut buffer);
            }
            if ticked_at.elapsed() >= TICK {
                ticked_at = Instant::now();
                self.keep_deadlines();
            }
        }
        self.say_goodbye();
        Ok(self.why)
    }

    /// Tells the broker that it is over, so that it need not guess. Nobody waits for the answers.
    fn say_goodbye(&mut self) {
        let now = self.shared.now();
        for link in self.links.iter_mut().flatten() {
            link.wire.close(now);
            // A connection that broke in the last moment was idle until then.
            let _ = link.write();
        }
    }

    fn open(&mut self, poll: &Poll) -> io::Result<()> {
        let index = self.links.len();
        let socket = connect(self.address, source(self.address, index));
        let wire = W::new(self.shared.now(), &self.uri, Purpose::Idle { heartbeat: self.heartbeat });
        let stream = socket
            .map_err(|error| error.to_string())
            .and_then(|socket| Stream::new(socket, &self.uri, self.protocol));
        let link = stream.and_then(|stream| Ok((stream, wire?)));
        match link {
            Ok((mut stream, wire)) => {
                let interest = Interest::READABLE | Interest::WRITABLE;
                poll.registry().register(stream.socket_mut(), Token(index), interest)?;
                self.opening += 1;
                self.links.push(Some(Link { stream, wire, tail: Vec::new(), is_open: false }));
            }
            Err(why) => {
                self.links.push(None);
                self.note_drop(why);
            }
        }
        Ok(())
    }

    fn note_drop(&mut self, why: String) {
        self.why.get_or_insert(why);
        self.shared.dropped.fetch_add(1, Ordering::SeqCst);
    }

    /// Reads and writes until the socket has no more.
    fn serve(&mut self, index: usize, buffer: &mut [u8]) {
        let Some(link) = &mut self.links[index] else { return };
        match link.serve(&self.shared, buffer) {
            Ok(()) => {
                if !link.is_open && link.wire.is_ready() {
                    link.is_open = true;
                    self.opening -= 1;
                    self.shared.open.fetch_add(1, Ordering::SeqCst);
                }
            }
            Err(why) => self.drop_link(index, why),
        }
    }

    fn drop_link(&mut self, index: usize, why: String) {
        if self.links[index].take().is_some_and(|link| !link.is_open) {
            self.opening -= 1;
        }
        self.note_drop(why);
    }

    fn keep_deadlines(&mut self) {
        let now = self.shared.now();
        for index in 0..self.links.len() {
            let Some(link) = &mut self.links[index] else { continue };
            if link.wire.deadline().is_some_and(|deadline| deadline <= now.mono_ns) {
                let kept = link.wire.handle_deadline(now).and_then(|()| link.write());
                if let Err(why) = kept {
                    self.drop_link(index, why);
                }
            }
        }
    }
}

impl<W: Wire> Link<W> {
    fn serve(&mut self, shared: &Shared, buffer: &mut [u8]) -> Result<(), String> {
        self.write()?;
        loop {
            let kept = self.tail.len();
            buffer[..kept].copy_from_slice(&self.tail);
            let len = match self.stream.read(&mut buffer[kept..]) {
                Ok(0) => return Err("the broker closed the connection".to_owned()),
                Ok(count) => kept + count,
                Err(error) if is_not_yet(&error) => break,
                Err(error) => return Err(format!("the connection broke: {error}")),
            };
            let taken = self.wire.input(shared.now(), &buffer[..len], &mut Nothing)?;
            self.tail.clear();
            self.tail.extend_from_slice(&buffer[taken..len]);
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), String> {
        let written =
            flush(self.wire.output(), &mut self.stream).and_then(|is_all| Ok(is_all && self.stream.push()?));
        match written {
            Ok(true) => {
                self.wire.output().release();
                Ok(())
            }
            // A writable event follows.
            Ok(false) => Ok(()),
            Err(error) if is_not_yet(&error) => Ok(()),
            Err(error) => Err(format!("the connection broke: {error}")),
        }
    }
}

/// Whether the socket has nothing yet, or is not connected yet.
fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

/// Where the connection `index` of a thread comes from, if it matters: this machine has a whole network of addresses to
/// itself, of which each process takes its own.
fn source(address: SocketAddr, index: usize) -> Option<SocketAddr> {
    if !matches!(address.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
        return None;
    }
    let process = 1 + (std::process::id() % 250) as u8;
    let share = 1 + (index / SOURCE_SHARE % 250) as u8;
    Some((Ipv4Addr::new(127, process, share, 1), 0).into())
}

/// A socket with small buffers on its way to `address`.
fn connect(address: SocketAddr, source: Option<SocketAddr>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Transport::TCP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    if let Some(source) = source {
        socket.bind(&source.into())?;
    }
    match socket.connect(&SockAddr::from(address)) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    Ok(TcpStream::from_std(socket.into()))
}

#[cfg(test)]
mod tests {
    use super::{SOURCE_SHARE, shares, source};

    #[test]
    fn shares_add_up() {
        for (all, count, expected) in
            [(10, 3, vec![4, 3, 3]), (2, 2, vec![1, 1]), (1, 2, vec![1, 0]), (0, 1, vec![0])]
        {
            assert_eq!(shares(all, count).collect::<Vec<_>>(), expected, "{all} over {count}");
        }
    }

    #[test]
    fn many_connections_come_from_several_addresses_of_this_machine() {
        let local = "127.0.0.1:5672".parse().expect("an address");
        let first = source(local, 0).expect("matters");
        assert!(first.ip().is_loopback() && first.port() == 0);
        assert_eq!(source(local, SOURCE_SHARE - 1), Some(first));
        assert_ne!(source(local, SOURCE_SHARE), Some(first));
        for elsewhere in ["192.0.2.1:5672", "[::1]:5672"] {
            assert_eq!(source(elsewhere.parse().expect("an address"), 0), None, "{elsewhere}");
        }
    }
}
