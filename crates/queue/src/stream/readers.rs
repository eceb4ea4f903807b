//! The readers of a stream: the place of each, its credit, and the work it waits for.
//!
//! A reader is pulled from ([`Stream::next`]) until it waits; [`Effect::Ready`] says when to go on. It holds no
//! message: its chunks lie in the tail, or in blocks shared with all that read the same. Where it stands is not
//! recorded. A reader goes over damaged chunks, over those that its filter does not want, and from those that retention
//! took to the first that is left. So many reads and seeks are under way ([`Limits::reads_max`]), also those that
//! nobody waits for any more; a reader that needs one more is held, in turn, until one has come back. Requests to the
//! disk are thus bounded, however many readers come and go.
//! Invariant: while a reader is held, as much is under way as may be, so that something will come back.

use super::chunk::{Chunk, Place};
use super::common::{Common, Ends, Found};
use super::effect::Effect;
use super::groups::{Group, Turn};
use super::limits::Limits;
use super::machine::Stream;
use super::segments::Segment;
use super::segments::Segments;
use super::settings::FILE_HEADER_LEN;
use super::work::{
    Block, Damage, DamageReason, Read, ReadDone, Seek, SeekDone, SeekFor, Spare, Work, WorkError,
};
use message::chunk::Filter;
use std::collections::{BTreeMap, BTreeSet};

/// How often a read that fails is tried; then its part of the stream counts as damaged.
const TRIES_MAX: u8 = 3;

/// A reader of a stream; used again when it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReaderId(pub u32);

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// With the first chunk there is.
    First,
    /// With the last chunk there is; with the next to come if there is none.
    Last,
    /// With the next chunk to come.
    Next,
    /// With the chunk that has this offset; with the nearest if there is none.
    Offset(u64),
    /// With the first chunk that is not older, in milliseconds since 1970; with the next to come if there is none.
    Timestamp(i64),
    /// With the chunk that has the last message but so many.
    LastMessages(u64),
}

/// A reader that comes.
#[derive(Clone, Debug)]
pub struct NewReader {
    /// Where it begins.
    pub from: From,
    /// Chunks that cannot match are left out.
    pub filter: Option<Box<Filter>>,
    /// So many chunks may be handed out.
    pub credit: u32,
    /// It reads only while it is the active one of this group.
    pub group: Option<Group>,
}

/// An answer to a reader.
#[derive(Clone, Debug)]
pub enum Next {
    /// This chunk, for one credit.
    Chunk(Chunk),
    /// Nothing now; [`Effect::Ready`] will tell.
    Wait,
    /// Nothing until there is credit.
    NoCredit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It can be pulled from.
    Standing,
    /// It has all there is.
    AtTail,
    /// A read will wake it.
    Reading,
    /// As [`State::Reading`], once another has come back.
    ReadHeld,
    /// Where it begins is being sought.
    Seeking { ticket: u32, tries: u8 },
    /// As [`State::Seeking`], once another has come back.
    SeekHeld { from: From },
    /// Its group has another one active.
    Standby,
    /// Its client was told to begin, and has not answered.
    Beginning,
    /// Its client was told to stop, and has not answered.
    Retiring,
}

#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    place: Place,
    /// The offset of the chunk at `place`, or one before it where chunks were left out.
    offset: u64,
    /// None were.
    is_exact: bool,
    wanted_from: u64,
    from: From,
    credit: u32,
    /// Bytes of its next read.
    window: u32,
    /// Bytes of the chunk that it got last: the next ones are mostly like it.
    chunk_len: u32,
    filter: Option<Box<Filter>>,
    /// Names the blocks that its filter has left chunks out of; 0 without one.
    tag: u32,
    group: Option<Box<[u8]>>,
    /// Its place in [`Readers::at_tail`], or its number in [`Readers::held`], while it is there.
    waits_at: u64,
}

