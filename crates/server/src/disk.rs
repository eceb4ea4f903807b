//! The real disk: a data folder of files.
//!
//! Journal and bulk files are written with O_DIRECT where the filesystem takes it (tried once, when the folder is
//! opened) and the pieces are aligned; everything else goes through the page cache. Streams, which are not flushed for
//! a long time, are put on their way to the device piece by piece, so that reads do not wait behind seconds of writes.
//! Descriptors are kept in a bounded cache, least recently used out first, so that callers need not open or close
//! anything. The folder is locked for as long as the value lives.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the file where files live")]

use crate::leftovers::{Leftover, Leftovers, WAITING_MAX};
use crate::private;
use base::Buffer;
use base::memory::BLOCK;
use journal::{Disk, DiskError, FileKind, FileName};
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Pieces one system call takes (IOV_MAX on Linux).
const PIECES_MAX: usize = 1024;

/// Where less space is free than this, in bytes, that of a removed file is given back at once: somebody may wait for it.
const PLENTY: u64 = 1 << 30;

/// Bytes from which on an aligned read goes past the page cache.
const DIRECT_READ_MIN: usize = 256 << 10;

/// Bytes of a stream's file that are sent to the device together: with 4 MiB the slowest confirms beside it took half as long
/// again, with 1 MiB they took no longer than without.
const SENT_BYTES: u64 = 1 << 20;

/// The mode of files: for the node's user alone.
const MODE: u32 = 0o600;

/// Every kind of file there is a folder for.
const KINDS: [FileKind; 7] = [
    FileKind::Identity,
    FileKind::Journal,
    FileKind::Bulk,
    FileKind::Segment,
    FileKind::Snapshot,
    FileKind::Quarantined,
    FileKind::Stream,
];

/// Bounds and keys of a real disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// Files kept open.
    pub descriptors_max: usize,
    /// Removed files that are open until their space is given back.
    pub removed_max: usize,
    /// Try O_DIRECT.
    pub use_direct: bool,
    /// For tests: every sync of a file takes this much longer, in nanoseconds.
    pub sync_delay_ns: u64,
    /// For tests: the device has room for so many bytes of files in this folder, not more.
    pub capacity_bytes: Option<u64>,
}

impl Default for DiskOptions {
    fn default() -> DiskOptions {
        DiskOptions {
            descriptors_max: 256,
            removed_max: WAITING_MAX,
            use_direct: true,
            sync_delay_ns: 0,
            capacity_bytes: None,
        }
    }
}

/// Why a data folder cannot be used.
#[derive(Debug)]
pub enum FolderError {
    /// Another process holds its lock.
    InUse(PathBuf),
    /// It cannot be made, opened or locked.
    Io(PathBuf, std::io::Error),
}

