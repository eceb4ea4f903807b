//! Removals in parts: each part is small, and all together leave what the whole would have left.

use super::determinism::{check_whole, everything, op, snapshot};
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Applies a request part by part; the recorded changes go to `replayed` as well. Every catalog in between is whole.
fn in_parts(world: &mut World, replayed: &mut Catalog, (by, op): (&Actor, &Op), most: usize) -> usize {
    let mut waiting = VecDeque::from([(by.clone(), op.clone())]);
    let mut parts = 0;
    while let Some((by, op)) = waiting.pop_front() {
        let Ok(plan) = world.catalog.plan_part(&by, &op, Places::default(), most) else { continue };
        let Plan { changes, removed, .. } = plan;
        assert!(removed.count <= most, "{} of {most}", removed.count);
        let going = changes.iter().filter(|change| {
            matches!(change, Change::Unbind(_) | Change::DeleteQueue { .. } | Change::DeleteExchange { .. })
        });
        assert!(going.count() <= removed.count);
        for change in &changes {
            world.catalog.apply(change);
            if change.is_durable() {
                replayed.apply(change);
            }
        }
        check_whole(&world.catalog);
        let internal = Actor::internal(by.vhost, by.port);
        waiting.extend(removed.exchanges.into_iter().map(|op| (internal.clone(), op)));
        if removed.is_more {
            assert!(removed.count > 0, "a part that removes nothing would come again for ever");
            waiting.push_back((by, op));
        }
        parts += 1;
        assert!(parts < 10_000, "there is no end");
    }
    parts
}

fn removal() -> impl Strategy<Value = Op> {
    (0..4u8, 0..6u8, 0..6u8).prop_map(|(kind, a, b)| match kind {
        0 => Op::DeleteQueue { id: QueueId(u64::from(a) * 5 + u64::from(b)) },
        1 => Op::DeleteExchange { name: format!("x{a}").into(), if_unused: false },
        2 => Op::DeleteExclusive { port: port(u32::from(a % 3)) },
        _ => Op::DeleteVhost { name: if b > 2 { "/".into() } else { format!("v{b}").into() } },
    })
}

proptest! {
    #[test]
    fn parts_leave_what_the_whole_leaves(
        ops in prop::collection::vec((op(), 0..3u32), 0..60),
        removal in removal(),
        most in 2..9usize,
    ) {
        let (mut whole, mut parted) = (World::new(), World::new());
        let mut replayed = World::new().catalog;
        for (op, slot) in &ops {
            let by = Actor { is_internal: true, ..guest(*slot) };
            let Ok(plan) = whole.catalog.plan(&by, op, Places::default()) else { continue };
            for change in &plan.changes {
                [&mut whole.catalog, &mut parted.catalog].into_iter().for_each(|own| drop(own.apply(change)));
                if change.is_durable() {
                    replayed.apply(change);
                }
            }
        }
        let by = Actor { is_internal: true, ..guest(1) };
        if let Ok(plan) = whole.catalog.plan(&by, &removal, Places::default()) {
            plan.changes.iter().for_each(|change| drop(whole.catalog.apply(change)));
        }
        in_parts(&mut parted, &mut replayed, (&by, &removal), most);
        check_whole(&whole.catalog);
        prop_assert_eq!(everything(&whole.catalog), everything(&parted.catalog));
        prop_assert_eq!(snapshot(&parted.catalog), snapshot(&replayed));
    }
}

/// A queue or exchange at the end of many bindings, of every kind of exchange, as both ends.
#[test]
fn what_is_bound_often_goes_in_parts() {
    for (kind, key) in [
        ("direct", "k"),
        ("fanout", "k"),
        ("topic", "#.k"),
        ("headers", "k"),
        ("x-consistent-hash", ""),
        ("x-modulus-hash", "k"),
        ("x-random", "k"),
    ] {
        for removal in ["queue", "exchange", "vhost"] {
            let mut world = World::new();
            world.must(&queue("q", ""));
            world.must(&exchange("x", kind, ""));
            for number in 0..100 {
                let key = match kind {
                    "x-consistent-hash" => (number + 1).to_string(),
                    _ => format!("{key}.{number}"),
                };
                world.must(&bind_with("x", "q", &key, &[("n", int(number))]));
            }
            let op = match removal {
                "queue" => Op::DeleteQueue { id: world.queue("q").id },
                "exchange" => delete_exchange("x", false),
                _ => Op::DeleteVhost { name: "/".into() },
            };
            let mut replayed = Catalog::read_snapshot(&snapshot(&world.catalog)).unwrap();
            let parts = in_parts(&mut world, &mut replayed, (&guest(1), &op), 10);
            assert!((10..=13).contains(&parts), "{kind} {removal}: {parts}");
            assert_eq!(snapshot(&world.catalog), snapshot(&replayed));
            if removal == "queue" {
                assert!(world.catalog.queue_by_name(VhostId(0), b"q").is_none());
                assert!(world.catalog.exchange(VhostId(0), b"x").unwrap().exchange.is_unused());
            }
        }
    }
}

/// Of what is undone before the end nothing is recorded: a start in between finds all of it.
#[test]
fn a_start_in_between_finds_the_whole() {
    let mut world = World::new();
    world.must(&queue("q", ""));
    (0..20).for_each(|number| world.must(&bind("amq.direct", "q", &number.to_string())));
    let plan = world.catalog.plan_part(
        &guest(1),
        &Op::DeleteQueue { id: world.queue("q").id },
        Places::default(),
        8,
    );
    let Plan { changes, removed, .. } = plan.unwrap();
    assert_eq!((changes.len(), removed.count, removed.is_more), (8, 8, true));
    assert!(changes.iter().all(|change| !change.is_durable() && matches!(change, Change::Unbind(_))));
}

/// An auto-delete exchange goes with its last binding, however much is bound to it: by itself, where that is more than a
/// part has room for, unless it is bound anew meanwhile.
#[test]
fn an_exchange_that_goes_along_may_be_much_work_itself() {
    for is_bound_anew in [false, true] {
        let mut world = World::new();
        world.must(&queue("q", ""));
        world.must(&exchange("x", "fanout", "auto-delete"));
        world.must(&bind("x", "q", ""));
        for number in 0..50 {
            world.must(&link("amq.direct", "x", &number.to_string()));
        }
        let unbind = unbind("x", "q", "");
        let Plan { changes, removed, .. } =
            world.catalog.plan_part(&guest(1), &unbind, Places::default(), 10).unwrap();
        assert_eq!((changes.len(), removed.is_more, removed.exchanges.len()), (1, false, 1));
        changes.iter().for_each(|change| drop(world.catalog.apply(change)));
        if is_bound_anew {
            world.must(&bind("x", "q", "again"));
        }
        let mut replayed = Catalog::read_snapshot(&snapshot(&world.catalog)).unwrap();
        let internal = Actor::internal(VhostId(0), port(1));
        in_parts(&mut world, &mut replayed, (&internal, &removed.exchanges[0]), 10);
        assert_eq!(world.catalog.exchange(VhostId(0), b"x").is_some(), is_bound_anew);
    }
}
