//! From the operations of a program to the steps of its short form.
//!
//! Whether the whole is true is all that is wanted of it: where it is several conditions joined by `OR`, one that is true
//! decides, and what the others are need not be joined to it; of `AND` so does one that is not true.

use super::super::key::Key;
use super::super::predicate::Test;
use super::{STACK, STEPS_MAX, Step};
use crate::operation::{Change, Combine, Operation, Push};
use crate::program::{Constant, Program, Slot};
use std::iter::Peekable;
use std::slice;

/// A step to be.
pub(super) enum Draft {
    Step(Step),
    /// A predicate has no number before it is known that all others are steps.
    Ask(u32, Test),
    /// The same, and the filter is out or passes if that is the answer: `passes` if it is true or if it is false.
    Decide {
        place: u32,
        test: Test,
        is_wanted: bool,
        passes: bool,
    },
    /// To the step behind the one that joins two truths, if the first is this one.
    Jump {
        is_true: bool,
        target: usize,
    },
    Gone,
}

/// The steps of a program; none where it has an operation that is no such.
pub(super) fn drafts(program: &Program, places: &[u32]) -> Option<Vec<Draft>> {
    if program.stack > STACK || program.operations.len() > STEPS_MAX {
        return None;
    }
    let mut drafts = Vec::with_capacity(program.operations.len());
    // The draft of each operation.
    let mut at = Vec::with_capacity(program.operations.len());
    let mut operations = program.operations.iter().peekable();
    while let Some(operation) = operations.next() {
        let count = operations.len();
        at.push(drafts.len());
        drafts.push(draft(program, places, operation, &mut operations)?);
        // Operations that it took beside.
        at.extend((operations.len()..count).map(|_| drafts.len() - 1));
    }
    at.push(drafts.len());
    for draft in &mut drafts {
        if let Draft::Jump { target, .. } = draft {
            *target = at[*target];
        }
    }
    decide(&mut drafts);
    Some(close(drafts))
}

fn draft<'p>(
    program: &Program,
    places: &[u32],
    operation: &Operation,
    next: &mut Peekable<slice::Iter<'p, Operation>>,
) -> Option<Draft> {
    let step = match *operation {
        Operation::Push(Push::Field(field)) => {
            let place = places[field as usize];
            match next.peek().and_then(|next| test(program, next)) {
                Some(test) => {
                    next.next();
                    return Some(Draft::Ask(place, test));
                }
                None => Step::Load(place),
            }
        }
        Operation::Push(Push::CompareField { comparison, field, constant }) => {
            let place = places[field as usize];
            match key(program, constant)? {
                Key::Integer(number) => Step::CompareInteger { place, comparison, number },
                Key::Float(number) => Step::CompareFloat { place, comparison, number },
                key => return Some(Draft::Ask(place, Test::Compare(comparison, key))),
            }
        }
        Operation::Push(Push::Constant(constant)) => {
            match next.peek().and_then(|next| with_number(program, next, constant)) {
                Some(step) => {
                    next.next();
                    step
                }
                None => constant_of(program, constant)?,
            }
        }
        Operation::Push(Push::IsNull(field)) => presence(program, places, field, false)?,
        Operation::Push(Push::IsPresent(field)) => presence(program, places, field, true)?,
        Operation::Change(Change::Not) => Step::Not,
        Operation::Change(Change::Is(truth)) => Step::Is(truth),
        Operation::Combine(Combine::Compare(comparison)) => Step::Compare(comparison),
        Operation::Combine(Combine::Arithmetic { arithmetic, is_exchanged }) => {
            Step::Arithmetic { arithmetic, is_exchanged }
        }
        Operation::Combine(Combine::And) => Step::And,
        Operation::Combine(Combine::Or) => Step::Or,
        Operation::JumpIfFalse(target) => {
            return Some(Draft::Jump { is_true: false, target: target as usize });
        }
        Operation::JumpIfTrue(target) => {
            return Some(Draft::Jump { is_true: true, target: target as usize });
        }
        _ => return None,
    };
    Some(Draft::Step(step))
}

