//! Expressions, values and messages at random, for tests.

#![allow(dead_code, reason = "each test takes what it needs")]

pub mod content;

use crate::message::{Held, Message};
use filter::{
    Arithmetic, Comparison, Expression, LikePattern, Literal, MessageField, Name, Property, Replacement,
    TopicPattern,
};
use proptest::prelude::*;

pub const NAMES: [&str; 4] = ["a", "b", "not", "ö]["];
pub const CHARACTERS: [char; 7] = ['a', 'b', '%', '_', '\'', 'ö', '\n'];

pub fn text(characters: &'static [char]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(characters), 0..6).prop_map(|text| text.into_iter().collect())
}

pub fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        4 => prop::sample::select(&NAMES[..]).prop_map(|name| Name::ApplicationProperty(name.to_owned())),
        1 => prop::sample::select(&[Property::To, Property::GroupSequence][..]).prop_map(Name::Property),
        1 => Just(Name::Priority),
        1 => prop::sample::select(&MessageField::ALL[..]).prop_map(Name::Message),
    ]
}

pub fn literal() -> impl Strategy<Value = Literal> {
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

pub fn pattern() -> impl Strategy<Value = LikePattern> {
    let escape = prop::option::of(prop::sample::select(&CHARACTERS[..]));
    (text(&CHARACTERS), escape)
        .prop_filter_map("a pattern with meaning", |(text, escape)| LikePattern::new(text, escape).ok())
}

pub fn comparison() -> impl Strategy<Value = Comparison> {
    prop::sample::select(vec![
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ])
}

pub fn replacement() -> impl Strategy<Value = Replacement> {
    let pattern = prop::sample::select(&["a", "[^b]", "x*", "'"][..]);
    let with = prop::sample::select(&["", "it's", "b"][..]);
    (pattern, with, any::<bool>()).prop_map(|(pattern, with, ignores_case)| {
        Replacement::new((pattern.to_owned(), ignores_case), with.to_owned(), 64 << 10).expect("a pattern")
    })
}

/// A topic pattern, or a routing key.
pub fn topic() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&["a", "b", "", "*", "#", "it's"][..]), 0..4)
        .prop_map(|words| words.join("."))
}

/// Trees over fields of these names, and over other leaves.
pub fn expression(
    name: BoxedStrategy<Name>,
    other: BoxedStrategy<Expression>,
) -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        literal().prop_map(Expression::Literal),
        name.clone().prop_map(Expression::Field),
        name.clone().prop_map(Expression::Field),
        name.prop_map(Expression::IsNull),
        Just(Expression::Utc),
        other,
        topic().prop_map(|words| Expression::Topic(TopicPattern::new(words).expect("a short one"))),
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
        prop_oneof![
            (boxed(), boxed(), boxed())
                .prop_map(|(value, least, most)| Expression::Between(value, least, most)),
            (boxed(), any::<Option<bool>>()).prop_map(|(operand, truth)| Expression::Is(operand, truth)),
            (prop::collection::vec((inside.clone(), inside.clone()), 1..3), prop::option::of(boxed()))
                .prop_map(|(branches, otherwise)| Expression::Case(branches, otherwise)),
            (boxed(), replacement())
                .prop_map(|(subject, replacement)| Expression::Replace(subject, replacement)),
            boxed().prop_map(Expression::Plus),
            boxed().prop_map(Expression::Minus),
            boxed().prop_map(Expression::Not),
            (prop::sample::select(arithmetics.to_vec()), boxed(), boxed())
                .prop_map(|(sign, left, right)| Expression::Arithmetic(sign, left, right)),
            (comparison(), boxed(), boxed())
                .prop_map(|(sign, left, right)| Expression::Compare(sign, left, right)),
            (boxed(), pattern()).prop_map(|(subject, pattern)| Expression::Like(subject, pattern)),
            (boxed(), prop::collection::vec(inside.clone(), 1..5))
                .prop_map(|(value, entries)| Expression::In(value, entries)),
            (boxed(), boxed()).prop_map(|(left, right)| Expression::And(left, right)),
            (boxed(), boxed()).prop_map(|(left, right)| Expression::Or(left, right)),
        ]
    })
}

pub fn held() -> impl Strategy<Value = Held> {
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

pub fn message() -> impl Strategy<Value = Message> {
    let application = NAMES.map(|name| prop::option::of(held().prop_map(move |held| (name, held))));
    let properties = [Property::To, Property::GroupSequence]
        .map(|property| prop::option::of(held().prop_map(move |held| (property, held))));
    let said = MessageField::ALL.map(|field| {
        let value = match field {
            MessageField::RoutingKey => topic().prop_map(|key| Held::from(key.as_str())).boxed(),
            _ => held().boxed(),
        };
        prop::option::of(value.prop_map(move |held| (field, held)))
    });
    let all = (any::<Option<u8>>(), application, properties, said);
    all.prop_map(|(priority, application, properties, said)| Message {
        priority,
        said: said.into_iter().flatten().collect(),
        application: application.into_iter().flatten().collect(),
        properties: properties.into_iter().flatten().collect(),
        ..Message::default()
    })
}
