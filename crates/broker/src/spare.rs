//! Buffers of a log's finished batches, or of records that other shards took in, to be filled again: as many as were
//! needed lately, and none of an idle log or shard.
//!
//! Last in, first out, so the buffers at the bottom are those that nobody needs: one that was there through a whole
//! period goes with its end ([`Spare::forget_unused`]). A log under way thus goes round with the same few buffers for
//! ever, and what a stall of the disk or a burst of publishing took beyond them is given back.
//!
//! Invariants: `bytes` is the sum of their capacities, and at most what [`Spare::put`] was given; `unused` is at most how
//! many there are.

use base::{Buffer, Memory};

/// How many of the last are looked at for one that fits.
const LOOKED_AT: usize = 16;

/// Bytes from which on a buffer is made as large as it will be.
const LARGE: usize = 256 << 10;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    buffers: Vec<Buffer>,
    bytes: usize,
    /// The fewest there were in this period.
    unused: usize,
}

impl Spare {
    /// One to fill: a used one when there is one.
    pub(crate) fn take(&mut self) -> Buffer {
        let Some(buffer) = self.buffers.pop() else { return Buffer::default() };
        self.bytes -= buffer.capacity();
        self.unused = self.unused.min(self.buffers.len());
        buffer
    }

    /// One to fill with `bytes` or about as many: a used one that can hold them and is not much larger, when there is one
    /// among the last. For many bytes it may be four times as large, and there is a new one rather than one that has to grow,
    /// which copies what is in it.
    pub(crate) fn take_like(&mut self, bytes: usize) -> Buffer {
        let first = self.buffers.len().saturating_sub(LOOKED_AT);
        let find = |times: usize| {
            let fits = bytes..=bytes.saturating_mul(times);
            self.buffers[first..].iter().rposition(|buffer| fits.contains(&buffer.capacity()))
        };
        // The size that batches have goes up and down: rather a somewhat larger buffer than a new one.
        match find(2).or_else(|| find(if bytes >= LARGE { 4 } else { 0 })) {
            Some(at) => self.take_at(first + at),
            None if bytes >= LARGE => {
                self.make_room(bytes);
                // So that batches which are each a little larger than the last do not each need a new one.
                Buffer::with_capacity(bytes.next_multiple_of(LARGE))
            }
            None => self.take(),
        }
    }

    /// Large ones that did not fit go, the first first, for one of `bytes` that is made instead: where batches are of all sizes
    /// there would else be one spare of each.
    #[cold]
    fn make_room(&mut self, bytes: usize) {
        let mut gone = 0;
        self.buffers.retain(|buffer| {
            let goes = gone < bytes && buffer.capacity() >= LARGE;
            gone += if goes { buffer.capacity() } else { 0 };
            !goes
        });
        self.bytes -= gone;
        self.unused = self.unused.min(self.buffers.len());
    }

    /// One to read `bytes` into: the last used one that can hold them and is not much larger, when there is one.
    pub(crate) fn take_for(&mut self, bytes: usize) -> Buffer {
        let fits = |buffer: &Buffer| (bytes..=bytes.saturating_mul(2)).contains(&buffer.capacity());
        let Some(at) = self.buffers.iter().rposition(fits) else { return Buffer::default() };
        self.take_at(at)
    }

    fn take_at(&mut self, at: usize) -> Buffer {
        let buffer = self.buffers.remove(at);
        self.bytes -= buffer.capacity();
        self.unused = self.unused.min(self.buffers.len());
        buffer
    }

    /// Takes in the memory of a batch nobody needs any more, unless somebody does or there would be more than `bytes_max`.
    pub(crate) fn put(&mut self, memory: Memory, bytes_max: usize) {
        if self.bytes + memory.capacity() <= bytes_max
            && let Some(buffer) = memory.recycle()
        {
            self.put_empty(buffer, bytes_max);
        }
    }

