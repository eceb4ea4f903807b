//! A barrier goes to every consumer once, after all before it is gone and before all behind it.

#[allow(dead_code, reason = "shared; not every test needs all of it")]
use crate::owner;

use base::id::QueueSeq;
use message::record::Outcome;
use owner::{Owner, range};
use queue::{
    Arrival, BARRIER_WAIT_MS_MAX, Command, Consume, ConsumerId, Credit, Fairness, Priorities, Retry, Rules,
    SelectorId, SelectorSet, Settings,
};

/// A queue as those with barriers are: it tells no priorities apart.
fn queue(counts: bool) -> Owner {
    Owner::with(Settings { counts, priorities: Priorities::UpTo(0), ..Settings::default() })
}

/// Messages, `|` a barrier and `.` another.
fn publish(owner: &mut Owner, messages: &str) {
    for message in messages.chars() {
        owner.arrive(Arrival { barrier: message == '|', ..Arrival::default() });
    }
}

/// A queue with these messages, and with consumers that have so much credit each.
fn made(counts: bool, messages: &str, credits: impl Iterator<Item = Credit>) -> Owner {
    let mut owner = queue(counts);
    (0..).zip(credits).for_each(|(slot, credit)| owner.consume(slot, credit));
    publish(&mut owner, messages);
    owner
}

/// With this prefetch each.
fn bench(counts: bool, messages: &str, prefetches: &[u32]) -> Owner {
    made(counts, messages, prefetches.iter().map(|prefetch| Credit::Prefetch(*prefetch)))
}

/// With so much link credit each.
fn linked(counts: bool, messages: &str, credits: &[u32]) -> Owner {
    made(counts, messages, credits.iter().map(|credit| Credit::Link(*credit)))
}

/// The records are applied; what is handed out then.
fn commit(owner: &mut Owner) -> String {
    owner.commit();
    owner.dispatch()
}

fn accept(owner: &mut Owner, slot: u32, first: u64, last: u64) -> String {
    owner.settle(slot, first, last, Outcome::Accepted);
    commit(owner)
}

fn credit(slot: u32, credit: u32) -> Command {
    Command::Credit { consumer: ConsumerId(slot), credit, drain: false }
}

#[test]
fn reaches_each_consumer_once_in_its_place() {
    for counts in [false, true] {
        let mut owner = bench(counts, ".....|....", &[2, 2, 2, 2, 2]);
        assert_eq!(owner.dispatch(), "c0<0-0 c1<1-1 c2<2-2 c3<3-3 c4<4-4");
        for slot in 1..5 {
            assert_eq!(accept(&mut owner, slot, slot.into(), slot.into()), "", "the first is not settled");
        }
        assert_eq!(owner.fifo.barriers(), 1);
        assert_eq!(accept(&mut owner, 0, 0, 0), "c0|5 c1|5 c2|5 c3|5 c4|5 +settle 5-5");
        assert_eq!(owner.dispatch(), "", "its end is not on record");
        assert_eq!(owner.counts(), (4, 0, 5));
        assert_eq!(commit(&mut owner), "c0<6-6 c1<7-7 c2<8-8 c3<9-9");
        assert_eq!(owner.fifo.barriers(), 0);
    }
}

#[test]
fn settles_and_refusals_of_it_change_nothing() {
    for outcome in [Outcome::Accepted, Outcome::Rejected, Outcome::Released, Outcome::Failed] {
        for counts in [false, true] {
            let mut owner = bench(counts, "|.", &[1, 0]);
            owner.apply(Command::Pause { consumer: ConsumerId(1), paused: true });
            assert_eq!(owner.dispatch(), "c0|0");
            assert_eq!(owner.settle(0, 0, 0, outcome), "");
            assert_eq!(commit(&mut owner), "", "it has it");
            owner.apply(Command::Pause { consumer: ConsumerId(1), paused: false });
            assert_eq!(owner.dispatch(), "c1|0 +settle 0-0");
            assert_eq!(owner.settle(1, 0, 0, outcome), "");
            assert_eq!(commit(&mut owner), "c0<1-1", "it takes no room of a prefetch");
            assert_eq!(owner.settle(0, 0, 0, outcome), "");
        }
    }
}

