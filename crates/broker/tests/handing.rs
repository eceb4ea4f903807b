//! A log goes from one shard to another while it serves: nothing is lost, doubled or overtaken.

use crate::node;

use base::id::{LogId, LogIndex, PortId, ShardId};
use broker::catalog::Op;
use broker::{
    CommitRule, Credit, Held, Limits, Mail, NewConsumer, Publisher, QueueCommand, StreamCommand,
    StreamFilter, StreamFrom,
};
use journal::{Disk, FileKind};
use message::record::{Format, Outcome};
use node::{NOW, Node};
use routing::Value;
use std::io::IoSlice;

/// The log that moves: shard 1's of three.
const LOG: LogId = LogId(1);

/// A node of three shards with a log each, and the queue `q` on the second one's.
fn node() -> Node {
    node_taking_in(Limits::default().taken_in_at_once_max)
}

/// As [`node`]; a log that comes to a shard takes in so much at once of what waited.
fn node_taking_in(taken_in_at_once_max: usize) -> Node {
    let mut node = Node::with_limits(3, Limits { taken_in_at_once_max, ..Limits::default() });
    assert_eq!(node.declare(1, "q", true), LOG);
    node
}

/// Asks for the move of a log to a shard.
fn ask(node: &mut Node, log: u32, to: u16) {
    let port = node.ports[0];
    node.shards[0].move_log(port, 3, LogId(log), ShardId(to));
}

/// Has the log moved to a shard.
fn hand(node: &mut Node, to: u16) {
    ask(node, LOG.0, to);
    node.settle();
    assert_eq!(places(node), [usize::from(to)]);
}

/// The shards that have the log.
fn places(node: &Node) -> Vec<usize> {
    (0..node.shards.len())
        .filter(|shard| node.shards[*shard].logs().on_disk().any(|log| log == LOG))
        .collect()
}

/// Whether a shard knows the log as on its way.
fn moving(node: &Node) -> [bool; 3] {
    [0, 1, 2].map(|shard| node.shards[shard].has_moves())
}

/// The lines of a shard since the last time.
fn seen_of(node: &mut Node, shard: usize) -> Vec<String> {
    let of = format!("{shard}: ");
    node.take_seen().into_iter().filter_map(|line| Some(line.strip_prefix(&of)?.to_owned())).collect()
}

#[test]
fn an_operator_is_told_what_does_not_move() {
    let mut node = node();
    let mut check = |log, to, expected: &str| {
        ask(&mut node, log, to);
        node.settle();
        assert_eq!(node.take_seen(), [format!("0: {expected}")]);
    };
    check(9, 0, "NOT_FOUND - no log 9");
    check(1, 3, "NOT_FOUND - no shard 3");
    check(0, 1, "PRECONDITION_FAILED - log 0 stays where it is: it is the catalog's");
    check(4, 0, "PRECONDITION_FAILED - log 4 stays where it is: it is in memory");
    check(1, 1, "Unchanged");
    check(1, 2, "Done");
    check(1, 2, "Unchanged");
    node.shards.iter_mut().for_each(|shard| shard.stop_log(LOG));
    ask(&mut node, 1, 0);
    node.settle();
    assert_eq!(
        node.take_seen(),
        ["0: INTERNAL_ERROR - log 1 is damaged on disk, and stopped; see the node's log"]
    );
    ask(&mut node, 2, 0);
    ask(&mut node, 2, 1);
    node.settle();
    assert_eq!(
        node.take_seen(),
        ["0: PRECONDITION_FAILED - log 2 is handed to another shard already", "0: Done"]
    );
}

#[test]
fn consumers_and_what_they_hold_stay() {
    let mut node = node();
    for (port, handle) in [(0, 7), (1, 8), (2, 9)] {
        node.consume(port, "q", handle, 2);
    }
    node.settle();
    node.take_seen();
    let mut publisher = node.publisher(0);
    for body in ["a", "b", "c", "d", "e", "f"] {
        node.publish(0, &mut publisher, "q", body, true);
    }
    node.settle();
    assert_eq!(seen_of(&mut node, 2), ["9 gets c@2", "9 gets f@5"]);
    hand(&mut node, 2);
    assert_eq!(node.take_seen(), ["0: Done"]);
    for body in ["g", "h", "i"] {
        node.publish(0, &mut publisher, "q", body, true);
    }
    node.settle();
    assert_eq!(node.take_seen(), ["0: 5 confirmed 7-9"], "all hold two");
    // Deliveries of before are settled now.
    node.settled(0, "q", 7, (1, 1), Outcome::Accepted);
    node.settled(1, "q", 8, (0, 0), Outcome::Accepted);
    node.settled(2, "q", 9, (2, 2), Outcome::Released);
    node.settle();
    let seen = node.take_seen();
    assert_eq!(seen.iter().filter(|line| line.contains(" gets ")).count(), 3, "{seen:?}");
    assert!(seen.iter().any(|line| line.contains("gets c@2 again")), "{seen:?}");
    // A connection that closes is heard of where the log is.
    let port = node.ports[0];
    node.shards[0].close_port(NOW, port);
    hand(&mut node, 0);
    node.settle();
    let row = node.shards[0].listing().rows().find(|row| &*row.definition.name == "q").unwrap();
    assert_eq!((row.consumers, row.unsettled), (2, 4));
}

