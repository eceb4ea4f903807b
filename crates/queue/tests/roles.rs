//! One list of records leads to the same canonical bytes, whatever a replica does beside it: an owner any number of
//! times, with requests that are never recorded, moves to segments, restarts from snapshots.

#[allow(dead_code, reason = "shared; this test uses a part")]
use crate::bench;

use base::id::{LogIndex, QueueSeq};
use base::{Digest, Random};
use bench::{Bench, Entry, snapshot};
use message::record::{Outcome, SeqRange};
use queue::{
    Command, Consume, ConsumerId, Credit, Effect, Effects, Fifo, MessageKey, Record, Recovery, Retry, Rules,
    Run, Settings, WindowSettings,
};

/// An entry of the log.
#[derive(Clone, Debug)]
enum Item {
    Record(Record),
    Deduplicate(WindowSettings),
    /// A message with a key comes at this time, if it is no duplicate.
    Keyed(MessageKey, u64, Record),
}

/// A log as some owner wrote it, with keys added to some messages, so that some of them are duplicates.
fn log(seed: u64, steps: u64) -> (Settings, Vec<Item>) {
    let mut bench = Bench::new(seed);
    (0..steps).for_each(|_| bench.step());
    let dice = &mut Random::new(seed ^ 0x5eed);
    let has_window = dice.one_in(3);
    let window = |dice: &mut Random| WindowSettings {
        keys_max: dice.between(1, 20) as u32,
        ttl_ms: dice.one_in(2).then(|| dice.below(300)),
    };
    let mut items = Vec::new();
    let records = bench.history.iter().filter_map(|entry| match entry {
        Entry::Record(record) => Some(record.clone()),
        Entry::MoveOut(_) => None,
    });
    for (at_ms, record) in (1000..).zip(records) {
        if has_window && (items.is_empty() || dice.one_in(100)) {
            items.push(Item::Deduplicate(window(dice)));
        }
        let is_message = matches!(record, Record::Enqueue { .. } | Record::Arrive { .. });
        items.push(match is_message && has_window && dice.one_in(2) {
            true => Item::Keyed(MessageKey(Digest([dice.below(30), 1])), at_ms, record),
            false => Item::Record(record),
        });
    }
    (bench.first_settings, items)
}

/// An effect for each of its messages: how many are told at once is no matter.
fn one_by_one(effect: &Effect) -> Vec<Effect> {
    let one = |seq: u64| SeqRange { first: QueueSeq(seq), last: QueueSeq(seq) };
    let mut all = Vec::new();
    match *effect {
        Effect::Append { kind, range, outcome } => {
            let each = (range.first.0..=range.last.0).map(one);
            all.extend(each.map(|range| Effect::Append { kind, range, outcome }));
        }
        Effect::Deliver { consumer, first, count, redelivered, delivery_count, acquired_count } => {
            let each = (first.0..).take(count as usize).map(QueueSeq);
            let count = 1;
            all.extend(each.map(|first| Effect::Deliver {
                consumer,
                first,
                count,
                redelivered,
                delivery_count,
                acquired_count,
            }));
        }
        _ => all.push(*effect),
    }
    all
}

/// A replica: the machine and what its node alone knows.
struct Replica {
    fifo: Fifo,
    is_owner: bool,
    slots: Vec<ConsumerId>,
    /// Above the places of all messages that were moved out.
    moved_below: LogIndex,
    now_ms: u64,
    effects: Effects,
    /// Messages that were handed out.
    given: u64,
}

impl Replica {
    fn new(settings: Settings) -> Replica {
        Replica {
            fifo: Fifo::new(settings),
            is_owner: false,
            slots: Vec::new(),
            moved_below: LogIndex(0),
            now_ms: 1000,
            effects: Effects::default(),
            given: 0,
        }
    }

    fn apply(&mut self, item: &Item) {
        let record = match item {
            Item::Record(record) => record,
            Item::Deduplicate(settings) => return self.fifo.deduplicate(*settings),
            Item::Keyed(key, at_ms, record) => match self.fifo.admit(*key, *at_ms, None) {
                true => record,
                false => return,
            },
        };
        self.fifo.record(record.clone(), &mut self.effects);
        self.effects.clear();
    }

