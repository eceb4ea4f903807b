//! The search for the filters that a message passes.

use super::cursor::{Candidate, Cursor, How};
use super::key::{number_line, text_line};
use super::place::Place;
use super::predicate::{ALWAYS, Answer, is_dear};
use super::quick::{self, Item};
use super::values::{Findings, MEMORY_SURE, Mapped, Values};
use super::{Check, Entry, Filed, Index, Then};
use crate::compare::compare_one;
use crate::found::{Room, WORK_MAX};
use crate::operator::Comparison;
use crate::value::{Fields, Value};
use std::cmp::Ordering;

/// Units of work that the reading of a body may take before programs are run to count their own: what is left is
/// enough for as many conditions as are looked at, none of them dear.
const SPENT_SURE: usize = WORK_MAX / 2;

/// Units of a candidate beside those of its program.
const CANDIDATE_PRICE: usize = 1;

/// Entries that are passed over in a unit.
const ENTRIES_A_UNIT: usize = 8;

impl Index {
    /// Looks for the filters that a message passes, and appends them to `hits`: each once, in an order that follows from the
    /// order of [`Index::add`] and [`Index::remove`] alone. Returns whether all were looked at.
    ///
    /// Otherwise `budget` units of [work](crate::Program::price) were done, and the next call, with the same message and cursor,
    /// goes on from there; it gets one filter further at least. What one filter may do is bounded by
    /// [`WORK_MAX`] beside. The body is read again then. Filters that are added meanwhile may be missed,
    /// those that are removed are.
    ///
    /// `room` is cleared, and holds the values of the message.
    /// `now_ms`: see [`crate::Program::matches`].
    pub fn search<F: Fields + ?Sized>(
        &self,
        message: &F,
        room: &mut Room,
        now_ms: u64,
        cursor: &mut Cursor,
        budget: usize,
        hits: &mut Vec<Filed>,
    ) -> bool {
        room.clear();
        let room = &*room;
        let values = Values::of(&self.places, message, room);
        cursor.spent = values.spent;
        let mut search = Search { index: self, values, cursor, now_ms };
        if !search.cursor.is_open {
            search.open();
        } else if search.cursor.version != self.version {
            search.cursor.renew(self);
            let rest = search.cursor.candidates.iter_mut().skip(search.cursor.next);
            rest.filter(|candidate| candidate.how == How::Checks).for_each(|it| it.how = How::Program);
        }
        while let Some(&candidate) = search.cursor.candidates.get(search.cursor.next) {
            search.cursor.next += 1;
            if search.passes(candidate) {
                hits.push(Filed(candidate.filter));
            }
            if search.cursor.spent >= budget && search.cursor.next < search.cursor.candidates.len() {
                return false;
            }
        }
        cursor.is_open = false;
        true
    }
}

/// All that one of several values may be meant as.
fn readings<'v>(value: &Value<'v>) -> impl Iterator<Item = Value<'v>> {
    let (untyped, other) = match *value {
        Value::Untyped(untyped) => (Some(untyped.readings()), None),
        other => (None, Some(other)),
    };
    untyped.into_iter().flatten().chain(other)
}

/// A search of one message, as far as one call goes.
struct Search<'s, 'm, F: ?Sized> {
    index: &'m Index,
    values: Values<'m, F>,
    cursor: &'s mut Cursor,
    now_ms: u64,
}

impl<F: Fields + ?Sized> Search<'_, '_, F> {
    /// Collects the candidates.
    fn open(&mut self) {
        let index = self.index;
        self.cursor.renew(index);
        self.cursor.candidates.clear();
        self.cursor.next = 0;
        self.cursor.is_open = true;
        let has_body = self.values.findings != Findings::Nobody;
        match self.values.findings {
            Findings::Each => {}
            Findings::Widest => self.all_below(index.places.paths.len()),
            Findings::Nobody => self.all_below(usize::MAX),
        }
        for (number, place) in (0..).zip(index.places.all()) {
            if place.is_looked_up() && (has_body || place.slot.is_none()) {
                self.look_up(number, place);
            }
        }
        self.meet_always();
    }

