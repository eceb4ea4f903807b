//! A queue machine beside a plain model of it, and an owner with a log that commits late.
//!
//! The model knows one thing per message and searches; what it expects is compared with every effect of the machine.

use base::Random;
use base::id::{LogIndex, QueueSeq};
use message::record::{DeathReason, Kind, Outcome, SeqRange};
use queue::{
    Arrival, Command, Consume, ConsumerId, Credit, Effect, Effects, Fifo, Place, Priorities, Record,
    Recovery, Rules, Run, Settings, Stretch,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Consumers a bench uses at most.
pub const SLOTS: u32 = 7;

/// What the log, or the mover of segments, did to the queue.
#[derive(Clone, Debug)]
pub enum Entry {
    Record(Record),
    MoveOut(Vec<Run>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Held(u32),
    /// Waits for its time.
    Delayed,
    /// A record about it was asked for.
    Away,
    /// Told as dead, and not buried.
    Dying,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Log(LogIndex),
    Run(usize),
}

#[derive(Clone, Copy, Debug)]
struct Message {
    state: State,
    place: Where,
    transient: bool,
    was_delivered: bool,
    is_returning: bool,
    came_back: bool,
    failed: u32,
    acquired: u32,
    level: u8,
    deadline_ms: Option<u64>,
    bytes: u32,
    due_ms: Option<u64>,
    /// It was given its due time when it came back.
    is_postponed: bool,
    is_postponing: bool,
    /// It came of age behind the messages there were, as number so and so.
    behind: Option<(u64, u64)>,
    annotations: Option<u8>,
}

/// The order of handing out: by level, what came back before others, and by place in line.
type Rank = (u16, bool, (u64, bool, u64));

#[derive(Clone, Debug)]
struct Consumer {
    credit: Credit,
    settled: bool,
    exclusive: bool,
    priority: i32,
    paused: bool,
    drain: bool,
    is_consumer: bool,
    receives: bool,
    joined: u64,
    watch: Watch,
}

/// How long it may hold what, and what it has not settled that was taken back.
#[derive(Clone, Debug, Default)]
struct Watch {
    timeout_ms: Option<u64>,
    since: BTreeMap<u64, u64>,
    late: BTreeSet<u64>,
}

pub struct Bench {
    pub fifo: Fifo,
    pub dice: Random,
    counts: bool,
    /// Time passes, rules and settings change; else the queue is a plain one.
    is_featured: bool,
    settings: Settings,
    rules: Rules,
    now_ms: u64,
    offered_below: usize,
    effects: Effects,
    messages: Vec<Message>,
    /// What is ready, in the order in which it is to be handed out.
    ready: BTreeSet<(Rank, u64)>,
    /// The first time anything was handed out since the owner began.
    began_ms: Option<u64>,
    /// How many came of age.
    grown: u64,
    active: Option<u32>,
    joined: u64,
    /// What the machine should ask for, and tell of.
    appends: Vec<(Kind, Outcome, u64)>,
    postpones: Vec<(Outcome, u64, u64)>,
    deaths: Vec<(DeathReason, u64)>,
    turns_of_active: Vec<(u32, bool)>,
    /// How many messages ended how.
    ended: BTreeMap<&'static str, u64>,
    steps: u64,
    runs: Vec<(Run, u64)>,
    consumers: BTreeMap<u32, Consumer>,
    /// Whose turn it is, by priority: the front.
    turns: BTreeMap<i32, VecDeque<u32>>,
    draining: Vec<u32>,
    /// Written, in order; the machine has seen `applied` of it.
    log: VecDeque<Record>,
    next_place: u64,
    /// A snapshot, and what came after it.
    base: Vec<u8>,
    tail: Vec<Entry>,
    /// Everything since the queue was new.
    pub history: Vec<Entry>,
    pub delivered: u64,
    pub died: u64,
    /// Held for too long.
    pub taken_back: u64,
}

fn range(first: u64, last: u64) -> SeqRange {
    SeqRange { first: QueueSeq(first), last: QueueSeq(last) }
}

pub fn snapshot(fifo: &Fifo) -> Vec<u8> {
    let mut bytes = Vec::new();
    fifo.write_snapshot(&mut bytes);
    bytes
}

pub fn replay(fifo: &mut Fifo, entries: &[Entry]) {
    let mut effects = Effects::default();
    for entry in entries {
        match entry {
            Entry::Record(record) => fifo.record(record.clone(), &mut effects),
            Entry::MoveOut(runs) => fifo.move_out(runs, &mut effects),
        }
        effects.clear();
    }
}

impl Bench {
    pub fn new(seed: u64) -> Bench {
        let mut dice = Random::new(seed);
        let counts = dice.one_in(2);
        let is_featured = dice.one_in(2);
        let fifo = Fifo::new(Settings { counts, ..Settings::default() });
        let settings = fifo.settings();
        let base = snapshot(&fifo);
        Bench {
            fifo,
            dice,
            counts,
            is_featured,
            settings,
            rules: Rules::default(),
            now_ms: 1000,
            offered_below: 0,
            effects: Effects::default(),
            messages: Vec::new(),
            ready: BTreeSet::new(),
            began_ms: None,
            grown: 0,
            active: None,
            joined: 0,
            appends: Vec::new(),
            postpones: Vec::new(),
            deaths: Vec::new(),
            turns_of_active: Vec::new(),
            ended: BTreeMap::new(),
            steps: 0,
            runs: Vec::new(),
            consumers: BTreeMap::new(),
            turns: BTreeMap::new(),
            draining: Vec::new(),
            log: VecDeque::new(),
            next_place: 0,
            base,
            tail: Vec::new(),
            history: Vec::new(),
            delivered: 0,
            died: 0,
            taken_back: 0,
        }
    }

    pub fn counts(&self) -> bool {
        self.counts
    }

    pub fn step(&mut self) {
        match self.dice.below(if self.is_featured { 121 } else { 104 }) {
            0..18 => self.publish(),
            18..38 => self.commit(),
            38..58 => self.dispatch(),
            58..76 => self.settle(),
            76..80 => self.consume(),
            80..82 => self.cancel_or_close(),
            82..88 => self.credit(),
            88..92 => self.pause(),
            92..95 => self.take(),
            95 => self.purge_sometimes(),
            96 => self.check_replay(),
            97 => self.move_out(),
            98 => self.restart_sometimes(),
            99 => self.check_places(),
            100..102 => self.look(),
            102..104 => self.settle_late(),
            104..106 => self.configure(),
            106..108 => self.set_rules(),
            108..113 => self.bury_some(),
            113..116 => self.postpone(),
            116 => self.cancel_delayed(),
            _ => self.now_ms += self.dice.below(200),
        }
        self.steps += 1;
        if self.steps.is_multiple_of(16) {
            self.check_counts();
        }
    }

    /// Leaves nothing behind: everything committed, handed out and settled.
    pub fn finish(&mut self) {
        for slot in self.consumers.keys().copied().collect::<Vec<_>>() {
            self.close(slot);
        }
        let new = Consume {
            consumer: ConsumerId(0),
            credit: Credit::Prefetch(0),
            settled: false,
            exclusive: true,
            priority: 0,
        };
        self.log.push_back(Record::Configure { settings: Settings::default() });
        self.go_by(Rules::default());
        self.commit_some(usize::MAX);
        self.open(new);
        self.now_ms += 10_000;
        while self.fifo.total() > 0 {
            self.dispatch_up_to(1000);
            self.settle_range(0, range(0, u64::MAX - 1), Outcome::Accepted);
            self.bury(range(0, u64::MAX - 1));
            self.commit_some(usize::MAX);
        }
        self.dispatch_up_to(1);
        assert_eq!(self.ended.values().sum::<u64>(), self.messages.len() as u64);
        self.check_counts();
        assert!(self.messages.iter().all(|message| message.state == State::Gone));
        assert!(self.runs.iter().all(|(_, live)| *live == 0));
        self.check_replay();
        self.close(0);
        assert!(self.fifo.memory_bytes() < 600, "{} bytes for nothing", self.fifo.memory_bytes());
    }

    // The log.

    fn publish(&mut self) {
        let transient_too = self.dice.one_in(4);
        for _ in 0..self.dice.between(1, 40) {
            self.next_place += 8 * self.dice.between(1, 40);
            if self.dice.one_in(5000) {
                self.next_place += 5 << 30;
            }
            let place = LogIndex(self.next_place);
            let transient = transient_too && self.dice.one_in(3);
            let record = match self.is_featured {
                false => Record::Enqueue { place, transient },
                true => Record::Arrive { place, arrival: self.arrival(transient) },
            };
            self.log.push_back(record);
        }
    }

    fn arrival(&mut self, transient: bool) -> Arrival {
        let dice = &mut self.dice;
        let expires_at_ms = if dice.one_in(3) { self.now_ms + dice.below(2000) } else { 0 };
        Arrival {
            transient,
            priority: dice.one_in(2).then(|| dice.below(9) as u8),
            received_at_ms: self.now_ms,
            expires_at_ms,
            due_at_ms: if dice.one_in(4) { self.now_ms + dice.below(600) } else { 0 },
            bytes: dice.below(1000) as u32,
        }
    }

    fn configure(&mut self) {
        let dice = &mut self.dice;
        let priorities = match dice.below(4) {
            _ if self.counts => Priorities::Strict,
            0 => Priorities::None,
            _ => Priorities::UpTo(dice.below(8) as u8),
        };
        let ttl_ms = dice.one_in(3).then(|| dice.below(3) * 400);
        let settings = Settings { counts: self.counts, ttl_ms, priorities, sizes: dice.one_in(2) };
        self.log.push_back(Record::Configure { settings });
    }

    fn commit(&mut self) {
        let count = self.dice.between(1, 60) as usize;
        self.commit_some(count);
    }

    fn commit_some(&mut self, count: usize) {
        for _ in 0..count.min(self.log.len()) {
            let record = self.log.pop_front().unwrap();
            self.see(record.clone());
            // Records may come twice; an enqueue does not, its place in the log tells.
            let is_once =
                matches!(record, Record::Enqueue { .. } | Record::Arrive { .. } | Record::Return { .. });
            let is_once = is_once || matches!(record, Record::Postpone { .. });
            if !is_once && self.dice.one_in(10) {
                self.see(record);
            }
        }
    }

    /// The record as its owner gives it to the machine: what may come the plain way does, now and then.
    fn plainly(&mut self, record: Record) -> Record {
        match record {
            Record::Arrive { place, arrival }
                if self.fifo.takes_plain()
                    && arrival.priority.is_none()
                    && arrival.expires_at_ms == 0
                    && arrival.due_at_ms == 0
                    && self.dice.one_in(2) =>
            {
                Record::Enqueue { place, transient: arrival.transient }
            }
            other => other,
        }
    }

    fn see(&mut self, record: Record) {
        let record = self.plainly(record);
        self.tail.push(Entry::Record(record.clone()));
        self.history.push(Entry::Record(record.clone()));
        self.fifo.record(record.clone(), &mut self.effects);
        let usual = if self.counts { 4 } else { 0 };
        match record {
            Record::Enqueue { place, transient } => self.model_new(place, transient, usual, None, 0),
            Record::Arrive { place, arrival } => {
                let level = match self.settings.priorities {
                    Priorities::None => usual,
                    Priorities::UpTo(max) => arrival.priority.unwrap_or(usual).min(max),
                    Priorities::Strict => arrival.priority.unwrap_or(usual).min(31),
                };
                let from_ms = arrival.received_at_ms.max(arrival.due_at_ms);
                let deadlines = [
                    (arrival.expires_at_ms > 0).then_some(arrival.expires_at_ms),
                    self.settings.ttl_ms.map(|ttl_ms| from_ms + ttl_ms),
                ];
                let deadline_ms = deadlines.into_iter().flatten().min();
                let bytes = if self.settings.sizes { arrival.bytes } else { 0 };
                self.model_new(place, arrival.transient, level, deadline_ms, bytes);
                if arrival.due_at_ms > arrival.received_at_ms {
                    let seq = self.messages.len() as u64 - 1;
                    self.messages[seq as usize].due_ms = Some(arrival.due_at_ms);
                    self.turn_to(seq, State::Delayed);
                }
            }
            Record::Postpone { range, outcome, due_at_ms } => {
                let mut killed = Vec::new();
                for seq in range.first.0..=range.last.0 {
                    let message = &mut self.messages[seq as usize];
                    if message.state == State::Gone {
                        continue;
                    }
                    if self.counts {
                        message.acquired += 1;
                        message.failed += u32::from(outcome == Outcome::Failed);
                    }
                    (message.due_ms, message.is_postponed) = (Some(due_at_ms), true);
                    let failed = message.failed;
                    if std::mem::take(&mut message.is_postponing) {
                        match self.rules.delivery_limit {
                            Some(limit) if failed > limit => killed.push(seq),
                            _ => self.turn_to(seq, State::Delayed),
                        }
                    }
                }
                killed.into_iter().for_each(|seq| self.model_die(seq, DeathReason::DeliveryLimit));
                self.expect_left(&[]);
            }
            Record::Settle { range } => self.model_gone("settled", range),
            Record::Purge { range } => self.model_gone("purged", range),
            Record::Expire { range } => self.model_gone("expired", range),
            Record::Drop { range } => self.model_gone("dropped", range),
            Record::DeadLetter { range } => self.model_gone("dead-lettered", range),
            Record::Configure { settings } => {
                self.settings = Settings { counts: self.counts, ..settings };
                if self.counts {
                    self.settings.priorities = Priorities::Strict;
                }
                if !settings.sizes {
                    self.messages.iter_mut().for_each(|message| message.bytes = 0);
                }
                assert_eq!(self.fifo.settings(), self.settings);
                self.expect_left(&[]);
            }
            Record::Annotate { range, annotations } => {
                for seq in range.first.0..=range.last.0 {
                    let message = &mut self.messages[seq as usize];
                    if message.state != State::Gone {
                        message.annotations = Some(annotations[0]);
                    }
                }
                self.expect_left(&[]);
            }
            Record::Return { range, outcome } => {
                let mut killed = Vec::new();
                for seq in range.first.0..=range.last.0 {
                    let message = &mut self.messages[seq as usize];
                    if message.state != State::Gone {
                        message.acquired += 1;
                        message.failed += u32::from(outcome == Outcome::Failed);
                    }
                    let failed = message.failed;
                    if std::mem::take(&mut message.is_returning) {
                        match self.rules.delivery_limit {
                            Some(limit) if failed > limit => killed.push(seq),
                            _ => self.model_ready_again(seq),
                        }
                    }
                }
                killed.into_iter().for_each(|seq| self.model_die(seq, DeathReason::DeliveryLimit));
                self.expect_left(&[]);
            }
        }
        self.write(&[]);
    }

    fn model_new(
        &mut self,
        place: LogIndex,
        transient: bool,
        level: u8,
        deadline_ms: Option<u64>,
        bytes: u32,
    ) {
        self.messages.push(Message {
            state: State::Away,
            place: Where::Log(place),
            transient,
            was_delivered: false,
            is_returning: false,
            came_back: false,
            failed: 0,
            acquired: 0,
            level,
            deadline_ms,
            bytes,
            due_ms: None,
            is_postponed: false,
            is_postponing: false,
            behind: None,
            annotations: None,
        });
        self.turn_to(self.messages.len() as u64 - 1, State::Ready);
        self.expect_left(&[]);
    }

    /// Where it stands in line, by level: who came back before all others where priorities are strict, else before those of
    /// its level.
    fn rank(&self, seq: u64) -> (Rank, u64) {
        let message = &self.messages[seq as usize];
        let rank = match (self.counts, message.came_back, message.behind) {
            (true, true, _) => (255 - u16::from(message.level), false, (seq, true, 0)),
            (false, true, _) => (256 + 255 - u16::from(message.level), false, (seq, true, 0)),
            (_, _, Some((behind, order))) => {
                (256 + 255 - u16::from(message.level), true, (behind, false, order))
            }
            _ => (256 + 255 - u16::from(message.level), true, (seq, true, 0)),
        };
        (rank, seq)
    }

    /// Delayed messages whose time has come are ready.
    fn model_come_of_age(&mut self) {
        let began_ms = *self.began_ms.get_or_insert(self.now_ms);
        for (due_ms, seq) in self.model_delayed() {
            if due_ms > self.now_ms {
                return;
            }
            let behind = (self.messages.len() as u64, self.grown);
            let usual = if self.counts { 4 } else { 0 };
            let message = &mut self.messages[seq as usize];
            if message.is_postponed {
                self.model_ready_again(seq);
                continue;
            }
            if message.level == usual {
                self.grown += 1;
                message.behind = Some(behind);
                message.was_delivered &= due_ms <= began_ms;
            }
            self.turn_to(seq, State::Ready);
        }
    }

    /// What waits for its time: when it is due, and which it is.
    fn model_delayed(&self) -> Vec<(u64, u64)> {
        let delayed = self.messages.iter().enumerate().filter(|(_, message)| message.state == State::Delayed);
        let mut delayed: Vec<_> =
            delayed.map(|(seq, message)| (message.due_ms.unwrap(), seq as u64)).collect();
        delayed.sort_unstable();
        delayed
    }

    fn postpone(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let mut held = self.held(slot);
        let first = self.dice.below(held.len() as u64 + 1) as usize;
        held.drain(..first);
        held.truncate(self.dice.between(1, 12) as usize);
        let Some((first, last)) = held.first().zip(held.last()) else { return };
        let outcome = if self.dice.one_in(2) { Outcome::Failed } else { Outcome::Released };
        let due_ms = self.now_ms + self.dice.below(600);
        self.fifo.postpone(ConsumerId(slot), range(*first, *last), outcome, due_ms, &mut self.effects);
        assert_eq!(std::mem::take(&mut self.effects.ignored), last - first + 1 - held.len() as u64);
        for seq in held {
            self.consumers.get_mut(&slot).unwrap().watch.since.remove(&seq);
            if self.messages[seq as usize].state != State::Gone {
                self.turn_to(seq, State::Away);
                let message = &mut self.messages[seq as usize];
                message.is_postponing = true;
                if !self.counts && outcome == Outcome::Failed {
                    message.failed = (message.failed + 1).min(100);
                }
                self.postpones.push((outcome, due_ms, seq));
            }
        }
        self.line_up(slot);
        self.write(&[]);
    }

    fn cancel_delayed(&mut self) {
        let first = self.dice.below(self.messages.len() as u64 + 1);
        let range = range(first, first + self.dice.below(100));
        let mut delayed: Vec<u64> = self.model_delayed().into_iter().map(|(_, seq)| seq).collect();
        delayed.retain(|seq| (range.first.0..=range.last.0).contains(seq));
        delayed.sort_unstable();
        assert_eq!(self.fifo.delayed_within(range), delayed.len() as u64);
        self.fifo.apply(Command::CancelDelayed { range }, &mut self.effects);
        for seq in delayed {
            self.turn_to(seq, State::Away);
            self.appends.push((Kind::Purge, Outcome::Released, seq));
        }
        self.write(&[]);
    }

    fn turn_to(&mut self, seq: u64, state: State) {
        if self.messages[seq as usize].state == State::Ready {
            assert!(self.ready.remove(&self.rank(seq)));
        }
        self.messages[seq as usize].state = state;
        if state == State::Ready {
            self.ready.insert(self.rank(seq));
        }
    }

    fn model_ready_again(&mut self, seq: u64) {
        self.messages[seq as usize].came_back = true;
        self.turn_to(seq, State::Ready);
    }

    fn model_die(&mut self, seq: u64, reason: DeathReason) {
        if self.rules.takes_dead {
            self.turn_to(seq, State::Dying);
            self.deaths.push((reason, seq));
            self.died += 1;
            return;
        }
        self.turn_to(seq, State::Away);
        self.appends.push(match reason {
            DeathReason::Rejected => (Kind::Settle, Outcome::Rejected, seq),
            DeathReason::Expired => (Kind::Expire, Outcome::Released, seq),
            DeathReason::MaxLength => (Kind::Drop, Outcome::Released, seq),
            DeathReason::DeliveryLimit => (Kind::Drop, Outcome::Failed, seq),
        });
    }

    /// What is ready, below `below`, and past its time.
    fn model_expire(&mut self, below: usize) {
        let mut due: Vec<u64> = self.ready.iter().map(|(_, seq)| *seq).collect();
        due.retain(|seq| {
            let deadline_ms = self.messages[*seq as usize].deadline_ms;
            *seq < below as u64 && deadline_ms.is_some_and(|deadline_ms| deadline_ms <= self.now_ms)
        });
        due.sort_unstable();
        due.into_iter().for_each(|seq| self.model_die(seq, DeathReason::Expired));
    }

    fn model_ready_bytes(&self) -> u64 {
        self.ready.iter().map(|(_, seq)| u64::from(self.messages[*seq as usize].bytes)).sum()
    }

    fn model_drop_over(&mut self) {
        let Rules { length_max, bytes_max, drops_head, .. } = self.rules;
        let is_over = |bench: &Bench| {
            length_max.is_some_and(|max| bench.ready.len() as u64 > max)
                || bytes_max.is_some_and(|max| bench.model_ready_bytes() > max)
        };
        while drops_head && is_over(self) {
            let (_, seq) = *self.ready.first().unwrap();
            self.model_die(seq, DeathReason::MaxLength);
        }
    }

    fn set_rules(&mut self) {
        let dice = &mut self.dice;
        let rules = Rules {
            length_max: dice.one_in(3).then(|| dice.below(150)),
            bytes_max: dice.one_in(4).then(|| dice.below(60_000)),
            drops_head: dice.one_in(2),
            delivery_limit: dice.one_in(2).then(|| dice.below(5) as u32).filter(|_| self.counts),
            takes_dead: dice.one_in(2),
            single_active: dice.one_in(3),
        };
        self.go_by(rules);
    }

    fn go_by(&mut self, rules: Rules) {
        self.fifo.set_rules(rules, &mut self.effects);
        let before = std::mem::replace(&mut self.rules, rules);
        assert_eq!(self.fifo.rules(), Rules { drops_head: self.fifo.rules().drops_head, ..rules });
        if before.single_active && !rules.single_active {
            self.active = None;
            self.let_receive(|_| true);
        }
        if let Some(limit) = rules.delivery_limit {
            let mut failed: Vec<u64> = self.ready.iter().map(|(_, seq)| *seq).collect();
            failed.retain(|seq| self.messages[*seq as usize].failed > limit);
            failed.sort_unstable();
            failed.into_iter().for_each(|seq| self.model_die(seq, DeathReason::DeliveryLimit));
        }
        self.model_drop_over();
        self.write(&[]);
    }

    fn bury_some(&mut self) {
        let first = self.dice.below(self.messages.len() as u64 + 1);
        let count = self.dice.below(200);
        self.bury(range(first, first + count));
    }

    fn bury(&mut self, positions: SeqRange) {
        self.fifo.apply(Command::Buried { range: positions }, &mut self.effects);
        for seq in positions.first.0..=positions.last.0.min(self.messages.len() as u64) {
            if self.messages.get(seq as usize).is_some_and(|message| message.state == State::Dying) {
                self.turn_to(seq, State::Away);
                self.appends.push((Kind::DeadLetter, Outcome::Rejected, seq));
            }
        }
        self.write(&[]);
    }

    fn model_gone(&mut self, how: &'static str, range: SeqRange) {
        let mut gone = Vec::new();
        for seq in range.first.0..=range.last.0 {
            if self.messages[seq as usize].state != State::Gone {
                self.turn_to(seq, State::Gone);
                let message = &mut self.messages[seq as usize];
                message.is_returning = false;
                message.is_postponing = false;
                *self.ended.entry(how).or_default() += 1;
                gone.push(message.place);
            }
        }
        self.expect_left(&gone);
    }

    /// The machine told just these as left.
    fn expect_left(&mut self, gone: &[Where]) {
        let mut left = Vec::new();
        let mut runs_left = Vec::new();
        for place in gone {
            match *place {
                Where::Log(place) => left.push(place),
                Where::Run(at) => {
                    self.runs[at].1 -= 1;
                    if self.runs[at].1 == 0 {
                        runs_left.push(self.runs[at].0);
                    }
                }
            }
        }
        assert_eq!(self.effects.left, left);
        assert_eq!(self.effects.runs_left, runs_left);
        self.effects.left.clear();
        self.effects.runs_left.clear();
    }

    /// Writes what the machine asked for, and nothing else was asked or told.
    fn write(&mut self, expected: &[(Kind, Outcome, u64)]) {
        let mut wanted = std::mem::take(&mut self.appends);
        wanted.extend(expected);
        let mut asked = Vec::new();
        let mut deaths = Vec::new();
        let mut turns = Vec::new();
        let mut postpones = Vec::new();
        for effect in std::mem::take(&mut self.effects.list) {
            let (kind, range, outcome) = match effect {
                Effect::Append { kind, range, outcome } => (kind, range, outcome),
                Effect::DeadLetter { range, reason } => {
                    deaths.extend((range.first.0..=range.last.0).map(|seq| (reason, seq)));
                    continue;
                }
                Effect::Postpone { range, outcome, due_at_ms } => {
                    postpones.extend((range.first.0..=range.last.0).map(|seq| (outcome, due_at_ms, seq)));
                    self.log.push_back(Record::Postpone { range, outcome, due_at_ms });
                    continue;
                }
                Effect::Active { consumer, active } => {
                    turns.push((consumer.0, active));
                    continue;
                }
                other => panic!("{other:?}"),
            };
            asked.extend((range.first.0..=range.last.0).map(|seq| (kind, outcome, seq)));
            self.log.push_back(match kind {
                Kind::Settle => Record::Settle { range },
                Kind::Return => Record::Return { range, outcome },
                Kind::Purge => Record::Purge { range },
                Kind::Expire => Record::Expire { range },
                Kind::Drop => Record::Drop { range },
                Kind::DeadLetter => Record::DeadLetter { range },
                other => panic!("a queue writes no {other:?}"),
            });
        }
        if wanted.first().is_some_and(|(kind, _, _)| *kind == Kind::Purge) {
            // Purged in whatever order.
            wanted.sort_unstable_by_key(|(_, _, seq)| *seq);
            asked.sort_unstable_by_key(|(_, _, seq)| *seq);
        }
        assert_eq!(asked, wanted);
        assert_eq!(deaths, std::mem::take(&mut self.deaths));
        assert_eq!(turns, std::mem::take(&mut self.turns_of_active));
        assert_eq!(postpones, std::mem::take(&mut self.postpones));
    }

    /// One consumer at a time: who it is now.
    fn elect(&mut self) {
        if !self.rules.single_active {
            return;
        }
        let may_be = |consumer: &Consumer| consumer.is_consumer && consumer.watch.late.is_empty();
        let consumers = self.consumers.iter().filter(|(_, consumer)| may_be(consumer));
        let best = consumers.max_by_key(|(_, consumer)| (consumer.priority, Reverse(consumer.joined)));
        let best = best.map(|(slot, _)| *slot);
        let stays = self.active.filter(|slot| may_be(&self.consumers[slot]));
        let mut next = stays.or(best);
        let mut is_leaving = false;
        if let (true, Some(active), Some(best)) = (self.counts, stays, best)
            && self.consumers[&best].priority > self.consumers[&active].priority
        {
            is_leaving = !self.held(active).is_empty();
            next = if is_leaving { Some(active) } else { Some(best) };
        }
        self.let_receive(|slot| !is_leaving && next == Some(slot));
        if next != self.active {
            self.turns_of_active.extend(self.active.map(|slot| (slot, false)));
            self.turns_of_active.extend(next.map(|slot| (slot, true)));
            self.active = next;
        }
    }

    fn let_receive(&mut self, receives: impl Fn(u32) -> bool) {
        for slot in self.consumers.keys().copied().collect::<Vec<_>>() {
            let consumer = self.consumers.get_mut(&slot).unwrap();
            consumer.receives = consumer.is_consumer && receives(slot);
            self.line_up(slot);
        }
    }

    // Consumers.

    fn room(&self, slot: u32) -> u64 {
        let consumer = &self.consumers[&slot];
        match consumer.credit {
            _ if consumer.paused || !consumer.receives || !consumer.watch.late.is_empty() => 0,
            Credit::Prefetch(0) => u64::MAX,
            Credit::Prefetch(_) if consumer.settled => u64::MAX,
            Credit::Prefetch(prefetch) => u64::from(prefetch).saturating_sub(self.held(slot).len() as u64),
            Credit::Link(credit) => u64::from(credit),
        }
    }

    fn held(&self, slot: u32) -> Vec<u64> {
        let ranges = self.fifo.held(ConsumerId(slot));
        ranges.flat_map(|range| range.first.0..=range.last.0).collect()
    }

    /// As the machine should: in line exactly while there is room.
    fn line_up(&mut self, slot: u32) {
        let priority = self.consumers[&slot].priority;
        let can_take = self.room(slot) > 0;
        let line = self.turns.entry(priority).or_default();
        let at = line.iter().position(|have| *have == slot);
        match (at, can_take) {
            (None, true) => line.push_back(slot),
            (Some(at), false) => drop(line.remove(at)),
            _ => {}
        }
    }

    fn consume(&mut self) {
        let slot = self.dice.below(u64::from(SLOTS)) as u32;
        if self.consumers.contains_key(&slot) {
            return;
        }
        if self.dice.one_in(5) {
            self.fifo.add_getter(ConsumerId(slot));
            let consumer = Consumer {
                credit: Credit::Link(0),
                settled: false,
                exclusive: false,
                priority: 0,
                paused: false,
                drain: false,
                is_consumer: false,
                receives: false,
                joined: 0,
                watch: Watch::default(),
            };
            self.consumers.insert(slot, consumer);
            self.watch(slot);
            return;
        }
        let credit = match self.dice.below(3) {
            0 => Credit::Prefetch(0),
            1 => Credit::Prefetch(self.dice.between(1, 30) as u32),
            _ => Credit::Link(self.dice.below(30) as u32),
        };
        let new = Consume {
            consumer: ConsumerId(slot),
            credit,
            settled: self.dice.one_in(4),
            exclusive: self.dice.one_in(12),
            priority: self.dice.below(3) as i32 - 1,
        };
        self.open(new);
    }

    fn open(&mut self, new: Consume) {
        let mut others = self.consumers.values().filter(|consumer| consumer.is_consumer);
        let is_refused =
            if new.exclusive { others.next().is_some() } else { others.any(|other| other.exclusive) };
        assert_eq!(self.fifo.consume(new).is_err(), is_refused);
        if is_refused {
            return;
        }
        let Consume { consumer, credit, settled, exclusive, priority } = new;
        let (paused, drain, is_consumer, receives) = (false, false, true, true);
        self.joined += 1;
        let joined = self.joined;
        let watch = Watch::default();
        let model = Consumer {
            credit,
            settled,
            exclusive,
            priority,
            paused,
            drain,
            is_consumer,
            receives,
            joined,
            watch,
        };
        self.consumers.insert(consumer.0, model);
        self.line_up(consumer.0);
        self.watch(consumer.0);
    }

    /// Some may hold what they are given for so long.
    fn watch(&mut self, slot: u32) {
        if self.dice.one_in(2) {
            let timeout_ms = self.dice.below(5) * 50;
            self.fifo.watch(ConsumerId(slot), timeout_ms);
            self.consumers.get_mut(&slot).unwrap().watch.timeout_ms = Some(timeout_ms);
        }
    }

    /// What was held for too long is taken back.
    fn look(&mut self) {
        self.now_ms += self.dice.below(100);
        let late = self.fifo.look(self.now_ms, &mut self.effects);
        let mut expected = Vec::new();
        for slot in self.consumers.keys().copied().collect::<Vec<_>>() {
            let held = self.held_by(slot);
            let now_ms = self.now_ms;
            let watch = &mut self.consumers.get_mut(&slot).unwrap().watch;
            let Some(timeout_ms) = watch.timeout_ms else { continue };
            watch.since.retain(|seq, _| held.contains(seq));
            held.iter().for_each(|seq| _ = watch.since.entry(*seq).or_insert(now_ms));
            let over = watch.since.iter().filter(|(_, since)| **since + timeout_ms <= now_ms);
            let over: Vec<u64> = over.map(|(seq, _)| *seq).collect();
            over.iter().for_each(|seq| _ = watch.since.remove(seq));
            watch.late.extend(&over);
            self.taken_back += over.len() as u64;
            self.line_up(slot);
            expected.extend(over.into_iter().map(|seq| (slot, seq)));
        }
        let told = late.iter().flat_map(|late| {
            let all = late.ranges.iter().flat_map(|range| range.first.0..=range.last.0);
            all.map(|seq| (late.consumer.0, seq))
        });
        assert_eq!(told.collect::<Vec<_>>(), expected);
        let back: Vec<u64> = expected.iter().map(|(_, seq)| *seq).collect();
        self.model_back(&back, Outcome::Released);
    }

    /// What a consumer holds as the model has it.
    fn held_by(&self, slot: u32) -> BTreeSet<u64> {
        let all = self.messages.iter().enumerate();
        let held = all.filter(|(_, message)| message.state == State::Held(slot));
        held.map(|(seq, _)| seq as u64).collect()
    }

    fn settle_late(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let all: Vec<u64> = self.consumers[&slot].watch.late.iter().copied().collect();
        let first = match all.is_empty() {
            true => self.dice.below(self.messages.len() as u64 + 3),
            false => all[self.dice.below(all.len() as u64) as usize],
        };
        let positions = range(first, first + self.dice.below(60));
        self.fifo.settle_late(ConsumerId(slot), positions);
        let late = &mut self.consumers.get_mut(&slot).unwrap().watch.late;
        late.retain(|seq| !(positions.first.0..=positions.last.0).contains(seq));
        self.line_up(slot);
        assert_eq!(self.fifo.has_late(), self.consumers.values().any(|it| !it.watch.late.is_empty()));
    }

    fn any_slot(&mut self) -> Option<u32> {
        let at = self.dice.below(self.consumers.len().max(1) as u64) as usize;
        self.consumers.keys().nth(at).copied()
    }

    fn cancel_or_close(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        if self.dice.one_in(3) {
            self.fifo.apply(Command::Cancel { consumer: ConsumerId(slot) }, &mut self.effects);
            let consumer = self.consumers.get_mut(&slot).unwrap();
            consumer.is_consumer = false;
            consumer.receives = false;
            self.active = self.active.filter(|active| *active != slot);
            consumer.exclusive = false;
            consumer.drain = false;
            self.draining.retain(|draining| *draining != slot);
            self.line_up(slot);
            self.write(&[]);
        } else {
            self.close(slot);
        }
    }

    fn close(&mut self, slot: u32) {
        let held = self.held(slot);
        self.fifo.apply(Command::Close { consumer: ConsumerId(slot) }, &mut self.effects);
        let consumer = self.consumers.remove(&slot).unwrap();
        self.active = self.active.filter(|active| *active != slot);
        self.turns.entry(consumer.priority).or_default().retain(|have| *have != slot);
        self.draining.retain(|draining| *draining != slot);
        self.model_back(&held, Outcome::Failed);
    }

    /// Held positions come back: ready at once, or when the record about it does.
    fn model_back(&mut self, held: &[u64], outcome: Outcome) {
        let mut expected = Vec::new();
        for &seq in held {
            if self.messages[seq as usize].state == State::Gone {
                continue;
            }
            if self.counts {
                self.turn_to(seq, State::Away);
                self.messages[seq as usize].is_returning = true;
                expected.push((Kind::Return, outcome, seq));
            } else {
                let message = &mut self.messages[seq as usize];
                // Counted while this owner lasts; what failed a hundred times has failed a hundred times.
                message.failed = (message.failed + u32::from(outcome == Outcome::Failed)).min(100);
                self.model_ready_again(seq);
            }
        }
        self.write(&expected);
    }

    fn credit(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let consumer = self.consumers.get_mut(&slot).unwrap();
        let id = ConsumerId(slot);
        if self.dice.one_in(3) {
            let prefetch = self.dice.below(20) as u32;
            consumer.credit = Credit::Prefetch(prefetch);
            consumer.drain = false;
            self.draining.retain(|draining| *draining != slot);
            self.fifo.apply(Command::Prefetch { consumer: id, prefetch }, &mut self.effects);
        } else {
            let credit = self.dice.below(40) as u32;
            let drain = self.dice.one_in(3);
            consumer.credit = Credit::Link(credit);
            let was_draining = std::mem::replace(&mut consumer.drain, drain);
            if was_draining && !drain {
                self.draining.retain(|draining| *draining != slot);
            } else if drain && !was_draining {
                self.draining.push(slot);
            }
            self.fifo.apply(Command::Credit { consumer: id, credit, drain }, &mut self.effects);
        }
        self.line_up(slot);
        self.write(&[]);
    }

    fn pause(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let paused = self.dice.one_in(3);
        self.consumers.get_mut(&slot).unwrap().paused = paused;
        self.fifo.apply(Command::Pause { consumer: ConsumerId(slot), paused }, &mut self.effects);
        self.line_up(slot);
        self.write(&[]);
    }

    // Messages out.

    /// What the next message is handed out as.
    fn model_hand_out(&mut self, slot: u32, settled: bool) -> Option<(u32, u64, bool, u32)> {
        let (_, seq) = *self.ready.first()?;
        self.turn_to(seq, if settled { State::Away } else { State::Held(slot) });
        let message = &mut self.messages[seq as usize];
        let redelivered = std::mem::replace(&mut message.was_delivered, true);
        message.came_back = false;
        Some((slot, seq, redelivered, message.failed))
    }

    fn dispatch(&mut self) {
        let budget = if self.dice.one_in(4) { 1000 } else { self.dice.below(30) as u32 };
        self.dispatch_up_to(budget);
    }

    fn dispatch_up_to(&mut self, budget: u32) {
        self.now_ms += if self.is_featured { self.dice.below(30) } else { 0 };
        self.elect();
        self.model_expire(self.offered_below);
        self.model_come_of_age();
        let rooms: BTreeMap<u32, u64> = self.consumers.keys().map(|slot| (*slot, self.room(*slot))).collect();
        let given = self.fifo.dispatch(self.now_ms, budget, &mut self.effects);
        // The model hands out one by one.
        let mut rooms = rooms;
        let mut expected = Vec::new();
        let mut settled = Vec::new();
        while expected.len() < budget as usize {
            let Some(line) = self.turns.values_mut().rev().find(|line| !line.is_empty()) else { break };
            let slot = line[0];
            let consumer = self.consumers[&slot].clone();
            let Some(out) = self.model_hand_out(slot, consumer.settled) else { break };
            expected.push(out);
            if consumer.settled {
                settled.push((Kind::Settle, Outcome::Accepted, out.1));
            }
            let room = rooms.get_mut(&slot).unwrap();
            *room = room.saturating_sub(u64::from(*room != u64::MAX));
            if let Credit::Link(credit) = &mut self.consumers.get_mut(&slot).unwrap().credit {
                *credit -= 1;
            }
            let line = self.turns.get_mut(&consumer.priority).unwrap();
            line.pop_front();
            if *room > 0 {
                line.push_back(slot);
            }
        }
        assert_eq!(given as usize, expected.len());
        let mut drained = Vec::new();
        let is_empty = self.ready.is_empty();
        for slot in std::mem::take(&mut self.draining) {
            let consumer = self.consumers.get_mut(&slot).unwrap();
            let Credit::Link(unused) = consumer.credit else { panic!("prefetch does not drain") };
            if is_empty
                || unused == 0
                || consumer.is_consumer && !consumer.receives
                || !consumer.watch.late.is_empty()
            {
                consumer.credit = Credit::Link(0);
                consumer.drain = false;
                drained.push((slot, unused));
                self.line_up(slot);
            } else {
                self.draining.push(slot);
            }
        }
        self.appends.extend(settled);
        if given < budget || budget == 0 {
            self.offered_below = self.messages.len();
            self.model_expire(self.offered_below);
            self.model_drop_over();
            let next_ms = self.fifo.next_deadline_ms();
            assert!(next_ms.is_none_or(|next_ms| next_ms > self.now_ms), "due and not done");
        }
        self.compare_out(&expected, &drained);
        assert_eq!(self.fifo.active().map(|id| id.0), self.active.filter(|_| self.rules.single_active));
    }

    fn compare_out(&mut self, expected: &[(u32, u64, bool, u32)], drained: &[(u32, u32)]) {
        let mut delivered = Vec::new();
        let mut told = Vec::new();
        let messages = &self.messages;
        self.effects.list.retain(|effect| {
            match *effect {
                Effect::Deliver { consumer, first, count, redelivered, delivery_count, .. }
                | Effect::DeliverAnnotated { consumer, first, count, redelivered, delivery_count, .. } => {
                    let out = (first.0..).take(count as usize);
                    let is_annotated = matches!(effect, Effect::DeliverAnnotated { .. });
                    let mut whether = out.clone().map(|seq| messages[seq as usize].annotations.is_some());
                    assert!(whether.all(|annotated| annotated == is_annotated), "{effect:?}");
                    delivered.extend(out.map(|seq| (consumer.0, seq, redelivered, delivery_count)));
                }
                Effect::Drained { consumer, unused } => told.push((consumer.0, unused)),
                _ => return true,
            }
            false
        });
        self.delivered += delivered.len() as u64;
        assert_eq!(delivered, expected);
        assert_eq!(told, drained);
        self.write(&[]);
    }

    fn take(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let settled = self.dice.one_in(2);
        self.elect();
        self.model_expire(self.offered_below);
        self.model_come_of_age();
        let taken = self.fifo.take(ConsumerId(slot), settled, self.now_ms, &mut self.effects);
        let expected = self.model_hand_out(slot, settled);
        assert_eq!(taken, expected.is_some());
        match expected {
            Some(out) => {
                if settled {
                    self.appends.push((Kind::Settle, Outcome::Accepted, out.1));
                }
                self.compare_out(&[out], &[]);
                self.line_up(slot);
            }
            None => {
                let last = self.effects.list.pop();
                assert_eq!(last, Some(Effect::Empty { consumer: ConsumerId(slot) }));
                self.write(&[]);
            }
        }
    }

    fn settle(&mut self) {
        let Some(slot) = self.any_slot() else { return };
        let outcome = match self.dice.below(10) {
            0..6 => Outcome::Accepted,
            6 => Outcome::Rejected,
            7..9 => Outcome::Released,
            _ => Outcome::Failed,
        };
        let held = self.held(slot);
        let positions = match self.dice.below(4) {
            _ if held.is_empty() => {
                let first = self.dice.below(self.messages.len() as u64 + 3);
                range(first, first + self.dice.below(5))
            }
            0 => range(held[0], held[held.len() - 1]),
            1 => {
                let seq = held[self.dice.below(held.len() as u64) as usize];
                range(seq, seq)
            }
            _ => {
                let first = held[self.dice.below(held.len() as u64) as usize];
                range(first.saturating_sub(self.dice.below(4)), first + self.dice.below(12))
            }
        };
        self.settle_range(slot, positions, outcome);
    }

    /// What the consumer holds comes back with annotations.
    fn annotate(&mut self, consumer: ConsumerId, positions: SeqRange) {
        let parts: Vec<SeqRange> = self.fifo.held_within(consumer, positions).collect();
        for range in parts {
            let annotations = vec![self.dice.below(3) as u8; 1 + self.dice.below(20) as usize];
            self.fifo.will_annotate(range, annotations.len());
            self.log.push_back(Record::Annotate { range, annotations: annotations.into() });
        }
    }

    fn settle_range(&mut self, slot: u32, positions: SeqRange, outcome: Outcome) {
        let mut held = self.held(slot);
        held.retain(|seq| positions.first.0 <= *seq && *seq <= positions.last.0);
        let consumer = ConsumerId(slot);
        if self.counts && matches!(outcome, Outcome::Released | Outcome::Failed) && self.dice.one_in(3) {
            self.annotate(consumer, positions);
        }
        self.fifo.apply(Command::Settle { consumer, range: positions, outcome }, &mut self.effects);
        let ignored = positions.last.0 - positions.first.0 + 1 - held.len() as u64;
        assert_eq!(std::mem::take(&mut self.effects.ignored), ignored);
        for &seq in &held {
            assert!(matches!(self.messages[seq as usize].state, State::Held(by) if by == slot));
            self.consumers.get_mut(&slot).unwrap().watch.since.remove(&seq);
        }
        match outcome {
            Outcome::Rejected if self.rules.takes_dead => {
                held.iter().for_each(|seq| self.model_die(*seq, DeathReason::Rejected));
                self.write(&[]);
            }
            Outcome::Accepted | Outcome::Rejected => {
                held.iter().for_each(|seq| self.turn_to(*seq, State::Away));
                let records: Vec<_> = held.iter().map(|seq| (Kind::Settle, outcome, *seq)).collect();
                self.write(&records);
            }
            Outcome::Released | Outcome::Failed => self.model_back(&held, outcome),
        }
        self.line_up(slot);
    }

    fn purge_sometimes(&mut self) {
        if !self.dice.one_in(5) {
            return;
        }
        self.fifo.apply(Command::Purge, &mut self.effects);
        for (_, seq) in self.ready.clone() {
            self.turn_to(seq, State::Away);
            self.messages[seq as usize].came_back = false;
            self.appends.push((Kind::Purge, Outcome::Released, seq));
        }
        for (_, seq) in self.model_delayed() {
            self.turn_to(seq, State::Away);
            self.appends.push((Kind::Purge, Outcome::Released, seq));
        }
        self.write(&[]);
        assert_eq!((self.fifo.ready(), self.fifo.delayed()), (0, 0));
    }

    // Segments and snapshots.

    fn move_out(&mut self) {
        let bound = LogIndex(self.dice.below(self.next_place + 2));
        let live: Vec<_> = self.fifo.live_below(bound).collect();
        let expected = self.messages.iter().enumerate().filter_map(|(seq, message)| match message.place {
            Where::Log(place) if place < bound && message.state != State::Gone => {
                Some((QueueSeq(seq as u64), place))
            }
            _ => None,
        });
        assert_eq!(live, expected.collect::<Vec<_>>());
        let mut runs = Vec::new();
        let mut rest = &live[..];
        while !rest.is_empty() {
            let (block, others) = rest.split_at(rest.len().min(self.dice.between(1, 30) as usize));
            rest = others;
            runs.push(Run {
                first: block[0].0,
                last: block[block.len() - 1].0,
                count: block.len() as u32,
                segment: self.dice.below(9),
                offset: self.dice.below(1 << 40),
                len: self.dice.below(1 << 20) as u32,
            });
        }
        // While the segment was written, some left.
        self.commit();
        self.fifo.move_out(&runs, &mut self.effects);
        let mut empty = Vec::new();
        let mut live = live.iter();
        for run in &runs {
            let at = self.runs.len();
            let mut left = 0;
            for (seq, _) in live.by_ref().take(run.count as usize) {
                let message = &mut self.messages[seq.0 as usize];
                if message.state != State::Gone {
                    message.place = Where::Run(at);
                    left += 1;
                }
            }
            if left == 0 {
                empty.push(*run);
            }
            self.runs.push((*run, left));
        }
        assert_eq!(std::mem::take(&mut self.effects.runs_left), empty);
        assert!(self.effects.is_empty());
        self.tail.push(Entry::MoveOut(runs.clone()));
        self.history.push(Entry::MoveOut(runs));
    }

    fn check_places(&mut self) {
        let first = self.dice.below(self.messages.len() as u64 + 1);
        let last = first + self.dice.below(50);
        let mut listed = Vec::new();
        for stretch in self.fifo.stretches(range(first, last)) {
            match stretch {
                Stretch::Log(stretch) => {
                    let bound = stretch.first().expect("no stretch is empty").1;
                    let (below, behind) = stretch.split_at(LogIndex(bound.0 + self.dice.below(3)));
                    let both = below.iter().chain(behind.iter());
                    listed.extend(both.map(|(seq, index)| (seq, Place::Log(index))));
                }
                Stretch::Segment { first, last, run } => {
                    listed.extend((first.0..=last.0).map(|seq| (QueueSeq(seq), Place::Segment(run))));
                }
            }
        }
        let mut live = Vec::new();
        for seq in first..=last {
            let message = self.messages.get(seq as usize).filter(|message| message.state != State::Gone);
            let place = self.fifo.place(QueueSeq(seq));
            assert_eq!(place.is_some(), message.is_some());
            assert_eq!(self.fifo.is_live(QueueSeq(seq)), message.is_some());
            if let (Some(place), Some(message)) = (place, message) {
                match message.place {
                    Where::Log(index) => assert_eq!(place, Place::Log(index)),
                    Where::Run(at) => assert_eq!(place, Place::Segment(&self.runs[at].0)),
                }
                live.push((QueueSeq(seq), place));
                let counts = self.fifo.counts(QueueSeq(seq));
                if self.counts {
                    assert_eq!(
                        (counts.delivery_count, counts.acquired_count),
                        (message.failed, message.acquired)
                    );
                }
            }
        }
        assert_eq!(listed, live);
    }

    /// Snapshot and tail, and everything from the start, reach the same state byte for byte.
    fn check_replay(&mut self) {
        let now = snapshot(&self.fifo);
        let mut again = Fifo::read_snapshot(&self.base).unwrap();
        assert_eq!(snapshot(&again), self.base);
        replay(&mut again, &self.tail);
        assert_eq!(snapshot(&again), now);
        assert_eq!(snapshot(&Fifo::read_snapshot(&now).unwrap()), now);
        self.base = now;
        self.tail.clear();
    }

    fn restart_sometimes(&mut self) {
        if !self.dice.one_in(10) {
            return;
        }
        self.check_replay();
        let mut fifo = Fifo::read_snapshot(&self.base).unwrap();
        let recovery = match self.dice.one_in(2) {
            true => Recovery::Dirty,
            false => Recovery::Clean(self.fifo.cursor()),
        };
        let cursor = self.fifo.cursor().0;
        fifo.recover(recovery, &mut self.effects);
        self.fifo = fifo;
        // What was not committed is lost with the owner.
        self.log.clear();
        self.consumers.clear();
        self.turns.clear();
        self.draining.clear();
        self.active = None;
        self.offered_below = self.messages.len();
        self.began_ms = None;
        let rules = std::mem::take(&mut self.rules);
        let mut dropped = Vec::new();
        let mut gone = Vec::new();
        for seq in 0..self.messages.len() as u64 {
            if self.messages[seq as usize].state == State::Gone {
                continue;
            }
            self.turn_to(seq, State::Away);
            let message = &mut self.messages[seq as usize];
            if !self.counts {
                message.failed = 0;
            }
            message.is_returning = false;
            message.is_postponing = false;
            message.came_back = false;
            message.behind = None;
            let is_below = recovery == Recovery::Dirty || seq < cursor;
            assert!(is_below || !message.was_delivered, "{seq} was out, and the cursor is {cursor}");
            message.was_delivered = is_below;
            let (transient, place) = (message.transient, message.place);
            let is_delayed = message.due_ms.is_some();
            self.turn_to(
                seq,
                match (transient, is_delayed) {
                    (true, _) => State::Gone,
                    (false, true) => State::Delayed,
                    (false, false) => State::Ready,
                },
            );
            if transient {
                *self.ended.entry("purged").or_default() += 1;
                dropped.push((Kind::Purge, Outcome::Released, seq));
                gone.push(place);
            }
        }
        self.write(&dropped);
        self.expect_left(&gone);
        for entry in &dropped {
            let positions = range(entry.2, entry.2);
            self.history.push(Entry::Record(Record::Purge { range: positions }));
        }
        self.go_by(rules);
        self.base = snapshot(&self.fifo);
        self.tail.clear();
    }

    fn check_counts(&self) {
        // Every message is somewhere, once.
        let count = |which: fn(State) -> bool| self.messages.iter().filter(|m| which(m.state)).count() as u64;
        assert_eq!(self.fifo.ready(), count(|state| state == State::Ready));
        assert_eq!(self.fifo.ready(), self.ready.len() as u64);
        assert_eq!(self.fifo.dying(), count(|state| state == State::Dying));
        assert_eq!(self.fifo.ready_bytes(), self.model_ready_bytes());
        let deadlines = self.ready.iter().filter_map(|(_, seq)| self.messages[*seq as usize].deadline_ms);
        if let Some(first_ms) = deadlines.min() {
            assert!(self.fifo.next_deadline_ms().is_some_and(|next_ms| next_ms <= first_ms), "late");
        }
        let is_reached = |max: Option<u64>, now: u64| max.is_some_and(|max| now + 1 >= max);
        let delayed = self.model_delayed();
        assert_eq!(self.fifo.delayed(), delayed.len() as u64);
        let bytes_of = |seq: u64| u64::from(self.messages[seq as usize].bytes);
        let delayed_bytes: u64 = delayed.iter().map(|(_, seq)| bytes_of(*seq)).sum();
        let listed = self.fifo.delayed_list(usize::MAX);
        assert_eq!(listed.into_iter().map(|(due_ms, seq)| (due_ms, seq.0)).collect::<Vec<_>>(), delayed);
        if let Some((first_ms, _)) = delayed.first() {
            assert!(self.fifo.next_deadline_ms().is_some_and(|next_ms| next_ms <= *first_ms), "late");
        }
        let is_full = is_reached(self.rules.length_max, self.fifo.ready() + self.fifo.delayed())
            || is_reached(self.rules.bytes_max, self.fifo.ready_bytes() + delayed_bytes);
        assert_eq!(self.fifo.is_full(1, 1), is_full && !self.rules.drops_head);
        assert_eq!(self.fifo.unsettled(), count(|state| matches!(state, State::Held(_))));
        assert_eq!(self.fifo.total(), count(|state| state != State::Gone));
        assert_eq!(self.fifo.next_seq().0, self.messages.len() as u64);
        let consumers = self.consumers.values().filter(|consumer| consumer.is_consumer).count();
        assert_eq!(self.fifo.consumers() as usize, consumers);
        if self.steps.is_multiple_of(8) {
            self.check_browsing();
        }
    }

    /// Who browses sees all that is ready, in order of arrival, marked as its consumer would see it.
    fn check_browsing(&self) {
        let mut next = QueueSeq(0);
        let seen = std::iter::from_fn(|| {
            let seq = self.fifo.next_ready_at(next)?;
            next = QueueSeq(seq.0 + 1);
            let (redelivered, counts) = self.fifo.past(seq);
            Some((seq.0, redelivered, counts.delivery_count, counts.acquired_count))
        });
        let ready = self.messages.iter().enumerate().filter(|(_, message)| message.state == State::Ready);
        let expected = ready.map(|(seq, message)| {
            let acquired = if self.counts { message.acquired } else { 0 };
            (seq as u64, message.was_delivered, message.failed, acquired)
        });
        let seen: Vec<_> = seen.collect();
        let expected: Vec<_> = expected.collect();
        assert_eq!(seen.len(), expected.len());
        for (seen, mut expected) in seen.into_iter().zip(expected) {
            // Of what was delayed it is not looked up whether it certainly was never out.
            expected.1 |= seen.1 && self.messages[seen.0 as usize].due_ms.is_some();
            assert_eq!(seen, expected);
        }
    }
}
