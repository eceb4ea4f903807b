//! The machine's behaviour, one rule a test: a list of steps and the effects they have.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use base::id::{LogIndex, QueueSeq};
use message::record::Outcome;
use owner::{Owner, range};
use queue::{Command, Consume, ConsumerId, Credit, Fifo, Recovery, Refused};

#[test]
fn one_message_each_in_turn() {
    let mut owner = Owner::new(false);
    owner.consume(0, Credit::Prefetch(2));
    owner.consume(1, Credit::Prefetch(0));
    owner.publish(5);
    assert_eq!(owner.dispatch(), "c0<0-0 c1<1-1 c0<2-2 c1<3-4");
    assert_eq!(owner.settle(0, 0, 0, Outcome::Accepted), "+settle 0-0");
    // Credit is free at once, before the record commits; a consumer that was blocked joins behind.
    owner.publish(3);
    assert_eq!(owner.dispatch(), "c1<5-5 c0<6-6 c1<7-7");
}

#[test]
fn higher_priority_goes_first_while_it_has_credit() {
    let mut owner = Owner::new(false);
    owner.consume_as(0, Credit::Prefetch(0), 0).unwrap();
    owner.consume_as(1, Credit::Prefetch(2), 5).unwrap();
    owner.publish(4);
    assert_eq!(owner.dispatch(), "c1<0-1 c0<2-3");
    owner.settle(1, 0, 1, Outcome::Accepted);
    owner.publish(1);
    assert_eq!(owner.dispatch(), "c1<4-4");
}

#[test]
fn returned_messages_go_first_and_flagged() {
    let mut owner = Owner::new(false);
    owner.consume(0, Credit::Prefetch(0));
    owner.publish(5);
    assert_eq!(owner.dispatch(), "c0<0-4");
    // No record, no wait: a queue that does not count.
    assert_eq!(owner.settle(0, 3, 3, Outcome::Released), "");
    assert_eq!(owner.settle(0, 1, 1, Outcome::Failed), "");
    owner.publish(1);
    assert_eq!(owner.fifo.ready(), 3);
    assert_eq!(owner.dispatch(), "c0<1-1!x1 c0<3-3! c0<5-5");
}

#[test]
fn a_counting_queue_waits_for_the_record_of_a_return() {
    let mut owner = Owner::new(true);
    owner.consume(0, Credit::Prefetch(0));
    owner.publish(4);
    owner.dispatch();
    assert_eq!(owner.settle(0, 0, 1, Outcome::Failed), "+return 0-1");
    assert_eq!(owner.settle(0, 2, 2, Outcome::Released), "+return 2-2");
    assert_eq!(owner.dispatch(), "");
    assert_eq!((owner.fifo.ready(), owner.fifo.unsettled(), owner.fifo.total()), (0, 1, 4));
    owner.commit();
    assert_eq!(owner.dispatch(), "c0<0-1!x1 c0<2-2!");
    assert_eq!(owner.fifo.counts(QueueSeq(0)).acquired_count, 1);
    assert_eq!(owner.fifo.counts(QueueSeq(2)).delivery_count, 0);
}

#[test]
fn only_who_holds_a_message_settles_it() {
    let mut owner = Owner::new(false);
    owner.consume(0, Credit::Prefetch(1));
    owner.consume(1, Credit::Prefetch(1));
    owner.publish(3);
    assert_eq!(owner.dispatch(), "c0<0-0 c1<1-1");
    assert_eq!(owner.settle(0, 0, 9, Outcome::Accepted), "+settle 0-0");
    assert_eq!(owner.effects.ignored, 9);
    assert_eq!(owner.settle(0, 0, 0, Outcome::Accepted), "");
    assert_eq!(owner.settle(5, 1, 1, Outcome::Accepted), "");
    assert_eq!(owner.effects.ignored, 11);
    // Its place is told when the record commits.
    assert_eq!(owner.left(), []);
    owner.commit();
    assert_eq!(owner.left(), [0]);
}

