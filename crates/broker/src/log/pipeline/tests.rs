//! A pipeline by itself: what is due, what is committed, and what becomes of records when others lead.

use super::super::foreign::Records;
use super::super::outbox::{Content, Parcel};
use super::*;
use base::id::{NodeNo, PortId};
use journal::{FileId, FileKind, FileName};
use message::record::{Origin, Stamp};

fn waiter(first: u64) -> Waiter {
    Waiter { port: PortId::default(), publisher: 1, first, last: first }
}

/// A pipeline with a stand-in for its log, as far as the pipeline needs one.
struct Bench {
    pipeline: Pipeline,
    spare: Spare,
    out: Vec<Sealed>,
}

impl Bench {
    fn new(rule: CommitRule) -> Bench {
        let pipeline = Pipeline::new(LogId(1), rule);
        Bench { pipeline, spare: Spare::default(), out: Vec::new() }
    }

    /// `m`: a message that need not be safe; `M`: one that must be; `s`: a settle; `c`: a change; `|`: the batch was full;
    /// `>`: all that is closed was given out.
    fn with(rule: CommitRule, came: &str) -> Bench {
        let mut bench = Bench::new(rule);
        for letter in came.chars() {
            let brings = match letter {
                'm' => Brings::messages(false),
                'M' => Brings::messages(true),
                's' => Brings::NOTHING,
                'c' => Brings::FLUSH,
                '|' => {
                    bench.pipeline.close_full(Now::at_ms(1), &mut bench.spare);
                    continue;
                }
                _ => {
                    bench.pipeline.give_out(Now::at_ms(1), &mut bench.spare, &mut bench.out);
                    continue;
                }
            };
            bench.pipeline.append(Now::at_ms(1), brings, |records| records.extend(&[7; 8]));
        }
        bench
    }

    fn written(&mut self, at: usize) -> bool {
        let Sealed { base, len, crc, .. } = self.out[at];
        let (file, len) = (FileId(1), len as u64);
        let place = Place { file, name: FileName::new(FileKind::Journal, 1), offset: base.0, len, crc };
        self.pipeline.written(base, place)
    }

    fn lead(&mut self) {
        let commands = self.pipeline.lead(Now::at_ms(1), &mut self.spare);
        assert!(commands.is_empty());
    }

    /// Where the batches end that are committed now.
    fn commit(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.pipeline.take_committed())
            .map(|(closed, _)| closed.sealed.next().0)
            .collect()
    }
}

#[test]
fn what_is_due_at_the_end_of_a_turn() {
    use CommitRule::{Immediate, Quorum, Synced};
    let check = |rule, came: &str, at_ms: u64, expected: Due| {
        let bench = Bench::with(rule, came);
        let due = bench.pipeline.due(Now::at_ms(at_ms), &Limits::default());
        assert_eq!(due, expected, "{rule:?} {came} at {at_ms}");
    };
    for rule in [Immediate, Synced, Quorum] {
        check(rule, "", 1, Due::Nothing);
        check(rule, "", 10_000, Due::Nothing);
    }
    for came in ["m", "M", "sm", "ms", "Mc"] {
        check(Immediate, came, 1, Due::Messages);
    }
    for came in ["s", "ss", "c", "sc"] {
        check(Immediate, came, 1, Due::Rest);
        check(Immediate, came, 10_000, Due::Rest);
    }
    for rule in [Synced, Quorum] {
        for came in ["M>", "M>s", "M>c", "M>M", "M>s|", "M>M|M", "M|M>m", "c>s"] {
            check(rule, came, 1, Due::Nothing);
            check(rule, came, 10_000, Due::Nothing);
        }
        for came in ["m|", "s|", "M|s", "m|m", "M|M|c"] {
            check(rule, came, 1, Due::Write);
        }
        for came in ["M", "c", "sc", "cs", "mM", "Ms"] {
            check(rule, came, 1, Due::Write);
        }
    }
    for at_ms in [1, 10_000] {
        check(Synced, "m", at_ms, Due::Messages);
        check(Synced, "sms", at_ms, Due::Messages);
        check(Synced, "s", at_ms, Due::Rest);
        check(Synced, "ss", at_ms, Due::Rest);
    }
    let long = 1 + Limits::default().lazy_batch_ms_max;
    for came in ["s", "ss", "m", "sm"] {
        check(Quorum, came, 1, Due::Nothing);
        check(Quorum, came, long - 1, Due::Nothing);
        check(Quorum, came, long, Due::Write);
    }
}

