//! The sending half: bytes to be carried become frames, and the protocol's own frames go between them.

use crate::deflate::Workshop;
use crate::frame::{CloseCode, Header, Opcode, mask};
use crate::{Limits, Role};

/// Bytes below which compressing is not worth it.
const DEFLATE_MIN: usize = 1024;

/// The sending half of a connection.
#[derive(Debug)]
pub struct Outgoing {
    role: Role,
    /// Compression was agreed on.
    may_deflate: bool,
    /// A close frame was said: nothing follows.
    is_closed: bool,
    /// Frames of the protocol's own that are to go out before any other, not yet masked: their kinds, and bytes.
    answers: Vec<u8>,
}

impl Outgoing {
    /// The half of the peer whose role is `role`; `may_deflate`: compression was agreed on.
    pub fn new(role: Role, may_deflate: bool) -> Outgoing {
        Outgoing { role, may_deflate, is_closed: false, answers: Vec::new() }
    }

    /// There are answers or a close to be sent.
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// A close frame was sent, or is about to be.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Bytes of memory it holds besides itself.
    pub fn heap_bytes(&self) -> usize {
        self.answers.capacity()
    }

    /// Moves answers and closes, as frames, to the end of `wire`. `key` masks them if one is a client.
    pub fn take_answers(&mut self, key: [u8; 4], wire: &mut Vec<u8>) {
        let mut rest = std::mem::take(&mut self.answers).into_iter();
        while let (Some(kind), Some(len)) = (rest.next(), rest.next()) {
            let opcode = if kind == 0 { Opcode::Pong } else { Opcode::Close };
            let payload: Vec<u8> = rest.by_ref().take(usize::from(len)).collect();
            self.frame(opcode, false, &payload, key, wire);
        }
    }

    /// Appends one message that carries `payload` to `wire`; nothing after a close. `key` masks it if one is a client.
    pub fn carry(&mut self, workshop: &mut Workshop, payload: &[u8], key: [u8; 4], wire: &mut Vec<u8>) {
        if self.is_closed || payload.is_empty() {
            return;
        }
        if !self.may_deflate || payload.len() < DEFLATE_MIN {
            return self.frame(Opcode::Binary, false, payload, key, wire);
        }
        let mut deflated = Vec::new();
        workshop.deflate(payload, &mut deflated);
        // A payload that does not shrink goes as it is: whether a message is compressed is told message by message.
        match deflated.len() < payload.len() {
            true => self.frame(Opcode::Binary, true, &deflated, key, wire),
            false => self.frame(Opcode::Binary, false, payload, key, wire),
        }
    }

    /// Appends a ping to `wire`.
    pub fn ping(&mut self, payload: &[u8; 4], key: [u8; 4], wire: &mut Vec<u8>) {
        if !self.is_closed {
            self.frame(Opcode::Ping, false, payload, key, wire);
        }
    }

    /// Says that it is over, and why.
    pub fn close(&mut self, code: CloseCode) {
        self.echo_close(Some(code as u16));
    }

    /// Answers a close frame with its own code, §5.5.1.
    pub(crate) fn echo_close(&mut self, code: Option<u16>) {
        if !std::mem::replace(&mut self.is_closed, true) {
            let code = code.map(u16::to_be_bytes);
            self.answers.extend([1, code.map_or(0, |code| code.len() as u8)]);
            self.answers.extend(code.into_iter().flatten());
        }
    }

    /// Answers a ping, unless the peer takes no answers.
    pub(crate) fn pong(&mut self, limits: &Limits, payload: &[u8]) {
        if !self.is_closed && self.answers.len() + payload.len() + 2 <= limits.answers_bytes_max {
            self.answers.extend([0, payload.len() as u8]);
            self.answers.extend_from_slice(payload);
        }
    }

    fn frame(&self, opcode: Opcode, is_compressed: bool, payload: &[u8], key: [u8; 4], wire: &mut Vec<u8>) {
        let mask_key = (self.role == Role::Client).then_some(key);
        let len = payload.len() as u64;
        Header { is_final: true, is_compressed, opcode, mask: mask_key, len }.write(wire);
        let begin = wire.len();
        wire.extend_from_slice(payload);
        if let Some(key) = mask_key {
            mask(key, 0, &mut wire[begin..]);
        }
    }
}
