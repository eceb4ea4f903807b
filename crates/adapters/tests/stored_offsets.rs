//! Offsets that consumers store in a stream, over every protocol: those another user stores drive out none of them, nor
//! those of another connection.

mod amqp091_client;
mod amqp10_client;
mod harness;
mod stream_client;

use adapters::{NODE_SLOT, Settings};
use amqp10::{Attach, LinkId, Outcome, Role, SenderSettleMode, Source, Target};
use amqp091::method::*;
use base::id::{PortId, ShardId};
use broker::Limits;
use broker::access::{PasswordHash, SALT};
use broker::catalog::{Actor, Op, VhostId};
use harness::World;
use message::amqp10::{Encoder, Map};
use message::amqp091::{Table, Value};
use stream_protocol::{Command, List, Request};

/// Names a stream keeps here.
const NAMES_MAX: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Over {
    Stream,
    Amqp091,
    Amqp10,
}

use Over::{Amqp10, Amqp091, Stream};

/// A node with the stream `s`, which has a message, and the users `guest` and `other`.
fn world() -> World {
    let limits = Limits { stream_offsets_max: NAMES_MAX, ..Limits::default() };
    let mut world = World::with(1, limits, Settings::new("rabbit@test"));
    let port = PortId::here(ShardId(0), NODE_SLOT, 1);
    let now = world.now;
    world.shards[0].open_port(port, Actor::internal(VhostId::default(), port));
    let password = Some(PasswordHash::new("other", [7; SALT]));
    world.shards[0].request(now, port, 1, Op::AddUser { name: "other".into(), password, tags: Vec::new() });
    let all = || ".*".into();
    let (user, vhost) = ("other".into(), "/".into());
    let op = Op::SetPermissions { user, vhost, configure: all(), write: all(), read: all() };
    world.shards[0].request(now, port, 2, op);
    world.shards[0].close_port(now, port);
    world.run();
    let mut client = stream_client::Client::open(&mut world, 0);
    client.asks(&mut world, &Request::Create { stream: b"s", arguments: List::default() }, "Create 1");
    let mut publisher = amqp091_client::Client::open(&mut world, 0);
    publisher.publish("s", "m");
    publisher.hears(&mut world, &[]);
    world
}

fn response(user: &str) -> Vec<u8> {
    format!("\0{user}\0{user}").into_bytes()
}

/// A connection that stores offset 0 of `s` under each of these names.
fn store(world: &mut World, over: Over, user: &str, names: &[String]) {
    match over {
        Stream => {
            let mut client = stream_client::Client::log_in(world, 0, "PLAIN", &response(user), "/");
            client.heard.clear();
            for name in names {
                let reference = name.as_bytes();
                client.machine.send(&Command::StoreOffset { reference, stream: b"s", offset: 0 });
            }
            client.hears(world, &[]);
        }
        Amqp091 => {
            let mut client = amqp091_client::Client::log_in(world, 0, "PLAIN", &response(user));
            client.machine.channel_open(1);
            client.send(&BasicQos { prefetch_count: 1, ..Default::default() });
            client.hears(world, &["channel 1 open", "BasicQosOk"]);
            for (tag, name) in (1..).zip(names) {
                let mut arguments = Vec::new();
                for (key, value) in [("x-stream-offset", "first"), ("x-stream-consumer-name", name)] {
                    arguments.push(key.len() as u8);
                    arguments.extend_from_slice(key.as_bytes());
                    Value::Text(value.as_bytes()).write(&mut arguments);
                }
                let arguments = Table::new(&arguments).unwrap();
                client.send(&BasicConsume {
                    queue: b"s",
                    consumer_tag: name.as_bytes(),
                    arguments,
                    ..Default::default()
                });
                let heard = client.talk(world);
                assert_eq!(heard.len(), 2, "{heard:?}");
                client.send(&BasicAck { delivery_tag: tag, multiple: false });
                client.hears(world, &[]);
            }
        }
        Amqp10 => {
            let mut client = amqp10_client::Client::log_in(world, 0, "PLAIN", &response(user), "vhost:/");
            client.session = client.machine.begin(Map::default()).unwrap();
            client.hears(world, &["begin"]);
            for (number, name) in (0..).zip(names) {
                let mut encoded = Vec::new();
                let mut encoder = Encoder::new(&mut encoded);
                for (key, value) in
                    [("rabbitmq:stream-offset-spec", "first"), ("x-stream-consumer-name", name)]
                {
                    encoder.symbol(key);
                    // Described by the same symbol.
                    encoder.encoding(&[0x00]);
                    encoder.symbol(key);
                    encoder.string(value);
                }
                let filter = Some(Map::new(4, &encoded));
                let attach = Attach {
                    source: Some(Source { address: Some("/queues/s"), filter, ..Source::default() }),
                    target: Some(Target::default()),
                    sender_settle_mode: SenderSettleMode::Unsettled,
                    ..Attach::new(name, Role::Receiver)
                };
                client.machine.attach(client.session, &attach).unwrap();
                client.hears(world, &[&format!("attach {name}")]);
                client.machine.grant(client.session, LinkId(number), 1, false);
                client.hears(world, &[&format!("{number} m")]);
                client.settle(number.into(), number.into(), Outcome::Accepted);
                client.talk(world);
            }
        }
    }
}

/// Which of the names are stored, as the node tells it.
fn stored(world: &mut World, names: &[String]) -> Vec<String> {
    let mut client = stream_client::Client::open(world, 0);
    let is_stored = |name: &&String| {
        client.ask(&Request::QueryOffset { reference: name.as_bytes(), stream: b"s" });
        client.listen(world, "/");
        std::mem::take(&mut client.heard) == ["QueryOffset 1: 0"]
    };
    names.iter().filter(is_stored).cloned().collect()
}

fn names(of: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{of}-{number}")).collect()
}

/// Each row: the protocol over which some names are stored first, and the many behind them: their protocol, their user,
/// a connection for all names or one for each.
#[test]
fn what_was_stored_stays_whoever_stores_many_names() {
    for first in [Stream, Amqp091, Amqp10] {
        for (over, user, each) in [
            (Stream, "other", false),
            (Amqp091, "other", false),
            (Amqp10, "other", false),
            (Stream, "other", true),
            (Amqp091, "other", true),
            (Amqp10, "other", true),
            (Stream, "guest", false),
            (Amqp091, "guest", false),
            (Amqp10, "guest", false),
        ] {
            let mut world = world();
            let quiet = names("quiet", 4);
            store(&mut world, first, "guest", &quiet);
            assert_eq!(stored(&mut world, &quiet), quiet, "{first:?}");
            let many = names("many", 3 * NAMES_MAX);
            match each {
                true => many.chunks(1).for_each(|name| store(&mut world, over, user, name)),
                false => store(&mut world, over, user, &many),
            }
            let case = format!("{first:?}, then {over:?} as {user}, each: {each}");
            assert_eq!(stored(&mut world, &quiet), quiet, "{case}");
            let left = stored(&mut world, &many);
            assert_eq!(left, many[many.len() - (NAMES_MAX - quiet.len())..], "{case}");
        }
    }
}
