//! The stamp in a message's body: its publisher, its number, its time. And the check that all came.
//!
//! ```text
//!   0           2          8              12
//!   | publisher | sequence | sent at (us) | filler ...        little-endian
//! ```
//!
//! The time is in microseconds of the generator's clock and wraps after 71 minutes, which no latency reaches.

use serde::Serialize;

/// Bytes of a stamp, and so the smallest body.
pub const STAMP: usize = 12;

/// A stamp as read from a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which publisher, from 0.
    pub publisher: u16,
    /// Which of its messages, from 0; below 2^48.
    pub sequence: u64,
    /// When it was written to the socket, microseconds, wrapping.
    pub sent_us: u32,
}

impl Stamp {
    /// The stamp's bytes.
    #[inline]
    pub fn bytes(self) -> [u8; STAMP] {
        let low = u64::from(self.publisher) | self.sequence << 16;
        let mut bytes = [0; STAMP];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sent_us.to_le_bytes());
        bytes
    }

    /// The stamp at the end of `body`, where it is long enough to have one.
    #[inline]
    pub fn read_last(body: &[u8]) -> Option<Stamp> {
        Stamp::read(body.last_chunk::<STAMP>()?)
    }

    /// The stamp of `body`, where it is long enough to have one.
    #[inline]
    pub fn read(body: &[u8]) -> Option<Stamp> {
        let (low, rest) = body.split_first_chunk::<8>()?;
        let sent = rest.first_chunk::<4>()?;
        let low = u64::from_le_bytes(*low);
        Some(Stamp { publisher: low as u16, sequence: low >> 16, sent_us: u32::from_le_bytes(*sent) })
    }
}

/// The messages that one consumer saw. Several are merged with [`Seen::merge`].
#[derive(Debug)]
pub struct Seen {
    publishers: usize,
    /// True where every queue gets every message, false where each message goes to one queue.
    is_copied: bool,
    /// How many priorities messages have in turn, each with an order of its own.
    priorities: u64,
    /// The sequence that may come next at the earliest, by queue, publisher and priority.
    next: Vec<u64>,
    /// One bit per message, by copy and publisher.
    bits: Vec<Vec<u64>>,
    findings: Findings,
}

/// Faults, or at least remarkable things, among the messages that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Published but never delivered.
    pub lost: u64,
    /// Delivered more than once without being marked redelivered.
    pub duplicated: u64,
    /// Marked redelivered.
    pub redelivered: u64,
    /// Delivered behind a later message of the same publisher and queue.
    pub out_of_order: u64,
    /// Not a message of this run, or cut short.
    pub foreign: u64,
    /// Refused by the broker or returned as unroutable.
    pub refused: u64,
    /// Published and never confirmed.
    pub unconfirmed: u64,
    /// Still in the queues after all was settled.
    pub left_over: u64,
}

impl Findings {
    /// Whether any promise was broken.
    pub fn is_violation(&self) -> bool {
        let Findings {
            lost,
            duplicated,
            redelivered: _,
            out_of_order,
            foreign,
            refused,
            unconfirmed,
            left_over,
        } = *self;
        lost + duplicated + out_of_order + foreign + refused + unconfirmed + left_over > 0
    }

    /// Both together.
    pub fn plus(self, other: Findings) -> Findings {
        Findings {
            lost: self.lost + other.lost,
            duplicated: self.duplicated + other.duplicated,
            redelivered: self.redelivered + other.redelivered,
            out_of_order: self.out_of_order + other.out_of_order,
            foreign: self.foreign + other.foreign,
            refused: self.refused + other.refused,
            unconfirmed: self.unconfirmed + other.unconfirmed,
            left_over: self.left_over + other.left_over,
        }
    }
}

impl Seen {
    /// Nothing seen yet of `publishers` over `queues`, with messages of so many `priorities` in turn, at least one.
    pub fn new(publishers: usize, queues: usize, is_copied: bool, priorities: u64) -> Seen {
        let copies = if is_copied { queues } else { 1 };
        Seen {
            publishers,
            is_copied,
            priorities,
            next: vec![0; publishers * queues * priorities as usize],
            bits: vec![Vec::new(); publishers * copies],
            findings: Findings::default(),
        }
    }

    /// A delivery from `queue` came.
    #[inline]
    pub fn note(&mut self, queue: usize, stamp: Stamp, size_is_right: bool, is_redelivered: bool) {
        let publisher = stamp.publisher as usize;
        if publisher >= self.publishers || !size_is_right {
            self.findings.foreign += 1;
            return;
        }
        if is_redelivered {
            self.findings.redelivered += 1;
        } else {
            let line = queue * self.publishers + publisher;
            let priority = if self.priorities == 1 { 0 } else { stamp.sequence % self.priorities };
            let next = &mut self.next[line * self.priorities as usize + priority as usize];
            if stamp.sequence < *next {
                self.findings.out_of_order += 1;
            } else {
                *next = stamp.sequence + 1;
            }
        }
        let copy = if self.is_copied { queue } else { 0 };
        let bits = &mut self.bits[copy * self.publishers + publisher];
        let (word, bit) = ((stamp.sequence / 64) as usize, 1 << (stamp.sequence % 64));
        if word >= bits.len() {
            // A wild sequence must not take all memory; no run has 2^36 messages.
            if word > 1 << 30 {
                self.findings.foreign += 1;
                return;
            }
            bits.resize((word + 1).max(bits.len() * 2), 0);
        }
        if bits[word] & bit != 0 && !is_redelivered {
            self.findings.duplicated += 1;
        }
        bits[word] |= bit;
    }

