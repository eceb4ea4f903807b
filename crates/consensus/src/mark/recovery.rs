//! Reading back the marks of one log, at a start.
//!
//! Batches come in the order they were written, from the journal files that the log's newest sound snapshot needs. So the
//! first ones may be of entries that the snapshot covers, or of ones that were taken away later, and those before them are
//! not known. Whether they fit the snapshot is therefore asked at the end.
//!
//! Invariants: entries are dense, the last one has index `next - 1`, and the records of each begin where those of the one
//! before end. Nothing is held of entries that the snapshot covers but their names and places.

use super::fault::Fault;
use super::members::{Seat, members_of};
use super::note::{Note, Part};
use crate::entry::{Content, Entry, EntryId, Members, Vote};
use base::Buffer;
use base::id::LogIndex;
use journal::{Batch, Place, RecoveredBatch};

/// The words of a log's snapshot about its entries. The default: a log without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The last entry it covers.
    pub last: Option<EntryId>,
    /// Where the records behind that one begin.
    pub end: LogIndex,
    /// The vote promised when it was written.
    pub vote: Option<Vote>,
}

impl Start {
    /// The index of the first entry that it does not cover.
    fn next(&self) -> u64 {
        self.last.map_or(0, |last| last.index.saturating_add(1))
    }
}

/// The state of a replica, as its journal has it.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The vote promised.
    pub vote: Option<Vote>,
    /// Entries up to this one were let go of. It may be behind the snapshot's last one, where a newer snapshot rotted, or
    /// before it; the journal files that are read need not hold it.
    pub purged: Option<EntryId>,
    /// Entries up to this index are agreed on, and perhaps more.
    pub agreed: Option<u64>,
    /// The entries that the snapshot does not cover, in order and dense.
    pub entries: Vec<Found>,
    /// The last entry: of these, or of the snapshot.
    pub last: Option<EntryId>,
    /// The end of the records.
    pub end: LogIndex,
    /// Where records are that the snapshot covers, in order: messages of them may live, and be in no segment.
    pub covered: Vec<Covered>,
}

/// A batch whose records the snapshot covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// Where its records begin.
    pub base: LogIndex,
    /// Where they are.
    pub place: Place,
}

/// An entry, found again.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name.
    pub id: EntryId,
    /// Where its records begin, or those of the next entry that has some.
    pub base: LogIndex,
    /// Where it is in the journal; of one with several batches the last.
    pub place: Place,
    /// Its content.
    pub content: FoundContent,
}

/// See [`Found`].
#[derive(Clone, Debug)]
pub enum FoundContent {
    /// Nothing.
    Blank,
    /// Records, in memory that others have records in.
    Batch(RecoveredBatch),
    /// The members.
    Members(Members),
}

