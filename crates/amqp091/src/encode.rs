//! Messages on their way out: method, header and body frames appended to an [`Output`] (AMQP 0-9-1 §4.2.6).
//!
//! A short message is one reservation and a few copies; a long body goes by reference, in frames of the size the peer
//! takes.

use crate::content::{BASIC, HEADER_FIXED};
use crate::frame;
use crate::method::{Arguments, BasicDeliver, BasicPublish};
use base::output::REFERENCE_MIN;
use base::{Memory, Output};
use std::ops::Range;

/// A message's body, where it lies.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// To be copied at any length.
    Bytes(&'a [u8]),
    /// To be copied when short and referred to when long.
    Memory(&'a Memory, Range<usize>),
}

impl Body<'_> {
    /// Bytes of the body.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Body::Bytes(bytes) => bytes.len(),
            Body::Memory(_, range) => range.len(),
        }
    }

    /// Has no byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Body::Bytes(bytes) => bytes,
            Body::Memory(memory, range) => &memory[range.clone()],
        }
    }
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Outgoing<'a> {
    /// The exchange it was published to; at most 255 bytes.
    pub exchange: &'a [u8],
    /// Its routing key; the wire has room for the first 255 bytes.
    pub routing_key: &'a [u8],
    /// Property flags and list; not split over frames, as the protocol has no way to.
    pub head: &'a [u8],
    /// The body.
    pub body: Body<'a>,
}

/// The beginning of all deliveries to one consumer; made once, when it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliverPrefix(Box<[u8]>);

impl DeliverPrefix {
    /// For the consumer `consumer_tag`, of up to 255 bytes, of `channel`.
    pub fn new(channel: u16, consumer_tag: &[u8]) -> DeliverPrefix {
        let [c0, c1] = channel.to_be_bytes();
        let id = <BasicDeliver<'_> as Arguments<'_>>::ID;
        let len = u8::try_from(consumer_tag.len()).expect("a consumer tag has at most 255 bytes");
        let mut bytes = vec![frame::METHOD, c0, c1, 0, 0, 0, 0, 0, id.class as u8, 0, id.method as u8, len];
        bytes.extend_from_slice(consumer_tag);
        DeliverPrefix(bytes.into())
    }

    /// The channel.
    pub fn channel(&self) -> u16 {
        u16::from_be_bytes([self.0[1], self.0[2]])
    }

    /// The consumer's tag.
    pub fn consumer_tag(&self) -> &[u8] {
        &self.0[12..]
    }
}

/// The method frame that all messages of one publisher to one routing key begin with; made once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishPrefix {
    channel: u16,
    frame: Box<[u8]>,
}

impl PublishPrefix {
    /// For messages to `exchange` with `routing_key`, of up to 255 bytes each, over `channel`.
    pub fn new(channel: u16, exchange: &[u8], routing_key: &[u8], mandatory: bool) -> PublishPrefix {
        let mut frame = Vec::new();
        method_frame(
            &mut frame,
            channel,
            &BasicPublish { exchange, routing_key, mandatory, ..Default::default() },
        );
        PublishPrefix { channel, frame: frame.into() }
    }

    /// The channel.
    pub fn channel(&self) -> u16 {
        self.channel
    }
}

/// Appends a method frame.
pub(crate) fn method_frame<'a>(own: &mut Vec<u8>, channel: u16, method: &impl Arguments<'a>) {
    let [c0, c1] = channel.to_be_bytes();
    let at = own.len();
    own.extend_from_slice(&[frame::METHOD, c0, c1, 0, 0, 0, 0]);
    method.encode(own);
    let size = (own.len() - at - frame::HEAD) as u32;
    own[at + 3..at + frame::HEAD].copy_from_slice(&size.to_be_bytes());
    own.push(frame::END);
}

/// Bytes of an ack's frame.
pub(crate) const ACK_LEN: usize = 21;

/// Appends an `ack` (method 80), which is the same bytes in both directions.
#[inline]
pub(crate) fn ack(own: &mut Vec<u8>, channel: u16, delivery_tag: u64, multiple: bool) {
    let [c0, c1] = channel.to_be_bytes();
    let mut bytes: [u8; ACK_LEN] =
        [frame::METHOD, c0, c1, 0, 0, 0, 13, 0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0, frame::END];
    bytes[11..19].copy_from_slice(&delivery_tag.to_be_bytes());
    bytes[19] = multiple.into();
    own.extend_from_slice(&bytes);
}

/// Appends a delivery: `basic.deliver` and the message.
#[inline]
pub(crate) fn deliver(
    output: &mut Output,
    frame_max: u32,
    prefix: &DeliverPrefix,
    delivery_tag: u64,
    redelivered: bool,
    message: &Outgoing<'_>,
) {
    let routing_key = &message.routing_key[..message.routing_key.len().min(255)];
    let method_len = prefix.0.len() + 11 + message.exchange.len() + routing_key.len();
    let len = message.body.len();
    if 0 < len && len < REFERENCE_MIN.min(frame_max as usize - frame::OVERHEAD) {
        let own = output.own();
        let at = own.len();
        own.resize(at + method_len + content_len(message), 0);
        let to = &mut own[at..];
        return deliver_short(to, prefix, method_len, delivery_tag, redelivered, routing_key, message);
    }
    let own = output.own();
    own.reserve(method_len + content_len(message));
    let at = own.len();
    own.extend_from_slice(&prefix.0);
    let size = ((method_len - frame::HEAD) as u32).to_be_bytes();
    own[at + 3..at + frame::HEAD].copy_from_slice(&size);
    let mut fixed = [0; 10];
    fixed[..8].copy_from_slice(&delivery_tag.to_be_bytes());
    fixed[8] = redelivered.into();
    fixed[9] = message.exchange.len() as u8;
    own.extend_from_slice(&fixed);
    own.extend_from_slice(message.exchange);
    own.push(routing_key.len() as u8);
    own.extend_from_slice(routing_key);
    own.push(frame::END);
    content(output, frame_max, prefix.channel(), message.head, &message.body);
}

