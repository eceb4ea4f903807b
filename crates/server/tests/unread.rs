//! The real binary, and a peer that asks for much and reads nothing for a while: the messages stay on disk until then.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the shell, where these live"
)]

mod harness;

use harness::{Client, DURABLE, Folder, Node, PATIENCE, frame, long, method, of_connection, short};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

const MESSAGES: u32 = 600;
const BODY_BYTES: usize = 256 << 10;

/// Bytes by which the node may grow, of the 150 MiB that are asked for.
const GROWTH_BYTES_MAX: u64 = 50 << 20;

/// How long nothing is read.
const SILENCE: Duration = Duration::from_secs(2);

/// Bytes of the node that are in memory.
fn resident(node: &Node) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.child.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says so");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Fills a queue: each message begins with its number.
fn fill(client: &mut Client, queue: &str) {
    client.send(&method(85, 10, &[0]));
    client.until(85, 11);
    let head = [&[0, 60, 0, 0][..], &(BODY_BYTES as u64).to_be_bytes(), &[0, 0]].concat();
    let publish = method(60, 40, &[&[0, 0], &short("")[..], &short(queue), &[0]].concat());
    for number in 0..MESSAGES {
        let body = [&number.to_be_bytes()[..], &[b'x'; BODY_BYTES - 4]].concat();
        let pieces = body.chunks(100_000).flat_map(|piece| frame(3, piece));
        client.send(&[publish.clone(), frame(2, &head), pieces.collect()].concat());
        client.until(60, 80);
    }
}

/// A WebSocket, as simple as can be: every mask is zero.
struct Web {
    stream: TcpStream,
    /// Bytes left of the frame that is being read.
    left: u64,
}

impl Web {
    fn open(port: u16) -> Web {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let request = "GET /ws HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Protocol: amqp\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sends");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a byte");
            answer.extend(byte);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
        Web { stream, left: 0 }
    }

    fn number(&mut self, bytes: usize) -> std::io::Result<u64> {
        let mut number = [0; 8];
        self.stream.read_exact(&mut number[8 - bytes..])?;
        Ok(u64::from_be_bytes(number))
    }
}

impl Read for Web {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.left == 0 {
            self.left = match self.number(2)? & 0x7F {
                126 => self.number(2)?,
                127 => self.number(8)?,
                left => left,
            };
        }
        let count = self.left.min(into.len() as u64) as usize;
        let count = self.stream.read(&mut into[..count])?;
        self.left -= count as u64;
        Ok(count)
    }
}

impl Write for Web {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // A length is to be told in as few bytes as it takes: here it always takes one.
        let bytes = &bytes[..bytes.len().min(125)];
        let frame = [&[0x82, 0x80 | bytes.len() as u8][..], &[0; 4], bytes].concat();
        self.stream.write_all(&frame)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The next frame's kind and payload.
fn next(peer: &mut impl Read) -> (u8, Vec<u8>) {
    let mut head = [0; 7];
    peer.read_exact(&mut head).expect("a frame");
    let mut payload = vec![0; u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize + 1];
    peer.read_exact(&mut payload).expect("its payload");
    payload.pop();
    (head[0], payload)
}

/// Asks for all messages at once, reads nothing for a while, and then everything.
fn ask_and_read(node: &Node, peer: &mut (impl Read + Write), queue: &str) {
    let login = [long(b""), short("PLAIN"), long(b"\0guest\0guest"), short("en_US")].concat();
    let opening = [
        b"AMQP\0\0\x09\x01".to_vec(),
        of_connection(11, &login),
        of_connection(31, &[0, 1, 0, 2, 0, 0, 0, 0]),
        of_connection(40, &[&short("/")[..], &[0, 0]].concat()),
        method(20, 10, &short("")),
    ];
    peer.write_all(&opening.concat()).expect("sends");
    while next(peer).1[..4] != [0, 20, 0, 11] {}
    let before = resident(node);
    let get = method(60, 70, &[&[0, 0], &short(queue)[..], &[1]].concat());
    peer.write_all(&get.repeat(MESSAGES as usize)).expect("sends");
    let (began, mut most) = (Instant::now(), 0);
    while began.elapsed() < SILENCE {
        most = most.max(resident(node));
        std::thread::sleep(Duration::from_millis(20));
    }
    for number in 0..MESSAGES {
        let (kind, got) = next(peer);
        assert_eq!((kind, &got[..4]), (1, &[0, 60, 0, 71][..]));
        assert_eq!(got[4..12], u64::from(number + 1).to_be_bytes());
        assert_eq!(got[got.len() - 4..], (MESSAGES - number - 1).to_be_bytes());
        assert_eq!(next(peer).0, 2);
        let mut body = Vec::new();
        while body.len() < BODY_BYTES {
            body.extend(next(peer).1);
        }
        assert_eq!((body.len(), &body[..4]), (BODY_BYTES, &number.to_be_bytes()[..]));
        most = most.max(if number % 50 == 0 { resident(node) } else { 0 });
    }
    let growth = most.saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "{} MiB more", growth >> 20);
}

#[test]
fn what_is_asked_for_and_not_read_takes_no_memory() {
    let folder = Folder::new();
    let node = Node::start(&folder.0, &["leveret.shards=2", "web_amqp.tcp.listener=127.0.0.1:0"]);
    let mut client = Client::open(&node);
    client.declare("q", DURABLE, b"");
    fill(&mut client, "q");
    ask_and_read(&node, &mut node.connect(), "q");
    fill(&mut client, "q");
    let mut of_web = node.log.iter().filter_map(|line| line.split_once("WebSocket listener on 127.0.0.1:"));
    let port = of_web.next().expect("it listens").1.parse().expect("a port");
    ask_and_read(&node, &mut Web::open(port), "q");
    assert_eq!(node.stop().code(), Some(0));
}
