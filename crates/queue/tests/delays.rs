//! Messages that wait for their time.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use message::record::{Outcome, SizesKept};
use owner::{Owner, range};
use queue::{Arrival, Command, ConsumerId, Credit, Rules, Settings};

/// Delayed until then; 0: not at all.
fn due(due_at_ms: u64) -> Arrival {
    Arrival { due_at_ms, ..Arrival::default() }
}

fn with_dues(settings: Settings, dues: &[u64]) -> Owner {
    let mut owner = Owner::with(settings);
    dues.iter().for_each(|at_ms| owner.arrive(due(*at_ms)));
    owner
}

fn postpone(owner: &mut Owner, slot: u32, first: u64, last: u64, outcome: Outcome, due_at_ms: u64) -> String {
    let positions = range(first, last);
    owner.fifo.postpone(ConsumerId(slot), positions, outcome, due_at_ms, &mut owner.effects);
    owner.told()
}

#[test]
fn is_ready_at_its_time_and_not_before() {
    for (due_at_ms, delayed) in [(0, 0), (999, 0), (1000, 0), (1001, 1), (5_000_000_000_000, 1)] {
        let mut owner = with_dues(Settings::default(), &[due_at_ms]);
        owner.consume(0, Credit::Prefetch(0));
        assert_eq!((owner.fifo.delayed(), owner.fifo.ready()), (delayed, 1 - delayed), "{due_at_ms}");
        if delayed == 0 {
            assert_eq!(owner.dispatch(), "c0<0-0");
            continue;
        }
        assert_eq!(owner.fifo.next_deadline_ms(), Some(due_at_ms));
        assert_eq!(owner.at(due_at_ms - 1), "");
        assert_eq!(owner.at(due_at_ms), "c0<0-0");
        assert_eq!((owner.counts(), owner.fifo.delayed()), ((0, 1, 1), 0));
        assert_eq!(owner.fifo.next_deadline_ms(), None);
    }
}

/// In order of time, behind the messages that were there then, before those that come after.
#[test]
fn takes_its_place_when_it_is_due() {
    for counts in [false, true] {
        let settings = Settings { counts, ..Settings::default() };
        let mut owner = with_dues(settings, &[1300, 0, 1100, 1200, 1100]);
        assert_eq!(owner.at(1150), "");
        owner.arrive(due(0));
        assert_eq!(owner.at(1250), "");
        owner.arrive(due(0));
        assert_eq!(owner.at(1300), "");
        assert_eq!((owner.fifo.ready(), owner.fifo.delayed()), (7, 0));
        owner.consume(0, Credit::Link(20));
        assert_eq!(owner.dispatch(), "c0<1-1 c0<2-2 c0<4-4 c0<5-5 c0<3-3 c0<6-6 c0<0-0");
    }
}

/// An owner before may have handed it out, which is recorded nowhere. Before its time nobody has.
#[test]
fn is_claimed_when_it_is_due() {
    let mut owner = with_dues(Settings::default(), &[0, 1100, 1200]);
    owner.consume(0, Credit::Prefetch(9));
    owner.fifo.end_delays(1150);
    assert_eq!(owner.apply(Command::Claim { consumer: ConsumerId(0), range: range(0, 2) }), "");
    let held: Vec<_> = owner.fifo.held(ConsumerId(0)).collect();
    assert_eq!((held, owner.fifo.delayed()), (vec![range(0, 1)], 1));
    assert_eq!(owner.at(1150), "");
    assert_eq!(owner.at(1200), "c0<2-2");
}

#[test]
fn priorities_count_when_it_is_due() {
    let mut owner = Owner::new(true);
    owner.arrive(Arrival { due_at_ms: 1100, priority: Some(9), ..Arrival::default() });
    owner.arrive(Arrival { due_at_ms: 1200, priority: Some(1), ..Arrival::default() });
    owner.publish(2);
    owner.consume(0, Credit::Link(1));
    assert_eq!(owner.dispatch(), "c0<2-2");
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 9, drain: false });
    assert_eq!(owner.at(1200), "c0<0-0 c0<3-3 c0<1-1");
}

