//! The values of expressions for a message.

use crate::message;

use filter::{Field, Limits, Program, Property, Room, Sections, Value};
use message::{Held, Message};

const NOW_MS: u64 = 1_800_000_000_000;

fn order() -> Message {
    Message {
        priority: Some(7),
        properties: vec![
            (Property::MessageId, "id-123".into()),
            (Property::UserId, [10u8, 11, 12].as_slice().into()),
            (Property::Subject, "a subject".into()),
            (Property::CorrelationId, Held::Integer(u64::MAX.into())),
            (Property::CreationTime, 1_311_704_463_521.into()),
            (Property::GroupSequence, 999.into()),
        ],
        application: vec![
            ("country", "UK".into()),
            ("text", "This is a test".into()),
            ("weight", 5.into()),
            ("cold", (-5).into()),
            ("zero", 0.into()),
            ("price", 10.5.into()),
            ("large", 6.02E23.into()),
            ("yes", true.into()),
            ("no", false.into()),
            ("nil", Held::Null),
            ("empty", "".into()),
            ("bytes", [0xDEu8, 0xFF].as_slice().into()),
            ("endless", f64::INFINITY.into()),
            ("two words", "b".into()),
            ("twice", 1.into()),
            ("twice", 2.into()),
        ],
        ..Message::default()
    }
}

/// An expression of the order above: `Some(true)`, `Some(false)`, or unknown.
fn check(text: &str, expected: Option<bool>) {
    let program = Program::parse(text, &Limits::default()).unwrap_or_else(|error| panic!("{text:?} {error}"));
    let order = order();
    let truth = match program.evaluate(&order, &Room::default(), NOW_MS) {
        Value::Bool(truth) => Some(truth),
        Value::Null => None,
        value => panic!("{text:?} is {value:?}"),
    };
    assert_eq!(truth, expected, "{text:?}");
    assert_eq!(program.matches(&order, &mut Room::default(), NOW_MS), expected == Some(true), "{text:?}");
}

fn check_all(expected: Option<bool>, texts: &[&str]) {
    for text in texts {
        check(text, expected);
    }
}

#[test]
fn truths_are_three() {
    let (yes, no, unknown) = ("yes", "no", "absent");
    let word = |truth| match truth {
        Some(true) => yes,
        Some(false) => no,
        None => unknown,
    };
    let truths = [Some(true), Some(false), None];
    for left in truths {
        for right in truths {
            let all = if left == Some(false) || right == Some(false) { Some(false) } else { left.and(right) };
            let any = if left == Some(true) || right == Some(true) {
                Some(true)
            } else if left.is_none() {
                None
            } else {
                right
            };
            let (left, right) = (word(left), word(right));
            // Through NOT as well: the remainder of the last operand must be a truth.
            check(&format!("{left} = TRUE AND {right} = TRUE"), all);
            check(&format!("NOT ({left} AND {right})"), all.map(|truth| !truth));
            check(&format!("{left} = TRUE OR {right} = TRUE"), any);
            check(&format!("NOT ({left} OR {right})"), any.map(|truth| !truth));
        }
    }
    check_all(Some(true), &["weight OR yes", "yes OR weight", "NOT (weight AND no)", "FALSE OR yes"]);
    check_all(
        None,
        &["weight AND yes", "weight OR no", "NOT weight", "NOT 'x'", "TRUE AND 5", "country AND TRUE"],
    );
    check_all(Some(false), &["5 AND FALSE", "no AND 5"]);
}

#[test]
fn like_types_compare() {
    check_all(
        Some(true),
        &[
            "country = 'UK'",
            "'UK' = country",
            "country > 'DE'",
            "country >= 'UK'",
            "'Z' > country",
            "country < 'UKA'",
            "weight = 5.0",
            "5.0 = weight",
            "weight < 5.5",
            "-5.5 < cold",
            "cold < -4.5",
            "price >= 10",
            "0 = 0.0",
            "0.0 = -0.0",
            "9007199254740993 > 9007199254740992.0",
            "9007199254740993 <> 9007199254740992.0",
            "p.correlation_id < 18446744073709551616.0",
            "p.correlation_id = 18446744073709551615",
            "p.correlation_id < 1.0E300",
            "p.correlation_id > -1.0E300",
            "large > 1",
            "yes = TRUE",
            "no <> TRUE",
            "yes <> 1",
            "country <> 5",
            "bytes = 0xDEFF",
            "bytes > 0xDE",
            "0x55 = 'U'",
            "weight = 0x05 OR TRUE",
            "(country = 'UK') = TRUE",
            "9007199254740993 <> 9007199254740993.0",
            "twice = 1",
            "[two words] = 'b'",
        ],
    );
    check_all(
        Some(false),
        &[
            "country = 5",
            "weight = '5'",
            "weight >= '5'",
            "'5' <= weight",
            "country > 1",
            "1 < country",
            "yes = 1",
            "yes >= no",
            "no < yes",
            "yes <= TRUE",
            "weight = 0x05",
            "price = 10",
        ],
    );
    check_all(
        None,
        &[
            "absent = 5",
            "nil = nil",
            "absent <> 5",
            "5 > nil",
            "absent = absent",
            "(absent = 1) = TRUE",
            "endless > 1",
        ],
    );
}

