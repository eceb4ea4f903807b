//! A session of a connection: its publisher, its links and what waits.

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
