//! Sizes that are asked for late: the count until all are known, and the records that are taken.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use base::id::QueueSeq;
use message::record::{Outcome, SizesKept};
use owner::{Owner, range};
use queue::{Arrival, Command, Credit, Rules, Settings};

/// Keeps sizes from now on, of all.
fn keep(owner: &mut Owner, sizes: SizesKept) {
    owner.fifo.configure(Settings { sizes, ..owner.fifo.settings() });
}

/// A record came with these sizes: the messages to be weighed after it, and the ready bytes.
fn weigh(owner: &mut Owner, first: u64, last: u64, sizes: &[(u64, u32)]) -> (Option<(u64, u64)>, u64) {
    let sizes = sizes.iter().map(|(seq, bytes)| (QueueSeq(*seq), *bytes));
    owner.fifo.weigh(range(first, last), sizes);
    (left(owner), owner.fifo.ready_bytes())
}

fn left(owner: &Owner) -> Option<(u64, u64)> {
    owner.fifo.to_weigh().map(|range| (range.first.0, range.last.0))
}

fn with(count: u64) -> Owner {
    let mut owner = Owner::new(false);
    owner.publish(count);
    keep(&mut owner, SizesKept::All);
    owner
}

#[test]
fn in_order_and_never_more_than_there_is() {
    let mut owner = with(6);
    owner.arrive(Arrival { bytes: 1000, ..Arrival::default() });
    assert_eq!((left(&owner), owner.fifo.ready_bytes()), (Some((0, 5)), 1000));
    // One that leaves something out says nothing, nor does one about messages that are gone from the queue.
    assert_eq!(weigh(&mut owner, 1, 5, &[(1, 9)]), (Some((0, 5)), 1000));
    owner.fifo.settled(range(1, 1), &mut owner.effects);
    assert_eq!(weigh(&mut owner, 0, 2, &[(0, 1), (1, 7), (2, 2)]), (Some((3, 5)), 1003));
    // It comes twice, or goes further than it may.
    assert_eq!(weigh(&mut owner, 0, 2, &[(0, 100), (1, 7), (2, 200)]), (Some((3, 5)), 1003));
    assert_eq!(weigh(&mut owner, 0, 99, &[(3, 4), (5, 8), (6, 5)]), (None, 1015));
    assert_eq!(weigh(&mut owner, 0, 99, &[(4, 4)]), (None, 1015));
}

#[test]
fn what_is_held_or_waits_counts_when_it_is_ready() {
    let mut owner = Owner::new(true);
    owner.publish(4);
    let due_at_ms = owner.now_ms + 50;
    owner.arrive(Arrival { due_at_ms, ..Arrival::default() });
    owner.consume(0, Credit::Link(2));
    owner.dispatch();
    keep(&mut owner, SizesKept::All);
    let sizes = [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16)];
    assert_eq!(weigh(&mut owner, 0, 4, &sizes), (None, 12));
    owner.rules(Rules { bytes_max: Some(28), ..Rules::default() });
    assert!(owner.fifo.is_full(0, 0));
    owner.settle(0, 0, 1, Outcome::Released);
    owner.commit();
    assert_eq!(owner.fifo.ready_bytes(), 15);
    owner.at(due_at_ms);
    assert_eq!(owner.fifo.ready_bytes(), 31);
    owner.restart(Rules::default());
    assert_eq!(owner.fifo.ready_bytes(), 15);
}

#[test]
fn the_limit_holds_as_far_as_is_known() {
    let mut owner = with(6);
    assert_eq!(owner.rules(Rules { bytes_max: Some(250), drops_head: true, ..Rules::default() }), "");
    assert_eq!(weigh(&mut owner, 0, 1, &[(0, 100), (1, 100)]), (Some((2, 5)), 200));
    assert_eq!(owner.dispatch(), "");
    assert_eq!(weigh(&mut owner, 2, 3, &[(2, 100), (3, 100)]), (Some((4, 5)), 400));
    assert_eq!(owner.dispatch(), "+drop 0-1");
    owner.commit();
    // A message that comes counts at once, and one of unknown size goes in its turn.
    owner.arrive(Arrival { bytes: 250, ..Arrival::default() });
    assert_eq!(owner.dispatch(), "+drop 2-3");
    owner.arrive(Arrival { bytes: 1, ..Arrival::default() });
    assert_eq!(owner.dispatch(), "+drop 4-6");
    owner.commit();
    assert_eq!(weigh(&mut owner, 4, 5, &[]), (None, 1));
}

#[test]
fn another_setting_begins_anew_or_ends_it() {
    let mut owner = with(3);
    weigh(&mut owner, 0, 0, &[(0, 5)]);
    keep(&mut owner, SizesKept::All);
    assert_eq!(left(&owner), Some((1, 2)));
    owner.restart(Rules::default());
    assert_eq!((left(&owner), owner.fifo.ready_bytes()), (Some((1, 2)), 5));
    keep(&mut owner, SizesKept::None);
    assert_eq!((left(&owner), owner.fifo.ready_bytes()), (None, 0));
    assert_eq!(weigh(&mut owner, 0, 2, &[(0, 5)]), (None, 0));
    // As it was told before there was weighing.
    keep(&mut owner, SizesKept::Coming);
    owner.arrive(Arrival { bytes: 7, ..Arrival::default() });
    assert_eq!((weigh(&mut owner, 0, 2, &[(0, 5)]), left(&owner)), ((None, 7), None));
    keep(&mut owner, SizesKept::All);
    assert_eq!(weigh(&mut owner, 0, 3, &[(0, 5), (1, 6), (2, 7), (3, 9)]), (None, 25));
    // Nothing is in it, nothing is to be weighed.
    owner.apply(Command::Purge);
    owner.commit();
    keep(&mut owner, SizesKept::None);
    keep(&mut owner, SizesKept::All);
    assert_eq!(left(&owner), None);
}

/// In front of sizes that are there: four bytes a message, wherever it is.
#[test]
fn memory_of_what_is_weighed_late() {
    let mut owner = with(200_000);
    (0..100_000).for_each(|_| owner.arrive(Arrival { bytes: 1, ..Arrival::default() }));
    let before = owner.fifo.memory_bytes();
    for first in (0..200_000).step_by(1000) {
        let sizes: Vec<_> = (first..first + 1000).map(|seq| (seq, 3)).collect();
        weigh(&mut owner, first, first + 999, &sizes);
    }
    assert_eq!((left(&owner), owner.fifo.ready_bytes()), (None, 700_000));
    let more = owner.fifo.memory_bytes() - before;
    assert!(more < 900_000, "{more}");
    owner.fifo.settled(range(0, 299_998), &mut owner.effects);
    assert!(owner.fifo.memory_bytes() < 6_000, "{}", owner.fifo.memory_bytes());
    assert_eq!(owner.fifo.ready_bytes(), 1);
}