#[test]
fn a_log_that_goes_round_keeps_its_order_under_load() {
    let mut node = node();
    node.consume(0, "q", 7, 0);
    node.settle();
    node.take_seen();
    let mut publishers = [0, 1, 2].map(|port| node.publisher(port));
    let (mut delivered, mut confirmed) = (Vec::new(), [0; 3]);
    for round in 0..300u32 {
        if round % 5 == 0 {
            ask(&mut node, LOG.0, (round / 5 % 3) as u16);
        }
        for (port, publisher) in publishers.iter_mut().enumerate() {
            node.publish(port, publisher, "q", &format!("{port} {round}"), round % 4 > 0);
        }
        // Batches of some rounds are written late.
        if round % 3 > 0 {
            node.settle()
        } else {
            node.turn()
        }
        for line in node.take_seen() {
            if let Some((_, got)) = line.split_once(" gets ") {
                delivered.push(got.split('@').next().unwrap().to_owned());
            } else if let Some((_, range)) = line.split_once(" confirmed ") {
                let port = line[..1].parse::<usize>().unwrap();
                let (first, last) = range.split_once('-').unwrap();
                confirmed[port] += last.parse::<u64>().unwrap() - first.parse::<u64>().unwrap() + 1;
            }
        }
    }
    node.settle();
    for line in node.take_seen() {
        if let Some((_, got)) = line.split_once(" gets ") {
            delivered.push(got.split('@').next().unwrap().to_owned());
        }
    }
    for port in 0..3 {
        let of = format!("{port} ");
        let own: Vec<_> = delivered.iter().filter_map(|body| body.strip_prefix(&of)).collect();
        let expected: Vec<_> = (0..300).map(|round| round.to_string()).collect();
        assert_eq!(own, expected, "of shard {port}");
        assert!(confirmed[port] >= 224, "{confirmed:?}");
    }
    assert_eq!(places(&node).len(), 1);
    assert_eq!(moving(&node), [false; 3]);
}

#[test]
fn what_comes_on_the_way_waits_in_order() {
    let mut node = node();
    let mut publisher = node.publisher(2);
    node.publish(2, &mut publisher, "q", "before", true);
    node.turn();
    // The owner hears last of the move; shard 2 has penned by then.
    ask(&mut node, LOG.0, 2);
    let mut of_planner = node.turn_of(0);
    node.receive(2, std::mem::take(&mut of_planner[2]));
    assert_eq!(moving(&node), [true, false, true]);
    node.publish(2, &mut publisher, "q", "penned", true);
    node.consume(2, "q", 9, 0);
    node.publish(2, &mut publisher, "q", "penned too", true);
    let mut of_third = node.turn_of(2);
    assert!(of_third[1].iter().all(|mail| matches!(mail, Mail::Penned { .. })), "{of_third:?}");
    node.receive(1, std::mem::take(&mut of_third[1]));
    node.receive(1, std::mem::take(&mut of_planner[1]));
    // Records of before are at the disk: the log waits for it, and hands out no more.
    let mut of_owner = node.turn_of(1);
    assert!(of_owner[2].is_empty() && node.shards[1].logs().leaving().eq([LOG]));
    assert_eq!(places(&node), [0; 0]);
    assert!(!node.shards[1].has_work(), "it waits for the disk");
    node.write();
    assert!(node.shards[1].has_work(), "it can go");
    of_owner = node.turn_of(1);
    assert!(of_owner[2].iter().any(|mail| matches!(mail, Mail::Handed(_))));
    assert!(of_owner[0].iter().any(|mail| matches!(mail, Mail::Follow { .. })));
    for mail in of_owner.pop().unwrap() {
        // The confirm of what was before is among it.
        node.shards[2].receive(NOW, mail);
    }
    assert_eq!(places(&node), [0; 0], "shard 0 has not followed");
    node.receive(0, of_owner.swap_remove(0));
    let of_planner = node.turn_of(0).swap_remove(2);
    node.receive(2, of_planner);
    assert!(node.shards[2].has_work(), "it can take in what waits");
    let of_third = node.turn_of(2).swap_remove(0);
    assert_eq!((places(&node), moving(&node)), (vec![2], [false; 3]));
    node.receive(0, of_third);
    node.settle();
    assert_eq!(
        seen_of(&mut node, 2),
        ["Consuming", "9 gets before@0", "5 confirmed 2-3", "9 gets penned@1", "9 gets penned too@2"]
    );
}

