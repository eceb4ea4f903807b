//! Ids that are text in one protocol and bytes in the other: `urn:uuid:`.

const URN: &[u8] = b"urn:uuid:";

/// The uuid in `urn:uuid:12345678-1234-5678-1234-567812345678`.
pub(super) fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let digits = text.strip_prefix(URN).filter(|digits| digits.len() == 36)?;
    let mut uuid = [0; 16];
    let mut nibbles = 0;
    for (at, &byte) in digits.iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if byte != b'-' {
                return None;
            }
            continue;
        }
        let digit = char::from(byte).to_digit(16)? as u8;
        uuid[nibbles / 2] |= digit << if nibbles % 2 == 0 { 4 } else { 0 };
        nibbles += 1;
    }
    Some(uuid)
}

/// The text of a uuid, as [`uuid`] reads it.
pub(super) fn uuid_text(uuid: &[u8; 16]) -> [u8; 45] {
    let mut text = [b'-'; 45];
    text[..9].copy_from_slice(URN);
    let mut at = 9;
    for (i, byte) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            at += 1;
        }
        for nibble in [byte >> 4, byte & 15] {
            text[at] = b"0123456789abcdef"[usize::from(nibble)];
            at += 1;
        }
    }
    text
}
