//! One connection (§2.4), either end of it: protocol headers, SASL, open and close, deadlines, and the way from a frame to
//! its session.
//!
//! A pull parser: [`Connection::poll_event`] takes frames from the front of the socket's bytes and answers their
//! meaning, borrowed. An incomplete frame is left in the input; the owner keeps it and presents it again with more
//! behind it ([`Connection::wanted`] says how much). Verbs append to the output. Nothing is held while idle.
//!
//! Addresses, permissions, credit policy and outcomes are the owner's; this machine only keeps the protocol's promises.

mod assembling;
mod deliveries;
mod handshake;
mod links;
mod listing;

pub use listing::{LinkFigures, SessionFigures};

use crate::error::{Error, Fault, condition};
use crate::event::{Assembled, Disposition, Event, LinkId, SaslCode, SessionId, Transfer};
use crate::hot::{self, begin_frame, end_frame};
use crate::limits::{FRAME_BYTES_MIN, Limits, SILENCE_MS};
use crate::performative::{self, Attach, Begin, Open, Outcome, Role, Symbols, descriptor};
use crate::session::{Delivery, Link, LinkState, NO_HANDLE, NotSent, Partial, Room, Session, SessionState};
use crate::unsettled::Run;
use base::cursor::Reader;
use base::output::Output;
use base::time::Now;
use message::amqp10::{Decoder, Encoder, Fields, Malformed, Map, Value};
use std::sync::Arc;

/// The bytes a socket has given, of which the machine takes whole frames.
pub type Input<'i> = Reader<'i>;

/// The header of the SASL layer (§5.3.2).
pub const SASL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// The header of AMQP itself (§2.2).
pub const AMQP_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";

const FRAME_AMQP: u8 = 0;
const FRAME_SASL: u8 = 1;

/// In place of [`Connection::silences`].
const DEAF: u8 = u8::MAX;

/// Lower bound of the milliseconds between two of our heartbeats, however short the peer's idle time-out.
const BEAT_MS_MIN: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The peer's SASL header is next.
    SaslHeader,
    /// Client: the server's mechanisms are next. Server: the client's init is.
    SaslFirst,
    /// The owner has to answer before anything more is read.
    SaslAnswer,
    /// Client: the outcome is next.
    SaslNext,
    /// The peer's AMQP header is next.
    AmqpHeader,
    /// The peer's open is next.
    OpenWait,
    /// Server: the owner has to answer the open before anything more is read.
    OpenAnswer,
    Open,
    /// We closed; everything but the peer's close is passed over.
    CloseSent {
        is_asked: bool,
    },
    /// Server: the login failed, and the client hears so at the deadline. Bytes that come are passed over.
    Refusing(SaslCode),
    /// We closed over something that hides where the next frame begins: nothing can be read any more.
    Deaf,
    Finished,
}

/// Both peers of a connection, one at a time.
#[derive(Debug)]
pub struct Connection {
    state: State,
    is_server: bool,
    /// Something came in since the last look.
    is_heard: bool,
    is_open_sent: bool,
    /// Looks in a row that found nothing had come in; [`DEAF`]: this end does not read at present.
    silences: u8,
    /// Bytes of a frame the peer takes.
    remote_frame_bytes: u32,
    remote_channel_max: u16,
    wanted: u32,
    /// Frames written, and how many it were at the last look.
    frames_out: u32,
    frames_out_seen: u32,
    /// Milliseconds between two looks whether a heartbeat is due, a third of the peer's idle time-out; 0: no
    /// heartbeats.
    beat_ms: u32,
    now_ns: u64,
    /// Handshake or close must be done by then.
    limit_at_ns: u64,
    hear_at_ns: u64,
    beat_at_ns: u64,
    first_id: u32,
    limits: Arc<Limits>,
    mechanisms: &'static [&'static str],
    sessions: Vec<Option<Box<Session>>>,
    /// Our channel of each of the peer's.
    remote_channels: Vec<u16>,
    /// Room that messages take up which are not whole yet, see [`assembling`].
    assembling_bytes: u32,
    /// Room for them that was granted.
    granted_bytes: u32,
    output: Output,
}

/// Settings shared by all connections of a listener, or of a client.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bounds.
    pub limits: Arc<Limits>,
    /// To a server: the SASL mechanisms it offers, best first.
    pub mechanisms: &'static [&'static str],
    /// The first transfer-id and delivery-id of a session; 0 but for tests of the wrap.
    pub first_id: u32,
}

