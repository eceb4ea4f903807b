//! Messages that die, where somebody takes them.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use message::record::Outcome;
use owner::Owner;
use queue::{Arrival, Command, Credit, Rules, Settings};

fn taken() -> Rules {
    Rules { takes_dead: true, ..Rules::default() }
}

#[test]
fn the_refused_die() {
    for takes_dead in [false, true] {
        let mut owner = Owner::new(false);
        owner.rules(Rules { takes_dead, ..taken() });
        owner.consume(0, Credit::Prefetch(0));
        owner.publish(5);
        owner.dispatch();
        let told = owner.settle(0, 1, 3, Outcome::Rejected);
        assert_eq!(told, if takes_dead { "rejected 1-3" } else { "+settle 1-3" });
        assert_eq!(owner.settle(0, 0, 0, Outcome::Accepted), "+settle 0-0");
        assert_eq!((owner.counts(), owner.fifo.dying()), ((0, 1, 5), if takes_dead { 3 } else { 0 }));
        // A message that was refused and has not failed is recorded as rejected.
        let told = owner.settle(0, 4, 4, Outcome::Undeliverable);
        assert_eq!(told, if takes_dead { "undeliverable 4-4" } else { "+settle 4-4" });
    }
}

#[test]
fn they_stay_until_they_are_dead_lettered_and_are_told_once() {
    let mut owner = Owner::new(false);
    owner.rules(taken());
    owner.consume(0, Credit::Prefetch(0));
    owner.publish(4);
    owner.dispatch();
    assert_eq!(owner.settle(0, 0, 3, Outcome::Rejected), "rejected 0-3");
    assert_eq!(owner.dispatch(), "");
    assert_eq!(owner.bury(1, 9), "+deadletter 1-3");
    assert_eq!(owner.bury(1, 9), "");
    assert_eq!((owner.counts(), owner.fifo.dying()), ((0, 0, 4), 1));
    owner.commit();
    assert_eq!((owner.counts(), owner.left()), ((0, 0, 1), vec![1, 2, 3]));
    // Nobody takes the dead any more: those already told of are still to be dead-lettered.
    owner.rules(Rules::default());
    assert_eq!(owner.bury(0, 0), "+deadletter 0-0");
    owner.commit();
    assert_eq!(owner.counts(), (0, 0, 0));
}

#[test]
fn the_expired_and_the_dropped_die() {
    let mut owner = Owner::with(Settings { ttl_ms: Some(50), ..Settings::default() });
    owner.rules(Rules { length_max: Some(2), drops_head: true, ..taken() });
    (0..3).for_each(|_| owner.arrive(Arrival::default()));
    assert_eq!(owner.dispatch(), "maxlen 0-0");
    assert_eq!(owner.at(1050), "expired 1-2");
    assert_eq!((owner.counts(), owner.fifo.dying()), ((0, 0, 3), 3));
    // A purge kills nobody, and spares the dying.
    assert_eq!(owner.apply(Command::Purge), "");
    assert_eq!(owner.bury(0, 2), "+deadletter 0-2");
}

#[test]
fn a_delivery_too_many_kills() {
    for takes_dead in [false, true] {
        let mut owner = Owner::new(true);
        owner.rules(Rules { delivery_limit: Some(1), takes_dead, ..taken() });
        owner.consume(0, Credit::Prefetch(0));
        owner.publish(3);
        assert_eq!(owner.dispatch(), "c0<0-2");
        owner.settle(0, 0, 1, Outcome::Failed);
        owner.settle(0, 2, 2, Outcome::Released);
        owner.commit();
        assert_eq!(owner.dispatch(), "c0<0-1!x1 c0<2-2!");
        // Released is no failure, however often.
        owner.settle(0, 1, 1, Outcome::Released);
        assert_eq!(owner.settle(0, 0, 0, Outcome::Failed), "+return 0-0");
        owner.commit();
        let told = owner.told();
        assert_eq!(told, if takes_dead { "limit 0-0" } else { "+drop 0-0" });
        assert_eq!(owner.dispatch(), "c0<1-1!x1");
        owner.bury(0, 0);
        owner.commit();
        assert_eq!(owner.counts(), (0, 2, 2));
    }
}

