//! Any marks of a log, in any order, with a snapshot or none: read back to a state, or refused. A state has dense entries, in order,
//! and its entries, written again behind the snapshot, are read back the same.
#![no_main]

use base::Buffer;
use base::id::{LogId, LogIndex};
use consensus::mark::{At, FoundContent, Recovered, Recovery, Start};
use consensus::{Entry, EntryId};
use journal::{Batch, FileId, FileKind, FileName, Mark, Place, RecoveredBatch, Sealed};
use libfuzzer_sys::fuzz_target;

const LOG: LogId = LogId(1);

/// Bytes of the input that become a batch: its mark, its base and the length of its records.
const BATCH: usize = Mark::LEN + 2;

/// The batch as the journal gives it back.
fn recovered(sealed: Sealed) -> RecoveredBatch {
    let Sealed { memory, log, base, len, crc, committed_at_ms, mark } = sealed;
    let name = FileName::new(FileKind::Journal, 1);
    let place = Place { file: FileId(1), name, offset: 4096, len: len as u64, crc };
    RecoveredBatch { log, base, memory, records: 0..len, place, committed_at_ms, mark, void_to: None }
}

fn batch(base: u64, len: usize, mark: Option<Mark>) -> Sealed {
    let mut batch = Batch::new(LOG, LogIndex(base), Buffer::default());
    batch.records().extend_zeroed(len);
    Sealed { mark, ..batch.seal(1) }
}

/// All of what was found that can be compared.
fn words(found: &Recovered) -> Vec<String> {
    let content = |content: &FoundContent| match content {
        FoundContent::Blank => String::new(),
        FoundContent::Members(members) => format!("{members:?}"),
        FoundContent::Batch(batch) => format!("{:?} {}", batch.base, batch.place.crc),
    };
    let entry =
        |entry: &consensus::mark::Found| format!("{:?} {} {}", entry.id, entry.base, content(&entry.content));
    let end = format!("{:?} {:?} {:?}", found.last, found.end, found.vote);
    found.entries.iter().map(entry).chain([end]).collect()
}

/// Where the batch of an input goes: mostly behind the one before.
fn base(how: u8, end: u64) -> u64 {
    match how {
        0..128 => end,
        128..192 => end.saturating_sub(8 * u64::from(how - 128)),
        _ => 8 * u64::from(how - 192),
    }
}

fuzz_target!(|input: &[u8]| {
    let Some(([covered, end, term], input)) = input.split_first_chunk() else { return };
    let last = |index: &u8| EntryId {
        term: u64::from(*term),
        index: u64::from(*index) - 1,
    };
    let start =
        Start { last: (*covered > 0).then(|| last(covered)), end: LogIndex(8 * u64::from(*end)), vote: None };
    let (mut recovery, mut end) = (Recovery::new(start), start.end.0);
    for bytes in input.as_chunks::<BATCH>().0 {
        let [mark @ .., how, len] = *bytes;
        let base = base(how, end);
        // The top bits: a length that is not whole, and no mark.
        let len_bytes = usize::from(len & 15) * 8 + usize::from(len >> 7);
        let mark = (len & 64 == 0).then_some(Mark(mark));
        let sealed = batch(base, len_bytes, mark);
        end = sealed.next().0;
        if recovery.visit(recovered(sealed)).is_err() {
            return;
        }
    }
    let Ok(found) = recovery.finish() else { return };
    let first = start.last.map_or(0, |last| last.index + 1);
    let mut before = start.end;
    for (index, entry) in (first..).zip(&found.entries) {
        assert_eq!((entry.id.index, entry.base), (index, before));
        if let FoundContent::Batch(batch) = &entry.content {
            before = LogIndex(before.0 + batch.records.len() as u64);
        }
    }
    assert_eq!(before, found.end);
    let entries: Vec<Entry> = found.entries.iter().map(|entry| entry.to_entry()).collect();
    let mut batches = Vec::new();
    let at = At { log: LOG, end: start.end, now_ms: 1 };
    assert_eq!(at.append(&entries, &mut batches), found.end);
    let mut again = Recovery::new(Start { vote: found.vote, ..start });
    for sealed in batches {
        again.visit(recovered(sealed)).expect("what was written");
    }
    assert_eq!(words(&again.finish().expect("what was written")), words(&found));
});
