//! Verbs of this end. Each appends its frames to the output; those that are out of place are the holder's mistake and
//! panic.

use super::*;
use crate::encode::{Body, DeliverPrefix, Outgoing, PublishPrefix};
use crate::method::{
    BasicNack, BasicReject, ChannelClose, ChannelCloseOk, ChannelOpen, ChannelOpenOk, ConnectionClose,
    ConnectionCloseOk, ConnectionOpen, ConnectionOpenOk, ConnectionSecure, ConnectionSecureOk,
    ConnectionStart, ConnectionStartOk, ConnectionTune, ConnectionTuneOk, Plain,
};
use message::amqp091::Table;

/// Bytes of a close's frame beside its text, of a channel and of the connection alike: head, method, code, the text's
/// length, the method refused, end.
const CLOSE_LEN: usize = 7 + 4 + 2 + 1 + 4 + 1;

/// The handshake.
impl Connection {
    /// Server, after [`Event::ProtocolHeader`]: announces itself. `mechanisms` and `locales` are lists with spaces
    /// between.
    pub fn start(&mut self, server_properties: Table<'_>, mechanisms: &[u8], locales: &[u8]) {
        self.expect(State::Starting, State::AwaitStartOk);
        let start =
            ConnectionStart { version_major: 0, version_minor: 9, server_properties, mechanisms, locales };
        self.method_frame(0, &start);
    }

    /// Server, after [`Event::StartOk`] or [`Event::SecureOk`]: asks for more.
    pub fn secure(&mut self, challenge: &[u8]) {
        self.expect(State::Authenticating, State::AwaitSecureOk);
        self.method_frame(0, &ConnectionSecure { challenge });
    }

    /// Server, after [`Event::StartOk`] or [`Event::SecureOk`]: the client's login is right; proposes the limits.
    pub fn tune(&mut self) {
        self.expect(State::Authenticating, State::AwaitTuneOk);
        let Limits { channel_max, frame_max, heartbeat_s: heartbeat, .. } = self.limits;
        self.method_frame(0, &ConnectionTune { channel_max, frame_max, heartbeat });
    }

    /// Server, after [`Event::StartOk`] or [`Event::SecureOk`]: sends the client away. It is told (403) if it has the
    /// capability `authentication_failure_close`, else left in silence for a while. `text` comes without the code's
    /// name.
    pub fn refuse_login(&mut self, now: Now, text: &str, is_told: bool) {
        self.expect(State::Authenticating, State::Silent);
        self.set_deadline(now, SILENCE_MS);
        if is_told {
            let error = Error::refused(ReplyCode::AccessRefused, text, MethodId::NONE);
            let Error::Refused { code, text, method } = &error else { return };
            self.close_connection(now, *code, text, *method);
        }
    }

    /// Server: whether a login waits for its outcome.
    pub fn is_authenticating(&self) -> bool {
        self.state == State::Authenticating
    }

    /// Server, after [`Connection::refuse_login`]: a client that was not told is left in silence for so long, where that
    /// is longer.
    pub fn prolong_silence(&mut self, now: Now, ms: u64) {
        if self.state == State::Silent {
            self.set_deadline(now, ms.max(SILENCE_MS));
        }
    }

    /// Server, after [`Event::Open`].
    pub fn open_ok(&mut self) {
        self.expect(State::Opening, State::Running);
        self.method_frame(0, &ConnectionOpenOk::default());
        self.run();
    }

    /// Client, after [`Event::Start`].
    pub fn start_ok(
        &mut self,
        client_properties: Table<'_>,
        mechanism: &[u8],
        response: &[u8],
        locale: &[u8],
    ) {
        self.expect(State::Answering, State::AwaitTune);
        self.method_frame(0, &ConnectionStartOk { client_properties, mechanism, response, locale });
    }

    /// Client, after [`Event::Secure`].
    pub fn secure_ok(&mut self, response: &[u8]) {
        self.expect(State::Answering, State::AwaitTune);
        self.method_frame(0, &ConnectionSecureOk { response });
    }

    /// Client, after [`Event::Tune`]: settles for the lesser of the server's `proposed` and its own limits, and asks
    /// for `virtual_host`. Answers the limits settled.
    pub fn tune_ok_and_open(&mut self, now: Now, proposed: Tune, virtual_host: &[u8]) -> Tune {
        let lesser = |theirs: u32, ours: u32| match (theirs, ours) {
            (0, other) | (other, 0) => other,
            (theirs, ours) => theirs.min(ours),
        };
        let tune = Tune {
            channel_max: lesser(proposed.channel_max.into(), self.limits.channel_max.into()) as u16,
            frame_max: lesser(proposed.frame_max, self.limits.frame_max).max(frame::FRAME_MIN_SIZE),
            heartbeat_s: lesser(proposed.heartbeat_s.into(), self.limits.heartbeat_s.into()) as u16,
        };
        self.tune_ok(now, tune);
        self.open(virtual_host);
        tune
    }

