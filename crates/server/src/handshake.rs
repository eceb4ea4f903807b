//! Threads that accept TLS connections and do their handshakes, so that the arithmetic of keys is on no shard's path.
//!
//! Each has its own readiness loop over all TLS listeners. A connection whose handshake is over goes to a shard, with
//! the bytes that the handshake left. Bounds, each per thread: [`HANDSHAKES_MAX`] at once (beyond, an older one goes for
//! one that comes: [`Crowd`]), [`BYTES_MAX`] from a peer, [`KEPT_BYTES_MAX`] of memory for bytes received and to be sent,
//! and a time limit.

use crate::config::network::CertificateLogin;
use crate::crowd::Crowd;
use crate::descriptors::{Places, Stream};
use crate::layer::{Layer, WebRules};
use crate::rounds::Rounds;
use crate::socket::Arrival;
use crate::tls::{LiveConfig, Secure};
use adapters::{Peer, Protocol};
use base::time::NS_PER_MS;
use management::PlaceId;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Handshakes a thread has in hand at once.
const HANDSHAKES_MAX: usize = 4096;

/// Bytes a peer may send until its handshake is over: a long chain of certificates, and more.
const BYTES_MAX: usize = 64 << 10;

/// Bytes of memory that all handshakes of a thread hold together, and those beyond which one that needs more is given up when there are
/// as many. Most need a few thousand: a peer that begins thousands of long ones, without a login, gets no further than
/// this.
const KEPT_BYTES_MAX: usize = 64 << 20;
const KEPT_BYTES_USUAL: usize = 16 << 10;

/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;

/// Tokens from here on are of listeners.
const LISTENER: usize = 1 << 40;

const WAKE: Token = Token(usize::MAX - 1);

/// A listening socket, and the rules of its connections.
pub struct SecureListener {
    /// The socket.
    pub listener: TcpListener,
    /// The protocol of its connections.
    pub protocol: Protocol,
    /// The TLS configuration.
    pub config: Arc<LiveConfig>,
    /// The rules of WebSocket, where it is spoken over TLS.
    pub web: Option<Arc<WebRules>>,
}

/// The thread's value.
pub struct Handshaker {
    poll: Poll,
    listeners: Vec<SecureListener>,
    places: Arc<Places>,
    is_stopping: Arc<AtomicBool>,
    limit_ns: u64,
    login: CertificateLogin,
    under_way: Slab<Handshake>,
    /// The same by address.
    crowd: Crowd<usize>,
    /// Oldest first: when each is given up, and which it is.
    deadlines: VecDeque<(u64, usize, u64)>,
    begun: u64,
    /// Bytes of memory that handshakes hold, and may hold.
    kept: usize,
    kept_max: usize,
    buffer: Vec<u8>,
}

/// Ends the thread.
pub struct Stop {
    waker: Waker,
    is_stopping: Arc<AtomicBool>,
}

impl Stop {
    /// No connection is accepted from here on, and handshakes under way are given up.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        // A poll that cannot be woken is gone.
        let _ = self.waker.wake();
    }
}

struct Handshake {
    number: u64,
    place: PlaceId,
    stream: Stream,
    peer: Peer,
    web: Option<Arc<WebRules>>,
    secure: Secure,
    received: usize,
    /// Received bytes that are no whole record yet.
    raw: Vec<u8>,
    /// Decrypted bytes that the peer sent right behind its handshake.
    plain: Vec<u8>,
    unsent: Vec<u8>,
}

enum Fate {
    Waits,
    IsThrough,
    Failed(String),
}

impl Handshaker {
    /// One for these listeners, whose connections take these places; a handshake may take `limit_ms`.
    ///
    /// # Errors
    /// The error of the poll or of a listener's registration.
    pub fn new(
        mut listeners: Vec<SecureListener>,
        places: Arc<Places>,
        limit_ms: u64,
        login: CertificateLogin,
    ) -> io::Result<(Handshaker, Stop)> {
        let poll = Poll::new()?;
        for (number, own) in listeners.iter_mut().enumerate() {
            poll.registry().register(&mut own.listener, Token(LISTENER + number), Interest::READABLE)?;
        }
        let waker = Waker::new(poll.registry(), WAKE)?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stop = Stop { waker, is_stopping: is_stopping.clone() };
        let handshaker = Handshaker {
            poll,
            listeners,
            places,
            is_stopping,
            limit_ns: limit_ms * NS_PER_MS,
            login,
            under_way: Slab::new(),
            crowd: Crowd::new(HANDSHAKES_MAX),
            deadlines: VecDeque::new(),
            begun: 0,
            kept: 0,
            kept_max: KEPT_BYTES_MAX,
            buffer: vec![0; READ_BYTES],
        };
        Ok((handshaker, stop))
    }

