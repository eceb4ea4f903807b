//! How long commits take and how large they are, counted in groups, and the longest of them: a few atomic operations for
//! a flush, which takes longer than a thousand of them.

use management::{COMMIT_BOUNDS, FLUSH_BOUNDS_US};
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct Flushes {
    times: [AtomicU64; FLUSH_BOUNDS_US.len() + 1],
    sizes: [AtomicU64; COMMIT_BOUNDS.len() + 1],
    sum_ns: AtomicU64,
    longest_ns: AtomicU64,
}

fn group(bounds: &[u64], value: u64) -> usize {
    bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len())
}

impl Flushes {
    /// A group of so many bytes was committed, which took so long.
    pub fn add(&self, took_ns: u64, bytes: u64) {
        self.times[group(&FLUSH_BOUNDS_US, took_ns / 1000)].fetch_add(1, Ordering::Relaxed);
        self.sizes[group(&COMMIT_BOUNDS, bytes)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(took_ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(took_ns, Ordering::Relaxed);
    }

    /// By how long they took.
    pub fn times(&self) -> [u64; FLUSH_BOUNDS_US.len() + 1] {
        self.times.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// By how large they were.
    pub fn sizes(&self) -> [u64; COMMIT_BOUNDS.len() + 1] {
        self.sizes.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Nanoseconds of all.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns.load(Ordering::Relaxed)
    }

    /// Nanoseconds of the longest since the start; 0: there was none.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_in_its_group() {
        let flushes = Flushes::default();
        for (took_us, bytes) in [(20, 1000), (2_000_000, 100_000_000), (21, 1001)] {
            flushes.add(took_us * 1000, bytes);
        }
        let (times, sizes) = (flushes.times(), flushes.sizes());
        assert_eq!((times[0], times[1], times[12]), (1, 1, 1));
        assert_eq!((sizes[0], sizes[1], sizes[8]), (1, 1, 1));
        assert_eq!((times.iter().sum::<u64>(), flushes.sum_ns()), (3, 2_000_041_000));
        assert_eq!(flushes.longest_ns(), 2_000_000_000, "a shorter one that follows changes nothing");
    }
}
