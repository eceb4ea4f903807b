//! Matching by headers instead of keys: `x-match` all, any, all-with-x, any-with-x.
//!
//! Values match as RabbitMQ's do, which is not how arguments of a second declaration are compared: integers of different
//! types by their number, text and bytes by their bytes, floating-point numbers by their bits (0 is not -0), lists and
//! tables only where all types in them are the same too; a number never matches its text. A moment is a number: a
//! header's counts milliseconds, a binding's is taken as given. A binding argument without a value matches whatever
//! the header holds. Arguments that begin with `x-` take no part unless the mode says `-with-x`, and `x-match` and
//! `x-filter` never do.

use crate::argument::Argument;
use crate::arguments::Arguments;
use crate::matches::{Matches, STEP_BYTES};
use crate::value::Value;
use base::hash::ByBytes;
use hashbrown::HashTable;
use std::cell::OnceCell;
use std::hash::BuildHasher;

/// The header that says how long a message is to be delayed, in milliseconds.
pub const DELAY: &[u8] = b"x-delay";

/// The header with a table for each broker that a message came through.
pub const RECEIVED_FROM: &[u8] = b"x-received-from";

/// The headers of a message, in any encoding.
pub trait Headers {
    /// The value of `name`; of a name that comes more than once, the last one's.
    fn get(&self, name: &[u8]) -> Option<Field<'_>>;

    /// Every header's name and value, the value as bytes for [`Headers::read`]. Of a name that comes more than once the
    /// last one counts.
    fn encodings<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8]));

    /// The value that [`Headers::encodings`] showed.
    fn read<'a>(&'a self, encoding: &'a [u8]) -> Option<Field<'a>>;

    /// How long the message asks to be delayed.
    fn delay(&self) -> Option<Field<'_>> {
        self.get(DELAY)
    }

    /// The brokers that a message came through: a list with a table for each.
    fn received_from(&self) -> Option<Value> {
        match self.get(RECEIVED_FROM)? {
            Field::Nested(value) => Some(value),
            _ => None,
        }
    }

    /// The value of a property; a point in time is a [`Field::Timestamp`].
    fn property(&self, property: Property) -> Option<Field<'_>>;
}

/// A property by which messages can be spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// `correlation-id`, a text.
    CorrelationId,
    /// `message-id`, a text.
    MessageId,
    /// When it was made.
    Timestamp,
}

impl Property {
    /// The property that arguments call `name`.
    pub fn from_name(name: &[u8]) -> Option<Property> {
        Some(match name {
            b"correlation_id" => Property::CorrelationId,
            b"message_id" => Property::MessageId,
            b"timestamp" => Property::Timestamp,
            _ => return None,
        })
    }
}

/// No headers at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeaders;

impl Headers for NoHeaders {
    fn get(&self, _name: &[u8]) -> Option<Field<'_>> {
        None
    }

    fn encodings<'a>(&'a self, _visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {}

    fn read<'a>(&'a self, _encoding: &'a [u8]) -> Option<Field<'a>> {
        None
    }

    fn property(&self, _property: Property) -> Option<Field<'_>> {
        None
    }
}

/// A header's value, borrowed from the message where it is bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Field<'a> {
    /// No value.
    Void,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer of 64 bits without sign.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// A decimal number.
    Decimal {
        /// Decimal places.
        scale: u8,
        /// The digits.
        value: u32,
    },
    /// Text or bytes.
    Bytes(&'a [u8]),
    /// Seconds since 1970.
    Timestamp(u64),
    /// A list or a table: rare, and made for the comparison.
    Nested(Value),
}

impl Field<'_> {
    /// Whether a binding with `value` lets it through.
    pub fn matches(&self, value: Argument<'_>) -> bool {
        match (self, value) {
            (_, Argument::Void) => true,
            (Field::Bool(a), Argument::Bool(b)) => *a == b,
            (Field::Float(a), Argument::Float(b)) => a.to_bits() == b.0.to_bits(),
            (Field::Decimal { scale: a, value: x }, Argument::Decimal { scale: b, value: y }) => {
                *a == b && *x == y
            }
            (Field::Bytes(a), Argument::Text(b) | Argument::Bytes(b)) => *a == b,
            (Field::Nested(a), b) => a.view() == b,
            _ => self.number().is_some_and(|a| Some(a) == value.as_i128()),
        }
    }

    fn number(&self) -> Option<i128> {
        match self {
            Field::Int(number) => Some(i128::from(*number)),
            Field::Unsigned(number) => Some(i128::from(*number)),
            Field::Timestamp(seconds) => Some(i128::from(*seconds) * 1000),
            _ => None,
        }
    }
}

/// How the arguments of a binding are weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode {
    any: bool,
    with_x: bool,
}

/// The name of the argument that says how.
pub(crate) const X_MATCH: &[u8] = b"x-match";

