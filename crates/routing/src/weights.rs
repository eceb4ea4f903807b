//! Weights of places in a row, and the place that a number falls into: a binary indexed tree (Fenwick, 1994).
//!
//! Changing a weight, adding a place and finding one cost time in proportion to the logarithm of how many there are.

#[derive(Clone, Debug, Default)]
pub(crate) struct Weights {
    /// As the places are counted from 1: the sum of as many weights, up to this place, as the lowest bit of its number
    /// says.
    sums: Vec<u64>,
    total: u64,
}

/// The lowest bit of a number.
fn low(number: usize) -> usize {
    number & number.wrapping_neg()
}

impl Weights {
    /// The sum of all.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Adds a place at the end.
    pub(crate) fn push(&mut self, weight: u64) {
        let number = self.sums.len() + 1;
        let mut sum = weight;
        let mut below = number - 1;
        while below > number - low(number) {
            sum += self.sums[below - 1];
            below -= low(below);
        }
        self.sums.push(sum);
        self.total += weight;
    }

    /// Gives the place `at` more weight.
    pub(crate) fn add(&mut self, at: usize, weight: u64) {
        self.total += weight;
        self.each_over(at, |sum| *sum += weight);
    }

    /// Takes weight, which it has, from the place `at`.
    pub(crate) fn take(&mut self, at: usize, weight: u64) {
        self.total -= weight;
        self.each_over(at, |sum| *sum -= weight);
    }

    fn each_over(&mut self, at: usize, change: impl Fn(&mut u64)) {
        let mut number = at + 1;
        while number <= self.sums.len() {
            change(&mut self.sums[number - 1]);
            number += low(number);
        }
    }

    /// The place that `number` falls into, where each is as wide as it weighs; `None`: it is beyond all of them.
    pub(crate) fn find(&self, number: u64) -> Option<usize> {
        if number >= self.total {
            return None;
        }
        let (mut at, mut left) = (0, number);
        let mut step = self.sums.len().checked_ilog2().map_or(0, |bits| 1 << bits);
        while step > 0 {
            if at + step <= self.sums.len() && self.sums[at + step - 1] <= left {
                left -= self.sums[at + step - 1];
                at += step;
            }
            step /= 2;
        }
        Some(at)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.sums.capacity() * size_of::<u64>()
    }
}

impl FromIterator<u64> for Weights {
    fn from_iter<T: IntoIterator<Item = u64>>(weights: T) -> Weights {
        let weights = weights.into_iter();
        let mut all = Weights { sums: Vec::with_capacity(weights.size_hint().0), total: 0 };
        weights.for_each(|weight| all.push(weight));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Random;

    #[test]
    fn numbers_fall_where_a_walk_finds_them() {
        let mut dice = Random::new(5);
        let (mut weights, mut model) = (Weights::default(), Vec::<u64>::new());
        for _ in 0..3_000 {
            match dice.below(4) {
                0 | 1 => {
                    let weight = dice.below(4);
                    weights.push(weight);
                    model.push(weight);
                }
                _ if model.is_empty() => {}
                2 => {
                    let (at, more) = (dice.below(model.len() as u64) as usize, dice.below(9));
                    weights.add(at, more);
                    model[at] += more;
                }
                _ => {
                    let at = dice.below(model.len() as u64) as usize;
                    weights.take(at, std::mem::take(&mut model[at]));
                }
            }
            assert_eq!(weights.total(), model.iter().sum::<u64>());
            let number = dice.below(weights.total() + 2);
            let mut end = 0;
            let walked = model.iter().position(|weight| {
                end += weight;
                number < end
            });
            assert_eq!(weights.find(number), walked, "{number} of {model:?}");
        }
        assert_eq!(Weights::default().find(0), None);
        assert_eq!([3, 0, 2].into_iter().collect::<Weights>().find(3), Some(2));
    }
}
