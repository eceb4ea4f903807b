//! Filling streams, many at once, with chunks that are as large as one wants them.
//!
//! A broker closes chunks when it likes. But messages of one frame go into one chunk, where it is told to make long
//! ones, and while the frame is not confirmed nothing else comes for its stream: then the chunk holds just that frame.
//! All streams go on side by side, so that one flush serves all of them.

use crate::native::{Native, NativeEvent};
use crate::options::Argument;
use crate::stamp::{STAMP, Stamp};
use crate::wire::stream::{message, stamp_at};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::time::Instant;
use stream_protocol::Request;

/// Streams that one call fills: so many publishers a connection has.
pub const STREAMS_MAX: usize = 256;

/// The argument of a stream that makes one chunk of each frame; RabbitMQ passes over it.
pub fn whole_frames() -> (String, Argument) {
    ("x-stream-first-chunk-messages".to_owned(), Argument::Number(65_535))
}

/// The messages for one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filling {
    /// The stream's name.
    pub stream: String,
    /// Bytes of a body, from [`STAMP`].
    pub size: u32,
    /// Messages of a frame; one frame holds them all.
    pub per_frame: u32,
    /// Frames.
    pub frames: u64,
}

impl Filling {
    /// Messages.
    pub fn messages(&self) -> u64 {
        self.frames * u64::from(self.per_frame)
    }
}

/// One stream on its way.
struct Under<'a> {
    filling: &'a Filling,
    message: Vec<u8>,
    /// Frames sent, and messages confirmed.
    sent: u64,
    confirmed: u64,
    /// When each frame that is not confirmed was sent; only where one wants to know.
    sent_at: VecDeque<Instant>,
    is_done: bool,
}

impl Under<'_> {
    fn send(&mut self, native: &mut Native, publisher: u8, times: bool) -> Result<(), String> {
        let at = stamp_at(self.filling.size as usize);
        let first = self.sent * u64::from(self.filling.per_frame);
        let mut frames = native.publish(publisher);
        for sequence in first..first + u64::from(self.filling.per_frame) {
            let stamp = Stamp { publisher: 0, sequence, sent_us: 0 };
            self.message[at..at + STAMP].copy_from_slice(&stamp.bytes());
            if !frames.message(sequence, None, &self.message) {
                return Err("a message is too large for a frame".to_owned());
            }
        }
        self.sent += 1;
        if times {
            self.sent_at.push_back(Instant::now());
        }
        Ok(())
    }
}

/// Publishes all frames, up to `in_flight` of each stream unconfirmed, and waits until all are confirmed. Microseconds
/// from each frame to its last confirm go to `latency`.
///
/// # Errors
/// In words for people; more than [`STREAMS_MAX`] streams too.
pub fn fill(
    native: &mut Native,
    fillings: &[Filling],
    in_flight: u64,
    mut latency: Option<&mut Histogram<u64>>,
) -> Result<(), String> {
    if fillings.len() > STREAMS_MAX {
        return Err(format!("{} streams are too many for one connection", fillings.len()));
    }
    let mut all = Vec::new();
    for (publisher, filling) in fillings.iter().enumerate() {
        let (publisher_id, stream) = (publisher as u8, filling.stream.as_bytes());
        native.ask(&Request::DeclarePublisher { publisher_id, reference: b"", stream })?;
        let message = message(filling.size as usize);
        all.push(Under { filling, message, sent: 0, confirmed: 0, sent_at: VecDeque::new(), is_done: false });
    }
    let mut left = all.iter().filter(|under| under.filling.frames > 0).count();
    for (publisher, under) in all.iter_mut().enumerate() {
        for _ in 0..in_flight.min(under.filling.frames) {
            under.send(native, publisher as u8, latency.is_some())?;
        }
    }
    // Publishers of which something was confirmed in the turn.
    let mut moved: Vec<u8> = Vec::new();
    while left > 0 {
        native.turn(|event| {
            if let NativeEvent::Confirmed(publisher) = event
                && let Some(under) = all.get_mut(usize::from(publisher))
            {
                under.confirmed += 1;
                if moved.last() != Some(&publisher) {
                    moved.push(publisher);
                }
            }
        })?;
        for publisher in moved.drain(..) {
            let under = &mut all[usize::from(publisher)];
            let whole = under.confirmed / u64::from(under.filling.per_frame);
            if let Some(latency) = &mut latency {
                while under.sent - (under.sent_at.len() as u64) < whole {
                    let Some(sent_at) = under.sent_at.pop_front() else { break };
                    latency.saturating_record(sent_at.elapsed().as_micros() as u64);
                }
            }
            while under.sent < under.filling.frames && under.sent - whole < in_flight {
                under.send(native, publisher, latency.is_some())?;
            }
            if whole == under.filling.frames && !std::mem::replace(&mut under.is_done, true) {
                left -= 1;
            }
        }
    }
    for publisher in 0..fillings.len() {
        native.ask(&Request::DeletePublisher { publisher_id: publisher as u8 })?;
    }
    Ok(())
}
