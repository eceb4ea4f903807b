//! Virtual hosts, users, permissions, exchanges, queues and bindings: one deterministic value.
//!
//! Every shard holds a copy and routes on it. The copies are equal because the same [`Change`]s are applied to them in
//! the same order; the [planner](crate::planner) [plans](Catalog::plan) them on one more, which is ahead. A change costs
//! what it changes, and what it names is shared between the copies. What is not here: messages, consumers, connections, where a log is.
//!
//! Invariants: numbers are never reused; a binding is known at both its ends; what is durable is what
//! [`Catalog::write_snapshot`] writes; the default exchange has no stored bindings, since it routes by queue name.

mod apply;
mod arguments;
mod change;
mod comings;
mod declarers;
mod definition;
mod effective;
mod ends;
mod first_content;
mod governed;
mod history;
mod limits;
mod macros;
mod memory;
mod misspelt;
mod nodes;
mod numbers;
mod op;
mod parameters;
mod partitions;
mod places;
mod plan;
mod plan_access;
mod plan_binding;
mod plan_exchange;
mod plan_limits;
mod plan_policy;
mod plan_queue;
mod plan_super_stream;
mod plan_topic;
mod policy;
mod policy_keys;
mod queue_type;
mod reason;
mod refusal;
mod removal;
mod retry;
mod route;
mod ruled;
mod sharing;
mod snapshot;
mod source;
mod source_arguments;
mod stream;
mod timed_out;
mod topic_entry;
mod trace;
mod wire;
mod wish_id;

#[cfg(test)]
mod tests;

pub use change::{Applied, Change};
pub use comings::QueueChange;
pub use definition::{
    Binding, Destination, ExchangeDefinition, PermissionDefinition, QueueDefinition,
    TopicPermissionDefinition, UserDefinition, VhostAbout, VhostDefinition, VhostId,
};
pub use effective::{DELIVERY_LIMIT, DeadLetterRule, Overflow, QueueRules};
pub use first_content::FirstContent;
pub use limits::{UserLimits, VhostLimits};
pub use macros::FILTER_MACRO;
pub use memory::Weighed;
pub(crate) use misspelt::Misspelt;
pub use op::{Actor, DefaultPolicy, DefaultUser, Op, Plan, Removed, VhostDefaults};
pub use partitions::PARTITION_ORDER;
pub(crate) use places::QueuesByLog;
pub use places::{CATALOG_LOG, Places};
pub(crate) use plan_exchange::EVENT_EXCHANGE;
pub use plan_policy::check_operator_key;
pub use plan_queue::{MADE_FOR_LINK, generated_name};
pub use policy::{ApplyTo, Matched, PolicyDefinition, PolicyKind};
pub use queue_type::QueueType;
pub use reason::{Object, Reason};
pub use refusal::{Refusal, ReplyCode};
pub(crate) use removal::OBJECT;
pub use ruled::Ruled;
pub use snapshot::BadSnapshot;
pub(crate) use source::{Source, SourceFrom};
pub use stream::{StreamRules, age_ms};
pub use wire::{BadChange, Limits};
pub(crate) use wire::{
    Decoder, arguments_len, put_arguments, put_bytes, put_flags, put_password, put_port, put_tags, put_text,
};
pub use wish_id::WishId;

use crate::access::{Access, Permissions, Resource, refused};
use crate::ranking::Ranking;
use base::DigestKey;
use base::hash::{MapById, SetByBytes, SetById};
use base::id::{NodeNo, PortId, QueueId};
use comings::Comings;
use declarers::Declarers;
use ends::Ends;
use filter::Macros;
use governed::Governed;
use history::History;
use macros::Uses;
use nodes::Nodes;
use partitions::Partitions;
use policy::Policies;
use routing::{Exchange, ExchangeId};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use topic_entry::TopicEntry;

