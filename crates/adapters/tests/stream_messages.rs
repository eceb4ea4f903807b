//! Messages over the stream protocol, from publisher to reader, against the whole broker in one process.

mod harness;
mod stream_client;

use adapters::{Alarm, Settings};
use base::id::PortId;
use broker::catalog::{Actor, Op, VhostId};
use harness::World;
use message::chunk::SubBatch;
use routing::Value;
use stream_client::Client;
use stream_protocol::key::CLIENT_VERSIONS;
use stream_protocol::{Command, List, OffsetSpec, Pair, Request};

const NAME: &[u8] = b"s";

fn create(world: &mut World, client: &mut Client) {
    let arguments = List::default();
    client.asks(world, &Request::Create { stream: NAME, arguments }, "Create 1");
}

/// A connection with a new stream and a publisher 1 to it.
fn publisher(world: &mut World, shard: usize, reference: &[u8]) -> Client {
    let mut client = Client::open(world, shard);
    create(world, &mut client);
    let declare = Request::DeclarePublisher { publisher_id: 1, reference, stream: NAME };
    client.asks(world, &declare, "DeclarePublisher 1");
    client
}

fn publish(client: &mut Client, messages: &[(u64, &str)]) {
    let mut frames = client.machine.publish(1, false);
    messages.iter().for_each(|(id, body)| assert!(frames.message(*id, None, body.as_bytes())));
}

fn subscribe<'a>(id: u8, offset: OffsetSpec, credit: u16, properties: &'a [Pair<'a>]) -> Request<'a> {
    let properties = List::new(properties);
    Request::Subscribe { subscription_id: id, stream: NAME, offset, credit, properties }
}

#[test]
fn messages_are_confirmed_and_delivered() {
    for (shards, reader) in [(1, 0), (2, 0), (2, 1)] {
        let mut world = World::new(shards);
        let mut client = publisher(&mut world, 0, b"");
        publish(&mut client, &[(7, "a"), (3, "b"), (100, "c")]);
        client.hears(&mut world, &["confirmed 1: [7, 3, 100]"]);
        let mut other = Client::open(&mut world, reader);
        other.ask(&subscribe(5, OffsetSpec::First, 10, &[]));
        other.hears(&mut world, &["Subscribe 1", "chunk 5 at 0, false: a,b,c"]);
        publish(&mut client, &[(101, "d")]);
        client.hears(&mut world, &["confirmed 1: [101]"]);
        other.hears(&mut world, &["chunk 5 at 3, false: d"]);
        let sums = world.sums();
        assert_eq!((sums.connections.connections, sums.stream_publishers, sums.consumers), (2, 1, [0, 0, 1]));
        assert_eq!(sums.offsets.iter().map(|(_, offset)| *offset).collect::<Vec<_>>(), [3]);
        other.asks(&mut world, &Request::Unsubscribe { subscription_id: 5 }, "Unsubscribe 1");
        publish(&mut client, &[(102, "e")]);
        client.hears(&mut world, &["confirmed 1: [102]"]);
        other.hears(&mut world, &[]);
    }
}

#[test]
fn credit_is_counted_in_chunks() {
    let mut world = World::new(1);
    let mut client = publisher(&mut world, 0, b"");
    for (id, body) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        publish(&mut client, &[(id, body)]);
        client.listen(&mut world, "/");
    }
    client.heard.clear();
    client.ask(&subscribe(1, OffsetSpec::First, 1, &[]));
    client.hears(&mut world, &["Subscribe 1", "chunk 1 at 0, false: a"]);
    client.machine.send(&Command::Credit { subscription_id: 1, credit: 2 });
    client.hears(&mut world, &["chunk 1 at 1, false: b", "chunk 1 at 2, false: c"]);
    let versions = List::new(&CLIENT_VERSIONS);
    client.asks(&mut world, &Request::ExchangeCommandVersions { versions }, "ExchangeCommandVersions 1");
    client.machine.send(&Command::Credit { subscription_id: 1, credit: 1 });
    client.hears(&mut world, &["chunk 1 at 3, true: d"]);
}

