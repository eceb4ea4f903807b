//! Higher priorities first.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::owner;

use base::id::LogIndex;
use message::record::{Outcome, SizesKept};
use owner::{Owner, range};
use queue::{Arrival, Command, ConsumerId, Credit, Effect, Fifo, Priorities, Rules, Settings};

const NONE: u8 = 255;

fn up_to(max: u8) -> Owner {
    Owner::with(Settings { priorities: Priorities::UpTo(max), ..Settings::default() })
}

fn strict() -> Owner {
    Owner::new(true)
}

/// In which order messages of these priorities are handed out.
fn check(mut owner: Owner, priorities: &[u8], expected: &str) {
    owner.arrive_as(priorities);
    assert_eq!(owner.fifo.ready(), priorities.len() as u64);
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), expected);
    assert_eq!(owner.counts(), (0, priorities.len() as u64, priorities.len() as u64));
}

#[test]
fn the_highest_first_then_in_order() {
    check(up_to(3), &[NONE, 0, 2, 9, 3, 200], "c0<3-5 c0<2-2 c0<0-1");
    check(up_to(0), &[1, 2, 0], "c0<0-2");
    check(strict(), &[NONE, 0, 4, 5, 31, 40, 3, 200], "c0<4-5 c0<7-7 c0<3-3 c0<0-0 c0<2-2 c0<6-6 c0<1-1");
    check(Owner::new(false), &[1, 2, NONE, 9], "c0<0-3");
}

#[test]
fn what_is_ready_is_counted_by_priority() {
    let check = |owner: &Owner, returned: u64, expected: &[(u8, u64)]| {
        assert_eq!(owner.fifo.ready_returned(), returned);
        assert_eq!(owner.fifo.ready_by_priority(), expected);
        assert_eq!(returned + expected.iter().map(|(_, count)| count).sum::<u64>(), owner.fifo.ready());
    };
    for (mut owner, usual) in [(strict(), 4), (up_to(9), 0)] {
        check(&owner, 0, &[]);
        owner.arrive_as(&[5, 5, 5, usual, NONE, 3]);
        let others = |fives: u64, usuals: u64| {
            let mut all = vec![(3, 1), (5, fives), (usual, usuals)];
            all.retain(|(_, count)| *count > 0);
            all.sort_unstable();
            all
        };
        check(&owner, 0, &others(3, 2));
        owner.consume(0, Credit::Link(2));
        owner.dispatch();
        check(&owner, 0, &others(1, 2));
        owner.settle(0, 0, 1, Outcome::Released);
        owner.commit();
        check(&owner, 2, &others(1, 2));
        // A long stretch of one priority is kept otherwise.
        owner.arrive_as(&[5; 200]);
        check(&owner, 2, &others(201, 2));
        owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 500, drain: false });
        owner.dispatch();
        check(&owner, 0, &[]);
        // Messages of the usual priority that came back.
        owner.settle(0, 3, 4, Outcome::Released);
        owner.commit();
        check(&owner, 2, &[]);
    }
}

#[test]
fn usual_ones_may_come_the_plain_way() {
    let mut owner = up_to(9);
    assert!(owner.fifo.takes_plain() && strict().fifo.takes_plain());
    owner.publish(2);
    owner.arrive_as(&[0, 5]);
    owner.publish(1);
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<3-3 c0<0-2 c0<4-4");
}

#[test]
fn what_came_back_goes_first_among_its_own() {
    let mut owner = up_to(9);
    owner.arrive_as(&[5, 5, 5, 1, 0, 0]);
    owner.consume(0, Credit::Link(5));
    assert_eq!(owner.dispatch(), "c0<0-2 c0<3-3 c0<4-4");
    owner.settle(0, 1, 1, Outcome::Released);
    owner.settle(0, 3, 4, Outcome::Failed);
    owner.arrive_as(&[5, 9, 1]);
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 99, drain: false });
    assert_eq!(owner.fifo.ready(), 7);
    assert_eq!(owner.dispatch(), "c0<7-7 c0<1-1! c0<6-6 c0<3-3!x1 c0<8-8 c0<4-4!x1 c0<5-5");
}

