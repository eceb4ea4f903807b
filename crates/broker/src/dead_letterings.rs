//! Dead-lettering: messages that died are published anew, and leave their queues when the copies are safe.
//!
//! They are routed on the shard's catalog, without asking for permissions, and the logs they go to answer as to a publisher, under
//! an address of the shard's own ([`own_port`]). A message that leads nowhere is done with, unless its queue asks for each to
//! arrive: then it is tried again later. Not here: which messages those are ([`crate::placed::queue::dead_letters`]).

use crate::catalog::{DeadLetterRule, QueueDefinition, Reason};
use crate::content::Content;
use crate::dead_lettering::DeadLettering;
use crate::fields::Fields;
use crate::limits::Limits;
use crate::mail::{Fate, Heard, Mail, own_port};
use crate::placed::queue::dead_letters::DeadLetter;
use crate::publisher::{Addressed, OwnPublisher, QUEUE_PRICE, Target};
use crate::recent_history;
use crate::tally::type_index;
use crate::turn::Turn;
use base::Work;
use base::hash::MapById;
use base::id::QueueId;
use message::deaths::{DeadLetter as Letter, Death, History, dead_letter};
use message::record::{DeathReason, Enqueue, NewEnqueue, SeqRange, due_with_failures, flag, hidden_keys};
use routing::{Envelope, ExchangeId};
use std::cell::Cell;
use std::sync::Arc;

/// Messages that a shard has published anew and waits for.
#[derive(Debug, Default)]
pub(crate) struct DeadLetterings {
    next: u64,
    open: MapById<u64, DeadLettering>,
    /// Bytes of the messages in `open`.
    bytes: usize,
    /// The log whose dead come first.
    first_log: usize,
    /// Work that was done beyond what there was for it.
    owed: u64,
    work: Work,
    /// Units that were ever spent, up to the last turn.
    all_work: u64,
}

/// Units of work that each dead letter takes, whatever its way.
const LETTER_PRICE: u32 = 400;

impl DeadLetterings {
    /// More of the dead may be under way. Publishers have nothing to do with that: those who keep the disk busy would keep the
    /// dead from it for ever.
    #[inline]
    pub(crate) fn has_room(&self, limits: &Limits) -> bool {
        self.bytes < limits.dead_lettering_bytes_max
    }

    /// A turn ends: there are units of work for dead letters again, beside those of others.
    pub(crate) fn begin(&mut self, units: u32) {
        let spent = self.work.take();
        self.all_work += spent;
        self.owed = (self.owed + spent).saturating_sub(units.into());
        let owed = u32::try_from(self.owed).unwrap_or(u32::MAX);
        self.work.allow(units.saturating_sub(owed));
    }

    /// Units of work that there ever were, but those of the turn under way.
    pub(crate) fn all_work(&self) -> u64 {
        self.all_work
    }

    /// Publishes dead letters anew, and takes in the answers of logs to those published before.
    pub(crate) fn publish(&mut self, own: &mut OwnPublisher<'_>) {
        for Heard { first, last, fate } in std::mem::take(&mut own.post.heard) {
            (first..=last).for_each(|id| self.answered(own, id, fate));
        }
        // Half of the work is for the dead of queues, where there are some: a full queue refuses without end.
        let kept = if own.logs.has_dying() { self.work.left() / 2 } else { 0 };
        while self.work.left() > kept
            && let Some(dead) = own.logs.refused.pop()
        {
            self.publish_one(own, &dead);
        }
        let (limits, logs, first_log) = (&own.settings.limits, own.logs.all.len(), self.first_log);
        for slot in (first_log..first_log + logs).map(|slot| slot % logs) {
            for _ in 0..limits.dispatch_messages_max {
                if !self.has_room(limits) || self.work.is_over() {
                    // Or one log would always be first.
                    self.first_log = slot + 1;
                    return;
                }
                let mut turn = Turn::new(own.now, limits, own.post);
                let Some(dead) = own.logs.all[slot].next_dead_letter(&mut turn) else { break };
                self.publish_one(own, &dead);
            }
        }
    }

