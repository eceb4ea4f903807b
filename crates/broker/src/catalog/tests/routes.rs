//! Where messages go.

use super::*;

#[test]
fn the_default_exchange_leads_to_the_queue_of_that_name() {
    let mut world = World::new();
    world.must(&queue("q", ""));
    assert_eq!(world.routed("", "q"), "q");
    assert_eq!(world.routed("", "nope"), "");
    assert_eq!(world.routed("nope", "q"), "NOT_FOUND - no exchange 'nope' in vhost '/'");
    let version = world.catalog.version();
    let id = world.queue("q").id;
    world.must(&Op::DeleteQueue { id });
    assert_eq!(world.routed("", "q"), "");
    assert!(world.catalog.version() > version, "who remembers routes must see that they changed");
}

#[test]
fn a_queue_is_reached_once_however_many_ways_lead_there() {
    let mut world = World::new();
    world.must(&queue("q", ""));
    world.must(&queue("r", ""));
    for (key, to) in [("a.#", "q"), ("#.b", "q"), ("a.b", "r")] {
        world.must(&bind("amq.topic", to, key));
    }
    world.must(&link("amq.topic", "amq.fanout", "#"));
    world.must(&bind("amq.fanout", "q", ""));
    let mut matches = Matches::default();
    matches.start();
    world.catalog.route(VhostId(0), b"amq.topic", &Envelope::keyed(&[b"a.b"]), &mut matches).unwrap();
    let queues = matches.destinations().iter().filter(|to| matches!(to, Destination::Queue(_))).count();
    assert_eq!((queues, &*world.routed("amq.topic", "a.b")), (2, "q r"));
}

#[test]
fn circles_end() {
    let mut world = World::new();
    world.must(&queue("q", ""));
    for name in ["a", "b", "c"] {
        world.must(&exchange(name, "fanout", ""));
    }
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("a", "a")] {
        world.must(&link(from, to, ""));
    }
    world.must(&bind("c", "q", ""));
    for name in ["a", "b", "c"] {
        assert_eq!(world.routed(name, "k"), "q");
    }
}

#[test]
fn what_goes_nowhere_goes_to_the_alternate() {
    let mut world = World::new();
    let with = |to: &str| vec![("alternate-exchange", Value::text(to))];
    for (name, alternate) in [("a", "b"), ("b", "c"), ("c", "a"), ("own", "own"), ("d", ""), ("lost", "nope")]
    {
        world.must(&exchange_with(name, "direct", "", &with(alternate)));
    }
    for (from, to) in [("a", "qa"), ("b", "qb"), ("c", "qc")] {
        world.must(&queue(to, ""));
        world.must(&bind(from, to, to));
    }
    let rows = [
        ("a", "qa", "qa"),
        ("a", "qb", "qb"),
        ("a", "qc", "qc"),
        ("b", "qa", "qa"),
        ("a", "nope", ""),
        ("own", "qa", ""),
        ("d", "qa", ""),
        ("lost", "qa", ""),
    ];
    for (exchange, key, expected) in rows {
        assert_eq!(world.routed(exchange, key), expected, "{exchange} {key}");
    }
    // Found before by another way is found: the alternate is not asked.
    world.must(&exchange("fan", "fanout", ""));
    world.must(&bind("fan", "qa", ""));
    world.must(&link("fan", "a", ""));
    world.must(&queue("never", ""));
    world.must(&bind("b", "never", "qa"));
    assert_eq!(world.routed("fan", "qa"), "qa");
}

#[test]
fn headers_make_a_route_unfit_to_be_remembered() {
    let mut world = World::new();
    world.must(&queue("q", ""));
    world.must(&bind_with("amq.headers", "q", "", &[("x-match", Value::text("all"))]));
    world.must(&link("amq.fanout", "amq.headers", ""));
    for (exchange, expected) in [("amq.headers", true), ("amq.fanout", true), ("amq.direct", false)] {
        let mut matches = Matches::default();
        matches.start();
        let reads =
            world.catalog.route(VhostId(0), exchange.as_bytes(), &Envelope::keyed(&[b""]), &mut matches);
        assert_eq!(reads, Ok(expected), "{exchange}");
    }
}

