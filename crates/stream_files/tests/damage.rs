//! The files of a stream: found again, read again, and what becomes of them when the disk does its worst.

use base::id::{LogId, QueueId};
use journal::faulty::{Call, Temper};
use journal::{Disk, DiskError, FaultyDisk, FileKind, FileName};
use message::chunk::{Chunk, Filter, Malformed};
use proptest::prelude::*;
use queue::stream::{
    Common, DamageReason, Done, Effect, FILE_HEADER_LEN, From, Limits, NewReader, Next, Settings, Stream,
    SyncFailure, Work, WorkError,
};
use std::collections::{BTreeMap, VecDeque};
use stream_files::{Strays, StreamDone, StreamJob, stream_files};

const LOG: LogId = LogId(3);
const STREAM: QueueId = QueueId(8);

/// A message and its filter value.
type Message = (Vec<u8>, Vec<u8>);

/// A stream, its disk, and the batches that its log has, each with its time.
struct Bench {
    stream: Stream,
    common: Common,
    effects: Vec<Effect>,
    disk: FaultyDisk,
    waiting: VecDeque<Work>,
    log: Vec<(i64, Vec<Message>)>,
    snapshot: Option<Snapshot>,
    damages: Vec<(u64, u64, DamageReason)>,
}

#[derive(Clone)]
struct Snapshot {
    bytes: Vec<u8>,
    next_file: u64,
    batches: usize,
}

/// Some segments, and index entries close together.
const SETTINGS: Settings = Settings {
    filter_len: 16,
    chunk_entries_first: 128,
    segment_bytes_max: 4000,
    bytes_max: None,
    age_max_ms: None,
};

fn limits() -> Limits {
    Limits { index_bytes: 512, ..Limits::default() }
}

impl Bench {
    fn new() -> Bench {
        Bench {
            stream: Stream::new(SETTINGS),
            common: Common::new(limits()),
            effects: Vec::new(),
            disk: FaultyDisk::new(1),
            waiting: VecDeque::new(),
            log: Vec::new(),
            snapshot: None,
            damages: Vec::new(),
        }
    }

    fn batch(&mut self, at_ms: i64, messages: &[Message]) {
        self.log.push((at_ms, messages.to_vec()));
        self.apply(self.log.len() - 1);
    }

    fn apply(&mut self, batch: usize) {
        let (at_ms, messages) = &self.log[batch];
        for (body, value) in messages {
            self.stream.push_message(*at_ms, &[body], value, &mut self.common, &mut self.effects);
        }
        self.stream.close(*at_ms, &mut self.common, &mut self.effects);
    }

    /// Twenty batches of three messages with 116 bytes each: ten chunks of 408 bytes a segment; times 1000, 1010, ...
    fn fill(&mut self) {
        for batch in 0..20u8 {
            let messages = [0, 1, 2].map(|at| (vec![batch * 3 + at; 116], Vec::new()));
            self.batch(1000 + i64::from(batch) * 10, &messages);
        }
    }

    fn carry_out(&mut self, work: Work) -> Done {
        let StreamDone { log, stream, done } = self.job(work);
        assert_eq!((log, stream), (LOG, STREAM));
        done
    }

    fn job(&self, work: Work) -> StreamDone {
        StreamJob { log: LOG, stream: STREAM, work }.carry_out(&self.disk)
    }

