//! Users have shares of a shard's turns: dear work of one keeps nobody waiting but himself.

mod amqp091_client;
mod harness;

use adapters::Settings;
use amqp091::method::*;
use amqp091_client::{Client, TRANSIENT};
use base::Quantum;
use broker::{HeldBack, HeldCounts, Limits};
use harness::World;
use message::amqp091::Table;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Units of a turn.
const TURN: u32 = 10_000;

/// Queues of the exchange `wide`. Each costs a message some units, by which a publish is dear.
const QUEUES: usize = 34;

/// Units that a message to `wide` takes.
const MESSAGE: u64 = 60 * QUEUES as u64;

/// A turn has no more than its units, those that each user has first, and those of a command that was begun.
const MOST: u64 = TURN as u64 + 2 * (2_000 + MESSAGE);

fn world(shards: u16, settings: Settings) -> World {
    let limits = Limits { turn_work_max: TURN, ..Limits::default() };
    let mut world = World::with(shards, limits, settings);
    world.add_user("dear");
    world.add_user("cheap");
    let mut owner = Client::open(&mut world, 0);
    owner.declare(&mut world, "cheap");
    owner.send(&ExchangeDeclare { exchange: b"wide", kind: b"fanout", durable: true, ..Default::default() });
    for at in 0..QUEUES {
        let queue = format!("dear{at}").into_bytes();
        owner.send(&QueueDeclare { queue: &queue, durable: true, ..Default::default() });
        owner.send(&QueueBind { queue: &queue, exchange: b"wide", ..Default::default() });
    }
    assert_eq!(owner.talk(&mut world).len(), 1 + 2 * QUEUES);
    world.cut(owner.wire);
    world.run();
    world
}

fn client(world: &mut World, shard: usize, user: &str) -> Client {
    let mut client = Client::log_in(world, shard, "PLAIN", format!("\0{user}\0{user}").as_bytes());
    client.machine.channel_open(1);
    client.send(&ConfirmSelect::default());
    client.hears(world, &["channel 1 open", "ConfirmSelectOk"]);
    client
}

/// The client says what it has to say, and no turn is made.
fn say(world: &mut World, client: &mut Client) {
    let output = client.machine.output_mut();
    let bytes = output.to_vec();
    output.sent(bytes.len());
    world.send(client.wire, &bytes);
}

/// Turns until nothing moves: how many. None has more than it may.
fn rest(world: &mut World) -> usize {
    rest_within(world, MOST)
}

fn rest_within(world: &mut World, most: u64) -> usize {
    for turn in 1..1_000_000 {
        let is_over = !world.turns();
        let last = world.fronts[0].last_turn_work();
        assert!(last.units <= most, "{last:?}");
        if is_over {
            return turn;
        }
    }
    panic!("it does not come to rest");
}

/// The bodies that `queue` has, in order.
fn bodies(world: &mut World, queue: &str) -> Vec<String> {
    let mut client = Client::open(world, 0);
    client.consume(queue, "c", true);
    let heard = client.talk(world);
    heard.iter().skip(1).map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned()).collect()
}

fn publish_wide(client: &mut Client, bodies: impl Iterator<Item = usize>) {
    bodies.for_each(|body| client.publish_to("wide", "", TRANSIENT, body.to_string().as_bytes()));
}