/// Where truths are joined last of all, the first of them decides alone if it can.
fn decide(drafts: &mut [Draft]) {
    for at in 0..drafts.len() {
        let Draft::Jump { is_true, target } = drafts[at] else { continue };
        if !is_last(drafts, is_true, target) {
            continue;
        }
        drafts[target - 1] = Draft::Gone;
        drafts[at] = Draft::Step(if is_true { Step::Accept } else { Step::Reject });
        let is_negated = at > 0 && matches!(drafts[at - 1], Draft::Step(Step::Not));
        let before = at.wrapping_sub(1 + usize::from(is_negated));
        if let Some(Draft::Ask(..)) = drafts.get(before)
            && let Draft::Ask(place, test) = std::mem::replace(&mut drafts[before], Draft::Gone)
        {
            drafts[at] = Draft::Decide { place, test, is_wanted: !is_negated, passes: is_true };
            if is_negated {
                drafts[at - 1] = Draft::Gone;
            }
        }
    }
}

/// Whether what is joined before `target` is the outcome, or is joined to the outcome in the same way.
fn is_last(drafts: &[Draft], is_true: bool, mut target: usize) -> bool {
    loop {
        match drafts.get(target) {
            None => return true,
            Some(Draft::Jump { is_true: of_next, target: next }) if *of_next == is_true => target = *next,
            Some(_) => return drafts[target..].iter().all(|draft| matches!(draft, Draft::Gone)),
        }
    }
}

/// Without those that are gone: jumps are as many steps as are between.
fn close(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut at = Vec::with_capacity(drafts.len() + 1);
    let mut count = 0;
    for draft in &drafts {
        at.push(count);
        count += usize::from(!matches!(draft, Draft::Gone));
    }
    at.push(count);
    let of = |(from, draft): (usize, Draft)| match draft {
        Draft::Jump { is_true, target } => {
            let steps = (at[target] - at[from] - 1) as u32;
            Draft::Step(if is_true { Step::JumpIfTrue(steps) } else { Step::JumpIfFalse(steps) })
        }
        draft => draft,
    };
    drafts.into_iter().enumerate().filter(|(_, draft)| !matches!(draft, Draft::Gone)).map(of).collect()
}

/// An operation on what is on top and a number.
fn with_number(program: &Program, operation: &Operation, constant: u32) -> Option<Step> {
    match (operation, constant_of(program, constant)?) {
        (Operation::Combine(Combine::Compare(comparison)), Step::PushInteger(number)) => {
            Some(Step::CompareWithInteger(*comparison, number))
        }
        (Operation::Combine(Combine::Compare(comparison)), Step::PushFloat(number)) => {
            Some(Step::CompareWithFloat(*comparison, number))
        }
        (
            Operation::Combine(Combine::Arithmetic { arithmetic, is_exchanged: false }),
            Step::PushInteger(number),
        ) => Some(Step::WithInteger(*arithmetic, number)),
        (
            Operation::Combine(Combine::Arithmetic { arithmetic, is_exchanged: false }),
            Step::PushFloat(number),
        ) => Some(Step::WithFloat(*arithmetic, number)),
        _ => None,
    }
}

fn constant_of(program: &Program, constant: u32) -> Option<Step> {
    Some(match program.constants[constant as usize] {
        Constant::Null => Step::PushTruth(None),
        Constant::Bool(truth) => Step::PushTruth(Some(truth)),
        Constant::Integer(integer) => Step::PushInteger(i64::try_from(integer).ok()?),
        Constant::Float(float) => Step::PushFloat(float),
        Constant::Bytes { .. } => return None,
    })
}

/// The question that an operation is about the value that was pushed before it.
fn test(program: &Program, operation: &Operation) -> Option<Test> {
    match *operation {
        Operation::Change(Change::Like(pattern)) => {
            Some(Test::Like(program.patterns[pattern as usize].clone()))
        }
        Operation::Change(Change::Member { first, end }) => {
            (first..end).map(|entry| key(program, entry)).collect::<Option<_>>().map(Test::Among)
        }
        _ => None,
    }
}

fn key(program: &Program, constant: u32) -> Option<Key> {
    Key::of(program.constant(constant))
}

/// Beside the body an entry of null is one that is there.
fn presence(program: &Program, places: &[u32], field: u32, is_wanted: bool) -> Option<Step> {
    let is_in_body = matches!(program.shape.fields[field as usize], Slot::Body(_));
    (is_in_body || !is_wanted).then(|| Step::Presence { place: places[field as usize], is_wanted })
}
