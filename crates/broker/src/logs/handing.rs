//! A log is handed from one shard to another while it serves.
//!
//! A log moves as it is: nothing in it knows its shard. The shards agree on when, so that nothing is lost, doubled or
//! overtaken:
//!
//! ```text
//!   planner      "leaves": log L goes from S to N ...... to all, between two waves of changes of the catalog
//!   every shard  pens what is for L from now on; "penned" to S, behind all that it sent there before
//!   S            has all of those, and nothing of L is at the disk: the log goes to N, and "follow" to the others,
//!                behind all events of L
//!   the others   "followed" to N, and what was penned behind it
//!   N            has the log and all of those: the log is at home. Changes of the catalog since the beginning are made
//!                up for, what was penned goes into it; "arrived" to the planner
//! ```
//!
//! While the disk lacks space S keeps the log, which would wait there for that: all others, N too, follow to S, which
//! takes in what waited as N would have. The planner hears where it is, and begins anew when there is space.
//!
//! A round of a turn has one log go and one come, whatever waits: each counts the numbers of the shard's logs again. Of the
//! changes and of what was penned it takes [`Limits::taken_in_at_once_max`](crate::Limits), and as much as has come for the
//! log since the round before, which it would have taken anyhow; what still waits, and what comes, stays penned until then.
//!
//! Changes of the catalog before the beginning are S's to make, those behind it N's: every shard sees the beginning at the same
//! point among them. Answers of the disk that come to S later follow the log ([`Post::send_to_log`]).
//! Invariants: a log is in one place: among the logs of a shard, between two places with S or N, or in the mail from S to
//! N. From the last "penned" on S gives out no batch of it, so it waits only for flushes that have begun or are due.
//! Not here: the table that says where logs are ([`crate::whereabouts`]), pens ([`Post`]), the order of moves
//! ([`crate::planner`]).

use super::Logs;
use crate::catalog::{Applied, Object, Reason, Refusal, ReplyCode};
use crate::log::Log;
use crate::mail::{Handed, Mail};
use crate::post::Post;
use crate::shard::CATALOG_LOG;
use crate::turn::Turn;
use base::id::{LogId, LogIndex, ShardId};
use journal::Place;
use std::collections::VecDeque;

/// A log leaves this shard.
#[derive(Debug)]
struct Departure {
    id: LogId,
    /// Where it goes; none: this shard has not heard of it yet.
    to: Option<ShardId>,
    /// Other shards that have sent all they had for it.
    penned: usize,
    /// The log, once all have: it waits for the disk.
    log: Option<Box<Log>>,
    /// Changes of the catalog, since it was said to leave, that its queues have to hear of if it stays.
    changes: VecDeque<Applied>,
}

/// A log comes to this shard.
#[derive(Debug)]
struct Arrival {
    id: LogId,
    log: Coming,
    /// Shards that have heard all events of it that its last shard sent them.
    followed: usize,
    /// Changes of the catalog, since it was said to come, that its queues have to hear of.
    changes: VecDeque<Applied>,
}

/// Where a log is that comes to this shard.
#[derive(Debug)]
enum Coming {
    /// With the shard that it leaves, or in the mail.
    Awaited,
    /// Here, between two places.
    Come(Box<Log>),
    /// Among the logs here, which it was to leave and does not.
    Stayed,
}

/// A log is among those of this shard, and takes in what waited for it.
#[derive(Debug)]
struct TakingIn {
    id: LogId,
    /// Changes of the catalog that its queues have not heard of yet.
    owed: VecDeque<Applied>,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Handing {
    departures: Vec<Departure>,
    arrivals: Vec<Arrival>,
    taking_in: Option<TakingIn>,
    /// See [`Logs::move_steps`].
    steps: usize,
    /// The disk lacks space: no log leaves.
    keeps: bool,
}

impl Handing {
    fn departure(&mut self, id: LogId) -> &mut Departure {
        let found = self.departures.iter().position(|departure| departure.id == id);
        let at = found.unwrap_or_else(|| {
            let changes = VecDeque::new();
            self.departures.push(Departure { id, to: None, penned: 0, log: None, changes });
            self.departures.len() - 1
        });
        &mut self.departures[at]
    }

    fn arrival(&mut self, id: LogId) -> &mut Arrival {
        let found = self.arrivals.iter_mut().find(|arrival| arrival.id == id);
        found.expect("a log is handed over, and followed, once every shard has heard of it")
    }

