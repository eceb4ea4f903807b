//! Frames of a lane on their way out: bodies as the window allows, the lane's own one at a time.

use super::frame::{self, CRC_AT, HEAD, Kind, MORE};
use super::limits::WAITING_BODY_BYTES;
use super::{Lane, Outgoing, Unsent};
use base::Now;
use base::crc::crc32c;
use std::collections::VecDeque;

/// Bodies that wait for the window.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    bodies: VecDeque<(Kind, Outgoing)>,
    /// Bytes that are left of them, and [`WAITING_BODY_BYTES`] for each.
    bytes: usize,
    /// Bytes of the last body that found no room, until it is told that there is some.
    turned_away: Option<usize>,
}

impl Waiting {
    fn has_room(&self, bytes: usize, bytes_max: u32) -> bool {
        self.bodies.is_empty() || self.bytes + bytes <= bytes_max as usize
    }

    /// Whether a body that was turned away would be taken now. Says so once.
    pub fn take_room(&mut self, bytes_max: u32) -> bool {
        let has_room = self.turned_away.is_some_and(|bytes| self.has_room(bytes, bytes_max));
        if has_room {
            self.turned_away = None;
        }
        has_room
    }

    /// Bytes of memory, shared memory excepted.
    pub fn capacity(&self) -> usize {
        let bodies = self.bodies.iter().map(|(_, body)| body.capacity()).sum::<usize>();
        bodies + self.bodies.capacity() * size_of::<(Kind, Outgoing)>()
    }
}

impl Lane {
    /// Sends a body of a kind that carries bodies, or keeps it until the window has room. Bodies arrive in the order in which
    /// they were given.
    ///
    /// # Errors
    /// The body, with the reason why it is not sent.
    ///
    /// # Panics
    /// When the kind is of the lane itself.
    pub fn send(&mut self, now: Now, kind: Kind, body: Outgoing) -> Result<(), Unsent> {
        assert!(kind.is_counted(), "{kind} carries no bodies");
        if !self.is_open() {
            return Err(Unsent::NotOpen(body));
        }
        if body.len() > self.bounds.entry_bytes_max as usize {
            return Err(Unsent::TooLong(body));
        }
        let bytes = body.len() + WAITING_BODY_BYTES;
        if !self.waiting.has_room(bytes, self.limits.waiting_bytes_max) {
            self.waiting.turned_away = Some(bytes);
            return Err(Unsent::Full(body));
        }
        self.waiting.bytes += bytes;
        self.waiting.bodies.push_back((kind, body));
        self.put_bodies(now);
        Ok(())
    }

    /// Gives bodies that wait to the output, as far as the window goes. A frame is not cut for the rest of a window: the
    /// peer's next count makes room for a whole one.
    pub(super) fn put_bodies(&mut self, now: Now) {
        let piece_max = self.bounds.frame_bytes_max as usize - HEAD;
        while let Some((kind, body)) = self.waiting.bodies.front_mut() {
            let piece = body.len().min(piece_max);
            if !self.allowance.has_room(HEAD + piece) {
                return;
            }
            let has_more = piece < body.len();
            let flags = if has_more { MORE } else { 0 };
            let head = frame::head(*kind as u8, flags, self.sequence_out, piece);
            self.output.extend(&head);
            let crc_at = self.output.own().len();
            self.output.extend(&[0; HEAD - CRC_AT]);
            let crc = body.put(piece, crc32c(&head), &mut self.output);
            self.output.own()[crc_at..crc_at + HEAD - CRC_AT].copy_from_slice(&crc.to_le_bytes());
            self.allowance.note_sent(HEAD + piece);
            self.waiting.bytes -= piece;
            if !has_more {
                self.waiting.bytes -= WAITING_BODY_BYTES;
                self.waiting.bodies.pop_front();
            }
            self.note_said(now, HEAD + piece);
        }
    }

    /// Gives a frame of the lane's own to the output.
    pub(super) fn put_frame(&mut self, now: Now, kind: Kind, body: &[u8]) {
        frame::put(self.output.own(), kind as u8, 0, self.sequence_out, body);
        self.note_said(now, HEAD + body.len());
    }

    fn note_said(&mut self, now: Now, wire_bytes: usize) {
        self.sequence_out += 1;
        self.said += wire_bytes as u64;
        self.beat.note_said(now);
    }

    /// Gives to the output, once the last of them went out, a ping, a pong and a count where they are due.
    pub(super) fn put_control(&mut self, now: Now) {
        let sent = self.said - self.output.len() as u64;
        if !self.is_open() || sent < self.control_end {
            return;
        }
        let said = self.said;
        if let Some(count) = self.intake.due() {
            self.put_frame(now, Kind::Taken, &count.to_le_bytes());
            self.intake.note_told();
        }
        if let Some(number) = self.pong.take() {
            self.put_frame(now, Kind::Pong, &number.to_le_bytes());
        }
        if self.beat.is_due {
            let number = self.beat.ping();
            self.put_frame(now, Kind::Ping, &number.to_le_bytes());
        }
        if self.said > said {
            self.control_end = self.said;
        }
    }
}
