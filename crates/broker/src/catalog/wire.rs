//! How a change is written: `docs/formats/catalog.md` has the tables.
//!
//! By hand, not derived: arguments nest, and what is read may be anybody's bytes. Reading costs linear time, memory
//! within a fixed multiple of the input, and a bounded stack.

use super::change::Change;
use super::definition::{
    Binding, ExchangeDefinition, PermissionDefinition, QueueDefinition, TopicPermissionDefinition,
    UserDefinition, VhostAbout, VhostDefinition, VhostId,
};
use super::limits::{UserLimits, VhostLimits};
use super::policy::{ApplyTo, PolicyDefinition, PolicyKind};
use super::{QueueType, Ruled, WishId};
use crate::access::{PasswordHash, Pattern, Permissions};
use base::digest::DIGEST;
use base::id::{LogId, NodeNo, PortId, QueueId, ShardId};
use base::{DigestKey, Reader, Short};
use message::record;
use routing::{Argument, Arguments, Destination, ExchangeId, Fields, Float, IntType, Kind, Value};
use std::sync::Arc;

/// Bounds of what is read and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Lists and tables within each other.
    pub nesting_max: u32,
    /// Policies of each kind in a virtual host: each is asked about every queue that comes.
    pub policies_max: usize,
    /// Bytes of messages an exchange remembers: the oldest go first.
    pub history_bytes_max: usize,
    /// Parameters of the node, and of each virtual host.
    pub parameters_max: usize,
    /// Bytes of a parameter's value.
    pub parameter_bytes_max: usize,
    /// Macros of a virtual host.
    pub macros_max: usize,
}

/// The bounds in force.
pub const LIMITS: Limits = Limits {
    nesting_max: 32,
    policies_max: 1000,
    history_bytes_max: 64 << 20,
    parameters_max: 1000,
    parameter_bytes_max: 64 << 10,
    macros_max: 250,
};

/// Bytes of an object and the places of its policies.
const RULED_BYTES: usize = 13;

/// Beyond [`Limits::policies_max`].
const NO_PLACE: u16 = u16::MAX;

/// These bytes are no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadChange {
    /// They end early.
    Short,
    /// They go on after the change.
    Long,
    /// A tag that means nothing here.
    Tag {
        /// The kind of thing that the tag tells apart.
        of: &'static str,
        /// The tag.
        tag: u8,
    },
    /// A name is no text.
    Text,
    /// More elements than bytes.
    Count,
    /// Nested deeper than [`Limits::nesting_max`].
    Nesting,
    /// A permission or what a policy applies to is no pattern.
    Pattern,
    /// A password hash of another length.
    Password,
    /// A limit over what there can be.
    Limit,
    /// A record to be remembered is no message.
    Message,
}

impl From<Short> for BadChange {
    fn from(_: Short) -> BadChange {
        BadChange::Short
    }
}

impl std::fmt::Display for BadChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadChange::Short => f.write_str("the change ends early"),
            BadChange::Long => f.write_str("bytes follow the change"),
            BadChange::Tag { of, tag } => write!(f, "no {of} has the tag {tag}"),
            BadChange::Text => f.write_str("a name is not UTF-8"),
            BadChange::Count => f.write_str("a list claims more elements than there are bytes"),
            BadChange::Nesting => f.write_str("arguments are nested too deep"),
            BadChange::Pattern => f.write_str("a pattern is no regular expression"),
            BadChange::Password => f.write_str("a password hash has a wrong length"),
            BadChange::Limit => f.write_str("a limit is over what there can be"),
            BadChange::Message => f.write_str("what is to be remembered is no message"),
        }
    }
}

impl std::error::Error for BadChange {}

// ---- writing