    fn take(&mut self) {
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Work(work) => self.waiting.push_back(work),
                Effect::Damaged(damage) => {
                    self.damages.push((damage.place.segment, damage.place.position, damage.reason));
                }
                Effect::Ready(_) | Effect::Active { .. } => {}
            }
        }
    }

    fn settle(&mut self) {
        self.take();
        while let Some(work) = self.waiting.pop_front() {
            let done = self.carry_out(work);
            self.stream.done(done, &mut self.common, &mut self.effects);
            self.take();
        }
    }

    fn write(&mut self) {
        self.waiting.extend(self.stream.take_write());
        self.settle();
    }

    fn sync(&mut self) {
        let sync = self.stream.take_sync();
        self.snapshot = Some(self.snapshot());
        self.waiting.extend(sync);
        self.settle();
        assert!(self.stream.take_sync().is_none());
    }

    fn snapshot(&self) -> Snapshot {
        let mut bytes = Vec::new();
        self.stream.write_snapshot(&mut bytes);
        Snapshot { bytes, next_file: self.common.next_file(), batches: self.log.len() }
    }

    /// The node starts again with what the disk has, and its log, of which nothing is lost.
    fn restart(&mut self) {
        self.waiting.clear();
        self.effects.clear();
        self.common = Common::new(limits());
        self.stream = Stream::new(SETTINGS);
        let mut from = 0;
        if let Some(snapshot) = &self.snapshot {
            self.common.set_next_file(snapshot.next_file);
            self.stream = Stream::read_snapshot(&snapshot.bytes).expect("a snapshot");
            from = snapshot.batches;
        }
        let files = stream_files(&self.disk, LOG).expect("a disk that works");
        self.stream.recover(|segment| files.get(&segment).copied(), &mut self.common);
        let known = self.stream.segments().map(|segment| segment.number).collect();
        let strays =
            Strays::set_aside(&self.disk, &BTreeMap::from([(LOG, known)])).expect("a disk that works");
        (from..self.log.len()).for_each(|batch| self.apply(batch));
        self.stream.replayed(&mut self.effects);
        assert_eq!(strays.end(&self.disk, true, |_| false), Ok(Vec::new()));
        self.settle();
    }

    fn read(&mut self, from: From, filter: Option<Filter>) -> Vec<u64> {
        let new = NewReader { from, filter: filter.map(Box::new), credit: u32::MAX, group: None };
        let reader = self.stream.attach(new, &mut self.common, &mut self.effects);
        self.settle();
        let mut offsets = Vec::new();
        loop {
            let next = self.stream.next(reader, &mut self.common, &mut self.effects);
            let Next::Chunk(chunk) = next else {
                self.take();
                if self.waiting.is_empty() {
                    break;
                }
                self.settle();
                continue;
            };
            let (read, rest) = Chunk::read(chunk.bytes()).expect("a chunk");
            assert!(rest.is_empty());
            assert_eq!((read.check(), read.header.first_offset), (Ok(()), chunk.first_offset));
            offsets.push(chunk.first_offset);
        }
        self.stream.detach(reader, &mut self.common, &mut self.effects);
        offsets
    }

    /// The bytes of the stream's files, as far as they belong to it.
    fn bytes(&self) -> Vec<(u64, Vec<u8>)> {
        let segments = self.stream.segments().map(|segment| {
            let mut bytes = vec![0; segment.bytes as usize];
            let read = self.disk.read_at(chunks(segment.number), 0, &mut bytes).expect("a file");
            assert_eq!(read as u64, segment.bytes);
            (segment.number, bytes)
        });
        segments.collect()
    }
}

fn chunks(segment: u64) -> FileName {
    FileName::of_log(FileKind::Stream, LOG, segment)
}

fn index(segment: u64) -> FileName {
    FileName::of_log(FileKind::StreamIndex, LOG, segment)
}

#[test]
fn a_sync_that_is_given_up_is_owed_again() {
    let mut bench = Bench::new();
    bench.fill();
    let given_up = |work| StreamJob { log: LOG, stream: STREAM, work }.give_up();
    let sync = bench.stream.take_sync().expect("nothing is on disk");
    let done = given_up(sync);
    assert!(!done.is_durable() && !done.lacks_space() && done.failure().is_none());
    bench.stream.done(done.done, &mut bench.common, &mut bench.effects);
    assert_eq!(bench.stream.durable_to(), 0);
    let write = bench.stream.take_write().expect("nothing is written");
    assert!(bench.stream.take_write().is_none(), "one write at a time");
    bench.stream.done(given_up(write).done, &mut bench.common, &mut bench.effects);
    assert!(bench.stream.take_write().is_some());
    bench.sync();
    assert_eq!(bench.stream.durable_to(), 60);
}

#[test]
fn chunks_are_found_in_files() {
    let mut bench = Bench::new();
    bench.fill();
    bench.write();
    assert_eq!(bench.stream.segments().map(|segment| segment.chunks).collect::<Vec<_>>(), [10, 10]);
    for has_index in [true, false] {
        if !has_index {
            for segment in [1, 2] {
                bench.disk.remove(index(segment)).expect("an index");
            }
        }
        for first in (0..60).step_by(3) {
            let expected: Vec<u64> = (first..60).step_by(3).collect();
            for offset in first..first + 3 {
                assert_eq!(bench.read(From::Offset(offset), None), expected, "{offset}");
            }
            let timestamp_ms = 1000 + first as i64 / 3 * 10;
            assert_eq!(bench.read(From::Timestamp(timestamp_ms), None), expected);
            assert_eq!(bench.read(From::Timestamp(timestamp_ms - 9), None), expected);
        }
    }
    assert_eq!(bench.damages, []);
}

