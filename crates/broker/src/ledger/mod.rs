//! The ledger of memory: bytes that connections hold, by connection, user, virtual host and node, taken before anything
//! is kept.
//!
//! There is one [`Ledger`] for each node, which all shards share. A connection has a [`Holding`], which counts exactly, by
//! [`Kind`], and reserves room in the [`Account`]s of its user, its virtual host and the node in pieces, so that they are
//! touched rarely. The lock is held when a connection comes or goes, never when bytes are taken.
//! Not here: messages in queues, which the memory alarm is for.
//! Invariant: an account has what its holdings reserved; each of them at least what it holds.

mod account;
mod full;
mod holding;
#[cfg(test)]
mod tests;

pub use account::Account;
pub use full::{Bound, Full};
pub use holding::{Holding, Kind};

use account::NONE;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Bounds of what connections hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LedgerLimits {
    /// Bytes of one connection; none: any number.
    pub connection_max: Option<u64>,
    /// Share of the watermark that a user may hold while other users are connected; none: any.
    pub user_share: Option<f64>,
    /// Share of the watermark that a user may hold while no other is connected; none: any.
    pub lone_user_share: Option<f64>,
    /// Share of the watermark that a virtual host may hold; none: any.
    pub vhost_share: Option<f64>,
    /// Bytes of output that the clients of a user have not read, all together, beyond which each of them that has more than a
    /// little unread is not heard, and its consumers pause; none: any number.
    pub user_unread_max: Option<u64>,
}

impl LedgerLimits {
    /// Bytes of a connection where nothing else is configured; twice the largest message, if that is more.
    pub const CONNECTION_MAX: u64 = 64 << 20;
    /// Share of a user beside others where nothing else is configured.
    pub const USER_SHARE: f64 = 0.25;
    /// Share of a user alone where nothing else is configured.
    pub const LONE_USER_SHARE: f64 = 0.75;

    /// Unread output of a user where nothing else is configured.
    pub const USER_UNREAD_MAX: u64 = 128 << 20;

    /// The bounds of a node on which nothing else is configured.
    pub fn usual(message_size_max: usize) -> LedgerLimits {
        LedgerLimits {
            connection_max: Some(LedgerLimits::CONNECTION_MAX.max(2 * message_size_max as u64)),
            user_share: Some(LedgerLimits::USER_SHARE),
            lone_user_share: Some(LedgerLimits::LONE_USER_SHARE),
            vhost_share: None,
            user_unread_max: Some(LedgerLimits::USER_UNREAD_MAX),
        }
    }
}

/// The accounts that a connection reserves room in, the same for all connections of a user to a virtual host.
#[derive(Debug)]
struct Tenant {
    ledger: Arc<Ledger>,
    user: Arc<Account>,
    vhost: Arc<Account>,
}

/// Accounts by name.
type Accounts = BTreeMap<Arc<str>, Arc<Account>>;

#[derive(Debug, Default)]
struct Tables {
    users: Accounts,
    vhosts: Accounts,
    tenants: BTreeMap<(Arc<str>, Arc<str>), Weak<Tenant>>,
}

/// See the module.
#[derive(Debug)]
pub struct Ledger {
    limits: LedgerLimits,
    /// Bytes of memory that the node may use; [`NONE`]: any number.
    watermark: AtomicU64,
    /// Users that are connected.
    users: AtomicU64,
    refusals: AtomicU64,
    node: Account,
    tables: Mutex<Tables>,
}

/// A ledger without bounds, for tests and simulations. It counts all the same.
impl Default for Ledger {
    fn default() -> Ledger {
        Ledger::new(LedgerLimits::default())
    }
}

/// An account in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRow {
    /// The user or virtual host; empty for the node.
    pub name: Arc<str>,
    /// Bytes reserved.
    pub held: u64,
    /// Bytes that it may hold now; none: any number.
    pub most: Option<u64>,
    /// The bound that says so.
    pub bound: Bound,
    /// Connections that are open.
    pub connections: u64,
    /// Requests for bytes that were refused since the account was opened.
    pub refusals: u64,
}

