//! The keys of a message that queues go by, as the digests of an [`Enqueue`] record: behind its fixed part, where its second byte of
//! flags says so. A message without keys has neither the digests nor their room. The priority that its queue gave it is a byte of
//! the fixed part; that it is a barrier of its queue is a flag and nothing else.

use super::Enqueue;
use super::enqueue::put;
use base::Digest;
use base::digest::DIGEST;

/// The digest of the key by which duplicates are known is there.
const KEYED: u8 = 1;
/// The digest of the group is there.
const GROUPED: u8 = 2;

/// There is a priority by its queue.
const RANKED: u8 = 4;

/// It is a barrier of its queue.
const BARRIER: u8 = 8;

/// Bytes that digests take at most.
pub(super) const DIGESTS_MAX: usize = 2 * DIGEST;

/// Digests of a message's keys, and what the expression of the queue that it is for says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Of the key by which duplicates are known.
    pub message: Option<Digest>,
    /// Of the group it is in.
    pub group: Option<Digest>,
    /// The priority that its queue's expression gave it when it came.
    pub priority: Option<u8>,
    /// The expression of its queue said when it came that it is a barrier.
    pub barrier: bool,
}

impl Keys {
    /// The second byte of flags.
    pub(super) fn flags(&self) -> u8 {
        let is_set = |is_there: bool, flag| if is_there { flag } else { 0 };
        is_set(self.message.is_some(), KEYED)
            | is_set(self.group.is_some(), GROUPED)
            | is_set(self.priority.is_some(), RANKED)
            | is_set(self.barrier, BARRIER)
    }

    /// Puts the digests at the front of `to`; answers the bytes behind them.
    #[cold]
    pub(super) fn write<'a>(&self, to: &'a mut [u8]) -> &'a mut [u8] {
        [self.message, self.group].into_iter().flatten().fold(to, |to, digest| put(to, &digest.bytes()))
    }
}

/// Bytes of the digests of these keys.
#[inline]
pub(super) fn digests_len(keys: Option<&Keys>) -> usize {
    keys.map_or(0, |keys| digests_len_of(keys.flags()))
}

/// Bytes of the digests that a second byte of flags says are there.
#[inline]
pub(super) fn digests_len_of(flags: u8) -> usize {
    (flags & (KEYED | GROUPED)).count_ones() as usize * DIGEST
}

/// Splits off the digests that this second byte of flags says are there; none where no writer of ours writes such a byte.
#[cold]
pub(super) fn split_digests(flags: u8, rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_known = flags & !(KEYED | GROUPED | RANKED | BARRIER) == 0;
    is_known.then(|| rest.split_at_checked(digests_len_of(flags)))?
}

/// The priority by its queue in the fixed part of a record with this second byte of flags.
#[inline]
pub(super) fn priority_of(flags: u8, byte: u8) -> Option<u8> {
    (flags & RANKED != 0).then_some(byte)
}

/// A record with this second byte of flags is of a barrier.
#[inline]
pub(super) fn is_barrier(flags: u8) -> bool {
    flags & BARRIER != 0
}

