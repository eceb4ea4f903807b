//! A client of the stream protocol, which takes down the frames it hears.

#![allow(dead_code, reason = "each test file uses its part")]

use crate::harness::World;
use adapters::Protocol;
use base::Now;
use stream_protocol::{
    Command, Connection, Event, Input, Limits, List, OffsetSpec, Pair, Request, Response, ResponseCode,
};

pub const START: Now = Now { mono_ns: 0, wall_ms: 0 };

/// A client, and the frames it heard, as text.
pub struct Client {
    pub wire: usize,
    pub machine: Connection,
    inbox: Vec<u8>,
    pub heard: Vec<String>,
    /// The questions about its groups that it is not to answer by itself: their ids. None: it answers all.
    pub unanswered: Option<Vec<u32>>,
}

fn names<'a>(list: impl Iterator<Item = &'a [u8]>) -> String {
    list.map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>().join(",")
}

/// An event, in a line.
fn tell(event: &Event<'_>) -> String {
    match event {
        Event::Response { response, .. } => {
            let (key, code) = (response.key(), response.code().0);
            match response {
                Response::QueryPublisherSequence { publishing_id, .. } => {
                    format!("{key:?} {code}: {publishing_id}")
                }
                Response::QueryOffset { offset, .. } | Response::ResolveOffsetSpec { offset, .. } => {
                    format!("{key:?} {code}: {offset}")
                }
                Response::Metadata { brokers, streams } => {
                    let broker = |broker: stream_protocol::Broker<'_>| {
                        format!("{}:{}", String::from_utf8_lossy(broker.host), broker.port)
                    };
                    let stream = |stream: stream_protocol::StreamMetadata<'_>| {
                        let name = String::from_utf8_lossy(stream.stream);
                        format!("{name}={}@{:?}", stream.code.0, stream.leader)
                    };
                    let brokers = brokers.iter().map(broker).collect::<Vec<_>>().join(",");
                    let streams = streams.iter().map(stream).collect::<Vec<_>>().join(",");
                    format!("Metadata [{brokers}] [{streams}]")
                }
                Response::Route { streams, .. } | Response::Partitions { streams, .. } => {
                    format!("{key:?} {code}: [{}]", names(streams.iter()))
                }
                Response::StreamStats { statistics, .. } => {
                    let statistics: Vec<_> = statistics.iter().map(|one| format!("{one:?}")).collect();
                    format!("{key:?} {code}: {}", statistics.join(","))
                }
                _ => format!("{key:?} {code}"),
            }
        }
        Event::Request { request: Request::Close { code, reason }, .. } => {
            format!("close {}: {}", code.0, String::from_utf8_lossy(reason))
        }
        Event::Request { request: Request::ConsumerUpdate { subscription_id, active }, .. } => {
            format!("update {subscription_id}: {active}")
        }
        Event::Command(Command::PublishConfirm { publisher_id, publishing_ids }) => {
            format!("confirmed {publisher_id}: {:?}", publishing_ids.iter().collect::<Vec<_>>())
        }
        Event::Command(Command::PublishError { publisher_id, errors }) => {
            let errors = errors.iter().map(|error| (error.publishing_id, error.code.0));
            format!("failed {publisher_id}: {:?}", errors.collect::<Vec<_>>())
        }
        Event::Command(Command::CreditRefused { code, subscription_id }) => {
            format!("credit refused {subscription_id}: {}", code.0)
        }
        Event::Command(Command::MetadataUpdate { code, stream }) => {
            format!("{} is gone: {}", String::from_utf8_lossy(stream), code.0)
        }
        Event::Deliver(deliver) => {
            let chunk = &deliver.chunk;
            assert_eq!(chunk.check(), Ok(()), "what is delivered is whole");
            let bodies = chunk.entries().map(|entry| match entry.unwrap().content() {
                message::chunk::Content::Message(body) => String::from_utf8_lossy(body).into_owned(),
                message::chunk::Content::Batch(batch) => format!("batch of {}", batch.records),
            });
            let (id, first) = (deliver.subscription_id, chunk.header.first_offset);
            let committed = deliver.committed_chunk_id.is_some();
            format!("chunk {id} at {first}, {committed}: {}", bodies.collect::<Vec<_>>().join(","))
        }
        other => format!("{other:?}"),
    }
}

