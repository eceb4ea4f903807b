//! Any bytes as a word about the catalog: refused, or a word that has a form.
#![no_main]

use broker::CatalogWord;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(word) = CatalogWord::decode(input) else { return };
    let mut bytes = Vec::new();
    word.encode_to(&mut bytes);
    assert_eq!(CatalogWord::decode(&bytes).as_ref(), Ok(&word));
});
