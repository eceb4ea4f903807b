//! A socket with the lane on it: bytes in and out, edge-triggered.
//!
//! An idle wire holds no input. Invariant: the input that is kept is less than one frame, and one read.

use super::Limits;
use crate::clock::Clock;
use base::id::NodeNo;
use base::{Input, Now};
use cluster::Lane;
use cluster::lane::{Event, Kind, Purpose, Refusal};
use management::PlaceId;
use mio::net::TcpStream;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown};

/// Slices one write takes.
const SLICES_MAX: usize = 64;

/// Bytes of the memory for kept input that a busy wire keeps whatever it needs.
const KEPT_BYTES: usize = 64 << 10;

/// The reason for which a wire is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// This node dialed it: the other node, and which of the lanes to it.
    Dialed(NodeNo, usize),
    /// It was accepted, and has not proven itself.
    Stranger(PlaceId),
    /// It was accepted of this node.
    Accepted(NodeNo, Purpose),
    /// Its lane is over.
    Parting,
}

/// See the module.
pub struct Wire {
    /// The socket.
    pub stream: TcpStream,
    /// The lane; none while the connection is being made.
    pub lane: Option<Lane>,
    /// The reason for which it is there.
    pub side: Side,
    /// The address of the peer, for the log.
    pub peer: IpAddr,
    /// When the lane was opened, monotonic nanoseconds.
    pub opened_at: Option<u64>,
    /// When a connection that is not there, or a lane that is over, is closed.
    pub ends_at: Option<u64>,
    /// There may be something to read.
    pub can_read: bool,
    /// There may be room to write.
    pub can_write: bool,
    /// It is on the list of those to be served.
    pub is_listed: bool,
    /// The peer sends no more, or the socket failed.
    is_ending: bool,
    is_shut: bool,
    /// Bytes that were sent, and received, and are not counted so far.
    pub moved: [u64; 2],
    input: Vec<u8>,
}

/// The holder of lanes, as a wire asks it.
pub trait Host {
    /// A peer has proven this hello on a wire of this side: whether it is taken, and as which node.
    ///
    /// # Errors
    /// The refusal that it is told.
    fn meet(&mut self, side: Side, hello: &cluster::lane::Hello) -> Result<NodeNo, Refusal>;

    /// The body of a node.
    ///
    /// # Errors
    /// The fault in it.
    fn take(&mut self, from: NodeNo, kind: Kind, body: &[u8]) -> Result<(), String>;
}

/// The outcome of serving a wire.
#[derive(Debug, PartialEq, Eq)]
pub enum Served {
    /// It goes on.
    On,
    /// It was opened, of this node, for this purpose.
    Opened(NodeNo, Purpose),
    /// It is over, and closes once its last bytes are out: why.
    Over(String),
    /// The socket is gone, or has nothing more to do.
    Gone(Option<String>),
}

impl Wire {
    /// A wire whose readiness is not known yet.
    pub fn new(stream: TcpStream, lane: Option<Lane>, side: Side, peer: IpAddr) -> Wire {
        Wire {
            stream,
            lane,
            side,
            peer,
            opened_at: None,
            ends_at: None,
            can_read: true,
            can_write: true,
            is_listed: false,
            is_ending: false,
            is_shut: false,
            moved: [0; 2],
            input: Vec::new(),
        }
    }

    /// Takes note of news of the socket.
    pub fn note(&mut self, event: &mio::event::Event) {
        self.can_write |= event.is_writable() || event.is_error();
        let is_ending = event.is_read_closed() || event.is_error();
        self.can_read |= event.is_readable() || is_ending;
        self.is_ending |= is_ending;
    }

    /// The connection that was being made: there, not yet, or failed.
    pub fn is_connected(&self) -> Result<bool, String> {
        match self.stream.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => return Err(error.to_string()),
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }

    /// There is something to write.
    pub fn has_unsent(&self) -> bool {
        self.lane.as_ref().is_some_and(|lane| !lane.output().is_empty())
    }

