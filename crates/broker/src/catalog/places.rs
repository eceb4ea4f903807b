//! The places of queues: how many each log has, and where the next one goes.

use super::QueueDefinition;
use crate::whereabouts::Whereabouts;
use base::hash::MapById;
use base::id::{LogId, ShardId};

/// The log of the catalog.
pub const CATALOG_LOG: LogId = LogId(0);

/// The logs that a new queue is placed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// One on disk.
    pub on_disk: LogId,
    /// One in memory, for queues that a restart ends.
    pub in_memory: LogId,
}

impl Places {
    /// The log for a queue whose messages a restart keeps, or does not.
    pub(super) fn of(self, is_kept: bool) -> LogId {
        if is_kept { self.on_disk } else { self.in_memory }
    }
}

/// How many queues each log has. See the module's head.
#[derive(Debug, Default)]
pub(crate) struct QueuesByLog(MapById<LogId, u32>);

impl QueuesByLog {
    /// A queue is there.
    pub(crate) fn add(&mut self, queue: &QueueDefinition) {
        *self.0.entry(queue.log).or_default() += 1;
    }

    /// A queue is gone.
    pub(crate) fn remove(&mut self, queue: &QueueDefinition) {
        if let Some(count) = self.0.get_mut(&queue.log) {
            *count -= 1;
        }
    }

    /// The places for a queue that is declared by a connection of shard `near`: among its logs that are not stopped the one with
    /// the fewest queues. The catalog's log takes what no other can.
    pub(crate) fn next(&self, near: ShardId, whereabouts: &Whereabouts, stopped: &[LogId]) -> Places {
        let is_open = |log: &LogId| *log != CATALOG_LOG && !stopped.contains(log);
        let count = |log: &LogId| self.0.get(log).copied().unwrap_or(0);
        let on_disk = whereabouts.logs_of(near).filter(is_open).min_by_key(count);
        Places { on_disk: on_disk.unwrap_or(CATALOG_LOG), in_memory: whereabouts.memory_log(near) }
    }

    /// The places where nodes agree on `logs` logs, for a queue that is declared where these are `led`: one of them, or of all where
    /// there are none. All is there in every node, so that nothing is in memory alone. The catalog's log takes none.
    pub(crate) fn next_of(&self, led: &[LogId], logs: u32) -> Places {
        let count = |log: &LogId| self.0.get(log).copied().unwrap_or(0);
        let is_fit = |log: &LogId| *log != CATALOG_LOG && log.0 < logs;
        let near = led.iter().copied().filter(is_fit).min_by_key(count);
        let any = || (0..logs).map(LogId).filter(is_fit).min_by_key(count);
        let on_disk = near.or_else(any).expect("nodes that agree have logs beside the catalog's");
        Places { on_disk, in_memory: on_disk }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Placement;

    fn on(log: u32) -> QueueDefinition {
        QueueDefinition { log: LogId(log), ..QueueDefinition::sample(1) }
    }

    #[test]
    fn the_emptiest_log_that_is_led_near_is_next() {
        let mut queues = QueuesByLog::default();
        let check = |queues: &QueuesByLog, led: &[u32], expected: u32| {
            let led: Vec<_> = led.iter().copied().map(LogId).collect();
            let places = queues.next_of(&led, 4);
            assert_eq!((places.on_disk.0, places.in_memory.0), (expected, expected), "{led:?}");
        };
        check(&queues, &[], 1);
        check(&queues, &[3, 2], 3);
        check(&queues, &[0], 1);
        queues.add(&on(3));
        check(&queues, &[3, 2], 2);
        queues.add(&on(1));
        check(&queues, &[], 2);
        check(&queues, &[1, 3], 1);
        // A log of more than there are is none of those.
        check(&queues, &[9], 2);
    }

    #[test]
    fn the_emptiest_sound_log_of_the_shard_is_next() {
        let whereabouts = Whereabouts::at_start(Placement { shards: 2, logs: 6 });
        let mut queues = QueuesByLog::default();
        let check = |queues: &QueuesByLog, near, stopped: &[u32], expected: (u32, u32)| {
            let stopped: Vec<_> = stopped.iter().copied().map(LogId).collect();
            let places = queues.next(ShardId(near), &whereabouts, &stopped);
            assert_eq!((places.on_disk.0, places.in_memory.0), expected, "{near} {stopped:?}");
        };
        check(&queues, 0, &[], (2, 6));
        check(&queues, 1, &[], (1, 7));
        queues.add(&on(2));
        check(&queues, 0, &[], (4, 6));
        queues.add(&on(4));
        queues.add(&on(4));
        check(&queues, 0, &[], (2, 6));
        check(&queues, 0, &[2], (4, 6));
        check(&queues, 0, &[2, 4], (0, 6));
        queues.remove(&on(4));
        queues.remove(&on(4));
        check(&queues, 0, &[], (4, 6));
        let alone = Whereabouts::at_start(Placement { shards: 1, logs: 1 });
        assert_eq!(queues.next(ShardId(0), &alone, &[]).on_disk, CATALOG_LOG);
    }
}
