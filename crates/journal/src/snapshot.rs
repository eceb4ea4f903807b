//! Snapshots: what a log's machines had come to, so that the journal before it is not needed.
//!
//! ```text
//!   0       8         12    16    20         24       32        40          48            56          60      64
//!   | magic | version | crc | log | sections | number | covered | from file | from offset | table crc | zeros |
//!   per section: | tag 4 | crc 4 | len 8 |, then the sections, each followed by zeros to a multiple of 8
//! ```
//!
//! A file per snapshot, written under another name, synced, renamed, and the folder synced: it is there whole or not
//! at all, and every start gives it its name once more. Each log keeps [`KEPT`], and the journal what the older one
//! needs, so that rot in the newest costs a longer replay and nothing else. A damaged one is reported and moved aside,
//! never deleted: of a log that has no other it tells every start that there was more ([`Snapshots::lost`]).

use crate::disk::{Disk, DiskError, FileKind, FileName, back_again, name_again, read_exact};
use crate::file::{FileId, HeaderError, LogSpan, OtherVersion, VERSION, check_header, header_crc};
use crate::journal::Journal;
use crate::recovery::Start;
use base::crc::{crc32c, crc32c_append};
use base::id::{LogId, LogIndex};
use base::{Buffer, Memory, Reader, Short};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::IoSlice;
use std::ops::Range;

const MAGIC: [u8; 8] = *b"LVRTSNAP";
const HEADER: usize = 64;
const TABLE_ENTRY: usize = 16;

/// Snapshots kept of each log, the newest included.
pub const KEPT: usize = 2;

/// Sections one snapshot may have.
pub const SECTIONS_MAX: usize = 1 << 16;

/// A section to be written: its tag, and its bytes in as many pieces as they are in.
pub type Section<'a> = (u32, &'a [&'a [u8]]);

/// The extent of a snapshot: up to where it covers its log, and from where the journal is replayed behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover {
    /// The log.
    pub log: LogId,
    /// Everything before this index is in the snapshot. No batch may take it back any more.
    pub covered: LogIndex,
    /// The journal file replay starts in.
    pub from_file: FileId,
    /// Where in it: before it lies no batch with records from `covered` on, but for void ones, and no mark without records that
    /// the snapshot does not know.
    pub from_offset: u64,
}

/// A snapshot that was read and found right.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its extent.
    pub cover: Cover,
    /// Which of the log's snapshots: they count up.
    pub number: u64,
    memory: Memory,
    sections: Vec<(u32, Range<usize>)>,
}

impl Snapshot {
    /// The bytes of the first section with this tag.
    pub fn section(&self, tag: u32) -> Option<&[u8]> {
        self.sections().find(|(found, _)| *found == tag).map(|(_, bytes)| bytes)
    }

    /// All sections, in the order they were written.
    pub fn sections(&self) -> impl ExactSizeIterator<Item = (u32, &[u8])> {
        self.sections.iter().map(|(tag, range)| (*tag, &self.memory[range.clone()]))
    }

    /// Reads a whole snapshot file. Any bytes may come.
    pub fn read(memory: Memory) -> Result<Snapshot, HeaderError> {
        let head: &[u8; HEADER] = memory.first_chunk().ok_or(HeaderError::Damaged)?;
        let mut reader = check_header(head, MAGIC)?;
        let (cover, number, count, table_crc) =
            Snapshot::fields(&mut reader).map_err(|Short| HeaderError::Damaged)?;
        let sections = Snapshot::read_sections(&memory, count, table_crc).ok_or(HeaderError::Damaged)?;
        Ok(Snapshot { cover, number, memory, sections })
    }

    fn fields(reader: &mut Reader<'_>) -> Result<(Cover, u64, usize, u32), Short> {
        let log = LogId(reader.u32_le()?);
        let count = reader.u32_le()? as usize;
        let number = reader.u64_le()?;
        let covered = LogIndex(reader.u64_le()?);
        let cover =
            Cover { log, covered, from_file: FileId(reader.u64_le()?), from_offset: reader.u64_le()? };
        Ok((cover, number, count, reader.u32_le()?))
    }

