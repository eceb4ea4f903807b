//! Snapshots from others: anything is read or refused, never more.

use base::Digest;
use base::id::{LogIndex, QueueSeq};
use message::record::{Outcome, SeqRange, SizesKept};
use proptest::prelude::*;
use queue::{
    Arrival, Effects, Fifo, GroupKey, Priorities, Record, Run, Settings, SnapshotError, WindowSettings,
};

fn range(first: u64, last: u64) -> SeqRange {
    SeqRange { first: QueueSeq(first), last: QueueSeq(last) }
}

/// A queue with something in every part of its snapshot.
fn rich() -> Fifo {
    let mut fifo = Fifo::new(Settings { counts: true, ..Settings::default() });
    let mut effects = Effects::default();
    for seq in 0..40u64 {
        fifo.enqueue(LogIndex(1000 + seq * 100), seq % 7 == 6);
    }
    fifo.settled(range(0, 2), &mut effects);
    fifo.settled(range(5, 8), &mut effects);
    fifo.settled(range(20, 20), &mut effects);
    fifo.returned(range(4, 30), Outcome::Failed, &mut effects);
    fifo.returned(range(25, 26), Outcome::Released, &mut effects);
    let run = Run { first: QueueSeq(3), last: QueueSeq(10), count: 4, segment: 7, offset: 4096, len: 512 };
    fifo.move_out(&[run], &mut effects);
    fifo
}

/// A queue with something in every section too.
fn featured() -> Fifo {
    let (priorities, sizes) = (Priorities::UpTo(9), SizesKept::Coming);
    let mut fifo = Fifo::new(Settings { counts: false, ttl_ms: Some(500), priorities, sizes });
    let mut effects = Effects::default();
    for seq in 0..40u64 {
        let arrival = Arrival {
            transient: seq % 7 == 6,
            priority: (seq % 3 > 0).then_some(seq as u8 % 5),
            received_at_ms: 1000 + seq / 4,
            expires_at_ms: if seq % 9 == 0 { 1200 } else { 0 },
            due_at_ms: 0,
            group: None,
            bytes: 100 + 30 * seq as u32,
            failures: 0,
            barrier: false,
        };
        fifo.arrive(LogIndex(1000 + seq * 100), &arrival);
    }
    fifo.settled(range(0, 2), &mut effects);
    fifo.settled(range(5, 8), &mut effects);
    fifo.settled(range(20, 20), &mut effects);
    fifo
}

/// A queue with groups.
fn half_weighed() -> Fifo {
    let mut fifo = Fifo::new(Settings::default());
    (0..6).for_each(|seq| _ = fifo.enqueue(LogIndex(seq * 8), false));
    fifo.configure(Settings { sizes: SizesKept::All, ..Settings::default() });
    fifo.arrive(LogIndex(48), &Arrival { bytes: 300, ..Arrival::default() });
    fifo.weigh(range(0, 2), [(QueueSeq(0), 5), (QueueSeq(2), 7)].into_iter());
    assert_eq!((fifo.to_weigh(), fifo.ready_bytes()), (Some(range(3, 5)), 312));
    fifo
}

fn grouped() -> Fifo {
    let mut fifo = Fifo::default();
    for seq in 0..40u64 {
        let group =
            Some(seq % 5).filter(|group| *group > 0).map(|group| GroupKey(Digest([group * 1000, !group])));
        fifo.arrive(LogIndex(1000 + seq * 100), &Arrival { group, ..Arrival::default() });
    }
    fifo.settled(range(5, 8), &mut Effects::default());
    fifo
}

/// A queue with barriers, some of them next to each other, some gone.
fn barred() -> Fifo {
    let mut fifo = Fifo::new(Settings { priorities: Priorities::UpTo(0), ..Settings::default() });
    for seq in 0..40u64 {
        let barrier = seq % 10 == 3 || seq / 3 == 5;
        fifo.arrive(LogIndex(1000 + seq * 100), &Arrival { barrier, ..Arrival::default() });
    }
    fifo.settled(range(5, 16), &mut Effects::default());
    assert_eq!(fifo.barriers(), 4);
    fifo
}

