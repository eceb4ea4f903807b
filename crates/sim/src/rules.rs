//! Rules of a queue besides first in, first out, and options of a message.

use base::Random;
use broker::catalog::{FILTER_MACRO, Op};

/// Milliseconds a message waits at most when it comes back.
pub const RETRY_MS_MAX: u64 = 600;

/// A queue's rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Milliseconds a message lives in it.
    pub ttl_ms: Option<u64>,
    /// Ready messages it holds.
    pub length_max: Option<u64>,
    /// It refuses what is too much, and does not drop the oldest.
    pub refuses: bool,
    /// Failed deliveries after which a message dies.
    pub delivery_limit: Option<u32>,
    /// The highest priority it tells apart.
    pub priority_max: Option<u8>,
    /// It ranks its messages by an expression ([`RANKING`]).
    pub ranks: bool,
    /// Some of its messages are barriers ([`BARRIER`]).
    pub bars: bool,
    /// The queue its dead go to.
    pub grave: Option<usize>,
    /// It passes over a message it has seen.
    pub deduplicates: bool,
    /// It has messages of one group with one consumer at a time.
    pub is_grouped: bool,
    /// Milliseconds a consumer may hold a message.
    pub timeout_ms: Option<u64>,
    /// Milliseconds a message is a consumer's, where it is leased: no timeout counts then.
    pub lease_ms: Option<u64>,
    /// Which messages wait when they come back, and how many milliseconds for each time they failed.
    pub retry: Option<(&'static str, u64)>,
    /// Which consumer is next, where they do not take turns.
    pub fairness: Option<&'static str>,
    /// Messages that all consumers together hold.
    pub unsettled_max: Option<u64>,
    /// Returns without failure after which a message dies.
    pub cancel_limit: Option<u32>,
}

impl Rules {
    /// Rules for a queue; `graves` are the queues its dead may go to.
    pub fn roll(dice: &mut Random, is_quorum: bool, graves: &[usize]) -> Rules {
        let mut some = |one_in, choices: &[u64]| {
            dice.one_in(one_in).then(|| choices[dice.below(choices.len() as u64) as usize])
        };
        let ttl_ms = some(3, &[20, 200, 2000]);
        let length_max = some(3, &[1, 3, 20]);
        let delivery_limit = some(2, &[0, 1, 3]).filter(|_| is_quorum).map(|limit| limit as u32);
        let timeout_ms = some(2, &[400, 1500, 6000]).filter(|_| is_quorum);
        let priority_max = some(4, &[1, 5, 255]).filter(|_| !is_quorum).map(|most| most as u8);
        let refuses = length_max.is_some() && dice.one_in(3);
        let has_grave = !graves.is_empty() && !dice.one_in(3);
        let grave = has_grave.then(|| graves[dice.below(graves.len() as u64) as usize]);
        let deduplicates = dice.one_in(3);
        let retry = dice.one_in(3).then(|| {
            let of_type = ["all", "failed", "returned"][dice.below(3) as usize];
            (of_type, [1, 40, 400][dice.below(3) as usize])
        });
        let retry = retry.filter(|_| is_quorum);
        let fairness = [None, Some("fast"), Some("proportional")][dice.below(3) as usize];
        let unsettled_max = dice.one_in(4).then(|| 1 + dice.below(8));
        let cancel_limit = dice.one_in(4).then(|| dice.below(4) as u32).filter(|_| is_quorum);
        let limits = Rules { ttl_ms, length_max, refuses, delivery_limit, cancel_limit, ..Rules::default() };
        let limits = Rules { fairness, unsettled_max, ..limits };
        Rules { priority_max, grave, deduplicates, timeout_ms, retry, ..limits }
    }

    /// It asks for nothing.
    pub fn is_plain(&self) -> bool {
        *self == Rules::default()
    }

