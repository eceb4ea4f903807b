//! Messages that are dear to route are refused, whichever exchange makes them so, and whatever else they would reach.

use crate::node;

use broker::catalog::{Op, Reason, Refusal, ReplyCode};
use broker::{Limits, More, Publish, Published, Publisher};
use message::record::Format;
use node::Node;
use routing::{Arguments, Field, Headers, NoHeaders, Property, Value};

/// So many steps a message may take.
const STEPS_MAX: u32 = 10_000;

struct Test {
    node: Node,
    publisher: Publisher,
}

/// As many headers, `h0`, `h1` and so on, with the value 1.
struct Many(Vec<Vec<u8>>);

impl Many {
    fn of(count: usize) -> Many {
        Many((0..count).map(|at| format!("h{at}").into_bytes()).collect())
    }
}

impl Headers for Many {
    fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        self.0.iter().any(|own| own == name).then_some(Field::Int(1))
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

impl Test {
    fn new() -> Test {
        let limits = Limits { route_steps_max: STEPS_MAX, ..Limits::default() };
        let mut node = Node::with_limits(1, limits);
        node.declare(0, "q", true);
        let publisher = node.publisher(0);
        Test { node, publisher }
    }

    fn ask(&mut self, op: Op) {
        let (now, port) = (self.node.now, self.node.ports[0]);
        self.node.shards[0].request(now, port, 5, op);
        self.node.settle();
        assert_eq!(self.node.take_seen(), ["0: Done"]);
    }

    fn exchange(&mut self, name: &str, kind: &str, arguments: &[(&str, Value)]) {
        let arguments = arguments.iter().map(|(name, value)| (name.as_bytes(), value.clone())).collect();
        self.ask(Op::DeclareExchange {
            name: name.into(),
            kind: kind.into(),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments,
        });
    }

    fn bind(&mut self, exchange: &str, key: &str, arguments: Arguments) {
        let (queue, exchange, key) = ("q".into(), exchange.into(), key.into());
        self.ask(Op::BindQueue { queue, exchange, key, arguments });
    }

    /// Patterns that a key of many words `a` leads all through.
    fn bind_patterns(&mut self, exchange: &str) {
        for at in 0..16 {
            let words = (0..60).map(|word| if at >> (word % 4) & 1 == 1 { "a" } else { "*" });
            let key = format!("#.{}.z", words.collect::<Vec<_>>().join("."));
            self.bind(exchange, &key, Arguments::new());
        }
        self.bind(exchange, "cheap.#", Arguments::new());
    }

