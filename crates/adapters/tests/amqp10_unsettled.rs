//! Receivers of AMQP 1.0 that leave as much unsettled as a session may.

mod amqp10_client;
mod harness;

use adapters::Settings;
use amqp10::{Attach, LinkId, Outcome, Role, SenderSettleMode, Source, Target};
use amqp10_client::{Client, declare_with, message};
use harness::World;
use routing::Value;
use std::ops::Range;

/// Deliveries that a session may have unsettled.
const UNSETTLED_MAX: u32 = 16;

const KINDS: [&str; 3] = ["classic", "quorum", "stream"];

/// A node whose sessions may have so many deliveries unsettled.
fn world(shards: u16, unsettled_max: u32) -> World {
    let amqp10 = amqp10::Limits { unsettled_max, ..amqp10::Limits::default() };
    World::with(shards, broker::Limits::default(), Settings { amqp10, ..Settings::new("rabbit@test") })
}

/// Two queues of a kind and a client that publishes, where client and queues are on one shard and where they are not.
fn everywhere(kinds: &[&str], test: impl Fn(&mut World, Client, Client, &str)) {
    for kind in kinds {
        for (shards, home, one, other) in [(1, 0, 0, 0), (2, 0, 1, 1), (2, 1, 0, 1), (2, 0, 0, 1)] {
            let mut world = world(shards, UNSETTLED_MAX);
            for queue in ["q", "p"] {
                let arguments = [(&b"x-queue-type"[..], Value::Text(kind.as_bytes().into()))];
                declare_with(&mut world, home, queue, arguments.into_iter().collect());
            }
            let publisher = Client::open(&mut world, one);
            let receiver = Client::open(&mut world, other);
            let what = format!("{kind} of shard {home} from {one} to {other} of {shards}");
            test(&mut world, publisher, receiver, &what);
        }
    }
}

fn publish(world: &mut World, client: &mut Client, queue: &str, numbers: Range<u8>) {
    let address = format!("/queues/{queue}");
    let link = client.sender(world, queue, Some(&address));
    for number in numbers {
        client.send(link, number, &message(true, None, &format!("m{number}")));
        client.talk(world);
    }
}

fn attach(world: &mut World, client: &mut Client, name: &str, mode: SenderSettleMode) -> LinkId {
    let link = client.receive(name, &format!("/queues/{name}"), mode);
    client.hears(world, &[&format!("attach {name}")]);
    link
}

/// The messages among the frames heard: their delivery ids and numbers.
fn messages(world: &mut World, client: &mut Client) -> Vec<(u32, u32)> {
    let heard = client.talk(world);
    let read = |line: &String| {
        let (id, body) = line.split_once(" m")?;
        Some((id.parse().ok()?, body.split(' ').next()?.parse().ok()?))
    };
    heard.iter().filter_map(read).collect()
}

fn ids(messages: &[(u32, u32)]) -> Vec<u32> {
    messages.iter().map(|(_, number)| *number).collect()
}

/// Accepts the deliveries received, a few at a time, until nothing more comes: the numbers of those that came.
fn settle_all(world: &mut World, client: &mut Client, mut held: Vec<(u32, u32)>, at_once: usize) -> Vec<u32> {
    let mut came = Vec::new();
    while !held.is_empty() {
        let most = at_once.min(held.len());
        for (id, _) in held.drain(..most) {
            client.settle(id, id, Outcome::Accepted);
        }
        let more = messages(world, client);
        came.extend(ids(&more));
        held.extend(more);
        assert!(held.len() <= UNSETTLED_MAX as usize, "{} are unsettled", held.len());
    }
    came
}

