//! Permissions, users, logins. Texts as RabbitMQ 4.3.6 gave them to pika 1.3 for a user with these permissions.

use super::*;
use crate::access::{
    Access, AccessRules, Anonymous, CACHE_ENTRIES_MAX, PasswordHash, Resource, authenticate,
    authenticate_anonymous, open_vhost,
};
use crate::catalog::wire::LIMITS;

fn add_user(name: &str, password: &str) -> Op {
    let password = Some(PasswordHash::new(password, [1, 2, 3, 4]));
    Op::AddUser { name: name.into(), password, tags: Vec::new() }
}

fn permit(user: &str, [configure, write, read]: [&str; 3]) -> Op {
    let (user, vhost) = (user.into(), "/".into());
    Op::SetPermissions { user, vhost, configure: configure.into(), write: write.into(), read: read.into() }
}

/// Checks the answers to user `u` with these permissions; guest has declared queue `pq` and exchange `px`.
fn check(permissions: [&str; 3], rows: &[(Op, &str)]) {
    let mut world = World::new();
    for op in [queue("pq", ""), exchange("px", "direct", ""), add_user("u", "p"), permit("u", permissions)] {
        world.must(&op);
    }
    let user = Actor::new("u".into(), VhostId(0), port(9));
    for (op, expected) in rows {
        assert_eq!(world.wish_of(&user, op), *expected, "{permissions:?} {op:?}");
    }
}

fn refused(access: &str, what: &str) -> String {
    format!("403 ACCESS_REFUSED - {access} access to {what} in vhost '/' refused for user 'u'")
}

#[test]
fn parameters_of_the_node_are_kept_for_who_sets_them() {
    let mut world = World::new();
    let set =
        |name: &str, value: Option<&str>| Op::SetParameter { name: name.into(), value: value.map(Box::from) };
    for op in [set("a", Some("1")), set("b", Some("[]")), set("a", Some("2")), set("b", None), set("c", None)]
    {
        world.must(&op);
    }
    assert_eq!(world.catalog.parameters().collect::<Vec<_>>(), [("a", "2")]);
    let mut bytes = Vec::new();
    world.catalog.write_snapshot(&mut bytes);
    let read = Catalog::read_snapshot(&bytes).unwrap();
    assert_eq!(read.parameters().collect::<Vec<_>>(), [("a", "2")]);
    assert!(world.wish(&set("long", Some(&"x".repeat((64 << 10) + 1)))).starts_with("406"));
    for number in 1..1000 {
        world.must(&set(&format!("p{number}"), Some("0")));
    }
    assert!(world.wish(&set("more", Some("0"))).starts_with("406"));
}

