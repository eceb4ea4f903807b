//! A simulated client of the stream protocol: publishers, subscriptions, and what an application would remember of them.
//!
//! It reports events as [`Heard`]. It knows no more than its own end: the messages that each publishing id stands for,
//! the stream that each subscription reads, and how far each of them is.

use super::names::{Reference, USERS, VALUES, value_of};
use crate::client::{State, body, push, read_body};
use crate::net::Net;
use base::{Now, Random};
use message::amqp10::Message;
use message::amqp10::section::data_prefix;
use message::chunk::{Chunk, Compression, Content, Entries, SubBatch};
use std::collections::BTreeMap;
use stream_protocol::{
    Command, Connection, Event, Input, Limits, List, OffsetSpec, Pair, Request, Response, ResponseCode,
};

/// A request to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The opening, a step of it.
    Opening,
    /// A stream, by number.
    Create(usize),
    /// A stream to be gone.
    Delete(usize),
    /// A publisher, by its id.
    Declare(u8),
    /// How far the reference of a publisher has come.
    Sequence(u8, u64),
    /// A publisher to be gone.
    EndPublisher(u8),
    /// A subscription, by its id.
    Subscribe(u8),
    /// A subscription to be gone.
    Unsubscribe(u8),
    /// The offset stored under a name in a stream, and the least it must be.
    Offset { stream: usize, of: Reference, least: u64 },
    /// A stream's last offset.
    Stats(usize),
}

/// An event that a client sees.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The connection is open.
    Open,
    /// The answer to what it asked, and the number in it.
    Answered(Asked, ResponseCode, Option<u64>),
    /// A publisher's messages are safe: by publishing id.
    Confirmed(u8, Vec<u64>),
    /// A publisher's messages were not taken, and the code of the first.
    Refused(u8, Vec<u64>, ResponseCode),
    /// A chunk came.
    Chunk(Arrived),
    /// A stream is gone.
    Gone(String),
    /// The connection ended in order.
    Closed,
    /// It ended otherwise, and why.
    Failed(String),
}

/// A chunk that came.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// For which subscription.
    pub subscription: u8,
    /// Its first offset.
    pub first_offset: u64,
    /// When it was written.
    pub timestamp_ms: i64,
    /// The checksum of its data.
    pub crc: u32,
    /// The messages in it, in order, or what is wrong with it.
    pub messages: Result<Vec<u64>, String>,
}

/// A publisher.
#[derive(Clone, Debug)]
pub struct Publisher {
    /// Where it publishes.
    pub stream: usize,
    /// Under which reference, by number.
    pub reference: Option<usize>,
    /// It may publish.
    pub is_ready: bool,
    /// The node has ended it.
    pub is_over: bool,
    /// Its end was asked for: its reference may be another's since.
    pub is_ending: bool,
    /// The last publishing id it used.
    pub last: u64,
    /// Publishing ids that wait for their confirm, and the messages they stand for.
    pub unconfirmed: BTreeMap<u64, Vec<u64>>,
}

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spec {
    First,
    Last,
    Next,
    Offset(u64),
}

impl Spec {
    /// The offset specification of the protocol.
    pub fn on_wire(self) -> OffsetSpec {
        match self {
            Spec::First => OffsetSpec::First,
            Spec::Last => OffsetSpec::Last,
            Spec::Next => OffsetSpec::Next,
            Spec::Offset(offset) => OffsetSpec::Offset(offset),
        }
    }
}

/// A subscription.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The stream that it reads, by number.
    pub stream: usize,
    /// From where.
    pub spec: Spec,
    /// It is one of a group of which one is active.
    pub is_single: bool,
    /// The offset that comes next, once something has come.
    pub next: Option<u64>,
    /// Chunks that the node may send it.
    pub credit: i64,
    /// The first offset that came.
    pub first: Option<u64>,
    /// The end of what was known of the stream when it was asked for.
    pub end: u64,
    /// It is over, or was never there.
    pub is_over: bool,
}

