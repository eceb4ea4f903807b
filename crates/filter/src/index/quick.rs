//! Programs of filters in a short form: what is left of them to ask beside predicates is numbers.
//!
//! A filter that its conditions alone do not decide has its program run, which costs more than all else about it: its parts
//! lie here and there in memory, each value is one of nine kinds, and whatever others asked already is asked again. Most
//! such programs compare fields with constants and reckon with numbers. Those have a short form beside: comparisons are
//! predicates, which have one answer for all filters, numbers are of 64 bits, and the steps of all filters lie one behind
//! the other. A step meets no more than it was made for: where a value is of another kind, a sum has no room in 64 bits, or a
//! predicate is dear, the run gives up, and the program is run. So its verdict is that of the program, or none.

mod draft;

use super::predicate::{Answer, Test};
use crate::compare::{both, calculate, compare, either};
use crate::operator::{Arithmetic, Comparison};
use crate::program::Program;
use crate::value::Value;
use draft::{Draft, drafts};

/// Values that may wait at once.
const STACK: usize = 8;

/// Steps of one form; a longer program is run.
const STEPS_MAX: usize = 64;

/// The form that a filter has which has none: its place is where all begin.
pub(super) const NONE: u32 = 0;

/// A step.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many steps follow.
    Begin(u32),
    /// The answer of a predicate.
    Ask(u32),
    /// The whole is true if the answer of a predicate is the wanted one; or, unless it `passes`, is not true if it is another.
    Decide {
        predicate: u32,
        is_wanted: bool,
        passes: bool,
    },
    /// The whole is true if this is on top, which is taken off.
    Accept,
    /// The whole is not true unless this is on top, which is taken off.
    Reject,
    /// Whether a field compares so with a number.
    CompareInteger {
        place: u32,
        comparison: Comparison,
        number: i64,
    },
    CompareFloat {
        place: u32,
        comparison: Comparison,
        number: f64,
    },
    /// The value of a field.
    Load(u32),
    /// Whether there is something at a field, or nothing.
    Presence {
        place: u32,
        is_wanted: bool,
    },
    PushTruth(Option<bool>),
    PushInteger(i64),
    PushFloat(f64),
    Compare(Comparison),
    CompareWithInteger(Comparison, i64),
    CompareWithFloat(Comparison, f64),
    Arithmetic {
        arithmetic: Arithmetic,
        is_exchanged: bool,
    },
    WithInteger(Arithmetic, i64),
    WithFloat(Arithmetic, f64),
    And,
    Or,
    Not,
    Is(Option<bool>),
    /// Go on so many steps further if this is on top, and leave it there.
    JumpIfFalse(u32),
    JumpIfTrue(u32),
    End,
}

const _: () = assert!(size_of::<Step>() == 16, "four to a line of memory");

/// A value on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item {
    Unknown,
    Truth(bool),
    Integer(i64),
    Float(f64),
    /// Of another kind.
    Other,
}

impl Item {
    pub(super) fn of(value: Value<'_>) -> Item {
        match value {
            Value::Null | Value::Composite | Value::Unreadable => Item::Unknown,
            Value::Bool(truth) => Item::Truth(truth),
            Value::Integer(integer) => i64::try_from(integer).map_or(Item::Other, Item::Integer),
            Value::Float(float) => Item::Float(float),
            Value::Bytes(_) | Value::Untyped(_) | Value::Several(_) => Item::Other,
        }
    }

    #[inline]
    fn of_truth(truth: Option<bool>) -> Item {
        truth.map_or(Item::Unknown, Item::Truth)
    }

    fn value(self) -> Value<'static> {
        match self {
            Item::Unknown => Value::Null,
            Item::Truth(truth) => Value::Bool(truth),
            Item::Integer(integer) => Value::Integer(integer.into()),
            Item::Float(float) => Value::Float(float),
            Item::Other => unreachable!("a run gives up before it reckons with it"),
        }
    }

    /// Its truth; none: it is of another kind.
    #[inline]
    fn truth(self) -> Option<Option<bool>> {
        match self {
            Item::Truth(truth) => Some(Some(truth)),
            Item::Unknown | Item::Integer(_) | Item::Float(_) => Some(None),
            Item::Other => None,
        }
    }
}

/// The message that is asked.
pub(super) trait Asked {
    /// The value of a field.
    fn item(&mut self, place: u32) -> Item;

    /// Whether something is there that is not null, which may be unknown of a body.
    fn is_there(&self, place: u32) -> Option<bool>;

    /// The answer of a predicate.
    fn answer(&mut self, predicate: u32) -> Answer;
}

/// The short forms of filters, one behind the other.
#[derive(Clone, Debug)]
pub(super) struct Quick {
    steps: Vec<Step>,
    /// Steps of filters that are gone.
    dead: usize,
}

impl Default for Quick {
    fn default() -> Quick {
        // Nobody runs the first one.
        Quick { steps: vec![Step::End], dead: 0 }
    }
}

