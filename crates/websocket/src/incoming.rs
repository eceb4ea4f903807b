//! The receiving half: frames become the bytes they carry.
//!
//! Invariant: nothing of a payload is kept; a payload that does not fit into `into` is left on the wire, and so is one
//! whose inflation takes long: an empty block of DEFLATE is ten bits long, and its tables are made all the same.

use crate::deflate::{Inflater, Workshop};
use crate::frame::{CONTROL_BYTES_MAX, CloseCode, Header, Opcode, Parsed, mask};
use crate::{Limits, Outgoing, Role};

/// Bytes unmasked at once before they are inflated.
const CHUNK_BYTES: usize = 4096;

/// The outcome of taking bytes from the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of the wire that are done with; the rest is to come again, with more behind it.
    pub consumed: usize,
    /// Bytes put into `into`.
    pub produced: usize,
    /// There was more than fits into `into`, or than [`Limits::inflate_bytes_max`]: to be called again, when there is room and others had
    /// their turn.
    pub is_full: bool,
    /// The connection is closed: nothing more comes in, and the last bytes are those of [`Outgoing`].
    pub is_closed: bool,
}

/// The receiving half of a connection.
#[derive(Debug)]
pub struct Incoming {
    role: Role,
    /// Compression was agreed on.
    may_inflate: bool,
    is_closed: bool,
    /// A message has begun and not ended.
    is_within: bool,
    state: State,
    /// The message that comes in is compressed.
    inflater: Option<Inflater>,
}

#[derive(Debug)]
enum State {
    /// A header is to come.
    Between,
    /// The payload of this data frame is to come, from this byte on.
    Data { header: Header, done: u64 },
    /// The payload of this control frame is to come; the bytes of it that are here.
    Control(Box<Control>),
    /// The message was taken in whole, and more of it is to come out of the inflater.
    Finishing,
}

#[derive(Debug)]
struct Control {
    header: Header,
    len: usize,
    payload: [u8; CONTROL_BYTES_MAX],
}

impl Incoming {
    /// The half of the peer whose role is `role`; `may_inflate`: compression was agreed on.
    pub fn new(role: Role, may_inflate: bool) -> Incoming {
        Incoming {
            role,
            may_inflate,
            is_closed: false,
            is_within: false,
            state: State::Between,
            inflater: None,
        }
    }

    /// Bytes of memory it holds besides itself.
    pub fn heap_bytes(&self) -> usize {
        // An inflater is about this: 32 KiB of window and its tables.
        let control = if matches!(self.state, State::Control(_)) { size_of::<Control>() } else { 0 };
        control + if self.inflater.is_some() { 44 << 10 } else { 0 }
    }

    /// Takes bytes of the wire and puts the payload they carry into `into`; pings and closes are answered by `out`.
    pub fn take(
        &mut self,
        limits: &Limits,
        workshop: &mut Workshop,
        wire: &mut [u8],
        into: &mut [u8],
        out: &mut Outgoing,
    ) -> Taken {
        let mut taken = Taken::default();
        let mut inflated = 0;
        while !self.is_closed {
            if inflated >= limits.inflate_bytes_max {
                return Taken { is_full: true, ..taken };
            }
            let rest = &mut wire[taken.consumed..];
            let room = &mut into[taken.produced..];
            match self.step(limits, workshop, rest, room, out) {
                Ok(Step::On { consumed, produced }) => {
                    // The header of such a message, too: it borrows the inflater that its end gives back.
                    inflated += if self.inflater.is_some() { consumed } else { 0 };
                    taken.consumed += consumed;
                    taken.produced += produced;
                }
                Ok(Step::Starved) => return taken,
                Ok(Step::Full) => return Taken { is_full: true, ..taken },
                Ok(Step::Closed) => self.is_closed = true,
                Err(code) => {
                    out.close(code);
                    self.is_closed = true;
                }
            }
        }
        if let Some(inflater) = self.inflater.take() {
            workshop.take_back(inflater);
        }
        Taken { consumed: wire.len(), is_closed: true, ..taken }
    }

