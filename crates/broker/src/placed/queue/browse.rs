//! Browsers: clients that are shown the messages of a queue and take none.
//!
//! A browser is a position in the queue and nothing more: it is shown each message that is ready when its turn comes, in
//! order of arrival, from the head on, and then those that arrive. It does not see messages that a consumer holds at
//! that moment, unless it asks for them, nor those that come back behind the position. Messages, their order, counts and
//! times stay as they are.
//! It is no consumer: it is not counted, keeps no queue from ending, and minds no exclusive or single active consumer.
//! Settling what it was shown changes nothing but how much it may be shown.
//!
//! Only a queue somebody browses pays: its browsers are in the box of its owner's features, which goes with the last.

mod held;
mod showing;

use crate::placed::queue::owned::Member;
use base::id::QueueSeq;
use filter::{Program, Room};
use message::record::SeqRange;
use queue::{Command, Credit};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Browser {
    pub(crate) member: Member,
    /// Where it goes on.
    next: QueueSeq,
    credit: Credit,
    /// Messages it was shown since it came, and credit it had used up, wrapping.
    shown: u32,
    /// Of these, those it is to settle yet.
    unsettled: u64,
    /// It settles nothing.
    settled: bool,
    paused: bool,
    drain: bool,
    /// It is shown what consumers hold, too.
    held: bool,
    /// It is shown only messages of which this is true.
    chooses: Option<Box<Chooser>>,
}

/// A selector of a browser, which is asked message by message when they would be shown.
#[derive(Debug)]
struct Chooser {
    program: Program,
    room: Room,
}

impl Browser {
    /// It may be shown another message.
    fn has_room(&self) -> bool {
        let has_credit = match self.credit {
            Credit::Prefetch(prefetch) => {
                prefetch == 0 || self.settled || self.unsettled < u64::from(prefetch)
            }
            Credit::Link(credit) => credit > 0,
        };
        has_credit && !self.paused
    }

    fn saw(&mut self, seq: QueueSeq) {
        self.next = QueueSeq(seq.0 + 1);
        self.shown = self.shown.wrapping_add(1);
        self.unsettled += u64::from(!self.settled);
        if let Credit::Link(credit) = &mut self.credit {
            *credit -= 1;
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Credit { credit, drain, .. } => {
                self.credit = Credit::Link(credit);
                self.drain = drain;
            }
            Command::Prefetch { prefetch, .. } => self.credit = Credit::Prefetch(prefetch),
            Command::Pause { paused, .. } => self.paused = paused,
            Command::Settle { range, .. } => self.settle(range),
            // The rest is of those who take messages.
            _ => {}
        }
    }

    fn settle(&mut self, range: SeqRange) {
        self.unsettled = self.unsettled.saturating_sub(range.last.0 - range.first.0 + 1);
    }
}