/// Writes a delivery whose body fits one frame and is to be copied: `to` is as long as its three frames.
#[inline]
fn deliver_short(
    to: &mut [u8],
    prefix: &DeliverPrefix,
    method_len: usize,
    delivery_tag: u64,
    redelivered: bool,
    routing_key: &[u8],
    message: &Outgoing<'_>,
) {
    let (head, body) = (message.head, message.body.bytes());
    let [_, c0, c1, ..] = *prefix.0 else { panic!("a prefix begins with a frame's head") };
    // As one number: bytes that are stored one by one and then copied as eight stall the processor.
    let next_frame = |kind: u8, len: usize| {
        (u64::from_be_bytes([frame::END, kind, c0, c1, 0, 0, 0, 0]) | u64::from(len as u32)).to_be_bytes()
    };
    let rest = put(to, &prefix.0);
    let rest = put(rest, &delivery_tag.to_be_bytes());
    let rest = put(rest, &[redelivered.into(), message.exchange.len() as u8]);
    let rest = put(rest, message.exchange);
    let rest = put(rest, &[routing_key.len() as u8]);
    let rest = put(rest, routing_key);
    let rest = put(rest, &next_frame(frame::HEADER, HEADER_FIXED + head.len()));
    let rest = put(rest, &[0, BASIC as u8, 0, 0]);
    let rest = put(rest, &(body.len() as u64).to_be_bytes());
    let rest = put(rest, head);
    let rest = put(rest, &next_frame(frame::BODY, body.len()));
    let rest = put(rest, body);
    let rest = put(rest, &[frame::END]);
    debug_assert!(rest.is_empty());
    let size = ((method_len - frame::HEAD) as u32).to_be_bytes();
    to[3..frame::HEAD].copy_from_slice(&size);
}

/// Puts `piece` at the front of `to` and answers the rest behind it.
#[inline(always)]
fn put<'a>(to: &'a mut [u8], piece: &[u8]) -> &'a mut [u8] {
    let (front, rest) = to.split_at_mut(piece.len());
    base::copy::copy(front, piece);
    rest
}

/// Appends a message behind a prepared method frame.
#[inline]
pub(crate) fn publish(
    output: &mut Output,
    frame_max: u32,
    prefix: &PublishPrefix,
    head: &[u8],
    body: &Body<'_>,
) {
    let own = output.own();
    own.reserve(prefix.frame.len() + 3 * frame::OVERHEAD + HEADER_FIXED + head.len());
    own.extend_from_slice(&prefix.frame);
    content(output, frame_max, prefix.channel, head, body);
}

/// Bytes a short message takes behind its method frame; for a long one, those that are not body.
#[inline]
fn content_len(message: &Outgoing<'_>) -> usize {
    let body = message.body.len();
    let copied = if body < REFERENCE_MIN { body } else { 0 };
    2 * frame::OVERHEAD + HEADER_FIXED + 1 + message.head.len() + copied
}

/// Appends a content header and the body in frames of at most `frame_max` bytes.
#[inline]
pub(crate) fn content(output: &mut Output, frame_max: u32, channel: u16, head: &[u8], body: &Body<'_>) {
    let own = output.own();
    let [c0, c1] = channel.to_be_bytes();
    let [s0, s1, s2, s3] = ((HEADER_FIXED + head.len()) as u32).to_be_bytes();
    let mut fixed = [frame::HEADER, c0, c1, s0, s1, s2, s3, 0, BASIC as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    fixed[11..19].copy_from_slice(&(body.len() as u64).to_be_bytes());
    own.extend_from_slice(&fixed);
    own.extend_from_slice(head);
    let len = body.len();
    if len == 0 {
        own.push(frame::END);
    } else if len < REFERENCE_MIN.min(frame_max as usize - frame::OVERHEAD) {
        let [s0, s1, s2, s3] = (len as u32).to_be_bytes();
        own.extend_from_slice(&[frame::END, frame::BODY, c0, c1, s0, s1, s2, s3]);
        own.extend_from_slice(body.bytes());
        own.push(frame::END);
    } else {
        own.push(frame::END);
        body_frames(output, frame_max, [c0, c1], body);
    }
}

fn body_frames(output: &mut Output, frame_max: u32, [c0, c1]: [u8; 2], body: &Body<'_>) {
    let size_max = frame_max as usize - frame::OVERHEAD;
    let mut from = 0;
    while from < body.len() {
        let size = size_max.min(body.len() - from);
        let [s0, s1, s2, s3] = (size as u32).to_be_bytes();
        output.extend(&[frame::BODY, c0, c1, s0, s1, s2, s3]);
        match body {
            Body::Bytes(bytes) => output.extend(&bytes[from..from + size]),
            Body::Memory(memory, range) => {
                output.extend_from(memory, range.start + from..range.start + from + size);
            }
        }
        output.extend(&[frame::END]);
        from += size;
    }
}
