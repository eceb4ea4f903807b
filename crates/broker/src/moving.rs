//! Moving live remains out of journal files that were left, so that the files can be used again.
//!
//! The shard lists the live messages ([`crate::Logs::begin_move`]); another thread, which has a disk, copies them to
//! segments ([`MoveJob::carry_out`]); the shard then points its queues there ([`crate::Shard::finish_move`]). Messages
//! that leave meanwhile are simply not pointed at. Only then, and when snapshots cover the files, may they be released.

use crate::log::{Commons, Log, Store};
use crate::placed::Placed;
use base::hash::MapById;
use base::id::{LogId, LogIndex, QueueId, QueueSeq};
use base::{Buffer, Memory, Pieces, put_varint};
use journal::{BlockPlace, Disk, DiskError, FileKind, FileName, Place, SegmentWriter};
use message::record;
use queue::Run;
use std::collections::BTreeSet;

/// A queue with more than this to move gets a segment of its own; the others of a log share one. Bytes.
pub const OWN_SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// Bytes of batches kept in memory while they are copied.
const CACHE_BYTES_MAX: usize = 4 << 20;

/// Messages one job moves, unless a single batch has more: bounds its memory.
pub const MESSAGES_MAX: u64 = 128 << 10;

/// The live messages of one log that are to be moved.
#[derive(Debug)]
pub struct MoveJob {
    /// The log.
    pub log: LogId,
    /// Everything live before this is moved.
    pub bound: LogIndex,
    queues: Vec<(QueueId, Listed)>,
    batches: Vec<(LogIndex, Place)>,
}

/// Messages of one queue and where they are, in order of position: three bytes or so each, of which no block is large. Shards
/// make the list beside what lives long, and let go of it soon.
#[derive(Debug, Default)]
struct Listed {
    count: u64,
    /// How far each is from the one before: position, then place.
    steps: Pieces,
    last: (u64, u64),
}

impl Listed {
    fn push(&mut self, seq: QueueSeq, place: LogIndex) {
        let (last_seq, last_place) = self.last;
        put_varint(&mut self.steps, seq.0.wrapping_sub(last_seq));
        put_varint(&mut self.steps, place.0.wrapping_sub(last_place));
        self.last = (seq.0, place.0);
        self.count += 1;
    }

    fn iter(&self) -> impl Iterator<Item = (QueueSeq, LogIndex)> + '_ {
        let mut bytes = self.steps.iter().flatten().copied();
        let (mut seq, mut place) = (0u64, 0u64);
        (0..self.count).map(move |_| {
            seq = seq.wrapping_add(take_varint(&mut bytes));
            place = place.wrapping_add(take_varint(&mut bytes));
            (QueueSeq(seq), LogIndex(place))
        })
    }
}

/// Reads a number that [`put_varint`] wrote: in this process, so it is whole.
fn take_varint(bytes: &mut impl Iterator<Item = u8>) -> u64 {
    let mut number = 0;
    for (shift, byte) in (0..64).step_by(7).zip(bytes) {
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

/// The result of a [`MoveJob`]: the new places of the messages of one log.
#[derive(Debug)]
pub struct Moved {
    /// The log.
    pub log: LogId,
    /// As in the job.
    pub bound: LogIndex,
    /// Where each queue's messages are now.
    queues: Vec<(QueueId, Vec<Run>)>,
    /// Batches, or single records of them, whose bytes are not what was written: what was in them is lost.
    pub damaged: Vec<LogIndex>,
}

/// Reads records of batches, a few of which it keeps.
struct Source<'a> {
    disk: &'a dyn Disk,
    batches: &'a [(LogIndex, Place)],
    kept: Vec<(usize, Memory)>,
    /// Bytes of those: none but the last where they are gone through once.
    kept_bytes_max: usize,
    damaged: Vec<LogIndex>,
}

impl Source<'_> {
    fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|(_, memory)| memory.capacity()).sum()
    }

    fn batch(&mut self, index: LogIndex) -> Result<Option<(LogIndex, &Memory)>, DiskError> {
        let after = self.batches.partition_point(|(base, _)| *base <= index);
        let Some(at) = after.checked_sub(1) else {
            self.damaged.push(index);
            return Ok(None);
        };
        let (base, place) = self.batches[at];
        if self.damaged.last() == Some(&base) {
            return Ok(None);
        }
        let have = match self.kept.iter().position(|(kept, _)| *kept == at) {
            Some(have) => have,
            None => {
                let mut buffer = Buffer::default();
                while !self.kept.is_empty() && self.kept_bytes() + place.len as usize > self.kept_bytes_max {
                    buffer = self.kept.remove(0).1.recycle().unwrap_or_default();
                }
                let Some(memory) = place.read_into(self.disk, buffer)? else {
                    self.damaged.push(base);
                    return Ok(None);
                };
                self.kept.push((at, memory));
                self.kept.len() - 1
            }
        };
        Ok(Some((base, &self.kept[have].1)))
    }
}

