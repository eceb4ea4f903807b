//! Memory and disk space: measured once an interval, compared with the limits, told when that changes.
//!
//! Judging is a value ([`Alarms`]); measuring ([`Meter`]) reads the kernel's files. Each resource has its own alarm:
//! one clearing does not let publishers go while the other holds.

use crate::config::{Config, Limit, value};
use crate::log::level::Level;
use node::turn::Raised;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A measurement of the machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Memory this process has resident.
    pub memory_used: u64,
    /// Disk space it may still write.
    pub disk_free: u64,
}

/// The limits and which of them are passed.
#[derive(Clone, Debug)]
pub struct Alarms {
    /// Bytes of memory allowed.
    pub memory_limit: u64,
    /// Bytes of free disk demanded.
    pub disk_limit: u64,
    raised: Raised,
    node: String,
}

impl Alarms {
    /// None raised.
    pub fn new(memory_limit: u64, disk_limit: u64, node: &str) -> Alarms {
        Alarms { memory_limit, disk_limit, raised: Raised::default(), node: node.to_owned() }
    }

    /// Which alarms hold.
    pub fn raised(&self) -> Raised {
        self.raised
    }

    /// Judges a sample; what is to be logged is appended to `lines`. True when an alarm was raised or cleared.
    pub fn judge(&mut self, sample: Sample, lines: &mut Vec<(Level, String)>) -> bool {
        let before = self.raised;
        let Sample { memory_used, disk_free } = sample;
        self.raised =
            Raised { memory: memory_used > self.memory_limit, disk: disk_free < self.disk_limit.max(1) };
        if self.raised.memory != before.memory {
            let state = if self.raised.memory { "set" } else { "clear" };
            let limit = self.memory_limit;
            let text = format!("vm_memory_high_watermark {state}. Memory used:{memory_used} allowed:{limit}");
            lines.push((Level::Info, text));
            self.announce("memory", self.raised.memory, lines);
        }
        if self.raised.disk != before.disk {
            let state = if self.raised.disk { "insufficient" } else { "sufficient" };
            let limit = self.disk_limit;
            let text = format!("Free disk space is {state}. Free bytes: {disk_free}. Limit: {limit}");
            lines.push((Level::Info, text));
            self.announce("disk", self.raised.disk, lines);
        }
        self.raised != before
    }

    /// Whether so much more memory is used than allowed that blocking publishers is not enough: a quarter more.
    pub fn is_far_beyond(&self, sample: Sample) -> bool {
        // At 0 publishers are blocked for good, whatever is used.
        self.memory_limit > 0 && sample.memory_used > self.memory_limit.saturating_add(self.memory_limit / 4)
    }

    fn announce(&self, resource: &str, is_raised: bool, lines: &mut Vec<(Level, String)>) {
        let node = &self.node;
        let stars = "*".repeat(58);
        let text = match is_raised {
            true => format!(
                "{resource} resource limit alarm set on node {node}.\n\n{stars}\n\
                 *** Publishers will be blocked until this alarm clears ***\n{stars}\n"
            ),
            false => format!("{resource} resource limit alarm cleared on node {node}"),
        };
        lines.push((Level::Warning, text));
    }
}

/// Looks at this machine.
#[derive(Clone, Debug)]
pub struct Meter {
    folder: PathBuf,
    page_bytes: u64,
}

impl Meter {
    /// One that measures the disk `folder` is on.
    pub fn new(folder: &Path) -> Meter {
        Meter { folder: folder.to_owned(), page_bytes: rustix::param::page_size() as u64 }
    }

    /// Measures.
    ///
    /// # Errors
    /// The error of reading `/proc/self/statm` or of asking for the filesystem's free space.
    pub fn sample(&self) -> std::io::Result<Sample> {
        let statm = std::fs::read_to_string("/proc/self/statm")?;
        let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
        let disk = rustix::fs::statvfs(&self.folder)?;
        Ok(Sample { memory_used: pages * self.page_bytes, disk_free: disk.f_bavail * disk.f_frsize })
    }
}

