//! How large the messages of a queue are, for listings: told by some of them that are in memory.
//!
//! A queue keeps the places of its messages, not their sizes, unless a limit in bytes asks for them. What is told here
//! is exact where a queue has at most [`SAMPLES`] messages and all are in memory, and otherwise as good as those looked at.

use crate::batches::Batches;
use crate::placed::queue::owned::OwnedQueue;
use base::id::{LogIndex, QueueSeq};
use message::amqp091::Properties;
use message::record::{self, Enqueue, Format, Refer};
use queue::Place;

/// Messages of one queue that are looked at.
pub(crate) const SAMPLES: u64 = 8;

/// Mean size of a queue's messages, and timestamp of the oldest, as told by some that are in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Bytes of a message on average, as limits in bytes count them; none: none of those looked at is in memory.
    pub bytes_mean: Option<f64>,
    /// The time its publisher gave the oldest message over AMQP 0-9-1, seconds since 1970, where it did and that is in memory.
    pub head_timestamp_s: Option<u64>,
}

impl Batches {
    /// Looks at some messages of a queue here, and says how many that were.
    pub(crate) fn sample(&self, queue: &OwnedQueue) -> (Sample, usize) {
        let mut sample = Sample::default();
        let total = queue.fifo.total();
        if total == 0 {
            return (sample, 0);
        }
        let places: Vec<LogIndex> = if total <= SAMPLES {
            queue.fifo.live_below(LogIndex(u64::MAX)).map(|(_, place)| place).collect()
        } else {
            let (head, end) = (queue.fifo.head().0, queue.fifo.next_seq().0);
            let seqs = (0..SAMPLES).map(|at| QueueSeq(head + (end - head) * at / SAMPLES));
            let place = |seq| match queue.fifo.place(seq)? {
                Place::Log(index) => Some(index),
                Place::Segment(_) => None,
            };
            seqs.filter_map(place).collect()
        };
        let head = match queue.fifo.place(queue.fifo.head()) {
            Some(Place::Log(index)) => Some(index),
            _ => None,
        };
        let (mut bytes, mut count) = (0, 0);
        for place in &places {
            let Some(record) = self.peek(*place) else { continue };
            let Some((_, record, _)) = record::split(record) else { continue };
            if let Some(refer) = Refer::read(record) {
                bytes += queue.size_of_referred(&refer);
                count += 1;
                continue;
            }
            let Some(message) = Enqueue::read(record) else { continue };
            bytes += queue.size_of(&message);
            count += 1;
            if Some(*place) == head && message.format == Format::Amqp091 {
                let properties = Properties::read(message.head);
                sample.head_timestamp_s = properties.ok().and_then(|properties| properties.timestamp());
            }
        }
        if count > 0 {
            sample.bytes_mean = Some(bytes as f64 / f64::from(count));
        }
        (sample, places.len())
    }
}
