//! Looking at ready messages changes nothing, and sees those that a consumer could be given, in order of arrival.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use base::id::QueueSeq;
use message::record::Outcome;
use owner::Owner;
use queue::{Command, ConsumerId, Credit, Priorities, Rules, Settings};

/// Messages that a browser which begins at `from` sees, as in [`Owner::told`]; and that the queue is as before.
fn check(owner: &Owner, from: u64, expected: &str) {
    let before = (owner.snapshot(), owner.counts());
    let mut seen = Vec::new();
    let mut next = QueueSeq(from);
    while let Some(seq) = owner.fifo.next_ready_at(next) {
        let (redelivered, counts) = owner.fifo.past(seq);
        let again = if redelivered { "!" } else { "" };
        let failed = Some(counts.delivery_count).filter(|count| *count > 0);
        let failed = failed.map_or_else(String::new, |count| format!("x{count}"));
        seen.push(format!("{seq}{again}{failed}"));
        next = QueueSeq(seq.0 + 1);
    }
    assert_eq!(seen.join(" "), expected);
    assert_eq!((owner.snapshot(), owner.counts()), before);
}

#[test]
fn what_is_held_or_gone_is_passed_over() {
    for counts in [false, true] {
        let mut owner = Owner::new(counts);
        check(&owner, 0, "");
        owner.publish(6);
        check(&owner, 0, "0 1 2 3 4 5");
        check(&owner, 4, "4 5");
        owner.consume(0, Credit::Link(4));
        assert_eq!(owner.dispatch(), "c0<0-3");
        check(&owner, 0, "4 5");
        owner.settle(0, 0, 0, Outcome::Accepted);
        owner.settle(0, 1, 1, Outcome::Failed);
        owner.settle(0, 2, 2, Outcome::Released);
        owner.commit();
        check(&owner, 0, "1!x1 2! 4 5");
        check(&owner, 2, "2! 4 5");
        owner.apply(Command::Purge);
        owner.commit();
        check(&owner, 0, "");
        assert_eq!(owner.counts(), (0, 1, 1));
    }
}

#[test]
fn the_last_so_many_are_found_wherever_they_are() {
    let mut owner = Owner::new(false);
    let check = |owner: &Owner, rows: &[(u64, u64)]| {
        for (count, expected) in rows {
            assert_eq!(owner.fifo.last_ready(*count), QueueSeq(*expected), "{count}");
        }
    };
    check(&owner, &[(0, 0), (1, 0)]);
    owner.publish(100);
    check(&owner, &[(0, 100), (1, 99), (10, 90), (99, 1), (100, 0), (1000, 0)]);
    owner.consume(0, Credit::Link(80));
    owner.dispatch();
    check(&owner, &[(1, 99), (20, 80), (21, 0)]);
    // Some come back far in front, with a gap between.
    owner.settle(0, 3, 7, Outcome::Released);
    owner.settle(0, 40, 79, Outcome::Accepted);
    owner.commit();
    check(&owner, &[(20, 80), (21, 7), (24, 4), (25, 3), (26, 0)]);
    assert_eq!(owner.fifo.ready_from(QueueSeq(0), 100), 25);
    assert_eq!(owner.fifo.ready_from(QueueSeq(5), 3), 3);
    assert_eq!(owner.fifo.ready_from(QueueSeq(90), 100), 10);
    assert_eq!(owner.fifo.ready_from(QueueSeq(100), 100), 0);
}

#[test]
fn in_order_of_arrival_whatever_the_priority() {
    let mut owner = Owner::with(Settings { priorities: Priorities::UpTo(9), ..Settings::default() });
    owner.arrive_as(&[0, 5, 9, 5, 0]);
    check(&owner, 0, "0 1 2 3 4");
    owner.consume(0, Credit::Link(2));
    assert_eq!(owner.dispatch(), "c0<2-2 c0<1-1");
    check(&owner, 0, "0 3 4");
    owner.settle(0, 1, 1, Outcome::Released);
    check(&owner, 0, "0 1! 3 4");
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 9, drain: false });
    assert_eq!(owner.dispatch(), "c0<1-1! c0<3-3 c0<0-0 c0<4-4");
    check(&owner, 0, "");
}

#[test]
fn all_may_have_been_out_after_a_restart() {
    let mut owner = Owner::new(false);
    owner.publish(2);
    owner.restart(Rules::default());
    owner.publish(1);
    check(&owner, 0, "0! 1! 2");
}

#[test]
fn the_dying_are_seen_no_more() {
    let mut owner = Owner::new(false);
    owner.rules(Rules { takes_dead: true, length_max: Some(2), drops_head: true, ..Rules::default() });
    owner.publish(4);
    check(&owner, 0, "0 1 2 3");
    assert_eq!(owner.dispatch(), "maxlen 0-1");
    check(&owner, 0, "2 3");
}
