//! Exchanges from outside: the destinations of messages, the listed bindings, the memory left.

use base::id::QueueId;
use proptest::prelude::*;
use routing::{
    Arguments, BindError, Binding, Destination, Envelope, Exchange, ExchangeId, Field, Headers, Kind,
    Matches, NoHeaders, Property, Value,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

fn queue(id: u64) -> Destination {
    Destination::Queue(QueueId(id))
}

fn arguments(values: &[(&str, Value)]) -> Arguments {
    values.iter().map(|(name, value)| (name.as_bytes(), value.clone())).collect()
}

/// Where a message goes, sorted.
fn route(exchange: &Exchange, key: &str, headers: &dyn Headers) -> Vec<Destination> {
    let mut matches = Matches::default();
    matches.start();
    exchange.route(&Envelope { headers, ..Envelope::keyed(&[key.as_bytes()]) }, &mut matches);
    let mut found = matches.destinations().to_vec();
    found.sort();
    found
}

mod by_key {
    use super::*;

    fn check(kind: Kind, bindings: &[(&str, u64)], key: &str, expected: &[u64]) {
        let mut exchange = Exchange::new(kind);
        for (key, id) in bindings {
            exchange.bind(key.as_bytes(), Arguments::new(), queue(*id));
        }
        let expected: Vec<_> = expected.iter().map(|id| queue(*id)).collect();
        assert_eq!(route(&exchange, key, &NoHeaders), expected, "{kind:?} {bindings:?} {key:?}");
    }

    #[test]
    fn direct_is_the_whole_key() {
        let bindings = [("a", 1), ("b", 2), ("a", 3), ("", 4), ("a", 1)];
        check(Kind::Direct, &bindings, "a", &[1, 3]);
        check(Kind::Direct, &bindings, "b", &[2]);
        check(Kind::Direct, &bindings, "", &[4]);
        check(Kind::Direct, &bindings, "c", &[]);
        check(Kind::Direct, &[("#", 1)], "a", &[]);
    }

    #[test]
    fn fanout_is_everybody_once() {
        check(Kind::Fanout, &[("a", 1), ("b", 2), ("c", 1), ("", 3)], "zzz", &[1, 2, 3]);
        check(Kind::Fanout, &[], "a", &[]);
    }

    #[test]
    fn topic_gives_each_destination_once() {
        check(Kind::Topic, &[("a.*", 1), ("a.#", 1), ("#", 1), ("a.b", 2), ("*.b", 2)], "a.b", &[1, 2]);
    }
}

mod topic {
    use super::*;

    fn check(pattern: &str, key: &str, is_match: bool) {
        let mut exchange = Exchange::new(Kind::Topic);
        exchange.bind(pattern.as_bytes(), Arguments::new(), queue(1));
        assert_eq!(!route(&exchange, key, &NoHeaders).is_empty(), is_match, "{pattern:?} {key:?}");
        assert_eq!(matches_naively(pattern, key), is_match, "the model: {pattern:?} {key:?}");
    }

    /// The definition, spelled out.
    fn matches_naively(pattern: &str, key: &str) -> bool {
        fn go(pattern: &[&str], key: &[&str]) -> bool {
            match (pattern.split_first(), key.split_first()) {
                (None, None) => true,
                (Some((&"#", rest)), None) => go(rest, key),
                (Some((&"#", rest)), Some((_, others))) => go(rest, key) || go(pattern, others),
                (Some((&word, rest)), Some((&first, others))) => {
                    (word == "*" || word == first) && go(rest, others)
                }
                _ => false,
            }
        }
        fn words(text: &str) -> Vec<&str> {
            if text.is_empty() { Vec::new() } else { text.split('.').collect() }
        }
        go(&words(pattern), &words(key))
    }

    /// As RabbitMQ 4.3.6 routes.
    #[test]
    fn words_stars_and_hashes() {
        check("", "", true);
        check("", "a", false);
        check("", ".", false);
        check("*", "", false);
        check("*", "a", true);
        check("*", ".", false);
        check("*", "a.b", false);
        check("#", "", true);
        check("#", "a", true);
        check("#", ".", true);
        check("#", "a.b.c", true);
        check("*.*", ".", true);
        check("*.*", "a.", true);
        check("*.*", ".a", true);
        check("*.*", "a", false);
        check("a.*", "a", false);
        check("a.*", "a.", true);
        check("a.*", "a.b", true);
        check("a.*", "a.b.c", false);
        check("a.#", "a", true);
        check("a.#", "a.", true);
        check("a.#", "a.b.c", true);
        check("a.#", "ab", false);
        check("#.a", "a", true);
        check("#.a", ".a", true);
        check("#.a", "b.a", true);
        check("#.a", "b.ab", false);
        check("#.#", "", true);
        check("#.#", "a", true);
        check("#.#", "a.b", true);
        check("#.a.#", "a", true);
        check("#.a.#", "b.a.c", true);
        check("#.a.#", "b.c", false);
        check("#.a.#", "", false);
        check("*.#", "", false);
        check("*.#", "a", true);
        check("*.#", "a.b", true);
        check("#.*", "", false);
        check("#.*", "a", true);
        check(".", ".", true);
        check(".", "", false);
        check(".", "..", false);
        check("a..b", "a..b", true);
        check("a..b", "a.b", false);
        check("a..b", "a.x.b", false);
        check("a*", "a*", true);
        check("a*", "ab", false);
        // A key is not a pattern.
        check("a.b", "a.*", false);
        check("a.b", "#", false);
        check("a.*", "a.*", true);
    }

    #[test]
    fn at_most_two_hashes() {
        let check = |key: &str, refused: Option<&str>| {
            let answer = Kind::Topic.check(key.as_bytes(), &Arguments::new());
            assert_eq!(answer.err().map(|error| error.to_string()).as_deref(), refused);
        };
        check("#.a.#", None);
        check("###.#.#", None);
        let told = "Topic binding key '#.#.#' uses 3 '#' wildcards, at most 2 are allowed";
        check("#.#.#", Some(told));
        assert_eq!(Kind::Direct.check(b"#.#.#", &Arguments::new()), Ok(()));
    }

    #[test]
    fn words_of_a_pattern_are_counted() {
        let check =
            |key: &str, words: Option<usize>| assert_eq!(routing::pattern_words(key.as_bytes()), words);
        check("", None);
        check("a.b.c", None);
        check("a*.b", None);
        check("*", Some(1));
        check("a..#", Some(3));
        check(&format!("*{}", ".".repeat(254)), Some(255));
    }

    fn any_key(words: &'static [&'static str]) -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(words), 0..6).prop_map(|words| words.join("."))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Bindings come and go; those left match as the definition says, and are listed.
        #[test]
        fn agrees_with_the_definition(
            steps in prop::collection::vec((any_key(&["a", "b", "", "*", "#", "#", "c"]), 0..4u64, any::<bool>()), 0..40),
            keys in prop::collection::vec(any_key(&["a", "b", "", "c", "*"]), 1..8),
        ) {
            let mut exchange = Exchange::new(Kind::Topic);
            let mut bound = BTreeSet::new();
            for (pattern, id, is_bind) in steps {
                if is_bind {
                    let is_new = exchange.bind(pattern.as_bytes(), Arguments::new(), queue(id));
                    prop_assert_eq!(is_new, bound.insert((pattern, id)));
                } else {
                    let existed = exchange.unbind(pattern.as_bytes(), &Arguments::new(), queue(id));
                    prop_assert_eq!(existed, bound.remove(&(pattern, id)));
                }
            }
            let listed: BTreeSet<_> = exchange.bindings().into_iter().map(|binding| {
                let Destination::Queue(id) = binding.destination else { panic!("only queues were bound") };
                (String::from_utf8(binding.key.into()).unwrap(), id.0)
            }).collect();
            prop_assert_eq!(&listed, &bound);
            prop_assert_eq!(exchange.bindings_count(), bound.len());
            for key in keys {
                let matching = bound.iter().filter(|(pattern, _)| matches_naively(pattern, &key));
                let expected: BTreeSet<_> = matching.map(|(_, id)| queue(*id)).collect();
                let found = route(&exchange, &key, &NoHeaders);
                prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{}", key);
            }
            for (pattern, id) in bound {
                prop_assert!(exchange.unbind(pattern.as_bytes(), &Arguments::new(), queue(id)));
            }
            prop_assert!(exchange.is_unused());
            prop_assert!(exchange.memory_bytes() < 1000, "{}", exchange.memory_bytes());
        }
    }
}

