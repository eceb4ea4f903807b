//! Messages that come back and wait before they are offered again.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use message::record::{Outcome, SizesKept};
use owner::{Owner, range};
use queue::{Arrival, Command, ConsumerId, Credit, Late, Retry, Rules, Settings};

const ALL: Retry = Retry { failed: true, released: true, min_ms: 100, max_ms: 250 };

fn retrying(retry: Retry) -> Rules {
    Rules { retry: Some(retry), ..Rules::default() }
}

/// A queue of so many messages, all held by one consumer that has room for more.
fn holding(rules: Rules, count: u64) -> Owner {
    let mut owner = Owner::new(true);
    owner.rules(rules);
    owner.publish(count);
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), format!("c0<0-{}", count - 1));
    owner
}

fn settle(owner: &mut Owner, first: u64, last: u64, outcome: Outcome) -> String {
    owner.apply(Command::Settle { consumer: ConsumerId(0), range: range(first, last), outcome })
}

#[test]
fn waits_as_its_type_says() {
    for (failed, released) in [(true, true), (true, false), (false, true), (false, false)] {
        for (outcome, waits) in [(Outcome::Failed, failed), (Outcome::Released, released)] {
            let mut owner = holding(retrying(Retry { failed, released, ..ALL }), 3);
            let told = settle(&mut owner, 1, 1, outcome);
            assert_eq!(told, if waits { "+retry 1-1 after 100" } else { "+return 1-1" });
            assert!(owner.fifo.is_returning());
            owner.commit();
            assert!(!owner.fifo.is_returning());
            assert_eq!((owner.fifo.delayed(), owner.fifo.ready()), (waits.into(), (!waits).into()));
            assert_eq!(owner.at(1099).is_empty(), waits);
            assert_eq!(owner.at(1100).is_empty(), !waits);
            assert_eq!(settle(&mut owner, 2, 2, Outcome::Accepted), "+settle 2-2");
            assert_eq!(settle(&mut owner, 0, 0, Outcome::Rejected), "+settle 0-0");
        }
    }
}

/// The least delay for each failure, up to the most; a range falls into parts by how often each failed.
#[test]
fn waits_longer_each_time() {
    let mut owner = holding(retrying(ALL), 6);
    let check = |owner: &mut Owner, first, last, outcome, told: &str| {
        assert_eq!(settle(owner, first, last, outcome), told);
        owner.commit();
        owner.at(owner.now_ms + 1000);
        assert_eq!(owner.counts(), (0, 6, 6));
    };
    check(&mut owner, 1, 1, Outcome::Released, "+retry 1-1 after 100");
    check(&mut owner, 2, 3, Outcome::Failed, "+retry 2-3 after 100");
    check(&mut owner, 3, 3, Outcome::Failed, "+retry 3-3 after 200");
    check(
        &mut owner,
        0,
        5,
        Outcome::Failed,
        "+retry 0-1 after 100 +retry 2-2 after 200 +retry 3-3 after 250 +retry 4-5 after 100",
    );
    check(&mut owner, 5, 5, Outcome::Released, "+retry 5-5 after 100");
    let longest = Retry { min_ms: u64::MAX, max_ms: u64::MAX, ..ALL };
    owner.rules(retrying(longest));
    assert_eq!(settle(&mut owner, 3, 3, Outcome::Failed), format!("+retry 3-3 after {}", u64::MAX));
}

#[test]
fn what_failed_too_often_does_not_wait() {
    let mut owner = holding(Rules { delivery_limit: Some(1), ..retrying(ALL) }, 2);
    assert_eq!(settle(&mut owner, 0, 0, Outcome::Failed), "+retry 0-0 after 100");
    owner.commit();
    assert_eq!(owner.at(2000), "c0<0-0!x1");
    settle(&mut owner, 0, 0, Outcome::Failed);
    owner.commit();
    assert_eq!((owner.told().as_str(), owner.fifo.delayed()), ("+drop 0-0", 0));
}

