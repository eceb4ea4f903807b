//! Steps of a program: their operands are popped from the stack, their results are pushed.

use crate::function::Function;
use crate::operator::{Arithmetic, Comparison};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Push(Push),
    Change(Change),
    Combine(Combine),
    /// Takes a value, the least and the most.
    Between,
    /// Takes so many.
    Call(Function, u8),
    /// Go on elsewhere if this is on top, and leave it there.
    JumpIfFalse(u32),
    JumpIfTrue(u32),
    JumpIfNull(u32),
    /// Takes a truth, and goes on elsewhere unless it is true.
    JumpUnlessTrue(u32),
    Jump(u32),
    /// Takes an entry of a list; if it equals the value below, that becomes true and it goes on elsewhere.
    Entry(u32),
}

/// Takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Push {
    /// The value of a field.
    Field(u32),
    Constant(u32),
    /// The present.
    Utc,
    /// Compares a field with a constant: the most frequent operation of filters.
    CompareField {
        comparison: Comparison,
        field: u32,
        constant: u32,
    },
    IsNull(u32),
    IsPresent(u32),
}

/// Takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    Plus,
    Minus,
    Not,
    /// Whether it has this truth.
    Is(Option<bool>),
    Like(u32),
    Regexp(u32),
    Replace(u32),
    Topic(u32),
    /// Whether it is one of constants, which are in [order](crate::compare::list_order).
    Member {
        first: u32,
        end: u32,
    },
    /// It was none of the entries.
    NoEntry,
}

/// Takes two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Combine {
    Compare(Comparison),
    /// `is_exchanged`: the left one is on top.
    Arithmetic {
        arithmetic: Arithmetic,
        is_exchanged: bool,
    },
    And,
    Or,
}

impl Operation {
    /// Whether it looks for a field.
    pub(crate) fn loads(self) -> bool {
        matches!(
            self,
            Operation::Push(
                Push::Field(_) | Push::CompareField { .. } | Push::IsNull(_) | Push::IsPresent(_)
            )
        )
    }
}
