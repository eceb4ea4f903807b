//! The logs that live on a shard, and the logs of the node that are stopped.
//!
//! A record goes into a log by [`Logs::append`]: into one that lives here at once, into one of another shard by mail.
//! Not here: the catalog, which says what queues there are and what they go by; the caller brings that.

mod admission;
mod append;
mod files;
mod handing;
mod refused;
mod replacing;
mod replicas;

use crate::catalog::QueueDefinition;
use crate::commit::CommitRule;
use crate::damages::Damaged;
use crate::limits::Limits;
use crate::log::{Log, refuse_all};
use crate::mail::Mail;
use crate::notices::DrivenOut;
use crate::placed::Placed;
use crate::placed::stream::OffsetRules;
use crate::post::Post;
use crate::ranking::RankingDesk;
use crate::reading::ReadRequest;
use crate::shard::ShardSettings;
use crate::turn::Turn;
use base::Now;
use base::hash::MapById;
use base::id::{LogId, QueueId};
use handing::Handing;
pub(crate) use handing::check as check_move;
use refused::Refused;
use std::sync::Arc;

/// See the module's head.
#[derive(Debug)]
pub struct Logs {
    /// In the order of their numbers; the one in memory is the last. Those that are handed over are not among them.
    pub(crate) all: Vec<Log>,
    /// Which of `all` a log is, by its number.
    slots: MapById<LogId, u32>,
    /// Logs of this node that hold damage: nothing is taken from them or put into them.
    pub(crate) stopped: Vec<LogId>,
    /// Messages that queues refused and that are to be published anew.
    pub(crate) refused: Refused,
    /// Ranks messages; [taken](RankingDesk::take_units) at the end of each that goes the long way.
    pub(crate) ranking: RankingDesk,
    /// Reads that deliveries wait for.
    reads: Vec<ReadRequest>,
    /// Segments nothing live is left in.
    dead_segments: Vec<u64>,
    /// Damage that was found in streams of logs that have left since.
    left_damages: Vec<Damaged>,
    /// A log here has, or had, a stream.
    has_streams: bool,
    /// No queue is filled from a stream for now.
    holds_feeds: bool,
    /// When spare buffers are looked at next, monotonic nanoseconds.
    pub(crate) spares_at: u64,
    /// Logs that are handed from shard to shard.
    handing: Handing,
}

impl Logs {
    /// Those of a shard with these settings, with nothing in them yet.
    pub(crate) fn new(settings: &ShardSettings) -> Logs {
        let (id, placement) = (settings.id, settings.placement);
        debug_assert!(placement.logs > 0);
        let durable = placement.logs_at_start(id).map(|log| (log, CommitRule::Synced));
        let in_memory = (placement.memory_log(id), CommitRule::Immediate);
        let rules = OffsetRules::of(settings);
        let all: Vec<Log> =
            durable.chain([in_memory]).map(|(log, rule)| Log::new(log, rule, rules)).collect();
        Logs {
            slots: all.iter().zip(0..).map(|(log, slot)| (log.commons.id, slot)).collect(),
            all,
            stopped: Vec::new(),
            refused: Refused::default(),
            ranking: RankingDesk::default(),
            reads: Vec::new(),
            dead_segments: Vec::new(),
            left_damages: Vec::new(),
            has_streams: false,
            holds_feeds: false,
            spares_at: 0,
            handing: Handing::default(),
        }
    }

    /// Which of `all` a log is, by its number.
    #[inline]
    pub(crate) fn slots(&self) -> &MapById<LogId, u32> {
        &self.slots
    }

    /// Which of `all` this one is.
    #[inline]
    pub(crate) fn slot(&self, log: LogId) -> Option<usize> {
        self.slots.get(&log).map(|slot| *slot as usize)
    }

    /// The log, if it lives here.
    #[inline]
    pub(crate) fn get(&self, log: LogId) -> Option<&Log> {
        self.slot(log).map(|slot| &self.all[slot])
    }

    /// The log, if it lives here.
    #[inline]
    pub(crate) fn get_mut(&mut self, log: LogId) -> Option<&mut Log> {
        self.slot(log).map(|slot| &mut self.all[slot])
    }

    /// The logs on disk that live here.
    pub fn on_disk(&self) -> impl Iterator<Item = LogId> {
        self.all.iter().filter(|log| log.commons.pipeline.is_durable()).map(|log| log.commons.id)
    }

