//! Dead-lettering: a message that died in a queue is published anew to where its queue sends its dead, and leaves the queue when
//! the copy is safe.
//!
//! A queue's machine names the dead ([`queue::Effect::DeadLetter`]); its log hands them out with their bytes as
//! [`DeadLetter`]s, in the order in which they died and only so many at once; the shard routes them on its catalog, without
//! asking for permissions, and hears from the logs they go to as a publisher would, under an address of its own. One
//! that leads nowhere is done with, unless its queue asks for each to arrive: then it is tried again later.

use crate::catalog::{DeadLetterRule, QueueDefinition};
use crate::delivery::Site;
use crate::features::Features;
use crate::fields::Fields;
use crate::limits::Limits;
use crate::log::AtQueue;
use crate::mail::{Fate, Waiter};
use crate::publisher::{Addressed, Target};
use crate::reading::ReadWhat;
use crate::shard::Shard;
use crate::tally::type_index;
use crate::turn::Turn;
use base::id::{LogId, PortId, QueueId, QueueSeq, ShardId};
use base::{Memory, Now};
use message::deaths::{DeadLetter as Letter, Death, History, dead_letter};
use message::record::{DeathReason, Enqueue, NewEnqueue, SeqRange, due_with_failures, flag, hidden_keys};
use queue::Command;
use routing::{Envelope, ExchangeId};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::sync::Arc;

/// The slot of the port under which a shard itself publishes; no connection has it.
const OWN_SLOT: u32 = u32::MAX;

/// The port under which `shard` publishes.
pub(crate) fn own_port(shard: ShardId) -> PortId {
    PortId { shard, slot: OWN_SLOT, generation: 0 }
}

/// Whether a shard itself waits.
#[inline]
pub(crate) fn is_own(waiter: &Waiter) -> bool {
    waiter.port.slot == OWN_SLOT
}

/// A message that died, with its bytes.
#[derive(Debug)]
pub(crate) struct DeadLetter {
    pub(crate) queue: Arc<QueueDefinition>,
    pub(crate) rule: Arc<DeadLetterRule>,
    /// Its position; none: the queue refused it.
    pub(crate) position: Option<QueueSeq>,
    pub(crate) reason: DeathReason,
    /// How often its delivery failed in the queue.
    pub(crate) failures: u32,
    pub(crate) memory: Memory,
    /// Where its record begins.
    pub(crate) offset: u32,
}

impl DeadLetter {
    /// How often deliveries of it failed in all, its refusal included where that counts. A queue that counts went on from
    /// what it came with.
    fn failures_of(&self, message: &Enqueue<'_>) -> u16 {
        let before = if self.queue.is_quorum() && self.position.is_some() { 0 } else { message.failures() };
        let refused = u32::from(self.reason == DeathReason::Rejected);
        let all = self.failures.saturating_add(before.into()).saturating_add(refused);
        all.try_into().unwrap_or(u16::MAX)
    }
}

/// One that was published anew.
#[derive(Debug)]
struct DeadLettering {
    log: LogId,
    queue: QueueId,
    seq: QueueSeq,
    reason: DeathReason,
    at_least_once: bool,
    /// Logs that have not answered.
    left: u32,
    was_refused: bool,
    /// Bytes of the message.
    bytes: usize,
}

/// What a shard has published anew and waits for.
#[derive(Debug, Default)]
pub(crate) struct DeadLetterings {
    next: u64,
    open: FxHashMap<u64, DeadLettering>,
    /// Bytes of the messages in `open`.
    bytes: usize,
    /// Whose dead come first.
    first_log: usize,
}

/// What a log said of publishes `first..=last` of the shard's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) fate: Fate,
}

