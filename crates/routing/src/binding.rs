//! A binding as a value: its key, its arguments and its destination.

use crate::arguments::Arguments;
use crate::matches::Destination;

/// A binding of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The binding key.
    pub key: Box<[u8]>,
    /// Its arguments.
    pub arguments: Arguments,
    /// The queue or exchange it leads to.
    pub destination: Destination,
}