#[test]
fn parameters_of_a_virtual_host_are_kept_and_go_with_it() {
    let mut world = World::new();
    let set = |vhost: &str, component: &str, name: &str, value: Option<&str>| Op::SetVhostParameter {
        vhost: vhost.into(),
        component: component.into(),
        name: name.into(),
        value: value.map(Box::from),
    };
    let kept = |catalog: &Catalog| -> Vec<(String, String, String)> {
        let id = catalog.vhost("/").unwrap();
        let own = catalog.vhost_parameters(id);
        own.map(|(component, name, value)| (component.to_owned(), name.to_owned(), value.to_owned()))
            .collect()
    };
    for (component, name, value) in [
        ("s", "b", Some("1")),
        ("s", "a", Some("{}")),
        ("r", "a", Some("2")),
        ("s", "b", None),
        ("s", "c", None),
    ] {
        world.must(&set("/", component, name, value));
    }
    let expected = [("r", "a", "2"), ("s", "a", "{}")];
    let expected: Vec<_> = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())).into();
    assert_eq!(kept(&world.catalog), expected);
    let mut bytes = Vec::new();
    world.catalog.write_snapshot(&mut bytes);
    assert_eq!(kept(&Catalog::read_snapshot(&bytes).unwrap()), expected);
    // A policymaker sets them as well, and nobody without a tag.
    let user =
        |name: &str, tag: &str| Op::AddUser { name: name.into(), password: None, tags: vec![tag.into()] };
    world.must(&user("p", "policymaker"));
    world.must(&user("m", "management"));
    let by = |user: &str| Actor { user: user.into(), ..guest(1) };
    assert_eq!(world.wish_of(&by("p"), &set("/", "s", "a", Some("1"))), "ok");
    assert!(world.wish_of(&by("m"), &set("/", "s", "a", Some("1"))).starts_with("403"));
    assert_eq!(world.wish(&set("none", "s", "a", Some("1"))), "404 NOT_FOUND - no vhost 'none'");
    let long = "x".repeat(LIMITS.parameter_bytes_max + 1);
    assert_eq!(world.wish(&set("/", "s", "a", Some(&long[1..]))), "ok");
    assert!(world.wish(&set("/", "s", "a", Some(&long))).starts_with("406"));
    assert!(world.wish(&set("/", "s", &"n".repeat(256), Some("1"))).starts_with("406"));
    for number in 2..LIMITS.parameters_max {
        world.must(&set("/", "t", &number.to_string(), Some("0")));
    }
    assert!(world.wish(&set("/", "t", "more", Some("0"))).starts_with("406"));
    assert_eq!(world.wish(&set("/", "t", "5", Some("1"))), "ok");
    world.must(&Op::AddVhost { name: "v".into(), defaults: Default::default() });
    world.must(&set("v", "s", "a", Some("1")));
    world.must(&Op::DeleteVhost { name: "v".into() });
    world.must(&Op::AddVhost { name: "v".into(), defaults: Default::default() });
    assert_eq!(world.catalog.vhost_parameters(world.catalog.vhost("v").unwrap()).count(), 0);
}

#[test]
fn an_outline_has_all_but_queues_and_bindings() {
    let mut world = World::new();
    world.must(&exchange_with("e", "topic", "", &[]));
    world.must(&queue("q", ""));
    world.must(&policies::policy("p", "^q", 1));
    let mut outline = Catalog::default();
    for change in world.catalog.outline() {
        outline.apply(&change);
    }
    let vhost = outline.vhost("/").unwrap();
    assert!(outline.exchange(vhost, b"e").is_some() && outline.user("guest").is_some());
    assert_eq!((outline.queue_count(), outline.policies(vhost, PolicyKind::User).count()), (0, 1));
    // Numbers of queues that the outline leaves out count as given out.
    let old = world.catalog.queue_by_name(vhost, b"q").unwrap().clone();
    let plan = outline.plan(&guest(1), &queue("r", ""), Places::default()).unwrap();
    assert!(plan.queue.unwrap().id > old.id);
    outline.apply(&Change::AddQueue(old));
    assert_eq!(outline.queue_count(), 1);
}

#[test]
fn what_is_said_of_a_virtual_host_changes_and_may_keep_it_from_being_deleted() {
    let mut world = World::new();
    let update =
        |description: Option<&str>, tags: Option<&[&str]>, is_protected: Option<bool>| Op::UpdateVhost {
            name: "v".into(),
            description: description.map(Box::from),
            tags: tags.map(|tags| tags.iter().map(|tag| Box::from(*tag)).collect()),
            queue_type: None,
            is_protected,
        };
    assert_eq!(world.wish(&update(None, None, None)), "404 NOT_FOUND - no vhost 'v'");
    world.must(&add_vhost("v"));
    type Said<'a> = (&'a str, &'a [&'a str], bool);
    let rows: [(Op, Said<'_>); 4] = [
        (update(Some("words"), None, None), ("words", &[], false)),
        (update(None, Some(&["a", "b"]), Some(true)), ("words", &["a", "b"], true)),
        (update(Some(""), Some(&["c"]), None), ("", &["c"], true)),
        (update(None, None, None), ("", &["c"], true)),
    ];
    for (op, expected) in rows {
        world.must(&op);
        let about = world.catalog.vhost_definition(world.catalog.vhost("v").unwrap()).unwrap().about();
        let tags: Vec<&str> = about.tags.iter().map(|tag| &**tag).collect();
        assert_eq!((&*about.description, &*tags, about.is_protected), expected);
    }
    let delete = Op::DeleteVhost { name: "v".into() };
    assert!(world.wish(&delete).contains("it is protected from deletion"));
    let long = "x".repeat(4097);
    assert!(world.wish(&update(Some(&long), None, None)).contains("longer than 4096 bytes"));
    let many = vec!["t"; 65];
    assert!(world.wish(&update(None, Some(&many), None)).contains("more than 64 tags"));
    world.must(&update(None, None, Some(false)));
    world.must(&delete);
    let user = Actor::new("u".into(), VhostId(0), port(9));
    assert_eq!(
        world.wish_of(&user, &update(None, None, None)),
        "403 ACCESS_REFUSED - user 'u' is not an administrator"
    );
}

