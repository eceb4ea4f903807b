//! A thousand seeds, that a seed gives the same run twice, and the seeds that once found something.

use sim::{Outcome, Plan, Tally, run};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

/// Seeds that run with every test run; by hand it runs as many as one likes.
const SEEDS: u64 = 1000;

/// From this one on they are rich.
const RICH_FROM: u64 = 401;

/// From this one on they are wide.
const WIDE_FROM: u64 = 701;

fn complain(outcome: &Outcome) -> Option<String> {
    let failure = outcome.failure.as_ref()?;
    Some(format!("{}\nseed {}: {}", failure.trace.join("\n"), outcome.seed, failure.why))
}

/// Runs of more consumers' names of stored offsets than streams keep.
const CROWDED_SEEDS: u64 = 100;

/// Runs seeds from 1 on, each under its plan, and none may fail.
fn run_all(seeds: u64, plan: impl Fn(u64) -> Plan + Sync) -> Tally {
    let (next, plan) = (AtomicU64::new(1), &plan);
    let (sender, receiver) = channel();
    let mut tally = Tally::default();
    let mut complaints = Vec::new();
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |cores| cores.get()) {
            let (next, sender) = (&next, sender.clone());
            threads.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds || sender.send(run(seed, plan(seed))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for outcome in receiver {
            tally.add(&outcome.tally);
            complaints.extend(complain(&outcome));
        }
    });
    assert!(complaints.is_empty(), "{}\n{} seeds failed", complaints[0], complaints.len());
    tally
}

#[test]
fn a_thousand_seeds() {
    let tally = run_all(SEEDS, |seed| {
        let (wide, rich) = (seed >= WIDE_FROM, seed >= RICH_FROM);
        let streams = rich && seed % 2 == 0;
        Plan { wide, rich, limits: rich, streams, picks: rich, ..Plan::default() }
    });
    // Each of these is a way for the simulation to have seen nothing.
    let Tally { published, confirmed, delivered, crashes, stops, full, .. } = tally;
    let Tally { commits, rollbacks, begun, replies, managed, .. } = tally;
    let Tally { refused, buried, expired, noted, .. } = tally;
    assert!([refused, buried, expired].iter().all(|count| *count > SEEDS) && noted > SEEDS / 10, "{tally:?}");
    let done = [published, confirmed, delivered, crashes, stops, full, commits];
    assert!(
        done.iter().all(|count| *count > SEEDS / 2)
            && rollbacks.min(begun).min(managed) > SEEDS / 10
            && replies > SEEDS / 20,
        "{tally:?}"
    );
    let Tally { delayed, shown, postponed, cancelled, taken_back, chosen, .. } = tally;
    assert!(delayed.min(shown) > SEEDS && postponed.min(cancelled) > SEEDS / 50, "{tally:?}");
    assert!(taken_back > SEEDS / 200 && chosen > SEEDS, "{tally:?}");
    let Tally { stream_published, stream_confirmed, stream_delivered, republished, .. } = tally;
    let Tally { chunks, offsets_told, torn, fed, outlived, .. } = tally;
    let done = [stream_published, stream_confirmed, stream_delivered, chunks];
    assert!(done.iter().all(|count| *count > SEEDS * 5), "{tally:?}");
    assert!(republished > SEEDS / 5 && offsets_told > SEEDS && torn > 0, "{tally:?}");
    assert!(fed > SEEDS && outlived > SEEDS / 10, "{tally:?}");
    let Tally { rotten, rolls, moves, reads, bulk, limits, .. } = tally;
    assert!(limits > SEEDS / 20, "{tally:?}");
    assert!([rolls, moves, reads, bulk].iter().all(|count| *count > SEEDS) && rotten > 0, "{tally:?}");
}

/// Runs of logs that others have to agree on, which are led now and then by nobody.
const AGREED_SEEDS: u64 = 200;

#[test]
fn logs_are_the_same_in_leader_and_replica() {
    let tally = run_all(AGREED_SEEDS, |seed| {
        let rich = seed % 2 == 0;
        let wide = seed % 4 == 0;
        let hands = seed % 8 >= 4;
        Plan { double: true, wide, rich, limits: rich, streams: rich, picks: rich, hands, ..Plan::default() }
    });
    let Tally { begun_anew, handed, .. } = tally;
    assert!(begun_anew > AGREED_SEEDS && handed > AGREED_SEEDS / 2, "{tally:?}");
    let Tally { compared, resigned, after_all, confirmed, delivered, crashes, .. } = tally;
    assert!(compared > AGREED_SEEDS * 20 && resigned > AGREED_SEEDS / 4, "{tally:?}");
    assert!(after_all > AGREED_SEEDS / 20, "{tally:?}");
    assert!(confirmed.min(delivered) > AGREED_SEEDS && crashes > AGREED_SEEDS / 2, "{tally:?}");
}

