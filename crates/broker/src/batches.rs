//! Where a log's messages are: the committed batches that still hold a live one, in log order.
//!
//! A batch is in memory while it is recent (bounded by [`crate::Limits::resident_bytes_max`]) or was just read back;
//! otherwise it is known by its place in the journal only. It is forgotten when its last message has left, or when what
//! it still held was moved to a segment. Where an older batch stays that may be a while later: such dead entries are swept
//! out once they outnumber the live ones, so what stays does not make everything behind it stay.
//! Invariants: the batches are sorted by their base and do not overlap; `dead` of them hold no live message.

use crate::spare::Spare;
use base::Memory;
use base::id::LogIndex;
use journal::Place;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Entry {
    base: u64,
    /// Bytes of records.
    len: u32,
    /// Messages, counted once per queue, that have not left.
    live: u32,
    memory: Option<Memory>,
    place: Option<Place>,
    /// When it was committed, monotonic nanoseconds; 0: before the node started.
    committed_at: u64,
    /// Its memory was read back.
    is_loaded: bool,
}

/// Added to `live` while the batch is being applied: messages may leave before all are counted.
const APPLYING: u32 = 1 << 31;

/// Dead entries that are there at least when they are swept out: of few it is not worth it.
const DEAD_MIN: usize = 512;

/// A log's live batches.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    ring: VecDeque<Entry>,
    /// Entries without a live message.
    dead: usize,
    /// Where the last look-up ended: the next is nearly always there or just behind.
    hint: usize,
    /// Bytes of memory held.
    resident: usize,
    /// Those of batches that were read back.
    loaded_bytes: usize,
    /// How many batches that are.
    loaded_count: usize,
    /// The oldest were dropped from memory up to here.
    evicted_below: u64,
    pub(crate) spare: Spare,
}

/// The result of [`Batches::find`].
pub(crate) enum Found<'a> {
    /// The record begins at this offset of this memory, of which so many bytes are records.
    Resident(&'a Memory, u32, u32),
    /// The batch must be read first: its base and its place.
    Away(LogIndex, Place),
}

