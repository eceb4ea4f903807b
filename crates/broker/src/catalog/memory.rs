//! The weight of a catalog, for the memory breakdown.

use super::ends::Ends;
use super::{Binding, Catalog, ExchangeEntry, PolicyDefinition, PolicyKind, QueueDefinition, QueueEntry};
use base::Quantum;
use base::id::QueueId;
use base::sample::sum_of;
use routing::ExchangeId;
use std::sync::Arc;

/// Counts beside an `Arc`'s value.
const COUNTS: usize = 2 * size_of::<usize>();

/// A hash table's bytes: a slot and a control byte each, of which seven in eight may be full.
fn table_bytes<T>(capacity: usize) -> usize {
    (capacity * 8 / 7).next_power_of_two() * (size_of::<T>() + 1)
}

fn binding_bytes(binding: &Binding) -> usize {
    COUNTS + size_of::<Binding>() + binding.key.len() + binding.arguments.heap_bytes()
}

fn ends_bytes(ends: &Ends) -> usize {
    sum_of(ends.len(), ends.iter(), |binding| size_of::<Arc<Binding>>() + binding_bytes(binding))
}

fn policy_bytes(policy: &PolicyDefinition) -> usize {
    COUNTS + size_of::<PolicyDefinition>() + policy.name.len() + policy.definition.heap_bytes()
}

fn queue_bytes(entry: &QueueEntry) -> usize {
    let QueueDefinition { name, arguments, .. } = &*entry.definition;
    let definition = COUNTS + size_of::<QueueDefinition>() + name.len() + arguments.heap_bytes();
    definition + ends_bytes(&entry.ends)
}

fn exchange_bytes(entry: &ExchangeEntry) -> usize {
    let definition = COUNTS + size_of_val(&*entry.definition) + entry.definition.name.len();
    let history = entry.history.as_ref().map_or(0, |history| history.memory_bytes());
    definition + entry.exchange.memory_bytes() + ends_bytes(&entry.ends) + history
}

/// The sum of `each`, which begin with number `at`, as far as `quantum` allows; where to go on.
fn weigh(each: impl Iterator<Item = usize>, at: usize, quantum: &mut Quantum<'_>) -> (usize, Option<usize>) {
    let (mut bytes, mut next) = (0, at);
    for own in each {
        if quantum.is_over() {
            return (bytes, Some(next));
        }
        (bytes, next) = (bytes + own, next + 1);
        quantum.spend(1);
    }
    (bytes, None)
}

/// How far a catalog was weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighed {
    /// So many queues.
    Queues(usize),
    /// All queues and so many exchanges.
    Exchanges(usize),
    /// All but the rest.
    Rest,
}

impl Default for Weighed {
    fn default() -> Weighed {
        Weighed::Queues(0)
    }
}

impl Catalog {
    /// Bytes of memory of the tables alone: what a further shard's copy takes of its own, near enough.
    pub fn tables_bytes(&self) -> usize {
        let names = self.vhosts.values().map(|vhost| vhost.queues.capacity() + vhost.exchanges.capacity());
        table_bytes::<(QueueId, QueueEntry)>(self.queues.capacity())
            + table_bytes::<(ExchangeId, ExchangeEntry)>(self.exchanges.capacity())
            + names.map(table_bytes::<usize>).sum::<usize>()
    }

    /// Bytes of memory, near enough; what is shared with the other shards' copies is counted in full. Counts as
    /// many queues or exchanges at a time as `quantum` allows, so that a shard is not held up. Returns where to go on,
    /// until all was counted.
    pub fn memory_bytes_from(&self, from: Weighed, quantum: &mut Quantum<'_>) -> (usize, Option<Weighed>) {
        match from {
            Weighed::Queues(at) => {
                let (own, next) = weigh(self.queues.values().skip(at).map(queue_bytes), at, quantum);
                (own, Some(next.map_or(Weighed::Exchanges(0), Weighed::Queues)))
            }
            Weighed::Exchanges(at) => {
                let (own, next) = weigh(self.exchanges.values().skip(at).map(exchange_bytes), at, quantum);
                (own, Some(next.map_or(Weighed::Rest, Weighed::Exchanges)))
            }
            Weighed::Rest => (self.rest_bytes(), None),
        }
    }

    /// Bytes of memory of the bindings that have filters, of a copy of the catalog: others have their own. Counts as many
    /// exchanges at a time as `quantum` allows, from number `at` on. Returns where to go on, until all were counted.
    pub fn filters_bytes_from(&self, at: usize, quantum: &mut Quantum<'_>) -> (usize, Option<usize>) {
        weigh(self.exchanges.values().skip(at).map(|entry| entry.exchange.filters_bytes()), at, quantum)
    }

    /// The bytes of all but queues and exchanges.
    fn rest_bytes(&self) -> usize {
        let names = self.vhosts.values().map(|vhost| {
            let permissions: usize = vhost.permissions.values().map(|own| size_of_val(&**own)).sum();
            let tables = vhost.queues.capacity() + vhost.exchanges.capacity();
            let kinds = [PolicyKind::User, PolicyKind::Operator].into_iter();
            let policies = kinds.flat_map(|kind| vhost.policies.of(kind)).map(|policy| policy_bytes(policy));
            let parameters: usize = vhost.parameters.values().map(|value| COUNTS + value.len()).sum();
            size_of_val(vhost)
                + table_bytes::<usize>(tables)
                + permissions
                + policies.sum::<usize>()
                + parameters
                + vhost.macros.iter().map(|own| COUNTS + own.memory()).sum::<usize>()
                + vhost.macro_uses.memory_bytes()
        });
        table_bytes::<(QueueId, QueueEntry)>(self.queues.capacity())
            + table_bytes::<(ExchangeId, ExchangeEntry)>(self.exchanges.capacity())
            + names.sum::<usize>()
            + self.declarers.memory_bytes()
            + self.users.values().map(|user| COUNTS + size_of_val(&**user)).sum::<usize>()
    }
}
