//! Filters by reference values: `amqp:properties-filter` and `amqp:application-properties-filter`, AMQP Filter
//! Expressions 1.0 working draft 9 section 4.
//!
//! Each makes an expression whose parts must all be true. A message passes a set of filters if it passes each, so two
//! of them are joined by [`Expression::And`].

use crate::expression::{Expression, Literal, Name};
use crate::limits::Limits;
use crate::operator::Comparison;
use crate::pattern::LikePattern;
use crate::value::Property;
use std::fmt;

/// A value that a field of a message is to match, with its type in AMQP 1.0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reference<'a> {
    /// Matches any value of the field, if the message has it.
    Null,
    /// A truth value.
    Bool(bool),
    /// `ubyte`, `ushort`, `byte`, `short`, `int`, `long` or `char`: types that no property has.
    Integer(i128),
    /// `uint`
    Uint(u32),
    /// `ulong`
    Ulong(u64),
    /// Milliseconds since 1970.
    Timestamp(i64),
    /// `float` or `double`
    Float(f64),
    /// A string; `&p:` before it asks for a prefix, `&s:` for a suffix, `&&` is one `&`.
    String(&'a str),
    /// A symbol, without such modifiers.
    Symbol(&'a [u8]),
    /// A binary.
    Binary(&'a [u8]),
    /// A UUID.
    Uuid([u8; 16]),
    /// A list, a map, a decimal: matches nothing.
    Other,
}

/// Why a filter by reference values was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceError {
    /// It has no fields.
    Empty,
    /// It has more than [`Limits::references_max`].
    TooMany {
        /// The bound.
        references_max: usize,
    },
    /// No property has this name.
    UnknownProperty,
    /// Not the type of this property.
    WrongType,
    /// A string that starts with `&` and no modifier.
    UnknownModifier,
}

impl fmt::Display for ReferenceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReferenceError::Empty => out.write_str("no fields"),
            ReferenceError::TooMany { references_max } => write!(out, "more than {references_max} fields"),
            ReferenceError::UnknownProperty => out.write_str("no property has this name"),
            ReferenceError::WrongType => out.write_str("not the type of this property"),
            ReferenceError::UnknownModifier => out.write_str("& without p: or s: after it"),
        }
    }
}

impl std::error::Error for ReferenceError {}

/// A filter by reference values that is being put together, entry by entry, of one section.
#[derive(Debug)]
pub struct References {
    limits: Limits,
    count: usize,
    expression: Option<Expression>,
}

impl References {
    /// A filter without entries.
    pub fn new(limits: &Limits) -> References {
        References { limits: *limits, count: 0, expression: None }
    }

    /// One entry of `amqp:properties-filter`; `name` is AMQP's, with hyphens.
    ///
    /// # Errors
    /// See [`ReferenceError`]; the filter as a whole is refused then.
    pub fn property(&mut self, name: &[u8], reference: Reference<'_>) -> Result<(), ReferenceError> {
        let property = Property::hyphenated(name).ok_or(ReferenceError::UnknownProperty)?;
        let is_right = match property {
            Property::MessageId | Property::CorrelationId => matches!(
                reference,
                Reference::Ulong(_) | Reference::Uuid(_) | Reference::Binary(_) | Reference::String(_)
            ),
            Property::UserId => matches!(reference, Reference::Binary(_)),
            Property::ContentType | Property::ContentEncoding => matches!(reference, Reference::Symbol(_)),
            Property::AbsoluteExpiryTime | Property::CreationTime => {
                matches!(reference, Reference::Timestamp(_))
            }
            Property::GroupSequence => matches!(reference, Reference::Uint(_)),
            Property::To
            | Property::Subject
            | Property::ReplyTo
            | Property::GroupId
            | Property::ReplyToGroupId => matches!(reference, Reference::String(_)),
        };
        if !is_right {
            return Err(ReferenceError::WrongType);
        }
        self.entry(Name::Property(property), reference)
    }

    /// One entry of `amqp:application-properties-filter`.
    ///
    /// # Errors
    /// See [`ReferenceError`]; the filter as a whole is refused then.
    pub fn application_property(
        &mut self,
        name: &str,
        reference: Reference<'_>,
    ) -> Result<(), ReferenceError> {
        self.entry(Name::ApplicationProperty(name.to_owned()), reference)
    }

    /// The expression of all entries.
    ///
    /// # Errors
    /// [`ReferenceError::Empty`]
    pub fn expression(self) -> Result<Expression, ReferenceError> {
        self.expression.ok_or(ReferenceError::Empty)
    }

    fn entry(&mut self, name: Name, reference: Reference<'_>) -> Result<(), ReferenceError> {
        if self.count == self.limits.references_max {
            return Err(ReferenceError::TooMany { references_max: self.limits.references_max });
        }
        self.count += 1;
        let condition = condition(name, reference)?;
        self.expression = Some(match self.expression.take() {
            Some(others) => Expression::And(Box::new(others), Box::new(condition)),
            None => condition,
        });
        Ok(())
    }
}

fn condition(name: Name, reference: Reference<'_>) -> Result<Expression, ReferenceError> {
    let literal = match reference {
        Reference::Null => return Ok(Expression::IsPresent(name)),
        Reference::Other => Literal::Bool(false),
        Reference::Bool(truth) => Literal::Bool(truth),
        Reference::Integer(integer) => Literal::Integer(integer),
        Reference::Uint(integer) => Literal::Integer(integer.into()),
        Reference::Ulong(integer) => Literal::Integer(integer.into()),
        Reference::Timestamp(at_ms) => Literal::Integer(at_ms.into()),
        Reference::Float(float) => Literal::Float(float),
        Reference::Symbol(bytes) | Reference::Binary(bytes) => Literal::Binary(bytes.to_vec()),
        Reference::Uuid(bytes) => Literal::Binary(bytes.to_vec()),
        Reference::String(string) => match string.strip_prefix('&') {
            None => Literal::String(string.to_owned()),
            Some(escaped) if escaped.starts_with('&') => Literal::String(escaped.to_owned()),
            Some(modified) => {
                let pattern = if let Some(prefix) = modified.strip_prefix("p:") {
                    LikePattern::prefix(prefix)
                } else if let Some(suffix) = modified.strip_prefix("s:") {
                    LikePattern::suffix(suffix)
                } else {
                    return Err(ReferenceError::UnknownModifier);
                };
                return Ok(Expression::Like(Box::new(Expression::Field(name)), pattern));
            }
        },
    };
    // Values of these kinds are absent from messages, see `Fields`.
    let matches_nothing =
        reference == Reference::Other || matches!(reference, Reference::Float(float) if !float.is_finite());
    Ok(match matches_nothing {
        true => Expression::Literal(Literal::Bool(false)),
        false => Expression::Compare(
            Comparison::Equal,
            Box::new(Expression::Field(name)),
            Box::new(Expression::Literal(literal)),
        ),
    })
}