    fn publish(
        &mut self,
        exchange: &str,
        (key, more): (&str, Option<&More<'_>>),
        headers: &dyn Headers,
    ) -> Result<Published, Refusal> {
        let publish = message(exchange, (key, more), headers);
        self.node.shards[0].publish(self.node.now, &mut self.publisher, &publish)
    }

    /// It is refused, and counted as that; the steps it took are known all the same.
    fn check_dear(
        &mut self,
        exchange: &str,
        (key, more): (&str, Option<&More<'_>>),
        headers: &dyn Headers,
        text: &str,
    ) {
        let before = self.node.shards[0].survey().too_dear;
        self.node.shards[0].work().take();
        let refused = self.publish(exchange, (key, more), headers).expect_err("it is too dear");
        assert_eq!((refused.code, &refused.reason), (ReplyCode::WorkExceeded, &Reason::RouteTooDear));
        assert_eq!(refused.reply_text(), text);
        assert_eq!(self.node.shards[0].survey().too_dear, before + 1);
        let steps = self.node.shards[0].work().take();
        assert!((u64::from(STEPS_MAX)..2 * u64::from(STEPS_MAX)).contains(&steps), "{steps} steps");
    }

    fn check_cheap(&mut self, exchange: &str, key: &str) {
        assert_eq!(self.publish(exchange, (key, None), &NoHeaders), Ok(Published::Done));
        let steps = self.node.shards[0].work().take();
        assert!((1..100).contains(&steps), "{steps} steps");
        // The way is known.
        assert_eq!(self.publish(exchange, (key, None), &NoHeaders), Ok(Published::Done));
        assert_eq!(self.node.shards[0].work().take(), 0);
    }
}

fn message<'m>(
    exchange: &'m str,
    (key, more): (&'m str, Option<&'m More<'m>>),
    headers: &'m dyn Headers,
) -> Publish<'m> {
    Publish {
        exchange: exchange.as_bytes(),
        routing_key: key.as_bytes(),
        more,
        headers,
        format: Format::Amqp091,
        durable: true,
        priority: None,
        ttl_ms: None,
        head: &[b"\0\0"],
        body: &[b"x"],
        confirm: false,
    }
}

fn dear_key() -> String {
    vec!["a"; 127].join(".")
}

fn too_dear(exchange: &str, key_bytes: usize) -> String {
    format!(
        "PRECONDITION_FAILED - routing by a key of {key_bytes} bytes takes more than 10000 steps \
         (leveret.route_steps_max) in exchange '{exchange}' in vhost '/'"
    )
}

#[test]
fn patterns_of_a_topic_exchange() {
    let mut test = Test::new();
    test.exchange("x", "topic", &[]);
    test.bind_patterns("x");
    let key = dear_key();
    test.check_dear("x", (&key, None), &NoHeaders, &too_dear("x", 253));
    test.check_cheap("x", "cheap.a.b");
    // All keys of a message together.
    let keys: Vec<String> = (0..1000).map(|at| format!("a.a.a.{at}")).collect();
    let more = More { keys: keys.iter().map(|key| key.as_bytes()).collect(), ..More::default() };
    let bytes = "cheap.a".len() + keys.iter().map(String::len).sum::<usize>();
    test.check_dear("x", ("cheap.a", Some(&more)), &NoHeaders, &too_dear("x", bytes));
}

#[test]
fn exchanges_behind_exchanges() {
    let mut test = Test::new();
    test.exchange("x", "topic", &[]);
    test.bind_patterns("x");
    test.exchange("first", "fanout", &[]);
    test.exchange("other", "direct", &[("alternate-exchange", Value::text("x"))]);
    test.ask(Op::BindExchange {
        source: "first".into(),
        destination: "x".into(),
        key: "".into(),
        arguments: Arguments::new(),
    });
    // The queue behind the first exchange would get it.
    test.bind("first", "", Arguments::new());
    let key = dear_key();
    test.check_dear("first", (&key, None), &NoHeaders, &too_dear("first", 253));
    test.check_dear("other", (&key, None), &NoHeaders, &too_dear("other", 253));
    test.check_cheap("first", "cheap.a");
    test.check_cheap("other", "cheap.a");
    // A message that is to wait for its time is refused before.
    test.exchange("later", "x-delayed-message", &[("x-delayed-type", Value::text("topic"))]);
    test.bind_patterns("later");
    struct Later;
    impl Headers for Later {
        fn get(&self, name: &[u8]) -> Option<Field<'_>> {
            (name == b"x-delay").then_some(Field::Int(5000))
        }
        fn encodings<'a>(&'a self, _: &mut dyn FnMut(&'a [u8], &'a [u8])) {}
        fn read<'a>(&'a self, _: &'a [u8]) -> Option<Field<'a>> {
            None
        }
        fn property(&self, _: Property) -> Option<Field<'_>> {
            None
        }
    }
    test.check_dear("later", (&key, None), &Later, &too_dear("later", 253));
}

#[test]
fn arguments_of_a_headers_exchange() {
    let mut test = Test::new();
    test.exchange("x", "headers", &[]);
    for at in 0..12 {
        let names = (0..1000).map(|name| (format!("h{}", 1 + name + at).into_bytes(), Value::long(2)));
        let any = (b"x-match".to_vec(), Value::text("any"));
        test.bind("x", "", names.chain([any]).take(1000).collect());
    }
    let arguments = [(&b"h0"[..], Value::long(1))].into_iter().collect();
    test.bind("x", "", arguments);
    test.check_dear("x", ("", None), &Many::of(3000), &too_dear("x", 0));
    // A message with thousands of headers alone is cheap enough.
    let mut test = Test::new();
    test.exchange("x", "headers", &[]);
    for at in 0..20 {
        let arguments = [(format!("h{at}"), Value::long(1))];
        test.bind("x", "", arguments.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect());
    }
    let published = test.publish("x", ("", None), &Many::of(2000));
    assert_eq!(published, Ok(Published::Done));
    assert!(test.node.shards[0].work().take() < u64::from(STEPS_MAX));
}

