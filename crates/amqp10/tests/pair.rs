//! A client against a server: every exchange also with the bytes split at other places, and with ids that wrap.

use amqp10::{
    AMQP_HEADER, Attach, Body, Config, Connection, Delivery, Error, Event, Input, Limits, LinkId, NotSent,
    Open, Outcome, Role, Room, SASL_HEADER, SaslCode, SessionId, Source, Target, condition,
};
use base::Now;
use base::memory::Buffer;
use message::amqp10::Map;
use std::sync::Arc;

static LIMITS: Limits = Limits {
    frame_bytes_before_open: 8192,
    frame_bytes_max: 1024,
    sessions_max: 4,
    links_max: 4,
    link_name_bytes_max: 100,
    incoming_window_max: 10,
    message_bytes_max: 100_000,
    assembly_bytes_max: 150_000,
    unsettled_max: 50,
    handshake_ms: 10_000,
    close_ms: 10_000,
    idle_ms: 30_000,
};

fn config(first_id: u32) -> Config {
    Config { limits: Arc::new(LIMITS), mechanisms: &["PLAIN", "ANONYMOUS"], first_id }
}

/// A peer, the bytes it has not taken yet, and the events it told.
struct Peer {
    connection: Connection,
    inbox: Vec<u8>,
    told: Vec<String>,
    /// Credit it grants on a link that it receives on.
    grants: u32,
    refuses: bool,
}

impl Peer {
    fn new(connection: Connection) -> Peer {
        Peer { connection, inbox: Vec::new(), told: Vec::new(), grants: 5, refuses: false }
    }

    /// Takes the bytes in the inbox and answers as every peer does.
    fn look(&mut self, now: Now) {
        let mut input = Input::new(&self.inbox);
        let connection = &mut self.connection;
        while let Some(event) = connection.poll_event(now, &mut input) {
            self.told.push(tell(&event));
            match event {
                Event::SaslMechanisms(_) => connection.sasl_init("PLAIN", Some(b"\0guest\0guest"), None),
                Event::SaslInit { .. } => connection.sasl_outcome(SaslCode::Ok),
                Event::SaslOutcome(SaslCode::Ok) => {
                    connection.open(&Open { hostname: Some("vhost:/"), ..Open::new("client") });
                }
                Event::Open(open) if open.container_id == "client" => connection.open(&Open::new("server")),
                Event::Attach { session, link, is_answer: false, attach } => {
                    if self.refuses {
                        let error = Error::new(condition::NOT_FOUND, "no such queue");
                        connection.refuse_attach(session, link, &attach, error);
                    } else {
                        connection.answer_attach(session, link, &attach);
                        if attach.role == Role::Sender && self.grants > 0 {
                            connection.grant(session, link, self.grants, false);
                        }
                    }
                }
                _ => {}
            }
        }
        let left = input.len();
        assert!(left == 0 || connection.wanted() > left || !connection.is_open(), "a whole frame was left");
        self.inbox.drain(..self.inbox.len() - left);
    }
}

/// Events as text, payloads as their length.
fn tell(event: &Event<'_>) -> String {
    let transfer = |t: amqp10::Transfer<'_>| {
        let (link, id, credit) = (t.link.0, t.delivery_id, t.credit);
        let sum = t.payload.iter().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
        format!("transfer {link} {id} {:?} {} {credit} {} {sum}", t.tag, t.settled, t.payload.len())
    };
    match event {
        Event::Transfer(t) => transfer(*t),
        Event::Assembled(assembled) => transfer(assembled.transfer()),
        Event::Attach { link, is_answer, attach, .. } => {
            let source = attach.source.and_then(|source| source.address);
            let target = attach.target.and_then(|target| target.address);
            format!("attach {} {} {:?} {source:?} {target:?} {is_answer}", link.0, attach.name, attach.role)
        }
        Event::Begin { session, begin } => format!("begin {} {:?}", session.0, begin.remote_channel),
        Event::Flow(flow) => format!("flow {} {} {}", flow.link.0, flow.credit, flow.drain),
        Event::Window { session } => format!("window {}", session.0),
        Event::Open(open) => format!("open {} {:?} {}", open.container_id, open.hostname, open.channel_max),
        Event::SaslMechanisms(symbols) => format!("mechanisms {:?}", symbols.iter().collect::<Vec<_>>()),
        other => format!("{other:?}"),
    }
}

struct Pair {
    client: Peer,
    server: Peer,
    now: Now,
    /// Bytes that are handed over at a time.
    step: usize,
}

impl Pair {
    fn new(step: usize, first_id: u32) -> Pair {
        let now = Now::at_ms(0);
        let client = Peer::new(Connection::client(config(first_id), now));
        let server = Peer::new(Connection::server(config(first_id), now));
        Pair { client, server, now, step }
    }

