//! Records: what a log holds, in the order in which its machines apply it.
//!
//! Every record begins with the same eight bytes, is a multiple of eight bytes long and starts at a multiple of eight
//! in its batch. Numbers are little-endian. The journal checks sums; these readers still take any bytes and answer
//! `None` for what no writer of ours wrote.
//!
//! ```text
//!   0        4      5       6       8
//!   | length | kind | flags | count |  kind's own part ...
//! ```

mod deduplicate;
mod failures;
mod hidden;
mod refer;
mod stream;
mod weigh;

pub use deduplicate::Deduplicate;
pub use failures::due_with_failures;
pub use hidden::hidden_keys;
pub use refer::{REFER, Refer};
pub use stream::{Append, Appended, NewAppend, REFERENCE_MAX, Track, Truncate};
pub use weigh::Weigh;

use base::cursor::Reader;
use base::id::{QueueId, QueueSeq};
use base::memory::Buffer;

/// Bytes of the part all records share.
pub const HEADER: usize = 8;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A message arrived, for the queues it names.
    Enqueue = 1,
    /// Positions of a queue are done with.
    Settle = 2,
    /// Positions came back from a consumer, with their counts.
    Return = 3,
    /// All ready positions of a queue up to one are gone.
    Purge = 4,
    /// A change of the catalog; only in its log.
    Catalog = 5,
    /// Positions of a queue are gone: their time was over.
    Expire = 6,
    /// Positions of a queue are gone: a limit was passed.
    Drop = 7,
    /// Positions of a queue are gone: where they were dead-lettered to, they are safe.
    DeadLetter = 8,
    /// What a queue keeps of the messages that come from here on.
    Configure = 9,
    /// Positions came back from a consumer, with their counts, and are delayed.
    Postpone = 10,
    /// Positions of a queue are handed out with annotations from here on.
    Annotate = 11,
    /// Messages for one stream, from a publisher of the stream protocol.
    Append = 12,
    /// A consumer of a stream says how far it has come.
    Track = 13,
    /// The beginning of a stream is let go of.
    Truncate = 14,
    /// A message arrived for one queue, and lies in a segment of a stream.
    Refer = 15,
}

impl Kind {
    /// It lists positions of one queue.
    #[inline]
    pub fn is_positions(self) -> bool {
        !matches!(
            self,
            Kind::Enqueue
                | Kind::Catalog
                | Kind::Configure
                | Kind::Annotate
                | Kind::Append
                | Kind::Track
                | Kind::Truncate
                | Kind::Refer
        )
    }
}

/// Splits the first record off `bytes`: its kind and its bytes; `None` where there is none.
#[inline]
pub fn split(bytes: &[u8]) -> Option<(Kind, &[u8], &[u8])> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    if length < HEADER || !length.is_multiple_of(8) {
        return None;
    }
    let (record, rest) = bytes.split_at_checked(length)?;
    let kind = match record[4] {
        1 => Kind::Enqueue,
        2 => Kind::Settle,
        3 => Kind::Return,
        4 => Kind::Purge,
        5 => Kind::Catalog,
        6 => Kind::Expire,
        7 => Kind::Drop,
        8 => Kind::DeadLetter,
        9 => Kind::Configure,
        10 => Kind::Postpone,
        11 => Kind::Annotate,
        12 => Kind::Append,
        13 => Kind::Track,
        14 => Kind::Truncate,
        15 => Kind::Refer,
        _ => return None,
    };
    Some((kind, record, rest))
}

/// Whose encoding a message's head and body are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// Head: the property flags and property list of a content header (AMQP 0-9-1 §4.2.6.1). Body: the body.
    Amqp091 = 1,
    /// Head: the header, delivery-annotations and message-annotations sections as they came. Body: the bare message
    /// and footer (AMQP 1.0 §3.2).
    Amqp10 = 2,
}

/// Flags of an [`Enqueue`].
pub mod flag {
    /// The message survives a restart; who published it waits for the disk.
    pub const DURABLE: u8 = 1;
    /// The publisher gave a priority (else the queue's default counts).
    pub const PRIORITY: u8 = 2;
    /// What its head says of deaths, a broker wrote: a client's word on them counts for nothing.
    pub const DEATHS: u8 = 4;
    /// It was routed by its routing key alone; keys its head lists counted for nothing (a dead-letter routing key took
    /// the place of all).
    pub const ONE_KEY: u8 = 8;
    /// It is delayed: it has a due time after the time it was received.
    pub const DELAYED: u8 = 16;
    /// Its delivery failed before it came: the upper two bytes of what is else its due time say how often
    /// ([`super::Enqueue::failures`]).
    pub const FAILED: u8 = 32;
    /// Behind its body are keys it was routed by that nobody is to see ([`super::hidden_keys`]).
    pub const HIDDEN_KEYS: u8 = 64;
    /// Its head is what a consumer is to get: it was made for one of its protocol, and is in no log.
    pub const SHOWN: u8 = 128;
}

