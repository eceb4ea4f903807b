//! The ledger of memory as connections of each protocol are counted in it: bounds of one connection over all its channels,
//! and of one user over all his connections; what is given back, and when.

mod amqp091_client;
mod amqp10_client;
mod harness;
mod stream_client;

use adapters::Settings;
use amqp10::{Attach, Body as Body10, Delivery, Role, Source, Target};
use amqp091::method::*;
use amqp091::{Body, PublishPrefix};
use amqp091_client::TRANSIENT;
use broker::Limits;
use broker::ledger::{Kind, Ledger, LedgerLimits};
use harness::World;
use std::sync::Arc;

const KIB: usize = 1 << 10;

/// A node of one shard with these bounds, and its ledger.
fn world(limits: LedgerLimits, settings: Settings) -> (World, Arc<Ledger>) {
    let ledger = Arc::new(Ledger::new(limits));
    (World::with_ledger(1, Limits::default(), settings, ledger.clone()), ledger)
}

fn of_connection(bytes: usize) -> LedgerLimits {
    LedgerLimits { connection_max: Some(bytes as u64), ..LedgerLimits::default() }
}

fn usual() -> Settings {
    Settings::new("rabbit@test")
}

/// Bytes that the connections of the node hold, as they are listed.
fn held(world: &World) -> u64 {
    world.rows(0).iter().map(|row| row.held).sum()
}

/// A client of AMQP 0-9-1 with so many channels, and a queue.
fn open091(world: &mut World, channels: u16) -> amqp091_client::Client {
    let mut client = amqp091_client::Client::open(world, 0);
    (2..=channels).for_each(|number| client.machine.channel_open(number));
    client.talk(world);
    client.send(&QueueDeclare { queue: b"q", passive: false, durable: true, ..Default::default() });
    client.talk(world);
    client
}

fn publish_on(client: &mut amqp091_client::Client, channel: u16, body: &[u8]) {
    client.machine.publish(&PublishPrefix::new(channel, b"", b"q", false), TRANSIENT, &Body::Bytes(body));
}

// ---- transactions of AMQP 0-9-1

#[test]
fn transactions_of_all_channels_have_the_room_of_their_connection() {
    let (mut world, ledger) = world(of_connection(256 * KIB), usual());
    let mut client = open091(&mut world, 16);
    (1..=16).for_each(|number| client.machine.send(number, &TxSelect {}));
    assert_eq!(client.talk(&mut world), ["TxSelectOk"; 16]);
    let body = vec![b'x'; 3 * KIB];
    let refused = (0..200u16).find_map(|number| {
        let channel = number % 16 + 1;
        publish_on(&mut client, channel, &body);
        let heard = client.talk(&mut world);
        assert!(held(&world) <= 256 * KIB as u64 && ledger.held() <= 256 * KIB as u64);
        (!heard.is_empty()).then_some((number, channel, heard))
    });
    let (count, channel, heard) = refused.expect("there is a bound");
    // As many as fit, for all channels together; the one that had no room is closed, and gives back what it had.
    assert!((60..86).contains(&count), "{count}");
    assert!(
        heard[0].starts_with("channel: 406 PRECONDITION_FAILED - no memory for the transaction: "),
        "{heard:?}"
    );
    assert!(heard[0].contains("of at most 262144 bytes (leveret.connection_memory_max) 60 40"), "{heard:?}");
    let before = held(&world);
    // A commit and a rollback give back what they had, and a channel that is closed.
    let others: Vec<u16> = (1..=16).filter(|number| *number != channel).collect();
    client.machine.send(others[0], &TxCommit {});
    assert_eq!(client.talk(&mut world), ["TxCommitOk"]);
    let committed = held(&world);
    client.machine.send(others[1], &TxRollback {});
    assert_eq!(client.talk(&mut world), ["TxRollbackOk"]);
    let rolled_back = held(&world);
    client.machine.close_channel(others[2], amqp091::ReplyCode::Success, "", MethodId::NONE);
    client.talk(&mut world);
    let closed = held(&world);
    assert!(
        before > committed && committed > rolled_back && rolled_back > closed,
        "{before} {committed} {closed}"
    );
    // There is room again, on any channel.
    publish_on(&mut client, others[0], &body);
    assert_eq!(client.talk(&mut world), [""; 0]);
    assert!(held(&world) > closed && ledger.held() >= held(&world));
    others[3..].iter().for_each(|number| client.machine.send(*number, &TxRollback {}));
    client.machine.send(others[0], &TxRollback {});
    client.talk(&mut world);
    assert_eq!((held(&world), ledger.held()), (0, 0));
}

