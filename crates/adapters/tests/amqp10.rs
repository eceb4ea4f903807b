//! AMQP 1.0 clients against the whole broker in one process.

mod amqp10_client;
mod harness;

use adapters::Settings;
use amqp10::{Attach, Control, LinkId, Outcome, Role, SenderSettleMode, Source, Target};
use amqp10_client::*;
use base::Now;
use broker::LinkEnd;
use broker::catalog::Op;
use harness::World;
use message::amqp10::{Encoder, Map, Value};

/// An administrator's request, behind [`declare`].
fn request(world: &mut World, shard: usize, token: u32, op: broker::catalog::Op) {
    let port = base::id::PortId::here(base::id::ShardId(shard as u16), 9999, 1);
    world.shards[shard].request(world.now, port, token, op);
    world.run();
}

/// A queue is deleted as an administrator would.
fn delete(world: &mut World, shard: usize, name: &str) {
    use broker::catalog::{Op, VhostId};
    let catalog = world.shards[shard].catalog();
    let id = catalog.queue_by_name(VhostId(0), name.as_bytes()).expect("the queue is there").id;
    request(world, shard, 2, Op::DeleteQueue { id });
}

/// A broker of one shard, and ones of two where clients and queue are on different shards, and where they go there.
fn everywhere(test: impl Fn(&mut World, Client, Client)) {
    let stay = [(1, 0, 0, 0), (2, 0, 1, 1), (2, 1, 0, 1), (2, 0, 0, 1)];
    let go = [(2, 0, 1, 1), (2, 1, 0, 1), (2, 1, 0, 0)];
    let worlds = stay.map(|it| (it, false)).into_iter().chain(go.map(|it| (it, true)));
    for ((shards, home, one, other), follows) in worlds {
        let mut world = if follows { following(shards) } else { World::new(shards) };
        declare(&mut world, home, "q");
        let first = Client::open(&mut world, one);
        let second = Client::open(&mut world, other);
        test(&mut world, first, second);
    }
}

#[test]
fn a_message_goes_from_one_client_to_the_other() {
    everywhere(|world, mut one, mut other| {
        let out = one.sender(world, "out", Some("/queues/q"));
        other.receiver(world, "in", "q", 2);
        other.hears(world, &[]);
        (0..3).for_each(|number| one.send(out, number, &message(true, None, &format!("m{number}"))));
        one.hears(world, &["0..2 accepted"]);
        other.hears(world, &["0 m0", "1 m1"]);
        other.settle(0, 1, Outcome::Accepted);
        other.machine.grant(other.session, LinkId(0), 1, false);
        other.hears(world, &["2 m2"]);
        other.settle(2, 2, Outcome::Released);
        other.machine.grant(other.session, LinkId(0), 1, false);
        other.hears(world, &["3 m2 again 0"]);
        other.settle(3, 3, Outcome::Accepted);
        other.machine.grant(other.session, LinkId(0), 5, true);
        other.hears(world, &["credit 0 drain true"]);
    });
}

#[test]
fn a_connection_is_listed_with_how_it_logged_in() {
    let mut world = World::new(1);
    let _client = Client::log_in(&mut world, 0, "PLAIN", b"\0guest\0guest", "host");
    let rows = world.rows(0);
    assert_eq!((rows[0].state, &*rows[0].user, rows[0].mechanism), ("running", "guest", "PLAIN"));
}

#[test]
fn an_outcome_waits_for_the_disk() {
    everywhere(|world, mut one, _| {
        let out = one.sender(world, "out", Some("/queues/q"));
        world.is_disk_slow = true;
        one.send(out, 0, &message(true, None, "durable"));
        one.hears(world, &[]);
        world.is_disk_slow = false;
        one.hears(world, &["0..0 accepted"]);
        world.is_disk_slow = true;
        one.send(out, 1, &message(false, None, "not durable"));
        one.hears(world, &["1..1 accepted"]);
    });
}

#[test]
fn messages_say_where_they_go_on_a_link_without_an_address() {
    everywhere(|world, mut one, mut other| {
        let out = one.sender(world, "out", None);
        for (tag, to, outcome) in [
            (0, Some("/queues/q"), "0..0 accepted"),
            (1, Some("/exchanges/amq.direct/nowhere"), "1..1 released"),
            (2, Some("nonsense"), "2..2 rejected amqp:precondition-failed"),
            (3, None, "3..3 rejected amqp:precondition-failed"),
        ] {
            one.send(out, tag, &message(true, to, "m"));
            one.hears(world, &[outcome]);
        }
        other.receive("in", "/queues/q", SenderSettleMode::Settled);
        other.hears(world, &["attach in"]);
        other.machine.grant(other.session, LinkId(0), 10, false);
        assert_eq!(other.talk(world).len(), 1);
    });
}

