//! Copying and comparing few bytes, inline: most names, heads and bodies are short, and a call costs more than the work.

/// Copies `from` into `to`, which must be as long.
#[inline(always)]
pub fn copy(to: &mut [u8], from: &[u8]) {
    let len = from.len();
    assert!(to.len() == len, "copied whole");
    // Two copies of a fixed size that may overlap cover any length between that size and twice it.
    macro_rules! both_ends {
        ($size:literal) => {
            if let (Some(first), Some(last)) = (from.first_chunk::<$size>(), from.last_chunk::<$size>()) {
                let (first, last) = (*first, *last);
                to[..$size].copy_from_slice(&first);
                to[len - $size..].copy_from_slice(&last);
            }
        };
    }
    match len {
        0 => {}
        1..=3 => {
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from;
            }
        }
        4..=7 => both_ends!(4),
        8..=15 => both_ends!(8),
        16..=32 => both_ends!(16),
        33..=64 => both_ends!(32),
        _ => to.copy_from_slice(from),
    }
}

/// Whether both are the same bytes.
///
/// The C library's comparison loads short ones with a mask, which stalled for longer than all else that is done for a
/// message.
#[inline(always)]
pub fn equal(one: &[u8], other: &[u8]) -> bool {
    // Two comparisons of a fixed size that may overlap cover any length between that size and twice it.
    macro_rules! both_ends {
        ($size:literal, $number:ty) => {
            match (one.first_chunk(), one.last_chunk(), other.first_chunk(), other.last_chunk()) {
                (Some(a), Some(b), Some(c), Some(d)) => {
                    let number = |bytes: &[u8; $size]| <$number>::from_ne_bytes(*bytes);
                    (number(a) ^ number(c)) | (number(b) ^ number(d)) == 0
                }
                _ => false,
            }
        };
    }
    if one.len() != other.len() {
        return false;
    }
    match one.len() {
        0 => true,
        1..=3 => one.iter().zip(other).all(|(one, other)| one == other),
        4..=7 => both_ends!(4, u32),
        8..=16 => both_ends!(8, u64),
        17..=32 => both_ends!(16, u128),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn compares_every_length() {
        let one: Vec<u8> = (0..100).collect();
        for len in 0..one.len() {
            let mut other = one[..len].to_vec();
            assert!(super::equal(&one[..len], &other), "{len}");
            assert!(!super::equal(&one[..len], &one[..len + 1]), "{len}");
            for at in 0..len {
                other[at] ^= 0x80;
                assert!(!super::equal(&one[..len], &other), "{at} of {len}");
                other[at] ^= 0x80;
            }
        }
    }

    #[test]
    fn copies_every_length() {
        let from: Vec<u8> = (0..200).collect();
        for len in 0..from.len() {
            let mut to = vec![0; len];
            super::copy(&mut to, &from[..len]);
            assert_eq!(to, from[..len], "{len}");
        }
    }
}