pub(crate) fn put_flags(out: &mut Vec<u8>, flags: [bool; 3]) {
    out.push(flags.iter().enumerate().fold(0, |byte, (at, flag)| byte | u8::from(*flag) << at));
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn put_destination(out: &mut Vec<u8>, destination: Destination) {
    let (tag, id) = match destination {
        Destination::Queue(id) => (0, id.0),
        Destination::Exchange(id) => (1, id.0),
    };
    out.push(tag);
    out.extend(id.to_le_bytes());
}

/// Bytes of arguments as they are recorded.
pub(crate) fn arguments_len(arguments: &Arguments) -> usize {
    let mut out = Vec::new();
    put_arguments(&mut out, arguments);
    out.len()
}

/// Appends arguments.
pub(crate) fn put_arguments(out: &mut Vec<u8>, arguments: &Arguments) {
    put_fields(out, arguments.fields());
}

fn put_fields(out: &mut Vec<u8>, fields: Fields<'_>) {
    out.extend((fields.len() as u32).to_le_bytes());
    for (name, value) in fields.iter() {
        put_bytes(out, name);
        put_value(out, value);
    }
}

fn put_value(out: &mut Vec<u8>, value: Argument<'_>) {
    match value {
        Argument::Void => out.push(0),
        Argument::Bool(value) => out.extend([1, u8::from(value)]),
        Argument::Int(of_type, number) => {
            out.extend([2, of_type as u8]);
            out.extend(number.to_le_bytes());
        }
        Argument::Unsigned(number) => {
            out.push(3);
            out.extend(number.to_le_bytes());
        }
        Argument::Float(number) => {
            out.push(4);
            out.extend(number.0.to_bits().to_le_bytes());
        }
        Argument::Decimal { scale, value } => {
            out.extend([5, scale]);
            out.extend(value.to_le_bytes());
        }
        Argument::Text(text) => {
            out.push(6);
            put_bytes(out, text);
        }
        Argument::Bytes(bytes) => {
            out.push(7);
            put_bytes(out, bytes);
        }
        Argument::Timestamp(seconds) => {
            out.push(8);
            out.extend(seconds.to_le_bytes());
        }
        Argument::List(values) => {
            out.push(9);
            out.extend((values.len() as u32).to_le_bytes());
            values.iter().for_each(|value| put_value(out, value));
        }
        Argument::Table(table) => {
            out.push(10);
            put_fields(out, table);
        }
    }
}

impl Change {
    /// The change as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.encode_to(&mut out);
        out
    }

    /// Appends the change as bytes.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        match self {
            Change::ReserveQueueIds { below, may_be_used: _ } => {
                out.push(1);
                out.extend(below.to_le_bytes());
            }
            Change::AddVhost(vhost) => put_new_vhost(out, vhost),
            Change::SetVhost(vhost) => put_whole_vhost(out, 22, vhost),
            Change::DeleteVhost(id) => {
                out.push(3);
                out.extend(id.0.to_le_bytes());
            }
            Change::SetUser(user) => {
                out.push(4);
                put_text(out, &user.name);
                put_password(out, user.password.as_ref());
                put_tags(out, &user.tags);
            }
            Change::DeleteUser(name) => {
                out.push(5);
                put_text(out, name);
            }
            Change::SetPermissions(definition) => {
                out.push(6);
                out.extend(definition.vhost.0.to_le_bytes());
                put_text(out, &definition.user);
                let Permissions { configure, write, read } = &definition.permissions;
                [configure, write, read].into_iter().for_each(|pattern| put_text(out, pattern.source()));
            }
            Change::ClearPermissions { vhost, user } => {
                out.push(7);
                out.extend(vhost.0.to_le_bytes());
                put_text(out, user);
            }
            Change::SetTopicPermissions(definition) => {
                let TopicPermissionDefinition { vhost, user, exchange, write, read } = &**definition;
                out.push(18);
                out.extend(vhost.0.to_le_bytes());
                put_text(out, user);
                [exchange, write, read].into_iter().for_each(|text| put_text(out, text));
            }
            Change::ClearTopicPermissions { vhost, user, exchange } => {
                out.push(19);
                out.extend(vhost.0.to_le_bytes());
                put_text(out, user);
                put_text(out, exchange);
            }
            Change::AddExchange(exchange) => {
                let ExchangeDefinition {
                    id,
                    vhost,
                    name,
                    kind,
                    durable,
                    auto_delete,
                    internal,
                    declared_by,
                    arguments,
                } = &**exchange;
                out.push(if declared_by.is_none() { 8 } else { 30 });
                out.extend(id.0.to_le_bytes());
                out.extend(vhost.0.to_le_bytes());
                put_text(out, name);
                out.push(*kind as u8);
                put_flags(out, [*durable, *auto_delete, *internal]);
                put_arguments(out, arguments);
                declared_by.iter().for_each(|user| put_text(out, user));
            }
            Change::DeleteExchange { id, durable } => {
                out.push(9);
                out.extend(id.0.to_le_bytes());
                put_flags(out, [*durable, false, false]);
            }
            Change::AddQueue(queue) => put_queue(out, queue),
            Change::DeleteQueue { id, durable } => {
                out.push(11);
                out.extend(id.0.to_le_bytes());
                put_flags(out, [*durable, false, false]);
            }
            Change::Bind(binding) => put_binding(out, 12, binding),
            Change::Unbind(binding) => put_binding(out, 13, binding),
            Change::SetDigestKey(key) => {
                out.push(31);
                out.extend(key.bytes());
            }
            Change::SetParameter { name, value: Some(value) } => {
                out.push(25);
                put_text(out, name);
                put_text(out, value);
            }
            Change::SetParameter { name, value: None } => {
                out.push(26);
                put_text(out, name);
            }
            Change::SetVhostParameter { vhost, component, name, value } => {
                out.push(if value.is_some() { 28 } else { 29 });
                out.extend(vhost.0.to_le_bytes());
                put_text(out, component);
                put_text(out, name);
                value.iter().for_each(|value| put_text(out, value));
            }
            Change::Trace { vhost, on } => {
                out.push(24);
                out.extend(vhost.0.to_le_bytes());
                put_flags(out, [*on, false, false]);
            }
            Change::Remember { exchange, durable, number, message } => {
                out.push(23);
                out.extend(exchange.0.to_le_bytes());
                put_flags(out, [*durable, false, false]);
                out.extend(number.to_le_bytes());
                put_bytes(out, message);
            }
            Change::SetVhostLimits { vhost, limits } => {
                let VhostLimits { connections_max, queues_max, memory_bytes_max } = limits;
                out.push(14);
                out.extend(vhost.0.to_le_bytes());
                put_limits(out, [*connections_max, *queues_max], *memory_bytes_max);
            }
            Change::SetPolicy(policy) => put_policy(out, policy),
            Change::ClearPolicy { vhost, kind, name } => {
                out.push(17);
                out.extend(vhost.0.to_le_bytes());
                out.push(*kind as u8);
                put_text(out, name);
            }
            Change::Govern { vhost, objects } => {
                out.push(32);
                out.extend(vhost.0.to_le_bytes());
                out.extend((objects.len() as u32).to_le_bytes());
                for Ruled { object, user, operator } in &**objects {
                    put_destination(out, *object);
                    put_place(out, *user);
                    put_place(out, *operator);
                }
            }
            Change::NodeUp { node, incarnation } => {
                out.push(33);
                out.extend(node.0.to_le_bytes());
                out.extend(incarnation.to_le_bytes());
            }
            Change::WishDone { wish, below, queue } => {
                let WishId { node, incarnation, number } = wish;
                out.push(34);
                out.extend(node.0.to_le_bytes());
                [incarnation, number, below].into_iter().for_each(|of| out.extend(of.to_le_bytes()));
                put_flags(out, [queue.is_some(), false, false]);
                out.extend(queue.map(|queue| queue.0.to_le_bytes()).into_iter().flatten());
            }
            Change::QueuesAdded { below } => {
                out.push(35);
                out.extend(below.to_le_bytes());
            }
            Change::SetUserLimits { user, limits } => {
                let UserLimits { connections_max, channels_max, memory_bytes_max } = limits;
                out.push(15);
                put_text(out, user);
                put_limits(out, [*connections_max, *channels_max], *memory_bytes_max);
            }
        }
    }

    /// Reads a change from all of `bytes`. What a queue says of its virtual host's name is left to
    /// [`super::Catalog::apply`], which knows it, and shares the name of the user that declared it.
    pub fn decode(bytes: &[u8]) -> Result<Change, BadChange> {
        let mut decoder = Decoder::new(bytes);
        let change = decoder.change()?;
        if decoder.reader.is_empty() { Ok(change) } else { Err(BadChange::Long) }
    }
}

