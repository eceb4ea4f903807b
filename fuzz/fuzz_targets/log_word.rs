//! Any bytes as a word about a log: refused, or the one form of a word.
#![no_main]

use base::Output;
use broker::word_codec::{read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(word) = read(input) else { return };
    let mut again = Output::default();
    write(&word, &mut again).expect("what is read is written");
    // Expressions and definitions have forms that are read and not written.
    let bytes = again.to_vec();
    let mut once_more = Output::default();
    write(&read(&bytes).expect("what is written is read"), &mut once_more).expect("as before");
    assert_eq!(once_more.to_vec(), bytes);
});