/// The third shard has been handed the log, and all follow. Before that it penned what `pen` has it do.
fn handed_over_behind(node: &mut Node, pen: impl FnOnce(&mut Node)) {
    ask(node, LOG.0, 2);
    let mut of_planner = node.turn_of(0);
    node.receive(2, std::mem::take(&mut of_planner[2]));
    pen(node);
    node.receive(1, std::mem::take(&mut of_planner[1]));
    let of_third = node.turn_of(2).swap_remove(1);
    node.receive(1, of_third);
    let mut of_owner = node.turn_of(1);
    node.receive(2, std::mem::take(&mut of_owner[2]));
    node.receive(0, std::mem::take(&mut of_owner[0]));
    let of_planner = node.turn_of(0).swap_remove(2);
    node.receive(2, of_planner);
}

#[test]
fn what_waited_is_taken_in_a_little_at_a_time() {
    const AT_ONCE: usize = 3;
    const MESSAGES: usize = 10;
    let mut node = node_taking_in(AT_ONCE);
    let mut publisher = node.publisher(2);
    let mut published = 0;
    // Each message is a piece by itself, as there is a command behind it.
    let mut publish = |node: &mut Node| {
        for _ in 0..MESSAGES {
            node.publish(2, &mut publisher, "q", &published.to_string(), true);
            node.command(2, "q", QueueCommand::Counts { token: 4 });
            published += 1;
        }
    };
    handed_over_behind(&mut node, &mut publish);
    let mut rounds = 0;
    while node.shards[2].has_moves() {
        assert!(node.shards[2].has_pressing_work());
        let of_third = node.turn_of(2).swap_remove(0);
        node.receive(0, of_third);
        // The numbers of two logs on disk and one in memory are counted with the first.
        let numbers = if rounds == 0 { 3 } else { 0 };
        let left = 2 * MESSAGES - AT_ONCE * rounds;
        assert_eq!(node.shards[2].logs().move_steps(), left.min(AT_ONCE) + numbers, "round {rounds}");
        rounds += 1;
        // More of what comes is taken in with it, and does not make it longer.
        publish(&mut node);
    }
    assert_eq!(rounds, (2 * MESSAGES).div_ceil(AT_ONCE));
    node.settle();
    node.consume(2, "q", 9, 0);
    node.settle();
    let seen = seen_of(&mut node, 2);
    let got: Vec<&str> = seen.iter().filter_map(|line| line.strip_prefix("9 gets ")).collect();
    let expected: Vec<String> =
        (0..MESSAGES * (rounds + 1)).map(|number| format!("{number}@{number}")).collect();
    assert_eq!(got, expected);
}

#[test]
fn records_that_wait_are_in_pieces() {
    let mut node = node_taking_in(1);
    let mut publisher = node.publisher(2);
    handed_over_behind(&mut node, |node| {
        for _ in 0..8 {
            node.publish(2, &mut publisher, "q", &"x".repeat(30 << 10), true);
        }
    });
    let mut rounds = 0;
    while node.shards[2].has_moves() {
        node.turn_of(2);
        rounds += 1;
    }
    assert_eq!(rounds, 3, "three messages are more than 64 KiB");
}

#[test]
fn queues_that_come_and_go_on_the_way_are_there_and_gone() {
    // Whether the new owner or the old hears first of the changes, and how many it makes up for at once.
    for (first, second, at_once) in [(1, 2, 64), (2, 1, 64), (2, 1, 1)] {
        let mut node = node_taking_in(at_once);
        node.declare(1, "old", true);
        ask(&mut node, LOG.0, 2);
        let mut of_planner = node.turn_of(0);
        node.receive(first, std::mem::take(&mut of_planner[first]));
        let port = node.ports[2];
        node.shards[2].request(NOW, port, 1, Node::declaration("new", true, &[]));
        let port = node.ports[1];
        node.shards[1].request(NOW, port, 1, Node::declaration("newer", true, &[]));
        let old = node.shards[0].catalog().queues().find(|queue| &*queue.name == "old").unwrap().id;
        node.shards[1].request(NOW, port, 1, Op::DeleteQueue { id: old });
        node.receive(second, std::mem::take(&mut of_planner[second]));
        node.settle();
        let mut names: Vec<_> =
            node.shards[2].listing().rows().map(|row| row.definition.name.to_string()).collect();
        names.sort();
        let on_log = |name: &str| {
            node.shards[0].catalog().queues().find(|queue| &*queue.name == name).map(|queue| queue.log)
        };
        assert_eq!(on_log("new").filter(|log| *log != LOG), Some(LogId(2)), "its shard has an emptier log");
        assert_eq!(names, ["new", "q"], "{first} hears first");
        assert_eq!((on_log("old"), places(&node)), (None, vec![2]));
    }
}

