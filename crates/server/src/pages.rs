//! The pages of this process: the kernel's list of mappings, and the pages of them that are in memory.
//!
//! Three kinds are told apart: pages of files (the program and its libraries), threads' stacks, and heaps of the C library.
//! Other memory (blocks that are mappings of their own, for the most part) belongs to the pool that counts it. The
//! kernel merges mappings that lie side by side, so that it is asked page by page for resident ones: a mapping alone
//! does not tell the part of it that is a stack.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Heaps of the C library besides the first begin at a multiple of this, and are no larger.
const HEAP: u64 = 64 << 20;

/// Bytes of a thread's stack, as Rust makes them.
const STACK: u64 = 2 << 20;

/// Of a page's entry of eight bytes: it is in memory.
const PRESENT: u64 = 1 << 63;

/// Entries that are read at once: the kernel holds up threads that want a new mapping meanwhile.
const ENTRIES: usize = 2048;

/// Bytes in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Of files.
    pub files: u64,
    /// Of threads' stacks.
    pub stacks: u64,
    /// Of heaps, whether in use or free; blocks that are mappings of their own are not among them.
    pub heaps: u64,
}

/// The memory that is resident, as far as the kernel tells.
pub fn resident() -> Resident {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Ok(pages) = File::open("/proc/self/pagemap") else { return Resident::default() };
    let mut resident = Resident::default();
    for (kind, start, end) in pieces(&maps) {
        let bytes = present(&pages, start, end);
        match kind {
            Kind::File => resident.files += bytes,
            Kind::Stack => resident.stacks += bytes,
            Kind::Heap => resident.heaps += bytes,
        }
    }
    resident
}

/// Bytes of the pages from `start` to `end` that are in memory.
fn present(pages: &File, start: u64, end: u64) -> u64 {
    let (mut at, mut count, mut bytes) = (start / PAGE, 0, [0; 8 * ENTRIES]);
    while at < end / PAGE {
        let wanted = ((end / PAGE - at) as usize).min(ENTRIES);
        let Ok(read) = pages.read_at(&mut bytes[..8 * wanted], 8 * at) else { return count * PAGE };
        if read < 8 {
            return count * PAGE;
        }
        let entries = bytes[..read].chunks_exact(8);
        count += entries.filter(|entry| is_present(entry)).count() as u64;
        at += read as u64 / 8;
    }
    count * PAGE
}

fn is_present(entry: &[u8]) -> bool {
    entry.try_into().is_ok_and(|entry| u64::from_le_bytes(entry) & PRESENT != 0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Stack,
    Heap,
}

/// A line of the kernel's list.
#[derive(Clone, Copy, Debug)]
struct Mapping<'a> {
    start: u64,
    end: u64,
    /// It can be neither read nor written: a guard, or what a heap may grow into.
    is_closed: bool,
    is_file: bool,
    name: &'a str,
}

impl<'a> Mapping<'a> {
    /// `START-END RIGHTS OFFSET DEVICE INODE  NAME`.
    fn read(line: &'a str) -> Option<Mapping<'a>> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let inode = words.nth(2)?;
        Some(Mapping {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            is_closed: rights.starts_with("---"),
            is_file: inode != "0",
            name: words.next().unwrap_or_default(),
        })
    }
}

/// The ranges of known kinds.
fn pieces(maps: &str) -> Vec<(Kind, u64, u64)> {
    let mappings: Vec<Mapping<'_>> = maps.lines().filter_map(Mapping::read).collect();
    let mut pieces = Vec::new();
    for (at, mapping) in mappings.iter().enumerate() {
        let Mapping { start, end, .. } = *mapping;
        match mapping.name {
            _ if mapping.is_closed => {}
            _ if mapping.is_file => pieces.push((Kind::File, start, end)),
            "[heap]" => pieces.push((Kind::Heap, start, end)),
            "[stack]" => pieces.push((Kind::Stack, start, end)),
            "" => {
                let before = at.checked_sub(1).and_then(|before| mappings.get(before));
                let after = mappings.get(at + 1);
                let is_guarded = before.is_some_and(|it| it.is_closed && it.end == start);
                let grows_until = after.filter(|it| it.is_closed && it.start == end).map(|it| it.end);
                anonymous(*mapping, is_guarded, grows_until, &mut pieces);
            }
            // The kernel's own, which cost nothing.
            _ => {}
        }
    }
    pieces
}

