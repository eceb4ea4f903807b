//! AMQP 0-9-1 clients against the whole broker in one process.

mod amqp091_client;
mod harness;

use adapters::Settings;
use amqp091::method::*;
use amqp091::{Body, PublishPrefix};
use amqp091_client::*;
use broker::Count;
use broker::catalog::{Op, UserLimits, VhostLimits};
use harness::World;
use message::amqp091::{Properties, Table, Value};

/// A broker of one shard, and one of two where the client and the queue are on different ones.
fn everywhere(test: impl Fn(&mut World, Client, Client)) {
    for (shards, one, other) in [(1, 0, 0), (2, 0, 1), (2, 1, 0)] {
        let mut world = World::new(shards);
        let first = Client::open(&mut world, one);
        let second = Client::open(&mut world, other);
        test(&mut world, first, second);
    }
}

#[test]
fn a_message_goes_from_one_client_to_the_other() {
    everywhere(|world, mut one, mut other| {
        one.declare(world, "q");
        other.consume("q", "c", false);
        other.hears(world, &["consuming c"]);
        one.send(&ConfirmSelect::default());
        (0..3).for_each(|number| one.publish("q", &format!("m{number}")));
        one.publish("nowhere", "lost");
        one.hears(world, &["ConfirmSelectOk", "returned 312 NO_ROUTE lost", "ack 4 and before"]);
        other.hears(world, &["c 1 m0", "c 2 m1", "c 3 m2"]);
        other.machine.ack(1, 2, true);
        other.machine.nack(1, 3, false, true);
        other.hears(world, &["c 4 m2 again"]);
        other.machine.ack(1, 4, false);
        other.talk(world);
        one.send(&QueueDeclare { queue: b"q", passive: true, ..Default::default() });
        one.hears(world, &["queue q 0 1"]);
    });
}

#[test]
fn a_confirm_waits_for_the_disk_and_so_does_the_delivery() {
    everywhere(|world, mut one, mut other| {
        one.declare(world, "q");
        other.consume("q", "c", true);
        one.send(&ConfirmSelect::default());
        other.hears(world, &["consuming c"]);
        one.hears(world, &["ConfirmSelectOk"]);
        world.is_disk_slow = true;
        one.publish("q", "durable");
        one.hears(world, &[]);
        other.hears(world, &[]);
        world.is_disk_slow = false;
        one.hears(world, &["ack 1"]);
        other.hears(world, &["c 1 durable"]);
        // In a classic queue a transient message waits for nothing.
        world.is_disk_slow = true;
        one.publish_to("", "q", TRANSIENT, b"transient");
        one.hears(world, &["ack 2"]);
        other.hears(world, &["c 2 transient"]);
    });
}

#[test]
fn what_a_client_held_goes_back_when_it_goes() {
    everywhere(|world, mut one, mut other| {
        one.declare(world, "q");
        ["a", "b"].iter().for_each(|body| one.publish("q", body));
        other.consume("q", "c", false);
        one.talk(world);
        other.hears(world, &["consuming c", "c 1 a", "c 2 b"]);
        world.cut(other.wire);
        world.run();
        one.get("q", true);
        one.get("q", false);
        one.get("q", true);
        one.hears(world, &["got 1 a again, 1 left", "got 2 b again, 0 left", "empty"]);
        one.send(&BasicRecover { requeue: true });
        one.hears(world, &["BasicRecoverOk"]);
        one.get("q", true);
        one.hears(world, &["got 3 b again, 0 left"]);
    });
}

#[test]
fn a_message_taken_for_good_is_delivered_though_its_bytes_were_away() {
    let limits = broker::Limits { resident_bytes_max: 0, ..broker::Limits::default() };
    for no_ack in [false, true] {
        let mut world = World::with(1, limits, adapters::Settings::new("rabbit@test"));
        let mut client = Client::open(&mut world, 0);
        client.declare(&mut world, "q");
        ["a", "b", "c", "d"].iter().for_each(|body| client.publish("q", body));
        client.hears(&mut world, &[]);
        client.get("q", no_ack);
        client.hears(&mut world, &["got 1 a, 3 left"]);
        client.consume("q", "c", no_ack);
        client.hears(&mut world, &["consuming c", "c 2 b", "c 3 c", "c 4 d"]);
        assert!(world.reads > 0);
        if !no_ack {
            client.machine.ack(1, 0, true);
        }
        client.send(&QueueDelete { queue: b"q", if_empty: true, ..Default::default() });
        client.hears(&mut world, &["deleted 0", "cancel c"]);
    }
}

