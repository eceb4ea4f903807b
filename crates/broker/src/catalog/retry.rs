//! Retries of a quorum queue: how long messages that come back wait, by the argument `x-delayed-retry-type` and those beside it.

use queue::Retry;
use routing::Argument;

/// The retry rule of a type, a least and a most delay in milliseconds. `None` where the type is unknown, or the least
/// delay is not above 0: then nothing waits, as in RabbitMQ 4.3.6.
pub(super) fn retry(of_type: Argument<'_>, min: Option<i128>, max: Option<i128>) -> Option<Retry> {
    let (failed, released) = match of_type.as_str()? {
        "all" => (true, true),
        "failed" => (true, false),
        "returned" => (false, true),
        _ => return None,
    };
    let millis = |delay: Option<i128>| {
        let delay = delay.filter(|delay| *delay > 0)?;
        Some(u64::try_from(delay).unwrap_or(u64::MAX))
    };
    let min_ms = millis(min)?;
    Some(Retry { failed, released, min_ms, max_ms: millis(max).unwrap_or(min_ms) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use routing::Value;

    #[test]
    fn asks_for_a_type_and_a_least_delay() {
        let check = |of_type: Value, min, max, expected: Option<(bool, bool, u64, u64)>| {
            let is = retry(of_type.view(), min, max);
            let is = is.map(|retry| (retry.failed, retry.released, retry.min_ms, retry.max_ms));
            assert_eq!(is, expected, "{of_type} {min:?} {max:?}");
        };
        let all = || Value::text("all");
        check(all(), Some(5), Some(9), Some((true, true, 5, 9)));
        check(Value::text("failed"), Some(5), None, Some((true, false, 5, 5)));
        check(Value::text("returned"), Some(5), Some(3), Some((false, true, 5, 3)));
        check(all(), Some(5), Some(0), Some((true, true, 5, 5)));
        check(all(), Some(i128::MAX), None, Some((true, true, u64::MAX, u64::MAX)));
        for (of_type, min) in [
            (all(), None),
            (all(), Some(0)),
            (all(), Some(-1)),
            (Value::text("disabled"), Some(5)),
            (Value::text(""), Some(5)),
            (Value::long(5), Some(5)),
        ] {
            check(of_type, min, Some(9), None);
        }
    }
}
