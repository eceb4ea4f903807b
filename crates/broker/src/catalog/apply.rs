//! Applying changes: the only place where a catalog is altered.
//!
//! A change that names what is not there (or what is there already) alters nothing: logs are replayed over snapshots
//! that may hold their first part.

use super::definition::{Binding, ExchangeDefinition, QueueDefinition, VhostDefinition, VhostId};
use super::effective::alternate;
use super::history::History;
use super::macros::Uses;
use super::plan_exchange::EVENT_EXCHANGE;
use super::policy::Policies;
use super::{
    Applied, ByName, Catalog, Change, Destination, Ends, ExchangeEntry, Parameters, QueueChange, QueueEntry,
    TopicEntry, Vhost,
};
use crate::ranking::Ranking;
use base::hash::{MapById, SetByBytes, SetById};
use base::id::QueueId;
use filter::Macros;
use routing::{Exchange, ExchangeId, Kind};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

impl Catalog {
    /// Applies a change; tells what the shard must react to.
    pub fn apply(&mut self, change: &Change) -> Vec<Applied> {
        match change {
            Change::ReserveQueueIds { below, may_be_used } => {
                self.reserved_queues = self.reserved_queues.max(*below);
                if *may_be_used {
                    self.next_queue = self.next_queue.max(*below);
                }
            }
            Change::AddVhost(vhost) => self.add_vhost(vhost),
            Change::SetVhost(definition) => {
                if let Some(vhost) = self.host_mut(definition.id)
                    && vhost.definition.name == definition.name
                {
                    vhost.definition = definition.clone();
                }
            }
            Change::DeleteVhost(id) => return self.delete_vhost(*id),
            Change::SetUser(user) => {
                self.access_changed();
                self.users.insert(user.name.clone(), user.clone());
            }
            Change::DeleteUser(name) => {
                self.access_changed();
                for vhost in self.vhosts.values_mut() {
                    vhost.permissions.remove(name);
                    vhost.topic_permissions.remove(name);
                }
                self.user_limits.remove(name);
                self.entered.remove(name);
                return self
                    .users
                    .remove(name)
                    .map(|user| Applied::UserDeleted(user.name.clone()))
                    .into_iter()
                    .collect();
            }
            Change::SetPermissions(definition) => {
                self.access_changed();
                if let Some(vhost) = self.host_mut(definition.vhost) {
                    vhost.permissions.insert(definition.user.clone(), definition.clone());
                    let entered = self.entered.entry(definition.user.clone()).or_default();
                    Arc::make_mut(entered).insert(definition.vhost);
                }
            }
            Change::ClearPermissions { vhost, user } => {
                self.access_changed();
                if let Some(host) = self.host_mut(*vhost) {
                    host.permissions.remove(user);
                    self.leave(user, *vhost);
                }
            }
            Change::SetTopicPermissions(definition) => {
                self.access_changed();
                if let Some(vhost) = self.host_mut(definition.vhost) {
                    let entry = TopicEntry::new(definition.clone(), &vhost.definition.name);
                    let own = vhost.topic_permissions.entry(definition.user.clone()).or_default();
                    own.insert(definition.exchange.clone(), entry);
                }
            }
            Change::ClearTopicPermissions { vhost, user, exchange } => {
                self.access_changed();
                if let Some(vhost) = self.host_mut(*vhost)
                    && let Some(own) = vhost.topic_permissions.get_mut(user)
                {
                    own.remove(exchange);
                    if own.is_empty() {
                        vhost.topic_permissions.remove(user);
                    }
                }
            }
            Change::SetVhostLimits { vhost, limits } => self.apply_vhost_limits(*vhost, *limits),
            Change::SetUserLimits { user, limits } => self.apply_user_limits(user, *limits),
            Change::SetPolicy(policy) => {
                self.change_policies(policy.vhost, |policies| policies.set(policy));
            }
            Change::ClearPolicy { vhost, kind, name } => {
                self.change_policies(*vhost, |policies| policies.clear(*kind, name));
            }
            Change::Govern { vhost, objects } => return self.govern(*vhost, objects),
            Change::AddExchange(definition) => self.add_exchange(definition),
            Change::DeleteExchange { id, .. } => self.delete_exchange(*id),
            Change::AddQueue(definition) => return self.add_queue(definition),
            Change::DeleteQueue { id, .. } => return self.delete_queue(*id).into_iter().collect(),
            Change::Bind(binding) => self.bind(binding),
            Change::Unbind(binding) => self.unbind(binding),
            Change::SetDigestKey(key) => _ = self.digest_key.get_or_insert(*key),
            Change::SetParameter { name, value } => self.apply_parameter(name, value.as_deref()),
            Change::SetVhostParameter { vhost, component, name, value } => {
                self.apply_vhost_parameter(*vhost, [component, name], value.as_deref());
            }
            Change::Trace { vhost, on } => return self.apply_trace(*vhost, *on),
            Change::Remember { exchange, number, message, .. } => self.remember(*exchange, *number, message),
            Change::NodeUp { node, incarnation } => self.nodes.up(*node, *incarnation),
            Change::WishDone { wish, below, queue } => self.nodes.done(*wish, *below, *queue),
            Change::QueuesAdded { below } => self.added_below = self.added_below.max(*below),
        }
        Vec::new()
    }

