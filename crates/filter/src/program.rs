//! A filter ready to run: operations in a row over a small stack of values.
//!
//! Evaluation allocates nothing, looks at each operation at most once and at a field only when it is needed. It needs
//! at most [`STACK_MAX`] places, which the compiler sees to; most programs need [`STACK_FEW`] and get no more.

use crate::compare::{both, calculate, compare, either, equal, list_order, negate, number};
use crate::compiler::compile;
use crate::error::Error;
use crate::expression::{Arithmetic, Comparison, Expression};
use crate::limits::Limits;
use crate::pattern::Matcher;
use crate::value::{Field, Fields, PRIORITY_DEFAULT, Property, Value};
use std::cmp::Ordering;

/// Values that may wait at once for the operation that combines them.
pub(crate) const STACK_MAX: usize = 64;

/// The stack of a program that is content with it.
const STACK_FEW: usize = 4;

/// Units that each message costs, whatever it holds; see [`Program::price`].
const MESSAGE_PRICE: usize = 50;

/// Looks at a byte in one unit.
const LOOKS_A_UNIT: usize = 2;

/// A filter ready to run.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) operations: Box<[Operation]>,
    /// Each field once.
    pub(crate) fields: Box<[Slot]>,
    pub(crate) constants: Box<[Constant]>,
    pub(crate) patterns: Box<[Matcher]>,
    /// The names of all fields.
    pub(crate) names: Box<str>,
    /// The bytes of all constants.
    pub(crate) bytes: Box<[u8]>,
    pub(crate) stack: usize,
    /// Times that a byte of a message's sections may be looked at.
    pub(crate) looks: usize,
}

/// The parts of a message that a program reads; the others need not be looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// The priority of the header.
    pub header: bool,
    /// The section properties.
    pub properties: bool,
    /// The section application properties.
    pub application_properties: bool,
}

/// One step: its operands are popped from the stack, its result is pushed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    /// Pushes the value of a field.
    Field(u32),
    /// Pushes a constant.
    Constant(u32),
    /// Pushes the present.
    Utc,
    Plus,
    Minus,
    Not,
    /// Takes two.
    Compare(Comparison),
    /// Compares a field with a constant: the most frequent operation of filters.
    CompareField {
        comparison: Comparison,
        field: u32,
        constant: u32,
    },
    /// Takes two; `is_exchanged`: the left one is on top.
    Arithmetic {
        arithmetic: Arithmetic,
        is_exchanged: bool,
    },
    /// Take two.
    And,
    Or,
    /// Go on elsewhere if this is on top, and leave it there.
    JumpIfFalse(u32),
    JumpIfTrue(u32),
    JumpIfNull(u32),
    /// Takes the subject.
    Like(u32),
    /// Whether its operand is one of constants, which are in [`list_order`].
    Member {
        first: u32,
        end: u32,
    },
    /// Takes an entry of a list; if it equals the value below, that becomes true and it goes on elsewhere.
    Entry(u32),
    /// The value on top was none of the entries.
    NoEntry,
    IsNull(u32),
    IsPresent(u32),
}