#[test]
fn a_message_that_is_dear_to_route_is_rejected() {
    let limits = broker::Limits { route_steps_max: 3, ..Default::default() };
    let mut world = World::with(1, limits, adapters::Settings::new("rabbit@test"));
    let mut client = Client::open(&mut world, 0);
    let out = client.sender(&mut world, "out", None);
    client.send(out, 0, &message(true, Some("/exchanges/amq.topic/a.b"), "cheap"));
    client.send(out, 1, &message(true, Some(&format!("/exchanges/amq.topic/{}", "a".repeat(220))), "dear"));
    client.send(out, 2, &message(true, Some("/exchanges/amq.topic/a.b"), "next"));
    client
        .hears(&mut world, &["0..0 released", "1..1 rejected amqp:resource-limit-exceeded", "2..2 released"]);
}

#[test]
fn what_a_link_held_goes_back_when_it_goes() {
    everywhere(|world, mut one, mut other| {
        let out = one.sender(world, "out", Some("/queues/q"));
        (0..2).for_each(|number| one.send(out, number, &message(true, None, &format!("m{number}"))));
        one.hears(world, &["0..1 accepted"]);
        let held = other.receiver(world, "in", "q", 10);
        other.hears(world, &["0 m0", "1 m1"]);
        other.machine.detach(other.session, held, None, true);
        other.hears(world, &["detach"]);
        one.receiver(world, "in", "q", 1);
        one.hears(world, &["0 m0 again 1"]);
        world.cut(one.wire);
        world.run();
        other.receiver(world, "again", "q", 10);
        other.hears(world, &["2 m0 again 2", "3 m1 again 1"]);
    });
}

#[test]
fn a_quorum_queue_does_not_count_a_detach() {
    for (shards, home) in [(1, 0), (2, 1)] {
        let mut world = World::new(shards);
        let mut arguments = routing::Arguments::default();
        arguments.insert(b"x-queue-type", routing::Value::Text(b"quorum"[..].into()));
        declare_with(&mut world, home, "q", arguments);
        let mut one = Client::open(&mut world, 0);
        let mut other = Client::open(&mut world, 0);
        let out = one.sender(&mut world, "out", Some("/queues/q"));
        one.send(out, 0, &message(true, None, "m"));
        one.hears(&mut world, &["0..0 accepted"]);
        let held = other.receiver(&mut world, "in", "q", 10);
        // The flow says that it is active.
        other.hears(&mut world, &["0 m", "credit 9 of 0"]);
        other.machine.detach(other.session, held, None, true);
        other.hears(&mut world, &["detach"]);
        other.receiver(&mut world, "in", "q", 1);
        other.hears(&mut world, &["1 m again 0", "credit 0 of 0"]);
        world.cut(other.wire);
        world.run();
        one.receiver(&mut world, "in", "q", 1);
        one.hears(&mut world, &["0 m again 1", "credit 0 of 0"]);
    }
}

#[test]
fn what_is_unknown_is_refused() {
    let mut world = World::new(1);
    declare(&mut world, 0, "q");
    let mut client = Client::open(&mut world, 0);
    for (address, expected) in [
        ("/queues/nope", "detach amqp:not-found: no queue 'nope' in vhost '/'"),
        ("q", "detach amqp:invalid-field: bad source address q"),
        ("/queue/q", "detach amqp:invalid-field: bad source address /queue/q"),
    ] {
        client.receive("in", address, SenderSettleMode::Unsettled);
        let heard = client.talk(&mut world);
        assert_eq!(heard.last().map(String::as_str), Some(expected), "{heard:?}");
    }
}

/// A full stop in a name ends no sentence.
#[test]
fn refusals_name_queues_in_whole() {
    let mut world = World::new(1);
    let owner = base::id::PortId { slot: 9999, generation: 1, ..Default::default() };
    let names = ["mine", "mine. It", "a. b. c", ". ", "end.", "é. é"];
    declare(&mut world, 0, "q");
    for name in names {
        use broker::catalog::Op;
        let op = Op::DeclareQueue {
            name: name.into(),
            passive: false,
            durable: false,
            exclusive: true,
            auto_delete: false,
            arguments: routing::Arguments::default(),
            random: [0; 16],
        };
        world.shards[0].request(world.now, owner, 1, op);
        world.run();
    }
    let mut client = Client::open(&mut world, 0);
    let cases = names.into_iter().flat_map(|name| {
        let there = format!("detach amqp:resource-locked: cannot obtain exclusive access to locked queue '{name}' in vhost '/'");
        let missing = format!("detach amqp:not-found: no queue '{name}?' in vhost '/'");
        [(name.to_owned(), there), (format!("{name}?"), missing)]
    });
    for (name, expected) in cases {
        let address: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        client.receive("in", &format!("/queues/{address}"), SenderSettleMode::Unsettled);
        let heard = client.talk(&mut world);
        assert_eq!(heard.last(), Some(&expected), "{heard:?}");
    }
}

