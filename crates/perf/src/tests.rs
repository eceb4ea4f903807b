//! Whole runs against the double: a good broker gets through, and the faults of a bad one are found.

use crate::double::{Double, Fault};
use crate::report::Report;
use crate::stamp::Findings;
use crate::{Bench, measure};
use clap::{Args, Command, FromArgMatches};

fn run(line: &str, fault: Option<Fault>) -> Result<Report, String> {
    let double = Double::start(fault);
    // A line that ends with a login lacks its host.
    let line =
        line.strip_suffix('@').map_or(line.to_owned(), |line| format!("{line}@127.0.0.1:{}", double.port));
    let line = format!("bench {line} --uri amqp://127.0.0.1:{} --stall-seconds 2", double.port);
    let command = Bench::augment_args(Command::new("bench"));
    let matches = command.try_get_matches_from(line.split_whitespace()).unwrap();
    measure(&Bench::from_arg_matches(&matches).unwrap())
}

/// Runs `line` and checks that everything came in each row.
fn check_clean(line: &str, rows: usize) {
    let report = run(line, None).unwrap_or_else(|why| panic!("{line}: {why}"));
    assert_eq!(report.rows.len(), rows, "{line}");
    assert!(!report.is_violation(), "{line}: {}", report.text());
    for row in &report.rows {
        let figures = &row.median;
        let is_building = figures.part == "build";
        let is_draining = figures.part == "drain";
        assert_eq!(figures.published, if is_draining { 0 } else { row.case.messages }, "{line}");
        assert_eq!(figures.consumed, if is_building { 0 } else { row.case.deliveries() }, "{line}");
        let has_confirms = row.case.confirm_window > 0 || line.contains("amqp10");
        assert_eq!(figures.confirmed, if has_confirms { figures.published } else { 0 }, "{line}");
        assert_eq!(figures.delivery.is_some(), !is_building && !is_draining, "{line}");
    }
}

#[test]
fn every_scenario_runs_over_both_protocols() {
    check_clean("classic-amqp091 -n 5000", 1);
    check_clean("classic-amqp10 -n 5000", 1);
    check_clean("quorum-amqp091 -n 5000 --runs 2 --warmup-runs 1", 1);
    check_clean("quorum-amqp10 -n 5000 --one-thread", 1);
    for protocol in ["amqp091", "amqp10"] {
        check_clean(&format!("fan-out -n 200 --queues 1,7 --protocol {protocol}"), 2);
        check_clean(&format!("many-queues -n 1000 --queues 300 --protocol {protocol}"), 1);
        check_clean(&format!("backlog -n 3000 --queues 1,10 --protocol {protocol}"), 4);
        check_clean(&format!("trickle -n 200 --rate 2000 --protocol {protocol} --queue-type quorum"), 1);
        check_clean(
            &format!("fsync-bound -n 100 --size 12,5000,300000 --publishers 1,3 --protocol {protocol}"),
            12,
        );
    }
}

#[test]
fn options_bound_and_spread_the_load() {
    check_clean("classic-amqp091 -n 5000 --confirm-window 0 --prefetch 0 --ack-every 10 --transient", 1);
    check_clean("classic-amqp091 -n 5000 --publishers 3 --consumers 2 --lead 300", 1);
    check_clean("classic-amqp10 -n 5000 --publishers 2 --consumers 3 --lead 300 --one-thread", 1);
    check_clean("classic-amqp091 -n 1000 --placement same --shards 3 --queue named", 1);
    check_clean("classic-amqp10 -n 1000 --placement spread --shards 4", 1);
}

#[test]
fn messages_have_priorities_and_queues_arguments() {
    for protocol in ["amqp091", "amqp10"] {
        let more = "--priorities 3 --argument x-max-priority=5 --argument x-message-ttl=600000";
        check_clean(&format!("fan-out -n 500 --queues 2 --protocol {protocol} {more}"), 1);
    }
}

#[test]
fn consumers_that_come_later_drain_what_was_built() {
    for protocol in ["amqp091", "amqp10"] {
        let line =
            format!("backlog-drain --seconds 1 --rate 400 --size 500 --consumers 3 --protocol {protocol}");
        let report = run(&line, None).unwrap();
        let figures = &report.rows[0].median;
        assert_eq!((figures.confirmed, figures.consumed), (figures.published, figures.published), "{line}");
        // A second of building, and at most ten of draining; a busy machine may miss some of it.
        assert!((100..4400).contains(&figures.published), "{line}: {} published", figures.published);
        assert!(!figures.findings.is_violation(), "{line}: {}", report.text());
        let verdict = figures.verdict.as_ref().expect("a drain is judged");
        assert!(verdict.text.contains(", drained in "), "{line}: {}", verdict.text);
        assert!(report.text().contains(&verdict.text), "{line}");
    }
}