    fn open(step: usize, first_id: u32) -> Pair {
        let mut pair = Pair::new(step, first_id);
        pair.pump();
        assert!(pair.client.connection.is_open() && pair.server.connection.is_open());
        pair.client.told.clear();
        pair.server.told.clear();
        pair
    }

    /// Until neither has anything to say.
    fn pump(&mut self) {
        while hand_over(&mut self.client, &mut self.server, self.now, self.step)
            | hand_over(&mut self.server, &mut self.client, self.now, self.step)
        {}
    }

    fn begin(&mut self) -> SessionId {
        let session = self.client.connection.begin(Map::default()).unwrap();
        self.pump();
        session
    }

    fn attach(&mut self, session: SessionId, name: &str, role: Role) -> LinkId {
        let address = Some("/queues/q");
        let attach = Attach {
            source: Some(Source { address, ..Source::default() }),
            target: Some(Target { address, ..Target::default() }),
            ..Attach::new(name, role)
        };
        let link = self.client.connection.attach(session, &attach).unwrap();
        self.pump();
        link
    }

    fn told(&mut self) -> (Vec<String>, Vec<String>) {
        (std::mem::take(&mut self.client.told), std::mem::take(&mut self.server.told))
    }
}

fn hand_over(from: &mut Peer, to: &mut Peer, now: Now, step: usize) -> bool {
    let output = from.connection.output_mut();
    let bytes = output.to_vec();
    output.sent(bytes.len());
    for piece in bytes.chunks(step) {
        to.inbox.extend_from_slice(piece);
        to.look(now);
    }
    !bytes.is_empty()
}

fn delivery<'a>(tag: &'a [u8], token: u64, body: &'a [u8]) -> Delivery<'a> {
    Delivery { tag, settled: false, token, head: &[], body: Body::Bytes(body) }
}

/// Runs `exchange` with many splits and first ids; the events must not depend on the split.
fn every_split(exchange: impl Fn(usize, u32) -> (Vec<String>, Vec<String>)) {
    for first_id in [0, u32::MAX - 3] {
        let whole = exchange(usize::MAX, first_id);
        for step in [1, 2, 3, 5, 7, 8, 9, 13, 64, 1000] {
            assert_eq!(exchange(step, first_id), whole, "step {step}");
        }
    }
}

#[test]
fn handshake() {
    every_split(|step, first_id| {
        let mut pair = Pair::new(step, first_id);
        pair.pump();
        let told = pair.told();
        assert_eq!(
            told.0,
            ["mechanisms [\"PLAIN\", \"ANONYMOUS\"]", "SaslOutcome(Ok)", "open server None 3"]
        );
        assert_eq!(told.1[1..], ["open client Some(\"vhost:/\") 3"]);
        pair.client.connection.close(None);
        pair.pump();
        assert_eq!(pair.told(), (vec!["Close(None)".into()], vec!["Close(None)".into()]));
        assert!(pair.client.connection.is_finished() && pair.server.connection.is_finished());
        told
    });
}

#[test]
fn small_and_large_deliveries_both_ways() {
    every_split(|step, first_id| {
        let mut pair = Pair::open(step, first_id);
        let session = pair.begin();
        let sender = pair.attach(session, "out", Role::Sender);
        let receiver = pair.attach(session, "in", Role::Receiver);
        assert_eq!(pair.client.connection.credit(session, sender), Some((5, 0)));
        let large: Vec<u8> = (0..20_000u32).map(|i| (i * 7) as u8).collect();
        for (i, body) in
            [&b"small"[..], &large, b"", &large[..989], &large[..990], b"over"].into_iter().enumerate()
        {
            let sent =
                pair.client.connection.transfer(session, sender, &delivery(&[i as u8], i as u64, body));
            let id = first_id.wrapping_add(i as u32);
            assert_eq!(sent, if i < 5 { Ok(id) } else { Err(NotSent::NoCredit) });
        }
        pair.pump();
        assert_eq!(pair.client.connection.queued(session), 0);
        pair.client.connection.grant(session, receiver, 3, false);
        pair.pump();
        // A large body by reference, as a log would give it.
        let mut buffer = Buffer::default();
        buffer.extend(&large);
        let memory = buffer.seal();
        for tag in [b"a", b"b", b"c"] {
            let body = Body::Memory(&memory, 1..15_000);
            let delivery = Delivery { tag, settled: tag == b"c", token: 0, head: &[b"head", b"er"], body };
            pair.server.connection.transfer(SessionId(0), receiver, &delivery).unwrap();
        }
        pair.pump();
        let told = pair.told();
        assert_eq!(told.1.iter().filter(|told| told.starts_with("transfer")).count(), 5);
        assert_eq!(told.0.iter().filter(|told| told.starts_with("transfer")).count(), 3);
        told
    });
}