/// Publishing to an internal exchange ends a link, and a missing permission its session, by any name of the exchange.
#[test]
fn an_internal_exchange_ends_a_link_alone() {
    let mut world = World::new(1);
    declare(&mut world, 0, "q");
    let port = base::id::PortId { slot: 9999, generation: 1, ..Default::default() };
    let exchanges = [("in", true), ("in. side", true), ("forbidden to publish to internal", false)];
    for (name, internal) in exchanges {
        use broker::catalog::Op;
        let op = Op::DeclareExchange {
            name: name.into(),
            kind: "fanout".into(),
            passive: false,
            durable: true,
            auto_delete: false,
            internal,
            arguments: routing::Arguments::default(),
        };
        world.shards[0].request(world.now, port, 1, op);
        world.run();
    }
    let mut client = Client::open(&mut world, 0);
    for (name, internal) in exchanges {
        let address = format!("/exchanges/{}", name.replace(' ', "%20"));
        let target = Some(Target { address: Some(&address), ..Target::default() });
        let attach = Attach { target, source: Some(Source::default()), ..Attach::new("out", Role::Sender) };
        let link = client.machine.attach(client.session, &attach).unwrap();
        let refused = format!(
            "detach amqp:unauthorized-access: forbidden to publish to internal exchange '{name}' in vhost '/'"
        );
        let heard = client.talk(&mut world);
        match internal {
            true => assert_eq!(heard, ["attach out in vain", &refused]),
            false => {
                assert_eq!(heard, ["attach out"]);
                client.machine.detach(client.session, link, None, true);
                client.hears(&mut world, &["detach"]);
            }
        }
    }
    // By message: the link goes, and the session with its other links stays.
    client.sender(&mut world, "still", Some("/queues/q"));
    let each = client.sender(&mut world, "each", None);
    client.send(each, 0, &message(true, Some("/exchanges/in/k"), "m"));
    client.hears(
        &mut world,
        &["detach amqp:unauthorized-access: forbidden to publish to internal exchange 'in' in vhost '/'"],
    );
    client.sender(&mut world, "more", Some("/queues/q"));
}

#[test]
fn who_guesses_wrong_hears_so_after_a_silence() {
    let mut world = World::new(1);
    let mut refused = Client::log_in(&mut world, 0, "PLAIN", b"\0guest\0wrong", "vhost:/");
    world.wait(refused.wire, 2999);
    assert_eq!(refused.talk(&mut world), [""; 0], "RabbitMQ waits for 3 s");
    world.wait(refused.wire, 1);
    assert_eq!(refused.talk(&mut world), ["Auth"]);
    assert!(!refused.machine.is_open() && world.is_gone(refused.wire));
}

#[test]
fn an_echo_comes_behind_what_the_credit_led_to() {
    everywhere(|world, mut one, mut other| {
        let out = one.sender(world, "out", Some("/queues/q"));
        (0..5).for_each(|number| one.send(out, number, &message(true, None, &format!("m{number}"))));
        one.talk(world);
        let link = other.receive("in", "/queues/q", SenderSettleMode::Unsettled);
        other.hears(world, &["attach in"]);
        // A flow of session and link with echo (§2.7.4): the machine itself grants without asking.
        let flow = |credit| {
            let fields = [0x43, 0x52, 100, 0x43, 0x52, 100, 0x43, 0x43, 0x52, credit, 0x40, 0x42, 0x41];
            let mut frame = vec![0, 0, 0, 14 + fields.len() as u8, 2, 0, 0, 0, 0, 0x53, 0x13, 0xC0];
            frame.extend_from_slice(&[1 + fields.len() as u8, 10]);
            frame.extend_from_slice(&fields);
            frame
        };
        assert_eq!(link, LinkId(0));
        other.machine.grant(other.session, link, 2, false);
        other.machine.output_mut().extend(&flow(2));
        let heard = other.talk(world);
        assert_eq!(heard, ["0 m0", "1 m1", "credit 0 of 3"]);
    });
}

#[test]
fn what_is_no_message_costs_its_link() {
    everywhere(|world, mut one, _| {
        let out = one.sender(world, "out", Some("/queues/q"));
        one.send(out, 0, &[0xFF, 0xFF]);
        one.hears(world, &["detach amqp:decode-error: unexpected format code 0xff"]);
        let again = one.sender(world, "again", Some("/queues/q"));
        one.send(again, 1, &message(true, None, "m"));
        one.hears(world, &["1..1 accepted"]);
    });
}

