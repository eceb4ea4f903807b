//! Files and folders that are the node's own: made for its user alone, and never through a link that somebody else left.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "one of the files where files live")]

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// A folder of the node's user alone.
const MODE_FOLDER: u32 = 0o700;

/// Permission bits of others than the owner.
const OTHERS: u32 = 0o077;

/// Permission bits that let others put files there.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Makes the data folder if need be and sees to it that it is for the node's user alone. Returns a line for the log
/// where its mode was mended, or could not be.
///
/// # Errors
/// It cannot be made, or is another user's in which anybody may put files: what is found there may be anybody's.
pub fn data_folder(folder: &Path) -> io::Result<Option<String>> {
    std::fs::DirBuilder::new().recursive(true).mode(MODE_FOLDER).create(folder)?;
    let found = std::fs::metadata(folder)?;
    let mode = found.mode() & 0o777;
    if mode & OTHERS == 0 {
        return Ok(None);
    }
    if found.uid() == rustix::process::geteuid().as_raw() {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(MODE_FOLDER))?;
        // Readable for others is what older releases made: nothing is wrong with what is in it.
        let is_open = mode & (GROUP_WRITES | OTHERS_WRITE) != 0;
        return Ok(is_open.then(|| {
            format!(
                "others could write to the data folder {} (mode {mode:o}): it is for this user alone now",
                folder.display()
            )
        }));
    }
    if mode & OTHERS_WRITE != 0 {
        let why = format!("it belongs to another user and anybody may write to it (mode {mode:o})");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    // A volume that an orchestrator has given to the node's group: the folders in it are this user's.
    let group = "the data folder belongs to another user, and its group may write to it";
    Ok((mode & GROUP_WRITES != 0).then(|| format!("{}: {group} (mode {mode:o})", folder.display())))
}

/// Makes a folder within the data folder if need be, for the node's user alone.
///
/// # Errors
/// It is a link, or no folder, or cannot be made.
pub fn inner_folder(data: &OwnedFd, name: &str) -> io::Result<()> {
    match rustix::fs::mkdirat(data, name, Mode::from_raw_mode(MODE_FOLDER)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let found = rustix::fs::statat(data, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => {}
        FileType::Symlink => {
            return Err(io::Error::other(format!(
                "'{name}' in it is a link: mount what it leads to instead"
            )));
        }
        _ => return Err(io::Error::other(format!("'{name}' in it is no folder"))),
    }
    if found.st_mode & OTHERS != 0 && found.st_uid == rustix::process::geteuid().as_raw() {
        let folder = open(data, name, OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
        rustix::fs::fchmod(folder, Mode::from_raw_mode(MODE_FOLDER))?;
    }
    Ok(())
}

/// Opens what is at `path` within the folder `data`, never through a link.
///
/// # Errors
/// The system's error; `ELOOP` for a link.
pub fn open(data: impl AsFd, path: impl AsRef<Path>, flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
    let (path, mode) = (path.as_ref(), Mode::from_raw_mode(mode));
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match rustix::fs::openat2(&data, path, flags, mode, resolve) {
        // Kernels before 5.6, and sandboxes that do not know the call: the folders were looked at when the node started, and
        // the last part of the path is never followed.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(&data, path, flags, mode),
        opened => opened,
    }
}

/// Writes a file whole, with the permissions of `mode`, and not through a link.
///
/// # Errors
/// The system's error.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(mode))?;
    // The process makes nothing for others unless it says so.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    std::fs::File::from(file).write_all(bytes)
}

/// Has no core file written when the process fails. Not by making it undumpable, which would hide `/proc` of it from its own user and
/// from itself: memory, threads and files are counted there.
///
/// # Errors
/// The system's error.
pub fn no_core() -> Result<(), Errno> {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Core);
    // A limit of 0 does not count where core files are piped to a program; a limit of 1 does, and nothing fits into it.
    let current = Some(maximum.unwrap_or(1).min(1));
    rustix::process::setrlimit(Resource::Core, Rlimit { current, maximum })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("leveret-private-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_data_folder_is_for_its_user_alone() {
        let data = folder("data");
        assert_eq!(data_folder(&data.join("deep")).unwrap(), None);
        assert_eq!((mode(&data), mode(&data.join("deep"))), (0o700, 0o700));
        for (own, is_told) in [(0o755, false), (0o750, false), (0o770, true), (0o777, true)] {
            set_mode(&data, own);
            assert_eq!(data_folder(&data).unwrap().is_some(), is_told, "{own:o}");
            assert_eq!(mode(&data), 0o700, "{own:o}");
        }
        std::fs::remove_dir_all(&data).unwrap();
    }

    #[test]
    fn links_are_not_followed() {
        let data = folder("links");
        let elsewhere = folder("elsewhere");
        data_folder(&data).unwrap();
        data_folder(&elsewhere).unwrap();
        let descriptor = rustix::fs::open(&data, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        inner_folder(&descriptor, "own").unwrap();
        set_mode(&data.join("own"), 0o755);
        inner_folder(&descriptor, "own").unwrap();
        assert_eq!(mode(&data.join("own")), 0o700);
        std::os::unix::fs::symlink(&elsewhere, data.join("link")).unwrap();
        assert!(inner_folder(&descriptor, "link").unwrap_err().to_string().contains("is a link"));
        std::fs::write(data.join("file"), "x").unwrap();
        assert!(inner_folder(&descriptor, "file").unwrap_err().to_string().contains("is no folder"));
        std::fs::write(elsewhere.join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(elsewhere.join("secret"), data.join("own/named")).unwrap();
        let read = |path: &str| open(&descriptor, path, OFlags::RDONLY, 0).map(drop);
        assert_eq!(read("own/named"), Err(Errno::LOOP));
        assert!(read("link/secret").is_err());
        assert!(read("../x").is_err());
        assert_eq!(read("file"), Ok(()));
        let write_link = write(&data.join("own/named"), b"y", 0o600);
        assert_eq!(Errno::from_io_error(&write_link.unwrap_err()), Some(Errno::LOOP));
        write(&data.join("plain"), b"y", 0o640).unwrap();
        assert_eq!(mode(&data.join("plain")), 0o640);
        for folder in [data, elsewhere] {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}