/// As in RabbitMQ: its quorum queues look at messages that came back before all else.
#[test]
fn what_came_back_goes_before_all_where_priorities_are_strict() {
    let mut owner = strict();
    owner.arrive_as(&[5, 1, 5]);
    owner.consume(0, Credit::Link(3));
    assert_eq!(owner.dispatch(), "c0<0-0 c0<2-2 c0<1-1");
    owner.settle(0, 0, 1, Outcome::Released);
    owner.commit();
    owner.arrive_as(&[31]);
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 99, drain: false });
    assert_eq!(owner.dispatch(), "c0<0-0! c0<1-1! c0<3-3");
}

/// Given back together, they come again as they were given out.
#[test]
fn what_came_back_goes_by_level_among_itself() {
    let mut owner = strict();
    owner.arrive_as(&[1, 9, 5, 9, 4, 1]);
    owner.consume(0, Credit::Link(6));
    assert_eq!(owner.dispatch(), "c0<1-1 c0<3-3 c0<2-2 c0<4-4 c0<0-0 c0<5-5");
    owner.settle(0, 0, 5, Outcome::Released);
    owner.commit();
    owner.arrive_as(&[31]);
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 99, drain: false });
    assert_eq!(owner.dispatch(), "c0<1-1! c0<3-3! c0<2-2! c0<4-4! c0<0-0! c0<5-5! c0<6-6");
}

/// As in RabbitMQ, with any type of queue: the head is the message that would be handed out next.
#[test]
fn over_the_limit_the_highest_go_first() {
    for mut owner in [up_to(10), strict()] {
        owner.rules(Rules { length_max: Some(3), drops_head: true, ..Rules::default() });
        owner.arrive_as(&[5, 1, 9, 1, 5]);
        assert_eq!(owner.dispatch(), "+drop 2-2 +drop 0-0");
        owner.commit();
        assert_eq!(owner.counts(), (3, 0, 3));
    }
}

#[test]
fn priorities_survive() {
    let mut owner = up_to(9);
    owner.arrive_as(&[1, 7, 0, 7, 1]);
    owner.consume(0, Credit::Link(1));
    assert_eq!(owner.dispatch(), "c0<1-1");
    owner.restart(Rules::default());
    assert_eq!(owner.counts(), (5, 0, 5));
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<1-1! c0<3-3! c0<0-0! c0<4-4! c0<2-2!");
}

#[test]
fn after_a_clean_end_all_below_the_last_handed_out_is_flagged() {
    let mut owner = up_to(9);
    owner.arrive_as(&[0, 0, 7, 0, 7]);
    owner.consume(0, Credit::Link(1));
    assert_eq!(owner.dispatch(), "c0<2-2");
    let cursor = owner.fifo.cursor();
    owner.fifo = queue::Fifo::read_snapshot(&owner.snapshot()).unwrap();
    owner.fifo.recover(queue::Recovery::Clean(cursor), &mut owner.effects);
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<2-2! c0<4-4 c0<0-1! c0<3-3");
}

#[test]
fn purged_and_settled_whatever_the_level() {
    let mut owner = up_to(9);
    owner.arrive_as(&[0, 9, 4, 0, 9, 4]);
    owner.consume(0, Credit::Link(2));
    assert_eq!(owner.dispatch(), "c0<1-1 c0<4-4");
    owner.settle(0, 4, 4, Outcome::Released);
    owner.fifo.settled(range(2, 3), &mut owner.effects);
    assert_eq!(owner.counts(), (3, 1, 4));
    assert_eq!(owner.apply(Command::Purge), "+purge 0-0 +purge 4-5");
    owner.commit();
    assert_eq!(owner.counts(), (0, 1, 1));
    owner.settle(0, 1, 1, Outcome::Accepted);
    owner.commit();
    owner.arrive_as(&[3, 0]);
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 99, drain: false });
    assert_eq!(owner.dispatch(), "c0<6-6 c0<7-7");
}

