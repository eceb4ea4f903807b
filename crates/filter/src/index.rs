//! Many filters at once: which of them pass a message, without a run of each.
//!
//! A filter is mostly a row of conditions that must all be true, and most of them compare one field with constants. One of
//! these conditions, the one that the fewest messages are expected to fulfil, is its *access*: the filter is filed under the
//! constant, the prefix or the range that it names. Of a message each field that filters are filed by is looked up
//! once; that gives the candidates, whose other conditions are looked at one by one, up to the first that is not true.
//! So a message costs what it costs to read it, and the filters that nearly pass; that there are others is not noticed. This
//! is the access predicate of publish and subscribe systems since the nineties. Against an automaton of all conditions
//! (BE-tree, A-tree, Rete) it has for it that a filter comes and goes by itself, and that it is exact by a short argument:
//!
//! - Only true passes. So if one of conditions joined by `AND` is not true, the filter is out, be it false or unknown; and if
//!   each of those that are joined by `OR` is filed, whatever makes one true is found.
//! - Several values of a field are each looked up, and of a range that is made of two comparisons, what lies between the
//!   least and the most of them: one value may fulfil the one, and another the other.
//! - Where the short way cannot be sure (an end of a range, numbers that fall together, much work), the program is
//!   run; where a program might see other values alone (a body that cannot be read) or would be out of work, it is run
//!   alone, as [`Program::matches`] does.
//!
//! Conditions that many filters have are kept and answered once a message. Two of each filter stand beside its entries, so
//! that most candidates end there and cost no look at the filter: such an entry of 12 bytes is next to others.
//!
//! Equal filters are one. A filter costs its program and its entries; the names and paths of its fields are shared by all
//! filters that name the same ones in the same order.

mod access;
mod bucket;
mod condition;
mod cursor;
mod filter;
mod key;
mod place;
mod predicate;
mod quick;
mod search;
mod spans;
mod values;

use crate::compiler::compile;
use crate::error::Error;
use crate::expression::Expression;
use crate::operator::Comparison;
use crate::program::{Program, Sections};
use crate::value::Field;
use access::{CONJUNCTS_MAX, Plan, plan, ranges};
use base::hash::ByBytes;
use condition::{Condition, conditions};
use filter::{Check, Entry, Filter, Rest, Shared, Then, hash, is_same};
use hashbrown::HashTable;
use key::Key;
use place::{Places, Posting};
use predicate::{ALWAYS, Predicates, Test};
use quick::Quick;
use std::hash::BuildHasher;

pub use access::Access;
pub use cursor::Cursor;

/// Different fields that the filters of an index share at most; a filter that would need more is run alone, for each message.
pub const PLACES_MAX: usize = 4096;

/// The handle of a filter in its [`Index`]. Handles are small, and used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filed(u32);

impl Filed {
    /// The handle as a number from 0 on, below the most filters that there were at once.
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// Filters, and how those are found that pass a message: each is filed under the rarest of its conditions that compare a
/// field with constants, and run only where that one is true. [`Index::explain`] says which one it is, [`Index::search`]
/// finds them. Its verdicts are those of [`Program::matches`], message by message and filter by filter.
#[derive(Clone, Debug, Default)]
pub struct Index {
    filters: Vec<Option<Filter>>,
    /// The rests of filters that candidates are looked at for, in the same places.
    rests: Vec<Rest>,
    free: Vec<u32>,
    by_program: HashTable<u32>,
    shapes: Vec<Option<Shared>>,
    free_shapes: Vec<u32>,
    by_shape: HashTable<u32>,
    places: Places,
    predicates: Predicates,
    /// Short forms of programs.
    quick: Quick,
    /// Filters that are run for each message.
    always: Vec<Entry>,
    /// Counts changes.
    version: u64,
    /// Bytes of filters and shapes on the heap.
    bytes: usize,
}

impl Index {
    /// An index of no filters.
    pub fn new() -> Index {
        Index::default()
    }

