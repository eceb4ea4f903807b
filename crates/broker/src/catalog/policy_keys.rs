//! Keys of policies: which there are, which values they may hold, which an operator may use.
//!
//! Rules, their order and their texts are RabbitMQ 4.3.6's, seen by setting each key to values of every type over its
//! HTTP API.

use super::arguments::LEASE_MS_MIN;
use super::numbers::integer;
use super::policy::PolicyKind;
use super::stream::age_ms;
use crate::access::Pattern;
use routing::{Argument, Arguments};

/// Largest `stream-max-segment-size-bytes`.
const SEGMENT_BYTES_MAX: i128 = 3_000_000_000;

/// A rule for a value.
#[derive(Clone, Copy)]
enum Check {
    /// A string.
    Text,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// An integer from the first to the second.
    Between(i128, i128),
    /// A number and a unit of time: `7D`.
    Age,
    /// Nothing is right: the key is of RabbitMQ's past.
    Never,
}

struct Row {
    key: &'static str,
    check: Check,
    /// An operator policy may have it.
    operator: bool,
    /// The name of the right kind of value, for the text that refuses a wrong one.
    what: &'static str,
    /// Text that is added to that.
    more: &'static str,
}

const MAX: i128 = i128::MAX;
const OVERFLOWS: &[&str] = &["drop-head", "reject-publish", "reject-publish-dlx"];
const LOCATORS: &[&str] = &["client-local", "balanced", "random", "least-leaders"];
const FAIRNESS: &[&str] = &["round-robin", "fast", "proportional"];
const RETRIES: &[&str] = &["all", "failed", "returned", "disabled"];

const fn row(key: &'static str, check: Check, operator: bool, what: &'static str) -> Row {
    Row { key, check, operator, what, more: "" }
}

/// In the order in which they are checked: the first group, by key, before the others.
const ROWS: [Row; 33] = [
    row("alternate-exchange", Check::Text, false, "alternate exchange name"),
    row("consumer-disconnected-timeout", Check::Between(0, MAX), false, "consumer disconnected timeout"),
    row("consumer-timeout", Check::Between(0, MAX), false, "consumer timeout"),
    row("dead-letter-exchange", Check::Text, false, "dead letter exchange name"),
    row("dead-letter-routing-key", Check::Text, false, "dead letter routing key"),
    row(
        "dead-letter-strategy",
        Check::OneOf(&["at-most-once", "at-least-once"]),
        false,
        "dead letter strategy",
    ),
    row("delivery-limit", Check::Between(i128::MIN, MAX), true, "delivery limit"),
    row("expires", Check::Between(1, MAX), true, "queue expiry"),
    row("federation-upstream", Check::Text, false, "federation upstream name"),
    row("federation-upstream-pattern", Check::Text, false, "federation upstream pattern name"),
    row("federation-upstream-set", Check::Text, false, "federation upstream set name"),
    row("initial-cluster-size", Check::Between(0, MAX), false, "cluster size"),
    row("max-age", Check::Age, false, "max age"),
    row("max-in-memory-bytes", Check::Between(0, MAX), true, "maximum memory in bytes"),
    row("max-in-memory-length", Check::Between(0, MAX), true, "maximum memory in bytes"),
    row("max-length", Check::Between(0, MAX), true, "maximum length"),
    row("max-length-bytes", Check::Between(0, MAX), true, "maximum length in bytes"),
    row("message-ttl", Check::Between(0, MAX), true, "message TTL"),
    row("overflow", Check::OneOf(OVERFLOWS), true, "overflow value"),
    row("queue-leader-locator", Check::OneOf(LOCATORS), false, "queue leader locator value"),
    row("queue-mode", Check::OneOf(&["default", "lazy"]), false, "queue-mode value"),
    row("queue-version", Check::Between(1, 2), true, "queue-version value"),
    Row {
        more: ". Valid range is 16-255",
        ..row("stream-filter-size-bytes", Check::Between(16, 255), false, "filter size")
    },
    row("stream-max-segment-size-bytes", Check::Between(0, SEGMENT_BYTES_MAX), false, "segment size"),
    row("target-group-size", Check::Between(1, MAX), true, "qq target count value"),
    Row {
        more: ". Must be a positive integer",
        ..row("delayed-retry-max", Check::Between(1, MAX), true, "delayed retry maximum delay")
    },
    Row {
        more: ". Must be a positive integer",
        ..row("delayed-retry-min", Check::Between(1, MAX), true, "delayed retry minimum delay")
    },
    Row {
        more: ". Must be one of: all, failed, returned, disabled",
        ..row("delayed-retry-type", Check::OneOf(RETRIES), true, "delayed retry type")
    },
    row("queue-master-locator", Check::Never, true, ""),
    // Nobody else's.
    Row {
        more: ". Must be one of: round-robin, fast, proportional",
        ..row("fairness", Check::OneOf(FAIRNESS), true, "fairness")
    },
    row("max-unsettled", Check::Between(1, MAX), true, "maximum of unsettled messages"),
    Row { more: ". Must be 100 or more", ..row("lease", Check::Between(LEASE_MS_MIN, MAX), true, "lease") },
    row("cancel-limit", Check::Between(0, MAX), true, "cancel limit"),
];

