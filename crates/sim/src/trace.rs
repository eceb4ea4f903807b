//! The events of a run, in order: the last lines for finding the cause of a failure, and a hash of all of them, by
//! which two runs of a seed are compared.

use std::collections::VecDeque;

/// A record of a run.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    count: u64,
    kept: VecDeque<String>,
    kept_max: usize,
}

impl Trace {
    /// An empty one that keeps the last `kept_max` lines.
    pub fn new(kept_max: usize) -> Trace {
        Trace { hash: 0xCBF2_9CE4_8422_2325, count: 0, kept: VecDeque::new(), kept_max }
    }

    /// Adds a line.
    pub fn note(&mut self, line: String) {
        // FNV-1a: simple, and the same on every machine.
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        self.count += 1;
        if self.kept_max > 0 {
            if self.kept.len() == self.kept_max {
                self.kept.pop_front();
            }
            self.kept.push_back(format!("{:6} {line}", self.count));
        }
    }

    /// The hash of every line so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The last lines, oldest first.
    pub fn into_lines(self) -> Vec<String> {
        self.kept.into()
    }
}