    /// Adds a filter: the one there is that is equal has one more user.
    ///
    /// # Errors
    /// See [`Program::compile`].
    pub fn add(&mut self, expression: &Expression) -> Result<Filed, Error> {
        let mut program = compile(expression)?;
        self.version += 1;
        let shape = self.enter(&mut program);
        let hash = hash(shape, &program);
        let is_it = |other: &u32| {
            self.filters[*other as usize]
                .as_ref()
                .is_some_and(|other| other.shape == shape && is_same(&other.program, &program))
        };
        if let Some(&found) = self.by_program.find(hash, is_it) {
            self.leave(shape);
            let filter = self.filters[found as usize].as_mut().expect("it was found");
            filter.users += 1;
            return Ok(Filed(found));
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.filters.push(None);
            self.rests.push(Rest::default());
            self.filters.len() as u32 - 1
        });
        let (filter, rest) = self.file(number, expression, program, shape);
        self.bytes += filter.memory() + rest.memory();
        self.filters[number as usize] = Some(filter);
        self.rests[number as usize] = rest;
        let filters = &self.filters;
        self.by_program.insert_unique(hash, number, |other| {
            let other = filters[*other as usize].as_ref().expect("a filter that is there");
            filter::hash(other.shape, &other.program)
        });
        Ok(Filed(number))
    }

    /// Takes one user of a filter away. Returns whether it was the last one: the filter is gone then, and its handle may be
    /// that of another one.
    ///
    /// # Panics
    /// If no filter has this handle.
    pub fn remove(&mut self, filed: Filed) -> bool {
        let number = filed.0;
        let filter = self.filters[number as usize].as_mut().expect("a handle of a filter");
        filter.users -= 1;
        if filter.users > 0 {
            return false;
        }
        self.version += 1;
        let filter = self.filters[number as usize].take().expect("it was there");
        let rest = std::mem::take(&mut self.rests[number as usize]);
        self.bytes -= filter.memory() + rest.memory();
        if let Ok(found) =
            self.by_program.find_entry(hash(filter.shape, &filter.program), |other| *other == number)
        {
            found.remove();
        }
        for posting in &filter.postings {
            self.withdraw(posting, number);
        }
        let checks = rest.checks().filter_map(|check| match check {
            Check::Shared(predicate) => Some(*predicate),
            Check::Integer { .. } | Check::Float { .. } => None,
        });
        let Index { predicates, places, quick, rests, .. } = self;
        let mut leave = |predicate| {
            if let Some(gone) = predicates.remove(predicate) {
                places.forget(gone.place, &gone.test);
            }
        };
        checks.chain(filter.guards).filter(|predicate| *predicate != ALWAYS).for_each(&mut leave);
        quick.remove(rest.quick, leave);
        if quick.is_sparse() {
            quick.renew(rests.iter_mut().map(|rest| &mut rest.quick));
        }
        self.leave(filter.shape);
        self.free.push(number);
        true
    }

    /// The program of a filter.
    pub fn get(&self, filed: Filed) -> Option<&Program> {
        self.filter(filed.0).map(|filter| &filter.program)
    }

    /// How many different filters there are.
    pub fn len(&self) -> usize {
        self.filters.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All filters and their programs, in the order of their handles.
    pub fn iter(&self) -> impl Iterator<Item = (Filed, &Program)> {
        let filters = (0..).zip(&self.filters);
        filters.filter_map(|(number, filter)| Some((Filed(number), &filter.as_ref()?.program)))
    }

    /// The fields that filters read: each once, but for filters beyond [`PLACES_MAX`].
    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        let loose = self.shapes.iter().flatten().filter(|shared| shared.places.is_none());
        self.places.used().map(|place| place.field()).chain(loose.flat_map(|shared| shared.shape.all()))
    }

    /// The sections that filters read.
    pub fn sections(&self) -> Sections {
        self.shapes.iter().flatten().flat_map(|shared| shared.shape.fields.iter().copied()).collect()
    }