#[test]
fn settled_as_delivered_needs_no_settling() {
    let mut owner = Owner::new(false);
    let credit = Credit::Prefetch(3);
    let new = Consume {
        consumer: ConsumerId(0),
        credit,
        settled: true,
        exclusive: false,
        priority: 0,
        selector: None,
    };
    owner.fifo.consume(new).unwrap();
    owner.publish(9);
    assert_eq!(owner.dispatch(), "c0<0-8 +settle 0-8");
    assert_eq!((owner.fifo.ready(), owner.fifo.unsettled(), owner.fifo.total()), (0, 0, 9));
    owner.commit();
    assert_eq!(owner.fifo.total(), 0);
}

#[test]
fn link_credit_is_used_up_and_drained() {
    let mut owner = Owner::new(false);
    let credit = |credit, drain| Command::Credit { consumer: ConsumerId(0), credit, drain };
    owner.consume(0, Credit::Link(0));
    owner.publish(5);
    assert_eq!(owner.dispatch(), "");
    owner.apply(credit(2, false));
    assert_eq!(owner.dispatch(), "c0<0-1");
    // Settling gives no credit back.
    owner.settle(0, 0, 1, Outcome::Accepted);
    assert_eq!(owner.dispatch(), "");
    owner.apply(credit(10, true));
    assert_eq!(owner.dispatch(), "c0<2-4 c0 drained 7");
    owner.publish(1);
    assert_eq!(owner.dispatch(), "");
    // Used up to the last: drained as well.
    owner.apply(credit(1, true));
    assert_eq!(owner.dispatch(), "c0<5-5 c0 drained 0");
    // Taken back before it was carried out.
    owner.apply(credit(4, true));
    owner.apply(credit(4, false));
    assert_eq!(owner.dispatch(), "");
}

#[test]
fn who_is_paused_is_skipped_and_keeps_its_credit() {
    let mut owner = Owner::new(false);
    let pause = |paused| Command::Pause { consumer: ConsumerId(0), paused };
    owner.consume(0, Credit::Link(3));
    owner.consume(1, Credit::Link(1));
    owner.apply(pause(true));
    owner.publish(4);
    assert_eq!(owner.dispatch(), "c1<0-0");
    owner.apply(pause(false));
    assert_eq!(owner.dispatch(), "c0<1-3");
}

#[test]
fn cancelled_consumers_keep_what_they_hold_until_closed() {
    let mut owner = Owner::new(false);
    owner.consume(0, Credit::Prefetch(0));
    owner.publish(3);
    owner.dispatch();
    owner.apply(Command::Cancel { consumer: ConsumerId(0) });
    assert_eq!((owner.fifo.consumers(), owner.fifo.unsettled()), (0, 3));
    owner.publish(1);
    assert_eq!(owner.dispatch(), "");
    assert_eq!(owner.settle(0, 1, 1, Outcome::Accepted), "+settle 1-1");
    assert_eq!(owner.apply(Command::Close { consumer: ConsumerId(0) }), "");
    assert_eq!((owner.fifo.ready(), owner.fifo.unsettled()), (3, 0));
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<0-0!x1 c0<2-2!x1 c0<3-3");
}

#[test]
fn closing_counts_as_failed_where_failures_are_counted() {
    let mut owner = Owner::new(true);
    owner.consume(0, Credit::Prefetch(0));
    owner.publish(2);
    owner.dispatch();
    assert_eq!(owner.apply(Command::Close { consumer: ConsumerId(0) }), "+return 0-1");
    owner.commit();
    owner.consume(1, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c1<0-1!x1");
}

#[test]
fn exclusive_means_nobody_else() {
    let mut owner = Owner::new(false);
    let alone = |slot| Consume {
        consumer: ConsumerId(slot),
        credit: Credit::Prefetch(0),
        settled: false,
        exclusive: true,
        priority: 0,
        selector: None,
    };
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.fifo.consume(alone(1)), Err(Refused::InUse));
    owner.apply(Command::Close { consumer: ConsumerId(0) });
    // One that stands for gets is no consumer.
    owner.fifo.add_getter(ConsumerId(7));
    assert_eq!(owner.fifo.consume(alone(1)), Ok(()));
    assert_eq!(owner.fifo.consume(alone(2)), Err(Refused::Exclusive));
    assert_eq!(owner.consume_as(2, Credit::Prefetch(0), 0), Err(Refused::Exclusive));
    owner.apply(Command::Cancel { consumer: ConsumerId(1) });
    assert_eq!(owner.consume_as(2, Credit::Prefetch(0), 0), Ok(()));
}

