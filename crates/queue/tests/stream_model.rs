//! A stream against the plainest model of one: a list of messages of which some at the front are gone.
//!
//! In any order of events, offsets are dense, every reader gets every message from where it began, once and in order,
//! but for messages that retention took and those that its filter does not want; and a restart from a snapshot and the
//! log after it leads to the same state, byte for byte. So does the log alone, where nobody reads and files have other
//! numbers, but for these.

use crate::stream_files;

use message::chunk::{Chunk, Content, Filter};
use message::record::Owner;
use proptest::prelude::*;
use queue::stream::{From, Limits, NewReader, Next, ReaderId, Settings, Storing, Stream, Work};
use std::collections::BTreeMap;
use stream_files::Bench;

const REFERENCES: [&[u8]; 3] = [b"one", b"two", b"three"];
const VALUES: [&[u8]; 4] = [b"", b"red", b"green", b"blue"];

/// An entry of a batch.
#[derive(Clone, Debug)]
enum Part {
    Message { len: usize, value: usize },
    Publish { reference: usize, ids: Vec<u64>, value: usize },
    Track { reference: usize, offset: u64 },
}

/// An entry of the log.
#[derive(Clone, Debug)]
enum Record {
    Message {
        body: Vec<u8>,
        value: usize,
    },
    Publish {
        reference: usize,
        messages: Vec<(u64, Vec<u8>)>,
        value: usize,
    },
    Track {
        reference: usize,
        offset: u64,
    },
    Truncate(u64),
    Configure(Settings),
    /// The batch ends at this time.
    End(i64),
}

#[derive(Clone, Debug)]
enum Step {
    Batch(Vec<Part>),
    Truncate(u64),
    Configure { bytes_max: Option<u64>, age_max_ms: Option<u64>, segment_bytes_max: u64 },
    Write,
    Sync,
    Work(usize),
    Restart,
    Attach { from: From, wanted: Option<(usize, bool)>, credit: u32 },
    Read { reader: usize, credit: u32 },
    Detach(usize),
}

/// A reader and the model's knowledge of it.
struct Known {
    id: ReaderId,
    wanted: Option<(usize, bool)>,
    /// Everything it gets is from here on.
    next: u64,
    /// It stood behind the last message when it came.
    from: From,
    has_read: bool,
}

struct Model {
    bench: Bench,
    /// Filter values by offset.
    values: Vec<usize>,
    bodies: Vec<Vec<u8>>,
    sequences: BTreeMap<usize, u64>,
    offsets: BTreeMap<usize, u64>,
    log: Vec<Record>,
    /// Snapshot, next file, records before it.
    snapshot: Option<(Vec<u8>, u64, usize)>,
    settings: Settings,
    readers: Vec<Known>,
    now_ms: i64,
}

fn limits() -> Limits {
    Limits {
        tail_bytes_max: 20_000,
        loaded_bytes_max: 30_000,
        read_bytes_min: 500,
        read_bytes_max: 4000,
        index_bytes: 600,
        reads_max: 2,
        ..Limits::default()
    }
}

fn settings() -> Settings {
    Settings { segment_bytes_max: 1500, chunk_entries_first: 4, ..Settings::default() }
}

impl Model {
    fn new() -> Model {
        Model {
            bench: Bench::new(settings(), limits()),
            values: Vec::new(),
            bodies: Vec::new(),
            sequences: BTreeMap::new(),
            offsets: BTreeMap::new(),
            log: Vec::new(),
            snapshot: None,
            settings: settings(),
            readers: Vec::new(),
            now_ms: 0,
        }
    }

    fn message(&mut self, len: usize, value: usize) -> Vec<u8> {
        let mut body = (self.values.len() as u64).to_be_bytes().to_vec();
        body.resize(8 + len, 7);
        self.values.push(value);
        self.bodies.push(body.clone());
        body
    }

    fn record(&mut self, record: Record) {
        apply(&mut self.bench, &record);
        self.log.push(record);
    }

