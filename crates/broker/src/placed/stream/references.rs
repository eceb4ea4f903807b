//! Which segments of streams hold messages of queues that are filled from them, and until when.
//!
//! A queue's messages that were not copied lie in *runs*: from one position to another, of which some or all lie in one segment.
//! Such a segment's files stay when its stream lets go of it, or is deleted: it is *doomed*, and no part of the stream any
//! more. A run ends when nothing of it is in the queue; its segment is held until that is on disk, as the message must still
//! be readable after a crash that loses the record of its end. What was taken out of a stream and is not in its queue yet
//! holds its segment as well.
//! While the journal is replayed no file goes at all: what is fed later in it may lie there. A start sets files aside that its snapshot
//! does not know, so only segments that both snapshots know which a log has count as there to stay ([`References::knows`]).
//! Not here: what the messages are (`message::record::Refer`), reading them ([`crate::reading`]).
//! Invariant: `held` counts the runs, those that fade and what is under way, by segment.

mod letting_go;

use crate::log::NO_QUEUE;
use base::Sink;
use base::cursor::{Reader, Short};
use base::id::{LogIndex, QueueId, QueueSeq};
use message::record::SeqRange;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Messages of a queue, some or all of which lie in this segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    range: SeqRange,
    segment: u64,
}

/// Messages on their way to a queue.
#[derive(Debug)]
struct UnderWay {
    /// How far the queue is fed with it.
    upto: u64,
    segments: Vec<u64>,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct References {
    runs: BTreeMap<QueueId, VecDeque<Run>>,
    held: BTreeMap<u64, u32>,
    /// Messages on their way to a queue, and the segments they lie in.
    under_way: BTreeMap<QueueId, UnderWay>,
    /// Runs that ended, and where the log is when that is on disk.
    fading: VecDeque<(LogIndex, u64)>,
    /// Segments that their streams let go of.
    doomed: BTreeSet<u64>,
    /// The journal is replayed.
    is_replaying: bool,
    /// Segments with lower numbers are known to both snapshots.
    known_below: u64,
    /// Segments with lower numbers are known to the last snapshot.
    known_to_last: u64,
    /// The same of the one that is being written.
    known_to_next: u64,
}

impl References {
    pub(super) fn new(is_replaying: bool) -> References {
        References { is_replaying, ..References::default() }
    }

    /// A start from any snapshot there is keeps the files of this segment, if something needs it.
    pub(super) fn knows(&self, segment: u64) -> bool {
        segment < self.known_below
    }

    /// There is a snapshot that knows the segments with lower numbers.
    pub(super) fn has_snapshot(&mut self, next_file: u64) {
        self.known_below = std::mem::replace(&mut self.known_to_last, next_file);
    }

    /// A message at this position came to a queue.
    pub(crate) fn add(&mut self, queue: QueueId, seq: QueueSeq, segment: u64) {
        let runs = self.runs.entry(queue).or_default();
        match runs.back_mut() {
            Some(last) if last.segment == segment => last.range.last = seq,
            _ => {
                runs.push_back(Run { range: SeqRange { first: seq, last: seq }, segment });
                *self.held.entry(segment).or_default() += 1;
            }
        }
    }

    /// Messages that lie in these segments are on their way to a queue, which is fed up to an offset with them.
    pub(super) fn send(&mut self, queue: QueueId, upto: u64, segments: Vec<u64>) {
        for segment in &segments {
            *self.held.entry(*segment).or_default() += 1;
        }
        self.has_come(queue, u64::MAX);
        self.under_way.insert(queue, UnderWay { upto, segments });
    }

    /// The messages on their way to a queue that is fed up to this offset have come; `u64::MAX`: whichever were on their
    /// way count no more, as when the queue is gone.
    pub(super) fn has_come(&mut self, queue: QueueId, upto: u64) {
        let is_it = |under_way: &UnderWay| upto == u64::MAX || under_way.upto == upto;
        if self.under_way.get(&queue).is_some_and(is_it)
            && let Some(UnderWay { segments, .. }) = self.under_way.remove(&queue)
        {
            segments.into_iter().for_each(|segment| self.let_go(segment));
        }
    }

    fn let_go(&mut self, segment: u64) {
        if let Some(held) = self.held.get_mut(&segment) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&segment);
            }
        }
    }

    /// A stream lets go of segments: those whose files may go now.
    pub(super) fn doom(&mut self, segments: Vec<u64>) -> Vec<u64> {
        let (kept, gone) =
            segments.into_iter().partition(|segment| self.is_replaying || self.held.contains_key(segment));
        self.doomed.extend::<Vec<u64>>(kept);
        gone
    }

    /// A queue is gone, or was never there.
    pub(crate) fn forget(&mut self, queue: QueueId, at: LogIndex) {
        let runs = self.runs.remove(&queue).unwrap_or_default();
        self.fading.extend(runs.iter().map(|run| (at, run.segment)));
    }

    /// There is a queue some messages of which lie in segments.
    #[inline]
    fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.fading.is_empty() && self.doomed.is_empty()
    }

    /// All segments whose files are needed, whether their streams have them or not.
    pub(super) fn segments(&self) -> impl Iterator<Item = u64> {
        let of_runs = self.runs.values().flatten().map(|run| run.segment);
        of_runs.chain(self.fading.iter().map(|(_, segment)| *segment)).chain(self.doomed.iter().copied())
    }

    /// There is something to be recorded.
    pub(super) fn is_recorded(&self) -> bool {
        !self.runs.is_empty() || !self.doomed.is_empty()
    }

    /// Appends what is recorded.
    ///
    /// ```text
    ///   0        8    16      per run:                    8        per segment:
    ///   | queues | id | runs | first | last | segment ... | doomed | segment ...
    /// ```
    pub(super) fn write(&self, bytes: &mut impl Sink) {
        let mut put = |number: u64| bytes.put(&number.to_le_bytes());
        put(self.runs.len() as u64);
        for (queue, runs) in &self.runs {
            put(queue.0);
            put(runs.len() as u64);
            for Run { range, segment } in runs {
                [range.first.0, range.last.0, *segment].into_iter().for_each(&mut put);
            }
        }
        put(self.doomed.len() as u64);
        self.doomed.iter().copied().for_each(put);
    }

    /// Takes in what [`References::write`] wrote.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Short> {
        for _ in 0..reader.u64_le()? {
            let queue = Some(QueueId(reader.u64_le()?)).filter(|id| *id != NO_QUEUE).ok_or(Short)?;
            for _ in 0..reader.u64_le()? {
                let (first, last) = (QueueSeq(reader.u64_le()?), QueueSeq(reader.u64_le()?));
                let segment = reader.u64_le()?;
                let runs = self.runs.entry(queue).or_default();
                let is_behind = runs.back().is_none_or(|before| before.range.last < first);
                if first > last || !is_behind {
                    return Err(Short);
                }
                runs.push_back(Run { range: SeqRange { first, last }, segment });
                *self.held.entry(segment).or_default() += 1;
            }
        }
        for _ in 0..reader.u64_le()? {
            self.doomed.insert(reader.u64_le()?);
        }
        Ok(())
    }
}
