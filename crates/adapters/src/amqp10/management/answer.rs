//! Answers of the management node, written as messages.

use super::arguments;
use super::request::End;
use base::percent;
use broker::catalog::{Binding, QueueDefinition};
use message::amqp10::section::descriptor::{APPLICATION_PROPERTIES, PROPERTIES, VALUE};
use message::amqp10::{Encoder, Value};
use routing::Arguments;

/// Writes an answer into `into`, emptied first: its head, then the value that `body` writes. `correlation` is the
/// encoding of the request's message-id.
pub(super) fn write(
    into: &mut Vec<u8>,
    status: &str,
    correlation: &[u8],
    body: impl FnOnce(&mut Encoder<'_>),
) {
    into.clear();
    let mut encoder = Encoder::new(into);
    encoder.descriptor(PROPERTIES.into());
    let mut list = encoder.list();
    // message-id, user-id and to before the subject; reply-to behind it.
    (0..3).for_each(|_| list.skip(&mut encoder));
    encoder.string(status);
    list.field(&encoder);
    list.skip(&mut encoder);
    encoder.encoding(correlation);
    list.field(&encoder);
    encoder.close(list);
    encoder.descriptor(APPLICATION_PROPERTIES.into());
    let mut map = encoder.map();
    encoder.string("http:response");
    map.field(&encoder);
    encoder.string("1.1");
    map.field(&encoder);
    encoder.close(map);
    encoder.descriptor(VALUE.into());
    body(&mut encoder);
}

/// Writes fields of a map whose keys are strings.
fn fields<'v>(encoder: &mut Encoder<'_>, fields: impl IntoIterator<Item = (&'v str, Part<'v>)>) {
    let mut map = encoder.map();
    for (name, part) in fields {
        encoder.string(name);
        map.field(encoder);
        match part {
            Part::Value(value) => encoder.value(value),
            Part::Arguments(arguments) => arguments::write(arguments, encoder),
            Part::Encoding(encoding) => encoder.encoding(encoding),
        }
        map.field(encoder);
    }
    encoder.close(map);
}

enum Part<'v> {
    Value(Value<'v>),
    Arguments(&'v Arguments),
    Encoding(&'v [u8]),
}

impl<'v> From<&'v str> for Part<'v> {
    fn from(text: &'v str) -> Part<'v> {
        Part::Value(Value::String(text))
    }
}

impl From<bool> for Part<'_> {
    fn from(flag: bool) -> Self {
        Part::Value(Value::Boolean(flag))
    }
}

/// A queue on this node: its definition and its numbers.
pub(super) fn queue(
    queue: &QueueDefinition,
    ready: u64,
    consumers: u32,
    node: &str,
    encoder: &mut Encoder<'_>,
) {
    let mut all = queue.arguments.clone();
    // The type is told among the arguments also where none was asked for.
    all.insert(b"x-queue-type", routing::Value::text(queue.queue_type.name()));
    let answer = QueueAnswer {
        name: &queue.name,
        vhost: &queue.vhost_name,
        ready,
        consumers,
        durable: queue.durable,
        auto_delete: queue.auto_delete,
        exclusive: queue.exclusive.is_some(),
        queue_type: queue.queue_type.name(),
        arguments: &all,
        replica: Some(node),
    };
    answer.write(node, encoder);
}

/// A volatile queue, in RabbitMQ's words: it has no replicas, and its receiver alone consumes from it.
pub(super) fn reply_queue(name: &str, vhost: &str, node: &str, encoder: &mut Encoder<'_>) {
    let answer = QueueAnswer {
        name,
        vhost,
        ready: 0,
        consumers: 1,
        durable: false,
        auto_delete: true,
        exclusive: false,
        queue_type: "rabbit_volatile_queue",
        arguments: &Arguments::default(),
        replica: None,
    };
    answer.write(node, encoder);
}

/// The answer that describes a queue.
struct QueueAnswer<'q> {
    name: &'q str,
    vhost: &'q str,
    ready: u64,
    consumers: u32,
    durable: bool,
    auto_delete: bool,
    exclusive: bool,
    queue_type: &'q str,
    arguments: &'q Arguments,
    replica: Option<&'q str>,
}

