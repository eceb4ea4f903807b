//! Opening a journal: finding the end of what was committed, and visiting it.
//!
//! One group is written at a time and the next only after its sync. So a group that is not whole is *torn* if nothing
//! of the journal comes after it (it was never committed: it is cut), and *damaged* if something does (it was
//! committed: it is reported, and what follows is still visited). Bytes of earlier uses of a slot never count as
//! something that comes after: they carry another file id and salt.

use crate::batch::{Mark, Place};
use crate::disk::{Disk, DiskError, FileKind, FileName};
use crate::file::{FileHeader, FileId, LiveFile, OtherVersion, salt};
use crate::group::{Entry, Expected, GroupHeader, Malformed, NoGroup};
use crate::journal::Journal;
use crate::spare::SpareMaker;
use crate::survey::{Found, Survey, head_bytes, is_right, survey, whole_group};
use crate::window::Window;
use crate::{Limits, bulk, cut, live};
use base::id::{LogId, LogIndex};
use base::memory::BLOCK;
use base::{Buffer, Memory};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io::IoSlice;
use std::ops::Range;

pub(crate) const BLOCK_LEN: u64 = BLOCK as u64;

/// Missing files in a row that are reported one by one.
const MISSING_MAX: usize = 1024;

/// From where a journal is read, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The data folder's secret (see [`crate::Identity`]): what was written with another one is not ours.
    pub secret: u64,
    /// The oldest file any log's newest snapshot replays from; `FileId(0)` where a log has none (see
    /// [`crate::Snapshots::start`]). Earlier files are not visited.
    pub from: FileId,
    /// The oldest file any log's snapshot replays from that is kept for when a newer one rots. Earlier files are used
    /// again.
    pub keep: FileId,
}

/// A committed batch, found again.
#[derive(Clone, Debug)]
pub struct RecoveredBatch {
    /// The log it belongs to.
    pub log: LogId,
    /// Where its first record is.
    pub base: LogIndex,
    /// Memory that holds the records, and perhaps those of its neighbours.
    pub memory: Memory,
    /// Where in the memory the records are; begins at a multiple of eight.
    pub records: Range<usize>,
    /// Where it lies on disk.
    pub place: Place,
    /// When it was closed for commit, milliseconds since 1970.
    pub committed_at_ms: u64,
    /// The mark it was written with, if any: then it may be without records.
    pub mark: Option<Mark>,
    /// The end of its log before it, where that is behind `base`: this batch goes back. It replaces everything of the log from
    /// `base` on, marks without records included; what was visited of that is void. Void batches are visited all the same, in
    /// the order they were written: a reader that has applied some of them begins anew, or undoes them.
    pub void_to: Option<LogIndex>,
}

/// The cause of damage to a part of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageCause {
    /// The bytes are not those that were written.
    Checksum,
    /// They are those that were written, but no version of this program writes such a group.
    Malformed(Malformed),
    /// A file that must be there is not.
    Missing,
    /// The device did not return them.
    Io(i32),
}

/// A committed part of the journal that cannot be read any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The log it belonged to; `None` where even that is lost: then it may be any, and a log whose next batch does not
    /// follow on its last one is.
    pub log: Option<LogId>,
    /// Where the lost records began, if that is known.
    pub base: Option<LogIndex>,
    /// The journal file; 0: one of which nothing that can be read says which it is. It is left as it is.
    pub file: FileId,
    /// Where in it.
    pub offset: u64,
    /// The cause.
    pub cause: DamageCause,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            DamageCause::Checksum => f.write_str("wrong checksum")?,
            DamageCause::Malformed(how) => write!(f, "malformed group ({how})")?,
            DamageCause::Missing => f.write_str("missing file")?,
            DamageCause::Io(code) => write!(f, "input/output error (system error {code})")?,
        }
        write!(f, " in journal file {} at byte {}", self.file, self.offset)?;
        match self.log {
            Some(log) => write!(f, ", log {log}"),
            None => f.write_str(", log unknown"),
        }
    }
}

/// The findings of an opening, beside the batches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Batches visited.
    pub batches: u64,
    /// Bytes of their records.
    pub record_bytes: u64,
    /// Bytes of the group that was torn by the end of the last run and cut, if one can be seen.
    pub torn_bytes: u64,
    /// The losses, in order.
    pub damages: Vec<Damage>,
}

