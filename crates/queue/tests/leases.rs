//! Messages are with a consumer for the time of a lease; then they are another's, and the consumer goes on.

#[allow(dead_code, reason = "shared; not every test needs all of it")]
use crate::owner;

use message::record::Outcome;
use owner::{Owner, group, range};
use queue::{Arrival, Command, Consume, ConsumerId, Credit, LATE_MAX, Retry, Rules};

const LEASE: Rules = Rules { lease_ms: Some(1000), ..NONE };

const NONE: Rules = Rules {
    length_max: None,
    bytes_max: None,
    drops_head: false,
    delivery_limit: None,
    cancel_limit: None,
    takes_dead: false,
    single_active: false,
    retry: None,
    fairness: queue::Fairness::RoundRobin,
    unsettled_max: None,
    lease_ms: None,
};

/// A queue that leases, with messages and consumers.
fn bench(counts: bool, rules: Rules, messages: u64, credits: &[Credit]) -> Owner {
    let mut owner = Owner::new(counts);
    owner.rules(rules);
    for (slot, credit) in credits.iter().enumerate() {
        owner.consume(slot as u32, *credit);
    }
    owner.publish(messages);
    owner
}

/// A look at that time: `c0 1-3`, the leases of these are over, with consumer 0.
fn look(owner: &mut Owner, now_ms: u64) -> String {
    let late = owner.fifo.look(now_ms, &mut owner.effects);
    assert_eq!(owner.told(), "", "a look changes nothing");
    let late = late.iter().map(|late| {
        assert!(late.is_leased);
        let ranges = late.ranges.iter().map(|range| format!(" {}-{}", range.first, range.last));
        format!("c{}{}", late.consumer.0, ranges.collect::<String>())
    });
    late.collect::<Vec<String>>().join(", ")
}

/// The connection answers: the records, and what is handed out then.
fn over(owner: &mut Owner, slot: u32, (first, last): (u64, u64), is_late: bool) -> String {
    owner.fifo.lease_over(ConsumerId(slot), &[range(first, last)], is_late, &mut owner.effects);
    owner.fifo.lease_on(ConsumerId(slot), &[range(first, last)]);
    let told = owner.told();
    owner.commit();
    let given = owner.dispatch();
    format!("{told}; {given}")
}

fn settle_over(owner: &mut Owner, slot: u32, first: u64, last: u64) -> String {
    owner.fifo.settle_over(ConsumerId(slot), range(first, last));
    owner.dispatch()
}

#[test]
fn goes_back_to_its_place_and_to_another_consumer() {
    for counts in [false, true] {
        let mut owner = bench(counts, LEASE, 5, &[Credit::Prefetch(1), Credit::Prefetch(2)]);
        assert_eq!(owner.dispatch(), "c0<0-0 c1<1-2");
        assert_eq!(look(&mut owner, 100), "");
        assert_eq!(look(&mut owner, 1099), "");
        assert_eq!(look(&mut owner, 1100), "c0 0-0, c1 1-2");
        assert_eq!(look(&mut owner, 5000), "", "once, until there is an answer");
        owner.settle(1, 1, 2, Outcome::Accepted);
        let record = if counts { "+return 0-0" } else { "" };
        assert_eq!(over(&mut owner, 0, (0, 0), true), format!("{record}; c1<0-0!x1 c1<3-3"), "{counts}");
        assert!(owner.fifo.has_late(), "the first consumer has no room for more");
        assert_eq!(owner.settle(0, 0, 0, Outcome::Accepted), "", "it does not hold it");
        assert_eq!(settle_over(&mut owner, 0, 0, 0), "c0<4-4", "it goes on once it has settled");
        assert_eq!(owner.settle(1, 0, 0, Outcome::Accepted), "+settle 0-0");
    }
}

#[test]
fn settles_that_come_before_the_answer_count() {
    let mut owner = bench(true, LEASE, 2, &[Credit::Prefetch(2)]);
    owner.dispatch();
    look(&mut owner, 0);
    assert_eq!(look(&mut owner, 1000), "c0 0-1");
    assert_eq!(owner.settle(0, 0, 0, Outcome::Accepted), "+settle 0-0");
    assert_eq!(over(&mut owner, 0, (1, 1), true), "+return 1-1; c0<1-1!x1");
    assert_eq!(owner.counts(), (0, 1, 1));
}

#[test]
fn messages_that_are_settled_but_for_a_transaction_are_leased_anew() {
    let mut owner = bench(true, LEASE, 1, &[Credit::Prefetch(2)]);
    owner.dispatch();
    look(&mut owner, 0);
    assert_eq!(look(&mut owner, 1000), "c0 0-0");
    owner.fifo.lease_on(ConsumerId(0), &[range(0, 0)]);
    assert_eq!(look(&mut owner, 1100), "");
    assert_eq!(look(&mut owner, 2100), "c0 0-0");
}

