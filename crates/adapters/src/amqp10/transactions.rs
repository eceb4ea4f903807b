//! The transactions of a connection: what is held back until they are discharged, and discharges that wait for confirms.

use super::outcomes::Added;
use crate::transaction::{NoRoom, Transaction};
use ::amqp10::{LinkId, SessionId, condition};
use base::Now;
use broker::Publisher;
use message::record::{Outcome, SeqRange};
use std::collections::VecDeque;

/// Transactions of a connection that are under way at once.
pub(super) const TRANSACTIONS_MAX: usize = 64;

/// Milliseconds a transaction may take.
pub(super) const TRANSACTION_MS_MAX: u64 = 300_000;

/// Deliveries whose outcome is held back.
#[derive(Clone, Debug)]
pub(super) struct Retired {
    pub(super) session: SessionId,
    pub(super) consumer: u32,
    /// The first delivery-id.
    pub(super) delivery_id: u32,
    pub(super) range: SeqRange,
    pub(super) outcome: Outcome,
    /// The annotations the outcome adds.
    pub(super) added: Option<Added>,
    /// The receiver has settled them.
    pub(super) settled: bool,
}

/// Why a transaction can only be undone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doomed {
    pub(super) condition: &'static str,
    pub(super) text: &'static str,
}

/// It holds as much as all transactions of a connection may, see [`crate::Settings::transaction_bytes_max`].
pub(super) const TOO_LARGE: Doomed =
    Doomed { condition: condition::ROLLED_BACK, text: "the transaction is larger than it may be" };

/// Carrying it out takes more than one turn is for, see [`crate::Settings::transaction_work_max`].
pub(super) const TOO_DEAR: Doomed = Doomed {
    condition: condition::RESOURCE_LIMIT_EXCEEDED,
    text: "the transaction takes more work than one may (leveret.transaction_work_max)",
};

impl Doomed {
    /// There is no room for more of a transaction.
    pub(super) fn for_room(none: &NoRoom) -> Doomed {
        match none {
            NoRoom::Transaction => TOO_LARGE,
            NoRoom::Ledger(full) => {
                Doomed { condition: condition::RESOURCE_LIMIT_EXCEEDED, text: full.bound.text() }
            }
        }
    }
}

/// A controller's name for a transaction: nothing that another controller could guess.
pub(super) type TransactionId = [u8; 16];

/// A message of it could not be posted, and its sender was not told.
pub(super) const NOT_POSTED: Doomed =
    Doomed { condition: condition::ROLLED_BACK, text: "a message of the transaction could not be posted" };

/// A transaction under way.
#[derive(Debug)]
pub(super) struct Open {
    id: TransactionId,
    /// Its coordinator.
    pub(super) session: SessionId,
    link: LinkId,
    /// When it is given up, monotonic nanoseconds.
    ends_at_ns: u64,
    pub(super) doomed: Option<Doomed>,
    pub(super) held: Transaction<Retired>,
}

/// A discharge whose publishes are not all safe yet.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The link that is told; none, when it is gone.
    pub(super) tell: Option<(SessionId, LinkId)>,
    pub(super) delivery_id: u32,
    /// The first number its publishes got, and the one after the last.
    pub(super) first: u64,
    pub(super) end: u64,
    /// How many of those are waited for.
    pub(super) left: u64,
    /// A queue was full for one of them.
    pub(super) was_refused: bool,
}

/// The transactions of a connection.
#[derive(Debug)]
pub(super) struct Transactions {
    pub(super) publisher: Publisher,
    /// The publisher's handle.
    pub(super) handle: u32,
    pub(super) open: Vec<Open>,
    pub(super) waiting: VecDeque<Waiting>,
    /// Coordinators there are.
    pub(super) links: u32,
}

impl Transactions {
    /// None yet; `handle`: the publisher's.
    pub(super) fn new(publisher: Publisher, handle: u32) -> Transactions {
        Transactions { publisher, handle, open: Vec::new(), waiting: VecDeque::new(), links: 0 }
    }

