//! The rates of the disk under a folder without a broker: sequential O_DIRECT writes into a file written before, each
//! followed by fdatasync. The broker's durable rate is told as a share of it.

use base::memory::BLOCK;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fdatasync, open};
use rustix::io::pwrite;
use serde::Serialize;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of the probe's file.
const FILE: u64 = 256 << 20;

/// Bytes of each file where several are written at the same moment.
const AMONG_FILE: u64 = 16 << 20;

/// How long each size is tried.
const TRY: Duration = Duration::from_millis(700);

/// Write sizes tried, bytes; all multiples of [`BLOCK`].
const SIZES: [usize; 5] = [4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// The rate of writes of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Bytes of a write.
    pub size: usize,
    /// Median of write and flush together, microseconds.
    pub p50_us: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
}

/// The rates of the disk.
#[derive(Clone, Debug, Serialize)]
pub struct Probe {
    /// Whether the page cache was bypassed; false where the file system knows no O_DIRECT.
    pub is_direct: bool,
    /// By write size.
    pub rows: Vec<Row>,
}

impl Probe {
    /// Measures the disk under `folder` with a file that is removed again.
    ///
    /// # Errors
    /// The file could not be made or written.
    pub fn measure(folder: &Path) -> io::Result<Probe> {
        let path = folder.join(format!("leveret-probe-{}", std::process::id()));
        let result = measure_file(&path, FILE, TRY);
        // It may not exist where opening it failed.
        let _ = std::fs::remove_file(&path);
        result
    }

    /// The best rate of any size, bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.rows.iter().map(|row| row.bytes_per_second).fold(0.0, f64::max)
    }
}

/// How long the disk under a folder went on with earlier writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Settled {
    /// For how long it was waited for.
    pub seconds: f64,
    /// The longest write and flush in the last stretch, milliseconds.
    pub longest_ms: f64,
}

/// Writes and flushes a block again and again until, for `quiet` on end, none took longer than `bound`, or `most` is
/// over. A device that still works on gigabytes of earlier writes would slow down the measurements that follow.
///
/// # Errors
/// As of [`Probe::measure`].
pub fn settle(folder: &Path, bound: Duration, quiet: Duration, most: Duration) -> io::Result<Settled> {
    let path = folder.join(format!("leveret-settle-{}", std::process::id()));
    let result = settle_file(&path, bound, quiet, most);
    // It may not exist where opening it failed.
    let _ = std::fs::remove_file(&path);
    result
}

/// The median of a write and its flush while others flush the same device at the same moment, microseconds.
///
/// # Errors
/// As of [`Probe::measure`].
pub fn flush_among(folder: &Path, writers: usize) -> io::Result<f64> {
    let measure = |number: usize| {
        let path = folder.join(format!("leveret-flush-{}-{number}", std::process::id()));
        let result = measure_file(&path, AMONG_FILE, TRY);
        // It may not exist where opening it failed.
        let _ = std::fs::remove_file(&path);
        result
    };
    let all: io::Result<Vec<Probe>> = std::thread::scope(|threads| {
        let writers: Vec<_> = (0..writers).map(|number| threads.spawn(move || measure(number))).collect();
        let join = |writer: std::thread::ScopedJoinHandle<'_, io::Result<Probe>>| {
            writer.join().unwrap_or_else(|_| Err(io::Error::other("a writer did not end")))
        };
        writers.into_iter().map(join).collect()
    });
    let mut all: Vec<f64> = all?.iter().map(|probe| probe.rows[0].p50_us).collect();
    base::brief::sort_by(&mut all, f64::total_cmp);
    Ok(all[all.len() / 2])
}

