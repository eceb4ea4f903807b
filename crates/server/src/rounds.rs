//! Rounds of accepting at several listeners, for each thread that accepts.
//!
//! A round goes from listener to listener, and ends where there is no place for one more connection. The next one begins
//! with the listener whose turn it was, so that a crowd at one port, which takes the places as they come, keeps nobody
//! out at another.

use crate::descriptors::{Places, Room, Stream};
use adapters::Peer;
use mio::net::TcpListener;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Milliseconds without accepting where there is no place, or the process ran out of descriptors.
pub const PAUSE_MS: u64 = 100;

/// The same where connections that went for others are being closed.
const SOON_MS: u64 = 2;

/// Connections accepted at one listener before the others have their turn, and before the thread does anything else.
const ACCEPTS_MAX: usize = 256;

/// See the module.
#[derive(Debug)]
pub struct Rounds {
    /// The listener that the next round begins with.
    first: usize,
    accepts_max: usize,
}

/// The reason why a listener's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepted {
    /// No connection waits.
    All,
    /// The most that were asked for were accepted; more may wait.
    Many,
    /// No place is free, but will be at once.
    Soon,
    /// No place is free.
    Full,
}

impl Rounds {
    /// None yet.
    pub fn new() -> Rounds {
        Rounds { first: 0, accepts_max: ACCEPTS_MAX }
    }

    /// One round at so many listeners: how long the thread may wait for events until the next, as none tells of the
    /// connections that wait already; none: until there are any. `hand_over` gets each connection, with the number of
    /// its listener, and `complain` each failure.
    pub fn accept<'l>(
        &mut self,
        count: usize,
        listener: impl Fn(usize) -> &'l TcpListener,
        places: &Arc<Places>,
        mut hand_over: impl FnMut(usize, Stream, Peer),
        mut complain: impl FnMut(String),
    ) -> Option<Duration> {
        let mut pause = None;
        for number in (self.first..count).chain(0..self.first.min(count)) {
            let mut came = 0;
            let accepted = accept_some(listener(number), self.accepts_max, places, &mut |stream, peer| {
                came += 1;
                hand_over(number, stream, peer);
            });
            // A listener that had nothing of this round begins the next one.
            self.first = if came > 0 { (number + 1) % count } else { number };
            match accepted {
                Ok(Accepted::All) => {}
                Ok(Accepted::Many) => pause = pause.or(Some(Duration::ZERO)),
                Ok(Accepted::Soon) => return Some(Duration::from_millis(SOON_MS)),
                Ok(Accepted::Full) => {
                    places.news(true).into_iter().for_each(complain);
                    return Some(Duration::from_millis(PAUSE_MS));
                }
                Err(error) => {
                    complain(format!("a connection could not be accepted: {error}"));
                    pause = Some(Duration::from_millis(PAUSE_MS));
                }
            }
        }
        self.first = 0;
        pause
    }
}

/// Accepts the connections that wait, at most `most`, and as many as there are places.
///
/// # Errors
/// The error of the listener; errors of a single connection are passed over.
fn accept_some(
    listener: &TcpListener,
    most: usize,
    places: &Arc<Places>,
    hand_over: &mut impl FnMut(Stream, Peer),
) -> io::Result<Accepted> {
    for _ in 0..most {
        match places.room() {
            Room::Here => {}
            Room::Soon => return Ok(Accepted::Soon),
            Room::None => return Ok(Accepted::Full),
        }
        match listener.accept() {
            Ok((stream, from)) => {
                // A peer that is gone already needs no connection.
                let Ok(here) = stream.local_addr() else { continue };
                if stream.set_nodelay(true).is_err() {
                    continue;
                }
                let name = format!("{} -> {}", plain(from), plain(here));
                // Another thread may have had the place meanwhile.
                let Some(stream) = places.seat(stream, from.ip()) else { continue };
                hand_over(stream, Peer::new(&name, from.ip().to_canonical().is_loopback()));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Accepted::All),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Accepted::Many)
}

/// Errors of the connection that was to be accepted, not of the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// An IPv4 address that came through an IPv6 socket is shown as what it is.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptor::listen;
    use crate::config::SocketOptions;
    use crate::config::value::Address;
    use std::net::{Ipv4Addr, TcpStream as Client};

    /// Listeners, each with so many clients that wait.
    fn crowds(counts: &[usize]) -> (Vec<TcpListener>, Vec<Client>) {
        let options = SocketOptions { backlog: 16, keepalive: false, send_bytes: None, receive_bytes: None };
        let address = || Address { ip: Some(Ipv4Addr::LOCALHOST.into()), port: 0 };
        let listeners: Vec<TcpListener> =
            counts.iter().map(|_| listen(address(), &options).expect("listens")).collect();
        let connect = |(listener, count): (&TcpListener, &usize)| {
            let at = listener.local_addr().expect("bound");
            (0..*count).map(move |_| Client::connect(at).expect("connects")).collect::<Vec<_>>()
        };
        let clients = listeners.iter().zip(counts).flat_map(connect).collect();
        (listeners, clients)
    }

    /// The listeners of the connections that a round accepts, and what the thread waits.
    fn round(
        rounds: &mut Rounds,
        listeners: &[TcpListener],
        places: &Arc<Places>,
    ) -> (Vec<usize>, Vec<Stream>, Option<Duration>) {
        let (mut of, mut streams) = (Vec::new(), Vec::new());
        let hand_over = |number, stream, _| {
            of.push(number);
            let mut stream: Stream = stream;
            // It logs in at once: it does not go for others.
            stream.know();
            streams.push(stream);
        };
        let pause = rounds.accept(listeners.len(), |at| &listeners[at], places, hand_over, |_| {});
        (of, streams, pause)
    }

    #[test]
    fn a_crowd_at_one_listener_is_let_in_by_the_piece() {
        let (listeners, _clients) = crowds(&[3, 1]);
        let (places, mut rounds) = (Arc::new(Places::new(8, 64)), Rounds { first: 0, accepts_max: 2 });
        let mut kept = Vec::new();
        for (expected, pause) in [(vec![0, 0, 1], Some(Duration::ZERO)), (vec![0], None), (vec![], None)] {
            let (of, streams, waits) = round(&mut rounds, &listeners, &places);
            assert_eq!((of, waits), (expected, pause));
            kept.extend(streams);
        }
    }

    #[test]
    fn a_crowd_that_takes_all_places_leaves_the_next_to_other_listeners() {
        let (listeners, _clients) = crowds(&[6, 1, 1]);
        let (places, mut rounds) = (Arc::new(Places::new(2, 64)), Rounds::new());
        let pause = Some(Duration::from_millis(PAUSE_MS));
        let mut turn = |expected: &[usize]| {
            let (of, streams, waits) = round(&mut rounds, &listeners, &places);
            assert_eq!((&of[..], waits), (expected, pause));
            streams
        };
        let first = turn(&[0, 0]);
        assert!(turn(&[]).is_empty());
        drop(first);
        let second = turn(&[1, 2]);
        drop(second);
        drop(turn(&[0, 0]));
    }
}
