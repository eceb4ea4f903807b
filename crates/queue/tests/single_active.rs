//! One consumer at a time.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use message::record::Outcome;
use owner::Owner;
use queue::{Command, ConsumerId, Credit, Rules};

fn one_at_a_time() -> Rules {
    Rules { single_active: true, ..Rules::default() }
}

fn single(counts: bool) -> Owner {
    let mut owner = Owner::new(counts);
    owner.rules(one_at_a_time());
    owner
}

fn joins(owner: &mut Owner, slot: u32, priority: i32) {
    owner.consume_as(slot, Credit::Prefetch(0), priority).unwrap();
}

fn closes(owner: &mut Owner, slot: u32) -> String {
    let told = owner.apply(Command::Close { consumer: ConsumerId(slot) });
    owner.commit();
    told
}

#[test]
fn who_came_first_gets_all_until_it_goes() {
    let mut owner = single(false);
    (0..3).for_each(|slot| joins(&mut owner, slot, 0));
    owner.publish(2);
    assert_eq!(owner.fifo.active(), None);
    assert_eq!(owner.dispatch(), "c0 active c0<0-1");
    assert_eq!((owner.fifo.active(), owner.fifo.consumers()), (Some(ConsumerId(0)), 3));
    owner.publish(1);
    assert_eq!(owner.dispatch(), "c0<2-2");
    // Cancelled, it keeps its messages, and the next is on.
    owner.apply(Command::Cancel { consumer: ConsumerId(0) });
    owner.publish(1);
    assert_eq!(owner.dispatch(), "c1 active c1<3-3");
    closes(&mut owner, 1);
    assert_eq!(owner.dispatch(), "c2 active c2<3-3!x1");
    closes(&mut owner, 0);
    assert_eq!(owner.dispatch(), "c2<0-2!x1");
    closes(&mut owner, 2);
    assert_eq!((owner.dispatch().as_str(), owner.fifo.active()), ("", None));
    // The slot of the consumer that was active before means nothing.
    joins(&mut owner, 2, 0);
    assert_eq!(owner.dispatch(), "c2 active c2<0-3!x2");
}

#[test]
fn who_takes_the_slot_of_the_active_one_is_another() {
    let mut owner = single(false);
    joins(&mut owner, 0, 0);
    joins(&mut owner, 1, 0);
    assert_eq!(owner.dispatch(), "c0 active");
    closes(&mut owner, 0);
    joins(&mut owner, 0, 0);
    assert_eq!(owner.dispatch(), "c1 active");
}

#[test]
fn nobody_steps_in_for_an_active_one_that_cannot_take_more() {
    let mut owner = single(false);
    owner.consume(0, Credit::Prefetch(1));
    owner.consume(1, Credit::Prefetch(0));
    owner.publish(3);
    assert_eq!(owner.dispatch(), "c0 active c0<0-0");
    owner.apply(Command::Pause { consumer: ConsumerId(0), paused: true });
    owner.settle(0, 0, 0, Outcome::Accepted);
    assert_eq!(owner.dispatch(), "");
    owner.apply(Command::Pause { consumer: ConsumerId(0), paused: false });
    assert_eq!(owner.dispatch(), "c0<1-1");
}

#[test]
fn the_highest_priority_is_next_then_who_came_first() {
    let mut owner = single(false);
    [(3, 0), (0, 1), (2, 5), (1, 5)].into_iter().for_each(|(slot, priority)| {
        joins(&mut owner, slot, priority);
        owner.dispatch();
    });
    // A newcomer of higher priority waits where queues do not count.
    for slot in [3, 2, 1, 0] {
        assert_eq!(owner.fifo.active(), Some(ConsumerId(slot)));
        closes(&mut owner, slot);
        owner.dispatch();
    }
}

#[test]
fn a_higher_priority_takes_over_once_nothing_is_held_where_the_queue_counts() {
    let mut owner = single(true);
    joins(&mut owner, 0, 0);
    owner.dispatch();
    // It holds nothing: at once; the same priority waits.
    joins(&mut owner, 1, 3);
    joins(&mut owner, 2, 3);
    owner.publish(2);
    assert_eq!(owner.dispatch(), "c0 relieved c1 active c1<0-1");
    joins(&mut owner, 3, 4);
    joins(&mut owner, 4, 9);
    owner.publish(1);
    assert_eq!(owner.dispatch(), "");
    assert_eq!(owner.fifo.active(), Some(ConsumerId(1)));
    owner.settle(1, 0, 0, Outcome::Accepted);
    assert_eq!(owner.dispatch(), "");
    owner.settle(1, 1, 1, Outcome::Accepted);
    assert_eq!(owner.dispatch(), "c1 relieved c4 active c4<2-2");
    // The consumer that was to take over goes again: all as it was.
    joins(&mut owner, 5, 10);
    owner.publish(1);
    assert_eq!(owner.dispatch(), "");
    closes(&mut owner, 5);
    assert_eq!(owner.dispatch(), "c4<3-3");
}

#[test]
fn switched_on_and_off_while_consumers_are_there() {
    let mut owner = Owner::new(false);
    (0..3).for_each(|slot| joins(&mut owner, slot, 0));
    owner.publish(3);
    assert_eq!(owner.dispatch(), "c0<0-0 c1<1-1 c2<2-2");
    owner.rules(one_at_a_time());
    owner.publish(2);
    assert_eq!(owner.dispatch(), "c0 active c0<3-4");
    owner.rules(Rules::default());
    owner.publish(3);
    assert_eq!((owner.dispatch().as_str(), owner.fifo.active()), ("c0<5-5 c1<6-6 c2<7-7", None));
}

#[test]
fn gets_are_no_consumers_and_who_waits_is_drained_at_once() {
    let mut owner = single(false);
    owner.fifo.add_getter(ConsumerId(0));
    owner.consume(1, Credit::Link(1));
    owner.consume(2, Credit::Link(0));
    owner.publish(3);
    assert_eq!(owner.get(0), "c1 active c0<0-0 +settle 0-0");
    owner.apply(Command::Credit { consumer: ConsumerId(2), credit: 5, drain: true });
    assert_eq!(owner.dispatch(), "c1<1-1 c2 drained 5");
}
