//! The journal: where all logs of a node are committed.
//!
//! One group is in flight at a time: it is written behind the last one and synced before [`Journal::write`] returns,
//! so a valid group proves that all groups before it were committed. Invariant: everything before `end` of the
//! current file is committed and synced; everything behind it is of no meaning.

use crate::batch::{Place, Sealed};
use crate::disk::{Disk, DiskError, FileKind, FileName};
use crate::file::{FileHeader, FileId, LiveFile, salt};
use crate::group::{Entry, GROUP_BATCHES_MAX, GroupHeader, header_len};
use crate::spare::{Spare, SpareMaker};
use crate::{Limits, bulk, live};
use base::Buffer;
use base::memory::BLOCK;
use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;

/// Why a write did not commit everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// There is no space for it; the journal is unharmed and the same batches may be written later.
    NoSpace,
    /// The device failed, now or in an earlier write. The group being written may or may not be found by the next
    /// start; the journal refuses everything from here on, and the node must stop.
    Fatal(DiskError),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::NoSpace => f.write_str("no space for the journal"),
            WriteError::Fatal(error) => write!(f, "the journal failed: {error}"),
        }
    }
}

impl std::error::Error for WriteError {}

/// Counts of a journal since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Groups committed.
    pub groups: u64,
    /// Batches committed.
    pub batches: u64,
    /// Bytes of records committed.
    pub record_bytes: u64,
    /// Calls of [`Disk::write_at`] for groups and bulk files.
    pub writes: u64,
    /// Bytes given to them.
    pub written_bytes: u64,
    /// Calls of [`Disk::sync`].
    pub syncs: u64,
    /// Files begun.
    pub rolls: u64,
    /// Files begun although no spare was ready: each made a commit wait.
    pub unprepared_rolls: u64,
    /// Batches that went to a bulk file.
    pub bulk_files: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Journal {
    pub(crate) limits: Limits,
    pub(crate) secret: u64,
    /// Files with batches that may be needed, oldest first; the last one is written to. Empty before the first write.
    pub(crate) live: VecDeque<LiveFile>,
    pub(crate) spares: VecDeque<Spare>,
    /// Spare slots that are being made by somebody.
    pub(crate) spares_promised: usize,
    pub(crate) next_file: FileId,
    pub(crate) next_slot: u64,
    pub(crate) next_bulk: u64,
    pub(crate) next_sequence: u64,
    /// The current file takes no more groups.
    pub(crate) is_current_done: bool,
    pub(crate) rolled: Vec<FileId>,
    pub(crate) unneeded: Vec<FileName>,
    /// Released files: removed or used again once a group says on disk that they are not needed.
    pub(crate) released: Vec<LiveFile>,
    /// Bulk files named by groups that found no space while they were written.
    pub(crate) doubtful_bulk: Vec<u64>,
    pub(crate) fatal: Option<DiskError>,
    pub(crate) counters: Counters,
    pub(crate) head: Buffer,
    pub(crate) entries: Vec<Entry>,
}

impl Journal {
    pub(crate) fn empty(limits: Limits, secret: u64) -> Journal {
        let least = 2 * BLOCK as u64;
        assert!(
            limits.file_bytes >= least
                && limits.first_file_bytes >= least
                && limits.file_bytes.is_multiple_of(BLOCK as u64)
                && limits.first_file_bytes.is_multiple_of(BLOCK as u64),
            "journal files are whole blocks, one of them the header's"
        );
        Journal {
            limits,
            secret,
            live: VecDeque::new(),
            spares: VecDeque::new(),
            spares_promised: 0,
            next_file: FileId(1),
            next_slot: 0,
            next_bulk: 1,
            next_sequence: 1,
            is_current_done: false,
            rolled: Vec::new(),
            unneeded: Vec::new(),
            released: Vec::new(),
            doubtful_bulk: Vec::new(),
            fatal: None,
            counters: Counters::default(),
            head: Buffer::default(),
            entries: Vec::new(),
        }
    }