impl AtQueue<'_> {
    /// A queue has dead letters.
    pub(crate) fn list_dying(&mut self) {
        if let Some(features) = &mut self.queue.features
            && !features.dying.is_empty()
            && !std::mem::replace(&mut features.is_listed, true)
        {
            self.commons.agenda.dying.push_back(self.slot);
        }
    }

    pub(crate) fn dead_letter_of(&mut self, limits: &Limits) -> Found {
        let Some(features) = &mut self.queue.features else { return Found::Later };
        let Some((range, reason)) = features.dying.front_mut() else { return Found::Later };
        // Those that could not be placed count: the ones behind them would fare no better, and are not tried each time.
        if features.dead_lettering + features.unplaced.len() >= limits.dead_letterings_max {
            return Found::Later;
        }
        let (seq, reason) = (range.first, *reason);
        let Some(rule) = features.rules.dead_letter.clone() else {
            let range = *range;
            features.dying.pop_front();
            return Found::Nobody(range);
        };
        let (memory, offset) = match self.locate(seq) {
            Site::Here(memory, offset) => (memory.clone(), offset),
            Site::Away(what) => {
                self.commons.reads.reading.wait(what, self.slot, None);
                return Found::Later;
            }
            Site::Gone => {
                self.pop_dying();
                return Found::Gone;
            }
        };
        self.pop_dying();
        let (memory, offset) = self.with_annotations(seq, (memory, offset));
        let queue = &mut *self.queue;
        if let Some(features) = &mut queue.features {
            features.dead_lettering += 1;
        }
        let failures = queue.fifo.failed(seq);
        let (queue, position) = (queue.definition.clone(), Some(seq));
        Found::DeadLetter(DeadLetter { queue, rule, position, reason, failures, memory, offset })
    }

    /// Takes the first position off the dying.
    fn pop_dying(&mut self) {
        let Some(features) = &mut self.queue.features else { return };
        let Some((range, _)) = features.dying.front_mut() else { return };
        if range.first == range.last {
            features.dying.pop_front();
        } else {
            range.first.0 += 1;
        }
    }

    /// The bytes of the first dying message are damaged: it stays where it is, and those behind it go on.
    pub(crate) fn pass_over_dying(&mut self, what: ReadWhat) {
        while let Some(seq) = self.first_dying()
            && matches!(self.locate(seq), Site::Away(found) if found == what)
        {
            self.pop_dying();
        }
    }

    fn first_dying(&self) -> Option<QueueSeq> {
        let features = self.queue.features.as_ref()?;
        features.dying.front().map(|(range, _)| range.first)
    }

    /// Positions have been published anew, or go nowhere: they leave the queue.
    pub(crate) fn end_dead(&mut self, turn: &mut Turn<'_>, range: SeqRange) {
        let queue = &mut *self.queue;
        if let Some(last_words) = queue.features.as_mut().and_then(|features| features.last_words.as_mut()) {
            last_words.forget(range);
        }
        queue.fifo.apply(Command::DeadLettered { range }, &mut self.commons.effects);
        self.carry_out(turn, None);
    }
}

/// The outcome of looking for a queue's next dead letter.
pub(crate) enum Found {
    DeadLetter(DeadLetter),
    /// These were to be dead-lettered, but the rules send them nowhere any more.
    Nobody(SeqRange),
    /// It left meanwhile.
    Gone,
    /// None, or not now.
    Later,
}

impl Shard {
    /// More of the dead may be under way. Publishers have nothing to do with that: those who keep the disk busy would keep the
    /// dead from it for ever.
    #[inline]
    pub(crate) fn may_dead_letter(&self) -> bool {
        self.dead_letterings.bytes < self.settings.limits.dead_lettering_bytes_max
    }

    /// Publishes anew what died, and takes in what logs said of what was published before.
    pub(crate) fn publish_dead_letters(&mut self, now: Now) {
        for Heard { first, last, fate } in std::mem::take(&mut self.post.heard) {
            (first..=last).for_each(|id| self.answered(now, id, fate));
        }
        while let Some(dead) = self.dead_letters.pop_front() {
            self.dead_letter_one(now, &dead);
        }
        let (limits, logs, first_log) =
            (self.settings.limits, self.logs.len(), self.dead_letterings.first_log);
        for slot in (first_log..first_log + logs).map(|slot| slot % logs) {
            for _ in 0..limits.dispatch_messages_max {
                if !self.may_dead_letter() {
                    // Or one log would always be first.
                    self.dead_letterings.first_log = slot + 1;
                    return;
                }
                let Some(dead) =
                    self.logs[slot].next_dead_letter(&mut Turn::new(now, &limits, &mut self.post))
                else {
                    break;
                };
                self.dead_letter_one(now, &dead);
            }
        }
    }

