//! Declaring queues. Texts as RabbitMQ 4.3.6 gave them to pika 1.3 for the same declarations.

use super::*;

const LOCKED: &str = "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be \
                      originally declared on another connection or the exclusive property value does not match that \
                      of the original declaration.";

#[test]
fn a_quorum_queue_may_be_declared_as_a_classic_one_where_that_is_relaxed() {
    let mut world = World::new();
    let dead = ("x-dead-letter-exchange", Value::text("amq.fanout"));
    let (quorum, classic) =
        (("x-queue-type", Value::text("quorum")), ("x-queue-type", Value::text("classic")));
    world.must(&queue_with("q", "", &[quorum.clone(), ("x-max-length", int(5)), dead.clone()]));
    let answer = |op: &Op, is_relaxed: bool| {
        let by = guest(1);
        let planned = if is_relaxed {
            world.catalog.plan_relaxed(&by, op, Places::default(), usize::MAX)
        } else {
            world.catalog.plan(&by, op, Places::default())
        };
        match planned {
            Ok(plan) => {
                assert!(plan.changes.is_empty() && plan.queue.is_some_and(|queue| queue.is_quorum()));
                "ok".to_owned()
            }
            Err(refusal) => refusal.to_string(),
        }
    };
    let same = [classic.clone(), ("x-max-length", int(5)), dead.clone()];
    let check = |how, with: &[(&str, Value)], expected: &str| {
        assert_eq!(answer(&queue_with("q", how, with), true), expected, "{how} {with:?}");
    };
    check("", &same, "ok");
    check("", &same[1..], "ok");
    check("transient", &same, "ok");
    check("transient exclusive auto-delete", &same, "ok");
    let more = [("x-max-priority", int(5)), ("x-overflow", Value::text("reject-publish"))];
    check("", &[&same[..], &more].concat(), "ok");
    let named = "for queue 'q' in vhost '/'";
    check(
        "",
        std::slice::from_ref(&classic),
        &format!(
            "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' {named}: received none but current is the value \
         'amq.fanout' of type 'longstr'"
        ),
    );
    check(
        "",
        &[classic, ("x-max-length", int(6)), dead.clone()],
        &format!(
            "PRECONDITION_FAILED - inequivalent arg 'x-max-length' {named}: received '6' but current is '5'"
        ),
    );
    let stream = ("x-queue-type", Value::text("stream"));
    check(
        "",
        &[stream, ("x-max-length", int(5)), dead],
        &format!(
            "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' {named}: received 'stream' but current is 'quorum'"
        ),
    );
    assert!(answer(&queue_with("q", "", &same), false).contains("x-queue-type"));
}

