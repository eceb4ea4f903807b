//! Changing the catalog: planned on one shard, logged, applied everywhere once they are committed, then answered.
//!
//! The planner has a catalog of its own, which is ahead of the shards': it has the changes that are on their way. The
//! changes of a turn form a *wave*, those that are logged and those that are not in one order. Each takes effect on the
//! planner's shard when the catalog's log is committed up to it; the whole wave is then sent to every other shard, and
//! its answers go out when every shard has applied it. Waves finish in order. An answer that needs no change waits for
//! the waves before it: it may rest on what they changed.
//!
//! A change of policies is answered so too. Which of them count for each queue and exchange is worked out behind it, so
//! much in each turn ([`reviews`]); where that is little it is in the same wave.

mod alarm;
mod departures;
mod reviews;

pub(crate) use alarm::{is_client, low_on_memory};
pub(crate) use departures::{Departure, Departures};
pub(crate) use reviews::{By, Cause, Reviews, Slice};

use crate::catalog::{
    Actor, Applied, Catalog, Change, Op, Places, Plan, QueuesByLog, Reason, Refusal, VhostId,
};
use crate::event_exchange::Announcement;
use crate::limits::Limits;
use crate::recalls::Recalls;
use crate::request::Reply;
use crate::shard::ShardSettings;
use crate::whereabouts::Whereabouts;
use base::id::{LogId, LogIndex, PortId, QueueId, ShardId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Changes of a wave, after which the next begins: bounds the work of a shard that is sent one.
const CHANGES_MAX: usize = 1000;

/// Waves under way, beyond which nothing is begun that is done part by part.
const PARTS_WAVES_MAX: usize = 8;

/// An answer, and the connection's port and token it goes to.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) port: PortId,
    pub(crate) token: u32,
    pub(crate) content: Content,
}

/// The content of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Reply(Result<Reply, Refusal>),
    /// The queue is there: its owner answers how many messages and consumers it has.
    Counts {
        log: LogId,
        queue: QueueId,
    },
}

/// A change that is on its way.
#[derive(Debug)]
pub(crate) struct Coming {
    pub(crate) change: Change,
    /// The announcements of it, due when it takes effect.
    pub(crate) told: Vec<Announcement>,
    /// The catalog's log is to be committed up to here first.
    end: LogIndex,
}

impl Coming {
    /// Every shard has it. The planner's alone has the messages that exchanges remember.
    pub(crate) fn is_for_all(&self) -> bool {
        !matches!(self.change, Change::Remember { .. })
    }
}

#[derive(Debug)]
struct Wave {
    number: u64,
    /// Changes that have not taken effect yet.
    coming: VecDeque<Coming>,
    /// Those that have, to be sent when all have.
    made: Vec<Change>,
    is_sent: bool,
    /// Shards that have not applied it yet.
    unseen: u16,
    answers: Vec<Answer>,
}

/// A log that is to be handed to another shard.
#[derive(Debug)]
struct Move {
    log: LogId,
    to: ShardId,
    has_begun: bool,
    /// The port and the token of the answer.
    answer: (PortId, u32),
}

/// The next step of the waves under way, see [`Planner::next_step`].
#[derive(Debug)]
pub(crate) enum Step {
    /// This change, of the wave of this number, takes effect on the planner's shard now.
    Make(u64, Coming),
    /// The changes of the wave of this number go to all other shards.
    Send(u64, Arc<[Change]>),
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Planner {
    /// The shards' catalog with all changes that are on their way.
    pub(crate) catalog: Catalog,
    queues_by_log: QueuesByLog,
    others: u16,
    next_number: u64,
    coming: VecDeque<Coming>,
    answers: Vec<Answer>,
    /// Their numbers follow each other; those that are sent come first.
    waves: VecDeque<Wave>,
    /// Where the record of the last logged change ends.
    end: LogIndex,
    moves: Vec<Move>,
    /// Where nodes agree: changes that are on their way, and what is to be told of each when it takes effect.
    under_way: VecDeque<(LogIndex, Vec<Announcement>)>,
    /// The journal has room only for changes that give space back.
    is_short: bool,
    /// The memory alarm holds.
    is_low_on_memory: bool,
    pub(crate) reviews: Reviews,
    pub(crate) departures: Departures,
    pub(crate) recalls: Recalls,
}

impl Planner {
    /// `others`: shards besides this one.
    pub(crate) fn new(others: u16) -> Planner {
        Planner {
            catalog: Catalog::default(),
            queues_by_log: QueuesByLog::default(),
            others,
            next_number: 1,
            coming: VecDeque::new(),
            answers: Vec::new(),
            waves: VecDeque::new(),
            end: LogIndex(0),
            moves: Vec::new(),
            under_way: VecDeque::new(),
            is_short: false,
            is_low_on_memory: false,
            reviews: Reviews::default(),
            departures: Departures::default(),
            recalls: Recalls::default(),
        }
    }