    fn publish_one(&mut self, own: &mut OwnPublisher<'_>, dead: &DeadLetter) {
        let DeadLetter { queue, rule: to, position, tenure, reason, memory, offset, .. } = dead;
        let message = Enqueue::read(&memory[*offset as usize..]).expect("only messages die");
        let death = Death { queue: &queue.name, reason: *reason, at_ms: own.now.wall_ms };
        let mut letter = dead_letter(&message, &death, to.routing_key.as_ref().map(|key| key.as_bytes()));
        // No death tells of them, and they go on with the message while no other key takes the place of all.
        let hidden = match letter.flags & flag::ONE_KEY {
            0 => hidden_keys(&memory[*offset as usize..]),
            _ => Vec::new(),
        };
        letter.keys.extend(&hidden);
        let id = self.next;
        self.next += 1;
        let way = route_dead(own, queue, to, (&message, &letter), *reason, id);
        let Way { targets, remembering, cycle, steps } = way;
        let queues = targets.iter().map(|target| target.queues.len()).sum::<usize>();
        let queues = u32::try_from(queues).unwrap_or(u32::MAX).saturating_mul(QUEUE_PRICE);
        self.work.spend(LETTER_PRICE.saturating_add(steps).saturating_add(queues));
        if let Some(again) = cycle {
            note_cycle(own, dead, again);
        }
        let failures = dead.failures_of(&message);
        let has_failed = if failures > 0 { flag::FAILED } else { 0 };
        let new = NewEnqueue {
            flags: letter.flags & !(flag::FAILED | flag::HIDDEN_KEYS) | has_failed,
            format: message.format,
            priority: message.priority,
            received_at_ms: own.now.wall_ms,
            expires_at_ms: 0,
            due_at_ms: due_with_failures(0, failures),
            keys: None,
            exchange: to.exchange.as_bytes(),
            routing_key: letter.keys[0],
            head: &[&letter.head],
            body: &[message.body],
        };
        if !remembering.is_empty() {
            recent_history::have_remembered(own, remembering, &new);
        }
        let mut left = 0;
        let mut is_held = false;
        for target in &targets {
            if own.logs.is_stopped(target.log) {
                is_held = true;
                continue;
            }
            if new.hiding_len(target.queues.len(), &hidden).is_none() {
                // It has grown beyond what a record holds: there is nothing that can take it.
                continue;
            }
            let waiter = position.map(|_| (own_port(own.settings.id), 0, id));
            let addressed = Addressed::new(&new, &hidden, target, waiter);
            left += u32::from(addressed.is_waited_for());
            own.append(&addressed);
        }
        self.work.spend(own.logs.ranking.take_units());
        let Some(seq) = *position else { return };
        let dead_lettering = DeadLettering {
            log: queue.log,
            queue: queue.id,
            seq,
            tenure: *tenure,
            reason: *reason,
            at_least_once: to.at_least_once,
            left,
            was_refused: is_held || (to.at_least_once && targets.is_empty()),
            bytes: message.head.len() + message.body.len(),
        };
        if left > 0 {
            self.bytes += dead_lettering.bytes;
            self.open.insert(id, dead_lettering);
        } else {
            end(own, dead_lettering);
        }
    }

    /// A log said of a publish of the shard's own what became of it. What a queue has no room for is gone unless it is to be there
    /// at least once; a log that is stopped has taken nothing, as where it was stopped before.
    fn answered(&mut self, own: &mut OwnPublisher<'_>, id: u64, fate: Fate) {
        let Some(dead_lettering) = self.open.get_mut(&id) else { return };
        dead_lettering.left -= 1;
        dead_lettering.was_refused |= match fate {
            Fate::Safe => false,
            Fate::Refused => dead_lettering.at_least_once,
            Fate::Stopped => true,
        };
        if dead_lettering.left == 0
            && let Some(dead_lettering) = self.open.remove(&id)
        {
            self.bytes -= dead_lettering.bytes;
            end(own, dead_lettering);
        }
    }
}

/// A message is left out of where it would come again.
#[cold]
fn note_cycle(own: &mut OwnPublisher<'_>, dead: &DeadLetter, again: QueueId) {
    let DeadLetter { queue, rule, reason, .. } = dead;
    let Some(again) = own.catalog.queue(again) else { return };
    // A message that is to arrive at least once is tried again, and counts when it ends.
    own.tallies.cycles[type_index(queue.queue_type)] += u64::from(!rule.at_least_once);
    own.post.notices.note_cycle(own.now, (queue, again), *reason, rule.at_least_once);
}

