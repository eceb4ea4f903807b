//! A stream of a log: the machine, and at its owner which connections its readers belong to.

use super::choosing::Choosing;
use super::consumer::Consumer;
use super::cursor::Cursor;
use super::feeding::Feed;
use super::verdicts::Verdicts;
use crate::catalog::QueueDefinition;
use crate::placed::queue::owned::Member;
use crate::tally::{Count, Tally};
use base::hash::{MapByBytes, MapById};
use base::id::{PortId, QueueId};
use filter::Counts;
use queue::stream::{ReaderId, Settings, Stream};
use std::sync::Arc;

/// A reader of the stream.
#[derive(Debug)]
pub(crate) enum Reader {
    /// A subscription to chunks.
    Chunks {
        member: Member,
        /// Its connection cannot take more for now, or has not said that it can.
        is_paused: bool,
        /// Bytes it was handed since it said so.
        handed: usize,
        /// Which chunks it is to see, where it wants messages of which something is true.
        choosing: Option<Box<Choosing>>,
    },
    /// A consumer of AMQP messages.
    Messages(Box<Consumer>),
    /// A queue that is filled from the stream.
    Feeds(Box<Feed>),
    /// A connection that asked where a reader would stand, and is to be answered.
    Asks { port: PortId, token: u32 },
}

impl Reader {
    pub(crate) fn member(&self) -> Option<Member> {
        match self {
            Reader::Chunks { member, .. } => Some(*member),
            Reader::Messages(consumer) => Some(consumer.member),
            Reader::Feeds(_) | Reader::Asks { .. } => None,
        }
    }

