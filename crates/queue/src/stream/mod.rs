//! Streams: messages that stay, in chunks, read from anywhere by anybody.
//!
//! - [`Stream`]: the machine. Records of its log append to it; the chunk they make is closed with their batch, so that the
//!   same log makes the same bytes. Chunks are put behind each other in *segments*, which are files, and whole segments go
//!   when there is too much or it is too old.
//! - [`Common`]: the parts that the streams of a log share.
//! - [`Work`]: a request to a disk, and [`Done`]: its result. Machines know no disk.
//!
//! A chunk is served from memory while it is young (the *tail*), and from blocks read back later. Where a reader stands is
//! a segment and a position in its file, whether the chunk there is in memory or not.
//! Not here: files, consumers' connections, and the meaning of the bytes of a message.

mod chunk;
mod common;
mod effect;
mod groups;
mod limits;
mod machine;
mod offsets;
mod readers;
mod retired;
mod segments;
mod settings;
mod snapshot;
mod tail;
mod tracking;
mod work;

pub use chunk::{Chunk, Place};
pub use common::Common;
pub use effect::Effect;
pub use groups::Group;
pub use limits::Limits;
pub use machine::{Published, Stream};
pub use offsets::Storing;
pub use readers::{From, NewReader, Next, ReaderId};
pub use segments::Segment;
pub use settings::{CHUNK_ENTRIES_FIRST_DEFAULT, FILE_HEADER_LEN, Settings};
pub use tracking::FEED;
pub use work::{
    Block, BlockChunk, Damage, DamageReason, Done, IndexEntry, Read, ReadDone, Remove, Seek, SeekDone,
    SeekFor, Sought, Spare, StorePiece, Sync, SyncDone, SyncFailure, Work, WorkError, Write, WriteDone,
};
