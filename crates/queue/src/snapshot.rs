//! The recorded state of a queue as bytes: `docs/formats/queue-snapshot.md`.
//!
//! The same state gives the same bytes, whatever way it came about. Reading takes any bytes; the queue that it makes
//! costs at most 32 times their number.

use crate::delivery::Counts;
use crate::features::Features;
use crate::fifo::Fifo;
use crate::live::Live;
use crate::places::Run;
use crate::prior_failures::PriorFailures;
use crate::sections::{ANNOTATIONS, BARRIERS, DUES, GROUPS, SECTIONS, UNWEIGHED, WINDOW};
use crate::settings::Settings;
use crate::snapshot_fields::{SnapshotError, put, put_ranges, read_ranges, read_varint};
use base::cursor::Reader;
use base::id::{LogIndex, QueueSeq};
use base::ranges::Range;
use base::{Sink, put_varint};

/// First bytes of every snapshot.
const MAGIC: [u8; 4] = *b"LvQs";

/// The highest version this knows. A queue that needs less is written as less, so that it reads as it always did.
pub const VERSION: u8 = 7;

/// The version of queues with sizes of all messages, and without barriers.
const VERSION_UNWEIGHED: u8 = 6;

/// The version of queues without features.
const VERSION_PLAIN: u8 = 1;

/// The version of queues with groups, and without sizes of all messages.
const VERSION_GROUPS: u8 = 5;

/// The version of queues with a window and without groups.
const VERSION_WINDOW: u8 = 4;

/// The version of queues with delayed or annotated messages and without a window.
const VERSION_DELAYED: u8 = 3;

/// The version of queues with features that were there before messages could be delayed.
const VERSION_UNDELAYED: u8 = 2;

const FLAG_COUNTS: u32 = 1;

impl Fifo {
    /// Appends the recorded state to `out`.
    pub fn write_snapshot(&self, out: &mut impl Sink) {
        self.write_line(out);
        put(out, self.places.runs().len() as u64);
        for run in self.places.runs() {
            [run.first.0, run.last.0, run.segment, run.offset]
                .into_iter()
                .for_each(|number| put(out, number));
            out.put(&run.count.to_le_bytes());
            out.put(&run.len.to_le_bytes());
        }
        self.write_counts(out);
        self.write_places(LogIndex(0), out);
        self.features.iter().for_each(|features| features.write_sections(&self.line, out));
    }

    /// Appends what is the same in each replica that applied the same records, whatever it was besides: an owner any
    /// number of times, or none. As [`Fifo::write_snapshot`], but without blocks of segments, which a node makes by
    /// itself and at its own time; and without the places of messages before `from`, which it forgets in doing so.
    /// Where nothing from `from` on was moved out in two replicas, their bytes are the same.
    pub fn write_canonical(&self, from: LogIndex, out: &mut impl Sink) {
        self.write_line(out);
        self.write_counts(out);
        self.write_places(from, out);
        self.features.iter().for_each(|features| features.write_sections(&self.line, out));
    }

    fn write_line(&self, out: &mut impl Sink) {
        out.put(&MAGIC);
        let sections = self.features.as_ref().map_or(0, |features| features.sections(&self.line));
        out.put(&[version_of(sections)]);
        let flags = sections | if self.line.returns.counts() { FLAG_COUNTS } else { 0 };
        out.put(&flags.to_le_bytes()[..3]);
        put(out, self.line.live.head());
        put(out, self.line.live.next_seq());
        put_ranges(out, self.line.live.settled());
        put_ranges(out, self.line.live.transient());
    }

    fn write_counts(&self, out: &mut impl Sink) {
        let features = self.features.as_ref().filter(|_| self.line.returns.counts());
        let prior = features.map_or(0, |features| features.prior.len());
        put(out, self.line.returns.recorded_len() + prior);
        for (seq, counts) in self.all_counts() {
            put(out, seq);
            out.put(&counts.delivery_count.to_le_bytes());
            out.put(&counts.acquired_count.to_le_bytes());
        }
    }

    /// The places in the log from `from` on of live messages.
    fn write_places(&self, from: LogIndex, out: &mut impl Sink) {
        let mut before = 0;
        let places = self.live_below(LogIndex(u64::MAX)).map(|(_, place)| place);
        for place in places.filter(|place| *place >= from) {
            put_varint(out, place.0.wrapping_sub(before));
            before = place.0;
        }
    }

    /// The queue of a snapshot by [`Fifo::write_snapshot`]; everything live in it is ready.
    pub fn read_snapshot(bytes: &[u8]) -> Result<Fifo, SnapshotError> {
        let mut reader = Reader::new(bytes);
        if reader.take(4)? != MAGIC {
            return Err(SnapshotError::Magic);
        }
        let version = reader.u8()?;
        if !(VERSION_PLAIN..=VERSION).contains(&version) {
            return Err(SnapshotError::Version(version));
        }
        let flags = u32::from(reader.u8()?) | u32::from(reader.u16_le()?) << 8;
        let sections = flags & !FLAG_COUNTS;
        let is_known = sections & !SECTIONS == 0 && version == version_of(sections);
        if !is_known {
            return Err(SnapshotError::Broken("flags"));
        }
        let mut fifo = Fifo::new(Settings::plain(flags & FLAG_COUNTS != 0));
        let (head, next_seq) = (reader.u64_le()?, reader.u64_le()?);
        fifo.line.live = Live::of(head, next_seq).ok_or(SnapshotError::Broken("head"))?;
        // Neither the head nor the next position is among the settled: they would have been folded in.
        let settled = read_ranges(&mut reader, head + 1, next_seq, "settled")?;
        let transient = read_ranges(&mut reader, head, next_seq, "transient")?;
        if !fifo.line.live.fill(settled, transient) {
            return Err(SnapshotError::Broken("transient"));
        }
        fifo.read_runs(&mut reader)?;
        fifo.read_counts(&mut reader)?;
        fifo.read_places(&mut reader)?;
        if sections != 0 {
            fifo.features = Some(Box::new(Features::read_sections(sections, &fifo.line, &mut reader)?));
        }
        fifo.read_prior_failures();
        fifo.begin();
        if reader.is_empty() { Ok(fifo) } else { Err(SnapshotError::Long) }
    }