#[test]
fn times_hold_at_every_level() {
    let mut owner = up_to(9);
    for (priority, expires_at_ms) in [(9, 1100), (0, 1100), (5, 0), (9, 0), (0, 0)] {
        owner.arrive(Arrival { priority: Some(priority), expires_at_ms, ..Arrival::default() });
    }
    assert_eq!(owner.at(1100), "+expire 0-1");
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<3-3 c0<2-2 c0<4-4");
}

#[test]
fn a_change_is_about_what_comes_after_it() {
    let mut owner = Owner::new(false);
    owner.arrive_as(&[7, 0]);
    owner.fifo.configure(Settings { priorities: Priorities::UpTo(9), ..Settings::default() });
    owner.arrive_as(&[7, 3]);
    owner.fifo.configure(Settings::default());
    owner.arrive_as(&[7]);
    owner.consume(0, Credit::Prefetch(0));
    assert_eq!(owner.dispatch(), "c0<2-2 c0<3-3 c0<0-1 c0<4-4");
    owner.settle(0, 0, 9, Outcome::Released);
    assert_eq!(owner.dispatch(), "c0<2-2! c0<3-3! c0<0-1! c0<4-4!");
}

#[test]
fn queues_that_count_are_strict_where_nothing_is_said() {
    let mut owner = strict();
    owner.fifo.configure(Settings { ttl_ms: Some(5), ..Settings::default() });
    let expected =
        Settings { counts: true, ttl_ms: Some(5), priorities: Priorities::Strict, sizes: SizesKept::None };
    assert_eq!(owner.fifo.settings(), expected);
    let up_to = Settings { priorities: Priorities::UpTo(2), ..expected };
    owner.fifo.configure(up_to);
    assert_eq!(owner.fifo.settings(), up_to, "no message came so far");
    owner.arrive_as(&[0, 2, 1]);
    owner.fifo.configure(expected);
    assert_eq!(owner.fifo.settings(), up_to, "messages are there");
}

#[test]
fn queues_that_count_may_tell_more_priorities() {
    let ranked = || {
        let priorities = Priorities::UpTo(255);
        Owner::with(Settings { counts: true, priorities, ..Settings::default() })
    };
    check(ranked(), &[NONE, 0, 200, 4, 254, 31, 200], "c0<4-4 c0<2-2 c0<6-6 c0<5-5 c0<3-3 c0<0-1");
    let mut owner = ranked();
    owner.arrive_as(&[7, 4, 0, 200]);
    owner.consume(0, Credit::Prefetch(2));
    assert_eq!(owner.dispatch(), "c0<3-3 c0<0-0");
    assert_eq!(owner.settle(0, 0, 0, Outcome::Failed), "+return 0-0");
    owner.commit();
    owner.arrive_as(&[9]);
    assert_eq!(owner.dispatch(), "c0<4-4", "what came back goes first among its own alone");
    owner.restart(Rules::default());
    owner.consume(0, Credit::Prefetch(9));
    assert_eq!(owner.dispatch(), "c0<3-3! c0<4-4! c0<0-0!x1 c0<1-1! c0<2-2!");
}

#[test]
#[should_panic(expected = "only queues that count have strict priorities")]
fn no_other_queue_is_strict() {
    Owner::with(Settings { priorities: Priorities::Strict, ..Settings::default() });
}

