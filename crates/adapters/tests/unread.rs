//! Clients that ask and do not read the answers: their output is bounded, nothing is lost, and the order stays.

mod amqp091_client;
mod amqp10_client;
mod harness;
mod stream_client;

use adapters::Settings;
use amqp091::method::*;
use amqp091_client::{PERSISTENT, TRANSIENT};
use broker::Limits;
use harness::World;

/// The bound of these tests.
const UNREAD_BYTES_MAX: usize = 100_000;

/// The length that no answer exceeds, messages apart.
const ANSWER_BYTES_MAX: usize = 200;

/// The bytes that the node says in one go, to a client that has just begun to listen again.
const READ_BYTES: usize = 7_000;

fn world(shards: u16, limits: Limits) -> World {
    let settings = Settings { unread_bytes_max: UNREAD_BYTES_MAX, ..Settings::new("rabbit@test") };
    World::with(shards, limits, settings)
}

/// A client's requests are heard while it reads nothing. It stops at the bound and at most `more` bytes further, with
/// `kept` something left to hear or not, and reading then makes it go on.
fn say_without_reading(world: &mut World, wire: usize, output: &mut base::Output, more: usize) {
    world.ignore(wire, true);
    let bytes = output.to_vec();
    output.sent(bytes.len());
    world.send(wire, &bytes);
    world.run();
    let unread = world.unread(wire);
    assert!(unread > UNREAD_BYTES_MAX, "{unread} is nothing much");
    assert!(world.kept(wire) > 0, "all was heard");
    let mut most = unread;
    while world.kept(wire) > 0 {
        world.read(wire, READ_BYTES);
        world.run();
        most = most.max(world.unread(wire));
    }
    assert!(most <= UNREAD_BYTES_MAX + more, "{most}");
    world.ignore(wire, false);
}

