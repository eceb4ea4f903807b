//! Requests to the management node, read out of their messages.
//!
//! A request is a message: `subject` is the method, `to` the path with its query, the body an AMQP value. Nothing is known
//! here of the catalog; names are checked for their form alone.

use super::super::address::decode;
use super::arguments;
use message::amqp10::section::BodyKind;
use message::amqp10::{Decoder, Map, Message, Value};
use routing::Arguments;

/// An answer that says no: its status and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) status: &'static str,
    pub(super) text: String,
}

impl Wrong {
    pub(super) fn new(status: &'static str, text: impl Into<String>) -> Wrong {
        Wrong { status, text: text.into() }
    }
}

/// Where a binding ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Queue(Box<str>),
    Exchange(Box<str>),
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    DeclareQueue {
        name: Box<str>,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Arguments,
    },
    GetQueue(Box<str>),
    DeleteQueue(Box<str>),
    PurgeQueue(Box<str>),
    DeclareExchange {
        name: Box<str>,
        kind: Box<str>,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Arguments,
    },
    DeleteExchange(Box<str>),
    Bind {
        source: Box<str>,
        end: End,
        key: Box<str>,
        arguments: Arguments,
    },
    ListBindings {
        source: Box<str>,
        end: End,
        key: Box<str>,
    },
    /// `hash` is the one that a listing gave; empty: the binding without arguments.
    Unbind {
        source: Box<str>,
        end: End,
        key: Box<str>,
        hash: Box<str>,
    },
    /// A new token replaces the one that was logged in with.
    RenewToken,
}

impl Request {
    pub(super) fn read(message: &Message<'_>) -> Result<Request, Wrong> {
        let (Some(method), Some(to)) = (message.properties.subject(), message.properties.to()) else {
            return Err(Wrong::new("400", "a request needs a method in 'subject' and a path in 'to'"));
        };
        let (path, query) = to.split_once('?').unwrap_or((to, ""));
        let mut segments = path.split('/');
        if segments.next() != Some("") {
            return Err(Wrong::new(
                "400",
                format!("failed to normalize URI '{to}': it does not begin with '/'"),
            ));
        }
        let segments: Vec<&str> = segments.take(4).collect();
        let name = |segment: &str| {
            let name = decode(segment).ok_or_else(|| {
                Wrong::new("400", format!("failed to normalize URI '{to}': invalid_percent_encoding"))
            })?;
            Ok(Box::from(name))
        };
        match (method, &segments[..]) {
            ("PUT", ["queues", queue]) => declare_queue(name(queue)?, message),
            ("GET", ["queues", queue]) => Ok(Request::GetQueue(name(queue)?)),
            ("DELETE", ["queues", queue]) => Ok(Request::DeleteQueue(name(queue)?)),
            ("DELETE", ["queues", queue, "messages"]) => Ok(Request::PurgeQueue(name(queue)?)),
            ("PUT", ["exchanges", exchange]) => declare_exchange(name(exchange)?, message),
            ("DELETE", ["exchanges", exchange]) => Ok(Request::DeleteExchange(name(exchange)?)),
            ("POST", ["bindings"]) => bind(message),
            ("GET", ["bindings"]) => list_bindings(query),
            ("DELETE", ["bindings", segment]) => unbind(segment),
            ("PUT", ["auth", "tokens"]) => match body(message) {
                Some(Value::Binary(_)) => Ok(Request::RenewToken),
                _ => Err(Wrong::new("400", "a token is an AMQP value of type binary")),
            },
            _ => Err(Wrong::new("404", format!("there is no '{method} {path}'"))),
        }
    }
}

/// Sections a request may have that are to be put in order.
const SECTIONS_MAX: usize = 7;

/// The sections of a message in their order (§3.2), if they come in another: RabbitMQ's client for Python writes its
/// empty body before everything else. A payload that cannot be told apart is left to [`Message::read`] to refuse.
pub(super) fn in_order(payload: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = Decoder::new(payload);
    let mut sections = Vec::new();
    while !decoder.is_empty() && sections.len() < SECTIONS_MAX {
        let section = decoder.encoding().ok()?;
        let [0x00, 0x53, code, ..] = section else { return None };
        sections.push((*code, section));
    }
    if !decoder.is_empty() || sections.is_sorted_by_key(|(code, _)| *code) {
        return None;
    }
    sections.sort_by_key(|(code, _)| *code);
    Some(sections.iter().flat_map(|(_, section)| section.iter().copied()).collect())
}

