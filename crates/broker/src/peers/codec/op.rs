//! Requests to the catalog as bytes: the number of the request, then its fields, in the order that [`fields`] gives.

use crate::access::PasswordHash;
use crate::catalog::{
    BadChange, Decoder, DefaultPolicy, DefaultUser, Op, PolicyKind, QueueType, UserLimits, VhostAbout,
    VhostDefaults, VhostLimits, put_arguments, put_flags, put_password, put_port, put_tags, put_text,
};
use base::id::{PortId, QueueId};
use routing::Arguments;

/// Random bytes of a declaration.
const RANDOM: usize = 16;

/// A part of a request.
enum Field<'a> {
    Text(&'a str),
    OptionalText(Option<&'a str>),
    /// Flags that are not used are false.
    Flags([bool; 3]),
    OptionalFlag(Option<bool>),
    Arguments(&'a Arguments),
    Tags(&'a [Box<str>]),
    OptionalTags(Option<&'a [Box<str>]>),
    Password(Option<&'a PasswordHash>),
    Random(&'a [u8; RANDOM]),
    Partitions(&'a [(Box<str>, Box<str>)]),
    Queue(QueueId),
    Port(PortId),
    QueueType(Option<QueueType>),
    PolicyKind(PolicyKind),
    Priority(i64),
    /// Connections; queues or channels; bytes of memory.
    Limits([Option<u32>; 2], Option<u64>),
    Defaults(&'a VhostDefaults),
}

fn texts<'a, const N: usize>(texts: [&'a str; N]) -> Vec<Field<'a>> {
    texts.into_iter().map(Field::Text).collect()
}

/// The number of a request, and its fields.
fn fields(op: &Op) -> (u8, Vec<Field<'_>>) {
    use Field::{
        Flags, OptionalFlag, OptionalTags, OptionalText, Partitions, Password, Port, Priority, Queue, Random,
        Tags, Text,
    };
    match op {
        Op::DeclareExchange { name, kind, passive, durable, auto_delete, internal, arguments } => {
            let flags = [Flags([*passive, *durable, *auto_delete]), Flags([*internal, false, false])];
            let [first, second] = flags;
            (1, vec![Text(name), Text(kind), first, second, Field::Arguments(arguments)])
        }
        Op::DeleteExchange { name, if_unused } => (2, vec![Text(name), Flags([*if_unused, false, false])]),
        Op::DeclareQueue { name, passive, durable, exclusive, auto_delete, arguments, random } => {
            let (first, second) = ([*passive, *durable, *exclusive], [*auto_delete, false, false]);
            let arguments = Field::Arguments(arguments);
            (3, vec![Text(name), Flags(first), Flags(second), arguments, Random(random)])
        }
        Op::MakeSuperStream { name, partitions, arguments } => {
            (4, vec![Text(name), Partitions(partitions), Field::Arguments(arguments)])
        }
        Op::DeleteQueue { id } => (5, vec![Queue(*id)]),
        Op::DeleteExclusive { port } => (6, vec![Port(*port)]),
        Op::BindQueue { queue, exchange, key, arguments } => (7, binding([queue, exchange, key], arguments)),
        Op::UnbindQueue { queue, exchange, key, arguments } => {
            (8, binding([queue, exchange, key], arguments))
        }
        Op::BindExchange { source, destination, key, arguments } => {
            (9, binding([source, destination, key], arguments))
        }
        Op::UnbindExchange { source, destination, key, arguments } => {
            (10, binding([source, destination, key], arguments))
        }
        Op::AddVhost { name, defaults } => (11, vec![Text(name), Field::Defaults(defaults)]),
        Op::UpdateVhost { name, description, tags, queue_type, is_protected } => {
            let (description, tags) = (OptionalText(description.as_deref()), OptionalTags(tags.as_deref()));
            let queue_type = Field::QueueType(*queue_type);
            (12, vec![Text(name), description, tags, queue_type, OptionalFlag(*is_protected)])
        }
        Op::DeleteVhost { name } => (13, texts([name])),
        Op::AddUser { name, password, tags } => {
            (14, vec![Text(name), Password(password.as_ref()), Tags(tags)])
        }
        Op::DeleteUser { name } => (15, texts([name])),
        Op::ChangePassword { name, password } => (16, vec![Text(name), Password(password.as_ref())]),
        Op::SetUserTags { name, tags } => (17, vec![Text(name), Tags(tags)]),
        Op::SetPermissions { user, vhost, configure, write, read } => {
            (18, texts([user, vhost, configure, write, read]))
        }
        Op::ClearPermissions { user, vhost } => (19, texts([user, vhost])),
        Op::SetPolicy { kind, vhost, name, pattern, apply_to, priority, definition } => {
            let mut all = vec![Field::PolicyKind(*kind)];
            all.extend(texts([vhost, name, pattern, apply_to]));
            all.extend([Priority(*priority), Field::Arguments(definition)]);
            (20, all)
        }
        Op::ClearPolicy { kind, vhost, name } => {
            (21, vec![Field::PolicyKind(*kind), Text(vhost), Text(name)])
        }
        Op::SetTopicPermissions { user, vhost, exchange, write, read } => {
            (22, texts([user, vhost, exchange, write, read]))
        }
        Op::ClearTopicPermissions { user, vhost, exchange } => {
            (23, vec![Text(user), Text(vhost), OptionalText(exchange.as_deref())])
        }
        Op::SetVhostLimits { vhost, limits } => (24, vec![Text(vhost), of_vhost(limits)]),
        Op::SetParameter { name, value } => (25, vec![Text(name), OptionalText(value.as_deref())]),
        Op::SetVhostParameter { vhost, component, name, value } => {
            (26, vec![Text(vhost), Text(component), Text(name), OptionalText(value.as_deref())])
        }
        Op::Trace { vhost, on } => (27, vec![Text(vhost), Flags([*on, false, false])]),
        Op::SetUserLimits { user, limits } => (28, vec![Text(user), of_user(limits)]),
    }
}

fn binding<'a>(names: [&'a str; 3], arguments: &'a Arguments) -> Vec<Field<'a>> {
    let mut all = texts(names);
    all.push(Field::Arguments(arguments));
    all
}

fn of_vhost(limits: &VhostLimits) -> Field<'static> {
    let VhostLimits { connections_max, queues_max, memory_bytes_max } = limits;
    Field::Limits([*connections_max, *queues_max], *memory_bytes_max)
}

fn of_user(limits: &UserLimits) -> Field<'static> {
    let UserLimits { connections_max, channels_max, memory_bytes_max } = limits;
    Field::Limits([*connections_max, *channels_max], *memory_bytes_max)
}

pub(super) fn put(out: &mut Vec<u8>, op: &Op) {
    let (number, fields) = fields(op);
    out.push(number);
    fields.into_iter().for_each(|field| put_field(out, field));
}

fn put_field(out: &mut Vec<u8>, field: Field<'_>) {
    match field {
        Field::Text(text) => put_text(out, text),
        Field::OptionalText(text) => put_optional(out, text, put_text),
        Field::Flags(flags) => put_flags(out, flags),
        Field::OptionalFlag(flag) => put_optional(out, flag, |out, flag| out.push(u8::from(flag))),
        Field::Arguments(arguments) => put_arguments(out, arguments),
        Field::Tags(tags) => put_tags(out, tags),
        Field::OptionalTags(tags) => put_optional(out, tags, put_tags),
        Field::Password(password) => put_password(out, password),
        Field::Random(random) => out.extend(random),
        Field::Partitions(partitions) => {
            out.extend((partitions.len() as u32).to_le_bytes());
            for (name, key) in partitions {
                put_text(out, name);
                put_text(out, key);
            }
        }
        Field::Queue(id) => out.extend(id.0.to_le_bytes()),
        Field::Port(port) => put_port(out, port),
        Field::QueueType(kind) => put_optional(out, kind, |out, kind| out.push(kind as u8)),
        Field::PolicyKind(kind) => out.push(kind as u8),
        Field::Priority(priority) => out.extend(priority.to_le_bytes()),
        Field::Limits(counts, bytes) => {
            counts.into_iter().for_each(|count| put_number(out, count.map(u64::from)));
            put_number(out, bytes);
        }
        Field::Defaults(defaults) => put_defaults(out, defaults),
    }
}

fn put_optional<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn put_number(out: &mut Vec<u8>, number: Option<u64>) {
    put_optional(out, number, |out, number| out.extend(number.to_le_bytes()));
}

fn put_defaults(out: &mut Vec<u8>, defaults: &VhostDefaults) {
    let VhostDefaults { queue_type, limits, operator_policies, users, about, tells_events } = defaults;
    let VhostAbout { description, tags, is_protected } = about;
    out.push(*queue_type as u8);
    put_field(out, of_vhost(limits));
    put_text(out, description);
    put_tags(out, tags);
    put_flags(out, [*is_protected, *tells_events, false]);
    out.extend((operator_policies.len() as u32).to_le_bytes());
    for DefaultPolicy { name, pattern, apply_to, definition } in operator_policies {
        [name, pattern, apply_to].into_iter().for_each(|text| put_text(out, text));
        put_arguments(out, definition);
    }
    out.extend((users.len() as u32).to_le_bytes());
    for DefaultUser { name, password, tags, configure, write, read } in users {
        put_text(out, name);
        put_password(out, password.as_ref());
        put_tags(out, tags);
        [configure, write, read].into_iter().for_each(|text| put_text(out, text));
    }
}

// ---- reading

pub(super) fn read(decoder: &mut Decoder<'_>) -> Result<Op, BadChange> {
    match decoder.reader.u8()? {
        number @ 1..=10 => topology(number, decoder),
        number @ (11..=13 | 20 | 21 | 24..=27) => rule(number, decoder),
        number => access(number, decoder),
    }
}

fn unknown(number: u8) -> BadChange {
    BadChange::Tag { of: "request to the catalog", tag: number }
}

/// Exchanges, queues and bindings.
fn topology(number: u8, decoder: &mut Decoder<'_>) -> Result<Op, BadChange> {
    Ok(match number {
        1 => {
            let [name, kind] = boxed(decoder)?;
            let ([passive, durable, auto_delete], internal) = (decoder.flags()?, decoder.one_flag()?);
            let arguments = decoder.arguments(0)?;
            Op::DeclareExchange { name, kind, passive, durable, auto_delete, internal, arguments }
        }
        2 => Op::DeleteExchange { name: text(decoder)?, if_unused: decoder.one_flag()? },
        3 => {
            let name = text(decoder)?;
            let ([passive, durable, exclusive], auto_delete) = (decoder.flags()?, decoder.one_flag()?);
            let arguments = decoder.arguments(0)?;
            let random = decoder.reader.take(RANDOM)?.try_into().map_err(|_| BadChange::Short)?;
            Op::DeclareQueue { name, passive, durable, exclusive, auto_delete, arguments, random }
        }
        4 => {
            let name = text(decoder)?;
            let count = decoder.count(8)?;
            let pair = |decoder: &mut Decoder<'_>| Ok((text(decoder)?, text(decoder)?));
            let partitions: Result<_, BadChange> = (0..count).map(|_| pair(decoder)).collect();
            Op::MakeSuperStream { name, partitions: partitions?, arguments: decoder.arguments(0)? }
        }
        5 => Op::DeleteQueue { id: QueueId(decoder.reader.u64_le()?) },
        6 => Op::DeleteExclusive { port: decoder.port()? },
        7 | 8 => {
            let ([queue, exchange, key], arguments) = (boxed(decoder)?, decoder.arguments(0)?);
            match number {
                7 => Op::BindQueue { queue, exchange, key, arguments },
                _ => Op::UnbindQueue { queue, exchange, key, arguments },
            }
        }
        9 | 10 => {
            let ([source, destination, key], arguments) = (boxed(decoder)?, decoder.arguments(0)?);
            match number {
                9 => Op::BindExchange { source, destination, key, arguments },
                _ => Op::UnbindExchange { source, destination, key, arguments },
            }
        }
        number => return Err(unknown(number)),
    })
}

/// Virtual hosts, policies and parameters.
fn rule(number: u8, decoder: &mut Decoder<'_>) -> Result<Op, BadChange> {
    Ok(match number {
        11 => Op::AddVhost { name: text(decoder)?, defaults: defaults(decoder)? },
        12 => Op::UpdateVhost {
            name: text(decoder)?,
            description: optional(decoder, text)?,
            tags: optional(decoder, Decoder::tags)?,
            queue_type: optional(decoder, Decoder::queue_type)?,
            is_protected: optional(decoder, Decoder::one_flag)?,
        },
        13 => Op::DeleteVhost { name: text(decoder)? },
        20 => {
            let (kind, [vhost, name, pattern, apply_to]) = (decoder.policy_kind()?, boxed(decoder)?);
            let (priority, definition) = (decoder.reader.i64_le()?, decoder.arguments(0)?);
            Op::SetPolicy { kind, vhost, name, pattern, apply_to, priority, definition }
        }
        21 => {
            let (kind, [vhost, name]) = (decoder.policy_kind()?, boxed(decoder)?);
            Op::ClearPolicy { kind, vhost, name }
        }
        24 => Op::SetVhostLimits { vhost: text(decoder)?, limits: vhost_limits(decoder)? },
        25 => Op::SetParameter { name: text(decoder)?, value: optional(decoder, text)? },
        26 => {
            let [vhost, component, name] = boxed(decoder)?;
            Op::SetVhostParameter { vhost, component, name, value: optional(decoder, text)? }
        }
        27 => Op::Trace { vhost: text(decoder)?, on: decoder.one_flag()? },
        number => return Err(unknown(number)),
    })
}

/// Users, and what they may do.
fn access(number: u8, decoder: &mut Decoder<'_>) -> Result<Op, BadChange> {
    Ok(match number {
        14 => Op::AddUser { name: text(decoder)?, password: decoder.password()?, tags: decoder.tags()? },
        15 => Op::DeleteUser { name: text(decoder)? },
        16 => Op::ChangePassword { name: text(decoder)?, password: decoder.password()? },
        17 => Op::SetUserTags { name: text(decoder)?, tags: decoder.tags()? },
        18 => {
            let [user, vhost, configure, write, read] = boxed(decoder)?;
            Op::SetPermissions { user, vhost, configure, write, read }
        }
        19 => {
            let [user, vhost] = boxed(decoder)?;
            Op::ClearPermissions { user, vhost }
        }
        22 => {
            let [user, vhost, exchange, write, read] = boxed(decoder)?;
            Op::SetTopicPermissions { user, vhost, exchange, write, read }
        }
        23 => {
            let [user, vhost] = boxed(decoder)?;
            Op::ClearTopicPermissions { user, vhost, exchange: optional(decoder, text)? }
        }
        28 => {
            let user = text(decoder)?;
            let ([connections_max, channels_max], memory_bytes_max) = limits(decoder)?;
            let limits = UserLimits { connections_max, channels_max, memory_bytes_max };
            Op::SetUserLimits { user, limits }
        }
        number => return Err(unknown(number)),
    })
}

fn text(decoder: &mut Decoder<'_>) -> Result<Box<str>, BadChange> {
    decoder.text().map(Box::from)
}

fn boxed<const N: usize>(decoder: &mut Decoder<'_>) -> Result<[Box<str>; N], BadChange> {
    let mut all = [const { None }; N];
    for one in &mut all {
        *one = Some(text(decoder)?);
    }
    Ok(all.map(Option::unwrap_or_default))
}

fn optional<'a, T>(
    decoder: &mut Decoder<'a>,
    read: impl FnOnce(&mut Decoder<'a>) -> Result<T, BadChange>,
) -> Result<Option<T>, BadChange> {
    decoder.one_flag()?.then(|| read(decoder)).transpose()
}

fn limits(decoder: &mut Decoder<'_>) -> Result<([Option<u32>; 2], Option<u64>), BadChange> {
    let mut number = || optional(decoder, |decoder| Ok(decoder.reader.u64_le()?));
    let small = |number: Option<u64>| number.map(u32::try_from).transpose().map_err(|_| BadChange::Limit);
    let counts = [small(number()?)?, small(number()?)?];
    Ok((counts, number()?))
}

fn vhost_limits(decoder: &mut Decoder<'_>) -> Result<VhostLimits, BadChange> {
    let ([connections_max, queues_max], memory_bytes_max) = limits(decoder)?;
    Ok(VhostLimits { connections_max, queues_max, memory_bytes_max })
}

fn defaults(decoder: &mut Decoder<'_>) -> Result<VhostDefaults, BadChange> {
    let (queue_type, limits) = (decoder.queue_type()?, vhost_limits(decoder)?);
    let (description, tags) = (text(decoder)?, decoder.tags()?);
    let [is_protected, tells_events, none] = decoder.flags()?;
    if none {
        return Err(BadChange::Tag { of: "set of flags of a virtual host", tag: 4 });
    }
    let policies = decoder.count(16)?;
    let policy = |decoder: &mut Decoder<'_>| {
        let [name, pattern, apply_to] = boxed(decoder)?;
        Ok(DefaultPolicy { name, pattern, apply_to, definition: decoder.arguments(0)? })
    };
    let operator_policies: Result<_, BadChange> = (0..policies).map(|_| policy(decoder)).collect();
    let operator_policies = operator_policies?;
    let users = decoder.count(24)?;
    let user = |decoder: &mut Decoder<'_>| {
        let (name, password, tags) = (text(decoder)?, decoder.password()?, decoder.tags()?);
        let [configure, write, read] = boxed(decoder)?;
        Ok(DefaultUser { name, password, tags, configure, write, read })
    };
    let users: Result<_, BadChange> = (0..users).map(|_| user(decoder)).collect();
    let about = VhostAbout { description, tags, is_protected };
    Ok(VhostDefaults { queue_type, limits, operator_policies, users: users?, about, tells_events })
}