#[test]
fn who_leaves_too_much_unsettled_gets_more_when_it_settles() {
    for at_once in [1, 5, 16] {
        everywhere(&KINDS, |world, mut publisher, mut receiver, what| {
            let link = attach(world, &mut receiver, "q", SenderSettleMode::Unsettled);
            publish(world, &mut publisher, "q", 0..60);
            // Not one more than there are messages.
            receiver.machine.grant(receiver.session, link, 60, false);
            let first = messages(world, &mut receiver);
            assert!((8..=16).contains(&first.len()), "{what}: {first:?}");
            let mut all = ids(&first);
            all.extend(settle_all(world, &mut receiver, first, at_once));
            assert_eq!(all.len(), 60, "{what}: {all:?}");
            all.sort_unstable();
            all.dedup();
            assert_eq!(all, (0..60).collect::<Vec<_>>(), "{what}");
        });
    }
}

#[test]
fn who_browses_waits_as_well_and_sees_everything() {
    everywhere(&["classic", "quorum"], |world, mut publisher, mut receiver, what| {
        publish(world, &mut publisher, "q", 0..60);
        let source =
            Source { address: Some("/queues/q"), distribution_mode: Some("copy"), ..Source::default() };
        let target = Some(Target::default());
        let attach = Attach { source: Some(source), target, ..Attach::new("q", Role::Receiver) };
        let link = receiver.machine.attach(receiver.session, &attach).unwrap();
        receiver.hears(world, &["attach q"]);
        receiver.machine.grant(receiver.session, link, 60, false);
        let first = messages(world, &mut receiver);
        let mut all = ids(&first);
        all.extend(settle_all(world, &mut receiver, first, 5));
        all.sort_unstable();
        assert_eq!(all, (0..60).collect::<Vec<_>>(), "{what}");
    });
}

#[test]
fn what_is_settled_in_advance_comes_whatever_is_unsettled() {
    everywhere(&KINDS, |world, mut publisher, mut receiver, what| {
        let early = attach(world, &mut receiver, "p", SenderSettleMode::Settled);
        let link = attach(world, &mut receiver, "q", SenderSettleMode::Unsettled);
        publish(world, &mut publisher, "q", 0..40);
        publish(world, &mut publisher, "p", 0..20);
        receiver.machine.grant(receiver.session, link, 1000, false);
        let held = messages(world, &mut receiver);
        assert!(held.len() <= UNSETTLED_MAX as usize, "{what}: {held:?}");
        receiver.machine.grant(receiver.session, early, 1000, false);
        assert_eq!(ids(&messages(world, &mut receiver)), (0..20).collect::<Vec<_>>(), "{what}");
        // Messages published now go out one by one.
        publish(world, &mut publisher, "p", 20..40);
        assert_eq!(ids(&messages(world, &mut receiver)), (20..40).collect::<Vec<_>>(), "{what}");
        let rest = settle_all(world, &mut receiver, held.clone(), 3);
        assert_eq!(held.len() + rest.len(), 40, "{what}: {rest:?}");
    });
}

#[test]
fn who_attaches_while_too_much_is_unsettled_waits() {
    everywhere(&KINDS, |world, mut publisher, mut receiver, what| {
        let link = attach(world, &mut receiver, "q", SenderSettleMode::Unsettled);
        publish(world, &mut publisher, "q", 0..40);
        receiver.machine.grant(receiver.session, link, 40, false);
        let held = messages(world, &mut receiver);
        let late = attach(world, &mut receiver, "p", SenderSettleMode::Unsettled);
        publish(world, &mut publisher, "p", 0..40);
        receiver.machine.grant(receiver.session, late, 40, false);
        assert_eq!(messages(world, &mut receiver), [], "{what}");
        let mut all = ids(&held);
        all.extend(settle_all(world, &mut receiver, held, 8));
        all.sort_unstable();
        assert_eq!(all, (0..80).map(|number| number / 2).collect::<Vec<_>>(), "{what}");
    });
}

