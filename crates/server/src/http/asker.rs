//! The peer that a request is of, and the interface that it came to.

use management::{Block, Pool, PoolRow};
use std::sync::Arc;

/// The interface that a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The management API.
    Api,
    /// Metrics.
    Metrics,
}

/// Somebody who takes turns with others, and has a share of what there is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    /// A user that has logged in.
    User(Arc<str>),
    /// A client without a login, by where it comes from.
    Block(Block),
    /// The same with a request for metrics that looks for names: it waits among its own, and holds up no plain one.
    Searching(Block),
}

/// A pool as it is listed.
pub fn listed(name: &'static str, pool: &Pool<Asker>) -> PoolRow {
    let most = Some(pool.most()).filter(|most| *most < usize::MAX);
    let mut row = PoolRow::new(name, most.map(|most| most as u64));
    (row.taken, row.refused) = (pool.used() as u64, pool.refused().total());
    for (asker, taken) in pool.by() {
        if let Asker::User(user) = asker {
            row.of(user).taken = taken as u64;
        }
    }
    for (asker, refused) in pool.refused().by() {
        if let Asker::User(user) = asker {
            row.of(user).refused = refused;
        }
    }
    row
}
