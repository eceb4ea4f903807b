//! Three real nodes on this machine whose catalog is one of their logs: what is declared at one is there at the others, stays when
//! whoever leads is killed, and comes to a node that was away.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the shell, where these live"
)]

mod harness;

use harness::http::{GUEST, ask, fetch};
use harness::nodes::{COOKIE, LOGS, Nodes, confirming, get, others, publish, until};
use harness::{Client, DURABLE, Folder, PASSIVE, ctl, long, method, short};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The log of the catalog.
const CATALOG: u32 = 0;

impl Nodes {
    /// Status and answer of a request to the HTTP API of a node.
    fn ask(&self, at: usize, line: &str, body: &Value) -> (u16, Value) {
        ask(self.doors[at].1, GUEST, line, body)
    }

    /// Something is made by a request at a node.
    fn put(&self, at: usize, line: &str, body: &Value) {
        let (status, answer) = self.ask(at, line, body);
        assert!((200..300).contains(&status), "node {at}: {line}: {status} {answer}");
    }

    /// The answer of a node about something that is there.
    fn get(&self, at: usize, path: &str) -> Value {
        let (status, answer) = self.ask(at, &format!("GET {path}"), &Value::Null);
        assert_eq!(status, 200, "node {at}: {path}: {answer}");
        answer
    }
}

/// Declares a queue passively, which has to be there: how many messages are in it is said by the node that leads its log.
fn find(client: &mut Client, queue: &str) {
    client.declare(queue, PASSIVE, &[]);
}

#[test]
fn what_is_declared_at_one_node_is_there_at_the_others_when_the_answer_comes() {
    let nodes = Nodes::all();
    for at in 0..3 {
        let vhost = format!("v{at}");
        nodes.put(at, &format!("PUT vhosts/{vhost}"), &Value::Null);
        nodes.put(
            at,
            &format!("PUT users/u{at}"),
            &json!({"password": format!("u{at}"), "tags": "management"}),
        );
        let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
        nodes.put(at, &format!("PUT permissions/%2F/u{at}"), &all);
        nodes.put(at, &format!("PUT queues/{vhost}/q"), &json!({"durable": true}));
        nodes.put(at, &format!("PUT exchanges/{vhost}/e"), &json!({"type": "topic", "durable": true}));
        nodes.put(at, &format!("POST bindings/{vhost}/e/e/q/q"), &json!({"routing_key": "k.#"}));
        let policy = json!({"pattern": "^q$", "definition": {"max-length": 7}, "apply-to": "queues"});
        nodes.put(at, &format!("PUT policies/{vhost}/p"), &policy);
        for other in 0..3 {
            assert_eq!(nodes.get(other, &format!("vhosts/{vhost}"))["name"], vhost);
            assert_eq!(nodes.get(other, &format!("users/u{at}"))["tags"], json!(["management"]));
            assert_eq!(nodes.get(other, &format!("permissions/%2F/u{at}"))["read"], ".*");
            assert_eq!(nodes.get(other, &format!("exchanges/{vhost}/e"))["type"], "topic");
            assert_eq!(nodes.get(other, &format!("policies/{vhost}/p"))["definition"]["max-length"], 7);
            let bindings = nodes.get(other, &format!("bindings/{vhost}/e/e/q/q"));
            assert_eq!(bindings[0]["routing_key"], "k.#", "node {other}: {bindings}");
            // The password too: this is a login.
            let mut client = Client::open_as(nodes.node(other), &format!("u{at}"));
            match other {
                0 => _ = client.declare(&format!("mine{at}"), DURABLE, &[]),
                _ => find(&mut client, &format!("mine{at}")),
            }
        }
    }
}

/// Over AMQP 0-9-1, each node in turn, at once at the next one.
#[test]
fn a_queue_is_found_at_another_node_as_soon_as_it_is_declared() {
    let nodes = Nodes::all();
    let mut clients: Vec<Client> = (0..3).map(|at| Client::open(nodes.node(at))).collect();
    for number in 0..150 {
        let name = format!("q{number}");
        clients[number % 3].declare(&name, DURABLE, &[]);
        find(&mut clients[(number + 1) % 3], &name);
        find(&mut clients[(number + 2) % 3], &name);
    }
    // A queue that is deleted is gone as soon.
    let delete = [&[0, 0], &short("q7")[..], &[0]].concat();
    clients[0].send(&method(50, 40, &delete));
    clients[0].until(50, 41);
    for client in &mut clients[1..] {
        let passive = [&[0, 0], &short("q7")[..], &[PASSIVE], &long(&[])].concat();
        client.send(&method(50, 10, &passive));
        let told = client.until(20, 40);
        assert_eq!(told[..2], 404u16.to_be_bytes(), "{told:?}");
    }
}

