//! The threads that read for deliveries, and do the work of streams on the disk, so that no shard ever waits for it.
//!
//! A few threads take from one line, in the order the shards asked; a log has only so many reads in it at once
//! ([`broker::Limits::reads_max`]), so a busy one does not keep the others waiting for long. They end when every shard is
//! gone.

use crate::door::{Door, Letter};
use crate::line::{Entry, Exit, line};
use base::id::ShardId;
use broker::{ReadBytes, ReadRequest};
use journal::Disk;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use stream_files::StreamJob;

/// How many: so many reads a device has at once.
pub const READERS: usize = 4;

/// Where shards ask.
#[derive(Clone)]
pub struct Asks {
    line: Entry<(ShardId, Ask)>,
    removals: Sender<(ShardId, StreamJob)>,
}

impl Asks {
    /// A shard asks.
    pub fn ask(&self, shard: ShardId, ask: Ask) {
        match ask {
            // It takes its time, and is not to keep others waiting: see [`crate::sweeper`].
            Ask::Stream(job) if job.is_removal() => drop(self.removals.send((shard, *job))),
            ask => self.line.put((shard, ask)),
        }
    }
}

/// A request of a shard.
pub enum Ask {
    /// A read for deliveries.
    Read(ReadRequest),
    /// Work for a stream.
    Stream(Box<StreamJob>),
}

/// Counters of reads from the disk.
#[derive(Debug, Default)]
pub struct Reads {
    /// How often.
    pub count: AtomicU64,
    /// Nanoseconds it took together.
    pub took_ns: AtomicU64,
    /// Bytes it brought for deliveries.
    pub bytes: AtomicU64,
}

/// The state of a reading thread; all have clones of one, and share its line and counters.
#[derive(Clone)]
pub struct Reader {
    line: Exit<(ShardId, Ask)>,
    disk: Arc<dyn Disk>,
    doors: Arc<[Door]>,
    /// For measurements: every read takes this much longer.
    delay: Duration,
    reads: Arc<Reads>,
}

impl Reader {
    /// A reader for the threads to clone, and the entry for requests; removals of files go to `removals`.
    pub fn new(
        disk: Arc<dyn Disk>,
        doors: Arc<[Door]>,
        delay: Duration,
        removals: Sender<(ShardId, StreamJob)>,
    ) -> (Reader, Asks) {
        let (asks, line) = line();
        (Reader { line, disk, doors, delay, reads: Arc::default() }, Asks { line: asks, removals })
    }

    /// The counters of reads.
    pub fn reads(&self) -> Arc<Reads> {
        self.reads.clone()
    }

    /// Reads until nobody can ask any more. To be run by several threads.
    pub fn run(&self) {
        while let Some((shard, ask)) = self.line.take() {
            if !self.delay.is_zero() {
                std::thread::sleep(self.delay);
            }
            let started = Instant::now();
            let letter = match ask {
                Ask::Read(mut request) => {
                    // A sector that cannot be read is lost like one that reads wrong.
                    let brought = request.carry_out(&*self.disk);
                    let brought: Vec<_> = brought.into_iter().map(|part| part.ok().flatten()).collect();
                    let bytes: usize = brought.iter().flatten().map(ReadBytes::len).sum();
                    self.reads.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    node::turn::Letter::Loaded(request, brought)
                }
                Ask::Stream(job) => node::turn::Letter::Streamed(Box::new(job.carry_out(&*self.disk))),
            };
            self.reads.count.fetch_add(1, Ordering::Relaxed);
            self.reads.took_ns.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.doors[usize::from(shard.0)].letters.put(Letter::Node(letter));
        }
    }
}