    /// Plans from this catalog on: the one of the planner's shard, at the end of a start.
    pub(crate) fn begin(&mut self, catalog: Catalog) {
        self.catalog = catalog;
        self.queues_by_log = QueuesByLog::default();
        self.catalog.queues().for_each(|queue| self.queues_by_log.add(queue));
        self.reviews = Reviews::of(&self.catalog);
    }

    /// As [`Planner::begin`], where another node planned before: it may not have come to the end with what goes by other policies.
    pub(crate) fn begin_shared(&mut self, catalog: Catalog) {
        self.begin(catalog);
        self.reviews.begin_all(&self.catalog);
    }

    /// Works out what a request changes, for no more than `most` bindings and objects that go; alters nothing. No queue is
    /// placed on `stopped` logs.
    ///
    /// # Errors
    /// The refusal of the rule that is broken.
    pub(crate) fn plan(
        &self,
        actor: &Actor,
        op: &Op,
        settings: &ShardSettings,
        (whereabouts, stopped): (&Whereabouts, &[LogId]),
        most: usize,
    ) -> Result<Plan, Refusal> {
        // A queue lives where its connection does.
        let places = self.queues_by_log.next(actor.port.shard, whereabouts, stopped);
        self.plan_at(actor, op, settings, places, most)
    }

    /// As [`Planner::plan`], for a node of several that leads these logs: a new queue is placed on one of them, or where it leads
    /// none, on any that nodes agree on.
    pub(crate) fn plan_shared(
        &self,
        actor: &Actor,
        op: &Op,
        settings: &ShardSettings,
        led: &[LogId],
        most: usize,
    ) -> Result<Plan, Refusal> {
        let places = self.queues_by_log.next_of(led, settings.placement.logs);
        self.plan_at(actor, op, settings, places, most)
    }

    fn plan_at(
        &self,
        actor: &Actor,
        op: &Op,
        settings: &ShardSettings,
        places: Places,
        most: usize,
    ) -> Result<Plan, Refusal> {
        let plan = match settings.relaxes_types {
            true => self.catalog.plan_relaxed(actor, op, places, most),
            false => self.catalog.plan_part(actor, op, places, most),
        }?;
        settings.limits.check(&self.catalog, &plan.changes)?;
        self.check_room(&plan.changes)?;
        self.check_memory(actor, &plan.changes, &settings.limits)?;
        Ok(plan)
    }

    /// A change is on its way from now on. `logged`: where its record ends, if it is logged.
    pub(crate) fn add_change(&mut self, change: Change, told: Vec<Announcement>, logged: Option<LogIndex>) {
        self.end = logged.unwrap_or(self.end);
        let told = self.alter(&change, told);
        self.coming.push_back(Coming { change, told, end: self.end });
        if self.coming.len() == CHANGES_MAX {
            self.close_wave();
        }
    }

    /// Where nodes agree: a change is on its way, whose record ends at `end`.
    pub(crate) fn add_shared(&mut self, change: &Change, told: Vec<Announcement>, end: LogIndex) {
        self.end = end;
        let told = self.alter(change, told);
        self.under_way.push_back((end, told));
    }

    /// Where nodes agree: the change whose record ends at `end` takes effect. Returns what is to be told.
    pub(crate) fn take_told(&mut self, end: LogIndex) -> Vec<Announcement> {
        self.under_way.pop_front_if(|(of, _)| *of <= end).map(|(_, told)| told).unwrap_or_default()
    }

    /// The change is made in the planner's catalog. Returns all that is to be told with it.
    fn alter(&mut self, change: &Change, told: Vec<Announcement>) -> Vec<Announcement> {
        let mut before = self.reviews.note(&self.catalog, change);
        before.extend(told);
        // Its other consequences for queues are the shards' to see, once it takes effect.
        for applied in self.catalog.apply(change) {
            match applied {
                Applied::QueueCreated(queue) => self.queues_by_log.add(&queue),
                Applied::QueueDeleted(queue) => self.queues_by_log.remove(&queue),
                _ => {}
            }
        }
        before
    }