/// The single AMQP value a message holds.
fn body<'a>(message: &Message<'a>) -> Option<Value<'a>> {
    let mut sections = message.body.sections();
    (message.body.kind == BodyKind::Value).then(|| sections.next())?
}

fn fields<'a>(message: &Message<'a>) -> Result<Map<'a>, Wrong> {
    match body(message) {
        Some(Value::Map(map)) => Ok(map),
        _ => Err(Wrong::new("400", "the body is to be a map")),
    }
}

/// Walks the fields of a body; `take` says whether it knows the field and its type.
fn each_field(
    message: &Message<'_>,
    kind: &str,
    mut take: impl FnMut(&str, Value<'_>) -> Option<()>,
) -> Result<(), Wrong> {
    for (name, value) in fields(message)?.iter() {
        let taken = if let Value::String(text) = name { take(text, value) } else { None };
        if taken.is_none() {
            return Err(Wrong::new("400", format!("bad {kind} {{{},{}}}", term(&name), term(&value))));
        }
    }
    Ok(())
}

/// A value as RabbitMQ's texts write it.
fn term(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Boolean(value) => value.to_string(),
        Value::String(text) => format!("{{utf8,<<\"{text}\">>}}"),
        Value::Symbol(text) => format!("{{symbol,<<\"{text}\">>}}"),
        Value::Ubyte(number) => format!("{{ubyte,{number}}}"),
        Value::Ushort(number) => format!("{{ushort,{number}}}"),
        Value::Uint(number) => format!("{{uint,{number}}}"),
        Value::Ulong(number) => format!("{{ulong,{number}}}"),
        Value::Byte(number) => format!("{{byte,{number}}}"),
        Value::Short(number) => format!("{{short,{number}}}"),
        Value::Int(number) => format!("{{int,{number}}}"),
        Value::Long(number) => format!("{{long,{number}}}"),
        Value::Float(number) => format!("{{float,{number}}}"),
        Value::Double(number) => format!("{{double,{number}}}"),
        Value::Timestamp(ms) => format!("{{timestamp,{ms}}}"),
        Value::Binary(_) => "{binary,...}".to_owned(),
        Value::List(_) => "{list,...}".to_owned(),
        Value::Map(_) => "{map,...}".to_owned(),
        Value::Array(_) => "{array,...}".to_owned(),
        _ => "...".to_owned(),
    }
}

fn flag(value: Value<'_>, into: &mut bool) -> Option<()> {
    let Value::Boolean(given) = value else { return None };
    *into = given;
    Some(())
}

fn map(value: Value<'_>, into: &mut Arguments) -> Option<()> {
    let Value::Map(given) = value else { return None };
    *into = arguments::read(&given)?;
    Some(())
}

fn text(value: Value<'_>) -> Option<Box<str>> {
    if let Value::String(text) = value { Some(text.into()) } else { None }
}

/// Names that a declaration may give.
fn check_name(name: &str) -> Result<(), Wrong> {
    if name.contains(['\r', '\n']) {
        let text = format!("Bad name '{name}': line feed and carriage return characters not allowed");
        return Err(Wrong::new("400", text));
    }
    Ok(())
}

fn declare_queue(name: Box<str>, message: &Message<'_>) -> Result<Request, Wrong> {
    let (mut durable, mut exclusive, mut auto_delete) = (true, false, false);
    let mut arguments = Arguments::default();
    each_field(message, "queue property", |field, value| match field {
        "durable" => flag(value, &mut durable),
        "exclusive" => flag(value, &mut exclusive),
        "auto_delete" => flag(value, &mut auto_delete),
        "arguments" => map(value, &mut arguments),
        _ => None,
    })?;
    check_name(&name)?;
    if name.is_empty() {
        return Err(Wrong::new("400", "declare queue with empty name not allowed"));
    }
    Ok(Request::DeclareQueue { name, durable, exclusive, auto_delete, arguments })
}

