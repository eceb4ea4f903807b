//! The layer between a socket and the protocol: TLS, WebSocket, or WebSocket over TLS.
//!
//! A value without I/O: bytes from the wire go in and those carried come out, and the other way round. While nothing
//! happens it holds no bytes: it works in memory of the shard ([`Bench`]). Bounds: received bytes that are not taken
//! apart yet are at most a record of TLS and the bytes of one read; bytes to be sent that the kernel did not take are
//! at most [`CHUNK_BYTES`] and the protocols' own messages.

use crate::tls::Secure;
use base::Output;
use std::sync::Arc;
use websocket::upgrade::{self, Answer, Rules};
use websocket::{CloseCode, Incoming, Limits, Outgoing, Role, Workshop};

/// Bytes carried that are wrapped at once.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Bytes of room without which nothing is read: a read and a record of TLS must fit.
pub const ROOM_BYTES_MIN: usize = 64 << 10;

/// Slices of output wrapped at once.
const SLICES_MAX: usize = 64;

/// A server masks nothing.
const NO_KEY: [u8; 4] = [0; 4];

/// The rules and bounds of all WebSocket connections of a node.
#[derive(Debug)]
pub struct WebRules {
    /// The paths, origins and sub-protocols of requests that are let in.
    pub rules: Rules,
    /// Bounds.
    pub limits: Limits,
}

/// Memory that all connections of a shard work in, one after the other.
#[derive(Debug, Default)]
pub struct Bench {
    /// Bytes from the wire; its length is the room there is.
    pub raw: Vec<u8>,
    /// Bytes of `raw` after decryption.
    plain: Vec<u8>,
    /// Bytes to be wrapped.
    payload: Vec<u8>,
    /// Bytes to be sent.
    pub wire: Vec<u8>,
    workshop: Workshop,
}

/// The outcome of taking bytes from the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes put into the caller's room.
    pub produced: usize,
    /// There is more inside than there was room for.
    pub has_more: bool,
    /// Nothing more will come.
    pub is_over: bool,
}

/// See the module.
pub struct Layer {
    /// Boxed: its state is ten times the rest.
    secure: Option<Box<Secure>>,
    web: Option<Web>,
    /// From the wire, and no whole record yet.
    raw: Vec<u8>,
    /// Decrypted, or from the wire without TLS, and not taken yet.
    plain: Vec<u8>,
    /// The protocols' own words, to be wrapped before anything else.
    words: Vec<u8>,
    /// For the wire, and not taken by the kernel.
    pub unsent: Vec<u8>,
    /// There was more inside than there was room for.
    has_more: bool,
    /// TLS has said that nothing follows: once, and what came before may still be here.
    has_ended: bool,
    is_over: bool,
    said_farewell: bool,
}

enum Web {
    /// The request is coming.
    Asked(Arc<WebRules>),
    /// It was granted.
    Open { rules: Arc<WebRules>, incoming: Incoming, outgoing: Outgoing },
}

impl Layer {
    /// One whose TLS handshake, if there is TLS, is over.
    pub fn new(secure: Option<Secure>, web: Option<Arc<WebRules>>) -> Layer {
        Layer {
            secure: secure.map(Box::new),
            web: web.map(Web::Asked),
            raw: Vec::new(),
            plain: Vec::new(),
            words: Vec::new(),
            unsent: Vec::new(),
            has_more: false,
            has_ended: false,
            is_over: false,
            said_farewell: false,
        }
    }

    /// A layer that begins with the rest of a handshake: bytes of no whole record, bytes decrypted, bytes to be sent.
    pub fn with_rest(mut self, raw: Vec<u8>, plain: Vec<u8>, unsent: Vec<u8>) -> Layer {
        (self.raw, self.plain, self.unsent) = (raw, plain, unsent);
        self
    }

    /// It is, or is to become, a WebSocket.
    pub fn is_web(&self) -> bool {
        self.web.is_some()
    }

