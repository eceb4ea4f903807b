//! Messages of one group are with one consumer at a time, in order, and others go on beside them.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use base::id::{LogIndex, QueueSeq};
use message::record::Outcome;
use owner::{Owner, group, range};
use queue::{
    Arrival, Command, ConsumerId, Credit, Effects, Fifo, GroupKey, PASSED_AT_ONCE_MAX, PASSED_MAX, Retry,
    Rules, SnapshotError,
};

/// Messages of these groups; 0 stands for none.
fn arrive(owner: &mut Owner, groups: &[u32]) {
    for number in groups {
        owner.arrive(Arrival { group: group(*number), ..Arrival::default() });
    }
}

/// A queue with these messages, and consumers with these prefetches.
fn queue(counts: bool, groups: &[u32], prefetches: &[u32]) -> Owner {
    let mut owner = Owner::new(counts);
    arrive(&mut owner, groups);
    for (slot, prefetch) in (0..).zip(prefetches) {
        owner.consume(slot, Credit::Prefetch(*prefetch));
    }
    owner
}

fn settle(owner: &mut Owner, slot: u32, first: u64, last: u64, outcome: Outcome) {
    owner.settle(slot, first, last, outcome);
    owner.commit();
}

fn close(owner: &mut Owner, slot: u32) {
    owner.apply(Command::Close { consumer: ConsumerId(slot) });
    owner.commit();
}

#[test]
fn a_group_is_with_one_consumer_at_a_time_and_others_go_on() {
    for counts in [false, true] {
        let mut owner = queue(counts, &[1, 1, 2, 0, 1, 2], &[2, 2]);
        assert_eq!(owner.dispatch(), "c0<0-0 c1<2-2 c0<1-1 c1<3-3");
        settle(&mut owner, 1, 2, 3, Outcome::Accepted);
        assert_eq!(owner.dispatch(), "c1<5-5");
        assert_eq!(owner.counts(), (1, 3, 4));
        settle(&mut owner, 0, 0, 0, Outcome::Accepted);
        // Somebody else has room too, and it is not for them.
        assert_eq!(owner.dispatch(), "c0<4-4");
        settle(&mut owner, 0, 1, 4, Outcome::Accepted);
        arrive(&mut owner, &[1]);
        assert_eq!(owner.dispatch(), "c1<6-6");
    }
}

#[test]
fn who_settles_may_be_followed_by_another() {
    let mut owner = queue(false, &[1, 1, 1, 1], &[1, 1]);
    let mut told = Vec::new();
    for seq in 0..4 {
        told.push(owner.dispatch());
        let slot = seq as u32 % 2;
        settle(&mut owner, slot, seq, seq, Outcome::Accepted);
    }
    assert_eq!(told, ["c0<0-0", "c1<1-1", "c0<2-2", "c1<3-3"]);
}

#[test]
fn what_comes_back_goes_first() {
    let mut owner = queue(false, &[1, 1, 1], &[2, 1]);
    assert_eq!(owner.dispatch(), "c0<0-0 c0<1-1");
    settle(&mut owner, 0, 0, 0, Outcome::Released);
    // The other one of its group is still held.
    assert_eq!(owner.dispatch(), "c0<0-0!");
    settle(&mut owner, 0, 0, 1, Outcome::Released);
    assert_eq!(owner.dispatch(), "c1<0-0!");
    settle(&mut owner, 1, 0, 0, Outcome::Accepted);
    close(&mut owner, 0);
    assert_eq!(owner.dispatch(), "c1<1-1!");
}

#[test]
fn nothing_passes_what_is_on_its_way_back() {
    let mut owner = queue(true, &[1, 1, 1, 0], &[2, 2]);
    assert_eq!(owner.dispatch(), "c0<0-0 c1<3-3 c0<1-1");
    owner.settle(0, 0, 1, Outcome::Released);
    assert_eq!(owner.dispatch(), "");
    owner.commit();
    assert_eq!(owner.dispatch(), "c1<0-0!");
    settle(&mut owner, 1, 0, 0, Outcome::Accepted);
    // A consumer that goes makes room as its messages come back.
    assert_eq!(owner.dispatch(), "c0<1-1! c0<2-2");
    owner.apply(Command::Close { consumer: ConsumerId(0) });
    assert_eq!(owner.dispatch(), "");
    owner.commit();
    assert_eq!(owner.dispatch(), "c1<1-1!x1");
}

