//! Macros: which there may be, what calls of them stand for, and how far they go.

use filter::{
    Asker, ErrorKind, Expression, Known, Limits, Macro, Macros, MessageField, Names, Program, Site, calls,
};

/// Those of the tests, each with its parameters and its expression.
const MACROS: [(&str, &[&str], &str); 16] = [
    ("big", &["low"], "/qty * /price > low"),
    ("value", &[], "/qty * /price"),
    ("Huge", &[], "big(1000 * 1000) AND vip"),
    ("both", &["a", "b"], "a AND b"),
    ("within", &["x", "low", "high"], "x >= low AND x <= high"),
    ("twice", &["x"], "x + x"),
    ("four", &["x"], "twice(twice(x))"),
    ("venue", &["pattern"], "/legs/venue LIKE pattern ESCAPE '!'"),
    ("matches", &["x", "pattern"], "REGEXP_LIKE(x, pattern, 'i')"),
    ("has", &["x"], "EXISTS(x) AND x IS NOT NULL"),
    ("ignore", &["x"], "TRUE"),
    ("mine", &[], "owner = USER()"),
    ("late", &["n"], "OFFSET() > n"),
    ("claims", &["name"], "CLAIM(name) = 1"),
    ("kind", &["x"], "CASE WHEN x > 0 THEN 'plus' ELSE 'minus' END"),
    ("named", &["low"], "[low] > low AND a.low = 1"),
];

fn macros_of(all: &[(&str, &[&str], &str)]) -> Macros {
    let mut macros = Macros::default();
    for (name, parameters, text) in all {
        let own = Macro::new(name, parameters, text).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        own.check(&macros).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        macros.set(own);
    }
    macros
}

fn parse(text: &str, names: Names, limits: Limits, macros: &Macros) -> Result<Expression, filter::Error> {
    Expression::parse_at(text, &Site { limits, known: Known::ALL, names, macros })
}

#[test]
fn calls_are_what_they_stand_for() {
    let macros = macros_of(&MACROS);
    let check_of = |names, text: &str, expected: &str| {
        let found = parse(text, names, Limits::content(), &macros);
        let found = found.unwrap_or_else(|fault| panic!("{text}: {fault}"));
        let written = Expression::parse(expected, &Limits::content()).expect(expected);
        assert_eq!(found, written, "{text}");
        Program::compile(&found.bound(&Asker::default())).expect("a program");
        // As it is told it needs no macros.
        assert_eq!(Expression::parse(&found.to_string(), &Limits::content()), Ok(written), "{found}");
    };
    let check = |text: &str, expected: &str| check_of(Names::Own, text, expected);
    check("big(100)", "/qty * /price > 100");
    check("BIG ( 100 ) OR Big(header.priority)", "/qty * /price > 100 OR /qty * /price > header.priority");
    // An argument is a value by itself, and so is the whole.
    check("big(1 + 2) AND NOT big(a)", "(/qty * /price > (1 + 2)) AND NOT (/qty * /price > a)");
    check("value() / 2 > value() - 1", "(/qty * /price) / 2 > (/qty * /price) - 1");
    check("twice(2) * 3 = 12", "(2 + 2) * 3 = 12");
    check("huge()", "/qty * /price > 1000 * 1000 AND vip");
    check("both(a = 1 OR b = 1, NOT c)", "(a = 1 OR b = 1) AND NOT c");
    check("within(/price, 1, twice(5))", "/price >= 1 AND /price <= (5 + 5)");
    check("four(x) = 1", "((x + x) + (x + x)) = 1");
    check("big(big(1))", "/qty * /price > (/qty * /price > 1)");
    check(
        "a IN (twice(1), 2) AND b BETWEEN twice(1) AND value()",
        "a IN (1+1, 2) AND b BETWEEN 1+1 AND (/qty * /price)",
    );
    // A text may be a pattern.
    check("venue('X%')", "/legs/venue LIKE 'X%' ESCAPE '!'");
    check("matches(LOWER(name), '^a')", "REGEXP_LIKE(LOWER(name), '^a', 'i')");
    check("claims('level')", "CLAIM('level') = 1");
    // A name may be asked for.
    check(
        "has(/a/b) AND has(properties.subject)",
        "(EXISTS(/a/b) AND /a/b IS NOT NULL) AND (EXISTS(properties.subject) AND properties.subject IS NOT NULL)",
    );
    check("kind(body.n) = 'plus'", "CASE WHEN body.n > 0 THEN 'plus' ELSE 'minus' END = 'plus'");
    check("ignore(a)", "TRUE");
    check("late(5) AND mine()", "OFFSET() > 5 AND owner = USER()");
    // A name in brackets, or with a section, is no parameter; nor is one of the text that calls.
    check("named(low)", "[low] > low AND a.low = 1");
    check("low = 1 AND big(low) AND big = 2", "low = 1 AND /qty * /price > low AND big = 2");
    // Arguments are in the names of the text that calls, the macro in ours.
    check_of(
        Names::Jms,
        "big(JMSPriority) and jmspriority > 1",
        "/qty * /price > header.priority AND jmspriority > 1",
    );
    check_of(Names::Jms, "twice(JMSXDeliveryCount) > 1", "(DELIVERIES() + 1) + (DELIVERIES() + 1) > 1");
    check_of(Names::Jms, "mine()", "owner = USER()");
}

