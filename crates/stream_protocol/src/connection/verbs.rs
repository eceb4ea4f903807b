//! Verbs of this end. Each appends its frames to the output; those that are out of place are the holder's mistake and
//! panic.

use super::*;
use crate::code::ResponseCode;
use crate::command::Command;
use crate::frame::{IDS_HEAD, command_head, put_command, put_ids, put_request, put_response};
use crate::limits::SILENCE_MS;
use crate::list::{List, Pair};
use crate::publish::PublishFrames;
use base::Memory;
use message::chunk::HEADER_LEN;
use std::ops::Range;

/// The opening.
impl Connection {
    /// Server, after [`Request::SaslAuthenticate`]: asks for more.
    ///
    /// # Panics
    /// When no login is under way.
    pub fn challenge(&mut self, correlation_id: u32, challenge: &[u8]) {
        self.expect(State::Authenticating, State::AwaitAuthenticate);
        let code = ResponseCode::SASL_CHALLENGE;
        self.put_response(correlation_id, &Response::SaslAuthenticate { code, challenge });
    }

    /// Server, after [`Request::SaslAuthenticate`]: the client's login is right; proposes the bounds.
    ///
    /// # Panics
    /// When no login is under way.
    pub fn accept_login(&mut self, correlation_id: u32) {
        self.expect(State::Authenticating, State::AwaitTune);
        let code = ResponseCode::OK;
        self.put_response(correlation_id, &Response::SaslAuthenticate { code, challenge: &[] });
        let Limits { frame_max, heartbeat_s, .. } = self.limits;
        frame::put_tune(self.output.own(), Tune { frame_max, heartbeat_s });
    }

    /// Server, after [`Request::SaslAuthenticate`]: sends the client away. It hears so at once, but for
    /// [`ResponseCode::AUTHENTICATION_FAILURE`], [`ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE`] and the codes for
    /// changes that are not allowed, which come after a silence. [`Event::Closed`] follows.
    ///
    /// # Panics
    /// When no login is under way, nor the connection open.
    pub fn refuse_login(&mut self, now: Now, correlation_id: u32, code: ResponseCode) {
        assert!(matches!(self.state, State::Authenticating | State::Running), "no login in {:?}", self.state);
        let response = Response::SaslAuthenticate { code, challenge: &[] };
        let is_late = matches!(
            code,
            ResponseCode::AUTHENTICATION_FAILURE
                | ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE
                | ResponseCode::SASL_CANNOT_CHANGE_MECHANISM
                | ResponseCode::SASL_CANNOT_CHANGE_USERNAME
        );
        if is_late {
            self.fall_silent(now, correlation_id, &response);
        } else {
            self.put_response(correlation_id, &response);
            self.end();
        }
    }