/// A read given out.
#[derive(Debug)]
struct UnderWay {
    tries: u8,
    read: Read,
    waiting: BTreeSet<ReaderId>,
}

/// The readers of a stream, and the reads they wait for.
///
/// Invariant: a reader is in the list that its state says, and in no other, so that one of a hundred thousand goes without
/// a look at the others.
#[derive(Debug, Default)]
pub(super) struct Readers {
    slots: Vec<Option<Box<Reader>>>,
    /// Slots without a reader, but for those whose reader is out for a moment.
    free: BTreeSet<u32>,
    count: usize,
    at_tail: Vec<ReaderId>,
    reads: Vec<UnderWay>,
    /// Reads and seeks that have not come back, those that nobody waits for any more among them.
    under_way: usize,
    /// Readers that need one more, in order.
    held: BTreeMap<u64, ReaderId>,
    /// The number of the next of them.
    held_next: u64,
    tickets: u32,
}

impl Readers {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// A chunk came.
    pub(super) fn wake(&mut self, effects: &mut Vec<Effect>) {
        let mut waiting = std::mem::take(&mut self.at_tail);
        for reader in waiting.drain(..) {
            self.stand(reader, State::AtTail, effects);
        }
        self.at_tail = waiting;
    }

    /// Chunks that followed in this segment, and behind it, are elsewhere, by offset.
    pub(super) fn moved(&mut self, segment: u64, place_of: impl Fn(u64) -> Option<Place>) {
        for reader in self.slots.iter_mut().flatten().filter(|reader| reader.place.segment >= segment) {
            reader.place = place_of(reader.offset).unwrap_or(reader.place);
            reader.is_exact = false;
        }
    }

    fn get(&self, reader: ReaderId) -> Option<&Reader> {
        self.slots.get(reader.0 as usize)?.as_deref()
    }

    fn get_mut(&mut self, reader: ReaderId) -> Option<&mut Reader> {
        self.slots.get_mut(reader.0 as usize)?.as_deref_mut()
    }

    /// Something that the reader waited for has come.
    fn stand(&mut self, id: ReaderId, waited: State, effects: &mut Vec<Effect>) {
        if let Some(reader) = self.get_mut(id).filter(|reader| reader.state == waited) {
            reader.state = State::Standing;
            effects.push(Effect::Ready(id));
        }
    }

    fn add(&mut self, reader: Reader) -> ReaderId {
        self.count += 1;
        let at = self.free.pop_first().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[at as usize] = Some(Box::new(reader));
        ReaderId(at)
    }

    fn remove(&mut self, id: ReaderId) -> Option<Box<Reader>> {
        let reader = self.slots.get_mut(id.0 as usize)?.take()?;
        self.count -= 1;
        self.forget_waiting(id, (reader.state, reader.waits_at));
        self.free.insert(id.0);
        while self.slots.last().is_some_and(Option::is_none) {
            self.slots.pop();
            self.free.remove(&(self.slots.len() as u32));
        }
        if self.slots.capacity() > 4 * self.slots.len() {
            self.slots.shrink_to(2 * self.slots.len());
        }
        Some(reader)
    }

    /// The reader waits for a chunk to come.
    fn wait_at_tail(&mut self, id: ReaderId, reader: &mut Reader) {
        (reader.state, reader.waits_at) = (State::AtTail, self.at_tail.len() as u64);
        self.at_tail.push(id);
    }

    /// A reader waits until less is under way: its number.
    fn hold(&mut self, id: ReaderId) -> u64 {
        self.held_next += 1;
        self.held.insert(self.held_next, id);
        self.held_next
    }