    /// Where the transaction of this name is among those under way.
    pub(super) fn find(&self, id: &[u8]) -> Option<usize> {
        self.open.iter().position(|open| open.id == *id)
    }

    /// A transaction begins, over this coordinator's link.
    pub(super) fn begin(&mut self, now: Now, id: TransactionId, (session, link): (SessionId, LinkId)) {
        self.open.push(Open {
            id,
            session,
            link,
            ends_at_ns: now.after_ms(TRANSACTION_MS_MAX),
            doomed: None,
            held: Transaction::default(),
        });
    }

    /// A message of a transaction could not be posted: it can only be undone.
    pub(super) fn doom(&mut self, id: &[u8]) {
        if let Some(at) = self.find(id) {
            self.open[at].doomed.get_or_insert(NOT_POSTED);
        }
    }

    /// A coordinator's link is gone: the transactions that were not discharged over it.
    pub(super) fn take_of(&mut self, (session, link): (SessionId, LinkId)) -> Vec<Open> {
        self.links -= 1;
        // Still counted down, so that the confirms find it; nobody is told.
        let waiting = self.waiting.iter_mut().filter(|it| it.tell == Some((session, link)));
        waiting.for_each(|it| it.tell = None);
        let is_theirs = |open: &mut Open| (open.session, open.link) == (session, link);
        self.open.extract_if(.., is_theirs).collect()
    }

    /// The contents of transactions that have taken too long, which can only be undone from now on.
    pub(super) fn take_late(&mut self, now: Now) -> Vec<Transaction<Retired>> {
        let is_late = |open: &&mut Open| open.doomed.is_none() && open.ends_at_ns <= now.mono_ns;
        let late = self.open.iter_mut().filter(is_late).map(|open| {
            let text = "the transaction has taken too long";
            open.doomed = Some(Doomed { condition: condition::TRANSACTION_TIMEOUT, text });
            std::mem::take(&mut open.held)
        });
        late.collect()
    }

    /// The broker confirmed publishes of discharges.
    pub(super) fn confirmed(&mut self, first: u64, last: u64) {
        let Transactions { publisher, waiting, .. } = self;
        publisher.confirmed(first, last, |first, last| {
            for it in waiting.iter_mut() {
                let (from, to) = (first.max(it.first), last.min(it.end - 1));
                if from <= to {
                    it.left = it.left.saturating_sub(to - from + 1);
                }
            }
        });
    }

    /// A queue was full for publishes of a discharge.
    pub(super) fn refused(&mut self, first: u64, last: u64) {
        let Transactions { publisher, waiting, .. } = self;
        publisher.refused(first, last, |seq| {
            for it in waiting.iter_mut().filter(|it| (it.first..it.end).contains(&seq)) {
                it.left = it.left.saturating_sub(1);
                it.was_refused = true;
            }
        });
    }

    /// Takes out the discharges that nothing is waited for any more, in order.
    pub(super) fn take_done(&mut self) -> Vec<Waiting> {
        let mut done = Vec::new();
        while let Some(first) = self.waiting.front()
            && first.left == 0
        {
            done.extend(self.waiting.pop_front());
        }
        done
    }

    /// No coordinator is left, and nothing is waited for.
    pub(super) fn is_idle(&self) -> bool {
        self.links == 0 && self.waiting.is_empty()
    }

    /// Bytes that are held back, which [`crate::Settings::transaction_bytes_max`] bounds.
    pub(super) fn held_bytes(&self) -> usize {
        self.open.iter().map(|open| open.held.len_bytes()).sum()
    }

    /// Bytes of memory it holds.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Transactions>()
            + self.publisher.heap_bytes()
            + self.open.capacity() * size_of::<Open>()
            + self.waiting.capacity() * size_of::<Waiting>()
            + self.open.iter().map(|open| open.held.heap_bytes()).sum::<usize>()
    }

    /// When the oldest transaction has taken too long, monotonic nanoseconds.
    pub(super) fn deadline(&self) -> Option<u64> {
        let lasting = self.open.iter().filter(|open| open.doomed.is_none());
        lasting.map(|open| open.ends_at_ns).min()
    }
}
