//! A shard as it is listed: its queues, and the memory they take.
//!
//! Listing reads, and changes nothing.

use crate::catalog::{Catalog, QueueChange, QueueDefinition, VhostId};
use crate::log::Log;
use crate::logs::Logs;
use crate::placed::Placed;
use crate::placed::stream::OwnedStream;
use crate::rows::queues::{HeldRow, Pulse, QueueRow, QueueSums, QueueTally, Standing, Tracking};
use crate::tally::Count;
use base::Quantum;
use base::hash::MapById;
use base::id::{LogId, QueueSeq};
use std::sync::Arc;

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

/// The place in a queue where browsing begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// This position.
    At(QueueSeq),
    /// There are so many ready messages behind it.
    Last(u64),
}

/// How far a list of queues has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedTo {
    log: LogId,
    slot: usize,
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
        let machines = self.logs.every().flat_map(|log| log.machines.iter());
        machines.filter(|placed| placed.is_owned()).map(Placed::row)
    }

    /// Has `each` look at the queues and streams that live here, from `from` on and as far as `quantum` allows; it says what it
    /// spends. Where to go on, until all were looked at.
    fn walk(
        self,
        from: ListedTo,
        quantum: &mut Quantum<'_>,
        mut each: impl FnMut(&'a Log, &'a Placed) -> usize,
    ) -> Option<ListedTo> {
        // A log may have gone elsewhere since, or come.
        let at = self.logs.all.partition_point(|log| log.commons.id < from.log);
        let log = self.logs.all.get(at)?;
        let id = log.commons.id;
        let from = if id == from.log { from } else { ListedTo { log: id, slot: 0 } };
        for (slot, placed) in log.machines.iter_from(from.slot) {
            if quantum.is_over() {
                return Some(ListedTo { slot, ..from });
            }
            // One that is not owned here is a queue no more.
            quantum.spend(if placed.is_owned() { each(log, placed) } else { 1 });
        }
        Some(ListedTo { log: LogId(id.0 + 1), slot: 0 })
    }

    /// A queue or stream that lives here, and its log. One that its owner let go of is a queue no more, though its log knows it
    /// until the record of its end is applied.
    fn find(self, definition: &QueueDefinition) -> Option<(&'a Log, &'a Placed)> {
        let log = self.logs.get(definition.log)?;
        let placed = log.machines.get(definition.id).filter(|placed| placed.is_owned())?;
        Some((log, placed))
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
        self.walk(from, quantum, |log, placed| {
            if !wanted(placed.definition()) {
                return 1;
            }
            let (row, messages) = row_of(log, placed, is_sampled);
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
        self.walk(from, quantum, |_, placed| {
            definitions.push(placed.definition().clone());
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
            if let Some((log, placed)) = self.find(definition) {
                let (row, messages) = row_of(log, placed, true);
                rows.push((number, row));
                looked += messages;
            }
            quantum.spend(looked);
        }
        None
    }

    /// The counts of queues that live here, and how many messages of each are ready and held, for callers that ask
    /// often: as [`Listing::rows_from`], without queues that are empty and of which nothing was counted.
    pub fn tallies_from(
        self,
        from: ListedTo,
        quantum: &mut Quantum<'_>,
        tallies: &mut Vec<QueueTally>,
    ) -> Option<ListedTo> {
        self.walk(from, quantum, |_, placed| {
            let (tally, lengths) = (placed.tally(), placed.lengths().0);
            if !tally.is_empty() || lengths != [0, 0] {
                tallies.push((placed.definition().clone(), tally, lengths));
            }
            1
        })
    }

    /// Queues with messages that live here, streams apart, in brief: as [`Listing::rows_from`].
    pub fn standings_from(
        self,
        from: ListedTo,
        quantum: &mut Quantum<'_>,
        standings: &mut Vec<Standing>,
    ) -> Option<ListedTo> {
        self.walk(from, quantum, |_, placed| {
            let ([ready, unsettled], consumers) = placed.lengths();
            if let Some(queue) = placed.as_queue()
                && ready + unsettled > 0
            {
                let (definition, held_since_ns) = (placed.definition().clone(), queue.held_since_ns());
                standings.push(Standing { definition, ready, unsettled, consumers, held_since_ns });
            }
            1
        })
    }

    /// Sums over the queues of each virtual host that live here: as [`Listing::rows_from`].
    pub fn sums_from(
        self,
        from: ListedTo,
        quantum: &mut Quantum<'_>,
        sums: &mut MapById<VhostId, QueueSums>,
    ) -> Option<ListedTo> {
        self.walk(from, quantum, |_, placed| {
            let ([ready, unsettled], consumers) = placed.lengths();
            let sum = sums.entry(placed.definition().vhost).or_default();
            sum.queues += 1;
            sum.ready += ready;
            sum.unsettled += unsettled;
            sum.consumers += u64::from(consumers);
            if placed.definition().is_kept() {
                sum.written += placed.tally().get(Count::Publish);
            }
            1
        })
    }

    /// How a queue is that lives here; `None` where it does not. It is found without passing over others.
    pub fn pulse(self, vhost: VhostId, name: &str) -> Option<Pulse> {
        let definition = self.catalog.queue_by_name(vhost, name.as_bytes())?;
        let (_, placed) = self.find(definition)?;
        let ([ready, unsettled], consumers) = placed.lengths();
        Some(Pulse { tally: placed.tally(), ready, unsettled, consumers })
    }

    /// Where browsing begins in a queue that lives here, and how many messages there are ready from there on, as far as `most`.
    /// `None` where it does not. It costs as many steps as there are messages told, times the logarithm of the queue's
    /// length for the last ones.
    pub fn ready_from(self, vhost: VhostId, name: &str, begin: Begin, most: u64) -> Option<(QueueSeq, u64)> {
        let definition = self.catalog.queue_by_name(vhost, name.as_bytes())?;
        let fifo = &self.find(definition)?.1.as_queue()?.fifo;
        let from = match begin {
            Begin::At(position) => position,
            Begin::Last(count) => fifo.last_ready(count),
        };
        Some((from, fifo.ready_from(from, most)))
    }

    /// Delayed messages of a queue that lives here, at most `count_max`: when each is due, milliseconds since 1970, and
    /// its position; in that order. `None` where it does not.
    pub fn delayed(self, vhost: &str, queue: &str, count_max: usize) -> Option<Vec<(u64, QueueSeq)>> {
        let (log, slot) = self.find_queue(vhost, queue)?;
        Some(self.logs.all[log].machines.queue(slot)?.fifo.delayed_list(count_max))
    }

    /// Messages of a queue that lives here which consumers hold, at most `count_max` from `from` on, lowest position first.
    /// `None` where it does not. It costs a step for each consumer of the queue, and a few for each message.
    pub fn held(self, vhost: VhostId, name: &str, from: QueueSeq, count_max: usize) -> Option<Vec<HeldRow>> {
        let definition = self.catalog.queue_by_name(vhost, name.as_bytes())?;
        let queue = self.find(definition)?.1.as_queue()?;
        Some(queue.held(from, count_max))
    }

    /// The position behind the last message of a queue that lives here which a consumer holds; 0: none does. `None` where it
    /// does not. It costs a step for each consumer of the queue.
    pub fn held_end(self, vhost: VhostId, name: &str) -> Option<u64> {
        let definition = self.catalog.queue_by_name(vhost, name.as_bytes())?;
        let queue = self.find(definition)?.1.as_queue()?;
        Some(queue.held_end())
    }

    /// The log, and the slot in it.
    pub(crate) fn find_queue(self, vhost: &str, name: &str) -> Option<(usize, u32)> {
        let definition = self.catalog.queue_by_name(self.catalog.vhost(vhost)?, name.as_bytes())?;
        self.find(definition)?;
        let log = self.logs.slot(definition.log)?;
        Some((log, self.logs.all[log].machines.slot_of(definition.id)?))
    }

    /// Bytes of memory of queues and streams that live here, for callers that must not hold others up: of as many of
    /// them as `quantum` allows from `from` on. Where to go on, until all were counted.
    pub fn bytes_from(self, from: ListedTo, quantum: &mut Quantum<'_>) -> (usize, Option<ListedTo>) {
        let mut bytes = 0;
        let next = self.walk(from, quantum, |_, placed| {
            bytes += placed.bytes();
            1
        });
        (bytes, next)
    }

    /// Stored offsets and publishing ids of a stream that lives here; `None` where it does not.
    pub fn tracking(self, vhost: VhostId, name: &str) -> Option<Tracking> {
        let definition = self.catalog.queue_by_name(vhost, name.as_bytes())?;
        let (_, placed) = self.find(definition)?;
        placed.as_stream().map(OwnedStream::tracking)
    }
}

/// A machine as it is listed, and how many of its messages were looked at.
fn row_of(log: &Log, placed: &Placed, is_sampled: bool) -> (QueueRow, usize) {
    let mut row = placed.row();
    let mut looked_at = 0;
    if is_sampled {
        (row.sample, looked_at) = placed.sample(&log.commons.store.batches);
    }
    (row, looked_at)
}