    /// A reader in this state waits no longer.
    fn forget_waiting(&mut self, id: ReaderId, (state, waits_at): (State, u64)) {
        match state {
            State::AtTail => {
                let at = waits_at as usize;
                self.at_tail.swap_remove(at);
                if let Some(moved) = self.at_tail.get(at).copied()
                    && let Some(reader) = self.get_mut(moved)
                {
                    reader.waits_at = waits_at;
                }
            }
            State::Reading => {
                for read in &mut self.reads {
                    read.waiting.remove(&id);
                }
            }
            State::ReadHeld | State::SeekHeld { .. } => _ = self.held.remove(&waits_at),
            State::Standing | State::Seeking { .. } | State::Standby | State::Beginning | State::Retiring => {
            }
        }
    }
}

impl Stream {
    /// Whether a reader of this group may be added: all its members say the same of where the stream belongs.
    pub fn agrees(&self, group: &Group) -> bool {
        self.groups.agrees(group)
    }

    /// Adds a reader. [`Effect::Ready`] follows when it stands where it begins, unless it is in a group and not active.
    pub fn attach(&mut self, new: NewReader, common: &mut Common, effects: &mut Vec<Effect>) -> ReaderId {
        let NewReader { from, filter, credit, group } = new;
        self.forget_missing(common, effects);
        let id = self.readers.add(Reader {
            state: State::Standby,
            place: Place::default(),
            offset: 0,
            is_exact: false,
            wanted_from: 0,
            from,
            credit,
            window: common.limits.read_bytes_min,
            chunk_len: 0,
            tag: if filter.is_some() { common.take_tag() } else { 0 },
            filter,
            group: group.as_ref().map(|group| group.name.clone()),
            waits_at: 0,
        });
        match group {
            Some(group) => {
                self.groups.join(&group, id);
                self.take_turns(&group.name, effects);
            }
            None => self.begin_at(id, from, common, effects),
        }
        id
    }

    /// Removes a reader. Another of its group may have its turn.
    pub fn detach(&mut self, id: ReaderId, common: &mut Common, effects: &mut Vec<Effect>) {
        let Some(reader) = self.readers.remove(id) else { return };
        if reader.tag != 0 {
            self.readers.reads.retain(|read| read.read.tag != reader.tag);
            common.forget_tag(reader.tag);
        }
        if let Some(name) = reader.group {
            self.groups.leave(&name, id);
            self.take_turns(&name, effects);
        }
        self.shrink_tail(common);
        if self.readers.count() == 0 {
            common.forget_segments(|segment| self.segments.find(segment).is_some());
        }
    }

    /// Groups are no more. Their readers stay as they are until they are detached, and none has its turn for that.
    pub fn disband(&mut self) {
        self.groups = super::groups::Groups::default();
    }

    /// Gives credit for so many more chunks, or takes some back, and answers its credit.
    pub fn credit(&mut self, id: ReaderId, chunks: i32) -> u32 {
        let Some(reader) = self.readers.get_mut(id) else { return 0 };
        reader.credit = reader.credit.saturating_add_signed(chunks);
        reader.credit
    }

    /// The client has answered [`Effect::Active`]. One that begins does so where it says, or else where it was attached.
    pub fn answer(&mut self, id: ReaderId, from: Option<From>, common: &Common, effects: &mut Vec<Effect>) {
        let Some(reader) = self.readers.get_mut(id) else { return };
        let Some(name) = reader.group.clone() else { return };
        match reader.state {
            State::Beginning => {
                let from = from.unwrap_or(reader.from);
                self.begin_at(id, from, common, effects);
            }
            State::Retiring => {
                reader.state = State::Standby;
                self.groups.retired(&name);
            }
            _ => return,
        }
        self.take_turns(&name, effects);
    }

    /// The offset of the chunk where the reader stands; `None`: that is not known yet.
    pub fn stands_at(&self, id: ReaderId) -> Option<u64> {
        let reader = self.readers.get(id)?;
        let stands = [State::Standing, State::AtTail, State::Reading, State::ReadHeld];
        stands.contains(&reader.state).then_some(reader.offset)
    }