/// Runs in which logs go from shard to shard, of all kinds.
const HANDED_SEEDS: u64 = 400;

#[test]
fn logs_go_from_shard_to_shard_at_any_moment() {
    let tally = run_all(HANDED_SEEDS, |seed| {
        let (wide, rich) = (seed % 4 >= 2, seed % 2 == 1);
        Plan { wide, rich, limits: rich, streams: rich, picks: rich, hands: true, ..Plan::default() }
    });
    let Tally { handed, crashes, stops, full, chunks, fed, .. } = tally;
    assert!(handed >= 1000, "{tally:?}");
    assert!(crashes.min(full) > HANDED_SEEDS && stops.min(chunks).min(fed) > HANDED_SEEDS / 2, "{tally:?}");
}

#[test]
fn nobodys_offset_goes_for_what_others_store() {
    let plan = Plan { rich: true, streams: true, crowds: true, ..Plan::default() };
    let tally = run_all(CROWDED_SEEDS, |seed| Plan { wide: seed % 4 == 0, ..plan });
    let Tally { crowded, driven_out, offsets_told, crashes, .. } = tally;
    assert!(crowded > CROWDED_SEEDS * 50 && driven_out > CROWDED_SEEDS / 20, "{tally:?}");
    assert!(offsets_told > CROWDED_SEEDS * 10 && crashes > CROWDED_SEEDS / 2, "{tally:?}");
}

/// Runs with barriers and many consumers.
const BARRIER_SEEDS: u64 = 200;

#[test]
fn barriers_reach_all_consumers_in_their_place() {
    let plan = Plan { barriers: true, hands: true, ..Plan::default() };
    let tally = run_all(BARRIER_SEEDS, |seed| Plan { wide: seed % 4 == 0, ..plan });
    let Tally { barriers, confirmed, delivered, crashes, .. } = tally;
    assert!(barriers > BARRIER_SEEDS * 20 && crashes > BARRIER_SEEDS / 10, "{tally:?}");
    assert!(confirmed.min(delivered) > BARRIER_SEEDS * 20, "{tally:?}");
}

/// Runs with a hostile tenant.
const HOSTILE_SEEDS: u64 = 200;

#[test]
fn a_hostile_tenant_takes_nothing_from_others() {
    let tally = run_all(HOSTILE_SEEDS, |seed| {
        let (rich, wide) = (seed % 2 == 0, seed % 8 == 0);
        Plan { hostile: true, rich, wide, limits: rich, hands: seed % 4 == 1, ..Plan::default() }
    });
    let Tally { hostile, held_back, confirmed, delivered, crashes, .. } = tally;
    assert!(hostile > HOSTILE_SEEDS * 100 && held_back > HOSTILE_SEEDS * 10, "{tally:?}");
    assert!(confirmed.min(delivered) > HOSTILE_SEEDS * 20 && crashes > HOSTILE_SEEDS / 2, "{tally:?}");
}

/// One run in some hundreds: whether one of the thousand is among them is chance.
#[test]
fn transactions_are_undone_in_some_runs() {
    let plan = Plan { rich: true, limits: true, picks: true, ..Plan::default() };
    let undone =
        (1..=10 * SEEDS).map(|seed| run(2 * SEEDS + seed, plan).tally.undone).find(|undone| *undone > 0);
    assert!(undone.is_some());
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 1..=20 {
        let plan = Plan { wide: seed > 10, rich: seed % 2 == 0, ..Plan::default() };
        assert_eq!(run(seed, plan), run(seed, plan), "seed {seed}");
    }
    assert_ne!(run(1, Plan::default()).trace_hash, run(2, Plan::default()).trace_hash);
}

/// Runs that once found a mistake, under the plan they found it with.
fn check(operations: u32, seeds: &[u64]) {
    check_plan(Plan { operations, ..Plan::default() }, seeds);
}