    /// Runs until told to stop. `now_ns` tells the time; `hand_over` gets each connection that is through; `complain`
    /// what went wrong with one.
    pub fn run(
        mut self,
        now_ns: impl Fn() -> u64,
        mut hand_over: impl FnMut(Arrival),
        mut complain: impl FnMut(String),
    ) {
        let mut events = Events::with_capacity(256);
        let (mut pause, mut rounds) = (None, Rounds::new());
        while !self.is_stopping.load(Ordering::SeqCst) {
            let next =
                self.deadlines.front().map(|(at, ..)| Duration::from_nanos(at.saturating_sub(now_ns())));
            match self.poll.poll(&mut events, [pause, next].into_iter().flatten().min()) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    complain(format!("waiting for TLS connections failed: {error}"));
                    return;
                }
                _ => {}
            }
            for event in &events {
                if event.token().0 < LISTENER {
                    self.go_on(event.token().0, &mut hand_over, &mut complain);
                }
            }
            self.give_up(now_ns(), &mut complain);
            // When all places were taken or after a pause no event says that connections wait, so all are asked.
            pause = self.accept(&mut rounds, now_ns(), &mut complain);
            self.crowd.news(now_ns()).into_iter().for_each(&mut complain);
        }
    }

    fn accept(
        &mut self,
        rounds: &mut Rounds,
        now_ns: u64,
        complain: &mut impl FnMut(String),
    ) -> Option<Duration> {
        let mut came = Vec::new();
        let Handshaker { listeners, places, .. } = &*self;
        let listener = |number: usize| &listeners[number].listener;
        let hand_over = |number, stream, peer| came.push((number, stream, peer));
        let pause = rounds.accept(listeners.len(), listener, places, hand_over, &mut *complain);
        for (number, stream, peer) in came {
            self.begin(number, stream, peer, now_ns, complain);
        }
        pause
    }

    /// Begins the handshake of a connection that came to this listener.
    fn begin(
        &mut self,
        listener: usize,
        mut stream: Stream,
        peer: Peer,
        now_ns: u64,
        complain: &mut impl FnMut(String),
    ) {
        let own = &self.listeners[listener];
        let secure = match Secure::new(own.config.current()) {
            Ok(secure) => secure,
            Err(error) => return complain(format!("TLS does not begin: {error}")),
        };
        let (web, peer) = (own.web.clone(), Peer { protocol: own.protocol, ..peer });
        // A peer that is gone already needs no handshake; one that cannot be registered is closed here.
        let Ok(from) = stream.peer_addr() else { return };
        let slot = self.under_way.vacant_key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut stream, Token(slot), interest).is_err() {
            return;
        }
        let Some((place, other)) = self.crowd.begin(from.ip(), slot) else { return };
        self.begun += 1;
        let number = self.begun;
        let (raw, plain, unsent) = (Vec::new(), Vec::new(), Vec::new());
        let handshake =
            Handshake { number, place, stream, peer, web, secure, received: 0, raw, plain, unsent };
        let inserted = self.under_way.insert(handshake);
        debug_assert_eq!(inserted, slot);
        self.deadlines.push_back((now_ns + self.limit_ns, slot, number));
        if let Some(other) = other {
            self.remove(other);
        }
    }

    fn go_on(&mut self, slot: usize, hand_over: &mut impl FnMut(Arrival), complain: &mut impl FnMut(String)) {
        let Some(handshake) = self.under_way.get_mut(slot) else { return };
        self.kept -= handshake.kept_bytes();
        let fate = handshake.go_on(&mut self.buffer);
        self.kept += handshake.kept_bytes();
        let is_much = self.kept > self.kept_max && handshake.kept_bytes() > KEPT_BYTES_USUAL;
        match fate {
            Fate::Waits if is_much => {
                let handshake = self.remove(slot);
                let name = &handshake.peer.name;
                complain(format!("closing TLS connection {name}: all handshakes together are too long"));
            }
            Fate::Waits => {}
            Fate::IsThrough => {
                let mut handshake = self.remove(slot);
                // One that is dropped is deregistered anyhow.
                let _ = self.poll.registry().deregister(&mut handshake.stream);
                hand_over(handshake.arrive(self.login));
            }
            Fate::Failed(why) => {
                let handshake = self.remove(slot);
                if handshake.stream.is_given_up() {
                    // All that go for others are told of in one line.
                    return;
                }
                complain(format!("closing TLS connection {}: {why}", handshake.peer.name));
            }
        }
    }

    fn remove(&mut self, slot: usize) -> Handshake {
        let handshake = self.under_way.remove(slot);
        self.kept -= handshake.kept_bytes();
        self.crowd.end(handshake.place);
        handshake
    }

    fn give_up(&mut self, now_ns: u64, complain: &mut impl FnMut(String)) {
        while let Some((at, slot, number)) = self.deadlines.front().copied() {
            let is_there = self.under_way.get(slot).is_some_and(|handshake| handshake.number == number);
            if is_there && at > now_ns {
                return;
            }
            self.deadlines.pop_front();
            if is_there {
                let handshake = self.remove(slot);
                let name = &handshake.peer.name;
                complain(format!(
                    "closing TLS connection {name}: the handshake took too long (ssl_handshake_timeout)"
                ));
            }
        }
    }
}