    /// Messages below this offset, in the first chunk that the reader gets, were not asked for.
    pub fn wanted_from(&self, id: ReaderId) -> u64 {
        self.readers.get(id).map_or(0, |reader| reader.wanted_from)
    }

    /// Where the chunk lies that the reader got last.
    pub fn handed_at(&self, id: ReaderId, chunk: &Chunk) -> Option<Place> {
        let Place { segment, position } = self.readers.get(id)?.place;
        Some(Place { segment, position: position.checked_sub(chunk.len.into())? })
    }

    /// The next answer to the reader.
    pub fn next(&mut self, id: ReaderId, common: &mut Common, effects: &mut Vec<Effect>) -> Next {
        // Out of its slot while everything else is looked at.
        let Some(mut reader) = self.readers.slots.get_mut(id.0 as usize).and_then(Option::take) else {
            return Next::Wait;
        };
        let next = match reader.state {
            State::Standing if reader.credit == 0 => Next::NoCredit,
            State::Standing => self.read_on(id, &mut reader, common, effects),
            _ => Next::Wait,
        };
        self.readers.slots[id.0 as usize] = Some(reader);
        next
    }

    fn read_on(
        &mut self,
        id: ReaderId,
        reader: &mut Reader,
        common: &mut Common,
        effects: &mut Vec<Effect>,
    ) -> Next {
        let tag = reader.tag;
        let mut passed_over = 0;
        loop {
            let Some(segment) = reader.stand_in(&self.segments) else {
                (reader.offset, reader.is_exact) = (self.next_offset, true);
                self.readers.wait_at_tail(id, reader);
                return Next::Wait;
            };
            let from = reader.place;
            let chunk = if let Some(found) = self.tail.at(from) {
                reader.place = found.place;
                found.chunk.clone()
            } else {
                let end = self.tail.begins_in(from.segment, segment.bytes);
                match common.find(tag, from) {
                    Found::Chunk { position, chunk, is_first, ends } => {
                        reader.place.position = position;
                        if is_first && self.readers.count() == 1 {
                            common.forget_before(tag, from);
                        }
                        // A reader that has read on once will mostly do so again: the next block is there when it is
                        // needed.
                        if is_first && ends.position < end && reader.window > common.limits.read_bytes_min {
                            let place = Place { position: ends.position, ..from };
                            let Ends { offset, is_exact, .. } = ends;
                            let span = Span { place, offset, is_exact, end, segment };
                            self.readers.read(reader, None, span, common, effects);
                        }
                        chunk
                    }
                    Found::Nothing(to) => {
                        reader.place.position = to;
                        reader.is_exact = false;
                        continue;
                    }
                    Found::Unknown => {
                        let span = reader.span(end, segment);
                        self.readers.wait_for(id, reader, span, common, effects);
                        return Next::Wait;
                    }
                }
            };
            reader.place.position += u64::from(chunk.len);
            (reader.offset, reader.is_exact) = (chunk.next_offset(), true);
            reader.chunk_len = chunk.len;
            if reader.filter.as_ref().is_none_or(|filter| filter.may_match(chunk.bloom())) {
                reader.credit -= 1;
                return Next::Chunk(chunk);
            }
            passed_over += 1;
            if passed_over >= common.limits.passed_over_max {
                effects.push(Effect::Ready(id));
                return Next::Wait;
            }
        }
    }

    /// Some work may have come back: begins the reads and seeks that readers were held for.
    pub(super) fn go_on(&mut self, common: &mut Common, effects: &mut Vec<Effect>) {
        while !self.readers.is_full(&common.limits)
            && let Some((_, id)) = self.readers.held.pop_first()
        {
            let Some(reader) = self.readers.get_mut(id) else { continue };
            match reader.state {
                State::SeekHeld { from } => self.begin_at(id, from, common, effects),
                State::ReadHeld => self.read_held(id, common, effects),
                _ => {}
            }
        }
    }

