//! Things that go, and things that go with them: an auto-delete exchange goes with the last binding from it.
//!
//! A plan has room for so many bindings and objects. What is bound to more is loosened first: part of its bindings go with
//! this plan, the others with later ones, and the thing itself with the last of them. Bindings that go so are not
//! recorded: a node that starts again in between has all of them, as after a request that nobody answered.

use super::definition::Binding;
use super::{Catalog, Change, Destination, ExchangeDefinition, Op, Plan, Removed, VhostId};
use base::hash::{MapById, SetById};
use base::id::QueueId;
use routing::ExchangeId;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bindings that go in the time that an object takes beside its own.
pub(crate) const OBJECT: usize = 2;

/// Every virtual host has it from its beginning to its end.
fn is_predeclared(exchange: &ExchangeDefinition) -> bool {
    exchange.name.is_empty() || exchange.name.starts_with("amq.")
}

/// Collects the changes; see the module's head.
pub(super) struct Removal<'a> {
    catalog: &'a Catalog,
    changes: Vec<Change>,
    /// Bindings that exchanges lose in this removal.
    lost: MapById<ExchangeId, usize>,
    /// Exchanges that go.
    gone: SetById<ExchangeId>,
    /// Those of them whose sources have not been asked yet.
    going: VecDeque<ExchangeId>,
    /// Bindings there is still room for.
    room: usize,
    removed: Removed,
}