#[test]
fn gets_wait_until_what_was_got_is_read() {
    const MESSAGES: usize = 300;
    let body = |number: usize| format!("{number:09}").repeat(1000);
    let away = Limits { resident_bytes_max: 0, ..Limits::default() };
    for (shards, home, limits) in [(1, 0, Limits::default()), (1, 0, away), (2, 1, Limits::default())] {
        let mut world = world(shards, limits);
        let mut owner = amqp091_client::Client::open(&mut world, home);
        owner.declare(&mut world, "q");
        (0..MESSAGES).for_each(|number| owner.publish("q", &body(number)));
        owner.hears(&mut world, &[]);
        let mut client = amqp091_client::Client::open(&mut world, 0);
        (0..MESSAGES + 1).for_each(|_| client.get("q", false));
        say_without_reading(&mut world, client.wire, client.machine.output_mut(), body(0).len() + 200);
        let heard = client.talk(&mut world);
        let expected = (1..=MESSAGES).map(|tag| format!("got {tag} 9000 bytes, {} left", MESSAGES - tag));
        assert_eq!(heard, expected.chain(["empty".to_owned()]).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_asked_of_amqp091_waits_until_answers_are_read() {
    const QUESTIONS: usize = 20_000;
    for shards in [1, 2] {
        let mut world = world(shards, Limits::default());
        let mut client = amqp091_client::Client::open(&mut world, usize::from(shards) - 1);
        client.declare(&mut world, "q");
        let mut expected = Vec::new();
        for number in 0..QUESTIONS {
            client.send(&BasicQos { prefetch_count: 5, ..Default::default() });
            expected.push("BasicQosOk".to_owned());
            if number % 1000 == 0 {
                client.publish_to("", "q", TRANSIENT, b"m");
                client.get("q", true);
                expected.push("got".to_owned());
                client.send(&QueueDeclare { queue: b"q", passive: true, ..Default::default() });
                expected.push("queue q 0 0".to_owned());
            }
        }
        say_without_reading(&mut world, client.wire, client.machine.output_mut(), ANSWER_BYTES_MAX);
        let mut heard = client.talk(&mut world);
        heard.iter_mut().filter(|heard| heard.starts_with("got ")).for_each(|heard| heard.truncate(3));
        assert_eq!(heard, expected);
    }
}

#[test]
fn what_comes_back_stops_the_publishing() {
    const MESSAGES: usize = 1000;
    const BODY_BYTES: usize = 2000;
    let mut world = world(1, Limits::default());
    let mut client = amqp091_client::Client::open(&mut world, 0);
    world.ignore(client.wire, true);
    let body = vec![b'x'; BODY_BYTES];
    let mut most = 0;
    for _ in 0..MESSAGES {
        client.publish_to("", "nowhere", PERSISTENT, &body);
        let output = client.machine.output_mut();
        let bytes = output.to_vec();
        output.sent(bytes.len());
        world.send(client.wire, &bytes);
        world.run();
        most = most.max(world.unread(client.wire));
    }
    assert!(world.kept(client.wire) > 0);
    assert!(most <= UNREAD_BYTES_MAX + BODY_BYTES + ANSWER_BYTES_MAX, "{most}");
    world.ignore(client.wire, false);
    let heard = client.talk(&mut world);
    assert_eq!(heard, vec!["returned 312 NO_ROUTE 2000 bytes"; MESSAGES]);
}

/// A flow of a session that wants an answer, §2.7.4.
fn flow_with_echo() -> Vec<u8> {
    let mut flow = Vec::new();
    let fields = [0x43, 0x70, 0, 0, 8, 0, 0x43, 0x70, 0, 0, 8, 0, 0x40, 0x40, 0x40, 0x40, 0x40, 0x41];
    flow.extend([0, 0, 0, 0, 2, 0, 0, 0, 0, 0x53, 0x13, 0xC0, fields.len() as u8 + 1, 10]);
    flow.extend(fields);
    let len = flow.len() as u32;
    flow[..4].copy_from_slice(&len.to_be_bytes());
    flow
}

#[test]
fn what_is_asked_of_amqp10_waits_until_answers_are_read() {
    const QUESTIONS: usize = 10_000;
    let mut world = world(1, Limits::default());
    let mut client = amqp10_client::Client::open(&mut world, 0);
    let flow = flow_with_echo();
    let mut output = base::Output::default();
    (0..QUESTIONS).for_each(|_| output.extend(&flow));
    say_without_reading(&mut world, client.wire, &mut output, ANSWER_BYTES_MAX);
    let answers = world.take(client.wire);
    let mut input = amqp10::Input::new(&answers);
    let mut heard = 0;
    while let Some(event) = client.machine.poll_event(amqp10_client::START, &mut input) {
        assert!(matches!(event, amqp10::Event::Window { .. }), "{event:?}");
        heard += 1;
    }
    assert_eq!(heard, QUESTIONS);
    // It goes on as ever.
    client.sender(&mut world, "out", Some("/exchanges/amq.fanout"));
}

#[test]
fn what_is_asked_over_the_stream_protocol_waits_until_answers_are_read() {
    const QUESTIONS: u32 = 20_000;
    let mut world = world(1, Limits::default());
    let mut client = stream_client::Client::open(&mut world, 0);
    let (mut output, mut expected) = (base::Output::default(), Vec::new());
    for number in 0..QUESTIONS {
        if number % 2 == 0 {
            // Credit for a subscription that is not there.
            let subscription = number as u8;
            output.extend(&[0, 0, 0, 7, 0, 9, 0, 1, subscription, 0, 1]);
            expected.push(format!("credit refused {subscription}: 4"));
        } else {
            // Where a consumer is in a stream that is not there; the machine did not ask that.
            output.extend(&[0, 0, 0, 14, 0, 11, 0, 1]);
            output.extend(&number.to_be_bytes());
            output.extend(&[0, 1, b'r', 0, 1, b's']);
            expected.push(format!("Unasked {{ correlation_id: {number}, key: QueryOffset }}"));
        }
    }
    say_without_reading(&mut world, client.wire, &mut output, ANSWER_BYTES_MAX);
    client.listen(&mut world, "/");
    assert_eq!(client.heard, expected);
}

/// A client whose peer would give it up after 20 seconds of silence, or somewhat more, says so much that it is no longer heard.
fn unheard(protocol: &str) -> (World, usize) {
    let settings = Settings { unread_bytes_max: UNREAD_BYTES_MAX, ..Settings::new("rabbit@test") };
    let amqp10 = amqp10::Limits { idle_ms: 10_000, ..settings.amqp10 };
    let mut world = World::with(1, Limits::default(), Settings { amqp10, ..settings });
    let login = ("PLAIN", &b"\0guest\0guest"[..]);
    let (wire, question) = match protocol {
        "0-9-1" => {
            let mut client = amqp091_client::Client::log_in_beating(&mut world, 0, login, 10);
            client.machine.channel_open(1);
            client.talk(&mut world);
            client.send(&BasicQos::default());
            (client.wire, client.machine.output().to_vec())
        }
        "1.0" => (amqp10_client::Client::open(&mut world, 0).wire, flow_with_echo()),
        _ => {
            let client = stream_client::Client::log_in_beating(&mut world, 0, login, "/", 10);
            assert!(client.machine.is_open());
            (client.wire, vec![0, 0, 0, 7, 0, 9, 0, 1, 1, 0, 1])
        }
    };
    world.ignore(wire, true);
    world.send(wire, &question.repeat(20_000));
    world.run();
    assert!(world.kept(wire) > 0);
    (world, wire)
}

#[test]
fn who_takes_no_byte_for_as_long_as_it_may_be_silent_is_gone() {
    for protocol in ["0-9-1", "1.0", "stream"] {
        let (mut world, wire) = unheard(protocol);
        let mut seconds = 0;
        while !world.is_gone(wire) {
            world.wait(wire, 10_000);
            world.run();
            seconds += 10;
            assert!(seconds <= 50, "{protocol}: it stays");
        }
        // AMQP 1.0 waits for an answer to its close.
        assert!(seconds >= 20, "{protocol}: {seconds}");
    }
}

#[test]
fn who_takes_a_byte_now_and_then_stays_though_it_is_not_heard() {
    for protocol in ["0-9-1", "1.0", "stream"] {
        let (mut world, wire) = unheard(protocol);
        for _ in 0..30 {
            world.wait(wire, 10_000);
            world.read(wire, 1);
            world.run();
            assert!(world.kept(wire) > 0, "{protocol}: it is heard");
            assert!(!world.is_gone(wire), "{protocol}: it is gone");
        }
        // Once it has read it is heard again, and is to be heard.
        world.ignore(wire, false);
        world.run();
        assert_eq!(world.kept(wire), 0, "{protocol}");
        assert!(!world.is_gone(wire), "{protocol}: it is gone");
        (0..5).for_each(|_| {
            world.wait(wire, 10_000);
            world.run();
        });
        assert!(world.is_gone(wire), "{protocol}: its silence is heard");
    }
}
