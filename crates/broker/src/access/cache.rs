//! The last few permissions a channel or session was granted, so that using a queue again asks no regular expression.
//!
//! Grants only, as RabbitMQ's: a refusal ends the channel anyway. Costs nothing until the first grant.

use super::permissions::{Access, Resource};
use crate::catalog::{Actor, Catalog, QueueDefinition, Reason, Refusal, ReplyCode, VhostId};
use std::sync::Arc;

/// The tag of users who may send messages in the names of others.
const IMPERSONATOR: &str = "impersonator";

/// Grants remembered.
pub const CACHE_ENTRIES_MAX: usize = 12;

#[derive(Debug)]
struct Entry {
    access: Access,
    is_queue: bool,
    name: Box<str>,
}

impl Entry {
    fn new(access: Access, resource: Resource<'_>) -> Entry {
        let (is_queue, name) = match resource {
            Resource::Queue(name) => (true, name),
            Resource::Exchange(name) => (false, name),
        };
        Entry { access, is_queue, name: name.into() }
    }

    #[inline]
    fn is_for(&self, access: Access, resource: Resource<'_>) -> bool {
        let (is_queue, name) = match resource {
            Resource::Queue(name) => (true, name),
            Resource::Exchange(name) => (false, name),
        };
        self.access == access && self.is_queue == is_queue && *self.name == *name
    }
}

/// Grants of an actor, newest first; forgotten when anybody's permissions change.
#[derive(Debug)]
pub struct AccessCache {
    actor: Actor,
    version: u64,
    entries: Vec<Entry>,
}

impl AccessCache {
    /// Nothing asked yet.
    pub fn new(actor: Actor) -> AccessCache {
        AccessCache { actor, version: 0, entries: Vec::new() }
    }

    /// The actor that has the grants.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The virtual host of all names.
    pub fn vhost(&self) -> VhostId {
        self.actor.vhost
    }

    /// Whether the actor may.
    pub fn check(
        &mut self,
        catalog: &Catalog,
        access: Access,
        resource: Resource<'_>,
    ) -> Result<(), Refusal> {
        if self.version != catalog.access_version() {
            self.entries.clear();
            self.version = catalog.access_version();
        }
        if self.entries.iter().any(|entry| entry.is_for(access, resource)) {
            return Ok(());
        }
        catalog.check_access(&self.actor, access, resource)?;
        self.entries.truncate(CACHE_ENTRIES_MAX - 1);
        self.entries.insert(0, Entry::new(access, resource));
        Ok(())
    }

    /// Whether the actor may publish to an exchange with these keys, and the exchange is there and takes publishes; and
    /// whether it is who the message says that sent it, where it says so. Messages of every protocol but the stream
    /// protocol come through here before they go anywhere, or are held back for a transaction.
    ///
    /// # Errors
    /// The first of these that is not so, in RabbitMQ's order.
    pub fn check_publish<'k>(
        &mut self,
        catalog: &Catalog,
        exchange: &[u8],
        keys: impl IntoIterator<Item = &'k [u8]>,
        user_id: Option<&[u8]>,
    ) -> Result<(), Refusal> {
        let vhost = self.actor.vhost;
        // Names are text in every protocol: what is none names nothing.
        let Ok(name) = str::from_utf8(exchange) else {
            return Err(catalog.no_exchange(vhost, exchange));
        };
        self.check(catalog, Access::Write, Resource::Exchange(name))?;
        match catalog.exchange(vhost, exchange) {
            None => Err(catalog.no_exchange(vhost, exchange)),
            Some(entry) if entry.definition.internal && !self.actor.is_internal => {
                let exchange = catalog.exchange_named(vhost, name);
                let text = format!("cannot publish to internal {exchange}");
                Err(Refusal::access(Reason::InternalExchange { exchange: exchange.into() }, text))
            }
            Some(entry) => keys.into_iter().try_for_each(|key| {
                catalog.check_topic_access(&self.actor, Access::Write, &entry.definition, key)
            }),
        }?;
        self.check_user(catalog, user_id)
    }

    /// Whether the actor is the user that a message names, or may pose as others: it has the tag impersonator, or is the
    /// broker itself, which only moves what is there.
    pub fn check_user(&self, catalog: &Catalog, user_id: Option<&[u8]>) -> Result<(), Refusal> {
        let Some(claimed) = user_id else { return Ok(()) };
        let user = &self.actor.user;
        let may_pose = || catalog.user(user).is_some_and(|user| user.has_tag(IMPERSONATOR));
        if self.actor.is_internal || claimed == user.as_bytes() || may_pose() {
            return Ok(());
        }
        let claimed = String::from_utf8_lossy(claimed);
        let text = format!("user_id property set to '{claimed}' but authenticated user was '{user}'");
        Err(Refusal::new(ReplyCode::WrongUser, Reason::WrongUser, text))
    }

    /// The queue of this name, if the actor may have `access` to it and no other connection has it for itself.
    pub fn queue<'c>(
        &mut self,
        catalog: &'c Catalog,
        access: Access,
        name: &str,
    ) -> Result<&'c Arc<QueueDefinition>, Refusal> {
        self.check(catalog, access, Resource::Queue(name))?;
        catalog.open_queue(&self.actor, name)
    }

    /// How many grants are remembered.
    pub fn remembered(&self) -> usize {
        self.entries.len()
    }

    /// Forgets what was granted, and the memory it took.
    pub fn forget(&mut self) {
        self.entries = Vec::new();
    }
}
