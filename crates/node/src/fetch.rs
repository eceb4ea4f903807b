//! Words by which a node has the state of a log from another one.
//!
//! A replica that lacks entries which its leader has let go of asks the leader's node for its state. That node makes a
//! *gift*: the state, as in a snapshot, and segments with all messages in it. The other asks for it piece by piece.

pub mod codec;

use base::id::LogId;
use consensus::{EntryId, SnapshotName};

/// Bytes of one piece.
pub const PIECE_BYTES_MAX: u32 = 256 << 10;

/// Segments of one gift.
pub const SEGMENTS_MAX: usize = 1 << 20;

/// Bytes of the state of one gift, without its segments.
pub const STATE_BYTES_MAX: u64 = 1 << 30;

/// A word of a node to another about the state of a log.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The log.
    pub log: LogId,
    /// Its content.
    pub what: What,
}

/// See [`Fetch`].
#[derive(Clone, Debug)]
pub enum What {
    /// What state is there that covers at least this entry?
    Ask {
        /// The entry.
        least: EntryId,
    },
    /// This one.
    Gift(Box<Gift>),
    /// A piece, please.
    Read {
        /// Of this gift.
        number: u64,
        /// Of which part.
        part: Part,
        /// From where on.
        offset: u64,
    },
    /// Here it is.
    Piece {
        /// Of this gift.
        number: u64,
        /// Of this part.
        part: Part,
        /// From here on.
        offset: u64,
        /// Its bytes, at most [`PIECE_BYTES_MAX`] of them.
        bytes: Vec<u8>,
    },
    /// There is no such gift any more.
    Gone {
        /// Its number.
        number: u64,
    },
}

/// The part of a gift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The state.
    State,
    /// The segment with this number.
    Segment(u64),
}

/// The state of a log that another node may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gift {
    /// Names it among those of the node.
    pub number: u64,
    /// Up to where it covers the log.
    pub name: SnapshotName,
    /// Bytes of the state.
    pub len: u64,
    /// All segments, in order, with their bytes.
    pub segments: Vec<(u64, u64)>,
    /// Those of them with messages that the state has in none.
    pub moved: Vec<u64>,
}

impl Gift {
    /// It is within the bounds, and says of each segment once what it says.
    pub fn is_sound(&self) -> bool {
        let Gift { len, segments, moved, name, .. } = self;
        let is_there = |number: &u64| segments.binary_search_by_key(number, |(number, _)| *number).is_ok();
        *len <= STATE_BYTES_MAX
            && segments.len() <= SEGMENTS_MAX
            && name.last.is_some()
            && segments.windows(2).all(|two| two[0].0 < two[1].0)
            && moved.windows(2).all(|two| two[0] < two[1])
            && moved.iter().all(is_there)
    }
}
