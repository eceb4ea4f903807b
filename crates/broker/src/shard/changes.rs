//! Changes of the catalog: planned on one shard, applied on all, with all they mean for the queues of each.

use super::{CATALOG_LOG, Shard, governing};
use crate::catalog::{Actor, Applied, Change, Misspelt, OBJECT, Object, Op, Plan, QueueDefinition, VhostId};
use crate::event::Event;
use crate::event_exchange::{self, Announcement};
use crate::listing::QueuesNow;
use crate::log::Brings;
use crate::mail::{Answering, Mail};
use crate::message_keys::KeyRule;
use crate::planner::{Answer, Coming, Content, Departure, Planner, Step};
use crate::publisher::OwnPublisher;
use crate::recent_history;
use crate::request::{QueueCommand, Reply};
use crate::turn::Turn;
use base::id::{LogId, PortId};
use base::{DigestKey, Now};
use message::record;
use routing::ExchangeId;

/// The part of the room of publishers that what is remembered may take, the inverse of it.
const RECALL_ROOM: usize = 8;

impl Shard {
    /// Asks for a change of the catalog. The answer comes as an [`Event::Reply`] with `token`, when the change is on
    /// disk and every shard knows it.
    pub fn request(&mut self, now: Now, port: PortId, token: u32, op: Op) {
        let Some(actor) = self.ports.asks_for(port, &op) else { return };
        self.send_to_planner(now, actor, Some(Answering { port, token, instead: None }), op);
    }

    pub(super) fn send_to_planner(&mut self, now: Now, actor: Actor, answer: Option<Answering>, op: Op) {
        let led = self.led_near();
        if self.settings.plans() {
            self.plan(now, actor, answer, op, led);
        } else {
            self.post.send_to_planner(Mail::Plan { actor, answer, op: Box::new(op), led });
        }
    }

    /// On the planning shard: works out what a request changes, and logs it; or has the node do so that leads the catalog.
    pub(super) fn plan(
        &mut self,
        now: Now,
        actor: Actor,
        answer: Option<Answering>,
        op: Op,
        led: Box<[LogId]>,
    ) {
        if self.is_shared {
            return self.wish(now, actor, answer, op, led);
        }
        self.plan_now(now, Departure { actor, answer, asked: None, op, goes_along: false });
    }

    pub(super) fn plan_now(&mut self, now: Now, request: Departure) {
        // A message that came before a binding is remembered before it.
        self.take_up_remembered(now);
        let planner = self.planner.as_mut().expect("this shard plans");
        let room = planner.departures.room(&self.settings.limits);
        self.plan_part(now, request, room);
    }

    /// On the planning shard: plans what there is room for of a request, for the first time or again.
    fn plan_part(&mut self, now: Now, mut request: Departure, room: usize) {
        let Shard { settings, planner, logs, post, .. } = self;
        let planner = planner.as_mut().expect("this shard plans");
        let Departure { actor, op, asked, .. } = &request;
        let plan = match self.is_shared {
            true => {
                let led = asked.as_ref().map_or(&[][..], |asked| &asked.led);
                planner.plan_shared(actor, op, settings, led, room)
            }
            false => planner.plan(actor, op, settings, (&post.whereabouts, logs.stopped()), room),
        };
        let (content, waits) = match plan {
            Err(_) if request.goes_along => (Content::Reply(Ok(Reply::Done)), None),
            Err(refusal) => (Content::Reply(Err(refusal)), None),
            Ok(mut plan) => {
                let removed = std::mem::take(&mut plan.removed);
                let is_asked = request.is_asked_for();
                let outcome = self.carry_out(now, (actor, is_asked), plan, removed.is_more);
                let planner = self.planner.as_mut().expect("this shard plans");
                let Some(done) = planner.departures.go_on(request, removed) else { return };
                request = done;
                outcome
            }
        };
        if let Some(asked) = request.asked {
            return self.end_wish(now, *asked, content);
        }
        let Some(Answering { port, token, instead }) = request.answer else { return };
        let content = match (content, instead) {
            (Content::Reply(Ok(_)), Some(instead)) => Content::Reply(Ok(instead)),
            (content, _) => content,
        };
        let is_known = matches!(content, Content::Reply(_));
        let answer = Answer { port, token, content };
        let planner = self.planner.as_mut().expect("this shard plans");
        if let Some(vhost) = waits {
            return planner.reviews.hold(vhost, answer);
        }
        if is_known || planner.is_busy() {
            return planner.add_answer(answer);
        }
        self.answer(now, answer);
    }