fn check_plan(plan: Plan, seeds: &[u64]) {
    for seed in seeds {
        let outcome = run(*seed, plan);
        if let Some(complaint) = complain(&outcome) {
            panic!("{complaint}");
        }
    }
}

#[test]
fn a_queue_deleted_in_the_replay_takes_nothing_off_batches_not_counted_yet() {
    check(150, &[10, 34, 150, 165]);
}

#[test]
fn what_dispatch_appends_is_applied_before_its_batch_is_sealed() {
    check(500, &[27, 108, 136, 163]);
}

#[test]
fn what_the_shard_has_not_heard_of_is_not_moved() {
    check(500, &[73, 64, 5124, 12_678]);
}

#[test]
fn a_crash_after_a_clean_start_marks_what_was_delivered() {
    check(500, &[10]);
}

#[test]
fn a_get_is_answered_though_its_queue_is_deleted() {
    check(500, &[7]);
}

#[test]
fn the_catalogs_snapshot_holds_only_what_is_on_disk() {
    check(500, &[360]);
}

#[test]
fn changes_of_transient_queues_go_on_where_the_catalog_shares_its_log() {
    check(500, &[392]);
}

#[test]
fn a_start_makes_the_names_durable_that_it_sees() {
    check(500, &[2730, 6339]);
}

#[test]
fn what_the_older_snapshot_needs_outlives_a_start() {
    check(500, &[4579]);
}

#[test]
fn a_log_whose_live_records_are_nowhere_is_stopped() {
    check(500, &[12_401]);
}

#[test]
fn whoever_is_closed_may_hear_late_of_what_another_has_by_now() {
    check(500, &[12_293]);
}

fn check_rich(seeds: &[u64]) {
    check_plan(Plan { rich: true, ..Plan::default() }, seeds);
}

#[test]
fn what_failed_too_often_dies_in_its_own_queue() {
    check_rich(&[374, 791, 1792, 2206, 3737]);
}

#[test]
fn what_is_due_after_a_start_ends_though_nobody_comes() {
    check_rich(&[526, 626, 872, 3793]);
}

#[test]
fn a_segment_that_died_while_the_node_came_up_goes_once() {
    check_rich(&[22501]);
}

#[test]
fn large_bodies_come_before_they_are_to_be_settled() {
    check_plan(Plan { rich: true, wide: true, ..Plan::default() }, &[31_047]);
}

#[test]
fn who_was_too_slow_may_see_a_delivery_after_the_one_that_followed_it() {
    check_plan(Plan { rich: true, ..Plan::default() }, &[109_546]);
}

#[test]
fn what_is_read_again_is_not_dropped_for_having_been_read_before() {
    check_rich(&[407]);
}

#[test]
fn a_limit_in_bytes_that_goes_for_a_moment_is_back() {
    check_plan(Plan { rich: true, limits: true, ..Plan::default() }, &[120]);
}

#[test]
fn a_queue_is_fed_once_its_own_record_is_on_disk() {
    let plan = Plan { rich: true, wide: true, limits: true, streams: true, ..Plan::default() };
    check_plan(plan, &[818, 2088, 3806, 3918, 4716]);
}

#[test]
fn what_a_start_did_not_find_does_not_come_back_with_the_next_write() {
    let plan = Plan { rich: true, limits: true, streams: true, picks: true, ..Plan::default() };
    check_plan(plan, &[72_974_557]);
}

#[test]
fn a_chunk_has_the_same_time_when_another_stream_of_its_batch_is_gone() {
    check_rich(&[3_003_317]);
}

#[test]
fn a_spare_file_whose_name_was_on_its_way_is_one_file() {
    check_plan(Plan { rich: true, wide: true, ..Plan::default() }, &[3_202_742]);
}

#[test]
fn damage_is_told_by_who_finds_it_though_the_log_leaves() {
    check_plan(with_hands(), &[25_782]);
}

/// The plan of the program's `--rich`.
fn with_hands() -> Plan {
    Plan { rich: true, limits: true, streams: true, picks: true, hands: true, ..Plan::default() }
}

#[test]
fn barriers_stand_beside_what_others_settle_pick_and_delay() {
    check_plan(with_hands(), &[1262, 6119, 7347, 9024, 11_562, 13_147]);
    check_plan(Plan { wide: true, ..with_hands() }, &[472, 634]);
}

#[test]
fn what_is_leased_and_cannot_be_read_ends_a_run() {
    check_plan(with_hands(), &[7518]);
}