    /// Begins the read that a reader was held for, unless its chunk has come meanwhile, or is gone.
    fn read_held(&mut self, id: ReaderId, common: &mut Common, effects: &mut Vec<Effect>) {
        let Some(mut reader) = self.readers.slots[id.0 as usize].take() else { return };
        let segment = reader.stand_in(&self.segments).filter(|_| self.tail.at(reader.place).is_none());
        match segment.filter(|_| matches!(common.find(reader.tag, reader.place), Found::Unknown)) {
            Some(segment) => {
                let end = self.tail.begins_in(segment.number, segment.bytes);
                let span = reader.span(end, segment);
                self.readers.wait_for(id, &mut reader, span, common, effects);
            }
            None => {
                reader.state = State::Standing;
                effects.push(Effect::Ready(id));
            }
        }
        self.readers.slots[id.0 as usize] = Some(reader);
    }

    /// Tells the member of a group whose turn has come or gone.
    fn take_turns(&mut self, name: &[u8], effects: &mut Vec<Effect>) {
        let (id, state) = match self.groups.turn(name) {
            Turn::Stay => return,
            Turn::Begin(id) => (id, State::Beginning),
            // A reader that has not answered yet is not asked again: this comes again with its answer.
            Turn::Retire(id) => (id, State::Retiring),
        };
        let Some(reader) = self.readers.get_mut(id) else { return };
        if matches!(reader.state, State::Beginning | State::Retiring) {
            return;
        }
        let waited = (std::mem::replace(&mut reader.state, state), reader.waits_at);
        self.readers.forget_waiting(id, waited);
        effects.push(Effect::Active { reader: id, active: state == State::Beginning });
    }

    /// Puts a reader where it begins, or has that sought.
    fn begin_at(&mut self, id: ReaderId, from: From, common: &Common, effects: &mut Vec<Effect>) {
        let start = |segment: &Segment| {
            (Place { segment: segment.number, position: FILE_HEADER_LEN }, segment.first_offset)
        };
        let next = match self.segments.last() {
            Some(last) => (Place { segment: last.number, position: last.bytes }, self.next_offset),
            None => (Place::default(), self.next_offset),
        };
        let first = self.segments.first().map_or(next, start);
        let from = match from {
            From::LastMessages(count) => From::Offset(self.next_offset.saturating_sub(count)),
            from => from,
        };
        let wanted_from = match from {
            From::Offset(offset) if offset > first.1 => offset.min(self.next_offset),
            _ => 0,
        };
        let (at, sought) = match from {
            From::First => (first, None),
            From::Next => (next, None),
            From::Last => (self.last_chunk.unwrap_or(next), None),
            From::Offset(offset) if offset <= first.1 => (first, None),
            From::Offset(offset) => {
                match (self.tail.with_offset(offset), self.segments.with_offset(offset)) {
                    (Some(found), _) => ((found.place, found.chunk.first_offset), None),
                    (None, Some(segment)) if segment.first_offset == offset => (start(segment), None),
                    (None, Some(segment)) => (start(segment), Some((*segment, SeekFor::Offset(offset)))),
                    (None, None) => (next, None),
                }
            }
            From::Timestamp(timestamp_ms) => {
                let found = self.tail.with_timestamp(timestamp_ms);
                match (found, self.segments.with_timestamp(timestamp_ms)) {
                    (Some(found), _) => ((found.place, found.chunk.first_offset), None),
                    (None, Some(segment)) if timestamp_ms <= segment.first_timestamp_ms => {
                        (start(segment), None)
                    }
                    (None, Some(segment)) => {
                        (start(segment), Some((*segment, SeekFor::Timestamp(timestamp_ms))))
                    }
                    (None, None) => (next, None),
                }
            }
            From::LastMessages(_) => (next, None),
        };
        let ticket = self.readers.tickets.wrapping_add(1);
        let is_full = self.readers.is_full(&common.limits);
        let Some(reader) = self.readers.get_mut(id) else { return };
        (reader.place, reader.offset, reader.wanted_from) = (at.0, at.1, wanted_from);
        reader.is_exact = sought.is_none();
        match sought {
            None => {
                reader.state = State::Standing;
                effects.push(Effect::Ready(id));
            }
            Some(_) if is_full => {
                let number = self.readers.hold(id);
                if let Some(reader) = self.readers.get_mut(id) {
                    (reader.state, reader.waits_at) = (State::SeekHeld { from }, number);
                }
            }
            Some((segment, want)) => {
                reader.state = State::Seeking { ticket, tries: 1 };
                self.readers.tickets = ticket;
                self.readers.under_way += 1;
                effects.push(Effect::Work(Work::Seek(self.seek(&segment, want, ticket))));
            }
        }
    }

