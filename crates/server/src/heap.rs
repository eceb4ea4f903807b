//! How the C library keeps freed memory: the one place that tells it.
//!
//! It raises the size from which on a block is a mapping of its own, and goes back to the system when freed, each time
//! such a block is freed, up to 32 MiB. From then on buffers of that size lie between small blocks, and what a burst took
//! stays with the process for ever: 1.2 GB after 800 MB of transient messages had come and gone, and a memory alarm that
//! never clears. With the sizes said once, it is 60 MB (`docs/decisions/0002-system-allocator.md`); free pages between
//! smaller blocks are given back while the memory alarm holds.

/// Bytes from which on a block of memory is a mapping of its own, and free bytes at the end of a heap from which on they
/// are given back: what the C library begins with.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const GIVEN_BACK_MIN: libc::c_int = 128 << 10;

/// Has the C library give back what is freed. To be called before the first thread is started.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the C library has no other way to be told")]
pub fn give_back() {
    for option in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: takes two numbers and no pointer, changes nothing but the C library's own settings, and takes their lock.
        // A value it does not like is refused with 0, and things stay as they were.
        unsafe { libc::mallopt(option, GIVEN_BACK_MIN) };
    }
}

/// Has the C library give back all free pages, those between blocks too, from any thread. Others that allocate meanwhile
/// may wait for as long as it takes to walk the free blocks: for when too much memory is used.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the C library has no other way to be told")]
pub fn trim() {
    // SAFETY: takes a number and no pointer, and gives back pages of free blocks alone, under the heaps' own locks.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries have no such sizes.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

/// Other C libraries are not told.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn trim() {}
