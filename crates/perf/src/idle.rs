//! Idle connections: how fast they open, what each costs the broker, and whether all stay.
//!
//! Each logs in, opens two sessions or channels, and from then on only keeps its heartbeat.

use crate::end::flush;
use crate::load::Aim;
use crate::options::Protocol;
use crate::process::Usage;
use crate::progress::Progress;
use crate::uri::Uri;
use crate::wire::{Happenings, Purpose, Wire};
use base::Now;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde::Serialize;
use socket2::{Domain, Protocol as Transport, SockAddr, Socket, Type};
use std::fmt::Write;
use std::io::{self, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Connections of one thread that are on their way at a time: enough to hide the round trips, and below the backlog of
/// any listener.
const OPENING_MAX: usize = 64;

/// Kernel buffer asked for in each direction, bytes; the kernel doubles it.
const SOCKET_BUFFER: usize = 2048;

/// Bytes read at a time.
const READ: usize = 256 << 10;

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(100);

/// How long opening all may stand still.
const STALL: Duration = Duration::from_secs(20);

/// What idle connections of one protocol cost.
#[derive(Clone, Debug, Serialize)]
pub struct Idle {
    /// Their protocol.
    pub protocol: Protocol,
    /// How many were opened.
    pub connections: u64,
    /// How long that took.
    pub open_seconds: f64,
    /// How long they were held.
    pub idle_seconds: u32,
    /// Heartbeat asked for, seconds.
    pub heartbeat: u16,
    /// How many broke meanwhile.
    pub dropped: u64,
    /// The first reason for a break.
    pub why: Option<String>,
    /// The broker, where its process is known: before, with all open, and after the idle time.
    pub broker: Option<[Usage; 3]>,
}

impl Idle {
    /// Connections opened per second.
    pub fn opens_per_second(&self) -> f64 {
        self.connections as f64 / self.open_seconds.max(1e-9)
    }

    /// Lines for people.
    pub fn text(&self) -> String {
        let name = match self.protocol {
            Protocol::Amqp091 => "0-9-1, 2 channels each",
            Protocol::Amqp10 => "1.0, 2 sessions each",
        };
        let mut text = format!(
            "{} connections ({name}, heartbeat {} s): opened {:.0} per second, held {} s, dropped {}\n",
            self.connections,
            self.heartbeat,
            self.opens_per_second(),
            self.idle_seconds,
            self.dropped,
        );
        if let Some(why) = &self.why {
            let _ = writeln!(text, "  the first one broke because: {why}");
        }
        if let Some([before, open, end]) = self.broker {
            let count = self.connections.max(1) as f64;
            let each = |usage: Usage| usage.rss.saturating_sub(before.rss) as f64 / count;
            let _ = writeln!(
                text,
                "  broker RSS {} MB before, {} MB open ({:.0} B each), {} MB after idling ({:.0} B each)",
                before.rss >> 20,
                open.rss >> 20,
                each(open),
                end.rss >> 20,
                each(end),
            );
            let opening_ns = open.cpu_ns.saturating_sub(before.cpu_ns) as f64;
            let idling_ns = end.cpu_ns.saturating_sub(open.cpu_ns) as f64;
            let _ = writeln!(
                text,
                "  broker CPU {:.0} us to open one, {:.2} % of a core while idle",
                opening_ns / count / 1000.0,
                idling_ns / 1e7 / f64::from(self.idle_seconds.max(1)),
            );
        }
        text
    }
}

/// What the threads share.
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

/// Opens `connections`, holds them and lets them go.
///
/// # Errors
/// In words for people: the broker could not be reached, or not all could be opened.
pub fn run<W: Wire>(
    protocol: Protocol,
    connections: u64,
    aim: &mut Aim<'_>,
    progress: &mut Progress,
) -> Result<Idle, String> {
    let bench = aim.bench;
    let address = (aim.uri.host.as_str(), aim.uri.port)
        .to_socket_addrs()
        .ok()
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| format!("{} is not known", aim.uri.host))?;
    let mut usage = || aim.process.as_deref_mut().and_then(|process| process.usage().ok());
    let before = usage();
    let shared = Shared {
        start: Instant::now(),
        open: AtomicU64::new(0),
        dropped: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let threads = u64::from(bench.client_threads).min(connections).max(1);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|index| {
                let share = connections / threads + u64::from(index < connections % threads);
                let holder = Holder::<W> {
                    shared: &shared,
                    uri: aim.uri,
                    address,
                    heartbeat: bench.heartbeat,
                    share: share as usize,
                    links: Vec::new(),
                    opening: 0,
                    why: None,
                };
                scope.spawn(move || holder.run())
            })
            .collect();
        let open_seconds = wait_until_open(&shared, connections, progress);
        let open = usage();
        if open_seconds.is_some() {
            let until = Instant::now() + Duration::from_secs(u64::from(bench.idle_seconds));
            while Instant::now() < until {
                thread::sleep(TICK);
                let dropped = shared.dropped.load(Ordering::SeqCst);
                progress.say(&format!("{connections} connections idle, {dropped} dropped"));
            }
        }
        let end = usage();
        let dropped = shared.dropped.load(Ordering::SeqCst);
        shared.stop.store(true, Ordering::SeqCst);
        let mut why = None;
        for handle in handles {
            let ended = handle.join().map_err(|_| "a client thread panicked".to_owned())?;
            why = why.or(ended.map_err(|error| format!("waiting for sockets failed: {error}"))?);
        }
        progress.end();
        let Some(open_seconds) = open_seconds else {
            let opened = shared.open.load(Ordering::SeqCst);
            let why = why.unwrap_or_else(|| "nothing moved any more".to_owned());
            return Err(format!("only {opened} of {connections} connections opened: {why}"));
        };
        Ok(Idle {
            protocol,
            connections,
            open_seconds,
            idle_seconds: bench.idle_seconds,
            heartbeat: bench.heartbeat,
            dropped,
            why,
            broker: before.zip(open).zip(end).map(|((before, open), end)| [before, open, end]),
        })
    })
}

