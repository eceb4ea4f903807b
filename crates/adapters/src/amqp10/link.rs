//! A link that is attached, its ends, and the consumers of receivers' links.

use super::address::Destination;
use super::credit::Credit;
use super::termini;
use ::amqp10::{Attach, LinkId, SenderSettleMode, SessionId, Source};
use broker::ConsumerRef;
use broker::catalog::QueueType;
use message::amqp10::{Encoder, Value};

/// Which end of which link.
#[derive(Debug)]
pub(super) enum End {
    /// The peer sends here.
    Target { aim: Aim, credit: Credit },
    /// The peer receives from a queue.
    /// `mixes`: barriers are settled in advance though others are not.
    Source { consumer: u32, settled: bool, mixes: bool, tag: u32, activity: Activity },
    /// One of a pair of links to the management node.
    Management,
    /// A controller of transactions sends here.
    Coordinator,
}

/// Where messages of a sender's link go.
#[derive(Debug)]
pub(super) enum Aim {
    /// All to one place.
    To(Destination),
    /// The same, and the node writes on each.
    Stamped(Destination),
    /// To this exchange, each by the key that is its subject.
    Subject(Box<str>),
    /// Each where it says.
    Each,
}

impl Aim {
    /// Where all messages go.
    pub(super) fn destination(&self) -> Option<&Destination> {
        if let Aim::To(destination) | Aim::Stamped(destination) = self { Some(destination) } else { None }
    }
}

/// Whether a receiver has heard that its consumer is the active one: of quorum queues alone, as in RabbitMQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// It hears nothing.
    Never,
    /// It is to hear this with the next flow.
    Due(bool),
    /// It has heard this.
    Told(bool),
}

/// A link that is attached.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) end: End,
    pub(super) particulars: Particulars,
}

/// Rarely used parts of a link: for listings, or when something goes wrong.
#[derive(Debug, Default)]
pub(super) struct Particulars {
    pub(super) address: Option<Box<str>>,
    /// How the peer settles its deliveries.
    pub(super) sender_settle_mode: SenderSettleMode,
    /// The outcomes that a sender's source takes are named, and `rejected` is not among them.
    pub(super) lacks_rejected: bool,
    /// A source's filters, as an encoded map; empty: none.
    pub(super) filter: Box<[u8]>,
    /// A message was held for too long.
    pub(super) has_timed_out: bool,
    /// How long it has its messages, milliseconds, where that has an end.
    pub(super) lease_ms: Option<u64>,
    /// Bytes of its name, which the machine keeps.
    pub(super) name_bytes: u16,
}

impl Particulars {
    /// Those of a sender, by the answer to its attach.
    pub(super) fn of_target(answer: &Attach<'_>) -> Particulars {
        Particulars {
            address: answer.target.and_then(|target| target.address).map(Into::into),
            sender_settle_mode: answer.sender_settle_mode,
            lacks_rejected: !termini::takes_rejected(answer.source.as_ref()),
            ..Particulars::default()
        }
    }

    /// Those of a receiver, by the source in its answer.
    pub(super) fn of_source(source: &Source<'_>) -> Particulars {
        let mut filter = Vec::new();
        if let Some(own) = source.filter.filter(|own| !own.is_empty()) {
            Encoder::new(&mut filter).value(Value::Map(own));
        }
        Particulars {
            address: source.address.map(Into::into),
            filter: filter.into(),
            ..Particulars::default()
        }
    }

    /// Bytes it holds besides itself.
    pub(super) fn heap_bytes(&self) -> usize {
        self.address.as_ref().map_or(0, |address| address.len()) + self.filter.len()
    }
}

/// Bytes that a link takes, here, in the machine, and its consumer at a queue.
const LINK_BYTES: usize = 640;

/// The most that a link is counted with: by default 64 sessions of 256 links have less than 4 GiB then.
const LINK_BYTES_MAX: usize = 192 << 10;

/// The part of a filter that reads like it: its text, what it was asked as, and its parsed form at a stream.
const FILTER_COPIES: usize = 8;

impl Link {
    /// Bytes that it takes, its consumer's at a queue included.
    pub(super) fn table_bytes(&self) -> u32 {
        let Particulars { address, filter, name_bytes, .. } = &self.particulars;
        let address = address.as_ref().map_or(0, |address| address.len());
        let bytes = LINK_BYTES + 2 * address + FILTER_COPIES * filter.len() + usize::from(*name_bytes);
        bytes.min(LINK_BYTES_MAX) as u32
    }

    pub(super) fn is_publishing(&self) -> bool {
        matches!(self.end, End::Target { .. })
    }

    /// It sends to the queue of this name by its address.
    pub(super) fn sends_to(&self, queue: &str) -> bool {
        matches!(&self.end, End::Target { aim: Aim::To(to) | Aim::Stamped(to), .. } if to.exchange.is_empty() && *to.key == *queue)
    }
}

/// The link and queue behind a consumer's handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConsumerAt {
    pub(super) session: SessionId,
    pub(super) link: LinkId,
    /// None: it takes replies and has no queue.
    pub(super) at: Option<ConsumerRef>,
    /// Its queue's type.
    pub(super) of: QueueType,
    /// Its deliveries are settled in advance.
    pub(super) settled: bool,
    /// It was not sent something that its queue takes off its credit: it is told its link's credit before it goes on.
    pub(super) lacks_credit: bool,
}
