//! Filters by reference values.

use crate::message;

use filter::{Expression, Limits, Program, Property, Reference, ReferenceError, References, Room};
use message::{Held, Message};

const PROPERTIES: [(&[u8], Reference<'static>, Property); 13] = [
    (b"message-id", Reference::Ulong(1), Property::MessageId),
    (b"user-id", Reference::Binary(b"x"), Property::UserId),
    (b"to", Reference::String("x"), Property::To),
    (b"subject", Reference::String("x"), Property::Subject),
    (b"reply-to", Reference::String("x"), Property::ReplyTo),
    (b"correlation-id", Reference::Uuid([7; 16]), Property::CorrelationId),
    (b"content-type", Reference::Symbol(b"x"), Property::ContentType),
    (b"content-encoding", Reference::Symbol(b"x"), Property::ContentEncoding),
    (b"absolute-expiry-time", Reference::Timestamp(1), Property::AbsoluteExpiryTime),
    (b"creation-time", Reference::Timestamp(1), Property::CreationTime),
    (b"group-id", Reference::String("x"), Property::GroupId),
    (b"group-sequence", Reference::Uint(1), Property::GroupSequence),
    (b"reply-to-group-id", Reference::String("x"), Property::ReplyToGroupId),
];

fn expression_of(name: &[u8], reference: Reference<'_>) -> Result<Expression, ReferenceError> {
    let mut references = References::new(&Limits::default());
    references.property(name, reference)?;
    references.expression()
}

#[test]
fn each_property_has_its_types() {
    for (name, reference, property) in PROPERTIES {
        let expression = expression_of(name, reference).expect("its type");
        let program = Program::compile(&expression).expect("a small one");
        let held = match reference {
            Reference::Ulong(_) | Reference::Timestamp(_) | Reference::Uint(_) => 1.into(),
            Reference::Uuid(bytes) => Held::Bytes(bytes.to_vec()),
            _ => "x".into(),
        };
        assert!(!program.matches(&Message::default(), &mut Room::default(), 0), "{property:?}");
        let message = Message { properties: vec![(property, held)], ..Message::default() };
        assert!(program.matches(&message, &mut Room::default(), 0), "{property:?}");
        for wrong in [Reference::Null, Reference::Bool(true), Reference::Integer(1), Reference::Other] {
            assert_eq!(expression_of(name, wrong), Err(ReferenceError::WrongType), "{property:?}");
        }
    }
    for (name, wrong) in [
        ("message-id", Reference::Symbol(b"x")),
        ("correlation-id", Reference::Uint(1)),
        ("user-id", Reference::String("x")),
        ("to", Reference::Symbol(b"x")),
        ("content-type", Reference::String("x")),
        ("creation-time", Reference::Ulong(1)),
        ("group-sequence", Reference::Ulong(1)),
    ] {
        assert_eq!(expression_of(name.as_bytes(), wrong), Err(ReferenceError::WrongType), "{name}");
    }
    for name in ["message_id", "priority", "", "to "] {
        assert_eq!(
            expression_of(name.as_bytes(), Reference::String("x")),
            Err(ReferenceError::UnknownProperty),
            "{name}"
        );
    }
}

#[test]
fn application_properties_match_by_value() {
    let message = Message {
        application: vec![
            ("int", 10.into()),
            ("double", 10.0.into()),
            ("yes", true.into()),
            ("null", Held::Null),
            ("text", "&50%_\\\u{1}".into()),
            ("bytes", [255u8, 0].as_slice().into()),
        ],
        ..Message::default()
    };
    let check = |name: &str, reference: Reference<'_>, expected: bool| {
        let mut references = References::new(&Limits::default());
        references.application_property(name, reference).expect("a reference");
        let program = Program::compile(&references.expression().expect("one entry")).expect("a small one");
        assert_eq!(program.matches(&message, &mut Room::default(), 0), expected, "{name} {reference:?}");
    };
    for (name, reference, expected) in [
        ("int", Reference::Uint(10), true),
        ("int", Reference::Float(10.0), true),
        ("double", Reference::Integer(10), true),
        ("double", Reference::Float(10.1), false),
        ("double", Reference::Float(f64::NAN), false),
        ("int", Reference::String("10"), false),
        ("yes", Reference::Bool(true), true),
        ("yes", Reference::Bool(false), false),
        ("yes", Reference::Integer(1), false),
        ("null", Reference::Null, true),
        ("int", Reference::Null, true),
        ("absent", Reference::Null, false),
        ("null", Reference::Integer(0), false),
        ("int", Reference::Other, false),
        ("text", Reference::String("&&50%_\\\u{1}"), true),
        ("text", Reference::Symbol(b"&50%_\\\x01"), true),
        ("text", Reference::String("&p:&50%_"), true),
        ("text", Reference::String("&p:&50%%"), false),
        ("text", Reference::String("&p:"), true),
        ("text", Reference::String("&s:_\\\u{1}"), true),
        ("text", Reference::String("&s:x&50%_\\\u{1}"), false),
        ("text", Reference::String("50%"), false),
        ("bytes", Reference::Binary(&[255, 0]), true),
        ("bytes", Reference::String("&s:\0"), true),
        ("int", Reference::String("&p:1"), false),
        ("absent", Reference::String("&s:"), false),
    ] {
        check(name, reference, expected);
    }
    check("text", Reference::String(&format!("&p:{}", "x".repeat(10_000))), false);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let mut references = References::new(&Limits::default());
    for text in ["&", "&x", "&P:a", "&p", "& &"] {
        assert_eq!(
            references.application_property("k", Reference::String(text)),
            Err(ReferenceError::UnknownModifier),
            "{text}"
        );
    }
    assert_eq!(References::new(&Limits::default()).expression(), Err(ReferenceError::Empty));
    let mut references = References::new(&Limits::default());
    for _ in 0..16 {
        assert_eq!(references.application_property("k", Reference::Null), Ok(()));
    }
    assert_eq!(
        references.application_property("k", Reference::Null),
        Err(ReferenceError::TooMany { references_max: 16 })
    );
}

#[test]
fn all_entries_of_all_filters_must_match() {
    let mut properties = References::new(&Limits::default());
    properties.property(b"subject", Reference::String("&p:a")).expect("a string");
    properties.property(b"group-sequence", Reference::Uint(1)).expect("an uint");
    let mut application = References::new(&Limits::default());
    application.application_property("k", Reference::Bool(true)).expect("a truth");
    let both = Expression::And(
        Box::new(properties.expression().expect("two entries")),
        Box::new(application.expression().expect("one entry")),
    );
    let program = Program::compile(&both).expect("a small one");
    for wrong in 0..4 {
        let message = Message {
            properties: vec![
                (Property::Subject, if wrong == 1 { "b" } else { "ab" }.into()),
                (Property::GroupSequence, i64::from(wrong != 2).into()),
            ],
            application: vec![("k", (wrong != 3).into())],
            ..Message::default()
        };
        assert_eq!(program.matches(&message, &mut Room::default(), 0), wrong == 0, "{wrong}");
    }
}
