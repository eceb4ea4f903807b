//! Texts: RFC 8259 section 7.

use crate::found::Room;
use crate::walk::Fault;

/// Bytes of the escape at the start, if it is one.
pub(super) fn escape_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => unit(&bytes[2..]).is_ok().then_some(6),
        _ => None,
    }
}

/// A text as it is meant: UTF-8 without its escapes.
pub(super) fn checked<'a>(raw: &'a [u8], has_escapes: bool, room: &'a Room) -> Result<&'a [u8], Fault> {
    if str::from_utf8(raw).is_err() {
        return Err(Fault);
    }
    if has_escapes { plain(raw, room) } else { Ok(raw) }
}

/// A text without its escapes.
pub(super) fn plain<'a>(raw: &[u8], room: &'a Room) -> Result<&'a [u8], Fault> {
    let mut plain = bumpalo::collections::Vec::new_in(room.bump());
    // It never gets longer.
    plain.try_reserve_exact(raw.len()).map_err(|_| Fault)?;
    let mut rest = raw;
    while let Some(place) = rest.iter().position(|byte| *byte == b'\\') {
        plain.extend_from_slice(&rest[..place]);
        let escape = *rest.get(place + 1).ok_or(Fault)?;
        rest = &rest[place + 2..];
        match escape {
            b'"' | b'\\' | b'/' => plain.push(escape),
            b'b' => plain.push(8),
            b'f' => plain.push(12),
            b'n' => plain.push(b'\n'),
            b'r' => plain.push(b'\r'),
            b't' => plain.push(b'\t'),
            b'u' => {
                let unit = unit(rest)?;
                rest = &rest[4..];
                let code = match unit {
                    0xD800..=0xDBFF => {
                        let low = unit_of_pair(rest)?;
                        rest = &rest[6..];
                        0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
                    }
                    unit => unit,
                };
                // Half of a pair is no character.
                let character = char::from_u32(code).ok_or(Fault)?;
                plain.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => return Err(Fault),
        }
    }
    plain.extend_from_slice(rest);
    Ok(plain.into_bump_slice())
}

/// Four hexadecimal digits.
fn unit(digits: &[u8]) -> Result<u32, Fault> {
    let digits = digits.get(..4).ok_or(Fault)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?)).ok_or(Fault)
}

/// The second half of a pair, with its backslash.
fn unit_of_pair(escape: &[u8]) -> Result<u32, Fault> {
    let digits = escape.strip_prefix(b"\\u").ok_or(Fault)?;
    unit(digits).and_then(|unit| if (0xDC00..=0xDFFF).contains(&unit) { Ok(unit) } else { Err(Fault) })
}
