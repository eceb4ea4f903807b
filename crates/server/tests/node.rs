//! The real binary from outside: how it starts, what it says, how it stops, and what a peer without manners gets.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the shell, where these live"
)]

mod harness;

use harness::{Client, DURABLE, Folder, Node, PASSIVE, PATIENCE, command, ctl, frame, long, method, short};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Everything until the node closes.
fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("closed by the node");
    bytes
}

#[test]
fn starts_answers_and_stops() {
    let folder = Folder::new();
    let node = Node::start(&folder.0, &[]);
    let ping = ctl(&folder.0, &["ping", "-q"]);
    assert_eq!((ping.status.code(), &*ping.stdout), (Some(0), &b"Ping succeeded\n"[..]));
    let status = ctl(&folder.0, &["status", "--formatter", "json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("json");
    assert_eq!(status["pid"], node.child.id());
    assert_eq!(status["listeners"][0]["port"], node.port);
    assert_eq!(status["totals"]["virtual_host_count"], 1);
    let memory = ctl(&folder.0, &["memory_breakdown", "--unit", "mb"]);
    assert!(String::from_utf8_lossy(&memory.stdout).contains("connection_readers: "), "{memory:?}");
    assert_eq!(node.stop().code(), Some(0));
    assert_eq!(ctl(&folder.0, &["ping"]).status.code(), Some(69));
}

#[test]
fn starts_again_where_it_was_after_a_stop_and_after_a_kill() {
    let folder = Folder::new();
    assert_eq!(Node::start(&folder.0, &["default_vhost=mine"]).stop().code(), Some(0));
    for _ in 0..2 {
        // Not seeded again: there is one virtual host, the first one's.
        let mut node = Node::start(&folder.0, &["default_vhost=other", "leveret.shards=3"]);
        let status = ctl(&folder.0, &["status", "--formatter", "json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("json");
        assert_eq!(status["totals"]["virtual_host_count"], 1);
        node.child.kill().expect("killed");
    }
}

/// The files in a folder of the data folder whose names end so, with their content.
fn files(folder: &Folder, kind: &str, end: &str) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder.0.join(kind)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let theirs = paths.filter(|path| path.extension().is_some_and(|found| found == end));
    theirs.map(|path| (path.clone(), std::fs::read(path).expect("read"))).collect()
}

/// The journal lost records, and no snapshot knows the file with their messages: it is the only copy.
#[test]
fn what_a_damaged_journal_lost_stays_in_the_files_of_a_stream() {
    const MESSAGES: u8 = 30;
    const BODY_LEN: usize = 100_000;
    let folder = Folder::new();
    let mut node = Node::start(&folder.0, &["leveret.shards=1"]);
    let mut client = Client::open(&node);
    let stream = [&short("x-queue-type")[..], b"S", &long(b"stream")].concat();
    client.declare("s", DURABLE, &stream);
    client.send(&method(85, 10, &[0]));
    client.until(85, 11);
    // Each in a write of its own.
    for number in 0..MESSAGES {
        let publish = method(60, 40, &[&[0, 0, 0], &short("s")[..], &[0]].concat());
        let head = [&[0, 60, 0, 0][..], &(BODY_LEN as u64).to_be_bytes(), &[0, 0]].concat();
        client.send(&[publish, frame(2, &head), frame(3, &[number; BODY_LEN])].concat());
        client.until(60, 80);
    }
    let begun = Instant::now();
    let is_in = |bytes: &[u8], number: u8| bytes.windows(BODY_LEN).any(|body| body == [number; BODY_LEN]);
    let first_ten = loop {
        match files(&folder, "streams", "stream").pop() {
            Some((_, bytes)) if bytes.len() > 10 * BODY_LEN => break bytes,
            _ => assert!(begun.elapsed() < PATIENCE, "nothing is written"),
        }
    };
    assert!((0..10).all(|number| is_in(&first_ten, number)));
    node.child.kill().expect("killed");
    node.child.wait().expect("ended");
    let change = || {
        let found = files(&folder, "journal", "journal").into_iter().find_map(|(path, bytes)| {
            let at = bytes.windows(BODY_LEN).position(|body| body[1..] == [5; BODY_LEN - 1])?;
            Some((path, bytes, at))
        });
        let (path, mut bytes, at) = found.expect("the sixth message is in the journal");
        bytes[at] ^= 0x80;
        std::fs::write(path, bytes).expect("written");
    };
    change();
    // However often it is started.
    for _ in 0..2 {
        let mut node = Node::start(&folder.0, &["leveret.shards=1"]);
        node.child.kill().expect("killed");
        node.child.wait().expect("ended");
        let kept = ["stream", "aside"].map(|end| files(&folder, "streams", end)).concat();
        assert!(kept.iter().any(|(_, bytes)| bytes.starts_with(&first_ten)), "the messages are gone");
        assert!(node.log.iter().any(|line| line.contains("may hold messages that nothing else has")));
    }
    // The journal is mended: all that it has is there, and what was kept is not needed any more.
    change();
    let node = Node::start(&folder.0, &["leveret.shards=1"]);
    assert_eq!(Client::open(&node).declare("s", PASSIVE, b""), u32::from(MESSAGES));
    assert_eq!(files(&folder, "streams", "aside"), []);
    assert_eq!(node.stop().code(), Some(0));
}

/// Where all snapshots of a log are bad what they held is not known to be anywhere: no start takes its queues for empty ones.
#[test]
fn a_log_without_a_sound_snapshot_is_stopped_by_every_start() {
    let settings = ["leveret.shards=1", "leveret.logs=3", "leveret.journal_file_bytes=1MiB"];
    let folder = Folder::new();
    let node = Node::start(&folder.0, &settings);
    let mut client = Client::open(&node);
    client.declare("q", DURABLE, b"");
    client.declare("other", DURABLE, &[&short("x-max-length")[..], b"I", &[0, 0, 0, 1]].concat());
    client.send(&method(85, 10, &[0]));
    client.until(85, 11);
    let mut publish = |queue: &str, len: usize| {
        let publish = method(60, 40, &[&[0, 0, 0], &short(queue)[..], &[0]].concat());
        let head = [&[0, 60, 0, 0][..], &(len as u64).to_be_bytes(), &[0x10, 0, 2]].concat();
        client.send(&[publish, frame(2, &head), frame(3, &vec![1; len])].concat());
        client.until(60, 80);
    };
    (0..3).for_each(|_| publish("q", 10));
    // Its records have moved to a segment when the files of the journal they were in are used again.
    (0..100).for_each(|_| publish("other", 100_000));
    assert_eq!(node.stop().code(), Some(0));
    let damage = |log: &str| {
        let mut theirs = files(&folder, "snapshots", "snapshot");
        theirs
            .retain(|(path, _)| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(log)));
        assert!(!theirs.is_empty());
        for (path, bytes) in &theirs {
            let mut bytes = bytes.clone();
            bytes[50] ^= 1;
            std::fs::write(path, bytes).expect("written");
        }
        theirs
    };
    let sound = damage("00000001");
    let mut said = Vec::new();
    for _ in 0..3 {
        let node = Node::start(&folder.0, &settings);
        let says = |what: &str| node.log.iter().filter(|line| line.contains(what)).count();
        said.push((says("log 1 is stopped"), says(" is stopped"), says("no snapshot of log 1 is sound")));
        assert_eq!(node.stop().code(), Some(0));
    }
    assert_eq!(said, [(1, 1, 1); 3]);
    // Copies are put back: all that was there is there, and is there again.
    sound.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).expect("written"));
    for _ in 0..2 {
        let node = Node::start(&folder.0, &settings);
        assert!(node.log.iter().all(|line| !line.contains("is stopped")), "{:?}", node.log);
        assert_eq!(Client::open(&node).declare("q", PASSIVE, b""), 3);
        assert_eq!(node.stop().code(), Some(0));
    }
    // Without the catalog there is no node, and none that begins anew.
    damage("00000000");
    for _ in 0..2 {
        let ended = command(&folder.0, &settings).output().expect("runs");
        assert!(!ended.status.success(), "{ended:?}");
        let told = [ended.stdout, ended.stderr].concat();
        assert!(String::from_utf8_lossy(&told).contains("the catalog's log is damaged"));
    }
}

