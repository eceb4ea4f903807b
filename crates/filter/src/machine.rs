//! Evaluation: the steps of a program over a small stack of values.

use crate::compare::{PAIRS_MAX, both, calculate, compare, either, equal, list_order, negate, number};
use crate::found::{Found, Room, Seen};
use crate::function::ARGUMENTS_MAX;
use crate::operation::{Change, Combine, Operation, Push};
use crate::operator::Comparison;
use crate::pattern::Matcher;
use crate::program::{Constant, LOOKS_A_UNIT, Program, Slot};
use crate::regexp::TEXT_BYTES_MAX;
use crate::shape::Shape;
use crate::value::{Fields, PRIORITY_DEFAULT, Value};
use std::cmp::Ordering;

/// Units of a function, whatever it is of.
const CALL_PRICE: usize = 4;

/// Bytes of a text that a regular expression or a function looks at in a unit.
const TEXT_BYTES_A_UNIT: usize = 8;

/// Bytes that each of several values counts as beside its own.
const VALUE_BYTES: usize = 16;

/// Units of a comparison with one of several values.
pub(crate) const PAIR_PRICE: usize = 2;

impl Program {
    /// Runs on a stack of so many places.
    pub(crate) fn run<'a, S: Source<'a>, const STACK: usize>(
        &'a self,
        source: &mut S,
        room: &'a Room,
        now_ms: u64,
    ) -> Value<'a> {
        let mut stack = [Value::Null; STACK];
        // Values on the stack; the topmost is at `height - 1`. The compiler keeps it between the operands of an
        // operation and the room there is.
        let mut height = 0;
        let mut next = 0;
        while let Some(operation) = self.operations.get(next) {
            next += 1;
            match *operation {
                Operation::Push(push) => {
                    stack[height] = self.pushed(push, source, room, now_ms);
                    height += 1;
                }
                Operation::Change(change) => {
                    stack[height - 1] = self.changed(change, stack[height - 1], room);
                }
                Operation::Combine(combine) => {
                    height -= 1;
                    stack[height - 1] = combined(combine, stack[height - 1], stack[height], room);
                }
                Operation::Between => {
                    height -= 2;
                    let values = [stack[height - 1], stack[height], stack[height + 1]];
                    let pairs = values.iter().map(|value| count(*value)).product::<usize>();
                    let [value, least, most] = values;
                    stack[height - 1] = match room.affords(2 * pairs.min(PAIRS_MAX) * PAIR_PRICE) {
                        true => between(value, least, most),
                        false => Value::Null,
                    };
                }
                Operation::Call(function, arguments) => {
                    height -= usize::from(arguments);
                    let mut values = [Value::Null; ARGUMENTS_MAX];
                    let values = &mut values[..usize::from(arguments)];
                    values.copy_from_slice(&stack[height..height + usize::from(arguments)]);
                    let looked = values.iter().map(|value| bytes(*value)).sum::<usize>();
                    let is_fit = room.affords(CALL_PRICE + looked / TEXT_BYTES_A_UNIT);
                    stack[height] = if is_fit { function.call(values, room) } else { Value::Null };
                    height += 1;
                }
                Operation::JumpIfFalse(target) => {
                    if stack[height - 1] == Value::Bool(false) {
                        next = target as usize;
                    }
                }
                Operation::JumpIfTrue(target) => {
                    if stack[height - 1] == Value::Bool(true) {
                        next = target as usize;
                    }
                }
                Operation::JumpIfNull(target) => {
                    if stack[height - 1] == Value::Null {
                        next = target as usize;
                    }
                }
                Operation::JumpUnlessTrue(target) => {
                    height -= 1;
                    if stack[height].truth() != Some(true) {
                        next = target as usize;
                    }
                }
                Operation::Jump(target) => next = target as usize,
                Operation::Entry(target) => {
                    height -= 1;
                    let pairs = count(stack[height]).saturating_mul(count(stack[height - 1])).min(PAIRS_MAX);
                    if !room.affords(pairs * PAIR_PRICE) {
                        // Whether it is one of the others is not known either.
                        stack[height - 1] = Value::Null;
                    } else if equal(stack[height], stack[height - 1]) {
                        stack[height - 1] = Value::Bool(true);
                        next = target as usize;
                    }
                }
            }
        }
        stack[0]
    }

    #[inline(always)]
    fn pushed<'a>(&'a self, push: Push, source: &mut impl Source<'a>, room: &Room, now_ms: u64) -> Value<'a> {
        match push {
            Push::Field(field) => self.value_of(source, field),
            Push::Constant(constant) => self.constant(constant),
            Push::Utc => Value::Integer(i128::from(now_ms)),
            Push::CompareField { comparison, field, constant } => {
                let value = self.value_of(source, field);
                match value {
                    Value::Several(values) if !room.affords(values.len() * PAIR_PRICE) => Value::Null,
                    value => compare(comparison, value, self.constant(constant)),
                }
            }
            Push::IsNull(field) => Value::of_truth(match self.shape.fields[field as usize] {
                Slot::Body(place) => source.seen(field, place).is_there.map(|is_there| !is_there),
                _ => Some(self.value_of(source, field) == Value::Null),
            }),
            Push::IsPresent(field) => Value::of_truth(match self.shape.fields[field as usize] {
                Slot::Body(place) => source.seen(field, place).is_there,
                _ => Some(self.load(source, field).is_some()),
            }),
        }
    }

    #[inline]
    fn changed<'a>(&'a self, change: Change, value: Value<'a>, room: &'a Room) -> Value<'a> {
        match change {
            Change::Plus => number(value),
            Change::Minus => negate(value),
            Change::Not => Value::of_truth(value.truth().map(|truth| !truth)),
            Change::Is(truth) => Value::Bool(value.truth() == truth),
            Change::Like(pattern) => {
                let pattern = &self.patterns[pattern as usize];
                match room.affords(bytes(value) * pattern.words() / LOOKS_A_UNIT) {
                    true => like(value, pattern),
                    false => Value::Null,
                }
            }
            Change::Replace(replacement) => self.replacements[replacement as usize].of(value, room),
            Change::Topic(pattern) => self.topics[pattern as usize].matches(value, room),
            Change::Regexp(regexp) => self.regexps[regexp as usize].matches(value, room),
            Change::Member { first, end } => match room.affords(count(value) * PAIR_PRICE) {
                true => self.member(value, first, end),
                false => Value::Null,
            },
            Change::NoEntry => value.ask(|value| (value != Value::Null).then_some(false)),
        }
    }

    #[inline(always)]
    fn value_of<'a>(&'a self, source: &mut impl Source<'a>, field: u32) -> Value<'a> {
        match self.shape.fields[field as usize] {
            Slot::Body(place) => source.seen(field, place).value.known(),
            _ => self.load(source, field).unwrap_or(Value::Null),
        }
    }

    #[inline(always)]
    fn load<'a>(&'a self, source: &mut impl Source<'a>, field: u32) -> Option<Value<'a>> {
        usable(source.field(field), self.shape.fields[field as usize] == Slot::Priority)
    }

    #[inline]
    pub(crate) fn constant(&self, constant: u32) -> Value<'_> {
        self.value(self.constants[constant as usize])
    }

    #[inline]
    fn value(&self, constant: Constant) -> Value<'_> {
        match constant {
            Constant::Null => Value::Null,
            Constant::Bool(truth) => Value::Bool(truth),
            Constant::Integer(integer) => Value::Integer(integer),
            Constant::Float(float) => Value::Float(float),
            Constant::Bytes { start, end } => Value::Bytes(&self.bytes[start as usize..end as usize]),
        }
    }

    fn member(&self, value: Value<'_>, first: u32, end: u32) -> Value<'static> {
        let entries = &self.constants[first as usize..end as usize];
        value.ask(|value| {
            let is_entry = |value: Value<'_>| {
                let order = |entry: &Constant| -> Ordering { list_order(self.value(*entry), value) };
                entries.binary_search_by(order).is_ok()
            };
            match value {
                Value::Null => None,
                Value::Untyped(untyped) => Some(untyped.readings().any(is_entry)),
                value => Some(is_entry(value)),
            }
        })
    }
}

