//! Three real nodes on this machine that agree on their logs: leaders, kills, pauses, and strangers at the port for other
//! nodes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the shell, where these live"
)]

mod harness;

use base::id::NodeNo;
use base::{Input, Now, Secrets};
use cluster::lane::{
    Capabilities, Cookie, Error, Event, Identity, Lane, Limits, Purpose, RefusalCode, Trust, Versions,
};
use cluster::names::{ClusterId, FolderId, Incarnation, NodeName};
use harness::nodes::{COOKIE, LOGS, Nodes, confirming, get, get_from, others, publish, publish_to, until};
use harness::{Client, DURABLE, Folder, Node, PATIENCE, command, ctl};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroU128;
use std::time::{Duration, Instant};

#[test]
fn leaders_are_elected_and_others_lead_when_one_is_killed() {
    let mut nodes = Nodes::all();
    let leaders = nodes.leaders(&[0, 1, 2]);
    let killed = leaders[0];
    nodes.kill(killed);
    let left = others(killed);
    let new = nodes.leaders(&left);
    assert!(new.iter().all(|leader| left.contains(leader)));
    nodes.start(killed);
    nodes.leaders(&[0, 1, 2]);
    for log in 1..LOGS {
        until("the same entries everywhere", || {
            let applied: Option<Vec<Value>> = (0..3).map(|at| nodes.applied(at, log)).collect();
            applied?.windows(2).all(|pair| pair[0] == pair[1]).then_some(())
        });
    }
    let status = nodes.status(killed).expect("answers");
    let lanes = status["lanes"].as_array().expect("a list");
    // A pulse and a lane for each of two shards, to each of two nodes.
    assert_eq!(lanes.len(), 6, "{status}");
    for at in 0..3 {
        assert!(nodes.nodes[at].take().is_some_and(|node| node.stop().success()), "node {at}");
    }
    // A stop in order leaves a folder that starts.
    (0..3).for_each(|at| nodes.start(at));
    nodes.leaders(&[0, 1, 2]);
}

#[test]
fn a_leader_that_stands_still_leads_no_more_when_it_goes_on() {
    let nodes = Nodes::all();
    let stopped = nodes.leaders(&[0, 1, 2])[0];
    nodes.signal(stopped, Signal::STOP);
    let began = Instant::now();
    let new = nodes.leaders(&others(stopped));
    assert!(began.elapsed() < PATIENCE);
    std::thread::sleep(Duration::from_secs(5).saturating_sub(began.elapsed()));
    nodes.signal(stopped, Signal::CONT);
    let after = nodes.leaders(&[0, 1, 2]);
    assert_eq!(after, new, "whoever led meanwhile leads on");
}

#[test]
fn a_confirmed_message_is_there_when_its_leader_is_killed() {
    let mut nodes = Nodes::new();
    // One shard, and one log beside the catalog's: the queue is on that.
    let few = ["leveret.shards=1", "leveret.logs=2"];
    (0..3).for_each(|at| nodes.start_with(at, COOKIE, &few));
    Client::open(nodes.node(0)).declare("q", DURABLE, &[]);
    let leader = until("a leader", || nodes.leader(1, &[0, 1, 2]));
    let mut client = confirming(nodes.node(leader));
    // Also long enough for several frames, and longer than the window of a lane.
    let bodies: Vec<Vec<u8>> = [b"one".to_vec(), vec![7; 100_000], vec![8; 8 << 20], b"four".to_vec()].into();
    bodies.iter().for_each(|body| publish(&mut client, body));
    nodes.kill(leader);
    let new = until("another leader", || nodes.leader(1, &others(leader)));
    let mut client = Client::open(nodes.node(new));
    let found: Vec<Option<Vec<u8>>> = (0..5).map(|_| get(&mut client)).collect();
    let expected: Vec<Option<Vec<u8>>> = bodies.into_iter().map(Some).chain([None]).collect();
    assert!(found == expected, "{:?}", found.iter().map(|it| it.as_ref().map(Vec::len)).collect::<Vec<_>>());
}

