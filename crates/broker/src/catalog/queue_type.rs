//! The types of queue, and all by which they differ before there is a queue: names, arguments, keys of policies.

use super::source_arguments;

/// Which machine a queue is, and which commit rule it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QueueType {
    /// Committed by this node's disk.
    #[default]
    Classic,
    /// Committed by a majority of its members' disks.
    Quorum,
    /// Its messages stay, and are read from wherever a reader likes.
    Stream,
}

impl QueueType {
    /// All there are, in the order of their numbers.
    pub const ALL: [QueueType; 3] = [QueueType::Classic, QueueType::Quorum, QueueType::Stream];

    /// The one that `x-queue-type` has by this name.
    pub fn from_name(name: &str) -> Option<QueueType> {
        QueueType::ALL.into_iter().find(|queue_type| queue_type.name() == name)
    }

    /// The one of this name, or of the name of its module, which stands in old definitions of virtual hosts.
    pub fn from_any_name(name: &str) -> Option<QueueType> {
        QueueType::ALL.into_iter().find(|queue_type| queue_type.name() == name || queue_type.module() == name)
    }

    /// As `x-queue-type` has it.
    pub fn name(self) -> &'static str {
        match self {
            QueueType::Classic => "classic",
            QueueType::Quorum => "quorum",
            QueueType::Stream => "stream",
        }
    }

    /// As RabbitMQ's error texts have it.
    pub fn module(self) -> &'static str {
        match self {
            QueueType::Classic => "rabbit_classic_queue",
            QueueType::Quorum => "rabbit_quorum_queue",
            QueueType::Stream => "rabbit_stream_queue",
        }
    }

    /// Its letter in the table of arguments.
    pub(super) fn letter(self) -> char {
        match self {
            QueueType::Classic => 'c',
            QueueType::Quorum => 'q',
            QueueType::Stream => 's',
        }
    }

    /// Arguments that must be the same on declaring again, in the order in which they are compared.
    pub(super) fn fixed_arguments(self) -> impl Iterator<Item = &'static str> {
        let (own, others): (&[_], &[_]) = match self {
            QueueType::Classic => (&OWN_SAME, &CLASSIC_SAME),
            QueueType::Quorum => (&OWN_SAME, &QUORUM_SAME),
            QueueType::Stream => (&[], &STREAM_SAME),
        };
        own.iter().chain(others).copied()
    }

    /// Keys that keep a policy from its queues, for which they mean nothing.
    pub(super) fn foreign_keys(self) -> &'static [&'static str] {
        match self {
            QueueType::Classic => &NOT_FOR_CLASSIC,
            QueueType::Quorum => &NOT_FOR_QUORUM,
            QueueType::Stream => &NOT_FOR_STREAMS,
        }
    }
}

/// Arguments beyond RabbitMQ's of queues that hand their messages out.
const OWN_SAME: [&str; 15] = [
    source_arguments::STREAM,
    source_arguments::OFFSET,
    source_arguments::FILTER,
    source_arguments::FILTER_VALUES,
    source_arguments::MATCH_UNFILTERED,
    "x-group-key",
    crate::ranking::RANKING,
    crate::ranking::BARRIER,
    "x-fairness",
    "x-max-unsettled",
    "x-lease",
    "x-message-deduplication",
    "x-cache-size",
    "x-cache-ttl",
    "x-deduplication-header",
];

const CLASSIC_SAME: [&str; 13] = [
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-type",
    "x-queue-leader-locator",
];

const QUORUM_SAME: [&str; 21] = [
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-overflow",
    "x-single-active-consumer",
    "x-queue-type",
    "x-quorum-initial-group-size",
    "x-delivery-limit",
    "x-message-ttl",
    "x-queue-leader-locator",
    "x-consumer-disconnected-timeout",
    "x-consumer-timeout",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-cancel-limit",
];

const STREAM_SAME: [&str; 8] = [
    "x-max-length-bytes",
    "x-queue-type",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-stream-first-chunk-messages",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
];

const NOT_FOR_CLASSIC: [&str; 9] = [
    "max-age",
    "stream-max-segment-size-bytes",
    "initial-cluster-size",
    "delivery-limit",
    "dead-letter-strategy",
    "max-in-memory-length",
    "max-in-memory-bytes",
    "target-group-size",
    "cancel-limit",
];

const NOT_FOR_QUORUM: [&str; 4] =
    ["queue-mode", "max-age", "stream-max-segment-size-bytes", "initial-cluster-size"];

const NOT_FOR_STREAMS: [&str; 18] = [
    "expires",
    "message-ttl",
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "max-length",
    "max-in-memory-length",
    "max-in-memory-bytes",
    "max-priority",
    "overflow",
    "queue-mode",
    "delivery-limit",
    "queue-master-locator",
    "dead-letter-strategy",
    "target-group-size",
    "fairness",
    "max-unsettled",
    "lease",
    "cancel-limit",
];
