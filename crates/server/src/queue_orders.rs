//! Orders of all queues by a column, each kept for a moment for all that ask for pages of it.
//!
//! To sort 100,000 queues every shard is asked for all of its own; pages that several dashboards ask for every few
//! seconds come from one order. Of few queues none is kept, so that their pages are as of now. A kept order has queues
//! that are gone since, and not those that came: pages show what there still is of it.

use crate::queue_names::Names;
use broker::catalog::QueueDefinition;
use management::Limits;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug, Default)]
pub struct QueueOrders {
    /// The oldest comes first. Held for a moment only: the thread that looks after alarms asks too.
    kept: Mutex<Vec<Order>>,
    /// Held while queues are sorted, which takes seconds where there are many.
    sorting: Mutex<()>,
}

#[derive(Debug)]
struct Order {
    column: String,
    /// When it was made, monotonic milliseconds.
    at_ms: u64,
    queues: Names,
}

impl QueueOrders {
    /// The queues by `column`: as they were a moment ago, or as `sort` has them. Other callers with something to sort wait
    /// meanwhile, and have what comes of it.
    ///
    /// # Errors
    /// Those of `sort`.
    pub fn get<E>(
        &self,
        column: &str,
        now_ms: impl Fn() -> u64,
        limits: &Limits,
        sort: impl FnOnce() -> Result<Vec<Arc<QueueDefinition>>, E>,
    ) -> Result<Names, E> {
        let found = || {
            let mut kept = self.kept();
            drop_old(&mut kept, now_ms(), limits);
            kept.iter().find(|order| order.column == column).map(|order| order.queues.clone())
        };
        if let Some(queues) = found() {
            return Ok(queues);
        }
        let _sorting = self.sorting.lock().unwrap_or_else(PoisonError::into_inner);
        // Another caller may have sorted them meanwhile.
        if let Some(queues) = found() {
            return Ok(queues);
        }
        let queues: Names = sort()?.into();
        if queues.len() >= limits.order_queues_min {
            let mut kept = self.kept();
            if kept.len() >= limits.orders_kept_max {
                kept.drain(..1);
            }
            let order = Order { column: column.to_owned(), at_ms: now_ms(), queues: queues.clone() };
            kept.push(order);
        }
        Ok(queues)
    }

    /// Lets go of orders that nobody is shown any more.
    pub fn forget_old(&self, now_ms: u64, limits: &Limits) {
        drop_old(&mut self.kept(), now_ms, limits);
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let one = |order: &Order| order.column.capacity() + size_of_val(&*order.queues);
        self.kept().iter().map(one).sum()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Order>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn drop_old(kept: &mut Vec<Order>, now_ms: u64, limits: &Limits) {
    kept.retain(|order| now_ms.saturating_sub(order.at_ms) < limits.order_kept_ms);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue_names::tests::queue;
    use std::cell::Cell;

    fn queues(count: u64) -> Vec<Arc<QueueDefinition>> {
        (0..count).map(|number| queue(number, "v/q")).collect()
    }

    #[test]
    fn an_order_of_many_is_kept_for_a_while_and_so_many_are() {
        let limits =
            Limits { order_queues_min: 3, orders_kept_max: 2, order_kept_ms: 100, ..Limits::default() };
        let (orders, sorted) = (QueueOrders::default(), Cell::new(0));
        let check = |at_ms: u64, column: &str, count: u64, is_sorted: bool| {
            let before = sorted.get();
            let found = orders.get(
                column,
                || at_ms,
                &limits,
                || {
                    sorted.set(before + 1);
                    Ok::<_, ()>(queues(count))
                },
            );
            assert!(found.is_ok_and(|found| !found.is_empty()));
            assert_eq!(sorted.get() > before, is_sorted, "{at_ms} {column}");
        };
        check(0, "messages", 2, true);
        check(0, "messages", 3, true);
        check(99, "messages", 3, false);
        check(99, "memory", 3, true);
        check(100, "messages", 3, true);
        check(101, "memory", 3, false);
        // The oldest of two goes for a third.
        check(102, "consumers", 3, true);
        check(103, "messages", 3, false);
        check(104, "memory", 3, true);
        assert!(orders.memory_bytes() > 0);
        orders.forget_old(300, &limits);
        assert_eq!(orders.memory_bytes(), 0);
    }

    #[test]
    fn nobody_waits_for_sorting_but_to_sort() {
        let (orders, limits) = (QueueOrders::default(), Limits { order_queues_min: 0, ..Limits::default() });
        let get = |column: &str, sort: &dyn Fn() -> Vec<Arc<QueueDefinition>>| {
            orders.get(column, || 0, &limits, || Ok::<_, ()>(sort())).expect("sorted").len()
        };
        assert_eq!(get("messages", &|| queues(1)), 1);
        let sort = || {
            orders.forget_old(0, &limits);
            assert!(orders.memory_bytes() > 0);
            assert_eq!(get("messages", &|| panic!("it is kept")), 1);
            queues(2)
        };
        assert_eq!(get("memory", &sort), 2);
    }

    #[test]
    fn who_fails_leaves_nothing() {
        let (orders, limits) = (QueueOrders::default(), Limits { order_queues_min: 0, ..Limits::default() });
        assert_eq!(orders.get("messages", || 0, &limits, || Err("busy")).err(), Some("busy"));
        assert!(orders.get("messages", || 0, &limits, || Ok::<_, ()>(queues(1))).is_ok());
    }
}
