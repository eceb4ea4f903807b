//! Changes of the catalog: planned on one shard, applied on all, with all they mean for the queues of each.

use super::{CATALOG_LOG, Shard};
use crate::catalog::{Actor, Applied, Change, Object, Op, Plan, QueueDefinition};
use crate::event::Event;
use crate::log::Brings;
use crate::mail::{Answering, Mail};
use crate::planner::{Answer, Asked, Planner};
use crate::request::{QueueCommand, Reply};
use crate::turn::Turn;
use base::Now;
use base::id::PortId;
use message::record;
use std::sync::Arc;

impl Shard {
    /// Asks for a change of the catalog. The answer comes as an [`Event::Reply`] with `token`, when the change is on
    /// disk and every shard knows it.
    pub fn request(&mut self, now: Now, port: PortId, token: u32, op: Op) {
        let Some(state) = self.ports.get_mut(&port) else { return };
        state.owns_queues |= matches!(op, Op::DeclareQueue { exclusive: true, .. });
        let actor = state.actor.clone();
        self.send_to_planner(now, actor, Some(Answering { port, token, instead: None }), op);
    }

    pub(super) fn send_to_planner(&mut self, now: Now, actor: Actor, answer: Option<Answering>, op: Op) {
        if self.planner.is_some() {
            self.plan(now, actor, answer, op);
        } else {
            let planner = self.settings.placement.owner(CATALOG_LOG);
            self.post.send(planner, Mail::Plan { actor, answer, op: Box::new(op) });
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
                if queue.is_none() {
                    let is_queue = |change: &&Change| matches!(change, Change::AddQueue(_));
                    self.tallies.churn.queue_declared += changes.iter().filter(is_queue).count() as u64;
                }
                for change in changes {
                    let told = self.announcements(&actor, answer.is_some(), &change);
                    self.make_change(now, change);
                    told.iter().for_each(|announcement| self.publish_announcement(now, announcement));
                }
                if let Some(queue) = queue {
                    self.tallies.churn.queue_declared += 1;
                    if !is_new && let Some(answer) = answer {
                        // What it holds now, only its owner knows.
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

    /// Whether the journal has room left for what gives some back alone. While it has, nothing that is kept is newly made: who
    /// declares and binds is refused, unless it is there already.
    pub fn set_short(&mut self, is_short: bool) {
        if let Some(planner) = &mut self.planner {
            planner.set_short(is_short);
        }
    }

    /// On the planning shard: logs a change, applies it here and has it sent to the others.
    pub(crate) fn make_change(&mut self, now: Now, change: Change) {
        if change.is_durable() {
            let encoded = change.encode();
            let log = self.log_mut(CATALOG_LOG).expect("the planner owns the catalog's log");
            log.commons
                .pipeline
                .append(now, Brings::FLUSH, |records| record::write_catalog(&encoded, records));
        }
        self.apply_change(Some(now), &change);
        if let Change::Bind(binding) = &change {
            self.recall(now, binding);
        }
        self.planner.as_mut().expect("this shard plans").add_change(change);
    }

    /// A change of the catalog was applied here that is not known to be on disk. Until it is there is no snapshot, and where
    /// changes come without end, none ever: see [`Shard::hold_changes`].
    pub fn has_change_under_way(&self) -> bool {
        let committed = self.log(CATALOG_LOG).map(|log| log.commons.pipeline.committed()).unwrap_or_default();
        self.planner.as_ref().is_some_and(|planner| planner.has_unwritten(committed))
    }

    /// What is to change in the catalog waits from now on, so that what was changed gets to disk alone.
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
    pub(crate) fn apply_change(&mut self, now: Option<Now>, change: &Change) {
        for applied in self.catalog.apply(change) {
            match applied {
                Applied::QueueCreated(definition) => {
                    if self.log_slots.contains_key(&definition.log) {
                        self.create_queue(definition.clone());
                        if let Some(now) = now {
                            self.tallies.churn.queue_created += 1;
                            self.go_by(now, &definition);
                            self.feed_once_known(now, &definition);
                        }
                        if self.catalog.is_traced(definition.vhost) {
                            self.trace_queue(&definition);
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
                Applied::QueueDeleted(definition) => {
                    let is_here = self.log_slots.contains_key(&definition.log);
                    self.tallies.churn.queue_deleted += u64::from(now.is_some() && is_here);
                    let limits = self.settings.limits;
                    if definition.is_stream()
                        && let Some(slot) = self.log_slots.get(&definition.log)
                    {
                        if let Some(streams) = &mut self.logs[*slot as usize].streams {
                            streams.delete(definition.id, &mut self.post);
                        }
                    } else if let Some(slot) = self.log_slots.get(&definition.log)
                        && let Some(queue) = self.logs[*slot as usize].remove_queue(definition.id, &limits)
                    {
                        queue.tell_members(&mut self.post);
                        // A replay finds the record of it.
                        if let Some(now) = now.filter(|_| definition.has_source()) {
                            self.logs[*slot as usize].end_feed(now, definition.id);
                        }
                    }
                    for (port, watcher) in self.watches.take(definition.id) {
                        self.post.event(port, Event::QueueDeleted { watcher, queue: definition.id });
                    }
                }
            }
        }
    }

    /// A queue of a log of this shard is there.
    pub(crate) fn create_queue(&mut self, definition: Arc<QueueDefinition>) {
        let declared = definition.declared_rules();
        self.has_streams |= definition.is_stream();
        if let Some(log) = self.log_mut(definition.log) {
            log.create_queue(definition, &declared);
        }
    }

    /// A queue of this shard goes by what the catalog says now.
    pub(crate) fn go_by(&mut self, now: Now, definition: &QueueDefinition) {
        let limits = self.settings.limits;
        if let Some(slot) = self.log_slots.get(&definition.log) {
            let rules = self.catalog.rules(definition);
            let log = &mut self.logs[*slot as usize];
            log.go_by(&mut Turn::new(now, &limits, &mut self.post), definition.id, rules);
        }
    }

    /// A queue is filled from its stream, if it has one, once the record of the queue is on disk. Elsewhere than on the planning
    /// shard it is. What was fed before would come before that record in the journal: a replay would pass over the messages, as
    /// their queue is not there yet, and know how far they went.
    fn feed_once_known(&mut self, now: Now, definition: &QueueDefinition) {
        match &self.planner {
            _ if !definition.has_source() => {}
            Some(planner) => self.unfed.push_back((planner.next_wave(), definition.id)),
            None => self.feed(now, definition),
        }
    }

    /// A queue is filled from its stream, if it has one, from now on. Where the log is stopped that would be recorded as the
    /// first thing in it, before what is on disk.
    pub(crate) fn feed(&mut self, now: Now, definition: &QueueDefinition) {
        if definition.has_source()
            && !self.stopped.contains(&definition.log)
            && let Some(slot) = self.log_slots.get(&definition.log)
            && let Some(source) = self.catalog.source(definition)
        {
            let limits = self.settings.limits;
            self.logs[*slot as usize].begin_feed(now, definition.id, source, &limits);
        }
    }

    /// On the planning shard, at the end of a turn: sends the waves that are committed, answers those all have seen.
    pub(super) fn advance_waves(&mut self, now: Now) {
        let committed = self.log_mut(CATALOG_LOG).map(|log| log.commons.pipeline.committed());
        let (Some(planner), Some(committed)) = (&mut self.planner, committed) else { return };
        let mut sent = 0;
        while let Some((number, changes)) = planner.next_to_send(committed) {
            for shard in self.post.others() {
                self.post.send(shard, Mail::Changes { number, changes: changes.clone() });
            }
            sent = number;
        }
        planner.finished(|Answer { port, token, reply }| self.post.reply(port, token, reply));
        while let Some((_, id)) = self.unfed.pop_front_if(|(wave, _)| *wave <= sent) {
            // It may be gone again.
            if let Some(definition) = self.catalog.queue(id).cloned() {
                self.feed(now, &definition);
            }
        }
    }
}
