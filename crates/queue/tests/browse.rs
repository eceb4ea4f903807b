//! Looking at ready messages changes nothing, and sees those that a consumer could be given, in order of arrival.

#[allow(dead_code, reason = "shared; this test uses a part")]
mod owner;

use base::id::QueueSeq;
use message::record::Outcome;
use owner::Owner;
use queue::{Command, ConsumerId, Credit, Priorities, Rules, Settings};

/// Messages that a browser which begins at `from` sees, as in [`Owner::told`]; and that the queue is as before.
fn check(owner: &Owner, from: u64, expected: &str) {
    let before = (owner.snapshot(), owner.counts());
    let mut seen = Vec::new();
    let mut next = QueueSeq(from);
    while let Some(seq) = owner.fifo.next_ready_at(next) {
        let (redelivered, counts) = owner.fifo.past(seq);
        let again = if redelivered { "!" } else { "" };
        let failed = Some(counts.delivery_count).filter(|count| *count > 0);
        let failed = failed.map_or_else(String::new, |count| format!("x{count}"));
        seen.push(format!("{seq}{again}{failed}"));
        next = QueueSeq(seq.0 + 1);
    }
    assert_eq!(seen.join(" "), expected);
    assert_eq!((owner.snapshot(), owner.counts()), before);
}

#[test]
fn what_is_held_or_gone_is_passed_over() {
    for counts in [false, true] {
        let mut owner = Owner::new(counts);
        check(&owner, 0, "");
        owner.publish(6);
        check(&owner, 0, "0 1 2 3 4 5");
        check(&owner, 4, "4 5");
        owner.consume(0, Credit::Link(4));
        assert_eq!(owner.dispatch(), "c0<0-3");
        check(&owner, 0, "4 5");
        owner.settle(0, 0, 0, Outcome::Accepted);
        owner.settle(0, 1, 1, Outcome::Failed);
        owner.settle(0, 2, 2, Outcome::Released);
        owner.commit();
        check(&owner, 0, "1!x1 2! 4 5");
        check(&owner, 2, "2! 4 5");
        owner.apply(Command::Purge);
        owner.commit();
        check(&owner, 0, "");
        assert_eq!(owner.counts(), (0, 1, 1));
    }
}

#[test]
fn in_order_of_arrival_whatever_the_priority() {
    let mut owner = Owner::with(Settings { priorities: Priorities::UpTo(9), ..Settings::default() });
    owner.arrive_as(&[0, 5, 9, 5, 0]);
    check(&owner, 0, "0 1 2 3 4");
    owner.consume(0, Credit::Link(2));
    assert_eq!(owner.dispatch(), "c0<2-2 c0<1-1");
    check(&owner, 0, "0 3 4");
    owner.settle(0, 1, 1, Outcome::Released);
    check(&owner, 0, "0 1! 3 4");
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 9, drain: false });
    assert_eq!(owner.dispatch(), "c0<1-1! c0<3-3 c0<0-0 c0<4-4");
    check(&owner, 0, "");
}

#[test]
fn all_may_have_been_out_after_a_restart() {
    let mut owner = Owner::new(false);
    owner.publish(2);
    owner.restart(Rules::default());
    owner.publish(1);
    check(&owner, 0, "0! 1! 2");
}

#[test]
fn the_dying_are_seen_no_more() {
    let mut owner = Owner::new(false);
    owner.rules(Rules { takes_dead: true, length_max: Some(2), drops_head: true, ..Rules::default() });
    owner.publish(4);
    check(&owner, 0, "0 1 2 3");
    assert_eq!(owner.dispatch(), "maxlen 0-1");
    check(&owner, 0, "2 3");
}