    /// Milliseconds after which another may have a message that a consumer holds.
    pub fn holding_ms(&self) -> Option<u64> {
        self.lease_ms.or(self.timeout_ms)
    }

    /// Its oldest messages go where there are too many.
    pub fn makes_room(&self) -> bool {
        self.length_max.is_some() && !self.refuses
    }

    /// Whether it may drop a message for good without any client's knowledge.
    pub fn drops(&self) -> bool {
        let has_limit = self.makes_room() || self.limits_returns();
        has_limit && self.grave.is_none()
    }

    /// A message dies that comes back too often.
    pub fn limits_returns(&self) -> bool {
        self.delivery_limit.is_some() || self.cancel_limit.is_some()
    }
}

/// The macros of the virtual host, in the order in which they are made: a name, parameters and an expression each. A
/// snapshot has them by name, where one comes before those that it uses.
const MACROS: [(&str, &str, &str); 3] = [
    ("remainder_by", r#""by", "n""#, "SIZE() % by = n"),
    ("times_eight", r#""n""#, "n * 8"),
    ("level", r#""n""#, "times_eight(n) + 1"),
];

/// The requests that make the macros.
pub fn macros() -> impl Iterator<Item = Op> {
    MACROS.iter().map(|(name, parameters, text)| Op::SetVhostParameter {
        vhost: "/".into(),
        component: FILTER_MACRO.into(),
        name: (*name).into(),
        value: Some(format!(r#"{{"parameters": [{parameters}], "expression": "{text}"}}"#).into()),
    })
}

/// The priority of a message in a queue that ranks: other levels than its publisher's, and in the same order.
pub const RANKING: &str = "level(header.priority)";

/// Which messages are barriers in a queue that has any: by the lengths of their bodies.
pub const BARRIER: &str = "remainder_by(5, 2)";

/// Whether [`BARRIER`] is true of a message with a body of so many bytes.
pub fn is_barrier(len: usize) -> bool {
    len % 5 == 2
}

/// The header that says which group a message is in.
pub const GROUP_HEADER: &str = "group";

/// The group a message is in, if any, where its publisher tells it.
pub fn group_of(message: u64) -> Option<u64> {
    Some(message % 5).filter(|group| *group > 0)
}

/// Milliseconds a message may be delayed.
pub const DELAYS_MS: [u64; 4] = [5, 60, 400, 1500];

/// When a message is to be delivered, not before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// So many milliseconds after the node took it.
    For(u64),
    /// At this time, milliseconds since 1970.
    Until(u64),
}

/// The options of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageOptions {
    /// Its priority.
    pub priority: Option<u8>,
    /// Milliseconds it lives in any queue.
    pub ttl_ms: Option<u64>,
    /// A queue it goes to may refuse it.
    pub may_be_refused: bool,
    /// It is sent twice, to a queue that passes over the second.
    pub twice: bool,
    /// It says which group it is in ([`group_of`]).
    pub has_group: bool,
    /// It is to wait.
    pub delay: Option<Delay>,
}

impl MessageOptions {
    /// Options, mostly none.
    pub fn roll(dice: &mut Random) -> MessageOptions {
        let priority = dice.one_in(5).then(|| dice.below(10) as u8);
        let ttl_ms = dice.one_in(8).then(|| [10, 150, 1500][dice.below(3) as usize]);
        MessageOptions { priority, ttl_ms, ..MessageOptions::default() }
    }

    /// The options in words, for the trace.
    pub fn words(&self) -> String {
        let priority = self.priority.map(|priority| format!(", priority {priority}"));
        let ttl = self.ttl_ms.map(|ms| format!(", to live {ms} ms"));
        let twice = if self.twice { ", twice" } else { "" };
        let delay = self.delay.map(|delay| format!(", delayed {delay:?}"));
        format!(
            "{}{}{twice}{}",
            priority.unwrap_or_default(),
            ttl.unwrap_or_default(),
            delay.unwrap_or_default()
        )
    }
}