#[test]
fn a_connection_that_is_gone_gives_back_what_it_held() {
    let (mut world, ledger) = world(LedgerLimits::default(), usual());
    let mut clients = [0, 1].map(|_| open091(&mut world, 1));
    for client in &mut clients {
        client.send(&TxSelect {});
        publish_on(client, 1, &[b'x'; 50_000]);
        assert_eq!(client.talk(&mut world), ["TxSelectOk"]);
    }
    let both = held(&world);
    assert!(both >= 100_000 && ledger.held() >= both);
    world.cut(clients[0].wire);
    assert_eq!(held(&world), both / 2);
    clients[1].machine.close_connection(world.now, amqp091::ReplyCode::Success, "", MethodId::NONE);
    clients[1].talk(&mut world);
    assert_eq!((held(&world), ledger.held(), ledger.rows().users.len()), (0, 0, 0));
}

#[test]
fn a_user_at_its_bound_stops_no_other() {
    let (mut world, ledger) = world(LedgerLimits::default(), usual());
    ledger.set_user_max("guest", Some(20 * KIB as u64));
    let mut client = open091(&mut world, 2);
    (1..=2).for_each(|number| client.machine.send(number, &TxSelect {}));
    client.talk(&mut world);
    publish_on(&mut client, 1, &[b'x'; 15 * KIB]);
    publish_on(&mut client, 2, &[b'x'; 15 * KIB]);
    let heard = client.talk(&mut world);
    assert!(heard[0].contains("user 'guest' holds") && heard[0].contains("max-memory-bytes"), "{heard:?}");
    let mut other = ledger.open(&"other".into(), &"/".into());
    other.take(Kind::Transactions, 1 << 30).expect("another user has nothing to do with it");
}

#[test]
fn the_connection_that_holds_most_is_closed_when_the_node_asks_for_it() {
    let (mut world, ledger) = world(LedgerLimits::default(), usual());
    let mut clients = [10, 50].map(|kib| {
        let mut client = open091(&mut world, 1);
        client.send(&TxSelect {});
        publish_on(&mut client, 1, &vec![b'x'; kib * KIB]);
        client.talk(&mut world);
        client
    });
    let (now, shard, front) = (world.now, &mut world.shards[0], &mut world.fronts[0]);
    let (at, _name, held) = front.largest_holder(shard).expect("two hold something");
    assert!(held as usize >= 50 * KIB);
    assert!(!front.evict(now, shard, (at.0, at.1 + 1), "another is there"));
    assert!(front.evict(now, shard, at, "it holds most"));
    let (next, ..) = front.largest_holder(shard).expect("the other one");
    assert_ne!(next, at, "one that is about to go is not asked to again");
    let heard = clients[1].talk(&mut world);
    assert!(heard[0].contains("506 RESOURCE_ERROR - it holds most"), "{heard:?}");
    assert_eq!(clients[0].talk(&mut world), [""; 0]);
    assert!(ledger.held() < 20 * KIB as u64, "{}", ledger.held());
}

// ---- messages of AMQP 0-9-1 that are not whole

/// The frames of a message of `size` bytes on a channel, of which the first `sent` bytes are sent.
fn begun(channel: u16, size: usize, sent: usize) -> Vec<u8> {
    let frame = |kind: u8, payload: &[u8]| {
        let head = [&[kind][..], &channel.to_be_bytes(), &(payload.len() as u32).to_be_bytes()].concat();
        [&head[..], payload, &[0xCE]].concat()
    };
    let publish = frame(1, &[&[0, 60, 0, 40, 0, 0, 0, 1][..], b"q\0"].concat());
    let header = frame(2, &[&[0, 60, 0, 0][..], &(size as u64).to_be_bytes(), &[0, 0]].concat());
    let body = vec![b'x'; sent];
    let pieces = body.chunks(100_000).flat_map(|piece| frame(3, piece));
    [publish, header].concat().into_iter().chain(pieces).collect()
}