#[test]
fn late_deliveries_of_a_consumer_that_is_gone_go_back() {
    everywhere(|world, mut one, mut other| {
        one.declare(world, "q");
        one.declare(world, "r");
        // All in one packet: the queue hands out while the channel closes and the next consumer opens.
        for round in 1..=3 {
            one.publish("q", "m");
            one.talk(world);
            other.consume("q", "c", false);
            other.machine.close_channel(
                1,
                amqp091::ReplyCode::NotFound,
                "NOT_FOUND - enough",
                MethodId::NONE,
            );
            let heard = other.talk(world);
            assert_eq!(heard.last().map(String::as_str), Some("channel 1 closed"), "round {round}");
            other.machine.channel_open(1);
            other.consume("r", "d", false);
            other.hears(world, &["channel 1 open", "consuming d"]);
            other.get("q", true);
            other.hears(world, &["got 1 m again, 0 left"]);
            other.send(&BasicCancel { consumer_tag: b"d", nowait: false });
            other.hears(world, &["cancelled d"]);
        }
    });
}

#[test]
fn exclusive_queues_are_gone_when_the_close_is_answered() {
    everywhere(|world, mut one, mut other| {
        let declare = QueueDeclare { queue: b"mine", exclusive: true, ..Default::default() };
        one.send(&declare);
        one.hears(world, &["queue mine 0 0"]);
        other.send(&QueueDeclare { queue: b"mine", passive: true, ..Default::default() });
        let locked = "channel: 405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine' in vhost \
                      '/'. It could be originally declared on another connection or the exclusive property value does \
                      not match that of the original declaration. 50 10";
        other.hears(world, &[locked]);
        one.machine.close_connection(START, amqp091::ReplyCode::ConnectionForced, "bye", MethodId::NONE);
        one.hears(world, &["closed"]);
        assert!(world.is_gone(one.wire));
        other.machine.channel_open(1);
        other.send(&declare);
        other.hears(world, &["channel 1 open", "queue mine 0 0"]);
    });
}

/// The error a client hears for a mistake on a fresh channel where queue `q` exists.
#[track_caller]
fn refused(expected: &str, wrong: impl Fn(&mut Client)) {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    let mut owner = Client::open(&mut world, 0);
    owner.declare(&mut world, "q");
    wrong(&mut client);
    let heard = client.talk(&mut world);
    assert_eq!(
        heard.iter().find(|heard| heard.contains(": ")).map(String::as_str),
        Some(expected),
        "{heard:?}"
    );
}

#[test]
fn refusals_are_in_rabbitmqs_words() {
    refused("channel: 404 NOT_FOUND - no queue '' in vhost '/' 50 10", |client| {
        client.send(&QueueDeclare { passive: true, ..Default::default() });
    });
    refused("channel: 404 NOT_FOUND - no exchange 'x' in vhost '/' 60 40", |client| {
        client.publish_to("x", "k", PERSISTENT, b"");
    });
    refused("channel: 406 PRECONDITION_FAILED - unknown delivery tag 7 60 80", |client| {
        client.machine.ack(1, 7, false)
    });
    let expires = |client: &mut Client, ttl: &[u8]| {
        let head = [&[1, 0, ttl.len() as u8], ttl].concat();
        assert_eq!(Properties::read(&head).unwrap().expiration(), Some(ttl));
        client.publish_to("", "q", &head, b"");
    };
    refused("channel: 406 PRECONDITION_FAILED - invalid expiration 'abc': no_integer 60 40", |client| {
        expires(client, b"abc");
    });
    refused(
        "channel: 406 PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1} 60 40",
        |client| {
            expires(client, b"-1");
        },
    );
    refused("connection: 540 NOT_IMPLEMENTED - requeue=false 60 110", |client| {
        client.send(&BasicRecover::default())
    });
    // Methods for the node's own connections are for nobody else.
    refused("connection: 540 NOT_IMPLEMENTED - method {60,1000} is for the node itself 60 1000", |client| {
        client.send(&BasicPick { queue: b"q", ..Default::default() });
    });
    refused("connection: 540 NOT_IMPLEMENTED - method {50,1000} is for the node itself 50 1000", |client| {
        client.send(&QueueDiscard { queue: b"q", ..Default::default() });
    });
    refused("channel: 406 PRECONDITION_FAILED - cannot switch from confirm to tx mode 90 10", |client| {
        client.send(&ConfirmSelect::default());
        client.send(&TxSelect::default());
    });
    refused("channel: 406 PRECONDITION_FAILED - channel is not transactional 90 20", |client| {
        client.send(&TxCommit::default());
    });
    refused("connection: 501 FRAME_ERROR - Malformed UTF-8 in shortstr 0 0", |client| {
        client.send(&QueueDeclare { queue: b"\xff\xfe", ..Default::default() });
    });
    refused("connection: 501 FRAME_ERROR - Malformed UTF-8 in shortstr 0 0", |client| {
        client.send(&QueueBind {
            queue: b"q",
            exchange: b"amq.direct",
            routing_key: b"\xff",
            ..Default::default()
        });
    });
    // Only the names in a publish may be any bytes.
    refused("channel: 404 NOT_FOUND - no exchange '\u{fffd}' in vhost '/' 60 40", |client| {
        let to = PublishPrefix::new(1, b"\xff", b"\xff", false);
        client.machine.publish(&to, PERSISTENT, &Body::Bytes(b""));
    });
    let priority = "channel: 406 PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': \
                    \"expected integer, got longstr\" 60 20";
    refused(priority, |client| {
        let mut arguments = b"\x0ax-priority".to_vec();
        Value::Text(b"high").write(&mut arguments);
        let arguments = Table::new(&arguments).unwrap();
        client.send(&BasicConsume { queue: b"q", arguments, ..Default::default() });
    });
    refused("connection: 530 NOT_ALLOWED - attempt to reuse consumer tag 'c' 60 20", |client| {
        client.consume("q", "c", false);
        client.consume("q", "c", false);
    });
    refused("channel: 404 NOT_FOUND - no previously declared queue 60 70", |client| client.get("", false));
}