#[test]
fn a_reference_is_known_again() {
    let mut world = World::new(2);
    let mut client = publisher(&mut world, 1, b"ref");
    publish(&mut client, &[(1, "a"), (2, "b")]);
    client.hears(&mut world, &["confirmed 1: [1, 2]"]);
    publish(&mut client, &[(2, "b"), (3, "c")]);
    // An id that came before is told by itself: clients may take two equal ids in a frame for an error.
    client.hears(&mut world, &["confirmed 1: [2]", "confirmed 1: [3]"]);
    publish(&mut client, &[(4, "d"), (4, "d"), (5, "e"), (5, "e")]);
    client.hears(&mut world, &["confirmed 1: [4, 5]", "confirmed 1: [4, 5]"]);
    let ask = Request::QueryPublisherSequence { reference: b"ref", stream: NAME };
    client.asks(&mut world, &ask, "QueryPublisherSequence 1: 5");
    client.ask(&subscribe(1, OffsetSpec::First, 10, &[]));
    client.hears(
        &mut world,
        &["Subscribe 1", "chunk 1 at 0, false: a,b", "chunk 1 at 2, false: c", "chunk 1 at 3, false: d,e"],
    );
    let taken = Request::DeclarePublisher { publisher_id: 2, reference: b"ref", stream: NAME };
    client.asks(&mut world, &taken, "DeclarePublisher 17");
}

/// A publisher that goes on with the next number must not be told one that was used already: its next messages would be taken for known.
#[test]
fn the_last_number_is_told_with_what_is_under_way() {
    let mut world = World::new(2);
    let mut client = publisher(&mut world, 1, b"ref");
    publish(&mut client, &[(1, "a"), (2, "b")]);
    client.ask(&Request::QueryPublisherSequence { reference: b"ref", stream: NAME });
    client.hears(&mut world, &["QueryPublisherSequence 1: 2", "confirmed 1: [1, 2]"]);
}

#[test]
fn batches_are_kept_as_they_came_or_refused_with_what_follows() {
    let mut world = World::new(1);
    let mut client = publisher(&mut world, 0, b"");
    let batch = |records, uncompressed_len, compression| SubBatch {
        compression,
        records,
        uncompressed_len,
        body: b"\0\0\0\x01x\0\0\0\x01y",
    };
    let mut frames = client.machine.publish(1, false);
    assert!(frames.batch(1, &batch(2, 10, 1)) && frames.message(2, None, b"z"));
    client.hears(&mut world, &["confirmed 1: [1, 2]"]);
    let mut frames = client.machine.publish(1, false);
    assert!(
        frames.message(3, None, b"a") && frames.batch(4, &batch(9, 10, 0)) && frames.message(5, None, b"c")
    );
    client.hears(&mut world, &["failed 1: [(4, 17), (5, 17)]", "confirmed 1: [3]"]);
    client.ask(&subscribe(1, OffsetSpec::First, 10, &[]));
    let expected = ["Subscribe 1", "chunk 1 at 0, false: batch of 2,z", "chunk 1 at 3, false: a"];
    client.hears(&mut world, &expected);
}

#[test]
fn offsets_are_stored_and_resolved() {
    let mut world = World::new(1);
    let mut client = publisher(&mut world, 0, b"");
    let query = Request::QueryOffset { reference: b"r", stream: NAME };
    client.asks(&mut world, &query, "QueryOffset 19: 0");
    let stats = Request::StreamStats { stream: NAME };
    let nothing = "committed_chunk_id=-1,committed_offset=-1,first_chunk_id=-1,last_chunk_id=-1";
    client.asks(&mut world, &stats, &format!("StreamStats 1: {nothing}"));
    publish(&mut client, &[(1, "a"), (2, "b"), (3, "c")]);
    client.hears(&mut world, &["confirmed 1: [1, 2, 3]"]);
    client.machine.send(&Command::StoreOffset { reference: b"r", stream: NAME, offset: 2 });
    client.hears(&mut world, &[]);
    world.wait(client.wire, 200);
    client.asks(&mut world, &query, "QueryOffset 1: 2");
    let something = "committed_chunk_id=0,committed_offset=2,first_chunk_id=0,last_chunk_id=0";
    client.asks(&mut world, &stats, &format!("StreamStats 1: {something}"));
    let properties = List::default();
    for (offset, expected) in [(OffsetSpec::First, 0), (OffsetSpec::Last, 0), (OffsetSpec::Next, 3)] {
        let resolve = Request::ResolveOffsetSpec { stream: NAME, offset, properties };
        client.asks(&mut world, &resolve, &format!("ResolveOffsetSpec 1: {expected}"));
    }
}