/// The rare state goes with the last message that needs it; a queue that never has one has none.
#[test]
fn memory_follows_what_is_used() {
    let mut owner = strict();
    let empty = owner.fifo.memory_bytes();
    assert!(size_of::<queue::Fifo>() <= 296, "{}", size_of::<queue::Fifo>());
    owner.arrive_as(&[4, NONE]);
    assert_eq!(owner.fifo.memory_bytes(), {
        let mut plain = strict();
        plain.publish(2);
        plain.fifo.memory_bytes()
    });
    owner.arrive_as(&[9]);
    owner.consume(0, Credit::Prefetch(0));
    owner.dispatch();
    owner.settle(0, 0, 2, Outcome::Accepted);
    owner.commit();
    owner.dispatch();
    owner.apply(Command::Close { consumer: ConsumerId(0) });
    assert!(owner.fifo.memory_bytes() <= empty + 200, "{} {empty}", owner.fifo.memory_bytes());
}

/// Bytes of a queue with these messages beyond one with as many that have no priority.
fn more_bytes(priorities: impl Iterator<Item = u8>) -> usize {
    let (mut owner, mut plain) = (up_to(9), up_to(9));
    for priority in priorities {
        owner.arrive_as(&[priority]);
        plain.publish(1);
    }
    owner.fifo.memory_bytes() - plain.fifo.memory_bytes()
}

#[test]
fn a_priority_costs_bits_and_a_long_stretch_of_one_nothing() {
    let mixed = more_bytes((0..100_000).map(|number| number as u8 % 8));
    assert!(mixed < 100_000 * 3, "{mixed}");
    let alike = more_bytes((0..100_000).map(|_| 5));
    assert!(alike < 4000, "{alike}");
    let stretches = more_bytes((0..100_000).map(|number| (number / 10_000) as u8));
    assert!(stretches < 4000, "{stretches}");
}

/// The next message of the priority that is handed out next, from a position on.
#[test]
fn it_is_known_what_comes() {
    let check = |owner: &Owner, from: u64, expected: &[u64]| {
        let coming: Vec<u64> = owner.fifo.coming(base::id::QueueSeq(from)).map(|seq| seq.0).collect();
        assert_eq!(coming, expected, "from {from}");
    };
    let mut owner = strict();
    owner.arrive_as(&[9, 4, 9, 1, 1, 4, 9]);
    assert!(owner.fifo.has_levels());
    owner.consume(0, Credit::Link(1));
    owner.dispatch();
    check(&owner, 0, &[2, 6]);
    check(&owner, 3, &[6]);
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 2, drain: false });
    owner.dispatch();
    check(&owner, 0, &[1, 5]);
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 2, drain: false });
    owner.dispatch();
    check(&owner, 0, &[3, 4]);
    owner.settle(0, 2, 2, Outcome::Released);
    owner.commit();
    check(&owner, 0, &[2]);
    owner.apply(Command::Credit { consumer: ConsumerId(0), credit: 9, drain: false });
    owner.dispatch();
    check(&owner, 0, &[]);
    owner.settle(0, 0, 6, Outcome::Accepted);
    owner.commit();
    assert!(!owner.fifo.has_levels());
    owner.publish(2);
    check(&owner, 0, &[7, 8]);
}

/// Many of one level in a row are kept otherwise than those that take turns: nobody sees that.
#[test]
fn stretches_and_turns_are_one_order() {
    let mut owner = up_to(9);
    owner.arrive_as(&[vec![5; 300], vec![5, 7, 0, 5, 5], vec![7; 200], vec![3, 5]].concat());
    let snapshot = owner.snapshot();
    owner.restart(Rules::default());
    assert_eq!(owner.snapshot(), snapshot);
    assert_eq!(owner.counts(), (507, 0, 507));
    owner.consume(0, Credit::Prefetch(0));
    let handed: Vec<(u64, u64)> = owner.dispatch().split(' ').map(ends).collect();
    let all: Vec<u64> = handed.iter().flat_map(|(first, last)| *first..=*last).collect();
    let sevens = std::iter::once(301).chain(305..505);
    let fives = (0..301).chain([303, 304, 506]);
    assert!(all.iter().copied().eq(sevens.chain(fives).chain([505, 302])), "{all:?}");
    assert!(handed.len() < 16, "{handed:?}");
    owner.settle(0, 60, 330, Outcome::Released);
    assert_eq!(owner.counts(), (271, 236, 507));
    owner.settle(0, 0, 506, Outcome::Accepted);
    owner.commit();
    assert_eq!(owner.counts(), (271, 0, 271));
    let handed: Vec<(u64, u64)> = owner.dispatch().split(' ').map(ends).collect();
    let all: Vec<u64> = handed.iter().flat_map(|(first, last)| *first..=*last).collect();
    let again = std::iter::once(301).chain(305..331).chain(60..301).chain([303, 304, 302]);
    assert!(all.iter().copied().eq(again), "{all:?}");
}

