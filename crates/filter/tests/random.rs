//! Expressions and texts at random: printed expressions parse again, a program answers as its tree does, and no text
//! makes a panic.

use crate::generate;
use crate::message;

use filter::{
    Arithmetic, Asked, Asker, Comparison, Expression, Fields, LikePattern, Limits, Literal, MessageField,
    Name, Program, Room, Value,
};
use generate::message;
use message::Message;
use proptest::prelude::*;
use regex_lite::{NoExpand, RegexBuilder};
use std::cmp::Ordering;

/// Trees get deeper than texts may be.
fn limits() -> Limits {
    Limits { tokens_max: 100_000, characters_max: 1_000_000, ..Limits::default() }
}

fn asked() -> impl Strategy<Value = Asked> {
    let claim = prop::sample::select(&["a", "it's", ""][..]).prop_map(|name| Asked::Claim(name.to_owned()));
    prop_oneof![Just(Asked::User), Just(Asked::Vhost), Just(Asked::ClientId), claim]
}

fn expression() -> impl Strategy<Value = Expression> {
    let asked = prop_oneof![asked().prop_map(Expression::Asked), asked().prop_map(Expression::AskedIsNull)];
    generate::expression(generate::name().boxed(), asked.boxed())
}

/// The value of a tree, node by node: no folding, no jumps, no sorted lists, patterns by trying everything.
fn naive<'a>(expression: &'a Expression, message: &'a Message, now_ms: u64) -> Value<'a> {
    let of = |expression: &'a Expression| naive(expression, message, now_ms);
    let truth = |value| match value {
        Value::Bool(truth) => Some(truth),
        _ => None,
    };
    let field = |name: &'a Name| match message.field(name.field()) {
        None if *name == Name::Priority => Value::Integer(4),
        None => Value::Null,
        Some(Value::Float(float)) if !float.is_finite() => Value::Null,
        Some(value) => value,
    };
    let value = |truth: Option<bool>| truth.map_or(Value::Null, Value::Bool);
    match expression {
        Expression::Asked(_) | Expression::AskedIsNull(_) => panic!("bound"),
        Expression::Literal(Literal::Null) => Value::Null,
        Expression::Literal(Literal::Bool(truth)) => Value::Bool(*truth),
        Expression::Literal(Literal::Integer(integer)) => Value::Integer(*integer),
        Expression::Literal(Literal::Float(float)) => Value::Float(*float),
        Expression::Literal(Literal::String(string)) => Value::Bytes(string.as_bytes()),
        Expression::Literal(Literal::Binary(bytes)) => Value::Bytes(bytes),
        Expression::Field(name) => field(name),
        Expression::Utc => Value::Integer(now_ms.into()),
        Expression::Plus(operand) => match of(operand) {
            Value::Bool(_) | Value::Bytes(_) => Value::Null,
            number => number,
        },
        Expression::Minus(operand) => match of(operand) {
            Value::Integer(i128::MIN) => Value::Float(-(i128::MIN as f64)),
            Value::Integer(integer) => Value::Integer(-integer),
            Value::Float(float) => Value::Float(-float),
            _ => Value::Null,
        },
        Expression::Not(operand) => value(truth(of(operand)).map(|truth| !truth)),
        Expression::And(left, right) => value(match (truth(of(left)), truth(of(right))) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (left, right) => left.and(right),
        }),
        Expression::Or(left, right) => value(match (truth(of(left)), truth(of(right))) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (left, right) => left.and(right),
        }),
        Expression::IsNull(name) => Value::Bool(field(name) == Value::Null),
        Expression::IsPresent(_) => panic!("not made here"),
        Expression::Compare(sign, left, right) => value(compared(*sign, of(left), of(right))),
        Expression::Like(subject, pattern) => match of(subject) {
            Value::Bytes(subject) => value(like(subject, pattern)),
            _ => Value::Null,
        },
        Expression::In(subject, entries) => match of(subject) {
            Value::Null => Value::Null,
            subject => {
                let is_equal = |entry| compared(Comparison::Equal, subject, of(entry)) == Some(true);
                Value::Bool(entries.iter().any(is_equal))
            }
        },
        Expression::Arithmetic(sign, left, right) => calculated(*sign, of(left), of(right)),
        Expression::Between(subject, least, most) => {
            let (subject, least, most) = (of(subject), of(least), of(most));
            let is_above = compared(Comparison::GreaterOrEqual, subject, least);
            let is_below = compared(Comparison::LessOrEqual, subject, most);
            value(match (is_above, is_below) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (above, below) => above.and(below),
            })
        }
        Expression::Is(operand, wanted) => Value::Bool(truth(of(operand)) == *wanted),
        Expression::Case(branches, otherwise) => {
            let branch = branches.iter().find(|(condition, _)| truth(of(condition)) == Some(true));
            let value = branch.map(|(_, value)| value).or(otherwise.as_deref());
            value.map_or(Value::Null, of)
        }
        Expression::Topic(pattern) => match field(&Name::Message(MessageField::RoutingKey)) {
            Value::Bytes(key) => {
                let key = std::str::from_utf8(key).expect("words");
                let words = |text: &'a str| text.split('.').filter(|_| !text.is_empty()).collect::<Vec<_>>();
                Value::Bool(is_of_topic(&words(pattern.text()), &words(key)))
            }
            _ => Value::Null,
        },
        Expression::Replace(subject, replacement) => match of(subject) {
            Value::Bytes(text) => std::str::from_utf8(text).map_or(Value::Null, |text| {
                let ignores_case = replacement.ignores_case();
                let oracle = RegexBuilder::new(replacement.text()).case_insensitive(ignores_case).build();
                let oracle = oracle.expect("a pattern");
                let replaced = oracle.replace_all(text, NoExpand(replacement.with())).into_owned();
                Value::Bytes(replaced.leak().as_bytes())
            }),
            _ => Value::Null,
        },
        Expression::Call(..) | Expression::Regexp(..) => panic!("not made here"),
    }
}

