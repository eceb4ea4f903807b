//! Settling many positions together has the effects of settling each by itself.

use base::Random;
use base::id::{LogIndex, QueueSeq};
use message::record::{Outcome, SeqRange};
use queue::{
    Arrival, Command, Consume, ConsumerId, Credit, Effect, Effects, Fifo, Priorities, Rules, Settings,
};

const CONSUMER: ConsumerId = ConsumerId(0);

/// Two machines that are told the same, one of them together, the other one by one.
struct Twins {
    single: (Fifo, Effects),
    together: (Fifo, Effects),
    /// Ranges that were asked to be settled and are not yet.
    asked: Vec<SeqRange>,
    next_place: u64,
}

impl Twins {
    fn new(settings: Settings) -> Twins {
        let fifo = || {
            let mut fifo = Fifo::new(settings);
            let consumer = Consume {
                consumer: CONSUMER,
                credit: Credit::Prefetch(0),
                settled: false,
                exclusive: false,
                priority: 0,
                selector: None,
            };
            fifo.consume(consumer).unwrap();
            (fifo, Effects::default())
        };
        Twins { single: fifo(), together: fifo(), asked: Vec::new(), next_place: 0 }
    }

    fn both(&mut self, mut tell: impl FnMut(&mut Fifo, &mut Effects)) {
        tell(&mut self.single.0, &mut self.single.1);
        tell(&mut self.together.0, &mut self.together.1);
    }

    fn arrive(&mut self, priority: u8, transient: bool, expires_at_ms: u64) {
        let arrival = Arrival { priority: Some(priority), transient, expires_at_ms, ..Arrival::default() };
        let place = LogIndex(self.next_place);
        self.next_place += 100;
        self.both(|fifo, _| _ = fifo.arrive(place, &arrival));
    }

    fn accept(&mut self, ranges: &[SeqRange]) {
        for range in ranges {
            let settle = Command::Settle { consumer: CONSUMER, range: *range, outcome: Outcome::Accepted };
            self.single.0.apply(settle, &mut self.single.1);
        }
        self.together.0.accept_together(CONSUMER, ranges.iter().copied(), &mut self.together.1);
    }

    /// Records that were asked for, the first `count` of them.
    fn commit(&mut self, count: usize) {
        let ranges: Vec<SeqRange> = self.asked.drain(..count).collect();
        ranges.iter().for_each(|range| self.single.0.settled(*range, &mut self.single.1));
        self.together.0.settled_together(ranges.iter().copied(), &mut self.together.1);
    }

    fn compare(&mut self) {
        let (one, other) = (&mut self.single, &mut self.together);
        assert_eq!(one.1.list, other.1.list);
        [&mut one.1.left, &mut other.1.left].into_iter().for_each(|left| left.sort());
        assert_eq!((&one.1.left, one.1.ignored), (&other.1.left, other.1.ignored));
        for effect in one.1.list.drain(..) {
            if let Effect::Append { range, .. } = effect {
                self.asked.push(range);
            }
        }
        other.1.list.clear();
        for effects in [&mut one.1, &mut other.1] {
            effects.left.clear();
            effects.ignored = 0;
        }
        let told = |fifo: &Fifo| {
            let mut snapshot = Vec::new();
            fifo.write_snapshot(&mut snapshot);
            let held: Vec<SeqRange> = fifo.held(CONSUMER).collect();
            let counts = (fifo.ready(), fifo.unsettled(), fifo.total());
            let coming = fifo.coming(QueueSeq(0)).next();
            (snapshot, held, counts, fifo.head(), fifo.cursor(), coming)
        };
        assert_eq!(told(&one.0), told(&other.0));
    }
}

fn one(seq: u64, len: u64) -> SeqRange {
    SeqRange { first: QueueSeq(seq), last: QueueSeq(seq + len) }
}

fn check(settings: Settings, seed: u64) {
    let mut dice = Random::new(seed);
    let mut twins = Twins::new(settings);
    let levels = 1 + dice.below(9);
    // Now and then a queue knows more of some messages than their priorities.
    let rare = [u64::MAX, 50, 400][dice.below(3) as usize];
    for _ in 0..200 {
        match dice.below(6) {
            0 => {
                for number in 0..dice.below(150) {
                    let is_rare = |dice: &mut Random| rare != u64::MAX && dice.below(rare) == 0;
                    let transient = settings.priorities != Priorities::Strict && is_rare(&mut dice);
                    let expires_at_ms = if is_rare(&mut dice) { 1 << 40 } else { 0 };
                    twins.arrive((number % levels) as u8, transient, expires_at_ms);
                }
            }
            1 => {
                let budget = dice.below(200) as u32;
                twins.both(|fifo, effects| _ = fifo.dispatch(5, budget, effects));
            }
            2 => {
                let held: Vec<SeqRange> = twins.single.0.held(CONSUMER).collect();
                let Some(range) = held.get(dice.below(held.len().max(1) as u64) as usize).copied() else {
                    continue;
                };
                let settle = Command::Settle { consumer: CONSUMER, range, outcome: Outcome::Released };
                twins.both(|fifo, effects| fifo.apply(settle, effects));
            }
            3 => {
                // Those held of a stretch, and some that are not.
                let top = twins.single.0.next_seq().0 + 70;
                let (mut at, stride) = (dice.below(top), 1 + dice.below(12));
                let mut ranges = Vec::new();
                for _ in 0..dice.below(150) {
                    ranges.push(one(at, dice.below(20).saturating_sub(17)));
                    at += 3 + dice.below(stride);
                }
                twins.accept(&ranges);
            }
            4 => {
                let held: Vec<SeqRange> = twins.single.0.held(CONSUMER).collect();
                let some = dice.below(held.len() as u64 + 1) as usize;
                twins.accept(&held[..some]);
            }
            _ => {
                let count = dice.below(twins.asked.len() as u64 + 1) as usize;
                twins.commit(count);
            }
        }
        twins.compare();
    }
    let held: Vec<SeqRange> = twins.single.0.held(CONSUMER).collect();
    twins.accept(&held);
    twins.compare();
    twins.commit(twins.asked.len());
    twins.compare();
}

#[test]
fn together_is_as_one_by_one() {
    let up_to = Settings { priorities: Priorities::UpTo(9), ..Settings::default() };
    let strict = Settings { counts: true, priorities: Priorities::Strict, ..Settings::default() };
    for seed in 0..25 {
        check(up_to, seed);
        check(strict, 1000 + seed);
        check(Settings::default(), 2000 + seed);
    }
}

/// Ranges at the very head, behind gaps, twice, and where nothing is.
#[test]
fn the_head_moves_over_what_was_settled_before() {
    let mut twins = Twins::new(Settings { priorities: Priorities::UpTo(9), ..Settings::default() });
    twins.both(|fifo, effects| fifo.set_rules(Rules::default(), effects));
    (0..200).for_each(|number| twins.arrive(number % 8, false, 0));
    twins.both(|fifo, effects| _ = fifo.dispatch(5, 200, effects));
    twins.compare();
    for phase in (0..8).rev() {
        let ranges: Vec<SeqRange> = (phase..200).step_by(8).map(|seq| one(seq, 0)).collect();
        twins.accept(&ranges);
        twins.accept(&ranges);
        twins.compare();
        twins.asked.extend(ranges);
        twins.commit(twins.asked.len());
        twins.compare();
        assert_eq!(twins.together.0.head().0, if phase == 0 { 200 } else { 0 });
    }
}