#[test]
fn takes_credit_of_a_link_and_waits_for_it() {
    let mut owner = linked(false, "|..", &[1, 0]);
    assert_eq!(owner.dispatch(), "c0|0");
    assert_eq!(owner.fifo.next_deadline_ms(), Some(1000 + BARRIER_WAIT_MS_MAX));
    owner.apply(credit(0, 5));
    assert_eq!(owner.dispatch(), "", "once");
    owner.apply(credit(1, 2));
    assert_eq!(owner.dispatch(), "c1|0 +settle 0-0");
    assert_eq!(owner.fifo.next_deadline_ms(), None);
    assert_eq!(commit(&mut owner), "c0<1-1 c1<2-2");
}

#[test]
fn those_without_room_are_passed_over_in_time() {
    let mut owner = queue(true);
    owner.consume(0, Credit::Link(9));
    for slot in 1..4 {
        owner.consume(slot, Credit::Link(0));
    }
    publish(&mut owner, "|.");
    assert_eq!(owner.at(2000), "c0|0");
    owner.apply(credit(1, 1));
    assert_eq!(owner.at(20_000), "c1|0");
    assert_eq!(owner.at(31_999), "");
    assert_eq!(owner.at(32_000), "+settle 0-0 passed over 2");
    assert_eq!(commit(&mut owner), "c0<1-1");
}

#[test]
fn waits_for_one_that_takes_it() {
    let mut owner = queue(false);
    publish(&mut owner, "|.");
    assert_eq!(owner.at(1000), "", "nobody is there");
    assert_eq!(owner.fifo.next_deadline_ms(), None);
    owner.consume(0, Credit::Link(0));
    owner.consume(1, Credit::Link(0));
    assert_eq!(owner.at(90_000), "");
    assert_eq!(owner.fifo.next_deadline_ms(), Some(120_000), "from when somebody is there");
    assert_eq!(owner.at(120_000), "", "nobody has it");
    assert_eq!(owner.fifo.next_deadline_ms(), None, "there is nothing to wake up for");
    assert_eq!(owner.at(500_000), "");
    owner.apply(credit(1, 1));
    assert_eq!(owner.dispatch(), "c1|0 +settle 0-0 passed over 1");
    let mut owner = bench(false, "|.", &[1]);
    owner.apply(Command::Close { consumer: ConsumerId(0) });
    assert_eq!(owner.dispatch(), "", "it left before it was given it");
    owner.consume(1, Credit::Prefetch(1));
    assert_eq!(owner.dispatch(), "c1|0 +settle 0-0");
}

#[test]
fn a_clock_that_goes_back_prolongs_nothing() {
    let mut owner = linked(false, "|", &[1, 0]);
    assert_eq!(owner.at(5_000_000), "c0|0");
    assert_eq!(owner.at(1_000_000), "");
    assert_eq!(owner.fifo.next_deadline_ms(), Some(1_030_000));
    assert_eq!(owner.at(1_030_000), "+settle 0-0 passed over 1");
}

#[test]
fn consumers_come_and_go_meanwhile() {
    let mut owner = linked(false, "|.", &[9, 0]);
    assert_eq!(owner.dispatch(), "c0|0");
    owner.consume(2, Credit::Link(9));
    assert_eq!(owner.dispatch(), "c2|0", "one that comes before the end");
    owner.apply(Command::Close { consumer: ConsumerId(0) });
    owner.consume(0, Credit::Link(9));
    assert_eq!(owner.dispatch(), "c0|0", "another in the same place");
    owner.apply(Command::Cancel { consumer: ConsumerId(1) });
    assert_eq!(owner.dispatch(), "+settle 0-0", "the one that was waited for is gone");
    owner.consume(3, Credit::Link(9));
    assert_eq!(owner.dispatch(), "", "after the end");
    assert_eq!(commit(&mut owner), "c2<1-1");

    let mut owner = linked(false, "|.", &[1, 0]);
    assert_eq!(owner.dispatch(), "c0|0");
    owner.apply(Command::Close { consumer: ConsumerId(0) });
    owner.apply(Command::Close { consumer: ConsumerId(1) });
    owner.consume(0, Credit::Link(0));
    owner.apply(credit(0, 2));
    assert_eq!(owner.dispatch(), "c0|0 +settle 0-0", "the slots begin anew");

    let mut owner = linked(false, "|.", &[1, 0]);
    assert_eq!(owner.dispatch(), "c0|0");
    owner.apply(Command::Close { consumer: ConsumerId(0) });
    owner.apply(Command::Close { consumer: ConsumerId(1) });
    assert_eq!(owner.dispatch(), "+settle 0-0", "one has it, and nobody else is there");
}

