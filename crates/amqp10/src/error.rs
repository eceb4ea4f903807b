//! Errors as they go over the wire (§2.8.14), and the machine's own objections.

use message::amqp10::{Encoder, Fields, List, Malformed, Map};

/// Error conditions (§2.8.15-18, §4.5.9).
pub mod condition {
    #![allow(missing_docs)]
    pub const INTERNAL_ERROR: &str = "amqp:internal-error";
    pub const NOT_FOUND: &str = "amqp:not-found";
    pub const UNAUTHORIZED_ACCESS: &str = "amqp:unauthorized-access";
    pub const DECODE_ERROR: &str = "amqp:decode-error";
    pub const RESOURCE_LIMIT_EXCEEDED: &str = "amqp:resource-limit-exceeded";
    pub const NOT_ALLOWED: &str = "amqp:not-allowed";
    pub const INVALID_FIELD: &str = "amqp:invalid-field";
    pub const NOT_IMPLEMENTED: &str = "amqp:not-implemented";
    pub const RESOURCE_LOCKED: &str = "amqp:resource-locked";
    pub const PRECONDITION_FAILED: &str = "amqp:precondition-failed";
    pub const RESOURCE_DELETED: &str = "amqp:resource-deleted";
    pub const ILLEGAL_STATE: &str = "amqp:illegal-state";
    pub const FRAME_SIZE_TOO_SMALL: &str = "amqp:frame-size-too-small";
    pub const CONNECTION_FORCED: &str = "amqp:connection:forced";
    pub const FRAMING_ERROR: &str = "amqp:connection:framing-error";
    pub const WINDOW_VIOLATION: &str = "amqp:session:window-violation";
    pub const HANDLE_IN_USE: &str = "amqp:session:handle-in-use";
    pub const UNATTACHED_HANDLE: &str = "amqp:session:unattached-handle";
    pub const DETACH_FORCED: &str = "amqp:link:detach-forced";
    pub const TRANSFER_LIMIT_EXCEEDED: &str = "amqp:link:transfer-limit-exceeded";
    pub const MESSAGE_SIZE_EXCEEDED: &str = "amqp:link:message-size-exceeded";
    pub const STOLEN: &str = "amqp:link:stolen";
    pub const UNKNOWN_TRANSACTION: &str = "amqp:transaction:unknown-id";
    pub const ROLLED_BACK: &str = "amqp:transaction:rollback";
    pub const TRANSACTION_TIMEOUT: &str = "amqp:transaction:timeout";
}

/// An error: in a close, end or detach, or in a rejected outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// One of [`condition`], or a name of the peer's own.
    pub condition: &'a str,
    /// For people.
    pub description: Option<&'a str>,
    /// For programs.
    pub info: Map<'a>,
}

impl<'a> Error<'a> {
    /// An error with a description and no info.
    pub fn new(condition: &'a str, description: &'a str) -> Error<'a> {
        Error { condition, description: Some(description), info: Map::default() }
    }

    pub(crate) fn read(list: List<'a>) -> Result<Error<'a>, Malformed> {
        let mut fields = Fields::new(list);
        Ok(Error {
            condition: fields.symbol()?.ok_or(Malformed::Missing("condition"))?,
            description: fields.string()?,
            info: fields.map()?.unwrap_or_default(),
        })
    }

    pub(crate) fn write(&self, encoder: &mut Encoder<'_>) {
        encoder.descriptor(0x1d);
        let mut list = encoder.list();
        encoder.symbol(self.condition);
        list.field(encoder);
        list.option(encoder, self.description, |encoder, text| encoder.string(text));
        let info = Some(self.info).filter(|info| !info.is_empty());
        list.option(encoder, info, |encoder, info| encoder.whole_map(info));
        encoder.close(list);
    }
}

/// An objection of the machine's, which the peer has been told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// One of [`condition`].
    pub condition: &'static str,
    /// For people.
    pub description: String,
}

impl Fault {
    pub(crate) fn new(condition: &'static str, description: impl Into<String>) -> Fault {
        Fault { condition, description: description.into() }
    }

    pub(crate) fn framing(description: impl Into<String>) -> Fault {
        Fault::new(condition::FRAMING_ERROR, description)
    }

    /// As it goes over the wire.
    pub fn error(&self) -> Error<'_> {
        Error::new(self.condition, &self.description)
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Fault {
        Fault::new(condition::DECODE_ERROR, malformed.to_string())
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.condition, self.description)
    }
}
