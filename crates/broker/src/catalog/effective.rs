//! Rules in effect of a queue: worked out of its declaration and of the policies that apply to it.
//!
//! Of numbers given several times the lowest counts. Otherwise an argument counts more than a policy (in quorum queues
//! an overflow less), and an operator's policy more than the users', as in RabbitMQ 4.3.6.
//!
//! Values were checked when they came; one that means nothing here counts as not given. What of this is recorded with
//! the queue's messages, and what its owner alone decides by, is the owner's to know.

use super::numbers::{count, integer};
use super::policy::Matched;
use super::retry::retry;
use super::stream::StreamRules;
use super::{Catalog, ExchangeDefinition, QueueDefinition, QueueType};
use crate::ranking::{BARRIER, RANKING};
use queue::{Fairness, Retry, WindowSettings};
use routing::{Argument, Arguments};
use std::sync::Arc;

/// The argument that names the exchange for what this one routes nowhere.
pub(super) const ALTERNATE: &str = "alternate-exchange";

/// How often a quorum queue lets a message fail when nobody said how often.
pub const DELIVERY_LIMIT: u32 = 20;

/// The fate of messages when a queue has as many, or as many bytes, as it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The oldest goes.
    #[default]
    DropHead,
    /// The new one is refused.
    RejectPublish,
    /// The new one is refused and dead-lettered.
    RejectPublishDeadLetter,
}

/// Where messages go that die in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterRule {
    /// The exchange they are published to, in the queue's virtual host; empty: the default one.
    pub exchange: Box<str>,
    /// The routing key they get; without, each keeps its own.
    pub routing_key: Option<Box<str>>,
    /// None is lost between the two queues, and those that lead nowhere stay.
    pub at_least_once: bool,
}

/// The rules of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueRules {
    /// How long a message lives, milliseconds.
    pub message_ttl_ms: Option<u64>,
    /// How long the queue lives unused, milliseconds, above 0.
    pub expires_ms: Option<u64>,
    /// Ready messages at most.
    pub length_max: Option<u64>,
    /// Bytes of ready messages at most.
    pub bytes_max: Option<u64>,
    /// The fate of messages at either limit.
    pub overflow: Overflow,
    /// How often a message may fail before it dies: quorum queues alone.
    pub delivery_limit: Option<u32>,
    /// Where messages go that die.
    pub dead_letter: Option<Arc<DeadLetterRule>>,
    /// One consumer at a time has all deliveries.
    pub single_active: bool,
    /// The highest priority it tells apart: 1 to 255 in classic queues, 255 in those that rank their messages, 0 in those with
    /// barriers. Other quorum queues always tell 32.
    pub priority_max: Option<u8>,
    /// Which keys it remembers to tell duplicates.
    pub window: Option<WindowSettings>,
    /// How long a consumer may hold a message, milliseconds: quorum queues alone; without, the node's default counts.
    pub consumer_timeout_ms: Option<u64>,
    /// The messages that wait when they come back, and how long: quorum queues alone.
    pub retry: Option<Retry>,
    /// Which of the consumers with room is next.
    pub fairness: Fairness,
    /// Messages that all consumers together hold at most, 1 or more.
    pub unsettled_max: Option<u64>,
    /// How long a consumer has a message, milliseconds, 100 or more.
    pub lease_ms: Option<u64>,
    /// How often a message may come back without failure before it dies: quorum queues alone.
    pub cancel_limit: Option<u32>,
    /// How much a stream keeps; of streams nothing else is said.
    pub stream: Option<Box<StreamRules>>,
}

impl Catalog {
    /// The rules of a queue as they are now. Later changes are told of by [`super::Applied::RulesChanged`].
    pub fn rules(&self, queue: &QueueDefinition) -> QueueRules {
        rules(queue, self.queue_policies(queue))
    }

    /// [`QueueRules::refuses`] of what a queue goes by now, without the rest of it: asked for each message that goes a new way.
    pub(crate) fn refuses(&self, queue: &QueueDefinition) -> bool {
        refuses(queue, self.queue_policies(queue))
    }
}

