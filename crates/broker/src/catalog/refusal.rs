//! An answer that says no: the rule that was broken, as data for the broker and in RabbitMQ's words for the peer.
//!
//! Decisions go by [`Reason`] or [`ReplyCode`]. The text is for peers and logs alone: [`Refusal::peer_text`] is called where a
//! protocol is encoded (`cargo xtask tidy` knows those files). It carries no code in front of it: AMQP 0-9-1 wants one
//! ([`Refusal::reply_text`]), AMQP 1.0 names a condition beside it ([`ReplyCode::condition`]), HTTP has ways of its own.

use super::definition::QueueDefinition;
use super::reason::{Object, Reason};
use std::fmt;

/// The kind of a refusal. The numbers are AMQP 0-9-1's (§1.2), the conditions AMQP 1.0's (§2.8.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ReplyCode {
    /// An operator or a resource closes the connection.
    ConnectionForced = 320,
    /// The user may not.
    AccessRefused = 403,
    /// It is not there.
    NotFound = 404,
    /// Another connection has it for itself.
    ResourceLocked = 405,
    /// It is there and different, or the request does not fit it.
    PreconditionFailed = 406,
    /// A bound of the broker is reached.
    ResourceError = 506,
    /// The connection may not do this at all.
    NotAllowed = 530,
    /// Leveret does not serve this.
    NotImplemented = 540,
    /// The broker cannot go on with this.
    InternalError = 541,
    /// A message says that somebody else sent it: 406 in AMQP 0-9-1, and a matter of rights in AMQP 1.0. The number is
    /// no protocol's.
    WrongUser = 10_406,
    /// A bound on the work for one message: 406 in AMQP 0-9-1, where 506 would close the connection, and the limit that it is
    /// in AMQP 1.0. The number is no protocol's.
    WorkExceeded = 20_406,
}

impl ReplyCode {
    /// The number in `connection.close` and `channel.close`.
    pub fn number(self) -> u16 {
        match self {
            ReplyCode::WrongUser | ReplyCode::WorkExceeded => ReplyCode::PreconditionFailed as u16,
            code => code as u16,
        }
    }

    /// The word in front of AMQP 0-9-1 reply texts.
    pub fn name(self) -> &'static str {
        match self {
            ReplyCode::ConnectionForced => "CONNECTION_FORCED",
            ReplyCode::AccessRefused => "ACCESS_REFUSED",
            ReplyCode::NotFound => "NOT_FOUND",
            ReplyCode::ResourceLocked => "RESOURCE_LOCKED",
            ReplyCode::PreconditionFailed | ReplyCode::WrongUser | ReplyCode::WorkExceeded => {
                "PRECONDITION_FAILED"
            }
            ReplyCode::ResourceError => "RESOURCE_ERROR",
            ReplyCode::NotAllowed => "NOT_ALLOWED",
            ReplyCode::NotImplemented => "NOT_IMPLEMENTED",
            ReplyCode::InternalError => "INTERNAL_ERROR",
        }
    }

    /// The error condition of AMQP 1.0 that means the same.
    pub fn condition(self) -> &'static str {
        match self {
            ReplyCode::ConnectionForced => "amqp:connection:forced",
            ReplyCode::AccessRefused | ReplyCode::WrongUser => "amqp:unauthorized-access",
            ReplyCode::NotFound => "amqp:not-found",
            ReplyCode::ResourceLocked => "amqp:resource-locked",
            ReplyCode::PreconditionFailed => "amqp:precondition-failed",
            ReplyCode::ResourceError | ReplyCode::WorkExceeded => "amqp:resource-limit-exceeded",
            ReplyCode::NotAllowed => "amqp:not-allowed",
            ReplyCode::NotImplemented => "amqp:not-implemented",
            ReplyCode::InternalError => "amqp:internal-error",
        }
    }

    /// Closes the connection in AMQP 0-9-1; the others close the channel (§1.2).
    pub fn is_hard(self) -> bool {
        !matches!(
            self,
            ReplyCode::AccessRefused
                | ReplyCode::NotFound
                | ReplyCode::ResourceLocked
                | ReplyCode::PreconditionFailed
                | ReplyCode::WrongUser
                | ReplyCode::WorkExceeded
        )
    }
}

/// Longest reply text of AMQP 0-9-1 in bytes: a short string.
const REPLY_TEXT_MAX: usize = 255;

