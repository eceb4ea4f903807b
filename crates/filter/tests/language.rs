//! Texts that are expressions, texts that are none, and the place of the fault.

use filter::{Error, ErrorKind, Expression, Limits, Program};

/// A text that is an expression, and how it prints.
fn check(text: &str, printed: &str) {
    let expression =
        Expression::parse(text, &Limits::default()).unwrap_or_else(|error| panic!("{text:?} {error}"));
    assert_eq!(expression.to_string(), printed, "{text:?}");
    let again =
        Expression::parse(printed, &Limits::default()).unwrap_or_else(|error| panic!("{printed:?} {error}"));
    assert_eq!(again, expression, "{text:?}");
}

/// A text that is none, and the message of its error.
fn refuse(text: &str, said: &str) {
    let error = Program::parse(text, &Limits::default()).expect_err(text);
    assert_eq!(error.to_string(), said, "{text:?}");
}

#[test]
fn names_are_sections_and_fields() {
    for (text, printed) in [
        ("simple", "simple"),
        ("with_underscore_123", "with_underscore_123"),
        ("a.not", "[not]"),
        ("application_properties.x", "x"),
        ("h.priority", "header.priority"),
        ("header.priority", "header.priority"),
        ("p.to", "properties.to"),
        ("properties.absolute_expiry_time", "properties.absolute_expiry_time"),
        ("[p.to]", "[p.to]"),
        ("[]", "[]"),
        ("[ ]", "[ ]"),
        ("[NOT]", "[NOT]"),
        ("[ニンジン]", "[ニンジン]"),
        ("[]]]", "[]]]"),
        ("[]][[]", "[]][[]"),
        ("[[[ key ]]]", "[[[ key ]]]"),
        ("[x]", "x"),
        ("ANDx", "ANDx"),
        ("nand", "nand"),
        ("weight -5", "weight - 5"),
        ("weight-5.5", "weight - 5.5E0"),
        ("a_-b", "a_ - b"),
    ] {
        check(text, printed);
    }
}

