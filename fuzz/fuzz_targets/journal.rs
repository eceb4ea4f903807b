//! Opening a journal whose one file holds any bytes. So that fuzzing gets past the checksums, a group header that
//! stands at the beginning of a block is given the salt and the sums it should have, unless the first byte says not to.
#![no_main]

use base::Buffer;
use base::crc::crc32c;
use base::id::{LogId, LogIndex};
use journal::{Batch, Disk, FaultyDisk, FileId, FileKind, FileName, Journal, Limits, Start};
use libfuzzer_sys::fuzz_target;
use std::io::IoSlice;
use std::sync::LazyLock;

const BLOCK: usize = 4096;
const START: Start = Start { secret: 7, from: FileId(0) };
const LIMITS: Limits = Limits {
    file_bytes: 64 << 10,
    first_file_bytes: 64 << 10,
    spare_files: 0,
    spare_files_max: 1,
    live_files_max: 4,
    packed_bytes_max: 1 << 10,
    inline_bytes_max: 16 << 10,
    bulk_bytes_max: 64 << 10,
    prepare_bytes: 64 << 10,
    window_bytes: 16 << 10,
};

/// A journal with one file, its name, and the salt of that file.
static WRITTEN: LazyLock<(FaultyDisk, FileName, [u8; 8])> = LazyLock::new(|| {
    let disk = FaultyDisk::new(1);
    let (mut journal, _) = Journal::open(&disk, LIMITS, START, &mut |_| {}).expect("an empty disk");
    let mut batch = Batch::new(LogId(1), LogIndex(0), Buffer::default());
    batch.records().extend(&[1; 64]);
    journal.write(&disk, &[batch.seal(1)], &mut Vec::new()).expect("room");
    let name = disk.list(FileKind::Journal).expect("no faults")[0];
    let mut salt = [0; 8];
    disk.read_at(name, 24, &mut salt).expect("no faults");
    (disk, name, salt)
});

fn mend(bytes: &mut [u8], salt: [u8; 8]) {
    for (block, group) in bytes.chunks_mut(BLOCK).enumerate() {
        if group.len() < 64 || !group.starts_with(b"LV") {
            continue;
        }
        group[0..4].copy_from_slice(b"LVGR");
        group[8..16].copy_from_slice(&salt);
        group[16..24].copy_from_slice(&1u64.to_le_bytes());
        group[24..32].copy_from_slice(&((block as u64 + 1) * BLOCK as u64).to_le_bytes());
        let count = u32::from_le_bytes([group[48], group[49], 0, 0]) as usize % 64;
        group[48..52].copy_from_slice(&(count as u32).to_le_bytes());
        let end = 64 + 48 * count;
        if end <= group.len() {
            let crc = crc32c(&group[8..end]);
            group[4..8].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let (disk, name, salt) = &*WRITTEN;
    let disk = disk.fork();
    let mut bytes = bytes[..bytes.len().min(15 * BLOCK)].to_vec();
    if how & 1 == 0 {
        mend(&mut bytes, *salt);
    }
    disk.write_at(*name, BLOCK as u64, &[IoSlice::new(&bytes)]).expect("no faults");
    for _ in 0..2 {
        let opened = Journal::open(&disk, LIMITS, START, &mut |found| {
            assert_eq!(crc32c(&found.memory[found.records.clone()]), found.place.crc);
            assert!(found.records.start.is_multiple_of(8));
        });
        let Ok((mut journal, _)) = opened else { return };
        let mut batch = Batch::new(LogId(1), LogIndex(64), Buffer::default());
        batch.records().extend(&[2; 8]);
        journal.write(&disk, &[batch.seal(2)], &mut Vec::new()).expect("room");
    }
});