impl Quick {
    /// Adds the short form of a program, if it has one: where it begins, else [`NONE`]. `places` are those of its fields; `share`
    /// gives the number of a predicate that has one more user.
    pub(super) fn add(
        &mut self,
        program: &Program,
        places: &[u32],
        mut share: impl FnMut(u32, Test) -> u32,
    ) -> u32 {
        let Some(drafts) = drafts(program, places) else { return NONE };
        let begin = self.steps.len();
        self.steps.push(Step::Begin(drafts.len() as u32));
        self.steps.extend(drafts.into_iter().map(|draft| match draft {
            Draft::Step(step) => step,
            Draft::Ask(place, test) => Step::Ask(share(place, test)),
            Draft::Decide { place, test, is_wanted, passes } => {
                Step::Decide { predicate: share(place, test), is_wanted, passes }
            }
            Draft::Jump { .. } | Draft::Gone => unreachable!("they are closed"),
        }));
        self.steps.push(Step::End);
        begin as u32
    }

    /// Takes a form away. `leave` is told the predicates that it has one use less of.
    pub(super) fn remove(&mut self, begin: u32, mut leave: impl FnMut(u32)) {
        if begin == NONE {
            return;
        }
        for step in &mut self.steps[begin as usize..] {
            match std::mem::replace(step, Step::End) {
                Step::Ask(predicate) | Step::Decide { predicate, .. } => leave(predicate),
                Step::End => break,
                _ => {}
            }
            self.dead += 1;
        }
        self.dead += 1;
    }

    /// Whether more is gone than is there, and much: then it is to be [made anew](Quick::renew).
    pub(super) fn is_sparse(&self) -> bool {
        self.dead > 1024 && self.dead > self.steps.len() / 2
    }

    /// Closes ranks. `begins` are where the forms begin that are there, which they are told anew.
    pub(super) fn renew<'b>(&mut self, begins: impl Iterator<Item = &'b mut u32>) {
        let before = std::mem::take(self);
        for begin in begins.filter(|begin| **begin != NONE) {
            let from = std::mem::replace(begin, self.steps.len() as u32) as usize;
            let length = before.steps[from..].iter().position(|step| matches!(step, Step::End));
            let end = from + length.expect("each has an end");
            self.steps.extend_from_slice(&before.steps[from..=end]);
        }
    }

    /// Bytes it keeps on the heap.
    pub(super) fn memory(&self) -> usize {
        self.steps.capacity() * size_of::<Step>()
    }

    /// Units of [work](crate::Program::price) of a run of the form that begins there, which may end early.
    #[inline]
    pub(super) fn price(&self, begin: u32) -> usize {
        match self.steps[begin as usize] {
            Step::Begin(steps) => steps as usize,
            _ => unreachable!("each has a first step"),
        }
    }

    /// Whether the filter whose form begins there is true of a message; none: its program has to be run.
    #[inline]
    pub(super) fn run(&self, begin: u32, asked: &mut impl Asked) -> Option<bool> {
        let mut stack = Stack { items: [Item::Unknown; STACK], height: 0 };
        let mut steps = self.steps[begin as usize + 1..].iter();
        while let Some(step) = steps.next() {
            match *step {
                Step::Ask(predicate) => stack.push(match asked.answer(predicate) {
                    Answer::Yes => Item::Truth(true),
                    Answer::No => Item::Truth(false),
                    Answer::Unknown => Item::Unknown,
                    Answer::Dear => return None,
                }),
                Step::Decide { predicate, is_wanted, passes } => {
                    let is_so = match asked.answer(predicate) {
                        Answer::Yes => is_wanted,
                        Answer::No => !is_wanted,
                        Answer::Unknown => false,
                        Answer::Dear => return None,
                    };
                    if is_so == passes {
                        return Some(passes);
                    }
                }
                Step::Accept => {
                    if stack.pop().truth()? == Some(true) {
                        return Some(true);
                    }
                }
                Step::Reject => {
                    if stack.pop().truth()? != Some(true) {
                        return Some(false);
                    }
                }
                Step::CompareInteger { place, comparison, number } => {
                    stack.push(compared(comparison, asked.item(place), Item::Integer(number))?);
                }
                Step::CompareFloat { place, comparison, number } => {
                    stack.push(compared(comparison, asked.item(place), Item::Float(number))?);
                }
                Step::Load(place) => stack.push(asked.item(place)),
                Step::Presence { place, is_wanted } => {
                    stack.push(Item::of_truth(asked.is_there(place).map(|is| is == is_wanted)));
                }
                Step::PushTruth(truth) => stack.push(Item::of_truth(truth)),
                Step::PushInteger(integer) => stack.push(Item::Integer(integer)),
                Step::PushFloat(float) => stack.push(Item::Float(float)),
                Step::Compare(comparison) => {
                    let top = stack.pop();
                    *stack.top() = compared(comparison, *stack.top(), top)?;
                }
                Step::CompareWithInteger(comparison, number) => {
                    *stack.top() = compared(comparison, *stack.top(), Item::Integer(number))?;
                }
                Step::CompareWithFloat(comparison, number) => {
                    *stack.top() = compared(comparison, *stack.top(), Item::Float(number))?;
                }
                Step::Arithmetic { arithmetic, is_exchanged } => {
                    let top = stack.pop();
                    let below = *stack.top();
                    let (left, right) = if is_exchanged { (top, below) } else { (below, top) };
                    *stack.top() = calculated(arithmetic, left, right)?;
                }
                Step::WithInteger(arithmetic, number) => {
                    *stack.top() = calculated(arithmetic, *stack.top(), Item::Integer(number))?;
                }
                Step::WithFloat(arithmetic, number) => {
                    *stack.top() = calculated(arithmetic, *stack.top(), Item::Float(number))?;
                }
                Step::And => {
                    let top = stack.pop();
                    *stack.top() = Item::of_truth(both(stack.top().truth()?, top.truth()?));
                }
                Step::Or => {
                    let top = stack.pop();
                    *stack.top() = Item::of_truth(either(stack.top().truth()?, top.truth()?));
                }
                Step::Not => *stack.top() = Item::of_truth(stack.top().truth()?.map(|truth| !truth)),
                Step::Is(truth) => *stack.top() = Item::Truth(stack.top().truth()? == truth),
                Step::JumpIfFalse(count) => {
                    if *stack.top() == Item::Truth(false) {
                        steps = self.steps.get(self.steps.len() - steps.len() + count as usize..)?.iter();
                    }
                }
                Step::JumpIfTrue(count) => {
                    if *stack.top() == Item::Truth(true) {
                        steps = self.steps.get(self.steps.len() - steps.len() + count as usize..)?.iter();
                    }
                }
                Step::Begin(_) | Step::End => break,
            }
        }
        Some(stack.items[0].truth()? == Some(true))
    }
}

