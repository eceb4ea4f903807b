//! One accepted socket: what is ready on it, and the bytes of its that could not be parsed yet.
//!
//! Readiness is edge-triggered: `can_read` and `can_write` stay set until the kernel says there is no more. An idle
//! socket holds no memory.

use crate::rows::Traffic;
use base::Output;
use mio::net::TcpStream;
use std::io::{ErrorKind, IoSlice, Read, Write};

/// Slices one write takes.
const SLICES_MAX: usize = 64;

/// Bytes written to one connection before the others have their turn.
const WRITE_BYTES_TURN: usize = 1 << 20;

/// A socket and what the loop knows of it.
pub struct Socket {
    /// The socket.
    pub stream: TcpStream,
    /// Read and not yet parsed.
    pub tail: Vec<u8>,
    /// There may be something to read.
    pub can_read: bool,
    /// There may be room to write.
    pub can_write: bool,
    /// The peer will send no more, or the socket failed: read on to the end, whatever the last read brought.
    pub is_ending: bool,
    /// It is on the list of those to be read.
    pub is_listed: bool,
    /// The connection does not want its input for now.
    pub is_waiting: bool,
    /// It holds buffers and is on the list of those that do.
    pub is_warm: bool,
    /// Something happened since buffers were last looked at.
    pub was_active: bool,
    /// It is over and has a time limit to send what is left.
    pub is_parting: bool,
    /// What went over it.
    pub traffic: Traffic,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// So many bytes.
    Bytes(usize),
    /// Nothing, for now.
    Nothing,
    /// The end.
    End,
}

impl Socket {
    /// A fresh one: nobody knows yet what it is ready for.
    pub fn new(stream: TcpStream, now_ms: u64) -> Socket {
        Socket {
            stream,
            tail: Vec::new(),
            can_read: true,
            can_write: true,
            is_ending: false,
            is_listed: false,
            is_waiting: false,
            is_warm: false,
            was_active: false,
            is_parting: false,
            traffic: Traffic { since_ms: now_ms, ..Traffic::default() },
        }
    }

    /// Reads once. A read that does not fill `into` has emptied the socket.
    pub fn read(&mut self, into: &mut [u8]) -> Brought {
        loop {
            match self.stream.read(into) {
                Ok(0) => return Brought::End,
                Ok(count) => {
                    self.traffic.received += count as u64;
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

    /// Writes what it can. Whether anything went, or that the socket is gone.
    pub fn write(&mut self, output: &mut Output) -> Result<bool, ()> {
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
                    written += sent;
                    // What was not taken shows that the kernel's buffer is full; it says when it no longer is.
                    self.can_write = sent == offered;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.can_write = false,
                Err(_) => return Err(()),
            }
        }
        Ok(written > 0)
    }

    /// Gives back the memory of an empty tail.
    pub fn cool(&mut self) {
        if self.tail.is_empty() {
            self.tail = Vec::new();
        }
    }
}
