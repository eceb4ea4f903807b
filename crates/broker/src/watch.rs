//! Watchers, which are to know when a queue is deleted: senders that the protocol tells so, though they hold nothing of the queue.
//!
//! A watch is a connection's own number for the sender that is to be told, by queue. It ends when it was told, or is
//! taken back; a connection takes its watches back before it closes. Costs nothing where nobody watches.

use base::hash::MapById;
use base::id::{PortId, QueueId};

#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_queue: MapById<QueueId, Vec<(PortId, u32)>>,
}

impl Watches {
    /// `watcher` of `port` is to be told when the queue is deleted.
    pub(crate) fn add(&mut self, queue: QueueId, port: PortId, watcher: u32) {
        self.by_queue.entry(queue).or_default().push((port, watcher));
    }

    /// It no longer is.
    pub(crate) fn remove(&mut self, queue: QueueId, port: PortId, watcher: u32) {
        let Some(watchers) = self.by_queue.get_mut(&queue) else { return };
        if let Some(at) = watchers.iter().position(|it| *it == (port, watcher)) {
            watchers.swap_remove(at);
        }
        if watchers.is_empty() {
            self.by_queue.remove(&queue);
            if self.by_queue.is_empty() {
                self.by_queue = MapById::default();
            }
        }
    }

    /// The watchers of the queue.
    pub(crate) fn of(&self, queue: QueueId) -> &[(PortId, u32)] {
        self.by_queue.get(&queue).map_or(&[], Vec::as_slice)
    }

    /// The queue is deleted: returns its watches, which are to be told.
    pub(crate) fn take(&mut self, queue: QueueId) -> Vec<(PortId, u32)> {
        if self.by_queue.is_empty() { Vec::new() } else { self.by_queue.remove(&queue).unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::ShardId;

    #[test]
    fn who_watches_is_told_once() {
        let port = |slot| PortId::here(ShardId(0), slot, 1);
        let mut watches = Watches::default();
        watches.add(QueueId(1), port(1), 7);
        watches.add(QueueId(1), port(2), 7);
        watches.add(QueueId(2), port(1), 7);
        watches.remove(QueueId(1), port(2), 7);
        watches.remove(QueueId(1), port(2), 8);
        assert_eq!(watches.of(QueueId(1)), [(port(1), 7)]);
        assert_eq!(watches.of(QueueId(3)), []);
        assert_eq!(watches.take(QueueId(1)), [(port(1), 7)]);
        assert_eq!(watches.take(QueueId(1)), []);
        watches.remove(QueueId(2), port(1), 7);
        assert_eq!(watches.by_queue.capacity(), 0);
    }
}