#[test]
fn credit_is_enough_for_a_slow_disk_and_not_without_end() {
    let mut world = World::new(1);
    declare(&mut world, 0, "q");
    let mut client = Client::open(&mut world, 0);
    let out = client.sender(&mut world, "out", Some("/queues/q"));
    world.is_disk_slow = true;
    let mut sent: u32 = 0;
    let body = message(true, None, "m");
    for _ in 0..100 {
        while client.machine.credit(client.session, out).is_some_and(|(credit, _)| credit > 0) {
            client.send(out, 0, &body);
            sent += 1;
        }
        client.hears(&mut world, &[]);
    }
    let (least, most) = (170, 32_768);
    assert!((4 * least..=2 * most).contains(&sent), "{sent} were taken while nothing was confirmed");
    world.is_disk_slow = false;
    // The first came before anything was being written, the others while it was.
    let confirmed = client.talk(&mut world);
    assert_eq!(confirmed, ["0..169 accepted".to_owned(), format!("170..{} accepted", sent - 1)]);
}

#[test]
fn a_management_request_is_no_larger_than_it_may_be() {
    let mut world = World::new(1);
    for (bytes, is_taken) in [(128 << 10, true), ((128 << 10) + 1, false)] {
        let mut client = Client::open(&mut world, 0);
        let mut paired = Vec::new();
        let mut encoder = Encoder::new(&mut paired);
        encoder.symbol("paired");
        encoder.boolean(true);
        for role in [Role::Receiver, Role::Sender] {
            let attach = Attach {
                source: Some(Source { address: Some("/management"), ..Source::default() }),
                target: Some(Target { address: Some("/management"), ..Target::default() }),
                sender_settle_mode: SenderSettleMode::Settled,
                properties: Map::new(2, &paired),
                ..Attach::new("pair", role)
            };
            let link = client.machine.attach(client.session, &attach).unwrap();
            if role == Role::Receiver {
                client.machine.grant(client.session, link, 1, false);
            }
        }
        client.hears(&mut world, &["attach pair", "attach pair"]);
        let mut request = message(false, Some("/queues/q"), "");
        let empty = request.len();
        request = message(false, Some("/queues/q"), &"x".repeat(bytes - empty - 3));
        assert_eq!(request.len(), bytes);
        client.send(LinkId(1), 0, &request);
        let heard = client.talk(&mut world);
        assert_eq!(heard.last().is_some_and(|last| last.starts_with("end ")), !is_taken, "{heard:?}");
    }
}

/// A client with a coordinator, to which requests go as messages.
struct Controller {
    client: Client,
    link: LinkId,
    requests: u8,
    /// Of the transactions that were declared, the first is number 1.
    ids: Vec<Vec<u8>>,
}

impl Controller {
    fn open(world: &mut World) -> Controller {
        let mut client = Client::open(world, 0);
        let target = Some(Target { is_coordinator: true, ..Target::default() });
        let attach =
            Attach { target, source: Some(Source::default()), ..Attach::new("control", Role::Sender) };
        let link = client.machine.attach(client.session, &attach).unwrap();
        client.hears(world, &["attach control"]);
        Controller { client, link, requests: 0, ids: Vec::new() }
    }

    /// The answer to a request.
    fn ask(&mut self, world: &mut World, control: &Control<'_>) -> String {
        let mut bytes = Vec::new();
        control.write(&mut bytes);
        self.requests += 1;
        self.client.send(self.link, self.requests, &bytes);
        let heard = self.client.talk(world);
        heard.last().and_then(|told| told.split_once(' ')).map_or("", |(_, what)| what).to_owned()
    }

    /// Declares a transaction: the answer, "declared" where it was.
    fn declare(&mut self, world: &mut World) -> String {
        let answer = self.ask(world, &Control::Declare { is_global: false });
        let Some(id) = answer.strip_prefix("Some(Declared([").and_then(|rest| rest.strip_suffix("]))"))
        else {
            return answer;
        };
        self.ids.push(id.split(", ").map(|byte| byte.parse().expect("bytes are shown as numbers")).collect());
        "declared".to_owned()
    }

    fn discharge(&mut self, world: &mut World, number: usize) -> String {
        let id = self.ids[number - 1].clone();
        self.ask(world, &Control::Discharge { id: &id, fail: false })
    }

    /// Posts a message on link 1 in a transaction: a transfer of our own making (§2.7.5), as the machine has no verb.
    fn post(&mut self, world: &mut World, delivery_id: u8, number: usize, message: &[u8]) -> String {
        let mut frame = vec![0, 0, 0, 0, 2, 0, 0, 0];
        let mut encoder = Encoder::new(&mut frame);
        encoder.descriptor(0x14);
        let mut list = encoder.list();
        encoder.uint(1);
        list.field(&encoder);
        encoder.uint(delivery_id.into());
        list.field(&encoder);
        encoder.binary(&[delivery_id]);
        list.field(&encoder);
        (0..4).for_each(|_| list.skip(&mut encoder));
        Outcome::Transactional { id: &self.ids[number - 1], outcome: Value::Null }.write(&mut encoder);
        list.field(&encoder);
        encoder.close(list);
        frame.extend_from_slice(message);
        let size = (frame.len() as u32).to_be_bytes();
        frame[..4].copy_from_slice(&size);
        self.client.machine.output_mut().extend(&frame);
        self.client.talk(world).concat()
    }
}

