//! Arguments of streams, and the rules that follow from them and from policies.
//!
//! Rules and texts are RabbitMQ 4.3.6's, seen by declaring streams through pika. Of an argument and a policy the policy
//! counts, which is so of streams alone. The size of a stream's Bloom filters is in its chunks and therefore what it was
//! declared with, whatever a policy says; so is how long chunks are.

use super::numbers::{count, integer};
use super::policy::Matched;
use super::{Reason, Refusal};
use message::chunk::{FILTER_LEN_DEFAULT, FILTER_LEN_MIN};
use queue::stream::CHUNK_ENTRIES_FIRST_DEFAULT;
use routing::{Argument, Arguments, Value};

/// Largest `x-stream-max-segment-size-bytes`.
const SEGMENT_BYTES_MAX: i128 = 3_000_000_000;

/// Bytes of a segment where nobody says.
const SEGMENT_BYTES: u64 = 500_000_000;

/// The rules of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRules {
    /// Bytes of a segment, beyond which the next is begun.
    pub segment_bytes_max: u64,
    /// Bytes of Bloom filters in chunks with filter values.
    pub filter_len: u8,
    /// Messages, or batches of them, of the first chunk of what is committed together; each further one has up to twice as many.
    pub chunk_entries_first: u16,
    /// Bytes of all segments, beyond which the oldest go.
    pub bytes_max: Option<u64>,
    /// Milliseconds after which segments go.
    pub age_max_ms: Option<u64>,
}

impl StreamRules {
    /// The rules that arguments and policies give together.
    pub(super) fn of(arguments: &Arguments, policies: Matched<'_>) -> StreamRules {
        let argument = |key: &str| arguments.get(format!("x-{key}").as_bytes());
        let given = |key: &str| policies.value(key).or_else(|| argument(key));
        let filter_len = argument("stream-filter-size-bytes").and_then(count);
        let filter_len = filter_len.and_then(|len| u8::try_from(len).ok()).unwrap_or(FILTER_LEN_DEFAULT);
        let first_chunk = argument("stream-first-chunk-messages").and_then(count);
        let first_chunk = first_chunk.and_then(|count| u16::try_from(count).ok());
        StreamRules {
            segment_bytes_max: given("stream-max-segment-size-bytes")
                .and_then(count)
                .unwrap_or(SEGMENT_BYTES),
            filter_len: filter_len.max(FILTER_LEN_MIN),
            chunk_entries_first: first_chunk.unwrap_or(CHUNK_ENTRIES_FIRST_DEFAULT).max(1),
            bytes_max: given("max-length-bytes").and_then(count),
            age_max_ms: given("max-age").and_then(Argument::as_str).and_then(age_ms),
        }
    }
}

/// Milliseconds of a time like `7D`: a number above 0 and one of the units `Y`, `M`, `D`, `h`, `m`, `s`.
pub fn age_ms(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let seconds: u64 = match unit {
        'Y' => 365 * 86_400,
        'M' => 30 * 86_400,
        'D' => 86_400,
        'h' => 3_600,
        'm' => 60,
        's' => 1,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // An age that does not fit is for ever.
    let number = digits.parse::<u64>().unwrap_or(u64::MAX);
    (number > 0).then(|| number.saturating_mul(seconds * 1000))
}

/// The value that is compared on declaring again: of an age the milliseconds.
pub(super) fn compared(name: &str, value: Option<Argument<'_>>) -> Option<Value> {
    let value = value?;
    Some(match value.as_str().and_then(age_ms) {
        Some(ms) if name == "x-max-age" => Value::text(&ms.to_string()),
        _ => value.to_value(),
    })
}

/// Whether the sizes of a new stream are within their bounds.
pub(super) fn check_sizes(arguments: &Arguments) -> Result<(), Refusal> {
    let size = |name: &str| arguments.get(name.as_bytes()).and_then(integer);
    let refused = |argument: &str, text: &str| {
        Err(Refusal::precondition(Reason::InvalidArgument { argument: argument.into() }, text))
    };
    if size("x-stream-max-segment-size-bytes").is_some_and(|size| size > SEGMENT_BYTES_MAX) {
        return refused(
            "x-stream-max-segment-size-bytes",
            "Exceeded max value for x-stream-max-segment-size-bytes",
        );
    }
    if size("x-stream-filter-size-bytes").is_some_and(|size| !(16..=255).contains(&size)) {
        return refused("x-stream-filter-size-bytes", "Invalid value for x-stream-filter-size-bytes");
    }
    if size("x-stream-first-chunk-messages").is_some_and(|size| !(1..=65_535).contains(&size)) {
        return refused("x-stream-first-chunk-messages", "Invalid value for x-stream-first-chunk-messages");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (text, ms) in [
            ("1s", Some(1_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("7D", Some(604_800_000)),
            ("1M", Some(2_592_000_000)),
            ("1Y", Some(31_536_000_000)),
            ("99999999999999999999999s", Some(u64::MAX)),
            ("0s", None),
            ("s", None),
            ("", None),
            ("-1s", None),
            ("1", None),
            ("1w", None),
            ("1é", None),
            ("abc", None),
        ] {
            assert_eq!(age_ms(text), ms, "{text}");
        }
    }

    #[test]
    fn sizes_have_bounds() {
        for (name, fit, unfit) in [
            ("x-stream-max-segment-size-bytes", &[0, 3_000_000_000][..], &[3_000_000_001][..]),
            ("x-stream-filter-size-bytes", &[16, 255], &[15, 256]),
            ("x-stream-first-chunk-messages", &[1, 65_535], &[0, 65_536]),
        ] {
            for (value, is_fit) in fit.iter().map(|it| (it, true)).chain(unfit.iter().map(|it| (it, false))) {
                let arguments = [(name.as_bytes(), Value::long(*value))].into_iter().collect();
                assert_eq!(check_sizes(&arguments).is_ok(), is_fit, "{name} {value}");
            }
        }
    }

    #[test]
    fn rules_of_arguments() {
        let arguments: Arguments = [
            ("x-max-age", Value::text("1h")),
            ("x-max-length-bytes", Value::long(7)),
            ("x-stream-filter-size-bytes", Value::long(32)),
            ("x-stream-first-chunk-messages", Value::long(400)),
        ]
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.clone()))
        .collect();
        let rules = StreamRules::of(&arguments, Matched::default());
        let expected = StreamRules {
            segment_bytes_max: 500_000_000,
            filter_len: 32,
            chunk_entries_first: 400,
            bytes_max: Some(7),
            age_max_ms: Some(3_600_000),
        };
        assert_eq!(rules, expected);
    }
}