/// Checks a definition; the fault in the words of RabbitMQ's validation, `Ok` where there is none.
pub(super) fn check_definition(definition: &Arguments, kind: PolicyKind) -> Result<(), String> {
    if definition.is_empty() {
        return Err("no policy provided".to_owned());
    }
    let rows = ROWS.iter().filter(|row| kind == PolicyKind::User || row.operator);
    for row in rows {
        if let Some(value) = definition.get(row.key.as_bytes()) {
            check_value(row, value)?;
        }
    }
    check_delays(definition)?;
    check_upstreams(definition)?;
    let is_known = |key: &[u8]| {
        ROWS.iter().any(|row| row.key.as_bytes() == key && (kind == PolicyKind::User || row.operator))
    };
    let unknown: Vec<String> = definition
        .iter()
        .filter(|(key, _)| !is_known(key))
        .map(|(key, value)| format!("{{{},{}}}", erlang_text(key), erlang(value)))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(format!("[{}] are not recognised policy settings", unknown.join(",")))
}

fn check_value(row: &Row, value: Argument<'_>) -> Result<(), String> {
    let is_right = match row.check {
        Check::Text => matches!(value, Argument::Text(_)),
        Check::OneOf(all) => value.as_str().is_some_and(|text| all.contains(&text)),
        Check::Between(from, to) => integer(value).is_some_and(|number| (from..=to).contains(&number)),
        Check::Age => value.as_str().and_then(age_ms).is_some(),
        Check::Never => {
            return Err(format!("use of deprecated {} argument is not permitted", row.key));
        }
    };
    if is_right {
        return Ok(());
    }
    Err(format!("{} is not a valid {}{}", erlang(value), row.what, row.more))
}

/// Whether the parts of a delayed retry go together.
fn check_delays(definition: &Arguments) -> Result<(), String> {
    let delay = |key: &str| definition.get(key.as_bytes()).and_then(integer);
    let (min, max) = (delay("delayed-retry-min"), delay("delayed-retry-max"));
    let of_type = definition.get(b"delayed-retry-type").and_then(Argument::as_str);
    if let Some(of_type) = of_type.filter(|of_type| *of_type != "disabled" && min.is_none()) {
        return Err(format!("delayed-retry-min is required when delayed-retry-type is {of_type}"));
    }
    match (min, max) {
        (Some(min), Some(max)) if max < min => {
            Err(format!("delayed-retry-max ({max}) must not be smaller than delayed-retry-min ({min})"))
        }
        _ => Ok(()),
    }
}