    fn dead_letter_one(&mut self, now: Now, dead: &DeadLetter) {
        let DeadLetter { queue, rule: to, position, reason, memory, offset, .. } = dead;
        let message = Enqueue::read(&memory[*offset as usize..]).expect("only messages die");
        let death = Death { queue: &queue.name, reason: *reason, at_ms: now.wall_ms };
        let mut letter = dead_letter(&message, &death, to.routing_key.as_ref().map(|key| key.as_bytes()));
        // No death tells of them, and they go on with the message while no other key takes the place of all.
        let hidden = match letter.flags & flag::ONE_KEY {
            0 => hidden_keys(&memory[*offset as usize..]),
            _ => Vec::new(),
        };
        letter.keys.extend(&hidden);
        let id = self.dead_letterings.next;
        self.dead_letterings.next += 1;
        let (targets, remembering, cycle) = self.route_dead(queue, to, &message, &letter, *reason, id);
        if let Some(again) = cycle {
            self.note_cycle(now, dead, again);
        }
        let failures = dead.failures_of(&message);
        let has_failed = if failures > 0 { flag::FAILED } else { 0 };
        let new = NewEnqueue {
            flags: letter.flags & !(flag::FAILED | flag::HIDDEN_KEYS) | has_failed,
            format: message.format,
            priority: message.priority,
            received_at_ms: now.wall_ms,
            expires_at_ms: 0,
            due_at_ms: due_with_failures(0, failures),
            ordering_key: message.ordering_key,
            exchange: to.exchange.as_bytes(),
            routing_key: letter.keys[0],
            head: &[&letter.head],
            body: &[message.body],
        };
        if !remembering.is_empty() {
            self.have_remembered(now, remembering, &new);
        }
        let mut left = 0;
        let mut is_held = false;
        for target in &targets {
            if self.stopped.contains(&target.log) {
                is_held = true;
                continue;
            }
            if new.hiding_len(target.queues.len(), &hidden).is_none() {
                // It has grown beyond what a record holds: there is nothing that can take it.
                continue;
            }
            let waiter = position.map(|_| (own_port(self.settings.id), 0, id));
            let addressed = Addressed::new(&new, &hidden, target, waiter);
            left += u32::from(addressed.is_waited_for());
            self.append_addressed(now, &addressed);
        }
        let Some(seq) = *position else { return };
        let dead_lettering = DeadLettering {
            log: queue.log,
            queue: queue.id,
            seq,
            reason: *reason,
            at_least_once: to.at_least_once,
            left,
            was_refused: is_held || (to.at_least_once && targets.is_empty()),
            bytes: message.head.len() + message.body.len(),
        };
        if left > 0 {
            self.dead_letterings.bytes += dead_lettering.bytes;
            self.dead_letterings.open.insert(id, dead_lettering);
        } else {
            self.end_dead_lettering(now, &dead_lettering);
        }
    }

    /// A message is left out of where it would come again.
    #[cold]
    fn note_cycle(&mut self, now: Now, dead: &DeadLetter, again: QueueId) {
        let DeadLetter { queue, rule, reason, .. } = dead;
        let Some(again) = self.catalog.queue(again) else { return };
        // What is to arrive at least once is tried again, and counts when it ends.
        self.tallies.cycles[type_index(queue.queue_type)] += u64::from(!rule.at_least_once);
        self.post.notices.note_cycle(now, (queue, again), *reason, rule.at_least_once);
    }

