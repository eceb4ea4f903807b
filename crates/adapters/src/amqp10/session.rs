//! The sessions of a connection, each with its publisher, its links and what waits.

use super::link::Link;
use super::watched::Watched;
use super::windows::Windows;
use ::amqp10::{LinkId, Room, SessionId};
use broker::Publisher;

/// A session of the connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    /// Its own among all sessions the connection ever had: the number of its publisher.
    pub(super) handle: u32,
    pub(super) publisher: Publisher,
    /// By the machine's link number; few, so a list.
    pub(super) links: Vec<Link>,
    /// Deliveries that wait for the broker, in order: which link's they are.
    pub(super) unconfirmed: Windows,
    /// Queues whose end its senders are to hear of.
    pub(super) watched: Option<Box<Watched>>,
    /// The room it had when its consumers were told last: those that it has no room for pause.
    pub(super) room: Room,
}

impl Session {
    /// One without links.
    pub(super) fn new(id: SessionId, handle: u32, publisher: Publisher) -> Session {
        Session {
            id,
            handle,
            publisher,
            links: Vec::new(),
            unconfirmed: Windows::default(),
            watched: None,
            room: Room::Anything,
        }
    }

    pub(super) fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.id == id)
    }

    /// Bytes of memory, its own included.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Session>()
            + self.publisher.heap_bytes()
            + self.links.capacity() * size_of::<Link>()
            + self.links.iter().map(|link| link.particulars.heap_bytes()).sum::<usize>()
            + self.unconfirmed.heap_bytes()
            + self.watched.as_ref().map_or(0, |watched| watched.heap_bytes())
    }
}

/// The sessions of a connection, in the order in which they began: few, so a list.
#[derive(Debug, Default)]
pub(super) struct Sessions(
    #[allow(clippy::vec_box, reason = "a list that grew would hold room for sessions that never come")]
    Vec<Box<Session>>,
);

impl Sessions {
    /// A session begins.
    pub(super) fn add(&mut self, session: Session) {
        self.0.push(Box::new(session));
    }

    /// The session of this number in the machine.
    #[inline]
    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        self.iter().find(|session| session.id == id)
    }

    /// As [`Sessions::get`], to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.iter_mut().find(|session| session.id == id)
    }

    /// The session whose publisher has this handle.
    #[inline]
    pub(super) fn of_publisher(&mut self, handle: u32) -> Option<&mut Session> {
        self.iter_mut().find(|session| session.handle == handle)
    }

    /// A session is over.
    pub(super) fn remove(&mut self, id: SessionId) {
        self.0.retain(|session| session.id != id);
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.0.iter().map(|session| &**session)
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.0.iter_mut().map(|session| &mut **session)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