    /// The first log, if any, with which something is to be done: all others have sent what they had for it, and nothing of
    /// it is at the disk, as far as is known; or it stays.
    fn due(&self, others: usize) -> Option<usize> {
        let is_still = |log: &Log| !log.commons.pipeline.is_at_disk();
        self.departures.iter().position(|Departure { to, penned, log, .. }| {
            to.is_some() && *penned == others && (self.keeps || log.as_deref().is_none_or(is_still))
        })
    }

    /// Logs that are here between two places.
    pub(super) fn logs(&self) -> impl Iterator<Item = &Log> {
        let leaving = self.departures.iter().filter_map(|departure| departure.log.as_deref());
        leaving.chain(self.arrivals.iter().filter_map(|arrival| match &arrival.log {
            Coming::Come(log) => Some(&**log),
            Coming::Awaited | Coming::Stayed => None,
        }))
    }
}

impl Arrival {
    /// It has come, and all but this shard and the one that it comes from follow it; or it has not left, and all others know.
    fn is_there(&self, others: usize) -> bool {
        match self.log {
            Coming::Awaited => false,
            Coming::Come(_) => self.followed + 1 == others,
            Coming::Stayed => self.followed == others,
        }
    }
}

/// Whether queues of a log have to hear of a change.
fn minds(log: LogId, change: &Applied) -> bool {
    match change {
        Applied::QueueCreated(queue) | Applied::QueueDeleted(queue) | Applied::RulesChanged(queue) => {
            queue.log == log
        }
        Applied::Traced(_) => true,
        Applied::VhostDeleted(_) | Applied::UserDeleted(_) => false,
    }
}

/// Whether a log may go to a shard; true: it is there.
///
/// # Errors
/// The log or the shard is not there, or the log stays where it is.
pub(crate) fn check(post: &Post, logs: &Logs, log: LogId, to: ShardId) -> Result<bool, Refusal> {
    let whereabouts = &post.whereabouts;
    let refuse = |code, reason, text: String| Err(Refusal::new(code, reason, text));
    if !whereabouts.knows(log) {
        return refuse(ReplyCode::NotFound, Reason::NotFound(Object::Log), format!("no log {log}"));
    }
    if !post.has(to) {
        return refuse(ReplyCode::NotFound, Reason::NotFound(Object::Shard), format!("no shard {to}"));
    }
    let stays = |why: &str| {
        let text = format!("log {log} stays where it is: {why}");
        refuse(ReplyCode::PreconditionFailed, Reason::Unsuited(Object::Log), text)
    };
    if log == CATALOG_LOG {
        return stays("it is the catalog's");
    }
    if whereabouts.is_in_memory(log) {
        return stays("it is in memory");
    }
    if logs.is_stopped(log) {
        let text = format!("log {log} is damaged on disk, and stopped; see the node's log");
        return refuse(ReplyCode::InternalError, Reason::Damaged, text);
    }
    Ok(whereabouts.home(log) == Some(to))
}

impl Logs {
    /// A log goes to shard `to`: every shard hears it at the same point among the changes of the catalog. From now on what is for
    /// it is penned here.
    #[cold]
    pub(crate) fn leave(&mut self, post: &mut Post, log: LogId, to: ShardId) {
        let from = post.whereabouts.leave(log, to);
        if to == post.me() {
            let changes = VecDeque::new();
            self.handing.arrivals.push(Arrival { id: log, log: Coming::Awaited, followed: 0, changes });
        }
        match from == post.me() {
            true => self.handing.departure(log).to = Some(to),
            false => post.send(from, Mail::Penned { log }),
        }
    }

    /// Another shard has sent all it had for a log that leaves this one.
    #[cold]
    pub(crate) fn penned(&mut self, log: LogId) {
        self.handing.departure(log).penned += 1;
    }

    /// A log can be handed over, or stays.
    #[inline]
    pub(crate) fn has_log_to_hand(&self, post: &Post) -> bool {
        !self.handing.departures.is_empty() && self.handing.due(post.others().count()).is_some()
    }