    /// On the planning shard: more goes of what is much to remove.
    pub(super) fn remove_further(&mut self, now: Now) {
        let Some(planner) = self.planner.as_ref().filter(|planner| planner.departures.is_at_work()) else {
            return;
        };
        let mut room = planner.departures.room(&self.settings.limits);
        while room >= OBJECT
            && let Some(planner) = self.planner.as_mut().filter(|planner| planner.has_departure())
            && let Some(request) = planner.departures.next()
        {
            let before = planner.departures.gone();
            self.plan_part(now, request, room);
            let planner = self.planner.as_ref().expect("this shard plans");
            room = room.saturating_sub((planner.departures.gone() - before).max(1));
        }
        if let Some(planner) = &mut self.planner {
            planner.departures.end_turn();
        }
    }

    /// Makes the changes of a plan, on behalf of `by`, an actor that waits for an answer or does not; `is_part`: what it removes
    /// has more parts. Returns the answer, and the virtual host in which it has to wait until what was added goes by its
    /// policies.
    fn carry_out(
        &mut self,
        now: Now,
        by: (&Actor, bool),
        Plan { changes, queue, .. }: Plan,
        is_part: bool,
    ) -> (Content, Option<VhostId>) {
        let is_new = !changes.is_empty();
        let planner = self.planner.as_mut().expect("this shard plans");
        if is_new && planner.catalog.digest_key().is_none() {
            let key = DigestKey::new(self.secrets.bytes());
            self.make_change(now, Change::SetDigestKey(key), Vec::new());
        }
        if queue.is_none() {
            let is_queue = |change: &&Change| matches!(change, Change::AddQueue(_));
            self.tallies.churn.queue_declared += changes.iter().filter(is_queue).count() as u64;
        }
        let planner = self.planner.as_mut().expect("this shard plans");
        let (govern, waits) = planner.review_new(&changes);
        for change in govern.into_iter().chain(changes) {
            self.look_for_slips(now, by.0, &change);
            let planner = self.planner.as_mut().expect("this shard plans");
            // Nobody asked for bindings to go that go with one of their ends.
            let asked_for = by.1 && !(is_part && matches!(change, Change::Unbind(_)));
            let told_by = (by.0, asked_for);
            let told = event_exchange::announcements(&planner.catalog, &self.settings.node, told_by, &change);
            let told = governing::begin(planner, by, &change, told);
            self.make_change(now, change, told);
        }
        let Some(queue) = queue else {
            return (Content::Reply(Ok(if is_new { Reply::Done } else { Reply::Unchanged })), waits);
        };
        self.tallies.churn.queue_declared += 1;
        let content = match is_new {
            true => Content::Reply(Ok(Reply::Declared { queue, is_new, ready: 0, consumers: 0 })),
            // Only its owner knows its messages and consumers.
            false => Content::Counts { log: queue.log, queue: queue.id },
        };
        (content, waits)
    }