#[test]
fn settlement_is_joined_and_walked() {
    every_split(|step, first_id| {
        let mut pair = Pair::open(step, first_id);
        pair.server.grants = 100;
        let session = pair.begin();
        let [one, two] = ["one", "two"].map(|name| pair.attach(session, name, Role::Sender));
        let id = |n: u32| first_id.wrapping_add(n);
        for n in 0..8u32 {
            let link = if n < 5 { one } else { two };
            let sent = pair.client.connection.transfer(
                session,
                link,
                &delivery(&[n as u8], 100 + u64::from(n), b"x"),
            );
            assert_eq!(sent, Ok(id(n)));
        }
        pair.pump();
        assert_eq!(pair.client.connection.unsettled(session), 8);
        pair.told();
        let server = &mut pair.server.connection;
        for n in 0..6 {
            server.settle_incoming(SessionId(0), id(n), id(n), &Outcome::Accepted);
        }
        let rejected = Outcome::Rejected(Some(Error::new(condition::PRECONDITION_FAILED, "full")));
        server.settle_incoming(SessionId(0), id(6), id(6), &rejected);
        server.settle_incoming(SessionId(0), id(7), id(7), &Outcome::Released);
        pair.pump();
        let told = pair.told();
        assert_eq!(told.0.len(), 3, "{told:?}");
        assert!(told.0[0].contains(&format!("first: {}, last: {}, settled: true", id(0), id(5))), "{told:?}");
        let mut runs = Vec::new();
        pair.client
            .connection
            .settle(session, id(0), id(7), |run| runs.push((run.link, run.token, run.count)));
        assert_eq!(runs, [(one.0, 100, 5), (two.0, 105, 3)]);
        assert_eq!(pair.client.connection.unsettled(session), 0);
        told
    });
}

#[test]
fn the_window_is_kept_and_opened_again() {
    every_split(|step, first_id| {
        let mut pair = Pair::open(step, first_id);
        pair.server.grants = 40;
        let session = pair.begin();
        let link = pair.attach(session, "out", Role::Sender);
        pair.server.connection.block(SessionId(0), true);
        pair.pump();
        for n in 0..40 {
            pair.client.connection.transfer(session, link, &delivery(&[n], n.into(), b"x")).unwrap();
        }
        pair.pump();
        // The server took nothing: the client heard of the shut window before it sent.
        assert_eq!(pair.client.connection.queued(session), 40);
        pair.server.connection.block(SessionId(0), false);
        pair.pump();
        assert_eq!(pair.client.connection.queued(session), 0);
        let told = pair.told();
        assert_eq!(told.1.iter().filter(|told| told.starts_with("transfer")).count(), 40);
        (Vec::new(), told.1)
    });
}

#[test]
fn there_is_room_for_what_is_settled_whatever_is_unsettled() {
    for first_id in [0, u32::MAX - 30] {
        let mut pair = Pair::open(usize::MAX, first_id);
        pair.server.grants = 200;
        let session = pair.begin();
        let link = pair.attach(session, "out", Role::Sender);
        let client = &mut pair.client.connection;
        let (mut sent, max) = (0, LIMITS.unsettled_max);
        for n in 0..max {
            let room = if n < max - max / 8 { Room::Anything } else { Room::Settled };
            // No window has opened since the tenth.
            let room = if n > 10 { Room::Nothing } else { room };
            assert_eq!(client.room(session), room, "{n}");
            client.transfer(session, link, &delivery(&[n as u8], n.into(), b"x")).unwrap();
            sent += 1;
        }
        let one_more = delivery(b"t", 0, b"x");
        assert_eq!(client.transfer(session, link, &one_more), Err(NotSent::TooManyUnsettled));
        for _ in 0..20 {
            let settled = Delivery { settled: true, ..one_more.clone() };
            assert_eq!(client.transfer(session, link, &settled), Ok(first_id.wrapping_add(sent)));
            sent += 1;
        }
        assert_eq!(client.unsettled(session), max as usize);
        assert_eq!(client.limit(session, link), Some((200, false)));
        pair.pump();
        let client = &mut pair.client.connection;
        assert_eq!(client.room(session), Room::Settled);
        let told = pair.server.told.iter().filter(|told| told.starts_with("transfer"));
        assert_eq!(told.count(), sent as usize);
        client.settle(session, first_id, first_id.wrapping_add(max / 8 - 1), |_| {});
        assert_eq!(client.room(session), Room::Settled);
        client.settle(session, first_id, first_id.wrapping_add(max / 8), |_| {});
        assert_eq!(client.room(session), Room::Anything);
        assert_eq!(client.transfer(session, link, &one_more), Ok(first_id.wrapping_add(sent)));
    }
}

