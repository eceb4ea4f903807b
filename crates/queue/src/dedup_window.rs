//! Which keys came lately: a message that brings one of them again is a duplicate and takes no position.
//!
//! Recorded: it changes by records alone, and goes by the times messages carry, so that every replay sees the same
//! duplicates. A key stays for the time it was given, and until as many others came after it as the window holds; a duplicate
//! does not prolong it.
//!
//! Invariants: `known` has the keys of `arrived` and no others; of a key that is there twice it has the time of the last,
//! which is the highest.

use crate::snapshot_fields::{SnapshotError, put, read_digest};
use base::cursor::Reader;
use base::{Digest, Sink};
use std::collections::{BTreeMap, VecDeque};

/// A digest of a value that messages are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(pub Digest);

/// Settings of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSettings {
    /// Keys at most, 1 to [`WindowSettings::KEYS_MAX`].
    pub keys_max: u32,
    /// How long a key stays, milliseconds; none: until others take its room.
    pub ttl_ms: Option<u64>,
}

impl WindowSettings {
    /// Keys of the largest window: some 90 bytes of memory each.
    pub const KEYS_MAX: u32 = 1 << 20;
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Window {
    settings: WindowSettings,
    /// Keys in the order in which they came, and until when each counts, milliseconds since 1970.
    arrived: VecDeque<(MessageKey, u64)>,
    known: BTreeMap<MessageKey, u64>,
}

impl Window {
    pub(crate) fn new(settings: WindowSettings) -> Window {
        Window { settings, arrived: VecDeque::new(), known: BTreeMap::new() }
    }

    pub(crate) fn settings(&self) -> WindowSettings {
        self.settings
    }

    /// Keys that are there stay, as many as there is room for.
    pub(crate) fn configure(&mut self, settings: WindowSettings) {
        self.settings = settings;
        self.shrink();
    }

    /// A message with this key came; false: it is a duplicate. `ttl_ms`: how long its key stays, where the message says so.
    pub(crate) fn admit(&mut self, key: MessageKey, at_ms: u64, ttl_ms: Option<u64>) -> bool {
        while self.arrived.front().is_some_and(|(_, until_ms)| *until_ms <= at_ms) {
            self.forget_first();
        }
        if self.known.get(&key).is_some_and(|until_ms| *until_ms > at_ms) {
            return false;
        }
        let ttl_ms = ttl_ms.or(self.settings.ttl_ms);
        let until_ms = ttl_ms.map_or(u64::MAX, |ttl_ms| at_ms.saturating_add(ttl_ms));
        if until_ms > at_ms {
            self.add(key, until_ms);
            self.shrink();
        }
        true
    }

    fn add(&mut self, key: MessageKey, until_ms: u64) {
        self.arrived.push_back((key, until_ms));
        self.known.insert(key, until_ms);
    }

    fn shrink(&mut self) {
        while self.arrived.len() > self.settings.keys_max as usize {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((key, until_ms)) = self.arrived.pop_front()
            && self.known.get(&key) == Some(&until_ms)
        {
            self.known.remove(&key);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.arrived.capacity() * size_of::<(MessageKey, u64)>() + self.known.len() * 48
    }

    /// ```text
    ///   0          4         5   8          16      24
    ///   | keys max | has ttl | 0 | ttl (ms) | count | key (16), until (8) ...
    /// ```
    pub(crate) fn write(&self, out: &mut impl Sink) {
        let WindowSettings { keys_max, ttl_ms } = self.settings;
        out.put(&keys_max.to_le_bytes());
        out.put(&[u8::from(ttl_ms.is_some()), 0, 0, 0]);
        put(out, ttl_ms.unwrap_or(0));
        put(out, self.arrived.len() as u64);
        for (MessageKey(digest), until_ms) in &self.arrived {
            out.put(&digest.bytes());
            put(out, *until_ms);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Window, SnapshotError> {
        let broken = Err(SnapshotError::Broken("window"));
        let keys_max = reader.u32_le()?;
        let ttl_ms = match (reader.u32_le()?, reader.u64_le()?) {
            (0, 0) => None,
            (1, ttl_ms) => Some(ttl_ms),
            _ => return broken,
        };
        let count = reader.u64_le()?;
        if !(1..=WindowSettings::KEYS_MAX).contains(&keys_max) || count > keys_max.into() {
            return broken;
        }
        let mut window = Window::new(WindowSettings { keys_max, ttl_ms });
        for _ in 0..count {
            let key = MessageKey(read_digest(reader)?);
            let until_ms = reader.u64_le()?;
            if window.known.get(&key).is_some_and(|before_ms| *before_ms >= until_ms) {
                return broken;
            }
            window.add(key, until_ms);
        }
        Ok(window)
    }
}
