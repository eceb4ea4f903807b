//! The termini of an attach (§3.5): those asked for, and the source that is answered.
//!
//! As in RabbitMQ nearly all of it is the peer's own: its fields are repeated to it, whether they mean anything here or
//! not. Ours are how deliveries are given out and the outcome of unsettled ones. Filters are repeated where they say
//! something of streams, which a queue passes over; those that select by content are not in place and so are left out.

use super::refused::Refused;
use super::selecting::Selecting;
use super::streams::ReadOptions;
use ::amqp10::{Attach, ReceiverSettleMode, SenderSettleMode, Source, Symbols, condition};
use message::amqp10::{Decoder, Descriptor, Map, Value};

/// The outcomes a receiver may choose from.
const OUTCOMES: [&str; 4] =
    ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"];

/// The outcome of messages refused as invalid.
const REJECTED: &str = OUTCOMES[1];

/// Each message goes to one receiver (§3.5.6).
const MOVE: &str = "move";

/// Messages are shown and stay.
const COPY: &str = "copy";

/// `released`, the outcome of deliveries nobody settled: a described list without fields (§3.4.4).
const RELEASED: [u8; 4] = [0x00, 0x53, 0x26, 0x45];

/// Whether the link can be as it is asked for.
pub(super) fn check(attach: &Attach<'_>) -> Result<(), Refused> {
    let is_coordinator = attach.target.is_some_and(|target| target.is_coordinator);
    if !attach.unsettled.is_empty() || attach.incomplete_unsettled {
        return Err(not_served("Link recovery not supported".to_owned()));
    }
    if attach.receiver_settle_mode == ReceiverSettleMode::Second
        && attach.sender_settle_mode != SenderSettleMode::Settled
    {
        return Err(not_served("rcv-settle-mode second not supported".to_owned()));
    }
    match attach.source {
        // A coordinator has outcomes of its own.
        Some(source) if !is_coordinator => check_outcomes(source.outcomes),
        _ => Ok(()),
    }
}

fn check_outcomes(outcomes: Symbols<'_>) -> Result<(), Refused> {
    let Symbols::Read(value) = outcomes else { return Ok(()) };
    let term = |name: &str| format!("{{symbol,<<\"{name}\">>}}");
    if let Value::Symbol(name) = value {
        return Err(not_served(format!("Outcomes not supported: {}", term(name))));
    }
    let unknown: Vec<String> = outcomes.iter().filter(|name| !OUTCOMES.contains(name)).map(term).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(not_served(format!("Outcomes not supported: [{}]", unknown.join(","))))
}

/// Whether a sender hears of messages that are rejected (§3.2.1): it does where its source names no outcomes.
pub(super) fn takes_rejected(source: Option<&Source<'_>>) -> bool {
    let outcomes = source.map(|source| source.outcomes).unwrap_or_default();
    outcomes.iter().next().is_none() || outcomes.contains(REJECTED)
}

/// Whether properties of a node that is to be made have the types that are theirs (§3.5.9).
pub(super) fn check_node_properties(properties: Map<'_>) -> Result<(), Refused> {
    for (name, value) in properties.iter() {
        let is_right = match (name.as_str(), value) {
            (Some("lifetime-policy"), value) => is_lifetime_policy(value),
            (Some("supported-dist-modes"), Value::Null) => true,
            (Some("supported-dist-modes"), value) => {
                matches!(value, Value::Symbol(_) | Value::Array(_))
                    && value.multiple().all(|mode| matches!(mode, Value::Symbol(_)))
            }
            _ => true,
        };
        if !is_right {
            let name = name.as_str().unwrap_or_default();
            return Err(Refused::new(
                condition::INVALID_FIELD,
                format!("node property {name} of a wrong type"),
            ));
        }
    }
    Ok(())
}

/// Any of the types which provide the archetype (§3.5.10-13).
fn is_lifetime_policy(value: Value<'_>) -> bool {
    const NAMES: [&str; 4] = [
        "amqp:delete-on-close:list",
        "amqp:delete-on-no-links:list",
        "amqp:delete-on-no-messages:list",
        "amqp:delete-on-no-links-or-messages:list",
    ];
    let Value::Described(described) = value else { return value == Value::Null };
    let is_known = match described.descriptor() {
        Descriptor::Code(code) => (0x2b..=0x2e).contains(&code),
        Descriptor::Name(name) => NAMES.contains(&name),
        Descriptor::Other => false,
    };
    is_known && matches!(described.value(), Value::List(_))
}

