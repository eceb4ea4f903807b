//! Looking at the files of a journal before it is read: which are needed, in which order, and which are free.
//!
//! A file tells what it is by its header; where that is damaged, by any group in it that carries the salt it should.

use crate::disk::{Disk, DiskError, FileKind, FileName, back_again, name_again};
use crate::file::{FILE_HEADER, FileHeader, FileId, HeaderError, LiveFile, salt};
use crate::group::{Entry, Expected, GroupHeader, HEADERS_MAX};
use crate::journal::Journal;
use crate::live;
use crate::recovery::{BLOCK_LEN, OpenError, Start};
use crate::spare::Spare;
use crate::window::Window;
use base::Memory;
use base::crc::crc32c;
use std::cmp::Ordering;
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
    /// Why blocks before the group that says which it is could not be read: they may hold a later use of its slot.
    pub skipped: Option<DiskError>,
}

impl Found {
    /// Its name.
    pub fn name(&self) -> FileName {
        FileName::new(FileKind::Journal, self.slot)
    }
}

/// The files that are needed.
pub(crate) struct Survey {
    /// Files before those to be visited that stay, in order. Looked at no closer: what is wrong with them harms nobody
    /// before a snapshot rots.
    pub kept: VecDeque<LiveFile>,
    /// Files to be visited, in order.
    pub found: Vec<Found>,
    /// The oldest that is to be visited, there or not.
    pub oldest: FileId,
    /// Why files could not be read of which nothing else says what they are: they are left as they are.
    pub unknown: Vec<DiskError>,
}

/// Looks at every slot. Files that are not needed go into the journal's spares.
pub(crate) fn survey(disk: &dyn Disk, start: Start, journal: &mut Journal) -> Result<Survey, OpenError> {
    let mut found: Vec<Found> = Vec::new();
    let (mut spares, mut unknown) = (Vec::new(), Vec::new());
    for again in disk.list(FileKind::JournalAgain)? {
        back_again(disk, again, FileName::new(FileKind::Journal, again.number))?;
    }
    for name in disk.list(FileKind::Journal)? {
        journal.next_slot = journal.next_slot.max(name.number + 1);
        // A file that was cut short holds whole blocks up to there.
        let len = disk.len(name)? / BLOCK_LEN * BLOCK_LEN;
        match identify(disk, name, len, start.secret)? {
            Use::Found(file) => found.push(file),
            Use::Free => spares.push(Spare { slot: name.number, len }),
            Use::Unknown(error) => unknown.push(error),
        }
    }
    found.sort_by_key(|file| file.id);
    let said = found.iter().rev().find_map(|file| released_before(disk, file, start.secret));
    let first = found.first().map_or(FileId(0), |file| file.id);
    let known = said.unwrap_or(first);
    let oldest = known.max(start.from);
    let to_keep = known.max(start.keep.min(start.from));
    let needless = found.partition_point(|file| file.id < to_keep);
    for file in found.drain(..needless) {
        match file.skipped {
            None => spares.push(Spare { slot: file.slot, len: file.len }),
            Some(error) => unknown.push(error),
        }
    }
    // A file whose first group found no space was removed and begun again elsewhere; a device that then failed may
    // bring the removed one back. It has no whole group; nor has the other where its first one was torn.
    while let Some(at) = found.windows(2).position(|pair| pair[0].id == pair[1].id) {
        let [one, other] = [at, at + 1].map(|at| holds(disk, &found[at], start.secret));
        let needless = match one.cmp(&other) {
            Ordering::Equal if one > Holds::Nothing => return Err(OpenError::Double(found[at + 1].name())),
            Ordering::Less => found.remove(at),
            Ordering::Equal | Ordering::Greater => found.remove(at + 1),
        };
        spares.push(Spare { slot: needless.slot, len: needless.len });
    }
    let visited = found.partition_point(|file| file.id < oldest);
    let mut kept: Vec<Found> = found.drain(..visited).collect();
    if found.is_empty() {
        // Writing goes on behind what was visited: without that, nothing can follow them.
        spares.extend(kept.drain(..).map(|file| Spare { slot: file.slot, len: file.len }));
    }
    let mut kept_files = VecDeque::new();
    kept.iter().for_each(|file| contents(disk, file, start.secret, &mut kept_files));
    for spare in spares {
        let is_whole = spare.len >= 2 * BLOCK_LEN;
        let is_worth_keeping = is_whole && (spare.len >= journal.limits.file_bytes || found.is_empty());
        if is_worth_keeping && journal.spares.len() < journal.limits.spare_files_max {
            name_again(disk, spare.name(), FileName::new(FileKind::JournalAgain, spare.slot))?;
            journal.spares.push_back(spare);
        } else {
            journal.unneeded.push(spare.name());
        }
    }
    Ok(Survey { kept: kept_files, found, oldest, unknown })
}

