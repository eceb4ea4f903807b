//! Credit of AMQP 1.0 links: a receiver grants, drains and takes it back, and its queue keeps count.

mod amqp10_client;
mod harness;

use adapters::{Alarm, Settings};
use amqp10::{Attach, LinkId, Outcome, Role, SenderSettleMode, Source, Target};
use amqp10_client::{Client, declare_with, message};
use harness::World;
use routing::{Arguments, Value};

const CLASSIC: &str = "classic";
const QUORUM: &str = "quorum";
const STREAM: &str = "stream";

/// A queue of each kind, where publisher and receiver are on its shard and where they are not.
fn everywhere(kinds: &[&str], test: impl Fn(&mut World, Client, Client, &str)) {
    for kind in kinds {
        for (shards, home, one, other) in [(1, 0, 0, 0), (2, 0, 1, 1), (2, 1, 0, 1), (2, 0, 0, 1)] {
            let mut world = World::new(shards);
            let arguments = [(&b"x-queue-type"[..], Value::Text(kind.as_bytes().into()))];
            declare_with(&mut world, home, "q", arguments.into_iter().collect::<Arguments>());
            let first = Client::open(&mut world, one);
            let second = Client::open(&mut world, other);
            test(&mut world, first, second, kind);
        }
    }
}

/// A receiver without credit.
fn attach(world: &mut World, client: &mut Client, mode: SenderSettleMode, copies: bool) -> LinkId {
    let distribution_mode = copies.then_some("copy");
    let source = Some(Source { address: Some("/queues/q"), distribution_mode, ..Source::default() });
    let target = Some(Target::default());
    let attach = Attach { source, target, sender_settle_mode: mode, ..Attach::new("in", Role::Receiver) };
    let link = client.machine.attach(client.session, &attach).unwrap();
    client.talk(world);
    link
}

fn publish(world: &mut World, client: &mut Client, link: LinkId, numbers: std::ops::Range<u8>) {
    for number in numbers {
        client.send(link, number, &message(true, None, &format!("m{number}")));
    }
    client.talk(world);
}

/// The messages among the frames heard, without their delivery ids.
fn messages(world: &mut World, client: &mut Client) -> Vec<String> {
    let heard = client.talk(world);
    let bodies = heard.iter().filter_map(|line| line.split_once(" m"));
    bodies.map(|(_, body)| format!("m{}", body.trim_end_matches(" settled"))).collect()
}

/// A flow of a link that has seen no delivery, as bytes, in a session with this window that has seen none: its credit.
fn flow(handle: u32, window: u32, credit: u32, echo: bool) -> Vec<u8> {
    let mut frame = vec![0, 0, 0, 0, 2, 0, 0, 0, 0, 0x53, 0x13, 0xC0, 39, 10];
    // The session's: next incoming id, incoming window, next outgoing id, outgoing window; then the link's own.
    for number in [0, window, 0, 5000, handle, 0, credit] {
        frame.push(0x70);
        frame.extend(u32::to_be_bytes(number));
    }
    // The number available, no drain, the echo.
    frame.extend([0x40, 0x42, if echo { 0x41 } else { 0x42 }]);
    let size = frame.len() as u32;
    frame[..4].copy_from_slice(&size.to_be_bytes());
    frame
}

#[test]
fn credit_that_was_drained_is_used_up() {
    let modes = [SenderSettleMode::Settled, SenderSettleMode::Unsettled];
    for (mode, copies) in [(modes[0], false), (modes[1], false), (modes[1], true)] {
        let kinds = if copies { &[CLASSIC, QUORUM][..] } else { &[CLASSIC, QUORUM, STREAM] };
        everywhere(kinds, |world, mut one, mut other, kind| {
            let out = one.sender(world, "out", Some("/queues/q"));
            let link = attach(world, &mut other, mode, copies);
            let what = format!("{kind} {mode:?} {copies}");
            for round in 0..3 {
                other.machine.grant(other.session, link, 5, true);
                let heard = other.talk(world);
                assert_eq!(
                    heard.last().map(String::as_str),
                    Some("credit 0 drain true"),
                    "{what}: {heard:?}"
                );
                publish(world, &mut one, out, round * 4..round * 4 + 4);
                for first in [round * 4, round * 4 + 2] {
                    other.machine.grant(other.session, link, 2, false);
                    let expected = [first, first + 1].map(|number| format!("m{number}"));
                    assert_eq!(messages(world, &mut other), expected, "{what} {round}");
                }
                if mode == SenderSettleMode::Unsettled {
                    let first = u32::from(round) * 4;
                    other.settle(first, first + 3, Outcome::Accepted);
                    other.talk(world);
                }
            }
        });
    }
}

