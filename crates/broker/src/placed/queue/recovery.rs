//! From disk to the queues of a log and back: their part of its snapshot, and their state once the replay is over.
//!
//! A queue that the catalog does not name when the replay is over has no owner, and is closed.

use super::at::AtQueue;
use super::owned::OwnedQueue;
use crate::batches::Batches;
use crate::log::{NO_QUEUE, Store};
use crate::placed::{Machines, Placed, Recovered, Recovering};
use crate::turn::Turn;
use base::cursor::{Reader, Short};
use base::id::{LogIndex, QueueId, QueueSeq};
use base::{Pieces, Sink};
use queue::{Fifo, Recovery};

/// A queue as a snapshot has it.
#[derive(Debug)]
pub(crate) struct Restored {
    id: QueueId,
    fifo: Fifo,
    /// How far delivery had come, if that is known.
    cursor: Option<QueueSeq>,
}

/// Flag of a queue in a snapshot: its messages may be in groups.
const GROUPS: u32 = 1;

/// Reads what [`Machines::write_queues`] wrote.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Vec<Restored>, Short> {
    let is_clean = reader.u32_le()? == 1;
    let count = reader.u64_le()?;
    let mut queues = Vec::new();
    for _ in 0..count {
        let id = Some(QueueId(reader.u64_le()?)).filter(|id| *id != NO_QUEUE).ok_or(Short)?;
        let cursor = QueueSeq(reader.u64_le()?);
        let flags = Some(reader.u32_le()?).filter(|flags| flags & !GROUPS == 0).ok_or(Short)?;
        let len = reader.u32_le()? as usize;
        let mut fifo = Fifo::read_snapshot(reader.take(len)?).map_err(|_| Short)?;
        if flags & GROUPS != 0 {
            fifo.group();
        }
        queues.push(Restored { id, fifo, cursor: is_clean.then_some(cursor) });
    }
    Ok(queues)
}

impl Machines {
    /// The recorded state of all queues.
    ///
    /// ```text
    ///   0         4           12       20           28          32
    ///   | is clean | queues    | id     | cursor     | flags (4) | length (4) | queue's snapshot | next queue ...
    /// ```
    pub(crate) fn write_queues(&self, is_clean: bool, bytes: &mut Pieces) {
        let open = || self.queues().filter(|queue| queue.is_open);
        bytes.put(&u32::from(is_clean).to_le_bytes());
        bytes.put(&(open().count() as u64).to_le_bytes());
        for queue in open() {
            bytes.put(&queue.id.0.to_le_bytes());
            bytes.put(&queue.fifo.cursor().0.to_le_bytes());
            let flags = if queue.fifo.is_grouped() { GROUPS } else { 0 };
            bytes.put(&flags.to_le_bytes());
            let at = bytes.size();
            bytes.put(&[0; 4]);
            queue.fifo.write_snapshot(bytes);
            let len = (bytes.size() - at - 4) as u32;
            bytes.patch(at, &len.to_le_bytes());
        }
    }

    /// Gives the log what a snapshot held of its queues.
    pub(crate) fn restore_queues(
        &mut self,
        queues: Vec<Restored>,
        store: &mut Store,
        recovering: &mut Recovering,
    ) {
        for Restored { id, fifo, cursor } in queues {
            for run in fifo.runs() {
                *store.segments.entry(run.segment).or_insert(0) += 1;
            }
            recovering.set_cursor(id, cursor);
            match self.find_queue(id) {
                Some((_, queue)) => queue.restore(fifo),
                None => _ = self.insert(id, Placed::Queue(OwnedQueue::bare(id, fifo))),
            }
        }
    }
}

impl Recovering {
    /// How far delivery had come in a queue, if that is known.
    fn set_cursor(&mut self, queue: QueueId, cursor: Option<QueueSeq>) {
        match cursor {
            Some(cursor) => self.cursors.insert(queue, cursor),
            None => self.cursors.remove(&queue),
        };
    }
}

impl AtQueue<'_> {
    /// The replay is over: the queue begins, and its messages are counted in the log's batches.
    pub(crate) fn recover(
        &mut self,
        turn: &mut Turn<'_>,
        recovering: &Recovering,
        batches: &mut Batches,
    ) -> Recovered {
        let has_owner = self.queue.is_owned();
        let clean = recovering.cursor(self.queue.id).filter(|_| has_owner);
        let recovery = clean.map_or(Recovery::Dirty, Recovery::Clean);
        let has_undelivered = clean.is_some() && self.queue.fifo.total() > 0;
        if has_owner {
            self.queue.fifo.recover(recovery, &mut self.commons.effects);
            self.commons.effects.left.clear();
            self.carry_out(turn, None);
            if self.queue.has_clock() {
                // Handing out sets the timer.
                self.mark_dirty();
            }
        }
        Recovered { has_undelivered, is_whole: count_live(batches, &self.queue.fifo) }
    }
}

impl AtQueue<'_> {
    /// Its log is led from here on: the queue begins, if it is owned here.
    pub(crate) fn begin(&mut self, turn: &mut Turn<'_>) {
        self.queue.is_dirty = false;
        if self.queue.is_owned() {
            self.queue.fifo.claim(Recovery::Dirty, &mut self.commons.effects);
            self.carry_out(turn, None);
            self.mark_dirty();
        }
    }
}

/// Counts the messages that a queue still holds in each batch; false where one is in none.
fn count_live(batches: &mut Batches, fifo: &Fifo) -> bool {
    fifo.live_below(LogIndex(u64::MAX))
        .fold(true, |is_whole, (_, place)| batches.count_one(place) && is_whole)
}