/// Its time to live counts from when it is due, and it has its chance even where that is none at all.
#[test]
fn lives_from_when_it_is_due() {
    let mut owner = with_dues(Settings { ttl_ms: Some(300), ..Settings::default() }, &[2000]);
    assert_eq!(owner.at(1900), "");
    assert_eq!(owner.at(2000), "");
    assert_eq!(owner.fifo.next_deadline_ms(), Some(2300));
    assert_eq!(owner.at(2300), "+expire 0-0");
    let mut owner = with_dues(Settings { ttl_ms: Some(0), ..Settings::default() }, &[2000, 2000]);
    owner.consume(0, Credit::Link(1));
    assert_eq!(owner.at(5000), "c0<0-0 +expire 1-1");
}

/// Where the oldest go, delayed messages count when they are due; where publishers are refused, from the start.
#[test]
fn limits_count_what_is_promised() {
    let rules = |drops_head| Rules { length_max: Some(2), drops_head, ..Rules::default() };
    let mut owner = with_dues(Settings::default(), &[2000, 2000, 0]);
    owner.rules(rules(true));
    assert_eq!(owner.at(1500), "");
    assert_eq!(owner.at(2000), "+drop 2-2");
    let mut owner = with_dues(Settings { sizes: SizesKept::All, ..Settings::default() }, &[2000, 0]);
    owner.rules(rules(false));
    assert!(owner.fifo.is_full(0, 0));
    owner.rules(Rules { length_max: Some(3), ..rules(false) });
    assert!(!owner.fifo.is_full(0, 0));
    owner.arrive(Arrival { due_at_ms: 3000, bytes: 500, ..Arrival::default() });
    owner.rules(Rules { bytes_max: Some(500), ..Rules::default() });
    assert!(owner.fifo.is_full(0, 0));
    assert_eq!((owner.fifo.ready_bytes(), owner.at(3000).as_str()), (0, ""));
    assert_eq!(owner.fifo.ready_bytes(), 500);
}

#[test]
fn is_listed_and_cancelled() {
    let mut owner = with_dues(Settings::default(), &[3000, 0, 2000, 2500, 2000]);
    let listed: Vec<(u64, u64)> =
        owner.fifo.delayed_list(3).into_iter().map(|(at_ms, seq)| (at_ms, seq.0)).collect();
    assert_eq!(listed, [(2000, 2), (2000, 4), (2500, 3)]);
    assert_eq!(owner.fifo.delayed_within(range(1, 3)), 2);
    assert_eq!(owner.apply(Command::CancelDelayed { range: range(1, 3) }), "+purge 2-3");
    assert_eq!(owner.apply(Command::CancelDelayed { range: range(0, 3) }), "+purge 0-0");
    owner.commit();
    assert_eq!((owner.fifo.delayed(), owner.counts()), (1, (1, 0, 2)));
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.at(9000), "c0<1-1 c0<4-4");
    assert_eq!(owner.apply(Command::CancelDelayed { range: range(0, 9) }), "");
}

#[test]
fn a_purge_takes_all() {
    let mut owner = with_dues(Settings::default(), &[3000, 0, 2000]);
    assert_eq!(owner.at(2500), "");
    assert_eq!(owner.apply(Command::Purge), "+purge 1-2 +purge 0-0");
    owner.commit();
    assert_eq!((owner.fifo.delayed(), owner.counts(), owner.left()), (0, (0, 0, 0), vec![1, 2, 0]));
    assert_eq!(owner.at(9000), "");
}

/// A message that comes due is ready after a restart at any time; only one that cannot have been out is said not to
/// have been.
#[test]
fn survives_a_restart() {
    let mut owner = with_dues(Settings::default(), &[2000, 4000, 0, 2000]);
    owner.consume(0, Credit::Link(1));
    assert_eq!(owner.at(1000), "c0<2-2");
    assert_eq!(owner.at(2500), "");
    assert_eq!(owner.restart(Rules::default()), "");
    assert_eq!((owner.counts(), owner.fifo.delayed()), ((1, 0, 4), 3));
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.at(2600), "c0<2-2! c0<0-0! c0<3-3!");
    assert_eq!(owner.at(4000), "c0<1-1");
}