    /// Takes in a buffer with nothing in it, unless there would be more than `bytes_max`.
    pub(crate) fn put_empty(&mut self, buffer: Buffer, bytes_max: usize) {
        debug_assert!(buffer.is_empty(), "what is in it would be written");
        if self.bytes + buffer.capacity() <= bytes_max {
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }

    /// A period is over: what was not needed in it goes, and so does everything where nothing was needed at all.
    pub(crate) fn forget_unused(&mut self) {
        let gone = self.buffers.drain(..self.unused).map(|buffer| buffer.capacity());
        self.bytes -= gone.sum::<usize>();
        self.unused = self.buffers.len();
        if self.buffers.is_empty() {
            self.buffers = Vec::new();
        }
    }

    /// There are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Bytes of memory held, its own included.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes + self.buffers.capacity() * size_of::<Buffer>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 64 << 10;

    fn put(spare: &mut Spare, count: usize) {
        (0..count).for_each(|_| spare.put(Buffer::with_capacity(BYTES).seal(), 1 << 20));
    }

    #[test]
    fn keeps_what_goes_round_and_forgets_the_rest() {
        let mut spare = Spare::default();
        // A burst took ten.
        put(&mut spare, 10);
        spare.forget_unused();
        assert_eq!(spare.bytes, 10 * BYTES, "they came in this very period");
        for _ in 0..100 {
            let two = [spare.take(), spare.take()];
            assert!(two.iter().all(|buffer| buffer.capacity() == BYTES));
            two.into_iter().for_each(|buffer| spare.put(buffer.seal(), 1 << 20));
        }
        spare.forget_unused();
        assert_eq!(spare.bytes, 2 * BYTES, "two are needed");
        spare.forget_unused();
        assert!(spare.is_empty());
        assert_eq!(spare.heap_bytes(), 0, "an idle log has none");
    }

    #[test]
    fn one_to_read_into_is_not_much_larger() {
        let check = |bytes: usize, capacity: usize| {
            let mut spare = Spare::default();
            put(&mut spare, 1);
            assert_eq!(spare.take_for(bytes).capacity(), capacity);
            assert_eq!(spare.bytes, BYTES - capacity);
        };
        check(BYTES, BYTES);
        check(BYTES / 2, BYTES);
        check(BYTES / 2 - 1, 0);
        check(BYTES + 1, 0);
    }

    #[test]
    fn holds_no_more_than_its_bound() {
        let mut spare = Spare::default();
        put(&mut spare, 100);
        assert_eq!(spare.bytes, 1 << 20);
        let held = Buffer::with_capacity(BYTES).seal();
        spare.forget_unused();
        spare.forget_unused();
        let other = held.clone();
        spare.put(held, 1 << 20);
        assert!(spare.is_empty(), "somebody reads it");
        spare.put(other, 1 << 20);
        assert_eq!(spare.bytes, BYTES);
    }

    #[test]
    fn a_large_one_is_as_large_as_it_will_be() {
        let mut spare = Spare::default();
        assert_eq!(spare.take_like(10).capacity(), 0, "small ones grow");
        assert_eq!(spare.take_like(LARGE).capacity(), LARGE);
        put(&mut spare, 2);
        spare.put(Buffer::with_capacity(4 * LARGE).seal(), 16 << 20);
        assert_eq!(spare.take_like(BYTES / 2).capacity(), BYTES);
        assert_eq!(spare.take_like(2 * LARGE).capacity(), 4 * LARGE);
        assert_eq!(spare.take_like(5 * LARGE).capacity(), 5 * LARGE);
        assert_eq!(spare.take_like(10).capacity(), BYTES, "rather any than none");
        assert!(spare.is_empty() && spare.bytes == 0);
    }

    #[test]
    fn one_is_made_for_batches_that_are_a_little_larger_too() {
        let mut spare = Spare::default();
        put(&mut spare, 1);
        let made = spare.take_like(LARGE + 1);
        assert_eq!(made.capacity(), 2 * LARGE);
        spare.put(made.seal(), 1 << 20);
        for more in (0..LARGE).step_by(LARGE / 7) {
            let again = spare.take_like(LARGE / 2 + more);
            assert_eq!((again.capacity(), spare.bytes), (2 * LARGE, BYTES), "{more}");
            spare.put(again.seal(), 1 << 20);
        }
    }

    #[test]
    fn one_that_is_made_takes_the_place_of_those_that_did_not_fit() {
        let mut spare = Spare::default();
        put(&mut spare, 1);
        // Each batch is larger than the one before it, or much smaller.
        for size in [1, 3, 7, 1, 3, 7, 15, 1, 15, 31] {
            let before = spare.bytes;
            let buffer = spare.take_like(size * LARGE);
            assert!(spare.bytes + buffer.capacity() <= BYTES.max(before) + size * LARGE, "{size}");
            spare.put(buffer.seal(), 64 << 20);
            assert_eq!(spare.bytes, BYTES + size * LARGE, "one of each size, and {size}");
        }
        assert_eq!(spare.take_like(10).capacity(), 31 * LARGE, "the last");
        assert_eq!(spare.take_like(10).capacity(), BYTES, "small ones are no matter");
        assert!(spare.is_empty() && spare.bytes == 0 && spare.unused == 0);
    }
}
