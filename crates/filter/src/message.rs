//! Functions of the message: what is known of it beside its sections, where it came from and where it is.

use std::fmt;

/// A function of the message. Sites [know](crate::Known) some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageField {
    /// The exchange it was published to, a text.
    Exchange,
    /// The routing key it was published with, a text.
    RoutingKey,
    /// Bytes of its body.
    Size,
    /// When the broker stored it, in milliseconds since 1970.
    Received,
    /// Its offset in a stream.
    Offset,
    /// Whether it is to outlive a restart of the broker: `durable` of its header.
    Durable,
    /// Whether it was delivered before.
    Redelivered,
    /// Times that it was delivered before.
    Deliveries,
    /// Times that it died in the queue where it died last, for the reason it died for there: 0 if it never died.
    Deaths,
    /// Its state in a queue: `ready`, `held` (delivered, and not settled) or `delayed`.
    State,
}

/// The reach of a value: all that it hangs on. Keys of messages, and what is decided of them once, need the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// On the message as it was stored: it is always the same.
    Stable,
    /// On the present too.
    Timed,
    /// On deliveries of the message, or on the client.
    Contextual,
}

impl MessageField {
    /// All of them.
    pub const ALL: [MessageField; 10] = [
        MessageField::Exchange,
        MessageField::RoutingKey,
        MessageField::Size,
        MessageField::Received,
        MessageField::Offset,
        MessageField::Durable,
        MessageField::Redelivered,
        MessageField::Deliveries,
        MessageField::Deaths,
        MessageField::State,
    ];

    /// Its name, without the brackets behind it.
    pub fn name(self) -> &'static str {
        match self {
            MessageField::Exchange => "EXCHANGE",
            MessageField::RoutingKey => "ROUTING_KEY",
            MessageField::Size => "SIZE",
            MessageField::Received => "RECEIVED",
            MessageField::Offset => "OFFSET",
            MessageField::Durable => "DURABLE",
            MessageField::Redelivered => "REDELIVERED",
            MessageField::Deliveries => "DELIVERIES",
            MessageField::Deaths => "DEATHS",
            MessageField::State => "STATE",
        }
    }

    /// The function of this name, in any case.
    pub(crate) fn named(name: &str) -> Option<MessageField> {
        MessageField::ALL.into_iter().find(|field| field.name().eq_ignore_ascii_case(name))
    }

    /// The class of its value.
    pub fn class(self) -> Class {
        match self {
            MessageField::Exchange
            | MessageField::RoutingKey
            | MessageField::Size
            | MessageField::Received
            | MessageField::Offset
            | MessageField::Durable
            | MessageField::Deaths => Class::Stable,
            MessageField::Redelivered | MessageField::Deliveries | MessageField::State => Class::Contextual,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Class::Stable => "stable",
            Class::Timed => "timed",
            Class::Contextual => "contextual",
        })
    }
}