/// The result of one step of the machine.
enum Step<'i> {
    /// More bytes are needed, or an answer of the owner's.
    Wait,
    /// A frame that means nothing to the owner.
    Next,
    Tell(Event<'i>),
}

/// A fault, by the part of the connection that it closes.
enum Broken {
    Connection(Fault),
    Session(Fault),
    Link(LinkId, Fault),
}

impl From<Malformed> for Broken {
    fn from(malformed: Malformed) -> Broken {
        Broken::Connection(malformed.into())
    }
}

impl Connection {
    /// A server's end. The client speaks first.
    pub fn server(config: Config, now: Now) -> Connection {
        Connection::new(config, now, true)
    }

    /// A client's end. Speaks at once.
    pub fn client(config: Config, now: Now) -> Connection {
        let mut connection = Connection::new(config, now, false);
        connection.output.extend(&SASL_HEADER);
        connection
    }

    fn new(config: Config, now: Now, is_server: bool) -> Connection {
        Connection {
            state: State::SaslHeader,
            is_server,
            is_heard: false,
            is_open_sent: false,
            silences: 0,
            remote_frame_bytes: FRAME_BYTES_MIN,
            remote_channel_max: u16::MAX,
            wanted: 8,
            frames_out: 0,
            frames_out_seen: 0,
            beat_ms: 0,
            now_ns: now.mono_ns,
            limit_at_ns: now.after_ms(config.limits.handshake_ms.into()),
            hear_at_ns: u64::MAX,
            beat_at_ns: u64::MAX,
            first_id: config.first_id,
            limits: config.limits,
            mechanisms: config.mechanisms,
            sessions: Vec::new(),
            remote_channels: Vec::new(),
            assembling_bytes: 0,
            granted_bytes: u32::MAX,
            output: Output::default(),
        }
    }

    /// Bytes to be sent, as far as they are written.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Bytes to be sent. Writes the settlements first that were kept back to be joined.
    pub fn output_mut(&mut self) -> &mut Output {
        self.flush();
        &mut self.output
    }

    /// Writes the settlements that were kept back to be joined.
    pub fn flush(&mut self) {
        for session in self.sessions.iter_mut().flatten() {
            if session.has_settled() {
                session.write_settled(&mut self.output);
                self.frames_out = self.frames_out.wrapping_add(1);
            }
        }
    }