impl MoveJob {
    /// Copies the messages to new segments, whose numbers `next_segment` gives, and makes them durable. They take about
    /// `room` bytes at the most.
    ///
    /// # Errors
    /// The device's error, or [`DiskError::NoSpace`] for want of `room`. Segments that were begun are removed again, so
    /// that trying once more on a full disk takes no more of it.
    pub fn carry_out(
        &self,
        disk: &dyn Disk,
        room: u64,
        mut next_segment: impl FnMut() -> u64,
    ) -> Result<Moved, DiskError> {
        let mut begun = Vec::new();
        let outcome = self.copy(disk, room, || {
            let number = next_segment();
            begun.push(number);
            number
        });
        if outcome.is_err() {
            for number in begun {
                let _not_there_or_found_on_the_next_start =
                    disk.remove(FileName::new(FileKind::Segment, number));
            }
        }
        outcome
    }

    fn copy(
        &self,
        disk: &dyn Disk,
        room: u64,
        mut next_segment: impl FnMut() -> u64,
    ) -> Result<Moved, DiskError> {
        let mut taken = 0;
        let kept_bytes_max = if self.queues.len() > 1 { CACHE_BYTES_MAX } else { 0 };
        let (kept, damaged) = (Vec::new(), Vec::new());
        let mut source = Source { disk, batches: &self.batches, kept, kept_bytes_max, damaged };
        let mut runs: MapById<QueueId, Vec<Run>> = MapById::default();
        let mut shared: Option<SegmentWriter> = None;
        for (queue, messages) in &self.queues {
            let mut own: Option<SegmentWriter> = None;
            let is_large = self.bytes_of(messages) > OWN_SEGMENT_BYTES_MIN;
            let writer = if is_large { &mut own } else { &mut shared };
            for (seq, index) in messages.iter() {
                let Some((base, memory)) = source.batch(index)? else { continue };
                let bytes = memory.get((index.0 - base.0) as usize..).unwrap_or_default();
                let Some((_, record, _)) = record::split(bytes) else {
                    source.damaged.push(index);
                    continue;
                };
                if writer.is_none() {
                    *writer = Some(SegmentWriter::begin(disk, next_segment())?);
                }
                if let Some(writer) = writer {
                    writer.push(disk, queue.0, seq.0, record)?;
                }
                taken += record.len() as u64;
                if taken > room {
                    return Err(DiskError::NoSpace);
                }
            }
            if let Some(own) = own {
                finish(own, disk, &mut runs)?;
            }
        }
        if let Some(shared) = shared {
            finish(shared, disk, &mut runs)?;
        }
        let queues = self.queues.iter().map(|(id, _)| (*id, runs.remove(id).unwrap_or_default())).collect();
        Ok(Moved { log: self.log, bound: self.bound, queues, damaged: source.damaged })
    }

    /// Roughly the bytes of these messages: they lie between the first and the last of them, among others.
    fn bytes_of(&self, messages: &Listed) -> u64 {
        let share = messages.count;
        let all: u64 = self.queues.iter().map(|(_, messages)| messages.count).sum();
        let span: u64 = self.batches.iter().map(|(_, place)| place.len).sum();
        span * share / all.max(1)
    }

