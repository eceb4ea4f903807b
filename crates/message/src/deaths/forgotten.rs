//! Queues of the deaths that the list has no room for: still needed to find a cycle.
//!
//! A queue is known by a digest of its name. Deaths that a rejection came after are not in it, for they make no cycle; so a rejection
//! empties it. Invariant: at most [`FORGOTTEN_MAX`] queues, each once, the one forgotten first at the front; with so many the message
//! cannot be followed any further, and every queue counts as one it died in.

use base::{Digest, DigestKey, Digester};
use std::borrow::Cow;

/// Queues that are known beside those in the list.
pub const FORGOTTEN_MAX: usize = 1024;

/// The header that names them in AMQP 0-9-1: bytes, eight for each queue.
pub(super) const HEADER: &str = "x-death-forgotten";
/// The annotation that does in AMQP 1.0.
pub(super) const ANNOTATION: &str = "x-opt-deaths-forgotten";

/// Bytes of a digest.
const LEN: usize = 8;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Forgotten<'a>(Cow<'a, [u8]>);

impl<'a> Forgotten<'a> {
    /// Reads the output of [`Forgotten::bytes`]; an incomplete digest at the end, and those beyond the bound, are left
    /// out.
    pub fn read(bytes: &'a [u8]) -> Forgotten<'a> {
        let len = bytes.len().min(FORGOTTEN_MAX * LEN);
        Forgotten(Cow::Borrowed(&bytes[..len - len % LEN]))
    }

    /// As a head has it; empty: there is nothing to say.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A death in this queue is left out of the list.
    pub fn add(&mut self, queue: &[u8]) {
        if !self.knows(queue) {
            let digest = digest(queue);
            self.0.to_mut().extend_from_slice(&digest);
        }
    }

    /// The message may have died in this queue.
    pub fn knows(&self, queue: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let digest = digest(queue);
        self.0.len() >= FORGOTTEN_MAX * LEN || self.0.chunks_exact(LEN).any(|known| *known == digest)
    }
}

fn digest(queue: &[u8]) -> [u8; LEN] {
    let mut digester = Digester::new(&DigestKey::FIXED);
    digester.write(queue);
    let Digest([low, _]) = digester.finish();
    low.to_le_bytes()
}

/// Sorts the deaths behind the newest, the newest first: the list has room for so many, and the others are forgotten.
pub(super) struct Sieve<'a> {
    /// Queues of deaths it had no room for, with those forgotten before.
    pub forgotten: Forgotten<'a>,
    left: usize,
    is_refused: bool,
}

impl<'a> Sieve<'a> {
    /// The newest death was for this `reason`; `known`: the queues forgotten before it.
    pub fn new(reason: &[u8], known: &'a [u8]) -> Sieve<'a> {
        let is_refused = reason == super::REJECTED;
        let forgotten = if is_refused { Forgotten::default() } else { Forgotten::read(known) };
        Sieve { forgotten, left: super::DEATHS_MAX - 1, is_refused }
    }

    /// Whether the next death, `key` as queue and reason if it says so, stays in the list; not where it does not fit.
    pub fn keeps(&mut self, key: Option<(&[u8], &[u8])>, fits: bool) -> bool {
        self.left = if fits { self.left } else { 0 };
        let keeps = self.left > 0;
        self.left = self.left.saturating_sub(1);
        if let Some((queue, reason)) = key {
            self.is_refused |= reason == super::REJECTED;
            if !keeps && !self.is_refused {
                self.forgotten.add(queue);
            }
        }
        keeps
    }
}
