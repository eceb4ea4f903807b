//! Any bytes as a word about the state of a log: refused, or the one form of a word.
#![no_main]

use libfuzzer_sys::fuzz_target;
use node::fetch::codec::{read, write};

fuzz_target!(|input: &[u8]| {
    let Ok(word) = read(input) else { return };
    let mut again = Vec::new();
    write(&word, &mut again);
    assert_eq!(again, input);
});
