//! Client against server over a real socket.

use ctl::{Limits, Refusal, Request, client, exit, server};
use serde_json::json;
use std::cell::Cell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("leveret-ctl-{}-{name}.sock", std::process::id()))
}

/// Serves until a ping comes, while `talk` talks.
fn with_server(name: &str, limits: Limits, talk: impl FnOnce(&PathBuf)) {
    let path = socket(name);
    let listener = server::listen(&path).expect("listens");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            server::serve(
                &listener,
                &limits,
                || false,
                |request| match request {
                    Request::Ping => None,
                    Request::ListQueues { vhost, .. } if vhost == "/" => Some(Ok(json!([{ "name": "q" }]))),
                    other => Some(Err(Refusal { code: exit::DATA, message: format!("{other:?}") })),
                },
            );
        });
        talk(&path);
        server::wake(&path).expect("wakes");
    });
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn answers_and_refusals_arrive() {
    with_server("answers", Limits::default(), |path| {
        let ask = |request: Request| client::ask(path, &Limits::default(), &request);
        assert_eq!(
            ask(Request::ListQueues { vhost: "/".into(), columns: vec!["name".into()] }),
            Ok(json!([{ "name": "q" }]))
        );
        let refusal = ask(Request::ListConnections).expect_err("refused");
        assert_eq!((refusal.code, refusal.message.as_str()), (exit::DATA, "ListConnections"));
    });
}

#[test]
fn hostile_peers_leave_the_server_serving() {
    let limits = Limits { request_bytes_max: 100, silence_ms_max: 200, ..Limits::default() };
    with_server("hostile", limits, |path| {
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
        let answer = client::ask(
            path,
            &Limits::default(),
            &Request::ListQueues { vhost: "/".into(), columns: vec!["name".into()] },
        );
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
        let looks = Cell::new(0);
        let is_over = || looks.replace(looks.get() + 1) >= 2;
        let limits = Limits { silence_ms_max: 3_600_000, ..Limits::default() };
        server::serve(&listener, &limits, is_over, |_| Some(Ok(json!("x".repeat(8 << 20)))));
    };
    check(b"");
    check(b"{");
    check(b"{\"request\":\"list_users\"}\n");
    std::fs::remove_file(&path).expect("removed");
}
