//! A judge of servers. Reads their bytes by the specifications alone, with nothing of its own code but values.

use message::amqp10::{Decoder, Descriptor, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Reads frames of AMQP 0-9-1 and knows which channels are closed.
#[derive(Debug, Default)]
pub struct Judge091 {
    kept: Vec<u8>,
    /// The server closed these and waits for the answer.
    pub closing: BTreeSet<u16>,
    is_closed: bool,
    /// The frame that ended the connection.
    last: Vec<u8>,
    /// Class and number of all methods heard.
    pub heard: BTreeSet<(u16, u16)>,
}

/// Classes and methods a server may send, connection.close apart.
const METHODS_091: [(u16, &[u16]); 8] = [
    (10, &[10, 20, 30, 41, 50, 51, 60, 61, 71]),
    (20, &[11, 20, 21, 40, 41]),
    (40, &[11, 21, 31, 51]),
    (50, &[11, 21, 31, 41, 51]),
    (60, &[11, 21, 30, 31, 50, 60, 71, 72, 80, 111, 120]),
    (85, &[11]),
    (90, &[11, 21, 31]),
    (30, &[11]),
];
const CODES_091: [u16; 19] =
    [200, 311, 312, 313, 320, 402, 403, 404, 405, 406, 501, 502, 503, 504, 505, 506, 530, 540, 541];

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the frame is long enough")
}

#[allow(dead_code, reason = "not every test asks")]
impl Judge091 {
    /// The server has not closed anything.
    pub fn is_content(&self) -> bool {
        !self.is_closed && self.closing.is_empty()
    }

    /// Takes in bytes of the server; panics where they are not legal.
    pub fn hears(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        let kept = std::mem::take(&mut self.kept);
        let mut rest = &kept[..];
        while rest.len() >= 7 {
            let (kind, channel) = (rest[0], u16::from_be_bytes(number(rest, 1)));
            let size = u32::from_be_bytes(number(rest, 3)) as usize;
            assert!(size <= 131_072 - 8, "a frame of {size} bytes");
            if rest.len() < size + 8 {
                break;
            }
            assert_eq!(rest[size + 7], 0xce, "frame end");
            self.frame(kind, channel, &rest[7..size + 7]);
            rest = &rest[size + 8..];
        }
        self.kept = rest.to_vec();
    }

    fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        // Both may close at the same time; then the other's close is answered still.
        let may_follow = (kind, channel) == (8, 0) || payload == b"\0\x0a\0\x33";
        let last = &self.last;
        assert!(
            !self.is_closed || may_follow,
            "kind {kind} on {channel} after the end: {payload:?}; {last:?}"
        );
        match kind {
            1 => self.method(channel, payload),
            2 | 3 => {
                assert_ne!(channel, 0, "content on channel 0");
                assert!(!self.closing.contains(&channel), "content on channel {channel}, which is closed");
            }
            8 => assert_eq!((channel, payload.len()), (0, 0), "a heartbeat"),
            other => panic!("frame type {other}"),
        }
    }

    fn method(&mut self, channel: u16, payload: &[u8]) {
        let id = (u16::from_be_bytes(number(payload, 0)), u16::from_be_bytes(number(payload, 2)));
        let known = METHODS_091.iter().any(|(class, methods)| *class == id.0 && methods.contains(&id.1));
        assert!(known, "method {id:?}");
        assert_eq!(id.0 == 10, channel == 0, "method {id:?} on channel {channel}");
        if matches!(id, (10, 50) | (20, 40)) {
            let code = u16::from_be_bytes(number(payload, 4));
            let text = &payload[7..7 + usize::from(payload[6])];
            assert!(CODES_091.contains(&code), "code {code}");
            assert!(str::from_utf8(text).is_ok_and(|text| !text.is_empty()), "text {text:?}");
            assert_eq!(payload.len(), 7 + text.len() + 4);
        }
        self.heard.insert(id);
        match id {
            (10, 50 | 51) => {
                self.is_closed = true;
                self.last = payload.to_vec();
            }
            (20, 40) => assert!(self.closing.insert(channel), "channel {channel} is closed twice"),
            // A channel's number may be used again once either side has answered.
            (20, 11 | 41) => _ = self.closing.remove(&channel),
            _ => assert!(!self.closing.contains(&channel), "{id:?} on channel {channel}, which is closed"),
        }
    }
}

