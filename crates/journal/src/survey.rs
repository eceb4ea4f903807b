//! Looking at the files of a journal before it is read: which are needed, in which order, and which are free.
//!
//! A file tells what it is by its header; where that is damaged, by any group in it that carries the salt it should.

use crate::disk::{Disk, DiskError, FileKind, FileName, name_again};
use crate::file::{FILE_HEADER, FileHeader, FileId, HeaderError, LiveFile, salt};
use crate::group::{Entry, Expected, GroupHeader, HEADERS_MAX};
use crate::journal::Journal;
use crate::recovery::{BLOCK_LEN, OpenError, Start};
use crate::spare::Spare;
use crate::window::Window;
use base::Memory;
use base::crc::crc32c;
use base::id::LogIndex;
use std::collections::VecDeque;
use std::ops::Range;

/// A journal file that may be needed.
pub(crate) struct Found {
    pub id: FileId,
    pub slot: u64,
    pub len: u64,
    pub header: Option<FileHeader>,
    /// The sequence number of its first group, from the header or from that group.
    pub first_sequence: Option<u64>,
}

impl Found {
    /// Its name.
    pub fn name(&self) -> FileName {
        FileName::new(FileKind::Journal, self.slot)
    }
}

/// What is needed of the files.
pub(crate) struct Survey {
    /// Files before those to be visited that stay, in order. Looked at no closer: what is wrong with them harms nobody
    /// before a snapshot rots.
    pub kept: VecDeque<LiveFile>,
    /// Files to be visited, in order.
    pub found: Vec<Found>,
    /// The oldest that is to be visited, there or not.
    pub oldest: FileId,
}

/// Looks at every slot. Files that are not needed go into the journal's spares.
pub(crate) fn survey(disk: &dyn Disk, start: Start, journal: &mut Journal) -> Result<Survey, OpenError> {
    let mut found: Vec<Found> = Vec::new();
    let mut spares = Vec::new();
    for name in disk.list(FileKind::Journal)? {
        journal.next_slot = journal.next_slot.max(name.number + 1);
        // A file that was cut short holds whole blocks up to there.
        let len = disk.len(name)? / BLOCK_LEN * BLOCK_LEN;
        match identify(disk, name, len, start.secret)? {
            Some(file) => found.push(file),
            None => spares.push(Spare { slot: name.number, len }),
        }
    }
    found.sort_by_key(|file| file.id);
    let said = found.iter().rev().find_map(|file| released_before(disk, file, start.secret));
    let first = found.first().map_or(FileId(0), |file| file.id);
    let known = said.unwrap_or(first);
    let oldest = known.max(start.from);
    let to_keep = known.max(start.keep.min(start.from));
    let needless = found.partition_point(|file| file.id < to_keep);
    spares.extend(found.drain(..needless).map(|file| Spare { slot: file.slot, len: file.len }));
    // A file whose first group found no space was removed and begun again elsewhere; a device that then failed may
    // bring the removed one back. It has no whole group.
    while let Some(at) = found.windows(2).position(|pair| pair[0].id == pair[1].id) {
        let whole = [at, at + 1].map(|at| whole_group(disk, &found[at], BLOCK_LEN, start.secret).is_some());
        let other = match whole {
            [true, false] => found.remove(at + 1),
            [false, true] => found.remove(at),
            _ => return Err(OpenError::Double(found[at + 1].name())),
        };
        spares.push(Spare { slot: other.slot, len: other.len });
    }
    let visited = found.partition_point(|file| file.id < oldest);
    let mut kept: Vec<Found> = found.drain(..visited).collect();
    if found.is_empty() {
        // Writing goes on behind what was visited: without that, nothing can follow them.
        spares.extend(kept.drain(..).map(|file| Spare { slot: file.slot, len: file.len }));
    }
    let kept = kept.iter().map(|file| contents(disk, file, start.secret)).collect();
    for spare in spares {
        let is_whole = spare.len >= 2 * BLOCK_LEN;
        let is_worth_keeping = is_whole && (spare.len >= journal.limits.file_bytes || found.is_empty());
        if is_worth_keeping && journal.spares.len() < journal.limits.spare_files_max {
            // A start that is killed halfway leaves a spare in another slot, which is as good.
            let name = |slot| FileName::new(FileKind::Journal, slot);
            name_again(disk, name(spare.slot), name(journal.next_slot))?;
            journal.spares.push_back(spare);
        } else {
            journal.unneeded.push(spare.name());
        }
    }
    Ok(Survey { kept, found, oldest })
}

/// What the heads of a file's groups say that it holds.
fn contents(disk: &dyn Disk, found: &Found, secret: u64) -> LiveFile {
    let mut file = LiveFile::new(found.id, found.slot, found.len, BLOCK_LEN);
    let mut window = Window::new(disk, 1 << 20);
    while file.end < found.len {
        let expected =
            Expected { salt: salt(secret, file.id), file: file.id, offset: file.end, file_len: file.len };
        let head = head_bytes(&mut window, file.name(), file.len, file.end).ok();
        let Some((group, entries)) = head.and_then(|bytes| GroupHeader::find(bytes, expected)) else { break };
        for entry in &entries {
            file.note(entry.log, entry.base, LogIndex(entry.base.0 + entry.len));
            if entry.bulk != 0 {
                file.bulk.push(entry.bulk);
                file.bulk_bytes += entry.len;
            }
        }
        file.end += group.len;
    }
    file
}

