//! Reading any bytes as a block of a segment, with and without the checksum they should have.
#![no_main]

use base::Buffer;
use base::crc::crc32c;
use journal::SegmentBlock;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let mut block = Buffer::default();
    block.extend(bytes);
    if how & 1 == 0 && bytes.len() >= 64 {
        let mended = block.bytes_mut();
        mended[0..4].copy_from_slice(b"LVSB");
        mended[8..24].copy_from_slice(&[3, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]);
        let crc = crc32c(&mended[8..]);
        mended[4..8].copy_from_slice(&crc.to_le_bytes());
    }
    let Some(block) = SegmentBlock::read(block.seal(), 3, 64) else { return };
    for (position, range) in block.iter() {
        assert_eq!(block.find(position), Some(range.clone()));
        assert!(!block.memory()[range].is_empty());
    }
    let place = block.place();
    assert!(place.last.checked_add(1).is_none_or(|behind| block.find(behind).is_none()));
});