/// Whoever leads is killed, again and again, while messages come: those that were confirmed are there in the end, in order.
#[test]
fn nothing_that_was_confirmed_is_lost_by_kills() {
    const ROUNDS: u32 = 6;
    const MESSAGES: u32 = 40;
    let mut nodes = Nodes::new();
    let few = ["leveret.shards=1", "leveret.logs=2"];
    (0..3).for_each(|at| nodes.start_with(at, COOKIE, &few));
    Client::open(nodes.node(0)).declare("q", DURABLE, &[]);
    for round in 0..ROUNDS {
        let leader = until("a leader", || nodes.leader(1, &[0, 1, 2]));
        let mut client = confirming(nodes.node(leader));
        for number in round * MESSAGES..(round + 1) * MESSAGES {
            publish(&mut client, &number.to_be_bytes());
        }
        nodes.kill(leader);
        until("another leader", || nodes.leader(1, &others(leader)));
        nodes.start_with(leader, COOKIE, &few);
    }
    let leader = until("a leader", || nodes.leader(1, &[0, 1, 2]));
    let mut client = Client::open(nodes.node(leader));
    for number in 0..ROUNDS * MESSAGES {
        assert_eq!(get(&mut client), Some(number.to_be_bytes().to_vec()));
    }
    assert_eq!(get(&mut client), None);
}

/// The node that was away lacks entries that the others have let go of: it is sent the state of the log, by the lanes too.
#[test]
fn a_node_that_was_away_for_long_is_sent_the_state() {
    const MESSAGES: usize = 6_000;
    let mut nodes = Nodes::new();
    let few = ["leveret.shards=1", "leveret.logs=2", "leveret.journal_file_bytes=1048576"];
    (0..3).for_each(|at| nodes.start_with(at, COOKIE, &few));
    Client::open(nodes.node(0)).declare("q", DURABLE, &[]);
    let leader = until("a leader", || nodes.leader(1, &[0, 1, 2]));
    let away = others(leader)[0];
    nodes.kill(away);
    let mut client = confirming(nodes.node(leader));
    // Each is an entry of its own, as the next is sent when it is confirmed.
    let body = vec![7; 1_000];
    (0..MESSAGES).for_each(|_| publish(&mut client, &body));
    nodes.start_with(away, COOKIE, &few);
    until("the same entries everywhere", || {
        let applied = (nodes.applied(away, 1)?, nodes.applied(leader, 1)?);
        (applied.0 == applied.1).then_some(())
    });
    let log = ctl(&nodes.folders[away].0, &["log_tail", "-N", "200"]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    assert!(log.contains("log 1: its state on another node is put in place"), "{log}");
}

/// Logs in which nothing happens do not keep the journal's files, and have what they had when all nodes come up again.
#[test]
fn logs_at_rest_keep_no_files() {
    const FILES_MAX: usize = 12;
    let mut nodes = Nodes::new();
    let small = ["leveret.journal_file_bytes=1048576"];
    (0..3).for_each(|at| nodes.start_with(at, COOKIE, &small));
    let mut client = Client::open(nodes.node(0));
    let queues = ["a", "b", "c", "d", "e", "f", "g"];
    queues.iter().for_each(|queue| _ = client.declare(queue, DURABLE, &[]));
    client.declare("q", DURABLE, &[]);
    let mut confirmed = confirming(nodes.node(0));
    queues.iter().for_each(|queue| publish_to(&mut confirmed, queue, b"rests"));
    let body = vec![7; 200_000];
    let mut flow = |nodes: &Nodes, among: &[usize]| {
        for _ in 0..150 {
            publish(&mut confirmed, &body);
            assert!(get(&mut client).is_some_and(|found| found == body));
        }
        for at in among {
            let journal = std::fs::read_dir(nodes.folders[*at].0.join("journal")).expect("a folder");
            let files = journal.count();
            assert!(files <= FILES_MAX, "{files} files of 1 MiB at node {at} for 30 MB of messages");
        }
    };
    flow(&nodes, &[0, 1, 2]);
    // Nor for a node that is away.
    nodes.kill(2);
    flow(&nodes, &[0, 1]);
    (0..2).for_each(|at| nodes.kill(at));
    (0..3).for_each(|at| nodes.start_with(at, COOKIE, &small));
    nodes.leaders(&[0, 1, 2]);
    let mut client = Client::open(nodes.node(1));
    for queue in queues {
        let found = until("the message", || get_from(&mut client, queue));
        assert_eq!(found, b"rests");
    }
}

// ---- strangers

/// A stranger that dials the port for other nodes.
struct Stranger {
    stream: TcpStream,
    lane: Lane,
    kept: Vec<u8>,
}

/// The end of a stranger's talk.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Met,
    Refused(RefusalCode),
    Failed(Error),
    Closed,
}