/// A connection.
#[derive(Debug)]
pub struct StreamClient {
    /// Counts all connections of a run.
    pub number: u64,
    /// The user it logs in as, by number in [`USERS`].
    pub user: usize,
    /// How far it is.
    pub state: State,
    /// Its publishers, by id.
    pub publishers: BTreeMap<u8, Publisher>,
    /// Its subscriptions, by id.
    pub subscriptions: BTreeMap<u8, Subscription>,
    line: usize,
    machine: Connection,
    tail: Vec<u8>,
    asked: BTreeMap<u32, Asked>,
    next_id: u8,
}

impl StreamClient {
    /// A connection over `line` that speaks first.
    pub fn new(number: u64, line: usize, user: usize, now: Now) -> StreamClient {
        let limits = Limits {
            heartbeat_s: 0,
            handshake_ms_max: u32::MAX,
            closing_ms_max: u32::MAX,
            request_ms_max: u32::MAX,
            ..Limits::default()
        };
        let mut client = StreamClient {
            number,
            user,
            state: State::Opening,
            publishers: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            line,
            machine: Connection::client(limits, now),
            tail: Vec::new(),
            asked: BTreeMap::new(),
            next_id: 0,
        };
        let properties = [Pair::new("product", "sim")];
        client.ask(now, Asked::Opening, &Request::PeerProperties { properties: List::new(&properties) });
        client.ask(now, Asked::Opening, &Request::SaslHandshake);
        let response = format!("\0{}\0guest", USERS[user]);
        let login = Request::SaslAuthenticate { mechanism: b"PLAIN", response: response.as_bytes() };
        client.ask(now, Asked::Opening, &login);
        client
    }

    /// Asks; false: too much is asked already.
    pub fn ask(&mut self, now: Now, asked: Asked, request: &Request<'_>) -> bool {
        let correlation_id = self.machine.request(now, request);
        self.asked.extend(correlation_id.map(|id| (id, asked)));
        correlation_id.is_some()
    }

    /// Declares a publisher.
    pub fn declare(
        &mut self,
        now: Now,
        id: u8,
        stream: usize,
        reference: Option<usize>,
        request: &Request<'_>,
    ) {
        if self.ask(now, Asked::Declare(id), request) {
            let publisher = Publisher {
                stream,
                reference,
                is_ready: false,
                is_over: false,
                is_ending: false,
                last: 0,
                unconfirmed: BTreeMap::new(),
            };
            self.publishers.insert(id, publisher);
        }
    }

    /// Ends a publisher: confirms it waits for will not come. False: it cannot be asked for now, or was before.
    pub fn end_publisher(&mut self, now: Now, id: u8) -> bool {
        if self.publishers.get(&id).is_none_or(|publisher| publisher.is_ending) {
            return false;
        }
        let is_asked = self.ask(now, Asked::EndPublisher(id), &Request::DeletePublisher { publisher_id: id });
        if is_asked && let Some(publisher) = self.publishers.get_mut(&id) {
            (publisher.is_over, publisher.is_ending) = (true, true);
        }
        is_asked
    }

    /// A number for a publisher or subscription that it has not used yet, while there is one.
    pub fn take_id(&mut self) -> Option<u8> {
        let id = self.next_id;
        self.next_id = id.checked_add(1)?;
        Some(id)
    }

    /// Answers or confirms are awaited.
    pub fn is_waiting(&self) -> bool {
        let waits = |publisher: &Publisher| !publisher.is_over && !publisher.unconfirmed.is_empty();
        self.state == State::Opening
            || self.state == State::Closing
            || !self.asked.is_empty()
            || self.publishers.values().any(waits)
    }

