//! Messages chosen by position: taken to be settled, or thrown away, wherever they are.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use base::id::QueueSeq;
use message::record::{Outcome, SizesKept};
use owner::{Owner, group, range};
use queue::{Arrival, Command, ConsumerId, Credit, Fifo, Priorities, Recovery, Retry, Rules, Settings};

/// The consumer that picks.
const HAND: ConsumerId = ConsumerId(7);

fn pick(owner: &mut Owner, first: u64, last: u64) -> String {
    owner.fifo.pick(HAND, range(first, last), owner.now_ms, &mut owner.effects);
    owner.told()
}

fn with_hand(mut owner: Owner) -> Owner {
    owner.fifo.add_getter(HAND);
    owner
}

fn discard(owner: &mut Owner, first: u64, last: u64) -> String {
    owner.apply(Command::Discard { range: range(first, last) })
}

#[test]
fn what_is_picked_is_held_and_the_rest_goes_on_in_order() {
    for counts in [false, true] {
        let mut owner = with_hand(Owner::new(counts));
        owner.publish(8);
        let check = |owner: &mut Owner, first, last, expected: &str| {
            assert_eq!(pick(owner, first, last), expected, "{counts} {first} {last}");
        };
        check(&mut owner, 3, 4, "c7<3-4");
        check(&mut owner, 3, 3, "");
        check(&mut owner, 2, 5, "c7<2-2 c7<5-5");
        check(&mut owner, 8, 99, "");
        check(&mut owner, 6, 5, "");
        check(&mut owner, 0, u64::MAX, "");
        assert_eq!(owner.counts(), (4, 4, 8));
        owner.consume(0, Credit::Prefetch(0));
        assert_eq!(owner.dispatch(), "c0<0-1 c0<6-7");
        assert_eq!(owner.settle(7, 3, 3, Outcome::Accepted), "+settle 3-3");
        owner.commit();
        let back = owner.settle(7, 2, 5, Outcome::Released);
        assert_eq!(back, if counts { "+return 2-2 +return 4-5" } else { "" });
        owner.commit();
        assert_eq!(owner.dispatch(), "c0<2-2! c0<4-5!");
        owner.settle(0, 0, 99, Outcome::Accepted);
        owner.commit();
        assert_eq!(owner.counts(), (0, 0, 0));
    }
}

#[test]
fn what_comes_back_before_others_were_out_is_at_its_old_place() {
    for counts in [false, true] {
        let mut owner = with_hand(Owner::new(counts));
        owner.publish(4);
        assert_eq!(pick(&mut owner, 2, 2), "c7<2-2");
        owner.settle(7, 2, 2, Outcome::Released);
        owner.commit();
        let shown = std::iter::successors(owner.fifo.next_ready_at(QueueSeq(0)), |seq| {
            owner.fifo.next_ready_at(QueueSeq(seq.0 + 1))
        });
        assert_eq!(shown.map(|seq| seq.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(pick(&mut owner, 2, 2), "c7<2-2!");
        assert_eq!(owner.settle(7, 2, 2, Outcome::Accepted), "+settle 2-2");
        owner.commit();
        assert_eq!(owner.left(), [2]);
        owner.consume(0, Credit::Prefetch(0));
        assert_eq!(owner.dispatch(), "c0<0-1 c0<3-3");
    }
}

#[test]
fn what_comes_back_is_handed_out_behind_older_ones() {
    for counts in [false, true] {
        let mut owner = with_hand(Owner::new(counts));
        owner.publish(10);
        assert_eq!(pick(&mut owner, 3, 5), "c7<3-5");
        assert_eq!(pick(&mut owner, 8, 8), "c7<8-8");
        owner.settle(7, 3, 4, Outcome::Released);
        owner.commit();
        owner.consume(0, Credit::Link(4));
        assert_eq!(owner.fifo.ready_returned(), 2);
        assert_eq!(owner.dispatch(), "c0<0-2 c0<3-3!", "{counts}");
        // A message that comes back to a place that others have passed goes first.
        owner.settle(0, 1, 1, Outcome::Released);
        owner.settle(7, 8, 8, Outcome::Released);
        owner.commit();
        assert_eq!(owner.counts(), (6, 4, 10));
        owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 9, drain: false });
        assert_eq!(owner.dispatch(), "c0<1-1! c0<4-4! c0<6-7 c0<8-8! c0<9-9", "{counts}");
        owner.settle(7, 5, 5, Outcome::Released);
        owner.commit();
        assert_eq!(owner.dispatch(), "c0<5-5!", "{counts}");
        assert!(!owner.fifo.has_features(), "{counts}");
    }
}