    /// Its place in the stream, where it looks at single messages.
    fn cursor(&mut self) -> Option<&mut Cursor> {
        match self {
            Reader::Chunks { choosing, .. } => choosing.as_mut().map(|choosing| &mut choosing.cursor),
            Reader::Messages(consumer) => Some(&mut consumer.cursor),
            Reader::Feeds(feed) => Some(&mut feed.cursor),
            Reader::Asks { .. } => None,
        }
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct OwnedStream {
    pub(crate) id: QueueId,
    /// None: it has no owner here.
    pub(super) definition: Option<Arc<QueueDefinition>>,
    pub(crate) machine: Stream,
    /// The record is applied that opens it: other records that name it have an effect.
    pub(crate) is_open: bool,
    /// The settings of the last record of them that was appended, which may not be applied yet; none: none was.
    pub(super) asked: Option<Settings>,
    pub(crate) readers: MapById<ReaderId, Reader>,
    by_member: MapById<Member, ReaderId>,
    /// Queues that are filled from it.
    feeds: Vec<(QueueId, ReaderId)>,
    /// Offsets to be kept, by reference, whose records are not applied yet: queries are answered with them already.
    pub(crate) told: MapByBytes<Box<[u8]>, u64>,
    /// Deliveries to consumers of messages are told of: its virtual host is traced.
    pub(crate) is_traced: bool,
    /// Where it is on the list of those with an open chunk, the latest time of a record of it in that batch, milliseconds
    /// since 1970. A chunk's time is its own stream's alone: other streams of the log may be gone when it is replayed.
    pub(crate) open_at_ms: Option<i64>,
    /// Memory of chunks that are not written, as it was counted last.
    pub(crate) unwritten: usize,
    /// Messages that were handed out since the node started.
    pub(crate) delivered: u64,
    /// The offset of the first message that is counted.
    pub(crate) begun_at: u64,
    /// Counts of the filters of its readers since the node started.
    pub(crate) filtered: Counts,
    /// Verdicts of its readers' filters on its last messages; none: no reader has one.
    pub(super) verdicts: Option<Box<Verdicts>>,
}

/// As [`OwnedStream::definition`], where the rest of the stream is in use.
pub(super) fn named(definition: &Option<Arc<QueueDefinition>>) -> &Arc<QueueDefinition> {
    definition.as_ref().expect("an owner has the definition of its stream")
}

impl OwnedStream {
    fn new(
        id: QueueId,
        definition: Option<Arc<QueueDefinition>>,
        machine: Stream,
        is_open: bool,
    ) -> OwnedStream {
        OwnedStream {
            id,
            definition,
            machine,
            is_open,
            asked: None,
            readers: MapById::default(),
            by_member: MapById::default(),
            feeds: Vec::new(),
            told: MapByBytes::default(),
            is_traced: false,
            open_at_ms: None,
            unwritten: 0,
            delivered: 0,
            begun_at: 0,
            filtered: Counts::default(),
            verdicts: None,
        }
    }

    /// A stream that was declared, and that no record has opened yet.
    pub(crate) fn declared(definition: Arc<QueueDefinition>) -> OwnedStream {
        OwnedStream::new(definition.id, Some(definition), Stream::new(Settings::default()), false)
    }

    /// A stream that its log knows, and that nobody owns here.
    pub(crate) fn bare(id: QueueId, machine: Stream) -> OwnedStream {
        OwnedStream::new(id, None, machine, true)
    }

    /// The machine is what a snapshot said.
    pub(crate) fn restore(&mut self, machine: Stream) {
        self.machine = machine;
        self.is_open = true;
    }

    /// From now on it is owned here, by this definition.
    pub(crate) fn claim(&mut self, definition: Arc<QueueDefinition>) {
        self.definition = Some(definition);
    }

    /// From now on it is not owned here: what its owner kept of it is gone. Its readers, for the machine to forget.
    pub(super) fn resign(&mut self) -> Vec<ReaderId> {
        self.definition = None;
        self.asked = None;
        self.is_traced = false;
        self.by_member.clear();
        self.feeds.clear();
        self.told.clear();
        self.verdicts = None;
        self.readers.drain().map(|(id, _)| id).collect()
    }

    /// It is owned here.
    #[inline]
    pub(crate) fn is_owned(&self) -> bool {
        self.definition.is_some()
    }

    /// The definition of a stream that is owned here.
    ///
    /// # Panics
    /// Where it is not.
    pub(crate) fn definition(&self) -> &Arc<QueueDefinition> {
        named(&self.definition)
    }

    /// Counting begins here.
    pub(crate) fn begin_tally(&mut self) {
        self.begun_at = self.machine.next_offset();
    }

    /// Counts since the node started.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        tally.add(Count::Publish, self.machine.next_offset().saturating_sub(self.begun_at));
        tally.add(Count::Deliver, self.delivered);
        tally
    }

    /// How far the consumers of this name said they have come.
    pub(crate) fn stored(&self, reference: &[u8]) -> Option<u64> {
        self.told.get(reference).copied().or_else(|| self.machine.offset(reference))
    }

    /// A consumer stores its offset. Queries see those beyond the first `most` only when they are on disk.
    pub(crate) fn tell(&mut self, reference: &[u8], offset: u64, most: usize) {
        if let Some(told) = self.told.get_mut(reference) {
            *told = offset;
        } else if self.told.len() < most {
            self.told.insert(reference.into(), offset);
        }
    }

    pub(crate) fn find(&self, member: Member) -> Option<ReaderId> {
        self.by_member.get(&member).copied()
    }

    pub(crate) fn add(&mut self, id: ReaderId, mut reader: Reader) {
        self.seat(&mut reader);
        if let Some(member) = reader.member() {
            self.by_member.insert(member, id);
        }
        self.readers.insert(id, reader);
    }

    /// The reader for a queue that is filled from here.
    pub(crate) fn feed_of(&self, queue: QueueId) -> Option<ReaderId> {
        self.feeds().find(|(fed, _)| *fed == queue).map(|(_, reader)| reader)
    }

    /// Queues that are filled from here.
    pub(crate) fn feeds(&self) -> impl Iterator<Item = (QueueId, ReaderId)> {
        self.feeds.iter().copied()
    }

    pub(super) fn add_feed(&mut self, queue: QueueId, reader: ReaderId, feed: Feed) {
        self.feeds.push((queue, reader));
        let mut feeds = Reader::Feeds(Box::new(feed));
        self.seat(&mut feeds);
        self.readers.insert(reader, feeds);
    }

    /// A reader comes: its filter is asked with those of others.
    fn seat(&mut self, reader: &mut Reader) {
        if let Some(cursor) = reader.cursor() {
            cursor.sit_down(&mut self.verdicts);
        }
    }

    /// A reader goes.
    fn unseat(&mut self, reader: &mut Reader) {
        if let Some(cursor) = reader.cursor() {
            cursor.stand_up(&mut self.verdicts);
        }
    }

    /// A reader goes on as another of the machine's.
    pub(super) fn rename(&mut self, from: ReaderId, to: ReaderId) {
        let Some(reader) = self.readers.remove(&from) else { return };
        if let Some(member) = reader.member() {
            self.by_member.insert(member, to);
        }
        self.readers.insert(to, reader);
    }

    /// The machine is told by the caller.
    pub(super) fn remove_feed(&mut self, queue: QueueId) {
        if let Some(at) = self.feeds.iter().position(|(fed, _)| *fed == queue) {
            let (_, reader) = self.feeds.swap_remove(at);
            if let Some(mut feeds) = self.readers.remove(&reader) {
                self.unseat(&mut feeds);
            }
        }
    }

    /// Takes a reader out; the machine is told by the caller.
    pub(crate) fn remove(&mut self, id: ReaderId) -> Option<Reader> {
        let mut reader = self.readers.remove(&id)?;
        self.unseat(&mut reader);
        if let Some(member) = reader.member() {
            self.by_member.remove(&member);
        }
        Some(reader)
    }

    /// The readers of a connection, in the order of its handles.
    pub(crate) fn of_port(&self, port: PortId) -> Vec<Member> {
        let mut theirs: Vec<Member> =
            self.by_member.keys().filter(|member| member.port == port).copied().collect();
        theirs.sort_unstable_by_key(|member| member.handle);
        theirs
    }

    /// Subscriptions to chunks, in a fixed order.
    pub(crate) fn subscribers(&self) -> Vec<Member> {
        let chunks = self.readers.values().filter(|reader| matches!(reader, Reader::Chunks { .. }));
        let mut all: Vec<Member> = chunks.filter_map(Reader::member).collect();
        all.sort_unstable_by_key(|member| (member.port, member.handle));
        all
    }

    /// All subscriptions and consumers, without queries and fed queues; in a fixed order.
    pub(crate) fn all_members(&self) -> Vec<Member> {
        let mut all: Vec<Member> = self.by_member.keys().copied().collect();
        all.sort_unstable_by_key(|member| (member.port, member.handle));
        all
    }

    /// Connections that asked for an offset and have no answer, each with its token.
    pub(crate) fn asking(&self) -> Vec<(PortId, u32)> {
        let asks = self.readers.values().filter_map(|reader| match reader {
            Reader::Asks { port, token } => Some((*port, *token)),
            _ => None,
        });
        asks.collect()
    }

    /// Readers that are counted as consumers.
    pub(crate) fn consumers(&self) -> u32 {
        self.by_member.len() as u32
    }
}