#[test]
fn get_takes_one_whatever_the_credit() {
    let mut owner = Owner::new(false);
    owner.fifo.add_getter(ConsumerId(0));
    assert_eq!(owner.fifo.consumers(), 0);
    assert!(!owner.fifo.take(ConsumerId(0), false, 0, &mut owner.effects));
    assert_eq!(owner.told(), "empty");
    owner.publish(3);
    assert_eq!(owner.dispatch(), "");
    assert!(owner.fifo.take(ConsumerId(0), false, 0, &mut owner.effects));
    assert!(owner.fifo.take(ConsumerId(0), true, 0, &mut owner.effects));
    assert_eq!(owner.told(), "c0<0-0 c0<1-1 +settle 1-1");
    assert_eq!(owner.settle(0, 0, 0, Outcome::Rejected), "+settle 0-0");
}

#[test]
fn purge_takes_what_is_ready_and_nothing_else() {
    let mut owner = Owner::new(false);
    owner.consume(0, Credit::Link(3));
    owner.publish(6);
    owner.dispatch();
    owner.settle(0, 1, 1, Outcome::Released);
    assert_eq!(owner.apply(Command::Purge), "+purge 1-1 +purge 3-5");
    assert_eq!((owner.fifo.ready(), owner.fifo.unsettled(), owner.fifo.total()), (0, 2, 6));
    // Messages that arrive before the purge commits stay.
    owner.publish(1);
    owner.commit();
    assert_eq!(owner.left(), [1, 3, 4, 5]);
    assert_eq!((owner.fifo.ready(), owner.fifo.unsettled(), owner.fifo.total()), (1, 2, 3));
}

#[test]
fn after_a_crash_all_is_ready_flagged_and_transient_ones_are_gone() {
    let mut owner = Owner::new(false);
    owner.publish(2);
    owner.fifo.enqueue(LogIndex(16), true);
    owner.place = 24;
    owner.publish(2);
    owner.fifo.settled(range(0, 0), &mut owner.effects);
    owner.fifo.recover(Recovery::Dirty, &mut owner.effects);
    assert_eq!(owner.told(), "+purge 2-2");
    assert_eq!(owner.left(), [0, 2]);
    owner.consume(0, Credit::Prefetch(0));
    owner.publish(1);
    assert_eq!(owner.dispatch(), "c0<1-1! c0<3-4! c0<5-5");
}

#[test]
fn after_a_clean_end_only_what_was_handed_out_is_flagged() {
    let mut owner = Owner::new(false);
    owner.consume(0, Credit::Link(2));
    owner.publish(5);
    owner.dispatch();
    let cursor = owner.fifo.cursor();
    let mut bytes = Vec::new();
    owner.fifo.write_snapshot(&mut bytes);
    owner.fifo = Fifo::read_snapshot(&bytes).unwrap();
    owner.fifo.recover(Recovery::Clean(cursor), &mut owner.effects);
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<0-1! c0<2-4");
}