/// How long it took until all were open, seconds; `None` if that stood still.
fn wait_until_open(shared: &Shared, connections: u64, progress: &mut Progress) -> Option<f64> {
    let (mut last, mut moved_at) = (0, Instant::now());
    loop {
        let open = shared.open.load(Ordering::SeqCst);
        if open == connections {
            return Some(shared.start.elapsed().as_secs_f64());
        }
        if open != last {
            (last, moved_at) = (open, Instant::now());
        } else if moved_at.elapsed() > STALL || shared.dropped.load(Ordering::SeqCst) > 0 {
            return None;
        }
        progress.say(&format!("{open} of {connections} connections open"));
        thread::sleep(Duration::from_millis(2));
    }
}

/// One connection.
struct Link<W> {
    socket: TcpStream,
    wire: W,
    tail: Vec<u8>,
    is_open: bool,
}

/// One thread's connections.
struct Holder<'a, W> {
    shared: &'a Shared,
    uri: &'a Uri,
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

impl<W: Wire> Holder<'_, W> {
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
        let socket = connect(self.address);
        let wire = W::new(self.shared.now(), self.uri, Purpose::Idle { heartbeat: self.heartbeat });
        let link = socket.map_err(|error| error.to_string()).and_then(|socket| Ok((socket, wire?)));
        match link {
            Ok((mut socket, wire)) => {
                let interest = Interest::READABLE | Interest::WRITABLE;
                poll.registry().register(&mut socket, Token(index), interest)?;
                self.opening += 1;
                self.links.push(Some(Link { socket, wire, tail: Vec::new(), is_open: false }));
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
        match link.serve(self.shared, buffer) {
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
            let len = match self.socket.read(&mut buffer[kept..]) {
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
        match flush(self.wire.output(), &mut self.socket) {
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

/// A socket with small buffers on its way to `address`.
fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Transport::TCP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::from(address)) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    Ok(TcpStream::from_std(socket.into()))
}
