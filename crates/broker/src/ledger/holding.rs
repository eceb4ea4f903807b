//! The bytes that one connection holds, by kind, and the room it has reserved for them.

use super::Tenant;
use super::full::{Bound, Full};
use std::sync::Arc;

/// The least piece of room that is reserved at a time, in bytes.
const PIECE_MIN: u64 = 4 << 10;

/// The part of a bound by which what cannot be refused may be beyond it.
const OVERDRAFT: f64 = 0.25;

/// The use of bytes that are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Publishes and settles of transactions that are under way.
    Transactions,
    /// Bodies of messages that have not come to their end.
    Bodies,
    /// Direct replies for a client that does not read.
    Replies,
    /// Output that its client has not read.
    Output,
    /// Input that is no whole frame yet, or that waits.
    Input,
    /// Arguments of consumers, links and the like.
    Arguments,
    /// Compiled filters of consumers.
    Filters,
    /// Routes that were found, and other caches.
    Caches,
    /// Channels, sessions, links, consumers and the like, and the table of deliveries that are not settled.
    Tables,
    /// Publishes and commands that wait for the node that leads their log.
    Outbox,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 10] = [
        Kind::Transactions,
        Kind::Bodies,
        Kind::Replies,
        Kind::Output,
        Kind::Input,
        Kind::Arguments,
        Kind::Filters,
        Kind::Caches,
        Kind::Tables,
        Kind::Outbox,
    ];

    /// Its name in lists and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Transactions => "transactions",
            Kind::Bodies => "bodies",
            Kind::Replies => "replies",
            Kind::Output => "output",
            Kind::Input => "input",
            Kind::Arguments => "arguments",
            Kind::Filters => "filters",
            Kind::Caches => "caches",
            Kind::Tables => "tables",
            Kind::Outbox => "outbox",
        }
    }
}

/// The memory that one connection holds: it goes with the connection, and gives all back when it is dropped.
///
/// Small while nothing was ever held. One without accounts, as of a connection that has not logged in, counts nothing.
#[derive(Debug, Default)]
pub struct Holding {
    tenant: Option<Arc<Tenant>>,
    sums: Option<Box<Sums>>,
}

#[derive(Debug, Default)]
struct Sums {
    /// By [`Kind`].
    held: [u64; Kind::ALL.len()],
    /// The sum of `held`.
    all: u64,
    /// Room reserved in the accounts; at least `all`.
    reserved: u64,
}

/// Room that is reserved beyond what is held: the more is held, the larger the steps.
fn piece(held: u64) -> u64 {
    PIECE_MIN.max(held / 8)
}

impl Holding {
    pub(super) fn new(tenant: Arc<Tenant>) -> Holding {
        Holding { tenant: Some(tenant), sums: None }
    }

    /// Bytes held in all.
    pub fn held(&self) -> u64 {
        self.sums.as_ref().map_or(0, |sums| sums.all)
    }

    /// Bytes of room it has reserved in the accounts: at least what it holds.
    pub fn reserved(&self) -> u64 {
        self.sums.as_ref().map_or(0, |sums| sums.reserved)
    }

    /// Bytes held of a kind.
    pub fn held_of(&self, kind: Kind) -> u64 {
        self.sums.as_ref().map_or(0, |sums| sums.held[kind as usize])
    }

    /// Takes room for bytes that are about to be kept.
    ///
    /// # Errors
    /// The account that has no room; nothing is taken then, and nothing may be kept.
    #[inline]
    pub fn take(&mut self, kind: Kind, bytes: usize) -> Result<(), Full> {
        let Some(tenant) = &self.tenant else { return Ok(()) };
        let sums = self.sums.get_or_insert_default();
        let all = sums.all.saturating_add(bytes as u64);
        if let Err(full) = sums.find_room(tenant, all) {
            tenant.refused(full.bound);
            return Err(full);
        }
        sums.all = all;
        sums.held[kind as usize] += bytes as u64;
        Ok(())
    }

    /// Counts bytes that are kept whatever the bounds are, as those of a settle.
    pub fn keep(&mut self, kind: Kind, bytes: usize) {
        let Some(tenant) = &self.tenant else { return };
        let sums = self.sums.get_or_insert_default();
        sums.all += bytes as u64;
        sums.held[kind as usize] += bytes as u64;
        if sums.all > sums.reserved && sums.reserve(tenant, sums.all).is_err() {
            tenant.add(sums.all - sums.reserved);
            sums.reserved = sums.all;
        }
    }