#[test]
fn numbers_are_calculated() {
    check_all(
        Some(true),
        &[
            "weight + 5 = 10",
            "weight - 2 * 3 = -1",
            "weight / 2 = 2.5",
            "price / 2 = 5.25",
            "100 / 10 = 10",
            "weight % 2 = 1",
            "7 % cold = 2",
            "cold % 3 = -2",
            "-7 % 5 = -2",
            "101 % 75 % 5 = 1",
            "101 % (75 % 30) = 11",
            "1.5E2 + 2.5E2 = 400",
            "6 - -weight = 11",
            "-(-weight) = +weight",
            "p.correlation_id + 1 = 18446744073709551616",
            "p.correlation_id * p.correlation_id > 340000000000000000000000000000000000000",
            "-170141183460469231731687303715884105727 - 2 < -170141183460469231731687303715884105727",
            "large * large > large",
            "weight * (price + 1) = 57.5",
        ],
    );
    check_all(
        None,
        &[
            "weight / 0 > 0",
            "weight / zero = 5",
            "0 / 0.0 = 0",
            "weight % zero = 0",
            "weight % 2.0 = 1",
            "price % 2 = 0",
            "country + 1 = 2",
            "'a' + 'b' = 'ab'",
            "0x01 + 0x02 = 0x03",
            "yes + yes = 2",
            "-country = 1",
            "+country = 'UK'",
            "-yes",
            "absent * 0 = 0",
            "1.0E308 * 10 > 0",
            "1.0E308 * 10 < 0",
        ],
    );
}

#[test]
fn patterns_are_of_strings() {
    check_all(
        Some(true),
        &[
            "text LIKE 'This%'",
            "text LIKE '%test'",
            "text LIKE 'T%t'",
            "text LIKE '%is a%'",
            "text LIKE 'T_i%e_t'",
            "text NOT LIKE '%tests'",
            "empty LIKE ''",
            "empty LIKE '%%'",
            "country LIKE 'U!K' ESCAPE '!'",
            "country LIKE '!_%' ESCAPE '!' OR TRUE",
            "bytes LIKE 'x%' OR bytes = 0xDEFF",
            "'a%' LIKE 'a%%' ESCAPE '%'",
            "p.message_id LIKE 'id-___'",
            "'abc' LIKE 'a_c'",
            "'ab\n' LIKE 'a_'",
            "'a\nb' LIKE 'a%'",
            "'\n' LIKE '%%'",
            "'U' LIKE '%U' AND 0x55 LIKE 'U'",
        ],
    );
    check_all(
        Some(false),
        &["text LIKE 'this%'", "empty LIKE '_'", "country LIKE '!_%' ESCAPE '!'", "bytes LIKE 'x'"],
    );
    check_all(
        None,
        &["weight LIKE '5'", "absent LIKE '%'", "absent NOT LIKE '%'", "yes LIKE '%'", "bytes LIKE '_%'"],
    );
}

#[test]
fn lists_hold_values_of_all_kinds() {
    check_all(
        Some(true),
        &[
            "country IN ('US', 'UK')",
            "country IN (1, TRUE, 'UK', 2.5)",
            "weight IN (3, 1, 5.0, 4, 5)",
            "price IN (10, 10.5)",
            "yes IN (FALSE, TRUE)",
            "10.0 IN (TRUE, 10)",
            "'UK' IN (text, country)",
            "country IN (country)",
            "weight IN (h.priority - 2)",
            "country NOT IN ('US', 5, absent)",
            "bytes IN (0xAB, 0xDEFF)",
            "(weight = 5) IN (yes)",
            "1 IN (1)",
        ],
    );
    check_all(
        Some(false),
        &[
            "country IN ('US')",
            "country IN (absent)",
            "weight IN ('5', 5.5, TRUE)",
            "country NOT IN ('UK')",
            "weight IN (absent, 6)",
            "weight IN (0 / 0, 4)",
            "'a\nb' LIKE '%%'",
            "'ab\n\n' LIKE 'a_'",
        ],
    );
    check_all(
        None,
        &[
            "absent IN ('x')",
            "nil IN (nil)",
            "absent NOT IN (1, weight)",
            "0 / 0 IN (1)",
            "0 / 0 IN (weight)",
        ],
    );
}