/// However it comes back.
#[test]
fn waits_after_its_consumer_is_gone_or_late() {
    let mut owner = holding(retrying(ALL), 3);
    settle(&mut owner, 1, 1, Outcome::Accepted);
    assert_eq!(
        owner.apply(Command::Close { consumer: ConsumerId(0) }),
        "+retry 0-0 after 100 +retry 2-2 after 100"
    );
    owner.commit();
    owner.consume(0, Credit::Prefetch(0));
    owner.fifo.watch(ConsumerId(0), 50);
    assert_eq!(owner.at(1100), "c0<0-0!x1 c0<2-2!x1");
    owner.fifo.look(1100, &mut owner.effects);
    let late = owner.fifo.look(1300, &mut owner.effects);
    assert_eq!(
        late,
        [Late { consumer: ConsumerId(0), ranges: vec![range(0, 0), range(2, 2)], is_leased: false }]
    );
    assert_eq!(owner.told(), "+retry 0-0 after 100 +retry 2-2 after 100");
}

/// Queues that do not count have nothing to go by.
#[test]
fn a_queue_that_does_not_count_delays_nothing() {
    let mut owner = Owner::new(false);
    owner.rules(retrying(ALL));
    owner.publish(1);
    owner.consume(0, Credit::Link(1));
    owner.dispatch();
    assert_eq!((settle(&mut owner, 0, 0, Outcome::Failed).as_str(), owner.counts()), ("", (1, 0, 1)));
}

/// A change of rules is about messages that come back after it; and so is a restart.
#[test]
fn keeps_the_time_it_was_given() {
    let mut owner = holding(retrying(ALL), 2);
    settle(&mut owner, 0, 0, Outcome::Failed);
    owner.commit();
    owner.rules(Rules::default());
    assert_eq!(settle(&mut owner, 1, 1, Outcome::Released), "+return 1-1");
    owner.commit();
    owner.restart(Rules::default());
    assert_eq!((owner.counts(), owner.fifo.delayed()), ((1, 0, 2), 1));
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.at(1099), "c0<1-1!");
    assert_eq!(owner.at(1100), "c0<0-0!x1");
}

/// A message that came back and waits takes room, and is spared while something else is there to go.
#[test]
fn counts_for_limits() {
    let rules = Rules { length_max: Some(2), drops_head: true, ..retrying(ALL) };
    let mut owner = holding(rules, 2);
    settle(&mut owner, 0, 1, Outcome::Failed);
    owner.commit();
    owner.apply(Command::Cancel { consumer: ConsumerId(0) });
    owner.publish(2);
    assert_eq!(owner.at(1050), "+drop 2-3");
    owner.commit();
    assert_eq!(owner.at(1100), "");
    assert_eq!(owner.counts(), (2, 0, 2));
    // Bytes as well, and they are given back however the messages end.
    let mut owner = Owner::with(Settings { counts: true, sizes: SizesKept::All, ..Settings::default() });
    owner.rules(Rules { bytes_max: Some(25), drops_head: true, ..retrying(ALL) });
    let ten = || Arrival { bytes: 10, ..Arrival::default() };
    (0..2).for_each(|_| owner.arrive(ten()));
    owner.consume(0, Credit::Link(2));
    assert_eq!(owner.at(1000), "c0<0-1");
    settle(&mut owner, 0, 1, Outcome::Failed);
    owner.commit();
    owner.arrive(ten());
    assert_eq!(owner.at(1050), "+drop 2-2");
    assert_eq!(owner.apply(Command::CancelDelayed { range: range(0, 0) }), "+purge 0-0");
    owner.commit();
    owner.arrive(ten());
    assert_eq!((owner.at(1060).as_str(), owner.fifo.ready_bytes()), ("", 10));
    assert_eq!((owner.at(1100).as_str(), owner.fifo.ready_bytes()), ("", 20));
}

/// It had its chance: it is expired when it is due, not offered once more.
#[test]
fn expires_when_it_is_due() {
    let mut owner = Owner::with(Settings { counts: true, ttl_ms: Some(50), ..Settings::default() });
    owner.rules(retrying(ALL));
    owner.arrive(Arrival::default());
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.at(1010), "c0<0-0");
    settle(&mut owner, 0, 0, Outcome::Failed);
    owner.commit();
    assert_eq!(owner.at(1060), "");
    assert_eq!(owner.at(1110), "+expire 0-0");
}

/// The effects of a purge.
#[test]
fn is_purged() {
    let mut owner = holding(retrying(ALL), 2);
    settle(&mut owner, 0, 0, Outcome::Failed);
    owner.commit();
    owner.apply(Command::Cancel { consumer: ConsumerId(0) });
    owner.publish(1);
    assert_eq!(owner.apply(Command::Purge), "+purge 2-2 +purge 0-0");
    owner.commit();
    assert_eq!(owner.counts(), (0, 1, 1));
}
