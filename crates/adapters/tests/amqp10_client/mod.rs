//! AMQP 1.0 clients for tests: the frames they hear are told as text.

#![allow(dead_code, reason = "each test file uses its part")]

use crate::harness::World;
use adapters::Settings;
use amqp10::{
    Attach, Body, Config, Connection, Delivery, Event, Input, LinkFlow, LinkId, Open, Outcome, Role,
    SaslCode, SenderSettleMode, SessionId, Source, Target,
};
use base::Now;
use message::amqp10::{Encoder, Header, Map, Message};
use std::sync::Arc;

pub const START: Now = Now { mono_ns: 0, wall_ms: 0 };

/// A client with one session, and the frames it heard, as text.
pub struct Client {
    pub wire: usize,
    pub machine: Connection,
    pub session: SessionId,
    inbox: Vec<u8>,
    pub heard: Vec<String>,
}

impl Client {
    pub fn open(world: &mut World, shard: usize) -> Client {
        let mut client = Client::log_in(world, shard, "PLAIN", b"\0guest\0guest", "vhost:/");
        assert!(client.machine.is_open(), "{:?}", client.heard);
        client.session = client.machine.begin(Map::default()).unwrap();
        client.hears(world, &["begin"]);
        client
    }

    pub fn log_in(world: &mut World, shard: usize, mechanism: &str, response: &[u8], host: &str) -> Client {
        Client::log_in_and(world, shard, (mechanism, response, host), |_| {})
    }

    /// A client that begins a session in the same breath in which it opens.
    #[allow(dead_code, reason = "shared; not every test is in a hurry")]
    pub fn open_hastily(world: &mut World, shard: usize) -> Client {
        let mut session = None;
        let login = ("PLAIN", &b"\0guest\0guest"[..], "vhost:/");
        let client =
            Client::log_in_and(world, shard, login, |machine| session = machine.begin(Map::default()));
        Client { session: session.expect("it had a session free"), ..client }
    }

    fn log_in_and(
        world: &mut World,
        shard: usize,
        (mechanism, response, host): (&str, &[u8], &str),
        mut then: impl FnMut(&mut Connection),
    ) -> Client {
        let config = Config { limits: Arc::default(), mechanisms: &[], first_id: 0 };
        let wire = world.connect(shard);
        let mut client = Client {
            wire,
            machine: Connection::client(config, START),
            session: SessionId::default(),
            inbox: Vec::new(),
            heard: Vec::new(),
        };
        for _ in 0..8 {
            client.exchange(world);
            let mut input = Input::new(&client.inbox);
            let Some(event) = client.machine.poll_event(START, &mut input) else { break };
            match &event {
                Event::SaslMechanisms(_) => client.machine.sasl_init(mechanism, Some(response), None),
                Event::SaslOutcome(SaslCode::Ok) => {
                    client.machine.open(&Open { hostname: Some(host), ..Open::new("client") });
                    then(&mut client.machine);
                }
                Event::Open(_) => {}
                other => client.heard.push(tell(other)),
            }
            let left = input.len();
            client.inbox.drain(..client.inbox.len() - left);
        }
        client
    }

    pub fn exchange(&mut self, world: &mut World) {
        self.machine.flush();
        self.inbox.extend(world.exchange(self.wire, self.machine.output_mut()));
    }

    /// Sends the client's output, lets the node come to rest and answers the frames that were heard, credit and windows
    /// apart.
    pub fn talk(&mut self, world: &mut World) -> Vec<String> {
        loop {
            self.exchange(world);
            let mut input = Input::new(&self.inbox);
            while let Some(event) = self.machine.poll_event(START, &mut input) {
                match event {
                    Event::Window { .. } => {}
                    Event::Flow(flow) if flow.role == Role::Sender => {}
                    event => self.heard.push(tell(&event)),
                }
            }
            let left = input.len();
            self.inbox.drain(..self.inbox.len() - left);
            self.machine.flush();
            if !self.machine.has_output() {
                return std::mem::take(&mut self.heard);
            }
        }
    }

    #[track_caller]
    pub fn hears(&mut self, world: &mut World, expected: &[&str]) {
        assert_eq!(self.talk(world), expected);
    }

    /// Attaches a sender to an address.
    pub fn sender(&mut self, world: &mut World, name: &str, address: Option<&str>) -> LinkId {
        let target = Some(Target { address, ..Target::default() });
        let attach = Attach { target, source: Some(Source::default()), ..Attach::new(name, Role::Sender) };
        let link = self.machine.attach(self.session, &attach).unwrap();
        self.hears(world, &[&format!("attach {name}")]);
        link
    }

    pub fn receive(&mut self, name: &str, address: &str, mode: SenderSettleMode) -> LinkId {
        let source = Some(Source { address: Some(address), ..Source::default() });
        let attach = Attach {
            source,
            target: Some(Target::default()),
            sender_settle_mode: mode,
            ..Attach::new(name, Role::Receiver)
        };
        self.machine.attach(self.session, &attach).unwrap()
    }