mod headers {
    use super::*;
    use std::cell::Cell;

    struct Given<'a>(&'a [(&'a str, Field<'a>)]);

    impl Headers for Given<'_> {
        fn get(&self, name: &[u8]) -> Option<Field<'_>> {
            let found = self.0.iter().rfind(|(have, _)| have.as_bytes() == name);
            found.map(|(_, field)| field.clone())
        }

        /// A value as the place it is at.
        fn encodings<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
            for (at, (name, _)) in self.0.iter().enumerate() {
                visit(name.as_bytes(), &PLACES[at..=at]);
            }
        }

        fn read<'a>(&'a self, encoding: &'a [u8]) -> Option<Field<'a>> {
            self.0.get(usize::from(encoding[0])).map(|(_, field)| field.clone())
        }

        fn property(&self, property: Property) -> Option<Field<'_>> {
            let name = match property {
                Property::CorrelationId => "correlation_id",
                Property::MessageId => "message_id",
                Property::Timestamp => "timestamp",
            };
            self.get(name.as_bytes())
        }
    }

    fn check(bound: &[(&str, Value)], given: &[(&str, Field<'_>)], is_match: bool) {
        let mut exchange = Exchange::new(Kind::Headers);
        exchange.bind(&b""[..], arguments(bound), queue(1));
        let found = route(&exchange, "any", &Given(given));
        assert_eq!(!found.is_empty(), is_match, "{bound:?} {given:?}");
    }

    static PLACES: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    /// Counts how often it is gone through, and the values that are read out on the way.
    struct Counted<'a>(Given<'a>, Cell<usize>, Cell<usize>);

    impl Headers for Counted<'_> {
        fn get(&self, name: &[u8]) -> Option<Field<'_>> {
            self.1.update(|scans| scans + 1);
            self.0.get(name)
        }

        fn encodings<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
            self.1.update(|scans| scans + 1);
            self.0.encodings(visit);
        }

        fn read<'a>(&'a self, encoding: &'a [u8]) -> Option<Field<'a>> {
            self.2.update(|read| read + 1);
            self.0.read(encoding)
        }

        fn property(&self, property: Property) -> Option<Field<'_>> {
            self.0.property(property)
        }
    }

    /// However many bindings there are, and arguments in each, the headers are gone through a few times, and each value is
    /// read once.
    #[test]
    fn many_arguments_look_at_the_headers_a_few_times() {
        let list = || Value::list([Value::long(1)]);
        let names: Vec<String> = (0..100).map(|name| format!("name-{name}")).collect();
        let mut exchange = Exchange::new(Kind::Headers);
        for id in 0..50 {
            let wanted = names.iter().map(|name| (name.as_bytes(), Value::long(1)));
            let wanted = wanted.chain([(&b"list"[..], list()), (b"x-match", Value::text("any"))]);
            exchange.bind(&b""[..], wanted.collect(), queue(id));
        }
        let field = |number| ("name-7", Field::Int(number));
        for (given, expected) in [
            (vec![], 0),
            (vec![field(2), ("list", Field::Nested(Value::list([])))], 0),
            (vec![field(2), ("list", Field::Nested(list()))], 50),
            (vec![field(2), field(1)], 50),
            (vec![field(1), field(2)], 0),
        ] {
            let headers = Counted(Given(&given), Cell::new(0), Cell::new(0));
            assert_eq!(route(&exchange, "", &headers).len(), expected, "{given:?}");
            assert!(headers.1.get() <= 9, "gone through {} times", headers.1.get());
            assert!(headers.2.get() <= given.len(), "{} values read", headers.2.get());
        }
    }

    proptest! {
        /// The index finds the same as a single binding does without one, which has few arguments.
        #[test]
        fn the_index_finds_what_a_walk_finds(
            bound in prop::collection::vec(prop::collection::vec((0usize..5, 0i64..3), 0..4), 0..20),
            given in prop::collection::vec((0usize..5, 0i64..3), 0..8),
            any in any::<bool>(),
        ) {
            const NAMES: [&str; 5] = ["", "a", "aa", "b", "x-a"];
            let given: Vec<_> = given.into_iter().map(|(name, n)| (NAMES[name], Field::Int(n))).collect();
            let given = Given(&given);
            let (mut all, mut expected) = (Exchange::new(Kind::Headers), Vec::new());
            for (id, wanted) in bound.into_iter().enumerate() {
                let mode = mode(if any { "any-with-x" } else { "all-with-x" });
                let wanted = wanted.into_iter().map(|(name, n)| (NAMES[name], Value::long(n))).chain([mode]);
                let wanted = arguments(&wanted.collect::<Vec<_>>());
                let mut alone = Exchange::new(Kind::Headers);
                alone.bind(&b""[..], wanted.clone(), queue(id as u64));
                expected.extend(route(&alone, "", &given));
                all.bind(&b""[..], wanted, queue(id as u64));
            }
            prop_assert_eq!(route(&all, "", &given), expected);
        }
    }

    fn mode(mode: &str) -> (&'static str, Value) {
        ("x-match", Value::text(mode))
    }

    /// As RabbitMQ 4.3.6 routes, where HTTP can ask it.
    #[test]
    fn all_any_and_with_x() {
        let one = || Value::long(1);
        check(&[], &[], true);
        check(&[], &[("a", Field::Int(1))], true);
        check(&[mode("all")], &[], true);
        check(&[mode("any")], &[("a", Field::Int(1))], false);
        check(&[("a", one()), ("b", one())], &[("a", Field::Int(1))], false);
        check(&[("a", one()), ("b", one())], &[("a", Field::Int(1)), ("b", Field::Int(1))], true);
        check(&[mode("any"), ("a", one()), ("b", one())], &[("b", Field::Int(1))], true);
        check(&[mode("any"), ("a", one()), ("b", one())], &[("b", Field::Int(2))], false);
        // Arguments with x- take part only where the mode says so, and x-match never.
        check(&[("x-a", one())], &[], true);
        check(&[mode("any"), ("x-a", one())], &[("x-a", Field::Int(1))], false);
        check(&[mode("all-with-x"), ("x-a", one())], &[("x-a", Field::Int(1))], true);
        check(&[mode("all-with-x"), ("x-a", one())], &[], false);
        check(&[mode("any-with-x"), ("x-a", one())], &[("x-a", Field::Int(1))], true);
        check(&[mode("any-with-x")], &[("x-a", Field::Int(1))], false);
        check(&[mode("any-with-x")], &[("x-match", Field::Bytes(b"any-with-x"))], false);
    }

    /// As RabbitMQ 4.3.6 routes, asked with every type over AMQP 0-9-1.
    #[test]
    fn values_match_by_meaning() {
        let check = |value: Value, field: Field<'_>, is_match: bool| {
            check(&[("a", value)], &[("a", field)], is_match)
        };
        check(Value::long(1), Field::Int(1), true);
        check(Value::long(1), Field::Unsigned(1), true);
        check(Value::Unsigned(u64::MAX), Field::Int(-1), false);
        check(Value::Unsigned(u64::MAX), Field::Unsigned(u64::MAX), true);
        check(Value::Int(routing::IntType::Byte, 1), Field::Int(1), true);
        check(Value::long(1), Field::Float(1.0), false);
        check(Value::long(1), Field::Bytes(b"1"), false);
        check(Value::long(1), Field::Timestamp(1), false);
        check(Value::long(1000), Field::Timestamp(1), true);
        check(Value::Timestamp(7), Field::Int(7), true);
        check(Value::Timestamp(7), Field::Timestamp(7), false);
        check(Value::Timestamp(7000), Field::Timestamp(7), true);
        check(Value::Float(routing::Float(1.5)), Field::Float(1.5), true);
        check(Value::Bool(true), Field::Bool(true), true);
        check(Value::Bool(true), Field::Bytes(b"true"), false);
        check(Value::text("x"), Field::Bytes(b"x"), true);
        check(Value::Bytes(b"x"[..].into()), Field::Bytes(b"x"), true);
        check(Value::Float(routing::Float(0.0)), Field::Float(-0.0), false);
        check(Value::Decimal { scale: 1, value: 2 }, Field::Decimal { scale: 1, value: 2 }, true);
        check(Value::Decimal { scale: 1, value: 2 }, Field::Decimal { scale: 2, value: 20 }, false);
        // Without a value, the name alone counts.
        check(Value::Void, Field::Int(5), true);
        check(Value::Void, Field::Void, true);
        check(Value::long(5), Field::Void, false);
        let list = |n| Value::list([Value::long(n)]);
        check(list(1), Field::Nested(list(1)), true);
        check(list(1), Field::Nested(list(2)), false);
        let byte = Value::Int(routing::IntType::Byte, 1);
        check(list(1), Field::Nested(Value::list([byte])), false);
    }

    #[test]
    fn modes_are_checked() {
        let check = |value: Value, refused: Option<&str>| {
            let answer: Result<(), BindError> = Kind::Headers.check(b"", &arguments(&[("x-match", value)]));
            assert_eq!(answer.err().map(|error| error.to_string()).as_deref(), refused);
        };
        ["all", "any", "all-with-x", "any-with-x"].iter().for_each(|mode| check(Value::text(mode), None));
        check(
            Value::text("bogus"),
            Some("Invalid x-match field value <<\"bogus\">>; expected all, any, all-with-x, or any-with-x"),
        );
        check(
            Value::text(""),
            Some("Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x"),
        );
        check(
            Value::Bytes(b"any"[..].into()),
            Some("Invalid x-match field type binary (value <<\"any\">>); expected longstr"),
        );
        check(Value::long(5), Some("Invalid x-match field type long (value 5); expected longstr"));
    }

    #[test]
    fn bindings_of_one_destination_are_told_apart_by_arguments() {
        let mut exchange = Exchange::new(Kind::Headers);
        let (one, two) = (arguments(&[("a", Value::long(1))]), arguments(&[("a", Value::long(2))]));
        assert!(exchange.bind(&b""[..], one.clone(), queue(1)));
        assert!(exchange.bind(&b""[..], two.clone(), queue(1)));
        assert!(!exchange.bind(&b""[..], two.clone(), queue(1)));
        assert_eq!(route(&exchange, "", &Given(&[("a", Field::Int(2))])), [queue(1)]);
        assert!(exchange.unbind(b"", &two, queue(1)));
        assert_eq!(route(&exchange, "", &Given(&[("a", Field::Int(2))])), []);
        assert_eq!(route(&exchange, "", &Given(&[("a", Field::Int(1))])), [queue(1)]);
        assert!(!exchange.unbind(b"", &Arguments::new(), queue(1)));
        assert!(exchange.unbind(b"", &one, queue(1)));
        assert!(exchange.is_unused());
    }
}

