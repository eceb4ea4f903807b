//! Requests of connections to streams, and the answers.
//!
//! Commands go to the stream's owner with [`crate::Shard::command`], in a [`crate::QueueCommand::Stream`]; those with a
//! token are answered by an [`crate::Event::Reply`], with [`crate::Reply::Stream`] where nothing else is said.
//! Chunks come as [`crate::Event::Chunk`], to consumers of AMQP messages as [`crate::Event::Deliver`]. Declaring and
//! deleting a stream is what it is for any queue.

pub use super::pace::RATE_MAX;

/// Longest name of a consumer over AMQP whose offset is remembered, bytes.
pub const CONSUMER_NAME_MAX: usize = 255;

/// Filter values that a reader of a stream may name: each is looked for in each chunk.
pub const FILTER_VALUES_MAX: usize = 255;

use super::shown::KNOWN;
use crate::request::NewConsumer;
use crate::selector::index_bytes;
use filter::{Asker, Expression, Known, Limits, Macros, Names, Program, Site};
use message::chunk::Filter;
use message::record::{Appended, Format};
use std::sync::Arc;

/// Where in a stream a reader begins. What is no longer there, or not yet, is where the stream begins, or what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFrom {
    /// The first chunk there is.
    First,
    /// The last chunk there is.
    Last,
    /// The first message that comes from now on.
    Next,
    /// The chunk with this offset.
    Offset(u64),
    /// The first chunk that is not older than this, milliseconds since 1970.
    Timestamp(i64),
    /// So many messages before the end.
    LastMessages(u64),
}

/// Which messages a consumer over AMQP is to see, and of which a subscription is to see the chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamFilter {
    /// Chunks that may hold messages with one of these filter values, where any are named.
    pub chunks: Option<Filter>,
    /// Messages of which this is true.
    pub messages: Option<Wanted>,
}

impl StreamFilter {
    /// Bytes of memory that its expression takes, at most: as a program, and where those of a stream's readers are asked
    /// together.
    pub fn bytes(&self) -> usize {
        self.messages.as_ref().map_or(0, |Wanted { program, .. }| program.memory() + index_bytes(program))
    }
}

/// Which messages are wanted: an expression and its program, which are shared, and like no others.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub(super) expression: Arc<Expression>,
    pub(super) program: Arc<Program>,
}

impl Wanted {
    /// The functions of the message that have a value in a stream.
    pub const KNOWN: Known = KNOWN;

    /// Messages of which an expression is true, by the limits of [contents](Limits::content), with these macros, for a
    /// client, or for nobody.
    ///
    /// # Errors
    /// In words: it is no UTF-8, or no expression, and where the fault is.
    pub fn parse(text: &[u8], macros: &Macros, asker: Option<&Asker<'_>>) -> Result<Wanted, String> {
        let text = str::from_utf8(text).map_err(|error| error.to_string())?;
        let known = if asker.is_some() { Wanted::KNOWN.and_asker() } else { Wanted::KNOWN };
        let site = Site { limits: Limits::content(), known, names: Names::Own, macros };
        let expression = Expression::parse_at(text, &site).map_err(|error| error.to_string())?;
        let expression = asker.map(|asker| expression.bound(asker)).unwrap_or(expression);
        Wanted::new(expression).map_err(|error| error.to_string())
    }

    /// Messages of which an expression is true.
    ///
    /// # Errors
    /// See [`Program::compile`].
    pub fn new(expression: Expression) -> Result<Wanted, filter::Error> {
        let program = Program::compile(&expression)?;
        Ok(Wanted { expression: Arc::new(expression), program: Arc::new(program) })
    }
}

impl PartialEq for Wanted {
    fn eq(&self, other: &Wanted) -> bool {
        Arc::ptr_eq(&self.program, &other.program)
    }
}

impl Eq for Wanted {}

/// A subscription is one of a group of which one at a time gets chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingleActive {
    /// The group's name.
    pub name: Box<str>,
    /// The stream's place among those of its super stream, where it is of one: members of a group are active in turn.
    pub partition: Option<u32>,
}

