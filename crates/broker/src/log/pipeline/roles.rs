//! The roles of a pipeline whose records others have to agree on: it leads, is to begin to, or follows.
//!
//! What is not agreed on when it leads no more is taken back into the outbox, and proposed again when it leads, under the numbers
//! that it had.

use super::super::foreign::{Foreign, Records};
use super::super::outbox::{Outbox, Parcel};
use super::{Closed, InFlight, Open, Pipeline};
use crate::mail::Waiter;
use crate::request::QueueCommand;
use crate::spare::Spare;
use base::id::{LogIndex, NodeNo, PortId, QueueId};
use base::{Buffer, Now};
use journal::Batch;
use message::record::Stamp;

/// The part of this pipeline among those that agree: the leader proposes records of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// This pipeline, and the log's queues are owned here.
    Leads,
    /// This pipeline; the log's queues are owned here once everything before this is applied.
    Begins(LogIndex),
    /// Another, or nobody.
    Follows,
}

impl Pipeline {
    /// The log's queues are owned here.
    #[inline]
    pub(crate) fn leads(&self) -> bool {
        self.role == Role::Leads
    }

    /// Another leads, or nobody.
    #[inline]
    pub(crate) fn follows(&self) -> bool {
        self.role == Role::Follows
    }

    /// This one is to lead once everything is applied that it has gathered.
    pub(crate) fn is_beginning(&self) -> bool {
        matches!(self.role, Role::Begins(_))
    }

    /// The number of the time for which its queues are owned here. Somebody who was asked for something in an earlier one
    /// answers nobody: that owner's state is gone.
    pub(crate) fn tenure(&self) -> u32 {
        self.tenure
    }

    /// Others have to agree on what is committed.
    pub(crate) fn is_agreed_on(&self) -> bool {
        self.rule.needs_agreement()
    }

