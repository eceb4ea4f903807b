//! A stream's machine, behaviour by behaviour.

use crate::stream_files;

use message::chunk::Filter;
use queue::SnapshotError;
use queue::stream::{
    Done, Effect, From, Group, Limits, NewReader, Next, Settings, Storing, Stream, Work, WorkError,
};
use stream_files::Bench;

const CREDIT: u32 = 1000;

fn bench() -> Bench {
    Bench::new(Settings::default(), Limits::default())
}

/// Every segment has two chunks of a message each.
fn short_segments() -> Bench {
    Bench::new(Settings { segment_bytes_max: 100, ..Settings::default() }, Limits::default())
}

fn attach(bench: &mut Bench, from: From) -> queue::stream::ReaderId {
    let new = NewReader { from, filter: None, credit: CREDIT, group: None };
    bench.stream.attach(new, &mut bench.common, &mut bench.effects)
}

/// Chunks with offsets 0, 3, 6, ..., 27 at times 1000, 1010, ..., 1090.
fn fill(bench: &mut Bench) {
    for batch in 0..10 {
        bench.batch(1000 + batch * 10, &[b"one", b"two", b"three"]);
    }
}

#[test]
fn readers_begin_where_they_say() {
    for is_written in [false, true] {
        for mut bench in [bench(), short_segments()] {
            fill(&mut bench);
            if is_written {
                bench.write();
                assert_eq!(bench.stream.unwritten_bytes(), 0);
            }
            for (from, first) in [
                (From::First, Some(0)),
                (From::Last, Some(27)),
                (From::Next, None),
                (From::Offset(0), Some(0)),
                (From::Offset(2), Some(0)),
                (From::Offset(3), Some(3)),
                (From::Offset(29), Some(27)),
                (From::Offset(30), None),
                (From::Offset(u64::MAX), None),
                (From::Timestamp(0), Some(0)),
                (From::Timestamp(1000), Some(0)),
                (From::Timestamp(1001), Some(3)),
                (From::Timestamp(1090), Some(27)),
                (From::Timestamp(1091), None),
                (From::LastMessages(1), Some(27)),
                (From::LastMessages(7), Some(21)),
                (From::LastMessages(500), Some(0)),
            ] {
                let reader = attach(&mut bench, from);
                bench.files.take(&mut bench.effects);
                while bench.files.work(&mut bench.stream, &mut bench.common, &mut bench.effects) {}
                assert_eq!(
                    bench.stream.stands_at(reader),
                    Some(first.unwrap_or(30)),
                    "{from:?} {is_written}"
                );
                let expected: Vec<u64> = (first.unwrap_or(30)..30).step_by(3).collect();
                assert_eq!(bench.read_all(reader), expected, "{from:?} {is_written}");
                bench.stream.detach(reader, &mut bench.common, &mut bench.effects);
            }
        }
    }
}

#[test]
fn a_reader_at_the_end_is_woken() {
    let mut bench = bench();
    let reader = attach(&mut bench, From::First);
    assert!(bench.read_all(reader).is_empty());
    bench.effects.clear();
    bench.batch(5, &[b"first"]);
    assert!(matches!(bench.effects[..], [Effect::Ready(woken)] if woken == reader));
    assert_eq!(bench.read_all(reader), [0]);
    // Nobody is woken by nothing.
    bench.effects.clear();
    bench.batch(6, &[]);
    assert!(bench.effects.is_empty());
}

#[test]
fn credit_is_counted_in_chunks() {
    let mut bench = bench();
    fill(&mut bench);
    let reader = attach(&mut bench, From::First);
    assert_eq!(bench.stream.credit(reader, 2 - CREDIT as i32), 2);
    assert_eq!(bench.read_all(reader), [0, 3]);
    assert!(matches!(bench.next(reader), Next::NoCredit));
    bench.stream.credit(reader, 1);
    assert_eq!(bench.read_all(reader), [6]);
}