#[test]
fn a_group_waits_for_what_waits_in_it() {
    let rules = Rules {
        retry: Some(Retry { failed: true, released: true, min_ms: 500, max_ms: 500 }),
        ..Rules::default()
    };
    let mut owner = queue(true, &[1, 1, 2, 1], &[1, 2]);
    owner.rules(rules);
    assert_eq!(owner.dispatch(), "c0<0-0 c1<2-2");
    settle(&mut owner, 0, 0, 0, Outcome::Failed);
    assert_eq!((owner.dispatch().as_str(), owner.fifo.delayed()), ("", 1));
    // A new owner knows.
    owner.restart(rules);
    owner.consume(0, Credit::Prefetch(1));
    assert_eq!(owner.dispatch(), "c0<2-2!");
    settle(&mut owner, 0, 2, 2, Outcome::Accepted);
    assert_eq!(owner.at(1499), "");
    assert_eq!(owner.at(1500), "c0<0-0!x1");
    settle(&mut owner, 0, 0, 0, Outcome::Accepted);
    assert_eq!(owner.dispatch(), "c0<1-1!");
}

#[test]
fn a_get_holds_too() {
    let mut owner = queue(false, &[1, 1, 2, 0], &[]);
    owner.fifo.add_getter(ConsumerId(5));
    owner.fifo.add_getter(ConsumerId(6));
    let get = |owner: &mut Owner, slot, settled| {
        owner.fifo.take(ConsumerId(slot), settled, owner.now_ms, &mut owner.effects);
        owner.told()
    };
    assert_eq!(get(&mut owner, 5, false), "c5<0-0");
    assert_eq!(get(&mut owner, 6, false), "c6<2-2");
    assert_eq!(get(&mut owner, 6, true), "c6<3-3 +settle 3-3");
    assert_eq!(get(&mut owner, 6, true), "empty");
    assert_eq!(owner.fifo.ready(), 1);
    assert_eq!(get(&mut owner, 5, true), "c5<1-1 +settle 1-1");
}

#[test]
fn who_is_cancelled_keeps_the_group_of_what_it_holds() {
    let mut owner = queue(false, &[1, 1], &[1, 1]);
    assert_eq!(owner.dispatch(), "c0<0-0");
    owner.apply(Command::Cancel { consumer: ConsumerId(0) });
    assert_eq!(owner.dispatch(), "");
    settle(&mut owner, 0, 0, 0, Outcome::Accepted);
    assert_eq!(owner.dispatch(), "c1<1-1");
}

#[test]
fn those_of_lower_priority_get_what_others_may_not_have() {
    let mut owner = queue(false, &[1, 1, 0], &[]);
    owner.consume_as(0, Credit::Prefetch(1), 0).unwrap();
    assert_eq!(owner.dispatch(), "c0<0-0");
    owner.consume_as(1, Credit::Prefetch(5), 9).unwrap();
    owner.apply(Command::Prefetch { consumer: ConsumerId(0), prefetch: 2 });
    assert_eq!(owner.dispatch(), "c1<2-2 c0<1-1");
}

#[test]
fn who_drains_is_told_though_others_may_have_more() {
    let mut owner = queue(false, &[1, 1], &[1]);
    assert_eq!(owner.dispatch(), "c0<0-0");
    owner.consume(1, Credit::Link(0));
    owner.apply(Command::Credit { consumer: ConsumerId(1), credit: 3, drain: true });
    assert_eq!(owner.dispatch(), "c1 drained 3");
}

#[test]
fn who_is_rejected_or_too_old_makes_room() {
    let mut owner = queue(false, &[1, 1, 1, 1], &[1]);
    owner.rules(Rules { takes_dead: true, ..Rules::default() });
    assert_eq!(owner.dispatch(), "c0<0-0");
    assert_eq!(owner.settle(0, 0, 0, Outcome::Rejected), "rejected 0-0");
    assert_eq!(owner.dispatch(), "c0<1-1");
    owner.rules(Rules { length_max: Some(1), drops_head: true, ..Rules::default() });
    assert_eq!(owner.told(), "");
    assert_eq!(owner.counts().0, 1);
}

