//! One accepted socket: its readiness, and the bytes that could not be parsed yet.
//!
//! Readiness is edge-triggered: `can_read` and `can_write` stay set until the kernel says there is no more. An idle
//! socket holds no memory. Over TLS or WebSocket a [`Layer`] lies between the socket and those who read and write.

use crate::descriptors::Stream;
use crate::layer::{Bench, Layer, ROOM_BYTES_MIN};
use adapters::Peer;
use base::Output;
use std::io::{ErrorKind, IoSlice, Read, Write};

/// Slices one write takes.
const SLICES_MAX: usize = 64;

/// Bytes written to one connection before the others have their turn.
const WRITE_BYTES_TURN: usize = 1 << 20;

/// Bytes from the wire with which a read may bring little over TLS or WebSocket, and the share of them that is little.
const DEAR_BYTES: usize = 16 << 10;
const LITTLE_SHARE: usize = 4;

/// Bytes of memory for what was read from which on they are counted.
const COUNTED_BYTES_MIN: usize = 4 << 10;

/// Bytes of a tail's memory that a busy connection keeps whatever it needs.
const TAIL_BYTES_KEPT: usize = 8 << 10;

/// Counters of a socket's traffic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Reads that brought something, and writes that took something.
    pub calls: [u64; 2],
    /// When it was accepted, milliseconds since 1970.
    pub since_ms: u64,
}

/// A connection on its way to a shard.
pub struct Arrival {
    /// Its socket.
    pub stream: Stream,
    /// The peer's address, and what is known of it.
    pub peer: Peer,
    /// The layer between it and the protocol.
    pub layer: Option<Box<Layer>>,
}

/// A socket and the loop's state of it.
pub struct Socket {
    /// The socket.
    pub stream: Stream,
    /// The layer between it and the protocol.
    pub layer: Option<Box<Layer>>,
    /// Read and not yet parsed.
    pub tail: Vec<u8>,
    /// Bytes of memory for what was read, as they were counted last.
    pub counted: u32,
    /// There may be something to read.
    pub can_read: bool,
    /// There may be room to write.
    pub can_write: bool,
    /// The peer will send no more, or the socket failed: read on to the end, whatever the last read brought.
    pub is_ending: bool,
    /// When it is read next.
    pub reading: Reading,
    /// It is on the list of those with more to send in the next turn.
    pub goes_on: bool,
    /// Whether it holds buffers.
    pub warmth: Warmth,
    /// It is over and has a time limit to send what is left.
    pub is_parting: bool,
    /// Its connection has logged in.
    pub is_known: bool,
    /// Counters of its traffic.
    pub traffic: Traffic,
}

/// When a socket is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// When there is something to read.
    Idle,
    /// In this turn or the next: it is on the list of those.
    Listed,
    /// When its connection wants input again.
    Waiting,
}

/// Whether a socket holds buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// It holds none.
    Cold,
    /// It is on the list of those that do, and nothing has happened since that was last gone through.
    Warm,
    /// It is on the list, and something has happened since.
    Active,
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// So many bytes.
    Bytes(usize),
    /// So many bytes, and they were dear: there may be more, for which others have their turn first.
    Dear(usize),
    /// Nothing, for now.
    Nothing,
    /// The end.
    End,
    /// The end by the rules of the layer: it has its last words to say.
    Over,
}

impl Socket {
    /// A fresh one, whose readiness is not known yet.
    pub fn new(stream: Stream, layer: Option<Box<Layer>>, now_ms: u64) -> Socket {
        Socket {
            stream,
            layer,
            tail: Vec::new(),
            counted: 0,
            can_read: true,
            can_write: true,
            is_ending: false,
            reading: Reading::Idle,
            goes_on: false,
            warmth: Warmth::Cold,
            is_parting: false,
            is_known: false,
            traffic: Traffic { since_ms: now_ms, ..Traffic::default() },
        }
    }

    /// Another shard's loop has it from now on: it is on none of the lists of this one.
    pub fn moves(&mut self) {
        (self.reading, self.goes_on, self.warmth) = (Reading::Waiting, false, Warmth::Cold);
        (self.can_read, self.can_write) = (true, true);
    }