#[test]
fn without_permissions_nothing_may_be_done() {
    let queue_of = |name: &str| refused("configure", &format!("queue '{name}'"));
    let exchange_of = |name: &str| refused("configure", &format!("exchange '{name}'"));
    let alternate = [("alternate-exchange", Value::text("ae"))];
    check(
        ["^$", "^$", "^$"],
        &[
            (queue("pq", ""), &queue_of("pq")),
            (queue("pq", "passive"), &queue_of("pq")),
            (queue("pnone", "passive"), &queue_of("pnone")),
            (
                queue("amq.pq", ""),
                "403 ACCESS_REFUSED - queue name 'amq.pq' contains reserved prefix 'amq.*'",
            ),
            (queue("", "exclusive"), &queue_of("amq.gen-CQkJCQkJCQkJCQkJCQkJCQ")),
            (exchange("px", "direct", ""), &exchange_of("px")),
            (exchange("px", "nope", ""), "406 PRECONDITION_FAILED - unknown exchange type 'nope'"),
            (exchange("amq.px", "direct", ""), &exchange_of("amq.px")),
            (exchange("pnone", "direct", "passive"), &exchange_of("pnone")),
            (exchange("amq.direct", "direct", "passive"), &exchange_of("amq.direct")),
            (
                exchange("", "direct", ""),
                "403 ACCESS_REFUSED - operation not permitted on the default exchange",
            ),
            (exchange_with("pz", "direct", "", &alternate), &exchange_of("pz")),
            (queue_with("pz", "", &[("x-expires", Value::text("a"))]), &queue_of("pz")),
            (delete_exchange("px", false), &exchange_of("px")),
            (delete_exchange("pnone", false), &exchange_of("pnone")),
            (
                delete_exchange("amq.direct", false),
                "403 ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
            ),
            (bind("amq.direct", "pq", "k"), &refused("write", "queue 'pq'")),
            (bind("pnonex", "pnone", "k"), &refused("write", "queue 'pnone'")),
            (bind("", "pq", "k"), &refused("write", "queue 'pq'")),
            (unbind("amq.direct", "pq", "k"), &refused("write", "queue 'pq'")),
            (link("amq.direct", "amq.fanout", "k"), &refused("write", "exchange 'amq.fanout'")),
        ],
    );
}

#[test]
fn each_operation_asks_for_its_permissions() {
    let not_default = "403 ACCESS_REFUSED - operation not permitted on the default exchange";
    let alternate = [("alternate-exchange", Value::text("ae"))];
    let dead = [("x-dead-letter-exchange", Value::text("dlx"))];
    check(
        [".*", "pq", "^$"],
        &[
            (queue("pz", ""), "ok"),
            (queue("pnone", "passive"), "404 NOT_FOUND - no queue 'pnone' in vhost '/'"),
            (exchange("pz", "direct", ""), "ok"),
            (
                exchange("amq.pz", "direct", ""),
                "403 ACCESS_REFUSED - exchange name 'amq.pz' contains reserved prefix 'amq.*'",
            ),
            (exchange_with("pa", "direct", "", &alternate), &refused("read", "exchange 'pa'")),
            (queue_with("pd", "", &dead), &refused("read", "queue 'pd'")),
            (bind("amq.direct", "pq", "k"), &refused("read", "exchange 'amq.direct'")),
            (bind("pnonex", "pnone", "k"), &refused("write", "queue 'pnone'")),
            (bind("", "pq", "k"), not_default),
            (link("amq.direct", "amq.fanout", "k"), &refused("write", "exchange 'amq.fanout'")),
            (delete_exchange("pz", false), "ok"),
        ],
    );
    check(
        [".*", "^$", ".*"],
        &[
            (exchange_with("pa", "direct", "", &alternate), &refused("write", "exchange 'ae'")),
            (queue_with("pd", "", &dead), &refused("write", "exchange 'dlx'")),
        ],
    );
    check([".*", "ae|dlx", ".*"], &[(exchange_with("pa", "direct", "", &alternate), "ok")]);
    check([".*", ".*", "px"], &[(bind("pnonex", "pq", "k"), &refused("read", "exchange 'pnonex'"))]);
    // Looking needs any one of the three.
    for permissions in [["pq", "^$", "^$"], ["^$", "pq", "^$"], ["^$", "^$", "pq"]] {
        check(permissions, &[(queue("pq", "passive"), "ok")]);
    }
}

