//! A shard's turn: mail comes in, logs end what they began, batches, reads, events and mail go out.

use super::{CATALOG_LOG, Shard};
use crate::catalog::{Object, Reason, Refusal};
use crate::commit::CommitRule;
use crate::damages::Damaged;
use crate::dead_letterings;
use crate::event::{Event, Events};
use crate::event_exchange;
use crate::log::{Brought, Commons, Log, Over, visiting};
use crate::logs::check_move;
use crate::mail::{Charge, Heard, Mail, own_port};
use crate::moving::Moved;
use crate::notices::Notice;
use crate::placed::queue::commands::Done;
use crate::placed::stream::OffsetRules;
use crate::planner::Planner;
use crate::post::MayDelete;
use crate::reading::{ReadBytes, ReadRequest};
use crate::recovery::RecoveryError;
use crate::request::QueueCommand;
use crate::request::Reply;
use crate::turn::Turn;
use crate::word::{Item, LogWord, Said};
use base::Now;
use base::id::{LogId, LogIndex, NodeNo, PortId, QueueId, ShardId};
use journal::{Place, Sealed};
use message::record::{Origin, Stamp};
use std::collections::BTreeMap;
use stream_files::{StreamDone, StreamJob};

impl Shard {
    /// Takes in mail of another shard. Events in it are for the connections: they are appended to `events`.
    pub fn receive(&mut self, now: Now, mail: Mail) -> Option<Box<Events>> {
        let mail = self.post.ahead.keep(mail)?;
        let mail = match self.post.whereabouts.has_moves() {
            true => self.unless_early(mail)?,
            false => mail,
        };
        self.take_in(now, mail)
    }

    /// Takes in mail that rests on nothing of which this shard has not heard, and that waits for no log.
    fn take_in(&mut self, now: Now, mail: Mail) -> Option<Box<Events>> {
        match mail {
            Mail::Append { from, log, records, waiters, needs_flush } => {
                self.logs.take_in((now, &mut self.post), log, records.bytes(), &waiters, needs_flush);
                self.post.parcels.came_in(from, records);
            }
            Mail::Ask { from, log, record, waiter, needs_flush } => {
                self.post.parcels.came(from, record.len());
                self.logs.take_in_asking((now, &mut self.post), log, record, waiter, needs_flush);
            }
            Mail::Remember { from, exchanges, record } => {
                self.post.parcels.came(from, record.len());
                self.remember(now, &exchanges, record.bytes());
            }
            Mail::Announce(announcement) => event_exchange::publish(&mut self.own(now), &announcement),
            Mail::Replies { from, replies } => {
                self.post.parcels.came(from, replies.records.len());
                self.replies.deliver(replies, &self.settings.limits, &mut self.ports, &mut self.post);
            }
            Mail::ReplyAsked { port, token, address, missing } => {
                self.replies.ask(&mut self.post, (port, token), address, *missing);
            }
            mail @ (Mail::Came { .. } | Mail::Left { .. }) => self.count(mail),
            Mail::Taken { bytes, buffer } => {
                self.post.parcels.taken(bytes, buffer, self.settings.limits.spare_buffers_max);
            }
            Mail::Queue { log, queue, port, command } => self.at_queue(now, log, queue, port, command),
            Mail::Plan { actor, answer, op, led } => self.plan(now, actor, answer, *op, led),
            Mail::LookAgain { port, token } => self.look_again(now, port, token),
            Mail::Changes { number, end, changes } => {
                self.catalog_covered = end;
                self.post.ahead.reach(number);
                changes.iter().for_each(|change| self.apply_change(Some(now), change));
                self.post.send_to_planner(Mail::ChangesSeen { number });
                for mail in self.post.ahead.release() {
                    let events = self.receive(now, mail);
                    debug_assert!(events.is_none(), "events are not kept");
                }
            }
            Mail::Charges { charges } => charges.into_iter().for_each(|(port, it)| self.charge(port, it)),
            Mail::Reached { number } => self.post.ahead.await_wave(number),
            Mail::ChangesSeen { number } => {
                if self.is_shared {
                    self.wave_seen(now, number);
                } else if let Some(planner) = &mut self.planner {
                    planner.seen(number);
                }
            }
            Mail::Answered { first, last, fate } => {
                self.post.heard.push(Heard { first, last, fate });
            }
            Mail::Stopped { log } => self.logs.stop(&mut self.post, log),
            Mail::Loaded(loaded) => self.read_done(now, loaded.0, loaded.1),
            Mail::Streamed(done) => self.stream_done(now, *done),
            Mail::DeadLettered(dead_lettering) => dead_letterings::end(&mut self.own(now), *dead_lettering),
            Mail::Agreed { log, end } => self.commit_outside(now, log, end),
            Mail::Leaves { log, to } => self.logs.leave(&mut self.post, log, to),
            Mail::Penned { log } => self.logs.penned(log),
            Mail::Follow { log, at } => self.logs.follow(&mut self.post, log, at),
            Mail::Handed(handed) => self.logs.handed(handed),
            Mail::Followed { log } => self.logs.followed(log),
            Mail::Arrived { log, at } => self.arrived(log, at),
            Mail::Events(events) => return Some(events),
        }
        None
    }