fn not_served(text: String) -> Refused {
    Refused::new(condition::NOT_IMPLEMENTED, text)
}

/// The receiver would see messages and take none.
pub(super) fn copies(source: &Source<'_>) -> bool {
    source.distribution_mode == Some(COPY)
}

/// The source of a queue as its receiver is told of it, in bytes: the answer may have to wait.
pub(super) fn answered(asked: &Source<'_>, selecting: &Selecting) -> Box<[u8]> {
    let mut bytes = Vec::new();
    let filter = asked.filter.map(|filter| selecting.echo(filter, &mut bytes));
    let mode = if copies(asked) { COPY } else { MOVE };
    told(asked, filter, mode)
}

/// As [`answered`], of a stream, whose messages always stay.
pub(super) fn answered_of_stream(asked: &Source<'_>, options: &ReadOptions) -> Box<[u8]> {
    let mut bytes = Vec::new();
    let filter = asked.filter.map(|filter| options.echo(filter, &mut bytes));
    told(asked, filter, COPY)
}

fn told(asked: &Source<'_>, filter: Option<Map<'_>>, mode: &str) -> Box<[u8]> {
    let outcomes = match asked.outcomes {
        Symbols::Read(Value::Null) | Symbols::Given(_) => Symbols::Given(&OUTCOMES),
        theirs => theirs,
    };
    let source = Source {
        distribution_mode: Some(mode),
        filter,
        default_outcome: Decoder::new(&RELEASED).value().ok(),
        outcomes,
        capabilities: Symbols::default(),
        ..*asked
    };
    source.to_bytes().into()
}

/// Of the filters asked for those that are in place, written into `bytes`.
pub(super) fn in_place<'b>(filter: Map<'_>, in_place: &[bool], bytes: &'b mut Vec<u8>) -> Map<'b> {
    let mut count = 0;
    for ((name, value), is_in_place) in filter.encodings().zip(in_place) {
        if *is_in_place {
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
            count += 2;
        }
    }
    Map::new(count, bytes)
}

