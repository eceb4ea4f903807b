//! Announcements, and those of the catalog's changes.

use crate::catalog::{
    Actor, Binding, Catalog, Change, Destination, PolicyDefinition, PolicyKind, QueueDefinition, Ruled,
    VhostId,
};
use crate::planner::{By, Cause};
use base::Now;
use base::id::PortId;
use message::amqp091::{NewProperties, Table, TableWriter, Value as Wire};
use routing::{Argument, Arguments, ExchangeId, Value};

/// The name under which the node itself acts.
pub(super) const INTERNAL_USER: &str = "rmq-internal";

/// Delivery mode of a durable message.
const PERSISTENT: u8 = 2;

/// An announcement: its routing key, and the fields of its headers.
#[derive(Debug, PartialEq)]
pub struct Announcement {
    pub(super) key: &'static str,
    fields: Vec<u8>,
}

impl Announcement {
    pub(super) fn new(key: &'static str, fill: impl FnOnce(&mut TableWriter<'_>)) -> Announcement {
        Announcement { key, fields: TableWriter::fields(fill) }
    }

    /// The head of the message that is published: the fields and the time in its properties.
    pub(super) fn head(&self, now: Now) -> Vec<u8> {
        let fields = TableWriter::fields(|all| {
            let own = Table::new(&self.fields).expect("fields that were written as a table's");
            own.encodings().for_each(|(name, encoding)| all.encoding(name, encoding));
            number(all, "timestamp_in_ms", i64::try_from(now.wall_ms).unwrap_or(i64::MAX));
        });
        let properties = NewProperties {
            headers: Some(Table::new(&fields).expect("fields that were written as a table's")),
            delivery_mode: Some(PERSISTENT),
            timestamp: Some(now.wall_ms / 1000),
            ..Default::default()
        };
        let mut head = Vec::new();
        properties.write(&mut head);
        head
    }
}

/// The announcements of a change of `catalog` that is about to be made, on behalf of `by`, an actor that waits for an
/// answer or does not.
pub(super) fn of_change(
    catalog: &Catalog,
    node: &str,
    (by, is_asked_for): (&Actor, bool),
    change: &Change,
) -> Vec<Announcement> {
    let by = named(by, is_asked_for);
    let mut announcer = Announcer { catalog, by, node, told: Vec::new() };
    announcer.change(change);
    announcer.told
}

/// The announcements of other policies that count for objects of `catalog` by a change of policies on behalf of `by`.
pub(super) fn of_governed(
    catalog: &Catalog,
    node: &str,
    (by, is_asked_for): &By,
    (cause, objects): (&Cause, &[Ruled]),
) -> Vec<Announcement> {
    let by = named(by, *is_asked_for);
    let mut announcer = Announcer { catalog, by, node, told: Vec::new() };
    announcer.governed(cause, objects);
    announcer.told
}

/// The user as events have it; none: it is not known.
fn named(by: &Actor, is_asked_for: bool) -> Option<&str> {
    match &*by.user {
        // A client's request that came by way of a queue on another shard.
        "" if is_asked_for => None,
        "" => Some(INTERNAL_USER),
        user => Some(user),
    }
}

/// A connection's number in the shape of a process's.
pub(super) fn process(port: PortId) -> String {
    format!("<{}.{}.{}>", port.shard.0, port.slot, port.generation)
}

/// Words changes.
struct Announcer<'a> {
    catalog: &'a Catalog,
    /// The user that makes the change; none: it is not known.
    by: Option<&'a str>,
    /// The node's name.
    node: &'a str,
    told: Vec<Announcement>,
}

pub(super) fn text(fields: &mut TableWriter<'_>, name: &str, text: &str) {
    fields.put(name.as_bytes(), Wire::Text(text.as_bytes()));
}

pub(super) fn truth(fields: &mut TableWriter<'_>, name: &str, value: bool) {
    fields.put(name.as_bytes(), Wire::Bool(value));
}

pub(super) fn number(fields: &mut TableWriter<'_>, name: &str, number: i64) {
    fields.put(name.as_bytes(), Wire::I64(number));
}