#[test]
fn a_link_that_goes_makes_room_for_others() {
    everywhere(&["classic", "quorum"], |world, mut publisher, mut receiver, what| {
        publish(world, &mut publisher, "q", 0..20);
        publish(world, &mut publisher, "p", 0..10);
        let first = attach(world, &mut receiver, "q", SenderSettleMode::Unsettled);
        let second = attach(world, &mut receiver, "p", SenderSettleMode::Unsettled);
        receiver.machine.grant(receiver.session, first, 1000, false);
        receiver.talk(world);
        receiver.machine.grant(receiver.session, second, 10, false);
        assert_eq!(messages(world, &mut receiver), [], "{what}");
        receiver.machine.detach(receiver.session, first, None, true);
        assert_eq!(ids(&messages(world, &mut receiver)), (0..10).collect::<Vec<_>>(), "{what}");
    });
}

#[test]
fn a_rejected_or_modified_delivery_makes_room_too() {
    let failed = Outcome::Modified {
        delivery_failed: true,
        undeliverable_here: true,
        annotations: Default::default(),
    };
    for outcome in [Outcome::Rejected(None), failed] {
        everywhere(&["classic", "quorum"], |world, mut publisher, mut receiver, what| {
            publish(world, &mut publisher, "q", 0..30);
            let link = attach(world, &mut receiver, "q", SenderSettleMode::Unsettled);
            receiver.machine.grant(receiver.session, link, 30, false);
            let held = messages(world, &mut receiver);
            let last = held[held.len() - 1].0;
            // The receiver waits for us to settle.
            receiver.machine.dispose(receiver.session, Role::Receiver, 0, last, false, Some(&outcome));
            let more = messages(world, &mut receiver);
            assert!(!more.is_empty(), "{what}: nothing after {last}");
        });
    }
}

#[test]
fn who_drains_with_too_much_unsettled_is_done_when_it_has_settled() {
    everywhere(&KINDS, |world, mut publisher, mut receiver, what| {
        let link = attach(world, &mut receiver, "q", SenderSettleMode::Unsettled);
        publish(world, &mut publisher, "q", 0..40);
        receiver.machine.grant(receiver.session, link, 100, true);
        let held = messages(world, &mut receiver);
        let came = held.len();
        assert!(came <= UNSETTLED_MAX as usize, "{what}: {held:?}");
        assert_eq!(came + settle_all(world, &mut receiver, held, 4).len(), 40, "{what}");
        assert_eq!(receiver.machine.credit(receiver.session, link), Some((0, 100)), "{what}");
        // The queue knows that too.
        receiver.machine.grant(receiver.session, link, 2, false);
        publish(world, &mut publisher, "q", 40..44);
        assert_eq!(ids(&messages(world, &mut receiver)), [40, 41], "{what}");
    });
}

#[test]
fn nothing_goes_back_where_many_may_be_unsettled() {
    for home in [0, 1] {
        let mut world = world(2, 1 << 16);
        let arguments = [(&b"x-queue-type"[..], Value::Text(b"classic"[..].into()))];
        declare_with(&mut world, home, "q", arguments.into_iter().collect());
        let mut publisher = Client::open(&mut world, 0);
        let out = publisher.sender(&mut world, "out", Some("/queues/q"));
        for _ in 0..700 {
            (0..100).for_each(|tag| publisher.send(out, tag, &message(false, None, "m")));
            publisher.talk(&mut world);
        }
        let mut receiver = Client::open(&mut world, 0);
        let link = attach(&mut world, &mut receiver, "q", SenderSettleMode::Unsettled);
        receiver.machine.grant(receiver.session, link, 1_000_000, false);
        let first = receiver.talk(&mut world).len();
        assert!(((1 << 16) - (1 << 13)..1 << 16).contains(&first), "{first}");
        receiver.settle(0, first as u32 - 1, Outcome::Accepted);
        let rest = receiver.talk(&mut world);
        assert_eq!(first + rest.len(), 70_000);
        assert!(rest.iter().all(|line| line.ends_with(" m")), "{:?}", &rest[..3]);
    }
}