/// The argument of a binding to an exchange of any kind that says by an expression which messages it is for: no header.
pub const X_FILTER: &[u8] = b"x-filter";

/// The mode `x-match` names; all of them without it.
fn mode(arguments: &Arguments) -> Mode {
    match arguments.get(X_MATCH).and_then(Argument::as_str) {
        Some("any") => Mode { any: true, with_x: false },
        Some("any-with-x") => Mode { any: true, with_x: true },
        Some("all-with-x") => Mode { any: false, with_x: true },
        _ => Mode { any: false, with_x: false },
    }
}

/// Whether `x-match` names a mode.
pub(crate) fn is_mode(text: &[u8]) -> bool {
    matches!(text, b"all" | b"any" | b"all-with-x" | b"any-with-x")
}

/// So many look-ups go through the headers of a message; further ones go by an index over them.
const SCANS_MAX: u32 = 8;

/// Headers of a message that an index is over at most, which bounds its memory at 4 MiB: the first that are visited.
pub const INDEXED_MAX: usize = 1 << 16;

/// Arguments that are read, and perhaps passed over for their names, in a step.
const PASSED_A_STEP: usize = 4;

/// Steps that a header takes when an index is made, and an argument that is looked for in it.
const INDEX_STEPS: usize = 4;

/// The headers of one message for the bindings of an exchange: the cost of looking grows with the headers plus the
/// arguments looked for, not with one times the other.
pub(crate) struct Lookup<'a> {
    headers: &'a dyn Headers,
    scans_left: u32,
    index: Option<Index<'a>>,
}

/// The headers of a message by name.
#[derive(Default)]
struct Index<'a> {
    headers: Vec<Header<'a>>,
    /// Places in `headers`.
    by_name: HashTable<u32>,
}

struct Header<'a> {
    name: &'a [u8],
    encoding: &'a [u8],
    /// Read when it is first asked for: tables and lists are built once, however many bindings name them.
    field: OnceCell<Option<Field<'a>>>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(headers: &'a dyn Headers) -> Lookup<'a> {
        Lookup { headers, scans_left: SCANS_MAX, index: None }
    }

    /// Whether the header `name` is there and a binding with `value` lets it through. Each is a step, and more where there
    /// is much to compare; where it is a step too many, nothing is.
    fn is_match(&mut self, name: &[u8], value: Argument<'_>, out: &mut Matches) -> bool {
        if !out.take(INDEX_STEPS + value.extent() / STEP_BYTES) {
            return false;
        }
        if self.scans_left > 0 {
            self.scans_left -= 1;
            return self.headers.get(name).is_some_and(|field| field.matches(value));
        }
        let headers = self.headers;
        let index = self.index.get_or_insert_with(|| Index::new(headers, out));
        let Some(header) = index.get(name) else { return false };
        let field = header.field.get_or_init(|| headers.read(header.encoding));
        field.as_ref().is_some_and(|field| field.matches(value))
    }
}

impl<'a> Index<'a> {
    #[cold]
    fn new(headers: &'a dyn Headers, out: &mut Matches) -> Index<'a> {
        let (mut index, mut visited) = (Index::default(), 0);
        headers.encodings(&mut |name, encoding| {
            if visited < INDEXED_MAX {
                visited += 1;
                index.insert(Header { name, encoding, field: OnceCell::new() });
            }
        });
        out.take(visited * INDEX_STEPS);
        index
    }

    /// Of a name that comes more than once the last one stays.
    fn insert(&mut self, header: Header<'a>) {
        let Index { headers, by_name } = self;
        let is_it = |at: &u32| headers[*at as usize].name == header.name;
        let hash = ByBytes.hash_one(header.name);
        match by_name.find(hash, is_it) {
            Some(at) => headers[*at as usize] = header,
            None => {
                let at = headers.len() as u32;
                headers.push(header);
                by_name.insert_unique(hash, at, |at| ByBytes.hash_one(headers[*at as usize].name));
            }
        }
    }

    fn get(&self, name: &[u8]) -> Option<&Header<'a>> {
        let is_it = |at: &u32| self.headers[*at as usize].name == name;
        self.by_name.find(ByBytes.hash_one(name), is_it).map(|at| &self.headers[*at as usize])
    }
}

/// Whether a binding with these arguments lets a message with these headers through.
pub(crate) fn is_match(arguments: &Arguments, headers: &mut Lookup<'_>, out: &mut Matches) -> bool {
    // Those that are passed over are read, too.
    if !out.take(1 + arguments.len() / PASSED_A_STEP) {
        return false;
    }
    let Mode { any, with_x } = mode(arguments);
    let mut weighed = arguments
        .iter()
        .filter(
            |(name, _)| if with_x { ![X_MATCH, X_FILTER].contains(name) } else { !name.starts_with(b"x-") },
        )
        .map(|(name, value)| headers.is_match(name, value, out));
    if any { weighed.any(|is_match| is_match) } else { weighed.all(|is_match| is_match) }
}