    fn read_sections(bytes: &[u8], count: usize, table_crc: u32) -> Option<Vec<(u32, Range<usize>)>> {
        if count > SECTIONS_MAX {
            return None;
        }
        let mut at = HEADER + count * TABLE_ENTRY;
        let table = bytes.get(HEADER..at).filter(|table| crc32c(table) == table_crc)?;
        let mut reader = Reader::new(table);
        let mut sections = Vec::with_capacity(count);
        for _ in 0..count {
            let (tag, crc) = (reader.u32_le().ok()?, reader.u32_le().ok()?);
            let len = usize::try_from(reader.u64_le().ok()?).ok()?;
            let range = at..at.checked_add(len)?;
            if crc32c(bytes.get(range.clone())?) != crc {
                return None;
            }
            at = range.end.checked_next_multiple_of(8)?;
            sections.push((tag, range));
        }
        (at == bytes.len()).then_some(sections)
    }
}

/// Why a snapshot file was moved aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSnapshot {
    /// Its name; its log is the name's.
    pub name: FileName,
    /// The device's error; `None` where the bytes are not those that were written.
    pub error: Option<DiskError>,
}

impl fmt::Display for BadSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.error {
            None => write!(f, "{name} has a wrong checksum and was moved to the quarantine folder"),
            Some(error) => {
                write!(f, "{name} cannot be read ({error}) and was moved to the quarantine folder")
            }
        }
    }
}

