//! Records go into a log: into its open batch, which is closed when it is full.

use super::Log;
use crate::commit::CommitRule;
use crate::mail::{Waiter, wait};
use base::id::{PortId, QueueId};
use base::{Buffer, Now};
use message::record::{self, Kind, NewEnqueue, Outcome, Positions, SeqRange, Sizes};

/// Bytes of records after which a batch is closed although the turn goes on; a larger record has a batch of its own.
const BATCH_BYTES_MAX: usize = 4 << 20;

impl Log {
    /// Bytes appended and not yet on disk, whether or not anybody waits for them.
    pub(crate) fn bytes_in_flight(&self) -> usize {
        self.open.len() + self.in_flight_bytes + self.early_bytes
    }

    /// Closes the open batch when it is full, or would be with so many bytes more: it is given out at the end of the turn,
    /// with the others. In memory alone a batch may be as large as it likes.
    #[inline]
    fn make_room(&mut self, now: Now, bytes: usize) {
        let is_full = self.open.len() + bytes > BATCH_BYTES_MAX && !self.open.is_empty();
        if is_full && self.rule != CommitRule::Immediate {
            self.close_full(now);
        }
    }

    #[inline]
    fn touch(&mut self, now: Now) {
        if self.open.is_empty() {
            self.open_since = now.mono_ns;
        }
    }

    /// [`Log::append_message`] for what is rare: it stays where it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn append_message_rare(
        &mut self,
        now: Now,
        message: &NewEnqueue<'_>,
        queues: &[QueueId],
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        self.append_message(now, (message, message.sizes()), queues, waiter, needs_flush);
    }

    /// Appends a message for `queues` of this log. `waiter`: who waits for it to be committed.
    #[inline]
    pub(crate) fn append_message(
        &mut self,
        now: Now,
        (message, sizes): (&NewEnqueue<'_>, Sizes),
        queues: &[QueueId],
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        self.make_room(now, 0);
        self.touch(now);
        message.write_of(sizes, queues, self.open.records());
        self.open_positions = None;
        self.open_has_messages = true;
        self.open_needs_flush |= needs_flush;
        if let Some((port, publisher, seq)) = waiter {
            wait(&mut self.waiters, port, publisher, seq);
        }
    }

    /// Appends whole records that another shard made.
    pub(crate) fn append_records(&mut self, now: Now, records: &[u8], waiters: &[Waiter], needs_flush: bool) {
        self.make_room(now, records.len());
        self.touch(now);
        self.open.records().extend(records);
        self.open_positions = None;
        self.open_has_messages = true;
        self.open_needs_flush |= needs_flush;
        for waiter in waiters {
            Log::add_waiter(&mut self.waiters, *waiter);
        }
    }

    /// Adds who waits to those of a batch, to the one before it when it follows on.
    pub(crate) fn add_waiter(waiters: &mut Vec<Waiter>, waiter: Waiter) {
        match waiters.last_mut() {
            Some(last)
                if last.port == waiter.port
                    && last.publisher == waiter.publisher
                    && last.last + 1 == waiter.first =>
            {
                last.last = waiter.last;
            }
            _ => waiters.push(waiter),
        }
    }

    /// Appends a record for a stream, which `write` writes; it says who waits for it.
    pub(crate) fn append_stream(&mut self, now: Now, write: impl FnOnce(&mut Buffer) -> Option<Waiter>) {
        self.make_room(now, 0);
        self.touch(now);
        let waiter = write(self.open.records());
        self.open_positions = None;
        self.open_has_messages = true;
        self.open_needs_flush = true;
        if let Some(waiter) = waiter {
            Log::add_waiter(&mut self.waiters, waiter);
        }
    }

    /// Appends a change of the catalog.
    pub(crate) fn append_catalog(&mut self, now: Now, change: &[u8]) {
        self.touch(now);
        record::write_catalog(change, self.open.records());
        self.open_positions = None;
        self.open_needs_flush = true;
    }

    /// Appends a change of the catalog that nobody waits for.
    pub(crate) fn append_catalog_lazily(&mut self, now: Now, change: &[u8]) {
        self.touch(now);
        record::write_catalog(change, self.open.records());
        self.open_positions = None;
    }

    /// Appends the record that `write` writes, which is no message, and which nobody waits for.
    #[cold]
    pub(crate) fn append_rare(&mut self, now: Now, write: impl FnOnce(&mut Buffer)) {
        self.touch(now);
        self.open_positions = None;
        write(self.open.records());
    }

    /// Appends a record that changes nothing and shows that the log was opened again: a purge of nothing from no queue.
    pub(crate) fn append_begin(&mut self, now: Now) {
        self.touch(now);
        self.open_positions = None;
        self.open_needs_flush = true;
        let (nobody, outcome) = (record::NOBODY, Outcome::Released);
        Positions::write(Kind::Purge, nobody, outcome, now.wall_ms, 0, &[], self.open.records());
    }

    pub(crate) fn append_positions(
        &mut self,
        now: Now,
        kind: Kind,
        queue: QueueId,
        outcome: Outcome,
        range: SeqRange,
    ) {
        self.touch(now);
        if let Some(at) = self.open_positions
            && at >= self.open_applied
            && (Positions::extend_last(
                &mut self.open.records().bytes_mut()[at..],
                kind,
                queue,
                outcome,
                range,
            ) || Positions::add_range(self.open.records(), at, kind, queue, outcome, range))
        {
            return;
        }
        self.open_positions = Some(self.open.len());
        Positions::write(kind, queue, outcome, now.wall_ms, 0, &[range], self.open.records());
    }

    /// Appends the record that positions came back and are delayed until `due_at_ms`, milliseconds since 1970.
    #[cold]
    pub(crate) fn append_postponed(
        &mut self,
        now: Now,
        queue: QueueId,
        outcome: Outcome,
        range: SeqRange,
        due_at_ms: u64,
    ) {
        self.touch(now);
        self.open_positions = None;
        let kind = Kind::Postpone;
        Positions::write(kind, queue, outcome, now.wall_ms, due_at_ms, &[range], self.open.records());
    }

    /// What was appended goes to disk at the end of the turn, though nobody waits for it.
    pub(crate) fn flush_soon(&mut self) {
        self.open_needs_flush |= !self.open.is_empty();
    }
}
