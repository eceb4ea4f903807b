//! A catalog as bytes: the changes that make its durable part from nothing, in one order.
//!
//! The same encoding as in the log, so that there is one format to read, to keep and to document.

use super::wire::BadChange;
use super::{Binding, Catalog, Change, Destination, ExchangeEntry, PolicyKind};
use base::{Reader, Short};
use std::sync::Arc;

/// The first bytes of a snapshot: magic and version.
const MAGIC: &[u8; 8] = b"LVRTCAT\x01";

/// The same of a catalog that nodes agree on: what is transient is in it, as the others have it.
const SHARED: &[u8; 8] = b"LVRTCAT\x02";

/// These bytes are no snapshot of a catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSnapshot {
    /// They do not begin as one of this version.
    Magic,
    /// They end early.
    Short,
    /// One of the changes is about something that does not survive a restart.
    Transient {
        /// Which, counted from 0.
        number: u64,
    },
    /// One of the changes is none.
    Change {
        /// Which, counted from 0.
        number: u64,
        /// Its fault.
        why: BadChange,
    },
}

impl From<Short> for BadSnapshot {
    fn from(_: Short) -> BadSnapshot {
        BadSnapshot::Short
    }
}

impl std::fmt::Display for BadSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadSnapshot::Magic => f.write_str("not a catalog snapshot of this version"),
            BadSnapshot::Short => f.write_str("the catalog snapshot ends early"),
            BadSnapshot::Transient { number } => {
                write!(f, "change {number} of the catalog snapshot is not durable")
            }
            BadSnapshot::Change { number, why } => {
                write!(f, "change {number} of the catalog snapshot: {why}")
            }
        }
    }
}

impl std::error::Error for BadSnapshot {}