/// What a file says of the files before it: those before this one are not needed any more. The later a group, the more
/// it knows; one that is torn knew it as well.
fn released_before(disk: &dyn Disk, found: &Found, secret: u64) -> Option<FileId> {
    let name = found.name();
    let mut window = Window::new(disk, 1 << 20);
    let mut said = found.header.map(|header| header.oldest);
    let mut offset = BLOCK_LEN;
    while offset < found.len {
        let expected = Expected { salt: salt(secret, found.id), file: found.id, offset, file_len: found.len };
        let head = head_bytes(&mut window, name, found.len, offset).ok();
        let Some((group, _)) = head.and_then(|bytes| GroupHeader::find(bytes, expected)) else { break };
        said = said.max(Some(group.oldest));
        offset += group.len;
    }
    said
}

/// Which use of the slot the file is in; `None`: none that counts.
fn identify(disk: &dyn Disk, name: FileName, len: u64, secret: u64) -> Result<Option<Found>, OpenError> {
    let slot = name.number;
    let mut first = [0; FILE_HEADER];
    let header = match disk.read_at(name, 0, &mut first) {
        Ok(FILE_HEADER) => FileHeader::read(&first),
        _ => Err(HeaderError::Damaged),
    };
    match header {
        Err(HeaderError::Version(version)) => return Err(OpenError::Version { name, version }),
        Ok(header) if header.file == FileId(0) => return Ok(None),
        Ok(header) if header.salt != salt(secret, header.file) => return Err(OpenError::Foreign(name)),
        _ => {}
    }
    if let Ok(header) = header {
        let first_sequence = Some(header.first_sequence);
        return Ok(Some(Found { id: header.file, slot, len, header: Some(header), first_sequence }));
    }
    // The header is damaged, or was never written: groups still say whose they are.
    let mut window = Window::new(disk, 1 << 20);
    let mut offset = BLOCK_LEN;
    while offset < len {
        if let Some(group) = unknown_group(&mut window, name, len, offset, secret) {
            let first_sequence = (offset == BLOCK_LEN).then_some(group.sequence);
            return Ok(Some(Found { id: group.file, slot, len, header: None, first_sequence }));
        }
        offset += BLOCK_LEN;
    }
    Ok(None)
}

/// The bytes a group's header at `offset` may take. The block itself may be readable where a later one is not.
pub(crate) fn head_bytes<'a>(
    window: &'a mut Window<'_>,
    name: FileName,
    file_len: u64,
    offset: u64,
) -> Result<&'a [u8], DiskError> {
    let wanted = match window.from(name, file_len, offset, HEADERS_MAX as u64) {
        Ok(_) => HEADERS_MAX as u64,
        Err(_) => BLOCK_LEN,
    };
    window.from(name, file_len, offset, wanted)
}

/// The bytes of the group at `offset`, if all of it is there.
pub(crate) fn whole_group(
    disk: &dyn Disk,
    found: &Found,
    offset: u64,
    secret: u64,
) -> Option<(Memory, Range<usize>)> {
    let name = found.name();
    let mut window = Window::new(disk, HEADERS_MAX);
    let expected = Expected { salt: salt(secret, found.id), file: found.id, offset, file_len: found.len };
    let head = head_bytes(&mut window, name, found.len, offset).ok()?;
    let (group, entries) = GroupHeader::find(head, expected)?;
    let (memory, range) = window.memory(name, found.len, offset, group.len).ok()?;
    let bytes = &memory[range.clone()];
    let is_whole = entries.iter().all(|entry| entry.bulk != 0 || is_right(entry, offset, bytes));
    is_whole.then_some((memory, range))
}

/// The group at `offset` of whatever use of the slot.
fn unknown_group(
    window: &mut Window<'_>,
    name: FileName,
    file_len: u64,
    offset: u64,
    secret: u64,
) -> Option<GroupHeader> {
    let bytes = window.from(name, file_len, offset, BLOCK_LEN).ok()?;
    let file = GroupHeader::peek_file(bytes)?;
    let bytes = head_bytes(window, name, file_len, offset).ok()?;
    let expected = Expected { salt: salt(secret, file), file, offset, file_len };
    GroupHeader::find(bytes, expected).map(|(group, _)| group)
}

/// The records of an inline entry of the group at `offset`, whose bytes these are, are what was written.
pub(crate) fn is_right(entry: &Entry, offset: u64, group: &[u8]) -> bool {
    let at = (entry.offset - offset) as usize;
    group.get(at..at + entry.len as usize).is_some_and(|records| crc32c(records) == entry.crc)
}