/// A queue with delayed messages, some since they came, some since they came back.
fn delaying() -> Fifo {
    let mut fifo = Fifo::new(Settings { counts: true, ..Settings::default() });
    let mut effects = Effects::default();
    for seq in 0..40u64 {
        let due_at_ms = if seq % 4 > 0 { 5000 + seq / 8 * 100 } else { 0 };
        let arrival = Arrival { received_at_ms: 1000, due_at_ms, ..Arrival::default() };
        fifo.arrive(LogIndex(1000 + seq * 100), &arrival);
    }
    fifo.settled(range(5, 8), &mut effects);
    for (first, last, due_at_ms) in [(0, 2, 6000), (2, 4, 6100), (30, 33, 5100), (31, 31, 9000)] {
        fifo.record(
            Record::Postpone { range: range(first, last), outcome: Outcome::Failed, due_at_ms },
            &mut effects,
        );
    }
    fifo
}

/// One that counts, with messages that came back with annotations.
fn annotated() -> Fifo {
    let mut fifo = rich();
    let mut effects = Effects::default();
    for (first, last, annotations) in
        [(9, 12, "some"), (13, 13, "others"), (14, 24, "some"), (15, 15, "more"), (30, 30, "")]
    {
        fifo.annotated(range(first, last), &annotations.as_bytes().into());
    }
    fifo.settled(range(11, 11), &mut effects);
    fifo
}

fn bytes(fifo: &Fifo) -> Vec<u8> {
    let mut bytes = Vec::new();
    fifo.write_snapshot(&mut bytes);
    bytes
}

fn refused(bytes: &[u8]) -> SnapshotError {
    Fifo::read_snapshot(bytes).expect_err("no snapshot")
}

#[test]
fn comes_back_as_written() {
    for fifo in [
        rich(),
        featured(),
        delaying(),
        annotated(),
        grouped(),
        Fifo::default(),
        Fifo::new(Settings { counts: true, ..Settings::default() }),
    ] {
        let written = bytes(&fifo);
        let read = Fifo::read_snapshot(&written).unwrap();
        assert_eq!(bytes(&read), written);
        assert_eq!((read.total(), read.ready() + read.delayed()), (fifo.total(), fifo.total()));
        assert_eq!(read.settings(), fifo.settings());
        assert_eq!(read.ready_bytes(), fifo.ready_bytes());
        if read.delayed() > 0 {
            let listed = read.delayed_list(100).into_iter().map(|(at_ms, seq)| (at_ms, seq.0));
            let mut dues: Vec<(u64, u64)> = (9..40)
                .filter(|seq| seq % 4 > 0 && !(30..34).contains(seq))
                .map(|seq| (5000 + seq / 8 * 100, seq))
                .collect();
            dues.extend([(6000, 0), (6000, 1), (6100, 2), (6100, 3), (6100, 4)]);
            dues.extend([(5100, 30), (9000, 31), (5100, 32), (5100, 33)]);
            dues.sort_unstable();
            assert_eq!(listed.collect::<Vec<_>>(), dues);
        }
        // Times that are no more may make it early.
        assert!(read.next_deadline_ms() >= fifo.next_deadline_ms());
        for seq in (0..45).map(QueueSeq) {
            assert_eq!(read.place(seq), fifo.place(seq));
            assert_eq!(read.counts(seq), fifo.counts(seq));
            assert_eq!(read.annotations(seq), fifo.annotations(seq));
            assert_eq!(read.group_of(seq), fifo.group_of(seq));
        }
        assert_eq!(read.annotations_bytes(), fifo.annotations_bytes());
    }
}

