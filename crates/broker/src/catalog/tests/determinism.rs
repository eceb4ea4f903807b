//! Copies are equal: planned here and applied there, replayed from bytes, rebuilt from a snapshot and the tail.

use super::*;
use crate::access::Pattern;
use base::DigestKey;
use base::id::NodeNo;
use proptest::prelude::*;

/// Everything in a catalog, as bytes: equal catalogs have equal ones.
pub(super) fn everything(catalog: &Catalog) -> Vec<u8> {
    let mut out = Vec::new();
    catalog.each_change(|change| change.encode_to(&mut out));
    out
}

/// The durable part.
pub(super) fn snapshot(catalog: &Catalog) -> Vec<u8> {
    let mut out = Vec::new();
    catalog.write_snapshot(&mut out);
    out
}

/// The invariants between the parts of every catalog.
pub(super) fn check_whole(catalog: &Catalog) {
    let mut bindings = 0;
    let mut declared: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for entry in catalog.queues.values() {
        let QueueDefinition { id, vhost, name, exclusive, declared_by, .. } = &*entry.definition;
        declared_by.iter().for_each(|user| *declared.entry(user.clone()).or_default() += 1);
        assert!(catalog.queue_by_name(*vhost, name.as_bytes()).is_some_and(|queue| queue.id == *id));
        let is_listed = exclusive.is_some_and(|port| catalog.exclusive[&port].contains(id));
        assert_eq!(is_listed, exclusive.is_some());
        bindings += entry.ends.iter().count();
    }
    for (user, entered) in &catalog.entered {
        let has = |vhost: &VhostId| catalog.permissions(*vhost, user).is_some();
        assert!(!entered.is_empty() && entered.iter().all(has));
    }
    let entered: usize = catalog.entered.values().map(|entered| entered.len()).sum();
    assert_eq!(entered, catalog.vhosts.values().map(|vhost| vhost.permissions.len()).sum::<usize>());
    for entry in catalog.exchanges.values() {
        let streams = entry.exchange.bindings().into_iter().filter_map(|binding| match binding.destination {
            Destination::Queue(id) => catalog.queue(id).filter(|queue| queue.is_stream()),
            Destination::Exchange(_) => None,
        });
        let (mut streams, mut kept): (Vec<_>, Vec<_>) = (
            streams.map(|stream| stream.id).collect(),
            catalog.partitions(entry).map(|own| own.id).collect(),
        );
        streams.sort_unstable();
        kept.sort_unstable();
        assert_eq!(streams, kept);
        bindings += entry.ends.iter().count();
        let ExchangeDefinition { id, vhost, name, declared_by, .. } = &*entry.definition;
        declared_by.iter().for_each(|user| *declared.entry(user.clone()).or_default() += 1);
        assert!(catalog.exchange(*vhost, name.as_bytes()).is_some_and(|found| found.definition.id == *id));
        for binding in entry.exchange.bindings() {
            let source = *id;
            let key = str::from_utf8(&binding.key).unwrap().into();
            let (destination, arguments) = (binding.destination, binding.arguments);
            let same = Arc::new(Binding { source, destination, key, arguments, durable: false });
            assert!(catalog.ends(destination).unwrap().find(&same).is_some());
        }
    }
    assert_eq!(catalog.declarers.counts(), declared);
    let from_sources: usize = catalog.exchanges.values().map(|entry| entry.exchange.bindings_count()).sum();
    assert_eq!(from_sources, bindings, "every binding is known at both its ends");
    assert_eq!(catalog.queues.len(), catalog.vhosts.values().map(|vhost| vhost.queues.len()).sum::<usize>());
    assert_eq!(
        catalog.exchanges.len(),
        catalog.vhosts.values().map(|vhost| vhost.exchanges.len()).sum::<usize>()
    );
}

