//! A shard as it is listed: its queues, and the memory they take.
//!
//! Listing reads; nothing here changes a queue but [`AtQueue::cancel_delayed`].

use crate::catalog::{Catalog, QueueChange, QueueDefinition, VhostId};
use crate::log::{AtQueue, Log};
use crate::logs::Logs;
use crate::placed::queue::owned::OwnedQueue;
use crate::placed::queue::sizing::Sample;
use crate::placed::stream::OwnedStream;
use crate::tally::Tally;
use crate::turn::Turn;
use base::Quantum;
use base::id::{PortId, QueueSeq};
use message::record::SeqRange;
use queue::{Command, Retry};
use std::sync::Arc;

/// A queue as it is listed.
#[derive(Clone, Debug)]
pub struct QueueRow {
    /// Its entry in the catalog.
    pub definition: Arc<QueueDefinition>,
    /// Messages that nobody holds.
    pub ready: u64,
    /// Bytes of those, as limits in bytes count them; none where the size of some is not known.
    pub ready_bytes: Option<u64>,
    /// Mean size, and timestamp of the oldest, from messages that are in memory; empty where it was not asked for.
    pub sample: Sample,
    /// Messages that consumers hold.
    pub unsettled: u64,
    /// Messages that wait for their time.
    pub delayed: u64,
    /// Messages of those that are ready or held, or wait, that are gone after a restart.
    pub transient: u64,
    /// Messages that are ready, and were out before.
    pub returned: u64,
    /// Messages that died, and are on their way to where their queue sends the dead.
    pub dying: u64,
    /// Only of a quorum queue.
    pub quorum: Option<QuorumRow>,
    /// Consumers.
    pub consumers: u32,
    /// Bytes of memory it takes, messages apart.
    pub memory_bytes: usize,
    /// Counts since the node started.
    pub tally: Tally,
    /// The position of the oldest message there is.
    pub head: u64,
    /// The position that the next message gets.
    pub end: u64,
    /// Only of a stream.
    pub stream: Option<StreamRow>,
    /// Of consumers of which one is active at a time, whose turn it is: its connection, and what that calls it.
    pub active: Option<(PortId, u32)>,
}

impl QueueRow {
    /// Bytes of messages that are ready, and of those that consumers hold, as limits in bytes count them; what the queue does
    /// not know by itself is told by some messages that are in memory. None: none of those looked at is.
    pub fn bytes(&self) -> Option<[u64; 2]> {
        let about = |messages: u64| match self.sample.bytes_mean {
            Some(mean) => Some((mean * messages as f64).round() as u64),
            None => (messages == 0).then_some(0),
        };
        let ready = self.ready_bytes.or_else(|| about(self.ready))?;
        Some([ready, about(self.unsettled)?])
    }
}

/// A queue, its counts, and how many messages are ready and held.
pub type QueueTally = (Arc<QueueDefinition>, Tally, [u64; 2]);

/// How a queue is just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Counts since the node started.
    pub tally: Tally,
    /// Messages that nobody holds.
    pub ready: u64,
    /// Messages that consumers hold.
    pub unsettled: u64,
    /// Consumers.
    pub consumers: u32,
}

/// The columns that only quorum queues have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumRow {
    /// Messages that are ready and were not out before, by priority, lowest first: of priorities that any has.
    pub priorities: Vec<(u8, u64)>,
    /// Failed deliveries of a message at most; none: any number.
    pub delivery_limit: Option<u32>,
    /// The wait of messages that come back; none: they do not wait.
    pub retry: Option<Retry>,
}

/// The columns that only streams have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRow {
    /// Files.
    pub segments: usize,
    /// Readers.
    pub readers: usize,
    /// The offset of the first message there is.
    pub first_offset: u64,
    /// The offset that the next message gets.
    pub next_offset: u64,
    /// The time of the first chunk there is, milliseconds since 1970.
    pub first_timestamp_ms: Option<i64>,
}

/// Stored offsets and publishing ids, which a stream keeps for its consumers and publishers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// Offsets that consumers stored, by their references.
    pub offsets: Vec<(String, u64)>,
    /// The last publishing ids of publishers, by their references.
    pub writers: Vec<(String, u64)>,
}