/// By trying every count that a `#` can stand for.
fn is_of_topic(pattern: &[&str], key: &[&str]) -> bool {
    match (pattern, key) {
        ([], []) => true,
        (["#", rest @ ..], key) => {
            is_of_topic(rest, key) || !key.is_empty() && is_of_topic(pattern, &key[1..])
        }
        ([wanted, rest @ ..], [word, words @ ..]) => {
            (*wanted == "*" || wanted == word) && is_of_topic(rest, words)
        }
        _ => false,
    }
}

fn compared(sign: Comparison, left: Value<'_>, right: Value<'_>) -> Option<bool> {
    let order = match (left, right) {
        (Value::Null, _) | (_, Value::Null) => return None,
        (Value::Bool(left), Value::Bool(right))
            if matches!(sign, Comparison::Equal | Comparison::NotEqual) =>
        {
            Some(left.cmp(&right))
        }
        (Value::Bytes(left), Value::Bytes(right)) => Some(left.cmp(right)),
        (Value::Integer(left), Value::Integer(right)) => Some(left.cmp(&right)),
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(&right),
        (Value::Integer(left), Value::Float(right)) => exactly(left, right),
        (Value::Float(left), Value::Integer(right)) => exactly(right, left).map(Ordering::reverse),
        _ => None,
    };
    Some(match (sign, order) {
        (Comparison::NotEqual, order) => order != Some(Ordering::Equal),
        (_, None) => false,
        (Comparison::Equal, Some(order)) => order.is_eq(),
        (Comparison::Less, Some(order)) => order.is_lt(),
        (Comparison::LessOrEqual, Some(order)) => order.is_le(),
        (Comparison::Greater, Some(order)) => order.is_gt(),
        (Comparison::GreaterOrEqual, Some(order)) => order.is_ge(),
    })
}

/// By the digits of both, written out.
fn exactly(integer: i128, float: f64) -> Option<Ordering> {
    let digits = |text: String| {
        let (whole, fraction) = text
            .split_once('.')
            .map(|(whole, fraction)| (whole.to_owned(), fraction.to_owned()))
            .unwrap_or((text, String::new()));
        (whole.len(), whole, fraction.trim_end_matches('0').to_owned())
    };
    let sizes = digits(integer.unsigned_abs().to_string()).cmp(&digits(format!("{:.1100}", float.abs())));
    let is_zero = float == 0.0;
    Some(match (integer.signum(), if is_zero { 0 } else { float.signum() as i32 }) {
        (1, 1) => sizes,
        (-1, -1) => sizes.reverse(),
        (left, right) => (left as i32).cmp(&right),
    })
}

fn calculated(sign: Arithmetic, left: Value<'_>, right: Value<'_>) -> Value<'static> {
    let float = |value| match value {
        Value::Integer(integer) => Some(integer as f64),
        Value::Float(float) => Some(float),
        _ => None,
    };
    if let (Value::Integer(left), Value::Integer(right)) = (left, right) {
        let exact = match sign {
            Arithmetic::Add => left.checked_add(right),
            Arithmetic::Subtract => left.checked_sub(right),
            Arithmetic::Multiply => left.checked_mul(right),
            Arithmetic::Remainder if right == -1 => Some(0),
            Arithmetic::Remainder => left.checked_rem(right),
            Arithmetic::Divide => None,
        };
        if let Some(exact) = exact {
            return Value::Integer(exact);
        }
    }
    let (Some(left), Some(right)) = (float(left), float(right)) else { return Value::Null };
    let result = match sign {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide if right != 0.0 => left / right,
        _ => return Value::Null,
    };
    if result.is_finite() { Value::Float(result) } else { Value::Null }
}