    /// All counts of messages, in order of position: the recorded numbers of returns and failures.
    fn all_counts(&self) -> impl Iterator<Item = (u64, Counts)> + '_ {
        let features = self.features.as_ref().filter(|_| self.line.returns.counts());
        let mut prior = features.into_iter().flat_map(|features| features.prior.iter()).peekable();
        let mut recorded = self.line.returns.all_recorded().peekable();
        std::iter::from_fn(move || match (recorded.peek(), prior.peek()) {
            (Some((seq, _)), Some((of, _))) if seq > of => prior.next(),
            (None, _) => prior.next(),
            _ => recorded.next(),
        })
    }

    /// Of the counts that were read those are taken out which say how often messages failed before they came.
    fn read_prior_failures(&mut self) {
        let Fifo { line, features, .. } = self;
        let annotations = features.as_ref().map(|features| &features.annotations);
        let is_annotated = |seq: u64| annotations.is_some_and(|annotations| annotations.has(seq));
        let prior = PriorFailures::take_from(&mut line.returns, is_annotated);
        if !prior.is_empty() {
            let settings = Settings::plain(line.returns.counts());
            features.get_or_insert_with(|| Box::new(Features::new(settings))).prior = prior;
        }
    }

    fn read_runs(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let mut above = 0;
        for _ in 0..reader.u64_le()? {
            let [first, last, segment, offset] =
                [reader.u64_le()?, reader.u64_le()?, reader.u64_le()?, reader.u64_le()?];
            let run = Run {
                first: QueueSeq(first),
                last: QueueSeq(last),
                segment,
                offset,
                count: reader.u32_le()?,
                len: reader.u32_le()?,
            };
            let is_in_order = above <= first
                && first <= last
                && self.line.live.head() <= last
                && last < self.line.live.next_seq();
            if !is_in_order {
                return Err(SnapshotError::Broken("runs"));
            }
            let live = Range { first: first.max(self.line.live.head()), last };
            let live = live.len() - self.line.live.settled().count_within(live);
            if live == 0 || u64::from(run.count) < live {
                return Err(SnapshotError::Broken("runs"));
            }
            self.places.push_run(run, live);
            above = last + 1;
        }
        Ok(())
    }

    fn read_counts(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let mut above = self.line.live.head();
        let entries = reader.u64_le()?;
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..entries {
            let seq = reader.u64_le()?;
            let counted = Counts { delivery_count: reader.u32_le()?, acquired_count: reader.u32_le()? };
            if seq < above || !self.is_live(QueueSeq(seq)) {
                return Err(SnapshotError::Broken("counts"));
            }
            counts.insert(seq, counted);
            above = seq + 1;
        }
        if self.line.returns.fill(counts) { Ok(()) } else { Err(SnapshotError::Broken("counts")) }
    }

    /// Places of the live positions behind the runs; those between runs cannot be.
    fn read_places(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let mut in_runs = 0;
        let mut logs_from = self.line.live.head();
        for run in self.places.runs() {
            let range = Range { first: run.first.0.max(self.line.live.head()), last: run.last.0 };
            in_runs += range.len() - self.line.live.settled().count_within(range);
            logs_from = run.last.0 + 1;
        }
        if logs_from > self.line.live.head() {
            let moved = Range { first: self.line.live.head(), last: logs_from - 1 };
            if moved.len() - self.line.live.settled().count_within(moved) != in_runs {
                return Err(SnapshotError::Broken("runs"));
            }
        }
        if logs_from == self.line.live.next_seq() {
            return Ok(());
        }
        let mut place = 0u64;
        for part in
            self.line.live.settled().gaps(Range { first: logs_from, last: self.line.live.next_seq() - 1 })
        {
            for seq in part.first..=part.last {
                let delta = read_varint(reader, "places")?;
                // There is a record behind each: none is at the last index there could be.
                let next = place.checked_add(delta).filter(|next| *next < u64::MAX);
                place = next.ok_or(SnapshotError::Broken("places"))?;
                self.places.push(seq, LogIndex(place));
            }
        }
        Ok(())
    }
}

/// The least version that has these sections.
fn version_of(sections: u32) -> u8 {
    match sections {
        0 => VERSION_PLAIN,
        sections if sections & BARRIERS != 0 => VERSION,
        sections if sections & UNWEIGHED != 0 => VERSION_UNWEIGHED,
        sections if sections & (DUES | ANNOTATIONS | WINDOW | GROUPS) == 0 => VERSION_UNDELAYED,
        sections if sections & (WINDOW | GROUPS) == 0 => VERSION_DELAYED,
        sections if sections & GROUPS == 0 => VERSION_WINDOW,
        _ => VERSION_GROUPS,
    }
}