/// Finding where a message goes takes too many steps: it goes nowhere, as one that nothing is bound for.
#[cold]
fn note_too_dear(own: &mut OwnPublisher<'_>, queue: &Arc<QueueDefinition>, exchange: &[u8]) {
    own.tallies.too_dear += 1;
    let steps_max = own.settings.limits.route_steps_max;
    own.post.notices.note_dead_too_dear(own.now, queue, exchange, steps_max);
}

/// Where a dead letter goes.
#[derive(Default)]
struct Way {
    targets: Box<[Target]>,
    /// Exchanges that remember it.
    remembering: Vec<ExchangeId>,
    /// A queue that it would come to again.
    cycle: Option<QueueId>,
    /// Units of work that it took to find.
    steps: u32,
}

/// Where a dead letter goes, never round in a circle.
fn route_dead(
    own: &mut OwnPublisher<'_>,
    queue: &Arc<QueueDefinition>,
    to: &DeadLetterRule,
    (message, letter): (&Enqueue<'_>, &Letter<'_>),
    reason: DeathReason,
    id: u64,
) -> Way {
    let headers = &Fields::read(message.format, &letter.head, message.body);
    let view = own.view((0, id));
    let (head, body) = ([&*letter.head], [message.body]);
    let way = (to.exchange.as_bytes(), letter.keys.first().copied().unwrap_or_default());
    let content = &Content::new((message.format, letter.flags), way, (&head, &body));
    let (roll, now_ms) = (view.roll(own_port(own.settings.id)), own.now.wall_ms);
    let envelope = Envelope { keys: &letter.keys, headers, roll, content, now_ms };
    let history = History::read(message.format, letter.flags, &letter.head);
    let again = Cell::new(None);
    let is_cycle = |id: QueueId| {
        let target = own.catalog.queue(id);
        let is_cycle = target
            .is_some_and(|target| target.vhost == queue.vhost && history.is_cycle(&target.name, reason));
        if is_cycle {
            again.set(Some(id));
        }
        is_cycle
    };
    let exchange = to.exchange.as_bytes();
    let (targets, sees_more, matches) = match view.find_own(queue.vhost, exchange, &envelope, is_cycle) {
        Ok(found) => found,
        Err(refusal) if refusal.reason == Reason::RouteTooDear => {
            note_too_dear(own, queue, exchange);
            return Way { steps: own.settings.limits.route_steps_max, ..Way::default() };
        }
        // The exchange is not there.
        Err(_) => return Way::default(),
    };
    if !matches.filtered().is_empty() {
        let counted = own.tallies.exchange(own.catalog, queue.vhost, exchange);
        own.tallies.filtered(counted, matches.filtered());
    }
    let remembering = match sees_more {
        true => own.catalog.remembering_exchanges(queue.vhost, exchange, &matches),
        false => Vec::new(),
    };
    Way { targets, remembering, cycle: again.get(), steps: matches.steps() }
}

/// All logs have answered: the message leaves its queue, or is tried again later. Where its log went to another shard that is
/// done there. Where the queue lost its owner meanwhile the next one knows nothing of it: the message is ready again, and may
/// die again.
pub(crate) fn end(own: &mut OwnPublisher<'_>, dead_lettering: DeadLettering) {
    let limits = &own.settings.limits;
    let Some(log) = own.logs.get_mut(dead_lettering.log) else {
        return own.post.send_to_log(dead_lettering.log, Mail::DeadLettered(Box::new(dead_lettering)));
    };
    // The message of a stopped log stays where it is.
    if log.commons.pipeline.tenure() != dead_lettering.tenure || log.commons.is_stopped {
        return;
    }
    let Some(slot) = log.machines.slot(dead_lettering.queue) else { return };
    let Some(mut at) = log.queue_at(slot) else { return };
    let range = SeqRange { first: dead_lettering.seq, last: dead_lettering.seq };
    if let Some(features) = &mut at.queue.features {
        features.dead_lettering -= 1;
        if dead_lettering.was_refused {
            features.hold_back(own.now, range, dead_lettering.reason, limits);
        }
    }
    if dead_lettering.was_refused {
        at.arm(own.now);
    } else {
        if dead_lettering.at_least_once {
            own.tallies.dead_lettered[type_index(at.queue.definition().queue_type)] += 1;
        }
        at.end_dead(&mut Turn::new(own.now, limits, own.post), range);
    }
    at.list_dying();
}
