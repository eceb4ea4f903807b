//! Selectors of JMS: its names for fields of a message, Qpid's names, and keywords of any case.

use crate::message;

use filter::{Expression, Known, Limits, Macros, MessageField, Names, Program, Property, Room, Site};
use message::{Held, Message};

fn parsed(text: &str, known: Known) -> Result<Expression, String> {
    let site = Site { limits: Limits::content(), known, names: Names::Jms, macros: Macros::none() };
    Expression::parse_at(text, &site).map_err(|error| error.to_string())
}

/// A selector, and how it prints in the language of everybody else.
#[test]
fn names_are_fields() {
    for (text, printed) in [
        ("JMSPriority > 4", "header.priority > 4"),
        ("amqp.priority = 4", "header.priority = 4"),
        ("JMSMessageID = 'ID:1'", "properties.message_id = 'ID:1'"),
        ("amqp.message_id = JMSCorrelationID", "properties.message_id = properties.correlation_id"),
        ("amqp.correlation_id IS NULL", "properties.correlation_id IS NULL"),
        ("JMSTimestamp >= amqp.creation_time", "properties.creation_time >= properties.creation_time"),
        ("JMSType IN ('a', amqp.subject)", "properties.subject IN ('a', properties.subject)"),
        ("JMSReplyTo LIKE 'a%'", "properties.reply_to LIKE 'a%'"),
        ("amqp.reply_to LIKE 'a%'", "properties.reply_to LIKE 'a%'"),
        ("JMSDestination = amqp.to", "properties.to = properties.to"),
        (
            "JMSXGroupID = 'g' AND JMSXGroupSeq > 1",
            "properties.group_id = 'g' AND properties.group_sequence > 1",
        ),
        ("JMSXUserID = 'u'", "properties.user_id = 'u'"),
        ("JMSXDeliveryCount * 2 = 4", "(DELIVERIES() + 1) * 2 = 4"),
        ("-JMSXDeliveryCount = -1", "-(DELIVERIES() + 1) = -1"),
        ("amqp.delivery_count = 0", "DELIVERIES() = 0"),
        ("NOT JMSRedelivered", "NOT REDELIVERED()"),
        ("amqp.redelivered IS NULL", "REDELIVERED() IS NULL"),
        (
            "JMSDeliveryMode = 'PERSISTENT'",
            "CASE WHEN DURABLE() THEN 'PERSISTENT' ELSE 'NON_PERSISTENT' END = 'PERSISTENT'",
        ),
        (
            "amqp.delivery_mode LIKE 'N%'",
            "CASE WHEN DURABLE() THEN 'PERSISTENT' ELSE 'NON_PERSISTENT' END LIKE 'N%'",
        ),
        ("amqp.durable", "DURABLE()"),
        ("amqp.absolute_expiry_time > 1", "properties.absolute_expiry_time > 1"),
        ("amqp.jms_type = 'a'", "annotations['jms-type'] = 'a'"),
        // They are always there.
        ("JMSDeliveryMode IS NULL", "FALSE"),
        ("amqp.delivery_mode IS NOT NULL", "NOT FALSE"),
        ("JMSXDeliveryCount IS NULL OR a", "FALSE OR a"),
        ("EXISTS(JMSXDeliveryCount) AND EXISTS(JMSType)", "TRUE AND NOT properties.subject IS NULL"),
        // All else is the same language.
        ("[JMSPriority] = 1 AND JMSFoo = 2", "[JMSPriority] = 1 AND JMSFoo = 2"),
        ("jmspriority = 1", "jmspriority = 1"),
        (
            "body.a = 1 AND p.subject = 'x' AND h.priority = 1",
            "body.a = 1 AND properties.subject = 'x' AND header.priority = 1",
        ),
        ("CASE WHEN a THEN 1 END = 1", "CASE WHEN a THEN 1 END = 1"),
        ("a not between 1 and 2 or not b is not null", "NOT a BETWEEN 1 AND 2 OR NOT NOT b IS NULL"),
        ("a In (1) And b Like 'x' Escape '!' Or c = True", "a IN (1) AND b LIKE 'x' ESCAPE '!' OR c = TRUE"),
    ] {
        let expression = parsed(text, Known::ALL).unwrap_or_else(|error| panic!("{text}: {error}"));
        // A name in brackets prints as one without where it needs none.
        assert_eq!(expression.to_string(), printed.replace("[JMSPriority]", "JMSPriority"), "{text}");
        let own = Expression::parse(&expression.to_string(), &Limits::content());
        assert_eq!(own, Ok(expression), "{text}");
    }
}