#[test]
fn a_dead_letter_goes_nowhere_and_the_log_says_so() {
    let mut test = Test::new();
    test.exchange("x", "topic", &[]);
    test.bind_patterns("x");
    let rules = [
        ("x-message-ttl", Value::long(1)),
        ("x-dead-letter-exchange", Value::text("x")),
        ("x-dead-letter-routing-key", Value::Text(dear_key().into_bytes().into())),
    ];
    test.node.declare_with(0, "dying", true, &rules);
    for _ in 0..3 {
        test.publish("", ("dying", None), &NoHeaders).expect("it is cheap to come in");
    }
    test.node.settle();
    (0..3).for_each(|_| test.node.pass(100));
    assert_eq!(test.node.shards[0].survey().too_dear, 3);
    let mut notices = Vec::new();
    test.node.shards[0].take_notices(test.node.now, &mut notices);
    let texts: Vec<String> = notices.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("messages that died in queue 'dying' in vhost '/'"), "{}", texts[0]);
    assert!(texts[0].contains("exchange 'x' takes more than 10000 steps"), "{}", texts[0]);
    // They are gone, and did not arrive.
    for queue in ["dying", "q"] {
        test.node.consume(0, queue, 7, 10);
        test.node.settle();
    }
    let seen = test.node.take_seen();
    assert!(seen.iter().all(|line| !line.contains("gets")), "{seen:?}");
}

/// Work that is not bounded by steps: queues of a message whose way is found for it alone, and arguments that are passed
/// over for their names.
#[test]
fn work_beside_steps_is_charged() {
    let mut test = Test::new();
    test.exchange("x", "headers", &[]);
    for at in 0..100 {
        let queue = format!("wide{at}");
        test.node.declare(0, &queue, true);
        let (exchange, key) = ("x".into(), "".into());
        test.ask(Op::BindQueue { queue: queue.into(), exchange, key, arguments: Arguments::new() });
    }
    test.node.shards[0].work().take();
    assert_eq!(test.publish("x", ("", None), &NoHeaders), Ok(Published::Done));
    let units = test.node.shards[0].work().take();
    assert!(units >= 100 * 60, "{units} units for 100 queues");
    let mut test = Test::new();
    test.exchange("x", "headers", &[]);
    let names = (0..1000).map(|name| (format!("x-{name}").into_bytes(), Value::long(1)));
    test.bind("x", "", names.collect());
    test.node.shards[0].work().take();
    assert_eq!(test.publish("x", ("", None), &NoHeaders), Ok(Published::Done));
    let units = test.node.shards[0].work().take();
    assert!(units >= 250, "{units} units for a thousand arguments");
}

#[test]
fn filters_of_a_message_count_once_it_is_published() {
    let mut test = Test::new();
    for exchange in ["x", "y"] {
        test.exchange(exchange, "fanout", &[]);
        let filter = [(routing::X_FILTER.to_vec(), Value::text("ROUTING_KEY() = 'k'"))];
        test.bind(exchange, "", filter.into_iter().collect());
    }
    // A transaction asks before it is committed.
    let asked = message("x", ("k", None), &NoHeaders);
    let shard = &mut test.node.shards[0];
    assert_eq!(shard.would_publish(test.node.now, &mut test.publisher, &asked), Ok(1));
    for exchange in ["y", "x"] {
        assert_eq!(test.publish(exchange, ("k", None), &NoHeaders), Ok(Published::Done));
    }
    let counted = test.node.shards[0].survey().exchanges;
    let counts: Vec<[u64; 2]> =
        counted.values().map(|one| [one.filtered.messages, one.filtered.evaluations]).collect();
    assert_eq!(counts, [[1, 1]; 2]);
}
