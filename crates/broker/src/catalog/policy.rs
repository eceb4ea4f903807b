//! Policies: settings for the queues and exchanges whose names match, over what they were declared with.
//!
//! Of the policies of a virtual host the one of highest priority that applies to a thing counts for it, and of equal
//! priority the one whose name comes first; of operator policies likewise. What a queue makes of both and of its
//! arguments is in [`super::effective`], what a policy may say in [`super::policy_keys`].
//!
//! A policy applies to a thing of its kind whose name its pattern matches anywhere. To a queue of a type that one of
//! its keys is not for it does not apply at all, so that a policy of lower priority may.

use super::{ExchangeDefinition, QueueDefinition, QueueType, VhostId};
use crate::access::Pattern;
use routing::Arguments;
use std::sync::Arc;

/// The kind of a policy, by the side that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// The users' of the virtual host.
    User,
    /// The operator's: it caps what users ask for, and has fewer keys.
    Operator,
}

/// The objects that a policy applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyTo {
    /// Queues and exchanges.
    All,
    /// Queues of every type.
    Queues,
    /// Classic queues.
    ClassicQueues,
    /// Quorum queues.
    QuorumQueues,
    /// Streams.
    Streams,
    /// Exchanges.
    Exchanges,
}

impl ApplyTo {
    /// All there are.
    pub(super) const ALL: [ApplyTo; 6] = [
        ApplyTo::All,
        ApplyTo::Queues,
        ApplyTo::ClassicQueues,
        ApplyTo::QuorumQueues,
        ApplyTo::Streams,
        ApplyTo::Exchanges,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            ApplyTo::All => "all",
            ApplyTo::Queues => "queues",
            ApplyTo::ClassicQueues => "classic_queues",
            ApplyTo::QuorumQueues => "quorum_queues",
            ApplyTo::Streams => "streams",
            ApplyTo::Exchanges => "exchanges",
        }
    }

    /// The one that is written so.
    pub fn from_name(name: &str) -> Option<ApplyTo> {
        ApplyTo::ALL.into_iter().find(|apply_to| apply_to.name() == name)
    }

    fn is_for_queues(self, queue_type: QueueType) -> bool {
        match self {
            ApplyTo::All | ApplyTo::Queues => true,
            ApplyTo::ClassicQueues => queue_type == QueueType::Classic,
            ApplyTo::QuorumQueues => queue_type == QueueType::Quorum,
            ApplyTo::Streams => queue_type == QueueType::Stream,
            ApplyTo::Exchanges => false,
        }
    }
}

/// A policy.
#[derive(Debug, PartialEq)]
pub struct PolicyDefinition {
    /// Its virtual host.
    pub vhost: VhostId,
    /// Users' or operator's.
    pub kind: PolicyKind,
    /// Its name, among those of its kind.
    pub name: Box<str>,
    /// The names of what it applies to; the empty one matches all.
    pub pattern: Pattern,
    /// The objects it applies to.
    pub apply_to: ApplyTo,
    /// Of several that apply the highest counts.
    pub priority: i64,
    /// Its keys, without `x-`, and their values.
    pub definition: Arguments,
}

#[cfg(test)]
thread_local! {
    /// Names that patterns of policies were asked about on this thread: most of what a policy costs.
    pub(super) static NAMES_ASKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl PolicyDefinition {
    fn matches(&self, name: &str) -> bool {
        #[cfg(test)]
        NAMES_ASKED.set(NAMES_ASKED.get() + 1);
        // A permission's empty pattern matches nothing; a policy's is as any other regular expression.
        self.pattern.source().is_empty() || self.pattern.matches(name)
    }

    /// Whether it is for this queue, others that count more apart.
    pub fn is_for_queue(&self, queue: &QueueDefinition) -> bool {
        let foreign = queue.queue_type.foreign_keys();
        self.apply_to.is_for_queues(queue.queue_type)
            && foreign.iter().all(|key| self.definition.get(key.as_bytes()).is_none())
            && self.matches(&queue.name)
    }

    /// The same of an exchange.
    pub fn is_for_exchange(&self, exchange: &ExchangeDefinition) -> bool {
        matches!(self.apply_to, ApplyTo::All | ApplyTo::Exchanges) && self.matches(&exchange.name)
    }

    /// Whether it counts more than another of its kind: those that count more come first.
    pub fn comes_before(&self, other: &PolicyDefinition) -> bool {
        (other.priority, &self.name) < (self.priority, &other.name)
    }
}

/// The two policies that count for a thing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Matched<'a> {
    /// The users' policy.
    pub user: Option<&'a Arc<PolicyDefinition>>,
    /// The operator's.
    pub operator: Option<&'a Arc<PolicyDefinition>>,
}

