//! The machine a figure was measured on, and its properties that make a figure doubtful.

use rustix::fs::statfs;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// The magic number of a file system in memory, from `linux/magic.h`.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The properties of the machine that are printed above every table.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors this process may use.
    pub processors: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Runnable tasks averaged over the last 1, 5 and 15 minutes.
    pub load_average: [f64; 3],
}

impl Machine {
    /// This machine now. Properties that cannot be read are empty.
    pub fn now() -> Machine {
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = processor.lines().find(|line| line.starts_with("model name"));
        let processor = processor.and_then(|line| line.split_once(": ")).map_or("", |(_, name)| name);
        Machine {
            processor: processor.to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            load_average: load_average(&fs::read_to_string("/proc/loadavg").unwrap_or_default()),
        }
    }

    /// Why figures taken now deserve doubt, or nothing. `folder` is where the broker keeps its data, where that is known.
    pub fn warnings(&self, folder: Option<&Path>) -> Vec<String> {
        let mut warnings = Vec::new();
        let busy = self.load_average[0];
        if busy > 0.3 * self.processors as f64 {
            warnings.push(format!(
                "the machine is busy: load average {busy:.2} on {} processors; wall-clock figures are lower bounds",
                self.processors
            ));
        }
        if cfg!(debug_assertions) {
            warnings.push("the load generator is a debug build: it may be slower than the broker".to_owned());
        }
        if folder.is_some_and(is_in_memory) {
            warnings.push("the data folder is on tmpfs: nothing is flushed to a disk".to_owned());
        }
        warnings
    }
}

/// Whether `folder` lies on a file system without a disk.
pub fn is_in_memory(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|status| status.f_type as u64 == TMPFS_MAGIC)
}

fn load_average(text: &str) -> [f64; 3] {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().unwrap_or(0.0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_average_is_read() {
        assert_eq!(load_average("0.50 1.25 20.00 3/127 4711\n"), [0.5, 1.25, 20.0]);
        assert_eq!(load_average(""), [0.0; 3]);
    }

    #[test]
    fn a_busy_machine_is_named() {
        let quiet = Machine { processors: 4, load_average: [0.1; 3], ..Machine::now() };
        let busy = Machine { load_average: [3.0; 3], ..quiet.clone() };
        let of =
            |machine: &Machine| machine.warnings(None).iter().any(|warning| warning.contains("load average"));
        assert!(!of(&quiet) && of(&busy));
    }
}