    /// Reads once. A read that does not fill `into` has emptied the socket.
    #[inline]
    pub fn read(&mut self, into: &mut [u8], bench: &mut Bench) -> Brought {
        if self.layer.is_some() {
            return self.read_layered(into, bench);
        }
        loop {
            match self.stream.read(into) {
                Ok(0) => return Brought::End,
                Ok(count) => {
                    self.traffic.received += count as u64;
                    self.traffic.calls[0] += 1;
                    self.can_read = count == into.len() || self.is_ending;
                    return Brought::Bytes(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.can_read = false;
                    return Brought::Nothing;
                }
                Err(_) => return Brought::End,
            }
        }
    }

    /// Reads once through the layer.
    fn read_layered(&mut self, into: &mut [u8], bench: &mut Bench) -> Brought {
        let Some(layer) = &mut self.layer else { return Brought::Nothing };
        if into.len() < ROOM_BYTES_MIN {
            // In the next turn there is more room.
            return Brought::Nothing;
        }
        let (kept, room) = layer.begin(bench);
        let (mut count, mut has_ended) = (0, false);
        if room > 0 {
            match read_once(&mut self.stream, &mut bench.raw[kept..kept + room]) {
                Some(Ok(0)) | Some(Err(_)) => has_ended = true,
                Some(Ok(read)) => {
                    count = read;
                    self.traffic.received += read as u64;
                    self.traffic.calls[0] += 1;
                    self.can_read = read == room || self.is_ending;
                }
                None => self.can_read = false,
            }
        }
        let arrived = layer.take(bench, kept + count, into);
        // The end is reported once everything before it was read.
        self.can_read |= arrived.has_more || arrived.is_over || has_ended;
        match arrived.produced {
            0 if arrived.is_over => Brought::Over,
            0 if has_ended => Brought::End,
            0 => Brought::Nothing,
            // A turn ends with bytes carried, which padding, pings and blocks that take long to inflate are not.
            brought if arrived.has_more && brought < into.len() => Brought::Dear(brought),
            brought if count > DEAR_BYTES && brought < count / LITTLE_SHARE => Brought::Dear(brought),
            brought => Brought::Bytes(brought),
        }
    }

    /// There is something to send that is not of the connection's output.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.layer.as_ref().is_some_and(|layer| layer.has_unsent())
    }

    /// All was sent: adds the layer's farewell, if the kernel takes it.
    pub fn say_farewell(&mut self, bench: &mut Bench) {
        if let Some(layer) = &mut self.layer {
            layer.say_farewell(bench);
            // A peer that takes no bytes goes without a farewell.
            let _ = self.write_layered(&mut Output::default(), bench);
        }
    }

    /// Writes as much as it can through the layer.
    fn write_layered(&mut self, output: &mut Output, bench: &mut Bench) -> Result<bool, ()> {
        let Some(layer) = &mut self.layer else { return Ok(false) };
        let before = output.len();
        let mut written = 0;
        while self.can_write && written < WRITE_BYTES_TURN {
            let is_rest = !layer.unsent.is_empty();
            if !is_rest && !layer.wrap(bench, output)? {
                break;
            }
            let bytes = if is_rest { &layer.unsent } else { &bench.wire };
            let sent = match self.stream.write(bytes) {
                Ok(0) => return Err(()),
                Ok(sent) => sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.can_write = false;
                    0
                }
                Err(_) => return Err(()),
            };
            self.can_write &= sent == bytes.len();
            written += sent;
            self.traffic.sent += sent as u64;
            self.traffic.calls[1] += 1;
            match is_rest {
                true => drop(layer.unsent.drain(..sent)),
                false => layer.unsent.extend_from_slice(&bench.wire[sent..]),
            }
        }
        Ok(output.len() < before)
    }

    /// Writes as much as it can. Whether anything went, or that the socket is gone.
    #[inline]
    pub fn write(&mut self, output: &mut Output, bench: &mut Bench) -> Result<bool, ()> {
        if self.layer.is_some() {
            return self.write_layered(output, bench);
        }
        let mut written = 0;
        while self.can_write && !output.is_empty() && written < WRITE_BYTES_TURN {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut count = 0;
            let mut offered = 0;
            output.slices(SLICES_MAX, |slice| {
                slices[count] = IoSlice::new(slice);
                count += 1;
                offered += slice.len();
            });
            let result = match count {
                1 => self.stream.write(&slices[0]),
                _ => self.stream.write_vectored(&slices[..count]),
            };
            match result {
                Ok(0) => return Err(()),
                Ok(sent) => {
                    output.sent(sent);
                    self.traffic.sent += sent as u64;
                    self.traffic.calls[1] += 1;
                    written += sent;
                    // A write that was not taken whole shows that the kernel's buffer is full; the poll tells when it
                    // no longer is.
                    self.can_write = sent == offered;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.can_write = false,
                Err(_) => return Err(()),
            }
        }
        Ok(written > 0)
    }

    /// Bytes of memory it holds besides itself.
    pub fn heap_bytes(&self) -> usize {
        let layer = self.layer.as_ref().map_or(0, |layer| size_of::<Layer>() + layer.heap_bytes());
        self.tail.capacity() + layer
    }

    /// Bytes of memory that it keeps what was read in, where that is to be counted anew.
    #[inline]
    pub fn recount(&mut self) -> Option<usize> {
        let kept = match &self.layer {
            None => self.tail.capacity(),
            Some(layer) => self.tail.capacity() + layer.heap_bytes(),
        };
        let kept = if kept > COUNTED_BYTES_MIN { kept } else { 0 };
        let counted = u32::try_from(kept).unwrap_or(u32::MAX);
        (std::mem::replace(&mut self.counted, counted) != counted).then_some(kept)
    }

    /// Gives back most of a tail's memory where there is far more of it than the tail needs.
    pub fn trim(&mut self) {
        if self.tail.capacity() > TAIL_BYTES_KEPT && self.tail.capacity() / 4 > self.tail.len() {
            self.tail.shrink_to(TAIL_BYTES_KEPT.max(2 * self.tail.len()));
        }
    }

    /// Gives back the memory of an empty tail.
    pub fn cool(&mut self) {
        if self.tail.is_empty() {
            self.tail = Vec::new();
        }
        if let Some(layer) = &mut self.layer {
            layer.cool();
        }
    }
}

