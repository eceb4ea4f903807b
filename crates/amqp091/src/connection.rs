//! One AMQP 0-9-1 connection, as either peer: handshake, channels, methods and messages.
//!
//! Pull [`Connection::poll_event`] until it answers `None`; what it leaves in the input is an incomplete frame, to be
//! presented again with more bytes behind it. It also answers `None` without reading on where a verb is due first
//! (`start`, `tune`, `open_ok`): poll again after the verb. Verbs append to [`Connection::output_mut`].
//!
//! A refusal of the machine's own is sent by it and told as [`Event::Failed`] or [`Event::ChannelFailed`]. Invariant:
//! after [`Event::Failed`] and after [`Event::Close`] nothing follows but [`Event::Closed`].

mod handshake;
mod verbs;

use crate::channel::{ChannelState, Channels};
use crate::content::{self, Assembly, BASIC, Header, Join};
use crate::encode;
use crate::error::{Error, Octets, ReplyCode, Snippet};
use crate::frame::{self, Detected, Head, Input, Next};
use crate::heartbeat::Heartbeat;
use crate::limits::{BODY_SIZE_MAX, CLOSING_MS, Limits, SILENCE_MS};
use crate::method::{
    Arguments, BasicAck, BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, ChannelClose, ConnectionClose,
    ConnectionOpen, ConnectionSecure, ConnectionSecureOk, ConnectionStart, ConnectionStartOk, Method,
    MethodId, Sender,
};
use base::{Now, Output};
use message::amqp091::{Malformed, Properties};

/// Which peer this end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Accepts connections.
    Server,
    /// Opens them.
    Client,
}

/// What was agreed on, or is proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tune {
    /// Channels open at once; 0: no bound but their numbers.
    pub channel_max: u16,
    /// Bytes of a frame; 0: no bound.
    pub frame_max: u32,
    /// Heartbeat timeout in seconds; 0: none.
    pub heartbeat_s: u16,
}