/// Why a journal cannot be opened at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A file was written by a version this program does not know.
    Version {
        /// The file.
        name: FileName,
        /// Its version.
        version: u32,
    },
    /// A file belongs to another data folder, or the identity of this one was replaced. It is left as it is.
    Foreign(FileName),
    /// A file is there twice. One of them is not ours to choose; neither is touched.
    Double(FileName),
    /// The device failed in a way that leaves nothing to go on with.
    Disk(DiskError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Version { name, version } => {
                write!(f, "{name} was written {}", OtherVersion(*version))
            }
            OpenError::Foreign(name) => {
                write!(f, "{name} does not belong to the identity file of this data folder")
            }
            OpenError::Double(name) => write!(f, "{name} is a copy of another file of the journal"),
            OpenError::Disk(error) => write!(f, "cannot open the journal: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<DiskError> for OpenError {
    fn from(error: DiskError) -> OpenError {
        OpenError::Disk(error)
    }
}

impl Journal {
    /// Opens the journal in the data folder, or begins one, and gives `visit` every committed batch of the files from
    /// `start.from` on, in the order they were written. A batch that is visited is durable, whoever wrote it how.
    pub fn open(
        disk: &dyn Disk,
        limits: Limits,
        start: Start,
        visit: &mut dyn FnMut(RecoveredBatch),
    ) -> Result<(Journal, Recovered), OpenError> {
        let mut journal = Journal::empty(limits, start.secret);
        let Survey { kept, found, oldest, unknown } = survey(disk, start, &mut journal)?;
        let window = Window::new(disk, limits.window_bytes);
        let recovered = Recovered::default();
        let mut walk = Walk { disk, start, window, visit, recovered, live: kept, last: Last::None };
        for error in &unknown {
            walk.lose(None, None, FileId(0), 0, cause_of(*error));
        }
        let can_go_on = walk.files(&found, oldest);
        let Walk { recovered, live, last, .. } = walk;
        journal.live = live;
        journal.next_sequence = can_go_on.next_sequence;
        // Files that are known by nothing but are missed by nobody either may be the last ones: they keep their numbers, and
        // what is written from now on does not look as if it were in their place once they can be read again.
        let is_missed = |damage: &&Damage| damage.log.is_none() && damage.cause == DamageCause::Missing;
        let missed = recovered.damages.iter().filter(is_missed).count();
        let unmissed = unknown.len().saturating_sub(missed) as u64;
        let may_go_on = can_go_on.in_last_file && unmissed == 0;
        journal.is_current_done = !may_go_on && !journal.live.is_empty();
        if let Some(found) = found.last() {
            journal.write_again(disk, found, last)?;
        }
        disk.sync_folder(FileKind::Journal)?;
        disk.sync_folder(FileKind::Bulk)?;
        let newest = journal.live.back().map_or(FileId(0), |file| file.id);
        let newest = newest.0.max(start.from.0.saturating_sub(1)).saturating_add(unmissed);
        journal.next_file = FileId(newest.saturating_add(1));
        for spare in &journal.spares {
            cut::clear(disk, spare)?;
        }
        journal.mend_header(disk, &found)?;
        journal.sort_out_bulk(disk, &recovered)?;
        if journal.live.is_empty() && journal.spares.is_empty() {
            let slot = journal.next_slot;
            journal.next_slot += 1;
            let maker = SpareMaker::new(slot, limits.first_file_bytes, limits.prepare_bytes);
            let spare = maker.finish(disk)?;
            journal.spares.push_back(spare);
        }
        Ok((journal, recovered))
    }

    /// Makes what was visited durable. Everything but the last group is; that one, which begins at `last`, may be in the page
    /// cache alone: not written back yet where the process was killed, and never to be where its sync failed. So it is
    /// written again, the file's header with it where it is the first or where there is none yet. One that is damaged was
    /// synced before what proves it was written. The rest of a torn one behind the last is closed.
    fn write_again(&mut self, disk: &dyn Disk, found: &Found, last: Last) -> Result<(), DiskError> {
        let offset = match last {
            Last::None => Some(BLOCK_LEN),
            Last::Whole(offset) => Some(offset),
            Last::Damaged => None,
        };
        let mut block = Buffer::default();
        if let Some(header) = found.header.filter(|_| offset == Some(BLOCK_LEN)) {
            block.extend(&header.write());
            block.pad_to(BLOCK);
        }
        // Read and checked once more rather than kept from the walk, which would keep its memory from being used again.
        let group = match last {
            Last::Whole(offset) => {
                Some(whole_group(disk, found, offset, self.secret).ok_or(DiskError::Io(0))?)
            }
            Last::None | Last::Damaged => None,
        };
        let group = group.as_ref().map_or(&[][..], |(memory, range)| &memory[range.clone()]);
        let oldest = self.live.front().map_or(found.id, |file| file.id);
        let closing = match self.live.back() {
            Some(file) if !self.is_current_done => {
                cut::closing(disk, file, self.next_sequence, oldest, self.secret)?
            }
            _ => None,
        };
        if let Some(offset) = offset {
            let pieces = [IoSlice::new(block.bytes()), IoSlice::new(group)];
            disk.write_at(found.name(), offset - block.len() as u64, &pieces)?;
        }
        disk.sync(found.name())?;
        // Only now: where one sync of both failed, the next start would find this one last, and write it again alone.
        if let Some(file) = self.live.back_mut()
            && let Some(closing) = closing
        {
            disk.write_at(file.name(), file.end, &[IoSlice::new(closing.bytes())])?;
            disk.sync(file.name())?;
            file.end += BLOCK_LEN;
            self.next_sequence += 1;
        }
        Ok(())
    }

    /// Writes the last file's header again where it is damaged: more groups are going to rely on it.
    fn mend_header(&mut self, disk: &dyn Disk, found: &[Found]) -> Result<(), OpenError> {
        let Some(last) = self.live.back() else { return Ok(()) };
        let damaged = found.iter().find(|file| file.id == last.id && file.header.is_none());
        let Some(first_sequence) = damaged.and_then(|file| file.first_sequence) else {
            // Nothing tells where it begins, so nothing more is written to it.
            self.is_current_done |= damaged.is_some();
            return Ok(());
        };
        let oldest = self.live.front().map_or(last.id, |file| file.id);
        let header = FileHeader { file: last.id, salt: salt(self.secret, last.id), oldest, first_sequence };
        let mut block = Buffer::default();
        block.extend(&header.write());
        block.pad_to(BLOCK);
        disk.write_at(last.name(), 0, &[IoSlice::new(block.bytes())])?;
        disk.sync(last.name())?;
        Ok(())
    }

    /// Bulk files that no group names were never committed or are not needed any more. They are let go of only if the
    /// journal is whole: a damaged group may have named them.
    fn sort_out_bulk(&mut self, disk: &dyn Disk, recovered: &Recovered) -> Result<(), OpenError> {
        let named: BTreeSet<u64> = self.live.iter().flat_map(|file| file.bulk.iter().copied()).collect();
        for name in disk.list(FileKind::Bulk)? {
            self.next_bulk = self.next_bulk.max(name.number + 1);
            if !named.contains(&name.number) && recovered.damages.is_empty() {
                self.unneeded.push(name);
            }
        }
        Ok(())
    }
}

/// Where writing goes on after a walk.
struct GoOn {
    next_sequence: u64,
    /// Behind the last group of the last file; otherwise a new file is begun.
    in_last_file: bool,
}

/// Why a place holds no group.
enum Nothing {
    /// No group of this file is there, or not a whole one.
    Invalid,
    /// One is there that no version of this program writes.
    Malformed(Malformed),
    /// The device does not say what is there.
    Io(i32),
}

/// One pass over the files, oldest first.
struct Walk<'a> {
    disk: &'a dyn Disk,
    start: Start,
    window: Window<'a>,
    visit: &'a mut dyn FnMut(RecoveredBatch),
    recovered: Recovered,
    live: VecDeque<LiveFile>,
    /// The last group of the last file.
    last: Last,
}