    // ---- logs that are handed from shard to shard

    /// On the planning shard: has a log handed to shard `to` while it serves. The answer comes as an [`crate::Event::Reply`] with
    /// `token`, when it is there.
    ///
    /// # Panics
    /// Another shard plans.
    pub fn move_log(&mut self, port: PortId, token: u32, log: LogId, to: ShardId) {
        let Some(planner) = self.planner.as_mut().filter(|_| !self.is_shared) else {
            let text = format!("log {log} stays where it is, as other nodes have it too");
            let refusal = Refusal::precondition(Reason::InUse(Object::Log), text);
            return self.post.reply(port, token, Err(refusal));
        };
        let outcome = match check_move(&self.post, &self.logs, log, to) {
            Ok(false) if planner.add_move(log, to, (port, token)) => return,
            Ok(false) => Err(Refusal::precondition(
                Reason::InUse(Object::Log),
                format!("log {log} is handed to another shard already"),
            )),
            Ok(true) => Ok(Reply::Unchanged),
            Err(refusal) => Err(refusal),
        };
        self.post.reply(port, token, outcome);
    }

    /// Mail for a log that is not here yet waits for it, or behind what waits.
    #[cold]
    fn unless_early(&mut self, mail: Mail) -> Option<Mail> {
        let Shard { settings, logs, post, .. } = self;
        let is_early = |log| logs.slot(log).is_none() || post.whereabouts.is_behind(log, settings.id);
        match mail.log().filter(|log| is_early(*log)) {
            Some(log) => {
                post.send_to_log(log, mail);
                None
            }
            None => Some(mail),
        }
    }

    /// One log goes, and one that has come takes in what waited for it: the changes of the catalog, then what was penned.
    #[cold]
    #[inline(never)]
    fn move_logs(&mut self, now: Now) {
        self.logs.begin_move_steps();
        if self.logs.has_log_to_hand(&self.post) {
            self.logs.hand_over(&mut self.post);
        }
        let Some(log) = self.logs.take_home(&mut self.post) else { return };
        let most = self.settings.limits.taken_in_at_once_max;
        let mut owed = self.logs.take_owed();
        let count = owed.len().min(most);
        owed.drain(..count).for_each(|change| self.react(Some(now), change));
        self.logs.owe(owed);
        if let Some(slot) = self.logs.slot(log) {
            self.begin_leading(now, slot);
        }
        let (mail, waited) = match self.logs.owes(log) {
            true => Default::default(),
            false => self.post.unpen(log, most - count),
        };
        self.logs.count_move_steps(count + waited);
        // Mail from this shard's own connections, and mail that came before a wave was waited for, waits for none.
        for mail in mail {
            let events = self.take_in(now, mail);
            debug_assert!(events.is_none(), "events are for connections, and wait for no log");
        }
        if self.logs.owes(log) || self.post.has_penned(log) {
            return;
        }
        self.logs.end_taking_in();
        let at = self.settings.id;
        self.post.settle(log, at);
        match self.settings.plans() {
            true => self.arrived(log, at),
            false => self.post.send_to_planner(Mail::Arrived { log, at }),
        }
    }

