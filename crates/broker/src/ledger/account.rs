//! An account of the ledger: bytes reserved for all connections of a user, of a virtual host, or of the node.

use super::full::{Bound, Full};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// No bound.
pub(super) const NONE: u64 = u64::MAX;

/// Bytes held by the connections of a user, of a virtual host, or of the node.
///
/// Counts are reserved in pieces by [`super::Holding`]: they are up to a quarter, or 8 KiB a connection, more than what is
/// held.
#[derive(Debug)]
pub struct Account {
    /// The user or virtual host; empty for the node.
    name: Arc<str>,
    held: AtomicU64,
    /// Bytes of output that clients have not read, exactly.
    unread: AtomicU64,
    /// The bound that was set for this account alone; [`NONE`]: the ledger's counts.
    own_max: AtomicU64,
    connections: AtomicU64,
    refusals: AtomicU64,
}

impl Account {
    pub(super) fn new(name: Arc<str>) -> Account {
        Account {
            name,
            held: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            own_max: AtomicU64::new(NONE),
            connections: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    /// The user or virtual host; empty for the node.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Bytes reserved.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Bytes of output that clients have not read.
    pub fn unread(&self) -> u64 {
        self.unread.load(Relaxed)
    }

    /// The output that a client has not read is so many bytes now, and was so many before.
    pub(super) fn set_unread(&self, before: u64, now: u64) {
        self.unread.fetch_add(now.wrapping_sub(before), Relaxed);
    }

    /// Connections that are open.
    pub fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }

    /// Requests for bytes that this account refused.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    /// The bound that was set for this account alone, in bytes.
    pub fn own_max(&self) -> Option<u64> {
        Some(self.own_max.load(Relaxed)).filter(|most| *most != NONE)
    }

    /// Sets the bound of this account alone, in bytes; none: the ledger's bound counts.
    pub(super) fn set_own_max(&self, most: Option<u64>) {
        self.own_max.store(most.unwrap_or(NONE), Relaxed);
    }

    /// One connection more, or one less: how many there are.
    pub(super) fn came(&self) -> u64 {
        self.connections.fetch_add(1, Relaxed) + 1
    }

    /// See [`Account::came`].
    pub(super) fn left(&self) -> u64 {
        self.connections.fetch_sub(1, Relaxed) - 1
    }

    /// Nobody needs the account to be kept.
    pub(super) fn is_idle(&self) -> bool {
        self.connections() == 0 && self.held() == 0 && self.own_max().is_none()
    }

    /// Reserves room within a bound.
    pub(super) fn reserve(&self, bytes: u64, (bound, most): (Bound, u64)) -> Result<(), Full> {
        let more = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= most);
        match self.held.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Ok(()),
            Err(held) => Err(Full { bound, name: self.name.clone(), held, most }),
        }
    }

    /// Reserves room whatever there is.
    pub(super) fn add(&self, bytes: u64) {
        self.held.fetch_add(bytes, Relaxed);
    }

    /// Gives room back.
    pub(super) fn give(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "more given back than was reserved");
    }

    /// A request was refused.
    pub(super) fn refused(&self) {
        self.refusals.fetch_add(1, Relaxed);
    }
}