/// A chunk of segment 1: where it begins.
const fn at(chunk: u64) -> u64 {
    8 + chunk * 408
}

#[test]
fn damage_is_reported_and_the_rest_served() {
    type Harm = fn(&FaultyDisk);
    let all = || (0..60u64).step_by(3);
    let without = |lost: &[u64]| all().filter(|offset| !lost.contains(offset)).collect::<Vec<_>>();
    let rows: [(&str, Harm, &[u64], &[u64]); 13] = [
        ("a bit of a body", |disk| rot(disk, chunks(1), at(4) + 100), &[at(4)], &[12]),
        (
            "bodies of neighbours",
            |disk| [at(4) + 99, at(5) + 99].into_iter().for_each(|byte| rot(disk, chunks(1), byte)),
            &[at(4), at(5)],
            &[12, 15],
        ),
        // The index has chunks 0, 2, 3, 4, 5, 7, 8 and 9: those that begin first in 512 bytes each.
        ("the magic byte", |disk| rot(disk, chunks(1), at(5)), &[at(5)], &[15, 18]),
        ("the length", |disk| rot(disk, chunks(1), at(3) + 37), &[at(3)], &[9]),
        ("the kind", |disk| assert!(disk.rot(chunks(1), at(5) + 1, 0)), &[at(5)], &[15]),
        ("the offset", |disk| rot(disk, chunks(1), at(6) + 31), &[at(6)], &[18]),
        ("the first offset", |disk| rot(disk, chunks(1), at(0) + 31), &[at(0)], &[0]),
        ("the count of entries", |disk| rot(disk, chunks(1), at(2) + 3), &[at(2)], &[6]),
        ("the count of records", |disk| rot(disk, chunks(1), at(2) + 7), &[at(2)], &[6]),
        ("the last chunk's header", |disk| rot(disk, chunks(1), at(9)), &[at(9)], &[27]),
        ("the first chunk's header", |disk| rot(disk, chunks(1), at(0)), &[at(0)], &[0, 3]),
        ("the file's end", |disk| disk.truncate(chunks(1), at(8) + 60), &[at(8), at(9)], &[24, 27]),
        ("the index", |disk| (16..100).for_each(|byte| rot(disk, index(1), byte)), &[], &[]),
    ];
    for (name, harm, places, lost) in rows {
        let mut bench = Bench::new();
        bench.fill();
        bench.sync();
        harm(&bench.disk);
        assert_eq!(bench.read(From::First, None), without(lost), "{name}");
        let damages: Vec<u64> = bench.damages.iter().map(|(_, position, _)| *position).collect();
        assert_eq!(damages, places, "{name} {:?}", bench.damages);
        assert!(bench.damages.iter().all(|(segment, ..)| *segment == 1));
        for offset in all().filter(|offset| !lost.contains(offset)) {
            let expected: Vec<u64> = without(lost).into_iter().filter(|read| *read >= offset).collect();
            assert_eq!(bench.read(From::Offset(offset), None), expected, "{name} {offset}");
        }
    }
}

fn rot(disk: &FaultyDisk, name: FileName, byte: u64) {
    assert!(disk.rot(name, byte, 6));
}

#[test]
fn what_cannot_be_read_is_tried_again_and_then_passed_over() {
    let mut bench = Bench::new();
    bench.fill();
    bench.sync();
    bench.disk.fail(Call::Read, 1, DiskError::Io(5));
    assert_eq!(bench.read(From::First, None).len(), 20);
    assert_eq!(bench.damages, []);
    let mut bench = Bench::new();
    bench.fill();
    bench.sync();
    bench.disk.ruin(chunks(1), at(5));
    assert_eq!(bench.read(From::First, None), (30..60).step_by(3).collect::<Vec<_>>());
    assert_eq!(bench.damages, [(1, 8, DamageReason::Disk(WorkError::Io(5)))]);
}

#[test]
fn damage_is_named() {
    let mut bench = Bench::new();
    bench.fill();
    bench.sync();
    rot(&bench.disk, chunks(1), at(4));
    rot(&bench.disk, chunks(2), at(1) + 200);
    assert_eq!(bench.read(From::First, None).len(), 18);
    let reasons: Vec<_> =
        bench.damages.iter().map(|(segment, position, reason)| (*segment, *position, *reason)).collect();
    assert!(
        matches!(
            reasons[..],
            [
                (1, first, DamageReason::Chunk(Malformed::NoChunk)),
                (2, second, DamageReason::Chunk(Malformed::Checksum { .. })),
            ] if (first, second) == (at(4), at(1))
        ),
        "{reasons:?}"
    );
}

