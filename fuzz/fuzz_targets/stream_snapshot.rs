//! Any bytes as a stream's snapshot, with and without the head it should have: read or refused, and what is read is a stream that
//! goes on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use queue::stream::{Common, From, Limits, NewReader, Next, Settings, Stream};

/// Bytes of magic, version and epoch.
const HEAD: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let mut file = Vec::new();
    if how & 1 == 0 {
        Stream::new(Settings::default()).write_snapshot(&mut file);
        file.truncate(HEAD);
    }
    file.extend(bytes);
    let bytes = &file[..];
    let Ok(mut stream) = Stream::read_snapshot(bytes) else { return };
    let mut again = Vec::new();
    stream.write_snapshot(&mut again);
    assert_eq!(again, bytes);

    let (mut common, mut effects) = (Common::new(Limits::default()), Vec::new());
    stream.recover(|_| None, &mut common);
    let offset = stream.next_offset();
    assert_eq!(stream.push_message(1, &[&b"more"[..]], b"", &mut common, &mut effects), offset);
    stream.close(1, &mut common, &mut effects);
    let new = NewReader { from: From::Last, filter: None, credit: 1, group: None };
    let reader = stream.attach(new, &mut common, &mut effects);
    let Next::Chunk(chunk) = stream.next(reader, &mut common, &mut effects) else { panic!("the last chunk") };
    assert_eq!((chunk.first_offset, chunk.records), (offset, 1));
    stream.end(&mut common, &mut effects);
});
