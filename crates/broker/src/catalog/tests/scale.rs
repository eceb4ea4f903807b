//! Fifty thousand queues: what they cost. The bounds are loose enough for a busy machine and tight enough to see a
//! copy of everything per change.

use super::super::policy::NAMES_ASKED;
use super::*;
use base::Quantum;
use std::hash::BuildHasher;
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

/// Bindings of one queue to one exchange: deleting it costs what they cost, not their square.
#[test]
fn a_queue_with_many_bindings_goes_in_proportion() {
    const BINDINGS: usize = 20_000;
    let number = |number: usize| [("n", Value::long(number as i64))];
    // The kind; whether the bindings differ by key, or by their arguments alone.
    let rows = [
        ("direct", true),
        ("topic", true),
        ("headers", false),
        ("direct", false),
        ("x-consistent-hash", false),
        ("x-random", true),
        ("x-modulus-hash", false),
    ];
    for (kind, by_key) in rows {
        let mut world = World::new();
        let declare = Op::DeclareExchange {
            name: "x".into(),
            kind: kind.into(),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Arguments::new(),
        };
        world.must(&declare);
        for name in ["q", "stays"] {
            world.must(&queue(name, ""));
        }
        world.must(&bind("x", "stays", "1"));
        let begun = processor_time();
        for at in 0..BINDINGS {
            match by_key {
                true => world.must(&bind("x", "q", &format!("{}.*", at + 2))),
                false => world.must(&bind_with("x", "q", "1", &number(at))),
            }
        }
        let bound = processor_time() - begun;
        let id = world.queue("q").id;
        let begun = processor_time();
        world.must(&Op::DeleteQueue { id });
        let deleted = processor_time() - begun;
        let each = (bound.max(deleted)) / BINDINGS as u32;
        assert!(each < Duration::from_micros(40), "{kind}: bound in {bound:?}, deleted in {deleted:?}");
        assert_eq!(world.catalog.exchange(VhostId(0), b"x").unwrap().exchange.bindings_count(), 1, "{kind}");
    }
}

/// Keys of letters whose hashes are the same wherever hashes have no secret: the third word of eight is what the state
/// of the hash is by then, so that the next word counts for nothing.
fn flood(count: usize) -> Vec<String> {
    let mixed = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let mut dice = base::Random::new(1);
    loop {
        let letters: Vec<u8> = (0..16).map(|_| b'a' + dice.below(26) as u8).collect();
        let word = |at: usize| u64::from_le_bytes(letters[at..at + 8].try_into().unwrap());
        let state = mixed(0x243f_6a88_85a3_08d3 ^ word(0), 0xa409_3822_299f_31d0 ^ word(8)).to_le_bytes();
        if state.iter().all(u8::is_ascii_alphanumeric) {
            let [letters, state] = [&letters[..], &state].map(|bytes| str::from_utf8(bytes).unwrap());
            let tail = "z".repeat(16);
            return (0..count).map(|at| format!("{letters}{tail}{state}{at:08}{tail}")).collect();
        }
    }
}

/// Binding and routing by keys that fall together without a seed costs no more than by others.
#[test]
fn keys_that_were_made_to_fall_together_do_not() {
    let keys = flood(20_000);
    let hash = |key: &String| BuildHasher::hash_one(&rustc_hash::FxBuildHasher, key.as_bytes());
    assert!(keys.iter().all(|key| hash(key) == hash(&keys[0])), "they fall together in maps without a seed");
    let mut world = World::new();
    world.must(&queue("q", ""));
    let begun = processor_time();
    for key in &keys {
        world.must(&bind("amq.direct", "q", key));
    }
    let each = (processor_time() - begun) / keys.len() as u32;
    assert!(each < Duration::from_micros(40), "{each:?} per binding");
    let begun = processor_time();
    for key in &keys {
        assert_eq!(world.routed("amq.direct", key), "q");
    }
    let each = (processor_time() - begun) / keys.len() as u32;
    assert!(each < Duration::from_micros(20), "{each:?} per message");
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
    // Patterns that match no queue, some and all. Each queue is held against every policy that counts more, and the one
    // that counts.
    let rows = [
        ("a", "^invoices", 0, ASKED_OF),
        ("b", "customer-0(1|2).*[05]0$", 400, 2 * ASKED_OF),
        ("c", ".*", 600, 2 * ASKED_OF + 600),
    ];
    for (name, pattern, changed, asked) in rows {
        let plan = world
            .catalog
            .plan(&guest(1), &policy(name, pattern, "reject-publish"), Places::default())
            .unwrap();
        let before = NAMES_ASKED.get();
        assert!(world.catalog.apply(&plan.changes[0]).is_empty());
        assert_eq!(NAMES_ASKED.get(), before, "the change itself asks about none");
        assert_eq!((plan.changes.len(), settle(&mut world.catalog).len()), (1, changed), "{pattern}");
        assert_eq!(NAMES_ASKED.get() - before, asked, "{pattern}");
    }
    // An object's policies are kept with it.
    let before = NAMES_ASKED.get();
    for queue in world.catalog.queues() {
        assert!(world.catalog.queue_policies(queue).user.is_some());
        assert_eq!(world.catalog.rules(queue).overflow, Overflow::RejectPublish);
    }
    for exchange in world.catalog.exchanges(VhostId(0)) {
        assert!(world.catalog.exchange_policies(exchange).user.is_none());
    }
    assert_eq!(NAMES_ASKED.get(), before);
}

#[test]
fn partitions_cost_what_is_told() {
    let mut world = World::new();
    world.must(&queue("q", ""));
    let stream = [("x-queue-type", Value::text("stream"))];
    for (name, order) in [("s-0", 1), ("s-1", 0)] {
        world.must(&queue_with(name, "", &stream));
        world.must(&bind_with("amq.direct", name, name, &[("x-stream-partition-order", Value::long(order))]));
    }
    for number in 0..QUEUES {
        let plan =
            world.catalog.plan(&guest(1), &bind("amq.direct", "q", &number.to_string()), Places::default());
        plan.unwrap().changes.iter().for_each(|change| drop(world.catalog.apply(change)));
    }
    let begun = processor_time();
    for _ in 0..1000 {
        let entry = world.catalog.exchange(VhostId(0), b"amq.direct").unwrap();
        let names: Vec<_> = world.catalog.partitions(entry).map(|stream| &*stream.name).collect();
        assert_eq!(names, ["s-1", "s-0"]);
        assert_eq!(entry.partition_order(world.queue("s-0").id), Some(Some(1)));
        assert_eq!(entry.partition_order(world.queue("q").id), None);
    }
    // To go through all bindings would take minutes.
    assert!(processor_time() - begun < Duration::from_secs(1));
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
