//! A client of the HTTP API that says just enough.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// `guest:guest`.
pub const GUEST: &str = "Z3Vlc3Q6Z3Vlc3Q=";

/// Status and answer.
pub fn ask(port: u16, user: &str, line: &str, body: &Value) -> (u16, Value) {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connects");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (method, path) = line.split_once(' ').expect("a method");
    let head = format!(
        "{method} /api/{path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Basic {user}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("sends");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("answers");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// The body of a page that anybody may read.
pub fn fetch(port: u16, path: &str) -> String {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connects");
    let head = format!("GET {path} HTTP/1.0\r\nhost: h\r\n\r\n");
    client.write_all(head.as_bytes()).expect("sends");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("answers");
    answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
}
