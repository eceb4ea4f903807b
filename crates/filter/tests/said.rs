//! Functions of the message: how they are written, what they say, where they are refused, and what they hang on.

use crate::message;

use filter::{
    Asked, Asker, Class, Expression, Field, Known, Limits, Literal, Macros, MessageField, Names,
    PATTERN_BYTES_MAX, Program, Room, Sections, Site,
};
use message::{Held, Message};

fn parsed(text: &str) -> Expression {
    Expression::parse(text, &Limits::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A text that is an expression, and how it prints.
fn check_printed(text: &str, printed: &str) {
    let expression = parsed(text);
    assert_eq!(expression.to_string(), printed, "{text}");
    assert_eq!(parsed(printed), expression, "{text}");
}

fn verdict(text: &str, message: &Message) -> Option<bool> {
    let program = Program::parse(text, &Limits::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
    program.verdict(message, &mut Room::default(), 1_000)
}

#[test]
fn they_are_written_as_functions() {
    for (text, printed) in [
        ("exchange() = 'x'", "EXCHANGE() = 'x'"),
        ("ROUTING_KEY ( ) LIKE 'a.%'", "ROUTING_KEY() LIKE 'a.%'"),
        ("Offset() / 2 > 5", "OFFSET() / 2 > 5"),
        ("EXCHANGE() IS NOT NULL", "NOT EXCHANGE() IS NULL"),
        ("REDELIVERED() IS NOT TRUE", "NOT REDELIVERED() IS TRUE"),
        ("RECEIVED() > UTC() - 1000", "RECEIVED() > UTC() - 1000"),
        ("topic_match('a.*.#') OR a", "TOPIC_MATCH('a.*.#') OR a"),
        ("NOT TOPIC_MATCH('it''s') IS UNKNOWN", "NOT TOPIC_MATCH('it''s') IS UNKNOWN"),
        // Without brackets they are names of application properties.
        ("OFFSET = 1 AND SIZE > 2", "OFFSET = 1 AND SIZE > 2"),
    ] {
        check_printed(text, printed);
    }
    for field in MessageField::ALL {
        let text = format!("{}()", field.name());
        check_printed(&text.to_lowercase(), &text);
    }
}

#[test]
fn they_say_what_is_known_of_the_message() {
    let said = vec![
        (MessageField::Exchange, "amq.topic".into()),
        (MessageField::RoutingKey, "orders.eu.new".into()),
        (MessageField::Size, 120.into()),
        (MessageField::Received, 900.into()),
        (MessageField::Offset, 7.into()),
        (MessageField::Durable, true.into()),
        (MessageField::State, "ready".into()),
        (MessageField::Deliveries, Held::Null),
        (MessageField::Deaths, 5.into()),
    ];
    let message = Message { said, ..Message::default() };
    for (text, expected) in [
        ("EXCHANGE() = 'amq.topic' AND LEFT(ROUTING_KEY(), 6) = 'orders'", Some(true)),
        ("SIZE() BETWEEN 100 AND 200 AND OFFSET() IN (5, 7)", Some(true)),
        ("UTC() - RECEIVED() < 60", Some(false)),
        ("DURABLE() AND STATE() = 'ready'", Some(true)),
        ("TOPIC_MATCH('orders.*.new')", Some(true)),
        ("TOPIC_MATCH('#.us.#')", Some(false)),
        ("DELIVERIES() > 2", None),
        ("DEATHS() = 5 AND DEATHS() >= 1", Some(true)),
        ("deaths() % 5 = 0 AND DEATHS() > 5", Some(false)),
        ("REDELIVERED()", None),
        ("REDELIVERED() IS NULL AND DELIVERIES() IS NULL AND SIZE() IS NOT NULL", Some(true)),
    ] {
        assert_eq!(verdict(text, &message), expected, "{text}");
    }
    assert_eq!(verdict("TOPIC_MATCH('#')", &Message::default()), None);
    let number = Message { said: vec![(MessageField::RoutingKey, 5.into())], ..Message::default() };
    assert_eq!(verdict("TOPIC_MATCH('#')", &number), None);
}

#[test]
fn what_is_not_known_at_a_site_is_refused_by_name() {
    let known = Known::of(&[MessageField::Exchange, MessageField::Size]);
    let refused = |text: &str, known| {
        let site = Site { limits: Limits::default(), known, names: Names::Own, macros: Macros::none() };
        Expression::parse_at(text, &site).err().map(|error| error.to_string())
    };
    for (text, said) in [
        ("EXCHANGE() = 'x' AND SIZE() > 1", None),
        ("a = 1 OR offset() > 1", Some("at byte 9: OFFSET() is not known here")),
        ("TOPIC_MATCH('a')", Some("at byte 0: TOPIC_MATCH() is not known here")),
        ("DEATHS() > 4", Some("at byte 0: DEATHS() is not known here")),
        ("DEATHS('q') > 4", Some("at byte 0: DEATHS takes no arguments")),
        ("EXCHANGE('x') = 1", Some("at byte 0: EXCHANGE takes no arguments")),
        ("SIZE( = 1", Some("at byte 0: SIZE takes no arguments")),
        ("TOPIC_MATCH(a)", Some("at byte 12: a pattern in quotation marks expected")),
        ("TOPIC_MATCH()", Some("at byte 12: a pattern in quotation marks expected")),
        ("TOPIC_MATCH('a', 'b')", Some("at byte 0: TOPIC_MATCH() is not known here")),
    ] {
        assert_eq!(refused(text, known), said.map(str::to_owned), "{text}");
    }
    let of_two = refused("TOPIC_MATCH('a', 'b')", Known::ALL);
    assert_eq!(of_two, Some("at byte 15: a comma or a closing bracket expected".to_owned()));
    for field in MessageField::ALL {
        let text = format!("{}() IS NULL", field.name());
        let said = format!("at byte 0: {}() is not known here", field.name());
        assert_eq!(refused(&text, Known::NONE), Some(said));
        assert_eq!(refused(&text, Known::of(&[field])), None);
    }
    let long = |bytes: usize| refused(&format!("TOPIC_MATCH('{}')", "ö".repeat(bytes / 2)), Known::ALL);
    assert_eq!(long(PATTERN_BYTES_MAX), None);
    let said = format!("at byte 12: a topic pattern of more than {PATTERN_BYTES_MAX} bytes");
    assert_eq!(long(PATTERN_BYTES_MAX + 1), Some(said));
    // They count as names.
    let limits = Limits { names_max: 2, ..Limits::content() };
    let error = Expression::parse("SIZE() = 1 OR TOPIC_MATCH('a') OR a", &limits).expect_err("three");
    assert_eq!(error.to_string(), "at byte 34: more than 2 names of properties");
}

#[test]
fn classes_are_those_of_what_is_read() {
    let program = |text: &str| Program::parse(text, &Limits::default()).expect(text);
    for (text, class) in [
        ("a = 1 AND body.b = 2", Class::Stable),
        ("EXCHANGE() = 'x' AND OFFSET() > 5 AND RECEIVED() > 5 AND SIZE() > 1", Class::Stable),
        ("TOPIC_MATCH('a') OR DURABLE() OR DEATHS() = 1", Class::Stable),
        ("UTC() > 5", Class::Timed),
        ("REDELIVERED()", Class::Contextual),
        ("UTC() > 5 OR DELIVERIES() > 2", Class::Contextual),
        ("STATE() = 'ready'", Class::Contextual),
    ] {
        assert_eq!(program(text).class(), class, "{text}");
    }
    let program = program("TOPIC_MATCH('a') AND SIZE() > 5 AND DURABLE()");
    let fields = [MessageField::RoutingKey, MessageField::Size, MessageField::Durable];
    assert_eq!(program.reads(), Known::of(&fields));
    assert_eq!(program.fields().collect::<Vec<_>>(), fields.map(Field::Message));
    assert_eq!(program.sections(), Sections { header: true, body: true, ..Sections::default() });
    assert_eq!(
        Known::ALL.fields().map(|field| field.name().len()).sum::<usize>(),
        MessageField::ALL.iter().map(|field| field.name().len()).sum::<usize>()
    );
}

#[test]
fn what_is_asked_of_the_one_who_asks_is_a_constant() {
    let claims = [("tier", Literal::Integer(3)), ("it's", Literal::String("x".to_owned()))];
    let known = Asker { user: "ann", vhost: "/", client_id: Some("c-1"), claims: &claims };
    let bare = Asker { user: "bob", vhost: "v", ..Asker::default() };
    for (text, of_known, of_bare) in [
        ("USER() = 'ann' AND VHOST() = '/'", Some(true), Some(false)),
        ("client_id() = 'c-1'", Some(true), None),
        ("CLIENT_ID() IS NULL", Some(false), Some(true)),
        ("Claim('tier') + 1 > 3", Some(true), None),
        ("CLAIM('tier') IS NOT NULL AND CLAIM('none') IS NULL", Some(true), Some(false)),
        ("CLAIM('it''s') IN ('x', USER())", Some(true), None),
        ("owner = USER()", Some(true), Some(false)),
        ("owner IN (USER(), 'x') AND owner BETWEEN 'a' AND USER()", Some(true), Some(false)),
        ("CASE WHEN NOT USER() = 'ann' THEN 1 ELSE CLAIM('tier') END = -(-3)", Some(true), Some(false)),
        ("CONCAT(USER(), '@', VHOST()) LIKE 'ann%' IS TRUE", Some(true), Some(false)),
        ("REGEXP_LIKE(USER(), '^a') OR FALSE", Some(true), Some(false)),
    ] {
        let expression = parsed(text);
        assert_eq!(parsed(&expression.to_string()), expression, "{text}");
        let message = Message { application: vec![("owner", "ann".into())], ..Message::default() };
        for (asker, expected) in [(&known, of_known), (&bare, of_bare)] {
            let bound = expression.bound(asker);
            assert!(bound.asks().is_empty(), "{bound}");
            let program = Program::compile(&bound).expect(text);
            assert_eq!(program.verdict(&message, &mut Room::default(), 0), expected, "{text}");
            assert_eq!(program.class(), Class::Stable);
            // It is still a text, for those who pass it on.
            let again = Program::compile(&parsed(&bound.to_string())).expect(text);
            assert_eq!(again.verdict(&message, &mut Room::default(), 0), expected, "{bound}");
        }
    }
    let asks = parsed("CLAIM('b') = USER() OR CLAIM('a') IS NULL OR USER() = 'x' OR SIZE() > 5").asks();
    assert_eq!(asks, [Asked::User, Asked::Claim("a".to_owned()), Asked::Claim("b".to_owned())]);
}

#[test]
fn where_nobody_asks_it_is_refused_by_name() {
    let site = Site {
        limits: Limits::default(),
        known: Known::of(&MessageField::ALL),
        names: Names::Own,
        macros: Macros::none(),
    };
    for (text, said) in [
        ("a = USER()", "at byte 4: USER() is not known here"),
        ("VHOST() = 'a'", "at byte 0: VHOST() is not known here"),
        ("CLIENT_ID() IS NULL", "at byte 0: CLIENT_ID() is not known here"),
        ("CLAIM('x') = 1", "at byte 0: CLAIM() is not known here"),
        ("CLAIM() = 1", "at byte 6: a name in quotation marks expected"),
        ("CLAIM(a) = 1", "at byte 6: a name in quotation marks expected"),
        ("CLAIM('a', 'b') = 1", "at byte 0: CLAIM takes 1 arguments"),
        ("USER('a') = 1", "at byte 0: USER takes no arguments"),
    ] {
        let error = Expression::parse_at(text, &site).expect_err(text);
        assert_eq!(error.to_string(), said, "{text}");
    }
    // One that was not bound is none that could run.
    let error = Program::parse("a = 1 OR USER() = 'x'", &Limits::default()).expect_err("nobody asks");
    assert_eq!(error.to_string(), "at byte 0: USER() is not known here");
    assert_eq!(parsed("USER = 'x' AND VHOST IS NULL").asks(), []);
}