/// Of new virtual hosts some begin with nothing and some with everything.
fn vhost_defaults(number: u8) -> VhostDefaults {
    if number.is_multiple_of(2) {
        return VhostDefaults::default();
    }
    let (name, pattern, apply_to) = ("p".into(), ".*".into(), "all".into());
    let definition = arguments(&[("overflow", Value::text("drop-head"))]);
    VhostDefaults {
        queue_type: QueueType::Quorum,
        limits: VhostLimits { queues_max: Some(3), connections_max: None, memory_bytes_max: Some(1 << 40) },
        operator_policies: vec![DefaultPolicy { name, pattern, apply_to, definition }],
        users: vec![DefaultUser {
            name: format!("u{}", number % 3).into(),
            password: None,
            tags: vec!["monitoring".into()],
            configure: "^a".into(),
            write: ".*".into(),
            read: "".into(),
        }],
        about: VhostAbout { description: "d".into(), ..Default::default() },
        tells_events: true,
    }
}

/// A wish made of a few numbers, so that wishes meet each other.
pub(super) fn op() -> impl Strategy<Value = Op> {
    let kinds = prop::sample::select(vec![
        "direct",
        "fanout",
        "topic",
        "headers",
        "x-consistent-hash",
        "x-random",
        "x-recent-history",
    ]);
    let how =
        prop::sample::select(vec!["", "transient", "auto-delete", "exclusive", "transient auto-delete"]);
    let with = prop::sample::select(vec![0, 1, 2]);
    (0..18u8, 0..5u8, 0..5u8, kinds, how, with).prop_map(|(which, a, b, kind, how, with)| {
        let with: &[(&str, Value)] = match with {
            0 => &[],
            1 => &[("a", Value::Void), ("x-match", Value::text("any"))],
            _ => &[("x-queue-type", Value::text("quorum"))],
        };
        let (x, y, q) = (format!("x{a}"), format!("x{b}"), format!("q{b}"));
        match which {
            0 | 1 => queue_with(&q, how, with),
            2 => exchange_with(&x, kind, how, with),
            3 => delete_exchange(&x, b > 2),
            4 | 5 => bind_with(
                &x,
                &q,
                ["k.#", "2", "k"][usize::from(a > b) + usize::from(a > 3)],
                if b == 4 { &[] } else { with },
            ),
            6 => unbind(&x, &q, ["k.#", "2", "k"][usize::from(a > b) + usize::from(a > 3)]),
            7 => link(&x, &y, "k"),
            8 => unlink(&x, &y, "k"),
            9 => Op::DeleteExclusive { port: port(u32::from(a)) },
            13 => Op::SetTopicPermissions {
                user: "guest".into(),
                vhost: "/".into(),
                exchange: x.into(),
                write: format!("^{b}").into(),
                read: ".*".into(),
            },
            14 => Op::ClearTopicPermissions {
                user: "guest".into(),
                vhost: "/".into(),
                exchange: (b > 1).then(|| x.into()),
            },
            10 if a == 0 => Op::DeleteVhost { name: format!("v{b}").into() },
            10 => Op::AddVhost { name: format!("v{b}").into(), defaults: vhost_defaults(b) },
            15 => Op::UpdateVhost {
                name: format!("v{b}").into(),
                description: (a > 1).then(|| format!("d{a}").into()),
                tags: (a > 2).then(|| vec!["t".into(); a.into()]),
                queue_type: (a > 3).then_some(QueueType::Classic),
                is_protected: (a < 2).then_some(a == 0),
            },
            16 => Op::SetVhostParameter {
                vhost: if b > 2 { "/".into() } else { format!("v{b}").into() },
                component: "shovel".into(),
                name: format!("p{a}").into(),
                value: (a != b).then(|| format!("[{b}]").into()),
            },
            11 => policies::policy(&format!("p{a}"), [".*", "q", "x1"][usize::from(b % 3)], i64::from(b)),
            12 => policies::clear(&format!("p{a}")),
            _ => Op::DeleteQueue { id: QueueId(u64::from(a) * 5 + u64::from(b)) },
        }
    })
}

