//! Names that JMS has for fields of a message, and Qpid's brokers (`amqp.…`), as the AMQP mapping of JMS has them.
//!
//! Texts are compared as they stand in AMQP: a message id of another type than text is no `ID:…`.

use crate::expression::{Expression, Literal, Name};
use crate::message::MessageField;
use crate::operator::Arithmetic;
use crate::value::Property;

/// The meaning of a name; none of one that has no meaning of its own.
pub(crate) fn meaning(name: &str) -> Option<Expression> {
    let said = |field| Name::Message(field);
    let name = match name {
        "JMSPriority" | "amqp.priority" => Name::Priority,
        "JMSDeliveryMode" | "amqp.delivery_mode" => return Some(delivery_mode()),
        "JMSMessageID" | "amqp.message_id" => Name::Property(Property::MessageId),
        "JMSTimestamp" | "amqp.creation_time" => Name::Property(Property::CreationTime),
        "JMSCorrelationID" | "amqp.correlation_id" => Name::Property(Property::CorrelationId),
        "JMSType" | "amqp.subject" => Name::Property(Property::Subject),
        "JMSReplyTo" | "amqp.reply_to" => Name::Property(Property::ReplyTo),
        "JMSDestination" | "amqp.to" => Name::Property(Property::To),
        "JMSXGroupID" => Name::Property(Property::GroupId),
        "JMSXGroupSeq" => Name::Property(Property::GroupSequence),
        "JMSXUserID" => Name::Property(Property::UserId),
        "JMSXDeliveryCount" => return Some(delivery_count()),
        "JMSRedelivered" | "amqp.redelivered" => said(MessageField::Redelivered),
        "amqp.delivery_count" => said(MessageField::Deliveries),
        "amqp.durable" => said(MessageField::Durable),
        "amqp.absolute_expiry_time" => Name::Property(Property::AbsoluteExpiryTime),
        "amqp.jms_type" => Name::Annotation("jms-type".to_owned()),
        _ => return None,
    };
    Some(Expression::Field(name))
}

/// The function of the message that is in the meaning of a name.
pub(crate) fn reads(meaning: &Expression) -> Option<MessageField> {
    match meaning {
        Expression::Field(Name::Message(field)) => Some(*field),
        Expression::Case(..) => Some(MessageField::Durable),
        Expression::Arithmetic(..) => Some(MessageField::Deliveries),
        _ => None,
    }
}

fn delivery_mode() -> Expression {
    let mode = |name: &str| Expression::Literal(Literal::String(name.to_owned()));
    let durable = Expression::Field(Name::Message(MessageField::Durable));
    Expression::Case(vec![(durable, mode("PERSISTENT"))], Some(Box::new(mode("NON_PERSISTENT"))))
}

/// This delivery counts.
fn delivery_count() -> Expression {
    let before = Expression::Field(Name::Message(MessageField::Deliveries));
    Expression::Arithmetic(
        Arithmetic::Add,
        Box::new(before),
        Box::new(Expression::Literal(Literal::Integer(1))),
    )
}