    fn seek(&self, segment: &Segment, want: SeekFor, ticket: u32) -> Seek {
        let end = self.tail.begins_in(segment.number, segment.bytes);
        Seek { segment: segment.number, want, end, indexed: segment.indexed, ticket }
    }

    /// A search came back.
    pub(super) fn sought(&mut self, done: SeekDone, effects: &mut Vec<Effect>) {
        let SeekDone { segment, want, ticket, result } = done;
        self.readers.under_way = self.readers.under_way.saturating_sub(1);
        let slots = self.readers.slots.iter_mut().enumerate();
        let found = slots
            .filter_map(|(at, slot)| Some((ReaderId(at as u32), slot.as_deref_mut()?)))
            .find(|(_, reader)| matches!(reader.state, State::Seeking { ticket: of, .. } if of == ticket));
        if let Ok(sought) = &result {
            effects.extend(sought.damages.iter().map(|damage| Effect::Damaged(*damage)));
        }
        let Some((id, reader)) = found else { return };
        match (result, reader.state) {
            (Ok(sought), _) => {
                reader.place = Place { segment, position: sought.position.max(FILE_HEADER_LEN) };
                reader.offset = sought.first_offset.unwrap_or(reader.offset);
            }
            (Err(_), State::Seeking { tries, .. }) if tries < TRIES_MAX => {
                if let Some(segment) = self.segments.find(segment).copied() {
                    reader.state = State::Seeking { ticket, tries: tries + 1 };
                    let seek = self.seek(&segment, want, ticket);
                    self.readers.under_way += 1;
                    effects.push(Effect::Work(Work::Seek(seek)));
                    return;
                }
            }
            // From the segment's first chunk on: it is not after the place that was sought, and reading finds the
            // fault.
            (Err(_), _) => {}
        }
        reader.state = State::Standing;
        effects.push(Effect::Ready(id));
    }

    /// A read came back.
    pub(super) fn brought(&mut self, done: ReadDone, common: &mut Common, effects: &mut Vec<Effect>) {
        let ReadDone { place, tag, result } = done;
        self.readers.under_way = self.readers.under_way.saturating_sub(1);
        let reads = &mut self.readers.reads;
        let Some(at) = reads.iter().position(|read| read.read.place == place && read.read.tag == tag) else {
            return;
        };
        let is_there = self.segments.find(place.segment).is_some();
        let block = match result {
            Ok(block) => Some(block),
            Err(_) if is_there && reads[at].tries < TRIES_MAX => {
                reads[at].tries += 1;
                effects.push(Effect::Work(Work::Read(reads[at].read.clone())));
                self.readers.under_way += 1;
                return;
            }
            // Going on is better than standing still: chunks that cannot be read count as damaged.
            Err(error) if is_there => {
                let to = match error {
                    WorkError::Missing => reads[at].read.end,
                    _ => place.position + u64::from(reads[at].read.bytes),
                };
                Some(Block::damaged(
                    Damage { place, reason: DamageReason::Disk(error) },
                    to.min(reads[at].read.end),
                ))
            }
            Err(_) => None,
        };
        let read = reads.swap_remove(at);
        if let Some(block) = block.filter(|_| is_there) {
            effects.extend(block.damages.iter().map(|damage| Effect::Damaged(*damage)));
            common.keep(tag, place, block);
        }
        for reader in read.waiting {
            self.readers.stand(reader, State::Reading, effects);
        }
    }
}