impl std::fmt::Display for FolderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FolderError::InUse(path) => {
                write!(f, "the data folder {} is in use by another node", path.display())
            }
            FolderError::Io(path, error) => {
                write!(f, "cannot use the data folder {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for FolderError {}

/// See the module.
#[derive(Debug)]
pub struct RealDisk {
    folder: PathBuf,
    /// The same, open: what is in it is opened from here, never through a link.
    root: OwnedFd,
    options: DiskOptions,
    is_direct: bool,
    open: Mutex<OpenFiles>,
    leftovers: Arc<Leftovers>,
    /// A repair of the folder's permissions, in words for the log.
    told: Option<String>,
    /// Held, not read: its lock ends with it.
    _lock: OwnedFd,
}

#[derive(Debug, Default)]
struct OpenFiles {
    files: BTreeMap<(FileName, Access), OpenFile>,
    /// Counts uses, so that the least recent one is known.
    clock: u64,
}

#[derive(Debug)]
struct OpenFile {
    descriptor: Arc<OwnedFd>,
    used_at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    Cached,
    Direct,
}

impl RealDisk {
    /// Makes the data folder if need be, locks it, and tries what the device can do.
    pub fn open(folder: &Path, options: DiskOptions) -> Result<RealDisk, FolderError> {
        let failed = |error: std::io::Error| FolderError::Io(folder.to_owned(), error);
        let told = private::data_folder(folder).map_err(failed)?;
        let root =
            rustix::fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|error| failed(error.into()))?;
        // Some files lie in the folder itself.
        for name in KINDS.map(FileKind::folder).into_iter().filter(|name| !name.is_empty()) {
            private::inner_folder(&root, name).map_err(failed)?;
        }
        let lock = private::open(&root, "lock", OFlags::RDWR | OFlags::CREATE, MODE)
            .map_err(|error| failed(error.into()))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(FolderError::InUse(folder.to_owned())),
            Err(error) => return Err(failed(error.into())),
        }
        let is_direct = options.use_direct && takes_direct(&root);
        let disk = RealDisk {
            folder: folder.to_owned(),
            root,
            told,
            options,
            is_direct,
            open: Mutex::default(),
            leftovers: Arc::default(),
            _lock: lock,
        };
        // The folders themselves must outlive a power cut.
        disk.sync_folder(FileKind::Identity).map_err(|error| failed(std::io::Error::other(error)))?;
        Ok(disk)
    }

    /// The repair of the folder's permissions, made or failed, in words for the log.
    pub fn told(&self) -> Option<&str> {
        self.told.as_deref()
    }

    /// Whether journal writes bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Refuses a file that would reach to `end` where the device is made to look too small for that.
    fn check_capacity(&self, file: FileName, end: u64) -> Result<(), DiskError> {
        let Some(capacity) = self.options.capacity_bytes else { return Ok(()) };
        let len = self.len(file).unwrap_or(0);
        let fits = end <= len || self.used_bytes()?.saturating_sub(len) + end <= capacity;
        if fits { Ok(()) } else { Err(DiskError::NoSpace) }
    }

    fn used_bytes(&self) -> Result<u64, DiskError> {
        let mut used = 0;
        for kind in KINDS {
            for entry in std::fs::read_dir(self.folder.join(kind.folder())).map_err(std_error)? {
                // One that is removed meanwhile uses nothing.
                used += entry.map_err(std_error)?.metadata().map_or(0, |file| file.len());
            }
        }
        Ok(used)
    }

    /// Removes every file of a node's: the folder is as one that was just made. Whose it is goes first: without that nothing of
    /// the rest counts any more.
    ///
    /// # Errors
    /// The system's error; some of the files may be gone then.
    pub fn wipe(&self) -> std::io::Result<()> {
        for kind in [FileKind::Identity, FileKind::IdentityNew, FileKind::IdentityAgain] {
            match std::fs::remove_file(self.path(FileName::new(kind, 0))) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        for kind in KINDS.into_iter().filter(|kind| !kind.folder().is_empty()) {
            for entry in std::fs::read_dir(self.folder.join(kind.folder()))? {
                std::fs::remove_file(entry?.path())?;
            }
            self.sync_folder(kind).map_err(std::io::Error::other)?;
        }
        self.sync_folder(FileKind::Identity).map_err(std::io::Error::other)
    }

    fn path(&self, file: FileName) -> PathBuf {
        self.folder.join(inner(file))
    }

    /// No state here is broken by a thread that panicked.
    fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn descriptor(&self, file: FileName, access: Access) -> Result<Arc<OwnedFd>, DiskError> {
        let mut open = self.open_files();
        open.clock += 1;
        let now = open.clock;
        if let Some(found) = open.files.get_mut(&(file, access)) {
            found.used_at = now;
            return Ok(found.descriptor.clone());
        }
        drop(open);
        let mut flags = OFlags::RDWR;
        if access == Access::Direct {
            flags |= OFlags::DIRECT;
        }
        let descriptor = private::open(&self.root, inner(file), flags, 0).map_err(disk_error)?;
        let descriptor = Arc::new(descriptor);
        self.keep(file, access, descriptor.clone());
        Ok(descriptor)
    }

    fn keep(&self, file: FileName, access: Access, descriptor: Arc<OwnedFd>) {
        let mut open = self.open_files();
        if open.files.len() >= self.options.descriptors_max {
            let oldest = open.files.iter().min_by_key(|(_, file)| file.used_at).map(|(key, _)| *key);
            oldest.and_then(|key| open.files.remove(&key));
        }
        let used_at = open.clock;
        open.files.insert((file, access), OpenFile { descriptor, used_at });
    }

    fn remove_name(&self, file: FileName) -> Result<(), DiskError> {
        let removed = rustix::fs::unlink(self.path(file)).map_err(disk_error);
        self.forget(file);
        removed
    }

    fn forget(&self, file: FileName) {
        let mut open = self.open_files();
        let forgotten = [Access::Cached, Access::Direct].map(|access| open.files.remove(&(file, access)));
        drop(open);
        // The last descriptor of a file without a name takes its space with it, for which nobody else is to wait.
        drop(forgotten);
    }

    /// Has the system begin to write the pieces of a stream's file that the bytes from `from` to `to` have made whole.
    fn send(descriptor: &OwnedFd, from: u64, to: u64) {
        let [first, end] = [from, to].map(|at| at - at % SENT_BYTES);
        if let Some(len) = std::num::NonZeroU64::new(end - first) {
            // A caller that no longer needs pages has the written ones dropped, and the rest, which is all of these,
            // sent on their way. A system that does not do it writes them when it likes.
            let _a_hint = rustix::fs::fadvise(descriptor, first, Some(len), rustix::fs::Advice::DontNeed);
        }
    }

    fn delay_sync(&self) {
        if self.options.sync_delay_ns > 0 {
            std::thread::sleep(Duration::from_nanos(self.options.sync_delay_ns));
        }
    }
}

/// Where a file is within the data folder.
fn inner(file: FileName) -> PathBuf {
    Path::new(file.kind.folder()).join(file.leaf())
}

/// A file opened with O_DIRECT takes an aligned write here.
fn takes_direct(root: &OwnedFd) -> bool {
    let mut block = Buffer::default();
    block.extend_zeroed(BLOCK);
    let remove = || rustix::fs::unlinkat(root, "probe", AtFlags::empty());
    let _one_that_a_failed_start_left = remove();
    let taken =
        private::open(root, "probe", OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::DIRECT, MODE)
            .and_then(|probe| rustix::io::pwrite(&probe, block.bytes(), 0));
    let _a_file_left_behind_does_no_harm = remove();
    taken == Ok(BLOCK)
}

fn disk_error(error: Errno) -> DiskError {
    match error {
        Errno::NOSPC | Errno::DQUOT => DiskError::NoSpace,
        Errno::NOENT => DiskError::NotFound,
        Errno::EXIST => DiskError::Exists,
        error => DiskError::Io(error.raw_os_error()),
    }
}

fn std_error(error: std::io::Error) -> DiskError {
    Errno::from_io_error(&error).map_or(DiskError::Io(0), disk_error)
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, DiskError> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return outcome.map_err(disk_error),
        }
    }
}