    /// A log is to go, or to take in what waited for it.
    #[inline]
    fn has_log_to_move(&self) -> bool {
        self.post.whereabouts.has_moves()
            && (self.logs.has_log_to_hand(&self.post) || self.logs.has_log_to_take_home(&self.post))
    }

    /// On the planning shard: a log is where it was to go, or stays where it was.
    #[cold]
    fn arrived(&mut self, log: LogId, at: ShardId) {
        let answer = self.planner.as_mut().and_then(|planner| planner.end_move(log, at));
        if let Some((port, token)) = answer {
            self.post.reply(port, token, Ok(Reply::Done));
        }
    }

    /// A log is between two shards, or takes in here what waited for it, as far as this shard knows.
    pub fn has_moves(&self) -> bool {
        self.post.whereabouts.has_moves()
    }

    /// While the disk lacks space no log leaves this shard: it would wait for that, and nobody could do what makes room.
    /// Those that were about to leave stay.
    #[inline]
    pub fn keep_logs(&mut self, keep: bool) {
        if self.logs.keeps() != keep {
            self.logs.keep(&mut self.post, keep);
        }
    }

    // ---- the turn

    /// Ends the turn: what nobody waits for is applied, what somebody waits for is sealed. The batches in `out` are to
    /// be written, in order, in one group, and reported with [`Shard::written`].
    pub fn end_turn(&mut self, now: Now, out: &mut Vec<Sealed>) {
        if self.is_shared {
            self.tend_peers(now);
        }
        if self.ports.has_to_leave() {
            self.leave_further(now);
        }
        self.ports.end_turn();
        self.replies.end_turn(&self.settings.limits, &mut self.ports, &mut self.post);
        if self.has_dead() {
            let units = self.dead_lettering_work();
            self.dead_letterings.begin(units);
            self.publish_dead_letters(now);
        }
        self.take_up_remembered(now);
        self.begin_recalling(now);
        if self.has_log_to_move() {
            self.move_logs(now);
        }
        // The catalog's log comes first, in every group: a queue is on disk before anything in it.
        for slot in 0..self.logs.all.len() {
            let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
            self.logs.all[slot].end_turn(&mut turn, out);
            self.carry_parked(now, slot);
            if self.logs.all[slot].commons.peers.is_some() {
                self.visit(now, slot);
            }
            self.logs.list_reads(slot, &self.settings.limits);
            let Commons { agenda, is_stopped, .. } = &self.logs.all[slot].commons;
            if agenda.timers.first().is_some_and(|at| at <= now.mono_ns) && !is_stopped {
                self.ring(now, slot);
            }
        }
        self.remove_further(now);
        self.review(now);
        if let Some(planner) = &mut self.planner {
            planner.close_wave();
        }
        self.advance_waves(now);
        self.tell_taken();
        if self.logs.spares_at <= now.mono_ns {
            self.forget_spares(now);
        }
    }

