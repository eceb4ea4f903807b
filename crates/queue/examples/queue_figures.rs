//! The cost of a message in the machine: enqueue, hand out, settle, and the settle's record.
//!
//! `cargo run -p queue --profile quick --example queue_figures [LOADS] [MESSAGES]`: loads whose names contain that text.

#![allow(clippy::disallowed_methods, reason = "measuring needs a clock")]

use base::id::LogIndex;
use message::record::{Kind, Outcome};
use queue::{Command, Consume, ConsumerId, Credit, Effect, Effects, Fairness, Fifo, Record, Rules, Settings};
use std::time::Instant;

struct Load {
    name: &'static str,
    batch: u32,
    backlog: u64,
    consumers: u32,
    settled: bool,
    counts: bool,
    fairness: Fairness,
}

/// One life: nanoseconds a message for enqueue, dispatch, settle and applying the settle.
fn run(load: &Load, messages: u64) -> [f64; 4] {
    let mut fifo = Fifo::new(Settings { counts: load.counts, ..Settings::default() });
    let mut effects = Effects::default();
    if load.fairness != Fairness::RoundRobin {
        fifo.set_rules(Rules { fairness: load.fairness, ..Rules::default() }, &mut effects);
    }
    for slot in 0..load.consumers {
        let consume = Consume {
            consumer: ConsumerId(slot),
            credit: Credit::Prefetch(0),
            settled: load.settled,
            exclusive: false,
            priority: 0,
            selector: None,
        };
        fifo.consume(consume).unwrap();
    }
    let mut place = 0;
    for _ in 0..load.backlog {
        place += 96;
        fifo.enqueue(LogIndex(place), false);
    }
    let mut spent = [0u64; 4];
    let mut ranges = Vec::new();
    let mut settles: Vec<Effect> = Vec::new();
    for _ in 0..messages / u64::from(load.batch) {
        let start = Instant::now();
        for _ in 0..load.batch {
            place += 96;
            fifo.enqueue(LogIndex(place), false);
        }
        let enqueued = Instant::now();
        let given = fifo.dispatch(0, load.batch, &mut effects);
        let dispatched = Instant::now();
        assert_eq!(given, load.batch);
        ranges.clear();
        for effect in effects.list.drain(..) {
            match effect {
                Effect::Deliver { consumer, first, count, .. } => {
                    let last = base::id::QueueSeq(first.0 + u64::from(count) - 1);
                    ranges.push((consumer, message::record::SeqRange { first, last }));
                }
                append => settles.push(append),
            }
        }
        let between = Instant::now();
        if !load.settled {
            for &(consumer, range) in &ranges {
                let command = Command::Settle { consumer, range, outcome: Outcome::Accepted };
                fifo.apply(command, &mut effects);
            }
            std::mem::swap(&mut settles, &mut effects.list);
        }
        let settled = Instant::now();
        for effect in settles.drain(..) {
            if let Effect::Append { kind: Kind::Settle, range, .. } = effect {
                fifo.record(Record::Settle { range }, &mut effects);
            }
        }
        let applied = Instant::now();
        assert_eq!(effects.left.len(), load.batch as usize);
        effects.clear();
        for (sum, span) in spent.iter_mut().zip([
            enqueued - start,
            dispatched - enqueued,
            settled - between,
            applied - settled,
        ]) {
            *sum += span.as_nanos() as u64;
        }
    }
    assert_eq!(fifo.total(), load.backlog);
    spent.map(|nanoseconds| nanoseconds as f64 / messages as f64)
}

fn main() {
    let plain = Load {
        name: "",
        batch: 100,
        backlog: 0,
        consumers: 1,
        settled: false,
        counts: false,
        fairness: Fairness::RoundRobin,
    };
    let many = Load { batch: 1500, consumers: 1000, ..plain };
    let loads = [
        Load { name: "lone consumer, batches of 1", batch: 1, ..plain },
        Load { name: "lone consumer, batches of 10", batch: 10, ..plain },
        Load { name: "lone consumer, batches of 100", ..plain },
        Load { name: "lone consumer, batches of 1500", batch: 1500, ..plain },
        Load { name: "the same, counting queue", batch: 1500, counts: true, ..plain },
        Load { name: "the same, behind 1 M messages", batch: 1500, backlog: 1_000_000, ..plain },
        Load { name: "settled as delivered, 1500", batch: 1500, settled: true, ..plain },
        Load { name: "2 consumers in turn, 1500", batch: 1500, consumers: 2, ..plain },
        Load { name: "10 consumers in turn, 1500", batch: 1500, consumers: 10, ..plain },
        Load { name: "10 consumers in turn, settled", batch: 1500, consumers: 10, settled: true, ..plain },
        Load { name: "1,000 consumers in turn", ..many },
        Load { name: "1,000 consumers, proportional", fairness: Fairness::Proportional, ..many },
        Load { name: "1,000 consumers, fast", fairness: Fairness::Fast, ..many },
    ];
    println!("{:34} enqueue  dispatch  settle   apply     all   (ns a message, best of 7)", "");
    let mut words = std::env::args().skip(1);
    let wanted = words.next().unwrap_or_default();
    let messages = words.next().map_or(1_500_000, |word| word.parse().expect("a number of messages"));
    for load in loads.iter().filter(|load| load.name.contains(&wanted)) {
        let best = (0..7)
            .map(|_| run(load, messages))
            .min_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum()))
            .unwrap();
        let [enqueue, dispatch, settle, apply] = best;
        let all = enqueue + dispatch + settle + apply;
        println!("{:34} {enqueue:7.2} {dispatch:9.2} {settle:7.2} {apply:7.2} {all:7.2}", load.name);
    }
    let empty = Fifo::new(Settings::default()).memory_bytes();
    println!("an empty queue: {empty} bytes");
}
