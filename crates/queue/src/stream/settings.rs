//! Settings of a stream.

use message::chunk::FILTER_LEN_DEFAULT;

/// Bytes in front of the first chunk of a segment's file.
pub const FILE_HEADER_LEN: u64 = 8;

/// [`Settings::chunk_entries_first`] where nobody says.
pub const CHUNK_ENTRIES_FIRST_DEFAULT: u16 = 128;

/// Settings of a stream, recorded: a change comes by a record, and is about messages that come after it. The bytes of chunks
/// depend on `filter_len` and `chunk_entries_first` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a chunk's Bloom filter, 16 to 255.
    pub filter_len: u8,
    /// Entries of the first chunk of a batch, from 1; each further one has up to twice as many as the one before, at most 65,535.
    /// Readers give credit by the chunk: messages that came at once are not in a single one, and those of a steady flow
    /// not in many.
    pub chunk_entries_first: u16,
    /// A segment with so many bytes is followed by another.
    pub segment_bytes_max: u64,
    /// Bytes of all segments; those beyond go, oldest first, but for the last segment.
    pub bytes_max: Option<u64>,
    /// A segment whose last chunk is older goes, but for the last segment, in milliseconds.
    pub age_max_ms: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            filter_len: FILTER_LEN_DEFAULT,
            chunk_entries_first: CHUNK_ENTRIES_FIRST_DEFAULT,
            segment_bytes_max: 500_000_000,
            bytes_max: None,
            age_max_ms: None,
        }
    }
}
