//! Fifty thousand queues: what they cost. The bounds are loose enough for a busy machine and tight enough to see a
//! copy of everything per change.

use super::super::policy::NAMES_ASKED;
use super::*;
use base::Quantum;
use std::time::Duration;

const QUEUES: usize = 50_000;

/// The processor time of this thread: work of others on the machine is not in it.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    let first = text.split_ascii_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(first.expect("a number of nanoseconds comes first"))
}

/// Declares durable queues with a topic binding each; hands every change to `copies`. The time one wish took to plan
/// and apply, in the best of the last thousands: what grows with the catalog shows there.
fn fill(world: &mut World, copies: &mut [Catalog]) -> Duration {
    let by = guest(1);
    let mut best = Duration::MAX;
    let mut begun = processor_time();
    for number in 0..QUEUES {
        let name = format!("orders-of-customer-{number:06}");
        for op in [queue(&name, ""), bind("amq.topic", &name, &name)] {
            let plan = world.catalog.plan(&by, &op, Places::default()).unwrap();
            plan.changes.iter().for_each(|change| drop(world.catalog.apply(change)));
            for change in &plan.changes {
                copies.iter_mut().for_each(|copy| drop(copy.apply(change)));
            }
        }
        if number % 1000 == 999 {
            if number > QUEUES / 2 {
                best = best.min((processor_time() - begun) / 2000);
            }
            begun = processor_time();
        }
    }
    best
}

#[test]
fn queues_cost_little_time_and_memory() {
    let mut world = World::new();
    let each = fill(&mut world, &mut []);
    assert!(each < Duration::from_micros(10), "{each:?} per wish");
    let bytes = weigh(&world.catalog, usize::MAX >> 1);
    assert_eq!(weigh(&world.catalog, 700), bytes, "in pieces it is the same");
    assert!(bytes < QUEUES * 600, "{} bytes per queue with a binding", bytes / QUEUES);
    assert!(
        bytes > QUEUES * 200,
        "{} bytes per queue with a binding: something is not counted",
        bytes / QUEUES
    );
}

#[test]
fn deleting_costs_what_is_deleted() {
    let mut world = World::new();
    let _ = fill(&mut world, &mut []);
    // All of one exchange's fifty thousand bindings, one by one; then one queue with as many bindings.
    let ids: Vec<QueueId> = world.catalog.queues().map(|queue| queue.id).collect();
    for id in ids {
        world.must(&Op::DeleteQueue { id });
    }
    assert_eq!(world.catalog.queue_count(), 0);
    assert!(world.catalog.exchange(VhostId(0), b"amq.topic").unwrap().exchange.is_unused());
    world.must(&queue("q", "exclusive"));
    for number in 0..QUEUES {
        world.must(&bind("amq.direct", "q", &format!("key-{number}")));
    }
    for number in 0..QUEUES / 2 {
        world.must(&unbind("amq.direct", "q", &format!("key-{number}")));
    }
    world.must(&Op::DeleteExclusive { port: port(1) });
    assert!(world.catalog.exchange(VhostId(0), b"amq.direct").unwrap().exchange.is_unused());
    // One connection with as many exclusive queues.
    for number in 0..QUEUES {
        world.must(&queue(&format!("e{number}"), "exclusive"));
    }
    world.must(&Op::DeleteExclusive { port: port(1) });
    assert_eq!(world.catalog.queue_count(), 0);
}

#[test]
fn a_snapshot_of_many_queues_comes_back() {
    let mut world = World::new();
    let mut copy = [World::new().catalog];
    let _ = fill(&mut world, &mut copy);
    let mut bytes = Vec::new();
    world.catalog.write_snapshot(&mut bytes);
    let restored = Catalog::read_snapshot(&bytes).unwrap();
    assert_eq!(restored.queue_count(), QUEUES);
    let mut again = Vec::new();
    restored.write_snapshot(&mut again);
    assert!(bytes == again);
    assert!(bytes.len() < QUEUES * 160, "{} bytes", bytes.len());
}

#[test]
fn a_policy_costs_what_it_is_asked_about() {
    const ASKED_OF: usize = 1000;
    let mut world = World::new();
    for number in 0..ASKED_OF {
        world.must(&queue(&format!("orders-of-customer-{:06}", 50 * number), ""));
    }
    let policy = |name: &str, pattern: &str, word: &str| Op::SetPolicy {
        kind: PolicyKind::User,
        vhost: "/".into(),
        name: name.into(),
        pattern: pattern.into(),
        apply_to: "queues".into(),
        priority: 0,
        definition: arguments(&[("overflow", Value::text(word))]),
    };
    // Patterns that match no queue, some and all; the shard stands still meanwhile. Of each queue it is asked once which policy it
    // had, and once which it has: every policy that counts more, and the one that counts.
    let rows = [
        ("a", "^invoices", 0, ASKED_OF),
        ("b", "customer-0(1|2).*[05]0$", 400, ASKED_OF + 2 * ASKED_OF),
        ("c", ".*", 600, 2 * ASKED_OF + 2 * ASKED_OF + 600),
    ];
    for (name, pattern, changed, asked) in rows {
        let plan = world
            .catalog
            .plan(&guest(1), &policy(name, pattern, "reject-publish"), Places::default())
            .unwrap();
        let before = NAMES_ASKED.get();
        let applied = world.catalog.apply(&plan.changes[0]);
        assert_eq!((plan.changes.len(), applied.len()), (1, changed), "{pattern}");
        assert_eq!(NAMES_ASKED.get() - before, asked, "{pattern}");
    }
}

/// Bytes of a catalog, counted so many things at a time.
fn weigh(catalog: &Catalog, most: usize) -> usize {
    let (mut bytes, mut next) = (0, Some(Weighed::default()));
    while let Some(from) = next {
        let (own, then) = catalog.memory_bytes_from(from, &mut Quantum::of(most));
        (bytes, next) = (bytes + own, then);
    }
    bytes
}
