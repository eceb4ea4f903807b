//! A blocking connection over the stream protocol with one thing to do at a time: asking, writing in step with confirms, reading.
//!
//! For loads that the ends of a [`crate::load`] cannot make: chunks of exactly so many messages, many streams on one
//! connection, readers that come and go.

use crate::load::connect;
use crate::uri::Uri;
use base::Now;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use stream_protocol::{
    Command, Connection, Deliver, Event, Input, Limits, List, Pair, PublishFrames, Request, Response,
    ResponseCode,
};

/// Bytes read at a time.
const READ: usize = 512 << 10;

/// How long anything that was asked may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is logged in.
#[derive(Debug)]
pub struct Native {
    connection: Connection,
    socket: TcpStream,
    start: Instant,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that came and were not taken.
    filled: usize,
}

/// An event from the broker.
#[derive(Debug)]
pub enum NativeEvent<'a> {
    /// A message of this publisher is confirmed.
    Confirmed(u8),
    /// A chunk came.
    Chunk(&'a Deliver<'a>),
    /// An answer came; the offset in it, where it has one.
    Answered(ResponseCode, Option<u64>),
}

/// How a reader of one subscription gives credit: so many chunks, each time so many have come. None by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Giving {
    /// Chunks given at a time; 0 for none.
    chunks: u16,
    came: u16,
}

impl Giving {
    /// `chunks` at a time.
    pub fn new(chunks: u16) -> Giving {
        Giving { chunks, came: 0 }
    }

    #[inline]
    fn came(&mut self, connection: &mut Connection, subscription_id: u8) {
        self.came += u16::from(self.chunks > 0);
        if self.chunks > 0 && self.came >= self.chunks {
            let credit = std::mem::take(&mut self.came).cast_signed();
            connection.send(&Command::Credit { subscription_id, credit });
        }
    }
}

impl Native {
    /// Connects to the listener of the stream protocol that `uri` names, and logs in.
    ///
    /// # Errors
    /// In words for people.
    pub fn open(uri: &Uri) -> Result<Native, String> {
        let socket = connect(uri)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        // A chunk is at most 1 MiB of entries and one more.
        let limits = Limits { handshake_ms_max: 60_000, chunk_frame_max: 4 << 20, ..Limits::default() };
        let start = Instant::now();
        let mut native = Native {
            connection: Connection::client(limits, Now::default()),
            socket,
            start,
            buffer: vec![0; READ],
            filled: 0,
        };
        let properties = [Pair::new("product", "leveret bench")];
        native.send_request(&Request::PeerProperties { properties: List::new(&properties) });
        while !native.connection.is_open() {
            native.log_in(uri)?;
        }
        Ok(native)
    }

    fn log_in(&mut self, uri: &Uri) -> Result<(), String> {
        let proof = format!("\0{}\0{}", uri.user, uri.password);
        let now = self.now();
        self.turn_with(|connection, event| {
            match event {
                Event::Response { response, .. } if !response.code().is_ok() => {
                    return Err(format!("the broker said to {:?}: {}", response.key(), response.code()));
                }
                Event::Response { response: Response::PeerProperties { .. }, .. } => {
                    let _ = connection.request(now, &Request::SaslHandshake);
                }
                Event::Response { response: Response::SaslHandshake { .. }, .. } => {
                    let (mechanism, response) = (&b"PLAIN"[..], proof.as_bytes());
                    let _ = connection.request(now, &Request::SaslAuthenticate { mechanism, response });
                }
                Event::Tune(tune) => {
                    let _ = connection.tune_and_open(now, *tune, uri.vhost.as_bytes());
                }
                _ => {}
            }
            Ok(())
        })
    }

    fn now(&self) -> Now {
        Now { mono_ns: self.start.elapsed().as_nanos() as u64, wall_ms: 0 }
    }

    fn send_request(&mut self, request: &Request<'_>) {
        let now = self.now();
        // One is asked at a time, and there is room for more.
        let _ = self.connection.request(now, request);
    }

    /// Asks, and waits for the answer: the offset in it, where it has one. Nothing else is under way.
    ///
    /// # Errors
    /// The broker refused, or the connection is gone; in words for people.
    pub fn ask(&mut self, request: &Request<'_>) -> Result<Option<u64>, String> {
        self.send_request(request);
        let mut answer = None;
        while answer.is_none() {
            self.turn(|event| {
                if let NativeEvent::Answered(code, offset) = event {
                    answer = Some((code, offset));
                }
            })?;
        }
        match answer {
            Some((code, _)) if !code.is_ok() => {
                Err(format!("the broker said to {:?}: {code}", request.key()))
            }
            answer => Ok(answer.and_then(|(_, offset)| offset)),
        }
    }

