//! Queues and exchanges that are to be held against policies, in slices.
//!
//! A change of policies begins a *lap* over the objects of its virtual host: exchanges, then queues, by number. One that
//! comes while a lap is under way lets it begin anew where it stands, so that each object is reached however often
//! policies change. An object that is added while much is to be matched stands in a line of its virtual host, and its
//! answer waits. Virtual hosts take turns, and so do lines and laps.
//!
//! Nothing here is kept over a restart: a start works out all policies.

use super::Answer;
use crate::catalog::{Actor, Catalog, Change, PolicyDefinition, Ruled, VhostId};
use crate::event_exchange::Announcement;
use crate::limits::Limits;
use base::id::{PortId, QueueId};
use routing::{Destination, ExchangeId};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Announcements of changes of policies that wait for the end of a lap; those of further changes do not wait.
const TOLD_MAX: usize = 1000;

/// Steps that an object costs for which other policies count, beside those of patterns: every shard hears of it, and its owner
/// makes something of it.
const CHANGED_STEPS: u64 = 2048;

/// The change of policies that objects are looked at for.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// A policy was set.
    Set(Arc<PolicyDefinition>),
    /// A policy was cleared.
    Cleared,
}

/// The user that changed policies, and whether an answer is waited for.
pub(crate) type By = (Actor, bool);

/// The objects of a virtual host that are to be looked at.
#[derive(Debug)]
struct Review {
    vhost: VhostId,
    cause: Cause,
    by: By,
    /// The next object is this one, or behind it.
    at: Place,
    /// The lap goes on at the first object when it has come to the last.
    wraps: bool,
    /// The lap ends before this object; none: with the last.
    end: Option<Place>,
    /// To be told at its end.
    told: Vec<Announcement>,
}

/// Exchanges come before queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Exchange(ExchangeId),
    Queue(QueueId),
}

impl Place {
    const FIRST: Place = Place::Exchange(ExchangeId(0));

    fn object(self) -> Destination {
        match self {
            Place::Exchange(id) => Destination::Exchange(id),
            Place::Queue(id) => Destination::Queue(id),
        }
    }

    fn next(self) -> Place {
        match self {
            Place::Exchange(id) => Place::Exchange(ExchangeId(id.0 + 1)),
            Place::Queue(id) => Place::Queue(QueueId(id.0 + 1)),
        }
    }
}

/// An object that was added without being looked at.
#[derive(Debug)]
struct New {
    object: Destination,
    /// The answer that waits for it.
    answer: Option<Answer>,
}

/// Objects of one virtual host that were looked at.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    pub(crate) vhost: VhostId,
    /// Those for which other policies count.
    pub(crate) changed: Vec<Ruled>,
    /// The change of policies that is the reason; none: the objects are new.
    pub(crate) governed: Option<(Cause, By)>,
    /// To be told when they go by their policies.
    pub(crate) told: Vec<Announcement>,
    pub(crate) answers: Vec<Answer>,
}

impl Slice {
    fn look_at(&mut self, object: Destination, catalog: &Catalog, steps: &mut u64) {
        let mut taken = 1;
        if let Some(ruled) = catalog.review(object, &mut taken) {
            self.changed.push(ruled);
            taken += CHANGED_STEPS;
        }
        *steps = steps.saturating_sub(taken);
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    queues: BTreeSet<(VhostId, QueueId)>,
    exchanges: BTreeSet<(VhostId, ExchangeId)>,
    /// Lines of virtual hosts: those that were served longest ago come first.
    lines: VecDeque<(VhostId, VecDeque<New>)>,
    laps: VecDeque<Review>,
    /// In this turn laps come before lines.
    is_for_laps: bool,
    /// Steps that objects may take which are added in this turn.
    steps_left: u64,
}

impl Reviews {
    /// Those of a catalog whose objects go by the policies that there are.
    pub(super) fn of(catalog: &Catalog) -> Reviews {
        let mut queues: Vec<_> = catalog.queues().map(|queue| (queue.vhost, queue.id)).collect();
        base::brief::sort(&mut queues);
        let each = catalog.vhosts().flat_map(|vhost| catalog.exchanges(vhost.id));
        let exchanges = each.map(|exchange| (exchange.vhost, exchange.id)).collect();
        Reviews { queues: queues.into_iter().collect(), exchanges, ..Reviews::default() }
    }

