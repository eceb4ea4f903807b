//! Changes of the catalog: planned on one shard, applied on all, with all they mean for the queues of each.

use super::{CATALOG_LOG, Shard};
use crate::catalog::{Actor, Applied, Change, Object, Op, Plan, QueueDefinition, VhostId};
use crate::event::Event;
use crate::event_exchange;
use crate::listing::QueuesNow;
use crate::log::Brings;
use crate::mail::{Answering, Mail};
use crate::message_keys::KeyRule;
use crate::planner::{Answer, Asked, Planner};
use crate::recent_history;
use crate::request::{QueueCommand, Reply};
use crate::turn::Turn;
use base::id::PortId;
use base::{DigestKey, Now};
use message::record;

impl Shard {
    /// Asks for a change of the catalog. The answer comes as an [`Event::Reply`] with `token`, when the change is on
    /// disk and every shard knows it.
    pub fn request(&mut self, now: Now, port: PortId, token: u32, op: Op) {
        let Some(actor) = self.ports.asks_for(port, &op) else { return };
        self.send_to_planner(now, actor, Some(Answering { port, token, instead: None }), op);
    }

    pub(super) fn send_to_planner(&mut self, now: Now, actor: Actor, answer: Option<Answering>, op: Op) {
        if self.planner.is_some() {
            self.plan(now, actor, answer, op);
        } else {
            self.post.send_to_planner(Mail::Plan { actor, answer, op: Box::new(op) });
        }
    }

    /// On the planning shard: works out what a request changes, applies it here and logs it.
    pub(super) fn plan(&mut self, now: Now, actor: Actor, answer: Option<Answering>, op: Op) {
        let planner = self.planner.as_mut().expect("this shard plans");
        let Some(Asked { actor, answer, op }) = planner.put_off(Asked { actor, answer, op }) else { return };
        let planned = match self.settings.relaxes_types {
            true => self.catalog.plan_relaxed(&actor, &op),
            false => self.catalog.plan(&actor, &op),
        };
        let planned = planned.and_then(|plan| {
            self.settings.limits.check(&self.catalog, &plan.changes)?;
            planner.check_room(&plan.changes)?;
            Ok(plan)
        });
        let mut reply = Ok(Reply::Done);
        match planned {
            Err(refusal) => reply = Err(refusal),
            Ok(Plan { changes, queue }) => {
                let is_new = !changes.is_empty();
                if is_new && self.catalog.digest_key().is_none() {
                    let key = DigestKey::new(self.secrets.bytes());
                    self.make_change(now, Change::SetDigestKey(key));
                }
                if queue.is_none() {
                    let is_queue = |change: &&Change| matches!(change, Change::AddQueue(_));
                    self.tallies.churn.queue_declared += changes.iter().filter(is_queue).count() as u64;
                }
                for change in changes {
                    let by = (&actor, answer.is_some());
                    let told = event_exchange::announcements(&self.catalog, &self.settings.node, by, &change);
                    self.make_change(now, change);
                    for announcement in &told {
                        event_exchange::publish(&mut self.own(now), announcement);
                    }
                }
                if let Some(queue) = queue {
                    self.tallies.churn.queue_declared += 1;
                    if !is_new && let Some(answer) = answer {
                        // Only its owner knows its messages and consumers.
                        let command = QueueCommand::Counts { token: answer.token };
                        self.send_to_queue(now, queue.log, queue.id, answer.port, command);
                        return;
                    }
                    reply = Ok(Reply::Declared { queue, is_new, ready: 0, consumers: 0 });
                } else if !is_new {
                    reply = Ok(Reply::Unchanged);
                }
            }
        }
        if let Some(Answering { port, token, instead }) = answer {
            let reply = reply.map(|reply| instead.unwrap_or(reply));
            let planner = self.planner.as_mut().expect("this shard plans");
            planner.add_answer(Answer { port, token, reply });
        }
    }

    /// Whether the journal has room left only for changes that give space back. While it is so, nothing that is kept is
    /// newly made: declaring and binding are refused, unless the thing is there already.
    pub fn set_short(&mut self, is_short: bool) {
        if let Some(planner) = &mut self.planner {
            planner.set_short(is_short);
        }
    }

    /// On the planning shard: logs a change, applies it here and has it sent to the others.
    fn make_change(&mut self, now: Now, change: Change) {
        if change.is_durable() {
            let encoded = change.encode();
            let log = self.logs.get_mut(CATALOG_LOG).expect("the planner owns the catalog's log");
            log.commons
                .pipeline
                .append(now, Brings::FLUSH, |records| record::write_catalog(&encoded, records));
        }
        self.apply_change(Some(now), &change);
        if let Change::Bind(binding) = &change {
            recent_history::recall(&mut self.own(now), binding);
        }
        self.planner.as_mut().expect("this shard plans").add_change(change);
    }

    /// A change of the catalog was applied here that is not known to be on disk. Until it is there is no snapshot, and where
    /// changes come without end, none ever: see [`Shard::hold_changes`].
    pub fn has_change_under_way(&self) -> bool {
        let committed =
            self.logs.get(CATALOG_LOG).map(|log| log.commons.pipeline.committed()).unwrap_or_default();
        self.planner.as_ref().is_some_and(|planner| planner.has_unwritten(committed))
    }

    /// Requests to change the catalog wait from now on, so that the changes made get to disk alone.
    pub fn hold_changes(&mut self) {
        if let Some(planner) = &mut self.planner {
            planner.hold();
        }
    }

    /// Makes the changes that have waited, in the order in which they were asked for, and waits for none any more.
    pub fn go_on_with_changes(&mut self, now: Now) {
        let held = self.planner.as_mut().map(Planner::go_on).unwrap_or_default();
        for Asked { actor, answer, op } in held {
            self.plan(now, actor, answer, op);
        }
    }

