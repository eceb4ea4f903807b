//! A filter ready to run: operations in a row over a small stack of values.
//!
//! Evaluation allocates nothing but what a [`Room`] keeps, looks at each operation at most once and at a field only when it
//! is needed: the first place in the body that is, has all of them looked for in one pass. It needs
//! at most [`STACK_MAX`] places, which the compiler sees to; most programs need [`STACK_FEW`] and get no more.

use crate::compiler::compile;
use crate::error::Error;
use crate::expression::Expression;
use crate::found::Room;
use crate::limits::Limits;
use crate::machine::{Message, Source};
use crate::message::{Class, MessageField};
use crate::operation::{Operation, Push};
use crate::pattern::Matcher;
use crate::regexp::Regexp;
use crate::replacement::Replacement;
use crate::shape::Shape;
use crate::site::Known;
use crate::topic::TopicPattern;
use crate::value::{Field, Fields, Property, Value};
use std::sync::Arc;

/// Values that may wait at once for the operation that combines them.
pub(crate) const STACK_MAX: usize = 64;

/// The stack of a program that is content with it.
const STACK_FEW: usize = 4;

/// Units that each message costs, whatever it holds; see [`Program::price`].
const MESSAGE_PRICE: usize = 50;

/// Looks at a byte in one unit.
pub(crate) const LOOKS_A_UNIT: usize = 2;

/// A filter ready to run.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) operations: Box<[Operation]>,
    /// The fields it reads.
    pub(crate) shape: Arc<Shape>,
    pub(crate) constants: Box<[Constant]>,
    pub(crate) patterns: Box<[Matcher]>,
    pub(crate) regexps: Box<[Regexp]>,
    pub(crate) replacements: Box<[Replacement]>,
    pub(crate) topics: Box<[TopicPattern]>,
    /// The functions of the message that it reads.
    pub(crate) reads: Known,
    /// The bytes of all constants.
    pub(crate) bytes: Box<[u8]>,
    pub(crate) stack: usize,
    /// Times that a byte of a message's sections may be looked at.
    pub(crate) looks: usize,
}

/// The parts of a message that a program reads; the others need not be looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// The header.
    pub header: bool,
    /// The section properties.
    pub properties: bool,
    /// The section application properties.
    pub application_properties: bool,
    /// The message annotations.
    pub annotations: bool,
    /// The body, or its size.
    pub body: bool,
}

/// The sections of fields.
impl FromIterator<Slot> for Sections {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Sections {
        let mut sections = Sections::default();
        for slot in slots {
            match slot {
                Slot::Priority => sections.header = true,
                Slot::Property(_) => sections.properties = true,
                Slot::ApplicationProperty { .. } => sections.application_properties = true,
                Slot::Annotation { .. } => sections.annotations = true,
                Slot::Message(MessageField::Size) | Slot::Body(_) => sections.body = true,
                Slot::Message(MessageField::Durable) => sections.header = true,
                Slot::Message(_) => {}
            }
        }
        sections
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Slot {
    Priority,
    Property(Property),
    /// Where its name is among the program's names.
    ApplicationProperty {
        start: u32,
        end: u32,
    },
    /// The same.
    Annotation {
        start: u32,
        end: u32,
    },
    Message(MessageField),
    /// Which of the places in the body.
    Body(u32),
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
    /// the limits that are the default. [`crate::ErrorKind::NotKnown`] if something of the client is not
    /// [bound](Expression::bound).
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
        self.shape.all()
    }

    /// The sections it reads.
    pub fn sections(&self) -> Sections {
        self.shape.fields.iter().copied().collect()
    }

    /// Bytes it keeps on the heap.
    pub fn memory(&self) -> usize {
        self.own_memory() + size_of::<Shape>() + self.shape.memory()
    }

    /// The same without the fields, which it may share.
    pub(crate) fn own_memory(&self) -> usize {
        let matchers = self.patterns.iter().map(Matcher::memory).sum::<usize>();
        size_of_val(&*self.operations)
            + size_of_val(&*self.constants)
            + size_of_val(&*self.patterns)
            + self.bytes.len()
            + matchers
            + self.regexps.iter().map(Regexp::memory).sum::<usize>()
            + self.replacements.iter().map(Replacement::memory).sum::<usize>()
            + self.topics.iter().map(TopicPattern::memory).sum::<usize>()
    }

    /// The most that evaluation may cost of a message whose properties and application properties have so many bytes, in
    /// units of some 60 instructions: each field that is loaded looks through them. The work on values and bodies is
    /// [counted in the room](Room::spent), and bounded there.
    pub fn price(&self, section_bytes: usize) -> usize {
        MESSAGE_PRICE + 2 * self.operations.len() + section_bytes.saturating_mul(self.looks) / LOOKS_A_UNIT
    }

    /// Whether a message passes: the expression is true of it, not false and not unknown. `now_ms`: the present in
    /// milliseconds since 1970, which `UTC()` says.
    /// `room` is cleared.
    pub fn matches<F: Fields + ?Sized>(&self, message: &F, room: &mut Room, now_ms: u64) -> bool {
        self.verdict(message, room, now_ms) == Some(true)
    }

    /// The truth of the expression for a message, none if it is unknown; see [`Program::matches`].
    pub fn verdict<F: Fields + ?Sized>(&self, message: &F, room: &mut Room, now_ms: u64) -> Option<bool> {
        room.clear();
        self.evaluate(message, room, now_ms).truth()
    }

    /// The functions of the message that it reads.
    #[inline]
    pub fn reads(&self) -> Known {
        self.reads
    }

    /// The class of its value.
    pub fn class(&self) -> Class {
        let own = if self.is_timed() { Class::Timed } else { Class::Stable };
        self.reads().fields().map(MessageField::class).fold(own, Class::max)
    }

    /// Whether it hangs on the present (`UTC()`), and not on the message alone.
    pub fn is_timed(&self) -> bool {
        self.operations.contains(&Operation::Push(Push::Utc))
    }

    /// The value of the expression for a message; see [`Program::matches`]. What it makes takes place in the room.
    pub fn evaluate<'a, F: Fields + ?Sized>(
        &'a self,
        message: &'a F,
        room: &'a Room,
        now_ms: u64,
    ) -> Value<'a> {
        self.evaluate_from(&mut Message::new(&self.shape, message, room), room, now_ms)
    }

    /// The same of values that come from elsewhere.
    #[inline]
    pub(crate) fn evaluate_from<'a>(
        &'a self,
        source: &mut impl Source<'a>,
        room: &'a Room,
        now_ms: u64,
    ) -> Value<'a> {
        if self.stack <= STACK_FEW {
            self.run::<_, STACK_FEW>(source, room, now_ms)
        } else {
            self.run::<_, STACK_MAX>(source, room, now_ms)
        }
    }
}