#[test]
fn a_blocked_session_still_takes_what_was_under_way() {
    let mut pair = Pair::open(usize::MAX, 0);
    pair.server.grants = 40;
    let session = pair.begin();
    let link = pair.attach(session, "out", Role::Sender);
    for n in 0..40 {
        pair.client.connection.transfer(session, link, &delivery(&[n], n.into(), b"x")).unwrap();
    }
    pair.server.connection.block(SessionId(0), true);
    pair.pump();
    let told = pair.told();
    assert_eq!(told.1.iter().filter(|told| told.starts_with("transfer")).count(), 10);
    assert_eq!(pair.client.connection.queued(session), 30);
}

#[test]
fn drain_gives_credit_back() {
    every_split(|step, first_id| {
        let mut pair = Pair::open(step, first_id);
        let session = pair.begin();
        let link = pair.attach(session, "in", Role::Receiver);
        pair.client.connection.grant(session, link, 10, true);
        pair.pump();
        pair.server.connection.transfer(SessionId(0), link, &delivery(b"t", 0, b"x")).unwrap();
        pair.server.connection.drained(SessionId(0), link, 9, Map::default());
        pair.pump();
        assert_eq!(pair.client.connection.credit(session, link), Some((0, 10)));
        assert_eq!(pair.server.connection.credit(SessionId(0), link), Some((0, 10)));
        pair.told()
    });
}

#[test]
fn what_was_granted_while_a_link_drained_stays() {
    let mut pair = Pair::open(usize::MAX, 0);
    let session = pair.begin();
    let link = pair.attach(session, "in", Role::Receiver);
    pair.client.connection.grant(session, link, 12, true);
    pair.pump();
    // Ten of them are used up by an earlier drain; two were granted since, to be drained too.
    for (unused, credit) in [(10, (2, 10)), (2, (0, 12))] {
        pair.server.connection.drained(SessionId(0), link, unused, Map::default());
        pair.pump();
        assert_eq!(pair.client.connection.credit(session, link), Some(credit));
        let told = pair.told().0;
        assert!(
            told.iter().any(|told| told.starts_with("flow") && told.ends_with("true")),
            "{unused}: {told:?}"
        );
    }
}

#[test]
fn refused_and_detached_links_free_their_handles() {
    every_split(|step, first_id| {
        let mut pair = Pair::open(step, first_id);
        let session = pair.begin();
        pair.server.refuses = true;
        pair.attach(session, "refused", Role::Sender);
        pair.server.refuses = false;
        for round in 0..10 {
            let link = pair.attach(session, &format!("link {round}"), Role::Sender);
            assert_eq!(link.0, 0);
            pair.client.connection.transfer(session, link, &delivery(b"t", 0, b"x")).unwrap();
            pair.client.connection.detach(session, link, None, true);
            assert_eq!(pair.client.connection.unsettled(session), 0);
            pair.pump();
        }
        pair.client.connection.end(session, None);
        pair.pump();
        assert_eq!(pair.begin(), session);
        pair.told()
    });
}

#[test]
fn too_large_a_message_costs_its_session() {
    let mut pair = Pair::open(usize::MAX, 0);
    let session = pair.begin();
    let link = pair.attach(session, "out", Role::Sender);
    let beside = pair.begin();
    let other = pair.attach(beside, "other", Role::Sender);
    pair.client.connection.transfer(session, link, &delivery(b"t", 0, &vec![7; 100_001])).unwrap();
    pair.pump();
    pair.client.connection.transfer(beside, other, &delivery(b"t", 0, &vec![7; 100_000])).unwrap();
    pair.pump();
    let (client, server) = pair.told();
    assert!(
        server.iter().any(|told| told.starts_with("SessionFailed") && told.contains("message-size-exceeded"))
    );
    assert!(client.iter().any(|told| told.starts_with("End") && told.contains("message-size-exceeded")));
    // Another session goes on.
    assert!(server.iter().any(|told| told.starts_with("transfer 0 0")), "{server:?}");
}

#[test]
fn incomplete_messages_are_bounded_together() {
    let mut pair = Pair::open(usize::MAX, 0);
    let session = pair.begin();
    let links = ["a", "b"].map(|name| pair.attach(session, name, Role::Sender));
    // Frames of both by hand: the machine itself never leaves a message half sent.
    let frame = |handle: u8, first: bool| {
        let fields = match first {
            true => vec![0xc0, 11, 6, 0x52, handle, 0x52, handle, 0xa0, 1, handle, 0x43, 0x42, 0x41],
            false => vec![0xc0, 8, 6, 0x52, handle, 0x40, 0x40, 0x40, 0x40, 0x41],
        };
        let mut frame = vec![0, 0, 4, 0, 2, 0, 0, 0, 0, 0x53, 0x14];
        frame.extend(fields);
        frame.resize(1024, 1);
        frame
    };
    for n in 0..90 {
        for link in links {
            pair.server.inbox.extend(frame(link.0 as u8, n == 0));
        }
    }
    pair.server.look(pair.now);
    let (_, server) = pair.told();
    assert!(
        server.iter().any(|told| told.starts_with("SessionFailed") && told.contains("incomplete")),
        "{server:?}"
    );
    assert!(pair.server.connection.memory_bytes() < 2000);
}