#[test]
fn late_deliveries_take_room_of_the_prefetch() {
    let mut owner = bench(false, LEASE, 3, &[Credit::Prefetch(4)]);
    assert_eq!(owner.dispatch(), "c0<0-2");
    look(&mut owner, 0);
    look(&mut owner, 1000);
    assert_eq!(over(&mut owner, 0, (0, 0), true), "; c0<0-0!x1", "of four two are held, and one is late");
    look(&mut owner, 1100);
    assert_eq!(look(&mut owner, 2100), "c0 0-0", "the same message a second time");
    assert_eq!(over(&mut owner, 0, (0, 0), true), "; ", "two are held, and two are late");
    assert_eq!(owner.counts(), (1, 2, 3));
    assert_eq!(settle_over(&mut owner, 0, 0, 0), "c0<0-0!x2", "of two deliveries one is settled");
    assert_eq!(settle_over(&mut owner, 0, 0, 0), "");
    assert_eq!(settle_over(&mut owner, 0, 0, 9), "", "there is nothing late any more");
    owner.publish(2);
    assert_eq!(owner.dispatch(), "c0<3-3", "all four are held");
    look(&mut owner, 3000);
    over(&mut owner, 0, (1, 1), true);
    assert_eq!(owner.apply(Command::Prefetch { consumer: ConsumerId(0), prefetch: 6 }), "");
    assert_eq!(owner.dispatch(), "c0<1-1!x1 c0<4-4", "a prefetch is for what is late, too");
}

#[test]
fn without_a_prefetch_there_is_an_end_all_the_same() {
    let mut owner = bench(false, LEASE, LATE_MAX + 1, &[Credit::Prefetch(0)]);
    assert_eq!(owner.fifo.dispatch(0, 9999, &mut owner.effects), 2001);
    assert_eq!(owner.told(), format!("c0<0-{LATE_MAX}"));
    look(&mut owner, 0);
    look(&mut owner, 1000);
    assert_eq!(over(&mut owner, 0, (0, LATE_MAX - 2), true), "; c0<0-999!x1");
    assert_eq!(owner.dispatch(), "c0<1000-1998!x1");
    assert_eq!(over(&mut owner, 0, (LATE_MAX - 1, LATE_MAX - 1), true), "; ");
    assert_eq!(settle_over(&mut owner, 0, 5, 5), format!("c0<{}-{0}!x1", LATE_MAX - 1));
}

#[test]
fn a_lease_begins_anew_when_it_is_asked_for() {
    let mut owner = bench(true, LEASE, 2, &[Credit::Link(2)]);
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 2, drain: false });
    owner.dispatch();
    look(&mut owner, 0);
    for second in 1..20 {
        owner.fifo.renew(ConsumerId(0), range(0, 0));
        assert_eq!(look(&mut owner, second * 900), if second == 2 { "c0 1-1" } else { "" });
    }
    assert_eq!(look(&mut owner, 19 * 900 + 1000), "c0 0-0");
    owner.fifo.renew(ConsumerId(0), range(0, 1));
    assert_eq!(over(&mut owner, 0, (0, 1), false), "+return 0-1; ", "too late");
}

#[test]
fn a_message_that_came_back_otherwise_is_leased_anew() {
    for outcome in [Outcome::Released, Outcome::Failed] {
        let mut owner = bench(false, LEASE, 1, &[Credit::Prefetch(1)]);
        owner.dispatch();
        look(&mut owner, 0);
        assert_eq!(look(&mut owner, 1000), "c0 0-0");
        owner.settle(0, 0, 0, outcome);
        assert_eq!(owner.dispatch().replace("x1", ""), "c0<0-0!");
        assert_eq!(look(&mut owner, 1100), "");
        assert_eq!(look(&mut owner, 2100), "c0 0-0");
    }
}

