//! Copying few bytes, inline: most names, heads and bodies are short, and a call costs more than the copy.

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

#[cfg(test)]
mod tests {
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
