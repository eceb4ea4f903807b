//! Alarms of memory and disk: the connections that are not read while they hold.

mod amqp091_client;
mod amqp10_client;
mod harness;
mod stream_client;

use adapters::Alarm;
use amqp091::method::*;
use amqp091_client::{Client, PERSISTENT};
use harness::World;
use stream_protocol::{List, Request};

const ALARMS: [(Alarm, &str); 3] = [
    (Alarm::Memory, "blocked: low on memory"),
    (Alarm::Disk, "blocked: low on disk"),
    (Alarm::MemoryAndDisk, "blocked: low on disk & memory"),
];

fn set(world: &mut World, alarm: Option<Alarm>) {
    let (now, World { shards, fronts, .. }) = (world.now, world);
    fronts[0].set_alarm(now, &mut shards[0], alarm);
}

/// A client with confirms, its connection opened while an alarm holds; and another that looks.
fn during(world: &mut World, alarm: Alarm) -> (Client, Client) {
    let mut other = Client::open(world, 0);
    other.declare(world, "q");
    set(world, Some(alarm));
    let mut client = Client::open(world, 0);
    client.send(&ConfirmSelect::default());
    client.hears(world, &["ConfirmSelectOk"]);
    (client, other)
}

#[test]
fn no_body_is_read() {
    for (alarm, told) in ALARMS {
        // The bodies of the messages that come at once, and which of them are taken.
        for (bodies, taken) in [
            (&["a"][..], &[][..]),
            (&["a", "b", "c"], &[]),
            (&[""], &["ack 1"]),
            (&["", "", ""], &["ack 1"]),
            (&["", "b"], &["ack 1"]),
            (&["a", ""], &[]),
        ] {
            let mut world = World::new(1);
            let (mut client, mut other) = during(&mut world, alarm);
            bodies.iter().for_each(|body| client.publish("q", body));
            client.hears(&mut world, &[&[told], taken].concat());
            client.publish("q", "later");
            client.hears(&mut world, &[]);
            other.send(&QueueDeclare { queue: b"q", passive: true, ..Default::default() });
            other.hears(&mut world, &[&format!("queue q {} 0", taken.len())]);
            set(&mut world, None);
            let heard = client.talk(&mut world);
            assert_eq!(heard.first().map(String::as_str), Some("ConnectionUnblocked"), "{bodies:?}");
            other.send(&QueueDeclare { queue: b"q", passive: true, ..Default::default() });
            other.hears(&mut world, &[&format!("queue q {} 0", bodies.len() + 1)]);
        }
    }
}

#[test]
fn a_body_beyond_a_frame_is_not_read() {
    let mut world = World::new(1);
    let (mut client, mut other) = during(&mut world, Alarm::Memory);
    client.publish_to("", "q", PERSISTENT, &vec![b'x'; 1_000_000]);
    client.hears(&mut world, &["blocked: low on memory"]);
    set(&mut world, None);
    client.hears(&mut world, &["ConnectionUnblocked", "ack 1"]);
    other.send(&QueueDeclare { queue: b"q", passive: true, ..Default::default() });
    other.hears(&mut world, &["queue q 1 0"]);
}

#[test]
fn what_came_with_the_login_is_not_read() {
    // Everything is sent before anything is answered, in one piece or by the byte.
    for step in [usize::MAX, 1, 7, 8, 9, 1000] {
        let mut world = World::new(1);
        let mut other = Client::open(&mut world, 0);
        other.declare(&mut world, "q");
        set(&mut world, Some(Alarm::Disk));
        let mut frames = amqp091::frame::PROTOCOL_HEADER.to_vec();
        frames.extend(handshake());
        frames.extend(frame(1, 1, &[0, 20, 0, 10, 0]));
        frames.extend(frame(1, 1, &[0, 85, 0, 10, 0]));
        (0..2).for_each(|_| frames.extend(message(b"xx")));
        let wire = world.connect(0);
        for piece in frames.chunks(step.min(frames.len())) {
            world.send(wire, piece);
        }
        world.run();
        let heard = world.take(wire);
        let tells = |what: &[u8]| heard.windows(what.len()).any(|part| part == what);
        assert!(tells(b"low on disk") && tells(&[0, 85, 0, 11, 0xCE]), "{step}: {heard:?}");
        assert!(!tells(&[0, 60, 0, 80]), "{step}: an ack: {heard:?}");
        other.send(&QueueDeclare { queue: b"q", passive: true, ..Default::default() });
        other.hears(&mut world, &["queue q 0 0"]);
        set(&mut world, None);
        world.run();
        assert!(world.take(wire).windows(4).any(|part| part == [0, 60, 0, 80]), "{step}");
        other.send(&QueueDeclare { queue: b"q", passive: true, ..Default::default() });
        other.hears(&mut world, &["queue q 2 0"]);
    }
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let size = payload.len() as u32;
    [&[kind][..], &channel.to_be_bytes(), &size.to_be_bytes(), payload, &[0xCE]].concat()
}

/// `start-ok`, `tune-ok` and `open` of a client that wants to hear of alarms.
fn handshake() -> Vec<u8> {
    let properties = amqp091_client::capable();
    let size = (properties.len() as u32).to_be_bytes();
    let response = b"\0guest\0guest";
    let start_ok = [
        &[0, 10, 0, 11][..],
        &size,
        &properties,
        b"\x05PLAIN",
        &(response.len() as u32).to_be_bytes(),
        response,
        b"\x05en_US",
    ];
    [
        frame(1, 0, &start_ok.concat()),
        frame(1, 0, &[0, 10, 0, 31, 7, 255, 0, 2, 0, 0, 0, 0]),
        frame(1, 0, &[0, 10, 0, 40, 1, b'/', 0, 0]),
    ]
    .concat()
}