    // ---- what there is

    /// A change is about to be made in the planner's catalog. Returns announcements that wait for a lap which it ends.
    pub(super) fn note(&mut self, catalog: &Catalog, change: &Change) -> Vec<Announcement> {
        let mut told = Vec::new();
        match change {
            Change::AddQueue(queue) => _ = self.queues.insert((queue.vhost, queue.id)),
            Change::DeleteQueue { id, .. } => {
                if let Some(queue) = catalog.queue(*id) {
                    self.queues.remove(&(queue.vhost, *id));
                }
            }
            Change::AddExchange(exchange) => _ = self.exchanges.insert((exchange.vhost, exchange.id)),
            Change::DeleteExchange { id, .. } => {
                if let Some(entry) = catalog.exchange_by_id(*id) {
                    self.exchanges.remove(&(entry.definition.vhost, *id));
                }
            }
            Change::DeleteVhost(vhost) => {
                catalog.vhost_queues(*vhost).for_each(|queue| _ = self.queues.remove(&(*vhost, queue.id)));
                for exchange in catalog.exchanges(*vhost) {
                    self.exchanges.remove(&(*vhost, exchange.id));
                }
                self.laps.retain_mut(|review| {
                    let stays = review.vhost != *vhost;
                    if !stays {
                        told.append(&mut review.told);
                    }
                    stays
                });
            }
            _ => {}
        }
        told
    }

    fn next_of(&self, vhost: VhostId, from: Place) -> Option<Place> {
        if let Place::Exchange(from) = from {
            let next = self.exchanges.range((vhost, from)..).next().filter(|(of, _)| *of == vhost);
            if let Some((_, id)) = next {
                return Some(Place::Exchange(*id));
            }
        }
        let from = match from {
            Place::Queue(from) => from,
            Place::Exchange(_) => QueueId(0),
        };
        let range = (Bound::Included((vhost, from)), Bound::Unbounded);
        let next = self.queues.range(range).next().filter(|(of, _)| *of == vhost);
        next.map(|(_, id)| Place::Queue(*id))
    }

    // ---- what is to be done

    /// Policies of a virtual host are changed. Returns the announcements that do not wait for the lap.
    pub(crate) fn begin(
        &mut self,
        vhost: VhostId,
        cause: Cause,
        by: By,
        told: Vec<Announcement>,
    ) -> Vec<Announcement> {
        let Some(review) = self.laps.iter_mut().find(|review| review.vhost == vhost) else {
            let (at, wraps, end) = (Place::FIRST, false, None);
            self.laps.push_back(Review { vhost, cause, by, at, wraps, end, told });
            return Vec::new();
        };
        (review.wraps, review.end) = match review.at > Place::FIRST {
            true => (true, Some(review.at)),
            false => (false, None),
        };
        (review.cause, review.by) = (cause, by);
        if review.told.len() + told.len() > TOLD_MAX {
            return told;
        }
        review.told.extend(told);
        Vec::new()
    }

    /// Holds what changes are about to add against the policies there are, as far as this turn allows. Returns what is to
    /// be known before the changes are made, and the virtual host in whose line an answer has to wait ([`Reviews::hold`]).
    pub(super) fn add(&mut self, catalog: &Catalog, changes: &[Change]) -> (Option<Change>, Option<VhostId>) {
        let mut found = Vec::new();
        let (mut of, mut waits) = (None, None);
        for change in changes {
            let (vhost, object) = match change {
                Change::AddQueue(queue) => (queue.vhost, Destination::Queue(queue.id)),
                Change::AddExchange(exchange) => (exchange.vhost, Destination::Exchange(exchange.id)),
                _ => continue,
            };
            if !catalog.has_policies(vhost) {
                continue;
            }
            if self.steps_left == 0 {
                self.line_of(vhost).push_back(New { object, answer: None });
                waits = Some(vhost);
                continue;
            }
            let mut steps = 0;
            if let Some((vhost, ruled)) = catalog.review_new(change, &mut steps) {
                of = Some(vhost);
                found.push(ruled);
            }
            self.steps_left = self.steps_left.saturating_sub(steps);
        }
        let found = of.map(|vhost| Change::Govern { vhost, objects: found.into() });
        (found, waits)
    }

