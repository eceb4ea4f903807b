//! Values that a body has at the paths that a program reads.

use crate::value::Value;
use bumpalo::Bump;
use bumpalo::collections::Vec as BumpVec;
use std::cell::Cell;

/// Values of one path that are kept at most; whether there is a further one that counts is unknown.
pub const VALUES_MAX: usize = 1024;

/// Bytes that one evaluation may use beside the message.
const ROOM_MAX: usize = 8 << 20;

/// Bytes that are kept for the next evaluation.
const KEPT_MAX: usize = 256 << 10;

/// Units of [work](crate::Program::price) that one evaluation may do, some 5 ms: what would take more is unknown. A body of
/// 1 MiB of JSON that is passed over takes half of them, and 90,000 members that are walked to take all.
pub const WORK_MAX: usize = 1 << 18;

/// Room for what an evaluation makes: values of lists, texts without their escapes, results of functions,
/// [at most 8 MiB](ROOM_MAX). It is used again and again; [what is large](KEPT_MAX) is given back.
#[derive(Debug)]
pub struct Room {
    bump: Bump,
    /// Units of work since it was cleared.
    spent: Cell<usize>,
    /// Work was not done since then for want of units.
    has_refused: Cell<bool>,
    /// A body could not be read as far as was needed since then.
    is_unreadable: Cell<bool>,
}

impl Default for Room {
    fn default() -> Room {
        let bump = Bump::new();
        bump.set_allocation_limit(Some(ROOM_MAX));
        let (spent, has_refused, is_unreadable) = Default::default();
        Room { bump, spent, has_refused, is_unreadable }
    }
}

impl Room {
    /// Forgets what was made, and keeps the room.
    pub fn clear(&mut self) {
        if self.bump.allocated_bytes() > KEPT_MAX {
            *self = Room::default();
        }
        self.bump.reset();
        self.spent.set(0);
        self.has_refused.set(false);
        self.is_unreadable.set(false);
    }

    /// Gives its memory back, and forgets what was made, if that is more than so many bytes.
    pub fn trim(&mut self, bytes_max: usize) {
        if self.memory() > bytes_max {
            let (spent, is_unreadable) = (self.spent.clone(), self.is_unreadable.clone());
            *self = Room { spent, is_unreadable, ..Room::default() };
        }
    }

    /// Bytes it keeps on the heap.
    pub fn memory(&self) -> usize {
        self.bump.allocated_bytes()
    }

    /// Counts units of [work](crate::Program::price) that depend on what is in a body.
    #[inline]
    pub fn spend(&self, units: usize) {
        self.spent.set(self.spent.get().saturating_add(units));
    }

    /// Units of work that may still be done.
    pub(crate) fn left(&self) -> usize {
        WORK_MAX.saturating_sub(self.spent.get())
    }

    /// Counts units of work, if they may be done.
    #[inline]
    pub(crate) fn affords(&self, units: usize) -> bool {
        let is_fit = units <= self.left();
        if is_fit {
            self.spend(units);
        } else {
            self.has_refused.set(true);
        }
        is_fit
    }

    /// Whether something is unknown for want of [units](WORK_MAX) since it was cleared.
    pub(crate) fn has_refused(&self) -> bool {
        self.has_refused.get() || self.spent.get() >= WORK_MAX
    }

    /// Whether a body was looked into since it was cleared, and could not be read as far as was needed.
    pub fn is_unreadable(&self) -> bool {
        self.is_unreadable.get()
    }

    /// Units of work that were counted since it was cleared.
    pub fn spent(&self) -> usize {
        self.spent.get()
    }

    /// Bytes that stay as long as the room is not cleared; none where there is no room for them.
    pub fn keep(&self, bytes: &[u8]) -> Option<&[u8]> {
        self.bump.try_alloc_slice_copy(bytes).ok().map(|kept| &*kept)
    }

    pub(crate) fn bump(&self) -> &Bump {
        &self.bump
    }
}

