//! Arguments of queues: which there are, what they may hold, which are served, which must be the same on declaring
//! again.
//!
//! Rules, their order and their texts are RabbitMQ 4.3.6's, seen by declaring queues through pika with one or all of
//! them wrong. What this broker does not serve yet is refused by name, never passed over. Unknown arguments are kept.

use super::numbers::integer;
use super::source;
use super::source_arguments;
use super::stream::{age_ms, compared};
use super::{Object, QueueDefinition, QueueType, Reason, Refusal, ReplyCode};
use crate::placed::stream::Wanted;
use crate::ranking::{BARRIER, RANKING, Rank, Ranking};
use filter::Macros;
use queue::WindowSettings;
use routing::{Argument, Arguments, Value, disagreement};

/// The shortest lease, milliseconds: looks at what is held cost the more the shorter one is.
pub(super) const LEASE_MS_MIN: i128 = 100;

/// Largest time in arguments, milliseconds: ten years.
const TIME_MS_MAX: i128 = 10 * 365 * 24 * 60 * 60 * 1000;

/// Largest `x-max-priority`.
const PRIORITY_MAX: i128 = 255;

/// A rule for the value of an argument.
#[derive(Clone, Copy)]
enum Check {
    /// Anything.
    Any,
    /// An integer not below 0.
    Count,
    /// An integer above 0.
    Size,
    /// Milliseconds, from 0.
    Time,
    /// Milliseconds, above 0.
    Expiry,
    /// Milliseconds, from the shortest lease.
    Lease,
    /// An integer up to the largest priority.
    Priority,
    /// The number of keys in a window.
    Window,
    /// A string.
    Text,
    /// A string that is not empty, where priorities are not told apart.
    GroupKey,
    /// An expression over messages as they come, where priorities are not told apart otherwise, and nothing is in groups.
    Ranking,
    /// An expression over messages as they come, where priorities are not told apart, and nothing is in groups.
    Barrier,
    /// One of these strings, or this complaint.
    OneOf(&'static [&'static str], &'static str),
    /// Milliseconds without an end, from 0.
    Timeout,
    /// A truth value.
    Bool,
    /// The version of a classic queue's files.
    Version,
    /// A string, and there must be a dead-letter exchange.
    DeadLetterKey,
    /// A number above 0 and a unit of time.
    Age,
    /// Where in a stream.
    Offset,
    /// An expression over messages.
    Expression,
    /// A text, or a list of texts, of which there may be so many.
    FilterValues,
}

const TYPE: &[u8] = b"x-queue-type";

struct Row {
    name: &'static str,
    check: Check,
    /// The letters of the types of queue that have it; see [`QueueType::letter`].
    types: &'static str,
    /// The broker does what it asks, or there is nothing to do for one node.
    served: bool,
}

const fn row(name: &'static str, check: Check, types: &'static str, served: bool) -> Row {
    Row { name, check, types, served }
}

impl Row {
    /// Every queue may name its type.
    fn is_for(&self, queue_type: QueueType) -> bool {
        self.name.as_bytes() == TYPE || self.types.contains(queue_type.letter())
    }
}

