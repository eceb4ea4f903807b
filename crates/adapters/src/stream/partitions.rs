//! The partitions of a super stream: a direct exchange bound to streams, whose order is an argument of each binding.

use super::rights::Rights;
use crate::context::Context;
use broker::catalog::QueueDefinition;
use std::sync::Arc;

/// The partitions of a super stream, in their order; `None`: there is no such exchange.
pub(super) fn partitions_of<'a>(
    context: &'a Context<'_>,
    rights: &Rights,
    super_stream: &[u8],
) -> Option<impl Iterator<Item = &'a Arc<QueueDefinition>> + use<'a>> {
    let catalog = context.shard.catalog();
    let exchange = catalog.exchange(rights.actor()?.vhost, super_stream)?;
    Some(catalog.partitions(exchange))
}

/// Which of a super stream's partitions a stream is: by its binding, or by the number at the end of its name.
pub(super) fn partition_index(
    context: &Context<'_>,
    rights: &Rights,
    super_stream: &[u8],
    stream: &QueueDefinition,
) -> Option<u32> {
    let exchange = context.shard.catalog().exchange(rights.actor()?.vhost, super_stream)?;
    match exchange.partition_order(stream.id)? {
        Some(order) => u32::try_from(order).ok(),
        None => stream.name.rsplit_once('-').and_then(|(_, number)| number.parse().ok()),
    }
}
