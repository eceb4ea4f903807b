//! The selectors of a queue at its owner: expressions that consumers choose messages by.
//!
//! All of them are asked at once, by an index. One that no consumer has stays for [`KEPT_MS`], so that whoever comes back
//! finds its messages known; where those of the log take too many bytes it goes at once. Memory of those that consumers have is
//! their connections' ([`crate::ledger`]). None of this is recorded.

use crate::content::Content;
use crate::selector::Selector;
use base::Now;
use base::id::QueueSeq;
use filter::{Cursor, Filed, Index, Room};
use message::record::Enqueue;
use queue::{SELECTORS_MAX, SelectorId, SelectorSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Milliseconds that a selector stays behind its last consumer, at least.
pub(crate) const KEPT_MS: u64 = 600_000;

/// Milliseconds between two looks for selectors that nobody has.
const LOOK_MS: u64 = 60_000;

/// Bytes that a queue keeps of each kind of memory for evaluating: there may be many queues.
const ROOM_KEPT_MAX: usize = 16 << 10;

/// Bytes that the selectors of all queues of a log take.
pub(crate) type Pool = Arc<AtomicUsize>;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Selectors {
    index: Index,
    /// Of the log, and what of it is this queue's.
    pool: Pool,
    counted: usize,
    /// By number: the handle in the index, and when a consumer was seen to have it last, milliseconds since 1970.
    open: Vec<Option<(Filed, u64)>>,
    looks_at_ms: u64,
    cursor: Cursor,
    room: Room,
    /// A message that is half asked, and the filters that it passed so far.
    half: Option<QueueSeq>,
    hits: Vec<Filed>,
    /// The queue is listed as one with messages to be read.
    pub(crate) is_listed: bool,
}

/// Why a selector is not taken.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It is no program, in words.
    Fault(String),
    /// There are [`SELECTORS_MAX`], and consumers have all of them.
    Full,
}