#[test]
fn a_post_names_its_transaction() {
    let mut pair = Pair::open(usize::MAX, 0);
    let session = pair.begin();
    let link = pair.attach(session, "out", Role::Sender);
    pair.told();
    let post = |pair: &mut Pair, n: u8, body: &[u8]| {
        pair.client.connection.post(session, link, &delivery(&[n], n.into(), body), b"txn")
    };
    assert_eq!(post(&mut pair, 0, b"x"), Ok(0));
    pair.pump();
    let (_, server) = pair.told();
    assert!(
        server.iter().any(|told| told.starts_with("Posted") && told.contains("[116, 120, 110]")),
        "{server:?}"
    );
    // More than a frame takes, and more than there is credit for.
    assert_eq!(post(&mut pair, 1, &[0; 1000]), Err(NotSent::NoCredit));
    (1..5).for_each(|n| assert_eq!(post(&mut pair, n, b"x"), Ok(n.into())));
    assert_eq!(post(&mut pair, 5, b"x"), Err(NotSent::NoCredit));
}

#[test]
fn a_flow_that_overtakes_deliveries_leaves_credit_for_them() {
    let mut pair = Pair::open(usize::MAX, 0);
    pair.server.grants = 15;
    let session = pair.begin();
    let link = pair.attach(session, "out", Role::Sender);
    pair.told();
    for n in 0..15 {
        pair.client.connection.transfer(session, link, &delivery(&[n], n.into(), b"x")).unwrap();
    }
    assert_eq!(pair.client.connection.queued(session), 5);
    pair.client.connection.report(session, link, Some(0), Map::default());
    pair.pump();
    let (_, server) = pair.told();
    assert_eq!(server.iter().filter(|told| told.starts_with("transfer")).count(), 15, "{server:?}");
}

#[test]
fn unsettled_deliveries_are_bounded() {
    let mut pair = Pair::open(usize::MAX, 0);
    pair.server.grants = 1000;
    let session = pair.begin();
    let link = pair.attach(session, "out", Role::Sender);
    for n in 0..50 {
        pair.client.connection.transfer(session, link, &delivery(&[n], n.into(), b"x")).unwrap();
        pair.pump();
    }
    let sent = pair.client.connection.transfer(session, link, &delivery(b"t", 0, b"x"));
    assert_eq!(sent, Err(NotSent::TooManyUnsettled));
    pair.client.connection.settle(session, 3, 3, |_| {});
    assert_eq!(pair.client.connection.transfer(session, link, &delivery(b"t", 0, b"x")), Ok(50));
}

#[test]
fn a_receiver_is_sent_nothing_larger_than_it_takes() {
    for (most, bytes, sent) in [
        (None, 50_000, Ok(0)),
        (Some(0), 50_000, Ok(0)),
        (Some(1 << 40), 50_000, Ok(0)),
        (Some(100), 100, Ok(0)),
        (Some(100), 101, Err(NotSent::TooLarge)),
        // It goes out in several frames, and would as one.
        (Some(20_000), 20_000, Ok(0)),
        (Some(20_000), 20_001, Err(NotSent::TooLarge)),
        (Some(1010), 1010, Ok(0)),
        (Some(1010), 1011, Err(NotSent::TooLarge)),
    ] {
        let mut pair = Pair::open(usize::MAX, 0);
        let session = pair.begin();
        let attach = Attach { max_message_size: most, ..Attach::new("in", Role::Receiver) };
        let link = pair.client.connection.attach(session, &attach).unwrap();
        pair.pump();
        pair.client.connection.grant(session, link, 3, false);
        pair.pump();
        pair.told();
        let body = vec![7; bytes];
        // Head and body count together.
        let delivery = Delivery { head: &[&body[..60]], ..delivery(b"t", 0, &body[60..]) };
        assert_eq!(pair.server.connection.transfer(SessionId(0), link, &delivery), sent, "{most:?} {bytes}");
        pair.pump();
        let came = pair.told().0.iter().filter(|told| told.starts_with("transfer")).count();
        assert_eq!(came, usize::from(sent.is_ok()), "{most:?} {bytes}");
    }
}