/// Nobody waits for messages to be settled. A snapshot that knows of it must not be all that does: where it goes bad, the start
/// from the one before it would find records missing in the middle.
#[test]
fn what_a_snapshot_knows_was_settled_is_in_the_journal_too() {
    let settings = ["leveret.shards=1", "leveret.logs=3"];
    let folder = Folder::new();
    let publish = |client: &mut Client, count: usize| {
        client.send(&method(85, 10, &[0]));
        client.until(85, 11);
        for _ in 0..count {
            let publish = method(60, 40, &[&[0, 0, 0], &short("q")[..], &[0]].concat());
            let head = [&[0, 60, 0, 0][..], &1u64.to_be_bytes(), &[0x10, 0, 2]].concat();
            client.send(&[publish, frame(2, &head), frame(3, b"m")].concat());
            client.until(60, 80);
        }
    };
    let node = Node::start(&folder.0, &settings);
    let mut client = Client::open(&node);
    client.declare("q", DURABLE, b"");
    publish(&mut client, 3);
    drop(client);
    assert_eq!(node.stop().code(), Some(0));
    let node = Node::start(&folder.0, &settings);
    let mut client = Client::open(&node);
    for tag in 1..=2u8 {
        client.send(&method(60, 70, &[&[0, 0], &short("q")[..], &[0]].concat()));
        client.until(60, 71);
        // The message behind it.
        for _ in 0..2 {
            client.next();
        }
        client.send(&method(60, 80, &[0, 0, 0, 0, 0, 0, 0, tag, 0]));
    }
    assert_eq!(client.declare("q", PASSIVE, b""), 1);
    // It stops sooner than what was settled goes to disk by itself.
    drop(client);
    assert_eq!(node.stop().code(), Some(0));
    let mut node = Node::start(&folder.0, &settings);
    publish(&mut Client::open(&node), 1);
    node.child.kill().expect("killed");
    node.child.wait().expect("ended");
    let theirs = files(&folder, "snapshots", "snapshot").into_iter().filter(|(path, _)| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("00000001"))
    });
    let (path, mut bytes) = theirs.max().expect("there are some");
    bytes[50] ^= 1;
    std::fs::write(path, bytes).expect("written");
    let node = Node::start(&folder.0, &settings);
    assert!(node.log.iter().all(|line| !line.contains("is stopped")), "{:?}", node.log);
    assert!(node.log.iter().any(|line| line.contains("damaged")), "{:?}", node.log);
    assert_eq!(Client::open(&node).declare("q", PASSIVE, b""), 2);
    assert_eq!(node.stop().code(), Some(0));
}