fn declare_exchange(name: Box<str>, message: &Message<'_>) -> Result<Request, Wrong> {
    let (mut durable, mut auto_delete, mut internal) = (true, false, false);
    let (mut kind, mut arguments) = (Box::from("direct"), Arguments::default());
    each_field(message, "exchange property", |field, value| match field {
        "type" => {
            kind = text(value)?;
            Some(())
        }
        "durable" => flag(value, &mut durable),
        "auto_delete" => flag(value, &mut auto_delete),
        "internal" => flag(value, &mut internal),
        "arguments" => map(value, &mut arguments),
        _ => None,
    })?;
    check_name(&name)?;
    Ok(Request::DeclareExchange { name, kind, durable, auto_delete, internal, arguments })
}

fn bind(message: &Message<'_>) -> Result<Request, Wrong> {
    let (mut source, mut queue, mut exchange, mut key) = (None, None, None, None);
    let mut arguments = Arguments::default();
    each_field(message, "binding field", |field, value| {
        match field {
            "source" => source = Some(text(value)?),
            "destination_queue" => queue = Some(text(value)?),
            "destination_exchange" => exchange = Some(text(value)?),
            "binding_key" => key = Some(text(value)?),
            "arguments" => map(value, &mut arguments)?,
            _ => return None,
        }
        Some(())
    })?;
    // With both, the queue is the one.
    let end = queue.map(End::Queue).or_else(|| exchange.map(End::Exchange));
    let (Some(source), Some(end), Some(key)) = (source, end, key) else {
        let text =
            "a binding needs 'source', 'binding_key' and 'destination_queue' or 'destination_exchange'";
        return Err(Wrong::new("400", text));
    };
    Ok(Request::Bind { source, end, key, arguments })
}

/// The values of `name=value` pairs, in the order of `names`; `None` for one that is not there.
fn pairs<'q, const N: usize>(
    pairs: impl Iterator<Item = &'q str>,
    names: [&str; N],
) -> Option<[Option<Box<str>>; N]> {
    let mut found = [const { None }; N];
    for pair in pairs.take(2 * N) {
        let (name, value) = pair.split_once('=')?;
        if let Some(at) = names.iter().position(|known| *known == name) {
            found[at] = Some(decode(value)?.into());
        }
    }
    Some(found)
}

fn list_bindings(query: &str) -> Result<Request, Wrong> {
    // A form's encoding: a plus is a space.
    let query = query.replace('+', "%20");
    let found = pairs(query.split('&'), ["src", "dstq", "dste", "key"]);
    if let Some([Some(source), queue, exchange, Some(key)]) = found
        && let Some(end) = queue.map(End::Queue).or_else(|| exchange.map(End::Exchange))
    {
        return Ok(Request::ListBindings { source, end, key });
    }
    Err(Wrong::new("400", "a listing of bindings needs 'src', 'key' and 'dstq' or 'dste'"))
}

