//! Setting and clearing policies, and what they change.

use super::*;

pub(super) fn policy(name: &str, pattern: &str, priority: i64) -> Op {
    let definition =
        [("overflow", Value::text("reject-publish")), ("alternate-exchange", Value::text("amq.fanout"))];
    set(PolicyKind::User, name, pattern, "all", priority, &definition)
}

pub(super) fn clear(name: &str) -> Op {
    Op::ClearPolicy { kind: PolicyKind::User, vhost: "/".into(), name: name.into() }
}

fn set(
    kind: PolicyKind,
    name: &str,
    pattern: &str,
    apply_to: &str,
    priority: i64,
    definition: &[(&str, Value)],
) -> Op {
    let (vhost, name) = ("/".into(), name.into());
    let (pattern, apply_to) = (pattern.into(), apply_to.into());
    Op::SetPolicy { kind, vhost, name, pattern, apply_to, priority, definition: arguments(definition) }
}

fn overflow(name: &str, pattern: &str, apply_to: &str, word: &str) -> Op {
    set(PolicyKind::User, name, pattern, apply_to, 0, &[("overflow", Value::text(word))])
}

/// Plans and applies; the names of the queues whose rules changed.
fn changed(world: &mut World, op: &Op) -> String {
    let plan = world.catalog.plan(&guest(1), op, Places::default()).unwrap();
    let applied: Vec<_> = plan.changes.iter().flat_map(|change| world.catalog.apply(change)).collect();
    assert!(applied.is_empty(), "queues go by the policies that they had");
    let names = settle(&mut world.catalog).into_iter().map(|applied| match applied {
        Applied::RulesChanged(queue) => queue.name.to_string(),
        other => panic!("{other:?}"),
    });
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_no_policy_is_refused_in_rabbitmqs_words() {
    let bad = "406 PRECONDITION_FAILED - Validation failed\n\n";
    let one = || [("max-length", Value::long(-5))];
    let units = |text: &str| format!("{bad}{text}\n");
    let apply_to = "apply-to 'zz' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', \
                    'streams', 'exchanges', or 'all'";
    check(&[
        (overflow("p", "^a", "all", "x"), &units("<<\"x\">> is not a valid overflow value")),
        (overflow("p", "^a", "zz", "drop-head"), &units(apply_to)),
        (set(PolicyKind::User, "p", "^a", "all", 0, &[]), &units("no policy provided")),
        (
            set(PolicyKind::User, "p", "^a", "zz", 0, &one()),
            &units(&format!("-5 is not a valid maximum length\n{apply_to}")),
        ),
        (
            set(PolicyKind::Operator, "p", "^a", "all", 0, &[("alternate-exchange", Value::text("x"))]),
            &units("[{<<\"alternate-exchange\">>,<<\"x\">>}] are not recognised policy settings"),
        ),
        (clear("p"), "404 NOT_FOUND - Parameter does not exist"),
        (overflow("p", "^a", "all", "drop-head"), "ok"),
        (overflow("p", "^b", "streams", "drop-head"), "ok"),
        (clear("p"), "ok"),
        (clear("p"), "404 NOT_FOUND - Parameter does not exist"),
    ]);
    let mut world = World::new();
    let refused = world.wish(&overflow("p", "(", "all", "drop-head"));
    assert!(
        refused.starts_with(&format!("{bad}pattern should be regular expression but is invalid: ")),
        "{refused}"
    );
    let elsewhere = Op::ClearPolicy { kind: PolicyKind::User, vhost: "zz".into(), name: "p".into() };
    assert_eq!(world.wish(&elsewhere), "404 NOT_FOUND - Parameter does not exist");
}

#[test]
fn who_may_set_policies() {
    let mut world = World::new();
    let add = |tags: &[&str]| Op::AddUser {
        name: tags[0].into(),
        password: None,
        tags: tags.iter().map(|tag| (*tag).into()).collect(),
    };
    for tags in [["policymaker"], ["management"]] {
        world.must(&add(&tags));
    }
    let mut wish = |user: &str, kind| {
        let by = Actor { user: user.into(), ..guest(1) };
        world.wish_of(&by, &set(kind, "p", "", "all", 0, &[("overflow", Value::text("drop-head"))]))
    };
    assert_eq!(wish("policymaker", PolicyKind::User), "ok");
    assert_eq!(
        wish("policymaker", PolicyKind::Operator),
        "403 ACCESS_REFUSED - user 'policymaker' is not an administrator"
    );
    assert_eq!(
        wish("management", PolicyKind::User),
        "403 ACCESS_REFUSED - user 'management' is not an administrator"
    );
    assert_eq!(wish("guest", PolicyKind::Operator), "ok");
}

#[test]
fn patterns_that_look_around_are_for_administrators() {
    let mut world = World::new();
    let tags = vec!["policymaker".into()];
    world.must(&Op::AddUser { name: "policymaker".into(), password: None, tags });
    let mut wish = |user: &str, pattern: &str| {
        let by = Actor { user: user.into(), ..guest(1) };
        world.wish_of(&by, &overflow("p", pattern, "all", "drop-head"))
    };
    let refused = "403 ACCESS_REFUSED - user 'policymaker' is not an administrator";
    for (pattern, expected) in [
        ("^a", "ok"),
        (r"^\p{L}", "ok"),
        (r"^(?!amq\.).*", refused),
        ("(?<=a)b", refused),
        (r"(a)\1", refused),
        ("(?>a)", refused),
        ("a++", refused),
    ] {
        assert_eq!(wish("policymaker", pattern), expected, "{pattern}");
        assert_eq!(wish("guest", pattern), "ok", "{pattern}");
    }
}

#[test]
fn queues_whose_rules_change_are_told_of() {
    let mut world = World::new();
    let with = |word: &str| [("x-overflow", Value::text(word))];
    world.must(&queue("a1", ""));
    world.must(&queue_with("a2", "", &with("reject-publish")));
    world.must(&queue_with("a3", "", &[("x-queue-type", Value::text("quorum"))]));
    world.must(&queue("b", ""));
    let world = &mut world;
    assert_eq!(changed(world, &overflow("p", "^a", "queues", "reject-publish")), "a1 a3");
    // The same again, another that counts less, one that says the same: nothing changes.
    assert_eq!(changed(world, &overflow("p", "^a", "queues", "reject-publish")), "");
    assert_eq!(changed(world, &overflow("z", "^a", "queues", "drop-head")), "");
    assert_eq!(changed(world, &overflow("o", "^a", "queues", "reject-publish")), "");
    assert_eq!(changed(world, &clear("o")), "");
    assert_eq!(changed(world, &overflow("p", "^a", "quorum_queues", "reject-publish")), "a1");
    assert_eq!(changed(world, &overflow("p", "b", "classic_queues", "reject-publish")), "a3 b");
    assert_eq!(changed(world, &clear("p")), "b");
    // An operator's counts more.
    assert_eq!(changed(world, &overflow("p", "^a1", "all", "reject-publish")), "a1");
    let word = [("overflow", Value::text("drop-head"))];
    assert_eq!(changed(world, &set(PolicyKind::Operator, "p", "", "all", 0, &word)), "a1");
    let limit = [("delivery-limit", Value::long(-1))];
    assert_eq!(changed(world, &set(PolicyKind::User, "q", "", "all", 9, &limit)), "a3");
    let rules = world.catalog.rules(world.queue("a3"));
    assert_eq!((rules.delivery_limit, rules.overflow), (None, Overflow::DropHead));
    let both = world.catalog.queue_policies(world.queue("a3"));
    assert_eq!(both.definition(), arguments(&[limit[0].clone(), word[0].clone()]));
    assert_eq!(both.user.map(|policy| &*policy.name), Some("q"));
}

#[test]
fn an_alternate_exchange_comes_and_goes() {
    let mut world = World::new();
    for op in [
        queue("q", ""),
        queue("own", ""),
        bind("amq.fanout", "q", ""),
        exchange("x", "direct", ""),
        exchange("other", "fanout", ""),
        bind("other", "own", ""),
        exchange_with("y", "direct", "", &[("alternate-exchange", Value::text("other"))]),
    ] {
        world.must(&op);
    }
    assert_eq!((world.routed("x", "k"), world.routed("y", "k")), ("".into(), "own".into()));
    world.must(&policy("p", "", 0));
    assert_eq!(world.routed("x", "k"), "q");
    assert_eq!(world.routed("y", "k"), "own", "an argument counts more");
    assert_eq!(world.routed("amq.direct", "k"), "q");
    assert_eq!(world.routed("", "k"), "", "the default exchange has none");
    // Made while the policy is there.
    world.must(&exchange("z", "direct", ""));
    assert_eq!(world.routed("z", "k"), "q");
    world.must(&set(PolicyKind::User, "p", "", "queues", 0, &[("overflow", Value::text("drop-head"))]));
    assert_eq!((world.routed("x", "k"), world.routed("z", "k")), ("".into(), "".into()));
}

#[test]
fn a_virtual_host_has_so_many_policies() {
    let mut world = World::new();
    let most = wire::LIMITS.policies_max;
    for number in 0..most {
        world.must(&overflow(&format!("p{number}"), "^zz", "all", "drop-head"));
    }
    assert_eq!(
        world.wish(&overflow("more", "^zz", "all", "drop-head")),
        format!("406 PRECONDITION_FAILED - vhost '/' has as many policies as it may: {most}")
    );
    world.must(&overflow("p0", "^yy", "all", "drop-head"));
    world.must(&set(PolicyKind::Operator, "more", "", "all", 0, &[("overflow", Value::text("drop-head"))]));
}

#[test]
fn a_virtual_host_begins_with_its_defaults() {
    let mut world = World::new();
    let key = ("overflow", Value::text("reject-publish"));
    let policy = |pattern: &str, apply_to: &str| DefaultPolicy {
        name: "o".into(),
        pattern: pattern.into(),
        apply_to: apply_to.into(),
        definition: arguments(std::slice::from_ref(&key)),
    };
    let add = |policy| {
        let limits = VhostLimits { connections_max: Some(7), ..VhostLimits::default() };
        let defaults = VhostDefaults { limits, operator_policies: vec![policy], ..Default::default() };
        Op::AddVhost { name: "v".into(), defaults }
    };
    assert!(world.wish(&add(policy("(", "all"))).contains("pattern should be regular expression"));
    assert_eq!(world.catalog.vhost("v"), None);
    world.must(&add(policy("^q", "queues")));
    let vhost = world.catalog.vhost("v").unwrap();
    assert_eq!(world.catalog.vhost_limits(vhost).connections_max, Some(7));
    let mut by = guest(1);
    by.vhost = vhost;
    assert_eq!(world.wish_of(&by, &queue("q", "")), "ok");
    let queue = world.catalog.queue_by_name(vhost, b"q").unwrap();
    assert_eq!(world.catalog.rules(queue).overflow, Overflow::RejectPublish);
    // Of a virtual host that is there nothing changes.
    world.must(&Op::AddVhost { name: "v".into(), defaults: VhostDefaults::default() });
    assert_eq!(world.catalog.vhost_limits(vhost).connections_max, Some(7));
}

#[test]
fn keys_of_operators_are_checked_one_by_one() {
    let check = |key: &str, value: Value, expected: &str| {
        assert_eq!(check_operator_key(key, &value).err().unwrap_or_default(), expected, "{key}");
    };
    check("overflow", Value::text("drop-head"), "");
    check("overflow", Value::long(1), "1 is not a valid overflow value");
    check("max-age", Value::text("1h"), "[{<<\"max-age\">>,<<\"1h\">>}] are not recognised policy settings");
    check(
        "delayed-retry-min",
        Value::long(0),
        "0 is not a valid delayed retry minimum delay. Must be a positive integer",
    );
}