    fn line_of(&mut self, vhost: VhostId) -> &mut VecDeque<New> {
        let found = self.lines.iter().position(|(of, _)| *of == vhost);
        let at = found.unwrap_or_else(|| {
            self.lines.push_back((vhost, VecDeque::new()));
            self.lines.len() - 1
        });
        &mut self.lines[at].1
    }

    /// An answer waits for what was added last in a virtual host.
    pub(crate) fn hold(&mut self, vhost: VhostId, answer: Answer) {
        if let Some(new) = self.line_of(vhost).back_mut() {
            new.answer = Some(answer);
        }
    }

    /// All objects are looked at, of virtual hosts that have policies.
    pub(super) fn begin_all(&mut self, catalog: &Catalog) {
        for vhost in catalog.vhosts().filter(|vhost| catalog.has_policies(vhost.id)) {
            let by = Actor::internal(vhost.id, PortId::default());
            _ = self.begin(vhost.id, Cause::Cleared, (by, false), Vec::new());
        }
    }

    /// Objects that are added now are looked at at once.
    pub(crate) fn has_steps(&self) -> bool {
        self.steps_left > 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.laps.is_empty()
    }

    /// Steps of this turn, and as many for what is added in the next.
    pub(crate) fn begin_turn(&mut self, limits: &Limits) -> u64 {
        self.steps_left = limits.policy_steps_max;
        self.is_for_laps = !self.is_for_laps;
        limits.policy_steps_max
    }

    /// Looks at objects of one virtual host, as far as `steps` allow; at one in any case, unless there are none left.
    pub(super) fn next(&mut self, catalog: &Catalog, steps: &mut u64, limits: &Limits) -> Option<Slice> {
        if *steps == 0 {
            return None;
        }
        if (!self.is_for_laps || self.laps.is_empty())
            && let Some((vhost, line)) = self.lines.pop_front()
        {
            return Some(self.next_new(vhost, line, (catalog, steps), limits));
        }
        let mut review = self.laps.pop_front()?;
        let mut slice = Slice { vhost: review.vhost, ..Slice::default() };
        let mut is_over = false;
        while *steps > 0 && slice.changed.len() < limits.policy_objects_max {
            let Some(place) = self.next_in_lap(&mut review) else {
                is_over = true;
                break;
            };
            slice.look_at(place.object(), catalog, steps);
        }
        slice.governed = Some((review.cause.clone(), review.by.clone()));
        match is_over {
            true => slice.told = review.told,
            false => self.laps.push_back(review),
        }
        Some(slice)
    }

    fn next_in_lap(&self, review: &mut Review) -> Option<Place> {
        loop {
            let place = self.next_of(review.vhost, review.at);
            if review.wraps {
                if let Some(place) = place {
                    review.at = place.next();
                    return Some(place);
                }
                (review.at, review.wraps) = (Place::FIRST, false);
                continue;
            }
            let place = place.filter(|place| review.end.is_none_or(|end| *place < end))?;
            review.at = place.next();
            return Some(place);
        }
    }

    fn next_new(
        &mut self,
        vhost: VhostId,
        mut line: VecDeque<New>,
        (catalog, steps): (&Catalog, &mut u64),
        limits: &Limits,
    ) -> Slice {
        let mut slice = Slice { vhost, ..Slice::default() };
        while *steps > 0
            && slice.changed.len() < limits.policy_objects_max
            && let Some(new) = line.pop_front()
        {
            slice.look_at(new.object, catalog, steps);
            slice.answers.extend(new.answer);
        }
        if !line.is_empty() {
            self.lines.push_back((vhost, line));
        }
        slice
    }
}
