//! Streams by name: the names allowed, the permissions needed, and how a stream is made and deleted.

use super::Adapter;
use super::settings::NAME_BYTES_MAX;
use crate::context::Context;
use ::stream_protocol::{List, Pair, ResponseCode};
use broker::access::{Access, Resource};
use broker::catalog::{Op, QueueDefinition, QueueType, Refusal, ReplyCode};
use routing::{Arguments, Value};
use std::sync::Arc;

/// Whether a queue is a stream.
pub(super) fn is_stream(queue: &QueueDefinition) -> bool {
    queue.queue_type == QueueType::Stream
}

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
        | ReplyCode::ResourceLocked
        | ReplyCode::ResourceError
        | ReplyCode::NotAllowed => ResponseCode::PRECONDITION_FAILED,
        ReplyCode::ConnectionForced | ReplyCode::NotImplemented | ReplyCode::InternalError => {
            ResponseCode::INTERNAL_ERROR
        }
    }
}

impl Adapter {
    /// Whether the client may do this with the stream of this name, be it there or not.
    pub(super) fn may(&self, context: &Context<'_>, access: Access, name: &[u8]) -> bool {
        self.may_with(context, access, name, Resource::Queue)
    }

    /// The same of an exchange.
    pub(super) fn may_exchange(&self, context: &Context<'_>, access: Access, name: &[u8]) -> bool {
        self.may_with(context, access, name, Resource::Exchange)
    }

    fn may_with<'n>(
        &self,
        context: &Context<'_>,
        access: Access,
        name: &'n [u8],
        resource: impl FnOnce(&'n str) -> Resource<'n>,
    ) -> bool {
        let (Some(actor), Ok(name)) = (&self.actor, str::from_utf8(name)) else { return false };
        context.shard.catalog().check_access(actor, access, resource(name)).is_ok()
    }

    /// The stream of this name.
    pub(super) fn stream(&self, context: &Context<'_>, name: &[u8]) -> Option<Arc<QueueDefinition>> {
        let vhost = self.actor.as_ref()?.vhost;
        let found = context.shard.catalog().queue_by_name(vhost, name)?;
        is_stream(found).then(|| found.clone())
    }

    /// The request for a stream.
    pub(super) fn declare(&self, context: &mut Context<'_>, name: Box<str>, arguments: Arguments) -> Op {
        Op::DeclareQueue {
            name,
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments,
            log: context.shard.log_for_new_queue(true),
            random: context.shard.secret_bytes(),
        }
    }

    /// The request for a stream, made of a client's arguments. RabbitMQ's rules, in its order.
    pub(super) fn create(
        &self,
        context: &mut Context<'_>,
        name: &[u8],
        arguments: &List<'_, Pair<'_>>,
    ) -> Result<Op, ResponseCode> {
        let name = correct_name(name).ok_or(ResponseCode::PRECONDITION_FAILED)?;
        if !self.may(context, Access::Configure, name.as_bytes()) {
            return Err(ResponseCode::ACCESS_REFUSED);
        }
        let arguments = declaration(arguments).ok_or(ResponseCode::PRECONDITION_FAILED)?;
        Ok(self.declare(context, name, arguments))
    }
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
        assert_eq!(declared.get(b"x-max-length-bytes"), Some(&Value::long(1000)));
        assert_eq!(declared.get(b"x-max-age"), Some(&Value::text("5h")));
        assert!(declaration(&List::new(&[Pair::new("initial-cluster-size", "three")])).is_none());
    }
}
