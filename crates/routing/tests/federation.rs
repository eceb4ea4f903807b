//! Exchanges that brokers in front declare: the messages they let through, and how they may be declared.

use base::id::QueueId;
use routing::{
    Arguments, DeclareError, Destination, Envelope, Exchange, Field, Headers, IntType, Kind, Matches,
    Property, Value,
};

/// One header `x-received-from`.
struct Given(Option<Value>);

impl Headers for Given {
    fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        let value = self.0.as_ref().filter(|_| name == b"x-received-from")?;
        Some(match value {
            Value::Text(text) => Field::Bytes(text),
            other => Field::Nested(other.clone()),
        })
    }

    fn encodings<'a>(&'a self, _visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {}

    fn read<'a>(&'a self, _encoding: &'a [u8]) -> Option<Field<'a>> {
        None
    }

    fn property(&self, _property: Property) -> Option<Field<'_>> {
        None
    }
}

fn table(fields: &[(&str, &str)]) -> Value {
    Value::Table(fields.iter().map(|(name, value)| (name.as_bytes(), Value::text(value))).collect())
}

/// A broker that a message came through.
fn hop(cluster: &str, vhost: &str) -> Value {
    table(&[("cluster-name", cluster), ("vhost", vhost)])
}

fn declared(hops: i64, more: &[(&str, Value)]) -> Arguments {
    let hops = [("x-max-hops", Value::long(hops))];
    hops.iter().chain(more).map(|(name, value)| (name.as_bytes(), value.clone())).collect()
}

#[test]
fn messages_go_as_far_as_they_may() {
    let check = |hops: i64, received: Option<Value>, expected: bool| {
        let mut exchange = Exchange::new(Kind::FederationUpstream);
        exchange.arguments = declared(
            hops,
            &[("x-downstream-name", Value::text("front")), ("x-downstream-vhost", Value::text("/"))],
        );
        exchange.bind(&b"whatever"[..], Arguments::new(), Destination::Queue(QueueId(1)));
        assert!(exchange.sees_more_than_keys());
        let given = Given(received.clone());
        let mut matches = Matches::default();
        matches.start();
        exchange.route(&Envelope { headers: &given, ..Envelope::keyed(&[b"k"]) }, &mut matches);
        assert_eq!(matches.destinations().len(), usize::from(expected), "{hops} hops, {received:?}");
    };
    check(1, None, true);
    check(1, Some(Value::list([])), true);
    check(1, Some(Value::list([hop("a", "/")])), false);
    check(2, Some(Value::list([hop("a", "/")])), true);
    check(2, Some(Value::list([hop("a", "/"), hop("b", "/")])), false);
    check(9, Some(Value::list([hop("a", "/"), hop("front", "/")])), false);
    check(9, Some(Value::list([hop("front", "other")])), true);
    check(9, Some(Value::list([table(&[("cluster-name", "front")])])), true);
    check(9, Some(Value::list([Value::text("front")])), true);
    check(0, None, true);
    check(0, Some(Value::list([])), false);
    check(-1, Some(Value::list([])), false);
    // A value that is no list says nothing.
    check(1, Some(Value::text("front")), true);
    check(1, Some(hop("front", "/")), true);
}

/// Of a broker in front that does not tell its name, nothing was there before.
#[test]
fn a_nameless_broker_has_seen_nothing() {
    let mut exchange = Exchange::new(Kind::FederationUpstream);
    exchange.arguments = declared(5, &[]);
    exchange.bind(&b""[..], Arguments::new(), Destination::Queue(QueueId(1)));
    for received in [hop("front", "/"), table(&[])] {
        let given = Given(Some(Value::list([received])));
        let mut matches = Matches::default();
        matches.start();
        exchange.route(&Envelope { headers: &given, ..Envelope::keyed(&[b"k"]) }, &mut matches);
        assert_eq!(matches.destinations().len(), 1);
    }
}

#[test]
fn declarations_say_how_far() {
    let check = |hops: Option<Value>, expected: Result<(), &str>| {
        let arguments: Arguments = hops.iter().map(|hops| (&b"x-max-hops"[..], hops.clone())).collect();
        let answer = Kind::FederationUpstream.check_declaration(&arguments);
        let answer = answer.map_err(|error: DeclareError| error.to_string());
        assert_eq!(answer, expected.map_err(str::to_owned), "{hops:?}");
    };
    check(Some(Value::long(1)), Ok(()));
    check(Some(Value::long(-1)), Ok(()));
    check(None, Err("Argument x-max-hops missing"));
    for other in [Value::Int(IntType::SignedInt, 1), Value::Unsigned(1), Value::text("1"), Value::Void] {
        check(Some(other), Err("Argument x-max-hops must be of type long"));
    }
    let delayed = [(&b"x-delayed-type"[..], Value::text("x-federation-upstream"))].into_iter().collect();
    assert!(Kind::Delayed.check_declaration(&delayed).is_err());
}