#[test]
fn what_came_back_to_its_place_is_chosen_or_thrown_away_like_any_other() {
    for counts in [false, true] {
        let mut owner = with_hand(Owner::new(counts));
        owner.publish(6);
        assert_eq!(pick(&mut owner, 2, 4), "c7<2-4");
        owner.settle(7, 2, 4, Outcome::Released);
        owner.commit();
        assert_eq!(pick(&mut owner, 1, 2), "c7<1-1 c7<2-2!");
        assert_eq!(discard(&mut owner, 3, 3), "+purge 3-3");
        owner.commit();
        assert_eq!((owner.fifo.ready_returned(), owner.counts().0), (1, 3), "{counts}");
        owner.consume(0, Credit::Prefetch(0));
        assert_eq!(owner.dispatch(), "c0<0-0 c0<4-4! c0<5-5", "{counts}");
    }
}

#[test]
fn of_a_priority_what_comes_back_is_behind_older_ones() {
    let settings = Settings { priorities: Priorities::UpTo(9), ..Settings::default() };
    let mut owner = with_hand(Owner::with(settings));
    owner.arrive_as(&[5, 5, 5, 0]);
    assert_eq!(pick(&mut owner, 1, 1), "c7<1-1");
    owner.settle(7, 1, 1, Outcome::Released);
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<0-0 c0<1-1! c0<2-2 c0<3-3");
}

#[test]
fn where_priorities_are_strict_what_was_chosen_of_a_high_one_is_behind_older_ones_of_it() {
    let mut owner = with_hand(Owner::new(true));
    owner.arrive_as(&[0, 9, 9, 9, 9, 5, 9]);
    assert_eq!(pick(&mut owner, 2, 3), "c7<2-3");
    assert_eq!(pick(&mut owner, 6, 6), "c7<6-6");
    owner.settle(7, 3, 3, Outcome::Released);
    owner.settle(7, 6, 6, Outcome::Released);
    owner.commit();
    assert_eq!((owner.fifo.ready_returned(), owner.counts().0), (2, 6));
    owner.consume(0, Credit::Link(2));
    assert_eq!(owner.dispatch(), "c0<1-1 c0<3-3!");
    // A message with nothing in front of it goes first of all that comes back; so does one that was handed out in its turn.
    owner.settle(7, 2, 2, Outcome::Released);
    owner.settle(0, 1, 1, Outcome::Released);
    owner.commit();
    assert_eq!(pick(&mut owner, 6, 6), "c7<6-6!");
    owner.settle(7, 6, 6, Outcome::Released);
    owner.commit();
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 9, drain: false });
    assert_eq!(owner.dispatch(), "c0<1-2! c0<4-4 c0<6-6! c0<5-5 c0<0-0");
}

#[test]
fn where_priorities_are_strict_what_is_in_line_is_thrown_away_or_forgotten_like_any_other() {
    let mut owner = with_hand(Owner::new(true));
    owner.arrive_as(&[9; 200]);
    assert_eq!(pick(&mut owner, 100, 110), "c7<100-110");
    owner.settle(7, 100, 110, Outcome::Released);
    owner.commit();
    assert_eq!(discard(&mut owner, 101, 109), "+purge 101-109");
    owner.commit();
    assert_eq!((owner.fifo.ready_returned(), owner.counts().0), (2, 191));
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<0-99 c0<100-100! c0<110-110! c0<111-191 c0<192-199");
}

#[test]
fn what_others_hold_or_what_is_dying_is_passed_over() {
    let mut owner = with_hand(Owner::new(false));
    owner.rules(Rules { takes_dead: true, ..Rules::default() });
    owner.publish(4);
    owner.consume(0, Credit::Link(2));
    assert_eq!(owner.dispatch(), "c0<0-1");
    assert_eq!(owner.settle(0, 1, 1, Outcome::Rejected), "rejected 1-1");
    assert_eq!(pick(&mut owner, 0, 2), "c7<2-2");
    assert_eq!(discard(&mut owner, 0, 3), "+purge 3-3");
    owner.commit();
    assert_eq!(owner.counts(), (0, 2, 3));
}