/// The last group of a file.
#[derive(Clone, Copy, Debug)]
enum Last {
    /// There is none.
    None,
    /// It is whole, and begins there.
    Whole(u64),
    /// Some of it is lost.
    Damaged,
}

impl Walk<'_> {
    /// Walks `found`; nothing before `oldest` is needed.
    fn files(&mut self, found: &[Found], oldest: FileId) -> GoOn {
        let mut go_on = GoOn { next_sequence: 1, in_last_file: true };
        let Some(first) = found.first() else { return go_on };
        self.miss(oldest.0, first.id.0);
        let mut sequence = None;
        for (at, file) in found.iter().enumerate() {
            let next = found.get(at + 1);
            self.last = Last::None;
            self.live.push_back(LiveFile::new(file.id, file.slot, file.len, BLOCK_LEN));
            let is_next_missing = next.is_some_and(|next| next.id.0 != file.id.0 + 1);
            // The first group of the next file was written after all of this one's were synced.
            let ends_at = next.and_then(|next| next.first_sequence).filter(|_| !is_next_missing);
            (sequence, go_on.in_last_file) =
                self.file(file, file.first_sequence.or(sequence), ends_at, next.is_some());
            self.miss(file.id.0.saturating_add(1), next.map_or(0, |next| next.id.0));
            if is_next_missing {
                sequence = None;
            }
        }
        go_on.next_sequence = sequence.unwrap_or(1);
        go_on
    }

    /// The files from `first` to before `end` are not there.
    fn miss(&mut self, first: u64, end: u64) {
        for id in (first..end).take(MISSING_MAX) {
            self.lose(None, None, FileId(id), 0, DamageCause::Missing);
        }
    }

    /// Walks one file whose first group should be `sequence` (`None`: not known) and whose successor begins with
    /// `ends_at` (`None`: not known, or there is none). Returns the next sequence number, and whether writing may go on
    /// behind the last group.
    fn file(
        &mut self,
        file: &Found,
        mut sequence: Option<u64>,
        ends_at: Option<u64>,
        has_next: bool,
    ) -> (Option<u64>, bool) {
        let mut offset = BLOCK_LEN;
        let mut may_go_on = true;
        let mut ended_by = DamageCause::Checksum;
        while offset < file.len {
            if ends_at.is_some() && sequence == ends_at {
                break;
            }
            let cause = match self.group_at(file, offset) {
                Ok((group, entries)) if sequence.is_none_or(|expected| expected == group.sequence) => {
                    let memory = self.memory(file, offset, group.len);
                    // A newer file alone proves nothing: it may have been begun in the place of a group torn here.
                    let is_proved = || {
                        ends_at.is_some_and(|end| end > group.sequence)
                            || !matches!(self.later_group(file, offset, group.sequence), Ok(None))
                    };
                    let is_whole = memory.as_ref().is_ok_and(|(memory, range)| {
                        let bytes = &memory[range.clone()];
                        entries.iter().all(|entry| entry.bulk != 0 || is_right(entry, offset, bytes))
                    });
                    if !is_whole && !is_proved() {
                        // A torn write reads back, and is the last of all; otherwise it may have been committed.
                        let cause = memory.err().map(cause_of);
                        match cause.or(has_next.then_some(DamageCause::Checksum)) {
                            None => self.recovered.torn_bytes = group.len,
                            Some(cause) => {
                                self.lose_all(file, offset, &entries, cause);
                                may_go_on = false;
                            }
                        }
                        break;
                    }
                    self.last = if is_whole { Last::Whole(offset) } else { Last::Damaged };
                    self.group(file, offset, &entries, memory);
                    sequence = Some(group.sequence + 1);
                    offset += group.len;
                    self.live.back_mut().expect("pushed before").end = offset;
                    continue;
                }
                Ok(_) | Err(Nothing::Invalid) => DamageCause::Checksum,
                Err(Nothing::Malformed(how)) => DamageCause::Malformed(how),
                Err(Nothing::Io(code)) => DamageCause::Io(code),
            };
            match self.later_group(file, offset, sequence.unwrap_or(0)) {
                Ok(Some((at, found))) => {
                    self.lose(None, None, file.id, offset, cause);
                    self.last = Last::Damaged;
                    (offset, sequence) = (at, Some(found));
                    self.live.back_mut().expect("pushed before").end = offset;
                }
                Err(error) => {
                    self.lose(None, None, file.id, offset, cause_of(error));
                    may_go_on = false;
                    break;
                }
                Ok(None) => {
                    // The end: of the last file, or of one whose last groups are lost (told below), or of one whose
                    // successor is lost (told by the caller).
                    if let DamageCause::Io(_) | DamageCause::Malformed(_) = cause
                        && ends_at.is_none()
                    {
                        self.lose(None, None, file.id, offset, cause);
                        may_go_on = false;
                    }
                    ended_by = cause;
                    break;
                }
            }
        }
        if ends_at.is_some() && sequence != ends_at {
            self.lose(None, None, file.id, offset, ended_by);
            sequence = ends_at;
        }
        (sequence, may_go_on)
    }

    /// Visits the batches of a committed group.
    fn group(
        &mut self,
        file: &Found,
        offset: u64,
        entries: &[Entry],
        memory: Result<(Memory, Range<usize>), DiskError>,
    ) {
        for entry in entries {
            let void_to = live::note(&mut self.live, entry);
            let found = match entry.bulk {
                0 => memory.clone().map(|(memory, range)| {
                    let is_right = is_right(entry, offset, &memory[range.clone()]);
                    is_right.then(|| (memory, range.start + (entry.offset - offset) as usize))
                }),
                id => bulk::read(self.disk, salt(self.start.secret, FileId(id)), entry)
                    .map(|memory| memory.map(|memory| (memory, 0))),
            };
            let (memory, at) = match found {
                Ok(Some(found)) => found,
                Ok(None) => {
                    self.lose(Some(entry.log), Some(entry.base), file.id, offset, DamageCause::Checksum);
                    continue;
                }
                Err(error) => {
                    self.lose(Some(entry.log), Some(entry.base), file.id, offset, cause_of(error));
                    continue;
                }
            };
            let name = match entry.bulk {
                0 => file.name(),
                id => FileName::new(FileKind::Bulk, id),
            };
            let Entry { log, crc, base, committed_at_ms, offset, len, mark, .. } = *entry;
            let place = Place { file: file.id, name, offset, len, crc };
            self.recovered.batches += 1;
            self.recovered.record_bytes += len;
            let records = at..at + len as usize;
            let found = RecoveredBatch { log, base, memory, records, place, committed_at_ms, mark, void_to };
            (self.visit)(found);
        }
    }

    fn lose_all(&mut self, file: &Found, offset: u64, entries: &[Entry], cause: DamageCause) {
        for entry in entries {
            self.lose(Some(entry.log), Some(entry.base), file.id, offset, cause);
        }
    }

    fn lose(
        &mut self,
        log: Option<LogId>,
        base: Option<LogIndex>,
        file: FileId,
        offset: u64,
        cause: DamageCause,
    ) {
        self.recovered.damages.push(Damage { log, base, file, offset, cause });
    }

    fn group_at(&mut self, file: &Found, offset: u64) -> Result<(GroupHeader, Vec<Entry>), Nothing> {
        let io = |error| match error {
            DiskError::Io(code) => Nothing::Io(code),
            _ => Nothing::Io(0),
        };
        let (bytes, short) = head_bytes(&mut self.window, file.name(), file.len, offset).map_err(io)?;
        let salt = salt(self.start.secret, file.id);
        let expected = Expected { salt, file: file.id, offset, file_len: file.len };
        let is_begun = || GroupHeader::peek_salt(bytes) == Some(salt);
        match (GroupHeader::find(bytes, expected), short) {
            (Ok(found), _) => Ok(found),
            (Err(NoGroup::Malformed(how)), _) => Err(Nothing::Malformed(how)),
            (Err(NoGroup::Absent), Some(error)) if is_begun() => Err(io(error)),
            (Err(NoGroup::Absent), _) => Err(Nothing::Invalid),
        }
    }

    /// The next group behind `offset` whose sequence number is over `over`, and that number. Blocks that the device does not
    /// return are passed over.
    ///
    /// # Errors
    /// There is none, but for one that begins and whose header cannot be read.
    fn later_group(&self, file: &Found, offset: u64, over: u64) -> Result<Option<(u64, u64)>, DiskError> {
        let name = file.name();
        let salt = salt(self.start.secret, file.id);
        let mut window = Window::new(self.disk, 1 << 20);
        let mut at = offset + BLOCK_LEN;
        let mut unread = None;
        while at < file.len {
            let found = window.from(name, file.len, at, BLOCK_LEN).map(GroupHeader::peek_file);
            if found == Ok(Some(file.id))
                && let Ok((bytes, short)) = head_bytes(&mut window, name, file.len, at)
            {
                let expected = Expected { salt, file: file.id, offset: at, file_len: file.len };
                match GroupHeader::find(bytes, expected) {
                    Ok((group, _)) if group.sequence > over => return Ok(Some((at, group.sequence))),
                    Err(_) if GroupHeader::peek_salt(bytes) == Some(salt) => unread = unread.or(short),
                    _ => {}
                }
            }
            at += BLOCK_LEN;
        }
        unread.map_or(Ok(None), Err)
    }

    /// The memory of a whole group, and where in it that is.
    fn memory(&mut self, file: &Found, offset: u64, len: u64) -> Result<(Memory, Range<usize>), DiskError> {
        let name = file.name();
        self.window.memory(name, file.len, offset, len)
    }
}

fn cause_of(error: DiskError) -> DamageCause {
    match error {
        DiskError::NotFound => DamageCause::Missing,
        DiskError::Io(code) => DamageCause::Io(code),
        DiskError::NoSpace | DiskError::Exists => DamageCause::Io(0),
    }
}