    /// Commits `batches` in their order, as few groups as they fit in, each with one write and one sync. `places` is
    /// cleared and then given the place of every batch that was committed: when this returns an error, those are the
    /// first of `batches` and stay committed, the others are not.
    ///
    /// Without batches it writes an empty group: after that a bit that rots in the last batches is told from a write
    /// that was torn. Worth a sync when the node stops or falls idle.
    pub fn write(
        &mut self,
        disk: &dyn Disk,
        batches: &[Sealed],
        places: &mut Vec<Place>,
    ) -> Result<(), WriteError> {
        places.clear();
        let mut rest = batches;
        loop {
            if let Some(error) = self.fatal {
                return Err(WriteError::Fatal(error));
            }
            let count = self.group_of(rest);
            let (group, later) = rest.split_at(count);
            self.commit(disk, group, places).inspect_err(|error| {
                if let WriteError::Fatal(error) = error {
                    self.fatal = Some(*error);
                }
            })?;
            rest = later;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// How many of `batches` go into one group: as many as fit into a file.
    fn group_of(&self, batches: &[Sealed]) -> usize {
        // One block is the file's header's, one is kept for a group without batches.
        let room = (self.limits.file_bytes as usize).saturating_sub(2 * BLOCK);
        let (mut bytes, mut marks) = (0, 0);
        let mut count = 0;
        for batch in batches.iter().take(GROUP_BATCHES_MAX) {
            if !self.is_bulk(batch) {
                bytes += batch.len.next_multiple_of(BLOCK);
            }
            marks += usize::from(batch.mark.is_some());
            let head = 2 * header_len(count + 1, marks);
            if count > 0 && bytes + head.next_multiple_of(BLOCK) > room {
                break;
            }
            count += 1;
        }
        count
    }

    fn is_bulk(&self, batch: &Sealed) -> bool {
        // The second bound keeps a group of one batch within a file whatever the limits are.
        batch.len > self.limits.inline_bytes_max
            || batch.len.next_multiple_of(BLOCK) + 3 * BLOCK > self.limits.file_bytes as usize
    }

    fn commit(
        &mut self,
        disk: &dyn Disk,
        batches: &[Sealed],
        places: &mut Vec<Place>,
    ) -> Result<(), WriteError> {
        let layout = self.layout(batches);
        let len = layout.len;
        // The last block of a file is for a group without batches.
        let kept = if batches.is_empty() { 0 } else { BLOCK as u64 };
        self.free_released(disk, len, kept)?;
        let prepared = self.write_bulk(disk, batches).and_then(|()| self.target(disk, len, kept));
        let bulk = self.entries.iter().map(|entry| entry.bulk).filter(|bulk| *bulk != 0);
        let bulk: Vec<u64> = bulk.collect();
        let target = prepared.inspect_err(|_| {
            for bulk in &bulk {
                let _found_unnamed_on_the_next_start = disk.remove(FileName::new(FileKind::Bulk, *bulk));
            }
        })?;
        self.encode(&target, &layout, batches);
        let outcome = self.put(disk, &target, layout.packed, batches);
        self.settle(disk, target, outcome, len).inspect_err(|_| {
            // The next start may find the group whole all the same, until another is written over it.
            self.doubtful_bulk.extend(&bulk);
        })?;
        self.let_go();
        let doubtful = self.doubtful_bulk.drain(..);
        self.unneeded.extend(doubtful.map(|bulk| FileName::new(FileKind::Bulk, bulk)));
        let file = self.live.back().expect("a group was just written to it");
        let (file, inline) = (file.id, file.name());
        for entry in &self.entries {
            let name = match entry.bulk {
                0 => inline,
                bulk => FileName::new(FileKind::Bulk, bulk),
            };
            _ = live::note(&mut self.live, entry);
            let Entry { offset, len, crc, .. } = *entry;
            places.push(Place { file, name, offset, len, crc });
            self.counters.record_bytes += len;
        }
        self.counters.batches += batches.len() as u64;
        Ok(())
    }

    /// Where only released files have room for a group of `len` bytes: a group without batches says that they are not
    /// needed.
    fn free_released(&mut self, disk: &dyn Disk, len: u64, kept: u64) -> Result<(), WriteError> {
        let fits = self.has_room(len + kept) || self.spares.iter().any(|spare| spare.fits(len));
        if fits || self.released.is_empty() || self.room() < BLOCK as u64 || self.is_current_done {
            return Ok(());
        }
        let file = self.live.back().expect("a file has room");
        let spare = Spare { slot: file.slot, len: file.len };
        let target = Target { spare, id: file.id, offset: file.end, is_new: false };
        self.entries.clear();
        let layout = self.layout(&[]);
        self.encode(&target, &layout, &[]);
        let outcome = self.put(disk, &target, layout.packed, &[]);
        self.settle(disk, target, outcome, layout.len)?;
        self.let_go();
        Ok(())
    }

    fn has_room(&self, len: u64) -> bool {
        let is_open = |file: &LiveFile| file.bulk_bytes < self.limits.bulk_bytes_max;
        !self.is_current_done && self.live.back().is_some_and(is_open) && len <= self.room()
    }

    /// Begins the entries of a group and writes those records to files of their own that are too big to be inline.
    fn write_bulk(&mut self, disk: &dyn Disk, batches: &[Sealed]) -> Result<(), WriteError> {
        self.entries.clear();
        for batch in batches {
            let bulk = match self.is_bulk(batch) {
                true => {
                    self.next_bulk += 1;
                    self.next_bulk - 1
                }
                false => 0,
            };
            self.entries.push(Entry {
                log: batch.log,
                crc: batch.crc,
                base: batch.base,
                committed_at_ms: batch.committed_at_ms,
                offset: BLOCK as u64,
                len: batch.len as u64,
                bulk,
                mark: batch.mark,
            });
            if bulk != 0 {
                bulk::write(disk, bulk, salt(self.secret, FileId(bulk)), batch).map_err(
                    |error| match error {
                        DiskError::NoSpace => WriteError::NoSpace,
                        error => WriteError::Fatal(error),
                    },
                )?;
                self.counters.bulk_files += 1;
                self.counters.writes += 1;
                self.counters.syncs += 1;
                self.counters.written_bytes += (BLOCK + batch.memory.len()) as u64;
            }
        }
        Ok(())
    }

    /// The shape of a group of `batches`.
    fn layout(&self, batches: &[Sealed]) -> Layout {
        let marks = batches.iter().filter(|batch| batch.mark.is_some()).count();
        let head = 2 * header_len(batches.len(), marks);
        let inline = || batches.iter().filter(|batch| !self.is_bulk(batch));
        let tight: usize = inline().map(|batch| batch.len.next_multiple_of(8)).sum();
        let packed = tight <= self.limits.packed_bytes_max;
        let len = match packed {
            true => (head + tight).next_multiple_of(BLOCK),
            false => {
                let spread: usize = inline().map(|batch| batch.len.next_multiple_of(BLOCK)).sum();
                head.next_multiple_of(BLOCK) + spread
            }
        };
        Layout { marks, head, packed, len: len as u64 }
    }

    /// Where a group of `len` bytes goes: the current file, or the next one where that would not keep `kept` bytes.
    fn target(&mut self, disk: &dyn Disk, len: u64, kept: u64) -> Result<Target, WriteError> {
        if self.has_room(len + kept) {
            let file = self.live.back().expect("a file has room");
            let (slot, id, offset) = (file.slot, file.id, file.end);
            return Ok(Target { spare: Spare { slot, len: file.len }, id, offset, is_new: false });
        }
        let at = self.spares.iter().position(|spare| spare.fits(len));
        let spare = match at.and_then(|at| self.spares.remove(at)) {
            Some(spare) => spare,
            None => {
                let has_prepared = !self.live.is_empty();
                self.counters.unprepared_rolls += u64::from(has_prepared);
                self.make_unprepared(disk)?
            }
        };
        Ok(Target { spare, id: self.next_file, offset: BLOCK as u64, is_new: true })
    }

    /// A file in the midst of a commit: set aside, not written ahead, because somebody is waiting.
    fn make_unprepared(&mut self, disk: &dyn Disk) -> Result<Spare, WriteError> {
        let spare = Spare { slot: self.take_slot(), len: self.limits.file_bytes };
        let name = spare.name();
        // Without room for snapshots no file can ever be released again.
        if disk.free_bytes().is_ok_and(|free| free < spare.len + self.limits.reserve_bytes()) {
            return Err(WriteError::NoSpace);
        }
        let made = disk.create(name, spare.len).and_then(|()| disk.sync_folder(FileKind::Journal));
        match made {
            Ok(()) => Ok(spare),
            Err(DiskError::NoSpace) => Err(WriteError::NoSpace),
            Err(error) => Err(WriteError::Fatal(error)),
        }
    }

    /// Builds what goes in front of the batches' own memory: the file's header where it is new, the group's header, and
    /// the records themselves where they are packed.
    fn encode(&mut self, target: &Target, layout: &Layout, batches: &[Sealed]) {
        let Layout { marks, head, packed, len } = *layout;
        self.head.truncate(0);
        let salt = salt(self.secret, target.id);
        let oldest = self.live.front().map_or(target.id, |file| file.id);
        if target.is_new {
            let header = FileHeader { file: target.id, salt, oldest, first_sequence: self.next_sequence };
            self.head.extend(&header.write());
            self.head.pad_to(BLOCK);
        }
        let start = self.head.len();
        self.head.extend_zeroed(head);
        let mut offset = match packed {
            true => target.offset + head as u64,
            false => target.offset + head.next_multiple_of(BLOCK) as u64,
        };
        for (batch, entry) in batches.iter().zip(&mut self.entries).filter(|(_, entry)| entry.bulk == 0) {
            entry.offset = offset;
            if packed {
                self.head.extend(batch.records());
                self.head.pad_to(8);
                offset += batch.len.next_multiple_of(8) as u64;
            } else {
                offset += batch.len.next_multiple_of(BLOCK) as u64;
            }
        }
        self.head.pad_to(BLOCK);
        let (file, offset, sequence) = (target.id, target.offset, self.next_sequence);
        let header = GroupHeader { salt, file, offset, sequence, len, oldest };
        header.write(&self.entries, marks, &mut self.head.bytes_mut()[start..start + head]);
    }

    fn put(
        &mut self,
        disk: &dyn Disk,
        target: &Target,
        packed: bool,
        batches: &[Sealed],
    ) -> Result<(), DiskError> {
        let name = target.spare.name();
        let start = if target.is_new { 0 } else { target.offset };
        let head = IoSlice::new(self.head.bytes());
        if packed {
            disk.write_at(name, start, &[head])?;
        } else {
            let inline = batches.iter().zip(&self.entries).filter(|(_, entry)| entry.bulk == 0);
            let records =
                inline.map(|(batch, _)| IoSlice::new(&batch.memory[..batch.len.next_multiple_of(BLOCK)]));
            let pieces: Vec<IoSlice<'_>> = std::iter::once(head).chain(records).collect();
            disk.write_at(name, start, &pieces)?;
        }
        // A sync that says "no space" has failed like any other: the data may be gone.
        disk.sync(name).map_err(|error| match error {
            DiskError::NoSpace => DiskError::Io(0),
            error => error,
        })
    }

    /// Takes the outcome of writing a group to `target` into account.
    fn settle(
        &mut self,
        disk: &dyn Disk,
        target: Target,
        outcome: Result<(), DiskError>,
        len: u64,
    ) -> Result<(), WriteError> {
        match outcome {
            Ok(()) => {}
            Err(DiskError::NoSpace) if target.is_new => {
                // Its header may be on disk, and would end the current file, which goes on.
                let name = target.spare.name();
                let removed = disk.remove(name).and_then(|()| disk.sync_folder(FileKind::Journal));
                return Err(removed.map_or_else(WriteError::Fatal, |()| WriteError::NoSpace));
            }
            Err(DiskError::NoSpace) => return Err(WriteError::NoSpace),
            Err(error) => return Err(WriteError::Fatal(error)),
        }
        if target.is_new {
            self.rolled.extend(self.live.back().map(|file| file.id));
            let Spare { slot, len } = target.spare;
            self.live.push_back(LiveFile::new(target.id, slot, len, BLOCK as u64));
            self.next_file = FileId(target.id.0 + 1);
            self.is_current_done = false;
            self.counters.rolls += 1;
        }
        let file = self.live.back_mut().expect("the target is the last file");
        file.end = target.offset + len;
        self.next_sequence += 1;
        self.counters.groups += 1;
        self.counters.writes += 1;
        self.counters.syncs += 1;
        self.counters.written_bytes += len + if target.is_new { BLOCK as u64 } else { 0 };
        Ok(())
    }

    /// The next group begins a new file, so that the current one can be released once nothing in it is needed.
    pub fn roll(&mut self) {
        self.is_current_done = !self.live.is_empty();
    }

    /// The files that were left for a next one since this was last asked, oldest first: time to move live remains out
    /// of them and to write snapshots.
    pub fn take_rolled(&mut self) -> Vec<FileId> {
        std::mem::take(&mut self.rolled)
    }

    /// Files that may still be needed, oldest first; the last is being written to.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = &LiveFile> + ExactSizeIterator {
        self.live.iter()
    }

    /// The place the next group goes to at the earliest: what a snapshot of the present state replays from.
    pub fn end(&self) -> (FileId, u64) {
        self.live.back().map_or((self.next_file, BLOCK as u64), |file| (file.id, file.end))
    }

    /// Nothing in the files up to and with `through` is needed any more: every log has a durable snapshot that replays
    /// from behind them, and no live message is read from them. Their slots are used again, from the next commit on;
    /// the current file stays.
    pub fn release(&mut self, through: FileId) {
        while self.live.len() > 1 && self.live.front().is_some_and(|file| file.id <= through) {
            self.released.extend(self.live.pop_front());
        }
    }

    /// A group on disk now says which files are not needed.
    fn let_go(&mut self) {
        for file in self.released.drain(..) {
            self.unneeded.extend(file.bulk.iter().map(|bulk| FileName::new(FileKind::Bulk, *bulk)));
            // Files shorter than the others (the first one) are not worth keeping.
            if self.spares.len() < self.limits.spare_files_max && file.len >= self.limits.file_bytes {
                self.spares.push_back(Spare { slot: file.slot, len: file.len });
            } else {
                self.unneeded.push(file.name());
            }
        }
    }

    /// Released files wait for the next group.
    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Its counts so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Why it refuses everything, if it does.
    pub fn fatal(&self) -> Option<DiskError> {
        self.fatal
    }

    fn take_slot(&mut self) -> u64 {
        self.next_slot += 1;
        self.next_slot - 1
    }

    /// A maker of the next spare file, for a thread of its own, while fewer than `spare_files` are ready or promised.
    /// Every maker taken must come back as [`Journal::add_spare`] or [`Journal::spare_failed`].
    pub fn wanted_spare(&mut self) -> Option<SpareMaker> {
        let enough = self.spares.len() + self.spares_promised >= self.limits.spare_files;
        if enough || self.fatal.is_some() {
            return None;
        }
        self.spares_promised += 1;
        let slot = self.take_slot();
        Some(SpareMaker::new(slot, self.limits.file_bytes, self.limits.prepare_bytes))
    }

    /// The file a maker made.
    pub fn add_spare(&mut self, spare: Spare) {
        self.spares_promised -= 1;
        self.spares.push_back(spare);
    }

    /// A maker failed. No harm is done: without a spare the next roll makes its file itself.
    pub fn spare_failed(&mut self) {
        self.spares_promised -= 1;
    }

    /// Prepared files at hand.
    pub fn spares(&self) -> usize {
        self.spares.len()
    }

    /// The bounds it was opened with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Bytes the current file has left.
    pub fn room(&self) -> u64 {
        self.live.back().map_or(0, |file| file.len.saturating_sub(file.end))
    }

    /// A prepared file to be removed, because its room is needed more for what must be moved or written before files can
    /// be released. The last one is given only while the current file has `room_min` bytes left: there must be somewhere
    /// to write that messages were settled.
    pub fn give_up_spare(&mut self, room_min: u64) -> Option<FileName> {
        if self.spares.len() < 2 && self.room() < room_min {
            return None;
        }
        self.spares.pop_back().map(|spare| spare.name())
    }

    /// Files that nobody needs any more, to be removed whenever it suits (it may take milliseconds each), from any
    /// thread. Those that stay are found again by the next start.
    pub fn take_unneeded(&mut self) -> Vec<FileName> {
        std::mem::take(&mut self.unneeded)
    }
}

/// The shape of a group.
struct Layout {
    /// So many of its batches have marks.
    marks: usize,
    /// Bytes of both copies of its header.
    head: usize,
    /// The records are copied behind the header.
    packed: bool,
    /// Bytes of all of it.
    len: u64,
}

/// Where a group goes.
struct Target {
    spare: Spare,
    id: FileId,
    offset: u64,
    is_new: bool,
}
