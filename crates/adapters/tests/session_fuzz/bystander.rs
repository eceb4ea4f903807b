//! Clients that behave: they send numbered messages to a queue of their own and get each back, confirmed, in order.

use crate::frames091;
use crate::harness::World;
use amqp10::{Attach, Delivery, LinkId, Outcome, Role, SessionId, Source, Target};
use amqp091::PublishPrefix;
use amqp091::method::{BasicConsume, ConfirmSelect, ExchangeDeclare, Method, QueueBind, QueueDeclare};
use base::Now;
use message::amqp10::{Encoder, Header, Map};
use message::amqp091::Table;

const START: Now = Now { mono_ns: 0, wall_ms: 0 };
const PERSISTENT: &[u8] = &[0x10, 0, 2];

/// Turns an exchange may take.
const ROUNDS_MAX: usize = 20;

/// Sends a machine's output, and answers with the bytes that came back.
fn pass(world: &mut World, wire: usize, output: &mut base::Output) -> Vec<u8> {
    let bytes = output.to_vec();
    let len = output.len();
    output.sent(len);
    world.send(wire, &bytes);
    world.run();
    world.take(wire)
}

/// A 0-9-1 client: one channel in confirm mode, one consumer.
pub struct Bystander091 {
    wire: usize,
    machine: amqp091::Connection,
    inbox: Vec<u8>,
    sent: u64,
    confirmed: u64,
    got: u64,
}

impl Bystander091 {
    const QUEUE: &[u8] = b"bystander of 0-9-1";

    pub fn open(world: &mut World, shard: usize) -> Bystander091 {
        let wire = world.connect(shard);
        let limits = amqp091::Limits { heartbeat_s: 0, ..Default::default() };
        let machine = amqp091::Connection::client(limits, START);
        let mut it = Bystander091 { wire, machine, inbox: Vec::new(), sent: 0, confirmed: 0, got: 0 };
        (0..8).for_each(|_| it.pump(world));
        assert!(it.machine.is_open());
        it.machine.send(1, &QueueDeclare { queue: Self::QUEUE, exclusive: true, ..Default::default() });
        let other = Bystander10::QUEUE.as_bytes();
        it.machine.send(1, &QueueDeclare { queue: other, durable: true, ..Default::default() });
        // The queues the others play with.
        for queue in frames091::QUEUES {
            it.machine
                .send(1, &QueueDeclare { queue: queue.as_bytes(), durable: true, ..Default::default() });
        }
        for exchange in frames091::EXCHANGES {
            let (exchange, kind) = (exchange.as_bytes(), &b"fanout"[..]);
            it.machine.send(1, &ExchangeDeclare { exchange, kind, durable: true, ..Default::default() });
            it.machine.send(1, &QueueBind { queue: b"q0", exchange, ..Default::default() });
        }
        it.machine.send(1, &ConfirmSelect::default());
        it.machine.send(1, &BasicConsume { queue: Self::QUEUE, ..Default::default() });
        it.pump(world);
        it
    }

    fn pump(&mut self, world: &mut World) {
        let bytes = pass(world, self.wire, self.machine.output_mut());
        self.inbox.extend(bytes);
        let mut input = amqp091::Input::new(&self.inbox);
        let mut delivered = None;
        while let Some(event) = self.machine.poll_event(START, &mut input) {
            use amqp091::Event;
            match event {
                Event::Start(_) => self.machine.start_ok(Table::EMPTY, b"PLAIN", b"\0guest\0guest", b"en_US"),
                Event::Tune(tune) => _ = self.machine.tune_ok_and_open(START, tune, b"/"),
                Event::OpenOk => self.machine.channel_open(1),
                Event::Method { method: Method::BasicAck(ack), .. } => self.confirmed = ack.delivery_tag,
                Event::Deliver { deliver, body, .. } => {
                    self.got += 1;
                    assert_eq!(body, self.got.to_be_bytes(), "the message that is next");
                    assert!(!deliver.redelivered);
                    delivered = Some(deliver.delivery_tag);
                }
                Event::ChannelOpenOk { .. } | Event::Method { .. } => {}
                other => panic!("a bystander heard {other:?}"),
            }
        }
        let consumed = input.consumed();
        self.inbox.drain(..consumed);
        if let Some(tag) = delivered {
            self.machine.ack(1, tag, true);
        }
    }

    /// Sends a message; it is confirmed and comes back before this returns.
    pub fn exchange(&mut self, world: &mut World) {
        self.sent += 1;
        let to = PublishPrefix::new(1, b"", Self::QUEUE, true);
        self.machine.publish(&to, PERSISTENT, &amqp091::Body::Bytes(&self.sent.to_be_bytes()));
        for _ in 0..ROUNDS_MAX {
            self.pump(world);
            if (self.confirmed, self.got) == (self.sent, self.sent) {
                return;
            }
        }
        panic!("0-9-1: {} sent, {} confirmed, {} came back", self.sent, self.confirmed, self.got);
    }
}