impl Operation {
    /// Whether it looks for a field.
    pub(crate) fn loads(self) -> bool {
        matches!(
            self,
            Operation::Field(_)
                | Operation::CompareField { .. }
                | Operation::IsNull(_)
                | Operation::IsPresent(_)
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Priority,
    Property(Property),
    /// Where its name is among the program's names.
    ApplicationProperty {
        start: u32,
        end: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Constant {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    /// Where they are among the program's bytes.
    Bytes {
        start: u32,
        end: u32,
    },
}

impl Program {
    /// The program of an expression.
    ///
    /// # Errors
    /// [`crate::ErrorKind::TooDeep`] if more values would wait at once than a program has room for: never within
    /// the limits that are the default.
    pub fn compile(expression: &Expression) -> Result<Program, Error> {
        compile(expression)
    }

    /// The program of an expression in SQL (AMQP Filter Expressions 1.0 section 6).
    ///
    /// # Errors
    /// The fault of the expression and its place.
    pub fn parse(text: &str, limits: &Limits) -> Result<Program, Error> {
        compile(&Expression::parse(text, limits)?)
    }

    /// The fields it reads, each once.
    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        self.fields.iter().map(|slot| self.field(*slot))
    }

    /// The sections it reads.
    pub fn sections(&self) -> Sections {
        let mut sections = Sections::default();
        for slot in &self.fields {
            match slot {
                Slot::Priority => sections.header = true,
                Slot::Property(_) => sections.properties = true,
                Slot::ApplicationProperty { .. } => sections.application_properties = true,
            }
        }
        sections
    }

    /// Bytes it keeps on the heap.
    pub fn memory(&self) -> usize {
        let matchers = self.patterns.iter().map(Matcher::memory).sum::<usize>();
        size_of_val(&*self.operations)
            + size_of_val(&*self.fields)
            + size_of_val(&*self.constants)
            + size_of_val(&*self.patterns)
            + self.names.len()
            + self.bytes.len()
            + matchers
    }

    /// The most that evaluation may cost of a message whose properties and application properties have so many bytes, in
    /// units of about 2 ns: each field that is loaded looks through them, each `LIKE` once for 64 characters of its pattern.
    pub fn price(&self, section_bytes: usize) -> usize {
        MESSAGE_PRICE + 2 * self.operations.len() + section_bytes.saturating_mul(self.looks) / LOOKS_A_UNIT
    }

    /// Whether a message passes: the expression is true of it, not false and not unknown. `now_ms`: the present in
    /// milliseconds since 1970, which `UTC()` says.
    pub fn matches<F: Fields + ?Sized>(&self, message: &F, now_ms: u64) -> bool {
        self.evaluate(message, now_ms) == Value::Bool(true)
    }

    /// The value of the expression for a message; see [`Program::matches`].
    pub fn evaluate<'a, F: Fields + ?Sized>(&'a self, message: &'a F, now_ms: u64) -> Value<'a> {
        if self.stack <= STACK_FEW {
            self.run::<F, STACK_FEW>(message, now_ms)
        } else {
            self.run::<F, STACK_MAX>(message, now_ms)
        }
    }

    fn run<'a, F: Fields + ?Sized, const STACK: usize>(&'a self, message: &'a F, now_ms: u64) -> Value<'a> {
        let mut stack = [Value::Null; STACK];
        // Values on the stack; the topmost is at `height - 1`. The compiler keeps it between the operands of an
        // operation and the room there is.
        let mut height = 0;
        let mut next = 0;
        while let Some(operation) = self.operations.get(next) {
            next += 1;
            match *operation {
                Operation::Field(field) => {
                    stack[height] = self.load(message, field).unwrap_or(Value::Null);
                    height += 1;
                }
                Operation::Constant(constant) => {
                    stack[height] = self.constant(constant);
                    height += 1;
                }
                Operation::Utc => {
                    stack[height] = Value::Integer(i128::from(now_ms));
                    height += 1;
                }
                Operation::Plus => stack[height - 1] = number(stack[height - 1]),
                Operation::Minus => stack[height - 1] = negate(stack[height - 1]),
                Operation::Not => {
                    stack[height - 1] = Value::of_truth(stack[height - 1].truth().map(|truth| !truth));
                }
                Operation::Compare(comparison) => {
                    height -= 1;
                    stack[height - 1] = compare(comparison, stack[height - 1], stack[height]);
                }
                Operation::CompareField { comparison, field, constant } => {
                    let value = self.load(message, field).unwrap_or(Value::Null);
                    stack[height] = compare(comparison, value, self.constant(constant));
                    height += 1;
                }
                Operation::Arithmetic { arithmetic, is_exchanged } => {
                    height -= 1;
                    let (below, top) = (stack[height - 1], stack[height]);
                    let (left, right) = if is_exchanged { (top, below) } else { (below, top) };
                    stack[height - 1] = calculate(arithmetic, left, right);
                }
                Operation::And => {
                    height -= 1;
                    stack[height - 1] =
                        Value::of_truth(both(stack[height - 1].truth(), stack[height].truth()));
                }
                Operation::Or => {
                    height -= 1;
                    stack[height - 1] =
                        Value::of_truth(either(stack[height - 1].truth(), stack[height].truth()));
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
                Operation::Like(pattern) => {
                    stack[height - 1] = like(stack[height - 1], &self.patterns[pattern as usize]);
                }
                Operation::Member { first, end } => {
                    stack[height - 1] = self.member(stack[height - 1], first, end);
                }
                Operation::Entry(target) => {
                    height -= 1;
                    if equal(stack[height], stack[height - 1]) {
                        stack[height - 1] = Value::Bool(true);
                        next = target as usize;
                    }
                }
                Operation::NoEntry => stack[height - 1] = Value::Bool(false),
                Operation::IsNull(field) => {
                    let value = self.load(message, field).unwrap_or(Value::Null);
                    stack[height] = Value::Bool(value == Value::Null);
                    height += 1;
                }
                Operation::IsPresent(field) => {
                    stack[height] = Value::Bool(self.load(message, field).is_some());
                    height += 1;
                }
            }
        }
        stack[0]
    }

    #[inline]
    fn load<'a, F: Fields + ?Sized>(&'a self, message: &'a F, field: u32) -> Option<Value<'a>> {
        let slot = self.fields[field as usize];
        match message.field(self.field(slot)) {
            Some(Value::Float(float)) if !float.is_finite() => None,
            None if slot == Slot::Priority => Some(Value::Integer(i128::from(PRIORITY_DEFAULT))),
            value => value,
        }
    }

    #[inline]
    fn field(&self, slot: Slot) -> Field<'_> {
        match slot {
            Slot::Priority => Field::Priority,
            Slot::Property(property) => Field::Property(property),
            Slot::ApplicationProperty { start, end } => {
                Field::ApplicationProperty(&self.names[start as usize..end as usize])
            }
        }
    }

    #[inline]
    fn constant(&self, constant: u32) -> Value<'_> {
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
        if value == Value::Null {
            return Value::Null;
        }
        let entries = &self.constants[first as usize..end as usize];
        let order = |entry: &Constant| -> Ordering { list_order(self.value(*entry), value) };
        Value::Bool(entries.binary_search_by(order).is_ok())
    }
}

/// `LIKE`: unknown if the subject is no bytes.
pub(crate) fn like(subject: Value<'_>, pattern: &Matcher) -> Value<'static> {
    match subject {
        Value::Bytes(subject) => Value::of_truth(pattern.matches(subject)),
        _ => Value::Null,
    }
}