impl Enqueue<'_> {
    /// The digests of its keys, its priority by its queue, and whether it is a barrier of it.
    pub fn keys(&self) -> Keys {
        let mut digests = self.digests.as_chunks::<DIGEST>().0.iter().map(|bytes| Digest::of_bytes(*bytes));
        let mut next = |flag| if self.keys & flag != 0 { digests.next() } else { None };
        Keys {
            message: next(KEYED),
            group: next(GROUPED),
            priority: priority_of(self.keys, self.queue_priority),
            barrier: is_barrier(self.keys),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, NOBODY, NewEnqueue, flag, hidden_keys, leave_out, split};
    use super::*;
    use base::id::QueueId;
    use base::memory::Buffer;
    use proptest::prelude::*;

    fn message<'a>(keys: Option<&'a Keys>, body: &'a [&'a [u8]]) -> NewEnqueue<'a> {
        NewEnqueue {
            flags: flag::DURABLE,
            format: Format::Amqp091,
            priority: 0,
            received_at_ms: 1,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys,
            exchange: b"amq.direct",
            routing_key: b"key",
            head: &[b"\0\0"],
            body,
        }
    }

    /// A message with these keys takes so many bytes more than without, and is the same in all else.
    fn check(message_key: Option<Digest>, group: Option<Digest>, body: &[u8], bytes: usize) {
        for priority in [None, Some(0), Some(255)] {
            for barrier in [false, true] {
                check_of(Keys { message: message_key, group, priority, barrier }, body, bytes);
            }
        }
    }

    fn check_of(keys: Keys, body: &[u8], bytes: usize) {
        let bodies = [body];
        let queues = [QueueId(3), QueueId(4)];
        let (mut plain, mut keyed, mut hiding) = <(Buffer, Buffer, Buffer)>::default();
        message(None, &bodies).write(&queues, &mut plain);
        let new = message(Some(&keys), &bodies);
        new.write(&queues, &mut keyed);
        assert_eq!(new.record_len(2), Some(keyed.len()));
        assert_eq!(keyed.len(), plain.len() + bytes);
        new.write_hiding(&[b"hidden"], &queues, &mut hiding);
        assert_eq!(hidden_keys(hiding.bytes()), [b"hidden"]);
        leave_out(hiding.bytes_mut(), QueueId(3));
        for (record, left) in [(&keyed, QueueId(3)), (&hiding, NOBODY)] {
            let (_, record, rest) = split(record.bytes()).unwrap();
            let read = Enqueue::read(record).unwrap();
            assert_eq!((read.keys(), rest), (keys, &b""[..]));
            assert_eq!(read.queues().collect::<Vec<_>>(), [left, QueueId(4)]);
            assert_eq!((read.exchange, read.routing_key), (&b"amq.direct"[..], &b"key"[..]));
            assert_eq!((read.head, read.body), (&b"\0\0"[..], body));
        }
    }

    #[test]
    fn those_that_are_there_come_back_and_take_16_bytes_each() {
        let (one, other) = (Some(Digest([1, 2])), Some(Digest([3, u64::MAX])));
        for body in [&b""[..], b"1", b"1234567", b"12345678"] {
            check(None, None, body, 0);
            check(one, None, body, 16);
            check(None, other, body, 16);
            check(one, other, body, 32);
        }
    }

    #[test]
    fn flags_that_nobody_writes_are_refused() {
        for (flags, is_read) in [
            (0, true),
            (1, true),
            (2, true),
            (3, true),
            (4, true),
            (8, true),
            (15, true),
            (16, false),
            (0x83, false),
        ] {
            let mut buffer = Buffer::default();
            let keys = Keys { message: Some(Digest([1, 2])), group: Some(Digest([3, 4])), ..Keys::default() };
            message(Some(&keys), &[&[0; 64]]).write(&[], &mut buffer);
            buffer.bytes_mut()[11] = flags;
            assert_eq!(Enqueue::read(buffer.bytes()).is_some(), is_read, "{flags}");
        }
    }

    /// A message that has no keys when its length is asked may have them when it is written.
    #[test]
    fn the_longest_record_has_room_for_keys() {
        let piece = vec![0; 1 << 20];
        let (message_key, group) = (Some(Digest([1, 2])), Some(Digest([3, 4])));
        let keys = Keys { message: message_key, group, priority: Some(9), barrier: true };
        for (last, fits) in [((1 << 20) - 200, true), ((1 << 20) - 104, true), ((1 << 20) - 103, false)] {
            let mut body = vec![&piece[..]; 4095];
            body.push(&piece[..last]);
            let (plain, keyed) = (message(None, &body), message(Some(&keys), &body));
            assert_eq!(
                (plain.record_len(0).is_some(), keyed.record_len(0).is_some()),
                (fits, fits),
                "{last}"
            );
            assert_eq!(plain.hiding_len(0, &[]).is_some(), keyed.hiding_len(0, &[]).is_some(), "{last}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), flags: u8) {
            if let Some(at) = bytes.get_mut(11) {
                *at = flags;
            }
            if let Some(read) = Enqueue::read(&bytes) {
                let Keys { message, group, .. } = read.keys();
                prop_assert_eq!((message.is_some(), group.is_some()), (flags & 1 != 0, flags & 2 != 0));
            }
            leave_out(&mut bytes, QueueId(0));
        }
    }
}