#[test]
fn who_uses_a_stream_hears_of_its_end() {
    for (shards, of_other) in [(1, 0), (2, 1)] {
        let mut world = World::new(shards);
        let mut client = publisher(&mut world, 0, b"");
        client.asks(&mut world, &subscribe(4, OffsetSpec::First, 10, &[]), "Subscribe 1");
        let mut other = Client::open(&mut world, of_other);
        other.asks(&mut world, &subscribe(1, OffsetSpec::Next, 10, &[]), "Subscribe 1");
        client.ask(&Request::Delete { stream: NAME });
        client.hears(&mut world, &["Delete 1", "s is gone: 6"]);
        other.hears(&mut world, &["s is gone: 6"]);
        client.asks(&mut world, &Request::DeletePublisher { publisher_id: 1 }, "DeletePublisher 18");
        client.asks(&mut world, &Request::Unsubscribe { subscription_id: 4 }, "Unsubscribe 4");
    }
}

#[test]
fn one_of_a_group_is_active() {
    let single = [Pair::new("single-active-consumer", "true"), Pair::new("name", "group")];
    let mut world = World::new(1);
    let mut client = publisher(&mut world, 0, b"");
    publish(&mut client, &[(1, "a")]);
    client.hears(&mut world, &["confirmed 1: [1]"]);
    client.ask(&subscribe(1, OffsetSpec::Next, 10, &single));
    client.hears(&mut world, &["Subscribe 1", "update 1: true", "chunk 1 at 0, false: a"]);
    let mut other = Client::open(&mut world, 0);
    other.asks(&mut world, &subscribe(1, OffsetSpec::Next, 10, &single), "Subscribe 1");
    other.machine.send(&Command::Credit { subscription_id: 1, credit: 1 });
    other.hears(&mut world, &["credit refused 1: 17"]);
    world.cut(client.wire);
    other.hears(&mut world, &["update 1: true", "chunk 1 at 0, false: a"]);
    let unnamed = [Pair::new("single-active-consumer", "true")];
    other.asks(&mut world, &subscribe(2, OffsetSpec::Next, 10, &unnamed), "Subscribe 17");
}

#[test]
fn members_of_a_group_are_of_one_super_stream() {
    for shards in [1, 2] {
        let mut world = World::new(shards);
        let mut client = Client::open(&mut world, 0);
        let keys = [&b"0"[..], b"1"];
        let make = |world: &mut World, client: &mut Client, name: &[u8], partitions: [&[u8]; 2]| {
            let (partitions, binding_keys) = (List::new(&partitions), List::new(&keys));
            let make =
                Request::CreateSuperStream { name, partitions, binding_keys, arguments: List::default() };
            client.asks(world, &make, "CreateSuperStream 1");
        };
        make(&mut world, &mut client, b"all", [NAME, b"other"]);
        make(&mut world, &mut client, b"more", [b"x", b"y"]);
        let of = |super_stream: &'static str| {
            let single =
                [("single-active-consumer", "true"), ("name", "app"), ("super-stream", super_stream)];
            single.map(|(key, value)| Pair::new(key, value))
        };
        let (of_all, of_none, of_more) = (of("all"), &of("")[..2], of("more"));
        let mut other = Client::open(&mut world, shards as usize - 1);
        client.ask(&subscribe(1, OffsetSpec::Next, 10, &of_all));
        client.hears(&mut world, &["Subscribe 1", "update 1: true"]);
        // Of a super stream that the stream is not of it is no partition, as without one.
        for properties in [of_none, &of_more] {
            other.asks(&mut world, &subscribe(1, OffsetSpec::Next, 10, properties), "Subscribe 17");
        }
        other.asks(&mut world, &subscribe(1, OffsetSpec::Next, 10, &of_all), "Subscribe 1");
        other.asks(&mut world, &Request::Unsubscribe { subscription_id: 1 }, "Unsubscribe 1");
        // Nobody is left to say so.
        client.asks(&mut world, &Request::Unsubscribe { subscription_id: 1 }, "Unsubscribe 1");
        other.ask(&subscribe(1, OffsetSpec::Next, 10, of_none));
        other.hears(&mut world, &["Subscribe 1", "update 1: true"]);
        client.asks(&mut world, &subscribe(1, OffsetSpec::Next, 10, &of_all), "Subscribe 17");
        client.asks(&mut world, &subscribe(1, OffsetSpec::Next, 10, &of_more), "Subscribe 1");
    }
}