#[test]
fn publishing_ids_are_taken_once() {
    let mut bench = bench();
    bench.publish(1, b"p", &[(1, b"a", b""), (2, b"b", b""), (2, b"b", b"")]);
    bench.publish(2, b"p", &[(1, b"a", b""), (2, b"b", b""), (7, b"c", b"")]);
    bench.publish(3, b"q", &[(0, b"a", b"")]);
    bench.publish(4, b"", &[(0, b"a", b""), (0, b"a", b"")]);
    assert_eq!(bench.stream.next_offset(), 6);
    assert_eq!([b"p", b"q", b"r"].map(|name| bench.stream.sequence(name)), [Some(7), Some(0), None]);
    // A batch with nothing new makes no chunk.
    bench.publish(5, b"p", &[(7, b"c", b"")]);
    assert_eq!((bench.stream.last_chunk_id(), bench.stream.messages()), (Some(4), 6));
}

#[test]
fn a_full_chunk_is_closed_within_a_batch() {
    let limits = Limits { chunk_bytes_max: 200, ..Limits::default() };
    let mut bench = Bench::new(Settings { chunk_entries_first: 2, ..Settings::default() }, limits);
    bench.batch(1, &[b"1", b"2", b"3", b"4", b"5"]);
    bench.batch(2, &[&[b'x'; 140], &[b'x'; 140], &[b'x'; 900], b"y"]);
    let reader = attach(&mut bench, From::First);
    assert_eq!(bench.read_all(reader), [0, 2, 5, 6, 7, 8]);
}

#[test]
fn what_came_at_once_is_several_chunks() {
    let mut bench = bench();
    bench.batch(1, &[&b"x"[..]; 1000]);
    bench.batch(2, &[&b"x"[..]; 129]);
    bench.batch(3, &[&b"x"[..]; 128]);
    let reader = attach(&mut bench, From::First);
    assert_eq!(bench.read_all(reader), [0, 128, 384, 896, 1000, 1128, 1129]);
}

#[test]
fn whole_segments_go() {
    let mut bench = short_segments();
    fill(&mut bench);
    bench.write();
    let segments: Vec<_> =
        bench.stream.segments().map(|segment| (segment.number, segment.first_offset)).collect();
    assert_eq!(segments, [(1, 0), (2, 6), (3, 12), (4, 18), (5, 24)]);
    let (at_first, at_third) = (attach(&mut bench, From::First), attach(&mut bench, From::Offset(12)));
    bench.settle();
    let size = bench.stream.segments().last().expect("five").bytes;
    for (settings, now_ms, first) in [
        (Settings { bytes_max: Some(5 * size), ..*bench.stream.settings() }, 2000, 0),
        (Settings { bytes_max: Some(5 * size - 1), ..*bench.stream.settings() }, 2000, 6),
        // Segment 2 ends at 1030.
        (Settings { age_max_ms: Some(970), ..*bench.stream.settings() }, 2000, 6),
        (Settings { age_max_ms: Some(969), ..*bench.stream.settings() }, 2000, 12),
        (Settings { bytes_max: Some(0), ..*bench.stream.settings() }, 2000, 24),
        (Settings { age_max_ms: Some(1), ..*bench.stream.settings() }, 9000, 24),
    ] {
        bench.stream.configure(now_ms, settings, &mut bench.common, &mut bench.effects);
        bench.settle();
        assert_eq!(bench.stream.first_offset(), first, "{settings:?}");
        assert_eq!(bench.files.files.len(), bench.stream.segments().count());
    }
    assert_eq!(bench.read_all(at_first), [24, 27]);
    assert_eq!(bench.read_all(at_third), [24, 27]);
    // A chunk that comes with a new segment takes the last one along.
    bench.batch(9000, &[b"one"]);
    assert_eq!((bench.stream.first_offset(), bench.stream.messages()), (30, 1));
    bench.settle();
    bench.stream.end(&mut bench.common, &mut bench.effects);
    bench.settle();
    assert!(bench.files.files.is_empty() && bench.stream.is_idle());
}

#[test]
fn a_clock_that_was_ahead_for_a_while_ages_nothing() {
    let settings = Settings { segment_bytes_max: 100, age_max_ms: Some(500), ..Settings::default() };
    let mut bench = Bench::new(settings, Limits::default());
    // The sixth chunk ends a segment; the seventh, with a time that cannot be less, begins another.
    for at_ms in [1000, 1010, 1020, 1030, 1040, 5000, 1060] {
        bench.batch(at_ms, &[b"one"]);
    }
    assert_eq!((bench.stream.first_offset(), bench.stream.last_timestamp_ms()), (0, Some(5000)));
    for at_ms in [1600, 1610] {
        bench.batch(at_ms, &[b"one"]);
    }
    assert_eq!(bench.stream.first_offset(), 4, "of times of 1000 to 1030 none is left");
}

