//! One connection of a front: its adapter, what it waits for, and whether it knows of an alarm.

use crate::alarm::Alarm;
use crate::connection::Adapter;
use crate::context::Context;
use crate::settings::Peer;
use ::amqp091::frame::PROTOCOL_HEADER;
use base::Now;
use broker::HeldBack;
use std::sync::Arc;

/// Whether a connection was told to wait, and is to be handed its input again when it no longer does. One byte, as there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// It was not.
    No,
    /// For an answer of the broker, or for a place on another shard.
    ForBroker,
    /// Until the broker is less congested.
    ForFlow,
    /// It publishes, or has begun to, until no alarm holds that concerns it.
    ForAlarm,
    /// Until half of the output above the bound is gone.
    ForPeer,
    /// Until its user's work so far is paid for: it is in [`Shares`](crate::shares::Shares).
    ForShare,
}

/// The state of the output that a connection keeps. One byte, as there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backlog {
    /// Too little to be counted.
    Light,
    /// It is counted in the ledger.
    Counted,
    /// The same, and its consumers were paused because it is much.
    Paused,
}

/// A connection: its adapter, and what the front knows of it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) generation: u32,
    pub(super) is_dirty: bool,
    pub(super) backlog: Backlog,
    /// Its adapter knows of the alarm.
    pub(super) is_blocked: bool,
    pub(super) waits: Waits,
    pub(super) adapter: Adapter,
    pub(super) peer: Peer,
}

impl Connection {
    /// Bytes it holds besides itself, output apart.
    pub(super) fn heap_bytes(&self) -> usize {
        // The name is shared with the adapter; two counts stand before it.
        self.adapter.heap_bytes() + self.peer.name.len() + 2 * size_of::<usize>()
    }

    /// Its user, once it is open.
    #[cold]
    pub(super) fn user(&self) -> Option<&Arc<str>> {
        self.adapter.user()
    }

    /// The user who owes what is done for it; those who have not logged in owe it together.
    #[cold]
    pub(super) fn account(&self) -> Arc<str> {
        self.user().cloned().unwrap_or_else(|| Arc::from(""))
    }

    /// Its input is left alone. Its peer's silence means nothing then, except where it is the peer that does not read:
    /// one that takes no byte for as long as it may be silent is gone.
    pub(super) fn hold(&mut self, now: Now, waits: Waits) {
        self.waits = waits;
        self.adapter.set_reading(now, waits == Waits::ForPeer);
    }

    /// Why it is held back, while `alarm` holds.
    #[cold]
    pub(super) fn held_back(&self, alarm: Option<Alarm>) -> Option<HeldBack> {
        match self.waits {
            Waits::No | Waits::ForBroker => None,
            Waits::ForFlow => Some(HeldBack::Flow),
            Waits::ForAlarm => alarm.map(|alarm| match alarm {
                Alarm::Disk => HeldBack::Disk,
                Alarm::Memory | Alarm::MemoryAndDisk => HeldBack::Memory,
            }),
            Waits::ForPeer => Some(HeldBack::Output),
            Waits::ForShare => Some(HeldBack::Share),
        }
    }

    /// Whether the alarm concerns it.
    #[cold]
    pub(super) fn heeds(&self, alarm: Alarm) -> bool {
        self.adapter.heeds(alarm, &self.peer)
    }

    /// Whether it publishes while the broker is congested, or an alarm holds that concerns it.
    #[cold]
    pub(super) fn waits_as_publisher(&self, context: &Context<'_>, alarm: Option<Alarm>) -> Waits {
        if !self.adapter.is_publishing() {
            Waits::No
        } else if alarm.is_some_and(|alarm| self.heeds(alarm)) {
            Waits::ForAlarm
        } else if context.shard.is_congested() {
            Waits::ForFlow
        } else {
            Waits::No
        }
    }

    /// Whether it waits for its peer to read, or for the broker's answer, whatever it sends.
    #[inline]
    pub(super) fn waits_anyhow(&self, context: &Context<'_>) -> Waits {
        if self.is_unread(context) {
            Waits::ForPeer
        } else if self.adapter.is_waiting() {
            Waits::ForBroker
        } else {
            Waits::No
        }
    }

    /// Tells its adapter of the alarm, if it does not know of it yet.
    #[cold]
    pub(super) fn hear_of(&mut self, context: &mut Context<'_>, alarm: Option<Alarm>) {
        let alarm = alarm.filter(|alarm| self.heeds(*alarm));
        if self.is_blocked != alarm.is_some() && !self.adapter.is_greeting() {
            self.is_blocked = alarm.is_some();
            self.adapter.set_blocked(context, alarm);
        }
    }

    /// The next bytes are to find the alarm, also behind the protocol header: how many of `bytes` were that.
    #[cold]
    pub(super) fn meet(&mut self, context: &mut Context<'_>, alarm: Option<Alarm>, bytes: &[u8]) -> usize {
        let mut consumed = 0;
        if self.adapter.is_greeting() && bytes.len() > PROTOCOL_HEADER.len() {
            consumed = self.adapter.input(context, &self.peer, &bytes[..PROTOCOL_HEADER.len()]);
        }
        if self.adapter.is_over() {
            return bytes.len();
        }
        self.hear_of(context, alarm);
        consumed
    }
}
