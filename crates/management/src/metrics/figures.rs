//! A queue's figures for metrics, in numbers that add up.

use crate::queues::{capacity, kept, kept_bytes};
use crate::stats;
use broker::catalog::QueueType;
use broker::{QueueRow, Tally};
use filter::Counts;

/// Of one queue, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub ready: u64,
    pub unsettled: u64,
    pub consumers: u64,
    pub capacity: f64,
    pub memory_bytes: u64,
    /// Messages that survive a restart, and those that do not.
    pub kept: [u64; 2],
    pub kept_bytes: [u64; 2],
    /// Of those that do not: ready ones, and others.
    pub lost: [u64; 2],
    /// Bytes of messages that are ready, and that are held.
    pub bytes: [u64; 2],
    pub disk_writes: u64,
    pub tally: Tally,
    /// Leases of messages that were over.
    pub leases_over: u64,
    /// Barriers there are.
    pub barriers: u64,
    /// Consumers that barriers passed over.
    pub passed_over: u64,
    /// Of a stream alone: its files, and the offset that comes next. Of several the latter means nothing.
    pub stream: Option<[u64; 2]>,
    /// Of a stream: what filters of its readers were asked.
    pub filtered: Counts,
    /// Of a quorum queue alone: the positions of its first message and of the next. Of several: the highest.
    pub quorum: Option<[u64; 2]>,
    /// When the first message was sent, seconds since 1970. Of several it means nothing.
    pub head_timestamp_s: Option<u64>,
}

impl Figures {
    pub(super) fn of(row: &QueueRow) -> Figures {
        let kept = kept(row);
        let ready = kept[1].min(row.ready);
        Figures {
            ready: row.ready,
            unsettled: row.unsettled,
            consumers: row.consumers.into(),
            capacity: capacity(row),
            memory_bytes: row.memory_bytes as u64,
            kept,
            kept_bytes: kept_bytes(row).unwrap_or_default(),
            // Which of them are held is not known: those that are ready are thought of first.
            lost: [ready, kept[1] - ready],
            bytes: row.bytes().unwrap_or_default(),
            disk_writes: stats::disk_writes(&row.definition, &row.tally),
            tally: row.tally,
            leases_over: row.leases_over.unwrap_or(0),
            barriers: row.barriers.map_or(0, |(count, _)| count),
            passed_over: row.barriers.map_or(0, |(_, passed_over)| passed_over),
            stream: row.stream.map(|stream| [stream.segments as u64, stream.next_offset]),
            filtered: row.stream.map_or_else(Counts::default, |stream| stream.filtered),
            quorum: (row.definition.queue_type == QueueType::Quorum).then_some([row.head, row.end]),
            head_timestamp_s: row.sample.head_timestamp_s,
        }
    }

    /// Another queue as well.
    pub(super) fn add(&mut self, other: &Figures) {
        let pairs = [
            (&mut self.kept, other.kept),
            (&mut self.kept_bytes, other.kept_bytes),
            (&mut self.lost, other.lost),
            (&mut self.bytes, other.bytes),
        ];
        for (own, more) in pairs {
            own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        }
        self.ready += other.ready;
        self.unsettled += other.unsettled;
        self.consumers += other.consumers;
        self.capacity += other.capacity;
        self.memory_bytes += other.memory_bytes;
        self.disk_writes += other.disk_writes;
        self.tally.merge(&other.tally);
        self.leases_over += other.leases_over;
        self.barriers += other.barriers;
        self.passed_over += other.passed_over;
        self.filtered.merge(&other.filtered);
        if let Some([segments, _]) = other.stream {
            self.stream.get_or_insert_default()[0] += segments;
        }
        if let Some(most) = other.quorum {
            self.quorum.get_or_insert_default().iter_mut().zip(most).for_each(|(own, own_most)| {
                *own = own_most.max(*own);
            });
        }
    }
}