#[test]
fn messages_that_are_not_whole_have_the_room_of_their_connection() {
    let (mut world, ledger) = world(of_connection(1 << 20), usual());
    let mut client = open091(&mut world, 20);
    for channel in 1..=4 {
        world.send(client.wire, &begun(channel, 400_000, 200_000));
        assert_eq!(client.talk(&mut world), [""; 0]);
        assert!(held(&world) >= u64::from(channel) * 200_000 && ledger.held() >= held(&world));
    }
    // One that is whole gives back what it had, and so does a channel that is closed.
    let before = held(&world);
    let rest = begun(1, 0, 200_000);
    world.send(client.wire, &rest[begun(1, 0, 0).len()..]);
    client.talk(&mut world);
    let whole = held(&world);
    assert!(whole <= before - 200_000, "{before} {whole}");
    for channel in 5..=20 {
        world.send(client.wire, &begun(channel, 400_000, 200_000));
        let heard = client.talk(&mut world);
        assert!(ledger.held() <= 1 << 20);
        if !heard.is_empty() {
            assert!(heard[0].starts_with("connection: 506 RESOURCE_ERROR - no memory for "), "{heard:?}");
            assert!(heard[0].contains("(leveret.connection_memory_max) 60 40"), "{heard:?}");
            assert!(channel > 5, "there was room for one more at least");
            assert_eq!((held(&world), ledger.held(), ledger.refusals()), (0, 0, 1));
            return;
        }
    }
    panic!("twenty messages were begun");
}

#[test]
fn a_message_that_is_whole_is_not_counted() {
    // There is no room for a single byte.
    let (mut world, ledger) = world(of_connection(0), usual());
    let mut client = open091(&mut world, 1);
    for size in [0, 10, 5000, 90_000] {
        publish_on(&mut client, 1, &vec![b'x'; size]);
        assert_eq!(client.talk(&mut world), [""; 0], "{size}");
    }
    assert_eq!((ledger.held(), ledger.refusals()), (0, 0));
}

// ---- AMQP 1.0

/// Begins to send a message of 60,000 bytes, in frames of which the last are missing.
fn begin10(world: &mut World, client: &mut amqp10_client::Client) {
    let attach = Attach {
        target: Some(Target { address: Some("/queues/q"), ..Target::default() }),
        source: Some(Source::default()),
        ..Attach::new("out", Role::Sender)
    };
    let link = client.machine.attach(client.session, &attach).expect("a link");
    client.talk(world);
    let message = amqp10_client::message(false, None, &"x".repeat(300_000));
    let delivery = Delivery { tag: &[1], settled: false, token: 1, head: &[], body: Body10::Bytes(&message) };
    client.machine.transfer(client.session, link, &delivery).expect("there is credit");
    let output = client.machine.output_mut();
    let bytes = output.to_vec();
    output.sent(bytes.len());
    world.send(client.wire, &bytes[..bytes.len() * 2 / 3]);
}

#[test]
fn deliveries_that_are_not_whole_have_the_room_of_their_user() {
    let (mut world, ledger) = world(LedgerLimits::default(), usual());
    ledger.set_user_max("guest", Some(300 * KIB as u64));
    open091(&mut world, 1);
    let mut clients = [0, 1, 2].map(|_| amqp10_client::Client::open(&mut world, 0));
    begin10(&mut world, &mut clients[0]);
    assert_eq!(clients[0].talk(&mut world), [""; 0]);
    let first = held(&world);
    assert!(first > 120_000 && ledger.held() >= first, "{first}");
    let ended = (1..3).find(|at| {
        begin10(&mut world, &mut clients[*at]);
        let heard = clients[*at].talk(&mut world);
        assert!(ledger.held() <= 300 * KIB as u64);
        assert!(heard.is_empty() || heard == ["end amqp:resource-limit-exceeded"], "{heard:?}");
        !heard.is_empty()
    });
    assert!(ended.is_some(), "there is a bound");
    assert!(held(&world) <= 2 * first, "the session that ended gave back what it had");
    clients.iter().for_each(|client| world.cut(client.wire));
    assert_eq!((held(&world), ledger.held()), (0, 0));
}