#[test]
fn literals_are_numbers_strings_and_binaries() {
    for (text, printed) in [
        ("007", "7"),
        ("170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
        ("170141183460469231731687303715884105728", "1.7014118346046923E38"),
        ("1.0", "1.0E0"),
        ("5.0E+2", "5.0E2"),
        ("3.5E-4", "3.5E-4"),
        ("1.0E-999", "0.0E0"),
        ("'UK''s'", "'UK''s'"),
        ("\"UK's\"", "'UK''s'"),
        ("\"\"\"\"\"\" = '\"\"'", "'\"\"' = '\"\"'"),
        ("'\n\t'", "'\n\t'"),
        ("0xDEADBEEF", "0xDEADBEEF"),
        ("TRUE", "TRUE"),
        ("FALSE", "FALSE"),
    ] {
        check(text, printed);
    }
}

#[test]
fn operators_bind_as_in_sql() {
    for (text, printed) in [
        ("a OR b AND NOT c = d + e * -f", "a OR b AND NOT c = d + e * -f"),
        ("((a OR b)) AND c", "(a OR b) AND c"),
        ("a AND (b AND c)", "a AND (b AND c)"),
        ("(a AND b) AND c", "a AND b AND c"),
        ("NOT a AND b", "NOT a AND b"),
        ("NOT (a AND b)", "NOT (a AND b)"),
        ("NOT NOT a", "NOT NOT a"),
        ("NOT a IS NULL", "NOT a IS NULL"),
        ("a IS NOT NULL", "NOT a IS NULL"),
        ("a - (b - c)", "a - (b - c)"),
        ("a - b - c", "a - b - c"),
        ("a * (b + c) % d", "a * (b + c) % d"),
        ("6 - -w", "6 - -w"),
        ("-(-w)", "-(-w)"),
        ("+(a + b)", "+(a + b)"),
        ("(a = b) = TRUE", "(a = b) = TRUE"),
        ("(NOT a) = b", "(NOT a) = b"),
        ("a != b", "a <> b"),
        ("a NOT LIKE '_!%' ESCAPE '!' AND b", "NOT a LIKE '_!%' ESCAPE '!' AND b"),
        ("a LIKE \"x\" ESCAPE \"'\"", "a LIKE 'x' ESCAPE ''''"),
        ("a + b LIKE 'x'", "a + b LIKE 'x'"),
        ("a NOT IN (1, b + 2, (c AND d))", "NOT a IN (1, b + 2, (c AND d))"),
        ("a IN ('x')", "a IN ('x')"),
        ("  UTC \t\n\r\x0c ( ) >= p.creation_time", "UTC() >= properties.creation_time"),
        ("country='UK'AND weight=5", "country = 'UK' AND weight = 5"),
        ("a<>b OR a<=b", "a <> b OR a <= b"),
    ] {
        check(text, printed);
    }
}

#[test]
fn a_fault_is_told_with_its_place() {
    for (text, said) in [
        ("", "at byte 0: a value expected"),
        ("  ", "at byte 2: a value expected"),
        ("a = ", "at byte 4: a value expected"),
        ("AND NOT", "at byte 0: a value expected"),
        ("a b", "at byte 2: an operator or the end expected"),
        ("a = b = c", "at byte 6: an operator or the end expected"),
        ("a = NOT b", "at byte 4: a value expected"),
        ("--a", "at byte 1: a value expected"),
        ("a = NULL", "at byte 4: a value expected"),
        ("(a", "at byte 2: an operator or a closing bracket expected"),
        ("a)", "at byte 1: an operator or the end expected"),
        ("(a) IS NULL", "at byte 7: TRUE, FALSE or UNKNOWN expected"),
        ("a + b IS NULL", "at byte 9: TRUE, FALSE or UNKNOWN expected"),
        ("5 IS NULL", "at byte 5: TRUE, FALSE or UNKNOWN expected"),
        ("a IS 5", "at byte 5: NULL, TRUE, FALSE or UNKNOWN expected"),
        ("a NOT 5", "at byte 6: LIKE, IN or BETWEEN expected"),
        ("a NOT NULL", "at byte 6: LIKE, IN or BETWEEN expected"),
        ("a LIKE b", "at byte 7: a pattern in quotation marks expected"),
        ("data LIKE 0x48", "at byte 10: a pattern in quotation marks expected"),
        ("a LIKE 'x' ESCAPE 5", "at byte 18: a character in quotation marks expected"),
        ("a LIKE 'x' ESCAPE ''", "at byte 18: ESCAPE takes exactly one character"),
        ("a LIKE 'x' ESCAPE '🇬🇧'", "at byte 18: ESCAPE takes exactly one character"),
        ("id LIKE '_pattern*' ESCAPE '*'", "at byte 8: the pattern ends in its escape character"),
        ("id LIKE '!\r' ESCAPE '!'", "at byte 8: control character"),
        ("id LIKE '\n'", "at byte 8: control character"),
        ("a IN ()", "at byte 6: a value expected"),
        ("a IN b", "at byte 5: a list in brackets expected"),
        ("a IN (1 2)", "at byte 8: a comma or a closing bracket expected"),
        ("a IN (b IS NULL)", "at byte 8: a comma or a closing bracket expected"),
        ("UTC(1)", "at byte 4: a closing bracket expected"),
        ("UTC > 1", "at byte 4: () expected"),
        ("not", "at byte 0: not is reserved, write [not] for a name"),
        ("a = Date", "at byte 4: Date is reserved, write [Date] for a name"),
        ("header.invalid", "at byte 0: header.invalid is no field a filter can read"),
        ("p.message-id", "at byte 0: p.message is no field a filter can read"),
        ("m.abc", "at byte 0: m.abc is no field a filter can read"),
        ("weight-p.group_sequence", "at byte 0: weight-p.group_sequence is no field a filter can read"),
        ("my.key", "at byte 0: my.key is no field a filter can read"),
        ("my$key", "at byte 2: illegal character '$'"),
        ("ключ", "at byte 0: illegal character 'к'"),
        ("_mykey", "at byte 0: illegal character '_'"),
        ("1mykey", "at byte 1: an operator or the end expected"),
        ("!!!", "at byte 0: illegal character '!'"),
        ("a\u{b}", "at byte 1: illegal character '\\u{b}'"),
        ("5. > 0", "at byte 1: illegal character '.'"),
        (".5 > 0", "at byte 0: illegal character '.'"),
        ("5E2 > 0", "at byte 1: an operator or the end expected"),
        ("1.5E > 0", "at byte 3: an operator or the end expected"),
        ("1.0E999", "at byte 0: number too large"),
        ("data = 0x", "at byte 8: an operator or the end expected"),
        ("data = 0x1", "at byte 8: an operator or the end expected"),
        ("data = 0x123", "at byte 11: an operator or the end expected"),
        ("data = 0xab", "at byte 8: an operator or the end expected"),
        ("a = 'x", "at byte 4: no end of this string or name"),
        ("a = 'x''", "at byte 4: no end of this string or name"),
        ("[a", "at byte 0: no end of this string or name"),
        ("[a[b]", "at byte 0: no end of this string or name"),
        ("[\n]", "at byte 0: control character"),
    ] {
        refuse(text, said);
    }
}

#[test]
fn each_limit_is_reached() {
    let limits = Limits::default();
    let refused = |text: &str, limits: &Limits| Program::parse(text, limits).expect_err("over a limit");
    let is_taken = |text: &str| Program::parse(text, &limits).is_ok();

    let name = |length: usize| format!("[{}]", "🥕".repeat(length - 2));
    assert!(is_taken(&name(4096)));
    assert_eq!(
        refused(&name(4097), &limits),
        Error { at: 2 + 4 * 4095 - 1, kind: ErrorKind::TooLong { characters_max: 4096 } }
    );

    let sum = |tokens: usize| format!("{}1", "1+".repeat(tokens / 2));
    assert!(is_taken(&sum(199)));
    assert!(is_taken(&format!("-{}", sum(199))));
    assert_eq!(
        refused(&sum(201), &limits),
        Error { at: 200, kind: ErrorKind::TooManyTokens { tokens_max: 200 } }
    );
    let list = |entries: usize| format!("id IN ({}1)", "1,".repeat(entries - 1));
    assert!(is_taken(&list(98)));
    assert!(matches!(refused(&list(99), &limits).kind, ErrorKind::TooManyTokens { .. }));

    // The deepest that the default number of tokens allows.
    for text in [
        format!("{}a{}", "(".repeat(99), ")".repeat(99)),
        format!("{}a", "NOT ".repeat(199)),
        format!("{}a{}", "-(".repeat(66), ")".repeat(66)),
        format!("{}a{}", "a+(".repeat(49), ")".repeat(49)),
        format!("{}a{}", "1 IN ((".repeat(32), "))".repeat(32)),
    ] {
        assert!(is_taken(&text), "{text}");
    }
    let wide = Limits { characters_max: 1 << 20, tokens_max: 1 << 20, ..limits };
    for text in [
        format!("{}a{}", "(".repeat(201), ")".repeat(201)),
        format!("{}a", "NOT ".repeat(201)),
        format!("{}a", "a+".repeat(200)),
        format!("{}a", "a OR ".repeat(200)),
        "(".repeat(1 << 16),
        "NOT ".repeat(1 << 16),
        "-(".repeat(1 << 16),
    ] {
        assert_eq!(refused(&text, &wide).kind, ErrorKind::TooDeep { depth_max: 200 });
    }
    assert_eq!(refused(&list(201), &wide).kind, ErrorKind::ListTooLong { list_max: 200 });
    // Values of lists wait for their entries: 64 of them are as many as a program holds.
    let nested = |lists: usize| format!("{}a{}", "b IN ((".repeat(lists), "))".repeat(lists));
    assert!(Program::parse(&nested(63), &wide).is_ok());
    assert_eq!(refused(&nested(64), &wide).kind, ErrorKind::TooDeep { depth_max: 64 });
}
