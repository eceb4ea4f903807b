//! The record of a message that arrived: of kind [`Kind::Enqueue`].

use super::Kind;
use super::keys::{self, Keys};
use base::id::QueueId;
use base::memory::Buffer;

/// The protocol in whose encoding a message's head and body are.
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
    /// The message survives a restart; its publisher waits for the disk.
    pub const DURABLE: u8 = 1;
    /// The publisher gave a priority (else the queue's default counts).
    pub const PRIORITY: u8 = 2;
    /// A broker wrote the part of its head about deaths: a client's word on them counts for nothing.
    pub const DEATHS: u8 = 4;
    /// It was routed by its routing key alone; keys its head lists counted for nothing (a dead-letter routing key took
    /// the place of all).
    pub const ONE_KEY: u8 = 8;
    /// It is delayed: it has a due time after the time it was received.
    pub const DELAYED: u8 = 16;
    /// Its delivery failed before it came: the upper two bytes of its due time say how often
    /// ([`super::Enqueue::failures`]).
    pub const FAILED: u8 = 32;
    /// Behind its body are keys it was routed by that nobody is to see ([`super::super::hidden_keys`]).
    pub const HIDDEN_KEYS: u8 = 64;
    /// Its head is as a consumer is to get it: it was made for one of its protocol, and is in no log.
    pub const SHOWN: u8 = 128;
    /// In a log, of a 0-9-1 message: the node wrote into its head when it came ([`crate::stamps`]).
    pub const STAMPED: u8 = 128;
}

/// A message as a log holds it. Lengths: exchange up to 255 bytes, routing key up to 65,535, queues up to 65,535,
/// the whole below 4 GiB.
///
/// ```text
///   0        4   5       6        8        9          10             11     12                14  16
///   | length | 1 | flags | queues | format | priority | exchange len | keys | routing key len | rank, 0 | head len |
///   20         24            32           40       48
///   | body len | received at | expires at | due at | digests 16 bytes each | queue ids 8 bytes each | exchange |
///   routing key | head | body | zeros to a multiple of 8
/// ```
///
/// `keys` is the second byte of flags: 1 there is the digest of the key, 2 that of the group, in this order ([`Keys`]), 4 `rank` is
/// the priority that its queue gave it, 8 it is a barrier of its queue; the other bits are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueue<'a> {
    /// [`flag`]s.
    pub flags: u8,
    /// The encoding of `head` and `body`.
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
    /// The second byte of flags.
    pub(super) keys: u8,
    /// The priority by its queue, where `keys` says that it is there.
    pub(super) queue_priority: u8,
    /// The digests that `keys` says are there.
    pub(super) digests: &'a [u8],
    /// The queues of this log it was routed to: eight bytes each.
    pub(super) queues: &'a [u8],
    /// The exchange it was published to; empty for the default one.
    pub exchange: &'a [u8],
    /// Its routing key.
    pub routing_key: &'a [u8],
    /// The part in front of the body, in the publisher's encoding.
    pub head: &'a [u8],
    /// The body, in the publisher's encoding.
    pub body: &'a [u8],
}

/// Bytes of an enqueue record in front of its digests.
pub(super) const ENQUEUE: usize = 48;

/// Bytes that one queue more takes in the record of a message.
pub const QUEUE_BYTES: usize = 8;

/// Bytes of a record without digests at most: there is room for those that come when it is written.
pub(super) const LEN_MAX: usize = u32::MAX as usize - 8 - keys::DIGESTS_MAX;