#[test]
fn publishing_asks_before_it_looks() {
    let publish = |permissions: [&str; 3], exchange: &str| {
        let mut world = World::new();
        for op in [add_user("u", "p"), permit("u", permissions), super::exchange("in", "direct", "internal")]
        {
            world.must(&op);
        }
        let mut cache = AccessCache::new(Actor::new("u".into(), VhostId(0), port(9)));
        let answer = cache.check_publish(&world.catalog, exchange.as_bytes(), [&b"k"[..]], None);
        answer.map_or_else(|refusal| format!("{} {refusal}", refusal.code.number()), |()| "ok".to_owned())
    };
    let none = ["^$", "^$", "^$"];
    let rows = [
        (none, "amq.direct", refused("write", "exchange 'amq.direct'")),
        (none, "", refused("write", "exchange 'amq.default'")),
        (none, "nope", refused("write", "exchange 'nope'")),
        (["^$", "^amq\\.default$", "^$"], "", "ok".to_owned()),
        (["^$", ".*", "^$"], "amq.direct", "ok".to_owned()),
        (["^$", ".*", "^$"], "nope", "404 NOT_FOUND - no exchange 'nope' in vhost '/'".to_owned()),
        (
            ["^$", ".*", "^$"],
            "in",
            "403 ACCESS_REFUSED - cannot publish to internal exchange 'in' in vhost '/'".to_owned(),
        ),
    ];
    for (permissions, exchange, expected) in rows {
        assert_eq!(publish(permissions, exchange), expected, "{permissions:?} {exchange}");
    }
    let world = World::new();
    let mut cache = AccessCache::new(guest(1));
    let refusal = cache.check_publish(&world.catalog, b"\xFF\xFE", [], None).unwrap_err();
    assert_eq!(refusal.code, ReplyCode::NotFound);
}

#[test]
fn events_of_all_virtual_hosts_are_for_who_may_know_them() {
    let event = "amq.rabbitmq.event";
    let check = |tags: &[&str], expected: &str| {
        let mut world = World::new();
        let given = tags.iter().map(|tag| Box::from(*tag)).collect();
        let to_events = super::exchange("to", "fanout", "");
        for op in [
            add_user("u", "p"),
            permit("u", [".*"; 3]),
            Op::SetUserTags { name: "u".into(), tags: given },
            to_events,
        ] {
            world.must(&op);
        }
        if world.catalog.exchange(VhostId(0), event.as_bytes()).is_none() {
            let change = world.catalog.missing_event_exchange("/").expect("it is nowhere");
            world.catalog.apply(&change);
        }
        let user = Actor::new("u".into(), VhostId(0), port(9));
        for access in [Access::Read, Access::Write, Access::Configure] {
            let answer = world.catalog.check_access(&user, access, Resource::Exchange(event));
            let answer = answer.map_or_else(|refusal| refusal.to_string(), |()| "ok".to_owned());
            assert_eq!(answer, if access == Access::Read { expected } else { "ok" }, "{tags:?} {access:?}");
        }
        // A queue may be called so, and other exchanges tell of nobody else.
        for resource in [Resource::Queue(event), Resource::Exchange("amq.topic")] {
            assert!(world.catalog.check_access(&user, Access::Read, resource).is_ok());
        }
        assert_eq!(world.wish_of(&user, &queue("uq", "")), "ok");
        for op in [super::bind(event, "uq", "#"), super::link(event, "to", "#")] {
            assert_eq!(world.wish_of(&user, &op).replace("403 ", ""), expected, "{op:?}");
        }
    };
    let no =
        "ACCESS_REFUSED - read access to exchange 'amq.rabbitmq.event' in vhost '/' refused for user 'u'";
    for (tags, expected) in [
        (&[][..], no),
        (&["management"], no),
        (&["policymaker"], no),
        (&["impersonator", "management"], no),
        (&["monitoring"], "ok"),
        (&["administrator"], "ok"),
    ] {
        check(tags, expected);
    }
}