#[test]
fn what_a_member_that_left_was_asked_is_forgotten() {
    let single = [Pair::new("single-active-consumer", "true"), Pair::new("name", "group")];
    let mut world = World::new(1);
    let mut client = publisher(&mut world, 0, b"");
    client.unanswered = Some(Vec::new());
    for _ in 0..300 {
        client.ask(&subscribe(1, OffsetSpec::Next, 10, &single));
        client.hears(&mut world, &["Subscribe 1", "update 1: true"]);
        client.asks(&mut world, &Request::Unsubscribe { subscription_id: 1 }, "Unsubscribe 1");
    }
    world.wait(client.wire, 61_000);
    client.ask(&subscribe(1, OffsetSpec::Next, 10, &single));
    client.hears(&mut world, &["Subscribe 1", "update 1: true"]);
    // Answers that come late are to questions that nobody has any more.
    let asked = client.unanswered.take().unwrap();
    asked[..300].iter().for_each(|correlation_id| client.answer(*correlation_id));
    publish(&mut client, &[(1, "a")]);
    client.hears(&mut world, &["confirmed 1: [1]"]);
    client.answer(asked[300]);
    client.hears(&mut world, &["chunk 1 at 0, false: a"]);
}

#[test]
fn what_a_member_was_asked_goes_with_its_stream() {
    let single = [Pair::new("single-active-consumer", "true"), Pair::new("name", "group")];
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    client.unanswered = Some(Vec::new());
    for _ in 0..300 {
        client.asks(&mut world, &Request::Create { stream: NAME, arguments: List::default() }, "Create 1");
        client.ask(&subscribe(1, OffsetSpec::Next, 10, &single));
        client.hears(&mut world, &["Subscribe 1", "update 1: true"]);
        client.ask(&Request::Delete { stream: NAME });
        client.hears(&mut world, &["Delete 1", "s is gone: 6"]);
    }
    world.wait(client.wire, 61_000);
    client.hears(&mut world, &[]);
}

#[test]
fn super_streams_are_made_whole_or_not_at_all() {
    for shards in [1, 2] {
        let mut world = World::new(shards);
        let mut client = Client::open(&mut world, 0);
        let (streams, keys) = ([&b"p-0"[..], b"p-1", b"p-2"], [&b"0"[..], b"1", b"2"]);
        let (partitions, binding_keys, arguments) = (List::new(&streams), List::new(&keys), List::default());
        let make = |name| Request::CreateSuperStream { name, partitions, binding_keys, arguments };
        client.asks(&mut world, &make(b"all"), "CreateSuperStream 1");
        client.asks(&mut world, &Request::Partitions { super_stream: b"all" }, "Partitions 1: [p-0,p-1,p-2]");
        let route = |routing_key| Request::Route { routing_key, super_stream: b"all" };
        client.asks(&mut world, &route(b"1"), "Route 1: [p-1]");
        client.asks(&mut world, &route(b"x"), "Route 1: []");
        client.asks(&mut world, &make(b"all"), "CreateSuperStream 5");
        client.asks(&mut world, &make(b"other"), "CreateSuperStream 5");
        client.asks(&mut world, &Request::Partitions { super_stream: b"other" }, "Partitions 2: []");
        let properties = List::default();
        let (offset, credit) = (OffsetSpec::First, 1);
        let subscribe = Request::Subscribe { subscription_id: 1, stream: b"p-1", offset, credit, properties };
        client.asks(&mut world, &subscribe, "Subscribe 1");
        client.ask(&Request::DeleteSuperStream { name: b"all" });
        client.hears(&mut world, &["DeleteSuperStream 1", "p-1 is gone: 6"]);
        client.asks(&mut world, &Request::Delete { stream: b"p-0" }, "Delete 2");
    }
}