/// Adds the pieces of a mapping without a name, which may be several that lie side by side.
fn anonymous(
    mapping: Mapping<'_>,
    is_guarded: bool,
    grows_until: Option<u64>,
    pieces: &mut Vec<(Kind, u64, u64)>,
) {
    let Mapping { start, end, .. } = mapping;
    let mut rest_end = end;
    // The last heap in it is followed by what it may grow into, or has grown to its whole size.
    let last = (end - 1) / HEAP * HEAP;
    let is_heap = grows_until.is_some_and(|until| until >= last + HEAP) || end == last + HEAP;
    if last >= start && is_heap {
        pieces.push((Kind::Heap, last, end));
        rest_end = last;
    }
    if is_guarded && !start.is_multiple_of(HEAP) && rest_end > start {
        pieces.push((Kind::Stack, start, rest_end.min(start + STACK)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn mappings_are_told_apart() {
        let maps = "\
55d000000000-55d000010000 r-xp 00000000 08:01 123 /usr/bin/leveret
55d000020000-55d000030000 rw-p 00010000 08:01 123 /usr/bin/leveret
55d000040000-55d000080000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000300000 rw-p 00000000 00:00 0
7f0000300000-7f0004000000 ---p 00000000 00:00 0
7f0004001000-7f0004002000 ---p 00000000 00:00 0
7f0004002000-7f0004202000 rw-p 00000000 00:00 0
7f0005fff000-7f0006000000 ---p 00000000 00:00 0
7f0006000000-7f0006500000 rw-p 00000000 00:00 0
7f0006700000-7f0008100000 rw-p 00000000 00:00 0
7f0008100000-7f000c000000 ---p 00000000 00:00 0
7f0010000000-7f0014000000 rw-p 00000000 00:00 0
7f0020000000-7f0020100000 rw-p 00000000 00:00 0
7ffc00000000-7ffc00030000 rw-p 00000000 00:00 0 [stack]
7ffc00040000-7ffc00044000 r--p 00000000 00:00 0 [vvar]
";
        let found = pieces(maps);
        let expected = [
            (Kind::File, 0x55d0_0000_0000, 0x55d0_0001_0000),
            (Kind::File, 0x55d0_0002_0000, 0x55d0_0003_0000),
            (Kind::Heap, 0x55d0_0004_0000, 0x55d0_0008_0000),
            // A heap, and what it may grow into.
            (Kind::Heap, 0x7f00_0000_0000, 0x7f00_0030_0000),
            (Kind::Stack, 0x7f00_0400_2000, 0x7f00_0420_2000),
            // A stack that lies below a block of somebody's.
            (Kind::Stack, 0x7f00_0600_0000, 0x7f00_0620_0000),
            // A heap that lies above a block of somebody's.
            (Kind::Heap, 0x7f00_0800_0000, 0x7f00_0810_0000),
            // A heap that has grown to its whole size.
            (Kind::Heap, 0x7f00_1000_0000, 0x7f00_1400_0000),
            (Kind::Stack, 0x7ffc_0000_0000, 0x7ffc_0003_0000),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_thread_touches_of_its_stack_is_seen() {
        const THREADS: u64 = 8;
        const DEEP: usize = 3 << 19;
        let (have_touched, may_end) =
            (Barrier::new(THREADS as usize + 1), Barrier::new(THREADS as usize + 1));
        let found = std::thread::scope(|threads| {
            for _ in 0..THREADS {
                threads.spawn(|| {
                    let deep = [1_u8; DEEP];
                    assert_eq!(std::hint::black_box(&deep).iter().filter(|byte| **byte == 1).count(), DEEP);
                    have_touched.wait();
                    may_end.wait();
                });
            }
            have_touched.wait();
            let found = resident();
            may_end.wait();
            found
        });
        // More than all other tests' threads have.
        let least = THREADS * DEEP as u64;
        assert!((least..2 * least).contains(&found.stacks) && found.files > 100 << 10, "{found:?}");
    }
}
