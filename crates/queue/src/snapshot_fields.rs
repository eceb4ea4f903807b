//! Numbers and sets of a snapshot as bytes, and why bytes are none: `docs/formats/queue-snapshot.md`.

use base::cursor::{Reader, Short};
use base::ranges::{Range, RangeSet};
use base::{Digest, Sink};

/// Why bytes are no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// They do not begin as one.
    Magic,
    /// Of a version this program does not know.
    Version(u8),
    /// They end early.
    Short,
    /// Bytes follow that belong to nothing.
    Long,
    /// They contradict themselves, in the part named.
    Broken(&'static str),
}

impl std::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SnapshotError::Magic => f.write_str("not a queue snapshot"),
            SnapshotError::Version(version) => write!(f, "queue snapshot of unknown version {version}"),
            SnapshotError::Short => f.write_str("queue snapshot ends early"),
            SnapshotError::Long => f.write_str("queue snapshot is followed by other bytes"),
            SnapshotError::Broken(part) => write!(f, "queue snapshot contradicts itself: {part}"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<Short> for SnapshotError {
    fn from(_: Short) -> SnapshotError {
        SnapshotError::Short
    }
}

pub(crate) fn put(out: &mut impl Sink, number: u64) {
    out.put(&number.to_le_bytes());
}

pub(crate) fn put_ranges(out: &mut impl Sink, set: &RangeSet) {
    put(out, set.ranges_count() as u64);
    for range in set.iter() {
        put(out, range.first);
        put(out, range.last);
    }
}

/// Ranges within `from..end`, in order and apart.
pub(crate) fn read_ranges(
    reader: &mut Reader<'_>,
    from: u64,
    end: u64,
    part: &'static str,
) -> Result<RangeSet, SnapshotError> {
    let mut set = RangeSet::new();
    let mut above = from;
    for _ in 0..reader.u64_le()? {
        let (first, last) = (reader.u64_le()?, reader.u64_le()?);
        if first < above || last < first || last >= end {
            return Err(SnapshotError::Broken(part));
        }
        set.insert(Range { first, last });
        // The next does not touch this one.
        above = last + 2;
    }
    Ok(set)
}

pub(crate) fn read_digest(reader: &mut Reader<'_>) -> Result<Digest, SnapshotError> {
    Ok(Digest([reader.u64_le()?, reader.u64_le()?]))
}

/// Reads a number of [`base::put_varint`].
pub(crate) fn read_varint(reader: &mut Reader<'_>, part: &'static str) -> Result<u64, SnapshotError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = reader.u8()?;
        let bits = u64::from(byte & 0x7f);
        if (bits << shift) >> shift != bits {
            break;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(SnapshotError::Broken(part))
}
