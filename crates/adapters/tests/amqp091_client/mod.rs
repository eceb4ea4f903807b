//! AMQP 0-9-1 clients for tests: the frames they hear are told as text.

#![allow(dead_code, reason = "each test file uses its part")]

use crate::harness::World;
use amqp091::method::*;
use amqp091::{Body, Connection, Event, Input, Limits, PublishPrefix};
use base::Now;
use message::amqp091::{Table, Value};

pub const START: Now = Now { mono_ns: 0, wall_ms: 0 };
pub const TRANSIENT: &[u8] = &[0, 0];
pub const PERSISTENT: &[u8] = &[0x10, 0, 2];

/// A client, and the frames it heard, as text.
pub struct Client {
    pub wire: usize,
    pub machine: Connection,
    inbox: Vec<u8>,
    pub heard: Vec<String>,
}

impl Client {
    /// Opens a connection with one channel, number 1.
    pub fn open(world: &mut World, shard: usize) -> Client {
        let mut client = Client::log_in(world, shard, "PLAIN", b"\0guest\0guest");
        assert!(client.machine.is_open(), "{:?}", client.heard);
        client.machine.channel_open(1);
        client.hears(world, &["channel 1 open"]);
        client
    }

    pub fn log_in(world: &mut World, shard: usize, mechanism: &'static str, response: &[u8]) -> Client {
        Client::log_in_beating(world, shard, (mechanism, response), 0)
    }

    /// Logs in, and settles for heartbeats of so many seconds.
    pub fn log_in_beating(
        world: &mut World,
        shard: usize,
        (mechanism, response): (&'static str, &[u8]),
        heartbeat_s: u16,
    ) -> Client {
        let wire = world.connect(shard);
        let machine = Connection::client(Limits { heartbeat_s, ..Limits::default() }, START);
        let mut client = Client { wire, machine, inbox: Vec::new(), heard: Vec::new() };
        let capable = capable();
        for _ in 0..8 {
            client.exchange(world);
            let mut input = Input::new(&client.inbox);
            let Some(event) = client.machine.poll_event(START, &mut input) else { break };
            match &event {
                Event::Start(_) => {
                    let properties = Table::new(&capable).unwrap();
                    client.machine.start_ok(properties, mechanism.as_bytes(), response, b"en_US");
                }
                Event::Tune(tune) => _ = client.machine.tune_ok_and_open(START, *tune, b"/"),
                other => client.heard.push(tell(other)),
            }
            let consumed = input.consumed();
            client.inbox.drain(..consumed);
        }
        client.heard.retain(|heard| heard != "open");
        client
    }

    pub fn exchange(&mut self, world: &mut World) {
        self.inbox.extend(world.exchange(self.wire, self.machine.output_mut()));
    }

    /// Sends the client's output, lets the node come to rest and answers the frames that were heard.
    pub fn talk(&mut self, world: &mut World) -> Vec<String> {
        loop {
            self.exchange(world);
            let mut input = Input::new(&self.inbox);
            while let Some(event) = self.machine.poll_event(START, &mut input) {
                self.heard.push(tell(&event));
                match event {
                    Event::ChannelClose { channel, .. } => self.machine.channel_close_ok(channel),
                    Event::Close(_) => self.machine.close_ok(),
                    _ => {}
                }
            }
            let consumed = input.consumed();
            self.inbox.drain(..consumed);
            if self.machine.output().is_empty() {
                return std::mem::take(&mut self.heard);
            }
        }
    }

    /// Takes in what it was sent already: the node does nothing more for it.
    pub fn take_in(&mut self, world: &mut World) {
        self.inbox.extend(world.take(self.wire));
        let mut input = Input::new(&self.inbox);
        while let Some(event) = self.machine.poll_event(START, &mut input) {
            self.heard.push(tell(&event));
        }
        let consumed = input.consumed();
        self.inbox.drain(..consumed);
    }

    #[track_caller]
    pub fn hears(&mut self, world: &mut World, expected: &[&str]) {
        assert_eq!(self.talk(world), expected);
    }

    pub fn send<'a>(&mut self, method: &impl Plain<'a>) {
        self.machine.send(1, method);
    }

    /// Declares a durable queue; `arguments` as the bytes of a table.
    pub fn declare(&mut self, world: &mut World, queue: &str) {
        self.send(&QueueDeclare { queue: queue.as_bytes(), durable: true, ..Default::default() });
        self.hears(world, &[&format!("queue {queue} 0 0")]);
    }

