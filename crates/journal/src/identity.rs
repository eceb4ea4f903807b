//! The identity of a data folder: the node's number, the folder's secret, and how many local logs it was made with.
//!
//! ```text
//!   0       8         12    16     32       40     44      64
//!   | magic | version | crc | node | secret | logs | zeros | zeros to 4096, then the same again
//! ```
//!
//! Written once, under another name and then renamed, so it is there whole or not at all; every start gives it its name
//! once more. It stands twice because without it nothing else in the folder may be touched.

use crate::disk::{Disk, DiskError, FileKind, FileName, back_again, name_again};
use crate::file::{HeaderError, OtherVersion, VERSION, check_header, header_crc};
use base::memory::BLOCK;
use base::{Buffer, Secrets, Short};
use std::fmt;
use std::io::IoSlice;

const MAGIC: [u8; 8] = *b"LVRTNODE";
const NAME: FileName = FileName::new(FileKind::Identity, 0);
const NEW: FileName = FileName::new(FileKind::IdentityNew, 0);
const AGAIN: FileName = FileName::new(FileKind::IdentityAgain, 0);

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node's number, given when the folder was made.
    pub node: u128,
    /// The mark of this folder's files; nobody outside may learn it.
    pub secret: u64,
    /// Local logs of this node.
    pub logs: u32,
}

/// Why there is no identity to work under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityError {
    /// The folder holds data but no identity file: a new one would disown the data.
    Missing,
    /// Both copies in the file are damaged.
    Damaged,
    /// Written by a version this program does not know.
    Version(u32),
    /// The device failed.
    Disk(DiskError),
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdentityError::Missing => {
                f.write_str("the data folder holds data but its identity file is missing")
            }
            IdentityError::Damaged => f.write_str("the identity file of the data folder is damaged"),
            IdentityError::Version(version) => {
                write!(f, "the data folder was made {}", OtherVersion(*version))
            }
            IdentityError::Disk(error) => write!(f, "cannot read or write the identity file: {error}"),
        }
    }
}

impl std::error::Error for IdentityError {}

impl From<DiskError> for IdentityError {
    fn from(error: DiskError) -> IdentityError {
        IdentityError::Disk(error)
    }
}

impl Identity {
    /// The identity of the data folder; a fresh folder is given one from `secrets`, with `logs` local logs.
    pub fn open(disk: &dyn Disk, secrets: &mut Secrets, logs: u32) -> Result<Identity, IdentityError> {
        if disk.list(FileKind::IdentityAgain)?.contains(&AGAIN) {
            back_again(disk, AGAIN, NAME)?;
        }
        if let Some(identity) = Identity::load(disk)? {
            // Its writer may have been killed before its name was synced, or that failed.
            name_again(disk, NAME, AGAIN)?;
            disk.sync_folder(FileKind::Identity)?;
            return Ok(identity);
        }
        for kind in [
            FileKind::Journal,
            FileKind::JournalAgain,
            FileKind::Snapshot,
            FileKind::Segment,
            FileKind::Bulk,
            FileKind::Stream,
        ] {
            if !disk.list(kind)?.is_empty() {
                return Err(IdentityError::Missing);
            }
        }
        let node = u128::from_le_bytes(secrets.bytes());
        let secret = u64::from_le_bytes(secrets.bytes());
        let identity = Identity { node, secret, logs };
        identity.store(disk)?;
        Ok(identity)
    }

    /// The identity of the data folder, if it has one.
    pub fn load(disk: &dyn Disk) -> Result<Option<Identity>, IdentityError> {
        let mut bytes = [0; BLOCK + 64];
        let read = match disk.read_at(NAME, 0, &mut bytes) {
            Err(DiskError::NotFound) => disk.read_at(AGAIN, 0, &mut bytes),
            read => read,
        };
        match read {
            Ok(_) => {}
            Err(DiskError::NotFound) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        match (Identity::read(&bytes[..64]), Identity::read(&bytes[BLOCK..])) {
            (Ok(identity), _) | (_, Ok(identity)) => Ok(Some(identity)),
            (Err(HeaderError::Version(version)), _) | (_, Err(HeaderError::Version(version))) => {
                Err(IdentityError::Version(version))
            }
            _ => Err(IdentityError::Damaged),
        }
    }

    /// Writes it in the place of the one before: how the number of logs grows.
    pub fn store(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        match disk.remove(NEW) {
            Ok(()) | Err(DiskError::NotFound) => {}
            Err(error) => return Err(error),
        }
        let mut copy = Buffer::default();
        copy.extend(&self.write());
        copy.pad_to(BLOCK);
        disk.create(NEW, 2 * BLOCK as u64)?;
        disk.write_at(NEW, 0, &[IoSlice::new(copy.bytes()), IoSlice::new(copy.bytes())])?;
        disk.sync(NEW)?;
        disk.rename(NEW, NAME)?;
        disk.sync_folder(FileKind::Identity)
    }

    fn write(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.node.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.secret.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.logs.to_le_bytes());
        let crc = header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Identity, HeaderError> {
        let bytes: &[u8; 64] = bytes.first_chunk().ok_or(HeaderError::Damaged)?;
        let mut reader = check_header(bytes, MAGIC)?;
        let mut fields = || -> Result<Identity, Short> {
            let (low, high) = (reader.u64_le()?, reader.u64_le()?);
            let node = u128::from(high) << 64 | u128::from(low);
            Ok(Identity { node, secret: reader.u64_le()?, logs: reader.u32_le()? })
        };
        fields().map_err(|Short| HeaderError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_other_versions_are_told_apart() {
        let told = |version| IdentityError::Version(version).to_string();
        assert!(told(VERSION - 1).contains("made by an earlier version of this program (format 2)"));
        assert!(told(VERSION + 1).contains("made by a later version of this program (format 4)"));
    }
}
