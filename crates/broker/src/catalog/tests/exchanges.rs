//! Declaring and deleting exchanges, binding. Texts as RabbitMQ 4.3.6 gave them to pika 1.3.

use super::*;

const DEFAULT: &str = "403 ACCESS_REFUSED - operation not permitted on the default exchange";

#[test]
fn declared_again_it_must_be_the_same() {
    let alternate = [("alternate-exchange", Value::text("y"))];
    let differs = |what: &str, received: &str, current: &str| {
        format!(
            "406 PRECONDITION_FAILED - inequivalent arg '{what}' for exchange 'x' in vhost '/': received '{received}' but current is '{current}'"
        )
    };
    check(&[
        (exchange("x", "direct", ""), "ok"),
        (exchange("x", "direct", ""), "ok"),
        (exchange("x", "topic", ""), &differs("type", "topic", "direct")),
        (exchange("x", "direct", "transient"), &differs("durable", "false", "true")),
        (exchange("x", "direct", "auto-delete"), &differs("auto_delete", "true", "false")),
        (exchange("x", "direct", "internal"), &differs("internal", "true", "false")),
        (
            exchange_with("x", "direct", "", &alternate),
            "406 PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': received the value 'y' of type 'longstr' but current is none",
        ),
        (exchange_with("x", "direct", "", &[("foo", Value::text("y"))]), "ok"),
        (
            exchange_with("x", "fanout", "transient auto-delete internal", &alternate),
            &differs("type", "fanout", "direct"),
        ),
        (exchange("amq.direct", "direct", ""), "ok"),
        (
            exchange("amq.direct", "direct", "transient"),
            "406 PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.direct' in vhost '/': received 'false' but current is 'true'",
        ),
        (exchange("x", "nope", "passive"), "ok"),
    ]);
}

#[test]
fn exchanges_that_delay_are_counted() {
    let mut world = World::new();
    assert!(!world.catalog.has_delaying_exchanges());
    for name in ["x", "y"] {
        world.must(&exchange_with(
            name,
            "x-delayed-message",
            "",
            &[("x-delayed-type", Value::text("direct"))],
        ));
    }
    world.must(&delete_exchange("x", false));
    assert!(world.catalog.has_delaying_exchanges());
    let mut bytes = Vec::new();
    world.catalog.write_snapshot(&mut bytes);
    assert!(Catalog::read_snapshot(&bytes).unwrap().has_delaying_exchanges());
    world.must(&delete_exchange("y", false));
    assert!(!world.catalog.has_delaying_exchanges());
}

#[test]
fn types_and_names_have_rules() {
    let alternate = |value| exchange_with("a", "direct", "", &[("alternate-exchange", value)]);
    check(&[
        (exchange("x", "nope", ""), "406 PRECONDITION_FAILED - unknown exchange type 'nope'"),
        (exchange("x", "Direct", ""), "406 PRECONDITION_FAILED - unknown exchange type 'Direct'"),
        (exchange("x", "", ""), "406 PRECONDITION_FAILED - invalid exchange type ''"),
        (exchange("amq.x", "nope", ""), "406 PRECONDITION_FAILED - unknown exchange type 'nope'"),
        (exchange("", "nope", ""), "406 PRECONDITION_FAILED - unknown exchange type 'nope'"),
        (
            exchange("x", "x-delayed-message", ""),
            "406 PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type",
        ),
        (
            exchange("amq.x", "direct", ""),
            "403 ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'",
        ),
        (exchange("amq.x", "direct", "passive"), "404 NOT_FOUND - no exchange 'amq.x' in vhost '/'"),
        (exchange("nope", "direct", "passive"), "404 NOT_FOUND - no exchange 'nope' in vhost '/'"),
        (exchange("", "direct", ""), DEFAULT),
        (exchange("", "direct", "passive"), DEFAULT),
        (
            exchange(&"x".repeat(256), "direct", ""),
            "406 PRECONDITION_FAILED - exchange name is longer than 255 bytes",
        ),
        (
            alternate(int(5)),
            "406 PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'a' in vhost '/'",
        ),
        (alternate(Value::text("a")), "ok"),
        (exchange("x\n", "direct", ""), "ok"),
        (exchange("x", "direct", "passive"), "ok"),
    ]);
}

#[test]
fn deleting_has_rules() {
    check(&[
        (delete_exchange("nope", false), "ok"),
        (delete_exchange("", false), DEFAULT),
        (
            delete_exchange("amq.direct", false),
            "403 ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
        ),
        (
            delete_exchange("amq.nope", true),
            "403 ACCESS_REFUSED - deletion of system exchange 'amq.nope' in vhost '/' not allowed",
        ),
        (exchange("x", "direct", ""), "ok"),
        (exchange("y", "direct", ""), "ok"),
        (queue("q", ""), "ok"),
        (bind("x", "q", "k"), "ok"),
        (link("x", "y", "k"), "ok"),
        (delete_exchange("x", true), "406 PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"),
        // Bindings to it are no use of it.
        (delete_exchange("y", true), "ok"),
        (unbind("x", "q", "k"), "ok"),
        (delete_exchange("x", true), "ok"),
        (exchange("x", "direct", "passive"), "404 NOT_FOUND - no exchange 'x' in vhost '/'"),
    ]);
}