/// The rules of a queue under these policies.
pub(super) fn rules(queue: &QueueDefinition, policies: Matched<'_>) -> QueueRules {
    let given = Given::new(&queue.arguments, policies);
    if queue.is_stream() {
        let stream = Some(Box::new(StreamRules::of(&queue.arguments, policies)));
        return QueueRules { stream, ..QueueRules::default() };
    }
    let is_quorum = queue.queue_type == QueueType::Quorum;
    if given.is_empty() {
        let delivery_limit = is_quorum.then_some(DELIVERY_LIMIT);
        return QueueRules { delivery_limit, ..QueueRules::default() };
    }
    let overflow = given.overflow(queue.queue_type);
    let single_active = given.argument("single-active-consumer").and_then(Argument::as_bool);
    QueueRules {
        message_ttl_ms: given.lowest("message-ttl"),
        expires_ms: given.lowest("expires"),
        length_max: given.lowest("max-length"),
        bytes_max: given.lowest("max-length-bytes"),
        overflow,
        delivery_limit: if is_quorum { given.delivery_limit() } else { None },
        dead_letter: given.dead_letter(is_quorum && overflow == Overflow::RejectPublish),
        single_active: single_active == Some(true),
        priority_max: match () {
            () if queue.arguments.get(BARRIER.as_bytes()).is_some() => Some(0),
            () if queue.arguments.get(RANKING.as_bytes()).is_some() => Some(u8::MAX),
            () if is_quorum => None,
            () => given.priority_max(),
        },
        window: window(&queue.arguments),
        consumer_timeout_ms: if is_quorum { given.lowest("consumer-timeout") } else { None },
        retry: if is_quorum { given.retry() } else { None },
        fairness: given.fairness(),
        unsettled_max: given.lowest("max-unsettled"),
        lease_ms: given.lowest("lease"),
        cancel_limit: if is_quorum { given.cancel_limit() } else { None },
        stream: None,
    }
}

/// [`QueueRules::refuses`] of [`rules`].
fn refuses(queue: &QueueDefinition, policies: Matched<'_>) -> bool {
    let given = Given::new(&queue.arguments, policies);
    let has_limit = || ["max-length", "max-length-bytes"].iter().any(|key| given.lowest(key).is_some());
    let may_refuse = !queue.is_stream() && !given.is_empty();
    may_refuse && given.overflow(queue.queue_type) != Overflow::DropHead && has_limit()
}

/// Keys a window has where nothing is said of it, as LavinMQ has it.
const WINDOW_KEYS: u32 = 128;

/// The window these arguments ask for. One by time alone has as much room as there may be.
fn window(arguments: &Arguments) -> Option<WindowSettings> {
    if arguments.get(b"x-message-deduplication").and_then(Argument::as_bool) != Some(true) {
        return None;
    }
    let ttl_ms = arguments.get(b"x-cache-ttl").and_then(count);
    let unsaid = if ttl_ms.is_some() { WindowSettings::KEYS_MAX } else { WINDOW_KEYS };
    let keys_max = arguments.get(b"x-cache-size").and_then(count);
    let keys_max = keys_max.map_or(unsaid, |keys| u32::try_from(keys).unwrap_or(u32::MAX));
    Some(WindowSettings { keys_max: keys_max.clamp(1, WindowSettings::KEYS_MAX), ttl_ms })
}

/// The exchange that takes what this one leads nowhere, under these policies.
pub(super) fn alternate(exchange: &ExchangeDefinition, policies: Matched<'_>) -> Option<Box<[u8]>> {
    // The default exchange leads to queues by their names and nowhere else.
    if exchange.name.is_empty() {
        return None;
    }
    let alternate = exchange.arguments.get(ALTERNATE.as_bytes());
    match alternate.or_else(|| policies.value(ALTERNATE))? {
        Argument::Text(name) => Some(name.into()),
        _ => None,
    }
}