#[test]
fn what_is_kept_for_a_change_of_the_catalog_is_taken_in_before_the_log_goes() {
    let mut node = Node::with_logs(4, 8, Limits::default());
    assert_eq!((node.declare(1, "q", true), node.declare(1, "r", true)), (LOG, LogId(5)));
    let mut publisher = node.publisher(2);
    node.publish(2, &mut publisher, "q", "one", true);
    let sent = node.turn_of(2).swap_remove(1);
    ask(&mut node, LOG.0, 0);
    let mut of_planner = node.turn_of(0);
    let mut penned: Vec<Mail> = std::mem::take(&mut of_planner[1]);
    for shard in [2, 3] {
        node.receive(shard, std::mem::take(&mut of_planner[shard]));
    }
    node.receive(1, penned);
    // Shard 3 is ahead of the owner, which keeps what comes for its logs until it is as far.
    let port = node.ports[0];
    let op = Op::AddVhost { name: "v".into(), defaults: Default::default() };
    node.shards[0].request(NOW, port, 1, op);
    node.turn_of(0);
    node.write();
    of_planner = node.turn_of(0);
    node.receive(3, std::mem::take(&mut of_planner[3]));
    let mut other = node.publisher(3);
    node.publish(3, &mut other, "r", "two", true);
    penned = node.turn_of(3).swap_remove(1);
    node.receive(1, penned);
    node.receive(1, sent);
    penned = node.turn_of(2).swap_remove(1);
    node.receive(1, penned);
    let early = node.turn_of(1);
    assert!(early[0].iter().all(|mail| !matches!(mail, Mail::Handed(_))), "more is to come: {early:?}");
    for shard in [1, 2] {
        node.receive(shard, std::mem::take(&mut of_planner[shard]));
    }
    node.settle();
    assert_eq!(places(&node), [0]);
    let ready: Vec<_> = node.shards[0].listing().rows().map(|row| row.ready).collect();
    assert_eq!(ready, [1]);
}

#[test]
fn commands_that_wait_for_messages_go_along() {
    let mut node = node();
    let mut publisher = node.publisher(1);
    node.publish(1, &mut publisher, "q", "one", true);
    node.command(
        1,
        "q",
        QueueCommand::Get { token: 4, handle: 6, settled: false, behind: true, by_node: false },
    );
    // It is not at the disk when the log goes, nor is the command carried out.
    hand(&mut node, 0);
    assert_eq!(seen_of(&mut node, 1), ["5 confirmed 1-1", "6 takes one@0, 0 left"]);
    node.settled(1, "q", 6, (0, 0), Outcome::Accepted);
    node.command(2, "q", QueueCommand::Purge { token: 4 });
    node.settle();
    assert_eq!(node.take_seen(), ["2: Purged { messages: 0 }"]);
}

/// A consumer reads a stream from its first message on, and settles nothing.
fn read_stream(handle: u32) -> QueueCommand {
    let consumer = NewConsumer {
        credit: Credit::Prefetch(0),
        settled: true,
        exclusive: false,
        priority: 0,
        browses: None,
        timeout_ms: None,
    };
    let read = StreamCommand::Consume {
        token: 2,
        handle,
        consumer,
        format: Format::Amqp10,
        from: StreamFrom::First,
        filter: StreamFilter::default(),
        rate: None,
        user: 0,
        name: None,
    };
    QueueCommand::Stream(Box::new(read))
}