/// What the peer did, or what became of the connection. Names after the methods they stand for.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// Server: a client speaks this protocol. Answer: `start`.
    ProtocolHeader,
    /// Client: answer with `start_ok`.
    Start(ConnectionStart<'a>),
    /// Server: answer with `tune`, `secure` or `refuse_login`.
    StartOk(ConnectionStartOk<'a>),
    /// Client: answer with `secure_ok`.
    Secure(ConnectionSecure<'a>),
    /// Server: answer with `tune`, `secure` or `refuse_login`.
    SecureOk(ConnectionSecureOk<'a>),
    /// Client: the server's proposal; answer with `tune_ok`, then `open`.
    Tune(Tune),
    /// Server: what the client settled for.
    TuneOk(Tune),
    /// Server: answer with `open_ok` or `close_connection`.
    Open(ConnectionOpen<'a>),
    /// Client: the connection is open.
    OpenOk,
    /// Server: a channel is open. Answer: `channel_open_ok`.
    ChannelOpen {
        /// Its number.
        channel: u16,
    },
    /// Client: a channel is open.
    ChannelOpenOk {
        /// Its number.
        channel: u16,
    },
    /// Server: a message.
    Publish {
        /// Where.
        channel: u16,
        /// `immediate` is never set: it is refused.
        publish: BasicPublish<'a>,
        /// Checked.
        properties: Properties<'a>,
        /// The whole body.
        body: &'a [u8],
    },
    /// A message that came in several pieces: see [`Gathered::event`].
    Gathered(Gathered),
    /// Client: a message for a consumer.
    Deliver {
        /// Where.
        channel: u16,
        /// For whom, and from where.
        deliver: BasicDeliver<'a>,
        /// Checked.
        properties: Properties<'a>,
        /// The whole body.
        body: &'a [u8],
    },
    /// Client: a message that could not be routed.
    Return {
        /// Where.
        channel: u16,
        /// Why, and where it was to go.
        returned: BasicReturn<'a>,
        /// Checked.
        properties: Properties<'a>,
        /// The whole body.
        body: &'a [u8],
    },
    /// Client: a message that was asked for.
    GetOk {
        /// Where.
        channel: u16,
        /// From where, and how many are left.
        get_ok: BasicGetOk<'a>,
        /// Checked.
        properties: Properties<'a>,
        /// The whole body.
        body: &'a [u8],
    },
    /// Any other method that the peer may send. On channel 0 of an open connection: `update-secret`, `blocked` and the
    /// like.
    Method {
        /// Where.
        channel: u16,
        /// What.
        method: Method<'a>,
    },
    /// The peer closes a channel. Answer: `channel_close_ok`.
    ChannelClose {
        /// Its number.
        channel: u16,
        /// Why.
        close: ChannelClose<'a>,
    },
    /// The machine closed a channel for what the peer did on it; [`Event::ChannelClosed`] follows.
    ChannelFailed {
        /// Its number.
        channel: u16,
        /// Why; the peer was told.
        error: Error,
    },
    /// A channel that this end closed is closed; its number is free.
    ChannelClosed {
        /// Its number.
        channel: u16,
    },
    /// The peer closes the connection. Answer: `close_ok`.
    Close(ConnectionClose<'a>),
    /// The machine gave the connection up; [`Event::Closed`] follows, at once or after a while.
    Failed(Error),
    /// Nothing more will come or go: close the socket when the output is written.
    Closed,
}

/// A message that had to be gathered, in memory of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Gathered {
    channel: u16,
    assembly: Box<Assembly>,
}

impl Gathered {
    /// The message as the event it would have been in one piece.
    pub fn event(&self) -> Event<'_> {
        let (channel, (arguments, properties, body)) = (self.channel, self.assembly.parts());
        let read = || {
            let properties = Properties::read(properties)?;
            Ok::<_, Malformed>(match self.assembly.method.method {
                40 => BasicPublish::decode(arguments)?.event(channel, properties, body),
                60 => BasicDeliver::decode(arguments)?.event(channel, properties, body),
                50 => BasicReturn::decode(arguments)?.event(channel, properties, body),
                _ => BasicGetOk::decode(arguments)?.event(channel, properties, body),
            })
        };
        read().expect("method and header were read when they came")
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Server: eight bytes are awaited.
    AwaitHeader,
    /// Server: a verb is due: `start`.
    Starting,
    AwaitStartOk,
    /// Server: a verb is due: `tune`, `secure` or `refuse_login`.
    Authenticating,
    AwaitSecureOk,
    AwaitTuneOk,
    AwaitOpen,
    /// Server: a verb is due: `open_ok` or `close_connection`.
    Opening,
    /// Client: `start`, `secure` or `tune` is awaited.
    AwaitStart,
    AwaitTune,
    /// Client: a verb is due: `start_ok`, `secure_ok`, `tune_ok` or `open`.
    Answering,
    AwaitOpenOk,
    Running,
    /// `close` went out: everything is discarded until `close-ok` or the deadline.
    Closing,
    /// The peer closed: everything is discarded until we answer.
    ClosedByPeer,
    /// Everything is discarded until the deadline.
    Silent,
    /// `Closed` is still to be told.
    Ending,
    Closed,
}

/// What one step of reading led to.
enum Step<'i> {
    Event(Event<'i>),
    /// Go on.
    Again,
    /// More input, or a verb, is needed.
    Empty,
}

/// What the peer did wrong, and how much of the connection that ends.
struct Refusal {
    error: Error,
    /// Frames cannot be told apart any more.
    is_fatal: bool,
}

impl Refusal {
    fn new(code: ReplyCode, text: impl std::fmt::Display, method: MethodId) -> Refusal {
        Refusal { error: Error::refused(code, text, method), is_fatal: false }
    }
}

type Outcome<'i> = Result<Step<'i>, Refusal>;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    state: State,
    channel_max: u16,
    /// The largest payload taken, in bytes.
    size_max: u32,
    /// The largest frame the peer takes, in bytes.
    frame_max: u32,
    limits: Limits,
    output: Output,
    channels: Channels,
    /// The deadline of `state`; `u64::MAX`: none.
    deadline_ns: u64,
    heartbeat: Heartbeat,
    /// Bytes of input without which nothing goes on.
    wanted: usize,
    /// Bytes left in the input at the last poll.
    left: usize,
    /// Still to be told.
    failure: Option<Box<Error>>,
}

impl Connection {
    /// The server's end of a connection accepted `now`.
    ///
    /// # Panics
    /// When `limits.frame_max` is below [`frame::FRAME_MIN_SIZE`].
    pub fn server(limits: Limits, now: Now) -> Connection {
        Connection::new(Role::Server, State::AwaitHeader, limits, now)
    }

    /// The client's end of a connection established `now`; the protocol header is in the output.
    ///
    /// # Panics
    /// When `limits.frame_max` is below [`frame::FRAME_MIN_SIZE`].
    pub fn client(limits: Limits, now: Now) -> Connection {
        let mut connection = Connection::new(Role::Client, State::AwaitStart, limits, now);
        connection.output.extend(&frame::PROTOCOL_HEADER);
        connection
    }

    fn new(role: Role, state: State, limits: Limits, now: Now) -> Connection {
        assert!(limits.frame_max >= frame::FRAME_MIN_SIZE, "every peer takes frames of 8192 bytes");
        Connection {
            role,
            state,
            channel_max: limits.channel_max,
            size_max: frame::FRAME_MIN_SIZE,
            frame_max: frame::FRAME_MIN_SIZE,
            limits,
            output: Output::default(),
            channels: Channels::default(),
            deadline_ns: now.after_ms(limits.handshake_ms_max.into()),
            heartbeat: Heartbeat::default(),
            wanted: 0,
            left: 0,
            failure: None,
        }
    }

    /// The next event, read from `input` as far as needed. `None`: more input or a verb is needed first. The event
    /// borrows from the input alone, so verbs can be called while it is looked at.
    #[inline]
    pub fn poll_event<'i>(&mut self, now: Now, input: &mut Input<'i>) -> Option<Event<'i>> {
        // What comes by the million: a message or an ack whose bytes are all there and as they should be. Anything
        // else, be it wrong or only rare, takes the long way, which also knows these.
        if self.state == State::Running {
            match (self.role, method_id_at_front(input.rest())) {
                (Role::Server, PUBLISH) => {
                    if let Some(message) = self.whole_message::<BasicPublish<'i>>(input) {
                        return Some(message.event());
                    }
                }
                (Role::Client, DELIVER) => {
                    if let Some(message) = self.whole_message::<BasicDeliver<'i>>(input) {
                        return Some(message.event());
                    }
                }
                (_, ACK) => {
                    if let Some((channel, ack)) = self.whole_ack(input) {
                        return Some(Event::Method { channel, method: Method::BasicAck(ack) });
                    }
                }
                _ => {}
            }
        }
        self.poll_any_event(now, input)
    }

    fn poll_any_event<'i>(&mut self, now: Now, input: &mut Input<'i>) -> Option<Event<'i>> {
        loop {
            match self.step(now, input) {
                Ok(Step::Event(event)) => return Some(event),
                Ok(Step::Again) => {}
                Ok(Step::Empty) => {
                    let left = input.rest().len();
                    self.heartbeat.received |= input.consumed() > 0 || left > self.left;
                    self.left = left;
                    return None;
                }
                Err(refusal) => self.refuse(now, refusal),
            }
        }
    }

    /// A message whose three frames lie behind each other at the front of the input, if nothing is wrong with them.
    #[inline(always)]
    fn whole_message<'i, M: Carrier<'i>>(&mut self, input: &mut Input<'i>) -> Option<Whole<'i, M>> {
        let (channel, payload, rest) = frame::whole(input.rest(), frame::METHOD, self.size_max)?;
        if !self.channels.is_ready(channel) {
            return None;
        }
        let method = M::decode(payload.get(4..)?).ok().filter(M::is_carried)?;
        let (properties, body, rest) = content::whole(rest, channel, self.size_max)?;
        if body.len() > self.limits.message_size_max as usize {
            return None;
        }
        let properties = Properties::read(properties).ok()?;
        input.consume(input.rest().len() - rest.len());
        Some(Whole { channel, method, properties, body })
    }

    /// An ack at the front of the input, if nothing is wrong with it.
    #[inline(always)]
    fn whole_ack(&mut self, input: &mut Input<'_>) -> Option<(u16, BasicAck)> {
        let bytes = input.rest().first_chunk::<{ encode::ACK_LEN }>()?;
        let head = Head::read(bytes)?;
        let size = (encode::ACK_LEN - frame::OVERHEAD) as u32;
        let is_sound = (head.kind, head.size, bytes[20]) == (frame::METHOD, size, frame::END);
        if !is_sound || !self.channels.is_ready(head.channel) {
            return None;
        }
        let ack = BasicAck::decode(&bytes[11..20]).ok()?;
        input.consume(encode::ACK_LEN);
        Some((head.channel, ack))
    }

    /// How many bytes of input, counted from where it stopped reading, are needed for anything to happen. At most
    /// [`Limits::input_max`].
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Which peer this end is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The handshake is over and nothing closes.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.state == State::Running
    }

    /// Nothing more will come or go.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The largest frame that the peer takes, in bytes.
    pub fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// Channels that may be open at once; 0: no bound but their numbers.
    pub fn channel_max(&self) -> u16 {
        self.channel_max
    }

    /// What is to be written to the socket.
    #[inline]
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// What is to be written to the socket.
    #[inline]
    pub fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Bytes of memory behind it, the output's excepted.
    pub fn capacity(&self) -> usize {
        self.channels.capacity()
    }

    /// When [`Connection::handle_deadline`] has something to do, in monotonic nanoseconds.
    pub fn poll_deadline(&self) -> Option<u64> {
        let deadline = self.deadline_ns.min(self.heartbeat.deadline());
        (deadline != u64::MAX).then_some(deadline)
    }

    /// Does what is due: sends a heartbeat, or gives the peer up. Poll events afterwards.
    pub fn handle_deadline(&mut self, now: Now) {
        if now.mono_ns >= self.deadline_ns {
            match self.state {
                State::Silent => {}
                State::Closing => self.failure = Some(Box::new(Error::CloseTimeout)),
                _ => self.failure = Some(Box::new(Error::HandshakeTimeout)),
            }
            self.end();
        } else if !self.heartbeat.tick(now, &mut self.output) {
            self.failure = Some(Box::new(Error::HeartbeatMissed));
            self.end();
        }
    }

    /// Whether this end reads at present. While it does not, the peer's silence is not held against it.
    pub fn set_reading(&mut self, reads: bool) {
        self.heartbeat.is_deaf = !reads;
    }

    fn end(&mut self) {
        self.state = State::Ending;
        self.deadline_ns = u64::MAX;
        self.heartbeat.stop();
        self.channels.clear();
    }

    fn set_deadline(&mut self, now: Now, ms: u64) {
        self.deadline_ns = now.after_ms(ms);
    }

    fn step<'i>(&mut self, now: Now, input: &mut Input<'i>) -> Outcome<'i> {
        if self.state != State::Running {
            return self.step_aside(now, input);
        }
        let bytes = input.rest();
        match frame::split(bytes, self.size_max) {
            Next::Frame { head, payload, rest } => {
                if head.kind == frame::METHOD
                    && let Some((id, arguments)) = MethodId::split(payload)
                    && id.class == BASIC
                {
                    let taken = bytes.len() - rest.len();
                    match (self.role, id.method) {
                        (Role::Server, 40) => {
                            return self.message::<BasicPublish<'i>>(input, taken, head, arguments);
                        }
                        (Role::Client, 60) => {
                            return self.message::<BasicDeliver<'i>>(input, taken, head, arguments);
                        }
                        (Role::Client, 50) => {
                            return self.message::<BasicReturn<'i>>(input, taken, head, arguments);
                        }
                        (Role::Client, 71) => {
                            return self.message::<BasicGetOk<'i>>(input, taken, head, arguments);
                        }
                        _ => {}
                    }
                }
                input.consume(bytes.len() - rest.len());
                self.frame(now, head, payload)
            }
            other => self.no_frame(input, other),
        }
    }

    /// Everything else than an open connection.
    #[cold]
    fn step_aside<'i>(&mut self, now: Now, input: &mut Input<'i>) -> Outcome<'i> {
        if let Some(error) = self.failure.take() {
            return Ok(Step::Event(Event::Failed(*error)));
        }
        match self.state {
            State::AwaitHeader => self.protocol_header(input),
            State::Starting | State::Authenticating | State::Opening | State::Answering => Ok(Step::Empty),
            State::ClosedByPeer | State::Silent | State::Closed => {
                input.consume(usize::MAX);
                Ok(Step::Empty)
            }
            State::Ending => {
                self.state = State::Closed;
                Ok(Step::Event(Event::Closed))
            }
            _ => match frame::split(input.rest(), self.size_max) {
                Next::Frame { head, payload, rest } => {
                    input.consume(input.rest().len() - rest.len());
                    self.frame(now, head, payload)
                }
                other => self.no_frame(input, other),
            },
        }
    }

    /// The input does not begin with a frame.
    #[cold]
    fn no_frame<'i>(&mut self, input: &mut Input<'i>, next: Next<'i>) -> Outcome<'i> {
        let (head, payload, problem) = match next {
            Next::TooLarge { head } => {
                let taken_max = self.size_max - frame::OVERHEAD as u32;
                (head, &[][..], format!("{{frame_too_large,{},{taken_max}}}", head.size))
            }
            Next::BadEnd { head, payload, end } => {
                (head, payload, format!("{{invalid_frame_end_marker,{end}}}"))
            }
            Next::Incomplete { wanted } => {
                self.wanted = wanted;
                return Ok(Step::Empty);
            }
            Next::Frame { .. } => return Ok(Step::Again),
        };
        input.consume(usize::MAX);
        if self.state == State::Closing {
            self.end();
            return Ok(Step::Again);
        }
        let text = format!("{}: {problem}", Snippet(head.kind, payload));
        let error = Error::refused(ReplyCode::FrameError, text, MethodId::NONE);
        Err(Refusal { error, is_fatal: true })
    }

    /// A whole frame.
    fn frame<'i>(&mut self, now: Now, head: Head, payload: &'i [u8]) -> Outcome<'i> {
        let unknown = || {
            let text = format!("{}: unknown_frame", Snippet(head.kind, payload));
            Err(Refusal::new(ReplyCode::FrameError, text, MethodId::NONE))
        };
        let unexpected = || {
            let text = Snippet(head.kind, payload);
            Err(Refusal::new(ReplyCode::UnexpectedFrame, text, MethodId::NONE))
        };
        if self.state == State::Closing {
            return self.frame_while_closing(head, payload);
        }
        match head.kind {
            frame::METHOD => match MethodId::split(payload) {
                None => unknown(),
                Some((id, arguments)) if head.channel == 0 => self.method_0(now, id, arguments),
                Some(_) if self.state != State::Running => unexpected(),
                Some((id, arguments)) => self.method(head.channel, id, arguments),
            },
            frame::HEADER => match Header::read(payload) {
                None => unknown(),
                Some(_) if head.channel == 0 || self.state != State::Running => unexpected(),
                Some(header) => self.header(head.channel, header),
            },
            frame::BODY if head.channel == 0 || self.state != State::Running => unexpected(),
            frame::BODY => self.body(head.channel, payload),
            frame::HEARTBEAT if !payload.is_empty() => unknown(),
            frame::HEARTBEAT if head.channel != 0 => unexpected(),
            frame::HEARTBEAT => Ok(Step::Again),
            _ => unknown(),
        }
    }

    /// After our `close` all is discarded but the peer's `close` and `close-ok` (§1.4.2.7).
    fn frame_while_closing<'i>(&mut self, head: Head, payload: &'i [u8]) -> Outcome<'i> {
        if (head.kind, head.channel) == (frame::METHOD, 0) {
            match MethodId::split(payload) {
                Some((MethodId { class: 10, method: 50 }, _)) => self.send_close_ok(),
                Some((MethodId { class: 10, method: 51 }, _)) => self.end(),
                _ => {}
            }
        }
        Ok(Step::Again)
    }

    /// A method on an open connection's channel 0.
    fn method_0_running<'i>(&mut self, id: MethodId, arguments: &'i [u8]) -> Outcome<'i> {
        let method = decode(id, arguments)?;
        match method {
            Method::ConnectionClose(close) => Ok(self.closed_by_peer(close)),
            Method::ConnectionBlocked(_)
            | Method::ConnectionUnblocked(_)
            | Method::ConnectionUpdateSecret(_)
            | Method::ConnectionUpdateSecretOk(_)
                if self.may_send(method.sender()) =>
            {
                Ok(Step::Event(Event::Method { channel: 0, method }))
            }
            _ => Err(self.unexpected_method(id)),
        }
    }

    fn closed_by_peer<'i>(&mut self, close: ConnectionClose<'i>) -> Step<'i> {
        self.state = State::ClosedByPeer;
        self.channels.clear();
        Step::Event(Event::Close(close))
    }

    fn unexpected_method(&self, id: MethodId) -> Refusal {
        let state = match self.state {
            State::AwaitHeader | State::Starting | State::AwaitStartOk | State::AwaitStart => "starting",
            State::Authenticating | State::AwaitSecureOk => "securing",
            State::AwaitTuneOk | State::AwaitTune | State::Answering => "tuning",
            State::AwaitOpen | State::Opening | State::AwaitOpenOk => "opening",
            _ => "running",
        };
        let text = format!("unexpected method in connection state {state}");
        Refusal::new(ReplyCode::ChannelError, text, id)
    }

    fn may_send(&self, sender: Sender) -> bool {
        match self.role {
            Role::Server => sender != Sender::Server,
            Role::Client => sender != Sender::Client,
        }
    }

    /// A method on a channel of an open connection.
    fn method<'i>(&mut self, channel: u16, id: MethodId, arguments: &'i [u8]) -> Outcome<'i> {
        let Some(found) = self.channels.get(channel) else {
            return match decode(id, arguments)? {
                Method::ChannelOpen(_) if self.role == Role::Server => self.opened_by_peer(channel),
                _ => Err(Refusal::new(ReplyCode::ChannelError, "expected 'channel.open'", id)),
            };
        };
        let state = found.state;
        if let Some(assembly) = &found.assembly {
            return Err(assembly_interrupted(assembly));
        }
        match (state, (id.class, id.method)) {
            (_, (20, 10)) if self.role == Role::Server => {
                Err(Refusal::new(ReplyCode::ChannelError, "second 'channel.open' seen", id))
            }
            (ChannelState::Closing, (20, 41)) => {
                self.channels.remove(channel);
                Ok(Step::Event(Event::ChannelClosed { channel }))
            }
            (ChannelState::Closing, (20, 40)) => {
                // Both ends closed at once: ours still gets its answer.
                self.send_channel_close_ok(channel);
                Ok(Step::Again)
            }
            (ChannelState::Closing | ChannelState::ClosedByPeer, _) => Ok(Step::Again),
            (ChannelState::Opening, (20, 11)) => {
                found.state = ChannelState::Open;
                decode(id, arguments)?;
                Ok(Step::Event(Event::ChannelOpenOk { channel }))
            }
            (ChannelState::Opening | ChannelState::Open, _) => {
                let method = decode(id, arguments)?;
                match method {
                    Method::ChannelClose(close) => {
                        found.state = ChannelState::ClosedByPeer;
                        Ok(Step::Event(Event::ChannelClose { channel, close }))
                    }
                    Method::ChannelOpenOk(_) | Method::ChannelCloseOk(_) => Err(unimplemented(id)),
                    _ if id.class == 10 || !self.may_send(method.sender()) => Err(unimplemented(id)),
                    method => Ok(Step::Event(Event::Method { channel, method })),
                }
            }
        }
    }

    fn opened_by_peer<'i>(&mut self, channel: u16) -> Outcome<'i> {
        if self.channel_max != 0 && self.channels.len() >= self.channel_max.into() {
            let text = format!(
                "number of channels opened ({}) has reached the negotiated channel_max ({})",
                self.channels.len(),
                self.channel_max
            );
            return Err(Refusal::new(ReplyCode::NotAllowed, text, MethodId::NONE));
        }
        self.channels.insert(channel, ChannelState::Open);
        Ok(Step::Event(Event::ChannelOpen { channel }))
    }

    /// A method with a content, whose frame is the first `taken` bytes of the input: whole if its other frames lie
    /// behind it, else an assembly begins.
    fn message<'i, M: Carrier<'i>>(
        &mut self,
        input: &mut Input<'i>,
        taken: usize,
        head: Head,
        arguments: &'i [u8],
    ) -> Outcome<'i> {
        let id = M::ID;
        match self.channels.get(head.channel) {
            Some(found) if found.state == ChannelState::Open && found.assembly.is_none() => {}
            _ => {
                input.consume(taken);
                return self.method(head.channel, id, arguments);
            }
        }
        let method = match M::decode(arguments) {
            Ok(method) => method,
            Err(_) => {
                input.consume(taken);
                return Err(undecodable(id, arguments));
            }
        };
        if !method.is_carried() {
            return Err(Refusal::new(ReplyCode::NotImplemented, "immediate=true", id));
        }
        let behind = &input.rest()[taken..];
        match content::join(behind, head.channel, self.size_max) {
            Join::Whole { properties, body, rest } if body.len() <= self.limits.message_size_max as usize => {
                input.consume(input.rest().len() - rest.len());
                let properties = Properties::read(properties).map_err(malformed)?;
                Ok(Step::Event(method.event(head.channel, properties, body)))
            }
            Join::Wanted(wanted) if taken + wanted <= self.limits.contiguous_max as usize => {
                self.wanted = taken + wanted;
                Ok(Step::Empty)
            }
            _ => {
                input.consume(taken);
                self.begin_assembly(head.channel, id, arguments)
            }
        }
    }

    #[cold]
    fn begin_assembly<'i>(&mut self, channel: u16, id: MethodId, arguments: &[u8]) -> Outcome<'i> {
        if let Some(found) = self.channels.get(channel) {
            found.assembly = Some(Box::new(Assembly::new(id, arguments)));
        }
        Ok(Step::Again)
    }

    /// A content header that is not simply the middle of a message that lies whole in the input.
    fn header<'i>(&mut self, channel: u16, header: Header<'i>) -> Outcome<'i> {
        let Some(assembly) = self.assembly(channel)? else { return Ok(Step::Again) };
        if assembly.has_header() || header.weight != 0 {
            return Err(assembly_interrupted(assembly));
        }
        let id = assembly.method;
        if header.class != BASIC {
            let text = format!(
                "expected content header for class {BASIC}, got one for class {} instead",
                header.class
            );
            return Err(Refusal::new(ReplyCode::UnexpectedFrame, text, id));
        }
        if header.body_size > BODY_SIZE_MAX {
            let text = format!(
                "content body size {} exceeds maximum allowed size {BODY_SIZE_MAX}",
                header.body_size
            );
            return Err(Refusal::new(ReplyCode::FrameError, text, id));
        }
        Properties::read(header.properties).map_err(malformed)?;
        if header.body_size > self.limits.message_size_max.into() {
            let text = format!(
                "message size {} is larger than configured max size {}",
                header.body_size, self.limits.message_size_max
            );
            let error = Error::refused(ReplyCode::PreconditionFailed, text, id);
            self.send_channel_close(channel, &error);
            return Ok(Step::Event(Event::ChannelFailed { channel, error }));
        }
        if let Some(assembly) = self.assembly(channel)? {
            assembly.header(header.properties, header.body_size as usize);
        }
        Ok(self.complete(channel))
    }

    /// A body frame, as with `header`.
    fn body<'i>(&mut self, channel: u16, payload: &[u8]) -> Outcome<'i> {
        let Some(assembly) = self.assembly(channel)? else { return Ok(Step::Again) };
        if !assembly.has_header() {
            return Err(assembly_interrupted(assembly));
        }
        if payload.len() > assembly.missing() {
            let text = "content body frame exceeds remaining content size";
            return Err(Refusal::new(ReplyCode::FrameError, text, assembly.method));
        }
        assembly.body_piece(payload);
        Ok(self.complete(channel))
    }

    /// What `channel` is gathering; nothing where its frames are to be discarded.
    fn assembly(&mut self, channel: u16) -> Result<Option<&mut Assembly>, Refusal> {
        match self.channels.get(channel) {
            Some(found) if matches!(found.state, ChannelState::Closing | ChannelState::ClosedByPeer) => {
                Ok(None)
            }
            Some(found) if found.assembly.is_some() => Ok(found.assembly.as_deref_mut()),
            _ => {
                let text = "expected method frame, got non method frame instead";
                Err(Refusal::new(ReplyCode::UnexpectedFrame, text, MethodId::NONE))
            }
        }
    }

    fn complete<'i>(&mut self, channel: u16) -> Step<'i> {
        let assembly = self.channels.get(channel).map(|found| &mut found.assembly);
        let Some(assembly) = assembly.filter(|assembly| assembly.as_ref().is_some_and(|it| it.is_complete()))
        else {
            return Step::Again;
        };
        match assembly.take() {
            Some(assembly) => Step::Event(Event::Gathered(Gathered { channel, assembly })),
            None => Step::Again,
        }
    }

    /// Ends the connection for what the peer did: tells it, unless it has not logged in.
    #[cold]
    fn refuse(&mut self, now: Now, refusal: Refusal) {
        let is_told =
            matches!(self.state, State::Running | State::AwaitOpen | State::Opening | State::AwaitOpenOk);
        if let (true, Error::Refused { code, text, method }) = (is_told, &refusal.error) {
            self.send_close(*code as u16, text.as_bytes(), *method);
        }
        self.channels.clear();
        self.heartbeat.stop();
        if is_told && !refusal.is_fatal {
            self.state = State::Closing;
            self.set_deadline(now, CLOSING_MS);
        } else {
            self.state = State::Silent;
            self.set_deadline(now, SILENCE_MS);
        }
        self.failure = Some(Box::new(refusal.error));
    }
}