/// A start reads of the journal what the snapshots of a node that stopped do not have, and what lives in it; files that were left,
/// and in which nothing lives, are not read, though nobody had time to look at them.
#[test]
fn a_start_behind_a_stop_reads_nothing_that_is_over() {
    const BODY_LEN: usize = 100_000;
    const FILE_LEN: u64 = 1 << 20;
    let settings = ["leveret.shards=1", "leveret.logs=3", "leveret.journal_file_bytes=1MiB"];
    let folder = Folder::new();
    let recovered = |node: &Node| {
        let mut lines = node.log.iter().filter_map(|line| line.split_once("recovered "));
        let (_, what) = lines.next().expect("it is told");
        what.split_once(' ').expect("a number").0.parse::<u64>().expect("a number")
    };
    let publish = |client: &mut Client, queue: &str, count: usize| {
        client.send(&method(85, 10, &[0]));
        client.until(85, 11);
        for _ in 0..count {
            let publish = method(60, 40, &[&[0, 0, 0], &short(queue)[..], &[0]].concat());
            let head = [&[0, 60, 0, 0][..], &(BODY_LEN as u64).to_be_bytes(), &[0x10, 0, 2]].concat();
            client.send(&[publish, frame(2, &head), frame(3, &[7; BODY_LEN])].concat());
            client.until(60, 80);
        }
    };
    let node = Node::start(&folder.0, &settings);
    let mut client = Client::open(&node);
    client.declare("q", DURABLE, b"");
    client.declare("s", DURABLE, &[&short("x-queue-type")[..], b"S", &long(b"stream")].concat());
    publish(&mut client, "s", 45);
    drop(client);
    assert_eq!(node.stop().code(), Some(0));
    let node = Node::start(&folder.0, &settings);
    assert!(recovered(&node) < FILE_LEN, "{} bytes", recovered(&node));
    let mut client = Client::open(&node);
    assert_eq!((client.declare("q", PASSIVE, b""), client.declare("s", PASSIVE, b"")), (0, 45));
    drop(client);
    assert_eq!(node.stop().code(), Some(0));
    // Where the newest snapshots are bad those before them are read from where they need it.
    let snapshots = files(&folder, "snapshots", "snapshot");
    for log in ["00000001", "00000002"] {
        let of_log = |path: &std::path::Path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(log))
        };
        let (path, mut bytes) =
            snapshots.iter().filter(|(path, _)| of_log(path)).max().expect("there are some").clone();
        bytes[50] ^= 1;
        std::fs::write(path, bytes).expect("written");
    }
    let node = Node::start(&folder.0, &settings);
    assert!(node.log.iter().all(|line| !line.contains("is stopped")), "{:?}", node.log);
    let mut client = Client::open(&node);
    assert_eq!((client.declare("q", PASSIVE, b""), client.declare("s", PASSIVE, b"")), (0, 45));
    // The queue and the stream are read, and go on from what they have.
    publish(&mut client, "q", 25);
    drop(client);
    assert_eq!(node.stop().code(), Some(0));
    for _ in 0..2 {
        let node = Node::start(&folder.0, &settings);
        let mut client = Client::open(&node);
        assert_eq!((client.declare("q", PASSIVE, b""), client.declare("s", PASSIVE, b"")), (25, 45));
        for _ in 0..25 {
            client.send(&method(60, 70, &[&[0, 0], &short("q")[..], &[0]].concat()));
            client.until(60, 71);
            (0..2).for_each(|_| drop(client.next()));
        }
        drop(client);
        assert_eq!(node.stop().code(), Some(0));
    }
}

