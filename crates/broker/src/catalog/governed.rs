//! The policies that count for each queue and exchange, kept with it.
//!
//! Matching is dear: patterns are the users'. So it is done once for each object and change of policies, on the
//! planner's catalog, in slices ([`crate::planner`]); every catalog is told the outcome by a [`Change::Govern`], in the
//! order of all changes, and until then an object goes by the policies that it had. An object that is about to be added
//! is told of before it is there, so that it never goes without. Nothing of it is logged: a start works it out once for
//! all shards ([`Catalog::policies_in_force`]).
//!
//! Invariant: a policy that counts for an object is one of its virtual host, or one that was, until the object is
//! looked at again.

use super::effective::{alternate, rules};
use super::policy::{Matched, Policies, PolicyDefinition, PolicyKind};
use super::ruled::Ruled;
use super::{Applied, Catalog, Change, Destination, ExchangeDefinition, QueueDefinition, VhostId};
use std::sync::Arc;

/// Steps that an object costs which is looked at, beside those of the patterns that it is held against.
const OBJECT_STEPS: u64 = 256;

/// The policies that count for an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Governed {
    user: Option<Arc<PolicyDefinition>>,
    operator: Option<Arc<PolicyDefinition>>,
}

impl Governed {
    pub(super) fn matched(&self) -> Matched<'_> {
        Matched { user: self.user.as_ref(), operator: self.operator.as_ref() }
    }
}

/// An object that policies are held against.
#[derive(Clone, Copy)]
pub(super) enum Governee<'a> {
    Queue(&'a QueueDefinition),
    Exchange(&'a ExchangeDefinition),
}

impl Governee<'_> {
    fn is_for(self, policy: &PolicyDefinition) -> bool {
        match self {
            Governee::Queue(queue) => policy.is_for_queue(queue),
            Governee::Exchange(exchange) => policy.is_for_exchange(exchange),
        }
    }

    fn name(&self) -> &str {
        match self {
            Governee::Queue(queue) => &queue.name,
            Governee::Exchange(exchange) => &exchange.name,
        }
    }
}

impl Policies {
    /// The policies that count for an object. The steps it took are added to `steps`.
    fn find(&self, object: Destination, governee: Governee<'_>, steps: &mut u64) -> Ruled {
        let name = governee.name();
        *steps += OBJECT_STEPS;
        let mut first = |kind| {
            let place = self.of(kind).iter().position(|policy| {
                *steps += policy.pattern.steps(name);
                governee.is_for(policy)
            })?;
            u16::try_from(place).ok()
        };
        Ruled { object, user: first(PolicyKind::User), operator: first(PolicyKind::Operator) }
    }

    fn at(&self, ruled: &Ruled) -> Governed {
        let at = |kind, place: Option<u16>| self.of(kind).get(usize::from(place?)).cloned();
        Governed {
            user: at(PolicyKind::User, ruled.user),
            operator: at(PolicyKind::Operator, ruled.operator),
        }
    }
}