/// A message to remember, the first byte of its record's time and of its body being this.
fn remembered(number: u64) -> Arc<[u8]> {
    let mut record = base::Buffer::default();
    let body = [b'm', b'0' + (number % 10) as u8];
    let message = message::record::NewEnqueue {
        flags: 0,
        format: message::record::Format::Amqp091,
        priority: 0,
        received_at_ms: number,
        expires_at_ms: 0,
        due_at_ms: 0,
        keys: None,
        exchange: b"x",
        routing_key: b"k",
        head: &[b"\0\0"],
        body: &[&body],
    };
    message.write(&[], &mut record);
    record.bytes().into()
}

proptest! {
    #[test]
    fn copies_replays_and_snapshots_are_equal(
        ops in prop::collection::vec((op(), 0..3u32, any::<bool>()), 0..60),
        cut in 0..60usize,
    ) {
        let mut planned = World::new();
        let mut copy = World::new().catalog;
        let mut replayed = World::new().catalog;
        let mut restored = None;
        for (number, (op, slot, in_other)) in ops.iter().enumerate() {
            if number == cut {
                restored = Some(Catalog::read_snapshot(&snapshot(&planned.catalog)).unwrap());
            }
            let mut by = guest(*slot);
            by.user = ["guest", "", "gone"][number % 3].into();
            by.is_internal = true;
            if *in_other && let Some(other) = planned.catalog.vhost("v1") {
                by.vhost = other;
            }
            let version = planned.catalog.version();
            let Ok(Plan { changes: mut all, .. }) = planned.catalog.plan(&by, op, Places::default()) else { continue };
            let through = format!("x{slot}");
            if *in_other && let Some(entry) = planned.catalog.exchange(by.vhost, through.as_bytes()) {
                all.extend(planned.catalog.remembering(entry.definition.id, &remembered(number as u64)));
            }
            for change in &all {
                planned.catalog.apply(change);
                copy.apply(change);
                let bytes = change.encode();
                let decoded = Change::decode(&bytes).unwrap();
                prop_assert_eq!(&bytes, &decoded.encode());
                prop_assert_eq!(change.is_durable(), decoded.is_durable());
                if change.is_durable() {
                    replayed.apply(&decoded);
                    restored.iter_mut().for_each(|restored| drop(restored.apply(&decoded)));
                }
            }
            let alters = |change: &Change| {
                let none = matches!(change, Change::ReserveQueueIds { .. } | Change::Remember { .. });
                !none && !matches!(change, Change::SetVhost(_) | Change::SetVhostParameter { .. })
            };
            let changes = all.iter().any(alters);
            prop_assert_eq!(changes, planned.catalog.version() > version);
        }
        check_whole(&planned.catalog);
        check_whole(&replayed);
        prop_assert_eq!(everything(&planned.catalog), everything(&copy));
        prop_assert_eq!(snapshot(&planned.catalog), snapshot(&replayed));
        prop_assert_eq!(everything(&replayed), everything(&Catalog::read_snapshot(&snapshot(&copy)).unwrap()));
        if let Some(restored) = restored {
            check_whole(&restored);
            prop_assert_eq!(everything(&restored), everything(&replayed));
        }
    }

    #[test]
    fn replaying_what_a_snapshot_holds_already_alters_nothing(
        ops in prop::collection::vec(op(), 0..40),
    ) {
        let mut world = World::new();
        let mut log = Vec::new();
        for op in &ops {
            let Ok(plan) = world.catalog.plan(&guest(1), op, Places::default()) else { continue };
            plan.changes.iter().for_each(|change| drop(world.catalog.apply(change)));
            // A removal is left out: only a log that makes and removes again can differ in between.
            let adds = |change: &&Change| {
                change.is_durable()
                    && matches!(change, Change::AddQueue(_) | Change::AddExchange(_) | Change::Bind(_))
            };
            log.extend(plan.changes.iter().filter(adds).cloned());
        }
        let before = everything(&world.catalog);
        let still_there: Vec<_> = log.iter().filter(|change| match change {
            Change::AddQueue(queue) => world.catalog.queue(queue.id).is_some(),
            Change::AddExchange(exchange) => world.catalog.exchange_by_id(exchange.id).is_some(),
            Change::Bind(binding) => {
                world.catalog.ends(binding.destination).is_some_and(|ends| ends.find(binding).is_some())
            }
            _ => false,
        }).collect();
        still_there.into_iter().for_each(|change| drop(world.catalog.apply(change)));
        prop_assert_eq!(before, everything(&world.catalog));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), tag in 1..33u8) {
        let _ = Change::decode(&bytes);
        let mut tagged = bytes.clone();
        tagged.insert(0, tag);
        if let Ok(change) = Change::decode(&tagged) {
            prop_assert_eq!(Change::decode(&change.encode()), Ok(change.clone()));
            Catalog::default().apply(&change);
        }
        let _ = Catalog::read_snapshot(&bytes);
        let mut snapshot = b"LVRTCAT\x01".to_vec();
        snapshot.extend(&bytes);
        let _ = Catalog::read_snapshot(&snapshot);
    }

    #[test]
    fn a_changed_byte_is_another_change_or_an_error(at in 0..200usize, bit in 0..8u32) {
        let mut world = World::new();
        world.must(&queue("q", ""));
        let with = [("list", Value::list([Value::Void, int(1), Value::text("x")]))];
        let plan = world.catalog.plan(&guest(1), &bind_with("amq.topic", "q", "a.*", &with), Places::default()).unwrap();
        let mut bytes = plan.changes[0].encode();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Ok(change) = Change::decode(&bytes) {
            prop_assert!(change != plan.changes[0]);
        }
    }
}

