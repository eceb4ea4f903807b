//! Notices to the operator of things that a shard lets go of by its rules: once a minute for each queue and rule, with
//! how often it happened. And of declarations with slips: so many a minute, from whichever clients they are.
//!
//! Invariant: at most [`NOTICES_MAX`] queues and rules are known; beyond, until a minute of others is over, nothing is told, and
//! counters alone say that it happened.

use crate::catalog::{Misspelt, QueueDefinition};
use base::Now;
use base::hash::MapById;
use base::id::QueueId;
use message::record::DeathReason;
use std::fmt;
use std::sync::Arc;

/// Queues and rules of which it is known when they were told of.
const NOTICES_MAX: usize = 1024;

/// How long nothing more is told of the same queue and rule.
const QUIET_NS: u64 = 60_000_000_000;

/// The rule by which something was let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    Cycle,
    Offsets,
    TooDear,
}

/// The node itself, in place of a queue: it publishes too.
const NODE: QueueId = QueueId(0);

/// Something that was let go of, the last of its kind.
#[derive(Clone, Debug)]
pub struct Notice {
    what: What,
    /// How often it happened since it was told last.
    count: u64,
}

#[derive(Clone, Debug)]
enum What {
    /// A message that died would go round for ever.
    Cycle {
        /// Where it died.
        queue: Arc<QueueDefinition>,
        reason: DeathReason,
        /// Where it would come again.
        target: Arc<QueueDefinition>,
        /// It stays, for its queue is to dead-letter each at least once.
        stays: bool,
    },
    /// A stored offset had to go for others.
    Offset(DrivenOut),
    /// Finding where a message of the node's goes takes too many steps.
    TooDear {
        /// The queue that it died in; none: the node made it.
        queue: Option<Arc<QueueDefinition>>,
        /// The exchange it was to go to.
        exchange: Box<[u8]>,
        steps_max: u32,
    },
    /// Something was declared with arguments that have no effect.
    Misspelt {
        found: Misspelt,
        /// No more of this is told until a minute is over.
        is_last: bool,
    },
}

/// A stored offset that is no longer, for others took its place.
#[derive(Clone, Debug)]
pub(crate) struct DrivenOut {
    pub(crate) stream: Arc<QueueDefinition>,
    pub(crate) reference: Arc<[u8]>,
    pub(crate) offset: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// When it was told last, and how often it happened since.
    told: MapById<(QueueId, Rule), (u64, u64)>,
    /// When the first slip of the minute was told, and how many were.
    slips: (u64, u32),
    unreported: Vec<Notice>,
}

impl Notices {
    /// A message that died in `queue` would come to `target` again.
    #[cold]
    pub(crate) fn note_cycle(
        &mut self,
        now: Now,
        (queue, target): (&Arc<QueueDefinition>, &Arc<QueueDefinition>),
        reason: DeathReason,
        stays: bool,
    ) {
        self.note(now, (queue.id, Rule::Cycle), 1, || What::Cycle {
            queue: queue.clone(),
            reason,
            target: target.clone(),
            stays,
        });
    }

    /// So many offsets had to go, this one last.
    #[cold]
    pub(crate) fn note_driven_out(&mut self, now: Now, count: u64, last: DrivenOut) {
        self.note(now, (last.stream.id, Rule::Offsets), count, || What::Offset(last));
    }

    /// Finding where a message that died in `queue` goes takes more than so many steps.
    #[cold]
    pub(crate) fn note_dead_too_dear(
        &mut self,
        now: Now,
        queue: &Arc<QueueDefinition>,
        exchange: &[u8],
        steps_max: u32,
    ) {
        self.note(now, (queue.id, Rule::TooDear), 1, || What::TooDear {
            queue: Some(queue.clone()),
            exchange: exchange.into(),
            steps_max,
        });
    }

    /// Finding where a message that the node made itself goes takes more than so many steps.
    #[cold]
    pub(crate) fn note_own_too_dear(&mut self, now: Now, exchange: &[u8], steps_max: u32) {
        self.note(now, (NODE, Rule::TooDear), 1, || What::TooDear {
            queue: None,
            exchange: exchange.into(),
            steps_max,
        });
    }

    /// Something was declared with arguments. They are looked at only while slips may be told.
    pub(crate) fn note_slips(&mut self, now: Now, told_max: u32, look: impl FnOnce() -> Option<Misspelt>) {
        let (began_ns, told) = &mut self.slips;
        if now.mono_ns.saturating_sub(*began_ns) >= QUIET_NS {
            *told = 0;
        }
        if *told >= told_max {
            return;
        }
        let Some(found) = look() else { return };
        if *told == 0 {
            *began_ns = now.mono_ns;
        }
        *told += 1;
        let is_last = *told == told_max;
        self.unreported.push(Notice { what: What::Misspelt { found, is_last }, count: 1 });
    }

