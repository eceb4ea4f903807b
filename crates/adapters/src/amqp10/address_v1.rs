//! Addresses of the first version, where the operator permits them: `/exchange/EXCHANGE/KEY`, `/topic/KEY`,
//! `/queue/QUEUE`, `/amq/queue/QUEUE` and plain names of queues.
//!
//! Nothing is escaped in them but a slash, as `%2F`. The texts of refusals are RabbitMQ's.

/// The thing that an address of the first version names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// An exchange and a key; none: a sender's messages go by their subjects.
    Exchange(Box<str>, Option<Box<str>>),
    /// A queue, made if it is not there.
    Queue(Box<str>),
    /// A queue that must be there.
    Existing(Box<str>),
    /// For senders: the queues that the subjects of messages name.
    Queues,
}

/// The thing that an address names to a sender, or to a receiver; the error says why it names nothing.
pub(super) fn named(address: &str, is_sender: bool) -> Result<Named, String> {
    let unknown = || Err(format!("Attach refused: {{unknown_destination,\"{address}\"}}"));
    let parts: Vec<&str> = address.split('/').collect();
    match &*parts {
        [""] => unknown(),
        [name] => Ok(Named::Queue(unescape(name))),
        ["", "exchange", rest @ ..] => match rest {
            [name, more @ ..] if !name.is_empty() && more.len() <= 1 => {
                let key = more.first().filter(|key| !key.is_empty()).map(|key| unescape(key));
                Ok(Named::Exchange(unescape(name), key))
            }
            _ => invalid("exchange", rest),
        },
        ["", "topic", rest @ ..] => {
            let key = one("topic", rest)?;
            Ok(Named::Exchange("amq.topic".into(), Some(key)))
        }
        ["", "queue"] if is_sender => Ok(Named::Queues),
        ["", "queue", rest @ ..] => Ok(Named::Queue(one("queue", rest)?)),
        ["", "amq", "queue", rest @ ..] => Ok(Named::Existing(one("amqqueue", rest)?)),
        _ => unknown(),
    }
}

/// The only part there may be.
fn one(kind: &str, rest: &[&str]) -> Result<Box<str>, String> {
    match rest {
        [name] if !name.is_empty() => Ok(unescape(name)),
        _ => invalid(kind, rest),
    }
}

fn invalid<T>(kind: &str, rest: &[&str]) -> Result<T, String> {
    let shown = if rest.is_empty() { "[]".to_owned() } else { format!("\"/{}\"", rest.join("/")) };
    Err(format!("Attach refused: {{invalid_destination,{kind},{shown}}}"))
}

fn unescape(name: &str) -> Box<str> {
    name.replace("%2F", "/").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, for_sender: Result<Named, &str>, for_receiver: Result<Named, &str>) {
        for (is_sender, expected) in [(true, for_sender), (false, for_receiver)] {
            let expected = expected.map_err(|text| format!("Attach refused: {text}"));
            assert_eq!(named(address, is_sender), expected, "{address}");
        }
    }

    fn both(address: &str, expected: Result<Named, &str>) {
        check(address, expected.clone(), expected);
    }

    #[test]
    fn every_form() {
        both("plain", Ok(Named::Queue("plain".into())));
        both("amq.gen-1%2F2%20", Ok(Named::Queue("amq.gen-1/2%20".into())));
        both("/queue/q", Ok(Named::Queue("q".into())));
        both("/queue/a%2fb", Ok(Named::Queue("a%2fb".into())));
        both("/amq/queue/q", Ok(Named::Existing("q".into())));
        both("/topic/a.b", Ok(Named::Exchange("amq.topic".into(), Some("a.b".into()))));
        both("/exchange/x", Ok(Named::Exchange("x".into(), None)));
        both("/exchange/x/", Ok(Named::Exchange("x".into(), None)));
        both("/exchange/x%2Fy/k%2Fl", Ok(Named::Exchange("x/y".into(), Some("k/l".into()))));
        check("/queue", Ok(Named::Queues), Err("{invalid_destination,queue,[]}"));
    }

    #[test]
    fn what_names_nothing() {
        both("a/b", Err("{unknown_destination,\"a/b\"}"));
        both("", Err("{unknown_destination,\"\"}"));
        both("/", Err("{unknown_destination,\"/\"}"));
        both("/foo/x", Err("{unknown_destination,\"/foo/x\"}"));
        both("/temp-queue/x", Err("{unknown_destination,\"/temp-queue/x\"}"));
        both("/queue/", Err("{invalid_destination,queue,\"/\"}"));
        both("/queue/a/b", Err("{invalid_destination,queue,\"/a/b\"}"));
        both("/exchange", Err("{invalid_destination,exchange,[]}"));
        both("/exchange//k", Err("{invalid_destination,exchange,\"//k\"}"));
        both("/exchange/x/k/l", Err("{invalid_destination,exchange,\"/x/k/l\"}"));
        both("/topic", Err("{invalid_destination,topic,[]}"));
        both("/topic/", Err("{invalid_destination,topic,\"/\"}"));
        both("/amq/queue", Err("{invalid_destination,amqqueue,[]}"));
    }
}