/// All accounts in a list, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRows {
    /// The node.
    pub node: AccountRow,
    /// Users that are connected, or hold something, or have a limit of their own.
    pub users: Vec<AccountRow>,
    /// Virtual hosts of which the same is true.
    pub vhosts: Vec<AccountRow>,
}

impl Ledger {
    /// A ledger in which nothing is held, of a node that may use any amount of memory until [`Ledger::set_watermark`].
    pub fn new(limits: LedgerLimits) -> Ledger {
        Ledger {
            limits,
            watermark: AtomicU64::new(NONE),
            users: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            node: Account::new("".into()),
            tables: Mutex::default(),
        }
    }

    /// No state here is broken by a thread that panicked.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bounds.
    pub fn limits(&self) -> &LedgerLimits {
        &self.limits
    }

    /// Bytes of memory that the node may use; none: any number. What is held beyond a bound that falls stays.
    pub fn set_watermark(&self, bytes: Option<u64>) {
        self.watermark.store(bytes.unwrap_or(NONE), Relaxed);
    }

    /// Bytes of memory that the node may use; none: any number.
    pub fn watermark(&self) -> Option<u64> {
        Some(self.watermark.load(Relaxed)).filter(|bytes| *bytes != NONE)
    }

    /// Bytes reserved by all connections.
    pub fn held(&self) -> u64 {
        self.node.held()
    }

    /// Requests for bytes that were refused.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    /// Sets the bound of a user, in bytes; none: the share counts.
    pub fn set_user_max(&self, user: &str, most: Option<u64>) {
        set_own_max(&mut self.tables().users, user, most);
    }

    /// Sets the bound of a virtual host, in bytes; none: the share counts, if there is one.
    pub fn set_vhost_max(&self, vhost: &str, most: Option<u64>) {
        set_own_max(&mut self.tables().vhosts, vhost, most);
    }

    /// A connection of a user to a virtual host: what it will hold. The user counts as connected while it is kept.
    pub fn open(self: &Arc<Ledger>, user: &Arc<str>, vhost: &Arc<str>) -> Holding {
        let tables = &mut *self.tables();
        let key = (user.clone(), vhost.clone());
        let found = tables.tenants.get(&key).and_then(Weak::upgrade);
        let tenant = found.unwrap_or_else(|| {
            let (user, vhost) = (account(&mut tables.users, user), account(&mut tables.vhosts, vhost));
            let tenant = Arc::new(Tenant { ledger: self.clone(), user, vhost });
            tables.tenants.insert(key, Arc::downgrade(&tenant));
            tenant
        });
        if tenant.user.came() == 1 {
            self.users.fetch_add(1, Relaxed);
        }
        tenant.vhost.came();
        self.node.came();
        Holding::new(tenant)
    }

    /// All accounts.
    pub fn rows(&self) -> AccountRows {
        let tables = self.tables();
        let rows = |accounts: &Accounts, bound: fn(&Ledger, &Account) -> (Bound, u64)| {
            accounts.values().map(|account| row(account, bound(self, account))).collect()
        };
        AccountRows {
            node: row(&self.node, self.node_bound()),
            users: rows(&tables.users, Ledger::user_bound),
            vhosts: rows(&tables.vhosts, Ledger::vhost_bound),
        }
    }

    // ---- bounds, as they are now

    fn share(&self, share: Option<f64>) -> u64 {
        match (share, self.watermark()) {
            (Some(share), Some(watermark)) => (watermark as f64 * share) as u64,
            _ => NONE,
        }
    }

    fn user_bound(&self, user: &Account) -> (Bound, u64) {
        match user.own_max() {
            Some(most) => (Bound::UserLimit, most),
            None if self.users.load(Relaxed) > 1 => (Bound::User, self.share(self.limits.user_share)),
            None => (Bound::LoneUser, self.share(self.limits.lone_user_share)),
        }
    }

