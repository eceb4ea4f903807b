//! Features that only some queues have, at their owner: rules beyond first in, first out, a clock, the dying.
//!
//! Boxed, and absent where a queue asks for nothing of this.

use crate::catalog::{DeadLetterRule, Overflow, QueueDefinition, QueueRules};
use crate::placed::queue::browse::Browser;
use crate::placed::queue::modified::LastWords;
use crate::placed::queue::selectors::Selectors;
use base::id::LogIndex;
use message::record::{Configure, DeathReason, SeqRange, SizesKept};
use queue::{Priorities, Rules, Settings};
use std::collections::VecDeque;
use std::sync::Arc;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Features {
    pub(crate) rules: QueueRules,
    /// Died and not yet published anew, in the order in which they died.
    pub(crate) dying: VecDeque<(SeqRange, DeathReason)>,
    /// Published anew and not yet known to be safe.
    pub(crate) dead_lettering: usize,
    /// Annotations that consumers wrote on messages that they refused.
    pub(crate) last_words: Option<Box<LastWords>>,
    /// It is on the log's list of queues with dead letters.
    pub(crate) is_listed: bool,
    /// Could not be published anywhere and may not be lost: they go back to the dying at that time, milliseconds
    /// since 1970.
    pub(crate) unplaced: Vec<(SeqRange, DeathReason)>,
    pub(crate) retry_at_ms: u64,
    /// Messages appended and not in the queue yet, counted where the queue refuses what is too much.
    pub(crate) arriving: u64,
    pub(crate) arriving_bytes: u64,
    /// Browsers, in the order in which they came.
    pub(crate) browsers: Vec<Browser>,
    /// When it was used last, milliseconds since 1970.
    pub(crate) used_at_ms: u64,
    /// The log's timer for it, monotonic nanoseconds.
    pub(crate) timer: Option<u64>,
    /// Sizes of messages before this are recorded, as far as they were found out ([`crate::placed::queue::weighing`]).
    pub(crate) weighed_to: LogIndex,
    /// A consumer has not settled what was taken back from it.
    pub(crate) has_late: bool,
    /// Where consumers choose.
    pub(crate) selectors: Option<Box<Selectors>>,
}

impl Features {
    /// A message that was counted as arriving is in the queue.
    pub(crate) fn arrived(&mut self, bytes: u64) {
        self.arriving = self.arriving.saturating_sub(1);
        self.arriving_bytes = self.arriving_bytes.saturating_sub(bytes);
    }

    /// Nothing is kept here that the queue needs.
    pub(crate) fn is_idle(&self) -> bool {
        self.rules.is_usual()
            && self.browsers.is_empty()
            && self.dying.is_empty()
            && self.unplaced.is_empty()
            && self.dead_lettering == 0
            && !self.is_listed
            && !self.has_late
            && self.last_words.is_none()
            && self.selectors.is_none()
    }

    /// When the queue has been unused for too long, if nobody consumes from it, milliseconds since 1970.
    pub(crate) fn ends_at_ms(&self) -> Option<u64> {
        self.rules.expires_ms.map(|expires| self.used_at_ms.saturating_add(expires))
    }
}

impl QueueRules {
    /// Publishes are refused when the queue is full.
    pub(crate) fn refuses(&self) -> bool {
        self.overflow != Overflow::DropHead && (self.length_max.is_some() || self.bytes_max.is_some())
    }

    /// It asks for nothing that an owner must know of: at most for a delivery limit.
    pub(crate) fn is_usual(&self) -> bool {
        *self == QueueRules { delivery_limit: self.delivery_limit, ..QueueRules::default() }
    }

    /// Where the dead go, if anywhere.
    pub(crate) fn takes_dead(&self) -> Option<&Arc<DeadLetterRule>> {
        self.dead_letter.as_ref()
    }

    /// The settings that the machine records.
    pub(crate) fn settings(&self, queue: &QueueDefinition) -> Settings {
        let priorities = match self.priority_max {
            Some(max) => Priorities::UpTo(max),
            None if queue.is_quorum() => Priorities::Strict,
            None => Priorities::None,
        };
        Settings {
            counts: queue.is_quorum(),
            ttl_ms: self.message_ttl_ms,
            priorities,
            sizes: if self.bytes_max.is_some() { SizesKept::All } else { SizesKept::None },
        }
    }

    /// The rules of the machine that it does not record.
    pub(crate) fn machine_rules(&self) -> Rules {
        Rules {
            length_max: self.length_max,
            bytes_max: self.bytes_max,
            drops_head: self.overflow == Overflow::DropHead,
            delivery_limit: self.delivery_limit,
            takes_dead: self.dead_letter.is_some(),
            single_active: self.single_active,
            retry: self.retry,
            fairness: self.fairness,
            unsettled_max: self.unsettled_max,
            cancel_limit: self.cancel_limit,
            lease_ms: self.lease_ms,
        }
    }
}

/// The settings a record says, of a queue that has `current` ones.
pub(crate) fn settings_of(configure: &Configure, current: Settings) -> Settings {
    let priorities = match configure.priority_max {
        Some(max) => Priorities::UpTo(max),
        None if current.counts => Priorities::Strict,
        None => Priorities::None,
    };
    Settings { counts: current.counts, ttl_ms: configure.ttl_ms, priorities, sizes: configure.sizes }
}