const PUBLISH: u32 = (60 << 16) | 40;
const DELIVER: u32 = (60 << 16) | 60;
const ACK: u32 = (60 << 16) | 80;

/// Class and method in one number, if `bytes` begin with a method frame; what they are otherwise is anyone's guess.
#[inline]
fn method_id_at_front(bytes: &[u8]) -> u32 {
    bytes.get(frame::HEAD..).and_then(|payload| payload.first_chunk()).map_or(0, |id| u32::from_be_bytes(*id))
}

/// A method with a content.
trait Carrier<'a>: Arguments<'a> {
    /// Asks for nothing that is not implemented.
    #[inline]
    fn is_carried(&self) -> bool {
        true
    }

    /// The event about it and its content.
    fn event(self, channel: u16, properties: Properties<'a>, body: &'a [u8]) -> Event<'a>;
}

/// A message that lay whole in the input.
struct Whole<'a, M> {
    channel: u16,
    method: M,
    properties: Properties<'a>,
    body: &'a [u8],
}

impl<'a, M: Carrier<'a>> Whole<'a, M> {
    #[inline(always)]
    fn event(self) -> Event<'a> {
        self.method.event(self.channel, self.properties, self.body)
    }
}

impl<'a> Carrier<'a> for BasicPublish<'a> {
    #[inline]
    fn is_carried(&self) -> bool {
        !self.immediate
    }

    #[inline]
    fn event(self, channel: u16, properties: Properties<'a>, body: &'a [u8]) -> Event<'a> {
        Event::Publish { channel, publish: self, properties, body }
    }
}

