//! Exchanges that give each message to one destination: which one, as RabbitMQ 4.3.6 chose.

use base::id::QueueId;
use routing::{
    Arguments, BindError, DeclareError, Destination, Envelope, Exchange, ExchangeId, Field, Headers, IntType,
    Kind, Matches, Property, Value,
};

/// One header `h`, and each property the same.
struct Given<'a>(Option<Field<'a>>);

impl Headers for Given<'_> {
    fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        self.0.clone().filter(|_| name == b"h")
    }

    fn encodings<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        visit(b"h", b"h");
    }

    fn read<'a>(&'a self, encoding: &'a [u8]) -> Option<Field<'a>> {
        self.get(encoding)
    }

    fn property(&self, _property: Property) -> Option<Field<'_>> {
        self.0.clone()
    }
}

fn queue(id: u64) -> Destination {
    Destination::Queue(QueueId(id))
}

fn exchange(kind: Kind, arguments: &[(&str, &str)], bindings: &[(&str, u64)]) -> Exchange {
    let mut exchange = Exchange::new(kind);
    let arguments = arguments.iter().map(|(name, value)| (name.as_bytes(), Value::text(value)));
    exchange.arguments = arguments.collect();
    for (key, id) in bindings {
        exchange.bind(key.as_bytes(), Arguments::new(), queue(*id));
    }
    exchange
}

/// The number of the one queue a message goes to.
fn chosen(exchange: &Exchange, message: &Envelope<'_>) -> u64 {
    let mut matches = Matches::default();
    exchange.route(message, &mut matches);
    match matches.destinations() {
        [Destination::Queue(id)] => id.0,
        other => panic!("not one queue: {other:?}"),
    }
}

fn by_key(exchange: &Exchange, keys: &[&str]) -> Vec<u64> {
    let chosen = |key: &&str| chosen(exchange, &Envelope::keyed(&[key.as_bytes()]));
    keys.iter().map(chosen).collect()
}

const KEYS: [&str; 10] =
    ["", "a", "b", "c", "abc", "key-1", "key-2", "key-3", "0123456789ab", "hello world 12"];

#[test]
fn weights_and_order_make_the_ring() {
    let ring = exchange(Kind::ConsistentHash, &[], &[("1", 1), ("2", 2), ("3", 3)]);
    assert_eq!(by_key(&ring, &KEYS), [1, 2, 2, 3, 3, 2, 3, 2, 3, 3]);
    let ring = exchange(Kind::ConsistentHash, &[], &[("1", 3), ("1", 1), ("1", 2)]);
    assert_eq!(by_key(&ring, &KEYS), [3, 1, 1, 1, 1, 1, 1, 1, 1, 3]);
    assert_eq!(chosen(&ring, &Envelope::keyed(&[b"a", b""])), 1, "the first key alone counts");
    assert!(!ring.sees_more_than_keys());
}

#[test]
fn a_remainder_chooses() {
    let three = exchange(Kind::ModulusHash, &[], &[("", 1), ("", 2), ("", 3)]);
    assert_eq!(by_key(&three, &KEYS), [1, 1, 1, 2, 1, 1, 3, 2, 1, 1]);
    assert_eq!(chosen(&three, &Envelope::keyed(&[b"a", b"b"])), 2, "all keys count");
    assert_eq!(chosen(&three, &Envelope::keyed(&[b"a", b"b", b"c"])), 1);
    let twice = exchange(Kind::ModulusHash, &[], &[("", 3), ("b", 1), ("", 2), ("a", 1)]);
    assert_eq!(by_key(&twice, &KEYS), [1, 2, 2, 2, 1, 2, 3, 2, 1, 2]);
    assert!(!three.sees_more_than_keys());
}

#[test]
fn a_header_chooses() {
    let ring = exchange(Kind::ConsistentHash, &[("hash-header", "h")], &[("1", 1), ("1", 2), ("1", 3)]);
    let day = |day: u64| Field::Timestamp(1_767_225_600 + day * 86_400);
    let rows = [
        (None, 2),
        (Some(Field::Void), 2),
        (Some(Field::Bytes(b"a")), 2),
        (Some(Field::Bytes(b"e")), 3),
        (Some(Field::Bytes(b"")), 1),
        (Some(Field::Int(1)), 3),
        (Some(Field::Int(2)), 1),
        (Some(Field::Int(3)), 2),
        (Some(Field::Int(-1)), 3),
        (Some(Field::Int(0)), 1),
        (Some(Field::Unsigned(42)), 2),
        (Some(Field::Int(1_000_000_000_000)), 1),
        (Some(Field::Bool(true)), 1),
        (Some(Field::Bool(false)), 1),
        (Some(day(0)), 3),
        (Some(day(1)), 3),
        (Some(day(2)), 1),
    ];
    for (field, expected) in rows {
        let headers = &Given(field);
        assert_eq!(
            chosen(&ring, &Envelope { headers, ..Envelope::keyed(&[b"k"]) }),
            expected,
            "{:?}",
            headers.0
        );
    }
    assert!(ring.sees_more_than_keys());
}