#[test]
fn credit_that_is_taken_back_too_late_can_be_granted_again() {
    everywhere(&[CLASSIC, QUORUM, STREAM], |world, mut one, mut other, kind| {
        let out = one.sender(world, "out", Some("/queues/q"));
        let link = attach(world, &mut other, SenderSettleMode::Unsettled, false);
        publish(world, &mut one, out, 0..3);
        // The queue hands out at once as many as the first flow allows; the second is known before they come.
        world.send(other.wire, &[flow(0, 5000, 3, true), flow(0, 5000, 0, false)].concat());
        assert_eq!(messages(world, &mut other), [""; 0], "{kind}");
        other.machine.grant(other.session, link, 3, false);
        let heard = messages(world, &mut other);
        let numbers: Vec<&str> = heard.iter().map(|line| &line[..2]).collect();
        assert_eq!(numbers, ["m0", "m1", "m2"], "{kind}");
    });
}

#[test]
fn what_is_settled_is_sent_though_its_credit_was_taken_back() {
    everywhere(&[CLASSIC, QUORUM], |world, mut one, mut other, kind| {
        let out = one.sender(world, "out", Some("/queues/q"));
        attach(world, &mut other, SenderSettleMode::Settled, false);
        publish(world, &mut one, out, 0..3);
        world.send(other.wire, &[flow(0, 5000, 3, true), flow(0, 5000, 0, false)].concat());
        world.run();
        let sent = world.take(other.wire);
        let has = |body: &[u8]| sent.windows(body.len()).any(|bytes| bytes == body);
        assert!([b"m0", b"m1", b"m2"].iter().all(|body| has(*body)), "{kind}");
    });
}

#[test]
fn who_attaches_while_the_window_is_shut_waits_for_it() {
    everywhere(&[CLASSIC, QUORUM], |world, mut one, mut other, kind| {
        let out = one.sender(world, "out", Some("/queues/q"));
        let mode = SenderSettleMode::Settled;
        attach(world, &mut other, mode, false);
        publish(world, &mut one, out, 0..100);
        // The first link's credit is more than the window, so that something waits for that.
        world.send(other.wire, &flow(0, 1, 2, false));
        world.run();
        other.receive("second", "/queues/q", mode);
        other.exchange(world);
        world.send(other.wire, &flow(1, 1, 1000, false));
        world.run();
        // Deliveries that it has not taken are there for others.
        let mut third = Client::open(world, 0);
        let link = attach(world, &mut third, mode, false);
        third.machine.grant(third.session, link, 1000, false);
        let rest = messages(world, &mut third).len();
        assert!(rest >= 90, "{kind}: {rest}");
    });
}

#[test]
fn what_is_too_large_ends_the_session_though_its_credit_was_taken_back() {
    everywhere(&[CLASSIC, QUORUM], |world, mut one, mut other, kind| {
        let out = one.sender(world, "out", Some("/queues/q"));
        let attach = Attach {
            source: Some(Source { address: Some("/queues/q"), ..Source::default() }),
            target: Some(Target::default()),
            sender_settle_mode: SenderSettleMode::Settled,
            max_message_size: Some(10),
            ..Attach::new("in", Role::Receiver)
        };
        other.machine.attach(other.session, &attach).unwrap();
        other.talk(world);
        publish(world, &mut one, out, 0..1);
        world.send(other.wire, &[flow(0, 5000, 3, true), flow(0, 5000, 0, false)].concat());
        let heard = other.talk(world);
        assert_eq!(heard, ["end amqp:link:message-size-exceeded"], "{kind}");
    });
}