    /// Reads, has the lane look at it, and writes. `buffer` is shared.
    pub fn serve(
        &mut self,
        now: Now,
        clock: &Clock,
        limits: &Limits,
        buffer: &mut [u8],
        host: &mut impl Host,
    ) -> Served {
        let mut served = Served::On;
        if self.can_read {
            let most = match self.side {
                Side::Stranger(_) | Side::Parting => limits.stranger_read_bytes,
                Side::Dialed(..) | Side::Accepted(..) => limits.read_bytes_turn,
            };
            let most = most.min(buffer.len());
            match self.stream.read(&mut buffer[..most]) {
                Ok(0) => return Served::Gone(Some("the connection was closed".to_owned())),
                Ok(count) => {
                    self.moved[1] += count as u64;
                    self.can_read = count == most || self.is_ending;
                    served = self.take_in(now, &buffer[..count], host);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.can_read = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Served::Gone(Some(error.to_string())),
            }
        } else {
            served = self.poll(now, host);
        }
        if let Err(why) = self.write(clock.now(), limits) {
            return Served::Gone(Some(why));
        }
        if self.lane.as_ref().is_some_and(Lane::is_closed) && !self.has_unsent() && !self.is_shut {
            self.is_shut = true;
            // The peer reads what was said last; then it closes, or its time is over.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        served
    }

    /// Has the lane look at what was kept: a verb or a deadline may have come.
    pub fn poll(&mut self, now: Now, host: &mut impl Host) -> Served {
        let kept = std::mem::take(&mut self.input);
        let (consumed, served) = self.look(now, &kept, host);
        self.keep(kept, consumed);
        served
    }

    fn take_in(&mut self, now: Now, bytes: &[u8], host: &mut impl Host) -> Served {
        if self.input.is_empty() {
            let (consumed, served) = self.look(now, bytes, host);
            self.input.extend_from_slice(&bytes[consumed..]);
            return served;
        }
        self.input.extend_from_slice(bytes);
        match &self.lane {
            // Nothing would happen: it is looked at once a frame is whole.
            Some(lane) if lane.is_open() && self.input.len() < lane.wanted() => Served::On,
            _ => self.poll(now, host),
        }
    }

    fn keep(&mut self, mut kept: Vec<u8>, consumed: usize) {
        kept.drain(..consumed);
        if kept.is_empty() && kept.capacity() > KEPT_BYTES {
            kept = Vec::new();
        }
        self.input = kept;
    }

    /// How many bytes were consumed, and the outcome.
    fn look(&mut self, now: Now, bytes: &[u8], host: &mut impl Host) -> (usize, Served) {
        let Some(lane) = &mut self.lane else { return (bytes.len(), Served::On) };
        let mut input = Input::new(bytes);
        let mut served = Served::On;
        let mut from = match self.side {
            Side::Dialed(node, _) | Side::Accepted(node, _) => Some(node),
            Side::Stranger(_) | Side::Parting => None,
        };
        while let Some(event) = lane.poll_event(now, &mut input) {
            match event {
                Event::Met(hello) => match host.meet(self.side, &hello) {
                    Ok(node) => {
                        lane.open(now);
                        from = Some(node);
                        self.opened_at = Some(now.mono_ns);
                        served = Served::Opened(node, hello.purpose);
                    }
                    Err(refusal) => {
                        lane.refuse(now, &refusal);
                        served = Served::Over(format!("refused here: {}", refusal.text));
                    }
                },
                Event::Body { kind, body, charge } => {
                    let taken =
                        from.map_or(Err("nobody was met".to_owned()), |from| host.take(from, kind, &body));
                    match taken {
                        Ok(()) => lane.release(now, charge),
                        Err(why) => {
                            lane.refuse(now, &Refusal::new(cluster::lane::RefusalCode::FAULT, &why));
                            served = Served::Over(why);
                        }
                    }
                }
                Event::Room => {}
                Event::Refused { refusal, .. } => served = Served::Over(format!("refused there: {refusal}")),
                Event::Failed(error) => served = Served::Over(error.to_string()),
            }
        }
        (input.consumed(), served)
    }

    /// Writes what can be written, up to a bound.
    ///
    /// # Errors
    /// The system's.
    fn write(&mut self, now: Now, limits: &Limits) -> Result<(), String> {
        let Some(lane) = &mut self.lane else { return Ok(()) };
        let mut left = limits.write_bytes_turn;
        while self.can_write && left > 0 && !lane.output().is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut count = 0;
            lane.output().slices(SLICES_MAX, |slice| {
                slices[count] = IoSlice::new(slice);
                count += 1;
            });
            match self.stream.write_vectored(&slices[..count]) {
                Ok(written) => {
                    self.moved[0] += written as u64;
                    lane.sent(now, written);
                    left = left.saturating_sub(written);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.can_write = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}
