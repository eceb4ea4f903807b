//! The values of one message at all places of an index.

use super::place::{Place, Places};
use crate::found::{Found, Room, Seen};
use crate::machine::{Source, UNKNOWN, usable};
use crate::value::{Field, Fields, Value};
use std::cell::Cell;

/// Bytes that the reading of a body, or a program beside it, may take before programs are run alone: half of what one
/// evaluation may use, so that none of them was out of room.
pub(super) const MEMORY_SURE: usize = 4 << 20;

/// The values of a message at all places: those in the body are found at once, the others when they are asked for.
pub(super) struct Values<'m, F: ?Sized> {
    pub(super) message: &'m F,
    places: &'m [Place],
    seen: &'m [Seen<'m>],
    loaded: &'m [Cell<Loaded<'m>>],
    /// Whose findings in the body these are.
    pub(super) findings: Findings,
    /// Units of the reading of the body.
    pub(super) spent: usize,
}

/// Whose findings in a body they are, when it is looked into for all programs at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Findings {
    /// Those of each program.
    Each,
    /// Of the programs that look for all that is looked for; others may pass over a fault and find more.
    Widest,
    /// It took too much.
    Nobody,
}

/// The value of a place.
#[derive(Clone, Copy)]
enum Loaded<'m> {
    Not,
    Is(Option<Value<'m>>),
}

impl<'m, F: Fields + ?Sized> Values<'m, F> {
    pub(super) fn of(places: &'m Places, message: &'m F, room: &'m Room) -> Values<'m, F> {
        let loaded = room.bump().alloc_slice_fill_with(places.end(), |_| Cell::new(Loaded::Not));
        let (mut seen, mut findings) = (&[][..], Findings::Each);
        if places.paths.slots() > 0 {
            findings = Findings::Nobody;
            if let Some(mut found) = Found::new(places.paths.slots(), room) {
                // Nobody looks for what was removed.
                found.close(places.paths.free());
                let is_whole = message.body(&places.paths, &mut found);
                findings = match found.is_each_alone(is_whole) {
                    _ if room.memory() > MEMORY_SURE || room.has_refused() => Findings::Nobody,
                    false => Findings::Widest,
                    true => Findings::Each,
                };
                seen = found.finish(is_whole);
            }
        }
        Values { message, places: places.all(), seen, loaded, findings, spent: room.spent() }
    }

    /// The value of a place, as programs have it.
    #[inline]
    pub(super) fn value(&self, place: u32) -> Value<'m> {
        match self.places[place as usize].slot {
            Some(slot) => self.seen.get(slot as usize).map_or(Value::Null, |seen| seen.value.known()),
            None => self.field(place).unwrap_or(Value::Null),
        }
    }

    /// Whether something is at a place that is not null; none: that cannot be read.
    pub(super) fn is_there(&self, place: u32) -> Option<bool> {
        match self.places[place as usize].slot {
            Some(slot) => self.seen.get(slot as usize).map_or(UNKNOWN.is_there, |seen| seen.is_there),
            None => Some(self.value(place) != Value::Null),
        }
    }

    /// The value of a place that is not in the body.
    #[inline]
    fn field(&self, place: u32) -> Option<Value<'m>> {
        let loaded = &self.loaded[place as usize];
        if let Loaded::Is(value) = loaded.get() {
            return value;
        }
        let field = self.places[place as usize].field();
        let value = usable(self.message.field(field), field == Field::Priority);
        loaded.set(Loaded::Is(value));
        value
    }
}

/// The values of a message, by the numbers that fields have in a program.
pub(super) struct Mapped<'v, 'm, F: ?Sized> {
    pub(super) values: &'v Values<'m, F>,
    pub(super) places: &'v [u32],
}

impl<'a, 'm: 'a, F: Fields + ?Sized> Source<'a> for Mapped<'_, 'm, F> {
    #[inline]
    fn field(&mut self, field: u32) -> Option<Value<'a>> {
        self.values.field(self.places[field as usize])
    }

    #[inline]
    fn seen(&mut self, field: u32, _place: u32) -> Seen<'a> {
        let place = self.places[field as usize];
        match self.values.places[place as usize].slot {
            Some(slot) => self.values.seen.get(slot as usize).copied().unwrap_or(UNKNOWN),
            None => unreachable!("a place in the body has a slot"),
        }
    }
}