    /// Where messages of a publisher are written to; they go out with the next turn.
    pub fn publish(&mut self, publisher: u8) -> PublishFrames<'_> {
        self.connection.publish(publisher, false)
    }

    /// Asks without waiting for the answer.
    pub fn begin(&mut self, request: &Request<'_>) {
        self.send_request(request);
    }

    /// Sends the output, waits for something to come and tells what it is.
    ///
    /// # Errors
    /// The connection is gone, or the broker refused a message; in words for people.
    #[inline]
    pub fn turn(&mut self, each: impl FnMut(NativeEvent<'_>)) -> Result<(), String> {
        self.turn_reading(&mut Giving::default(), each)
    }

    /// As [`Native::turn`], for a reader that gives credit as the chunks come, also amid many that came at once: were
    /// it given behind them, the broker would wait for the reader and the reader for the broker, in turn.
    ///
    /// # Errors
    /// As [`Native::turn`].
    #[inline]
    pub fn turn_reading(
        &mut self,
        giving: &mut Giving,
        mut each: impl FnMut(NativeEvent<'_>),
    ) -> Result<(), String> {
        self.turn_with(|connection, event| {
            match event {
                Event::Deliver(deliver) => {
                    each(NativeEvent::Chunk(deliver));
                    giving.came(connection, deliver.subscription_id);
                }
                Event::Command(Command::PublishConfirm { publisher_id, publishing_ids }) => {
                    publishing_ids.iter().for_each(|_| each(NativeEvent::Confirmed(*publisher_id)));
                }
                Event::Command(Command::PublishError { errors, .. }) => {
                    let code = errors.iter().next().map(|error| error.code.to_string());
                    return Err(format!("the broker refused a message: {}", code.unwrap_or_default()));
                }
                Event::Command(Command::CreditRefused { code, .. }) => {
                    return Err(format!("the broker refused credit: {code}"));
                }
                Event::Response { response, .. } => {
                    each(NativeEvent::Answered(response.code(), offset(response)))
                }
                _ => {}
            }
            Ok(())
        })
    }

    fn turn_with(
        &mut self,
        mut each: impl FnMut(&mut Connection, &Event<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let broken = |error: std::io::Error| format!("the connection broke: {error}");
        send(&mut self.connection, &mut self.socket).map_err(broken)?;
        if self.connection.wanted() > self.buffer.len() {
            self.buffer.resize(self.connection.wanted() + READ, 0);
        }
        let count = self.socket.read(&mut self.buffer[self.filled..]).map_err(broken)?;
        if count == 0 {
            return Err("the broker closed the connection".to_owned());
        }
        let (now, end) = (self.now(), self.filled + count);
        let mut input = Input::new(&self.buffer[..end]);
        while let Some(event) = self.connection.poll_event(now, &mut input) {
            match &event {
                Event::Failed(error) => return Err(error.to_string()),
                Event::Closed => return Err("the connection is closed".to_owned()),
                Event::Request { request: Request::Close { code, reason }, .. } => {
                    let reason = String::from_utf8_lossy(reason);
                    return Err(format!("the broker closed the connection: {code} {reason}"));
                }
                event => each(&mut self.connection, event)?,
            }
            send(&mut self.connection, &mut self.socket).map_err(broken)?;
        }
        let taken = input.consumed();
        self.buffer.copy_within(taken..end, 0);
        self.filled = end - taken;
        Ok(())
    }

    /// The broker and this connection hear no more of each other.
    pub fn close(mut self) {
        let now = self.now();
        self.connection.close(now, ResponseCode::OK, "done");
        // The work is done: an error now changes nothing.
        while self.turn_with(|_, _| Ok(())).is_ok() {}
    }
}

/// Sends all there is to send.
#[inline]
fn send(connection: &mut Connection, socket: &mut TcpStream) -> std::io::Result<()> {
    let output = connection.output_mut();
    while !output.is_empty() {
        let mut slice: &[u8] = &[];
        output.slices(1, |first| slice = first);
        let sent = socket.write(slice)?;
        output.sent(sent);
    }
    Ok(())
}

fn offset(response: &Response<'_>) -> Option<u64> {
    match response {
        Response::QueryOffset { offset, .. } | Response::ResolveOffsetSpec { offset, .. } => Some(*offset),
        _ => None,
    }
}
