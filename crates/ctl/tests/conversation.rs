//! Client against server over a real socket.
#![allow(clippy::disallowed_methods, reason = "a test of who waits, and for how long")]

use ctl::{Limits, Refusal, Request, client, exit, server};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("leveret-ctl-{}-{name}.sock", std::process::id()))
}

/// Serves while `talk` talks.
fn with_server(
    name: &str,
    limits: Limits,
    answer: impl Fn(Request) -> ctl::Answer + Sync,
    talk: impl FnOnce(&PathBuf),
) {
    let path = socket(name);
    let listener = server::listen(&path).expect("listens");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| server::serve(&listener, &limits, || is_over.load(Ordering::SeqCst), &answer));
        talk(&path);
        is_over.store(true, Ordering::SeqCst);
        server::wake(&path).expect("wakes");
    });
    std::fs::remove_file(&path).expect("removed");
}

fn of_lines(request: Request) -> ctl::Answer {
    match request {
        Request::LogTail { lines: 1 } => Ok(json!(["a line"])),
        other => Err(Refusal { code: exit::DATA, message: format!("{other:?}") }),
    }
}

fn last_line() -> Request {
    Request::LogTail { lines: 1 }
}

#[test]
fn answers_and_refusals_arrive() {
    with_server("answers", Limits::default(), of_lines, |path| {
        let ask = |request: Request| client::ask(path, &Limits::default(), None, &request);
        assert_eq!(ask(last_line()), Ok(json!(["a line"])));
        let refusal = ask(Request::Trim).expect_err("refused");
        assert_eq!((refusal.code, refusal.message.as_str()), (exit::DATA, "Trim"));
    });
}

#[test]
fn hostile_peers_leave_the_server_serving() {
    let limits = Limits { request_bytes_max: 100, silence_ms_max: 200, ..Limits::default() };
    with_server("hostile", limits, of_lines, |path| {
        let answer_to = |bytes: &[u8]| {
            let mut stream = UnixStream::connect(path).expect("connects");
            // The server may close before everything is written.
            let _ = stream.write_all(bytes);
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer
        };
        assert!(answer_to(b"{}\n").contains("not a request"));
        assert!(answer_to(b"\xff\xfe\n").contains("not a request"));
        // Too long, and never finished.
        assert!(answer_to(&[b'x'; 101]).contains("at most 100 bytes"));
        assert_eq!(answer_to(b"{"), "");
        drop(UnixStream::connect(path).expect("connects"));
        let answer = client::ask(path, &Limits::default(), None, &last_line());
        assert!(answer.is_ok(), "{answer:?}");
    });
}

#[test]
fn a_peer_that_is_silent_or_does_not_read_holds_up_no_end() {
    let path = socket("silent");
    let listener = server::listen(&path).expect("listens");
    let check = |request: &[u8]| {
        let mut peer = UnixStream::connect(&path).expect("connects");
        peer.write_all(request).expect("written");
        // It is over once the peer was taken and is waited for. With a limit of an hour only that ends it.
        let looks = AtomicUsize::new(0);
        let is_over = || looks.fetch_add(1, Ordering::SeqCst) >= 2;
        let limits = Limits { silence_ms_max: 3_600_000, ..Limits::default() };
        std::thread::scope(|threads| {
            threads.spawn(|| server::serve(&listener, &limits, is_over, |_| Ok(json!("x".repeat(8 << 20)))));
            while looks.load(Ordering::SeqCst) < 3 {
                std::thread::sleep(Duration::from_millis(10));
            }
            server::wake(&path).expect("wakes");
        });
    };
    check(b"");
    check(b"{");
    check(b"{\"request\":\"status\"}\n");
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn nobody_waits_for_anothers_answer() {
    let both = Barrier::new(2);
    let answer = |_| {
        // Two are answered at once, or none.
        both.wait();
        Ok(json!(null))
    };
    with_server("both", Limits::default(), answer, |path| {
        let ask = || client::ask(path, &Limits::default(), Some(20_000), &Request::Status);
        std::thread::scope(|threads| {
            let other = threads.spawn(ask);
            assert_eq!(ask(), Ok(json!(null)));
            assert_eq!(other.join().expect("ran"), Ok(json!(null)));
        });
    });
}

#[test]
fn so_many_talk_at_once() {
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let answer = |_| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(50));
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(json!(null))
    };
    let limits = Limits { conversations_max: 2, ..Limits::default() };
    with_server("many", limits, answer, |path| {
        std::thread::scope(|threads| {
            let ask = || client::ask(path, &Limits::default(), None, &Request::Status);
            let asking: Vec<_> = (0..6).map(|_| threads.spawn(ask)).collect();
            asking.into_iter().for_each(|own| assert_eq!(own.join().expect("ran"), Ok(json!(null))));
        });
    });
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[test]
fn an_answer_that_takes_long_is_waited_for_while_there_are_signs() {
    let answer = |_| {
        std::thread::sleep(Duration::from_millis(900));
        Ok(json!("done"))
    };
    let limits = Limits { sign_ms: 50, ..Limits::default() };
    with_server("signs", limits, answer, |path| {
        let short = Limits { silence_ms_max: 300, ..Limits::default() };
        assert_eq!(client::ask(path, &short, None, &Request::Status), Ok(json!("done")));
        // A caller with a time for all of it does not wait longer.
        let begun = Instant::now();
        let refusal = client::ask(path, &short, Some(300), &Request::Status).expect_err("too late");
        assert_eq!(refusal.code, exit::TEMPORARY, "{refusal:?}");
        assert!(begun.elapsed() < Duration::from_millis(800));
    });
    // Without signs it is given up.
    let limits = Limits { sign_ms: 60_000, ..Limits::default() };
    with_server("no-signs", limits, answer, |path| {
        let short = Limits { silence_ms_max: 300, ..Limits::default() };
        let refusal = client::ask(path, &short, None, &Request::Status).expect_err("silence");
        assert_eq!(refusal.code, exit::TEMPORARY, "{refusal:?}");
    });
}
