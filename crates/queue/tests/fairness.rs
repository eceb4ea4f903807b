//! Fairness, which consumer is given the next message; and how many messages all of them may hold.

use base::id::LogIndex;
use message::record::{Outcome, SeqRange};
use queue::{Command, Consume, ConsumerId, Credit, Effect, Effects, Fairness, Fifo, Rules, Settings};
use std::collections::VecDeque;

use Credit::{Link, Prefetch};

/// A queue under such a rule, and who was given what.
struct Desk {
    fifo: Fifo,
    effects: Effects,
    place: u64,
    /// Each message that is out, by consumer, oldest first.
    out: Vec<VecDeque<SeqRange>>,
}

impl Desk {
    fn new(fairness: Fairness, consumers: &[Credit]) -> Desk {
        let with_priority: Vec<(Credit, i32)> = consumers.iter().map(|credit| (*credit, 0)).collect();
        Desk::with_priorities(fairness, &with_priority)
    }

    fn with_priorities(fairness: Fairness, consumers: &[(Credit, i32)]) -> Desk {
        Desk::under(Rules { fairness, ..Rules::default() }, consumers)
    }

    fn under(rules: Rules, consumers: &[(Credit, i32)]) -> Desk {
        let mut fifo = Fifo::new(Settings::default());
        let mut effects = Effects::default();
        fifo.set_rules(rules, &mut effects);
        let mut desk = Desk { fifo, effects, place: 0, out: Vec::new() };
        consumers.iter().for_each(|(credit, priority)| desk.consume(*credit, *priority));
        desk
    }

    fn consume(&mut self, credit: Credit, priority: i32) {
        let consumer = ConsumerId(self.out.len() as u32);
        self.fifo
            .consume(Consume { consumer, credit, settled: false, exclusive: false, priority, selector: None })
            .unwrap();
        self.out.push(VecDeque::new());
    }

    /// So many messages come: which consumers are given them, in order.
    fn come(&mut self, messages: u64) -> Vec<usize> {
        for _ in 0..messages {
            self.place += 96;
            self.fifo.enqueue(LogIndex(self.place), false);
        }
        self.fifo.dispatch(0, 10_000, &mut self.effects);
        let mut given = Vec::new();
        for effect in self.effects.list.drain(..) {
            let Effect::Deliver { consumer, first, count, .. } = effect else { continue };
            for seq in first.0..first.0 + u64::from(count) {
                let seq = base::id::QueueSeq(seq);
                self.out[consumer.0 as usize].push_back(SeqRange { first: seq, last: seq });
                given.push(consumer.0 as usize);
            }
        }
        given
    }

    /// A consumer settles the first so many messages of those it holds.
    fn settle(&mut self, consumer: usize, messages: usize) {
        for _ in 0..messages {
            let range = self.out[consumer].pop_front().unwrap();
            let id = ConsumerId(consumer as u32);
            let settle = Command::Settle { consumer: id, range, outcome: Outcome::Accepted };
            self.fifo.apply(settle, &mut self.effects);
            self.fifo.record(queue::Record::Settle { range }, &mut self.effects);
        }
        self.effects.clear();
    }
}