/// A partition that could not be deleted is told, even if others are deleted after it.
#[test]
fn a_super_stream_is_deleted_when_all_of_it_is() {
    for damaged in [0, 1] {
        let mut world = World::new(3);
        let mut client = Client::open(&mut world, 1);
        let (partitions, keys) = ([&b"p-0"[..]], [&b"0"[..]]);
        let (partitions, binding_keys, arguments) =
            (List::new(&partitions), List::new(&keys), List::default());
        let make = Request::CreateSuperStream { name: b"all", partitions, binding_keys, arguments };
        client.asks(&mut world, &make, "CreateSuperStream 1");
        // Another partition comes to it in another log.
        let mut other = Client::open(&mut world, 2);
        other.asks(&mut world, &Request::Create { stream: b"p-1", arguments }, "Create 1");
        let port = PortId::default();
        world.shards[0].open_port(port, Actor::internal(VhostId(0), port));
        let bind = Op::BindQueue {
            queue: "p-1".into(),
            exchange: "all".into(),
            key: "1".into(),
            arguments: [(&b"x-stream-partition-order"[..], Value::long(1))].into_iter().collect(),
        };
        world.shards[0].request(world.now, port, 1, bind);
        world.run();
        client.asks(&mut world, &Request::Partitions { super_stream: b"all" }, "Partitions 1: [p-0,p-1]");
        let log_of = |world: &World, name: &str| {
            let mut queues = world.shards[0].catalog().queues();
            queues.find(|queue| &*queue.name == name).map(|queue| queue.log)
        };
        let names = ["p-0", "p-1"];
        let logs = names.map(|name| log_of(&world, name).expect("it is there"));
        assert_ne!(logs[0], logs[1]);
        world.shards.iter_mut().for_each(|shard| shard.stop_log(logs[damaged]));
        client.asks(&mut world, &Request::DeleteSuperStream { name: b"all" }, "DeleteSuperStream 15");
        let left = names.map(|name| log_of(&world, name).is_some());
        assert_eq!(left, [damaged == 0, damaged == 1]);
        client.asks(&mut world, &Request::Partitions { super_stream: b"all" }, "Partitions 2: []");
    }
}

#[test]
fn of_two_who_make_a_super_stream_one_does() {
    for [first, second] in [[0, 1], [1, 0], [1, 2], [2, 1]] {
        let mut world = World::new(3);
        let mut clients = [first, second].map(|shard| Client::open(&mut world, shard));
        let (streams, keys) = ([&b"p-0"[..], b"p-1"], [&b"0"[..], b"1"]);
        let (partitions, binding_keys, arguments) = (List::new(&streams), List::new(&keys), List::default());
        for client in &mut clients {
            client.ask(&Request::CreateSuperStream { name: b"all", partitions, binding_keys, arguments });
        }
        // Neither can know of the other.
        for client in &mut clients {
            let output = client.machine.output_mut();
            let (bytes, len) = (output.to_vec(), output.len());
            output.sent(len);
            world.send(client.wire, &bytes);
        }
        let mut heard: Vec<String> = Vec::new();
        for client in &mut clients {
            client.listen(&mut world, "/");
            heard.append(&mut client.heard);
        }
        heard.sort();
        assert_eq!(heard, ["CreateSuperStream 1", "CreateSuperStream 5"], "{first} {second}");
        let [mut client, _] = clients;
        client.asks(&mut world, &Request::Partitions { super_stream: b"all" }, "Partitions 1: [p-0,p-1]");
        client.asks(
            &mut world,
            &Request::Route { routing_key: b"1", super_stream: b"all" },
            "Route 1: [p-1]",
        );
    }
}

