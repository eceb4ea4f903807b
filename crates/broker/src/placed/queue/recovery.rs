//! From disk to the queues of a log and back: their part of its snapshot, and their state once the replay is over.
//!
//! A queue's snapshot may be newer than the catalog's: it is kept until the replay of the catalog names the queue, and
//! dropped at the end if it never does.

use super::at::AtQueue;
use super::owned::OwnedQueue;
use crate::batches::Batches;
use crate::catalog::{QueueDefinition, QueueRules};
use crate::log::{NO_QUEUE, Store};
use crate::placed::{Machines, Recovered, Recovering, Restored};
use crate::turn::Turn;
use base::cursor::{Reader, Short};
use base::id::{LogIndex, QueueId, QueueSeq};
use base::{Pieces, Sink};
use queue::{Fifo, Recovery};
use std::sync::Arc;

/// Queues as a snapshot has them: each with its id, and how far delivery had come, if that is known.
pub(crate) type Queues = Vec<(QueueId, Fifo, Option<QueueSeq>)>;

/// Reads what [`Machines::write_queues`] wrote.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Queues, Short> {
    let is_clean = reader.u32_le()? == 1;
    let count = reader.u64_le()?;
    let mut queues = Queues::new();
    for _ in 0..count {
        let id = Some(QueueId(reader.u64_le()?)).filter(|id| *id != NO_QUEUE).ok_or(Short)?;
        let cursor = QueueSeq(reader.u64_le()?);
        let len = reader.u32_le()? as usize;
        let fifo = Fifo::read_snapshot(reader.take(len)?).map_err(|_| Short)?;
        queues.push((id, fifo, is_clean.then_some(cursor)));
    }
    Ok(queues)
}

impl Machines {
    /// The recorded state of all queues.
    ///
    /// ```text
    ///   0         4           12       20           28
    ///   | is clean | queues    | id     | cursor     | length (4) | queue's snapshot | next queue ...
    /// ```
    pub(crate) fn write_queues(&self, is_clean: bool, bytes: &mut Pieces) {
        bytes.put(&u32::from(is_clean).to_le_bytes());
        bytes.put(&(self.queues().count() as u64).to_le_bytes());
        for queue in self.queues() {
            bytes.put(&queue.definition.id.0.to_le_bytes());
            bytes.put(&queue.fifo.cursor().0.to_le_bytes());
            let at = bytes.size();
            bytes.put(&[0; 4]);
            queue.fifo.write_snapshot(bytes);
            let len = (bytes.size() - at - 4) as u32;
            bytes.patch(at, &len.to_le_bytes());
        }
    }

    /// Gives the queues back what a snapshot held of them.
    pub(crate) fn restore_queues(&mut self, queues: Queues, store: &mut Store, recovering: &mut Recovering) {
        for (id, fifo, cursor) in queues {
            for run in fifo.runs() {
                *store.segments.entry(run.segment).or_insert(0) += 1;
            }
            let Some((_, queue)) = self.find_queue(id) else {
                recovering.restored.insert(id, Restored::Queue(Box::new(fifo), cursor));
                continue;
            };
            recovering.set_cursor(id, cursor);
            queue.restore(fifo);
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

impl OwnedQueue {
    /// A queue that was declared, with what a snapshot held of it.
    pub(crate) fn open(
        definition: Arc<QueueDefinition>,
        declared: &QueueRules,
        mut recovering: Option<&mut Recovering>,
    ) -> OwnedQueue {
        let id = definition.id;
        let settings = declared.settings(&definition);
        let (fifo, cursor) = match recovering.as_mut().and_then(|recovering| recovering.restored.remove(&id))
        {
            Some(Restored::Queue(fifo, cursor)) => (*fifo, cursor),
            _ => {
                let mut fifo = Fifo::new(settings);
                // Another shard may have sent messages for it already: no record would come before them.
                declared.window.into_iter().for_each(|window| fifo.deduplicate(window));
                (fifo, Some(QueueSeq(0)))
            }
        };
        if let Some(recovering) = recovering {
            recovering.set_cursor(id, cursor);
        }
        OwnedQueue::new(definition, fifo)
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
        let clean = recovering.cursor(self.queue.definition.id);
        let recovery = clean.map_or(Recovery::Dirty, Recovery::Clean);
        self.queue.fifo.recover(recovery, &mut self.commons.effects);
        let has_undelivered = clean.is_some() && self.queue.fifo.total() > 0;
        self.commons.effects.left.clear();
        self.carry_out(turn, None);
        if self.queue.has_clock() {
            // Handing out sets the timer.
            self.mark_dirty();
        }
        Recovered { has_undelivered, is_whole: count_live(batches, &self.queue.fifo) }
    }
}

/// Counts the messages that a queue still holds in each batch; false where one is in none.
fn count_live(batches: &mut Batches, fifo: &Fifo) -> bool {
    fifo.live_below(LogIndex(u64::MAX))
        .fold(true, |is_whole, (_, place)| batches.count_one(place) && is_whole)
}