#[test]
fn every_truncation_is_short() {
    for fifo in [rich(), featured(), delaying(), annotated(), grouped(), half_weighed()] {
        let written = bytes(&fifo);
        for len in 0..written.len() {
            assert_eq!(refused(&written[..len]), SnapshotError::Short, "{len}");
        }
        assert_eq!(refused(&[&written[..], &[0]].concat()), SnapshotError::Long);
    }
}

#[test]
fn sections_and_versions_go_together() {
    let check = |fifo: Fifo, version: u8, sections: u16| {
        let written = bytes(&fifo);
        let written_sections = u16::from_le_bytes([written[5] & !1, written[6]]);
        assert_eq!((written[4], written_sections), (version, sections));
        let mut other = written.clone();
        other[4] = version % 3 + 1;
        assert_eq!(refused(&other), SnapshotError::Broken("flags"));
    };
    check(rich(), 1, 0);
    check(featured(), 2, 30);
    check(delaying(), 3, 32);
    check(annotated(), 3, 64);
    let mut fifo = delaying();
    fifo.deduplicate(WindowSettings { keys_max: 1, ttl_ms: None });
    check(fifo, 4, 32 + 128);
    let mut fifo = Fifo::new(Settings { sizes: SizesKept::Coming, ..Settings::default() });
    fifo.arrive(LogIndex(8), &Arrival { expires_at_ms: 9, ..Arrival::default() });
    check(fifo, 2, 2 + 8 + 16);
    let mut fifo = Fifo::new(Settings { sizes: SizesKept::All, ..Settings::default() });
    fifo.arrive(LogIndex(8), &Arrival::default());
    check(fifo, 6, 2 + 16 + 512);
    check(barred(), 7, 2 + 1024);
}

#[test]
fn contradictions_are_refused_by_name() {
    let check = |at: usize, byte: u8, error: SnapshotError| {
        let mut written = bytes(&rich());
        written[at] = byte;
        assert_eq!(refused(&written), error, "byte {at}");
    };
    check(0, b'l', SnapshotError::Magic);
    check(4, 8, SnapshotError::Version(8));
    check(5, 3, SnapshotError::Broken("flags"));
    check(5, 0, SnapshotError::Broken("counts"));
    check(6, 1, SnapshotError::Broken("flags"));
    check(6, 8, SnapshotError::Broken("flags"));
    // The head above the next position, and at a settled one.
    check(8, 41, SnapshotError::Broken("head"));
    check(8, 5, SnapshotError::Broken("settled"));
    // Ranges out of order, beyond the end, touching.
    check(32, 9, SnapshotError::Broken("settled"));
    check(56, 40, SnapshotError::Broken("settled"));
    check(48, 9, SnapshotError::Broken("settled"));
    // A transient position that is settled.
    check(72, 5, SnapshotError::Broken("transient"));
}

/// All places are before the next record's.
#[test]
fn the_last_place_there_could_be_is_refused() {
    let mut fifo = Fifo::default();
    fifo.enqueue(LogIndex(u64::MAX - 1), false);
    let mut written = bytes(&fifo);
    assert_eq!(bytes(&Fifo::read_snapshot(&written).expect("a snapshot")), written);
    let at = written.len() - 10;
    assert_eq!((written[at], written[at + 9]), (0xfe, 1));
    written[at] = 0xff;
    assert_eq!(refused(&written), SnapshotError::Broken("places"));
}

/// Annotations are of counted positions, in order, and never two runs where one would do.
#[test]
fn contradictory_annotations_are_refused() {
    let mut fifo = Fifo::new(Settings { counts: true, ..Settings::default() });
    let mut effects = Effects::default();
    (0..4).for_each(|seq| _ = fifo.enqueue(LogIndex(seq * 8), false));
    fifo.returned(range(0, 2), Outcome::Released, &mut effects);
    fifo.annotated(range(0, 0), &b"a"[..].into());
    fifo.annotated(range(1, 1), &b"b"[..].into());
    let written = bytes(&fifo);
    let runs = written.len() - 8;
    assert_eq!(written[runs..], [0, 0, 1, b'a', 1, 0, 1, b'b']);
    for (at, byte) in [(7, b'a'), (4, 0), (4, 3), (5, 2), (1, 1), (1, 9)] {
        let mut other = written.clone();
        other[runs + at] = byte;
        assert_eq!(refused(&other), SnapshotError::Broken("annotations"), "byte {at}: {byte}");
    }
    let mut none = written.clone();
    none.truncate(runs);
    none[runs - 8] = 0;
    assert_eq!(refused(&none), SnapshotError::Broken("annotations"));
}

