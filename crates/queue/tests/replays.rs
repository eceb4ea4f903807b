//! Logs recorded by earlier versions reach the same state for ever: `replays/*.log`.
//!
//! Their snapshots are the same, and are read. A line is a record, a move to segments, or at the end the CRC32C of the snapshot:
//!
//! ```text
//! counts true|false
//! enqueue PLACE [transient]
//! arrive PLACE TRANSIENT PRIORITY|- RECEIVED EXPIRES BYTES [DUE [FAILURES [GROUP]]]      times in milliseconds
//! settle FIRST LAST · purge FIRST LAST · return FIRST LAST failed|released
//! postpone FIRST LAST DUE failed|released
//! expire FIRST LAST · drop FIRST LAST · dead FIRST LAST
//! annotate FIRST LAST BYTE LENGTH       so many times the byte
//! configure TTL|- PRIORITY|-|strict true|false|all
//! weigh FIRST LAST SEQ SIZE ...         two numbers a message
//! move FIRST LAST COUNT SEGMENT OFFSET LEN ...      six numbers a run
//! state CRC
//! ```

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::bench;

use base::id::{LogIndex, QueueSeq};
use bench::{Bench, Entry, group_key, group_number, replay, snapshot};
use message::record::{Outcome, SeqRange, SizesKept};
use queue::{Arrival, Fifo, Priorities, Record, Run, Settings};
use std::fmt::Write;

fn number(word: Option<&str>) -> u64 {
    word.and_then(|word| word.parse().ok()).expect("a number")
}

fn read(line: &str) -> Entry {
    let mut words = line.split(' ');
    let verb = words.next().expect("a verb");
    let mut range =
        || SeqRange { first: QueueSeq(number(words.next())), last: QueueSeq(number(words.next())) };
    Entry::Record(match verb {
        "enqueue" => {
            let place = LogIndex(number(words.next()));
            Record::Enqueue { place, transient: words.next() == Some("transient") }
        }
        "arrive" => {
            let place = LogIndex(number(words.next()));
            let transient = words.next() == Some("true");
            let priority = words.next().filter(|word| *word != "-").map(|word| number(Some(word)) as u8);
            let [received_at_ms, expires_at_ms, bytes] = [(); 3].map(|()| number(words.next()));
            let bytes = bytes as u32;
            let due_at_ms = words.next().map_or(0, |word| number(Some(word)));
            let failures = words.next().map_or(0, |word| number(Some(word)) as u16);
            let group = words.next().map(|word| group_key(number(Some(word)) as u32));
            let of_time = Arrival { received_at_ms, expires_at_ms, due_at_ms, ..Arrival::default() };
            let arrival = Arrival { transient, priority, bytes, failures, group, ..of_time };
            Record::Arrive { place, arrival }
        }
        "expire" => Record::Expire { range: range() },
        "drop" => Record::Drop { range: range() },
        "dead" => Record::DeadLetter { range: range() },
        "configure" => {
            let ttl_ms = words.next().filter(|word| *word != "-").map(|word| number(Some(word)));
            let priorities = match words.next() {
                Some("-") => Priorities::None,
                Some("strict") => Priorities::Strict,
                max => Priorities::UpTo(number(max) as u8),
            };
            let sizes = match words.next() {
                Some("true") => SizesKept::Coming,
                Some("all") => SizesKept::All,
                _ => SizesKept::None,
            };
            Record::Configure { settings: Settings { ttl_ms, priorities, sizes, ..Settings::default() } }
        }
        "annotate" => {
            let range = range();
            let [byte, len] = [(); 2].map(|()| number(words.next()));
            Record::Annotate { range, annotations: vec![byte as u8; len as usize].into() }
        }
        "weigh" => {
            let range = range();
            let numbers: Vec<u64> = words.map(|word| number(Some(word))).collect();
            let sizes = numbers.as_chunks().0.iter().map(|[seq, bytes]| (QueueSeq(*seq), *bytes as u32));
            Record::Weigh { range, sizes: sizes.collect() }
        }
        "settle" => Record::Settle { range: range() },
        "purge" => Record::Purge { range: range() },
        "return" => {
            let range = range();
            let is_failed = words.next() == Some("failed");
            Record::Return { range, outcome: if is_failed { Outcome::Failed } else { Outcome::Released } }
        }
        "postpone" => {
            let range = range();
            let due_at_ms = number(words.next());
            let is_failed = words.next() == Some("failed");
            let outcome = if is_failed { Outcome::Failed } else { Outcome::Released };
            Record::Postpone { range, outcome, due_at_ms }
        }
        "move" => {
            let numbers: Vec<u64> = words.map(|word| number(Some(word))).collect();
            let run = |run: &[u64; 6]| Run {
                first: QueueSeq(run[0]),
                last: QueueSeq(run[1]),
                count: run[2] as u32,
                segment: run[3],
                offset: run[4],
                len: run[5] as u32,
            };
            return Entry::MoveOut(numbers.as_chunks().0.iter().map(run).collect());
        }
        other => panic!("unknown: {other}"),
    })
}

