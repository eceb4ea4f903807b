//! One connection (§2.4), either end of it: protocol headers, SASL, open and close, deadlines, and the way from a frame to
//! its session.
//!
//! A pull parser: [`Connection::poll_event`] takes frames from the front of what the socket has given and answers what they
//! mean, borrowed. An incomplete frame is left in the input; the owner keeps it and presents it again with more behind it
//! ([`Connection::wanted`] says how much). Verbs append to the output. Nothing is held while idle.
//!
//! Addresses, permissions, credit policy and outcomes are the owner's; this machine only keeps the protocol's promises.

use crate::error::{Error, Fault, condition};
use crate::event::{Assembled, Disposition, Event, LinkId, SaslCode, SessionId, Transfer};
use crate::hot::{self, begin_frame, end_frame};
use crate::limits::{FRAME_BYTES_MIN, Limits};
use crate::performative::{self, Attach, Begin, Open, Outcome, Role, Symbols, descriptor};
use crate::session::{Delivery, Link, LinkState, NO_HANDLE, NotSent, Partial, Session, SessionState};
use crate::unsettled::Run;
use base::cursor::Reader;
use base::output::Output;
use base::time::Now;
use message::amqp10::{Decoder, Encoder, Fields, Malformed, Map, Value};

/// The bytes a socket has given, of which the machine takes what it can use.
pub type Input<'i> = Reader<'i>;

/// The header of the SASL layer (§5.3.2).
pub const SASL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// The header of AMQP itself (§2.2).
pub const AMQP_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";

const FRAME_AMQP: u8 = 0;
const FRAME_SASL: u8 = 1;

/// Milliseconds between two of our frames at least, whatever the peer asks for.
const BEAT_MS_MIN: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The peer's SASL header is next.
    SaslHeader,
    /// Client: the server's mechanisms are next. Server: the client's init is.
    SaslFirst,
    /// The owner has to answer before anything more is read.
    SaslAnswer,
    /// Client: a challenge or the outcome is next. Server: a response is.
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
    /// Looks in a row that found nothing had come in.
    silences: u8,
    /// Bytes of a frame the peer takes.
    remote_frame_bytes: u32,
    remote_channel_max: u16,
    wanted: u32,
    /// Frames written, and how many it were at the last look.
    frames_out: u32,
    frames_out_seen: u32,
    /// What the peer asks for, milliseconds; 0: nothing.
    beat_ms: u32,
    now_ns: u64,
    /// Handshake or close must be done by then.
    limit_at_ns: u64,
    hear_at_ns: u64,
    beat_at_ns: u64,
    first_id: u32,
    limits: &'static Limits,
    mechanisms: &'static [&'static str],
    sessions: Vec<Option<Box<Session>>>,
    /// Our channel of each of the peer's.
    remote_channels: Vec<u16>,
    output: Output,
}

/// What all connections of a listener, or of a client, share.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Bounds.
    pub limits: &'static Limits,
    /// To a server: what it offers, best first.
    pub mechanisms: &'static [&'static str],
    /// The first transfer-id and delivery-id of a session; 0 but for tests of the wrap.
    pub first_id: u32,
}

/// What one step of the machine came to.
enum Step<'i> {
    /// More bytes are needed, or an answer of the owner's.
    Wait,
    /// A frame that means nothing to the owner.
    Next,
    Tell(Event<'i>),
}