#[test]
fn faults_are_told_with_their_place() {
    let fields = [MessageField::Durable];
    for (text, said) in [
        ("amqp.bogus = 1", "at byte 0: amqp.bogus is no field a filter can read"),
        ("a = 1 AND amqp.to.x = 1", "at byte 17: illegal character '.'"),
        ("JMSRedelivered", "at byte 0: REDELIVERED() is not known here"),
        ("a OR JMSXDeliveryCount > 1", "at byte 5: DELIVERIES() is not known here"),
        ("JMSDeliveryMode + 1 IS NULL", "at byte 23: TRUE, FALSE or UNKNOWN expected"),
        ("(JMSDeliveryMode) IS NULL", "at byte 21: TRUE, FALSE or UNKNOWN expected"),
        ("JMSDeliveryMode IS 5", "at byte 19: NULL, TRUE, FALSE or UNKNOWN expected"),
        ("amqp.to(1)", "at byte 0: amqp.to is no function"),
    ] {
        assert_eq!(parsed(text, Known::of(&fields)), Err(said.to_owned()), "{text}");
    }
    for text in ["amqp.to = 'x'", "a and b", "JMSType = 'x' and b"] {
        assert!(Expression::parse(text, &Limits::content()).is_err(), "{text}");
    }
    // Elsewhere they are names of application properties.
    let own = Expression::parse("JMSType = 'x' OR JMSDeliveryMode = 'y'", &Limits::content()).unwrap();
    assert_eq!(own.to_string(), "JMSType = 'x' OR JMSDeliveryMode = 'y'");
    let site = Site {
        limits: Limits { names_max: 1, ..Limits::content() },
        known: Known::ALL,
        names: Names::Jms,
        macros: Macros::none(),
    };
    for text in ["JMSType = 'x' AND JMSType = 'y'", "JMSDeliveryMode = 'x' AND JMSXDeliveryCount = 1"] {
        let error = Expression::parse_at(text, &site).expect_err("two names");
        assert!(error.to_string().ends_with("more than 1 names of properties"), "{error}");
    }
}

#[test]
fn values_are_the_messages() {
    let message = |is_durable: bool, deliveries: i64| Message {
        properties: vec![(Property::Subject, "order".into()), (Property::GroupSequence, 2.into())],
        said: vec![
            (MessageField::Durable, is_durable.into()),
            (MessageField::Deliveries, deliveries.into()),
            (MessageField::Redelivered, Held::from(deliveries > 0)),
        ],
        ..Message::default()
    };
    for (text, of_first, of_second) in [
        ("JMSPriority = 4 AND JMSType = 'order'", true, true),
        ("JMSDeliveryMode = 'PERSISTENT'", true, false),
        ("JMSDeliveryMode <> 'PERSISTENT' AND JMSXDeliveryCount = 3", false, true),
        ("JMSXDeliveryCount = 1 AND NOT JMSRedelivered", true, false),
        ("JMSMessageID IS NULL and JMSXGroupSeq between 1 and 2", true, true),
    ] {
        let program = Program::compile(&parsed(text, Known::ALL).expect(text)).expect(text);
        for (message, expected) in [(message(true, 0), of_first), (message(false, 2), of_second)] {
            assert_eq!(program.matches(&message, &mut Room::default(), 0), expected, "{text}");
        }
    }
}