/// Tags of users who may read from the event exchange, beside the permission.
const EVENT_TAGS: [&str; 2] = ["administrator", "monitoring"];

/// Parameters of a virtual host, by component and name: JSON.
type Parameters = BTreeMap<(Box<str>, Box<str>), Box<str>>;

/// An exchange with what is bound to it.
#[derive(Clone, Debug)]
pub struct ExchangeEntry {
    /// The exchange as it was declared.
    pub definition: Arc<ExchangeDefinition>,
    /// Its bindings, made to route.
    pub exchange: Exchange,
    /// The bindings that bring messages to it from other exchanges.
    ends: Ends,
    /// The exchange that takes what this one leads nowhere, by argument or policy.
    alternate: Option<Box<[u8]>>,
    /// The policies that count for it.
    governed: Governed,
    /// The streams that are bound to it.
    partitions: Option<Box<Partitions>>,
    /// The last messages that went through it, if its type remembers them; filled on the planner's shard alone.
    history: Option<Box<History>>,
}

impl ExchangeEntry {
    /// The place among the exchange's streams that a binding gives a stream; `Some(None)`: its bindings give it none. None: it is
    /// not bound.
    pub fn partition_order(&self, stream: QueueId) -> Option<Option<i64>> {
        self.partitions.as_ref()?.order(stream)
    }
}

#[derive(Clone, Debug)]
struct QueueEntry {
    definition: Arc<QueueDefinition>,
    ends: Ends,
    /// The policies that count for it.
    governed: Governed,
}

/// A definition that is found by its name.
#[derive(Debug)]
struct ByName<T>(Arc<T>);

impl<T> Clone for ByName<T> {
    fn clone(&self) -> ByName<T> {
        ByName(self.0.clone())
    }
}

trait Named {
    fn name(&self) -> &[u8];
}

impl Named for QueueDefinition {
    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }
}

impl Named for ExchangeDefinition {
    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }
}

impl<T: Named> Borrow<[u8]> for ByName<T> {
    fn borrow(&self) -> &[u8] {
        self.0.name()
    }
}

impl<T: Named> PartialEq for ByName<T> {
    fn eq(&self, other: &ByName<T>) -> bool {
        self.0.name() == other.0.name()
    }
}

impl<T: Named> Eq for ByName<T> {}

impl<T: Named> Hash for ByName<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name().hash(state);
    }
}

#[derive(Clone, Debug)]
struct Vhost {
    definition: Arc<VhostDefinition>,
    queues: SetByBytes<ByName<QueueDefinition>>,
    exchanges: SetByBytes<ByName<ExchangeDefinition>>,
    permissions: BTreeMap<Arc<str>, Arc<PermissionDefinition>>,
    /// By user, then by exchange.
    topic_permissions: BTreeMap<Arc<str>, BTreeMap<Box<str>, TopicEntry>>,
    policies: Policies,
    /// Of components that are not served, and macros.
    parameters: Parameters,
    /// Those of the parameters that are macros.
    macros: Macros,
    macro_uses: Uses,
}