    /// Publishes entries, each under its publishing id: one message, or a batch of them; `has_values`: each is one message, with
    /// its filter value.
    pub fn publish(&mut self, id: u8, entries: &[(u64, Vec<u64>)], len: usize, has_values: bool) {
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let mut frames = self.machine.publish(id, has_values);
        for (publishing_id, messages) in entries {
            publisher.last = publisher.last.max(*publishing_id);
            publisher.unconfirmed.insert(*publishing_id, messages.clone());
            let encoded: Vec<Vec<u8>> = messages.iter().map(|message| encoded(*message, len)).collect();
            let fits = match &encoded[..] {
                [only] => {
                    let value = messages.first().and_then(|id| value_of(*id)).filter(|_| has_values);
                    frames.message(*publishing_id, value.map(|value| VALUES[value].as_bytes()), only)
                }
                several => {
                    let mut body = Vec::new();
                    for message in several {
                        body.extend((message.len() as u32).to_be_bytes());
                        body.extend_from_slice(message);
                    }
                    let (records, uncompressed_len) = (several.len() as u16, body.len() as u32);
                    let compression = Compression::None as u8;
                    let batch = SubBatch { compression, records, uncompressed_len, body: &body };
                    frames.batch(*publishing_id, &batch)
                }
            };
            assert!(fits, "an entry goes into a frame");
        }
    }

    /// May be sent so many chunks more.
    pub fn give_credit(&mut self, id: u8, chunks: u8) {
        let Some(subscription) = self.subscriptions.get_mut(&id).filter(|it| !it.is_over) else { return };
        subscription.credit += i64::from(chunks);
        let credit = i16::from(chunks);
        self.machine.send(&Command::Credit { subscription_id: id, credit });
    }

    /// Stores an offset.
    pub fn store(&mut self, reference: &str, stream: &str, offset: u64) {
        let (reference, stream) = (reference.as_bytes(), stream.as_bytes());
        self.machine.send(&Command::StoreOffset { reference, stream, offset });
    }

    /// Says good-bye.
    pub fn close(&mut self, now: Now) {
        self.state = State::Closing;
        self.asked.clear();
        self.machine.close(now, ResponseCode::OK, "bye");
    }

    /// Is gone without a word; of what it said last, some may be lost.
    pub fn vanish(&mut self, net: &mut Net) {
        self.state = State::Over;
        net.line(self.line).up_ended = true;
    }

    /// Moves bytes between the line and the connection, as many as is rolled, or all of them; events are appended to
    /// `heard`.
    pub fn exchange(&mut self, now: Now, dice: Option<&mut Random>, net: &mut Net, heard: &mut Vec<Heard>) {
        if self.state == State::Over {
            return;
        }
        let line = net.line(self.line);
        let down = line.down.len() as u64;
        let count = dice.map_or(down, |dice| if dice.one_in(2) { down } else { dice.between(0, down) });
        self.tail.extend(line.down.drain(..count as usize));
        let tail = std::mem::take(&mut self.tail);
        let mut input = Input::new(&tail);
        while let Some(event) = self.machine.poll_event(now, &mut input) {
            self.event(now, event, heard);
        }
        self.tail = input.rest().to_vec();
        let line = net.line(self.line);
        push(self.machine.output_mut(), &mut line.up);
        if self.state == State::Over {
            line.up_ended = true;
        } else if line.down_ended && line.down.is_empty() {
            self.state = State::Over;
            line.up_ended = true;
            heard.push(Heard::Failed("the connection was cut".to_owned()));
        }
    }