/// Whether a filter says from where, or by which condition, a stream is read.
pub(super) fn is_of_streams(filter: Value<'_>) -> bool {
    let Value::Described(described) = filter else { return false };
    let Descriptor::Name(name) = described.descriptor() else { return false };
    match (name, described.value()) {
        ("rabbitmq:stream-offset-spec", Value::Timestamp(_) | Value::String(_) | Value::Symbol(_)) => true,
        ("rabbitmq:stream-offset-spec", offset) => offset.as_u64().is_some(),
        ("rabbitmq:stream-filter", Value::List(_) | Value::String(_)) => true,
        ("rabbitmq:stream-match-unfiltered", Value::Boolean(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking::Client;
    use filter::{Asker, Macros};
    use message::amqp10::Encoder;

    const ANN: Asker<'static> = Asker { user: "ann", vhost: "/", client_id: None, claims: &[] };

    fn answer_to(asked: &Source<'_>) -> Box<[u8]> {
        answered(asked, &Selecting::of(asked, &Client { asker: ANN, macros: Macros::none() }).unwrap())
    }

    fn described(name: &str, value: Value<'_>) -> Vec<u8> {
        let mut bytes = vec![0x00];
        let mut encoder = Encoder::new(&mut bytes);
        encoder.symbol(name);
        encoder.value(value);
        bytes
    }

    fn check_filter(name: &str, value: Value<'_>, expected: bool) {
        let bytes = described(name, value);
        let filter = Decoder::new(&bytes).value().unwrap();
        assert_eq!(is_of_streams(filter), expected, "{name} {value:?}");
        let mut pairs = Vec::new();
        let mut encoder = Encoder::new(&mut pairs);
        encoder.symbol("any");
        encoder.value(filter);
        let asked = Source { filter: Some(Map::new(2, &pairs)), ..Source::default() };
        let answer = answer_to(&asked);
        let told = Source::from_bytes(&answer).unwrap();
        assert_eq!(told.filter.map(|filter| filter.len()), Some(usize::from(expected)));
        assert_eq!((told.distribution_mode, told.outcomes.iter().count()), (Some(MOVE), 4));
    }

    #[test]
    fn filters_of_streams_are_repeated() {
        check_filter("rabbitmq:stream-offset-spec", Value::String("first"), true);
        check_filter("rabbitmq:stream-offset-spec", Value::Timestamp(5), true);
        check_filter("rabbitmq:stream-offset-spec", Value::Ulong(5), true);
        check_filter("rabbitmq:stream-offset-spec", Value::Long(-5), false);
        check_filter("rabbitmq:stream-offset-spec", Value::Boolean(true), false);
        check_filter("rabbitmq:stream-filter", Value::String("a"), true);
        check_filter("rabbitmq:stream-filter", Value::Symbol("a"), false);
        check_filter("rabbitmq:stream-match-unfiltered", Value::Boolean(true), true);
        check_filter("rabbitmq:stream-match-unfiltered", Value::String("true"), false);
        check_filter("amqp:sql-filter", Value::String("a = 1"), false);
    }

    #[test]
    fn what_becomes_of_messages_is_as_asked_where_that_is_known() {
        for (asked, expected) in [(None, MOVE), (Some(MOVE), MOVE), (Some(COPY), COPY), (Some("other"), MOVE)]
        {
            let answer = answer_to(&Source { distribution_mode: asked, ..Source::default() });
            assert_eq!(Source::from_bytes(&answer).unwrap().distribution_mode, Some(expected), "{asked:?}");
        }
    }

    #[test]
    fn no_filters_are_not_an_empty_set() {
        let answer = answer_to(&Source { timeout_s: 7, ..Source::default() });
        let told = Source::from_bytes(&answer).unwrap();
        assert_eq!((told.filter, told.timeout_s), (None, 7));
    }

    fn described_by(code: u8, body: u8) -> Vec<u8> {
        vec![0x00, 0x53, code, body]
    }

    #[test]
    fn node_properties_have_types() {
        let mut modes = Vec::new();
        Encoder::new(&mut modes).symbols(["move", "copy"].into_iter());
        let mut mode = Vec::new();
        Encoder::new(&mut mode).symbol("move");
        let name = described("amqp:delete-on-no-links:list", Value::List(Default::default()));
        let other = described("amqp:released:list", Value::List(Default::default()));
        let rows: [(&str, &[u8], bool); 13] = [
            ("lifetime-policy", &described_by(0x2b, 0x45), true),
            ("lifetime-policy", &described_by(0x2e, 0x45), true),
            ("lifetime-policy", &name, true),
            ("lifetime-policy", &[0x40], true),
            ("lifetime-policy", &described_by(0x2a, 0x45), false),
            ("lifetime-policy", &described_by(0x2b, 0x40), false),
            ("lifetime-policy", &other, false),
            ("lifetime-policy", &[0x52, 7], false),
            ("supported-dist-modes", &modes, true),
            ("supported-dist-modes", &mode, true),
            ("supported-dist-modes", &[0x40], true),
            ("supported-dist-modes", &[0x43], false),
            ("x-other", &[0x43], true),
        ];
        for (key, value, expected) in rows {
            let mut pairs = Vec::new();
            let mut encoder = Encoder::new(&mut pairs);
            encoder.symbol(key);
            encoder.encoding(value);
            assert_eq!(check_node_properties(Map::new(2, &pairs)).is_ok(), expected, "{key} {value:x?}");
        }
    }

    #[test]
    fn a_sender_that_names_outcomes_hears_those() {
        let check = |names: &'static [&'static str], expected| {
            let source = Source { outcomes: Symbols::Given(names), ..Source::default() };
            assert_eq!(takes_rejected(Some(&source)), expected, "{names:?}");
        };
        check(&[], true);
        check(&OUTCOMES, true);
        check(&["amqp:rejected:list"], true);
        check(&["amqp:accepted:list"], false);
        check(&["amqp:accepted:list", "amqp:released:list"], false);
        assert!(takes_rejected(None));
    }

    #[test]
    fn some_outcomes_are_not_served() {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes).symbols(["amqp:accepted:list", "a", "b"].into_iter());
        let outcomes = Symbols::Read(Decoder::new(&bytes).value().unwrap());
        let refused = check_outcomes(outcomes).unwrap_err();
        assert_eq!(refused.text, "Outcomes not supported: [{symbol,<<\"a\">>},{symbol,<<\"b\">>}]");
        assert!(check_outcomes(Symbols::Read(Value::Null)).is_ok());
        assert!(check_outcomes(Symbols::Read(Value::Symbol(OUTCOMES[0]))).is_err());
    }
}