/// The catalog. See the module's head.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    version: u64,
    access_version: u64,
    comings: Comings,
    vhosts: MapById<VhostId, Vhost>,
    vhost_names: Arc<BTreeMap<Arc<str>, VhostId>>,
    /// The virtual hosts that users have permissions in.
    entered: BTreeMap<Arc<str>, Arc<BTreeSet<VhostId>>>,
    users: BTreeMap<Arc<str>, Arc<UserDefinition>>,
    vhost_limits: MapById<VhostId, VhostLimits>,
    user_limits: BTreeMap<Arc<str>, UserLimits>,
    queues: MapById<QueueId, QueueEntry>,
    declarers: Declarers,
    /// The queues that rank their messages, or know barriers among them.
    rankings: MapById<QueueId, Arc<Ranking>>,
    exchanges: MapById<ExchangeId, ExchangeEntry>,
    /// The policies that count for objects which are about to be added.
    governed_ahead: MapById<Destination, Governed>,
    /// A start worked out which policies are in force.
    knows_policies: bool,
    /// The key of all digests that are recorded; an empty catalog has none yet.
    digest_key: Option<DigestKey>,
    /// Parameters of the whole node, by name.
    parameters: BTreeMap<Box<str>, Box<str>>,
    /// The queues of the connections that have some for themselves.
    exclusive: MapById<PortId, BTreeSet<QueueId>>,
    /// The exchange at which changes are announced.
    event_exchange: Option<ExchangeId>,
    /// Exchanges that delay messages by so long from when they come.
    delaying: usize,
    /// Virtual hosts of which is told what happens to their messages.
    traced: SetById<VhostId>,
    next_vhost: u32,
    next_exchange: u64,
    next_queue: u64,
    /// The first queue number that no logged change has reserved.
    reserved_queues: u64,
    /// Behind the highest number of a queue that was ever added.
    added_below: u64,
    /// Those that agree on it.
    nodes: Nodes,
    /// The node that has this copy, where there are several.
    home: NodeNo,
}

impl Catalog {
    /// Grows with every change that could alter a route or what somebody may do.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Grows with every change that could alter what somebody may do.
    #[inline]
    pub fn access_version(&self) -> u64 {
        self.access_version
    }

    /// The key of all digests that are recorded; none: nothing was ever changed. It is the same wherever the catalog is.
    pub fn digest_key(&self) -> Option<DigestKey> {
        self.digest_key
    }

    /// The expression of a queue that ranks its messages, or knows barriers among them.
    pub(crate) fn ranking(&self, queue: QueueId) -> Option<&Arc<Ranking>> {
        self.rankings.get(&queue)
    }

    /// Grows with every queue that comes or goes.
    pub fn queues_version(&self) -> u64 {
        self.comings.total()
    }

    /// The queues that came and went since there was that version, in their order; none: they are too many to be known.
    pub fn queues_since(&self, version: u64) -> Option<impl Iterator<Item = &QueueChange>> {
        self.comings.since(version)
    }

    // ---- virtual hosts

    /// The virtual host of this name.
    pub fn vhost(&self, name: &str) -> Option<VhostId> {
        self.vhost_names.get(name).copied()
    }

    /// The virtual host of this number.
    pub fn vhost_definition(&self, id: VhostId) -> Option<&Arc<VhostDefinition>> {
        self.host(id).map(|host| &host.definition)
    }

    /// All virtual hosts, by name.
    pub fn vhosts(&self) -> impl Iterator<Item = &Arc<VhostDefinition>> {
        self.vhost_names.values().filter_map(|id| self.vhost_definition(*id))
    }

    #[inline]
    fn host(&self, id: VhostId) -> Option<&Vhost> {
        self.vhosts.get(&id)
    }

    /// The numbers of all virtual hosts, by name: as they are now, and shared.
    pub fn vhost_numbers(&self) -> Arc<BTreeMap<Arc<str>, VhostId>> {
        self.vhost_names.clone()
    }

    /// The virtual hosts that a user has permissions in: as they are now, and shared.
    pub fn vhosts_of(&self, user: &str) -> Arc<BTreeSet<VhostId>> {
        self.entered.get(user).cloned().unwrap_or_default()
    }

    /// The policies of a kind in a virtual host; those that count less come first, as RabbitMQ lists them.
    pub fn policies(
        &self,
        vhost: VhostId,
        kind: PolicyKind,
    ) -> impl DoubleEndedIterator<Item = &Arc<PolicyDefinition>> {
        self.host(vhost).into_iter().flat_map(move |host| host.policies.of(kind)).rev()
    }

    // ---- users and permissions

    /// The user of this name.
    pub fn user(&self, name: &str) -> Option<&Arc<UserDefinition>> {
        self.users.get(name)
    }

