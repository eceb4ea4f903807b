//! From the protocol header to an open connection (§5.3, §2.4.1), and its close (§2.4.3), both ends of it.

use super::*;

impl Connection {
    #[cold]
    pub(super) fn read_header<'i>(&mut self, input: &mut Input<'i>) -> Step<'i> {
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
    pub(super) fn read_early_frame<'i>(&mut self, frame_type: u8, channel: u16, body: &'i [u8]) -> Step<'i> {
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
            // A close needs an open before it (§2.4.3), which is the owner's.
            Err(fault) if self.is_server && self.state == State::OpenWait => {
                self.state = State::OpenAnswer;
                Step::Tell(Event::OpenRefused(fault))
            }
            Err(fault) => Step::Tell(self.fail(fault)),
        }
    }

    pub(super) fn read_answer_to_close<'i>(&mut self, frame_type: u8, body: &'i [u8]) -> Step<'i> {
        let State::CloseSent { is_asked } = self.state else { return Step::Next };
        let Ok((descriptor::CLOSE, list, _)) = read_performative(body) else { return Step::Next };
        if frame_type != FRAME_AMQP {
            return Step::Next;
        }
        self.state = State::Finished;
        let error = performative::read_error(&mut Fields::new(list)).unwrap_or(None);
        if is_asked { Step::Tell(Event::Close(error)) } else { Step::Next }
    }

    pub(super) fn read_sasl<'i>(&mut self, body: &'i [u8]) -> Result<Step<'i>, Fault> {
        let (code, list, _) = read_performative(body)?;
        let mut fields = Fields::new(list);
        let unexpected = || Fault::framing(format!("unexpected SASL frame 0x{code:02x}"));
        let event = match (code, self.state, self.is_server) {
            (descriptor::SASL_INIT, State::SaslFirst, true) => Event::SaslInit {
                mechanism: fields.symbol()?.ok_or(Malformed::Missing("mechanism"))?,
                initial_response: fields.binary()?,
                hostname: fields.string()?,
            },
            (descriptor::SASL_MECHANISMS, State::SaslFirst, false) => {
                Event::SaslMechanisms(Symbols::Read(fields.value()?))
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

    pub(super) fn read_open<'i>(&mut self, channel: u16, body: &'i [u8]) -> Result<Step<'i>, Fault> {
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
        if channel != 0 {
            return Err(Fault::framing(format!("open on channel {channel} instead of channel 0")));
        }
        let open = Open::read(list)?;
        if open.max_frame_size < FRAME_BYTES_MIN {
            let (max, min) = (open.max_frame_size, FRAME_BYTES_MIN);
            let text = format!("max-frame-size ({max}) < minimum ({min})");
            return Err(Fault::framing(text));
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

    pub(super) fn start_clocks(&mut self) {
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

    /// Server: ends the dialogue. Anything but `Ok` is said after [`SILENCE_MS`], and finishes the connection.
    pub fn sasl_outcome(&mut self, code: SaslCode) {
        if code == SaslCode::Ok {
            self.write_outcome(code);
            self.state = State::AmqpHeader;
        } else {
            let now = Now { mono_ns: self.now_ns, wall_ms: 0 };
            self.limit_at_ns = now.after_ms(SILENCE_MS);
            self.state = State::Refusing(code);
        }
    }

    /// Server: whether a login waits for its outcome.
    pub fn is_authenticating(&self) -> bool {
        self.state == State::SaslAnswer
    }

    /// Server, after an outcome that is not `Ok`: it is said after so many milliseconds, where that is later.
    pub fn prolong_silence(&mut self, ms: u64) {
        if matches!(self.state, State::Refusing(_)) {
            let now = Now { mono_ns: self.now_ns, wall_ms: 0 };
            self.limit_at_ns = now.after_ms(ms.max(SILENCE_MS));
        }
    }

    pub(super) fn write_outcome(&mut self, code: SaslCode) {
        self.write(FRAME_SASL, 0, |encoder| {
            encoder.descriptor(descriptor::SASL_OUTCOME.into());
            let mut list = encoder.list();
            encoder.ubyte(code as u8);
            list.field(encoder);
            encoder.close(list);
        });
    }

    /// Opens: a client after the SASL outcome, a server in answer. Sizes and times of `open` are replaced by the limits'.
    pub fn open(&mut self, open: &Open<'_>) {
        let limits = &self.limits;
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

    /// The highest channel either peer may use, as far as is known: the lesser of both peers' (§2.7.1).
    pub fn channel_max(&self) -> u16 {
        self.remote_channel_max.min(self.limits.sessions_max.saturating_sub(1))
    }

    pub(super) fn finish(&mut self) {
        self.state = State::Finished;
        self.sessions = Vec::new();
        self.assembling_bytes = 0;
        self.remote_channels = Vec::new();
    }

    pub(super) fn close_for(&mut self, error: Option<Error<'_>>, is_asked: bool) {
        if matches!(self.state, State::Finished | State::CloseSent { .. } | State::Deaf) {
            return;
        }
        self.flush();
        self.sessions = Vec::new();
        self.assembling_bytes = 0;
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

    pub(super) fn fail<'i>(&mut self, fault: Fault) -> Event<'i> {
        self.close_for(Some(fault.error()), false);
        Event::Failed(fault)
    }
}