impl Found {
    /// The entry, whose records have memory of their own: a copy, and a sum over it.
    pub fn to_entry(&self) -> Entry {
        let content = match &self.content {
            FoundContent::Blank => Content::Blank,
            FoundContent::Members(members) => Content::Members(members.clone()),
            FoundContent::Batch(found) => {
                let records = &found.memory[found.records.clone()];
                let mut batch = Batch::new(found.log, found.base, Buffer::with_capacity(records.len()));
                batch.records().extend(records);
                Content::Batch(batch.seal(found.committed_at_ms))
            }
        };
        Entry { id: self.id, content }
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct Recovery {
    start: Start,
    vote: Option<Vote>,
    purged: Option<EntryId>,
    agreed: Option<u64>,
    /// The last entries.
    slots: Vec<Slot>,
    /// The entry before those, if it is known.
    before: Option<EntryId>,
    /// The index of the next entry; none: no entry was met yet.
    next: Option<u64>,
    /// The end of the records; none: no batch was met yet.
    end: Option<LogIndex>,
    parts: Option<Parts>,
    /// Records that no entry of the snapshot's log is behind: of before the first of `slots`.
    covered: Vec<Covered>,
}

#[derive(Debug)]
struct Slot {
    id: EntryId,
    base: LogIndex,
    place: Place,
    /// None: the snapshot has it. Of a fault is told at the end: members whose parts are in a file that is not read may have
    /// been taken away later.
    content: Option<Result<FoundContent, Fault>>,
}

/// The members of an entry to come, so far.
#[derive(Debug)]
struct Parts {
    index: u64,
    count: u16,
    seats: Vec<Seat>,
}

impl Recovery {
    /// Begins with a log of which nothing but its snapshot was read.
    pub fn new(start: Start) -> Recovery {
        Recovery { start, ..Recovery::default() }
    }

    /// Takes the log's next batch in.
    ///
    /// # Errors
    /// No replica writes it here. What comes behind it is not to be taken in.
    pub fn visit(&mut self, batch: RecoveredBatch) -> Result<(), Fault> {
        let (base, len) = (batch.base, batch.records.len() as u64);
        let end = base.0.checked_add(len).map(LogIndex).ok_or(Fault::End { base })?;
        let parts = self.parts.take();
        let Some(mark) = batch.mark else { return self.unmarked(base, end, batch.place) };
        let note = Note::read(mark)?;
        if matches!(note, Note::Batch(_)) != (len > 0) {
            return Err(Fault::Records { len });
        }
        if !len.is_multiple_of(8) {
            return Err(Fault::Length { len });
        }
        let place = batch.place;
        match note {
            Note::Batch(id) => self.entry(id, (base, end, place), |_| Ok(FoundContent::Batch(batch))),
            Note::Blank(id) => self.entry(id, (base, end, place), |_| Ok(FoundContent::Blank)),
            Note::Members(id) => self.entry(id, (base, end, place), |index| {
                let whole = parts.filter(|parts| parts.index == index && parts.is_whole());
                let members = members_of(&whole.ok_or(Fault::Parts { index })?.seats);
                members.map(FoundContent::Members).map_err(|fault| Fault::Members { index, fault })
            }),
            Note::Part(part) => self.part(part, base, parts),
            Note::Vote(vote) => self.vote(vote, base),
            Note::Truncated(index) => self.cut(index, base),
            Note::Purged(id) => self.purge(id, base),
            Note::Agreed(index) => self.agree(index, base),
        }
    }

    /// The state after all batches.
    ///
    /// # Errors
    /// The batches and the snapshot do not fit together.
    pub fn finish(mut self) -> Result<Recovered, Fault> {
        let Start { last, end, vote } = self.start;
        let start = self.start.next();
        let other = Fault::OtherSnapshot { end };
        let next = self.next.unwrap_or(start).max(start);
        if let Some(index) = self.agreed.filter(|index| *index >= next) {
            return Err(Fault::AgreedBeyond { index });
        }
        match self.next {
            // No entry, and one that is missing: with records behind the snapshot.
            None if self.end > Some(end) => return Err(other),
            // A snapshot was installed, and the end came before the log said so.
            Some(next) if next < start => {
                self.slots.clear();
                self.covered.clear();
            }
            Some(next) => self.follow_snapshot(next)?,
            None => {}
        }
        let vote = match (vote, self.vote) {
            (Some(first), Some(found)) if later(first, found) => Some(found),
            // The journal files that are read begin before the snapshot.
            (Some(promised), Some(found)) if later(found, promised) => Some(promised),
            (Some(promised), Some(found)) => return Err(Fault::VoteGoesBack { promised, found }),
            (one, other) => one.or(other),
        };
        let (purged, agreed) = (self.purged, self.agreed);
        let is_behind = self.next.is_some_and(|next| next >= start);
        let last = self.slots.last().map(|slot| slot.id).or(last);
        let end = self.end.filter(|_| is_behind).unwrap_or(end);
        let entries = self.slots.into_iter().filter_map(Slot::found).collect::<Result<_, _>>()?;
        Ok(Recovered { vote, purged, agreed, entries, last, end, covered: self.covered })
    }

    /// Lets go of the entries that the snapshot covers, of which the last is its own.
    fn follow_snapshot(&mut self, next: u64) -> Result<(), Fault> {
        let Start { last, end, .. } = self.start;
        let start = self.start.next();
        let first = next - self.slots.len() as u64;
        let covered = start.checked_sub(first).ok_or(Fault::Missing { from: start, found: first })? as usize;
        let base = self.slots.get(covered).map(|slot| slot.base).or(self.end);
        let before = covered.checked_sub(1).map_or(self.before, |at| Some(self.slots[at].id));
        if base != Some(end) || (before.is_some() && before != last) {
            return Err(Fault::OtherSnapshot { end });
        }
        let covered = self.slots.drain(..covered).filter(|slot| slot.place.len > 0);
        self.covered.extend(covered.map(|slot| Covered { base: slot.base, place: slot.place }));
        if let (Some(before), Some(first)) = (last, self.slots.first()) {
            follows(before, first.id)?;
        }
        Ok(())
    }

    /// A batch from when the log had one member. Snapshots cover all of those.
    fn unmarked(&mut self, base: LogIndex, end: LogIndex, place: Place) -> Result<(), Fault> {
        if end > self.start.end {
            return Err(Fault::Unmarked { base });
        }
        self.slots.clear();
        self.covered.push(Covered { base, place });
        (self.before, self.next, self.end) = (None, None, Some(end));
        Ok(())
    }

    fn entry(
        &mut self,
        id: EntryId,
        (base, end, place): (LogIndex, LogIndex, Place),
        content: impl FnOnce(u64) -> Result<FoundContent, Fault>,
    ) -> Result<(), Fault> {
        self.cut(id.index, base)?;
        let before = self.slots.last().map(|slot| slot.id).or(self.before);
        before.map_or(Ok(()), |before| follows(before, id))?;
        let content = (id.index >= self.start.next()).then(|| content(id.index));
        self.slots.push(Slot { id, base, place, content });
        (self.next, self.end) = (Some(id.index + 1), Some(end));
        Ok(())
    }

    fn part(&mut self, part: Part, base: LogIndex, parts: Option<Parts>) -> Result<(), Fault> {
        self.cut(part.index, base)?;
        let Part { index, number, count, .. } = part;
        // One that does not follow on the one before begins no list: its entry will find it not whole.
        let goes_on = |parts: &Parts| {
            parts.index == index && parts.count == count && parts.seats.len() == usize::from(number)
        };
        let begun = match number {
            0 => Some(Parts { index, count, seats: Vec::new() }),
            _ => parts.filter(goes_on),
        };
        self.parts = begun.map(|mut parts| {
            parts.seats.push(part.seat());
            parts
        });
        Ok(())
    }

    /// Takes the entries from `index` on away, where a batch at `base` has said so.
    fn cut(&mut self, index: u64, base: LogIndex) -> Result<(), Fault> {
        let agreed = self.agreed.max(self.purged.map(|id| id.index));
        if agreed.is_some_and(|agreed| index <= agreed) {
            return Err(Fault::TakesBackAgreed { index });
        }
        if let Some(from) = self.next.filter(|next| index > *next) {
            return Err(Fault::Missing { from, found: index });
        }
        let kept = self.next.and_then(|next| self.slots.len().checked_sub((next - index) as usize));
        let expected = match kept {
            Some(kept) => self.slots.get(kept).map(|slot| slot.base).or(self.end),
            // The entry that was there is in a file that is not read: before all that is known.
            None => self.slots.first().map(|slot| slot.base).or(self.end).map(|bound| bound.min(base)),
        };
        if let Some(expected) = expected.filter(|expected| *expected != base) {
            return Err(Fault::Base { expected, found: base });
        }
        self.slots.truncate(kept.unwrap_or(0));
        (self.next, self.end) = (Some(index), Some(base));
        Ok(())
    }

    /// A mark that changes no entry stands at the end.
    fn stay(&mut self, base: LogIndex) -> Result<(), Fault> {
        match self.end {
            Some(expected) if expected != base => Err(Fault::Base { expected, found: base }),
            _ => {
                self.end = Some(base);
                Ok(())
            }
        }
    }

    fn vote(&mut self, found: Vote, base: LogIndex) -> Result<(), Fault> {
        self.stay(base)?;
        if let Some(promised) = self.vote.filter(|promised| !later(*promised, found)) {
            return Err(Fault::VoteGoesBack { promised, found });
        }
        self.vote = Some(found);
        Ok(())
    }

    fn agree(&mut self, index: u64, base: LogIndex) -> Result<(), Fault> {
        self.stay(base)?;
        if self.next.is_some_and(|next| index >= next) {
            return Err(Fault::AgreedBeyond { index });
        }
        self.agreed = self.agreed.max(Some(index));
        Ok(())
    }

    fn purge(&mut self, id: EntryId, base: LogIndex) -> Result<(), Fault> {
        let other = Fault::Purged { id };
        if let Some(purged) = self.purged {
            if id.index < purged.index || (id.index == purged.index && id != purged) {
                return Err(other);
            }
            follows(purged, id)?;
        }
        let is_known = match self.next {
            Some(next) => id.index < next,
            None => id.index < self.start.next() && self.end.is_none_or(|end| end == base),
        };
        if is_known {
            self.stay(base)?;
            let back = self.next.map(|next| (next - id.index) as usize);
            let slot = back.and_then(|back| self.slots.len().checked_sub(back)).map(|at| &self.slots[at]);
            if slot.is_some_and(|slot| slot.id != id) {
                return Err(other);
            }
        } else {
            // A snapshot was installed that ends behind the log.
            self.slots.clear();
            self.covered.clear();
            (self.before, self.next, self.end) = (Some(id), Some(id.index + 1), Some(base));
        }
        self.purged = Some(id);
        Ok(())
    }
}

impl Parts {
    fn is_whole(&self) -> bool {
        self.seats.len() == usize::from(self.count)
    }
}

impl Slot {
    fn found(self) -> Option<Result<Found, Fault>> {
        let Slot { id, base, place, content } = self;
        content.map(|content| content.map(|content| Found { id, base, place, content }))
    }
}

/// Whether a replica that promised one vote may promise the other.
fn later(promised: Vote, found: Vote) -> bool {
    // Those who voted for another in a term follow the one who won it.
    let (same, is_same) = (promised.term == found.term, promised.candidate == found.candidate);
    let is_won_since = !promised.is_won && found.is_won;
    promised.term < found.term || (same && (is_won_since || (is_same && promised.is_won == found.is_won)))
}

/// Whether an entry may be behind another, one place or more.
pub(crate) fn follows(before: EntryId, id: EntryId) -> Result<(), Fault> {
    if id.term < before.term {
        return Err(Fault::TermGoesBack { before, id });
    }
    Ok(())
}
