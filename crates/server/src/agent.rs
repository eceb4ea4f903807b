//! Actions of the management HTTP API that a client could do as well: over a connection of their own to a shard, with
//! the rights and the refusals that any client gets; for the command line, which may do everything, with all rights.
//!
//! The connection is a pair of sockets of this machine and speaks AMQP 0-9-1; one action, one connection, but two where messages
//! are taken and published. That is no second way into the broker: HTTP is for a look and for tests.

use crate::door::{Door, Letter};
use crate::socket::Arrival;
use adapters::Peer;
use amqp091::limits::BODY_SIZE_MAX;
use amqp091::method::{
    BasicDeliver, BasicGet, ConfirmSelect, ExchangeBind, ExchangeDeclare, ExchangeDelete, ExchangeUnbind,
    QueueBind, QueueDeclare, QueueDelete, QueuePurge, QueueUnbind,
};
use amqp091::{Body, Connection, Event, Input, Limits, Method, MethodId, PublishPrefix, ReplyCode, Tune};
use base::Now;
use broker::catalog::{Reason, Refusal, ReplyCode as Code};
use management::{Action, GetMode, Got, Login, Outcome, Publication, Trouble};
use message::amqp091::Table;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

mod moving;
mod peeking;
mod reading;
mod searching;
mod settling;

const CHANNEL: u16 = 1;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an answer is waited for while the node stops: what the broker is about to say is still heard.
const LAST_PATIENCE: Duration = Duration::from_millis(200);

/// How often it is seen whether the node stops.
const TICK: Duration = Duration::from_millis(50);

/// Bytes read at a time.
const READ: usize = 64 << 10;

/// Bytes of a frame from the broker: as large as a message may be.
const FRAME_MAX: u32 = BODY_SIZE_MAX as u32;

/// Bytes of a content header before the properties.
const HEADER: usize = 12;

/// Strangers that come to the door before the agent itself does.
const STRANGERS_MAX: usize = 16;

/// Does something in a client's name, over a connection to the shard behind `door`. Once the node `is_stopping` it ends what it
/// does: what it took and did not settle goes back.
pub fn act(
    door: &Door,
    login: &Login,
    vhost: &str,
    action: &Action,
    is_stopping: &AtomicBool,
) -> Result<Outcome, Trouble> {
    let ignores_alarms = matches!(action, Action::Publish(_));
    let mut agent = Agent::open(door, login, vhost, is_stopping, ignores_alarms)?;
    let outcome = agent.carry_out(action, &|| Agent::open(door, login, vhost, is_stopping, false));
    agent.close();
    outcome
}

struct Agent<'a> {
    connection: Connection,
    user: String,
    stream: TcpStream,
    start: Instant,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are not parsed yet.
    filled: usize,
    /// The broker has ended the connection: nothing more comes.
    is_over: bool,
    is_stopping: &'a AtomicBool,
}

fn broken(error: std::io::Error) -> Trouble {
    Trouble::Broken(format!("the broker could not be asked: {error}"))
}

/// Both ends of a connection within this machine.
fn pair() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let own = TcpStream::connect(listener.local_addr()?)?;
    let address = own.local_addr()?;
    for _ in 0..STRANGERS_MAX {
        let (other, from) = listener.accept()?;
        if from == address {
            return Ok((own, other));
        }
    }
    Err(std::io::Error::other("somebody else connects to a port of this node's own"))
}

