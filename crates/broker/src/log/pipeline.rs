//! The pipeline of a log: its records are gathered in an open batch, closed, given out to be written, and committed.
//!
//! A turn's records gather in the open batch. Where a publisher waits for one of them the batch is closed and given out at the
//! end of the turn; records nobody waits for are written with the next batch, or after a while. Under a rule that lets
//! them run ahead ([`CommitRule::runs_ahead`]) such records are applied as soon as everything before them is.
//! Under a rule by which others have to agree a log has a leader, which is this pipeline only where it was told so
//! ([`Role`]): else records gather, and batches of the leader's are told by [`Pipeline::followed`]. Each batch of a leader
//! begins with the stamp of its records, by which they are known wherever they come from ([`Outbox`]).
//! Not here: what records mean (the log applies them), files (a batch goes out as data), the parts of a committed batch
//! that are still needed ([`crate::batches`]).
//! Invariants: batches are closed, given out and committed in log order, each once; of a batch that holds something
//! somebody waits for, nothing behind the bytes that were applied before it was closed is applied until it is committed.

mod roles;
#[cfg(test)]
mod tests;

use super::foreign::Foreign;
use super::outbox::Outbox;
use crate::commit::CommitRule;
use crate::limits::Limits;
use crate::mail::{Waiter, wait};
use crate::spare::Spare;
use base::id::{LogId, LogIndex, QueueId};
use base::time::NS_PER_MS;
use base::{Buffer, Now};
use journal::{Batch, Place, Sealed};
use message::record::{Kind, Outcome, Positions, SeqRange};
use roles::Role;
use std::collections::VecDeque;

/// Bytes of records after which a batch is closed although the turn goes on; a larger record has a batch of its own.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// The properties of a record that decide when it is applied and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Brings {
    /// Messages, which are in no queue or stream before the record is applied.
    pub(crate) messages: bool,
    /// It is written at the end of the turn, and does not wait for another.
    pub(crate) flush: bool,
}

impl Brings {
    /// Nothing: it is written when another record is, or after a while.
    pub(crate) const NOTHING: Brings = Brings { messages: false, flush: false };
    /// It is to be on disk, and is no message.
    pub(crate) const FLUSH: Brings = Brings { messages: false, flush: true };
    /// Records for streams: in order with their messages, and on disk.
    pub(crate) const STREAM: Brings = Brings { messages: true, flush: true };

    /// Messages of queues.
    #[inline]
    pub(crate) fn messages(needs_flush: bool) -> Brings {
        Brings { messages: true, flush: needs_flush }
    }
}

/// The batch that records are appended to.
#[derive(Debug)]
struct Open {
    batch: Batch,
    /// Bytes of its records that are applied already.
    applied: usize,
    /// Where its last record begins, if it is one of positions.
    positions: Option<usize>,
    has_messages: bool,
    needs_flush: bool,
    /// When its first record came, for the lazy deadline; monotonic nanoseconds.
    since: u64,
    waiters: Vec<Waiter>,
    /// The number in the stamp that it begins with; 0: with none.
    number: u64,
    /// Parcels that come behind its records when it is closed.
    foreign: Foreign,
}

impl Open {
    fn new(batch: Batch, waiters: Vec<Waiter>) -> Open {
        Open {
            batch,
            applied: 0,
            positions: None,
            has_messages: false,
            needs_flush: false,
            since: 0,
            waiters,
            number: 0,
            foreign: Foreign::default(),
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.foreign.is_empty()
    }

    /// Bytes of records.
    #[inline]
    fn len(&self) -> usize {
        self.batch.len() + self.foreign.bytes()
    }

    /// The same, beginning elsewhere.
    fn rebase(&mut self, base: LogIndex) {
        let records = std::mem::take(self.batch.records());
        self.batch = Batch::holding(self.batch.log(), base, records);
    }
}

/// A batch nothing is appended to any more.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) sealed: Sealed,
    /// Bytes of its records that were applied before it was closed.
    pub(crate) applied: usize,
    pub(crate) waiters: Vec<Waiter>,
    /// When its first record came, monotonic nanoseconds.
    pub(crate) since: u64,
    /// The number in the stamp that it begins with; 0: with none.
    number: u64,
    /// Bytes of the records that are this node's, the stamp included. They come first.
    own: usize,
}

/// A closed batch that is not committed yet.
#[derive(Debug)]
struct InFlight {
    closed: Closed,
    is_written: Option<Place>,
    is_agreed: bool,
}

