//! A broker of a few hundred lines for the generator's own tests: one thread, queues in memory, both protocols, and
//! faults on demand, so that the tests see the faults of a bad broker found.
//!
//! Not a measure of anything: it keeps no promise that a broker makes.

use crate::end::flush;
use amqp10::Event as Event10;
use amqp10::{Delivery, LinkId, Outcome, Role, SessionId};
use amqp091::method::*;
use amqp091::{
    Body, Connection as Connection091, DeliverPrefix, Detected, Event as Event091, Method, Outgoing,
};
use base::{Now, Output};
use message::amqp091::{Table, Value};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A fault of the double, once, at the message with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Confirms it and forgets it.
    Lose(u64),
    /// Delivers it twice, unmarked.
    Double(u64),
    /// Delivers it twice, the second time marked redelivered.
    Redeliver(u64),
    /// Delivers the next one first.
    Swap(u64),
    /// Cuts a byte off its body.
    Cut(u64),
    /// Refuses it.
    Refuse(u64),
    /// Closes the connection it came on.
    Hang(u64),
}

/// A running double; it ends when it is dropped.
pub struct Double {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Double {
    pub fn start(fault: Option<Fault>) -> Double {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut broker = Broker { fault, ..Broker::default() };
            while !is_stopped.load(Ordering::Relaxed) {
                broker.turn(&listener);
            }
        });
        Double { port, stop, thread: Some(thread) }
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_some_and(|ended| ended.is_ok()), "the double panicked");
    }
}

/// A body, and whether it is delivered as a redelivery.
type Message = (Vec<u8>, bool);

#[derive(Default)]
struct Broker {
    fault: Option<Fault>,
    published: u64,
    kept: Option<Message>,
    queues: BTreeMap<String, VecDeque<Message>>,
    /// Messages that a queue keeps at most.
    lengths: BTreeMap<String, i64>,
    bindings: BTreeMap<String, Vec<String>>,
    peers: Vec<Peer>,
}

type Targets = BTreeMap<(SessionId, LinkId), (String, String)>;

struct Peer {
    socket: TcpStream,
    bytes: Vec<u8>,
    machine: Machine,
    consumers: Vec<Consumer>,
    /// Messages that came.
    published: u64,
    /// The delivery tag of the last delivery.
    tag: u64,
    /// Exchange and routing key by session and link.
    targets: Targets,
    is_gone: bool,
}

enum Machine {
    Unknown,
    Amqp091(Box<Connection091>),
    Amqp10(Box<amqp10::Connection>),
}

enum Way {
    Amqp091(DeliverPrefix),
    Amqp10(SessionId, LinkId, u32),
}

struct Consumer {
    queue: String,
    way: Way,
}

fn now() -> Now {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    Now { mono_ns: start.elapsed().as_nanos() as u64, wall_ms: 0 }
}

impl Machine {
    fn keep_deadline(&mut self) {
        let is_due = |deadline: Option<u64>| deadline.is_some_and(|deadline| deadline <= now().mono_ns);
        match self {
            Machine::Amqp091(connection) if is_due(connection.poll_deadline()) => {
                connection.handle_deadline(now());
            }
            Machine::Amqp10(connection) if is_due(connection.poll_deadline()) => {
                let failed = connection.handle_deadline(now());
                assert!(failed.is_none(), "the client was silent: {failed:?}");
            }
            _ => {}
        }
    }

    fn output(&mut self) -> Option<&mut Output> {
        match self {
            Machine::Unknown => None,
            Machine::Amqp091(connection) => Some(connection.output_mut()),
            Machine::Amqp10(connection) => Some(connection.output_mut()),
        }
    }
}

/// A request of a peer.
enum Request {
    Publish { exchange: String, key: String, body: Vec<u8>, answer: Answer },
    Consume(Consumer),
    Declare(String, Option<i64>),
    Answer(Box<dyn Fn(&mut Connection091)>),
    Delete(String),
    Bind(String, String),
    Count(u16, String),
    Gone,
}

enum Answer {
    Tag(u64),
    Delivery(SessionId, u32),
}