impl Matched<'_> {
    /// The definition of both policies together, as RabbitMQ's `effective_policy_definition`.
    pub fn definition(&self) -> Arguments {
        let all = [self.user, self.operator].into_iter().flatten();
        let keys = all.flat_map(|policy| policy.definition.iter().map(|(key, _)| key));
        keys.filter_map(|key| Some((key, self.value(str::from_utf8(key).ok()?)?.to_value()))).collect()
    }

    /// The value of a key: of the users' policy and the operator's the lower number (of a least delay the higher one), of
    /// other values the operator's.
    pub(super) fn value(&self, key: &str) -> Option<Argument<'_>> {
        let user = self.user.and_then(|policy| policy.definition.get(key.as_bytes()));
        let operator = self.operator.and_then(|policy| policy.definition.get(key.as_bytes()));
        let (Some(user), Some(operator)) = (user, operator) else { return user.or(operator) };
        let (Some(of_user), Some(of_operator)) = (integer(user), integer(operator)) else {
            return Some(operator);
        };
        let is_user = match key {
            "queue-version" => false,
            "delayed-retry-min" => of_user > of_operator,
            "delivery-limit" => stricter_limit(of_user, of_operator) == of_user,
            _ => of_user < of_operator,
        };
        Some(if is_user { user } else { operator })
    }
}

/// Of two delivery limits the one that is a limit, or the lower one.
fn stricter_limit(one: i128, other: i128) -> i128 {
    if one < 0 || other < 0 { one.max(other) } else { one.min(other) }
}

/// Everything that was said about a queue.
struct Given<'a> {
    arguments: &'a Arguments,
    policies: Matched<'a>,
}