    fn batch(&mut self, parts: &[Part]) {
        self.now_ms += 10;
        for part in parts {
            let record = match part {
                Part::Message { len, value } => {
                    Record::Message { body: self.message(*len, *value), value: *value }
                }
                Part::Publish { reference, ids, value } => {
                    let messages = ids.iter().map(|id| {
                        let is_new = self.sequences.get(reference).is_none_or(|last| id > last);
                        if is_new {
                            self.sequences.insert(*reference, *id);
                            (*id, self.message(3, *value))
                        } else {
                            (*id, b"seen before".to_vec())
                        }
                    });
                    Record::Publish { reference: *reference, messages: messages.collect(), value: *value }
                }
                Part::Track { reference, offset } => {
                    self.offsets.insert(*reference, *offset);
                    Record::Track { reference: *reference, offset: *offset }
                }
            };
            self.record(record);
        }
        self.record(Record::End(self.now_ms));
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Batch(parts) => self.batch(parts),
            Step::Truncate(before) => self.record(Record::Truncate(*before)),
            Step::Configure { bytes_max, age_max_ms, segment_bytes_max } => {
                self.settings = Settings {
                    bytes_max: *bytes_max,
                    age_max_ms: *age_max_ms,
                    segment_bytes_max: *segment_bytes_max,
                    ..self.settings
                };
                self.record(Record::Configure(self.settings));
            }
            Step::Write => {
                let write = self.bench.stream.take_write();
                self.bench.files.waiting.extend(write);
            }
            Step::Sync => {
                // A snapshot counts when it is durable.
                let sync = self.bench.stream.take_sync();
                let snapshot = (self.bytes(), self.bench.common.next_file(), self.log.len());
                self.bench.files.waiting.extend(sync);
                self.bench.settle();
                self.snapshot = Some(snapshot);
            }
            Step::Work(count) => {
                self.bench.files.take(&mut self.bench.effects);
                for _ in 0..*count {
                    let Bench { stream, common, effects, files } = &mut self.bench;
                    files.work(stream, common, effects);
                }
            }
            Step::Restart => self.restart(),
            Step::Attach { from, wanted, credit } => self.attach(*from, *wanted, *credit),
            Step::Read { reader, credit } => {
                if let Some(at) = reader.checked_rem(self.readers.len()) {
                    self.bench.stream.credit(self.readers[at].id, *credit as i32);
                    self.read(at, false);
                }
            }
            Step::Detach(reader) => {
                if let Some(at) = reader.checked_rem(self.readers.len()) {
                    let known = self.readers.swap_remove(at);
                    let Bench { stream, common, effects, .. } = &mut self.bench;
                    stream.detach(known.id, common, effects);
                }
            }
        }
        self.bench.files.take(&mut self.bench.effects);
        self.check();
    }

    fn attach(&mut self, from: From, wanted: Option<(usize, bool)>, credit: u32) {
        let (first, end) = (self.bench.stream.first_offset(), self.bench.stream.next_offset());
        let filter = wanted.map(|(value, unfiltered)| Box::new(Filter::new([VALUES[value]], unfiltered)));
        let Bench { stream, common, effects, .. } = &mut self.bench;
        let id = stream.attach(NewReader { from, filter, credit, group: None }, common, effects);
        let next = match from {
            From::First => first,
            From::Next => end,
            From::Offset(offset) => offset.clamp(first, end),
            From::LastMessages(count) => end.saturating_sub(count).max(first),
            From::Last => stream.last_chunk_id().unwrap_or(end),
            From::Timestamp(_) => end,
        };
        self.readers.push(Known { id, wanted, next, from, has_read: false });
    }

    /// Reads the messages at hand without doing any work of the disk, or all of it.
    fn read(&mut self, at: usize, all: bool) {
        loop {
            let known = &mut self.readers[at];
            let Bench { stream, common, effects, files } = &mut self.bench;
            let next = stream.next(known.id, common, effects);
            files.take(effects);
            let chunk = match next {
                Next::Chunk(chunk) => chunk,
                Next::Wait if all && files.work(stream, common, effects) => continue,
                Next::Wait | Next::NoCredit => return,
            };
            let (read, rest) = Chunk::read(chunk.bytes()).expect("a chunk");
            assert!(rest.is_empty());
            assert_eq!((read.check(), read.header.first_offset), (Ok(()), chunk.first_offset));
            // Its first chunk may begin before the offset it wants; its time is only known from the chunk.
            if !known.has_read {
                if let From::Timestamp(timestamp_ms) = known.from {
                    assert!(read.header.timestamp_ms >= timestamp_ms || chunk.first_offset >= known.next);
                    known.next = chunk.first_offset;
                }
                if chunk.first_offset <= known.next {
                    assert!(known.next < chunk.next_offset());
                    known.next = chunk.first_offset;
                }
            }
            known.has_read = true;
            assert!(known.next <= chunk.first_offset, "nothing comes twice");
            let first = stream.first_offset();
            for passed in known.next.max(first)..chunk.first_offset {
                let (value, unfiltered) = known.wanted.expect("without a filter nothing is left out");
                let has = self.values[passed as usize];
                assert!(has != value && (has != 0 || !unfiltered), "what is wanted is not left out");
            }
            for (entry, offset) in read.entries().zip(chunk.first_offset..) {
                let entry = entry.expect("an entry");
                assert_eq!(entry.content(), Content::Message(&self.bodies[offset as usize]));
            }
            known.next = chunk.next_offset();
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.bench.stream.write_snapshot(&mut bytes);
        bytes
    }

    /// The process is killed: bytes in files stay, work that waits does not.
    fn restart(&mut self) {
        let before = self.bytes();
        let files = self.bench.files.files.clone();
        self.readers.clear();
        self.bench = Bench::new(settings(), limits());
        self.bench.files.files = files;
        let mut from = 0;
        if let Some((bytes, next_file, records)) = &self.snapshot {
            from = *records;
            self.bench.common.set_next_file(*next_file);
            self.bench.stream = Stream::read_snapshot(bytes).expect("what was written");
        }
        let Bench { stream, common, files, .. } = &mut self.bench;
        stream.recover(|segment| files.files.get(&segment).map(|file| file.len() as u64), common);
        files.files.retain(|number, _| stream.segments().any(|segment| segment.number == *number));
        for record in &self.log[from..] {
            apply(&mut self.bench, record);
        }
        self.bench.settle();
        assert_eq!(self.bytes(), before);
    }

    fn check(&self) {
        let (stream, common) = (&self.bench.stream, &self.bench.common);
        assert_eq!(stream.next_offset(), self.values.len() as u64);
        assert_eq!(stream.messages(), stream.next_offset() - stream.first_offset());
        for (at, reference) in REFERENCES.iter().enumerate() {
            assert_eq!(stream.sequence(reference), self.sequences.get(&at).copied());
            match (stream.offset(reference), self.offsets.get(&at)) {
                (None, Some(stored)) => assert!(*stored < stream.first_offset()),
                (offset, stored) => assert_eq!(offset, stored.copied()),
            }
        }
        // Memory to be read into again is half as much.
        assert!(common.loaded_bytes() <= common.limits().loaded_bytes_max * 3 / 2);
        assert_eq!(stream.readers(), self.readers.len());
        let waiting = self.bench.files.waiting.iter();
        let reads = waiting.filter(|work| matches!(work, Work::Read(_) | Work::Seek(_))).count();
        assert!(reads <= common.limits().reads_max, "{reads} are under way");
    }

    /// Another node has the log, and nothing but the log.
    fn check_replica(&self) {
        let mut replica = Bench::new(settings(), limits());
        replica.common.set_next_file(1000);
        self.log.iter().for_each(|record| apply(&mut replica, record));
        let [ours, theirs] = [&self.bench.stream, &replica.stream].map(|stream| {
            let mut bytes = Vec::new();
            stream.write_canonical(&mut bytes);
            bytes
        });
        assert_eq!(ours, theirs);
    }

    /// In the end everybody gets everything.
    fn end(mut self) {
        self.check_replica();
        self.bench.settle();
        let write = self.bench.stream.take_write();
        self.bench.files.waiting.extend(write);
        self.bench.settle();
        assert_eq!(self.bench.stream.unwritten_bytes(), 0);
        self.attach(From::First, None, 0);
        for at in 0..self.readers.len() {
            self.bench.stream.credit(self.readers[at].id, 1_000_000);
            self.read(at, true);
            let known = &self.readers[at];
            let end = self.bench.stream.next_offset();
            match known.wanted {
                None => {
                    // Messages that are gone it need not have seen.
                    let next = known.next.max(self.bench.stream.first_offset());
                    assert!(next == end, "{next} of {end}");
                }
                Some((value, unfiltered)) => {
                    let first = known.next.max(self.bench.stream.first_offset());
                    // One that begins by time, and found nothing, wants nothing before the end.
                    let first = if known.has_read { first } else { first.max(known.next) };
                    let rest = &self.values[first.min(end) as usize..];
                    assert!(rest.iter().all(|has| *has != value && (*has != 0 || !unfiltered)));
                }
            }
        }
        let numbers: Vec<u64> = self.bench.stream.segments().map(|segment| segment.number).collect();
        let files: Vec<u64> = self.bench.files.files.keys().copied().collect();
        assert!(files.iter().all(|file| numbers.contains(file)), "{files:?} of {numbers:?}");
    }
}