#[test]
fn reads_and_streams_go_on_elsewhere() {
    let limits = Limits { resident_bytes_max: 64 << 10, ..Limits::default() };
    let mut node = Node::with_limits(3, limits);
    assert_eq!(node.declare(1, "q", true), LOG);
    assert_eq!(node.declare_with(1, "s", true, &[("x-queue-type", Value::text("stream"))]), LOG);
    let mut publisher = node.publisher(0);
    let mut publish = |node: &mut Node, numbers: std::ops::Range<u32>| {
        for number in numbers {
            let body = format!("{number:0>10000}");
            node.publish(0, &mut publisher, "q", &body, true);
            node.publish(0, &mut publisher, "s", &body, true);
            node.settle();
        }
    };
    publish(&mut node, 0..20);
    node.command(0, "s", read_stream(8));
    node.consume(2, "q", 9, 0);
    node.turn();
    // Reads are under way.
    let mut reads = Vec::new();
    node.shards[1].take_reads(&mut reads);
    assert!(!reads.is_empty());
    hand(&mut node, 0);
    // Those that end where the log was are heard of where it is.
    for mut read in reads {
        let brought = read.carry_out(&node.disk).into_iter().map(Result::unwrap).collect();
        node.shards[1].read_done(NOW, read, brought);
    }
    publish(&mut node, 20..25);
    (0..9).for_each(|_| node.read());
    node.work();
    let seen = node.take_seen();
    for of in ["2: 9 gets ", "0: 8 gets "] {
        let offset = |line: &String| Some(line.strip_prefix(of)?.rsplit_once('@')?.1.to_owned());
        let got: Vec<_> = seen.iter().filter_map(offset).collect();
        let expected: Vec<_> = (0..25).map(|number| number.to_string()).collect();
        assert_eq!(got, expected, "{of}");
    }
}

/// Readers may have passed over it by then: the next shard would tell it too late.
#[test]
fn damage_in_a_stream_is_told_by_the_shard_that_found_it() {
    let mut node = Node::with_limits(3, Limits::default());
    let size = Value::Int(routing::IntType::SignedInt, 50_000);
    let arguments = [("x-queue-type", Value::text("stream")), ("x-stream-max-segment-size-bytes", size)];
    assert_eq!(node.declare_with(1, "s", true, &arguments), LOG);
    let mut publisher = node.publisher(0);
    for number in 0..20 {
        node.publish(0, &mut publisher, "s", &format!("{number:0>10000}"), true);
        node.settle();
    }
    node.work();
    // The files hold all that a snapshot knows.
    for _ in 0..2 {
        node.shards[1].snapshot(LOG, false).unwrap();
        for job in node.shards[1].logs_mut().take_stream_syncs(LOG) {
            node.shards[1].stream_done(NOW, job.carry_out(&node.disk));
        }
        node.shards[1].logs_mut().snapshot_written(LOG);
    }
    let files = node.disk.list(FileKind::Stream).unwrap();
    node.disk.write_at(files[0], 25_000, &[IoSlice::new(b"rot")]).unwrap();
    node.command(0, "s", read_stream(8));
    node.work();
    hand(&mut node, 0);
    assert_eq!((node.damages(0).len(), node.damages(1).len()), (0, 1));
}

#[test]
fn dead_letters_under_way_end_where_the_log_is() {
    let mut node = node();
    let dead =
        [("x-dead-letter-exchange", Value::text("")), ("x-dead-letter-routing-key", Value::text("grave"))];
    assert_eq!(node.declare_with(1, "d", true, &dead), LOG);
    let grave = node.declare(2, "grave", true);
    assert_ne!(grave, LOG);
    node.consume(1, "d", 9, 0);
    let mut publisher = node.publisher(1);
    node.publish(1, &mut publisher, "d", "one", true);
    node.settle();
    node.settled(1, "d", 9, (0, 0), Outcome::Rejected);
    // The copy is on its way to the disk when the log goes.
    node.turn();
    node.turn();
    ask(&mut node, LOG.0, 0);
    node.turn();
    node.settle();
    assert_eq!(places(&node), [0]);
    let row = |name: &str| {
        let rows = node.shards.iter().flat_map(|shard| shard.listing().rows());
        rows.filter(|row| &*row.definition.name == name).map(|row| (row.ready, row.dying)).collect::<Vec<_>>()
    };
    assert_eq!((row("grave"), row("d")), (vec![(1, 0)], vec![(0, 0)]));
}