/// A no with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that was broken.
    pub reason: Reason,
    /// Its kind, as protocols tell it.
    pub code: ReplyCode,
    /// For the peer, without the code's name. Private, so that no decision goes by it.
    text: Box<str>,
}

impl Refusal {
    /// A no of this kind.
    pub fn new(code: ReplyCode, reason: Reason, text: impl Into<Box<str>>) -> Refusal {
        Refusal { reason, code, text: text.into() }
    }

    /// The text as protocols send it, without the code's name.
    pub fn peer_text(&self) -> &str {
        &self.text
    }

    /// The text as AMQP 0-9-1 sends it: code and reason, at most 255 bytes, cut with an ellipsis.
    pub fn reply_text(&self) -> String {
        let mut text = self.to_string();
        if text.len() > REPLY_TEXT_MAX {
            text.truncate(text.floor_char_boundary(REPLY_TEXT_MAX - 3));
            text.push_str("...");
        }
        text
    }

    /// Streams do not do what is asked for.
    #[cold]
    pub fn not_for_streams(what: &str, stream: &QueueDefinition) -> Refusal {
        let text = format!("{what} not supported by stream queues {}", stream.named());
        Refusal::new(ReplyCode::NotImplemented, Reason::Unsuited(Object::Queue), text)
    }

    /// Streams alone do what is asked for.
    #[cold]
    pub fn no_stream(queue: &QueueDefinition) -> Refusal {
        Refusal::precondition(Reason::Unsuited(Object::Queue), format!("{} is no stream", queue.named()))
    }

    /// The user may not.
    pub(crate) fn access(reason: Reason, text: impl Into<Box<str>>) -> Refusal {
        Refusal::new(ReplyCode::AccessRefused, reason, text)
    }

    /// There is no such object.
    pub(crate) fn not_found(object: Object, text: impl Into<Box<str>>) -> Refusal {
        Refusal::new(ReplyCode::NotFound, Reason::NotFound(object), text)
    }

    /// The request does not fit what is there, or no rule at all.
    pub fn precondition(reason: Reason, text: impl Into<Box<str>>) -> Refusal {
        Refusal::new(ReplyCode::PreconditionFailed, reason, text)
    }

    /// Leveret does not serve this.
    pub fn not_served(text: impl Into<Box<str>>) -> Refusal {
        Refusal::new(ReplyCode::NotImplemented, Reason::NotServed, text)
    }

    /// A declaration names another value for an argument or property than the object has.
    pub(crate) fn inequivalent(argument: &'static str, named: &str, how: &str) -> Refusal {
        let text = format!("inequivalent arg '{argument}' for {named}: {how}");
        Refusal::precondition(Reason::Inequivalent { argument: argument.into() }, text)
    }

    /// An argument has a value that it cannot have, or none that the object knows. `why` follows the object's name.
    pub fn invalid_argument(argument: &'static str, named: &str, why: &str) -> Refusal {
        let text = format!("invalid arg '{argument}' for {named}{why}");
        Refusal::precondition(Reason::InvalidArgument { argument: argument.into() }, text)
    }

    /// The type of the queue that is declared does not have this property.
    pub(crate) fn invalid_property(property: &'static str, named: &str) -> Refusal {
        let text = format!("invalid property '{property}' for {named}");
        Refusal::precondition(Reason::InvalidProperty { property: property.into() }, text)
    }

    /// An argument that names something is no text.
    pub(crate) fn invalid_type(argument: &'static str, of_type: &str, named: &str) -> Refusal {
        let text = format!("invalid type '{of_type}' for arg '{argument}' in {named}");
        Refusal::precondition(Reason::InvalidArgument { argument: argument.into() }, text)
    }

    /// No object of this kind and name in the virtual host.
    pub fn missing(object: Object, name: &str, vhost: &str) -> Refusal {
        Refusal::not_found(object, format!("no {} '{name}' in vhost '{vhost}'", object.name()))
    }

    /// The queue was deleted between finding it and asking its owner.
    pub fn queue_gone() -> Refusal {
        Refusal::not_found(Object::Queue, "the queue has just been deleted")
    }

    /// Deleting only if unused, but there are consumers.
    pub fn queue_in_use(queue: &QueueDefinition) -> Refusal {
        Refusal::precondition(Reason::InUse(Object::Queue), format!("{} in use", queue.named()))
    }

