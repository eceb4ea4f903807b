//! One change of the catalog: what is logged, sent to every shard, and applied by all in one order.
//!
//! Encoded as `docs/formats/catalog.md` says; definitions are shared, so that a change costs each shard a pointer.

use super::definition::{
    Binding, ExchangeDefinition, PermissionDefinition, QueueDefinition, TopicPermissionDefinition,
    UserDefinition, VhostDefinition, VhostId,
};
use super::limits::{UserLimits, VhostLimits};
use super::policy::{PolicyDefinition, PolicyKind};
use super::ruled::Ruled;
use super::wish_id::WishId;
use base::DigestKey;
use base::id::{NodeNo, QueueId};
use routing::ExchangeId;
use std::sync::Arc;

/// A change. Each names what it makes or removes; nothing in it depends on the shard that applies it.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Queue numbers below this may have been given out. Logged ahead of use, in blocks, so that the number of a
    /// transient queue, which is not logged, is not given out again after a restart: old records may name it.
    ReserveQueueIds {
        /// The first number not reserved.
        below: u64,
        /// Read back from a log or snapshot: how many of them were given out is not known, so all count as used.
        may_be_used: bool,
    },
    /// A virtual host is there. Its exchanges follow as changes of their own.
    AddVhost(Arc<VhostDefinition>),
    /// A virtual host is another than before.
    SetVhost(Arc<VhostDefinition>),
    /// A virtual host is gone with everything in it.
    DeleteVhost(VhostId),
    /// A user is there, or is another than before.
    SetUser(Arc<UserDefinition>),
    /// A user is gone with all permissions.
    DeleteUser(Arc<str>),
    /// A user has these permissions in a virtual host.
    SetPermissions(Arc<PermissionDefinition>),
    /// A user has no access to a virtual host.
    ClearPermissions {
        /// The virtual host.
        vhost: VhostId,
        /// The user.
        user: Arc<str>,
    },
    /// A user has these permissions on the topics of an exchange.
    SetTopicPermissions(Arc<TopicPermissionDefinition>),
    /// A user has none on the topics of an exchange, so that permissions over names count alone.
    ClearTopicPermissions {
        /// The virtual host.
        vhost: VhostId,
        /// The user.
        user: Arc<str>,
        /// The exchange's name.
        exchange: Box<str>,
    },
    /// A virtual host may have so much.
    SetVhostLimits {
        /// The virtual host.
        vhost: VhostId,
        /// All its limits.
        limits: VhostLimits,
    },
    /// A user may have so much.
    SetUserLimits {
        /// The user.
        user: Arc<str>,
        /// All the user's limits.
        limits: UserLimits,
    },
    /// A policy is there, or is another than before.
    SetPolicy(Arc<PolicyDefinition>),
    /// A policy is gone.
    ClearPolicy {
        /// Its virtual host.
        vhost: VhostId,
        /// Users' or operator's.
        kind: PolicyKind,
        /// Its name.
        name: Box<str>,
    },
    /// Other policies count for objects, or will for those that are about to be added. Not logged: it follows from the
    /// policies.
    Govern {
        /// The virtual host.
        vhost: VhostId,
        /// The objects, and the places of their policies among those that there are when this is applied.
        objects: Arc<[Ruled]>,
    },
    /// An exchange is there.
    AddExchange(Arc<ExchangeDefinition>),
    /// An exchange is gone with the bindings at either end of it.
    DeleteExchange {
        /// The exchange.
        id: ExchangeId,
        /// It was durable.
        durable: bool,
    },
    /// A queue is there.
    AddQueue(Arc<QueueDefinition>),
    /// A queue is gone with its bindings.
    DeleteQueue {
        /// The queue.
        id: QueueId,
        /// It was durable.
        durable: bool,
    },
    /// A binding is there.
    Bind(Arc<Binding>),
    /// A binding is gone.
    Unbind(Arc<Binding>),
    /// The key of all digests that are recorded: the first change of a catalog, and once for all.
    SetDigestKey(DigestKey),
    /// A parameter of the whole node has this value, or is gone.
    SetParameter {
        /// Its name.
        name: Box<str>,
        /// JSON; none: it is gone.
        value: Option<Box<str>>,
    },
    /// A parameter of a virtual host has this value, or is gone.
    SetVhostParameter {
        /// The virtual host.
        vhost: VhostId,
        /// The component it belongs to: `shovel`, `federation-upstream`.
        component: Box<str>,
        /// Its name, among those of its component.
        name: Box<str>,
        /// JSON; none: it is gone.
        value: Option<Box<str>>,
    },
    /// Messages of a virtual host are traced at its exchange for that, or no longer. Not logged: a restart
    /// ends it.
    Trace {
        /// The virtual host.
        vhost: VhostId,
        /// It is told.
        on: bool,
    },
    /// A message went through an exchange that remembers. Known to the shard that plans alone.
    Remember {
        /// The exchange.
        exchange: ExchangeId,
        /// The exchange is durable.
        durable: bool,
        /// Counts what the exchange remembered, from 1.
        number: u64,
        /// A record of the kind enqueue, for no queue.
        message: Arc<[u8]>,
    },
    /// A node has started that agrees on the catalog with others.
    NodeUp {
        /// The node.
        node: NodeNo,
        /// Which of its starts; those before it are over.
        incarnation: u64,
    },
    /// A node's wish is done by the changes before this.
    WishDone {
        /// The wish.
        wish: WishId,
        /// The node knows the outcomes of all its wishes below this.
        below: u64,
        /// The queue that it was about, if it was about one.
        queue: Option<QueueId>,
    },
    /// Queues with numbers below this were added, be they there or gone. Only in snapshots of a catalog that nodes agree
    /// on: what is added later says so itself.
    QueuesAdded {
        /// The first number that none had.
        below: u64,
    },
}