#[test]
fn a_message_names_who_sends_it_or_nobody() {
    let mut world = World::new();
    for op in [add_user("u", "p"), add_user("poser", "p"), permit("u", [".*"; 3]), permit("poser", [".*"; 3])]
    {
        world.must(&op);
    }
    let tags = |tag: &str| Op::SetUserTags { name: "poser".into(), tags: vec![tag.into()] };
    let check = |world: &World, actor: Actor, exchange: &str, user_id: Option<&[u8]>| {
        let keys = [&b"k"[..]];
        let answer =
            AccessCache::new(actor).check_publish(&world.catalog, exchange.as_bytes(), keys, user_id);
        answer.map_or_else(|refusal| refusal.to_string(), |()| "ok".to_owned())
    };
    let user = |name: &str| Actor::new(name.into(), VhostId(0), port(9));
    let wrong = |claimed: &str| {
        format!("PRECONDITION_FAILED - user_id property set to '{claimed}' but authenticated user was 'u'")
    };
    for (user_id, expected) in [
        (None, "ok".to_owned()),
        (Some(&b"u"[..]), "ok".to_owned()),
        (Some(b"boss"), wrong("boss")),
        (Some(b"U"), wrong("U")),
        (Some(b"u\0"), wrong("u\0")),
        (Some(b""), wrong("")),
        (Some(b"\xff"), wrong("\u{fffd}")),
    ] {
        assert_eq!(check(&world, user("u"), "amq.direct", user_id), expected);
    }
    // A fault of the exchange comes first.
    let missing = "NOT_FOUND - no exchange 'nope' in vhost '/'";
    assert_eq!(check(&world, user("u"), "nope", Some(b"boss")), missing);
    for (tag, is_poser) in [("management", false), ("administrator", false), ("impersonator", true)] {
        world.must(&tags(tag));
        let answer = check(&world, user("poser"), "amq.direct", Some(b"boss"));
        assert_eq!(answer == "ok", is_poser, "{tag}: {answer}");
    }
    // The broker moves what others sent.
    assert_eq!(check(&world, Actor::internal(VhostId(0), port(9)), "amq.direct", Some(b"boss")), "ok");
    let refusal = Refusal::new(ReplyCode::WrongUser, Reason::WrongUser, "");
    assert_eq!((refusal.code.number(), refusal.code.is_hard()), (406, false));
    assert_eq!(refusal.code.condition(), "amqp:unauthorized-access");
}

#[test]
fn grants_are_remembered_until_somebodys_permissions_change() {
    let mut world = World::new();
    for op in [add_user("u", "p"), permit("u", [".*", "q", ".*"])] {
        world.must(&op);
    }
    let mut cache = AccessCache::new(Actor::new("u".into(), VhostId(0), port(9)));
    let names: Vec<String> = (0..CACHE_ENTRIES_MAX + 3).map(|at| format!("q{at}")).collect();
    for name in &names {
        cache.check(&world.catalog, Access::Write, Resource::Queue(name)).unwrap();
        cache.check(&world.catalog, Access::Write, Resource::Queue(name)).unwrap();
    }
    assert_eq!(cache.remembered(), CACHE_ENTRIES_MAX);
    // A grant is for one access to one kind of thing.
    assert!(cache.check(&world.catalog, Access::Write, Resource::Queue("z")).is_err());
    world.must(&permit("u", ["q", "^$", "^$"]));
    let last = Resource::Queue(&names[names.len() - 1]);
    let refusal = cache.check(&world.catalog, Access::Write, last).unwrap_err();
    assert_eq!(format!("403 {refusal}"), refused("write", "queue 'q14'"));
    assert_eq!(cache.remembered(), 0);
    cache.check(&world.catalog, Access::Configure, last).unwrap();
    assert!(cache.check(&world.catalog, Access::Read, last).is_err());
    cache.forget();
    assert_eq!(cache.remembered(), 0);
}