impl<'a> Carrier<'a> for BasicDeliver<'a> {
    #[inline]
    fn event(self, channel: u16, properties: Properties<'a>, body: &'a [u8]) -> Event<'a> {
        Event::Deliver { channel, deliver: self, properties, body }
    }
}

impl<'a> Carrier<'a> for BasicReturn<'a> {
    fn event(self, channel: u16, properties: Properties<'a>, body: &'a [u8]) -> Event<'a> {
        Event::Return { channel, returned: self, properties, body }
    }
}

impl<'a> Carrier<'a> for BasicGetOk<'a> {
    fn event(self, channel: u16, properties: Properties<'a>, body: &'a [u8]) -> Event<'a> {
        Event::GetOk { channel, get_ok: self, properties, body }
    }
}

fn decode<'i>(id: MethodId, arguments: &'i [u8]) -> Result<Method<'i>, Refusal> {
    match Method::decode(id, arguments) {
        Some(Ok(method)) => Ok(method),
        Some(Err(_)) => Err(undecodable(id, arguments)),
        // RabbitMQ drops the connection without a word here; these words are what it says of methods it knows.
        None => Err(unimplemented(id)),
    }
}

#[cold]
fn unimplemented(id: MethodId) -> Refusal {
    Refusal::new(ReplyCode::CommandInvalid, "unimplemented method", id)
}

#[cold]
fn undecodable(id: MethodId, arguments: &[u8]) -> Refusal {
    Refusal::new(ReplyCode::FrameError, format!("cannot decode {}", Octets(arguments)), id)
}

#[cold]
fn malformed(reason: Malformed) -> Refusal {
    Refusal::new(ReplyCode::InternalError, format!("malformed content header: {reason}"), MethodId::NONE)
}

#[cold]
fn assembly_interrupted(assembly: &Assembly) -> Refusal {
    let text = if assembly.has_header() {
        "expected content body, got non content body frame instead".to_owned()
    } else {
        format!("expected content header for class {BASIC}, got non content header frame instead")
    };
    Refusal::new(ReplyCode::UnexpectedFrame, text, assembly.method)
}