    /// A delivery without a readable stamp came.
    pub fn note_foreign(&mut self) {
        self.findings.foreign += 1;
    }

    /// Takes in the messages of another consumer of the same run.
    pub fn merge(&mut self, other: &Seen) {
        self.findings = self.findings.plus(other.findings);
        let mut twice = 0;
        for (into, from) in self.bits.iter_mut().zip(&other.bits) {
            if into.len() < from.len() {
                into.resize(from.len(), 0);
            }
            for (into, from) in into.iter_mut().zip(from) {
                twice += u64::from((*into & from).count_ones());
                *into |= from;
            }
        }
        // A message that went to two consumers must have been marked redelivered at the second.
        self.findings.duplicated += twice.saturating_sub(other.findings.redelivered);
    }

    /// The verdict, where publisher `p` published the sequences `0..published[p]`.
    pub fn findings(&self, published: &[u64]) -> Findings {
        let mut findings = self.findings;
        for (index, bits) in self.bits.iter().enumerate() {
            let published = published[index % self.publishers];
            let seen: u64 = bits.iter().map(|word| u64::from(word.count_ones())).sum();
            findings.lost += published.saturating_sub(seen);
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(publisher: u16, sequence: u64) -> Stamp {
        Stamp { publisher, sequence, sent_us: 7 }
    }

    fn check(deliveries: &[(usize, u16, u64, bool)], is_copied: bool, published: &[u64], expected: Findings) {
        let mut seen = Seen::new(published.len(), 2, is_copied, 1);
        for &(queue, publisher, sequence, is_redelivered) in deliveries {
            seen.note(queue, stamp(publisher, sequence), true, is_redelivered);
        }
        assert_eq!(seen.findings(published), expected, "{deliveries:?}");
    }

    #[test]
    fn stamps_come_back() {
        let stamp = Stamp { publisher: 65_535, sequence: (1 << 48) - 1, sent_us: u32::MAX - 1 };
        assert_eq!(Stamp::read(&stamp.bytes()), Some(stamp));
        assert_eq!(Stamp::read(&stamp.bytes()[..11]), None);
    }

    #[test]
    fn every_kind_of_trouble_is_found() {
        let fine = Findings::default();
        check(&[(0, 0, 0, false), (0, 0, 1, false), (0, 1, 0, false)], false, &[2, 1], fine);
        check(&[(0, 0, 0, false)], false, &[2], Findings { lost: 1, ..fine });
        check(&[(0, 0, 1, false), (0, 0, 0, false)], false, &[2], Findings { out_of_order: 1, ..fine });
        check(&[(0, 0, 0, false), (1, 0, 0, false)], false, &[1], Findings { duplicated: 1, ..fine });
        check(
            &[(0, 0, 0, false), (0, 0, 1, false), (0, 0, 0, true)],
            false,
            &[2],
            Findings { redelivered: 1, ..fine },
        );
        check(&[(0, 9, 0, false)], false, &[0], Findings { foreign: 1, ..fine });
        check(&[(0, 0, u64::MAX >> 16, false)], false, &[0], Findings { foreign: 1, ..fine });
    }

    #[test]
    fn each_priority_has_an_order_of_its_own() {
        for (sequences, out_of_order) in [([1, 3, 5, 0, 2, 4], 0), ([1, 5, 3, 0, 2, 4], 1)] {
            let mut seen = Seen::new(1, 1, false, 2);
            sequences.iter().for_each(|sequence| seen.note(0, stamp(0, *sequence), true, false));
            assert_eq!(seen.findings(&[6]), Findings { out_of_order, ..Findings::default() });
        }
    }

    #[test]
    fn each_copy_is_counted() {
        let fine = Findings::default();
        check(&[(0, 0, 0, false), (1, 0, 0, false)], true, &[1], fine);
        check(&[(0, 0, 0, false)], true, &[1], Findings { lost: 1, ..fine });
    }

    #[test]
    fn two_consumers_add_up() {
        let mut a = Seen::new(1, 1, false, 1);
        let mut b = Seen::new(1, 1, false, 1);
        for sequence in 0..1000 {
            let to = if sequence % 3 == 0 { &mut a } else { &mut b };
            to.note(0, stamp(0, sequence), true, false);
        }
        a.merge(&b);
        assert_eq!(a.findings(&[1000]), Findings::default());
        let mut again = Seen::new(1, 1, false, 1);
        again.note(0, stamp(0, 5), true, false);
        a.merge(&again);
        assert_eq!(a.findings(&[1000]).duplicated, 1);
        let mut marked = Seen::new(1, 1, false, 1);
        marked.note(0, stamp(0, 5), true, true);
        a.merge(&marked);
        assert_eq!(a.findings(&[1000]).duplicated, 1);
    }
}