    /// Bytes it keeps on the heap, nearly.
    pub fn memory(&self) -> usize {
        self.bytes
            + self.filters.capacity() * size_of::<Option<Filter>>()
            + self.rests.capacity() * size_of::<Rest>()
            + self.shapes.capacity() * size_of::<Option<Shared>>()
            + (self.free.capacity() + self.free_shapes.capacity()) * size_of::<u32>()
            + (self.by_program.capacity() + self.by_shape.capacity()) * (size_of::<u32>() + 1)
            + self.always.capacity() * size_of::<Entry>()
            + self.places.memory()
            + self.predicates.memory()
            + self.quick.memory()
    }

    /// How an expression would be filed among the filters there are now. It hangs on them: which of several conditions
    /// is the rarest, is told from how many constants and ranges there are of each field.
    pub fn explain(&self, expression: &Expression) -> Access {
        plan(&conditions(expression), &self.places).map_or(Access::Always, |plan| plan.access)
    }

    #[inline]
    fn filter(&self, number: u32) -> Option<&Filter> {
        self.filters.get(number as usize)?.as_ref()
    }

    /// Files a new filter.
    fn file(&mut self, number: u32, expression: &Expression, program: Program, shape: u32) -> (Filter, Rest) {
        let conditions = conditions(expression);
        let is_loose = self.shapes[shape as usize].as_ref().is_none_or(|shared| shared.places.is_none());
        let plan = if is_loose { None } else { plan(&conditions, &self.places) };
        let covered = plan.as_ref().map_or(&[][..], |plan| &plan.covered);
        let is_simple = |condition: &Condition<'_>| match condition {
            Condition::Simple(..) | Condition::True | Condition::Never => true,
            Condition::Either(_) | Condition::Other => false,
        };
        let needs_program = conditions.len() > CONJUNCTS_MAX || !conditions.iter().all(is_simple);
        let mut checks = Vec::new();
        if !is_loose {
            for (name, ends) in ranges(&conditions) {
                let at = self.places.find(name.field()).expect("the fields of a filter have places");
                self.places.note_range(at, ends);
            }
            for (place, condition) in conditions.into_iter().take(CONJUNCTS_MAX).enumerate() {
                if let Condition::Simple(name, test) = condition {
                    let at = self.places.find(name.field()).expect("the fields of a filter have places");
                    if !covered.contains(&place) {
                        checks.push(self.check(at, test));
                    }
                }
            }
        }
        let guards = self.guards(&mut checks);
        let postings = self.post(plan, Entry { filter: number, guards });
        let then = match (is_loose, needs_program) {
            (true, _) => Then::Alone,
            (false, true) => Then::Program,
            (false, false) => Then::Hit,
        };
        let quick = if then == Then::Program { self.shorten(&program, shape) } else { quick::NONE };
        (Filter { program, shape, users: 1, guards, postings }, Rest::new(checks, then, quick))
    }

    /// Adds the short form of a program, if it has one.
    fn shorten(&mut self, program: &Program, shape: u32) -> u32 {
        let Index { shapes, predicates, places, quick, .. } = self;
        let shared = shapes[shape as usize].as_ref();
        let Some(own) = shared.and_then(|shared| shared.places.as_deref()) else { return quick::NONE };
        quick.add(program, own, |place, test| {
            let (number, is_new) = predicates.add(place, test);
            places.note(place, &predicates.get(number).test, is_new);
            number
        })
    }

    fn check(&mut self, place: u32, test: Test) -> Check {
        use Comparison::{Greater, GreaterOrEqual, Less, LessOrEqual};
        match test {
            // Few filters have the same bound.
            Test::Compare(
                comparison @ (Less | LessOrEqual | Greater | GreaterOrEqual),
                Key::Integer(number),
            ) => Check::Integer { place, comparison, number },
            Test::Compare(
                comparison @ (Less | LessOrEqual | Greater | GreaterOrEqual),
                Key::Float(number),
            ) => Check::Float { place, comparison, number },
            test => {
                let (number, is_new) = self.predicates.add(place, test);
                self.places.note(place, &self.predicates.get(number).test, is_new);
                Check::Shared(number)
            }
        }
    }

    /// The predicates among checks that the most filters have.
    fn guards(&self, checks: &mut Vec<Check>) -> [u32; 2] {
        [(); 2].map(|()| {
            let shared = checks.iter().enumerate().filter_map(|(at, check)| match check {
                Check::Shared(predicate) => Some((self.predicates.get(*predicate).users, at, *predicate)),
                Check::Integer { .. } | Check::Float { .. } => None,
            });
            shared.max_by_key(|(users, at, _)| (*users, usize::MAX - at)).map_or(
                ALWAYS,
                |(_, at, predicate)| {
                    checks.remove(at);
                    predicate
                },
            )
        })
    }

    fn post(&mut self, plan: Option<Plan<'_>>, entry: Entry) -> Box<[Posting]> {
        match plan {
            Some(plan) => plan.wanted.iter().filter_map(|wanted| self.places.file(wanted, entry)).collect(),
            None => {
                self.always.push(entry);
                Box::new([Posting::Always { at: self.always.len() as u32 - 1 }])
            }
        }
    }

    fn withdraw(&mut self, posting: &Posting, number: u32) {
        match *posting {
            Posting::Numbers { place, ends } => self.places.take_numbers(place, ends, number),
            Posting::Texts { place, ref ends } => self.places.take_texts(place, **ends, number),
            Posting::Always { at } => {
                self.always.swap_remove(at as usize);
                if let Some(moved) = self.always.get(at as usize) {
                    let is_it = |posting: &&mut Posting| matches!(posting, Posting::Always { .. });
                    self.move_posting(moved.filter, is_it, Posting::Always { at });
                }
            }
            Posting::Bucket { bucket, at } => {
                if let Some(moved) = self.places.take(bucket, at) {
                    let is_it = |posting: &&mut Posting| matches!(posting, Posting::Bucket { bucket: other, .. } if *other == bucket);
                    self.move_posting(moved, is_it, Posting::Bucket { bucket, at });
                }
            }
        }
    }

    /// An entry of a filter stands elsewhere now.
    fn move_posting(&mut self, filter: u32, is_it: impl FnMut(&&mut Posting) -> bool, posting: Posting) {
        let filter = self.filters[filter as usize].as_mut().expect("entries are of filters that are there");
        *filter.postings.iter_mut().find(is_it).expect("a posting for each entry") = posting;
    }

    /// The number of the shape of a program, which shares it from now on.
    fn enter(&mut self, program: &mut Program) -> u32 {
        let hash = ByBytes.hash_one(&*program.shape);
        let is_it = |other: &u32| {
            self.shapes[*other as usize].as_ref().is_some_and(|other| other.shape == program.shape)
        };
        if let Some(&found) = self.by_shape.find(hash, is_it) {
            let shared = self.shapes[found as usize].as_mut().expect("it was found");
            shared.users += 1;
            program.shape = shared.shape.clone();
            return found;
        }
        let shape = program.shape.clone();
        let is_fit = self.places.len() + self.places.news(&shape) <= PLACES_MAX;
        let places = is_fit.then(|| self.places.enter(&shape));
        let shared = Shared { shape, places, users: 1 };
        self.bytes += shared.memory();
        let number = self.free_shapes.pop().unwrap_or_else(|| {
            self.shapes.push(None);
            self.shapes.len() as u32 - 1
        });
        self.shapes[number as usize] = Some(shared);
        let shapes = &self.shapes;
        self.by_shape.insert_unique(hash, number, |other| {
            let other = shapes[*other as usize].as_ref().expect("a shape that is there");
            ByBytes.hash_one(&*other.shape)
        });
        number
    }

    /// Takes a user of a shape away.
    fn leave(&mut self, number: u32) {
        let shared = self.shapes[number as usize].as_mut().expect("a shape that is there");
        shared.users -= 1;
        if shared.users > 0 {
            return;
        }
        let shared = self.shapes[number as usize].take().expect("it was there");
        self.bytes -= shared.memory();
        if let Ok(found) =
            self.by_shape.find_entry(ByBytes.hash_one(&*shared.shape), |other| *other == number)
        {
            found.remove();
        }
        if let Some(places) = &shared.places {
            self.places.leave(places);
        }
        self.free_shapes.push(number);
    }
}