#[test]
fn bounds_of_reading_hold() {
    // Arguments of an unbind: a list in a list in a list ...
    let nested = |depth: usize| {
        let mut value = Value::Void;
        for _ in 0..depth {
            value = Value::list([value]);
        }
        let plan = World::new();
        let source = plan.catalog.exchange(VhostId(0), b"amq.direct").unwrap().definition.id;
        let destination = Destination::Queue(QueueId(0));
        let arguments = arguments(&[("n", value)]);
        Change::Unbind(Arc::new(Binding { source, destination, key: "k".into(), arguments, durable: true }))
    };
    let limit = wire::LIMITS.nesting_max as usize;
    assert_eq!(Change::decode(&nested(limit).encode()), Ok(nested(limit)));
    assert_eq!(Change::decode(&nested(limit + 1).encode()), Err(BadChange::Nesting));
    // A count that is a lie makes no room.
    let mut bytes = nested(0).encode();
    let len = bytes.len();
    bytes[len - 10..len - 6].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Change::decode(&bytes), Err(BadChange::Count));
    let mut long = nested(1).encode();
    long.push(0);
    assert_eq!(Change::decode(&long), Err(BadChange::Long));
    assert_eq!(Change::decode(&[]), Err(BadChange::Short));
    assert_eq!(Change::decode(&[99]), Err(BadChange::Tag { of: "change", tag: 99 }));
}

