//! Frames (AMQP 0-9-1 §2.3) and the protocol header (§4.2.2): where they begin and end, not their meaning.
//!
//! ```text
//!   0      1         3      7                size+7
//!   | type | channel | size | payload ...    | 0xCE |
//! ```

/// A method (§2.3.5.1).
pub const METHOD: u8 = 1;
/// A content header (§2.3.5.2).
pub const HEADER: u8 = 2;
/// A piece of a content body (§2.3.5.2).
pub const BODY: u8 = 3;
/// A sign of life (§4.2.7).
pub const HEARTBEAT: u8 = 8;
/// The last byte of each frame.
pub const END: u8 = 0xCE;
/// Bytes of a frame in front of its payload.
pub const HEAD: usize = 7;
/// Bytes of a frame that are not payload.
pub const OVERHEAD: usize = 8;
/// Every peer takes frames of this many bytes; none larger are taken before `tune-ok`.
pub const FRAME_MIN_SIZE: u32 = 8192;
/// A whole heartbeat.
pub const HEARTBEAT_FRAME: [u8; OVERHEAD] = [HEARTBEAT, 0, 0, 0, 0, 0, 0, END];
/// The first eight bytes of an AMQP 0-9-1 connection.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";
/// The first eight bytes of the SASL layer of an AMQP 1.0 connection; the answer to headers nobody knows.
pub const SASL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// The protocol that the first eight bytes of a connection ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detected {
    /// AMQP 0-9-1, or 0-9, which it is compatible with.
    Amqp091,
    /// AMQP 1.0 (its §2.2).
    Amqp10,
    /// The SASL layer of AMQP 1.0 (its §5.3.2).
    Amqp10Sasl,
    /// Something else; answer with these eight bytes and close.
    Unknown([u8; 8]),
}

/// Tells the protocols that share a port apart.
pub fn detect(header: &[u8; 8]) -> Detected {
    match header {
        b"AMQP\x00\x00\x09\x01" | b"AMQP\x01\x01\x00\x09" => Detected::Amqp091,
        b"AMQP\x00\x01\x00\x00" => Detected::Amqp10,
        b"AMQP\x03\x01\x00\x00" => Detected::Amqp10Sasl,
        // Another revision of 0-9 is told which one is spoken; all others, the protocol spoken best.
        [b'A', b'M', b'Q', b'P', 0, 0, 9, _] => Detected::Unknown(PROTOCOL_HEADER),
        _ => Detected::Unknown(SASL_HEADER),
    }
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: u8,
    pub channel: u16,
    pub size: u32,
}

impl Head {
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Head> {
        let [kind, c0, c1, s0, s1, s2, s3] = *bytes.first_chunk::<HEAD>()?;
        let channel = u16::from_be_bytes([c0, c1]);
        Some(Head { kind, channel, size: u32::from_be_bytes([s0, s1, s2, s3]) })
    }
}

/// How many of these bytes, which begin with a frame, there are up to the end of the first content header; nothing where none is
/// complete. A body, if there is one, comes behind it.
pub fn until_body(bytes: &[u8]) -> Option<usize> {
    let mut at = 0_usize;
    while let Some(head) = bytes.get(at..).and_then(Head::read) {
        at = at.saturating_add(head.size as usize + OVERHEAD);
        if head.kind == HEADER {
            return (at <= bytes.len()).then_some(at);
        }
    }
    None
}

/// The first frame of some bytes, as far as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next<'i> {
    /// A frame whose end is where it should be, and the bytes behind it.
    Frame { head: Head, payload: &'i [u8], rest: &'i [u8] },
    /// Not all of it is there: so many bytes are wanted.
    Incomplete { wanted: usize },
    /// Its payload is over the bound.
    TooLarge { head: Head },
    /// It ends with something else than [`END`].
    BadEnd { head: Head, payload: &'i [u8], end: u8 },
}

/// Splits the first frame off, whose payload may have `size_max` bytes.
#[inline]
pub(crate) fn split(bytes: &[u8], size_max: u32) -> Next<'_> {
    let Some(head) = Head::read(bytes) else { return Next::Incomplete { wanted: HEAD } };
    if head.size > size_max {
        return Next::TooLarge { head };
    }
    let size = head.size as usize;
    let behind = &bytes[HEAD..];
    // One comparison covers payload and end.
    let Some((payload, [end, rest @ ..])) = behind.split_at_checked(size) else {
        return Next::Incomplete { wanted: size + OVERHEAD };
    };
    if *end != END {
        return Next::BadEnd { head, payload, end: *end };
    }
    Next::Frame { head, payload, rest }
}

/// The first frame, if it is of this kind, all there and sound: channel, payload and the bytes behind it. The short
/// form of [`split`] for frames that come by the million.
#[inline(always)]
pub(crate) fn whole(bytes: &[u8], kind: u8, size_max: u32) -> Option<(u16, &[u8], &[u8])> {
    let head = Head::read(bytes)?;
    let size = head.size as usize;
    let (payload, [END, rest @ ..]) = bytes[HEAD..].split_at_checked(size)? else { return None };
    (head.kind == kind && head.size <= size_max).then_some((head.channel, payload, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_told_apart() {
        for (header, expected) in [
            (b"AMQP\0\0\x09\x01", Detected::Amqp091),
            (b"AMQP\x01\x01\0\x09", Detected::Amqp091),
            (b"AMQP\0\x01\0\0", Detected::Amqp10),
            (b"AMQP\x03\x01\0\0", Detected::Amqp10Sasl),
            (b"AMQP\0\0\x09\0", Detected::Unknown(PROTOCOL_HEADER)),
            (b"AMQP\0\0\x08\0", Detected::Unknown(SASL_HEADER)),
            (b"AMQP\0\x02\0\0", Detected::Unknown(SASL_HEADER)),
            (b"AMQP\x01\x01\x08\0", Detected::Unknown(SASL_HEADER)),
            (b"GET / HT", Detected::Unknown(SASL_HEADER)),
        ] {
            assert_eq!(detect(header), expected, "{header:?}");
        }
    }

    #[test]
    fn a_frame_ends_where_its_size_says() {
        let bytes = b"\x01\0\x07\0\0\0\x02hi\xcemore";
        let head = Head { kind: 1, channel: 7, size: 2 };
        assert_eq!(split(bytes, 2), Next::Frame { head, payload: b"hi", rest: b"more" });
        assert_eq!(split(bytes, 1), Next::TooLarge { head });
        for len in 0..10 {
            let wanted = if len < HEAD { HEAD } else { 10 };
            assert_eq!(split(&bytes[..len], 2), Next::Incomplete { wanted });
        }
        let bad = b"\x01\0\x07\0\0\0\x02hi\0";
        assert_eq!(split(bad, 2), Next::BadEnd { head, payload: b"hi", end: 0 });
    }
}