    /// On the planning shard: what is declared with misspelt arguments is told.
    fn look_for_slips(&mut self, now: Now, by: &Actor, change: &Change) {
        let (limits, notices) = (&self.settings.limits, &mut self.post.notices);
        let (looked_max, told_max) = (limits.misspelt_looked_max, limits.misspelt_told_max);
        match change {
            Change::AddQueue(queue) if !queue.arguments.is_empty() => {
                notices.note_slips(now, told_max, || Misspelt::in_queue(queue, &by.user, looked_max));
            }
            Change::AddExchange(exchange) if !exchange.arguments.is_empty() => {
                let planner = self.planner.as_ref().expect("this shard plans");
                let Some(vhost) = planner.catalog.vhost_definition(exchange.vhost) else { return };
                let named = (&**exchange, &vhost.name);
                notices.note_slips(now, told_max, || Misspelt::in_exchange(named, &by.user, looked_max));
            }
            _ => {}
        }
    }

    /// Sends an answer of the planner's, or has the owner of the queue answer.
    pub(super) fn answer(&mut self, now: Now, Answer { port, token, content }: Answer) {
        match content {
            Content::Reply(reply) => self.post.reply(port, token, reply),
            Content::Counts { log, queue } => {
                self.send_to_queue(now, log, queue, port, QueueCommand::Counts { token });
            }
        }
    }

    /// On the planning shard: has exchanges remember the messages that went through them since.
    pub(super) fn take_up_remembered(&mut self, now: Now) {
        while let Some((exchanges, record)) = self.post.to_remember.pop_front() {
            self.remember(now, &exchanges, record.bytes());
        }
    }

    /// A turn ends: there is room to give what is remembered.
    pub(super) fn begin_recalling(&mut self, now: Now) {
        if let Some(planner) = &mut self.planner {
            planner.recalls.begin(&self.settings.limits);
            self.recall(now);
        }
    }

    /// On the planning shard: what was bound to exchanges that remember gets the next of what it has yet to get.
    pub(super) fn recall(&mut self, now: Now) {
        if self.has_to_recall() {
            let Shard { settings, catalog, logs, post, tallies, planner, .. } = self;
            let planner = planner.as_mut().expect("it has something");
            let own = &mut OwnPublisher { now, settings, catalog, logs, post, tallies };
            recent_history::recall(own, &mut planner.recalls);
        }
    }

    /// Something that is remembered is to be given, and there is room for it beside what others publish.
    pub(super) fn has_to_recall(&self) -> bool {
        self.planner.as_ref().is_some_and(|planner| !planner.recalls.is_empty())
            && self.logs.bytes_in_flight() + self.post.parcels.under_way()
                < self.settings.limits.log_bytes_in_flight_max / RECALL_ROOM
            && !self.is_congested()
    }

    /// On the planning shard: has exchanges remember a message.
    pub(super) fn remember(&mut self, now: Now, exchanges: &[ExchangeId], record: &[u8]) {
        let Some(message) = recent_history::rememberable(record) else { return };
        for exchange in exchanges {
            let Some(planner) = &self.planner else {
                return self.pass_on_remembered(exchanges, record);
            };
            if let Some(change) = planner.catalog.remembering(*exchange, &message) {
                self.make_change(now, change, Vec::new());
            }
        }
    }

    /// Whether the journal has room left only for changes that give space back. While it is so, nothing that is kept is
    /// newly made: declaring and binding are refused, unless the thing is there already.
    pub fn set_short(&mut self, is_short: bool) {
        if let Some(planner) = &mut self.planner {
            planner.set_short(is_short);
        }
    }

    /// On the planning shard: logs a change, and has it take effect everywhere once it is committed.
    pub(super) fn make_change(&mut self, now: Now, change: Change, told: Vec<Announcement>) {
        let is_logged = self.is_shared || change.is_durable();
        let logged = is_logged.then(|| {
            let encoded = change.encode();
            let log = self.logs.get_mut(CATALOG_LOG).expect("the planner owns the catalog's log");
            let pipeline = &mut log.commons.pipeline;
            pipeline.append(now, Brings::FLUSH, |records| record::write_catalog(&encoded, records));
            pipeline.next()
        });
        let planner = self.planner.as_mut().expect("this shard plans");
        match logged.filter(|_| self.is_shared) {
            Some(end) => planner.add_shared(&change, told, end),
            None => planner.add_change(change, told, logged),
        }
    }

