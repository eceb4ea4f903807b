//! When messages end by themselves.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use message::record::Outcome;
use owner::Owner;
use queue::{Arrival, Command, ConsumerId, Credit, Rules, Settings};

fn lives_ms(ttl_ms: u64) -> Owner {
    Owner::with(Settings { ttl_ms: Some(ttl_ms), ..Settings::default() })
}

fn until(expires_at_ms: u64) -> Arrival {
    Arrival { expires_at_ms, ..Arrival::default() }
}

#[test]
fn the_lower_of_both_times_counts() {
    for (ttl_ms, expires_at_ms, deadline_ms) in [
        (None, 0, None),
        (None, 1500, Some(1500)),
        (Some(300), 0, Some(1300)),
        (Some(300), 1200, Some(1200)),
        (Some(300), 1400, Some(1300)),
        (Some(u64::MAX), 0, Some(u64::MAX)),
    ] {
        let mut owner = Owner::with(Settings { ttl_ms, ..Settings::default() });
        owner.arrive(until(expires_at_ms));
        assert_eq!(owner.fifo.next_deadline_ms(), deadline_ms);
        let Some(deadline_ms) = deadline_ms else { continue };
        assert_eq!(owner.at(deadline_ms - 1), "");
        assert_eq!(owner.at(deadline_ms), "+expire 0-0");
        assert_eq!((owner.counts(), owner.fifo.next_deadline_ms()), ((0, 0, 1), None));
        owner.commit();
        assert_eq!((owner.counts(), owner.left()), ((0, 0, 0), vec![0]));
    }
}

#[test]
fn expires_anywhere_in_the_queue() {
    let mut owner = Owner::new(false);
    [0, 2000, 3000, 2000, 1500].into_iter().for_each(|at_ms| owner.arrive(until(at_ms)));
    assert_eq!(owner.at(1999), "+expire 4-4");
    assert_eq!(owner.at(2000), "+expire 1-1 +expire 3-3");
    assert_eq!(owner.counts(), (2, 0, 5));
    owner.consume(0, Credit::Link(1));
    assert_eq!(owner.dispatch(), "c0<0-0");
    owner.commit();
    assert_eq!(owner.at(5000), "+expire 2-2");
    owner.commit();
    assert_eq!(owner.counts(), (0, 1, 1));
}

#[test]
fn no_time_at_all_is_one_chance() {
    let mut owner = lives_ms(0);
    owner.consume(0, Credit::Link(2));
    owner.publish(0);
    (0..3).for_each(|_| owner.arrive(Arrival::default()));
    assert_eq!(owner.dispatch(), "c0<0-1 +expire 2-2");
    // A budget that ends early is no chance for the rest.
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 9, drain: false });
    (0..3).for_each(|_| owner.arrive(Arrival::default()));
    assert_eq!(owner.fifo.dispatch(1000, 2, &mut owner.effects), 2);
    assert_eq!(owner.told(), "c0<3-4");
    assert_eq!(owner.fifo.next_deadline_ms(), Some(1000));
    assert_eq!(owner.dispatch(), "c0<5-5");
}

/// The first message with a time in a queue that knew of none has its chance as well.
#[test]
fn the_first_that_has_a_time_is_offered_too() {
    let mut owner = Owner::new(false);
    owner.publish(1);
    owner.dispatch();
    owner.arrive(until(1000));
    owner.consume(0, Credit::Link(2));
    assert_eq!(owner.at(1500), "c0<0-1");
}

#[test]
fn what_is_due_and_was_offered_is_not_handed_out() {
    let mut owner = lives_ms(100);
    (0..3).for_each(|_| owner.arrive(Arrival::default()));
    assert_eq!(owner.dispatch(), "");
    owner.consume(0, Credit::Prefetch(0));
    owner.fifo.add_getter(ConsumerId(1));
    owner.arrive(Arrival { expires_at_ms: 9999, ..Arrival::default() });
    owner.now_ms = 1200;
    assert_eq!(owner.get(1), "+expire 0-2 c1<3-3 +settle 3-3");
    assert_eq!(owner.get(1), "empty");
}