/// A message as a log holds it. Lengths: exchange up to 255 bytes, routing key up to 65,535, queues up to 65,535,
/// the whole below 4 GiB.
///
/// ```text
///   0        4   5       6        8        9          10             11   12                14  16
///   | length | 1 | flags | queues | format | priority | exchange len | 0  | routing key len | 0 | head len |
///   20         24            32           40       48             56
///   | body len | received at | expires at | due at | ordering key | queue ids 8 bytes each | exchange | routing key |
///   head | body | zeros to a multiple of 8
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueue<'a> {
    /// [`flag`]s.
    pub flags: u8,
    /// Whose encoding `head` and `body` are in.
    pub format: Format,
    /// As the publisher gave it.
    pub priority: u8,
    /// When the broker received it, milliseconds since 1970; with the batch's commit time and the settle record's two
    /// times this makes the four timestamps of a message.
    pub received_at_ms: u64,
    /// When it expires, milliseconds since 1970; 0: never.
    pub expires_at_ms: u64,
    /// When it becomes ready, milliseconds since 1970; 0: at once. It counts where [`flag::DELAYED`] says so; where
    /// [`flag::FAILED`] does, [`Enqueue::due_ms`] reads it.
    pub due_at_ms: u64,
    /// Hash of the key within which order is kept; 0: none.
    pub ordering_key: u64,
    /// The queues of this log it was routed to: eight bytes each.
    queues: &'a [u8],
    /// The exchange it was published to; empty for the default one.
    pub exchange: &'a [u8],
    /// Its routing key.
    pub routing_key: &'a [u8],
    /// What comes before the body, in the publisher's encoding.
    pub head: &'a [u8],
    /// The body, in the publisher's encoding.
    pub body: &'a [u8],
}

/// Bytes of an enqueue record in front of its queue ids.
const ENQUEUE: usize = 56;

impl<'a> Enqueue<'a> {
    /// Reads a record of kind [`Kind::Enqueue`].
    #[inline]
    pub fn read(record: &'a [u8]) -> Option<Enqueue<'a>> {
        let (fixed, rest) = record.split_first_chunk::<ENQUEUE>()?;
        let u16_at = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]) as usize;
        let u32_at = |at: usize| u32::from_le_bytes(*fixed[at..].first_chunk().unwrap_or(&[0; 4])) as usize;
        let u64_at = |at: usize| u64::from_le_bytes(*fixed[at..].first_chunk().unwrap_or(&[0; 8]));
        let (queues, rest) = rest.split_at_checked(u16_at(6) * 8)?;
        let (exchange, rest) = rest.split_at_checked(fixed[10] as usize)?;
        let (routing_key, rest) = rest.split_at_checked(u16_at(12))?;
        let (head, rest) = rest.split_at_checked(u32_at(16))?;
        let (body, _padding) = rest.split_at_checked(u32_at(20))?;
        let format = match fixed[8] {
            1 => Format::Amqp091,
            2 => Format::Amqp10,
            _ => return None,
        };
        Some(Enqueue {
            flags: fixed[5],
            format,
            priority: fixed[9],
            received_at_ms: u64_at(24),
            expires_at_ms: u64_at(32),
            due_at_ms: u64_at(40),
            ordering_key: u64_at(48),
            queues,
            exchange,
            routing_key,
            head,
            body,
        })
    }

    /// The priority of the message in a record that [`Enqueue::read`] reads, if it has one; `None` where it has more that a
    /// queue goes by: an expiry, a time before which it is not due, or failures before.
    #[inline]
    pub fn priority_alone(record: &[u8]) -> Option<Option<u8>> {
        let fixed = record.first_chunk::<ENQUEUE>()?;
        let has_more = fixed[5] & (flag::DELAYED | flag::FAILED) != 0 || fixed[32..40] != [0; 8];
        (!has_more).then(|| (fixed[5] & flag::PRIORITY != 0).then_some(fixed[9]))
    }

    /// The queues it was routed to.
    #[inline]
    pub fn queues(&self) -> impl ExactSizeIterator<Item = QueueId> + use<'a> {
        self.queues.as_chunks::<8>().0.iter().map(|id| QueueId(u64::from_le_bytes(*id)))
    }

    /// Waits for the disk and survives a restart.
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.flags & flag::DURABLE != 0
    }
}