#[test]
fn all_that_is_ready_is_seen_and_purged() {
    let mut owner = queue(false, &[1, 1, 0, 1, 1], &[1]);
    assert_eq!(owner.dispatch(), "c0<0-0");
    arrive(&mut owner, &[1]);
    owner.fifo.add_getter(ConsumerId(5));
    // Messages that are looked through for the get, and are not for it.
    assert_eq!(owner.get(5), "c5<2-2 +settle 2-2");
    assert_eq!(owner.get(5), "empty");
    let next = |from| owner.fifo.next_ready_at(QueueSeq(from)).map(|seq| seq.0);
    assert_eq!([0, 2, 5, 6].map(next), [Some(1), Some(3), Some(5), None]);
    owner.commit();
    let mut purged: Vec<String> = owner.apply(Command::Purge).split(" +").map(str::to_owned).collect();
    purged.sort();
    assert_eq!((purged.join(" "), owner.counts()), ("+purge 1-1 purge 3-5".into(), (0, 1, 5)));
    owner.commit();
    settle(&mut owner, 0, 0, 0, Outcome::Accepted);
    owner.dispatch();
    assert_eq!(owner.counts(), (0, 0, 0));
}

/// Hands out as long as that is due again at once: how often, and all that was told.
fn dispatch_on(owner: &mut Owner) -> (usize, String) {
    let (mut times, mut told) = (1, owner.dispatch());
    while owner.fifo.next_deadline_ms().is_some_and(|due_ms| due_ms <= owner.now_ms) {
        times += 1;
        told += &owner.dispatch();
    }
    (times, told)
}

/// Messages in the way are passed a part at a time, and effects that follow the offer to all come after the last part.
#[test]
fn a_long_way_is_gone_in_parts() {
    let long = 5 * PASSED_AT_ONCE_MAX as usize;
    let stuck = || {
        let mut owner = queue(false, &[1], &[1]);
        assert_eq!(owner.dispatch(), "c0<0-0");
        arrive(&mut owner, &vec![1; long]);
        owner
    };
    let mut owner = stuck();
    arrive(&mut owner, &[2, 1, 0, 3]);
    owner.consume(1, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "");
    let (at, rest) = (long + 1, "c1<{0}-{0} c1<{1}-{1} c1<{2}-{2}");
    let told = rest.replace("{0}", &at.to_string());
    let told = told.replace("{1}", &(at + 2).to_string()).replace("{2}", &(at + 3).to_string());
    let (times, got) = dispatch_on(&mut owner);
    assert_eq!(got, told);
    assert!((4..=6).contains(&times), "{times}");
    assert_eq!(dispatch_on(&mut owner), (1, String::new()), "the way is behind it");

    // A draining consumer is done behind all that it may have.
    let mut owner = stuck();
    arrive(&mut owner, &[2]);
    owner.consume(1, Credit::Link(0));
    owner.apply(Command::Credit { consumer: ConsumerId(1), credit: 5, drain: true });
    assert_eq!(owner.dispatch(), "");
    assert_eq!(dispatch_on(&mut owner).1, format!("c1<{0}-{0} c1 drained 4", long + 1));

    // No time is over before it was offered.
    let mut owner = stuck();
    owner.arrive(Arrival { group: group(2), expires_at_ms: 1000, ..Arrival::default() });
    owner.consume(1, Credit::Prefetch(0));
    assert_eq!(dispatch_on(&mut owner).1, format!("c1<{0}-{0}", long + 1));

    // A get for one message is told the number there is.
    let mut owner = stuck();
    arrive(&mut owner, &[2]);
    owner.fifo.add_getter(ConsumerId(1));
    assert_eq!(owner.get(1), format!("c1<{0}-{0} +settle {0}-{0}", long + 1));

    // Where nobody can take anything, nothing is due.
    let mut owner = stuck();
    owner.consume(1, Credit::Prefetch(1));
    assert_eq!(owner.dispatch(), "");
    assert!(owner.fifo.next_deadline_ms().is_some());
    owner.apply(Command::Close { consumer: ConsumerId(1) });
    assert_eq!(dispatch_on(&mut owner), (1, String::new()));
}

/// Messages that are handed out are not counted among those in the way.
#[test]
fn a_long_way_of_what_is_handed_out_is_gone_at_once() {
    let mut owner = queue(false, &[], &[0]);
    let count = PASSED_AT_ONCE_MAX + 1000;
    arrive(&mut owner, &(1..=count).collect::<Vec<u32>>());
    assert_eq!(owner.fifo.dispatch(0, count, &mut owner.effects), count);
}