    /// On the planning shard: holds objects against policies, as far as one turn allows. What they go by now takes effect in the
    /// order of all changes.
    pub(super) fn review(&mut self, now: Now) {
        let Some(planner) = &mut self.planner else { return };
        let mut steps = planner.reviews.begin_turn(&self.settings.limits);
        while let Some(planner) = &mut self.planner
            && let Some(slice) = planner.next_slice(&mut steps, &self.settings.limits)
        {
            if let Some((change, told)) = governing::end(planner, &self.settings.node, slice) {
                self.make_change(now, change, told);
            }
        }
    }

    /// Applies a change of the catalog and does what it means for the queues here. Without `now` it is a replay, at whose
    /// end queues learn what they go by.
    pub(super) fn apply_change(&mut self, now: Option<Now>, change: &Change) {
        if self.settings.plans() {
            self.tell_ledger(change);
        }
        for applied in self.catalog.apply(change) {
            if self.post.whereabouts.has_moves() {
                self.logs.note_change(&applied);
            }
            self.react(now, applied);
        }
    }

    /// The ledger goes by the limits that users and virtual hosts have. One shard tells it, for all.
    fn tell_ledger(&self, change: &Change) {
        let ledger = &self.settings.ledger;
        let vhost_name = |id| self.catalog.vhost_definition(id).map(|vhost| &*vhost.name);
        match change {
            Change::SetUserLimits { user, limits } => ledger.set_user_max(user, limits.memory_bytes_max),
            Change::DeleteUser(user) => ledger.set_user_max(user, None),
            Change::SetVhostLimits { vhost, limits } => {
                if let Some(name) = vhost_name(*vhost) {
                    ledger.set_vhost_max(name, limits.memory_bytes_max);
                }
            }
            Change::DeleteVhost(vhost) => {
                if let Some(name) = vhost_name(*vhost) {
                    ledger.set_vhost_max(name, None);
                }
            }
            _ => {}
        }
    }

    /// Tells the ledger of all limits there are, at the end of a start.
    pub(super) fn tell_ledger_all(&self) {
        let ledger = &self.settings.ledger;
        for user in self.catalog.users() {
            ledger.set_user_max(&user.name, self.catalog.user_limits(&user.name).memory_bytes_max);
        }
        for vhost in self.catalog.vhosts() {
            ledger.set_vhost_max(&vhost.name, self.catalog.vhost_limits(vhost.id).memory_bytes_max);
        }
    }

