//! A consumer of AMQP messages of a stream: what it may be sent, and how far it has come.
//!
//! Settling changes nothing but how much it may be sent.

use super::cursor::{Budget, Cursor, Expected, Sink, Unpacked};
use super::messages::{Converter, Entry};
use super::pace::Pace;
use super::progress::Progress;
use super::request::Wanted;
use super::verdicts::Verdicts;
use crate::catalog::QueueDefinition;
use crate::event::Item;
use crate::placed::queue::owned::Member;
use crate::request::{Credit, NewConsumer};
use base::Buffer;
use base::id::QueueSeq;
use message::chunk::Filter;
use message::record::{Format, Outcome, SeqRange};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) member: Member,
    credit: Credit,
    /// How it gets messages.
    format: Format,
    /// Messages it may have been sent in all, where it has link credit; wrapping.
    limit: u32,
    /// Messages it was sent since it came, and credit it had used up, wrapping.
    delivered: u32,
    /// Of these, those it is to settle yet.
    unsettled: u64,
    /// It settles nothing.
    settled: bool,
    pub(crate) is_paused: bool,
    drain: bool,
    /// Where it stands in the stream.
    pub(crate) cursor: Cursor,
    /// How fast it gets messages; none: as fast as it may.
    pace: Option<Pace>,
    /// It waits for its pace, and is listed for that.
    waits: bool,
    /// Which chunks it is to see.
    pub(crate) chunks: Option<Filter>,
    /// It goes on from here: what was handed out was not sent.
    pub(crate) back_to: Option<u64>,
    /// How far it has come, where it has a name by which that is remembered.
    pub(crate) progress: Option<Box<Progress>>,
}

impl Consumer {
    pub(crate) fn new(
        member: Member,
        new: &NewConsumer,
        format: Format,
        (wanted, rate): (Option<Wanted>, Option<u32>),
    ) -> Consumer {
        let NewConsumer { credit, settled, .. } = *new;
        Consumer {
            member,
            credit,
            format,
            limit: 0,
            delivered: 0,
            unsettled: 0,
            settled,
            is_paused: false,
            drain: false,
            cursor: Cursor::new(wanted),
            pace: rate.map(Pace::new),
            waits: false,
            chunks: None,
            back_to: None,
            progress: None,
        }
    }

    /// Messages that it may be sent now.
    pub(crate) fn room(&self) -> u32 {
        if self.is_paused {
            return 0;
        }
        match self.credit {
            Credit::Prefetch(0) => u32::MAX,
            Credit::Prefetch(_) if self.settled => u32::MAX,
            Credit::Prefetch(prefetch) => {
                u32::try_from(u64::from(prefetch).saturating_sub(self.unsettled)).unwrap_or(u32::MAX)
            }
            Credit::Link => {
                let credit = self.limit.wrapping_sub(self.delivered);
                if credit > u32::MAX / 2 { 0 } else { credit }
            }
        }
    }

    /// Messages that may go now by its pace.
    pub(crate) fn allowed(&mut self, now_ns: u64) -> u32 {
        self.pace.as_mut().map_or(u32::MAX, |pace| pace.allowed(now_ns))
    }

    /// It has room, and its next message is not due: when it is to be listed again, if that was not said before; monotonic
    /// nanoseconds.
    pub(crate) fn wait_for_turn(&mut self, now_ns: u64) -> Option<u64> {
        let next_turn = self.pace.as_ref().map(|pace| pace.next_turn(now_ns));
        next_turn.filter(|_| !std::mem::replace(&mut self.waits, true))
    }

    /// It is listed again.
    pub(crate) fn has_waited(&mut self) {
        self.waits = false;
    }

    /// It settles nothing.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Its link may have been sent so many in all.
    pub(crate) fn credit(&mut self, limit: u32, drain: bool) {
        (self.credit, self.limit, self.drain) = (Credit::Link, limit, drain);
    }

    pub(crate) fn prefetch(&mut self, prefetch: u32) {
        self.credit = Credit::Prefetch(prefetch);
    }

    pub(crate) fn settle(&mut self, range: SeqRange, outcome: Outcome) {
        if let Some(progress) = &mut self.progress {
            progress.settle(range, outcome);
        }
        self.unsettled = self.unsettled.saturating_sub(range.last.0.saturating_sub(range.first.0) + 1);
    }

    /// A message that was handed out was not sent: it goes on there.
    pub(crate) fn unsent(&mut self, range: SeqRange) {
        let count = range.last.0 - range.first.0 + 1;
        self.delivered = self.delivered.wrapping_sub(count as u32);
        if !self.settled {
            self.unsettled = self.unsettled.saturating_sub(count);
        }
        if let Some(progress) = &mut self.progress {
            progress.unsent(range);
        }
        self.back_to = Some(self.back_to.map_or(range.first.0, |back_to| back_to.min(range.first.0)));
        self.cursor.leave();
    }

    /// Nothing is left to send. What of its credit was not used, if it wanted it used up.
    pub(crate) fn drained(&mut self) -> Option<u32> {
        if !self.drain {
            return None;
        }
        self.drain = false;
        let unused = self.room();
        self.delivered = self.delivered.wrapping_add(unused);
        Some(unused)
    }

    /// Unpacks what follows in the chunk, as far as it has room. Records go to `into`, and what there is to tell of them to
    /// `items`.
    pub(crate) fn unpack(
        &mut self,
        stream: &QueueDefinition,
        now_ms: u64,
        budget: Budget<'_>,
        verdicts: Option<&mut Verdicts>,
        converter: &mut Converter,
        (into, items): (&mut Buffer, &mut Vec<Item>),
    ) -> Unpacked {
        let budget = Budget { room: self.room().min(budget.room), ..budget };
        let progress = self.progress.as_deref_mut();
        let mut shown = Shown { converter, format: self.format, progress, settled: self.settled, items };
        let (unpacked, count) = self.cursor.unpack(stream, now_ms, budget, verdicts, &mut shown, into);
        if let Some(pace) = &mut self.pace {
            pace.sent(count);
        }
        self.delivered = self.delivered.wrapping_add(count);
        if !self.settled {
            self.unsettled += u64::from(count);
        }
        unpacked
    }
}

/// Sink of the messages that a consumer is sent.
struct Shown<'a> {
    converter: &'a mut Converter,
    format: Format,
    progress: Option<&'a mut Progress>,
    settled: bool,
    items: &'a mut Vec<Item>,
}

impl Sink for Shown<'_> {
    fn converter(&mut self) -> &mut Converter {
        self.converter
    }

    fn take(&mut self, (_, entry): (&[u8], Entry<'_>), wanted: Expected<'_>, into: &mut Buffer) -> bool {
        let (offset, record_at) = (entry.offset, into.len() as u32);
        let is_shown = self.converter.show(entry, self.format, wanted, into);
        if is_shown {
            if let Some(progress) = &mut self.progress {
                progress.hand_out(offset, self.settled);
            }
            self.items.push(Item { seq: QueueSeq(offset), offset: record_at, marks: 0 });
        }
        is_shown
    }
}