impl Broker {
    fn turn(&mut self, listener: &TcpListener) {
        let mut fds: Vec<_> =
            self.peers.iter().map(|peer| PollFd::new(&peer.socket, PollFlags::IN)).collect();
        fds.push(PollFd::new(listener, PollFlags::IN));
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 })).unwrap();
        while let Ok((socket, _)) = listener.accept() {
            socket.set_nonblocking(true).unwrap();
            socket.set_nodelay(true).unwrap();
            self.peers.push(Peer {
                socket,
                bytes: Vec::new(),
                machine: Machine::Unknown,
                consumers: Vec::new(),
                published: 0,
                tag: 0,
                targets: Targets::new(),
                is_gone: false,
            });
        }
        for index in 0..self.peers.len() {
            let mut requests = Vec::new();
            self.peers[index].read(&mut requests);
            requests.into_iter().for_each(|request| self.grant(index, request));
        }
        for peer in &mut self.peers {
            peer.deliver(&mut self.queues);
            peer.machine.keep_deadline();
            if let Some(output) = peer.machine.output()
                && flush(output, &mut &peer.socket).is_err()
            {
                peer.is_gone = true;
            }
        }
        self.peers.retain(|peer| !peer.is_gone);
    }

    fn grant(&mut self, index: usize, request: Request) {
        match request {
            Request::Publish { exchange, key, body, answer } => {
                self.publish(index, &exchange, &key, body, &answer)
            }
            Request::Consume(consumer) => self.peers[index].consumers.push(consumer),
            Request::Declare(queue, most) => {
                self.lengths.extend(most.map(|most| (queue.clone(), most)));
                self.queues.entry(queue).or_default();
            }
            Request::Answer(answer) => {
                if let Machine::Amqp091(connection) = &mut self.peers[index].machine {
                    answer(connection);
                }
            }
            Request::Delete(queue) => {
                self.queues.remove(&queue);
            }
            Request::Bind(exchange, queue) => {
                let queues = self.bindings.entry(exchange).or_default();
                if !queues.contains(&queue) {
                    queues.push(queue);
                }
            }
            Request::Count(channel, queue) => {
                let message_count = self.queues.get(&queue).map_or(0, VecDeque::len) as u32;
                let Machine::Amqp091(connection) = &mut self.peers[index].machine else { return };
                let queue = queue.as_bytes();
                connection.send(channel, &QueueDeclareOk { queue, message_count, consumer_count: 0 });
            }
            Request::Gone => self.peers[index].is_gone = true,
        }
    }

    fn publish(&mut self, index: usize, exchange: &str, key: &str, mut body: Vec<u8>, answer: &Answer) {
        let number = self.published;
        self.published += 1;
        let is_refused = self.fault == Some(Fault::Refuse(number));
        match (&mut self.peers[index].machine, answer) {
            (Machine::Amqp091(connection), Answer::Tag(tag)) if is_refused => {
                connection.nack(1, *tag, false, false);
            }
            (Machine::Amqp091(connection), Answer::Tag(tag)) => connection.ack(1, *tag, false),
            (Machine::Amqp10(connection), Answer::Delivery(session, id)) => {
                let outcome = if is_refused { Outcome::Rejected(None) } else { Outcome::Accepted };
                connection.settle_incoming(*session, *id, *id, &outcome);
            }
            _ => {}
        }
        let mut copies = vec![];
        match self.fault {
            Some(Fault::Lose(at) | Fault::Refuse(at)) if at == number => {}
            Some(Fault::Hang(at)) if at == number => self.peers[index].is_gone = true,
            Some(Fault::Swap(at)) if at == number => self.kept = Some((body, false)),
            Some(Fault::Double(at)) if at == number => copies = vec![(body.clone(), false), (body, false)],
            Some(Fault::Redeliver(at)) if at == number => copies = vec![(body.clone(), false), (body, true)],
            Some(Fault::Cut(at)) if at == number => {
                body.pop();
                copies.push((body, false));
            }
            _ => copies.push((body, false)),
        }
        if !copies.is_empty() {
            copies.extend(self.kept.take());
        }
        let direct = [key.to_owned()];
        let names = if exchange.is_empty() { &direct[..] } else { &self.bindings[exchange][..] };
        for name in names {
            let queue = self.queues.entry(name.clone()).or_default();
            queue.extend(copies.iter().cloned());
            let most = self.lengths.get(name).map_or(usize::MAX, |most| *most as usize);
            queue.drain(..queue.len().saturating_sub(most));
        }
    }
}