    /// A log's part in visits between nodes, at the end of a turn.
    #[cold]
    #[inline(never)]
    fn visit(&mut self, now: Now, slot: usize) {
        if self.logs.all[slot].is_about_to_lead() {
            self.begin_leading(now, slot);
            self.carry_parked(now, slot);
        }
        let (limits, catalog) = (&self.settings.limits, self.catalog_covered);
        visiting::call(&mut self.logs.all[slot], now, catalog, (limits, &mut self.post));
        self.let_go(now, slot);
        let charges = self.logs.all[slot].commons.pipeline.outbox_mut().take_charges();
        let mut others: BTreeMap<ShardId, Vec<(PortId, Charge)>> = BTreeMap::new();
        for (port, charge) in charges {
            match port.shard == self.settings.id {
                true => self.charge(port, charge),
                false => others.entry(port.shard).or_default().push((port, charge)),
            }
        }
        others.into_iter().for_each(|(shard, charges)| self.post.send(shard, Mail::Charges { charges }));
    }

    /// Lets go of the buffers that nobody needed lately.
    #[cold]
    #[inline(never)]
    fn forget_spares(&mut self, now: Now) {
        self.logs.spares_at = now.after_ms(self.settings.limits.spare_ms_max);
        self.logs.forget_spares();
        self.post.parcels.forget_spares();
    }

    /// Rings the timers that are due in the queues of a log.
    #[cold]
    fn ring(&mut self, now: Now, slot: usize) {
        let mut ended = Vec::new();
        let log = &mut self.logs.all[slot];
        log.look(&mut Turn::new(now, &self.settings.limits, &mut self.post));
        log.ring(now, &mut ended, self.settings.limits.expired_at_once_max);
        for definition in ended {
            let port = own_port(self.settings.id);
            self.finish(now, port, Done::Delete { definition, token: None, messages: 0 });
        }
    }

    /// Something is to be published anew, or what was is answered.
    #[inline]
    pub(super) fn has_dead(&self) -> bool {
        !self.post.heard.is_empty() || !self.logs.refused.is_empty() || self.logs.has_dying()
    }

    /// Tells other shards that what they sent is taken in, unless too much waits for the disk here: then they hold
    /// their publishers as this shard holds its own.
    fn tell_taken(&mut self) {
        if self.logs.bytes_in_flight() <= self.settings.limits.log_bytes_in_flight_max {
            self.post.acknowledge();
        }
    }

    /// The batch with this base, given out by [`Shard::end_turn`], is on disk.
    pub fn written(&mut self, now: Now, log: LogId, base: LogIndex, place: Place) {
        if let Some(slot) = self.logs.slot(log) {
            let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
            self.logs.all[slot].written(&mut turn, base, place);
            self.begin_leading(now, slot);
            self.carry_parked(now, slot);
            self.logs.list_reads(slot, &self.settings.limits);
        } else {
            let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
            self.logs.written_between(&mut turn, log, base, place);
        }
        if log == CATALOG_LOG {
            self.advance_waves(now);
        }
        self.tell_taken();
    }

    /// Under [`crate::CommitRule::Quorum`]: somebody outside says that all records of `log` before `end` are agreed on. What of
    /// them is also on this node's disk is committed now. A log that went to another shard, or is on its way, hears of it there.
    pub fn commit_outside(&mut self, now: Now, log: LogId, end: LogIndex) {
        if let Some(slot) = self.logs.slot(log) {
            self.logs.all[slot].agreed(&mut Turn::new(now, &self.settings.limits, &mut self.post), end);
            self.begin_leading(now, slot);
            self.carry_parked(now, slot);
            self.logs.list_reads(slot, &self.settings.limits);
        } else if self.post.whereabouts.knows(log) {
            self.post.send_to_log(log, Mail::Agreed { log, end });
        }
        if log == CATALOG_LOG {
            self.advance_waves(now);
        }
    }

    // ---- roles of logs that others have to agree on

