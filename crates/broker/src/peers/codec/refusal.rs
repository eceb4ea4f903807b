//! Refusals as bytes. What decides, the code and the reason, has numbers here that stay; the text goes as it is.
//!
//! A reason that names an argument is read as one of the names that planners have. One of another version is not known here:
//! the reason is then that another node refused.

use crate::catalog::{
    BadChange, Decoder, Object, Reason, Refusal, ReplyCode, put_text, queue_argument_names,
};

/// Names that are in reasons, beside arguments of queues.
const NAMES: [&str; 10] = [
    "alternate-exchange",
    "auto-delete",
    "auto_delete",
    "durable",
    "exclusive",
    "exclusive-owner",
    "internal",
    "non-durable",
    "type",
    "x-max-hops",
];

/// By their numbers.
const CODES: [ReplyCode; 11] = [
    ReplyCode::ConnectionForced,
    ReplyCode::AccessRefused,
    ReplyCode::NotFound,
    ReplyCode::ResourceLocked,
    ReplyCode::PreconditionFailed,
    ReplyCode::ResourceError,
    ReplyCode::NotAllowed,
    ReplyCode::NotImplemented,
    ReplyCode::InternalError,
    ReplyCode::WrongUser,
    ReplyCode::WorkExceeded,
];

/// By their numbers.
const OBJECTS: [Object; 20] = [
    Object::Binding,
    Object::Channel,
    Object::Connection,
    Object::Consumer,
    Object::Delivery,
    Object::Exchange,
    Object::Log,
    Object::Macro,
    Object::Message,
    Object::Parameter,
    Object::Permission,
    Object::Policy,
    Object::Queue,
    Object::Shard,
    Object::Stream,
    Object::Tag,
    Object::Topic,
    Object::Transaction,
    Object::User,
    Object::VirtualHost,
];

/// The part of a reason behind its number.
enum Detail<'a> {
    None,
    Object(Object),
    Text(&'a str),
}

fn numbered(reason: &Reason) -> (u8, Detail<'_>) {
    match reason {
        Reason::Closed => (1, Detail::None),
        Reason::Damaged => (2, Detail::None),
        Reason::Deleted(object) => (3, Detail::Object(*object)),
        Reason::ExclusiveUse => (4, Detail::None),
        Reason::Exists(object) => (5, Detail::Object(*object)),
        Reason::InUse(object) => (6, Detail::Object(*object)),
        Reason::Inequivalent { argument } => (7, Detail::Text(argument)),
        Reason::InternalExchange { exchange } => (8, Detail::Text(exchange)),
        Reason::Invalid(object) => (9, Detail::Object(*object)),
        Reason::InvalidArgument { argument } => (10, Detail::Text(argument)),
        Reason::InvalidProperty { property } => (11, Detail::Text(property)),
        Reason::LimitReached(object) => (12, Detail::Object(*object)),
        Reason::Locked { queue } => (13, Detail::Text(queue)),
        Reason::Login => (14, Detail::None),
        Reason::NoMemory => (15, Detail::None),
        Reason::NoSpace => (16, Detail::None),
        Reason::NotEmpty => (17, Detail::None),
        Reason::NotFound(object) => (18, Detail::Object(*object)),
        Reason::NotPermitted => (19, Detail::None),
        Reason::NotServed => (20, Detail::None),
        Reason::Permission(object) => (21, Detail::Object(*object)),
        Reason::NoLeader => (22, Detail::None),
        Reason::Protected => (23, Detail::None),
        Reason::Reserved(object) => (24, Detail::Object(*object)),
        Reason::Relayed => (25, Detail::None),
        Reason::RouteTooDear => (26, Detail::None),
        Reason::Rejected => (27, Detail::None),
        Reason::Role => (28, Detail::None),
        Reason::SingleActive => (29, Detail::None),
        Reason::TimedOut => (30, Detail::None),
        Reason::TooLarge(object) => (31, Detail::Object(*object)),
        Reason::TooLong => (32, Detail::None),
        Reason::Unsuited(object) => (33, Detail::Object(*object)),
        Reason::WrongState => (34, Detail::None),
        Reason::WrongUser => (35, Detail::None),
    }
}

pub(super) fn put(out: &mut Vec<u8>, refusal: &Refusal) {
    let code = CODES.iter().position(|code| *code == refusal.code).expect("all codes have numbers");
    out.push(code as u8);
    let (number, detail) = numbered(&refusal.reason);
    out.push(number);
    match detail {
        Detail::None => {}
        Detail::Object(object) => {
            let number = OBJECTS.iter().position(|it| *it == object).expect("all objects have numbers");
            out.push(number as u8);
        }
        Detail::Text(text) => put_text(out, text),
    }
    put_text(out, refusal.peer_text());
}

pub(super) fn read(decoder: &mut Decoder<'_>) -> Result<Refusal, BadChange> {
    let tag = decoder.reader.u8()?;
    let code = CODES.get(usize::from(tag)).ok_or(BadChange::Tag { of: "code of a refusal", tag })?;
    let reason = reason(decoder)?;
    Ok(Refusal::new(*code, reason, decoder.text()?))
}

fn reason(decoder: &mut Decoder<'_>) -> Result<Reason, BadChange> {
    Ok(match decoder.reader.u8()? {
        1 => Reason::Closed,
        2 => Reason::Damaged,
        3 => Reason::Deleted(object(decoder)?),
        4 => Reason::ExclusiveUse,
        5 => Reason::Exists(object(decoder)?),
        6 => Reason::InUse(object(decoder)?),
        7 => name(decoder)?.map_or(Reason::Relayed, |argument| Reason::Inequivalent { argument }),
        8 => Reason::InternalExchange { exchange: decoder.text()?.into() },
        9 => Reason::Invalid(object(decoder)?),
        10 => name(decoder)?.map_or(Reason::Relayed, |argument| Reason::InvalidArgument { argument }),
        11 => name(decoder)?.map_or(Reason::Relayed, |property| Reason::InvalidProperty { property }),
        12 => Reason::LimitReached(object(decoder)?),
        13 => Reason::Locked { queue: decoder.text()?.into() },
        14 => Reason::Login,
        15 => Reason::NoMemory,
        16 => Reason::NoSpace,
        17 => Reason::NotEmpty,
        18 => Reason::NotFound(object(decoder)?),
        19 => Reason::NotPermitted,
        20 => Reason::NotServed,
        21 => Reason::Permission(object(decoder)?),
        22 => Reason::NoLeader,
        23 => Reason::Protected,
        24 => Reason::Reserved(object(decoder)?),
        25 => Reason::Relayed,
        26 => Reason::RouteTooDear,
        27 => Reason::Rejected,
        28 => Reason::Role,
        29 => Reason::SingleActive,
        30 => Reason::TimedOut,
        31 => Reason::TooLarge(object(decoder)?),
        32 => Reason::TooLong,
        33 => Reason::Unsuited(object(decoder)?),
        34 => Reason::WrongState,
        35 => Reason::WrongUser,
        tag => return Err(BadChange::Tag { of: "reason", tag }),
    })
}

fn object(decoder: &mut Decoder<'_>) -> Result<Object, BadChange> {
    let tag = decoder.reader.u8()?;
    OBJECTS.get(usize::from(tag)).copied().ok_or(BadChange::Tag { of: "object", tag })
}

/// A name that planners have in reasons; none: it is of another version.
fn name(decoder: &mut Decoder<'_>) -> Result<Option<&'static str>, BadChange> {
    let text = decoder.text()?;
    Ok(NAMES.into_iter().chain(queue_argument_names()).find(|name| *name == text))
}