    /// Attaches a receiver to a queue and grants it credit.
    pub fn receiver(&mut self, world: &mut World, name: &str, queue: &str, credit: u32) -> LinkId {
        let link = self.receive(name, &format!("/queues/{queue}"), SenderSettleMode::Unsettled);
        self.hears(world, &[&format!("attach {name}")]);
        self.machine.grant(self.session, link, credit, false);
        link
    }

    pub fn send(&mut self, link: LinkId, tag: u8, message: &[u8]) {
        let delivery = Delivery {
            tag: &[tag],
            settled: false,
            token: tag.into(),
            head: &[],
            body: Body::Bytes(message),
        };
        self.machine.transfer(self.session, link, &delivery).expect("there is credit");
    }

    pub fn settle(&mut self, first: u32, last: u32, outcome: Outcome<'_>) {
        self.machine.dispose(self.session, Role::Receiver, first, last, true, Some(&outcome));
    }
}

/// A message with one data section; `to`: where it is to go.
pub fn message(durable: bool, to: Option<&str>, body: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Header { durable, ..Header::default() }.write(&mut bytes);
    if let Some(to) = to {
        // Properties of three fields: no message-id, no user-id, then the address (§3.2.4).
        bytes.extend_from_slice(&[
            0,
            0x53,
            0x73,
            0xC0,
            to.len() as u8 + 5,
            3,
            0x40,
            0x40,
            0xA1,
            to.len() as u8,
        ]);
        bytes.extend_from_slice(to.as_bytes());
    }
    bytes.extend_from_slice(&[0, 0x53, 0x75]);
    Encoder::new(&mut bytes).binary(body.as_bytes());
    bytes
}

pub fn tell(event: &Event<'_>) -> String {
    let received = |id: u32, settled: bool, payload: &[u8]| {
        let message = Message::read(payload).unwrap();
        let body: String = message.bare.iter().skip(5).map(|byte| char::from(*byte)).collect();
        let Header { first_acquirer, delivery_count, .. } = message.header;
        let again = if first_acquirer { String::new() } else { format!(" again {delivery_count}") };
        format!("{id} {body}{again}{}", if settled { " settled" } else { "" })
    };
    match event {
        Event::Begin { .. } => "begin".to_owned(),
        Event::Attach { attach, .. } => {
            let is_refused = attach.source.is_none() || attach.target.is_none();
            format!("attach {}{}", attach.name, if is_refused { " in vain" } else { "" })
        }
        Event::Detach { error, .. } => match error {
            Some(error) => format!("detach {}: {}", error.condition, error.description.unwrap_or_default()),
            None => "detach".to_owned(),
        },
        Event::End { error, .. } => format!("end {}", error.map_or("", |error| error.condition)),
        Event::Transfer(transfer) => received(transfer.delivery_id, transfer.settled, transfer.payload),
        Event::Assembled(assembled) => {
            let transfer = assembled.transfer();
            received(transfer.delivery_id, transfer.settled, transfer.payload)
        }
        Event::Disposition(disposition) => {
            let outcome = match disposition.outcome {
                Some(Outcome::Accepted) => "accepted".to_owned(),
                Some(Outcome::Released) => "released".to_owned(),
                Some(Outcome::Rejected(error)) => {
                    format!("rejected {}", error.map_or("", |error| error.condition))
                }
                other => format!("{other:?}"),
            };
            format!("{}..{} {outcome}", disposition.first, disposition.last)
        }
        Event::Flow(LinkFlow { available: Some(available), drain: false, credit, .. }) => {
            format!("credit {credit} of {available}")
        }
        Event::Flow(flow) => format!("credit {} drain {}", flow.credit, flow.drain),
        Event::SaslOutcome(code) => format!("{code:?}"),
        other => format!("{other:?}"),
    }
}

/// A queue is declared as another protocol's client would.
pub fn declare(world: &mut World, shard: usize, name: &str) {
    declare_with(world, shard, name, Default::default());
}

pub fn declare_with(world: &mut World, shard: usize, name: &str, arguments: routing::Arguments) {
    use broker::catalog::{Actor, Op, VhostId};
    let port = base::id::PortId::here(base::id::ShardId(shard as u16), 9999, 1);
    let owner = &mut world.shards[shard];
    owner.open_port(port, Actor::new("guest".into(), VhostId(0), port));
    let op = Op::DeclareQueue {
        name: name.into(),
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments,
        random: [0; 16],
    };
    owner.request(world.now, port, 1, op);
    world.run();
}

/// A node whose connections go to the shard of the queue they use.
pub fn following(shards: u16) -> World {
    let following = Some(Arc::new(adapters::Following::new(shards)));
    World::with(shards, broker::Limits::default(), Settings { following, ..Settings::new("rabbit@test") })
}