#[test]
fn what_is_held_ends_when_it_comes_back() {
    for counts in [false, true] {
        let mut owner = Owner::with(Settings { counts, ttl_ms: Some(100), ..Settings::default() });
        owner.consume(0, Credit::Link(3));
        (0..3).for_each(|_| owner.arrive(Arrival::default()));
        assert_eq!(owner.dispatch(), "c0<0-2");
        assert_eq!(owner.at(1100), "");
        assert_eq!((owner.counts(), owner.fifo.next_deadline_ms()), ((0, 3, 3), None));
        owner.settle(0, 1, 1, Outcome::Released);
        owner.commit();
        assert_eq!(owner.at(1101), "+expire 1-1", "counts: {counts}");
        owner.settle(0, 0, 0, Outcome::Accepted);
        owner.apply(Command::Close { consumer: ConsumerId(0) });
        owner.commit();
        assert_eq!(owner.at(1102), "+expire 2-2", "counts: {counts}");
        owner.commit();
        assert_eq!((owner.counts(), owner.fifo.head()), ((0, 0, 0), owner.fifo.next_seq()));
    }
}

#[test]
fn a_change_is_about_what_comes_after_it() {
    let mut owner = Owner::new(false);
    owner.publish(1);
    owner.fifo.configure(Settings { ttl_ms: Some(10), ..Settings::default() });
    assert!(!owner.fifo.takes_plain());
    owner.arrive(Arrival::default());
    owner.fifo.configure(Settings::default());
    assert!(owner.fifo.takes_plain());
    owner.arrive(Arrival::default());
    assert_eq!(owner.at(9999), "+expire 1-1");
    owner.commit();
    assert_eq!(owner.counts(), (2, 0, 2));
}

#[test]
fn times_survive_and_what_is_due_ends_first() {
    let mut owner = lives_ms(100);
    (0..3).for_each(|_| owner.arrive(Arrival::default()));
    owner.arrive(until(1050));
    owner.consume(0, Credit::Link(1));
    assert_eq!(owner.dispatch(), "c0<0-0");
    assert_eq!(owner.at(1060), "+expire 3-3");
    assert_eq!(owner.restart(Rules::default()), "");
    // Messages that were held, and those on their way out, are ready again.
    assert_eq!((owner.counts(), owner.fifo.next_deadline_ms()), ((4, 0, 4), Some(1050)));
    owner.consume(0, Credit::Link(1));
    assert_eq!(owner.at(1070), "+expire 3-3 c0<0-0!");
    assert_eq!(owner.at(1100), "+expire 1-2");
}

/// One time to live for all is kept in runs; a time for each costs its own; those that left are forgotten.
#[test]
fn memory_of_a_million() {
    let mut owner = lives_ms(60_000);
    let plain = {
        let mut owner = Owner::new(false);
        owner.publish(1_000_000);
        owner.fifo.memory_bytes()
    };
    for at_ms in 0..1000 {
        owner.now_ms = at_ms;
        (0..1000).for_each(|_| owner.arrive(Arrival::default()));
    }
    let one = owner.fifo.memory_bytes() - plain;
    assert!(one < 100_000, "one time for all costs {one} bytes");

    let mut owner = Owner::new(false);
    let mut dice = base::Random::new(7);
    for _ in 0..1_000_000 {
        owner.arrive(until(1 + dice.below(1 << 40)));
    }
    let own = owner.fifo.memory_bytes() - plain;
    assert!(own < 48_000_000, "own times cost {own} bytes");
    // Handed out and settled long before their time.
    owner.consume(0, Credit::Prefetch(0));
    while owner.fifo.ready() > 0 {
        owner.at(0);
    }
    owner.settle(0, 0, 999_989, Outcome::Accepted);
    owner.commit();
    owner.at(0);
    assert_eq!(owner.counts(), (0, 10, 10));
    assert!(owner.fifo.memory_bytes() < 20_000, "{} bytes", owner.fifo.memory_bytes());
}

/// A million that are due at once end over several turns, and none is forgotten.
#[test]
fn what_is_due_at_once_ends_in_bounded_steps() {
    let mut owner = Owner::new(false);
    for at_ms in 0..10_000 {
        owner.arrive(until(2000 + at_ms));
    }
    let mut turns = 0;
    while owner.fifo.ready() > 0 {
        assert!(owner.fifo.next_deadline_ms().is_some_and(|at_ms| at_ms <= 50_000));
        owner.at(50_000);
        turns += 1;
    }
    assert_eq!(turns, 2, "4096 before handing out and as many after");
    owner.commit();
    assert_eq!((owner.counts(), owner.fifo.next_deadline_ms()), ((0, 0, 0), None));
}