/// A request of a connection to a stream's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamCommand {
    /// Open a consumer of AMQP messages. Answer: [`crate::Reply::Consuming`]. Credit, settling and cancelling are as of any
    /// queue's consumer; what is settled only makes room for more.
    Consume {
        /// For the answer.
        token: u32,
        /// The consumer's handle.
        handle: u32,
        /// Its settings, as of any queue's consumer.
        consumer: NewConsumer,
        /// Of the records it gets: theirs are heads as they go out over its protocol.
        format: Format,
        /// Where it begins: at this very message.
        from: StreamFrom,
        /// Selects the messages it gets.
        filter: StreamFilter,
        /// Messages it is sent a second at most, 1 to [`RATE_MAX`]; none: as many as it has room for.
        rate: Option<u32>,
        /// Its user's number: [`message::record::Owner::user_of`].
        user: u32,
        /// The name it is known by. Its progress is remembered, and a later consumer of the name goes on behind that,
        /// wherever it says to begin.
        name: Option<Box<[u8]>>,
    },
    /// Open a subscription to chunks. Answer: [`crate::Reply::Consuming`]. One in a group gets nothing before it was told
    /// that it is active ([`crate::Event::Active`]) and has answered ([`StreamCommand::Continue`]).
    Subscribe {
        /// For the answer.
        token: u32,
        /// The subscription's handle; unique among the connection's consumers.
        handle: u32,
        /// Where it begins: at the chunk with that message.
        from: StreamFrom,
        /// Chunks it may be sent.
        credit: u16,
        /// Only chunks that may hold what it wants.
        filter: StreamFilter,
        /// It is one of a group.
        group: Option<SingleActive>,
    },
    /// A subscription may be sent so many chunks more.
    Credit {
        /// The subscription's handle.
        handle: u32,
        /// How many; below 0 counts as 0.
        chunks: i16,
    },
    /// The answer to [`crate::Event::Active`]. Of one that is no longer active `from` counts for nothing.
    Continue {
        /// The subscription's handle.
        handle: u32,
        /// Where it goes on.
        from: StreamFrom,
    },
    /// Close a subscription. Answer: [`crate::Reply::Cancelled`].
    Unsubscribe {
        /// For the answer.
        token: u32,
        /// The subscription's handle.
        handle: u32,
    },
    /// The stream is restarted: every subscription to chunks ends, and no member of a group has its turn for that. Whose they
    /// were is told by [`crate::Shard::stream_restarted`]. Answer: [`crate::Reply::Cancelled`].
    Disband {
        /// For the answer.
        token: u32,
    },
    /// Which publishing id came last under this reference. Answer: [`StreamReply::Sequence`].
    Sequence {
        /// For the answer.
        token: u32,
        /// The publisher's reference.
        reference: Box<[u8]>,
    },
    /// Remember how far a consumer has come. No answer.
    StoreOffset {
        /// The user's number: [`message::record::Owner::user_of`].
        user: u32,
        /// The consumer's reference.
        reference: Box<[u8]>,
        /// How far.
        offset: u64,
    },
    /// How far a consumer said it has come. Answer: [`StreamReply::Offset`].
    QueryOffset {
        /// For the answer.
        token: u32,
        /// The consumer's reference.
        reference: Box<[u8]>,
    },
    /// Offsets and messages of the stream. Answer: [`StreamReply::Stats`].
    Stats {
        /// For the answer.
        token: u32,
    },
    /// Let go of the segments that have no offset from there on, for good. Answer, when that is on disk:
    /// [`StreamReply::Truncated`].
    Truncate {
        /// For the answer.
        token: u32,
        /// Offsets below it are to go.
        before: u64,
    },
    /// Which offset this is now. Answer: [`StreamReply::Offset`].
    Resolve {
        /// For the answer.
        token: u32,
        /// Where.
        from: StreamFrom,
    },
}

impl StreamCommand {
    /// The token of the answer that is wanted.
    pub fn token(&self) -> Option<u32> {
        match self {
            StreamCommand::Consume { token, .. }
            | StreamCommand::Subscribe { token, .. }
            | StreamCommand::Unsubscribe { token, .. }
            | StreamCommand::Disband { token }
            | StreamCommand::Sequence { token, .. }
            | StreamCommand::QueryOffset { token, .. }
            | StreamCommand::Stats { token }
            | StreamCommand::Truncate { token, .. }
            | StreamCommand::Resolve { token, .. } => Some(*token),
            StreamCommand::Credit { .. }
            | StreamCommand::Continue { .. }
            | StreamCommand::StoreOffset { .. } => None,
        }
    }

    /// Bytes that the filter takes of the reader that it opens.
    pub(crate) fn filter_bytes(&self) -> usize {
        match self {
            StreamCommand::Consume { filter, .. } | StreamCommand::Subscribe { filter, .. } => filter.bytes(),
            _ => 0,
        }
    }

    /// The handle of the reader that it opens.
    pub(crate) fn opens(&self) -> Option<u32> {
        match self {
            StreamCommand::Consume { handle, .. } | StreamCommand::Subscribe { handle, .. } => Some(*handle),
            _ => None,
        }
    }
}

/// The answer to a command with a token, where [`StreamCommand`] names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamReply {
    /// The publishing id that came last; none: nothing came under the reference.
    Sequence(Option<u64>),
    /// An offset; none: nothing is known of the reference, or the stream is empty.
    Offset(Option<u64>),
    /// Offsets and messages of the stream.
    Stats(StreamStats),
    /// The first offset from now on; in an empty stream, that of what comes next.
    Truncated(u64),
}

/// Offsets and messages of a stream; an empty one has no offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// The first offset, which is also the id of the first chunk.
    pub first_offset: Option<u64>,
    /// The id of the last chunk.
    pub last_chunk_id: Option<u64>,
    /// The last offset that is on disk. Its chunk is the last one.
    pub committed_offset: Option<u64>,
    /// Messages.
    pub messages: u64,
}

/// Messages for a stream, from a publisher of the stream protocol: what [`crate::Shard::append`] takes. The publisher's
/// numbers are dense and its own: it maps what is confirmed to publishing ids.
#[derive(Clone, Copy, Debug)]
pub struct NewMessages<'a, I> {
    /// The publisher's handle, for [`crate::Event::Confirmed`].
    pub publisher: u32,
    /// The publisher's number of the first message.
    pub first: u64,
    /// By what the publisher is known: messages whose publishing id is not above the last one are confirmed and not stored.
    pub reference: Option<&'a [u8]>,
    /// One of them has a filter value.
    pub has_filters: bool,
    /// The messages, in order: gone through up to three times.
    pub messages: I,
}

/// An iterator of messages that can be gone through more than once.
pub trait Messages<'a>: Iterator<Item = Appended<'a>> + Clone {}

impl<'a, I: Iterator<Item = Appended<'a>> + Clone> Messages<'a> for I {}