/// Why the snapshots of a data folder cannot be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// One was written by a version this program does not know.
    Version {
        /// The file.
        name: FileName,
        /// Its version.
        version: u32,
    },
    /// The device failed.
    Disk(DiskError),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Version { name, version } => {
                write!(f, "{name} was written {}", OtherVersion(*version))
            }
            SnapshotError::Disk(error) => write!(f, "cannot read the snapshots: {error}"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<DiskError> for SnapshotError {
    fn from(error: DiskError) -> SnapshotError {
        SnapshotError::Disk(error)
    }
}

/// The snapshots of a data folder: which there are, and what the oldest kept ones need of the journal.
#[derive(Clone, Debug, Default)]
pub struct Snapshots {
    logs: BTreeMap<LogId, Series>,
}

#[derive(Clone, Debug, Default)]
struct Series {
    /// Oldest first; the last one is the newest.
    kept: VecDeque<(u64, Cover)>,
    next: u64,
}

impl Snapshots {
    /// Reads the newest sound snapshot of every log, in order of log, and names those that were moved aside now. The loss of a log
    /// all of whose snapshots are bad is told by [`Snapshots::lost`].
    pub fn load(disk: &dyn Disk) -> Result<(Snapshots, Vec<Snapshot>, Vec<BadSnapshot>), SnapshotError> {
        let mut snapshots = Snapshots::default();
        let (mut newest, mut bad) = (BTreeMap::<LogId, Snapshot>::new(), Vec::new());
        for name in disk.list(FileKind::SnapshotNew)? {
            disk.remove(name)?;
        }
        for again in disk.list(FileKind::SnapshotAgain)? {
            back_again(disk, again, FileName { kind: FileKind::Snapshot, ..again })?;
        }
        // Numbers are not given twice, so that nothing in quarantine is ever replaced.
        for name in disk.list(FileKind::Quarantined)? {
            let series = snapshots.logs.entry(name.log).or_default();
            series.next = series.next.max(name.number + 1);
        }
        for name in disk.list(FileKind::Snapshot)? {
            let series = snapshots.logs.entry(name.log).or_default();
            series.next = series.next.max(name.number + 1);
            match load_one(disk, name)? {
                Ok(snapshot) => {
                    // Journal files are going to be released because of it: its name must hold.
                    name_again(disk, name, FileName { kind: FileKind::SnapshotAgain, ..name })?;
                    // In order of number, so what is found later is newer.
                    series.kept.push_back((name.number, snapshot.cover));
                    newest.insert(name.log, snapshot);
                }
                Err(error) => {
                    let aside = FileName { kind: FileKind::Quarantined, ..name };
                    disk.rename(name, aside)?;
                    bad.push(BadSnapshot { name, error });
                }
            }
        }
        // First that what was set aside is there, then that it is not where it was: a log that had one is not to come up empty.
        if !bad.is_empty() {
            disk.sync_folder(FileKind::Quarantined)?;
        }
        disk.sync_folder(FileKind::Snapshot)?;
        Ok((snapshots, newest.into_values().collect(), bad))
    }

    /// Makes a snapshot of these `sections` durable, then lets go of the log's oldest one over [`KEPT`]. After an error what was there
    /// before still is; after [`DiskError::NoSpace`] it may be tried again later, after any other the node must stop.
    pub fn write(
        &mut self,
        disk: &dyn Disk,
        cover: Cover,
        sections: &[Section<'_>],
    ) -> Result<(), DiskError> {
        assert!(sections.len() <= SECTIONS_MAX, "more sections than a snapshot may have");
        let series = self.logs.entry(cover.log).or_default();
        let new = FileName::of_log(FileKind::SnapshotNew, cover.log, 0);
        let name = FileName::of_log(FileKind::Snapshot, cover.log, series.next);
        match disk.remove(new) {
            Ok(()) | Err(DiskError::NotFound) => {}
            Err(error) => return Err(error),
        }
        let head = encode_head(cover, series.next, sections);
        let zeros = [0; 8];
        let mut pieces = vec![IoSlice::new(head.bytes())];
        for (_, content) in sections {
            pieces.extend(content.iter().map(|piece| IoSlice::new(piece)));
            pieces.push(IoSlice::new(&zeros[..size(content).next_multiple_of(8) - size(content)]));
        }
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        disk.create(new, len as u64)?;
        disk.write_at(new, 0, &pieces)?;
        disk.sync(new)?;
        disk.rename(new, name)?;
        disk.sync_folder(FileKind::Snapshot)?;
        series.kept.push_back((series.next, cover));
        series.next += 1;
        while series.kept.len() > KEPT {
            if let Some((number, cover)) = series.kept.pop_front() {
                let _found_again_by_the_next_start =
                    disk.remove(FileName::of_log(FileKind::Snapshot, cover.log, number));
            }
        }
        Ok(())
    }

    /// Forgets a log that is no more, newest snapshot last, so that it never comes back with an older one.
    pub fn remove(&mut self, disk: &dyn Disk, log: LogId) -> Result<(), DiskError> {
        let Some(mut series) = self.logs.remove(&log) else { return Ok(()) };
        let newest = series.kept.pop_back();
        for (number, _) in series.kept {
            disk.remove(FileName::of_log(FileKind::Snapshot, log, number))?;
        }
        disk.sync_folder(FileKind::Snapshot)?;
        if let Some((number, _)) = newest {
            disk.remove(FileName::of_log(FileKind::Snapshot, log, number))?;
            disk.sync_folder(FileKind::Snapshot)?;
        }
        Ok(())
    }

    /// Logs that had snapshots none of which is sound, by what lies in quarantine: they have lost their past, and what the
    /// journal still has of one is not known to be all, though it be nothing. So it is until a sound one is put back, or
    /// somebody has taken the bad ones away.
    pub fn lost(&self) -> impl Iterator<Item = LogId> {
        // A first one that could not be written has no number yet.
        self.logs.iter().filter(|(_, series)| series.kept.is_empty() && series.next > 0).map(|(log, _)| *log)
    }

    /// The extent of the newest snapshot of `log`.
    pub fn newest(&self, log: LogId) -> Option<Cover> {
        self.logs.get(&log)?.kept.back().map(|(_, cover)| *cover)
    }

    /// The extent of the oldest kept snapshot of `log`, which the journal must still be able to continue.
    pub fn oldest(&self, log: LogId) -> Option<Cover> {
        self.logs.get(&log)?.kept.front().map(|(_, cover)| *cover)
    }

    /// Where the journal of the folder with this `secret` is read from: the oldest file that the newest snapshot of any
    /// of `logs` replays from; what an older kept one needs beyond that stays. They must be all logs that may have
    /// records: one without a snapshot needs everything there is.
    pub fn start(&self, secret: u64, logs: impl IntoIterator<Item = LogId>) -> Start {
        let first = |cover: Option<Cover>| cover.map_or(FileId(0), |cover| cover.from_file);
        let files = logs.into_iter().map(|log| (first(self.newest(log)), first(self.oldest(log))));
        let (from, keep) = files
            .reduce(|(from, keep), (newest, oldest)| (from.min(newest), keep.min(oldest)))
            .unwrap_or((FileId(0), FileId(0)));
        Start { secret, from, keep }
    }

    /// Everything of `log` before this lies in files its newest snapshot does not replay from: nothing in it is read
    /// from there any more. It is covered by that snapshot, also where damage in those files hides that a batch went back.
    pub fn moved(&self, journal: &Journal, log: LogId) -> LogIndex {
        let Some(cover) = self.newest(log) else { return LogIndex(0) };
        let before = journal.files().take_while(|file| file.id < cover.from_file);
        let spans = before.flat_map(|file| &file.logs).filter(|span| span.log == log);
        spans.map(|span| span.end.min(cover.covered)).max().unwrap_or(LogIndex(0))
    }

    /// The newest file of `journal` that no log needs any more, with all before it: every log that has records there, void
    /// ones left out, has kept snapshots beyond them, and so has every log that has marks there. Give it to [`Journal::release`] once no live message is read from those files.
    pub fn releasable(&self, journal: &Journal) -> Option<FileId> {
        Self::needless(journal, |log| self.oldest(log))
    }

    /// As [`Snapshots::releasable`], were there no older snapshots: so many files may go once each log has one more like its newest.
    pub fn releasable_next(&self, journal: &Journal) -> Option<FileId> {
        Self::needless(journal, |log| self.newest(log))
    }

    fn needless(journal: &Journal, cover: impl Fn(LogId) -> Option<Cover>) -> Option<FileId> {
        let is_needless = |file: &&crate::LiveFile| {
            let is_covered = |span: &LogSpan| {
                cover(span.log).is_some_and(|cover| cover.covered >= span.end && cover.from_file > file.id)
            };
            let is_behind = |log: &LogId| cover(*log).is_some_and(|cover| cover.from_file > file.id);
            file.logs.iter().all(is_covered) && file.marked.iter().all(is_behind)
        };
        let current = journal.files().len().saturating_sub(1);
        journal.files().take(current).take_while(is_needless).last().map(|file| file.id)
    }
}

/// `Ok(Err(..))`: this one is bad, for the reason [`BadSnapshot`] gives.
fn load_one(disk: &dyn Disk, name: FileName) -> Result<Result<Snapshot, Option<DiskError>>, SnapshotError> {
    let mut buffer = Buffer::default();
    let len = disk.len(name)?;
    let read = usize::try_from(len)
        .map_err(|_| DiskError::Io(0))
        .and_then(|len| read_exact(disk, name, 0, buffer.stretch(len)));
    if let Err(error) = read {
        return Ok(Err(Some(error)));
    }
    match Snapshot::read(buffer.seal()) {
        Ok(snapshot) if snapshot.cover.log == name.log && snapshot.number == name.number => Ok(Ok(snapshot)),
        Err(HeaderError::Version(version)) => Err(SnapshotError::Version { name, version }),
        _ => Ok(Err(None)),
    }
}

fn size(content: &[&[u8]]) -> usize {
    content.iter().map(|piece| piece.len()).sum()
}

fn encode_head(cover: Cover, number: u64, sections: &[Section<'_>]) -> Buffer {
    let mut head = Buffer::default();
    head.extend_zeroed(HEADER);
    for (tag, content) in sections {
        let crc = content.iter().fold(crc32c(&[]), |crc, piece| crc32c_append(crc, piece));
        head.extend(&tag.to_le_bytes());
        head.extend(&crc.to_le_bytes());
        head.extend(&(size(content) as u64).to_le_bytes());
    }
    let table_crc = crc32c(&head.bytes()[HEADER..]);
    let mut bytes = [0; HEADER];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..20].copy_from_slice(&cover.log.0.to_le_bytes());
    bytes[20..24].copy_from_slice(&(sections.len() as u32).to_le_bytes());
    bytes[24..32].copy_from_slice(&number.to_le_bytes());
    bytes[32..40].copy_from_slice(&cover.covered.0.to_le_bytes());
    bytes[40..48].copy_from_slice(&cover.from_file.0.to_le_bytes());
    bytes[48..56].copy_from_slice(&cover.from_offset.to_le_bytes());
    bytes[56..60].copy_from_slice(&table_crc.to_le_bytes());
    let crc = header_crc(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    head.bytes_mut()[..HEADER].copy_from_slice(&bytes);
    head
}
