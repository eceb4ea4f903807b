//! Numbers as arguments and policies give them.

use routing::Argument;

/// The number, if the value is an integer of any width.
pub(super) fn integer(value: Argument<'_>) -> Option<i128> {
    match value {
        Argument::Int(_, number) => Some(i128::from(number)),
        Argument::Unsigned(number) => Some(i128::from(number)),
        _ => None,
    }
}

/// A number not below 0, or the largest there is.
pub(super) fn count(value: Argument<'_>) -> Option<u64> {
    let number = integer(value).filter(|number| *number >= 0)?;
    Some(u64::try_from(number).unwrap_or(u64::MAX))
}