impl Stranger {
    fn dial(port: u16, cookie: &str, change: impl FnOnce(&mut Identity)) -> Stranger {
        let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).expect("connects");
        stream.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
        let mut identity = Identity {
            versions: Versions::SPOKEN,
            cluster: None,
            folder: FolderId(77),
            incarnation: Incarnation(7),
            capabilities: Capabilities::default(),
            number: NodeNo(2),
            name: NodeName::new("rabbit@n1").expect("a name"),
        };
        change(&mut identity);
        let trust = Trust::Cookie(Cookie::new(cookie.as_bytes()).expect("a cookie"));
        let mut secrets = Secrets::simulated(1);
        let lane =
            Lane::dialer(Limits::default(), trust, identity, Purpose::Pulse, &mut secrets, Now::at_ms(0));
        Stranger { stream, lane, kept: Vec::new() }
    }

    /// Talks until something is decided.
    fn end(mut self) -> End {
        let began = Instant::now();
        let mut buffer = vec![0; 64 << 10];
        loop {
            assert!(began.elapsed() < PATIENCE, "something is decided");
            let output = self.lane.output().to_vec();
            if self.stream.write_all(&output).is_ok() {
                self.lane.sent(Now::at_ms(1), output.len());
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return End::Closed,
                Ok(count) => self.kept.extend_from_slice(&buffer[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(_) => return End::Closed,
            }
            let kept = std::mem::take(&mut self.kept);
            let mut input = Input::new(&kept);
            while let Some(event) = self.lane.poll_event(Now::at_ms(1), &mut input) {
                match event {
                    Event::Met(_) => return End::Met,
                    Event::Refused { refusal, .. } => return End::Refused(refusal.code),
                    Event::Failed(error) => return End::Failed(error),
                    Event::Body { .. } | Event::Room => {}
                }
            }
            self.kept = input.rest().to_vec();
        }
    }
}

/// Everything that the port answers to some bytes until it closes, and how long that took.
fn answer_to(port: u16, bytes: &[u8]) -> (Vec<u8>, Duration) {
    let began = Instant::now();
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut answer);
    (answer, began.elapsed())
}

#[test]
fn strangers_are_refused_and_the_nodes_go_on() {
    let nodes = Nodes::all();
    let leaders = nodes.leaders(&[0, 1, 2]);
    let port = nodes.ports[0];
    let other = ClusterId(NonZeroU128::new(7).expect("not 0"));
    let refused = |end: End, code: RefusalCode| assert_eq!(end, End::Refused(code));
    refused(Stranger::dial(port, "another cookie", |_| {}).end(), RefusalCode::WRONG_COOKIE);
    refused(Stranger::dial(port, COOKIE, |it| it.cluster = Some(other)).end(), RefusalCode::WRONG_CLUSTER);
    // It has the cookie, and neither the cluster nor the folder that the name had.
    refused(Stranger::dial(port, COOKIE, |_| {}).end(), RefusalCode::WRONG_CLUSTER);
    let named = |it: &mut Identity| it.name = NodeName::new("rabbit@nobody").expect("a name");
    refused(Stranger::dial(port, COOKIE, named).end(), RefusalCode::WRONG_CLUSTER);
    let at_once = Duration::from_secs(4);
    let check = |bytes: &[u8], is_told: bool| {
        let (answer, took) = answer_to(port, bytes);
        assert_eq!(!answer.is_empty(), is_told, "{answer:?}");
        assert!(took < at_once, "{took:?}");
    };
    check(b"GET / HTTP/1.1\r\n\r\n", false);
    check(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], false);
    check(&[0xff; 100_000], false);
    // A hello that announces 4 GiB, or more than one may have.
    check(&[&u32::MAX.to_le_bytes()[..], &[1, 0, 0, 0], &[0; 12]].concat(), false);
    check(&[&8192u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0; 12]].concat(), false);
    // A frame that is none of a hello.
    check(&[&24u32.to_le_bytes()[..], &[16, 0, 0, 0], &[0; 12], b"body"].concat(), true);
    // One that says nothing has five seconds.
    let (_, took) = answer_to(port, b"");
    assert!(took > Duration::from_secs(4) && took < PATIENCE, "{took:?}");
    // Nor do bytes in between buy more time.
    let began = Instant::now();
    let mut slow = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).expect("connects");
    let hello = [&200u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0; 12]].concat();
    let mut is_open = |byte: &u8| {
        std::thread::sleep(Duration::from_millis(500));
        slow.write_all(&[*byte]).is_ok()
    };
    let sent = hello.iter().take_while(|byte| is_open(byte)).count();
    assert!(sent < hello.len() && began.elapsed() < PATIENCE, "{sent} bytes in {:?}", began.elapsed());
    let files =
        || std::fs::read_dir(format!("/proc/{}/fd", nodes.node(0).child.id())).expect("Linux tells").count();
    let files_before = files();
    // More than there are places for say nothing: they go for others, and those who prove themselves get through.
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).expect("connects"))
        .collect();
    refused(Stranger::dial(port, "another cookie", |_| {}).end(), RefusalCode::WRONG_COOKIE);
    let more = files().saturating_sub(files_before);
    assert!(more < 80, "{more} files more, of 200 that came");
    assert_eq!(nodes.leaders(&[0, 1, 2]), leaders, "nobody was disturbed");
    drop(silent);
    let log = ctl(&nodes.folders[0].0, &["log_tail", "-N", "200"]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let lines = log.lines().filter(|line| line.contains("port for other nodes")).count();
    assert!((1..10).contains(&lines), "a line once in a while: {log}");
}

