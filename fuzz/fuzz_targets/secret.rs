#![no_main]
//! Encrypted values of configuration files: any text is decrypted or refused; what was encrypted is read again.

use ctl::secret::Way;
use data_encoding::BASE64;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let way = Way { iterations: 1, ..Way::default() };
    let _ = way.decrypt("passphrase", &BASE64.encode(bytes));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = way.decrypt("passphrase", text);
    let secret = way.encrypt("passphrase", text, [7; 32]).expect("these ciphers are there");
    assert_eq!(way.decrypt("passphrase", &secret).as_deref(), Ok(text));
});