    /// This node proposes the records of a log from now on, and owns its queues once all it has gathered is committed.
    /// Nothing where it does so already, or where the log is not here: whoever says who leads waits until it is
    /// ([`Logs::applied`](crate::Logs::applied)).
    pub fn lead(&mut self, now: Now, log: LogId) {
        if let Some(slot) = self.logs.slot(log) {
            let led = &mut self.logs.all[slot];
            let mut unopened = Vec::new();
            // Where others are waited for, messages come before the queues are owned.
            if led.commons.pipeline.has_gathered() || led.commons.peers.is_some() {
                let queues = self.catalog.queues();
                let queues = queues.filter(|queue| queue.log == log && !led.machines.is_open(queue.id));
                unopened.extend(queues.map(|queue| (queue.clone(), self.catalog.rules(queue))));
            }
            led.lead(now, unopened, (&self.settings.limits, &mut self.post));
            self.begin_leading(now, slot);
        }
    }

    /// Another node leads a log from now on, or none: what is not agreed on is taken back. Records that come meanwhile are
    /// kept, and proposed with those when this node leads again; commands wait.
    ///
    /// # Panics
    /// Where nobody has to agree on the log.
    pub fn resign(&mut self, now: Now, log: LogId) {
        if let Some(slot) = self.logs.slot(log) {
            self.logs.all[slot].resign(&mut Turn::new(now, &self.settings.limits, &mut self.post));
        }
        if log == CATALOG_LOG && self.is_shared {
            self.end_planning();
        }
    }

    /// The next batch of a log that another node leads, or nobody, is agreed on, and is on this node's disk at `place`; it may be
    /// one that this node proposed before it resigned.
    ///
    /// # Panics
    /// When the batch is not the next one, or this node leads the log.
    pub fn apply_agreed(&mut self, now: Now, log: LogId, base: LogIndex, records: &[u8], place: Place) {
        let Shard { logs, settings, post, .. } = self;
        if let Some(log) = logs.get_mut(log) {
            log.apply_agreed(base, records, place, (&settings.limits, post));
        }
        if log == CATALOG_LOG {
            self.apply_catalog(now);
        }
    }

    /// Hears a word of another node about a log. What it brings is not taken while too much waits for the disk here, or while the
    /// catalog here is not so far as that it rests on: it comes again.
    pub fn hear(&mut self, now: Now, from: NodeNo, word: LogWord) {
        let is_too_early = match word.said {
            Said::Bring { catalog, .. } => {
                catalog > self.catalog_covered
                    || self.logs.bytes_led() > self.settings.limits.log_bytes_in_flight_max
            }
            _ => false,
        };
        let (id, life) = (word.log, word.life);
        let Some(slot) = self.logs.slot(id).filter(|_| !is_too_early) else { return };
        let brought = {
            let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
            visiting::hear(&mut self.logs.all[slot], &mut turn, from, word)
        };
        match brought {
            Brought::Item(Item::Command { queue, port, command }) => {
                self.at_queue(now, id, queue, port, *command);
                let until = self.logs.all[slot].commons.pipeline.next();
                visiting::took(&mut self.logs.all[slot], from, until);
            }
            Brought::Item(Item::Ask { number, memory, waiter, .. }) => {
                let stamp = Stamp { origin: Origin { node: from, incarnation: life }, number };
                let until = self.logs.admit_of((now, &mut self.post), id, &memory, waiter, stamp);
                visiting::took(&mut self.logs.all[slot], from, until);
            }
            Brought::Item(_) | Brought::Nothing => {}
        }
        for MayDelete { queue, port, token, messages } in std::mem::take(&mut self.post.may_delete) {
            let Some(definition) = self.catalog.queue(queue).cloned() else {
                self.post.reply(port, token, Ok(Reply::Deleted { messages: 0 }));
                continue;
            };
            self.finish(now, port, Done::Delete { definition, token: Some(token), messages });
        }
        self.let_go(now, slot);
    }

    /// Connections of other nodes that are gone leave the queues of a log that is led here, and consumers of this node that end with
    /// their queue or their leader are told.
    fn let_go(&mut self, now: Now, slot: usize) {
        let log = &mut self.logs.all[slot];
        let id = log.commons.id;
        let Some(peers) = &mut log.commons.peers else { return };
        for Over { queue, port, handle } in peers.take_over() {
            if let Some(queue) = self.catalog.queue(queue).cloned() {
                self.post.event(port, Event::Cancelled { consumer: handle, queue });
            }
        }
        let gone = peers.take_gone();
        for (port, queue) in gone {
            self.at_queue(now, id, queue, port, QueueCommand::Leave);
        }
    }