/// What [`NewEnqueue::write`] writes: head and body may come in pieces, as they lie in the input.
#[derive(Clone, Copy, Debug)]
pub struct NewEnqueue<'a> {
    /// [`flag`]s.
    pub flags: u8,
    /// Whose encoding `head` and `body` are in.
    pub format: Format,
    /// As the publisher gave it.
    pub priority: u8,
    /// Milliseconds since 1970.
    pub received_at_ms: u64,
    /// Milliseconds since 1970; 0: never.
    pub expires_at_ms: u64,
    /// Milliseconds since 1970; 0: at once. Goes with [`flag::DELAYED`]; with [`flag::FAILED`] it is what
    /// [`due_with_failures`] makes.
    pub due_at_ms: u64,
    /// 0: none.
    pub ordering_key: u64,
    /// At most 255 bytes.
    pub exchange: &'a [u8],
    /// At most 65,535 bytes.
    pub routing_key: &'a [u8],
    /// The pieces of the head, in order.
    pub head: &'a [&'a [u8]],
    /// The pieces of the body, in order.
    pub body: &'a [&'a [u8]],
}

/// Bytes of a message's head and body, all pieces of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Of the head.
    pub head: usize,
    /// Of the body.
    pub body: usize,
}

impl NewEnqueue<'_> {
    /// Adds the pieces up.
    #[inline]
    pub fn sizes(&self) -> Sizes {
        Sizes { head: total(self.head), body: total(self.body) }
    }

    /// Bytes the record takes for `queues` queues, or `None` where a length is over its bound.
    #[inline]
    pub fn record_len(&self, queues: usize) -> Option<usize> {
        self.record_len_of(self.sizes(), queues)
    }

    /// As [`NewEnqueue::record_len`] for who knows the sizes.
    #[inline]
    pub fn record_len_of(&self, sizes: Sizes, queues: usize) -> Option<usize> {
        let len =
            ENQUEUE + queues * 8 + self.exchange.len() + self.routing_key.len() + sizes.head + sizes.body;
        let fits = queues <= u16::MAX as usize
            && self.exchange.len() <= u8::MAX as usize
            && self.routing_key.len() <= u16::MAX as usize
            && len <= u32::MAX as usize - 8;
        fits.then(|| len.next_multiple_of(8))
    }

    /// Appends the record for `queues`. Panics where [`NewEnqueue::record_len`] is `None`: ask it first.
    #[inline]
    pub fn write(&self, queues: &[QueueId], into: &mut Buffer) {
        self.write_of(self.sizes(), queues, into);
    }

    /// As [`NewEnqueue::write`] for who knows the sizes; panics where they are not its own.
    #[inline]
    pub fn write_of(&self, sizes: Sizes, queues: &[QueueId], into: &mut Buffer) {
        let len = self.record_len_of(sizes, queues.len()).expect("asked record_len before");
        let record = into.extend_stale(len);
        // Padding, unless it is overwritten.
        if let Some(end) = record.last_chunk_mut::<8>() {
            *end = [0; 8];
        }
        let (fixed, mut rest) =
            record.split_first_chunk_mut::<ENQUEUE>().expect("a record is longer than its fixed part");
        *fixed = [0; ENQUEUE];
        fixed[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        fixed[4] = Kind::Enqueue as u8;
        fixed[5] = self.flags;
        fixed[6..8].copy_from_slice(&(queues.len() as u16).to_le_bytes());
        fixed[8] = self.format as u8;
        fixed[9] = self.priority;
        fixed[10] = self.exchange.len() as u8;
        fixed[12..14].copy_from_slice(&(self.routing_key.len() as u16).to_le_bytes());
        fixed[16..20].copy_from_slice(&(sizes.head as u32).to_le_bytes());
        fixed[20..24].copy_from_slice(&(sizes.body as u32).to_le_bytes());
        fixed[24..32].copy_from_slice(&self.received_at_ms.to_le_bytes());
        fixed[32..40].copy_from_slice(&self.expires_at_ms.to_le_bytes());
        fixed[40..48].copy_from_slice(&self.due_at_ms.to_le_bytes());
        fixed[48..56].copy_from_slice(&self.ordering_key.to_le_bytes());
        for queue in queues {
            rest = put(rest, &queue.0.to_le_bytes());
        }
        rest = put(rest, self.exchange);
        rest = put(rest, self.routing_key);
        for piece in self.head {
            rest = put(rest, piece);
        }
        for piece in self.body {
            rest = put(rest, piece);
        }
    }
}

