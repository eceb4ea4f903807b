//! Three real nodes on this machine that are of one cluster, and clients of theirs.

use super::{Client, Folder, Node, PATIENCE, ctl, frame, method, short};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Logs of a node, the catalog's among them.
pub const LOGS: u32 = 4;

pub const COOKIE: &str = "a-cookie-that-nobody-guesses";

/// A port on which nothing listens. Not one that the system gives to connections: a node that comes back needs it again.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(97);
    for _ in 0..1000 {
        let number = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + (number % 10_000) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("a thousand ports are taken");
}

/// Three nodes, of which some run.
pub struct Nodes {
    pub folders: Vec<Folder>,
    /// For other nodes.
    pub ports: Vec<u16>,
    /// For AMQP and for HTTP.
    pub doors: Vec<(u16, u16)>,
    /// For metrics.
    pub metrics: Vec<u16>,
    pub nodes: Vec<Option<Node>>,
}

impl Nodes {
    pub fn new() -> Nodes {
        let ports = (0..3).map(|_| free_port()).collect();
        let doors = (0..3).map(|_| (free_port(), free_port())).collect();
        let metrics = (0..3).map(|_| free_port()).collect();
        let folders = (0..3).map(|_| Folder::new()).collect();
        Nodes { folders, ports, doors, metrics, nodes: vec![None, None, None] }
    }

    /// The settings of a node, in the order in which they are given.
    pub fn settings(&self, at: usize) -> Vec<String> {
        let mut settings: Vec<String> = [
            "leveret.cluster.experimental=true",
            "cluster_formation.peer_discovery_backend=classic_config",
            "leveret.shards=2",
            "stream.listeners.tcp=none",
            "web_amqp.tcp=none",
            "management.tcp.ip=127.0.0.1",
            "prometheus.tcp.ip=127.0.0.1",
        ]
        .map(str::to_owned)
        .to_vec();
        let (amqp, http) = self.doors[at];
        settings.push(format!("listeners.tcp.default=127.0.0.1:{amqp}"));
        settings.push(format!("management.tcp.port={http}"));
        settings.push(format!("prometheus.tcp.port={}", self.metrics[at]));
        settings.push(format!("leveret.logs={LOGS}"));
        settings.push(format!("nodename=rabbit@n{at}"));
        settings.push(format!("leveret.cluster.listener=127.0.0.1:{}", self.ports[at]));
        for (number, port) in self.ports.iter().enumerate() {
            settings.push(format!("cluster_formation.classic_config.nodes.{number}=rabbit@n{number}"));
            settings.push(format!("leveret.cluster.address.{number}=rabbit@n{number}=127.0.0.1:{port}"));
        }
        settings
    }

    pub fn start(&mut self, at: usize) {
        self.start_with(at, COOKIE, &[]);
    }

    pub fn start_with(&mut self, at: usize, cookie: &str, more: &[&str]) {
        let mut settings = self.settings(at);
        settings.push(format!("leveret.cluster.cookie={cookie}"));
        settings.extend(more.iter().map(|it| (*it).to_owned()));
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        self.nodes[at] = Some(Node::start(&self.folders[at].0, &settings));
    }

    pub fn all() -> Nodes {
        let mut nodes = Nodes::new();
        (0..3).for_each(|at| nodes.start(at));
        nodes
    }

    pub fn node(&self, at: usize) -> &Node {
        self.nodes[at].as_ref().expect("it runs")
    }

    pub fn signal(&self, at: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.node(at).child), signal).expect("it is there");
    }

    pub fn kill(&mut self, at: usize) {
        // As its drop does.
        self.nodes[at] = None;
    }

    /// The words of a node about its replicas; none: it does not answer.
    pub fn status(&self, at: usize) -> Option<Value> {
        let told = ctl(&self.folders[at].0, &["replica_status"]);
        serde_json::from_slice(&told.stdout).ok()
    }

    /// The node that leads a log, if one does and all that run know it.
    pub fn leader(&self, log: u32, among: &[usize]) -> Option<usize> {
        let rows: Option<Vec<Value>> = among
            .iter()
            .map(|at| {
                let status = self.status(*at)?;
                status["replicas"].as_array()?.iter().find(|row| row["log"] == log).cloned()
            })
            .collect();
        let rows = rows?;
        let leading: Vec<usize> =
            among.iter().zip(&rows).filter(|(_, row)| row["leads"].is_u64()).map(|(at, _)| *at).collect();
        let [leader] = leading[..] else { return None };
        rows.iter().all(|row| row["leader"] == leader as u64 + 1).then_some(leader)
    }

    /// The leaders of all logs but the catalog's, once there are some whom all of these know.
    pub fn leaders(&self, among: &[usize]) -> Vec<usize> {
        let logs = 1..LOGS;
        until("leaders", || logs.clone().map(|log| self.leader(log, among)).collect())
    }

    /// The last entry of a log that a node has applied.
    pub fn applied(&self, at: usize, log: u32) -> Option<Value> {
        let status = self.status(at)?;
        let row = status["replicas"].as_array()?.iter().find(|row| row["log"] == log)?;
        Some(row["applied"].clone()).filter(Value::is_array)
    }
}

/// Waits for something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < 2 * PATIENCE, "{what} in time");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub fn others(at: usize) -> Vec<usize> {
    (0..3).filter(|other| *other != at).collect()
}

/// A client whose publishes are confirmed.
pub fn confirming(node: &Node) -> Client {
    let mut client = Client::open(node);
    client.send(&method(85, 10, &[0]));
    client.until(85, 11);
    client
}

/// Publishes a durable message to queue `q`, and waits until it is confirmed.
pub fn publish(client: &mut Client, body: &[u8]) {
    publish_to(client, "q", body);
}

/// As [`publish`], to another queue.
pub fn publish_to(client: &mut Client, queue: &str, body: &[u8]) {
    let header = [&[0, 60, 0, 0][..], &(body.len() as u64).to_be_bytes(), &[0x10, 0], &[2]].concat();
    let publish = method(60, 40, &[&[0, 0], &short("")[..], &short(queue), &[0]].concat());
    let frames: Vec<Vec<u8>> = body.chunks(100_000).map(|piece| frame(3, piece)).collect();
    client.send(&[publish, frame(2, &header), frames.concat()].concat());
    client.until(60, 80);
}

/// Gets a message of queue `q`; none: the queue is empty.
pub fn get(client: &mut Client) -> Option<Vec<u8>> {
    get_from(client, "q")
}

/// As [`get`], from another queue.
pub fn get_from(client: &mut Client, queue: &str) -> Option<Vec<u8>> {
    client.send(&method(60, 70, &[&[0, 0], &short(queue)[..], &[1]].concat()));
    let told = client.next();
    if told[..4] == [0, 60, 0, 72] {
        return None;
    }
    let header = client.next();
    let len = header[4..12].iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
    let mut body = Vec::new();
    while body.len() < len {
        body.extend(client.next());
        body.pop();
    }
    Some(body)
}