    /// All users, by name.
    pub fn users(&self) -> impl Iterator<Item = &Arc<UserDefinition>> {
        self.users.values()
    }

    /// A user's permissions in a virtual host; without an entry the user may do nothing there.
    pub fn permissions(&self, vhost: VhostId, user: &str) -> Option<&Permissions> {
        self.host(vhost)?.permissions.get(user).map(|definition| &definition.permissions)
    }

    /// The permissions of all users in a virtual host, by user.
    pub fn vhost_permissions(&self, vhost: VhostId) -> impl Iterator<Item = &Arc<PermissionDefinition>> {
        self.host(vhost).into_iter().flat_map(|host| host.permissions.values())
    }

    /// Whether the actor may do this with that, in its virtual host. [`crate::access::AccessCache`] remembers it.
    pub fn check_access(&self, actor: &Actor, access: Access, resource: Resource<'_>) -> Result<(), Refusal> {
        if actor.is_internal {
            return Ok(());
        }
        let permissions = self.permissions(actor.vhost, &actor.user);
        if permissions.is_some_and(|permissions| permissions.allow(access, resource))
            && self.may_hear(actor, access, resource)
        {
            return Ok(());
        }
        Err(refused(access, resource, self.vhost_name(actor.vhost), &actor.user))
    }

    /// Whether the resource to be read is not the event exchange, or the actor may hear of all virtual hosts: its user
    /// has one of the tags by which the HTTP API tells of them.
    fn may_hear(&self, actor: &Actor, access: Access, resource: Resource<'_>) -> bool {
        if access != Access::Read || resource != Resource::Exchange(EVENT_EXCHANGE) {
            return true;
        }
        let hears = |user: &Arc<UserDefinition>| EVENT_TAGS.iter().any(|tag| user.has_tag(tag));
        self.user(&actor.user).is_some_and(hears)
    }

    fn vhost_name(&self, id: VhostId) -> &str {
        self.vhost_definition(id).map_or("", |vhost| &vhost.name)
    }

    // ---- exchanges

    /// The exchange of this name; the default one has the empty name.
    #[inline]
    pub fn exchange(&self, vhost: VhostId, name: &[u8]) -> Option<&ExchangeEntry> {
        let definition = &self.host(vhost)?.exchanges.get(name)?.0;
        self.exchanges.get(&definition.id)
    }

    /// The exchange of this number.
    pub fn exchange_by_id(&self, id: ExchangeId) -> Option<&ExchangeEntry> {
        self.exchanges.get(&id)
    }

    pub(crate) fn no_exchange(&self, vhost: VhostId, name: &[u8]) -> Refusal {
        Refusal::missing(Object::Exchange, &String::from_utf8_lossy(name), self.vhost_name(vhost))
    }

    /// `exchange 'e' in vhost '/'`, as error texts have it.
    pub(crate) fn exchange_named(&self, vhost: VhostId, name: &str) -> String {
        format!("exchange '{name}' in vhost '{}'", self.vhost_name(vhost))
    }

    /// How many exchanges there are in all, predeclared ones included; the event exchange is not, as in RabbitMQ without its
    /// plugin.
    pub fn exchange_count(&self) -> usize {
        self.exchanges.len() - usize::from(self.event_exchange.is_some())
    }

    /// There are exchanges that delay messages by so long from when they come (`x-delayed-message`).
    #[inline]
    pub fn has_delaying_exchanges(&self) -> bool {
        self.delaying > 0
    }

    /// The exchange at which changes are announced.
    pub(crate) fn event_exchange(&self) -> Option<ExchangeId> {
        self.event_exchange
    }

    /// All exchanges of a virtual host, by name.
    pub fn exchanges(&self, vhost: VhostId) -> Vec<&Arc<ExchangeDefinition>> {
        let mut all: Vec<_> = self.host(vhost).into_iter().flat_map(|host| &host.exchanges).collect();
        base::brief::sort_by(&mut all, |one, other| one.0.name().cmp(other.0.name()));
        all.into_iter().map(|by_name| &by_name.0).collect()
    }

