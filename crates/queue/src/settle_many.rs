//! Many positions settled together, a block of 64 at a time.
//!
//! Where priorities take turns, what is settled together is one position here and one there. Each by itself costs as much as
//! thousands that follow on each other; those of a block cost little more than one.
//! What this does is what [`Fifo::settled`], or a command to settle, does with each range by itself.

use crate::command::{Command, ConsumerId};
use crate::effect::Effects;
use crate::features::Features;
use crate::fifo::Fifo;
use crate::line::Line;
use crate::priority_blocks::{BLOCK, Block, block_of};
use crate::ranges::{numbers, positions};
use base::ranges::Range;
use message::record::{Kind, Outcome, SeqRange};

/// Some of the positions.
enum Some64 {
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

/// Tells `each` of `ranges`, what is in one block together. Those that run backwards or name what is no position are passed
/// over.
fn by_block(ranges: impl Iterator<Item = SeqRange>, mut each: impl FnMut(Some64)) {
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

impl Fifo {
    /// Each of `ranges` is settled ([`Fifo::settled`]).
    #[cold]
    #[inline(never)]
    pub fn settled_together(&mut self, ranges: impl Iterator<Item = SeqRange>, effects: &mut Effects) {
        by_block(ranges, |some| match some {
            Some64::Range(range) => self.settled(positions(range), effects),
            Some64::Bits(block, bits) => self.settled_bits(block, bits, effects),
        });
    }

    /// `id` accepts each of `ranges`, in the order of positions ([`Command::Settle`](crate::Command::Settle)).
    #[cold]
    #[inline(never)]
    pub fn accept_together(
        &mut self,
        id: ConsumerId,
        ranges: impl Iterator<Item = SeqRange>,
        effects: &mut Effects,
    ) {
        by_block(ranges, |some| match some {
            Some64::Range(range) => {
                let settle =
                    Command::Settle { consumer: id, range: positions(range), outcome: Outcome::Accepted };
                self.apply(settle, effects);
            }
            Some64::Bits(block, bits) => self.accept_bits(id, block, bits, effects),
        });
    }

    fn accept_bits(&mut self, id: ConsumerId, block: u64, bits: u64, effects: &mut Effects) {
        let consumers = self.consumers.as_mut();
        let taken = consumers.map_or(0, |consumers| consumers.let_go_bits(id, block, bits));
        Block::runs_of(block, taken, &mut |run| effects.append(Kind::Settle, Outcome::Accepted, run));
        effects.ignored += u64::from((bits & !taken).count_ones());
    }

    fn settled_bits(&mut self, block: u64, bits: u64, effects: &mut Effects) {
        let of_block = Range { first: block, last: block + (BLOCK - 1) };
        let Some(range) = self.line.live.clip(positions(of_block)) else { return };
        let live = bits & Block::bits_within(block, range) & !self.line.live.settled().bits(block);
        if live == 0 {
            return;
        }
        if !self.leave_together(block, live, effects) {
            return Block::runs_of(block, live, &mut |run| self.settled(positions(run), effects));
        }
        self.line.settle_bits(block, live);
    }

    /// Everything about live positions but their being settled; false, and nothing is done: more is known of messages than
    /// their priorities.
    fn leave_together(&mut self, block: u64, bits: u64, effects: &mut Effects) -> bool {
        let Line { live, ready, returns } = &self.line;
        let knows_more = returns.knows_any() || !ready.returned().is_empty() || !live.transient().is_empty();
        let Some(features) = &mut self.features else { return false };
        if knows_more || !features.knows_levels_alone() {
            return false;
        }
        self.line.ready.show(features.levels.leave_bits(block, bits, self.line.ready.cursor()));
        let ahead = match self.line.ready.cursor().saturating_sub(block) {
            by if by < BLOCK => bits & u64::MAX << by,
            _ => 0,
        };
        self.line.ready.hide(u64::from(ahead.count_ones()));
        self.places.remove_bits(block, bits, &mut effects.left, &mut effects.runs_left);
        true
    }
}

impl Features {
    /// All that is known of a message that leaves is its priority.
    fn knows_levels_alone(&self) -> bool {
        self.sizes.is_empty()
            && self.delays.is_empty()
            && self.dying.is_empty()
            && self.elsewhere.is_empty()
            && self.back_ahead.is_empty()
            && self.deadlines.is_empty()
            && self.annotations.has_none()
            && self.tried.is_empty()
            && self.groups.is_none()
            && self.levels.is_all_mixed()
    }
}
