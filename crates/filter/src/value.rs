//! Values of messages as filters see them, and the trait by which a message shows them.

/// A value, borrowed from the message or the expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// No value: SQL's unknown.
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
}

impl Value<'_> {
    /// The truth of a value: `None` for unknown, and for every value that is no truth value.
    pub(crate) fn truth(self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    pub(crate) fn of_truth(truth: Option<bool>) -> Value<'static> {
        truth.map_or(Value::Null, Value::Bool)
    }
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
}
