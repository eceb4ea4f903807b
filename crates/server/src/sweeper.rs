//! The thread that removes what streams have let go, slowly.
//!
//! A filesystem that gives back a gigabyte at once keeps the device, and its own journal, from everybody else for tens of
//! milliseconds, those among them who wait for a flush. So space goes piece by piece, and the pauses in between grow with what
//! a piece takes. Readers and writers have threads of their own: nobody waits behind a removal.

use crate::door::{Door, Letter};
use base::id::ShardId;
use broker::StreamJob;
use journal::Disk;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// A pause lasts at least so long, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A pause lasts so many times as long as the piece before it took, within its bounds.
const PAUSE_FACTOR: u32 = 2;

/// See the module.
pub struct Sweeper {
    line: Receiver<(ShardId, StreamJob)>,
    disk: Arc<dyn Disk>,
    doors: Arc<[Door]>,
    is_stopping: Arc<AtomicBool>,
}

impl Sweeper {
    /// One that removes what comes down `line`; what is left when the node is stopping goes without pauses.
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
            let mut begun = Instant::now();
            let mut pause = || {
                std::thread::sleep(pause_after(begun.elapsed()));
                begun = Instant::now();
                !self.is_stopping.load(Ordering::Relaxed)
            };
            let done = job.carry_out_slowly(&*self.disk, &mut pause);
            self.doors[usize::from(shard.0)].letters.put(Letter::Streamed(Box::new(done)));
        }
    }
}

/// How long to wait behind a piece that took so long.
fn pause_after(took: Duration) -> Duration {
    (took * PAUSE_FACTOR).clamp(PAUSE_MIN, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_device_has_longer_pauses() {
        let ms = Duration::from_millis;
        for (took, pause) in [(0, 4), (1, 4), (3, 6), (30, 60), (50, 100), (5000, 100)] {
            assert_eq!(pause_after(ms(took)), ms(pause), "{took}");
        }
    }
}
