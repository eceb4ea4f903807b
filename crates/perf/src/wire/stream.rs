//! The load over the stream protocol, as its clients batch by default: 100 messages a frame, an initial credit of 10 chunks,
//! one more for each chunk that came.

use super::{Happenings, Purpose, Target, Wire, unexpected};
use crate::stamp::STAMP;
use crate::uri::Uri;
use base::{Now, Output};
use message::chunk::Content;
use stream_protocol::{
    Command, Connection, Deliver, Event, Input, Key, Limits, List, OffsetSpec, Pair, Request, Response,
    ResponseCode,
};

/// Messages in a frame.
const BATCH: u64 = 100;

/// Chunks a subscription may be sent at first.
const CREDIT: u16 = 10;

/// In front of a body: an AMQP 1.0 data section (§3.2.6), as clients write one, of up to 255 bytes, or more.
const SHORT: usize = 5;
const LONG: usize = 8;

/// A client connection over the stream protocol.
#[derive(Debug)]
pub struct Streaming {
    connection: Connection,
    uri: Uri,
    purpose: Purpose,
    /// Answers still awaited before it is ready.
    awaited: usize,
    is_ready: bool,
    is_closed: bool,
    /// A message as it is published, but for its stamp, which is there.
    message: Vec<u8>,
    stamp_at: usize,
    /// Messages that wait for their frame to be full.
    batch: Vec<[u8; STAMP]>,
    /// Messages in frames so far: the next publishing id.
    published: u64,
}

/// Where the stamp is in a message.
pub(crate) fn stamp_at(size: usize) -> usize {
    if size <= 255 { SHORT } else { LONG }
}

/// A message of one data section of so many bytes.
pub(crate) fn message(size: usize) -> Vec<u8> {
    let mut message = vec![0, 0x53, 0x75];
    match u8::try_from(size) {
        Ok(len) => message.extend([0xa0, len]),
        Err(_) => {
            message.push(0xb0);
            message.extend((size as u32).to_be_bytes());
        }
    }
    message.resize(message.len() + size, b'.');
    message
}

/// The bytes of the data section that a message is; those of any other are not ours.
#[inline]
pub(crate) fn body(message: &[u8]) -> &[u8] {
    match message {
        [0, 0x53, 0x75, 0xa0, _, body @ ..] | [0, 0x53, 0x75, 0xb0, _, _, _, _, body @ ..] => body,
        _ => &[],
    }
}

impl Streaming {
    fn ask(&mut self, now: Now, request: &Request<'_>) {
        // A handful is asked in all, and there is room for more.
        let _ = self.connection.request(now, request);
    }

    /// The connection is open: readies it for its purpose.
    fn prepare(&mut self, now: Now) -> Result<(), String> {
        match &self.purpose {
            Purpose::Publish { targets, size, .. } => {
                let [Target::Queue(stream)] = &targets[..] else {
                    return Err("a publisher of the stream protocol has one stream".to_owned());
                };
                self.message = message(*size as usize);
                self.stamp_at = stamp_at(*size as usize);
                self.awaited = 1;
                let declare =
                    Request::DeclarePublisher { publisher_id: 0, reference: b"", stream: stream.as_bytes() };
                let _ = self.connection.request(now, &declare);
            }
            Purpose::Consume { queues, .. } => {
                self.awaited = queues.len();
                for (number, stream) in queues.iter().enumerate() {
                    let subscribe = Request::Subscribe {
                        subscription_id: number as u8,
                        stream: stream.as_bytes(),
                        offset: OffsetSpec::First,
                        credit: CREDIT,
                        properties: List::default(),
                    };
                    let _ = self.connection.request(now, &subscribe);
                }
            }
            Purpose::Idle { .. } => self.is_ready = true,
        }
        Ok(())
    }