/// Which queues there are.
#[derive(Clone, Debug, Default)]
pub struct QueuesNow {
    /// Grows with every queue that comes or goes.
    pub version: u64,
    /// Every other shard knows the same.
    pub is_settled: bool,
    /// Queues that came and went since the version that is known; none: they are not known, and all queues are to be
    /// asked for.
    pub changes: Option<Vec<QueueChange>>,
}

/// How far a list of queues has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedTo {
    log: usize,
    /// The queues of that log were looked at, its streams come next.
    has_queues: bool,
    slot: usize,
}

/// The queues of a log from a slot on, without passing over those before it.
fn queues_from(log: &Log, slot: usize) -> impl Iterator<Item = (usize, &OwnedQueue)> {
    (slot..log.queues.slab.capacity()).filter_map(|own| Some((own, log.queues.slab.get(own)?)))
}

fn quorum_row(queue: &OwnedQueue) -> QuorumRow {
    let rules = queue.fifo.rules();
    let priorities = if queue.fifo.ready() > 0 { queue.fifo.ready_by_priority() } else { Vec::new() };
    QuorumRow { priorities, delivery_limit: rules.delivery_limit, retry: rules.retry }
}

fn row(queue: &OwnedQueue) -> QueueRow {
    QueueRow {
        definition: queue.definition.clone(),
        ready: queue.fifo.ready(),
        ready_bytes: queue.fifo.knows_sizes().then(|| queue.fifo.ready_bytes()),
        sample: Sample::default(),
        unsettled: queue.fifo.unsettled(),
        delayed: queue.fifo.delayed(),
        transient: queue.fifo.transient(),
        returned: queue.fifo.ready_returned(),
        dying: queue.fifo.dying(),
        quorum: queue.definition.is_quorum().then(|| quorum_row(queue)),
        consumers: queue.fifo.consumers(),
        memory_bytes: Listed::queue_bytes(queue),
        tally: queue.tally(),
        head: queue.fifo.head().0,
        end: queue.fifo.next_seq().0,
        stream: None,
        active: queue.active().map(|member| (member.port, member.handle)),
    }
}

fn stream_row(stream: &OwnedStream) -> QueueRow {
    QueueRow {
        definition: stream.definition.clone(),
        ready: stream.machine.messages(),
        ready_bytes: Some(stream.machine.bytes()),
        sample: Sample::default(),
        unsettled: 0,
        delayed: 0,
        transient: 0,
        returned: 0,
        dying: 0,
        quorum: None,
        consumers: stream.consumers(),
        memory_bytes: size_of_val(stream),
        tally: stream.tally(),
        head: stream.machine.first_offset(),
        end: stream.machine.next_offset(),
        stream: Some(StreamRow {
            segments: stream.machine.segments().count(),
            readers: stream.machine.readers(),
            first_offset: stream.machine.first_offset(),
            next_offset: stream.machine.next_offset(),
            first_timestamp_ms: stream.machine.first_timestamp_ms(),
        }),
        active: None,
    }
}

/// A queue or a stream as it is come upon.
enum Listed<'a> {
    Queue(&'a Log, &'a OwnedQueue),
    Stream(&'a OwnedStream),
}

impl<'a> Listed<'a> {
    /// The one that this says what it is, if it lives on `log`.
    fn find(log: &'a Log, definition: &QueueDefinition) -> Option<Listed<'a>> {
        match definition.is_stream() {
            true => log.streams.as_ref()?.get(definition.id).map(Listed::Stream),
            false => log.queues.get(definition.id).map(|queue| Listed::Queue(log, queue)),
        }
    }

    fn definition(&self) -> &'a Arc<QueueDefinition> {
        match self {
            Listed::Queue(_, queue) => &queue.definition,
            Listed::Stream(stream) => &stream.definition,
        }
    }

    /// As it is listed, and how many of its messages were looked at.
    fn row(&self, is_sampled: bool) -> (QueueRow, usize) {
        match self {
            Listed::Queue(log, queue) => {
                let (sample, messages) =
                    if is_sampled { log.commons.store.batches.sample(queue) } else { Default::default() };
                (QueueRow { sample, ..row(queue) }, messages)
            }
            Listed::Stream(stream) => (stream_row(stream), 0),
        }
    }

