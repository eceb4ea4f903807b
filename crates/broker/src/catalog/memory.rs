//! What a catalog weighs, for the memory breakdown.

use super::ends::Ends;
use super::{Binding, Catalog, ExchangeEntry, PolicyDefinition, PolicyKind, QueueDefinition, QueueEntry};
use base::id::QueueId;
use routing::{Arguments, ExchangeId, Value};
use std::sync::Arc;

/// Counts beside an `Arc`'s value.
const COUNTS: usize = 2 * size_of::<usize>();

/// A hash table's bytes: a slot and a control byte each, of which seven in eight may be full.
fn table_bytes<T>(capacity: usize) -> usize {
    (capacity * 8 / 7).next_power_of_two() * (size_of::<T>() + 1)
}

fn arguments_bytes(arguments: &Arguments) -> usize {
    arguments
        .iter()
        .map(|(name, value)| size_of::<(Box<[u8]>, Value)>() + name.len() + value_bytes(value))
        .sum()
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Text(bytes) | Value::Bytes(bytes) => bytes.len(),
        Value::List(values) => values.iter().map(|value| size_of::<Value>() + value_bytes(value)).sum(),
        Value::Table(table) => arguments_bytes(table),
        _ => 0,
    }
}

fn binding_bytes(binding: &Binding) -> usize {
    COUNTS + size_of::<Binding>() + binding.key.len() + arguments_bytes(&binding.arguments)
}

fn ends_bytes(ends: &Ends) -> usize {
    ends.iter().map(|binding| size_of::<Arc<Binding>>() + binding_bytes(binding)).sum()
}

fn policy_bytes(policy: &PolicyDefinition) -> usize {
    COUNTS + size_of::<PolicyDefinition>() + policy.name.len() + arguments_bytes(&policy.definition)
}

impl Catalog {
    /// Bytes of memory of the tables alone: what a further shard's copy takes of its own, near enough.
    pub fn tables_bytes(&self) -> usize {
        let names = self.vhosts.values().map(|vhost| vhost.queues.capacity() + vhost.exchanges.capacity());
        table_bytes::<(QueueId, QueueEntry)>(self.queues.capacity())
            + table_bytes::<(ExchangeId, ExchangeEntry)>(self.exchanges.capacity())
            + names.map(table_bytes::<usize>).sum::<usize>()
    }

    /// Bytes of memory, near enough; what is shared with the other shards' copies is counted in full. Looks at
    /// everything: for people, not for every turn.
    pub fn memory_bytes(&self) -> usize {
        let queues = self.queues.values().map(|entry| {
            let QueueDefinition { name, arguments, .. } = &*entry.definition;
            let definition = COUNTS + size_of::<QueueDefinition>() + name.len() + arguments_bytes(arguments);
            definition + ends_bytes(&entry.ends)
        });
        let exchanges = self.exchanges.values().map(|entry| {
            let definition = COUNTS + size_of_val(&*entry.definition) + entry.definition.name.len();
            let history = entry.history.as_ref().map_or(0, |history| history.memory_bytes());
            definition + entry.exchange.memory_bytes() + ends_bytes(&entry.ends) + history
        });
        let names = self.vhosts.values().map(|vhost| {
            let permissions: usize = vhost.permissions.values().map(|own| size_of_val(&**own)).sum();
            let tables = vhost.queues.capacity() + vhost.exchanges.capacity();
            let kinds = [PolicyKind::User, PolicyKind::Operator].into_iter();
            let policies = kinds.flat_map(|kind| vhost.policies.of(kind)).map(|policy| policy_bytes(policy));
            size_of_val(vhost) + table_bytes::<usize>(tables) + permissions + policies.sum::<usize>()
        });
        table_bytes::<(QueueId, QueueEntry)>(self.queues.capacity())
            + table_bytes::<(ExchangeId, ExchangeEntry)>(self.exchanges.capacity())
            + queues.sum::<usize>()
            + exchanges.sum::<usize>()
            + names.sum::<usize>()
            + self.users.values().map(|user| COUNTS + size_of_val(&**user)).sum::<usize>()
    }
}
