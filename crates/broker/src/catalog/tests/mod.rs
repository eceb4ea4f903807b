//! The catalog seen from outside: requests, answers, and what they leave behind.

mod access;
mod determinism;
mod exchanges;
mod macros;
mod policies;
mod queues;
mod removals;
mod routes;
mod scale;

use super::*;
use crate::access::{AccessCache, SALT};
use base::id::{LogId, ShardId};
use routing::{Arguments, Envelope, IntType, Kind, Matches, Value};

/// Virtual host `/` with guest, and whatever the requests of a test make of it.
pub(super) struct World {
    pub(super) catalog: Catalog,
}

pub(super) fn port(slot: u32) -> PortId {
    PortId::here(ShardId(1), slot, 7)
}

pub(super) fn guest(slot: u32) -> Actor {
    Actor::new("guest".into(), VhostId(0), port(slot))
}

impl World {
    pub(super) fn new() -> World {
        let mut world = World { catalog: Catalog::default() };
        let by = Actor::internal(VhostId::default(), PortId::default());
        for op in FirstContent::guest([1; SALT]).requests() {
            assert_eq!(world.wish_of(&by, &op), "ok", "{op:?}");
        }
        world
    }

    /// Plans and applies a wish of `by`: `ok`, or the code and text of the refusal.
    pub(super) fn wish_of(&mut self, by: &Actor, op: &Op) -> String {
        match self.catalog.plan(by, op, Places::default()) {
            Ok(plan) => {
                plan.changes.iter().for_each(|change| drop(self.catalog.apply(change)));
                if plan.changes.iter().any(|change| self.changes_rules(change)) {
                    settle(&mut self.catalog);
                }
                "ok".to_owned()
            }
            Err(refusal) => format!("{} {refusal}", refusal.code.number()),
        }
    }

    /// Whether objects may go by other policies after this change.
    fn changes_rules(&self, change: &Change) -> bool {
        match change {
            Change::AddQueue(queue) => self.catalog.has_policies(queue.vhost),
            Change::AddExchange(exchange) => self.catalog.has_policies(exchange.vhost),
            Change::DeleteQueue { .. } | Change::DeleteExchange { .. } => false,
            Change::Bind(_) | Change::Unbind(_) => false,
            _ => true,
        }
    }

    /// Plans and applies a wish of guest on the first connection.
    pub(super) fn wish(&mut self, op: &Op) -> String {
        self.wish_of(&guest(1), op)
    }

    pub(super) fn must(&mut self, op: &Op) {
        assert_eq!(self.wish(op), "ok", "{op:?}");
    }

    pub(super) fn queue(&self, name: &str) -> &QueueDefinition {
        self.catalog.queue_by_name(VhostId(0), name.as_bytes()).unwrap()
    }

    /// Where a message goes, by name and sorted.
    pub(super) fn routed(&self, exchange: &str, key: &str) -> String {
        let mut matches = Matches::default();
        matches.start();
        match self.catalog.route(
            VhostId(0),
            exchange.as_bytes(),
            &Envelope::keyed(&[key.as_bytes()]),
            &mut matches,
        ) {
            Err(refusal) => refusal.to_string(),
            Ok(_) => {
                let names = matches.destinations().iter().filter_map(|destination| match destination {
                    Destination::Queue(id) => self.catalog.queue(*id).map(|queue| &*queue.name),
                    Destination::Exchange(_) => None,
                });
                let mut names: Vec<_> = names.collect();
                names.sort_unstable();
                names.join(" ")
            }
        }
    }
}