fn texts(fields: &mut TableWriter<'_>, name: &str, all: &[impl AsRef<[u8]>]) {
    fields.array(name.as_bytes(), all.iter().map(|text| Wire::Text(text.as_ref())));
}

/// Arguments, each as a text.
pub(super) fn arguments(fields: &mut TableWriter<'_>, all: &Arguments) {
    arguments_as(fields, "arguments", all);
}

/// The same under another name.
pub(super) fn arguments_as(fields: &mut TableWriter<'_>, field: &str, all: &Arguments) {
    let shown: Vec<String> = all.iter().map(|(name, value)| argument(name, value)).collect();
    texts(fields, field, &shown);
}

/// An argument as Erlang writes it.
fn argument(name: &[u8], value: Argument<'_>) -> String {
    format!("{{{},{},{}}}", quoted(name), value.type_name(), term(value))
}

fn term(value: Argument<'_>) -> String {
    match value {
        Argument::Text(text) | Argument::Bytes(text) => quoted(text),
        Argument::List(all) => {
            let all: Vec<String> =
                all.iter().map(|one| format!("{{{},{}}}", one.type_name(), term(one))).collect();
            format!("[{}]", all.join(","))
        }
        Argument::Table(all) => {
            let all: Vec<String> = all.iter().map(|(name, value)| argument(name, value)).collect();
            format!("[{}]", all.join(","))
        }
        other => other.to_string(),
    }
}

fn quoted(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "<<>>".to_owned();
    }
    if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        let text = String::from_utf8_lossy(bytes).replace('\\', "\\\\").replace('"', "\\\"");
        return format!("<<\"{text}\">>");
    }
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    format!("<<{}>>", numbers.join(","))
}

/// A field of a policy's definition.
fn value(fields: &mut TableWriter<'_>, name: &[u8], value: Argument<'_>) {
    match value {
        Argument::Bool(value) => fields.put(name, Wire::Bool(value)),
        Argument::Text(text) => fields.put(name, Wire::Text(text)),
        Argument::Int(_, number) => fields.put(name, Wire::I64(number)),
        Argument::Unsigned(number) => fields.put(name, Wire::I64(i64::try_from(number).unwrap_or(i64::MAX))),
        other => fields.put(name, Wire::Text(term(other).as_bytes())),
    }
}

fn definition(fields: &mut TableWriter<'_>, policy: &PolicyDefinition) {
    text(fields, "apply-to", policy.apply_to.name());
    text(fields, "pattern", policy.pattern.source());
    number(fields, "priority", policy.priority);
    fields.table(b"definition", |fields| {
        policy.definition.iter().for_each(|(name, own)| value(fields, name, own));
    });
}

/// A queue of which other policies count.
fn put_governed(fields: &mut TableWriter<'_>, queue: &QueueDefinition) {
    text(fields, "name", &queue.name);
    text(fields, "vhost", &queue.vhost_name);
    text(fields, "type", queue.queue_type.module());
}

/// The limits that are set.
fn limits(fields: &mut TableWriter<'_>, all: [(&str, Option<u64>); 3]) {
    for (name, limit) in all {
        if let Some(limit) = limit {
            number(fields, name, i64::try_from(limit).unwrap_or(i64::MAX));
        }
    }
}