    /// It has something of its own to send.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || !self.words.is_empty() || self.has_answers()
    }

    fn has_answers(&self) -> bool {
        matches!(&self.web, Some(Web::Open { outgoing, .. }) if outgoing.has_answers())
    }

    /// Bytes of memory it holds besides itself, those of TLS's ciphers apart.
    pub fn heap_bytes(&self) -> usize {
        let web = match &self.web {
            Some(Web::Open { incoming, outgoing, .. }) => incoming.heap_bytes() + outgoing.heap_bytes(),
            _ => 0,
        };
        self.raw.capacity() + self.plain.capacity() + self.words.capacity() + self.unsent.capacity() + web
    }

    /// Begins to take: puts what is kept from earlier to the front of `bench.raw`. How many bytes that is, and how many
    /// the socket may put behind it.
    pub fn begin(&mut self, bench: &mut Bench) -> (usize, usize) {
        let kept = self.raw.len();
        if bench.raw.len() < kept + CHUNK_BYTES {
            bench.raw.resize(kept + CHUNK_BYTES, 0);
        }
        bench.raw[..kept].copy_from_slice(&self.raw);
        self.raw.clear();
        (kept, if self.is_over || self.has_more { 0 } else { CHUNK_BYTES })
    }

    /// Takes `count` bytes of `bench.raw`, and puts what they carry into `into`.
    pub fn take(&mut self, bench: &mut Bench, count: usize, into: &mut [u8]) -> Arrived {
        if self.is_over {
            return Arrived { is_over: true, ..Arrived::default() };
        }
        let Bench { raw, plain, workshop, .. } = bench;
        let raw = &mut raw[..count];
        plain.clear();
        plain.append(&mut self.plain);
        match &mut self.secure {
            None => plain.extend_from_slice(raw),
            Some(secure) => {
                match secure.open(raw, &mut self.unsent, |bytes| plain.extend_from_slice(bytes)) {
                    Ok(opened) => {
                        self.raw.extend_from_slice(&raw[opened.consumed..]);
                        self.has_ended |= opened.is_closed;
                    }
                    Err(_) => self.has_ended = true,
                }
            }
        }
        let mut arrived = match &mut self.web {
            None => {
                let count = plain.len().min(into.len());
                into[..count].copy_from_slice(&plain[..count]);
                plain.drain(..count);
                Arrived { produced: count, has_more: !plain.is_empty(), is_over: false }
            }
            Some(web) => web.take(workshop, plain, into, &mut self.words),
        };
        self.plain.extend_from_slice(plain);
        arrived.is_over |= self.has_ended && !arrived.has_more;
        (self.has_more, self.is_over) = (arrived.has_more, arrived.is_over);
        arrived
    }

    /// Wraps what is to be said next into `bench.wire`: the protocols' own words, and up to [`CHUNK_BYTES`] of `output`.
    /// False: there is nothing, or nothing may be said yet.
    ///
    /// # Errors
    /// Nothing more can be sent.
    pub fn wrap(&mut self, bench: &mut Bench, output: &mut Output) -> Result<bool, ()> {
        let Bench { payload, wire, plain, workshop, .. } = bench;
        wire.clear();
        payload.clear();
        plain.clear();
        plain.append(&mut self.words);
        if !matches!(self.web, Some(Web::Asked(_))) {
            let mut left = CHUNK_BYTES;
            output.slices(SLICES_MAX, |slice| {
                let count = slice.len().min(left);
                payload.extend_from_slice(&slice[..count]);
                left -= count;
            });
            output.sent(payload.len());
        }
        match &mut self.web {
            Some(Web::Open { outgoing, .. }) => {
                outgoing.take_answers(NO_KEY, plain);
                outgoing.carry(workshop, payload, NO_KEY, plain);
            }
            // A refusal has nothing behind it, and without WebSocket there are no words.
            _ if plain.is_empty() => std::mem::swap(plain, payload),
            _ => {}
        }
        if plain.is_empty() {
            return Ok(false);
        }
        match &mut self.secure {
            Some(secure) => secure.seal(plain, &mut self.raw, wire).map_err(|_| ())?,
            None => std::mem::swap(wire, plain),
        }
        Ok(true)
    }

    /// All was said: adds the farewells of WebSocket and TLS to what is to be sent, once.
    pub fn say_farewell(&mut self, bench: &mut Bench) {
        if std::mem::replace(&mut self.said_farewell, true) {
            return;
        }
        if let Some(Web::Open { outgoing, .. }) = &mut self.web {
            outgoing.close(CloseCode::Normal);
        }
        // A connection that can send nothing more goes without a word.
        if self.wrap(bench, &mut Output::default()) == Ok(true) {
            self.unsent.extend_from_slice(&bench.wire);
        }
        if let Some(secure) = &mut self.secure {
            let _ = secure.close(&mut self.raw, &mut self.unsent);
        }
    }

    /// Gives back memory that is not in use.
    pub fn cool(&mut self) {
        for buffer in [&mut self.raw, &mut self.plain, &mut self.words, &mut self.unsent] {
            buffer.shrink_to_fit();
        }
    }
}

impl Web {
    fn take(
        &mut self,
        workshop: &mut Workshop,
        plain: &mut Vec<u8>,
        into: &mut [u8],
        words: &mut Vec<u8>,
    ) -> Arrived {
        if let Web::Asked(rules) = self {
            match upgrade::answer(&rules.limits, &rules.rules, plain) {
                Answer::Incomplete => return Arrived::default(),
                Answer::Refused(text, _) => {
                    words.extend_from_slice(&text);
                    plain.clear();
                    return Arrived { is_over: true, ..Arrived::default() };
                }
                Answer::Accepted(text, agreed, consumed) => {
                    words.extend_from_slice(&text);
                    plain.drain(..consumed);
                    *self = Web::Open {
                        rules: rules.clone(),
                        incoming: Incoming::new(Role::Server, agreed.may_inflate),
                        outgoing: Outgoing::new(Role::Server, agreed.may_deflate),
                    };
                }
            }
        }
        let Web::Open { rules, incoming, outgoing } = self else { return Arrived::default() };
        let taken = incoming.take(&rules.limits, workshop, plain, into, outgoing);
        plain.drain(..taken.consumed);
        Arrived { produced: taken.produced, has_more: taken.is_full, is_over: taken.is_closed }
    }
}