    fn canonical(&self, from: LogIndex) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.fifo.write_canonical(from, &mut bytes);
        bytes
    }

    fn claim(&mut self, dice: &mut Random) {
        let recovery = match dice.one_in(2) {
            true => Recovery::Dirty,
            false => Recovery::Clean(QueueSeq(dice.below(self.fifo.next_seq().0 + 2))),
        };
        self.fifo.claim(recovery, &mut self.effects);
        self.effects.clear();
        self.is_owner = true;
    }

    /// The owner goes: its requests are as a restart would find them.
    fn resign(&mut self) {
        self.fifo.resign();
        self.is_owner = false;
        self.slots.clear();
        let mut again = Fifo::read_snapshot(&snapshot(&self.fifo)).expect("it was just written");
        let seen = |fifo: &Fifo| {
            let counts =
                [fifo.ready(), fifo.ready_bytes(), fifo.delayed(), fifo.total(), fifo.ready_returned()];
            (counts, fifo.ready_by_priority(), fifo.unsettled() + fifo.dying(), fifo.is_returning())
        };
        assert_eq!(seen(&self.fifo), seen(&again));
        assert_eq!((self.fifo.rules(), self.fifo.consumers()), (Rules::default(), 0));
        again.claim(Recovery::Dirty, &mut self.effects);
        let mut own = Fifo::read_snapshot(&snapshot(&self.fifo)).expect("it was just written");
        std::mem::swap(&mut own, &mut self.fifo);
        own.claim(Recovery::Dirty, &mut self.effects);
        self.effects.clear();
        let [of_resigned, of_restarted] = [own, again].map(|mut fifo| {
            let new = Consume {
                consumer: ConsumerId(0),
                credit: Credit::Prefetch(0),
                settled: false,
                exclusive: false,
                priority: 0,
                selector: None,
            };
            fifo.consume(new).expect("nobody else does");
            let mut effects = Effects::default();
            fifo.dispatch(self.now_ms, 1_000_000, &mut effects);
            effects.list.iter().flat_map(one_by_one).collect::<Vec<_>>()
        });
        let differ = of_resigned.iter().zip(&of_restarted).find(|(one, other)| one != other);
        assert_eq!((differ, of_resigned.len()), (None, of_restarted.len()));
    }

    fn restart(&mut self) {
        self.fifo = Fifo::read_snapshot(&snapshot(&self.fifo)).expect("it was just written");
        self.is_owner = false;
        self.slots.clear();
    }

    /// Messages go to segments, of which each node has its own.
    fn move_out(&mut self, dice: &mut Random) {
        let last = self.fifo.live_below(LogIndex(u64::MAX)).last().map_or(0, |(_, place)| place.0);
        let bound = LogIndex(dice.below(last + 2));
        let live: Vec<_> = self.fifo.live_below(bound).collect();
        let mut rest = &live[..];
        let mut runs = Vec::new();
        while !rest.is_empty() {
            let (block, others) = rest.split_at(rest.len().min(dice.between(1, 30) as usize));
            rest = others;
            let (first, last) = (block[0].0, block[block.len() - 1].0);
            let offset = dice.below(1 << 40);
            runs.push(Run { first, last, count: block.len() as u32, segment: 3, offset, len: 99 });
        }
        self.fifo.move_out(&runs, &mut self.effects);
        self.effects.clear();
        self.moved_below = self.moved_below.max(bound);
    }

    /// A request of the owner. The records that it asks for never come.
    fn request(&mut self, dice: &mut Random) {
        let Replica { fifo, slots, effects, .. } = self;
        let consumer = (!slots.is_empty()).then(|| slots[dice.below(slots.len() as u64) as usize]);
        let first = dice.below(fifo.next_seq().0 + 1);
        let range = SeqRange { first: QueueSeq(first), last: QueueSeq(first + dice.below(30)) };
        let outcomes = [Outcome::Accepted, Outcome::Rejected, Outcome::Released, Outcome::Failed];
        let outcome = outcomes[dice.below(4) as usize];
        self.now_ms += dice.below(40);
        match (dice.below(20), consumer) {
            (0..3, _) => {
                let consumer =
                    ConsumerId((0..).find(|slot| !slots.contains(&ConsumerId(*slot))).unwrap_or(0));
                let count = dice.below(40) as u32;
                let credit = if dice.one_in(2) { Credit::Prefetch(count) } else { Credit::Link(count) };
                let (settled, priority) = (dice.one_in(3), dice.below(3) as i32);
                let new = Consume { consumer, credit, settled, exclusive: false, priority, selector: None };
                if slots.len() < 5 && fifo.consume(new).is_ok() {
                    slots.push(consumer);
                }
            }
            (3..9, _) => self.given += u64::from(fifo.dispatch(self.now_ms, dice.below(60) as u32, effects)),
            (9..12, Some(consumer)) => fifo.apply(Command::Settle { consumer, range, outcome }, effects),
            (12, Some(consumer)) => {
                fifo.apply(Command::Close { consumer }, effects);
                slots.retain(|slot| *slot != consumer);
            }
            (13, Some(consumer)) => _ = fifo.take(consumer, dice.one_in(2), self.now_ms, effects),
            (14, Some(consumer)) => _ = fifo.pick(consumer, range, self.now_ms, effects),
            (15, Some(consumer)) => {
                fifo.postpone(consumer, range, Outcome::Failed, self.now_ms + 50, effects)
            }
            (16, _) => match dice.below(4) {
                0 => fifo.apply(Command::Purge, effects),
                1 => fifo.apply(Command::CancelDelayed { range }, effects),
                2 => fifo.apply(Command::Discard { range }, effects),
                _ => fifo.apply(Command::DeadLettered { range }, effects),
            },
            (17, Some(consumer)) => {
                fifo.watch(consumer, 20);
                self.given += fifo.look(self.now_ms, effects).len() as u64;
            }
            (18, _) => {
                let counts = fifo.settings().counts;
                let rules = Rules {
                    length_max: dice.one_in(3).then(|| dice.below(50)),
                    bytes_max: dice.one_in(4).then(|| dice.below(9000)),
                    drops_head: dice.one_in(2),
                    delivery_limit: dice.one_in(2).then(|| dice.below(4) as u32).filter(|_| counts),
                    cancel_limit: dice.one_in(2).then(|| dice.below(4) as u32).filter(|_| counts),
                    takes_dead: dice.one_in(2),
                    single_active: dice.one_in(3),
                    retry: (counts && dice.one_in(3)).then_some(Retry {
                        failed: true,
                        released: true,
                        min_ms: 10,
                        max_ms: 100,
                    }),
                    ..Rules::default()
                };
                fifo.set_rules(rules, effects);
            }
            (_, _) => fifo.will_annotate(range, 10),
        }
        effects.clear();
    }
}