#[test]
fn a_cheap_user_is_answered_in_the_turn_in_which_he_asks() {
    let mut world = world(1, Settings::new("rabbit@test"));
    let mut dear: Vec<Client> = (0..3).map(|_| client(&mut world, 0, "dear")).collect();
    let mut cheap = client(&mut world, 0, "cheap");
    rest(&mut world);
    for client in &mut dear {
        publish_wide(client, 0..50);
        say(&mut world, client);
        assert!(world.is_waiting(client.wire) && world.kept(client.wire) > 0);
    }
    let mut asked = 0;
    while world.kept(dear[0].wire) > 0 {
        cheap.publish_to("", "cheap", TRANSIENT, b"x");
        cheap.send(&QueueDeclare { queue: b"cheap", passive: true, ..Default::default() });
        say(&mut world, &mut cheap);
        assert_eq!(world.kept(cheap.wire), 0, "it was heard at once");
        world.turns();
        asked += 1;
        let count = format!("queue cheap {asked} 0");
        // No more turn is made: the answer is there.
        let mut other = std::mem::take(&mut cheap.heard);
        assert!(other.is_empty(), "{other:?}");
        cheap.take_in(&mut world);
        other.append(&mut cheap.heard);
        assert_eq!(other.len(), 2, "a confirm and an answer: {other:?}");
        assert!(other.contains(&count), "{other:?}");
        assert!(world.fronts[0].last_turn_work().units <= MOST);
    }
    // Three connections with fifty messages of 2,000 units each, in turns of 10,000.
    assert!(asked >= 9, "{asked}");
    rest(&mut world);
    assert_eq!(bodies(&mut world, "dear7").len(), 150);
}

#[test]
fn a_user_who_waits_for_others_is_seen() {
    let mut world = world(1, Settings::new("rabbit@test"));
    let mut users = ["dear", "cheap"].map(|user| client(&mut world, 0, user));
    rest(&mut world);
    let why = |world: &World, user: &str| {
        let rows = world.rows(0);
        rows.iter().find(|row| row.user == user).expect("is connected").held_back
    };
    assert_eq!([why(&world, "dear"), why(&world, "cheap")], [None, None]);
    for user in &mut users {
        publish_wide(user, 0..50);
        say(&mut world, user);
    }
    assert_eq!([why(&world, "dear"), why(&world, "cheap")], [Some(HeldBack::Share); 2]);
    rest(&mut world);
    assert_eq!([why(&world, "dear"), why(&world, "cheap")], [None, None]);
    let (mut rows, mut from) = (BTreeMap::new(), Some(0));
    while let Some(at) = from {
        from = world.fronts[0].tenants_from(at, &mut Quantum::of(1), &mut rows);
    }
    let found: Vec<_> = rows.values().map(|row| (&*row.user, row.connections, row.owed, row.held)).collect();
    let none = HeldCounts::default();
    assert_eq!(found, [("cheap", 1, 0, none), ("dear", 1, 0, none)]);
    let share = HeldBack::Share as usize;
    for row in rows.values() {
        assert!(row.units >= 50 * MESSAGE && row.times[share] > 0, "{row:?}");
        assert_eq!(row.times[share], row.times.iter().sum::<u64>(), "for nothing else");
    }
}

#[test]
fn a_user_alone_has_all_turns_and_his_order_is_kept() {
    let mut world = world(1, Settings::new("rabbit@test"));
    let mut dear = client(&mut world, 0, "dear");
    rest(&mut world);
    publish_wide(&mut dear, 0..200);
    say(&mut world, &mut dear);
    let kept = world.kept(dear.wire);
    assert!(kept > 0, "some is kept");
    let turns = rest(&mut world);
    let needed = 200 * MESSAGE as usize / TURN as usize;
    assert!((needed - 1..=needed + 8).contains(&turns), "{turns} turns for {needed}");
    assert_eq!(world.kept(dear.wire), 0);
    let expected: Vec<String> = (0..200).map(|body| body.to_string()).collect();
    for queue in ["dear0", "dear33"] {
        assert_eq!(bodies(&mut world, queue), expected);
    }
}

#[test]
fn fewer_units_take_more_turns_to_the_same_end() {
    let mut turns = Vec::new();
    for units in [1, MESSAGE as u32, 8_000, 40_000, u32::MAX] {
        let mut world = world(1, Settings::new("rabbit@test"));
        world.shards[0].set_turn_work(units);
        let mut dear = client(&mut world, 0, "dear");
        rest_within(&mut world, u64::MAX);
        publish_wide(&mut dear, 0..100);
        say(&mut world, &mut dear);
        turns.push(rest_within(&mut world, u64::from(units) + 2_000 + MESSAGE));
        let expected: Vec<String> = (0..100).map(|body| body.to_string()).collect();
        for queue in ["dear0", "dear30"] {
            assert_eq!(bodies(&mut world, queue), expected, "{units} units");
        }
    }
    assert!(turns.is_sorted_by(|one, next| one > next), "{turns:?}");
    assert!(turns[4] < 10 && turns[3] < 20 && turns[1] >= 99, "{turns:?}");
}