#[test]
fn an_idle_connection_is_small() {
    let mut pair = Pair::open(usize::MAX, 0);
    pair.begin();
    pair.begin();
    let connection = &mut pair.server.connection;
    connection.output_mut().release();
    assert!(connection.memory_bytes() < 1024, "{}", connection.memory_bytes());
}

#[test]
fn silence_is_noticed_and_avoided() {
    let mut pair = Pair::open(usize::MAX, 0);
    // Both ask for a frame every 30 s: two minutes of nothing to say cost neither the connection.
    for ms in (0..120_000).step_by(500) {
        pair.now = Now::at_ms(ms);
        for peer in [&mut pair.client, &mut pair.server] {
            assert_eq!(peer.connection.handle_deadline(pair.now), None);
        }
        pair.pump();
    }
    // Then the client dies.
    let mut failed_at = None;
    for ms in (120_000..300_000).step_by(500) {
        if pair.server.connection.handle_deadline(Now::at_ms(ms)).is_some() {
            failed_at = Some(ms);
            break;
        }
        assert!(pair.server.connection.poll_deadline().unwrap() > Now::at_ms(ms).mono_ns);
    }
    assert!((180_000..=211_000).contains(&failed_at.unwrap()), "{failed_at:?}");
    // It is not told that its close was not answered, only that it is over.
    assert!(!pair.server.connection.is_finished());
    assert_eq!(pair.server.connection.handle_deadline(Now::at_ms(400_000)), None);
    assert!(pair.server.connection.is_finished());
}

#[test]
fn a_slow_handshake_is_given_up() {
    let mut server = Connection::server(config(0), Now::at_ms(0));
    assert_eq!(server.poll_deadline(), Some(Now::at_ms(10_000).mono_ns));
    assert!(server.handle_deadline(Now::at_ms(9_999)).is_none());
    assert!(matches!(server.handle_deadline(Now::at_ms(10_000)), Some(Event::Failed(_))));
    assert!(server.is_finished());
}

#[test]
fn a_wrong_header_is_answered_with_ours() {
    for (sent, before) in [(*b"HTTP/1.1", &b""[..]), (AMQP_HEADER, b"")] {
        let mut server = Connection::server(config(0), Now::at_ms(0));
        let mut input = Input::new(&sent);
        assert!(matches!(server.poll_event(Now::at_ms(0), &mut input), Some(Event::Failed(_))));
        assert_eq!(server.output_mut().to_vec(), [before, &SASL_HEADER].concat());
        assert!(server.is_finished());
    }
}

/// The server's events for `frames` on an open connection whose first session has one incoming link with credit, and
/// whether it is still open.
fn refusal(frames: &[u8]) -> (Vec<String>, bool) {
    let mut pair = Pair::open(usize::MAX, 0);
    let session = pair.begin();
    pair.attach(session, "in", Role::Sender);
    pair.told();
    pair.server.inbox.extend_from_slice(frames);
    pair.server.look(pair.now);
    let is_open = pair.server.connection.is_open();
    (pair.server.told, is_open)
}

