//! Bodies of requests, as they are read, and the room that large ones share.
//!
//! A body that says how long it is has its room before any of it is read. One that does not takes room as it comes, and
//! is the only one of its user that does. Memory for a body never goes beyond its room.

use super::asker::{Asker, listed};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use management::{Limits, Pool, PoolRow, Response, Short};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Bytes by which the room of a body of unknown length grows at least.
const STEP: usize = 64 << 10;

/// Room for bodies.
pub struct BodyRoom {
    bytes: Mutex<Pool<Asker>>,
    /// Bodies of unknown length.
    unknown: Mutex<Pool<Asker>>,
    freed: Notify,
}

/// Room that is taken, given back when it is dropped.
pub struct Piece {
    room: Arc<BodyRoom>,
    asker: Asker,
    bytes: usize,
    /// It is of a body of unknown length.
    is_unknown: bool,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.room.bytes().give(&self.asker, self.bytes);
        if self.is_unknown {
            self.room.unknown().give(&self.asker, 1);
        }
        self.room.freed.notify_waiters();
    }
}

impl BodyRoom {
    /// Room for bodies under these bounds.
    pub fn new(limits: &Limits) -> Arc<BodyRoom> {
        // The largest body has room.
        let largest = limits.body_bytes_max.min(limits.bodies_bytes_max);
        let share = (limits.bodies_bytes_max / limits.user_share).max(largest);
        Arc::new(BodyRoom {
            bytes: Mutex::new(Pool::new(limits.bodies_bytes_max, share)),
            unknown: Mutex::new(Pool::new(usize::MAX, limits.unknown_bodies_max)),
            freed: Notify::new(),
        })
    }

    fn bytes(&self) -> MutexGuard<'_, Pool<Asker>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self) -> MutexGuard<'_, Pool<Asker>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As it is listed: bytes, and bodies of unknown length.
    pub fn rows(&self) -> [PoolRow; 2] {
        [listed("http_body_bytes", &self.bytes()), listed("http_bodies_without_length", &self.unknown())]
    }

    /// Room for a body of so many bytes, once it is there.
    ///
    /// # Errors
    /// It is not there by `end`.
    pub async fn take(
        self: &Arc<BodyRoom>,
        asker: &Asker,
        bytes: usize,
        end: Instant,
    ) -> Result<Piece, Unread> {
        let taken = self.wait(end, || self.bytes().take(asker, bytes)).await;
        taken.inspect_err(|_| self.bytes().refuse(asker))?;
        Ok(Piece { room: self.clone(), asker: asker.clone(), bytes, is_unknown: false })
    }

    /// The turn of a body of unknown length, once it is there; it has no room yet.
    async fn take_unknown(self: &Arc<BodyRoom>, asker: &Asker, end: Instant) -> Result<Piece, Unread> {
        let taken = self.wait(end, || self.unknown().take(asker, 1)).await;
        taken.inspect_err(|_| self.unknown().refuse(asker))?;
        Ok(Piece { room: self.clone(), asker: asker.clone(), bytes: 0, is_unknown: true })
    }

    /// Waits until `take` has what it takes.
    async fn wait(&self, end: Instant, take: impl Fn() -> Result<(), Short>) -> Result<(), Unread> {
        loop {
            let freed = self.freed.notified();
            let Err(short) = take() else { return Ok(()) };
            if timeout_at(end, freed).await.is_err() {
                return Err(Unread::NoRoom(short));
            }
        }
    }
}

impl Piece {
    /// Room for `length` bytes, once it is there, of a body of at most `most` bytes: twice as much as before, where that
    /// is there at once, so that few bytes are copied often.
    async fn grow(&mut self, length: usize, most: usize, end: Instant) -> Result<(), Unread> {
        if length <= self.bytes {
            return Ok(());
        }
        let much = (2 * self.bytes).max(length + STEP).min(most).max(length);
        let mut more = much - self.bytes;
        if self.room.bytes().take(&self.asker, more).is_err() {
            more = length - self.bytes;
            let taken = self.room.wait(end, || self.room.bytes().take(&self.asker, more)).await;
            taken.inspect_err(|_| self.room.bytes().refuse(&self.asker))?;
        }
        self.bytes += more;
        Ok(())
    }
}

/// Why a body is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It has more bytes than a body may have.
    TooLarge,
    /// It is none.
    Broken,
    /// Too little of it came in time.
    Late,
    /// There was no room for it in time.
    NoRoom(Short),
}

impl Unread {
    /// The response to such a request.
    pub fn response(self) -> Response {
        let (status, error, why) = match self {
            Unread::TooLarge => (413, "payload_too_large", "the body is too large"),
            Unread::Broken => (400, "bad_request", "the body cannot be read"),
            Unread::Late => (408, "request_timeout", "the body did not come in time"),
            Unread::NoRoom(Short::Pool) => (503, "service_unavailable", "too many bodies are on their way"),
            Unread::NoRoom(Short::Share) => {
                let why = "bodies of the same user are on their way that take all room that one user has, or \
                           say no length: send them one after the other";
                (429, "too_many_requests", why)
            }
        };
        Response::error(status, error, why)
    }
}

/// A body that is being read. It may take long as long as enough of it comes all the time: a slow line is not a slow
/// client.
struct Reading {
    body: Limited<Incoming>,
    /// In so long...
    silence: Duration,
    /// ...so many bytes come.
    bytes_min: usize,
    /// All of it is there then.
    end: Instant,
    /// When it is judged whether enough came.
    judged_at: Instant,
    came: usize,
    bytes: Vec<u8>,
    /// The bytes that came last, before there is room for them.
    next: Bytes,
}

