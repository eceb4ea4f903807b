//! Events that a [`Connection`](crate::Connection) tells its owner. Everything borrows from the input, but for
//! deliveries that came in several frames, which are handed over.

use crate::error::{Error, Fault};
use crate::performative::{Attach, Begin, Open, Outcome, Role, Symbols};
use crate::session::Partial;
use message::amqp10::Map;

/// A session, by the channel we send on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u16);

/// A link of a session, by our handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u16);

/// Outcomes of a SASL dialogue (§5.3.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslCode {
    /// Authenticated.
    Ok = 0,
    /// Wrong credentials.
    Auth = 1,
    /// The system failed.
    System = 2,
    /// The system failed for good.
    SystemPermanent = 3,
    /// The system failed for now.
    SystemTemporary = 4,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// To a client: choose one of these, then call `sasl_init`.
    SaslMechanisms(Symbols<'a>),
    /// To a server: the client's login. Answer with `sasl_outcome`; nothing more is read until then.
    SaslInit {
        /// The mechanism it chose, which may be none of those offered.
        mechanism: &'a str,
        /// Its first response.
        initial_response: Option<&'a [u8]>,
        /// The host it wants.
        hostname: Option<&'a str>,
    },
    /// To a client: how the dialogue ended. When not `Ok`, the connection is finished; otherwise call `open`.
    SaslOutcome(SaslCode),
    /// The peer opened. To a server: answer with `open` (then maybe `close`) or `abort`; nothing more is read until then.
    Open(Box<Open<'a>>),
    /// To a server: the peer's open is none, or asks for the impossible. Answer with `open` and `close`, or `abort`;
    /// nothing more is read until then.
    OpenRefused(Fault),
    /// The peer closed, or answered our close. The connection is finished.
    Close(Option<Error<'a>>),
    /// The connection broke a rule or a deadline. The peer was told where it can be told; see
    /// [`is_finished`](crate::Connection::is_finished).
    Failed(Fault),
    /// The peer began a session (it has been answered), or answered our begin.
    Begin {
        /// The session.
        session: SessionId,
        /// The peer's begin.
        begin: Begin<'a>,
    },
    /// The peer ended a session (it has been answered), or answered our end. The id is free again.
    End {
        /// The session.
        session: SessionId,
        /// Why.
        error: Option<Error<'a>>,
    },
    /// The peer broke a rule of the session, which was ended with this error. The id is free when the peer has answered;
    /// until then `begin` does not give it out.
    SessionFailed {
        /// The session.
        session: SessionId,
        /// Why.
        fault: Fault,
    },
    /// The peer attached a link: answer with `attach` or `refuse`. Or it answered our attach.
    Attach {
        /// The session.
        session: SessionId,
        /// The link.
        link: LinkId,
        /// It answers an attach of ours.
        is_answer: bool,
        /// The peer's attach; `role` is the peer's.
        attach: Box<Attach<'a>>,
    },
    /// The peer detached a link (it has been answered), or answered our detach. The id is free again, the link's
    /// deliveries are forgotten.
    Detach {
        /// The session.
        session: SessionId,
        /// The link.
        link: LinkId,
        /// For good.
        closed: bool,
        /// Why.
        error: Option<Error<'a>>,
    },
    /// The peer broke a rule of the link, which was detached with this error.
    LinkFailed {
        /// The session.
        session: SessionId,
        /// The link.
        link: LinkId,
        /// Why.
        fault: Fault,
    },
    /// The peer's flow of a link.
    Flow(LinkFlow<'a>),
    /// The peer's window of a session moved: `queued` may be smaller now.
    Window {
        /// The session.
        session: SessionId,
    },
    /// A whole delivery arrived, in one frame.
    Transfer(Transfer<'a>),
    /// A whole delivery arrived that belongs to a transaction (§4.4.1).
    Posted {
        /// The delivery.
        transfer: Transfer<'a>,
        /// The transaction.
        transaction: &'a [u8],
    },
    /// The last frame of a delivery of several arrived.
    Assembled(Assembled),
    /// After [`crate::Connection::ration`]: so many bytes more are kept of messages that are not whole than was granted. They are
    /// to be granted now, or the session or the connection ended.
    Assembling {
        /// The session of the last of them.
        session: SessionId,
        /// The bytes.
        bytes: usize,
    },
    /// A delivery that had begun was aborted by the sender: as if it had never been sent, but for its credit.
    Aborted {
        /// The session.
        session: SessionId,
        /// The link.
        link: LinkId,
        /// The credit the sender has left on the link.
        credit: u32,
    },
    /// The peer told the state of deliveries.
    Disposition(Disposition<'a>),
}

/// The state of a link as its other end sees it (§2.6.7).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkFlow<'a> {
    /// The session.
    pub session: SessionId,
    /// The link.
    pub link: LinkId,
    /// Which end we are.
    pub role: Role,
    /// Deliveries that may now be sent on it.
    pub credit: u32,
    /// The delivery-count in the peer's flow.
    pub delivery_count: u32,
    /// The link-credit in the peer's flow, which counts from there.
    pub link_credit: u32,
    /// Deliveries waiting at the sender, from a sender that tells it.
    pub available: Option<u32>,
    /// From a receiver: use the credit up, then call `drained`.
    pub drain: bool,
    /// The peer wants an answer. Where we receive, it has been given; where we send, call `report`.
    pub echo: bool,
    /// Anything else.
    pub properties: Map<'a>,
}

/// A delivery from the peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer<'a> {
    /// The session.
    pub session: SessionId,
    /// The link.
    pub link: LinkId,
    /// Its number in the session, to settle it by.
    pub delivery_id: u32,
    /// The sender's delivery-tag.
    pub tag: &'a [u8],
    /// The message format; 0: AMQP.
    pub format: u32,
    /// The sender has settled it.
    pub settled: bool,
    /// The credit the sender has left on the link.
    pub credit: u32,
    /// The message.
    pub payload: &'a [u8],
}

/// A delivery from the peer that came in several frames, put together.
#[derive(Clone, Debug, PartialEq)]
pub struct Assembled {
    pub(crate) session: SessionId,
    pub(crate) link: LinkId,
    pub(crate) credit: u32,
    pub(crate) partial: Box<Partial>,
}

impl Assembled {
    /// The transaction it belongs to.
    pub fn transaction(&self) -> Option<&[u8]> {
        self.partial.transaction.as_deref()
    }

    /// The delivery, as if it had come in one frame.
    pub fn transfer(&self) -> Transfer<'_> {
        let partial = &*self.partial;
        Transfer {
            session: self.session,
            link: self.link,
            delivery_id: partial.delivery_id,
            tag: &partial.tag[..partial.tag_len.into()],
            format: partial.format,
            settled: partial.settled,
            credit: self.credit,
            payload: &partial.bytes,
        }
    }
}

/// Deliveries `first` to `last` of a session, both included, wrapping at 2^32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disposition<'a> {
    /// The session.
    pub session: SessionId,
    /// Which end we are of these deliveries. As sender, call `settle` to learn which they are.
    pub role: Role,
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
    /// The peer has settled them.
    pub settled: bool,
    /// The outcome or state of the deliveries.
    pub outcome: Option<Outcome<'a>>,
}