#[test]
fn all_before_it_counts_whatever_its_state() {
    // Returned.
    let mut owner = bench(true, "..|.", &[1, 1]);
    assert_eq!(owner.dispatch(), "c0<0-0 c1<1-1");
    accept(&mut owner, 0, 0, 0);
    owner.settle(1, 1, 1, Outcome::Failed);
    assert_eq!(commit(&mut owner), "c0<1-1!x1");
    assert_eq!(accept(&mut owner, 0, 1, 1), "c0|2 c1|2 +settle 2-2");

    // Delayed when it came, and when it came back.
    let mut owner = queue(true);
    let retry = Retry { failed: true, released: false, min_ms: 500, max_ms: 500 };
    owner.rules(Rules { retry: Some(retry), ..Rules::default() });
    owner.arrive(Arrival { due_at_ms: 5000, ..Arrival::default() });
    publish(&mut owner, ".|...");
    owner.consume(0, Credit::Prefetch(2));
    assert_eq!(owner.at(1000), "c0<1-1");
    owner.settle(0, 1, 1, Outcome::Failed);
    assert_eq!(commit(&mut owner), "");
    assert_eq!(owner.at(1500), "c0<1-1!x1");
    assert_eq!(accept(&mut owner, 0, 1, 1), "", "a message in front waits for its time");
    assert_eq!(owner.at(5000), "c0<0-0", "though it came of age behind all others");
    assert_eq!(accept(&mut owner, 0, 0, 0), "c0|2 +settle 2-2");
    assert_eq!(commit(&mut owner), "c0<3-4");
}

#[test]
fn a_delayed_message_behind_waits_and_one_is_no_barrier() {
    let mut owner = queue(false);
    publish(&mut owner, ".|");
    for barrier in [false, true] {
        owner.arrive(Arrival { due_at_ms: 2000, barrier, ..Arrival::default() });
    }
    publish(&mut owner, ".");
    assert_eq!(owner.fifo.barriers(), 1);
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.at(3000), "c0<0-0");
    assert_eq!(accept(&mut owner, 0, 0, 0), "c0|1 +settle 1-1");
    assert_eq!(commit(&mut owner), "c0<4-4 c0<2-3");
}

#[test]
fn several_one_after_the_other() {
    let mut owner = bench(false, "|||..|", &[9, 9]);
    assert_eq!(owner.dispatch(), "c0|0 c1|0 +settle 0-0");
    assert_eq!(commit(&mut owner), "c0|1 c1|1 +settle 1-1");
    assert_eq!(commit(&mut owner), "c0|2 c1|2 +settle 2-2");
    assert_eq!(commit(&mut owner), "c0<3-3 c1<4-4");
    assert_eq!(accept(&mut owner, 1, 4, 4), "");
    assert_eq!(accept(&mut owner, 0, 3, 3), "c0|5 c1|5 +settle 5-5");
}

#[test]
fn a_budget_hands_it_out_in_parts() {
    let mut owner = bench(false, "|.", &[9, 9, 9]);
    let some = |owner: &mut Owner, budget| {
        let given = owner.fifo.dispatch(1000, budget, &mut owner.effects);
        (given, owner.told())
    };
    assert_eq!(some(&mut owner, 2), (2, "c0|0 c1|0".to_owned()));
    assert_eq!(some(&mut owner, 2), (1, "c2|0 +settle 0-0".to_owned()));
    owner.commit();
    assert_eq!(some(&mut owner, 2), (1, "c0<1-1".to_owned()));
}

