//! The arguments of a destination's bindings under one key: nearly always of one, of many where a queue is bound to a
//! headers exchange again and again.
//!
//! Many are in a set, so that binding and unbinding one of them costs no more than one of few.

use crate::arguments::Arguments;
use base::hash::SetByBytes;

/// Up to so many are searched one by one.
const FEW_MAX: usize = 16;

/// Arguments, each once; at least one.
#[derive(Clone, Debug)]
pub(crate) enum Variants {
    One(Arguments),
    /// Two or more.
    Few(Vec<Arguments>),
    Many(SetByBytes<Arguments>),
}

impl Variants {
    pub(crate) fn contains(&self, arguments: &Arguments) -> bool {
        match self {
            Variants::Many(many) => many.contains(arguments),
            few => few.few().contains(arguments),
        }
    }

    /// Those that are searched one by one.
    fn few(&self) -> &[Arguments] {
        match self {
            Variants::One(only) => std::slice::from_ref(only),
            Variants::Few(few) => few,
            Variants::Many(_) => &[],
        }
    }

    /// In no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arguments> {
        let many = if let Variants::Many(many) = self { Some(many) } else { None };
        self.few().iter().chain(many.into_iter().flatten())
    }

    /// Adds arguments; false: they are there.
    pub(crate) fn insert(&mut self, arguments: Arguments) -> bool {
        if self.contains(&arguments) {
            return false;
        }
        match self {
            Variants::One(only) => *self = Variants::Few(vec![std::mem::take(only), arguments]),
            Variants::Few(few) if few.len() == FEW_MAX => {
                *self = Variants::Many(few.drain(..).chain([arguments]).collect());
            }
            Variants::Few(few) => few.push(arguments),
            Variants::Many(many) => _ = many.insert(arguments),
        }
        true
    }

    /// Takes arguments away; whether they were there, and whether others are left. The last ones stay, for the caller to
    /// drop.
    pub(crate) fn remove(&mut self, arguments: &Arguments) -> (bool, bool) {
        match self {
            Variants::One(only) => {
                let existed = only == arguments;
                (existed, !existed)
            }
            Variants::Few(few) => {
                let Some(at) = few.iter().position(|have| have == arguments) else { return (false, true) };
                few.swap_remove(at);
                if let [only] = &mut few[..] {
                    *self = Variants::One(std::mem::take(only));
                }
                (true, true)
            }
            Variants::Many(many) => {
                let existed = many.remove(arguments);
                if many.len() < FEW_MAX / 4 {
                    *self = Variants::Few(many.drain().collect());
                } else if many.len() < many.capacity() / 8 {
                    // Memory follows, amortized O(1) a removal.
                    many.shrink_to(many.len() * 2);
                }
                (existed, true)
            }
        }
    }

    /// The arguments, where there is nothing else.
    pub(crate) fn only(&self) -> Option<&Arguments> {
        if let Variants::One(only) = self { Some(only) } else { None }
    }

    /// Bytes on the heap, but for arguments: those are shared with the definition of the binding.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Variants::One(_) => 0,
            Variants::Few(few) => few.capacity() * size_of::<Arguments>(),
            Variants::Many(many) => many.capacity() * 8 / 7 * (size_of::<Arguments>() + 1),
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        match self {
            Variants::Many(many) => many.len(),
            few => few.few().len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn arguments(number: usize) -> Arguments {
        [(&b"n"[..], Value::long(number as i64))].into_iter().collect()
    }

    #[test]
    fn they_come_and_go_whatever_they_are_kept_in() {
        let most = 5 * FEW_MAX;
        let mut variants = Variants::One(arguments(0));
        for n in 1..most {
            assert_eq!((variants.len(), variants.iter().count()), (n, n));
            assert!(!variants.contains(&arguments(n)) && variants.insert(arguments(n)));
            assert!(!variants.insert(arguments(n)) && !variants.insert(arguments(n / 2)));
        }
        for n in (1..most).rev() {
            assert_eq!(variants.remove(&arguments(most)), (false, true));
            assert_eq!(variants.remove(&arguments(n)), (true, true));
            assert_eq!((variants.len(), variants.iter().count()), (n, n));
        }
        assert_eq!(variants.only(), Some(&arguments(0)));
        assert_eq!(variants.remove(&arguments(1)), (false, true));
        assert_eq!(variants.remove(&arguments(0)), (true, false));
    }
}