    fn access_changed(&mut self) {
        self.version += 1;
        self.access_version += 1;
    }

    fn queue_changed(&mut self, change: QueueChange) {
        self.version += 1;
        self.comings.add(change);
    }

    fn host_mut(&mut self, id: VhostId) -> Option<&mut Vhost> {
        self.vhosts.get_mut(&id)
    }

    fn add_vhost(&mut self, definition: &Arc<VhostDefinition>) {
        self.next_vhost = self.next_vhost.max(definition.id.0.saturating_add(1));
        if self.vhosts.contains_key(&definition.id) || self.vhost_names.contains_key(&definition.name) {
            return;
        }
        let vhost = Vhost {
            definition: definition.clone(),
            queues: SetByBytes::default(),
            exchanges: SetByBytes::default(),
            permissions: BTreeMap::new(),
            topic_permissions: BTreeMap::new(),
            policies: Policies::default(),
            parameters: Parameters::new(),
            macros: Macros::default(),
            macro_uses: Uses::default(),
        };
        self.vhosts.insert(definition.id, vhost);
        Arc::make_mut(&mut self.vhost_names).insert(definition.name.clone(), definition.id);
        self.access_changed();
    }

    fn delete_vhost(&mut self, id: VhostId) -> Vec<Applied> {
        let Some(vhost) = self.vhosts.remove(&id) else { return Vec::new() };
        Arc::make_mut(&mut self.vhost_names).remove(&vhost.definition.name);
        vhost.permissions.keys().for_each(|user| self.leave(user, id));
        self.vhost_limits.remove(&id);
        self.traced.remove(&id);
        // Bindings never leave their virtual host: with both ends going, there is nothing to undo.
        for exchange in &vhost.exchanges {
            self.exchanges.remove(&exchange.0.id);
            self.declarers.remove(exchange.0.declared_by.as_ref());
            self.delaying -= usize::from(exchange.0.kind == Kind::Delayed);
            self.event_exchange = self.event_exchange.filter(|id| *id != exchange.0.id);
        }
        let mut queues: Vec<_> = vhost.queues.into_iter().map(|by_name| by_name.0).collect();
        queues.sort_unstable_by_key(|queue| queue.id);
        for queue in &queues {
            self.queues.remove(&queue.id);
            self.rankings.remove(&queue.id);
            self.declarers.remove(queue.declared_by.as_ref());
            self.comings.add(QueueChange::Went(queue.clone()));
            self.forget_exclusive(queue);
        }
        self.access_changed();
        let mut applied: Vec<_> = queues.into_iter().map(Applied::QueueDeleted).collect();
        applied.push(Applied::VhostDeleted(vhost.definition));
        applied
    }

    /// A user has no permissions in a virtual host any more.
    fn leave(&mut self, user: &str, vhost: VhostId) {
        if let Some(entered) = self.entered.get_mut(user) {
            let entered_now = Arc::make_mut(entered);
            entered_now.remove(&vhost);
            if entered_now.is_empty() {
                self.entered.remove(user);
            }
        }
    }