    /// All logs that are here, those between two places included.
    pub(crate) fn every(&self) -> impl Iterator<Item = &Log> {
        self.all.iter().chain(self.handing.logs())
    }

    /// Nothing is taken from the log or put into it.
    #[inline]
    pub(crate) fn is_stopped(&self, log: LogId) -> bool {
        self.stopped.contains(&log)
    }

    /// The logs of this node that were stopped.
    pub fn stopped(&self) -> &[LogId] {
        &self.stopped
    }

    /// Takes nothing from a log any more and puts nothing into it; those that wait for something of it are told.
    pub(crate) fn stop(&mut self, post: &mut Post, log: LogId) {
        if self.is_stopped(log) {
            return;
        }
        self.mark_stopped(log);
        if let Some(stopped) = self.get_mut(log) {
            refuse_all(log, &mut stopped.commons.pipeline, post);
        }
    }

    fn mark_stopped(&mut self, log: LogId) {
        self.stopped.push(log);
        if let Some(log) = self.get_mut(log) {
            log.commons.is_stopped = true;
        }
    }

    /// Stops a log, here and in the other shards.
    pub(crate) fn stop_everywhere(&mut self, post: &mut Post, log: LogId) {
        self.stop(post, log);
        for shard in post.others() {
            post.send(shard, Mail::Stopped { log });
        }
    }

    /// Puts a log under another commit rule; only before anything was appended to it.
    pub fn set_commit_rule(&mut self, log: LogId, rule: CommitRule) {
        if let Some(log) = self.get_mut(log) {
            log.commons.pipeline.set_rule(rule);
        }
    }

    /// Records of a log that are applied and not written yet go to disk at the end of the turn: the journal is to know all that a
    /// snapshot knows, for the start that finds that snapshot damaged.
    pub fn write_out(&mut self, log: LogId) {
        if let Some(log) = self.get_mut(log) {
            log.commons.pipeline.flush_soon();
        }
    }

    /// Of the batches of a log that were taken back no report comes any more: those that agree on it keep theirs to themselves.
    pub fn forget_reports(&mut self, log: LogId) {
        if let Some(log) = self.get_mut(log) {
            log.commons.pipeline.forget_reports();
        }
    }

    /// Queues are not filled from streams while an alarm holds, as nobody else may publish.
    pub fn hold_feeds(&mut self, hold: bool) {
        self.holds_feeds = hold;
        for log in &mut self.all {
            log.streams.hold_feeds(&mut log.machines, hold);
        }
    }

    /// A queue of a log that lives here is there: see [`Log::claim`].
    pub(crate) fn claim(&mut self, now: Option<Now>, definition: &Arc<QueueDefinition>) {
        if let Some(slot) = self.slot(definition.log) {
            let now = now.filter(|_| !self.is_stopped(definition.log));
            let log = &mut self.all[slot];
            log.claim(now, definition);
            self.has_streams |= log.streams.get().is_some();
        }
    }

    /// Deliveries from a queue or stream are told of from now on, or no longer.
    pub(crate) fn trace(&mut self, definition: &QueueDefinition, on: bool) {
        if let Some(log) = self.get_mut(definition.log)
            && let Some(placed) = log.machines.get_mut(definition.id)
        {
            placed.trace(on);
        }
    }

    // ---- the end of a start

    /// The journal is read to its end: queues begin. Logs that have messages whose records are nowhere are stopped, and returned.
    pub(crate) fn finish_recovery(&mut self, turn: &mut Turn<'_>) -> Vec<LogId> {
        let mut missing = Vec::new();
        for log in &mut self.all {
            // A stopped log keeps all it holds as it is found.
            if self.stopped.contains(&log.commons.id) {
                continue;
            }
            match log.finish_recovery(turn) {
                true if log.commons.pipeline.leads() => log.agree_with_catalog(turn.now, QueueId(u64::MAX)),
                true => {}
                false => missing.push(log.commons.id),
            }
        }
        missing.iter().for_each(|log| self.mark_stopped(*log));
        missing
    }

    /// Queues go by their rules now: what streams keep of those that are not filled from them is forgotten, and counting begins.
    pub(crate) fn begin_business(&mut self, now: Now, is_fed: impl Fn(QueueId) -> bool) {
        for log in &mut self.all {
            if !self.stopped.contains(&log.commons.id) && log.commons.pipeline.leads() {
                log.forget_feeds(now, &is_fed);
            }
            log.machines.iter_mut().for_each(Placed::begin_tally);
        }
    }