#[test]
fn broken_rules_close_no_more_than_they_must() {
    let check = |frames: &[u8], told: &str, open: bool| {
        let (server, is_open) = refusal(frames);
        assert!(server.last().is_some_and(|last| last.contains(told)), "{server:?} has no {told}");
        assert_eq!(is_open, open, "{server:?}");
    };
    // Frames: size, doff, type, channel, performative.
    check(&[0, 0, 0, 4, 2, 0, 0, 0], "frame size (4 bytes) < minimum frame size (8 bytes)", false);
    check(&[0, 0, 4, 1, 2, 0, 0, 0], "frame size (1025 bytes) > maximum frame size (1024 bytes)", false);
    check(&[0, 0, 0, 8, 1, 0, 0, 0], "data offset (1) < minimum data offset (2)", false);
    check(&[0, 0, 0, 8, 3, 0, 0, 0], "data offset (12 bytes) > frame size (8 bytes)", false);
    check(&[0, 0, 0, 8, 2, 1, 0, 0], "unexpected frame type 1 in amqp mode (expected 0)", false);
    check(&[0, 0, 0, 9, 2, 0, 0, 0, 0xff], "amqp:decode-error", false);
    check(&[0, 0, 0, 12, 2, 0, 0, 0, 0, 0x53, 0x30, 0x45], "amqp:not-allowed", false);
    check(&[0, 0, 0, 12, 2, 0, 0, 0, 0, 0x53, 0x11, 0x45], "missing field next-outgoing-id", false);
    let begin = |channel| [0, 0, 0, 18, 2, 0, 0, channel, 0, 0x53, 0x11, 0xc0, 5, 4, 0x40, 0x43, 0x43, 0x43];
    check(&begin(4), "channel number (4) exceeds maximum channel number (3)", false);
    check(&begin(0), "SessionFailed", true);
    check(&begin(1), "begin 1", true);
    let transfer =
        |handle| [0, 0, 0, 20, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 7, 3, 0x52, handle, 0x43, 0xa0, 1, 1];
    check(&transfer(3), "Unknown link handle: 3", true);
    check(&transfer(0), "transfer 0 0", true);
    check(
        &[0, 0, 0, 16, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 3, 1, 0x52, 0],
        "transfer without delivery-id",
        true,
    );
    let six: Vec<u8> = (0..6).flat_map(|_| transfer(0)).collect();
    check(&six, "amqp:link:transfer-limit-exceeded", true);
    let flow = [0, 0, 0, 20, 2, 0, 0, 0, 0, 0x53, 0x13, 0xc0, 7, 5, 0x43, 0x43, 0x43, 0x43, 0x52, 5];
    check(&flow, "Unattached link handle: 5", true);
    let attach =
        |handle| [0, 0, 0, 20, 2, 0, 0, 0, 0, 0x53, 0x12, 0xc0, 7, 3, 0xa1, 1, b'n', 0x52, handle, 0x41];
    check(&attach(0), "handle 0 is already associated with a link", true);
    check(&attach(9), "link handle value (9) exceeds maximum link handle value (3)", true);
    check(&attach(1), "attach 1 n Receiver", true);
    let named = |len: u8| {
        let head = [0, 0, 0, 19 + len, 2, 0, 0, 0, 0, 0x53, 0x12, 0xc0, 6 + len, 3, 0xa1, len];
        [&head[..], &vec![b'n'; len.into()], &[0x52, 2, 0x41]].concat()
    };
    check(&named(101), "a link's name has 101 bytes, at most 100 (leveret.link_name_bytes_max)", true);
    check(&named(100), &format!("attach 2 {} Receiver", "n".repeat(100)), true);
    // Frames for a channel nobody began are passed over.
    let mut unknown = transfer(0);
    unknown[7] = 3;
    check(&[&unknown[..], &transfer(0)].concat(), "transfer 0 0", true);
    // A heartbeat, and an extended header.
    check(&[&[0, 0, 0, 8, 2, 0, 0, 0][..], &transfer(0)].concat(), "transfer 0 0", true);
    check(&[0, 0, 0, 16, 3, 0, 0, 0, 1, 2, 3, 4, 0, 0x53, 0x17, 0x45], "End", true);
}

#[test]
fn a_bad_open_is_answered_before_it_is_closed() {
    const SASL: &[u8] =
        b"AMQP\x03\x01\0\0\0\0\0\x13\x02\x01\0\0\0\x53\x41\xc0\x06\x01\xa3\x03ANYAMQP\0\x01\0\0";
    let begin: &[u8] = &[0, 0, 0, 18, 2, 0, 0, 0, 0, 0x53, 0x11, 0xc0, 5, 4, 0x40, 0x43, 0x43, 0x43];
    let rows: [(&[u8], &str); 6] = [
        (&[0, 0, 0, 12, 2, 0, 0, 0, 0, 0x53, 0x10, 0x45], "missing field container-id"),
        (&[0, 0, 0, 9, 2, 0, 0, 0, 0xff], "amqp:decode-error"),
        (&[0, 0, 0, 17, 2, 0, 0, 1, 0, 0x53, 0x10, 0xc0, 4, 1, 0xa1, 1, b'c'], "open on channel 1"),
        (
            &[0, 0, 0, 20, 2, 0, 0, 0, 0, 0x53, 0x10, 0xc0, 7, 3, 0xa1, 1, b'c', 0x40, 0x52, 99],
            "max-frame-size (99) < minimum (512)",
        ),
        (begin, "amqp:illegal-state"),
        (&[0, 0, 0, 17, 2, 0, 0, 0, 0, 0x53, 0x18, 0xc0, 4, 1, 0xa1, 1, b'c'], "amqp:illegal-state"),
    ];
    for (open, told) in rows {
        let mut server = Peer::new(Connection::server(config(0), Now::at_ms(0)));
        server.inbox = [SASL, open, begin].concat();
        server.look(Now::at_ms(0));
        assert!(
            server.told.last().is_some_and(|last| last.contains(told)),
            "{:?} has no {told}",
            server.told
        );
        let connection = &mut server.connection;
        let before = connection.output_mut().len();
        assert!(!connection.is_finished() && !connection.is_open());
        connection.open(&Open::new("server"));
        connection.close(Some(Error::new(condition::DECODE_ERROR, "so")));
        let said = connection.output_mut().to_vec().split_off(before);
        let second = u32::from_be_bytes(*said.first_chunk().expect("a frame")) as usize;
        assert_eq!((said[10], said[second + 10]), (0x10, 0x18));
        // Frames behind it mean nothing any more.
        server.look(Now::at_ms(0));
        assert_eq!(server.told.len(), 2, "{:?}", server.told);
    }
}