#[test]
fn only_a_rule_that_says_so_lets_anything_run_ahead() {
    let check = |came: &str, expected: [bool; 3]| {
        let rules = [CommitRule::Immediate, CommitRule::Synced, CommitRule::Quorum];
        let found = rules.map(|rule| Bench::with(rule, came).pipeline.may_run_ahead());
        assert_eq!(found, expected, "{came}");
    };
    check("", [true, true, false]);
    check("s", [true, true, false]);
    check("ss", [true, true, false]);
    check("sm", [false; 3]);
    check("M", [false; 3]);
    check("c", [false; 3]);
    check("M>s", [false; 3]);
    check("M|s", [false; 3]);
}

#[test]
fn batches_are_committed_in_order_however_they_are_written() {
    let mut bench = Bench::with(CommitRule::Synced, "M|MM|M>s");
    assert_eq!(bench.out.len(), 3);
    assert_eq!((bench.pipeline.applied().0, bench.pipeline.next().0), (0, 40));
    assert!(!bench.written(1));
    assert_eq!(bench.commit(), [0; 0], "the first is not written");
    assert!(!bench.written(0));
    assert_eq!(bench.commit(), [8, 24]);
    assert_eq!((bench.pipeline.committed().0, bench.pipeline.applied().0), (24, 24));
    assert!(!bench.written(2));
    assert_eq!(bench.commit(), [32]);
    assert_eq!(bench.pipeline.arrivals_end(), None, "a settle brings nothing");
    assert_eq!(bench.pipeline.bytes(), 8);
}

#[test]
fn a_quorum_takes_both_the_disk_and_the_others() {
    // Each begins with its stamp.
    let mut bench = Bench::with(CommitRule::Quorum, "M|s|M>");
    bench.pipeline.agreed(LogIndex(80));
    assert_eq!(bench.commit(), [0; 0], "it is not on this disk");
    assert!(!bench.written(0));
    assert!(!bench.written(2));
    assert_eq!(bench.commit(), [40]);
    assert!(!bench.written(1));
    assert_eq!(bench.commit(), [80], "the last is not agreed on");
    bench.pipeline.agreed(LogIndex(119));
    assert_eq!(bench.commit(), [0; 0]);
    bench.pipeline.agreed(LogIndex(120));
    assert_eq!(bench.commit(), [120]);
}

#[test]
fn what_ran_ahead_counts_until_it_is_written() {
    let mut bench = Bench::with(CommitRule::Synced, "ms");
    let closed = bench.pipeline.close(Now::at_ms(1), &mut bench.spare);
    assert_eq!(bench.pipeline.bytes(), 0);
    bench.pipeline.give_out_applied(closed, &mut bench.spare, 1 << 20, &mut bench.out);
    assert_eq!((bench.pipeline.bytes(), bench.pipeline.committed().0), (16, 0));
    assert!(bench.written(0), "it was applied before");
    assert_eq!((bench.pipeline.bytes(), bench.pipeline.committed().0), (0, 16));
    // In memory alone nothing is given out.
    let mut bench = Bench::with(CommitRule::Immediate, "ms");
    let closed = bench.pipeline.close(Now::at_ms(1), &mut bench.spare);
    bench.pipeline.give_out_applied(closed, &mut bench.spare, 1 << 20, &mut bench.out);
    assert!(bench.out.is_empty() && bench.pipeline.bytes() == 0);
}

#[test]
fn batches_taken_back_are_proposed_again_as_one() {
    let mut bench = Bench::with(CommitRule::Quorum, "M>s");
    bench.pipeline.wait(waiter(2));
    bench.pipeline.resign();
    assert_eq!((bench.pipeline.applied().0, bench.pipeline.outbox().len()), (0, 2));
    assert!(bench.pipeline.is_at_disk(), "a report is still to come");
    assert!(bench.pipeline.bytes() > 0 && bench.pipeline.has_gathered());
    assert_eq!(bench.pipeline.due(Now::at_ms(10_000), &Limits::default()), Due::Nothing);
    bench.lead();
    assert!(!bench.pipeline.begins(), "what comes first is not applied");
    bench.pipeline.give_out(Now::at_ms(1), &mut bench.spare, &mut bench.out);
    // Its bytes that were written before count for nothing, though the next begins at the same index.
    assert!(!bench.written(0));
    bench.pipeline.agreed(LogIndex(80));
    assert_eq!(bench.commit(), [0; 0]);
    assert!(!bench.written(1));
    let (closed, _) = bench.pipeline.take_committed().expect("it is written and agreed on");
    assert_eq!((closed.sealed.base.0, closed.sealed.len, closed.waiters), (0, 80, vec![]));
    assert!(bench.pipeline.begins() && bench.pipeline.leads());
    let recorded = bench.pipeline.outbox_mut().take_recorded(2);
    let waiters: Vec<_> = recorded.iter().flat_map(|parcel| &parcel.waiters).collect();
    assert_eq!(waiters, [&waiter(2)]);
    assert_eq!((bench.pipeline.bytes(), bench.pipeline.committed().0), (0, 80));
}