    /// Gives bytes back that are no longer kept.
    #[inline]
    pub fn give(&mut self, kind: Kind, bytes: usize) {
        let (Some(tenant), Some(sums)) = (&self.tenant, &mut self.sums) else { return };
        let held = &mut sums.held[kind as usize];
        debug_assert!(*held >= bytes as u64, "{bytes} bytes of {kind:?} given back, {held} held");
        let bytes = (bytes as u64).min(*held);
        *held -= bytes;
        sums.all -= bytes;
        sums.shrink(tenant);
    }

    /// Gives all bytes of a kind back.
    pub fn give_all(&mut self, kind: Kind) {
        self.give(kind, self.held_of(kind) as usize);
    }

    /// Counts `bytes` of a kind that grows and shrinks by itself, in place of those that were counted before.
    pub fn set(&mut self, kind: Kind, bytes: usize) {
        let before = self.held_of(kind) as usize;
        if kind == Kind::Output
            && let Some(tenant) = &self.tenant
        {
            tenant.user.set_unread(before as u64, bytes as u64);
        }
        match bytes > before {
            true => self.keep(kind, bytes - before),
            false => self.give(kind, before - bytes),
        }
    }

    /// Whether so much output is unread that there is to be little more of it: as [`Holding::full`], or the user's connections
    /// have [`super::LedgerLimits::user_unread_max`] together.
    pub fn is_unread(&self) -> bool {
        let Some(tenant) = &self.tenant else { return false };
        tenant.ledger.limits.user_unread_max.is_some_and(|most| tenant.user.unread() > most)
            || self.full().is_some()
    }

    /// The bound that is reached, if one is: more would be refused, or is held than may be.
    pub fn full(&self) -> Option<Full> {
        let tenant = self.tenant.as_ref()?;
        let held = self.held();
        let most = tenant.ledger.limits.connection_max;
        if let Some(most) = most.filter(|most| held >= *most) {
            return Some(Full { bound: Bound::Connection, name: "".into(), held, most });
        }
        tenant.full(0.0)
    }

    /// The account that holds a quarter more than it may, if one does: what cannot be refused is in it.
    pub fn overdrawn(&self) -> Option<Full> {
        self.tenant.as_ref()?.full(OVERDRAFT)
    }
}

impl Sums {
    /// Reserves room, if that is needed, for `all` bytes.
    #[inline]
    fn find_room(&mut self, tenant: &Tenant, all: u64) -> Result<(), Full> {
        if let Some(most) = tenant.ledger.limits.connection_max
            && all > most
        {
            return Err(Full { bound: Bound::Connection, name: "".into(), held: self.all, most });
        }
        if all <= self.reserved { Ok(()) } else { self.reserve(tenant, all) }
    }

    /// Reserves room for `all` bytes and a piece beyond, which stays within the connection's bound; without the piece where an
    /// account has no room for it.
    ///
    /// # Errors
    /// The account that has no room for `all`; nothing is reserved then.
    #[cold]
    fn reserve(&mut self, tenant: &Tenant, all: u64) -> Result<(), Full> {
        let most = tenant.ledger.limits.connection_max.unwrap_or(u64::MAX);
        let room = all.saturating_add(piece(all)).min(most.max(all));
        match tenant.reserve(room - self.reserved) {
            Ok(()) => self.reserved = room,
            // To the last byte, where there is room for no whole piece.
            Err(_) => {
                tenant.reserve(all - self.reserved)?;
                self.reserved = all;
            }
        }
        Ok(())
    }

    /// Gives back room that is far more than what is held, and all when nothing is.
    #[inline]
    fn shrink(&mut self, tenant: &Tenant) {
        let piece = if self.all == 0 { 0 } else { piece(self.all) };
        if self.reserved > self.all + 2 * piece {
            let room = self.all + piece;
            tenant.give(self.reserved - room);
            self.reserved = room;
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let Some(tenant) = self.tenant.take() else { return };
        if let Some(sums) = &self.sums {
            tenant.user.set_unread(sums.held[Kind::Output as usize], 0);
            tenant.give(sums.reserved);
        }
        tenant.leave();
    }
}
