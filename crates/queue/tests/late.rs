//! What is held for too long is taken back, and who held it waits until it has settled that.

#[allow(dead_code, reason = "shared; not every test needs all of it")]
mod owner;

use message::record::Outcome;
use owner::{Owner, range};
use queue::{Command, ConsumerId, Credit, Rules};

/// A queue that counts, with messages for consumers that may hold each for a second.
fn bench(messages: u64, credits: &[Credit]) -> Owner {
    let mut owner = Owner::new(true);
    for (slot, credit) in credits.iter().enumerate() {
        owner.consume(slot as u32, *credit);
        owner.fifo.watch(ConsumerId(slot as u32), 1000);
    }
    owner.publish(messages);
    owner
}

/// A look at that time: `c0 1-3` these were taken back from consumer 0; and what the machine asked for.
fn look(owner: &mut Owner, now_ms: u64) -> String {
    let late = owner.fifo.look(now_ms, &mut owner.effects);
    let late = late.iter().map(|late| {
        let ranges = late.ranges.iter().map(|range| format!(" {}-{}", range.first, range.last));
        format!("c{}{}", late.consumer.0, ranges.collect::<String>())
    });
    let late: Vec<String> = late.collect();
    let told = owner.told();
    owner.commit();
    format!("{}; {told}", late.join(", "))
}

fn settle_late(owner: &mut Owner, slot: u32, first: u64, last: u64) -> String {
    owner.fifo.settle_late(ConsumerId(slot), range(first, last));
    owner.dispatch()
}

#[test]
fn is_taken_back_at_the_look_after_its_time() {
    let mut owner = bench(4, &[Credit::Prefetch(2), Credit::Link(0)]);
    assert_eq!(owner.dispatch(), "c0<0-1");
    assert_eq!(look(&mut owner, 100), "; ");
    assert_eq!(look(&mut owner, 1099), "; ");
    assert_eq!(look(&mut owner, 1100), "c0 0-1; +return 0-1");
    assert_eq!(owner.counts(), (4, 0, 4));
    assert!(owner.fifo.has_late());
    assert_eq!(owner.dispatch(), "", "who is late is given nothing");
    assert_eq!(owner.apply(Command::Credit { consumer: ConsumerId(1), credit: 1, drain: false }), "");
    assert_eq!(owner.dispatch(), "c1<0-0!", "as acquired once, and not as failed");
    assert_eq!(settle_late(&mut owner, 0, 1, 1), "", "of two one is settled");
    assert_eq!(settle_late(&mut owner, 0, 0, 9), "c0<1-1! c0<2-2");
    assert!(!owner.fifo.has_late());
    assert_eq!(look(&mut owner, 1200), "; ");
    assert_eq!(look(&mut owner, 2200), "c0 1-2, c1 0-0; +return 1-2 +return 0-0");
}

#[test]
fn what_was_settled_in_time_is_not_taken_back() {
    let mut owner = bench(9, &[Credit::Prefetch(9)]);
    owner.dispatch();
    look(&mut owner, 0);
    assert_eq!(owner.settle(0, 2, 3, Outcome::Accepted), "+settle 2-3");
    assert_eq!(owner.settle(0, 6, 8, Outcome::Rejected), "+settle 6-8");
    assert_eq!(look(&mut owner, 1000), "c0 0-1 4-5; +return 0-1 +return 4-5");
}

#[test]
fn time_begins_anew_with_each_delivery() {
    for outcome in [Outcome::Released, Outcome::Failed] {
        let mut owner = bench(3, &[Credit::Prefetch(3)]);
        owner.dispatch();
        look(&mut owner, 0);
        owner.settle(0, 1, 1, outcome);
        owner.commit();
        assert_eq!(owner.dispatch().replace("x1", ""), "c0<1-1!");
        assert_eq!(look(&mut owner, 600), "; ");
        assert_eq!(look(&mut owner, 1000), "c0 0-0 2-2; +return 0-0 +return 2-2");
        assert_eq!(look(&mut owner, 1599), "; ");
        assert_eq!(look(&mut owner, 1600), "c0 1-1; +return 1-1");
        assert_eq!(settle_late(&mut owner, 0, 0, 1), "", "one is left");
        let again = settle_late(&mut owner, 0, 2, 2);
        assert_eq!(again.replace("x1", ""), "c0<0-0! c0<1-1! c0<2-2!", "by their counts");
    }
}

#[test]
fn without_a_timeout_nothing_is_taken_back() {
    let mut owner = bench(2, &[]);
    owner.consume(0, Credit::Prefetch(1));
    owner.dispatch();
    assert_eq!((look(&mut owner, 0), look(&mut owner, 1 << 40)), ("; ".into(), "; ".into()));
    assert_eq!(owner.fifo.look_every_ms(), None);
    owner.fifo.watch(ConsumerId(0), u64::MAX);
    assert_eq!((look(&mut owner, 0), look(&mut owner, 1 << 40)), ("; ".into(), "; ".into()));
}