/// A shard says something of which the one that has got the log has not heard: that is no reason to keep what waited for the
/// log while its connections go on.
#[test]
fn what_waited_for_a_log_comes_first_though_a_wave_of_changes_is_waited_for() {
    let mut node = Node::new(4);
    assert_eq!(node.declare(1, "q", true), LOG);
    assert_eq!(node.declare(2, "other", true), LogId(2));
    let pass = |node: &mut Node, mail: &mut Vec<Vec<Mail>>, to: usize| {
        node.receive(to, std::mem::take(&mut mail[to]));
    };
    ask(&mut node, LOG.0, 2);
    let mut of_planner = node.turn_of(0);
    (1..4).for_each(|to| pass(&mut node, &mut of_planner, to));
    let mut publisher = node.publisher(2);
    node.publish(2, &mut publisher, "q", "first", true);
    for from in [2, 3] {
        let mut mail = node.turn_of(from);
        pass(&mut node, &mut mail, 1);
    }
    let mut of_giver = node.turn_of(1);
    [2, 0, 3].into_iter().for_each(|to| pass(&mut node, &mut of_giver, to));
    let mut of_planner = node.turn_of(0);
    pass(&mut node, &mut of_planner, 2);
    let mut of_last = node.turn_of(3);
    // The others follow the log but for the last; one is a wave ahead of where it comes to.
    let (now, port) = (node.now, node.ports[0]);
    node.shards[0].request(now, port, 1, Node::declaration("new", true, &[]));
    node.turn_of(0);
    node.write();
    let mut wave = node.turn_of(0);
    pass(&mut node, &mut wave, 1);
    let mut other = node.publisher(1);
    node.publish(1, &mut other, "other", "x", true);
    let mut of_giver = node.turn_of(1);
    pass(&mut node, &mut of_giver, 2);
    pass(&mut node, &mut of_last, 2);
    let mut of_taker = node.turn_of(2);
    assert_eq!(places(&node), [2]);
    node.publish(2, &mut publisher, "q", "second", true);
    [2, 3].into_iter().for_each(|to| pass(&mut node, &mut wave, to));
    [0, 3].into_iter().for_each(|to| pass(&mut node, &mut of_giver, to));
    [0, 1, 3].into_iter().for_each(|to| pass(&mut node, &mut of_taker, to));
    node.settle();
    node.take_seen();
    node.consume(2, "q", 9, 0);
    node.settle();
    assert_eq!(seen_of(&mut node, 2), ["Consuming", "9 gets first@0", "9 gets second@1"]);
}

/// A node of three shards whose log is agreed on with others, and a queue with room for one message.
fn agreed() -> Node {
    let mut node = Node::new(3);
    node.shards[1].logs_mut().set_commit_rule(LOG, CommitRule::Quorum);
    node.shards[1].lead(NOW, LOG);
    assert_eq!(node.declare_with(1, "q", true, &[("x-max-length", Value::long(1))]), LOG);
    node
}

#[test]
fn what_others_agree_on_is_heard_where_the_log_comes_to() {
    let mut node = agreed();
    let mut publisher = node.publisher(1);
    node.publish(1, &mut publisher, "q", "one", true);
    node.settle();
    ask(&mut node, LOG.0, 2);
    let mut of_planner = node.turn_of(0);
    for shard in [1, 2] {
        node.receive(shard, std::mem::take(&mut of_planner[shard]));
    }
    let of_other = node.turn_of(2).swap_remove(1);
    node.receive(1, of_other);
    let mut of_owner = node.turn_of(1);
    // The log is in the mail: those who agree say so where it was, and where it is not yet.
    assert_eq!(places(&node), [0; 0]);
    node.shards[1].commit_outside(NOW, LOG, LogIndex(8));
    node.shards[2].commit_outside(NOW, LOG, LogIndex(1 << 20));
    node.settle();
    assert_eq!(node.take_seen(), [""; 0]);
    for shard in [0, 2] {
        node.receive(shard, std::mem::take(&mut of_owner[shard]));
    }
    node.settle();
    let mut seen = node.take_seen();
    seen.sort();
    assert_eq!((seen, places(&node)), (vec!["0: Done".into(), "1: 5 confirmed 1-1".into()], vec![2]));
}

#[test]
fn a_queue_is_owned_where_its_log_comes_to() {
    let mut node = agreed();
    let mut publisher = node.publisher(1);
    node.publish(1, &mut publisher, "q", "one", true);
    node.publish(1, &mut publisher, "q", "two", true);
    node.settle();
    node.shards[1].resign(NOW, LOG);
    node.shards[1].lead(NOW, LOG);
    node.settle();
    ask(&mut node, LOG.0, 2);
    let mut of_planner = node.turn_of(0);
    node.receive(1, std::mem::take(&mut of_planner[1]));
    // It begins to lead while the log leaves.
    node.shards[1].commit_outside(NOW, LOG, LogIndex(1 << 20));
    assert_eq!((places(&node), node.shards[1].logs().leads(LOG)), (vec![1], false));
    node.receive(2, std::mem::take(&mut of_planner[2]));
    node.settle();
    assert_eq!((places(&node), node.shards[2].logs().leads(LOG)), (vec![2], true));
    node.shards[2].commit_outside(NOW, LOG, LogIndex(1 << 20));
    node.settle();
    node.pass(1_000);
    node.shards[2].commit_outside(node.now, LOG, LogIndex(1 << 20));
    node.settle();
    let row = node.shards[2].listing().rows().find(|row| &*row.definition.name == "q").unwrap();
    assert_eq!((row.ready, row.head), (1, 1), "the rules hold there");
}