/// A message that goes nowhere is confirmed at once. That is told, even if a frame in the same packet ends the channel.
#[test]
fn what_is_confirmed_is_told_before_a_channel_or_connection_ends() {
    let frame = |kind: u8, payload: &[u8]| {
        [&[kind, 0, 1][..], &(payload.len() as u32).to_be_bytes(), payload, &[0xce]].concat()
    };
    let said = |client: &mut Client, bytes: Vec<u8>| client.machine.output_mut().extend(&bytes);
    let too_long = [&[0, 60, 0, 0][..], &(17_u64 << 20).to_be_bytes(), &[0, 0]].concat();
    type Ends<'a> = &'a dyn Fn(&mut Client);
    let rows: [(&str, Ends<'_>); 8] = [
        ("channel: 404 NOT_FOUND", &|client| client.publish_to("x", "k", PERSISTENT, b"")),
        ("channel: 406 PRECONDITION_FAILED", &|client| client.machine.ack(1, 7, false)),
        ("channel: 406 PRECONDITION_FAILED", &|client| client.send(&TxSelect::default())),
        ("channel: 406 PRECONDITION_FAILED - message size", &|client| {
            let publish = [&[0, 60, 0, 40, 0, 0, 0, 1][..], b"q", &[0]].concat();
            said(client, [frame(1, &publish), frame(2, &too_long)].concat());
        }),
        ("connection: 540 NOT_IMPLEMENTED", &|client| client.send(&BasicRecover::default())),
        ("connection: 505 UNEXPECTED_FRAME", &|client| said(client, frame(3, b"x"))),
        ("connection: 501 FRAME_ERROR", &|client| said(client, frame(1, &[0, 60, 0, 40, 0]))),
        ("queue q 0 0", &|client| {
            client.send(&QueueDeclare { queue: b"q", durable: true, ..Default::default() })
        }),
    ];
    for (expected, ends) in rows {
        let mut world = World::new(1);
        let mut client = Client::open(&mut world, 0);
        client.send(&ConfirmSelect::default());
        client.hears(&mut world, &["ConfirmSelectOk"]);
        let to = PublishPrefix::new(1, b"", b"nobody", false);
        (0..3).for_each(|_| client.machine.publish(&to, PERSISTENT, &Body::Bytes(b"")));
        ends(&mut client);
        let heard = client.talk(&mut world);
        assert_eq!(heard[0], "ack 3 and before", "{expected}: {heard:?}");
        assert!(heard[1].starts_with(expected), "{expected}: {heard:?}");
    }
}

#[test]
fn publishing_without_a_key_twice_is_no_harm() {
    everywhere(|world, mut one, _| {
        for _ in 0..3 {
            one.publish("", "lost");
            one.hears(world, &["returned 312 NO_ROUTE lost"]);
        }
    });
}

#[test]
fn logs_in_by_any_mechanism_offered() {
    let amqplain = |password: &[u8]| {
        let mut response = b"\x05LOGIN".to_vec();
        Value::Text(b"guest").write(&mut response);
        response.extend_from_slice(b"\x08PASSWORD");
        Value::Text(password).write(&mut response);
        response
    };
    let mut world = World::new(1);
    for (mechanism, response) in [("PLAIN", b"\0guest\0guest".to_vec()), ("AMQPLAIN", amqplain(b"guest"))] {
        let client = Client::log_in(&mut world, 0, mechanism, &response);
        assert!(client.machine.is_open(), "{mechanism}: {:?}", client.heard);
    }
    for (mechanism, response) in [("PLAIN", b"\0guest\0wrong".to_vec()), ("AMQPLAIN", amqplain(b"wrong"))] {
        let mut client = Client::log_in(&mut world, 0, mechanism, &response);
        let refused = format!(
            "connection: 403 ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. For \
             details see the broker logfile. 0 0"
        );
        let heard = [std::mem::take(&mut client.heard), client.talk(&mut world)].concat();
        assert_eq!(heard.first(), Some(&refused));
    }
}

#[test]
fn who_publishes_faster_than_the_disk_writes_is_held() {
    // Without confirms the bytes under way are bounded, also where they go to another shard; with them also the number.
    for (confirms, limits, unconfirmed_max) in [
        (false, broker::Limits { log_bytes_in_flight_max: 100_000, ..broker::Limits::default() }, u64::MAX),
        (true, broker::Limits::default(), 10),
    ] {
        for (shards, one, other) in [(1, 0, 0), (2, 0, 1), (2, 1, 0)] {
            let settings = adapters::Settings { unconfirmed_max, ..adapters::Settings::new("rabbit@test") };
            let mut world = World::with(shards, limits, settings);
            let mut owner = Client::open(&mut world, other);
            owner.declare(&mut world, "q");
            let mut client = Client::open(&mut world, one);
            if confirms {
                client.send(&ConfirmSelect::default());
                client.hears(&mut world, &["ConfirmSelectOk"]);
            }
            let body = "x".repeat(1000);
            world.is_disk_slow = true;
            for _ in 0..1000 {
                client.publish("q", &body);
                client.exchange(&mut world);
            }
            let kept = world.kept(client.wire);
            assert!(kept > 700_000, "{kept} bytes were left alone, {shards} shards");
            world.is_disk_slow = false;
            client.exchange(&mut world);
            assert_eq!(world.kept(client.wire), 0);
            owner.send(&QueueDeclare { queue: b"q", passive: true, ..Default::default() });
            owner.hears(&mut world, &["queue q 1000 0"]);
        }
    }
}

#[test]
fn a_channel_hears_no_confirms_of_one_that_had_its_number() {
    everywhere(|world, mut one, mut other| {
        other.declare(world, "q");
        one.send(&ConfirmSelect::default());
        one.hears(world, &["ConfirmSelectOk"]);
        world.is_disk_slow = true;
        one.publish("q", "old");
        one.machine.close_channel(1, amqp091::ReplyCode::Success, "", MethodId::NONE);
        one.hears(world, &["channel 1 closed"]);
        one.machine.channel_open(1);
        one.send(&ConfirmSelect::default());
        one.hears(world, &["channel 1 open", "ConfirmSelectOk"]);
        world.is_disk_slow = false;
        one.hears(world, &[]);
        one.publish("q", "new");
        one.hears(world, &["ack 1"]);
    });
}

#[test]
fn a_commit_is_answered_when_all_of_it_is_on_disk() {
    everywhere(|world, mut one, mut other| {
        one.declare(world, "q");
        other.declare(world, "r");
        other.consume("q", "c", false);
        other.hears(world, &["consuming c"]);
        one.send(&TxSelect {});
        ["q", "r", "q"].iter().for_each(|key| one.publish(key, "held"));
        one.publish("nowhere", "lost");
        one.hears(world, &["TxSelectOk"]);
        world.is_disk_slow = true;
        one.send(&TxCommit {});
        one.send(&QueueDeclare { queue: b"r", passive: true, ..Default::default() });
        one.hears(world, &["returned 312 NO_ROUTE lost"]);
        other.hears(world, &[]);
        world.is_disk_slow = false;
        one.hears(world, &["TxCommitOk", "queue r 1 0"]);
        other.hears(world, &["c 1 held", "c 2 held"]);
    });
}

#[test]
fn a_transaction_holds_no_more_than_it_may() {
    let settings = Settings { transaction_bytes_max: 4096, ..Settings::new("rabbit@test") };
    let mut world = World::with(1, broker::Limits::default(), settings);
    let mut client = Client::open(&mut world, 0);
    client.declare(&mut world, "q");
    client.send(&TxSelect {});
    client.publish("q", "fits");
    client.publish_to("", "q", PERSISTENT, &[0; 4096]);
    let text = "PRECONDITION_FAILED - transaction is larger than configured max size 4096";
    client.hears(&mut world, &["TxSelectOk", &format!("channel: 406 {text} 60 40")]);
}

#[test]
fn what_is_deleted_takes_its_connections_along() {
    for (op, text) in [
        (Op::DeleteUser { name: "guest".into() }, "user 'guest' is deleted"),
        (Op::DeleteVhost { name: "/".into() }, "vhost '/' is deleted"),
    ] {
        everywhere(|world, mut one, mut other| {
            one.declare(world, "q");
            other.consume("q", "c", false);
            other.hears(world, &["consuming c"]);
            world.request(op.clone());
            let closed = format!("connection: 320 CONNECTION_FORCED - {text} 0 0");
            for client in [&mut one, &mut other] {
                let heard = client.talk(world);
                assert!(heard.contains(&closed), "{heard:?}");
            }
        });
    }
}

#[test]
fn limits_of_a_node_a_virtual_host_and_a_user_keep_connections_out_until_one_goes() {
    let vhost = VhostLimits { connections_max: Some(2), ..VhostLimits::default() };
    let user = UserLimits { connections_max: Some(2), ..UserLimits::default() };
    let rows = [
        (None, None, "access to vhost '/' refused for user 'guest': connection limit (2) is reached"),
        (
            Some(Op::SetUserLimits { user: "guest".into(), limits: user }),
            None,
            "connection refused for user 'guest': user connection limit (2) is reached",
        ),
        (None, Some(2), "connection refused: node connection limit (2) is reached"),
    ];
    for (op, connections_max, text) in rows {
        let vhost_op = Op::SetVhostLimits { vhost: "/".into(), limits: vhost };
        let op = op.or(connections_max.is_none().then_some(vhost_op));
        for shards in [1, 2] {
            let limits = broker::Limits { connections_max, ..Default::default() };
            let mut world = World::with(shards, limits, Settings::new("rabbit@test"));
            let last = usize::from(shards) - 1;
            let _first = Client::open(&mut world, 0);
            // A connection older than the limit counts.
            op.iter().for_each(|op| world.request(op.clone()));
            let second = Client::open(&mut world, last);
            let mut third = Client::log_in(&mut world, last, "PLAIN", b"\0guest\0guest");
            assert_eq!(third.heard, [format!("connection: 530 NOT_ALLOWED - {text} 10 40")]);
            // Refused ones do not count, nor closed ones.
            world.cut(second.wire);
            third.talk(&mut world);
            let _fourth = Client::open(&mut world, 0);
            let fifth = Client::log_in(&mut world, last, "PLAIN", b"\0guest\0guest");
            assert!(!fifth.machine.is_open());
        }
    }
}

#[test]
fn a_user_opens_no_more_channels_than_the_limit_on_all_connections() {
    let limits = UserLimits { channels_max: Some(3), ..UserLimits::default() };
    for shards in [1, 2] {
        let mut world = World::new(shards);
        world.request(Op::SetUserLimits { user: "guest".into(), limits });
        let mut one = Client::open(&mut world, 0);
        let mut other = Client::open(&mut world, usize::from(shards) - 1);
        other.machine.channel_open(2);
        other.hears(&mut world, &["channel 2 open"]);
        other.machine.close_channel(2, amqp091::ReplyCode::Success, "", MethodId::NONE);
        other.talk(&mut world);
        one.machine.channel_open(2);
        one.hears(&mut world, &["channel 2 open"]);
        other.machine.channel_open(3);
        let text =
            "number of channels opened for user 'guest' has reached the maximum allowed user limit of 3";
        other.hears(&mut world, &[&format!("connection: 530 NOT_ALLOWED - {text} 20 10"), "closed"]);
        // Its channels went with it.
        one.machine.channel_open(3);
        one.hears(&mut world, &["channel 3 open"]);
    }
}

#[test]
fn a_node_opens_no_more_channels_than_configured() {
    let limits = broker::Limits { channels_max: Some(3), ..Default::default() };
    for shards in [1, 2] {
        let mut world = World::with(shards, limits, Settings::new("rabbit@test"));
        let mut one = Client::open(&mut world, 0);
        let mut other = Client::open(&mut world, usize::from(shards) - 1);
        other.machine.channel_open(2);
        other.hears(&mut world, &["channel 2 open"]);
        one.machine.channel_open(2);
        let text =
            "number of channels opened on node 'rabbit@test' has reached the maximum allowed limit of 3";
        one.hears(&mut world, &[&format!("connection: 530 NOT_ALLOWED - {text} 20 10"), "closed"]);
        // Its channels went with it.
        other.machine.channel_open(3);
        other.hears(&mut world, &["channel 3 open"]);
    }
}

/// Consumers of three queues share a prefetch while messages come and are settled in any order: as much is under way as the
/// prefetch allows, never more, and all arrive.
#[test]
fn consumers_of_a_channel_share_a_prefetch() {
    const MESSAGES: usize = 40;
    for seed in 0..60 {
        let mut dice = base::Random::new(seed);
        let (shards, most, own) = (1 + dice.below(2) as u16, 1 + dice.below(5) as u16, dice.below(3) as u16);
        let settings = Settings { permits_global_qos: true, ..Settings::new("rabbit@test") };
        let mut world = World::with(shards, broker::Limits::default(), settings);
        let mut client = Client::open(&mut world, usize::from(shards) - 1);
        let mut desk = Client::open(&mut world, 0);
        let queues = ["a", "b", "c"];
        queues.iter().for_each(|queue| desk.declare(&mut world, queue));
        client.send(&BasicQos { prefetch_count: own, ..Default::default() });
        let share = BasicQos { prefetch_count: most, global: true, ..Default::default() };
        // Some consumers are there before, some come after.
        let before = dice.below(4) as usize;
        queues[..before].iter().for_each(|queue| client.consume(queue, queue, false));
        client.send(&share);
        queues[before..].iter().for_each(|queue| client.consume(queue, queue, false));
        client.talk(&mut world);
        let (mut published, mut done, mut held) = (0, 0, Vec::<u64>::new());
        for _ in 0..1000 {
            for _ in 0..dice.below(6).min((MESSAGES - published) as u64) {
                published += 1;
                let queue = if dice.one_in(2) { "a" } else { queues[dice.below(3) as usize] };
                desk.publish(queue, "m");
            }
            desk.talk(&mut world);
            for heard in client.talk(&mut world) {
                let tag = heard.split(' ').nth(1).filter(|_| queues.contains(&&heard[..1]));
                held.extend(tag.and_then(|tag| tag.parse::<u64>().ok()));
            }
            assert!(held.len() <= usize::from(most), "seed {seed}: {} of {most}", held.len());
            if own == 0 {
                assert_eq!(held.len(), (published - done).min(most.into()), "seed {seed}: all it may have");
            }
            if done == MESSAGES {
                break;
            }
            assert!(published == done || !held.is_empty(), "seed {seed}: nothing comes any more");
            for _ in 0..dice.below(3).min(held.len() as u64) {
                let delivery_tag = held.swap_remove(dice.below(held.len() as u64) as usize);
                if dice.one_in(4) {
                    client.send(&BasicNack { delivery_tag, multiple: false, requeue: true });
                } else {
                    client.send(&BasicAck { delivery_tag, multiple: false });
                    done += 1;
                }
            }
        }
        assert_eq!(done, MESSAGES, "seed {seed}");
        // The shared deliveries are nobody's again.
        client.send(&BasicQos { prefetch_count: 0, ..Default::default() });
        client.send(&BasicCancel { consumer_tag: b"a", nowait: false });
        client.hears(&mut world, &["BasicQosOk", "cancelled a"]);
    }
}

#[test]
fn a_prefetch_is_shared_only_where_that_is_permitted_and_by_classic_queues() {
    let settings = Settings { permits_global_qos: true, ..Settings::new("rabbit@test") };
    for (settings, delivered) in [(settings, 2), (Settings::new("rabbit@test"), 4)] {
        let mut world = World::with(1, broker::Limits::default(), settings);
        let mut client = Client::open(&mut world, 0);
        for queue in ["a", "b"] {
            client.declare(&mut world, queue);
            (0..5).for_each(|_| client.publish(queue, "m"));
            client.talk(&mut world);
        }
        client.send(&BasicQos { prefetch_count: 2, global: true, ..Default::default() });
        ["a", "b"].iter().for_each(|queue| client.consume(queue, queue, false));
        let heard = client.talk(&mut world);
        assert_eq!(heard.iter().filter(|heard| heard.ends_with(" m")).count(), delivered, "{heard:?}");
        // A cancelled consumer's messages count until they are settled.
        client.send(&BasicCancel { consumer_tag: b"a", nowait: false });
        client.hears(&mut world, &["cancelled a"]);
        let heard = {
            client.send(&BasicAck { delivery_tag: 1, multiple: false });
            client.talk(&mut world)
        };
        assert_eq!(heard.iter().filter(|heard| heard.ends_with(" m")).count(), usize::from(delivered == 2));
    }
}

#[test]
fn a_virtual_host_takes_no_more_queues_than_the_limit() {
    let mut world = World::new(1);
    let limits = VhostLimits { queues_max: Some(1), ..VhostLimits::default() };
    world.request(Op::SetVhostLimits { vhost: "/".into(), limits });
    let mut client = Client::open(&mut world, 0);
    client.declare(&mut world, "one");
    client.declare(&mut world, "one");
    client.send(&QueueDeclare { queue: b"two", durable: true, ..Default::default() });
    let text = "cannot declare queue 'two': queue limit in vhost '/' (1) is reached";
    client.hears(&mut world, &[&format!("channel: 406 PRECONDITION_FAILED - {text} 50 10")]);
}

#[test]
fn a_channel_takes_no_more_consumers_than_configured() {
    let settings = Settings { channel_consumers_max: Some(1), ..Settings::new("rabbit@test") };
    let mut world = World::with(1, broker::Limits::default(), settings);
    let mut client = Client::open(&mut world, 0);
    client.declare(&mut world, "q");
    client.consume("q", "a", false);
    client.hears(&mut world, &["consuming a"]);
    client.send(&BasicCancel { consumer_tag: b"a", nowait: false });
    client.consume("q", "b", false);
    client.hears(&mut world, &["cancelled a", "consuming b"]);
    client.consume("amq.rabbitmq.reply-to", "c", true);
    let text = "NOT_ALLOWED - reached maximum (1) of consumers per channel";
    client.hears(&mut world, &[&format!("connection: 530 {text} 60 20"), "closed"]);
}

#[test]
fn transient_shared_queues_may_be_forbidden() {
    let settings = Settings { permits_transient_queues: false, ..Settings::new("rabbit@test") };
    let mut world = World::with(1, broker::Limits::default(), settings);
    let mut client = Client::open(&mut world, 0);
    client.declare(&mut world, "q");
    client.send(&QueueDeclare { queue: b"own", exclusive: true, ..Default::default() });
    client.hears(&mut world, &["queue own 0 0"]);
    client.send(&QueueDeclare { queue: b"t", ..Default::default() });
    let text = "INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.\n\
                Its use is not permitted per the configuration (overriding the default, which is permitted):\n    \
                \"deprecated_features.permit.transient_nonexcl_queues = false\"\n\
                Its use will not be permit...";
    client.hears(&mut world, &[&format!("connection: 541 {text} 50 10"), "closed"]);
}

/// A node whose connections go where their queue is, and the shard its queue `q` is on.
fn following(queue_at: usize) -> (World, Client) {
    let following = Some(std::sync::Arc::new(adapters::Following::new(3)));
    let mut world =
        World::with(3, broker::Limits::default(), Settings { following, ..Settings::new("rabbit@test") });
    let mut owner = Client::open(&mut world, queue_at);
    owner.declare(&mut world, "q");
    (world, owner)
}

#[test]
fn a_publisher_goes_where_its_queue_is_and_loses_nothing() {
    for confirms in [false, true] {
        let (mut world, _owner) = following(2);
        let mut publisher = Client::open(&mut world, 1);
        if confirms {
            publisher.send(&ConfirmSelect::default());
            publisher.hears(&mut world, &["ConfirmSelectOk"]);
        }
        for number in 0..40 {
            publisher.publish("q", &format!("{number}"));
            publisher.talk(&mut world);
        }
        assert_eq!(world.shard_of(publisher.wire), 2, "confirms: {confirms}");
        // Once it has gone it stays, even if it publishes elsewhere then.
        let mut other = Client::open(&mut world, 0);
        other.declare(&mut world, "elsewhere");
        for _ in 0..40 {
            publisher.publish("elsewhere", "x");
            publisher.talk(&mut world);
        }
        assert_eq!(world.shard_of(publisher.wire), 2);
        let mut consumer = Client::open(&mut world, 2);
        consumer.consume("q", "c", true);
        let heard = consumer.talk(&mut world);
        let bodies: Vec<_> = heard.iter().filter_map(|heard| heard.rsplit(' ').next()).collect();
        let expected: Vec<_> = (0..40).map(|number| number.to_string()).collect();
        assert_eq!(bodies[1..], expected, "{heard:?}");
    }
}

#[test]
fn a_consumer_goes_where_its_queue_is_before_it_opens() {
    let (mut world, mut owner) = following(2);
    let mut consumer = Client::open(&mut world, 1);
    consumer.send(&BasicQos { prefetch_count: 1, ..Default::default() });
    consumer.consume("q", "c", false);
    assert_eq!(consumer.talk(&mut world).len(), 2, "qos-ok and consume-ok");
    assert_eq!(world.shard_of(consumer.wire), 2);
    for number in 0..3 {
        owner.publish("q", &format!("{number}"));
        owner.talk(&mut world);
        assert_eq!(consumer.talk(&mut world).len(), 1);
        consumer.send(&BasicAck { delivery_tag: number + 1, multiple: false });
        consumer.talk(&mut world);
    }
    let sums = world.sums();
    let counts = [Count::Publish, Count::Deliver, Count::Ack].map(|count| sums.channels.tally.get(count));
    assert_eq!((sums.connections.connections, sums.channels.channels, counts), (2, 2, [3, 3, 3]));
    assert_eq!((sums.channels.publishing, sums.channels.prefetch, sums.consumers), (1, 1, [1, 0, 0]));
    // A request there is refused there: its own tag is taken.
    consumer.consume("q", "c", false);
    let heard = consumer.talk(&mut world);
    assert!(heard[0].contains("530"), "{heard:?}");
}

#[test]
fn who_has_something_of_its_own_stays() {
    let (mut world, _owner) = following(2);
    let mut exclusive = Client::open(&mut world, 1);
    exclusive.send(&QueueDeclare { queue: b"mine", exclusive: true, ..Default::default() });
    exclusive.talk(&mut world);
    exclusive.consume("q", "c", true);
    exclusive.talk(&mut world);
    assert_eq!(world.shard_of(exclusive.wire), 1);
    let mut both = Client::open(&mut world, 0);
    both.declare(&mut world, "near");
    both.consume("near", "c", true);
    both.talk(&mut world);
    for _ in 0..40 {
        both.publish("q", "x");
        both.talk(&mut world);
    }
    assert_eq!(world.shard_of(both.wire), 0, "it consumes where it is");
    let mut several = Client::open(&mut world, 1);
    for number in 0..40 {
        several.publish(["q", "near"][number % 2], "x");
        several.talk(&mut world);
    }
    assert_eq!(world.shard_of(several.wire), 1, "its queues are of several shards");
}

#[test]
fn what_is_not_confirmed_yet_is_waited_for() {
    let (mut world, _owner) = following(2);
    let mut publisher = Client::open(&mut world, 1);
    world.is_disk_slow = true;
    publisher.send(&ConfirmSelect::default());
    for _ in 0..40 {
        publisher.publish("q", "x");
        publisher.talk(&mut world);
    }
    assert_eq!(world.shard_of(publisher.wire), 1, "its confirms are to come");
    publisher.publish("q", "not read yet");
    publisher.talk(&mut world);
    world.is_disk_slow = false;
    let heard = publisher.talk(&mut world);
    assert_eq!(world.shard_of(publisher.wire), 2);
    let confirmed: usize = heard.iter().filter(|heard| heard.contains("ack")).count();
    assert!(confirmed > 0, "{heard:?}");
    assert_eq!(world.kept(publisher.wire), 0);
}

#[test]
fn who_was_refused_goes_before_all_logs_have_answered() {
    let (mut world, mut owner) = following(2);
    let mut arguments = b"\x0cx-max-length".to_vec();
    Value::I32(1).write(&mut arguments);
    arguments.extend_from_slice(b"\x0ax-overflow");
    Value::Text(b"reject-publish").write(&mut arguments);
    let arguments = Table::new(&arguments).unwrap();
    owner.send(&QueueDeclare { queue: b"full", durable: true, arguments, ..Default::default() });
    owner.publish("full", "first");
    owner.hears(&mut world, &["queue full 0 0"]);
    let mut other = Client::open(&mut world, 0);
    other.declare(&mut world, "slow");
    for queue in [&b"full"[..], b"slow"] {
        other.send(&QueueBind { queue, exchange: b"amq.fanout", ..Default::default() });
    }
    assert_eq!(other.talk(&mut world).len(), 2, "bound");
    let mut publisher = Client::open(&mut world, 1);
    publisher.send(&ConfirmSelect::default());
    publisher.hears(&mut world, &["ConfirmSelectOk"]);
    world.is_disk_slow = true;
    publisher.publish_to("amq.fanout", "", PERSISTENT, b"x");
    publisher.hears(&mut world, &["BasicNack"]);
    publisher.consume("q", "c", true);
    publisher.hears(&mut world, &["consuming c"]);
    assert_eq!(world.shard_of(publisher.wire), 2);
    world.is_disk_slow = false;
    publisher.hears(&mut world, &[]);
}

#[test]
fn a_message_that_is_dear_to_route_closes_its_channel_alone() {
    let limits = broker::Limits { route_steps_max: 1_000, ..Default::default() };
    let mut world = World::with(1, limits, Settings::new("rabbit@test"));
    let mut client = Client::open(&mut world, 0);
    client.declare(&mut world, "q");
    client.send(&ExchangeDeclare { exchange: b"x", kind: b"topic", durable: true, ..Default::default() });
    for at in 0..10 {
        let key = format!("#.{}{at}", "a.*.".repeat(20));
        let (queue, exchange, routing_key) = (&b"q"[..], &b"x"[..], key.as_bytes());
        client.send(&QueueBind { queue, exchange, routing_key, ..Default::default() });
    }
    client.send(&ConfirmSelect::default());
    client.talk(&mut world);
    let key = vec!["a"; 120].join(".");
    client.publish_to("x", "a.b", PERSISTENT, b"cheap");
    client.publish_to("x", &key, PERSISTENT, b"dear");
    client.hears(
        &mut world,
        &[
            "returned 312 NO_ROUTE cheap",
            "ack 1",
            "channel: 406 PRECONDITION_FAILED - routing by a key of 239 bytes takes more than 1000 steps \
             (leveret.route_steps_max) in exchange 'x' in vhost '/' 60 40",
        ],
    );
    // The connection goes on.
    client.machine.channel_open(1);
    client.hears(&mut world, &["channel 1 open"]);
    client.publish("q", "next");
    client.get("q", true);
    client.hears(&mut world, &["got 1 next, 0 left"]);
}

#[test]
fn many_consumers_are_found_by_their_tags_and_gets_by_their_queues() {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    (0..50).for_each(|at| client.declare(&mut world, &format!("q{at}")));
    let heard = |client: &mut Client, world: &mut World, verb: &str, count: usize| {
        let heard = client.talk(world);
        assert_eq!(heard.iter().filter(|line| line.starts_with(verb)).count(), count, "{heard:?}");
    };
    for round in 0..3 {
        // Few, many, and few again: searched, in an index, and searched.
        for at in 0..100 {
            client.consume(&format!("q{}", at % 50), &format!("t{at}"), true);
            client.get(&format!("q{}", at % 50), true);
        }
        heard(&mut client, &mut world, "consuming", 100);
        // One that is cancelled may come again, and is then the one that its tag means.
        for at in 0..50 {
            let consumer_tag = format!("t{at}").into_bytes();
            client.send(&BasicCancel { consumer_tag: &consumer_tag, nowait: false });
        }
        heard(&mut client, &mut world, "cancelled", 50);
        client.publish("q0", &format!("m{round}"));
        client.hears(&mut world, &[&format!("t50 {} m{round}", 4 * round + 1)]);
        (0..50).for_each(|at| client.consume(&format!("q{at}"), &format!("t{at}"), true));
        heard(&mut client, &mut world, "consuming", 50);
        (0..2).for_each(|_| client.publish("q0", "more"));
        heard(&mut client, &mut world, "t", 2);
        for at in 0..100 {
            let consumer_tag = format!("t{at}").into_bytes();
            client.send(&BasicCancel { consumer_tag: &consumer_tag, nowait: false });
        }
        heard(&mut client, &mut world, "cancelled", 100);
        client.publish("q0", "left");
        client.talk(&mut world);
        client.get("q0", true);
        assert!(client.talk(&mut world)[0].contains(" left, 0 left"));
    }
    (0..40).for_each(|at| client.consume("q0", &format!("t{at}"), true));
    heard(&mut client, &mut world, "consuming", 40);
    client.consume("q1", "t39", true);
    let reused = "connection: 530 NOT_ALLOWED - attempt to reuse consumer tag 't39' 60 20";
    client.hears(&mut world, &[reused, "closed"]);
}