/// In the order in which values are checked.
static ROWS: [Row; 45] = [
    row("x-expires", Check::Expiry, "cq", true),
    row("x-message-ttl", Check::Time, "cq", true),
    row("x-dead-letter-exchange", Check::Text, "cq", true),
    row("x-dead-letter-routing-key", Check::DeadLetterKey, "cq", true),
    row(
        "x-dead-letter-strategy",
        Check::OneOf(&["at-most-once", "at-least-once"], "invalid_dlx_strategy"),
        "q",
        true,
    ),
    row("x-max-length", Check::Count, "cq", true),
    row("x-max-length-bytes", Check::Count, "cqs", true),
    // Of no effect since RabbitMQ 4.0.
    row("x-max-in-memory-length", Check::Count, "q", true),
    row("x-max-in-memory-bytes", Check::Count, "q", true),
    row("x-max-priority", Check::Priority, "c", true),
    row(
        "x-overflow",
        Check::OneOf(&["drop-head", "reject-publish", "reject-publish-dlx"], "invalid_overflow"),
        "cq",
        true,
    ),
    // Of no effect since RabbitMQ 4.0.
    row("x-queue-mode", Check::Any, "c", true),
    row("x-queue-version", Check::Version, "c", true),
    row("x-single-active-consumer", Check::Bool, "cq", true),
    row("x-consumer-timeout", Check::Timeout, "q", true),
    row("x-consumer-disconnected-timeout", Check::Timeout, "q", true),
    row("x-quorum-initial-group-size", Check::Size, "q", true),
    row(
        "x-queue-leader-locator",
        Check::OneOf(&["client-local", "balanced", "random", "least-leaders"], "invalid_queue_locator_arg"),
        "cqs",
        true,
    ),
    row("x-delivery-limit", Check::Any, "q", true),
    row("x-delayed-retry-type", Check::Any, "q", true),
    row("x-delayed-retry-min", Check::Any, "q", true),
    row("x-delayed-retry-max", Check::Any, "q", true),
    row("x-max-age", Check::Age, "s", true),
    row("x-stream-max-segment-size-bytes", Check::Count, "s", true),
    row("x-stream-filter-size-bytes", Check::Count, "s", true),
    row("x-initial-cluster-size", Check::Size, "s", true),
    row(MASTER_LOCATOR, Check::Any, "c", false),
    row("x-queue-type", Check::Any, "cqs", true),
    // Not RabbitMQ's own: those of its community plugin and of LavinMQ.
    row("x-message-deduplication", Check::Bool, "cq", true),
    row("x-cache-size", Check::Window, "cq", true),
    row("x-cache-ttl", Check::Expiry, "cq", true),
    row("x-deduplication-header", Check::Text, "cq", true),
    // Nobody else's.
    row("x-group-key", Check::GroupKey, "cq", true),
    row(RANKING, Check::Ranking, "cq", true),
    row(BARRIER, Check::Barrier, "cq", true),
    row("x-fairness", Check::OneOf(&["round-robin", "fast", "proportional"], "invalid_fairness"), "cq", true),
    row("x-max-unsettled", Check::Size, "cq", true),
    row("x-lease", Check::Lease, "cq", true),
    row("x-cancel-limit", Check::Count, "q", true),
    row("x-stream-first-chunk-messages", Check::Count, "s", true),
    row(source_arguments::STREAM, Check::Text, "cq", true),
    row(source_arguments::OFFSET, Check::Offset, "cq", true),
    row(source_arguments::FILTER, Check::Expression, "cq", true),
    row(source_arguments::FILTER_VALUES, Check::FilterValues, "cq", true),
    row(source_arguments::MATCH_UNFILTERED, Check::Bool, "cq", true),
];

/// The old name of `x-queue-leader-locator`.
const MASTER_LOCATOR: &str = "x-queue-master-locator";

/// RabbitMQ's refusal of it.
const MASTER_LOCATOR_DENIED: &str = "Feature `queue_master_locator` is deprecated.\n\
    By default, this feature is not permitted anymore.\n\
    The feature will be removed from a future major RabbitMQ version, regardless of the configuration; actual version to \
    be determined.\n\
    To continue using this feature when it is not permitted by default, set the following parameter in your \
    configuration:\n    \"deprecated_features.permit.queue_master_locator = true\"";

/// The names of all arguments that some queue may have.
pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
    ROWS.iter().map(|row| row.name)
}

/// Finds a new queue's type. Without one it is `unnamed`, and so it is where the type is empty or `undefined`.
pub(super) fn queue_type(
    arguments: &Arguments,
    unnamed: QueueType,
    named: &str,
) -> Result<QueueType, Refusal> {
    match arguments.get(TYPE) {
        None => Ok(unnamed),
        Some(Argument::Text(b"" | b"undefined")) => Ok(unnamed),
        Some(Argument::Text(text)) => {
            let name = String::from_utf8_lossy(text);
            QueueType::from_name(&name).ok_or_else(|| {
                invalid("x-queue-type", named, &format!("\"unsupported queue type '{name}'\""))
            })
        }
        Some(other) => {
            Err(invalid("x-queue-type", named, &format!("{{unacceptable_type,{}}}", other.type_name())))
        }
    }
}

/// Whether the server may name a queue of the type that is asked for, or meant.
pub(super) fn check_server_named(arguments: &Arguments, unnamed: QueueType) -> Result<(), Refusal> {
    let name = match arguments.get(TYPE) {
        None => unnamed.name().to_owned(),
        Some(value) => value.to_string(),
    };
    match &*name {
        "" | "undefined" | "classic" => Ok(()),
        "quorum" | "stream" => Err(Refusal::precondition(
            Reason::Unsuited(Object::Queue),
            format!("Cannot declare a server-named queue for type rabbit_{name}_queue"),
        )),
        _ => {
            Err(Refusal::precondition(Reason::Invalid(Object::Queue), format!("unknown queue type '{name}'")))
        }
    }
}

