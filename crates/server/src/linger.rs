//! Sockets of connections that are over: all was said, and the peer gets time to read it.
//!
//! Closing a socket with unread input would tear the last words from the peer's hands, and a client that reads close-ok
//! and the end of the stream at once takes it for a failure. So the peer may close first; after a while our direction is
//! closed, and after another the socket is. Bounded: beyond [`LINGERING_MAX`] sockets are closed at once, and what comes
//! meanwhile, which is thrown away, takes [`DRAIN_BYTES_TURN`] of a turn, however fast it comes.

use crate::descriptors::Stream;
use base::Now;
use mio::{Interest, Registry, Token};
use slab::Slab;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::Shutdown;

/// Nanoseconds the peer has to close first.
const COURTESY_NS: u64 = 5_000_000;

/// Nanoseconds it then has to read what was said last.
const LINGER_NS: u64 = 1_000_000_000;

/// Sockets that linger at once.
const LINGERING_MAX: usize = 4096;

/// Bytes thrown away in one turn, of all sockets together. Who sends as fast as is read here would have the shard for himself
/// otherwise: his time would never be looked at.
const DRAIN_BYTES_TURN: usize = 1 << 20;

/// Tokens from here on are of sockets that linger.
pub const LINGER: Token = Token(1 << 40);

/// A socket that lingers.
struct Late {
    stream: Stream,
    /// It is on the list of those with something to read.
    is_listed: bool,
}

/// The sockets that linger.
#[derive(Default)]
pub struct Lingering {
    sockets: Slab<Late>,
    /// Those with something to read.
    unread: VecDeque<usize>,
    /// When each that is open in both directions is to be closed in ours, oldest first.
    courtesy_until: VecDeque<(u64, usize)>,
    /// When each of the others is given up, oldest first.
    linger_until: VecDeque<(u64, usize)>,
}

impl Lingering {
    /// Keeps a socket that `registry` knows under another token.
    pub fn add(&mut self, now: Now, mut stream: Stream, registry: &Registry) {
        if self.sockets.len() >= LINGERING_MAX {
            return;
        }
        let entry = self.sockets.vacant_entry();
        let number = entry.key();
        // One that cannot be registered is closed here.
        if registry.reregister(&mut stream, Token(LINGER.0 + number), Interest::READABLE).is_ok() {
            entry.insert(Late { stream, is_listed: false });
            self.courtesy_until.push_back((now.mono_ns + COURTESY_NS, number));
        }
    }

    /// Something came on a lingering socket: [`Lingering::drain`] looks at it.
    pub fn hear(&mut self, token: Token) {
        let number = token.0 - LINGER.0;
        if let Some(late) = self.sockets.get_mut(number)
            && !std::mem::replace(&mut late.is_listed, true)
        {
            self.unread.push_back(number);
        }
    }

    /// Throws away what came, a buffer of each socket in turn, and at its end a socket.
    pub fn drain(&mut self, buffer: &mut [u8]) {
        self.drain_some(DRAIN_BYTES_TURN, buffer);
    }

