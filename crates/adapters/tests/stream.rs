//! Clients of the stream protocol against the whole broker in one process.

mod harness;
mod stream_client;

use adapters::Settings;
use harness::World;
use stream_client::{Client, START};
use stream_protocol::key::{CLIENT_VERSIONS, Versions};
use stream_protocol::{Command, List, OffsetSpec, Pair, Request, ResponseCode};

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
    let rows = world.rows(0);
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
    let actor = broker::catalog::Actor::internal(vhost, port);
    world.shards[0].open_port(port, actor);
    let op = broker::catalog::Op::DeclareQueue {
        name: "classic".into(),
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: Default::default(),
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
fn who_may_no_longer_write_is_refused() {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    let (stream, arguments) = (&b"s"[..], List::default());
    client.asks(&mut world, &Request::Create { stream, arguments }, "Create 1");
    let declare = Request::DeclarePublisher { publisher_id: 1, reference: b"", stream };
    client.asks(&mut world, &declare, "DeclarePublisher 1");
    let port = base::id::PortId::default();
    world.shards[0].open_port(port, broker::catalog::Actor::internal(broker::catalog::VhostId(0), port));
    let rows = [(".*", "confirmed 1: [1, 2]"), ("^other$", "failed 1: [(1, 16), (2, 16)]")];
    for (token, (write, expected)) in rows.into_iter().chain(rows).enumerate() {
        let op = broker::catalog::Op::SetPermissions {
            user: "guest".into(),
            vhost: "/".into(),
            configure: ".*".into(),
            write: write.into(),
            read: ".*".into(),
        };
        world.shards[0].request(world.now, port, token as u32, op);
        world.run();
        for _ in 0..2 {
            let mut frames = client.machine.publish(1, false);
            assert!(frames.message(1, None, b"hello") && frames.message(2, None, b"you"));
            client.hears(&mut world, &[expected]);
        }
    }
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
    // The answer to the close is still part of that frame.
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

/// A node whose connections go where their stream is, the shard its stream `s` is on, and the client that declared it.
fn following(stream_at: usize) -> (World, Client) {
    let following = Some(std::sync::Arc::new(adapters::Following::new(3)));
    let settings = Settings { following, ..Settings::new("rabbit@test") };
    let mut world = World::with(3, broker::Limits::default(), settings);
    let mut owner = Client::open(&mut world, stream_at);
    create(&mut world, &mut owner, b"s");
    (world, owner)
}

fn create(world: &mut World, client: &mut Client, stream: &[u8]) {
    client.asks(world, &Request::Create { stream, arguments: List::default() }, "Create 1");
}

fn publish(world: &mut World, client: &mut Client, publisher: u8, ids: std::ops::Range<u64>) {
    for id in ids {
        client.machine.publish(publisher, false).message(id, None, b"hello");
        client.hears(world, &[&format!("confirmed {publisher}: [{id}]")]);
    }
}

fn declare(world: &mut World, client: &mut Client, publisher_id: u8, stream: &[u8]) {
    let declare = Request::DeclarePublisher { publisher_id, reference: b"", stream };
    client.asks(world, &declare, "DeclarePublisher 1");
}

#[test]
fn a_publisher_goes_where_its_stream_is_and_loses_nothing() {
    let (mut world, mut owner) = following(2);
    let mut publisher = Client::open(&mut world, 1);
    declare(&mut world, &mut publisher, 3, b"s");
    publish(&mut world, &mut publisher, 3, 0..7);
    assert_eq!(world.shard_of(publisher.wire), 1, "it may be gone as soon as it came");
    publish(&mut world, &mut publisher, 3, 7..40);
    assert_eq!(world.shard_of(publisher.wire), 2);
    owner.ask(&Request::StreamStats { stream: b"s" });
    owner.listen(&mut world, "/");
    let heard = std::mem::take(&mut owner.heard);
    assert!(heard[0].contains("committed_offset=39"), "{heard:?}");
    // It reads where it is, and is told of changes of its streams.
    create(&mut world, &mut publisher, b"other");
    let offset = OffsetSpec::First;
    let properties = List::default();
    let subscribe = Request::Subscribe { subscription_id: 1, stream: b"s", offset, credit: 0, properties };
    publisher.asks(&mut world, &subscribe, "Subscribe 1");
    owner.asks(&mut world, &Request::Delete { stream: b"s" }, "Delete 1");
    publisher.hears(&mut world, &["s is gone: 6"]);
}

#[test]
fn a_publisher_stays_who_reads_or_writes_elsewhere_too() {
    let (mut world, mut owner) = following(2);
    let mut near = Client::open(&mut world, 0);
    create(&mut world, &mut near, b"near");
    let mut reader = Client::open(&mut world, 1);
    let offset = OffsetSpec::Next;
    let properties = List::default();
    let subscribe = Request::Subscribe { subscription_id: 1, stream: b"s", offset, credit: 0, properties };
    reader.asks(&mut world, &subscribe, "Subscribe 1");
    let mut several = Client::open(&mut world, 1);
    declare(&mut world, &mut several, 1, b"near");
    for client in [&mut reader, &mut several] {
        declare(&mut world, client, 0, b"s");
        publish(&mut world, client, 0, 0..20);
        assert_eq!(world.shard_of(client.wire), 1);
    }
    declare(&mut world, &mut owner, 0, b"s");
    publish(&mut world, &mut owner, 0, 0..20);
    assert_eq!(world.shard_of(owner.wire), 2, "it is there");
}

#[test]
fn a_stream_that_is_deleted_while_its_publisher_is_on_its_way_is_missed() {
    let (mut world, mut owner) = following(2);
    let mut publisher = Client::open(&mut world, 1);
    declare(&mut world, &mut publisher, 3, b"s");
    publish(&mut world, &mut publisher, 3, 0..7);
    // It is to go, and waits for its last confirm.
    world.is_disk_slow = true;
    publisher.machine.publish(3, false).message(7, None, b"hello");
    publisher.hears(&mut world, &[]);
    assert_eq!(world.shard_of(publisher.wire), 1);
    owner.ask(&Request::Delete { stream: b"s" });
    owner.listen(&mut world, "/");
    world.is_disk_slow = false;
    owner.hears(&mut world, &["Delete 1"]);
    publisher.listen(&mut world, "/");
    let heard = std::mem::take(&mut publisher.heard);
    assert_eq!((world.shard_of(publisher.wire), heard.last().map(String::as_str)), (2, Some("s is gone: 6")));
    publisher.asks(&mut world, &Request::DeletePublisher { publisher_id: 3 }, "DeletePublisher 18");
}

/// A long request came in two pieces, and the next ones wait for its answer: they are no beginning of a long frame.
#[test]
fn what_follows_a_long_request_is_heard() {
    const QUESTIONS: u32 = 6000;
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    let arguments = vec![Pair::new("max-length-bytes", "1000000"); 6000];
    client.ask(&Request::Create { stream: b"s", arguments: List::new(&arguments) });
    let output = client.machine.output_mut();
    let mut bytes = output.to_vec();
    output.sent(bytes.len());
    assert!(bytes.len() > 150_000);
    let mut expected = vec!["Create 1".to_owned()];
    for number in 0..QUESTIONS {
        // Credit for a subscription that is not there.
        bytes.extend([0, 0, 0, 7, 0, 9, 0, 1, number as u8, 0, 1]);
        expected.push(format!("credit refused {}: 4", number as u8));
    }
    let (first, second) = bytes.split_at(100_000);
    world.send(client.wire, first);
    world.run();
    world.send(client.wire, second);
    client.listen(&mut world, "/");
    assert_eq!(client.heard, expected);
}