fn put_new_vhost(out: &mut Vec<u8>, vhost: &VhostDefinition) {
    let VhostDefinition { id, name, default_queue_type, about } = vhost;
    if about.is_some() {
        return put_whole_vhost(out, 21, vhost);
    }
    out.push(if *default_queue_type == QueueType::Classic { 2 } else { 20 });
    out.extend(id.0.to_le_bytes());
    put_text(out, name);
    if *default_queue_type != QueueType::Classic {
        out.push(*default_queue_type as u8);
    }
}

fn put_whole_vhost(out: &mut Vec<u8>, tag: u8, vhost: &VhostDefinition) {
    let VhostAbout { description, tags, is_protected } = vhost.about();
    out.push(tag);
    out.extend(vhost.id.0.to_le_bytes());
    put_text(out, &vhost.name);
    out.push(vhost.default_queue_type as u8);
    put_flags(out, [is_protected, false, false]);
    put_text(out, &description);
    put_tags(out, &tags);
}

pub(crate) fn put_tags(out: &mut Vec<u8>, tags: &[Box<str>]) {
    out.extend((tags.len() as u32).to_le_bytes());
    tags.iter().for_each(|tag| put_text(out, tag));
}

/// None has no bytes.
pub(crate) fn put_password(out: &mut Vec<u8>, password: Option<&PasswordHash>) {
    put_bytes(out, password.map_or(&[], PasswordHash::as_bytes));
}