#[test]
fn expanded_expressions_keep_their_classes() {
    let macros = macros_of(&MACROS);
    let parsed = parse("mine()", Names::Own, Limits::content(), &macros).unwrap();
    let ann = Asker { user: "ann", ..Asker::default() };
    assert_eq!(parsed.bound(&ann).to_string(), "owner = 'ann'");
    let site = Site {
        limits: Limits::content(),
        known: Known::of(&[MessageField::Size]),
        names: Names::Own,
        macros: &macros,
    };
    let refused = |text| Expression::parse_at(text, &site).unwrap_err().to_string();
    assert_eq!(refused("a AND late(1)"), "at byte 6: in late, at byte 0: OFFSET() is not known here");
    assert_eq!(refused("mine()"), "at byte 0: in mine, at byte 8: USER() is not known here");
    // Where it stands in an argument it is refused as everywhere.
    assert_eq!(refused("big(OFFSET())"), "at byte 4: OFFSET() is not known here");
}

#[test]
fn faults_are_told_where_the_call_is() {
    let macros = macros_of(&MACROS);
    let check = |text: &str, expected: &str| {
        let found = parse(text, Names::Own, Limits::content(), &macros).expect_err(text);
        assert_eq!(found.to_string(), expected, "{text}");
    };
    check("a = 1 AND bigg(1)", "at byte 10: bigg is no function");
    check("big()", "at byte 0: big takes 1 arguments");
    check("a AND big(1, 2)", "at byte 6: big takes 1 arguments");
    check("huge(1)", "at byte 0: Huge takes no arguments");
    check("within(1, 2)", "at byte 0: within takes 3 arguments");
    check("big(1", "at byte 5: a comma or a closing bracket expected");
    check("big(1,)", "at byte 6: a value expected");
    check("big(a b)", "at byte 6: a comma or a closing bracket expected");
}

#[test]
fn arguments_fit_where_parameters_stand() {
    let macros = macros_of(&MACROS);
    let check = |text: &str, expected: &str| {
        let found = parse(text, Names::Own, Limits::content(), &macros).expect_err(text);
        assert_eq!(found.to_string(), expected, "{text}");
    };
    check("venue(1)", "at byte 0: in venue, at byte 17: a pattern in quotation marks expected");
    check("venue('a!')", "at byte 0: in venue, at byte 17: the pattern ends in its escape character");
    check("TRUE AND venue(x)", "at byte 9: in venue, at byte 17: a pattern in quotation marks expected");
    check("has(1)", "at byte 0: in has, at byte 7: a name or a path expected");
    check("claims(USER())", "at byte 0: in claims, at byte 6: a name in quotation marks expected");
}

#[test]
fn macros_have_fit_names() {
    let check = |name: &str, parameters: &[&str], expected: &str| {
        let fault = Macro::new(name, parameters, "1").err().map(|fault| fault.to_string());
        assert_eq!(fault.unwrap_or_default(), expected, "{name}({parameters:?})");
    };
    check("big", &["low", "Low", "low_2"], "");
    check("a2_b", &[], "");
    let no_name =
        |name: &str| format!("'{name}' is no name: it takes a letter, then letters, digits and underscores");
    for name in ["", "2a", "_a", "a-b", "a.b", "a b", "größe", "[a]"] {
        check(name, &[], &no_name(name));
        check("f", &["x", name], &no_name(name));
    }
    for name in
        ["AND", "like", "Upper", "exists", "case", "when", "between", "size", "USER", "claim", "body", "hash"]
    {
        let expected = format!("{name} is a word or a function of the language");
        check(name, &[], &expected);
        check("f", &[name], &expected);
    }
    check("f", &["a", "b", "a"], "two parameters have the name a");
    let many: Vec<String> = (0..17).map(|number| format!("p{number}")).collect();
    let many: Vec<&str> = many.iter().map(|name| &**name).collect();
    check("f", &many[..16], "");
    check("f", &many, "more than 16 parameters");
}

