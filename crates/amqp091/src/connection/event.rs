//! The events of a connection, and how a method with its content becomes one.

use super::Tune;
use crate::content::Assembly;
use crate::error::Error;
use crate::method::{
    Arguments, BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, ChannelClose, ConnectionClose,
    ConnectionOpen, ConnectionSecure, ConnectionSecureOk, ConnectionStart, ConnectionStartOk, Method,
};
use message::amqp091::{Malformed, Properties};

/// An act of the peer, or the end of the connection. Named after the methods they stand for.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// Server: a client speaks this protocol. Answer: `start`.
    ProtocolHeader,
    /// Client: answer with `start_ok`.
    Start(ConnectionStart<'a>),
    /// Server: answer with `tune`, `secure` or `refuse_login`.
    StartOk(ConnectionStartOk<'a>),
    /// Client: answer with `secure_ok`.
    Secure(ConnectionSecure<'a>),
    /// Server: answer with `tune`, `secure` or `refuse_login`.
    SecureOk(ConnectionSecureOk<'a>),
    /// Client: the server's proposal; answer with `tune_ok`, then `open`.
    Tune(Tune),
    /// Server: the limits the client settled for.
    TuneOk(Tune),
    /// Server: answer with `open_ok` or `close_connection`.
    Open(ConnectionOpen<'a>),
    /// Client: the connection is open.
    OpenOk,
    /// Server: a channel is open. Answer: `channel_open_ok`.
    ChannelOpen {
        /// Its number.
        channel: u16,
    },
    /// Client: a channel is open.
    ChannelOpenOk {
        /// Its number.
        channel: u16,
    },
    /// Server: a message.
    Publish {
        /// Where.
        channel: u16,
        /// `immediate` is never set: it is refused.
        publish: BasicPublish<'a>,
        /// Checked.
        properties: Properties<'a>,
        /// The whole body.
        body: &'a [u8],
    },
    /// A message that came in several pieces: see [`Gathered::event`].
    Gathered(Gathered),
    /// After [`super::Connection::ration`]: so many bytes more are kept of messages that are not whole than was granted. They
    /// are to be granted now, or the connection closed.
    Gathering {
        /// The bytes.
        bytes: usize,
    },
    /// Client: a message for a consumer.
    Deliver {
        /// Where.
        channel: u16,
        /// Consumer tag, delivery tag, exchange and routing key.
        deliver: BasicDeliver<'a>,
        /// Checked.
        properties: Properties<'a>,
        /// The whole body.
        body: &'a [u8],
    },
    /// Client: a message that could not be routed.
    Return {
        /// Where.
        channel: u16,
        /// Why, and where it was to go.
        returned: BasicReturn<'a>,
        /// Checked.
        properties: Properties<'a>,
        /// The whole body.
        body: &'a [u8],
    },
    /// Client: a message that was asked for.
    GetOk {
        /// Where.
        channel: u16,
        /// From where, and how many are left.
        get_ok: BasicGetOk<'a>,
        /// Checked.
        properties: Properties<'a>,
        /// The whole body.
        body: &'a [u8],
    },
    /// Any other method that the peer may send. On channel 0 of an open connection: `update-secret`, `blocked` and the
    /// like.
    Method {
        /// Where.
        channel: u16,
        /// The method with its arguments.
        method: Method<'a>,
    },
    /// The peer closes a channel. Answer: `channel_close_ok`.
    ChannelClose {
        /// Its number.
        channel: u16,
        /// Why.
        close: ChannelClose<'a>,
    },
    /// The machine closed a channel for a fault of the peer's on it; [`Event::ChannelClosed`] follows.
    ChannelFailed {
        /// Its number.
        channel: u16,
        /// Why; the peer was told.
        error: Error,
    },
    /// A channel that this end closed is closed; its number is free.
    ChannelClosed {
        /// Its number.
        channel: u16,
    },
    /// The peer closes the connection. Answer: `close_ok`.
    Close(ConnectionClose<'a>),
    /// The machine gave the connection up; [`Event::Closed`] follows, at once or after a while.
    Failed(Error),
    /// Nothing more will come or go: close the socket when the output is written.
    Closed,
}

/// A message that had to be gathered, in memory of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Gathered {
    pub(super) channel: u16,
    pub(super) assembly: Box<Assembly>,
}

impl Gathered {
    /// The message as the event it would have been in one piece.
    pub fn event(&self) -> Event<'_> {
        let (channel, (arguments, properties, body)) = (self.channel, self.assembly.parts());
        let read = || {
            let properties = Properties::read(properties)?;
            Ok::<_, Malformed>(match self.assembly.method.method {
                40 => BasicPublish::decode(arguments)?.event(channel, properties, body),
                60 => BasicDeliver::decode(arguments)?.event(channel, properties, body),
                50 => BasicReturn::decode(arguments)?.event(channel, properties, body),
                _ => BasicGetOk::decode(arguments)?.event(channel, properties, body),
            })
        };
        read().expect("method and header were read when they came")
    }
}

/// A method with a content.
pub(super) trait Carrier<'a>: Arguments<'a> {
    /// Asks for nothing that is not implemented.
    #[inline]
    fn is_carried(&self) -> bool {
        true
    }

    /// The event about it and its content.
    fn event(self, channel: u16, properties: Properties<'a>, body: &'a [u8]) -> Event<'a>;
}

/// A message that lay whole in the input.
pub(super) struct Whole<'a, M> {
    pub channel: u16,
    pub method: M,
    pub properties: Properties<'a>,
    pub body: &'a [u8],
}

impl<'a, M: Carrier<'a>> Whole<'a, M> {
    #[inline(always)]
    pub fn event(self) -> Event<'a> {
        self.method.event(self.channel, self.properties, self.body)
    }
}

impl<'a> Carrier<'a> for BasicPublish<'a> {
    #[inline]
    fn is_carried(&self) -> bool {
        !self.immediate
    }

    #[inline]
    fn event(self, channel: u16, properties: Properties<'a>, body: &'a [u8]) -> Event<'a> {
        Event::Publish { channel, publish: self, properties, body }
    }
}

impl<'a> Carrier<'a> for BasicDeliver<'a> {
    #[inline]
    fn event(self, channel: u16, properties: Properties<'a>, body: &'a [u8]) -> Event<'a> {
        Event::Deliver { channel, deliver: self, properties, body }
    }
}

impl<'a> Carrier<'a> for BasicReturn<'a> {
    fn event(self, channel: u16, properties: Properties<'a>, body: &'a [u8]) -> Event<'a> {
        Event::Return { channel, returned: self, properties, body }
    }
}

impl<'a> Carrier<'a> for BasicGetOk<'a> {
    fn event(self, channel: u16, properties: Properties<'a>, body: &'a [u8]) -> Event<'a> {
        Event::GetOk { channel, get_ok: self, properties, body }
    }
}