#[test]
fn two_dear_users_have_the_same() {
    let mut world = world(1, Settings::new("rabbit@test"));
    world.add_user("other");
    let mut clients = ["dear", "other"].map(|user| client(&mut world, 0, user));
    rest(&mut world);
    for client in &mut clients {
        publish_wide(client, 0..300);
        say(&mut world, client);
    }
    let all = clients.each_ref().map(|client| world.kept(client.wire));
    for _ in 0..40 {
        world.turns();
        assert!(world.fronts[0].last_turn_work().units <= MOST);
    }
    let [one, other] = [0, 1].map(|at| all[at] - world.kept(clients[at].wire));
    assert!(one.abs_diff(other) * 4 <= one, "{one} and {other} bytes");
    rest(&mut world);
    assert_eq!(bodies(&mut world, "dear3").len(), 600);
}

#[test]
fn a_connection_that_ends_while_it_waits_holds_up_no_other() {
    let mut world = world(1, Settings::new("rabbit@test"));
    let mut dear: Vec<Client> = (0..4).map(|_| client(&mut world, 0, "dear")).collect();
    rest(&mut world);
    for (at, client) in dear.iter_mut().enumerate() {
        publish_wide(client, at * 100..at * 100 + 20);
        say(&mut world, client);
    }
    // The second waits for a share when its client vanishes, the third when an operator closes it.
    assert!(world.is_waiting(dear[1].wire) && world.is_waiting(dear[2].wire));
    world.cut(dear[1].wire);
    let name = format!("127.0.0.1:{} -> 127.0.0.1:5672", 50_000 + dear[2].wire);
    let now = world.now;
    let World { shards, fronts, .. } = &mut world;
    assert!(fronts[0].close_named(now, &mut shards[0], &name, "test"));
    // Its place is another's by then.
    let mut next = client(&mut world, 0, "cheap");
    next.publish_to("", "cheap", TRANSIENT, b"x");
    next.hears(&mut world, &["ack 1"]);
    rest(&mut world);
    let found: Vec<usize> = bodies(&mut world, "dear0").iter().map(|body| body.parse().unwrap()).collect();
    for (at, count) in [(0, 20), (3, 20)] {
        let own: Vec<usize> = found.iter().copied().filter(|body| body / 100 == at).collect();
        assert_eq!(own, (at * 100..at * 100 + count).collect::<Vec<_>>(), "connection {at}");
    }
}

#[test]
fn a_connection_that_waits_moves_later_and_loses_nothing() {
    let following = Some(Arc::new(adapters::Following::new(3)));
    let mut world = world(3, Settings { following, ..Settings::new("rabbit@test") });
    let mut owner = Client::open(&mut world, 2);
    owner.declare(&mut world, "far");
    let mut dear = client(&mut world, 0, "dear");
    rest(&mut world);
    for round in 0..60 {
        dear.publish_to("", "far", TRANSIENT, round.to_string().as_bytes());
        publish_wide(&mut dear, round * 8..round * 8 + 8);
        say(&mut world, &mut dear);
        if round % 8 == 0 {
            dear.talk(&mut world);
        }
    }
    dear.talk(&mut world);
    assert_eq!(world.kept(dear.wire), 0);
    let expected = |count: usize| (0..count).map(|body| body.to_string()).collect::<Vec<_>>();
    assert_eq!(bodies(&mut world, "far"), expected(60));
    assert_eq!(bodies(&mut world, "dear5"), expected(480));
}