#[test]
fn counts_are_told_as_to_any_consumer() {
    for (counts, expected) in
        [(false, "c7<0-0! c7<1-1!x1 c7<2-2!"), (true, "c7<0-0!/1 c7<1-1!x1/1 c7<2-2!/1")]
    {
        let mut owner = with_hand(Owner::new(counts));
        owner.tells_acquired = counts;
        owner.publish(3);
        owner.consume(0, Credit::Link(3));
        owner.dispatch();
        owner.settle(0, 0, 0, Outcome::Released);
        owner.settle(0, 1, 1, Outcome::Failed);
        owner.settle(0, 2, 2, Outcome::Released);
        owner.commit();
        assert_eq!(pick(&mut owner, 0, 2), expected);
    }
}

#[test]
fn whatever_its_priority() {
    let settings = Settings { priorities: Priorities::UpTo(9), ..Settings::default() };
    let mut owner = with_hand(Owner::with(settings));
    owner.arrive_as(&[0, 5, 9, 5, 0, 0]);
    assert_eq!(pick(&mut owner, 1, 1), "c7<1-1");
    assert_eq!(pick(&mut owner, 4, 4), "c7<4-4");
    owner.consume(0, Credit::Link(2));
    assert_eq!(owner.dispatch(), "c0<2-2 c0<3-3");
    owner.settle(7, 0, 9, Outcome::Released);
    assert_eq!(discard(&mut owner, 5, 5), "+purge 5-5");
    owner.commit();
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 9, drain: false });
    assert_eq!(owner.dispatch(), "c0<1-1! c0<0-0 c0<4-4!");
}

#[test]
fn of_a_group_what_nobody_else_has_anything_of() {
    for counts in [false, true] {
        let mut owner = with_hand(Owner::new(counts));
        for group in [1, 2, 1, 2, 0, 1] {
            let group = owner::group(group);
            owner.arrive(Arrival { group, ..Arrival::default() });
        }
        owner.consume(0, Credit::Prefetch(1));
        assert_eq!(owner.dispatch(), "c0<0-0");
        // Of 1 somebody has one. Of 2 and of no group nobody has any.
        assert_eq!(pick(&mut owner, 2, 4), "c7<3-4");
        owner.apply(Command::Prefetch { consumer: ConsumerId(0), prefetch: 0 });
        // Messages in front of the picked one wait for it.
        assert_eq!(owner.dispatch(), "c0<2-2 c0<5-5");
        owner.settle(7, 3, 4, Outcome::Released);
        owner.commit();
        assert_eq!(owner.dispatch(), "c0<4-4! c0<1-1 c0<3-3!");
        owner.settle(0, 0, 2, Outcome::Released);
        owner.settle(0, 3, 5, Outcome::Accepted);
        owner.commit();
        // Held messages of a group do not keep others of it from being thrown away.
        owner.apply(Command::Prefetch { consumer: ConsumerId(0), prefetch: 1 });
        assert_eq!(owner.dispatch(), "c0<0-0!");
        assert_eq!(discard(&mut owner, 0, 9), "+purge 1-2");
    }
}

#[test]
fn what_comes_back_to_its_group_in_front_of_the_cursor_was_out() {
    let mut owner = with_hand(Owner::new(false));
    for _ in 0..3 {
        let group = group(1);
        owner.arrive(Arrival { group, ..Arrival::default() });
    }
    assert_eq!(pick(&mut owner, 1, 1), "c7<1-1");
    owner.settle(7, 1, 1, Outcome::Released);
    assert_eq!((owner.fifo.ready_returned(), owner.fifo.past(QueueSeq(1)).0), (1, true));
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<0-0 c0<1-1! c0<2-2");
    assert_eq!(owner.fifo.ready_returned(), 0);
}

#[test]
fn nobody_need_be_the_active_one() {
    let mut owner = with_hand(Owner::new(true));
    owner.rules(Rules { single_active: true, ..Rules::default() });
    owner.publish(3);
    owner.consume(0, Credit::Link(1));
    assert_eq!(pick(&mut owner, 1, 1), "c0 active c7<1-1");
    assert_eq!(owner.dispatch(), "c0<0-0");
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 9, drain: false });
    assert_eq!(owner.dispatch(), "c0<2-2");
}