    /// Server, after [`Request::Open`]: the connection is open. Clients go to `advertised_host` and `advertised_port`.
    ///
    /// # Panics
    /// When the client does not open.
    pub fn open_ok(&mut self, correlation_id: u32, properties: &[Pair<'_>]) {
        self.expect(State::Opening, State::Running);
        let response = Response::Open { code: ResponseCode::OK, properties: List::new(properties) };
        self.put_response(correlation_id, &response);
        self.run();
    }

    /// Server, after [`Request::Open`]: the client may not use this virtual host, and hears so after a silence.
    /// [`Event::Closed`] follows.
    ///
    /// # Panics
    /// When the client does not open.
    pub fn refuse_open(&mut self, now: Now, correlation_id: u32) {
        self.expect(State::Opening, State::Silent);
        let code = ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE;
        self.fall_silent(now, correlation_id, &Response::Done { key: Key::Open, code });
    }

    /// Client, after [`Event::Tune`]: settles for the lesser of the server's `proposed` bounds and its own, and asks for
    /// `virtual_host`. Answers the settled bounds.
    ///
    /// # Panics
    /// When nothing was proposed.
    pub fn tune_and_open(&mut self, now: Now, proposed: Tune, virtual_host: &[u8]) -> Tune {
        self.expect(State::Tuning, State::AwaitOpened);
        let heartbeat_s = match (proposed.heartbeat_s, self.limits.heartbeat_s) {
            (0, other) | (other, 0) => other,
            (theirs, ours) => theirs.min(ours),
        };
        let frame_max = self.lesser(proposed.frame_max, self.limits.frame_max);
        let tune = Tune { frame_max, heartbeat_s };
        frame::put_tune(self.output.own(), tune);
        self.settle(now, tune);
        let asked = self.ask(now, &Request::Open { virtual_host });
        assert!(asked.is_some(), "the opening asks for one thing at a time");
        tune
    }

    /// Closes the connection. [`Event::Closed`] follows when the peer has answered. Nothing happens where it closes
    /// already.
    ///
    /// # Panics
    /// When `reason` has more than 2^16 - 2 bytes.
    pub fn close(&mut self, now: Now, code: ResponseCode, reason: &str) {
        use State::{Closed, ClosedByPeer, Closing, Ending, Silent};
        if matches!(self.state, Closing | ClosedByPeer | Silent | Ending | Closed) {
            return;
        }
        self.heartbeat.stop();
        self.outstanding.clear();
        self.state = Closing;
        self.deadline_ns = now.after_ms(self.limits.closing_ms_max.into());
        // RabbitMQ gives it the id 1, no matter which ids its other requests had.
        put_request(self.output.own(), 1, &Request::Close { code, reason: reason.as_bytes() });
    }

    /// Answers [`Request::Close`]; [`Event::Closed`] follows.
    ///
    /// # Panics
    /// When the peer does not close.
    pub fn close_ok(&mut self, correlation_id: u32) {
        self.expect(State::ClosedByPeer, State::Ending);
        self.put_response(correlation_id, &Response::Done { key: Key::Close, code: ResponseCode::OK });
        self.end();
    }

    /// The answer goes out when a while has gone by, and nothing is read any more.
    fn fall_silent(&mut self, now: Now, correlation_id: u32, response: &Response<'_>) {
        let mut words = Vec::new();
        put_response(&mut words, correlation_id, response);
        self.last_words = Some(words.into());
        self.state = State::Silent;
        self.heartbeat.stop();
        self.outstanding.clear();
        self.deadline_ns = now.after_ms(SILENCE_MS);
    }

    /// Server: whether a login waits for its outcome, or a renewal of one may.
    pub fn is_authenticating(&self) -> bool {
        matches!(self.state, State::Authenticating | State::Running)
    }

    /// Server, after [`Connection::refuse_login`] with a code that comes late: it comes after so many milliseconds, where
    /// that is later.
    pub fn prolong_silence(&mut self, now: Now, ms: u64) {
        if self.state == State::Silent {
            self.deadline_ns = now.after_ms(ms.max(SILENCE_MS));
        }
    }

    fn expect(&mut self, state: State, next: State) {
        assert!(self.state == state, "out of place in state {:?}", self.state);
        self.state = next;
    }
}

/// Requests, answers and other commands.
impl Connection {
    /// Asks the peer. Answers the correlation id that the response will carry, or `None` when
    /// [`Limits::requests_max`] wait already: ask again when one was answered.
    ///
    /// # Panics
    /// When the request is the other peer's, or out of place (`open` and `close` have verbs of their own); when a string
    /// has more than 2^16 - 2 bytes.
    pub fn request(&mut self, now: Now, request: &Request<'_>) -> Option<u32> {
        use Request::{PeerProperties, SaslAuthenticate, SaslHandshake};
        let is_in_place = match (self.role, self.state, request) {
            (_, _, Request::Open { .. } | Request::Close { .. }) => false,
            (
                Role::Client,
                State::Asking,
                PeerProperties { .. } | SaslHandshake | SaslAuthenticate { .. },
            ) => true,
            (Role::Client, State::Running, _) => is_of_clients(request),
            (Role::Server, State::Running, _) => matches!(request, Request::ConsumerUpdate { .. }),
            _ => false,
        };
        assert!(is_in_place, "{:?} is out of place in state {:?}", request.key(), self.state);
        self.ask(now, request)
    }

    /// The answer to this request matters to nobody any more: it does not count, nor is its answer waited for. One that
    /// comes all the same is told as [`Event::Unasked`].
    pub fn forget(&mut self, correlation_id: u32) {
        self.outstanding.forget(correlation_id);
    }

