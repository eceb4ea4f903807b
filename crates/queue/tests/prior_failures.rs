//! Messages that failed before they came: dead letters.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use base::id::QueueSeq;
use message::record::Outcome;
use owner::Owner;
use queue::{Arrival, Credit, Fifo, Recovery, Rules};

/// One message after the other that failed so often before it came.
fn came(counts: bool, failures: &[u16]) -> Owner {
    let mut owner = Owner::new(counts);
    owner.tells_acquired = true;
    arrive(&mut owner, failures);
    owner
}

fn arrive(owner: &mut Owner, failures: &[u16]) {
    failures.iter().for_each(|&failures| owner.arrive(Arrival { failures, ..Arrival::default() }));
}

#[test]
fn they_are_handed_out_in_order_and_marked() {
    for (counts, expected) in [
        (true, "c0<0-0/0 c0<1-2!x1/1 c0<3-3!x2/2 c0<4-4/0"),
        // Elsewhere the count is in the message.
        (false, "c0<0-0/0 c0<1-2!/0 c0<3-3!/0 c0<4-4/0"),
    ] {
        let mut owner = came(counts, &[0, 1, 1, 2, 0]);
        owner.consume(0, Credit::Prefetch(0));
        assert_eq!(owner.dispatch(), expected);
    }
    let mut owner = came(true, &[0, 3]);
    owner.fifo.add_getter(queue::ConsumerId(0));
    assert_eq!(owner.get(0), "c0<0-0/0 +settle 0-0");
    assert_eq!(owner.get(0), "c0<1-1!x3/3 +settle 1-1");
}

#[test]
fn their_failures_go_on_from_there() {
    let mut owner = came(true, &[2, 2, 2]);
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<0-2!x2/2");
    owner.settle(0, 0, 0, Outcome::Failed);
    owner.settle(0, 1, 1, Outcome::Released);
    owner.commit();
    assert_eq!(owner.dispatch(), "c0<0-0!x3/1 c0<1-1!x2/1");
    assert_eq!([0, 1, 2].map(|seq| owner.fifo.failed(QueueSeq(seq))), [3, 2, 2]);
    owner.settle(0, 0, 2, Outcome::Accepted);
    owner.commit();
    owner.dispatch();
    assert!(!owner.fifo.has_features(), "the rare state goes with them");
}

#[test]
fn elsewhere_this_owners_failures_count() {
    let mut owner = came(false, &[2]);
    owner.consume(0, Credit::Prefetch(0));
    owner.dispatch();
    owner.settle(0, 0, 0, Outcome::Failed);
    assert_eq!(owner.dispatch(), "c0<0-0!x1/0");
    assert_eq!(owner.fifo.failed(QueueSeq(0)), 1);
}

#[test]
fn they_are_given_one_more_chance() {
    let limited = Rules { delivery_limit: Some(2), ..Rules::default() };
    let mut owner = came(true, &[9]);
    assert_eq!(owner.rules(limited), "");
    assert_eq!(owner.restart(limited), "");
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<0-0!x9/9");
    owner.settle(0, 0, 0, Outcome::Released);
    owner.commit();
    assert_eq!(owner.told(), "+drop 0-0");
}

#[test]
fn they_survive_a_clean_end() {
    for (counts, expected) in
        [(true, "c0<0-0!/0 c0<1-1!x4/4 c0<2-3/0 c0<4-4!x1/1 c0<5-5/0"), (false, "c0<0-1!/0 c0<2-5/0")]
    {
        let mut owner = came(counts, &[0, 4, 0, 0, 1, 0]);
        let bytes = owner.snapshot();
        owner.fifo = Fifo::read_snapshot(&bytes).unwrap();
        assert_eq!(owner.snapshot(), bytes);
        owner.fifo.recover(Recovery::Clean(QueueSeq(2)), &mut owner.effects);
        owner.consume(0, Credit::Prefetch(0));
        assert_eq!(owner.dispatch(), expected);
    }
}

#[test]
fn a_million_cost_as_much_as_one() {
    let mut fifo = came(true, &[1]).fifo;
    let arrival = Arrival { failures: 1, ..Arrival::default() };
    let one = fifo.memory_bytes();
    (1..1_000_000).for_each(|at| _ = fifo.arrive(base::id::LogIndex(at * 8), &arrival));
    let places = Fifo::memory_bytes(&{
        let mut plain = Fifo::new(fifo.settings());
        (0..1_000_000).for_each(|at| _ = plain.enqueue(base::id::LogIndex(at * 8), false));
        plain
    });
    assert!(fifo.memory_bytes() <= places + one, "{} and {places}", fifo.memory_bytes());
}
