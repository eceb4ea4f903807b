//! Consumers that choose: their messages are found out as they come, and those that were there before in the background.
//!
//! Messages are read where they lie, in order of position; those on disk alone are read first. What comes is asked in front
//! of handing out, within a small part of a turn's work. What is left, and what was there before a selector, is asked at the
//! end of the turn, queue by queue, within [`Limits::choosing_work_max`] for a log.
//! A message whose bytes are damaged is true of no selector.

use super::at::AtQueue;
use super::delivery::Site;
use super::owned::OwnedQueue;
use super::selectors::{Selectors, Unfit};
use crate::catalog::{Reason, Refusal};
use crate::limits::Limits;
use crate::reading::ReadWhat;
use crate::selector::Selector;
use crate::turn::Turn;
use base::Now;
use base::id::QueueSeq;
use message::record::{Enqueue, SeqRange};
use queue::{SELECTORS_MAX, SelectorId, SelectorSet};

/// Units of work on messages that came, each time something is handed out.
const COMING_WORK_MAX: u32 = 20_000;

/// Units of work on one queue before another one has its turn.
const QUEUE_WORK_MAX: u32 = 20_000;

/// Messages that are looked up together.
const TOGETHER: usize = 64;

/// The argument that has the expression.
const ARGUMENT: &str = "x-filter";

/// How far messages were asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// All were.
    All,
    /// There was not enough work left for more.
    Some,
    /// The next ones have to be read first.
    Reading,
}

impl OwnedQueue {
    /// Some of its consumers choose.
    #[inline]
    pub(crate) fn is_chosen_from(&self) -> bool {
        self.features.as_ref().is_some_and(|features| features.selectors.is_some())
    }

    /// Selectors that consumers have, or had of late.
    pub(crate) fn selectors(&self) -> u32 {
        let selectors = self.features.as_ref().and_then(|features| features.selectors.as_ref());
        selectors.map_or(0, |selectors| selectors.len() as u32)
    }
}