    fn event(&mut self, now: Now, event: Event<'_>, heard: &mut Vec<Heard>) {
        match event {
            Event::Tune(tune) => _ = self.machine.tune_and_open(now, tune, b"/"),
            Event::Response { response: Response::Open { code, .. }, .. } if code.is_ok() => {
                self.state = State::Open;
                heard.push(Heard::Open);
            }
            Event::Response { correlation_id, response } => {
                let number = match &response {
                    Response::QueryPublisherSequence { publishing_id, .. } => Some(*publishing_id),
                    Response::QueryOffset { offset, .. } => Some(*offset),
                    Response::StreamStats { statistics, .. } => {
                        let last = statistics.iter().find(|one| one.key == b"committed_offset");
                        last.and_then(|last| u64::try_from(last.value).ok())
                    }
                    _ => None,
                };
                let asked = self.asked.remove(&correlation_id).unwrap_or(Asked::Opening);
                heard.push(Heard::Answered(asked, response.code(), number));
            }
            Event::Request { correlation_id, request: Request::Close { code, reason } } => {
                self.machine.close_ok(correlation_id);
                let reason = String::from_utf8_lossy(reason).into_owned();
                heard.push(Heard::Failed(format!("{code}: {reason}")));
            }
            Event::Request {
                correlation_id,
                request: Request::ConsumerUpdate { subscription_id, active },
            } => {
                let subscription = self.subscriptions.get_mut(&subscription_id);
                let offset = subscription.filter(|_| active).map(|subscription| {
                    subscription.next = None;
                    subscription.spec.on_wire()
                });
                let code = ResponseCode::OK;
                self.machine.respond(correlation_id, &Response::ConsumerUpdate { code, offset });
            }
            Event::Deliver(deliver) => {
                heard.push(Heard::Chunk(arrived(deliver.subscription_id, &deliver.chunk)))
            }
            Event::Command(Command::PublishConfirm { publisher_id, publishing_ids }) => {
                heard.push(Heard::Confirmed(publisher_id, publishing_ids.iter().collect()));
            }
            Event::Command(Command::PublishError { publisher_id, errors }) => {
                let code = errors.iter().next().map_or(ResponseCode::OK, |error| error.code);
                let ids = errors.iter().map(|error| error.publishing_id).collect();
                heard.push(Heard::Refused(publisher_id, ids, code));
            }
            Event::Command(Command::MetadataUpdate { stream, .. }) => {
                heard.push(Heard::Gone(String::from_utf8_lossy(stream).into_owned()));
            }
            // Credit for what is gone meanwhile.
            Event::Command(Command::CreditRefused { .. }) => {}
            Event::Closed if self.state == State::Closing => {
                self.state = State::Over;
                heard.push(Heard::Closed);
            }
            Event::Closed => self.state = State::Over,
            other => heard.push(Heard::Failed(format!("unexpected: {other:?}"))),
        }
    }
}

/// Message `id` as it is published: AMQP 1.0 with one data section.
fn encoded(id: u64, len: usize) -> Vec<u8> {
    let body = body(id, len);
    let (prefix, prefix_len) = data_prefix(body.len());
    let mut message = prefix[..prefix_len].to_vec();
    message.extend(body);
    message
}

fn arrived(subscription: u8, chunk: &Chunk<'_>) -> Arrived {
    let header = chunk.header;
    let (first_offset, timestamp_ms, crc) = (header.first_offset, header.timestamp_ms, header.crc);
    Arrived { subscription, first_offset, timestamp_ms, crc, messages: messages(chunk) }
}

/// Which messages are in a chunk.
fn messages(chunk: &Chunk<'_>) -> Result<Vec<u64>, String> {
    chunk.check().map_err(|malformed| malformed.to_string())?;
    let mut messages = Vec::new();
    for entry in chunk.entries() {
        match entry.map_err(|malformed| malformed.to_string())?.content() {
            Content::Message(bytes) => messages.push(message(bytes)?),
            Content::Batch(batch) => {
                for entry in Entries::new(batch.body) {
                    match entry.map_err(|malformed| malformed.to_string())?.content() {
                        Content::Message(bytes) => messages.push(message(bytes)?),
                        Content::Batch(_) => return Err("a batch in a batch".to_owned()),
                    }
                }
            }
        }
    }
    Ok(messages)
}

fn message(bytes: &[u8]) -> Result<u64, String> {
    let message = Message::read(bytes).map_err(|malformed| format!("{malformed:?}"))?;
    let body = message.body.single_data().ok_or("a message without one data section")?;
    read_body(body).map(|(id, _)| id).ok_or_else(|| "a body that nobody sent".to_owned())
}
