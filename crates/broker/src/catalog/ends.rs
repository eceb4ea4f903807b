//! The bindings that end at one destination: what must be undone when it goes, and what is already bound.
//!
//! Every shard keeps this for every queue: a pointer to the binding where there is one, which is nearly always, a vector
//! while there are few, and a set beyond, so that binding the next of a hundred thousand costs as much as the second.

use super::definition::Binding;
use base::hash::SetByBytes;
use routing::ExchangeId;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Bindings up to which they are searched one by one.
const FEW_MAX: usize = 32;

/// Bindings that are looked at in the time in which one is removed by its hash.
const LOOKED_AT: usize = 8;

/// A binding that equals another when source, destination, key and arguments do.
#[derive(Clone, Debug)]
pub(super) struct Same(Arc<Binding>);

impl PartialEq for Same {
    fn eq(&self, other: &Same) -> bool {
        is_same(&self.0, &other.0)
    }
}

impl Eq for Same {}

impl Hash for Same {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.source.hash(state);
        self.0.key.hash(state);
        // Headers exchanges have one key and tell their bindings apart by arguments alone.
        self.0.arguments.hash(state);
    }
}

fn is_same(a: &Binding, b: &Binding) -> bool {
    a.source == b.source && a.destination == b.destination && a.key == b.key && a.arguments == b.arguments
}

#[derive(Clone, Debug, Default)]
pub(super) enum Ends {
    #[default]
    None,
    One(Arc<Binding>),
    /// Two or more. Boxed, so that an entry without has no room for it.
    #[allow(clippy::box_collection)]
    Few(Box<Vec<Arc<Binding>>>),
    Many(Box<SetByBytes<Same>>),
}

impl Ends {
    /// The binding that is the same as this one.
    pub(super) fn find(&self, binding: &Arc<Binding>) -> Option<&Arc<Binding>> {
        match self {
            Ends::Many(many) => many.get(&Same(binding.clone())).map(|same| &same.0),
            few => few.few().iter().find(|own| is_same(own, binding)),
        }
    }

    /// The bindings, while there are few.
    fn few(&self) -> &[Arc<Binding>] {
        match self {
            Ends::One(only) => std::slice::from_ref(only),
            Ends::Few(few) => few,
            Ends::None | Ends::Many(_) => &[],
        }
    }

    /// Adds a binding; false if it was there.
    pub(super) fn insert(&mut self, binding: Arc<Binding>) -> bool {
        if self.find(&binding).is_some() {
            return false;
        }
        *self = match std::mem::take(self) {
            Ends::None => Ends::One(binding),
            Ends::One(only) => Ends::Few(Box::new(vec![only, binding])),
            Ends::Few(few) if few.len() == FEW_MAX => {
                Ends::Many(Box::new(few.into_iter().chain([binding]).map(Same).collect()))
            }
            Ends::Few(mut few) => {
                few.push(binding);
                Ends::Few(few)
            }
            Ends::Many(mut many) => {
                many.insert(Same(binding));
                Ends::Many(many)
            }
        };
        true
    }

    /// Removes a binding; false if it was not there.
    pub(super) fn remove(&mut self, binding: &Arc<Binding>) -> bool {
        let was_there = match self {
            Ends::None => false,
            Ends::One(only) => is_same(only, binding),
            Ends::Few(few) => match few.iter().position(|own| is_same(own, binding)) {
                Some(at) => {
                    few.remove(at);
                    true
                }
                None => false,
            },
            Ends::Many(many) => many.remove(&Same(binding.clone())),
        };
        let is_empty = match self {
            Ends::None => false,
            Ends::One(_) => was_there,
            Ends::Few(few) => few.is_empty(),
            Ends::Many(many) => many.is_empty(),
        };
        if is_empty {
            *self = Ends::None;
        }
        was_there
    }

    /// Removes the bindings from a source, `count` of them, by looking at all there are; false: those are so many more that
    /// the caller is better off removing each by itself, and nothing was done.
    pub(super) fn remove_of(&mut self, source: ExchangeId, count: usize) -> bool {
        if count.saturating_mul(LOOKED_AT) < self.len() {
            return false;
        }
        let is_empty = match self {
            Ends::None => true,
            Ends::One(only) => only.source == source,
            Ends::Few(few) => {
                few.retain(|binding| binding.source != source);
                few.is_empty()
            }
            Ends::Many(many) => {
                many.retain(|Same(binding)| binding.source != source);
                many.is_empty()
            }
        };
        if is_empty {
            *self = Ends::None;
        }
        true
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Ends::Many(many) => many.len(),
            few => few.few().len(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Binding>> {
        let many = if let Ends::Many(many) = self { Some(many) } else { None };
        self.few().iter().chain(many.into_iter().flat_map(|many| many.iter().map(|same| &same.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Destination;
    use base::id::QueueId;

    fn binding(key: usize) -> Arc<Binding> {
        Arc::new(Binding {
            source: ExchangeId(1),
            destination: Destination::Queue(QueueId(1)),
            key: key.to_string().into(),
            arguments: Default::default(),
            durable: true,
        })
    }

    #[test]
    fn bindings_come_and_go_whatever_they_are_kept_in() {
        let mut ends = Ends::default();
        let most = 2 * FEW_MAX;
        for n in 0..most {
            assert_eq!((ends.len(), ends.find(&binding(n)).is_some()), (n, false));
            assert!(ends.insert(binding(n)) && !ends.insert(binding(n)) && !ends.insert(binding(n / 2)));
            assert_eq!((ends.len(), ends.iter().count()), (n + 1, n + 1));
        }
        for n in 0..most {
            assert!(
                ends.find(&binding(n)).is_some() && ends.remove(&binding(n)) && !ends.remove(&binding(n))
            );
            assert_eq!((ends.len(), ends.iter().count()), (most - n - 1, most - n - 1));
        }
        assert!(matches!(ends, Ends::None));
    }

    /// One of 1 to so many of each source goes; of a source with few among many nothing goes, and the caller is told.
    #[test]
    fn the_bindings_of_a_source_go_together() {
        let of = |source, key: usize| {
            let (source, destination) = (ExchangeId(source), Destination::Queue(QueueId(1)));
            let (key, arguments) = (key.to_string().into(), Default::default());
            Arc::new(Binding { source, destination, key, arguments, durable: true })
        };
        for total in [0, 1, 2, FEW_MAX, FEW_MAX + 1, 4 * FEW_MAX] {
            let mut ends = Ends::default();
            for key in 0..total {
                assert!(ends.insert(of(key as u64 % 2, key)));
            }
            for source in [0, 1] {
                let count = ends.iter().filter(|binding| binding.source == ExchangeId(source)).count();
                let before = ends.len();
                assert!(ends.remove_of(ExchangeId(source), count));
                assert_eq!((ends.len(), ends.iter().count()), (before - count, before - count));
                assert!(ends.iter().all(|binding| binding.source != ExchangeId(source)));
            }
            assert!(matches!(ends, Ends::None));
        }
        let mut ends = Ends::default();
        (0..4 * FEW_MAX).for_each(|key| _ = ends.insert(of(u64::from(key == 7), key)));
        assert!(!ends.remove_of(ExchangeId(1), 1) && ends.len() == 4 * FEW_MAX);
    }

    #[test]
    fn a_queue_without_bindings_costs_little() {
        assert_eq!(size_of::<Ends>(), 2 * size_of::<usize>());
    }
}