impl<'a> Removal<'a> {
    /// Of no more than `most` bindings, [`OBJECT`] of which an object takes beside its own; fewer than that is no room for
    /// anything.
    pub(super) fn new(catalog: &'a Catalog, most: usize) -> Removal<'a> {
        Removal {
            catalog,
            changes: Vec::new(),
            lost: MapById::default(),
            gone: SetById::default(),
            going: VecDeque::new(),
            room: most,
            removed: Removed::default(),
        }
    }

    pub(super) fn queue(&mut self, id: QueueId) {
        let Some(queue) = self.catalog.queue(id) else { return };
        let destination = Destination::Queue(id);
        if !self.take(OBJECT + self.ends_count(destination)) {
            return self.loosen(destination);
        }
        self.changes.push(Change::DeleteQueue { id, durable: queue.is_recorded() });
        self.lose_all_to(destination);
    }

    /// Those that there is room for.
    pub(super) fn queues(&mut self, queues: impl Iterator<Item = QueueId>) {
        for queue in queues {
            if self.removed.is_more {
                return;
            }
            self.queue(queue);
        }
    }

    pub(super) fn exchange(&mut self, definition: &ExchangeDefinition) {
        let starts =
            self.catalog.exchanges.get(&definition.id).map_or(0, |own| own.exchange.bindings_count());
        let ends = self.ends_count(Destination::Exchange(definition.id));
        if self.take(OBJECT + starts + ends) {
            return self.delete_exchange(definition);
        }
        match starts {
            0 => self.loosen(Destination::Exchange(definition.id)),
            _ => self.loosen_from(definition.id),
        }
    }

    pub(super) fn binding(&mut self, binding: &Arc<Binding>) {
        self.take(1);
        self.changes.push(Change::Unbind(binding.clone()));
        self.lose(binding.source, 1);
    }

    /// All of it at once, where that is little: bindings never leave their virtual host, so that none need be undone. Its
    /// predeclared exchanges stay until then.
    pub(super) fn vhost(&mut self, id: VhostId) {
        let catalog = self.catalog;
        let Some(host) = catalog.host(id) else { return };
        let queues = || host.queues.iter().map(|queue| queue.0.id);
        let exchanges = || host.exchanges.iter().map(|exchange| &exchange.0);
        let queue_sizes = queues().map(|queue| OBJECT + self.ends_count(Destination::Queue(queue)));
        let exchange_sizes = exchanges().map(|exchange| {
            let ends = self.ends_count(Destination::Exchange(exchange.id));
            ends + if is_predeclared(exchange) { 0 } else { OBJECT }
        });
        let mut size = 0;
        let is_little = queue_sizes.chain(exchange_sizes).all(|own| {
            size += own;
            size <= self.room
        });
        if is_little {
            self.take(size);
            return self.changes.push(Change::DeleteVhost(id));
        }
        self.queues(queues());
        for exchange in exchanges() {
            if self.removed.is_more {
                return;
            }
            match is_predeclared(exchange) {
                true if self.ends_count(Destination::Exchange(exchange.id)) == 0 => {}
                true => self.loosen(Destination::Exchange(exchange.id)),
                false => self.exchange(exchange),
            }
        }
        self.removed.is_more = true;
    }

    pub(super) fn finish(mut self) -> Plan {
        while let Some(id) = self.going.pop_front() {
            self.lose_all_to(Destination::Exchange(id));
        }
        Plan { changes: self.changes, queue: None, removed: self.removed }
    }

    fn ends_count(&self, destination: Destination) -> usize {
        self.catalog.ends(destination).map_or(0, |ends| ends.len())
    }

    /// Takes so much of the room, if it is there.
    fn take(&mut self, count: usize) -> bool {
        let has_room = count <= self.room;
        if has_room {
            self.room -= count;
            self.removed.count += count;
        }
        has_room
    }

    fn delete_exchange(&mut self, definition: &ExchangeDefinition) {
        let ExchangeDefinition { id, durable, .. } = *definition;
        if self.gone.insert(id) {
            self.changes.extend(self.catalog.clear_topic_permissions_on(definition));
            self.changes.push(Change::DeleteExchange { id, durable });
            self.going.push_back(id);
        }
    }

    /// As many of the bindings to a destination go as there is room for.
    fn loosen(&mut self, destination: Destination) {
        self.removed.is_more = true;
        for binding in self.catalog.ends(destination).into_iter().flat_map(|ends| ends.iter()) {
            if !self.take(1) {
                return;
            }
            self.changes.push(Change::Unbind(Arc::new(binding.unrecorded())));
            self.lose(binding.source, 1);
        }
    }

    /// As many of the bindings from an exchange go as there is room for.
    fn loosen_from(&mut self, id: ExchangeId) {
        self.removed.is_more = true;
        let Some(source) = self.catalog.exchanges.get(&id) else { return };
        let _all_or_some = source.exchange.visit_bindings(|key, arguments, destination| {
            if !self.take(1) {
                return ControlFlow::Break(());
            }
            let key = str::from_utf8(key).expect("keys were strings").into();
            let arguments = arguments.clone();
            let binding = Binding { source: id, destination, key, arguments, durable: false };
            self.changes.push(Change::Unbind(Arc::new(binding)));
            ControlFlow::Continue(())
        });
    }

    fn lose_all_to(&mut self, destination: Destination) {
        let Some(ends) = self.catalog.ends(destination) else { return };
        let mut sources: Vec<ExchangeId> = ends.iter().map(|binding| binding.source).collect();
        sources.sort_unstable();
        for same in sources.chunk_by(|a, b| a == b) {
            self.lose(same[0], same.len());
        }
    }

    /// An exchange loses so many bindings.
    fn lose(&mut self, source: ExchangeId, count: usize) {
        let Some(entry) = self.catalog.exchanges.get(&source) else { return };
        let lost = self.lost.entry(source).or_default();
        *lost += count;
        let is_last = *lost == entry.exchange.bindings_count();
        if !entry.definition.auto_delete || !is_last || self.gone.contains(&source) {
            return;
        }
        match self.take(OBJECT + self.ends_count(Destination::Exchange(source))) {
            true => self.delete_exchange(&entry.definition),
            false => {
                let name = entry.definition.name.clone();
                self.removed.exchanges.push(Op::DeleteExchange { name, if_unused: true });
            }
        }
    }
}
