//! Functions of values. Their names may be written in any case; a value that one cannot do with makes the result unknown.

mod list;
mod number;
mod place;
mod text;
mod time;

use crate::compare::{compare, compare_one};
use crate::found::Room;
use crate::operator::Comparison;
use crate::value::Value;

/// Arguments of a function at most, where their number is not fixed.
pub(crate) const ARGUMENTS_MAX: usize = 32;

/// The names of functions, how many arguments they take, and what they make of them.
macro_rules! functions {
    ($($(#[$doc:meta])* $function:ident $name:literal $takes:tt => |$arguments:pat_param, $room:pat_param| $value:expr;)*) => {
        /// A function of values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Function {
            $($(#[$doc])* $function,)*
        }

        impl Function {
            /// All of them.
            pub const ALL: &'static [Function] = &[$(Function::$function),*];

            /// Its name; of those that `CAST` is made of, the type.
            pub fn name(self) -> &'static str {
                match self {
                    $(Function::$function => $name,)*
                }
            }

            /// The fewest and the most arguments it takes.
            pub fn takes(self) -> (usize, usize) {
                match self {
                    $(Function::$function => $takes,)*
                }
            }

            /// Its value of as many values as it takes.
            pub(crate) fn call<'a>(self, arguments: &[Value<'a>], room: &'a Room) -> Value<'a> {
                match self {
                    $(Function::$function => {
                        let ($arguments, $room) = (arguments, room);
                        $value
                    })*
                }
            }
        }
    };
}

functions! {
    /// Letters in lower case.
    Lower "LOWER" (1, 1) => |values, room| text::map(values[0], room, |text| text.to_lowercase());
    /// Letters in upper case.
    Upper "UPPER" (1, 1) => |values, room| text::map(values[0], room, |text| text.to_uppercase());
    /// Without white space around it.
    Trim "TRIM" (1, 1) => |values, room| text::map(values[0], room, |text| text.trim().to_owned());
    /// Characters of a text, bytes of what is none.
    Length "LENGTH" (1, 1) => |values, _| text::length(values[0]);
    /// From a character on, counted from 1, and so many.
    Substring "SUBSTRING" (2, 3) => |values, room| text::substring(values, room);
    /// The first characters.
    Left "LEFT" (2, 2) => |values, room| text::left(values, room);
    /// The last characters.
    Right "RIGHT" (2, 2) => |values, room| text::right(values, room);
    /// One behind the other.
    Concat "CONCAT" (1, ARGUMENTS_MAX) => |values, room| text::concat(values, room);
    /// One text for another wherever it stands.
    Replace "REPLACE" (3, 3) => |values, room| text::replace(values, room);
    /// Whether a text begins with another.
    StartsWith "STARTS_WITH" (2, 2) => |values, _| text::ask(values, |text, part| text.starts_with(part));
    /// Whether a text ends in another.
    EndsWith "ENDS_WITH" (2, 2) => |values, _| text::ask(values, |text, part| text.ends_with(part));
    /// Whether a text holds another.
    Contains "CONTAINS" (2, 2) => |values, _| text::contains(values);
    /// Without its sign.
    Abs "ABS" (1, 1) => |values, _| number::abs(values[0]);
    /// To so many digits behind the point, none if it is not said; half goes away from zero.
    Round "ROUND" (1, 2) => |values, _| number::round(values);
    /// The next whole number below.
    Floor "FLOOR" (1, 1) => |values, _| number::whole(values[0], f64::floor);
    /// The next whole number above.
    Ceiling "CEILING" (1, 1) => |values, _| number::whole(values[0], f64::ceil);
    /// -1, 0 or 1.
    Sign "SIGN" (1, 1) => |values, _| number::sign(values[0]);
    /// The rest of a division, with the sign of the dividend.
    Mod "MOD" (2, 2) => |values, _| number::remainder(values);
    /// A number to the power of another.
    Power "POWER" (2, 2) => |values, _| number::power(values);
    /// The square root.
    Sqrt "SQRT" (1, 1) => |values, _| number::of_float(values[0], libm::sqrt);
    /// The natural logarithm.
    Ln "LN" (1, 1) => |values, _| number::of_float(values[0], libm::log);
    /// The greatest; unknown if one is, or if they have no order.
    Greatest "GREATEST" (1, ARGUMENTS_MAX) => |values, _| extreme(values, Comparison::Greater);
    /// The least.
    Least "LEAST" (1, ARGUMENTS_MAX) => |values, _| extreme(values, Comparison::Less);
    /// The first that is known.
    Coalesce "COALESCE" (1, ARGUMENTS_MAX) => |values, _| coalesce(values);
    /// Unknown if both are equal, otherwise the first.
    NullIf "NULLIF" (2, 2) => |values, _| null_if(values);
    /// A number of a text or a truth value.
    ToNumber "NUMBER" (1, 1) => |values, _| number::cast(values[0]);
    /// A text of a number or a truth value.
    ToText "TEXT" (1, 1) => |values, room| text::cast(values[0], room);
    /// A truth value of a text or a number.
    ToBoolean "BOOLEAN" (1, 1) => |values, _| cast_boolean(values[0]);
    /// Milliseconds since 1970 of a text or a number.
    ToTimestamp "TIMESTAMP" (1, 1) => |values, _| time::cast(values[0]);
    /// The begin of the second, minute, hour, day, week, month, quarter or year of a time.
    DateTrunc "DATE_TRUNC" (2, 2) => |values, _| time::truncate(values);
    /// The part of a time of that name.
    DatePart "DATE_PART" (2, 2) => |values, _| time::part(values);
    /// Elements of a list.
    ArrayLength "ARRAY_LENGTH" (1, 1) => |values, _| list::length(values[0]);
    /// The sum of numbers.
    ArraySum "ARRAY_SUM" (1, 1) => |values, _| list::sum(values[0]);
    /// The least element.
    ArrayMin "ARRAY_MIN" (1, 1) => |values, _| list::extreme(values[0], Comparison::Less);
    /// The greatest element.
    ArrayMax "ARRAY_MAX" (1, 1) => |values, _| list::extreme(values[0], Comparison::Greater);
    /// Metres between two places, each a latitude and a longitude in degrees.
    GeoDistance "GEO_DISTANCE" (4, 4) => |values, _| place::distance(values);
    /// Whether a place is in the box of two corners, the southern one first and the western one first.
    GeoWithinBox "GEO_WITHIN_BOX" (6, 6) => |values, _| place::is_within(values);
    /// A whole number from 0 to below another, always the same of the same value: for samples and shares.
    Hash "HASH" (2, 2) => |values, _| share(values);
}

impl Function {
    /// The function of this name.
    pub(crate) fn named(name: &str) -> Option<Function> {
        let is_named = |function: &&Function| {
            // Types are named in `CAST` alone, but for the one that is a function of texts too.
            !matches!(function, Function::ToNumber | Function::ToText | Function::ToBoolean)
                && function.name().eq_ignore_ascii_case(name)
        };
        Function::ALL.iter().find(is_named).copied()
    }

    /// The function that makes a value one of this type.
    pub(crate) fn of_type(name: &str) -> Option<Function> {
        let types = [Function::ToNumber, Function::ToText, Function::ToBoolean, Function::ToTimestamp];
        types.into_iter().find(|function| function.name().eq_ignore_ascii_case(name))
    }

    /// Whether it is written as `CAST`.
    pub(crate) fn is_cast(self) -> bool {
        matches!(self, Function::ToNumber | Function::ToText | Function::ToBoolean | Function::ToTimestamp)
    }
}

/// Whether untyped values among others are numbers: beside a number, and beside none but untyped ones if all read as
/// one.
fn are_numbers<'a>(values: impl Iterator<Item = Value<'a>>) -> bool {
    let mut are_numbers = true;
    for value in values {
        match value {
            Value::Integer(_) | Value::Float(_) => return true,
            Value::Untyped(untyped) => {
                are_numbers &= matches!(untyped.number(), Value::Integer(_) | Value::Float(_))
            }
            Value::Null => {}
            _ => are_numbers = false,
        }
    }
    are_numbers
}

