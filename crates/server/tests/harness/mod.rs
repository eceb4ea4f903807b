//! The real binary, and a client that says just enough.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod http;
pub mod nodes;

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A data folder that goes with its test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("leveret-node-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn command(folder: &Path, settings: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    command.env_clear().arg("server").arg("--data-dir").arg(folder);
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    command
}

fn all<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    [&["listeners.tcp.default=127.0.0.1:0"], settings].concat()
}

/// A node that runs.
pub struct Node {
    pub child: Child,
    pub port: u16,
    pub log: Vec<String>,
}

impl Node {
    pub fn start(folder: &Path, settings: &[&str]) -> Node {
        Node::launch(command(folder, &all(settings)))
    }

    /// One that may have so many files open.
    pub fn start_with_files(folder: &Path, settings: &[&str], files_max: usize) -> Node {
        let usual = command(folder, &all(settings));
        let mut limited = Command::new("sh");
        limited.env_clear().args(["-c", &format!("ulimit -n {files_max}; exec \"$0\" \"$@\"")]);
        limited.arg(usual.get_program()).args(usual.get_args());
        Node::launch(limited)
    }

    fn launch(mut command: Command) -> Node {
        let child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let mut node = Node { child, port: 0, log: Vec::new() };
        let output = BufReader::new(node.child.stdout.take().expect("piped"));
        for line in output.lines() {
            let line = line.expect("text");
            if let Some((_, address)) = line.split_once("started TCP listener on 127.0.0.1:") {
                node.port = address.parse().expect("a port");
            }
            let is_complete = line.contains("Server startup complete");
            node.log.push(line);
            if is_complete {
                return node;
            }
        }
        panic!("the node did not start: {:?}", node.log);
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.set_nodelay(true).expect("set");
        stream
    }

    pub fn stop(mut self) -> ExitStatus {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("it is there");
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("waits") {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "the node does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn ctl(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    command.env_clear().arg("ctl").arg("--data-dir").arg(folder).args(words).output().expect("runs")
}

/// A client of AMQP 0-9-1 that says just enough.
pub struct Client(pub TcpStream);

pub fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let channel = 1u16.to_be_bytes();
    [&[kind], &channel[..], &(payload.len() as u32).to_be_bytes(), payload, &[0xCE]].concat()
}

pub fn method(class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    frame(1, &[&class.to_be_bytes(), &number.to_be_bytes(), arguments].concat())
}

/// A method of channel 0.
pub fn of_connection(number: u16, arguments: &[u8]) -> Vec<u8> {
    let mut bytes = method(10, number, arguments);
    bytes[1..3].fill(0);
    bytes
}

pub fn short(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

pub fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

impl Client {
    pub fn open(node: &Node) -> Client {
        Client::open_as(node, "guest")
    }

    /// One that logs in by a name that is the password as well.
    pub fn open_as(node: &Node, user: &str) -> Client {
        Client::greet(node.connect(), user)
    }

    /// The same on a connection that is there.
    pub fn greet(stream: TcpStream, user: &str) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut client = Client(stream);
        client.send(b"AMQP\0\0\x09\x01");
        client.until(10, 10);
        let login = [long(b""), short("PLAIN"), long(format!("\0{user}\0{user}").as_bytes()), short("en_US")]
            .concat();
        client.send(&of_connection(11, &login));
        client.until(10, 30);
        client.send(&of_connection(31, &[0, 1, 0, 2, 0, 0, 0, 0]));
        client.send(&of_connection(40, &[&short("/")[..], &[0, 0]].concat()));
        client.until(10, 41);
        client.send(&method(20, 10, &short("")));
        client.until(20, 11);
        client
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("sends");
    }

    /// The next method: its class, its number and its arguments.
    pub fn next(&mut self) -> Vec<u8> {
        let mut head = [0; 7];
        self.0.read_exact(&mut head).expect("a frame");
        let mut payload = vec![0; u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize + 1];
        self.0.read_exact(&mut payload).expect("its payload");
        payload
    }

    /// The arguments of the next method, which is this one.
    pub fn until(&mut self, class: u16, number: u16) -> Vec<u8> {
        let payload = self.next();
        assert_eq!(payload[..4], [class.to_be_bytes(), number.to_be_bytes()].concat());
        payload[4..].to_vec()
    }

    /// How many messages are ready in a queue, which is declared with these bits if it is not there.
    pub fn declare(&mut self, name: &str, bits: u8, arguments: &[u8]) -> u32 {
        self.send(&method(50, 10, &[&[0, 0], &short(name)[..], &[bits], &long(arguments)].concat()));
        let told = self.until(50, 11);
        let at = 1 + name.len();
        u32::from_be_bytes([told[at], told[at + 1], told[at + 2], told[at + 3]])
    }
}

pub const PASSIVE: u8 = 1;
pub const DURABLE: u8 = 2;
