//! Messages that are held for too long are taken back, and their consumer waits until it has settled them.

#[allow(dead_code, reason = "shared; not every test needs all of it")]
use crate::owner;

use message::record::Outcome;
use owner::{Owner, group, range};
use queue::{Arrival, Command, ConsumerId, Credit, Rules};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

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

/// A look at that time: `c0 1-3` these were taken back from consumer 0; and the records that the machine asked for.
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
fn the_shortest_is_that_of_who_is_left() {
    let timeouts = [6400, 640, 64_000, 640, 1280, 64_000];
    // Each comes in this order, and goes in each of these.
    for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [1, 3, 4, 0, 2, 5], [4, 0, 2, 1, 5, 3]] {
        let mut owner = Owner::new(true);
        let every_ms = |here: &[u32]| here.iter().map(|slot| timeouts[*slot as usize] / 64).min();
        let mut here = Vec::new();
        for (slot, timeout_ms) in (0..).zip(timeouts) {
            owner.consume(slot, Credit::Prefetch(1));
            owner.fifo.watch(ConsumerId(slot), timeout_ms);
            here.push(slot);
            assert_eq!(owner.fifo.look_every_ms(), every_ms(&here), "{here:?}");
        }
        for gone in order {
            owner.apply(Command::Close { consumer: ConsumerId(gone) });
            here.retain(|slot| *slot != gone);
            assert_eq!(owner.fifo.look_every_ms(), every_ms(&here), "{here:?}");
        }
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

/// Looks pass over consumers that held nothing so far, and see messages however those come to them.
#[test]
fn whatever_way_it_was_given_it_has_a_time() {
    type Give = fn(&mut Owner) -> String;
    let dispatch: Give = |owner| {
        owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 1, drain: false });
        owner.dispatch()
    };
    let get: Give = |owner| {
        owner.fifo.take(ConsumerId(0), false, 0, &mut owner.effects);
        owner.told()
    };
    let pick: Give = |owner| {
        owner.fifo.pick(ConsumerId(0), range(0, 0), 0, &mut owner.effects);
        owner.told()
    };
    let priority = Some(9);
    let group = group(1);
    for arrival in [
        Arrival::default(),
        Arrival { priority, ..Arrival::default() },
        Arrival { group, ..Arrival::default() },
    ] {
        for give in [dispatch, get, pick] {
            let mut owner = bench(0, &[Credit::Link(0), Credit::Link(0)]);
            owner.arrive(arrival);
            for round in 0..3 {
                let again = if round > 0 { "!" } else { "" };
                let begin_ms = 10_000 * round;
                assert_eq!(look(&mut owner, begin_ms), "; ");
                assert_eq!(give(&mut owner), format!("c0<0-0{again}"), "{arrival:?}");
                assert_eq!(look(&mut owner, begin_ms + 100), "; ");
                assert_eq!(look(&mut owner, begin_ms + 1100), "c0 0-0; +return 0-0", "{arrival:?}");
                assert_eq!(settle_late(&mut owner, 0, 0, 0), "");
            }
        }
    }
    let mut owner = Owner::new(true);
    owner.consume(0, Credit::Prefetch(1));
    owner.publish(1);
    owner.dispatch();
    owner.fifo.watch(ConsumerId(0), 1000);
    assert_eq!((look(&mut owner, 0), look(&mut owner, 1000)), ("; ".into(), "c0 0-0; +return 0-0".into()));
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

/// The notes of many looks cost no more than the held messages.
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

/// Each consumer has its own time to be looked at: held messages go back not before its time, and two looks later at
/// most, though somebody with less time is looked at more often.
#[test]
fn each_timeout_keeps_its_own_time() {
    for timeouts in [
        &[0, 9, 200, 1000, 1023, 5000, 64_000, 100_000, u64::MAX][..],
        &[100_000, 64_000, 1900, 1023, 1000],
        &[5000, 9000, 11_000, 64_000],
    ] {
        let mut owner = Owner::new(true);
        for (slot, timeout_ms) in timeouts.iter().enumerate() {
            owner.consume(slot as u32, Credit::Prefetch(1));
            owner.fifo.watch(ConsumerId(slot as u32), *timeout_ms);
        }
        owner.publish(timeouts.len() as u64);
        owner.dispatch();
        let every_ms = owner.fifo.look_every_ms().expect("they are watched");
        let mut back: Vec<(u32, u64)> = Vec::new();
        for now_ms in (0..110_000).step_by(every_ms as usize) {
            let late = owner.fifo.look(now_ms, &mut owner.effects);
            back.extend(late.iter().map(|late| (late.consumer.0, now_ms)));
        }
        back.sort_unstable();
        assert!(back.iter().map(|(slot, _)| *slot).eq((0..).take(back.len())), "each once: {back:?}");
        assert_eq!(back.len(), timeouts.iter().filter(|timeout_ms| **timeout_ms < u64::MAX).count());
        for ((_, when_ms), timeout_ms) in back.into_iter().zip(timeouts) {
            let last_ms = timeout_ms + 2 * (timeout_ms / 64).max(every_ms);
            assert!((*timeout_ms..=last_ms).contains(&when_ms), "{timeout_ms}: {when_ms}");
        }
    }
}

