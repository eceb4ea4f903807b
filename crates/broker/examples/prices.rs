//! Work of one kind, so many times over, and the units it was charged with: `prices KIND COUNT`. `cargo xtask test` runs
//! it under callgrind and holds the units' prices together (`base::Work`, `filter::Program::price`, `Pattern::steps`).

#[path = "../tests/node/mod.rs"]
mod node;

use broker::access::Pattern;
use broker::{Limits, Publish};
use filter::Fields;
use message::record::Format;
use node::Node;
use routing::{
    Arguments, Destination, Envelope, Exchange, Field, Headers, Kind, Matches, NoHeaders, Property, Value,
};

/// Queues of a wide message.
const QUEUES: usize = 200;

/// Bindings of an exchange of headers, and arguments of each; each binding has one that those before do not have.
const BINDINGS: u64 = 50;
const ARGUMENTS: u64 = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count = arguments.get(2).and_then(|count| count.parse().ok());
    let (Some(kind), Some(count)) = (arguments.get(1), count) else { panic!("usage: prices KIND COUNT") };
    let units = match kind.as_str() {
        "topic" => topic(count),
        "headers" => headers(count),
        "wide" => wide(count),
        "letters" => letters(count),
        "filter" => filter(count),
        "content" => content(
            count,
            "body.order.symbol = 'IBM' AND body.order.price > 10 AND body.order.account.region IN ('EU', 'US') AND body.seq < 0",
        ),
        "lists" => content(count, "body.many > body.high"),
        "regexp" => content(count, "REGEXP_LIKE(body.note, '(a|b)+[c-f]{2}x')"),
        "bindings" => bindings(count),
        "policy" => policy(count),
        other => panic!("no kind of work is called {other}"),
    };
    println!("{units}");
}

/// Steps of routing by an exchange.
fn steps(exchange: &Exchange, envelope: &Envelope<'_>, count: u64) -> u64 {
    let mut matches = Matches::within(u32::MAX);
    let mut units = 0;
    for _ in 0..count {
        matches.start();
        exchange.route(envelope, &mut matches);
        units += u64::from(matches.steps());
    }
    units
}

/// Patterns that a key leads through on many ways at once.
fn topic(count: u64) -> u64 {
    let mut exchange = Exchange::new(Kind::Topic);
    for at in 0..16 {
        let words = (0..40).map(|word| if at >> (word % 4) & 1 == 1 { "a" } else { "*" });
        let pattern = format!("#.{}.z", words.collect::<Vec<_>>().join("."));
        exchange.bind(pattern.as_bytes(), Arguments::new(), Destination::Queue(base::id::QueueId(at)));
    }
    let key = vec!["a"; 100].join(".");
    steps(&exchange, &Envelope::keyed(&[key.as_bytes()]), count)
}

/// Headers that every argument asks for, and none has the value of: their names.
struct Same(Vec<Vec<u8>>);

impl Headers for Same {
    fn get(&self, _: &[u8]) -> Option<Field<'_>> {
        Some(Field::Int(1))
    }

    fn encodings<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        self.0.iter().for_each(|name| visit(name, b"1"));
    }

    fn read<'a>(&'a self, _: &'a [u8]) -> Option<Field<'a>> {
        Some(Field::Int(1))
    }

    fn property(&self, _: Property) -> Option<Field<'_>> {
        None
    }
}

/// Arguments of bindings that are compared one by one.
fn headers(count: u64) -> u64 {
    let mut exchange = Exchange::new(Kind::Headers);
    let name = |number: u64| format!("h{number}").into_bytes();
    for at in 0..BINDINGS {
        let any = (b"x-match".to_vec(), Value::text("any"));
        let names = (0..ARGUMENTS).map(|argument| (name(argument + at), Value::long(2)));
        let arguments = names.chain([any]).collect();
        exchange.bind(&b""[..], arguments, Destination::Queue(base::id::QueueId(at)));
    }
    let keys: [&[u8]; 1] = [b""];
    let headers = Same((0..BINDINGS + ARGUMENTS).map(name).collect());
    steps(&exchange, &Envelope { headers: &headers, ..Envelope::keyed(&keys) }, count)
}

fn publish(node: &mut Node, publisher: &mut broker::Publisher, exchange: &[u8], key: &[u8]) {
    let publish = Publish {
        exchange,
        routing_key: key,
        more: None,
        headers: &NoHeaders,
        format: Format::Amqp091,
        durable: false,
        priority: None,
        ttl_ms: None,
        head: &[b"\0\0"],
        body: &[b"x"],
        confirm: false,
    };
    node.shards[0].publish(node.now, publisher, &publish).expect("it may be published");
}

