//! What exchanges see of a message's headers, in either encoding.

use base::id::QueueId;
use broker::fields::Fields091;
use message::amqp091::{NewProperties, Properties, Table, TableWriter, Value as Wire};
use routing::{Arguments, Destination, Envelope, Exchange, Headers, Kind, Matches, Value};

/// Does with the headers of a 0-9-1 message what `look` does.
fn with_091(headers: &[(&str, Wire<'_>)], look: impl FnOnce(&dyn Headers)) {
    let fields = TableWriter::fields(|table| {
        headers.iter().for_each(|(name, value)| table.put(name.as_bytes(), *value));
    });
    let mut raw = Vec::new();
    let headers = Some(Table::new(&fields).unwrap());
    NewProperties { headers, ..NewProperties::default() }.write(&mut raw);
    look(&Fields091(&Properties::read(&raw).unwrap()));
}

/// The bindings, in order, that let a message through.
fn bound(bindings: &[&[(&str, Value)]], headers: &dyn Headers) -> Vec<usize> {
    let mut exchange = Exchange::new(Kind::Headers);
    for (id, binding) in bindings.iter().enumerate() {
        let arguments = binding.iter().map(|(name, value)| (name.as_bytes(), value.clone()));
        exchange.bind(b"", Arguments::from_iter(arguments), Destination::Queue(QueueId(id as u64)));
    }
    let mut matches = Matches::default();
    exchange.route(&Envelope { headers, ..Envelope::keyed(&[b""]) }, &mut matches);
    matches.queues().map(|queue| queue.0 as usize).collect()
}

#[test]
fn of_a_header_that_comes_twice_the_last_counts() {
    let h = |number| [("h", Value::long(number))];
    with_091(&[("h", Wire::I32(1)), ("h", Wire::I32(2))], |headers| {
        assert_eq!(bound(&[&h(1), &h(2)], headers), [1]);
    });
}
