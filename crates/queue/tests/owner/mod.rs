//! A queue and an owner, with effects as text, which the tables of rules compare.

use base::Digest;
use base::id::{LogIndex, QueueSeq};
use message::record::{DeathReason, Kind, Outcome, SeqRange};
use queue::scattered;
use queue::{
    Arrival, Command, Consume, ConsumerId, Credit, Effect, Effects, Fifo, GroupKey, Recovery, Refused, Rules,
    Settings,
};

/// The group of this number; 0 stands for none.
pub fn group(number: u32) -> Option<GroupKey> {
    (number > 0).then(|| GroupKey(Digest([number.into(), 0])))
}

pub fn range(first: u64, last: u64) -> SeqRange {
    SeqRange { first: QueueSeq(first), last: QueueSeq(last) }
}

/// A queue, and an owner that commits the records it is asked to append when told.
pub struct Owner {
    pub fifo: Fifo,
    pub effects: Effects,
    appended: Vec<Effect>,
    pub place: u64,
    pub now_ms: u64,
    /// Deliveries are told with how often they were out before: `c0<1-3!x2/4`.
    pub tells_acquired: bool,
}

impl Owner {
    pub fn new(counts: bool) -> Owner {
        Owner::with(Settings { counts, ..Settings::default() })
    }

    pub fn with(settings: Settings) -> Owner {
        let fifo = Fifo::new(settings);
        let (effects, appended) = (Effects::default(), Vec::new());
        Owner { fifo, effects, appended, place: 0, now_ms: 1000, tells_acquired: false }
    }

    pub fn rules(&mut self, rules: Rules) -> String {
        self.fifo.set_rules(rules, &mut self.effects);
        self.told()
    }

    /// One message that comes now.
    pub fn arrive(&mut self, arrival: Arrival) {
        let arrival = Arrival { received_at_ms: self.now_ms, ..arrival };
        self.fifo.arrive(LogIndex(self.place), &arrival);
        self.place += 8;
    }

    /// One message of each priority; 255 stands for none.
    pub fn arrive_as(&mut self, priorities: &[u8]) {
        for &priority in priorities {
            let priority = Some(priority).filter(|priority| *priority < 255);
            self.arrive(Arrival { priority, ..Arrival::default() });
        }
    }

    /// Hands out at that time.
    pub fn at(&mut self, now_ms: u64) -> String {
        self.now_ms = now_ms;
        self.dispatch()
    }

    pub fn get(&mut self, slot: u32) -> String {
        self.fifo.take(ConsumerId(slot), true, self.now_ms, &mut self.effects);
        self.told()
    }

    pub fn bury(&mut self, first: u64, last: u64) -> String {
        self.apply(Command::DeadLettered { range: range(first, last) })
    }

    /// Ends, and begins again from a snapshot.
    pub fn restart(&mut self, rules: Rules) -> String {
        let bytes = self.snapshot();
        self.fifo = Fifo::read_snapshot(&bytes).expect("what was written is read");
        self.appended.clear();
        self.fifo.recover(Recovery::Dirty, &mut self.effects);
        self.fifo.set_rules(rules, &mut self.effects);
        self.told()
    }

