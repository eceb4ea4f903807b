//! AMQP 1.0: frame codec, connection, session and link machines, for both peers.
//!
//! - [`Connection`]: everything a peer does; made by [`Connection::server`] or [`Connection::client`].
//! - [`Event`]: its output to the owner; [`Attach`], [`Open`], [`Outcome`] and the like: the peers' words.
//! - [`Limits`]: its bounds.
//!
//! Values and message sections are in `message::amqp10`. Sockets, threads and clocks are elsewhere: bytes and time come in
//! as arguments, bytes go out through `base::Output`.

mod connection;
mod error;
mod event;
mod hot;
mod limits;
mod performative;
mod session;
mod unsettled;

pub use connection::{AMQP_HEADER, Config, Connection, Input, LinkFigures, SASL_HEADER, SessionFigures};
pub use error::{Error, Fault, condition};
pub use event::{Assembled, Disposition, Event, LinkFlow, LinkId, SaslCode, SessionId, Transfer};
pub use limits::{FRAME_BYTES_MIN, Limits, TAG_BYTES_MAX};
pub use performative::{
    Attach, Begin, Control, Open, Outcome, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbols,
    Target,
};
pub use session::{Body, Delivery, NotSent, Room};
pub use unsettled::Run;