#[test]
fn the_cookie_is_shown_nowhere() {
    let mut nodes = Nodes::new();
    nodes.start(0);
    for words in
        [&["environment"][..], &["status"], &["log_tail"], &["report"], &["os_env"], &["replica_status"]]
    {
        let told = ctl(&nodes.folders[0].0, words);
        let text = [told.stdout, told.stderr].concat();
        assert!(!text.is_empty(), "{words:?}");
        assert!(!String::from_utf8_lossy(&text).contains(COOKIE), "{words:?}");
    }
    let node = nodes.node(0);
    assert!(!node.log.iter().any(|line| line.contains(COOKIE)), "{:?}", node.log);
}

#[test]
fn a_node_with_another_cookie_is_kept_out() {
    let mut nodes = Nodes::new();
    nodes.start(0);
    nodes.start(1);
    nodes.start_with(2, "another cookie", &[]);
    let leaders = nodes.leaders(&[0, 1]);
    assert!(leaders.iter().all(|leader| *leader < 2));
    let status = nodes.status(2).expect("answers");
    let lanes = status["lanes"].as_array().expect("a list");
    assert!(lanes.iter().all(|lane| lane["is_open"] == false), "{status}");
    assert!(
        status["replicas"].as_array().expect("a list").iter().all(|row| row["leads"].is_null()),
        "{status}"
    );
}

/// The first line that says why a node does not start.
fn refusal(folder: &Folder, settings: &[String]) -> String {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let output = command(&folder.0, &settings).output().expect("runs");
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn nothing_listens_without_a_cookie_and_nothing_is_there_without_the_keys() {
    let mut nodes = Nodes::new();
    let told = refusal(&nodes.folders[0], &nodes.settings(0));
    assert!(told.contains("the secret that all nodes share"), "{told}");
    let alone = ["leveret.cluster.cookie=some".to_owned()];
    assert!(refusal(&nodes.folders[0], &alone).contains("leveret.cluster.experimental"));
    let plain = Node::start(&nodes.folders[0].0, &["leveret.shards=1"]);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", plain.child.id())).expect("Linux tells");
    let names: Vec<String> = tasks
        .map(|task| std::fs::read_to_string(task.expect("one").path().join("comm")).unwrap_or_default())
        .collect();
    assert!(!names.iter().any(|name| name.contains("lane")), "{names:?}");
    let told = ctl(&nodes.folders[0].0, &["replica_status"]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("this node is alone"), "{told:?}");
    assert!(plain.stop().success());
    // A folder of a node that was alone is none of a cluster's, and the other way round.
    let mut settings = nodes.settings(0);
    settings.push(format!("leveret.cluster.cookie={COOKIE}"));
    let told = refusal(&nodes.folders[0], &settings);
    assert!(told.contains("of a node that is alone"), "{told}");
    nodes.start(1);
    nodes.kill(1);
    let told = refusal(&nodes.folders[1], &["listeners.tcp=none".to_owned()]);
    assert!(told.contains("of node 2 of a cluster"), "{told}");
}
