//! The places of clients that listen to events: a user has a share of them, and an address; some are kept for administrators.

use super::asker::{Asker, listed};
use management::{Block, Limits, Pool, PoolRow, Short};
use std::sync::{Arc, Mutex, PoisonError};

/// The clients that listen to events.
#[derive(Debug)]
pub struct Listeners {
    by_asker: Pool<Asker>,
    by_block: Pool<Block>,
    /// Administrators alone get further.
    others_max: usize,
}

impl Listeners {
    /// None yet.
    pub fn new(limits: &Limits) -> Listeners {
        let most = limits.event_streams_max;
        // Where there are few, one has one.
        let share = |part: usize| (most / part).max(1);
        Listeners {
            by_asker: Pool::new(most, share(limits.event_streams_user_share)),
            by_block: Pool::new(usize::MAX, share(limits.event_streams_address_share)),
            others_max: most - limits.event_streams_kept.min(most / 4),
        }
    }

    /// As they are listed.
    pub fn row(&self) -> PoolRow {
        listed("event_streams", &self.by_asker)
    }

    fn add(&mut self, asker: &Asker, block: Block, is_administrator: bool) -> Result<Option<Block>, Short> {
        let added = self.try_add(asker, block, is_administrator);
        added.inspect_err(|_| self.by_asker.refuse(asker))
    }

    fn try_add(
        &mut self,
        asker: &Asker,
        block: Block,
        is_administrator: bool,
    ) -> Result<Option<Block>, Short> {
        let block = (!is_administrator).then_some(block);
        if block.is_some() && self.by_asker.used() >= self.others_max {
            return Err(Short::Pool);
        }
        self.by_asker.take(asker, 1)?;
        if let Some(block) = block
            && let Err(short) = self.by_block.take(&block, 1)
        {
            self.by_asker.give(asker, 1);
            return Err(short);
        }
        Ok(block)
    }
}

/// The place of a client that listens; given back when it is dropped.
pub struct Seat {
    listeners: Arc<Mutex<Listeners>>,
    asker: Asker,
    block: Option<Block>,
}

impl Seat {
    /// A place for a client of this user, from here.
    ///
    /// # Errors
    /// There is none, or none for it.
    pub fn take(
        asker: &Asker,
        block: Block,
        is_administrator: bool,
        listeners: &Arc<Mutex<Listeners>>,
    ) -> Result<Seat, Short> {
        let listeners = listeners.clone();
        let mut own = listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let block = own.add(asker, block, is_administrator)?;
        drop(own);
        Ok(Seat { listeners, asker: asker.clone(), block })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.by_asker.give(&self.asker, 1);
        if let Some(block) = self.block {
            listeners.by_block.give(&block, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn listeners_have_shares_and_administrators_places_of_their_own() {
        let mut listeners = Listeners::new(&Limits { event_streams_max: 16, ..Limits::default() });
        let mut check = |user: &str, address: u8, is_administrator, expected: Result<(), Short>| {
            let asker = Asker::User(user.into());
            let block = Block::of(IpAddr::from([127, 0, 0, address]));
            let found = listeners.add(&asker, block, is_administrator).map(drop);
            assert_eq!(found, expected, "{user} {address}");
        };
        // A user has a quarter, and an address an eighth.
        check("a", 1, false, Ok(()));
        check("a", 1, false, Ok(()));
        check("a", 1, false, Err(Short::Share));
        check("b", 1, false, Err(Short::Share));
        check("a", 2, false, Ok(()));
        check("a", 3, false, Ok(()));
        check("a", 4, false, Err(Short::Share));
        // An administrator is not kept out by others at the same address.
        check("admin", 1, true, Ok(()));
        for (user, address) in [("b", 2), ("b", 3), ("b", 4), ("b", 5), ("c", 5), ("c", 6), ("c", 7)] {
            check(user, address, false, Ok(()));
        }
        check("d", 8, false, Err(Short::Pool));
        for _ in 0..3 {
            check("admin", 1, true, Ok(()));
        }
        check("admin", 1, true, Err(Short::Share));
        check("other admin", 1, true, Ok(()));
        check("third admin", 1, true, Err(Short::Pool));
    }
}