#[test]
fn heartbeats_go_on_while_a_connection_waits() {
    let mut world = world(1, Settings::new("rabbit@test"));
    let mut dear = Client::log_in_beating(&mut world, 0, ("PLAIN", b"\0dear\0dear"), 1);
    dear.machine.channel_open(1);
    dear.talk(&mut world);
    publish_wide(&mut dear, 0..50);
    say(&mut world, &mut dear);
    assert!(world.is_waiting(dear.wire));
    world.take(dear.wire);
    // It is not read, so its silence says nothing; it is told all the same that the broker is there.
    for _ in 0..10 {
        world.wait(dear.wire, 500);
    }
    assert!(!world.is_gone(dear.wire));
    assert!(world.unread(dear.wire) >= 8, "a heartbeat");
    rest(&mut world);
    assert!(!world.is_gone(dear.wire) && world.kept(dear.wire) == 0);
    assert_eq!(bodies(&mut world, "dear0").len(), 50);
}

// ---- commits

/// Units of one transaction in one turn.
const COMMITTED: u32 = 20_000;

fn with_transaction(messages: usize) -> (World, Client) {
    let settings = Settings { transaction_work_max: COMMITTED, ..Settings::new("rabbit@test") };
    let mut world = world(1, settings);
    let mut dear = Client::log_in(&mut world, 0, "PLAIN", b"\0dear\0dear");
    dear.machine.channel_open(1);
    dear.send(&TxSelect {});
    dear.hears(&mut world, &["channel 1 open", "TxSelectOk"]);
    publish_wide(&mut dear, 0..messages);
    dear.send(&TxCommit {});
    (world, dear)
}

/// A turn has what it has, what a transaction may take, and a message that was begun.
const MOST_COMMITTED: u64 = MOST + COMMITTED as u64 + 2 * MESSAGE;

#[test]
fn a_dear_commit_is_made_in_several_turns() {
    let (mut world, mut dear) = with_transaction(100);
    let mut cheap = client(&mut world, 0, "cheap");
    say(&mut world, &mut dear);
    let mut turns = 0;
    while world.is_waiting(dear.wire) {
        cheap.send(&QueueDeclare { queue: b"cheap", passive: true, ..Default::default() });
        say(&mut world, &mut cheap);
        world.turns();
        assert!(world.fronts[0].last_turn_work().units <= MOST_COMMITTED);
        cheap.take_in(&mut world);
        assert_eq!(std::mem::take(&mut cheap.heard), ["queue cheap 0 0"], "it was answered at once");
        turns += 1;
    }
    assert!(turns >= 10, "100 messages of 2,040 units, 20,000 in a turn: {turns} turns");
    dear.hears(&mut world, &["TxCommitOk"]);
    assert_eq!(world.shards[0].reserved_bytes(), 0);
    // Another transaction begins, and what is rolled back is gone.
    publish_wide(&mut dear, 100..110);
    dear.send(&TxRollback {});
    publish_wide(&mut dear, 110..115);
    dear.send(&TxCommit {});
    dear.hears(&mut world, &["TxRollbackOk", "TxCommitOk"]);
    let expected: Vec<String> = (0..100).chain(110..115).map(|body: usize| body.to_string()).collect();
    assert_eq!(bodies(&mut world, "dear7"), expected);
}

#[test]
fn acks_of_a_commit_are_made_in_several_turns() {
    let (mut world, mut dear) = with_transaction(40);
    rest_within(&mut world, MOST_COMMITTED);
    dear.hears(&mut world, &["TxCommitOk"]);
    dear.consume("dear7", "c", false);
    assert_eq!(dear.talk(&mut world).len(), 41);
    publish_wide(&mut dear, 0..20);
    dear.send(&BasicAck { delivery_tag: 0, multiple: true });
    dear.send(&TxCommit {});
    say(&mut world, &mut dear);
    world.turns();
    assert!(world.is_waiting(dear.wire));
    // Its consumer goes, and what is settled by the rest of the commit is settled all the same.
    rest_within(&mut world, MOST_COMMITTED);
    let heard = dear.talk(&mut world);
    assert!(heard.contains(&"TxCommitOk".to_owned()) && heard.len() == 21, "{heard:?}");
    world.cut(dear.wire);
    world.run();
    assert_eq!(bodies(&mut world, "dear7").len(), 20);
}

