//! The load generator against a broker that it starts itself, for loads that need the stream protocol: each runs, small, to its end.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the shell, where these live"
)]

use std::process::{Command, Output};

/// Runs `leveret bench` with a line of arguments; what it said.
fn bench(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    command.arg("bench").args(line.split(' ')).args(["--folder", env!("CARGO_TARGET_TMPDIR")]);
    command.output().expect("starts")
}

/// Runs a load, which is to keep its promises, and says what its report has to say.
fn check(line: &str, words: &[&str]) {
    let output = bench(line);
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{line}: {said}{complained}");
    for word in words {
        assert!(said.contains(word), "{line}: no {word:?} in {said}");
    }
}

/// A whole number of a report in JSON, the first of that name.
fn number(report: &str, name: &str) -> u64 {
    let (_, rest) = report.split_once(&format!("\"{name}\":")).unwrap_or_default();
    rest.split([',', '}']).next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[test]
fn every_reader_of_a_stream_gets_all_of_it() {
    check(
        "stream-fan-out -n 20000 --readers 1,7",
        &["native stream 12 B, 7 readers", "% of its rate with 1", "; memory grew by "],
    );
    check("stream-fan-out -n 1000 --readers 3 --size 300 --json", &["\"consumed\":3000"]);
}

#[test]
fn small_chunks_are_read_over_both_protocols_with_and_without_reading_ahead() {
    let words = ["native ahead/s", "0-9-1 ahead/s", "native not ahead/s", "0-9-1 not ahead/s"];
    check("stream-small-chunks --chunks 1,7 --size 12,300 --bytes 100000", &words);
    // One frame is one chunk.
    let output = bench("stream-small-chunks --chunks 3 --size 48 --bytes 20000 --protocol stream --json");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        (number(&said, "chunks") * 3, number(&said, "chunks") > 10),
        (number(&said, "messages"), true),
        "{said}"
    );
}

#[test]
fn a_large_stream_is_replayed_to_several_readers() {
    check(
        "stream-replay --bytes 20000000 --readers 1,3 --runs 2 --argument x-stream-max-segment-size-bytes=1000000",
        &["1000 B, 1 reader ", "1000 B, 3 readers ", "CPU us/MB"],
    );
    // All of it, to each.
    let output = bench("stream-replay --bytes 3000000 --size 20000 --readers 2 --json");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("\"readers\":2,\"messages\":148,"), "{said}");
}

#[test]
fn a_large_stream_is_attached_to_and_shortened() {
    // Much more than its publisher writes until the files are gone: otherwise the folder never shrinks, and that is waited for.
    let output =
        bench("stream-large --bytes 200000000 --argument x-stream-max-segment-size-bytes=10000000 --json");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!((number(&said, "messages"), number(&said, "deleted") > 50_000_000), (197_600, true), "{said}");
    for word in ["\"at\":\"timestamp\"", "\"restart_ms\":", "\"steady\":{", "\"deleting\":{"] {
        assert!(said.contains(word), "no {word:?} in {said}");
    }
}

#[test]
fn a_load_is_told_beside_a_tenant() {
    check(
        "tenants --seconds 2 --rate 100",
        &["confirm p50 us", "alone, run 1", "beside a tenant, run 1", "broker CPU", " %  "],
    );
    // Nothing of the tenant's is refused, and all of the other's comes.
    let output = bench("tenants --seconds 1 --rate 50 --tenant-connections 2 --transient --json");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("\"connections\":2,") && said.contains("\"refused\":0,\"seconds\":"), "{said}");
}