/// Bytes that there are to read in a segment from some place on.
#[derive(Clone, Copy)]
struct Span<'a> {
    place: Place,
    /// The offset that the chunk there has, or one before it.
    offset: u64,
    /// It has that.
    is_exact: bool,
    end: u64,
    segment: &'a Segment,
}

/// So many bytes, or somewhat less, so that the last of several long chunks is not read in part, and again. They may be a little
/// longer than the one before.
fn whole(bytes: u32, chunk_len: u32) -> u32 {
    let is_long = chunk_len > bytes / 16 && chunk_len <= bytes;
    if is_long { (bytes - bytes % chunk_len + chunk_len / 8).min(bytes) } else { bytes }
}

impl Reader {
    /// The segment it stands in, or goes on with; none: it has all there is.
    fn stand_in<'a>(&mut self, segments: &'a Segments) -> Option<&'a Segment> {
        let stood_in = self.place.segment;
        let segment = segments.standing(&mut self.place)?;
        if self.place.segment != stood_in {
            (self.offset, self.is_exact) = (segment.first_offset, true);
        }
        Some(segment)
    }

    /// Bytes that there are to read from where it stands.
    fn span<'a>(&self, end: u64, segment: &'a Segment) -> Span<'a> {
        let Reader { place, offset, is_exact, .. } = *self;
        Span { place, offset, is_exact, end, segment }
    }
}

impl Readers {
    /// As much is under way as may be.
    fn is_full(&self, limits: &Limits) -> bool {
        self.under_way >= limits.reads_max.max(1)
    }

    /// The reader needs this: it waits until it is read, or until it can be.
    fn wait_for(
        &mut self,
        id: ReaderId,
        reader: &mut Reader,
        span: Span<'_>,
        common: &mut Common,
        effects: &mut Vec<Effect>,
    ) {
        if self.read(reader, Some(id), span, common, effects) {
            reader.state = State::Reading;
        } else {
            (reader.state, reader.waits_at) = (State::ReadHeld, self.hold(id));
        }
    }

    /// Has something read for `waiting`, or ahead of need, if nobody has asked for it. False: too much is under way.
    fn read(
        &mut self,
        reader: &mut Reader,
        waiting: Option<ReaderId>,
        span: Span<'_>,
        common: &mut Common,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Span { place, offset, is_exact, end, segment } = span;
        let tag = reader.tag;
        let covers = |read: &UnderWay| {
            read.read.place.segment == place.segment
                && (read.read.tag == 0 || read.read.tag == tag)
                && read.read.place.position <= place.position
                && place.position < read.read.place.position + u64::from(read.read.bytes)
        };
        if let Some(read) = self.reads.iter_mut().find(|read| covers(read)) {
            read.waiting.extend(waiting);
            return true;
        }
        if self.is_full(&common.limits) {
            return false;
        }
        if waiting.is_none() && !matches!(common.find(tag, place), Found::Unknown) {
            return true;
        }
        let Limits { read_bytes_min, read_bytes_max, reads_ahead, loaded_bytes_max, .. } = common.limits;
        // Where many read, their blocks have to fit until they have read them.
        let share = u32::try_from(loaded_bytes_max / (2 * (self.count + 1))).unwrap_or(u32::MAX);
        let bytes = whole(reader.window.min(share.max(read_bytes_min)), reader.chunk_len);
        if reads_ahead {
            reader.window = reader.window.saturating_mul(2).min(read_bytes_max);
        }
        let filter = reader.filter.clone();
        let offsets = offset..segment.next_offset;
        let memory = Spare(
            common.take_retired(bytes.min(u32::try_from(end - place.position).unwrap_or(bytes)) as usize),
        );
        let read = Read {
            place,
            bytes,
            end,
            offsets,
            is_exact,
            indexed: segment.indexed,
            filter,
            tag,
            memory: Spare::default(),
        };
        effects.push(Effect::Work(Work::Read(Read { memory, ..read.clone() })));
        self.reads.push(UnderWay { tries: 1, read, waiting: BTreeSet::from_iter(waiting) });
        self.under_way += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeSet, Effect, From, Place, Reader, ReaderId, Readers, State, whole};
    use rustix::time::{ClockId, clock_gettime};
    use std::time::Duration;