impl<'a> Enqueue<'a> {
    /// Reads a record of kind [`Kind::Enqueue`].
    #[inline]
    pub fn read(record: &'a [u8]) -> Option<Enqueue<'a>> {
        let (fixed, rest) = record.split_first_chunk::<ENQUEUE>()?;
        let u16_at = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]) as usize;
        let u32_at = |at: usize| u32::from_le_bytes(*fixed[at..].first_chunk().unwrap_or(&[0; 4])) as usize;
        let u64_at = |at: usize| u64::from_le_bytes(*fixed[at..].first_chunk().unwrap_or(&[0; 8]));
        let (digests, rest) = match fixed[11] {
            0 => (&[][..], rest),
            keys => keys::split_digests(keys, rest)?,
        };
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
            keys: fixed[11],
            queue_priority: fixed[14],
            digests,
            queues,
            exchange,
            routing_key,
            head,
            body,
        })
    }

    /// The priority of the message in a record that [`Enqueue::read`] reads, if it has one, by its queue or else its publisher;
    /// `None` where it has more that a queue goes by: an expiry, a time before which it is not due, failures before, or that
    /// it is a barrier.
    #[inline]
    pub fn priority_alone(record: &[u8]) -> Option<Option<u8>> {
        let fixed = record.first_chunk::<ENQUEUE>()?;
        let has_more = fixed[5] & (flag::DELAYED | flag::FAILED) != 0
            || fixed[32..40] != [0; 8]
            || keys::is_barrier(fixed[11]);
        let own = || (fixed[5] & flag::PRIORITY != 0).then_some(fixed[9]);
        (!has_more).then(|| keys::priority_of(fixed[11], fixed[14]).or_else(own))
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

/// A message that [`NewEnqueue::write`] writes: head and body may come in pieces, as they lie in the input.
#[derive(Clone, Copy, Debug)]
pub struct NewEnqueue<'a> {
    /// [`flag`]s.
    pub flags: u8,
    /// The encoding of `head` and `body`.
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
    /// The digests of its keys, where a queue goes by them.
    pub keys: Option<&'a Keys>,
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

    /// As [`NewEnqueue::record_len`] where the sizes are known.
    #[inline]
    pub fn record_len_of(&self, sizes: Sizes, queues: usize) -> Option<usize> {
        let len = ENQUEUE
            + queues * QUEUE_BYTES
            + self.exchange.len()
            + self.routing_key.len()
            + sizes.head
            + sizes.body;
        let fits = queues <= u16::MAX as usize
            && self.exchange.len() <= u8::MAX as usize
            && self.routing_key.len() <= u16::MAX as usize
            && len <= LEN_MAX;
        fits.then(|| (len + keys::digests_len(self.keys)).next_multiple_of(8))
    }

    /// Appends the record for `queues`. Panics where [`NewEnqueue::record_len`] is `None`: ask it first.
    #[inline]
    pub fn write(&self, queues: &[QueueId], into: &mut Buffer) {
        let sizes = self.sizes();
        let len = self.record_len_of(sizes, queues.len()).expect("asked record_len before");
        self.write_of((sizes, len), queues, into);
    }

    /// As [`NewEnqueue::write`] where the sizes are known, and what [`NewEnqueue::record_len_of`] answers for as many
    /// queues; panics where they are not its own.
    #[inline]
    pub fn write_of(&self, (sizes, len): (Sizes, usize), queues: &[QueueId], into: &mut Buffer) {
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
        if let Some(keys) = self.keys {
            fixed[11] = keys.flags();
            fixed[14] = keys.priority.unwrap_or(0);
            rest = keys.write(rest);
        }
        for queue in queues {
            rest = put(rest, &queue.0.to_le_bytes());
        }
        rest = put(rest, self.exchange);
        rest = put(rest, self.routing_key);
        rest = put_all(rest, self.head);
        rest = put_all(rest, self.body);
        assert!(rest.len() < 8, "a record ends with its body");
    }
}

#[inline(always)]
fn total(pieces: &[&[u8]]) -> usize {
    match pieces {
        [only] => only.len(),
        _ => pieces.iter().map(|piece| piece.len()).sum(),
    }
}

/// Puts `piece` at the front of `to`; answers the bytes behind it.
#[inline(always)]
pub(super) fn put<'a>(to: &'a mut [u8], piece: &[u8]) -> &'a mut [u8] {
    let (front, rest) = to.split_at_mut(piece.len());
    base::copy::copy(front, piece);
    rest
}

/// As [`put`], of one piece after the other.
#[inline(always)]
fn put_all<'a>(to: &'a mut [u8], pieces: &[&[u8]]) -> &'a mut [u8] {
    match pieces {
        [only] => put(to, only),
        _ => pieces.iter().fold(to, |rest, piece| put(rest, piece)),
    }
}

/// A queue that is never there: messages for it go nowhere.
pub const NOBODY: QueueId = QueueId(u64::MAX - 1);

/// Takes `queue` out of the queues that the enqueue record `record` is for.
pub fn leave_out(record: &mut [u8], queue: QueueId) {
    let Some((fixed, rest)) = record.split_first_chunk_mut::<ENQUEUE>() else { return };
    let queues = usize::from(u16::from_le_bytes([fixed[6], fixed[7]]));
    let Some(rest) = rest.get_mut(keys::digests_len_of(fixed[11])..) else { return };
    for id in rest.as_chunks_mut::<8>().0.iter_mut().take(queues) {
        if *id == queue.0.to_le_bytes() {
            *id = NOBODY.0.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::split;
    use super::*;

    fn message<'a>(head: &'a [&'a [u8]], body: &'a [&'a [u8]]) -> NewEnqueue<'a> {
        NewEnqueue {
            flags: flag::DURABLE,
            format: Format::Amqp10,
            priority: 4,
            received_at_ms: 1,
            expires_at_ms: 2,
            due_at_ms: 3,
            keys: None,
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
            (read.received_at_ms, read.expires_at_ms, read.due_at_ms, read.keys()),
            (1, 2, 3, Keys::default())
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
}
