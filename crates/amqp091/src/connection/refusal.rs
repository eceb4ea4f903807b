//! Refusals of the machine's own, in RabbitMQ 4.3.6's words.

use crate::content::{Assembly, BASIC};
use crate::error::{Error, Octets, ReplyCode};
use crate::method::{Method, MethodId};
use message::amqp091::Malformed;

/// A fault of the peer's, and how much of the connection that ends.
pub(super) struct Refusal {
    pub error: Error,
    /// Frames cannot be told apart any more.
    pub is_fatal: bool,
}

impl Refusal {
    pub fn new(code: ReplyCode, text: impl std::fmt::Display, method: MethodId) -> Refusal {
        Refusal { error: Error::refused(code, text, method), is_fatal: false }
    }
}

pub(super) fn decode<'i>(id: MethodId, arguments: &'i [u8]) -> Result<Method<'i>, Refusal> {
    match Method::decode(id, arguments) {
        Some(Ok(method)) => Ok(method),
        Some(Err(reason)) => Err(undecodable(id, arguments, reason)),
        // RabbitMQ drops the connection without a word here; these words are its answer to methods it knows.
        None => Err(unimplemented(id)),
    }
}

#[cold]
pub(super) fn unimplemented(id: MethodId) -> Refusal {
    Refusal::new(ReplyCode::CommandInvalid, "unimplemented method", id)
}

#[cold]
pub(super) fn undecodable(id: MethodId, arguments: &[u8], reason: Malformed) -> Refusal {
    if reason == Malformed::NotText {
        return Refusal::new(ReplyCode::FrameError, "Malformed UTF-8 in shortstr", MethodId::NONE);
    }
    Refusal::new(ReplyCode::FrameError, format!("cannot decode {}", Octets(arguments)), id)
}

#[cold]
pub(super) fn malformed(reason: Malformed) -> Refusal {
    Refusal::new(ReplyCode::InternalError, format!("malformed content header: {reason}"), MethodId::NONE)
}

#[cold]
pub(super) fn assembly_interrupted(assembly: &Assembly) -> Refusal {
    let text = if assembly.has_header() {
        "expected content body, got non content body frame instead".to_owned()
    } else {
        format!("expected content header for class {BASIC}, got non content header frame instead")
    };
    Refusal::new(ReplyCode::UnexpectedFrame, text, assembly.method)
}