fn put_limits(out: &mut Vec<u8>, limits: [Option<u32>; 2], memory_bytes_max: Option<u64>) {
    limits.iter().for_each(|limit| out.extend(limit.map_or(u64::MAX, u64::from).to_le_bytes()));
    // Only where it is set, as in records of before there was any.
    out.extend(memory_bytes_max.map(u64::to_le_bytes).into_iter().flatten());
}

fn put_queue(out: &mut Vec<u8>, queue: &QueueDefinition) {
    let QueueDefinition {
        id,
        vhost,
        vhost_name: _,
        name,
        log,
        queue_type,
        durable,
        exclusive,
        auto_delete,
        declared_by,
        arguments,
    } = queue;
    out.push(if declared_by.is_none() { 10 } else { 27 });
    out.extend(id.0.to_le_bytes());
    out.extend(vhost.0.to_le_bytes());
    put_text(out, name);
    out.extend(log.0.to_le_bytes());
    out.push(*queue_type as u8);
    put_flags(out, [*durable, *auto_delete, exclusive.is_some()]);
    exclusive.iter().for_each(|port| put_port(out, *port));
    put_arguments(out, arguments);
    if let Some(user) = declared_by {
        put_text(out, user);
    }
}

pub(crate) fn put_port(out: &mut Vec<u8>, PortId { node, shard, slot, generation }: PortId) {
    out.extend(node.0.to_le_bytes());
    out.extend(shard.0.to_le_bytes());
    out.extend(slot.to_le_bytes());
    out.extend(generation.to_le_bytes());
}

fn put_policy(out: &mut Vec<u8>, policy: &PolicyDefinition) {
    let PolicyDefinition { vhost, kind, name, pattern, apply_to, priority, definition } = policy;
    out.push(16);
    out.extend(vhost.0.to_le_bytes());
    out.push(*kind as u8);
    put_text(out, name);
    put_text(out, pattern.source());
    out.push(*apply_to as u8);
    out.extend(priority.to_le_bytes());
    put_arguments(out, definition);
}

/// A place in a list, and none as the number that no place has.
fn put_place(out: &mut Vec<u8>, place: Option<u16>) {
    out.extend(place.unwrap_or(NO_PLACE).to_le_bytes());
}