    fn note(&mut self, now: Now, of: (QueueId, Rule), more: u64, what: impl FnOnce() -> What) {
        if self.told.len() >= NOTICES_MAX && !self.told.contains_key(&of) {
            self.told.retain(|_, (at_ns, _)| now.mono_ns.saturating_sub(*at_ns) < QUIET_NS);
            if self.told.len() >= NOTICES_MAX {
                return;
            }
        }
        let (at_ns, count) = self.told.entry(of).or_insert((0, 0));
        *count += more;
        // The first of all, or one after a while.
        if *at_ns == 0 || now.mono_ns.saturating_sub(*at_ns) >= QUIET_NS {
            *at_ns = now.mono_ns.max(1);
            self.unreported.push(Notice { what: what(), count: std::mem::take(count) });
        }
    }

    /// Moves notices that were not told yet into `into`.
    #[inline]
    pub(crate) fn take(&mut self, into: &mut Vec<Notice>) {
        into.append(&mut self.unreported);
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Notice { what, count } = self;
        match what {
            What::Cycle { queue, reason, target, stays } => {
                let end = if *stays { "stay where they died" } else { "are dropped" };
                write!(
                    f,
                    "Dead-letter queues cycle detected for source {}: messages that died there ({}) would come to {} again without \
                     having been rejected meanwhile. They {end}, {count} since this was told last",
                    queue.named(),
                    reason.name(),
                    target.named(),
                )
            }
            What::TooDear { queue, exchange, steps_max } => {
                let source = match queue {
                    Some(queue) => format!("messages that died in {}", queue.named()),
                    None => "messages of the node itself".to_owned(),
                };
                write!(
                    f,
                    "routing {source} by the bindings of exchange '{}' takes more than {steps_max} steps \
                     (leveret.route_steps_max): they go nowhere, {count} since this was told last",
                    String::from_utf8_lossy(exchange)
                )
            }
            What::Misspelt { found, is_last } => {
                let end = if *is_last { " (no more of this for a minute)" } else { "" };
                write!(f, "{found}{end}")
            }
            What::Offset(DrivenOut { stream, reference, offset }) => write!(
                f,
                "{}: there is no room for more stored offsets: that of whoever has the most is forgotten which was stored \
                 longest ago, {count} since this was told last, that of {:?} ({offset}) the latest",
                stream.named(),
                String::from_utf8_lossy(reference),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { mono_ns: seconds * 1_000_000_000, wall_ms: 0 }
    }

    #[test]
    fn each_is_told_once_a_minute_with_how_often_it_was() {
        let mut notices = Notices::default();
        let queue = Arc::new(QueueDefinition::sample(1));
        let mut check = |seconds, expected: &[u64]| {
            notices.note_cycle(at(seconds), (&queue, &queue), DeathReason::Expired, false);
            let mut told = Vec::new();
            notices.take(&mut told);
            assert_eq!(told.iter().map(|notice| notice.count).collect::<Vec<_>>(), expected, "{seconds}");
            told.iter().for_each(|notice| assert!(notice.to_string().contains("cycle detected")));
        };
        check(0, &[1]);
        check(0, &[]);
        check(59, &[]);
        check(61, &[3]);
        check(62, &[]);
        check(200, &[2]);
    }

    #[test]
    fn routes_that_are_too_dear_are_told() {
        let mut notices = Notices::default();
        let queue = Arc::new(QueueDefinition::sample(1));
        for _ in 0..3 {
            notices.note_dead_too_dear(at(100), &queue, b"dlx", 7);
            notices.note_own_too_dear(at(100), b"amq.rabbitmq.trace", 7);
        }
        let mut told = Vec::new();
        notices.take(&mut told);
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2);
        assert!(told[0].contains("died in queue 'q' in vhost '/'") && told[0].contains("exchange 'dlx'"));
        assert!(told[1].contains("of the node itself") && told[1].contains("more than 7 steps"));
    }

    #[test]
    fn so_many_slips_are_told_in_a_minute() {
        let mut notices = Notices::default();
        let slip = QueueDefinition {
            arguments: [(&b"x-expire"[..], routing::Value::long(5))].into_iter().collect(),
            ..QueueDefinition::sample(1)
        };
        let user: Arc<str> = "guest".into();
        let mut looks = 0;
        let mut check = |seconds, told_max, expected: &[bool]| {
            notices.note_slips(at(seconds), told_max, || {
                looks += 1;
                Misspelt::in_queue(&slip, &user, 16)
            });
            let mut told = Vec::new();
            notices.take(&mut told);
            let last: Vec<bool> = told
                .iter()
                .map(|notice| notice.to_string().ends_with("(no more of this for a minute)"))
                .collect();
            assert_eq!(last, expected, "{seconds}");
        };
        check(100, 2, &[false]);
        check(120, 2, &[true]);
        check(150, 2, &[]);
        check(161, 2, &[false]);
        check(162, 2, &[true]);
        check(163, 2, &[]);
        assert_eq!(looks, 4, "nothing is looked at that would not be told");
    }

    #[test]
    fn only_so_many_queues_are_known() {
        let mut notices = Notices::default();
        let mut told = Vec::new();
        for round in 0..2 {
            for id in 0..2 * NOTICES_MAX as u64 {
                let queue = Arc::new(QueueDefinition::sample(id));
                notices.note_cycle(at(round * 100), (&queue, &queue), DeathReason::Expired, true);
            }
            assert_eq!(notices.told.len(), NOTICES_MAX);
            notices.take(&mut told);
            assert_eq!(std::mem::take(&mut told).len(), NOTICES_MAX);
        }
    }
}