/// The value that a body has at one path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen<'a> {
    /// The value; [`Value::Several`] where the path leads through a list or to one.
    pub(crate) value: Value<'a>,
    /// Whether something is there that is not null; `None`: the body cannot be read that far.
    pub(crate) is_there: Option<bool>,
}

/// The values found in a body so far. Formats of bytes fill it in one pass.
#[derive(Debug)]
pub struct Found<'a> {
    room: &'a Room,
    slots: BumpVec<'a, Slot<'a>>,
    /// Where the outcome goes: its room is taken before anything else can fill it.
    seen: BumpVec<'a, Seen<'a>>,
    /// Slots that are not done.
    open: usize,
    /// A format looked for them.
    is_read: bool,
    /// See [`Found::ends_alike`].
    ends_alike: bool,
    /// See [`Found::ends_otherwise`].
    is_otherwise: bool,
}

#[derive(Debug, Default)]
struct Slot<'a> {
    value: Value<'a>,
    /// The values, where there may be several.
    several: Option<BumpVec<'a, Value<'a>>>,
    /// Something is there that is not null.
    is_there: bool,
    /// Nothing that comes counts any more.
    is_done: bool,
    /// There was no room for a value.
    is_short: bool,
}

impl<'a> Found<'a> {
    /// Nothing yet, of so many paths.
    /// None where there is no room for their values.
    pub fn new(count: usize, room: &'a Room) -> Option<Found<'a>> {
        let (mut slots, mut seen) = (BumpVec::new_in(room.bump()), BumpVec::new_in(room.bump()));
        slots.try_reserve_exact(count).ok()?;
        seen.try_reserve_exact(count).ok()?;
        slots.extend((0..count).map(|_| Slot::default()));
        Some(Found { room, slots, seen, open: count, is_read: false, ends_alike: false, is_otherwise: false })
    }

    /// Bytes are looked at now.
    pub(crate) fn begin(&mut self) {
        self.is_read = true;
    }

    /// A reader came to the end of the body before the end of its values: so does one of other paths, and none of them
    /// has found less for the sake of another. Of a fault within the body it cannot be said: who looks for less may pass over it.
    pub(crate) fn ends_alike(&mut self) {
        self.ends_alike = true;
    }

    /// A reader of fewer paths might end where this one did not.
    pub(crate) fn ends_otherwise(&mut self) {
        self.is_otherwise = true;
    }

    /// Whether each path has the values that it has when it is looked for alone. `is_whole`: see [`Found::finish`].
    pub(crate) fn is_each_alone(&self, is_whole: bool) -> bool {
        !self.is_otherwise && (is_whole || !self.is_read || self.ends_alike)
    }

    /// The room for what is made meanwhile.
    pub fn room(&self) -> &'a Room {
        self.room
    }

    /// A value of the path of this slot. A number that is not finite is none.
    #[inline]
    pub(crate) fn put(&mut self, slot: usize, value: Value<'a>) {
        let value = match value {
            Value::Float(float) if !float.is_finite() => Value::Null,
            value => value,
        };
        let slot = &mut self.slots[slot];
        slot.is_there |= !matches!(value, Value::Null);
        match &mut slot.several {
            None => slot.value = value,
            Some(_) => slot.push(value),
        }
    }

    /// Other values of this path may come: the one that was put, if there is one, is the first of several.
    #[inline]
    pub(crate) fn begin_several(&mut self, slot: usize) {
        let slot = &mut self.slots[slot];
        if slot.is_there && !slot.is_done && slot.several.is_none() {
            slot.several = Some(BumpVec::new_in(self.room.bump()));
            slot.push(slot.value);
        }
    }

    /// A list is where these paths lead: they have the values of its elements, none so far.
    pub(crate) fn open_list(&mut self, slots: &[usize]) {
        for &slot in slots {
            self.slots[slot].several.get_or_insert_with(|| BumpVec::new_in(self.room.bump()));
        }
    }