    /// Its counts, and how many of its messages are ready and held.
    fn tally(&self) -> (Tally, [u64; 2]) {
        match self {
            Listed::Queue(_, queue) => (queue.tally(), [queue.fifo.ready(), queue.fifo.unsettled()]),
            Listed::Stream(stream) => (stream.tally(), [stream.machine.messages(), 0]),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Listed::Queue(_, queue) => Listed::queue_bytes(queue),
            Listed::Stream(stream) => size_of_val(*stream),
        }
    }

    fn queue_bytes(queue: &OwnedQueue) -> usize {
        queue.fifo.memory_bytes() + size_of_val(queue)
    }
}

impl AtQueue<'_> {
    /// Throws delayed messages away; how many of `ids` were there.
    pub(crate) fn cancel_delayed(&mut self, turn: &mut Turn<'_>, ids: &[u64]) -> u64 {
        let mut cancelled = 0;
        for id in ids.iter().map(|id| QueueSeq(*id)) {
            let range = SeqRange { first: id, last: id };
            let fifo = &mut self.queue.fifo;
            cancelled += fifo.delayed_within(range);
            fifo.apply(Command::CancelDelayed { range }, &mut self.commons.effects);
        }
        self.carry_out(turn, None);
        self.commons.pipeline.flush_soon();
        self.mark_dirty();
        cancelled
    }
}

/// The queues and streams that live on a shard, to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) logs: &'a Logs,
}