#[inline(always)]
fn combined<'a>(combine: Combine, below: Value<'a>, top: Value<'a>, room: &Room) -> Value<'a> {
    match combine {
        Combine::Compare(comparison) => {
            // Of single values it is part of the price of every operation.
            let pairs = (count(below) * count(top)).min(PAIRS_MAX);
            match pairs > 1 && !room.affords(pairs * PAIR_PRICE) {
                true => Value::Null,
                false => compare(comparison, below, top),
            }
        }
        Combine::Arithmetic { arithmetic, is_exchanged } => {
            let (left, right) = if is_exchanged { (top, below) } else { (below, top) };
            calculate(arithmetic, left, right)
        }
        Combine::And => Value::of_truth(both(below.truth(), top.truth())),
        Combine::Or => Value::of_truth(either(below.truth(), top.truth())),
    }
}

/// Where the values of a program's fields come from.
pub(crate) trait Source<'a> {
    /// The value of the field of this number, which is none in the body.
    fn field(&mut self, field: u32) -> Option<Value<'a>>;

    /// The value of the field of this number, which is the place of this number in the body.
    fn seen(&mut self, field: u32, place: u32) -> Seen<'a>;
}

/// A message during an evaluation: its body is looked into once, and only if something in it is needed.
pub(crate) struct Message<'a, F: ?Sized> {
    shape: &'a Shape,
    message: &'a F,
    room: &'a Room,
    seen: Option<&'a [Seen<'a>]>,
}