#[test]
fn a_move_begins_when_there_is_space() {
    let mut node = node();
    let mut publisher = node.publisher(1);
    node.shards.iter_mut().for_each(|shard| shard.keep_logs(true));
    ask(&mut node, LOG.0, 2);
    node.publish(1, &mut publisher, "q", "one", true);
    node.consume(2, "q", 9, 0);
    node.settle();
    assert_eq!((places(&node), moving(&node)), (vec![1], [false; 3]));
    let mut seen = node.take_seen();
    seen.sort();
    assert_eq!(seen, ["1: 5 confirmed 1-1", "2: 9 gets one@0", "2: Consuming"], "its clients go on");
    node.shards.iter_mut().for_each(|shard| shard.keep_logs(false));
    node.settle();
    assert_eq!((places(&node), node.take_seen()), (vec![2], vec!["0: Done".into()]));
}

/// The disk lacks space from now on, or has it again.
fn keep(node: &mut Node, keep: bool) {
    node.shards.iter_mut().for_each(|shard| shard.keep_logs(keep));
}

/// A node whose log is about to leave shard 1, and holds a message that shard 2 has taken out of `q`; what it sees is taken.
fn about_to_leave(publishers: &mut Option<[Publisher; 3]>) -> Node {
    let mut node = node();
    node.declare(1, "old", true);
    node.consume(2, "q", 9, 2);
    let mut all = [0, 1, 2].map(|port| node.publisher(port));
    node.publish(1, &mut all[1], "q", "one", true);
    node.settle();
    assert_eq!(seen_of(&mut node, 2), ["Consuming", "9 gets one@0"]);
    node.publish(1, &mut all[1], "q", "two", true);
    node.turn();
    ask(&mut node, LOG.0, 2);
    *publishers = Some(all);
    node
}

/// Clients go on with a log that was about to leave when the space ended, though nothing is written; and it leaves when there
/// is space again. `written`: the second message is on disk, and a change of the catalog is to be answered.
fn it_stays_and_leaves_later(node: &mut Node, publishers: &mut [Publisher; 3], written: bool) {
    node.settled(2, "q", 9, (0, 0), Outcome::Accepted);
    for round in 0..3 {
        for (port, publisher) in publishers.iter_mut().enumerate() {
            node.publish(port, publisher, "q", &format!("{port} {round}"), true);
        }
    }
    node.turn();
    assert_eq!((places(node), moving(node)), (vec![1], [false; 3]), "it is at home");
    let row = node.shards[1].listing().rows().find(|row| &*row.definition.name == "q").unwrap();
    assert_eq!((row.unsettled, row.consumers), (u64::from(written), 1), "the settle is taken in");
    let churn = node.shards[1].tallies().survey().churn;
    assert_eq!(churn.queue_deleted, u64::from(written), "what the catalog says is made up for, once");
    assert_eq!(node.take_seen().iter().filter(|line| *line == "0: Done").count(), usize::from(written));
    node.settle();
    keep(node, false);
    node.consume(1, "q", 8, 0);
    node.settle();
    assert_eq!((places(node), moving(node)), (vec![2], [false; 3]));
    let seen = node.take_seen();
    assert_eq!(seen.iter().filter(|line| *line == "0: Done").count(), 1, "{seen:?}");
    for confirmed in ["0: 5 confirmed 1-3", "1: 5 confirmed 3-5", "2: 5 confirmed 1-3"] {
        assert!(seen.iter().any(|line| line == confirmed), "{seen:?}");
    }
    for port in 0..3 {
        let of = format!(" gets {port} ");
        let rounds: Vec<_> = seen.iter().filter_map(|line| Some(&line.split_once(&of)?.1[..1])).collect();
        assert_eq!(rounds, ["0", "1", "2"], "{seen:?}");
    }
}

#[test]
fn a_log_that_waits_for_the_disk_stays_when_the_space_ends() {
    let mut publishers = None;
    let mut node = about_to_leave(&mut publishers);
    node.turn();
    assert_eq!((places(&node), moving(&node)), (vec![], [true; 3]), "it waits for the disk");
    keep(&mut node, true);
    assert_eq!(places(&node), [1], "the keeper finds it where it was");
    it_stays_and_leaves_later(&mut node, &mut publishers.unwrap(), false);
}