    /// So many readers, which have all there is.
    fn at_tail(count: u32) -> Readers {
        let mut readers = Readers::default();
        for number in 0..count {
            let id = readers.add(Reader {
                state: State::Standing,
                place: Place::default(),
                offset: 0,
                is_exact: true,
                wanted_from: 0,
                from: From::First,
                credit: 1,
                window: 1,
                chunk_len: 0,
                filter: None,
                tag: 0,
                group: None,
                waits_at: 0,
            });
            assert_eq!(id, ReaderId(number));
            let mut reader = readers.slots[number as usize].take().expect("it was added");
            readers.wait_at_tail(id, &mut reader);
            readers.slots[number as usize] = Some(reader);
        }
        readers
    }

    #[test]
    fn readers_that_go_leave_the_others_waiting() {
        let mut readers = at_tail(10);
        for gone in [3, 9, 0, 8] {
            assert!(readers.remove(ReaderId(gone)).is_some());
            assert!(readers.remove(ReaderId(gone)).is_none());
        }
        let mut effects = Vec::new();
        readers.wake(&mut effects);
        let woken = effects.iter().map(|effect| match effect {
            Effect::Ready(id) => id.0,
            other => panic!("{other:?}"),
        });
        assert_eq!(woken.collect::<BTreeSet<_>>(), [1, 2, 4, 5, 6, 7].into());
        assert_eq!((readers.count(), readers.slots.len(), readers.at_tail.len()), (6, 8, 0));
        assert_eq!(readers.free, [0, 3].into());
        let held: Vec<u64> = [1, 2, 4].map(|id| readers.hold(ReaderId(id))).into();
        readers.forget_waiting(ReaderId(2), (State::ReadHeld, held[1]));
        assert_eq!(readers.held.values().map(|id| id.0).collect::<Vec<_>>(), [1, 4], "in order");
    }

    /// A connection may have tens of thousands of readers, which go in one turn.
    #[test]
    fn a_reader_that_goes_looks_at_no_others() {
        let now =
            || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("it never runs backwards");
        let cost = |count: u32| {
            let once = |_| {
                let mut readers = at_tail(count);
                let begin = now();
                (0..count).for_each(|id| drop(readers.remove(ReaderId(id))));
                (now() - begin) / count
            };
            (0..3).map(once).min().unwrap_or_default()
        };
        let (few, many) = (cost(1_000), cost(60_000));
        assert!(many <= 8 * few.max(Duration::from_nanos(250)), "{few:?} among few, {many:?} among many");
    }

    #[test]
    fn long_chunks_are_read_whole() {
        let rows = [(1 << 20, 400_000, 850_000), (1 << 20, 0, 1 << 20), (1 << 20, 2000, 1 << 20)];
        for (bytes, chunk_len, expected) in rows {
            assert_eq!(whole(bytes, chunk_len), expected, "{chunk_len}");
        }
        // One that is longer than a read is read to its end; one that fits is all there is.
        assert_eq!(
            (whole(65_536, 70_000), whole(65_536, 65_536), whole(65_536, 40_000)),
            (65_536, 65_536, 45_000)
        );
    }
}