#[test]
fn gets_take_what_is_in_front_and_it_where_nobody_consumes() {
    let mut owner = bench(true, ".|.", &[]);
    owner.fifo.add_getter(ConsumerId(7));
    let get = |owner: &mut Owner| {
        owner.fifo.take(ConsumerId(7), false, 1000, &mut owner.effects);
        owner.told()
    };
    assert_eq!(get(&mut owner), "c7<0-0");
    assert_eq!(get(&mut owner), "empty", "the one in front is not settled");
    accept(&mut owner, 7, 0, 0);
    assert_eq!(get(&mut owner), "c7<1-1");
    assert_eq!(get(&mut owner), "empty", "it is not settled");
    owner.consume(0, Credit::Prefetch(1));
    assert_eq!(owner.dispatch(), "", "the get has it");
    owner.settle(7, 1, 1, Outcome::Released);
    owner.commit();
    assert_eq!(get(&mut owner), "empty", "it is for consumers");
    assert_eq!(owner.dispatch(), "c0|1! +settle 1-1");
    owner.commit();
    assert_eq!(get(&mut owner), "c7<2-2");
}

#[test]
fn consumers_that_choose_have_it_as_all_others() {
    for fairness in [Fairness::RoundRobin, Fairness::Proportional] {
        let mut owner = queue(false);
        owner.rules(Rules { fairness, ..Rules::default() });
        owner.fifo.open_selector(SelectorId(0));
        let consume = |owner: &mut Owner, slot, selector| {
            owner
                .fifo
                .consume(Consume {
                    consumer: ConsumerId(slot),
                    credit: Credit::Prefetch(9),
                    settled: false,
                    exclusive: false,
                    priority: 0,
                    selector,
                })
                .unwrap();
        };
        consume(&mut owner, 0, Some(SelectorId(0)));
        publish(&mut owner, "..|..");
        for seq in 0..5 {
            let class = SelectorSet::default();
            let class = if seq % 2 == 1 { class.with(SelectorId(0)) } else { class };
            owner.fifo.classify(QueueSeq(seq), class);
        }
        owner.fifo.classified(range(0, 4));
        assert_eq!(owner.dispatch(), "c0<1-1", "{fairness:?}");
        assert_eq!(accept(&mut owner, 0, 1, 1), "", "one in front that nobody wants counts");
        consume(&mut owner, 1, None);
        assert_eq!(owner.dispatch(), "c1<0-0");
        assert_eq!(accept(&mut owner, 1, 0, 0), "c0|2 c1|2 +settle 2-2");
        let rest = commit(&mut owner);
        assert!(["c0<3-3 c1<4-4", "c1<3-3 c1<4-4", "c1<3-3 c0<4-4"].contains(&&*rest), "{rest}");
    }
}

#[test]
fn one_active_consumer_has_it_alone() {
    let mut owner = queue(false);
    owner.rules(Rules { single_active: true, ..Rules::default() });
    owner.consume(0, Credit::Prefetch(9));
    owner.consume(1, Credit::Prefetch(9));
    publish(&mut owner, "|.");
    assert_eq!(owner.dispatch(), "c0 active c0|0 +settle 0-0");
    assert_eq!(commit(&mut owner), "c0<1-1");
}

#[test]
fn rules_of_what_is_held_are_nothing_to_it() {
    let mut owner = queue(false);
    owner.rules(Rules { unsettled_max: Some(1), lease_ms: Some(1000), ..Rules::default() });
    owner.consume(0, Credit::Prefetch(9));
    owner.consume(1, Credit::Prefetch(9));
    publish(&mut owner, ".|..");
    assert_eq!(owner.dispatch(), "c0<0-0");
    assert_eq!(accept(&mut owner, 0, 0, 0), "c0|1 c1|1 +settle 1-1");
    owner.commit();
    assert_eq!(owner.fifo.unsettled(), 0);
    owner.fifo.look(5000, &mut owner.effects);
    owner.fifo.look(9000, &mut owner.effects);
    assert_eq!(owner.dispatch(), "c1<2-2");
}