/// The work due at the end of a turn, see [`Pipeline::due`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing.
    Nothing,
    /// The open batch is closed and applied ahead of its write.
    Messages,
    /// The open batch is applied where it lies, and closed once it has waited long enough.
    Rest,
    /// The open batch is closed, and all closed batches are given out.
    Write,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Pipeline {
    rule: CommitRule,
    role: Role,
    /// How often this pipeline ceased to lead.
    tenure: u32,
    open: Open,
    in_flight: VecDeque<InFlight>,
    /// How many of `in_flight`, the last ones, were not given out yet: they were full before the turn ended.
    not_given_out: usize,
    in_flight_bytes: usize,
    /// Where batches begin that were given out, were taken back, and are not known to be on disk; in that order.
    taken_back: VecDeque<LogIndex>,
    /// Records that were gathered or taken back, in order: whoever leads may have them agreed on after all.
    outbox: Outbox,
    /// Bytes of records of batches that were applied before they were written, and are not known to be.
    early_bytes: usize,
    /// All records before this are committed.
    committed: LogIndex,
    /// Bytes of the largest batches of late.
    batch_bytes: usize,
    spare_waiters: Vec<Vec<Waiter>>,
}

impl Pipeline {
    /// The pipeline of an empty log.
    pub(crate) fn new(log: LogId, rule: CommitRule) -> Pipeline {
        Pipeline {
            rule,
            role: Role::Leads,
            tenure: 0,
            open: Open::new(Batch::new(log, LogIndex(0), Buffer::default()), Vec::new()),
            in_flight: VecDeque::new(),
            not_given_out: 0,
            in_flight_bytes: 0,
            taken_back: VecDeque::new(),
            outbox: Outbox::default(),
            early_bytes: 0,
            committed: LogIndex(0),
            batch_bytes: 0,
            spare_waiters: Vec::new(),
        }
    }

    /// All records before `index` are applied and committed; the next one is there.
    pub(crate) fn begin_at(&mut self, index: LogIndex) {
        let log = self.open.batch.log();
        self.open = Open::new(Batch::new(log, index, Buffer::default()), Vec::new());
        self.committed = index;
    }

    /// Changes the commit rule; a log that others have to agree on has no leader yet. Panics when something was appended
    /// already.
    pub(crate) fn set_rule(&mut self, rule: CommitRule) {
        assert!(
            self.open.batch.is_empty() && self.in_flight.is_empty(),
            "a log changes its rule while it is empty"
        );
        self.rule = rule;
        self.role = if rule.needs_agreement() { Role::Follows } else { Role::Leads };
    }

    // ---- how far it is

    /// It is written to disk.
    pub(crate) fn is_durable(&self) -> bool {
        self.rule.is_durable()
    }

    /// Where the next record will be, if nobody else leads meanwhile.
    pub(crate) fn next(&self) -> LogIndex {
        LogIndex(self.open.batch.base().0 + self.open.len() as u64)
    }

    /// All records before this are committed.
    pub(crate) fn committed(&self) -> LogIndex {
        self.committed
    }

    /// Everything before this is applied.
    pub(crate) fn applied(&self) -> LogIndex {
        match self.in_flight.front() {
            Some(InFlight { closed, .. }) => LogIndex(closed.sealed.base.0 + closed.applied as u64),
            None => LogIndex(self.open.batch.base().0 + self.open.applied as u64),
        }
    }

    /// Where the first batch begins that is not applied as a whole.
    pub(crate) fn whole_batches_end(&self) -> LogIndex {
        self.in_flight.front().map_or(self.open.batch.base(), |first| first.closed.sealed.base)
    }

    /// Where the records end among which are messages that are in no queue yet, if there are any.
    pub(crate) fn arrivals_end(&self) -> Option<LogIndex> {
        let has_some = self.open.has_messages || !self.in_flight.is_empty() || self.outbox.has_messages();
        has_some.then(|| self.next())
    }

    /// Bytes appended and not yet on disk, whether or not anybody waits for them.
    pub(crate) fn bytes(&self) -> usize {
        self.open.len() + self.in_flight_bytes + self.early_bytes + self.outbox.bytes()
    }

    /// The same, without what another leader may come to have.
    pub(crate) fn bytes_led(&self) -> usize {
        if self.role == Role::Follows { 0 } else { self.bytes() }
    }

