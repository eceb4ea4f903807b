//! Sites of expressions: a reader of a stream, a search in a queue. One says which functions of the message have a
//! value, and whether there is a client.

use crate::limits::Limits;
use crate::macros::Macros;
use crate::message::MessageField;

/// Where an expression stands.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The bounds of the expression.
    pub limits: Limits,
    /// The functions of the message that have a value; others are refused by name.
    pub known: Known,
    /// Whose names it is written in.
    pub names: Names,
    /// The macros that it may use.
    pub macros: &'a Macros,
}

/// Whose names fields of a message have in an expression, beside ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Nobody's.
    #[default]
    Own,
    /// Those of JMS selectors (Jakarta Messaging 3.1 section 3.8.1), and Qpid's; keywords are of any case.
    Jms,
}

/// A set of functions of the message, and whether somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known(u16);

/// Beside the bits of functions of the message.
const ASKER: u16 = 1 << 15;

impl Known {
    /// None of them.
    pub const NONE: Known = Known(0);
    /// Those that a message has from the moment on that it is published, wherever it is.
    pub const PUBLISHED: Known = Known::of(&[
        MessageField::Exchange,
        MessageField::RoutingKey,
        MessageField::Size,
        MessageField::Durable,
        MessageField::Deaths,
    ]);
    /// All of them, and somebody asks: for texts that are looked at, and not run.
    pub const ALL: Known = Known::of(&MessageField::ALL).and_asker();

    /// These.
    pub const fn of(fields: &[MessageField]) -> Known {
        let (mut known, mut at) = (Known::NONE, 0);
        while at < fields.len() {
            known = known.and(fields[at]);
            at += 1;
        }
        known
    }

    /// One more.
    pub const fn and(self, field: MessageField) -> Known {
        Known(self.0 | 1 << field as u16)
    }

    /// Somebody asks.
    pub const fn and_asker(self) -> Known {
        Known(self.0 | ASKER)
    }

    /// Whether somebody asks.
    pub const fn has_asker(self) -> bool {
        self.0 & ASKER != 0
    }

    /// Whether this one is among them.
    pub const fn has(self, field: MessageField) -> bool {
        self.0 & 1 << field as u16 != 0
    }

    /// The functions of the message that are in it.
    pub fn fields(self) -> impl Iterator<Item = MessageField> {
        MessageField::ALL.into_iter().filter(move |field| self.has(*field))
    }
}
