//! The segments of a stream: which offsets and times each file has, and which of them go.
//!
//! Invariants: numbers rise, offsets go on from each segment to the next, and only the last one grows.

use super::chunk::Place;
use super::limits::Limits;
use super::settings::{FILE_HEADER_LEN, Settings};
use std::collections::VecDeque;

/// A file of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Names its file among those of the log.
    pub number: u64,
    /// The first offset in it.
    pub first_offset: u64,
    /// The offset behind its last.
    pub next_offset: u64,
    /// The time of its first chunk, in milliseconds since 1970.
    pub first_timestamp_ms: i64,
    /// The time of its last chunk.
    pub last_timestamp_ms: i64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Chunks in it.
    pub chunks: u32,
    /// Entries of its index.
    pub indexed: u32,
    /// Where the last chunk of its index begins.
    pub(super) indexed_at: u64,
}

/// A chunk as its segment knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewChunk {
    pub(super) next_offset: u64,
    pub(super) timestamp_ms: i64,
    pub(super) len: u64,
}

/// Where a segment ends that has lost the bytes behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentEnd {
    /// Bytes that are left, its header included.
    pub(super) bytes: u64,
    /// Where the next segment goes on.
    pub(super) next_offset: u64,
    /// Nothing in it is younger.
    pub(super) timestamp_ms: i64,
    /// So many chunks are elsewhere now.
    pub(super) chunks: u32,
    /// So many of those were in its index.
    pub(super) indexed: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Segments {
    list: VecDeque<Segment>,
}

