//! How a filter is filed: the condition of its expression that the fewest messages fulfil.

use super::condition::{Condition, conditions};
use super::key::{Key, canonical, number_line, text_line};
use super::predicate::Test;
use super::spans::Line;
use crate::expression::{Expression, Name};
use crate::operator::Comparison;
use crate::pattern::Matcher;
use crate::value::{Field, Value};
use std::fmt;

/// Conditions joined by `AND` that are looked at; the others are left to the program.
pub(super) const CONJUNCTS_MAX: usize = 64;

/// Bytes of a prefix that messages are filed by: a field is looked up once for each length there is.
pub(super) const PREFIX_BYTES_MAX: usize = 64;

/// How a filter is found, as `filter check` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// By one of these many constants that a field has to equal.
    Equality {
        /// The field as expressions write it.
        field: String,
        /// How many constants.
        constants: usize,
    },
    /// By what a text has to begin with.
    Prefix {
        /// The field as expressions write it.
        field: String,
    },
    /// By a least and a most value.
    Range {
        /// The field as expressions write it.
        field: String,
    },
    /// By a least or a most value.
    HalfRange {
        /// The field as expressions write it.
        field: String,
    },
    /// By each of these, one of which is enough.
    Either(Vec<Access>),
    /// Not at all: it is true of no message.
    Never,
    /// It is run for each message.
    Always,
}

impl fmt::Display for Access {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Equality { field, constants: 1 } => write!(out, "equality of {field}"),
            Access::Equality { field, constants } => {
                write!(out, "equality of {field} with one of {constants}")
            }
            Access::Prefix { field } => write!(out, "prefix of {field}"),
            Access::Range { field } => write!(out, "range of {field}"),
            Access::HalfRange { field } => write!(out, "half range of {field}"),
            Access::Either(parts) => parts.iter().enumerate().try_for_each(|(place, part)| {
                out.write_str(if place == 0 { "" } else { ", or " })?;
                part.fmt(out)
            }),
            Access::Never => out.write_str("never run"),
            Access::Always => out.write_str("always run"),
        }
    }
}

/// An entry that a filter wants.
#[derive(Clone, Debug)]
pub(super) struct Wanted<'e> {
    pub(super) name: &'e Name,
    pub(super) at: Target,
}

#[derive(Clone, Debug)]
pub(super) enum Target {
    Key(Key),
    Prefix(Key),
    Numbers([u64; 2]),
    Texts([u128; 2]),
}

/// A way to file a filter.
#[derive(Clone, Debug)]
pub(super) struct Plan<'e> {
    pub(super) access: Access,
    pub(super) wanted: Vec<Wanted<'e>>,
    /// The conditions that are true where one of the entries is met, by their place.
    pub(super) covered: Vec<usize>,
    /// The part of messages that meet an entry, as far as can be told from other filters.
    share: f64,
}

/// The word of other filters about a field.
pub(super) trait Statistics {
    /// Different constants that it is equal to in filters.
    fn constants(&self, field: Field<'_>) -> usize;

    /// Different prefixes.
    fn prefixes(&self, field: Field<'_>) -> usize;

    /// Ranges of numbers, and the least and the most number in one.
    fn ranges(&self, field: Field<'_>) -> (usize, [f64; 2]);
}

/// The best way to file an expression with these conditions, if there is one.
pub(super) fn plan<'e>(conditions: &[Condition<'e>], statistics: &impl Statistics) -> Option<Plan<'e>> {
    if conditions.iter().any(|condition| matches!(condition, Condition::Never)) {
        return Some(Plan { access: Access::Never, wanted: Vec::new(), covered: Vec::new(), share: 0.0 });
    }
    let conditions = &conditions[..conditions.len().min(CONJUNCTS_MAX)];
    let mut best: Option<Plan<'e>> = None;
    for (place, condition) in conditions.iter().enumerate() {
        let found = match condition {
            Condition::Simple(name, test) => simple(conditions, place, name, test, statistics),
            Condition::Either(parts) => either(parts, statistics),
            Condition::True | Condition::Never | Condition::Other => None,
        };
        if let Some(found) = found
            && best.as_ref().is_none_or(|best| found.share < best.share)
        {
            best = Some(found);
        }
    }
    best
}