    fn answered(&mut self, now: Now, response: &Response<'_>) -> Result<(), String> {
        let (key, code) = (response.key(), response.code());
        if !code.is_ok() {
            return Err(format!("the broker said to {key:?}: {code}"));
        }
        match response {
            Response::PeerProperties { .. } => self.ask(now, &Request::SaslHandshake),
            Response::SaslHandshake { .. } => {
                let proof = format!("\0{}\0{}", self.uri.user, self.uri.password);
                let (mechanism, response) = (&b"PLAIN"[..], proof.as_bytes());
                self.ask(now, &Request::SaslAuthenticate { mechanism, response });
            }
            Response::Open { .. } => self.prepare(now)?,
            Response::Done { key: Key::DeclarePublisher | Key::Subscribe, .. } => {
                self.awaited = self.awaited.saturating_sub(1);
                self.is_ready |= self.awaited == 0;
            }
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn delivered(&mut self, deliver: &Deliver<'_>, happenings: &mut impl Happenings) -> Result<(), String> {
        deliver.chunk.check_crc().map_err(|error| error.to_string())?;
        let subscription_id = deliver.subscription_id;
        for entry in deliver.chunk.entries() {
            let entry = entry.map_err(|error| error.to_string())?;
            let Content::Message(message) = entry.content() else {
                return Err("a batch came that nobody sent".to_owned());
            };
            happenings.delivered(usize::from(subscription_id), false, body(message));
        }
        self.connection.send(&Command::Credit { subscription_id, credit: 1 });
        Ok(())
    }

    /// Writes the frame that gathers.
    fn flush(&mut self) {
        let at = self.stamp_at;
        let mut frames = self.connection.publish(0, false);
        for stamp in self.batch.drain(..) {
            self.message[at..at + STAMP].copy_from_slice(&stamp);
            frames.message(self.published, None, &self.message);
            self.published += 1;
        }
    }
}

impl Wire for Streaming {
    fn new(now: Now, uri: &Uri, purpose: Purpose) -> Result<Streaming, String> {
        let heartbeat_s = if let Purpose::Idle { heartbeat } = purpose { heartbeat } else { 60 };
        let limits = Limits {
            heartbeat_s: heartbeat_s.into(),
            handshake_ms_max: 60_000,
            chunk_frame_max: 2 << 20,
            ..Limits::default()
        };
        let mut streaming = Streaming {
            connection: Connection::client(limits, now),
            uri: uri.clone(),
            purpose,
            awaited: 0,
            is_ready: false,
            is_closed: false,
            message: Vec::new(),
            stamp_at: 0,
            batch: Vec::new(),
            published: 0,
        };
        let properties = [Pair::new("product", "leveret bench")];
        streaming.ask(now, &Request::PeerProperties { properties: List::new(&properties) });
        Ok(streaming)
    }

    #[inline]
    fn input(&mut self, now: Now, bytes: &[u8], happenings: &mut impl Happenings) -> Result<usize, String> {
        let mut input = Input::new(bytes);
        while let Some(event) = self.connection.poll_event(now, &mut input) {
            match event {
                Event::Deliver(deliver) => self.delivered(&deliver, happenings)?,
                Event::Command(Command::PublishConfirm { publishing_ids, .. }) => {
                    let mut ids = publishing_ids.iter();
                    let Some(mut first) = ids.next() else { continue };
                    let mut last = first;
                    for id in ids {
                        if id == last + 1 {
                            last = id;
                            continue;
                        }
                        happenings.confirmed(first, last);
                        (first, last) = (id, id);
                    }
                    happenings.confirmed(first, last);
                }
                Event::Command(Command::PublishError { errors, .. }) => {
                    for error in errors.iter() {
                        happenings.refused(error.publishing_id, error.publishing_id, &error.code.to_string());
                    }
                }
                Event::Response { response, .. } => self.answered(now, &response)?,
                Event::Tune(tune) => {
                    let vhost = self.uri.vhost.clone();
                    self.connection.tune_and_open(now, tune, vhost.as_bytes());
                }
                Event::Request { correlation_id, request: Request::Close { code, reason } } => {
                    self.connection.close_ok(correlation_id);
                    let reason = String::from_utf8_lossy(reason);
                    return Err(format!("the broker closed the connection: {code} {reason}"));
                }
                Event::Failed(error) => return Err(error.to_string()),
                Event::Closed => {
                    self.is_closed = true;
                    break;
                }
                other => return Err(unexpected(&other)),
            }
        }
        Ok(input.consumed())
    }

    fn output(&mut self) -> &mut Output {
        if !self.batch.is_empty() {
            self.flush();
        }
        self.connection.output_mut()
    }

    fn deadline(&self) -> Option<u64> {
        self.connection.poll_deadline()
    }

    fn handle_deadline(&mut self, now: Now) -> Result<(), String> {
        self.connection.handle_deadline(now);
        let mut nothing = Input::new(&[]);
        while let Some(event) = self.connection.poll_event(now, &mut nothing) {
            match event {
                Event::Failed(error) => return Err(error.to_string()),
                Event::Closed => self.is_closed = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn room(&self) -> u64 {
        // Frames are told from each other by looks at the output, which end them.
        BATCH - self.batch.len() as u64
    }

    #[inline]
    fn publish(&mut self, _now: Now, stamp: [u8; STAMP]) {
        self.batch.push(stamp);
        if self.batch.len() as u64 == BATCH {
            self.flush();
        }
    }

    /// Offsets are not stored, and credit was given chunk by chunk.
    fn settle(&mut self, _now: Now) {}

    fn close(&mut self, now: Now) {
        self.connection.close(now, ResponseCode::OK, "done");
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_found_in_its_message() {
        for size in [STAMP, 255, 256, 100_000] {
            let message = message(size);
            assert_eq!(body(&message).len(), size);
            assert_eq!(message.len() - stamp_at(size), size);
        }
        assert_eq!(body(b"something else"), b"");
    }
}