// ---- output

#[test]
fn answers_that_are_not_read_have_the_room_of_their_user() {
    let settings = Settings { unread_full_bytes_max: 10_000, ..usual() };
    let limits = LedgerLimits { user_unread_max: Some(100_000), ..LedgerLimits::default() };
    let (mut world, ledger) = world(limits, settings);
    let mut clients: Vec<_> = (0..10).map(|_| open091(&mut world, 1)).collect();
    for client in &mut clients {
        world.ignore(client.wire, true);
        (0..100).for_each(|_| {
            (0..50).for_each(|_| client.send(&BasicQos { prefetch_count: 5, ..Default::default() }));
            client.exchange(&mut world);
        });
    }
    let unread: usize = clients.iter().map(|client| world.unread(client.wire)).sum();
    assert!(unread > 80_000 && unread <= 100_000 + 10 * 25_000, "{unread}");
    assert!(held(&world) > 80_000 && ledger.held() >= held(&world));
    assert!(clients.iter().any(|client| world.kept(client.wire) > 0), "all was heard");
    // A client that reads is heard again, and all of them in the end.
    for client in &mut clients {
        world.ignore(client.wire, false);
        let heard = client.talk(&mut world);
        assert_eq!(heard, vec!["BasicQosOk"; 5000]);
    }
    for client in &clients {
        world.cut(client.wire);
    }
    assert_eq!(ledger.held(), 0);
}

#[test]
fn input_for_which_there_is_no_room_ends_its_connection() {
    let (mut world, ledger) = world(LedgerLimits::default(), usual());
    ledger.set_user_max("guest", Some(100 * KIB as u64));
    let mut client = open091(&mut world, 1);
    let slot = world.rows(0)[0].id.1;
    let mut keep = |world: &mut World, bytes| {
        world.fronts[0].keep_input(world.now, &mut world.shards[0], slot, bytes);
        client.talk(world)
    };
    assert_eq!(keep(&mut world, 80 * KIB), [""; 0]);
    assert_eq!((held(&world), ledger.held() > 80 * KIB as u64), (80 * KIB as u64, true));
    assert_eq!(keep(&mut world, 0), [""; 0]);
    assert_eq!(ledger.held(), 0);
    assert_eq!(keep(&mut world, 110 * KIB), [""; 0], "a quarter more is allowed");
    let heard = keep(&mut world, 130 * KIB);
    assert!(
        heard[0].starts_with("connection: 506 RESOURCE_ERROR - no memory for input of 133120 bytes: "),
        "{heard:?}"
    );
}

// ---- frames of the stream protocol that are not whole

#[test]
fn a_frame_of_the_stream_protocol_counts_until_it_is_whole() {
    let (mut world, ledger) = world(of_connection(400 * KIB), usual());
    let client = stream_client::Client::open(&mut world, 0);
    let open = held(&world);
    // A command that nobody knows, of 900,000 bytes.
    let begun = |bytes: usize| [&900_000u32.to_be_bytes()[..], &[0x7F, 0xFF, 0, 1], &vec![0; bytes]].concat();
    world.send(client.wire, &begun(200_000));
    world.run();
    assert!(held(&world) >= open + 200_000 && ledger.held() >= held(&world), "{} bytes", held(&world));
    world.send(client.wire, &vec![0; 300_000]);
    world.run();
    assert!(world.is_gone(client.wire), "there is no room for the rest");
    assert_eq!(ledger.held(), 0);
    let client = stream_client::Client::open(&mut world, 0);
    world.send(client.wire, &begun(100_000));
    world.run();
    world.cut(client.wire);
    assert_eq!((held(&world), ledger.held()), (0, 0));
}
