//! Notices to the operator of things that a shard lets go of by its rules: once a minute for each queue and rule, with
//! how often it happened. And of declarations with slips: so many a minute, from whichever clients they are.
//!
//! Invariant: at most [`NOTICES_MAX`] queues and rules are known; beyond, until a minute of others is over, nothing is told, and
//! counters alone say that it happened.

use crate::catalog::{Misspelt, QueueDefinition};
use base::Now;
use base::id::QueueId;
use message::record::DeathReason;
use rustc_hash::FxHashMap;
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
}

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
    told: FxHashMap<(QueueId, Rule), (u64, u64)>,
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
