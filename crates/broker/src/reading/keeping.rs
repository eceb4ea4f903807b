//! Batches, blocks and stretches that were read back and are kept for a while: the next deliveries mostly lie beside
//! them.
//!
//! Oldest first out, at most [`Limits::loaded_bytes_max`]. A queue whose messages have priorities is gone through from the
//! front to the end once for each of them: there the bytes right behind its position go first, as they are needed last,
//! and more may be kept ([`Limits::loaded_for_passes_bytes_max`]). Oldest first would keep nothing of use: the bytes
//! in front are always the oldest when their turn comes again. As much may be kept where consumers choose, who are at
//! different places. What was read to ask messages is needed once: it goes as more of it comes, and drives out nothing.
//! Not here: the batches themselves, which are where all batches are ([`crate::batches`]).
//! Invariant: all that is kept is named once, in `order` or in `passing`; batches that are named there may have left.

use super::{
    BlockKey, Name, OF_A_STREAM, OF_NO_SEGMENT, READS_OF_QUEUE_MAX, ReadBytes, ReadWhat, StretchKey,
};
use crate::batches::Batches;
use crate::limits::Limits;
use base::Memory;
use base::hash::MapById;
use base::id::LogIndex;
use journal::SegmentBlock;
use std::collections::{BTreeMap, VecDeque};

/// Names of batches that have left which are put up with, however few others there are.
const GONE_MIN: usize = 64;

/// The choice of what goes when something comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// The oldest goes.
    Oldest,
    /// The oldest goes, and more may be kept.
    More,
    /// The bytes right behind the queue's place go, and more may be kept.
    ByPlace,
    /// Only others that came this way go.
    Passing,
}

/// The bytes of a log that were read back. See the module.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    blocks: MapById<Name, SegmentBlock>,
    /// Stretches of streams' segments.
    stretches: BTreeMap<Name, Memory>,
    /// Bytes of memory of both.
    block_bytes: usize,
    /// Oldest first.
    order: VecDeque<Name>,
    /// Of those that are needed once, oldest first.
    passing: VecDeque<Name>,
}

impl Loaded {
    /// Bytes of blocks and stretches held; batches are counted where they are.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    #[inline]
    pub(crate) fn block(&self, key: BlockKey) -> Option<&SegmentBlock> {
        self.blocks.get(&key.name()).filter(|block| *block.place() == key.place)
    }

    /// Memory that begins with a message of a stream's segment, if one that was read holds it.
    pub(crate) fn stretch(&self, key: StretchKey) -> Option<(Memory, usize)> {
        let (segment, position) = key.name();
        let ((_, begins), memory) = self.stretches.range((segment, 0)..=(segment, position)).next_back()?;
        let at = usize::try_from(position - begins).ok()?;
        // A message that was read along may not have been written yet then: it is read anew, for itself.
        key.is_in(memory.get(at..)?).then(|| (memory.clone(), at))
    }

    /// Bytes of memory of the batch, block or stretch of this name, if it is there.
    fn bytes_of(&self, batches: &Batches, name: Name) -> Option<usize> {
        match name {
            (OF_NO_SEGMENT, base) => batches.loaded_bytes_of(LogIndex(base)),
            (segment, _) if segment & OF_A_STREAM != 0 => self.stretches.get(&name).map(Memory::capacity),
            _ => self.blocks.get(&name).map(|block| block.memory().capacity()),
        }
    }

    /// All bytes of memory that are kept.
    pub(super) fn bytes(&self, batches: &Batches) -> usize {
        self.block_bytes + batches.loaded_bytes()
    }

    /// Takes in the bytes of a read, and drops others for them.
    pub(super) fn keep(
        &mut self,
        batches: &mut Batches,
        (what, brought): (ReadWhat, ReadBytes),
        keeping: Keeping,
        limits: &Limits,
    ) {
        let name = what.name();
        if self.take_in(batches, what, brought) {
            match keeping {
                Keeping::Passing => self.passing.push_back(name),
                _ => self.order.push_back(name),
            }
            let named = self.order.len() + self.passing.len();
            if named > GONE_MIN + 2 * (self.blocks.len() + self.stretches.len() + batches.loaded_count()) {
                self.forget_gone(batches);
            }
        }
        match keeping {
            Keeping::Oldest => self.drop_oldest(batches, name, limits.loaded_bytes_max, limits),
            Keeping::More => self.drop_oldest(batches, name, limits.loaded_for_passes_bytes_max, limits),
            Keeping::ByPlace if self.bytes(batches) > limits.loaded_for_passes_bytes_max => {
                self.drop_needed_last(batches, name, limits);
            }
            Keeping::ByPlace => {}
            Keeping::Passing => self.drop_passing(batches, name, limits),
        }
    }