#[test]
fn truncation_takes_whole_segments() {
    let mut bench = short_segments();
    fill(&mut bench);
    bench.write();
    for (before, first) in [(5, 0), (6, 6), (17, 12), (29, 24)] {
        bench.stream.truncate(0, before, &mut bench.common, &mut bench.effects);
        assert_eq!(bench.stream.first_offset(), first, "{before}");
    }
}

#[test]
fn truncation_may_leave_nothing() {
    let mut bench = short_segments();
    // Also messages that have no segment.
    bench.stream.truncate(0, 7, &mut bench.common, &mut bench.effects);
    assert_eq!((bench.stream.first_offset(), bench.stream.segments().count()), (0, 0));
    fill(&mut bench);
    bench.write();
    let next = bench.stream.next_offset();
    for _ in 0..2 {
        bench.stream.truncate(0, next, &mut bench.common, &mut bench.effects);
        bench.settle();
        assert_eq!((bench.stream.first_offset(), bench.stream.messages()), (next, 0));
        assert_eq!((bench.stream.last_chunk_id(), bench.stream.segments().count()), (None, 1));
        assert!(bench.files.files.is_empty());
    }
    let mut bytes = Vec::new();
    bench.stream.write_snapshot(&mut bytes);
    let again = Stream::read_snapshot(&bytes).expect("a snapshot");
    assert_eq!((again.first_offset(), again.next_offset(), again.messages()), (next, next, 0));
    bench.batch(9000, &[b"one"]);
    bench.write();
    assert_eq!((bench.stream.first_offset(), bench.stream.messages()), (next, 1));
    let reader = attach(&mut bench, From::First);
    assert_eq!(bench.read_all(reader), [next]);
}

#[test]
fn files_are_removed_when_nobody_writes() {
    let mut bench = short_segments();
    fill(&mut bench);
    let write = bench.stream.take_write().expect("chunks");
    let sync = bench.stream.take_sync().expect("chunks");
    assert!(bench.stream.take_write().is_none());
    bench.stream.end(&mut bench.common, &mut bench.effects);
    bench.files.take(&mut bench.effects);
    assert!(bench.files.waiting.is_empty() && !bench.stream.is_idle());
    bench.files.waiting.extend([write, sync]);
    bench.settle();
    assert!(bench.files.files.is_empty() && bench.stream.is_idle());
}

#[test]
fn what_changed_after_a_sync_was_taken_is_synced_by_the_next() {
    let mut bench = bench();
    bench.batch(1, &[b"one"]);
    let sync = bench.stream.take_sync().expect("a chunk");
    bench.batch(2, &[b"two"]);
    bench.write();
    bench.files.waiting.push_back(sync);
    bench.settle();
    assert!(bench.stream.take_sync().is_some());
}

#[test]
fn readers_at_the_same_place_share_what_is_read() {
    let mut bench = bench();
    for batch in 0..200 {
        bench.batch(batch, &[&[b'x'; 3000]]);
    }
    bench.write();
    let readers: Vec<_> = (0..20).map(|_| attach(&mut bench, From::First)).collect();
    for reader in readers {
        assert_eq!(bench.read_all(reader).len(), 200);
    }
    // 600 KB with reads of 64, 128, 256, 512 KiB.
    assert!(bench.files.reads <= 5, "{}", bench.files.reads);
    assert!(bench.common.loaded_bytes() < 1 << 20);
}

/// Of six readers few are read or sought for; the others have their turn, whichever leaves or comes back.
#[test]
fn who_needs_one_more_read_waits_for_its_turn() {
    let leave: [&[usize]; 7] = [&[], &[0], &[0, 1], &[2, 3], &[5], &[0, 2, 4], &[0, 1, 2, 3, 4]];
    for leave in leave {
        for (reads_max, fails) in [(1, 0), (1, 2), (2, 0), (2, 4), (5, 0), (5, 5)] {
            for has_filter in [false, true] {
                takes_turns(reads_max, leave, fails, has_filter);
            }
        }
    }
}

