//! Threads that step back: one that answers a dashboard does not take the processor from a shard that serves clients.
//!
//! A shard that hands out an answer wakes the thread that waits for it, on the same processor as likely as not. The
//! scheduler lets the woken thread go first, and it then worked on its list for milliseconds: most looks that took long
//! did nothing in that time. A thread that steps back waits for the shard to sleep or for its slice to end; its share
//! of the processor is the same.

/// This thread no longer goes before others when it is woken. Where the system does not know of that, all stays as it is.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "no safe crate here has this call")]
pub fn step_back() {
    // SAFETY: all zeroes is a value of this type, which holds numbers alone.
    let none: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value that outlives the call, which reads it; 0 is the calling thread.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const none) };
}

/// Other systems are not told.
#[cfg(not(target_os = "linux"))]
pub fn step_back() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_thread_steps_back_by_itself() {
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux tells");
            // The name, in brackets, may hold anything; the policy is the 41st field.
            let (_, rest) = stat.rsplit_once(") ").expect("a name");
            rest.split(' ').nth(38).and_then(|policy| policy.parse().ok()).unwrap_or(-1)
        };
        let changed = std::thread::spawn(move || {
            super::step_back();
            policy()
        });
        assert_eq!((changed.join().expect("runs"), policy()), (libc::SCHED_BATCH, libc::SCHED_OTHER));
    }
}