impl<'a> Given<'a> {
    fn new(arguments: &'a Arguments, policies: Matched<'a>) -> Given<'a> {
        Given { arguments, policies }
    }

    fn is_empty(&self) -> bool {
        self.arguments.is_empty() && self.policies.user.is_none() && self.policies.operator.is_none()
    }

    fn argument(&self, key: &str) -> Option<Argument<'_>> {
        let is_it = |name: &[u8]| name.strip_prefix(b"x-") == Some(key.as_bytes());
        self.arguments.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value)
    }

    /// The lowest of the numbers given, which are not below 0.
    fn lowest(&self, key: &str) -> Option<u64> {
        let argument = self.argument(key).and_then(count);
        let policy = self.policies.value(key).and_then(count);
        [argument, policy].into_iter().flatten().min()
    }

    /// The text the argument gives, or else the policies.
    fn text(&self, key: &str) -> Option<&str> {
        self.argument(key).or_else(|| self.policies.value(key)).and_then(Argument::as_str)
    }

    fn retry(&self) -> Option<Retry> {
        let of_type =
            self.policies.value("delayed-retry-type").or_else(|| self.argument("delayed-retry-type"))?;
        let delay = |key| {
            let given = [self.argument(key), self.policies.value(key)];
            given.into_iter().flatten().filter_map(integer).min()
        };
        retry(of_type, delay("delayed-retry-min"), delay("delayed-retry-max"))
    }

    fn overflow(&self, queue_type: QueueType) -> Overflow {
        let text = match queue_type {
            QueueType::Classic => self.text("overflow"),
            _ => {
                let policy = self.policies.value("overflow");
                policy.or_else(|| self.argument("overflow")).and_then(Argument::as_str)
            }
        };
        match text {
            Some("reject-publish") => Overflow::RejectPublish,
            Some("reject-publish-dlx") if queue_type == QueueType::Classic => {
                Overflow::RejectPublishDeadLetter
            }
            _ => Overflow::DropHead,
        }
    }

    /// Below 0 means without a limit; what is no number, the usual one.
    fn delivery_limit(&self) -> Option<u32> {
        let argument = self.argument("delivery-limit").and_then(integer);
        let policy = self.policies.value("delivery-limit").and_then(integer);
        let limit = match (argument, policy) {
            (Some(argument), Some(policy)) => stricter_limit(argument, policy),
            (argument, policy) => argument.or(policy).unwrap_or(i128::from(DELIVERY_LIMIT)),
        };
        if limit < 0 { None } else { Some(u32::try_from(limit).unwrap_or(u32::MAX)) }
    }

    fn cancel_limit(&self) -> Option<u32> {
        self.lowest("cancel-limit").map(|limit| u32::try_from(limit).unwrap_or(u32::MAX))
    }

    fn fairness(&self) -> Fairness {
        match self.text("fairness") {
            Some("fast") => Fairness::Fast,
            Some("proportional") => Fairness::Proportional,
            _ => Fairness::RoundRobin,
        }
    }

    fn dead_letter(&self, may_be_at_least_once: bool) -> Option<Arc<DeadLetterRule>> {
        let exchange = self.text("dead-letter-exchange")?.into();
        let routing_key = self.text("dead-letter-routing-key").map(Box::from);
        let at_least_once =
            may_be_at_least_once && self.text("dead-letter-strategy") == Some("at-least-once");
        Some(Arc::new(DeadLetterRule { exchange, routing_key, at_least_once }))
    }

    fn priority_max(&self) -> Option<u8> {
        let max = self.argument("max-priority").and_then(integer)?;
        Some(max.clamp(1, i128::from(u8::MAX)) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PolicyDefinition, PolicyKind};
    use super::*;
    use routing::IntType;
    use routing::Value;

    fn queue(queue_type: QueueType, arguments: &[(&str, Value)]) -> QueueDefinition {
        let arguments = arguments.iter().map(|(name, value)| (name.as_bytes(), value.clone())).collect();
        QueueDefinition { queue_type, arguments, ..QueueDefinition::sample(1) }
    }

    fn check(queue_type: QueueType, arguments: &[(&str, Value)], expected: QueueRules) {
        let (catalog, queue) = (Catalog::default(), queue(queue_type, arguments));
        assert_eq!(catalog.rules(&queue), expected, "{queue_type:?} {arguments:?}");
        assert_eq!(catalog.refuses(&queue), expected.refuses(), "{queue_type:?} {arguments:?}");
    }

    fn quorum() -> QueueRules {
        QueueRules { delivery_limit: Some(20), ..QueueRules::default() }
    }

    #[test]
    fn numbers() {
        let classic = QueueRules::default();
        check(QueueType::Classic, &[], classic.clone());
        check(QueueType::Quorum, &[], quorum());
        let all = [
            ("x-message-ttl", Value::long(0)),
            ("x-expires", Value::Int(IntType::Short, 5)),
            ("x-max-length", Value::Unsigned(u64::MAX)),
            ("x-max-length-bytes", Value::long(7)),
            ("x-consumer-timeout", Value::long(9)),
        ];
        let expected = QueueRules {
            message_ttl_ms: Some(0),
            expires_ms: Some(5),
            length_max: Some(u64::MAX),
            bytes_max: Some(7),
            ..classic
        };
        check(QueueType::Classic, &all, expected.clone());
        let expected = QueueRules { delivery_limit: Some(20), consumer_timeout_ms: Some(9), ..expected };
        check(QueueType::Quorum, &all, expected);
    }

    #[test]
    fn delivery_limits() {
        let limit = |value, delivery_limit| {
            let rules = QueueRules { delivery_limit, ..QueueRules::default() };
            check(QueueType::Quorum, &[("x-delivery-limit", value)], rules);
        };
        limit(Value::long(0), Some(0));
        limit(Value::long(3), Some(3));
        limit(Value::long(-1), None);
        limit(Value::long(-7), None);
        limit(Value::text("3"), Some(20));
        limit(Value::long(i64::MAX), Some(u32::MAX));
        check(QueueType::Classic, &[("x-delivery-limit", Value::long(3))], QueueRules::default());
    }

    #[test]
    fn overflows_and_dead_letters() {
        let dead_letter = |exchange: &str, key: Option<&str>, at_least_once| {
            let (exchange, routing_key) = (exchange.into(), key.map(Box::from));
            Some(Arc::new(DeadLetterRule { exchange, routing_key, at_least_once }))
        };
        let overflow = |queue_type, text: &str, expected| {
            let rules = Catalog::default().rules(&queue(queue_type, &[("x-overflow", Value::text(text))]));
            assert_eq!(rules.overflow, expected, "{queue_type:?} {text}");
        };
        overflow(QueueType::Classic, "drop-head", Overflow::DropHead);
        overflow(QueueType::Classic, "reject-publish", Overflow::RejectPublish);
        overflow(QueueType::Classic, "reject-publish-dlx", Overflow::RejectPublishDeadLetter);
        overflow(QueueType::Quorum, "reject-publish", Overflow::RejectPublish);
        // As RabbitMQ's: such a queue drops.
        overflow(QueueType::Quorum, "reject-publish-dlx", Overflow::DropHead);

        let (exchange, key) = (("x-dead-letter-exchange", Value::text("e")), Value::text("k"));
        let least = ("x-dead-letter-strategy", Value::text("at-least-once"));
        let reject = ("x-overflow", Value::text("reject-publish"));
        let dead = |queue_type, arguments: &[(&str, Value)], expected| {
            let rules = Catalog::default().rules(&queue(queue_type, arguments));
            assert_eq!(rules.dead_letter, expected, "{queue_type:?} {arguments:?}");
        };
        dead(QueueType::Classic, std::slice::from_ref(&exchange), dead_letter("e", None, false));
        dead(
            QueueType::Classic,
            &[("x-dead-letter-exchange", Value::text(""))],
            dead_letter("", None, false),
        );
        let keyed = [exchange.clone(), ("x-dead-letter-routing-key", key)];
        dead(QueueType::Classic, &keyed, dead_letter("e", Some("k"), false));
        dead(QueueType::Classic, &keyed[1..], None);
        dead(QueueType::Quorum, std::slice::from_ref(&least), None);
        // At least once only where nothing is dropped: RabbitMQ falls back to at most once.
        dead(QueueType::Quorum, &[exchange.clone(), least.clone()], dead_letter("e", None, false));
        let all = [exchange, least, reject];
        dead(QueueType::Quorum, &all, dead_letter("e", None, true));
        dead(QueueType::Classic, &all, dead_letter("e", None, false));
    }

    type Keys<'a> = &'a [(&'a str, Value)];

    /// The rules of a queue with these arguments, this policy and this operator policy.
    fn under(queue_type: QueueType, [own, user, operator]: [Keys<'_>; 3]) -> QueueRules {
        let policy = |kind, keys: Keys<'_>| {
            let definition = keys.iter().map(|(key, value)| (key.as_bytes(), value.clone())).collect();
            let (name, pattern) = ("p".into(), crate::access::Pattern::new("").unwrap());
            let (vhost, apply_to) = (super::super::VhostId(0), super::super::ApplyTo::All);
            Arc::new(PolicyDefinition { vhost, kind, name, pattern, apply_to, priority: 0, definition })
        };
        let (user, operator) = (policy(PolicyKind::User, user), policy(PolicyKind::Operator, operator));
        let (queue, policies) =
            (queue(queue_type, own), Matched { user: Some(&user), operator: Some(&operator) });
        let rules = rules(&queue, policies);
        assert_eq!(refuses(&queue, policies), rules.refuses(), "{own:?} {user:?} {operator:?}");
        rules
    }

    #[test]
    fn a_queue_refuses_that_is_to_and_has_a_limit() {
        let refuse = [("overflow", Value::text("reject-publish"))];
        let check = |queue_type, own: Keys<'_>, user: Keys<'_>, operator: Keys<'_>, expected: bool| {
            assert_eq!(
                under(queue_type, [own, user, operator]).refuses(),
                expected,
                "{own:?} {user:?} {operator:?}"
            );
        };
        let [length, bytes] = ["max-length", "max-length-bytes"].map(|key| [(key, Value::long(3))]);
        let own = [("x-max-length", Value::long(3)), ("x-overflow", Value::text("reject-publish"))];
        let drops = [("overflow", Value::text("drop-head"))];
        let both = [refuse[0].clone(), bytes[0].clone()];
        for queue_type in [QueueType::Classic, QueueType::Quorum] {
            check(queue_type, &[], &[], &[], false);
            check(queue_type, &own, &[], &[], true);
            check(queue_type, &own[..1], &[], &[], false);
            check(queue_type, &own[1..], &[], &[], false);
            check(queue_type, &own[1..], &[], &bytes, true);
            check(queue_type, &[], &refuse, &length, true);
            check(queue_type, &[], &both, &drops, false);
        }
    }

    #[test]
    fn the_lowest_number_counts() {
        type Field = fn(&QueueRules) -> Option<u64>;
        let keys: [(&str, Field); 6] = [
            ("message-ttl", |rules| rules.message_ttl_ms),
            ("expires", |rules| rules.expires_ms),
            ("max-length", |rules| rules.length_max),
            ("max-length-bytes", |rules| rules.bytes_max),
            ("consumer-timeout", |rules| rules.consumer_timeout_ms),
            ("lease", |rules| rules.lease_ms),
        ];
        for (key, of) in keys {
            let argument = format!("x-{key}");
            for numbers in [[5, 7, 9], [9, 5, 7], [7, 9, 5]] {
                let [own, user, operator] = numbers.map(Value::long);
                let rules =
                    under(QueueType::Quorum, [&[(&argument, own)], &[(key, user)], &[(key, operator)]]);
                assert_eq!(of(&rules), Some(5), "{key} {numbers:?}");
            }
            assert_eq!(of(&under(QueueType::Quorum, [&[], &[(key, Value::long(3))], &[]])), Some(3), "{key}");
        }
    }

    #[test]
    fn a_delivery_limit_that_is_one_counts_more_than_none() {
        let check = |own: Option<i64>, user: Option<i64>, operator: Option<i64>, expected: Option<u32>| {
            let keys = |key, number: Option<i64>| {
                number.map(|number| (key, Value::long(number))).into_iter().collect::<Vec<_>>()
            };
            let (own, user) = (keys("x-delivery-limit", own), keys("delivery-limit", user));
            let operator = keys("delivery-limit", operator);
            let rules = under(QueueType::Quorum, [&own, &user, &operator]);
            assert_eq!(rules.delivery_limit, expected, "{own:?} {user:?} {operator:?}");
        };
        check(None, None, None, Some(20));
        check(None, Some(30), None, Some(30));
        check(Some(5), Some(30), None, Some(5));
        check(Some(-1), Some(30), None, Some(30));
        check(Some(5), Some(-1), None, Some(5));
        check(Some(-1), Some(-1), Some(-1), None);
        check(None, Some(-1), Some(4), Some(4));
        check(None, Some(3), Some(-1), Some(3));
        check(None, Some(3), Some(2), Some(2));
    }

    #[test]
    fn consumers_by_arguments_and_policies() {
        let text = |word: &'static str| Value::text(word);
        let own: Keys<'_> = &[("x-fairness", text("fast")), ("x-max-unsettled", Value::long(7))];
        let user: Keys<'_> = &[("fairness", text("proportional")), ("max-unsettled", Value::long(9))];
        let operator: Keys<'_> = &[("fairness", text("round-robin")), ("max-unsettled", Value::long(5))];
        for queue_type in [QueueType::Classic, QueueType::Quorum] {
            let of = |all: [Keys<'_>; 3]| {
                let rules = under(queue_type, all);
                (rules.fairness, rules.unsettled_max)
            };
            assert_eq!(of([&[], &[], &[]]), (Fairness::RoundRobin, None));
            assert_eq!(of([own, user, &[]]), (Fairness::Fast, Some(7)));
            assert_eq!(of([&[], user, &[]]), (Fairness::Proportional, Some(9)));
            assert_eq!(of([&[], user, operator]), (Fairness::RoundRobin, Some(5)));
        }
        let limit = |queue_type, own, user, operator| {
            let keys = |key, number: Option<i64>| {
                number.map(|number| (key, Value::long(number))).into_iter().collect::<Vec<_>>()
            };
            let (user, operator) = (keys("cancel-limit", user), keys("cancel-limit", operator));
            under(queue_type, [&keys("x-cancel-limit", own), &user, &operator]).cancel_limit
        };
        assert_eq!(limit(QueueType::Quorum, None, None, None), None);
        assert_eq!(limit(QueueType::Quorum, Some(3), Some(2), Some(5)), Some(2));
        assert_eq!(limit(QueueType::Quorum, Some(i64::MAX), None, None), Some(u32::MAX));
        assert_eq!(limit(QueueType::Classic, Some(3), None, None), None);
    }

    #[test]
    fn least_delays_are_raised_and_most_delays_lowered() {
        let check = |own: Keys<'_>, user: Keys<'_>, operator: Keys<'_>, expected: Option<(u64, u64)>| {
            let found = under(QueueType::Quorum, [own, user, operator]).retry;
            assert_eq!(
                found.map(|retry| (retry.min_ms, retry.max_ms)),
                expected,
                "{own:?} {user:?} {operator:?}"
            );
            assert_eq!(under(QueueType::Classic, [own, user, operator]).retry, None);
        };
        let of_type = |text| ("delayed-retry-type", Value::text(text));
        let (min, max) =
            (|ms| ("delayed-retry-min", Value::long(ms)), |ms| ("delayed-retry-max", Value::long(ms)));
        let own = [("x-delayed-retry-type", Value::text("all")), ("x-delayed-retry-min", Value::long(7))];
        check(&own, &[], &[], Some((7, 7)));
        check(&own, &[min(5), max(9)], &[min(6), max(8)], Some((6, 8)));
        check(&own, &[of_type("disabled")], &[], None);
        check(&own, &[of_type("all")], &[of_type("disabled")], None);
        check(&[], &[of_type("all"), min(5)], &[], Some((5, 5)));
    }

    #[test]
    fn of_words_one_counts() {
        let overflow = |word: &'static str| ("overflow", Value::text(word));
        let own: Keys<'_> = &[("x-overflow", Value::text("reject-publish"))];
        let check = |queue_type, own: Keys<'_>, user: Keys<'_>, operator: Keys<'_>, expected: Overflow| {
            let found = under(queue_type, [own, user, operator]).overflow;
            assert_eq!(found, expected, "{queue_type:?} {own:?} {user:?} {operator:?}");
        };
        let (drop, refuse) = ([overflow("drop-head")], [overflow("reject-publish")]);
        check(QueueType::Classic, own, &drop, &[], Overflow::RejectPublish);
        check(QueueType::Quorum, own, &drop, &[], Overflow::DropHead);
        check(QueueType::Quorum, &[], &refuse, &drop, Overflow::DropHead);
        check(QueueType::Classic, &[], &drop, &refuse, Overflow::RejectPublish);

        let exchange = |name: &'static str| ("dead-letter-exchange", Value::text(name));
        let own: Keys<'_> = &[("x-dead-letter-exchange", Value::text("own"))];
        let user = [exchange("policy"), ("dead-letter-routing-key", Value::text("k"))];
        let dead = |own| {
            let dead_letter = under(QueueType::Classic, [own, &user, &[]]).dead_letter.unwrap();
            (dead_letter.exchange.to_string(), dead_letter.routing_key.as_deref().map(str::to_owned))
        };
        assert_eq!(dead(own), ("own".to_owned(), Some("k".to_owned())));
        assert_eq!(dead(&[]), ("policy".to_owned(), Some("k".to_owned())));
    }

    #[test]
    fn priorities_and_single_active() {
        let rules =
            |queue_type, name: &str, value| Catalog::default().rules(&queue(queue_type, &[(name, value)]));
        let priority = |value, expected| {
            assert_eq!(rules(QueueType::Classic, "x-max-priority", value).priority_max, expected);
        };
        priority(Value::long(5), Some(5));
        priority(Value::long(255), Some(255));
        priority(Value::long(0), Some(1));
        assert_eq!(rules(QueueType::Quorum, "x-max-priority", Value::long(5)).priority_max, None);
        for queue_type in [QueueType::Classic, QueueType::Quorum] {
            let most = |name| rules(queue_type, name, Value::text("body.p")).priority_max;
            assert_eq!((most(RANKING), most(BARRIER)), (Some(255), Some(0)));
        }
        for queue_type in [QueueType::Classic, QueueType::Quorum] {
            assert!(rules(queue_type, "x-single-active-consumer", Value::Bool(true)).single_active);
            assert!(!rules(queue_type, "x-single-active-consumer", Value::Bool(false)).single_active);
        }
    }
}
