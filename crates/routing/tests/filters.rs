//! Bindings with a filter: what an exchange of each kind makes of them.

use base::Random;
use base::id::QueueId;
use filter::{Field, Fields, Found, Limits, Paths, Program, Room, Value as Seen, json};
use routing::{
    Arguments, BindError, Destination, Envelope, Exchange, Kind, Matches, NoHeaders, Value, X_FILTER,
};

/// A message of JSON.
struct Json(String);

impl Fields for Json {
    fn field(&self, field: Field<'_>) -> Option<Seen<'_>> {
        (field == Field::ApplicationProperty("always")).then_some(Seen::Bool(true))
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        let (_, is_whole) = json::find(self.0.as_bytes(), paths, 1 << 20, found);
        is_whole
    }
}

fn queue(id: u64) -> Destination {
    Destination::Queue(QueueId(id))
}

fn filter(text: &str) -> Arguments {
    [(Box::<[u8]>::from(X_FILTER), Value::text(text))].into_iter().collect()
}

fn also(arguments: &Arguments, name: &str, value: &str) -> Arguments {
    let mut all = arguments.clone();
    all.insert(name.as_bytes(), Value::text(value));
    all
}

fn reached(exchange: &Exchange, keys: &[&[u8]], content: &Json, roll: u64) -> Vec<u64> {
    let mut out = Matches::default();
    out.start();
    exchange.route(&Envelope { content, roll, ..Envelope::keyed(keys) }, &mut out);
    assert!(!out.is_too_dear());
    let mut found: Vec<u64> = out.queues().map(|id| id.0).collect();
    found.sort_unstable();
    found
}

#[test]
fn the_filter_is_one_condition_more() {
    let small = Json(r#"{"total":5,"kind":"a"}"#.to_owned());
    let large = Json(r#"{"total":500,"kind":"b"}"#.to_owned());
    let broken = Json(r#"{"tot"#.to_owned());
    let check = |kind: Kind, bindings: &[(&str, Arguments)], key: &str, expected: [&[u64]; 3]| {
        let mut exchange = Exchange::new(kind);
        for (id, (key, arguments)) in bindings.iter().enumerate() {
            assert_eq!(kind.check(key.as_bytes(), arguments), Ok(()));
            assert!(exchange.bind(key.as_bytes(), arguments.clone(), queue(id as u64)));
        }
        for (content, expected) in [&small, &large, &broken].into_iter().zip(expected) {
            assert_eq!(reached(&exchange, &[key.as_bytes()], content, 0), expected, "{kind:?} {}", content.0);
        }
        assert!(exchange.sees_more_than_keys() && exchange.has_filters());
        assert_eq!(exchange.bindings().len(), bindings.len());
        for (id, (key, arguments)) in bindings.iter().enumerate() {
            assert!(exchange.unbind(key.as_bytes(), arguments, queue(id as u64)));
            assert!(!exchange.unbind(key.as_bytes(), arguments, queue(id as u64)));
        }
        assert!(exchange.is_unused() && !exchange.has_filters());
        assert_eq!(reached(&exchange, &[key.as_bytes()], &small, 0), []);
    };
    let over = filter("body.total > 100");
    let none = Arguments::new();
    for kind in [Kind::Fanout, Kind::Content, Kind::RecentHistory] {
        let bindings = [("", none.clone()), ("", over.clone()), ("x", filter("body.kind = 'a'"))];
        check(kind, &bindings, "any", [&[0, 2], &[0, 1], &[0]]);
    }
    let bindings = [("k", none.clone()), ("k", over.clone()), ("other", over.clone())];
    check(Kind::Direct, &bindings, "k", [&[0], &[0, 1], &[0]]);
    let bindings =
        [("a.*", none.clone()), ("a.#", over.clone()), ("a.b", over.clone()), ("b.#", over.clone())];
    check(Kind::Topic, &bindings, "a.b", [&[0], &[0, 1, 2], &[0]]);
    // No header is called so, whatever the mode: there is none to match but the filter.
    let bindings = [("", also(&over, "x-match", "all-with-x")), ("", also(&over, "x-match", "any-with-x"))];
    check(Kind::Headers, &bindings, "", [&[], &[0], &[]]);
    for kind in [Kind::ModulusHash, Kind::Random, Kind::LocalRandom] {
        check(kind, &[("", over.clone())], "", [&[], &[0], &[]]);
    }
    check(Kind::ConsistentHash, &[("1", over.clone())], "", [&[], &[0], &[]]);
}

#[test]
fn two_bindings_of_two_filters_are_either() {
    for kind in [Kind::Direct, Kind::Fanout, Kind::Topic, Kind::Random, Kind::ModulusHash] {
        let mut exchange = Exchange::new(kind);
        assert!(exchange.bind(&b"k"[..], filter("body.a = 1"), queue(1)));
        assert!(exchange.bind(&b"k"[..], filter("body.b = 1"), queue(1)));
        assert!(!exchange.bind(&b"k"[..], filter("body.b = 1"), queue(1)));
        for (text, expected) in
            [(r#"{"a":1}"#, &[1][..]), (r#"{"b":1}"#, &[1]), (r#"{"a":1,"b":1}"#, &[1]), ("{}", &[])]
        {
            assert_eq!(reached(&exchange, &[b"k"], &Json(text.to_owned()), 0), expected, "{kind:?} {text}");
        }
        // One of them goes, then one without a filter comes.
        assert!(exchange.unbind(b"k", &filter("body.a = 1"), queue(1)));
        assert_eq!(reached(&exchange, &[b"k"], &Json(r#"{"a":1}"#.to_owned()), 0), []);
        assert!(exchange.bind(&b"k"[..], Arguments::new(), queue(1)));
        assert_eq!(reached(&exchange, &[b"k"], &Json(r#"{"a":1}"#.to_owned()), 0), [1]);
        assert!(exchange.unbind(b"k", &Arguments::new(), queue(1)));
        assert_eq!(reached(&exchange, &[b"k"], &Json(r#"{"b":1}"#.to_owned()), 0), [1]);
        assert_eq!(exchange.bindings_count(), 1);
    }
}

#[test]
fn one_destination_may_have_many_filters_and_bindings_without() {
    for kind in [Kind::ConsistentHash, Kind::ModulusHash, Kind::LocalRandom, Kind::Direct] {
        let mut exchange = Exchange::new(kind);
        let key: &[u8] = if kind == Kind::ConsistentHash { b"1" } else { b"" };
        let number = |number: u64| Json(format!(r#"{{"a":{number}}}"#));
        let goes = |exchange: &Exchange, at| !reached(exchange, &[key], &number(at), 0).is_empty();
        for at in 0..20 {
            assert!(exchange.bind(key, filter(&format!("body.a = {at}")), queue(1)));
            assert_eq!([at, at + 1].map(|at| goes(&exchange, at)), [true, false], "{kind:?} {at}");
        }
        assert!(exchange.bind(key, Arguments::new(), queue(1)));
        assert!(goes(&exchange, 99));
        assert!(exchange.unbind(key, &Arguments::new(), queue(1)));
        assert!(!goes(&exchange, 99));
        for at in 0..20 {
            assert!(goes(&exchange, at));
            assert!(exchange.unbind(key, &filter(&format!("body.a = {at}")), queue(1)));
            assert!(!goes(&exchange, at), "{kind:?} {at}");
        }
        assert!(exchange.is_unused() && !exchange.has_filters());
    }
}

#[test]
fn little_memory_is_kept_when_much_was_needed() {
    let mut exchange = Exchange::new(Kind::Content);
    exchange.bind(&b""[..], filter("ARRAY_SUM(body.a) = 1 AND body.b = 1"), queue(1));
    let before = exchange.memory_bytes();
    let list = vec!["1"; 1000].join(",");
    assert_eq!(reached(&exchange, &[b""], &Json(format!(r#"{{"a":[{list}],"b":1}}"#)), 0), []);
    let after = exchange.memory_bytes();
    assert!(after < before + (48 << 10), "{before} {after}");
}

#[test]
fn a_kind_that_gives_to_one_chooses_before_it_asks() {
    let mut exchange = Exchange::new(Kind::ModulusHash);
    exchange.bind(&b""[..], Arguments::new(), queue(0));
    exchange.bind(&b""[..], filter("body.a = 1"), queue(1));
    let [wanted, other] = [r#"{"a":1}"#, "{}"].map(|text| Json(text.to_owned()));
    let mut gone = 0;
    for key in 0..100u8 {
        let key: &[u8] = &[key];
        let with = reached(&exchange, &[key], &wanted, 0);
        assert_eq!(with.len(), 1);
        let without = reached(&exchange, &[key], &other, 0);
        assert_eq!(without, if with == [0] { vec![0] } else { vec![] });
        gone += usize::from(without.is_empty());
    }
    assert!((20..80).contains(&gone), "{gone}");
}

#[test]
fn filters_that_cannot_be_read_are_refused() {
    for kind in Kind::ALL {
        let key: &[u8] = if kind == Kind::ConsistentHash { b"1" } else { b"" };
        let refused = kind.check(key, &filter("body.a > > 3")).unwrap_err();
        assert!(matches!(&refused, BindError::Filter(error) if error.at == 9), "{refused}");
        assert!(refused.to_string().starts_with("invalid arg 'x-filter': "), "{refused}");
        let number = [(Box::<[u8]>::from(X_FILTER), Value::long(1))].into_iter().collect();
        assert_eq!(kind.check(key, &number), Err(BindError::FilterType));
    }
}

#[test]
fn many_filters_are_each_asked_as_if_alone() {
    let seed = 20_261_129;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    for round in 0..200 {
        let kinds = [Kind::Fanout, Kind::Direct, Kind::Topic, Kind::Content];
        let mut exchange = Exchange::new(kinds[random.below(4) as usize]);
        let mut bound: Vec<(String, String, u64)> = Vec::new();
        for _ in 0..random.below(60) {
            if random.one_in(4) && !bound.is_empty() {
                let (key, text, id) = bound.swap_remove(random.below(bound.len() as u64) as usize);
                assert!(exchange.unbind(key.as_bytes(), &filter(&text), queue(id)));
                continue;
            }
            let number = random.below(5);
            let text = match random.below(5) {
                0 => format!("body.a = {number}"),
                1 => format!("body.a > {number} AND body.b < 3"),
                2 => format!("body.s LIKE 'x{number}%'"),
                3 => format!("body.a BETWEEN 1 AND {number} OR body.b = {number}"),
                _ => format!("NOT body.a = {number}"),
            };
            let new = (format!("k{}", random.below(3)), text, random.below(20));
            let is_new = !bound.contains(&new);
            assert_eq!(exchange.bind(new.0.as_bytes(), filter(&new.1), queue(new.2)), is_new);
            if is_new {
                bound.push(new);
            }
        }
        assert_eq!(exchange.bindings_count(), bound.len());
        for _ in 0..10 {
            let [a, b, s] = [random.below(6), random.below(6), random.below(6)];
            let content = Json(match random.below(4) {
                0 => format!(r#"{{"a":{a}}}"#),
                1 => format!(r#"{{"a":[{a},{b}],"b":{b}}}"#),
                2 => format!(r#"{{"a":{a},"b":{b},"s":"x{s}y"}}"#),
                _ => format!(r#"{{"b":{b},"a":null"#),
            });
            let key = format!("k{}", random.below(3));
            let is_keyed = matches!(exchange.kind(), Kind::Direct | Kind::Topic);
            let mut expected: Vec<u64> = bound
                .iter()
                .filter(|(own, text, _)| {
                    let program = Program::parse(text, &Limits::content()).unwrap();
                    (!is_keyed || *own == key) && program.matches(&content, &mut Room::default(), 0)
                })
                .map(|(_, _, id)| *id)
                .collect();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(reached(&exchange, &[key.as_bytes()], &content, 0), expected, "round {round}");
        }
    }
}

#[test]
fn filters_that_take_too_many_steps_are_told() {
    let mut exchange = Exchange::new(Kind::Content);
    for at in 0..200 {
        exchange.bind(&b""[..], filter(&format!("REGEXP_LIKE(body.s, '(a|aa)+{at}$')")), queue(at));
    }
    let content = Json(format!(r#"{{"s":"{}"}}"#, "a".repeat(60_000)));
    let mut out = Matches::within(100_000);
    out.start();
    let envelope = Envelope { content: &content, headers: &NoHeaders, ..Envelope::keyed(&[b""]) };
    exchange.route(&envelope, &mut out);
    assert!(out.is_too_dear());
    // And those that do not are found.
    out.start();
    exchange.bind(&b""[..], filter("always"), queue(1000));
    let content = Json("{}".to_owned());
    exchange.route(&Envelope { content: &content, ..Envelope::keyed(&[b""]) }, &mut out);
    assert_eq!(out.queues().collect::<Vec<_>>(), [QueueId(1000)]);
}