/// Checks the arguments of a new queue, of which expressions may use these macros.
pub(super) fn check(
    arguments: &Arguments,
    queue_type: QueueType,
    macros: &Macros,
    named: &str,
) -> Result<(), Refusal> {
    if arguments.is_empty() {
        return Ok(());
    }
    for row in ROWS.iter().filter(|row| row.is_for(queue_type)) {
        if let Some(value) = arguments.get(row.name.as_bytes()) {
            check_value(row.check, value, (arguments, macros))
                .map_err(|why| invalid(row.name, named, &why))?;
        }
    }
    for (name, _) in arguments.iter() {
        let foreign = |row: &&Row| row.name.as_bytes() == name && !row.is_for(queue_type);
        if let Some(Row { name, .. }) = ROWS.iter().find(foreign) {
            let module = queue_type.module();
            return Err(Refusal::invalid_argument(name, named, &format!(" of queue type {module}")));
        }
    }
    Ok(())
}

/// Refuses what the broker does not do yet.
pub(super) fn check_served(arguments: &Arguments, named: &str) -> Result<(), Refusal> {
    for (name, value) in arguments.iter() {
        if let Some(row) = ROWS.iter().find(|row| row.name.as_bytes() == name)
            && !row.served
        {
            return Err(match row.name {
                MASTER_LOCATOR => {
                    Refusal::new(ReplyCode::InternalError, Reason::NotPermitted, MASTER_LOCATOR_DENIED)
                }
                name => not_served(name, value, named),
            });
        }
    }
    Ok(())
}

fn invalid(name: &'static str, named: &str, why: &str) -> Refusal {
    Refusal::invalid_argument(name, named, &format!(": {why}"))
}

fn not_served(name: &str, value: Argument<'_>, named: &str) -> Refusal {
    Refusal::not_served(format!("arg '{name}' with value '{value}' for {named} is not served"))
}

fn check_value(
    check: Check,
    value: Argument<'_>,
    (arguments, macros): (&Arguments, &Macros),
) -> Result<(), String> {
    let of_type = value.type_name();
    let number = || integer(value).ok_or_else(|| format!("\"expected integer, got {}\"", of_type));
    let not_negative = || match number()? {
        number if number < 0 => Err(format!("{{value_negative,{number}}}")),
        number => Ok(number),
    };
    let not_zero = || match not_negative()? {
        0 => Err("{value_zero,0}".to_owned()),
        number => Ok(number),
    };
    let at_most = |number: i128, max: i128, complaint: &str| {
        if number > max { Err(format!("{{{complaint},{number}}}")) } else { Ok(()) }
    };
    let text = || match value {
        Argument::Text(text) => Ok(text),
        _ => Err(format!("{{unacceptable_type,{}}}", of_type)),
    };
    match check {
        Check::Any => Ok(()),
        Check::Count | Check::Timeout => not_negative().map(drop),
        Check::Size => not_zero().map(drop),
        Check::Time => at_most(not_negative()?, TIME_MS_MAX, "value_too_large"),
        Check::Expiry => at_most(not_zero()?, TIME_MS_MAX, "value_too_large"),
        Check::Lease => match not_zero()? {
            number if number < LEASE_MS_MIN => Err(format!("{{value_too_small,{number}}}")),
            number => at_most(number, TIME_MS_MAX, "value_too_large"),
        },
        Check::Window => at_most(not_zero()?, WindowSettings::KEYS_MAX.into(), "value_too_large"),
        Check::Priority => at_most(not_negative()?, PRIORITY_MAX, "max_value_exceeded"),
        Check::Text => text().map(drop),
        Check::GroupKey => match text()? {
            b"" => Err("value_empty".to_owned()),
            _ if arguments.get(b"x-max-priority").is_some() => Err("group_key_and_max_priority".to_owned()),
            _ => Ok(()),
        },
        Check::Ranking => match Ranking::parse(text()?, Rank::Priority, macros)? {
            _ if arguments.get(b"x-max-priority").is_some() => {
                Err("priority_expression_and_max_priority".to_owned())
            }
            _ if arguments.get(b"x-group-key").is_some() => {
                Err("priority_expression_and_group_key".to_owned())
            }
            _ => Ok(()),
        },
        Check::Barrier => {
            Ranking::parse(text()?, Rank::Barrier, macros)?;
            let others: [(&[u8], &str); 3] = [
                (b"x-group-key", "barrier_expression_and_group_key"),
                (b"x-max-priority", "barrier_expression_and_max_priority"),
                (RANKING.as_bytes(), "barrier_expression_and_priority_expression"),
            ];
            let other = others.into_iter().find(|(name, _)| arguments.get(name).is_some());
            other.map_or(Ok(()), |(_, complaint)| Err(complaint.to_owned()))
        }
        Check::OneOf(all, complaint) => {
            let text = text()?;
            if all.iter().any(|one| one.as_bytes() == text) { Ok(()) } else { Err(complaint.to_owned()) }
        }
        Check::Bool => match value {
            Argument::Bool(_) => Ok(()),
            _ => Err(format!("{{unacceptable_type,{}}}", of_type)),
        },
        Check::Version => match not_negative()? {
            2 => Ok(()),
            other => Err(format!("\"unsupported queue version '{other}'\"")),
        },
        Check::DeadLetterKey => match arguments.get(b"x-dead-letter-exchange") {
            _ if text().is_err() => text().map(drop),
            Some(_) => Ok(()),
            None => Err("routing_key_but_no_dlx_defined".to_owned()),
        },
        Check::Age => match std::str::from_utf8(text()?).ok().and_then(age_ms) {
            Some(_) => Ok(()),
            None => Err("invalid_max_age".to_owned()),
        },
        Check::Offset => match source::from(value) {
            Some(_) => Ok(()),
            None => Err("invalid_stream_offset".to_owned()),
        },
        Check::Expression => Wanted::parse(text()?, macros, None).map(drop),
        Check::FilterValues => source::filter_values(value).map(drop),
    }
}

