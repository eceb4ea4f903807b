//! Chunks against one that osiris 1.13.1 wrote, and against bytes that nobody should have written.

use super::*;
use base::Buffer;
use proptest::prelude::*;

/// Two messages with filter values "apple" and "invoices" (the latter empty), a sub-batch, a message without a value, and a
/// publisher's sequence in the trailer.
const OSIRIS: &str = "50000004000000060000018BCFE5687B0000000000000007000000000000002A4B2EB09D\
    000000270000000D1000000084000000008000000000040000010000000000000000000566727569\
    7490000300000028000000067A69707065640000000568656C6C6F00037265660000000000000009";

fn osiris() -> Vec<u8> {
    let digits: Vec<u8> = OSIRIS.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

const PLACE: Place = Place { timestamp_ms: 1_700_000_000_123, epoch: 7, first_offset: 42 };

fn trailer(kind: Kind, value: Tracked) -> Vec<u8> {
    let mut out = Vec::new();
    put_tracking(&mut out, kind, &TrackingEntry { id: b"ref", value });
    out
}

fn batch(records: u16, uncompressed_len: u32, compression: u8, body: &[u8]) -> Vec<u8> {
    let batch = SubBatch { compression, records, uncompressed_len, body };
    [&batch.head()[..], body].concat()
}

#[test]
fn a_chunk_of_osiris_is_read() {
    let bytes = osiris();
    let (chunk, rest) = Chunk::read(&bytes).unwrap();
    assert!(rest.is_empty());
    assert_eq!(chunk.check(), Ok(()));
    let header = chunk.header;
    assert_eq!((header.entries, header.records, header.next_offset()), (4, 6, 48));
    assert_eq!((header.timestamp_ms, header.epoch, header.first_offset), (1_700_000_000_123, 7, 42));
    assert_eq!(header.stored_len(), bytes.len() as u64);
    let zipped = SubBatch { compression: 1, records: 3, uncompressed_len: 40, body: b"zipped" };
    let contents: Vec<_> = chunk.entries().map(|entry| entry.unwrap().content()).collect();
    assert_eq!(
        contents,
        [
            Content::Message(b""),
            Content::Message(b"fruit"),
            Content::Batch(zipped),
            Content::Message(b"hello")
        ]
    );
    let tracking: Vec<_> = Tracking::new(Kind::User, 42, chunk.trailer).collect();
    let value = Tracked::Sequence { chunk_id: 42, publishing_id: 9 };
    assert_eq!(tracking, [Ok(TrackingEntry { id: b"ref", value })]);
    // As it would be delivered.
    let delivered = [&bytes[..HEADER_LEN], chunk.data].concat();
    let same = Chunk::read_delivered(&delivered).unwrap();
    assert_eq!((same.data, same.check()), (chunk.data, Ok(())));
}

#[test]
fn a_chunk_of_osiris_is_written() {
    let value = Tracked::Sequence { chunk_id: 42, publishing_id: 9 };
    let zipped = batch(3, 40, 1, b"zipped");
    let (zipped, _) = Entry::split(&zipped).unwrap();
    for in_front in [0, 5] {
        let mut buffer = Buffer::default();
        buffer.extend(&vec![7; in_front]);
        let mut writer = Writer::new(&mut buffer, Kind::User, 16);
        writer.push_message(&mut buffer, b"", b"invoices");
        writer.push_message(&mut buffer, b"fruit", b"apple");
        writer.push(&mut buffer, &zipped, b"");
        writer.push_message(&mut buffer, b"hello", b"");
        assert_eq!((writer.entries(), writer.records()), (4, 6));
        let header = writer.finish(&mut buffer, PLACE, &trailer(Kind::User, value));
        assert_eq!(buffer.bytes()[in_front..], osiris());
        assert_eq!(header.data_at(), 64);
    }
}

/// Entries without a value may come before the first with one, which makes room for the filter.
#[test]
fn the_filter_knows_of_what_came_before_it() {
    let mut buffer = Buffer::default();
    let mut writer = Writer::new(&mut buffer, Kind::User, 20);
    writer.push_message(&mut buffer, b"first", b"");
    writer.push_message(&mut buffer, b"second", b"apple");
    writer.finish(&mut buffer, PLACE, b"");
    let (chunk, _) = Chunk::read(buffer.bytes()).unwrap();
    assert_eq!((chunk.bloom.len(), chunk.check()), (20, Ok(())));
    let matches = |value: &[u8]| Filter::new([value], false).may_match(chunk.bloom);
    assert_eq!([&b"apple"[..], b"", b"pear"].map(matches), [true, true, false]);
    // And nobody pays for a filter that nobody asks for.
    let mut buffer = Buffer::default();
    let mut writer = Writer::new(&mut buffer, Kind::User, 20);
    writer.push_message(&mut buffer, b"first", b"");
    assert_eq!(writer.finish(&mut buffer, PLACE, b"").bloom_len, 0);
}

#[test]
fn a_chunk_has_room_for_what_its_header_can_count() {
    let mut buffer = Buffer::default();
    let mut writer = Writer::new(&mut buffer, Kind::User, 16);
    for _ in 0..u16::MAX {
        assert!(writer.has_room(&buffer, 0, 1));
        writer.push_message(&mut buffer, b"", b"");
    }
    assert!(!writer.has_room(&buffer, 0, 1));
    let writer = Writer::new(&mut buffer, Kind::User, 16);
    assert!(writer.has_room(&buffer, u32::MAX as usize - BATCH_HEAD, 1));
    assert!(!writer.has_room(&buffer, u32::MAX as usize - BATCH_HEAD + 1, 1));
}

#[test]
fn damage_is_named() {
    let good = osiris();
    let check = |at: usize, byte: u8, expected| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        let actual = Chunk::read(&bytes).and_then(|(chunk, _)| chunk.check());
        assert_eq!(actual, Err(expected), "{at}");
    };
    check(0, 0x51, Malformed::NoChunk);
    check(1, 3, Malformed::UnknownKind(3));
    check(3, 5, Malformed::Entries);
    check(7, 7, Malformed::Entries);
    check(40, 1, Malformed::Short);
    let (chunk, _) = Chunk::read(&good).unwrap();
    let found = chunk.header.crc;
    check(35, !(found as u8), Malformed::Checksum { stated: found ^ 0xff, found });
    for len in 0..good.len() {
        assert_eq!(Chunk::read(&good[..len]), Err(Malformed::Short));
    }
    for (kind, bytes) in
        [(Kind::User, &b"\x03\x00\0\0\0\0\0\0\0\0"[..]), (Kind::User, b"\x01\x03re"), (Kind::User, b"\x01")]
    {
        let all: Vec<_> = Tracking::new(kind, 0, bytes).collect();
        assert_eq!(all, [Err(Malformed::Tracking)]);
    }
}