#[test]
fn logins() {
    let mut world = World::new();
    for op in [add_user("u", "p"), Op::AddUser { name: "nopass".into(), password: None, tags: Vec::new() }] {
        world.must(&op);
    }
    let rules = AccessRules::default();
    let rows = [
        ("guest", "guest", true, ""),
        ("guest", "guest", false, "user 'guest' can only connect via localhost"),
        ("guest", "wrong", false, "user 'guest' - invalid credentials"),
        ("u", "p", false, ""),
        ("u", "P", true, "user 'u' - invalid credentials"),
        ("nobody", "p", true, "user 'nobody' - invalid credentials"),
        ("nopass", "p", true, "user 'nopass' - invalid credentials"),
    ];
    for (name, password, is_loopback, expected) in rows {
        let answer = authenticate(&world.catalog, name, password, is_loopback, &rules);
        let reason = answer.as_ref().map_or_else(|denied| &*denied.reason, |_| "");
        assert_eq!(reason, expected, "{name} {password} {is_loopback}");
        if let Err(denied) = answer {
            assert_eq!(
                denied.refusal("PLAIN").reply_text(),
                "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
            );
        }
    }
    let blank = authenticate(&world.catalog, "u", "", true, &rules).unwrap_err();
    assert!(blank.reason.starts_with("user 'u' attempted to log in with a blank password"));

    let open = AccessRules { loopback_users: Vec::new(), ..AccessRules::default() };
    assert!(authenticate(&world.catalog, "guest", "guest", false, &open).is_ok());
    let anonymous = |is_named| {
        let (user, password) = ("guest".into(), "guest".into());
        AccessRules { anonymous: Some(Anonymous { user, password, is_named }), ..rules.clone() }
    };
    let user = authenticate_anonymous(&world.catalog, true, &anonymous(true)).unwrap();
    assert_eq!(
        (&*user.name, user.has_tag("administrator"), user.has_tag("monitoring")),
        ("guest", true, false)
    );
    assert!(authenticate_anonymous(&world.catalog, false, &anonymous(true)).is_err());
    // No anonymous login is an administrator's, unless the operator wants it so.
    let denied = authenticate_anonymous(&world.catalog, true, &anonymous(false)).unwrap_err();
    assert_eq!(denied.reason, "anonymous_login_user is not set, and user 'guest' has tags or is not there");
    let itself = Actor::internal(VhostId(0), port(9));
    let untagged = Op::SetUserTags { name: "guest".into(), tags: Vec::new() };
    assert_eq!(world.wish_of(&itself, &untagged), "ok");
    assert!(authenticate_anonymous(&world.catalog, true, &anonymous(false)).is_ok());
    for tag in ["administrator", "monitoring", "policymaker", "management", "impersonator", "own"] {
        let tagged = Op::SetUserTags { name: "guest".into(), tags: vec![tag.into()] };
        assert_eq!(world.wish_of(&itself, &tagged), "ok");
        assert!(authenticate_anonymous(&world.catalog, true, &anonymous(false)).is_err(), "{tag}");
        assert!(authenticate_anonymous(&world.catalog, true, &anonymous(true)).is_ok(), "{tag}");
    }
    // A name that no user has is not announced: it may be a password.
    let announced = |name: &str, password: &str| {
        authenticate(&world.catalog, name, password, true, &rules).unwrap_err().announced().to_owned()
    };
    assert_eq!(announced("hunter2", "x"), "no such user - invalid credentials");
    assert_eq!(announced("hunter2", ""), "no such user - invalid credentials");
    assert_eq!(announced("guest", "x"), "user 'guest' - invalid credentials");
    let closed = AccessRules { anonymous: None, ..AccessRules::default() };
    assert!(authenticate_anonymous(&world.catalog, true, &closed).is_err());
}