#[test]
fn binding_has_rules() {
    let no_exchange = "404 NOT_FOUND - no exchange 'nope' in vhost '/'";
    let no_queue = "404 NOT_FOUND - no queue 'nope' in vhost '/'";
    let three =
        "406 PRECONDITION_FAILED - Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, at most 2 are allowed";
    let value = "406 PRECONDITION_FAILED - Invalid x-match field value <<\"foo\">>; expected all, any, all-with-x, or any-with-x";
    let of_type =
        "406 PRECONDITION_FAILED - Invalid x-match field type signedint (value 5); expected longstr";
    check(&[
        (queue("q", ""), "ok"),
        (exchange("x", "direct", ""), "ok"),
        (bind("x", "q", "k"), "ok"),
        (bind("x", "q", "k"), "ok"),
        (bind("x", "nope", "k"), no_queue),
        (bind("nope", "q", "k"), no_exchange),
        (bind("nope", "nope", "k"), no_exchange),
        (bind("", "q", "k"), DEFAULT),
        (bind("", "nope", "k"), DEFAULT),
        (unbind("x", "nope", "k"), "ok"),
        (unbind("nope", "q", "k"), "ok"),
        (unbind("x", "q", "zzz"), "ok"),
        (unbind("", "q", "q"), DEFAULT),
        (link("x", "amq.direct", "k"), "ok"),
        (link("nope", "amq.direct", "k"), no_exchange),
        (link("x", "nope", "k"), no_exchange),
        (link("", "x", "k"), DEFAULT),
        (link("x", "", "k"), DEFAULT),
        (unlink("x", "", "k"), DEFAULT),
        (unlink("", "x", "k"), DEFAULT),
        (unlink("x", "nope", "k"), "ok"),
        (unlink("x", "amq.fanout", "k"), "ok"),
        (link("x", "x", "k"), "ok"),
        (bind_with("amq.headers", "q", "", &[("x-match", Value::text("foo"))]), value),
        (bind_with("amq.headers", "nope", "", &[("x-match", Value::text("foo"))]), no_queue),
        (bind_with("amq.headers", "q", "", &[("x-match", int(5))]), of_type),
        (bind_with("amq.headers", "q", "", &[("x-match", Value::text("any")), ("a", int(1))]), "ok"),
        (bind("amq.topic", "q", "#.a.#.b.#"), three),
        (bind("amq.topic", "q", "#.a.#"), "ok"),
        (bind("x", "q", &"k".repeat(256)), "406 PRECONDITION_FAILED - binding key is longer than 255 bytes"),
    ]);
}

#[test]
fn auto_delete_exchanges_go_with_their_last_binding() {
    let there = |world: &World, name: &str| world.catalog.exchange(VhostId(0), name.as_bytes()).is_some();
    let mut world = World::new();
    world.must(&queue("q", ""));
    world.must(&exchange("x", "fanout", "auto-delete"));
    world.must(&bind("x", "q", "a"));
    world.must(&bind("x", "q", "b"));
    world.must(&unbind("x", "q", "a"));
    assert!(there(&world, "x"));
    world.must(&unbind("x", "q", "b"));
    assert!(!there(&world, "x"));

    // A chain: the queue takes the last exchange with it, that takes the one before, and so on.
    let names: Vec<String> = (0..2000).map(|at| format!("x{at}")).collect();
    names.iter().for_each(|name| world.must(&exchange(name, "fanout", "auto-delete")));
    names.windows(2).for_each(|pair| world.must(&link(&pair[0], &pair[1], "")));
    world.must(&bind("x1999", "q", ""));
    assert_eq!(world.routed("x0", ""), "q");
    let id = world.queue("q").id;
    world.must(&Op::DeleteQueue { id });
    assert!(!there(&world, "x1999") && !there(&world, "x0"));

    // Deleting a source leaves the destination; deleting the destination takes the source.
    world.must(&exchange("s", "fanout", "auto-delete"));
    world.must(&exchange("d", "fanout", "auto-delete"));
    world.must(&link("s", "d", "k"));
    world.must(&delete_exchange("s", false));
    assert!(there(&world, "d"));
    world.must(&exchange("s", "fanout", "auto-delete"));
    world.must(&link("s", "d", "k"));
    world.must(&delete_exchange("d", false));
    assert!(!there(&world, "s"));

    // In a circle each is deleted once.
    world.must(&exchange("s", "fanout", "auto-delete"));
    world.must(&exchange("d", "fanout", "auto-delete"));
    world.must(&link("s", "d", "k"));
    world.must(&link("d", "s", "k"));
    let plan = world.catalog.plan(&guest(1), &delete_exchange("d", false), Places::default()).unwrap();
    assert_eq!(plan.changes.len(), 2);
    world.must(&delete_exchange("d", false));
    assert_eq!(world.catalog.exchanges(VhostId(0)).len(), 7);
}

