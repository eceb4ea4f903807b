//! Frames ("Frame Structure"): where they begin and end, and their contents.
//!
//! ```text
//!   0      4     6         8                                size+4
//!   | size | key | version | correlation id | arguments ... |
//! ```
//!
//! The highest bit of the key tells a response. Commands without an answer have no correlation id.

use crate::code::ResponseCode;
use crate::command::{Command, Deliver, Tune};
use crate::error::Malformed;
use crate::key::Key;
use crate::publish::Publish;
use crate::request::Request;
use crate::response::Response;
use base::Reader;

/// Bytes of a frame's size, which it does not count.
pub const SIZE_LEN: usize = 4;
/// Bytes of a frame in front of a correlation id or the arguments.
pub const COMMAND_HEAD: usize = 8;
/// The bit of a key that tells a response.
pub const RESPONSE: u16 = 0x8000;
/// A whole heartbeat.
pub const HEARTBEAT_FRAME: [u8; COMMAND_HEAD] = command_head(4, Key::Heartbeat as u16, 1);

/// The first frame of some bytes, as far as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next<'i> {
    /// The bytes behind a frame's size; they and the size have `len` bytes.
    Frame { body: &'i [u8], len: usize },
    /// Not all of it is there: so many bytes are wanted.
    Incomplete { wanted: usize },
    /// It has more bytes than it may.
    TooLarge { size: u32 },
}

/// Splits the first frame off, which may have `size_max` bytes.
#[inline]
pub(crate) fn split(bytes: &[u8], size_max: u32) -> Next<'_> {
    let Some((size, behind)) = bytes.split_first_chunk() else {
        return Next::Incomplete { wanted: SIZE_LEN };
    };
    let size = u32::from_be_bytes(*size);
    if size > size_max {
        return Next::TooLarge { size };
    }
    let len = SIZE_LEN + size as usize;
    match behind.get(..size as usize) {
        Some(body) => Next::Frame { body, len },
        None => Next::Incomplete { wanted: len },
    }
}

