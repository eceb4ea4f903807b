//! A log and the queues placed on it: records go in, are committed, are applied in order, and move messages.
//!
//! The state that its machines share is apart from them, so that one of them can be at work: see [`AtQueue`]. Records
//! go through the log's [`Pipeline`], which says when they are written, and which of them are committed.
//! Not here: files (the batch goes out as data), connections (events go to the turn's [`crate::post::Post`]), the catalog.
//! Invariant: records are applied in log order, each once; application never passes the first unwritten record that
//! somebody waits for.

mod apply;
mod commons;
mod pipeline;
mod queues;
mod turns;

use crate::catalog::{QueueDefinition, QueueRules, Source};
use crate::commit::CommitRule;
use crate::limits::Limits;
use crate::message_keys::KeyRule;
use crate::placed::queue::commands::{Done, answer_gone};
use crate::placed::queue::owned::{Member, OwnedQueue};
use crate::placed::stream::{OffsetRules, StreamCommand, Streams};
use crate::request::QueueCommand;
use crate::turn::Turn;
use base::Now;
use base::id::{LogId, LogIndex, PortId, QueueId, QueueSeq};
use message::record::{DeathReason, SeqRange};
use queue::Fifo;
use rustc_hash::FxHashMap;
use std::sync::Arc;

pub(crate) use commons::{AtQueue, Commons, Parked, Reads, Store};
pub(crate) use pipeline::Brings;
use pipeline::{Closed, Due};
pub(crate) use queues::{NO_QUEUE, Queues};

/// State of a log that is needed only while the node comes up.
#[derive(Debug, Default)]
pub(crate) struct Recovering {
    /// Queues a snapshot held that the catalog has not named yet, and how far delivery had come if that is known.
    pub(crate) restored: FxHashMap<QueueId, (Fifo, Option<QueueSeq>)>,
    /// How far delivery had come in each queue.
    pub(crate) cursors: FxHashMap<u32, QueueSeq>,
    /// Something was replayed: the node had not stopped in order.
    pub(crate) has_replayed: bool,
}

/// Messages of a deleted queue that are counted off at once: bounds the memory of deleting a long one.
const PLACES_AT_ONCE: usize = 4096;

/// A log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) commons: Commons,
    pub(crate) queues: Queues,
    /// The streams, once there is one.
    pub(crate) streams: Option<Box<Streams>>,
    /// The rules for offsets that consumers store in the streams.
    offset_rules: OffsetRules,
    /// No queue is filled from a stream for now.
    pub(crate) feeds_wait: bool,
    /// Only until the replay is over.
    pub(crate) recovering: Option<Box<Recovering>>,
}

impl Log {
    /// A log with nothing in it yet.
    pub(crate) fn new(id: LogId, rule: CommitRule, offset_rules: OffsetRules) -> Log {
        Log {
            commons: Commons::new(id, rule),
            queues: Queues::default(),
            streams: None,
            offset_rules,
            feeds_wait: false,
            recovering: Some(Box::default()),
        }
    }

