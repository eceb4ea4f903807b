//! The partitions of a super stream: a direct exchange bound to streams, whose order is an argument of each binding.

use super::rights::Rights;
use crate::context::Context;
use broker::catalog::{Destination, PARTITION_ORDER, QueueDefinition};
use routing::Arguments;
use std::sync::Arc;

fn order(arguments: &Arguments) -> Option<i64> {
    arguments.get(PARTITION_ORDER).and_then(|order| order.as_i64())
}

/// The partitions of a super stream, in their order; `None`: there is no such exchange.
pub(super) fn partitions_of(
    context: &Context<'_>,
    rights: &Rights,
    super_stream: &[u8],
) -> Option<Vec<Arc<QueueDefinition>>> {
    let catalog = context.shard.catalog();
    let exchange = catalog.exchange(rights.actor()?.vhost, super_stream)?;
    let mut bindings = exchange.exchange.bindings();
    // Those without an order come last.
    bindings.sort_by_key(|binding| order(&binding.arguments).map_or((true, 0), |order| (false, order)));
    let streams = bindings.iter().filter_map(|binding| match binding.destination {
        Destination::Queue(queue) => catalog.queue(queue).filter(|queue| queue.is_stream()),
        Destination::Exchange(_) => None,
    });
    Some(streams.cloned().collect())
}

/// Which of a super stream's partitions a stream is: by its binding, or by the number at the end of its name.
pub(super) fn partition_index(
    context: &Context<'_>,
    rights: &Rights,
    super_stream: &[u8],
    stream: &QueueDefinition,
) -> Option<u32> {
    let exchange = context.shard.catalog().exchange(rights.actor()?.vhost, super_stream)?;
    let bindings = exchange.exchange.bindings();
    let own = bindings.iter().filter(|binding| binding.destination == Destination::Queue(stream.id));
    let own: Vec<_> = own.map(|binding| order(&binding.arguments)).collect();
    let named = || stream.name.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    match own.iter().flatten().min() {
        Some(order) => u32::try_from(*order).ok(),
        None if own.is_empty() => None,
        None => named(),
    }
}
