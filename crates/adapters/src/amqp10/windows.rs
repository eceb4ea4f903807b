//! Deliveries of a session that wait for the broker, in order: which link's they are.

use ::amqp10::LinkId;
use std::collections::VecDeque;

/// Deliveries of one link that follow on each other and wait for the broker.
#[derive(Clone, Copy, Debug)]
struct Window {
    link: LinkId,
    first: u64,
    last: u64,
}

/// The deliveries of a session that wait for the broker.
#[derive(Debug, Default)]
pub(super) struct Windows(VecDeque<Window>);

impl Windows {
    /// None waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The publish of this number, the newest, waits for the broker.
    #[inline]
    pub(super) fn wait(&mut self, link: LinkId, seq: u64) {
        match self.0.back_mut() {
            Some(last) if last.link == link && last.last + 1 == seq => last.last = seq,
            _ => self.0.push_back(Window { link, first: seq, last: seq }),
        }
    }

    /// Takes `first..=last` out of the windows and says how many were which link's.
    pub(super) fn take(&mut self, first: u64, last: u64, mut each: impl FnMut(LinkId, u32)) {
        let mut at = 0;
        while let Some(window) = self.0.get_mut(at) {
            if window.first > last {
                break;
            }
            if window.last < first {
                at += 1;
                continue;
            }
            let (from, to) = (window.first.max(first), window.last.min(last));
            each(window.link, (to - from + 1) as u32);
            let (before, after) = (window.first < from, window.last > to);
            let rest = Window { first: to + 1, ..*window };
            match (before, after) {
                (false, false) => {
                    self.0.remove(at);
                }
                (false, true) => {
                    window.first = to + 1;
                    at += 1;
                }
                (true, false) => {
                    window.last = from - 1;
                    at += 1;
                }
                (true, true) => {
                    window.last = from - 1;
                    self.0.insert(at + 1, rest);
                    at += 2;
                }
            }
        }
        if self.0.is_empty() && self.0.capacity() > 64 {
            self.0 = VecDeque::new();
        }
    }

    /// Bytes of memory besides its own.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Window>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_taken_in_any_order() {
        let mut windows = Windows::default();
        (1..=10).for_each(|seq| windows.wait(LinkId(seq as u16 / 6), seq));
        let mut taken = |first, last| {
            let mut counts = Vec::new();
            windows.take(first, last, |link, count| counts.push((link.0, count)));
            counts
        };
        assert_eq!(taken(3, 3), [(0, 1)]);
        assert_eq!(taken(3, 7), [(0, 2), (1, 2)]);
        assert_eq!(taken(1, 10), [(0, 2), (1, 3)]);
        assert_eq!(taken(1, 10), []);
        assert!(windows.is_empty());
    }
}
