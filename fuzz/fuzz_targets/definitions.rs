//! Uploads of definitions and patterns: any bytes are read without panic, parts of a form lie in its body, and a pattern that is taken
//! matches, or not, in bounded time.
#![no_main]

use broker::access::Pattern;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (head, body) = bytes.split_at(bytes.len().min(usize::from(bytes.first().copied().unwrap_or(0))));
    let head = String::from_utf8_lossy(head);
    for content_type in [&*head, "multipart/form-data; boundary=x"] {
        if let Some(parts) = management::form::parts(content_type, body) {
            let inside = body.as_ptr_range();
            for part in parts.values() {
                assert!(part.is_empty() || inside.contains(&part.as_ptr()));
                assert!(part.len() <= body.len());
            }
        }
    }
    if let Ok(text) = str::from_utf8(body)
        && let Ok(pattern) = Pattern::new(text)
    {
        let name = &head[..head.floor_char_boundary(255)];
        assert_eq!(pattern.matches(name), pattern.matches(name));
    }
});