#[test]
fn there_is_an_end_of_transactions() {
    let mut world = World::new(1);
    let mut controller = Controller::open(&mut world);
    (1..=64).for_each(|_| assert_eq!(controller.declare(&mut world), "declared"));
    assert_eq!(controller.declare(&mut world), "rejected amqp:resource-limit-exceeded");
    assert_eq!(controller.discharge(&mut world, 7), "accepted");
    assert_eq!(controller.discharge(&mut world, 7), "rejected amqp:transaction:unknown-id");
    assert_eq!(controller.declare(&mut world), "declared");
    // Nobody can tell one from another, or guess the next.
    let mut ids = controller.ids.clone();
    ids.sort();
    ids.dedup();
    assert!(ids.len() == 65 && ids.iter().all(|id| id.len() == 16));
}

#[test]
fn a_transaction_holds_no_more_than_it_may() {
    let settings = Settings { transaction_bytes_max: 3000, ..Settings::new("rabbit@test") };
    let mut world = World::with(1, broker::Limits::default(), settings);
    declare(&mut world, 0, "q");
    let mut controller = Controller::open(&mut world);
    let out = controller.client.sender(&mut world, "out", Some("/queues/q"));
    assert_eq!(out, LinkId(1));
    for _ in [1, 2] {
        assert_eq!(controller.declare(&mut world), "declared");
    }
    let large = message(true, None, &"x".repeat(900));
    assert!(controller.post(&mut world, 10, 1, &large).contains("Transactional"));
    // All transactions of a connection share the room.
    let full = controller.post(&mut world, 11, 2, &message(true, None, &"x".repeat(1000)));
    // Its outcome is to be rejected (§3.4.3), as the encoding of it says.
    assert!(full.contains("Transactional") && full.contains("descriptor: [83, 37]"), "{full}");
    assert_eq!(controller.discharge(&mut world, 2), "rejected amqp:transaction:rollback");
    assert_eq!(controller.discharge(&mut world, 1), "accepted");
    let mut other = Client::open(&mut world, 0);
    other.receiver(&mut world, "in", "q", 5);
    assert_eq!(other.talk(&mut world).len(), 1);
}

#[test]
fn a_transaction_takes_no_more_work_than_it_may() {
    let settings = Settings { transaction_work_max: 1_000, ..Settings::new("rabbit@test") };
    let mut world = World::with(1, broker::Limits::default(), settings);
    declare(&mut world, 0, "q");
    let mut controller = Controller::open(&mut world);
    controller.client.sender(&mut world, "out", Some("/queues/q"));
    for messages in [50, 60] {
        assert_eq!(controller.declare(&mut world), "declared");
        let number = controller.ids.len();
        for at in 0..messages {
            let delivery_id = 10 + at + if messages == 50 { 0 } else { 50 };
            let posted = controller.post(&mut world, delivery_id, number, &message(true, None, "m"));
            assert!(posted.contains("Transactional"), "{posted}");
        }
        // Some are free, and each further one is 40 units.
        let expected = if messages == 50 { "accepted" } else { "rejected amqp:resource-limit-exceeded" };
        assert_eq!(controller.discharge(&mut world, number), expected);
    }
    let mut other = Client::open(&mut world, 0);
    other.receiver(&mut world, "in", "q", 200);
    assert_eq!(other.talk(&mut world).len(), 50);
}

#[test]
fn a_commit_waits_for_the_disk() {
    let mut world = World::new(1);
    declare(&mut world, 0, "q");
    let mut controller = Controller::open(&mut world);
    controller.client.sender(&mut world, "out", Some("/queues/q"));
    assert_eq!(controller.declare(&mut world), "declared");
    controller.post(&mut world, 10, 1, &message(true, None, "m"));
    world.is_disk_slow = true;
    assert_eq!(controller.discharge(&mut world, 1), "");
    world.is_disk_slow = false;
    assert!(controller.client.talk(&mut world).concat().ends_with("accepted"));
}

#[test]
fn a_transaction_that_takes_too_long_is_given_up() {
    let mut world = World::new(1);
    declare(&mut world, 0, "q");
    let mut controller = Controller::open(&mut world);
    controller.client.sender(&mut world, "out", Some("/queues/q"));
    assert_eq!(controller.declare(&mut world), "declared");
    controller.post(&mut world, 10, 1, &message(true, None, "m"));
    world.now = Now::at_ms(301_000 + 1_000);
    let (front, shard) = (&mut world.fronts[0], &mut world.shards[0]);
    // The only connection there is.
    assert!(front.deadline(0).is_some_and(|at| at <= world.now.mono_ns));
    front.handle_deadline(world.now, shard, 0);
    assert_eq!(controller.discharge(&mut world, 1), "rejected amqp:transaction:timeout");
}