/// Barriers are live, in order, and there is one.
#[test]
fn contradictory_barriers_are_refused() {
    let mut fifo = Fifo::new(Settings { priorities: Priorities::UpTo(0), ..Settings::default() });
    for barrier in [false, true, false, true] {
        fifo.arrive(LogIndex(8), &Arrival { barrier, ..Arrival::default() });
    }
    fifo.settled(range(2, 2), &mut Effects::default());
    let written = bytes(&fifo);
    let at = written.len() - 40;
    let numbers: Vec<u64> =
        written[at..].as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    assert_eq!(numbers, [2, 1, 1, 3, 3]);
    for (number, byte) in [(2, 2), (1, 4), (4, 4), (1, 2)] {
        let mut other = written.clone();
        other[at + 8 * number] = byte;
        assert_eq!(refused(&other), SnapshotError::Broken("barriers"), "number {number}: {byte}");
    }
    let mut none = written.clone();
    none.truncate(at + 8);
    none[at] = 0;
    assert_eq!(refused(&none), SnapshotError::Broken("barriers"));
}

/// Positions in front of a run that are in none would have no place.
#[test]
fn live_positions_without_a_place_are_refused() {
    let mut fifo = Fifo::default();
    for seq in 0..10 {
        fifo.enqueue(LogIndex(seq * 8), false);
    }
    let run = Run { first: QueueSeq(0), last: QueueSeq(4), count: 5, segment: 0, offset: 0, len: 1 };
    fifo.move_out(&[run], &mut Effects::default());
    let mut written = bytes(&fifo);
    let first_of_run = 8 + 16 + 8 + 8 + 8;
    assert_eq!(written[first_of_run..first_of_run + 16], [[0; 8], [4, 0, 0, 0, 0, 0, 0, 0]].concat());
    written[first_of_run] = 1;
    assert_eq!(refused(&written), SnapshotError::Broken("runs"));
}

#[test]
#[should_panic(expected = "2 live messages are in no run")]
fn moving_out_forgets_nobody() {
    let mut fifo = Fifo::default();
    for seq in 0..10 {
        fifo.enqueue(LogIndex(seq * 8), false);
    }
    let run = Run { first: QueueSeq(2), last: QueueSeq(4), count: 3, segment: 0, offset: 0, len: 1 };
    fifo.move_out(&[run], &mut Effects::default());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Fifo::read_snapshot(&bytes);
    }

    /// Bytes that nearly are a snapshot; a queue that is still read works, at a bounded cost.
    #[test]
    fn nearly_right_bytes_are_read_without_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        which in 0..7usize,
    ) {
        let mut written = bytes(&[rich, featured, delaying, annotated, grouped, half_weighed, barred][which]());
        for (at, byte) in changes {
            let at = at.index(written.len());
            written[at] = byte;
        }
        if let Ok(mut fifo) = Fifo::read_snapshot(&written) {
            prop_assert!(fifo.memory_bytes() <= 32 * written.len() + 4096);
            let mut effects = Effects::default();
            fifo.recover(queue::Recovery::Dirty, &mut effects);
            let all = range(0, fifo.next_seq().0);
            fifo.record(Record::Settle { range: all }, &mut effects);
            prop_assert_eq!(fifo.total(), 0);
            prop_assert_eq!(fifo.head(), fifo.next_seq());
        }
    }
}