impl Peer {
    fn read(&mut self, requests: &mut Vec<Request>) {
        let mut buffer = [0; 64 << 10];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return requests.push(Request::Gone),
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => return requests.push(Request::Gone),
            }
        }
        if let (Machine::Unknown, Some(header)) = (&self.machine, self.bytes.first_chunk()) {
            self.machine = match amqp091::detect(header) {
                Detected::Amqp091 => {
                    Machine::Amqp091(Box::new(Connection091::server(amqp091::Limits::default(), now())))
                }
                _ => {
                    let limits = Default::default();
                    let config = amqp10::Config { limits, mechanisms: &["PLAIN"], first_id: 0 };
                    Machine::Amqp10(Box::new(amqp10::Connection::server(config, now())))
                }
            };
        }
        let taken = match &mut self.machine {
            Machine::Unknown => 0,
            Machine::Amqp091(connection) => {
                read_amqp091(connection, &self.bytes, &mut self.published, requests)
            }
            Machine::Amqp10(connection) => read_amqp10(connection, &self.bytes, &mut self.targets, requests),
        };
        self.bytes.drain(..taken);
    }

    /// Gives every consumer as many messages as it has credit for.
    fn deliver(&mut self, queues: &mut BTreeMap<String, VecDeque<Message>>) {
        for consumer in &mut self.consumers {
            let Some(queue) = queues.get_mut(&consumer.queue) else { continue };
            while let Some((body, is_redelivered)) = queue.front() {
                match (&mut self.machine, &mut consumer.way) {
                    (Machine::Amqp091(connection), Way::Amqp091(prefix)) => {
                        self.tag += 1;
                        let message = Outgoing {
                            exchange: b"",
                            routing_key: b"",
                            head: &[0, 0],
                            body: Body::Bytes(body),
                        };
                        connection.deliver(prefix, self.tag, *is_redelivered, &message);
                    }
                    (Machine::Amqp10(connection), Way::Amqp10(session, link, number)) => {
                        let mut head = Vec::new();
                        let delivery_count = u32::from(*is_redelivered);
                        let header = message::amqp10::Header { delivery_count, ..Default::default() };
                        header.write(&mut head);
                        let (prefix, len) = message::amqp10::section::data_prefix(body.len());
                        let delivery = Delivery {
                            tag: &number.to_be_bytes(),
                            settled: false,
                            token: u64::from(*number),
                            head: &[&head, &prefix[..len]],
                            body: amqp10::Body::Bytes(body),
                        };
                        if connection.transfer(*session, *link, &delivery).is_err() {
                            break;
                        }
                        *number += 1;
                    }
                    _ => break,
                }
                queue.pop_front();
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read_amqp091(
    connection: &mut Connection091,
    bytes: &[u8],
    published: &mut u64,
    requests: &mut Vec<Request>,
) -> usize {
    let mut input = amqp091::Input::new(bytes);
    while let Some(polled) = connection.poll_event(now(), &mut input) {
        let gathered;
        let event = match polled {
            Event091::Gathered(whole) => {
                gathered = whole;
                gathered.event()
            }
            other => other,
        };
        match event {
            Event091::ProtocolHeader => connection.start(Table::default(), b"PLAIN", b"en_US"),
            Event091::StartOk(_) => connection.tune(),
            Event091::TuneOk(_) => {}
            Event091::Open(_) => connection.open_ok(),
            Event091::ChannelOpen { channel } => connection.channel_open_ok(channel),
            Event091::Close(_) => connection.close_ok(),
            Event091::Failed(_) | Event091::Closed => requests.push(Request::Gone),
            Event091::Publish { publish, body, .. } => {
                *published += 1;
                requests.push(Request::Publish {
                    exchange: text(publish.exchange),
                    key: text(publish.routing_key),
                    body: body.to_vec(),
                    answer: Answer::Tag(*published),
                });
            }
            Event091::Method { channel, method } => method_requests(channel, &method, requests),
            other => panic!("{other:?}"),
        }
    }
    input.consumed()
}

fn method_requests(channel: u16, method: &Method<'_>, requests: &mut Vec<Request>) {
    let mut answer = |answer: Box<dyn Fn(&mut Connection091)>| requests.push(Request::Answer(answer));
    match method {
        Method::QueueDeclare(declare) => {
            let name = text(declare.queue);
            let most = match declare.arguments.get(b"x-max-length") {
                Some(Value::I64(most)) => Some(most),
                _ => None,
            };
            requests.extend((!declare.passive).then(|| Request::Declare(name.clone(), most)));
            requests.push(Request::Count(channel, name));
        }
        Method::QueueDelete(delete) => {
            answer(Box::new(move |connection| connection.send(channel, &QueueDeleteOk { message_count: 0 })));
            requests.push(Request::Delete(text(delete.queue)));
        }
        Method::QueuePurge(purge) => {
            answer(Box::new(move |connection| connection.send(channel, &QueuePurgeOk { message_count: 0 })));
            requests.push(Request::Delete(text(purge.queue)));
        }
        Method::ExchangeDeclare(_) => {
            answer(Box::new(move |connection| connection.send(channel, &ExchangeDeclareOk {})));
        }
        Method::ExchangeDelete(_) => {
            answer(Box::new(move |connection| connection.send(channel, &ExchangeDeleteOk {})));
        }
        Method::QueueBind(bind) => {
            answer(Box::new(move |connection| connection.send(channel, &QueueBindOk {})));
            requests.push(Request::Bind(text(bind.exchange), text(bind.queue)));
        }
        Method::ConfirmSelect(_) => {
            answer(Box::new(move |connection| connection.send(channel, &ConfirmSelectOk {})));
        }
        Method::BasicQos(_) => {
            answer(Box::new(move |connection| connection.send(channel, &BasicQosOk {})));
        }
        Method::BasicConsume(consume) => {
            let tag = consume.consumer_tag.to_vec();
            let way = Way::Amqp091(DeliverPrefix::new(channel, &tag));
            answer(Box::new(move |connection| {
                connection.send(channel, &BasicConsumeOk { consumer_tag: &tag });
            }));
            requests.push(Request::Consume(Consumer { queue: text(consume.queue), way }));
        }
        Method::BasicAck(_) => {}
        other => panic!("{other:?}"),
    }
}

fn read_amqp10(
    connection: &mut amqp10::Connection,
    bytes: &[u8],
    targets: &mut Targets,
    requests: &mut Vec<Request>,
) -> usize {
    let mut input = amqp10::Input::new(bytes);
    while let Some(event) = connection.poll_event(now(), &mut input) {
        match event {
            Event10::SaslInit { .. } => connection.sasl_outcome(amqp10::SaslCode::Ok),
            Event10::Open(_) => connection.open(&amqp10::Open::new("double")),
            Event10::Attach { session, link, attach, .. } => {
                connection.answer_attach(session, link, &attach);
                if attach.role == Role::Sender {
                    let address = attach.target.and_then(|target| target.address).unwrap_or_default();
                    let target = match address.strip_prefix("/exchanges/") {
                        Some(exchange) => (exchange.to_owned(), String::new()),
                        None => (String::new(), address.trim_start_matches("/queues/").to_owned()),
                    };
                    targets.insert((session, link), target);
                    connection.grant(session, link, GRANT, false);
                    continue;
                }
                let address = attach.source.and_then(|source| source.address).unwrap_or_default();
                let queue = address.trim_start_matches("/queues/").to_owned();
                requests.push(Request::Consume(Consumer { queue, way: Way::Amqp10(session, link, 0) }));
            }
            Event10::Transfer(transfer) => publish_request(connection, &transfer, targets, requests),
            Event10::Assembled(assembled) => {
                publish_request(connection, &assembled.transfer(), targets, requests)
            }
            Event10::Disposition(disposition) => {
                connection.settle(disposition.session, disposition.first, disposition.last, |_| {});
            }
            Event10::Close(_) | Event10::Failed(_) => requests.push(Request::Gone),
            Event10::Begin { .. } | Event10::Flow(_) | Event10::Window { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    bytes.len() - input.len()
}

/// Credit the double grants, renewed when half is used.
const GRANT: u32 = 170;

fn publish_request(
    connection: &mut amqp10::Connection,
    transfer: &amqp10::Transfer<'_>,
    targets: &Targets,
    requests: &mut Vec<Request>,
) {
    if transfer.credit <= GRANT / 2 {
        connection.grant(transfer.session, transfer.link, GRANT, false);
    }
    let message = message::amqp10::Message::read(transfer.payload).unwrap();
    let (exchange, key) = targets[&(transfer.session, transfer.link)].clone();
    requests.push(Request::Publish {
        exchange,
        key,
        body: message.body.single_data().unwrap().to_vec(),
        answer: Answer::Delivery(transfer.session, transfer.delivery_id),
    });
}