    /// Deleting only if empty, but there are messages.
    pub fn queue_not_empty(queue: &QueueDefinition) -> Refusal {
        Refusal::precondition(Reason::NotEmpty, format!("{} not empty", queue.named()))
    }

    /// Consuming where another consumer is exclusive, or exclusively where there are others.
    pub fn exclusive_use(queue: &QueueDefinition) -> Refusal {
        Refusal::access(Reason::ExclusiveUse, format!("{} in exclusive use", queue.named()))
    }

    /// A quorum queue that has one active consumer at a time gives out no single messages.
    pub fn get_from_single_active(queue: &QueueDefinition) -> Refusal {
        let text = format!(
            "cannot obtain access to locked {}. basic.get operations are not supported by <<\"quorum\">> queues with single active consumer",
            queue.named()
        );
        Refusal::new(ReplyCode::ResourceLocked, Reason::SingleActive, text)
    }

    /// The queue's log holds damage: what is in it is neither served nor changed until somebody has looked.
    pub fn log_stopped(log: base::id::LogId) -> Refusal {
        let text = format!("the queue is on log {log}, which is damaged on disk; see the node's log");
        Refusal::new(ReplyCode::InternalError, Reason::Damaged, text)
    }

    /// The message is too large to be recorded.
    pub fn message_too_large() -> Refusal {
        let reason = Reason::TooLarge(Object::Message);
        Refusal::precondition(reason, "message size is larger than what a record can hold")
    }

    /// Finding where a message goes takes too long. `named`: the exchange as error texts have it; `key_bytes`: none where
    /// filters have a part in it.
    #[cold]
    pub(crate) fn route_too_dear(named: &str, key_bytes: Option<usize>, steps_max: u32) -> Refusal {
        let by = key_bytes.map_or("filters".to_owned(), |bytes| format!("a key of {bytes} bytes"));
        let text =
            format!("routing by {by} takes more than {steps_max} steps (leveret.route_steps_max) in {named}");
        Refusal::new(ReplyCode::WorkExceeded, Reason::RouteTooDear, text)
    }

    /// The queue belongs to another connection.
    pub fn queue_locked(queue: &QueueDefinition) -> Refusal {
        let named = queue.named();
        let text = format!(
            "cannot obtain exclusive access to locked {named}. It could be originally declared on another connection or \
             the exclusive property value does not match that of the original declaration."
        );
        Refusal::new(ReplyCode::ResourceLocked, Reason::Locked { queue: named.into() }, text)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} - {}", self.code.name(), self.text)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_to_a_short_string() {
        let refusal = Refusal::missing(Object::Queue, &"é".repeat(200), "/");
        let text = refusal.reply_text();
        assert!(text.len() <= 255 && text.starts_with("NOT_FOUND - no queue 'é") && text.ends_with("é..."));
        let missing = Refusal::missing(Object::Queue, "q", "/");
        assert_eq!(missing.reply_text(), "NOT_FOUND - no queue 'q' in vhost '/'");
        assert_eq!(missing.peer_text(), "no queue 'q' in vhost '/'");
    }

    #[test]
    fn an_answer_is_no_larger_for_the_refusals_sake() {
        assert_eq!(size_of::<Result<crate::Reply, Refusal>>(), size_of::<crate::Reply>());
    }

    #[test]
    fn every_code_has_its_number_and_condition() {
        let rows = [
            (ReplyCode::ConnectionForced, 320, "amqp:connection:forced", true),
            (ReplyCode::AccessRefused, 403, "amqp:unauthorized-access", false),
            (ReplyCode::NotFound, 404, "amqp:not-found", false),
            (ReplyCode::ResourceLocked, 405, "amqp:resource-locked", false),
            (ReplyCode::PreconditionFailed, 406, "amqp:precondition-failed", false),
            (ReplyCode::ResourceError, 506, "amqp:resource-limit-exceeded", true),
            (ReplyCode::NotAllowed, 530, "amqp:not-allowed", true),
            (ReplyCode::NotImplemented, 540, "amqp:not-implemented", true),
            (ReplyCode::InternalError, 541, "amqp:internal-error", true),
            (ReplyCode::WorkExceeded, 406, "amqp:resource-limit-exceeded", false),
        ];
        for (code, number, condition, is_hard) in rows {
            assert_eq!((code.number(), code.condition(), code.is_hard()), (number, condition, is_hard));
        }
    }
}