/// Processor time of this thread so far: a clock that stands while others have it.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("it never runs backwards")
}

/// The processor's time that `run` takes at least.
fn cost(mut run: impl FnMut()) -> Duration {
    let once = |()| {
        let begin = processor_time();
        run();
        processor_time() - begin
    };
    [(); 3].map(once).into_iter().min().unwrap_or_default()
}

/// An operation that costs `few` among few and `many` among `times` as many costs no more for that, or only as often as it is done more often.
fn assert_alike(few: Duration, many: Duration, times: u32) {
    println!("{few:?} {many:?}");
    // Less than a few milliseconds says nothing.
    let floor = few.max(Duration::from_millis(2));
    assert!(many <= 4 * times * floor, "{few:?} with few, {many:?} with many");
}

/// A queue with so many consumers, slots from 1 on, that may each hold one message for so long.
fn crowd(count: u32, timeout_ms: impl Fn(u32) -> u64) -> Owner {
    let mut owner = Owner::new(true);
    for slot in 1..=count {
        owner.consume(slot, Credit::Prefetch(1));
        owner.fifo.watch(ConsumerId(slot), timeout_ms(slot));
        assert!(owner.fifo.look_every_ms().is_some());
    }
    owner
}

#[test]
fn who_comes_or_goes_costs_the_same_among_many() {
    for timeout_ms in [|_| 1_800_000, |slot| u64::from(slot) * 1000] {
        let all = |count| {
            cost(|| {
                let mut owner = crowd(count, timeout_ms);
                for slot in 1..=count {
                    assert!(owner.fifo.look_every_ms().is_some());
                    owner.apply(Command::Close { consumer: ConsumerId(slot) });
                }
                assert_eq!(owner.fifo.look_every_ms(), None);
            })
        };
        assert_alike(all(1000), all(32_000), 32);
    }
}

/// A message goes to one of many and is taken back, again and again.
#[test]
fn a_look_costs_nothing_for_who_holds_nothing() {
    let looks = |count| {
        let mut owner = crowd(count, |_| 0);
        owner.publish(1);
        let mut now_ms = 0;
        cost(|| {
            for _ in 0..500 {
                now_ms += 10;
                let told = owner.dispatch();
                let slot: u32 = told[1..].split('<').next().unwrap_or_default().parse().expect("it is given");
                assert_eq!(look(&mut owner, now_ms), format!("c{slot} 0-0; +return 0-0"));
                assert!(owner.fifo.has_late());
                owner.fifo.settle_late(ConsumerId(slot), range(0, 0));
                assert!(!owner.fifo.has_late());
            }
        })
    };
    assert_alike(looks(50), looks(50_000), 1);
}

/// A consumer that may hold nothing for long is looked at all the time, and those with more time only when it is
/// theirs.
#[test]
fn a_short_timeout_costs_nothing_for_those_with_long_ones() {
    let looks = |count| {
        let mut owner = crowd(count, |_| 1_800_000);
        owner.fifo.add_getter(ConsumerId(0));
        owner.fifo.watch(ConsumerId(0), 0);
        owner.publish(u64::from(count));
        while owner.fifo.ready() > 0 {
            owner.dispatch();
        }
        assert_eq!(look(&mut owner, 0), "; ");
        assert_eq!(owner.fifo.look_every_ms(), Some(10));
        let mut now_ms = 0;
        cost(|| {
            for _ in 0..500 {
                now_ms += 10;
                assert_eq!(look(&mut owner, now_ms), "; ");
            }
        })
    };
    assert_alike(looks(50), looks(20_000), 1);
}

#[test]
fn each_that_settles_late_costs_the_same_among_many() {
    let all = |count| {
        let mut owners = [(); 3].map(|()| {
            let mut owner = crowd(count, |_| 0);
            owner.publish(u64::from(count));
            while owner.fifo.ready() > 0 {
                owner.dispatch();
            }
            look(&mut owner, 10);
            owner
        });
        let mut owners = owners.iter_mut();
        cost(|| {
            let owner = owners.next().expect("one for each run");
            for slot in 1..=count {
                assert!(owner.fifo.has_late());
                // Some settle, and others go.
                match slot % 2 {
                    0 => owner.fifo.settle_late(ConsumerId(slot), range(0, u64::from(count))),
                    _ => _ = owner.apply(Command::Close { consumer: ConsumerId(slot) }),
                }
            }
            assert!(!owner.fifo.has_late());
        })
    };
    assert_alike(all(1000), all(32_000), 32);
}