#[test]
fn fields_are_of_sections() {
    check_all(
        Some(true),
        &[
            "h.priority = 7",
            "p.user_id = 0x0A0B0C",
            "p.creation_time < UTC()",
            "UTC() = 1800000000000",
            "UTC() - 1000 < UTC()",
            "p.group_sequence * 10 > 9000",
            "absent IS NULL",
            "nil IS NULL",
            "endless IS NULL",
            "p.to IS NULL",
            "country IS NOT NULL",
            "h.priority IS NOT NULL",
        ],
    );
    let program = Program::parse("h.priority = 4", &Limits::default()).expect("an expression");
    assert!(program.matches(&Message::default(), &mut Room::default(), 0));
}

#[test]
fn what_is_read_is_known_before() {
    let check = |text: &str, fields: &[Field<'_>]| {
        let program = Program::parse(text, &Limits::default()).expect("an expression");
        assert_eq!(program.fields().collect::<Vec<_>>(), fields, "{text:?}");
        let expected = Sections {
            header: fields.contains(&Field::Priority),
            properties: fields.iter().any(|field| matches!(field, Field::Property(_))),
            application_properties: fields.iter().any(|field| matches!(field, Field::ApplicationProperty(_))),
            ..Sections::default()
        };
        assert_eq!(program.sections(), expected, "{text:?}");
    };
    check("1 = 1", &[]);
    check(
        "a > 1 AND [a] < 5 OR a.b LIKE 'x'",
        &[Field::ApplicationProperty("a"), Field::ApplicationProperty("b")],
    );
    check(
        "p.to IS NULL OR h.priority IN (1, p.subject)",
        &[Field::Property(Property::To), Field::Priority, Field::Property(Property::Subject)],
    );
}

/// Operands that need more places than there are go first, and the answer is the same.
#[test]
fn deep_operands_are_exchanged() {
    let wide = Limits { tokens_max: 10_000, characters_max: 100_000, ..Limits::default() };
    let nest = |start: &str, operator: &str, levels: usize| {
        format!("{}{start}{}", format!("weight {operator} (").repeat(levels), ")".repeat(levels))
    };
    for (text, expected) in [
        (format!("{} = 905", nest("zero + 405", "+", 100)), Some(true)),
        (format!("{} = 5", nest("zero", "-", 101)), Some(true)),
        (format!("{} = 0", nest("zero", "-", 100)), Some(true)),
        (format!("({}) < 1", nest("weight", "<", 99)), Some(false)),
        (nest("weight > 4", "= 5 AND", 100), Some(true)),
        (nest("weight > 5", "= 4 OR", 100), Some(false)),
        (nest("absent", "= 4 OR", 100), None),
    ] {
        let program = Program::parse(&text, &wide).unwrap_or_else(|error| panic!("{text:?} {error}"));
        let order = order();
        assert_eq!(
            program.evaluate(&order, &Room::default(), 0),
            expected.map_or(Value::Null, Value::Bool),
            "{text:?}"
        );
    }
}

/// The price grows with the fields that are loaded, times the bytes of a message, and the work with the characters of
/// patterns, times those of the text.
#[test]
fn prices_are_of_what_may_be_looked_at() {
    let price = |text: &str, bytes| Program::parse(text, &Limits::default()).unwrap().price(bytes);
    let wild = |characters: usize| format!("a LIKE '%{}%c'", "a_".repeat(characters / 2));
    let cheap = price("a = 1", 1000);
    assert!(price("a = 1", 0) < 100 && cheap < 1000, "{cheap}");
    let message =
        Message { application: vec![("a", "b".repeat(1000).as_str().into())], ..Message::default() };
    let program = Program::parse(&wild(3800), &Limits::default()).unwrap();
    let mut room = Room::default();
    program.matches(&message, &mut room, 0);
    let dear = room.spent();
    assert!((3800 / 64 * 1000 / 2..3800 / 64 * 1000).contains(&dear), "{dear}");
    for (more, less) in [("a = 1 AND b = 2", "a = 1"), ("a IS NULL OR b IS NOT NULL", "a IS NULL")] {
        let difference = price(more, 1000) - price(less, 1000);
        assert!((400..600).contains(&difference), "{more}: {difference}");
    }
    assert!(price(&wild(3800), usize::MAX) > usize::MAX / 4, "no sum of lengths is too large");
}