fn apply(bench: &mut Bench, record: &Record) {
    let Bench { stream, common, effects, .. } = bench;
    // The time of a batch is known with its records.
    match record {
        Record::Message { body, value } => {
            let at_ms = 0;
            stream.push_message(at_ms, &[body], VALUES[*value], common, effects);
        }
        Record::Publish { reference, messages, value } => {
            let entries: Vec<Vec<u8>> = messages
                .iter()
                .map(|(_, body)| [&(body.len() as u32).to_be_bytes()[..], body].concat())
                .collect();
            let published = entries.iter().zip(messages).map(|(entry, (id, _))| queue::stream::Published {
                id: *id,
                filter_value: VALUES[*value],
                entry: message::chunk::Entry::split(entry).expect("an entry").0,
            });
            stream.publish(0, REFERENCES[*reference], published, common, effects);
        }
        Record::Track { reference, offset } => {
            let owner = Some(Owner { user: *reference as u32, connection: 1 });
            assert_eq!(stream.store_offset(REFERENCES[*reference], *offset, owner, common), Storing::Stored);
        }
        Record::Truncate(before) => stream.truncate(stream.now_ms(), *before, common, effects),
        Record::Configure(settings) => stream.configure(stream.now_ms(), *settings, common, effects),
        Record::End(at_ms) => stream.close(*at_ms, common, effects),
    }
}