/// Keys that name where a federated exchange or queue gets its messages: one of them at most.
const UPSTREAMS: [&str; 3] =
    ["federation-upstream", "federation-upstream-set", "federation-upstream-pattern"];

fn check_upstreams(definition: &Arguments) -> Result<(), String> {
    let given = UPSTREAMS.iter().filter(|key| definition.get(key.as_bytes()).is_some());
    if given.count() < 2 {
        let pattern = definition.get(b"federation-upstream-pattern").and_then(Argument::as_str);
        let Some(Err(bad)) = pattern.map(Pattern::new) else { return Ok(()) };
        let text =
            format!("could not compile pattern {} to a regular expression. Error: {}", bad.pattern, bad.why);
        return Err(text);
    }
    Err("cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together"
        .to_owned())
}

/// A value as Erlang prints it, which is how RabbitMQ names it in texts.
pub(super) fn erlang(value: Argument<'_>) -> String {
    match value {
        Argument::Void => "null".to_owned(),
        Argument::Text(text) | Argument::Bytes(text) => erlang_text(text),
        Argument::List(values) => format!("[{}]", values.iter().map(erlang).collect::<Vec<_>>().join(",")),
        Argument::Table(table) => {
            let pairs = table.iter().map(|(key, value)| format!("{} => {}", erlang_text(key), erlang(value)));
            format!("#{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

fn erlang_text(text: &[u8]) -> String {
    let shown = String::from_utf8_lossy(text).replace('\\', "\\\\").replace('"', "\\\"");
    let suffix = if text.is_ascii() { "" } else { "/utf8" };
    if text.is_empty() {
        return "<<>>".to_owned();
    }
    format!("<<\"{shown}\"{suffix}>>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use routing::Float;
    use routing::Value;

    fn check(definition: &[(&str, Value)], expected: &str) {
        check_as(PolicyKind::User, definition, expected);
    }

    fn check_as(kind: PolicyKind, definition: &[(&str, Value)], expected: &str) {
        let keys: Arguments = definition.iter().map(|(key, value)| (key.as_bytes(), value.clone())).collect();
        let found = check_definition(&keys, kind).err().unwrap_or_default();
        assert_eq!(found, expected, "{definition:?}");
    }

    #[test]
    fn values_are_told_what_they_are_not() {
        let int = Value::long;
        check(&[], "no policy provided");
        check(&[("max-length", int(0))], "");
        check(&[("max-length", Value::Unsigned(u64::MAX))], "");
        check(&[("max-length", int(-7))], "-7 is not a valid maximum length");
        check(&[("max-length", Value::Float(Float(1.5)))], "1.5 is not a valid maximum length");
        check(&[("max-length", Value::text("x"))], "<<\"x\">> is not a valid maximum length");
        check(&[("expires", int(0))], "0 is not a valid queue expiry");
        check(&[("expires", Value::Void)], "null is not a valid queue expiry");
        check(&[("message-ttl", Value::Bool(true))], "true is not a valid message TTL");
        check(&[("overflow", Value::list([int(1)]))], "[1] is not a valid overflow value");
        let table = Value::Table([(&b"a"[..], int(1))].into_iter().collect());
        check(&[("queue-mode", table)], "#{<<\"a\">> => 1} is not a valid queue-mode value");
        check(&[("overflow", Value::text("reject-publish-dlx"))], "");
        check(&[("delivery-limit", int(-9))], "");
        let fair = "<<\"lazy\">> is not a valid fairness. Must be one of: round-robin, fast, proportional";
        check(&[("fairness", Value::text("lazy"))], fair);
        check(&[("fairness", Value::text("proportional")), ("max-unsettled", int(1))], "");
        check(&[("max-unsettled", int(0))], "0 is not a valid maximum of unsettled messages");
        check(&[("lease", int(100))], "");
        check(&[("lease", int(99))], "99 is not a valid lease. Must be 100 or more");
        check(&[("cancel-limit", int(0))], "");
        check(&[("cancel-limit", int(-1))], "-1 is not a valid cancel limit");
        check(
            &[("stream-filter-size-bytes", int(15))],
            "15 is not a valid filter size. Valid range is 16-255",
        );
        check(&[("max-age", Value::text("7D"))], "");
        check(&[("max-age", Value::text("7d"))], "<<\"7d\">> is not a valid max age");
        check(&[("max-age", Value::text("0D"))], "<<\"0D\">> is not a valid max age");
        check(&[("max-age", Value::text(""))], "<<>> is not a valid max age");
        check(&[("max-age", Value::text("D"))], "<<\"D\">> is not a valid max age");
        check(
            &[("queue-master-locator", Value::text("random"))],
            "use of deprecated queue-master-locator argument is not permitted",
        );
        check(&[("dead-letter-exchange", Value::text("é"))], "");
        check(
            &[("dead-letter-strategy", Value::text("é"))],
            "<<\"é\"/utf8>> is not a valid dead letter strategy",
        );
    }

    #[test]
    fn the_first_complaint_counts() {
        let int = Value::long;
        check(
            &[("zz", int(1)), ("aa", Value::text("x")), ("max-length", int(5))],
            "[{<<\"aa\">>,<<\"x\">>},{<<\"zz\">>,1}] are not recognised policy settings",
        );
        check(&[("max-length", int(-5)), ("expires", int(0))], "0 is not a valid queue expiry");
        check(&[("max-length", int(-5)), ("aa", int(0))], "-5 is not a valid maximum length");
    }

    #[test]
    fn delays_go_together() {
        let all = ("delayed-retry-type", Value::text("all"));
        let (min, max) = (("delayed-retry-min", Value::long(10)), ("delayed-retry-max", Value::long(5)));
        check(std::slice::from_ref(&all), "delayed-retry-min is required when delayed-retry-type is all");
        check(&[("delayed-retry-type", Value::text("disabled"))], "");
        check(&[all.clone(), min.clone()], "");
        check(&[all, min, max], "delayed-retry-max (5) must not be smaller than delayed-retry-min (10)");
    }

    #[test]
    fn upstreams_are_named_in_one_way() {
        let text = |text: &str| Value::text(text);
        check(&[("federation-upstream-set", text("all")), ("max-length", Value::long(5))], "");
        check(&[("federation-upstream", Value::long(5))], "5 is not a valid federation upstream name");
        check(
            &[("federation-upstream-pattern", Value::long(5))],
            "5 is not a valid federation upstream pattern name",
        );
        let both = [("federation-upstream", text("a")), ("federation-upstream-set", text("all"))];
        let together = "cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together";
        check(&both, together);
        let found = check_definition(
            &[(&b"federation-upstream-pattern"[..], text("("))].into_iter().collect(),
            PolicyKind::User,
        );
        assert!(
            found.unwrap_err().starts_with("could not compile pattern ( to a regular expression. Error: ")
        );
        check_as(
            PolicyKind::Operator,
            &[("federation-upstream", text("a"))],
            "[{<<\"federation-upstream\">>,<<\"a\">>}] are not recognised policy settings",
        );
    }

    #[test]
    fn an_operator_has_fewer_keys() {
        let one = || Value::long(1);
        for key in
            ["expires", "message-ttl", "max-length", "max-length-bytes", "delivery-limit", "queue-version"]
                .into_iter()
                .chain(["max-unsettled", "cancel-limit"])
        {
            check_as(PolicyKind::Operator, &[(key, one())], "");
        }
        for key in ["dead-letter-exchange", "alternate-exchange", "consumer-timeout", "max-age", "queue-mode"]
        {
            let expected = format!("[{{<<\"{key}\">>,1}}] are not recognised policy settings");
            check_as(PolicyKind::Operator, &[(key, one())], &expected);
        }
    }
}
