//! The parts of one filter that an index keeps.

use super::place::Posting;
use super::predicate::ALWAYS;
use crate::operator::Comparison;
use crate::program::{Constant, Program};
use crate::shape::Shape;
use base::hash::ByBytes;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// Checks that stand beside each other, so that a candidate is one line of memory.
const CHECKS_FEW: usize = 3;

#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) program: Program,
    pub(super) shape: u32,
    pub(super) users: u32,
    pub(super) guards: [u32; 2],
    pub(super) postings: Box<[Posting]>,
}

/// The rest of a filter when an entry of it was met whose guards hold.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
#[expect(clippy::box_collection, reason = "a boxed slice takes two words, and does not fit the line")]
pub(super) struct Rest {
    /// Conditions, as many as `count`.
    few: [Check; CHECKS_FEW],
    more: Option<Box<Vec<Check>>>,
    pub(super) then: Then,
    count: u8,
    /// Where the short form of its program begins, if it has one.
    pub(super) quick: u32,
}

/// The rest when the conditions are true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Then {
    /// There is no such filter.
    #[default]
    Gone,
    /// Nothing.
    Hit,
    /// Its program.
    Program,
    /// Its program, which reads the message for itself.
    Alone,
}

/// A filter where it is filed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) filter: u32,
    /// Predicates that must be true, [`ALWAYS`] where there is none.
    pub(super) guards: [u32; 2],
}

/// A condition of one filter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// A predicate that other filters may have too.
    Shared(u32),
    /// A comparison with a number.
    Integer {
        place: u32,
        comparison: Comparison,
        number: i64,
    },
    Float {
        place: u32,
        comparison: Comparison,
        number: f64,
    },
}

/// The common part of filters that read the same fields.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) shape: Arc<Shape>,
    /// The places of its fields; none beyond [`PLACES_MAX`].
    pub(super) places: Option<Box<[u32]>>,
    pub(super) users: u32,
}

impl Filter {
    /// Bytes it keeps on the heap.
    pub(super) fn memory(&self) -> usize {
        let boxed = |posting: &Posting| match posting {
            Posting::Texts { .. } => size_of::<[u128; 2]>(),
            Posting::Always { .. } | Posting::Bucket { .. } | Posting::Numbers { .. } => 0,
        };
        self.program.own_memory()
            + size_of_val(&*self.postings)
            + self.postings.iter().map(boxed).sum::<usize>()
    }
}

impl Default for Check {
    fn default() -> Check {
        Check::Shared(ALWAYS)
    }
}

impl Rest {
    pub(super) fn new(checks: Vec<Check>, then: Then, quick: u32) -> Rest {
        let (few, more) = checks.split_at(checks.len().min(CHECKS_FEW));
        let mut rest = Rest { then, quick, ..Rest::default() };
        rest.few[..few.len()].copy_from_slice(few);
        rest.count = few.len() as u8;
        rest.more = (!more.is_empty()).then(|| Box::new(more.to_vec()));
        rest
    }

    /// All conditions.
    #[inline]
    pub(super) fn checks(&self) -> impl Iterator<Item = &Check> {
        self.few.iter().take(self.count.into()).chain(self.more.iter().flat_map(|more| more.iter()))
    }

    /// Bytes it keeps on the heap.
    pub(super) fn memory(&self) -> usize {
        self.more.as_ref().map_or(0, |more| size_of::<Vec<Check>>() + more.capacity() * size_of::<Check>())
    }
}

impl Shared {
    /// Bytes it keeps on the heap.
    pub(super) fn memory(&self) -> usize {
        size_of::<Shape>()
            + self.shape.memory()
            + self.places.as_ref().map_or(0, |places| size_of_val(&**places))
    }
}

/// Programs that are the same have the same one.
pub(super) fn hash(shape: u32, program: &Program) -> u64 {
    let mut hasher = ByBytes.build_hasher();
    (shape, &program.operations, &program.bytes, &program.patterns).hash(&mut hasher);
    for constant in &program.constants {
        bits(constant).hash(&mut hasher);
    }
    for regexp in &program.regexps {
        (regexp.text(), regexp.ignores_case()).hash(&mut hasher);
    }
    hasher.finish()
}

/// Whether two programs of one shape do the same.
pub(super) fn is_same(left: &Program, right: &Program) -> bool {
    let is_same_constant = |(left, right): (&Constant, &Constant)| bits(left) == bits(right);
    left.operations == right.operations
        && left.bytes == right.bytes
        && left.patterns == right.patterns
        && left.regexps == right.regexps
        && left.replacements == right.replacements
        && left.topics == right.topics
        && left.constants.len() == right.constants.len()
        && left.constants.iter().zip(&right.constants).all(is_same_constant)
}

/// A constant as numbers: its kind and the rest.
fn bits(constant: &Constant) -> (u8, u128) {
    match *constant {
        Constant::Null => (0, 0),
        Constant::Bool(truth) => (1, truth.into()),
        Constant::Integer(integer) => (2, integer.cast_unsigned()),
        Constant::Float(float) => (3, float.to_bits().into()),
        Constant::Bytes { start, end } => (4, u128::from(start) << 32 | u128::from(end)),
    }
}
