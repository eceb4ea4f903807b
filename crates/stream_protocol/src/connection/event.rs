//! The events of a connection.

use crate::command::{Command, Deliver, Tune};
use crate::error::Error;
use crate::key::Key;
use crate::publish::Publish;
use crate::request::Request;
use crate::response::Response;

/// Which peer this end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Accepts connections.
    Server,
    /// Opens them.
    Client,
}

/// An act of the peer, or the end of the connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// The peer asks something. Answer with `respond`, but: a server answers [`Request::SaslAuthenticate`] with
    /// `accept_login`, `challenge` or `refuse_login` (a renewal on an open connection with `respond` or `refuse_login`), and
    /// [`Request::Open`] with `open_ok` or `refuse_open`; both peers answer [`Request::Close`] with `close_ok`.
    Request {
        /// The id the answer must carry.
        correlation_id: u32,
        /// The request.
        request: Request<'a>,
    },
    /// The peer answers a request of this end.
    Response {
        /// The id the request carried.
        correlation_id: u32,
        /// The answer. When it is a client's [`Response::Open`] and says so, the connection is open.
        response: Response<'a>,
    },
    /// The peer sends an answer without a request, or answers one again. Nothing is to be done but to note it.
    Unasked {
        /// The id the answer carries.
        correlation_id: u32,
        /// The request it claims to answer.
        key: Key,
    },
    /// A command that nobody answers.
    Command(Command<'a>),
    /// Server: messages.
    Publish(Publish<'a>),
    /// Client: a chunk.
    Deliver(Deliver<'a>),
    /// Server: the settled bounds. Client: the proposed ones; answer with `tune_and_open`.
    Tune(Tune),
    /// The machine gave the connection up; [`Event::Closed`] follows, at once or after a while.
    Failed(Error),
    /// Nothing more will come or go: close the socket when the output is written.
    Closed,
}