/// Each of the parts has to be filed, otherwise none is.
fn either<'e>(parts: &[&'e Expression], statistics: &impl Statistics) -> Option<Plan<'e>> {
    let mut all = Plan { access: Access::Never, wanted: Vec::new(), covered: Vec::new(), share: 0.0 };
    let mut accesses = Vec::new();
    for part in parts {
        let part = plan(&conditions(part), statistics)?;
        all.share += part.share;
        all.wanted.extend(part.wanted);
        if part.access != Access::Never {
            accesses.push(part.access);
        }
    }
    all.access = match accesses.len() {
        0 => Access::Never,
        1 => accesses.remove(0),
        _ => Access::Either(accesses),
    };
    Some(all)
}

/// Parts of messages where nothing is known yet: what is rarer goes first.
const SHARE_EQUAL: f64 = 1.0 / 16.0;
const SHARE_PREFIX: f64 = 1.0 / 8.0;
const SHARE_RANGE: f64 = 1.0 / 4.0;
const SHARE_HALF: f64 = 1.0 / 2.0;

fn simple<'e>(
    conditions: &[Condition<'e>],
    place: usize,
    name: &'e Name,
    test: &Test,
    statistics: &impl Statistics,
) -> Option<Plan<'e>> {
    let field = || name.field().to_string();
    let equal = |key: &Key| {
        let share = match key {
            Key::Bool(_) => SHARE_HALF,
            _ => SHARE_EQUAL.min(1.0 / statistics.constants(name.field()).max(1) as f64),
        };
        (Wanted { name, at: Target::Key(key.clone()) }, share)
    };
    let covered = vec![place];
    match test {
        Test::Compare(Comparison::Equal, key) => {
            let (wanted, share) = equal(key);
            let access = Access::Equality { field: field(), constants: 1 };
            Some(Plan { access, wanted: vec![wanted], covered, share })
        }
        Test::Among(keys) => {
            let (wanted, shares): (Vec<_>, Vec<f64>) = keys.iter().map(equal).unzip();
            let access = Access::Equality { field: field(), constants: keys.len() };
            Some(Plan { access, wanted, covered, share: shares.iter().sum() })
        }
        Test::Like(Matcher::Exact(text)) => {
            let (wanted, share) = equal(&Key::Bytes(text.clone()));
            let access = Access::Equality { field: field(), constants: 1 };
            Some(Plan { access, wanted: vec![wanted], covered, share })
        }
        Test::Like(Matcher::Affixes { prefix, suffix }) if !prefix.is_empty() => {
            let is_whole = suffix.is_empty() && prefix.len() <= PREFIX_BYTES_MAX;
            let key = Key::Bytes(prefix[..prefix.len().min(PREFIX_BYTES_MAX)].into());
            let share = SHARE_PREFIX.min(1.0 / statistics.prefixes(name.field()).max(1) as f64);
            let covered = if is_whole { covered } else { Vec::new() };
            let wanted = vec![Wanted { name, at: Target::Prefix(key) }];
            Some(Plan { access: Access::Prefix { field: field() }, wanted, covered, share })
        }
        Test::Like(_) => None,
        Test::Between(ends) => {
            let [least, most] = [ends[0].value(), ends[1].value()];
            range(name, Some(least), Some(most), covered, statistics)
        }
        Test::Compare(Comparison::NotEqual, _) => None,
        Test::Compare(comparison, key) => {
            let other_end = other_end(conditions, name, *comparison, key);
            let other = other_end.map(|(_, key)| key.value());
            let covered = covered.into_iter().chain(other_end.map(|(place, _)| place)).collect();
            let (least, most) = match comparison {
                Comparison::Greater | Comparison::GreaterOrEqual => (Some(key.value()), other),
                _ => (other, Some(key.value())),
            };
            range(name, least, most, covered, statistics)
        }
    }
}

