//! The places of an interface's clients, in one table for all of its ports.

use management::{PlaceId, PlaceLimits, Places, PoolRow};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// See the module.
pub struct Room {
    /// Of each stranger, what closes it.
    table: Mutex<Places<Arc<Notify>>>,
    /// The table has changed so that somebody may come.
    freed: Notify,
    began: Instant,
}

impl Room {
    /// One where all places are free.
    pub fn new(limits: PlaceLimits) -> Arc<Room> {
        let table = Mutex::new(Places::new(limits));
        Arc::new(Room { table, freed: Notify::new(), began: Instant::now() })
    }

    fn table(&self) -> MutexGuard<'_, Places<Arc<Notify>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until somebody may come.
    pub async fn has_room(&self) {
        loop {
            let freed = self.freed.notified();
            if self.table().has_room() {
                return;
            }
            freed.await;
        }
    }

    /// A place for a client from here, and whether its address has more than its share, once somebody may come; none
    /// where others may and this one may not. `end` is notified where the place is needed for somebody else.
    pub async fn take(self: &Arc<Room>, from: IpAddr, end: &Arc<Notify>) -> Option<(Arc<Place>, bool)> {
        loop {
            if let Some(taken) = self.try_take(from, end) {
                return Some(taken);
            }
            if self.refuses() {
                return None;
            }
            // There was some when it was asked for, and the last has gone since.
            self.has_room().await;
        }
    }

    /// The same at once, if somebody may come; a client for which there is none is not counted.
    pub fn try_take(self: &Arc<Room>, from: IpAddr, end: &Arc<Notify>) -> Option<(Arc<Place>, bool)> {
        let now_ms = self.began.elapsed().as_millis() as u64;
        let taken = self.table().try_take(now_ms, from, end.clone())?;
        if let Some(other) = taken.instead_of {
            other.notify_one();
        }
        let place = Place { id: taken.id, room: self.clone(), is_left: AtomicBool::new(false) };
        Some((Arc::new(place), taken.is_beyond))
    }

    /// Whether others may come, so that one for whom there is no place is refused.
    fn refuses(&self) -> bool {
        let mut table = self.table();
        let has_room = table.has_room();
        if has_room {
            table.refuse();
        }
        has_room
    }

    /// As they are listed.
    pub fn row(&self, name: &'static str) -> PoolRow {
        let table = self.table();
        let mut row = PoolRow::new(name, Some(table.most() as u64));
        (row.taken, row.refused) = (table.taken() as u64, table.refused() + table.beyond().total());
        row.given_up = table.given_up();
        table.by_user().for_each(|(user, taken)| row.of(user).taken = taken as u64);
        table.beyond().by().for_each(|(user, refused)| row.of(user).refused = refused);
        row
    }

    /// Places that are taken.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.table().taken()
    }

    fn change(&self, change: impl FnOnce(&mut Places<Arc<Notify>>)) {
        change(&mut self.table());
        self.freed.notify_waiters();
    }
}

/// A client's place; given back when it is dropped, if not before.
pub struct Place {
    id: PlaceId,
    room: Arc<Room>,
    is_left: AtomicBool,
}

impl Place {
    /// The client has logged in.
    pub fn know(&self, user: &str) {
        if !self.is_left.load(Ordering::Relaxed) {
            // Beyond the user's share it is a stranger still.
            self.room.change(|table| {
                table.know(self.id, Some(user));
            });
        }
    }

    /// The client needs no place any more, though it is there.
    pub fn leave(&self) {
        if !self.is_left.swap(true, Ordering::Relaxed) {
            self.room.change(|table| table.give_back(self.id));
        }
    }

    /// A request of the client is worked on until this is dropped; the place is kept so long.
    pub fn work(self: &Arc<Place>) -> Work {
        self.room.change(|table| table.begin(self.id));
        Work(self.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Work for the client that has a place.
pub struct Work(Arc<Place>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.room.change(|table| table.end(self.0.id));
    }
}
