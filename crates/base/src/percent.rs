//! Percent-encoding (RFC 3986 §2.1) of names in paths and addresses.
//!
//! Broken escapes are refused, so that a name is never read in two ways; libraries for URLs let them pass as they are.

/// Appends `bytes` with everything but unreserved characters (§2.3) escaped.
pub fn encode(bytes: &[u8], into: &mut Vec<u8>) {
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(byte);
        } else {
            let digit = |nibble: u8| b"0123456789ABCDEF"[usize::from(nibble)];
            into.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// The same, as text.
pub fn encoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    encode(text.as_bytes(), &mut bytes);
    bytes.into_iter().map(char::from).collect()
}

/// Appends `text` with escapes resolved; `None`, and a part of it appended, where an escape is broken.
pub fn decode(text: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            into.push(byte);
            continue;
        }
        let (&[high, low], after) = rest.split_first_chunk()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        into.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = after;
    }
    Some(())
}

/// The text that an encoded one stands for; `None` where an escape is broken, or the bytes are no UTF-8.
pub fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    decode(text.as_bytes(), &mut bytes)?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back() {
        let check = |text: &str, expected: &str| {
            assert_eq!(encoded(text), expected);
            assert_eq!(decoded(expected).as_deref(), Some(text));
        };
        check("", "");
        check("a-b_c.d~9", "a-b_c.d~9");
        check("a/b c%", "a%2Fb%20c%25");
        check("é", "%C3%A9");
        assert_eq!(decoded("%2f+").as_deref(), Some("/+"));
    }

    #[test]
    fn broken_escapes_are_refused() {
        for bad in ["%", "%2", "%zz", "a%+1", "%ff"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}