    fn vhost_bound(&self, vhost: &Account) -> (Bound, u64) {
        match vhost.own_max() {
            Some(most) => (Bound::VhostLimit, most),
            None => (Bound::Vhost, self.share(self.limits.vhost_share)),
        }
    }

    fn node_bound(&self) -> (Bound, u64) {
        (Bound::Node, self.watermark.load(Relaxed))
    }
}

impl Tenant {
    /// The three accounts, each with its bound.
    fn accounts(&self) -> [(&Account, (Bound, u64)); 3] {
        let Tenant { ledger, user, vhost } = self;
        [
            (user, ledger.user_bound(user)),
            (vhost, ledger.vhost_bound(vhost)),
            (&ledger.node, ledger.node_bound()),
        ]
    }

    /// Reserves room in all three accounts, or in none.
    fn reserve(&self, bytes: u64) -> Result<(), Full> {
        let accounts = self.accounts();
        for (at, (account, bound)) in accounts.iter().enumerate() {
            if let Err(full) = account.reserve(bytes, *bound) {
                accounts[..at].iter().for_each(|(account, _)| account.give(bytes));
                return Err(full);
            }
        }
        Ok(())
    }

    /// Reserves room whatever there is.
    fn add(&self, bytes: u64) {
        self.accounts().iter().for_each(|(account, _)| account.add(bytes));
    }

    fn give(&self, bytes: u64) {
        self.accounts().iter().for_each(|(account, _)| account.give(bytes));
    }

    /// The first account that holds as much as it may, and `beyond` times that.
    fn full(&self, beyond: f64) -> Option<Full> {
        self.accounts().into_iter().find_map(|(account, (bound, most))| {
            let held = account.held();
            let full = || Full { bound, name: account.name().clone(), held, most };
            (most != NONE && held >= most.saturating_add((most as f64 * beyond) as u64)).then(full)
        })
    }

    /// A request was refused, by this bound.
    #[cold]
    fn refused(&self, bound: Bound) {
        self.ledger.refusals.fetch_add(1, Relaxed);
        match bound {
            Bound::Connection | Bound::User | Bound::LoneUser | Bound::UserLimit => self.user.refused(),
            Bound::Vhost | Bound::VhostLimit => self.vhost.refused(),
            Bound::Node => self.ledger.node.refused(),
        }
    }

    /// One connection is gone, and what it reserved.
    fn leave(self: Arc<Tenant>) {
        let ledger = self.ledger.clone();
        let tables = &mut *ledger.tables();
        ledger.node.left();
        let (users_left, vhosts_left) = (self.user.left(), self.vhost.left());
        if users_left == 0 {
            ledger.users.fetch_sub(1, Relaxed);
        }
        let key = (self.user.name().clone(), self.vhost.name().clone());
        drop(self);
        if tables.tenants.get(&key).is_some_and(|tenant| tenant.strong_count() == 0) {
            tables.tenants.remove(&key);
        }
        if users_left == 0 {
            forget_idle(&mut tables.users, &key.0);
        }
        if vhosts_left == 0 {
            forget_idle(&mut tables.vhosts, &key.1);
        }
    }
}

fn account(accounts: &mut Accounts, name: &Arc<str>) -> Arc<Account> {
    accounts.entry(name.clone()).or_insert_with_key(|name| Arc::new(Account::new(name.clone()))).clone()
}

fn set_own_max(accounts: &mut Accounts, name: &str, most: Option<u64>) {
    match accounts.get(name) {
        Some(account) => account.set_own_max(most),
        None if most.is_some() => account(accounts, &name.into()).set_own_max(most),
        None => return,
    }
    forget_idle(accounts, name);
}

fn forget_idle(accounts: &mut Accounts, name: &str) {
    if accounts.get(name).is_some_and(|account| account.is_idle()) {
        accounts.remove(name);
    }
}

fn row(account: &Account, (bound, most): (Bound, u64)) -> AccountRow {
    AccountRow {
        name: account.name().clone(),
        held: account.held(),
        most: Some(most).filter(|most| *most != NONE),
        bound,
        connections: account.connections(),
        refusals: account.refusals(),
    }
}
