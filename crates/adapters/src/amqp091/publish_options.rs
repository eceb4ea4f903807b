//! Requests to the broker in the properties of a message: a time to live, further keys (CC, BCC), a user that it is to
//! vouch for, a reply-to that stands for the requester's own name.

use broker::catalog::{Object, Reason, Refusal};
use broker::{More, REPLY_TO};
use message::amqp091::{Properties, Table, Value};

/// The options of one message.
#[derive(Debug, Default)]
pub(super) struct PublishOptions<'a> {
    pub(super) ttl_ms: Option<u64>,
    pub(super) more: More<'a>,
    /// The properties as they are kept, where they are others than the publisher's.
    pub(super) head: Option<Vec<u8>>,
}

/// A property of the message is none that it can have.
fn invalid(text: impl Into<Box<str>>) -> Refusal {
    Refusal::precondition(Reason::Invalid(Object::Message), text)
}

impl<'a> PublishOptions<'a> {
    /// `reply`: the name of the channel's reply consumer.
    pub(super) fn read(
        properties: &Properties<'a>,
        reply: Option<&str>,
    ) -> Result<PublishOptions<'a>, Refusal> {
        let mut options = PublishOptions::default();
        let wants_reply = properties.reply_to() == Some(REPLY_TO.as_bytes());
        if wants_reply && reply.is_none() {
            return Err(Refusal::precondition(
                Reason::NotFound(Object::Consumer),
                "fast reply consumer does not exist",
            ));
        }
        options.ttl_ms = properties.expiration_ms().map_err(|error| invalid(error.to_string()))?;
        let has_bcc = match properties.headers() {
            Some(headers) => options.read_keys(&headers)?,
            None => false,
        };
        options.more.user_id = properties.user_id();
        if wants_reply || has_bcc {
            let mut kept = properties.to_new();
            let fields = has_bcc.then(|| without_bcc(kept.headers.unwrap_or_default()));
            if let Some(fields) = &fields {
                kept.headers = Some(Table::new(fields).expect("fields of a table are a table"));
            }
            if wants_reply {
                kept.reply_to = reply.map(str::as_bytes);
            }
            let mut head = Vec::with_capacity(properties.raw().len() + 128);
            kept.write(&mut head);
            options.head = Some(head);
        }
        Ok(options)
    }

    /// The keys in the headers CC and BCC; true: there is a BCC, which nobody is to see.
    fn read_keys(&mut self, headers: &Table<'a>) -> Result<bool, Refusal> {
        let mut has_bcc = false;
        let mut hidden = Vec::new();
        let mut wrong = None;
        for (name, value) in headers.iter() {
            let shown = match name {
                b"CC" => "CC",
                b"BCC" => "BCC",
                _ => continue,
            };
            has_bcc |= name == b"BCC";
            let Value::Array(keys) = value else {
                // Where both are wrong, it is CC that is named.
                if wrong.is_none() || shown == "CC" {
                    wrong = Some((shown, super::tables::type_name(&value)));
                }
                continue;
            };
            // A value that is no text names nothing.
            let keys = keys.iter().filter_map(|key| match key {
                Value::Text(key) => Some(key),
                _ => None,
            });
            if name == b"BCC" { hidden.extend(keys) } else { self.more.keys.extend(keys) }
        }
        if let Some((shown, kind)) = wrong {
            let text = format!("invalid message: {{unacceptable_type_in_header,\"{shown}\",{kind}}}");
            return Err(invalid(text));
        }
        self.more.hidden = hidden.len();
        self.more.keys.extend(hidden);
        Ok(has_bcc)
    }
}

fn without_bcc(headers: Table<'_>) -> Vec<u8> {
    let mut fields = Vec::with_capacity(headers.bytes().len());
    for (name, value) in headers.iter().filter(|(name, _)| *name != b"BCC") {
        fields.push(name.len() as u8);
        fields.extend_from_slice(name);
        value.write(&mut fields);
    }
    fields
}