impl Matched<'_> {
    /// Whether the same policies count, as they were.
    pub(super) fn is_same(&self, other: &Matched<'_>) -> bool {
        let same = |one: Option<&Arc<PolicyDefinition>>, other: Option<&Arc<PolicyDefinition>>| {
            one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
        };
        same(self.user, other.user) && same(self.operator, other.operator)
    }
}

/// The policies of a virtual host.
#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
    /// Those that count more come first.
    user: Vec<Arc<PolicyDefinition>>,
    operator: Vec<Arc<PolicyDefinition>>,
}

impl Policies {
    /// Those of a kind; those that count more come first.
    pub(super) fn of(&self, kind: PolicyKind) -> &[Arc<PolicyDefinition>] {
        match kind {
            PolicyKind::User => &self.user,
            PolicyKind::Operator => &self.operator,
        }
    }

    fn of_mut(&mut self, kind: PolicyKind) -> &mut Vec<Arc<PolicyDefinition>> {
        match kind {
            PolicyKind::User => &mut self.user,
            PolicyKind::Operator => &mut self.operator,
        }
    }

    pub(super) fn get(&self, kind: PolicyKind, name: &str) -> Option<&Arc<PolicyDefinition>> {
        self.of(kind).iter().find(|policy| *policy.name == *name)
    }

    /// Puts a policy in the place of the one of its name.
    pub(super) fn set(&mut self, policy: &Arc<PolicyDefinition>) {
        self.clear(policy.kind, &policy.name);
        let all = self.of_mut(policy.kind);
        let at = all.partition_point(|other| other.comes_before(policy));
        all.insert(at, policy.clone());
    }

    pub(super) fn clear(&mut self, kind: PolicyKind, name: &str) {
        self.of_mut(kind).retain(|policy| *policy.name != *name);
    }

    /// There are none of either kind.
    pub(super) fn is_empty(&self) -> bool {
        self.user.is_empty() && self.operator.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use routing::Value;

    impl Policies {
        fn of_queue(&self, queue: &QueueDefinition) -> Option<Arc<PolicyDefinition>> {
            let place = self.user.iter().position(|policy| policy.is_for_queue(queue))?;
            Some(self.user[place].clone())
        }
    }

    fn policy(name: &str, pattern: &str, priority: i64, apply_to: &str, key: &str) -> Arc<PolicyDefinition> {
        Arc::new(PolicyDefinition {
            vhost: VhostId(0),
            kind: PolicyKind::User,
            name: name.into(),
            pattern: Pattern::new(pattern).unwrap(),
            apply_to: ApplyTo::from_name(apply_to).unwrap(),
            priority,
            definition: [(key.as_bytes(), Value::long(1))].into_iter().collect(),
        })
    }

    fn queue(name: &str, queue_type: QueueType) -> QueueDefinition {
        QueueDefinition { name: name.into(), queue_type, ..QueueDefinition::sample(1) }
    }

    #[test]
    fn the_highest_that_applies_counts() {
        let mut policies = Policies::default();
        for policy in [
            policy("b", "^a", 0, "all", "max-length"),
            policy("a", "^a", 0, "queues", "max-length"),
            policy("low", "", -3, "queues", "max-length"),
            policy("quorum", "^aq", 7, "quorum_queues", "max-length"),
            policy("limit", "^al", 9, "all", "delivery-limit"),
            policy("mode", "^al", 8, "all", "queue-mode"),
            policy("stream", "", 20, "streams", "max-length"),
            policy("exchange", "", 20, "exchanges", "alternate-exchange"),
        ] {
            policies.set(&policy);
        }
        let check = |name: &str, queue_type: QueueType, expected: &str| {
            let found = policies.of_queue(&queue(name, queue_type));
            assert_eq!(found.as_ref().map_or("", |policy| &policy.name), expected, "{name} {queue_type:?}");
        };
        check("ab", QueueType::Classic, "a");
        check("ab", QueueType::Quorum, "a");
        check("ba", QueueType::Classic, "low");
        check("", QueueType::Classic, "low");
        check("aq", QueueType::Quorum, "quorum");
        check("aq", QueueType::Classic, "a");
        // A key that is not for its type keeps a policy from a queue.
        check("al", QueueType::Quorum, "limit");
        check("al", QueueType::Classic, "mode");
        policies.clear(PolicyKind::User, "low");
        assert!(policies.of_queue(&queue("ba", QueueType::Classic)).is_none());
        policies.set(&policy("b", "^a", 1, "all", "max-length"));
        let first = policies.of_queue(&queue("ab", QueueType::Classic)).unwrap();
        assert_eq!((&*first.name, first.priority), ("b", 1));
        assert_eq!(policies.of(PolicyKind::User).iter().filter(|policy| &*policy.name == "b").count(), 1);
    }
}