    /// The queue in a slot, at work.
    #[inline]
    pub(crate) fn at(&mut self, slot: u32) -> AtQueue<'_> {
        let Log { commons, queues, .. } = self;
        AtQueue { slot, queue: &mut queues.slab[slot as usize], commons }
    }

    /// As [`Log::at`], where the queue may be gone.
    pub(crate) fn find_at(&mut self, slot: u32) -> Option<AtQueue<'_>> {
        let Log { commons, queues, .. } = self;
        Some(AtQueue { slot, queue: queues.slab.get_mut(slot as usize)?, commons })
    }

    /// The streams; the box is made if it is not there.
    pub(crate) fn streams_mut(&mut self) -> &mut Streams {
        let (id, feeds_wait, offset_rules) = (self.commons.id, self.feeds_wait, self.offset_rules);
        let is_replaying = self.recovering.is_some();
        self.streams
            .get_or_insert_with(|| Box::new(Streams::of((id, offset_rules), feeds_wait, is_replaying)))
    }

    /// A queue of this log is filled from a stream of this log from now on, going on where it was before.
    pub(crate) fn begin_feed(&mut self, now: Now, feed: (QueueId, Source, Option<KeyRule>), limits: &Limits) {
        if let Some(streams) = &mut self.streams {
            streams.begin_feed(&mut self.commons, now, feed, limits);
        }
    }

    /// A queue is gone: nothing is kept of how far it was fed.
    pub(crate) fn end_feed(&mut self, now: Now, queue: QueueId) {
        if let Some(streams) = &mut self.streams {
            streams.end_feed(&mut self.commons, now, queue);
        }
    }

    /// A queue was declared; its state in a snapshot is given back to it.
    pub(crate) fn create_queue(&mut self, definition: Arc<QueueDefinition>, declared: &QueueRules) {
        if let Some(rules) = &declared.stream {
            return self.streams_mut().create(definition, rules);
        }
        let id = definition.id;
        let settings = declared.settings(&definition);
        let restored = self.recovering.as_mut().and_then(|recovering| recovering.restored.remove(&id));
        let (fifo, cursor) = restored.unwrap_or_else(|| {
            let mut fifo = Fifo::new(settings);
            // Another shard may have sent messages for it already: no record would come before them.
            declared.window.into_iter().for_each(|window| fifo.deduplicate(window));
            (fifo, Some(QueueSeq(0)))
        });
        let slot = self.queues.insert(OwnedQueue::new(definition, fifo));
        if let Some(recovering) = &mut self.recovering {
            // The slot may have had another queue, which the replay deleted.
            match cursor {
                Some(cursor) => recovering.cursors.insert(slot, cursor),
                None => recovering.cursors.remove(&slot),
            };
        }
    }

    /// From now on the queue goes by these rules. What its machine records of that is appended.
    pub(crate) fn go_by(&mut self, turn: &mut Turn<'_>, id: QueueId, rules: QueueRules) {
        if let Some(rules) = &rules.stream {
            if let Some(streams) = &mut self.streams {
                streams.go_by(turn.now, id, rules);
            }
            return;
        }
        if let Some(slot) = self.queues.slot(id) {
            self.at(slot).go_by(turn, rules);
        }
    }

    // ---- commands

    /// Carries out a connection's command, or parks it behind the messages under way. A queue that is gone answers
    /// not-found to those who want an answer.
    pub(crate) fn command(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueId,
        port: PortId,
        command: QueueCommand,
    ) -> Done {
        if matches!(
            command,
            QueueCommand::Get { .. }
                | QueueCommand::Pick { .. }
                | QueueCommand::Purge { .. }
                | QueueCommand::Discard { .. }
                | QueueCommand::Counts { .. }
                | QueueCommand::Delete { .. }
        ) && let Some(until) = self.end_of_news(queue)
            && let Some((_, owned)) = self.queues.get_mut(queue)
            && (owned.fifo.ready() == 0 || owned.fifo.is_returning() || command.counts_news())
        {
            self.commons.agenda.parked.push_back(Parked { until, queue, port, command });
            return Done::Nothing;
        }
        if let QueueCommand::Stream(asked) = &command
            && matches!(**asked, StreamCommand::Sequence { .. })
            && let Some(until) = self.commons.pipeline.arrivals_end()
        {
            // A publisher that goes on behind the number it is told must not find its next ones used by messages under
            // way.
            self.commons.agenda.parked.push_back(Parked { until, queue, port, command });
            return Done::Nothing;
        }
        self.carry(turn, queue, port, command)
    }

    /// Where the records end among which are messages that are in no queue yet, or that came back to this one.
    fn end_of_news(&mut self, queue: QueueId) -> Option<LogIndex> {
        let is_returning = self.queues.get_mut(queue).is_some_and(|(_, owned)| owned.fifo.is_returning());
        self.commons.pipeline.arrivals_end().or_else(|| is_returning.then(|| self.commons.pipeline.next()))
    }

    /// The first parked command whose time has come, taken out.
    pub(crate) fn take_due(&mut self) -> Option<Parked> {
        let applied = self.commons.pipeline.applied();
        self.commons.agenda.parked.pop_front_if(|parked| parked.until <= applied)
    }

    /// Carries out a connection's command.
    pub(crate) fn carry(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueId,
        port: PortId,
        command: QueueCommand,
    ) -> Done {
        let Some(slot) = self.queues.slot(queue) else {
            if let Log { streams: Some(streams), commons, .. } = self
                && streams.has(queue)
            {
                return streams.carry(commons, turn, queue, port, command);
            }
            answer_gone(turn.post, port, command);
            return Done::Nothing;
        };
        let asks = match command {
            QueueCommand::Credit { handle, echo: true, .. } => Some(Member { port, handle }),
            _ => None,
        };
        let done = self.at(slot).carry(turn, port, command);
        if let Some(member) = asks {
            self.dispatch(turn);
            self.at(slot).tell_ready(turn, member);
        }
        done
    }

    /// Takes a queue out; its messages in memory and in segments go with it.
    pub(crate) fn remove_queue(&mut self, id: QueueId, limits: &Limits) -> Option<OwnedQueue> {
        let (slot, queue) = self.queues.remove(id)?;
        self.commons.agenda.forget(slot, &queue);
        self.commons.reads.reading.forget(slot);
        if let Some(streams) = &mut self.streams {
            // It lets go of the segments of streams that it referred to.
            streams.references.forget(id, self.commons.pipeline.next());
        }
        self.commons.effects.runs_left.extend(queue.fifo.runs());
        // While the journal is replayed nothing is counted yet: the messages left are counted at the end.
        if self.recovering.is_none() {
            let mut places = queue.fifo.live_below(LogIndex(u64::MAX)).map(|(_, place)| place);
            let mut some = Vec::with_capacity(PLACES_AT_ONCE);
            loop {
                some.clear();
                some.extend(places.by_ref().take(PLACES_AT_ONCE));
                if some.is_empty() {
                    break;
                }
                self.commons.store.batches.left(&some, limits.spare_buffers_max);
            }
        }
        Some(queue)
    }

    /// A queue or a stream can hand out more at once.
    pub(crate) fn has_work(&self) -> bool {
        self.has_pressing_work() || self.streams.as_ref().is_some_and(|streams| streams.has_work())
    }

    /// A queue can hand out more at once, or something waits for the disk; whether its dead letters can be published is the
    /// shard's to say.
    pub(crate) fn has_pressing_work(&self) -> bool {
        !self.commons.agenda.dirty.is_empty() || self.commons.pipeline.is_pressing()
    }
}