/// A message that may no longer be published at the discharge undoes the transaction: it is never accepted without its
/// messages.
#[test]
fn a_transaction_whose_log_was_stopped_is_refused_as_a_whole() {
    let mut world = World::new(1);
    declare(&mut world, 0, "q");
    let mut controller = Controller::open(&mut world);
    controller.client.sender(&mut world, "out", Some("/queues/q"));
    assert_eq!(controller.declare(&mut world), "declared");
    controller.post(&mut world, 10, 1, &message(true, None, "m"));
    let log = world.shards[0].catalog().queues().next().expect("declared above").log;
    world.shards[0].stop_log(log);
    assert_eq!(controller.discharge(&mut world, 1), "rejected amqp:transaction:rollback");
}

/// Whether a message is routed is asked before the discharge is granted: of the message as it is published then.
#[test]
fn a_transaction_is_routed_by_what_the_node_writes_on_its_messages() {
    use broker::catalog::Op;
    use message::stamps::{NODE, Stamps};
    let check = |bound_to: &str, expected: &str| {
        let stamps = Stamps { time: None, node: Some(("n@h".into(), true)) };
        let settings = Settings { stamps: Some(Box::new(stamps)), ..Settings::new("rabbit@test") };
        let mut world = World::with(1, broker::Limits::default(), settings);
        declare(&mut world, 0, "q");
        let mut arguments = routing::Arguments::default();
        arguments.insert(b"x-match", routing::Value::text("any-with-x"));
        arguments.insert(NODE.as_bytes(), routing::Value::text(bound_to));
        let (queue, exchange, key) = ("q".into(), "amq.headers".into(), "".into());
        request(&mut world, 0, 3, Op::BindQueue { queue, exchange, key, arguments });
        let mut controller = Controller::open(&mut world);
        controller.client.sender(&mut world, "out", Some("/exchanges/amq.headers"));
        assert_eq!(controller.declare(&mut world), "declared");
        let mut theirs = Vec::new();
        let mut encoder = Encoder::new(&mut theirs);
        encoder.descriptor(0x72);
        let mut map = encoder.map();
        encoder.symbol(NODE);
        map.field(&encoder);
        encoder.string("me");
        map.field(&encoder);
        encoder.close(map);
        // An empty data section.
        theirs.extend_from_slice(&[0, 0x53, 0x75, 0xA0, 0]);
        controller.post(&mut world, 10, 1, &theirs);
        assert_eq!(controller.discharge(&mut world, 1), expected, "{bound_to}");
    };
    check("n@h", "accepted");
    check("me", "rejected amqp:transaction:rollback");
}

#[test]
fn senders_of_a_session_hear_that_their_queue_is_deleted() {
    for (shards, home, at) in [(1, 0, 0), (2, 0, 1), (2, 1, 0)] {
        let mut world = World::new(shards);
        declare(&mut world, home, "q");
        let mut used = Client::open(&mut world, at);
        let mut idle = Client::open(&mut world, at);
        let one = used.sender(&mut world, "one", Some("/queues/q"));
        used.sender(&mut world, "two", Some("/queues/q"));
        used.sender(&mut world, "other", Some("/exchanges/amq.fanout"));
        used.send(one, 0, &message(true, None, "m"));
        used.hears(&mut world, &["0..0 accepted"]);
        let unused = idle.sender(&mut world, "unused", Some("/queues/q"));
        delete(&mut world, home, "q");
        let gone = "detach amqp:resource-deleted: ";
        used.hears(&mut world, &[gone, gone]);
        idle.hears(&mut world, &[]);
        idle.send(unused, 0, &message(true, None, "m"));
        idle.hears(&mut world, &["0..0 released"]);
        // A sender that has gone is not told of the next queue of that name.
        declare(&mut world, home, "q");
        let again = used.sender(&mut world, "again", Some("/queues/q"));
        used.send(again, 1, &message(true, None, "m"));
        used.hears(&mut world, &["1..1 accepted"]);
        used.machine.detach(used.session, again, None, true);
        used.hears(&mut world, &["detach"]);
        delete(&mut world, home, "q");
        used.hears(&mut world, &[]);
    }
}