/// The disk refuses the work `fails` times.
fn takes_turns(reads_max: usize, leave: &[usize], fails: usize, has_filter: bool) {
    let limits = Limits { reads_max, ..Limits::default() };
    let mut bench = Bench::new(Settings { segment_bytes_max: 100, ..Settings::default() }, limits);
    fill(&mut bench);
    bench.write();
    // At the beginning of segments, which are read, and between, which is sought; the last two at the same place.
    let places = [0, 9, 3, 15, 24, 24];
    let readers = places.map(|from| {
        let filter = has_filter.then(|| Box::new(Filter::new([&b""[..]], true)));
        let new = NewReader { from: From::Offset(from), filter, credit: CREDIT, group: None };
        let reader = bench.stream.attach(new, &mut bench.common, &mut bench.effects);
        assert!(matches!(bench.next(reader), Next::Wait));
        reader
    });
    assert_eq!(bench.files.waiting.len(), reads_max);
    for left in leave {
        bench.stream.detach(readers[*left], &mut bench.common, &mut bench.effects);
    }
    for _ in 0..fails {
        let Some(work) = bench.files.waiting.pop_front() else { break };
        let error = WorkError::Io(5);
        let done = match work {
            Work::Read(read) => Done::Read(read.done(Err(error))),
            Work::Seek(seek) => Done::Sought(seek.done(Err(error))),
            _ => panic!("{work:?}"),
        };
        bench.stream.done(done, &mut bench.common, &mut bench.effects);
        bench.files.take(&mut bench.effects);
        assert!(bench.files.waiting.len() <= reads_max);
    }
    // Those that stay are pulled from only when they are told to.
    let mut got = [None; 6];
    loop {
        for effect in std::mem::take(&mut bench.effects) {
            let Effect::Ready(ready) = effect else { panic!("{effect:?}") };
            let at = (0..places.len()).find(|at| readers[*at] == ready && !leave.contains(at));
            while let Some(at) = at
                && let Next::Chunk(chunk) = bench.next(ready)
            {
                got[at].get_or_insert(chunk.first_offset);
            }
        }
        assert!(bench.files.waiting.len() <= reads_max);
        let Bench { stream, common, effects, files } = &mut bench;
        if !files.work(stream, common, effects) && effects.is_empty() {
            break;
        }
    }
    let mut expected = places.map(Some);
    leave.iter().for_each(|left| expected[*left] = None);
    assert_eq!(got, expected, "at most {reads_max}: {leave:?} left, {fails} failed, {has_filter}");
}

#[test]
fn memory_of_what_is_read_is_bounded() {
    let limits = Limits { loaded_bytes_max: 256 << 10, ..Limits::default() };
    let mut bench = Bench::new(Settings::default(), limits);
    for batch in 0..500 {
        bench.batch(batch, &[&[b'x'; 3000]]);
    }
    bench.write();
    for _ in 0..3 {
        let reader = attach(&mut bench, From::First);
        assert_eq!(bench.read_all(reader).len(), 500);
        // Memory to be read into again is half as much.
        assert!(bench.common.loaded_bytes() <= 384 << 10, "{}", bench.common.loaded_bytes());
    }
}

#[test]
fn one_who_reads_alone_keeps_no_block_behind() {
    for (others, kept) in [(0, 200 << 10), (1, 1700 << 10)] {
        let limits = Limits { read_bytes_max: 64 << 10, ..Limits::default() };
        let mut bench = Bench::new(Settings::default(), limits);
        for batch in 0..500 {
            bench.batch(batch, &[&[b'x'; 3000]]);
        }
        bench.write();
        for _ in 0..others {
            attach(&mut bench, From::Next);
        }
        let reader = attach(&mut bench, From::First);
        bench.stream.credit(reader, 1000);
        assert_eq!(bench.read_all(reader).len(), 500);
        let loaded = bench.common.loaded_bytes();
        assert!(loaded <= kept && loaded * 4 > kept, "{others} others: {loaded}");
    }
}