    /// Where a dead letter goes, never round in a circle; the exchanges that remember it; and a queue it would come to again.
    fn route_dead(
        &self,
        queue: &QueueDefinition,
        to: &DeadLetterRule,
        message: &Enqueue<'_>,
        letter: &Letter<'_>,
        reason: DeathReason,
        id: u64,
    ) -> (Box<[Target]>, Vec<ExchangeId>, Option<QueueId>) {
        let headers = &Fields::read(message.format, &letter.head, message.body);
        let view = self.view((0, id));
        let envelope = Envelope { keys: &letter.keys, headers, roll: view.roll(own_port(self.settings.id)) };
        let history = History::read(message.format, letter.flags, &letter.head);
        let again = Cell::new(None);
        let is_cycle = |id: QueueId| {
            let target = self.catalog.queue(id);
            let is_cycle = target
                .is_some_and(|target| target.vhost == queue.vhost && history.is_cycle(&target.name, reason));
            if is_cycle {
                again.set(Some(id));
            }
            is_cycle
        };
        let exchange = to.exchange.as_bytes();
        let Ok((targets, sees_more, matches)) = view.find_own(queue.vhost, exchange, &envelope, is_cycle)
        else {
            // The exchange is not there.
            return Default::default();
        };
        let remembering = match sees_more {
            true => self.catalog.remembering_exchanges(queue.vhost, exchange, &matches),
            false => Vec::new(),
        };
        (targets, remembering, again.get())
    }

    /// A log said of a publish of the shard's own what became of it. What a queue has no room for is gone unless it is to be there
    /// at least once; a log that is stopped has taken nothing, as where it was stopped before.
    fn answered(&mut self, now: Now, id: u64, fate: Fate) {
        let Some(dead_lettering) = self.dead_letterings.open.get_mut(&id) else { return };
        dead_lettering.left -= 1;
        dead_lettering.was_refused |= match fate {
            Fate::Safe => false,
            Fate::Refused => dead_lettering.at_least_once,
            Fate::Stopped => true,
        };
        if dead_lettering.left == 0
            && let Some(dead_lettering) = self.dead_letterings.open.remove(&id)
        {
            self.dead_letterings.bytes -= dead_lettering.bytes;
            self.end_dead_lettering(now, &dead_lettering);
        }
    }

    /// All logs have answered: the message leaves its queue, or is tried again later.
    fn end_dead_lettering(&mut self, now: Now, dead_lettering: &DeadLettering) {
        let limits = self.settings.limits;
        let Some(log) = self.log_slots.get(&dead_lettering.log).map(|slot| &mut self.logs[*slot as usize])
        else {
            return;
        };
        let Some((slot, queue)) = log.queues.get_mut(dead_lettering.queue) else { return };
        let range = SeqRange { first: dead_lettering.seq, last: dead_lettering.seq };
        if let Some(features) = &mut queue.features {
            features.dead_lettering -= 1;
            if dead_lettering.was_refused {
                features.hold_back(now, range, dead_lettering.reason, &limits);
            }
        }
        let mut at = log.at(slot);
        if dead_lettering.was_refused {
            at.arm(now);
        } else {
            if dead_lettering.at_least_once {
                self.tallies.dead_lettered[type_index(at.queue.definition.queue_type)] += 1;
            }
            at.end_dead(&mut Turn::new(now, &limits, &mut self.post), range);
        }
        at.list_dying();
    }
}

impl Features {
    /// The message could not be placed: it is tried again later.
    fn hold_back(&mut self, now: Now, range: SeqRange, reason: DeathReason, limits: &Limits) {
        if self.unplaced.is_empty() {
            self.retry_at_ms = now.wall_ms.saturating_add(limits.dead_lettering_retry_ms);
        }
        self.unplaced.push((range, reason));
    }

    /// What could not be placed before is tried again, if it is time.
    pub(crate) fn try_again(&mut self, now: Now) {
        if !self.unplaced.is_empty() && self.retry_at_ms <= now.wall_ms {
            for entry in self.unplaced.drain(..).rev() {
                self.dying.push_front(entry);
            }
        }
    }
}