#[test]
fn a_sender_goes_where_its_queue_is_and_still_hears_of_its_end() {
    let mut world = following(2);
    declare(&mut world, 1, "q");
    let mut sender = Client::open(&mut world, 0);
    let out = sender.sender(&mut world, "out", Some("/queues/q"));
    for number in 0..40 {
        sender.send(out, number, &message(true, None, &format!("m{number}")));
        sender.hears(&mut world, &[&format!("{number}..{number} accepted")]);
    }
    assert_eq!(world.shard_of(sender.wire), 1);
    let mut receiver = Client::open(&mut world, 0);
    receiver.receiver(&mut world, "in", "q", 40);
    let expected: Vec<_> = (0..40).map(|number| format!("{number} m{number}")).collect();
    assert_eq!(receiver.talk(&mut world), expected);
    assert_eq!(world.shard_of(receiver.wire), 1, "it has gone there before it was attached");
    delete(&mut world, 1, "q");
    sender.hears(&mut world, &["detach amqp:resource-deleted: "]);
    assert_eq!(receiver.talk(&mut world), ["detach amqp:resource-deleted: "]);
}

#[test]
fn who_has_both_ends_stays_or_goes_as_a_whole() {
    let mut world = following(2);
    declare(&mut world, 1, "far");
    declare(&mut world, 0, "near");
    let mut both = Client::open(&mut world, 0);
    both.receiver(&mut world, "in", "near", 0);
    let out = both.sender(&mut world, "out", Some("/queues/far"));
    for number in 0..40 {
        both.send(out, number, &message(true, None, "m"));
        both.hears(&mut world, &[&format!("{number}..{number} accepted")]);
    }
    assert_eq!(world.shard_of(both.wire), 0, "it receives where it is");
    let mut both = Client::open(&mut world, 0);
    both.sender(&mut world, "out", Some("/queues/near"));
    both.receiver(&mut world, "in", "far", 0);
    assert_eq!(world.shard_of(both.wire), 1, "it has not sent yet");
}

#[test]
fn sessions_are_listed_with_their_links() {
    everywhere(|world, mut one, mut other| {
        let out = one.sender(world, "out", Some("/queues/q"));
        one.sender(world, "each", None);
        let attach = Attach {
            target: Some(Target { address: Some("/exchanges/amq.topic/a%2Fb"), ..Target::default() }),
            source: Some(Source::default()),
            sender_settle_mode: SenderSettleMode::Settled,
            ..Attach::new("topic", Role::Sender)
        };
        one.machine.attach(one.session, &attach).unwrap();
        one.hears(world, &["attach topic"]);
        world.is_disk_slow = true;
        (0..3).for_each(|number| one.send(out, number, &message(true, None, "m")));
        one.hears(world, &[]);
        let row = world.sessions(one.wire).remove(0);
        assert_eq!((row.channel, row.handle_max, row.next_incoming_id, row.unsettled), (0, 255, 3, 0));
        assert_eq!(row.remote_outgoing_window, u32::MAX - 3, "what the client said less what it sent");
        let told: Vec<_> = row.links.iter().map(|it| (it.handle, &*it.name, it.address.as_deref())).collect();
        let topic = Some("/exchanges/amq.topic/a%2Fb");
        assert_eq!(told, [(0, "out", Some("/queues/q")), (1, "each", None), (2, "topic", topic)]);
        let ends: Vec<LinkEnd> = row.links.iter().map(|link| link.end.clone()).collect();
        let incoming = |settles, unconfirmed| LinkEnd::Incoming { settles, unconfirmed };
        assert_eq!(ends, [incoming("mixed", 3), incoming("mixed", 0), incoming("settled", 0)]);
        assert_eq!((row.links[0].delivery_count, row.links[0].message_bytes_max), (3, Some(16 << 20)));
        world.is_disk_slow = false;
        one.hears(world, &["0..2 accepted"]);
        assert_eq!(world.sessions(one.wire)[0].links[0].end, incoming("mixed", 0));

        let mut encoded = Vec::new();
        let mut encoder = Encoder::new(&mut encoded);
        encoder.symbol("rabbitmq:stream-offset-spec");
        encoder.encoding(&[0x00]);
        encoder.symbol("rabbitmq:stream-offset-spec");
        encoder.string("first");
        let filter = Some(Map::new(2, &encoded));
        let attach = Attach {
            source: Some(Source { address: Some("/queues/q"), filter, ..Source::default() }),
            target: Some(Target::default()),
            sender_settle_mode: SenderSettleMode::Unsettled,
            max_message_size: Some(5000),
            ..Attach::new("in", Role::Receiver)
        };
        other.machine.attach(other.session, &attach).unwrap();
        other.hears(world, &["attach in"]);
        other.machine.grant(other.session, LinkId(0), 2, false);
        other.hears(world, &["0 m", "1 m"]);
        let sums = world.sums();
        assert_eq!((sums.senders, sums.consumers, sums.connections.channels), (3, [0, 1, 0], 2));
        let row = world.sessions(other.wire).remove(0);
        assert_eq!((row.next_outgoing_id, row.unsettled, row.links.len()), (2, 2, 1));
        let link = &row.links[0];
        assert_eq!((link.delivery_count, link.credit, link.message_bytes_max), (2, 0, Some(5000)));
        let LinkEnd::Outgoing { queue, settled: false, filter, has_timed_out: false } = &link.end else {
            panic!("{link:?}");
        };
        let mut expected = Vec::new();
        Encoder::new(&mut expected).value(Value::Map(Map::new(2, &encoded)));
        assert_eq!((&**queue, &**filter), ("q", &*expected));
    });
}