#[test]
fn small_chunks_share_memory() {
    let mut bench = bench();
    for batch in 0..1600 {
        bench.batch(batch, &[b"small"]);
    }
    assert!(bench.stream.unwritten_bytes() <= 100 * 4096 + 1600 * 128, "{}", bench.stream.unwritten_bytes());
    let reader = attach(&mut bench, From::First);
    assert_eq!(bench.read_all(reader).len() as u32, CREDIT);
    // Written chunks stay for the reader, and go with it.
    bench.write();
    bench.stream.credit(reader, 1000);
    assert_eq!((bench.read_all(reader).len(), bench.files.reads), (600, 0));
    bench.stream.detach(reader, &mut bench.common, &mut bench.effects);
    let reader = attach(&mut bench, From::First);
    assert_eq!((bench.read_all(reader).len(), bench.files.reads), (1000, 1));
}

#[test]
fn filters_leave_chunks_out() {
    for is_written in [false, true] {
        let mut bench = bench();
        for batch in 0..30u8 {
            let value: &[u8] = [&b"red"[..], b"green", b""][usize::from(batch % 3)];
            bench.publish(i64::from(batch), b"", &[(0, b"body", value)]);
        }
        if is_written {
            bench.write();
        }
        for (values, match_unfiltered, residues) in
            [(&[&b"red"[..]][..], false, &[0][..]), (&[b"green"], true, &[1, 2]), (&[b"blue"], false, &[])]
        {
            let filter = Filter::new(values.iter().copied(), match_unfiltered);
            let new =
                NewReader { from: From::First, filter: Some(Box::new(filter)), credit: CREDIT, group: None };
            let reader = bench.stream.attach(new, &mut bench.common, &mut bench.effects);
            bench.settle();
            let expected: Vec<u64> = (0..30).filter(|offset| residues.contains(&(offset % 3))).collect();
            assert_eq!(bench.read_all(reader), expected, "{values:?}");
            bench.stream.detach(reader, &mut bench.common, &mut bench.effects);
        }
        assert_eq!(bench.common.loaded_bytes(), 0);
    }
}

/// Words to the clients of a group, and their answers.
#[test]
fn one_of_a_group_reads() {
    let mut bench = bench();
    fill(&mut bench);
    let join = |bench: &mut Bench| {
        let group = Some(Group { name: (*b"g").into(), partition: None });
        let new = NewReader { from: From::First, filter: None, credit: CREDIT, group };
        bench.stream.attach(new, &mut bench.common, &mut bench.effects)
    };
    let told = |bench: &mut Bench| -> Vec<(u32, bool)> {
        let effects = std::mem::take(&mut bench.effects);
        let told = effects.into_iter().filter_map(|effect| match effect {
            Effect::Active { reader, active } => Some((reader.0, active)),
            _ => None,
        });
        told.collect()
    };
    let (first, second) = (join(&mut bench), join(&mut bench));
    assert_eq!(told(&mut bench), [(0, true)]);
    assert!(bench.read_all(first).is_empty());
    bench.stream.answer(first, Some(From::Offset(21)), &bench.common, &mut bench.effects);
    assert_eq!(bench.read_all(first), [21, 24, 27]);
    assert!(bench.read_all(second).is_empty());
    bench.stream.detach(first, &mut bench.common, &mut bench.effects);
    assert_eq!(told(&mut bench), [(1, true)]);
    bench.stream.answer(second, None, &bench.common, &mut bench.effects);
    assert_eq!(bench.read_all(second).len(), 10);
}

#[test]
fn partitions_of_a_super_stream_are_shared_out() {
    let mut bench = bench();
    fill(&mut bench);
    let join = |bench: &mut Bench| {
        let group = Some(Group { name: (*b"g").into(), partition: Some(1) });
        let new = NewReader { from: From::First, filter: None, credit: CREDIT, group };
        bench.stream.attach(new, &mut bench.common, &mut bench.effects)
    };
    let told = |bench: &mut Bench| -> Vec<String> {
        std::mem::take(&mut bench.effects)
            .iter()
            .filter(|effect| matches!(effect, Effect::Active { .. }))
            .map(|effect| format!("{effect:?}"))
            .collect()
    };
    let is_told = |told: Vec<String>, reader: u32, active: bool| {
        assert_eq!(told, [format!("Active {{ reader: ReaderId({reader}), active: {active} }}")]);
    };
    let first = join(&mut bench);
    is_told(told(&mut bench), 0, true);
    // The second is to have it, but the first has not answered yet.
    let second = join(&mut bench);
    assert!(told(&mut bench).is_empty());
    bench.stream.answer(first, None, &bench.common, &mut bench.effects);
    is_told(told(&mut bench), 0, false);
    bench.stream.answer(first, None, &bench.common, &mut bench.effects);
    is_told(told(&mut bench), 1, true);
    bench.stream.answer(second, Some(From::Last), &bench.common, &mut bench.effects);
    assert_eq!((bench.read_all(first), bench.read_all(second)), (vec![], vec![27]));
    bench.stream.detach(second, &mut bench.common, &mut bench.effects);
    is_told(told(&mut bench), 0, true);
}