impl<'a> Listing<'a> {
    /// All of them.
    pub fn rows(self) -> impl Iterator<Item = QueueRow> + 'a {
        let queues = self.logs.all.iter().flat_map(|log| log.queues.slab.iter());
        let streams = self.logs.all.iter().filter_map(|log| log.streams.as_ref());
        let streams = streams.flat_map(|streams| streams.iter()).map(stream_row);
        queues.map(|(_, queue)| row(queue)).chain(streams)
    }

    /// Has `each` look at the queues and streams that live here, from `from` on and as far as `quantum` allows; it says what it
    /// spends. Where to go on, until all were looked at.
    fn walk(
        self,
        from: ListedTo,
        quantum: &mut Quantum<'_>,
        mut each: impl FnMut(Listed<'a>) -> usize,
    ) -> Option<ListedTo> {
        let ListedTo { log: at, has_queues, slot } = from;
        let log = self.logs.all.get(at)?;
        if !has_queues {
            for (own, queue) in queues_from(log, slot) {
                if quantum.is_over() {
                    return Some(ListedTo { log: at, has_queues, slot: own });
                }
                quantum.spend(each(Listed::Queue(log, queue)));
            }
            return Some(ListedTo { log: at, has_queues: true, slot: 0 });
        }
        let streams = log.streams.iter().flat_map(|streams| streams.iter());
        for (looked, stream) in streams.skip(slot).enumerate() {
            if quantum.is_over() {
                return Some(ListedTo { log: at, has_queues, slot: slot + looked });
            }
            quantum.spend(each(Listed::Stream(stream)));
        }
        Some(ListedTo { log: at + 1, has_queues: false, slot: 0 })
    }

    /// Some of the queues that live here, for callers that must not hold others up: as many of them and of their
    /// messages as `quantum` allows are looked at from `from` on, those that `wanted` likes are appended to `rows`.
    /// Where to go on, until all were looked at. Messages are looked at where `is_sampled` says so:
    /// [`QueueRow::sample`].
    pub fn rows_from(
        self,
        from: ListedTo,
        quantum: &mut Quantum<'_>,
        is_sampled: bool,
        wanted: impl Fn(&QueueDefinition) -> bool,
        rows: &mut Vec<QueueRow>,
    ) -> Option<ListedTo> {
        self.walk(from, quantum, |listed| {
            if !wanted(listed.definition()) {
                return 1;
            }
            let (row, messages) = listed.row(is_sampled);
            rows.push(row);
            1 + messages
        })
    }

    /// The definitions of all queues that live here: as [`Listing::rows_from`].
    pub fn definitions_from(
        self,
        from: ListedTo,
        quantum: &mut Quantum<'_>,
        definitions: &mut Vec<Arc<QueueDefinition>>,
    ) -> Option<ListedTo> {
        self.walk(from, quantum, |listed| {
            definitions.push(listed.definition().clone());
            1
        })
    }

    /// Those of `queues` from number `from` on that live here, each with its number there, as far as `quantum` allows: they are
    /// found without passing over others. Where to go on, until all were looked for.
    pub fn rows_of(
        self,
        queues: &[Arc<QueueDefinition>],
        from: usize,
        quantum: &mut Quantum<'_>,
        rows: &mut Vec<(usize, QueueRow)>,
    ) -> Option<usize> {
        for (number, definition) in queues.iter().enumerate().skip(from) {
            if quantum.is_over() {
                return Some(number);
            }
            let mut looked = 1;
            if let Some(listed) = self.logs.get(definition.log).and_then(|log| Listed::find(log, definition))
            {
                let (row, messages) = listed.row(true);
                rows.push((number, row));
                looked += messages;
            }
            quantum.spend(looked);
        }
        None
    }

    /// The counts of queues that live here, and how many messages of each are ready and held, for callers that ask
    /// often: as [`Listing::rows_from`], without queues of which nothing was counted.
    pub fn tallies_from(
        self,
        from: ListedTo,
        quantum: &mut Quantum<'_>,
        tallies: &mut Vec<QueueTally>,
    ) -> Option<ListedTo> {
        self.walk(from, quantum, |listed| {
            let (tally, lengths) = listed.tally();
            if !tally.is_empty() {
                tallies.push((listed.definition().clone(), tally, lengths));
            }
            1
        })
    }

    /// How a queue is that lives here; `None` where it does not. It is found without passing over others.
    pub fn pulse(self, vhost: VhostId, name: &str) -> Option<Pulse> {
        let definition = self.catalog.queue_by_name(vhost, name.as_bytes())?;
        let log = self.logs.get(definition.log)?;
        if definition.is_stream() {
            let stream = log.streams.as_ref()?.get(definition.id)?;
            let (tally, consumers) = (stream.tally(), stream.consumers());
            return Some(Pulse { tally, ready: stream.machine.messages(), unsettled: 0, consumers });
        }
        let queue = log.queues.get(definition.id)?;
        let (tally, fifo) = (queue.tally(), &queue.fifo);
        Some(Pulse { tally, ready: fifo.ready(), unsettled: fifo.unsettled(), consumers: fifo.consumers() })
    }

    /// Delayed messages of a queue that lives here, at most `count_max`: when each is due, milliseconds since 1970, and
    /// its position; in that order. `None` where it does not.
    pub fn delayed(self, vhost: &str, queue: &str, count_max: usize) -> Option<Vec<(u64, QueueSeq)>> {
        let (log, slot) = self.find_queue(vhost, queue)?;
        Some(self.logs.all[log].queues.slab[slot].fifo.delayed_list(count_max))
    }

    /// The log, and the slot in it.
    pub(crate) fn find_queue(self, vhost: &str, name: &str) -> Option<(usize, usize)> {
        let definition = self.catalog.queue_by_name(self.catalog.vhost(vhost)?, name.as_bytes())?;
        let log = self.logs.slot(definition.log)?;
        Some((log, self.logs.all[log].queues.slot_of(definition.id)? as usize))
    }

    /// Bytes of memory of queues and streams that live here, for callers that must not hold others up: of as many of
    /// them as `quantum` allows from `from` on. Where to go on, until all were counted.
    pub fn bytes_from(self, from: ListedTo, quantum: &mut Quantum<'_>) -> (usize, Option<ListedTo>) {
        let mut bytes = 0;
        let next = self.walk(from, quantum, |listed| {
            bytes += listed.memory_bytes();
            1
        });
        (bytes, next)
    }

    /// Stored offsets and publishing ids of a stream that lives here; `None` where it does not.
    pub fn tracking(self, vhost: VhostId, name: &str) -> Option<Tracking> {
        let streams = self.logs.all.iter().filter_map(|log| log.streams.as_ref());
        let mut streams = streams.flat_map(|streams| streams.iter());
        let is_it = |definition: &QueueDefinition| definition.vhost == vhost && *definition.name == *name;
        let stream = streams.find(|stream| is_it(&stream.definition))?;
        let text = |reference: &[u8]| String::from_utf8_lossy(reference).into_owned();
        let mut tracking = Tracking::default();
        stream.machine.each_offset(|reference, offset| tracking.offsets.push((text(reference), offset)));
        stream.machine.each_sequence(|reference, id| tracking.writers.push((text(reference), id)));
        Some(tracking)
    }
}
