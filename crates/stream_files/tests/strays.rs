//! Files of streams that no snapshot knows: where they are while the journal is read, and what becomes of them.

use base::id::LogId;
use journal::faulty::{Call, Temper};
use journal::{Disk, DiskError, FaultyDisk, FileKind, FileName};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use stream_files::{Stray, Strays};

const LOG: LogId = LogId(3);
const OTHER: LogId = LogId(4);

fn name(kind: FileKind, log: LogId, number: u64) -> FileName {
    FileName::of_log(kind, log, number)
}

fn write(disk: &FaultyDisk, name: FileName, text: &str) {
    if disk.len(name).is_err() {
        disk.create(name, 0).unwrap();
    }
    disk.write_at(name, 0, &[IoSlice::new(text.as_bytes())]).unwrap();
    disk.sync(name).unwrap();
}

/// A disk with the chunks and indexes of these segments, each of which holds its name.
fn disk(segments: &[(LogId, u64)]) -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    for (log, number) in segments {
        for kind in [FileKind::Stream, FileKind::StreamIndex] {
            write(&disk, name(kind, *log, *number), &format!("{log} {number}"));
        }
    }
    disk.sync_folder(FileKind::Stream).unwrap();
    disk
}

/// All files of streams, as `streams/NUMBER.kind: content`, without their log.
fn files(disk: &FaultyDisk) -> Vec<String> {
    let kinds = [FileKind::Stream, FileKind::StreamIndex, FileKind::StreamAside, FileKind::QuarantinedStream];
    let names = kinds.into_iter().flat_map(|kind| disk.list(kind).unwrap());
    let shown = names.map(|name| {
        let mut bytes = vec![0; disk.len(name).unwrap() as usize];
        disk.read_at(name, 0, &mut bytes).unwrap();
        format!("{:?} {}: {}", name.kind, name.number, String::from_utf8(bytes).unwrap())
    });
    shown.collect()
}

fn known(segments: &[(LogId, &[u64])]) -> BTreeMap<LogId, BTreeSet<u64>> {
    segments.iter().map(|(log, numbers)| (*log, numbers.iter().copied().collect())).collect()
}

#[test]
fn what_snapshots_know_stays_and_the_rest_goes_when_the_journal_was_sound() {
    let disk = disk(&[(LOG, 1), (LOG, 2), (OTHER, 7)]);
    // Of the other log nobody knows anything: it lost its snapshots.
    let strays = Strays::set_aside(&disk, &known(&[(LOG, &[1])])).unwrap();
    let expected = ["Stream 1: 3 1", "Stream 7: 4 7", "StreamIndex 1: 3 1", "StreamIndex 7: 4 7"];
    assert_eq!(files(&disk), [&expected[..], &["StreamAside 2: 3 2"]].concat());
    assert_eq!(strays.end(&disk, true, |_| false), Ok(Vec::new()));
    assert_eq!(files(&disk), expected);
}

#[test]
fn what_may_be_the_only_copy_is_kept_where_the_journal_was_damaged() {
    let disk = disk(&[(LOG, 1), (LOG, 2), (LOG, 3), (LOG, 4), (OTHER, 2)]);
    write(&disk, name(FileKind::QuarantinedStream, LOG, 3), "before");
    let mut strays = Strays::set_aside(&disk, &known(&[(LOG, &[]), (OTHER, &[])])).unwrap();
    // One is there again, of one a part, and of the others nothing.
    strays.note_made(&disk, LOG, &BTreeMap::from([(1, 3), (2, 2)])).unwrap();
    strays.note_made(&disk, OTHER, &BTreeMap::new()).unwrap();
    let kept = strays.end(&disk, false, |log| log == OTHER).unwrap();
    let stray = |log, number, is| Stray { was: name(FileKind::Stream, log, number), is };
    let quarantined = |number| name(FileKind::QuarantinedStream, LOG, number);
    let expected = [
        stray(LOG, 2, quarantined(2)),
        stray(LOG, 3, quarantined(4)),
        stray(LOG, 4, quarantined(5)),
        stray(OTHER, 2, name(FileKind::StreamAside, OTHER, 2)),
    ];
    assert_eq!(kept, expected);
    disk.crash_as(Temper::LoseAll);
    assert_eq!(
        files(&disk),
        [
            "StreamAside 2: 4 2",
            "QuarantinedStream 2: 3 2",
            "QuarantinedStream 3: before",
            "QuarantinedStream 4: 3 3",
            "QuarantinedStream 5: 3 4"
        ]
    );
    assert_eq!(
        kept[1].to_string(),
        "streams/00000003-0000000000000003.stream may hold messages that nothing else has any more, and is kept as \
         quarantine/00000003-0000000000000004.stream"
    );
}

#[test]
fn a_start_that_did_not_end_is_begun_anew() {
    let disk = disk(&[(LOG, 1), (LOG, 2)]);
    let known_to_it = known(&[(LOG, &[1])]);
    drop(Strays::set_aside(&disk, &known_to_it).unwrap());
    write(&disk, name(FileKind::Stream, LOG, 2), "half");
    let expected = ["Stream 1: 3 1", "StreamIndex 1: 3 1", "StreamAside 2: 3 2"];
    for temper in [Temper::Kill, Temper::LoseAll] {
        disk.crash_as(temper);
        drop(Strays::set_aside(&disk, &known_to_it).unwrap());
        assert_eq!(files(&disk), expected, "{temper:?}");
    }
    // Its name was not synced: whoever relies on it says so once more.
    disk.fail(Call::SyncFolder, 1, DiskError::Io(5));
    assert!(Strays::set_aside(&disk, &known_to_it).is_err());
    disk.crash_as(Temper::Kill);
    drop(Strays::set_aside(&disk, &known_to_it).unwrap());
    disk.crash_as(Temper::LoseAll);
    assert_eq!(files(&disk), expected);
    // A segment that a snapshot knows is not replaced by the one that was aside, which goes.
    write(&disk, name(FileKind::Stream, LOG, 2), "3 2 and more");
    let strays = Strays::set_aside(&disk, &known(&[(LOG, &[1, 2])])).unwrap();
    assert_eq!(strays.end(&disk, true, |_| false), Ok(Vec::new()));
    assert_eq!(files(&disk), ["Stream 1: 3 1", "Stream 2: 3 2 and more", "StreamIndex 1: 3 1"]);
}
