//! A disk with a history, for tests that look at what lies on it byte by byte.

use super::{START, batch, reopen, small};
use journal::*;

/// A batch as (log, base, length).
pub type Written = (u32, u64, usize);

/// The part of a batch that is compared.
pub fn key(batch: &Sealed) -> Written {
    (batch.log.0, batch.base.0, batch.len)
}

/// A disk whose one journal file has been used before, so that old bytes lie behind what is written; the start to open
/// it with, and what is committed.
pub fn used_disk(limits: Limits) -> (FaultyDisk, Journal, Start, Vec<Written>) {
    let disk = FaultyDisk::new(1);
    let (mut journal, ..) = reopen(&disk, limits, START);
    let mut places = Vec::new();
    let mut base = 0;
    // The first file is small and not used again; then two that take turns.
    while journal.counters().rolls < 4 {
        let old = batch(9, base, 6_000);
        base += 6_000;
        journal.write(&disk, &[old], &mut places).unwrap();
        if let Some(file) = journal.take_rolled().last() {
            journal.release(*file);
        }
    }
    let from = places[0].file;
    let mut committed = vec![(9, base - 6_000, 6_000)];
    for round in 0..3 {
        let batches = [batch(1, round * 64, 64), batch(2, round * 800, 800)];
        journal.write(&disk, &batches, &mut places).unwrap();
        committed.extend(batches.iter().map(key));
    }
    (disk, journal, Start { from, keep: from, ..START }, committed)
}

/// Groups of up to 64 KiB are packed, or only those of up to 1 KiB.
pub fn limits(packed: bool) -> Limits {
    Limits { packed_bytes_max: if packed { 64 << 10 } else { 1 << 10 }, ..small() }
}

/// Where the next group will go, and the file it goes to.
pub fn end(journal: &Journal) -> (FileName, u64) {
    let file = journal.files().next_back().unwrap();
    (file.name(), file.end)
}