/// Who has to be told of a fault, and how much it closes.
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
            output: Output::default(),
        }
    }

    /// What is to be sent. Writes the settlements first that were kept back to be joined.
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

    /// Bytes of memory it holds, its output included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Connection>()
            + self.sessions.capacity() * size_of::<Option<Box<Session>>>()
            + self.remote_channels.capacity() * 2
            + self.output.capacity()
            + self.sessions.iter().flatten().map(|session| session.memory_bytes()).sum::<usize>()
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
            self.silences = if self.is_heard { 0 } else { self.silences + 1 };
            self.is_heard = false;
            self.hear_at_ns = now.after_ms(self.limits.idle_ms.into());
            if self.silences >= 2 {
                let text = "no frame received from client within idle timeout threshold";
                return Some(self.fail(Fault::new(condition::RESOURCE_LIMIT_EXCEEDED, text)));
            }
        }
        None
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
            && plain.tag.len() <= crate::limits::TAG_BYTES_MAX
            && plain.payload.len() as u64 <= link.message_bytes_max;
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
                State::Finished | State::Deaf => {
                    // What still comes is of no interest to anybody.
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

    #[cold]
    fn read_header<'i>(&mut self, input: &mut Input<'i>) -> Step<'i> {
        let expected = if self.state == State::SaslHeader { SASL_HEADER } else { AMQP_HEADER };
        let Some(header) = input.rest().first_chunk::<8>() else {
            self.wanted = 8;
            return Step::Wait;
        };
        if *header != expected {
            // §2.2: answered with a header we do take, then closed.
            if self.is_server {
                self.output.extend(&expected);
            }
            self.state = State::Finished;
            return Step::Tell(Event::Failed(Fault::framing("unexpected protocol header")));
        }
        let _ = input.take(8);
        match (self.state, self.is_server) {
            (State::SaslHeader, true) => {
                self.output.extend(&SASL_HEADER);
                let mechanisms = self.mechanisms;
                self.write(FRAME_SASL, 0, |encoder| {
                    encoder.descriptor(descriptor::SASL_MECHANISMS.into());
                    let mut list = encoder.list();
                    encoder.symbols(mechanisms.iter().copied());
                    list.field(encoder);
                    encoder.close(list);
                });
                self.state = State::SaslFirst;
            }
            (State::SaslHeader, false) => self.state = State::SaslFirst,
            (_, true) => {
                self.output.extend(&AMQP_HEADER);
                self.state = State::OpenWait;
            }
            (_, false) => self.state = State::OpenWait,
        }
        Step::Next
    }

    /// Frames of the handshake, and those after our close.
    #[cold]
    fn read_early_frame<'i>(&mut self, frame_type: u8, channel: u16, body: &'i [u8]) -> Step<'i> {
        let is_sasl = matches!(self.state, State::SaslFirst | State::SaslNext);
        let expected = if is_sasl { FRAME_SASL } else { FRAME_AMQP };
        if matches!(self.state, State::CloseSent { .. }) {
            return self.read_answer_to_close(frame_type, body);
        }
        if frame_type != expected {
            let mode = if is_sasl { "sasl" } else { "amqp" };
            let text = format!("unexpected frame type {frame_type} in {mode} mode (expected {expected})");
            return Step::Tell(self.fail(Fault::framing(text)));
        }
        let read = if is_sasl { self.read_sasl(body) } else { self.read_open(channel, body) };
        match read {
            Ok(step) => step,
            Err(fault) => Step::Tell(self.fail(fault)),
        }
    }

    fn read_answer_to_close<'i>(&mut self, frame_type: u8, body: &'i [u8]) -> Step<'i> {
        let State::CloseSent { is_asked } = self.state else { return Step::Next };
        let Ok((descriptor::CLOSE, list, _)) = read_performative(body) else { return Step::Next };
        if frame_type != FRAME_AMQP {
            return Step::Next;
        }
        self.state = State::Finished;
        let error = performative::read_error(&mut Fields::new(list)).unwrap_or(None);
        if is_asked { Step::Tell(Event::Close(error)) } else { Step::Next }
    }

    fn read_sasl<'i>(&mut self, body: &'i [u8]) -> Result<Step<'i>, Fault> {
        let (code, list, _) = read_performative(body)?;
        let mut fields = Fields::new(list);
        let unexpected = || Fault::framing(format!("unexpected SASL frame 0x{code:02x}"));
        let event = match (code, self.state, self.is_server) {
            (descriptor::SASL_INIT, State::SaslFirst, true) => Event::SaslInit {
                mechanism: fields.symbol()?.ok_or(Malformed::Missing("mechanism"))?,
                initial_response: fields.binary()?,
                hostname: fields.string()?,
            },
            (descriptor::SASL_RESPONSE, State::SaslNext, true) => {
                Event::SaslResponse(fields.binary()?.ok_or(Malformed::Missing("response"))?)
            }
            (descriptor::SASL_MECHANISMS, State::SaslFirst, false) => {
                Event::SaslMechanisms(Symbols::Read(fields.value()?))
            }
            (descriptor::SASL_CHALLENGE, State::SaslNext, false) => {
                Event::SaslChallenge(fields.binary()?.ok_or(Malformed::Missing("challenge"))?)
            }
            (descriptor::SASL_OUTCOME, State::SaslNext | State::SaslFirst, false) => {
                let code = match fields.ubyte()?.ok_or(Malformed::Missing("code"))? {
                    0 => SaslCode::Ok,
                    1 => SaslCode::Auth,
                    2 => SaslCode::System,
                    3 => SaslCode::SystemPermanent,
                    4 => SaslCode::SystemTemporary,
                    _ => return Err(Malformed::WrongType(0x50).into()),
                };
                if code == SaslCode::Ok {
                    self.output.extend(&AMQP_HEADER);
                    self.state = State::AmqpHeader;
                } else {
                    self.state = State::Finished;
                }
                return Ok(Step::Tell(Event::SaslOutcome(code)));
            }
            _ => return Err(unexpected()),
        };
        self.state = State::SaslAnswer;
        Ok(Step::Tell(event))
    }

    fn read_open<'i>(&mut self, channel: u16, body: &'i [u8]) -> Result<Step<'i>, Fault> {
        if body.is_empty() {
            return Ok(Step::Next);
        }
        let (code, list, _) = read_performative(body)?;
        match code {
            descriptor::OPEN => {}
            // A server may refuse with a close right away.
            descriptor::CLOSE if !self.is_server => {
                self.state = State::Finished;
                let error = performative::read_error(&mut Fields::new(list))?;
                return Ok(Step::Tell(Event::Close(error)));
            }
            _ => {
                let text = format!("performative 0x{code:02x} on channel {channel} before open");
                return Err(Fault::new(condition::ILLEGAL_STATE, text));
            }
        }
        let open = Open::read(list)?;
        if open.max_frame_size < FRAME_BYTES_MIN {
            let (max, min) = (open.max_frame_size, FRAME_BYTES_MIN);
            let text = format!("max-frame-size ({max}) < minimum ({min})");
            return Err(Fault::new(condition::INVALID_FIELD, text));
        }
        self.remote_frame_bytes = open.max_frame_size;
        self.remote_channel_max = open.channel_max;
        if let Some(ms) = open.idle_ms.filter(|ms| *ms > 0) {
            // Between two of our frames pass at most two of these.
            self.beat_ms = (u64::from(ms) / 3).max(BEAT_MS_MIN) as u32;
        }
        self.state = if self.is_open_sent { State::Open } else { State::OpenAnswer };
        self.start_clocks();
        Ok(Step::Tell(Event::Open(Box::new(open))))
    }

    fn start_clocks(&mut self) {
        if self.state == State::Open {
            let now = Now { mono_ns: self.now_ns, wall_ms: 0 };
            if self.limits.idle_ms > 0 {
                self.hear_at_ns = now.after_ms(self.limits.idle_ms.into());
            }
            if self.beat_ms > 0 {
                self.beat_at_ns = now.after_ms(self.beat_ms.into());
                self.frames_out_seen = self.frames_out;
            }
        }
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

    #[inline]
    fn read_transfer<'i>(&mut self, channel: u16, fields: &'i [u8]) -> Result<Step<'i>, Broken> {
        let (transfer, payload) = hot::Transfer::read(fields)?;
        let ours = self.remote_channels.get(usize::from(channel)).copied().unwrap_or(NO_HANDLE);
        let Some(session) =
            self.sessions.get_mut(usize::from(ours)).and_then(|session| session.as_deref_mut())
        else {
            return Ok(Step::Next);
        };
        if session.state != SessionState::Mapped {
            return Ok(Step::Next);
        }
        let flows = session.incoming_window;
        session.count_incoming(&mut self.output).map_err(Broken::Session)?;
        if session.incoming_window > flows {
            self.frames_out = self.frames_out.wrapping_add(1);
        }
        let Some(id) = session.by_remote_handle(transfer.handle) else {
            let text = format!("Unknown link handle: {}", transfer.handle);
            return Err(Broken::Session(Fault::new(condition::UNATTACHED_HANDLE, text)));
        };
        let session_id = session.id;
        let link = &mut session.links[usize::from(id.0)];
        if matches!(link.state, LinkState::DetachSent { .. }) {
            return Ok(Step::Next);
        }
        if link.role != Role::Receiver || link.state != LinkState::Attached {
            let text = format!("transfer on a link that is not open to it (handle {})", transfer.handle);
            return Err(Broken::Session(Fault::new(condition::ERRANT_LINK, text)));
        }
        // Other states on a transfer are for links that resume, which none of ours does (§2.6.13).
        if let Some(Outcome::Other(_)) = Outcome::read(transfer.state)? {
            let fault = Fault::new(condition::NOT_IMPLEMENTED, "transactions are not supported");
            return Err(Broken::Link(id, fault));
        }
        if transfer.more || link.partial.is_some() || transfer.aborted {
            return self.read_part(ours, id, &transfer, payload);
        }
        let (tag, credit) = begin_delivery(link, id, &transfer, payload.len())?;
        Ok(Step::Tell(Event::Transfer(Transfer {
            session: session_id,
            link: id,
            delivery_id: transfer.delivery_id.unwrap_or(0),
            tag,
            format: transfer.format.unwrap_or(0),
            settled: transfer.settled.unwrap_or(false),
            credit,
            payload,
        })))
    }

    /// A frame of a delivery of several.
    fn read_part<'i>(
        &mut self,
        ours: u16,
        id: LinkId,
        transfer: &hot::Transfer<'i>,
        payload: &[u8],
    ) -> Result<Step<'i>, Broken> {
        let held = self.assembling_bytes();
        let Some(session) = self.sessions[usize::from(ours)].as_deref_mut() else { return Ok(Step::Next) };
        let session_id = session.id;
        let link = &mut session.links[usize::from(id.0)];
        if transfer.aborted {
            // Its credit counts as used by the sender (§2.6.14): an aborted delivery advances its delivery-count.
            if link.partial.take().is_none() {
                begin_delivery(link, id, transfer, 0)?;
            }
            let credit = link.credit;
            return Ok(Step::Tell(Event::Aborted { session: session_id, link: id, credit }));
        }
        if link.partial.is_none() {
            let (tag, _) = begin_delivery(link, id, transfer, payload.len())?;
            let mut partial = Partial {
                delivery_id: transfer.delivery_id.unwrap_or(0),
                tag: [0; _],
                tag_len: tag.len() as u8,
                format: transfer.format.unwrap_or(0),
                settled: false,
                bytes: Vec::new(),
            };
            partial.tag[..tag.len()].copy_from_slice(tag);
            link.partial = Some(Box::new(partial));
        }
        let bytes_max = link.message_bytes_max;
        let Some(partial) = &mut link.partial else { return Ok(Step::Next) };
        if transfer.delivery_id.is_some_and(|delivery_id| delivery_id != partial.delivery_id) {
            let text = format!("delivery {} is not complete", partial.delivery_id);
            return Err(Broken::Session(Fault::new(condition::NOT_ALLOWED, text)));
        }
        partial.settled |= transfer.settled.unwrap_or(false);
        if (partial.bytes.len() + payload.len()) as u64 > bytes_max {
            return Err(Broken::Session(too_large(partial.bytes.len() + payload.len(), bytes_max)));
        }
        if partial.bytes.capacity() - partial.bytes.len() < payload.len()
            && held + partial.bytes.len() + payload.len() > self.limits.assembly_bytes_max
        {
            let text = format!("over {} bytes of incomplete messages", self.limits.assembly_bytes_max);
            return Err(Broken::Session(Fault::new(condition::RESOURCE_LIMIT_EXCEEDED, text)));
        }
        partial.bytes.extend_from_slice(payload);
        if transfer.more {
            return Ok(Step::Next);
        }
        let credit = link.credit;
        Ok(link.partial.take().map_or(Step::Next, |partial| {
            Step::Tell(Event::Assembled(Assembled { session: session_id, link: id, credit, partial }))
        }))
    }

    fn assembling_bytes(&self) -> usize {
        let links = self.sessions.iter().flatten().flat_map(|session| &session.links);
        links.filter_map(|link| link.partial.as_ref()).map(|partial| partial.bytes.capacity()).sum()
    }

    #[inline]
    fn read_disposition<'i>(&mut self, channel: u16, fields: &'i [u8]) -> Result<Step<'i>, Broken> {
        let disposition = hot::Disposition::read(fields)?;
        let Some(session) = self.by_remote_channel(channel) else { return Ok(Step::Next) };
        if session.state != SessionState::Mapped {
            return Ok(Step::Next);
        }
        Ok(Step::Tell(Event::Disposition(Disposition {
            session: session.id,
            role: disposition.role.other(),
            first: disposition.first,
            last: disposition.last,
            settled: disposition.settled,
            outcome: disposition.state,
        })))
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
        session.remote_handle_max = begin.handle_max.min(u32::from(NO_HANDLE) - 1) as u16;
        if begin.remote_channel.is_none() {
            self.write_begin(id, Some(channel), Map::default());
        }
        Ok(Step::Tell(Event::Begin { session: id, begin }))
    }

    fn read_attach<'i>(
        &mut self,
        id: SessionId,
        handle: u32,
        attach: Attach<'i>,
    ) -> Result<Step<'i>, Broken> {
        let most = self.limits.links_max.clamp(1, 256);
        let message_bytes_max = self.limits.message_bytes_max;
        let Some(session) = self.sessions[usize::from(id.0)].as_deref_mut() else { return Ok(Step::Next) };
        if handle >= most.into() {
            let most = most - 1;
            let text = format!("link handle value ({handle}) exceeds maximum link handle value ({most})");
            return Err(Broken::Session(Fault::framing(text)));
        }
        if session.by_remote_handle(handle).is_some() {
            let text = format!("handle {handle} is already associated with a link");
            return Err(Broken::Session(Fault::new(condition::HANDLE_IN_USE, text)));
        }
        let role = attach.role.other();
        // An answer to an attach of ours, or to one that we took back before it came.
        let is_ours = |link: &Link| {
            link.remote_handle == NO_HANDLE
                && matches!(link.state, LinkState::AttachSent | LinkState::DetachSent { .. })
                && link.role == role
                && *link.name == *attach.name
        };
        if let Some(at) = session.links.iter().position(is_ours) {
            let link = LinkId(at as u16);
            session.map_remote_handle(handle as u16, link);
            let slot = &mut session.links[at];
            if slot.state != LinkState::AttachSent {
                return Ok(Step::Next);
            }
            slot.state = LinkState::Attached;
            if role == Role::Receiver {
                slot.delivery_count = attach.initial_delivery_count.unwrap_or(0);
            }
            return Ok(Step::Tell(Event::Attach {
                session: id,
                link,
                is_answer: true,
                attach: Box::new(attach),
            }));
        }
        let Some(link) = session.free_link(Some(handle as u16), most) else {
            let text = format!("no handle left to answer handle {handle}");
            return Err(Broken::Session(Fault::new(condition::RESOURCE_LIMIT_EXCEEDED, text)));
        };
        session.map_remote_handle(handle as u16, link);
        let slot = &mut session.links[usize::from(link.0)];
        slot.state = LinkState::AttachReceived;
        slot.role = role;
        slot.drain = false;
        slot.credit = 0;
        slot.delivery_count = match role {
            Role::Receiver => attach.initial_delivery_count.unwrap_or(0),
            Role::Sender => 0,
        };
        slot.message_bytes_max = message_bytes_max;
        slot.name = attach.name.into();
        Ok(Step::Tell(Event::Attach { session: id, link, is_answer: false, attach: Box::new(attach) }))
    }

    fn read_detach<'i>(
        &mut self,
        id: SessionId,
        handle: u32,
        closed: bool,
        error: Option<Error<'i>>,
    ) -> Result<Step<'i>, Broken> {
        let Some(session) = self.sessions[usize::from(id.0)].as_deref_mut() else { return Ok(Step::Next) };
        // RabbitMQ passes over the detach of a link it does not know.
        let Some(link) = session.by_remote_handle(handle) else { return Ok(Step::Next) };
        let state = session.links[usize::from(link.0)].state;
        session.write_settled(&mut self.output);
        session.free(link);
        match state {
            LinkState::DetachSent { is_asked: false } => return Ok(Step::Next),
            LinkState::DetachSent { is_asked: true } => {}
            // Attached and detached before we answered: there is no handle of ours to detach.
            LinkState::AttachReceived => {}
            _ => self.write(FRAME_AMQP, id.0, |encoder| {
                performative::write_detach(link.0.into(), closed, None, encoder);
            }),
        }
        Ok(Step::Tell(Event::Detach { session: id, link, closed, error }))
    }

    // ------------------------------------------------------------------------------------------------------ handshake

    /// Client: chooses a mechanism.
    pub fn sasl_init(&mut self, mechanism: &str, initial_response: Option<&[u8]>, hostname: Option<&str>) {
        self.write(FRAME_SASL, 0, |encoder| {
            encoder.descriptor(descriptor::SASL_INIT.into());
            let mut list = encoder.list();
            encoder.symbol(mechanism);
            list.field(encoder);
            list.option(encoder, initial_response, |encoder, response| encoder.binary(response));
            list.option(encoder, hostname, |encoder, hostname| encoder.string(hostname));
            encoder.close(list);
        });
        self.state = State::SaslNext;
    }

    /// Client: answers a challenge.
    pub fn sasl_response(&mut self, response: &[u8]) {
        self.write_sasl(descriptor::SASL_RESPONSE, response);
    }

    /// Server: asks the client for more.
    pub fn sasl_challenge(&mut self, challenge: &[u8]) {
        self.write_sasl(descriptor::SASL_CHALLENGE, challenge);
    }

    fn write_sasl(&mut self, code: u8, bytes: &[u8]) {
        self.write(FRAME_SASL, 0, |encoder| {
            encoder.descriptor(code.into());
            let mut list = encoder.list();
            encoder.binary(bytes);
            list.field(encoder);
            encoder.close(list);
        });
        self.state = State::SaslNext;
    }

    /// Server: ends the dialogue. Anything but `Ok` finishes the connection.
    pub fn sasl_outcome(&mut self, code: SaslCode) {
        self.write(FRAME_SASL, 0, |encoder| {
            encoder.descriptor(descriptor::SASL_OUTCOME.into());
            let mut list = encoder.list();
            encoder.ubyte(code as u8);
            list.field(encoder);
            encoder.close(list);
        });
        self.state = if code == SaslCode::Ok { State::AmqpHeader } else { State::Finished };
    }

    /// Opens: a client after the SASL outcome, a server in answer. Sizes and times of `open` are replaced by the limits'.
    pub fn open(&mut self, open: &Open<'_>) {
        let limits = self.limits;
        let open = Open {
            max_frame_size: limits.frame_bytes_max,
            channel_max: self.channel_max(),
            idle_ms: Some(limits.idle_ms).filter(|ms| *ms > 0),
            ..*open
        };
        self.write(FRAME_AMQP, 0, |encoder| open.write(encoder));
        self.is_open_sent = true;
        if self.state == State::OpenAnswer {
            self.state = State::Open;
            self.start_clocks();
        }
    }

    /// Closes. [`Event::Close`] comes when the peer has answered.
    pub fn close(&mut self, error: Option<Error<'_>>) {
        self.close_for(error, true);
    }

    /// Stops without a word: for a peer that was not let in.
    pub fn abort(&mut self) {
        self.finish();
    }

    /// The highest channel either peer may use, as far as is known: the lesser of what both say (§2.7.1).
    fn channel_max(&self) -> u16 {
        self.remote_channel_max.min(self.limits.sessions_max.saturating_sub(1))
    }

    fn finish(&mut self) {
        self.state = State::Finished;
        self.sessions = Vec::new();
        self.remote_channels = Vec::new();
    }

    fn close_for(&mut self, error: Option<Error<'_>>, is_asked: bool) {
        if matches!(self.state, State::Finished | State::CloseSent { .. } | State::Deaf) {
            return;
        }
        self.flush();
        self.sessions = Vec::new();
        self.remote_channels = Vec::new();
        // Before our open there is no frame to say it in.
        if !self.is_open_sent {
            self.state = State::Finished;
            return;
        }
        self.write(FRAME_AMQP, 0, |encoder| performative::write_last(descriptor::CLOSE, error, encoder));
        self.state = State::CloseSent { is_asked };
        let now = Now { mono_ns: self.now_ns, wall_ms: 0 };
        self.limit_at_ns = now.after_ms(self.limits.close_ms.into());
    }

    fn fail<'i>(&mut self, fault: Fault) -> Event<'i> {
        self.close_for(Some(fault.error()), false);
        Event::Failed(fault)
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
        let limits = self.limits;
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
        self.remote_channels[usize::from(remote_channel)] = NO_HANDLE;
        self.sessions[usize::from(id.0)] = None;
        while let Some(None) = self.sessions.last() {
            self.sessions.pop();
        }
    }

    fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(usize::from(id.0))?.as_deref()
    }

    /// A session that has not ended, and what it writes to.
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

    /// Sets how many transfers the peer may send on a session before we answer with a flow, and says so if that opens the
    /// window further. At least 1.
    pub fn set_incoming_window(&mut self, session: SessionId, transfers: u32) {
        let Some((session, output)) = self.session_mut(session) else { return };
        session.incoming_window_max = transfers.max(1);
        if session.incoming_window < transfers && session.state == SessionState::Mapped {
            session.write_flow(output, None, false);
        }
    }

    /// Shuts the window of a session to the peer, or opens it again: for alarms. What the peer had sent before it heard of
    /// it is still taken.
    pub fn block(&mut self, session: SessionId, is_blocked: bool) {
        let Some((session, output)) = self.session_mut(session) else { return };
        if session.is_blocked != is_blocked {
            session.is_blocked = is_blocked;
            session.write_flow(output, None, false);
        }
    }

    // ---------------------------------------------------------------------------------------------------------- links

    /// Attaches a link; `None` where the session is gone or takes no more. [`Event::Attach`] comes when the peer has answered.
    pub fn attach(&mut self, session: SessionId, attach: &Attach<'_>) -> Option<LinkId> {
        let message_bytes_max = attach.max_message_size.unwrap_or(self.limits.message_bytes_max);
        let most = self.limits.links_max.clamp(1, 256);
        let (session, output) = self.session_mut(session)?;
        let link = session.free_link(None, most.min(session.remote_handle_max.saturating_add(1)))?;
        let slot = &mut session.links[usize::from(link.0)];
        slot.state = LinkState::AttachSent;
        slot.role = attach.role;
        slot.drain = false;
        slot.credit = 0;
        slot.delivery_count = attach.initial_delivery_count.unwrap_or(0);
        slot.message_bytes_max = message_bytes_max;
        slot.name = attach.name.into();
        let initial_delivery_count = (attach.role == Role::Sender).then_some(slot.delivery_count);
        let attach = Attach { initial_delivery_count, ..*attach };
        write_frame(output, session.id.0, |encoder| attach.write(link.0.into(), encoder));
        Some(link)
    }

    /// Answers the attach of a link. Name and role are the link's, whatever `attach` says.
    pub fn answer_attach(&mut self, session: SessionId, link: LinkId, attach: &Attach<'_>) {
        let Some((session, output)) = self.session_mut(session) else { return };
        let channel = session.id.0;
        let Some(slot) = session.link_mut(link).filter(|slot| slot.state == LinkState::AttachReceived) else {
            return;
        };
        slot.state = LinkState::Attached;
        if let (Role::Receiver, Some(bytes)) = (slot.role, attach.max_message_size) {
            slot.message_bytes_max = bytes;
        }
        let initial_delivery_count = (slot.role == Role::Sender).then_some(slot.delivery_count);
        let attach = Attach { name: &slot.name, role: slot.role, initial_delivery_count, ..*attach };
        write_frame(output, channel, |encoder| attach.write(link.0.into(), encoder));
    }

    /// Refuses a link (§2.6.3): answers its attach without our terminus, then detaches for good with the error.
    pub fn refuse_attach(&mut self, session: SessionId, link: LinkId, attach: &Attach<'_>, error: Error<'_>) {
        let role = self.session(session).and_then(|session| session.link(link)).map(|link| link.role);
        let refusal = match role {
            Some(Role::Receiver) => Attach { target: None, ..*attach },
            _ => Attach { source: None, ..*attach },
        };
        self.answer_attach(session, link, &refusal);
        self.detach_for(session, link, Some(error), true, false);
    }

    /// Detaches a link. [`Event::Detach`] comes when the peer has answered. Its unsettled deliveries are forgotten.
    pub fn detach(&mut self, session: SessionId, link: LinkId, error: Option<Error<'_>>, closed: bool) {
        self.detach_for(session, link, error, closed, true);
    }

    fn detach_for(
        &mut self,
        session: SessionId,
        link: LinkId,
        error: Option<Error<'_>>,
        closed: bool,
        is_asked: bool,
    ) {
        let Some((session, output)) = self.session_mut(session) else { return };
        let is_up = |link: &&Link| matches!(link.state, LinkState::Attached | LinkState::AttachSent);
        if session.link(link).filter(is_up).is_none() {
            return;
        }
        session.write_settled(output);
        session.close_link(link, LinkState::DetachSent { is_asked });
        write_frame(output, session.id.0, |encoder| {
            performative::write_detach(link.0.into(), closed, error, encoder);
        });
    }

    /// What the sender of a link may still send, and its delivery-count.
    #[inline]
    pub fn credit(&self, session: SessionId, link: LinkId) -> Option<(u32, u32)> {
        self.session(session)?.link(link).map(|link| (link.credit, link.delivery_count))
    }

    /// The name of a link and which end we are.
    pub fn link(&self, session: SessionId, link: LinkId) -> Option<(&str, Role)> {
        self.session(session)?.link(link).map(|link| (&*link.name, link.role))
    }

    /// As receiver: lets the sender send `credit` deliveries from now on; with `drain` it is to give back what it cannot use.
    #[inline]
    pub fn grant(&mut self, session: SessionId, link: LinkId, credit: u32, drain: bool) {
        let Some((session, output)) = self.session_mut(session) else { return };
        let Some(slot) = session.link_mut(link).filter(|slot| slot.role == Role::Receiver) else { return };
        if matches!(slot.state, LinkState::DetachSent { .. } | LinkState::AttachReceived) {
            return;
        }
        slot.credit = credit;
        slot.drain = drain;
        session.write_flow(output, Some((link, None)), false);
    }

    /// As sender: answers a flow with the link's state, and how much there is to send.
    pub fn report(&mut self, session: SessionId, link: LinkId, available: Option<u32>) {
        let Some((session, output)) = self.session_mut(session) else { return };
        if session.link(link).is_some_and(|slot| slot.state == LinkState::Attached) {
            session.write_flow(output, Some((link, available)), false);
        }
    }

    /// As sender: nothing is left to send to a receiver that drains. Its credit is used up (§2.6.7).
    pub fn drained(&mut self, session: SessionId, link: LinkId) {
        let Some((session, output)) = self.session_mut(session) else { return };
        let Some(slot) = session.link_mut(link).filter(|slot| slot.state == LinkState::Attached) else {
            return;
        };
        slot.delivery_count = slot.delivery_count.wrapping_add(slot.credit);
        slot.credit = 0;
        session.write_flow(output, Some((link, Some(0))), false);
        if let Some(slot) = session.link_mut(link) {
            slot.drain = false;
        }
    }

    // ----------------------------------------------------------------------------------------------------- deliveries

    /// Sends a delivery: answers its delivery-id. Takes it also while the peer's window is shut, see
    /// [`Connection::queued`].
    #[inline]
    pub fn transfer(
        &mut self,
        session: SessionId,
        link: LinkId,
        delivery: &Delivery<'_>,
    ) -> Result<u32, NotSent> {
        let frame_bytes = self.remote_frame_bytes as usize;
        let (session, output) = self.session_mut(session).ok_or(NotSent::Detached)?;
        session.transfer(output, frame_bytes, link, delivery)
    }

    /// Deliveries of a session that wait for the peer's window: stop sending until [`Event::Window`] or [`Event::Flow`].
    #[inline]
    pub fn queued(&self, session: SessionId) -> usize {
        self.session(session).map_or(0, |session| session.queued_len())
    }

    /// As sender: the deliveries `first` to `last` are over. Tells those that were not yet, in runs of one link and
    /// consecutive tokens, in order.
    #[inline]
    pub fn settle(&mut self, session: SessionId, first: u32, last: u32, each: impl FnMut(Run)) {
        if let Some((session, _)) = self.session_mut(session) {
            session.unsettled.settle(first, last, each);
        }
    }

    /// Deliveries of a session that the peer has not settled.
    pub fn unsettled(&self, session: SessionId) -> usize {
        self.session(session).map_or(0, |session| session.unsettled.len())
    }

    /// As receiver: settles the deliveries `first` to `last`. Ranges of the same outcome that follow on each other go out as
    /// one when [`Connection::flush`] or [`Connection::output_mut`] is called.
    #[inline]
    pub fn settle_incoming(&mut self, session: SessionId, first: u32, last: u32, outcome: &Outcome<'_>) {
        if let Some((session, output)) = self.session_mut(session) {
            session.settle_incoming(output, first, last, outcome);
        }
    }

    /// Tells a state of deliveries without the joining of [`Connection::settle_incoming`]: as sender to answer a receiver
    /// that waits for us to settle, as receiver to tell a state before settling.
    pub fn dispose(
        &mut self,
        session: SessionId,
        role: Role,
        first: u32,
        last: u32,
        settled: bool,
        outcome: Option<&Outcome<'_>>,
    ) {
        if let Some((session, output)) = self.session_mut(session) {
            session.write_settled(output);
            let disposition = hot::Disposition { role, first, last, settled, state: outcome.copied() };
            disposition.write(session.id.0, output.own());
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

/// The first frame of a delivery: checks it and counts its credit. Answers its tag and the credit left.
#[inline]
fn begin_delivery<'i>(
    link: &mut Link,
    id: LinkId,
    transfer: &hot::Transfer<'i>,
    payload: usize,
) -> Result<(&'i [u8], u32), Broken> {
    let tag = transfer.tag.unwrap_or(&[]);
    if transfer.delivery_id.is_none() || tag.len() > crate::limits::TAG_BYTES_MAX {
        let text = if tag.is_empty() { "transfer without delivery-id" } else { "delivery-tag over 32 bytes" };
        return Err(Broken::Session(Fault::new(condition::INVALID_FIELD, text)));
    }
    if link.credit == 0 {
        let text = "insufficient link credit for a delivery";
        return Err(Broken::Link(id, Fault::new(condition::TRANSFER_LIMIT_EXCEEDED, text)));
    }
    if payload as u64 > link.message_bytes_max {
        return Err(Broken::Session(too_large(payload, link.message_bytes_max)));
    }
    link.credit -= 1;
    link.delivery_count = link.delivery_count.wrapping_add(1);
    Ok((tag, link.credit))
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

/// Ends the session, as RabbitMQ does, though the condition is a link's (§2.8.19).
#[cold]
fn too_large(size: usize, most: u64) -> Fault {
    let text = format!("message size ({size} bytes) > maximum message size ({most} bytes)");
    Fault::new(condition::MESSAGE_SIZE_EXCEEDED, text)
}

/// The code and fields of a performative, checked; and what stands behind the descriptor, for the hand-written readers.
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
