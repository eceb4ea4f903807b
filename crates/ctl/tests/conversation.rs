//! Client against server over a real socket.

use ctl::{Limits, Refusal, Request, client, exit, server};
use serde_json::json;
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
            server::serve(&listener, &limits, |request| match request {
                Request::Ping => None,
                Request::ListQueues { vhost } if vhost == "/" => Some(Ok(json!([{ "name": "q" }]))),
                other => Some(Err(Refusal { code: exit::DATA, message: format!("{other:?}") })),
            });
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
        assert_eq!(ask(Request::ListQueues { vhost: "/".into() }), Ok(json!([{ "name": "q" }])));
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
        let answer = client::ask(path, &Limits::default(), &Request::ListQueues { vhost: "/".into() });
        assert!(answer.is_ok(), "{answer:?}");
    });
}
