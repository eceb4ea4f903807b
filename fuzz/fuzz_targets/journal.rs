//! Opening a journal whose one file holds any bytes: the input itself, or a whole journal with the edits the input
//! lists (three bytes each: where, and what). So that fuzzing gets past the checksums, what begins like a group is given
//! the salt and the sum it should have, and no more batches and marks than there are bytes of, unless the first byte says not to.
#![no_main]

use base::Buffer;
use base::crc::crc32c;
use base::id::{LogId, LogIndex};
use journal::{Batch, Disk, FaultyDisk, FileId, FileKind, FileName, Journal, Limits, Mark, Sealed, Start};
use libfuzzer_sys::fuzz_target;
use std::io::IoSlice;
use std::sync::LazyLock;

const BLOCK: usize = 4096;
const FILE: usize = 8 * BLOCK;
const START: Start = Start { secret: 7, from: FileId(0), keep: FileId(0) };
const LIMITS: Limits = Limits {
    file_bytes: FILE as u64,
    first_file_bytes: FILE as u64,
    spare_files: 0,
    spare_files_max: 1,
    packed_bytes_max: 1 << 10,
    inline_bytes_max: 8 << 10,
    bulk_bytes_max: 64 << 10,
    prepare_bytes: FILE,
    window_bytes: 12 << 10,
};

fn batch(log: u32, base: u64, len: usize) -> Sealed {
    let mut batch = Batch::new(LogId(log), LogIndex(base), Buffer::default());
    batch.records().extend_zeroed(len);
    batch.seal(1)
}

fn marked(log: u32, base: u64, len: usize) -> Sealed {
    Sealed { mark: Some(Mark([log as u8; Mark::LEN])), ..batch(log, base, len) }
}

/// A journal of one file with packed, spread and bulk batches, with and without marks, one of which goes back; the file's name and
/// bytes, and its salt.
static WRITTEN: LazyLock<(FaultyDisk, FileName, Vec<u8>, [u8; 8])> = LazyLock::new(|| {
    let disk = FaultyDisk::new(1);
    let (mut journal, _) = Journal::open(&disk, LIMITS, START, &mut |_| {}).expect("an empty disk");
    let groups = [
        vec![batch(1, 0, 64), marked(2, 0, 8)],
        vec![marked(1, 64, 0), marked(2, 0, 8)],
        vec![batch(1, 64, 3000), batch(2, 8, 16)],
        vec![marked(3, 0, 9000), batch(1, 3064, 8)],
        vec![],
    ];
    for group in groups {
        journal.write(&disk, &group, &mut Vec::new()).expect("room");
    }
    let name = disk.list(FileKind::Journal).expect("no faults")[0];
    let mut bytes = vec![0; FILE];
    disk.read_at(name, 0, &mut bytes).expect("no faults");
    let salt = *bytes[24..].first_chunk().expect("a header");
    (disk, name, bytes, salt)
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
        let marks = usize::from(group[52]) % (count + 2);
        group[48..52].copy_from_slice(&(count as u32).to_le_bytes());
        group[52..56].copy_from_slice(&(marks as u32).to_le_bytes());
        let end = 64 + 48 * count + 32 * marks;
        if end <= group.len() {
            let crc = crc32c(&group[8..end]);
            group[4..8].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((how, input)) = input.split_first() else { return };
    let (disk, name, whole, salt) = &*WRITTEN;
    let mut bytes = whole[BLOCK..].to_vec();
    if how & 2 == 0 {
        for edit in input.as_chunks::<3>().0 {
            let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % bytes.len();
            bytes[at] = edit[2];
        }
    } else {
        let len = input.len().min(bytes.len());
        bytes[..len].copy_from_slice(&input[..len]);
    }
    if how & 1 == 0 {
        mend(&mut bytes, *salt);
    }
    let disk = disk.fork();
    disk.write_at(*name, BLOCK as u64, &[IoSlice::new(&bytes)]).expect("no faults");
    let opened = Journal::open(&disk, LIMITS, START, &mut |found| {
        assert_eq!(crc32c(&found.memory[found.records.clone()]), found.place.crc);
        assert!(found.records.start.is_multiple_of(8));
    });
    let Ok((mut journal, _)) = opened else { return };
    journal.write(&disk, &[batch(1, 4000, 8)], &mut Vec::new()).expect("room");
});
