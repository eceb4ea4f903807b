use super::*;
use base::id::QueueId;
use base::{Buffer, Pieces};
use journal::{Batch, FaultyDisk, Limits, Start};
use queue::stream::{Common, Settings, Stream};

/// One with so many files, a batch in each.
fn journal_of(disk: &FaultyDisk, files: u64) -> Journal {
    let limits = Limits { file_bytes: 1 << 20, first_file_bytes: 1 << 20, ..Limits::default() };
    let start = Start { secret: 7, from: FileId(0), keep: FileId(0) };
    let mut journal = Journal::open(disk, limits, start, &mut |_| {}).expect("opens").0;
    for number in 0..files {
        let mut batch = Batch::new(LogId(1), LogIndex(number * 64), Buffer::default());
        batch.records().extend(&[1; 64]);
        journal.write(disk, &[batch.seal(0)], &mut Vec::new()).expect("written");
        journal.roll();
    }
    journal
}

#[test]
fn what_lives_in_the_file_left_last_is_not_moved_yet() {
    let disk = FaultyDisk::new(5);
    let journal = journal_of(&disk, 3);
    let check = |kept: usize, expected: Option<u64>| {
        assert_eq!(bounds(&journal, kept).get(&LogId(1)).copied(), expected.map(LogIndex), "{kept} rest");
    };
    check(0, Some(128));
    check(RESTING_FILES, Some(64));
    check(2, None);
    check(9, None);
}

const STREAM: QueueId = QueueId(3);

/// A house in which nobody but the test answers.
pub(crate) struct Bench {
    disk: FaultyDisk,
    journal: Journal,
    findings: Vec<Finding>,
    spares: u32,
    room: u64,
}

impl Bench {
    /// One over a disk and the journal on it.
    pub(crate) fn over(disk: FaultyDisk, journal: Journal) -> Bench {
        Bench { disk, journal, findings: Vec::new(), spares: 0, room: u64::MAX }
    }
}

impl House for Bench {
    fn disk(&self) -> &dyn Disk {
        &self.disk
    }

    fn with_journal(&mut self, work: &mut dyn FnMut(&mut Journal)) {
        work(&mut self.journal);
    }