/// A 1.0 client: one session, a sender and a receiver.
pub struct Bystander10 {
    wire: usize,
    machine: amqp10::Connection,
    session: SessionId,
    links: (LinkId, LinkId),
    inbox: Vec<u8>,
    sent: u64,
    confirmed: u64,
    got: u64,
}

impl Bystander10 {
    /// The queue must be there: `Bystander091` has declared it.
    pub const QUEUE: &str = "bystander of 1.0";

    pub fn open(world: &mut World, shard: usize) -> Bystander10 {
        let wire = world.connect(shard);
        let config = amqp10::Config { limits: Default::default(), mechanisms: &[], first_id: 0 };
        let machine = amqp10::Connection::client(config, START);
        let (session, links) = (SessionId::default(), (LinkId(0), LinkId(0)));
        let inbox = Vec::new();
        let mut it = Bystander10 { wire, machine, session, links, inbox, sent: 0, confirmed: 0, got: 0 };
        (0..8).for_each(|_| it.pump(world));
        assert!(it.machine.is_open());
        it.session = it.machine.begin(Map::default()).expect("room for a session");
        it.pump(world);
        let address = format!("/queues/{}", Self::QUEUE.replace(' ', "%20"));
        let target = Some(Target { address: Some(&address), ..Target::default() });
        let attach = Attach { target, source: Some(Source::default()), ..Attach::new("out", Role::Sender) };
        it.links.0 = it.machine.attach(it.session, &attach).expect("room for a link");
        let source = Some(Source { address: Some(&address), ..Source::default() });
        let attach = Attach { source, target: Some(Target::default()), ..Attach::new("in", Role::Receiver) };
        it.links.1 = it.machine.attach(it.session, &attach).expect("room for a link");
        it.pump(world);
        it.machine.grant(it.session, it.links.1, 10, false);
        it.pump(world);
        it
    }

    fn pump(&mut self, world: &mut World) {
        self.machine.flush();
        let bytes = pass(world, self.wire, self.machine.output_mut());
        self.inbox.extend(bytes);
        let mut input = amqp10::Input::new(&self.inbox);
        let mut delivered = None;
        while let Some(event) = self.machine.poll_event(START, &mut input) {
            use amqp10::Event;
            match event {
                Event::SaslMechanisms(_) => self.machine.sasl_init("PLAIN", Some(b"\0guest\0guest"), None),
                Event::SaslOutcome(_) => {
                    self.machine
                        .open(&amqp10::Open { hostname: Some("vhost:/"), ..amqp10::Open::new("bystander") });
                }
                Event::Disposition(disposition) => {
                    assert!(matches!(disposition.outcome, Some(Outcome::Accepted)), "{disposition:?}");
                    let (session, first, last) = (disposition.session, disposition.first, disposition.last);
                    self.machine.settle(session, first, last, |run| self.confirmed += u64::from(run.count));
                }
                Event::Transfer(transfer) => {
                    self.got += 1;
                    assert!(transfer.payload.ends_with(&self.got.to_be_bytes()), "the message that is next");
                    delivered = Some(transfer.delivery_id);
                }
                Event::Open(_) | Event::Begin { .. } | Event::Flow(_) | Event::Window { .. } => {}
                Event::Attach { attach, .. } => assert!(attach.source.is_some() && attach.target.is_some()),
                other => panic!("a bystander heard {other:?}"),
            }
        }
        let left = input.len();
        self.inbox.drain(..self.inbox.len() - left);
        if let Some(id) = delivered {
            self.machine.dispose(self.session, Role::Receiver, id, id, true, Some(&Outcome::Accepted));
            self.machine.grant(self.session, self.links.1, 10, false);
        }
    }

    /// Sends a message; it is accepted and comes back before this returns.
    pub fn exchange(&mut self, world: &mut World) {
        self.sent += 1;
        let mut message = Vec::new();
        Header { durable: true, ..Header::default() }.write(&mut message);
        message.extend_from_slice(&[0, 0x53, 0x75]);
        Encoder::new(&mut message).binary(&self.sent.to_be_bytes());
        let body = amqp10::Body::Bytes(&message);
        let delivery = Delivery { tag: b"t", settled: false, token: self.sent, head: &[], body };
        self.machine.transfer(self.session, self.links.0, &delivery).expect("there is credit");
        for _ in 0..ROUNDS_MAX {
            self.pump(world);
            if (self.confirmed, self.got) == (self.sent, self.sent) {
                return;
            }
        }
        panic!("1.0: {} sent, {} accepted, {} came back", self.sent, self.confirmed, self.got);
    }
}
