//! Listening sockets and the thread that accepts: each connection goes to the next shard in turn.

use crate::config::SocketOptions;
use crate::config::value::Address;
use crate::descriptors::{Places, Stream};
use crate::holder;
use crate::rounds::Rounds;
use adapters::Peer;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Listeners one node may have.
const LISTENERS_MAX: usize = 1024;

const WAKE: Token = Token(LISTENERS_MAX);

/// Opens a listening socket. Without an address: IPv6 and IPv4, or IPv4 alone where there is no IPv6.
///
/// # Errors
/// The address that could not be listened on, and the system's error.
pub fn listen(address: Address, options: &SocketOptions) -> Result<TcpListener, String> {
    let open = |ip: IpAddr| -> io::Result<TcpListener> {
        let at = SocketAddr::new(ip, address.port);
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        if ip.is_ipv6() {
            socket.set_only_v6(address.ip.is_some())?;
        }
        socket.set_reuse_address(true)?;
        // Accepted sockets inherit these.
        if let Some(bytes) = options.send_bytes {
            socket.set_send_buffer_size(bytes as usize)?;
        }
        if let Some(bytes) = options.receive_bytes {
            socket.set_recv_buffer_size(bytes as usize)?;
        }
        socket.set_keepalive(options.keepalive)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&at.into())?;
        socket.listen(options.backlog as i32)?;
        Ok(TcpListener::from_std(socket.into()))
    };
    let opened = match address.ip {
        Some(ip) => open(ip),
        None => open(Ipv6Addr::UNSPECIFIED.into()).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
            _ => open(Ipv4Addr::UNSPECIFIED.into()),
        }),
    };
    let named = || match address.ip {
        Some(ip) => SocketAddr::new(ip, address.port).to_string(),
        None => format!("port {}", address.port),
    };
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            let holder = holder::of_port(address.port).map_or(String::new(), |it| format!(", {it}"));
            format!("cannot listen on {}: another program does{holder}", named())
        }
        _ => format!("cannot listen on {}: {error}", named()),
    })
}

/// The thread's value.
pub struct Acceptor {
    poll: Poll,
    listeners: Vec<TcpListener>,
    places: Arc<Places>,
    is_stopping: Arc<AtomicBool>,
}

/// Ends the thread.
pub struct Stop {
    waker: Waker,
    is_stopping: Arc<AtomicBool>,
}

impl Stop {
    /// No connection is accepted from here on.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        // A poll that cannot be woken is gone.
        let _ = self.waker.wake();
    }
}

impl Acceptor {
    /// One for these listeners, whose connections take these places.
    ///
    /// # Errors
    /// The error of the poll: it cannot be made, a listener or the waker cannot be registered, or there are too many.
    pub fn new(mut listeners: Vec<TcpListener>, places: Arc<Places>) -> io::Result<(Acceptor, Stop)> {
        let poll = Poll::new()?;
        if listeners.len() > LISTENERS_MAX {
            return Err(io::Error::other(format!("more than {LISTENERS_MAX} listeners")));
        }
        for (number, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener, Token(number), Interest::READABLE)?;
        }
        let waker = Waker::new(poll.registry(), WAKE)?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stop = Stop { waker, is_stopping: is_stopping.clone() };
        Ok((Acceptor { poll, listeners, places, is_stopping }, stop))
    }

    /// Accepts until told to stop. `hand_over` gets each connection, `complain` each failure.
    ///
    /// The first argument of `hand_over` is the number of the listener.
    pub fn run(mut self, mut hand_over: impl FnMut(usize, Stream, Peer), mut complain: impl FnMut(String)) {
        let mut events = Events::with_capacity(64);
        let (mut pause, mut rounds) = (None, Rounds::new());
        while !self.is_stopping.load(Ordering::SeqCst) {
            match self.poll.poll(&mut events, pause) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    complain(format!("accepting connections failed: {error}"));
                    return;
                }
                _ => {}
            }
            // After a pause, or where many came, no event says that connections wait, so all are asked.
            let Acceptor { listeners, places, .. } = &self;
            pause = rounds.accept(
                listeners.len(),
                |number| &listeners[number],
                places,
                &mut hand_over,
                &mut complain,
            );
            self.places.news(false).into_iter().for_each(&mut complain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::PAUSE_MS;
    use std::net::TcpStream as Client;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const OPTIONS: SocketOptions =
        SocketOptions { backlog: 16, keepalive: false, send_bytes: Some(4096), receive_bytes: None };

    #[test]
    fn connections_arrive_with_their_names_until_it_stops() {
        let any = listen(Address { ip: None, port: 0 }, &OPTIONS).expect("listens");
        let one =
            listen(Address { ip: Some(Ipv4Addr::LOCALHOST.into()), port: 0 }, &OPTIONS).expect("listens");
        let ports = [&any, &one].map(|listener| listener.local_addr().expect("bound").port());
        let (acceptor, stop) = Acceptor::new(vec![any, one], Arc::new(Places::new(8, 64))).expect("starts");
        let (sender, receiver) = channel();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                acceptor.run(move |_, stream, peer| sender.send((stream, peer)).expect("heard"), |_| {})
            });
            for port in ports {
                let client = Client::connect((Ipv4Addr::LOCALHOST, port)).expect("connects");
                let (stream, peer) = receiver.recv().expect("accepted");
                let from = client.local_addr().expect("bound");
                assert_eq!(*peer.name, *format!("{from} -> 127.0.0.1:{port}"));
                assert!(peer.is_loopback && stream.nodelay().expect("asked"));
            }
            stop.stop();
        });
    }

    #[test]
    fn who_finds_no_place_waits_until_another_is_closed() {
        let listener =
            listen(Address { ip: Some(Ipv4Addr::LOCALHOST.into()), port: 0 }, &OPTIONS).expect("listens");
        let at = listener.local_addr().expect("bound");
        let (acceptor, stop) = Acceptor::new(vec![listener], Arc::new(Places::new(1, 64))).expect("starts");
        let (sender, receiver) = channel();
        let (told, hears) = channel();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let complain = move |text: String| told.send(text).expect("heard");
                acceptor.run(move |_, stream, _| sender.send(stream).expect("heard"), complain);
            });
            let _first = Client::connect(at).expect("connects");
            let mut first = receiver.recv().expect("accepted");
            first.know();
            let _second = Client::connect(at).expect("connects");
            assert!(hears.recv().expect("told").starts_with("all 1 connections"));
            let second = receiver.recv_timeout(Duration::from_millis(3 * PAUSE_MS));
            assert!(second.is_err(), "{second:?} has no place");
            drop(first);
            receiver.recv().expect("accepted");
            stop.stop();
        });
        assert_eq!(hears.try_iter().count(), 0, "it is told once");
    }

    #[test]
    fn a_port_in_use_is_named() {
        let first =
            listen(Address { ip: Some(Ipv4Addr::LOCALHOST.into()), port: 0 }, &OPTIONS).expect("listens");
        let port = first.local_addr().expect("bound").port();
        let error =
            listen(Address { ip: Some(Ipv4Addr::LOCALHOST.into()), port }, &OPTIONS).expect_err("in use");
        let begin = format!("cannot listen on 127.0.0.1:{port}: another program does");
        assert!(error.starts_with(&begin), "{error}");
        // Where the system tells of sockets.
        #[cfg(target_os = "linux")]
        assert!(error.ends_with(&format!(" (process {})", std::process::id())), "{error}");
    }
}