/// The node that a client's handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    Receiver,
    Sender,
    /// To the management node.
    Asker,
    Coordinator,
}

/// Reads frames of AMQP 1.0 and knows which channels have ended.
#[derive(Debug, Default)]
pub struct Judge10 {
    kept: Vec<u8>,
    headers: usize,
    /// Channels whose session the server has begun, and not ended.
    pub open: BTreeSet<u16>,
    is_closed: bool,
    /// The links that the client has attached on channel 0, as far as it knows.
    pub attached: BTreeMap<u32, Attached>,
    /// The delivery-id the client says next on channel 0.
    pub next_id: u32,
    /// Descriptors of all performatives heard.
    pub heard: BTreeSet<u64>,
}

#[allow(dead_code, reason = "not every test asks")]
impl Judge10 {
    /// The session on channel 0 is open.
    pub fn is_content(&self) -> bool {
        !self.is_closed && self.open.contains(&0)
    }

    /// Takes in bytes of the server; panics where they are not legal.
    pub fn hears(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        let kept = std::mem::take(&mut self.kept);
        let mut rest = &kept[..];
        while rest.len() >= 8 {
            if self.headers < 2 && rest.starts_with(b"AMQP") {
                self.headers += 1;
                rest = &rest[8..];
                continue;
            }
            let size = u32::from_be_bytes(number(rest, 0)) as usize;
            assert!((8..=131_072).contains(&size), "a frame of {size} bytes");
            assert_eq!(rest[4], 2, "data offset");
            if rest.len() < size {
                break;
            }
            self.frame(rest[5], u16::from_be_bytes(number(rest, 6)), &rest[8..size]);
            rest = &rest[size..];
        }
        self.kept = rest.to_vec();
    }

    fn frame(&mut self, kind: u8, channel: u16, body: &[u8]) {
        assert!(!self.is_closed, "a frame after close: {body:?}");
        if body.is_empty() {
            return;
        }
        let mut decoder = Decoder::new(body);
        let Ok(Value::Described(described)) = decoder.checked_value() else {
            panic!("no performative: {body:?}")
        };
        let (Descriptor::Code(code), Value::List(fields)) = (described.descriptor(), described.value())
        else {
            panic!("no performative: {body:?}")
        };
        self.heard.insert(code);
        // A coordinator's answer to a declare (part 4 §4.5.8), counted apart.
        if body.windows(3).any(|bytes| bytes == [0, 0x53, 0x33]) {
            self.heard.insert(0x33);
        }
        assert_eq!(kind, u8::from(code >= 0x40), "frame type of {code:#x}");
        let error = match code {
            0x10 | 0x40..=0x44 => return,
            0x11 => {
                assert!(self.open.insert(channel), "begin on channel {channel}, which is open");
                return;
            }
            0x18 => {
                self.is_closed = true;
                fields.iter().next()
            }
            _ => {
                assert!(self.open.contains(&channel), "{code:#x} on channel {channel}, which is not open");
                match code {
                    0x12..=0x15 => None,
                    0x16 => fields.iter().nth(2),
                    0x17 => {
                        self.open.remove(&channel);
                        fields.iter().next()
                    }
                    other => panic!("performative {other:#x}"),
                }
            }
        };
        if let Some(Value::Described(error)) = error {
            let Value::List(fields) = error.value() else { panic!("no error: {body:?}") };
            let condition = fields.iter().next();
            let is_known = matches!(condition, Some(Value::Symbol(name)) if name.starts_with("amqp:"));
            assert!(is_known, "condition {condition:?}");
        }
    }
}