impl<'a> Agent<'a> {
    fn open(
        door: &Door,
        login: &Login,
        vhost: &str,
        is_stopping: &'a AtomicBool,
        ignores_alarms: bool,
    ) -> Result<Agent<'a>, Trouble> {
        let (stream, other) = pair().map_err(broken)?;
        let set_up = || {
            stream.set_read_timeout(Some(TICK))?;
            stream.set_write_timeout(Some(TICK))?;
            stream.set_nodelay(true)?;
            other.set_nodelay(true)?;
            other.set_nonblocking(true)?;
            Ok((stream.local_addr()?, stream.peer_addr()?))
        };
        let (from, to) = set_up().map_err(broken)?;
        let peer = Peer::new(&format!("{from} -> {to}"), true).agent();
        let peer = if ignores_alarms { peer.ignoring_alarms() } else { peer };
        let peer = if login.is_own { peer.own(&login.user) } else { peer };
        let stream_of_shard = mio::net::TcpStream::from_std(other).into();
        door.letters.put(Letter::Accepted(Arrival { stream: stream_of_shard, peer, layer: None }));
        // Any message that a configuration lets into the broker.
        let limits = Limits { message_size_max: BODY_SIZE_MAX as u32, ..Limits::default() };
        let mut agent = Agent {
            connection: Connection::client(limits, Now::default()),
            user: login.user.clone(),
            stream,
            start: Instant::now(),
            buffer: vec![0; READ],
            filled: 0,
            is_over: false,
            is_stopping,
        };
        agent.wait(|now, connection, event| {
            match event {
                Event::Start(_) => {
                    let response = format!("\0{}\0{}", login.user, login.password);
                    connection.start_ok(Table::default(), b"PLAIN", response.as_bytes(), b"en_US");
                }
                Event::Tune(proposed) => {
                    connection.tune_ok(now, Tune { heartbeat_s: 0, ..proposed });
                    // The head of a message comes in one frame, and may be larger than what clients agree on: it came over
                    // AMQP 1.0, or the broker has added to it.
                    connection.take_frames(FRAME_MAX);
                    connection.open(vhost.as_bytes());
                }
                Event::OpenOk => connection.channel_open(CHANNEL),
                Event::ChannelOpenOk { .. } => return Ok(Some(())),
                other => return Err(unexpected(&other)),
            }
            Ok(None)
        })?;
        Ok(agent)
    }

    fn close(mut self) {
        if self.is_over {
            // It is told that this was heard. Whatever goes wrong now goes wrong after the work.
            let _ = self.write_all();
            return;
        }
        let now = self.now();
        self.connection.close_connection(now, ReplyCode::Success, "Goodbye", MethodId::NONE);
        // A failure from here on comes after the work, and events that arrive before the end are of no use.
        let _: Result<(), Trouble> = self.wait(|_, _, event| match event {
            Event::Closed => Ok(Some(())),
            _ => Ok(None),
        });
    }

    /// Ends the connection without a goodbye, which a broker that does not answer, as while an alarm holds, would not hear. Nor
    /// is it to take up later what it has not read: messages that have gone back would be in both places.
    fn abandon(self) {
        // Where that fails the connection ends as any that is dropped.
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    fn now(&self) -> Now {
        Now { mono_ns: self.start.elapsed().as_nanos() as u64, wall_ms: 0 }
    }

    /// `another` opens a connection like this one.
    fn carry_out(
        &mut self,
        action: &Action,
        another: &dyn Fn() -> Result<Agent<'a>, Trouble>,
    ) -> Result<Outcome, Trouble> {
        let bytes = |text: &str| -> Result<Vec<u8>, Trouble> {
            match text.len() {
                0..=255 => Ok(text.as_bytes().to_vec()),
                _ => Err(refused(Code::PreconditionFailed, "a name is longer than 255 bytes")),
            }
        };
        let connection = &mut self.connection;
        match action {
            Action::DeclareQueue { name, durable, auto_delete, arguments } => {
                let (queue, arguments) = (&bytes(name)?, table(arguments)?);
                let (durable, auto_delete) = (*durable, *auto_delete);
                connection.send(
                    CHANNEL,
                    &QueueDeclare { queue, durable, auto_delete, arguments, ..QueueDeclare::default() },
                );
            }
            Action::DeleteQueue { name, if_unused, if_empty } => {
                let (queue, if_unused, if_empty) = (&bytes(name)?, *if_unused, *if_empty);
                connection
                    .send(CHANNEL, &QueueDelete { queue, if_unused, if_empty, ..QueueDelete::default() });
            }
            Action::Purge { queue } => {
                connection.send(CHANNEL, &QueuePurge { queue: &bytes(queue)?, ..QueuePurge::default() });
            }
            Action::DeclareExchange { name, kind, durable, auto_delete, internal, arguments } => {
                let (exchange, kind, arguments) = (&bytes(name)?, &bytes(kind)?, table(arguments)?);
                let (durable, auto_delete, internal) = (*durable, *auto_delete, *internal);
                let rest = ExchangeDeclare::default();
                connection.send(
                    CHANNEL,
                    &ExchangeDeclare { exchange, kind, durable, auto_delete, internal, arguments, ..rest },
                );
            }
            Action::DeleteExchange { name, if_unused } => {
                let (exchange, if_unused) = (&bytes(name)?, *if_unused);
                connection
                    .send(CHANNEL, &ExchangeDelete { exchange, if_unused, ..ExchangeDelete::default() });
            }
            Action::Bind { on, source, destination, to_exchange, key, arguments } => {
                let ends = (bytes(source)?, bytes(destination)?);
                self.bind(*on, (&ends.0, &ends.1), *to_exchange, &bytes(key)?, table(arguments)?);
            }
            Action::Publish(publication) => return self.publish(publication, &bytes),
            Action::Peek { queue, from, skip, count, bytes_max, ms_max } => {
                return self.peek(&bytes(queue)?, (*from, *skip), *count, *bytes_max, *ms_max);
            }
            Action::Read { stream, from, count, end, bytes_max, ms_max } => {
                return self.read_stream(&bytes(stream)?, from, (*count, *end), *bytes_max, *ms_max);
            }
            Action::Search(search) => return self.search(&bytes(&search.queue)?, search).map(Outcome::Found),
            Action::Move { queue, goal, positions, pace } => {
                let mut publisher = another()?;
                let chosen = positions.as_deref();
                let outcome = self.move_all(&mut publisher, &bytes(queue)?, goal, chosen, pace);
                match &outcome {
                    Ok(Outcome::Moved { trouble: Some(Trouble::Broken(_)), .. }) | Err(_) => {
                        publisher.abandon()
                    }
                    Ok(_) => publisher.close(),
                }
                return outcome;
            }
            Action::Discard { queue, positions, rejects, held: true } => {
                return self.settle_held(&bytes(queue)?, positions, *rejects);
            }
            Action::Discard { queue, positions, rejects: true, .. } => {
                return self.reject(&bytes(queue)?, positions);
            }
            Action::Discard { queue, positions, .. } => return self.discard(&bytes(queue)?, positions),
            Action::Get { queue, count, bytes_max, mode } => {
                return self.get(&bytes(queue)?, *count, *bytes_max, *mode);
            }
        }
        self.wait(|_, _, event| match event {
            Event::Method { .. } => Ok(Some(Outcome::Done)),
            other => Err(unexpected(&other)),
        })
    }

    /// Asks for a binding to be there, or not to be there, between a source and a destination.
    fn bind(
        &mut self,
        on: bool,
        (source, destination): (&[u8], &[u8]),
        to_exchange: bool,
        routing_key: &[u8],
        arguments: Table<'_>,
    ) {
        let connection = &mut self.connection;
        let (exchange, queue) = (source, destination);
        match (to_exchange, on) {
            (false, true) => connection.send(
                CHANNEL,
                &QueueBind { queue, exchange, routing_key, arguments, ..QueueBind::default() },
            ),
            (false, false) => connection.send(
                CHANNEL,
                &QueueUnbind { queue, exchange, routing_key, arguments, ..QueueUnbind::default() },
            ),
            (true, true) => {
                let rest = ExchangeBind::default();
                connection
                    .send(CHANNEL, &ExchangeBind { source, destination, routing_key, arguments, ..rest });
            }
            (true, false) => {
                let rest = ExchangeUnbind::default();
                connection
                    .send(CHANNEL, &ExchangeUnbind { source, destination, routing_key, arguments, ..rest });
            }
        }
    }

    /// Whether the broker takes properties of this size from its agent, as from any client.
    fn is_taken(&self, properties: &[u8]) -> bool {
        HEADER + properties.len() <= self.connection.frame_max() as usize
    }

    fn publish(
        &mut self,
        publication: &Publication,
        bytes: &dyn Fn(&str) -> Result<Vec<u8>, Trouble>,
    ) -> Result<Outcome, Trouble> {
        let Publication { exchange, key, properties, body } = publication;
        if !self.is_taken(properties) {
            let text = format!("the properties are larger than frame_max ({})", self.connection.frame_max());
            return Err(refused(Code::PreconditionFailed, &text));
        }
        self.connection.send(CHANNEL, &ConfirmSelect { nowait: false });
        let prefix = PublishPrefix::new(CHANNEL, &bytes(exchange)?, &bytes(key)?, true);
        self.connection.publish(&prefix, properties, &Body::Bytes(body));
        let mut is_routed = true;
        self.wait(|_, _, event| match event {
            Event::Method { method: Method::BasicAck(_), .. } => Ok(Some(Outcome::Published(is_routed))),
            Event::Method { method: Method::BasicNack(_), .. } => Ok(Some(Outcome::Published(false))),
            Event::Method { .. } => Ok(None),
            Event::Return { .. } => {
                is_routed = false;
                Ok(None)
            }
            other => Err(unexpected(&other)),
        })
    }

    fn get(&mut self, queue: &[u8], count: u32, bytes_max: usize, mode: GetMode) -> Result<Outcome, Trouble> {
        let mut messages: Vec<Got> = Vec::new();
        let (mut tag, mut size) = (0, 0);
        while messages.len() < count as usize && (messages.is_empty() || size < bytes_max) {
            self.connection.send(CHANNEL, &BasicGet { queue, no_ack: false, ..BasicGet::default() });
            let got = self.wait(|_, _, event| match event {
                Event::GetOk { get_ok, properties, body, .. } => {
                    tag = get_ok.delivery_tag;
                    Ok(Some(Some(Got {
                        redelivered: get_ok.redelivered,
                        exchange: String::from_utf8_lossy(get_ok.exchange).into_owned(),
                        key: String::from_utf8_lossy(get_ok.routing_key).into_owned(),
                        left: get_ok.message_count,
                        position: None,
                        properties: properties.raw().to_vec(),
                        body: body.to_vec(),
                    })))
                }
                Event::Method { .. } => Ok(Some(None)),
                other => Err(unexpected(&other)),
            })?;
            let Some(got) = got else { break };
            size += got.body.len() + got.properties.len();
            messages.push(got);
        }
        if !messages.is_empty() {
            match mode {
                GetMode::Remove => self.connection.ack(CHANNEL, tag, true),
                GetMode::Reject => self.connection.nack(CHANNEL, tag, true, false),
                GetMode::Requeue => self.connection.nack(CHANNEL, tag, true, true),
            }
        }
        Ok(Outcome::Got(messages))
    }

    /// Writes the output that waits, then reads until `on` has its result.
    fn wait<T>(
        &mut self,
        on: impl FnMut(Now, &mut Connection, Event<'_>) -> Result<Option<T>, Trouble>,
    ) -> Result<T, Trouble> {
        let silent = || Trouble::Broken("the broker did not answer in time".to_owned());
        self.wait_for(None, on)?.ok_or_else(silent)
    }

    /// The same; nothing where nothing more comes for so long.
    fn wait_for<T>(
        &mut self,
        pause: Option<Duration>,
        mut on: impl FnMut(Now, &mut Connection, Event<'_>) -> Result<Option<T>, Trouble>,
    ) -> Result<Option<T>, Trouble> {
        let (begin, most) = (Instant::now(), pause.unwrap_or(PATIENCE));
        let mut heard_at = begin;
        loop {
            let now = self.now();
            let mut input = Input::new(&self.buffer[..self.filled]);
            let mut found = Ok(None);
            while matches!(found, Ok(None))
                && let Some(polled) = self.connection.poll_event(now, &mut input)
            {
                let gathered;
                let event = match polled {
                    Event::Gathered(whole) => {
                        gathered = whole;
                        gathered.event()
                    }
                    other => other,
                };
                found = match event {
                    Event::ChannelClose { close, .. } => Err(said(close.reply_code, close.reply_text)),
                    Event::Close(close) => {
                        self.is_over = true;
                        Err(said(close.reply_code, close.reply_text))
                    }
                    Event::Failed(error) | Event::ChannelFailed { error, .. } => {
                        Err(Trouble::Broken(error.to_string()))
                    }
                    other => on(now, &mut self.connection, other),
                };
            }
            let consumed = input.consumed();
            self.buffer.copy_within(consumed..self.filled, 0);
            self.filled -= consumed;
            let found = found?;
            self.write_all()?;
            if found.is_some() {
                return Ok(found);
            }
            self.go_on(begin)?;
            if self.filled == self.buffer.len() {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Err(Trouble::Broken("the broker closed the connection".to_owned())),
                Ok(count) => {
                    self.filled += count;
                    heard_at = Instant::now();
                }
                Err(error) if is_passing(&error) => {
                    if heard_at.elapsed() >= most {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(broken(error)),
            }
        }
    }

    /// Writes the output that waits.
    fn write_all(&mut self) -> Result<(), Trouble> {
        let output = self.connection.output_mut();
        let bytes = output.to_vec();
        output.sent(bytes.len());
        let (begin, mut rest) = (Instant::now(), &bytes[..]);
        let mut taken_at = begin;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(Trouble::Broken("the broker closed the connection".to_owned())),
                Ok(count) => {
                    rest = &rest[count..];
                    taken_at = Instant::now();
                }
                Err(error) if is_passing(&error) && taken_at.elapsed() < PATIENCE => self.go_on(begin)?,
                Err(error) => return Err(broken(error)),
            }
        }
        Ok(())
    }

    /// Checks that a wait since `begin` may go on: not when the node stops and the wait has had its time.
    fn go_on(&self, begin: Instant) -> Result<(), Trouble> {
        match self.is_stopping() && begin.elapsed() >= LAST_PATIENCE {
            true => Err(Trouble::Broken("the node is stopping".to_owned())),
            false => Ok(()),
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }
}

/// Nothing moved yet, and may the next time.
fn is_passing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn table(bytes: &[u8]) -> Result<Table<'_>, Trouble> {
    Table::new(bytes).map_err(|_| refused(Code::PreconditionFailed, "the arguments are too many or too deep"))
}

fn refused(code: Code, text: &str) -> Trouble {
    Trouble::Refused(Refusal::new(code, Reason::Relayed, text))
}

/// A message that was delivered to be looked at.
fn delivered(deliver: &BasicDeliver<'_>, position: Option<u64>, properties: Vec<u8>, body: &[u8]) -> Got {
    Got {
        redelivered: deliver.redelivered,
        exchange: String::from_utf8_lossy(deliver.exchange).into_owned(),
        key: String::from_utf8_lossy(deliver.routing_key).into_owned(),
        left: 0,
        position,
        properties,
        body: body.to_vec(),
    }
}

fn unexpected(event: &Event<'_>) -> Trouble {
    let mut text = format!("{event:?}");
    text.truncate(text.floor_char_boundary(200));
    Trouble::Broken(format!("the broker did something unexpected: {text}"))
}

/// The refusal or the failure that a close of the broker tells: `NAME - text`.
fn said(number: u16, text: &[u8]) -> Trouble {
    let all = [
        Code::ConnectionForced,
        Code::AccessRefused,
        Code::NotFound,
        Code::ResourceLocked,
        Code::PreconditionFailed,
        Code::ResourceError,
        Code::NotAllowed,
        Code::NotImplemented,
    ];
    let text = String::from_utf8_lossy(text);
    let reason = text.split_once(" - ").map_or(&*text, |(_, reason)| reason);
    match all.into_iter().find(|code| code.number() == number) {
        Some(code) => refused(code, reason),
        None => Trouble::Broken(format!("{number} {text}")),
    }
}
