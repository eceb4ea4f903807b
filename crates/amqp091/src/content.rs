//! Contents: a method, a header and body frames that make one message (AMQP 0-9-1 §4.2.6).
//!
//! Where all its frames lie behind each other in the input, [`join`] finds the parts without copying. Else an
//! [`Assembly`] of the channel gathers them and exists only until the message is complete.

use crate::frame::{self, Head, Next};
use crate::method::MethodId;
use base::cursor::Reader;

/// The class of all methods with contents.
pub(crate) const BASIC: u16 = 60;

/// Bytes of a content header in front of the property flags: class, weight, body size (§4.2.6.1).
pub(crate) const HEADER_FIXED: usize = 12;

/// A content header's parts.
pub(crate) struct Header<'i> {
    pub class: u16,
    pub weight: u16,
    pub body_size: u64,
    /// Property flags and list.
    pub properties: &'i [u8],
}

impl<'i> Header<'i> {
    /// `None` where it is too short to be one.
    #[inline]
    pub fn read(payload: &'i [u8]) -> Option<Header<'i>> {
        let mut reader = Reader::new(payload);
        let (class, weight) = (reader.u16().ok()?, reader.u16().ok()?);
        let body_size = reader.u64().ok()?;
        (reader.len() >= 2).then(|| Header { class, weight, body_size, properties: reader.rest() })
    }
}

/// The content behind a method frame.
pub(crate) enum Join<'i> {
    /// Header and body, whole; the bytes behind them.
    Whole { properties: &'i [u8], body: &'i [u8], rest: &'i [u8] },
    /// They begin well; so many bytes are wanted to go on.
    Wanted(usize),
    /// In several frames, or with other frames between, or not well.
    Apart,
}

/// Finds the header and the one body frame of `channel` at the start of `bytes`.
pub(crate) fn join(bytes: &[u8], channel: u16, size_max: u32) -> Join<'_> {
    let (header, behind) = match frame::split(bytes, size_max) {
        Next::Frame { head: Head { kind: frame::HEADER, channel: found, .. }, payload, rest }
            if found == channel =>
        {
            (Header::read(payload), rest)
        }
        Next::Incomplete { wanted } => return Join::Wanted(wanted),
        _ => return Join::Apart,
    };
    let Some(header) = header.filter(|header| header.class == BASIC && header.weight == 0) else {
        return Join::Apart;
    };
    if header.body_size == 0 {
        return Join::Whole { properties: header.properties, body: &[], rest: behind };
    }
    if header.body_size > u64::from(size_max) {
        return Join::Apart;
    }
    let size = header.body_size as u32;
    match frame::split(behind, size_max) {
        Next::Frame { head, payload, rest }
            if (head.kind, head.channel, head.size) == (frame::BODY, channel, size) =>
        {
            Join::Whole { properties: header.properties, body: payload, rest }
        }
        Next::Incomplete { .. } => match Head::read(behind) {
            Some(head) if head != (Head { kind: frame::BODY, channel, size }) => Join::Apart,
            _ => Join::Wanted(bytes.len() - behind.len() + frame::OVERHEAD + size as usize),
        },
        _ => Join::Apart,
    }
}

/// Properties and body of `channel` at the start of `bytes`, and the bytes behind them, if they are whole and sound.
/// The short form of [`join`] for messages that come by the million.
#[inline(always)]
pub(crate) fn whole(bytes: &[u8], channel: u16, size_max: u32) -> Option<(&[u8], &[u8], &[u8])> {
    let (header_channel, header, behind) = frame::whole(bytes, frame::HEADER, size_max)?;
    let (fixed, properties) = header.split_first_chunk::<HEADER_FIXED>()?;
    let [0, 60, 0, 0, size @ ..] = *fixed else { return None };
    let size = u64::from_be_bytes(size);
    if header_channel != channel {
        return None;
    }
    if size == 0 {
        return Some((properties, &[], behind));
    }
    let (body_channel, body, rest) = frame::whole(behind, frame::BODY, size_max)?;
    (body_channel == channel && body.len() as u64 == size).then_some((properties, body, rest))
}

/// A message being gathered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assembly {
    pub method: MethodId,
    /// Arguments of the method, then properties, then body.
    bytes: Vec<u8>,
    arguments_end: usize,
    properties_end: usize,
    body_size: usize,
    has_header: bool,
}

impl Assembly {
    pub fn new(method: MethodId, arguments: &[u8]) -> Assembly {
        let bytes = arguments.to_vec();
        let arguments_end = bytes.len();
        Assembly {
            method,
            bytes,
            arguments_end,
            properties_end: arguments_end,
            body_size: 0,
            has_header: false,
        }
    }

    /// Body frames are awaited.
    pub fn has_header(&self) -> bool {
        self.has_header
    }

    /// Takes the header's properties; the size was found to be within bounds. Nothing is reserved for the body: on two
    /// thousand channels at once an announcement must cost nothing.
    pub fn header(&mut self, properties: &[u8], body_size: usize) {
        self.bytes.reserve_exact(properties.len());
        self.bytes.extend_from_slice(properties);
        self.properties_end = self.bytes.len();
        self.body_size = body_size;
        self.has_header = true;
    }

    /// Body bytes that are still to come.
    pub fn missing(&self) -> usize {
        self.body_size - (self.bytes.len() - self.properties_end)
    }

    /// Takes a piece of the body, at most the missing bytes.
    pub fn body_piece(&mut self, piece: &[u8]) {
        let free = self.bytes.capacity() - self.bytes.len();
        if free < piece.len() {
            // Doubles, but never beyond the announced end.
            let more = self.bytes.capacity().clamp(piece.len(), self.missing().max(piece.len()));
            self.bytes.reserve_exact(more);
        }
        self.bytes.extend_from_slice(piece);
    }

    /// Nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.has_header && self.missing() == 0
    }

    /// Arguments, properties, body.
    pub fn parts(&self) -> (&[u8], &[u8], &[u8]) {
        let (head, body) = self.bytes.split_at(self.properties_end);
        let (arguments, properties) = head.split_at(self.arguments_end);
        (arguments, properties, body)
    }

    /// Bytes of memory it holds.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + size_of::<Assembly>()
    }
}