fn settle_file(path: &Path, bound: Duration, quiet: Duration, most: Duration) -> io::Result<Settled> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::RUSR | Mode::WUSR)?;
    let block = [1; BLOCK];
    let (begun, mut stretch) = (Instant::now(), Instant::now());
    let mut longest = Duration::ZERO;
    while stretch.elapsed() < quiet && begun.elapsed() < most {
        let lap = Instant::now();
        write_whole(&file, &block, 0)?;
        fdatasync(&file)?;
        let took = lap.elapsed();
        longest = longest.max(took);
        if took > bound && begun.elapsed() < most {
            (stretch, longest) = (Instant::now(), Duration::ZERO);
        }
    }
    let (seconds, longest_ms) = (begun.elapsed().as_secs_f64(), longest.as_secs_f64() * 1000.0);
    Ok(Settled { seconds, longest_ms })
}

fn measure_file(path: &Path, file_bytes: u64, each: Duration) -> io::Result<Probe> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let (file, is_direct) = match open(path, flags | OFlags::DIRECT, mode) {
        Ok(file) => (file, true),
        Err(rustix::io::Errno::INVAL) => (open(path, flags, mode)?, false),
        Err(error) => return Err(error.into()),
    };
    let largest = *SIZES.last().unwrap_or(&BLOCK);
    let mut buffer = base::Buffer::with_capacity(largest);
    let mut random = base::Random::new(1);
    random.fill(buffer.extend_zeroed(largest));
    // Written, not only allocated: the first write to an allocated block changes the file system's own books.
    match fallocate(&file, FallocateFlags::empty(), 0, file_bytes) {
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error.into()),
    }
    let mut at = 0;
    while at < file_bytes {
        write_whole(&file, buffer.bytes(), at)?;
        at += largest as u64;
    }
    fdatasync(&file)?;
    let mut rows = Vec::new();
    for size in SIZES {
        let start = Instant::now();
        let mut laps = Vec::new();
        let mut at = 0;
        while start.elapsed() < each {
            let lap = Instant::now();
            write_whole(&file, &buffer.bytes()[..size], at)?;
            fdatasync(&file)?;
            laps.push(lap.elapsed());
            at = if at + 2 * size as u64 > file_bytes { 0 } else { at + size as u64 };
        }
        let seconds = start.elapsed().as_secs_f64();
        laps.sort_unstable();
        let p50_us = laps[laps.len() / 2].as_secs_f64() * 1e6;
        rows.push(Row { size, p50_us, bytes_per_second: (laps.len() * size) as f64 / seconds });
    }
    Ok(Probe { is_direct, rows })
}

fn write_whole(file: &rustix::fd::OwnedFd, bytes: &[u8], at: u64) -> io::Result<()> {
    // A short write to a regular file means the disk is full or worse: not a speed to report.
    let count = pwrite(file, bytes, at)?;
    if count != bytes.len() {
        return Err(io::Error::other("the disk took only a part of a write"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_waited_for_no_longer_than_allowed() {
        let settled = |bound, quiet, most| {
            let [bound, quiet, most] = [bound, quiet, most].map(Duration::from_millis);
            settle(&std::env::temp_dir(), bound, quiet, most).unwrap()
        };
        let quiet = settled(60_000, 20, 60_000);
        assert!(quiet.seconds >= 0.02 && quiet.longest_ms > 0.0, "{quiet:?}");
        // No flush takes no time.
        let never = settled(0, 60_000, 30);
        assert!((0.03..60.0).contains(&never.seconds) && never.longest_ms > 0.0, "{never:?}");
    }

    #[test]
    fn one_of_several_writers_waits_too() {
        assert!(flush_among(&std::env::temp_dir(), 2).unwrap() > 0.0);
    }

    #[test]
    fn every_size_gets_a_row() {
        let path = std::env::temp_dir().join(format!("leveret-probe-test-{}", std::process::id()));
        let probe = measure_file(&path, 16 << 20, Duration::from_millis(5)).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(probe.rows.len(), SIZES.len());
        assert!(probe.rows.iter().all(|row| row.p50_us > 0.0 && row.bytes_per_second > 0.0), "{probe:?}");
        assert!(probe.bytes_per_second() >= probe.rows[0].bytes_per_second);
    }
}