    /// Hands over the first log for which all others have sent what they had: at once, or when what is at the disk is written.
    /// While the disk lacks space the log stays.
    #[cold]
    pub(crate) fn hand_over(&mut self, post: &mut Post) {
        let Some(at) = self.handing.due(post.others().count()) else { return };
        if self.handing.keeps {
            return self.stay(post, at);
        }
        let Departure { id, log, .. } = &mut self.handing.departures[at];
        let log = match (log.take(), *id) {
            (Some(log), _) => log,
            (None, id) => {
                post.whereabouts.changed();
                Box::new(self.take_out(id))
            }
        };
        if log.commons.pipeline.is_at_disk() {
            self.handing.departures[at].log = Some(log);
            return;
        }
        let Departure { id, to, .. } = self.handing.departures.swap_remove(at);
        post.hand(id, to.expect("it is due"), Handed::seal(log));
    }

    /// A log that was about to leave does not: it comes to this shard, where it is, once all others have followed.
    fn stay(&mut self, post: &mut Post, departure: usize) {
        let Departure { id, log, changes, .. } = self.handing.departures.swap_remove(departure);
        assert!(log.is_none(), "what waited for the disk was put in when the space ended");
        self.handing.arrivals.push(Arrival { id, log: Coming::Stayed, followed: 0, changes });
        post.stay(id);
    }

    /// A batch is on disk of a log that is about to be handed over.
    #[cold]
    pub(crate) fn written_between(&mut self, turn: &mut Turn<'_>, log: LogId, base: LogIndex, place: Place) {
        let departures = &mut self.handing.departures;
        if let Some(departure) = departures.iter_mut().find(|departure| departure.id == log)
            && let Some(log) = &mut departure.log
        {
            log.written(turn, base, place);
        }
    }

    /// No log leaves.
    #[inline]
    pub(crate) fn keeps(&self) -> bool {
        self.handing.keeps
    }

    /// No log leaves from now on, or logs may leave again. Those that were about to go on here.
    #[cold]
    pub(crate) fn keep(&mut self, post: &mut Post, keep: bool) {
        self.handing.keeps = keep;
        if keep {
            let departures = self.handing.departures.iter_mut();
            let logs: Vec<_> = departures.filter_map(|departure| departure.log.take()).collect();
            self.begin_move_steps();
            logs.into_iter().for_each(|log| self.insert(*log));
            self.count_slots();
            post.whereabouts.changed();
        }
    }

    /// A log is here between two places.
    pub(crate) fn is_between(&self, log: LogId) -> bool {
        self.handing.logs().any(|between| between.commons.id == log)
    }

    /// Logs that are handed over, and wait for the disk.
    pub fn leaving(&self) -> impl Iterator<Item = LogId> {
        let departures = self.handing.departures.iter();
        departures.filter_map(|departure| Some(departure.log.as_ref()?.commons.id))
    }

    // ---- where it comes

    /// A log has come.
    #[cold]
    pub(crate) fn handed(&mut self, handed: Handed) {
        let log: Box<Log> = handed.open();
        let arrival = self.handing.arrival(log.commons.id);
        arrival.log = Coming::Come(log);
    }

    /// A log is with the shard `at` from now on. Where it was to come here, it stayed there.
    #[cold]
    pub(crate) fn follow(&mut self, post: &mut Post, log: LogId, at: ShardId) {
        self.handing.arrivals.retain(|arrival| arrival.id != log);
        post.send(at, Mail::Followed { log });
        post.settle(log, at);
    }

    /// A shard sends what it has for a log here from now on.
    #[cold]
    pub(crate) fn followed(&mut self, log: LogId) {
        self.handing.arrival(log).followed += 1;
    }

    /// The catalog changed: logs that come here, or stay after all, make up for it when they are there, and behind what they
    /// make up for already.
    #[cold]
    pub(crate) fn note_change(&mut self, change: &Applied) {
        let Handing { departures, arrivals, taking_in, .. } = &mut self.handing;
        let leaving = departures.iter_mut().filter(|departure| departure.to.is_some());
        let leaving = leaving.map(|departure| (departure.id, &mut departure.changes));
        let coming = arrivals.iter_mut().map(|arrival| (arrival.id, &mut arrival.changes));
        for (id, changes) in leaving.chain(coming) {
            if minds(id, change) {
                changes.push_back(change.clone());
            }
        }
        if let Some(TakingIn { id, owed }) = taking_in
            && !owed.is_empty()
            && minds(*id, change)
        {
            owed.push_back(change.clone());
        }
    }

    /// A log takes in what waited for it, or can begin to.
    pub(crate) fn has_log_to_take_home(&self, post: &Post) -> bool {
        let Handing { arrivals, taking_in, .. } = &self.handing;
        taking_in.is_some() || arrivals.iter().any(|arrival| arrival.is_there(post.others().count()))
    }