#[test]
fn what_was_offered_and_is_over_ends_first() {
    let mut owner = with_hand(Owner::with(Settings { ttl_ms: Some(100), ..Settings::default() }));
    owner.arrive_as(&[255, 255]);
    assert_eq!(owner.dispatch(), "");
    owner.now_ms = 1100;
    assert_eq!(pick(&mut owner, 1, 1), "+expire 0-1");
    owner.commit();
    owner.arrive_as(&[255, 255]);
    assert_eq!(pick(&mut owner, 3, 3), "c7<3-3");
    // A held message does not end, and does so once it is back.
    assert_eq!(owner.at(1300), "+expire 2-2");
    owner.settle(7, 3, 3, Outcome::Released);
    assert_eq!(owner.at(1300), "+expire 3-3");
}

#[test]
fn what_is_delayed_is_not_taken_and_is_thrown_away() {
    for counts in [false, true] {
        let mut owner = with_hand(Owner::new(counts));
        for due_at_ms in [0, 5000, 2000, 5000] {
            owner.arrive(Arrival { due_at_ms, ..Arrival::default() });
        }
        assert_eq!(pick(&mut owner, 1, 3), "");
        assert_eq!(discard(&mut owner, 3, 9), "+purge 3-3");
        owner.now_ms = 2000;
        assert_eq!(pick(&mut owner, 1, 3), "c7<2-2");
        owner.commit();
        owner.settle(7, 2, 2, Outcome::Released);
        owner.commit();
        owner.consume(0, Credit::Prefetch(0));
        assert_eq!(owner.dispatch(), "c0<0-0 c0<2-2!");
        assert_eq!(owner.at(5000), "c0<1-1");
    }
}

#[test]
fn where_what_comes_back_waits_so_does_this() {
    let retry = Retry { failed: true, released: true, min_ms: 50, max_ms: 100 };
    let mut owner = with_hand(Owner::new(true));
    owner.rules(Rules { retry: Some(retry), ..Rules::default() });
    owner.publish(2);
    assert_eq!(pick(&mut owner, 1, 1), "c7<1-1");
    assert_eq!(owner.settle(7, 1, 1, Outcome::Released), "+retry 1-1 after 50");
}

#[test]
fn bytes_are_those_of_what_is_ready() {
    let settings = Settings { sizes: SizesKept::Coming, ..Settings::default() };
    let mut owner = with_hand(Owner::with(settings));
    for bytes in [1, 10, 100, 1000] {
        owner.arrive(Arrival { bytes, ..Arrival::default() });
    }
    let check = |owner: &Owner, expected| assert_eq!(owner.fifo.ready_bytes(), expected);
    pick(&mut owner, 1, 2);
    check(&owner, 1001);
    owner.settle(7, 1, 1, Outcome::Released);
    check(&owner, 1011);
    discard(&mut owner, 3, 3);
    check(&owner, 11);
    owner.settle(7, 2, 2, Outcome::Accepted);
    owner.commit();
    check(&owner, 11);
}

#[test]
fn what_was_picked_is_known_to_have_been_out_after_a_clean_end() {
    let mut owner = with_hand(Owner::new(false));
    owner.publish(5);
    assert_eq!(pick(&mut owner, 3, 3), "c7<3-3");
    assert_eq!(owner.fifo.cursor(), QueueSeq(4));
    let mut fifo = Fifo::read_snapshot(&owner.snapshot()).expect("what was written is read");
    fifo.recover(Recovery::Clean(owner.fifo.cursor()), &mut owner.effects);
    assert_eq!([3, 4].map(|seq| fifo.past(QueueSeq(seq)).0), [true, false]);
}

#[test]
fn a_plain_queue_is_plain_again_once_it_is_past_what_was_chosen() {
    let mut owner = with_hand(Owner::new(false));
    owner.publish(100);
    assert_eq!(pick(&mut owner, 200, 300), "");
    assert!(!owner.fifo.has_features());
    assert_eq!(pick(&mut owner, 50, 50), "c7<50-50");
    assert_eq!(discard(&mut owner, 60, 60), "+purge 60-60");
    assert!(owner.fifo.has_features());
    owner.commit();
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<0-49 c0<51-59 c0<61-63 c0<64-99");
    assert!(!owner.fifo.has_features());
    owner.settle(7, 50, 50, Outcome::Released);
    assert_eq!(owner.dispatch(), "c0<50-50!");
}