    pub(crate) fn add_answer(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    /// Ends the turn: its changes and answers are a wave.
    pub(crate) fn close_wave(&mut self) {
        // Answers alone wait for the last of the waves before them.
        if self.coming.is_empty()
            && let Some(last) = self.waves.back_mut()
        {
            return last.answers.append(&mut self.answers);
        }
        if self.has_open_wave() {
            let is_sent = self.coming.is_empty();
            self.waves.push_back(Wave {
                number: self.next_number,
                coming: std::mem::take(&mut self.coming),
                made: Vec::new(),
                is_sent,
                unseen: if is_sent { 0 } else { self.others },
                answers: std::mem::take(&mut self.answers),
            });
            self.next_number += 1;
        }
    }

    /// The next step, now that the catalog's log is committed up to `committed`.
    pub(crate) fn next_step(&mut self, committed: LogIndex) -> Option<Step> {
        loop {
            let first_unsent = self.waves.partition_point(|wave| wave.is_sent);
            let wave = self.waves.get_mut(first_unsent)?;
            if let Some(coming) = wave.coming.pop_front_if(|coming| coming.end <= committed) {
                if coming.is_for_all() {
                    wave.made.push(coming.change.clone());
                }
                return Some(Step::Make(wave.number, coming));
            }
            if !wave.coming.is_empty() {
                return None;
            }
            wave.is_sent = true;
            if !wave.made.is_empty() {
                return Some(Step::Send(wave.number, std::mem::take(&mut wave.made).into()));
            }
            wave.unseen = 0;
        }
    }

    /// One more shard has applied the wave of this number.
    pub(crate) fn seen(&mut self, number: u64) {
        let first = self.waves.front().expect("a wave stays until all have seen it").number;
        self.waves[(number - first) as usize].unseen -= 1;
    }

    /// The answers of a wave that is finished, if the first one is.
    pub(crate) fn take_finished(&mut self) -> Option<Vec<Answer>> {
        let wave = self.waves.pop_front_if(|wave| wave.is_sent && wave.unseen == 0)?;
        Some(wave.answers)
    }

    // ---- policies

    /// Holds the objects that the changes of a plan add against the policies there are. Returns the change that is to come first, and
    /// the virtual host in whose line the answer has to wait: [`Reviews::hold`].
    pub(crate) fn review_new(&mut self, changes: &[Change]) -> (Option<Change>, Option<VhostId>) {
        self.reviews.add(&self.catalog, changes)
    }

    /// Objects are to be held against policies in the next turn.
    pub(crate) fn has_review(&self) -> bool {
        !self.reviews.is_empty() && self.has_room_for_parts()
    }

    fn has_room_for_parts(&self) -> bool {
        self.waves.len() < PARTS_WAVES_MAX && self.under_way.len() < PARTS_WAVES_MAX * CHANGES_MAX
    }

    /// Part of a removal is to be planned in the next turn.
    pub(crate) fn has_departure(&self) -> bool {
        !self.departures.is_empty() && self.has_room_for_parts()
    }

    /// Objects of one virtual host that were held against its policies now, as far as `steps` allow.
    pub(crate) fn next_slice(&mut self, steps: &mut u64, limits: &Limits) -> Option<Slice> {
        self.has_review().then(|| self.reviews.next(&self.catalog, steps, limits))?
    }

    // ---- moves of logs

    /// A log is to be handed to shard `to`; `answer`: the port and the token of the answer. False: it is on its way already.
    pub(crate) fn add_move(&mut self, log: LogId, to: ShardId, answer: (PortId, u32)) -> bool {
        let is_first = self.moves.iter().all(|other| other.log != log);
        if is_first {
            self.moves.push(Move { log, to, has_begun: false, answer });
        }
        is_first
    }

    /// The logs whose moves begin now, and where they go. Every shard has to see that at the same point among the changes of the
    /// catalog: they begin between two waves.
    pub(crate) fn begin_moves(&mut self) -> Vec<(LogId, ShardId)> {
        if self.moves.is_empty() || self.waves.iter().any(|wave| !wave.made.is_empty()) {
            return Vec::new();
        }
        let waiting = self.moves.iter_mut().filter(|of| !of.has_begun);
        waiting
            .map(|of| {
                of.has_begun = true;
                (of.log, of.to)
            })
            .collect()
    }

    /// A log is at shard `at`: the port and the token of the answer, where it was to go there. Where it was not, its move is to
    /// begin anew.
    pub(crate) fn end_move(&mut self, log: LogId, at: ShardId) -> Option<(PortId, u32)> {
        let place = self.moves.iter().position(|of| of.log == log)?;
        if self.moves[place].to != at {
            self.moves[place].has_begun = false;
            return None;
        }
        Some(self.moves.swap_remove(place).answer)
    }

    /// Something was asked for since the last turn ended: the next one is to come at once.
    pub(crate) fn has_open_wave(&self) -> bool {
        !self.coming.is_empty() || !self.answers.is_empty()
    }

    /// Whether the journal has room only for changes that give space back.
    pub(crate) fn set_short(&mut self, is_short: bool) {
        self.is_short = is_short;
    }

    /// Refuses changes that make something new and lasting while there is no room for them: a change that found no
    /// space would be under way until there is some, and its answer as long.
    fn check_room(&self, changes: &[Change]) -> Result<(), Refusal> {
        if self.is_short && changes.iter().any(Change::is_coming) {
            return Err(Refusal::precondition(
                Reason::NoSpace,
                "no disk space is left for what is newly declared",
            ));
        }
        Ok(())
    }

    /// A change has not taken effect everywhere, or its answer is still to come.
    pub(crate) fn is_busy(&self) -> bool {
        let is_on_its_way = !self.waves.is_empty() || !self.under_way.is_empty() || self.has_open_wave();
        is_on_its_way || !self.departures.is_empty()
    }
}