/// Bindings come and go, of every kind, few and many under one key: the list shows those bound, each once.
#[test]
fn bindings_are_a_set() {
    let mut dice = base::Random::new(3);
    for kind in Kind::ALL {
        let mut exchange = Exchange::new(kind);
        let mut bound: Vec<Binding> = Vec::new();
        for step in 0..6000 {
            // Mostly growing at first, mostly shrinking at last.
            let is_bind = dice.below(6000) > step;
            let key: Box<[u8]> = [b"", &b"k"[..], b"k.1"][dice.below(3) as usize].into();
            let arguments = match dice.below(5) {
                0 => arguments(&[("a", Value::long(dice.below(3) as i64))]),
                _ => Arguments::new(),
            };
            let destination = match dice.below(4) {
                0 => Destination::Exchange(ExchangeId(dice.below(50))),
                _ => queue(dice.below(120)),
            };
            let binding = Binding { key, arguments, destination };
            let at = bound.iter().position(|have| *have == binding);
            if is_bind {
                assert_eq!(
                    exchange.bind(&*binding.key, binding.arguments.clone(), destination),
                    at.is_none()
                );
                if at.is_none() {
                    bound.push(binding);
                }
            } else {
                assert_eq!(exchange.unbind(&binding.key, &binding.arguments, destination), at.is_some());
                at.map(|at| bound.swap_remove(at));
            }
            if step % 500 == 0 || bound.is_empty() {
                compare(&exchange, &bound);
            }
        }
        for binding in bound.drain(..) {
            assert!(exchange.unbind(&binding.key, &binding.arguments, binding.destination));
        }
        compare(&exchange, &bound);
        assert!(exchange.is_unused());
    }
}

