//! One connection, as either peer: opening, requests and their answers, messages, closing.
//!
//! Pull [`Connection::poll_event`] until it answers `None`; the bytes it leaves in the input are an incomplete frame,
//! to be presented again with more bytes behind it. It also answers `None` without reading on where a verb is due first
//! (logging a client in, opening, answering a close): poll again after the verb. Verbs append to
//! [`Connection::output_mut`].
//!
//! The opening goes one way: the client introduces itself, asks for mechanisms, authenticates, settles the bounds that the
//! server proposes, and opens. A server refuses everything else until then without a word, as RabbitMQ does, and takes
//! small frames alone. Steps may be sent without waiting for answers; that RabbitMQ only takes so when they come in packets
//! of their own is not kept.
//!
//! A refusal of the machine's own is sent by it and told as [`Event::Failed`]. Invariant: after [`Event::Failed`] and after
//! a request to close nothing follows but [`Event::Closed`].

mod event;
mod opening;
mod verbs;

pub use event::{Event, Role};

use crate::command::Tune;
use crate::error::Error;
use crate::frame::{self, Frame, Next};
use crate::key::Key;
use crate::limits::{FRAME_MAX_MIN, Limits};
use crate::outstanding::Outstanding;
use crate::request::Request;
use crate::response::Response;
use base::{Heartbeat, Input, Now, Output};

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Server: the client introduces itself, or does so again.
    Introducing,
    /// Server: the client asks for mechanisms, or introduces itself again.
    Introduced,
    /// Server: the client authenticates, or asks for mechanisms again.
    AwaitAuthenticate,
    /// Server: a verb is due: `accept_login`, `challenge` or `refuse_login`.
    Authenticating,
    AwaitTune,
    AwaitOpen,
    /// Server: a verb is due: `open_ok` or `refuse_open`.
    Opening,
    /// Client: everything until the tune came.
    Asking,
    /// Client: a verb is due: `tune_and_open`.
    Tuning,
    /// Client: the answer to `open` is awaited.
    AwaitOpened,
    Running,
    /// `close` went out: everything is discarded until it is answered, or the deadline.
    Closing,
    /// A verb is due: `close_ok`. Everything is discarded until then.
    ClosedByPeer,
    /// Server: everything is discarded until the deadline, when `last_words` are said.
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

type Outcome<'i> = Result<Step<'i>, Error>;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    state: State,
    /// The largest frame taken, in bytes without those of its size.
    size_max: u32,
    /// The largest frame that the peer takes, chunks excepted.
    frame_max: u32,
    limits: Limits,
    output: Output,
    outstanding: Outstanding,
    /// The deadline of `state`; `u64::MAX`: none.
    deadline_ns: u64,
    heartbeat: Heartbeat,
    /// Since when this end does not read, in monotonic nanoseconds; none: it does.
    deaf_since_ns: Option<u64>,
    /// Bytes of input without which nothing goes on.
    wanted: usize,
    /// Bytes left in the input at the last poll.
    left: usize,
    /// Bytes of a refused frame that are still to come.
    skipped: u64,
    /// Still to be told.
    failure: Option<Box<Error>>,
    /// A frame that goes out when the silence is over.
    last_words: Option<Box<[u8]>>,
}

impl Connection {
    /// The server's end of a connection accepted `now`.
    ///
    /// # Panics
    /// When `limits.frame_max` is below [`FRAME_MAX_MIN`].
    pub fn server(limits: Limits, now: Now) -> Connection {
        let size_max = limits.initial_frame_max.min(limits.frame_max);
        Connection::new(Role::Server, State::Introducing, limits, size_max, now)
    }

    /// The client's end of a connection established `now`. The first verb is due: `request` with peer properties.
    ///
    /// # Panics
    /// When `limits.frame_max` is below [`FRAME_MAX_MIN`].
    pub fn client(limits: Limits, now: Now) -> Connection {
        Connection::new(Role::Client, State::Asking, limits, limits.chunk_frame_max, now)
    }

    fn new(role: Role, state: State, limits: Limits, size_max: u32, now: Now) -> Connection {
        assert!(limits.frame_max >= FRAME_MAX_MIN, "the longest login must go into a frame");
        Connection {
            role,
            state,
            size_max,
            frame_max: limits.frame_max.min(limits.initial_frame_max),
            limits,
            output: Output::default(),
            outstanding: Outstanding::default(),
            deadline_ns: now.after_ms(limits.handshake_ms_max.into()),
            heartbeat: Heartbeat::default(),
            deaf_since_ns: None,
            wanted: 0,
            left: 0,
            skipped: 0,
            failure: None,
            last_words: None,
        }
    }