fn put_binding(out: &mut Vec<u8>, tag: u8, binding: &Binding) {
    let Binding { source, destination, key, arguments, durable } = binding;
    out.push(tag);
    out.extend(source.0.to_le_bytes());
    put_destination(out, *destination);
    put_text(out, key);
    put_flags(out, [*durable, false, false]);
    put_arguments(out, arguments);
}

// ---- reading

/// Reads what this file writes, and what other files write with its help.
pub(crate) struct Decoder<'a> {
    pub(crate) reader: Reader<'a>,
    /// Elements of lists and tables that may still come: each takes at least a byte, so more than there are bytes is a
    /// lie, and room is made for no more than that in all.
    elements_left: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { reader: Reader::new(bytes), elements_left: bytes.len() }
    }

    fn change(&mut self) -> Result<Change, BadChange> {
        Ok(match self.reader.u8()? {
            1 => Change::ReserveQueueIds { below: self.reader.u64_le()?, may_be_used: true },
            tag @ (2 | 20) => {
                let (id, name) = (self.vhost()?, self.text()?.into());
                let default_queue_type = if tag == 2 { QueueType::Classic } else { self.queue_type()? };
                Change::AddVhost(Arc::new(VhostDefinition { id, name, default_queue_type, about: None }))
            }
            21 => Change::AddVhost(Arc::new(self.whole_vhost()?)),
            31 => Change::SetDigestKey(self.digest_key()?),
            22 => Change::SetVhost(Arc::new(self.whole_vhost()?)),
            3 => Change::DeleteVhost(self.vhost()?),
            4 => {
                let name = self.text()?.into();
                let (password, tags) = (self.password()?, self.tags()?);
                Change::SetUser(Arc::new(UserDefinition { name, password, tags }))
            }
            5 => Change::DeleteUser(self.text()?.into()),
            6 => {
                let (vhost, user) = (self.vhost()?, self.text()?.into());
                let [configure, write, read] = [self.text()?, self.text()?, self.text()?];
                let permissions = Permissions::new(configure, write, read).map_err(|_| BadChange::Pattern)?;
                Change::SetPermissions(Arc::new(PermissionDefinition { vhost, user, permissions }))
            }
            14 => {
                let vhost = self.vhost()?;
                let ([connections_max, queues_max], memory_bytes_max) = self.limits()?;
                let limits = VhostLimits { connections_max, queues_max, memory_bytes_max };
                Change::SetVhostLimits { vhost, limits }
            }
            15 => {
                let user = self.text()?.into();
                let ([connections_max, channels_max], memory_bytes_max) = self.limits()?;
                let limits = UserLimits { connections_max, channels_max, memory_bytes_max };
                Change::SetUserLimits { user, limits }
            }
            16 => Change::SetPolicy(Arc::new(self.policy()?)),
            17 => {
                let (vhost, kind) = (self.vhost()?, self.policy_kind()?);
                Change::ClearPolicy { vhost, kind, name: self.text()?.into() }
            }
            18 => {
                let (vhost, user) = (self.vhost()?, self.text()?.into());
                let [exchange, write, read] = [self.text()?, self.text()?, self.text()?].map(Box::from);
                let definition = TopicPermissionDefinition { vhost, user, exchange, write, read };
                Change::SetTopicPermissions(Arc::new(definition))
            }
            19 => {
                let (vhost, user) = (self.vhost()?, self.text()?.into());
                Change::ClearTopicPermissions { vhost, user, exchange: self.text()?.into() }
            }
            7 => Change::ClearPermissions { vhost: self.vhost()?, user: self.text()?.into() },
            tag @ (8 | 30) => {
                let (id, vhost) = (ExchangeId(self.reader.u64_le()?), self.vhost()?);
                let (name, kind) = (self.text()?.into(), self.kind()?);
                let [durable, auto_delete, internal] = self.flags()?;
                let arguments = self.arguments(0)?;
                let declared_by = if tag == 30 { Some(self.text()?.into()) } else { None };
                Change::AddExchange(Arc::new(ExchangeDefinition {
                    id,
                    vhost,
                    name,
                    kind,
                    durable,
                    auto_delete,
                    internal,
                    declared_by,
                    arguments,
                }))
            }
            9 => {
                let id = ExchangeId(self.reader.u64_le()?);
                Change::DeleteExchange { id, durable: self.one_flag()? }
            }
            10 => Change::AddQueue(Arc::new(self.queue()?)),
            27 => {
                let queue = self.queue()?;
                Change::AddQueue(Arc::new(QueueDefinition {
                    declared_by: Some(self.text()?.into()),
                    ..queue
                }))
            }
            11 => {
                let id = QueueId(self.reader.u64_le()?);
                Change::DeleteQueue { id, durable: self.one_flag()? }
            }
            12 => Change::Bind(Arc::new(self.binding()?)),
            13 => Change::Unbind(Arc::new(self.binding()?)),
            23 => {
                let (exchange, durable) = (ExchangeId(self.reader.u64_le()?), self.one_flag()?);
                let number = self.reader.u64_le()?;
                let message = self.message()?;
                Change::Remember { exchange, durable, number, message: message.into() }
            }
            24 => Change::Trace { vhost: self.vhost()?, on: self.one_flag()? },
            32 => {
                let (vhost, count) = (self.vhost()?, self.count(RULED_BYTES)?);
                let objects: Result<Arc<[Ruled]>, BadChange> = (0..count).map(|_| self.ruled()).collect();
                Change::Govern { vhost, objects: objects? }
            }
            25 => {
                let name = self.text()?.into();
                Change::SetParameter { name, value: Some(self.text()?.into()) }
            }
            26 => Change::SetParameter { name: self.text()?.into(), value: None },
            tag @ (28 | 29) => {
                let vhost = self.vhost()?;
                let [component, name] = [self.text()?, self.text()?].map(Box::from);
                let value = if tag == 28 { Some(self.text()?.into()) } else { None };
                Change::SetVhostParameter { vhost, component, name, value }
            }
            33 => Change::NodeUp { node: self.node()?, incarnation: self.reader.u64_le()? },
            34 => {
                let (node, incarnation, number) =
                    (self.node()?, self.reader.u64_le()?, self.reader.u64_le()?);
                let (below, has_queue) = (self.reader.u64_le()?, self.one_flag()?);
                let queue = if has_queue { Some(QueueId(self.reader.u64_le()?)) } else { None };
                Change::WishDone { wish: WishId { node, incarnation, number }, below, queue }
            }
            35 => Change::QueuesAdded { below: self.reader.u64_le()? },
            tag => return Err(BadChange::Tag { of: "change", tag }),
        })
    }

    /// A record of a message for no queue, as exchanges remember it.
    pub(crate) fn message(&mut self) -> Result<&'a [u8], BadChange> {
        let message = self.bytes()?;
        let is_message = matches!(record::split(message), Some((record::Kind::Enqueue, _, [])));
        match is_message && record::Enqueue::read(message).is_some() {
            true => Ok(message),
            false => Err(BadChange::Message),
        }
    }

    fn whole_vhost(&mut self) -> Result<VhostDefinition, BadChange> {
        let (id, name, default_queue_type) = (self.vhost()?, self.text()?.into(), self.queue_type()?);
        let is_protected = self.one_flag()?;
        let (description, tags) = (self.text()?.into(), self.tags()?);
        let about = VhostAbout { description, tags, is_protected }.boxed();
        Ok(VhostDefinition { id, name, default_queue_type, about })
    }

    pub(crate) fn password(&mut self) -> Result<Option<PasswordHash>, BadChange> {
        match self.bytes()? {
            [] => Ok(None),
            hash => PasswordHash::from_bytes(hash).map(Some).ok_or(BadChange::Password),
        }
    }

    pub(crate) fn tags(&mut self) -> Result<Vec<Box<str>>, BadChange> {
        let tags = self.count(4)?;
        (0..tags).map(|_| self.text().map(Box::from)).collect()
    }

    fn queue(&mut self) -> Result<QueueDefinition, BadChange> {
        let (id, vhost) = (QueueId(self.reader.u64_le()?), self.vhost()?);
        let (name, log) = (self.text()?.into(), LogId(self.reader.u32_le()?));
        let queue_type = self.queue_type()?;
        let [durable, auto_delete, is_exclusive] = self.flags()?;
        let exclusive = match is_exclusive {
            true => Some(self.port()?),
            false => None,
        };
        let arguments = self.arguments(0)?;
        let vhost_name = Arc::default();
        Ok(QueueDefinition {
            id,
            vhost,
            vhost_name,
            name,
            log,
            queue_type,
            durable,
            exclusive,
            auto_delete,
            declared_by: None,
            arguments,
        })
    }

    pub(crate) fn queue_type(&mut self) -> Result<QueueType, BadChange> {
        let tag = self.reader.u8()?;
        let found = QueueType::ALL.get(usize::from(tag)).copied();
        found.ok_or(BadChange::Tag { of: "queue type", tag })
    }

    fn policy(&mut self) -> Result<PolicyDefinition, BadChange> {
        let (vhost, kind, name) = (self.vhost()?, self.policy_kind()?, self.text()?.into());
        let pattern = Pattern::new(self.text()?).map_err(|_| BadChange::Pattern)?;
        let tag = self.reader.u8()?;
        let apply_to = ApplyTo::ALL.into_iter().find(|apply_to| *apply_to as u8 == tag);
        let apply_to = apply_to.ok_or(BadChange::Tag { of: "kind of thing a policy applies to", tag })?;
        let priority = self.reader.i64_le()?;
        let definition = self.arguments(0)?;
        Ok(PolicyDefinition { vhost, kind, name, pattern, apply_to, priority, definition })
    }

    pub(crate) fn policy_kind(&mut self) -> Result<PolicyKind, BadChange> {
        let all = [PolicyKind::User, PolicyKind::Operator];
        let tag = self.reader.u8()?;
        all.into_iter().find(|kind| *kind as u8 == tag).ok_or(BadChange::Tag { of: "kind of policy", tag })
    }

    fn binding(&mut self) -> Result<Binding, BadChange> {
        let source = ExchangeId(self.reader.u64_le()?);
        let destination = self.destination()?;
        let key = self.text()?.into();
        let durable = self.one_flag()?;
        let arguments = self.arguments(0)?;
        Ok(Binding { source, destination, key, arguments, durable })
    }

    fn destination(&mut self) -> Result<Destination, BadChange> {
        match (self.reader.u8()?, self.reader.u64_le()?) {
            (0, id) => Ok(Destination::Queue(QueueId(id))),
            (1, id) => Ok(Destination::Exchange(ExchangeId(id))),
            (tag, _) => Err(BadChange::Tag { of: "destination", tag }),
        }
    }

    fn ruled(&mut self) -> Result<Ruled, BadChange> {
        let object = self.destination()?;
        let [user, operator] = [self.reader.u16_le()?, self.reader.u16_le()?];
        let place = |place| (place != NO_PLACE).then_some(place);
        Ok(Ruled { object, user: place(user), operator: place(operator) })
    }

    /// Two numbers, and bytes of memory where the record has them.
    fn limits(&mut self) -> Result<([Option<u32>; 2], Option<u64>), BadChange> {
        let mut limits = [None; 2];
        for limit in &mut limits {
            *limit = match self.reader.u64_le()? {
                u64::MAX => None,
                number => Some(u32::try_from(number).map_err(|_| BadChange::Limit)?),
            };
        }
        let memory_bytes_max = if self.reader.is_empty() { None } else { Some(self.reader.u64_le()?) };
        Ok((limits, memory_bytes_max))
    }

    pub(crate) fn port(&mut self) -> Result<PortId, BadChange> {
        Ok(PortId {
            node: self.node()?,
            shard: ShardId(self.reader.u16_le()?),
            slot: self.reader.u32_le()?,
            generation: self.reader.u32_le()?,
        })
    }

    pub(crate) fn node(&mut self) -> Result<NodeNo, BadChange> {
        Ok(NodeNo(self.reader.u16_le()?))
    }

    pub(crate) fn vhost(&mut self) -> Result<VhostId, BadChange> {
        Ok(VhostId(self.reader.u32_le()?))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], BadChange> {
        let len = self.reader.u32_le()?;
        Ok(self.reader.take(len as usize)?)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, BadChange> {
        str::from_utf8(self.bytes()?).map_err(|_| BadChange::Text)
    }

    pub(crate) fn flags(&mut self) -> Result<[bool; 3], BadChange> {
        match self.reader.u8()? {
            bits @ 0..8 => Ok([bits & 1 != 0, bits & 2 != 0, bits & 4 != 0]),
            tag => Err(BadChange::Tag { of: "set of flags", tag }),
        }
    }

    pub(crate) fn one_flag(&mut self) -> Result<bool, BadChange> {
        match self.reader.u8()? {
            bit @ 0..2 => Ok(bit == 1),
            tag => Err(BadChange::Tag { of: "flag", tag }),
        }
    }

    fn kind(&mut self) -> Result<Kind, BadChange> {
        let tag = self.reader.u8()?;
        Kind::ALL
            .into_iter()
            .find(|kind| *kind as u8 == tag)
            .ok_or(BadChange::Tag { of: "exchange type", tag })
    }

    /// A number of elements that take at least `bytes_min` bytes each.
    pub(crate) fn count(&mut self, bytes_min: usize) -> Result<usize, BadChange> {
        let count = self.reader.u32_le()? as usize;
        let bytes = count.saturating_mul(bytes_min);
        self.elements_left = self.elements_left.checked_sub(bytes).ok_or(BadChange::Count)?;
        Ok(count)
    }

    fn digest_key(&mut self) -> Result<DigestKey, BadChange> {
        let bytes: &[u8; DIGEST] = self.reader.take(DIGEST)?.first_chunk().ok_or(BadChange::Short)?;
        Ok(DigestKey::new(*bytes))
    }

    pub(crate) fn arguments(&mut self, depth: u32) -> Result<Arguments, BadChange> {
        let count = self.count(5)?;
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            let name = self.bytes()?;
            all.push((name, self.value(depth)?));
        }
        Ok(all.into_iter().collect())
    }

    fn value(&mut self, depth: u32) -> Result<Value, BadChange> {
        Ok(match self.reader.u8()? {
            0 => Value::Void,
            1 => Value::Bool(self.one_flag()?),
            2 => {
                let of_type = self.int_type()?;
                Value::Int(of_type, self.reader.i64_le()?)
            }
            3 => Value::Unsigned(self.reader.u64_le()?),
            4 => Value::Float(Float(f64::from_bits(self.reader.u64_le()?))),
            5 => {
                let scale = self.reader.u8()?;
                Value::Decimal { scale, value: self.reader.u32_le()? }
            }
            6 => Value::Text(self.bytes()?.into()),
            7 => Value::Bytes(self.bytes()?.into()),
            8 => Value::Timestamp(self.reader.u64_le()?),
            9 | 10 if depth == LIMITS.nesting_max => return Err(BadChange::Nesting),
            9 => {
                let count = self.count(1)?;
                Value::List((0..count).map(|_| self.value(depth + 1)).collect::<Result<_, _>>()?)
            }
            10 => Value::Table(self.arguments(depth + 1)?),
            tag => return Err(BadChange::Tag { of: "value", tag }),
        })
    }

    fn int_type(&mut self) -> Result<IntType, BadChange> {
        let all = [
            IntType::Byte,
            IntType::UnsignedByte,
            IntType::Short,
            IntType::UnsignedShort,
            IntType::SignedInt,
            IntType::UnsignedInt,
            IntType::Long,
        ];
        let tag = self.reader.u8()?;
        all.into_iter()
            .find(|of_type| *of_type as u8 == tag)
            .ok_or(BadChange::Tag { of: "integer type", tag })
    }
}
