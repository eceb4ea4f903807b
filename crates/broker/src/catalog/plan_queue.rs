//! Declaring and deleting queues.

use super::arguments::{
    check, check_same, check_same_loosely, check_served, check_server_named, is_type, queue_type,
};
use super::plan::{check_length, check_not_reserved, without_line_ends};
use super::removal::Removal;
use super::stream;
use super::{Actor, Catalog, Change, Object, Op, Places, Plan, QueueDefinition, QueueType, Refusal};
use crate::access::{Access, Resource, base64_url};
use base::id::QueueId;
use routing::Argument;
use std::sync::Arc;

/// Queue numbers reserved at once.
pub(super) const RESERVED_AT_ONCE: u64 = 1024;

/// Prefix of the names of queues that are made for a link.
pub const MADE_FOR_LINK: &str = "amq.dyn-";

impl Catalog {
    pub(super) fn find_queue(&self, by: &Actor, name: &str) -> Result<Plan, Refusal> {
        let name = without_line_ends(name);
        self.check_any_access(by, Resource::Queue(&name))?;
        let Some(queue) = self.queue_by_name(by.vhost, name.as_bytes()) else {
            return Err(Refusal::missing(Object::Queue, &name, self.vhost_name(by.vhost)));
        };
        if !queue.is_open_to(by.port) {
            return Err(Refusal::queue_locked(queue));
        }
        Ok(Plan { queue: Some(queue.clone()), ..Plan::default() })
    }

    pub(super) fn declare_queue(&self, by: &Actor, op: &Op, places: Places) -> Result<Plan, Refusal> {
        let Op::DeclareQueue { name, durable, exclusive, auto_delete, arguments, random, .. } = op else {
            unreachable!("called for declarations of queues alone");
        };
        let durable = *durable;
        // The default type is passed over where a queue cannot be both that and what it is to be.
        let usual = self.vhost_definition(by.vhost).map(|vhost| vhost.default_queue_type);
        let unnamed = match usual.unwrap_or_default() {
            QueueType::Quorum | QueueType::Stream if !durable || *exclusive || *auto_delete => {
                QueueType::Classic
            }
            default => default,
        };
        let name = if name.is_empty() {
            check_server_named(arguments, unnamed)?;
            generated_name("amq.gen-", random).into()
        } else {
            let name = without_line_ends(name);
            // Nobody but the server knows its dice: a name that ends in them is the server's own.
            if !(name.starts_with(MADE_FOR_LINK) && name.ends_with(&base64_url(random))) {
                check_not_reserved(Object::Queue, &name)?;
            }
            name
        };
        check_length("queue name", &name)?;
        self.check_access(by, Access::Configure, Resource::Queue(&name))?;
        let owner = exclusive.then_some(by.port);
        let Some(vhost) = self.vhost_definition(by.vhost) else {
            return Err(Refusal::not_found(Object::VirtualHost, "the virtual host has just been deleted"));
        };
        let named = format!("queue '{name}' in vhost '{}'", vhost.name);
        if let Some(queue) = self.queue_by_name(by.vhost, name.as_bytes()) {
            if queue.exclusive != owner {
                return Err(Refusal::queue_locked(queue));
            }
            check_same_flag("durable", durable, queue.durable, &named)?;
            check_same_flag("auto_delete", *auto_delete, queue.auto_delete, &named)?;
            check_same(arguments, unnamed, queue, &named)?;
            return Ok(Plan { queue: Some(queue.clone()), ..Plan::default() });
        }
        match arguments.get(b"x-dead-letter-exchange") {
            None => {}
            Some(Argument::Text(exchange)) => {
                self.check_access(by, Access::Read, Resource::Queue(&name))?;
                let exchange = String::from_utf8_lossy(exchange);
                self.check_access(by, Access::Write, Resource::Exchange(&exchange))?;
            }
            Some(other) => {
                return Err(Refusal::invalid_type("x-dead-letter-exchange", other.type_name(), &named));
            }
        }
        let queue_type = queue_type(arguments, unnamed, &named)?;
        check(arguments, queue_type, self.macros(by.vhost), &named)?;
        let source_log = self.check_source(by, arguments, (&named, durable, *exclusive))?;
        self.check_queue_limit(by.vhost, &name, 0)?;
        if queue_type != QueueType::Classic {
            let rules =
                [(*auto_delete, "auto-delete"), (*exclusive, "exclusive-owner"), (!durable, "non-durable")];
            if let Some((_, property)) = rules.into_iter().find(|(is_broken, _)| *is_broken) {
                return Err(Refusal::invalid_property(property, &named));
            }
        }
        if queue_type == QueueType::Stream {
            stream::check_sizes(arguments)?;
        }
        check_served(arguments, &named)?;
        let queue = Arc::new(QueueDefinition {
            id: QueueId(self.next_queue),
            vhost: by.vhost,
            vhost_name: vhost.name.clone(),
            name,
            log: source_log.unwrap_or_else(|| places.of(durable && !exclusive)),
            queue_type,
            durable,
            exclusive: owner,
            auto_delete: *auto_delete,
            declared_by: self.declarers.shared(&by.user, &self.users),
            arguments: arguments.clone(),
        });
        let mut changes = Vec::with_capacity(2);
        if self.next_queue >= self.reserved_queues {
            let below = self.next_queue.saturating_add(RESERVED_AT_ONCE);
            changes.push(Change::ReserveQueueIds { below, may_be_used: false });
        }
        changes.push(Change::AddQueue(queue.clone()));
        Ok(Plan { changes, queue: Some(queue), ..Plan::default() })
    }

    /// As [`Catalog::plan`], but a quorum queue may be declared again as a classic one: only arguments that
    /// both types have must be the same.
    pub fn plan_relaxed(&self, by: &Actor, op: &Op, places: Places, most: usize) -> Result<Plan, Refusal> {
        if let Op::DeclareQueue { passive: false, name, arguments, .. } = op
            && let name = without_line_ends(name)
            && let Some(queue) = self.queue_by_name(by.vhost, name.as_bytes())
            && queue.is_quorum()
            && let Some(vhost) = self.vhost_definition(by.vhost)
            && is_type(arguments, vhost.default_queue_type, QueueType::Classic)
        {
            self.check_access(by, Access::Configure, Resource::Queue(&name))?;
            check_same_loosely(arguments, queue)?;
            return Ok(Plan { queue: Some(queue.clone()), ..Plan::default() });
        }
        self.plan_part(by, op, places, most)
    }

    pub(super) fn remove_queue(&self, by: &Actor, id: QueueId, most: usize) -> Result<Plan, Refusal> {
        let Some(queue) = self.queue(id) else { return Ok(Plan::nothing()) };
        self.check_access(by, Access::Configure, Resource::Queue(&queue.name))?;
        if !by.is_internal && !queue.is_open_to(by.port) {
            return Err(Refusal::queue_locked(queue));
        }
        let mut removal = Removal::new(self, most);
        removal.queue(id);
        Ok(removal.finish())
    }
}

fn check_same_flag(flag: &'static str, received: bool, current: bool, named: &str) -> Result<(), Refusal> {
    if received == current {
        return Ok(());
    }
    let how = format!("received '{received}' but current is '{current}'");
    Err(Refusal::inequivalent(flag, named, &how))
}

/// A name the server makes: `prefix` and 22 characters that stand for the random bytes.
pub fn generated_name(prefix: &str, random: &[u8; 16]) -> String {
    format!("{prefix}{}", base64_url(random))
}