/// Of the journal's files that are left those are let go that every log's snapshots have behind them, the catalog's too.
#[test]
fn who_declares_without_end_keeps_no_journal_file_from_being_let_go() {
    const CLIENTS: usize = 4;
    let settings = ["leveret.shards=1", "leveret.journal_file_bytes=1MiB", "leveret.test_sync_delay_us=6000"];
    let folder = Folder::new();
    let node = Node::start(&folder.0, &settings);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (node, is_over) = (&node, &is_over);
            scope.spawn(move || {
                let mut declares = Client::open(node);
                let name = format!("d{client}");
                while !is_over.load(Ordering::Relaxed) {
                    declares.declare(&name, DURABLE, b"");
                    declares.send(&method(50, 40, &[&[0, 0], &short(&name)[..], &[0]].concat()));
                    declares.until(50, 41);
                }
            });
        }
        let mut publishes = Client::open(&node);
        publishes.declare("q", DURABLE, b"");
        publishes.send(&method(85, 10, &[0]));
        publishes.until(85, 11);
        let journal = || std::fs::read_dir(folder.0.join("journal")).expect("a folder").count();
        let begun = Instant::now();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // More than forty files. They are let go one by one, as others begin.
            for number in 0.. {
                let publish = method(60, 40, &[&[0, 0, 0], &short("q")[..], &[0]].concat());
                let head = [&[0, 60, 0, 0][..], &100_000u64.to_be_bytes(), &[0x10, 0, 2]].concat();
                publishes.send(&[publish, frame(2, &head), frame(3, &[1; 100_000])].concat());
                publishes.until(60, 80);
                let files = journal();
                if number > 500 && files <= 25 {
                    return;
                }
                assert!(begun.elapsed() < PATIENCE, "{files} files of the journal after {number} messages");
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        outcome.expect("they are let go");
    });
    assert_eq!(node.stop().code(), Some(0));
}

