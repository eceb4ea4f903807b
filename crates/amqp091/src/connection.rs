//! One AMQP 0-9-1 connection, as either peer: handshake, channels, methods and messages.
//!
//! Pull [`Connection::poll_event`] until it answers `None`; the bytes it leaves in the input are an incomplete frame,
//! to be presented again with more bytes behind it. It also answers `None` without reading on where a verb is due first
//! (`start`, `tune`, `open_ok`): poll again after the verb. Verbs append to [`Connection::output_mut`].
//!
//! A refusal of the machine's own is sent by it and told as [`Event::Failed`] or [`Event::ChannelFailed`]. Invariant:
//! after [`Event::Failed`] and after [`Event::Close`] nothing follows but [`Event::Closed`].

mod event;
mod frames;
mod handshake;
mod refusal;
mod verbs;

pub use event::{Event, Gathered};

use crate::channel::{ChannelState, Channels, UNBOUNDED};
use crate::content::{self, BASIC};
use crate::encode;
use crate::error::{Error, ReplyCode, Snippet};
use crate::frame::{self, Detected, Head, Next};
use crate::limits::{CLOSING_MS, Limits, SILENCE_MS};
use crate::method::{
    Arguments, BasicAck, BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, Method, MethodId,
};
use base::{Heartbeat, Input, Now, Output};
use event::{Carrier, Whole};
use message::amqp091::Properties;
use refusal::Refusal;

/// Which peer this end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Accepts connections.
    Server,
    /// Opens them.
    Client,
}

/// The limits that were agreed on, or are proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tune {
    /// Channels open at once; 0: no bound but their numbers.
    pub channel_max: u16,
    /// Bytes of a frame; 0: no bound.
    pub frame_max: u32,
    /// Heartbeat timeout in seconds; 0: none.
    pub heartbeat_s: u16,
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

/// The result of one step of reading.
enum Step<'i> {
    Event(Event<'i>),
    /// Go on.
    Again,
    /// More input, or a verb, is needed.
    Empty,
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
    wanted: u32,
    /// Bytes left in the input at the last poll.
    left: u32,
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
            channels: Channels::unbounded(),
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
        // Messages and acks come by the million: here, if their bytes are all there and as they should be. Anything
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
                    let left = input.rest().len().try_into().unwrap_or(u32::MAX);
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
        self.wanted as usize
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

    /// The content header of a message came on some channel, and its pieces are kept until it is whole. Looks at all channels.
    pub fn is_gathering(&self) -> bool {
        self.channels.is_gathering()
    }

    /// Keeps nothing of messages that are not whole but what is granted: [`Event::Gathering`] tells what more is kept.
    /// Without this any amount is kept.
    pub fn ration(&mut self) {
        self.channels.room = 0;
    }

    /// Grants room for so many bytes more, after [`Event::Gathering`].
    pub fn grant(&mut self, bytes: usize) {
        self.channels.room += bytes as isize;
    }

    /// Takes back the granted bytes that nothing is kept in; none where all is granted.
    #[inline]
    pub fn take_spare(&mut self) -> usize {
        match self.channels.room {
            spare @ 1..SOME_ROOM => {
                self.channels.room = 0;
                spare.unsigned_abs()
            }
            _ => 0,
        }
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

    /// Seconds of the heartbeat settled for; 0: none.
    pub fn heartbeat_s(&self) -> u64 {
        self.heartbeat.timeout_s()
    }

    /// Bytes to be written to the socket.
    #[inline]
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Bytes to be written to the socket.
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

    /// Handles deadlines that are due: sends a heartbeat, or gives the peer up. Poll events afterwards.
    pub fn handle_deadline(&mut self, now: Now) {
        if now.mono_ns >= self.deadline_ns {
            match self.state {
                State::Silent => {}
                State::Closing => self.failure = Some(Box::new(Error::CloseTimeout)),
                _ => self.failure = Some(Box::new(Error::HandshakeTimeout)),
            }
            self.end();
        } else if !self.heartbeat.tick(now, &frame::HEARTBEAT_FRAME, &mut self.output) {
            self.failure = Some(Box::new(Error::HeartbeatMissed));
            self.end();
        }
    }

    /// Whether this end reads at present. While it does not, the peer's silence is not held against it.
    pub fn set_reading(&mut self, reads: bool) {
        self.heartbeat.is_deaf = !reads;
    }

    /// The peer took some of the bytes sent, a sign of life while this end does not read; or it said something, and
    /// events were not asked for until there was none.
    pub fn note_alive(&mut self) {
        self.heartbeat.received = true;
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
                self.wanted = wanted.try_into().unwrap_or(u32::MAX);
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

    /// Ends the connection for a fault of the peer's: tells it, unless it has not logged in.
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

/// More room than is ever granted.
const SOME_ROOM: isize = UNBOUNDED / 2;

const PUBLISH: u32 = (60 << 16) | 40;
const DELIVER: u32 = (60 << 16) | 60;
const ACK: u32 = (60 << 16) | 80;

/// Class and method in one number, if `bytes` begin with a method frame; otherwise the number means nothing.
#[inline]
fn method_id_at_front(bytes: &[u8]) -> u32 {
    bytes.get(frame::HEAD..).and_then(|payload| payload.first_chunk()).map_or(0, |id| u32::from_be_bytes(*id))
}