#[test]
fn a_snapshot_goes_on_where_it_was() {
    let mut bench = short_segments();
    fill(&mut bench);
    bench.publish(2000, b"p", &[(5, b"a", b"")]);
    assert_eq!(bench.stream.store_offset(b"c", 12, None, &bench.common), Storing::Stored);
    let sync = bench.stream.take_sync().expect("chunks");
    let mut bytes = Vec::new();
    bench.stream.write_snapshot(&mut bytes);
    bench.files.waiting.push_back(sync);
    bench.settle();
    assert!(bench.stream.take_sync().is_none());

    let mut again = short_segments();
    again.files = bench.files.clone();
    again.common.set_next_file(bench.common.next_file());
    again.stream = Stream::read_snapshot(&bytes).expect("a snapshot");
    let mut same = Vec::new();
    again.stream.write_snapshot(&mut same);
    assert_eq!(same, bytes);
    let files = again.files.files.clone();
    let len_of = |segment| files.get(&segment).map(|file| file.len() as u64);
    again.stream.recover(len_of, &mut again.common);
    for bench in [&mut bench, &mut again] {
        bench.batch(3000, &[b"more"]);
        assert_eq!((bench.stream.sequence(b"p"), bench.stream.offset(b"c")), (Some(5), Some(12)));
        let reader = attach(bench, From::Offset(24));
        bench.settle();
        assert_eq!(bench.read_all(reader), [24, 27, 30, 31]);
    }
    for len in 0..bytes.len() {
        assert!(Stream::read_snapshot(&bytes[..len]).is_err());
    }
    // Bounds that are not there are zero.
    for at in [24, 32] {
        let mut other = bytes.clone();
        other[at] = 1;
        assert!(matches!(Stream::read_snapshot(&other), Err(SnapshotError::Broken("settings"))), "{at}");
    }
}

/// A shard has others to serve: after so many chunks that do not match it has its turn again later.
#[test]
fn passing_over_chunks_in_memory_takes_turns() {
    let limits = Limits { passed_over_max: 4, ..Limits::default() };
    let mut bench = Bench::new(Settings::default(), limits);
    let filter = Some(Box::new(Filter::new([&b"rare"[..]], false)));
    let new = NewReader { from: From::First, filter, credit: CREDIT, group: None };
    for id in 0..10 {
        bench.publish(1000, b"", &[(id, b"m", if id == 9 { b"rare" } else { b"plain" })]);
    }
    let reader = bench.stream.attach(new, &mut bench.common, &mut bench.effects);
    let is_ready = |bench: &mut Bench| {
        let is_ready = |effect: &Effect| matches!(effect, Effect::Ready(ready) if *ready == reader);
        std::mem::take(&mut bench.effects).iter().any(is_ready)
    };
    assert!(is_ready(&mut bench));
    for _ in 0..2 {
        assert!(matches!(bench.next(reader), Next::Wait));
        assert!(is_ready(&mut bench));
    }
    assert!(matches!(bench.next(reader), Next::Chunk(chunk) if chunk.first_offset == 9));
    assert!(matches!(bench.next(reader), Next::Wait));
    assert!(!is_ready(&mut bench), "it has all there is");
}