#[test]
fn as_much_is_remembered_as_may_be() {
    let mut world = World::new();
    world.must(&exchange_with("x", "x-recent-history", "", &[("x-recent-history-length", int(3))]));
    let id = world.catalog.exchange(VhostId(0), b"x").unwrap().definition.id;
    let remember = |catalog: &mut Catalog, message: &Arc<[u8]>| {
        let change = catalog.remembering(id, message).unwrap();
        catalog.apply(&change);
        // Again, as where a log is replayed over a snapshot that has it.
        catalog.apply(&change);
    };
    for number in 1..=5 {
        remember(&mut world.catalog, &remembered(number));
    }
    let all = |catalog: &Catalog| catalog.remembered(id, 0..=u64::MAX, usize::MAX);
    let last_three = [3, 4, 5].map(|number| (number, remembered(number)));
    assert_eq!(all(&world.catalog), last_three);
    assert_eq!(world.catalog.remembered_numbers(id), Some(3..=5));
    assert_eq!(world.catalog.remembered(id, 1..=4, 9), last_three[..2]);
    assert_eq!(world.catalog.remembered(id, 4..=5, 1), last_three[1..2]);
    let restored = Catalog::read_snapshot(&snapshot(&world.catalog)).unwrap();
    assert_eq!(all(&restored), last_three);
    // Large ones make room for each other; one that is larger than all room is kept alone.
    let large = |len: usize| -> Arc<[u8]> { vec![0; len].into() };
    let most = wire::LIMITS.history_bytes_max;
    remember(&mut world.catalog, &large(most / 2));
    remember(&mut world.catalog, &large(most / 3));
    assert_eq!(all(&world.catalog).len(), 3);
    remember(&mut world.catalog, &large(most / 4));
    assert_eq!(all(&world.catalog).len(), 2);
    remember(&mut world.catalog, &large(most + 1));
    assert_eq!(all(&world.catalog).len(), 1);
    world.catalog.forget_messages();
    assert_eq!(all(&world.catalog).len(), 0);
}

#[test]
fn what_is_remembered_is_a_message() {
    let change = |message: &[u8]| Change::Remember {
        exchange: ExchangeId(1),
        durable: true,
        number: 1,
        message: message.into(),
    };
    let message = remembered(1);
    assert_eq!(Change::decode(&change(&message).encode()), Ok(change(&message)));
    let mut of_another_kind = message.to_vec();
    of_another_kind[4] = 2;
    let twice = [&message[..], &message[..]].concat();
    for wrong in [&b""[..], &message[..16], &of_another_kind, &twice] {
        assert_eq!(Change::decode(&change(wrong).encode()), Err(BadChange::Message));
    }
}

#[test]
fn wrong_snapshots_are_refused() {
    let mut world = World::new();
    world.must(&queue("q", "transient"));
    let whole = snapshot(&world.catalog);
    let read = |bytes: &[u8]| Catalog::read_snapshot(bytes).map(|catalog| catalog.queue_count());
    assert_eq!(read(&whole), Ok(0), "what is transient is not in it");
    assert_eq!(read(&whole[..whole.len() - 1]), Err(BadSnapshot::Short));
    assert_eq!(read(b"LVRTCAT\x03"), Err(BadSnapshot::Magic));
    assert_eq!(read(b"LVRT"), Err(BadSnapshot::Short));
    let with = |change: &[u8]| {
        let mut bytes = whole.clone();
        bytes.extend((change.len() as u32).to_le_bytes());
        bytes.extend(change);
        read(&bytes)
    };
    let transient = Change::DeleteQueue { id: QueueId(0), durable: false };
    let number = 11;
    assert_eq!(with(&transient.encode()), Err(BadSnapshot::Transient { number }));
    assert_eq!(with(&[]), Err(BadSnapshot::Change { number, why: BadChange::Short }));
}

/// Of a catalog that nodes agree on all is kept, also what is transient: the others have it.
#[test]
fn a_catalog_of_several_nodes_is_kept_whole() {
    let mut world = World::new();
    world.must(&Op::DeclareQueue {
        name: "t".into(),
        passive: false,
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: Arguments::new(),
        random: [0; 16],
    });
    let has = |catalog: &Catalog| catalog.queue_by_name(VhostId(0), b"t").is_some();
    let alone = Catalog::read_snapshot(&snapshot(&world.catalog)).unwrap();
    assert!(has(&world.catalog) && !has(&alone));
    world.catalog.apply(&Change::NodeUp { node: NodeNo(1), incarnation: 1 });
    let bytes = snapshot(&world.catalog);
    let shared = Catalog::read_snapshot(&bytes).unwrap();
    assert!(has(&shared));
    assert_eq!(snapshot(&shared), bytes);
    let added = world.catalog.queues_known_below();
    assert_eq!((added, shared.queues_known_below()), (QueueId(1), QueueId(1)));
}