#[test]
fn a_commit_that_fails_gives_back_what_it_held() {
    let full = "channel: 406 PRECONDITION_FAILED - partial tx completion 0 0";
    for is_cut in [false, true] {
        let (mut world, mut dear) = with_transaction(100);
        if !is_cut {
            let mut arguments = b"\x0cx-max-lengthI\0\0\0\x05".to_vec();
            arguments.extend(b"\x0ax-overflowS\0\0\0\x0ereject-publish");
            let arguments = Table::new(&arguments).expect("it is a table");
            let mut owner = Client::open(&mut world, 0);
            owner.send(&QueueDeclare { queue: b"dear_full", durable: true, arguments, ..Default::default() });
            owner.send(&QueueBind { queue: b"dear_full", exchange: b"wide", ..Default::default() });
            owner.talk(&mut world);
        }
        say(&mut world, &mut dear);
        world.turns();
        if is_cut {
            assert!(world.is_waiting(dear.wire) && world.shards[0].reserved_bytes() > 0);
            world.cut(dear.wire);
            world.run();
        } else {
            dear.hears(&mut world, &[full]);
        }
        assert_eq!(world.shards[0].reserved_bytes(), 0);
        let made = bodies(&mut world, "dear7").len();
        assert!((1..100).contains(&made), "{made}");
    }
}

/// Commands right behind an open, in one piece with it, have the share of their user, not that of a stranger.
#[test]
fn commands_in_the_breath_of_an_open_are_of_their_user() {
    let mut world = world(1, Settings::new("rabbit@test"));
    let mut dear = client(&mut world, 0, "dear");
    rest(&mut world);
    publish_wide(&mut dear, 0..50);
    say(&mut world, &mut dear);
    assert!(world.is_waiting(dear.wire));
    let bytes = hasty("dear", 50);
    for _ in 0..20 {
        let wire = world.connect(0);
        world.send(wire, &bytes);
    }
    world.turns();
    let units = world.fronts[0].last_turn_work().units;
    assert!(units <= MOST + 2_000 + MESSAGE, "{units} units in one turn");
    rest_within(&mut world, MOST + 2_000 + MESSAGE);
}

/// All that a client of this user says until it is open, and so many messages to `wide` behind that.
fn hasty(user: &str, messages: usize) -> Vec<u8> {
    let config = amqp091::Limits::default();
    let mut machine = amqp091::Connection::client(config, base::Now::default());
    let mut bytes = machine.output_mut().to_vec();
    let frame = |channel: u16, payload: &[u8]| {
        [&[1][..], &channel.to_be_bytes(), &(payload.len() as u32).to_be_bytes(), payload, &[0xCE]].concat()
    };
    let response = format!("\0{user}\0{user}").into_bytes();
    let long = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let short = |bytes: &[u8]| [&[bytes.len() as u8], bytes].concat();
    let start =
        [&[0, 10, 0, 11][..], &long(b""), &short(b"PLAIN"), &long(&response), &short(b"en_US")].concat();
    bytes.extend(frame(0, &start));
    bytes.extend(frame(0, &[0, 10, 0, 31, 0, 9, 0, 1, 0, 0, 0, 0]));
    bytes.extend(frame(0, &[&[0, 10, 0, 40][..], &short(b"/"), &[0, 0]].concat()));
    bytes.extend(frame(1, &[0, 20, 0, 10, 0]));
    for _ in 0..messages {
        bytes.extend(frame(1, &[&[0, 60, 0, 40, 0, 0][..], &short(b"wide"), &short(b""), &[0]].concat()));
        let mut header = frame(1, &[&[0, 60, 0, 0][..], &0u64.to_be_bytes(), &[0, 0]].concat());
        header[0] = 2;
        bytes.extend(header);
    }
    bytes
}
