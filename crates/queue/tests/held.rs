//! Messages settled by somebody else than their holder, and ready ones that are rejected where they are.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use base::id::QueueSeq;
use message::record::Outcome;
use owner::{Owner, group, range};
use queue::{Arrival, Command, ConsumerId, Credit, Priorities, Rules, Settings};

/// A queue with these rules and messages, and consumers with so much credit each.
fn bench(counts: bool, rules: Rules, messages: u64, credits: &[Credit]) -> Owner {
    let mut owner = Owner::new(counts);
    owner.rules(rules);
    (0..).zip(credits).for_each(|(slot, credit)| owner.consume(slot, *credit));
    owner.publish(messages);
    owner
}

/// Settles those of these positions that are held, whoever holds them.
fn settle_held(owner: &mut Owner, positions: &[u64], outcome: Outcome) -> String {
    let positions: Vec<QueueSeq> = positions.iter().map(|position| QueueSeq(*position)).collect();
    let held = owner.fifo.held_among(&positions);
    let told =
        held.into_iter().map(|(QueueSeq(seq), ConsumerId(slot))| owner.settle(slot, seq, seq, outcome));
    let told: Vec<String> = told.collect();
    owner.commit();
    told.join(" ")
}

fn reject(owner: &mut Owner, first: u64, last: u64) -> String {
    owner.apply(Command::Reject { range: range(first, last) })
}

#[test]
fn a_holder_has_room_again_and_settles_in_vain() {
    let check = |rules: Rules, credit: Credit, is_room_free: bool| {
        for counts in [false, true] {
            let mut owner = bench(counts, rules, 5, &[credit, credit]);
            assert_eq!(owner.dispatch(), "c0<0-0 c1<1-1 c0<2-2 c1<3-3");
            assert_eq!(settle_held(&mut owner, &[0, 3, 4, 9], Outcome::Accepted), "+settle 0-0 +settle 3-3");
            assert_eq!(owner.counts(), (1, 2, 3), "{counts} {credit:?}");
            assert_eq!(owner.dispatch(), if is_room_free { "c0<4-4" } else { "" }, "{counts} {credit:?}");
            for outcome in [Outcome::Accepted, Outcome::Rejected, Outcome::Released, Outcome::Failed] {
                assert_eq!(owner.settle(0, 0, 0, outcome), "", "{counts} {outcome:?}");
            }
            owner.apply(Command::Close { consumer: ConsumerId(0) });
            owner.commit();
            assert_eq!(owner.left(), [0, 3], "{counts} {credit:?}: the others are there");
        }
    };
    let lease = Rules { lease_ms: Some(1000), ..Rules::default() };
    for rules in [Rules::default(), lease] {
        check(rules, Credit::Prefetch(2), true);
        // A link says itself how much it takes.
        check(rules, Credit::Link(2), false);
    }
}

#[test]
fn where_the_dead_go_somewhere_what_is_rejected_dies() {
    for counts in [false, true] {
        let dead = Rules { takes_dead: true, ..Rules::default() };
        let mut owner = bench(counts, dead, 6, &[Credit::Prefetch(2)]);
        assert_eq!(owner.dispatch(), "c0<0-1");
        assert_eq!(settle_held(&mut owner, &[1], Outcome::Rejected), "rejected 1-1");
        assert_eq!(reject(&mut owner, 0, 3), "rejected 2-3");
        owner.commit();
    }
}

#[test]
fn where_nobody_takes_the_dead_they_end() {
    for counts in [false, true] {
        let mut owner = bench(counts, Rules::default(), 6, &[Credit::Prefetch(2)]);
        assert_eq!(owner.dispatch(), "c0<0-1");
        assert_eq!(settle_held(&mut owner, &[1], Outcome::Rejected), "+settle 1-1");
        assert_eq!(reject(&mut owner, 0, 3), "+settle 2-3");
        owner.commit();
    }
}

#[test]
fn a_group_goes_on_with_another_once_nothing_of_it_is_held() {
    for counts in [false, true] {
        let mut owner = Owner::new(counts);
        [0, 1].iter().for_each(|slot| owner.consume(*slot, Credit::Prefetch(1)));
        for number in [1, 1, 1] {
            owner.arrive(Arrival { group: group(number), ..Arrival::default() });
        }
        assert_eq!(owner.dispatch(), "c0<0-0");
        owner.apply(Command::Pause { consumer: ConsumerId(0), paused: true });
        assert_eq!(owner.dispatch(), "", "the group is with the first");
        settle_held(&mut owner, &[0], Outcome::Accepted);
        assert_eq!(owner.dispatch(), "c1<1-1", "{counts}");
        assert_eq!(reject(&mut owner, 2, 2), "+settle 2-2", "though one of it is held");
        owner.commit();
        assert_eq!(owner.left(), [0, 2]);
    }
}

#[test]
fn behind_a_barrier_that_somebody_got_the_rest_goes_on() {
    let settings = Settings { priorities: Priorities::UpTo(0), ..Settings::default() };
    let mut owner = Owner::with(settings);
    for barrier in [true, false] {
        owner.arrive(Arrival { barrier, ..Arrival::default() });
    }
    owner.fifo.add_getter(ConsumerId(7));
    owner.fifo.take(ConsumerId(7), false, owner.now_ms, &mut owner.effects);
    assert_eq!(owner.told(), "c7<0-0");
    owner.consume(0, Credit::Prefetch(1));
    assert_eq!(owner.dispatch(), "", "it is held");
    assert_eq!(settle_held(&mut owner, &[0], Outcome::Accepted), "+settle 0-0");
    assert_eq!(owner.dispatch(), "c0<1-1");
}

#[test]
fn the_active_consumer_stays_it() {
    let single = Rules { single_active: true, ..Rules::default() };
    let mut owner = bench(false, single, 3, &[Credit::Prefetch(1), Credit::Prefetch(1)]);
    let of_one = |told: String| told.split(' ').filter(|word| word.contains('<')).collect::<String>();
    assert_eq!(of_one(owner.dispatch()), "c0<0-0");
    settle_held(&mut owner, &[0], Outcome::Accepted);
    assert_eq!(of_one(owner.dispatch()), "c0<1-1");
}