/// A message that comes back may be delayed: it counts, waits, and is then as any that came back.
#[test]
fn comes_back_delayed() {
    for counts in [false, true] {
        let mut owner = Owner::new(counts);
        owner.publish(3);
        owner.consume(0, Credit::Link(3));
        assert_eq!(owner.dispatch(), "c0<0-2");
        assert_eq!(postpone(&mut owner, 0, 1, 4, Outcome::Failed, 2000), "+postpone 1-2 to 2000");
        assert_eq!((owner.counts(), std::mem::take(&mut owner.effects.ignored)), ((0, 1, 3), 2));
        owner.commit();
        assert_eq!((owner.counts(), owner.fifo.delayed()), ((0, 1, 3), 2));
        owner.publish(1);
        owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 9, drain: false });
        assert_eq!(owner.dispatch(), "c0<3-3");
        assert_eq!(owner.at(2000), "c0<1-2!x1");
        // Again, to another time; and across a restart.
        assert_eq!(postpone(&mut owner, 0, 1, 1, Outcome::Released, 2200), "+postpone 1-1 to 2200");
        assert_eq!(postpone(&mut owner, 0, 2, 2, Outcome::Released, 2100), "+postpone 2-2 to 2100");
        owner.commit();
        owner.restart(Rules::default());
        assert_eq!((owner.counts(), owner.fifo.delayed()), ((2, 0, 4), 2));
        owner.consume(0, Credit::Prefetch(0));
        let failed = if counts { "x1" } else { "" };
        assert_eq!(owner.at(2050), "c0<0-0! c0<3-3!");
        assert_eq!(owner.at(2100), format!("c0<2-2!{failed}"));
        assert_eq!(owner.at(2200), format!("c0<1-1!{failed}"));
    }
}

#[test]
fn what_failed_too_often_is_not_delayed() {
    let mut owner = Owner::new(true);
    owner.rules(Rules { delivery_limit: Some(0), ..Rules::default() });
    owner.publish(2);
    owner.consume(0, Credit::Link(2));
    assert_eq!(owner.dispatch(), "c0<0-1");
    postpone(&mut owner, 0, 0, 0, Outcome::Failed, 2000);
    postpone(&mut owner, 0, 1, 1, Outcome::Released, 2000);
    owner.commit();
    assert_eq!((owner.told().as_str(), owner.fifo.delayed()), ("+drop 0-0", 1));
}

/// A million with a time each: the memory of the index beside the places.
#[test]
fn memory_of_a_million() {
    let mut owner = Owner::new(false);
    let mut dice = base::Random::new(7);
    for _ in 0..1_000_000 {
        owner.arrive(due(2000 + dice.below(1 << 32)));
    }
    let bytes = owner.fifo.memory_bytes();
    assert!(bytes < 32_000_000, "{bytes} bytes");
    // Those that left early are forgotten.
    assert_eq!(owner.apply(Command::CancelDelayed { range: range(0, 999_989) }), "+purge 0-999989");
    owner.commit();
    owner.at(1000);
    assert_eq!((owner.fifo.delayed(), owner.fifo.total()), (10, 10));
    assert!(owner.fifo.memory_bytes() < 20_000, "{} bytes", owner.fifo.memory_bytes());
    // A million that are due at once come in bounded steps.
    let mut owner = with_dues(Settings::default(), &vec![2000; 10_000]);
    (0..10_000).for_each(|at_ms| owner.arrive(due(3000 + at_ms)));
    owner.at(50_000);
    assert_eq!(owner.fifo.delayed(), 10_000 - 4095);
    owner.at(50_000);
    owner.at(50_000);
    assert_eq!((owner.fifo.delayed(), owner.fifo.ready()), (0, 20_000));
}