/// The one of some values that compares so with all others.
fn extreme<'a>(values: &[Value<'a>], comparison: Comparison) -> Value<'a> {
    let mut best = Value::Null;
    let values = values.iter().map(|value| value.first());
    let are_numbers = are_numbers(values.clone());
    for (place, value) in values.enumerate() {
        let value = value.as_one_of(are_numbers);
        let is_alike = match (best, value) {
            (_, Value::Null) => return Value::Null,
            (Value::Null, _) if place == 0 => true,
            (Value::Bytes(_), Value::Bytes(_)) => false,
            (Value::Integer(_) | Value::Float(_), Value::Integer(_) | Value::Float(_)) => false,
            _ => return Value::Null,
        };
        if is_alike || compare_one(comparison, value, best) {
            best = value;
        }
    }
    best
}

fn coalesce<'a>(values: &[Value<'a>]) -> Value<'a> {
    values.iter().map(|value| value.first()).find(|value| *value != Value::Null).unwrap_or(Value::Null)
}

fn null_if<'a>(values: &[Value<'a>]) -> Value<'a> {
    let (left, right) = (values[0].first(), values[1].first());
    match compare(Comparison::Equal, left, right) {
        Value::Bool(true) => Value::Null,
        _ => left,
    }
}

fn cast_boolean(value: Value<'_>) -> Value<'static> {
    let value = match value.first() {
        Value::Untyped(untyped) => untyped.truth().map_or(untyped.number(), Value::Bool),
        value => value,
    };
    match value {
        Value::Bool(truth) => Value::Bool(truth),
        Value::Integer(0) => Value::Bool(false),
        Value::Integer(1) => Value::Bool(true),
        Value::Bytes(text) if text.eq_ignore_ascii_case(b"true") => Value::Bool(true),
        Value::Bytes(text) if text.eq_ignore_ascii_case(b"false") => Value::Bool(false),
        _ => Value::Null,
    }
}

/// FNV-1a of 64 bits over the bytes of a text or the decimal digits of a whole number, its halves mixed: part of edition 1.
fn share(values: &[Value<'_>]) -> Value<'static> {
    fn hash(bytes: &[u8]) -> u64 {
        let folded = bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
        });
        folded ^ (folded >> 32)
    }
    let hash = match values[0].first_text() {
        Value::Bytes(text) => hash(text),
        Value::Integer(number) => hash(number.to_string().as_bytes()),
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e30 => {
            hash((number as i128).to_string().as_bytes())
        }
        Value::Float(number) => hash(&number.to_le_bytes()),
        Value::Bool(truth) => hash(if truth { b"TRUE" } else { b"FALSE" }),
        _ => return Value::Null,
    };
    match values[1].first_number() {
        Value::Integer(shares) if shares > 0 => Value::Integer(i128::from(hash) % shares),
        _ => Value::Null,
    }
}