impl Handshake {
    /// Bytes of memory it holds besides itself and the state of TLS.
    fn kept_bytes(&self) -> usize {
        self.raw.capacity() + self.plain.capacity() + self.unsent.capacity()
    }

    fn go_on(&mut self, buffer: &mut [u8]) -> Fate {
        loop {
            if let Err(error) = self.flush() {
                return Fate::Failed(error.to_string());
            }
            match self.stream.read(buffer) {
                Ok(0) => return Fate::Failed("the peer left before the handshake was over".into()),
                Ok(count) => {
                    self.received += count;
                    if self.received > BYTES_MAX {
                        return Fate::Failed("the handshake is too long".into());
                    }
                    self.raw.extend_from_slice(&buffer[..count]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Fate::Waits,
                Err(error) => return Fate::Failed(error.to_string()),
            }
            let Handshake { secure, raw, plain, unsent, .. } = self;
            let opened = secure.open(raw, unsent, |bytes| plain.extend_from_slice(bytes));
            match opened {
                Ok(opened) => {
                    self.raw.drain(..opened.consumed);
                    if !self.secure.is_handshaking() {
                        return match self.flush() {
                            Ok(()) => Fate::IsThrough,
                            Err(error) => Fate::Failed(error.to_string()),
                        };
                    }
                    if opened.is_closed {
                        return Fate::Failed("the peer closed before the handshake was over".into());
                    }
                }
                Err(error) => {
                    // The alert, if the peer still listens.
                    let _ = self.flush();
                    return Fate::Failed(error.to_string());
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn arrive(mut self, login: CertificateLogin) -> Arrival {
        if let Some(name) = self.secure.established(login) {
            self.peer.certify(name);
        }
        self.peer.encryption = self.secure.about.clone();
        let layer = Layer::new(Some(self.secure), self.web).with_rest(self.raw, self.plain, self.unsent);
        Arrival { stream: self.stream, peer: self.peer, layer: Some(Box::new(layer)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptor::listen;
    use crate::config::SocketOptions;
    use crate::config::network::{AlternativeKind, LoginFrom};
    use crate::config::value::Address;
    use crate::tls::tests::Authority;
    use std::net::{Ipv4Addr, TcpStream as Client};
    use std::sync::mpsc::channel;

    #[test]
    fn long_handshakes_hold_a_bounded_memory_together() {
        let authority = Authority::new("long");
        authority.sign("server", false);
        let address = Address { ip: Some(Ipv4Addr::LOCALHOST.into()), port: 0 };
        let options = SocketOptions { backlog: 16, keepalive: false, send_bytes: None, receive_bytes: None };
        let listener = listen(address, &options).expect("listens");
        let at = listener.local_addr().expect("bound");
        let config = LiveConfig::open("ssl_options.", authority.options()).expect("usable");
        let listener = SecureListener { listener, protocol: Protocol::default(), config, web: None };
        let login = CertificateLogin { from: LoginFrom::Common, kind: AlternativeKind::Dns, index: 0 };
        let places = Arc::new(Places::new(64, 64));
        let (mut handshaker, stop) = Handshaker::new(vec![listener], places, 60_000, login).expect("starts");
        handshaker.kept_max = 150 << 10;
        let (told, hears) = channel();
        std::thread::scope(|threads| {
            let complain = move |text: String| told.send(text).expect("heard");
            threads.spawn(|| handshaker.run(|| 0, |_| {}, complain));
            // A hello of 60,000 bytes, in records of 15,000, of which the last never comes.
            let record = |begin: &[u8]| {
                let mut record = vec![0x16, 3, 1, 0x3a, 0x98];
                record.extend_from_slice(begin);
                record.resize(5 + 15_000, 0);
                record
            };
            let hello = [record(&[1, 0, 0xea, 0x60]), record(&[]), record(&[])].concat();
            let mut clients = Vec::new();
            for _ in 0..6 {
                let mut client = Client::connect(at).expect("connects");
                client.write_all(&hello).expect("written");
                clients.push(client);
            }
            let patience = Duration::from_secs(20);
            let text = hears.recv_timeout(patience).expect("one is given up");
            assert!(text.ends_with("all handshakes together are too long"), "{text}");
            // A client that leaves makes room, and a slow one with few bytes is let alone.
            drop(clients);
            let mut quiet = Client::connect(at).expect("connects");
            quiet.write_all(&[0x16, 3, 1]).expect("written");
            let left = std::iter::from_fn(|| hears.recv_timeout(Duration::from_millis(300)).ok());
            assert_eq!(left.count(), 5, "the last one waits");
            stop.stop();
        });
    }
}