/// The first and last position of a delivery as [`Owner::told`] shows it.
fn ends(told: &str) -> (u64, u64) {
    let (_, range) = told.trim_end_matches('!').split_once('<').unwrap();
    let (first, last) = range.split_once('-').unwrap();
    (first.parse().unwrap(), last.parse().unwrap())
}

/// Positions that a dispatch hands out at once: where the block begins, and which of its positions.
fn check_together(priorities: &[u8], credit: u32, expected: &[(u64, u64)]) {
    let mut owner = up_to(9);
    owner.arrive_as(priorities);
    owner.consume(0, Credit::Link(credit));
    owner.fifo.dispatch(owner.now_ms, 1000, &mut owner.effects);
    let at_once = owner.effects.list.iter().map(|effect| match *effect {
        Effect::DeliverScattered { block, bits, .. } => (block.0, bits),
        Effect::Deliver { first, count, .. } => {
            let bits = (first.0..first.0 + u64::from(count)).fold(0, |bits, seq| bits | 1 << (seq % 64));
            (first.0 & !63, bits)
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(at_once.collect::<Vec<_>>(), expected);
}

#[test]
fn those_of_a_priority_in_a_block_go_together() {
    check_together(&[0, 5, 0, 5, 9, 0], 99, &[(0, 0b010000), (0, 0b001010), (0, 0b100101)]);
    // As many as there is credit for, and the others not.
    check_together(&[5, 0, 5, 0, 5, 0], 2, &[(0, 0b000101)]);
    check_together(&[5, 0, 5, 0, 5, 0], 5, &[(0, 0b010101), (0, 0b001010)]);
    // Blocks end at multiples of 64.
    let turns: Vec<u8> = (0..70).map(|at| at % 2).collect();
    let (odd, even) = (0xAAAA_AAAA_AAAA_AAAA, 0x5555_5555_5555_5555);
    check_together(&turns, 99, &[(0, odd), (64, 0b101010), (0, even), (64, 0b010101)]);
}

#[test]
fn what_has_a_priority_at_most_may_come_the_short_way() {
    let check = |settings: Settings, is_short: bool| {
        let mut dice = base::Random::new(3);
        let [mut long, mut short] = [Fifo::new(settings), Fifo::new(settings)];
        for place in 0..1000 {
            let priority = (!dice.one_in(4)).then(|| dice.below(12) as u8);
            let arrival = Arrival { priority, ..Arrival::default() };
            long.arrive(LogIndex(place), &arrival);
            if !short.arrive_simply(LogIndex(place), false, priority) {
                assert!(!is_short || !short.has_features(), "{settings:?}");
                short.arrive(LogIndex(place), &arrival);
            }
        }
        let state = |fifo: &Fifo| {
            let mut bytes = Vec::new();
            fifo.write_snapshot(&mut bytes);
            (bytes, fifo.ready())
        };
        assert_eq!(state(&long), state(&short));
    };
    let up_to = Settings { priorities: Priorities::UpTo(9), ..Settings::default() };
    check(up_to, true);
    check(Settings { counts: true, ..Settings::default() }, true);
    check(Settings { ttl_ms: Some(9), ..up_to }, false);
    check(Settings { sizes: SizesKept::Coming, ..up_to }, false);
}
