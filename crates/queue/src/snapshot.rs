//! The recorded state of a queue as bytes: `docs/formats/queue-snapshot.md`.
//!
//! The same state gives the same bytes, whatever way it came about. Reading takes any bytes; what it makes costs at most
//! 32 times their number.

use crate::delivery::Counts;
use crate::fifo::Fifo;
use crate::live::Live;
use crate::places::Run;
use crate::sections::{ANNOTATIONS, DUES, GROUPS, SECTIONS, UNWEIGHED, WINDOW};
use crate::settings::Settings;
use base::cursor::{Reader, Short};
use base::id::{LogIndex, QueueSeq};
use base::ranges::{Range, RangeSet};
use base::{Sink, put_varint};

/// First bytes of every snapshot.
const MAGIC: [u8; 4] = *b"LvQs";

/// The highest version this knows. What needs less is written as less, so that it reads as it always did.
pub const VERSION: u8 = 6;

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

/// Why bytes are no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// They do not begin as one.
    Magic,
    /// Of a version this program does not know.
    Version(u8),
    /// They end early.
    Short,
    /// Bytes follow that belong to nothing.
    Long,
    /// They contradict themselves, in the part named.
    Broken(&'static str),
}

impl std::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SnapshotError::Magic => f.write_str("not a queue snapshot"),
            SnapshotError::Version(version) => write!(f, "queue snapshot of unknown version {version}"),
            SnapshotError::Short => f.write_str("queue snapshot ends early"),
            SnapshotError::Long => f.write_str("queue snapshot is followed by other bytes"),
            SnapshotError::Broken(part) => write!(f, "queue snapshot contradicts itself: {part}"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<Short> for SnapshotError {
    fn from(_: Short) -> SnapshotError {
        SnapshotError::Short
    }
}

impl Fifo {
    /// Appends the recorded state to `out`.
    pub fn write_snapshot(&self, out: &mut impl Sink) {
        out.put(&MAGIC);
        let sections = self.sections();
        out.put(&[version_of(sections)]);
        let flags = sections | if self.line.returns.counts() { FLAG_COUNTS } else { 0 };
        out.put(&flags.to_le_bytes()[..3]);
        put(out, self.line.live.head());
        put(out, self.line.live.next_seq());
        put_ranges(out, self.line.live.settled());
        put_ranges(out, self.line.live.transient());
        put(out, self.places.runs().len() as u64);
        for run in self.places.runs() {
            [run.first.0, run.last.0, run.segment, run.offset]
                .into_iter()
                .for_each(|number| put(out, number));
            out.put(&run.count.to_le_bytes());
            out.put(&run.len.to_le_bytes());
        }
        let tried = self.features.as_ref().map_or(0, |features| features.tried.count());
        put(out, self.line.returns.recorded_len() + if self.line.returns.counts() { tried } else { 0 });
        for (seq, counts) in self.all_counts() {
            put(out, seq);
            out.put(&counts.delivery_count.to_le_bytes());
            out.put(&counts.acquired_count.to_le_bytes());
        }
        let mut before = 0;
        for (_, place) in
            self.places.live_below(LogIndex(u64::MAX), self.line.live.head(), self.line.live.settled())
        {
            put_varint(out, place.0.wrapping_sub(before));
            before = place.0;
        }
        self.write_sections(out);
    }

    /// The queue whose recorded state [`Fifo::write_snapshot`] wrote; everything live in it is ready.
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
        fifo.read_sections(sections, &mut reader)?;
        fifo.read_tried();
        fifo.begin();
        if reader.is_empty() { Ok(fifo) } else { Err(SnapshotError::Long) }
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
        sections if sections & UNWEIGHED != 0 => VERSION,
        sections if sections & (DUES | ANNOTATIONS | WINDOW | GROUPS) == 0 => VERSION_UNDELAYED,
        sections if sections & (WINDOW | GROUPS) == 0 => VERSION_DELAYED,
        sections if sections & GROUPS == 0 => VERSION_WINDOW,
        _ => VERSION_GROUPS,
    }
}

pub(crate) fn put(out: &mut impl Sink, number: u64) {
    out.put(&number.to_le_bytes());
}

pub(crate) fn put_ranges(out: &mut impl Sink, set: &RangeSet) {
    put(out, set.ranges_count() as u64);
    for range in set.iter() {
        put(out, range.first);
        put(out, range.last);
    }
}

/// Ranges within `from..end`, in order and apart.
pub(crate) fn read_ranges(
    reader: &mut Reader<'_>,
    from: u64,
    end: u64,
    part: &'static str,
) -> Result<RangeSet, SnapshotError> {
    let mut set = RangeSet::new();
    let mut above = from;
    for _ in 0..reader.u64_le()? {
        let (first, last) = (reader.u64_le()?, reader.u64_le()?);
        if first < above || last < first || last >= end {
            return Err(SnapshotError::Broken(part));
        }
        set.insert(Range { first, last });
        // The next does not touch this one.
        above = last + 2;
    }
    Ok(set)
}

/// What [`put_varint`] wrote.
pub(crate) fn read_varint(reader: &mut Reader<'_>, part: &'static str) -> Result<u64, SnapshotError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = reader.u8()?;
        let bits = u64::from(byte & 0x7f);
        if (bits << shift) >> shift != bits {
            break;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(SnapshotError::Broken(part))
}
