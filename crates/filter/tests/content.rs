//! Expressions over the body of a message: what they mean, how they are spelled, and where they are refused.

use crate::message;

use filter::{Expression, Limits, Program, Room, Value, WORK_MAX};
use message::{Held, Message};

/// The truth of an expression for a body of JSON.
fn truth(text: &str, body: &str) -> Option<bool> {
    let program = Program::parse(text, &Limits::content()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let message =
        Message { body: body.into(), application: vec![("body", Held::from("bare"))], ..Message::default() };
    let room = Room::default();
    match program.evaluate(&message, &room, 1_000) {
        Value::Null => None,
        Value::Several(_) => program.matches(&message, &mut Room::default(), 1_000).then_some(true),
        value => Some(value == Value::Bool(true)),
    }
}

fn check_all(body: &str, rows: &[(&str, Option<bool>)]) {
    for (text, expected) in rows {
        assert_eq!(truth(text, body), *expected, "{text} of {body}");
    }
}

const TRUE: Option<bool> = Some(true);
const FALSE: Option<bool> = Some(false);
const UNKNOWN: Option<bool> = None;

#[test]
fn places_are_spelled_in_two_ways() {
    for (text, printed) in [
        ("body.order.qty > 1", "body.order.qty > 1"),
        ("/order/qty > 1", "body.order.qty > 1"),
        ("/order/legs/0/venue = 'X'", "body.order.legs[0].venue = 'X'"),
        ("/order/legs[2] = 'X'", "body.order.legs[2] = 'X'"),
        ("/Order/@id = 5", "body.Order['@id'] = 5"),
        ("/55 = 'IBM'", "body[55] = 'IBM'"),
        ("body['a b'].c = 1", "body['a b'].c = 1"),
        ("body[\"it's\"] = 1", "body['it''s'] = 1"),
        ("body[*].x = 1", "body[*].x = 1"),
        ("body.legs[*].x = 1", "body.legs[*].x = 1"),
        ("body._x1[0][1] = 1", "body._x1[0][1] = 1"),
        ("body.not.and.left = 1", "body.not.and.left = 1"),
        ("/a/b / 2 = 1", "body.a.b / 2 = 1"),
        ("/a / b = 1", "body.a / b = 1"),
        ("a / b / 2 = 1", "a / b / 2 = 1"),
        ("(/a)/b = 1", "body.a / b = 1"),
        ("-/a < 0", "-body.a < 0"),
        ("/a * /b > 10", "body.a * body.b > 10"),
        ("x IN (/a, /b)", "x IN (body.a, body.b)"),
        ("x BETWEEN /a AND /b", "x BETWEEN body.a AND body.b"),
        ("CASE WHEN /a > 1 THEN /b ELSE /c END = 1", "CASE WHEN body.a > 1 THEN body.b ELSE body.c END = 1"),
        ("NOT /a", "NOT body.a"),
        ("body = 'bare'", "body = 'bare'"),
        ("body > 1 AND body.a > 1", "body > 1 AND body.a > 1"),
        ("annotations.x = 1", "annotations.x = 1"),
        ("annotations['x-opt'] = 1", "annotations['x-opt'] = 1"),
        ("EXISTS(body.a)", "NOT body.a IS NULL"),
        ("exists(/a)", "NOT body.a IS NULL"),
        ("lower(body.a) = 'x'", "LOWER(body.a) = 'x'"),
        ("CAST(body.a AS NUMBER) > 1", "CAST(body.a AS NUMBER) > 1"),
        ("REGEXP_LIKE(body.a, '^x', 'i')", "REGEXP_LIKE(body.a, '^x', 'i')"),
        ("a > 1 IS TRUE", "(a > 1) IS TRUE"),
        ("a IS TRUE IS NOT FALSE", "NOT (a IS TRUE) IS FALSE"),
        ("(a > 1) IS NOT UNKNOWN", "NOT (a > 1) IS UNKNOWN"),
        ("a NOT BETWEEN 1 AND 2 AND b", "NOT a BETWEEN 1 AND 2 AND b"),
    ] {
        let limits = Limits::content();
        let expression = Expression::parse(text, &limits).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(expression.to_string(), printed, "{text}");
        let again = Expression::parse(printed, &limits).unwrap_or_else(|error| panic!("{printed}: {error}"));
        assert_eq!(again, expression, "{text}");
    }
}

#[test]
fn words_of_ours_are_still_names() {
    // Expressions from before there were bodies are the same expressions.
    for text in [
        "BETWEEN = 1",
        "CASE = 1",
        "CASE / 2 = 1",
        "WHEN > THEN",
        "ELSE OR END",
        "UNKNOWN = 1",
        "CAST = 1",
        "EXISTS1 = 1",
        "body = 1",
        "annotations = 1",
        "WHEN / THEN = 1",
        "case + 1 = 2",
        "LENGTH = 5",
        "AS IS NULL",
    ] {
        let expression =
            Expression::parse(text, &Limits::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(expression.to_string(), text);
    }
    let listed = Expression::parse("CASE NOT IN (1)", &Limits::default()).expect("a name and a list");
    assert_eq!(listed.to_string(), "NOT CASE IN (1)");
}

#[test]
fn faults_have_a_place() {
    for (text, said) in [
        ("body.a > > 3", "at byte 9: a value expected"),
        ("body. a", "at byte 0: a name behind the point expected"),
        ("body.a[", "at byte 0: a place in a list, * or a name in quotation marks expected"),
        ("body[4294967296] = 1", "at byte 0: a place in a list, * or a name in quotation marks expected"),
        ("body['a' = 1", "at byte 0: a closing bracket behind the step expected"),
        ("body['a = 1", "at byte 0: no end of this string or name"),
        ("/@ = 1", "at byte 0: a name behind the @ expected"),
        ("a /", "at byte 3: a value expected"),
        ("/ a = 1", "at byte 0: a value expected"),
        ("annotations.x.y = 1", "at byte 0: one name behind the section expected"),
        ("annotations[0] = 1", "at byte 0: one name behind the section expected"),
        ("shout(a) = 'A'", "at byte 0: shout is no function"),
        ("LOWER() = 'a'", "at byte 0: LOWER takes 1 arguments"),
        ("SUBSTRING(a) = 'a'", "at byte 0: SUBSTRING takes 2 to 3 arguments"),
        ("LOWER(a", "at byte 7: a comma or a closing bracket expected"),
        ("LOWER = 'a'", "at byte 0: LOWER is reserved, write [LOWER] for a name"),
        ("CAST(a AS INT) = 1", "at byte 10: NUMBER, TEXT, BOOLEAN or TIMESTAMP expected"),
        ("CASE WHEN a THEN 1", "at byte 18: WHEN, ELSE or END expected"),
        ("CASE WHEN a ELSE 1 END", "at byte 12: THEN expected"),
        ("a BETWEEN 1", "at byte 11: AND expected"),
        ("a NOT 5", "at byte 6: LIKE, IN or BETWEEN expected"),
        ("REGEXP_LIKE(a, b)", "at byte 15: a pattern in quotation marks expected"),
        ("REGEXP_LIKE(a, 'x', 'g')", "at byte 20: 'i' or '' expected"),
        ("REGEXP_LIKE(a, '(')", "at byte 15: regular expression: unclosed group"),
        ("REGEXP_LIKE(a, '\\1')", "at byte 15: regular expression: backreferences are not supported"),
        ("REGEXP_LIKE(a, 'x{1000}{1000}')", "at byte 15: regular expression: it takes more than 65536 bytes"),
        ("EXISTS(5)", "at byte 7: a name or a path expected"),
    ] {
        let error = Program::parse(text, &Limits::content()).expect_err(text);
        assert_eq!(error.to_string(), said, "{text}");
    }
    let steps = "body".to_owned() + &".a".repeat(33) + " = 1";
    let error = Program::parse(&steps, &Limits::content()).expect_err("33 steps");
    assert_eq!(error.to_string(), "at byte 0: a path of more than 32 steps");
    let paths = (0..65).map(|number| format!("body.a{number} = 1")).collect::<Vec<_>>().join(" OR ");
    let error = Program::parse(&paths, &Limits::content()).expect_err("65 paths");
    assert_eq!(
        error.to_string(),
        format!("at byte {}: more than 64 different paths", paths.rfind("body").unwrap())
    );
    let names = format!("body.a IN ({})", vec!["x"; 201].join(", "));
    let error = Program::parse(&names, &Limits::content()).expect_err("201 names");
    assert_eq!(error.to_string(), format!("at byte {}: more than 200 names of properties", names.len() - 2));
    let same = (0..65).map(|_| "body.a = 1").collect::<Vec<_>>().join(" OR ");
    Program::parse(&same, &Limits::content()).expect("one path");
}

#[test]
fn values_are_those_of_the_document() {
    check_all(
        r#"{"text":"rates","int":7,"neg":-7,"float":1.5,"yes":true,"no":false,"null":null,"map":{"in":{"deep":1}},"":"empty","e":"",
            "esc\u0061pe":"a\"\\\/\b\f\n\r\té😀","body":"inner","55":"IBM","big":99999999999999999999999999999999999999}"#,
        &[
            ("body.text = 'rates'", TRUE),
            ("body.text <> 'rates'", FALSE),
            ("body.text = 5", FALSE),
            ("body.text <> 5", TRUE),
            ("body.text > 'ra'", TRUE),
            ("body.int = 7", TRUE),
            ("body.int = '7'", FALSE),
            ("body.int = 7.0", TRUE),
            ("body.neg < 0", TRUE),
            ("body.int * body.float = 10.5", TRUE),
            ("body.int / 2 = 3.5", TRUE),
            ("body.yes", TRUE),
            ("body.no", FALSE),
            ("NOT body.no", TRUE),
            ("body.yes = TRUE", TRUE),
            ("body.text", Some(false)),
            ("body.null = 1", UNKNOWN),
            ("body.null IS NULL", TRUE),
            ("EXISTS(body.null)", FALSE),
            ("body.none = 1", UNKNOWN),
            ("NOT body.none = 1", UNKNOWN),
            ("body.none IS NULL", TRUE),
            ("body.none IS NOT NULL", FALSE),
            ("body.map.in.deep = 1", TRUE),
            ("body.map = 1", UNKNOWN),
            ("body.map <> 1", UNKNOWN),
            ("body.map IS NULL", FALSE),
            ("EXISTS(body.map.in)", TRUE),
            ("body.text.x = 1", UNKNOWN),
            ("body[''] = 'empty'", TRUE),
            ("body.e = ''", TRUE),
            ("body.e IS NULL", FALSE),
            ("body.escape LIKE 'a\"%'", TRUE),
            ("LENGTH(body.escape) = 11", TRUE),
            ("ENDS_WITH(body.escape, 'é😀')", TRUE),
            ("body.body = 'inner'", TRUE),
            ("body = 'bare'", TRUE),
            ("/55 = 'IBM'", TRUE),
            ("body['55'] = 'IBM'", TRUE),
            ("body.big = 99999999999999999999999999999999999999", TRUE),
            ("body.big > 99999999999999999999999999999999999998", TRUE),
            ("body.int BETWEEN 7 AND 8", TRUE),
            ("body.int NOT BETWEEN 7 AND 8", FALSE),
            ("body.int BETWEEN 8 AND 9", FALSE),
            ("body.none BETWEEN 1 AND 2", UNKNOWN),
            ("body.int BETWEEN body.none AND 6", FALSE),
            ("body.int BETWEEN body.none AND 8", UNKNOWN),
            ("body.text IN ('swaps', 'rates')", TRUE),
            ("body.none IN (1)", UNKNOWN),
            ("body.none = 1 IS UNKNOWN", TRUE),
            ("(body.none = 1) IS NOT TRUE", TRUE),
            ("(body.int = 7) IS TRUE", TRUE),
            ("(body.int = 7) IS FALSE", FALSE),
            ("CASE WHEN body.int > 5 THEN 'large' ELSE 'small' END = 'large'", TRUE),
            ("CASE WHEN body.none = 1 THEN 1 WHEN body.yes THEN 2 ELSE 3 END = 2", TRUE),
            ("REGEXP_LIKE(body.text, '^r.t')", TRUE),
            ("REGEXP_LIKE(body.text, 'ATE')", FALSE),
            ("REGEXP_LIKE(body.text, 'ATE', 'i')", TRUE),
            ("REGEXP_LIKE(body.int, '7')", UNKNOWN),
        ],
    );
}

#[test]
fn lists_are_asked_for_any_of_their_values() {
    check_all(
        r#"{"tags":["a","b",null],"n":[1,2,3],"none":[],"legs":[{"v":"X","q":1},{"v":"Y"},{"w":1},5],
            "deep":[[1,2],[3]],"flags":[false,true],"maps":[{"p":[{"z":1},{"z":2}]},{"p":[{"z":3}]}],"nulls":[{"v":null}]}"#,
        &[
            ("body.tags = 'a'", TRUE),
            ("body.tags = 'z'", UNKNOWN),
            ("body.n = 2", TRUE),
            ("body.n = 9", FALSE),
            ("NOT body.n = 2", FALSE),
            ("NOT (body.n = 9)", TRUE),
            ("body.n > 2", TRUE),
            ("body.n <> 1", TRUE),
            ("body.n[0] = 1", TRUE),
            ("body.n[0] <> 1", FALSE),
            ("body.n[2] = 3", TRUE),
            ("body.n[3] = 3", UNKNOWN),
            ("body.n[*] = 3", TRUE),
            ("body.n BETWEEN 3 AND 9", TRUE),
            ("body.n BETWEEN 2.5 AND 2.6", FALSE),
            ("body.n IN (7, 3)", TRUE),
            ("body.n IN (7, 8)", FALSE),
            ("body.n IN (7, x)", FALSE),
            ("body.tags LIKE 'b%'", TRUE),
            ("body.tags LIKE 'z%'", UNKNOWN),
            ("body.n + 1 = 2", TRUE),
            ("body.none = 1", FALSE),
            ("NOT body.none = 1", TRUE),
            ("body.none IS NULL", FALSE),
            ("EXISTS(body.none)", TRUE),
            ("body.none + 1 = 1", UNKNOWN),
            ("body.legs.v = 'Y'", TRUE),
            ("body.legs.v = 'Z'", FALSE),
            ("body.legs.nothing = 1", FALSE),
            ("EXISTS(body.legs.nothing)", FALSE),
            ("EXISTS(body.legs.w)", TRUE),
            ("body.nulls.v = 1", UNKNOWN),
            ("EXISTS(body.nulls.v)", FALSE),
            ("body.legs[1].v = 'Y'", TRUE),
            ("body.legs[1].v = 'X'", FALSE),
            ("body.legs[*].v = 'X'", TRUE),
            (
                "body.legs[0].v = 'X' AND body.legs.v = 'Y' AND body.legs[*].v = 'Y' AND body.legs[1].v = 'Y'",
                TRUE,
            ),
            ("body.legs.v = body.tags", UNKNOWN),
            ("body.n = body.legs.q", TRUE),
            ("body.deep = 1", UNKNOWN),
            ("body.deep[*] = 3", TRUE),
            ("body.deep[0] = 2", TRUE),
            ("body.deep[0][1] = 2", TRUE),
            ("body.deep[1][1] = 2", UNKNOWN),
            ("body.flags", TRUE),
            ("body.flags IS TRUE", TRUE),
            ("body.maps.p.z = 3", TRUE),
            ("body.maps[*].p.z = 3", TRUE),
            ("ARRAY_LENGTH(body.n) = 3", TRUE),
            ("ARRAY_LENGTH(body.none) = 0", TRUE),
            ("ARRAY_LENGTH(body.legs.v) = 2", TRUE),
            ("ARRAY_SUM(body.n) = 6", TRUE),
            ("ARRAY_SUM(body.legs.q) = 1", TRUE),
            ("ARRAY_MIN(body.tags) = 'a'", TRUE),
            ("ARRAY_MAX(body.n) = 3", TRUE),
            ("ARRAY_MAX(body.none) = 3", UNKNOWN),
            ("REGEXP_LIKE(body.tags, 'b')", TRUE),
            ("STARTS_WITH(body.legs.v, 'Y')", TRUE),
        ],
    );
    check_all(
        r#"[{"a":1},{"a":2}]"#,
        &[("body.a = 2", TRUE), ("body[0].a = 1", TRUE), ("body[*].a = 1", TRUE)],
    );
    check_all(r#"{"a":1}"#, &[("body[*].a = 1", TRUE), ("body.a[*] = 1", TRUE), ("body[0].a = 1", UNKNOWN)]);
}

#[test]
fn the_first_of_two_members_counts() {
    check_all(
        r#"{"a":1,"a":2,"b":{"c":1},"b":{"d":2},"l":[{"x":1,"x":9}]}"#,
        &[
            ("body.a = 1", TRUE),
            ("body.b.c = 1", TRUE),
            ("body.b.d = 2", UNKNOWN),
            ("body.l.x = 9", FALSE),
            ("body.a = 2 AND body.z = 1", FALSE),
        ],
    );
}

#[test]
fn nothing_behind_a_fault_counts() {
    for (body, rows) in [
        (
            r#"{"a":1,"b":tru,"c":3}"#,
            &[("body.a = 1", TRUE), ("body.b IS NULL", UNKNOWN), ("body.c = 3", UNKNOWN)][..],
        ),
        (
            r#"{"a":1,"b":2"#,
            &[("body.b = 2", TRUE), ("body.c IS NULL", UNKNOWN), ("EXISTS(body.c)", UNKNOWN)],
        ),
        (r#"{"a":1} x"#, &[("body.a = 1", TRUE), ("body.c IS NULL", UNKNOWN)]),
        (r#"{"a":01}"#, &[("body.a = 1", UNKNOWN)]),
        ("{\"a\":\"x\ny\"}", &[("body.a IS NULL", UNKNOWN)]),
        (r#"{"a":"\q"}"#, &[("body.a IS NULL", UNKNOWN)]),
        (r#"{"a":"\ud800"}"#, &[("body.a IS NULL", UNKNOWN)]),
        (
            r#"{"l":[1,2,"#,
            &[("body.l = 2", TRUE), ("body.l = 3", UNKNOWN), ("ARRAY_LENGTH(body.l) = 2", UNKNOWN)],
        ),
        (r#"{"l":[1 2]}"#, &[("body.l = 1", TRUE), ("body.l = 2", UNKNOWN)]),
        (r#"{"l":[1,]}"#, &[("body.l = 1", TRUE), ("body.l = 2", UNKNOWN)]),
        (r#"{"a" 1}"#, &[("body.a = 1", UNKNOWN)]),
        (r#"{a:1}"#, &[("body.a = 1", UNKNOWN)]),
        ("", &[("body.a = 1", UNKNOWN), ("body.a IS NULL", UNKNOWN)]),
        ("\u{feff}{\"a\":1}", &[("body.a = 1", UNKNOWN)]),
    ] {
        check_all(body, rows);
    }
}

/// Conditions one beside the other, in a tree that is not deep.
fn beside(condition: &str, count: usize) -> String {
    match count {
        1 => condition.to_owned(),
        count => format!("({} OR {})", beside(condition, count / 2), beside(condition, count - count / 2)),
    }
}

/// Each row would take a tenth of a second, and some a hundred times that, without the bound: it is unknown then.
#[test]
fn work_on_a_message_is_bounded() {
    let mut dice = 1_u64;
    let letters: String = (0..65_000)
        .map(|_| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if dice >> 63 == 0 { 'a' } else { 'b' }
        })
        .collect();
    let one = format!(r#"{{"s":"{letters}"}}"#);
    let texts = format!(r#"{{"l":[{}]}}"#, vec![format!("\"{letters}\""); 16].join(","));
    let [low, high] = [0, 5000]
        .map(|from| (from..from + 1000).map(|number| number.to_string()).collect::<Vec<_>>().join(","));
    let numbers = format!(r#"{{"l":[{low}],"h":[{high}]}}"#);
    for (text, body) in [
        ("REGEXP_LIKE(body.s, '[ab]*a[ab]{300}c')".to_owned(), &one),
        (beside("REGEXP_LIKE(body.l, 'a[ab]{100}c')", 16), &texts),
        (beside("body.l LIKE '%a_c%'", 400), &texts),
        (beside("body.s LIKE '%a_c%'", 600), &one),
        (format!("body.l IN ({})", vec!["body.z + 1"; 1000].join(",")), &numbers),
        (format!("body.l IN ({})", vec!["body.z"; 1900].join(",")), &numbers),
        (beside("body.l > 5000", 600), &numbers),
        (beside("body.l > body.h", 300), &numbers),
        (beside("body.l BETWEEN body.h AND body.l", 300), &numbers),
        (beside("ARRAY_SUM(body.l) = 1", 350), &numbers),
        (beside("CONTAINS(body.l, 'abc')", 350), &texts),
        (beside("LOWER(body.s) = 'x'", 350), &one),
    ] {
        let program =
            Program::parse(&text, &Limits::content()).unwrap_or_else(|error| panic!("{text:.60}: {error}"));
        let message = Message { body: body.as_bytes().into(), ..Message::default() };
        let mut room = Room::default();
        let verdict = program.verdict(&message, &mut room, 0);
        assert_ne!(verdict, Some(true), "{text:.60}");
        // The last step of an expression may pass over states once more.
        assert!(room.spent() <= WORK_MAX + (WORK_MAX >> 4), "{} units: {text:.60}", room.spent());
        let is_dear = room.spent() > WORK_MAX / 4;
        assert!(is_dear || verdict.is_none(), "{} units: {text:.60}", room.spent());
    }
}