/// The number that the first record of a batch says.
fn number_of(sealed: &Sealed) -> u64 {
    Stamp::read(&sealed.records()[..Stamp::LEN]).expect("it begins with a stamp").number
}

#[test]
fn batches_taken_back_may_be_agreed_on_after_all() {
    let mut bench = Bench::with(CommitRule::Quorum, "");
    for (number, came) in [(1, "M|"), (2, "M>"), (3, "M|"), (4, "M")] {
        for letter in came.chars() {
            match letter {
                'M' => {
                    let message = Brings::messages(true);
                    bench
                        .pipeline
                        .append(Now::at_ms(1), message, |records| records.extend(&[number as u8; 8]));
                    bench.pipeline.wait(waiter(number));
                }
                '|' => bench.pipeline.close_full(Now::at_ms(1), &mut bench.spare),
                _ => bench.pipeline.give_out(Now::at_ms(1), &mut bench.spare, &mut bench.out),
            }
        }
    }
    assert_eq!(bench.out.iter().map(number_of).collect::<Vec<_>>(), [1, 2]);
    bench.pipeline.resign();
    let recorded = bench.pipeline.outbox_mut().take_recorded(1);
    let [Parcel { content: Content::Records(records), waiters, .. }] = &recorded[..] else {
        panic!("one is recorded: {recorded:?}")
    };
    assert_eq!((records.bytes(), &waiters[..]), (&[1; 8][..], &[waiter(1)][..]));
    assert!(bench.pipeline.outbox_mut().take_recorded(1).is_empty());
    bench.pipeline.followed(LogIndex(40));
    // One of another leader's comes first; the second is gone for good then.
    bench.pipeline.followed(LogIndex(60));
    bench.lead();
    bench.pipeline.give_out(Now::at_ms(1), &mut bench.spare, &mut bench.out);
    let again = bench.out.last().expect("it is given out");
    let mut expected = Buffer::default();
    for number in 2..=4 {
        Stamp { origin: Origin::default(), number }.write(&mut expected);
        expected.extend(&[number as u8; 8]);
    }
    assert_eq!((again.base.0, again.records()), (60, expected.bytes()));
    assert_eq!(bench.pipeline.take_waiting(), [waiter(2), waiter(3), waiter(4)]);
}

#[test]
fn nothing_is_left_to_flush_where_all_was_agreed_on_after_all() {
    let mut bench = Bench::with(CommitRule::Quorum, "M>");
    bench.pipeline.resign();
    assert_eq!(bench.pipeline.outbox_mut().take_recorded(1).len(), 1);
    bench.pipeline.followed(LogIndex(40));
    bench.lead();
    assert!(bench.pipeline.begins() && !bench.pipeline.is_pressing());
    assert_eq!(bench.pipeline.due(Now::at_ms(10_000), &Limits::default()), Due::Nothing);
    assert_eq!((bench.pipeline.bytes(), bench.pipeline.arrivals_end()), (0, None));
}

#[test]
fn what_gathers_for_a_leader_is_one_batch_however_large() {
    let mut bench = Bench::with(CommitRule::Quorum, "");
    bench.pipeline.resign();
    bench.pipeline.append(Now::at_ms(1), Brings::messages(true), |records| {
        records.extend(&vec![7; BATCH_BYTES_MAX + 8])
    });
    assert!(!bench.pipeline.is_full(8), "a batch that is closed would be in front of the leader's");
    bench.pipeline.followed(LogIndex(8));
    assert_eq!(bench.pipeline.next().0, 8 + BATCH_BYTES_MAX as u64 + 8);
    bench.pipeline.cut();
    bench.lead();
    assert_eq!(bench.pipeline.next().0, 8 + Stamp::LEN as u64 + BATCH_BYTES_MAX as u64 + 8);
}