/// Publishers wait while the last file of the journal is at hand; declares are refused when there is room in it for
/// little but commands that give some back.
#[test]
fn who_declares_on_a_full_disk_leaves_room_for_what_gives_space_back() {
    const BODY_LEN: usize = 50_000;
    let folder = Folder::new();
    let settings = [
        "leveret.shards=1",
        "leveret.journal_file_bytes=1MiB",
        "leveret.test_disk_bytes=8MiB",
        "disk_free_limit.absolute=1",
    ];
    let node = Node::start(&folder.0, &settings);
    let answers = |client: &Client, ms| {
        client.0.set_read_timeout(Some(Duration::from_millis(ms))).expect("set");
        let outcome = client.0.peek(&mut [0]).is_ok();
        client.0.set_read_timeout(Some(PATIENCE)).expect("set");
        outcome
    };
    let mut publishes = Client::open(&node);
    publishes.declare("q", DURABLE, b"");
    publishes.send(&method(85, 10, &[0]));
    publishes.until(85, 11);
    let publish = method(60, 40, &[&[0, 0], &short("")[..], &short("q"), &[0]].concat());
    let head = [&[0, 60, 0, 0][..], &(BODY_LEN as u64).to_be_bytes(), &[0x10, 0, 2]].concat();
    let message = [publish, frame(2, &head), frame(3, &[7; BODY_LEN])].concat();
    for number in 0.. {
        assert!(number < 300, "more than there is room for");
        publishes.send(&message);
        if !answers(&publishes, 1500) {
            break;
        }
        publishes.until(60, 80);
    }
    let declare = |name: &str| method(50, 10, &[&[0, 0], &short(name)[..], &[DURABLE], &long(b"")].concat());
    let mut declares = Client::open(&node);
    for number in 0.. {
        assert!(number < 1000, "more than there is room for");
        declares.send(&declare(&format!("d{number}")));
        let answer = declares.next();
        if answer[..4] == [0, 20, 0, 40] {
            let text = String::from_utf8_lossy(&answer[7..]).into_owned();
            assert!(text.starts_with("PRECONDITION_FAILED - no disk space is left"), "{text}");
            assert_eq!(answer[4..6], 406u16.to_be_bytes());
            break;
        }
        assert_eq!(answer[..4], [0, 50, 0, 11]);
    }
    let mut others = Client::open(&node);
    assert!(others.declare("q", DURABLE, b"") > 0, "what is there already is told");
    others.send(&method(50, 40, &[&[0, 0], &short("q")[..], &[0]].concat()));
    others.until(50, 41);
    // The queue's messages were removed: there is room again for all.
    publishes.until(60, 80);
    others.declare("new", DURABLE, b"");
    assert_eq!(node.stop().code(), Some(0));
}

