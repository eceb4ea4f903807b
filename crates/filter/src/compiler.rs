//! From a tree to operations in a row.
//!
//! First the tree becomes one of [`Node`]s, in which all that is known without a message is a constant; then that
//! becomes operations, operands in the order they were written. Only where too many values would wait, the operand
//! that needs more places goes first: nothing that is evaluated has an effect, so the order is free.

use crate::compare::{both, calculate, compare, either, equal, list_order, negate, number};
use crate::error::{Error, ErrorKind};
use crate::expression::{Expression, Literal, Name};
use crate::found::Room;
use crate::machine::{between, like};
use crate::message::MessageField;
use crate::operation::{Change, Combine, Operation, Push};
use crate::operator::{Arithmetic, Comparison};
use crate::path::{Path, Paths};
use crate::pattern::{LikePattern, Matcher};
use crate::program::{Constant, Program, STACK_MAX, Slot};
use crate::regexp::Regexp;
use crate::replacement::Replacement;
use crate::shape::Shape;
use crate::site::Known;
use crate::topic::TopicPattern;
use crate::value::{Field, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    One(Change, Box<Node<'e>>),
    Two(Two, Box<Node<'e>>, Box<Node<'e>>),
    /// A value among constants.
    Member(Box<Node<'e>>, Vec<Value<'e>>),
    In(Box<Node<'e>>, Vec<Node<'e>>),
    /// Conditions and values, and the value behind all.
    Case(Vec<(Node<'e>, Node<'e>)>, Box<Node<'e>>),
    /// Operands one behind the other, and the operation on them.
    All(Operation, Vec<Node<'e>>),
    /// No operand.
    None(Push),
}

#[derive(Clone, Copy)]
enum Two {
    Compare(Comparison),
    Arithmetic(Arithmetic),
    And,
    Or,
}

/// `AND` or `OR` of two truths.
type OfTruths = fn(Option<bool>, Option<bool>) -> Option<bool>;

/// A jump that was written before its target was known: where, and which.
type Jump = (usize, fn(u32) -> Operation);

/// # Errors
/// See [`Program::compile`].
pub(crate) fn compile(expression: &Expression) -> Result<Program, Error> {
    let mut compiler = Compiler::default();
    let node = compiler.node(expression);
    if let Some(function) = compiler.unbound {
        return Err(Error { at: 0, kind: ErrorKind::NotKnown(function) });
    }
    if node.need > STACK_MAX {
        return Err(Error { at: 0, kind: ErrorKind::TooDeep { depth_max: STACK_MAX } });
    }
    compiler.emit(&node, 0);
    let reads = compiler.slots.iter().fold(Known::NONE, |known, slot| match slot {
        Slot::Message(field) => known.and(*field),
        _ => known,
    });
    let looks = compiler.operations.iter().filter(|operation| operation.loads()).count();
    Ok(Program {
        operations: compiler.operations.into_boxed_slice(),
        shape: Arc::new(Shape {
            fields: compiler.slots.into_boxed_slice(),
            paths: Paths::new(&compiler.paths),
            places: compiler.paths.into_boxed_slice(),
            names: compiler.names.into_boxed_str(),
        }),
        constants: compiler.constants.into_boxed_slice(),
        patterns: compiler.patterns.into_boxed_slice(),
        regexps: compiler.regexps.into_boxed_slice(),
        replacements: compiler.replacements.into_boxed_slice(),
        topics: compiler.topics.into_boxed_slice(),
        reads,
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
    regexps: Vec<Regexp>,
    replacements: Vec<Replacement>,
    topics: Vec<TopicPattern>,
    paths: Vec<Path>,
    names: String,
    bytes: Vec<u8>,
    stack: usize,
    /// A function of the client, where there is none.
    unbound: Option<&'static str>,
}

impl<'e> Compiler<'e> {
    fn node(&mut self, expression: &'e Expression) -> Node<'e> {
        match expression {
            Expression::Literal(literal) => constant(literal_value(literal)),
            Expression::Field(name) => Node { kind: Kind::Field(self.field(name)), need: 1 },
            Expression::Asked(asked) | Expression::AskedIsNull(asked) => {
                self.unbound = Some(asked.function());
                constant(Value::Null)
            }
            Expression::Utc => Node { kind: Kind::Utc, need: 1 },
            Expression::Plus(operand) => {
                let operand = self.node(operand);
                one(Change::Plus, operand, number)
            }
            Expression::Minus(operand) => {
                let operand = self.node(operand);
                one(Change::Minus, operand, negate)
            }
            Expression::Not(operand) => {
                let operand = self.node(operand);
                one(Change::Not, operand, |value| Value::of_truth(value.truth().map(|truth| !truth)))
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
            Expression::Like(subject, pattern) => self.like(subject, pattern),
            Expression::Regexp(subject, regexp) => self.regexp(subject, regexp),
            Expression::Replace(subject, replacement) => self.replace(subject, replacement),
            Expression::Topic(pattern) => self.topic(pattern),
            Expression::Between(value, least, most) => self.between([value, least, most]),
            Expression::Is(operand, truth) => {
                let operand = self.node(operand);
                one(Change::Is(*truth), operand, |value| Value::Bool(value.truth() == *truth))
            }
            Expression::Case(branches, otherwise) => self.case(branches, otherwise.as_deref()),
            Expression::Call(function, arguments) => {
                let arguments: Vec<_> = arguments.iter().map(|argument| self.node(argument)).collect();
                let count = u8::try_from(arguments.len()).expect("functions take few arguments");
                all(Operation::Call(*function, count), arguments)
            }
            Expression::In(value, entries) => self.list(value, entries),
            Expression::IsNull(name) => Node { kind: Kind::None(Push::IsNull(self.field(name))), need: 1 },
            Expression::IsPresent(name) => {
                Node { kind: Kind::None(Push::IsPresent(self.field(name))), need: 1 }
            }
        }
    }

    fn like(&mut self, subject: &'e Expression, pattern: &LikePattern) -> Node<'e> {
        let matcher = pattern.matcher();
        let subject = self.node(subject);
        if let Kind::Constant(value) = subject.kind {
            return constant(like(value, &matcher));
        }
        self.patterns.push(matcher);
        let need = subject.need;
        let change = Change::Like(number_of(self.patterns.len() - 1));
        Node { kind: Kind::One(change, Box::new(subject)), need }
    }

    fn regexp(&mut self, subject: &'e Expression, regexp: &Regexp) -> Node<'e> {
        let subject = self.node(subject);
        if let Kind::Constant(value) = subject.kind {
            return constant(regexp.matches(value, &Room::default()));
        }
        self.regexps.push(regexp.clone());
        let need = subject.need;
        let change = Change::Regexp(number_of(self.regexps.len() - 1));
        Node { kind: Kind::One(change, Box::new(subject)), need }
    }

    fn replace(&mut self, subject: &'e Expression, replacement: &Replacement) -> Node<'e> {
        let subject = self.node(subject);
        self.replacements.push(replacement.clone());
        let need = subject.need;
        let change = Change::Replace(number_of(self.replacements.len() - 1));
        Node { kind: Kind::One(change, Box::new(subject)), need }
    }

    fn topic(&mut self, pattern: &TopicPattern) -> Node<'e> {
        let key = Kind::Field(self.slot(Field::Message(MessageField::RoutingKey)));
        self.topics.push(pattern.clone());
        let change = Change::Topic(number_of(self.topics.len() - 1));
        Node { kind: Kind::One(change, Box::new(Node { kind: key, need: 1 })), need: 1 }
    }

    /// A value, the least and the most.
    fn between(&mut self, operands: [&'e Expression; 3]) -> Node<'e> {
        let operands = operands.map(|operand| self.node(operand));
        if let [Kind::Constant(value), Kind::Constant(least), Kind::Constant(most)] =
            operands.each_ref().map(|operand| &operand.kind)
        {
            return constant(between(*value, *least, *most));
        }
        all(Operation::Between, operands.into())
    }

    fn case(
        &mut self,
        branches: &'e [(Expression, Expression)],
        otherwise: Option<&'e Expression>,
    ) -> Node<'e> {
        let branches: Vec<_> =
            branches.iter().map(|(condition, value)| (self.node(condition), self.node(value))).collect();
        let otherwise = otherwise.map_or_else(|| constant(Value::Null), |value| self.node(value));
        let of_branches = branches.iter().map(|(condition, value)| condition.need.max(value.need));
        let need = of_branches.max().unwrap_or(0).max(otherwise.need);
        Node { kind: Kind::Case(branches, Box::new(otherwise)), need }
    }

    fn logic(&mut self, logic: Two, left: &'e Expression, right: &'e Expression) -> Node<'e> {
        let (left, right) = (self.node(left), self.node(right));
        // `AND` is decided by one that is false, `OR` by one that is true.
        let (combine, decisive): (OfTruths, bool) = match logic {
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
        self.slot(name.field())
    }

    fn slot(&mut self, field: Field<'e>) -> u32 {
        if let Some(&number) = self.fields.get(&field) {
            return number;
        }
        let slot = match field {
            Field::Priority => Slot::Priority,
            Field::Property(property) => Slot::Property(property),
            Field::ApplicationProperty(name) => {
                let (start, end) = self.named(name);
                Slot::ApplicationProperty { start, end }
            }
            Field::Annotation(name) => {
                let (start, end) = self.named(name);
                Slot::Annotation { start, end }
            }
            Field::Message(field) => Slot::Message(field),
            Field::Body(path) => {
                self.paths.push(path.clone());
                Slot::Body(number_of(self.paths.len() - 1))
            }
        };
        let number = number_of(self.slots.len());
        self.slots.push(slot);
        self.fields.insert(field, number);
        number
    }

    /// Where a name is among all names.
    fn named(&mut self, name: &str) -> (u32, u32) {
        let start = number_of(self.names.len());
        self.names.push_str(name);
        (start, number_of(self.names.len()))
    }

    fn constant(&mut self, value: Value<'_>) -> u32 {
        let constant = match value {
            // An expression has no others in it.
            Value::Null | Value::Untyped(_) | Value::Composite | Value::Unreadable | Value::Several(_) => {
                Constant::Null
            }
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
                self.push(Push::Constant(constant), height);
            }
            Kind::Field(field) => self.push(Push::Field(*field), height),
            Kind::Utc => self.push(Push::Utc, height),
            Kind::None(push) => self.push(*push, height),
            Kind::CompareField(comparison, field, value) => {
                let constant = self.constant(*value);
                let push = Push::CompareField { comparison: *comparison, field: *field, constant };
                self.push(push, height);
            }
            Kind::One(change, operand) => {
                self.emit(operand, height);
                self.operations.push(Operation::Change(*change));
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
                    Two::Compare(comparison) if is_exchanged => {
                        Operation::Combine(Combine::Compare(comparison.exchanged()))
                    }
                    Two::Compare(comparison) => Operation::Combine(Combine::Compare(comparison)),
                    Two::Arithmetic(arithmetic) => {
                        Operation::Combine(Combine::Arithmetic { arithmetic, is_exchanged })
                    }
                    Two::And => Operation::Combine(Combine::And),
                    Two::Or => Operation::Combine(Combine::Or),
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
                let end = number_of(self.constants.len());
                self.operations.push(Operation::Change(Change::Member { first, end }));
            }
            Kind::Case(branches, otherwise) => {
                let mut ends = Vec::new();
                for (condition, value) in branches {
                    self.emit(condition, height);
                    let next = self.jump(Operation::JumpUnlessTrue);
                    self.emit(value, height);
                    ends.push(self.jump(Operation::Jump));
                    self.land(&[next]);
                }
                self.emit(otherwise, height);
                self.land(&ends);
            }
            Kind::All(operation, operands) => {
                for (place, operand) in operands.iter().enumerate() {
                    self.emit(operand, height + place);
                }
                self.operations.push(*operation);
            }
            Kind::In(value, entries) => {
                self.emit(value, height);
                let mut jumps = vec![self.jump(Operation::JumpIfNull)];
                for entry in entries {
                    self.emit(entry, height + 1);
                    jumps.push(self.jump(Operation::Entry));
                }
                self.operations.push(Operation::Change(Change::NoEntry));
                self.land(&jumps);
            }
        }
    }

    fn push(&mut self, push: Push, height: usize) {
        self.operations.push(Operation::Push(push));
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

fn one<'e>(change: Change, operand: Node<'e>, fold: impl FnOnce(Value<'e>) -> Value<'static>) -> Node<'e> {
    match operand.kind {
        Kind::Constant(value) => constant(fold(value)),
        _ => {
            let need = operand.need;
            Node { kind: Kind::One(change, Box::new(operand)), need }
        }
    }
}

fn two<'e>(two: Two, left: Node<'e>, right: Node<'e>) -> Node<'e> {
    // The one that needs more goes first if it must be; only two alike need a place more than each.
    let need = if left.need == right.need { left.need + 1 } else { left.need.max(right.need) };
    Node { kind: Kind::Two(two, Box::new(left), Box::new(right)), need }
}

fn all<'e>(operation: Operation, operands: Vec<Node<'e>>) -> Node<'e> {
    let need =
        operands.iter().enumerate().map(|(place, operand)| place + operand.need).max().unwrap_or(0).max(1);
    Node { kind: Kind::All(operation, operands), need }
}

fn literal_value(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
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
