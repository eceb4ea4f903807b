//! Filling queues from a stream: a reader of the stream whose messages are put into a queue of the same log.
//!
//! A piece goes into the log at once, messages and how far they go, so that a crash leaves both or neither; how far
//! they go is an offset stored under a name that only queues have. The next piece follows when the one before is applied:
//! the disk sets the pace, and bytes under way are bounded. Messages on disk for good in the stream are referred to
//! ([`message::record::Refer`]), the rest is copied; a feed far behind has the stream flushed first. Where nothing was
//! wanted, how far that went is stored once in [`PASSED_OVER_MAX`] messages: after a crash they are looked at again. A
//! queue that refuses messages when it is full is fed as many as it has room for beside those its publishers have under
//! way; one that is limited in bytes may be fed one piece too much. Nothing is fed while an alarm holds.
//! Not here: which queue is fed from where (`catalog::source`).

mod filling;

use super::cursor::{Cursor, Expected, Sink};
use super::messages::{Converter, Entry, Recipient};
use crate::message_keys::KeyRule;
use base::Buffer;
use base::crc::crc32c;
use base::id::QueueId;
use message::record::{Enqueue, Refer, flag};
use queue::stream::{FEED, Place};

/// Set in what is stored where it is no offset but a time, milliseconds since 1970, from which on the queue wants messages.
const IS_TIME: u64 = 1 << 63;

/// Offsets that a queue's reader may pass over before it is stored how far it is.
const PASSED_OVER_MAX: u64 = 1 << 16;

/// A queue that is fed.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Where it stands in the stream.
    pub(super) cursor: Cursor,
    feeding: Feeding,
    /// The offset behind the chunk it stands in.
    chunk_end: u64,
    /// Messages fed up to this offset are not in the queue yet.
    waits_for: Option<u64>,
    /// Up to which offset it is stored that the queue was fed, or will be soon; none: it began at a time.
    stored: Option<u64>,
    /// Messages that its queue has room for.
    room: u64,
    /// Its queue's messages may lie in the stream's segments.
    may_refer: bool,
    /// Where the chunk lies that it stands in, if it is still there after so many moves.
    chunk_at: Option<(Place, u32)>,
    /// It waits for the stream to be flushed.
    awaits_flush: bool,
    /// The stream was asked to be flushed up to this offset.
    flushed_to: u64,
    /// It waits until its queue has room, and is listed for that.
    is_starved: bool,
}

/// A piece to be put into a log: records of messages for a queue, and behind them how far they go.
#[derive(Debug)]
pub(super) struct Fed {
    queue: QueueId,
    records: Buffer,
}

/// Which queue a name belongs to under which it is stored how far it was fed.
pub(super) fn queue_of(reference: &[u8]) -> Option<QueueId> {
    let id = reference.strip_prefix(FEED)?.first_chunk()?;
    Some(QueueId(u64::from_le_bytes(*id)))
}

/// Under which name it is stored how far a queue was fed.
fn reference(queue: QueueId) -> [u8; FEED.len() + 8] {
    let mut reference = [0; FEED.len() + 8];
    reference[..FEED.len()].copy_from_slice(FEED);
    reference[FEED.len()..].copy_from_slice(&queue.0.to_le_bytes());
    reference
}

/// For which queue messages are written as records.
#[derive(Debug)]
struct Feeding {
    queue: QueueId,
    /// The keys it goes by.
    key_rule: Option<KeyRule>,
    /// Where the chunk lies, if its messages may be referred to.
    chunk_at: Option<Place>,
    /// Messages with fewer bytes are copied.
    referred_bytes_min: usize,
    /// Bytes of messages that were referred to, and not copied.
    referred_bytes: usize,
    /// Units of work that ranking messages took: they count as so many bytes.
    ranking_units: usize,
}

impl Feeding {
    /// The bytes of `chunk` that are `message` are on disk for good: writes where, in place of the record at `at`, which holds
    /// them.
    fn refer(&mut self, (chunk, entry): (&[u8], Entry<'_>), at: usize, now_ms: u64, into: &mut Buffer) {
        let Entry { message, offset, stream, .. } = entry;
        let Some(place) = self.chunk_at.filter(|_| message.len() >= self.referred_bytes_min) else { return };
        let Some(record) = Enqueue::read(&into.bytes()[at..]) else { return };
        let says_name = record.routing_key == stream.name.as_bytes() && stream.name.len() <= u8::MAX.into();
        let refer = Refer {
            queue: self.queue,
            stream: stream.id,
            received_at_ms: now_ms,
            priority: record
                .keys()
                .priority
                .or((record.flags & flag::PRIORITY != 0).then_some(record.priority)),
            offset,
            segment: place.segment,
            position: place.position + (message.as_ptr() as usize - chunk.as_ptr() as usize) as u64,
            len: message.len() as u32,
            crc: crc32c(message),
            head_len: record.head.len() as u32,
            body_len: record.body.len() as u32,
            name: if says_name { stream.name.as_bytes() } else { b"" },
        };
        into.truncate(at);
        refer.write(into);
        self.referred_bytes += message.len();
    }
}

/// Sink of the messages that a queue is fed.
struct Records<'a> {
    converter: &'a mut Converter,
    feeding: &'a mut Feeding,
    now_ms: u64,
}

impl Sink for Records<'_> {
    fn converter(&mut self) -> &mut Converter {
        self.converter
    }

    fn take(&mut self, (chunk, entry): (&[u8], Entry<'_>), wanted: Expected<'_>, into: &mut Buffer) -> bool {
        let record_at = into.len();
        let Feeding { queue, ref key_rule, .. } = *self.feeding;
        let recipient = Recipient { queue, now_ms: self.now_ms, key_rule: key_rule.as_ref() };
        let is_fed = self.converter.feed(entry, recipient, wanted, into);
        if key_rule.is_some() {
            self.feeding.ranking_units += self.converter.take_ranking_units() as usize;
        }
        if is_fed {
            self.feeding.refer((chunk, entry), record_at, self.now_ms, into);
        }
        is_fed
    }

    fn referred_bytes(&self) -> usize {
        self.feeding.referred_bytes + self.feeding.ranking_units
    }
}
