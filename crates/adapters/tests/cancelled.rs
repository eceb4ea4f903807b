//! 0-9-1 consumers that were cancelled while they held something.

mod amqp091_client;
mod harness;

use amqp091::method::{BasicAck, BasicCancel, TxCommit, TxRollback, TxSelect};
use amqp091_client::Client;
use base::id::{LogId, LogIndex};
use broker::CommitRule;
use harness::World;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Turns in which something comes of the client.
const TURNS: u64 = 2000;

/// The processor time of this thread so far: a clock that stands while others have the processor.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("it never runs backwards")
}

/// A client that has two consumers, each with so many messages that it has not acknowledged: `a` with the earlier, `b` with the
/// later.
fn holding(world: &mut World, count: usize) -> Client {
    let mut client = Client::open(world, 0);
    for queue in ["a", "b"] {
        client.declare(world, queue);
        for _ in 0..count {
            client.publish(queue, "m");
        }
        client.talk(world);
        client.consume(queue, queue, false);
        assert_eq!(client.talk(world).len(), count + 1);
    }
    client
}

fn cancel(world: &mut World, client: &mut Client, tag: &str) {
    client.send(&BasicCancel { consumer_tag: tag.as_bytes(), nowait: false });
    client.hears(world, &[&format!("cancelled {tag}")]);
}

fn ack(client: &mut Client, delivery_tag: u64) {
    client.send(&BasicAck { delivery_tag, multiple: false });
}

/// The processor's time that turns take in which the client says nothing of its messages, and in which it acknowledges one of
/// those that the cancelled consumer holds.
fn cost(count: usize) -> [Duration; 2] {
    let mut world = World::new(1);
    let mut client = holding(&mut world, count);
    cancel(&mut world, &mut client, "b");
    let mut begin = processor_time();
    for _ in 0..TURNS {
        world.send(client.wire, b"\x08\0\0\0\0\0\0\xce");
        world.run();
    }
    let silent = processor_time() - begin;
    begin = processor_time();
    for turn in 0..TURNS {
        ack(&mut client, count as u64 + 1 + turn);
        client.exchange(&mut world);
    }
    [silent, processor_time() - begin]
}

#[test]
fn what_is_unacknowledged_costs_nothing_in_a_turn() {
    let least = |count| {
        let runs = [(); 3].map(|()| cost(count));
        [0, 1].map(|at| runs.iter().map(|run| run[at]).min().unwrap_or_default())
    };
    let (few, many) = (least(2_000), least(60_000));
    println!("{few:?} {many:?}");
    for (few, many) in few.into_iter().zip(many) {
        // Less than a few milliseconds says nothing.
        let floor = few.max(Duration::from_millis(2));
        assert!(many <= 4 * floor, "{few:?} with few, {many:?} with many");
    }
}

#[test]
fn a_cancelled_consumer_goes_with_the_last_that_it_holds() {
    for is_transactional in [false, true] {
        let mut world = World::new(1);
        let mut client = holding(&mut world, 3);
        client.send(&BasicAck { delivery_tag: 3, multiple: true });
        cancel(&mut world, &mut client, "a");
        if is_transactional {
            client.send(&TxSelect {});
            ack(&mut client, 6);
            client.hears(&mut world, &["TxSelectOk"]);
        }
        cancel(&mut world, &mut client, "b");
        if is_transactional {
            client.send(&TxRollback {});
            client.hears(&mut world, &["TxRollbackOk"]);
        }
        let full = world.fronts[0].heap_bytes();
        for tag in [4, 5, 6] {
            assert!(world.fronts[0].heap_bytes() >= full, "{tag}: its handle is gone");
            ack(&mut client, tag);
            if is_transactional {
                client.send(&TxCommit {});
                client.hears(&mut world, &["TxCommitOk"]);
            }
            client.hears(&mut world, &[]);
        }
        assert!(world.fronts[0].heap_bytes() + 100 < full, "its handle is still there");
    }
}

/// The log of shard 1, which others have to agree on.
const AGREED_ON: LogId = LogId(1);

/// All that a log holds in these tests.
const EVERYTHING: LogIndex = LogIndex(1 << 20);

/// A client that got the only message of a queue whose log others have to agree on.
fn of_a_log_agreed_on() -> (World, Client) {
    let mut world = World::new(2);
    let now = world.now;
    world.shards[1].logs_mut().set_commit_rule(AGREED_ON, CommitRule::Quorum);
    world.shards[1].lead(now, AGREED_ON);
    let mut client = Client::open(&mut world, 1);
    client.declare(&mut world, "q");
    client.publish("q", "one");
    client.talk(&mut world);
    world.shards[1].commit_outside(now, AGREED_ON, EVERYTHING);
    client.get("q", false);
    client.hears(&mut world, &["got 1 one, 0 left"]);
    (world, client)
}

/// The leader of the queue's log is lost while nobody waits for a message; the client hears of that, for the consumer that stands
/// for its gets, when it waits for one again.
#[test]
fn a_get_is_answered_though_its_consumer_went() {
    let (mut world, mut client) = of_a_log_agreed_on();
    let now = world.now;
    ack(&mut client, 1);
    client.publish("q", "two");
    client.talk(&mut world);
    world.shards[1].commit_outside(now, AGREED_ON, EVERYTHING);
    client.talk(&mut world);
    world.shards[1].resign(now, AGREED_ON);
    world.shards[1].lead(now, AGREED_ON);
    client.publish("q", "three");
    client.get("q", false);
    client.hears(&mut world, &[]);
    world.shards[1].commit_outside(now, AGREED_ON, EVERYTHING);
    client.hears(&mut world, &["got 2 two again, 1 left"]);
}

/// The same, where the client still holds what it got of the owner before: with that it does not lose what it got of the next.
#[test]
fn a_get_is_kept_though_its_consumer_had_gone() {
    let (mut world, mut client) = of_a_log_agreed_on();
    let now = world.now;
    client.publish("q", "two");
    client.talk(&mut world);
    world.shards[1].resign(now, AGREED_ON);
    client.get("q", false);
    client.get("q", false);
    client.talk(&mut world);
    world.shards[1].lead(now, AGREED_ON);
    client.talk(&mut world);
    world.shards[1].commit_outside(now, AGREED_ON, EVERYTHING);
    client.hears(&mut world, &["got 2 one again, 1 left", "got 3 two again, 0 left"]);
    ack(&mut client, 1);
    client.talk(&mut world);
    client.get("q", false);
    client.hears(&mut world, &["empty"]);
}