/// The limits of memory and of free disk; an administrator may change them while the node runs.
pub struct Watermarks {
    total: u64,
    limits: Mutex<(Limit, Limit)>,
}

impl Watermarks {
    /// The limits of the configuration, on this machine.
    pub fn new(config: &Config) -> Watermarks {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let total = config.memory_total_bytes.unwrap_or_else(|| memory_total(&read));
        Watermarks { total, limits: Mutex::new((config.memory_limit, config.disk_limit)) }
    }

    /// No state here is broken by a thread that panicked.
    fn lock(&self) -> MutexGuard<'_, (Limit, Limit)> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit of memory, as it was said.
    pub fn memory(&self) -> Limit {
        self.lock().0
    }

    /// Bytes of memory there are.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes of memory allowed, and bytes of free disk demanded.
    pub fn bytes(&self) -> (u64, u64) {
        let (memory, disk) = *self.lock();
        let memory = match memory {
            // RabbitMQ's way to block publishers for good.
            Limit::Share(0.0) => 0,
            limit => limit.of(self.total),
        };
        (memory, disk.of(self.total))
    }

    /// Bytes of memory that connections share; none: any number, as no publisher is let through then.
    pub fn shared_bytes(&self) -> Option<u64> {
        Some(self.bytes().0).filter(|bytes| *bytes > 0)
    }

    /// Changes the limit of memory: a share of what there is, or `absolute` and bytes.
    ///
    /// # Errors
    /// The reason why `limit` is no limit of memory.
    pub fn set_memory(&self, limit: &str) -> Result<(), String> {
        self.lock().0 = match limit.strip_prefix("absolute ") {
            Some(limit) => Limit::Bytes(value::bytes(limit)?),
            None => Limit::Share(value::decimal(limit, 0.0, 1.0)?),
        };
        Ok(())
    }

    /// Changes the limit of free disk: bytes, or `mem_relative` and a share of the memory there is.
    ///
    /// # Errors
    /// The reason why `limit` is no limit of disk.
    pub fn set_disk(&self, limit: &str) -> Result<(), String> {
        self.lock().1 = match limit.strip_prefix("mem_relative ") {
            Some(limit) => Limit::Share(value::decimal(limit, 0.0, 1000.0)?),
            None => Limit::Bytes(value::bytes(limit)?),
        };
        Ok(())
    }
}

/// Bytes of memory there are for this process: the machine's, or what its control group allows if that is less.
pub fn memory_total(read: &dyn Fn(&str) -> Option<String>) -> u64 {
    let machine = read("/proc/meminfo").as_deref().and_then(meminfo_total);
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().flat_map(|line| group_limits(line, read));
    let least = machine.into_iter().chain(limits).min();
    // A machine that does not tell gets a cautious guess, as RabbitMQ does: one gigabyte.
    least.unwrap_or(1 << 30)
}