fn write(entry: &Entry, text: &mut String) {
    match entry {
        Entry::Record(Record::Enqueue { place, transient }) => {
            write!(text, "enqueue {place}{}", if *transient { " transient" } else { "" })
        }
        Entry::Record(Record::Settle { range }) => write!(text, "settle {} {}", range.first, range.last),
        Entry::Record(Record::Purge { range }) => write!(text, "purge {} {}", range.first, range.last),
        Entry::Record(Record::Arrive { place, arrival }) => {
            let Arrival { transient, priority, received_at_ms, expires_at_ms, due_at_ms, bytes, .. } =
                arrival;
            let due = match (*due_at_ms, arrival.failures, arrival.group) {
                (0, 0, None) => String::new(),
                (_, 0, None) => format!(" {due_at_ms}"),
                (_, failures, None) => format!(" {due_at_ms} {failures}"),
                (_, failures, Some(group)) => format!(" {due_at_ms} {failures} {}", group_number(group)),
            };
            let priority = priority.map_or("-".into(), |priority| priority.to_string());
            write!(
                text,
                "arrive {place} {transient} {priority} {received_at_ms} {expires_at_ms} {bytes}{due}"
            )
        }
        Entry::Record(Record::Expire { range }) => write!(text, "expire {} {}", range.first, range.last),
        Entry::Record(Record::Drop { range }) => write!(text, "drop {} {}", range.first, range.last),
        Entry::Record(Record::DeadLetter { range }) => write!(text, "dead {} {}", range.first, range.last),
        Entry::Record(Record::Configure { settings }) => {
            let ttl_ms = settings.ttl_ms.map_or("-".into(), |ttl_ms| ttl_ms.to_string());
            let priorities = match settings.priorities {
                Priorities::None => "-".into(),
                Priorities::UpTo(max) => max.to_string(),
                Priorities::Strict => "strict".into(),
            };
            let sizes = match settings.sizes {
                SizesKept::None => "false",
                SizesKept::Coming => "true",
                SizesKept::All => "all",
            };
            write!(text, "configure {ttl_ms} {priorities} {sizes}")
        }
        Entry::Record(Record::Weigh { range, sizes }) => write!(text, "weigh {} {}", range.first, range.last)
            .and_then(|()| sizes.iter().try_for_each(|(seq, bytes)| write!(text, " {seq} {bytes}"))),
        Entry::Record(Record::Annotate { range, annotations }) => {
            let byte = annotations.first().copied().unwrap_or(0);
            write!(text, "annotate {} {} {byte} {}", range.first, range.last, annotations.len())
        }
        Entry::Record(Record::Return { range, outcome }) => {
            let how = if *outcome == Outcome::Failed { "failed" } else { "released" };
            write!(text, "return {} {} {how}", range.first, range.last)
        }
        Entry::Record(Record::Postpone { range, outcome, due_at_ms }) => {
            let how = if *outcome == Outcome::Failed { "failed" } else { "released" };
            write!(text, "postpone {} {} {due_at_ms} {how}", range.first, range.last)
        }
        Entry::MoveOut(runs) => {
            text.push_str("move");
            runs.iter().try_for_each(|run| {
                let Run { first, last, count, segment, offset, len } = run;
                write!(text, " {first} {last} {count} {segment} {offset} {len}")
            })
        }
    }
    .expect("into memory");
    text.push('\n');
}

/// The state a recorded log leads to, as its last line has it.
fn check(log: &str) {
    let mut lines = log.lines();
    let counts = lines.next().expect("a first line") == "counts true";
    let state = lines.next_back().expect("a last line");
    let entries: Vec<Entry> = lines.map(read).collect();
    let mut again = String::new();
    entries.iter().for_each(|entry| write(entry, &mut again));
    assert!(log.contains(&again), "the log is read as it was written");
    let mut fifo = Fifo::new(Settings { counts, ..Settings::default() });
    replay(&mut fifo, &entries);
    let written = snapshot(&fifo);
    assert_eq!(format!("state {:08x}", base::crc::crc32c(&written)), state);
    let read = Fifo::read_snapshot(&written).expect("earlier versions wrote it");
    assert_eq!((snapshot(&read) == written, read.total()), (true, fifo.total()));
    assert!(fifo.total() > 0, "a log that ends with nothing shows nothing");
}

#[test]
fn a_classic_queue() {
    check(include_str!("../replays/classic-1.log"));
}

#[test]
fn a_counting_queue() {
    check(include_str!("../replays/quorum-1.log"));
}

#[test]
fn a_classic_queue_with_features() {
    check(include_str!("../replays/classic-2.log"));
}

#[test]
fn a_counting_queue_with_features() {
    check(include_str!("../replays/quorum-2.log"));
}

#[test]
fn a_classic_queue_with_delays() {
    check(include_str!("../replays/classic-3.log"));
}

#[test]
fn a_counting_queue_with_delays() {
    check(include_str!("../replays/quorum-3.log"));
}

#[test]
fn a_counting_queue_with_annotations() {
    check(include_str!("../replays/quorum-4.log"));
}

#[test]
fn a_counting_queue_with_dead_letters() {
    check(include_str!("../replays/quorum-5.log"));
}

#[test]
fn a_classic_queue_with_groups() {
    check(include_str!("../replays/classic-4.log"));
}

#[test]
fn a_counting_queue_with_groups() {
    check(include_str!("../replays/quorum-6.log"));
}

#[test]
fn a_classic_queue_that_is_weighed() {
    check(include_str!("../replays/classic-5.log"));
}

#[test]
fn a_counting_queue_that_is_weighed() {
    check(include_str!("../replays/quorum-7.log"));
}

/// Records new logs; old ones are never written again. To standard output.
#[test]
#[ignore = "by hand, when the machine learned something new"]
fn record() {
    let seed: u64 = std::env::var("QUEUE_SEED").map_or(1, |text| text.parse().expect("a number"));
    let mut bench = Bench::new(seed);
    (0..400).for_each(|_| bench.step());
    let mut text = format!("counts {}\n", bench.first_settings.counts);
    bench.history.iter().for_each(|entry| write(entry, &mut text));
    let mut fifo = Fifo::new(bench.first_settings);
    replay(&mut fifo, &bench.history);
    println!("{text}state {:08x}", base::crc::crc32c(&snapshot(&fifo)));
}
