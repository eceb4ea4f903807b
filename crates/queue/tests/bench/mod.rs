//! A queue machine beside a plain model of it, and an owner with a log that commits late.
//!
//! The model knows one thing per message and searches; its expectation is compared with every effect of the machine.
//!
//! Here is the bench and how it goes on; its steps are beside: the records (`log`), their meaning (`model`), the takers
//! of messages (`consumers`), deliveries and settling (`out`), choice by position (`pick`) and by content (`selectors`),
//! barriers (`barriers`), segments (`places`), new owners (`restarts`), and invariants (`checks`).

mod barriers;
mod checks;
mod consumers;
mod delays;
mod groups;
mod log;
mod model;
mod out;
mod pick;
mod places;
mod restarts;
mod selectors;
mod weigh;

use base::Random;
use base::id::{LogIndex, QueueSeq};
use message::record::{DeathReason, Kind, Outcome, SeqRange, SizesKept};
use queue::{
    Arrival, Command, Consume, ConsumerId, Credit, Effect, Effects, Fairness, Fifo, GroupKey, Late, Place,
    Priorities, Record, Recovery, Rules, Run, SelectorId, SelectorSet, Settings, Stretch,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Consumers a bench uses at most.
pub const SLOTS: u32 = 7;

/// A thing that the log, or the mover of segments, did to the queue.
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
    /// Told as dead, and not dead-lettered.
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
    /// It did so to its place among others that were never out.
    is_in_line: bool,
    failed: u32,
    acquired: u32,
    level: u8,
    deadline_ms: Option<u64>,
    /// As far as is known.
    bytes: u32,
    size: u32,
    due_ms: Option<u64>,
    /// It was given its due time when it came back.
    is_postponed: bool,
    is_postponing: bool,
    /// It came of age behind the messages there were, as number so and so.
    behind: Option<(u64, u64)>,
    annotations: Option<u8>,
    /// It failed before it came, and has not come back since.
    is_tried: bool,
    group: Option<u32>,
    is_barrier: bool,
    /// The selectors that are true of it, as far as it was read: those that were there then.
    class: Option<SelectorSet>,
}

/// The order of handing out: by level, messages that came back before others, and by place in line.
type Rank = (u16, bool, (u64, bool, u64));

#[derive(Clone, Debug)]
struct Consumer {
    credit: Credit,
    settled: bool,
    exclusive: bool,
    priority: i32,
    selector: Option<SelectorId>,
    paused: bool,
    drain: bool,
    is_consumer: bool,
    receives: bool,
    joined: u64,
    /// When it was given something last, or came.
    turn: u64,
    watch: Watch,
}

/// How long it may hold each message, and those that were taken back from it and are not settled.
#[derive(Clone, Debug, Default)]
struct Watch {
    timeout_ms: Option<u64>,
    since: BTreeMap<u64, u64>,
    late: BTreeSet<u64>,
    /// Deliveries whose leases were over and that it may settle yet, by position.
    over: BTreeMap<u64, u64>,
}