/// Adds a file to those before it, with what the heads of its groups say that it holds.
fn contents(disk: &dyn Disk, found: &Found, secret: u64, files: &mut VecDeque<LiveFile>) {
    files.push_back(LiveFile::new(found.id, found.slot, found.len, BLOCK_LEN));
    let mut window = Window::new(disk, 1 << 20);
    let mut offset = BLOCK_LEN;
    while offset < found.len {
        let expected = Expected { salt: salt(secret, found.id), file: found.id, offset, file_len: found.len };
        let head = head_bytes(&mut window, found.name(), found.len, offset).ok();
        let group = head.and_then(|(bytes, _)| GroupHeader::find(bytes, expected).ok());
        let Some((group, entries)) = group else { break };
        for entry in &entries {
            _ = live::note(files, entry);
        }
        offset += group.len;
        files.back_mut().expect("pushed above").end = offset;
    }
}

/// The words of a file about the files before it: those before this one are not needed any more. The later a group, the more
/// it knows; one that is torn knew it as well.
fn released_before(disk: &dyn Disk, found: &Found, secret: u64) -> Option<FileId> {
    let name = found.name();
    let mut window = Window::new(disk, 1 << 20);
    let mut said = found.header.map(|header| header.oldest);
    let mut offset = BLOCK_LEN;
    while offset < found.len {
        let expected = Expected { salt: salt(secret, found.id), file: found.id, offset, file_len: found.len };
        let head = head_bytes(&mut window, name, found.len, offset).ok();
        let group = head.and_then(|(bytes, _)| GroupHeader::find(bytes, expected).ok());
        let Some((group, _)) = group else { break };
        said = said.max(Some(group.oldest));
        offset += group.len;
    }
    said
}

/// Which use of its slot a file is in.
enum Use {
    /// One that counts.
    Found(Found),
    /// None that counts.
    Free,
    /// The device does not say.
    Unknown(DiskError),
}

fn identify(disk: &dyn Disk, name: FileName, len: u64, secret: u64) -> Result<Use, OpenError> {
    let slot = name.number;
    let mut unread = None;
    let mut first = [0; FILE_HEADER];
    let header = match disk.read_at(name, 0, &mut first) {
        Ok(FILE_HEADER) => FileHeader::read(&first),
        Ok(_) => Err(HeaderError::Damaged),
        Err(error) => {
            unread = Some(error);
            Err(HeaderError::Damaged)
        }
    };
    match header {
        Err(HeaderError::Version(version)) => return Err(OpenError::Version { name, version }),
        Ok(header) if header.file == FileId(0) => return Ok(Use::Free),
        Ok(header) if header.salt != salt(secret, header.file) => return Err(OpenError::Foreign(name)),
        _ => {}
    }
    if let Ok(header) = header {
        let (id, first_sequence) = (header.file, Some(header.first_sequence));
        let header = Some(header);
        return Ok(Use::Found(Found { id, slot, len, header, first_sequence, skipped: None }));
    }
    // The header is damaged, or was never written: groups still say whose they are.
    let mut window = Window::new(disk, 1 << 20);
    let mut skipped = None;
    let mut offset = BLOCK_LEN;
    while offset < len {
        match unknown_group(&mut window, name, len, offset, secret) {
            Ok(Some(group)) => {
                let first_sequence = (offset == BLOCK_LEN).then_some(group.sequence);
                let (id, header) = (group.file, None);
                return Ok(Use::Found(Found { id, slot, len, header, first_sequence, skipped }));
            }
            Ok(None) => {}
            Err(error) => skipped = Some(error),
        }
        offset += BLOCK_LEN;
    }
    Ok(skipped.or(unread).map_or(Use::Free, Use::Unknown))
}

