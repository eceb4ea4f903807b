//! Texts: sections 2.2 (characters), 2.11 (ends of lines), 3.3.3 (attributes) and 4.1 (references).

use crate::found::Room;
use crate::walk::Fault;
use bumpalo::collections::Vec as BumpVec;

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// In an element.
    Text,
    /// There too, marked as text.
    Data,
    Attribute,
}

/// Bits of bytes that have a meaning.
const CONTROL: u8 = 1;
const REFERENCE: u8 = 2;
const RETURN: u8 = 4;
const BLANK: u8 = 8;
const TAG: u8 = 16;

const BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        bytes[byte] = match byte as u8 {
            b'\t' | b'\n' => BLANK,
            b'\r' => RETURN,
            0..b' ' => CONTROL,
            b'&' => REFERENCE,
            b'<' => TAG,
            _ => 0,
        };
        byte += 1;
    }
    bytes
};

/// A text as it is meant, in UTF-8: references are characters, and ends of lines are those of Unix, in attributes blanks. Each
/// is one of the changes that there may be.
pub(super) fn plain<'a>(
    raw: &'a [u8],
    kind: Kind,
    changes_left: &mut usize,
    room: &'a Room,
) -> Result<&'a [u8], Fault> {
    let seen = raw.iter().fold(0, |seen, byte| seen | BYTES[usize::from(*byte)]);
    let (never, changed) = match kind {
        Kind::Text => (CONTROL, REFERENCE | RETURN),
        Kind::Data => (CONTROL, RETURN),
        Kind::Attribute => (CONTROL | TAG, REFERENCE | RETURN | BLANK),
    };
    if seen & never != 0 || str::from_utf8(raw).is_err() {
        return Err(Fault);
    }
    if seen & changed == 0 {
        return Ok(raw);
    }
    let mut plain = BumpVec::new_in(room.bump());
    // It never gets longer.
    plain.try_reserve_exact(raw.len()).map_err(|_| Fault)?;
    let mut rest = raw;
    while let Some(place) = rest.iter().position(|byte| BYTES[usize::from(*byte)] & changed != 0) {
        plain.extend_from_slice(&rest[..place]);
        let special = rest[place];
        *changes_left = changes_left.checked_sub(1).ok_or(Fault)?;
        rest = &rest[place + 1..];
        match special {
            b'&' => {
                let end = rest.iter().position(|byte| *byte == b';').ok_or(Fault)?;
                let character = character(&rest[..end]).ok_or(Fault)?;
                plain.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[end + 1..];
            }
            b'\r' => {
                plain.push(if kind == Kind::Attribute { b' ' } else { b'\n' });
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            // A tab or an end of a line in an attribute.
            _ => plain.push(b' '),
        }
    }
    plain.extend_from_slice(rest);
    Ok(plain.into_bump_slice())
}

/// The character of a reference, between `&` and `;`.
fn character(reference: &[u8]) -> Option<char> {
    let number = match reference {
        b"lt" => return Some('<'),
        b"gt" => return Some('>'),
        b"amp" => return Some('&'),
        b"apos" => return Some('\''),
        b"quot" => return Some('"'),
        [b'#', b'x', digits @ ..] => number(digits, 16)?,
        [b'#', digits @ ..] => number(digits, 10)?,
        _ => return None,
    };
    let is_character = matches!(number, 0x9 | 0xA | 0xD | 0x20..=0xFFFD | 0x1_0000..);
    char::from_u32(number).filter(|_| is_character)
}

/// The number that digits are, one at least.
fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let add = |number: u32, digit: &u8| {
        let digit = char::from(*digit).to_digit(radix)?;
        number.checked_mul(radix)?.checked_add(digit)
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

/// The text of an element, made of pieces where there is something between them.
pub(super) struct Text<'a> {
    room: &'a Room,
    first: &'a [u8],
    all: Option<BumpVec<'a, u8>>,
}

impl<'a> Text<'a> {
    pub(super) fn new(room: &'a Room) -> Text<'a> {
        Text { room, first: b"", all: None }
    }

    pub(super) fn add(&mut self, piece: &'a [u8]) -> Result<(), Fault> {
        if self.first.is_empty() && self.all.is_none() {
            self.first = piece;
            return Ok(());
        }
        let (first, room) = (self.first, self.room);
        let all = self.all.get_or_insert_with(|| BumpVec::new_in(room.bump()));
        let begin = if all.is_empty() { first } else { b"" };
        all.try_reserve(begin.len() + piece.len()).map_err(|_| Fault)?;
        all.extend_from_slice(begin);
        all.extend_from_slice(piece);
        Ok(())
    }

    pub(super) fn whole(self) -> &'a [u8] {
        self.all.map_or(self.first, BumpVec::into_bump_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_characters() {
        for (reference, expected) in [
            ("lt", Some('<')),
            ("amp", Some('&')),
            ("#65", Some('A')),
            ("#x41", Some('A')),
            ("#x1F600", Some('\u{1F600}')),
            ("#0000000000065", Some('A')),
            ("#9", Some('\t')),
            ("#0", None),
            ("#x1F", None),
            ("#xD800", None),
            ("#xFFFE", None),
            ("#x110000", None),
            ("#4294967361", None),
            ("#", None),
            ("#x", None),
            ("#X41", None),
            ("#-65", None),
            ("nbsp", None),
            ("LT", None),
            ("", None),
        ] {
            assert_eq!(character(reference.as_bytes()), expected, "{reference}");
        }
    }
}