/// Nobody says anything to the shard that has them, on disk alone; another one counts them.
#[test]
fn what_died_before_a_kill_goes_where_the_dead_go_though_nobody_knocks() {
    const MESSAGES: u32 = 5000;
    let folder = Folder::new();
    let settings = ["leveret.shards=2"];
    let mut node = Node::start(&folder.0, &settings);
    let mut other = Client::open(&node);
    other.declare("dead", DURABLE, b"");
    let mut client = Client::open(&node);
    let limits = [
        [&short("x-max-length")[..], b"I\0\0\0\x01"].concat(),
        [&short("x-dead-letter-exchange")[..], b"S", &long(b"")].concat(),
        [&short("x-dead-letter-routing-key")[..], b"S", &long(b"dead")].concat(),
    ];
    client.declare("q", DURABLE, &limits.concat());
    client.send(&method(85, 10, &[0]));
    client.until(85, 11);
    let header = [&[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0x10, 0][..], &[2]].concat();
    let publish = method(60, 40, &[&[0, 0], &short("")[..], &short("q"), &[0]].concat());
    let message = [publish, frame(2, &header), frame(3, b"body")].concat();
    client.send(&message.repeat(MESSAGES as usize));
    let mut confirmed = 0;
    while confirmed < u64::from(MESSAGES) {
        let told = client.until(60, 80);
        confirmed = told[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    }
    node.child.kill().expect("it is there");
    node.child.wait().expect("ends");
    let node = Node::start(&folder.0, &settings);
    let mut client = Client::open(&node);
    let started = Instant::now();
    loop {
        let there = client.declare("dead", PASSIVE, b"");
        if there >= MESSAGES - 1 {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{there} are there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_no_protocol_gets_the_header_and_the_door() {
    let folder = Folder::new();
    let node = Node::start(&folder.0, &[]);
    let mut stream = node.connect();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
    assert_eq!(read_to_end(stream), b"AMQP\x03\x01\0\0");
    // The same in the smallest pieces.
    let mut stream = node.connect();
    for byte in b"GET / HT" {
        stream.write_all(&[*byte]).expect("written");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(read_to_end(stream), b"AMQP\x03\x01\0\0");
}

#[test]
fn who_says_nothing_is_closed_in_time_and_others_are_not_disturbed() {
    let folder = Folder::new();
    let node = Node::start(&folder.0, &["handshake_timeout=400"]);
    let silent: Vec<TcpStream> = (0..50).map(|_| node.connect()).collect();
    let gone: Vec<TcpStream> = (0..50).map(|_| node.connect()).collect();
    drop(gone);
    let started = Instant::now();
    for stream in silent {
        assert_eq!(read_to_end(stream), b"");
    }
    assert!(started.elapsed() > Duration::from_millis(200), "not at once");
    let connections = ctl(&folder.0, &["list_connections", "-s", "state"]);
    assert_eq!(String::from_utf8_lossy(&connections.stdout), "");
    let mut late = node.connect();
    late.write_all(b"nonsense").expect("written");
    assert_eq!(read_to_end(late).len(), 8);
}

#[test]
fn what_cannot_be_is_said_in_plain_words() {
    let check = |folder: &Path, settings: &[&str], expected: &str| {
        let output = command(folder, settings).output().expect("runs");
        // Settings that cannot be used are told where there is no log yet; the rest is a line of it.
        let text = [&output.stderr[..], &output.stdout].map(String::from_utf8_lossy).concat();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert_eq!(text.matches(expected).count(), 1, "{expected:?} is not once in {text:?}");
    };
    let folder = Folder::new();
    check(&folder.0, &["heartbeet=5"], "the nearest known key is 'heartbeat'");
    let node = Node::start(&folder.0, &["mqtt.vhost=/"]);
    assert!(
        node.log.iter().any(|line| line.contains("[warning]") && line.contains("'mqtt.vhost' has no effect"))
    );
    check(&folder.0, &[], "is in use by another node");
    let port = format!("listeners.tcp.default=127.0.0.1:{}", node.port);
    let holder = format!("another program does, leveret (process {})", node.child.id());
    check(&Folder::new().0, &[&port], &holder);
    check(&Folder::new().0, &[&port], "Another port: --set listeners.tcp.default=5673");
}

#[test]
fn who_says_nothing_more_does_not_hold_up_a_stop() {
    /// How far each came: nowhere; to `connection.start`; to the mechanisms.
    const HEADERS: [&[u8]; 3] = [b"", b"AMQP\x00\x00\x09\x01", b"AMQP\x03\x01\x00\x00"];
    let folder = Folder::new();
    let node = Node::start(&folder.0, &[]);
    let mut silent = HEADERS.map(|header| {
        let mut peer = node.connect();
        peer.write_all(header).expect("written");
        let mut first = [0];
        if !header.is_empty() {
            peer.read_exact(&mut first).expect("answered");
        }
        peer
    });
    let _administrator = UnixStream::connect(folder.0.join("ctl.sock")).expect("connects");
    let begin = Instant::now();
    // The connections are there when another one behind them was answered.
    let mut other = node.connect();
    other.write_all(b"neither").expect("written");
    other.write_all(b"!").expect("written");
    read_to_end(other);
    assert!(node.stop().success());
    assert!(begin.elapsed() < Duration::from_millis(1900), "{:?}", begin.elapsed());
    for peer in &mut silent {
        peer.read_to_end(&mut Vec::new()).expect("closed by the node");
    }
}

#[test]
fn stops_where_its_socket_was_removed() {
    let folder = Folder::new();
    let node = Node::start(&folder.0, &[]);
    std::fs::remove_file(folder.0.join("ctl.sock")).expect("removed");
    assert!(node.stop().success());
}

#[test]
fn a_stop_does_not_wait_for_an_import() {
    /// More queues than are declared before the node can be stopped.
    const QUEUES: u64 = 20_000;
    let folder = Folder::new();
    let node = Node::start(&folder.0, &["management.tcp.ip=127.0.0.1", "management.tcp.port=0"]);
    let port = node.log.iter().find_map(|line| line.split_once("started HTTP listener on 127.0.0.1:"));
    let port: u16 = port.expect("listens").1.parse().expect("a port");
    let queue = |number| serde_json::json!({ "vhost": "/", "name": format!("q{number}"), "durable": true });
    let body = serde_json::json!({ "queues": (0..QUEUES).map(queue).collect::<Vec<_>>() }).to_string();
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connects");
    let guest = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=";
    let length = body.len();
    write!(
        client,
        "POST /api/definitions HTTP/1.1\r\nhost: h\r\n{guest}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
    .expect("sends");
    client.write_all(body.as_bytes()).expect("sends");
    let count = || {
        let status = ctl(&folder.0, &["status", "--formatter", "json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("json");
        status["totals"]["queue_count"].as_u64().expect("a count")
    };
    let begin = Instant::now();
    while count() == 0 {
        assert!(begin.elapsed() < PATIENCE, "nothing is imported");
    }
    assert!(node.stop().success());
    let _node = Node::start(&folder.0, &[]);
    let left = count();
    assert!((1..QUEUES).contains(&left), "{left}");
}

#[test]
fn users_and_virtual_hosts_are_changed_and_stay_so() {
    let folder = Folder::new();
    let node = Node::start(&folder.0, &["leveret.shards=2"]);
    let check = |words: &[&str], code: i32, expected: &str| {
        let output = ctl(&folder.0, words);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), text.as_ref()), (Some(code), expected), "{words:?}");
    };
    check(&["-q", "add_user", "anna", "secret"], 0, "");
    check(&["-q", "add_user", "anna", "secret"], 70, "Error:\nUser \"anna\" already exists\n");
    check(&["set_user_tags", "anna", "a", "b"], 0, "Setting tags for user \"anna\" to [a, b] ...\n");
    check(&["-q", "change_password", "nobody", "x"], 67, "Error:\nUser \"nobody\" does not exist\n");
    check(&["-q", "add_vhost", "v"], 0, "");
    check(&["-q", "set_permissions", "-p", "v", "anna", "^a", "", ".*"], 0, "");
    check(
        &["-q", "set_permissions", "-p", "w", "anna", "", "", ""],
        69,
        "Error:\nVirtual host 'w' does not exist\n",
    );
    check(&["-q", "add_vhost", "gone"], 0, "");
    check(&["-q", "delete_vhost", "gone"], 0, "");
    assert!(node.stop().success());
    let node = Node::start(&folder.0, &["leveret.shards=2"]);
    check(&["-s", "list_users"], 0, "anna\t[a, b]\nguest\t[administrator]\n");
    check(&["-s", "list_vhosts"], 0, "/\nv\n");
    check(&["-s", "list_permissions", "-p", "v"], 0, "anna\t^a\t\t.*\n");
    check(&["-q", "clear_permissions", "-p", "v", "anna"], 0, "");
    check(&["-s", "list_user_permissions", "anna"], 0, "");
    check(&["-q", "delete_user", "anna"], 0, "");
    check(&["-s", "list_users"], 0, "guest\t[administrator]\n");
    assert!(node.stop().success());
}

#[test]
fn the_tools_names_mean_the_tools() {
    let folder = Folder::new();
    let link = folder.0.join("rabbitmq-diagnostics");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_leveret"), &link).expect("linked");
    let output =
        Command::new(link).env_clear().args(["--data-dir", "nowhere", "-q", "ping"]).output().expect("runs");
    assert_eq!(output.status.code(), Some(69));
}

/// A command that asks a node for something, and for JSON.
fn told(folder: &Folder, words: &[&str]) -> serde_json::Value {
    let output = ctl(&folder.0, &[words, &["--formatter", "json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("json")
}

/// Clients that open sockets need no password.
#[test]
fn sockets_leave_the_node_the_files_it_needs() {
    const FILES_MAX: usize = 300;
    const SOCKETS: usize = 400;
    const BODY_LEN: usize = 64 << 10;
    let folder = Folder::new();
    let settings = [
        "leveret.shards=2",
        "leveret.journal_file_bytes=4MiB",
        "handshake_timeout=600000",
        "tcp_listen_options.backlog=1024",
    ];
    let mut node = Node::start_with_files(&folder.0, &settings, FILES_MAX);
    let mut client = Client::open(&node);
    client.declare("q", DURABLE, b"");
    client.send(&method(85, 10, &[0]));
    client.until(85, 11);
    // They wait in the queue of the listening socket where they are not accepted.
    let sockets: Vec<TcpStream> = (0..SOCKETS).map(|_| node.connect()).collect();
    let open = || std::fs::read_dir(format!("/proc/{}/fd", node.child.id())).expect("listed").count();
    let begun = Instant::now();
    while open() < FILES_MAX / 2 {
        assert!(begun.elapsed() < PATIENCE, "nobody is accepted");
        std::thread::sleep(Duration::from_millis(20));
    }
    let publish = method(60, 40, &[&[0, 0], &short("")[..], &short("q"), &[0]].concat());
    let head = [&[0, 60, 0, 0][..], &(BODY_LEN as u64).to_be_bytes(), &[0x10, 0, 2]].concat();
    let message = [publish, frame(2, &head), frame(3, &[7; BODY_LEN])].concat();
    // Three files' worth: what lives in the first is moved to segments, and snapshots are written.
    for _ in 0..(12 << 20) / BODY_LEN {
        client.send(&message);
        client.until(60, 80);
    }
    let begun = Instant::now();
    while files(&folder, "segments", "segment").is_empty()
        || files(&folder, "snapshots", "snapshot").is_empty()
    {
        assert!(begun.elapsed() < PATIENCE, "nothing was moved");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(told(&folder, &["status"])["pid"], node.child.id());
    assert!(node.child.try_wait().expect("asked").is_none(), "the node has ended");
    drop(sockets);
    // A client that waited behind them is let in.
    let mut late = Client::open(&node);
    assert_eq!(late.declare("q", PASSIVE, b""), ((12 << 20) / BODY_LEN) as u32);
    assert_eq!(node.stop().code(), Some(0));
}