#[test]
fn a_binding_never_leaves_its_virtual_host() {
    let mut world = World::new();
    world.must(&add_vhost("v"));
    let source = world.catalog.exchange(VhostId(1), b"amq.direct").unwrap().definition.id;
    let destination = world.catalog.exchange(VhostId(0), b"amq.direct").unwrap().definition.id;
    let destination = Destination::Exchange(destination);
    let arguments = Arguments::new();
    let binding = Arc::new(Binding { source, destination, key: "k".into(), arguments, durable: true });
    let before = everything(&world.catalog);
    world.catalog.apply(&Change::Bind(binding));
    assert_eq!(before, everything(&world.catalog));
}

fn about_vhost(is_protected: bool) -> Arc<VhostDefinition> {
    let about = VhostAbout { description: "hi".into(), tags: vec!["t".into()], is_protected };
    Arc::new(VhostDefinition {
        id: VhostId(3),
        name: "v".into(),
        default_queue_type: QueueType::Quorum,
        about: about.boxed(),
    })
}

#[test]
fn old_bytes_are_still_read() {
    // The format as documented in docs/formats/catalog.md, byte by byte: these must be read for ever.
    let wish = WishId { node: NodeNo(2), incarnation: 7, number: 3 };
    let rows: [(&[u8], Change); 22] = [
        (b"\x01\x00\x04\x00\x00\x00\x00\x00\x00", Change::ReserveQueueIds { below: 1024, may_be_used: true }),
        (
            b"\x02\x03\x00\x00\x00\x01\x00\x00\x00v",
            Change::AddVhost(Arc::new(VhostDefinition { id: VhostId(3), name: "v".into(), default_queue_type: QueueType::Classic, about: None })),
        ),
        (
            b"\x14\x03\x00\x00\x00\x01\x00\x00\x00v\x01",
            Change::AddVhost(Arc::new(VhostDefinition {
                id: VhostId(3),
                name: "v".into(),
                default_queue_type: QueueType::Quorum,
                about: None,
            })),
        ),
        (
            b"\x15\x03\x00\x00\x00\x01\x00\x00\x00v\x01\x00\x02\x00\x00\x00hi\x01\x00\x00\x00\x01\x00\x00\x00t",
            Change::AddVhost(about_vhost(false)),
        ),
        (
            b"\x16\x03\x00\x00\x00\x01\x00\x00\x00v\x01\x01\x02\x00\x00\x00hi\x01\x00\x00\x00\x01\x00\x00\x00t",
            Change::SetVhost(about_vhost(true)),
        ),
        (
            b"\x0A\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00q\x02\x00\x00\x00\x01\x01\
              \x01\x00\x00\x00\x01\x00\x00\x00a\x02\x06\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
            Change::AddQueue(Arc::new(QueueDefinition {
                id: QueueId(5),
                vhost: VhostId(0),
                vhost_name: "".into(),
                name: "q".into(),
                log: LogId(2),
                queue_type: QueueType::Quorum,
                durable: true,
                exclusive: None,
                auto_delete: false,
                declared_by: None,
                arguments: arguments(&[("a", Value::long(-1))]),
            })),
        ),
        (
            b"\x1B\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00q\x02\x00\x00\x00\x00\x01\
              \x00\x00\x00\x00\x01\x00\x00\x00u",
            Change::AddQueue(Arc::new(QueueDefinition {
                id: QueueId(5),
                vhost: VhostId(0),
                vhost_name: "".into(),
                name: "q".into(),
                log: LogId(2),
                queue_type: QueueType::Classic,
                durable: true,
                exclusive: None,
                auto_delete: false,
                declared_by: Some("u".into()),
                arguments: Arguments::default(),
            })),
        ),
        (
            b"\x1E\x07\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00x\x02\x01\
              \x00\x00\x00\x00\x01\x00\x00\x00u",
            Change::AddExchange(Arc::new(ExchangeDefinition {
                id: ExchangeId(7),
                vhost: VhostId(2),
                name: "x".into(),
                kind: Kind::Topic,
                durable: true,
                auto_delete: false,
                internal: false,
                declared_by: Some("u".into()),
                arguments: Arguments::default(),
            })),
        ),
        (
            b"\x10\x03\x00\x00\x00\x01\x01\x00\x00\x00p\x02\x00\x00\x00^a\x03\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\
              \x01\x00\x00\x00\x07\x00\x00\x00expires\x03\x05\x00\x00\x00\x00\x00\x00\x00",
            Change::SetPolicy(Arc::new(PolicyDefinition {
                vhost: VhostId(3),
                kind: PolicyKind::Operator,
                name: "p".into(),
                pattern: Pattern::new("^a").unwrap(),
                apply_to: ApplyTo::QuorumQueues,
                priority: -2,
                definition: arguments(&[("expires", Value::Unsigned(5))]),
            })),
        ),
        (
            b"\x11\x03\x00\x00\x00\x00\x01\x00\x00\x00p",
            Change::ClearPolicy { vhost: VhostId(3), kind: PolicyKind::User, name: "p".into() },
        ),
        (
            b"\x17\x07\x00\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x38\x00\x00\x00\
              \x38\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01\x00\x01\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\
              \x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
              xk\x00\x00m5\x00\x00",
            Change::Remember { exchange: ExchangeId(7), durable: true, number: 2, message: remembered(5) },
        ),
        (b"\x18\x03\x00\x00\x00\x01", Change::Trace { vhost: VhostId(3), on: true }),
        (
            b"\x20\x03\x00\x00\x00\x02\x00\x00\x00\
              \x00\x07\x00\x00\x00\x00\x00\x00\x00\x01\x00\xff\xff\
              \x01\x08\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00",
            Change::Govern {
                vhost: VhostId(3),
                objects: [
                    Ruled { object: Destination::Queue(QueueId(7)), user: Some(1), operator: None },
                    Ruled { object: Destination::Exchange(ExchangeId(8)), user: None, operator: Some(0) },
                ]
                .into(),
            },
        ),
        (
            b"\x19\x01\x00\x00\x00p\x02\x00\x00\x00[]",
            Change::SetParameter { name: "p".into(), value: Some("[]".into()) },
        ),
        (
            b"\x1f\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
            Change::SetDigestKey(DigestKey::new(std::array::from_fn(|at| at as u8))),
        ),
        (b"\x1a\x01\x00\x00\x00p", Change::SetParameter { name: "p".into(), value: None }),
        (
            b"\x1c\x03\x00\x00\x00\x01\x00\x00\x00c\x01\x00\x00\x00p\x02\x00\x00\x00[]",
            Change::SetVhostParameter {
                vhost: VhostId(3),
                component: "c".into(),
                name: "p".into(),
                value: Some("[]".into()),
            },
        ),
        (
            b"\x1d\x03\x00\x00\x00\x01\x00\x00\x00c\x01\x00\x00\x00p",
            Change::SetVhostParameter { vhost: VhostId(3), component: "c".into(), name: "p".into(), value: None },
        ),
        (
            b"\x21\x02\x00\x07\x00\x00\x00\x00\x00\x00\x00",
            Change::NodeUp { node: NodeNo(2), incarnation: 7 },
        ),
        (
            b"\x22\x02\x00\x07\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\
              \x02\x00\x00\x00\x00\x00\x00\x00\x00",
            Change::WishDone { wish, below: 2, queue: None },
        ),
        (
            b"\x22\x02\x00\x07\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\
              \x02\x00\x00\x00\x00\x00\x00\x00\x01\x09\x00\x00\x00\x00\x00\x00\x00",
            Change::WishDone { wish, below: 2, queue: Some(QueueId(9)) },
        ),
        (b"\x23\x09\x00\x00\x00\x00\x00\x00\x00", Change::QueuesAdded { below: 9 }),
    ];
    for (bytes, change) in rows {
        assert_eq!(Change::decode(bytes).as_ref(), Ok(&change));
        assert_eq!(change.encode(), bytes);
    }
}
