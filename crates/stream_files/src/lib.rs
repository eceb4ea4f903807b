//! The files of streams: what a stream's machine asks of a disk, carried out.
//!
//! A machine of `queue` emits work as a value; a [`StreamJob`] carries it to a thread that has a [`journal::Disk`], and a
//! [`StreamDone`] brings the outcome back. Beside jobs there are two calls of a start: [`stream_files`] lists the segments that
//! are there, and [`Strays`] keeps those that no snapshot knows out of the way of the replay.
//! Knows no machine, no log and no thread. The formats are in `docs/formats/stream-file.md`.

mod file;
mod headers;
mod index;
mod job;
mod read;
mod seek;
mod strays;

pub use file::stream_files;
pub use job::{StreamDone, StreamJob};
pub use strays::{Stray, Strays};
