//! An expression as a tree, before it becomes a [`crate::Program`].
//!
//! Invariant: a tree that was parsed is at most [`crate::Limits::depth_max`] levels deep, so code that walks it may
//! recurse.

use crate::pattern::LikePattern;
use crate::value::{Field, Property};
use std::cmp::Ordering;

/// An expression: a literal, a field, or an operator with its operands.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A value that stands in the expression.
    Literal(Literal),
    /// A value of the message.
    Field(Name),
    /// `UTC()`: the present, in milliseconds since 1970.
    Utc,
    /// `+` before an operand.
    Plus(Box<Expression>),
    /// `-` before an operand.
    Minus(Box<Expression>),
    /// Arithmetic of two operands.
    Arithmetic(Arithmetic, Box<Expression>, Box<Expression>),
    /// Comparison of two operands.
    Compare(Comparison, Box<Expression>, Box<Expression>),
    /// `LIKE`; `NOT LIKE` is its negation.
    Like(Box<Expression>, LikePattern),
    /// `IN`; `NOT IN` is its negation.
    In(Box<Expression>, Vec<Expression>),
    /// `IS NULL` of a field; `IS NOT NULL` is its negation.
    IsNull(Name),
    /// Whether the message has the field, be its value null: the question of a reference value of null. SQL has no form
    /// of it.
    IsPresent(Name),
    /// `NOT`
    Not(Box<Expression>),
    /// `AND`
    And(Box<Expression>, Box<Expression>),
    /// `OR`
    Or(Box<Expression>, Box<Expression>),
}

/// A value in an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `TRUE` or `FALSE`
    Bool(bool),
    /// An exact number.
    Integer(i128),
    /// An approximate number, finite.
    Float(f64),
    /// A string.
    String(String),
    /// A binary, `0x` and pairs of digits.
    Binary(Vec<u8>),
}

/// A field by its owned name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// See [`Field::Priority`].
    Priority,
    /// See [`Field::Property`].
    Property(Property),
    /// See [`Field::ApplicationProperty`].
    ApplicationProperty(String),
}

impl Name {
    /// The field it names.
    pub fn field(&self) -> Field<'_> {
        match self {
            Name::Priority => Field::Priority,
            Name::Property(property) => Field::Property(*property),
            Name::ApplicationProperty(name) => Field::ApplicationProperty(name),
        }
    }
}

/// The operators of arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, always approximate
    Divide,
    /// `%` of exact numbers, with the sign of the dividend
    Remainder,
}

/// The operators of comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>` or `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// Whether operands in this order fulfil it.
    pub(crate) fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }

    /// The comparison that holds with operands exchanged.
    pub(crate) fn exchanged(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}
