//! Requests to the catalog, and their outcomes.

use super::QueueType;
use super::change::Change;
use super::definition::{QueueDefinition, VhostAbout, VhostId};
use super::limits::{UserLimits, VhostLimits};
use super::policy::PolicyKind;
use crate::access::PasswordHash;
use base::id::{PortId, QueueId};
use routing::Arguments;
use std::sync::Arc;

/// The requester: its user, virtual host and connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The user, whose permissions count.
    pub user: Arc<str>,
    /// The virtual host the connection opened.
    pub vhost: VhostId,
    /// The connection: the owner of the exclusive queues it declares.
    pub port: PortId,
    /// The broker itself: permissions are not asked.
    pub is_internal: bool,
    /// A connection that the node opened for a request over HTTP or by the tools.
    pub is_tool: bool,
}

impl Actor {
    /// A connection that logged in as `user` and opened `vhost`.
    pub fn new(user: Arc<str>, vhost: VhostId, port: PortId) -> Actor {
        Actor { user, vhost, port, is_internal: false, is_tool: false }
    }

    /// The broker itself, in the course of something `port` did.
    pub fn internal(vhost: VhostId, port: PortId) -> Actor {
        Actor { user: "".into(), vhost, port, is_internal: true, is_tool: true }
    }
}

/// A request. Names are at most 255 bytes; the default exchange's is empty.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Have an exchange like this.
    DeclareExchange {
        /// Its name.
        name: Box<str>,
        /// Its type: `direct`, `fanout`, `topic`, `headers`.
        kind: Box<str>,
        /// Only see whether it is there.
        passive: bool,
        /// It survives a restart.
        durable: bool,
        /// It goes with the last binding from it.
        auto_delete: bool,
        /// Clients may not publish to it.
        internal: bool,
        /// All other arguments.
        arguments: Arguments,
    },
    /// Have no exchange of this name.
    DeleteExchange {
        /// Its name.
        name: Box<str>,
        /// Only when no binding is from it.
        if_unused: bool,
    },
    /// Have a queue like this.
    DeclareQueue {
        /// Its name; empty: one that the server makes up.
        name: Box<str>,
        /// Only see whether it is there.
        passive: bool,
        /// It survives a restart.
        durable: bool,
        /// It is for this connection alone and goes with it.
        exclusive: bool,
        /// It goes with the last of its consumers.
        auto_delete: bool,
        /// All other arguments.
        arguments: Arguments,
        /// Secret bytes for a server-made name.
        random: [u8; 16],
    },
    /// Have a super stream: an exchange with streams bound to it, all of it or nothing. Where any of that is there nothing is
    /// changed.
    MakeSuperStream {
        /// The exchange's name.
        name: Box<str>,
        /// Its streams, in order, and the keys they are bound by.
        partitions: Vec<(Box<str>, Box<str>)>,
        /// Of each stream.
        arguments: Arguments,
    },
    /// Have no such queue. Its owner has checked what it holds and who consumes.
    DeleteQueue {
        /// The queue.
        id: QueueId,
    },
    /// A connection is gone, and its exclusive queues with it.
    DeleteExclusive {
        /// The connection.
        port: PortId,
    },
    /// Have a binding from an exchange to a queue.
    BindQueue {
        /// The queue.
        queue: Box<str>,
        /// The exchange.
        exchange: Box<str>,
        /// The binding's key.
        key: Box<str>,
        /// The binding's arguments.
        arguments: Arguments,
    },
    /// Have no such binding.
    UnbindQueue {
        /// The queue.
        queue: Box<str>,
        /// The exchange.
        exchange: Box<str>,
        /// The binding's key.
        key: Box<str>,
        /// The binding's arguments.
        arguments: Arguments,
    },
    /// Have a binding from an exchange to another.
    BindExchange {
        /// Where messages come from.
        source: Box<str>,
        /// Where they go.
        destination: Box<str>,
        /// The binding's key.
        key: Box<str>,
        /// The binding's arguments.
        arguments: Arguments,
    },
    /// Have no such binding.
    UnbindExchange {
        /// Where messages come from.
        source: Box<str>,
        /// Where they go.
        destination: Box<str>,
        /// The binding's key.
        key: Box<str>,
        /// The binding's arguments.
        arguments: Arguments,
    },
    /// Have a virtual host of this name.
    AddVhost {
        /// Its name.
        name: Box<str>,
        /// Its first content, if it is new.
        defaults: VhostDefaults,
    },
    /// Change what is said of a virtual host; none: as it was.
    UpdateVhost {
        /// Its name.
        name: Box<str>,
        /// Its purpose.
        description: Option<Box<str>>,
        /// Words to find it by, all of them.
        tags: Option<Vec<Box<str>>>,
        /// The type of queues that are declared without one.
        queue_type: Option<QueueType>,
        /// It cannot be deleted.
        is_protected: Option<bool>,
    },
    /// Have no such virtual host.
    DeleteVhost {
        /// Its name.
        name: Box<str>,
    },
    /// Make a user.
    AddUser {
        /// The name.
        name: Box<str>,
        /// How to log in; without, nobody can with a password.
        password: Option<PasswordHash>,
        /// The user's tags.
        tags: Vec<Box<str>>,
    },
    /// Have no such user.
    DeleteUser {
        /// The name.
        name: Box<str>,
    },
    /// Change how a user logs in.
    ChangePassword {
        /// The name.
        name: Box<str>,
        /// How to log in from now on; without, nobody can with a password.
        password: Option<PasswordHash>,
    },
    /// Change what a user is.
    SetUserTags {
        /// The name.
        name: Box<str>,
        /// The user's tags from now on.
        tags: Vec<Box<str>>,
    },
    /// Change what a user may do in a virtual host. The patterns are regular expressions over names.
    SetPermissions {
        /// The user.
        user: Box<str>,
        /// The virtual host.
        vhost: Box<str>,
        /// Names that may be made and deleted.
        configure: Box<str>,
        /// Names that may be written to.
        write: Box<str>,
        /// Names that may be read from.
        read: Box<str>,
    },
    /// Take a user's access to a virtual host away.
    ClearPermissions {
        /// The user.
        user: Box<str>,
        /// The virtual host.
        vhost: Box<str>,
    },
    /// Have a policy like this.
    SetPolicy {
        /// Users' or operator's.
        kind: PolicyKind,
        /// The virtual host.
        vhost: Box<str>,
        /// Its name.
        name: Box<str>,
        /// A regular expression over the names of what it applies to.
        pattern: Box<str>,
        /// The objects it applies to: `all`, `queues`, `classic_queues`, `quorum_queues`, `streams`, `exchanges`.
        apply_to: Box<str>,
        /// Of several that apply the highest counts.
        priority: i64,
        /// Keys and their values.
        definition: Arguments,
    },
    /// Have no such policy.
    ClearPolicy {
        /// Users' or operator's.
        kind: PolicyKind,
        /// The virtual host.
        vhost: Box<str>,
        /// Its name.
        name: Box<str>,
    },
    /// Change which topics of an exchange a user may publish to and bind.
    SetTopicPermissions {
        /// The user.
        user: Box<str>,
        /// The virtual host.
        vhost: Box<str>,
        /// The exchange.
        exchange: Box<str>,
        /// Pattern over the keys to publish with.
        write: Box<str>,
        /// Pattern over the keys to bind with.
        read: Box<str>,
    },
    /// Let a user publish to and bind all topics.
    ClearTopicPermissions {
        /// The user.
        user: Box<str>,
        /// The virtual host.
        vhost: Box<str>,
        /// Of this exchange; none: of all.
        exchange: Option<Box<str>>,
    },
    /// Change what a virtual host may have at most.
    SetVhostLimits {
        /// The virtual host.
        vhost: Box<str>,
        /// All its limits from now on.
        limits: VhostLimits,
    },
    /// Have a parameter of the whole node.
    SetParameter {
        /// Its name.
        name: Box<str>,
        /// JSON; none: it is to be gone.
        value: Option<Box<str>>,
    },
    /// Have a parameter of a virtual host.
    SetVhostParameter {
        /// The virtual host.
        vhost: Box<str>,
        /// The component it belongs to.
        component: Box<str>,
        /// Its name, among those of its component.
        name: Box<str>,
        /// JSON; none: it is to be gone.
        value: Option<Box<str>>,
    },
    /// Tell what happens to the messages of a virtual host, or stop to.
    Trace {
        /// The virtual host.
        vhost: Box<str>,
        /// Tell it.
        on: bool,
    },
    /// Change what a user may have at most.
    SetUserLimits {
        /// The user.
        user: Box<str>,
        /// All the user's limits from now on.
        limits: UserLimits,
    },
}

