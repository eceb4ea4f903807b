//! The conditions of an expression that must all be true.

use super::key::Key;
use super::predicate::Test;
use crate::compare::{list_order, negate};
use crate::expression::{Expression, Literal, Name};
use crate::found::Room;
use crate::function::Function;
use crate::json::Document;
use crate::operator::Comparison;
use crate::pattern::Matcher;
use crate::program::Program;
use crate::value::Value;

/// A condition of several that must all be true.
#[derive(Clone, Debug)]
pub(super) enum Condition<'e> {
    /// A question about one field.
    Simple(&'e Name, Test),
    True,
    /// False or unknown of every message.
    Never,
    /// Any of these.
    Either(Vec<&'e Expression>),
    Other,
}

/// The conditions of an expression that must all be true for it to be true.
pub(super) fn conditions(expression: &Expression) -> Vec<Condition<'_>> {
    let (mut conditions, mut open) = (Vec::new(), vec![expression]);
    while let Some(expression) = open.pop() {
        match expression {
            Expression::And(left, right) => open.extend([&**right, &**left]),
            Expression::Is(operand, Some(true)) => open.push(operand),
            _ => conditions.push(condition(expression)),
        }
    }
    conditions
}

fn condition(expression: &Expression) -> Condition<'_> {
    if let Some(truth) = constant(expression) {
        return if truth == Some(Key::Bool(true)) { Condition::True } else { Condition::Never };
    }
    match expression {
        Expression::Field(name) => Condition::Simple(name, Test::Compare(Comparison::Equal, Key::Bool(true))),
        Expression::Compare(comparison, left, right) => match (&**left, &**right) {
            (Expression::Field(name), other) => compared(name, *comparison, other),
            (other, Expression::Field(name)) => compared(name, comparison.exchanged(), other),
            _ => Condition::Other,
        },
        Expression::Between(value, least, most) => match (&**value, constant(least), constant(most)) {
            (Expression::Field(name), Some(Some(least)), Some(Some(most))) => {
                Condition::Simple(name, Test::Between(Box::new([least, most])))
            }
            (Expression::Field(_), Some(_), Some(_)) => Condition::Never,
            _ => Condition::Other,
        },
        Expression::In(value, entries) => match &**value {
            Expression::Field(name) => among(name, entries),
            _ => Condition::Other,
        },
        Expression::Like(value, pattern) => match &**value {
            Expression::Field(name) => Condition::Simple(name, Test::Like(pattern.matcher())),
            _ => Condition::Other,
        },
        Expression::Call(function @ (Function::StartsWith | Function::EndsWith), arguments) => {
            match &arguments[..] {
                [Expression::Field(name), part] => match constant(part) {
                    Some(Some(Key::Bytes(part))) => {
                        let is_start = *function == Function::StartsWith;
                        let (prefix, suffix) = if is_start { (part, [].into()) } else { ([].into(), part) };
                        Condition::Simple(name, Test::Like(Matcher::Affixes { prefix, suffix }))
                    }
                    Some(_) => Condition::Never,
                    None => Condition::Other,
                },
                _ => Condition::Other,
            }
        }
        Expression::Or(..) => {
            let (mut parts, mut open) = (Vec::new(), vec![expression]);
            while let Some(expression) = open.pop() {
                match expression {
                    Expression::Or(left, right) => open.extend([&**right, &**left]),
                    part => parts.push(part),
                }
            }
            Condition::Either(parts)
        }
        _ => Condition::Other,
    }
}

fn compared<'e>(name: &'e Name, comparison: Comparison, other: &Expression) -> Condition<'e> {
    match constant(other) {
        Some(Some(Key::Bool(_))) if !matches!(comparison, Comparison::Equal | Comparison::NotEqual) => {
            Condition::Never
        }
        Some(Some(key)) => Condition::Simple(name, Test::Compare(comparison, key)),
        Some(None) => Condition::Never,
        None => Condition::Other,
    }
}

fn among<'e>(name: &'e Name, entries: &[Expression]) -> Condition<'e> {
    let Some(keys) = entries.iter().map(constant).collect::<Option<Vec<_>>>() else {
        return Condition::Other;
    };
    let mut keys: Vec<Key> = keys.into_iter().flatten().collect();
    keys.sort_by(|left, right| list_order(left.value(), right.value()));
    keys.dedup_by(|left, right| list_order(left.value(), right.value()).is_eq());
    match keys.len() {
        0 => Condition::Never,
        1 => Condition::Simple(name, Test::Compare(Comparison::Equal, keys.remove(0))),
        _ => Condition::Simple(name, Test::Among(keys.into_boxed_slice())),
    }
}

/// The value of an expression that says the same of every message; `Some(None)`: null. None: it is no such.
fn constant(expression: &Expression) -> Option<Option<Key>> {
    match expression {
        Expression::Literal(literal) => return Some(Key::of(value(literal))),
        Expression::Minus(operand) => {
            if let Expression::Literal(literal) = &**operand {
                return Some(Key::of(negate(value(literal))));
            }
        }
        _ => {}
    }
    if !is_constant(expression) {
        return None;
    }
    let program = Program::compile(expression).ok()?;
    if program.fields().next().is_some() || program.is_timed() {
        return None;
    }
    let room = Room::default();
    Some(Key::of(program.evaluate(&Document(b""), &room, 0)))
}

fn value(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(truth) => Value::Bool(*truth),
        Literal::Integer(integer) => Value::Integer(*integer),
        Literal::Float(float) => Value::Float(*float),
        Literal::String(string) => Value::Bytes(string.as_bytes()),
        Literal::Binary(bytes) => Value::Bytes(bytes),
    }
}

/// Whether an expression is one of literals, operators and functions; what is not known here is taken not to be.
fn is_constant(expression: &Expression) -> bool {
    match expression {
        Expression::Literal(_) => true,
        Expression::Plus(operand) | Expression::Minus(operand) | Expression::Not(operand) => {
            is_constant(operand)
        }
        Expression::Arithmetic(_, left, right)
        | Expression::Compare(_, left, right)
        | Expression::And(left, right)
        | Expression::Or(left, right) => is_constant(left) && is_constant(right),
        Expression::Call(_, arguments) => arguments.iter().all(is_constant),
        _ => false,
    }
}