#[test]
fn macros_have_expressions_that_can_be_read() {
    let macros = macros_of(&MACROS);
    let check = |parameters: &[&str], text: &str, expected: &str| {
        let own = Macro::new("new", parameters, text).unwrap();
        let fault = own.check(&macros).err().map(|fault| fault.to_string());
        assert_eq!(fault.unwrap_or_default(), expected, "{text}");
    };
    check(&["x"], "x LIKE x ESCAPE 'x' AND REGEXP_LIKE(x, x, x) AND x IS NULL AND EXISTS(x)", "");
    check(&["x"], "a LIKE 'a' ESCAPE x", "at byte 18: ESCAPE takes exactly one character");
    check(&["x"], "REGEXP_REPLACE(x, x, x) = x AND TOPIC_MATCH(x) AND big(x) IN (x, -x)", "");
    // Handed on it may be a text as well.
    check(&["x"], "venue(x) AND matches(name, x)", "");
    check(&["x"], "venue(x + 1)", "at byte 0: in venue, at byte 17: a pattern in quotation marks expected");
    check(&["x"], "venue(y)", "at byte 0: in venue, at byte 17: a pattern in quotation marks expected");
    check(&[], "", "at byte 0: a value expected");
    check(&[], "a = ", "at byte 4: a value expected");
    check(&[], "a = 1 b", "at byte 6: an operator or the end expected");
    check(&[], "new(1)", "at byte 0: new is no function");
    check(&[], "a AND other(1)", "at byte 6: other is no function");
    check(&[], "big(1, 2)", "at byte 0: big takes 1 arguments");
    check(&["x"], "x(1)", "at byte 0: x is no function");
    check(&["x"], "JSON_VALUE(BODY(), x)", "at byte 19: $ expected");
}