/// The first content of a new virtual host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VhostDefaults {
    /// The type of queues that are declared without one.
    pub queue_type: QueueType,
    /// Its limits.
    pub limits: VhostLimits,
    /// The operator's policies.
    pub operator_policies: Vec<DefaultPolicy>,
    /// Users that may use it; those that are not there yet are made with it.
    pub users: Vec<DefaultUser>,
    /// Its description.
    pub about: VhostAbout,
    /// The event exchange is made in it, if it is nowhere yet.
    pub tells_events: bool,
}

/// An operator's policy of a new virtual host; its priority is 0.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultPolicy {
    /// Its name.
    pub name: Box<str>,
    /// A regular expression over the names of what it applies to.
    pub pattern: Box<str>,
    /// The objects it applies to, as in [`Op::SetPolicy`].
    pub apply_to: Box<str>,
    /// Keys and their values.
    pub definition: Arguments,
}

/// A user of a new virtual host.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultUser {
    /// Its name.
    pub name: Box<str>,
    /// Its password; `None`: it has none. Who is there already keeps password and tags.
    pub password: Option<PasswordHash>,
    /// Its tags.
    pub tags: Vec<Box<str>>,
    /// Expression over the names it may configure.
    pub configure: Box<str>,
    /// Expression over the names it may write to.
    pub write: Box<str>,
    /// Expression over the names it may read from.
    pub read: Box<str>,
}

/// The outcome of a request that is granted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// To be applied in this order, and the durable ones of them logged; none when all is as requested already.
    pub changes: Vec<Change>,
    /// The queue that was declared.
    pub queue: Option<Arc<QueueDefinition>>,
    /// The things that go, and what later plans are for.
    pub removed: Removed,
}

/// The part of a removal that one plan is for, and what it leaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removed {
    /// Bindings that go, objects counting for more.
    pub count: usize,
    /// When that is applied, the same request is to be planned again.
    pub is_more: bool,
    /// Requests for exchanges that go with their last binding and are much work themselves, in the name of the broker.
    pub exchanges: Vec<Op>,
}