    /// Something waits to be sent.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty() || self.sessions.iter().flatten().any(|session| session.has_settled())
    }

    /// Bytes that make the next look at the input worth while, counted from its front.
    pub fn wanted(&self) -> usize {
        self.wanted as usize
    }

    /// Nothing more is read or sent: close the socket when the output is empty.
    pub fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    /// Both peers have opened and none has closed.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Bytes of the largest frame the peer takes (§2.7.1).
    pub fn remote_frame_bytes(&self) -> u32 {
        self.remote_frame_bytes
    }

    /// Milliseconds of silence after which this end gives up, as it says in its open; 0: never.
    pub fn idle_ms(&self) -> u32 {
        self.limits.idle_ms
    }

    /// Bytes of memory it holds, its output included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Connection>()
            + self.sessions.capacity() * size_of::<Option<Box<Session>>>()
            + self.remote_channels.capacity() * 2
            + self.output.capacity()
            + self.sessions.iter().flatten().map(|session| session.memory_bytes()).sum::<usize>()
    }

    /// Bytes of memory of the tables of deliveries that the peer has not settled.
    #[inline]
    pub fn unsettled_bytes(&self) -> usize {
        self.sessions.iter().flatten().map(|session| session.unsettled.capacity_bytes()).sum()
    }

    /// Bytes of the name of a link; 0: there is no such link.
    pub fn link_name_bytes(&self, id: SessionId, link: LinkId) -> usize {
        let link = self.session(id).and_then(|session| session.links.get(usize::from(link.0)));
        link.map_or(0, |link| link.name.len())
    }

    // ---------------------------------------------------------------------------------------------------- deadlines

    /// When to call [`Connection::handle_deadline`] next, in `Now::mono_ns`.
    pub fn poll_deadline(&self) -> Option<u64> {
        let at = match self.state {
            State::Finished => u64::MAX,
            State::Open => self.hear_at_ns.min(self.beat_at_ns),
            _ => self.limit_at_ns,
        };
        (at != u64::MAX).then_some(at)
    }

    /// A deadline has come: sends an empty frame, or gives a silent peer up.
    pub fn handle_deadline(&mut self, now: Now) -> Option<Event<'static>> {
        self.now_ns = now.mono_ns;
        match self.state {
            State::Finished => return None,
            State::Open => {}
            _ if now.mono_ns < self.limit_at_ns => return None,
            State::Deaf => {
                self.state = State::Finished;
                return None;
            }
            State::Refusing(code) => {
                self.write_outcome(code);
                self.state = State::Finished;
                return None;
            }
            State::CloseSent { is_asked } => {
                self.state = State::Finished;
                let fault = Fault::new(condition::CONNECTION_FORCED, "the peer did not answer our close");
                return is_asked.then_some(Event::Failed(fault));
            }
            _ => {
                self.state = State::Finished;
                let fault = Fault::new(condition::RESOURCE_LIMIT_EXCEEDED, "handshake not done in time");
                return Some(Event::Failed(fault));
            }
        }
        if now.mono_ns >= self.beat_at_ns {
            if self.frames_out == self.frames_out_seen {
                self.output.extend(&[0, 0, 0, 8, 2, FRAME_AMQP, 0, 0]);
                self.frames_out = self.frames_out.wrapping_add(1);
            }
            self.frames_out_seen = self.frames_out;
            self.beat_at_ns = now.after_ms(self.beat_ms.into());
        }
        if now.mono_ns >= self.hear_at_ns {
            self.silences = match self.silences {
                DEAF => DEAF,
                _ if self.is_heard => 0,
                silences => silences + 1,
            };
            self.is_heard = false;
            self.hear_at_ns = now.after_ms(self.limits.idle_ms.into());
            if (2..DEAF).contains(&self.silences) {
                let text = "no frame received from client within idle timeout threshold";
                return Some(self.fail(Fault::new(condition::RESOURCE_LIMIT_EXCEEDED, text)));
            }
        }
        None
    }

    /// Whether this end reads at present. While it does not, the peer's silence is not held against it.
    pub fn set_reading(&mut self, reads: bool) {
        if !reads {
            self.silences = DEAF;
        } else if self.silences == DEAF {
            self.silences = 0;
        }
    }

    /// The peer took some of the bytes sent: a sign of life while this end does not read.
    pub fn note_alive(&mut self) {
        self.is_heard = true;
    }

    // ---------------------------------------------------------------------------------------- room for what is not whole

    /// Keeps nothing of messages that are not whole but what is granted: [`Event::Assembling`] tells what more is kept.
    /// Without this, [`Limits::assembly_bytes_max`] is all that bounds them.
    pub fn ration(&mut self) {
        self.granted_bytes = 0;
    }

    /// Grants room for so many bytes more, after [`Event::Assembling`].
    pub fn grant_room(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.granted_bytes = self.granted_bytes.saturating_add(bytes);
    }

    /// Takes back the granted bytes that nothing is kept in; none where all is granted.
    #[inline]
    pub fn take_spare_room(&mut self) -> usize {
        if self.granted_bytes <= self.assembling_bytes || self.granted_bytes == u32::MAX {
            return 0;
        }
        let spare = self.granted_bytes - self.assembling_bytes;
        self.granted_bytes = self.assembling_bytes;
        spare as usize
    }

    // ------------------------------------------------------------------------------------------------------- reading

    /// Takes frames from `input` up to the first that means something. `None`: more bytes are needed
    /// ([`Connection::wanted`]) or an answer of the owner's. The event borrows from the input alone, so verbs can be called
    /// while it is looked at.
    #[inline]
    pub fn poll_event<'i>(&mut self, now: Now, input: &mut Input<'i>) -> Option<Event<'i>> {
        self.now_ns = now.mono_ns;
        if self.state == State::Open
            && let Some(transfer) = self.plain_transfer(input)
        {
            return Some(Event::Transfer(transfer));
        }
        self.poll_any(input)
    }

    /// The next frame, if it is all there, a transfer without anything rare, and allowed. Otherwise nothing has happened, and
    /// the long way finds out what it is.
    #[inline(always)]
    fn plain_transfer<'i>(&mut self, input: &mut Input<'i>) -> Option<Transfer<'i>> {
        let rest = input.rest();
        let &[a, b, c, d, 2, FRAME_AMQP, high, low, 0x00, 0x53, descriptor::TRANSFER] = rest.first_chunk()?
        else {
            return None;
        };
        let size = u32::from_be_bytes([a, b, c, d]);
        if size > self.limits.frame_bytes_max {
            return None;
        }
        let plain = hot::Plain::read(rest.get(11..size as usize)?)?;
        let ours = *self.remote_channels.get(usize::from(u16::from_be_bytes([high, low])))?;
        let session = self.sessions.get_mut(usize::from(ours))?.as_deref_mut()?;
        let id = session.by_remote_handle(plain.handle)?;
        let link = &mut session.links[usize::from(id.0)];
        let is_allowed = session.state == SessionState::Mapped
            && session.incoming_window > 0
            && link.state == LinkState::Attached
            && link.role == Role::Receiver
            && link.credit > 0
            && link.partial.is_none()
            && link.takes(plain.settled)
            && plain.tag.len() <= crate::limits::TAG_BYTES_MAX
            && plain.payload.len() <= link.message_bytes_max as usize;
        if !is_allowed {
            return None;
        }
        link.credit -= 1;
        link.delivery_count = link.delivery_count.wrapping_add(1);
        let credit = link.credit;
        session.next_incoming_id = session.next_incoming_id.wrapping_add(1);
        session.incoming_window -= 1;
        if session.incoming_window <= session.incoming_window_max / 2 && !session.is_blocked {
            session.write_flow(&mut self.output, None, false);
            self.frames_out = self.frames_out.wrapping_add(1);
        }
        let _ = input.take(size as usize);
        self.is_heard = true;
        Some(Transfer {
            session: session.id,
            link: id,
            delivery_id: plain.delivery_id,
            tag: plain.tag,
            format: plain.format,
            settled: plain.settled,
            credit,
            payload: plain.payload,
        })
    }

    fn poll_any<'i>(&mut self, input: &mut Input<'i>) -> Option<Event<'i>> {
        loop {
            match self.step(input) {
                Step::Wait => return None,
                Step::Next => {}
                Step::Tell(event) => return Some(event),
            }
        }
    }

    #[inline]
    fn step<'i>(&mut self, input: &mut Input<'i>) -> Step<'i> {
        if self.state != State::Open {
            match self.state {
                State::SaslAnswer | State::OpenAnswer => return Step::Wait,
                State::Finished | State::Deaf | State::Refusing(_) => {
                    // Bytes that still come are of no interest to anybody.
                    let _ = input.take(input.len());
                    self.wanted = 1;
                    return Step::Wait;
                }
                State::SaslHeader | State::AmqpHeader => return self.read_header(input),
                _ => {}
            }
        }
        let Some(&[a, b, c, d, doff, frame_type, high, low]) = input.rest().first_chunk() else {
            self.wanted = 8;
            return Step::Wait;
        };
        let size = u32::from_be_bytes([a, b, c, d]);
        let most = match self.state {
            State::Open | State::CloseSent { .. } => self.limits.frame_bytes_max,
            _ => self.limits.frame_bytes_before_open,
        };
        if size < 8 || size > most || doff < 2 || u32::from(doff) * 4 > size {
            let fault = wrong_frame(size, most, doff);
            return self.refuse_frame(fault);
        }
        let Ok(frame) = input.take(size as usize) else {
            self.wanted = size;
            return Step::Wait;
        };
        self.is_heard = true;
        let body = &frame[usize::from(doff) * 4..];
        let channel = u16::from_be_bytes([high, low]);
        if self.state == State::Open && frame_type == FRAME_AMQP {
            return self.read_frame(channel, body);
        }
        self.read_early_frame(frame_type, channel, body)
    }

    #[cold]
    fn refuse_frame<'i>(&mut self, fault: Fault) -> Step<'i> {
        let is_closed = matches!(self.state, State::CloseSent { .. });
        let event = self.fail(fault);
        if let State::CloseSent { .. } = self.state {
            self.state = State::Deaf;
            if is_closed {
                return Step::Next;
            }
        }
        Step::Tell(event)
    }

    /// A frame of an open connection.
    #[inline]
    fn read_frame<'i>(&mut self, channel: u16, body: &'i [u8]) -> Step<'i> {
        let read = match body {
            [0x00, 0x53, descriptor::TRANSFER, fields @ ..] => self.read_transfer(channel, fields),
            [0x00, 0x53, descriptor::DISPOSITION, fields @ ..] => self.read_disposition(channel, fields),
            [] => Ok(Step::Next),
            _ => self.read_rare(channel, body),
        };
        match read {
            Ok(step) => step,
            Err(broken) => self.tell_broken(channel, broken),
        }
    }

    #[cold]
    fn tell_broken<'i>(&mut self, channel: u16, broken: Broken) -> Step<'i> {
        let session = self.by_remote_channel(channel).map(|session| session.id);
        Step::Tell(match (broken, session) {
            (Broken::Link(link, fault), Some(session)) => {
                self.detach_for(session, link, Some(fault.error()), true, false);
                Event::LinkFailed { session, link, fault }
            }
            (Broken::Session(fault), Some(session)) => {
                self.end_for(session, Some(fault.error()), false);
                Event::SessionFailed { session, fault }
            }
            (Broken::Connection(fault) | Broken::Session(fault) | Broken::Link(_, fault), _) => {
                self.fail(fault)
            }
        })
    }

    #[inline]
    fn by_remote_channel(&mut self, channel: u16) -> Option<&mut Session> {
        let ours = *self.remote_channels.get(usize::from(channel))?;
        self.sessions.get_mut(usize::from(ours))?.as_deref_mut()
    }

    /// Everything but transfers and dispositions.
    fn read_rare<'i>(&mut self, channel: u16, body: &'i [u8]) -> Result<Step<'i>, Broken> {
        let (code, list, fields) = read_performative(body)?;
        match code {
            descriptor::TRANSFER => return self.read_transfer(channel, fields),
            descriptor::DISPOSITION => return self.read_disposition(channel, fields),
            descriptor::BEGIN => return self.read_begin(channel, Begin::read(list)?),
            descriptor::OPEN => {
                let fault = Fault::new(condition::ILLEGAL_STATE, "the connection is open already");
                return Err(Broken::Connection(fault));
            }
            descriptor::CLOSE => {
                let error = performative::read_error(&mut Fields::new(list))?;
                self.flush();
                self.write(FRAME_AMQP, 0, |encoder| {
                    performative::write_last(descriptor::CLOSE, None, encoder)
                });
                self.finish();
                return Ok(Step::Tell(Event::Close(error)));
            }
            descriptor::ATTACH | descriptor::FLOW | descriptor::DETACH | descriptor::END => {}
            _ => {
                let fault =
                    Fault::new(condition::NOT_ALLOWED, format!("unexpected performative 0x{code:02x}"));
                return Err(Broken::Connection(fault));
            }
        }
        // Frames on a channel nobody began are passed over, as RabbitMQ does.
        let Some(session) = self.by_remote_channel(channel) else { return Ok(Step::Next) };
        let id = session.id;
        if let SessionState::EndSent { is_asked } = session.state {
            if code == descriptor::END {
                self.forget(channel, id);
                let error = performative::read_error(&mut Fields::new(list))?;
                if is_asked {
                    return Ok(Step::Tell(Event::End { session: id, error }));
                }
            }
            return Ok(Step::Next);
        }
        match code {
            descriptor::END => {
                let error = performative::read_error(&mut Fields::new(list))?;
                self.flush();
                self.write(FRAME_AMQP, id.0, |encoder| {
                    performative::write_last(descriptor::END, None, encoder)
                });
                self.forget(channel, id);
                Ok(Step::Tell(Event::End { session: id, error }))
            }
            descriptor::ATTACH => {
                let (handle, attach) = Attach::read(list)?;
                self.read_attach(id, handle, attach)
            }
            descriptor::DETACH => {
                let (handle, closed, error) = performative::read_detach(list)?;
                self.read_detach(id, handle, closed, error)
            }
            _ => {
                let flow = hot::Flow::read(fields)?;
                self.frames_out = self.frames_out.wrapping_add(1);
                let frame_bytes = self.remote_frame_bytes as usize;
                let Some(session) = self.sessions[usize::from(id.0)].as_deref_mut() else {
                    return Ok(Step::Next);
                };
                let told =
                    session.read_flow(&flow, &mut self.output, frame_bytes).map_err(Broken::Session)?;
                Ok(Step::Tell(told.map_or(Event::Window { session: id }, Event::Flow)))
            }
        }
    }

    fn read_begin<'i>(&mut self, channel: u16, begin: Begin<'i>) -> Result<Step<'i>, Broken> {
        let most = self.channel_max();
        if channel > most {
            let text = format!("channel number ({channel}) exceeds maximum channel number ({most})");
            return Err(Broken::Connection(Fault::framing(text)));
        }
        if let Some(session) = self.by_remote_channel(channel) {
            if matches!(session.state, SessionState::EndSent { .. }) {
                return Ok(Step::Next);
            }
            let fault =
                Fault::new(condition::NOT_ALLOWED, format!("channel {channel} has a session already"));
            return Err(Broken::Session(fault));
        }
        let id = match begin.remote_channel {
            Some(ours) => {
                let began = self.sessions.get(usize::from(ours)).and_then(|session| session.as_deref());
                if !began.is_some_and(|session| session.state == SessionState::BeginSent) {
                    let fault = Fault::new(condition::NOT_ALLOWED, format!("channel {ours} has not begun"));
                    return Err(Broken::Connection(fault));
                }
                SessionId(ours)
            }
            None => {
                let Some(id) = self.add_session(Some(channel), SessionState::Mapped) else {
                    let text = format!("no channel left to answer channel {channel}");
                    return Err(Broken::Connection(Fault::new(condition::RESOURCE_LIMIT_EXCEEDED, text)));
                };
                id
            }
        };
        if self.remote_channels.len() <= channel.into() {
            self.remote_channels.resize(usize::from(channel) + 1, NO_HANDLE);
        }
        self.remote_channels[usize::from(channel)] = id.0;
        let Some(session) = self.sessions[usize::from(id.0)].as_deref_mut() else { return Ok(Step::Next) };
        session.state = SessionState::Mapped;
        session.remote_channel = channel;
        session.next_incoming_id = begin.next_outgoing_id;
        session.remote_incoming_window = begin.incoming_window;
        session.remote_outgoing_end = begin.next_outgoing_id.wrapping_add(begin.outgoing_window);
        session.remote_handle_max = begin.handle_max.min(u32::from(NO_HANDLE) - 1) as u16;
        if begin.remote_channel.is_none() {
            self.write_begin(id, Some(channel), Map::default());
        }
        Ok(Step::Tell(Event::Begin { session: id, begin }))
    }

    // ------------------------------------------------------------------------------------------------------- sessions

    /// Begins a session; `None` where the peer takes no more. [`Event::Begin`] comes when it has answered, but links may be
    /// attached at once.
    pub fn begin(&mut self, properties: Map<'_>) -> Option<SessionId> {
        let id = self.add_session(None, SessionState::BeginSent)?;
        self.write_begin(id, None, properties);
        Some(id)
    }

    fn add_session(&mut self, wanted: Option<u16>, state: SessionState) -> Option<SessionId> {
        let most = self.channel_max();
        let is_free = |sessions: &[Option<Box<Session>>], at: u16| {
            sessions.get(usize::from(at)).is_none_or(|s| s.is_none())
        };
        let at = match wanted {
            Some(wanted) if wanted <= most && is_free(&self.sessions, wanted) => wanted,
            _ => (0..=most).find(|at| is_free(&self.sessions, *at))?,
        };
        if self.sessions.len() <= at.into() {
            self.sessions.resize_with(usize::from(at) + 1, || None);
        }
        let limits = &self.limits;
        let (first_id, window) = (self.first_id, limits.incoming_window_max);
        let session = Session::new(SessionId(at), state, first_id, window, limits.unsettled_max);
        self.sessions[usize::from(at)] = Some(Box::new(session));
        Some(SessionId(at))
    }

    fn write_begin(&mut self, id: SessionId, remote_channel: Option<u16>, properties: Map<'_>) {
        let Some(session) = self.session(id) else { return };
        let begin = Begin {
            remote_channel,
            next_outgoing_id: session.next_outgoing_id,
            incoming_window: session.incoming_window,
            outgoing_window: u32::MAX,
            handle_max: u32::from(self.limits.links_max.clamp(1, 256)) - 1,
            properties,
        };
        self.write(FRAME_AMQP, id.0, |encoder| begin.write(encoder));
    }

    /// Ends a session. [`Event::End`] comes when the peer has answered.
    pub fn end(&mut self, session: SessionId, error: Option<Error<'_>>) {
        self.end_for(session, error, true);
    }

    fn end_for(&mut self, id: SessionId, error: Option<Error<'_>>, is_asked: bool) {
        self.give_up_partials(id, None);
        let Some(session) =
            self.sessions.get_mut(usize::from(id.0)).and_then(|session| session.as_deref_mut())
        else {
            return;
        };
        if matches!(session.state, SessionState::EndSent { .. }) {
            return;
        }
        session.write_settled(&mut self.output);
        session.forget_all();
        session.state = SessionState::EndSent { is_asked };
        self.write(FRAME_AMQP, id.0, |encoder| performative::write_last(descriptor::END, error, encoder));
    }

    fn forget(&mut self, remote_channel: u16, id: SessionId) {
        self.give_up_partials(id, None);
        self.remote_channels[usize::from(remote_channel)] = NO_HANDLE;
        self.sessions[usize::from(id.0)] = None;
        while let Some(None) = self.sessions.last() {
            self.sessions.pop();
        }
    }

    fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(usize::from(id.0))?.as_deref()
    }

    /// A session that has not ended, and the output it writes to.
    #[inline]
    fn session_mut(&mut self, id: SessionId) -> Option<(&mut Session, &mut Output)> {
        let session = self.sessions.get_mut(usize::from(id.0))?.as_deref_mut()?;
        if matches!(session.state, SessionState::EndSent { .. }) {
            return None;
        }
        self.frames_out = self.frames_out.wrapping_add(1);
        Some((session, &mut self.output))
    }

    /// Sessions there are.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.iter().flatten().map(|session| session.id)
    }

    /// Lets the peer send so many transfers ahead on a session, if that is more than before. It hears of it with the next flow.
    pub fn widen(&mut self, session: SessionId, transfers: u32) {
        if let Some(session) = self.sessions.get_mut(usize::from(session.0)).and_then(Option::as_deref_mut) {
            session.incoming_window_max = session.incoming_window_max.max(transfers);
        }
    }

    /// Shuts the window of a session to the peer, or opens it again: for alarms. Transfers the peer had sent before it
    /// heard of it are still taken.
    pub fn block(&mut self, session: SessionId, is_blocked: bool) {
        let Some((session, output)) = self.session_mut(session) else { return };
        if session.is_blocked != is_blocked {
            session.is_blocked = is_blocked;
            session.write_flow(output, None, false);
        }
    }

    fn write(&mut self, frame_type: u8, channel: u16, write: impl FnOnce(&mut Encoder<'_>)) {
        let own = self.output.own();
        let start = begin_frame(own, frame_type, channel);
        write(&mut Encoder::new(own));
        end_frame(own, start);
        self.frames_out = self.frames_out.wrapping_add(1);
    }
}

