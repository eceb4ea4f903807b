//! How a stream is made: the names and arguments allowed, and how the broker's refusals are called.

use super::rights::Rights;
use super::settings::NAME_BYTES_MAX;
use crate::context::Context;
use ::stream_protocol::{List, Pair, ResponseCode};
use broker::access::Access;
use broker::catalog::{Op, Refusal, ReplyCode};
use routing::{Arguments, Value};

/// The name a stream or super stream gets: without ends of lines, which nobody can see.
pub(super) fn correct_name(name: &[u8]) -> Option<Box<str>> {
    let name: Vec<u8> = name.iter().copied().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    let name = String::from_utf8(name).ok()?;
    let is_fit = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with("amq.");
    is_fit.then(|| name.into_boxed_str())
}

/// How the arguments of a stream are called over this protocol, how in a declaration, and whether they are numbers.
const ARGUMENTS: [(&str, &str, bool); 7] = [
    ("max-length-bytes", "x-max-length-bytes", true),
    ("max-age", "x-max-age", false),
    ("stream-max-segment-size-bytes", "x-stream-max-segment-size-bytes", true),
    ("initial-cluster-size", "x-initial-cluster-size", true),
    ("queue-leader-locator", "x-queue-leader-locator", false),
    ("stream-filter-size-bytes", "x-stream-filter-size-bytes", true),
    ("stream-first-chunk-messages", "x-stream-first-chunk-messages", true),
];

/// The arguments of a declaration; `None`: one is no number that should be. Others mean nothing, as to RabbitMQ.
pub(super) fn declaration(arguments: &List<'_, Pair<'_>>) -> Option<Arguments> {
    let mut declared = Arguments::default();
    declared.insert(b"x-queue-type", Value::text("stream"));
    for (name, own, is_number) in ARGUMENTS {
        let Some(value) = arguments.get(name.as_bytes()) else { continue };
        let value = match is_number {
            true => Value::long(str::from_utf8(value).ok()?.parse().ok()?),
            false => Value::Text(value.into()),
        };
        declared.insert(own.as_bytes(), value);
    }
    Some(declared)
}

/// How a refusal of the broker's is called here.
pub(super) fn code_of(refusal: &Refusal) -> ResponseCode {
    match refusal.code {
        ReplyCode::AccessRefused => ResponseCode::ACCESS_REFUSED,
        ReplyCode::NotFound => ResponseCode::STREAM_DOES_NOT_EXIST,
        ReplyCode::PreconditionFailed
        | ReplyCode::WrongUser
        | ReplyCode::WorkExceeded
        | ReplyCode::ResourceLocked
        | ReplyCode::ResourceError
        | ReplyCode::NotAllowed => ResponseCode::PRECONDITION_FAILED,
        ReplyCode::ConnectionForced | ReplyCode::NotImplemented | ReplyCode::InternalError => {
            ResponseCode::INTERNAL_ERROR
        }
    }
}

/// The request for a stream, made of a client's arguments. RabbitMQ's rules, in its order.
pub(super) fn create(
    context: &mut Context<'_>,
    rights: &Rights,
    name: &[u8],
    arguments: &List<'_, Pair<'_>>,
) -> Result<Op, ResponseCode> {
    let name = correct_name(name).ok_or(ResponseCode::PRECONDITION_FAILED)?;
    if !rights.may(context, Access::Configure, name.as_bytes()) {
        return Err(ResponseCode::ACCESS_REFUSED);
    }
    let arguments = declaration(arguments).ok_or(ResponseCode::PRECONDITION_FAILED)?;
    Ok(Op::DeclareQueue {
        name,
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments,
        random: context.shard.secret_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(correct_name(name.as_bytes()).as_deref(), expected, "{name:?}");
        };
        check("orders", Some("orders"));
        check("or\r\nders", Some("orders"));
        check("", None);
        check("\n", None);
        check("amq.orders", None);
        check("amq", Some("amq"));
        check(&"n".repeat(255), Some(&"n".repeat(255)));
        check(&"n".repeat(256), None);
        assert_eq!(correct_name(b"\xff"), None);
    }

    #[test]
    fn arguments_of_a_declaration() {
        let given = [
            Pair::new("max-length-bytes", "1000"),
            Pair::new("max-age", "5h"),
            Pair::new("unheard-of", "x"),
            Pair::new("stream-filter-size-bytes", "32"),
            Pair::new("stream-first-chunk-messages", "400"),
        ];
        let declared = declaration(&List::new(&given)).unwrap();
        let names: Vec<_> =
            declared.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
        let expected = [
            "x-max-age",
            "x-max-length-bytes",
            "x-queue-type",
            "x-stream-filter-size-bytes",
            "x-stream-first-chunk-messages",
        ];
        assert_eq!(names, expected);
        assert_eq!(declared.get(b"x-max-length-bytes"), Some(Value::long(1000).view()));
        assert_eq!(declared.get(b"x-max-age"), Some(Value::text("5h").view()));
        assert!(declaration(&List::new(&[Pair::new("initial-cluster-size", "three")])).is_none());
    }
}