#[test]
fn the_rule_may_come_and_go() {
    let mut owner = bench(true, NONE, 3, &[Credit::Prefetch(2)]);
    owner.fifo.watch(ConsumerId(0), 60_000);
    assert_eq!(owner.dispatch(), "c0<0-1");
    assert_eq!(look(&mut owner, 0), "");
    assert_eq!(owner.fifo.look_every_ms(), Some(60_000 / 64));
    owner.rules(LEASE);
    assert_eq!(owner.fifo.look_every_ms(), Some(15));
    assert_eq!(look(&mut owner, 1000), "c0 0-1", "counted from when they were seen first");
    assert_eq!(over(&mut owner, 0, (0, 1), true), "+return 0-1; ");
    owner.rules(NONE);
    assert_eq!(owner.dispatch(), "c0<0-1!x1", "its prefetch is as before");
    assert_eq!(owner.fifo.look_every_ms(), Some(60_000 / 64));
    assert_eq!(settle_over(&mut owner, 0, 0, 1), "", "late settles are passed over");
    assert_eq!((owner.fifo.has_late(), owner.counts()), (false, (1, 2, 3)));
    owner.rules(LEASE);
    owner.consume(1, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c1<2-2");
    owner.rules(NONE);
    owner.apply(Command::Close { consumer: ConsumerId(0) });
    assert_eq!(owner.fifo.look_every_ms(), None, "the other has no timeout");
}

#[test]
fn a_consumer_timeout_waits_for_the_rule_to_go() {
    let mut owner = bench(true, LEASE, 1, &[Credit::Prefetch(2)]);
    owner.fifo.watch(ConsumerId(0), 100);
    owner.dispatch();
    look(&mut owner, 0);
    assert_eq!(look(&mut owner, 999), "");
    owner.rules(NONE);
    assert_eq!(owner.fifo.look(1000, &mut owner.effects).len(), 1);
    assert_eq!(owner.told(), "+return 0-0");
    assert!(owner.fifo.has_late());
    owner.rules(LEASE);
    assert!(owner.fifo.has_late(), "it is late as before");
    owner.fifo.settle_late(ConsumerId(0), range(0, 0));
    assert!(!owner.fifo.has_late());
}

#[test]
fn limits_and_delays_hold_as_with_any_failure() {
    let dies = Rules { delivery_limit: Some(0), takes_dead: true, ..LEASE };
    let mut owner = bench(true, dies, 1, &[Credit::Prefetch(1)]);
    owner.dispatch();
    look(&mut owner, 0);
    look(&mut owner, 1000);
    owner.fifo.lease_over(ConsumerId(0), &[range(0, 0)], true, &mut owner.effects);
    assert_eq!(owner.told(), "+return 0-0");
    owner.commit();
    assert_eq!(owner.told(), "limit 0-0");

    let retry = Retry { failed: true, released: false, min_ms: 10, max_ms: 100 };
    let mut owner = bench(true, Rules { retry: Some(retry), ..LEASE }, 1, &[Credit::Prefetch(9)]);
    owner.dispatch();
    look(&mut owner, 0);
    look(&mut owner, 1000);
    let delayed = over(&mut owner, 0, (0, 0), true);
    assert!(!delayed.contains("c0<"), "{delayed}");
    assert_eq!(owner.fifo.delayed(), 1);
}

#[test]
fn groups_are_with_their_consumer_until_the_lease_is_over() {
    let mut owner = Owner::new(true);
    owner.fifo.group();
    owner.rules(LEASE);
    owner.consume(0, Credit::Prefetch(1));
    owner.consume(1, Credit::Prefetch(1));
    (0..2).for_each(|_| owner.arrive(Arrival { group: group(7), ..Arrival::default() }));
    assert_eq!(owner.dispatch(), "c0<0-0");
    look(&mut owner, 0);
    assert_eq!(look(&mut owner, 1000), "c0 0-0");
    assert_eq!(over(&mut owner, 0, (0, 0), true), "+return 0-0; c1<0-0!x1");
}

#[test]
fn the_active_consumer_makes_room_once_it_is_given_nothing() {
    let rules = Rules { single_active: true, ..LEASE };
    let mut owner = bench(true, rules, 2, &[Credit::Prefetch(2), Credit::Prefetch(2)]);
    owner.dispatch();
    look(&mut owner, 0);
    look(&mut owner, 1000);
    let first = over(&mut owner, 0, (0, 0), true);
    assert_eq!(first, "+return 0-0; ", "one is late and one is held: it waits for it");
    assert_eq!(over(&mut owner, 0, (1, 1), true), "+return 1-1; c0 relieved c1 active c1<0-1!x1");
}

#[test]
fn settling_consumers_and_gets() {
    let mut owner = Owner::new(false);
    owner.rules(LEASE);
    let (settled, exclusive, priority) = (true, false, 0);
    let consume = Consume {
        consumer: ConsumerId(0),
        credit: Credit::Prefetch(1),
        settled,
        exclusive,
        priority,
        selector: None,
    };
    owner.fifo.consume(consume).unwrap();
    owner.publish(1);
    assert_eq!(owner.dispatch(), "c0<0-0 +settle 0-0");
    owner.apply(Command::Close { consumer: ConsumerId(0) });
    owner.fifo.add_getter(ConsumerId(1));
    owner.commit();
    owner.publish(1);
    assert!(owner.fifo.take(ConsumerId(1), false, 0, &mut owner.effects));
    assert_eq!(owner.told(), "c1<1-1");
    look(&mut owner, 0);
    assert_eq!(look(&mut owner, 1000), "c1 1-1");
    assert_eq!(over(&mut owner, 1, (1, 1), true), "; ");
    assert_eq!(owner.counts(), (1, 0, 1));
}
