//! A connection that leaves a shard for another one, and what of it the broker knows.
//!
//! Only one that has nothing here but itself leaves: no consumer, no queue of its own, nothing under way. What happened to
//! the catalog between its leaving and its coming is told to it when it comes.

use crate::catalog::{Actor, Object, Reason, Refusal, ReplyCode};
use crate::event::Event;
use crate::publisher::Publisher;
use crate::shard::{Port, Shard};
use base::id::{LogId, PortId, ShardId};

/// What the broker knew of a connection that is between two shards.
#[derive(Debug)]
pub struct Leaver(Port);

impl Publisher {
    /// The one other shard that all its messages go to so far, if there is one: the owner of their only log.
    pub fn home(&self, shard: &Shard) -> Option<ShardId> {
        let placement = shard.settings.placement;
        let mut owners = self.logs().map(|log| placement.owner(log));
        let home = owners.next()?;
        (home != shard.settings.id && owners.all(|owner| owner == home)).then_some(home)
    }
}

impl Shard {
    /// The owner of `log`, where that is another shard.
    pub fn other_owner(&self, log: LogId) -> Option<ShardId> {
        Some(self.settings.placement.owner(log)).filter(|owner| *owner != self.settings.id)
    }

    /// The connection has nothing here that keeps it.
    pub fn may_leave(&self, port: PortId) -> bool {
        self.ports.get(&port).is_some_and(Port::is_light)
    }

    /// The connection leaves; `None` where something keeps it.
    pub fn release_port(&mut self, port: PortId) -> Option<Leaver> {
        if !self.may_leave(port) {
            return None;
        }
        self.ports.remove(&port).map(Leaver)
    }

    /// A connection that left another shard is at home here, and goes by `port` from now on. It is told of what it missed.
    pub fn adopt_port(&mut self, port: PortId, Leaver(mut state): Leaver) {
        state.actor.port = port;
        let Actor { user, vhost, is_internal, .. } = state.actor.clone();
        let is_nameless = state.name.is_none();
        self.ports.insert(port, state);
        if self.catalog.is_traced(vhost) && is_nameless {
            self.post.event(port, Event::Introduce);
        }
        let gone = match self.catalog.vhost_definition(vhost) {
            None => Some((Object::VirtualHost, "its vhost is deleted".to_owned())),
            // The node's own name is no user's.
            Some(_) if is_internal => None,
            Some(_) => self
                .catalog
                .user(&user)
                .is_none()
                .then(|| (Object::User, format!("user '{user}' is deleted"))),
        };
        if let Some((object, text)) = gone {
            let refusal = Refusal::new(ReplyCode::ConnectionForced, Reason::Deleted(object), text);
            self.post.event(port, Event::Close { refusal });
        }
    }
}
