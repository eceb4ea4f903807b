//! Reading any bytes as a snapshot, with and without the checksums they should have.
#![no_main]

use base::Buffer;
use base::crc::{crc32c, crc32c_append};
use journal::Snapshot;
use libfuzzer_sys::fuzz_target;

fn mend(bytes: &mut [u8]) -> Option<()> {
    bytes.get_mut(..64)?[..12].copy_from_slice(b"LVRTSNAP\x02\0\0\0");
    let count = usize::from(bytes[20]) % 16;
    bytes[20..24].copy_from_slice(&(count as u32).to_le_bytes());
    let mut at = 64 + count * 16;
    for section in 0..count {
        let entry = 64 + section * 16;
        let len = usize::from(*bytes.get(entry + 8)?);
        let crc = crc32c(bytes.get(at..at + len)?);
        bytes[entry + 4..entry + 8].copy_from_slice(&crc.to_le_bytes());
        at = (at + len).next_multiple_of(8);
    }
    let table = crc32c(bytes.get(64..64 + count * 16)?);
    bytes[56..60].copy_from_slice(&table.to_le_bytes());
    let crc = crc32c_append(crc32c(&bytes[..12]), &bytes[16..64]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    Some(())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let mut file = Buffer::default();
    file.extend(bytes);
    if how & 1 == 0 {
        let _too_short_to_mend = mend(file.bytes_mut());
    }
    if let Ok(snapshot) = Snapshot::read(file.seal()) {
        let total: usize = snapshot.sections().map(|(_, bytes)| bytes.len()).sum();
        assert!(total <= bytes.len());
    }
});
