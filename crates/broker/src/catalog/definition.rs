//! Definitions, the things of the catalog: unchanging once made, shared between the shards' copies.

use super::QueueType;
use crate::access::{PasswordHash, Permissions};
use base::id::{LogId, PortId, QueueId};
use routing::{Arguments, ExchangeId, Kind};
use std::sync::Arc;

/// A virtual host of this catalog; never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VhostId(pub u32);

/// A virtual host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VhostDefinition {
    /// Its number.
    pub id: VhostId,
    /// Its name.
    pub name: Arc<str>,
    /// The type of queues that are declared without one, where what else they are allows it.
    pub default_queue_type: QueueType,
    /// For people and their tools; few have any.
    pub about: Option<Box<VhostAbout>>,
}

impl VhostDefinition {
    /// Its description and the like.
    pub fn about(&self) -> VhostAbout {
        self.about.as_deref().cloned().unwrap_or_default()
    }
}

/// An administrator's description of a virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VhostAbout {
    /// Its purpose, in words.
    pub description: Box<str>,
    /// Words to find it by.
    pub tags: Vec<Box<str>>,
    /// It cannot be deleted.
    pub is_protected: bool,
}

impl VhostAbout {
    /// As a definition holds it.
    pub(super) fn boxed(self) -> Option<Box<VhostAbout>> {
        (self != VhostAbout::default()).then(|| Box::new(self))
    }
}

/// A queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueDefinition {
    /// Its number.
    pub id: QueueId,
    /// Its virtual host.
    pub vhost: VhostId,
    /// The name of its virtual host.
    pub vhost_name: Arc<str>,
    /// Its name, at most 255 bytes.
    pub name: Box<str>,
    /// The log it is placed on.
    pub log: LogId,
    /// Its type.
    pub queue_type: QueueType,
    /// It survives a restart, unless it is exclusive.
    pub durable: bool,
    /// The connection it belongs to and goes with.
    pub exclusive: Option<PortId>,
    /// It goes with the last of its consumers.
    pub auto_delete: bool,
    /// The user that declared it, where that is known; queues of one user share the name.
    pub declared_by: Option<Arc<str>>,
    /// As they were declared.
    pub arguments: Arguments,
}

impl QueueDefinition {
    /// `queue 'q' in vhost '/'`, as error texts have it.
    pub fn named(&self) -> String {
        format!("queue '{}' in vhost '{}'", self.name, self.vhost_name)
    }

    /// It survives a restart: an exclusive queue cannot outlive its connection, whatever was asked for.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.durable && self.exclusive.is_none()
    }

    /// Whether a majority commits it, and every message in it is durable.
    #[inline]
    pub fn is_quorum(&self) -> bool {
        self.queue_type == QueueType::Quorum
    }

    /// Whether its messages survive a restart, transient ones apart.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.durable || self.is_quorum()
    }

    /// Whether it is a stream: its messages stay.
    #[inline]
    pub fn is_stream(&self) -> bool {
        self.queue_type == QueueType::Stream
    }

    /// Whether every message in it is durable, whatever its publisher says.
    #[inline]
    pub fn makes_durable(&self) -> bool {
        self.queue_type != QueueType::Classic
    }

    /// Whether a connection may use it at all: it is nobody's, or this one's.
    #[inline]
    pub fn is_open_to(&self, port: PortId) -> bool {
        self.exclusive.is_none_or(|owner| owner == port)
    }
}

#[cfg(test)]
impl QueueDefinition {
    /// A durable classic queue of this number: `q` in virtual host `/`, on log 0, without arguments.
    pub(crate) fn sample(id: u64) -> QueueDefinition {
        QueueDefinition {
            id: QueueId(id),
            vhost: VhostId(0),
            vhost_name: "/".into(),
            name: "q".into(),
            log: LogId(0),
            queue_type: QueueType::Classic,
            durable: true,
            exclusive: None,
            auto_delete: false,
            declared_by: None,
            arguments: Arguments::default(),
        }
    }
}

/// An exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeDefinition {
    /// Its number.
    pub id: ExchangeId,
    /// Its virtual host.
    pub vhost: VhostId,
    /// Its name, at most 255 bytes; empty: the default exchange.
    pub name: Box<str>,
    /// How it routes.
    pub kind: Kind,
    /// It survives a restart.
    pub durable: bool,
    /// It goes with the last binding from it.
    pub auto_delete: bool,
    /// Clients may not publish to it.
    pub internal: bool,
    /// The user that declared it, where that is known; exchanges and queues of one user share the name.
    pub declared_by: Option<Arc<str>>,
    /// As they were declared.
    pub arguments: Arguments,
}

/// One end of a binding: what messages go to.
pub use routing::Destination;

/// A binding.
#[derive(Debug, PartialEq)]
pub struct Binding {
    /// Where messages come from.
    pub source: ExchangeId,
    /// Where they go.
    pub destination: Destination,
    /// Its key, at most 255 bytes; tables of exchanges have it too.
    pub key: Arc<str>,
    /// Its arguments.
    pub arguments: Arguments,
    /// Both ends are durable.
    pub durable: bool,
}

impl Binding {
    /// An exchange's binding as a thing to look for.
    pub(crate) fn of(source: ExchangeId, binding: routing::Binding) -> Arc<Binding> {
        Arc::new(Binding {
            source,
            destination: binding.destination,
            key: str::from_utf8(&binding.key).expect("keys were strings").into(),
            arguments: binding.arguments,
            durable: false,
        })
    }

    /// The same, which is not recorded when it goes.
    pub(super) fn unrecorded(&self) -> Binding {
        let Binding { source, destination, key, arguments, .. } = self;
        let (source, destination) = (*source, *destination);
        Binding { source, destination, key: key.clone(), arguments: arguments.clone(), durable: false }
    }
}

/// A user.
#[derive(Debug, PartialEq)]
pub struct UserDefinition {
    /// The name.
    pub name: Arc<str>,
    /// Without one, nobody can log in with a password as this user.
    pub password: Option<PasswordHash>,
    /// `administrator`, `monitoring`, ...
    pub tags: Vec<Box<str>>,
}

impl UserDefinition {
    /// Whether the user carries `tag`.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| &**own == tag)
    }
}

/// Permissions of a user on the topics of an exchange.
#[derive(Debug, PartialEq)]
pub struct TopicPermissionDefinition {
    /// The virtual host.
    pub vhost: VhostId,
    /// The user.
    pub user: Arc<str>,
    /// The exchange's name.
    pub exchange: Box<str>,
    /// The pattern over keys to publish with, its variables not replaced.
    pub write: Box<str>,
    /// The pattern over keys to bind with, its variables not replaced.
    pub read: Box<str>,
}

/// Permissions of a user in a virtual host.
#[derive(Debug, PartialEq)]
pub struct PermissionDefinition {
    /// The virtual host.
    pub vhost: VhostId,
    /// The user.
    pub user: Arc<str>,
    /// The three patterns.
    pub permissions: Permissions,
}