impl Drop for Selectors {
    fn drop(&mut self) {
        self.pool.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

impl Selectors {
    /// None, of a queue of the log that has this pool.
    pub(crate) fn new(pool: Pool) -> Selectors {
        Selectors {
            index: Index::new(),
            pool,
            counted: 0,
            open: Vec::new(),
            looks_at_ms: 0,
            cursor: Cursor::new(),
            room: Room::default(),
            half: None,
            hits: Vec::new(),
            is_listed: false,
        }
    }

    /// Counts its bytes in the pool.
    fn count(&mut self) {
        let bytes = self.index.memory();
        let before = std::mem::replace(&mut self.counted, bytes);
        self.pool.fetch_add(bytes, Ordering::Relaxed);
        self.pool.fetch_sub(before, Ordering::Relaxed);
    }

    /// The number of a selector, and whether it is new; `used`: those that consumers have. Where there would be too many, `gone`
    /// is told of one that nobody has.
    ///
    /// # Errors
    /// It cannot be taken.
    pub(crate) fn take(
        &mut self,
        selector: &Selector,
        now: Now,
        used: &SelectorSet,
        mut gone: impl FnMut(SelectorId),
    ) -> Result<(SelectorId, bool), Unfit> {
        let fault = |error: filter::Error| Unfit::Fault(error.to_string());
        let mut filed = self.index.add(selector.expression()).map_err(fault)?;
        if filed.number() >= SELECTORS_MAX {
            self.index.remove(filed);
            let unused = self.numbers().filter(|(id, _)| !used.contains(*id));
            let oldest = unused.min_by_key(|(_, used_at_ms)| *used_at_ms);
            let (oldest, _) = oldest.ok_or(Unfit::Full)?;
            self.close(oldest);
            gone(oldest);
            filed = self.index.add(selector.expression()).map_err(fault)?;
        }
        // A message that is half asked would miss it.
        self.forget_half();
        let at = filed.number();
        let id = SelectorId(at.try_into().expect("handles are small"));
        if self.open.len() <= at {
            self.open.resize(at + 1, None);
        }
        let is_new = self.open[at].is_none();
        if !is_new {
            self.index.remove(filed);
        }
        self.open[at] = Some((filed, now.wall_ms));
        self.count();
        self.looks_at_ms = self.looks_at_ms.max(now.wall_ms.saturating_add(LOOK_MS));
        Ok((id, is_new))
    }

    fn numbers(&self) -> impl Iterator<Item = (SelectorId, u64)> + '_ {
        let all = (0..=u8::MAX).zip(&self.open);
        all.filter_map(|(number, open)| open.map(|(_, used_at_ms)| (SelectorId(number), used_at_ms)))
    }

    fn close(&mut self, id: SelectorId) {
        if let Some((filed, _)) = self.open.get_mut(usize::from(id.0)).and_then(Option::take) {
            self.index.remove(filed);
            if self.index.is_empty() {
                self.index = Index::new();
            }
            self.forget_half();
            self.count();
        }
    }

    fn forget_half(&mut self) {
        self.half = None;
        self.cursor.reset();
        self.hits.clear();
    }

    /// When it is to be looked next which ones nobody has, milliseconds since 1970.
    pub(crate) fn looks_at_ms(&self) -> u64 {
        self.looks_at_ms
    }

    /// Ends those that nobody has had for so long, and tells `gone`; `used`: those that consumers have.
    pub(crate) fn look(&mut self, now: Now, used: &SelectorSet, mut gone: impl FnMut(SelectorId)) {
        self.looks_at_ms = now.wall_ms.saturating_add(LOOK_MS);
        for id in self.numbers().map(|(id, _)| id).collect::<Vec<_>>() {
            let Some((_, used_at_ms)) = &mut self.open[usize::from(id.0)] else { continue };
            if used.contains(id) {
                *used_at_ms = now.wall_ms;
            } else if *used_at_ms + KEPT_MS <= now.wall_ms {
                self.close(id);
                gone(id);
            }
        }
    }

    /// Ends those that nobody has where those of the log take `bytes_max`, and tells `gone`.
    pub(crate) fn make_room(
        &mut self,
        used: &SelectorSet,
        bytes_max: usize,
        mut gone: impl FnMut(SelectorId),
    ) {
        for id in self.numbers().map(|(id, _)| id).filter(|id| !used.contains(*id)).collect::<Vec<_>>() {
            if self.pool.load(Ordering::Relaxed) < bytes_max {
                break;
            }
            self.close(id);
            gone(id);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// There is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Asks a message which selectors are true of it, within `left` units of work, of which it takes what that costs. None: there
    /// were too few, and the next call goes on with this message.
    pub(crate) fn ask(
        &mut self,
        (seq, message): (QueueSeq, &Enqueue<'_>),
        now: Now,
        left: &mut u32,
    ) -> Option<SelectorSet> {
        if self.half.is_some_and(|half| half != seq) {
            self.forget_half();
        }
        let (head, body) = ([message.head], [message.body]);
        let way = (message.exchange, message.routing_key);
        let content = Content::new((message.format, message.flags), way, (&head, &body));
        let Selectors { index, cursor, room, hits, .. } = self;
        let budget = (*left).try_into().unwrap_or(usize::MAX);
        let is_done = index.search(&content, room, now.wall_ms, cursor, budget, hits);
        let spent = u32::try_from(cursor.spent()).unwrap_or(u32::MAX);
        *left = left.saturating_sub(spent.max(1));
        if !is_done {
            self.half = Some(seq);
            return None;
        }
        let mut class = SelectorSet::default();
        hits.iter().for_each(|filed| class.insert(SelectorId(filed.number() as u8)));
        self.forget_half();
        Some(class)
    }

    /// Lets go of memory that evaluating took beyond what is kept.
    pub(crate) fn trim(&mut self) {
        if self.half.is_none() {
            self.cursor.trim(ROOM_KEPT_MAX);
            self.room.trim(ROOM_KEPT_MAX);
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Selectors>()
            + self.index.memory()
            + self.cursor.memory()
            + self.room.memory()
            + self.open.capacity() * size_of::<Option<(Filed, u64)>>()
            + self.hits.capacity() * size_of::<Filed>()
    }
}
