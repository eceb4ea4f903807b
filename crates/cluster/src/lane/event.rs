//! Events of a lane, and bodies it does not take.

use super::error::Error;
use super::frame::Kind;
use super::gathering::Body;
use super::hello::Hello;
use super::outgoing::Outgoing;
use super::refusal::Refusal;
use super::window::Charge;

/// An event of a lane. Bodies borrow from the input.
#[derive(Debug)]
pub enum Event<'i> {
    /// The peer has proven its hello. A verb is due: [`super::Lane::open`] or [`super::Lane::refuse`].
    Met(Box<Hello>),
    /// A body.
    Body {
        /// Its kind, one of those that carry bodies.
        kind: Kind,
        /// The bytes, as the peer gave them.
        body: Body<'i>,
        /// To be given back by [`super::Lane::release`] once the bytes are done with.
        charge: Charge,
    },
    /// There is room again for the body that was refused as [`Unsent::Full`].
    Room,
    /// The peer closed the lane. Nothing follows.
    Refused {
        /// The peer's words.
        refusal: Refusal,
        /// The peer was proven. Else anybody may have said it.
        is_proven: bool,
    },
    /// This end closed the lane; the peer is told unless it would not understand. Nothing follows.
    Failed(Error),
}

/// A body that is not sent, and the reason.
#[derive(Debug)]
pub enum Unsent {
    /// The lane is not open.
    NotOpen(Outgoing),
    /// Too much waits for the window already. [`Event::Room`] tells when to try again.
    Full(Outgoing),
    /// It is longer than a body may be on this lane.
    TooLong(Outgoing),
}

impl std::fmt::Display for Unsent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unsent::NotOpen(_) => f.write_str("the lane is not open"),
            Unsent::Full(_) => f.write_str("too much waits for the window"),
            Unsent::TooLong(body) => {
                write!(f, "a body of {} bytes is longer than the peer takes", body.len())
            }
        }
    }
}

impl std::error::Error for Unsent {}
