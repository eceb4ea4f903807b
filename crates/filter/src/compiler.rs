//! From a tree to operations in a row.
//!
//! First the tree becomes one of [`Node`]s, in which all that is known without a message is a constant; then that
//! becomes operations, operands in the order they were written. Only where too many values would wait, the operand
//! that needs more places goes first: nothing that is evaluated has an effect, so the order is free.

use crate::compare::{both, calculate, compare, either, equal, list_order, negate, number};
use crate::error::{Error, ErrorKind};
use crate::expression::{Arithmetic, Comparison, Expression, Literal, Name};
use crate::pattern::Matcher;
use crate::program::{Constant, Operation, Program, STACK_MAX, Slot, like};
use crate::value::{Field, Value};
use std::collections::BTreeMap;

/// The remaining work as a tree, and the places on the stack it cannot do without.
struct Node<'e> {
    kind: Kind<'e>,
    need: usize,
}

enum Kind<'e> {
    Constant(Value<'e>),
    Field(u32),
    Utc,
    CompareField(Comparison, u32, Value<'e>),
    /// One operand and the operation on it.
    One(Operation, Box<Node<'e>>),
    Two(Two, Box<Node<'e>>, Box<Node<'e>>),
    /// A value among constants.
    Member(Box<Node<'e>>, Vec<Value<'e>>),
    In(Box<Node<'e>>, Vec<Node<'e>>),
    /// No operand.
    None(Operation),
}

#[derive(Clone, Copy)]
enum Two {
    Compare(Comparison),
    Arithmetic(Arithmetic),
    And,
    Or,
}

/// `AND` or `OR` of two truths.
type Combine = fn(Option<bool>, Option<bool>) -> Option<bool>;

/// A jump that was written before its target was known: where, and which.
type Jump = (usize, fn(u32) -> Operation);

/// # Errors
/// See [`Program::compile`].
pub(crate) fn compile(expression: &Expression) -> Result<Program, Error> {
    let mut compiler = Compiler::default();
    let node = compiler.node(expression);
    if node.need > STACK_MAX {
        return Err(Error { at: 0, kind: ErrorKind::TooDeep { depth_max: STACK_MAX } });
    }
    compiler.emit(&node, 0);
    let loads = compiler.operations.iter().filter(|operation| operation.loads()).count();
    let looks = loads + compiler.patterns.iter().map(Matcher::words).sum::<usize>();
    Ok(Program {
        operations: compiler.operations.into_boxed_slice(),
        fields: compiler.slots.into_boxed_slice(),
        constants: compiler.constants.into_boxed_slice(),
        patterns: compiler.patterns.into_boxed_slice(),
        names: compiler.names.into_boxed_str(),
        bytes: compiler.bytes.into_boxed_slice(),
        stack: compiler.stack,
        looks,
    })
}

#[derive(Default)]
struct Compiler<'e> {
    operations: Vec<Operation>,
    fields: BTreeMap<Field<'e>, u32>,
    slots: Vec<Slot>,
    constants: Vec<Constant>,
    patterns: Vec<Matcher>,
    names: String,
    bytes: Vec<u8>,
    stack: usize,
}

impl<'e> Compiler<'e> {
    fn node(&mut self, expression: &'e Expression) -> Node<'e> {
        match expression {
            Expression::Literal(literal) => constant(literal_value(literal)),
            Expression::Field(name) => Node { kind: Kind::Field(self.field(name)), need: 1 },
            Expression::Utc => Node { kind: Kind::Utc, need: 1 },
            Expression::Plus(operand) => {
                let operand = self.node(operand);
                one(Operation::Plus, operand, number)
            }
            Expression::Minus(operand) => {
                let operand = self.node(operand);
                one(Operation::Minus, operand, negate)
            }
            Expression::Not(operand) => {
                let operand = self.node(operand);
                one(Operation::Not, operand, |value| Value::of_truth(value.truth().map(|truth| !truth)))
            }
            Expression::Arithmetic(arithmetic, left, right) => {
                let (left, right) = (self.node(left), self.node(right));
                match (&left.kind, &right.kind) {
                    (Kind::Constant(left), Kind::Constant(right)) => {
                        constant(calculate(*arithmetic, *left, *right))
                    }
                    _ => two(Two::Arithmetic(*arithmetic), left, right),
                }
            }
            Expression::Compare(comparison, left, right) => {
                let (left, right) = (self.node(left), self.node(right));
                match (&left.kind, &right.kind) {
                    (Kind::Constant(left), Kind::Constant(right)) => {
                        constant(compare(*comparison, *left, *right))
                    }
                    (Kind::Field(field), Kind::Constant(value)) => {
                        Node { kind: Kind::CompareField(*comparison, *field, *value), need: 1 }
                    }
                    (Kind::Constant(value), Kind::Field(field)) => {
                        Node { kind: Kind::CompareField(comparison.exchanged(), *field, *value), need: 1 }
                    }
                    _ => two(Two::Compare(*comparison), left, right),
                }
            }
            Expression::And(left, right) => self.logic(Two::And, left, right),
            Expression::Or(left, right) => self.logic(Two::Or, left, right),
            Expression::Like(subject, pattern) => {
                let subject = self.node(subject);
                let matcher = pattern.matcher();
                if let Kind::Constant(value) = subject.kind {
                    return constant(like(value, &matcher));
                }
                self.patterns.push(matcher);
                let need = subject.need;
                let operation = Operation::Like(number_of(self.patterns.len() - 1));
                Node { kind: Kind::One(operation, Box::new(subject)), need }
            }
            Expression::In(value, entries) => self.list(value, entries),
            Expression::IsNull(name) => {
                Node { kind: Kind::None(Operation::IsNull(self.field(name))), need: 1 }
            }
            Expression::IsPresent(name) => {
                Node { kind: Kind::None(Operation::IsPresent(self.field(name))), need: 1 }
            }
        }
    }

    fn logic(&mut self, logic: Two, left: &'e Expression, right: &'e Expression) -> Node<'e> {
        let (left, right) = (self.node(left), self.node(right));
        // `AND` is decided by one that is false, `OR` by one that is true.
        let (combine, decisive): (Combine, bool) = match logic {
            Two::And => (both, false),
            _ => (either, true),
        };
        let value = |node: &Node<'e>| match node.kind {
            Kind::Constant(value) => Some(value),
            _ => None,
        };
        match (value(&left), value(&right)) {
            (Some(left), Some(right)) => constant(Value::of_truth(combine(left.truth(), right.truth()))),
            // The other operand does not count then; otherwise it must still be turned into a truth.
            (Some(Value::Bool(truth)), _) | (_, Some(Value::Bool(truth))) if truth == decisive => {
                constant(Value::Bool(decisive))
            }
            _ => two(logic, left, right),
        }
    }

    fn list(&mut self, value: &'e Expression, entries: &'e [Expression]) -> Node<'e> {
        let value = self.node(value);
        let entries = entries.iter().map(|entry| self.node(entry)).collect::<Vec<_>>();
        let constants = entries.iter().map(|entry| match entry.kind {
            Kind::Constant(value) => Some(value),
            _ => None,
        });
        let Some(mut constants) = constants.collect::<Option<Vec<_>>>() else {
            let entries_need = entries.iter().map(|entry| entry.need).max().unwrap_or(0);
            let need = value.need.max(1 + entries_need);
            return Node { kind: Kind::In(Box::new(value), entries), need };
        };
        if let Kind::Constant(value) = value.kind {
            return constant(match value {
                Value::Null => Value::Null,
                _ => Value::Bool(constants.iter().any(|entry| equal(*entry, value))),
            });
        }
        constants.retain(|value| *value != Value::Null);
        constants.sort_by(|left, right| list_order(*left, *right));
        constants.dedup_by(|left, right| list_order(*left, *right).is_eq());
        let need = value.need;
        Node { kind: Kind::Member(Box::new(value), constants), need }
    }

    fn field(&mut self, name: &'e Name) -> u32 {
        let field = name.field();
        if let Some(&number) = self.fields.get(&field) {
            return number;
        }
        let slot = match field {
            Field::Priority => Slot::Priority,
            Field::Property(property) => Slot::Property(property),
            Field::ApplicationProperty(name) => {
                let start = number_of(self.names.len());
                self.names.push_str(name);
                Slot::ApplicationProperty { start, end: number_of(self.names.len()) }
            }
        };
        let number = number_of(self.slots.len());
        self.slots.push(slot);
        self.fields.insert(field, number);
        number
    }

    fn constant(&mut self, value: Value<'_>) -> u32 {
        let constant = match value {
            Value::Null => Constant::Null,
            Value::Bool(truth) => Constant::Bool(truth),
            Value::Integer(integer) => Constant::Integer(integer),
            Value::Float(float) => Constant::Float(float),
            Value::Bytes(bytes) => {
                let start = number_of(self.bytes.len());
                self.bytes.extend_from_slice(bytes);
                Constant::Bytes { start, end: number_of(self.bytes.len()) }
            }
        };
        self.constants.push(constant);
        number_of(self.constants.len() - 1)
    }

    /// Writes the operations that push the value of a node on a stack of `height` values.
    ///
    /// Invariant: `height + node.need` is at most [`STACK_MAX`], and so it is for every operand.
    fn emit(&mut self, node: &Node<'e>, height: usize) {
        match &node.kind {
            Kind::Constant(value) => {
                let constant = self.constant(*value);
                self.push(Operation::Constant(constant), height);
            }
            Kind::Field(field) => self.push(Operation::Field(*field), height),
            Kind::Utc => self.push(Operation::Utc, height),
            Kind::None(operation) => self.push(*operation, height),
            Kind::CompareField(comparison, field, value) => {
                let constant = self.constant(*value);
                let operation = Operation::CompareField { comparison: *comparison, field: *field, constant };
                self.push(operation, height);
            }
            Kind::One(operation, operand) => {
                self.emit(operand, height);
                self.operations.push(*operation);
            }
            Kind::Two(two, left, right) => {
                let is_exchanged = height + 1 + right.need > STACK_MAX;
                let (first, second) = if is_exchanged { (right, left) } else { (left, right) };
                self.emit(first, height);
                let jump = match two {
                    Two::And => Some(self.jump(Operation::JumpIfFalse)),
                    Two::Or => Some(self.jump(Operation::JumpIfTrue)),
                    Two::Compare(_) | Two::Arithmetic(_) => None,
                };
                self.emit(second, height + 1);
                self.operations.push(match *two {
                    Two::Compare(comparison) if is_exchanged => Operation::Compare(comparison.exchanged()),
                    Two::Compare(comparison) => Operation::Compare(comparison),
                    Two::Arithmetic(arithmetic) => Operation::Arithmetic { arithmetic, is_exchanged },
                    Two::And => Operation::And,
                    Two::Or => Operation::Or,
                });
                if let Some(jump) = jump {
                    self.land(&[jump]);
                }
            }
            Kind::Member(value, entries) => {
                self.emit(value, height);
                let first = number_of(self.constants.len());
                for entry in entries {
                    self.constant(*entry);
                }
                self.operations.push(Operation::Member { first, end: number_of(self.constants.len()) });
            }
            Kind::In(value, entries) => {
                self.emit(value, height);
                let mut jumps = vec![self.jump(Operation::JumpIfNull)];
                for entry in entries {
                    self.emit(entry, height + 1);
                    jumps.push(self.jump(Operation::Entry));
                }
                self.operations.push(Operation::NoEntry);
                self.land(&jumps);
            }
        }
    }

    fn push(&mut self, operation: Operation, height: usize) {
        self.operations.push(operation);
        self.stack = self.stack.max(height + 1);
    }

    /// Writes a jump whose target [`Compiler::land`] will tell.
    fn jump(&mut self, jump: fn(u32) -> Operation) -> Jump {
        self.operations.push(jump(0));
        (self.operations.len() - 1, jump)
    }

    /// Makes these jumps lead to the operation that is written next.
    fn land(&mut self, jumps: &[Jump]) {
        let target = number_of(self.operations.len());
        for (index, jump) in jumps {
            self.operations[*index] = jump(target);
        }
    }
}