/// By trying every length a `%` can have.
fn like(subject: &[u8], pattern: &LikePattern) -> Option<bool> {
    let mut symbols = Vec::new();
    let mut characters = pattern.text().chars();
    while let Some(character) = characters.next() {
        match character {
            _ if Some(character) == pattern.escape() => {
                symbols.push((characters.next().expect("one"), false))
            }
            '%' | '_' => symbols.push((character, true)),
            _ => symbols.push((character, false)),
        }
    }
    fn tries(subject: &[char], symbols: &[(char, bool)], line_feed: bool) -> bool {
        let fits = |character: char| line_feed || character != '\n';
        match symbols {
            [] => subject.is_empty(),
            [('%', true), rest @ ..] => {
                tries(subject, rest, line_feed)
                    || subject
                        .first()
                        .is_some_and(|first| fits(*first) && tries(&subject[1..], symbols, line_feed))
            }
            [(symbol, is_wild), rest @ ..] => subject.first().is_some_and(|first| {
                (first == symbol || *is_wild && fits(*first)) && tries(&subject[1..], rest, line_feed)
            }),
        }
    }
    let wild =
        |wanted: char| symbols.iter().filter(|(symbol, is_wild)| *is_wild && *symbol == wanted).count();
    if wild('_') == 0 && wild('%') <= 1 {
        // Of bytes, which are characters here.
        let letters = subject.iter().map(|byte| char::from(*byte)).collect::<Vec<_>>();
        let symbols = symbols.iter().flat_map(|(symbol, is_wild)| {
            let bytes = symbol.encode_utf8(&mut [0; 4]).to_owned().into_bytes();
            bytes.into_iter().map(|byte| (char::from(byte), *is_wild))
        });
        return Some(tries(&letters, &symbols.collect::<Vec<_>>(), true));
    }
    let letters = std::str::from_utf8(subject).ok()?.chars().collect::<Vec<_>>();
    Some(match letters.split_last() {
        Some(('\n', before)) => tries(before, &symbols, false),
        _ => tries(&letters, &symbols, false),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_tree_prints_and_is_parsed_again(expression in expression()) {
        let printed = expression.to_string();
        let parsed = Expression::parse(&printed, &limits());
        prop_assert_eq!(parsed.as_ref(), Ok(&expression), "{}", printed);
    }

    #[test]
    fn a_program_says_what_its_tree_says(expression in expression(), messages in prop::collection::vec(message(), 1..8)) {
        let claims = [("a", Literal::Float(1.0))];
        let expression = expression.bound(&Asker { user: "a", vhost: "", client_id: None, claims: &claims });
        let program = Program::compile(&expression).expect("a small one");
        let room = Room::default();
        for message in &messages {
            let (said, expected) = (program.evaluate(message, &room, 1_000), naive(&expression, message, 1_000));
            prop_assert_eq!(said, expected, "{} of {:?}", expression, message);
        }
    }

    #[test]
    fn no_text_makes_a_panic(pieces in prop::collection::vec(piece(), 0..40), separator in prop::sample::select(&["", " "][..])) {
        let text = pieces.join(separator);
        match Expression::parse(&text, &Limits::default()) {
            Ok(expression) => {
                let again = Expression::parse(&expression.to_string(), &limits());
                prop_assert_eq!(again, Ok(expression.clone()), "{}", text);
                let program = Program::compile(&expression.bound(&Asker::default())).expect("within the limits");
                let (message, room) = (Message { body: br#"{"a":{"b":1},"x":"b"}"#.into(), ..Message::default() }, Room::default());
                let _ = program.evaluate(&message, &room, 0);
            }
            Err(error) => prop_assert!(text.is_char_boundary(error.at), "{} {}", text, error),
        }
    }

    #[test]
    fn any_characters_are_read(text in any::<String>()) {
        if let Err(error) = Program::parse(&text, &Limits::default()) {
            prop_assert!(text.is_char_boundary(error.at), "{} {}", text, error);
        }
    }
}

/// A piece of a text: mostly a token, so that many texts get far.
fn piece() -> impl Strategy<Value = String> {
    const TOKENS: [&str; 78] = [
        "JSON_VALUE(BODY(),",
        "'$.a[0]')",
        "REGEXP_REPLACE(",
        "'x', 'y')",
        "USER()",
        "CLAIM('x')",
        "CLAIM(",
        "EXCHANGE()",
        "offset(",
        "TOPIC_MATCH('a.#')",
        "TOPIC_MATCH(",
        "body.a",
        "body[0]",
        "body['x']",
        "body.a[*].b",
        "/a/b",
        "/a/@b[1]",
        "annotations.x",
        "BETWEEN",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "UNKNOWN",
        "EXISTS(",
        "LOWER(",
        "CONCAT(",
        "CAST(",
        "AS NUMBER)",
        "REGEXP_LIKE(",
        "'x+')",
        "a",
        "b",
        "p.to",
        "h.priority",
        "[x]",
        "a.b",
        "m.x",
        "(",
        "(",
        ")",
        ")",
        ",",
        "=",
        "<>",
        "!=",
        "<",
        ">=",
        "+",
        "-",
        "-",
        "*",
        "/",
        "%",
        "AND",
        "OR",
        "NOT",
        "NOT",
        "LIKE",
        "IN",
        "IS",
        "NULL",
        "ESCAPE",
        "UTC",
        "TRUE",
        "FALSE",
        "1",
        "2.5",
        "1.0E5",
        "0xAB",
        "'x'",
        "'%_'",
        "\"",
        "'",
        "[",
        "]",
        "IN (",
    ];
    prop_oneof![
        20 => prop::sample::select(&TOKENS[..]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ]
}