#[test]
fn it_is_dropped_purged_expires_and_is_picked_as_any_other() {
    let waited_for = |rules: Rules, ttl_ms| {
        let mut owner = Owner::with(Settings {
            counts: true,
            priorities: Priorities::UpTo(0),
            ttl_ms,
            ..Settings::default()
        });
        owner.rules(rules);
        owner.consume(0, Credit::Link(9));
        owner.consume(1, Credit::Link(0));
        owner
    };
    let limit = Rules { length_max: Some(2), drops_head: true, ..Rules::default() };
    let mut owner = waited_for(limit, None);
    publish(&mut owner, "|.");
    assert_eq!(owner.dispatch(), "c0|0");
    publish(&mut owner, ".");
    assert_eq!(owner.dispatch(), "+drop 0-0");
    assert_eq!(commit(&mut owner), "c0<1-2");

    let mut owner = waited_for(Rules::default(), None);
    publish(&mut owner, "|.");
    assert_eq!(owner.dispatch(), "c0|0");
    assert_eq!(owner.apply(Command::Purge), "+purge 0-1");
    publish(&mut owner, ".");
    assert_eq!(commit(&mut owner), "c0<2-2");

    let mut owner = waited_for(Rules::default(), Some(100));
    publish(&mut owner, "|.");
    assert_eq!(owner.at(1050), "c0|0");
    publish(&mut owner, ".");
    assert_eq!(owner.at(1100), "+expire 0-1");
    owner.commit();
    assert_eq!(owner.at(1101), "c0<2-2");

    let mut owner = waited_for(Rules::default(), None);
    publish(&mut owner, ".|.");
    owner.fifo.add_getter(ConsumerId(7));
    assert_eq!(owner.fifo.pick(ConsumerId(7), range(1, 2), 1000, &mut owner.effects), 2);
    assert_eq!(owner.told(), "c7<1-2");
    assert_eq!(owner.dispatch(), "c0<0-0");
    accept(&mut owner, 0, 0, 0);
    owner.settle(7, 1, 2, Outcome::Released);
    assert_eq!(commit(&mut owner), "c0|1!", "it came back as it was");
    owner.apply(credit(1, 1));
    assert_eq!(owner.dispatch(), "c1|1! +settle 1-1");
    assert_eq!(commit(&mut owner), "c0<2-2!");
}

#[test]
fn drained_consumers_are_told_that_there_is_no_more() {
    let mut owner = linked(false, ".|..", &[0, 0]);
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 5, drain: true });
    assert_eq!(owner.dispatch(), "c0<0-0 c0 drained 4");
    accept(&mut owner, 0, 0, 0);
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 5, drain: true });
    assert_eq!(owner.dispatch(), "c0|1 c0 drained 4");
}

#[test]
fn what_was_never_sent_is_not_gone() {
    let mut owner = bench(true, "|.", &[9, 9]);
    assert_eq!(owner.dispatch(), "c0|0 c1|0 +settle 0-0");
    assert!(owner.fifo.barrier_unsent(QueueSeq(0)), "another was sent it");
    owner.apply(Command::Close { consumer: ConsumerId(0) });
    assert!(!owner.fifo.barrier_unsent(QueueSeq(0)));
    owner.apply(Command::Close { consumer: ConsumerId(1) });
    owner.consume(2, Credit::Prefetch(9));
    assert_eq!(owner.dispatch(), "c2|0! +settle 0-0");
    assert_eq!(commit(&mut owner), "c2<1-1");
}

#[test]
fn a_restart_begins_it_anew() {
    for counts in [false, true] {
        let mut owner = linked(counts, "|..|", &[9, 0]);
        assert_eq!(owner.dispatch(), "c0|0");
        assert_eq!(owner.restart(Rules::default()), "");
        assert_eq!(owner.fifo.barriers(), 2);
        owner.consume(0, Credit::Link(9));
        owner.consume(1, Credit::Link(9));
        assert_eq!(owner.dispatch(), "c0|0! c1|0! +settle 0-0");
        // Its end is not on record.
        assert_eq!(owner.restart(Rules::default()), "");
        owner.consume(0, Credit::Link(9));
        assert_eq!(owner.dispatch(), "c0|0! +settle 0-0");
        assert_eq!(commit(&mut owner), "c0<1-2!");
        assert_eq!(accept(&mut owner, 0, 1, 2), "c0|3! +settle 3-3");
    }
}

#[test]
fn a_clean_end_knows_that_it_was_out() {
    let mut owner = linked(false, "|.", &[9, 0]);
    assert_eq!(owner.fifo.cursor(), QueueSeq(0));
    assert_eq!(owner.dispatch(), "c0|0");
    assert_eq!(owner.fifo.cursor(), QueueSeq(1));
}