#[test]
fn virtual_hosts_open_to_those_with_permissions() {
    let mut world = World::new();
    world.must(&add_user("u", "p"));
    world.must(&add_vhost("v"));
    let open = |world: &World, user: &str, vhost: &str| {
        open_vhost(&world.catalog, user, vhost)
            .map_err(|refusal| format!("{} {refusal}", refusal.code.number()))
    };
    assert_eq!(open(&world, "guest", "/"), Ok(VhostId(0)));
    assert_eq!(open(&world, "guest", "v"), Ok(VhostId(1)), "who makes a virtual host can use it");
    assert_eq!(open(&world, "guest", "nov"), Err("530 NOT_ALLOWED - vhost nov not found".to_owned()));
    let refused = Err("530 NOT_ALLOWED - access to vhost '/' refused for user 'u'".to_owned());
    assert_eq!(open(&world, "u", "/"), refused);
    world.must(&permit("u", ["^$", "^$", "^$"]));
    assert_eq!(open(&world, "u", "/"), Ok(VhostId(0)));
    world.must(&Op::ClearPermissions { user: "u".into(), vhost: "/".into() });
    assert_eq!(open(&world, "u", "/"), refused);
    assert_eq!(
        World::new().catalog.plan(&guest(1), &add_vhost("/"), Places::default()).unwrap().changes,
        Vec::new()
    );
}

#[test]
fn users_are_the_administrators_business() {
    let mut world = World::new();
    world.must(&add_user("u", "p"));
    let user = Actor::new("u".into(), VhostId(0), port(9));
    let name = || "u".into();
    let wishes = [
        add_user("z", "p"),
        Op::DeleteUser { name: name() },
        Op::ChangePassword { name: name(), password: None },
        Op::SetUserTags { name: name(), tags: vec!["administrator".into()] },
        add_vhost("v"),
        Op::DeleteVhost { name: "/".into() },
        permit("u", [".*", ".*", ".*"]),
        Op::ClearPermissions { user: name(), vhost: "/".into() },
    ];
    for op in &wishes {
        assert_eq!(
            world.wish_of(&user, op),
            "403 ACCESS_REFUSED - user 'u' is not an administrator",
            "{op:?}"
        );
    }
    let rules = AccessRules::default();
    let logs_in =
        |world: &World, password: &str| authenticate(&world.catalog, "u", password, true, &rules).is_ok();
    let password = Some(PasswordHash::new("new", [5; SALT]));
    world.must(&Op::ChangePassword { name: name(), password });
    assert!(logs_in(&world, "new") && !logs_in(&world, "p"));
    world.must(&Op::SetUserTags { name: name(), tags: vec!["administrator".into()] });
    assert!(logs_in(&world, "new"));
    assert_eq!(world.wish_of(&user, &add_user("z", "p")), "ok");
    world.must(&permit("u", ["", "", ""]));
    world.must(&Op::DeleteUser { name: name() });
    assert!(!logs_in(&world, "new") && world.catalog.permissions(VhostId(0), "u").is_none());
    let rows = [
        (add_user("z", "p"), "406 PRECONDITION_FAILED - user 'z' already exists"),
        (add_user("", "p"), "406 PRECONDITION_FAILED - a user needs a name"),
        (Op::DeleteUser { name: name() }, "404 NOT_FOUND - no user 'u'"),
        (permit("u", ["", "", ""]), "404 NOT_FOUND - no user 'u'"),
        (
            Op::SetUserTags { name: "z".into(), tags: vec!["t".into(); 65] },
            "406 PRECONDITION_FAILED - more than 64 tags",
        ),
        (add_vhost(""), "406 PRECONDITION_FAILED - a virtual host needs a name"),
    ];
    for (op, expected) in rows {
        assert_eq!(world.wish(&op), expected);
    }
    let answer = world.wish(&permit("z", ["[", "", ""]));
    assert!(answer.starts_with("406 PRECONDITION_FAILED - regular expression '[' is invalid: "), "{answer}");
}

fn permit_topics(user: &str, exchange: &str, write: &str, read: &str) -> Op {
    let (user, vhost, exchange) = (user.into(), "/".into(), exchange.into());
    Op::SetTopicPermissions { user, vhost, exchange, write: write.into(), read: read.into() }
}