    /// Nothing is to be moved.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}

fn finish(
    writer: SegmentWriter,
    disk: &dyn Disk,
    runs: &mut MapById<QueueId, Vec<Run>>,
) -> Result<(), DiskError> {
    let done = writer.finish(disk)?;
    done.blocks.iter().for_each(|block| push_run(done.id, *block, runs));
    Ok(())
}

fn push_run(segment: u64, block: BlockPlace, runs: &mut MapById<QueueId, Vec<Run>>) {
    let BlockPlace { key, first, last, count, offset, len } = block;
    let (first, last) = (QueueSeq(first), QueueSeq(last));
    runs.entry(QueueId(key)).or_default().push(Run { first, last, count, segment, offset, len: len as u32 });
}

impl MoveJob {
    /// The live messages of a log before `bound`, or before the end of as many as one job holds.
    pub(crate) fn of(log: &Log, bound: LogIndex) -> MoveJob {
        let Commons { id, pipeline, store: Store { batches, .. }, .. } = &log.commons;
        // The journal may be ahead: what it has written and nobody was told of yet is not applied, or its place is not
        // known, and what is not listed here must not count as moved.
        let bound = batches.bound_within(bound.min(pipeline.whole_batches_end()), MESSAGES_MAX);
        let mut queues = Vec::new();
        for queue in log.machines.queues() {
            let mut live = Listed::default();
            queue.fifo.live_below(bound).for_each(|(seq, place)| live.push(seq, place));
            if live.count > 0 {
                queues.push((queue.id, live));
            }
        }
        MoveJob { log: *id, bound, queues, batches: batches.places_below(bound) }
    }
}

impl Moved {
    /// Messages of a log that were copied to these segments, each with its blocks in their order, by another node: all that
    /// lived before `bound` and was in no segment.
    pub fn of_segments(log: LogId, bound: LogIndex, segments: &[(u64, Vec<BlockPlace>)]) -> Moved {
        let mut runs: MapById<QueueId, Vec<Run>> = MapById::default();
        for (segment, blocks) in segments {
            blocks.iter().for_each(|block| push_run(*segment, *block, &mut runs));
        }
        let mut queues: Vec<_> = runs.into_iter().collect();
        base::brief::sort_by_key(&mut queues, |(id, _)| id.0);
        for (_, runs) in &mut queues {
            base::brief::sort_by_key(runs, |run| run.first.0);
        }
        Moved { log, bound, queues, damaged: Vec::new() }
    }

    /// All queues are in the log, and have all their live messages up to the last of these in these.
    pub(crate) fn fits(&self, log: &Log) -> bool {
        self.queues.iter().all(|(id, runs)| {
            let queue = log.machines.get(*id).and_then(Placed::as_queue);
            queue.is_some_and(|queue| queue.fifo.may_move_out(runs))
        })
    }

    /// Segments that messages were copied to.
    pub fn segments(&self) -> BTreeSet<u64> {
        self.queues.iter().flat_map(|(_, runs)| runs).map(|run| run.segment).collect()
    }

    /// Points the queues to where their messages are now; segments that hold nothing live are told by `dead`.
    pub(crate) fn finish(&self, log: &mut Log, dead: &mut Vec<u64>) {
        let Log { commons, machines, .. } = log;
        for (id, runs) in &self.queues {
            for run in runs {
                *commons.store.segments.entry(run.segment).or_insert(0) += 1;
            }
            match machines.find_queue(*id) {
                Some((_, queue)) => queue.fifo.move_out(runs, &mut commons.effects),
                None => commons.effects.runs_left.extend(runs),
            }
        }
        commons.store.batches.forget_below(self.bound);
        commons.let_segments_go(dead);
    }
}

impl Commons {
    /// Counts down the segments whose blocks nothing is left of.
    pub(crate) fn let_segments_go(&mut self, dead: &mut Vec<u64>) {
        for run in self.effects.runs_left.drain(..) {
            if let Some(blocks) = self.store.segments.get_mut(&run.segment) {
                *blocks -= 1;
                if *blocks == 0 {
                    self.store.segments.remove(&run.segment);
                    dead.push(run.segment);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Listed;
    use base::id::{LogIndex, QueueSeq};

    #[test]
    fn what_is_listed_is_told_as_it_was() {
        let near = (0..100_000).map(|seq| (7 + seq, (1 << 40) + seq * 96));
        // Far from each other, and whatever the order of places is.
        let far = [(200_000, 5), (1 << 50, u64::MAX), (u64::MAX, 0)];
        let all: Vec<_> = near.chain(far).map(|(seq, place)| (QueueSeq(seq), LogIndex(place))).collect();
        let mut listed = Listed::default();
        assert_eq!(listed.iter().next(), None);
        all.iter().for_each(|(seq, place)| listed.push(*seq, *place));
        assert!(listed.iter().eq(all.iter().copied()));
        assert_eq!(listed.count, all.len() as u64);
        assert!(listed.steps.iter().map(<[u8]>::len).sum::<usize>() < 3 * all.len(), "a few bytes each");
    }
}