#[test]
fn a_return_too_many_kills() {
    for takes_dead in [false, true] {
        let mut owner = Owner::new(true);
        let rules = Rules { cancel_limit: Some(1), takes_dead, ..taken() };
        owner.rules(rules);
        owner.consume(0, Credit::Prefetch(0));
        owner.publish(3);
        assert_eq!(owner.dispatch(), "c0<0-2");
        owner.settle(0, 0, 1, Outcome::Released);
        // Failures are counted by themselves, however many.
        owner.settle(0, 2, 2, Outcome::Failed);
        owner.commit();
        assert_eq!(owner.dispatch(), "c0<0-1! c0<2-2!x1");
        owner.settle(0, 2, 2, Outcome::Failed);
        owner.settle(0, 1, 1, Outcome::Failed);
        assert_eq!(owner.settle(0, 0, 0, Outcome::Released), "+return 0-0");
        owner.commit();
        assert_eq!(owner.told(), if takes_dead { "limit 0-0" } else { "+drop 0-0" });
        owner.bury(0, 0);
        owner.commit();
        // Counts are recorded: a new owner goes on.
        owner.restart(rules);
        owner.consume(0, Credit::Prefetch(0));
        assert_eq!(owner.dispatch(), "c0<1-1!x1 c0<2-2!x2");
        owner.settle(0, 1, 2, Outcome::Released);
        owner.commit();
        assert_eq!(owner.told(), if takes_dead { "limit 1-1" } else { "+drop 1-1" });
        owner.bury(1, 1);
        owner.commit();
        assert_eq!(owner.dispatch(), "c0<2-2!x2");
        // A lower limit ends what is ready and came back before.
        owner.settle(0, 2, 2, Outcome::Failed);
        owner.commit();
        let lower = Rules { cancel_limit: Some(0), ..rules };
        assert_eq!(owner.rules(lower), if takes_dead { "limit 2-2" } else { "+drop 2-2" });
    }
    let mut classic = Owner::new(false);
    classic.rules(Rules { cancel_limit: Some(0), ..taken() });
    classic.consume(0, Credit::Prefetch(0));
    classic.publish(1);
    classic.dispatch();
    classic.settle(0, 0, 0, Outcome::Released);
    assert_eq!(classic.dispatch(), "c0<0-0!", "queues that do not count have no such limit");
}

#[test]
fn a_lower_limit_kills_what_is_ready() {
    let mut owner = Owner::new(true);
    owner.consume(0, Credit::Link(2));
    owner.publish(3);
    for _ in 0..2 {
        owner.dispatch();
        owner.settle(0, 0, 1, Outcome::Failed);
        owner.commit();
        owner.apply(Command::Credit { consumer: queue::ConsumerId(0), credit: 2, drain: false });
    }
    assert_eq!(owner.rules(Rules { delivery_limit: Some(2), ..taken() }), "");
    assert_eq!(owner.rules(Rules { delivery_limit: Some(1), ..taken() }), "limit 0-1");
    assert_eq!(owner.rules(Rules { delivery_limit: Some(0), ..taken() }), "");
    assert_eq!(owner.counts(), (1, 0, 3));
    assert_eq!(owner.dispatch(), "c0<2-2");
}

#[test]
fn after_a_restart_they_die_anew_or_are_handed_out_once_more() {
    let rules = Rules { delivery_limit: Some(0), length_max: Some(3), drops_head: true, ..taken() };
    let mut owner = Owner::with(Settings { counts: true, ttl_ms: Some(50), ..Settings::default() });
    owner.rules(rules);
    owner.consume(0, Credit::Link(3));
    (0..3).for_each(|_| owner.arrive(Arrival::default()));
    owner.dispatch();
    assert_eq!(owner.settle(0, 0, 0, Outcome::Rejected), "rejected 0-0");
    owner.settle(0, 1, 1, Outcome::Failed);
    owner.commit();
    assert_eq!(owner.told(), "limit 1-1");
    owner.now_ms = 1020;
    (0..4).for_each(|_| owner.arrive(Arrival::default()));
    assert_eq!(owner.dispatch(), "maxlen 3-3");
    assert_eq!(owner.restart(rules), "limit 1-1 maxlen 0-0 maxlen 2-3");
    owner.consume(0, Credit::Link(1));
    assert_eq!(owner.at(1030), "c0<4-4!");
    assert_eq!(owner.at(1070), "expired 5-6");
}

/// A message that is settled by a record of another owner dies no more.
#[test]
fn records_end_the_dying() {
    let mut owner = Owner::new(false);
    owner.rules(taken());
    owner.consume(0, Credit::Prefetch(0));
    owner.publish(4);
    owner.dispatch();
    owner.fifo.settled(owner::range(1, 1), &mut owner.effects);
    assert_eq!(owner.settle(0, 0, 2, Outcome::Rejected), "rejected 0-0 rejected 2-2");
    owner.fifo.settled(owner::range(2, 2), &mut owner.effects);
    assert_eq!(owner.fifo.dying(), 1);
    assert_eq!(owner.bury(0, 3), "+deadletter 0-0");
}