    /// Filters that are run for each message stand nowhere else.
    fn meet_always(&mut self) {
        let index = self.index;
        self.cursor.spent += index.always.len() / ENTRIES_A_UNIT;
        self.cursor.candidates.reserve(index.always.len());
        for entry in &index.always {
            let is_out = |answer| matches!(answer, Answer::No | Answer::Unknown);
            let is_unguarded = entry.guards == [ALWAYS; 2];
            let is_met = is_unguarded || !entry.guards.into_iter().any(|guard| is_out(self.answer(guard)));
            // Some may be run alone already.
            let is_marked = || self.cursor.marks[entry.filter as usize] == self.cursor.epoch;
            if is_met && (self.values.findings == Findings::Each || !is_marked()) {
                self.cursor.candidates.push(Candidate { filter: entry.filter, how: How::Program });
            }
        }
    }

    /// Programs that look for something in the body, and for fewer places than these, are run alone.
    fn all_below(&mut self, places: usize) {
        let index = self.index;
        for (number, filter) in (0..).zip(&index.filters) {
            let looked = filter.as_ref().map_or(0, |filter| filter.program.shape.places.len());
            if (1..places).contains(&looked) {
                self.cursor.marks[number as usize] = self.cursor.epoch;
                self.cursor.candidates.push(Candidate { filter: number, how: How::Alone });
            }
        }
    }

    fn look_up(&mut self, number: u32, place: &Place) {
        let value = self.values.value(number);
        let how =
            if is_dear(value, 1) || self.values.spent > SPENT_SURE { How::Program } else { How::Checks };
        match value {
            Value::Null | Value::Composite | Value::Unreadable => {}
            // It may be any of what it reads as: its program says which.
            Value::Untyped(untyped) => {
                let readings: Vec<_> = untyped.readings().collect();
                self.look_up_several(number, place, &readings, How::Program);
            }
            Value::Several(values) => match values.iter().any(|value| matches!(value, Value::Untyped(_))) {
                true => {
                    let readings: Vec<_> = values.iter().flat_map(readings).collect();
                    self.look_up_several(number, place, &readings, How::Program);
                }
                false => self.look_up_several(number, place, values, how),
            },
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Bytes(_) => {
                let index = self.index;
                if place.keys > 0
                    && let Some(bucket) = index.places.buckets.find(number, false, value)
                {
                    self.meet_all(index.places.buckets.entries(bucket), how);
                }
                if !place.prefixes.is_empty() {
                    let mut buckets = std::mem::take(&mut self.cursor.buckets);
                    buckets.clear();
                    self.prefixes(number, place, value, |bucket| buckets.push(bucket));
                    for bucket in &buckets {
                        self.meet_all(index.places.buckets.entries(*bucket), how);
                    }
                    self.cursor.buckets = buckets;
                }
                self.spans(place, &[value], how);
            }
        }
    }