impl Batches {
    /// Bytes of memory held by live batches.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.resident
    }

    /// Bytes of memory of batches that were read back.
    pub(crate) fn loaded_bytes(&self) -> usize {
        self.loaded_bytes
    }

    /// Batches in memory that were read back.
    pub(crate) fn loaded_count(&self) -> usize {
        self.loaded_count
    }

    /// Bytes of memory of the batch with this base, if it was read back and is there.
    pub(crate) fn loaded_bytes_of(&self, base: LogIndex) -> Option<usize> {
        let at = self.ring.binary_search_by_key(&base.0, |entry| entry.base).ok()?;
        let entry = &self.ring[at];
        entry.memory.as_ref().filter(|_| entry.is_loaded).map(Memory::capacity)
    }

    /// Bytes of memory of the bookkeeping itself and of spare buffers.
    pub(crate) fn overhead_bytes(&self) -> usize {
        self.ring.capacity() * size_of::<Entry>() + self.spare.heap_bytes()
    }

    /// A batch that is about to be applied; it follows all others. It stays until [`Batches::came`] is called. `committed_at`:
    /// monotonic nanoseconds; 0: before the node started.
    pub(crate) fn push(
        &mut self,
        base: LogIndex,
        len: u32,
        memory: Option<Memory>,
        place: Option<Place>,
        committed_at: u64,
    ) {
        debug_assert!(self.ring.back().is_none_or(|last| last.base + u64::from(last.len) <= base.0));
        self.resident += memory.as_ref().map_or(0, Memory::capacity);
        self.ring.push_back(Entry {
            base: base.0,
            len,
            live: APPLYING,
            memory,
            place,
            committed_at,
            is_loaded: false,
        });
    }

    /// The batch was applied and brought `live` messages, of which some may have left already.
    pub(crate) fn came(&mut self, base: LogIndex, live: u32, spare_max: usize) {
        let at = self.position(base.0).expect("a batch stays until it is applied");
        self.ring[at].live += live;
        self.leave(at, APPLYING, spare_max);
    }

    /// Counts one live message, at recovery. False: no batch holds it.
    pub(crate) fn count_one(&mut self, place: LogIndex) -> bool {
        let at = self.position(place.0);
        if let Some(at) = at {
            self.ring[at].live += 1;
        }
        at.is_some()
    }

    /// Recovery is over: all live messages are counted, batches without any are forgotten.
    pub(crate) fn settle_counts(&mut self) {
        for entry in &mut self.ring {
            entry.live -= APPLYING;
        }
        self.sweep();
        self.ring.shrink_to_fit();
    }

    /// Takes out the dead entries.
    #[cold]
    #[inline(never)]
    fn sweep(&mut self) {
        self.ring.retain(|entry| entry.live > 0);
        self.dead = 0;
        self.hint = 0;
    }

    /// The place of a batch that was applied before it was written is known now. Where memory is full, its own can go only
    /// from here on.
    pub(crate) fn placed(&mut self, base: LogIndex, place: Place, resident_max: usize, spare_max: usize) {
        let Some(at) = self.position(base.0) else { return };
        let entry = &mut self.ring[at];
        entry.place = Some(place);
        if self.resident > resident_max
            && let Some(memory) = entry.memory.take()
        {
            self.resident -= memory.capacity();
            self.spare.put(memory, spare_max);
        }
    }

    /// Drops the memory of the newest batch, if its place is known, because memory is full.
    pub(crate) fn evict_newest(&mut self, resident_max: usize) {
        while self.resident > resident_max
            && let Some(entry) = self.ring.back_mut()
            && entry.place.is_some()
            && let Some(memory) = entry.memory.take()
        {
            self.resident -= memory.capacity();
        }
    }

    /// Drops the memory of the oldest batches whose place is known, because memory is full: where what came last is mostly
    /// handed out first.
    #[cold]
    #[inline(never)]
    pub(crate) fn evict_oldest(&mut self, resident_max: usize, spare_max: usize) {
        let mut at = self.ring.partition_point(|entry| entry.base < self.evicted_below);
        while self.resident > resident_max
            && let Some(entry) = self.ring.get_mut(at)
            && entry.place.is_some()
        {
            self.evicted_below = entry.base + 1;
            at += 1;
            if !entry.is_loaded
                && let Some(memory) = entry.memory.take()
            {
                self.resident -= memory.capacity();
                self.spare.put(memory, spare_max);
            }
        }
    }

    /// More memory is held than this.
    #[inline]
    pub(crate) fn is_over(&self, resident_max: usize) -> bool {
        self.resident > resident_max
    }

    /// A batch was read back; false: nobody needs it any more.
    pub(crate) fn loaded(&mut self, base: LogIndex, memory: Memory) -> bool {
        let is_awaited = |entry: &Entry| entry.live > 0 && entry.memory.is_none();
        let Some(at) = self.position(base.0).filter(|at| is_awaited(&self.ring[*at])) else { return false };
        self.resident += memory.capacity();
        self.loaded_bytes += memory.capacity();
        self.loaded_count += 1;
        self.ring[at].memory = Some(memory);
        self.ring[at].is_loaded = true;
        true
    }

    /// Drops the memory of a batch that was read back.
    pub(crate) fn unload(&mut self, base: LogIndex, spare_max: usize) {
        if let Some(at) = self.position(base.0)
            && std::mem::take(&mut self.ring[at].is_loaded)
            && let Some(memory) = self.ring[at].memory.take()
        {
            self.unloaded(memory.capacity());
            self.resident -= memory.capacity();
            self.spare.put(memory, spare_max);
        }
    }

    /// Memory of a batch that was read back goes.
    #[cold]
    #[inline(never)]
    fn unloaded(&mut self, bytes: usize) {
        self.loaded_bytes -= bytes;
        self.loaded_count -= 1;
    }

    #[inline]
    fn holds(&self, at: usize, index: u64) -> bool {
        self.ring.get(at).is_some_and(|entry| index.wrapping_sub(entry.base) < u64::from(entry.len))
    }

    #[inline]
    fn position(&mut self, index: u64) -> Option<usize> {
        if self.holds(self.hint, index) {
            return Some(self.hint);
        }
        if self.holds(self.hint + 1, index) {
            self.hint += 1;
            return Some(self.hint);
        }
        let after = self.ring.partition_point(|entry| entry.base <= index);
        let at = after.checked_sub(1)?;
        self.holds(at, index).then(|| {
            self.hint = at;
            at
        })
    }

    /// Where the record at `index` is. Panics when no live batch holds it: a queue's index never names such a place, and a
    /// log of which one does after recovery is stopped.
    #[inline]
    pub(crate) fn find(&mut self, index: LogIndex) -> Found<'_> {
        let at = self.position(index.0).expect("a live message lies in a live batch");
        let entry = &self.ring[at];
        match &entry.memory {
            Some(memory) => Found::Resident(memory, (index.0 - entry.base) as u32, entry.len),
            None => Found::Away(LogIndex(entry.base), entry.place.expect("what is not in memory is on disk")),
        }
    }

    /// The records from `index` on, where its batch is in memory.
    pub(crate) fn peek(&self, index: LogIndex) -> Option<&[u8]> {
        let at = self.ring.partition_point(|entry| entry.base <= index.0).checked_sub(1)?;
        let entry = &self.ring[at];
        entry.memory.as_ref()?.get((index.0 - entry.base) as usize..entry.len as usize)
    }

    /// When the batch was committed that [`Batches::find`] found last, monotonic nanoseconds; 0: before the node started.
    #[inline]
    pub(crate) fn found_committed_at(&self) -> u64 {
        self.ring[self.hint].committed_at
    }

    /// Messages at `places` have left. Batches that held nothing else are forgotten.
    #[inline]
    pub(crate) fn left(&mut self, places: &[LogIndex], spare_max: usize) {
        let mut places = places.iter().peekable();
        while let Some(place) = places.next() {
            let Some(at) = self.position(place.0) else { continue };
            let mut count = 1;
            while places.next_if(|next| self.holds(at, next.0)).is_some() {
                count += 1;
            }
            self.leave(at, count, spare_max);
        }
    }

    fn leave(&mut self, at: usize, count: u32, spare_max: usize) {
        let entry = &mut self.ring[at];
        debug_assert!(entry.live >= count, "more left than came");
        let was_live = entry.live > 0;
        entry.live = entry.live.saturating_sub(count);
        if entry.live > 0 || !was_live {
            return;
        }
        self.dead += 1;
        let is_loaded = entry.is_loaded;
        if let Some(memory) = entry.memory.take() {
            self.resident -= memory.capacity();
            if is_loaded {
                self.unloaded(memory.capacity());
            }
            self.spare.put(memory, spare_max);
        }
        while self.ring.front().is_some_and(|entry| entry.live == 0) {
            self.ring.pop_front();
            self.dead -= 1;
            self.hint = self.hint.saturating_sub(1);
        }
        // As many have died since the last time as are gone through now.
        if self.dead >= DEAD_MIN && self.dead > self.ring.len() / 2 {
            self.sweep();
        }
    }

    /// Forgets all batches that begin before `end`: what they still held lives in segments now.
    pub(crate) fn forget_below(&mut self, end: LogIndex) {
        while let Some(entry) = self.ring.front()
            && entry.base < end.0
        {
            let is_loaded = entry.is_loaded;
            self.dead -= usize::from(entry.live == 0);
            if let Some(bytes) = entry.memory.as_ref().map(Memory::capacity) {
                self.resident -= bytes;
                if is_loaded {
                    self.unloaded(bytes);
                }
            }
            self.ring.pop_front();
        }
        self.hint = 0;
        if self.ring.is_empty() {
            self.ring.shrink_to(64);
        }
    }

    /// A bound no later than `bound` with at most `messages_max` live messages before it, unless a single batch has more,
    /// none in a batch whose place is not known yet, and none in a batch that ends behind it: the journal's files may end at what
    /// was taken back, and a larger batch came in its place.
    pub(crate) fn bound_within(&self, bound: LogIndex, messages_max: u64) -> LogIndex {
        let mut messages = 0;
        for entry in self.ring.iter().take_while(|entry| entry.base < bound.0) {
            let is_unplaced = entry.live > 0 && entry.place.is_none();
            let is_cut = entry.base + u64::from(entry.len) > bound.0;
            if is_unplaced || is_cut || (messages > 0 && messages + u64::from(entry.live) > messages_max) {
                return LogIndex(entry.base);
            }
            messages += u64::from(entry.live);
        }
        bound
    }

    /// The bases and places of the live batches before `end`, oldest first.
    pub(crate) fn places_below(&self, end: LogIndex) -> Vec<(LogIndex, Place)> {
        let before = self.ring.iter().filter(|entry| entry.base < end.0 && entry.live > 0);
        before.filter_map(|entry| Some((LogIndex(entry.base), entry.place?))).collect()
    }
}
