//! Reasons for which declarations of exchanges and bindings are refused.

use crate::ring::WEIGHT_MAX;
use crate::topic::WILDCARDS_MAX;
use crate::value::Value;

/// Why a declaration is refused; displayed in RabbitMQ's words where it has any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclareError {
    /// The argument that names a header or property to hash by is no text.
    HashType {
        /// The argument.
        name: String,
        /// The type of the argument's value.
        type_name: &'static str,
    },
    /// Both a header and a property are to be hashed by.
    TwoHashes,
    /// No property has this name, or none that can be hashed by.
    UnknownProperty(Box<[u8]>),
    /// How many messages are to be remembered is no number, or none above 0.
    HistoryLength(Value),
    /// Through how many brokers a message may have come is not said.
    NoHops,
    /// It is said, and is no 64-bit integer.
    HopsType,
    /// A delayed-message exchange is to choose as one.
    DelayedTwice,
    /// A delayed-message exchange lacks the kind it is to choose as.
    NoDelayedType,
    /// It is to choose as a kind that does not exist.
    UnknownType(Box<[u8]>),
}

impl std::fmt::Display for DeclareError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DeclareError::HashType { name, type_name } => {
                write!(f, "invalid type '{type_name}' for arg '{name}'")
            }
            DeclareError::TwoHashes => f.write_str("hash-header and hash-property are mutually exclusive"),
            DeclareError::UnknownProperty(name) => {
                write!(f, "Unsupported property: {}", String::from_utf8_lossy(name))
            }
            DeclareError::HistoryLength(value) => {
                let value = match value {
                    Value::Text(text) => shown(text),
                    other => other.to_string(),
                };
                write!(f, "Invalid argument {value}, 'x-recent-history-length' must be a positive integer")
            }
            DeclareError::NoHops => f.write_str("Argument x-max-hops missing"),
            DeclareError::HopsType => f.write_str("Argument x-max-hops must be of type long"),
            DeclareError::DelayedTwice => {
                f.write_str("Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'")
            }
            DeclareError::NoDelayedType => {
                f.write_str("Invalid argument, 'x-delayed-type' must be an existing exchange type")
            }
            DeclareError::UnknownType(name) => {
                write!(f, "unknown exchange type '{}'", String::from_utf8_lossy(name))
            }
        }
    }
}

impl std::error::Error for DeclareError {}

/// Why a binding is refused; displayed in RabbitMQ's words where it has any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindError {
    /// A topic binding key has more than [`WILDCARDS_MAX`] `#` words.
    Wildcards {
        /// The key.
        key: Box<[u8]>,
        /// How many it has.
        wildcards: usize,
    },
    /// `x-match` names no mode.
    MatchValue(Box<[u8]>),
    /// `x-match` is no text.
    MatchType(Value),
    /// The key of a binding to a consistent-hash exchange is no integer.
    NoWeight(Box<[u8]>),
    /// The key is an integer below 1.
    WeightTooSmall,
    /// The key is an integer above [`WEIGHT_MAX`].
    WeightTooLarge,
    /// The key of a binding to a local random exchange is not empty.
    NotEmpty(Box<[u8]>),
    /// `x-filter` is no text.
    FilterType,
    /// `x-filter` cannot be read: the fault and its place.
    Filter(filter::Error),
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BindError::Wildcards { key, wildcards } => write!(
                f,
                "Topic binding key '{}' uses {wildcards} '#' wildcards, at most {WILDCARDS_MAX} are allowed",
                String::from_utf8_lossy(key)
            ),
            BindError::MatchValue(mode) => write!(
                f,
                "Invalid x-match field value {}; expected all, any, all-with-x, or any-with-x",
                shown(mode)
            ),
            BindError::MatchType(value) => {
                let of_type = value.type_name();
                let value = match value {
                    Value::Bytes(bytes) => shown(bytes),
                    other => other.to_string(),
                };
                write!(f, "Invalid x-match field type {of_type} (value {value}); expected longstr")
            }
            BindError::NoWeight(key) => write!(f, "The binding key must be an integer: {}", shown(key)),
            BindError::WeightTooSmall => f.write_str("The binding key must be greater than 0"),
            BindError::WeightTooLarge => write!(f, "The binding key must not exceed {WEIGHT_MAX}"),
            BindError::NotEmpty(key) => {
                write!(f, "Non empty binding '{}' key not permitted", String::from_utf8_lossy(key))
            }
            BindError::FilterType => f.write_str("invalid arg 'x-filter': it is to be an expression"),
            BindError::Filter(error) => write!(f, "invalid arg 'x-filter': {error}"),
        }
    }
}

impl std::error::Error for BindError {}

/// A binary as RabbitMQ shows it: beyond ASCII it says so.
fn shown(key: &[u8]) -> String {
    let encoding = if key.is_ascii() { "" } else { "/utf8" };
    if key.is_empty() {
        return "<<>>".to_owned();
    }
    format!("<<\"{}\"{encoding}>>", String::from_utf8_lossy(key))
}