fn is_direct_kind(file: FileName) -> bool {
    matches!(file.kind, FileKind::Journal | FileKind::Bulk)
}

fn is_aligned(offset: u64, pieces: &[IoSlice<'_>]) -> bool {
    let whole = |number: usize| number.is_multiple_of(BLOCK);
    whole(offset as usize) && pieces.iter().all(|piece| whole(piece.as_ptr() as usize) && whole(piece.len()))
}

impl Disk for RealDisk {
    fn create(&self, file: FileName, len: u64) -> Result<(), DiskError> {
        self.check_capacity(file, len)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let path = self.path(file);
        let descriptor = retry(|| private::open(&self.root, inner(file), flags, MODE))?;
        let sized = match len {
            0 => Ok(()),
            len => retry(|| rustix::fs::fallocate(&descriptor, FallocateFlags::empty(), 0, len)),
        };
        let sized = match sized {
            // Filesystems without it take the space when they are written to.
            Err(DiskError::Io(code)) if code == Errno::OPNOTSUPP.raw_os_error() => {
                retry(|| rustix::fs::ftruncate(&descriptor, len))
            }
            sized => sized,
        };
        if let Err(error) = sized {
            let _found_and_removed_on_the_next_start = std::fs::remove_file(&path);
            return Err(error);
        }
        self.keep(file, Access::Cached, Arc::new(descriptor));
        Ok(())
    }

    fn len(&self, file: FileName) -> Result<u64, DiskError> {
        let descriptor = self.descriptor(file, Access::Cached)?;
        let status = retry(|| rustix::fs::fstat(&descriptor))?;
        Ok(status.st_size as u64)
    }

    fn list(&self, kind: FileKind) -> Result<Vec<FileName>, DiskError> {
        let entries = std::fs::read_dir(self.folder.join(kind.folder())).map_err(std_error)?;
        let mut names = Vec::new();
        for entry in entries {
            let leaf = entry.map_err(std_error)?.file_name();
            names.extend(leaf.to_str().and_then(|leaf| FileName::from_leaf(kind, leaf)));
        }
        base::brief::sort(&mut names);
        Ok(names)
    }

    fn read_at(&self, file: FileName, offset: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        // Bytes written past the page cache are not in it either: large reads need not fill it.
        let is_large = into.len() >= DIRECT_READ_MIN && self.is_direct && is_direct_kind(file);
        let access = match is_large && is_aligned(offset, &[IoSlice::new(into)]) {
            true => Access::Direct,
            false => Access::Cached,
        };
        let mut done = 0;
        if access == Access::Direct {
            let descriptor = self.descriptor(file, access)?;
            done = retry(|| rustix::io::pread(&descriptor, &mut *into, offset))?;
            if done == into.len() {
                return Ok(done);
            }
        }
        // The rest of a short read is not aligned any more.
        let descriptor = self.descriptor(file, Access::Cached)?;
        while done < into.len() {
            match retry(|| rustix::io::pread(&descriptor, &mut into[done..], offset + done as u64))? {
                0 => break,
                read => done += read,
            }
        }
        Ok(done)
    }

    fn read_pieces_at(
        &self,
        file: FileName,
        offset: u64,
        into: &mut [IoSliceMut<'_>],
    ) -> Result<usize, DiskError> {
        let descriptor = self.descriptor(file, Access::Cached)?;
        let mut offset = offset;
        let mut done = 0;
        for pieces in into.chunks_mut(PIECES_MAX) {
            let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
            let read = retry(|| rustix::io::preadv(&descriptor, pieces, offset))?;
            done += read;
            offset += read as u64;
            if read < wanted {
                // The file ends, or the system takes less at once: the caller reads piece by piece then.
                break;
            }
        }
        Ok(done)
    }

    fn write_at(&self, file: FileName, offset: u64, pieces: &[IoSlice<'_>]) -> Result<(), DiskError> {
        let access = match self.is_direct && is_direct_kind(file) && is_aligned(offset, pieces) {
            true => Access::Direct,
            false => Access::Cached,
        };
        if self.options.capacity_bytes.is_some() {
            let len: usize = pieces.iter().map(|piece| piece.len()).sum();
            self.check_capacity(file, offset + len as u64)?;
        }
        let descriptor = self.descriptor(file, access)?;
        let from = offset;
        let mut offset = offset;
        for pieces in pieces.chunks(PIECES_MAX) {
            let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
            let mut done = retry(|| rustix::io::pwritev(&descriptor, pieces, offset))?;
            if done < wanted {
                // A short write is rare: a full device, or more than one call takes.
                let mut owned: Vec<IoSlice<'_>> = pieces.to_vec();
                let mut rest = &mut owned[..];
                IoSlice::advance_slices(&mut rest, done);
                while done < wanted {
                    let written = retry(|| rustix::io::pwritev(&descriptor, rest, offset + done as u64))?;
                    if written == 0 {
                        return Err(DiskError::Io(0));
                    }
                    done += written;
                    IoSlice::advance_slices(&mut rest, written);
                }
            }
            offset += wanted as u64;
        }
        if file.kind == FileKind::Stream {
            RealDisk::send(&descriptor, from, offset);
        }
        Ok(())
    }

    fn sync(&self, file: FileName) -> Result<(), DiskError> {
        // Both descriptors are the same file: what either wrote is flushed. Not retried, whatever it says.
        let key = |access| (file, access);
        let open = self.open_files();
        let found = open.files.get(&key(Access::Direct)).or_else(|| open.files.get(&key(Access::Cached)));
        let descriptor = found.map(|file| file.descriptor.clone());
        drop(open);
        let descriptor = match descriptor {
            Some(descriptor) => descriptor,
            None => self.descriptor(file, Access::Cached)?,
        };
        self.delay_sync();
        rustix::fs::fdatasync(&*descriptor).map_err(disk_error)
    }

    fn sync_folder(&self, kind: FileKind) -> Result<(), DiskError> {
        let folder = File::open(self.folder.join(kind.folder())).map_err(std_error)?;
        rustix::fs::fsync(&folder).map_err(disk_error)
    }

    fn rename(&self, from: FileName, to: FileName) -> Result<(), DiskError> {
        rustix::fs::rename(self.path(from), self.path(to)).map_err(disk_error)?;
        self.forget(from);
        self.forget(to);
        Ok(())
    }

    fn remove(&self, file: FileName) -> Result<(), DiskError> {
        let has_time = self.free_bytes().is_ok_and(|free| free >= PLENTY);
        let descriptor = if has_time { self.descriptor(file, Access::Cached).ok() } else { None };
        let leftover = descriptor.and_then(Leftover::of);
        let removed = self.remove_name(file);
        if removed.is_ok()
            && let Some(leftover) = leftover
        {
            self.leftovers.add(leftover, self.options.removed_max);
        }
        removed
    }

    fn remove_slowly(&self, file: FileName, pause: &mut dyn FnMut() -> bool) -> Result<(), DiskError> {
        let leftover = Leftover::of(self.descriptor(file, Access::Cached)?);
        // The name goes first: nobody finds half a file, nor does a start after a crash.
        self.remove_name(file)?;
        match leftover {
            Some(leftover) => leftover.give_back(pause),
            None => _ = pause(),
        }
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let status = retry(|| rustix::fs::statvfs(&self.folder))?;
        let free = status.f_bavail.saturating_mul(status.f_frsize);
        match self.options.capacity_bytes {
            Some(capacity) => Ok(free.min(capacity.saturating_sub(self.used_bytes()?))),
            None => Ok(free),
        }
    }
}