impl<'a, F: Fields + ?Sized> Message<'a, F> {
    pub(crate) fn new(shape: &'a Shape, message: &'a F, room: &'a Room) -> Message<'a, F> {
        Message { shape, message, room, seen: None }
    }

    /// Nothing, where there is no room for it.
    #[inline(never)]
    fn look(&self) -> &'a [Seen<'a>] {
        let Some(mut found) = Found::new(self.shape.paths.slots(), self.room) else { return &[] };
        let is_whole = self.message.body(&self.shape.paths, &mut found);
        found.finish(is_whole)
    }
}

impl<'a, F: Fields + ?Sized> Source<'a> for Message<'a, F> {
    #[inline]
    fn field(&mut self, field: u32) -> Option<Value<'a>> {
        self.message.field(self.shape.field(field))
    }

    #[inline]
    fn seen(&mut self, _field: u32, place: u32) -> Seen<'a> {
        let seen = match self.seen {
            Some(seen) => seen,
            None => *self.seen.insert(self.look()),
        };
        seen.get(place as usize).copied().unwrap_or(UNKNOWN)
    }
}

/// The value of a field as programs have it.
#[inline]
pub(crate) fn usable(value: Option<Value<'_>>, is_priority: bool) -> Option<Value<'_>> {
    match value {
        Some(Value::Float(float)) if !float.is_finite() => None,
        None if is_priority => Some(Value::Integer(i128::from(PRIORITY_DEFAULT))),
        value => value,
    }
}

/// A place in a body that was not looked into.
pub(crate) const UNKNOWN: Seen<'static> = Seen { value: Value::Unreadable, is_there: None };

/// Bytes of a text, or of each of several, each of which counts as some more.
pub(crate) fn bytes(value: Value<'_>) -> usize {
    match value {
        Value::Bytes(bytes) => bytes.len(),
        Value::Untyped(untyped) => untyped.text().len(),
        Value::Several(values) => values.iter().map(|value| VALUE_BYTES + bytes(*value)).sum(),
        _ => 0,
    }
}

/// How many values there are, none counted as one.
#[inline]
pub(crate) fn count(value: Value<'_>) -> usize {
    match value {
        Value::Several(values) => values.len().max(1),
        _ => 1,
    }
}

/// `BETWEEN`: the same value is neither less nor more.
pub(crate) fn between(value: Value<'_>, least: Value<'_>, most: Value<'_>) -> Value<'static> {
    value.ask(|value| {
        let is_above = compare(Comparison::GreaterOrEqual, value, least).truth();
        both(is_above, compare(Comparison::LessOrEqual, value, most).truth())
    })
}

/// `LIKE`: unknown if the subject is no bytes, or of more than [`TEXT_BYTES_MAX`] where more than its ends is looked at.
pub(crate) fn like(subject: Value<'_>, pattern: &Matcher) -> Value<'static> {
    subject.ask(|subject| {
        let subject = subject.text()?;
        if subject.len() > TEXT_BYTES_MAX && pattern.sees_all() {
            return None;
        }
        pattern.matches(subject)
    })
}
