//! Configuration of a queue: settings that are recorded, rules that are the owner's, and the properties of a message.

use crate::retry::Retry;
use base::Digest;
use message::record::SizesKept;

/// How a queue keeps its messages. Recorded: a change comes by a record ([`crate::Record::Configure`]) and is about
/// messages that come after it. The default keeps nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Returned messages are counted (quorum queues): they become ready when the record of their return comes back.
    /// From the first message on; never changes.
    pub counts: bool,
    /// How long a message lives in the queue at most, milliseconds; 0: it is offered once.
    pub ttl_ms: Option<u64>,
    /// The meaning of a priority; in queues that count it never changes once a message came.
    pub priorities: Priorities,
    /// The messages whose sizes are kept, as a limit in bytes needs them.
    pub sizes: SizesKept,
}

/// The meaning of a priority in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priorities {
    /// Nothing.
    #[default]
    None,
    /// 0 to this one, strictly the highest first; none is 0, one above counts as this one. Messages that came back go
    /// first among their own (classic queues, x-max-priority; queues of either kind, x-priority-expression).
    UpTo(u8),
    /// 0 to 31, strictly the highest first; none is 4, one above counts as 31. Messages that came back go before all
    /// that never were out. Queues that count are so where nothing else is said; no other queue is.
    Strict,
}

/// The highest priority there is where priorities are [`Priorities::Strict`].
pub(crate) const STRICT_MAX: u8 = 31;

/// The priority of a message without, in a queue that counts.
pub(crate) const STRICT_USUAL: u8 = 4;

impl Priorities {
    /// The level of a message without a priority.
    #[inline]
    pub(crate) fn usual(self) -> u8 {
        if self == Priorities::Strict { STRICT_USUAL } else { 0 }
    }

    /// The level of a message.
    pub(crate) fn level(self, priority: Option<u8>) -> u8 {
        match (self, priority) {
            (Priorities::None, _) => 0,
            (Priorities::UpTo(max), priority) => priority.unwrap_or(0).min(max),
            (Priorities::Strict, priority) => priority.unwrap_or(STRICT_USUAL).min(STRICT_MAX),
        }
    }
}

impl Settings {
    /// As they count: a queue that counts is strict where nothing is said. Panics where a queue that does not count is to
    /// be.
    pub(crate) fn normal(self) -> Settings {
        if self.counts && self.priorities == Priorities::None {
            return Settings { priorities: Priorities::Strict, ..self };
        }
        assert!(
            self.counts || self.priorities != Priorities::Strict,
            "only queues that count have strict priorities"
        );
        self
    }

    /// Messages that come are kept with their sizes.
    #[inline]
    pub(crate) fn keeps_sizes(self) -> bool {
        self.sizes != SizesKept::None
    }

    /// Of a queue about which nothing was said but whether it counts.
    pub(crate) fn plain(counts: bool) -> Settings {
        Settings { counts, ..Settings::default() }.normal()
    }
}

/// Rules that an owner goes by beyond handing out. Volatile: costs no record, but its effects do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Ready messages at most.
    pub length_max: Option<u64>,
    /// Bytes of ready messages at most; counts those whose sizes are known ([`Settings::sizes`]).
    pub bytes_max: Option<u64>,
    /// Over a limit, the messages that would be handed out next go. Else nothing goes: publishers are to be refused
    /// ([`crate::Fifo::is_full`]).
    pub drops_head: bool,
    /// Failed deliveries of a message at most; only in queues that count.
    pub delivery_limit: Option<u32>,
    /// Returns of a message without failure at most; only in queues that count.
    pub cancel_limit: Option<u32>,
    /// Somebody takes messages that die ([`crate::Effect::DeadLetter`]).
    pub takes_dead: bool,
    /// One consumer at a time is given messages; gets are no consumers.
    pub single_active: bool,
    /// Messages that come back wait; only in queues that count.
    pub retry: Option<Retry>,
    /// Which of the consumers with room is next.
    pub fairness: Fairness,
    /// Messages that all consumers together hold at most, for them to be given more; gets are given theirs at any number,
    /// and count.
    pub unsettled_max: Option<u64>,
    /// A consumer has a message for so long, milliseconds; then it comes back as failed, if it was not settled, and the
    /// consumer goes on ([`crate::Fifo::lease_over`]). Consumer timeouts ([`crate::Fifo::watch`]) do not count then.
    pub lease_ms: Option<u64>,
}

impl Rules {
    /// An owner needs nothing for them but the counts that a queue keeps anyway.
    pub(crate) fn are_plain(&self) -> bool {
        let others = Rules { delivery_limit: None, cancel_limit: None, drops_head: false, ..*self };
        others == Rules::default()
    }

    /// Consumers do not simply take turns, or not without end.
    #[inline]
    pub(crate) fn has_consumer_rules(&self) -> bool {
        self.fairness != Fairness::RoundRobin || self.unsettled_max.is_some()
    }
}

/// Which consumer is given the next message, among those of the highest priority that have room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fairness {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The one that came first: the others are for what it has no room for.
    Fast,
    /// The one that holds the least share of what it may hold; of several the one that has waited longest.
    Proportional,
}

/// Digest of the value that names a group: messages that have the same are in the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey(pub Digest);

/// A message that arrives, as far as its queue is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// It is gone after a restart.
    pub transient: bool,
    /// As its publisher gave it.
    pub priority: Option<u8>,
    /// When the broker received it, milliseconds since 1970: its time in the queue counts from here, unless it
    /// is delayed.
    pub received_at_ms: u64,
    /// Its own time of expiry, which holds at any setting of the queue, milliseconds since 1970; 0: never.
    pub expires_at_ms: u64,
    /// It is delayed until then, milliseconds since 1970; its time in the queue counts from there. Not delayed where
    /// that is not after it was received.
    pub due_at_ms: u64,
    /// Its size, as limits in bytes count it.
    pub bytes: u32,
    /// How often its delivery failed before it came: of a dead letter.
    pub failures: u16,
    /// The group it is in. Its priority then counts for nothing: a group keeps its order.
    pub group: Option<GroupKey>,
    /// It is a barrier: it waits until all before it is gone, goes to every consumer, and only then goes the rest. A message
    /// that is delayed is none.
    pub barrier: bool,
}

impl Arrival {
    /// A queue keeps no more of it than its place.
    pub(crate) fn is_plain(&self, settings: Settings) -> bool {
        let Settings { ttl_ms, priorities, .. } = settings;
        self.level(priorities) == priorities.usual()
            && self.group.is_none()
            && self.deadline_ms(ttl_ms).is_none()
            && !settings.keeps_sizes()
            && !self.is_delayed()
            && self.failures == 0
            && !self.barrier
    }

    /// Its level in a queue with these priorities.
    pub(crate) fn level(&self, priorities: Priorities) -> u8 {
        match self.group {
            Some(_) => priorities.usual(),
            None => priorities.level(self.priority),
        }
    }

    /// It is not ready when it comes.
    pub(crate) fn is_delayed(&self) -> bool {
        self.due_at_ms > self.received_at_ms
    }

    /// When it ends in a queue that keeps messages for `ttl_ms`.
    pub(crate) fn deadline_ms(&self, ttl_ms: Option<u64>) -> Option<u64> {
        let from_ms = self.received_at_ms.max(self.due_at_ms);
        let in_queue = ttl_ms.map(|ttl_ms| from_ms.saturating_add(ttl_ms));
        let own = (self.expires_at_ms != 0).then_some(self.expires_at_ms);
        own.into_iter().chain(in_queue).min()
    }
}