#[inline(always)]
fn total(pieces: &[&[u8]]) -> usize {
    match pieces {
        [only] => only.len(),
        _ => pieces.iter().map(|piece| piece.len()).sum(),
    }
}

/// Puts `piece` at the front of `to` and answers what is behind it.
#[inline(always)]
fn put<'a>(to: &'a mut [u8], piece: &[u8]) -> &'a mut [u8] {
    let (front, rest) = to.split_at_mut(piece.len());
    base::copy::copy(front, piece);
    rest
}

/// A range of positions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqRange {
    /// The first position.
    pub first: QueueSeq,
    /// The last position, not before the first.
    pub last: QueueSeq,
}

/// A queue that is never there: what is for it goes nowhere.
pub const NOBODY: QueueId = QueueId(u64::MAX - 1);

/// Takes `queue` out of the queues that the enqueue record `record` is for.
pub fn leave_out(record: &mut [u8], queue: QueueId) {
    let Some((fixed, rest)) = record.split_first_chunk_mut::<ENQUEUE>() else { return };
    let queues = usize::from(u16::from_le_bytes([fixed[6], fixed[7]]));
    for id in rest.as_chunks_mut::<8>().0.iter_mut().take(queues) {
        if *id == queue.0.to_le_bytes() {
            *id = NOBODY.0.to_le_bytes();
        }
    }
}

/// Why positions left or came back, in AMQP 1.0's words (§3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// Consumed.
    Accepted = 0,
    /// Refused by the consumer: dead-lettered or dropped.
    Rejected = 1,
    /// Given back untouched.
    Released = 2,
    /// Given back as a failed delivery: counts towards the delivery limit.
    Failed = 3,
    /// Refused by the consumer as not for it, which is no failed delivery: else as rejected, and recorded so.
    Undeliverable = 4,
}

impl Outcome {
    fn read(byte: u8) -> Option<Outcome> {
        Some(match byte {
            0 => Outcome::Accepted,
            1 => Outcome::Rejected,
            2 => Outcome::Released,
            3 => Outcome::Failed,
            _ => return None,
        })
    }
}

/// Why a message dies, and goes to where its queue sends the dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DeathReason {
    /// A consumer refused it, which counts as a failed delivery.
    Rejected = 0,
    /// Its time was over.
    Expired = 1,
    /// The queue was full.
    MaxLength = 2,
    /// Its delivery failed too often.
    DeliveryLimit = 3,
    /// A consumer refused it, which does not count.
    Undeliverable = 4,
}

impl DeathReason {
    /// As `x-death` has it.
    pub fn name(self) -> &'static str {
        match self {
            DeathReason::Rejected | DeathReason::Undeliverable => "rejected",
            DeathReason::Expired => "expired",
            DeathReason::MaxLength => "maxlen",
            DeathReason::DeliveryLimit => "delivery_limit",
        }
    }

    /// A consumer refused it, however that counts.
    pub fn is_refusal(self) -> bool {
        matches!(self, DeathReason::Rejected | DeathReason::Undeliverable)
    }
}

/// A settle, return, purge, expire, drop, dead-letter or postpone record: positions of one queue. Of the last, what is
/// `delivered at` in others says when they are due.
///
/// ```text
///   0        4      5         6        8          16        24             32
///   | length | kind | outcome | ranges | queue id | at (ms) | delivered at | first, last: 8 bytes each, per range ...
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions<'a> {
    /// The queue.
    pub queue: QueueId,
    /// Why.
    pub outcome: Outcome,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// When the first of them was delivered, milliseconds since 1970; 0 where nobody measured it. Of a postpone record:
    /// when they are due.
    pub delivered_at_ms: u64,
    ranges: &'a [u8],
}

/// Bytes of a positions record in front of its ranges.
const POSITIONS: usize = 32;

/// Ranges one positions record may hold.
pub const RANGES_MAX: usize = u16::MAX as usize;

