//! Filters of the kind that an index files, and bodies whose values they meet.

use filter::{Comparison, Expression, Function, LikePattern, Literal, Name, Path, Step};
use proptest::prelude::*;

fn body_name() -> impl Strategy<Value = Name> {
    let step = |name: &str| Step::Name(name.to_owned());
    let paths = [
        vec![step("a")],
        vec![step("b")],
        vec![step("c")],
        vec![step("a"), step("b")],
        vec![step("a"), step("c")],
        vec![step("c"), Step::Each],
        vec![Step::Each, step("b")],
        vec![step("b"), Step::Number(0)],
        vec![Step::Number(1), step("a")],
    ];
    prop::sample::select(paths.to_vec()).prop_map(|steps| Name::Body(Path::new(steps).expect("few steps")))
}

pub fn name() -> BoxedStrategy<Name> {
    prop_oneof![3 => body_name(), 1 => super::name()].boxed()
}

/// Literals that values often equal, or nearly.
pub fn constant() -> impl Strategy<Value = Literal> {
    let integers = [0, 1, 2, 3, -1, 1 << 53, (1 << 53) + 1, i128::MAX, i128::MIN, 1 << 100];
    let floats = [
        0.0,
        -0.0,
        1.0,
        0.5,
        2.5,
        9_007_199_254_740_992.0,
        1e300,
        170_141_183_460_469_231_731_687_303_715_884_105_728.0,
    ];
    let texts =
        ["", "a", "ab", "abc", "b", "a longer text than sixteen", "a longer text than sixteen, too", "1"];
    prop_oneof![
        4 => prop::sample::select(integers.to_vec()).prop_map(Literal::Integer),
        4 => (0..4i128).prop_map(Literal::Integer),
        3 => prop::sample::select(floats.to_vec()).prop_map(Literal::Float),
        5 => prop::sample::select(texts.to_vec()).prop_map(|text| Literal::String(text.to_owned())),
        1 => any::<bool>().prop_map(Literal::Bool),
        1 => super::literal(),
    ]
}

/// A condition of the kind that filters are filed by, and of kinds that they are not.
pub fn condition() -> impl Strategy<Value = Expression> {
    let literal = || constant().prop_map(|literal| Box::new(Expression::Literal(literal)));
    let field = || name().prop_map(|name| Box::new(Expression::Field(name)));
    let patterns = ["a%", "ab%", "%c", "a%c", "a_c", "abc", "%", "a longer text than%", ""];
    let call = |function: Function| {
        (field(), literal()).prop_map(move |(field, part)| Expression::Call(function, vec![*field, *part]))
    };
    let simple = prop_oneof![
        6 => (super::comparison(), field(), literal()).prop_map(|(sign, field, literal)| Expression::Compare(sign, field, literal)),
        1 => (super::comparison(), literal(), field()).prop_map(|(sign, literal, field)| Expression::Compare(sign, literal, field)),
        2 => (field(), literal(), literal()).prop_map(|(field, least, most)| Expression::Between(field, least, most)),
        2 => (field(), prop::collection::vec(constant().prop_map(Expression::Literal), 1..5))
            .prop_map(|(field, entries)| Expression::In(field, entries)),
        2 => (field(), prop::sample::select(patterns.to_vec()))
            .prop_map(|(field, pattern)| Expression::Like(field, LikePattern::new(pattern, None).expect("a pattern"))),
        1 => call(Function::StartsWith),
        1 => call(Function::EndsWith),
        1 => name().prop_map(Expression::Field),
        1 => name().prop_map(Expression::IsNull),
        1 => (field(), literal()).prop_map(|(field, literal)| {
            let length = Box::new(Expression::Call(Function::Length, vec![*field]));
            Expression::Compare(Comparison::Greater, length, literal)
        }),
    ];
    simple.prop_recursive(3, 6, 3, |inside| {
        let boxed = || inside.clone().prop_map(Box::new);
        prop_oneof![
            3 => (boxed(), boxed()).prop_map(|(left, right)| Expression::Or(left, right)),
            2 => (boxed(), boxed()).prop_map(|(left, right)| Expression::And(left, right)),
            1 => boxed().prop_map(Expression::Not),
            1 => (boxed(), any::<Option<bool>>()).prop_map(|(operand, truth)| Expression::Is(operand, truth)),
        ]
    })
}

pub fn filter() -> impl Strategy<Value = Expression> {
    let and = |left, right| Expression::And(Box::new(left), Box::new(right));
    prop_oneof![
        5 => prop::collection::vec(condition(), 1..5)
            .prop_map(move |all| all.into_iter().reduce(and).expect("one at least")),
        1 => super::expression(name(), Just(Expression::Utc).boxed()),
    ]
}

/// JSON, most of it as it should be.
pub fn body() -> impl Strategy<Value = Vec<u8>> {
    let scalars = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "2",
        "3",
        "-1",
        "-0.0",
        "1.0",
        "0.5",
        "2.5",
        "9007199254740992",
        "9007199254740993",
        "9007199254740993.0",
        "1e300",
        "1e999",
        "170141183460469231731687303715884105727",
        "-170141183460469231731687303715884105728",
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "\"abc\"",
        "\"\\u0061b\"",
        "\"b\"",
        "\"1\"",
        "\"a longer text than sixteen\"",
        "\"a longer text than sixteen, too\"",
        "\"a longer text than\"",
    ];
    let scalar = prop::sample::select(scalars.to_vec()).prop_map(str::to_owned);
    let value = scalar.prop_recursive(4, 24, 4, |inside| {
        let member = (prop::sample::select(vec!["a", "b", "c", "0"]), inside.clone());
        prop_oneof![
            1 => prop::collection::vec(inside, 0..4).prop_map(|all| format!("[{}]", all.join(","))),
            2 => prop::collection::vec(member.prop_map(|(name, value)| format!("\"{name}\": {value}")), 0..4)
                .prop_map(|all| format!("{{{}}}", all.join(", "))),
        ]
    });
    let member = |name: &'static str| {
        prop::option::weighted(0.8, value.clone().prop_map(move |value| format!("\"{name}\":{value}")))
    };
    let object = (member("a"), member("b"), member("c")).prop_map(|(a, b, c)| {
        format!("{{{}}}", [a, b, c].into_iter().flatten().collect::<Vec<_>>().join(","))
    });
    let whole = prop_oneof![4 => object, 1 => value].prop_map(String::into_bytes);
    (whole, 0..12u8, any::<prop::sample::Index>(), prop::sample::select(b"{}[],:\"\\x1 \xff".to_vec()))
        .prop_map(|(mut body, fault, at, byte)| {
            let at = at.index(body.len().max(1)).min(body.len());
            match fault {
                0 => body.truncate(at),
                1 if at < body.len() => body[at] = byte,
                2 => body.insert(at, byte),
                _ => {}
            }
            body
        })
}