    // ---- the turn

    /// Lets go of the buffers that no log needed lately.
    pub(crate) fn forget_spares(&mut self) {
        self.all.iter_mut().for_each(Log::forget_spares);
    }

    /// A log keeps buffers to fill again.
    pub(crate) fn has_spares(&self) -> bool {
        self.all.iter().any(|log| !log.commons.store.batches.spare.is_empty())
    }

    /// Queues have dead letters.
    #[inline]
    pub(crate) fn has_dying(&self) -> bool {
        self.all.iter().any(|log| !log.commons.agenda.dying.is_empty() && !log.commons.is_stopped)
    }

    /// Something is left to do at once; whether dead letters can be published is the shard's to say.
    pub(crate) fn has_work(&self) -> bool {
        self.all.iter().any(Log::has_work)
    }

    /// As [`Logs::has_work`], but for what readers of streams wait for.
    pub(crate) fn has_pressing_work(&self) -> bool {
        self.all.iter().any(Log::has_pressing_work)
    }

    /// When to come back though nothing came in; monotonic nanoseconds.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<u64> {
        self.all.iter().filter_map(|log| log.deadline(limits)).min()
    }

    /// Bytes of memory: of messages, and of what says where they are.
    pub(crate) fn memory_bytes(&self) -> [usize; 2] {
        let sum = |bytes: &dyn Fn(&Log) -> usize| self.all.iter().map(bytes).sum::<usize>();
        let messages = sum(&|log| {
            let streams = log.streams.get();
            let chunks = streams.map_or(0, |streams| streams.unwritten_bytes() + streams.loaded_bytes());
            let loaded = log.commons.reads.loaded.block_bytes() + log.commons.reads.reading.bytes() as usize;
            log.commons.store.batches.resident_bytes() + loaded + chunks
        });
        [messages, sum(&|log| log.commons.store.batches.overhead_bytes())]
    }

    /// Bytes of batches that are not committed.
    pub fn bytes_in_flight(&self) -> usize {
        self.every().map(|log| log.commons.pipeline.bytes()).sum()
    }

    /// The same, without what waits for other nodes that lead.
    pub(crate) fn bytes_led(&self) -> usize {
        self.every().map(|log| log.commons.pipeline.bytes_led()).sum()
    }

    /// Streams' chunks that are not written take more memory than they may.
    pub(crate) fn has_much_unwritten(&self, limits: &Limits) -> bool {
        let streams = || self.all.iter().filter_map(|log| log.streams.get());
        self.has_streams
            && streams().map(|streams| streams.unwritten_bytes()).sum::<usize>()
                > limits.stream_unwritten_bytes_max
    }

    /// Notes the reads that deliveries from the log in this slot wait for.
    #[inline]
    pub(crate) fn list_reads(&mut self, slot: usize, limits: &Limits) {
        self.all[slot].take_reads(limits, &mut self.reads);
    }

    /// Moves the reads that deliveries wait for into `into`.
    pub(crate) fn take_reads(&mut self, into: &mut Vec<ReadRequest>) {
        into.append(&mut self.reads);
    }

    /// Moves the damage found in streams into `into`.
    pub(crate) fn take_damages(&mut self, into: &mut Vec<Damaged>) {
        if !self.has_streams {
            return;
        }
        into.append(&mut self.left_damages);
        self.all.iter_mut().for_each(|log| take_damages(log, into));
    }

    /// Has `each` hear how many stored offsets had to go for others, and of the last of them, by log.
    #[inline]
    pub(crate) fn take_driven_out(&mut self, mut each: impl FnMut(u64, DrivenOut)) {
        if self.has_streams {
            for log in &mut self.all {
                let driven_out = log.streams.get_mut().and_then(|streams| streams.take_driven_out());
                if let Some((count, last)) = driven_out {
                    each(count, last);
                }
            }
        }
    }
}

/// Moves the damage found in a log's streams into `into`.
fn take_damages(log: &mut Log, into: &mut Vec<Damaged>) {
    if let Some(streams) = log.streams.get_mut() {
        into.extend(streams.damages.drain(..).map(Damaged::Stream));
    }
}