    /// Client, after [`Event::Tune`]: settles for `tune`, which the server may find too much.
    ///
    /// # Panics
    /// When `tune.frame_max` is below [`frame::FRAME_MIN_SIZE`].
    pub fn tune_ok(&mut self, now: Now, tune: Tune) {
        assert!(tune.frame_max >= frame::FRAME_MIN_SIZE, "every peer takes frames of 8192 bytes");
        self.expect(State::Answering, State::Answering);
        let Tune { channel_max, frame_max, heartbeat_s: heartbeat } = tune;
        self.method_frame(0, &ConnectionTuneOk { channel_max, frame_max, heartbeat });
        self.settle(now, tune);
    }

    /// Takes frames whose payload has up to so many bytes, beyond the limits settled; those it sends are as settled.
    /// For a peer that is known: the head of a message is one frame, of any size.
    pub fn take_frames(&mut self, payload_max: u32) {
        self.size_max = self.size_max.max(payload_max);
    }

    /// Client, after `tune_ok`.
    pub fn open(&mut self, virtual_host: &[u8]) {
        self.expect(State::Answering, State::AwaitOpenOk);
        self.method_frame(0, &ConnectionOpen { virtual_host, ..Default::default() });
    }

    /// Closes the connection; `text` begins with the code's name and is at most [`crate::error::TEXT_MAX`] bytes.
    /// [`Event::Closed`] follows when the peer has answered. Nothing happens where it closes already.
    pub fn close_connection(&mut self, now: Now, code: ReplyCode, text: &str, method: MethodId) {
        if matches!(self.state, State::Closing | State::ClosedByPeer | State::Ending | State::Closed) {
            return;
        }
        self.send_close(code as u16, text.as_bytes(), method);
        self.state = State::Closing;
        self.heartbeat.stop();
        self.channels.clear();
        self.set_deadline(now, CLOSING_MS);
    }

    /// Answers [`Event::Close`]; [`Event::Closed`] follows.
    pub fn close_ok(&mut self) {
        self.expect(State::ClosedByPeer, State::Ending);
        self.send_close_ok();
        self.end();
    }

    fn expect(&mut self, state: State, next: State) {
        assert!(self.state == state, "out of place in state {:?}", self.state);
        self.state = next;
    }
}

/// Channels and methods.
impl Connection {
    /// Server, after [`Event::ChannelOpen`].
    pub fn channel_open_ok(&mut self, channel: u16) {
        self.method_frame(channel, &ChannelOpenOk::default());
    }

    /// Client: opens `channel`; [`Event::ChannelOpenOk`] follows. Methods may be sent at once.
    ///
    /// # Panics
    /// When the number is 0 or in use.
    pub fn channel_open(&mut self, channel: u16) {
        assert!(channel != 0 && self.channels.get(channel).is_none(), "channel {channel} is in use");
        self.channels.insert(channel, ChannelState::Opening);
        self.method_frame(channel, &ChannelOpen::default());
    }

    /// Closes `channel`; `text` begins with the code's name and is at most [`crate::error::TEXT_MAX`] bytes. Frames
    /// that come on it are discarded until [`Event::ChannelClosed`]. Nothing happens where it is not open.
    pub fn close_channel(&mut self, channel: u16, code: ReplyCode, text: &str, method: MethodId) {
        let is_open =
            matches!(self.channels.state(channel), Some(ChannelState::Open | ChannelState::Opening));
        if is_open {
            self.send_channel_close(channel, &Error::Refused { code, text: text.to_owned(), method });
        }
    }

    /// Answers [`Event::ChannelClose`]; the number is free.
    ///
    /// # Panics
    /// When the peer has not closed it.
    pub fn channel_close_ok(&mut self, channel: u16) {
        let state = self.channels.state(channel);
        assert!(state == Some(ChannelState::ClosedByPeer), "channel {channel} was not closed by the peer");
        self.channels.remove(channel);
        self.send_channel_close_ok(channel);
    }