    /// Moves words about logs to other nodes into `into`.
    pub fn take_words(&mut self, into: &mut Vec<(NodeNo, LogWord)>) {
        into.append(&mut self.post.words);
    }

    /// The state of a log that another node leads becomes that of a snapshot of another replica, up to the index. `moved` has its
    /// messages that were in no segment there.
    ///
    /// # Errors
    /// It is no state of any log, or a message of it is nowhere; then all is as it was.
    ///
    /// # Panics
    /// While this node leads the log.
    pub fn replace_log(
        &mut self,
        now: Now,
        log: LogId,
        snapshot: (LogIndex, &[u8]),
        moved: &Moved,
    ) -> Result<(), RecoveryError> {
        let other = Log::new(log, CommitRule::Quorum, OffsetRules::of(&self.settings));
        let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
        self.logs.replace(&mut turn, other, snapshot, moved)
    }

    /// The queues of a log are owned here, if that is to begin and everything before is applied. Of a log that is leaving, they
    /// are owned where it comes to, where all changes of the catalog are known that concern them.
    fn begin_leading(&mut self, now: Now, slot: usize) {
        let id = self.logs.all[slot].commons.id;
        let is_home = self.home_slot(id).is_some();
        let waits = self.logs.all[slot].waits_for_claims(now);
        if !is_home || waits || !self.logs.all[slot].commons.pipeline.begins() {
            return;
        }
        if id == CATALOG_LOG && self.is_shared {
            return self.begin_planning(now);
        }
        let queues: Vec<_> = self.catalog.queues().filter(|queue| queue.log == id).cloned().collect();
        for queue in &queues {
            self.logs.claim(None, queue);
            if self.catalog.is_traced(queue.vhost) {
                self.logs.trace(queue, true);
            }
        }
        let log = &mut self.logs.all[slot];
        log.begin(&mut Turn::new(now, &self.settings.limits, &mut self.post));
        // Of a queue behind those a leader has opened it of which the catalog was further than the one here.
        let known_below = if self.is_shared { self.catalog.queues_known_below() } else { QueueId(u64::MAX) };
        log.agree_with_catalog(now, known_below);
        for queue in &queues {
            self.go_by(now, queue);
            self.feed(now, queue);
        }
        let log = &mut self.logs.all[slot];
        let is_fed = |id| queues.iter().any(|queue| queue.id == id && queue.has_source());
        log.forget_feeds(now, |id| id >= known_below || is_fed(id));
        if log.commons.peers.is_some() {
            visiting::take_up_claims(log, &mut Turn::new(now, &self.settings.limits, &mut self.post));
        }
    }

    /// Something is left to do at once, without anything more coming in.
    pub fn has_work(&self) -> bool {
        let has_parts = |planner: &Planner| planner.has_review() || planner.has_departure();
        self.has_pressing_work()
            || self.planner.as_ref().is_some_and(has_parts)
            || self.logs.has_work()
            || self.has_wishes_to_plan()
    }

    /// As [`Shard::has_work`], but for the work that readers of streams wait for: publishers come before them.
    pub fn has_pressing_work(&self) -> bool {
        self.logs.has_pressing_work()
            || self.has_log_to_move()
            || self.ports.has_to_leave()
            || self.post.has_events()
            || !self.post.heard.is_empty()
            || !self.post.to_remember.is_empty()
            || self.has_to_recall()
            || !self.logs.refused.is_empty()
            || (self.dead_letterings.has_room(&self.settings.limits) && self.logs.has_dying())
            || self.planner.as_ref().is_some_and(Planner::has_open_wave)
    }

