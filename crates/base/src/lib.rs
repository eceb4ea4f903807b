//! Parts that every room needs and no room owns: time values, seeded dice, a source of secrets, checksums, hash maps, ranges,
//! sorting in little code, byte cursors, the aligned memory that messages live in, the input and output of a connection,
//! its heartbeats, and names in addresses.
//!
//! Nothing here knows a protocol, a file or a thread.

pub mod brief;
pub mod copy;
pub mod crc;
pub mod cursor;
pub mod digest;
pub mod hash;
pub mod heartbeat;
pub mod id;
pub mod input;
pub mod memory;
pub mod output;
pub mod percent;
pub mod pieces;
pub mod quantum;
pub mod rabbitmq;
pub mod random;
pub mod ranges;
pub mod sample;
pub mod secrets;
pub mod time;
pub mod work;

pub use cursor::{Reader, Short};
pub use digest::{Digest, DigestKey, Digester};
pub use heartbeat::Heartbeat;
pub use input::Input;
pub use memory::{Buffer, Memory};
pub use output::Output;
pub use pieces::{Pieces, Sink, put_varint};
pub use quantum::Quantum;
pub use random::Random;
pub use ranges::RangeSet;
pub use secrets::{SECRET_SEED, Secrets};
pub use time::Now;
pub use work::Work;
