//! A stream and the records it is made of: with any contents, its offsets are dense, its chunks whole, and nothing is
//! there twice of one publishing id.

use base::id::QueueId;
use base::memory::Buffer;
use message::chunk::{Chunk, Entry, SubBatch};
use message::record::{Append, Appended, Kind, NewAppend, Track, split};
use proptest::prelude::*;
use queue::stream::{Common, From, Limits, NewReader, Next, Published, Settings, Stream};

/// A message of a few bytes, or a batch that says to hold so many.
fn entry() -> impl Strategy<Value = Vec<u8>> {
    let body = || prop::collection::vec(any::<u8>(), 0..60);
    let message = body().prop_map(|body| [&(body.len() as u32).to_be_bytes()[..], &body].concat());
    let batch = (body(), 0..9u16).prop_map(|(body, records)| {
        let batch = SubBatch { compression: 1, records, uncompressed_len: 99, body: &body };
        [&batch.head()[..], &body].concat()
    });
    prop_oneof![4 => message, 1 => batch]
}

/// Publishers, their ids, and their messages.
type Said = (Option<u8>, Vec<(u64, Vec<u8>)>);

fn said() -> impl Strategy<Value = Said> {
    (prop::option::of(0..3u8), prop::collection::vec((0..30u64, entry()), 0..6))
}

fn record((who, all): &Said) -> Buffer {
    let reference = who.map(|who| [who]);
    let reference = reference.as_ref().map(|reference| &reference[..]);
    let messages = all.iter().map(|(publishing_id, bytes)| Appended {
        publishing_id: *publishing_id,
        filter_value: b"",
        entry: Entry::split(bytes).unwrap().0,
    });
    let mut record = Buffer::default();
    NewAppend { stream: QueueId(1), at_ms: 1, reference, has_filters: false }.write(messages, &mut record);
    record
}

/// Applies a record; how many offsets it must take.
fn apply(stream: &mut Stream, common: &mut Common, bytes: &[u8]) -> u64 {
    let (kind, record, _) = split(bytes).unwrap();
    if kind == Kind::Track {
        let track = Track::read(record).unwrap();
        stream.store_offset(track.reference, track.offset, track.owner, common);
        return 0;
    }
    let append = Append::read(record).unwrap();
    let reference = append.reference.unwrap_or_default();
    let (mut last, mut taken) = (stream.sequence(reference), 0);
    for message in append.messages() {
        if reference.is_empty() || last.is_none_or(|last| last < message.publishing_id) {
            (last, taken) = (Some(message.publishing_id), taken + u64::from(message.entry.records()));
        }
    }
    let messages = append.messages().map(|message| Published {
        id: message.publishing_id,
        filter_value: message.filter_value,
        entry: message.entry,
    });
    let mut effects = Vec::new();
    stream.publish(1, reference, messages, common, &mut effects);
    stream.close(1, common, &mut effects);
    assert!(reference.is_empty() || stream.sequence(reference) == last);
    taken
}

proptest! {
    #[test]
    fn offsets_are_dense_whatever_was_recorded(all in prop::collection::vec(said(), 0..20), chunk_bytes_max in 16..400usize) {
        let mut common = Common::new(Limits { chunk_bytes_max, ..Limits::default() });
        let mut stream = Stream::new(Settings::default());
        let mut expected = 0;
        for (at, said) in all.iter().enumerate() {
            expected += apply(&mut stream, &mut common, record(said).bytes());
            prop_assert_eq!(stream.next_offset(), expected);
            let mut track = Buffer::default();
            let reference = &[at as u8];
            Track { stream: QueueId(1), at_ms: 1, offset: expected, owner: None, reference }.write(&mut track);
            apply(&mut stream, &mut common, track.bytes());
            prop_assert_eq!(stream.offset(reference), Some(expected));
        }
        let (mut next, mut effects) = (0, Vec::new());
        let new = NewReader { from: From::First, filter: None, credit: u32::MAX, group: None };
        let reader = stream.attach(new, &mut common, &mut effects);
        while let Next::Chunk(chunk) = stream.next(reader, &mut common, &mut effects) {
            let (read, rest) = Chunk::read(chunk.bytes()).unwrap();
            prop_assert_eq!((read.check(), rest.len(), chunk.first_offset), (Ok(()), 0, next));
            next = chunk.next_offset();
        }
        prop_assert_eq!(next, expected);
    }
}