/// Retention took the last segment of the snapshot; when the log is replayed it is not so strict any more.
#[test]
fn a_file_that_is_gone_is_not_written_to() {
    for is_synced in [false, true] {
        let mut bench = bench();
        bench.batch(1, &[b"one"]);
        let mut bytes = Vec::new();
        bench.stream.write_snapshot(&mut bytes);
        let mut again = Bench::new(Settings::default(), Limits::default());
        again.stream = Stream::read_snapshot(&bytes).expect("a snapshot");
        again.stream.recover(|_| None, &mut again.common);
        assert_eq!(again.common.next_file(), 2);
        (2..5).for_each(|at_ms| again.batch(at_ms, &[b"more"]));
        let reader = attach(&mut again, From::Offset(1));
        again.stream.credit(reader, 1 - CREDIT as i32);
        assert_eq!(again.read_all(reader), [1]);
        if is_synced {
            let sync = again.stream.take_sync().expect("chunks");
            again.files.waiting.push_back(sync);
            again.settle();
        } else {
            again.write();
        }
        assert!(again.stream.unwritten_bytes() > 0);
        again.write();
        assert_eq!((again.stream.unwritten_bytes(), again.stream.first_offset()), (0, 1));
        again.stream.credit(reader, CREDIT as i32);
        assert_eq!(again.read_all(reader), [2, 3]);
        again.stream.detach(reader, &mut again.common, &mut again.effects);
        for (from, expected) in [(From::First, vec![1, 2, 3]), (From::Last, vec![3])] {
            let reader = attach(&mut again, from);
            assert_eq!(again.read_all(reader), expected);
            again.stream.detach(reader, &mut again.common, &mut again.effects);
        }
    }
}

/// The same, where it took others than the last, too.
#[test]
fn files_that_are_gone_are_not_read() {
    let mut bench = short_segments();
    fill(&mut bench);
    bench.write();
    let mut bytes = Vec::new();
    bench.stream.write_snapshot(&mut bytes);
    let mut again = short_segments();
    again.files = bench.files;
    again.stream = Stream::read_snapshot(&bytes).expect("a snapshot");
    again.stream.recover(|segment| (segment > 2).then_some(1000), &mut again.common);
    again.batch(3000, &[b"more"]);
    assert_eq!(again.stream.first_offset(), 0);
    let reader = attach(&mut again, From::First);
    assert_eq!(again.read_all(reader), [12, 15, 18, 21, 24, 27, 30]);
}

#[test]
fn a_snapshot_of_any_bytes_costs_little() {
    let mut bench = short_segments();
    fill(&mut bench);
    bench.publish(2000, b"p", &[(5, b"a", b"")]);
    assert_eq!(bench.stream.store_offset(b"c", 12, None, &bench.common), Storing::Stored);
    let mut bytes = Vec::new();
    bench.stream.write_snapshot(&mut bytes);
    for at in 0..bytes.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut harmed = bytes.clone();
            harmed[at] = byte;
            if let Ok(mut stream) = Stream::read_snapshot(&harmed) {
                let mut common = queue::stream::Common::new(Limits::default());
                stream.recover(|_| None, &mut common);
                assert!(stream.segments().count() <= 6);
            }
        }
    }
}

/// However small segments are to be, only the first few are, unless retention keeps them few.
#[test]
fn a_stream_of_small_segments_has_few_of_them() {
    let limits = Limits { small_segments_max: 8, segment_bytes_min: 2000, ..Limits::default() };
    for segment_bytes_max in [0, 1, 100, 500] {
        let settings = Settings { segment_bytes_max, ..Settings::default() };
        let mut bench = Bench::new(settings, limits);
        let mut bytes = 0;
        for batch in 0..500 {
            bench.batch(1000 + batch, &[b"message"]);
            bytes = bench.stream.segments().map(|segment| segment.bytes).sum();
        }
        let count = bench.stream.segments().count() as u64;
        assert!(count > 8 && count <= 8 + bytes / 2000 + 1, "{count} segments of {bytes} bytes");
        let first: Vec<u64> = bench.stream.segments().take(7).map(|segment| segment.bytes).collect();
        assert!(first.iter().all(|bytes| *bytes < segment_bytes_max + 200), "{first:?}");
        // All is there.
        let reader = attach(&mut bench, From::First);
        bench.write();
        let _ = reader;
        assert_eq!(bench.stream.next_offset(), 500);
    }
    // Segments that are let go make room for small ones again.
    let settings = Settings { segment_bytes_max: 1, bytes_max: Some(300), ..Settings::default() };
    let mut bench = Bench::new(settings, limits);
    (0..500).for_each(|batch| bench.batch(1000 + batch, &[b"message"]));
    let sizes: Vec<u64> = bench.stream.segments().map(|segment| segment.bytes).collect();
    assert!(sizes.len() <= 8 && sizes.iter().sum::<u64>() < 600, "{sizes:?}");
}