/// Each declaration that was answered is there when whoever leads the catalog is killed meanwhile, and comes back.
#[test]
fn answered_declarations_outlive_the_leader_of_the_catalog() {
    const ROUNDS: usize = 4;
    let mut nodes = Nodes::all();
    let mut declared = Vec::new();
    for round in 0..ROUNDS {
        let leader = until("a leader of the catalog", || nodes.leader(CATALOG, &[0, 1, 2]));
        let left = others(leader);
        let mut clients: Vec<Client> = left.iter().map(|at| Client::open(nodes.node(*at))).collect();
        for number in 0..60 {
            if number == 20 {
                nodes.kill(leader);
            }
            let name = format!("q{round}.{number}");
            clients[number % 2].declare(&name, DURABLE, &[]);
            declared.push(name);
        }
        nodes.start(leader);
    }
    for at in 0..3 {
        let mut client = Client::open(nodes.node(at));
        declared.iter().for_each(|name| find(&mut client, name));
    }
}

/// The definitions that each node's configuration names are imported once nodes agree, and before clients come; as at a node alone,
/// they bring the users, and nobody else is made.
#[test]
fn definitions_of_a_start_are_there_before_clients() {
    let folder = Folder::new();
    let path = folder.0.join("definitions.json");
    let all = json!({"user": "boss", "vhost": "v", "configure": ".*", "write": ".*", "read": ".*"});
    let definitions = json!({
        "vhosts": [{"name": "v"}, {"name": "/"}],
        "users": [{"name": "boss", "password": "boss", "tags": "administrator"}],
        "permissions": [all, {"user": "boss", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
        "queues": [{"vhost": "/", "name": "orders", "durable": true, "auto_delete": false,
                    "arguments": {"x-queue-type": "quorum"}}],
    });
    std::fs::write(&path, definitions.to_string()).expect("a file");
    let key = format!("load_definitions={}", path.display());
    let mut nodes = Nodes::new();
    (0..3).for_each(|at| nodes.start_with(at, COOKIE, &[&key]));
    for at in 0..3 {
        find(&mut Client::open_as(nodes.node(at), "boss"), "orders");
        assert_eq!(nodes.ask(at, "GET whoami", &Value::Null).0, 401, "there is no guest at node {at}");
    }
    // One that comes back imports them again, to the same end.
    nodes.kill(1);
    nodes.start_with(1, COOKIE, &[&key]);
    find(&mut Client::open_as(nodes.node(1), "boss"), "orders");
    // With a file that cannot be imported it ends.
    nodes.kill(2);
    std::fs::write(&path, json!({"queues": [{"name": "q", "vhost": "nowhere"}]}).to_string())
        .expect("a file");
    nodes.start_with(2, COOKIE, &[&key]);
    let child = &mut nodes.nodes[2].as_mut().expect("it was started").child;
    let status = until("an end", || child.try_wait().expect("it is ours"));
    assert!(!status.success());
}

/// The node that was away lacks entries of the catalog's log that the others have let go of: it is sent the state, and begins anew
/// with that, without a new process.
#[test]
fn a_node_that_was_away_for_many_changes_begins_anew_with_them() {
    let few = ["leveret.shards=1", "leveret.logs=2", "leveret.journal_file_bytes=1048576"];
    let mut nodes = Nodes::new();
    (0..3).for_each(|at| nodes.start_with(at, COOKIE, &few));
    let leader = until("a leader of the catalog", || nodes.leader(CATALOG, &[0, 1, 2]));
    let away = others(leader)[0];
    nodes.put(leader, "PUT users/late", &json!({"password": "late", "tags": ""}));
    let permissions = json!({"configure": ".*", "write": ".*", "read": ".*"});
    nodes.kill(away);
    nodes.put(leader, "PUT permissions/%2F/late", &permissions);
    let text = "x".repeat(2000);
    let mut client = Client::open(nodes.node(leader));
    for number in 0..5_000 {
        let argument = [&short("about")[..], b"S", &long(text.as_bytes())].concat();
        client.declare(&format!("q{number}"), DURABLE, &argument);
    }
    nodes.start_with(away, COOKIE, &few);
    let pid = nodes.node(away).child.id();
    let log = until("a node that begins anew", || {
        let log = ctl(&nodes.folders[away].0, &["log_tail", "-N", "300"]);
        let log = String::from_utf8_lossy(&log.stdout).into_owned();
        log.contains("the node begins anew, with the catalog of another").then_some(log)
    });
    assert!(log.contains("log 0: its state on another node is put in place"), "{log}");
    until("a node that is as far as the others", || {
        let applied = (nodes.applied(away, CATALOG)?, nodes.applied(leader, CATALOG)?);
        (applied.0 == applied.1).then_some(())
    });
    assert_eq!(nodes.node(away).child.id(), pid);
    let mut client = Client::open_as(nodes.node(away), "late");
    for number in [0, 1, 2_500, 4_999] {
        find(&mut client, &format!("q{number}"));
    }
    // It takes part again.
    let mut there = Client::open(nodes.node(away));
    there.declare("behind", DURABLE, &[]);
    find(&mut Client::open(nodes.node(leader)), "behind");
}

/// A queue that was declared at any node takes messages at every node, and gives them out at every other, whichever leads its log.
#[test]
fn messages_go_through_any_node_to_any_other() {
    let nodes = Nodes::all();
    Client::open(nodes.node(0)).declare("q", DURABLE, &[]);
    let mut clients: Vec<Client> = (0..3).map(|at| confirming(nodes.node(at))).collect();
    for round in 0..30_u8 {
        let (from, to) = (usize::from(round) % 3, usize::from(round / 3) % 3);
        publish(&mut clients[from], &[round]);
        assert_eq!(get(&mut clients[to]), Some(vec![round]), "from node {from} to node {to}");
        assert_eq!(clients[from].declare("q", PASSIVE, &[]), 0, "node {from}, round {round}");
    }
}

/// Each log is led by one node after the other, as asked, and clients go on.
#[test]
fn a_node_has_another_lead() {
    let nodes = Nodes::all();
    Client::open(nodes.node(0)).declare("q", DURABLE, &[]);
    for round in 0..4_u8 {
        for log in 0..LOGS {
            let leader = until("a leader", || nodes.leader(log, &[0, 1, 2]));
            let next = (leader + 1) % 3;
            let words = ["give_lead", &log.to_string(), &(next + 1).to_string()];
            let told = ctl(&nodes.folders[leader].0, &words);
            assert_eq!(String::from_utf8_lossy(&told.stdout), "true\n", "{told:?}");
            until("the next leader", || (nodes.leader(log, &[0, 1, 2])? == next).then_some(()));
            let told = ctl(&nodes.folders[leader].0, &words);
            assert_eq!(String::from_utf8_lossy(&told.stdout), "false\n", "{told:?}");
        }
        let (from, to) = (usize::from(round) % 3, usize::from(round + 1) % 3);
        publish(&mut confirming(nodes.node(from)), &[round]);
        assert_eq!(get(&mut Client::open(nodes.node(to))), Some(vec![round]));
    }
    let told = ctl(&nodes.folders[0].0, &["give_lead", "1", "9"]);
    assert!(!told.status.success(), "{told:?}");
}

/// Where two of three nodes are gone, nothing can be declared, and what is there is still said to be there.
#[test]
fn without_a_majority_a_declaration_is_refused_as_with_rabbitmq() {
    let mut nodes = Nodes::all();
    let mut client = Client::open(nodes.node(0));
    client.declare("there", DURABLE, &[]);
    nodes.kill(1);
    nodes.kill(2);
    let began = Instant::now();
    client.send(&method(50, 10, &[&[0, 0], &short("q")[..], &[DURABLE], &long(&[])].concat()));
    let told = client.until(10, 50);
    assert!((4..10).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(told[..2], 541u16.to_be_bytes());
    let text = "INTERNAL_ERROR - Could not declare queue 'q' in vhost '/' on node 'rabbit@n0' because the metadata store \
                operation timed out";
    assert_eq!(String::from_utf8_lossy(&told[3..3 + usize::from(told[2])]), text);
    assert_eq!(nodes.get(0, "exchanges/%2F/amq.topic")["type"], "topic");
    // With a majority all goes on.
    nodes.start(1);
    let mut client = Client::open(nodes.node(0));
    client.declare("q2", DURABLE, &[]);
    find(&mut Client::open(nodes.node(1)), "q2");
}

/// Tools at any node show all of them, running or not.
#[test]
fn each_node_answers_for_all() {
    let mut nodes = Nodes::all();
    let names = json!(["rabbit@n0", "rabbit@n1", "rabbit@n2"]);
    let status = |nodes: &Nodes, at: usize| -> Value {
        let told = ctl(&nodes.folders[at].0, &["cluster_status", "--formatter", "json"]);
        serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{told:?}"))
    };
    for at in 0..3 {
        until("news of all nodes", || {
            let rows = nodes.get(at, "nodes");
            rows.as_array()?
                .iter()
                .all(|row| row["mem_used"].is_u64() && row["running"] == true)
                .then_some(())
        });
        let rows = nodes.get(at, "nodes");
        let found: Value = rows.as_array().expect("a list").iter().map(|row| row["name"].clone()).collect();
        assert_eq!(found, names);
        let row = nodes.get(at, "nodes/rabbit@n2");
        assert_eq!(row["os_pid"], nodes.node(2).child.id().to_string(), "{row}");
        assert_eq!(nodes.ask(at, "GET nodes/rabbit@n9", &Value::Null).0, 404);
        let overview = nodes.get(at, "overview");
        for (node, (amqp, http)) in nodes.doors.iter().enumerate() {
            let is_there = |list: &Value, port: Value| {
                let own = format!("rabbit@n{node}");
                list.as_array().expect("a list").iter().any(|row| row["node"] == own && row["port"] == port)
            };
            assert!(is_there(&overview["listeners"], (*amqp).into()), "{overview}");
            assert!(is_there(&overview["contexts"], http.to_string().into()), "{overview}");
        }
        let status = status(&nodes, at);
        assert_eq!((&status["disk_nodes"], &status["running_nodes"]), (&names, &names), "{status}");
        assert_eq!(status["partitions"], json!({}));
        for name in ["rabbit@n0", "rabbit@n1", "rabbit@n2"] {
            assert_eq!(status["maintenance_status"][name], "not under maintenance");
            assert_eq!(status["versions"][name]["rabbitmq_name"], "Leveret", "{status}");
            assert!(status["cpu_cores"][name].as_u64().is_some_and(|cores| cores > 0), "{status}");
            let listeners = status["listeners"][name].as_array().expect("a list").iter();
            let purposes: Vec<&Value> = listeners.map(|row| &row["purpose"]).collect();
            assert!(purposes.contains(&&json!("AMQP 0-9-1 and AMQP 1.0")), "{status}");
            assert!(purposes.contains(&&json!("inter-node and CLI tool communication")), "{status}");
        }
    }
    let logs = until("a leader of each log, whom all follow", || {
        let told = nodes.get(1, "x/cluster");
        assert_eq!(told["node"], "rabbit@n1");
        let logs = told["logs"].as_array()?.clone();
        let is_level = |log: &Value| {
            let members = log["members"].as_array().expect("a list");
            log["leader"].is_string() && members.len() == 3 && members.iter().all(|own| own["behind"] == 0)
        };
        (logs.len() == LOGS as usize && logs.iter().all(is_level)).then_some(logs)
    });
    let leader = nodes.leader(CATALOG, &[0, 1, 2]).expect("one leads");
    assert_eq!(logs[0]["leader"], format!("rabbit@n{leader}"));
    assert_eq!((&logs[0]["has_catalog"], &logs[1]["has_catalog"]), (&json!(true), &json!(false)));
    let lanes = &nodes.get(1, "x/cluster")["nodes"][0]["lanes"];
    assert!(lanes["open"] == lanes["dialed"] && lanes["sent_bytes"].as_u64() > Some(0), "{lanes}");
    nodes.kill(2);
    let dead = until("a node that is not reached", || {
        let row = nodes.get(0, "nodes/rabbit@n2");
        (row["running"] == false).then_some(row)
    });
    let expected = json!({"name": "rabbit@n2", "running": false, "type": "disc", "being_drained": false,
                          "cluster_links": []});
    assert_eq!(dead, expected);
    let status = status(&nodes, 0);
    assert_eq!(status["disk_nodes"], names);
    assert_eq!(status["running_nodes"], json!(["rabbit@n0", "rabbit@n1"]));
    assert!(status["listeners"]["rabbit@n2"].is_null(), "{status}");
    let told = ctl(&nodes.folders[0].0, &["cluster_status"]);
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(
        text.contains(
            "Disk Nodes\n\nrabbit@n0\nrabbit@n1\nrabbit@n2\n\nRunning Nodes\n\nrabbit@n0\nrabbit@n1\n\n"
        ),
        "{text}"
    );
}

/// Metrics of a node say what it leads, how far it is, and what goes over its lanes.
#[test]
fn metrics_tell_of_logs_and_lanes() {
    let mut nodes = Nodes::all();
    nodes.leaders(&[0, 1, 2]);
    let leader = until("a leader of the catalog", || nodes.leader(CATALOG, &[0, 1, 2]));
    let value = |nodes: &Nodes, at: usize, series: &str| {
        let text = fetch(nodes.metrics[at], "/metrics");
        let line = text.lines().find(|line| line.starts_with(series));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("{series}: {text}"))
    };
    for at in 0..3 {
        let leads = value(&nodes, at, "rabbitmq_leveret_log_leads{log=\"0\"}");
        assert_eq!(leads, f64::from(u8::from(at == leader)));
        assert_eq!(value(&nodes, at, "rabbitmq_leveret_log_has_leader{log=\"1\"}"), 1.0);
        assert!(value(&nodes, at, "rabbitmq_leveret_log_applied_index{log=\"0\"}") > 0.0);
        assert!(value(&nodes, at, "rabbitmq_raft_term{module=\"rabbit_khepri\"") > 0.0);
        let other = format!("rabbit@n{}", (at + 1) % 3);
        assert_eq!(value(&nodes, at, &format!("rabbitmq_leveret_lanes_open{{peer=\"{other}\"}}")), 3.0);
        for direction in ["sent", "received"] {
            let series = format!("rabbitmq_leveret_lanes_{direction}_bytes_total{{peer=\"{other}\"}}");
            until("words between nodes", || (value(&nodes, at, &series) > 1000.0).then_some(()));
        }
        assert_eq!(value(&nodes, at, "rabbitmq_unreachable_cluster_peers_count"), 0.0);
    }
    let begun: f64 = (0..3).map(|at| value(&nodes, at, "rabbitmq_leveret_log_leads_begun_total")).sum();
    assert!(begun >= f64::from(LOGS), "each log is led");
    nodes.kill((leader + 1) % 3);
    until("a node that is not reached", || {
        (value(&nodes, leader, "rabbitmq_unreachable_cluster_peers_count") == 1.0).then_some(())
    });
}

/// A command that ends its nodes with itself, also where a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let is_over = self.0.try_wait().is_ok_and(|status| status.is_some());
        if !is_over && kill_process(Pid::from_child(&self.0), Signal::TERM).is_ok() {
            let _ = self.0.wait();
        }
    }
}

