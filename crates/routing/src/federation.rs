//! How far a message may go through brokers that federate exchanges with each other.
//!
//! A broker in front of this one declares an exchange of the type `x-federation-upstream` here, binds it to the exchange that it
//! federates, and takes the messages from a queue behind it. Each broker on the way adds a table to the header
//! `x-received-from`: a message that came far enough, or was there before, goes no further. RabbitMQ's
//! `rabbit_federation_upstream_exchange` does the same.

use crate::argument::Argument;
use crate::arguments::Arguments;
use crate::errors::DeclareError;
use crate::headers::Headers;
use crate::value::{IntType, Value};

/// How many brokers a message may have come through: a 64-bit integer.
pub(crate) const MAX_HOPS: &[u8] = b"x-max-hops";
/// The name of the broker in front, so that nothing goes back where it was.
const DOWNSTREAM_NAME: &[u8] = b"x-downstream-name";
/// The virtual host in front.
const DOWNSTREAM_VHOST: &[u8] = b"x-downstream-vhost";

/// Checks how an exchange of this type is declared.
pub(crate) fn check(arguments: &Arguments) -> Result<(), DeclareError> {
    match arguments.get(MAX_HOPS) {
        Some(Argument::Int(IntType::Long, _)) => Ok(()),
        None => Err(DeclareError::NoHops),
        Some(_) => Err(DeclareError::HopsType),
    }
}

/// Whether a message goes on through an exchange that was declared so.
pub(crate) fn goes_on(arguments: &Arguments, headers: &dyn Headers) -> bool {
    let Some(Value::List(hops)) = headers.received_from() else { return true };
    let most = arguments.get(MAX_HOPS).and_then(Argument::as_i64).unwrap_or(i64::MAX);
    let (name, vhost) = (arguments.get(DOWNSTREAM_NAME), arguments.get(DOWNSTREAM_VHOST));
    let was_there = |hop: Argument<'_>| match hop {
        Argument::Table(hop) => same(hop.get(b"cluster-name"), name) && same(hop.get(b"vhost"), vhost),
        _ => false,
    };
    (hops.len() as i64) < most && !hops.iter().any(was_there)
}

/// Both are there, and the same text.
fn same(one: Option<Argument<'_>>, other: Option<Argument<'_>>) -> bool {
    matches!((one, other), (Some(Argument::Text(one)), Some(Argument::Text(other))) if one == other)
}