/// The values that wait. It is never higher than a program needs.
struct Stack {
    items: [Item; STACK],
    height: usize,
}

impl Stack {
    #[inline]
    fn push(&mut self, item: Item) {
        self.items[self.height % STACK] = item;
        self.height += 1;
    }

    #[inline]
    fn pop(&mut self) -> Item {
        self.height = self.height.wrapping_sub(1);
        self.items[self.height % STACK]
    }

    #[inline]
    fn top(&mut self) -> &mut Item {
        &mut self.items[self.height.wrapping_sub(1) % STACK]
    }
}

/// None: one of them is of another kind.
#[inline]
fn compared(comparison: Comparison, left: Item, right: Item) -> Option<Item> {
    let order = match (left, right) {
        (Item::Integer(left), Item::Integer(right)) => left.cmp(&right),
        (Item::Float(left), Item::Float(right)) => left.partial_cmp(&right)?,
        (Item::Float(left), Item::Integer(right)) if is_exact(right) => left.partial_cmp(&(right as f64))?,
        (Item::Integer(left), Item::Float(right)) if is_exact(left) => (left as f64).partial_cmp(&right)?,
        _ => return compared_otherwise(comparison, left, right),
    };
    Some(Item::Truth(comparison.holds(order)))
}

/// Whether a whole number is the same as an approximate one.
#[inline]
fn is_exact(integer: i64) -> bool {
    integer.unsigned_abs() <= 1 << 53
}

#[inline(never)]
fn compared_otherwise(comparison: Comparison, left: Item, right: Item) -> Option<Item> {
    match (left, right) {
        (Item::Other, _) | (_, Item::Other) => None,
        _ => Some(Item::of_truth(compare(comparison, left.value(), right.value()).truth())),
    }
}

/// None: one of them is of another kind, or so is the outcome.
#[inline]
fn calculated(arithmetic: Arithmetic, left: Item, right: Item) -> Option<Item> {
    let (left, right) = match (left, right) {
        (Item::Integer(left), Item::Integer(right)) => {
            return match arithmetic {
                Arithmetic::Add => left.checked_add(right).map(Item::Integer),
                Arithmetic::Subtract => left.checked_sub(right).map(Item::Integer),
                Arithmetic::Multiply => left.checked_mul(right).map(Item::Integer),
                Arithmetic::Divide | Arithmetic::Remainder => {
                    calculated_otherwise(arithmetic, Item::Integer(left), Item::Integer(right))
                }
            };
        }
        (Item::Integer(left), Item::Float(right)) => (left as f64, right),
        (Item::Float(left), Item::Integer(right)) => (left, right as f64),
        (Item::Float(left), Item::Float(right)) => (left, right),
        _ => return calculated_otherwise(arithmetic, left, right),
    };
    let outcome = match arithmetic {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide | Arithmetic::Remainder => {
            return calculated_otherwise(arithmetic, Item::Float(left), Item::Float(right));
        }
    };
    Some(if outcome.is_finite() { Item::Float(outcome) } else { Item::Unknown })
}

#[inline(never)]
fn calculated_otherwise(arithmetic: Arithmetic, left: Item, right: Item) -> Option<Item> {
    match (left, right) {
        (Item::Other, _) | (_, Item::Other) => None,
        _ => Some(Item::of(calculate(arithmetic, left.value(), right.value())))
            .filter(|item| *item != Item::Other),
    }
}