#[test]
fn a_write_that_fails_is_written_again() {
    let mut bench = Bench::new();
    bench.fill();
    for call in [Call::Create, Call::Write, Call::Write] {
        bench.disk.fail(call, 1, DiskError::NoSpace);
        bench.write();
        assert!(bench.stream.unwritten_bytes() > 0);
    }
    bench.write();
    assert_eq!(bench.stream.unwritten_bytes(), 0);
    assert_eq!(bench.read(From::First, None).len(), 20);
    assert_eq!(bench.damages, []);
}

#[test]
fn a_sync_that_fails_is_the_end() {
    let mut bench = Bench::new();
    bench.fill();
    bench.disk.fail(Call::Write, 1, DiskError::NoSpace);
    let work = bench.stream.take_sync().expect("chunks");
    let done = bench.job(work);
    assert_eq!((done.lacks_space(), done.is_durable(), done.failure()), (true, false, None));
    let StreamDone { done, .. } = done;
    assert!(!done.is_fatal());
    bench.stream.done(done, &mut bench.common, &mut bench.effects);
    for call in [Call::Sync, Call::SyncFolder] {
        bench.disk.fail(call, 1, DiskError::Io(5));
        let work = bench.stream.take_sync().expect("chunks");
        let done = bench.job(work);
        assert_eq!((done.lacks_space(), done.is_durable()), (false, false));
        let StreamDone { done, .. } = done;
        assert!(done.is_fatal());
        let Done::Synced(synced) = &done else { panic!("{done:?}") };
        assert_eq!(synced.result, Err(SyncFailure::Sync(WorkError::Io(5))));
        bench.stream.done(done, &mut bench.common, &mut bench.effects);
    }
    assert!(bench.stream.take_sync().is_some());
}