impl Segments {
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.list.iter()
    }

    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    pub(super) fn first(&self) -> Option<&Segment> {
        self.list.front()
    }

    pub(super) fn last(&self) -> Option<&Segment> {
        self.list.back()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.list.iter().fold(0, |bytes, segment| bytes.saturating_add(segment.bytes))
    }

    /// Appends a segment of a snapshot.
    pub(super) fn restore(&mut self, segment: Segment) {
        self.list.push_back(segment);
    }

    /// The next chunk needs another segment.
    pub(super) fn is_full(&self, settings: &Settings, limits: &Limits) -> bool {
        self.last().is_none_or(|last| {
            last.chunks > 0
                && (last.bytes >= self.bytes_max(settings, limits)
                    || last.chunks >= limits.segment_chunks_max)
        })
    }

    /// Bytes with which the last segment is full. A stream set to small ones has them where retention keeps them few,
    /// as in RabbitMQ; else there would be a file for each message, and a start that looks at all of them.
    fn bytes_max(&self, settings: &Settings, limits: &Limits) -> u64 {
        match self.list.len() < limits.small_segments_max {
            true => settings.segment_bytes_max,
            false => settings.segment_bytes_max.max(limits.segment_bytes_min),
        }
    }

    /// Begins a segment.
    pub(super) fn roll(&mut self, number: u64, first_offset: u64, timestamp_ms: i64) {
        assert!(self.last().is_none_or(|last| last.number < number), "numbers of segments rise");
        self.list.push_back(Segment {
            number,
            first_offset,
            next_offset: first_offset,
            first_timestamp_ms: timestamp_ms,
            last_timestamp_ms: timestamp_ms,
            bytes: FILE_HEADER_LEN,
            chunks: 0,
            indexed: 0,
            indexed_at: 0,
        });
    }

    /// Puts a chunk behind the last: where it is and, if the index names it, how many entries that then has.
    pub(super) fn push(&mut self, chunk: NewChunk, limits: &Limits) -> (Place, Option<u32>) {
        let last = self.list.back_mut().expect("a segment was begun");
        let place = Place { segment: last.number, position: last.bytes };
        let is_indexed =
            last.chunks == 0 || place.position / limits.index_bytes != last.indexed_at / limits.index_bytes;
        if is_indexed {
            last.indexed += 1;
            last.indexed_at = place.position;
        }
        last.bytes += chunk.len;
        last.next_offset = chunk.next_offset;
        last.last_timestamp_ms = chunk.timestamp_ms;
        last.chunks += 1;
        (place, is_indexed.then_some(last.indexed))
    }

    /// Ends a segment where its file does, and takes away those behind it, with their numbers as the answer.
    pub(super) fn cut(&mut self, number: u64, end: SegmentEnd) -> Vec<u64> {
        let behind = self.list.partition_point(|segment| segment.number <= number);
        let gone = self.list.drain(behind..).map(|segment| segment.number).collect();
        if let Some(last) = self.list.back_mut().filter(|last| last.number == number) {
            last.bytes = end.bytes;
            last.next_offset = end.next_offset;
            last.last_timestamp_ms = last.last_timestamp_ms.min(end.timestamp_ms);
            // How many are cut off with the file's end nobody knows; without bytes there are none.
            let least = u32::from(end.bytes > FILE_HEADER_LEN);
            last.chunks = if least > 0 { last.chunks.saturating_sub(end.chunks).max(least) } else { 0 };
            last.indexed = last.indexed.saturating_sub(end.indexed).min(last.chunks);
            last.indexed_at = last.indexed_at.min(end.bytes);
        }
        gone
    }

    /// The segment with this number.
    pub(super) fn find(&self, number: u64) -> Option<&Segment> {
        let at = self.list.binary_search_by_key(&number, |segment| segment.number).ok()?;
        self.list.get(at)
    }

    /// Where a reader that stands at `place` finds its next chunk: the segment, with `place` moved there if it was at the
    /// end of one, or in one that is gone. `None`: there is none yet.
    pub(super) fn standing(&self, place: &mut Place) -> Option<&Segment> {
        let mut at = self.list.partition_point(|segment| segment.number < place.segment);
        loop {
            let segment = self.list.get(at)?;
            if segment.number != place.segment {
                // A place before all goes on with the first; the end of the last is where the next one begins.
                *place = Place { segment: segment.number, position: FILE_HEADER_LEN };
            }
            if place.position < segment.bytes {
                return Some(segment);
            }
            if at + 1 == self.list.len() {
                return None;
            }
            at += 1;
        }
    }

    /// The segment with this offset.
    pub(super) fn with_offset(&self, offset: u64) -> Option<&Segment> {
        let behind = self.list.partition_point(|segment| segment.first_offset <= offset);
        self.list.get(behind.checked_sub(1)?).filter(|segment| offset < segment.next_offset)
    }

    /// The first segment with a chunk that is not older.
    pub(super) fn with_timestamp(&self, timestamp_ms: i64) -> Option<&Segment> {
        // Of one in the middle all may be lost, and then its times say nothing: no halving.
        self.list.iter().find(|segment| segment.chunks > 0 && segment.last_timestamp_ms >= timestamp_ms)
    }

    /// Takes the first segment away for good.
    pub(super) fn remove_first(&mut self) -> Option<Segment> {
        self.list.pop_front()
    }

    /// How many segments there are too many at this time. Never the last.
    pub(super) fn count_beyond(&self, settings: &Settings, now_ms: i64) -> usize {
        let Some(others) = self.list.len().checked_sub(1) else { return 0 };
        let mut beyond = 0;
        if let Some(bytes_max) = settings.bytes_max {
            let mut bytes = 0u64;
            let fit = self.list.iter().rev().take_while(|segment| {
                bytes = bytes.saturating_add(segment.bytes);
                bytes <= bytes_max
            });
            beyond = self.list.len() - fit.count();
        }
        if let Some(age_max_ms) = settings.age_max_ms {
            let oldest = now_ms.saturating_sub(i64::try_from(age_max_ms).unwrap_or(i64::MAX));
            let old = self.list.iter().take_while(|segment| segment.last_timestamp_ms < oldest);
            beyond = beyond.max(old.count());
        }
        beyond.min(others)
    }

    /// How many segments have no offset from `before` on. Never the last.
    pub(super) fn count_before(&self, before: u64) -> usize {
        let behind = self.list.iter().take_while(|segment| segment.next_offset <= before).count();
        behind.min(self.list.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_lost_all_in_the_middle_hides_none() {
        let mut segments = Segments::default();
        let limits = Limits::default();
        for number in 0..3u32 {
            segments.roll(number.into(), number.into(), 10 * i64::from(number));
            let chunk = NewChunk {
                next_offset: u64::from(number) + 1,
                timestamp_ms: 10 * i64::from(number),
                len: 100,
            };
            segments.push(chunk, &limits);
        }
        segments.list[1].chunks = 0;
        let found = |timestamp_ms| segments.with_timestamp(timestamp_ms).map(|segment| segment.number);
        assert_eq!(
            [i64::MIN, 0, 1, 10, 20, 21].map(found),
            [Some(0), Some(0), Some(2), Some(2), Some(2), None]
        );
    }
}
