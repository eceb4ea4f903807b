//! A bulk file: the records of one batch too big for the journal file that commits it.
//!
//! ```text
//!   0       8         12    16        24     32    36            40     48    56      64
//!   | magic | version | crc | bulk id | salt | log | records crc | base | len | zeros | zeros to 4096 | records
//! ```
//!
//! It is written and synced before the journal's group that names it, so a bulk file that a whole group names and that
//! is missing or does not sum up is rot, never a torn write.

use crate::batch::Sealed;
use crate::disk::{Disk, DiskError, FileKind, FileName, read_exact};
use crate::file::{VERSION, check_header, header_crc};
use crate::group::Entry;
use base::crc::crc32c;
use base::memory::BLOCK;
use base::{Buffer, Memory};
use std::io::IoSlice;

const MAGIC: [u8; 8] = *b"LVRTBULK";

fn header(id: u64, salt: u64, log: u32, crc: u32, base: u64, len: u64) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&id.to_le_bytes());
    bytes[24..32].copy_from_slice(&salt.to_le_bytes());
    bytes[32..36].copy_from_slice(&log.to_le_bytes());
    bytes[36..40].copy_from_slice(&crc.to_le_bytes());
    bytes[40..48].copy_from_slice(&base.to_le_bytes());
    bytes[48..56].copy_from_slice(&len.to_le_bytes());
    let crc = header_crc(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Writes `batch` to the new bulk file `id` and makes it durable. After an error the file may be there.
pub(crate) fn write(disk: &dyn Disk, id: u64, salt: u64, batch: &Sealed) -> Result<(), DiskError> {
    let name = FileName::new(FileKind::Bulk, id);
    let records = &batch.memory[..batch.len.next_multiple_of(BLOCK)];
    let mut head = Buffer::default();
    head.extend(&header(id, salt, batch.log.0, batch.crc, batch.base.0, batch.len as u64));
    head.pad_to(BLOCK);
    disk.create(name, (BLOCK + records.len()) as u64)?;
    disk.write_at(name, 0, &[IoSlice::new(head.bytes()), IoSlice::new(records)])?;
    disk.sync(name)?;
    disk.sync_folder(FileKind::Bulk)
}

/// Reads the records that `entry` names; `Ok(None)` where they are not what was written.
pub(crate) fn read(disk: &dyn Disk, salt: u64, entry: &Entry) -> Result<Option<Memory>, DiskError> {
    let name = FileName::new(FileKind::Bulk, entry.bulk);
    let found_len = disk.len(name)?;
    let wanted_len = entry.len.next_multiple_of(BLOCK as u64).checked_add(BLOCK as u64);
    let expected = header(entry.bulk, salt, entry.log.0, entry.crc, entry.base.0, entry.len);
    let mut found = [0; 64];
    read_exact(disk, name, 0, &mut found)?;
    let is_ours = check_header(&found, MAGIC).is_ok() && found == expected;
    // The length is compared before memory is taken for it.
    let Some(len) = wanted_len.filter(|len| is_ours && *len == found_len) else { return Ok(None) };
    let Ok(len) = usize::try_from(len - BLOCK as u64) else { return Ok(None) };
    let mut records = Buffer::default();
    read_exact(disk, name, BLOCK as u64, records.stretch(len))?;
    records.truncate(entry.len as usize);
    Ok((crc32c(records.bytes()) == entry.crc).then(|| records.seal()))
}
