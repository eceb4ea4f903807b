//! The properties section (§3.2.4): a sender's fields about a message, which nobody may change.
//!
//! A view over the list as it came: a field is read when asked for. A field of the wrong type reads as absent.

use super::value::{Fields, List, Value, code};
use super::write::Encoder;

/// The fields' places in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Property {
    MessageId,
    UserId,
    To,
    Subject,
    ReplyTo,
    CorrelationId,
    ContentType,
    ContentEncoding,
    AbsoluteExpiryTime,
    CreationTime,
    GroupId,
    GroupSequence,
    ReplyToGroupId,
}

/// The properties of a message; all absent by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties<'a> {
    list: List<'a>,
}

impl<'a> Properties<'a> {
    /// A view of a checked list.
    pub fn new(list: List<'a>) -> Properties<'a> {
        Properties { list }
    }

    /// No field is there.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The field as it is; null where it is absent.
    pub fn get(&self, property: Property) -> Value<'a> {
        self.list.iter().nth(property as usize).unwrap_or(Value::Null)
    }

    /// All fields in the order of [`Property`], for callers that need many of them.
    pub fn fields(&self) -> [Value<'a>; 13] {
        let mut fields = Fields::new(self.list);
        std::array::from_fn(|_| fields.value().unwrap_or(Value::Null))
    }

    fn text(&self, property: Property) -> Option<&'a str> {
        self.get(property).as_str()
    }

    /// A ulong, uuid, binary or string; null where it is absent.
    pub fn message_id(&self) -> Value<'a> {
        self.get(Property::MessageId)
    }

    /// The user-id as it is, which only as a binary is one; null where it is absent. For most messages the answer needs
    /// no look at their values.
    #[inline]
    pub fn claimed_user(&self) -> Value<'a> {
        match self.list.bytes() {
            _ if self.list.len() <= Property::UserId as usize => Value::Null,
            [code::NULL, code::NULL, ..] => Value::Null,
            _ => self.get(Property::UserId),
        }
    }

    /// The user the sender says it is.
    pub fn user_id(&self) -> Option<&'a [u8]> {
        match self.get(Property::UserId) {
            Value::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The address it is meant for.
    pub fn to(&self) -> Option<&'a str> {
        self.text(Property::To)
    }

    /// The subject.
    pub fn subject(&self) -> Option<&'a str> {
        self.text(Property::Subject)
    }

    /// The address to answer to.
    pub fn reply_to(&self) -> Option<&'a str> {
        self.text(Property::ReplyTo)
    }

    /// A ulong, uuid, binary or string; null where it is absent.
    pub fn correlation_id(&self) -> Value<'a> {
        self.get(Property::CorrelationId)
    }

    /// The MIME type of the body.
    pub fn content_type(&self) -> Option<&'a str> {
        self.text(Property::ContentType)
    }

    /// The MIME encoding of the body.
    pub fn content_encoding(&self) -> Option<&'a str> {
        self.text(Property::ContentEncoding)
    }

    /// When it was made, milliseconds since 1970.
    pub fn creation_time_ms(&self) -> Option<i64> {
        match self.get(Property::CreationTime) {
            Value::Timestamp(ms) => Some(ms),
            _ => None,
        }
    }

    /// The group it belongs to.
    pub fn group_id(&self) -> Option<&'a str> {
        self.text(Property::GroupId)
    }

    /// Its number in the group.
    pub fn group_sequence(&self) -> Option<u32> {
        match self.get(Property::GroupSequence) {
            Value::Uint(number) => Some(number),
            _ => None,
        }
    }

    /// The group to answer to.
    pub fn reply_to_group_id(&self) -> Option<&'a str> {
        self.text(Property::ReplyToGroupId)
    }
}

/// Appends a properties section of these fields, in the order of [`Property`]; nothing where all are null.
pub fn write(fields: &[Value<'_>; 13], into: &mut Vec<u8>) {
    if fields.iter().all(|field| *field == Value::Null) {
        return;
    }
    let mut encoder = Encoder::new(into);
    encoder.descriptor(super::section::descriptor::PROPERTIES.into());
    let mut list = encoder.list();
    for field in fields {
        let field = Some(*field).filter(|field| *field != Value::Null);
        list.option(&mut encoder, field, |encoder, field| encoder.value(field));
    }
    encoder.close(list);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp10::Message;

    #[test]
    fn fields_come_back() {
        let mut fields = [Value::Null; 13];
        fields[0] = Value::Ulong(7);
        fields[3] = Value::String("subject");
        fields[9] = Value::Timestamp(-1);
        fields[11] = Value::Uint(300);
        let mut bytes = Vec::new();
        write(&fields, &mut bytes);
        bytes.extend([0, 0x53, 0x77, 0x40]);
        let properties = Message::read(&bytes).unwrap().properties;
        assert_eq!(properties.fields(), fields);
        assert_eq!(properties.message_id(), Value::Ulong(7));
        assert_eq!((properties.subject(), properties.to()), (Some("subject"), None));
        assert_eq!((properties.creation_time_ms(), properties.group_sequence()), (Some(-1), Some(300)));
        assert_eq!(properties.user_id(), None);
    }
}
