//! How the C library keeps freed memory: the one place that tells it.
//!
//! It raises the size from which on a block is a mapping of its own, and goes back to the system when freed, each time
//! such a block is freed, up to 32 MiB. From then on buffers of that size lie between small blocks, and what a burst took
//! stays with the process: 1.2 GB after 800 MB of transient messages had come and gone, and a memory alarm that never
//! clears. To say a small size once for all would give it back at once, and cost a mapping for each large batch that is
//! handed out (`docs/decisions/0002-system-allocator.md`). So free pages are given back when nobody is in a hurry: once
//! a node that was busy is idle, and while the memory alarm holds.
//!
//! It also makes a heap for each thread that allocates, up to eight for a processor. Batches wander from the shard that fills them to
//! threads that write and move them, and each heap keeps what it had at its worst: a node has as many heaps as shards.
//!
//! Small blocks that are freed it keeps unmerged, and merges all of them once somebody allocates a kilobyte: a shard did so for
//! 2 to 5 ms with the blocks an import had left. It is told to merge each as it is freed, in the thread that frees it.

/// Nanoseconds of CPU in an interval between looks at the machine, beyond which a node is busy.
const BUSY_NS: u64 = 20_000_000;

/// Intervals in a row in which a node that was busy is not, after which it is idle.
const IDLE_INTERVALS: u32 = 2;

/// Knows when free pages are to be given back.
#[derive(Debug, Default)]
pub struct Thrift {
    /// CPU the process had used at the end of the last interval, in nanoseconds.
    used_ns: u64,
    /// Intervals since it was busy; at [`IDLE_INTERVALS`] all is given back, once.
    idle: u32,
}

impl Thrift {
    /// Called once an interval with the CPU the process has used so far, in nanoseconds: true when a node that was busy is
    /// idle and it is time to [`trim`].
    pub fn is_due(&mut self, used_ns: u64) -> bool {
        let used = used_ns.saturating_sub(std::mem::replace(&mut self.used_ns, used_ns));
        self.idle = if used > BUSY_NS { 0 } else { self.idle.saturating_add(1) };
        self.idle == IDLE_INTERVALS
    }
}

/// CPU this process has used, in nanoseconds.
pub fn used_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Has the C library give back all free pages, those between blocks too, from any thread. Others that allocate meanwhile
/// may wait for as long as it takes to walk the free blocks.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the C library has no other way to be told")]
pub fn trim() {
    // SAFETY: takes a number and no pointer, and gives back pages of free blocks alone, under the heaps' own locks.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries are not told.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn trim() {}

/// Has all threads share this many heaps at most, those that there are among them: to be called before the threads are there.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the C library has no other way to be told")]
pub fn share(heaps: u32) {
    let heaps = i32::try_from(heaps.max(1)).unwrap_or(i32::MAX);
    // SAFETY: takes two numbers and no pointer, and sets a bound under the heaps' own locks. Where it is refused, all is as it was.
    let _is_set = unsafe { libc::mallopt(libc::M_ARENA_MAX, heaps) };
}

/// Other C libraries are not told.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn share(_: u32) {}

/// Has small blocks merged with their neighbours as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the C library has no other way to be told")]
pub fn merge_at_once() {
    // SAFETY: takes two numbers and no pointer, and sets a bound under the heaps' own locks. Where it is refused, all is as it was.
    let _is_set = unsafe { libc::mallopt(libc::M_MXFAST, 0) };
}

/// Other C libraries are not told.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn merge_at_once() {}

/// Bytes of heaps that are in use, blocks that are mappings of their own apart. The C library goes through its free blocks for
/// that, and threads that allocate from the same heap wait.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the C library has no other way to be asked")]
pub fn in_use_bytes() -> u64 {
    // SAFETY: takes nothing, and answers with plain numbers that it counts under the heaps' own locks.
    unsafe { libc::mallinfo2() }.uordblks as u64
}

/// Other C libraries are not asked.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn in_use_bytes() -> u64 {
    // All of a heap counts as in use where nobody can tell.
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::Thrift;

    #[test]
    fn gives_back_once_when_idle() {
        let mut thrift = Thrift::default();
        let steps = [(100, false), (101, false), (103, true), (104, false), (204, false), (304, false)];
        let later = [(305, false), (306, true), (307, false)];
        for (used_ms, expected) in steps.into_iter().chain(later) {
            assert_eq!(thrift.is_due(used_ms * 1_000_000), expected, "{used_ms} ms");
        }
    }
}
