//! Frames: where they begin and end, and what is checked before one is looked into.
//!
//! ```text
//!   0     4      5       6   8          16    20
//!   | len | kind | flags | 0 | sequence | crc | body ...
//! ```
//!
//! Numbers are little-endian. `len` counts the whole frame; `crc` is the CRC32C of the sixteen bytes before it and of
//! the body. Everything in the head is checked before the body is waited for.

use super::error::Error;
use super::hello::MAGIC;
use super::proof::PROOF_BYTES;
use super::refusal::{CODE_BYTES, REFUSAL_TEXT_BYTES_MAX};
use base::crc::{crc32c, crc32c_append};

/// Bytes of a frame's head.
pub const HEAD: usize = 20;

/// Where the checksum lies in the head.
pub(crate) const CRC_AT: usize = 16;

/// The flag of a frame whose body goes on in the next frame of its kind.
pub const MORE: u8 = 1;

/// The use of a frame. Numbers up to 15 are of the lane itself, those from 16 on of what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The identity of an end: its first frame.
    Hello = 1,
    /// An end proves its hello.
    Proof = 2,
    /// An end closes the lane, and says why.
    Refuse = 3,
    /// A sign of life that asks for one.
    Ping = 4,
    /// The answer to a ping.
    Pong = 5,
    /// A count of bytes that were taken, for the window.
    Taken = 6,
    /// Bytes of the consensus, of which the lane knows no more.
    Consensus = 16,
    /// A word about the state of a log, the same.
    State = 17,
    /// A word about the catalog, the same.
    Catalog = 18,
    /// A node's words of how it is, for tools, the same.
    News = 19,
    /// A word about a log between a node that follows it and the one that leads it, the same.
    Log = 20,
}

impl Kind {
    /// The kind of this number, if there is one.
    pub fn from_number(number: u8) -> Option<Kind> {
        Some(match number {
            1 => Kind::Hello,
            2 => Kind::Proof,
            3 => Kind::Refuse,
            4 => Kind::Ping,
            5 => Kind::Pong,
            6 => Kind::Taken,
            16 => Kind::Consensus,
            17 => Kind::State,
            18 => Kind::Catalog,
            19 => Kind::News,
            20 => Kind::Log,
            _ => return None,
        })
    }

    /// Whether it carries bodies: these count for the window, and may go on in further frames.
    pub fn is_counted(self) -> bool {
        self as u8 >= Kind::Consensus as u8
    }

    /// The fewest and the most bytes that a body of it has in one frame; the most are those of any frame where the
    /// kind has no bound of its own.
    fn body_bounds(self) -> (usize, usize) {
        match self {
            Kind::Hello => (MAGIC.len(), usize::MAX),
            Kind::Proof => (0, PROOF_BYTES),
            Kind::Refuse => (CODE_BYTES, CODE_BYTES + REFUSAL_TEXT_BYTES_MAX),
            Kind::Ping | Kind::Pong | Kind::Taken => (8, 8),
            Kind::Consensus | Kind::State | Kind::Catalog | Kind::News | Kind::Log => (0, usize::MAX),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({self:?})", *self as u8)
    }
}

/// A frame whose head and checksum are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'i> {
    /// Its use.
    pub kind: Kind,
    /// The body goes on in the next frame of this kind.
    pub has_more: bool,
    /// The body, or a piece of it.
    pub body: &'i [u8],
}

impl Frame<'_> {
    /// Its bytes on the wire.
    #[inline]
    pub fn wire_bytes(&self) -> usize {
        HEAD + self.body.len()
    }
}

/// The first frame of some bytes, as far as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'i> {
    /// All of it.
    Frame(Frame<'i>),
    /// Not all of it is there: so many bytes are wanted, counted from its first.
    Incomplete {
        /// At most the bound of a frame.
        wanted: usize,
    },
}

/// Splits the first frame off, which has the number `sequence` and at most `len_max` bytes.
///
/// # Errors
/// [`Error::FrameLength`], [`Error::UnknownKind`], [`Error::Flags`] and [`Error::Sequence`] from the head alone, and
/// [`Error::Checksum`].
#[inline]
pub fn split(bytes: &[u8], sequence: u64, len_max: u32) -> Result<Next<'_>, Error> {
    let Some((&len, _)) = bytes.split_first_chunk() else {
        return Ok(Next::Incomplete { wanted: HEAD });
    };
    let len = u32::from_le_bytes(len);
    if !(HEAD as u32..=len_max).contains(&len) {
        return Err(Error::FrameLength { len, len_max });
    }
    let Some((head, behind)) = bytes.split_first_chunk::<HEAD>() else {
        return Ok(Next::Incomplete { wanted: HEAD });
    };
    let [_, _, _, _, number, flags, zero, other_zero, s0, s1, s2, s3, s4, s5, s6, s7, crc @ ..] = *head;
    let kind = Kind::from_number(number).ok_or(Error::UnknownKind(number))?;
    let has_more = flags == MORE && kind.is_counted();
    if [flags, zero, other_zero] != [u8::from(has_more), 0, 0] {
        return Err(Error::Flags { kind, flags: [flags, zero, other_zero] });
    }
    let found = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    if found != sequence {
        return Err(Error::Sequence { expected: sequence, found });
    }
    let body_len = len as usize - HEAD;
    let (body_min, body_max) = kind.body_bounds();
    if !(body_min..=body_max).contains(&body_len) {
        // No kind with a bound of its own comes near 2^32.
        let kind_max = body_max.saturating_add(HEAD).try_into().unwrap_or(u32::MAX);
        return Err(Error::FrameLength { len, len_max: len_max.min(kind_max) });
    }
    let Some(body) = behind.get(..body_len) else {
        return Ok(Next::Incomplete { wanted: len as usize });
    };
    if crc32c_append(crc32c(&head[..CRC_AT]), body) != u32::from_le_bytes(crc) {
        return Err(Error::Checksum { sequence });
    }
    Ok(Next::Frame(Frame { kind, has_more, body }))
}