/// The bytes a group's header at `offset` may take, and, where the device does not return all of them, why. The first blocks
/// may be readable where a later one is not.
///
/// # Errors
/// Not even the first block can be read.
pub(crate) fn head_bytes<'a>(
    window: &'a mut Window<'_>,
    name: FileName,
    file_len: u64,
    offset: u64,
) -> Result<(&'a [u8], Option<DiskError>), DiskError> {
    let (mut wanted, mut short) = (HEADERS_MAX as u64, None);
    while let Err(error) = window.from(name, file_len, offset, wanted).map(drop) {
        if wanted <= BLOCK_LEN {
            return Err(error);
        }
        (wanted, short) = ((wanted - 1) / BLOCK_LEN * BLOCK_LEN, Some(error));
    }
    Ok((window.from(name, file_len, offset, wanted)?, short))
}

/// The claim of a file to be the one it says it is, against another that says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    Nothing,
    /// Blocks that cannot be read: who knows.
    Unreadable,
    WholeGroup,
}

fn holds(disk: &dyn Disk, found: &Found, secret: u64) -> Holds {
    let mut window = Window::new(disk, 1 << 20);
    let mut holds = Holds::Nothing;
    for offset in (BLOCK_LEN..found.len).step_by(BLOCK_LEN as usize) {
        match window.from(found.name(), found.len, offset, BLOCK_LEN) {
            Err(_) => holds = Holds::Unreadable,
            Ok(_) if whole_group(disk, found, offset, secret).is_some() => return Holds::WholeGroup,
            Ok(_) => {}
        }
    }
    holds
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
    let (head, _) = head_bytes(&mut window, name, found.len, offset).ok()?;
    let (group, entries) = GroupHeader::find(head, expected).ok()?;
    let (memory, range) = window.memory(name, found.len, offset, group.len).ok()?;
    let bytes = &memory[range.clone()];
    let is_whole = entries.iter().all(|entry| entry.bulk != 0 || is_right(entry, offset, bytes));
    is_whole.then_some((memory, range))
}

/// The group at `offset` of whatever use of the slot.
///
/// # Errors
/// Blocks that may be one cannot be read.
fn unknown_group(
    window: &mut Window<'_>,
    name: FileName,
    file_len: u64,
    offset: u64,
    secret: u64,
) -> Result<Option<GroupHeader>, DiskError> {
    let bytes = window.from(name, file_len, offset, BLOCK_LEN)?;
    let Some(file) = GroupHeader::peek_file(bytes) else { return Ok(None) };
    let (bytes, short) = head_bytes(window, name, file_len, offset)?;
    let expected = Expected { salt: salt(secret, file), file, offset, file_len };
    match (GroupHeader::find(bytes, expected), short) {
        (Ok((group, _)), _) => Ok(Some(group)),
        (Err(_), Some(error)) if GroupHeader::peek_salt(bytes) == Some(expected.salt) => Err(error),
        (Err(_), _) => Ok(None),
    }
}

/// The records of an inline entry of the group at `offset`, whose bytes these are, are what was written.
pub(crate) fn is_right(entry: &Entry, offset: u64, group: &[u8]) -> bool {
    let at = (entry.offset - offset) as usize;
    group.get(at..at + entry.len as usize).is_some_and(|records| crc32c(records) == entry.crc)
}
