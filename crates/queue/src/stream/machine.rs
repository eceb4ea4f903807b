//! The machine of a stream: its recorded state, and how a batch of its log becomes a chunk.
//!
//! Messages go into the open chunk; [`Stream::close`] finishes it at the end of the batch, with the batch's time, and so do
//! a chunk's bounds. Offsets, times, bytes and segments thus follow from the log alone.
//! Invariants: offsets are dense; times never go back; chunks that are not written are in memory; a file is removed
//! only while nothing is being written.

use super::chunk::{Chunk, Place};
use super::common::Common;
use super::effect::Effect;
use super::groups::Groups;
use super::offsets::Storing;
use super::readers::Readers;
use super::segments::Segment;
use super::segments::{NewChunk, SegmentEnd, Segments};
use super::settings::{FILE_HEADER_LEN, Settings};
use super::tail::{NewTailChunk, Tail};
use super::tracking::{Sequence, Tracked};
use super::work::{
    Damage, DamageReason, Done, Remove, Sync, SyncDone, SyncFailure, Work, WorkError, Write, WriteDone,
};
use base::Buffer;
use message::chunk::{self, BATCH_HEAD, Entry, Kind, MESSAGE_HEAD, Writer};
use message::record::Owner;
use std::collections::BTreeMap;

/// The term under which chunks are written, while a stream is on one node alone.
pub(super) const EPOCH: u64 = 1;

/// A stream. See the module.
#[derive(Debug)]
pub struct Stream {
    pub(super) settings: Settings,
    pub(super) next_offset: u64,
    pub(super) last_timestamp_ms: i64,
    /// Where the last chunk is, and its first offset.
    pub(super) last_chunk: Option<(Place, u64)>,
    pub(super) segments: Segments,
    pub(super) tracked: Tracked,
    pub(super) tail: Tail,
    pub(super) readers: Readers,
    pub(super) groups: Groups,
    /// The memory of the tail, as [`Common`] knows it.
    tail_counted: usize,
    /// Bytes of the chunk that was closed last: the next one is mostly like it.
    last_len: usize,
    open: Option<Open>,
    disk: Durability,
}

/// The chunk that a batch fills.
#[derive(Debug)]
struct Open {
    buffer: Buffer,
    writer: Writer,
    /// Entries after which the batch goes on with another.
    entries_max: u16,
}

impl Open {
    /// Has as many entries as it may have.
    #[inline(always)]
    fn is_full(&self) -> bool {
        self.writer.entries() >= self.entries_max
    }

    /// There is room for an entry of `len` bytes, by the range of a chunk's counts and so many bytes at most.
    #[inline(always)]
    fn takes(&self, len: usize, bytes_max: usize) -> bool {
        !self.is_full()
            && self.buffer.len() + len <= bytes_max
            && self.writer.has_room(&self.buffer, len.saturating_sub(BATCH_HEAD), u16::MAX)
    }
}

/// State of the files.
#[derive(Debug, Default)]
struct Durability {
    /// A write is under way.
    is_writing: bool,
    syncs: u32,
    /// Segments with bytes that may be lost, and when they changed last.
    dirty: BTreeMap<u64, u64>,
    changes: u64,
    /// Everything below this offset is durable, where it is still there.
    durable_to: u64,
    /// How often the unwritten chunks have gone on elsewhere.
    moves: u32,
    /// Segments that go when nothing is being written.
    leaving: Vec<u64>,
    /// Segments whose files had fewer bytes at the start than they should, and how many; `None`: the file was gone.
    short: BTreeMap<u64, Option<u64>>,
    /// The log is replayed: a missing file may be one that goes later in the replay.
    is_replaying: bool,
    /// A segment with a file that was gone and of which nothing is left, and the offset with which the stream went on.
    gone: Option<(u64, u64)>,
}

/// A message, or a batch of them, as the stream protocol publishes it.
#[derive(Clone, Copy, Debug)]
pub struct Published<'a> {
    /// Its number; not stored if its publisher had one that is not below. Means nothing without a reference.
    pub id: u64,
    /// Empty: none.
    pub filter_value: &'a [u8],
    /// As it is stored.
    pub entry: Entry<'a>,
}

