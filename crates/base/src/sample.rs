//! The sum of many things from some of them, for callers that must not look at them all.

use crate::random::Random;

/// Things up to which each is looked at.
pub const ALL_MAX: usize = 1024;

/// The sum of the weights that `weigh` gives `things`, of which there are `count`: of more than [`ALL_MAX`] about as
/// many are weighed, and stand for the others. Which ones is drawn, so that a property that comes in turns is met in
/// all its turns; of the same things they are the same.
pub fn sum_of<T>(count: usize, mut things: impl Iterator<Item = T>, weigh: impl Fn(T) -> usize) -> usize {
    if count <= ALL_MAX {
        return things.map(weigh).sum();
    }
    let mut random = Random::new(count as u64);
    let step = count.div_ceil(ALL_MAX) as u64;
    let (mut weighed, mut sum) = (0, 0);
    // Between two of them are from none to twice as many as there are on average.
    while let Some(thing) = things.nth(random.below(2 * step - 1) as usize) {
        (weighed, sum) = (weighed + 1, sum + weigh(thing));
    }
    // As wide as it gets: a sum of bytes times a number of things.
    (sum as u128 * count as u128 / weighed.max(1)) as usize
}

#[cfg(test)]
mod tests {
    use super::{ALL_MAX, sum_of};
    use std::cell::Cell;

    #[test]
    fn few_are_weighed_each_and_many_by_some() {
        // All alike, and such that come in turns.
        for turns in [1, 2, 3, 98, 196] {
            for count in [0, 1, 2, ALL_MAX, ALL_MAX + 1, 100_000, 100_352] {
                let looked_at = Cell::new(0);
                let weigh = |at: usize| if at.is_multiple_of(turns) { 100 } else { 10 };
                let sum = sum_of(count, 0..count, |at| {
                    looked_at.set(looked_at.get() + 1);
                    weigh(at)
                });
                let exact: usize = (0..count).map(weigh).sum();
                let off = sum.abs_diff(exact) * 100 / exact.max(1);
                let off_max = if count > ALL_MAX { 10 } else { 0 };
                assert!(off <= off_max, "{count} by {turns}: {sum}, not {exact}");
                assert!(looked_at.get() <= ALL_MAX * 5 / 4, "{count}: {}", looked_at.get());
            }
        }
    }
}