#[test]
fn records_that_come_again_change_nothing() {
    let mut owner = Owner::new(false);
    owner.publish(10);
    let state = |owner: &Owner| {
        let mut bytes = Vec::new();
        owner.fifo.write_snapshot(&mut bytes);
        bytes
    };
    for positions in [range(2, 3), range(0, 1), range(5, 7), range(0, 99), range(7, 5)] {
        owner.fifo.settled(positions, &mut owner.effects);
        owner.left();
        let once = state(&owner);
        owner.fifo.settled(positions, &mut owner.effects);
        assert_eq!((owner.left(), state(&owner)), (vec![], once));
    }
    assert_eq!((owner.fifo.total(), owner.fifo.head()), (0, QueueSeq(10)));
}

/// A message that stays for ever holds a block, not the whole past.
#[test]
fn memory_follows_what_is_live() {
    let mut owner = Owner::new(false);
    assert!(owner.fifo.memory_bytes() < 300, "{}", owner.fifo.memory_bytes());
    for _ in 0..1000 {
        owner.publish(1000);
        let next = owner.fifo.next_seq().0;
        owner.fifo.settled(range(1.max(next - 1000), next - 1), &mut owner.effects);
        owner.left();
    }
    assert_eq!(owner.fifo.total(), 1);
    assert!(owner.fifo.memory_bytes() < 3000, "{}", owner.fifo.memory_bytes());
    owner.fifo.settled(range(0, 0), &mut owner.effects);
    assert!(owner.fifo.memory_bytes() < 500, "{}", owner.fifo.memory_bytes());
}

#[test]
fn a_ready_message_costs_four_bytes() {
    let mut owner = Owner::new(false);
    owner.publish(1_000_000);
    assert!(owner.fifo.memory_bytes() < 4_400_000, "{}", owner.fifo.memory_bytes());
}

/// Many idle or blocked consumers cost those that can take nothing: the effects are right, and quick by construction.
#[test]
fn blocked_consumers_are_skipped() {
    let mut owner = Owner::new(false);
    for slot in 0..10_000 {
        owner.consume(slot, Credit::Link(u32::from(slot % 5000 == 7)));
    }
    owner.publish(3);
    assert_eq!(owner.dispatch(), "c7<0-0 c5007<1-1");
    assert_eq!(owner.fifo.consumers(), 10_000);
}

/// Records this owner did not ask for: of one before, still in the log when this one began.
#[test]
fn records_of_another_owner_are_obeyed() {
    for counts in [false, true] {
        let mut owner = Owner::new(counts);
        owner.consume(0, Credit::Prefetch(0));
        owner.publish(6);
        owner.dispatch();
        owner.settle(0, 0, 2, Outcome::Released);
        owner.commit();
        assert_eq!((owner.fifo.ready(), owner.fifo.unsettled()), (3, 3));
        // One that is ready, one that is held.
        owner.fifo.settled(range(1, 1), &mut owner.effects);
        owner.fifo.settled(range(4, 4), &mut owner.effects);
        assert_eq!(owner.left(), [1, 4]);
        assert_eq!((owner.fifo.ready(), owner.fifo.total()), (2, 4));
        // A message that is gone does not come back.
        owner.settle(0, 3, 5, Outcome::Released);
        owner.commit();
        assert_eq!((owner.fifo.ready(), owner.fifo.unsettled(), owner.fifo.total()), (4, 0, 4));
        assert_eq!(owner.dispatch(), "c0<0-0! c0<2-3! c0<5-5!");
    }
}

/// A replica follows without owning: returns count, nothing is handed out, and all is ready when it takes over.
#[test]
fn a_replica_takes_over() {
    let mut owner = Owner::new(true);
    owner.publish(6);
    owner.fifo.returned(range(1, 2), Outcome::Failed, &mut owner.effects);
    owner.fifo.returned(range(2, 2), Outcome::Failed, &mut owner.effects);
    owner.fifo.settled(range(3, 4), &mut owner.effects);
    assert_eq!(owner.fifo.ready(), 4);
    owner.fifo.recover(Recovery::Dirty, &mut owner.effects);
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<0-0! c0<1-1!x1 c0<2-2!x2 c0<5-5!");
}