#[test]
fn a_property_chooses() {
    let check = |property: &str, field: Field<'_>, expected: u64| {
        let hashed = [("hash-property", property)];
        let ring = exchange(Kind::ConsistentHash, &hashed, &[("1", 1), ("1", 2), ("1", 3)]);
        assert!(ring.sees_more_than_keys());
        let headers = &Given(Some(field));
        let found = chosen(&ring, &Envelope { headers, ..Envelope::keyed(&[b"k"]) });
        assert_eq!(found, expected, "{property} {:?}", headers.0);
    };
    check("correlation_id", Field::Bytes(b"a"), 2);
    check("message_id", Field::Bytes(b"e"), 3);
    check("message_id", Field::Bytes(b""), 1);
    // As its digits are.
    check("timestamp", Field::Timestamp(0), 2);
    check("timestamp", Field::Timestamp(1), 3);
    check("timestamp", Field::Timestamp(1_700_000_000), 2);
    check("timestamp", Field::Timestamp(1_700_000_002), 1);
}

#[test]
fn lots_fall_evenly() {
    for kind in [Kind::Random, Kind::LocalRandom] {
        let lots = exchange(kind, &[], &[("", 1), ("", 2), ("", 3)]);
        let mut dice = base::Random::new(1);
        let mut found = [0; 4];
        for _ in 0..3_000 {
            let message = Envelope { roll: dice.bits(), ..Envelope::keyed(&[b"k"]) };
            found[chosen(&lots, &message) as usize] += 1;
        }
        assert!(found[1..].iter().all(|count| (900..1_100).contains(count)), "{found:?}");
        assert!(lots.sees_more_than_keys());
    }
}

#[test]
fn without_bindings_nothing_is_chosen() {
    for kind in [Kind::ConsistentHash, Kind::ModulusHash, Kind::Random, Kind::LocalRandom] {
        let mut matches = Matches::default();
        Exchange::new(kind).route(&Envelope::keyed(&[b"k"]), &mut matches);
        assert!(matches.is_empty(), "{kind:?}");
    }
}

#[test]
fn exchanges_are_chosen_too() {
    let mut lots = exchange(Kind::ModulusHash, &[], &[("", 1)]);
    lots.bind(&b""[..], Arguments::new(), Destination::Exchange(ExchangeId(7)));
    let mut matches = Matches::default();
    lots.route(&Envelope::keyed(&[b"a"]), &mut matches);
    lots.route(&Envelope::keyed(&[b""]), &mut matches);
    lots.route(&Envelope::keyed(&[b"key-3"]), &mut matches);
    assert_eq!(matches.destinations(), [Destination::Exchange(ExchangeId(7)), queue(1)]);
}

#[test]
fn bindings_have_rules() {
    let check = |kind: Kind, key: &str, expected: &str| {
        let answer = kind.check(key.as_bytes(), &Arguments::new());
        assert_eq!(answer.as_ref().err().map_or("ok".to_owned(), BindError::to_string), expected, "{key}");
    };
    let hash = Kind::ConsistentHash;
    check(hash, "", "The binding key must be an integer: <<>>");
    check(hash, "a", "The binding key must be an integer: <<\"a\">>");
    check(hash, " 5", "The binding key must be an integer: <<\" 5\">>");
    check(hash, "é", "The binding key must be an integer: <<\"é\"/utf8>>");
    check(hash, "0", "The binding key must be greater than 0");
    check(hash, "-1", "The binding key must be greater than 0");
    check(hash, "10001", "The binding key must not exceed 10000");
    check(hash, "99999999999999999999999", "The binding key must not exceed 10000");
    check(hash, "10000", "ok");
    check(hash, "+5", "ok");
    check(Kind::LocalRandom, "a", "Non empty binding 'a' key not permitted");
    check(Kind::LocalRandom, "", "ok");
    check(Kind::Random, "a", "ok");
    check(Kind::ModulusHash, "a", "ok");
}

#[test]
fn declarations_have_rules() {
    let check = |arguments: &[(&str, Value)], expected: &str| {
        let arguments: Arguments =
            arguments.iter().map(|(name, value)| (name.as_bytes(), value.clone())).collect();
        let answer = Kind::ConsistentHash.check_declaration(&arguments);
        assert_eq!(answer.as_ref().err().map_or("ok".to_owned(), DeclareError::to_string), expected);
        assert_eq!(Kind::Direct.check_declaration(&arguments), Ok(()));
    };
    let (header, property) =
        (("hash-header", Value::text("h")), ("hash-property", Value::text("message_id")));
    check(&[], "ok");
    check(std::slice::from_ref(&header), "ok");
    check(std::slice::from_ref(&property), "ok");
    check(&[header, property], "hash-header and hash-property are mutually exclusive");
    check(&[("hash-property", Value::text("foo"))], "Unsupported property: foo");
    check(&[("hash-header", Value::long(5))], "invalid type 'long' for arg 'hash-header'");
}

#[test]
fn so_much_may_be_remembered() {
    let check = |length: Option<Value>, expected: &str| {
        let arguments: Arguments =
            length.iter().map(|length| (&b"x-recent-history-length"[..], length.clone())).collect();
        let answer = Kind::RecentHistory.check_declaration(&arguments);
        assert_eq!(answer.as_ref().err().map_or("ok".to_owned(), DeclareError::to_string), expected);
    };
    let refused = |value: &str| {
        format!("Invalid argument {value}, 'x-recent-history-length' must be a positive integer")
    };
    check(None, "ok");
    check(Some(Value::long(1)), "ok");
    check(Some(Value::Int(IntType::Byte, 100)), "ok");
    check(Some(Value::Int(IntType::UnsignedByte, 100)), &refused("100"));
    check(Some(Value::long(0)), &refused("0"));
    check(Some(Value::long(-1)), &refused("-1"));
    check(Some(Value::text("five")), &refused("<<\"five\">>"));
    check(Some(Value::Bool(true)), &refused("true"));
    assert!(Exchange::new(Kind::RecentHistory).sees_more_than_keys());
}