/// How many messages the replicas handed out that none of the log tells of, and how often two states were the same.
fn run(seed: u64, steps: u64) -> [u64; 2] {
    println!("seed {seed}");
    let (settings, items) = log(seed, steps);
    let dice = &mut Random::new(seed);
    let mut plain = Replica::new(settings);
    let mut other = Replica::new(settings);
    let mut compared = 0;
    for item in &items {
        let is_at_work = dice.below(items.len() as u64) < 60;
        for _ in 0..if is_at_work { dice.below(12) } else { 0 } {
            match (dice.below(30), other.is_owner) {
                (0, _) => other.restart(),
                (1, _) => other.move_out(dice),
                (2..4, true) => other.resign(),
                (2..8, false) => other.claim(dice),
                (_, true) => other.request(dice),
                (_, false) => {}
            }
        }
        if is_at_work && dice.one_in(10) {
            plain.move_out(dice);
        }
        plain.apply(item);
        other.apply(item);
        if is_at_work && dice.one_in(4) {
            let from = plain.moved_below.max(other.moved_below);
            assert!(plain.canonical(from) == other.canonical(from), "at {item:?}");
            compared += 1;
        }
    }
    if other.is_owner {
        other.resign();
    }
    let from = plain.moved_below.max(other.moved_below);
    assert!(plain.canonical(from) == other.canonical(from), "at the end");
    [other.given, compared + 1]
}

#[test]
fn roles_leave_no_trace() {
    let all = (0..500).map(|seed| run(seed, 120)).fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    assert!(all[0] > 50_000 && all[1] > 5000, "they do little: {all:?}");
}

/// `QUEUE_SEED` and `QUEUE_STEPS` run one life, or, with `QUEUE_LIVES`, as many from that seed on.
#[test]
#[ignore = "by hand, for as long as one likes"]
fn roles_leave_no_trace_by_hand() {
    let number = |name, or| std::env::var(name).map_or(or, |text: String| text.parse().unwrap());
    let seed = number("QUEUE_SEED", 0);
    for seed in seed..seed + number("QUEUE_LIVES", 1) {
        run(seed, number("QUEUE_STEPS", 1000));
    }
}