fn constant(value: Value<'_>) -> Node<'_> {
    Node { kind: Kind::Constant(value), need: 1 }
}

fn one<'e>(
    operation: Operation,
    operand: Node<'e>,
    fold: impl FnOnce(Value<'e>) -> Value<'static>,
) -> Node<'e> {
    match operand.kind {
        Kind::Constant(value) => constant(fold(value)),
        _ => {
            let need = operand.need;
            Node { kind: Kind::One(operation, Box::new(operand)), need }
        }
    }
}

fn two<'e>(two: Two, left: Node<'e>, right: Node<'e>) -> Node<'e> {
    // The one that needs more goes first if it must be; only two alike need a place more than each.
    let need = if left.need == right.need { left.need + 1 } else { left.need.max(right.need) };
    Node { kind: Kind::Two(two, Box::new(left), Box::new(right)), need }
}

fn literal_value(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Bool(truth) => Value::Bool(*truth),
        Literal::Integer(integer) => Value::Integer(*integer),
        Literal::Float(float) => Value::Float(*float),
        Literal::String(string) => Value::Bytes(string.as_bytes()),
        Literal::Binary(bytes) => Value::Bytes(bytes),
    }
}

/// The number of something a program has: there are fewer than characters in an expression, which are counted in
/// less than 32 bits.
fn number_of(count: usize) -> u32 {
    u32::try_from(count).expect("an expression is shorter than 4 GiB")
}