/// Whether a queue that is there has these arguments. `unnamed` is the type that is meant where none is named.
pub(super) fn check_same(
    received: &Arguments,
    unnamed: QueueType,
    QueueDefinition { arguments: current, queue_type, .. }: &QueueDefinition,
    named: &str,
) -> Result<(), Refusal> {
    let queue_type = *queue_type;
    if received.is_empty() && queue_type == unnamed && current.is_empty() {
        return Ok(());
    }
    for name in queue_type.fixed_arguments() {
        if name.as_bytes() == TYPE {
            check_same_type(received, unnamed, queue_type, named)?;
        } else {
            let [received, current] =
                [received, current].map(|arguments| compared(name, arguments.get(name.as_bytes())));
            let [received, current] = [&received, &current].map(|value| value.as_ref().map(Value::view));
            check_same_argument(name, received, current, named)?;
        }
    }
    Ok(())
}

/// Arguments that both types of queue have, in the order they are asked.
const BOTH_SAME: [&str; 7] = [
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-single-active-consumer",
    "x-message-ttl",
];

/// Whether a queue of another type that is there has those of these arguments that both types know.
pub(super) fn check_same_loosely(received: &Arguments, queue: &QueueDefinition) -> Result<(), Refusal> {
    let named = queue.named();
    BOTH_SAME.into_iter().try_for_each(|name| {
        let (received, current) = (received.get(name.as_bytes()), queue.arguments.get(name.as_bytes()));
        check_same_argument(name, received, current, &named)
    })
}

/// Whether these arguments ask for a type, by name or, naming none, by default.
pub(super) fn is_type(received: &Arguments, unnamed: QueueType, queue_type: QueueType) -> bool {
    named_type(received, unnamed) == queue_type.name()
}

/// The type that is asked for; `unnamed` where none is named.
fn named_type(received: &Arguments, unnamed: QueueType) -> String {
    match received.get(TYPE).map(|value| value.to_string()) {
        Some(received) if !matches!(&*received, "" | "undefined") => received,
        _ => unnamed.name().to_owned(),
    }
}

fn check_same_type(
    received: &Arguments,
    unnamed: QueueType,
    current: QueueType,
    named: &str,
) -> Result<(), Refusal> {
    let current = current.name();
    let received = named_type(received, unnamed);
    if received == current {
        return Ok(());
    }
    let how = format!("received '{received}' but current is '{current}'");
    Err(Refusal::inequivalent("x-queue-type", named, &how))
}

/// Whether one argument of a thing that is there is as it was declared.
pub(super) fn check_same_argument(
    name: &'static str,
    received: Option<Argument<'_>>,
    current: Option<Argument<'_>>,
    named: &str,
) -> Result<(), Refusal> {
    match disagreement(received, current) {
        None => Ok(()),
        Some(how) => Err(Refusal::inequivalent(name, named, &how)),
    }
}