    /// Answers a request of the peer.
    ///
    /// # Panics
    /// When a string has more than 2^16 - 2 bytes; when the answer has a verb of its own.
    pub fn respond(&mut self, correlation_id: u32, response: &Response<'_>) {
        let has_verb = match response.key() {
            Key::Open | Key::Close => true,
            Key::SaslAuthenticate => self.state != State::Running,
            _ => false,
        };
        assert!(!has_verb, "{:?} has a verb of its own", response.key());
        self.put_response(correlation_id, response);
    }

    /// Sends a command without an answer: a client gives credit and stores offsets, a server confirms and tells of
    /// streams.
    ///
    /// # Panics
    /// When a string has more than 2^16 - 2 bytes.
    pub fn send(&mut self, command: &Command<'_>) {
        self.heartbeat.sent = true;
        put_command(self.output.own(), command);
    }

    fn ask(&mut self, now: Now, request: &Request<'_>) -> Option<u32> {
        // While this end does not read time stands still.
        let mono_ns = self.deaf_since_ns.unwrap_or(now.mono_ns);
        let deadline_ns = Now { mono_ns, ..now }.after_ms(self.limits.request_ms_max.into());
        let correlation_id = self.outstanding.push(request.key(), deadline_ns, self.limits.requests_max)?;
        self.heartbeat.sent = true;
        put_request(self.output.own(), correlation_id, request);
        Some(correlation_id)
    }

    fn put_response(&mut self, correlation_id: u32, response: &Response<'_>) {
        self.heartbeat.sent = true;
        put_response(self.output.own(), correlation_id, response);
    }
}

/// Messages.
impl Connection {
    /// Client: writes messages of a publisher into frames as large as agreed on; those of version 2 have filter values.
    #[inline]
    pub fn publish(&mut self, publisher_id: u8, has_filter_values: bool) -> PublishFrames<'_> {
        self.heartbeat.sent = true;
        PublishFrames::new(self.output.own(), publisher_id, has_filter_values, self.frame_max)
    }

    /// Server: messages were taken. Nothing is said if there are none.
    pub fn confirm(&mut self, publisher_id: u8, mut publishing_ids: impl Iterator<Item = u64>) {
        self.heartbeat.sent = true;
        let count_max = (self.frame_max - IDS_HEAD as u32) / 8;
        while put_ids(self.output.own(), publisher_id, None, &mut publishing_ids, count_max) {}
    }

    /// Server: messages were not taken. Nothing is said if there are none.
    pub fn refuse_messages(
        &mut self,
        publisher_id: u8,
        code: ResponseCode,
        mut publishing_ids: impl Iterator<Item = u64>,
    ) {
        self.heartbeat.sent = true;
        let count_max = (self.frame_max - IDS_HEAD as u32) / 10;
        while put_ids(self.output.own(), publisher_id, Some(code), &mut publishing_ids, count_max) {}
    }

    /// Server: delivers the chunk in `memory` whose `header` was read there and whose data, with the trailer or without,
    /// lies at `data`. With `committed_chunk_id` in version 2. A long chunk is not copied.
    pub fn deliver(
        &mut self,
        subscription_id: u8,
        committed_chunk_id: Option<u64>,
        header: &[u8; HEADER_LEN],
        memory: &Memory,
        data: Range<usize>,
    ) {
        self.deliver_head(subscription_id, committed_chunk_id, header, data.len() as u32);
        self.output.extend_from(memory, data);
    }

    /// Server: the part of a frame in front of a chunk's `data_len` bytes of data, which the holder sends behind it:
    /// from a file, say. Nothing else may go out in between.
    ///
    /// # Panics
    /// When the frame would have more than 2^32 - 1 bytes.
    pub fn deliver_head(
        &mut self,
        subscription_id: u8,
        committed_chunk_id: Option<u64>,
        header: &[u8; HEADER_LEN],
        data_len: u32,
    ) {
        self.heartbeat.sent = true;
        let (version, fixed_len) = if committed_chunk_id.is_some() { (2, 13) } else { (1, 5) };
        let size = (fixed_len + HEADER_LEN as u32).checked_add(data_len).expect("a chunk goes into a frame");
        let own = self.output.own();
        own.extend_from_slice(&command_head(size, Key::Deliver as u16, version));
        own.push(subscription_id);
        if let Some(committed_chunk_id) = committed_chunk_id {
            own.extend(committed_chunk_id.to_be_bytes());
        }
        own.extend_from_slice(header);
    }
}
