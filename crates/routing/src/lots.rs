//! Destinations of which each message gets one: by its key, or by lot.
//!
//! Every binding is a lot of its own, so that a destination that is bound twice is drawn twice as often. Routing and
//! unbinding cost time in proportion to the logarithm of how many destinations there are, and so does binding but for the
//! first binding of an older destination, which moves those that are younger.

use crate::arguments::Arguments;
use crate::keyed::Keyed;
use crate::matches::Destination;
use crate::weights::Weights;
use std::sync::Arc;

/// Destinations without a lot that are kept whatever the others: taking them out moves all.
const EMPTY_MIN: usize = 32;

#[derive(Clone, Debug, Default)]
pub(crate) struct Lots {
    keyed: Keyed,
    /// Exchanges, then queues, the oldest first, with how many lots each has. Some have none left.
    owners: Vec<(Destination, u32)>,
    /// The lots of `owners`.
    weights: Weights,
    /// Owners without a lot.
    empty: usize,
}

/// Exchanges come before queues.
fn order(destination: &Destination) -> (bool, u64) {
    match destination {
        Destination::Exchange(id) => (false, id.0),
        Destination::Queue(id) => (true, id.0),
    }
}

impl Lots {
    pub(crate) fn keyed(&self) -> &Keyed {
        &self.keyed
    }

    /// The one a number falls on, by the remainder of its division.
    pub(crate) fn by_remainder(&self, number: u32) -> Option<Destination> {
        let len = u32::try_from(self.weights.total()).unwrap_or(u32::MAX);
        self.lot(number.checked_rem(len)?.into())
    }

    /// The one a roll of 64 random bits falls on.
    pub(crate) fn by_roll(&self, roll: u64) -> Option<Destination> {
        self.lot(((u128::from(roll) * u128::from(self.weights.total())) >> 64) as u64)
    }

    fn lot(&self, number: u64) -> Option<Destination> {
        Some(self.owners[self.weights.find(number)?].0)
    }

    pub(crate) fn bind(&mut self, key: Arc<[u8]>, arguments: Arguments, destination: Destination) -> bool {
        let is_new = self.keyed.bind(key, arguments, destination);
        if is_new {
            let at = self.place(destination);
            match self.owners.get_mut(at) {
                Some((own, lots)) if *own == destination => {
                    self.empty -= usize::from(*lots == 0);
                    *lots += 1;
                    self.weights.add(at, 1);
                }
                Some(_) => {
                    self.owners.insert(at, (destination, 1));
                    self.weights = self.owners.iter().map(|(_, lots)| u64::from(*lots)).collect();
                }
                None => {
                    self.owners.push((destination, 1));
                    self.weights.push(1);
                }
            }
        }
        is_new
    }

    pub(crate) fn unbind(&mut self, key: &[u8], arguments: &Arguments, destination: Destination) -> bool {
        let existed = self.keyed.unbind(key, arguments, destination);
        if existed {
            let at = self.place(destination);
            let (own, lots) = &mut self.owners[at];
            assert!(*own == destination && *lots > 0, "each binding is a lot");
            *lots -= 1;
            self.empty += usize::from(*lots == 0);
            self.weights.take(at, 1);
            if self.empty > EMPTY_MIN.max(self.owners.len() / 2) || self.weights.total() == 0 {
                self.owners.retain(|(_, lots)| *lots > 0);
                self.owners.shrink_to_fit();
                self.weights = self.owners.iter().map(|(_, lots)| u64::from(*lots)).collect();
                self.empty = 0;
            }
        }
        existed
    }

    /// How many bindings a destination has.
    pub(crate) fn bindings_of(&self, destination: Destination) -> u32 {
        let owner = self.owners.get(self.place(destination));
        owner.filter(|(own, _)| *own == destination).map_or(0, |(_, lots)| *lots)
    }

    /// The place of a destination among the owners: where it is, or is to be.
    fn place(&self, destination: Destination) -> usize {
        self.owners.partition_point(|(own, _)| order(own) < order(&destination))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.keyed.heap_bytes()
            + self.owners.capacity() * size_of::<(Destination, u32)>()
            + self.weights.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matches::ExchangeId;
    use base::Random;
    use base::id::QueueId;

    /// Against a list with each lot in it.
    #[test]
    fn lots_fall_as_in_a_list_of_all() {
        let mut dice = Random::new(3);
        let (mut lots, mut model) = (Lots::default(), Vec::new());
        for round in 0..6_000u64 {
            // At first more come than go, then more go.
            let comes = dice.below(10) < if round < 3_000 { 7 } else { 2 };
            let (key, id) = (dice.below(4).to_string(), dice.below(200));
            let destination = match id % 3 {
                0 => Destination::Exchange(ExchangeId(id)),
                _ => Destination::Queue(QueueId(id)),
            };
            let lot = (order(&destination), key.clone(), destination);
            let known = model.binary_search(&lot);
            if comes {
                let is_new = lots.bind(key.as_bytes().into(), Arguments::new(), destination);
                assert_eq!(is_new, known.is_err());
                if let Err(at) = known {
                    model.insert(at, lot);
                }
            } else {
                let existed = lots.unbind(key.as_bytes(), &Arguments::new(), destination);
                assert_eq!(existed, known.is_ok());
                if let Ok(at) = known {
                    model.remove(at);
                }
            }
            let len = model.len();
            let number = dice.bits() as u32;
            let expected = (len > 0).then(|| model[number as usize % len].2);
            assert_eq!(lots.by_remainder(number), expected);
            let roll = dice.bits();
            let at = ((u128::from(roll) * len as u128) >> 64) as usize;
            assert_eq!(lots.by_roll(roll), model.get(at).map(|lot| lot.2));
            assert!(lots.owners.len() <= 2 * len + EMPTY_MIN + 1, "{} for {len}", lots.owners.len());
        }
    }
}
