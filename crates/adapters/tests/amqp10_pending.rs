//! Links whose attach is not answered yet when they or their session end.

mod amqp10_client;
mod harness;

use amqp10::{Attach, Role, SenderSettleMode, Source, Symbols, Target};
use amqp10_client::{Client, declare, declare_with, message};
use base::id::NodeNo;
use broker::Membership;
use harness::World;
use message::amqp10::Map;
use routing::Value;

/// Sends a client's output, of which nothing comes about yet.
fn say(world: &mut World, client: &mut Client) {
    let output = client.machine.output_mut();
    let bytes = output.to_vec();
    output.sent(bytes.len());
    world.send(client.wire, &bytes);
}

/// A client whose session ends as soon as the world goes on, on this shard: it is about to be sent a message too large
/// for it.
fn doomed(world: &mut World, shard: usize) -> Client {
    declare(world, shard, "near");
    let mut publisher = Client::open(world, shard);
    let out = publisher.sender(world, "out", Some("/queues/near"));
    let mut client = Client::open(world, shard);
    let attach = Attach {
        source: Some(Source { address: Some("/queues/near"), ..Source::default() }),
        target: Some(Target::default()),
        max_message_size: Some(10),
        ..Attach::new("small", Role::Receiver)
    };
    let link = client.machine.attach(client.session, &attach).unwrap();
    client.hears(world, &["attach small"]);
    client.machine.grant(client.session, link, 1, false);
    client.hears(world, &[]);
    publisher.send(out, 0, &message(false, None, "more than ten bytes"));
    say(world, &mut publisher);
    client
}

/// The client's output is sent, and its session ends. Its frames after that are heard.
fn doom(world: &mut World, client: &mut Client) {
    say(world, client);
    let heard = client.talk(world);
    assert_eq!(heard.last().map(String::as_str), Some("end amqp:link:message-size-exceeded"), "{heard:?}");
    client.session = client.machine.begin(Map::default()).unwrap();
    client.hears(world, &["begin"]);
}

/// Nobody consumes from `far`: somebody else would be the active one there.
fn is_alone(world: &mut World, what: &str) {
    let mut other = Client::open(world, 0);
    let out = other.sender(world, "out", Some("/queues/far"));
    other.receiver(world, "in", "far", 10);
    other.send(out, 0, &message(true, None, "m"));
    let heard = other.talk(world);
    assert!(heard.contains(&"0 m".to_owned()), "{what}: {heard:?}");
}

/// A node of two shards with a queue whose consumers are active one at a time.
fn with_queue(home: usize) -> World {
    let mut world = World::new(2);
    let one_at_a_time = (&b"x-single-active-consumer"[..], Value::Bool(true));
    declare_with(&mut world, home, "far", [one_at_a_time].into_iter().collect());
    world
}

#[test]
fn who_says_at_once_that_it_goes_is_gone() {
    for home in [0, 1] {
        for (what, ends) in [("a link", false), ("a session", true)] {
            let mut world = with_queue(home);
            let mut client = Client::open(&mut world, 0);
            let link = client.receive("brief", "/queues/far", SenderSettleMode::Unsettled);
            match ends {
                false => client.machine.detach(client.session, link, None, true),
                true => client.machine.end(client.session, None),
            }
            client.talk(&mut world);
            is_alone(&mut world, &format!("{what} of {home}"));
        }
    }
}

#[test]
fn a_session_that_ends_takes_the_receiver_with_it_that_is_not_answered_yet() {
    for home in [0, 1] {
        let mut world = with_queue(home);
        let mut doomed = doomed(&mut world, 0);
        doomed.receive("late", "/queues/far", SenderSettleMode::Unsettled);
        doom(&mut world, &mut doomed);
        is_alone(&mut world, &format!("{home}"));
    }
}

#[test]
fn a_session_that_ends_takes_the_queue_with_it_that_is_made_for_a_link() {
    for shard in [0, 1] {
        let mut world = World::new(2);
        let mut doomed = doomed(&mut world, shard);
        let source =
            Source { dynamic: true, capabilities: Symbols::Given(&["temporary-queue"]), ..Source::default() };
        let attach = Attach {
            source: Some(source),
            target: Some(Target::default()),
            ..Attach::new("late", Role::Receiver)
        };
        doomed.machine.attach(doomed.session, &attach).unwrap();
        doom(&mut world, &mut doomed);
        let queues = world.shards[0].catalog().queues().count();
        assert_eq!(queues, 1, "{shard}: the one for what is too large is left");
    }
}

/// A node of several has a copy of the catalog, and another may have made the queue a moment ago.
#[test]
fn what_is_not_there_is_looked_for_again_on_a_node_of_several() {
    let attach = |world: &mut World, role: Role| {
        let mut client = Client::open(world, 0);
        let address = Some("/queues/far");
        let attach = Attach {
            source: Some(Source { address, ..Source::default() }),
            target: Some(Target { address, ..Target::default() }),
            ..Attach::new("late", role)
        };
        client.machine.attach(client.session, &attach).unwrap();
        client
    };
    for role in [Role::Sender, Role::Receiver] {
        let mut alone = World::new(2);
        let refused = attach(&mut alone, role).talk(&mut alone);
        assert!(refused.iter().any(|heard| heard.contains("amqp:not-found")), "{refused:?}");
        let mut world = World::new(2);
        for shard in &mut world.shards {
            shard.join(Membership { node: NodeNo(1), incarnation: 1, others: vec![NodeNo(2), NodeNo(3)] });
        }
        let mut client = attach(&mut world, role);
        client.hears(&mut world, &[]);
        // Nobody says how new its copy is.
        world.now.mono_ns += 5_100_000_000;
        assert_eq!(client.talk(&mut world), refused);
    }
}