#[test]
fn declared_again_it_must_be_the_same() {
    let (ttl, quorum) = (("x-message-ttl", int(100)), ("x-queue-type", Value::text("quorum")));
    let classic = ("x-queue-type", Value::text("classic"));
    check(&[
        (queue("q", ""), "ok"),
        (queue("q", ""), "ok"),
        (
            queue("q", "transient"),
            "406 PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            queue("q", "auto-delete"),
            "406 PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ),
        (queue("q", "exclusive"), LOCKED),
        (queue_with("q", "transient auto-delete exclusive", std::slice::from_ref(&ttl)), LOCKED),
        (
            queue_with("q", "", std::slice::from_ref(&ttl)),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received the value '100' of type 'signedint' but current is none",
        ),
        (
            queue_with("q", "", std::slice::from_ref(&quorum)),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received 'quorum' but current is 'classic'",
        ),
        (
            queue_with("q", "", &[("x-queue-type", Value::text("nope"))]),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received 'nope' but current is 'classic'",
        ),
        (
            queue_with("q", "", &[quorum.clone(), ("x-single-active-consumer", Value::Bool(true))]),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-single-active-consumer' for queue 'q' in vhost '/': received the value 'true' of type 'bool' but current is none",
        ),
        (
            queue_with("q", "", &[quorum.clone(), ("x-queue-leader-locator", Value::text("client-local"))]),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received 'quorum' but current is 'classic'",
        ),
        (queue_with("q", "", &[classic]), "ok"),
        (queue_with("q", "", &[("x-foo", Value::text("bar"))]), "ok"),
        (queue_with("q", "passive transient", std::slice::from_ref(&quorum)), "ok"),
        (queue_with("k", "", std::slice::from_ref(&quorum)), "ok"),
        (
            queue("k", ""),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'k' in vhost '/': received 'classic' but current is 'quorum'",
        ),
        (queue_with("v", "", &[("x-queue-version", int(2))]), "ok"),
        (
            queue("v", ""),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-queue-version' for queue 'v' in vhost '/': received none but current is the value '2' of type 'signedint'",
        ),
        (queue_with("v", "", &[("x-queue-version", Value::long(2))]), "ok"),
        (
            queue_with("v", "", &[("x-queue-version", Value::text("2"))]),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-queue-version' for queue 'v' in vhost '/': received '2' but current is '2'",
        ),
    ]);
}

#[test]
fn names_have_rules() {
    check(&[
        (queue("nope", "passive"), "404 NOT_FOUND - no queue 'nope' in vhost '/'"),
        (queue("", "passive"), "404 NOT_FOUND - no queue '' in vhost '/'"),
        (queue("amq.foo", ""), "403 ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'"),
        (queue("amq.foo", "passive"), "404 NOT_FOUND - no queue 'amq.foo' in vhost '/'"),
        (queue(&"q".repeat(255), ""), "ok"),
        (queue(&"q".repeat(256), ""), "406 PRECONDITION_FAILED - queue name is longer than 255 bytes"),
        (queue("q\r\n2", ""), "ok"),
        (queue("q2", "passive"), "ok"),
        (queue("", "exclusive"), "ok"),
        // Also when it is the connection's own.
        (
            queue("amq.gen-CQkJCQkJCQkJCQkJCQkJCQ", "exclusive"),
            "403 ACCESS_REFUSED - queue name 'amq.gen-CQkJCQkJCQkJCQkJCQkJCQ' contains reserved prefix 'amq.*'",
        ),
        (queue("amq.gen-CQkJCQkJCQkJCQkJCQkJCQ", "passive"), "ok"),
        // Only the server knows the dice that such a name ends in.
        (queue("amq.dyn-link-CQkJCQkJCQkJCQkJCQkJCQ", "exclusive"), "ok"),
        (
            queue("amq.dyn-link-AQkJCQkJCQkJCQkJCQkJCQ", "exclusive"),
            "403 ACCESS_REFUSED - queue name 'amq.dyn-link-AQkJCQkJCQkJCQkJCQkJCQ' contains reserved prefix 'amq.*'",
        ),
    ]);
}

#[test]
fn quorum_queues_are_durable_and_shared() {
    let declare = |name: &str, how: &str| queue_with(name, how, &[("x-queue-type", Value::text("quorum"))]);
    let property = |property: &str| {
        format!("406 PRECONDITION_FAILED - invalid property '{property}' for queue 'q' in vhost '/'")
    };
    check(&[
        (declare("q", "transient"), &property("non-durable")),
        (declare("q", "exclusive"), &property("exclusive-owner")),
        (declare("q", "auto-delete"), &property("auto-delete")),
        (declare("q", "auto-delete exclusive transient"), &property("auto-delete")),
        (
            declare("", ""),
            "406 PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue",
        ),
        (declare("q", ""), "ok"),
    ]);
}

/// The answer to a declaration of queue `q` with one argument: the part of the text that is about it.
fn check_argument(of_type: &str, name: &str, value: Value, expected: &str) {
    let with = [("x-queue-type", Value::text(of_type)), (name, value.clone())];
    let answer = World::new().wish(&queue_with("q", "", &with));
    let invalid = format!("406 PRECONDITION_FAILED - invalid arg '{name}' for queue 'q' in vhost '/'");
    let expected = match expected {
        "ok" => "ok".to_owned(),
        "not served" => {
            format!(
                "540 NOT_IMPLEMENTED - arg '{name}' with value '{value}' for queue 'q' in vhost '/' is not served"
            )
        }
        "of queue type" => format!("{invalid} of queue type rabbit_{of_type}_queue"),
        why => format!("{invalid}: {why}"),
    };
    assert_eq!(answer, expected, "{of_type} {name} {value:?}");
}

#[test]
fn arguments_are_checked_one_by_one() {
    let text = Value::text;
    let integer = "\"expected integer, got longstr\"";
    let rows = [
        ("cq", "x-expires", int(0), "{value_zero,0}"),
        ("cq", "x-expires", int(-1), "{value_negative,-1}"),
        ("cq", "x-expires", text("a"), integer),
        ("cq", "x-expires", Value::Bool(true), "\"expected integer, got bool\""),
        ("cq", "x-expires", Value::Void, "\"expected integer, got void\""),
        ("cq", "x-expires", Value::long(315_360_000_001), "{value_too_large,315360000001}"),
        ("cq", "x-expires", Value::long(315_360_000_000), "ok"),
        ("cq", "x-message-ttl", int(-1), "{value_negative,-1}"),
        ("cq", "x-message-ttl", Value::long(315_360_000_001), "{value_too_large,315360000001}"),
        ("cq", "x-message-ttl", int(0), "ok"),
        ("cq", "x-max-length", int(-1), "{value_negative,-1}"),
        ("cq", "x-max-length", text("a"), integer),
        ("cq", "x-max-length", int(0), "ok"),
        ("cq", "x-max-length-bytes", int(-1), "{value_negative,-1}"),
        ("cq", "x-max-length-bytes", int(5), "ok"),
        ("c", "x-max-priority", int(-1), "{value_negative,-1}"),
        ("c", "x-max-priority", int(256), "{max_value_exceeded,256}"),
        ("c", "x-max-priority", int(255), "ok"),
        ("q", "x-max-priority", text("a"), "of queue type"),
        ("cq", "x-dead-letter-exchange", text(""), "ok"),
        ("cq", "x-dead-letter-routing-key", int(5), "{unacceptable_type,signedint}"),
        ("cq", "x-dead-letter-routing-key", text("k"), "routing_key_but_no_dlx_defined"),
        ("q", "x-dead-letter-strategy", text("foo"), "invalid_dlx_strategy"),
        ("q", "x-dead-letter-strategy", text("at-least-once"), "ok"),
        ("c", "x-dead-letter-strategy", text("foo"), "of queue type"),
        ("cq", "x-overflow", text("foo"), "invalid_overflow"),
        ("cq", "x-overflow", int(5), "{unacceptable_type,signedint}"),
        ("cq", "x-overflow", text("reject-publish"), "ok"),
        ("c", "x-queue-mode", int(5), "ok"),
        ("q", "x-queue-mode", text("lazy"), "of queue type"),
        ("c", "x-queue-version", int(1), "\"unsupported queue version '1'\""),
        ("c", "x-queue-version", int(-1), "{value_negative,-1}"),
        ("c", "x-queue-version", text("a"), integer),
        ("c", "x-queue-version", int(2), "ok"),
        ("cq", "x-single-active-consumer", text("a"), "{unacceptable_type,longstr}"),
        ("cq", "x-single-active-consumer", Value::Bool(true), "ok"),
        ("cq", "x-single-active-consumer", Value::Bool(false), "ok"),
        ("c", "x-delivery-limit", int(3), "of queue type"),
        ("q", "x-delivery-limit", int(3), "ok"),
        ("q", "x-delivery-limit", int(-1), "ok"),
        ("c", "x-cancel-limit", int(3), "of queue type"),
        ("q", "x-cancel-limit", int(-1), "{value_negative,-1}"),
        ("q", "x-cancel-limit", text("3"), integer),
        ("q", "x-cancel-limit", int(0), "ok"),
        ("cq", "x-fairness", text("lazy"), "invalid_fairness"),
        ("cq", "x-fairness", int(5), "{unacceptable_type,signedint}"),
        ("cq", "x-fairness", text("round-robin"), "ok"),
        ("cq", "x-fairness", text("proportional"), "ok"),
        ("cq", "x-fairness", text("fast"), "ok"),
        ("cq", "x-max-unsettled", int(0), "{value_zero,0}"),
        ("cq", "x-max-unsettled", int(-1), "{value_negative,-1}"),
        ("cq", "x-max-unsettled", text("a"), integer),
        ("cq", "x-max-unsettled", int(1), "ok"),
        ("cq", "x-lease", int(0), "{value_zero,0}"),
        ("cq", "x-lease", int(-1), "{value_negative,-1}"),
        ("cq", "x-lease", int(99), "{value_too_small,99}"),
        ("cq", "x-lease", int(315_360_000_001), "{value_too_large,315360000001}"),
        ("cq", "x-lease", text("1000"), integer),
        ("cq", "x-lease", int(100), "ok"),
        ("q", "x-quorum-initial-group-size", int(0), "{value_zero,0}"),
        ("q", "x-quorum-initial-group-size", int(3), "ok"),
        ("cq", "x-queue-leader-locator", text("foo"), "invalid_queue_locator_arg"),
        ("cq", "x-queue-leader-locator", int(5), "{unacceptable_type,signedint}"),
        ("cq", "x-queue-leader-locator", text("least-leaders"), "ok"),
        ("cq", "x-max-age", text("1D"), "of queue type"),
        ("q", "x-queue-master-locator", text("min-masters"), "of queue type"),
        ("q", "x-consumer-timeout", int(-1), "{value_negative,-1}"),
        ("q", "x-consumer-timeout", int(1000), "ok"),
        ("c", "x-consumer-timeout", int(1000), "of queue type"),
        ("c", "x-delayed-retry-type", text("all"), "of queue type"),
        ("q", "x-delayed-retry-type", text("all"), "ok"),
        ("q", "x-delayed-retry-type", int(5), "ok"),
        ("cq", "x-foo", text("bar"), "ok"),
        ("cq", "x-quorum-target-group-size", text("a"), "ok"),
    ];
    for (types, name, value, expected) in rows {
        for of_type in types.chars() {
            let of_type = if of_type == 'c' { "classic" } else { "quorum" };
            check_argument(of_type, name, value.clone(), expected);
        }
    }
}

#[test]
fn types_are_classic_quorum_and_stream() {
    let of = |value: Value| queue_with("q", "", &[("x-queue-type", value)]);
    let invalid = |why: &str| {
        format!("406 PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 'q' in vhost '/': {why}")
    };
    check(&[
        (of(Value::text("nope")), &invalid("\"unsupported queue type 'nope'\"")),
        (of(int(5)), &invalid("{unacceptable_type,signedint}")),
        (of(Value::Void), &invalid("{unacceptable_type,void}")),
        (of(Value::text("stream")), "ok"),
        (
            of(Value::text("")),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received 'classic' but current is 'stream'",
        ),
    ]);
}

#[test]
fn streams_have_arguments_of_their_own() {
    let of = |flags: &str, more: &[(&str, Value)]| {
        let stream = ("x-queue-type", Value::text("stream"));
        let all: Vec<_> = std::iter::once(stream).chain(more.iter().cloned()).collect();
        queue_with("q", flags, &all)
    };
    let one = |name: &'static str, value: Value| of("", &[(name, value)]);
    let invalid = |name: &str, why: &str| {
        format!("406 PRECONDITION_FAILED - invalid arg '{name}' for queue 'q' in vhost '/'{why}")
    };
    let refused = [
        (one("x-max-age", Value::text("abc")), invalid("x-max-age", ": invalid_max_age")),
        (one("x-max-age", Value::text("0s")), invalid("x-max-age", ": invalid_max_age")),
        (one("x-max-age", int(5)), invalid("x-max-age", ": {unacceptable_type,signedint}")),
        (one("x-max-length-bytes", int(-1)), invalid("x-max-length-bytes", ": {value_negative,-1}")),
        (one("x-initial-cluster-size", int(0)), invalid("x-initial-cluster-size", ": {value_zero,0}")),
        (one("x-max-length", int(5)), invalid("x-max-length", " of queue type rabbit_stream_queue")),
        (one("x-message-ttl", int(5)), invalid("x-message-ttl", " of queue type rabbit_stream_queue")),
        (one("x-fairness", Value::text("fast")), invalid("x-fairness", " of queue type rabbit_stream_queue")),
        (one("x-max-unsettled", int(5)), invalid("x-max-unsettled", " of queue type rabbit_stream_queue")),
        (one("x-lease", int(500)), invalid("x-lease", " of queue type rabbit_stream_queue")),
        (one("x-cancel-limit", int(5)), invalid("x-cancel-limit", " of queue type rabbit_stream_queue")),
        (
            one("x-stream-max-segment-size-bytes", Value::long(3_000_000_001)),
            "406 PRECONDITION_FAILED - Exceeded max value for x-stream-max-segment-size-bytes".to_owned(),
        ),
        (
            one("x-stream-filter-size-bytes", int(15)),
            "406 PRECONDITION_FAILED - Invalid value for x-stream-filter-size-bytes".to_owned(),
        ),
        (
            of("transient", &[]),
            "406 PRECONDITION_FAILED - invalid property 'non-durable' for queue 'q' in vhost '/'".to_owned(),
        ),
        (
            of("exclusive", &[]),
            "406 PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue 'q' in vhost '/'"
                .to_owned(),
        ),
        (
            of("auto-delete", &[]),
            "406 PRECONDITION_FAILED - invalid property 'auto-delete' for queue 'q' in vhost '/'".to_owned(),
        ),
    ];
    let refused: Vec<_> = refused.iter().map(|(op, answer)| (op.clone(), &**answer)).collect();
    check(&refused);
    let hour = [("x-max-age", Value::text("1h")), ("x-max-length-bytes", int(1000))];
    let minutes = [("x-max-age", Value::text("60m")), ("x-max-length-bytes", int(1000))];
    let day = [("x-max-age", Value::text("1D")), ("x-max-length-bytes", int(1000))];
    check(&[
        (of("", &hour), "ok"),
        (of("", &minutes), "ok"),
        (
            of("", &day),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-max-age' for queue 'q' in vhost '/': received '86400000' but current is '3600000'",
        ),
        (
            of("", &hour[1..]),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-max-age' for queue 'q' in vhost '/': received none but current is the value '3600000' of type 'longstr'",
        ),
    ]);
}

#[test]
fn of_many_wrong_arguments_the_first_in_turn_is_named() {
    // All wrong at once; each in turn was put right. RabbitMQ names those of the type in its own order, then those of
    // other types in the order they came (here: sorted, since a table has no order), then the properties.
    let mut wrong: Vec<(&str, Value)> = vec![
        ("x-expires", Value::text("a")),
        ("x-message-ttl", Value::text("a")),
        ("x-dead-letter-exchange", int(5)),
        ("x-dead-letter-routing-key", int(5)),
        ("x-max-length", Value::text("a")),
        ("x-overflow", Value::text("a")),
        ("x-single-active-consumer", int(5)),
        ("x-queue-leader-locator", Value::text("a")),
        ("x-max-age", int(5)),
        ("x-max-priority", Value::text("a")),
        ("x-queue-mode", int(5)),
    ];
    let order = [
        "x-dead-letter-exchange",
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-overflow",
        "x-single-active-consumer",
        "x-queue-leader-locator",
        "x-max-age",
        "x-max-priority",
        "x-queue-mode",
    ];
    let mut world = World::new();
    for name in order {
        let mut with = wrong.clone();
        with.push(("x-queue-type", Value::text("quorum")));
        let answer = world.wish(&queue_with("q", "exclusive auto-delete", &with));
        assert!(answer.contains(&format!("arg '{name}' ")), "{name}: {answer}");
        wrong.retain(|(own, _)| *own != name);
    }
    let with = [("x-queue-type", Value::text("quorum"))];
    let answer = world.wish(&queue_with("q", "exclusive auto-delete", &with));
    assert!(answer.contains("invalid property 'auto-delete'"), "{answer}");
}

#[test]
fn exclusive_queues_belong_to_their_connection() {
    let (own, other) = (guest(1), guest(2));
    let mut world = World::new();
    world.must(&exchange("x", "direct", ""));
    assert_eq!(world.wish_of(&own, &queue("q", "exclusive")), "ok");
    assert!(!world.queue("q").is_recorded(), "an exclusive queue goes with its connection");
    let rows = [
        (&own, queue("q", "exclusive"), "ok"),
        (
            &own,
            queue("q", "exclusive transient"),
            "406 PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but \
             current is 'true'",
        ),
        (&own, queue("q", ""), LOCKED),
        (&own, queue("q", "passive"), "ok"),
        (&other, queue("q", "exclusive"), LOCKED),
        (&other, queue("q", ""), LOCKED),
        (&other, queue("q", "passive"), LOCKED),
        (&other, bind("x", "q", "k"), LOCKED),
        (&other, bind("nope", "q", "k"), "404 NOT_FOUND - no exchange 'nope' in vhost '/'"),
        (&other, unbind("x", "q", "k"), "ok"),
        (&own, bind("x", "q", "k"), "ok"),
        (&other, unbind("x", "q", "k"), LOCKED),
    ];
    for (by, op, expected) in rows {
        assert_eq!(world.wish_of(by, &op), expected, "{op:?}");
    }
    let id = world.queue("q").id;
    assert_eq!(world.wish_of(&other, &Op::DeleteQueue { id }), LOCKED);
    let mut cache = AccessCache::new(other.clone());
    let refusal = cache.queue(&world.catalog, Access::Read, "q").unwrap_err();
    assert_eq!(format!("{} {refusal}", refusal.code.number()), LOCKED);
    let mut cache = AccessCache::new(own.clone());
    assert_eq!(cache.queue(&world.catalog, Access::Read, "q").unwrap().id, id);

    world.must(&queue("kept", ""));
    assert_eq!(world.wish_of(&own, &queue("q3", "exclusive")), "ok");
    assert_eq!(
        world.wish_of(&Actor::internal(VhostId(0), port(2)), &Op::DeleteExclusive { port: port(2) }),
        "ok"
    );
    assert_eq!(world.catalog.queue_count(), 3);
    assert_eq!(
        world.wish_of(&Actor::internal(VhostId(0), port(1)), &Op::DeleteExclusive { port: port(1) }),
        "ok"
    );
    assert_eq!(world.catalog.queue_count(), 1);
    assert!(world.catalog.exclusive.is_empty() && world.routed("x", "k").is_empty());
}

#[test]
fn queue_numbers_are_not_given_out_again() {
    let mut world = World::new();
    for round in 0..3000u64 {
        let plan = world.catalog.plan(&guest(1), &queue("t", "transient"), Places::default()).unwrap();
        let reserves = plan.changes.iter().filter(|change| matches!(change, Change::ReserveQueueIds { .. }));
        assert_eq!(reserves.count(), usize::from(round % 1024 == 0));
        plan.changes.iter().for_each(|change| drop(world.catalog.apply(change)));
        let id = plan.queue.unwrap().id;
        assert_eq!(id, QueueId(round));
        world.must(&Op::DeleteQueue { id });
    }
    // After a restart nothing tells which of the reserved numbers were used.
    let mut bytes = Vec::new();
    world.catalog.write_snapshot(&mut bytes);
    world.catalog = Catalog::read_snapshot(&bytes).unwrap();
    world.must(&queue("q", ""));
    assert_eq!(world.queue("q").id, QueueId(3072));
}

#[test]
fn a_virtual_host_has_a_type_for_queues_without_one() {
    let mut world = World::new();
    let queue_type = QueueType::Quorum;
    world.must(&Op::AddVhost {
        name: "v".into(),
        defaults: VhostDefaults { queue_type, ..Default::default() },
    });
    let mut by = guest(1);
    by.vhost = world.catalog.vhost("v").unwrap();
    let of_type = |name| [("x-queue-type", Value::text(name))];
    let (classic, quorum, empty) = (of_type("classic"), of_type("quorum"), of_type(""));
    let differs = |name: &str, received: &str, current: &str| {
        format!(
            "406 PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '{name}' in vhost 'v': received \
             '{received}' but current is '{current}'"
        )
    };
    // Each with what is answered, and the type that the queue of this name has then.
    let rows = [
        (queue("q", ""), "ok".to_owned(), "quorum"),
        (queue("q", ""), "ok".to_owned(), "quorum"),
        (queue_with("q", "", &quorum), "ok".to_owned(), "quorum"),
        (queue_with("q", "", &empty), "ok".to_owned(), "quorum"),
        (queue_with("q", "", &classic), differs("q", "classic", "quorum"), "quorum"),
        (queue_with("c", "", &classic), "ok".to_owned(), "classic"),
        (queue("c", ""), differs("c", "quorum", "classic"), "classic"),
        // A classic queue can be some things that a quorum queue cannot.
        (queue("a", "auto-delete"), "ok".to_owned(), "classic"),
        (queue("a", "auto-delete"), "ok".to_owned(), "classic"),
        (queue("e", "exclusive"), "ok".to_owned(), "classic"),
        (queue("t", "transient"), "ok".to_owned(), "classic"),
    ];
    for (op, expected, of_type) in rows {
        assert_eq!(world.wish_of(&by, &op), expected, "{op:?}");
        let Op::DeclareQueue { name, .. } = &op else { unreachable!() };
        let queue = world.catalog.queue_by_name(by.vhost, name.as_bytes()).unwrap();
        assert_eq!(queue.queue_type.name(), of_type, "{op:?}");
    }
    let refused =
        "406 PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue";
    assert_eq!(world.wish_of(&by, &queue("", "")), refused);
    assert_eq!(world.wish_of(&by, &queue("", "exclusive")), "ok");
}

#[test]
fn a_super_stream_is_made_whole_or_not_at_all() {
    let mut world = World::new();
    let make = |name: &str, count: usize| Op::MakeSuperStream {
        name: name.into(),
        partitions: (0..count).map(|n| (format!("{name}-{n}").into(), n.to_string().into())).collect(),
        arguments: [(&b"x-queue-type"[..], Value::text("stream"))].into_iter().collect(),
    };
    let limits = VhostLimits { queues_max: Some(2), ..VhostLimits::default() };
    world.must(&Op::SetVhostLimits { vhost: "/".into(), limits });
    let refused = world.wish(&make("a", 3));
    assert!(refused.contains("cannot declare queue 'a-2'"), "{refused}");
    assert!(world.catalog.exchange(VhostId(0), b"a").is_none() && world.catalog.queue_count() == 0);
    world.must(&make("a", 2));
    assert_eq!((world.routed("a", "0"), world.routed("a", "1")), ("a-0".to_owned(), "a-1".to_owned()));
    world.must(&Op::SetVhostLimits { vhost: "/".into(), limits: VhostLimits::default() });
    // More than are reserved at once.
    world.must(&make("b", 3000));
    assert_eq!((world.catalog.queue_count(), world.routed("b", "2999")), (3002, "b-2999".to_owned()));
    assert!(world.catalog.next_queue <= world.catalog.reserved_queues);
    world.must(&make("a", 5));
    assert_eq!(world.catalog.queue_count(), 3002, "what is there stays as it is");
}

#[test]
fn of_several_rules_a_declaration_breaks_the_first_is_named() {
    let mut world = World::new();
    let limits = VhostLimits { queues_max: Some(0), ..VhostLimits::default() };
    world.must(&Op::SetVhostLimits { vhost: "/".into(), limits });
    let dead = ("x-dead-letter-exchange", int(5));
    let (bad, quorum) = (("x-max-length", int(-1)), ("x-queue-type", Value::text("quorum")));
    let unknown = ("x-queue-type", Value::text("zz"));
    let all = [dead, bad, unknown, quorum];
    let [dead, bad, unknown, quorum] = all.each_ref().map(std::slice::from_ref);
    // In turn: the server's name, the dead-letter exchange, the type, the arguments, the limit, the properties.
    let rows = [
        (
            queue_with("", "", &[&all[1..2], quorum].concat()),
            "Cannot declare a server-named queue for type rabbit_quorum_queue",
        ),
        (queue_with("", "", unknown), "unknown queue type 'zz'"),
        (
            queue_with("x", "", &[dead, bad].concat()),
            "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'x' in vhost '/'",
        ),
        (
            queue_with("x", "", &[bad, unknown].concat()),
            "invalid arg 'x-queue-type' for queue 'x' in vhost '/': \"unsupported queue type 'zz'\"",
        ),
        (
            queue_with("x", "", bad),
            "invalid arg 'x-max-length' for queue 'x' in vhost '/': {value_negative,-1}",
        ),
        (
            queue_with("x", "exclusive", quorum),
            "cannot declare queue 'x': queue limit in vhost '/' (0) is reached",
        ),
    ];
    for (op, expected) in rows {
        assert_eq!(world.wish(&op), format!("406 PRECONDITION_FAILED - {expected}"), "{op:?}");
    }
}

#[test]
fn who_declared_a_queue_is_known_and_named_once() {
    let mut world = World::new();
    let by = |user: &str| Actor { user: user.into(), is_internal: true, ..guest(1) };
    for (name, user) in [("a", "guest"), ("b", "guest"), ("c", "gone"), ("d", "gone"), ("e", "")] {
        assert_eq!(world.wish_of(&by(user), &queue(name, "")), "ok");
    }
    // A user that declares an existing queue again is not its declarer.
    assert_eq!(world.wish_of(&by("gone"), &queue("a", "")), "ok");
    let mut snapshot = Vec::new();
    world.catalog.write_snapshot(&mut snapshot);
    let restored = World { catalog: Catalog::read_snapshot(&snapshot).unwrap() };
    for world in [&world, &restored] {
        let declared_by = |name: &str| world.queue(name).declared_by.clone();
        let names = ["a", "b", "c", "d", "e"].map(declared_by);
        let expected = [Some("guest"), Some("guest"), Some("gone"), Some("gone"), None];
        assert_eq!(names.each_ref().map(|name| name.as_deref()), expected);
        let [a, b, c, d, _] = names.map(|name| name.unwrap_or_default());
        let (guest, _) = world.catalog.users.get_key_value("guest").unwrap();
        assert!(Arc::ptr_eq(&a, &b) && Arc::ptr_eq(&a, guest) && Arc::ptr_eq(&c, &d));
    }
    // A declaration stays its user's when the user is gone, until the last of them is.
    world.must(&Op::DeleteUser { name: "guest".into() });
    assert_eq!(world.catalog.declarers.counts().len(), 2);
    for name in ["a", "b", "c"] {
        let id = world.queue(name).id;
        assert_eq!(world.wish_of(&by(""), &Op::DeleteQueue { id }), "ok");
    }
    assert_eq!(world.catalog.declarers.counts(), [("gone".into(), 1)].into_iter().collect());
}

#[test]
fn who_declared_an_exchange_is_known_and_named_once() {
    let mut world = World::new();
    let by = |user: &str| Actor { user: user.into(), is_internal: true, ..guest(1) };
    for (name, user) in [("a", "guest"), ("b", "gone"), ("c", "gone"), ("d", "")] {
        assert_eq!(world.wish_of(&by(user), &exchange(name, "topic", "d")), "ok");
    }
    assert_eq!(world.wish_of(&by("gone"), &queue("q", "")), "ok");
    // A user that declares an existing exchange again is not its declarer.
    assert_eq!(world.wish_of(&by("gone"), &exchange("a", "topic", "d")), "ok");
    let mut snapshot = Vec::new();
    world.catalog.write_snapshot(&mut snapshot);
    let restored = World { catalog: Catalog::read_snapshot(&snapshot).unwrap() };
    for world in [&world, &restored] {
        let declared_by = |name: &str| {
            let found = world.catalog.exchange(VhostId(0), name.as_bytes()).unwrap();
            found.definition.declared_by.clone()
        };
        let names = ["a", "b", "c", "d", "amq.topic", ""].map(declared_by);
        let expected = [Some("guest"), Some("gone"), Some("gone"), None, None, None];
        assert_eq!(names.each_ref().map(|name| name.as_deref()), expected);
        let [a, b, c, ..] = names.map(|name| name.unwrap_or_default());
        let (guest, _) = world.catalog.users.get_key_value("guest").unwrap();
        assert!(Arc::ptr_eq(&a, guest) && Arc::ptr_eq(&b, &c));
        assert!(Arc::ptr_eq(&b, world.queue("q").declared_by.as_ref().unwrap()));
    }
    for name in ["b", "c"] {
        let delete = Op::DeleteExchange { name: name.into(), if_unused: false };
        assert_eq!(world.wish_of(&by(""), &delete), "ok");
    }
    assert_eq!(
        world.catalog.declarers.counts(),
        [("gone".into(), 1), ("guest".into(), 1)].into_iter().collect()
    );
}

#[test]
fn which_queues_came_and_went_is_known() {
    let mut world = World::new();
    let before = world.catalog.queues_version();
    let vhost = Op::AddVhost { name: "v".into(), defaults: VhostDefaults::default() };
    world.must(&vhost);
    let other = Actor { vhost: world.catalog.vhost("v").unwrap(), is_internal: true, ..guest(1) };
    for (by, name) in [(guest(1), "a"), (guest(1), "b"), (other, "c")] {
        assert_eq!(world.wish_of(&by, &queue(name, "")), "ok");
    }
    // Neither what was there already nor what is refused is a change.
    world.must(&queue("a", ""));
    let id = world.queue("a").id;
    world.must(&Op::DeleteQueue { id });
    world.must(&Op::DeleteVhost { name: "v".into() });
    let told = |known: u64| -> Option<Vec<String>> {
        let changes = world.catalog.queues_since(known)?.map(|change| match change {
            QueueChange::Came(queue) => format!("+{}", queue.name),
            QueueChange::Went(queue) => format!("-{}", queue.name),
        });
        Some(changes.collect())
    };
    assert_eq!(told(before).unwrap(), ["+a", "+b", "+c", "-a", "-c"]);
    assert_eq!(told(before + 4).unwrap(), ["-c"]);
    assert_eq!(world.catalog.queues_version(), before + 5);
}
