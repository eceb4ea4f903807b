//! The thread that removes files that streams have let go, slowly.
//!
//! A filesystem that gives back a gigabyte at once keeps the device, and its own journal, busy for tens of
//! milliseconds, so that flushes wait. So space goes piece by piece, and the pauses in between grow with the time a
//! piece takes. Readers and writers have threads of their own: nobody waits behind a removal.

use crate::door::{Door, Letter};
use crate::pauses::Pauses;
use base::id::ShardId;
use journal::Disk;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use stream_files::StreamJob;

/// See the module.
pub struct Sweeper {
    line: Receiver<(ShardId, StreamJob)>,
    disk: Arc<dyn Disk>,
    doors: Arc<[Door]>,
    is_stopping: Arc<AtomicBool>,
}

impl Sweeper {
    /// One that removes the files that come down `line`; those left when the node is stopping go without pauses.
    pub fn new(
        line: Receiver<(ShardId, StreamJob)>,
        disk: Arc<dyn Disk>,
        doors: Arc<[Door]>,
        is_stopping: Arc<AtomicBool>,
    ) -> Sweeper {
        Sweeper { line, disk, doors, is_stopping }
    }

    /// Removes until nobody can ask any more.
    pub fn run(&self) {
        while let Ok((shard, job)) = self.line.recv() {
            let mut pauses = Pauses::begin();
            let mut pause = || {
                pauses.pause();
                !self.is_stopping.load(Ordering::Relaxed)
            };
            let done = job.carry_out_slowly(&*self.disk, &mut pause);
            self.doors[usize::from(shard.0)]
                .letters
                .put(Letter::Node(node::turn::Letter::Streamed(Box::new(done))));
        }
    }
}