    fn add_exchange(&mut self, definition: &Arc<ExchangeDefinition>) {
        self.next_exchange = self.next_exchange.max(definition.id.0.saturating_add(1));
        if self.exchanges.contains_key(&definition.id) {
            return;
        }
        let Some(vhost) = self.vhosts.get_mut(&definition.vhost) else { return };
        let mut definition = definition.clone();
        let declared_by =
            definition.declared_by.as_ref().and_then(|user| self.declarers.shared(user, &self.users));
        if declared_by.as_ref().map(Arc::as_ptr) != definition.declared_by.as_ref().map(Arc::as_ptr) {
            // Read back: the name was written with it.
            Arc::make_mut(&mut definition).declared_by = declared_by;
        }
        if !vhost.exchanges.insert(ByName(definition.clone())) {
            return;
        }
        self.declarers.add(definition.declared_by.as_ref());
        let definition = &definition;
        let mut exchange = Exchange::new(definition.kind.chooses_as(&definition.arguments));
        exchange.durable = definition.durable;
        exchange.auto_delete = definition.auto_delete;
        exchange.internal = definition.internal;
        exchange.arguments = definition.arguments.clone();
        let governed = self.take_governed(Destination::Exchange(definition.id));
        let alternate = alternate(definition, governed.matched());
        let history = History::of(definition);
        let entry = ExchangeEntry {
            definition: definition.clone(),
            exchange,
            ends: Ends::default(),
            alternate,
            governed,
            partitions: None,
            history,
        };
        self.exchanges.insert(definition.id, entry);
        self.delaying += usize::from(definition.kind == Kind::Delayed);
        if *definition.name == *EVENT_EXCHANGE {
            self.event_exchange = Some(definition.id);
        }
        self.version += 1;
    }

    fn delete_exchange(&mut self, id: ExchangeId) {
        let Some(entry) = self.exchanges.remove(&id) else { return };
        self.event_exchange = self.event_exchange.filter(|own| *own != id);
        let definition = entry.definition;
        self.declarers.remove(definition.declared_by.as_ref());
        self.delaying -= usize::from(definition.kind == Kind::Delayed);
        if let Some(vhost) = self.host_mut(definition.vhost) {
            vhost.exchanges.remove(definition.name.as_bytes());
            vhost.bindings_went(id);
        }
        self.undo_ends(&entry.ends);
        self.undo_starts(id, &entry.exchange);
        self.version += 1;
    }

    /// Takes the bindings of a source that is gone from their destinations.
    fn undo_starts(&mut self, id: ExchangeId, source: &Exchange) {
        let mut counts: MapById<Destination, usize> = MapById::default();
        let all = source.visit_bindings(|_, _, destination| {
            *counts.entry(destination).or_default() += 1;
            ControlFlow::Continue(())
        });
        let mut picked = SetById::default();
        for (destination, count) in counts {
            let Some(ends) = self.ends_mut(destination) else { continue };
            if !ends.remove_of(id, count) {
                picked.insert(destination);
            }
        }
        if picked.is_empty() {
            return;
        }
        let rest = source.visit_bindings(|key, arguments, destination| {
            if picked.contains(&destination)
                && let Some(ends) = self.ends_mut(destination)
            {
                let key = str::from_utf8(key).expect("keys were strings").into();
                let arguments = arguments.clone();
                ends.remove(&Arc::new(Binding { source: id, destination, key, arguments, durable: false }));
            }
            ControlFlow::Continue(())
        });
        debug_assert!(all.is_continue() && rest.is_continue(), "nobody asked to stop");
    }

    /// Objects go by the policies that they had until they are told of others.
    fn change_policies(&mut self, vhost: VhostId, change: impl FnOnce(&mut Policies)) {
        if let Some(host) = self.host_mut(vhost) {
            change(&mut host.policies);
            self.version += 1;
        }
    }

