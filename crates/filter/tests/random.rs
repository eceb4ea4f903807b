//! Expressions and texts at random: printed expressions parse again, a program answers as its tree does, and no text
//! makes a panic.

mod message;

use filter::{
    Arithmetic, Comparison, Expression, Fields, LikePattern, Limits, Literal, Name, Program, Property, Value,
};
use message::{Held, Message};
use proptest::prelude::*;
use std::cmp::Ordering;

const NAMES: [&str; 4] = ["a", "b", "not", "ö]["];
const CHARACTERS: [char; 7] = ['a', 'b', '%', '_', '\'', 'ö', '\n'];

/// Trees get deeper than texts may be.
fn limits() -> Limits {
    Limits { tokens_max: 100_000, characters_max: 1_000_000, ..Limits::default() }
}

fn text(characters: &'static [char]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(characters), 0..6).prop_map(|text| text.into_iter().collect())
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        4 => prop::sample::select(&NAMES[..]).prop_map(|name| Name::ApplicationProperty(name.to_owned())),
        1 => prop::sample::select(&[Property::To, Property::GroupSequence][..]).prop_map(Name::Property),
        1 => Just(Name::Priority),
    ]
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        any::<bool>().prop_map(Literal::Bool),
        (0..4i128).prop_map(Literal::Integer),
        any::<u128>().prop_map(|integer| Literal::Integer((integer >> 1) as i128)),
        prop::sample::select(&[0.0, 0.5, 1.0, 3.0, 1e300, 9_007_199_254_740_993.0][..])
            .prop_map(Literal::Float),
        any::<f64>()
            .prop_filter("finite", |float| float.is_finite())
            .prop_map(|float| Literal::Float(float.abs())),
        text(&CHARACTERS).prop_map(Literal::String),
        prop::collection::vec(any::<u8>(), 1..3).prop_map(Literal::Binary),
    ]
}

fn pattern() -> impl Strategy<Value = LikePattern> {
    let escape = prop::option::of(prop::sample::select(&CHARACTERS[..]));
    (text(&CHARACTERS), escape)
        .prop_filter_map("a pattern with meaning", |(text, escape)| LikePattern::new(text, escape).ok())
}

fn expression() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        literal().prop_map(Expression::Literal),
        name().prop_map(Expression::Field),
        name().prop_map(Expression::Field),
        name().prop_map(Expression::IsNull),
        Just(Expression::Utc),
    ];
    leaf.prop_recursive(6, 48, 4, |inside| {
        let boxed = || inside.clone().prop_map(Box::new);
        let arithmetics = [
            Arithmetic::Add,
            Arithmetic::Subtract,
            Arithmetic::Multiply,
            Arithmetic::Divide,
            Arithmetic::Remainder,
        ];
        let comparisons = [
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ];
        prop_oneof![
            boxed().prop_map(Expression::Plus),
            boxed().prop_map(Expression::Minus),
            boxed().prop_map(Expression::Not),
            (prop::sample::select(arithmetics.to_vec()), boxed(), boxed())
                .prop_map(|(sign, left, right)| Expression::Arithmetic(sign, left, right)),
            (prop::sample::select(comparisons.to_vec()), boxed(), boxed())
                .prop_map(|(sign, left, right)| Expression::Compare(sign, left, right)),
            (boxed(), pattern()).prop_map(|(subject, pattern)| Expression::Like(subject, pattern)),
            (boxed(), prop::collection::vec(inside.clone(), 1..5))
                .prop_map(|(value, entries)| Expression::In(value, entries)),
            (boxed(), boxed()).prop_map(|(left, right)| Expression::And(left, right)),
            (boxed(), boxed()).prop_map(|(left, right)| Expression::Or(left, right)),
        ]
    })
}

fn held() -> impl Strategy<Value = Held> {
    prop_oneof![
        Just(Held::Null),
        any::<bool>().prop_map(Held::Bool),
        (-3..4i64).prop_map(Held::from),
        any::<i64>().prop_map(Held::from),
        any::<f64>().prop_map(Held::Float),
        Just(Held::Float(1.0)),
        text(&CHARACTERS).prop_map(|text| Held::Bytes(text.into_bytes())),
        prop::collection::vec(any::<u8>(), 0..3).prop_map(Held::Bytes),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let application = NAMES.map(|name| prop::option::of(held().prop_map(move |held| (name, held))));
    let properties = [Property::To, Property::GroupSequence]
        .map(|property| prop::option::of(held().prop_map(move |held| (property, held))));
    (any::<Option<u8>>(), application, properties).prop_map(|(priority, application, properties)| Message {
        priority,
        application: application.into_iter().flatten().collect(),
        properties: properties.into_iter().flatten().collect(),
    })
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
        let program = Program::compile(&expression).expect("a small one");
        for message in &messages {
            let (said, expected) = (program.evaluate(message, 1_000), naive(&expression, message, 1_000));
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
                let program = Program::compile(&expression).expect("within the limits");
                let _ = program.evaluate(&Message::default(), 0);
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
    const TOKENS: [&str; 46] = [
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