    fn step(
        &mut self,
        limits: &Limits,
        workshop: &mut Workshop,
        wire: &mut [u8],
        into: &mut [u8],
        out: &mut Outgoing,
    ) -> Result<Step, CloseCode> {
        match &mut self.state {
            State::Between => match Header::parse(wire) {
                Parsed::Incomplete => Ok(Step::Starved),
                Parsed::Wrong => Err(CloseCode::Protocol),
                Parsed::Header(header, consumed) => {
                    self.begin(limits, workshop, header)?;
                    Ok(Step::On { consumed, produced: 0 })
                }
            },
            State::Data { header, done } if *done == header.len => {
                let is_final = header.is_final;
                self.is_within = !is_final;
                let finishes = is_final && self.inflater.is_some();
                self.state = if finishes { State::Finishing } else { State::Between };
                Ok(Step::On { consumed: 0, produced: 0 })
            }
            State::Data { .. } if wire.is_empty() => Ok(Step::Starved),
            State::Data { .. } if into.is_empty() => Ok(Step::Full),
            State::Data { header, done } => {
                let left = usize::try_from(header.len - *done).unwrap_or(usize::MAX);
                let key = header.mask.unwrap_or_default();
                let from = (*done % 4) as usize;
                let (consumed, produced) = match &mut self.inflater {
                    None => {
                        let count = left.min(wire.len()).min(into.len());
                        into[..count].copy_from_slice(&wire[..count]);
                        mask(key, from, &mut into[..count]);
                        (count, count)
                    }
                    Some(inflater) => {
                        let count = left.min(wire.len()).min(CHUNK_BYTES);
                        let mut plain = [0; CHUNK_BYTES];
                        let plain = &mut plain[..count];
                        plain.copy_from_slice(&wire[..count]);
                        mask(key, from, plain);
                        let made = inflater.inflate(plain, into).map_err(|_| CloseCode::Invalid)?;
                        bound(limits, inflater)?;
                        made
                    }
                };
                *done += consumed as u64;
                Ok(Step::On { consumed, produced })
            }
            State::Finishing if into.is_empty() => Ok(Step::Full),
            State::Finishing => {
                let Some(inflater) = &mut self.inflater else {
                    unreachable!("only a compressed message is finished")
                };
                let (produced, is_all) = inflater.finish(into).map_err(|_| CloseCode::Invalid)?;
                bound(limits, inflater)?;
                if is_all {
                    self.state = State::Between;
                    self.inflater.take().into_iter().for_each(|inflater| workshop.take_back(inflater));
                }
                Ok(Step::On { consumed: 0, produced })
            }
            State::Control(control) => {
                let want = control.header.len as usize - control.len;
                let count = want.min(wire.len());
                control.payload[control.len..control.len + count].copy_from_slice(&wire[..count]);
                control.len += count;
                if count < want {
                    return Ok(if count == 0 {
                        Step::Starved
                    } else {
                        Step::On { consumed: count, produced: 0 }
                    });
                }
                let payload = &mut control.payload[..control.len];
                mask(control.header.mask.unwrap_or_default(), 0, payload);
                let is_closed = match control.header.opcode {
                    Opcode::Ping => {
                        out.pong(limits, payload);
                        false
                    }
                    Opcode::Close => {
                        out.echo_close(close_code(payload)?);
                        true
                    }
                    _ => false,
                };
                self.state = State::Between;
                Ok(if is_closed { Step::Closed } else { Step::On { consumed: count, produced: 0 } })
            }
        }
    }

    fn begin(&mut self, limits: &Limits, workshop: &mut Workshop, header: Header) -> Result<(), CloseCode> {
        if header.mask.is_some() != (self.role == Role::Server) {
            return Err(CloseCode::Protocol);
        }
        if header.len > limits.frame_bytes_max {
            return Err(CloseCode::TooBig);
        }
        if header.opcode.is_control() {
            if header.is_compressed {
                return Err(CloseCode::Protocol);
            }
            self.state =
                State::Control(Box::new(Control { header, len: 0, payload: [0; CONTROL_BYTES_MAX] }));
            return Ok(());
        }
        match header.opcode {
            Opcode::Text => return Err(CloseCode::Unsupported),
            Opcode::Continuation if !self.is_within || header.is_compressed => {
                return Err(CloseCode::Protocol);
            }
            Opcode::Binary if self.is_within || header.is_compressed && !self.may_inflate => {
                return Err(CloseCode::Protocol);
            }
            _ => {}
        }
        if header.is_compressed {
            self.inflater = Some(workshop.lend());
        }
        self.is_within = true;
        self.state = State::Data { header, done: 0 };
        Ok(())
    }
}

/// How far one step came.
enum Step {
    On { consumed: usize, produced: usize },
    Starved,
    Full,
    Closed,
}

fn bound(limits: &Limits, inflater: &Inflater) -> Result<(), CloseCode> {
    if inflater.produced() > limits.inflated_bytes_max { Err(CloseCode::TooBig) } else { Ok(()) }
}

/// The code a close frame gives, §5.5.1; none: it has no payload.
fn close_code(payload: &[u8]) -> Result<Option<u16>, CloseCode> {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return if payload.is_empty() { Ok(None) } else { Err(CloseCode::Protocol) };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(CloseCode::Protocol);
    }
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(Some(code)),
        Err(_) => Err(CloseCode::Invalid),
    }
}
