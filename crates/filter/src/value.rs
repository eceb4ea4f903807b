//! Values of messages as filters see them, and the trait by which a message shows them.

use crate::found::Found;
use crate::message::MessageField;
use crate::path::{Path, Paths};
use crate::untyped::Untyped;

/// A value, borrowed from the message, the expression or the [room](crate::Room) of an evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Value<'a> {
    /// No value: SQL's unknown.
    #[default]
    Null,
    /// A truth value.
    Bool(bool),
    /// Every integer there is in a message: signed and unsigned ones, timestamps (milliseconds since 1970) and
    /// single characters (their code points).
    Integer(i128),
    /// An approximate number. One that is not finite counts as absent.
    Float(f64),
    /// Strings, symbols, binaries and UUIDs (16 bytes): they are equal if their bytes are.
    Bytes(&'a [u8]),
    /// A text of a format that has no types: it takes that of what it is compared with or used as.
    Untyped(&'a Untyped<'a>),
    /// A map, or a list in a list: something is there, which is unknown to all that asks for its value.
    Composite,
    /// Something that cannot be read, or was not: it is unknown also whether it is there.
    Unreadable,
    /// The values of a path that leads through a list or to one. What is asked of them is true if it is of one of them,
    /// otherwise unknown if it is of one, otherwise false. Who needs a single value takes the first.
    Several(&'a [Value<'a>]),
}

impl<'a> Value<'a> {
    /// The truth of a value: `None` for unknown, and for every value that is no truth value.
    pub fn truth(self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(truth),
            Value::Untyped(untyped) => untyped.truth(),
            Value::Several(values) => any(values, |value| value.truth()),
            _ => None,
        }
    }

    /// The first of several values; unknown where there is none.
    #[inline]
    pub(crate) fn first(self) -> Value<'a> {
        match self {
            Value::Several(values) => values.first().map_or(Value::Null, |value| value.known()),
            value => value,
        }
    }

    /// The value, where it is one that can be reckoned with.
    #[inline]
    pub(crate) fn known(self) -> Value<'a> {
        match self {
            Value::Composite | Value::Unreadable => Value::Null,
            value => value,
        }
    }

    /// The first of several values; an untyped one as the number that it reads as.
    #[inline]
    pub(crate) fn first_number(self) -> Value<'a> {
        match self.first() {
            Value::Untyped(untyped) => untyped.number(),
            value => value,
        }
    }

    /// The first of several values; an untyped one as the text that it is.
    #[inline]
    pub(crate) fn first_text(self) -> Value<'a> {
        match self.first() {
            Value::Untyped(untyped) => Value::Bytes(untyped.text()),
            value => value,
        }
    }

    /// An untyped value as a number or as a text.
    pub(crate) fn as_one_of(self, are_numbers: bool) -> Value<'a> {
        match self {
            Value::Untyped(untyped) if are_numbers => untyped.number(),
            Value::Untyped(untyped) => Value::Bytes(untyped.text()),
            value => value,
        }
    }

    /// The bytes of a text, untyped or not; of a single value.
    #[inline]
    pub(crate) fn text(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            Value::Untyped(untyped) => Some(untyped.text()),
            _ => None,
        }
    }

    /// The answer to a question about a value, about each where there are several.
    pub(crate) fn ask(self, is: impl Fn(Value<'a>) -> Option<bool>) -> Value<'static> {
        Value::of_truth(match self {
            Value::Several(values) => any(values, is),
            value => is(value),
        })
    }

    pub(crate) fn of_truth(truth: Option<bool>) -> Value<'static> {
        truth.map_or(Value::Null, Value::Bool)
    }
}

/// Whether it is so of one of several values: false where there are none.
pub(crate) fn any<'a>(values: &[Value<'a>], is: impl Fn(Value<'a>) -> Option<bool>) -> Option<bool> {
    let mut truth = Some(false);
    for value in values {
        match is(value.known()) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => truth = None,
        }
    }
    truth
}

/// The priority of a message that has none, AMQP 1.0 section 3.2.1.
pub const PRIORITY_DEFAULT: u8 = 4;

/// A place in a message that a filter can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field<'a> {
    /// `header.priority`; [`PRIORITY_DEFAULT`] if the message has none.
    Priority,
    /// A field of the section properties.
    Property(Property),
    /// An entry of the application properties.
    ApplicationProperty(&'a str),
    /// An entry of the message annotations.
    Annotation(&'a str),
    /// A function of the message, as `OFFSET()`.
    Message(MessageField),
    /// A place in the body. It is not asked for by itself: see [`Fields::body`].
    Body(&'a Path),
}

/// The fields of the section properties, AMQP 1.0 section 3.2.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// `message-id`
    MessageId,
    /// `user-id`
    UserId,
    /// `to`
    To,
    /// `subject`
    Subject,
    /// `reply-to`
    ReplyTo,
    /// `correlation-id`
    CorrelationId,
    /// `content-type`
    ContentType,
    /// `content-encoding`
    ContentEncoding,
    /// `absolute-expiry-time`
    AbsoluteExpiryTime,
    /// `creation-time`
    CreationTime,
    /// `group-id`
    GroupId,
    /// `group-sequence`
    GroupSequence,
    /// `reply-to-group-id`
    ReplyToGroupId,
}

impl Property {
    /// All of them, in the order of the section.
    pub const ALL: [Property; 13] = [
        Property::MessageId,
        Property::UserId,
        Property::To,
        Property::Subject,
        Property::ReplyTo,
        Property::CorrelationId,
        Property::ContentType,
        Property::ContentEncoding,
        Property::AbsoluteExpiryTime,
        Property::CreationTime,
        Property::GroupId,
        Property::GroupSequence,
        Property::ReplyToGroupId,
    ];

    /// Its name in an expression, words joined by underscores; AMQP joins them by hyphens.
    pub fn name(self) -> &'static str {
        match self {
            Property::MessageId => "message_id",
            Property::UserId => "user_id",
            Property::To => "to",
            Property::Subject => "subject",
            Property::ReplyTo => "reply_to",
            Property::CorrelationId => "correlation_id",
            Property::ContentType => "content_type",
            Property::ContentEncoding => "content_encoding",
            Property::AbsoluteExpiryTime => "absolute_expiry_time",
            Property::CreationTime => "creation_time",
            Property::GroupId => "group_id",
            Property::GroupSequence => "group_sequence",
            Property::ReplyToGroupId => "reply_to_group_id",
        }
    }

    /// The property of this name in an expression.
    pub(crate) fn named(name: &str) -> Option<Property> {
        Property::ALL.into_iter().find(|property| property.name() == name)
    }

    /// The property of this name in AMQP.
    pub(crate) fn hyphenated(name: &[u8]) -> Option<Property> {
        let letters =
            |property: &Property| property.name().bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
        Property::ALL.into_iter().find(|property| letters(property).eq(name.iter().copied()))
    }
}

/// A message that shows its values to filters. Each format implements it.
pub trait Fields {
    /// The value of a field; `None` where the message has no such field, which a [`Value::Null`] is not quite: a
    /// reference value of null asks whether there is an entry, whatever it holds.
    ///
    /// A value that is neither number, truth value, string nor bytes (a list, a decimal) is absent. Of two application
    /// properties of one name the first counts.
    fn field(&self, field: Field<'_>) -> Option<Value<'_>>;

    /// Looks for all paths of a program in the body, at once. Returns whether all that was needed could be read; what was
    /// not found otherwise is unknown.
    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool;
}