    /// Applies a change of the catalog and does what it means for the queues here. Without `now` it is a replay, at whose
    /// end queues learn what they go by.
    pub(super) fn apply_change(&mut self, now: Option<Now>, change: &Change) {
        for applied in self.catalog.apply(change) {
            match applied {
                Applied::QueueCreated(definition) => {
                    if self.logs.slot(definition.log).is_some() {
                        self.logs.create_queue(definition.clone());
                        if let Some(now) = now {
                            self.tallies.churn.queue_created += 1;
                            self.go_by(now, &definition);
                            self.feed_once_known(now, &definition);
                        }
                        if self.catalog.is_traced(definition.vhost) {
                            self.logs.trace(&definition, true);
                        }
                    }
                }
                // Policies changed what the queue goes by: its owner takes that up at once.
                Applied::RulesChanged(definition) => {
                    if let Some(now) = now {
                        self.go_by(now, &definition);
                        self.feed_once_known(now, &definition);
                    }
                }
                Applied::Traced(vhost) => self.trace(vhost),
                Applied::VhostDeleted(vhost) => {
                    let text = format!("vhost '{}' is deleted", vhost.name);
                    self.close_ports(Object::VirtualHost, &text, |actor| actor.vhost == vhost.id);
                }
                Applied::UserDeleted(user) => {
                    let text = format!("user '{user}' is deleted");
                    self.close_ports(Object::User, &text, |actor| actor.user == user);
                }
                Applied::QueueDeleted(definition) => self.forget_queue(now, &definition),
            }
        }
    }

    /// A queue is deleted: it goes, if it lives here, and connections here that want to know of it are told.
    fn forget_queue(&mut self, now: Option<Now>, definition: &QueueDefinition) {
        if let Some(slot) = self.logs.slot(definition.log) {
            self.tallies.churn.queue_deleted += u64::from(now.is_some());
            let log = &mut self.logs.all[slot];
            log.delete_queue(now, definition, &self.settings.limits, &mut self.post);
        }
        for (port, watcher) in self.watches.take(definition.id) {
            self.post.event(port, Event::QueueDeleted { watcher, queue: definition.id });
        }
    }

    /// A virtual host is traced from now on, or no longer.
    #[cold]
    fn trace(&mut self, vhost: VhostId) {
        let on = self.catalog.is_traced(vhost);
        self.catalog.vhost_queues(vhost).for_each(|queue| self.logs.trace(queue, on));
        if on {
            for port in self.ports.nameless(vhost) {
                self.post.event(port, Event::Introduce);
            }
        }
    }

    /// A queue of this shard goes by what the catalog says now.
    pub(super) fn go_by(&mut self, now: Now, definition: &QueueDefinition) {
        if let Some(slot) = self.logs.slot(definition.log) {
            let rules = self.catalog.rules(definition);
            let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
            self.logs.all[slot].go_by(&mut turn, definition.id, rules);
        }
    }

    /// A queue is filled from its stream, if it has one, once the record of the queue is on disk. Elsewhere than on the planning
    /// shard it is. What was fed before would come before that record in the journal: a replay would pass over the messages, as
    /// their queue is not there yet, and know how far they went.
    fn feed_once_known(&mut self, now: Now, definition: &QueueDefinition) {
        match &mut self.planner {
            _ if !definition.has_source() => {}
            Some(planner) => planner.feed_later(definition.id),
            None => self.feed(now, definition),
        }
    }

    /// A queue is filled from its stream, if it has one, from now on. Where the log is stopped that would be recorded as the
    /// first thing in it, before what is on disk.
    pub(super) fn feed(&mut self, now: Now, definition: &QueueDefinition) {
        if definition.has_source()
            && !self.logs.is_stopped(definition.log)
            && let Some(log) = self.logs.get_mut(definition.log)
            && let Some(source) = self.catalog.source(definition)
        {
            let queue = self.catalog.queue(definition.id);
            let key_rule = queue.and_then(|queue| KeyRule::of(&self.catalog, queue));
            log.begin_feed(now, (definition.id, source, key_rule), &self.settings.limits);
        }
    }

    /// On the planning shard, at the end of a turn: sends the waves that are committed, answers those all have seen.
    pub(super) fn advance_waves(&mut self, now: Now) {
        let committed = self.logs.get(CATALOG_LOG).map(|log| log.commons.pipeline.committed());
        let (Some(planner), Some(committed)) = (&mut self.planner, committed) else { return };
        while let Some((number, changes)) = planner.next_to_send(committed) {
            for shard in self.post.others() {
                self.post.send(shard, Mail::Changes { number, changes: changes.clone() });
            }
        }
        planner.finished(|Answer { port, token, reply }| self.post.reply(port, token, reply));
        for id in planner.take_unfed() {
            // It may be gone again.
            if let Some(definition) = self.catalog.queue(id).cloned() {
                self.feed(now, &definition);
            }
        }
    }

    /// On the planning shard: which queues there are now, for a caller that knows which there were at version `known`.
    /// None: another shard plans.
    pub fn queues_now(&self, known: Option<u64>) -> Option<QueuesNow> {
        let planner = self.planner.as_ref()?;
        let changes = known.and_then(|known| self.catalog.queues_since(known));
        Some(QueuesNow {
            version: self.catalog.queues_version(),
            is_settled: !planner.is_busy(),
            changes: changes.map(|changes| changes.cloned().collect()),
        })
    }

    /// On the planning shard: has the event exchange made in a virtual host, if it is nowhere yet.
    pub fn have_event_exchange(&mut self, now: Now, vhost: &str) {
        if self.planner.is_some()
            && let Some(change) = self.catalog.missing_event_exchange(vhost)
        {
            self.make_change(now, change);
        }
    }
}