    /// Something was given out of which it is not known that it is on disk.
    pub(crate) fn is_at_disk(&self) -> bool {
        let given_out = self.in_flight.len() - self.not_given_out;
        self.early_bytes > 0
            || !self.taken_back.is_empty()
            || self.in_flight.iter().take(given_out).any(|batch| batch.is_written.is_none())
    }

    /// Something waits for the disk that was appended after the turn's batch was closed.
    pub(crate) fn is_pressing(&self) -> bool {
        self.open.needs_flush && self.in_flight.is_empty() && self.role != Role::Follows
    }

    /// When something is due though nothing more comes; monotonic nanoseconds.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<u64> {
        let is_lazy = !self.open.is_empty() && self.in_flight.is_empty() && !self.open.needs_flush;
        (is_lazy && self.role != Role::Follows).then(|| self.lazy_deadline(limits))
    }

    fn lazy_deadline(&self, limits: &Limits) -> u64 {
        self.open.since + limits.lazy_batch_ms_max * NS_PER_MS
    }

    // ---- appending

    /// The open batch is full, or would be with so many bytes more: it is to be closed, and is given out at the end of the
    /// turn with the others. In memory alone a batch may be as large as it likes, and so may what gathers for a leader: it
    /// comes behind the leader's.
    #[inline]
    pub(crate) fn is_full(&self, bytes: usize) -> bool {
        let open = &self.open;
        open.len() + bytes > BATCH_BYTES_MAX
            && !open.is_empty()
            && self.rule.is_durable()
            && self.role != Role::Follows
    }

    /// Appends the record, or the records, that `write` writes.
    #[inline]
    pub(crate) fn append<R>(&mut self, now: Now, brings: Brings, write: impl FnOnce(&mut Buffer) -> R) -> R {
        self.touch(now);
        let open = &mut self.open;
        open.positions = None;
        open.has_messages |= brings.messages;
        open.needs_flush |= brings.flush;
        write(open.batch.records())
    }

    /// Appends that positions of a queue left or came back, to the last record where that says the same of others.
    pub(crate) fn append_positions(
        &mut self,
        now: Now,
        kind: Kind,
        queue: QueueId,
        outcome: Outcome,
        range: SeqRange,
    ) {
        self.touch(now);
        let Open { batch, applied, positions, .. } = &mut self.open;
        let records = batch.records();
        if let Some(at) = *positions
            && at >= *applied
            && (Positions::extend_last(&mut records.bytes_mut()[at..], kind, queue, outcome, range)
                || Positions::add_range(records, at, kind, queue, outcome, range))
        {
            return;
        }
        *positions = Some(records.len());
        Positions::write(kind, queue, outcome, now.wall_ms, 0, &[range], records);
    }

    /// Appends that positions came back and are delayed until `due_at_ms`, milliseconds since 1970.
    #[cold]
    #[inline(never)]
    pub(crate) fn append_postponed(
        &mut self,
        now: Now,
        queue: QueueId,
        outcome: Outcome,
        range: SeqRange,
        due_at_ms: u64,
    ) {
        self.append(now, Brings::NOTHING, |records| {
            Positions::write(Kind::Postpone, queue, outcome, now.wall_ms, due_at_ms, &[range], records);
        });
    }

    #[inline]
    fn touch(&mut self, now: Now) {
        if self.open.batch.is_empty() {
            self.begin_open(now);
        }
    }

    /// The first record comes into the open batch.
    #[inline]
    fn begin_open(&mut self, now: Now) {
        if self.open.foreign.is_empty() {
            self.open.since = now.mono_ns;
        }
        if self.rule.needs_agreement() {
            self.stamp();
        }
    }

    /// A batch that this node proposes has its number; records that gather here have none before they are a parcel.
    #[cold]
    #[inline(never)]
    fn stamp(&mut self) {
        if self.role != Role::Follows {
            let stamp = self.outbox.next_stamp();
            self.open.number = stamp.number;
            stamp.write(self.open.batch.records());
        }
    }

    /// A publish waits for the record that was appended last.
    #[inline]
    pub(crate) fn wait(&mut self, waiter: Waiter) {
        wait(&mut self.open.waiters, waiter);
    }

    /// The open batch is written at the end of the turn, though nobody waits for it.
    pub(crate) fn flush_soon(&mut self) {
        self.open.needs_flush |= !self.open.is_empty();
    }

    /// The same, where nodes have to agree on what is in it before it counts.
    pub(crate) fn agree_soon(&mut self) {
        self.open.needs_flush |= self.rule.needs_agreement();
    }

    // ---- the end of a turn

    /// The open batch may be applied before anything else is handed out: it has no messages, all before it is applied,
    /// and none of its records has to be written first.
    #[inline]
    pub(crate) fn may_run_ahead(&self) -> bool {
        let Open { has_messages, needs_flush, .. } = self.open;
        self.rule.runs_ahead() && self.in_flight.is_empty() && !has_messages && !needs_flush
    }

    /// The decision at the end of a turn. Batches given out are those that are being written; a closed one that is not given
    /// out was full before the turn ended. One group of batches of a log is under way at a time: what comes meanwhile
    /// is the next.
    ///
    /// ```text
    ///   rule      | given out | closed | open                | due
    ///   any       | any       | none   | empty               | Nothing
    ///   Quorum, another leads  | any    | any                 | Nothing
    ///   Immediate |           |        | has messages        | Messages
    ///   Immediate |           |        | other records       | Rest
    ///   others    | some      | any    | any                 | Nothing
    ///   others    | none      | some   | any                 | Write
    ///   others    | none      | none   | to be flushed       | Write
    ///   Synced    | none      | none   | has messages        | Messages
    ///   Synced    | none      | none   | other records       | Rest
    ///   Quorum    | none      | none   | others, long enough | Write
    ///   Quorum    | none      | none   | others              | Nothing
    /// ```
    pub(crate) fn due(&self, now: Now, limits: &Limits) -> Due {
        let Open { has_messages, needs_flush, .. } = &self.open;
        if self.open.is_empty() && self.not_given_out == 0 || self.role == Role::Follows {
            return Due::Nothing;
        }
        if self.rule.is_durable() {
            if self.in_flight.len() > self.not_given_out {
                return Due::Nothing;
            }
            if self.not_given_out > 0 || *needs_flush {
                return Due::Write;
            }
        }
        match *has_messages {
            _ if !self.rule.runs_ahead() => match self.has_waited(now, limits) {
                true => Due::Write,
                false => Due::Nothing,
            },
            true => Due::Messages,
            false => Due::Rest,
        }
    }

    /// The open batch has waited long enough for other records to be written with, or is too large.
    fn has_waited(&self, now: Now, limits: &Limits) -> bool {
        self.open.len() > limits.lazy_batch_bytes_max || now.mono_ns >= self.lazy_deadline(limits)
    }

    /// After [`Due::Rest`]: the open batch, all of which is applied, is to be closed too.
    pub(crate) fn is_rest_over(&self, now: Now, limits: &Limits) -> bool {
        !self.rule.is_durable() || (!self.open.needs_flush && self.has_waited(now, limits))
    }

    /// Deliveries at the end of the turn have appended a record that is to be flushed: it is given out now, for no
    /// other turn may come.
    pub(crate) fn is_due_again(&self) -> bool {
        self.rule.is_durable() && self.open.needs_flush
    }

    /// Lends the open batch to a caller that applies the rest of it, with the number of bytes that are applied. To be
    /// given back with [`Pipeline::applied_open`].
    pub(crate) fn lend_open(&mut self) -> (Batch, usize) {
        let instead = Batch::new(self.open.batch.log(), self.next(), Buffer::default());
        (std::mem::replace(&mut self.open.batch, instead), self.open.applied)
    }

    /// All of the open batch is applied.
    pub(crate) fn applied_open(&mut self, batch: Batch) {
        self.open.applied = batch.len();
        self.open.batch = batch;
    }

    /// Closes the open batch; the next is in a buffer of `spare`.
    pub(crate) fn close(&mut self, now: Now, spare: &mut Spare) -> Closed {
        // Batches are mostly about as large as those before them.
        self.batch_bytes = self.open.len().max(self.batch_bytes - self.batch_bytes / 8);
        let fresh = Batch::new(self.open.batch.log(), self.next(), spare.take_like(self.batch_bytes));
        let fresh = Open::new(fresh, self.spare_waiters.pop().unwrap_or_default());
        let open = std::mem::replace(&mut self.open, fresh);
        let Open { mut batch, applied, since, waiters, number, foreign, .. } = open;
        let own = batch.len();
        if !foreign.is_empty() {
            foreign.write(batch.records());
        }
        Closed { sealed: batch.seal(now.wall_ms), applied, waiters, since, number, own }
    }

    /// Closes the open batch, and keeps it to be given out and committed.
    #[cold]
    pub(crate) fn close_full(&mut self, now: Now, spare: &mut Spare) {
        let closed = self.close(now, spare);
        self.in_flight_bytes += closed.sealed.memory.len();
        self.in_flight.push_back(InFlight { closed, is_written: None, is_agreed: false });
        self.not_given_out += 1;
    }

    /// Gives out all that is closed; nothing else is in flight.
    pub(crate) fn give_out(&mut self, now: Now, spare: &mut Spare, out: &mut Vec<Sealed>) {
        if !self.open.is_empty() {
            self.close_full(now, spare);
        }
        out.extend(self.in_flight.iter().map(|batch| batch.closed.sealed.clone()));
        self.not_given_out = 0;
    }

    /// Gives out a batch that was applied ahead of its write, where it is written at all. It counts until it is: else a
    /// publisher of messages that need not be safe would fill memory, and keep the disk from publishers that wait for
    /// it, as fast as it can send.
    pub(crate) fn give_out_applied(
        &mut self,
        closed: Closed,
        spare: &mut Spare,
        spare_max: usize,
        out: &mut Vec<Sealed>,
    ) {
        let Closed { sealed, waiters, .. } = closed;
        self.put_waiters(waiters);
        if self.rule.is_durable() {
            self.early_bytes += sealed.len;
            out.push(sealed);
        } else {
            spare.put(sealed.memory, spare_max);
        }
    }

    /// Takes back the list of waiters of a batch, to be filled again.
    pub(crate) fn put_waiters(&mut self, mut waiters: Vec<Waiter>) {
        waiters.clear();
        if self.spare_waiters.len() < 2 {
            self.spare_waiters.push(waiters);
        }
    }

    /// Takes all waiters of records that are not committed: they do not hear of the commit.
    pub(crate) fn take_waiting(&mut self) -> Vec<Waiter> {
        let in_flight = self.in_flight.iter_mut().map(|batch| &mut batch.closed);
        let waiters = in_flight.flat_map(|closed| closed.waiters.drain(..));
        waiters.chain(self.outbox.take_waiters()).chain(self.open.waiters.drain(..)).collect()
    }

    // ---- what is written, and what is committed

    /// A batch that was given out is on disk, at `place`. True: it was applied before.
    pub(crate) fn written(&mut self, base: LogIndex, place: Place) -> bool {
        // Batches are reported in the order in which they were given out.
        if self.taken_back.pop_front_if(|taken_back| *taken_back == base).is_some() {
            return false;
        }
        if let Some(batch) = self.in_flight.iter_mut().find(|batch| batch.closed.sealed.base == base) {
            batch.is_written = Some(place);
            return false;
        }
        // It is as committed as one that somebody waits for: a change of the catalog that shares the log with queues
        // waits for everything before it.
        self.early_bytes -= place.len as usize;
        self.committed = self.committed.max(LogIndex(base.0 + place.len));
        true
    }

    /// Under [`CommitRule::Quorum`]: all records before `end` are agreed on.
    pub(crate) fn agreed(&mut self, end: LogIndex) {
        for batch in &mut self.in_flight {
            batch.is_agreed |= batch.closed.sealed.next() <= end;
        }
    }

    /// The batches that were given out and that nobody has agreed on so far, and whether each is on this node's disk.
    pub(crate) fn proposed(&self) -> impl Iterator<Item = (&Sealed, bool)> {
        let given_out = self.in_flight.iter().take(self.in_flight.len() - self.not_given_out);
        let proposed = given_out.filter(|batch| !batch.is_agreed);
        proposed.map(|batch| (&batch.closed.sealed, batch.is_written.is_some()))
    }

    /// Takes out the first batch in flight if it is committed, to be applied.
    pub(crate) fn take_committed(&mut self) -> Option<(Closed, Place)> {
        let InFlight { is_written, is_agreed, .. } = self.in_flight.front()?;
        let place = (*is_written)?;
        if self.rule.needs_agreement() && !is_agreed {
            return None;
        }
        let InFlight { closed, .. } = self.in_flight.pop_front()?;
        self.in_flight_bytes -= closed.sealed.memory.len();
        self.committed = closed.sealed.next();
        Some((closed, place))
    }

    /// Lets go of the open batch's buffer where nothing is in it and the others went too.
    pub(crate) fn forget_spare(&mut self) {
        if self.open.batch.is_empty() {
            *self.open.batch.records() = Buffer::default();
            self.batch_bytes = 0;
        }
    }
}
