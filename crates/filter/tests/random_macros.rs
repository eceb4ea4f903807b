//! Macros at random: a call is what the macro's text says with the arguments written into it, no text makes a panic,
//! and the uses of macros are known from texts alone.

use crate::generate;

use filter::{Expression, Known, Limits, Macro, Macros, Name, Names, Site, calls};
use proptest::prelude::*;

/// Trees get deeper than texts may be.
fn wide() -> Limits {
    Limits { tokens_max: 1_000_000, characters_max: 10_000_000, depth_max: 400, ..Limits::content() }
}

/// Of the macro.
const PARAMETER: &str = "low";

fn parse(text: &str, limits: Limits, macros: &Macros) -> Result<Expression, filter::Error> {
    Expression::parse_at(text, &Site { limits, known: Known::ALL, names: Names::Own, macros })
}

fn body() -> impl Strategy<Value = Expression> {
    let parameter = Just(Name::ApplicationProperty(PARAMETER.to_owned()));
    let name = prop_oneof![2 => generate::name(), 1 => parameter];
    generate::expression(name.boxed(), Just(Expression::Utc).boxed())
}

fn argument() -> impl Strategy<Value = Expression> {
    prop_oneof![
        generate::name().prop_map(Expression::Field),
        generate::literal().prop_map(Expression::Literal),
        generate::expression(generate::name().boxed(), Just(Expression::Utc).boxed()),
    ]
}

/// A piece of a text with macros: mostly a token, so that many texts get far.
fn piece() -> impl Strategy<Value = String> {
    const TOKENS: [&str; 38] = [
        "f(",
        "G(",
        "h()",
        "big(",
        "UPPER(",
        "EXISTS(",
        "CLAIM(",
        "REGEXP_LIKE(",
        "x",
        "y",
        "a",
        "/a/b",
        "/x (",
        "body.a",
        "[f(]",
        "'f('",
        "LIKE",
        "LIKE 'x'",
        "IS NULL",
        "IN (",
        "(",
        ")",
        ")",
        ")",
        ",",
        ",",
        "=",
        "+",
        "-",
        "/",
        "AND",
        "NOT",
        "BETWEEN",
        "CASE WHEN",
        "THEN",
        "ELSE",
        "END",
        "1",
    ];
    prop_oneof![
        30 => prop::sample::select(&TOKENS[..]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..25).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_call_is_the_text_with_the_argument_in_it(body in body(), argument in argument()) {
        let (body, argument_text) = (body.to_string(), argument.to_string());
        let own = Macro::new("f", &[PARAMETER], &body).expect("fit names");
        let mut macros = Macros::default();
        let is_read = own.check(&macros).is_ok();
        macros.set(own);
        // A name in brackets is none any more.
        let written = match argument {
            Expression::Field(_) => body.replace(PARAMETER, &argument_text),
            _ => body.replace(PARAMETER, &format!("({argument_text})")),
        };
        let expected = parse(&written, wide(), Macros::none());
        let found = parse(&format!("f({argument_text})"), wide(), &macros);
        prop_assert_eq!(found.is_ok(), expected.is_ok(), "{} of {}: {:?}", body, argument_text, found);
        prop_assert!(is_read || found.is_err(), "{}", body);
        if let (Ok(found), Ok(expected)) = (found, expected) {
            prop_assert_eq!(found, expected, "{} of {}", body, argument_text);
        }
    }

    #[test]
    fn no_text_makes_a_panic_and_its_uses_are_known(texts in prop::collection::vec(text(), 4)) {
        let mut macros = Macros::default();
        for (name, text) in ["f", "g", "h"].into_iter().zip(&texts) {
            let parameters: &[&str] = if name == "h" { &[] } else { &["x", "y"][..1 + usize::from(name == "g")] };
            let own = Macro::new(name, parameters, text).expect("fit names");
            if own.check(&macros).is_ok() {
                macros.set(own);
            }
        }
        let text = &texts[3];
        let parsed = parse(text, Limits::content(), &macros);
        // Others than those that it uses make no difference.
        let mut used = Macros::default();
        let mut wanted = calls(text);
        while let Some(name) = wanted.pop_first() {
            if used.get(&name).is_none() && let Some(own) = macros.get(&name) {
                used.set((**own).clone());
                wanted.extend(own.uses());
            }
        }
        prop_assert_eq!(&parse(text, Limits::content(), &used), &parsed, "{} {:?}", text, calls(text));
        match parsed {
            Ok(expression) => {
                let again = parse(&expression.to_string(), wide(), Macros::none());
                prop_assert_eq!(again, Ok(expression), "{}", text);
            }
            Err(error) => prop_assert!(text.is_char_boundary(error.at), "{} {}", text, error),
        }
    }
}