#[test]
fn a_new_node_has_the_predeclared_exchanges() {
    let world = World::new();
    let all = world.catalog.exchanges(VhostId(0));
    let shown: Vec<String> =
        all.iter().map(|x| format!("{}:{}:{}{}", x.name, x.kind.name(), x.durable, x.internal)).collect();
    assert_eq!(
        shown,
        [
            ":direct:truefalse",
            "amq.direct:direct:truefalse",
            "amq.fanout:fanout:truefalse",
            "amq.headers:headers:truefalse",
            "amq.match:headers:truefalse",
            "amq.rabbitmq.trace:topic:truetrue",
            "amq.topic:topic:truefalse",
        ]
    );
    assert!(all.iter().all(|x| !x.auto_delete && x.arguments.is_empty()));
    assert_eq!(Kind::from_name(b"direct"), Some(all[0].kind));
}

#[test]
fn spreading_exchanges_have_rules() {
    let hash = |name: &str, value: Value| exchange_with("h", "x-consistent-hash", "", &[(name, value)]);
    let both = [("hash-header", Value::text("a")), ("hash-property", Value::text("message_id"))];
    check(&[
        (hash("hash-property", Value::text("foo")), "406 PRECONDITION_FAILED - Unsupported property: foo"),
        (
            exchange_with("h", "x-consistent-hash", "", &both),
            "406 PRECONDITION_FAILED - hash-header and hash-property are mutually exclusive",
        ),
        (
            hash("hash-header", int(5)),
            "406 PRECONDITION_FAILED - invalid type 'signedint' for arg 'hash-header'",
        ),
        (hash("hash-header", Value::text("a")), "ok"),
        // Not compared, as in RabbitMQ.
        (hash("hash-header", Value::text("b")), "ok"),
        (queue("q", ""), "ok"),
        (queue_with("quorum", "", &[("x-queue-type", Value::text("quorum"))]), "ok"),
        (bind("h", "q", "a"), "406 PRECONDITION_FAILED - The binding key must be an integer: <<\"a\">>"),
        (bind("h", "q", "2"), "ok"),
        (bind("h", "quorum", "2"), "ok"),
        (exchange("l", "x-local-random", ""), "ok"),
        (bind("l", "q", "a"), "406 PRECONDITION_FAILED - Non empty binding 'a' key not permitted"),
        (bind("l", "q", ""), "ok"),
        (
            bind("l", "quorum", ""),
            "406 PRECONDITION_FAILED - Queue type rabbit_quorum_queue not valid for this exchange type",
        ),
        (link("l", "h", ""), "406 PRECONDITION_FAILED - Destination not found"),
        (exchange_with("r", "x-recent-history", "", &[("x-recent-history-length", int(3))]), "ok"),
        // Not compared, as in RabbitMQ.
        (exchange_with("r", "x-recent-history", "", &[("x-recent-history-length", int(4))]), "ok"),
        (
            exchange_with("s", "x-recent-history", "", &[("x-recent-history-length", int(0))]),
            "406 PRECONDITION_FAILED - Invalid argument 0, 'x-recent-history-length' must be a positive integer",
        ),
        (bind("r", "q", "any"), "ok"),
    ]);
}

#[test]
fn the_event_exchange_comes_with_its_virtual_host() {
    let mut world = World::new();
    let add = |name: &str, tells_events| Op::AddVhost {
        name: name.into(),
        defaults: VhostDefaults { tells_events, ..Default::default() },
    };
    let check = |world: &World, expected: &[&str]| {
        let has = |vhost: &VhostId| world.catalog.exchange(*vhost, b"amq.rabbitmq.event").is_some();
        let names: Vec<&str> =
            world.catalog.vhosts().filter(|vhost| has(&vhost.id)).map(|vhost| &*vhost.name).collect();
        assert_eq!(names, expected);
    };
    check(&world, &[]);
    world.must(&add("a", false));
    check(&world, &[]);
    world.must(&add("b", true));
    check(&world, &["b"]);
    // There is one in all.
    world.must(&add("c", true));
    check(&world, &["b"]);
    world.must(&Op::DeleteVhost { name: "b".into() });
    check(&world, &[]);
    world.must(&add("b", true));
    check(&world, &["b"]);
    // The exchange made next has a number of its own.
    world.must(&exchange("next", "direct", ""));
    assert!(world.catalog.exchange(VhostId(0), b"next").is_some());
    check(&world, &["b"]);
}
