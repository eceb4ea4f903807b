//! The use of the machine by a process, or by several together: CPU time in nanoseconds and resident memory, as Linux's `/proc` tells it.
//!
//! CPU time is the sum of `/proc/PID/task/*/schedstat`: `/proc/PID/stat` counts in ticks of 10 ms, too coarse for a
//! run of a second. A thread that ended takes its time with it, so [`Process`] remembers the most it saw of each.

use std::collections::BTreeMap;
use std::fs;
use std::io;

/// Processes being watched: the broker's, or those of all nodes of a cluster.
#[derive(Debug)]
pub struct Process {
    pids: Vec<u32>,
    /// CPU nanoseconds by thread, threads that ended included. No two processes have a thread of one number.
    threads: BTreeMap<u32, u64>,
}

/// The use of all of them up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// CPU time of all threads, nanoseconds.
    pub cpu_ns: u64,
    /// User time in the kernel's clock ticks (10 ms).
    pub user_ticks: u64,
    /// Kernel time in the kernel's clock ticks (10 ms).
    pub system_ticks: u64,
    /// Resident memory, bytes.
    pub rss: u64,
}

impl Process {
    /// Watches the process `pid`.
    pub fn new(pid: u32) -> Process {
        Process::several(vec![pid])
    }

    /// Watches these processes as one.
    pub fn several(pids: Vec<u32>) -> Process {
        Process { pids, threads: BTreeMap::new() }
    }

    /// Their ids.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// Their use so far.
    ///
    /// # Errors
    /// One of them is gone, or is not ours to look at.
    pub fn usage(&mut self) -> io::Result<Usage> {
        let mut usage = Usage::default();
        for pid in self.pids.clone() {
            let (user_ticks, system_ticks, rss) = self.look(pid)?;
            usage.user_ticks += user_ticks;
            usage.system_ticks += system_ticks;
            usage.rss += rss;
        }
        usage.cpu_ns = self.threads.values().sum();
        Ok(usage)
    }

    /// Takes note of the threads of one; its user and system ticks and its resident memory.
    fn look(&mut self, pid: u32) -> io::Result<(u64, u64, u64)> {
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            let entry = entry?;
            let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A thread may end between the listing and the reading.
            let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
            self.threads.insert(thread, first_number(&text).ok_or_else(|| unreadable("schedstat"))?);
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (user_ticks, system_ticks) = ticks(&stat).ok_or_else(|| unreadable("stat"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let rss = field_bytes(&status, "VmRSS:").ok_or_else(|| unreadable("status"))?;
        Ok((user_ticks, system_ticks, rss))
    }

    /// How often they read from files so far: sockets are received from, and do not count.
    ///
    /// # Errors
    /// As of [`Process::usage`].
    pub fn reads(&self) -> io::Result<u64> {
        let mut all = 0;
        for pid in &self.pids {
            let text = fs::read_to_string(format!("/proc/{pid}/io"))?;
            let line = text.lines().find_map(|line| line.strip_prefix("syscr:"));
            all += line.and_then(first_number).ok_or_else(|| unreadable("io"))?;
        }
        Ok(all)
    }
}

fn unreadable(file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc file {file} is not in the known form"))
}

fn first_number(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// User and kernel ticks of a `stat` line: fields 14 and 15, counted behind the command name, which may hold anything.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The bytes of a `status` line that is given in kB.
fn field_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    first_number(line).map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 250 31 0 0 20 0";
        assert_eq!(ticks(stat), Some((250, 31)));
        assert_eq!(ticks("7 no name"), None);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t    12 kB\n";
        assert_eq!(field_bytes(status, "VmRSS:"), Some(12_288));
        assert_eq!(field_bytes(status, "VmSwap:"), None);
    }

    #[test]
    fn own_usage_grows_with_work() {
        let mut own = Process::new(std::process::id());
        let before = own.usage().unwrap();
        let mut sum = 0u64;
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 60 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        let after = own.usage().unwrap();
        assert!(after.cpu_ns - before.cpu_ns > 5_000_000, "{before:?} {after:?}");
        assert!(after.rss > 100_000);
    }

    #[test]
    fn the_use_of_several_is_their_sum() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (own, other) = (std::process::id(), child.id());
        let rss = |pids: Vec<u32>| Process::several(pids).usage().unwrap().rss;
        let (one, both) = (rss(vec![own]), rss(vec![own, other]));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(both > one, "{both} {one}");
        assert!(Process::several(vec![own, u32::MAX - 1]).usage().is_err());
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(Process::new(u32::MAX - 1).usage().is_err());
    }
}
