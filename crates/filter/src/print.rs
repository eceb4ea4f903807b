//! An expression as text that parses to the same tree again.
//!
//! Not so where the language has no form: a negative literal comes back as a sign and its operand, a name with a
//! control character and [`Expression::IsPresent`] do not come back at all. Only reference values make such. A literal
//! null, of a client, comes back as a function that has none.

use crate::expression::{Expression, Literal, Name};
use crate::lexer::is_regular;
use crate::operator::{Arithmetic, Comparison};
use crate::path::Step;
use crate::value::Field;
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
        | Expression::Between(..)
        | Expression::Is(..)
        | Expression::In(..)
        | Expression::IsNull(_)
        | Expression::AskedIsNull(_)
        | Expression::IsPresent(_) => Level::Condition,
        Expression::Arithmetic(Arithmetic::Add | Arithmetic::Subtract, ..) => Level::Sum,
        Expression::Arithmetic(..) => Level::Product,
        Expression::Plus(_) | Expression::Minus(_) => Level::Signed,
        Expression::Literal(Literal::Integer(integer)) if *integer < 0 => Level::Signed,
        Expression::Literal(Literal::Float(float)) if float.is_sign_negative() => Level::Signed,
        Expression::Literal(_)
        | Expression::Field(_)
        | Expression::Asked(_)
        | Expression::Utc
        | Expression::Case(..)
        | Expression::Call(..)
        | Expression::Replace(..)
        | Expression::Topic(_)
        | Expression::Regexp(..) => Level::Operand,
    }
}

impl Display for Expression {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Literal(literal) => literal.fmt(out),
            Expression::Field(name) => name.fmt(out),
            Expression::Asked(asked) => asked.fmt(out),
            Expression::AskedIsNull(asked) => write!(out, "{asked} IS NULL"),
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
            Expression::Between(value, least, most) => {
                let [value, least, most] = [value, least, most].map(|operand| At(Level::Sum, operand));
                write!(out, "{value} BETWEEN {least} AND {most}")
            }
            Expression::Is(operand, truth) => {
                write!(out, "{} IS ", At(Level::Sum, operand))?;
                out.write_str(match truth {
                    Some(true) => "TRUE",
                    Some(false) => "FALSE",
                    None => "UNKNOWN",
                })
            }
            Expression::Regexp(subject, regexp) => {
                write!(out, "REGEXP_LIKE({}, ", At(Level::Sum, subject))?;
                quoted(out, regexp.text())?;
                out.write_str(if regexp.ignores_case() { ", 'i')" } else { ")" })
            }
            Expression::Replace(subject, replacement) => {
                write!(out, "REGEXP_REPLACE({}, ", At(Level::Sum, subject))?;
                quoted(out, replacement.text())?;
                out.write_str(", ")?;
                quoted(out, replacement.with())?;
                out.write_str(if replacement.ignores_case() { ", 'i')" } else { ")" })
            }
            Expression::Topic(pattern) => {
                out.write_str("TOPIC_MATCH(")?;
                quoted(out, pattern.text())?;
                out.write_char(')')
            }
            Expression::Case(branches, otherwise) => {
                out.write_str("CASE")?;
                for (condition, value) in branches {
                    write!(out, " WHEN {condition} THEN {}", At(Level::Sum, value))?;
                }
                if let Some(value) = otherwise {
                    write!(out, " ELSE {}", At(Level::Sum, value))?;
                }
                out.write_str(" END")
            }
            Expression::Call(function, arguments) if function.is_cast() => {
                let of = arguments.first().into_iter().map(|argument| At(Level::Sum, argument));
                of.into_iter().try_for_each(|argument| write!(out, "CAST({argument} AS {})", function.name()))
            }
            Expression::Call(function, arguments) => {
                write!(out, "{}(", function.name())?;
                listed(out, arguments)?;
                out.write_char(')')
            }
            Expression::In(value, entries) => {
                write!(out, "{} IN (", At(Level::Sum, value))?;
                listed(out, entries)?;
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
            // An expression without a value.
            Literal::Null => out.write_str("NULLIF(0, 0)"),
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
        self.field().fmt(out)
    }
}

impl Display for Field<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Field::Priority => out.write_str("header.priority"),
            Field::Property(property) => write!(out, "properties.{}", property.name()),
            Field::ApplicationProperty(name) if is_regular(name) => out.write_str(name),
            Field::ApplicationProperty(name) => {
                write!(out, "[{}]", name.replace('[', "[[").replace(']', "]]"))
            }
            Field::Annotation(name) => {
                out.write_str("annotations")?;
                step(out, name)
            }
            Field::Message(field) => write!(out, "{}()", field.name()),
            Field::Body(path) => {
                out.write_str("body")?;
                path.steps().iter().try_for_each(|one| match one {
                    Step::Name(name) => step(out, name),
                    Step::Number(place) => write!(out, "[{place}]"),
                    Step::Each => out.write_str("[*]"),
                })
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

fn listed(out: &mut Formatter<'_>, expressions: &[Expression]) -> fmt::Result {
    for (index, expression) in expressions.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(out, "{comma}{}", At(Level::Sum, expression))?;
    }
    Ok(())
}

/// A step by name: behind a point if it can stand there.
fn step(out: &mut Formatter<'_>, name: &str) -> fmt::Result {
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if starts && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return write!(out, ".{name}");
    }
    out.write_char('[')?;
    quoted(out, name)?;
    out.write_char(']')
}

pub(crate) fn quoted(out: &mut Formatter<'_>, string: &str) -> fmt::Result {
    write!(out, "'{}'", string.replace('\'', "''"))
}