    pub fn publish_to(&mut self, exchange: &str, key: &str, head: &[u8], body: &[u8]) {
        let to = PublishPrefix::new(1, exchange.as_bytes(), key.as_bytes(), true);
        self.machine.publish(&to, head, &Body::Bytes(body));
    }

    pub fn publish(&mut self, key: &str, body: &str) {
        self.publish_to("", key, PERSISTENT, body.as_bytes());
    }

    pub fn consume(&mut self, queue: &str, tag: &str, no_ack: bool) {
        let (queue, consumer_tag) = (queue.as_bytes(), tag.as_bytes());
        self.send(&BasicConsume { queue, consumer_tag, no_ack, ..Default::default() });
    }

    pub fn get(&mut self, queue: &str, no_ack: bool) {
        self.send(&BasicGet { queue: queue.as_bytes(), no_ack, ..Default::default() });
    }
}

/// The client properties of one that wants to be told everything.
pub fn capable() -> Vec<u8> {
    let mut names = Vec::new();
    for name in ["connection.blocked", "consumer_cancel_notify", "authentication_failure_close"] {
        names.push(name.len() as u8);
        names.extend_from_slice(name.as_bytes());
        Value::Bool(true).write(&mut names);
    }
    let mut properties = b"\x0ccapabilities".to_vec();
    Value::Table(Table::new(&names).unwrap()).write(&mut properties);
    properties
}

pub fn text(bytes: &[u8]) -> String {
    if bytes.len() > 40 {
        format!("{} bytes", bytes.len())
    } else {
        String::from_utf8_lossy(bytes).into_owned()
    }
}

pub fn tell(event: &Event<'_>) -> String {
    let again = |redelivered| if redelivered { " again" } else { "" };
    match event {
        Event::OpenOk => "open".to_owned(),
        Event::ChannelOpenOk { channel } => format!("channel {channel} open"),
        Event::ChannelClosed { channel } => format!("channel {channel} closed"),
        Event::ChannelClose { close, .. } => {
            format!(
                "channel: {} {} {} {}",
                close.reply_code,
                text_of(close.reply_text),
                close.class_id,
                close.method_id
            )
        }
        Event::Close(close) => {
            format!(
                "connection: {} {} {} {}",
                close.reply_code,
                text_of(close.reply_text),
                close.class_id,
                close.method_id
            )
        }
        Event::Closed => "closed".to_owned(),
        Event::Gathered(_) => panic!("the harness hands over all there is"),
        Event::Deliver { deliver, body, .. } => {
            let tag = text(deliver.consumer_tag);
            format!("{tag} {} {}{}", deliver.delivery_tag, text(body), again(deliver.redelivered))
        }
        Event::Return { returned, body, .. } => {
            format!("returned {} {} {}", returned.reply_code, text_of(returned.reply_text), text(body))
        }
        Event::GetOk { get_ok, body, .. } => {
            format!(
                "got {} {}{}, {} left",
                get_ok.delivery_tag,
                text(body),
                again(get_ok.redelivered),
                get_ok.message_count
            )
        }
        Event::Method { method, .. } => match method {
            Method::BasicAck(ack) => {
                format!("ack {}{}", ack.delivery_tag, if ack.multiple { " and before" } else { "" })
            }
            Method::QueueDeclareOk(ok) => {
                format!("queue {} {} {}", text(ok.queue), ok.message_count, ok.consumer_count)
            }
            Method::QueueDeleteOk(ok) => format!("deleted {}", ok.message_count),
            Method::QueuePurgeOk(ok) => format!("purged {}", ok.message_count),
            Method::BasicConsumeOk(ok) => format!("consuming {}", text(ok.consumer_tag)),
            Method::BasicCancelOk(ok) => format!("cancelled {}", text(ok.consumer_tag)),
            Method::BasicCancel(cancel) => format!("cancel {}", text(cancel.consumer_tag)),
            Method::BasicGetEmpty(_) => "empty".to_owned(),
            Method::ConnectionBlocked(blocked) => format!("blocked: {}", text(blocked.reason)),
            other => format!("{other:?}").split([' ', '(']).next().unwrap_or_default().to_owned(),
        },
        other => format!("{other:?}"),
    }
}

pub fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