#[test]
fn the_least_share_is_next() {
    let check = |windows: &[Credit], held: &[u64], expected: &[usize]| {
        let mut desk = Desk::new(Fairness::RoundRobin, &[]);
        // Each is filled while it is alone.
        for (credit, held) in windows.iter().zip(held) {
            let before: Vec<usize> = (0..desk.out.len()).collect();
            for slot in &before {
                desk.fifo.apply(
                    Command::Pause { consumer: ConsumerId(*slot as u32), paused: true },
                    &mut desk.effects,
                );
            }
            desk.consume(*credit, 0);
            desk.come(*held);
        }
        for slot in 0..windows.len() as u32 {
            desk.fifo.apply(Command::Pause { consumer: ConsumerId(slot), paused: false }, &mut desk.effects);
        }
        let rules = Rules { fairness: Fairness::Proportional, ..Rules::default() };
        desk.fifo.set_rules(rules, &mut desk.effects);
        assert_eq!(desk.come(expected.len() as u64), expected, "{windows:?} {held:?}");
    };
    // Half, three quarters, two fifths.
    check(&[Prefetch(2), Prefetch(4), Prefetch(10)], &[1, 3, 4], &[2]);
    // Then it has half, as the first, which has waited longer.
    check(&[Prefetch(2), Prefetch(4), Prefetch(10)], &[1, 3, 4], &[2, 0, 2, 2, 2, 1, 2, 2]);
    check(&[Prefetch(1), Prefetch(10)], &[0, 9], &[0, 1]);
    // A prefetch of 0 counts as 2,000: one part in 2,000 is less than one in 1,000.
    check(&[Prefetch(1000), Prefetch(0)], &[1, 1], &[1, 0, 1, 1, 0]);
    // Held and credit together, over AMQP 1.0.
    check(&[Link(3), Link(5)], &[2, 2], &[1, 1, 0, 1]);
    // Nothing is held, and all have waited.
    check(&[Prefetch(5), Prefetch(5), Prefetch(5)], &[0, 0, 0], &[0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_higher_priority_comes_first() {
    for fairness in [Fairness::Fast, Fairness::Proportional] {
        let consumers = [(Prefetch(3), 0), (Prefetch(2), 7), (Prefetch(2), 7), (Prefetch(3), -1)];
        let mut desk = Desk::with_priorities(fairness, &consumers);
        let mut given = desk.come(12);
        assert_eq!(given.len(), 10, "{fairness:?}");
        given[..4].sort_unstable();
        assert_eq!(given, [1, 1, 2, 2, 0, 0, 0, 3, 3, 3], "{fairness:?}");
        desk.settle(2, 1);
        desk.settle(0, 1);
        assert_eq!(desk.come(0), [2, 0], "{fairness:?}");
    }
}

#[test]
fn fast_fills_the_first_that_has_room() {
    let mut desk = Desk::new(Fairness::Fast, &[Prefetch(3), Link(2), Prefetch(3)]);
    assert_eq!(desk.come(6), [0, 0, 0, 1, 1, 2]);
    desk.settle(2, 1);
    desk.settle(0, 2);
    assert_eq!(desk.come(3), [0, 0, 2]);
    desk.consume(Prefetch(0), 0);
    desk.settle(0, 1);
    assert_eq!(desk.come(4), [0, 2, 2, 3]);
}

/// A hundred messages come, one each 10 ms, and each is settled after 50 ms: how many each of the consumers was given.
fn slow_arrivals(fairness: Fairness, consumers: &[Credit]) -> Vec<usize> {
    let mut desk = Desk::new(fairness, consumers);
    let mut counts = vec![0; consumers.len()];
    let mut due: VecDeque<(u64, usize)> = VecDeque::new();
    for now_ms in (0..1000).step_by(10) {
        while let Some((_, consumer)) = due.pop_front_if(|(due_ms, _)| *due_ms <= now_ms) {
            desk.settle(consumer, 1);
        }
        for consumer in desk.come(1) {
            counts[consumer] += 1;
            due.push_back((now_ms + 50, consumer));
        }
    }
    counts
}

#[test]
fn a_greedy_consumer_takes_its_share() {
    let consumers = [Prefetch(1000), Prefetch(10)];
    let counts = slow_arrivals(Fairness::Proportional, &consumers);
    assert!(counts[1] >= 15 && counts.iter().sum::<usize>() == 100, "{counts:?}");
    assert_eq!(slow_arrivals(Fairness::RoundRobin, &consumers), [50, 50]);
    assert_eq!(slow_arrivals(Fairness::Fast, &consumers), [100, 0]);
}

#[test]
fn round_robin_is_even() {
    let mut desk = Desk::new(Fairness::RoundRobin, &[Prefetch(0); 3]);
    desk.come(300);
    assert_eq!(desk.out.iter().map(VecDeque::len).collect::<Vec<_>>(), [100; 3]);
    let counts = slow_arrivals(Fairness::RoundRobin, &[Prefetch(10); 4]);
    assert_eq!(counts, [25; 4]);
}

#[test]
fn a_change_of_the_rule_counts_at_once() {
    let mut desk = Desk::new(Fairness::RoundRobin, &[Prefetch(4), Prefetch(8), Prefetch(2)]);
    assert_eq!(desk.come(3), [0, 1, 2]);
    let go_by = |desk: &mut Desk, fairness, expected: &[usize]| {
        desk.fifo.set_rules(Rules { fairness, ..Rules::default() }, &mut desk.effects);
        assert_eq!(desk.come(expected.len() as u64), expected, "{fairness:?}");
    };
    go_by(&mut desk, Fairness::Proportional, &[1, 0, 1]);
    go_by(&mut desk, Fairness::Fast, &[0, 0, 1]);
    go_by(&mut desk, Fairness::RoundRobin, &[1, 2, 1]);
    assert!(!desk.fifo.has_features(), "a queue with the usual rule is a plain one");
    let rules = Rules { fairness: Fairness::Fast, ..Rules::default() };
    desk.fifo.set_rules(rules, &mut desk.effects);
    for slot in 0..3 {
        desk.fifo.apply(Command::Close { consumer: ConsumerId(slot) }, &mut desk.effects);
    }
    desk.effects.clear();
    // The rule holds for consumers that come when there were none.
    desk.out = Vec::new();
    desk.consume(Prefetch(2), 0);
    desk.consume(Prefetch(2), 0);
    assert_eq!(desk.come(0), [0, 0, 1, 1]);
}

#[test]
fn many_consumers_stay_even() {
    const CONSUMERS: usize = 1000;
    let windows: Vec<Credit> = (0..CONSUMERS).map(|slot| Prefetch([2, 4, 10][slot % 3])).collect();
    let mut desk = Desk::new(Fairness::Proportional, &windows);
    let all: usize = (0..CONSUMERS).map(|slot| [2, 4, 10][slot % 3]).sum();
    desk.come(all as u64 / 2);
    for (slot, out) in desk.out.iter().enumerate() {
        let half = [1, 2, 5][slot % 3];
        assert!(out.len().abs_diff(half) <= 1, "{slot}: {} of {half}", out.len());
    }
    // One that settles all is next, and so until it holds its share.
    desk.settle(500, desk.out[500].len());
    assert_eq!(desk.come(1), [500]);
}

#[test]
fn no_more_is_held_than_the_queue_allows() {
    for fairness in [Fairness::RoundRobin, Fairness::Fast, Fairness::Proportional] {
        let rules = Rules { fairness, unsettled_max: Some(5), ..Rules::default() };
        let mut desk = Desk::under(rules, &[(Prefetch(0), 0), (Prefetch(3), 0)]);
        assert_eq!((desk.come(9).len(), desk.fifo.unsettled(), desk.fifo.ready()), (5, 5, 4), "{fairness:?}");
        assert!(!desk.fifo.has_taker() && desk.fifo.room(9) == 0);
        let first = usize::from(desk.out[0].is_empty());
        desk.settle(first, 1);
        assert!(desk.fifo.has_taker() && desk.fifo.room(9) == 1);
        assert_eq!((desk.come(0).len(), desk.fifo.unsettled()), (1, 5), "{fairness:?}");
        // A get is given its message, and counts.
        desk.fifo.add_getter(ConsumerId(2));
        assert!(desk.fifo.take(ConsumerId(2), false, 0, &mut desk.effects));
        desk.effects.clear();
        desk.settle(first, 1);
        assert_eq!((desk.come(0).len(), desk.fifo.unsettled()), (0, 5), "{fairness:?}");
        // One that settles at once holds nothing.
        let settling = Consume {
            consumer: ConsumerId(3),
            credit: Prefetch(0),
            settled: true,
            exclusive: false,
            priority: -1,
            selector: None,
        };
        desk.fifo.consume(settling).unwrap();
        desk.out.extend([VecDeque::new(), VecDeque::new()]);
        assert!(desk.fifo.has_taker());
        assert_eq!(desk.come(2), [3; 4], "{fairness:?}");
        // A higher bound counts at once, and a lower one takes nothing back.
        desk.fifo.set_rules(Rules { unsettled_max: Some(6), ..rules }, &mut desk.effects);
        desk.fifo.apply(Command::Close { consumer: ConsumerId(3) }, &mut desk.effects);
        assert_eq!((desk.come(3).len(), desk.fifo.unsettled()), (1, 6), "{fairness:?}");
        desk.fifo.set_rules(Rules { unsettled_max: Some(1), ..rules }, &mut desk.effects);
        assert_eq!((desk.come(0).len(), desk.fifo.unsettled()), (0, 6), "{fairness:?}");
    }
}

#[test]
fn a_consumer_that_drains_is_answered_though_the_queue_gives_no_more() {
    let rules = Rules { unsettled_max: Some(2), ..Rules::default() };
    let mut desk = Desk::under(rules, &[(Prefetch(2), 0), (Link(0), 0)]);
    assert_eq!(desk.come(3), [0, 0]);
    let drain = Command::Credit { consumer: ConsumerId(1), credit: 4, drain: true };
    desk.fifo.apply(drain, &mut desk.effects);
    desk.fifo.dispatch(0, 10, &mut desk.effects);
    assert_eq!(desk.effects.list, [Effect::Drained { consumer: ConsumerId(1), unused: 4 }]);
}
