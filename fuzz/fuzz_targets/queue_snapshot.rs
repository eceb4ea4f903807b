//! Any bytes as a queue's snapshot: read or refused, and what is read is a queue that works.

#![no_main]

use libfuzzer_sys::fuzz_target;
use message::record::{Kind, Outcome, SeqRange};
use queue::{Command, Consume, ConsumerId, Credit, Effect, Effects, Fifo, Record, Recovery};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut fifo) = Fifo::read_snapshot(bytes) else { return };
    assert!(fifo.memory_bytes() <= 32 * bytes.len() + 4096);
    let mut again = Vec::new();
    fifo.write_snapshot(&mut again);
    // A run's count may be more than what is live in it, and varints may be long: else the bytes are the same.
    let mut twice = Vec::new();
    Fifo::read_snapshot(&again).expect("what was written is read").write_snapshot(&mut twice);
    assert_eq!(again, twice);

    let mut effects = Effects::default();
    fifo.recover(Recovery::Dirty, &mut effects);
    effects.clear();
    let total = fifo.total();
    assert_eq!(fifo.ready() + fifo.delayed(), total);
    let id = ConsumerId(0);
    let credit = Credit::Prefetch(0);
    let new = Consume { consumer: id, credit, settled: false, exclusive: true, priority: 0, selector: None };
    fifo.consume(new).expect("nobody else consumes");
    let mut given = 0;
    // At the end of all time everything is due, and what has a deadline ends once it was offered.
    while fifo.ready() + fifo.delayed() > 0 {
        given += u64::from(fifo.dispatch(u64::MAX, u32::MAX, &mut effects));
    }
    let mut ended = Vec::new();
    for effect in std::mem::take(&mut effects.list) {
        if let Effect::Append { kind: Kind::Expire, range, .. } = effect {
            given += range.last.0 - range.first.0 + 1;
            ended.push(range);
            continue;
        }
        let ranges: Vec<SeqRange> = match effect {
            Effect::Deliver { first, count, .. } | Effect::DeliverAnnotated { first, count, .. } => {
                vec![SeqRange { first, last: base::id::QueueSeq(first.0 + u64::from(count) - 1) }]
            }
            Effect::DeliverScattered { block, bits, .. } => {
                queue::scattered(block, bits).map(|seq| SeqRange { first: seq, last: seq }).collect()
            }
            other => panic!("{other:?}"),
        };
        let outcome = Outcome::Accepted;
        for range in ranges {
            fifo.apply(Command::Settle { consumer: id, range, outcome }, &mut effects);
        }
    }
    assert_eq!(given, total);
    ended.into_iter().for_each(|range| fifo.record(Record::Expire { range }, &mut effects));
    for effect in std::mem::take(&mut effects.list) {
        let Effect::Append { range, .. } = effect else { panic!("{effect:?}") };
        fifo.record(Record::Settle { range }, &mut effects);
    }
    assert_eq!((fifo.total(), fifo.head()), (0, fifo.next_seq()));
    assert_eq!(fifo.runs().len(), 0);
});