    /// The log that takes in here what waited for it. If none does, the first begins to that has come and that all shards
    /// follow: it is among the logs here from now on.
    #[cold]
    pub(crate) fn take_home(&mut self, post: &mut Post) -> Option<LogId> {
        if let Some(TakingIn { id, .. }) = &self.handing.taking_in {
            return Some(*id);
        }
        let (me, others) = (post.me(), post.others().count());
        let at = self.handing.arrivals.iter().position(|arrival| arrival.is_there(others))?;
        let Arrival { id, log, changes, .. } = self.handing.arrivals.swap_remove(at);
        post.whereabouts.take_in(id, me);
        if let Coming::Come(log) = log {
            self.put_in(*log);
        }
        self.handing.taking_in = Some(TakingIn { id, owed: changes });
        Some(id)
    }

    /// Its queues have not heard of all changes of the catalog yet that it makes up for.
    pub(crate) fn owes(&self, log: LogId) -> bool {
        self.handing.taking_in.as_ref().is_some_and(|of| of.id == log && !of.owed.is_empty())
    }

    /// The changes that the log which takes in what waited has to make up for; [`Logs::owe`] brings back the rest.
    pub(crate) fn take_owed(&mut self) -> VecDeque<Applied> {
        self.handing.taking_in.as_mut().map(|of| std::mem::take(&mut of.owed)).unwrap_or_default()
    }

    /// The rest of what [`Logs::take_owed`] gave.
    pub(crate) fn owe(&mut self, owed: VecDeque<Applied>) {
        if let Some(of) = &mut self.handing.taking_in {
            of.owed = owed;
        }
    }

    /// The log has taken in all that waited for it.
    pub(crate) fn end_taking_in(&mut self) {
        self.handing.taking_in = None;
    }

    // ---- the work of moves

    /// The work that moves made in the last round in which there were some: numbers of logs counted again, changes made up
    /// for, and pieces of mail taken in beyond those that had come since the round before.
    pub fn move_steps(&self) -> usize {
        self.handing.steps
    }

    /// A round begins.
    pub(crate) fn begin_move_steps(&mut self) {
        self.handing.steps = 0;
    }

    /// So much work was done for a move.
    pub(crate) fn count_move_steps(&mut self, steps: usize) {
        self.handing.steps += steps;
    }

    /// The turns of this shard are over: logs that are here between two places are its own.
    pub fn end_handing(&mut self) {
        let Handing { departures, arrivals, .. } = std::mem::take(&mut self.handing);
        let leaving = departures.into_iter().filter_map(|departure| departure.log);
        let coming = arrivals.into_iter().filter_map(|arrival| match arrival.log {
            Coming::Come(log) => Some(log),
            Coming::Awaited | Coming::Stayed => None,
        });
        leaving.chain(coming).for_each(|log| self.put_in(*log));
    }

    /// The turns of all shards are over, and this is mail that came here afterwards: a log in it is here.
    pub fn take_left(&mut self, mail: Vec<Mail>) {
        for mail in mail {
            if let Mail::Handed(handed) = mail {
                self.put_in(*handed.open());
            }
        }
    }

    fn take_out(&mut self, log: LogId) -> Log {
        let slot = self.slot(log).expect("a log leaves the shard that has it");
        let mut log = self.all.remove(slot);
        // Told here and now: a reader may have passed over it already.
        super::take_damages(&mut log, &mut self.left_damages);
        self.count_slots();
        log
    }

    fn put_in(&mut self, log: Log) {
        self.insert(log);
        self.count_slots();
    }

    /// The log is among those of this shard, whose numbers are to be counted again.
    fn insert(&mut self, mut log: Log) {
        // It may have been stopped while it was on its way.
        log.commons.is_stopped |= self.is_stopped(log.commons.id);
        if log.streams.feeds_wait() != self.holds_feeds {
            log.streams.hold_feeds(&mut log.machines, self.holds_feeds);
        }
        self.has_streams |= log.streams.get().is_some();
        let slot = self.all.partition_point(|other| other.commons.id < log.commons.id);
        self.all.insert(slot, log);
    }

    fn count_slots(&mut self) {
        self.slots = self.all.iter().zip(0..).map(|(log, slot)| (log.commons.id, slot)).collect();
        self.count_move_steps(self.all.len());
    }
}
