//! Macros: which there may be, who uses them, and that what uses one means the same for as long as it is there.

use super::super::wire::LIMITS;
use super::*;
use filter::{Fields, Found, Paths};
use routing::{Matches, Value};

fn set_in(vhost: &str, name: &str, value: Option<&str>) -> Op {
    let (component, value) = (FILTER_MACRO.into(), value.map(Box::from));
    Op::SetVhostParameter { vhost: vhost.into(), component, name: name.into(), value }
}

/// `set("big", "low", "/qty * /price > low")`; parameters are divided by spaces.
fn set(name: &str, parameters: &str, text: &str) -> Op {
    let parameters: Vec<String> = parameters.split_whitespace().map(|name| format!("{name:?}")).collect();
    set_in(
        "/",
        name,
        Some(&format!(r#"{{"parameters": [{}], "expression": {text:?}}}"#, parameters.join(", "))),
    )
}

fn clear(name: &str) -> Op {
    set_in("/", name, None)
}

fn filtered(exchange: &str, queue: &str, key: &str, text: &str) -> Op {
    bind_with(exchange, queue, key, &[("x-filter", Value::Text(text.as_bytes().into()))])
}

fn unfiltered(exchange: &str, queue: &str, key: &str, text: &str) -> Op {
    let arguments = arguments(&[("x-filter", Value::Text(text.as_bytes().into()))]);
    Op::UnbindQueue { queue: queue.into(), exchange: exchange.into(), key: key.into(), arguments }
}

fn expressing(name: &str, argument: &str, text: &str) -> Op {
    queue_with(name, "", &[(argument, Value::Text(text.as_bytes().into()))])
}

/// A message that has a body of JSON alone.
struct Body<'a>(&'a str);

impl Fields for Body<'_> {
    fn field(&self, _: filter::Field<'_>) -> Option<filter::Value<'_>> {
        None
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        filter::json::find(self.0.as_bytes(), paths, 1 << 20, found).1
    }
}

/// The queues that a message goes to, sorted.
fn routed(catalog: &Catalog, exchange: &str, body: &str) -> String {
    let mut matches = Matches::default();
    matches.start();
    let (keys, body): ([&[u8]; 1], _) = ([b"k"], Body(body));
    let envelope = Envelope { content: &body, ..Envelope::keyed(&keys) };
    catalog.route(VhostId(0), exchange.as_bytes(), &envelope, &mut matches).unwrap();
    let names = matches.destinations().iter().filter_map(|destination| match destination {
        Destination::Queue(id) => catalog.queue(*id).map(|queue| &*queue.name),
        Destination::Exchange(_) => None,
    });
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.join(" ")
}

fn again(catalog: &Catalog) -> Catalog {
    let mut bytes = Vec::new();
    catalog.write_snapshot(&mut bytes);
    Catalog::read_snapshot(&bytes).unwrap()
}

const USED: &str = "406 PRECONDITION_FAILED - macro 'big' in vhost '/' is used by ";

#[test]
fn macros_are_checked_when_they_are_set() {
    let wrong = |name: &str, why: &str| {
        format!("406 PRECONDITION_FAILED - Validation failed\n\nmacro '{name}': {why}\n")
    };
    let mut world = World::new();
    let mut check = |op: &Op, expected: &str| assert_eq!(world.wish(op), expected, "{op:?}");
    check(&set("big", "low", "/qty * /price > low"), "ok");
    check(&set("huge", "", "big(1000000)"), "ok");
    let raw = |name: &str, value: &str| set_in("/", name, Some(value));
    check(&raw("plain", r#"{"expression": "vip"}"#), "ok");
    for (name, value, why) in [
        ("m", "{", "it is to be an object"),
        ("m", "[]", "it is to be an object"),
        ("m", "{}", "expression is to be a text"),
        ("m", r#"{"expression": 1}"#, "expression is to be a text"),
        ("m", r#"{"expression": "1", "parameters": "a"}"#, "parameters are to be a list of texts"),
        ("m", r#"{"expression": "1", "parameters": [1]}"#, "parameters are to be a list of texts"),
        ("m", r#"{"expression": "1", "parameters": ["a", "a"]}"#, "two parameters have the name a"),
        ("m", r#"{"expression": "a = "}"#, "at byte 4: a value expected"),
        ("m", r#"{"expression": "a AND other(1)"}"#, "at byte 6: other is no function"),
        ("m", r#"{"expression": "m(1)"}"#, "at byte 0: m is no function"),
        ("m", r#"{"expression": "big()"}"#, "at byte 0: big takes 1 arguments"),
        ("Upper", r#"{"expression": "1"}"#, "Upper is a word or a function of the language"),
        (
            "a-b",
            r#"{"expression": "1"}"#,
            "'a-b' is no name: it takes a letter, then letters, digits and underscores",
        ),
    ] {
        check(&raw(name, value), &wrong(name, why));
    }
    check(&set("BIG", "", "1"), "406 PRECONDITION_FAILED - macro 'big' in vhost '/' is there already");
    check(&set("Plain", "", "1"), "406 PRECONDITION_FAILED - macro 'plain' in vhost '/' is there already");
    // Of another component all is as it was.
    let other = |value: &str| Op::SetVhostParameter {
        vhost: "/".into(),
        component: "filter-macros".into(),
        name: "m".into(),
        value: Some(value.into()),
    };
    check(&other("{"), "ok");
}

#[test]
fn macros_may_be_used_wherever_the_catalog_has_expressions() {
    let mut world = World::new();
    for op in [
        set("big", "low", "/qty * /price > low"),
        exchange("c", "x-content", ""),
        exchange("t", "topic", ""),
        queue("q", ""),
        queue("r", ""),
        filtered("c", "q", "", "big(100)"),
        filtered("t", "r", "#", "Big(10) AND NOT Big(1000)"),
        queue_with("s", "", &[("x-queue-type", Value::Text((*b"stream").into()))]),
        expressing("p", "x-priority-expression", "CASE WHEN big(1) THEN 9 ELSE 1 END"),
        expressing("b", "x-barrier-expression", "big(1)"),
    ] {
        world.must(&op);
    }
    let source = [
        ("x-source-stream", Value::Text((*b"s").into())),
        ("x-source-filter", Value::Text((*b"big(5) AND OFFSET() > 1").into())),
    ];
    world.must(&queue_with("f", "", &source));
    let body = r#"{"qty": 10, "price": 9}"#;
    for catalog in [&world.catalog, &again(&world.catalog)] {
        assert_eq!((routed(catalog, "c", body), routed(catalog, "t", body)), (String::new(), "r".to_owned()));
        assert_eq!(routed(catalog, "c", r#"{"qty": 10, "price": 11}"#), "q");
        for name in ["p", "b"] {
            assert!(
                catalog.ranking(catalog.queue_by_name(VhostId(0), name.as_bytes()).unwrap().id).is_some()
            );
        }
        let fed = catalog.queue_by_name(VhostId(0), b"f").unwrap();
        assert!(catalog.source(fed).unwrap().wanted.is_some());
    }
    let fault = "at byte 4: bigger is no function";
    for (op, expected) in [
        (filtered("c", "r", "", "NOT bigger(1)"), fault),
        (filtered("c", "r", "", "big()"), "at byte 0: big takes 1 arguments"),
        (expressing("x", "x-priority-expression", "NOT bigger(1)"), fault),
        (expressing("x", "x-barrier-expression", "NOT bigger(1)"), fault),
    ] {
        let told = world.wish(&op);
        assert!(told.starts_with("406") && told.contains(expected), "{op:?}: {told}");
    }
    // Those of another virtual host are not known.
    world.must(&add_vhost("v"));
    let elsewhere =
        Actor { vhost: world.catalog.vhost("v").unwrap(), ..Actor::internal(VhostId(0), port(1)) };
    assert_eq!(world.wish_of(&elsewhere, &queue("q", "")), "ok");
    let told = world.wish_of(&elsewhere, &filtered("amq.topic", "q", "", "big(1)"));
    assert!(told.contains("big is no function"), "{told}");
}

#[test]
fn macros_that_are_used_stay_as_they_are() {
    let mut world = World::new();
    for op in [
        set("big", "low", "/qty > low"),
        exchange("c", "x-content", ""),
        exchange("e", "fanout", ""),
        queue("q", ""),
        queue("r", ""),
    ] {
        world.must(&op);
    }
    let change = set("big", "low", "/qty >= low");
    let back = set("big", "low", "/qty > low");
    let mut check = |use_it: &[Op], user: &str, end_it: &[Op]| {
        use_it.iter().for_each(|op| world.must(op));
        // A start knows the users as well.
        world.catalog = again(&world.catalog);
        for op in [&change, &clear("big")] {
            assert_eq!(world.wish(op), format!("{USED}{user}"), "{op:?}");
        }
        // The same in other words is no change.
        world.must(&back);
        world.must(&set_in("/", "big", Some(r#"{"expression":"/qty > low","parameters":["low"]}"#)));
        end_it.iter().for_each(|op| world.must(op));
        world.must(&change);
        world.must(&back);
    };
    let binding = filtered("c", "q", "", "big(1) AND big(2)");
    check(
        std::slice::from_ref(&binding),
        "a binding from exchange 'c' to queue 'q'",
        &[unfiltered("c", "q", "", "big(1) AND big(2)")],
    );
    // Two bindings of the same ends.
    check(
        &[binding.clone(), filtered("c", "q", "", "BIG(3)")],
        "a binding from exchange 'c' to queue 'q'",
        &[unfiltered("c", "q", "", "big(1) AND big(2)"), unfiltered("c", "q", "", "BIG(3)")],
    );
    // The exchange goes, and comes again.
    check(
        std::slice::from_ref(&binding),
        "a binding from exchange 'c' to queue 'q'",
        &[delete_exchange("c", false), exchange("c", "x-content", "")],
    );
    let link = Op::BindExchange {
        source: "c".into(),
        destination: "e".into(),
        key: "".into(),
        arguments: arguments(&[("x-filter", Value::Text((*b"big(1)").into()))]),
    };
    check(
        std::slice::from_ref(&link),
        "a binding from exchange 'c' to exchange 'e'",
        &[delete_exchange("e", false), exchange("e", "fanout", "")],
    );
    check(&[set("huge", "", "big(9)")], "macro 'huge'", &[clear("huge")]);
    // One that counts a destination once.
    let ring = [
        exchange("h", "x-consistent-hash", ""),
        filtered("h", "q", "1", "big(1)"),
        filtered("h", "q", "1", "NOT big(1)"),
        filtered("h", "r", "2", "big(2)"),
    ];
    check(&ring, "a binding from exchange 'h' to queue 'q'", &[delete_exchange("h", false)]);
    for argument in ["x-priority-expression", "x-barrier-expression"] {
        let id = QueueId(world_next(&world));
        let mut check = |use_it: &[Op], user: &str, end_it: &[Op]| {
            use_it.iter().for_each(|op| world.must(op));
            world.catalog = again(&world.catalog);
            assert_eq!(world.wish(&change), format!("{USED}{user}"));
            end_it.iter().for_each(|op| world.must(op));
            world.must(&change);
            world.must(&back);
        };
        check(&[expressing("p", argument, "big(1)")], "queue 'p'", &[Op::DeleteQueue { id }]);
    }
}

fn world_next(world: &World) -> u64 {
    world.catalog.next_queue.max(world.catalog.reserved_queues)
}

#[test]
fn a_rehearsal_knows_the_users_that_it_does_not_have() {
    let mut world = World::new();
    for op in [
        set("big", "low", "/qty > low"),
        set("huge", "", "big(9)"),
        exchange("c", "x-content", ""),
        queue("q", ""),
        filtered("c", "q", "", "huge()"),
    ] {
        world.must(&op);
    }
    let mut outline = World { catalog: Catalog::default() };
    world.catalog.outline().iter().for_each(|change| drop(outline.catalog.apply(change)));
    outline.catalog.count_as_used(world.catalog.macros_used());
    for op in [set("huge", "", "1"), clear("huge"), set("big", "", "1"), set("huge", "", "big(9)")] {
        assert_eq!(outline.wish(&op), world.wish(&op), "{op:?}");
    }
    assert_eq!(world.wish(&set("huge", "", "big(9)")), "ok");
    assert!(world.wish(&clear("huge")).contains("a binding from exchange 'c' to queue 'q'"));
}

#[test]
fn macros_are_bounded_and_go_with_their_virtual_host() {
    let mut world = World::new();
    for number in 0..LIMITS.macros_max {
        world.must(&set(&format!("m{number}"), "", "1"));
    }
    let told = world.wish(&set("more", "", "1"));
    assert_eq!(told, "406 PRECONDITION_FAILED - vhost '/' has as many macros as it may: 250");
    world.must(&set("m1", "", "2"));
    world.must(&clear("m1"));
    world.must(&set("more", "", "1"));
    assert_eq!(world.catalog.macros(VhostId(0)).len(), LIMITS.macros_max);
    world.must(&add_vhost("v"));
    world.must(&set_in("v", "big", Some(r#"{"expression": "1"}"#)));
    world.must(&Op::DeleteVhost { name: "v".into() });
    world.must(&add_vhost("v"));
    assert!(world.catalog.macros(world.catalog.vhost("v").unwrap()).is_empty());
}

#[test]
fn macros_deeper_than_may_be_are_refused() {
    let mut world = World::new();
    world.must(&set("m1", "x", "x + 1"));
    for level in 2..=16 {
        world.must(&set(&format!("m{level}"), "x", &format!("m{}(x)", level - 1)));
    }
    let told = world.wish(&set("m17", "x", "m16(x)"));
    assert!(told.contains("more than 16 macros within one another"), "{told}");
}

#[test]
fn what_is_no_macro_is_a_parameter_all_the_same() {
    // A log of a version that knew no macros, or of another that knew more of the language.
    let mut catalog = World::new().catalog;
    let change = |name: &str, value: Option<&str>| Change::SetVhostParameter {
        vhost: VhostId(0),
        component: FILTER_MACRO.into(),
        name: name.into(),
        value: value.map(Box::from),
    };
    for (name, value) in
        [("a b", "{}"), ("f", "[1"), ("g", r#"{"expression": "§"}"#), ("h", r#"{"expression": "h()"}"#)]
    {
        catalog.apply(&change(name, Some(value)));
    }
    let catalog = again(&catalog);
    assert_eq!(catalog.vhost_parameters(VhostId(0)).count(), 4);
    let mut world = World { catalog };
    world.must(&exchange("c", "x-content", ""));
    world.must(&queue("q", ""));
    for text in ["f()", "g()", "h()"] {
        assert!(world.wish(&filtered("c", "q", "", text)).starts_with("406"), "{text}");
    }
    // They can be made good, and cleared.
    world.must(&set("f", "", "1 = 1"));
    world.must(&filtered("c", "q", "", "f()"));
    world.must(&clear("a b"));
    world.must(&clear("g"));
}

#[test]
fn a_log_replayed_over_its_snapshot_has_the_last_meaning() {
    let mut world = World::new();
    let mut log: Vec<Change> = Vec::new();
    let ops = [
        exchange("c", "x-content", ""),
        queue("q", ""),
        set("big", "", "/qty > 1"),
        filtered("c", "q", "", "big()"),
        unfiltered("c", "q", "", "big()"),
        clear("big"),
        set("a", "", "/qty > 5"),
        set("big", "", "a()"),
        filtered("c", "q", "", "big()"),
    ];
    let mut snapshots = Vec::new();
    for op in &ops {
        let plan = world.catalog.plan(&guest(1), op, Places::default()).unwrap();
        plan.changes.iter().for_each(|change| drop(world.catalog.apply(change)));
        log.extend(plan.changes);
        snapshots.push(again(&world.catalog));
    }
    for mut catalog in snapshots {
        log.iter().for_each(|change| drop(catalog.apply(change)));
        assert_eq!(
            (routed(&catalog, "c", r#"{"qty": 3}"#), routed(&catalog, "c", r#"{"qty": 6}"#)),
            (String::new(), "q".to_owned())
        );
        let mut world = World { catalog };
        assert!(world.wish(&clear("big")).contains("a binding from exchange 'c' to queue 'q'"));
        world.must(&unfiltered("c", "q", "", "big()"));
        world.must(&clear("big"));
        world.must(&clear("a"));
    }
}