#[test]
fn a_sessions_window_grows_with_the_credit_of_its_links_up_to_what_is_set() {
    for (most, expected) in [(None, 1360), (Some(400), 400), (Some(700), 700)] {
        let mut settings = Settings::new("rabbit@test");
        settings.session_window_max = most.unwrap_or(settings.session_window_max);
        let mut world = World::with(1, broker::Limits::default(), settings);
        declare_with(&mut world, 0, "q", Arguments::default());
        let mut client = Client::open(&mut world, 0);
        let links = ["a", "b"].map(|name| client.sender(&mut world, name, Some("/queues/q")));
        let window = |client: &Client| {
            client.machine.session_figures(client.session).expect("a session").remote_incoming_window
        };
        let credit = |client: &Client, link| client.machine.credit(client.session, link).expect("a link").0;
        assert_eq!((window(&client), credit(&client, links[0])), (400, 170), "{most:?}");
        // Using it all doubles the credit of a link, twice.
        for _ in 0..2 {
            for link in links {
                for _ in 0..credit(&client, link) {
                    client.send(link, 0, &message(true, None, "m"));
                }
                client.talk(&mut world);
            }
        }
        assert_eq!(links.map(|link| credit(&client, link)), [680, 680], "{most:?}");
        // The frames that came since the window was said last are at most half of it.
        let said = window(&client);
        assert!(said <= expected && said > expected / 2, "{most:?}: {said}");
    }
}

#[test]
fn what_comes_behind_a_window_that_an_alarm_has_shut_is_bounded() {
    let mut settings = Settings::new("rabbit@test");
    settings.blocked_bytes_max = 10_000;
    let mut world = World::with(1, broker::Limits::default(), settings);
    declare_with(&mut world, 0, "q", Arguments::default());
    let mut client = Client::open(&mut world, 0);
    let link = client.sender(&mut world, "in", Some("/queues/q"));
    let alarm = |world: &mut World, alarm| world.fronts[0].set_alarm(world.now, &mut world.shards[0], alarm);
    alarm(&mut world, Some(Alarm::Disk));
    // It has credit for 170, and does not look whether its window is shut.
    let message = message(true, None, &"m".repeat(1000));
    for number in 0..100 {
        client.send(link, number, &message);
        client.machine.flush();
        client.exchange(&mut world);
    }
    let left = world.kept(client.wire) / message.len();
    assert!((89..=93).contains(&left), "{left} are left of 100 with ten and one taken");
    // A peer that is not read is not taken for dead.
    for _ in 0..10 {
        world.wait(client.wire, 61_000);
        world.run();
    }
    assert!(!world.is_gone(client.wire));
    alarm(&mut world, None);
    world.run();
    assert_eq!(world.kept(client.wire), 0);
    let heard = client.talk(&mut world);
    assert!(heard.iter().any(|line| line.contains("accepted")), "{heard:?}");
    // The next alarm begins anew.
    alarm(&mut world, Some(Alarm::Disk));
    client.send(link, 0, &message);
    client.talk(&mut world);
    assert_eq!(world.kept(client.wire), 0);
}

#[test]
fn who_has_used_all_credit_while_the_broker_was_congested_gets_more() {
    let limits = broker::Limits { log_bytes_in_flight_max: 4096, ..broker::Limits::default() };
    let mut world = World::with(1, limits, Settings::new("rabbit@test"));
    declare_with(&mut world, 0, "q", Arguments::default());
    let mut client = Client::open(&mut world, 0);
    let mut other = Client::open(&mut world, 0);
    let link = client.sender(&mut world, "out", Some("/queues/q"));
    let dear = other.sender(&mut world, "out", Some("/queues/q"));
    let credit = |client: &Client| client.machine.credit(client.session, link).expect("it is attached").0;
    world.is_disk_slow = true;
    // Confirmed at once, in the turn in which the other's bytes are too many.
    let granted = credit(&client);
    for number in 0..granted {
        client.send(link, number as u8, &message(false, None, "x"));
    }
    let mut send = |client: &mut Client| {
        client.machine.flush();
        let output = client.machine.output_mut();
        let bytes = output.to_vec();
        output.sent(bytes.len());
        world.send(client.wire, &bytes);
    };
    send(&mut client);
    other.send(dear, 0, &message(true, None, &"x".repeat(8192)));
    send(&mut other);
    world.run();
    client.hears(&mut world, &["0..169 accepted"]);
    assert!(world.shards[0].is_congested());
    assert_eq!(credit(&client), 0);
    // The disk catches up: nothing happens to this client but that it may send again.
    world.is_disk_slow = false;
    world.run();
    client.talk(&mut world);
    assert_eq!(credit(&client), 2 * granted, "all was used");
}