/// A frame, decoded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frame<'a> {
    /// A request.
    Request {
        /// The id its response will carry.
        correlation_id: u32,
        /// The request.
        request: Request<'a>,
    },
    /// A response.
    Response {
        /// The id its request carried.
        correlation_id: u32,
        /// The response.
        response: Response<'a>,
    },
    /// A command that nobody answers.
    Command(Command<'a>),
    /// Messages of a publisher.
    Publish(Publish<'a>),
    /// A chunk for a subscription.
    Deliver(Deliver<'a>),
    /// Proposes or settles bounds.
    Tune(Tune),
    /// A sign of life.
    Heartbeat,
}

/// Key, highest bit included, and version; zeros where there are none.
pub(crate) fn key_and_version(body: &[u8]) -> (u16, u16) {
    match *body {
        [k0, k1, v0, v1, ..] => (u16::from_be_bytes([k0, k1]), u16::from_be_bytes([v0, v1])),
        _ => (0, 0),
    }
}

impl<'a> Frame<'a> {
    /// The frame in `body`, its bytes behind the size.
    ///
    /// # Errors
    /// When it is malformed, or bytes are left over behind it.
    pub fn decode(body: &'a [u8]) -> Result<Frame<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let (key, version) = (reader.u16()?, reader.u16()?);
        let unknown = Malformed::UnknownCommand { key, version };
        let known = Key::from_number(key & !RESPONSE).ok_or(unknown)?;
        let reader = &mut reader;
        let frame = if key & RESPONSE != 0 {
            Frame::response(known, version, reader).unwrap_or(Err(unknown))?
        } else {
            Frame::request(known, version, reader).unwrap_or(Err(unknown))?
        };
        if reader.is_empty() { Ok(frame) } else { Err(Malformed::Long) }
    }

    #[inline]
    fn request(key: Key, version: u16, reader: &mut Reader<'a>) -> Option<Result<Frame<'a>, Malformed>> {
        Some(match (key, version) {
            (Key::Publish, 1 | 2) => Publish::read(reader, version == 2).map(Frame::Publish),
            (Key::Deliver, 1 | 2) => Deliver::read(reader, version == 2).map(Frame::Deliver),
            (Key::PublishConfirm, 1) => Command::read_confirm(reader).map(Frame::Command),
            (Key::PublishError, 1) => Command::read_error(reader).map(Frame::Command),
            (Key::Credit, 1) => Command::read_credit(reader).map(Frame::Command),
            (Key::StoreOffset, 1) => Command::read_store_offset(reader).map(Frame::Command),
            (Key::MetadataUpdate, 1) => Command::read_metadata_update(reader).map(Frame::Command),
            (Key::Tune, 1) => Tune::read(reader).map(Frame::Tune),
            (Key::Heartbeat, 1) => Ok(Frame::Heartbeat),
            (_, 1) => {
                let correlation_id = match reader.u32() {
                    Ok(correlation_id) => correlation_id,
                    Err(short) => return Some(Err(short.into())),
                };
                Request::read(key, reader)?.map(|request| Frame::Request { correlation_id, request })
            }
            _ => return None,
        })
    }

    fn response(key: Key, version: u16, reader: &mut Reader<'a>) -> Option<Result<Frame<'a>, Malformed>> {
        Some(match (key, version) {
            // Clients may answer a tune with one as it came, or with this.
            (Key::Tune, 1) => Tune::read(reader).map(Frame::Tune),
            (Key::Credit, 1) => Command::read_credit_refused(reader).map(Frame::Command),
            (_, 1) => {
                let correlation_id = match reader.u32() {
                    Ok(correlation_id) => correlation_id,
                    Err(short) => return Some(Err(short.into())),
                };
                Response::read(key, reader)?.map(|response| Frame::Response { correlation_id, response })
            }
            _ => return None,
        })
    }
}

pub(crate) const fn command_head(size: u32, key: u16, version: u16) -> [u8; COMMAND_HEAD] {
    let [s0, s1, s2, s3] = size.to_be_bytes();
    let ([k0, k1], [v0, v1]) = (key.to_be_bytes(), version.to_be_bytes());
    [s0, s1, s2, s3, k0, k1, v0, v1]
}

/// Appends a frame of version 1 whose arguments `write` appends.
fn put(out: &mut Vec<u8>, key: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&command_head(0, key, 1));
    write(out);
    let size = u32::try_from(out.len() - start - SIZE_LEN).expect("a frame has at most 2^32 - 1 bytes");
    out[start..start + SIZE_LEN].copy_from_slice(&size.to_be_bytes());
}

/// Appends a request.
///
/// # Panics
/// When a string has more than 2^16 - 2 bytes.
pub fn put_request(out: &mut Vec<u8>, correlation_id: u32, request: &Request<'_>) {
    put(out, request.key() as u16, |out| {
        out.extend(correlation_id.to_be_bytes());
        request.write(out);
    });
}

/// Appends a response.
///
/// # Panics
/// When a string has more than 2^16 - 2 bytes; when metadata is answered with a code, which it does not have.
pub fn put_response(out: &mut Vec<u8>, correlation_id: u32, response: &Response<'_>) {
    let is_bare = matches!(response, Response::Done { key: Key::Metadata, .. });
    assert!(!is_bare, "metadata has no code of its own");
    put(out, response.key() as u16 | RESPONSE, |out| {
        out.extend(correlation_id.to_be_bytes());
        response.write(out);
    });
}

/// Appends a command that nobody answers.
///
/// # Panics
/// When a string has more than 2^16 - 2 bytes.
pub fn put_command(out: &mut Vec<u8>, command: &Command<'_>) {
    let key = match command {
        Command::PublishConfirm { .. } => Key::PublishConfirm as u16,
        Command::PublishError { .. } => Key::PublishError as u16,
        Command::Credit { .. } => Key::Credit as u16,
        Command::CreditRefused { .. } => Key::Credit as u16 | RESPONSE,
        Command::StoreOffset { .. } => Key::StoreOffset as u16,
        Command::MetadataUpdate { .. } => Key::MetadataUpdate as u16,
    };
    put(out, key, |out| command.write(out));
}

/// Appends a tune, as RabbitMQ's own client does in both directions: as if it were no response.
pub fn put_tune(out: &mut Vec<u8>, tune: Tune) {
    put(out, Key::Tune as u16, |out| tune.write(out));
}

/// Bytes of a confirm around its ids, and of a frame of errors around them.
pub(crate) const IDS_HEAD: usize = COMMAND_HEAD - SIZE_LEN + 5;

/// Appends a frame with the next of `ids`, at most `count_max` of them, if there are any: a confirm, or errors with `code`.
pub(crate) fn put_ids(
    out: &mut Vec<u8>,
    publisher_id: u8,
    code: Option<ResponseCode>,
    ids: &mut impl Iterator<Item = u64>,
    count_max: u32,
) -> bool {
    let Some(first) = ids.next() else { return false };
    let start = out.len();
    let key = if code.is_none() { Key::PublishConfirm } else { Key::PublishError };
    out.extend_from_slice(&command_head(0, key as u16, 1));
    out.push(publisher_id);
    out.extend([0; 4]);
    let mut count = 0u32;
    for id in std::iter::once(first).chain(ids.take(count_max.max(1) as usize - 1)) {
        out.extend(id.to_be_bytes());
        if let Some(code) = code {
            out.extend(code.0.to_be_bytes());
        }
        count += 1;
    }
    let size = (out.len() - start - SIZE_LEN) as u32;
    out[start..start + SIZE_LEN].copy_from_slice(&size.to_be_bytes());
    out[start + COMMAND_HEAD + 1..start + COMMAND_HEAD + 5].copy_from_slice(&count.to_be_bytes());
    true
}
