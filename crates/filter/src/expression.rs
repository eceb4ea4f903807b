//! An expression as a tree, before it becomes a [`crate::Program`].
//!
//! Invariant: a tree that was parsed is at most [`crate::Limits::depth_max`] levels deep, so code that walks it may
//! recurse.

use crate::asker::Asked;
use crate::function::Function;
use crate::message::MessageField;
use crate::operator::{Arithmetic, Comparison};
use crate::path::Path;
use crate::pattern::LikePattern;
use crate::regexp::Regexp;
use crate::replacement::Replacement;
use crate::topic::TopicPattern;
use crate::value::{Field, Property};

/// An expression: a literal, a field, or an operator with its operands.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A value that stands in the expression.
    Literal(Literal),
    /// A value of the message.
    Field(Name),
    /// Something of the client, until it is [bound](Expression::bound).
    Asked(Asked),
    /// `IS NULL` of such.
    AskedIsNull(Asked),
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
    /// `REGEXP_LIKE`: whether a regular expression matches a part of a text.
    Regexp(Box<Expression>, Regexp),
    /// `REGEXP_REPLACE`: a text, with another in place of each part of it that a regular expression matches.
    Replace(Box<Expression>, Replacement),
    /// `TOPIC_MATCH`: whether the routing key matches the pattern of a topic binding.
    Topic(TopicPattern),
    /// `BETWEEN`: a value, the least and the most, both counted; `NOT BETWEEN` is its negation.
    Between(Box<Expression>, Box<Expression>, Box<Expression>),
    /// `IN`; `NOT IN` is its negation.
    In(Box<Expression>, Vec<Expression>),
    /// `IS TRUE`, `IS FALSE` and (`None`) `IS UNKNOWN`; `IS NOT` is its negation.
    Is(Box<Expression>, Option<bool>),
    /// `CASE`: the value behind the first condition that is true; otherwise the last one, or null.
    Case(Vec<(Expression, Expression)>, Option<Box<Expression>>),
    /// A function of values.
    Call(Function, Vec<Expression>),
    /// `IS NULL` of a field; `IS NOT NULL` is its negation, and `EXISTS` another word for that.
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
    /// No value; only what was asked and is not known is one.
    Null,
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
    /// See [`Field::Annotation`].
    Annotation(String),
    /// See [`Field::Message`].
    Message(MessageField),
    /// See [`Field::Body`].
    Body(Path),
}

impl Name {
    /// The field it names.
    pub fn field(&self) -> Field<'_> {
        match self {
            Name::Priority => Field::Priority,
            Name::Property(property) => Field::Property(*property),
            Name::ApplicationProperty(name) => Field::ApplicationProperty(name),
            Name::Annotation(name) => Field::Annotation(name),
            Name::Message(field) => Field::Message(*field),
            Name::Body(path) => Field::Body(path),
        }
    }
}
