//! Destinations bound under one key, each once, with the arguments of their bindings.
//!
//! Most keys lead to one destination by one binding without arguments: that costs no heap. Many destinations are
//! indexed, so that deleting one of them costs O(1).

use crate::arguments::Arguments;
use crate::matches::{Destination, Matches};
use crate::variants::Variants;
use base::hash::MapById;
use base::sample::sum_of;

/// From so many destinations on there is an index; well below half of it, it goes again.
const INDEXED_MIN: usize = 32;

/// A destination bound under a key.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    destination: Destination,
    /// The arguments of its bindings; `None`: one binding without arguments.
    variants: Option<Box<Variants>>,
}

/// All destinations bound under a key.
#[derive(Clone, Debug)]
pub(crate) enum Bounds {
    One(Bound),
    Few(Vec<Bound>),
    Many(Box<Many>),
}

#[derive(Clone, Debug)]
pub(crate) struct Many {
    list: Vec<Bound>,
    index: MapById<Destination, u32>,
}

static NO_ARGUMENTS: Arguments = Arguments::new();

impl Bound {
    fn new(destination: Destination, arguments: Arguments) -> Bound {
        let variants = (!arguments.is_empty()).then(|| Box::new(Variants::One(arguments)));
        Bound { destination, variants }
    }

    pub(crate) fn destination(&self) -> Destination {
        self.destination
    }

    /// The arguments of its bindings.
    pub(crate) fn variants(&self) -> impl Iterator<Item = &Arguments> {
        let none = self.variants.is_none().then_some(&NO_ARGUMENTS);
        none.into_iter().chain(self.variants.iter().flat_map(|variants| variants.iter()))
    }

    fn bind(&mut self, arguments: Arguments) -> bool {
        match &mut self.variants {
            None if arguments.is_empty() => false,
            variants => {
                variants.get_or_insert_with(|| Box::new(Variants::One(Arguments::new()))).insert(arguments)
            }
        }
    }

    /// Whether it was bound so; the second: whether it is still bound in another way.
    fn unbind(&mut self, arguments: &Arguments) -> (bool, bool) {
        let Some(variants) = &mut self.variants else {
            return (arguments.is_empty(), !arguments.is_empty());
        };
        let (existed, is_left) = variants.remove(arguments);
        if is_left && variants.only().is_some_and(Arguments::is_empty) {
            self.variants = None;
        }
        (existed, is_left)
    }
}

impl Bounds {
    /// One binding.
    pub(crate) fn new(destination: Destination, arguments: Arguments) -> Bounds {
        Bounds::One(Bound::new(destination, arguments))
    }

    #[inline]
    pub(crate) fn list(&self) -> &[Bound] {
        match self {
            Bounds::One(bound) => std::slice::from_ref(bound),
            Bounds::Few(list) => list,
            Bounds::Many(many) => &many.list,
        }
    }

    /// Each destination is a step.
    #[inline]
    pub(crate) fn route(&self, out: &mut Matches) {
        match self {
            Bounds::One(bound) => {
                if out.take(1) {
                    out.push(bound.destination);
                }
            }
            _ => {
                if out.take(self.list().len()) {
                    out.extend_distinct(self.list().iter().map(|bound| bound.destination));
                }
            }
        }
    }

    /// Whether the binding is new.
    pub(crate) fn bind(&mut self, destination: Destination, arguments: Arguments) -> bool {
        if let Some(bound) = self.find(destination) {
            return bound.bind(arguments);
        }
        let new = Bound::new(destination, arguments);
        match self {
            Bounds::One(first) => {
                *self = Bounds::Few(vec![first.clone(), new]);
            }
            Bounds::Few(list) => {
                list.push(new);
                if list.len() >= INDEXED_MIN {
                    let list = std::mem::take(list);
                    let numbered = list.iter().enumerate();
                    let index = numbered.map(|(at, bound)| (bound.destination, at as u32)).collect();
                    *self = Bounds::Many(Box::new(Many { list, index }));
                }
            }
            Bounds::Many(many) => {
                many.index.insert(destination, many.list.len() as u32);
                many.list.push(new);
            }
        }
        true
    }

    fn find(&mut self, destination: Destination) -> Option<&mut Bound> {
        match self {
            Bounds::One(bound) => Some(bound).filter(|bound| bound.destination == destination),
            Bounds::Few(list) => list.iter_mut().find(|bound| bound.destination == destination),
            Bounds::Many(many) => many.list.get_mut(*many.index.get(&destination)? as usize),
        }
    }

    /// Whether the binding was there; the second: whether any other is left.
    pub(crate) fn unbind(&mut self, destination: Destination, arguments: &Arguments) -> (bool, bool) {
        let Some(bound) = self.find(destination) else { return (false, true) };
        let (existed, is_left) = bound.unbind(arguments);
        if is_left { (existed, true) } else { (true, self.remove(destination)) }
    }

    /// Takes a destination away; whether any other is left.
    pub(crate) fn remove(&mut self, destination: Destination) -> bool {
        match self {
            Bounds::One(bound) => bound.destination != destination,
            Bounds::Few(list) => {
                list.retain(|bound| bound.destination != destination);
                if let [only] = &list[..] {
                    *self = Bounds::One(only.clone());
                    return true;
                }
                !list.is_empty()
            }
            Bounds::Many(many) => {
                if let Some(at) = many.index.remove(&destination) {
                    many.list.swap_remove(at as usize);
                    if let Some(moved) = many.list.get(at as usize) {
                        many.index.insert(moved.destination, at);
                    }
                }
                // Memory follows, amortized O(1) a removal.
                if many.list.len() < many.list.capacity() / 4 {
                    many.list.shrink_to(many.list.len() * 2);
                    many.index.shrink_to(many.list.len() * 2);
                }
                if many.list.len() < INDEXED_MIN / 4 {
                    *self = Bounds::Few(std::mem::take(&mut many.list));
                }
                true
            }
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let variants =
            |bound: &Bound| bound.variants.as_ref().map_or(0, |own| size_of::<Variants>() + own.heap_bytes());
        let list = match self {
            Bounds::One(_) => 0,
            Bounds::Few(list) => list.capacity() * size_of::<Bound>(),
            Bounds::Many(many) => {
                let index = many.index.capacity() * (size_of::<(Destination, u32)>() + 1);
                size_of::<Many>() + many.list.capacity() * size_of::<Bound>() + index
            }
        };
        list + sum_of(self.list().len(), self.list().iter(), variants)
    }
}