    /// When to come back though nothing came in; monotonic nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        let has_spares = self.post.parcels.has_spares() || self.logs.has_spares();
        let logs = self.logs.deadline(&self.settings.limits);
        let peers = if self.is_shared { self.peers_deadline() } else { None };
        [logs, has_spares.then_some(self.logs.spares_at), peers].into_iter().flatten().min()
    }

    /// Too much is appended, here or for other shards, and not yet committed: connections that publish are not to be
    /// read for now.
    pub fn is_congested(&self) -> bool {
        let limits = &self.settings.limits;
        self.logs.bytes_in_flight() + self.post.parcels.under_way() > limits.log_bytes_in_flight_max
            || self.logs.has_much_unwritten(limits)
            || self.logs.refused.is_much(limits)
    }

    /// Takes the reads that deliveries wait for; each is to be answered with [`Shard::read_done`].
    pub fn take_reads(&mut self, into: &mut Vec<ReadRequest>) {
        self.logs.take_reads(into);
    }

    /// A read ended, with the bytes of each of its parts; `None`: the bytes there are not what was written, or cannot be read.
    ///
    /// # Panics
    /// When it brought more or fewer parts than were asked for.
    pub fn read_done(&mut self, now: Now, request: ReadRequest, brought: Vec<Option<ReadBytes>>) {
        if let Some(slot) = self.logs.slot(request.log) {
            let mut turn = Turn::new(now, &self.settings.limits, &mut self.post);
            self.logs.all[slot].read_done(&mut turn, request, brought);
            // Now, while it is there: what is read next, for whom ever, may drive it out.
            if self.logs.has_dying() {
                self.publish_dead_letters(now);
            }
            self.logs.list_reads(slot, &self.settings.limits);
        } else {
            self.post.send_to_log(request.log, Mail::Loaded(Box::new((request, brought))));
        }
    }

    /// Swaps this turn's events for the connections here into `into`, which is emptied first.
    pub fn take_events(&mut self, into: &mut Events) {
        self.post.take_events(into);
    }

    /// Moves the mail for another shard into `into`.
    pub fn take_mail(&mut self, to: ShardId, into: &mut Vec<Mail>) {
        self.post.take_mail(to, into);
    }

    // ---- files

    /// The messages that [`crate::Logs::begin_move`] listed are copied. Where some are damaged the log is stopped, here and in the other
    /// shards, as where the damage is found at start.
    pub fn finish_move(&mut self, moved: &Moved) {
        self.logs.finish_move(&mut self.post, moved);
    }

    /// Takes the jobs of streams for disks; each is to be answered with [`Shard::stream_done`].
    pub fn take_stream_jobs(&mut self, into: &mut Vec<StreamJob>) {
        self.logs.take_stream_jobs(into);
    }

    /// A job ended. Where its outcome is fatal ([`queue::stream::Done::is_fatal`]) the node must stop instead.
    pub fn stream_done(&mut self, now: Now, done: StreamDone) {
        match self.logs.slot(done.log) {
            Some(_) => {
                self.logs.stream_done(&mut Turn::new(now, &self.settings.limits, &mut self.post), done)
            }
            None => self.post.send_to_log(done.log, Mail::Streamed(Box::new(done))),
        }
    }

    // ---- reports to the operator

    /// Takes the damage found, in streams and where messages of queues lie, to be told to the operator.
    pub fn take_damages(&mut self, into: &mut Vec<Damaged>) {
        self.post.damages.take(into);
        self.logs.take_damages(into);
    }

    /// Takes the notices of things let go of by a rule, to be told to the operator.
    #[inline]
    pub fn take_notices(&mut self, now: Now, into: &mut Vec<Notice>) {
        let Shard { logs, post, tallies, .. } = self;
        logs.take_driven_out(|count, last| {
            tallies.offsets_driven_out += count;
            post.notices.note_driven_out(now, count, last);
        });
        post.notices.take(into);
    }
}
