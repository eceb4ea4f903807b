//! Any bytes as a chunk, stored and delivered, and as its parts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use message::chunk::{Chunk, Content, Entries, Filter, Kind, Tracking};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((chunk, rest)) = Chunk::read(bytes) {
        assert_eq!(chunk.header.stored_len() as usize + rest.len(), bytes.len());
        let _ = chunk.check();
        Filter::new([&b"red"[..]], true).may_match(chunk.bloom);
        assert!(Tracking::new(chunk.header.kind, 0, chunk.trailer).count() <= bytes.len());
    }
    let _ = Chunk::read_delivered(bytes).map(|chunk| chunk.check());
    for kind in [Kind::User, Kind::TrackingSnapshot] {
        assert!(Tracking::new(kind, 0, bytes).count() <= bytes.len());
    }
    let mut taken = 0;
    for entry in Entries::new(bytes).flatten() {
        taken += entry.bytes().len();
        if let Content::Batch(batch) = entry.content() {
            let _ = batch.check(1 << 20);
        }
    }
    assert!(taken <= bytes.len());
});