impl<'a> Positions<'a> {
    /// Reads a record of positions. Ranges that run backwards make it `None`.
    pub fn read(record: &'a [u8]) -> Option<Positions<'a>> {
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(5).ok()?;
        let outcome = Outcome::read(reader.u8().ok()?)?;
        let count = reader.u16_le().ok()? as usize;
        let queue = QueueId(reader.u64_le().ok()?);
        let at_ms = reader.u64_le().ok()?;
        let delivered_at_ms = reader.u64_le().ok()?;
        let ranges = reader.take(count * 16).ok()?;
        let positions = Positions { queue, outcome, at_ms, delivered_at_ms, ranges };
        positions.ranges().all(|range| range.first <= range.last).then_some(positions)
    }

    /// The ranges, in the order they were written.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = SeqRange> + use<'a> {
        self.ranges.as_chunks::<16>().0.iter().map(|range| {
            let (first, last) = range.split_at(8);
            let number = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]));
            SeqRange { first: QueueSeq(number(first)), last: QueueSeq(number(last)) }
        })
    }

    /// Appends a positions record; at most [`RANGES_MAX`] ranges.
    pub fn write(
        kind: Kind,
        queue: QueueId,
        outcome: Outcome,
        at_ms: u64,
        delivered_at_ms: u64,
        ranges: &[SeqRange],
        into: &mut Buffer,
    ) {
        assert!(ranges.len() <= RANGES_MAX && kind.is_positions());
        let len = POSITIONS + ranges.len() * 16;
        let mut fixed = [0; POSITIONS];
        fixed[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        fixed[4] = kind as u8;
        fixed[5] = outcome as u8;
        fixed[6..8].copy_from_slice(&(ranges.len() as u16).to_le_bytes());
        fixed[8..16].copy_from_slice(&queue.0.to_le_bytes());
        fixed[16..24].copy_from_slice(&at_ms.to_le_bytes());
        fixed[24..32].copy_from_slice(&delivered_at_ms.to_le_bytes());
        into.extend(&fixed);
        for range in ranges {
            into.extend(&range.first.0.to_le_bytes());
            into.extend(&range.last.0.to_le_bytes());
        }
    }

    /// Makes the last range of the positions record at `record` in `bytes` end at `last`: how a settle that follows on
    /// the one just written becomes part of it. True if it did (same queue and outcome, and `first` follows on).
    pub fn extend_last(
        record: &mut [u8],
        kind: Kind,
        queue: QueueId,
        outcome: Outcome,
        range: SeqRange,
    ) -> bool {
        let is_same = record.len() >= POSITIONS + 16
            && record[4] == kind as u8
            && record[5] == outcome as u8
            && record[8..16] == queue.0.to_le_bytes();
        let Some(last) = record.last_chunk_mut::<8>().filter(|_| is_same) else { return false };
        let follows = u64::from_le_bytes(*last).checked_add(1) == Some(range.first.0);
        if follows {
            *last = range.last.0.to_le_bytes();
        }
        follows
    }

    /// Adds a range to the positions record at `at`, which is the last one in `buffer`. False, and nothing is done: it is
    /// of another kind, queue or outcome, or holds [`RANGES_MAX`] ranges.
    pub fn add_range(
        buffer: &mut Buffer,
        at: usize,
        kind: Kind,
        queue: QueueId,
        outcome: Outcome,
        range: SeqRange,
    ) -> bool {
        let record = &buffer.bytes()[at..];
        let is_same = record.len() >= POSITIONS
            && record[4] == kind as u8
            && record[5] == outcome as u8
            && record[8..16] == queue.0.to_le_bytes();
        let count = record.len().saturating_sub(POSITIONS) / 16 + 1;
        let (Ok(count), true) = (u16::try_from(count), is_same) else { return false };
        let len = record.len() as u32 + 16;
        buffer.extend(&range.first.0.to_le_bytes());
        buffer.extend(&range.last.0.to_le_bytes());
        let record = &mut buffer.bytes_mut()[at..];
        record[0..4].copy_from_slice(&len.to_le_bytes());
        record[6..8].copy_from_slice(&count.to_le_bytes());
        true
    }
}

/// Which messages' sizes a queue keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizesKept {
    /// None's.
    #[default]
    None,
    /// Of those that come: what a limit in bytes asked for before [`Weigh`] could say more.
    Coming,
    /// Of those that come, and, once [`Weigh`] says them, of those that are there.
    All,
}

