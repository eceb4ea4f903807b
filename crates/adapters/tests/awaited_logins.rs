//! Logins whose passwords take long to compare: no shard compares them, and a connection waits for the outcome, over
//! every protocol.

mod amqp091_client;
mod amqp10_client;
mod harness;
mod stream_client;

use adapters::{NODE_SLOT, Protocol, Settings};
use base::id::{PortId, ShardId};
use broker::Limits;
use broker::access::{PasswordHash, Stored};
use broker::catalog::{Actor, Op, VhostId};
use harness::World;
use std::sync::Arc;
use stream_protocol::{List, Request};

/// Of "a password", as another program wrote it.
const HASH: &str = "$argon2id$v=19$m=256,t=2,p=2$c2FsdCBvZiBsZXZlcmV0$jjQAtE0IzwJDILtsElBc5AFwQQBv/8wK";

/// A node with the users `guest` and `dear`, of whom the second has a memory-hard hash.
fn world() -> World {
    world_of(1, Settings::new("rabbit@test"))
}

fn world_of(shards: u16, settings: Settings) -> World {
    let mut world = World::with(shards, Limits::default(), settings);
    let port = PortId::here(ShardId(0), NODE_SLOT, 1);
    let now = world.now;
    world.shards[0].open_port(port, Actor::internal(VhostId::default(), port));
    let Some(Stored::Hash(hash)) = PasswordHash::from_text(HASH, None) else { panic!("it is a hash") };
    let name = || "dear".into();
    world.shards[0].request(
        now,
        port,
        1,
        Op::AddUser { name: name(), password: Some(hash), tags: Vec::new() },
    );
    let all = || ".*".into();
    let (user, vhost) = (name(), "/".into());
    let op = Op::SetPermissions { user, vhost, configure: all(), write: all(), read: all() };
    world.shards[0].request(now, port, 2, op);
    world.shards[0].close_port(now, port);
    world.run();
    world
}

/// Logs in over a protocol: whether the connection is open, and its wire.
fn log_in(world: &mut World, protocol: &str, password: &str) -> (bool, usize) {
    let response = format!("\0dear\0{password}").into_bytes();
    match protocol {
        "0-9-1" => {
            let client = amqp091_client::Client::log_in(world, 0, "PLAIN", &response);
            (client.machine.is_open(), client.wire)
        }
        "1.0" => {
            let client = amqp10_client::Client::log_in(world, 0, "PLAIN", &response, "vhost:/");
            (client.machine.is_open(), client.wire)
        }
        _ => {
            let client = stream_client::Client::log_in(world, 0, "PLAIN", &response, "/");
            (client.machine.is_open(), client.wire)
        }
    }
}

const PROTOCOLS: [&str; 3] = ["0-9-1", "1.0", "streams"];

#[test]
fn passwords_are_compared_elsewhere() {
    for protocol in PROTOCOLS {
        let mut world = world();
        assert!(log_in(&mut world, protocol, "a password").0, "{protocol}");
        let (is_open, wire) = log_in(&mut world, protocol, "another");
        assert!(!is_open, "{protocol}");
        world.wait(wire, 30_000);
        world.run();
        assert!(world.is_gone(wire), "{protocol}");
        let refused = world.notes.iter().filter(|note| note.text.contains("invalid credentials")).count();
        assert_eq!(refused, 1, "{protocol}: {:?}", world.notes);
    }
}

#[test]
fn one_that_was_compared_needs_nobody() {
    for protocol in PROTOCOLS {
        let mut world = world();
        assert!(log_in(&mut world, protocol, "a password").0);
        world.is_hashing_slow = true;
        assert!(log_in(&mut world, protocol, "a password").0, "{protocol}");
        assert!(world.trials.is_empty());
    }
}

#[test]
fn a_client_that_is_gone_or_late_hears_nothing_of_it() {
    for protocol in PROTOCOLS {
        let mut world = world();
        world.is_hashing_slow = true;
        let (is_open, cut) = log_in(&mut world, protocol, "a password");
        assert!(!is_open && world.trials.len() == 1, "{protocol}");
        world.cut(cut);
        let (_, late) = log_in(&mut world, protocol, "a password");
        world.wait(late, 20_000);
        world.run();
        world.wait(late, 20_000);
        world.run();
        assert!(world.is_gone(late), "{protocol}: its handshake is over");
        // Of one that came after, in the first one's place.
        let next = world.connect_to(0, if protocol == "streams" { Protocol::Stream } else { Protocol::Amqp });
        world.compare();
        world.run();
        assert!(!world.is_gone(next) && world.take(next).is_empty(), "{protocol}");
    }
}

#[test]
fn a_hundred_that_come_at_once_with_one_password_are_all_let_in() {
    for protocol in PROTOCOLS {
        let mut world = world();
        world.is_hashing_slow = true;
        let wires: Vec<usize> = (0..100).map(|_| log_in(&mut world, protocol, "a password").1).collect();
        assert_eq!(world.trials.len(), 100, "{protocol}");
        wires.iter().for_each(|wire| drop(world.take(*wire)));
        world.compare();
        world.run();
        let answered =
            wires.iter().filter(|wire| !world.is_gone(**wire) && !world.take(**wire).is_empty()).count();
        assert_eq!(answered, 100, "{protocol}");
    }
}

/// The outcome goes to where the connection was when it asked.
#[test]
fn a_publisher_that_renews_its_proof_goes_nowhere_meanwhile() {
    let following = Some(Arc::new(adapters::Following::new(3)));
    let mut world = world_of(3, Settings { following, ..Settings::new("rabbit@test") });
    let open = |world: &mut World, at| {
        let mut client = stream_client::Client::log_in(world, at, "PLAIN", b"\0dear\0a password", "/");
        client.heard.clear();
        client
    };
    let mut owner = open(&mut world, 2);
    owner.asks(&mut world, &Request::Create { stream: b"s", arguments: List::default() }, "Create 1");
    let mut publisher = open(&mut world, 1);
    let declare = Request::DeclarePublisher { publisher_id: 3, reference: b"", stream: b"s" };
    publisher.asks(&mut world, &declare, "DeclarePublisher 1");
    for id in 0..7 {
        publisher.machine.publish(3, false).message(id, None, b"hello");
        publisher.hears(&mut world, &[&format!("confirmed 3: [{id}]")]);
    }
    (world.is_disk_slow, world.is_hashing_slow) = (true, true);
    publisher.machine.publish(3, false).message(7, None, b"hello");
    publisher.ask(&Request::SaslAuthenticate { mechanism: b"PLAIN", response: b"\0dear\0another" });
    publisher.hears(&mut world, &[]);
    assert_eq!(world.trials.len(), 1);
    world.is_disk_slow = false;
    publisher.hears(&mut world, &["confirmed 3: [7]"]);
    world.compare();
    world.wait(publisher.wire, 4_000);
    publisher.hears(&mut world, &["SaslAuthenticate 8"]);
}
