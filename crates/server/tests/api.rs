//! The management API of a running node.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the shell, where these live"
)]

mod harness;

use harness::{Folder, Node};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

/// `guest:guest`.
const GUEST: &str = "Z3Vlc3Q6Z3Vlc3Q=";

/// A node that serves the API.
fn start(folder: &Folder, more: &[&str]) -> (Node, u16) {
    let api = ["management.tcp.ip=127.0.0.1", "management.tcp.port=0"];
    let node = Node::start(&folder.0, &[&api, more].concat());
    let line = node.log.iter().find_map(|line| line.split_once("started HTTP listener on 127.0.0.1:"));
    let port = line.expect("listens").1.parse().expect("a port");
    (node, port)
}

/// Status and answer.
fn ask(port: u16, user: &str, line: &str, body: &Value) -> (u16, Value) {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connects");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (method, path) = line.split_once(' ').expect("a method");
    let head = format!(
        "{method} /api/{path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Basic {user}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("sends");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("answers");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[test]
fn a_refusal_that_ends_the_connection_is_told_at_once() {
    let folder = Folder::new();
    let (_node, port) = start(&folder, &["deprecated_features.permit.transient_nonexcl_queues=false"]);
    let begin = Instant::now();
    let (status, answer) = ask(port, GUEST, "PUT queues/%2F/q", &json!({"durable": false}));
    let reason = answer["reason"].as_str().expect("a text");
    assert!(status == 500 && reason.starts_with("541 INTERNAL_ERROR - Feature"), "{status} {answer}");
    // Whoever waits for more from a connection that is over gives up after ten seconds.
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
}