/// What a queue keeps of its messages, from this record on.
///
/// ```text
///   0        4   5       6              7   8          16        24           32
///   | length | 9 | flags | priority max | 0 | queue id | at (ms) | ttl (ms) |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configure {
    /// The queue.
    pub queue: QueueId,
    /// How long a message lives in it at most, milliseconds.
    pub ttl_ms: Option<u64>,
    /// The highest priority that counts, where any does by declaration.
    pub priority_max: Option<u8>,
    /// Which messages' sizes are kept.
    pub sizes: SizesKept,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

/// Bytes of a configure record.
const CONFIGURE: usize = 32;
const HAS_TTL: u8 = 1;
const HAS_PRIORITY: u8 = 2;
const HAS_SIZES: u8 = 4;
/// Goes with [`HAS_SIZES`] alone.
const WEIGHS: u8 = 32;

impl Configure {
    /// Reads a record of kind [`Kind::Configure`]; flags no version of ours writes make it `None`.
    pub fn read(record: &[u8]) -> Option<Configure> {
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(5).ok()?;
        let (flags, priority_max, zero) = (reader.u8().ok()?, reader.u8().ok()?, reader.u8().ok()?);
        let queue = QueueId(reader.u64_le().ok()?);
        let (at_ms, ttl_ms) = (reader.u64_le().ok()?, reader.u64_le().ok()?);
        let is_known = flags & !(HAS_TTL | HAS_PRIORITY | HAS_SIZES | WEIGHS) == 0 && zero == 0;
        let is_known = is_known && flags & (HAS_SIZES | WEIGHS) != WEIGHS;
        is_known.then_some(Configure {
            queue,
            ttl_ms: (flags & HAS_TTL != 0).then_some(ttl_ms),
            priority_max: (flags & HAS_PRIORITY != 0).then_some(priority_max),
            sizes: match flags & (HAS_SIZES | WEIGHS) {
                0 => SizesKept::None,
                HAS_SIZES => SizesKept::Coming,
                _ => SizesKept::All,
            },
            at_ms,
        })
    }

    /// Appends the record.
    pub fn write(&self, into: &mut Buffer) {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.ttl_ms.is_some(), HAS_TTL)
            | flag(self.priority_max.is_some(), HAS_PRIORITY)
            | flag(self.sizes != SizesKept::None, HAS_SIZES)
            | flag(self.sizes == SizesKept::All, WEIGHS);
        let mut record = [0; CONFIGURE];
        record[0..4].copy_from_slice(&(CONFIGURE as u32).to_le_bytes());
        record[4..7].copy_from_slice(&[Kind::Configure as u8, flags, self.priority_max.unwrap_or(0)]);
        record[8..16].copy_from_slice(&self.queue.0.to_le_bytes());
        record[16..24].copy_from_slice(&self.at_ms.to_le_bytes());
        record[24..32].copy_from_slice(&self.ttl_ms.unwrap_or(0).to_le_bytes());
        into.extend(&record);
    }
}

/// Positions of a queue have these annotations from now on, and none they had before.
///
/// ```text
///   0        4    5   6   8          16        24      32     40                  44
///   | length | 11 | 0 | 0 | queue id | at (ms) | first | last | annotations length | annotations | zeros to a multiple of 8
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotate<'a> {
    /// The queue.
    pub queue: QueueId,
    /// The positions.
    pub range: SeqRange,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// The annotations, as [`crate::annotations::merge`] answers them; below 4 GiB.
    pub annotations: &'a [u8],
}

/// Bytes of an annotate record in front of its annotations.
const ANNOTATE: usize = 44;