trait Clock {
    fn now_ms(&self) -> i64;
}

impl Clock for Stream {
    /// The time of the last chunk: the same in every replay.
    fn now_ms(&self) -> i64 {
        self.segments().last().map_or(0, |last| last.last_timestamp_ms)
    }
}

fn part() -> impl Strategy<Value = Part> {
    let ids = prop::collection::vec(0..20u64, 1..5);
    prop_oneof![
        3 => (0..150usize, 0..4usize).prop_map(|(len, value)| Part::Message { len, value }),
        2 => (0..3usize, ids, 0..4usize).prop_map(|(reference, ids, value)| Part::Publish { reference, ids, value }),
        1 => (0..3usize, 0..100u64).prop_map(|(reference, offset)| Part::Track { reference, offset }),
    ]
}

fn from() -> impl Strategy<Value = From> {
    prop_oneof![
        Just(From::First),
        Just(From::Last),
        Just(From::Next),
        (0..120u64).prop_map(From::Offset),
        (0..400i64).prop_map(From::Timestamp),
        (0..50u64).prop_map(From::LastMessages),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let bytes_max = prop::option::of(500..5000u64);
    let age_max_ms = prop::option::of(0..300u64);
    prop_oneof![
        20 => prop::collection::vec(part(), 0..6).prop_map(Step::Batch),
        1 => (0..150u64).prop_map(Step::Truncate),
        1 => (bytes_max, age_max_ms, 300..3000u64).prop_map(|(bytes_max, age_max_ms, segment_bytes_max)| {
            Step::Configure { bytes_max, age_max_ms, segment_bytes_max }
        }),
        4 => Just(Step::Write),
        1 => Just(Step::Sync),
        6 => (1..5usize).prop_map(Step::Work),
        1 => Just(Step::Restart),
        4 => (from(), prop::option::of((1..4usize, any::<bool>())), 0..5u32)
            .prop_map(|(from, wanted, credit)| Step::Attach { from, wanted, credit }),
        8 => (0..9usize, 0..9u32).prop_map(|(reader, credit)| Step::Read { reader, credit }),
        1 => (0..9usize).prop_map(Step::Detach),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn streams_are_lists(steps in prop::collection::vec(step(), 1..120)) {
        let mut model = Model::new();
        steps.iter().for_each(|step| model.step(step));
        model.end();
    }
}
