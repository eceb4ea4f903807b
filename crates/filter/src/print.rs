//! An expression as text that parses to the same tree again.
//!
//! Not so where the language has no form: a negative literal comes back as a sign and its operand, a name with a
//! control character and [`Expression::IsPresent`] do not come back at all. Only reference values make such.

use crate::expression::{Arithmetic, Comparison, Expression, Literal, Name};
use crate::lexer::is_regular;
use std::fmt::{self, Display, Formatter, Write};

/// How tightly an expression binds: the levels of the grammar, loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Any,
    All,
    Negation,
    Condition,
    Sum,
    Product,
    Signed,
    Operand,
}

fn level(expression: &Expression) -> Level {
    match expression {
        Expression::Or(..) => Level::Any,
        Expression::And(..) => Level::All,
        Expression::Not(_) => Level::Negation,
        Expression::Compare(..)
        | Expression::Like(..)
        | Expression::In(..)
        | Expression::IsNull(_)
        | Expression::IsPresent(_) => Level::Condition,
        Expression::Arithmetic(Arithmetic::Add | Arithmetic::Subtract, ..) => Level::Sum,
        Expression::Arithmetic(..) => Level::Product,
        Expression::Plus(_) | Expression::Minus(_) => Level::Signed,
        Expression::Literal(Literal::Integer(integer)) if *integer < 0 => Level::Signed,
        Expression::Literal(Literal::Float(float)) if float.is_sign_negative() => Level::Signed,
        Expression::Literal(_) | Expression::Field(_) | Expression::Utc => Level::Operand,
    }
}

impl Display for Expression {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Literal(literal) => literal.fmt(out),
            Expression::Field(name) => name.fmt(out),
            Expression::Utc => out.write_str("UTC()"),
            Expression::Plus(operand) => write!(out, "+{}", At(Level::Operand, operand)),
            Expression::Minus(operand) => write!(out, "-{}", At(Level::Operand, operand)),
            Expression::Arithmetic(sign, left, right) => {
                let (left_level, right_level) = match sign {
                    Arithmetic::Add | Arithmetic::Subtract => (Level::Sum, Level::Product),
                    _ => (Level::Product, Level::Signed),
                };
                write!(out, "{} {sign} {}", At(left_level, left), At(right_level, right))
            }
            Expression::Compare(sign, left, right) => {
                write!(out, "{} {sign} {}", At(Level::Sum, left), At(Level::Sum, right))
            }
            Expression::Like(subject, pattern) => {
                write!(out, "{} LIKE ", At(Level::Sum, subject))?;
                quoted(out, pattern.text())?;
                let Some(escape) = pattern.escape() else { return Ok(()) };
                out.write_str(" ESCAPE ")?;
                quoted(out, escape.encode_utf8(&mut [0; 4]))
            }
            Expression::In(value, entries) => {
                write!(out, "{} IN (", At(Level::Sum, value))?;
                for (index, entry) in entries.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(out, "{comma}{}", At(Level::Sum, entry))?;
                }
                out.write_char(')')
            }
            Expression::IsNull(name) => write!(out, "{name} IS NULL"),
            Expression::IsPresent(name) => write!(out, "{name} IS PRESENT"),
            Expression::Not(operand) => write!(out, "NOT {}", At(Level::Negation, operand)),
            Expression::And(left, right) => {
                write!(out, "{} AND {}", At(Level::All, left), At(Level::Negation, right))
            }
            Expression::Or(left, right) => {
                write!(out, "{} OR {}", At(Level::Any, left), At(Level::All, right))
            }
        }
    }
}

/// An expression where one of at least this level is wanted: in brackets if it binds more loosely.
struct At<'a>(Level, &'a Expression);

impl Display for At<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let At(wanted, expression) = *self;
        if level(expression) < wanted { write!(out, "({expression})") } else { expression.fmt(out) }
    }
}

impl Display for Literal {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Bool(true) => out.write_str("TRUE"),
            Literal::Bool(false) => out.write_str("FALSE"),
            Literal::Integer(integer) => integer.fmt(out),
            Literal::Float(float) => {
                // A point with digits on both sides is what makes a number approximate.
                let digits = format!("{float:E}");
                match digits.split_once('E') {
                    Some((whole, exponent)) if !whole.contains('.') => write!(out, "{whole}.0E{exponent}"),
                    _ => out.write_str(&digits),
                }
            }
            Literal::String(string) => quoted(out, string),
            Literal::Binary(bytes) => {
                out.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(out, "{byte:02X}"))
            }
        }
    }
}

impl Display for Name {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Name::Priority => out.write_str("header.priority"),
            Name::Property(property) => write!(out, "properties.{}", property.name()),
            Name::ApplicationProperty(name) if is_regular(name) => out.write_str(name),
            Name::ApplicationProperty(name) => {
                write!(out, "[{}]", name.replace('[', "[[").replace(']', "]]"))
            }
        }
    }
}

impl Display for Arithmetic {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Remainder => "%",
        })
    }
}

impl Display for Comparison {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        })
    }
}

fn quoted(out: &mut Formatter<'_>, string: &str) -> fmt::Result {
    write!(out, "'{}'", string.replace('\'', "''"))
}
