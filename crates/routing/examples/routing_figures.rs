//! The costs of routing: time a route, bytes a binding.
//!
//! `cargo run -p routing --profile quick --example routing_figures`

#![allow(clippy::disallowed_methods, reason = "measuring needs a clock")]

use base::id::QueueId;
use routing::{Arguments, Destination, Envelope, Exchange, Kind, Matches};
use std::time::Instant;

fn measure(name: &str, exchange: &Exchange, keys: &[String]) {
    let mut matches = Matches::default();
    let mut best = f64::MAX;
    let mut found = 0;
    for _ in 0..7 {
        found = 0;
        let start = Instant::now();
        for key in keys {
            matches.start();
            exchange.route(&Envelope::keyed(&[key.as_bytes()]), &mut matches);
            found += matches.destinations().len();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / keys.len() as f64);
    }
    let bindings = exchange.bindings_count().max(1);
    println!(
        "{name:52} {best:10.1} ns a route, {:7.1} found, {:5} bytes a binding",
        found as f64 / keys.len() as f64,
        exchange.memory_bytes() / bindings,
    );
}

fn exchange(kind: Kind, bindings: impl Iterator<Item = (String, u64)>) -> Exchange {
    let mut exchange = Exchange::new(kind);
    for (key, id) in bindings {
        exchange.bind(key.as_bytes(), Arguments::new(), Destination::Queue(QueueId(id)));
    }
    exchange
}

fn main() {
    let many = 100_000;
    let keys =
        |of: &dyn Fn(u64) -> String| -> Vec<String> { (0..20_000).map(|i| of(i * 7919 % many)).collect() };

    let direct = exchange(Kind::Direct, (0..many).map(|i| (format!("queue-with-name-{i:04}"), i)));
    measure("direct, 100,000 keys", &direct, &keys(&|i| format!("queue-with-name-{i:04}")));
    let fanout = exchange(Kind::Fanout, (0..100).map(|i| (String::new(), i)));
    measure("fanout to 100 queues", &fanout, &keys(&|i| i.to_string()));

    let stock = |i: u64| format!("stock.{}.{}.{}", i % 50, i % 1000, i);
    let topic = exchange(Kind::Topic, (0..many).map(|i| (stock(i), i)));
    measure("topic, 100,000 keys without wildcards", &topic, &keys(&stock));
    let patterns = |i: u64| match i % 4 {
        0 => format!("stock.*.{}.{}", i % 1000, i),
        1 => format!("stock.{}.#.{}", i % 50, i),
        2 => format!("*.{}.*.{}", i % 50, i),
        _ => format!("#.{i}"),
    };
    let topic = exchange(Kind::Topic, (0..many).map(|i| (patterns(i), i)));
    measure("topic, 100,000 patterns of four kinds", &topic, &keys(&stock));
    measure("topic, the same, keys that match nothing", &topic, &keys(&|i| format!("other.{i}.x.y.z")));

    let long: String = vec!["a"; 250].join(".");
    let hashes = exchange(Kind::Topic, [("#.a.#".to_string(), 1)].into_iter());
    measure("topic #.a.#, a key of 250 words", &hashes, std::slice::from_ref(&long));
    let worst = exchange(
        Kind::Topic,
        (0..many).map(|i| {
            let depth = (i % 250) as usize;
            (format!("{}#.{}", "a.".repeat(depth), ["a.#", "*.#", "a.*", "#"][(i / 250 % 4) as usize]), i)
        }),
    );
    measure("topic, 100,000 (1,000 different) of a.a.#.a.#, 250 words", &worst, std::slice::from_ref(&long));
}