#[test]
fn what_is_agreed_on_is_not_taken_back() {
    let mut bench = Bench::with(CommitRule::Quorum, "M|M>");
    bench.pipeline.agreed(LogIndex(40));
    bench.pipeline.resign();
    assert!(!bench.written(0) && !bench.written(1));
    assert_eq!(bench.commit(), [40]);
    bench.pipeline.followed(LogIndex(96));
    let Pipeline { outbox, .. } = &bench.pipeline;
    assert_eq!((bench.pipeline.applied().0, bench.pipeline.next().0, outbox.len()), (96, 96, 1));
}

#[test]
fn parcels_of_others_come_behind_own_records_and_stay_theirs() {
    let other = |number| Stamp { origin: Origin { node: NodeNo(7), incarnation: 3 }, number };
    let records = |byte: u8| {
        let mut buffer = Buffer::default();
        buffer.extend(&[byte; 24]);
        Records { memory: buffer.seal(), range: 8..24 }
    };
    let mut bench = Bench::with(CommitRule::Quorum, "");
    assert_eq!(bench.pipeline.take_in(Now::at_ms(1), other(1), records(1)).0, 48);
    bench.pipeline.append(Now::at_ms(1), Brings::messages(true), |records| records.extend(&[9; 8]));
    assert_eq!(bench.pipeline.take_in(Now::at_ms(1), other(2), records(2)).0, 136);
    bench.pipeline.give_out(Now::at_ms(1), &mut bench.spare, &mut bench.out);
    let mut expected = Buffer::default();
    Stamp { origin: Origin::default(), number: 1 }.write(&mut expected);
    expected.extend(&[9; 8]);
    for number in [1, 2] {
        other(number).write(&mut expected);
        expected.extend(&[number as u8; 16]);
    }
    assert_eq!((bench.out[0].records(), bench.pipeline.next().0), (expected.bytes(), 136));
    // A batch without any of its own, and one that is open.
    bench.pipeline.take_in(Now::at_ms(1), other(3), records(3));
    bench.pipeline.close_full(Now::at_ms(1), &mut bench.spare);
    bench.pipeline.take_in(Now::at_ms(1), other(4), records(4));
    bench.pipeline.resign();
    let records = |parcel: &Parcel| match &parcel.content {
        Content::Records(records) => records.bytes().to_vec(),
        other => panic!("{other:?}"),
    };
    let own: Vec<_> = bench.pipeline.outbox().iter().map(records).collect();
    assert_eq!(own, [[9; 8]]);
    bench.lead();
    assert_eq!(bench.pipeline.next().0, 40);
}

#[test]
fn nothing_is_left_to_flush_of_parcels_of_others_that_went_with_the_lead() {
    let mut buffer = Buffer::default();
    buffer.extend(&[1; 24]);
    let records = Records { memory: buffer.seal(), range: 8..24 };
    let stamp = Stamp { origin: Origin { node: NodeNo(7), incarnation: 3 }, number: 1 };
    let mut bench = Bench::with(CommitRule::Quorum, "");
    bench.pipeline.take_in(Now::at_ms(1), stamp, records);
    assert!(bench.pipeline.is_pressing());
    bench.pipeline.resign();
    bench.lead();
    assert!(!bench.pipeline.is_pressing() && bench.pipeline.arrivals_end().is_none());
    // Records that gather while another leads are left as they are.
    bench.pipeline.resign();
    bench.pipeline.append(Now::at_ms(2), Brings::messages(true), |records| records.extend(&[9; 8]));
    bench.pipeline.resign();
    assert!(bench.pipeline.arrivals_end().is_some());
}

#[test]
fn who_waits_goes_with_the_batch() {
    let waiter = |first, last| Waiter { port: PortId::default(), publisher: 1, first, last };
    let mut bench = Bench::with(CommitRule::Synced, "M");
    bench.pipeline.wait(waiter(1, 1));
    bench.pipeline.wait(waiter(2, 4));
    bench.pipeline.close_full(Now::at_ms(1), &mut bench.spare);
    bench.pipeline.append(Now::at_ms(1), Brings::STREAM, |records| records.extend(&[7; 8]));
    bench.pipeline.wait(waiter(5, 5));
    bench.pipeline.give_out(Now::at_ms(1), &mut bench.spare, &mut bench.out);
    assert!(!bench.written(0));
    let (closed, _) = bench.pipeline.take_committed().expect("it is written");
    assert_eq!(closed.waiters, [waiter(1, 4)], "those that follow on are one");
    bench.pipeline.put_waiters(closed.waiters);
    assert_eq!(bench.pipeline.take_waiting(), [waiter(5, 5)]);
}
