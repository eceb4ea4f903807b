//! Limits of the streams of a log.

/// The bounds of the streams of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a chunk's entries after which another begins; an entry that has more has a chunk of its own.
    pub chunk_bytes_max: usize,
    /// Chunks of a segment.
    pub segment_chunks_max: u32,
    /// Segments of a stream that may be as small as it is told; one that has more goes on to [`Limits::segment_bytes_min`] with each
    /// further one, or it would have as many files as messages.
    pub small_segments_max: usize,
    /// See [`Limits::small_segments_max`].
    pub segment_bytes_min: u64,
    /// The first chunk that begins in each so many bytes of a segment is in the segment's index.
    pub index_bytes: u64,
    /// Memory in bytes that a stream with readers keeps of chunks that are written already.
    pub tail_bytes_max: usize,
    /// Memory in bytes that all streams keep of chunks that are written already; beyond, none keeps more.
    pub tails_bytes_max: usize,
    /// Memory in bytes of the blocks that a log keeps after reading them back, and half as much of old ones, to be read
    /// into again.
    pub loaded_bytes_max: usize,
    /// Bytes of a reader's first read.
    pub read_bytes_min: u32,
    /// Bytes of a read, unless one chunk has more.
    pub read_bytes_max: u32,
    /// Reads and seeks of a stream that are under way, at least 1; readers that need more wait for one to come back.
    pub reads_max: usize,
    /// Chunks in memory that a reader goes over at once because its filter does not want them; then others have a turn.
    pub passed_over_max: u32,
    /// For a reader that goes on, larger and larger pieces are read, and before it asks.
    pub reads_ahead: bool,
    /// Publishers whose last publishing id is still known when a segment is full.
    pub sequences_kept: usize,
    /// Publishers whose last publishing id is known; the one that was idle for longest is forgotten.
    pub sequences_max: usize,
    /// Consumers whose offsets are known; for one more another is forgotten, of the user with the most.
    pub offsets_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            chunk_bytes_max: 1 << 20,
            segment_chunks_max: 256_000,
            small_segments_max: 64,
            segment_bytes_min: 1 << 20,
            index_bytes: 64 << 10,
            tail_bytes_max: 1 << 20,
            tails_bytes_max: 16 << 20,
            loaded_bytes_max: 16 << 20,
            read_bytes_min: 64 << 10,
            read_bytes_max: 1 << 20,
            reads_max: 64,
            passed_over_max: 1024,
            reads_ahead: true,
            sequences_kept: 255,
            sequences_max: 4096,
            offsets_max: 65_536,
        }
    }
}