/// A message to `q`.
fn message(body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u64).to_be_bytes();
    [
        frame(1, 1, b"\0\x3c\0\x28\0\0\0\x01q\0"),
        frame(2, 1, &[&[0, 60, 0, 0][..], &size, &[0, 0]].concat()),
        frame(3, 1, body),
    ]
    .concat()
}

#[test]
fn contents_that_are_discarded_hold_nobody_up() {
    let mut world = World::new(1);
    let (mut client, mut other) = during(&mut world, Alarm::Memory);
    // Its channel is closed by the broker; frames that came behind are discarded, and the close of it is read.
    client.send(&QueueDeclare { queue: b"absent", passive: true, ..Default::default() });
    client.exchange(&mut world);
    client.publish("q", "a");
    client.publish("q", "b");
    let heard = client.talk(&mut world);
    assert!(heard.len() == 1 && heard[0].starts_with("channel: 404"), "{heard:?}");
    client.machine.channel_open(2);
    client.hears(&mut world, &["channel 2 open"]);
    other.send(&QueueDeclare { queue: b"q", passive: true, ..Default::default() });
    other.hears(&mut world, &["queue q 0 0"]);
}

#[test]
fn only_who_publishes_is_held() {
    for (alarm, told) in ALARMS {
        let mut world = World::new(1);
        let mut publisher = Client::open(&mut world, 0);
        let mut consumer = Client::open(&mut world, 0);
        consumer.declare(&mut world, "q");
        consumer.consume("q", "c", true);
        consumer.hears(&mut world, &["consuming c"]);
        publisher.publish("q", "first");
        publisher.hears(&mut world, &[]);
        consumer.hears(&mut world, &["c 1 first"]);
        set(&mut world, Some(alarm));
        publisher.hears(&mut world, &[told]);
        publisher.publish("q", "second");
        publisher.hears(&mut world, &[]);
        consumer.hears(&mut world, &[]);
        consumer.get("q", true);
        consumer.hears(&mut world, &["empty"]);
        set(&mut world, None);
        publisher.hears(&mut world, &["ConnectionUnblocked"]);
        consumer.hears(&mut world, &["c 2 second"]);
    }
}

#[test]
fn the_method_alone_makes_no_publisher() {
    let mut world = World::new(1);
    let (mut client, mut other) = during(&mut world, Alarm::Memory);
    let bytes = message(b"xx");
    let method = 7 + 10 + 1;
    let header = method + 7 + 14 + 1;
    for (piece, told) in [
        (&bytes[..method], &[][..]),
        (&bytes[method..header - 1], &[]),
        (&bytes[header - 1..header], &["blocked: low on memory"]),
        (&bytes[header..], &[]),
    ] {
        world.send(client.wire, piece);
        client.hears(&mut world, told);
    }
    set(&mut world, None);
    client.hears(&mut world, &["ConnectionUnblocked", "ack 1"]);
    other.get("q", true);
    other.hears(&mut world, &["got 1 xx, 0 left"]);
}

#[test]
fn streams_stop_for_the_disk_alone() {
    let publish = |client: &mut stream_client::Client, id: u64| {
        assert!(client.machine.publish(1, false).message(id, None, b"a"));
    };
    for (alarm, is_held) in [(Alarm::Memory, false), (Alarm::Disk, true), (Alarm::MemoryAndDisk, true)] {
        let mut world = World::new(1);
        let mut early = stream_client::Client::open(&mut world, 0);
        let declare = Request::DeclarePublisher { publisher_id: 1, reference: b"", stream: b"s" };
        early.asks(&mut world, &Request::Create { stream: b"s", arguments: List::default() }, "Create 1");
        early.asks(&mut world, &declare, "DeclarePublisher 1");
        set(&mut world, Some(alarm));
        let mut late = stream_client::Client::open(&mut world, 0);
        late.asks(&mut world, &declare, if is_held { "DeclarePublisher 17" } else { "DeclarePublisher 1" });
        publish(&mut early, 1);
        early.hears(&mut world, if is_held { &[] } else { &["confirmed 1: [1]"] });
        if !is_held {
            publish(&mut late, 1);
            late.hears(&mut world, &["confirmed 1: [1]"]);
            // The other alarm beside it.
            set(&mut world, Some(Alarm::MemoryAndDisk));
            publish(&mut early, 2);
            early.hears(&mut world, &[]);
            set(&mut world, Some(Alarm::Memory));
            early.hears(&mut world, &["confirmed 1: [2]"]);
            continue;
        }
        set(&mut world, Some(Alarm::Memory));
        early.hears(&mut world, &["confirmed 1: [1]"]);
        late.asks(&mut world, &declare, "DeclarePublisher 1");
    }
}

#[test]
fn a_session_that_begins_has_no_window() {
    for (alarm, _) in ALARMS {
        let mut world = World::new(1);
        amqp10_client::declare(&mut world, 0, "q");
        set(&mut world, Some(alarm));
        let mut client = amqp10_client::Client::open(&mut world, 0);
        let link = client.sender(&mut world, "in", Some("/queues/q"));
        client.send(link, 0, &amqp10_client::message(true, None, "m"));
        let heard = client.talk(&mut world);
        assert!(!heard.iter().any(|line| line.contains("accepted")), "{heard:?}");
        set(&mut world, None);
        let heard = client.talk(&mut world);
        assert!(heard.iter().any(|line| line.contains("accepted")), "{heard:?}");
    }
}
