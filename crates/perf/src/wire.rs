//! The client as the load needs it, over any protocol.
//!
//! A [`Wire`] is a protocol crate's connection in the client's role with the few steps around it that bring it to where
//! it publishes to or consumes from a run's queues. No sockets: bytes in, bytes out.

pub mod amqp091;
pub mod amqp10;
pub mod stream;

use crate::stamp::STAMP;
use crate::uri::Uri;
use base::{Now, Output};

/// The task of one end of a run.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// Publishes to `targets`, numbered in this order.
    Publish {
        /// Where to: one for each queue, or one exchange.
        targets: Vec<Target>,
        /// Whether the broker is asked for confirms.
        is_confirmed: bool,
        /// Whether messages are durable.
        is_durable: bool,
        /// Bytes of a body, from [`STAMP`].
        size: u32,
        /// How many priorities messages have, in turn; 0: they have none.
        priorities: u32,
        /// Whether bodies are [documents](crate::content) of JSON, in turn, with the stamp at their end: over AMQP.
        is_content: bool,
        /// Fields of the headers that each message has over AMQP 0-9-1; empty: it has none.
        headers: Vec<u8>,
    },
    /// Consumes from `queues`, numbered in this order.
    Consume {
        /// Their names.
        queues: Vec<String>,
        /// Prefetch or link credit; 0: no bound.
        credit: u32,
        /// From a stream's first message on, over AMQP too.
        is_replay: bool,
        /// The expression that it chooses by, over AMQP.
        selector: Option<String>,
    },
    /// Opens two sessions or channels and says no more.
    Idle {
        /// Seconds.
        heartbeat: u16,
    },
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A queue, by name.
    Queue(String),
    /// An exchange, by name, with an empty routing key.
    Exchange(String),
    /// An exchange, by name, with a routing key.
    Key(String, String),
}

/// Events, told while input is taken in.
pub trait Happenings {
    /// The messages from number `first` to `last`, counted from 0 in the order they were published, are confirmed.
    fn confirmed(&mut self, first: u64, last: u64);
    /// All messages up to number `last` are confirmed.
    fn confirmed_up_to(&mut self, last: u64);
    /// The broker answered that it did not take the messages from number `first` to `last` that are not confirmed yet.
    fn refused(&mut self, first: u64, last: u64, why: &str);
    /// The broker gave a message back as unroutable; its confirm follows.
    fn returned(&mut self, why: &str);
    /// A message came from the consumer's queue number `queue`.
    fn delivered(&mut self, queue: usize, is_redelivered: bool, body: &[u8]);
}

/// One client connection.
pub trait Wire: Sized + Send {
    /// A connection that logs in at `uri` and then readies itself for `purpose`.
    ///
    /// # Errors
    /// The purpose is beyond the protocol, in words for people.
    fn new(now: Now, uri: &Uri, purpose: Purpose) -> Result<Self, String>;

    /// Takes in the whole frames of `bytes`, and returns how many bytes these were.
    ///
    /// # Errors
    /// The connection ended, or the broker said something that ends the run; in words for people.
    fn input(&mut self, now: Now, bytes: &[u8], happenings: &mut impl Happenings) -> Result<usize, String>;

    /// Bytes for the socket.
    fn output(&mut self) -> &mut Output;

    /// When [`Wire::handle_deadline`] wants to be called, in nanoseconds of the clock that gave `now`.
    fn deadline(&self) -> Option<u64>;

    /// A deadline passed.
    ///
    /// # Errors
    /// The broker was silent for too long.
    fn handle_deadline(&mut self, now: Now) -> Result<(), String>;

    /// Whether it reached its purpose: it may publish, or its consumers are there, or it idles.
    fn is_ready(&self) -> bool;

    /// Messages it may publish now to the target that is next in turn, apart from any confirm window.
    fn room(&self) -> u64;

    /// Publishes `stamp` followed by filler to the target that is next in turn. Only with [`Wire::room`].
    fn publish(&mut self, now: Now, stamp: [u8; STAMP]);

    /// Accepts everything that was delivered and not accepted before, and grants as much again.
    fn settle(&mut self, now: Now);

    /// Says good-bye.
    fn close(&mut self, now: Now);

    /// Whether the broker answered the good-bye.
    fn is_closed(&self) -> bool;
}

/// Words for an event that has no place in a load. Cut short: it may hold a message.
pub fn unexpected(event: &impl std::fmt::Debug) -> String {
    let mut text = format!("{event:?}");
    text.truncate(text.floor_char_boundary(200));
    format!("the broker did something unexpected: {text}")
}
