//! A refusal of the ledger: the account that has no room, its bound, and the key that raises it.

use crate::catalog::{Object, Reason, Refusal, ReplyCode};
use std::fmt;
use std::sync::Arc;

/// The bound that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Of one connection.
    Connection,
    /// The share of a user while other users are connected.
    User,
    /// The share of a user while no other is connected.
    LoneUser,
    /// A limit that was set for this user.
    UserLimit,
    /// The share of a virtual host.
    Vhost,
    /// A limit that was set for this virtual host.
    VhostLimit,
    /// Of the node: its memory watermark.
    Node,
}

impl Bound {
    /// The bound in words, for where no account can be told.
    pub fn text(self) -> &'static str {
        match self {
            Bound::Connection => {
                "the connection holds as much memory as it may (leveret.connection_memory_max)"
            }
            Bound::User => "the user holds as much memory as it may (leveret.user_memory_share)",
            Bound::LoneUser => "the user holds as much memory as it may (leveret.lone_user_memory_share)",
            Bound::UserLimit => "the user holds as much memory as its limit max-memory-bytes says",
            Bound::Vhost => "the vhost holds as much memory as it may (leveret.vhost_memory_share)",
            Bound::VhostLimit => "the vhost holds as much memory as its limit max-memory-bytes says",
            Bound::Node => "connections hold as much memory as the node may use (vm_memory_high_watermark)",
        }
    }

    /// The key of the configuration, or the limit, that raises it.
    pub fn key(self) -> &'static str {
        match self {
            Bound::Connection => "leveret.connection_memory_max",
            Bound::User => "leveret.user_memory_share",
            Bound::LoneUser => "leveret.lone_user_memory_share",
            Bound::UserLimit => "limit max-memory-bytes of the user",
            Bound::Vhost => "leveret.vhost_memory_share",
            Bound::VhostLimit => "limit max-memory-bytes of the vhost",
            Bound::Node => "vm_memory_high_watermark",
        }
    }
}

/// There is no room for more bytes in an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    /// The bound that was reached.
    pub bound: Bound,
    /// The user or virtual host; empty for a connection and for the node.
    pub name: Arc<str>,
    /// Bytes that the account holds.
    pub held: u64,
    /// Bytes that it may hold.
    pub most: u64,
}

impl Full {
    /// The refusal of `what`, as `message body of 7 bytes`, with the code that the protocol has for it.
    #[cold]
    pub fn refuse(&self, code: ReplyCode, what: &str) -> Refusal {
        Refusal::new(code, Reason::LimitReached(self.object()), format!("no memory for {what}: {self}"))
    }

    /// The object that has no room.
    fn object(&self) -> Object {
        match self.bound {
            Bound::Connection | Bound::Node => Object::Connection,
            Bound::User | Bound::LoneUser | Bound::UserLimit => Object::User,
            Bound::Vhost | Bound::VhostLimit => Object::VirtualHost,
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Full { bound, name, held, most } = self;
        match bound {
            Bound::Connection => f.write_str("connection")?,
            Bound::User | Bound::LoneUser | Bound::UserLimit => write!(f, "user '{name}'")?,
            Bound::Vhost | Bound::VhostLimit => write!(f, "vhost '{name}'")?,
            Bound::Node => f.write_str("node")?,
        }
        write!(f, " holds {held} of at most {most} bytes ({})", bound.key())
    }
}

impl std::error::Error for Full {}
