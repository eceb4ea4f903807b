//! The window of a lane, in either direction: how far a sender may be ahead of its receiver.
//!
//! Counted are whole frames, their heads included, of the kinds that carry bodies. The receiver tells how many bytes it
//! has taken since the lane began; a count that is lost on the way is made good by the next. Bytes count as taken when
//! the holder releases them; of a body that is gathered, half a window at most stays counted, so that a body longer than
//! the window comes through.
//! Invariant: `told <= released <= received`, and `received - told` is at most the window.

use super::error::Error;

/// The right to be released, once, of bytes that the holder was handed. While it is kept, they count against the window.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "bytes that are not released stay counted, and in the end the peer may send nothing more"]
pub struct Charge(pub(crate) u32);

impl Charge {
    /// Bytes that stay counted until it is released: those of the frames, and at most half a window.
    pub fn bytes(&self) -> u32 {
        self.0
    }
}

/// The sender's end of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowance {
    pub window_bytes: u32,
    sent: u64,
    taken: u64,
}

impl Allowance {
    /// Whether a frame of so many bytes may go.
    pub fn has_room(&self, wire_bytes: usize) -> bool {
        self.sent - self.taken + wire_bytes as u64 <= self.window_bytes.into()
    }

    /// A frame of so many bytes went.
    pub fn note_sent(&mut self, wire_bytes: usize) {
        self.sent += wire_bytes as u64;
    }

    /// The receiver says that it has taken `count` bytes in all.
    pub fn note_taken(&mut self, count: u64) -> Result<(), Error> {
        if !(self.taken..=self.sent).contains(&count) {
            return Err(Error::Taken { count });
        }
        self.taken = count;
        Ok(())
    }

    /// Bytes sent and not taken.
    pub fn ahead(&self) -> u64 {
        self.sent - self.taken
    }
}

/// The receiver's end of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Intake {
    pub window_bytes: u32,
    received: u64,
    released: u64,
    told: u64,
}

impl Intake {
    /// A frame of so many bytes came.
    pub fn receive(&mut self, wire_bytes: usize) -> Result<(), Error> {
        self.received += wire_bytes as u64;
        let is_over = self.received - self.told > self.window_bytes.into();
        if is_over { Err(Error::Window { window_bytes: self.window_bytes }) } else { Ok(()) }
    }

    /// So many bytes do not count any more.
    pub fn release(&mut self, bytes: u32) {
        self.released += u64::from(bytes);
        assert!(self.released <= self.received, "a charge of this lane");
    }

    /// The most bytes of a body under way that stay counted.
    pub fn gathered_max(&self) -> u32 {
        self.window_bytes / 2
    }

    /// The count that the sender is to be told, once that is worth a frame.
    pub fn due(&self) -> Option<u64> {
        (self.released - self.told >= u64::from(self.window_bytes / 4)).then_some(self.released)
    }

    /// The sender is told of all that was released.
    pub fn note_told(&mut self) {
        self.told = self.released;
    }

    /// Bytes received and not released.
    pub fn held(&self) -> u64 {
        self.received - self.released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_stops_at_the_window_and_goes_on_by_counts() {
        let mut allowance = Allowance { window_bytes: 100, ..Allowance::default() };
        assert!(allowance.has_room(100) && !allowance.has_room(101));
        allowance.note_sent(70);
        assert!(allowance.has_room(30) && !allowance.has_room(31));
        assert_eq!(allowance.note_taken(40), Ok(()));
        assert!(allowance.has_room(70) && !allowance.has_room(71));
        assert_eq!((allowance.note_taken(40), allowance.ahead()), (Ok(()), 30));
        assert_eq!(allowance.note_taken(39), Err(Error::Taken { count: 39 }));
        assert_eq!(allowance.note_taken(71), Err(Error::Taken { count: 71 }));
        assert_eq!((allowance.note_taken(70), allowance.ahead()), (Ok(()), 0));
    }

    #[test]
    fn a_receiver_tells_by_quarters_and_holds_the_sender_to_what_it_told() {
        let mut intake = Intake { window_bytes: 100, ..Intake::default() };
        assert_eq!(intake.receive(60), Ok(()));
        intake.release(24);
        assert_eq!(intake.due(), None);
        intake.release(1);
        assert_eq!((intake.due(), intake.held()), (Some(25), 35));
        assert_eq!(intake.receive(40), Ok(()));
        intake.note_told();
        assert_eq!((intake.due(), intake.receive(25)), (None, Ok(())));
        assert_eq!(intake.receive(1), Err(Error::Window { window_bytes: 100 }));
    }
}