impl AtQueue<'_> {
    /// The number of a selector that a consumer is to have.
    ///
    /// # Errors
    /// It cannot have one on this queue, or there are too many.
    pub(crate) fn open_selector(&mut self, now: Now, selector: &Selector) -> Result<SelectorId, Refusal> {
        let queue = &mut *self.queue;
        let named = queue.definition().named();
        // The record that opens a queue with groups may be under way.
        if queue.fifo.is_grouped() || queue.definition().group_header().is_some() {
            let why = " whose messages are in groups";
            return Err(Refusal::invalid_argument(ARGUMENT, &named, why));
        }
        let used = queue.fifo.selectors_used();
        let mut gone = Vec::new();
        let pool = &self.commons.selectors;
        let new = || Box::new(Selectors::new(pool.clone()));
        let selectors = queue.features_mut(now).selectors.get_or_insert_with(new);
        let taken = selectors.take(selector, now, &used, |id| gone.push(id));
        if selectors.is_empty() {
            queue.features_mut(now).selectors = None;
        }
        gone.into_iter().for_each(|id| queue.fifo.close_selector(id));
        match taken {
            Ok((id, is_new)) => {
                if is_new {
                    queue.fifo.open_selector(id);
                }
                Ok(id)
            }
            Err(Unfit::Fault(fault)) => {
                Err(Refusal::invalid_argument(ARGUMENT, &named, &format!(": {fault}")))
            }
            Err(Unfit::Full) => {
                let text = format!("{named} has {SELECTORS_MAX} selectors, which is the most");
                Err(Refusal::precondition(Reason::WrongState, text))
            }
        }
    }

    /// Ends selectors that nobody has had for long, where it is time to look.
    pub(crate) fn look_at_selectors(&mut self, now: Now) {
        self.end_selectors(|selectors, used, gone| {
            if selectors.looks_at_ms() <= now.wall_ms {
                selectors.look(now, used, |id| gone.push(id));
            }
        });
    }

    /// A consumer has left: its selector stays only where there is room.
    pub(crate) fn make_room_for_selectors(&mut self, limits: &Limits) {
        self.end_selectors(|selectors, used, gone| {
            selectors.make_room(used, limits.selectors_bytes_max, |id| gone.push(id));
        });
    }

    /// Ends the selectors that `choose` says are to end.
    fn end_selectors(&mut self, choose: impl FnOnce(&mut Selectors, &SelectorSet, &mut Vec<SelectorId>)) {
        let queue = &mut *self.queue;
        let Some(features) = &mut queue.features else { return };
        let Some(selectors) = &mut features.selectors else { return };
        let mut gone = Vec::new();
        choose(selectors, &queue.fifo.selectors_used(), &mut gone);
        if selectors.is_empty() {
            features.selectors = None;
        }
        gone.into_iter().for_each(|id| queue.fifo.close_selector(id));
    }

    /// In front of handing out: asks the messages that came, as many as there is work for; the queue is listed for the others.
    #[cold]
    #[inline(never)]
    pub(crate) fn choose_first(&mut self, turn: &mut Turn<'_>) {
        self.look_at_selectors(turn.now);
        let mut left = COMING_WORK_MAX;
        if self.ask(turn.now, &mut left) == Asked::Some {
            self.list_choosing();
        }
    }

    /// Asks some of the messages of a queue that is listed; it is listed again where there are more. The units of work that it
    /// took.
    pub(crate) fn choose_some(&mut self, now: Now) -> u32 {
        if let Some(features) = &mut self.queue.features
            && let Some(selectors) = &mut features.selectors
        {
            selectors.is_listed = false;
        }
        let mut left = QUEUE_WORK_MAX;
        if self.ask(now, &mut left) == Asked::Some {
            self.list_choosing();
        }
        self.commons.reads.reading.chooses_on(self.slot);
        // There may be something for somebody.
        self.mark_dirty();
        QUEUE_WORK_MAX - left
    }

    fn list_choosing(&mut self) {
        let Some(features) = &mut self.queue.features else { return };
        let Some(selectors) = &mut features.selectors else { return };
        if !std::mem::replace(&mut selectors.is_listed, true) {
            self.commons.agenda.choosing.push_back(self.slot);
        }
    }

    /// Asks messages which selectors are true of them, in order, within so many units of work.
    fn ask(&mut self, now: Now, left: &mut u32) -> Asked {
        let Some(features) = &mut self.queue.features else { return Asked::All };
        let Some(mut selectors) = features.selectors.take() else { return Asked::All };
        let mut asked = Asked::Some;
        while *left > 0 {
            asked = match self.queue.fifo.to_classify() {
                None => Asked::All,
                Some(range) => self.ask_some(&mut selectors, range, now, left),
            };
            if asked != Asked::Some {
                break;
            }
        }
        selectors.trim();
        if let Some(features) = &mut self.queue.features {
            features.selectors = Some(selectors);
        }
        asked
    }

    /// Asks the first messages of a range.
    fn ask_some(&mut self, selectors: &mut Selectors, range: SeqRange, now: Now, left: &mut u32) -> Asked {
        let some: Vec<QueueSeq> = self.queue.fifo.live_within(range).take(TOGETHER).collect();
        let is_all = some.len() < TOGETHER;
        let mut asked = Asked::Some;
        // Where the next one begins that was not asked.
        let mut end = if is_all { range.last.0 + 1 } else { some[TOGETHER - 1].0 + 1 };
        for seq in some {
            let class = match self.locate(seq) {
                Site::Here(memory, offset) => {
                    let message = Enqueue::read(&memory[offset as usize..]);
                    let message = message.expect("a live message is a record");
                    selectors.ask((seq, &message), now, left)
                }
                Site::Away(what) => {
                    self.commons.reads.reading.wait_to_choose(what, self.slot, seq);
                    asked = Asked::Reading;
                    None
                }
                Site::Gone => Some(SelectorSet::default()),
            };
            let Some(class) = class else {
                end = seq.0;
                break;
            };
            self.queue.fifo.classify(seq, class);
            if *left == 0 {
                end = seq.0 + 1;
                break;
            }
        }
        if end > range.first.0 {
            self.queue.fifo.classified(SeqRange { first: range.first, last: QueueSeq(end - 1) });
        }
        asked
    }

    /// The bytes there are damaged: no selector is true of those of the next messages that lie in them.
    #[cold]
    pub(crate) fn pass_over_choosing(&mut self, what: ReadWhat) {
        let Some(range) = self.queue.fifo.to_classify().filter(|_| self.queue.is_owned()) else { return };
        let mut next = range.first;
        while next <= range.last {
            let rest = SeqRange { first: next, last: range.last };
            let Some(seq) = self.queue.fifo.live_within(rest).next() else { break };
            if !matches!(self.locate(seq), Site::Away(found) if found == what) {
                break;
            }
            self.queue.fifo.classify(seq, SelectorSet::default());
            next = QueueSeq(seq.0 + 1);
        }
        if next > range.first {
            self.queue.fifo.classified(SeqRange { first: range.first, last: QueueSeq(next.0 - 1) });
        }
    }
}