#[test]
fn macros_are_objects_of_json() {
    let check =
        |object: &str, expected: Result<(&str, &[&str]), &str>| match (Macro::read("m", object), expected) {
            (Ok(own), Ok((text, parameters))) => {
                let own_parameters: Vec<&str> = own.parameters().iter().map(|name| &**name).collect();
                assert_eq!((own.text(), &*own_parameters), (text, parameters), "{object}");
            }
            (Err(fault), Err(expected)) => assert_eq!(fault.to_string(), expected, "{object}"),
            (found, expected) => panic!("{object}: {found:?}, expected {expected:?}"),
        };
    check(r#"{"expression": "a = 1"}"#, Ok(("a = 1", &[])));
    check(
        r#" {"parameters": ["x", "y"], "expression": "x = '\u00e9\"\n'"} "#,
        Ok(("x = 'é\"\n'", &["x", "y"])),
    );
    check(r#"{"parameters": [], "expression": "1"}"#, Ok(("1", &[])));
    check(r#"{"parameters": null, "expression": "1"}"#, Ok(("1", &[])));
    check(r#"{"parameters": ["x"], "more": {"expression": 2}, "expression": "1"}"#, Ok(("1", &["x"])));
    for object in [
        "",
        "{",
        "[]",
        "1",
        "\"expression\"",
        r#"{"expression": "1""#,
        r#"[{"expression": "1"}]"#,
        r#"{"expression": "\ud800"}"#,
    ] {
        check(object, Err("it is to be an object"));
    }
    for object in [
        "{}",
        r#"{"expression": 1}"#,
        r#"{"expression": ["1"]}"#,
        r#"{"expression": null}"#,
        r#"{"Expression": "1"}"#,
    ] {
        check(object, Err("expression is to be a text"));
    }
    for parameters in ["\"x\"", "1", "{}", "[1]", "[\"x\", null]", "{\"0\": \"x\"}"] {
        check(
            &format!(r#"{{"expression": "1", "parameters": {parameters}}}"#),
            Err("parameters are to be a list of texts"),
        );
    }
    check(r#"{"expression": "1", "parameters": ["a", "a"]}"#, Err("two parameters have the name a"));
}

#[test]
fn uses_of_macros_are_found_without_them() {
    let uses = |text: &str| calls(text).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(uses("Big(small(1)) AND UPPER(a) = b"), "BIG SMALL");
    let own = Macro::new("f", &["x"], "big(x) OR x = g()").unwrap();
    assert_eq!(own.uses().into_iter().collect::<Vec<_>>().join(" "), "BIG G");
}

#[test]
fn limits_hold_for_what_is_expanded() {
    let mut all: Vec<(String, String)> = vec![("m0".to_owned(), "x + x".to_owned())];
    for level in 1..16 {
        all.push((format!("m{level}"), format!("m{0}(x) + m{0}(x)", level - 1)));
    }
    let mut macros = Macros::default();
    for (name, text) in &all {
        macros.set(Macro::new(name, &["x"], text).unwrap());
    }
    let fault = |text: &str, limits: Limits| {
        let mut error = parse(text, Names::Own, limits, &macros).expect_err(text);
        let at = error.at;
        while let ErrorKind::InMacro { fault, .. } = error.kind {
            error = *fault;
        }
        (at, error.kind)
    };
    assert!(parse("m3(a) > 1", Names::Own, Limits::content(), &macros).is_ok());
    // Names: each `x` is one.
    let names_max = Limits::content().names_max;
    assert_eq!(fault("1 < m8(a)", Limits::content()), (4, ErrorKind::TooManyNames { names_max }));
    // Tokens of macros and of arguments.
    for argument in ["1", "/a", "(1 + 2 + 3)", "'text'"] {
        let text = format!("1 = m15({argument})");
        assert_eq!(fault(&text, Limits::content()), (4, ErrorKind::TooManyTokens { tokens_max: 4096 }));
    }
    assert_eq!(fault("m6(1) > 0", Limits::default()), (0, ErrorKind::TooManyTokens { tokens_max: 200 }));
    // Characters of arguments.
    let long = format!("m5('{}') = 'a'", "x".repeat(10_000));
    assert_eq!(fault(&long, Limits::content()), (0, ErrorKind::TooLong { characters_max: 65_536 }));
    let limits = Limits { depth_max: 12, ..Limits::content() };
    assert_eq!(fault("m15(1) > 0", limits), (0, ErrorKind::TooDeep { depth_max: 12 }));
    assert!(parse("m5(1) > 0", Names::Own, limits, &macros).is_ok());
}

#[test]
fn work_is_bounded_whatever_is_thrown_away() {
    // Each level reads the one below twice and uses nothing of it.
    let mut macros = Macros::default();
    macros.set(Macro::new("ignore", &["x", "y"], "1").unwrap());
    macros.set(Macro::new("m0", &[], "1 + 1").unwrap());
    for level in 1..16 {
        let text = format!("ignore(m{0}(), m{0}())", level - 1);
        macros.set(Macro::new(&format!("m{level}"), &[], &text).unwrap());
    }
    assert!(parse("m3() = 1", Names::Own, Limits::content(), &macros).is_ok());
    assert!(parse("m14() = 1", Names::Own, Limits::content(), &macros).is_err());
    // A long argument that is handed on and on.
    let long: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    macros.set(Macro::new("c0", &["x"], "x").unwrap());
    for level in 1..15 {
        let own = Macro::new(&format!("c{level}"), &["x"], &format!("c{}(x)", level - 1));
        macros.set(own.unwrap());
    }
    let text =
        format!("c14({}) = 1", long.join(" + ")).replace(" + ", ", ").replacen("c14(", "c14(a IN (", 1);
    let text = text.replacen(") = 1", ")) = TRUE", 1);
    assert!(parse(&text, Names::Own, Limits::content(), &macros).is_ok());
}

#[test]
fn macros_that_use_one_another_end() {
    // None can be made so one after the other; a catalog that was tampered with has them.
    let mut macros = Macros::default();
    macros.set(Macro::new("f", &["x"], "g(x) AND a").unwrap());
    macros.set(Macro::new("g", &["x"], "f(x) OR b").unwrap());
    macros.set(Macro::new("h", &["x"], "h(h(x))").unwrap());
    for text in ["f(1)", "g(f(1))", "h(1)", "h(h(1))"] {
        assert!(parse(text, Names::Own, Limits::content(), &macros).is_err(), "{text}");
    }
    let mut deepest = parse("f(1)", Names::Own, Limits::content(), &macros).unwrap_err();
    while let ErrorKind::InMacro { fault, .. } = deepest.kind {
        deepest = *fault;
    }
    assert_eq!(deepest.kind, ErrorKind::MacrosTooDeep { depth_max: 16 });
}

#[test]
fn macros_are_found_in_any_case() {
    let mut macros = macros_of(&MACROS);
    assert_eq!((macros.len(), macros.get("BiG").map(|own| own.name())), (MACROS.len(), Some("big")));
    macros.set(Macro::new("BIG", &[], "1").unwrap());
    assert_eq!((macros.len(), macros.get("big").map(|own| own.text())), (MACROS.len(), Some("1")));
    macros.clear("Big");
    assert!(macros.get("big").is_none() && !macros.is_empty());
    assert!(Macros::none().is_empty() && Macros::none().get("big").is_none());
}