/// A client that goes before the answer leaves all of it, and not a part.
#[test]
fn a_super_stream_is_made_though_its_maker_goes() {
    for (shards, maker) in [(1, 0), (2, 0), (2, 1)] {
        let mut world = World::new(shards);
        let mut client = Client::open(&mut world, maker);
        let (streams, keys) = ([&b"p-0"[..], b"p-1"], [&b"0"[..], b"1"]);
        let (partitions, binding_keys, arguments) = (List::new(&streams), List::new(&keys), List::default());
        client.ask(&Request::CreateSuperStream { name: b"all", partitions, binding_keys, arguments });
        let bytes = client.machine.output_mut().to_vec();
        world.send(client.wire, &bytes);
        world.cut(client.wire);
        world.run();
        let mut other = Client::open(&mut world, 0);
        other.asks(&mut world, &Request::Partitions { super_stream: b"all" }, "Partitions 1: [p-0,p-1]");
        other.asks(&mut world, &Request::DeleteSuperStream { name: b"all" }, "DeleteSuperStream 1");
    }
}

#[test]
fn names_that_come_out_the_same_make_no_super_stream() {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    let (streams, keys) = ([&b"p"[..], b"p\n"], [&b"0"[..], b"1"]);
    let (partitions, binding_keys, arguments) = (List::new(&streams), List::new(&keys), List::default());
    let make = Request::CreateSuperStream { name: b"all", partitions, binding_keys, arguments };
    client.asks(&mut world, &make, "CreateSuperStream 5");
    client.asks(&mut world, &Request::Partitions { super_stream: b"all" }, "Partitions 2: []");
    client.asks(&mut world, &Request::Delete { stream: b"p" }, "Delete 2");
}

#[test]
fn what_went_wrong_halfway_is_taken_back() {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    let (streams, keys) = ([&b"q-0"[..], b"q-1"], [&b"0"[..], b"1"]);
    // The second is refused by the catalog, not by the checks before.
    let unfit = [Pair::new("stream-filter-size-bytes", "3")];
    let arguments = List::new(&unfit);
    let (partitions, binding_keys) = (List::new(&streams), List::new(&keys));
    let make = Request::CreateSuperStream { name: b"half", partitions, binding_keys, arguments };
    client.asks(&mut world, &make, "CreateSuperStream 17");
    client.asks(&mut world, &Request::Partitions { super_stream: b"half" }, "Partitions 2: []");
    client.asks(&mut world, &Request::Delete { stream: b"q-0" }, "Delete 2");
}

#[test]
fn a_publisher_ahead_of_the_disk_is_not_read() {
    let mut settings = Settings::new("rabbit@test");
    (settings.stream.initial_credits, settings.stream.credits_required_for_unblocking) = (10, 5);
    let mut world = World::with(1, broker::Limits::default(), settings);
    let mut client = publisher(&mut world, 0, b"");
    world.is_disk_slow = true;
    for id in 0..12 {
        publish(&mut client, &[(id, "x")]);
    }
    client.hears(&mut world, &[]);
    assert!(world.kept(client.wire) > 0, "two messages more than may wait");
    world.is_disk_slow = false;
    client.listen(&mut world, "/");
    let confirmed: Vec<_> = client.heard.iter().filter(|line| line.starts_with("confirmed")).collect();
    assert!(!confirmed.is_empty() && world.kept(client.wire) == 0, "{confirmed:?}");
}