/// Something happened to files while the node was down; the log goes on in the last of them, and in the next.
#[test]
fn what_is_left_of_files_is_kept_when_the_log_goes_on() {
    type Harm = fn(&FaultyDisk);
    fn remove(disk: &FaultyDisk, segments: &[u64]) {
        segments.iter().for_each(|segment| disk.remove(chunks(*segment)).expect("a file"));
    }
    const CUT: u64 = at(1) + 60;
    let short = (3, CUT, DamageReason::Short);
    let missing = |segment| (segment, FILE_HEADER_LEN, DamageReason::Disk(WorkError::Missing));
    let (header, rest) = ((3, at(1), DamageReason::Chunk(Malformed::Short)), 69..108);
    type Row = (&'static str, Harm, Vec<u64>, Vec<(u64, u64, DamageReason)>, Vec<(u64, u64, DamageReason)>);
    let rows: [Row; 7] = [
        ("nothing", |_| {}, (0..69).collect(), vec![], vec![]),
        ("an end", |disk| disk.truncate(chunks(3), CUT), (0..63).collect(), vec![short], vec![header]),
        ("all bytes", |disk| disk.truncate(chunks(3), 0), (0..60).collect(), vec![(3, 8, short.2)], vec![]),
        ("the last", |disk| remove(disk, &[3]), (0..60).collect(), vec![missing(3)], vec![]),
        ("all", |disk| remove(disk, &[1, 2, 3]), vec![], vec![missing(3)], vec![]),
        (
            "others and an end",
            |disk| {
                remove(disk, &[1, 2]);
                disk.truncate(chunks(3), CUT);
            },
            (60..63).collect(),
            vec![short],
            vec![header],
        ),
        ("the middle", |disk| remove(disk, &[2, 3]), (0..30).collect(), vec![missing(3)], vec![missing(2)]),
    ];
    for (name, harm, left, told, found) in rows {
        for is_synced in [false, true] {
            let mut bench = Bench::new();
            let more = |bench: &mut Bench, batches: std::ops::Range<i64>| {
                batches.for_each(|batch| {
                    let messages = [0, 1, 2].map(|at| (vec![batch as u8 * 3 + at; 116], Vec::new()));
                    bench.batch(1000 + batch * 10, &messages);
                });
            };
            bench.fill();
            more(&mut bench, 20..23);
            bench.sync();
            more(&mut bench, 23..36);
            harm(&bench.disk);
            bench.restart();
            let new = NewReader { from: From::Offset(105), filter: None, credit: 9, group: None };
            let reader = bench.stream.attach(new, &mut bench.common, &mut bench.effects);
            bench.settle();
            let next =
                |bench: &mut Bench| match bench.stream.next(reader, &mut bench.common, &mut bench.effects) {
                    Next::Chunk(chunk) => Some(chunk.first_offset),
                    _ => None,
                };
            assert_eq!((next(&mut bench), next(&mut bench)), (Some(105), None), "{name}");
            for _ in 0..2 {
                if is_synced {
                    bench.waiting.extend(bench.stream.take_sync());
                    bench.settle();
                } else {
                    bench.write();
                }
            }
            assert_eq!(bench.stream.unwritten_bytes(), 0, "{name}");
            assert_eq!(std::mem::take(&mut bench.damages), told, "{name}");
            assert_eq!(next(&mut bench), None, "{name}: nothing comes twice");
            let expected: Vec<u64> = left.iter().copied().chain(rest.clone()).step_by(3).collect();
            for again in [false, true] {
                assert_eq!(bench.read(From::First, None), expected, "{name} {again}");
                assert_eq!(std::mem::take(&mut bench.damages), found, "{name} {again}");
                bench.sync();
                bench.restart();
                assert!(bench.damages.is_empty());
            }
        }
    }
}

#[test]
fn nothing_is_left_of_a_stream_that_ends() {
    let mut bench = Bench::new();
    bench.fill();
    bench.write();
    bench.disk.create(FileName::of_log(FileKind::Stream, LogId(4), 1), 0).expect("room");
    bench.stream.end(&mut bench.common, &mut bench.effects);
    bench.settle();
    assert!(bench.stream.is_idle());
    assert_eq!(bench.disk.list(FileKind::Stream), Ok(vec![FileName::of_log(FileKind::Stream, LogId(4), 1)]));
    assert_eq!(bench.disk.list(FileKind::StreamIndex), Ok(vec![]));
}

#[test]
fn small_matching_chunks_are_found_among_many() {
    let mut bench = Bench::new();
    for batch in 0..3000u32 {
        let value: &[u8] = if batch % 100 == 7 { b"rare" } else { b"plain" };
        bench.batch(batch.into(), &[(vec![0; 12], value.to_vec())]);
    }
    bench.write();
    let expected: Vec<u64> = (7..3000).step_by(100).collect();
    let filter = Filter::new([&b"rare"[..]], false);
    assert_eq!(bench.read(From::First, Some(filter.clone())), expected);
    assert_eq!(bench.read(From::Offset(1500), Some(filter)), expected[15..]);
    assert_eq!(bench.damages, []);
}

#[test]
fn an_altered_offset_is_found_also_where_a_read_begins() {
    let mut bench = Bench::new();
    bench.common = Common::new(Limits { index_bytes: 1 << 20, ..limits() });
    bench.stream = Stream::new(Settings { segment_bytes_max: 1 << 30, ..SETTINGS });
    (0..2000).for_each(|batch| bench.batch(batch, &[(vec![0; 500], Vec::new())]));
    bench.sync();
    let segment = *bench.stream.segments().next().expect("a segment");
    let chunk_len = (segment.bytes - FILE_HEADER_LEN) / 2000;
    for reads_ahead in [true, false] {
        bench.common.read_with(reads_ahead, 64 << 10);
        // The second read begins with the first chunk that is not whole in the first one. The chunks before and behind are as near
        // as they can be: only who knows which one comes next sees that this is another.
        let first = (64 << 10) / chunk_len;
        let lowest = FILE_HEADER_LEN + first * chunk_len + 31;
        let bit = first.trailing_ones() as u8;
        assert!(bench.disk.rot(chunks(1), lowest, bit));
        let expected: Vec<u64> = (0..2000).filter(|offset| *offset != first).collect();
        assert_eq!(bench.read(From::First, None), expected, "{first} read as {}", first + (1 << bit));
        let reason = DamageReason::Order { expected: first, found: first + (1 << bit) };
        assert_eq!(bench.damages, [(1, lowest - 31, reason)], "{reads_ahead}");
        assert!(bench.disk.rot(chunks(1), lowest, bit), "as it was");
        bench.damages.clear();
    }
}

/// The reads of one reader who goes through a stream of small chunks, without what is in memory: bytes of each.
fn reads(reads_ahead: bool) -> Vec<u32> {
    let mut bench = Bench::new();
    bench.stream = Stream::new(Settings { segment_bytes_max: 1 << 30, ..SETTINGS });
    (0..4000).for_each(|batch| bench.batch(batch, &[(vec![0; 500], Vec::new())]));
    bench.write();
    bench.common.read_with(reads_ahead, 1 << 20);
    let chunk_len =
        bench.stream.segments().next().map_or(0, |segment| (segment.bytes - FILE_HEADER_LEN) / 4000);
    let new = NewReader { from: From::First, filter: None, credit: u32::MAX, group: None };
    let reader = bench.stream.attach(new, &mut bench.common, &mut bench.effects);
    let (mut offsets, mut reads) = (Vec::new(), Vec::new());
    while offsets.len() < 4000 {
        if let Next::Chunk(chunk) = bench.stream.next(reader, &mut bench.common, &mut bench.effects) {
            offsets.push(chunk.first_offset);
        }
        bench.take();
        for work in &bench.waiting {
            let Work::Read(read) = work else { continue };
            // A reader that knows the offset needs no index.
            assert_eq!(read.offsets.start, (read.place.position - FILE_HEADER_LEN) / chunk_len);
            reads.push(read.bytes);
        }
        bench.settle();
    }
    assert!(offsets.into_iter().eq(0..4000));
    bench.stream.detach(reader, &mut bench.common, &mut bench.effects);
    assert_eq!(bench.common.loaded_bytes(), 0, "who reads nothing holds nothing");
    reads
}

#[test]
fn who_reads_on_is_read_for_in_larger_pieces() {
    let ahead = reads(true);
    assert_eq!(ahead[..5], [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20]);
    let not_ahead = reads(false);
    assert!(not_ahead.iter().all(|bytes| *bytes == 64 << 10) && not_ahead.len() > 30, "{not_ahead:?}");
}

/// A step of a stream's life.
#[derive(Clone, Debug)]
enum Step {
    Batch(Vec<(usize, u8)>),
    Write,
    Sync,
    Crash(Temper),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let batch = prop::collection::vec((0..700usize, 0..3u8), 0..6).prop_map(Step::Batch);
    let temper = prop::sample::select(vec![Temper::Kill, Temper::LoseAll, Temper::Prefix, Temper::Scatter]);
    let step = prop_oneof![8 => batch, 3 => Just(Step::Write), 2 => Just(Step::Sync), 1 => temper.prop_map(Step::Crash)];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A stream that lost power, whenever and however often, is in the end the one that never did, byte for byte.
    #[test]
    fn a_power_cut_changes_nothing(steps in steps()) {
        let (mut bench, mut steady) = (Bench::new(), Bench::new());
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Batch(messages) => {
                    let messages: Vec<Message> = messages
                        .iter()
                        .map(|(len, value)| (vec![at as u8; *len], [&b""[..], b"a", b"b"][usize::from(*value)].to_vec()))
                        .collect();
                    bench.batch(at as i64, &messages);
                    steady.batch(at as i64, &messages);
                }
                Step::Write => bench.write(),
                Step::Sync => bench.sync(),
                Step::Crash(temper) => {
                    bench.disk.crash_as(*temper);
                    bench.restart();
                }
            }
        }
        for bench in [&mut bench, &mut steady] {
            bench.sync();
        }
        prop_assert_eq!(bench.bytes(), steady.bytes());
        prop_assert_eq!(bench.snapshot().bytes, steady.snapshot().bytes);
        prop_assert_eq!(bench.read(From::First, None), steady.read(From::First, None));
        prop_assert!(bench.damages.is_empty() && steady.damages.is_empty());
    }

    /// With any bytes in the files, reading ends, and its result is whole chunks in order.
    #[test]
    fn any_bytes_in_files(
        harms in prop::collection::vec((1..3u64, any::<bool>(), 0..4200u64, 0..8u8), 0..60),
        cut in prop::option::of(0..4200u64),
        offset in 0..70u64,
        is_filtered in any::<bool>(),
    ) {
        let mut bench = Bench::new();
        bench.fill();
        bench.sync();
        for (segment, is_index, byte, bit) in harms {
            let name = if is_index { index(segment) } else { chunks(segment) };
            bench.disk.rot(name, byte, bit);
        }
        if let Some(len) = cut {
            bench.disk.truncate(chunks(1), len);
        }
        let filter = is_filtered.then(|| Filter::new([&b"a"[..]], true));
        for from in [From::First, From::Offset(offset), From::Timestamp(1000 + offset as i64 * 3)] {
            let read = bench.read(from, filter.clone());
            prop_assert!(read.is_sorted_by(|first, second| first < second), "{read:?}");
            prop_assert!(read.iter().all(|offset| *offset < 60));
        }
    }
}