/// Messages to many queues, from the publish to their places in the queues, where they do not stay.
fn wide(count: u64) -> u64 {
    let mut node = Node::new(1);
    for at in 0..QUEUES {
        let name = format!("q{at}");
        node.declare_with(0, &name, true, &[("x-max-length", Value::long(1))]);
        let (queue, exchange) = (name.as_str().into(), "amq.fanout".into());
        let op =
            broker::catalog::Op::BindQueue { queue, exchange, key: "".into(), arguments: Arguments::new() };
        let (now, port) = (node.now, node.ports[0]);
        node.shards[0].request(now, port, 5, op);
        node.settle();
        node.take_seen();
    }
    let mut publisher = node.publisher(0);
    node.shards[0].work().take();
    for _ in 0..count {
        publish(&mut node, &mut publisher, b"amq.fanout", b"");
        node.settle();
        node.take_seen();
    }
    node.shards[0].work().take()
}

/// Messages that die at once, and whose copies do so too, and go nowhere.
fn letters(count: u64) -> u64 {
    let mut node = Node::with_limits(1, Limits { dead_lettering_work_max: u32::MAX, ..Limits::default() });
    let rules = [
        ("x-max-length", Value::long(0)),
        ("x-dead-letter-exchange", Value::text("")),
        ("x-dead-letter-routing-key", Value::text("grave")),
    ];
    node.declare_with(0, "dying", true, &rules);
    node.declare_with(0, "grave", true, &[("x-max-length", Value::long(1))]);
    let mut publisher = node.publisher(0);
    let before = node.shards[0].dead_letters_work();
    for _ in 0..count {
        for _ in 0..16 {
            publish(&mut node, &mut publisher, b"", b"dying");
        }
        node.settle();
        node.take_seen();
    }
    node.shards[0].dead_letters_work() - before
}

/// A message with a long subject and no more.
struct Subject(String);

impl Fields for Subject {
    fn field(&self, field: filter::Field<'_>) -> Option<filter::Value<'_>> {
        matches!(field, filter::Field::Property(filter::Property::Subject))
            .then(|| filter::Value::Bytes(self.0.as_bytes()))
    }

    fn body<'a>(&'a self, _paths: &filter::Paths, _found: &mut filter::Found<'a>) -> bool {
        true
    }
}

/// Messages that a filter looks at from one end to the other.
fn filter(count: u64) -> u64 {
    let subject = Subject("ab".repeat(120));
    let text = format!("properties.subject LIKE '%{}%c'", "a_".repeat(1900));
    let program = filter::Program::parse(&text, &filter::Limits::default()).expect("it is an expression");
    let mut room = filter::Room::default();
    assert!((0..count).all(|now_ms| !program.matches(&subject, &mut room, now_ms)), "no subject is so long");
    count * (program.price(subject.0.len()) + room.spent()) as u64
}

/// Messages that many bindings have filters for, of which they pass none.
fn bindings(count: u64) -> u64 {
    let mut exchange = Exchange::new(Kind::Content);
    for at in 0..600u64 {
        let text = match at % 3 {
            0 => format!("body.id = {at} AND body.price > 10"),
            1 => format!("body.price BETWEEN {at} AND {} AND body.side = 'sell'", at + 50),
            _ => format!("NOT body.side = 'buy' OR body.price + {at} < {at}"),
        };
        let arguments = [(routing::X_FILTER.to_vec(), Value::text(&text))].into_iter().collect();
        exchange.bind(&b""[..], arguments, Destination::Queue(base::id::QueueId(at)));
    }
    let content =
        &filter::json::Document(br#"{"id":17,"symbol":"IBM","side":"buy","price":101.25,"qty":300}"#);
    steps(&exchange, &Envelope { content, ..Envelope::keyed(&[b""]) }, count)
}

/// Bodies of which an expression reads all.
fn content(count: u64, text: &str) -> u64 {
    let [many, high] = [0, 1000]
        .map(|from| (from..from + 200).map(|number| number.to_string()).collect::<Vec<_>>().join(","));
    let body = format!(
        r#"{{"header":{{"id":"7f3c2a10","trace":{{"span":"a1b2c3d4","sampled":true}}}},
            "order":{{"id":17,"symbol":"IBM","side":"buy","price":101.25,"qty":300,"account":{{"id":"ACC-1","region":"EU"}},
            "legs":[{{"leg":1,"venue":"XNYS"}},{{"leg":2,"venue":"BATS"}}],"note":"work it over the day"}},
            "tags":["algo","vwap"],"limits":{{"credit":1000000,"used":5,"breaches":[]}},"note":"{}","seq":9,"many":[{many}],"high":[{high}]}}"#,
        "abab".repeat(100)
    );
    let body = filter::json::Document(body.as_bytes());
    let program = filter::Program::parse(text, &filter::Limits::content()).expect("it is an expression");
    let mut room = filter::Room::default();
    let mut units = 0;
    for now_ms in 0..count {
        assert!(!program.matches(&body, &mut room, now_ms), "it is of no body");
        units += (program.price(0) + room.spent()) as u64;
    }
    units
}

/// Names that are held against the pattern of a policy.
fn policy(count: u64) -> u64 {
    let pattern = Pattern::new("(a?b?c?d?){255}(a|b|c|d|e){240}$").expect("it is a pattern");
    let name = "abcd".repeat(62);
    (0..count).for_each(|_| _ = std::hint::black_box(pattern.matches(&name)));
    count * pattern.steps(&name)
}
