//! How many messages are asked for in one go.
//!
//! The first window of a slice is one message: a place that refuses everything refuses it, and nothing else is under
//! way. Windows that are quick are followed by larger ones, slow ones by smaller ones, so that a slice ends about when it
//! should whatever messages and disk are like.

use std::time::Duration;

/// Messages of a window: a flush of the target's log, 1.3 ms, is then 5 us for each, less than the taking of one.
const MESSAGES_MAX: u32 = 256;

/// Bodies that are kept at once, but for the last one: 32 messages of 256 KiB, or one that is larger.
pub(super) const BYTES_MAX: usize = 8 << 20;

/// Bytes of requests that are written before an answer is read: less than the buffers of a socket hold.
const REQUESTS_BYTES_MAX: usize = 32 << 10;

/// Bytes of a request without the queue's name.
const REQUEST_BYTES: usize = 32;

/// A quick window is followed by one so many times as large: a request names 1,000 messages at most, and the third window is
/// a whole one.
const GROWTH: u32 = 16;

/// A window that takes longer is followed by a smaller one: a slice is a second or more.
const SLOW: Duration = Duration::from_millis(100);

/// So many windows a second where a rate is asked for: fewer would be seen as bursts.
const RATED: u32 = 20;

/// Requests for messages of this queue that may be written before an answer is read.
pub(in crate::agent) fn requests_max(queue: &[u8]) -> usize {
    (REQUESTS_BYTES_MAX / (REQUEST_BYTES + queue.len())).min(MESSAGES_MAX as usize)
}

/// The size of the next window.
pub(super) struct Window {
    size: u32,
    size_max: u32,
}

impl Window {
    /// The first one, of messages of this queue, that move at this rate (0: any).
    pub(super) fn new(queue: &[u8], per_second: u32) -> Window {
        let requests_max = requests_max(queue) as u32;
        let rated_max = if per_second == 0 { u32::MAX } else { per_second.div_ceil(RATED) };
        Window { size: 1, size_max: requests_max.min(rated_max) }
    }

    /// Messages to ask for.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// A window took so long, and so many bytes were in the largest of its messages: the next ones are taken to be alike.
    pub(super) fn learn(&mut self, took: Duration, largest: usize) {
        let size = match took {
            took if took > SLOW => self.size / 2,
            took if took > SLOW / 2 => self.size,
            _ => self.size * GROWTH,
        };
        let fitting = u32::try_from(BYTES_MAX / largest.max(1)).unwrap_or(u32::MAX);
        self.size = size.min(fitting).clamp(1, self.size_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_while_they_are_quick_and_small() {
        let check = |queue: &[u8], per_second: u32, windows: &[(u64, usize, u32)]| {
            let mut window = Window::new(queue, per_second);
            assert_eq!(window.size(), 1);
            for &(ms, largest, expected) in windows {
                window.learn(Duration::from_millis(ms), largest);
                assert_eq!(window.size(), expected, "{} {per_second} {ms} {largest}", queue.len());
            }
        };
        let quick = [(2, 1000, 16), (2, 1000, 256)];
        check(b"q", 0, &[&quick[..], &[(2, 0, 256)]].concat());
        // Larger messages are fewer at once, and those behind them may be small again.
        check(
            b"q",
            0,
            &[&quick[..], &[(2, 1 << 20, 8), (2, 4 << 20, 2), (2, 20 << 20, 1), (2, 9, 16)]].concat(),
        );
        check(b"q", 0, &[&quick[..], &[(101, 9, 128), (400, 9, 64), (60, 9, 64), (50, 9, 256)]].concat());
        // At a rate a window is what comes in a twentieth of a second, or one message.
        check(b"q", 10, &[(2, 9, 1), (2, 9, 1)]);
        check(b"q", 100, &[(2, 9, 5), (2, 9, 5)]);
        // Requests with long names fill a socket's buffer sooner.
        check(&[b'n'; 255], 0, &[(2, 9, 16), (2, 9, 114), (2, 9, 114)]);
    }
}