#[test]
fn a_transaction_finds_no_room_in_the_ledger() {
    use broker::ledger::{Ledger, LedgerLimits};
    let limits = LedgerLimits { connection_max: Some(3000), ..LedgerLimits::default() };
    let ledger = std::sync::Arc::new(Ledger::new(limits));
    let settings = Settings::new("rabbit@test");
    let mut world = World::with_ledger(1, broker::Limits::default(), settings, ledger.clone());
    declare(&mut world, 0, "q");
    let mut controller = Controller::open(&mut world);
    controller.client.sender(&mut world, "out", Some("/queues/q"));
    (0..2).for_each(|_| assert_eq!(controller.declare(&mut world), "declared"));
    let large = message(true, None, &"x".repeat(1450));
    assert!(controller.post(&mut world, 10, 1, &large).contains("Transactional"));
    let held = ledger.held();
    assert!(held > 1300, "{held}");
    let full = controller.post(&mut world, 11, 2, &large);
    assert!(full.contains("Transactional") && full.contains("descriptor: [83, 37]"), "{full}");
    assert_eq!(controller.discharge(&mut world, 2), "rejected amqp:resource-limit-exceeded");
    assert_eq!(controller.discharge(&mut world, 1), "accepted");
    assert_eq!(ledger.held(), 0);
    // There is room again; a coordinator that goes gives back what its transactions have.
    assert_eq!(controller.declare(&mut world), "declared");
    assert!(controller.post(&mut world, 12, 3, &large).contains("Transactional"));
    assert!(ledger.held() > 1300);
    let (session, link) = (controller.client.session, controller.link);
    controller.client.machine.detach(session, link, None, true);
    controller.client.talk(&mut world);
    assert_eq!(ledger.held(), 0);
}

/// A peer need not answer a close at once: its transactions hold nothing meanwhile, and its deliveries are back.
#[test]
fn a_connection_that_is_closed_holds_nothing_while_its_peer_does_not_answer() {
    use broker::ledger::{Ledger, LedgerLimits};
    let ledger = std::sync::Arc::new(Ledger::new(LedgerLimits::default()));
    let settings = Settings::new("rabbit@test");
    let mut world = World::with_ledger(1, broker::Limits::default(), settings, ledger.clone());
    world.add_user("other");
    declare(&mut world, 0, "q");
    let mut controller = Controller::open(&mut world);
    controller.client.sender(&mut world, "out", Some("/queues/q"));
    assert_eq!(controller.declare(&mut world), "declared");
    let posted = message(true, None, &"x".repeat(1450));
    assert!(controller.post(&mut world, 10, 1, &posted).contains("Transactional"));
    let mut publisher = Client::log_in(&mut world, 0, "PLAIN", b"\0other\0other", "vhost:/");
    publisher.session = publisher.machine.begin(Map::default()).unwrap();
    publisher.hears(&mut world, &["begin"]);
    let out = publisher.sender(&mut world, "out", Some("/queues/q"));
    controller.client.receiver(&mut world, "in", "q", 5);
    publisher.send(out, 1, &message(true, None, "m"));
    publisher.talk(&mut world);
    assert_eq!(controller.client.talk(&mut world).len(), 1);
    assert!(ledger.held() > 1300);
    // It hears nothing from here on, and says nothing.
    let wire = controller.client.wire;
    world.ignore(wire, true);
    world.request(Op::DeleteUser { name: "guest".into() });
    assert!(!world.is_gone(wire));
    assert_eq!(ledger.held(), 0);
    publisher.receiver(&mut world, "in", "q", 5);
    assert_eq!(publisher.talk(&mut world).len(), 1, "the delivery is back, and nothing was committed");
}

/// Another shard, or the next turn of the same one, says whether a connection of somebody with a limit may be open.
#[test]
fn input_right_behind_an_open_that_is_asked_for_is_heard() {
    for shards in [1, 2] {
        for connections_max in [None, Some(9)] {
            let limits = broker::Limits { connections_max, ..broker::Limits::default() };
            let mut world = World::with(shards, limits, adapters::Settings::new("rabbit@test"));
            let mut client = Client::open_hastily(&mut world, usize::from(shards) - 1);
            let heard = client.talk(&mut world);
            assert!(client.machine.is_open() && client.heard.is_empty(), "{heard:?}");
            declare(&mut world, 0, "q");
            client.sender(&mut world, "out", Some("/queues/q"));
        }
    }
}