    fn drain_some(&mut self, bytes: usize, buffer: &mut [u8]) {
        let mut left = bytes;
        while left > 0
            && let Some(number) = self.unread.pop_front()
        {
            // Given up meanwhile, it is not there, or another is, which is asked once in vain.
            let Some(late) = self.sockets.get_mut(number) else { continue };
            match late.stream.read(buffer) {
                Ok(count) if count > 0 => {
                    left = left.saturating_sub(count);
                    self.unread.push_back(number);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => self.unread.push_back(number),
                Err(error) if error.kind() == ErrorKind::WouldBlock => late.is_listed = false,
                _ => self.close(number),
            }
        }
    }

    fn close(&mut self, number: usize) {
        self.sockets.remove(number);
        self.courtesy_until.retain(|(_, other)| *other != number);
        self.linger_until.retain(|(_, other)| *other != number);
    }

    /// When to call [`Lingering::drain`] and [`Lingering::give_up`]; monotonic nanoseconds.
    pub fn next(&self) -> Option<u64> {
        if !self.unread.is_empty() {
            return Some(0);
        }
        let fronts = [self.courtesy_until.front(), self.linger_until.front()];
        fronts.into_iter().flatten().map(|(at, _)| *at).min()
    }

    /// Closes what had its time.
    pub fn give_up(&mut self, now: Now) {
        while let Some((at, number)) = self.courtesy_until.front().copied()
            && at <= now.mono_ns
        {
            self.courtesy_until.pop_front();
            // One that cannot be shut down is gone, which the next poll tells.
            let _ = self.sockets[number].stream.shutdown(Shutdown::Write);
            self.linger_until.push_back((now.mono_ns + LINGER_NS, number));
        }
        while let Some((at, number)) = self.linger_until.front().copied()
            && at <= now.mono_ns
        {
            self.linger_until.pop_front();
            self.sockets.remove(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::net::TcpStream;
    use mio::{Events, Poll};
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener, TcpStream as Client};
    use std::time::Duration;

    fn pair() -> (Client, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listens");
        let client = Client::connect(listener.local_addr().expect("bound")).expect("connects");
        client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        let (stream, _) = listener.accept().expect("accepted");
        stream.set_nonblocking(true).expect("set");
        (client, TcpStream::from_std(stream))
    }

    fn linger(poll: &Poll, mut stream: TcpStream) -> Lingering {
        poll.registry().register(&mut stream, Token(0), Interest::READABLE).expect("registered");
        let mut lingering = Lingering::default();
        lingering.add(Now::default(), stream.into(), poll.registry());
        lingering
    }

    #[test]
    fn the_peer_may_close_first() {
        let mut poll = Poll::new().expect("polls");
        let (mut client, stream) = pair();
        let mut lingering = linger(&poll, stream);
        client.write_all(b"what nobody reads").expect("written");
        drop(client);
        let mut events = Events::with_capacity(4);
        while lingering.next().is_some() {
            poll.poll(&mut events, Some(Duration::from_secs(20))).expect("polled");
            assert!(!events.is_empty(), "its end is an event");
            events.iter().for_each(|event| lingering.hear(event.token()));
            lingering.drain(&mut [0; 8]);
        }
        assert!(lingering.sockets.is_empty());
    }

    #[test]
    fn who_does_not_is_closed_in_two_steps() {
        let poll = Poll::new().expect("polls");
        let (mut client, stream) = pair();
        let mut lingering = linger(&poll, stream);
        let at = |ns| Now { mono_ns: ns, wall_ms: 0 };
        lingering.give_up(at(COURTESY_NS - 1));
        assert_eq!(lingering.next(), Some(COURTESY_NS));
        lingering.give_up(at(COURTESY_NS));
        assert_eq!(client.read(&mut [0; 8]).expect("the end"), 0);
        assert_eq!(lingering.next(), Some(COURTESY_NS + LINGER_NS));
        lingering.give_up(at(COURTESY_NS + LINGER_NS));
        assert!(lingering.next().is_none() && lingering.sockets.is_empty());
    }

    #[test]
    fn who_sends_without_end_has_a_turn_like_others() {
        let mut poll = Poll::new().expect("polls");
        let (mut client, stream) = pair();
        let mut lingering = linger(&poll, stream);
        client.write_all(&[0; 32 << 10]).expect("the kernel takes it");
        let mut events = Events::with_capacity(4);
        poll.poll(&mut events, Some(Duration::from_secs(20))).expect("polled");
        events.iter().for_each(|event| lingering.hear(event.token()));
        let mut buffer = [0; 4 << 10];
        lingering.drain_some(16 << 10, &mut buffer);
        // It is not through, and yet others have their turn, and time is looked at.
        assert_eq!(lingering.next(), Some(0));
        lingering.give_up(Now { mono_ns: COURTESY_NS, wall_ms: 0 });
        lingering.give_up(Now { mono_ns: COURTESY_NS + LINGER_NS, wall_ms: 0 });
        assert!(lingering.sockets.is_empty());
        lingering.drain_some(16 << 10, &mut buffer);
        assert_eq!(lingering.next(), None);
    }
}
