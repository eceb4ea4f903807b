//! Any records of streams: what is read of them is what they say, written again it is the same, and a stream that they are
//! applied to has dense offsets, whole chunks, and nothing twice of one publishing id.
#![no_main]

use base::memory::Buffer;
use libfuzzer_sys::fuzz_target;
use message::chunk::Chunk;
use message::record::{
    Append, Appended, Close, Kind, NewAppend, Open, Refer, StreamSettings, Track, Truncate, split,
};
use queue::stream::{
    Common, Effect, FEED, From, Limits, NewReader, Next, Published, Settings, Storing, Stream,
};

/// Checks that the content of a record, written anew, is read as the same.
fn check_append(append: &Append<'_>, messages: &[Appended<'_>]) {
    let Append { stream, at_ms, reference, .. } = *append;
    let has_filters = messages.iter().any(|message| !message.filter_value.is_empty());
    let new = NewAppend { stream, at_ms, reference, has_filters };
    let mut written = Buffer::default();
    let count = new.write(messages.iter().copied(), &mut written);
    assert_eq!(count as usize, messages.len());
    let (kind, record, rest) = split(written.bytes()).expect("a record");
    assert!(kind == Kind::Append && rest.is_empty());
    let again = Append::read(record).expect("an append");
    assert_eq!((again.stream, again.at_ms, again.reference), (stream, at_ms, reference));
    assert!(again.messages().eq(messages.iter().copied()));
}

fn check_track(track: &Track<'_>) {
    let mut written = Buffer::default();
    track.write(&mut written);
    let (_, record, _) = split(written.bytes()).expect("a record");
    assert_eq!(Track::read(record), Some(*track));
}

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { offsets_max: 4, sequences_max: 4, chunk_bytes_max: 4096, ..Limits::default() };
    let (mut common, mut effects) = (Common::new(limits), Vec::<Effect>::new());
    let mut stream = Stream::new(Settings::default());
    let mut expected = 0;
    let mut rest = bytes;
    while let Some((kind, record, behind)) = split(rest) {
        rest = behind;
        match kind {
            Kind::Append => {
                let Some(append) = Append::read(record) else { continue };
                let messages: Vec<Appended<'_>> = append.messages().collect();
                assert!(messages.len() <= record.len() / 4);
                check_append(&append, &messages);
                let reference = append.reference.unwrap_or_default();
                let mut last = if reference.is_empty() { None } else { stream.sequence(reference) };
                for message in &messages {
                    let is_new = reference.is_empty() || last.is_none_or(|last| last < message.publishing_id);
                    if is_new {
                        last = Some(message.publishing_id);
                        expected += u64::from(message.entry.records());
                    }
                }
                let published = messages.iter().map(|message| Published {
                    id: message.publishing_id,
                    filter_value: message.filter_value,
                    entry: message.entry,
                });
                let at_ms = append.at_ms as i64;
                stream.publish(at_ms, reference, published, &mut common, &mut effects);
                if !reference.is_empty() {
                    assert_eq!(stream.sequence(reference), last);
                }
                stream.close(at_ms, &mut common, &mut effects);
                assert_eq!(stream.next_offset(), expected);
            }
            Kind::Truncate => {
                let Some(truncate) = Truncate::read(record) else { continue };
                let mut written = Buffer::default();
                truncate.write(&mut written);
                assert_eq!(Truncate::read(written.bytes()), Some(truncate));
                let at_ms = i64::try_from(truncate.at_ms).unwrap_or(i64::MAX);
                stream.truncate(at_ms, truncate.before, &mut common, &mut effects);
                assert!(truncate.before < stream.next_offset() || stream.messages() == 0);
            }
            Kind::Track => {
                let Some(track) = Track::read(record) else { continue };
                check_track(&track);
                let storing = stream.store_offset(track.reference, track.offset, track.owner, &common);
                if storing != Storing::NoRoom {
                    let is_end = track.reference.starts_with(FEED) && track.offset == u64::MAX;
                    let expected = (!is_end).then_some(track.offset);
                    assert_eq!(stream.offset(track.reference), expected);
                }
            }
            Kind::StreamSettings => {
                let Some(settings) = StreamSettings::read(record) else { continue };
                let mut written = Buffer::default();
                settings.write(&mut written);
                assert_eq!(StreamSettings::read(written.bytes()), Some(settings));
                let StreamSettings { filter_len, chunk_entries_first, .. } = settings;
                let StreamSettings { segment_bytes_max, bytes_max, age_max_ms, .. } = settings;
                let new =
                    Settings { filter_len, chunk_entries_first, segment_bytes_max, bytes_max, age_max_ms };
                let at_ms = i64::try_from(settings.at_ms).unwrap_or(i64::MAX);
                stream.configure(at_ms, new, &mut common, &mut effects);
                let mut snapshot = Vec::new();
                stream.write_snapshot(&mut snapshot);
                assert_eq!(*Stream::read_snapshot(&snapshot).expect("what was written").settings(), new);
            }
            Kind::Open => {
                let Some(open) = Open::read(record) else { continue };
                let mut written = Buffer::default();
                open.write(&mut written);
                assert_eq!(Open::read(written.bytes()), Some(open));
            }
            Kind::Close => {
                let Some(close) = Close::read(record) else { continue };
                let mut written = Buffer::default();
                close.write(&mut written);
                assert_eq!(Close::read(written.bytes()), Some(close));
            }
            Kind::Refer => {
                let Some(refer) = Refer::read(record) else { continue };
                let mut written = Buffer::default();
                refer.write(&mut written);
                assert_eq!(Refer::read(written.bytes()), Some(refer));
            }
            _ => {}
        }
    }
    let new = NewReader { from: From::First, filter: None, credit: u32::MAX, group: None };
    let reader = stream.attach(new, &mut common, &mut effects);
    let mut next = stream.first_offset();
    while let Next::Chunk(chunk) = stream.next(reader, &mut common, &mut effects) {
        let (read, behind) = Chunk::read(chunk.bytes()).expect("a chunk");
        assert!(behind.is_empty() && read.check().is_ok());
        assert_eq!(chunk.first_offset, next);
        next = chunk.next_offset();
    }
    assert_eq!(next, expected);
});
