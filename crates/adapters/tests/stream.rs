//! Clients of the stream protocol against the whole broker in one process.

mod harness;
mod stream_client;

use adapters::Settings;
use harness::World;
use stream_client::{Client, START};
use stream_protocol::key::{CLIENT_VERSIONS, Versions};
use stream_protocol::{Command, List, OffsetSpec, Request, ResponseCode};

fn frame(key: u16, version: u16, rest: &[u8]) -> Vec<u8> {
    let size = 4 + rest.len() as u32;
    [&size.to_be_bytes()[..], &key.to_be_bytes(), &version.to_be_bytes(), rest].concat()
}

#[test]
fn who_comes_in() {
    let mut world = World::new(1);
    let check = |world: &mut World, mechanism: &str, response: &[u8], vhost: &str, expected: &[&str]| {
        let mut client = Client::log_in(world, 0, mechanism, response, vhost);
        // Some answers come after a silence.
        world.wait(client.wire, 4_000);
        client.listen(world, vhost);
        let heard: Vec<String> =
            client.heard.iter().filter(|line| !line.starts_with("Tune")).cloned().collect();
        assert_eq!(heard, expected, "{mechanism} {response:?} {vhost}");
        world.cut(client.wire);
    };
    let hello = ["PeerProperties 1", "SaslHandshake 1"];
    let with = |more: &[&'static str]| [&hello[..], more].concat();
    check(&mut world, "PLAIN", b"\0guest\0guest", "/", &with(&["SaslAuthenticate 1", "Open 1"]));
    check(&mut world, "ANONYMOUS", b"", "/", &with(&["SaslAuthenticate 1", "Open 1"]));
    check(&mut world, "PLAIN", b"\0guest\0wrong", "/", &with(&["SaslAuthenticate 8"]));
    check(&mut world, "PLAIN", b"guest", "/", &with(&["SaslAuthenticate 9"]));
    check(&mut world, "CRAM-MD5", b"guest", "/", &with(&["SaslAuthenticate 7"]));
    check(&mut world, "PLAIN", b"\0guest\0guest", "nowhere", &with(&["SaslAuthenticate 1", "Open 12"]));
}

#[test]
fn an_open_connection_is_listed_and_named() {
    let mut world = World::new(1);
    let client = Client::open(&mut world, 0);
    let rows = world.fronts[0].rows(world.shards[0].catalog());
    assert_eq!((rows[0].state, &*rows[0].user, &*rows[0].vhost), ("running", "guest", "/"));
    world.cut(client.wire);
    world.run();
    assert!(world.notes.iter().any(|note| note.text.contains("unexpectedly closed")));
}

#[test]
fn what_is_not_there() {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    let (stream, reference) = (&b"nothing"[..], &b"r"[..]);
    let properties = List::default();
    let offset = OffsetSpec::First;
    let asked = [stream, stream];
    let rows: [(Request<'_>, &str); 14] = [
        (Request::DeclarePublisher { publisher_id: 1, reference, stream }, "DeclarePublisher 2"),
        (Request::DeletePublisher { publisher_id: 1 }, "DeletePublisher 18"),
        (Request::QueryPublisherSequence { reference, stream }, "QueryPublisherSequence 2: 0"),
        (Request::Subscribe { subscription_id: 1, stream, offset, credit: 1, properties }, "Subscribe 2"),
        (Request::Unsubscribe { subscription_id: 1 }, "Unsubscribe 4"),
        (Request::QueryOffset { reference, stream }, "QueryOffset 2: 0"),
        (Request::Delete { stream }, "Delete 2"),
        (Request::StreamStats { stream }, "StreamStats 2: "),
        (Request::ResolveOffsetSpec { stream, offset, properties }, "ResolveOffsetSpec 2: 0"),
        (Request::Route { routing_key: b"k", super_stream: stream }, "Route 2: []"),
        (Request::Partitions { super_stream: stream }, "Partitions 2: []"),
        (Request::DeleteSuperStream { name: stream }, "DeleteSuperStream 2"),
        (Request::Create { stream: b"amq.x", arguments: properties }, "Create 17"),
        (Request::Metadata { streams: List::new(&asked) }, "Metadata [] [nothing=2@None]"),
    ];
    for (request, expected) in rows {
        client.asks(&mut world, &request, expected);
    }
    client.machine.send(&Command::Credit { subscription_id: 9, credit: 1 });
    client.hears(&mut world, &["credit refused 9: 4"]);
    client.machine.send(&Command::StoreOffset { reference, stream, offset: 1 });
    client.hears(&mut world, &[]);
    client.machine.publish(3, false).message(7, None, b"hello");
    client.hears(&mut world, &["failed 3: [(7, 18)]"]);
}

#[test]
fn classic_queues_are_no_streams() {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    let (vhost, port) = (broker::catalog::VhostId(0), base::id::PortId::default());
    let log = world.shards[0].log_for_new_queue(true);
    let actor = broker::catalog::Actor::internal(vhost, port);
    world.shards[0].open_port(port, actor);
    let op = broker::catalog::Op::DeclareQueue {
        name: "classic".into(),
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: Default::default(),
        log,
        random: [0; 16],
    };
    world.shards[0].request(world.now, port, 1, op);
    world.run();
    let stream = &b"classic"[..];
    client.asks(&mut world, &Request::Delete { stream }, "Delete 2");
    let declare = Request::DeclarePublisher { publisher_id: 1, reference: b"", stream };
    client.asks(&mut world, &declare, "DeclarePublisher 2");
    let asked = [stream];
    let streams = List::new(&asked);
    client.asks(&mut world, &Request::Metadata { streams }, "Metadata [] [classic=2@None]");
    let create = Request::Create { stream, arguments: List::default() };
    client.asks(&mut world, &create, "Create 17");
}

#[test]
fn versions_are_exchanged() {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    let versions = List::new(&CLIENT_VERSIONS);
    client.asks(&mut world, &Request::ExchangeCommandVersions { versions }, "ExchangeCommandVersions 1");
    let old = [Versions { key: 8, min: 1, max: 1 }];
    let versions = List::new(&old);
    client.asks(&mut world, &Request::ExchangeCommandVersions { versions }, "ExchangeCommandVersions 1");
}

#[test]
fn a_login_may_be_renewed_and_not_changed() {
    let renewal = |mechanism: &'static str, response: &'static [u8], expected: &[&str]| {
        let mut world = World::new(1);
        let mut client = Client::open(&mut world, 0);
        client.ask(&Request::SaslAuthenticate { mechanism: mechanism.as_bytes(), response });
        client.listen(&mut world, "/");
        world.wait(client.wire, 4_000);
        client.hears(&mut world, expected);
        assert_eq!(world.is_gone(client.wire), expected != ["SaslAuthenticate 1"]);
    };
    renewal("PLAIN", b"\0guest\0guest", &["SaslAuthenticate 1"]);
    renewal("PLAIN", b"\0guest\0wrong", &["SaslAuthenticate 8"]);
    renewal("ANONYMOUS", b"", &["SaslAuthenticate 20"]);
}

#[test]
fn what_is_no_command_ends_the_connection() {
    let check = |bytes: &[u8], expected: &[&str]| {
        let mut world = World::new(1);
        let mut client = Client::open(&mut world, 0);
        client.says(bytes);
        client.hears(&mut world, expected);
        assert!(world.is_gone(client.wire));
    };
    check(&frame(99, 1, &[]), &["close 13: unknown frame", "Closed"]);
    check(&frame(1, 7, &[0; 8]), &["close 13: unknown frame", "Closed"]);
}

#[test]
fn a_frame_may_be_too_large() {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    client.says(&0x0fff_ffff_u32.to_be_bytes());
    client.hears(&mut world, &["close 14: frame too large", "Closed"]);
    // What answers the close is still part of that frame.
    assert!(!world.is_gone(client.wire));
    world.wait(client.wire, 11_000);
    world.run();
    assert!(world.is_gone(client.wire));
}

#[test]
fn a_client_says_goodbye() {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    client.machine.close(START, ResponseCode::OK, "bye");
    client.hears(&mut world, &["Closed"]);
    assert!(world.is_gone(client.wire));
}

#[test]
fn a_long_frame_may_come_in_pieces() {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    let body = vec![b'x'; 600_000];
    client.machine.publish(3, false).message(1, None, &body);
    client.machine.publish(3, false).message(2, None, &body);
    let bytes = client.machine.output_mut().to_vec();
    client.machine.output_mut().sent(bytes.len());
    for piece in bytes.chunks(70_001) {
        world.send(client.wire, piece);
    }
    client.hears(&mut world, &["failed 3: [(1, 18)]", "failed 3: [(2, 18)]"]);
}

#[test]
fn an_idle_connection_costs_little() {
    let mut world = World::new(1);
    let clients: Vec<Client> = (0..100).map(|_| Client::open(&mut world, 0)).collect();
    let bytes = world.fronts[0].heap_bytes() / clients.len();
    assert!(bytes < 1100, "{bytes} bytes");
}

#[test]
fn the_node_may_send_everybody_away() {
    let mut world = World::with(1, broker::Limits::default(), Settings::new("rabbit@test"));
    let client = Client::open(&mut world, 0);
    world.fronts[0].shut_down(world.now, &mut world.shards[0]);
    world.run();
    assert!(world.is_gone(client.wire));
}
