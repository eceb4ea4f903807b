//! Why an expression was refused, and where.

use std::fmt;

/// The fault of an expression and its place. It is always the author's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Bytes before the place it is about; the length of the expression where its end is.
    pub at: usize,
    /// The fault at that place.
    pub kind: ErrorKind,
}

/// The possible faults of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// More than [`crate::Limits::characters_max`].
    TooLong {
        /// The bound.
        characters_max: usize,
    },
    /// More than [`crate::Limits::tokens_max`].
    TooManyTokens {
        /// The bound.
        tokens_max: usize,
    },
    /// More levels than [`crate::Limits::depth_max`], or operands that wait at once than a program can hold.
    TooDeep {
        /// The bound.
        depth_max: usize,
    },
    /// More entries in an `IN` list than [`crate::Limits::list_max`].
    ListTooLong {
        /// The bound.
        list_max: usize,
    },
    /// A character that starts no token.
    IllegalCharacter(char),
    /// A string or a name in brackets without its end.
    Unterminated,
    /// A control character in a name or a pattern.
    ControlCharacter,
    /// A word that is reserved, whatever its case: in brackets it is a name.
    ReservedWord(String),
    /// A section or a field of one that filters cannot read.
    UnknownField(String),
    /// A number beyond the range of approximate numbers.
    NumberTooLarge,
    /// Something else stands where this was expected.
    Expected(&'static str),
    /// `ESCAPE` with anything but one character.
    EscapeLength,
    /// A pattern that ends in its escape character.
    EscapeAtEnd,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::TooLong { characters_max } => write!(out, "more than {characters_max} characters"),
            ErrorKind::TooManyTokens { tokens_max } => write!(out, "more than {tokens_max} tokens"),
            ErrorKind::TooDeep { depth_max } => write!(out, "nested more than {depth_max} deep"),
            ErrorKind::ListTooLong { list_max } => write!(out, "more than {list_max} entries in a list"),
            ErrorKind::IllegalCharacter(character) => write!(out, "illegal character {character:?}"),
            ErrorKind::Unterminated => out.write_str("no end of this string or name"),
            ErrorKind::ControlCharacter => out.write_str("control character"),
            ErrorKind::ReservedWord(word) => write!(out, "{word} is reserved, write [{word}] for a name"),
            ErrorKind::UnknownField(name) => write!(out, "{name} is no field a filter can read"),
            ErrorKind::NumberTooLarge => out.write_str("number too large"),
            ErrorKind::Expected(what) => write!(out, "{what} expected"),
            ErrorKind::EscapeLength => out.write_str("ESCAPE takes exactly one character"),
            ErrorKind::EscapeAtEnd => out.write_str("the pattern ends in its escape character"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at byte {}: {}", self.at, self.kind)
    }
}

impl std::error::Error for Error {}