impl Stream {
    /// An empty stream; it has no file yet.
    pub fn new(settings: Settings) -> Stream {
        Stream {
            settings,
            next_offset: 0,
            last_timestamp_ms: i64::MIN,
            last_chunk: None,
            segments: Segments::default(),
            tracked: Tracked::default(),
            tail: Tail::default(),
            readers: Readers::default(),
            groups: Groups::default(),
            tail_counted: 0,
            last_len: 0,
            open: None,
            disk: Durability::default(),
        }
    }

    // ---- recorded

    /// Appends a message in AMQP 1.0 format, whose parts follow each other, at the time of its batch in milliseconds since
    /// 1970, and answers its offset. An empty filter value is none.
    #[inline]
    pub fn push_message(
        &mut self,
        at_ms: i64,
        parts: &[&[u8]],
        filter_value: &[u8],
        common: &mut Common,
        effects: &mut Vec<Effect>,
    ) -> u64 {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let open = self.open_for(at_ms, MESSAGE_HEAD + len, common, effects);
        let offset = u64::from(open.writer.records());
        open.writer.push_parts(&mut open.buffer, parts, filter_value);
        self.next_offset + offset
    }

    /// Appends a publisher's messages, but for those it had sent before. An empty reference is none.
    pub fn publish<'a>(
        &mut self,
        at_ms: i64,
        reference: &[u8],
        messages: impl Iterator<Item = Published<'a>>,
        common: &mut Common,
        effects: &mut Vec<Effect>,
    ) {
        let before = if reference.is_empty() { None } else { self.tracked.sequence(reference) };
        let mut last = before;
        for message in messages {
            if !reference.is_empty() {
                if last.is_some_and(|last| message.id <= last) {
                    continue;
                }
                last = Some(message.id);
            }
            let open = self.open_for(at_ms, message.entry.bytes().len(), common, effects);
            open.writer.push(&mut open.buffer, &message.entry, message.filter_value);
        }
        if let Some(id) = last.filter(|_| last != before) {
            let sequence = Sequence { id, chunk_id: self.next_offset };
            self.tracked.reach(reference, sequence, &common.limits);
        }
    }

    /// Notes how far a consumer of this owner has come, and says whether another was forgotten for it.
    pub fn store_offset(
        &mut self,
        reference: &[u8],
        offset: u64,
        owner: Option<Owner>,
        common: &Common,
    ) -> Storing {
        self.tracked.store(reference, offset, owner, self.first_offset(), &common.limits)
    }

    /// Removes the segments that have no offset from `before` on. Where that is all of them nothing is left, and the
    /// next message goes on with the next offset in a segment of its own.
    pub fn truncate(&mut self, at_ms: i64, before: u64, common: &mut Common, effects: &mut Vec<Effect>) {
        self.close(at_ms, common, effects);
        if before >= self.next_offset && self.segments.last().is_some_and(|last| last.chunks > 0) {
            self.segments.roll(common.take_file(), self.next_offset, self.last_timestamp_ms);
        }
        self.remove_first(self.segments.count_before(before), common, effects);
    }

    /// Changes the settings, and removes segments that are too many under them at this time.
    pub fn configure(
        &mut self,
        now_ms: i64,
        settings: Settings,
        common: &mut Common,
        effects: &mut Vec<Effect>,
    ) {
        self.settings = settings;
        self.retain(now_ms, common, effects);
    }

    /// The batch ends: finishes the open chunk, if there is one, and wakes readers that wait for it.
    pub fn close(&mut self, at_ms: i64, common: &mut Common, effects: &mut Vec<Effect>) {
        let Some(open) = self.open.take() else { return };
        let Open { mut buffer, writer, .. } = open;
        let timestamp_ms = at_ms.max(self.last_timestamp_ms);
        let place = chunk::Place { timestamp_ms, epoch: EPOCH, first_offset: self.next_offset };
        let header = writer.finish(&mut buffer, place, b"");
        let next_offset = self.next_offset + u64::from(header.records);
        if self.segments.is_full(&self.settings, &common.limits) {
            self.segments.roll(common.take_file(), self.next_offset, timestamp_ms);
            // By the clock, and not by the time of the chunk, which the clock may have gone back behind.
            self.retain(at_ms, common, effects);
            self.tracked.trim(self.first_offset(), &common.limits);
        }
        let new = NewChunk { next_offset, timestamp_ms, len: header.stored_len() };
        let (place, indexed) = self.segments.push(new, &common.limits);
        let chunk = Chunk {
            len: buffer.len() as u32,
            memory: buffer.seal(),
            at: 0,
            first_offset: self.next_offset,
            records: header.records,
            bloom_len: header.bloom_len,
        };
        self.last_len = chunk.len as usize;
        self.last_chunk = Some((place, self.next_offset));
        self.last_timestamp_ms = timestamp_ms;
        self.next_offset = next_offset;
        self.tail.push(NewTailChunk { place, chunk, timestamp_ms, indexed }, common);
        self.readers.wake(effects);
    }

    /// The open chunk, with room for an entry of `len` bytes.
    #[inline(always)]
    fn open_for(
        &mut self,
        at_ms: i64,
        len: usize,
        common: &mut Common,
        effects: &mut Vec<Effect>,
    ) -> &mut Open {
        let bytes_max = common.limits.chunk_bytes_max;
        if !self.open.as_ref().is_some_and(|open| open.takes(len, bytes_max)) {
            self.open_next(at_ms, common, effects);
        }
        self.open.as_mut().expect("it is open")
    }

    /// Opens a chunk; one that is open takes no more and is closed.
    #[cold]
    #[inline(never)]
    fn open_next(&mut self, at_ms: i64, common: &mut Common, effects: &mut Vec<Effect>) {
        let mut entries_max = self.settings.chunk_entries_first;
        if let Some(open) = &self.open {
            entries_max = if open.is_full() { open.entries_max.saturating_mul(2) } else { open.entries_max };
            self.close(at_ms, common, effects);
        }
        self.open = Some(self.new_open(entries_max, common));
    }

    #[inline(never)]
    fn new_open(&self, entries_max: u16, common: &mut Common) -> Open {
        let mut buffer = common.take_buffer();
        buffer.reserve(self.last_len);
        let writer = Writer::new(&mut buffer, Kind::User, self.settings.filter_len);
        Open { buffer, writer, entries_max }
    }

    fn retain(&mut self, now_ms: i64, common: &mut Common, effects: &mut Vec<Effect>) {
        self.remove_first(self.segments.count_beyond(&self.settings, now_ms), common, effects);
    }

    fn remove_first(&mut self, count: usize, common: &mut Common, effects: &mut Vec<Effect>) {
        for _ in 0..count {
            if let Some(segment) = self.segments.remove_first() {
                common.forget_segment(segment.number);
                self.disk.dirty.remove(&segment.number);
                self.disk.leaving.push(segment.number);
            }
        }
        let kept = self.segments.first().map_or(u64::MAX, |first| first.number);
        self.tail.forget_before(kept, common);
        self.shrink_tail(common);
        if self.last_chunk.is_some_and(|(place, _)| place.segment < kept) {
            self.last_chunk = None;
        }
        self.let_go(effects);
    }

    // ---- asked

    /// The offset of the next message to come, but for those of a batch that has not ended.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// The first offset there is; the next one, if there is none.
    pub fn first_offset(&self) -> u64 {
        self.segments.first().map_or(self.next_offset, |first| first.first_offset)
    }

    /// The first offset of the last chunk, which is its id, if there is a chunk.
    pub fn last_chunk_id(&self) -> Option<u64> {
        self.last_chunk.map(|(_, first_offset)| first_offset)
    }

    /// The time of the last chunk that was closed, milliseconds since 1970; none: there was none yet.
    pub fn last_timestamp_ms(&self) -> Option<i64> {
        Some(self.last_timestamp_ms).filter(|at_ms| *at_ms > i64::MIN)
    }

    /// The time of the first chunk there is, milliseconds since 1970.
    pub fn first_timestamp_ms(&self) -> Option<i64> {
        let first = self.segments.first()?;
        (first.chunks > 0).then_some(first.first_timestamp_ms)
    }

    /// Messages in it.
    pub fn messages(&self) -> u64 {
        self.next_offset - self.first_offset()
    }

    /// Bytes of its segments.
    pub fn bytes(&self) -> u64 {
        self.segments.bytes()
    }

    /// Bytes from this place on.
    pub fn bytes_from(&self, place: Place) -> u64 {
        let segments = self.segments.iter().rev().take_while(|segment| segment.number >= place.segment);
        segments.fold(0u64, |bytes, segment| {
            let before = if segment.number == place.segment { place.position } else { FILE_HEADER_LEN };
            bytes.saturating_add(segment.bytes.saturating_sub(before))
        })
    }

    /// Its segments, in order.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter()
    }

    /// Its readers.
    pub fn readers(&self) -> usize {
        self.readers.count()
    }

    /// The segment with this number is there.
    pub fn has_segment(&self, number: u64) -> bool {
        self.segments.find(number).is_some()
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The last publishing id of a publisher.
    pub fn sequence(&self, reference: &[u8]) -> Option<u64> {
        self.tracked.sequence(reference)
    }

    /// The offset that a consumer stored.
    pub fn offset(&self, reference: &[u8]) -> Option<u64> {
        self.tracked.offset(reference)
    }

    /// Calls `each` for the offsets that consumers stored.
    pub fn each_offset(&self, mut each: impl FnMut(&[u8], u64)) {
        self.tracked.offsets.iter().for_each(|(reference, stored)| each(reference, stored.offset));
    }

    /// Calls `each` for the last publishing ids of publishers.
    pub fn each_sequence(&self, mut each: impl FnMut(&[u8], u64)) {
        self.tracked.sequences.iter().for_each(|(reference, sequence)| each(reference, sequence.id));
    }

    /// A chunk is open: [`Stream::close`] is to come.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    // ---- disk

    /// Memory in bytes of unwritten chunks. Chunks count for the blocks they occupy, so many small ones count as well.
    pub fn unwritten_bytes(&self) -> usize {
        self.tail.unwritten_bytes()
    }

    /// Bytes that are not written, to be written without making it durable; `None`: nothing, or a write is under way.
    pub fn take_write(&mut self) -> Option<Work> {
        if self.disk.is_writing {
            return None;
        }
        let write = self.tail.unwritten()?;
        self.disk.is_writing = true;
        Some(Work::Write(write))
    }

    /// Work that is needed for all of it to be durable, chunks under way included; `None`: it is. A snapshot of its log
    /// waits for this.
    pub fn take_sync(&mut self) -> Option<Work> {
        let write = self.tail.unwritten();
        if write.is_none() && self.disk.dirty.is_empty() {
            return None;
        }
        let write = write.unwrap_or(Write { pieces: Vec::new(), to: 0 });
        let written = write.pieces.iter().map(|piece| piece.segment);
        let mut segments: Vec<u64> = self.disk.dirty.keys().copied().chain(written).collect();
        segments.sort_unstable();
        segments.dedup();
        self.disk.syncs += 1;
        Some(Work::Sync(Sync { write, segments, stamp: self.disk.changes, end: self.next_offset }))
    }

    /// Takes in the result of some work.
    pub fn done(&mut self, done: Done, common: &mut Common, effects: &mut Vec<Effect>) {
        match done {
            Done::Written(WriteDone { to, segments, result }) => {
                self.disk.is_writing = false;
                // Also where it failed, some may be there.
                self.disk.changes += 1;
                for segment in &segments {
                    if self.segments.find(*segment).is_some() {
                        self.disk.dirty.insert(*segment, self.disk.changes);
                    }
                }
                match result {
                    Ok(()) => {
                        self.tail.note_written(to);
                        self.shrink_tail(common);
                    }
                    Err(WorkError::Missing) => self.begin_anew(&segments, common, effects),
                    Err(_) => {}
                }
                self.let_go(effects);
            }
            Done::Synced(SyncDone { to, stamp, end, written, result }) => {
                self.disk.syncs -= 1;
                match result {
                    Ok(()) => {
                        self.disk.dirty.retain(|_, changed| *changed > stamp);
                        self.disk.durable_to = self.disk.durable_to.max(end);
                        self.tail.note_written(to);
                        self.shrink_tail(common);
                    }
                    Err(SyncFailure::Write(WorkError::Missing)) => {
                        self.begin_anew(&written, common, effects);
                    }
                    Err(_) => {}
                }
                self.let_go(effects);
            }
            Done::Read(done) => {
                self.brought(done, common, effects);
                self.go_on(common, effects);
            }
            Done::Sought(done) => {
                self.sought(done, effects);
                self.go_on(common, effects);
            }
            Done::Removed(_found_and_removed_on_the_next_start) => {}
        }
    }

    /// Everything below this offset is on disk for good, in the segments that are still there: no replay has to make it again.
    pub fn durable_to(&self) -> u64 {
        self.disk.durable_to
    }

    /// How often chunks that were not written have got another place: where one was then, it need not be any more.
    pub fn moves(&self) -> u32 {
        self.disk.moves
    }

    /// All that a snapshot says of it is on disk for good.
    pub(super) fn is_durable_to(&mut self, offset: u64) {
        self.disk.durable_to = offset;
    }

    /// It is deleted: its files go.
    pub fn end(&mut self, common: &mut Common, effects: &mut Vec<Effect>) {
        self.open = None;
        self.remove_first(self.segments.count(), common, effects);
    }

    /// Nothing is under way, and no file is to go any more: after [`Stream::end`], it can be forgotten.
    pub fn is_idle(&self) -> bool {
        !self.disk.is_writing && self.disk.syncs == 0 && self.disk.leaving.is_empty()
    }

    /// After its snapshot was read and before its log is replayed: goes on with the files there are. `len_of` tells the bytes of a
    /// segment's file.
    pub fn recover(&mut self, len_of: impl Fn(u64) -> Option<u64>, common: &mut Common) {
        common.begin_files_behind(self.segments.last().map_or(0, |last| last.number));
        self.disk.is_replaying = true;
        let with_chunks = self.segments.iter().filter(|segment| segment.chunks > 0);
        self.disk.short = with_chunks
            .map(|segment| (segment, len_of(segment.number)))
            .filter(|(segment, len)| len.is_none_or(|len| len < segment.bytes))
            .map(|(segment, len)| (segment.number, len))
            .collect();
    }

    /// The replay is over: tells of a file that was gone, if its messages would be there still.
    pub fn replayed(&mut self, effects: &mut Vec<Effect>) {
        self.disk.is_replaying = false;
        self.tell_gone(effects);
    }

    fn tell_gone(&mut self, effects: &mut Vec<Effect>) {
        if self.disk.is_replaying {
            return;
        }
        // Behind the messages that retention took nobody misses anything.
        if let Some((segment, went_on_at)) = self.disk.gone.take()
            && self.first_offset() <= went_on_at
        {
            let place = Place { segment, position: FILE_HEADER_LEN };
            let reason = DamageReason::Disk(WorkError::Missing);
            effects.push(Effect::Damaged(Damage { place, reason }));
        }
    }

    /// Lets segments go whose files were gone at the start. Retention took them after the snapshot was written, and mostly
    /// does so again in the replay, which has to go the same way as before; but it may be less strict by now. The last one, and
    /// one that the replay added to, are left to [`Stream::begin_anew`].
    pub(super) fn forget_missing(&mut self, common: &mut Common, effects: &mut Vec<Effect>) {
        if self.disk.short.is_empty() {
            return;
        }
        let added_to = self.tail.first_unwritten().map_or(u64::MAX, |unwritten| unwritten.place.segment);
        let is_missing = |segment: &&Segment| {
            segment.number < added_to && self.disk.short.get(&segment.number) == Some(&None)
        };
        let others = self.segments.count().saturating_sub(1);
        let gone = self.segments.iter().take(others).take_while(is_missing).count();
        self.remove_first(gone, common, effects);
    }

    /// The file is gone, or has lost its end, to which chunks would be added: the chunks in memory go on in a new one.
    /// Those that are left in the files stay. `tried`: the segments that could not be written.
    #[cold]
    fn begin_anew(&mut self, tried: &[u64], common: &mut Common, effects: &mut Vec<Effect>) {
        let Some(unwritten) = self.tail.first_unwritten() else { return };
        let (Place { segment: lost, position }, timestamp_ms) = (unwritten.place, unwritten.timestamp_ms);
        let first_offset = unwritten.chunk.first_offset;
        // It goes on elsewhere already when a second write fails.
        if position == FILE_HEADER_LEN || !tried.contains(&lost) {
            return;
        }
        let short = self.disk.short.get(&lost).copied();
        self.disk.moves += 1;
        let bytes = match short {
            Some(left) => left.unwrap_or(0),
            None => position,
        };
        let bytes = bytes.clamp(FILE_HEADER_LEN, position);
        let (chunks, indexed) = self.tail.unwritten_in(lost);
        let end = SegmentEnd { bytes, next_offset: first_offset, timestamp_ms, chunks, indexed };
        for number in self.segments.cut(lost, end) {
            common.forget_segment(number);
            self.disk.dirty.remove(&number);
            self.disk.leaving.push(number);
        }
        self.disk.dirty.remove(&lost);
        self.segments.roll(common.take_file(), first_offset, timestamp_ms);
        let (segments, settings) = (&mut self.segments, &self.settings);
        self.tail.move_unwritten(|new| {
            if segments.is_full(settings, &common.limits) {
                let next_offset = segments.last().map_or(first_offset, |last| last.next_offset);
                segments.roll(common.take_file(), next_offset, new.timestamp_ms);
            }
            segments.push(new, &common.limits)
        });
        self.last_chunk = self.tail.last().map(|last| (last.place, last.chunk.first_offset));
        let last = self.segments.last().map(|last| Place { segment: last.number, position: last.bytes });
        let (tail, next_offset) = (&self.tail, self.next_offset);
        self.readers.moved(lost, |offset| match tail.with_offset(offset) {
            Some(found) => Some(found.place),
            None => last.filter(|_| offset >= next_offset),
        });
        self.forget_missing(common, effects);
        if self.segments.find(lost).is_some() {
            let reason = match short {
                Some(Some(_)) => DamageReason::Short,
                _ => DamageReason::Disk(WorkError::Missing),
            };
            effects.push(Effect::Damaged(Damage { place: Place { segment: lost, position: bytes }, reason }));
        } else {
            self.disk.gone.get_or_insert((lost, first_offset));
            self.tell_gone(effects);
        }
    }

    /// Written chunks stay in memory only while somebody reads, within a bound.
    pub(super) fn shrink_tail(&mut self, common: &mut Common) {
        let bytes_max = if self.readers.count() > 0 { common.tail_room() } else { 0 };
        self.tail.shrink(bytes_max, common);
        let now = self.tail.written_bytes();
        common.count_tail(std::mem::replace(&mut self.tail_counted, now), now);
    }

    /// Files go when nobody writes to them any more: a late write would make them anew.
    fn let_go(&mut self, effects: &mut Vec<Effect>) {
        let is_busy = self.disk.is_writing || self.disk.syncs > 0;
        if !is_busy && !self.disk.leaving.is_empty() {
            let segments = std::mem::take(&mut self.disk.leaving);
            effects.push(Effect::Work(Work::Remove(Remove { segments })));
        }
    }
}