    // ---- queues

    /// The queue of this name.
    #[inline]
    pub fn queue_by_name(&self, vhost: VhostId, name: &[u8]) -> Option<&Arc<QueueDefinition>> {
        Some(&self.host(vhost)?.queues.get(name)?.0)
    }

    /// The queue of this number.
    #[inline]
    pub fn queue(&self, id: QueueId) -> Option<&Arc<QueueDefinition>> {
        self.queues.get(&id).map(|entry| &entry.definition)
    }

    /// How many queues there are in all.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// All queues, in no order.
    pub fn queues(&self) -> impl Iterator<Item = &Arc<QueueDefinition>> {
        self.queues.values().map(|entry| &entry.definition)
    }

    /// The queues of a virtual host, in no order.
    pub fn vhost_queues(&self, vhost: VhostId) -> impl Iterator<Item = &Arc<QueueDefinition>> {
        self.host(vhost).into_iter().flat_map(|host| &host.queues).map(|by_name| &by_name.0)
    }

    /// How many queues a virtual host has.
    fn vhost_queue_count(&self, vhost: VhostId) -> usize {
        self.host(vhost).map_or(0, |host| host.queues.len())
    }

    /// This copy is of a node among several. Its connections are known to all by its number; here they have none.
    pub(crate) fn set_home(&mut self, node: NodeNo) {
        self.home = node;
    }

    /// The node that has this copy, where there are several.
    pub(crate) fn home(&self) -> NodeNo {
        self.home
    }

    /// The queue of this name, if no other connection has it for itself. Permissions are asked before. The actor is one of the node
    /// that has this copy.
    pub fn open_queue(&self, actor: &Actor, name: &str) -> Result<&Arc<QueueDefinition>, Refusal> {
        let Some(queue) = self.queue_by_name(actor.vhost, name.as_bytes()) else {
            return Err(Refusal::missing(Object::Queue, name, self.vhost_name(actor.vhost)));
        };
        if !actor.is_internal && !queue.is_open_to(actor.port.of(self.home)) {
            return Err(Refusal::queue_locked(queue));
        }
        Ok(queue)
    }

    // ---- bindings

    /// The bindings that end at a queue, in no order; the default exchange's is not among them.
    pub fn queue_bindings(&self, queue: QueueId) -> impl Iterator<Item = &Arc<Binding>> {
        self.queues.get(&queue).into_iter().flat_map(|entry| entry.ends.iter())
    }

    /// The bindings that end at an exchange, in no order.
    pub fn exchange_bindings(&self, exchange: ExchangeId) -> impl Iterator<Item = &Arc<Binding>> {
        self.exchanges.get(&exchange).into_iter().flat_map(|entry| entry.ends.iter())
    }

    /// The streams that are bound to an exchange, by `x-stream-partition-order`, each once for every binding.
    pub fn partitions<'a>(
        &'a self,
        entry: &'a ExchangeEntry,
    ) -> impl Iterator<Item = &'a Arc<QueueDefinition>> {
        let streams = entry.partitions.iter().flat_map(|partitions| partitions.iter());
        streams.filter_map(|stream| self.queue(stream))
    }

    fn ends(&self, destination: Destination) -> Option<&Ends> {
        match destination {
            Destination::Queue(id) => self.queues.get(&id).map(|entry| &entry.ends),
            Destination::Exchange(id) => self.exchanges.get(&id).map(|entry| &entry.ends),
        }
    }

    fn ends_mut(&mut self, destination: Destination) -> Option<&mut Ends> {
        match destination {
            Destination::Queue(id) => self.queues.get_mut(&id).map(|entry| &mut entry.ends),
            Destination::Exchange(id) => self.exchanges.get_mut(&id).map(|entry| &mut entry.ends),
        }
    }
}