/// Two groups in turn, of both of which one is held, and behind them a message of no group.
#[test]
fn so_many_are_passed_and_no_more() {
    for (passed, told) in [(PASSED_MAX + 1, ""), (PASSED_MAX, "c1<65538-65538")] {
        let mut owner = queue(false, &[1, 2], &[2]);
        assert_eq!(owner.dispatch(), "c0<0-0 c0<1-1");
        let groups: Vec<u32> = (0..passed as u32).map(|seq| 1 + seq % 2).chain([0]).collect();
        arrive(&mut owner, &groups);
        owner.consume(1, Credit::Prefetch(3));
        assert_eq!(dispatch_on(&mut owner).1, told);
        let bytes = owner.fifo.memory_bytes();
        assert!(bytes < 8 << 20, "{bytes} bytes");
        settle(&mut owner, 0, 0, 1, Outcome::Accepted);
        owner.apply(Command::Prefetch { consumer: ConsumerId(1), prefetch: 0 });
        while owner.fifo.ready() > 0 {
            settle(&mut owner, 0, 0, 1 << 40, Outcome::Accepted);
            settle(&mut owner, 1, 0, 1 << 40, Outcome::Accepted);
            let before = owner.fifo.ready();
            owner.dispatch();
            assert!(owner.fifo.ready() < before);
        }
    }
}

fn with_groups() -> Owner {
    let mut owner = queue(false, &[0, 7, 7, 9, 0, 7, 9, 8], &[]);
    let mut effects = Effects::default();
    owner.fifo.settled(range(2, 2), &mut effects);
    owner
}

#[test]
fn groups_are_recorded() {
    let mut owner = with_groups();
    let bytes = owner.snapshot();
    assert_eq!(bytes[4..8], [5, 0, 1, 0], "version and sections");
    let again = Fifo::read_snapshot(&bytes).unwrap();
    let groups = (0..8).map(|seq| again.group_of(QueueSeq(seq)).map_or(0, |GroupKey(digest)| digest.0[0]));
    assert_eq!(groups.collect::<Vec<_>>(), [0, 7, 0, 9, 0, 7, 9, 8]);
    let mut other = Vec::new();
    again.write_snapshot(&mut other);
    assert_eq!(other, bytes);
    owner.restart(Rules::default());
    owner.consume(0, Credit::Prefetch(2));
    owner.consume(1, Credit::Prefetch(1));
    assert_eq!(owner.dispatch(), "c0<0-0! c1<1-1! c0<3-3!");
    // Groups end with their messages.
    owner.fifo.settled(range(0, 7), &mut owner.effects);
    owner.dispatch();
    assert_eq!(owner.snapshot()[4..8], [1, 0, 0, 0]);
}

/// Others that came between them are still there.
#[test]
fn groups_end_with_the_last_message_of_one() {
    let mut owner = queue(false, &[1, 0, 1, 0, 2], &[]);
    for (first, last, version) in [(0, 0, 5), (2, 2, 5), (4, 4, 1)] {
        owner.fifo.settled(range(first, last), &mut owner.effects);
        let bytes = owner.snapshot();
        assert_eq!(
            (bytes[4], Fifo::read_snapshot(&bytes).map(|fifo| fifo.total())),
            (version, Ok(owner.fifo.total()))
        );
    }
}

#[test]
fn what_are_no_groups_is_not_read() {
    let bytes = with_groups().snapshot();
    for len in 0..bytes.len() {
        assert!(Fifo::read_snapshot(&bytes[..len]).is_err(), "{len} bytes");
    }
    // Three keys, and a number for each of seven messages.
    let keys = bytes.len() - 7 - 3 * 16;
    let broken = |at: usize, byte: u8| {
        let mut other = bytes.clone();
        other[at] = byte;
        Fifo::read_snapshot(&other).err()
    };
    let is_broken = Some(SnapshotError::Broken("groups"));
    assert_eq!(bytes[keys + 48..], [0, 1, 2, 0, 1, 2, 3]);
    // A key twice, a key before its time, one too many, one that nothing has.
    assert_eq!(broken(keys, 9), is_broken);
    assert_eq!(broken(keys + 49, 2), is_broken);
    assert_eq!(broken(keys + 54, 4), is_broken);
    assert_eq!(broken(keys + 54, 2), is_broken);
    assert_eq!(broken(4, 4), Some(SnapshotError::Broken("flags")));
    assert_eq!(broken(7, 1), Some(SnapshotError::Broken("flags")));
}

/// A backlog of groups costs little more than one without: four bytes a message, and less than 100 a group.
#[test]
fn a_backlog_costs_four_bytes_a_message_more_and_a_group_its_digest() {
    let [plain, grouped] = [false, true].map(|is_grouped| {
        let mut fifo = Fifo::default();
        for seq in 0..100_000u64 {
            let group = group(1 + seq as u32 % 9000).filter(|_| is_grouped);
            fifo.arrive(LogIndex(seq * 100), &Arrival { group, ..Arrival::default() });
        }
        fifo.memory_bytes()
    });
    assert!(grouped - plain < 500_000 + 9000 * 100, "{plain} {grouped}");
}