    /// Sends a method that stands for itself: all requests and answers without a content that have no verb of their
    /// own.
    pub fn send<'a>(&mut self, channel: u16, method: &impl Plain<'a>) {
        self.method_frame(channel, method);
    }

    /// Client: accepts deliveries; server: confirms messages.
    #[inline]
    pub fn ack(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        self.heartbeat.sent = true;
        encode::ack(self.output.own(), channel, delivery_tag, multiple);
    }

    /// Client: gives deliveries back (`requeue`) or away; server: messages that were not taken care of.
    pub fn nack(&mut self, channel: u16, delivery_tag: u64, multiple: bool, requeue: bool) {
        self.method_frame(channel, &BasicNack { delivery_tag, multiple, requeue });
    }

    /// Client: gives a delivery back (`requeue`) or away.
    pub fn reject(&mut self, channel: u16, delivery_tag: u64, requeue: bool) {
        self.method_frame(channel, &BasicReject { delivery_tag, requeue });
    }

    /// Has something said in front of the close that came of `error`, which [`Event::Failed`] or [`Event::ChannelFailed`] told of just
    /// now: what was known before it and not said yet.
    pub fn before_close(&mut self, error: &Error, say: impl FnOnce(&mut Connection)) {
        let close_len = match error {
            Error::Refused { text, .. } => CLOSE_LEN + text.len(),
            // Of the others nothing is sent.
            _ => 0,
        };
        let own = self.output.own();
        let close = own.split_off(own.len().saturating_sub(close_len));
        say(self);
        self.output.extend(&close);
    }

    pub(super) fn send_close(&mut self, reply_code: u16, reply_text: &[u8], method: MethodId) {
        let (class_id, method_id) = (method.class, method.method);
        self.method_frame(0, &ConnectionClose { reply_code, reply_text, class_id, method_id });
    }

    pub(super) fn send_close_ok(&mut self) {
        self.method_frame(0, &ConnectionCloseOk {});
    }

    pub(super) fn send_channel_close(&mut self, channel: u16, error: &Error) {
        let Some(found) = self.channels.get(channel) else { return };
        found.state = ChannelState::Closing;
        self.channels.give_up(channel);
        let Error::Refused { code, text, method } = error else { return };
        let close = ChannelClose {
            reply_code: *code as u16,
            reply_text: text.as_bytes(),
            class_id: method.class,
            method_id: method.method,
        };
        self.method_frame(channel, &close);
    }

    pub(super) fn send_channel_close_ok(&mut self, channel: u16) {
        self.method_frame(channel, &ChannelCloseOk {});
    }

    fn method_frame<'a>(&mut self, channel: u16, method: &impl Arguments<'a>) {
        self.heartbeat.sent = true;
        encode::method_frame(self.output.own(), channel, method);
    }
}

/// Messages.
impl Connection {
    /// Server: delivers a message to a consumer.
    #[inline]
    pub fn deliver(
        &mut self,
        consumer: &DeliverPrefix,
        delivery_tag: u64,
        redelivered: bool,
        message: &Outgoing<'_>,
    ) {
        self.heartbeat.sent = true;
        encode::deliver(&mut self.output, self.frame_max, consumer, delivery_tag, redelivered, message);
    }

    /// [`Connection::deliver`] for rare cases: it stays where it is.
    #[cold]
    #[inline(never)]
    pub fn deliver_rare(
        &mut self,
        consumer: &DeliverPrefix,
        delivery_tag: u64,
        redelivered: bool,
        message: &Outgoing<'_>,
    ) {
        self.deliver(consumer, delivery_tag, redelivered, message);
    }

    /// Server: answers a `get`; `message_count` messages are left.
    pub fn get_ok(
        &mut self,
        channel: u16,
        delivery_tag: u64,
        redelivered: bool,
        message_count: u32,
        message: &Outgoing<'_>,
    ) {
        let get_ok = BasicGetOk {
            delivery_tag,
            redelivered,
            exchange: message.exchange,
            routing_key: short(message.routing_key),
            message_count,
        };
        self.method_frame(channel, &get_ok);
        encode::content(&mut self.output, self.frame_max, channel, message.head, &message.body);
    }

    /// Server: returns a message that could not be routed.
    pub fn return_message(&mut self, channel: u16, code: ReplyCode, message: &Outgoing<'_>) {
        let returned = BasicReturn {
            reply_code: code as u16,
            reply_text: code.name().as_bytes(),
            exchange: message.exchange,
            routing_key: short(message.routing_key),
        };
        self.method_frame(channel, &returned);
        encode::content(&mut self.output, self.frame_max, channel, message.head, &message.body);
    }

    /// Client: publishes a message with the property flags and list `head`.
    #[inline]
    pub fn publish(&mut self, to: &PublishPrefix, head: &[u8], body: &Body<'_>) {
        self.heartbeat.sent = true;
        encode::publish(&mut self.output, self.frame_max, to, head, body);
    }
}

fn short(text: &[u8]) -> &[u8] {
    &text[..text.len().min(255)]
}