impl<'a> Annotate<'a> {
    /// Reads a record of kind [`Kind::Annotate`]. A range that runs backwards makes it `None`.
    pub fn read(record: &'a [u8]) -> Option<Annotate<'a>> {
        let mut reader = Reader::new(record);
        let _length_and_kind = reader.take(HEADER).ok()?;
        let (queue, at_ms) = (QueueId(reader.u64_le().ok()?), reader.u64_le().ok()?);
        let (first, last) = (QueueSeq(reader.u64_le().ok()?), QueueSeq(reader.u64_le().ok()?));
        let len = reader.u32_le().ok()? as usize;
        let annotations = reader.take(len).ok()?;
        let range = SeqRange { first, last };
        (first <= last).then_some(Annotate { queue, range, at_ms, annotations })
    }

    /// Appends the record.
    pub fn write(&self, into: &mut Buffer) {
        let len = (ANNOTATE + self.annotations.len()).next_multiple_of(8);
        let mut fixed = [0; ANNOTATE];
        fixed[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        fixed[4] = Kind::Annotate as u8;
        fixed[8..16].copy_from_slice(&self.queue.0.to_le_bytes());
        fixed[16..24].copy_from_slice(&self.at_ms.to_le_bytes());
        fixed[24..32].copy_from_slice(&self.range.first.0.to_le_bytes());
        fixed[32..40].copy_from_slice(&self.range.last.0.to_le_bytes());
        fixed[40..44].copy_from_slice(&(self.annotations.len() as u32).to_le_bytes());
        into.extend(&fixed);
        into.extend(self.annotations);
        into.pad_to(8);
    }
}

/// Appends a catalog record around `change`, an encoding that is the catalog's own.
///
/// ```text
///   0        4   5   6   8               12
///   | length | 5 | 0 | 0 | change length | change | zeros to a multiple of 8
/// ```
pub fn write_catalog(change: &[u8], into: &mut Buffer) {
    let len = (12 + change.len()).next_multiple_of(8);
    into.reserve(len);
    into.extend(&(len as u32).to_le_bytes());
    into.extend(&[Kind::Catalog as u8, 0, 0, 0]);
    into.extend(&(change.len() as u32).to_le_bytes());
    into.extend(change);
    into.pad_to(8);
}

/// The change in a record of kind [`Kind::Catalog`].
pub fn read_catalog(record: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(record);
    let _header = reader.take(HEADER).ok()?;
    let len = reader.u32_le().ok()? as usize;
    reader.take(len).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message<'a>(head: &'a [&'a [u8]], body: &'a [&'a [u8]]) -> NewEnqueue<'a> {
        NewEnqueue {
            flags: flag::DURABLE,
            format: Format::Amqp10,
            priority: 4,
            received_at_ms: 1,
            expires_at_ms: 2,
            due_at_ms: 3,
            ordering_key: 4,
            exchange: b"amq.topic",
            routing_key: b"a.b",
            head,
            body,
        }
    }

    #[test]
    fn enqueue_comes_back_as_written() {
        let mut buffer = Buffer::default();
        let new = message(&[b"he", b"ad"], &[b"", b"body"]);
        new.write(&[QueueId(7), QueueId(9)], &mut buffer);
        assert_eq!(Some(buffer.len()), new.record_len(2));
        let (kind, record, rest) = split(buffer.bytes()).unwrap();
        assert_eq!((kind, rest.len()), (Kind::Enqueue, 0));
        let read = Enqueue::read(record).unwrap();
        assert_eq!(read.queues().collect::<Vec<_>>(), [QueueId(7), QueueId(9)]);
        assert_eq!((read.exchange, read.routing_key), (&b"amq.topic"[..], &b"a.b"[..]));
        assert_eq!((read.head, read.body), (&b"head"[..], &b"body"[..]));
        assert_eq!(
            (read.received_at_ms, read.expires_at_ms, read.due_at_ms, read.ordering_key),
            (1, 2, 3, 4)
        );
        assert!(read.is_durable());
    }

    #[test]
    fn a_queue_is_left_out() {
        let mut buffer = Buffer::default();
        message(&[b"head"], &[b"body"]).write(&[QueueId(7), QueueId(9)], &mut buffer);
        leave_out(buffer.bytes_mut(), QueueId(7));
        let read = Enqueue::read(buffer.bytes()).unwrap();
        assert_eq!(read.queues().collect::<Vec<_>>(), [NOBODY, QueueId(9)]);
        assert_eq!((read.head, read.body), (&b"head"[..], &b"body"[..]));
    }

    #[test]
    fn lengths_over_their_bound_are_refused() {
        let long = vec![0; 65_536];
        assert_eq!(NewEnqueue { routing_key: &long, ..message(&[], &[]) }.record_len(1), None);
        assert_eq!(NewEnqueue { exchange: &long[..256], ..message(&[], &[]) }.record_len(1), None);
        assert_eq!(message(&[], &[]).record_len(65_536), None);
    }

    #[test]
    fn positions_come_back_and_grow() {
        let range = |first, last| SeqRange { first: QueueSeq(first), last: QueueSeq(last) };
        let mut buffer = Buffer::default();
        let ranges = [range(1, 1), range(5, 9)];
        Positions::write(Kind::Settle, QueueId(3), Outcome::Accepted, 10, 0, &ranges, &mut buffer);
        let extend = |bytes: &mut [u8], queue, range| {
            Positions::extend_last(bytes, Kind::Settle, QueueId(queue), Outcome::Accepted, range)
        };
        assert!(extend(buffer.bytes_mut(), 3, range(10, 12)));
        assert!(!extend(buffer.bytes_mut(), 3, range(14, 14)));
        assert!(!extend(buffer.bytes_mut(), 4, range(13, 13)));
        let (kind, record, _) = split(buffer.bytes()).unwrap();
        let read = Positions::read(record).unwrap();
        assert_eq!((kind, read.queue, read.at_ms), (Kind::Settle, QueueId(3), 10));
        assert_eq!(read.ranges().collect::<Vec<_>>(), [range(1, 1), range(5, 12)]);
    }

    #[test]
    fn ranges_are_added_up_to_their_bound() {
        let range = |seq: u64| SeqRange { first: QueueSeq(2 * seq), last: QueueSeq(2 * seq) };
        let mut buffer = Buffer::default();
        buffer.extend(&[7; 8]);
        let (kind, queue, outcome) = (Kind::Settle, QueueId(3), Outcome::Accepted);
        Positions::write(kind, queue, outcome, 10, 0, &[range(0)], &mut buffer);
        let mut add = |kind, queue: u64, outcome, seq| {
            Positions::add_range(&mut buffer, 8, kind, QueueId(queue), outcome, range(seq))
        };
        assert!(!add(Kind::Purge, 3, outcome, 1));
        assert!(!add(kind, 4, outcome, 1));
        assert!(!add(kind, 3, Outcome::Rejected, 1));
        assert!((1..RANGES_MAX as u64).all(|seq| add(kind, 3, outcome, seq)));
        assert!(!add(kind, 3, outcome, RANGES_MAX as u64));
        let (kind, record, rest) = split(&buffer.bytes()[8..]).unwrap();
        let read = Positions::read(record).unwrap();
        assert_eq!((kind, read.queue, read.outcome, rest), (Kind::Settle, queue, outcome, &[][..]));
        assert!(read.ranges().eq((0..RANGES_MAX as u64).map(range)));
    }

    #[test]
    fn configure_comes_back() {
        let some = [None, Some(0), Some(7)];
        for (ttl_ms, priority_max) in some.into_iter().flat_map(|ttl| some.map(|max| (ttl, max))) {
            for sizes in [SizesKept::None, SizesKept::Coming, SizesKept::All] {
                let priority_max = priority_max.map(|max| max as u8);
                let new = Configure { queue: QueueId(9), ttl_ms, priority_max, sizes, at_ms: 5 };
                let mut buffer = Buffer::default();
                new.write(&mut buffer);
                let (kind, record, rest) = split(buffer.bytes()).unwrap();
                assert_eq!((kind, Configure::read(record), rest), (Kind::Configure, Some(new), &[][..]));
            }
        }
        let mut buffer = Buffer::default();
        let sizes = SizesKept::None;
        Configure { queue: QueueId(9), ttl_ms: None, priority_max: None, sizes, at_ms: 5 }.write(&mut buffer);
        for unknown in [8, WEIGHS, 64] {
            buffer.bytes_mut()[5] = unknown;
            assert_eq!(Configure::read(buffer.bytes()), None);
        }
    }

    #[test]
    fn annotate_comes_back() {
        for annotations in [&b""[..], b"1234", b"12345"] {
            let range = SeqRange { first: QueueSeq(7), last: QueueSeq(9) };
            let new = Annotate { queue: QueueId(3), range, at_ms: 5, annotations };
            let mut buffer = Buffer::default();
            new.write(&mut buffer);
            let (kind, record, rest) = split(buffer.bytes()).unwrap();
            assert_eq!((kind, Annotate::read(record), rest), (Kind::Annotate, Some(new), &[][..]));
            buffer.bytes_mut()[24] = 10;
            assert_eq!(Annotate::read(buffer.bytes()), None, "backwards");
        }
    }

    #[test]
    fn catalog_comes_back() {
        let mut buffer = Buffer::default();
        write_catalog(b"change", &mut buffer);
        let (kind, record, _) = split(buffer.bytes()).unwrap();
        assert_eq!((kind, read_catalog(record)), (Kind::Catalog, Some(&b"change"[..])));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some((_, record, _)) = split(&bytes) {
                let _ = (Enqueue::read(record), Positions::read(record), read_catalog(record), Configure::read(record));
            }
            let _ = (Enqueue::read(&bytes), Positions::read(&bytes), read_catalog(&bytes), Annotate::read(&bytes));
        }
    }
}