    /// The next event, read from `input` as far as needed. `None`: more input or a verb is needed first. The event
    /// borrows from the input alone, so verbs can be called while it is looked at.
    #[inline]
    pub fn poll_event<'i>(&mut self, now: Now, input: &mut Input<'i>) -> Option<Event<'i>> {
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
                Err(error) => self.refuse(now, error),
            }
        }
    }

    /// How many bytes of input, counted from where it stopped reading, are needed for anything to happen. At most
    /// [`Connection::input_max`].
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// The most bytes of input that [`Connection::poll_event`] ever wants to see at once, as things are.
    pub fn input_max(&self) -> usize {
        self.size_max as usize + frame::SIZE_LEN
    }

    /// Which peer this end is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The opening is over and nothing closes.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.state == State::Running
    }

    /// Nothing more will come or go.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The largest frame that was agreed on, in bytes without those of its size. Chunks are not held to it.
    pub fn frame_max(&self) -> u32 {
        self.frame_max
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
        self.outstanding.capacity() + self.last_words.as_ref().map_or(0, |words| words.len())
    }

    /// When [`Connection::handle_deadline`] has something to do, in monotonic nanoseconds.
    pub fn poll_deadline(&self) -> Option<u64> {
        let deadline = self.deadline_ns.min(self.heartbeat.deadline()).min(self.answers_due_ns());
        (deadline != u64::MAX).then_some(deadline)
    }

    /// Handles deadlines that are due: sends a heartbeat, breaks a silence, or gives the peer up. Poll events
    /// afterwards.
    pub fn handle_deadline(&mut self, now: Now) {
        if now.mono_ns >= self.deadline_ns {
            match self.state {
                State::Silent => {
                    let words = self.last_words.take();
                    self.output.extend(words.as_deref().unwrap_or_default());
                }
                State::Closing => self.failure = Some(Box::new(Error::CloseTimeout)),
                _ => self.failure = Some(Box::new(Error::HandshakeTimeout)),
            }
            self.end();
        } else if now.mono_ns >= self.answers_due_ns() {
            self.failure = Some(Box::new(Error::RequestTimeout));
            self.end();
        } else if !self.heartbeat.tick(now, &frame::HEARTBEAT_FRAME, &mut self.output) {
            self.failure = Some(Box::new(Error::HeartbeatMissed));
            self.end();
        }
    }

    /// Whether this end reads at present. While it does not, the peer's silence is not held against it, and the time that it
    /// has for its answers stands still.
    pub fn set_reading(&mut self, now: Now, reads: bool) {
        self.heartbeat.is_deaf = !reads;
        if !reads {
            self.deaf_since_ns.get_or_insert(now.mono_ns);
        } else if let Some(since_ns) = self.deaf_since_ns.take() {
            self.outstanding.postpone(now.mono_ns.saturating_sub(since_ns));
        }
    }

    /// When the first answer is overdue, in monotonic nanoseconds; `u64::MAX`: none can be.
    fn answers_due_ns(&self) -> u64 {
        match self.deaf_since_ns {
            None => self.outstanding.deadline(),
            Some(_) => u64::MAX,
        }
    }

    /// The peer took some of the bytes sent: a sign of life while this end does not read.
    pub fn note_alive(&mut self) {
        self.heartbeat.received = true;
    }

    fn end(&mut self) {
        self.state = State::Ending;
        self.deadline_ns = u64::MAX;
        self.heartbeat.stop();
        self.outstanding.clear();
        self.last_words = None;
    }

    #[inline]
    fn step<'i>(&mut self, now: Now, input: &mut Input<'i>) -> Outcome<'i> {
        if self.state != State::Running {
            return self.step_aside(now, input);
        }
        match frame::split(input.rest(), self.size_max) {
            Next::Frame { body, len } => {
                input.consume(len);
                match Frame::decode(body) {
                    Ok(Frame::Publish(publish)) if self.role == Role::Server => {
                        Ok(Step::Event(Event::Publish(publish)))
                    }
                    Ok(Frame::Deliver(deliver)) if self.role == Role::Client => {
                        Ok(Step::Event(Event::Deliver(deliver)))
                    }
                    Ok(frame) => self.running(frame, body),
                    Err(reason) => Err(Error::Malformed(reason)),
                }
            }
            other => self.no_frame(input, other),
        }
    }

    /// A frame of an open connection, but for messages.
    fn running<'i>(&mut self, frame: Frame<'i>, body: &[u8]) -> Outcome<'i> {
        use crate::command::Command::*;
        match (self.role, frame) {
            (_, Frame::Heartbeat) => Ok(Step::Again),
            (_, Frame::Request { correlation_id, request: request @ Request::Close { .. } }) => {
                self.state = State::ClosedByPeer;
                self.heartbeat.stop();
                self.outstanding.clear();
                Ok(Step::Event(Event::Request { correlation_id, request }))
            }
            (role, Frame::Request { correlation_id, request })
                if role == Role::Server && is_of_clients(&request)
                    || role == Role::Client && matches!(request, Request::ConsumerUpdate { .. }) =>
            {
                Ok(Step::Event(Event::Request { correlation_id, request }))
            }
            (role, Frame::Response { correlation_id, response })
                if role == Role::Client || response.key() == Key::ConsumerUpdate =>
            {
                Ok(self.answered(correlation_id, response))
            }
            (Role::Server, Frame::Command(command @ (Credit { .. } | StoreOffset { .. })))
            | (
                Role::Client,
                Frame::Command(
                    command @ (PublishConfirm { .. }
                    | PublishError { .. }
                    | CreditRefused { .. }
                    | MetadataUpdate { .. }),
                ),
            ) => Ok(Step::Event(Event::Command(command))),
            _ => Err(unexpected(body)),
        }
    }

    fn answered<'i>(&mut self, correlation_id: u32, response: Response<'i>) -> Step<'i> {
        let key = response.key();
        Step::Event(if self.outstanding.take(correlation_id, key) {
            Event::Response { correlation_id, response }
        } else {
            Event::Unasked { correlation_id, key }
        })
    }

    /// Everything else than an open connection.
    #[cold]
    fn step_aside<'i>(&mut self, now: Now, input: &mut Input<'i>) -> Outcome<'i> {
        if let Some(error) = self.failure.take() {
            return Ok(Step::Event(Event::Failed(*error)));
        }
        match self.state {
            State::Authenticating | State::Opening | State::Tuning => return Ok(Step::Empty),
            State::ClosedByPeer | State::Silent | State::Closed => {
                input.consume(usize::MAX);
                return Ok(Step::Empty);
            }
            State::Ending => {
                self.state = State::Closed;
                return Ok(Step::Event(Event::Closed));
            }
            _ => {}
        }
        if self.skipped > 0 {
            let before = input.consumed();
            input.consume(usize::try_from(self.skipped).unwrap_or(usize::MAX));
            self.skipped -= (input.consumed() - before) as u64;
            self.wanted = 1;
            return Ok(if self.skipped > 0 { Step::Empty } else { Step::Again });
        }
        match frame::split(input.rest(), self.size_max) {
            Next::Frame { body, len } => {
                input.consume(len);
                let decoded = Frame::decode(body).map_err(Error::Malformed);
                if self.state != State::Closing {
                    return self.opening(now, decoded?, body);
                }
                // Only one thing counts now.
                if matches!(decoded, Ok(Frame::Response { response, .. }) if response.key() == Key::Close) {
                    self.end();
                }
                Ok(Step::Again)
            }
            other => self.no_frame(input, other),
        }
    }

    /// The input does not begin with a frame.
    #[cold]
    fn no_frame<'i>(&mut self, input: &mut Input<'i>, next: Next<'i>) -> Outcome<'i> {
        match next {
            Next::TooLarge { .. } if self.state == State::Introducing && input.rest()[0] == TLS_HANDSHAKE => {
                Err(Error::Tls)
            }
            Next::TooLarge { size } => {
                // A frame behind it may be an answer to our close.
                self.skipped = u64::from(size) + frame::SIZE_LEN as u64;
                if self.state == State::Closing {
                    return Ok(Step::Again);
                }
                Err(Error::FrameTooLarge { size, size_max: self.size_max })
            }
            Next::Incomplete { wanted } => {
                self.wanted = wanted;
                Ok(Step::Empty)
            }
            Next::Frame { .. } => Ok(Step::Again),
        }
    }

    /// Ends the connection for a fault of the peer's: tells it, unless the connection was never open.
    #[cold]
    fn refuse(&mut self, now: Now, error: Error) {
        if self.state == State::Running {
            let code = error.code();
            self.close(now, code, code.text().unwrap_or_default());
        } else {
            self.end();
        }
        self.failure = Some(Box::new(error));
    }
}

/// The first byte of a TLS connection: the content type of a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

#[cold]
fn unexpected(body: &[u8]) -> Error {
    Error::Unexpected { key: frame::key_and_version(body).0 }
}

/// Whether an open connection's client may ask this. A login is a renewal then.
fn is_of_clients(request: &Request<'_>) -> bool {
    !matches!(
        request,
        Request::PeerProperties { .. }
            | Request::SaslHandshake
            | Request::Open { .. }
            | Request::ConsumerUpdate { .. }
    )
}