    fn add_queue(&mut self, definition: &Arc<QueueDefinition>) -> Vec<Applied> {
        self.next_queue = self.next_queue.max(definition.id.0.saturating_add(1));
        self.added_below = self.added_below.max(definition.id.0.saturating_add(1));
        if self.queues.contains_key(&definition.id) {
            return Vec::new();
        }
        let Some(vhost) = self.vhosts.get_mut(&definition.vhost) else { return Vec::new() };
        let mut definition = definition.clone();
        if definition.vhost_name != vhost.definition.name {
            // Read back: the name of the virtual host is not written with every queue; that of the declaring user is.
            let own = Arc::make_mut(&mut definition);
            own.vhost_name = vhost.definition.name.clone();
            own.declared_by =
                own.declared_by.as_ref().and_then(|user| self.declarers.shared(user, &self.users));
        }
        if !vhost.queues.insert(ByName(definition.clone())) {
            return Vec::new();
        }
        vhost.queue_came(&definition);
        let ranking = Ranking::of(&definition, &vhost.macros);
        let governed = self.take_governed(Destination::Queue(definition.id));
        let entry = QueueEntry { definition: definition.clone(), ends: Ends::default(), governed };
        self.queues.insert(definition.id, entry);
        self.declarers.add(definition.declared_by.as_ref());
        if let Some(ranking) = ranking {
            self.rankings.insert(definition.id, Arc::new(ranking));
        }
        if let Some(port) = definition.exclusive {
            self.exclusive.entry(port).or_default().insert(definition.id);
        }
        self.queue_changed(QueueChange::Came(definition.clone()));
        vec![Applied::QueueCreated(definition.clone())]
    }

    fn delete_queue(&mut self, id: QueueId) -> Option<Applied> {
        let QueueEntry { definition, ends, .. } = self.queues.remove(&id)?;
        if let Some(vhost) = self.host_mut(definition.vhost) {
            vhost.queues.remove(definition.name.as_bytes());
            vhost.queue_went(id);
        }
        self.forget_exclusive(&definition);
        self.rankings.remove(&id);
        self.declarers.remove(definition.declared_by.as_ref());
        self.undo_ends(&ends);
        self.queue_changed(QueueChange::Went(definition.clone()));
        Some(Applied::QueueDeleted(definition))
    }

    fn forget_exclusive(&mut self, definition: &QueueDefinition) {
        if let Some(port) = definition.exclusive
            && let Some(queues) = self.exclusive.get_mut(&port)
        {
            queues.remove(&definition.id);
            if queues.is_empty() {
                self.exclusive.remove(&port);
            }
        }
    }

    /// Takes the bindings of a destination that is gone from their sources.
    fn undo_ends(&mut self, ends: &Ends) {
        for binding in ends.iter() {
            self.undo_source(binding);
        }
    }

    fn undo_source(&mut self, binding: &Binding) {
        if let Some(source) = self.exchanges.get_mut(&binding.source) {
            if let Some(vhost) = self.vhosts.get_mut(&source.definition.vhost) {
                let names = source.exchange.macros_of(&binding.arguments);
                vhost.binding_went(binding.source, binding.destination, names);
            }
            source.exchange.unbind(binding.key.as_bytes(), &binding.arguments, binding.destination);
            if let (Destination::Queue(id), Some(partitions)) = (binding.destination, &mut source.partitions)
            {
                partitions.remove(id, binding);
                source.partitions.take_if(|partitions| partitions.is_empty());
            }
        }
    }

    fn bind(&mut self, binding: &Arc<Binding>) {
        let Some(source) = self.exchanges.get(&binding.source) else { return };
        let destination_vhost = match binding.destination {
            Destination::Queue(id) => self.queues.get(&id).map(|entry| entry.definition.vhost),
            Destination::Exchange(id) => self.exchanges.get(&id).map(|entry| entry.definition.vhost),
        };
        if destination_vhost != Some(source.definition.vhost)
            || !self.ends_mut(binding.destination).is_some_and(|ends| ends.insert(binding.clone()))
        {
            return;
        }
        let Some(source) = self.exchanges.get_mut(&binding.source) else { return };
        let Some(vhost) = self.vhosts.get_mut(&source.definition.vhost) else { return };
        let Binding { key, arguments, destination, .. } = &**binding;
        source.exchange.bind_with(key.clone(), arguments.clone(), *destination, &vhost.macros);
        vhost.binding_came(binding.source, *destination, source.exchange.macros_of(arguments));
        if let Destination::Queue(id) = binding.destination
            && self.queues.get(&id).is_some_and(|entry| entry.definition.is_stream())
        {
            source.partitions.get_or_insert_default().add(id, binding);
        }
        self.version += 1;
    }

    fn unbind(&mut self, binding: &Arc<Binding>) {
        if !self.ends_mut(binding.destination).is_some_and(|ends| ends.remove(binding)) {
            return;
        }
        self.undo_source(binding);
        self.version += 1;
    }
}