    /// A list, itself, is what the path of this slot leads to.
    pub(crate) fn is_list(&mut self, slot: usize) {
        self.slots[slot].is_there = true;
    }

    /// Whether this path has more values than count, of which one is not null.
    pub(crate) fn is_full(&self, slot: usize) -> bool {
        let slot = &self.slots[slot];
        slot.is_there && slot.several.as_ref().is_some_and(|several| several.len() > VALUES_MAX)
    }

    /// All of these paths was found that there is.
    #[inline]
    pub(crate) fn close(&mut self, slots: &[usize]) {
        for &slot in slots {
            let slot = &mut self.slots[slot];
            self.open -= usize::from(!slot.is_done);
            slot.is_done = true;
        }
    }

    /// Whether nothing is looked for any more.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.open == 0
    }

    /// All that was found. `is_whole`: the body could be read to its end, or as far as was needed; otherwise the rest is unknown.
    pub(crate) fn finish(self, is_whole: bool) -> &'a [Seen<'a>] {
        let Found { room, slots, mut seen, .. } = self;
        if !is_whole {
            room.is_unreadable.set(true);
        }
        for slot in slots {
            let is_cut = !is_whole && !slot.is_done;
            let value = match slot.several {
                None if is_cut => Value::Unreadable,
                Some(several) if several.is_empty() && (is_cut || slot.is_short) => Value::Unreadable,
                None => slot.value,
                Some(mut several) => {
                    if is_cut {
                        _ = push(&mut several, Value::Unreadable);
                    }
                    Value::Several(several.into_bump_slice())
                }
            };
            let is_there = if slot.is_there { Some(true) } else { (!is_cut).then_some(false) };
            seen.push(Seen { value, is_there });
        }
        seen.into_bump_slice()
    }
}

impl<'a> Slot<'a> {
    /// One more of several values, as far as they count.
    fn push(&mut self, value: Value<'a>) {
        let Some(several) = &mut self.several else { return };
        let is_kept = match several.len() {
            ..VALUES_MAX => push(several, value),
            VALUES_MAX => push(several, Value::Unreadable),
            _ => true,
        };
        self.is_short |= !is_kept;
    }
}

/// Where there is no room for a value, it and the one before it are unknown, and it is not kept.
fn push<'a>(several: &mut BumpVec<'a, Value<'a>>, value: Value<'a>) -> bool {
    let has_room = several.try_reserve(1).is_ok();
    if has_room {
        several.push(value);
    } else if let Some(last) = several.last_mut() {
        *last = Value::Unreadable;
    }
    has_room
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Program, json::Document};

    /// Takes all that is left.
    fn fill(room: &Room) {
        for length in [1 << 16, 1 << 10, 1 << 6, 1] {
            while room.keep(&vec![0; length]).is_some() {}
        }
    }

    #[test]
    fn nothing_is_known_of_a_body_where_there_is_no_room_for_it() {
        let program = Program::parse("body.a = 1 OR body.a IS NULL", &Limits::content()).expect("one");
        let (body, room) = (Document(br#"{"a":1}"#), Room::default());
        assert_eq!(program.evaluate(&body, &room, 0), Value::Bool(true));
        fill(&room);
        assert_eq!(program.evaluate(&body, &room, 0), Value::Null);
    }

    #[test]
    fn a_list_that_there_is_no_room_for_is_unknown_and_not_empty() {
        let room = Room::default();
        let mut found = Found::new(2, &room).expect("room");
        found.open_list(&[0]);
        fill(&room);
        found.open_list(&[1]);
        found.put(0, Value::Integer(1));
        found.close(&[0, 1]);
        let seen = found.finish(true);
        assert_eq!((seen[0].value, seen[0].is_there), (Value::Unreadable, Some(true)));
        assert_eq!((seen[1].value, seen[1].is_there), (Value::Several(&[]), Some(false)));
    }
}
