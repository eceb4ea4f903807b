//! Why an expression was refused, and where.

use crate::path::STEPS_MAX;
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
    /// A name before a bracket that is no function's.
    UnknownFunction(String),
    /// A function of something that is not known where the expression stands.
    NotKnown(&'static str),
    /// A function with more or fewer arguments than it takes.
    Arguments {
        /// Its name.
        function: &'static str,
        /// The fewest and the most it takes.
        takes: (usize, usize),
    },
    /// A macro with more or fewer arguments than it has parameters.
    MacroArguments {
        /// Its name.
        name: String,
        /// Its parameters.
        takes: usize,
    },
    /// More macros within one another than [`crate::Limits::macro_depth_max`].
    MacrosTooDeep {
        /// The bound.
        depth_max: usize,
    },
    /// A fault of what a macro is expanded to here: the place of the error is that of the call.
    InMacro {
        /// Its name.
        name: String,
        /// The fault, and its place in the expression of the macro.
        fault: Box<Error>,
    },
    /// A path of more than [`crate::STEPS_MAX`] steps.
    PathTooLong,
    /// More names than [`crate::Limits::names_max`].
    TooManyNames {
        /// The bound.
        names_max: usize,
    },
    /// More different paths than [`crate::Limits::paths_max`].
    TooManyPaths {
        /// The bound.
        paths_max: usize,
    },
    /// More regular expressions than [`crate::Limits::regexps_max`].
    TooManyRegexps {
        /// The bound.
        regexps_max: usize,
    },
    /// A regular expression that is none, and why, or one that takes more than [`crate::Limits::regexp_bytes_max`].
    Regexp(String),
    /// A topic pattern of more than [`crate::PATTERN_BYTES_MAX`].
    TopicTooLong {
        /// The bound.
        bytes_max: usize,
    },
    /// A reference to a group in a replacement.
    Group(String),
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
            ErrorKind::UnknownFunction(name) => write!(out, "{name} is no function"),
            ErrorKind::NotKnown(function) => write!(out, "{function}() is not known here"),
            ErrorKind::Arguments { function, takes: (_, 0) } => write!(out, "{function} takes no arguments"),
            ErrorKind::Arguments { function, takes: (least, most) } if least == most => {
                write!(out, "{function} takes {least} arguments")
            }
            ErrorKind::Arguments { function, takes: (least, most) } => {
                write!(out, "{function} takes {least} to {most} arguments")
            }
            ErrorKind::MacroArguments { name, takes: 0 } => write!(out, "{name} takes no arguments"),
            ErrorKind::MacroArguments { name, takes } => write!(out, "{name} takes {takes} arguments"),
            ErrorKind::MacrosTooDeep { depth_max } => {
                write!(out, "more than {depth_max} macros within one another")
            }
            ErrorKind::InMacro { name, fault } => write!(out, "in {name}, {fault}"),
            ErrorKind::PathTooLong => write!(out, "a path of more than {STEPS_MAX} steps"),
            ErrorKind::TooManyNames { names_max } => write!(out, "more than {names_max} names of properties"),
            ErrorKind::TooManyPaths { paths_max } => write!(out, "more than {paths_max} different paths"),
            ErrorKind::TooManyRegexps { regexps_max } => {
                write!(out, "more than {regexps_max} regular expressions")
            }
            ErrorKind::Regexp(why) => write!(out, "regular expression: {why}"),
            ErrorKind::TopicTooLong { bytes_max } => {
                write!(out, "a topic pattern of more than {bytes_max} bytes")
            }
            ErrorKind::Group(reference) => {
                write!(out, "{reference} refers to a group, which a replacement cannot")
            }
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