fn meminfo_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The limits of the group that a line of `/proc/self/cgroup` names (`0::/path` or `4:memory:/path`), and of those
/// around it. In a container the group's own folder is where the root usually is.
fn group_limits(line: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        other if other.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let ancestors = Path::new(path).ancestors().filter_map(Path::to_str);
    let texts = ancestors.filter_map(|group| read(&format!("{root}{}/{file}", group.trim_end_matches('/'))));
    // No limit is written `max`, or as a number larger than any memory.
    texts.filter_map(|text| text.trim().parse().ok()).filter(|limit| *limit < 1 << 60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(alarms: &mut Alarms, memory_used: u64, disk_free: u64) -> (bool, String) {
        let mut lines = Vec::new();
        let changed = alarms.judge(Sample { memory_used, disk_free }, &mut lines);
        (changed, lines.into_iter().map(|(_, text)| text + "\n").collect())
    }

    #[test]
    fn far_beyond_is_a_quarter_more() {
        let is_far = |memory_limit, memory_used| {
            Alarms::new(memory_limit, 50, "rabbit@hare").is_far_beyond(Sample { memory_used, disk_free: 0 })
        };
        assert!(!is_far(100, 125) && is_far(100, 126));
        assert!(!is_far(0, 1000) && !is_far(u64::MAX, u64::MAX));
    }

    #[test]
    fn each_resource_has_its_own_alarm() {
        let mut alarms = Alarms::new(100, 50, "rabbit@hare");
        let mut check = |memory_used, disk_free, changes: bool, raised: &[&str]| {
            let (changed, text) = judge(&mut alarms, memory_used, disk_free);
            assert_eq!((changed, text.is_empty()), (changes, !changes), "{text}");
            assert_eq!(alarms.raised().names(), raised);
        };
        check(100, 50, false, &[]);
        check(101, 50, true, &["memory"]);
        check(102, 50, false, &["memory"]);
        check(102, 49, true, &["memory", "disk"]);
        check(100, 49, true, &["disk"]);
        check(100, 50, true, &[]);
    }

    #[test]
    fn operators_find_the_words_they_know() {
        let mut alarms = Alarms::new(100, 50, "rabbit@hare");
        let (_, text) = judge(&mut alarms, 101, 1);
        for part in [
            "vm_memory_high_watermark set. Memory used:101 allowed:100",
            "memory resource limit alarm set on node rabbit@hare",
            "Publishers will be blocked until this alarm clears",
            "Free disk space is insufficient. Free bytes: 1. Limit: 50",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        let (_, text) = judge(&mut alarms, 1, 50);
        assert!(text.contains("disk resource limit alarm cleared on node rabbit@hare"), "{text}");
    }

    #[test]
    fn limits_change_while_the_node_runs() {
        let limits = Mutex::new((Limit::Share(0.5), Limit::Bytes(7)));
        let watermarks = Watermarks { total: 1000, limits };
        assert_eq!(watermarks.bytes(), (500, 7));
        let check = |result: Result<(), String>, is_taken: bool, expected: (u64, u64)| {
            assert_eq!((result.is_ok(), watermarks.bytes()), (is_taken, expected), "{result:?}");
        };
        check(watermarks.set_memory("0.25"), true, (250, 7));
        check(watermarks.set_memory("1.5"), false, (250, 7));
        check(watermarks.set_memory("absolute 2KB"), true, (2000, 7));
        check(watermarks.set_memory("absolute"), false, (2000, 7));
        check(watermarks.set_disk("mem_relative 1.5"), true, (2000, 1500));
        check(watermarks.set_disk("3MiB"), true, (2000, 3 << 20));
        check(watermarks.set_disk("plenty"), false, (2000, 3 << 20));
        assert_eq!(watermarks.shared_bytes(), Some(2000));
        check(watermarks.set_memory("0"), true, (0, 3 << 20));
        assert_eq!(watermarks.shared_bytes(), None);
    }

    #[test]
    fn memory_is_the_machines_or_the_containers() {
        let check = |files: &[(&str, &str)], expected: u64| {
            let read =
                |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
            assert_eq!(memory_total(&read), expected, "{files:?}");
        };
        let machine = ("/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\n");
        check(&[], 1 << 30);
        check(&[machine], 1_024_000);
        let second = ("/proc/self/cgroup", "0::/a/b\n");
        check(&[machine, second, ("/sys/fs/cgroup/a/b/memory.max", "max\n")], 1_024_000);
        check(&[machine, second, ("/sys/fs/cgroup/a/b/memory.max", "5000\n")], 5000);
        check(&[machine, second, ("/sys/fs/cgroup/a/memory.max", "6000\n")], 6000);
        check(&[machine, second, ("/sys/fs/cgroup/memory.max", "7000\n")], 7000);
        let first = ("/proc/self/cgroup", "5:cpu:/x\n4:memory:/a\n");
        check(&[machine, first, ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8000\n")], 8000);
        let none = ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
        check(&[machine, first, none], 1_024_000);
    }

    #[test]
    fn this_machine_can_be_measured() {
        let sample = Meter::new(&std::env::temp_dir()).sample().expect("measured");
        assert!(sample.memory_used > 100_000 && sample.disk_free > 0, "{sample:?}");
    }
}