/// The head of a frame with a body of `body_len` bytes, up to its checksum.
pub(crate) fn head(kind: u8, flags: u8, sequence: u64, body_len: usize) -> [u8; CRC_AT] {
    let mut head = [0; CRC_AT];
    // Senders keep to bounds far below 2^32.
    head[..4].copy_from_slice(&((HEAD + body_len) as u32).to_le_bytes());
    head[4..6].copy_from_slice(&[kind, flags]);
    head[8..].copy_from_slice(&sequence.to_le_bytes());
    head
}

/// Appends a frame with this body, whole, to `out`. The kind and the flags may be any, so that a peer of a later
/// version can be played.
pub fn put(out: &mut Vec<u8>, kind: u8, flags: u8, sequence: u64, body: &[u8]) {
    let head = head(kind, flags, sequence, body.len());
    out.extend(head);
    out.extend(crc32c_append(crc32c(&head), body).to_le_bytes());
    out.extend(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_frame_has_its_place() {
        let mut bytes = Vec::new();
        put(&mut bytes, Kind::Consensus as u8, MORE, 0x0102, b"body");
        assert_eq!(bytes[..16], [24, 0, 0, 0, 16, 1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..20], crc32c(&[&bytes[..16], b"body"].concat()).to_le_bytes());
        let frame = Frame { kind: Kind::Consensus, has_more: true, body: b"body" };
        assert_eq!(split(&bytes, 0x0102, 24), Ok(Next::Frame(frame)));
        assert_eq!(frame.wire_bytes(), bytes.len());
    }

    #[test]
    fn kinds_are_found_by_their_numbers() {
        for number in 0..=u8::MAX {
            assert!(Kind::from_number(number).is_none_or(|kind| kind as u8 == number));
        }
        assert_eq!((0..=u8::MAX).filter_map(Kind::from_number).count(), 11);
    }

    /// Checks a frame of which the first `there` bytes are there.
    fn check(kind: u8, flags: u8, sequence: u64, body: &[u8], there: usize, expected: Result<usize, Error>) {
        let mut bytes = Vec::new();
        put(&mut bytes, kind, flags, sequence, body);
        let found = split(&bytes[..there], 7, 1000).map(|next| match next {
            Next::Frame(frame) => frame.wire_bytes(),
            Next::Incomplete { wanted } => wanted,
        });
        assert_eq!(found, expected, "kind {kind}, flags {flags}, {there} bytes");
    }

    #[test]
    fn the_head_alone_refuses() {
        for there in [HEAD, HEAD + 8] {
            check(16, 0, 7, &[0; 8], there, Ok(HEAD + 8));
            check(7, 0, 7, &[0; 8], there, Err(Error::UnknownKind(7)));
            check(21, 0, 7, &[0; 8], there, Err(Error::UnknownKind(21)));
            check(4, MORE, 7, &[0; 8], there, Err(Error::Flags { kind: Kind::Ping, flags: [1, 0, 0] }));
            check(16, 2, 7, &[0; 8], there, Err(Error::Flags { kind: Kind::Consensus, flags: [2, 0, 0] }));
            check(16, 0, 6, &[0; 8], there, Err(Error::Sequence { expected: 7, found: 6 }));
            check(16, 0, 8, &[0; 8], there, Err(Error::Sequence { expected: 7, found: 8 }));
        }
        check(4, 0, 7, &[0; 9], HEAD, Err(Error::FrameLength { len: 29, len_max: 28 }));
        check(4, 0, 7, &[0; 7], HEAD, Err(Error::FrameLength { len: 27, len_max: 28 }));
        check(2, 0, 7, &[0; 33], HEAD, Err(Error::FrameLength { len: 53, len_max: 52 }));
        check(16, 0, 7, &[0; 980], 3, Ok(HEAD));
        check(16, 0, 7, &[0; 980], 19, Ok(HEAD));
        check(16, 0, 7, &[0; 980], 999, Ok(1000));
        check(16, 0, 7, &[0; 981], 4, Err(Error::FrameLength { len: 1001, len_max: 1000 }));
        let short = split(&[19, 0, 0, 0], 7, 1000);
        assert_eq!(short, Err(Error::FrameLength { len: 19, len_max: 1000 }));
    }

    #[test]
    fn no_bit_is_free() {
        let mut bytes = Vec::new();
        put(&mut bytes, Kind::Consensus as u8, 0, 7, b"body");
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = split(&flipped, 7, 1000);
            assert!(!matches!(found, Ok(Next::Frame(_))), "bit {bit}: {found:?}");
        }
    }
}