#[test]
fn deliveries_come_as_their_link_was_attached() {
    let attach =
        |mode| [0, 0, 0, 22, 2, 0, 0, 0, 0, 0x53, 0x12, 0xc0, 9, 4, 0xa1, 1, b'n', 0x52, 1, 0x42, 0x50, mode];
    let transfer = |settled| {
        [0, 0, 0, 22, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 9, 5, 0x52, 1, 0x43, 0xa0, 1, 1, 0x43, settled]
    };
    // The same in two frames, of which the first says it.
    let first = |settled| {
        [0, 0, 0, 23, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 10, 6, 0x52, 1, 0x43, 0xa0, 1, 1, 0x43, settled, 0x41]
    };
    let last = [0, 0, 0, 16, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 3, 1, 0x52, 1];
    let (yes, no, unsaid) = (0x41, 0x42, 0x40);
    for (mode, settled, told) in [
        (
            0,
            yes,
            "sender settle mode is 'unsettled' but transfer settled flag is interpreted as being 'true'",
        ),
        (1, no, "sender settle mode is 'settled' but transfer settled flag is interpreted as being 'false'"),
        (
            1,
            unsaid,
            "sender settle mode is 'settled' but transfer settled flag is interpreted as being 'false'",
        ),
        (0, no, "transfer 1 0"),
        (0, unsaid, "transfer 1 0"),
        (1, yes, "transfer 1 0"),
        (2, yes, "transfer 1 0"),
        (2, no, "transfer 1 0"),
    ] {
        let one = [&attach(mode)[..], &transfer(settled)].concat();
        let two = [&attach(mode)[..], &first(settled), &last].concat();
        for frames in [one, two] {
            let (server, is_open) = refusal(&frames);
            let last = server.last().expect("something is told");
            assert!(last.contains(told), "{mode} {settled:x}: {server:?}");
            assert!(is_open);
        }
    }
}

#[test]
fn a_delivery_keeps_to_what_its_first_transfer_said() {
    let first =
        [0, 0, 0, 24, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 10, 6, 0x52, 0, 0x43, 0xa0, 1, 1, 0x43, 0x42, 0x41, 9];
    let tag = |tag| [0, 0, 0, 20, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 7, 3, 0x52, 0, 0x40, 0xa0, 1, tag];
    let format =
        |format| [0, 0, 0, 20, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 7, 4, 0x52, 0, 0x40, 0x40, 0x52, format];
    for (second, told) in [
        (tag(1), "transfer 0 0"),
        (tag(2), "delivery-tag differs"),
        (format(0), "transfer 0 0"),
        (format(1), "message-format differs"),
    ] {
        let (server, is_open) = refusal(&[&first[..], &second].concat());
        let last = server.last().expect("something is told");
        assert!(last.contains(told), "{server:?} has no {told}");
        assert!(is_open);
    }
}

#[test]
fn no_transfer_waits_for_its_sender_to_settle() {
    let transfer = |settled, mode| {
        [
            0, 0, 0, 25, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 12, 7, 0x52, 0, 0x43, 0xa0, 1, 1, 0x43, settled,
            0x42, 0x50, mode,
        ]
    };
    let check = |settled, mode, told: &str| {
        let (server, is_open) = refusal(&transfer(settled, mode));
        assert!(server.last().is_some_and(|last| last.contains(told)), "{server:?} has no {told}");
        assert!(is_open);
    };
    check(0x42, 1, "rcv-settle-mode second not supported");
    check(0x40, 1, "amqp:not-implemented");
    check(0x41, 1, "transfer 0 0");
    check(0x42, 0, "transfer 0 0");
}

#[test]
fn aborted_deliveries_never_were() {
    let part =
        [0, 0, 0, 24, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 10, 6, 0x52, 0, 0x43, 0xa0, 1, 1, 0x43, 0x42, 0x41, 9];
    let abort = [
        0, 0, 0, 25, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 12, 10, 0x52, 0, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40,
        0x40, 0x40, 0x41,
    ];
    let whole = [0, 0, 0, 21, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 8, 3, 0x52, 0, 0x52, 1, 0xa0, 1, 2];
    let (server, is_open) = refusal(&[&part[..], &abort, &whole].concat());
    assert!(server[0].starts_with("Aborted") && server[0].contains("credit: 4"), "{server:?}");
    assert!(server[1].starts_with("transfer 0 1 [2] false 3 0"), "{server:?}");
    assert!(is_open);
}