impl Reading {
    fn new(body: Limited<Incoming>, silence_ms: u64, bytes_min: usize, limits: &Limits) -> Reading {
        let (begin, silence) = (Instant::now(), Duration::from_millis(silence_ms));
        let end = begin + Duration::from_millis(limits.body_ms_max);
        Reading {
            body,
            silence,
            bytes_min,
            end,
            judged_at: begin + silence,
            came: 0,
            bytes: Vec::new(),
            next: Bytes::new(),
        }
    }

    /// Reads until its end, or until something came that has no room among so many bytes; true: until its end.
    async fn go_on(&mut self, room: usize) -> Result<bool, Unread> {
        while self.len() <= room {
            self.keep(room);
            match timeout_at(self.judged_at.min(self.end), self.body.frame()).await {
                Ok(None) => return Ok(true),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.came += data.len();
                        self.next = data;
                    }
                }
                Ok(Some(Err(error))) if error.is::<LengthLimitError>() => return Err(Unread::TooLarge),
                Ok(Some(Err(_))) => return Err(Unread::Broken),
                Err(_) if self.came < self.bytes_min || self.judged_at >= self.end => {
                    return Err(Unread::Late);
                }
                Err(_) => (self.judged_at, self.came) = (self.judged_at + self.silence, 0),
            }
        }
        Ok(false)
    }

    /// Bytes that came.
    fn len(&self) -> usize {
        self.bytes.len() + self.next.len()
    }

    /// Keeps what came last. Left to itself a vector doubles, also beyond the room.
    fn keep(&mut self, room: usize) {
        if self.len() > self.bytes.capacity() {
            let capacity = self.len().max((2 * self.bytes.capacity()).min(room));
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(&std::mem::take(&mut self.next));
    }

    /// The client was not read meanwhile: its time begins anew.
    fn resume(&mut self) {
        (self.judged_at, self.came) = (Instant::now() + self.silence, 0);
    }
}

/// A body that said how long it is, with room for so many bytes.
///
/// # Errors
/// Why it is not there.
pub async fn read(body: Limited<Incoming>, length: usize, limits: &Limits) -> Result<Vec<u8>, Unread> {
    let mut reading = Reading::new(body, limits.silence_ms_max, limits.body_bytes_min, limits);
    match reading.go_on(length).await? {
        true => Ok(reading.bytes),
        false => Err(Unread::TooLarge),
    }
}

/// A body that did not, and its room if it is large.
///
/// # Errors
/// Why it is not there.
pub async fn read_unknown(
    body: Limited<Incoming>,
    limits: &Limits,
    room: &Arc<BodyRoom>,
    asker: &Asker,
) -> Result<(Vec<u8>, Option<Piece>), Unread> {
    let patience = || Instant::now() + Duration::from_millis(limits.silence_ms_max);
    let (silence_ms, bytes_min) = (limits.unknown_body_ms_max, limits.unknown_body_bytes_min);
    let mut reading = Reading::new(body, silence_ms, bytes_min, limits);
    if reading.go_on(limits.first_body_bytes_max).await? {
        return Ok((reading.bytes, None));
    }
    let most = limits.body_bytes_max.min(limits.bodies_bytes_max);
    let mut piece = room.take_unknown(asker, patience()).await?;
    loop {
        piece.grow(reading.len(), most, patience()).await?;
        reading.resume();
        if reading.go_on(piece.bytes).await? {
            return Ok((reading.bytes, Some(piece)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_twofold_where_there_is_so_much_and_never_beyond_the_largest_body() {
        const ALL: usize = 1 << 20;
        let limits =
            Limits { bodies_bytes_max: ALL, body_bytes_max: ALL, user_share: 1, ..Limits::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("is made");
        runtime.block_on(async {
            let (room, asker) = (BodyRoom::new(&limits), Asker::User("a".into()));
            let now = || Instant::now();
            let mut piece = room.take_unknown(&asker, now()).await.expect("is free");
            for (length, expected) in [
                (1, 1 + STEP),
                (STEP, 1 + STEP),
                (2 + STEP, 2 + 2 * STEP),
                (3 + 2 * STEP, 4 + 4 * STEP),
                (5 + 4 * STEP, 8 + 8 * STEP),
                // Twice as much would be more than a body has.
                (9 + 8 * STEP, ALL),
            ] {
                piece.grow(length, ALL, now()).await.expect("is free");
                assert_eq!((piece.bytes, room.bytes().used()), (expected, expected), "{length}");
            }
            drop(piece);
            // Where somebody else has the most, it grows by what it needs, and then not at all.
            let mut piece = room.take_unknown(&asker, now()).await.expect("is free");
            piece.grow(4 * STEP, ALL, now()).await.expect("is free");
            let other = Asker::User("b".into());
            let _other = room.take(&other, 9 * STEP, now()).await.map_err(drop).expect("is free");
            piece.grow(5 * STEP + 1, ALL, now()).await.expect("is free");
            assert_eq!(piece.bytes, 5 * STEP + 1);
            piece.grow(7 * STEP, ALL, now()).await.expect("is free");
            let found = piece.grow(7 * STEP + 1, ALL, now()).await;
            assert_eq!((found, piece.bytes), (Err(Unread::NoRoom(Short::Pool)), 7 * STEP));
        });
    }
}