    fn note(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    fn room_to_move(&mut self) -> Result<u64, DiskError> {
        Ok(self.room)
    }

    fn give_up_spare(&mut self) -> bool {
        let has_spare = self.spares > 0;
        self.spares -= u32::from(has_spare);
        has_spare
    }

    fn has_waited_for_writes(&mut self) -> bool {
        true
    }
}

/// The snapshot of a log that no other node has.
fn alone(state: LogSnapshot) -> Box<Snapped> {
    Box::new(Snapped { state, replica: None, is_installed: false })
}

/// A keeper of so many logs on one shard, where two files were left.
fn bench(logs: u32) -> (Keeper, Bench) {
    let disk = FaultyDisk::new(6);
    let journal = journal_of(&disk, 2);
    let placement = Placement { shards: 1, logs };
    let keeper =
        Keeper::new(&disk, &journal, placement, Snapshots::default(), None, NodeNo::ONLY).expect("reads");
    (keeper, Bench::over(disk, journal))
}

/// Goes on to the next question of a round; `None`: the round is over.
fn next_question(keeper: &mut Keeper, house: &mut Bench) -> Option<Errand> {
    loop {
        match keeper.step(house).expect("no failure") {
            Next::Step => {}
            Next::Ask(_, errand) => return Some(errand),
            Next::Over => return None,
        }
    }
}

#[test]
fn what_a_shard_gave_too_late_is_given_back_and_asked_for_again() {
    let (mut keeper, mut house) = bench(1);
    let (mut stream, mut common) =
        (Stream::new(Settings::default()), Common::new(queue::stream::Limits::default()));
    let mut effects = Vec::new();
    stream.push_message(1, &[b"a"], b"", &mut common, &mut effects);
    stream.close(1, &mut common, &mut effects);
    assert!(keeper.begin(&mut house, false));
    let Some(Errand::Snapshot(log)) = next_question(&mut keeper, &mut house) else { panic!("one errand") };
    keeper.give_up();
    assert!(!keeper.begin(&mut house, false), "a shard that owes an answer is asked nothing");
    let work = stream.take_sync().expect("it is in memory alone");
    let snapshot = LogSnapshot { log, covered: LogIndex(0), bytes: Pieces::default() };
    let jobs = vec![StreamJob { log, stream: STREAM, work }];
    keeper.answer(Answer::Snapshot(Some((alone(snapshot), jobs))));
    stream.end(&mut common, &mut effects);
    assert!(!stream.is_idle(), "its files are kept for the sync");
    assert!(keeper.begin(&mut house, false), "the round is done again");
    let Some(Errand::Streamed(done)) = next_question(&mut keeper, &mut house) else {
        panic!("first the shard hears of its job")
    };
    keeper.answer(Answer::Done);
    assert_eq!((done.log, done.stream), (log, STREAM));
    assert!(!done.is_durable() && !done.lacks_space());
    assert_eq!(done.failure(), None);
    stream.done(done.done, &mut common, &mut effects);
    assert!(stream.is_idle(), "its files may go");
    assert!(matches!(next_question(&mut keeper, &mut house), Some(Errand::Snapshot(_))));
}

#[test]
fn an_errand_goes_where_its_log_is() {
    let (mut keeper, mut house) = bench(1);
    assert!(keeper.begin(&mut house, false));
    let asked = |keeper: &mut Keeper, house: &mut Bench| match keeper.step(house) {
        Ok(Next::Ask(shard, errand)) => (shard.0, errand),
        other => panic!("{other:?}"),
    };
    let (shard, errand) = asked(&mut keeper, &mut house);
    assert!(shard == 0 && matches!(errand, Errand::Snapshot(_)));
    keeper.answer(Answer::Elsewhere(ShardId(3), errand));
    let (shard, errand) = asked(&mut keeper, &mut house);
    assert!(shard == 3 && matches!(errand, Errand::Snapshot(_)));
    // One that was given up is not asked again; what a shard must hear it hears, and where its log is then.
    keeper.give_up();
    keeper.answer(Answer::Elsewhere(ShardId(1), errand));
    assert!(keeper.begin(&mut house, false));
    let snapshot = LogSnapshot { log: LogId(0), covered: LogIndex(0), bytes: Pieces::default() };
    assert_eq!(asked(&mut keeper, &mut house).0, 1);
    keeper.answer(Answer::Snapshot(Some((alone(snapshot), Vec::new()))));
    let Some(kept @ Errand::Kept(_)) = next_question(&mut keeper, &mut house) else {
        panic!("it is written")
    };
    keeper.give_up();
    keeper.answer(Answer::Elsewhere(ShardId(2), kept));
    assert!(keeper.begin(&mut house, false));
    let (shard, errand) = asked(&mut keeper, &mut house);
    assert!(shard == 2 && matches!(errand, Errand::Kept(_)));
    keeper.answer(Answer::Done);
    assert!(matches!(asked(&mut keeper, &mut house), (2, Errand::Snapshot(_))));
}

#[test]
fn segments_that_a_shard_tells_too_late_are_removed_all_the_same() {
    let (mut keeper, mut house) = bench(0);
    let segment = FileName::new(FileKind::Segment, 7);
    house.disk.create(segment, 4096).expect("made");
    for dead in [vec![7], Vec::new()] {
        assert!(keeper.begin(&mut house, false));
        assert!(matches!(next_question(&mut keeper, &mut house), Some(Errand::Dead)));
        keeper.give_up();
        keeper.answer(Answer::Dead(dead));
    }
    assert_eq!(house.disk.list(FileKind::Segment), Ok(vec![segment]), "a snapshot may still know it");
    keeper.begin(&mut house, false);
    next_question(&mut keeper, &mut house);
    assert_eq!(house.disk.list(FileKind::Segment), Ok(vec![]));
}

#[test]
fn a_shard_that_is_gone_is_asked_again_by_the_next_round() {
    let (mut keeper, mut house) = bench(0);
    keeper.begin(&mut house, false);
    next_question(&mut keeper, &mut house);
    keeper.give_up();
    assert!(keeper.is_late() && !keeper.begin(&mut house, false));
    keeper.forget();
    assert!(keeper.begin(&mut house, false));
}

/// A round in which a snapshot cannot be written for want of space; the number of questions.
fn full_round(keeper: &mut Keeper, house: &mut Bench, is_tight: bool) -> Option<u32> {
    let mut asked = keeper.begin(house, is_tight).then_some(0)?;
    while let Some(errand) = next_question(keeper, house) {
        asked += 1;
        let snapshot = |log| LogSnapshot { log, covered: LogIndex(0), bytes: Pieces::default() };
        let answer = match errand {
            Errand::Snapshot(log) => Answer::Snapshot(Some((alone(snapshot(log)), Vec::new()))),
            Errand::Dead => Answer::Dead(Vec::new()),
            Errand::List(..) => Answer::Listed(None),
            Errand::Point(_) | Errand::Streamed(_) | Errand::Kept(_) => Answer::Done,
            other => panic!("{other:?} is for logs that other nodes have too"),
        };
        keeper.answer(answer);
    }
    Some(asked)
}

#[test]
fn a_round_without_space_gives_up_a_spare_file_then_waits_and_tells_once() {
    let (mut keeper, mut house) = bench(1);
    house.spares = 1;
    house.disk.set_capacity(house.disk.used_bytes());
    assert_eq!(full_round(&mut keeper, &mut house, false), Some(2), "asked again once a file was given up");
    assert!(keeper.is_behind() && house.spares == 0);
    assert_eq!(house.findings, [Finding::NoSpace]);
    // Nothing was written since: the next tries are spared.
    let tries = (0..WAITS_MAX).filter(|_| full_round(&mut keeper, &mut house, false).is_some()).count();
    assert_eq!((tries, house.findings.len()), (1, 1));
    keeper.give_up();
    assert!(keeper.is_behind(), "what was found before a shard was silent stays found");
    house.disk.set_capacity(u64::MAX);
    assert!(full_round(&mut keeper, &mut house, false).is_some());
    assert!(!keeper.is_behind());
}

/// Nodes that ask and ask for states that are not to be had do not keep a node from its own house.
#[test]
fn states_for_others_and_rounds_take_turns() {
    let (mut keeper, mut house) = bench(1);
    let ask = |keeper: &mut Keeper, house: &mut Bench| {
        let what = What::Ask { least: EntryId { term: 1, index: 1 } };
        keeper.hear(NodeNo(2), Fetch { log: LogId(0), what });
        keeper.talk(Now::at_ms(1), house, &mut Vec::new()).unwrap();
    };
    let mut gave = 0;
    for _ in 0..2 {
        ask(&mut keeper, &mut house);
        assert!(keeper.begin(&mut house, false));
        match next_question(&mut keeper, &mut house) {
            Some(Errand::Give(LogId(0))) => {
                gave += 1;
                keeper.answer(Answer::Given(None));
                assert!(next_question(&mut keeper, &mut house).is_none());
            }
            Some(Errand::Snapshot(LogId(0))) => return assert_eq!(gave, 1),
            other => panic!("{other:?}"),
        }
    }
    panic!("a round was due");
}