impl Announcer<'_> {
    fn tell(&mut self, key: &'static str, fill: impl FnOnce(&mut TableWriter<'_>)) {
        let fields = TableWriter::fields(|fields| {
            fill(fields);
            if let Some(by) = self.by {
                text(fields, "user_who_performed_action", by);
            }
        });
        self.told.push(Announcement { key, fields });
    }

    fn vhost_name(&self, id: VhostId) -> String {
        self.catalog.vhost_definition(id).map_or(String::new(), |vhost| vhost.name.to_string())
    }

    /// Something of a virtual host that is known by its name.
    fn tell_of(&mut self, key: &'static str, vhost: VhostId, name: &str, kind: Option<&str>) {
        let vhost = self.vhost_name(vhost);
        self.tell(key, |fields| {
            text(fields, "name", name);
            text(fields, "vhost", &vhost);
            if let Some(kind) = kind {
                text(fields, "type", kind);
            }
        });
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::AddVhost(vhost) => {
                let about = vhost.about();
                self.tell("vhost.created", |fields| {
                    text(fields, "name", &vhost.name);
                    text(fields, "description", &about.description);
                    let tags: Vec<&[u8]> = about.tags.iter().map(|tag| tag.as_bytes()).collect();
                    texts(fields, "tags", &tags);
                    text(fields, "default_queue_type", vhost.default_queue_type.name());
                    truth(fields, "protected_from_deletion", about.is_protected);
                    truth(fields, "tracing", false);
                });
            }
            Change::SetVhost(vhost) => {
                let tags = vhost.about().tags;
                let before = self.catalog.vhost_definition(vhost.id).map(|vhost| vhost.about().tags);
                if before.is_some_and(|before| before != tags) {
                    self.tell("vhost.tags.set", |fields| {
                        text(fields, "name", &vhost.name);
                        let tags: Vec<&[u8]> = tags.iter().map(|tag| tag.as_bytes()).collect();
                        texts(fields, "tags", &tags);
                    });
                }
            }
            Change::DeleteVhost(id) => self.vhost_deleted(*id),
            Change::SetUser(user) => {
                let before = self.catalog.user(&user.name).cloned();
                let key = match (&before, &user.password) {
                    (None, _) => Some("user.created"),
                    (Some(before), password) if before.password == *password => None,
                    (Some(_), None) => Some("user.password.cleared"),
                    (Some(_), Some(_)) => Some("user.password.changed"),
                };
                if let Some(key) = key {
                    self.tell(key, |fields| text(fields, "name", &user.name));
                }
                let has_new_tags = match before {
                    None => !user.tags.is_empty(),
                    Some(before) => key.is_none() || before.tags != user.tags,
                };
                if has_new_tags {
                    self.tell("user.tags.set", |fields| {
                        text(fields, "name", &user.name);
                        let tags: Vec<&[u8]> = user.tags.iter().map(|tag| tag.as_bytes()).collect();
                        texts(fields, "tags", &tags);
                    });
                }
            }
            Change::DeleteUser(name) => self.tell("user.deleted", |fields| text(fields, "name", name)),
            Change::SetPermissions(own) => {
                let vhost = self.vhost_name(own.vhost);
                self.tell("permission.created", |fields| {
                    text(fields, "user", &own.user);
                    text(fields, "vhost", &vhost);
                    text(fields, "configure", own.permissions.configure.source());
                    text(fields, "write", own.permissions.write.source());
                    text(fields, "read", own.permissions.read.source());
                });
            }
            Change::ClearPermissions { vhost, user } => {
                self.permission_deleted("permission.deleted", *vhost, user)
            }
            Change::SetTopicPermissions(own) => {
                let vhost = self.vhost_name(own.vhost);
                self.tell("topic.permission.created", |fields| {
                    text(fields, "user", &own.user);
                    text(fields, "vhost", &vhost);
                    text(fields, "exchange", &own.exchange);
                    text(fields, "write", &own.write);
                    text(fields, "read", &own.read);
                });
            }
            Change::ClearTopicPermissions { vhost, user, .. } => {
                self.permission_deleted("topic.permission.deleted", *vhost, user);
            }
            Change::SetVhostLimits { vhost, limits: own } => {
                let vhost = self.vhost_name(*vhost);
                let all = [
                    ("max-connections", own.connections_max.map(u64::from)),
                    ("max-queues", own.queues_max.map(u64::from)),
                    ("max-memory-bytes", own.memory_bytes_max),
                ];
                let is_set = all.iter().any(|(_, limit)| limit.is_some());
                let keys = match is_set {
                    true => ("parameter.set", "vhost.limits.set"),
                    false => ("parameter.cleared", "vhost.limits.cleared"),
                };
                self.tell(keys.0, |fields| {
                    text(fields, "component", "vhost-limits");
                    text(fields, "name", "limits");
                    text(fields, "vhost", &vhost);
                    if is_set {
                        fields.table(b"value", |fields| limits(fields, all));
                    }
                });
                self.tell(keys.1, |fields| {
                    text(fields, "name", "limits");
                    text(fields, "vhost", &vhost);
                    limits(fields, all);
                });
            }
            Change::SetUserLimits { user, limits: own } => {
                let all = [
                    ("max-connections", own.connections_max.map(u64::from)),
                    ("max-channels", own.channels_max.map(u64::from)),
                    ("max-memory-bytes", own.memory_bytes_max),
                ];
                let is_set = all.iter().any(|(_, limit)| limit.is_some());
                self.tell(if is_set { "user.limits.set" } else { "user.limits.cleared" }, |fields| {
                    text(fields, "name", "limits");
                    text(fields, "username", user);
                    limits(fields, all);
                });
            }
            Change::SetPolicy(policy) => {
                let vhost = self.vhost_name(policy.vhost);
                if policy.kind == PolicyKind::Operator {
                    self.tell("parameter.set", |fields| {
                        text(fields, "component", "operator_policy");
                        text(fields, "name", &policy.name);
                        text(fields, "vhost", &vhost);
                        fields.table(b"value", |fields| definition(fields, policy));
                    });
                }
                self.tell("policy.set", |fields| {
                    text(fields, "name", &policy.name);
                    text(fields, "vhost", &vhost);
                    definition(fields, policy);
                });
            }
            Change::ClearPolicy { vhost, kind: PolicyKind::User, name } => {
                self.tell_of("policy.cleared", *vhost, name, None);
            }
            Change::ClearPolicy { vhost, kind: PolicyKind::Operator, name } => {
                let vhost_name = self.vhost_name(*vhost);
                self.tell("parameter.cleared", |fields| {
                    text(fields, "component", "operator_policy");
                    text(fields, "name", name);
                    text(fields, "vhost", &vhost_name);
                });
                self.tell_of("operator.policy.cleared", *vhost, name, None);
            }
            Change::AddExchange(exchange) => {
                let vhost = self.vhost_name(exchange.vhost);
                let policy =
                    self.catalog.exchange_policies(exchange).user.map(|policy| policy.name.to_string());
                self.tell("exchange.created", |fields| {
                    text(fields, "name", &exchange.name);
                    text(fields, "vhost", &vhost);
                    text(fields, "type", exchange.kind.name());
                    truth(fields, "durable", exchange.durable);
                    truth(fields, "auto_delete", exchange.auto_delete);
                    truth(fields, "internal", exchange.internal);
                    arguments(fields, &exchange.arguments);
                    text(fields, "policy", policy.as_deref().unwrap_or_default());
                });
            }
            Change::DeleteExchange { id, .. } => self.exchange_deleted(*id),
            Change::AddQueue(queue) => {
                let (vhost, node) = (self.vhost_name(queue.vhost), self.node);
                let mut all = queue.arguments.clone();
                all.insert(b"x-queue-type", Value::text(queue.queue_type.name()));
                self.tell("queue.created", |fields| {
                    text(fields, "name", &queue.name);
                    text(fields, "vhost", &vhost);
                    text(fields, "type", queue.queue_type.module());
                    // Over 0-9-1 and 1.0 alike an exclusive queue is transient.
                    truth(fields, "durable", queue.durable);
                    truth(fields, "auto_delete", queue.auto_delete);
                    truth(fields, "exclusive", queue.exclusive.is_some());
                    arguments(fields, &all);
                    // Of a quorum queue RabbitMQ does not say so.
                    if !queue.is_quorum() {
                        text(fields, "leader", node);
                        texts(fields, "members", &[node]);
                        text(fields, "owner_pid", &queue.exclusive.map(process).unwrap_or_default());
                    }
                });
            }
            Change::DeleteQueue { id, .. } => {
                let bindings: Vec<_> = self.catalog.queue_bindings(*id).cloned().collect();
                self.unbound(bindings.iter().map(|binding| &**binding));
                if let Some(queue) = self.catalog.queue(*id) {
                    let kind = queue.queue_type.module();
                    self.tell_of("queue.deleted", queue.vhost, &queue.name, Some(kind));
                }
            }
            Change::Bind(binding) => self.binding("binding.created", binding),
            Change::Unbind(binding) => self.binding("binding.deleted", binding),
            Change::ReserveQueueIds { .. }
            | Change::Remember { .. }
            | Change::SetParameter { .. }
            | Change::SetDigestKey(_)
            | Change::SetVhostParameter { .. }
            | Change::Govern { .. }
            | Change::NodeUp { .. }
            | Change::WishDone { .. }
            | Change::QueuesAdded { .. }
            | Change::Trace { .. } => {}
        }
    }

    /// Queues have other policies, or none.
    fn governed(&mut self, cause: &Cause, objects: &[Ruled]) {
        for ruled in objects {
            let Destination::Queue(id) = ruled.object else { continue };
            let Some(queue) = self.catalog.queue(id) else { continue };
            match cause {
                Cause::Set(policy) => self.tell("queue.policy.updated", |fields| {
                    put_governed(fields, queue);
                    definition(fields, policy);
                }),
                Cause::Cleared => self.tell("queue.policy.cleared", |fields| put_governed(fields, queue)),
            }
        }
    }

    fn permission_deleted(&mut self, key: &'static str, vhost: VhostId, user: &str) {
        let vhost = self.vhost_name(vhost);
        self.tell(key, |fields| {
            text(fields, "user", user);
            text(fields, "vhost", &vhost);
        });
    }

    /// Bindings that go with one of their ends: nobody asked for that.
    fn unbound<'b>(&mut self, bindings: impl Iterator<Item = &'b Binding>) {
        let by = self.by.replace(INTERNAL_USER);
        bindings.for_each(|binding| self.binding("binding.deleted", binding));
        self.by = by;
    }

    fn binding(&mut self, key: &'static str, binding: &Binding) {
        let Some(source) = self.catalog.exchange_by_id(binding.source) else { return };
        let (kind, name) = match binding.destination {
            Destination::Queue(id) => ("queue", self.catalog.queue(id).map(|queue| queue.name.to_string())),
            Destination::Exchange(id) => {
                let entry = self.catalog.exchange_by_id(id);
                ("exchange", entry.map(|entry| entry.definition.name.to_string()))
            }
        };
        let vhost = self.vhost_name(source.definition.vhost);
        let source_name = source.definition.name.to_string();
        self.tell(key, |fields| {
            text(fields, "source_name", &source_name);
            text(fields, "source_kind", "exchange");
            text(fields, "destination_name", name.as_deref().unwrap_or_default());
            text(fields, "destination_kind", kind);
            text(fields, "routing_key", &binding.key);
            text(fields, "vhost", &vhost);
            arguments(fields, &binding.arguments);
        });
    }

    fn exchange_deleted(&mut self, id: ExchangeId) {
        let Some(entry) = self.catalog.exchange_by_id(id) else { return };
        let ends: Vec<_> = self.catalog.exchange_bindings(id).cloned().collect();
        self.unbound(ends.iter().map(|binding| &**binding));
        self.tell_of("exchange.deleted", entry.definition.vhost, &entry.definition.name, None);
        let from: Vec<_> =
            entry.exchange.bindings().into_iter().map(|binding| Binding::of(id, binding)).collect();
        self.unbound(from.iter().map(|binding| &**binding));
    }

    fn vhost_deleted(&mut self, id: VhostId) {
        let users: Vec<_> = self.catalog.vhost_permissions(id).map(|own| own.user.clone()).collect();
        for user in users {
            self.permission_deleted("permission.deleted", id, &user);
        }
        let mut queues: Vec<_> = self.catalog.vhost_queues(id).cloned().collect();
        queues.sort_unstable_by_key(|queue| queue.id);
        for queue in queues {
            let kind = queue.queue_type.module();
            self.tell_of("queue.deleted", id, &queue.name, Some(kind));
        }
        let exchanges: Vec<_> = self.catalog.exchanges(id).into_iter().cloned().collect();
        for exchange in exchanges {
            self.tell_of("exchange.deleted", id, &exchange.name, None);
        }
        let name = self.vhost_name(id);
        self.tell("vhost.deleted", |fields| text(fields, "name", &name));
    }
}