#[test]
fn what_is_not_held_fails_the_run() {
    let mut report = run("classic-amqp091 -n 100", None).unwrap();
    for (is_held, is_violation) in [(None, false), (Some(true), false), (Some(false), true)] {
        report.rows[0].runs[0].verdict = Some(crate::trial::Verdict { text: "said".to_owned(), is_held });
        assert_eq!((report.is_violation(), report.text().contains("said")), (is_violation, true));
    }
}

#[test]
fn a_paced_load_keeps_its_pace() {
    let report = run("trickle -n 1000 --rate 2000 --protocol amqp091 --queue-type classic", None).unwrap();
    let rate = report.rows[0].median.in_per_second;
    // A busy machine may be late; nobody is early.
    assert!((500.0..2100.0).contains(&rate), "{rate} messages per second");
}

#[test]
fn what_a_bad_broker_does_is_found() {
    let none = Findings::default();
    for name in ["classic-amqp091", "classic-amqp10"] {
        for (fault, expected) in [
            (Fault::Double(500), Findings { duplicated: 1, out_of_order: 1, ..none }),
            (Fault::Swap(500), Findings { out_of_order: 1, ..none }),
            (Fault::Cut(500), Findings { lost: 1, foreign: 1, ..none }),
        ] {
            // The double sends one delivery more than is due, or one that does not count.
            let report = run(&format!("{name} -n 1000"), Some(fault)).unwrap();
            let findings = report.rows[0].median.findings;
            assert!(report.is_violation(), "{name} {fault:?}: {findings:?}");
            let found = Findings { left_over: 0, lost: findings.lost.min(expected.lost), ..findings };
            assert_eq!(found, expected, "{name} {fault:?}");
        }
        for fault in [Fault::Lose(500), Fault::Refuse(500)] {
            let why = run(&format!("{name} -n 1000"), Some(fault)).unwrap_err();
            assert!(
                why.contains("nothing moved for 2 s") && why.contains("delivered 999"),
                "{fault:?}: {why}"
            );
        }
        let why = run(&format!("{name} -n 1000"), Some(Fault::Hang(500))).unwrap_err();
        assert!(why.contains("the broker closed the connection") || why.contains("broke"), "{why}");
    }
}

#[test]
fn a_marked_redelivery_is_no_violation() {
    for name in ["classic-amqp091", "classic-amqp10"] {
        let report = run(&format!("{name} -n 1000"), Some(Fault::Redeliver(500))).unwrap();
        let findings = report.rows[0].median.findings;
        assert_eq!((findings.redelivered, findings.duplicated, findings.out_of_order), (1, 0, 0), "{name}");
    }
}

#[test]
fn idle_connections_are_held() {
    let report =
        run("connections -n 150 --idle-seconds 3 --heartbeat 1 --client-threads 3 --clients 1", None)
            .unwrap();
    assert_eq!(
        report.idle.iter().map(|idle| (idle.connections, idle.dropped)).collect::<Vec<_>>(),
        [(150, 0); 2]
    );
    assert!(!report.is_violation());
}

#[test]
fn a_load_is_measured_alone_and_beside_a_tenant() {
    for more in ["--protocol amqp091 --runs 2 --warmup-runs 1", "--protocol amqp10 --tenant-connections 1"] {
        let report = run(&format!("tenants --seconds 1 --rate 100 {more} --tenant amqp://shop:x@"), None);
        let report = report.unwrap_or_else(|why| panic!("{more}: {why}"));
        assert!(!report.is_violation(), "{more}: {}", report.text());
        assert_eq!(report.tenants.len(), if more.contains("--runs 2") { 4 } else { 2 }, "{more}");
        for (at, beside) in report.tenants.iter().enumerate() {
            let figures = &beside.figures;
            // A busy machine may miss some of the second.
            assert!((30..=100).contains(&figures.published), "{more}: {} published", figures.published);
            assert_eq!(
                (figures.confirmed, figures.consumed),
                (figures.published, figures.published),
                "{more}"
            );
            assert!(figures.delivery.is_some() && figures.confirm.is_some(), "{more}");
            assert_eq!(beside.tenant.is_some(), at % 2 == 1, "{more}");
            assert!(beside.tenant.as_ref().is_none_or(|tenant| tenant.confirmed > 100), "{more}");
        }
        for word in ["alone", "beside a tenant", "confirm p50", "longest"] {
            assert!(report.text().contains(word), "{word}: {}", report.text());
        }
    }
    let why = run("tenants --seconds 1 --tenant amqp://shop:x@", Some(Fault::Hang(250))).unwrap_err();
    assert!(why.starts_with("the tenant: "), "{why}");
}

#[test]
fn the_report_is_one_json_object() {
    let report = run("classic-amqp091 -n 1000", None).unwrap();
    let value: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(value["rows"][0]["median"]["published"], 1000);
    assert_eq!(value["rows"][0]["case"]["protocol"], "amqp091");
    assert!(report.text().contains("0-9-1 classic 12 B"));
}
