//! `REGEXP_REPLACE` and `JSON_VALUE`: what they mean, and where they are refused. Replacements at random are those of
//! another engine, the crate `regex-lite`, whose classes are of ASCII too.

use crate::message;

use filter::{Expression, Limits, Program, Room, TEXT_BYTES_MAX, Value, WORK_MAX};
use message::Message;
use proptest::prelude::*;
use regex_lite::{NoExpand, RegexBuilder};

fn value(text: &str, message: &Message) -> (Option<String>, usize) {
    let program = Program::parse(text, &Limits::content()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let room = Room::default();
    let value = match program.evaluate(message, &room, 0) {
        Value::Bytes(bytes) => Some(String::from_utf8(bytes.to_vec()).expect("a text")),
        Value::Integer(number) => Some(number.to_string()),
        Value::Null => None,
        value => panic!("{text} is {value:?}"),
    };
    (value, room.spent())
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// An expression that replaces matches in a property.
fn replaced(subject: &str, pattern: &str, with: &str, flags: &str) -> (Option<String>, usize) {
    let text = format!("REGEXP_REPLACE(a, {}, {}, '{flags}')", quoted(pattern), quoted(with));
    value(&text, &Message { application: vec![("a", subject.into())], ..Message::default() })
}

fn refused(text: &str) -> String {
    Expression::parse(text, &Limits::content()).expect_err(text).to_string()
}

#[test]
fn matches_are_replaced_from_left_to_right() {
    for (subject, pattern, with, expected) in [
        ("a1b22c", "[0-9]+", "#", "a#b#c"),
        ("aaa", "a", "bb", "bbbbbb"),
        ("abc", "x", "-", "abc"),
        ("abc", "", "-", "-a-b-c-"),
        ("xabxxc", "x*", "-", "-a-b-c-"),
        ("aab", "a|ab", "-", "--b"),
        ("aab", "ab|a", "-", "--"),
        ("abcabc", "^abc", "-", "-abc"),
        ("abcabc", "abc$", "-", "abc-"),
        ("a b ab", "\\bab\\b", "-", "a b -"),
        ("aXbxc", "x", "", "aXbc"),
        ("Grüße, ü", "ü", "ue", "Grueße, ue"),
        ("日本", "", "-", "-日-本-"),
        ("日本", "\\B", "-", "-日-本-"),
        ("a.b", ".", "it's $ \\ x", "it's $ \\ xit's $ \\ xit's $ \\ x"),
        ("xyz", "(?:x|y)+?", "-", "--z"),
        ("", "^$", "-", "-"),
        ("", "a", "-", ""),
    ] {
        assert_eq!(
            replaced(subject, pattern, with, "").0.as_deref(),
            Some(expected),
            "{pattern} in {subject}"
        );
    }
    assert_eq!(replaced("aXbxc", "x", "", "i").0.as_deref(), Some("abc"));
    let message = Message { body: br#"{"all": ["a1", "b2"], "n": 5}"#.to_vec(), ..Message::default() };
    for (text, expected) in [
        ("REGEXP_REPLACE(body.all, '[0-9]', '')", Some("a")),
        ("REGEXP_REPLACE(body.n, '5', 'x')", None),
        ("REGEXP_REPLACE(body.none, '5', 'x')", None),
        ("REGEXP_REPLACE(0xFF, '5', 'x')", None),
        ("LENGTH(REGEXP_REPLACE(REGEXP_REPLACE('abc', 'a', 'bb'), 'b', ''))", Some("1")),
    ] {
        assert_eq!(value(text, &message).0.as_deref(), expected, "{text}");
    }
}

#[test]
fn what_is_no_replacement_is_refused() {
    for (text, said) in [
        ("REGEXP_REPLACE(a, b, 'x')", "at byte 18: a pattern in quotation marks expected"),
        ("REGEXP_REPLACE(a, 'b')", "at byte 21: a comma expected"),
        ("REGEXP_REPLACE(a, 'b', c)", "at byte 23: a replacement in quotation marks expected"),
        ("REGEXP_REPLACE(a, 'b', 'x', 'g')", "at byte 28: 'i' or '' expected"),
        ("REGEXP_REPLACE(a, '(b', 'x')", "at byte 18: regular expression: unclosed group"),
        ("REGEXP_REPLACE(a, '(b)', '$1')", "at byte 26: $1 refers to a group, which a replacement cannot"),
        (
            "REGEXP_REPLACE(a, '(b)', 'it''s ${b}c')",
            "at byte 32: ${b}c refers to a group, which a replacement cannot",
        ),
        ("REGEXP_REPLACE(a, '(b)', 'x\\2')", "at byte 27: \\2 refers to a group, which a replacement cannot"),
        ("REGEXP_REPLACE(a, '(b)', '\\&')", "at byte 26: \\& refers to a group, which a replacement cannot"),
        (
            "REGEXP_REPLACE(a, '(b)', '$name')",
            "at byte 26: $name refers to a group, which a replacement cannot",
        ),
        ("REGEXP_REPLACE(a, 'b', 'x' 'i')", "at byte 27: a comma or a closing bracket expected"),
    ] {
        assert_eq!(refused(text), said, "{text}");
    }
    let many = |count: usize| vec!["REGEXP_REPLACE(a, 'b', 'c') = REGEXP_LIKE(a, 'b')"; count].join(" OR ");
    assert!(Expression::parse(&many(8), &Limits::content()).is_ok());
    assert!(refused(&many(9)).ends_with("more than 16 regular expressions"));
    assert!(
        refused("REGEXP_REPLACE(a, '(?:[a-z]{99}){99}', 'c')").ends_with("it takes more than 65536 bytes")
    );
}

#[test]
fn what_a_replacement_may_cost_is_bounded() {
    let long = "x".repeat(TEXT_BYTES_MAX);
    assert_eq!(replaced(&long, "y", "-", "").0, Some(long.clone()));
    assert_eq!(replaced(&format!("{long}x"), "y", "-", "").0, None);
    assert_eq!(replaced(&long, "^x", "", "").0.map(|text| text.len()), Some(TEXT_BYTES_MAX - 1));
    assert_eq!(replaced(&long, "^x", "xx", "").0, None);
    assert_eq!(replaced(&long, "x", "", "").0, Some(String::new()));
    assert_eq!(replaced(&long, "x", "yy", "").0, None);
    assert_eq!(replaced(&long[..30_000], "", "-", "").0.map(|text| text.len()), Some(60_001));
    // From each place the whole rest is walked through, in vain.
    for length in [100, 200, 400] {
        let (outcome, spent) = replaced(&"a".repeat(length), "[^z]*z|a", "b", "");
        assert_eq!(outcome, Some("b".repeat(length)));
        let expected = length * length / 2 / 6;
        assert!((expected..2 * expected + 1000).contains(&spent), "{spent}, about {expected}");
    }
    let (outcome, spent) = replaced(&"a".repeat(5000), "[^z]*z|a", "b", "");
    assert_eq!((outcome, spent), (None, WORK_MAX));
    // And once where each match is as far as it is walked.
    let (outcome, spent) = replaced(&"ab".repeat(10_000), "ab", "c", "");
    assert_eq!(outcome, Some("c".repeat(10_000)));
    assert!((20_000 / 6..40_000).contains(&spent), "{spent}");
    // One that makes new steps for ever is given up.
    let mut dice = 1_u64;
    let letters: String = (0..20_000)
        .map(|_| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if dice >> 63 == 0 { 'a' } else { 'b' }
        })
        .collect();
    let (outcome, spent) = replaced(&letters, "a[ab]{40}c", "", "");
    assert_eq!((outcome.map(|text| text.len()), spent), (None, WORK_MAX));
}

#[test]
fn places_in_the_body_are_spelled_as_in_sql() {
    for (path, printed) in [
        ("$.a.b[0]", "body.a.b[0]"),
        (" $ . a [ * ] .b ", "body.a[*].b"),
        ("lax $.a", "body.a"),
        ("$[2][*]", "body[2][*]"),
        ("$.\"any name\".c", "body['any name'].c"),
        ("$.\"\\u0061\\\"\\\\\"", "body['a\"\\']"),
        ("$.größe", "body['größe']"),
        ("$.$x_1", "body['$x_1']"),
        ("$.\"it''s\"", "body['it''s']"),
    ] {
        let text = format!("json_value(Body(), '{path}') = 1");
        let expression =
            Expression::parse(&text, &Limits::content()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(expression.to_string(), format!("{printed} = 1"), "{text}");
        assert_eq!(Expression::parse(&expression.to_string(), &Limits::content()), Ok(expression), "{text}");
    }
    let is_null = Expression::parse("JSON_VALUE(BODY(), '$.a') IS NULL", &Limits::content()).expect("a name");
    assert_eq!(is_null.to_string(), "body.a IS NULL");
    let message = Message { body: br#"{"a": {"b": [7, 8]}}"#.to_vec(), ..Message::default() };
    assert_eq!(value("JSON_VALUE(BODY(), '$.a.b[1]')", &message).0.as_deref(), Some("8"));
    assert_eq!(value("JSON_VALUE(BODY(), '$.a.c')", &message).0, None);
}

#[test]
fn paths_that_are_none_have_a_place() {
    for (text, said) in [
        ("JSON_VALUE(body.a, '$.a')", "at byte 11: BODY() expected"),
        ("JSON_VALUE(a, '$.a')", "at byte 11: BODY() expected"),
        ("JSON_VALUE(BODY, '$.a')", "at byte 15: () expected"),
        ("JSON_VALUE(BODY(1), '$.a')", "at byte 16: a closing bracket expected"),
        ("JSON_VALUE(BODY())", "at byte 17: a comma expected"),
        ("JSON_VALUE(BODY(), a)", "at byte 19: a path in quotation marks expected"),
        ("JSON_VALUE(BODY(), '')", "at byte 20: $ expected"),
        ("JSON_VALUE(BODY(), 'a.b')", "at byte 20: $ expected"),
        ("JSON_VALUE(BODY(), 'strict $.a')", "at byte 20: $ expected"),
        ("JSON_VALUE(BODY(), '$')", "at byte 21: a step behind the $ expected"),
        ("JSON_VALUE(BODY(), '$.')", "at byte 22: a name behind the point expected"),
        ("JSON_VALUE(BODY(), '$.*')", "at byte 22: a name behind the point expected"),
        ("JSON_VALUE(BODY(), '$.1a')", "at byte 22: a name behind the point expected"),
        ("JSON_VALUE(BODY(), '$.a[')", "at byte 24: a place in a list, or * expected"),
        ("JSON_VALUE(BODY(), '$.a[-1]')", "at byte 24: a place in a list, or * expected"),
        ("JSON_VALUE(BODY(), '$.a[4294967296]')", "at byte 24: a place in a list, or * expected"),
        ("JSON_VALUE(BODY(), '$.a[0 to 2]')", "at byte 26: a closing bracket behind the step expected"),
        (
            "JSON_VALUE(BODY(), '$.a ? (@ > 1)')",
            "at byte 24: a point, a bracket or the end of the path expected",
        ),
        ("JSON_VALUE(BODY(), '$.it''s')", "at byte 24: a point, a bracket or the end of the path expected"),
        (
            "JSON_VALUE(BODY(), '$.\"it''s\".b c')",
            "at byte 32: a point, a bracket or the end of the path expected",
        ),
        ("JSON_VALUE(BODY(), \"$.\"\"a\")", "at byte 22: no end of this string or name"),
        ("JSON_VALUE(BODY(), '$.\"\\x\"')", "at byte 22: a name behind the point expected"),
        ("JSON_VALUE(BODY(), '$.a', 1)", "at byte 24: a comma or a closing bracket expected"),
        ("BODY() = 1", "at byte 0: JSON_VALUE around BODY() expected"),
    ] {
        assert_eq!(refused(text), said, "{text}");
    }
    let deep = |steps: usize| format!("JSON_VALUE(BODY(), '${}')", ".a".repeat(steps));
    assert!(Expression::parse(&deep(32), &Limits::content()).is_ok());
    assert_eq!(refused(&deep(33)), "at byte 85: a path of more than 32 steps");
    assert_eq!(refused(&deep(20_000)), "at byte 85: a path of more than 32 steps");
}

/// Patterns that both engines have.
fn pattern() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(
        &[
            "a", "b", "ö", ".", "[ab]", "[^a]", "\\w", "\\W", "\\b", "\\B", "^", "$", "(?m:^)", "(?m:$)",
            "[a-ö]", "",
        ][..],
    );
    leaf.prop_map(str::to_owned).prop_recursive(4, 16, 3, |inside| {
        let repeat = prop::sample::select(&["*", "+", "?", "{1,2}", "{2}", "*?", "+?", "??"][..]);
        prop_oneof![
            (inside.clone(), repeat).prop_map(|(one, repeat)| format!("(?:{one}){repeat}")),
            (inside.clone(), inside.clone()).prop_map(|(left, right)| format!("{left}{right}")),
            (inside.clone(), inside).prop_map(|(left, right)| format!("(?:{left}|{right})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn replacements_are_those_of_another_engine(
        pattern in pattern(),
        subjects in prop::collection::vec("[abö_ \n日]{0,8}", 1..6),
        ignores_case in any::<bool>(),
    ) {
        let oracle = RegexBuilder::new(&pattern).case_insensitive(ignores_case).build().expect("a pattern");
        let flags = if ignores_case { "i" } else { "" };
        for subject in &subjects {
            let expected = oracle.replace_all(subject, NoExpand("<>"));
            let (outcome, _) = replaced(subject, &pattern, "<>", flags);
            prop_assert_eq!(outcome.as_deref(), Some(&*expected), "{} in {:?}", pattern, subject);
        }
    }
}