pub struct Bench {
    pub fifo: Fifo,
    pub dice: Random,
    counts: bool,
    /// Time passes, rules and settings change; else the queue is a plain one.
    is_featured: bool,
    /// Some messages that come are in groups.
    is_grouped: bool,
    /// Some consumers choose.
    has_choice: bool,
    /// Some messages are barriers.
    is_barred: bool,
    barrier: barriers::Turn,
    choice: selectors::Choice,
    pub first_settings: Settings,
    settings: Settings,
    /// From here to there nobody knows sizes.
    unweighed: Option<(u64, u64)>,
    rules: Rules,
    now_ms: u64,
    offered_below: usize,
    effects: Effects,
    messages: Vec<Message>,
    /// Ready messages, in the order in which they are to be handed out.
    ready: BTreeSet<(Rank, u64)>,
    /// The first time anything was handed out since the owner began.
    began_ms: Option<u64>,
    /// How many came of age.
    grown: u64,
    active: Option<u32>,
    joined: u64,
    turn: u64,
    /// Effects that the machine should have.
    appends: Vec<(Kind, Outcome, u64)>,
    postpones: Vec<(Outcome, u64, u64)>,
    deaths: Vec<(DeathReason, u64)>,
    turns_of_active: Vec<(u32, bool)>,
    /// How many messages ended how.
    ended: BTreeMap<&'static str, u64>,
    steps: u64,
    runs: Vec<(Run, u64)>,
    consumers: BTreeMap<u32, Consumer>,
    /// By group: the messages that are out, each with its holder; none: it is on its way back.
    out: BTreeMap<u32, BTreeMap<u64, Option<u32>>>,
    /// Consumers that could take something, by priority and selector; the front is next where they take turns.
    turns: BTreeMap<(i32, Option<SelectorId>), VecDeque<u32>>,
    draining: Vec<u32>,
    /// Written, in order; the machine has seen `applied` of it.
    log: VecDeque<Record>,
    next_place: u64,
    /// A snapshot, and the records after it.
    base: Vec<u8>,
    tail: Vec<Entry>,
    /// Everything since the queue was new.
    pub history: Vec<Entry>,
    pub delivered: u64,
    pub died: u64,
    /// Held for too long.
    pub taken_back: u64,
    /// Handed out though others were in front, which were not for that consumer.
    pub kept_apart: u64,
    /// Taken by position.
    pub picked: u64,
    /// Held, and settled by position.
    pub settled_for_others: u64,
    /// Given to another consumer than the one whose turn it would have been.
    pub out_of_turn: u64,
    /// Given to a consumer that chose it.
    pub chosen: u64,
    /// Barriers that all consumers had, or that passed some over.
    pub barriers_over: u64,
}

fn range(first: u64, last: u64) -> SeqRange {
    SeqRange { first: QueueSeq(first), last: QueueSeq(last) }
}

#[allow(unused_imports, reason = "shared; one test uses it")]
pub use groups::{group_key, group_number};

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
        let is_grouped = is_featured && dice.one_in(2);
        let has_choice = !is_grouped && dice.one_in(2);
        let is_barred = is_featured && !is_grouped && dice.one_in(2);
        let priorities = if is_barred { Priorities::UpTo(0) } else { Priorities::None };
        let first_settings = Settings { counts, priorities, ..Settings::default() };
        let fifo = Fifo::new(first_settings);
        let settings = fifo.settings();
        let base = snapshot(&fifo);
        Bench {
            fifo,
            dice,
            counts,
            is_featured,
            is_grouped,
            has_choice,
            is_barred,
            barrier: barriers::Turn::default(),
            choice: selectors::Choice::default(),
            first_settings,
            settings,
            unweighed: None,
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
            turn: 0,
            appends: Vec::new(),
            postpones: Vec::new(),
            deaths: Vec::new(),
            turns_of_active: Vec::new(),
            ended: BTreeMap::new(),
            steps: 0,
            runs: Vec::new(),
            consumers: BTreeMap::new(),
            out: BTreeMap::new(),
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
            kept_apart: 0,
            picked: 0,
            settled_for_others: 0,
            out_of_turn: 0,
            chosen: 0,
            barriers_over: 0,
        }
    }

    pub fn step(&mut self) {
        match self.dice.below(if self.is_featured { 128 } else { 108 }) {
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
            106 if self.dice.one_in(2) => self.settle_chosen(),
            104..107 => self.pick(),
            107 => self.discard(),
            108..110 => self.configure(),
            110..112 => self.set_rules(),
            112..117 => self.bury_some(),
            117..120 => self.postpone(),
            120 => self.cancel_delayed(),
            121..124 => self.weigh(),
            124..126 => self.settle_over(),
            126 if self.is_barred && self.dice.one_in(20) => self.now_ms += 40_000,
            _ => self.now_ms += self.dice.below(200),
        }
        if self.has_choice && self.dice.one_in(4) {
            self.choose();
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
        self.close_selectors();
        let new = Consume {
            consumer: ConsumerId(0),
            credit: Credit::Prefetch(0),
            settled: false,
            exclusive: true,
            priority: 0,
            selector: None,
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
        // A meaning of priorities that stays is a feature.
        let is_plain = !matches!(self.settings.priorities, Priorities::UpTo(_));
        let bytes_max = if is_plain { 600 } else { 7000 };
        assert!(self.fifo.memory_bytes() < bytes_max, "{} bytes for nothing", self.fifo.memory_bytes());
    }
}