fn write_frame(output: &mut Output, channel: u16, write: impl FnOnce(&mut Encoder<'_>)) {
    let own = output.own();
    let start = begin_frame(own, FRAME_AMQP, channel);
    write(&mut Encoder::new(own));
    end_frame(own, start);
}

#[cold]
fn wrong_frame(size: u32, most: u32, doff: u8) -> Fault {
    Fault::framing(if size < 8 {
        format!("frame size ({size} bytes) < minimum frame size (8 bytes)")
    } else if size > most {
        format!("frame size ({size} bytes) > maximum frame size ({most} bytes)")
    } else if doff < 2 {
        format!("data offset ({doff}) < minimum data offset (2)")
    } else {
        format!("data offset ({} bytes) > frame size ({size} bytes)", 4 * u32::from(doff))
    })
}

/// The code and fields of a performative, checked; and the bytes behind the descriptor, for the hand-written readers.
fn read_performative(body: &[u8]) -> Result<(u8, message::amqp10::List<'_>, &[u8]), Malformed> {
    let mut decoder = Decoder::new(body);
    decoder.clone().check()?;
    let value = decoder.clone().value()?;
    let (code, list) = performative::composite(value)?;
    let Value::Described(described) = value else { return Err(Malformed::WrongType(0)) };
    let skipped = 1 + described.descriptor_encoding().len();
    decoder.skip()?;
    Ok((code, list, &body[skipped..]))
}