impl Catalog {
    /// The policies that count for a queue.
    pub fn queue_policies(&self, queue: &QueueDefinition) -> Matched<'_> {
        self.governed(Destination::Queue(queue.id)).map(Governed::matched).unwrap_or_default()
    }

    /// The policies that count for an exchange; for the default one they have no effect.
    pub fn exchange_policies(&self, exchange: &ExchangeDefinition) -> Matched<'_> {
        self.governed(Destination::Exchange(exchange.id)).map(Governed::matched).unwrap_or_default()
    }

    fn governed(&self, object: Destination) -> Option<&Governed> {
        let known = match object {
            Destination::Queue(id) => self.queues.get(&id).map(|entry| &entry.governed),
            Destination::Exchange(id) => self.exchanges.get(&id).map(|entry| &entry.governed),
        };
        known.or_else(|| self.governed_ahead.get(&object))
    }

    /// Has objects go by other policies. Tells of the queues, in the order given, that go by other rules afterwards.
    pub(super) fn govern(&mut self, vhost: VhostId, all: &[Ruled]) -> Vec<Applied> {
        let Some(host) = self.vhosts.get(&vhost) else { return Vec::new() };
        let mut applied = Vec::new();
        let mut has_other_routes = false;
        for ruled in all {
            let governed = host.policies.at(ruled);
            let (queue, exchange) = match ruled.object {
                Destination::Queue(id) => (self.queues.get_mut(&id), None),
                Destination::Exchange(id) => (None, self.exchanges.get_mut(&id)),
            };
            if let Some(entry) = queue {
                let before = std::mem::replace(&mut entry.governed, governed);
                let (was, is) = (before.matched(), entry.governed.matched());
                let queue = &entry.definition;
                if !was.is_same(&is) && rules(queue, was) != rules(queue, is) {
                    applied.push(Applied::RulesChanged(queue.clone()));
                    has_other_routes = true;
                }
            } else if let Some(entry) = exchange {
                let alternate = alternate(&entry.definition, governed.matched());
                has_other_routes |= alternate != entry.alternate;
                (entry.alternate, entry.governed) = (alternate, governed);
            } else {
                self.governed_ahead.insert(ruled.object, governed);
            }
        }
        self.version += u64::from(has_other_routes);
        applied
    }

    /// The policies of an object that is added now.
    pub(super) fn take_governed(&mut self, object: Destination) -> Governed {
        match self.governed_ahead.is_empty() {
            true => Governed::default(),
            false => self.governed_ahead.remove(&object).unwrap_or_default(),
        }
    }

    /// Holds an object against the policies there are; none: it is not there, or goes by them already. The steps it took
    /// are added to `steps`.
    pub(crate) fn review(&self, object: Destination, steps: &mut u64) -> Option<Ruled> {
        let (vhost, governee, governed) = match object {
            Destination::Queue(id) => {
                let entry = self.queues.get(&id)?;
                (entry.definition.vhost, Governee::Queue(&entry.definition), &entry.governed)
            }
            Destination::Exchange(id) => {
                let entry = self.exchanges.get(&id)?;
                (entry.definition.vhost, Governee::Exchange(&entry.definition), &entry.governed)
            }
        };
        let policies = &self.host(vhost)?.policies;
        let ruled = policies.find(object, governee, steps);
        let is_known = policies.at(&ruled).matched().is_same(&governed.matched());
        (!is_known).then_some(ruled)
    }

    /// Holds an object against policies that a change is about to add; none: it adds none, or there are no policies. The
    /// steps it took are added to `steps`.
    pub(crate) fn review_new(&self, change: &Change, steps: &mut u64) -> Option<(VhostId, Ruled)> {
        let (vhost, object, governee) = match change {
            Change::AddQueue(queue) => (queue.vhost, Destination::Queue(queue.id), Governee::Queue(queue)),
            Change::AddExchange(exchange) => {
                let object = Destination::Exchange(exchange.id);
                (exchange.vhost, object, Governee::Exchange(exchange))
            }
            _ => return None,
        };
        let policies = &self.host(vhost)?.policies;
        (!policies.is_empty()).then(|| (vhost, policies.find(object, governee, steps)))
    }

    /// Whether a virtual host has policies of either kind.
    pub(crate) fn has_policies(&self, vhost: VhostId) -> bool {
        self.host(vhost).is_some_and(|host| !host.policies.is_empty())
    }

    /// The policies in force of every object that has some, as changes that no object knows of yet: at a start, for all
    /// shards alike.
    pub fn policies_in_force(&self) -> Vec<Change> {
        let mut all = Vec::new();
        for (vhost, host) in self.vhosts.iter().filter(|(_, host)| !host.policies.is_empty()) {
            let queues = host.queues.iter().map(|by_name| {
                let queue = &*by_name.0;
                (Destination::Queue(queue.id), Governee::Queue(queue))
            });
            let exchanges = host.exchanges.iter().map(|by_name| {
                let exchange = &*by_name.0;
                (Destination::Exchange(exchange.id), Governee::Exchange(exchange))
            });
            let ruled = queues
                .chain(exchanges)
                .map(|(object, governee)| host.policies.find(object, governee, &mut 0));
            let objects = ruled.filter(|ruled| ruled.user.is_some() || ruled.operator.is_some()).collect();
            all.push(Change::Govern { vhost: *vhost, objects });
        }
        all
    }

    /// Takes in what [`Catalog::policies_in_force`] says, here or of another copy.
    pub fn go_by_policies(&mut self, in_force: &[Change]) {
        self.knows_policies = true;
        in_force.iter().for_each(|change| drop(self.apply(change)));
    }

    /// It took in which policies are in force.
    pub(crate) fn knows_policies(&self) -> bool {
        self.knows_policies
    }
}