    pub fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.fifo.write_snapshot(&mut bytes);
        bytes
    }

    /// Ready, held, all that live.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.fifo.ready(), self.fifo.unsettled(), self.fifo.total())
    }

    pub fn publish(&mut self, count: u64) {
        for _ in 0..count {
            self.fifo.enqueue(LogIndex(self.place), false);
            self.place += 8;
        }
    }

    pub fn consume(&mut self, slot: u32, credit: Credit) {
        self.consume_as(slot, credit, 0).unwrap();
    }

    pub fn consume_as(&mut self, slot: u32, credit: Credit, priority: i32) -> Result<(), Refused> {
        let (settled, exclusive) = (false, false);
        self.fifo.consume(Consume {
            consumer: ConsumerId(slot),
            credit,
            settled,
            exclusive,
            priority,
            selector: None,
        })
    }

    pub fn apply(&mut self, command: Command) -> String {
        self.fifo.apply(command, &mut self.effects);
        self.told()
    }

    pub fn settle(&mut self, slot: u32, first: u64, last: u64, outcome: Outcome) -> String {
        self.apply(Command::Settle { consumer: ConsumerId(slot), range: range(first, last), outcome })
    }

    pub fn dispatch(&mut self) -> String {
        self.fifo.dispatch(self.now_ms, 1000, &mut self.effects);
        self.told()
    }

    /// The effects as text: `c0<1-3` consumer 0 gets 1 to 3, `!` redelivered, `x2` two failed; `+settle 1-3`;
    /// `c0 drained 5`; `empty`; `expired 1-3` they died; `c0 active`; `c0|7` it is given a barrier, `passed over 2`.
    pub fn told(&mut self) -> String {
        let mut told = Vec::new();
        for effect in self.effects.list.drain(..) {
            told.push(match effect {
                Effect::Deliver { consumer, first, count, redelivered, delivery_count, acquired_count } => {
                    let last = first.0 + u64::from(count) - 1;
                    let again = if redelivered { "!" } else { "" };
                    let failed =
                        if delivery_count > 0 { format!("x{delivery_count}") } else { String::new() };
                    let out = if self.tells_acquired { format!("/{acquired_count}") } else { String::new() };
                    format!("c{}<{first}-{last}{again}{failed}{out}", consumer.0)
                }
                Effect::DeliverScattered { consumer, block, bits } => {
                    let seqs: Vec<_> = scattered(block, bits).collect();
                    let runs = seqs.chunk_by(|seq, next| seq.0 + 1 == next.0);
                    let runs = runs.map(|run| format!("c{}<{}-{}", consumer.0, run[0], run[run.len() - 1]));
                    runs.collect::<Vec<_>>().join(" ")
                }
                Effect::DeliverAnnotated { consumer, first, count, .. } => {
                    format!("c{}<{first}-{} annotated", consumer.0, first.0 + u64::from(count) - 1)
                }
                Effect::DeliverBarrier { consumer, seq, redelivered, delivery_count, acquired_count } => {
                    let again = if redelivered { "!" } else { "" };
                    let failed =
                        if delivery_count > 0 { format!("x{delivery_count}") } else { String::new() };
                    let out = if self.tells_acquired { format!("/{acquired_count}") } else { String::new() };
                    format!("c{}|{seq}{again}{failed}{out}", consumer.0)
                }
                Effect::PassedOver { consumers } => format!("passed over {consumers}"),
                Effect::Append { kind, range, .. } => {
                    format!("+{} {}-{}", format!("{kind:?}").to_lowercase(), range.first, range.last)
                }
                Effect::Postpone { range, due_at_ms, .. } => {
                    format!("+postpone {}-{} to {due_at_ms}", range.first, range.last)
                }
                Effect::Retry { range, after_ms, .. } => {
                    format!("+retry {}-{} after {after_ms}", range.first, range.last)
                }
                Effect::Drained { consumer, unused } => format!("c{} drained {unused}", consumer.0),
                Effect::Empty { .. } => "empty".into(),
                Effect::DeadLetter { range, reason } => {
                    let reason = match reason {
                        DeathReason::Rejected => "rejected",
                        DeathReason::Expired => "expired",
                        DeathReason::MaxLength => "maxlen",
                        DeathReason::DeliveryLimit => "limit",
                        DeathReason::Undeliverable => "undeliverable",
                    };
                    format!("{reason} {}-{}", range.first, range.last)
                }
                Effect::Active { consumer, active } => {
                    format!("c{} {}", consumer.0, if active { "active" } else { "relieved" })
                }
            });
            match effect {
                Effect::Append { .. } | Effect::Postpone { .. } => self.appended.push(effect),
                Effect::Retry { range, outcome, after_ms } => {
                    let due_at_ms = self.now_ms.saturating_add(after_ms);
                    self.appended.push(Effect::Postpone { range, outcome, due_at_ms });
                }
                _ => {}
            }
        }
        told.join(" ")
    }

    pub fn commit(&mut self) {
        for effect in self.appended.drain(..) {
            if let Effect::Postpone { range, outcome, due_at_ms } = effect {
                self.fifo.postponed(range, outcome, due_at_ms, &mut self.effects);
                continue;
            }
            let Effect::Append { kind, range, outcome } = effect else { unreachable!("only these are kept") };
            match kind {
                Kind::Return => self.fifo.returned(range, outcome, &mut self.effects),
                Kind::Purge => self.fifo.purged(range, &mut self.effects),
                _ => self.fifo.settled(range, &mut self.effects),
            }
        }
    }

    pub fn left(&mut self) -> Vec<u64> {
        self.effects.left.drain(..).map(|place| place.0 / 8).collect()
    }
}
