//! Many positions settled together, a block of 64 at a time.
//!
//! Where priorities take turns, positions that are settled together are one here and one there. Each by itself costs as
//! much as thousands that follow on each other; those of a block cost little more than one.

use crate::priority_blocks::{BLOCK, Block, block_of};
use crate::ranges::numbers;
use base::ranges::Range;
use message::record::SeqRange;

/// Some of the positions.
pub(crate) enum Some64 {
    /// Those that follow on each other.
    Range(Range),
    /// These of the block that begins there.
    Bits(u64, u64),
}

impl Some64 {
    fn of_block(block: u64, bits: u64) -> Some64 {
        let run = Block::run_of(block, bits);
        if run.len() == u64::from(bits.count_ones()) { Some64::Range(run) } else { Some64::Bits(block, bits) }
    }
}

/// Tells `each` of `ranges`, positions of one block together. Those that run backwards or name no position are passed
/// over.
pub(crate) fn by_block(ranges: impl Iterator<Item = SeqRange>, mut each: impl FnMut(Some64)) {
    let (mut block, mut bits) = (0, 0);
    for range in ranges.filter_map(numbers) {
        let of = block_of(range.first);
        let is_within = range.last - of < BLOCK;
        if bits != 0 && (of != block || !is_within) {
            each(Some64::of_block(block, std::mem::take(&mut bits)));
        }
        if is_within {
            block = of;
            bits |= Block::bits_within(of, range);
        } else {
            each(Some64::Range(range));
        }
    }
    if bits != 0 {
        each(Some64::of_block(block, bits));
    }
}