/// Appends a change behind its length.
fn put_change(out: &mut Vec<u8>, change: &Change) {
    let start = out.len();
    out.extend([0; 4]);
    change.encode_to(out);
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

impl Catalog {
    /// Appends the durable part, or all of it where nodes agree on it. Equal catalogs give equal bytes.
    pub fn write_snapshot(&self, out: &mut Vec<u8>) {
        if self.is_shared() {
            return self.write_all(out);
        }
        out.extend(MAGIC);
        self.each_change(|change| {
            if change.is_durable() {
                put_change(out, change);
            }
        });
    }

    /// Appends all of it, what is transient included.
    pub fn write_all(&self, out: &mut Vec<u8>) {
        out.extend(SHARED);
        self.each_change(|change| put_change(out, change));
        let mut traced: Vec<_> = self.traced.iter().copied().collect();
        base::brief::sort(&mut traced);
        traced.into_iter().for_each(|vhost| put_change(out, &Change::Trace { vhost, on: true }));
        put_change(out, &Change::QueuesAdded { below: self.added_below });
        self.nodes.each(&mut |change: &Change| put_change(out, change));
    }

    /// The catalog that was written.
    pub fn read_snapshot(bytes: &[u8]) -> Result<Catalog, BadSnapshot> {
        let mut reader = Reader::new(bytes);
        let magic = reader.take(MAGIC.len())?;
        let is_shared = magic == SHARED;
        if magic != MAGIC && !is_shared {
            return Err(BadSnapshot::Magic);
        }
        let mut catalog = Catalog::default();
        let mut number = 0;
        while !reader.is_empty() {
            let len = reader.u32_le()?;
            let change = Change::decode(reader.take(len as usize)?);
            let change = change.map_err(|why| BadSnapshot::Change { number, why })?;
            if !is_shared && !change.is_durable() {
                return Err(BadSnapshot::Transient { number });
            }
            catalog.apply(&change);
            number += 1;
        }
        Ok(catalog)
    }

    /// The changes that make this catalog from an empty one, what is transient included.
    pub(super) fn each_change(&self, mut each: impl FnMut(&Change)) {
        if let Some(key) = self.digest_key {
            each(&Change::SetDigestKey(key));
        }
        if self.reserved_queues > 0 {
            each(&Change::ReserveQueueIds { below: self.reserved_queues, may_be_used: false });
        }
        self.each_setting(&mut each);
        let exchanges = self.exchanges_by_number();
        for entry in &exchanges {
            each(&Change::AddExchange(entry.definition.clone()));
        }
        let mut queues: Vec<_> = self.queues.values().collect();
        queues.sort_unstable_by_key(|entry| entry.definition.id);
        for entry in &queues {
            each(&Change::AddQueue(entry.definition.clone()));
        }
        exchanges.iter().for_each(|entry| entry.each_remembered(&mut each));
        for entry in &exchanges {
            self.each_ordered_binding(entry, &mut each);
        }
        for entry in &queues {
            self.each_binding(Destination::Queue(entry.definition.id), &mut each);
        }
        for entry in &exchanges {
            self.each_binding(Destination::Exchange(entry.definition.id), &mut each);
        }
    }

    /// The changes that make all but queues and bindings, whose numbers count as given out: what a request is rehearsed on. It takes
    /// little time where there are many queues.
    pub fn outline(&self) -> Vec<Change> {
        let mut changes = vec![Change::ReserveQueueIds { below: self.next_queue, may_be_used: true }];
        self.each_setting(&mut |change: &Change| changes.push(change.clone()));
        let exchanges = self.exchanges_by_number();
        changes.extend(exchanges.iter().map(|entry| Change::AddExchange(entry.definition.clone())));
        changes
    }

    fn exchanges_by_number(&self) -> Vec<&ExchangeEntry> {
        let mut exchanges: Vec<_> = self.exchanges.values().collect();
        base::brief::sort_by_key(&mut exchanges, |entry| entry.definition.id);
        exchanges
    }

    /// The changes that make parameters, users and virtual hosts with what is set in them.
    fn each_setting(&self, each: &mut impl FnMut(&Change)) {
        for (name, value) in &self.parameters {
            each(&Change::SetParameter { name: name.clone(), value: Some(value.clone()) });
        }
        for user in self.users.values() {
            each(&Change::SetUser(user.clone()));
            if let Some(limits) = self.user_limits.get(&user.name) {
                each(&Change::SetUserLimits { user: user.name.clone(), limits: *limits });
            }
        }
        let mut vhosts: Vec<_> = self.vhosts.values().collect();
        base::brief::sort_by_key(&mut vhosts, |vhost| vhost.definition.id);
        for vhost in &vhosts {
            each(&Change::AddVhost(vhost.definition.clone()));
            if let Some(limits) = self.vhost_limits.get(&vhost.definition.id) {
                each(&Change::SetVhostLimits { vhost: vhost.definition.id, limits: *limits });
            }
            for definition in vhost.permissions.values() {
                each(&Change::SetPermissions(definition.clone()));
            }
            for definition in self.topic_permissions(vhost.definition.id) {
                each(&Change::SetTopicPermissions(definition.clone()));
            }
            for kind in [PolicyKind::User, PolicyKind::Operator] {
                let policies = vhost.policies.of(kind);
                policies.iter().for_each(|policy| each(&Change::SetPolicy(policy.clone())));
            }
            for ((component, name), value) in &vhost.parameters {
                each(&Change::SetVhostParameter {
                    vhost: vhost.definition.id,
                    component: component.clone(),
                    name: name.clone(),
                    value: Some(value.clone()),
                });
            }
        }
    }

    /// The bindings whose order has a part in where messages go.
    fn each_ordered_binding(&self, entry: &ExchangeEntry, each: &mut impl FnMut(&Change)) {
        for binding in entry.exchange.ordered_bindings() {
            let wanted = Binding::of(entry.definition.id, binding.clone());
            let ends = self.ends(binding.destination);
            if let Some(binding) = ends.and_then(|ends| ends.find(&wanted)) {
                each(&Change::Bind(binding.clone()));
            }
        }
    }

    fn each_binding(&self, destination: Destination, each: &mut impl FnMut(&Change)) {
        let is_ordered = |binding: &&Arc<Binding>| {
            let source = self.exchanges.get(&binding.source);
            source.is_some_and(|source| source.exchange.keeps_order())
        };
        let all = self.ends(destination).into_iter().flat_map(|ends| ends.iter());
        let mut bindings: Vec<_> = all.filter(|binding| !is_ordered(binding)).collect();
        if bindings.len() > 1 {
            bindings.sort_by_cached_key(|binding| Change::Bind((*binding).clone()).encode());
        }
        bindings.into_iter().for_each(|binding| each(&Change::Bind(binding.clone())));
    }
}