/// Reads once, whatever interrupts; `None`: there is nothing for now.
fn read_once(stream: &mut Stream, into: &mut [u8]) -> Option<std::io::Result<usize>> {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            other => return Some(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::WebRules;
    use mio::net::TcpStream;
    use std::net::{Ipv4Addr, TcpListener, TcpStream as Client};
    use std::sync::Arc;
    use websocket::upgrade::{Rules, request};
    use websocket::{Limits, Outgoing, Role, Workshop};

    const KEY: [u8; 4] = [1, 2, 3, 4];

    /// A WebSocket with compression, open, and its client.
    fn web(bench: &mut Bench, into: &mut [u8]) -> (Client, Socket) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listens");
        let mut client = Client::connect(listener.local_addr().expect("bound")).expect("connects");
        let (stream, _) = listener.accept().expect("accepted");
        stream.set_nonblocking(true).expect("set");
        let rules = Rules { path: "/ws".into(), protocols: vec!["amqp"], origins: None, may_compress: true };
        let layer = Layer::new(None, Some(Arc::new(WebRules { rules, limits: Limits::default() })));
        let mut socket = Socket::new(TcpStream::from_std(stream).into(), Some(Box::new(layer)), 0);
        client.write_all(&request("here", "/ws", "amqp", [7; 16], true)).expect("written");
        while !socket.has_unsent() {
            socket.can_read = true;
            assert_eq!(socket.read(into, bench), Brought::Nothing);
        }
        (client, socket)
    }

    /// Checks the results of reads while all of `bytes` is there.
    fn check(bytes: &[u8], expected: &[Brought]) {
        let (mut bench, mut into) = (Bench::default(), vec![0; 256 << 10]);
        let (mut client, mut socket) = web(&mut bench, &mut into);
        client.write_all(bytes).expect("the kernel takes it");
        while socket.stream.peek(&mut vec![0; bytes.len()]).map_or(0, |there| there) < bytes.len() {
            std::thread::yield_now();
        }
        for expected in expected {
            socket.can_read = true;
            assert_eq!(socket.read(&mut into, &mut bench), *expected);
        }
        socket.can_read = true;
        assert_eq!(socket.read(&mut into, &mut bench), Brought::Nothing);
    }

    #[test]
    fn who_brings_little_for_what_it_takes_waits_for_the_next_turn() {
        let (mut out, mut workshop) = (Outgoing::new(Role::Client, false), Workshop::default());
        let mut carry = |payload: &[u8], wire: &mut Vec<u8>| out.carry(&mut workshop, payload, KEY, wire);
        let mut small = Vec::new();
        (0..5000).for_each(|_| carry(b"words", &mut small));
        check(&small, &[Brought::Bytes(25_000)]);
        let mut pings = [0x89, 0x80, 1, 2, 3, 4].repeat(5000);
        carry(b"word", &mut pings);
        check(&pings, &[Brought::Dear(4)]);
        // A message of one letter and 45 KB of blocks that hold nothing; its mask is none.
        let mut long = vec![0xc2, 0xfe, 0xaf, 0xce, 0, 0, 0, 0, 0, 1, 0, 0xfe, 0xff, b'a'];
        long.extend([0x02, 0x08, 0x20, 0x80, 0x00].repeat(9000));
        carry(b"word", &mut long);
        check(&long, &[Brought::Dear(1), Brought::Nothing, Brought::Bytes(4)]);
    }
}