fn compare(exchange: &Exchange, bound: &[Binding]) {
    let text = |binding: &Binding| format!("{binding:?}");
    let sorted = |bindings: &[Binding]| -> BTreeSet<String> { bindings.iter().map(text).collect() };
    let listed = exchange.bindings();
    assert_eq!((listed.len(), exchange.bindings_count()), (bound.len(), bound.len()));
    assert_eq!(sorted(&listed), sorted(bound));
    assert_eq!(exchange.is_unused(), bound.is_empty());
    let found = route(exchange, "k", &NoHeaders);
    if matches!(exchange.kind(), Kind::ConsistentHash | Kind::ModulusHash | Kind::Random | Kind::LocalRandom)
    {
        let is_bound = |found: &Destination| bound.iter().any(|binding| binding.destination == *found);
        assert!(found.iter().all(is_bound));
        assert_eq!(found.len(), usize::from(!bound.is_empty()), "one of them, whichever");
        return;
    }
    let mut expected: Vec<_> = bound
        .iter()
        .filter(|binding| match exchange.kind() {
            Kind::Fanout | Kind::Content | Kind::RecentHistory | Kind::FederationUpstream => true,
            Kind::Headers => binding.arguments.is_empty(),
            _ => *binding.key == *b"k",
        })
        .map(|binding| binding.destination)
        .collect();
    expected.sort();
    expected.dedup();
    assert_eq!(found, expected);
}

