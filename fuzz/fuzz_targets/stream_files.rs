//! Any bytes in the files of a stream: reading ends, and what is read are whole chunks in order.
#![no_main]

use base::id::{LogId, QueueId};
use journal::{Disk, FaultyDisk, FileKind, FileName};
use libfuzzer_sys::fuzz_target;
use message::chunk::{Chunk, Filter};
use queue::stream::{Common, Effect, From, Limits, NewReader, Next, Settings, Stream};
use std::io::IoSlice;
use stream_files::StreamJob;

const LOG: LogId = LogId(1);

/// Carries the work out that is in `effects`; whether there was some.
fn work(stream: &mut Stream, common: &mut Common, effects: &mut Vec<Effect>, disk: &FaultyDisk) -> bool {
    let mut has_worked = false;
    for effect in std::mem::take(effects) {
        if let Effect::Work(work) = effect {
            let done = StreamJob { log: LOG, stream: QueueId(1), work }.carry_out(disk);
            stream.done(done.done, common, effects);
            has_worked = true;
        }
    }
    has_worked
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[how, at, split], bytes)) = bytes.split_first_chunk() else { return };
    let limits = Limits { index_bytes: 256, ..Limits::default() };
    let (mut common, mut effects) = (Common::new(limits), Vec::new());
    let mut stream = Stream::new(Settings::default());
    for batch in 0..20 {
        stream.push_message(batch, &[&[7; 60][..]], b"value", &mut common, &mut effects);
        stream.close(batch, &mut common, &mut effects);
    }
    let disk = FaultyDisk::new(1);
    effects.extend(stream.take_write().map(Effect::Work));
    while work(&mut stream, &mut common, &mut effects, &disk) {}

    let (chunks, index) = bytes.split_at(bytes.len() * usize::from(split) / 255);
    let name = FileName::of_log(FileKind::Stream, LOG, 1);
    let index_name = FileName { kind: FileKind::StreamIndex, ..name };
    disk.write_at(name, u64::from(at) * 8, &[IoSlice::new(chunks)]).expect("room");
    disk.write_at(index_name, u64::from(at), &[IoSlice::new(index)]).expect("room");
    let filter = (how & 1 == 1).then(|| Box::new(Filter::new([&b"value"[..]], false)));
    let from = match how >> 1 & 3 {
        0 => From::First,
        1 => From::Timestamp(i64::from(how >> 3)),
        _ => From::Offset(u64::from(how >> 3)),
    };
    let reader =
        stream.attach(NewReader { from, filter, credit: 100, group: None }, &mut common, &mut effects);
    let mut next_offset = 0;
    loop {
        match stream.next(reader, &mut common, &mut effects) {
            Next::Chunk(chunk) => {
                let (read, rest) = Chunk::read(chunk.bytes()).expect("a chunk");
                assert!(rest.is_empty() && read.check().is_ok() && chunk.first_offset >= next_offset);
                next_offset = chunk.next_offset();
                assert!(next_offset <= 20);
            }
            Next::NoCredit => panic!("there are twenty chunks"),
            Next::Wait if work(&mut stream, &mut common, &mut effects, &disk) => {}
            Next::Wait => break,
        }
    }
});