impl AtQueue<'_> {
    /// From now on the queue goes by these rules. What its machine records of that is appended.
    fn go_by(&mut self, turn: &mut Turn<'_>, rules: QueueRules) {
        let queue = &mut *self.queue;
        let settings = rules.settings(&queue.definition);
        // A record of other settings may be on its way to the machine.
        let asked = queue.features.as_ref().map(|features| features.rules.settings(&queue.definition));
        if settings != queue.fifo.settings() || asked.is_some_and(|asked| asked != settings) {
            self.append_settings(turn.now, settings);
        }
        if let Some(window) = rules.window
            && self.queue.fifo.window() != Some(window)
        {
            self.append_window(turn.now, window);
        }
        let queue = &mut *self.queue;
        let machine_rules = rules.machine_rules();
        // That no features are kept says little of its machine, which has a delivery limit without any.
        let is_plain = rules == QueueRules::default() && queue.features.is_none();
        if is_plain && machine_rules == queue.fifo.rules() {
            if queue.has_clock() {
                // Messages with a time of their own were found at the start.
                self.mark_dirty();
            }
            return;
        }
        if queue.features.is_some() || !rules.is_usual() {
            let features = queue.features_mut(turn.now);
            if rules.expires_ms.is_some() && features.rules.expires_ms.is_none() {
                features.used_at_ms = turn.now.wall_ms;
            }
            features.rules = rules;
        }
        queue.fifo.set_rules(machine_rules, &mut self.commons.effects);
        self.carry_out(turn, None);
        // Handing out is also when the timer is set.
        self.mark_dirty();
    }

    /// Positions of a queue died: they are to be published anew.
    pub(crate) fn died(&mut self, range: SeqRange, reason: DeathReason) {
        self.count_dead(range, reason);
        if let Some(features) = &mut self.queue.features {
            match features.dying.back_mut() {
                Some((before, of)) if *of == reason && before.last.0 + 1 == range.first.0 => {
                    before.last = range.last;
                }
                _ => features.dying.push_back((range, reason)),
            }
            self.list_dying();
        }
    }
}