impl Client {
    /// Connects and sends everything up to `open`.
    pub fn log_in(world: &mut World, shard: usize, mechanism: &str, response: &[u8], vhost: &str) -> Client {
        Client::log_in_beating(world, shard, (mechanism, response), vhost, 0)
    }

    /// Connects and sends everything up to `open`, and settles for heartbeats of so many seconds.
    pub fn log_in_beating(
        world: &mut World,
        shard: usize,
        (mechanism, response): (&str, &[u8]),
        vhost: &str,
        heartbeat_s: u32,
    ) -> Client {
        let wire = world.connect_to(shard, Protocol::Stream);
        let machine = Connection::client(Limits { heartbeat_s, ..Limits::default() }, START);
        let mut client = Client { wire, machine, inbox: Vec::new(), heard: Vec::new(), unanswered: None };
        let properties = [Pair::new("product", "test"), Pair::new("connection_name", "mine")];
        client.ask(&Request::PeerProperties { properties: List::new(&properties) });
        client.ask(&Request::SaslHandshake);
        let mechanism = mechanism.as_bytes();
        client.ask(&Request::SaslAuthenticate { mechanism, response });
        client.listen(world, vhost);
        client
    }

    /// An open connection of the first user.
    pub fn open(world: &mut World, shard: usize) -> Client {
        let mut client = Client::log_in(world, shard, "PLAIN", b"\0guest\0guest", "/");
        assert!(client.machine.is_open(), "{:?}", client.heard);
        client.heard.clear();
        client
    }

    /// Answers a question about its group: it begins with the first.
    pub fn answer(&mut self, correlation_id: u32) {
        let (code, offset) = (ResponseCode::OK, Some(OffsetSpec::First));
        self.machine.respond(correlation_id, &Response::ConsumerUpdate { code, offset });
    }

    pub fn ask(&mut self, request: &Request<'_>) {
        self.machine.request(START, request).expect("there is room");
    }

    /// Sends, lets the node work, and takes down the frames that come back, until none does.
    pub fn listen(&mut self, world: &mut World, vhost: &str) {
        loop {
            let output = self.machine.output_mut();
            let (bytes, len) = (output.to_vec(), output.len());
            output.sent(len);
            if len > 0 {
                world.send(self.wire, &bytes);
            }
            world.run();
            let came = world.take(self.wire);
            if came.is_empty() && len == 0 {
                return;
            }
            self.inbox.extend(came);
            let inbox = std::mem::take(&mut self.inbox);
            let mut input = Input::new(&inbox);
            while let Some(event) = self.machine.poll_event(START, &mut input) {
                match &event {
                    Event::Tune(tune) => _ = self.machine.tune_and_open(START, *tune, vhost.as_bytes()),
                    Event::Request { correlation_id, request: Request::Close { .. } } => {
                        self.machine.close_ok(*correlation_id);
                    }
                    Event::Request { correlation_id, request: Request::ConsumerUpdate { .. } } => {
                        match &mut self.unanswered {
                            Some(unanswered) => unanswered.push(*correlation_id),
                            None => self.answer(*correlation_id),
                        }
                    }
                    _ => {}
                }
                self.heard.push(tell(&event));
            }
            self.inbox = input.rest().to_vec();
        }
    }

    /// The events it has heard since the last time must be these.
    pub fn hears(&mut self, world: &mut World, expected: &[&str]) {
        self.listen(world, "/");
        assert_eq!(std::mem::take(&mut self.heard), expected);
    }

    pub fn asks(&mut self, world: &mut World, request: &Request<'_>, expected: &str) {
        self.ask(request);
        self.hears(world, &[expected]);
    }

    /// Sends bytes of its own making.
    pub fn says(&mut self, bytes: &[u8]) {
        self.machine.output_mut().extend(bytes);
    }
}