#[test]
fn offsets_wait_for_the_disk() {
    let limits = broker::Limits { log_bytes_in_flight_max: 4096, ..broker::Limits::default() };
    let mut world = World::with(1, limits, Settings::new("rabbit@test"));
    let mut client = Client::open(&mut world, 0);
    create(&mut world, &mut client);
    world.is_disk_slow = true;
    let mut store = |world: &mut World, offsets: std::ops::Range<u64>, reference: &[u8]| {
        for offset in offsets {
            client.machine.send(&Command::StoreOffset { reference, stream: NAME, offset });
        }
        client.hears(world, &[]);
    };
    store(&mut world, 0..1000, b"app");
    assert!(!world.shards[0].is_congested(), "they are one record");
    (0..1000).for_each(|turn| store(&mut world, turn..turn + 1, b"other"));
    assert!(world.shards[0].is_congested());
    assert!(world.kept(client.wire) > 0);
    world.is_disk_slow = false;
    client.listen(&mut world, "/");
    assert_eq!(world.kept(client.wire), 0);
    for (reference, expected) in [(&b"app"[..], "QueryOffset 1: 999"), (b"other", "QueryOffset 1: 999")] {
        client.asks(&mut world, &Request::QueryOffset { reference, stream: NAME }, expected);
    }
    // A client that asks in the same breath hears the offset it has just stored.
    client.machine.send(&Command::StoreOffset { reference: b"app", stream: NAME, offset: 5 });
    client.asks(&mut world, &Request::QueryOffset { reference: b"app", stream: NAME }, "QueryOffset 1: 5");
}

#[test]
fn who_is_not_read_need_not_answer() {
    let mut world = World::new(1);
    let mut client = publisher(&mut world, 0, b"");
    client.unanswered = Some(Vec::new());
    let single = [Pair::new("single-active-consumer", "true"), Pair::new("name", "group")];
    client.ask(&subscribe(1, OffsetSpec::Next, 10, &single));
    client.hears(&mut world, &["Subscribe 1", "update 1: true"]);
    world.wait(client.wire, 30_000);
    let alarm = |world: &mut World, alarm| world.fronts[0].set_alarm(world.now, &mut world.shards[0], alarm);
    alarm(&mut world, Some(Alarm::Disk));
    publish(&mut client, &[(1, "a")]);
    client.hears(&mut world, &[]);
    assert!(world.kept(client.wire) > 0);
    world.wait(client.wire, 600_000);
    client.hears(&mut world, &[]);
    alarm(&mut world, None);
    client.hears(&mut world, &["confirmed 1: [1]"]);
    // The time it has goes on where it stood.
    world.wait(client.wire, 29_000);
    client.hears(&mut world, &[]);
    world.wait(client.wire, 2_000);
    world.run();
    assert!(world.is_gone(client.wire));
}

#[test]
fn filters_and_properties_are_bounded() {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    create(&mut world, &mut client);
    let values =
        |count: usize| (0..count).map(|at| Pair::new("filter.x", ["a", "b"][at % 2])).collect::<Vec<_>>();
    client.asks(&mut world, &subscribe(1, OffsetSpec::First, 1, &values(255)), "Subscribe 1");
    client.asks(&mut world, &subscribe(2, OffsetSpec::First, 1, &values(256)), "Subscribe 17");
    let long = "v".repeat(16 << 10);
    let with = |len: usize| [Pair::new("k", &long[..len])];
    // Each stored offset counts with its name and its value, however short they are.
    let most = (16 << 10) - 32 - 1;
    client.asks(&mut world, &subscribe(2, OffsetSpec::First, 1, &with(most)), "Subscribe 1");
    client.asks(&mut world, &subscribe(3, OffsetSpec::First, 1, &with(most + 1)), "Subscribe 17");
    let empty = vec![Pair::new("", ""); 513];
    client.asks(&mut world, &subscribe(3, OffsetSpec::First, 1, &empty), "Subscribe 17");
    client.asks(&mut world, &subscribe(3, OffsetSpec::First, 1, &empty[1..]), "Subscribe 1");
}

#[test]
fn filters_leave_chunks_out() {
    let mut world = World::new(1);
    let mut client = publisher(&mut world, 0, b"");
    for (id, value) in [(1, "apple"), (2, "pear"), (3, "apple")] {
        client.machine.publish(1, true).message(id, Some(value.as_bytes()), value.as_bytes());
        client.listen(&mut world, "/");
    }
    client.heard.clear();
    let wanted = [Pair::new("filter.0", "apple")];
    client.ask(&subscribe(1, OffsetSpec::First, 10, &wanted));
    let expected = ["Subscribe 1", "chunk 1 at 0, false: apple", "chunk 1 at 2, false: apple"];
    client.hears(&mut world, &expected);
}
