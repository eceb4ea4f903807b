//! From a request to changes: every rule is asked here, nothing is altered.
//!
//! The order in which rules are asked is RabbitMQ's, so that a request that breaks two of them is refused for the same
//! one. Texts and order were seen on RabbitMQ 4.3.6 through pika.

use super::removal::Removal;
use super::{Actor, Catalog, Change, Object, Op, Places, Plan, Reason, Refusal};
use crate::access::{Access, Resource, refused};

/// Longest name of a queue, exchange, user or virtual host and longest binding key, in bytes: a short string.
pub const NAME_BYTES_MAX: usize = 255;

impl Catalog {
    /// Works out what must change so that the request is granted; new queues are placed at `places`. The changes must be applied before the next plan.
    pub fn plan(&self, by: &Actor, op: &Op, places: Places) -> Result<Plan, Refusal> {
        self.plan_part(by, op, places, usize::MAX)
    }

    /// As [`Catalog::plan`], for no more than `most` bindings and objects that go: what is [left](Plan::removed) is planned
    /// when the changes are applied.
    pub fn plan_part(&self, by: &Actor, op: &Op, places: Places, most: usize) -> Result<Plan, Refusal> {
        match op {
            Op::DeclareExchange { passive: true, name, .. } => self.find_exchange(by, name),
            Op::DeclareExchange { name, kind, durable, auto_delete, internal, arguments, passive: false } => {
                self.declare_exchange(by, name, kind, [*durable, *auto_delete, *internal], arguments)
            }
            Op::DeleteExchange { name, if_unused } => self.remove_exchange(by, name, *if_unused, most),
            Op::DeclareQueue { passive: true, name, .. } => self.find_queue(by, name),
            Op::DeclareQueue { .. } => self.declare_queue(by, op, places),
            Op::MakeSuperStream { .. } => self.make_super_stream(by, op, places),
            Op::DeleteQueue { id } => self.remove_queue(by, *id, most),
            Op::DeleteExclusive { port } => {
                let mut removal = Removal::new(self, most);
                removal.queues(self.exclusive.get(port).into_iter().flatten().copied());
                Ok(removal.finish())
            }
            Op::BindQueue { queue, exchange, key, arguments } => {
                self.bind_queue(by, queue, exchange, key, arguments)
            }
            Op::UnbindQueue { queue, exchange, key, arguments } => {
                self.unbind_queue(by, queue, exchange, key, arguments, most)
            }
            Op::BindExchange { source, destination, key, arguments } => {
                self.bind_exchange(by, source, destination, key, arguments)
            }
            Op::UnbindExchange { source, destination, key, arguments } => {
                self.unbind_exchange(by, source, destination, key, arguments, most)
            }
            Op::AddVhost { name, defaults } => self.new_vhost(by, name, defaults),
            Op::UpdateVhost { .. } => self.update_vhost(by, op),
            Op::DeleteVhost { name } => self.remove_vhost(by, name, most),
            Op::AddUser { name, password, tags } => self.new_user(by, name, password, tags),
            Op::DeleteUser { name } => self.remove_user(by, name),
            Op::ChangePassword { name, password } => self.change_password(by, name, password),
            Op::SetUserTags { name, tags } => self.set_tags(by, name, tags),
            Op::SetPermissions { user, vhost, configure, write, read } => {
                self.set_permissions(by, user, vhost, [configure, write, read])
            }
            Op::ClearPermissions { user, vhost } => self.clear_permissions(by, user, vhost),
            Op::SetPolicy { .. } => self.set_policy(by, op),
            Op::ClearPolicy { kind, vhost, name } => self.clear_policy(by, *kind, vhost, name),
            Op::SetTopicPermissions { user, vhost, exchange, write, read } => {
                self.set_topic_permissions(by, user, vhost, exchange, [write, read])
            }
            Op::ClearTopicPermissions { user, vhost, exchange } => {
                self.clear_topic_permissions(by, user, vhost, exchange.as_deref())
            }
            Op::SetVhostLimits { vhost, limits } => self.set_vhost_limits(by, vhost, *limits),
            Op::SetParameter { name, value } => self.set_parameter(by, name, value.as_deref()),
            Op::SetVhostParameter { vhost, component, name, value } => {
                self.set_vhost_parameter(by, vhost, [component, name], value.as_deref())
            }
            Op::Trace { vhost, on } => self.trace(by, vhost, *on),
            Op::SetUserLimits { user, limits } => self.set_user_limits(by, user, *limits),
        }
    }

    /// Looking at a thing needs any of the three permissions.
    ///
    /// # Errors
    /// Access refused, naming the first of them.
    pub fn check_any_access(&self, by: &Actor, resource: Resource<'_>) -> Result<(), Refusal> {
        if by.is_internal {
            return Ok(());
        }
        let permissions = self.permissions(by.vhost, &by.user);
        let any = [Access::Configure, Access::Write, Access::Read];
        if permissions.is_some_and(|own| any.into_iter().any(|access| own.allow(access, resource))) {
            return Ok(());
        }
        Err(refused(Access::Configure, resource, self.vhost_name(by.vhost), &by.user))
    }
}

impl Plan {
    pub(super) fn nothing() -> Plan {
        Plan::default()
    }

    pub(super) fn one(change: Change) -> Plan {
        Plan { changes: vec![change], ..Plan::default() }
    }
}

/// The default exchange is not there to be declared, bound or deleted.
pub(super) fn check_not_default(exchange: &str) -> Result<(), Refusal> {
    if exchange.is_empty() {
        return Err(Refusal::access(
            Reason::Reserved(Object::Exchange),
            "operation not permitted on the default exchange",
        ));
    }
    Ok(())
}

/// Names that begin with `amq.` are the server's to give.
pub(super) fn check_not_reserved(object: Object, name: &str) -> Result<(), Refusal> {
    if name.starts_with("amq.") {
        let text = format!("{} name '{name}' contains reserved prefix 'amq.*'", object.name());
        return Err(Refusal::access(Reason::Reserved(object), text));
    }
    Ok(())
}

/// Where a protocol has no short strings, lengths are refused here.
pub(super) fn check_length(kind: &str, name: &str) -> Result<(), Refusal> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Refusal::precondition(
            Reason::TooLong,
            format!("{kind} is longer than {NAME_BYTES_MAX} bytes"),
        ));
    }
    Ok(())
}

/// Names lose their line ends, as RabbitMQ's do.
pub(super) fn without_line_ends(name: &str) -> Box<str> {
    name.chars().filter(|c| !matches!(c, '\r' | '\n')).collect()
}