    /// True: it was not there.
    fn take_in(&mut self, batches: &mut Batches, what: ReadWhat, brought: ReadBytes) -> bool {
        match (what, brought) {
            (ReadWhat::Batch { base, .. }, ReadBytes::Batch(memory)) => {
                if !batches.loaded(base, memory) {
                    return false;
                }
            }
            (ReadWhat::Block(key), ReadBytes::Block(block)) => {
                self.block_bytes += block.memory().capacity();
                if let Some(before) = self.blocks.insert(key.name(), block) {
                    self.block_bytes -= before.memory().capacity();
                    return false;
                }
            }
            (ReadWhat::Stretch(key), ReadBytes::Stretch(memory)) => {
                self.block_bytes += memory.capacity();
                if let Some(before) = self.stretches.insert(key.name(), memory) {
                    self.block_bytes -= before.capacity();
                    return false;
                }
            }
            _ => panic!("a read brings what was asked for"),
        }
        true
    }

    /// Forgets the names of batches that have left.
    fn forget_gone(&mut self, batches: &Batches) {
        let mut order = std::mem::take(&mut self.order);
        order.retain(|name| self.bytes_of(batches, *name).is_some());
        self.order = order;
        let mut passing = std::mem::take(&mut self.passing);
        passing.retain(|name| self.bytes_of(batches, *name).is_some());
        self.passing = passing;
    }

    /// Drops the batch, block or stretch of this name, if it is there; its memory may be read into again.
    fn drop_one(&mut self, batches: &mut Batches, name: Name, spare_max: usize) {
        if let (OF_NO_SEGMENT, base) = name {
            batches.unload(LogIndex(base), spare_max);
        } else if let Some(memory) = self.stretches.remove(&name) {
            self.block_bytes -= memory.capacity();
            batches.spare.put(memory, spare_max);
        } else if let Some(block) = self.blocks.remove(&name) {
            self.block_bytes -= block.memory().capacity();
            batches.spare.put(block.into_memory(), spare_max);
        }
    }

    /// Drops the oldest until there are no more than `most` bytes, but not `read`.
    fn drop_oldest(&mut self, batches: &mut Batches, read: Name, most: usize, limits: &Limits) {
        while self.bytes(batches) > most
            && let Some(at) = self.order.iter().position(|name| *name != read)
            && let Some(name) = self.order.remove(at)
        {
            self.drop_one(batches, name, limits.spare_buffers_max);
        }
    }

    /// Drops the oldest of what is needed once until there is no more of it than is read ahead, but not `read`.
    #[cold]
    #[inline(never)]
    fn drop_passing(&mut self, batches: &mut Batches, read: Name, limits: &Limits) {
        let most = (limits.loaded_bytes_max / 2).min(2 * READS_OF_QUEUE_MAX as usize * limits.read_bytes_max);
        let bytes_of = |name: &Name| self.bytes_of(batches, *name).unwrap_or(0);
        let mut bytes: usize = self.passing.iter().map(bytes_of).sum();
        while bytes > most
            && let Some(name) = self.passing.pop_front_if(|name| *name != read)
        {
            bytes -= self.bytes_of(batches, name).unwrap_or(0);
            self.drop_one(batches, name, limits.spare_buffers_max);
        }
    }

    /// Nobody asks messages any more: what is kept of those goes before all others.
    pub(super) fn ends_passing(&mut self) {
        while let Some(name) = self.passing.pop_back() {
            self.order.push_front(name);
        }
    }

    /// Drops the batches, blocks and stretches needed last until there is room for some more, but not `read`, which is
    /// where the queue is: it goes on from there to the end, and begins again at the front.
    #[cold]
    #[inline(never)]
    fn drop_needed_last(&mut self, batches: &mut Batches, read: Name, limits: &Limits) {
        let most = limits.loaded_for_passes_bytes_max;
        let there = |name: &Name| Some((*name, self.bytes_of(batches, *name)?));
        let mut all: Vec<(Name, usize)> = self.order.iter().filter_map(there).collect();
        all.sort_unstable();
        let (passed, ahead) = all.split_at(all.partition_point(|(name, _)| *name < read));
        // Reads may come back in another order than they were asked for.
        let mut recent_bytes = 0;
        let mut is_recent = |(_, bytes): &&(Name, usize)| {
            recent_bytes += bytes;
            recent_bytes <= READS_OF_QUEUE_MAX as usize * limits.read_bytes_max
        };
        let recent = passed.iter().rev().take_while(&mut is_recent).count();
        let (passed, recent) = passed.split_at(passed.len() - recent);
        let needed_last = passed.iter().rev().chain(ahead.iter().rev()).chain(recent);
        for (name, _) in needed_last.filter(|(name, _)| *name != read) {
            // So that not every read has to look through all of it.
            if self.bytes(batches) <= most - most / 16 {
                break;
            }
            self.drop_one(batches, *name, limits.spare_buffers_max);
        }
        self.forget_gone(batches);
    }
}