    /// The records that wait to be recorded.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// As [`Pipeline::outbox`].
    pub(crate) fn outbox_mut(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// How it stands, in words.
    pub(crate) fn in_words(&self) -> String {
        let Pipeline { role, open, in_flight, outbox, .. } = self;
        format!("{role:?}, {} bytes open, {} in flight, {}", open.len(), in_flight.len(), outbox.in_words())
    }

    /// Others may come to have what has gathered: it is a parcel from now on.
    pub(crate) fn cut(&mut self) {
        if self.role == Role::Follows && !self.open.batch.is_empty() {
            let number = self.outbox.next_stamp().number;
            self.keep_open(number, 0);
        }
    }

    /// The records of the open batch, from `begin` on, become a parcel.
    fn keep_open(&mut self, number: u64, begin: usize) {
        let batch = &mut self.open.batch;
        let (log, base) = (batch.log(), batch.base());
        let memory = std::mem::take(batch.records()).seal();
        let fresh = Open::new(Batch::new(log, base, Buffer::default()), Vec::new());
        let Open { waiters, .. } = std::mem::replace(&mut self.open, fresh);
        let records = Records { range: begin..memory.len(), memory };
        self.outbox.put(Parcel::new(number, records, waiters));
    }

    /// This pipeline proposes records from now on: those of the open batch come first, and behind them all parcels, under the
    /// numbers that they have: others may have some of them agreed on yet, if nothing of this time is. They stay in the outbox
    /// until they are recorded. Its queues are owned here once they are applied ([`Pipeline::begins`]). The commands among
    /// the parcels, to be carried out then.
    pub(crate) fn lead(&mut self, now: Now, spare: &mut Spare) -> Vec<(PortId, QueueId, QueueCommand)> {
        if self.role != Role::Follows {
            return Vec::new();
        }
        self.role = Role::Begins(self.next());
        let commands = self.outbox.take_commands();
        let again: Vec<(Stamp, Records)> = self.outbox.proposed_again().collect();
        for (stamp, records) in again {
            if self.is_full(Stamp::LEN + records.range.len()) {
                self.close_full(now, spare);
            }
            self.take_in(now, stamp, records);
        }
        if !self.open.is_empty() {
            // Numbers rise: nothing of this time's comes in front of these.
            self.close_full(now, spare);
        }
        self.role = Role::Begins(self.next());
        commands
    }

    /// Records of this node that are not agreed on are gone, as they would not hold for the state that another leader makes. What
    /// was given out may be agreed on yet.
    ///
    /// # Panics
    /// While this pipeline proposes records.
    pub(crate) fn forget_own(&mut self) {
        assert!(self.role == Role::Follows, "what is proposed is not forgotten");
        let (log, base) = (self.open.batch.log(), self.open.batch.base());
        self.open = Open::new(Batch::new(log, base, Buffer::default()), Vec::new());
        self.outbox.forget_all();
    }

    /// Another leads, or nobody, and records have gathered.
    pub(crate) fn has_gathered(&self) -> bool {
        self.role == Role::Follows && !(self.open.batch.is_empty() && self.outbox.is_empty())
    }

    /// It leads from now on, if it was to begin and everything is applied that comes first.
    pub(crate) fn begins(&mut self) -> bool {
        let begins = matches!(self.role, Role::Begins(until) if until <= self.applied());
        if begins {
            self.role = Role::Leads;
        }
        begins
    }

    /// Another proposes records from now on, or nobody. Batches that are not agreed on are taken back: of what is written
    /// of them nothing counts. This node's records in them, and the waiters for them, are parcels now: the others may have
    /// them and agree on them after all, or have them sent again, or this pipeline proposes them again when it leads. They
    /// hold for any state that others may lead to. Records of other nodes are with those.
    ///
    /// # Panics
    /// Under a rule that agrees with nobody: what is applied may be on its way to the disk.
    pub(crate) fn resign(&mut self) {
        assert!(self.is_agreed_on(), "only a log that is agreed on has another leader");
        self.role = Role::Follows;
        self.tenure += 1;
        let agreed = self.in_flight.iter().take_while(|batch| batch.is_agreed).count();
        let taken_back = self.in_flight.split_off(agreed);
        let given_out = taken_back.len().saturating_sub(self.not_given_out);
        self.not_given_out = self.not_given_out.saturating_sub(taken_back.len());
        let base = taken_back.front().map_or(self.open.batch.base(), |first| first.closed.sealed.base);
        let unheard = taken_back.iter().take(given_out).filter(|batch| batch.is_written.is_none());
        self.taken_back.extend(unheard.map(|batch| batch.closed.sealed.base));
        for InFlight { closed: Closed { sealed, mut waiters, number, own, .. }, .. } in taken_back {
            self.in_flight_bytes -= sealed.memory.len();
            if number > 0 {
                waiters.retain(is_own);
                let records = Records { memory: sealed.memory, range: Stamp::LEN..own };
                self.outbox.put(Parcel::new(number, records, waiters));
            }
        }
        self.open.foreign = Foreign::default();
        self.open.waiters.retain(is_own);
        match self.open.number {
            // Only parcels of others were in it: nothing is left that is to be written, or that anybody waits for.
            0 if self.open.is_empty() => (self.open.has_messages, self.open.needs_flush) = (false, false),
            0 => {}
            number => self.keep_open(number, Stamp::LEN),
        }
        self.open.rebase(base);
    }

    /// Nobody reports any more whether what was taken back is on disk.
    pub(crate) fn forget_reports(&mut self) {
        self.taken_back.clear();
    }

    /// A batch of another leader's is applied, up to `end`: records that have gathered come behind it.
    ///
    /// # Panics
    /// While this pipeline proposes records.
    pub(crate) fn followed(&mut self, end: LogIndex) {
        assert!(self.role == Role::Follows && self.in_flight.is_empty(), "a log has one leader");
        self.committed = end;
        self.open.rebase(end);
    }

    /// A parcel of another node's comes into the log. Where the records end that are in the log once it is.
    ///
    /// # Panics
    /// Where another leads.
    pub(crate) fn take_in(&mut self, now: Now, stamp: Stamp, records: Records) -> LogIndex {
        assert!(self.role != Role::Follows, "a parcel is taken in by who leads");
        if self.open.is_empty() {
            self.open.since = now.mono_ns;
        }
        self.open.has_messages = true;
        self.open.needs_flush = true;
        self.open.foreign.push(stamp, records);
        self.next()
    }
}

/// The publisher is this node's, or a connection of it.
fn is_own(waiter: &Waiter) -> bool {
    waiter.port.node == NodeNo::ONLY
}