/// Three nodes by one command: each serves, what is declared at one is at the others, and one signal ends them.
#[test]
fn one_command_runs_a_cluster() {
    let folder = Folder::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    command.env_clear().args(["cluster", "3", "--data-dir"]).arg(&folder.0);
    command.args(["--set", "leveret.shards=1"]).stdout(Stdio::piped());
    let mut running = Running(command.spawn().expect("starts"));
    let mut lines = BufReader::new(running.0.stdout.take().expect("piped")).lines();
    let mut ports = Vec::new();
    while ports.len() < 3 {
        let line = lines.next().expect("three nodes").expect("text");
        if let Some((_, rest)) = line.split_once("@localhost: amqp://127.0.0.1:") {
            let (amqp, _) = rest.split_once(',').expect("more");
            ports.push(amqp.parse::<u16>().expect("a port"));
        }
    }
    // Nothing stops for want of a reader.
    let reader = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<String>>());
    let connect =
        |port: u16| until("a node that serves", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
    let mut clients: Vec<Client> = ports.iter().map(|port| Client::greet(connect(*port), "guest")).collect();
    clients[0].declare("q", DURABLE, &[]);
    clients[1..].iter_mut().for_each(|client| find(client, "q"));
    kill_process(Pid::from_child(&running.0), Signal::INT).expect("it is there");
    let ended = until("the end of all", || running.0.try_wait().expect("waits"));
    let lines = reader.join().expect("read");
    assert!(ended.success(), "{lines:?}");
    for port in ports {
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "nothing listens any more");
    }
    for number in 1..=3 {
        let is_last = |line: &String| {
            line.starts_with(&format!("rabbit{number} |")) && line.contains("the node has stopped")
        };
        assert!(lines.iter().any(is_last), "{lines:?}");
    }
}