#[test]
fn the_shortest_timeout_says_how_often_to_look() {
    for (timeouts, every_ms) in [(&[0][..], 10), (&[640], 10), (&[1_800_000], 28_125), (&[6400, 64_000], 100)]
    {
        let mut owner = Owner::new(true);
        for (slot, timeout_ms) in timeouts.iter().enumerate() {
            owner.fifo.add_getter(ConsumerId(slot as u32));
            owner.fifo.watch(ConsumerId(slot as u32), *timeout_ms);
        }
        assert_eq!(owner.fifo.look_every_ms(), Some(every_ms), "{timeouts:?}");
    }
}

#[test]
fn a_timeout_of_nothing_is_over_at_the_first_look() {
    let mut owner = bench(1, &[Credit::Prefetch(1)]);
    owner.fifo.watch(ConsumerId(0), 0);
    owner.dispatch();
    assert_eq!(look(&mut owner, 5), "c0 0-0; +return 0-0");
}

#[test]
fn gets_and_cancelled_consumers_have_a_time_too() {
    let mut owner = bench(2, &[Credit::Prefetch(1)]);
    owner.fifo.add_getter(ConsumerId(1));
    owner.fifo.watch(ConsumerId(1), 1000);
    owner.dispatch();
    owner.fifo.take(ConsumerId(1), false, 0, &mut owner.effects);
    assert_eq!(owner.told(), "c1<1-1");
    owner.apply(Command::Cancel { consumer: ConsumerId(0) });
    look(&mut owner, 0);
    assert_eq!(look(&mut owner, 1000), "c0 0-0, c1 1-1; +return 0-1");
    assert_eq!(settle_late(&mut owner, 0, 0, 0), "", "it was cancelled");
    assert_eq!(owner.apply(Command::Close { consumer: ConsumerId(0) }), "", "it holds nothing");
    assert_eq!(owner.apply(Command::Close { consumer: ConsumerId(1) }), "");
    assert_eq!(owner.counts(), (2, 0, 2));
}

#[test]
fn the_active_consumer_makes_room_while_it_is_late() {
    let mut owner = bench(2, &[Credit::Prefetch(1); 3]);
    owner.rules(Rules { single_active: true, ..Rules::default() });
    assert_eq!(owner.dispatch(), "c0 active c0<0-0");
    look(&mut owner, 0);
    assert_eq!(look(&mut owner, 1000), "c0 0-0; +return 0-0");
    assert_eq!(owner.dispatch(), "c0 relieved c1 active c1<0-0!");
    assert_eq!(settle_late(&mut owner, 0, 0, 0), "", "it waits for its turn");
    owner.apply(Command::Close { consumer: ConsumerId(2) });
    look(&mut owner, 1000);
    assert_eq!(look(&mut owner, 2000), "c1 0-0; +return 0-0");
    assert_eq!(owner.dispatch(), "c1 relieved c0 active c0<0-0!");
    look(&mut owner, 2000);
    assert_eq!(look(&mut owner, 3000), "c0 0-0; +return 0-0");
    assert_eq!(owner.dispatch(), "c0 relieved", "both are late");
    assert_eq!(settle_late(&mut owner, 1, 0, 0), "c1 active c1<0-0!");
}

#[test]
fn what_was_never_sent_uses_no_credit() {
    let mut owner = bench(2, &[Credit::Link(1)]);
    assert_eq!(owner.dispatch(), "c0<0-0");
    look(&mut owner, 0);
    assert_eq!(look(&mut owner, 1000), "c0 0-0; +return 0-0");
    assert_eq!(settle_late(&mut owner, 0, 0, 0), "", "its credit was used");
    owner.fifo.restore_credit(ConsumerId(0), 1);
    assert_eq!(owner.dispatch(), "c0<0-0!");
}

#[test]
fn who_is_late_has_drained() {
    let mut owner = bench(2, &[Credit::Link(1)]);
    owner.dispatch();
    look(&mut owner, 0);
    look(&mut owner, 1000);
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 5, drain: true });
    assert_eq!(owner.dispatch(), "c0 drained 5");
}

#[test]
fn paused_and_late_are_two_reasons() {
    let mut owner = bench(1, &[Credit::Prefetch(1)]);
    owner.dispatch();
    look(&mut owner, 0);
    look(&mut owner, 1000);
    let pause = |paused| Command::Pause { consumer: ConsumerId(0), paused };
    owner.apply(pause(true));
    owner.apply(pause(false));
    assert_eq!(owner.dispatch(), "", "it is late still");
    owner.apply(pause(true));
    assert_eq!(settle_late(&mut owner, 0, 0, 0), "", "it is paused still");
    owner.apply(pause(false));
    assert_eq!(owner.dispatch(), "c0<0-0!");
}

/// The notes of many looks cost no more than what is held.
#[test]
fn notes_are_bounded_by_what_is_held() {
    let mut owner = bench(20_000, &[Credit::Prefetch(10)]);
    for now_ms in 0..10_000 {
        owner.dispatch();
        look(&mut owner, now_ms / 20);
        let held: Vec<_> = owner.fifo.held(ConsumerId(0)).collect();
        owner.settle(0, held[0].first.0, held[0].first.0, Outcome::Accepted);
        owner.commit();
    }
    assert!(owner.fifo.memory_bytes() < 200_000, "{} bytes", owner.fifo.memory_bytes());
}