fn unbind(segment: &str) -> Result<Request, Wrong> {
    let found = pairs(segment.split(';'), ["src", "dstq", "dste", "key", "args"]);
    if let Some([Some(source), queue, exchange, Some(key), Some(hash)]) = found
        && !source.is_empty()
        && let Some(end) = queue.map(End::Queue).or_else(|| exchange.map(End::Exchange))
    {
        return Ok(Request::Unbind { source, end, key, hash });
    }
    Err(Wrong::new("400", format!("bad binding path segment '{segment}'")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::amqp10::{Encoder, properties};

    fn message(method: &str, to: &str, body: &[(&str, Value<'_>)]) -> Vec<u8> {
        let mut fields = [Value::Null; 13];
        (fields[2], fields[3]) = (Value::String(to), Value::String(method));
        let mut bytes = Vec::new();
        properties::write(&fields, &mut bytes);
        let mut encoder = Encoder::new(&mut bytes);
        encoder.descriptor(0x77);
        let mut map = encoder.map();
        for (name, value) in body {
            encoder.string(name);
            map.field(&encoder);
            encoder.value(*value);
            map.field(&encoder);
        }
        encoder.close(map);
        bytes
    }

    fn ask(method: &str, to: &str, body: &[(&str, Value<'_>)]) -> Result<Request, (&'static str, String)> {
        let bytes = message(method, to, body);
        Request::read(&Message::read(&bytes).unwrap()).map_err(|wrong| (wrong.status, wrong.text))
    }

    #[test]
    fn paths() {
        let check = |method: &str, to: &str, expected: Option<Request>| {
            assert_eq!(ask(method, to, &[]).ok(), expected, "{method} {to}");
        };
        check("GET", "/queues/a%2Fb", Some(Request::GetQueue("a/b".into())));
        check("GET", "/queues/a/b", None);
        check("GET", "queues/a", None);
        check("get", "/queues/a", None);
        check("GET", "/queues/a%zz", None);
        check("DELETE", "/queues/a", Some(Request::DeleteQueue("a".into())));
        check("DELETE", "/queues/a/messages", Some(Request::PurgeQueue("a".into())));
        check("DELETE", "/queues/a?x=y", Some(Request::DeleteQueue("a".into())));
        check("DELETE", "/exchanges/e", Some(Request::DeleteExchange("e".into())));
        check("PUT", "/queues/", None);
        check("GET", "/nothing", None);
        check("GET", "", None);
        check("GET", "/", None);
        check("GET", "/bindings?src=a&dstq=b", None);
        check("GET", "/bindings?src=a&key=b", None);
        let (source, key) = ("a;b=c/d e".into(), "k &".into());
        let expected = Request::ListBindings { source, end: End::Exchange("e".into()), key };
        check("GET", "/bindings?key=k%20%26&dste=e&src=a%3Bb%3Dc%2Fd+e", Some(expected));
        let (source, end, key) = ("s".into(), End::Queue("q".into()), "".into());
        let expected = Request::Unbind { source, end, key, hash: "1f".into() };
        check("DELETE", "/bindings/src=s;dstq=q;key=;args=1f", Some(expected));
        check("DELETE", "/bindings/src=;dstq=q;key=;args=", None);
        check("DELETE", "/bindings/src=s;dstq=q;key=", None);
    }

    #[test]
    fn sections_in_any_order() {
        let body = [0, 0x53, 0x77, 0x40];
        let with_body = message("GET", "/queues/q", &[]);
        let tail = Message::read(&with_body).unwrap().body.bytes().len();
        let properties = &with_body[..with_body.len() - tail];
        // Properties alone are not all that may come behind the body.
        let properties = &[&[0, 0x53, 0x70, 0x45], properties].concat()[..];
        let swapped = [&body[..], properties].concat();
        assert!(Message::read(&swapped).is_err());
        let ordered = in_order(&swapped).unwrap();
        assert_eq!(ordered, [properties, &body[..]].concat());
        assert_eq!(Request::read(&Message::read(&ordered).unwrap()), Ok(Request::GetQueue("q".into())));
        assert_eq!(in_order(&ordered), None);
        assert_eq!(in_order(&[]), None);
        assert_eq!(in_order(&[0, 0x53]), None);
        assert_eq!(in_order(&[&body[..], properties, &[0xFF]].concat()), None);
    }

    #[test]
    fn bodies() {
        let refused = |to: &str, body: &[(&str, Value<'_>)], text: &str| {
            assert_eq!(ask("PUT", to, body), Err(("400", text.to_owned())), "{to}");
        };
        refused(
            "/queues/q",
            &[("unknown", Value::Long(1))],
            "bad queue property {{utf8,<<\"unknown\">>},{long,1}}",
        );
        let text = "bad queue property {{utf8,<<\"durable\">>},{utf8,<<\"x\">>}}";
        refused("/queues/q", &[("durable", Value::String("x"))], text);
        refused(
            "/exchanges/e",
            &[("type", Value::Long(5))],
            "bad exchange property {{utf8,<<\"type\">>},{long,5}}",
        );
        let text = "Bad name 'a\nb\r': line feed and carriage return characters not allowed";
        refused("/queues/a%0ab%0d", &[], text);
        refused("/queues/", &[], "declare queue with empty name not allowed");
        let declared = ask("PUT", "/queues/q", &[("exclusive", Value::Boolean(true))]);
        let expected = Request::DeclareQueue {
            name: "q".into(),
            durable: true,
            exclusive: true,
            auto_delete: false,
            arguments: Arguments::default(),
        };
        assert_eq!(declared, Ok(expected));
        let binding = [
            ("source", Value::String("e")),
            ("destination_exchange", Value::String("f")),
            ("destination_queue", Value::String("q")),
            ("binding_key", Value::String("k")),
        ];
        let end = End::Queue("q".into());
        let expected =
            Request::Bind { source: "e".into(), end, key: "k".into(), arguments: Arguments::default() };
        assert_eq!(ask("POST", "/bindings", &binding), Ok(expected));
        assert!(ask("POST", "/bindings", &binding[..3]).is_err());
    }
}
