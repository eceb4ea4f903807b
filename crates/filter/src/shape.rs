//! The fields that a program reads.

use crate::path::{Path, Paths};
use crate::program::Slot;
use crate::value::Field;
use std::hash::{Hash, Hasher};

/// The fields that a program reads, each once, in the order in which it names them. Programs of one make can share it.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) fields: Box<[Slot]>,
    /// The places in the body among them.
    pub(crate) places: Box<[Path]>,
    /// The same as a tree.
    pub(crate) paths: Paths,
    /// The names of all fields.
    pub(crate) names: Box<str>,
}

/// The tree follows from the places.
impl PartialEq for Shape {
    fn eq(&self, other: &Shape) -> bool {
        (&self.fields, &self.places, &self.names) == (&other.fields, &other.places, &other.names)
    }
}

impl Eq for Shape {}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.fields, &self.places, &self.names).hash(hasher);
    }
}

impl Shape {
    /// The field of this number.
    #[inline]
    pub(crate) fn field(&self, number: u32) -> Field<'_> {
        match self.fields[number as usize] {
            Slot::Priority => Field::Priority,
            Slot::Property(property) => Field::Property(property),
            Slot::ApplicationProperty { start, end } => {
                Field::ApplicationProperty(&self.names[start as usize..end as usize])
            }
            Slot::Annotation { start, end } => Field::Annotation(&self.names[start as usize..end as usize]),
            Slot::Message(field) => Field::Message(field),
            Slot::Body(place) => Field::Body(&self.places[place as usize]),
        }
    }

    /// All of them, in the order of their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = Field<'_>> {
        (0..).take(self.fields.len()).map(|number| self.field(number))
    }

    /// Bytes it keeps on the heap.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.fields)
            + size_of_val(&*self.places)
            + self.places.iter().map(Path::memory).sum::<usize>()
            + self.paths.memory()
            + self.names.len()
    }
}