/// Has all objects go by the policies there are, as the planner does in slices; the queues that go by other rules.
pub(super) fn settle(catalog: &mut Catalog) -> Vec<Applied> {
    let mut objects: Vec<_> = catalog.exchanges.keys().map(|id| Destination::Exchange(*id)).collect();
    objects.extend(catalog.queues.keys().map(|id| Destination::Queue(*id)));
    objects.sort_unstable();
    let mut changed: BTreeMap<VhostId, Vec<Ruled>> = BTreeMap::new();
    for object in objects {
        let vhost = match object {
            Destination::Queue(id) => catalog.queues[&id].definition.vhost,
            Destination::Exchange(id) => catalog.exchanges[&id].definition.vhost,
        };
        changed.entry(vhost).or_default().extend(catalog.review(object, &mut 0));
    }
    let changes = changed.into_iter().map(|(vhost, objects)| (vhost, objects.into()));
    let changes: Vec<_> = changes.map(|(vhost, objects)| Change::Govern { vhost, objects }).collect();
    changes.iter().flat_map(|change| catalog.apply(change)).collect()
}

/// Wishes in turn, each with what is answered; all of guest on the first connection.
pub(super) fn check(rows: &[(Op, &str)]) {
    let mut world = World::new();
    for (op, expected) in rows {
        assert_eq!(world.wish(op), *expected, "{op:?}");
    }
}

pub(super) fn arguments(all: &[(&str, Value)]) -> Arguments {
    all.iter().map(|(name, value)| (name.as_bytes(), value.clone())).collect()
}

pub(super) fn int(number: i64) -> Value {
    Value::Int(IntType::SignedInt, number)
}

/// A durable queue; `how` changes it: words of `transient exclusive auto-delete passive`.
pub(super) fn queue(name: &str, how: &str) -> Op {
    queue_with(name, how, &[])
}

pub(super) fn queue_with(name: &str, how: &str, with: &[(&str, Value)]) -> Op {
    let is = |word: &str| how.split(' ').any(|own| own == word);
    Op::DeclareQueue {
        name: name.into(),
        passive: is("passive"),
        durable: !is("transient"),
        exclusive: is("exclusive"),
        auto_delete: is("auto-delete"),
        arguments: arguments(with),
        random: [9; 16],
    }
}

/// A durable exchange; `how` changes it: words of `transient internal auto-delete passive`.
pub(super) fn exchange(name: &str, kind: &str, how: &str) -> Op {
    exchange_with(name, kind, how, &[])
}

pub(super) fn exchange_with(name: &str, kind: &str, how: &str, with: &[(&str, Value)]) -> Op {
    let is = |word: &str| how.split(' ').any(|own| own == word);
    Op::DeclareExchange {
        name: name.into(),
        kind: kind.into(),
        passive: is("passive"),
        durable: !is("transient"),
        auto_delete: is("auto-delete"),
        internal: is("internal"),
        arguments: arguments(with),
    }
}

pub(super) fn delete_exchange(name: &str, if_unused: bool) -> Op {
    Op::DeleteExchange { name: name.into(), if_unused }
}

pub(super) fn bind(exchange: &str, queue: &str, key: &str) -> Op {
    bind_with(exchange, queue, key, &[])
}

pub(super) fn bind_with(exchange: &str, queue: &str, key: &str, with: &[(&str, Value)]) -> Op {
    let arguments = arguments(with);
    Op::BindQueue { queue: queue.into(), exchange: exchange.into(), key: key.into(), arguments }
}

pub(super) fn unbind(exchange: &str, queue: &str, key: &str) -> Op {
    let arguments = Arguments::new();
    Op::UnbindQueue { queue: queue.into(), exchange: exchange.into(), key: key.into(), arguments }
}

pub(super) fn link(source: &str, destination: &str, key: &str) -> Op {
    let arguments = Arguments::new();
    Op::BindExchange { source: source.into(), destination: destination.into(), key: key.into(), arguments }
}

pub(super) fn unlink(source: &str, destination: &str, key: &str) -> Op {
    let arguments = Arguments::new();
    Op::UnbindExchange { source: source.into(), destination: destination.into(), key: key.into(), arguments }
}

pub(super) fn add_vhost(name: &str) -> Op {
    Op::AddVhost { name: name.into(), defaults: VhostDefaults::default() }
}