#[test]
fn batches_are_judged_as_rabbitmq_judges_them() {
    use BatchFault::*;
    let check = |records, uncompressed_len, compression, body: &[u8], expected| {
        let bytes = batch(records, uncompressed_len, compression, body);
        let Content::Batch(batch) = Entry::split(&bytes).unwrap().0.content() else { panic!("a batch") };
        assert_eq!(batch.check(1000), expected);
    };
    check(3, 40, 1, b"zipped", Ok(()));
    check(10, 40, 0, b"", Ok(()));
    check(1, 1000, 4, b"z", Ok(()));
    check(1, 1001, 1, b"z", Err(UncompressedTooLarge));
    check(0, 40, 1, b"z", Err(Empty));
    check(11, 40, 1, b"z", Err(TooManyRecords));
    check(3, 40, 5, b"z", Err(UnknownCompression));
    check(3, 40, 2, b"", Err(NothingCompressed));
}

#[test]
fn what_is_tracked_is_read_as_written() {
    for kind in [Kind::User, Kind::TrackingDelta, Kind::TrackingSnapshot] {
        // Only a snapshot tells which chunk a sequence was reached in.
        let chunk_id = if kind == Kind::TrackingSnapshot { 5 } else { 42 };
        let values = [
            Tracked::Sequence { chunk_id, publishing_id: u64::MAX },
            Tracked::Offset(17),
            Tracked::Timestamp(-1),
        ];
        let bytes = values.map(|value| trailer(kind, value)).concat();
        assert_eq!(bytes.len(), 3 * 13 + if chunk_id == 5 { 8 } else { 0 });
        let again: Vec<_> = Tracking::new(kind, 42, &bytes).map(|entry| entry.unwrap().value).collect();
        assert_eq!(again, values);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        messages in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..300), prop::sample::select(vec![&b""[..], b"a", b"b", b"c"])),
            0..20,
        ),
        filter_len in 16u8..=255,
        trailer in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut buffer = Buffer::default();
        let mut writer = Writer::new(&mut buffer, Kind::User, filter_len);
        for (body, value) in &messages {
            writer.push_message(&mut buffer, body, value);
        }
        let header = writer.finish(&mut buffer, PLACE, &trailer);
        let (chunk, rest) = Chunk::read(buffer.bytes()).unwrap();
        prop_assert!(rest.is_empty());
        prop_assert_eq!((chunk.header, chunk.check(), chunk.trailer), (header, Ok(()), &trailer[..]));
        for (entry, (body, value)) in chunk.entries().zip(&messages) {
            prop_assert_eq!(entry.unwrap().content(), Content::Message(body));
            prop_assert!(Filter::new([*value], false).may_match(chunk.bloom));
        }
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut damaged = osiris();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        for bytes in [bytes, damaged] {
            if let Ok((chunk, rest)) = Chunk::read(&bytes) {
                prop_assert_eq!(chunk.header.stored_len() as usize + rest.len(), bytes.len());
                let _ = chunk.check();
                prop_assert!(Tracking::new(chunk.header.kind, 0, chunk.trailer).count() <= bytes.len());
            }
            let _ = Chunk::read_delivered(&bytes);
            prop_assert!(Entries::new(&bytes).count() <= bytes.len());
        }
    }
}