fn clear_topics(user: &str, exchange: Option<&str>) -> Op {
    Op::ClearTopicPermissions { user: user.into(), vhost: "/".into(), exchange: exchange.map(Box::from) }
}

#[test]
fn topics_have_permissions_of_their_own() {
    let refused = |access: &str, key: &str| {
        format!(
            "403 ACCESS_REFUSED - {access} access to topic '{key}' in exchange 'amq.topic' in vhost '/' refused for user 'u'"
        )
    };
    let mut world = World::new();
    for op in [
        queue("q", ""),
        exchange("x", "topic", ""),
        add_user("u", "p"),
        permit("u", [".*", ".*", ".*"]),
        permit_topics("u", "amq.topic", "^{username}\\.", "^r"),
        permit_topics("u", "amq.direct", "^$", "^$"),
    ] {
        world.must(&op);
    }
    let user = Actor::new("u".into(), VhostId(0), port(9));
    let publish = |world: &World, exchange: &str, keys: &[&str]| {
        let keys = keys.iter().map(|key| key.as_bytes());
        let answer =
            AccessCache::new(user.clone()).check_publish(&world.catalog, exchange.as_bytes(), keys, None);
        answer.map_or_else(|refusal| format!("{} {refusal}", refusal.code.number()), |()| "ok".to_owned())
    };
    assert_eq!(publish(&world, "amq.topic", &["u.1"]), "ok");
    assert_eq!(publish(&world, "amq.topic", &["r.1"]), refused("write", "r.1"));
    assert_eq!(publish(&world, "amq.topic", &["u.1", "v.1"]), refused("write", "v.1"), "all keys count");
    assert_eq!(publish(&world, "x", &["r.1"]), "ok", "another exchange");
    assert_eq!(publish(&world, "amq.direct", &["r.1"]), "ok", "no topic exchange");
    assert_eq!(world.wish_of(&user, &bind("amq.topic", "q", "r.1")), "ok");
    assert_eq!(world.wish_of(&user, &bind("amq.topic", "q", "u.1")), refused("read", "u.1"));
    assert_eq!(world.wish_of(&user, &unbind("amq.topic", "q", "u.1")), refused("read", "u.1"));
    assert_eq!(world.wish_of(&user, &link("amq.topic", "x", "u.1")), refused("read", "u.1"));
    assert_eq!(world.wish(&bind("amq.topic", "q", "u.1")), "ok", "another user");

    let mut snapshot = Vec::new();
    world.catalog.write_snapshot(&mut snapshot);
    let restored = World { catalog: Catalog::read_snapshot(&snapshot).unwrap() };
    assert_eq!(publish(&restored, "amq.topic", &["r.1"]), refused("write", "r.1"));

    let (version, listed) = (world.catalog.version(), |world: &World| {
        world.catalog.topic_permissions(VhostId(0)).map(|own| own.exchange.to_string()).collect::<Vec<_>>()
    });
    assert_eq!(listed(&world), ["amq.direct", "amq.topic"]);
    world.must(&clear_topics("u", Some("amq.topic")));
    assert!(world.catalog.version() > version, "who remembers routes must see that they changed");
    assert_eq!(publish(&world, "amq.topic", &["r.1"]), "ok");
    world.must(&permit_topics("u", "x", "a", "b"));
    world.must(&delete_exchange("x", false));
    assert_eq!(listed(&world), ["amq.direct"], "they go with their exchange");
    world.must(&Op::DeleteUser { name: "u".into() });
    assert_eq!(listed(&world), [""; 0]);
}

#[test]
fn setting_topic_permissions_has_rules() {
    super::check(&[
        (permit_topics("nobody", "amq.topic", "a", "b"), "404 NOT_FOUND - no user 'nobody'"),
        (permit_topics("guest", "nope", "a", "b"), "404 NOT_FOUND - Exchange nope does not exist"),
        (permit_topics("guest", "amq.topic", "{username}", "{foo}"), "ok"),
        (clear_topics("guest", Some("nope")), "ok"),
        (clear_topics("nobody", None), "ok"),
    ]);
}
