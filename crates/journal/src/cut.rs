//! A group that a start cuts stays cut.
//!
//! A group that is torn was never committed, and a start that finds it tells nobody of it. Where the next one is written over
//! it and torn in its turn, a device may keep of each the sectors it likes: where those that were missing have the same bytes
//! in both, the first is whole then, and comes back after a start that did not know it. So nothing of its header is left
//! before anything is built on what was found. Every copy of a header begins with the sum of all of it, which covers the sums
//! of the records: what brings its first sector back is the same group.

use crate::disk::{Disk, DiskError};
use crate::file::{FileId, LiveFile, salt};
use crate::group::{GroupHeader, HEADER_STEP, HEADERS_MAX};
use crate::recovery::BLOCK_LEN;
use crate::spare::Spare;
use crate::survey::head_bytes;
use crate::window::Window;
use base::Buffer;
use base::memory::BLOCK;
use std::io::IoSlice;

/// The bytes to write where the file ends, over what is left of a group there: an empty group, which keeps what that one may have
/// said of files that are not needed. `None`: nothing is left of any.
///
/// # Errors
/// The device does not say what is there, though it did a moment ago.
pub(crate) fn closing(
    disk: &dyn Disk,
    file: &LiveFile,
    sequence: u64,
    oldest: FileId,
    secret: u64,
) -> Result<Option<Buffer>, DiskError> {
    let mut window = Window::new(disk, HEADERS_MAX);
    let (salt, offset) = (salt(secret, file.id), file.end);
    let (bytes, short) = head_bytes(&mut window, file.name(), file.len, offset)?;
    let len = match short {
        None => blocks_with_heads(bytes, salt),
        // Anything may be there.
        Some(_) => front(file.len - offset),
    };
    if len == 0 {
        return Ok(None);
    }
    let mut block = Buffer::default();
    GroupHeader { salt, file: file.id, offset, sequence, len: BLOCK_LEN, oldest }.write(
        &[],
        0,
        block.extend_zeroed(len),
    );
    Ok(Some(block))
}

/// Takes from a spare file what may be left of the first group of the file it was to become: that file's header is not there,
/// but may be written the same again. The bytes it reads as say nothing: zeros whose sync failed are not on the device.
///
/// # Errors
/// The device does not take the zeros.
pub(crate) fn clear(disk: &dyn Disk, spare: &Spare) -> Result<(), DiskError> {
    let mut zeros = Buffer::default();
    zeros.extend_zeroed(front(spare.len - BLOCK_LEN));
    disk.write_at(spare.name(), BLOCK_LEN, &[IoSlice::new(zeros.bytes())])?;
    disk.sync(spare.name())
}

/// Bytes of the blocks in which the header of a group begins and ends, where there are so many more in the file.
fn front(left: u64) -> usize {
    left.min(HEADERS_MAX.next_multiple_of(BLOCK) as u64) as usize
}

/// Bytes of the blocks up to the last one in which a copy of the header of a group with this salt begins. All that begins as
/// one counts: behind the end of a file nothing is worth keeping.
fn blocks_with_heads(bytes: &[u8], salt: u64) -> usize {
    let begins = |at: &usize| GroupHeader::peek_salt(&bytes[*at..]) == Some(salt);
    let last = (0..bytes.len().min(HEADERS_MAX)).step_by(HEADER_STEP).rev().find(begins);
    last.map_or(0, |at| (at / BLOCK + 1) * BLOCK)
}