#[test]
fn a_log_that_others_still_send_to_stays_when_the_space_ends() {
    let mut publishers = None;
    let mut node = about_to_leave(&mut publishers);
    let mut of_planner = node.turn_of(0);
    [2, 1].into_iter().for_each(|shard| node.receive(shard, std::mem::take(&mut of_planner[shard])));
    // The log makes up, where it stays, for a change of the catalog that comes meanwhile.
    let old = node.shards[0].catalog().queues().find(|queue| &*queue.name == "old").unwrap().id;
    let port = node.ports[0];
    node.shards[0].request(NOW, port, 1, Op::DeleteQueue { id: old });
    node.turn_of(0);
    node.write();
    let mut wave = node.turn_of(0);
    [2, 1].into_iter().for_each(|shard| node.receive(shard, std::mem::take(&mut wave[shard])));
    assert_eq!((places(&node), moving(&node)), (vec![1], [true; 3]));
    keep(&mut node, true);
    it_stays_and_leaves_later(&mut node, &mut publishers.unwrap(), true);
}

#[test]
fn a_log_is_where_it_was_when_the_node_ends() {
    let mut node = node();
    let mut publisher = node.publisher(1);
    hand(&mut node, 2);
    // The last snapshots are of all logs there are.
    node.publish(1, &mut publisher, "q", "two", true);
    node.turn();
    ask(&mut node, LOG.0, 1);
    node.turn();
    assert!(node.shards[2].logs().leaving().eq([LOG]));
    node.shards[2].logs_mut().end_handing();
    assert_eq!(places(&node), [2]);
    let snapshot = node.shards[2].snapshot(LOG, true).unwrap();
    assert!(snapshot.covered > LogIndex(0));
    // A log that is sent when the turns of the others are over is where it was sent.
    let mut node = self::node();
    ask(&mut node, LOG.0, 2);
    let mut of_planner = node.turn_of(0);
    for shard in [1, 2] {
        node.receive(shard, std::mem::take(&mut of_planner[shard]));
        let of_other = node.turn_of(shard).swap_remove(1);
        node.receive(1, of_other);
    }
    let mut of_owner = node.turn_of(1);
    assert_eq!(places(&node), [0; 0]);
    node.shards[2].logs_mut().end_handing();
    node.shards[2].logs_mut().take_left(std::mem::take(&mut of_owner[2]));
    assert_eq!(places(&node), [2]);
}

#[test]
fn a_connection_does_not_leave_while_what_it_said_waits() {
    let mut node = node();
    let port = PortId::here(ShardId(0), 5, 1);
    node.shards[0].open_port(port, Node::actor(port));
    assert!(node.shards[0].may_leave(port));
    ask(&mut node, LOG.0, 2);
    let mut of_planner = node.turn_of(0);
    assert!(!node.shards[0].may_leave(port) && node.shards[0].release_port(port).is_none());
    assert_eq!(node.shards[0].other_owner(LOG), None, "nobody follows it yet");
    for shard in [1, 2] {
        node.receive(shard, std::mem::take(&mut of_planner[shard]));
    }
    node.settle();
    assert_eq!(node.shards[0].other_owner(LOG), Some(ShardId(2)));
    assert!(node.shards[0].may_leave(port));
    node.consume(1, "q", 9, 0);
    node.command(1, "q", QueueCommand::Cancel { token: Some(3), handle: 9, held: Held::Kept });
    node.settle();
    assert_eq!(seen_of(&mut node, 1), ["Consuming", "Cancelled"]);
}

#[test]
fn the_memory_a_connection_holds_goes_with_it() {
    use broker::ledger::Kind;
    let mut node = node();
    let (port, goal) = (PortId::here(ShardId(0), 7, 1), PortId::here(ShardId(1), 3, 1));
    let actor = broker::catalog::Actor::new("u".into(), broker::catalog::VhostId(0), port);
    node.shards[0].open_port(port, actor);
    node.settle();
    let ledger = node.shards[0].ledger().clone();
    node.shards[0].take(port, Kind::Transactions, 5000).expect("there are no bounds");
    let held = ledger.held();
    assert!(held >= 5000);
    assert_eq!(node.shards[0].largest_holder(), Some((port, 5000)));
    let leaver = node.shards[0].release_port(port).expect("nothing keeps it");
    assert_eq!((ledger.held(), node.shards[0].largest_holder()), (held, None));
    node.shards[1].adopt_port(goal, leaver);
    assert_eq!((ledger.held(), node.shards[1].largest_holder()), (held, Some((goal, 5000))));
    node.shards[1].give(goal, Kind::Transactions, 2000);
    // Where it is no longer nothing is counted.
    node.shards[0].take(port, Kind::Transactions, 1 << 30).expect("nobody is asked");
    assert_eq!(node.shards[1].holding(goal).map(|holding| holding.held()), Some(3000));
    node.shards[1].close_port(node.now, goal);
    assert!(ledger.held() == 0 && ledger.rows().users.iter().all(|row| &*row.name != "u"));
}
