//! The bindings that end at one destination: what must be undone when it goes, and what is already bound.
//!
//! A vector while there are few, which is nearly always; a set beyond, so that binding the next of a hundred thousand
//! costs as much as the second.

use super::definition::Binding;
use super::wire;
use rustc_hash::{FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Bindings up to which they are searched one by one.
const FEW_MAX: usize = 32;

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
        let mut arguments = Vec::new();
        wire::put_arguments(&mut arguments, &self.0.arguments);
        let mut hasher = FxHasher::default();
        arguments.hash(&mut hasher);
        hasher.finish().hash(state);
    }
}

fn is_same(a: &Binding, b: &Binding) -> bool {
    a.source == b.source && a.destination == b.destination && a.key == b.key && a.arguments == b.arguments
}

#[derive(Clone, Debug)]
pub(super) enum Ends {
    Few(Vec<Arc<Binding>>),
    Many(Box<FxHashSet<Same>>),
}

impl Default for Ends {
    fn default() -> Ends {
        Ends::Few(Vec::new())
    }
}

impl Ends {
    /// The binding that is the same as this one.
    pub(super) fn find(&self, binding: &Arc<Binding>) -> Option<&Arc<Binding>> {
        match self {
            Ends::Few(few) => few.iter().find(|own| is_same(own, binding)),
            Ends::Many(many) => many.get(&Same(binding.clone())).map(|same| &same.0),
        }
    }

    /// Adds a binding; false if it was there.
    pub(super) fn insert(&mut self, binding: Arc<Binding>) -> bool {
        match self {
            Ends::Few(few) => {
                if few.iter().any(|own| is_same(own, &binding)) {
                    return false;
                }
                if few.len() == FEW_MAX {
                    let mut many: FxHashSet<Same> = few.drain(..).map(Same).collect();
                    many.insert(Same(binding));
                    *self = Ends::Many(Box::new(many));
                    return true;
                }
                if few.is_empty() {
                    // One binding is the common case: a vector's first growth would make room for four.
                    few.reserve_exact(1);
                }
                few.push(binding);
                true
            }
            Ends::Many(many) => many.insert(Same(binding)),
        }
    }

    /// Removes a binding; false if it was not there.
    pub(super) fn remove(&mut self, binding: &Arc<Binding>) -> bool {
        match self {
            Ends::Few(few) => {
                let Some(at) = few.iter().position(|own| is_same(own, binding)) else { return false };
                few.remove(at);
                true
            }
            Ends::Many(many) => {
                let was_there = many.remove(&Same(binding.clone()));
                if many.is_empty() {
                    *self = Ends::default();
                }
                was_there
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Ends::Few(few) => few.len(),
            Ends::Many(many) => many.len(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Binding>> {
        let (few, many) = match self {
            Ends::Few(few) => (Some(few), None),
            Ends::Many(many) => (None, Some(many)),
        };
        few.into_iter().flatten().chain(many.into_iter().flat_map(|many| many.iter().map(|same| &same.0)))
    }
}
