//! A refusal in AMQP 1.0's terms: the condition and description of an error, and whether it ends the session.

use ::amqp10::{Transfer, condition};
use broker::catalog::{Reason, Refusal};
use message::amqp10::Encoder;

/// Error that an attach, a message or a request of the management node is answered with.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) condition: &'static str,
    pub(super) text: String,
    /// An attach that is refused so ends its session.
    pub(super) ends_session: bool,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused::from(&refusal)
    }
}

impl From<&Refusal> for Refused {
    fn from(refusal: &Refusal) -> Refused {
        let condition = refusal.code.condition();
        match &refusal.reason {
            // No permission would help: it ends a link, not its session.
            Reason::InternalExchange { exchange } => {
                let text = format!("forbidden to publish to internal {exchange}");
                Refused { condition, text, ends_session: false }
            }
            // Not a fault of what was asked for.
            Reason::NoMemory => Refused::new(condition::RESOURCE_LIMIT_EXCEEDED, refusal.peer_text()),
            _ => Refused::new(condition, refusal.peer_text()),
        }
    }
}

impl Refused {
    pub(super) fn new(condition: &'static str, text: impl Into<String>) -> Refused {
        Refused { condition, text: text.into(), ends_session: condition == condition::UNAUTHORIZED_ACCESS }
    }

    /// The refusal of a queue to a receiver: RabbitMQ is brief about one that is locked.
    pub(super) fn at_source(refusal: Refusal) -> Refused {
        match &refusal.reason {
            Reason::Locked { queue } => {
                let text = format!("cannot obtain exclusive access to locked {queue}");
                Refused::new(refusal.code.condition(), text)
            }
            _ => refusal.into(),
        }
    }
}

/// Which message is meant, as the pair of an error's info.
pub(super) fn named(transfer: &Transfer<'_>) -> Vec<u8> {
    let mut info = Vec::new();
    let mut encoder = Encoder::new(&mut info);
    encoder.symbol("delivery-tag");
    encoder.binary(transfer.tag);
    info
}
