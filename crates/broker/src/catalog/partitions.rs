//! The streams that an exchange leads to, in their order: the partitions of a super stream.
//!
//! Kept with each exchange, so that a client that asks for them costs what it is told, however much else is bound there.

use super::definition::Binding;
use base::id::QueueId;
use routing::Arguments;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The argument of a binding that says the how manieth partition of a super stream its stream is.
pub const PARTITION_ORDER: &[u8] = b"x-stream-partition-order";

/// The place that a binding gives a stream; those without one come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    is_none: bool,
    number: i64,
}

impl Order {
    fn of(arguments: &Arguments) -> Order {
        let number = arguments.get(PARTITION_ORDER).and_then(|order| order.as_i64());
        Order { is_none: number.is_none(), number: number.unwrap_or(0) }
    }

    fn number(self) -> Option<i64> {
        (!self.is_none).then_some(self.number)
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Partitions {
    /// How many bindings give a stream this place; streams of one place by number.
    by_order: BTreeMap<(Order, QueueId), u32>,
    by_stream: BTreeSet<(QueueId, Order)>,
}

impl Partitions {
    pub(super) fn is_empty(&self) -> bool {
        self.by_order.is_empty()
    }

    pub(super) fn add(&mut self, stream: QueueId, binding: &Binding) {
        let order = Order::of(&binding.arguments);
        *self.by_order.entry((order, stream)).or_default() += 1;
        self.by_stream.insert((stream, order));
    }

    /// A binding to `stream` is gone, whatever it was.
    pub(super) fn remove(&mut self, stream: QueueId, binding: &Binding) {
        let order = Order::of(&binding.arguments);
        let Entry::Occupied(mut count) = self.by_order.entry((order, stream)) else { return };
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
            self.by_stream.remove(&(stream, order));
        }
    }

    /// The streams, in their order, each once for every binding.
    pub(super) fn iter(&self) -> impl Iterator<Item = QueueId> {
        self.by_order.iter().flat_map(|((_, stream), count)| std::iter::repeat_n(*stream, *count as usize))
    }

    /// The first place of a stream: a number, or that it has none. None: it is not bound.
    pub(super) fn order(&self, stream: QueueId) -> Option<Option<i64>> {
        let (of, order) =
            self.by_stream.range((stream, Order { is_none: false, number: i64::MIN })..).next()?;
        (*of == stream).then_some(order.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use routing::{Destination, ExchangeId, Value};

    fn binding(stream: u64, key: &str, order: Option<i64>) -> Binding {
        let arguments = order.map(|order| (PARTITION_ORDER, Value::long(order)));
        Binding {
            source: ExchangeId(1),
            destination: Destination::Queue(QueueId(stream)),
            key: key.into(),
            arguments: arguments.into_iter().collect(),
            durable: true,
        }
    }

    #[test]
    fn streams_are_in_the_order_of_their_bindings() {
        let mut all = Partitions::default();
        let rows = [
            (7, "a", Some(2)),
            (5, "b", Some(0)),
            (6, "c", None),
            (4, "d", None),
            (5, "e", Some(0)),
            (7, "f", None),
        ];
        for (stream, key, order) in rows {
            all.add(QueueId(stream), &binding(stream, key, order));
        }
        let listed = |all: &Partitions| all.iter().map(|stream| stream.0).collect::<Vec<_>>();
        assert_eq!(listed(&all), [5, 5, 7, 4, 6, 7]);
        assert_eq!(
            [4, 5, 7, 9].map(|stream| all.order(QueueId(stream))),
            [Some(None), Some(Some(0)), Some(Some(2)), None]
        );
        for (stream, key, order) in rows.into_iter().take(2) {
            all.remove(QueueId(stream), &binding(stream, key, order));
        }
        assert_eq!(listed(&all), [5, 4, 6, 7]);
        assert_eq!([5, 7].map(|stream| all.order(QueueId(stream))), [Some(Some(0)), Some(None)]);
        all.remove(QueueId(9), &binding(9, "x", None));
        for (stream, key, order) in rows.into_iter().skip(2) {
            all.remove(QueueId(stream), &binding(stream, key, order));
        }
        assert!(all.is_empty() && all.by_stream.is_empty());
    }
}
