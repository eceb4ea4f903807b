//! How long a queue may be.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use message::record::{Outcome, SizesKept};
use owner::Owner;
use queue::{Arrival, Command, ConsumerId, Credit, Rules, Settings};

fn longest(length_max: u64) -> Rules {
    Rules { length_max: Some(length_max), drops_head: true, ..Rules::default() }
}

fn sized() -> Owner {
    Owner::with(Settings { sizes: SizesKept::All, ..Settings::default() })
}

fn of(bytes: u32) -> Arrival {
    Arrival { bytes, ..Arrival::default() }
}

#[test]
fn the_oldest_go() {
    let mut owner = Owner::new(false);
    owner.rules(longest(3));
    owner.publish(5);
    assert_eq!(owner.dispatch(), "+drop 0-1");
    assert_eq!(owner.counts(), (3, 0, 5));
    owner.commit();
    assert_eq!((owner.counts(), owner.left()), ((3, 0, 3), vec![0, 1]));
    // A smaller limit drops at once.
    assert_eq!(owner.rules(longest(1)), "+drop 2-3");
    assert_eq!(owner.rules(Rules::default()), "");
    owner.publish(9);
    assert_eq!(owner.dispatch(), "");
}

#[test]
fn only_ready_messages_count_and_consumers_come_first() {
    let mut owner = Owner::new(false);
    owner.rules(longest(0));
    owner.consume(0, Credit::Link(2));
    owner.publish(4);
    assert_eq!(owner.dispatch(), "c0<0-1 +drop 2-3");
    // A message that comes back counts, and is the one that would be handed out next.
    owner.rules(longest(2));
    owner.publish(2);
    assert_eq!(owner.dispatch(), "");
    owner.settle(0, 0, 1, Outcome::Released);
    assert_eq!(owner.dispatch(), "+drop 0-1");
    owner.commit();
    assert_eq!(owner.counts(), (2, 0, 2));
}

#[test]
fn bytes_are_those_of_ready_messages() {
    let mut owner = sized();
    owner.rules(Rules { bytes_max: Some(100), drops_head: true, ..Rules::default() });
    [30, 30, 30].into_iter().for_each(|bytes| owner.arrive(of(bytes)));
    assert_eq!((owner.dispatch(), owner.fifo.ready_bytes()), (String::new(), 90));
    owner.arrive(of(35));
    assert_eq!((owner.dispatch().as_str(), owner.fifo.ready_bytes()), ("+drop 0-0", 95));
    owner.consume(0, Credit::Link(1));
    assert_eq!((owner.dispatch().as_str(), owner.fifo.ready_bytes()), ("c0<1-1", 65));
    owner.arrive(of(35));
    assert_eq!((owner.dispatch(), owner.fifo.ready_bytes()), (String::new(), 100));
    owner.settle(0, 1, 1, Outcome::Failed);
    assert_eq!(owner.fifo.ready_bytes(), 130);
    assert_eq!((owner.dispatch().as_str(), owner.fifo.ready_bytes()), ("+drop 1-1", 100));
    // One that is larger than the limit takes all before it along.
    owner.arrive(of(101));
    assert_eq!((owner.dispatch().as_str(), owner.fifo.ready_bytes()), ("+drop 2-5", 0));
    owner.commit();
    assert_eq!(owner.counts(), (0, 0, 0));
}

#[test]
fn bytes_survive_and_follow_whatever_happens() {
    let mut owner = sized();
    [1, 2, 4, 8, 16, 32].into_iter().for_each(|bytes| owner.arrive(of(bytes)));
    owner.consume(0, Credit::Link(2));
    owner.dispatch();
    assert_eq!(owner.fifo.ready_bytes(), 60);
    // A record this owner did not ask for: one held, one ready.
    owner.fifo.settled(owner::range(1, 2), &mut owner.effects);
    assert_eq!(owner.fifo.ready_bytes(), 56);
    owner.restart(Rules::default());
    assert_eq!(owner.fifo.ready_bytes(), 57);
    assert_eq!(owner.apply(Command::Purge), "+purge 0-0 +purge 3-5");
    assert_eq!((owner.fifo.ready_bytes(), owner.fifo.ready()), (0, 0));
    owner.fifo.configure(Settings::default());
    owner.arrive(of(9));
    assert_eq!(owner.fifo.ready_bytes(), 0);
}

#[test]
fn a_queue_that_refuses_says_when_it_is_full() {
    let mut owner = sized();
    let rules = Rules { length_max: Some(3), bytes_max: Some(100), ..Rules::default() };
    owner.rules(rules);
    for (bytes, coming, coming_bytes, is_full) in
        [(10, 0, 0, false), (10, 0, 0, false), (0, 1, 0, true), (0, 0, 80, true), (0, 0, 79, false)]
    {
        if bytes > 0 {
            owner.arrive(of(bytes));
        }
        assert_eq!(owner.fifo.is_full(coming, coming_bytes), is_full, "{bytes} {coming} {coming_bytes}");
    }
    owner.arrive(of(10));
    owner.arrive(of(10));
    // Nothing goes, over any limit; held messages do not count.
    assert_eq!((owner.dispatch(), owner.fifo.is_full(0, 0)), (String::new(), true));
    owner.consume(0, Credit::Link(2));
    owner.dispatch();
    assert!(!owner.fifo.is_full(0, 0));
    owner.apply(Command::Close { consumer: ConsumerId(0) });
    assert!(owner.fifo.is_full(0, 0));
    owner.rules(Rules { drops_head: true, ..rules });
    assert!(!owner.fifo.is_full(9, 999));
}

#[test]
fn over_the_limit_after_a_restart() {
    let mut owner = Owner::new(false);
    owner.publish(4);
    owner.consume(0, Credit::Link(2));
    owner.dispatch();
    assert_eq!(owner.rules(longest(2)), "");
    assert_eq!(owner.counts(), (2, 2, 4));
    assert_eq!(owner.restart(longest(2)), "+drop 0-1");
    assert_eq!(owner.counts(), (2, 0, 4));
}

/// The cost of a size: four bytes a message.
#[test]
fn sizes_of_a_million() {
    let mut owner = sized();
    (0..1_000_000).for_each(|at| owner.arrive(of(at)));
    assert!(owner.fifo.memory_bytes() < 8_900_000, "{}", owner.fifo.memory_bytes());
    owner.fifo.settled(owner::range(1, 999_999), &mut owner.effects);
    assert!(owner.fifo.memory_bytes() < 6_000, "{}", owner.fifo.memory_bytes());
    assert_eq!(owner.fifo.ready_bytes(), 0);
}