    /// Does what a change of the catalog means for the queues here.
    pub(super) fn react(&mut self, now: Option<Now>, applied: Applied) {
        match applied {
            // Where others agree on the log, whoever leads it opens the queue; one that leads it later does so then.
            Applied::QueueCreated(definition) if self.is_shared && !self.logs.leads(definition.log) => {}
            Applied::QueueCreated(definition) => {
                if self.home_slot(definition.log).is_some() {
                    self.logs.claim(now, &definition);
                    if let Some(now) = now {
                        self.tallies.churn.queue_created += 1;
                        self.go_by(now, &definition);
                        self.feed(now, &definition);
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
                    self.feed(now, &definition);
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

    /// A queue is deleted: it goes, if it lives here, and connections here that want to know of it are told.
    fn forget_queue(&mut self, now: Option<Now>, definition: &QueueDefinition) {
        if let Some(slot) = self.home_slot(definition.log) {
            self.tallies.churn.queue_deleted += u64::from(now.is_some());
            let now = now.filter(|_| !self.logs.is_stopped(definition.log));
            let log = &mut self.logs.all[slot];
            log.delete_queue(now, definition, &self.settings.limits, &mut self.post);
        }
        for (port, watcher) in self.ports.watches.take(definition.id) {
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

    /// A queue of this shard goes by what the catalog says now, unless its log is stopped: that keeps what it holds, and takes
    /// no record of it.
    pub(super) fn go_by(&mut self, now: Now, definition: &QueueDefinition) {
        if !self.logs.is_stopped(definition.log)
            && let Some(slot) = self.home_slot(definition.log)
        {
            let rules = self.catalog.rules(definition);
            let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
            self.logs.all[slot].go_by(&mut turn, definition, rules);
        }
    }

    /// A queue is filled from its stream, if it has one, from now on. Where the log is stopped that would be recorded as the
    /// first thing in it, before what is on disk.
    pub(super) fn feed(&mut self, now: Now, definition: &QueueDefinition) {
        if definition.has_source()
            && !self.logs.is_stopped(definition.log)
            && let Some(slot) = self.home_slot(definition.log)
            && self.logs.all[slot].commons.pipeline.leads()
            && let Some(source) = self.catalog.source(definition)
        {
            let queue = self.catalog.queue(definition.id);
            let key_rule = queue.and_then(|queue| KeyRule::of(&self.catalog, queue));
            self.logs.all[slot].begin_feed(now, (definition.id, source, key_rule), &self.settings.limits);
        }
    }

    /// On the planning shard: changes that are committed take effect, waves of them are sent, and answered once all shards
    /// have them.
    pub(super) fn advance_waves(&mut self, now: Now) {
        if self.is_shared {
            return self.apply_catalog(now);
        }
        let committed = self.logs.get(CATALOG_LOG).map(|log| log.commons.pipeline.committed());
        let Some(committed) = committed else { return };
        while let Some(step) = self.planner.as_mut().and_then(|planner| planner.next_step(committed)) {
            match step {
                Step::Make(number, coming) => {
                    if coming.is_for_all() {
                        self.post.ahead.reach(number);
                    }
                    self.take_effect(now, &coming);
                }
                Step::Send(number, changes) => {
                    for shard in self.post.others() {
                        self.post
                            .send(shard, Mail::Changes { number, end: committed, changes: changes.clone() });
                    }
                }
            }
        }
        // While space is lacking a log would wait for it on its way, and with it those who settle messages of it.
        let planner = self.planner.as_mut().filter(|_| !self.logs.keeps());
        for (log, to) in planner.map(Planner::begin_moves).unwrap_or_default() {
            for shard in self.post.others() {
                self.post.send(shard, Mail::Leaves { log, to });
            }
            self.logs.leave(&mut self.post, log, to);
        }
        while let Some(answers) = self.planner.as_mut().and_then(Planner::take_finished) {
            answers.into_iter().for_each(|answer| self.answer(now, answer));
        }
    }

    /// A change takes effect on the planning shard.
    fn take_effect(&mut self, now: Now, coming: &Coming) {
        self.apply_change(Some(now), &coming.change);
        if let Change::Bind(binding) = &coming.change {
            let planner = self.planner.as_mut().expect("this shard plans");
            planner.recalls.add(&self.catalog, binding);
            self.recall(now);
        }
        for announcement in &coming.told {
            event_exchange::publish(&mut self.own(now), announcement);
        }
    }

    /// On the planning shard: which queues there are now, for a caller that knows which there were at version `known`.
    /// None: another shard plans.
    pub fn queues_now(&self, known: Option<u64>) -> Option<QueuesNow> {
        if !self.settings.plans() {
            return None;
        }
        let changes = known.and_then(|known| self.catalog.queues_since(known));
        Some(QueuesNow {
            version: self.catalog.queues_version(),
            is_settled: self.planner.as_ref().is_none_or(|planner| !planner.is_busy()),
            changes: changes.map(|changes| changes.cloned().collect()),
        })
    }

    /// On the planning shard: has the event exchange made in a virtual host, if it is nowhere yet.
    pub fn have_event_exchange(&mut self, now: Now, vhost: &str) {
        if let Some(planner) = &self.planner
            && let Some(change) = planner.catalog.missing_event_exchange(vhost)
        {
            self.make_change(now, change, Vec::new());
        }
    }
}