impl QueueAnswer<'_> {
    fn write(&self, leader: &str, encoder: &mut Encoder<'_>) {
        // An array of at most one string (§1.6.24): size, count, constructor, element.
        let element = self.replica.map(|node| [&(node.len() as u32).to_be_bytes(), node.as_bytes()].concat());
        let (count, element) = (u32::from(element.is_some()), element.unwrap_or_default());
        let mut replicas = vec![0xF0];
        replicas.extend_from_slice(&(4 + 1 + element.len() as u32).to_be_bytes());
        replicas.extend_from_slice(&count.to_be_bytes());
        replicas.push(0xB1);
        replicas.extend_from_slice(&element);
        fields(
            encoder,
            [
                ("leader", leader.into()),
                ("message_count", Part::Value(Value::Ulong(self.ready))),
                ("consumer_count", Part::Value(Value::Uint(self.consumers))),
                ("name", self.name.into()),
                ("vhost", self.vhost.into()),
                ("durable", self.durable.into()),
                ("auto_delete", self.auto_delete.into()),
                ("exclusive", self.exclusive.into()),
                ("type", self.queue_type.into()),
                ("arguments", Part::Arguments(self.arguments)),
                ("replicas", Part::Encoding(&replicas)),
            ],
        );
    }
}

/// How many messages went.
pub(super) fn count(messages: u64, encoder: &mut Encoder<'_>) {
    fields(encoder, [("message_count", Part::Value(Value::Ulong(messages)))]);
}

/// Bindings between the same two ends with the same key, in the order of their locations.
pub(super) fn bindings(source: &str, end: &End, bindings: &[&Binding], encoder: &mut Encoder<'_>) {
    let (destination, short, name) = match end {
        End::Queue(name) => ("destination_queue", "dstq", name),
        End::Exchange(name) => ("destination_exchange", "dste", name),
    };
    let mut located: Vec<(String, &Binding)> =
        bindings.iter().map(|binding| (hash(&binding.arguments), *binding)).collect();
    located.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut list = encoder.list();
    for (hash, binding) in located {
        let [source_encoded, name_encoded, key] = [source, name, &binding.key].map(percent::encoded);
        let location = format!("/bindings/src={source_encoded};{short}={name_encoded};key={key};args={hash}");
        fields(
            encoder,
            [
                ("source", source.into()),
                (destination, (&**name).into()),
                ("binding_key", (&*binding.key).into()),
                ("arguments", Part::Arguments(&binding.arguments)),
                ("location", (&*location).into()),
            ],
        );
        list.field(encoder);
    }
    encoder.close(list);
}

/// The name that tells bindings apart that differ in their arguments only; nothing for none. For the same arguments the same,
/// on every node and after a restart.
pub(super) fn hash(arguments: &Arguments) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let mut bytes = Vec::new();
    arguments::write(arguments, &mut Encoder::new(&mut bytes));
    format!("{:08x}", base::crc::crc32c(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::amqp10::Message;

    #[test]
    fn an_answer_is_a_message() {
        let mut bytes = vec![1];
        write(&mut bytes, "200", &[0x53, 7], |encoder| count(3, encoder));
        let message = Message::read(&bytes).unwrap();
        assert_eq!(message.properties.subject(), Some("200"));
        assert_eq!(message.properties.correlation_id(), Value::Ulong(7));
        assert_eq!(message.application_properties.get("http:response"), Some(Value::String("1.1")));
        let Some(Value::Map(map)) = message.body.sections().next() else { panic!("no map") };
        assert_eq!(map.get("message_count"), Some(Value::Ulong(3)));
    }
}