    /// Each of several values is looked up, and of ranges what lies between them.
    fn look_up_several(&mut self, number: u32, place: &Place, values: &[Value<'_>], how: How) {
        let mut buckets = std::mem::take(&mut self.cursor.buckets);
        buckets.clear();
        for value in values {
            self.buckets(number, place, *value, |bucket| buckets.push(bucket));
        }
        // A bucket is looked through once, however often its value stands there.
        buckets.sort_unstable();
        buckets.dedup();
        self.cursor.spent += values.len();
        for bucket in &buckets {
            self.meet_all(self.index.places.buckets.entries(*bucket), how);
        }
        self.cursor.buckets = buckets;
        self.spans(place, values, How::Program);
    }

    /// The buckets of one value.
    fn buckets(&self, number: u32, place: &Place, value: Value<'_>, mut see: impl FnMut(u32)) {
        if place.keys > 0
            && let Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Bytes(_) = value
            && let Some(bucket) = self.index.places.buckets.find(number, false, value)
        {
            see(bucket);
        }
        self.prefixes(number, place, value, see);
    }

    fn prefixes(&self, number: u32, place: &Place, value: Value<'_>, mut see: impl FnMut(u32)) {
        let Value::Bytes(text) = value else { return };
        for &length in place.prefixes.keys().take_while(|length| **length <= text.len()) {
            let prefix = Value::Bytes(&text[..length]);
            if let Some(bucket) = self.index.places.buckets.find(number, true, prefix) {
                see(bucket);
            }
        }
    }

    /// The ranges that hold one of these values, or that lie between two of them.
    fn spans(&mut self, place: &Place, values: &[Value<'_>], how: How) {
        let of = |is_inside: bool| if is_inside { how } else { How::Program };
        let mut met = 0;
        if !place.numbers.is_empty()
            && let Some(ends) = hull(values, number_line)
        {
            place.numbers.each(ends, |entry, is_inside| {
                met += 1;
                self.meet(entry, of(is_inside));
            });
        }
        if !place.texts.is_empty()
            && let Some(ends) = hull(values, text_line)
        {
            place.texts.each(ends, |entry, is_inside| {
                met += 1;
                self.meet(entry, of(is_inside));
            });
        }
        self.cursor.spent += met / ENTRIES_A_UNIT;
    }

    fn meet_all(&mut self, entries: &[Entry], how: How) {
        self.cursor.spent += entries.len() / ENTRIES_A_UNIT;
        for entry in entries {
            self.meet(*entry, how);
        }
    }

    /// An entry is true of the message, or may be.
    #[inline]
    fn meet(&mut self, entry: Entry, mut how: How) {
        let no = self.cursor.epoch << 2 | Answer::No as u32;
        let [first, second] = entry.guards.map(|guard| self.cursor.answers[guard as usize]);
        let is_out = |answer: u32| answer & !(Answer::Unknown as u32) == no;
        // One jump for both, which mostly goes the same way.
        if is_out(first) | is_out(second) {
            return;
        }
        if (first != no + Answer::Yes as u32) | (second != no + Answer::Yes as u32) {
            for guard in entry.guards {
                match self.answer(guard) {
                    Answer::No | Answer::Unknown => return,
                    Answer::Yes => {}
                    Answer::Dear => how = How::Program,
                }
            }
        }
        let mark = &mut self.cursor.marks[entry.filter as usize];
        if *mark != self.cursor.epoch {
            *mark = self.cursor.epoch;
            // Read now, so that it is there when the candidate is looked at.
            let how = match self.index.rests[entry.filter as usize].then {
                Then::Alone => How::Alone,
                _ => how,
            };
            self.cursor.candidates.push(Candidate { filter: entry.filter, how });
        }
    }

    /// The answer of a predicate, found once a message.
    #[inline]
    fn answer(&mut self, predicate: u32) -> Answer {
        let known = self.cursor.answers[predicate as usize];
        if known >> 2 == self.cursor.epoch {
            return match known & 3 {
                0 => Answer::No,
                1 => Answer::Yes,
                2 => Answer::Unknown,
                _ => Answer::Dear,
            };
        }
        self.ask(predicate)
    }

    #[inline(never)]
    fn ask(&mut self, number: u32) -> Answer {
        let predicate = self.index.predicates.get(number);
        let answer = predicate.test.answer(self.values.value(predicate.place));
        self.cursor.answers[number as usize] = self.cursor.epoch << 2 | answer as u32;
        self.cursor.spent += 1;
        answer
    }

    fn passes(&mut self, candidate: Candidate) -> bool {
        self.cursor.spent += CANDIDATE_PRICE;
        let index = self.index;
        let Some(rest) = index.rests.get(candidate.filter as usize) else { return false };
        let mut then = match (candidate.how, rest.then) {
            (_, Then::Gone) => return false,
            (How::Alone, _) | (_, Then::Alone) => return self.run_alone(candidate.filter),
            (How::Program, _) => Then::Program,
            (How::Checks, then) => then,
        };
        for check in rest.checks().filter(|_| rest.quick == quick::NONE) {
            match self.check(check) {
                Answer::No | Answer::Unknown => return false,
                Answer::Yes => {}
                Answer::Dear => then = Then::Program,
            }
        }
        then == Then::Hit || self.decide(candidate.filter, rest.quick)
    }

    /// The value of a place as short forms have it, kept for the next one.
    #[inline(never)]
    fn load(&mut self, place: u32) -> Item {
        let item = Item::of(self.values.value(place));
        self.cursor.items[place as usize] = (self.cursor.epoch, item);
        item
    }

    /// The verdict of a program, by its short form where that knows.
    #[inline]
    fn decide(&mut self, filter: u32, quick: u32) -> bool {
        let index = self.index;
        if quick != quick::NONE
            && self.values.spent <= SPENT_SURE
            && let Some(is_true) = index.quick.run(quick, self)
        {
            self.cursor.spent += index.quick.price(quick);
            return is_true;
        }
        self.run(filter)
    }

    #[inline]
    fn check(&mut self, check: &Check) -> Answer {
        let (place, comparison, order, constant) = match *check {
            Check::Shared(predicate) => return self.answer(predicate),
            Check::Integer { place, comparison, number } => {
                let value = self.values.value(place);
                let order = match value {
                    Value::Integer(integer) => Some(integer.cmp(&i128::from(number))),
                    _ => None,
                };
                (place, comparison, order, Value::Integer(number.into()))
            }
            Check::Float { place, comparison, number } => {
                let order = match self.values.value(place) {
                    Value::Float(float) => float.partial_cmp(&number),
                    _ => None,
                };
                (place, comparison, order, Value::Float(number))
            }
        };
        match order {
            Some(order) => Answer::of(comparison.holds(order)),
            None => self.compare(place, comparison, constant),
        }
    }

    /// A comparison that is not of two numbers of one kind.
    #[inline(never)]
    fn compare(&self, place: u32, comparison: Comparison, constant: Value<'_>) -> Answer {
        match self.values.value(place) {
            value @ Value::Several(_) if is_dear(value, 1) => Answer::Dear,
            Value::Several(values) => {
                Answer::of(values.iter().any(|value| compare_one(comparison, value.known(), constant)))
            }
            value => Answer::of(compare_one(comparison, value, constant)),
        }
    }

    /// Runs a program with the values of the message; where it might do otherwise alone, it is run alone.
    fn run(&mut self, number: u32) -> bool {
        let Some(filter) = self.index.filter(number) else { return false };
        let shared = self.index.shapes[filter.shape as usize].as_ref();
        let Some(places) = shared.and_then(|shared| shared.places.as_deref()) else {
            return self.run_alone(number);
        };
        let work = &mut self.cursor.work;
        work.clear();
        work.spend(self.values.spent);
        let mut source = Mapped { values: &self.values, places };
        let is_true = filter.program.evaluate_from(&mut source, work, self.now_ms).truth() == Some(true);
        self.cursor.spent += work.spent() - self.values.spent + 2 * filter.program.operations.len();
        if work.has_refused() || work.memory() > MEMORY_SURE {
            return self.run_alone(number);
        }
        is_true
    }

    #[inline(never)]
    fn run_alone(&mut self, number: u32) -> bool {
        let Some(filter) = self.index.filter(number) else { return false };
        let work = &mut self.cursor.work;
        let is_true = filter.program.matches(self.values.message, work, self.now_ms);
        self.cursor.spent += work.spent() + filter.program.price(0);
        is_true
    }
}

impl<F: Fields + ?Sized> quick::Asked for Search<'_, '_, F> {
    #[inline]
    fn item(&mut self, place: u32) -> Item {
        let (epoch, item) = self.cursor.items[place as usize];
        if epoch == self.cursor.epoch { item } else { self.load(place) }
    }

    #[inline]
    fn is_there(&self, place: u32) -> Option<bool> {
        self.values.is_there(place)
    }

    #[inline]
    fn answer(&mut self, predicate: u32) -> Answer {
        Search::answer(self, predicate)
    }
}

impl Answer {
    #[inline]
    fn of(is_true: bool) -> Answer {
        if is_true { Answer::Yes } else { Answer::No }
    }
}

/// The least and the most of values on a line; none where none is on it.
#[inline]
fn hull<L: Ord + Copy>(values: &[Value<'_>], line: impl Fn(Value<'_>) -> Option<L>) -> Option<[L; 2]> {
    if let [value] = values {
        return line(*value).map(|at| [at; 2]);
    }
    values.iter().filter_map(|value| line(*value)).fold(None, |hull, at| {
        Some(match hull {
            None => [at; 2],
            Some([least, most]) => match (at.cmp(&least), at.cmp(&most)) {
                (Ordering::Less, _) => [at, most],
                (_, Ordering::Greater) => [least, at],
                _ => [least, most],
            },
        })
    })
}
