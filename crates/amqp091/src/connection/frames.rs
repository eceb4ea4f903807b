//! Frames one by one: the meaning of each where it comes, and the refusals.

use super::refusal::{Refusal, assembly_interrupted, decode, malformed, undecodable, unimplemented};
use super::*;
use crate::content::{Assembly, BASIC, Header, Join};
use crate::error::Snippet;
use crate::limits::BODY_SIZE_MAX;
use crate::method::{ConnectionClose, Sender};

impl Connection {
    /// A whole frame.
    pub(super) fn frame<'i>(&mut self, now: Now, head: Head, payload: &'i [u8]) -> Outcome<'i> {
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
    pub(super) fn method_0_running<'i>(&mut self, id: MethodId, arguments: &'i [u8]) -> Outcome<'i> {
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

    pub(super) fn closed_by_peer<'i>(&mut self, close: ConnectionClose<'i>) -> Step<'i> {
        self.state = State::ClosedByPeer;
        self.deadline_ns = u64::MAX;
        self.heartbeat.stop();
        self.channels.clear();
        Step::Event(Event::Close(close))
    }

    pub(super) fn unexpected_method(&self, id: MethodId) -> Refusal {
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
    pub(super) fn message<'i, M: Carrier<'i>>(
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
            Err(reason) => {
                input.consume(taken);
                return Err(undecodable(id, arguments, reason));
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
                self.wanted = (taken + wanted).try_into().unwrap_or(u32::MAX);
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
        self.channels.begin(channel, Assembly::new(id, arguments));
        Ok(self.gathering())
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
        let body_size = header.body_size as usize;
        self.channels.grow(channel, |assembly| assembly.header(header.properties, body_size));
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
        self.channels.grow(channel, |assembly| assembly.body_piece(payload));
        Ok(self.complete(channel))
    }

    /// The message `channel` is gathering; nothing where its frames are to be discarded.
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
        match self.channels.take_complete(channel) {
            Some(assembly) => Step::Event(Event::Gathered(Gathered { channel, assembly })),
            None => self.gathering(),
        }
    }

    /// More is kept of messages that are not whole than was granted: the holder hears so at once.
    fn gathering<'i>(&self) -> Step<'i> {
        match self.channels.room {
            0.. => Step::Again,
            lacking => Step::Event(Event::Gathering { bytes: lacking.unsigned_abs() }),
        }
    }
}