/// Exchanges in a circle: the loop of [`Matches`] ends, and nobody gets a message twice.
#[test]
fn circles_end() {
    let mut exchanges = [Kind::Fanout, Kind::Direct, Kind::Topic].map(Exchange::new);
    for (at, exchange) in exchanges.iter_mut().enumerate() {
        exchange.bind(&b"k"[..], Arguments::new(), Destination::Exchange(ExchangeId((at as u64 + 1) % 3)));
        exchange.bind(&b"k"[..], Arguments::new(), queue(at as u64));
        exchange.bind(&b"k"[..], Arguments::new(), queue(9));
    }
    let mut matches = Matches::default();
    matches.start();
    exchanges[0].route(&Envelope::keyed(&[b"k"]), &mut matches);
    let mut at = 0;
    while let Some(destination) = matches.get(at) {
        if let Destination::Exchange(id) = destination {
            exchanges[id.0 as usize].route(&Envelope::keyed(&[b"k"]), &mut matches);
        }
        at += 1;
    }
    let mut queues: Vec<_> = matches.queues().collect();
    queues.sort();
    assert_eq!(queues, [0, 1, 2, 9].map(QueueId));
}

/// A binding costs under 180 bytes, and a deleted one costs nothing.
#[test]
fn memory_follows_what_is_bound() {
    for kind in Kind::ALL {
        // Where a change takes time in proportion to the bindings, fewer must do.
        let many = match kind {
            Kind::Direct | Kind::Fanout | Kind::Topic | Kind::Headers | Kind::RecentHistory => 50_000,
            _ => 3_000,
        };
        for same_key in [false, true] {
            let key =
                |id: u64| if same_key { b"k".to_vec() } else { format!("a-key-of-20-bytes-{id:05}").into() };
            let mut exchange = Exchange::new(kind);
            for id in 0..many {
                exchange.bind(key(id), Arguments::new(), queue(id));
            }
            let each = exchange.memory_bytes() / many as usize;
            assert!(each < 180, "{kind:?}: {each} bytes a binding");
            for id in 5..many {
                exchange.unbind(&key(id), &Arguments::new(), queue(id));
            }
            assert!(exchange.memory_bytes() < 4000, "{kind:?}: {} bytes for five", exchange.memory_bytes());
        }
    }
}

#[test]
fn who_has_seen_enough_bindings_sees_no_more() {
    for kind in
        [Kind::Direct, Kind::Fanout, Kind::Topic, Kind::Headers, Kind::ConsistentHash, Kind::ModulusHash]
    {
        let mut exchange = Exchange::new(kind);
        for number in 0..500u64 {
            // A ring has weights for keys; of a topic half are patterns.
            let key = match kind {
                Kind::ConsistentHash => "1".to_owned(),
                _ if number % 2 == 0 => format!("k.{number}"),
                _ => format!("k.*.{number}"),
            };
            assert!(exchange.bind(key.as_bytes(), Arguments::new(), queue(number)));
        }
        for most in [1, 10, 400, 500] {
            let mut seen = BTreeSet::new();
            let visited = exchange.visit_bindings(|_, _, destination| {
                assert!(seen.insert(destination), "{kind:?}: each once");
                if seen.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert_eq!((seen.len(), visited), (most, ControlFlow::Break(())), "{kind:?}");
        }
    }
}