/// Where another condition bounds the same field on the other side, so that there is something between.
fn other_end<'c>(
    conditions: &'c [Condition<'_>],
    name: &Name,
    comparison: Comparison,
    key: &Key,
) -> Option<(usize, &'c Key)> {
    let is_least = matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual);
    conditions.iter().enumerate().find_map(|(place, condition)| match condition {
        Condition::Simple(other, Test::Compare(comparison, end)) if *other == name => {
            let is_other = match comparison {
                Comparison::Greater | Comparison::GreaterOrEqual => !is_least,
                Comparison::Less | Comparison::LessOrEqual => is_least,
                Comparison::Equal | Comparison::NotEqual => false,
            };
            let [least, most] = if is_least { [key, end] } else { [end, key] }.map(Key::value);
            let is_ordered = match (number_line(least), number_line(most)) {
                (Some(least), Some(most)) => least <= most,
                _ => text_line(least).zip(text_line(most)).is_some_and(|(least, most)| least <= most),
            };
            (is_other && is_ordered).then_some((place, end))
        }
        _ => None,
    })
}

/// The ranges that are bounded on both sides, whatever they are of.
pub(super) fn ranges<'c>(conditions: &'c [Condition<'_>]) -> impl Iterator<Item = (&'c Name, [&'c Key; 2])> {
    let conditions = &conditions[..conditions.len().min(CONJUNCTS_MAX)];
    conditions.iter().filter_map(|condition| match condition {
        Condition::Simple(name, Test::Between(ends)) => Some((*name, [&ends[0], &ends[1]])),
        Condition::Simple(
            name,
            Test::Compare(comparison @ (Comparison::Greater | Comparison::GreaterOrEqual), least),
        ) => {
            let (_, most) = other_end(conditions, name, *comparison, least)?;
            Some((*name, [least, most]))
        }
        _ => None,
    })
}

/// A range between ends, of which there is at least one.
fn range<'e>(
    name: &'e Name,
    least: Option<Value<'_>>,
    most: Option<Value<'_>>,
    covered: Vec<usize>,
    statistics: &impl Statistics,
) -> Option<Plan<'e>> {
    let field = name.field().to_string();
    let is_half = least.is_none() || most.is_none();
    let access = if is_half { Access::HalfRange { field } } else { Access::Range { field } };
    let mut share = if is_half { SHARE_HALF } else { SHARE_RANGE };
    let on = |line: Option<Value<'_>>| line.map(number_line);
    let at = match (on(least), on(most)) {
        (Some(Some(from)), Some(Some(to))) => {
            let (ranges, hull) = statistics.ranges(name.field());
            if let Some(length) = number(least).zip(number(most)).map(|(least, most)| most - least) {
                let part = length / (hull[1] - hull[0]);
                let known = 1.0 / ranges.max(1) as f64;
                share = if part.is_finite() { share.min(part.max(known)) } else { share };
            }
            Target::Numbers([from, to])
        }
        (Some(Some(from)), None) => Target::Numbers([from, u64::MOST]),
        (None, Some(Some(to))) => Target::Numbers([u64::LEAST, to]),
        _ => {
            let from = least.map_or(Some(u128::LEAST), text_line)?;
            let to = most.map_or(Some(u128::MOST), text_line)?;
            Target::Texts([from, to])
        }
    };
    // Nothing is between ends in the wrong order.
    let is_ordered = match at {
        Target::Numbers([from, to]) => from <= to,
        Target::Texts([from, to]) => from <= to,
        Target::Key(_) | Target::Prefix(_) => true,
    };
    if !is_ordered {
        return Some(Plan { access: Access::Never, wanted: Vec::new(), covered, share: 0.0 });
    }
    Some(Plan { access, wanted: vec![Wanted { name, at }], covered, share })
}

/// A number, rounded.
pub(super) fn number(value: Option<Value<'_>>) -> Option<f64> {
    match canonical(value?) {
        Value::Integer(integer) => Some(integer as f64),
        Value::Float(float) => Some(float),
        _ => None,
    }
}