#[test]
fn bindings_with_other_arguments_are_other_bindings() {
    let mut world = World::new();
    world.must(&queue("q", ""));
    let id = world.queue("q").id;
    for number in 0..100 {
        world.must(&bind_with("amq.headers", "q", "", &[("a", int(number))]));
        world.must(&bind_with("amq.headers", "q", "", &[("a", int(number))]));
    }
    assert_eq!(world.catalog.queue_bindings(id).count(), 100);
    let entry = world.catalog.exchange(VhostId(0), b"amq.headers").unwrap();
    assert_eq!(entry.exchange.bindings_count(), 100);
    for number in 0..100 {
        let arguments = arguments(&[("a", int(number))]);
        let (queue, exchange, key) = ("q".into(), "amq.headers".into(), "".into());
        world.must(&Op::UnbindQueue { queue, exchange, key, arguments });
        assert_eq!(world.catalog.queue_bindings(id).count() as i64, 99 - number);
    }
}

#[test]
fn deleting_a_virtual_host_takes_everything_in_it() {
    let mut world = World::new();
    world.must(&add_vhost("v"));
    let v = world.catalog.vhost("v").unwrap();
    let there = Actor::new("guest".into(), v, port(5));
    for op in [
        queue("q", ""),
        queue("e", "exclusive"),
        bind("amq.topic", "q", "#"),
        link("amq.fanout", "amq.topic", ""),
    ] {
        assert_eq!(world.wish_of(&there, &op), "ok");
    }
    world.must(&queue("q", ""));
    let plan =
        world.catalog.plan(&guest(1), &Op::DeleteVhost { name: "v".into() }, Places::default()).unwrap();
    let applied: Vec<_> = plan.changes.iter().flat_map(|change| world.catalog.apply(change)).collect();
    assert!(matches!(
        &applied[..],
        [Applied::QueueDeleted(_), Applied::QueueDeleted(_), Applied::VhostDeleted(_)]
    ));
    assert_eq!((world.catalog.vhost("v"), world.catalog.queue_count()), (None, 1));
    assert_eq!(world.catalog.exchanges.len(), 7);
    assert!(world.catalog.exclusive.is_empty());
    assert!(world.wish_of(&there, &queue("z", "")).starts_with("403 ACCESS_REFUSED"));
    assert_eq!(world.wish(&Op::DeleteVhost { name: "v".into() }), "404 NOT_FOUND - no vhost 'v'");
}

/// Bound in one order and numbered in another: a restart keeps the order.
#[test]
fn a_ring_is_the_same_after_a_restart() {
    let mut world = World::new();
    ["q1", "q2", "q3"].iter().for_each(|name| world.must(&queue(name, "")));
    world.must(&exchange("h", "x-consistent-hash", ""));
    for name in ["q3", "q1", "q2"] {
        world.must(&bind("h", name, "1"));
    }
    world.must(&bind("h", "q1", "5"));
    let keys = ["", "a", "b", "c", "0123456789ab"];
    let expected = ["q3", "q1", "q1", "q1", "q1"];
    assert_eq!(keys.map(|key| world.routed("h", key)), expected);
    let mut snapshot = Vec::new();
    world.catalog.write_snapshot(&mut snapshot);
    let restored = World { catalog: Catalog::read_snapshot(&snapshot).unwrap() };
    assert_eq!(keys.map(|key| restored.routed("h", key)), expected);
}

/// Two exchanges that draw lots one behind the other draw different ones.
#[test]
fn lots_behind_each_other_differ() {
    let mut world = World::new();
    world.must(&exchange("first", "x-random", ""));
    for second in ["a", "b"] {
        world.must(&exchange(second, "x-random", ""));
        world.must(&link("first", second, ""));
        for number in ["1", "2"] {
            world.must(&queue(&format!("{second}{number}"), ""));
            world.must(&bind(second, &format!("{second}{number}"), ""));
        }
    }
    let mut dice = base::Random::new(5);
    let mut found = std::collections::BTreeMap::new();
    for _ in 0..400 {
        let mut matches = Matches::default();
        let message = Envelope { roll: dice.bits(), ..Envelope::keyed(&[b"k"]) };
        assert_eq!(world.catalog.route(VhostId(0), b"first", &message, &mut matches), Ok(true));
        let queues: Vec<_> = matches.queues().collect();
        assert_eq!(queues.len(), 1);
        *found.entry(queues[0]).or_insert(0) += 1;
    }
    assert!(found.len() == 4 && found.values().all(|count| (60..140).contains(count)), "{found:?}");
}
