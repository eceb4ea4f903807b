//! The header of a frame, the kinds of frames, and masking.

/// Bytes of the longest header.
pub const HEADER_BYTES_MAX: usize = 14;

/// Bytes of payload a control frame may have, §5.5.
pub const CONTROL_BYTES_MAX: usize = 125;

/// The kind of a frame, §5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// More of a message.
    Continuation,
    /// A message of text begins.
    Text,
    /// A message of bytes begins.
    Binary,
    /// The end.
    Close,
    /// Are you there?
    Ping,
    /// I am.
    Pong,
}

impl Opcode {
    fn of(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0,
            Opcode::Text => 1,
            Opcode::Binary => 2,
            Opcode::Close => 8,
            Opcode::Ping => 9,
            Opcode::Pong => 10,
        }
    }

    /// It may stand between the frames of a message.
    pub fn is_control(self) -> bool {
        self.bits() >= 8
    }
}

/// Why a connection is closed, §7.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum CloseCode {
    /// All is done.
    Normal = 1000,
    /// The server stops, or the page is left.
    GoingAway = 1001,
    /// The peer broke a rule.
    Protocol = 1002,
    /// Text came where bytes are carried.
    Unsupported = 1003,
    /// A payload cannot be read.
    Invalid = 1007,
    /// A frame or message is too large.
    TooBig = 1009,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// It is the last of its message.
    pub is_final: bool,
    /// RSV1: the message is compressed (RFC 7692 §6).
    pub is_compressed: bool,
    /// The kind of frame.
    pub opcode: Opcode,
    /// The key that masks its payload.
    pub mask: Option<[u8; 4]>,
    /// Bytes of payload.
    pub len: u64,
}

/// The result of reading the first bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A header of so many bytes.
    Header(Header, usize),
    /// Too few.
    Incomplete,
    /// No header there can be.
    Wrong,
}

impl Header {
    /// §5.2
    ///
    ///   0               1               2 ...
    ///   |F|1|2|3|opcode | M | length 7  | length 16 or 64 | mask 4 |
    pub fn parse(bytes: &[u8]) -> Parsed {
        let &[first, second, ref rest @ ..] = bytes else { return Parsed::Incomplete };
        let Some(opcode) = Opcode::of(first & 0x0f) else { return Parsed::Wrong };
        let is_final = first & 0x80 != 0;
        let short = second & 0x7f;
        let is_wrong =
            first & 0x30 != 0 || opcode.is_control() && (!is_final || short > CONTROL_BYTES_MAX as u8);
        if is_wrong {
            return Parsed::Wrong;
        }
        let (len, rest) = match short {
            126 => match rest.split_first_chunk::<2>() {
                Some((len, rest)) => (u64::from(u16::from_be_bytes(*len)), rest),
                None => return Parsed::Incomplete,
            },
            127 => match rest.split_first_chunk::<8>() {
                Some((len, rest)) => (u64::from_be_bytes(*len), rest),
                None => return Parsed::Incomplete,
            },
            short => (u64::from(short), rest),
        };
        // Lengths are written as short as they can be, and the highest bit is never set.
        let is_short = short == 126 && len < 126 || short == 127 && len < 1 << 16;
        if is_short || len > i64::MAX as u64 {
            return Parsed::Wrong;
        }
        let (mask, rest) = match second & 0x80 != 0 {
            false => (None, rest),
            true => match rest.split_first_chunk::<4>() {
                Some((mask, rest)) => (Some(*mask), rest),
                None => return Parsed::Incomplete,
            },
        };
        let header = Header { is_final, is_compressed: first & 0x40 != 0, opcode, mask, len };
        Parsed::Header(header, bytes.len() - rest.len())
    }

    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.is_final) << 7 | u8::from(self.is_compressed) << 6;
        out.push(flags | self.opcode.bits());
        let masked = u8::from(self.mask.is_some()) << 7;
        match self.len {
            len @ 0..126 => out.push(masked | len as u8),
            len @ 126..0x1_0000 => {
                out.push(masked | 126);
                out.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                out.push(masked | 127);
                out.extend_from_slice(&len.to_be_bytes());
            }
        }
        out.extend(self.mask.into_iter().flatten());
    }
}

/// Masks or unmasks `bytes`, which begin `from` bytes into their frame, §5.3.
pub fn mask(key: [u8; 4], from: usize, bytes: &mut [u8]) {
    let turned = u32::from_ne_bytes(std::array::from_fn(|index| key[(from + index) % 4]));
    let wide = u64::from(turned) << 32 | u64::from(turned);
    let (chunks, rest) = bytes.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(wide.to_ne_bytes()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_written() {
        let check = |bytes: &[u8], expected: Parsed| {
            assert_eq!(Header::parse(bytes), expected, "{bytes:x?}");
            if let Parsed::Header(header, len) = expected {
                let mut written = Vec::new();
                header.write(&mut written);
                assert_eq!(written, bytes[..len], "{header:?}");
                for shorter in 0..len {
                    assert_eq!(
                        Header::parse(&bytes[..shorter]),
                        Parsed::Incomplete,
                        "{:x?}",
                        &bytes[..shorter]
                    );
                }
            }
        };
        let header = |is_final, is_compressed, opcode, mask, len, bytes| {
            Parsed::Header(Header { is_final, is_compressed, opcode, mask, len }, bytes)
        };
        // §5.7's examples.
        check(b"\x81\x05Hello", header(true, false, Opcode::Text, None, 5, 2));
        check(&[0x81, 0x85, 1, 2, 3, 4, 9], header(true, false, Opcode::Text, Some([1, 2, 3, 4]), 5, 6));
        check(&[0x01, 0x03], header(false, false, Opcode::Text, None, 3, 2));
        check(&[0x80, 0x02], header(true, false, Opcode::Continuation, None, 2, 2));
        check(&[0x82, 0x7e, 1, 0], header(true, false, Opcode::Binary, None, 256, 4));
        check(&[0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0], header(true, false, Opcode::Binary, None, 65_536, 10));
        check(&[0xc2, 0x00], header(true, true, Opcode::Binary, None, 0, 2));
        check(&[0x89, 0x7d], header(true, false, Opcode::Ping, None, 125, 2));
        // Reserved bits and opcodes, control frames that are cut or long, lengths written too long.
        check(&[0xa2, 0], Parsed::Wrong);
        check(&[0x92, 0], Parsed::Wrong);
        check(&[0x83, 0], Parsed::Wrong);
        check(&[0x8b, 0], Parsed::Wrong);
        check(&[0x09, 0], Parsed::Wrong);
        check(&[0x88, 126, 0, 126], Parsed::Wrong);
        check(&[0x82, 126, 0, 125], Parsed::Wrong);
        check(&[0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff], Parsed::Wrong);
        check(&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], Parsed::Wrong);
    }

    #[test]
    fn masking_in_parts_is_masking() {
        let key = [0x37, 0xfa, 0x21, 0x3d];
        let plain: Vec<u8> = (0..100).collect();
        let expected: Vec<u8> = plain.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]).collect();
        for split in 0..plain.len() {
            let mut bytes = plain.clone();
            mask(key, 0, &mut bytes[..split]);
            mask(key, split, &mut bytes[split..]);
            assert_eq!(bytes, expected, "split at {split}");
        }
    }
}