impl Change {
    /// Whether it must be logged: what it is about survives a restart.
    pub fn is_durable(&self) -> bool {
        match self {
            Change::AddExchange(exchange) => exchange.durable,
            Change::AddQueue(queue) => queue.is_recorded(),
            Change::DeleteExchange { durable, .. }
            | Change::DeleteQueue { durable, .. }
            | Change::Remember { durable, .. } => *durable,
            Change::Bind(binding) | Change::Unbind(binding) => binding.durable,
            Change::Trace { .. } | Change::Govern { .. } => false,
            Change::ReserveQueueIds { .. }
            | Change::AddVhost(_)
            | Change::SetVhost(_)
            | Change::DeleteVhost(_)
            | Change::SetUser(_)
            | Change::DeleteUser(_)
            | Change::SetPermissions(_)
            | Change::ClearPermissions { .. }
            | Change::SetTopicPermissions(_)
            | Change::ClearTopicPermissions { .. }
            | Change::SetVhostLimits { .. }
            | Change::SetUserLimits { .. }
            | Change::SetPolicy(_)
            | Change::SetParameter { .. }
            | Change::SetDigestKey(_)
            | Change::SetVhostParameter { .. }
            | Change::NodeUp { .. }
            | Change::WishDone { .. }
            | Change::QueuesAdded { .. }
            | Change::ClearPolicy { .. } => true,
        }
    }

    /// Whether something that survives a restart comes by it, of the kinds that clients make without end.
    pub fn is_coming(&self) -> bool {
        match self {
            Change::AddVhost(_) => true,
            Change::AddExchange(_) | Change::AddQueue(_) | Change::Bind(_) => self.is_durable(),
            _ => false,
        }
    }
}

/// Something that a shard must react to after a change.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// A queue is there now.
    QueueCreated(Arc<QueueDefinition>),
    /// A queue is gone.
    QueueDeleted(Arc<QueueDefinition>),
    /// A queue goes by other rules than before: see [`super::Catalog::rules`].
    RulesChanged(Arc<QueueDefinition>),
    /// Messages of a virtual host are traced, or no longer: see [`super::Catalog::is_traced`].
    Traced(VhostId),
    /// A virtual host is gone; its queues were told of before.
    VhostDeleted(Arc<VhostDefinition>),
    /// A user is gone.
    UserDeleted(Arc<str>),
}
